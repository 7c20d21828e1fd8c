/* The proof that a plan is right, before it runs. Nothing here trusts what the passes concluded: lifetimes, order and
 * addresses are derived again from the steps and the segments' operands.
 *
 *   reach    every address lies inside the buffer of its slot, aligned, on the device that uses it
 *   order    inside a device: every two accesses to one storage, one of them a write, happen in program order
 *   keep     a value that is read still has the bytes that were written: values that share bytes never interleave
 *   resident weights and states are where the residence has them, and no two of those share bytes
 *   queues   across queues and the host: vector clocks over three consecutive steps; every overlapping pair of
 *            accesses, one of them a write, is ordered by queue order or by an event
 *   versions every node runs once, in program order, on the newest bytes of what it reads, wherever they were made
 *
 * Invariant: a plan for which this returns OK never reads a byte that was not written for it. */
#include "plan/plan.h"

#include "base/alloc.h"
#include "base/size.h"
#include "base/status.h"

#include <stdlib.h>
#include <string.h>

/* One access of a device's queue to a value. */
typedef struct access {
    uint32_t value;
    int32_t position; /* in the device's order */
    uint32_t rank;    /* place of the node in program order; steps count as nodes of their own */
    bool write;
    uint64_t begin, end; /* bytes in the slot's buffer */
} access;

typedef struct proof {
    const plait_plan *plan;
    access *accesses;
    size_t n_accesses, capacity;
} proof;

static const char *value_name(const plait_plan *plan, uint32_t value) {
    return plan->graph->storages[plan->values[value].storage].name;
}

/* ---- reach ---- */

static plait_status slot_bytes(const plait_plan *plan, int device, uint32_t slot, uint64_t *out) {
    const plait_residence_device *row = &plan->residence->devices[device];
    switch (slot) {
    case PLAIT_SLOT_ARENA: *out = plan->devices[device].arena_bytes; return PLAIT_OK;
    case PLAIT_SLOT_INPUTS: *out = plan->devices[device].input_bytes; return PLAIT_OK;
    case PLAIT_SLOT_STATE: *out = row->state_bytes; return PLAIT_OK;
    default: break;
    }
    if (slot - PLAIT_SLOT_WEIGHTS >= row->n_weights)
        return plait_error(PLAIT_INTERNAL, "proof: slot %u does not exist on %s", slot,
                           plan->context->devices[device].device->name);
    *out = row->weight_bytes[slot - PLAIT_SLOT_WEIGHTS];
    return PLAIT_OK;
}

static plait_status check_range(const plait_plan *plan, int device, uint32_t value, uint32_t slot,
                                uint64_t begin, uint64_t size) {
    uint64_t limit = 0, end;
    PLAIT_TRY(slot_bytes(plan, device, slot, &limit));
    if (!plait_add_u64(begin, size, &end) || end > limit)
        return plait_error(PLAIT_INTERNAL,
                           "proof: \"%s\" takes bytes [%llu, +%llu) of a buffer of %llu on %s",
                           value_name(plan, value), (unsigned long long)begin, (unsigned long long)size,
                           (unsigned long long)limit, plan->context->devices[device].device->name);
    return PLAIT_OK;
}

/* ---- collecting accesses ---- */

static plait_status add_access(proof *p, uint32_t value, int32_t position, uint32_t rank, bool write,
                               uint64_t begin, uint64_t size) {
    PLAIT_TRY(
        plait_grow(&p->accesses, &p->capacity, p->n_accesses + 1, sizeof *p->accesses, 1u << 28, "proof"));
    p->accesses[p->n_accesses++] = (access){value, position, rank, write, begin, begin + size};
    return PLAIT_OK;
}

static plait_status add_operand(proof *p, const plait_segment_operand *operand, int device, int32_t position,
                                uint32_t rank, bool write) {
    const plait_plan_value *value = &p->plan->values[operand->value];
    int64_t span = plait_operand_span_bytes(&operand->shape);
    uint64_t size = operand->encoding == PLAIT_ENCODING_FILE ? (uint64_t)span : value->size_bytes;
    if (value->device != device)
        return plait_error(PLAIT_INTERNAL, "proof: %s uses \"%s\", which is on another device",
                           p->plan->context->devices[device].device->name,
                           value_name(p->plan, operand->value));
    if (value->elided) return add_access(p, operand->value, position, rank, write, 0, 0);
    if (operand->slot != value->slot || operand->offset != value->offset + operand->view_offset)
        return plait_error(PLAIT_INTERNAL, "proof: an operand's address is not that of \"%s\"",
                           value_name(p->plan, operand->value));
    if (!operand->is_weight && value->offset % p->plan->context->devices[device].info.alignment != 0)
        return plait_error(PLAIT_INTERNAL, "proof: \"%s\" is at offset %llu, not aligned",
                           value_name(p->plan, operand->value), (unsigned long long)value->offset);
    PLAIT_TRY(check_range(p->plan, device, operand->value, operand->slot, operand->offset, size));
    return add_access(p, operand->value, position, rank, write, operand->offset, size);
}

static plait_status add_node(proof *p, const plait_segment_node *node, int device, int32_t position,
                             uint32_t rank) {
    for (int i = 0; i < node->n_inputs; i++)
        if (node->present >> i & 1u)
            PLAIT_TRY(add_operand(p, &node->inputs[i], device, position, rank, false));
    for (int o = 0; o < node->n_outputs; o++)
        PLAIT_TRY(add_operand(p, &node->outputs[o], device, position, rank, true));
    return PLAIT_OK;
}

static plait_status add_whole(proof *p, int device, uint32_t value, int32_t position, uint32_t rank,
                              bool write) {
    const plait_plan_value *row = &p->plan->values[value];
    uint64_t size = p->plan->graph->storages[row->storage].size_bytes;
    if (row->device != device)
        return plait_error(PLAIT_INTERNAL, "proof: %s moves \"%s\", which is on another device",
                           p->plan->context->devices[device].device->name, value_name(p->plan, value));
    if (row->elided)
        return plait_error(PLAIT_INTERNAL, "proof: \"%s\" is moved but never exists",
                           value_name(p->plan, value));
    PLAIT_TRY(check_range(p->plan, device, value, row->slot, row->offset, size));
    return add_access(p, value, position, rank, write, row->offset, size);
}

/* The part of the value that the host reads. */
static plait_status check_output(const plait_plan *plan, const plait_plan_output *output) {
    uint64_t end, size = plan->graph->storages[plan->values[output->value].storage].size_bytes;
    if (!plait_add_u64(output->source_offset, output->size_bytes, &end) || end > size)
        return plait_error(PLAIT_INTERNAL, "proof: output \"%s\" reads bytes [%llu, +%llu) of %llu",
                           plan->graph->outputs[output->output].name,
                           (unsigned long long)output->source_offset, (unsigned long long)output->size_bytes,
                           (unsigned long long)size);
    return PLAIT_OK;
}

static plait_status check_scratch(const plait_plan *plan, int device, const plait_group *group) {
    uint64_t end;
    if (group->scratch_bytes == 0) return PLAIT_OK;
    if (!plait_add_u64(group->scratch_offset, group->scratch_bytes, &end) ||
        end > plan->devices[device].arena_bytes || group->scratch_offset % group->scratch_alignment != 0)
        return plait_error(PLAIT_INTERNAL, "proof: scratch of %llu bytes at %llu leaves the arena of %llu",
                           (unsigned long long)group->scratch_bytes,
                           (unsigned long long)group->scratch_offset,
                           (unsigned long long)plan->devices[device].arena_bytes);
    return PLAIT_OK;
}

/* `position` is the launch's first one: one a group. */
static plait_status add_launch(proof *p, const plait_plan_step *step, int32_t position, uint32_t rank) {
    const plait_plan_segment *segment = &p->plan->segments[step->item];
    if (segment->device != step->device)
        return plait_error(PLAIT_INTERNAL, "proof: segment %u is launched on another device", step->item);
    for (int g = 0; g < segment->prepared.n_groups; g++) {
        const plait_group *group = &segment->prepared.groups[g];
        PLAIT_TRY(check_scratch(p->plan, step->device, group));
        for (int k = group->first; k < group->first + group->n; k++) {
            int n = segment->prepared.order[k];
            PLAIT_TRY(add_node(p, &segment->nodes[n], step->device, position + g, rank + (uint32_t)n));
        }
    }
    return PLAIT_OK;
}

/* Positions that a step takes in its device's order, and places in program order. */
static int32_t positions_of(const plait_plan *plan, const plait_plan_step *step) {
    return step->kind == PLAIT_STEP_LAUNCH ? plan->segments[step->item].prepared.n_groups : 1;
}

static uint32_t ranks_of(const plait_plan *plan, const plait_plan_step *step) {
    return step->kind == PLAIT_STEP_LAUNCH ? plan->segments[step->item].n_nodes : 1;
}

static plait_status collect(proof *p, int device) {
    uint32_t rank = 0;
    int32_t at = 0;
    p->n_accesses = 0;
    for (size_t s = 0; s < p->plan->n_steps; s++) {
        const plait_plan_step *step = &p->plan->steps[s];
        if (step->device != device) continue;
        const plait_plan_transfer *transfer = &p->plan->transfers[step->item];
        const plait_plan_output *output = &p->plan->outputs[step->item];
        switch (step->kind) {
        case PLAIT_STEP_LAUNCH: PLAIT_TRY(add_launch(p, step, at, rank)); break;
        case PLAIT_STEP_WRITE_INPUT:
            PLAIT_TRY(add_whole(p, device, p->plan->inputs[step->item].value, at, rank, true));
            break;
        case PLAIT_STEP_SEND: PLAIT_TRY(add_whole(p, device, transfer->source, at, rank, false)); break;
        case PLAIT_STEP_RECEIVE: PLAIT_TRY(add_whole(p, device, transfer->target, at, rank, true)); break;
        case PLAIT_STEP_READ_OUTPUT:
            PLAIT_TRY(check_output(p->plan, output));
            PLAIT_TRY(add_whole(p, device, output->value, at, rank, false));
            break;
        }
        at += positions_of(p->plan, step);
        rank += ranks_of(p->plan, step);
    }
    return PLAIT_OK;
}

/* ---- order ---- */

static int by_value(const void *a, const void *b) {
    const access *x = a, *y = b;
    if (x->value != y->value) return x->value < y->value ? -1 : 1;
    if (x->rank != y->rank) return x->rank < y->rank ? -1 : 1;
    return (int)x->write - (int)y->write;
}

/* Accesses of one value sorted by program order: positions must not go back across a write, and the first access of
 * a value that lives in the arena must be a write. */
static plait_status check_value_order(const plait_plan *plan, const access *list, size_t n) {
    int32_t last_write = -1, last_any = -1;
    const plait_plan_value *value = &plan->values[list[0].value];
    for (size_t i = 1; i < n && value->elided; i++)
        if (list[i].position != list[0].position)
            return plait_error(PLAIT_INTERNAL, "proof: \"%s\" never exists, but two groups use it",
                               value_name(plan, list[0].value));
    bool made_here = value->slot == PLAIT_SLOT_ARENA || value->slot == PLAIT_SLOT_INPUTS;
    for (size_t i = 0; i < n; i++) {
        int32_t before = list[i].write ? last_any : last_write;
        if (list[i].position < before)
            return plait_error(PLAIT_INTERNAL,
                               "proof: \"%s\" is %s at position %d, before position %d of an earlier node",
                               value_name(plan, list[i].value), list[i].write ? "written" : "read",
                               list[i].position, before);
        if (made_here && last_write < 0 && !list[i].write)
            return plait_error(PLAIT_INTERNAL, "proof: \"%s\" is read at position %d, before it is written",
                               value_name(plan, list[i].value), list[i].position);
        if (list[i].write && list[i].position > last_write) last_write = list[i].position;
        if (list[i].position > last_any) last_any = list[i].position;
    }
    return PLAIT_OK;
}

/* ---- keep ---- */

/* Whole life of a value in the arena, or of a group's scratch. */
typedef struct life {
    uint32_t value; /* PLAIT_NO_SLOT: scratch */
    uint64_t begin, end;
    int32_t first, last;
} life;

static int by_begin(const void *a, const void *b) {
    const life *x = a, *y = b;
    return x->begin != y->begin ? (x->begin < y->begin ? -1 : 1)
                                : (x->first < y->first ? -1 : x->first > y->first);
}

/* True when the device said that `output` may be written over `input` and the plan took it up. */
static bool may_share(const plait_plan *plan, uint32_t output, uint32_t input) {
    for (size_t s = 0; s < plan->n_segments; s++) {
        const plait_prepared *prepared = &plan->segments[s].prepared;
        for (int k = 0; k < prepared->n_shared; k++)
            if (prepared->shared[k].output == output && prepared->shared[k].input == input) return true;
    }
    return false;
}

static plait_status check_pair(const plait_plan *plan, const life *a, const life *b) {
    if (a->last < b->first || b->last < a->first) return PLAIT_OK;
    const life *early = a->first <= b->first ? a : b, *late = early == a ? b : a;
    bool shared = early->value != PLAIT_NO_SLOT && late->value != PLAIT_NO_SLOT &&
                  early->last == late->first && early->begin == late->begin &&
                  may_share(plan, late->value, early->value);
    if (shared) return PLAIT_OK;
    return plait_error(
        PLAIT_INTERNAL, "proof: \"%s\" [%d, %d] and \"%s\" [%d, %d] share bytes [%llu, %llu) while both live",
        early->value == PLAIT_NO_SLOT ? "scratch" : value_name(plan, early->value), early->first, early->last,
        late->value == PLAIT_NO_SLOT ? "scratch" : value_name(plan, late->value), late->first, late->last,
        (unsigned long long)(a->begin > b->begin ? a->begin : b->begin),
        (unsigned long long)(a->end < b->end ? a->end : b->end));
}

static size_t add_scratch_lives(const plait_plan *plan, int device, life *lives, size_t n) {
    int32_t at = 0;
    for (size_t s = 0; s < plan->n_steps; s++) {
        const plait_plan_step *step = &plan->steps[s];
        if (step->device != device) continue;
        const plait_prepared *prepared = &plan->segments[step->item].prepared;
        for (int g = 0; step->kind == PLAIT_STEP_LAUNCH && g < prepared->n_groups; g++)
            if (prepared->groups[g].scratch_bytes)
                lives[n++] = (life){PLAIT_NO_SLOT, prepared->groups[g].scratch_offset,
                                    prepared->groups[g].scratch_offset + prepared->groups[g].scratch_bytes,
                                    at + g, at + g};
        at += positions_of(plan, step);
    }
    return n;
}

/* Lives of one slot's values; `p->accesses` are sorted by value. Values without bytes share none. */
static plait_status add_lives(const proof *p, uint32_t slot, life *lives, size_t *out_n) {
    const plait_plan *plan = p->plan;
    size_t n = 0;
    for (size_t i = 0; i < p->n_accesses; i++) {
        const access *a = &p->accesses[i];
        const plait_plan_value *value = &plan->values[a->value];
        if (value->slot != slot || value->elided || value->size_bytes == 0) continue;
        if (n == 0 || lives[n - 1].value != a->value)
            lives[n++] =
                (life){a->value, value->offset, value->offset + value->size_bytes, a->position, a->position};
        life *l = &lives[n - 1];
        if (a->begin < l->begin || a->end > l->end)
            return plait_error(PLAIT_INTERNAL, "proof: an access leaves \"%s\"", value_name(plan, a->value));
        if (a->position < l->first) l->first = a->position;
        if (a->position > l->last) l->last = a->position;
    }
    *out_n = n;
    return PLAIT_OK;
}

static plait_status check_keep(const proof *p, int device, life *lives) {
    static const uint32_t slots[] = {PLAIT_SLOT_ARENA, PLAIT_SLOT_INPUTS};
    for (size_t s = 0; s < PLAIT_COUNT_OF(slots); s++) {
        size_t n = 0;
        PLAIT_TRY(add_lives(p, slots[s], lives, &n));
        if (slots[s] == PLAIT_SLOT_ARENA) n = add_scratch_lives(p->plan, device, lives, n);
        if (n) qsort(lives, n, sizeof *lives, by_begin);
        for (size_t i = 0; i < n; i++)
            for (size_t k = i + 1; k < n && lives[k].begin < lives[i].end; k++)
                PLAIT_TRY(check_pair(p->plan, &lives[i], &lives[k]));
    }
    return PLAIT_OK;
}

/* ---- resident ---- */

static int by_place(const void *a, const void *b) {
    const plait_resident *x = *(const plait_resident *const *)a, *y = *(const plait_resident *const *)b;
    if (x->device != y->device) return x->device < y->device ? -1 : 1;
    if (x->slot != y->slot) return x->slot < y->slot ? -1 : 1;
    return x->offset < y->offset ? -1 : x->offset > y->offset;
}

static plait_status check_entries(const plait_residence *residence, const plait_resident **sorted) {
    for (size_t i = 0; i < residence->n_entries; i++) sorted[i] = &residence->entries[i];
    if (residence->n_entries) qsort(sorted, residence->n_entries, sizeof *sorted, by_place);
    for (size_t i = 1; i < residence->n_entries; i++) {
        const plait_resident *a = sorted[i - 1], *b = sorted[i];
        if (a->device == b->device && a->slot == b->slot && a->offset + a->size_bytes > b->offset)
            return plait_error(PLAIT_INTERNAL, "proof: \"%s\" and \"%s\" share bytes of %s", a->name, b->name,
                               residence->context->devices[a->device].device->name);
    }
    return PLAIT_OK;
}

static plait_status check_resident(const plait_plan *plan) {
    const plait_resident **sorted = plait_alloc_array(plan->residence->n_entries, sizeof *sorted);
    if (!sorted) return plait_error_memory("proof", plan->residence->n_entries * sizeof *sorted);
    plait_status status = check_entries(plan->residence, sorted);
    free(sorted);
    for (uint32_t v = 0; status == PLAIT_OK && v < plan->n_values; v++) {
        const plait_plan_value *value = &plan->values[v];
        if (value->slot == PLAIT_SLOT_ARENA || value->slot == PLAIT_SLOT_INPUTS) continue;
        const plait_resident *entry =
            plait_residence_find(plan->residence, value_name(plan, v), value->device);
        bool there = entry && entry->slot == value->slot && entry->offset == value->offset &&
                     entry->size_bytes == value->size_bytes && entry->encoding == value->encoding;
        if (!there)
            status = plait_error(PLAIT_INTERNAL, "proof: \"%s\" is not where the residence has it",
                                 value_name(plan, v));
    }
    return status;
}

static plait_status prove_device(proof *p, int device) {
    PLAIT_TRY(collect(p, device));
    if (p->n_accesses) qsort(p->accesses, p->n_accesses, sizeof *p->accesses, by_value);
    for (size_t i = 0, end; i < p->n_accesses; i = end) {
        for (end = i + 1; end < p->n_accesses && p->accesses[end].value == p->accesses[i].value;) end++;
        PLAIT_TRY(check_value_order(p->plan, p->accesses + i, end - i));
    }
    life *lives = plait_alloc_array(p->plan->n_values + (size_t)p->plan->facts.n_groups, sizeof *lives);
    if (!lives) return plait_error_memory("proof", p->plan->n_values * sizeof *lives);
    plait_status status = check_keep(p, device, lives);
    free(lives);
    return status;
}

plait_status plait_plan_verify(const plait_plan *plan) {
    proof p = {.plan = plan};
    plait_status status = PLAIT_OK;
    for (int d = 0; status == PLAIT_OK && d < plan->context->n_devices; d++) status = prove_device(&p, d);
    free(p.accesses);
    if (status == PLAIT_OK) status = check_resident(plan);
    if (status == PLAIT_OK) status = plait_plan_verify_staging(plan);
    if (status == PLAIT_OK) status = plait_plan_verify_queues(plan);
    if (status == PLAIT_OK) status = plait_plan_verify_versions(plan);
    return status;
}
