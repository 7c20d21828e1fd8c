/* The proof that a plan is right, before it runs. Nothing here trusts what the passes concluded: lifetimes, order and
 * addresses are derived again from the steps and the segments' operands.
 *
 *   reach    every value lies inside the buffer of its slot, aligned, on the device that uses it, every access in one
 *   order    inside a device: every two accesses to one storage, one of them a write, happen in program order
 *   keep     a value that is read still has the bytes that were written: values that share bytes never interleave
 *   resident weights and states are where the residence has them, and no two of those share bytes
 *   queues   across queues and the host: vector clocks over three consecutive steps; every overlapping pair of
 *            accesses, one of them a write, is ordered by queue order or by an event
 *   versions every node runs once, in program order, on the newest bytes of what it reads, wherever they were made
 *
 * Invariant: a plan for which this returns OK never reads a byte that was not written for it. */
#include "plan/plan.h"

#include "base/size.h"
#include "base/sort.h"
#include "base/status.h"
#include "plan/verify.h"

#include <string.h>

/* What is known of a value while the accesses of its device are walked in program order. A moment is a position of the
 * device, and in its low half the place in the order in which that launch's nodes run. */
typedef struct track {
    int64_t last_write, last_any; /* the latest moments so far, -1: none */
    uint64_t offset;              /* in the slot that operands name */
    uint32_t slot;
    int32_t first;  /* the first position so far, -1: none */
    bool from_host; /* an input that the host writes where the device has it */
    bool has_bytes; /* in the arena or among the inputs */
} track;

typedef struct proof {
    const plait_plan *plan;
    plait_arena scratch;
    track *tracks;     /* [value] */
    uint64_t **limits; /* [device][slot] bytes */
    int64_t *moments;  /* [node of the segment at hand] from the launch's first position on */
    plait_life *lives;
    plait_life_pairs pairs;
} proof;

/* For messages: of the storage that it is an instance of. */
static const char *value_name(const plait_plan *plan, uint32_t value) {
    return plan->graph->storages[plan->values[value].storage].name;
}

/* ---- reach ---- */

/* Bytes of every slot of a device: what an address there may reach. */
static plait_status find_limits(proof *p, int device) {
    const plait_plan *plan = p->plan;
    const plait_residence_device *row = &plan->residence->devices[device];
    uint64_t chunk = plan->context->devices[device].chunk_bytes, left = plan->devices[device].arena_bytes;
    size_t n_slots = plait_plan_slot_count(plan, device);
    uint64_t *limits = plait_arena_alloc(&p->scratch, n_slots, sizeof *limits);
    if (!limits) return plait_error_memory("proof", n_slots * sizeof *limits);
    limits[PLAIT_SLOT_INPUTS] = plan->devices[device].input_bytes;
    limits[PLAIT_SLOT_STATE] = row->state_bytes;
    for (size_t w = 0; w < row->n_weights; w++) limits[PLAIT_SLOT_WEIGHTS + w] = row->weight_bytes[w];
    for (uint64_t c = 0; c == 0 || left; c++) { /* the last chunk may be shorter */
        uint64_t *limit = &limits[plait_plan_chunk_slot(plan, device, c)];
        *limit = chunk && left > chunk ? chunk : left;
        left -= *limit;
    }
    p->limits[device] = limits;
    return PLAIT_OK;
}

/* The value lies in a slot of its device, aligned. Weights are aligned by their own encoding's demand, which the
 * residence has seen to. Slot and offset are kept as operands will have to name them. */
static plait_status check_value(proof *p, uint32_t v) {
    const plait_plan *plan = p->plan;
    const plait_plan_value *value = &plan->values[v];
    track *t = &p->tracks[v];
    uint64_t end;
    t->slot = value->slot, t->offset = value->offset;
    if (value->elided) return PLAIT_OK;
    plait_plan_cut(plan, value->device, &t->slot, &t->offset);
    bool there = t->slot < plait_plan_slot_count(plan, value->device);
    const plait_context_entry *device = &plan->context->devices[value->device];
    if (!there)
        return plait_error(PLAIT_INTERNAL, "proof: slot %u does not exist on %s", t->slot,
                           device->device->name);
    bool weight = plan->graph->storages[value->storage].kind == PLAIT_STORAGE_WEIGHT;
    if (!weight && (value->offset & (device->info.alignment - 1)))
        return plait_error(PLAIT_INTERNAL, "proof: \"%s\" is at offset %llu, not aligned",
                           value_name(plan, v), (unsigned long long)value->offset);
    t->has_bytes = (value->slot == PLAIT_SLOT_ARENA || value->slot == PLAIT_SLOT_INPUTS) && value->size_bytes;
    uint64_t limit = p->limits[value->device][t->slot];
    if (plait_add_u64(t->offset, value->size_bytes, &end) && end <= limit) return PLAIT_OK;
    return plait_error(PLAIT_INTERNAL, "proof: \"%s\" takes bytes [%llu, +%llu) of a buffer of %llu on %s",
                       value_name(plan, v), (unsigned long long)t->offset,
                       (unsigned long long)value->size_bytes, (unsigned long long)limit,
                       device->device->name);
}

/* ---- accesses, in program order ---- */

/* The position of a moment; the low half is the place among the launch's nodes. */
static int position_of(int64_t moment) {
    return (int)(moment >> 32);
}

/* Which of the three rules was broken: the message is made only when one is, so that add_access() stays short. */
static plait_status out_of_order(const proof *p, uint32_t v, int64_t moment, bool write) {
    const track *t = &p->tracks[v];
    if (p->plan->values[v].elided && t->first >= 0 && position_of(moment) != t->first)
        return plait_error(PLAIT_INTERNAL, "proof: \"%s\" never exists, but two groups use it",
                           value_name(p->plan, v));
    if (moment < (write ? t->last_any : t->last_write))
        return plait_error(PLAIT_INTERNAL,
                           "proof: \"%s\" is %s at position %d, before position %d of an earlier node",
                           value_name(p->plan, v), write ? "written" : "read", position_of(moment),
                           position_of(write ? t->last_any : t->last_write));
    return plait_error(PLAIT_INTERNAL, "proof: \"%s\" is read at position %d, before it is written",
                       value_name(p->plan, v), position_of(moment));
}

/* Moments must not go back across a write, the first access of a value that the plan makes must be a write, and one
 * that never exists stays in one group. Position alone would not do: inside a group the device's order is compared as
 * well. Called for every operand of a plan, so nothing here allocates or formats. */
static inline plait_status add_access(proof *p, uint32_t v, int64_t moment, bool write) {
    const plait_plan_value *value = &p->plan->values[v];
    track *t = &p->tracks[v];
    int32_t position = position_of(moment);
    bool made_here = value->slot == PLAIT_SLOT_ARENA || (value->slot == PLAIT_SLOT_INPUTS && !t->from_host);
    if (moment < (write ? t->last_any : t->last_write) || (made_here && !write && t->last_write < 0) ||
        (value->elided && t->first >= 0 && position != t->first))
        return out_of_order(p, v, moment, write);
    if (write) t->last_write = moment; /* it is the last of any kind, too */
    if (moment > t->last_any) t->last_any = moment;
    if (t->first < 0 || position < t->first) t->first = position;
    return PLAIT_OK;
}

static plait_status wrong_device(const proof *p, int device, uint32_t v, const char *does) {
    return plait_error(PLAIT_INTERNAL, "proof: %s %s \"%s\", which is on another device",
                       p->plan->context->devices[device].device->name, does, value_name(p->plan, v));
}

static plait_status wrong_address(const proof *p, uint32_t v) {
    return plait_error(PLAIT_INTERNAL, "proof: an operand's address is not that of \"%s\"",
                       value_name(p->plan, v));
}

/* `span_bytes`: of the graph's tensor, which the operand is (verify_versions.c proves it). The value itself lies in its
 * slot, so what lies in the value does. */
static inline plait_status add_operand(proof *p, const plait_segment_operand *operand, uint64_t span_bytes,
                                       int device, int64_t moment, bool write) {
    const plait_plan_value *value = &p->plan->values[operand->value];
    const track *t = &p->tracks[operand->value];
    uint64_t size = operand->encoding == PLAIT_ENCODING_FILE ? span_bytes : value->size_bytes;
    if (value->device != device) return wrong_device(p, device, operand->value, "uses");
    if (!value->elided) {
        if (operand->slot != t->slot || operand->offset != t->offset + operand->view_offset ||
            operand->encoding != value->encoding)
            return wrong_address(p, operand->value);
        if (operand->view_offset > value->size_bytes || size > value->size_bytes - operand->view_offset)
            return plait_error(PLAIT_INTERNAL, "proof: an access leaves \"%s\"",
                               value_name(p->plan, operand->value));
    }
    return add_access(p, operand->value, moment, write);
}

/* The graph's node gives the spans, so an operand that claims fewer bytes than it will touch is found. Whether operands
 * are otherwise the graph's is proved in verify_versions.c. */
static plait_status add_node(proof *p, const plait_segment_node *node, int device, int64_t moment) {
    const plait_graph *graph = p->plan->graph;
    const plait_graph_node *row = node->node < graph->n_nodes ? &graph->nodes[node->node] : NULL;
    if (!row || row->n_inputs != node->n_inputs || row->n_outputs != node->n_outputs ||
        row->present != node->present)
        return plait_error(PLAIT_INTERNAL, "proof: node %u is not the graph's", node->node);
    for (int i = 0; i < node->n_inputs; i++) {
        /* What an op writes rows of it does not read; what else must be there is proved in verify_versions.c. */
        bool written = i == row->op->writes_input && row->op->write_part == PLAIT_WRITES_ROWS;
        if (node->present >> i & 1u)
            PLAIT_TRY(add_operand(p, &node->inputs[i], graph->tensors[row->inputs[i]].span_bytes, device,
                                  moment, written));
    }
    for (int o = 0; o < node->n_outputs; o++)
        PLAIT_TRY(add_operand(p, &node->outputs[o], graph->tensors[row->outputs[o]].span_bytes, device,
                              moment, true));
    return PLAIT_OK;
}

/* Bytes [begin, end) of the value, moved by a step that is no launch. */
static plait_status add_part(proof *p, int device, uint32_t value, uint64_t begin, uint64_t end,
                             int32_t position, bool write) {
    const plait_plan_value *row = &p->plan->values[value];
    uint64_t size = p->plan->graph->storages[row->storage].size_bytes;
    if (begin > end || end > size || size > row->size_bytes)
        return plait_error(PLAIT_INTERNAL, "proof: bytes [%llu, %llu) of \"%s\" are moved, which has %llu",
                           (unsigned long long)begin, (unsigned long long)end, value_name(p->plan, value),
                           (unsigned long long)size);
    if (row->device != device) return wrong_device(p, device, value, "moves");
    if (row->elided)
        return plait_error(PLAIT_INTERNAL, "proof: \"%s\" is moved but never exists",
                           value_name(p->plan, value));
    return add_access(p, value, (int64_t)position << 32, write);
}

/* All bytes of the storage, for inputs and outputs. */
static plait_status add_whole(proof *p, int device, uint32_t value, int32_t position, bool write) {
    uint64_t size = p->plan->graph->storages[p->plan->values[value].storage].size_bytes;
    return add_part(p, device, value, 0, size, position, write);
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

/* In a chunk of the arena, aligned as the group asks, within the chunk's end. */
static plait_status check_scratch(const proof *p, int device, const plait_group *group) {
    uint64_t end;
    if (group->scratch_bytes == 0) return PLAIT_OK;
    uint32_t slot = group->scratch_slot;
    if (plait_plan_join(p->plan, device, slot, 0) != UINT64_MAX &&
        plait_add_u64(group->scratch_offset, group->scratch_bytes, &end) && end <= p->limits[device][slot] &&
        (group->scratch_offset & (group->scratch_alignment - 1)) == 0)
        return PLAIT_OK;
    return plait_error(PLAIT_INTERNAL, "proof: scratch of %llu bytes at %llu leaves the arena of %llu",
                       (unsigned long long)group->scratch_bytes, (unsigned long long)group->scratch_offset,
                       (unsigned long long)p->plan->devices[device].arena_bytes);
}

/* `position` is the launch's first one: one a group. Groups run in their order, nodes are walked in that of the program. */
static plait_status add_launch(proof *p, const plait_plan_step *step, int32_t position) {
    const plait_plan_segment *segment = &p->plan->segments[step->item];
    const plait_prepared *prepared = &segment->prepared;
    if (segment->device != step->device)
        return plait_error(PLAIT_INTERNAL, "proof: segment %u is launched on another device", step->item);
    for (int g = 0; g < prepared->n_groups; g++) {
        const plait_group *group = &prepared->groups[g];
        PLAIT_TRY(check_scratch(p, step->device, group));
        for (int k = group->first; k < group->first + group->n; k++)
            p->moments[prepared->order[k]] = (int64_t)(position + g) << 32 | k;
    }
    for (uint32_t n = 0; n < segment->n_nodes; n++)
        PLAIT_TRY(add_node(p, &segment->nodes[n], step->device, p->moments[n]));
    return PLAIT_OK;
}

/* Positions that a step takes in its device's order. */
static int32_t positions_of(const plait_plan *plan, const plait_plan_step *step) {
    return step->kind == PLAIT_STEP_LAUNCH ? plan->segments[step->item].prepared.n_groups : 1;
}

/* True for a step that touches the device's memory: of its own device, or for a move of either one. */
static bool concerns(const plait_plan *plan, const plait_plan_step *step, int device) {
    if (step->kind != PLAIT_STEP_MOVE) return step->device == device;
    const plait_plan_transfer *transfer = &plan->transfers[step->item];
    return plan->values[transfer->source].device == device || plan->values[transfer->target].device == device;
}

/* What of a transfer happens to this device's memory. A move is one command on one queue, but touches two devices; each
 * is walked on its own. */
static plait_status add_transfer(proof *p, const plait_plan_step *step, int device, int32_t at) {
    const plait_plan_transfer *transfer = &p->plan->transfers[step->item];
    const plait_plan_part *part = &transfer->part;
    bool move = step->kind == PLAIT_STEP_MOVE; /* each side counts on its own device */
    bool from = move ? p->plan->values[transfer->source].device == device : step->kind == PLAIT_STEP_SEND;
    bool to = move ? p->plan->values[transfer->target].device == device : step->kind == PLAIT_STEP_RECEIVE;
    if (from) PLAIT_TRY(add_part(p, device, transfer->source, part->begin, part->end, at, false));
    return to ? add_part(p, device, transfer->target, part->begin, part->end, at, true) : PLAIT_OK;
}

/* The accesses to one device's memory, in the order of the list. Positions are numbered here anew: a launch takes one
 * for each group, any other step one, so they are not those of the plan, which is not trusted. */
static plait_status collect(proof *p, int device) {
    int32_t at = 0;
    for (size_t s = 0; s < p->plan->n_steps; s++) {
        const plait_plan_step *step = &p->plan->steps[s];
        if (!concerns(p->plan, step, device)) continue;
        switch (step->kind) {
        case PLAIT_STEP_LAUNCH: PLAIT_TRY(add_launch(p, step, at)); break;
        case PLAIT_STEP_WRITE_INPUT:
            PLAIT_TRY(add_whole(p, device, p->plan->inputs[step->item].value, at, true));
            break;
        case PLAIT_STEP_MOVE:
        case PLAIT_STEP_SEND:
        case PLAIT_STEP_RECEIVE: PLAIT_TRY(add_transfer(p, step, device, at)); break;
        case PLAIT_STEP_READ_OUTPUT:
            PLAIT_TRY(check_output(p->plan, &p->plan->outputs[step->item]));
            PLAIT_TRY(add_whole(p, device, p->plan->outputs[step->item].value, at, false));
            break;
        }
        at += positions_of(p->plan, step);
    }
    return PLAIT_OK;
}

/* ---- keep: lives of values and scratch, compared in verify_keep.c ---- */

/* Positions are counted as collect() counts them. */
static size_t add_scratch_lives(const plait_plan *plan, int device, plait_life *lives, size_t n) {
    int32_t at = 0;
    for (size_t s = 0; s < plan->n_steps; s++) {
        const plait_plan_step *step = &plan->steps[s];
        if (!concerns(plan, step, device)) continue;
        bool launch = step->kind == PLAIT_STEP_LAUNCH;
        const plait_prepared *prepared = launch ? &plan->segments[step->item].prepared : NULL;
        for (int g = 0; launch && g < prepared->n_groups; g++) {
            const plait_group *group = &prepared->groups[g];
            uint64_t begin = plait_plan_join(plan, device, group->scratch_slot, group->scratch_offset);
            if (group->scratch_bytes)
                lives[n++] = (plait_life){begin, begin + group->scratch_bytes, at + g, at + g, PLAIT_NO_SLOT};
        }
        at += positions_of(plan, step);
    }
    return n;
}

/* Lives of the values of one slot. Values without bytes share none. */
static size_t add_lives(const proof *p, int device, uint32_t slot, plait_life *lives) {
    size_t n = 0;
    for (uint32_t v = 0; v < p->plan->n_values; v++) {
        const plait_plan_value *value = &p->plan->values[v];
        const track *t = &p->tracks[v];
        if (value->device != device || value->slot != slot || !t->has_bytes || t->first < 0) continue;
        lives[n++] = (plait_life){value->offset, value->offset + value->size_bytes, t->first,
                                  position_of(t->last_any), v};
    }
    return n;
}

/* The arena with its scratch, then the inputs; residents are compared by address alone (check_resident), since they
 * live for ever. */
static plait_status check_keep(proof *p, int device) {
    size_t n = add_lives(p, device, PLAIT_SLOT_ARENA, p->lives);
    n = add_scratch_lives(p->plan, device, p->lives, n);
    PLAIT_TRY(plait_plan_verify_keep(p->plan, &p->pairs, p->lives, n));
    n = add_lives(p, device, PLAIT_SLOT_INPUTS, p->lives);
    return plait_plan_verify_keep(p->plan, &p->pairs, p->lives, n);
}

/* ---- resident ---- */

/* Where the residents of every slot of a device end that were met so far. */
typedef struct slot_ends {
    uint64_t *ends; /* [device * most + slot] */
    size_t most;
} slot_ends;

/* As many slots for each device as the one with the most has. */
static plait_status init_ends(proof *p, slot_ends *out) {
    const plait_residence *residence = p->plan->residence;
    size_t n = (size_t)residence->context->n_devices;
    out->most = 0;
    for (size_t d = 0; d < n; d++)
        if (residence->devices[d].n_weights > out->most) out->most = residence->devices[d].n_weights;
    out->most += PLAIT_SLOT_WEIGHTS;
    out->ends = plait_arena_alloc(&p->scratch, n * out->most, sizeof *out->ends);
    return out->ends ? PLAIT_OK : plait_error_memory("proof", n * out->most * sizeof *out->ends);
}

typedef struct placed {
    const plait_resident *entry;
} placed;

static bool lies_before(const placed *a, const placed *b) {
    const plait_resident *x = a->entry, *y = b->entry;
    if (x->device != y->device) return x->device < y->device;
    return x->slot != y->slot ? x->slot < y->slot : x->offset < y->offset;
}

PLAIT_DEFINE_SORT(sort_placed, placed, lies_before)

/* No two residents share bytes. Of one slot they are mostly listed as they lie; whoever lies before its end so far
 * makes all of them be sorted. Sorted, an entry needs to be compared with the one before it only: if any two share
 * bytes, two neighbours do, entries without bytes aside. */
static plait_status check_entries(proof *p) {
    const plait_residence *residence = p->plan->residence;
    size_t n = residence->n_entries, i = 0;
    slot_ends ends;
    PLAIT_TRY(init_ends(p, &ends));
    for (; i < n; i++) {
        const plait_resident *entry = &residence->entries[i];
        if (entry->slot >= ends.most) break;
        uint64_t *end = &ends.ends[(size_t)entry->device * ends.most + entry->slot];
        if (entry->offset < *end) break;
        *end = entry->offset + entry->size_bytes;
    }
    if (i == n) return PLAIT_OK;
    placed *sorted = plait_arena_alloc(&p->scratch, n, sizeof *sorted);
    if (!sorted) return plait_error_memory("proof", n * sizeof *sorted);
    for (i = 0; i < n; i++) sorted[i].entry = &residence->entries[i];
    sort_placed(sorted, n);
    for (i = 1; i < n; i++) {
        const plait_resident *a = sorted[i - 1].entry, *b = sorted[i].entry;
        if (a->device == b->device && a->slot == b->slot && a->offset + a->size_bytes > b->offset)
            return plait_error(PLAIT_INTERNAL, "proof: \"%s\" and \"%s\" share bytes of %s", a->name, b->name,
                               residence->context->devices[a->device].device->name);
    }
    return PLAIT_OK;
}

/* Every instance of a weight or state, against the residence: a plan cannot move them. */
static plait_status check_resident(proof *p) {
    const plait_plan *plan = p->plan;
    PLAIT_TRY(check_entries(p));
    for (uint32_t v = 0; v < plan->n_values; v++) {
        const plait_plan_value *value = &plan->values[v];
        if (value->slot == PLAIT_SLOT_ARENA || value->slot == PLAIT_SLOT_INPUTS) continue;
        const plait_resident *entry = plait_plan_resident(plan, value->storage, value->device);
        const char *name = value_name(plan, v);
        bool there = entry && entry->slot == value->slot && entry->offset == value->offset &&
                     entry->size_bytes == value->size_bytes && entry->encoding == value->encoding &&
                     strcmp(entry->name, name) == 0;
        if (!there)
            return plait_error(PLAIT_INTERNAL, "proof: \"%s\" is not where the residence has it", name);
    }
    return PLAIT_OK;
}

/* ---- together ---- */

/* Tracks begin with nothing known; inputs that the host writes in place are marked, as their first access may be a
 * read. */
static plait_status allocate(proof *p) {
    const plait_plan *plan = p->plan;
    size_t n_lives = plan->n_values + (size_t)plan->facts.n_groups;
    p->tracks = plait_arena_take(&p->scratch, plan->n_values, sizeof *p->tracks);
    p->limits = plait_arena_take(&p->scratch, (size_t)plan->context->n_devices, sizeof *p->limits);
    p->moments = plait_arena_take(&p->scratch, plan->graph->n_nodes, sizeof *p->moments);
    p->lives = plait_arena_take(&p->scratch, n_lives, sizeof *p->lives);
    if (!p->tracks || !p->limits || !p->moments || !p->lives)
        return plait_error_memory("proof", n_lives * sizeof *p->lives);
    for (size_t v = 0; v < plan->n_values; v++)
        p->tracks[v] = (track){.last_write = -1, .last_any = -1, .first = -1};
    for (size_t i = 0; i < plan->n_inputs; i++)
        if (plan->inputs[i].device >= 0 && plan->inputs[i].home == i)
            p->tracks[plan->inputs[i].value].from_host = true;
    return plait_life_pairs_init(&p->pairs, plan, &p->scratch);
}

/* The index in the table of the step's kind. */
static bool item_exists(const plait_plan *plan, const plait_plan_step *step) {
    switch (step->kind) {
    case PLAIT_STEP_WRITE_INPUT: return step->item < plan->n_inputs && plan->inputs[step->item].device >= 0;
    case PLAIT_STEP_LAUNCH: return step->item < plan->n_segments;
    case PLAIT_STEP_MOVE:
    case PLAIT_STEP_SEND:
    case PLAIT_STEP_RECEIVE: return step->item < plan->n_transfers;
    case PLAIT_STEP_READ_OUTPUT: return step->item < plan->n_outputs;
    }
    return false;
}

/* Everything that steps, transfers, inputs and outputs name exists. All that follows looks things up by these numbers. */
static plait_status check_names(const plait_plan *plan) {
    bool fine = true;
    for (size_t t = 0; t < plan->n_transfers; t++)
        fine =
            fine && plan->transfers[t].source < plan->n_values && plan->transfers[t].target < plan->n_values;
    for (size_t i = 0; i < plan->n_inputs; i++)
        fine = fine && plan->inputs[i].device < plan->context->n_devices &&
               (plan->inputs[i].device < 0 || plan->inputs[i].value < plan->n_values);
    for (size_t o = 0; o < plan->n_outputs; o++) fine = fine && plan->outputs[o].value < plan->n_values;
    if (!fine)
        return plait_error(PLAIT_INTERNAL,
                           "proof: a transfer, input or output names a value that there is not");
    for (size_t s = 0; s < plan->n_steps; s++)
        if (!item_exists(plan, &plan->steps[s]))
            return plait_error(PLAIT_INTERNAL, "proof: step %zu carries out what there is not", s);
    return PLAIT_OK;
}

/* Names first, then values: everything that is walked afterwards relies on their slots and offsets. The proof across
 * queues wants
 * staging proved, that of versions wants order inside of devices. */
static plait_status prove(proof *p) {
    PLAIT_TRY(check_names(p->plan));
    PLAIT_TRY(allocate(p));
    for (int d = 0; d < p->plan->context->n_devices; d++) PLAIT_TRY(find_limits(p, d));
    for (uint32_t v = 0; v < p->plan->n_values; v++) PLAIT_TRY(check_value(p, v));
    for (int d = 0; d < p->plan->context->n_devices; d++) {
        PLAIT_TRY(collect(p, d));
        PLAIT_TRY(check_keep(p, d));
    }
    PLAIT_TRY(check_resident(p));
    PLAIT_TRY(plait_plan_verify_copies(p->plan));
    PLAIT_TRY(plait_plan_verify_staging(p->plan));
    PLAIT_TRY(plait_plan_verify_queues(p->plan));
    return plait_plan_verify_versions(p->plan);
}

plait_status plait_plan_verify(const plait_plan *plan) {
    proof p = {.plan = plan};
    plait_arena_init_pooled(&p.scratch, &plan->context->pool);
    plait_status status = prove(&p);
    plait_arena_deinit(&p.scratch);
    return status;
}
