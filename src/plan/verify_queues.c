/* The part of the proof that spans queues: vector clocks over the host and every queue of the plan, for one step more
 * than may be in flight. Every byte that anybody touches is looked at: arenas and scratch, state, inputs, staging. Two
 * accesses to one byte, one of them a write, must be ordered by the order of a queue, by a wait, or by the host, which
 *
 *   - before it writes inputs of step s waits for the end of step s - depth, and may until then read that step's outputs;
 *   - submits step s to all queues afterwards.
 *
 * What comes of a wait is taken from the plan as a run carries it out: the waited-for step's clock, at its signal. All
 * waits go backwards in the list of steps, so every order of execution that they allow gives what the list gives one
 * after the other, and that is what verify.c and verify_versions.c look at.
 *
 * Hand-over: a run begins by waiting, on every queue, for what earlier runs did to the devices in the queue's `touches`;
 * so all that a queue touches must be among them.
 *
 * Also proved: every queue reaches the memory that its commands name.
 *
 * Invariant: nothing here is taken from order.c but the waits and signals themselves. Lane 0 is the host. */
#include "plan/plan.h"

#include "base/alloc.h"
#include "base/size.h"
#include "base/status.h"
#include "plan/touches.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Memory as one row of bytes: of every device arena, state and, for each step in flight, inputs; then the host's staging
 * areas, for each step in flight. */
typedef struct row_of_device {
    uint64_t arena, state, inputs;
} row_of_device;

typedef struct queues {
    const plait_plan *plan;
    plait_arena arena; /* all tables but those that grow */
    size_t n_lanes, round;
    uint32_t *lane_of; /* [queue of the plan]; 0: not used */
    uint32_t *now;     /* [lane][lane] */
    uint32_t *row_of;  /* [step] + 1 where its clock is kept, for steps that signal */
    uint32_t *clocks;  /* [round % 2][signalling step][lane] */
    uint32_t *ends;    /* [round % depth][lane][lane] clocks of the awaited lanes at the end of a step */
    size_t n_rows;
    row_of_device *rows; /* [device] */
    uint64_t input_staging, output_staging, transfer_staging;
    plait_span *shared; /* what queues other than a device's launches touch of its arena and state */
    size_t n_shared;
    plait_accesses accesses;
    size_t *
        begins; /* [step] where its accesses begin; behind those of the steps: outputs that the host reads, inputs
                     * that it writes, and the end */
    plait_touches touches;
    /* The access that is looked at, for the message. */
    uint32_t lane, stamp;
    uint32_t late_lane, late_stamp;
    bool late;
} queues;

/* ---- staging ---- */

typedef struct range {
    uint64_t begin, size;
    uint32_t area, owner;
} range;

/* By area, then by begin, for check_ranges(). */
static int by_place(const void *a, const void *b) {
    const range *x = a, *y = b;
    if (x->area != y->area) return x->area < y->area ? -1 : 1;
    return x->begin < y->begin ? -1 : x->begin > y->begin;
}

/* Ranges of different owners lie inside their area and share no byte. Reorders them. Of one owner several may lie at
 * one place: an input that several devices read has one in staging. */
static plait_status check_ranges(range *ranges, size_t n, const uint64_t *areas, const char *what) {
    uint64_t end = 0;
    if (n) qsort(ranges, n, sizeof *ranges, by_place);
    for (size_t i = 0; i < n; i++) {
        const range *r = &ranges[i];
        if (i == 0 || r->area != ranges[i - 1].area) end = 0;
        if (r->size == 0 || (end > 0 && r->owner == ranges[i - 1].owner)) continue;
        if (r->begin < end || r->begin > areas[r->area] || r->size > areas[r->area] - r->begin)
            return plait_error(PLAIT_INTERNAL,
                               "proof: %s: bytes [%llu, +%llu) are another's or leave the area of %llu", what,
                               (unsigned long long)r->begin, (unsigned long long)r->size,
                               (unsigned long long)areas[r->area]);
        end = r->begin + r->size;
    }
    return PLAIT_OK;
}

/* The host writes an input once: all who read it find it in that place. `ranges` is room; a home is told from an offset
 * by counting down from the end. */
static plait_status check_one_place(const plait_plan *plan, range *ranges) {
    for (size_t i = 0; i < plan->n_inputs; i++) {
        const plait_plan_input *input = &plan->inputs[i];
        uint64_t at = input->home == PLAIT_NO_SLOT ? input->host_offset : UINT64_MAX - input->home;
        ranges[i] = (range){.begin = at, .area = input->storage};
    }
    if (plan->n_inputs) qsort(ranges, plan->n_inputs, sizeof *ranges, by_place);
    for (size_t i = 1; i < plan->n_inputs; i++)
        if (ranges[i].area == ranges[i - 1].area && ranges[i].begin != ranges[i - 1].begin)
            return plait_error(PLAIT_INTERNAL, "proof: input staging: \"%s\" is expected in two places",
                               plan->graph->storages[ranges[i].area].name);
    return PLAIT_OK;
}

/* Inputs in devices' buffers, then in the host's staging. */
static plait_status check_inputs(const plait_plan *plan, range *ranges, uint64_t *areas) {
    size_t n = 0;
    PLAIT_TRY(check_one_place(plan, ranges));
    for (int d = 0; d < plan->context->n_devices; d++) areas[d] = plan->devices[d].input_bytes;
    for (size_t i = 0; i < plan->n_inputs; i++) {
        const plait_plan_input *input = &plan->inputs[i];
        if (input->device < 0) continue;
        ranges[n++] =
            (range){plan->values[input->value].offset, plan->graph->storages[input->storage].size_bytes,
                    (uint32_t)input->device, (uint32_t)i};
    }
    PLAIT_TRY(check_ranges(ranges, n, areas, "inputs"));
    n = 0;
    for (size_t i = 0; i < plan->n_inputs; i++) {
        const plait_plan_input *input = &plan->inputs[i];
        if (input->home == PLAIT_NO_SLOT)
            ranges[n++] = (range){input->host_offset, plan->graph->storages[input->storage].size_bytes, 0,
                                  input->storage};
    }
    return check_ranges(ranges, n, &plan->input_staging_bytes, "input staging");
}

/* Inputs on devices and of the host, outputs, transfers: each in an area of its own, so only ranges of one area can
 * meet. */
static plait_status check_areas(const plait_plan *plan, range *ranges, uint64_t *areas) {
    PLAIT_TRY(check_inputs(plan, ranges, areas));
    for (size_t o = 0; o < plan->n_outputs; o++)
        ranges[o] = (range){plan->outputs[o].host_offset, plan->outputs[o].size_bytes, 0, (uint32_t)o};
    PLAIT_TRY(check_ranges(ranges, plan->n_outputs, &plan->output_staging_bytes, "output staging"));
    size_t n = 0;
    for (size_t t = 0; t < plan->n_transfers; t++) {
        const plait_plan_transfer *transfer = &plan->transfers[t];
        if (transfer->route != PLAIT_ROUTE_STAGED) continue;
        if (transfer->staging_bytes < plait_part_bytes(&transfer->part))
            return plait_error(PLAIT_INTERNAL, "proof: transfer staging: %llu bytes for %llu",
                               (unsigned long long)transfer->staging_bytes,
                               (unsigned long long)plait_part_bytes(&transfer->part));
        ranges[n++] = (range){transfer->staging_offset, transfer->staging_bytes, 0, (uint32_t)t};
    }
    return check_ranges(ranges, n, &plan->transfer_staging_bytes, "transfer staging");
}

/* For one place: the others lie a whole area further on. */
plait_status plait_plan_verify_staging(const plait_plan *plan) {
    plait_arena arena;
    size_t n = plan->n_inputs > plan->n_outputs ? plan->n_inputs : plan->n_outputs;
    if (plan->n_transfers > n) n = plan->n_transfers;
    plait_arena_init_pooled(&arena, &plan->context->pool);
    range *ranges = plait_arena_alloc(&arena, n, sizeof *ranges);
    uint64_t *areas = plait_arena_alloc(&arena, (size_t)plan->context->n_devices, sizeof *areas);
    plait_status status =
        ranges && areas ? check_areas(plan, ranges, areas) : plait_error_memory("proof", n * sizeof *ranges);
    plait_arena_deinit(&arena);
    return status;
}

/* ---- reach: a queue and the memory that its command names ---- */

/* Whether the host, and who reads host memory, reaches the device's buffers. */
static bool mapped(const plait_plan *plan, int device) {
    return (plan->context->devices[device].info.caps & PLAIT_CAP_MAPPED) != 0;
}

/* By the route, which says whose queue moves and what the other side is to it. A COPY may be on a third device's queue
 * if that reaches both; the one that runs it is among those it reaches. */
static bool move_reaches(const plait_plan *plan, const plait_plan_transfer *transfer, int device) {
    int source = plan->values[transfer->source].device, target = plan->values[transfer->target].device;
    uint64_t both = (uint64_t)1 << source | (uint64_t)1 << target;
    switch (transfer->route) {
    case PLAIT_ROUTE_COPY: return (plan->context->devices[device].reaches & both) == both;
    case PLAIT_ROUTE_WRITE: return device == target && mapped(plan, source);
    case PLAIT_ROUTE_READ: return device == source && mapped(plan, target);
    case PLAIT_ROUTE_STAGED: break;
    }
    return false;
}

/* From staging every device can be written; from another device's memory only if that is mapped. */
static bool input_reaches(const plait_plan *plan, const plait_plan_input *input, int device) {
    if (input->device != device || plan->values[input->value].device != device) return false;
    if (input->home == PLAIT_NO_SLOT) return true;
    const plait_plan_input *home = &plan->inputs[input->home];
    return home->storage == input->storage && home->home == input->home && mapped(plan, home->device);
}

/* Only the queue of launches takes launches; a device's other queues and that one take everything else. */
static bool step_reaches(const plait_plan *plan, const plait_plan_step *step) {
    const plait_plan_transfer *transfer = &plan->transfers[step->item];
    bool sent = step->kind == PLAIT_STEP_SEND || step->kind == PLAIT_STEP_RECEIVE;
    bool staged = sent && transfer->route == PLAIT_ROUTE_STAGED;
    switch (step->kind) {
    case PLAIT_STEP_WRITE_INPUT: return input_reaches(plan, &plan->inputs[step->item], step->device);
    case PLAIT_STEP_LAUNCH:
        return step->queue % PLAIT_DEVICE_QUEUES == PLAIT_QUEUE_LAUNCHES &&
               plan->segments[step->item].device == step->device;
    case PLAIT_STEP_MOVE: return move_reaches(plan, transfer, step->device);
    case PLAIT_STEP_SEND: return staged && plan->values[transfer->source].device == step->device;
    case PLAIT_STEP_RECEIVE: return staged && plan->values[transfer->target].device == step->device;
    case PLAIT_STEP_READ_OUTPUT: return plan->values[plan->outputs[step->item].value].device == step->device;
    }
    return false;
}

/* Inputs that the host writes where a device has them; others must be written by a step. */
static plait_status check_homes(const plait_plan *plan) {
    for (size_t i = 0; i < plan->n_inputs; i++) {
        const plait_plan_input *input = &plan->inputs[i];
        if (input->home == PLAIT_NO_SLOT) continue;
        bool fine =
            input->home < plan->n_inputs && input->device >= 0 && input_reaches(plan, input, input->device);
        if (!fine)
            return plait_error(PLAIT_INTERNAL, "proof: the host does not reach input \"%s\"",
                               plan->graph->storages[input->storage].name);
    }
    return PLAIT_OK;
}

/* A queue's signals are numbered in its order, and the last step of each signals. `signals`: [queue] so far, and behind
 * them [queue] the signal of its last step. */
static plait_status check_steps(const plait_plan *plan, uint32_t *signals) {
    uint32_t *last = signals + plan->n_queues;
    for (size_t s = 0; s < plan->n_steps; s++) {
        const plait_plan_step *step = &plan->steps[s];
        int device = (int)(step->queue / PLAIT_DEVICE_QUEUES),
            queue = (int)(step->queue % PLAIT_DEVICE_QUEUES);
        bool exists = step->queue < plan->n_queues && queue < plan->context->devices[device].n_queues;
        if (!exists || device != step->device || !step_reaches(plan, step))
            return plait_error(PLAIT_INTERNAL, "proof: step %zu is on a queue that does not reach its memory",
                               s);
        if (step->signal && step->signal != ++signals[step->queue])
            return plait_error(PLAIT_INTERNAL, "proof: step %zu makes signal %u, expected %u", s,
                               step->signal, signals[step->queue]);
        last[step->queue] = step->signal;
    }
    for (size_t q = 0; q < plan->n_queues; q++)
        if (signals[q] != plan->queues[q].n_signals || last[q] != plan->queues[q].n_signals)
            return plait_error(PLAIT_INTERNAL,
                               "proof: queue %zu makes %u signals, the last step %u, expected %u", q,
                               signals[q], last[q], plan->queues[q].n_signals);
    return PLAIT_OK;
}

/* Waits of the same step of the run go backwards in the list, those of the step before may go anywhere: so no cycle is
 * possible, and a queue never waits for what is not submitted yet. */
static plait_status check_waits(const plait_plan *plan) {
    for (size_t s = 0; s < plan->n_steps; s++) {
        const plait_plan_step *step = &plan->steps[s];
        for (uint32_t w = step->first_wait; w < step->first_wait + step->n_waits; w++) {
            bool fine = w < plan->n_waits && plan->waits[w].step < plan->n_steps &&
                        (plan->waits[w].before || plan->waits[w].step < s) &&
                        plan->steps[plan->waits[w].step].signal > 0;
            if (!fine)
                return plait_error(PLAIT_INTERNAL, "proof: step %zu waits for what does not come before it",
                                   s);
        }
    }
    return PLAIT_OK;
}

/* ---- clocks ---- */

static uint32_t *clock_row(const queues *q, uint32_t *base, size_t index) {
    return base + index * q->n_lanes;
}

/* Clocks count commands of lanes; lane 0 is the host, which counts steps. */
static void join(const queues *q, uint32_t *into, const uint32_t *from) {
    for (size_t i = 0; i < q->n_lanes; i++)
        if (from[i] > into[i]) into[i] = from[i];
}

/* Of this round and the one before: no wait reaches further back. */
static uint32_t *kept_clock(const queues *q, size_t round, size_t step) {
    return clock_row(q, q->clocks, (round % 2) * q->n_rows + q->row_of[step] - 1);
}

/* Lanes from 1, in the order in which queues occur in the list. */
static plait_status init_tables(queues *q) {
    const plait_plan *plan = q->plan;
    size_t depth = (size_t)plan->depth, n;
    q->lane_of = plait_arena_alloc(&q->arena, plan->n_queues, sizeof *q->lane_of);
    q->row_of = plait_arena_alloc(&q->arena, plan->n_steps, sizeof *q->row_of);
    q->rows = plait_arena_alloc(&q->arena, (size_t)plan->context->n_devices, sizeof *q->rows);
    q->begins = plait_arena_alloc(&q->arena, plan->n_steps + 3, sizeof *q->begins);
    q->shared = plait_arena_alloc(&q->arena, 2 * plan->n_steps, sizeof *q->shared);
    if (!q->lane_of || !q->row_of || !q->rows || !q->begins || !q->shared)
        return plait_error_memory("proof", plan->n_steps * sizeof *q->shared);
    q->n_lanes = 1;
    for (size_t s = 0; s < plan->n_steps; s++) {
        uint32_t *lane = &q->lane_of[plan->steps[s].queue];
        if (!*lane) *lane = (uint32_t)q->n_lanes++;
        if (plan->steps[s].signal) q->row_of[s] = (uint32_t)++q->n_rows;
    }
    n = q->n_lanes;
    q->now = plait_arena_alloc(&q->arena, n * n, sizeof *q->now);
    q->clocks = plait_arena_alloc(&q->arena, 2 * q->n_rows * n, sizeof *q->clocks);
    q->ends = plait_arena_alloc(&q->arena, depth * n, sizeof *q->ends);
    return q->now && q->clocks && q->ends ? PLAIT_OK : plait_error_memory("proof", q->n_rows * n * 8);
}

/* Takes n times size_bytes of the row of bytes. */
static bool take(uint64_t *at, uint64_t size_bytes, uint64_t n, uint64_t *out_begin) {
    uint64_t sum;
    *out_begin = *at;
    return plait_mul_u64(size_bytes, n, &sum) && plait_add_u64(*at, sum, at);
}

/* Everything that exists once for each step in flight lies as often as that. */
static plait_status lay_out(queues *q) {
    const plait_plan *plan = q->plan;
    uint64_t at = 0, depth = (uint64_t)plan->depth;
    bool fits = true;
    for (int d = 0; d < plan->context->n_devices; d++)
        fits = fits && take(&at, plan->devices[d].arena_bytes, 1, &q->rows[d].arena) &&
               take(&at, plan->residence->devices[d].state_bytes, 1, &q->rows[d].state) &&
               take(&at, plan->devices[d].input_bytes, depth, &q->rows[d].inputs);
    fits = fits && take(&at, plan->input_staging_bytes, depth, &q->input_staging) &&
           take(&at, plan->output_staging_bytes, depth, &q->output_staging) &&
           take(&at, plan->transfer_staging_bytes, depth, &q->transfer_staging);
    return fits ? PLAIT_OK : plait_error(PLAIT_OUT_OF_RANGE, "proof: sizes of memory overflow");
}

/* ---- accesses: where the bytes lie at the first place of what is staged, and how far on they lie at the next ---- */

/* Bytes [begin, end) of a value, which weights and what never exists have not. */
static plait_span bytes_of(const queues *q, uint32_t v, uint64_t begin, uint64_t end) {
    const plait_plan_value *value = &q->plan->values[v];
    const row_of_device *row = &q->rows[value->device];
    uint64_t base = value->offset;
    if (value->elided || value->slot >= PLAIT_SLOT_WEIGHTS) return (plait_span){0, 0};
    if (value->slot == PLAIT_SLOT_ARENA) base += row->arena;
    if (value->slot == PLAIT_SLOT_STATE) base += row->state;
    if (value->slot == PLAIT_SLOT_INPUTS) base += row->inputs;
    return (plait_span){base + begin, base + end};
}

static plait_span whole_of(const queues *q, uint32_t v) {
    return bytes_of(q, v, 0, q->plan->values[v].size_bytes);
}

static plait_status add_bytes(queues *q, uint32_t v, uint64_t begin, uint64_t end, bool write) {
    const plait_plan_value *value = &q->plan->values[v];
    uint64_t stride = value->slot == PLAIT_SLOT_INPUTS ? q->plan->devices[value->device].input_bytes : 0;
    return plait_accesses_add(&q->accesses, bytes_of(q, v, begin, end), stride, write);
}

static plait_status add_whole(queues *q, uint32_t v, bool write) {
    return add_bytes(q, v, 0, q->plan->values[v].size_bytes, write);
}

/* Bytes of a staging area that begins at `area` and has area_bytes for each place. */
static plait_status add_staged(queues *q, uint64_t area, uint64_t area_bytes, uint64_t offset, uint64_t size,
                               bool write) {
    plait_span bytes = {area + offset, area + offset + size};
    return plait_accesses_add(&q->accesses, bytes, area_bytes, write);
}

/* Where the host has an input: at its home or in staging. */
static plait_status add_host_input(queues *q, const plait_plan_input *input, bool write) {
    uint64_t size = q->plan->graph->storages[input->storage].size_bytes;
    if (input->home != PLAIT_NO_SLOT) return add_bytes(q, q->plan->inputs[input->home].value, 0, size, write);
    return add_staged(q, q->input_staging, q->plan->input_staging_bytes, input->host_offset, size, write);
}

static plait_status add_host_output(queues *q, const plait_plan_output *output, bool write) {
    return add_staged(q, q->output_staging, q->plan->output_staging_bytes, output->host_offset,
                      output->size_bytes, write);
}

/* The whole range of the part, also where only rows of it move: what lies between the rows is then treated as if it
 * moved, which is safe. */
static plait_status add_transfer(queues *q, const plait_plan_step *step) {
    const plait_plan_transfer *transfer = &q->plan->transfers[step->item];
    const plait_plan_part *part = &transfer->part;
    bool receive = step->kind == PLAIT_STEP_RECEIVE, send = step->kind == PLAIT_STEP_SEND;
    if (!receive) PLAIT_TRY(add_bytes(q, transfer->source, part->begin, part->end, false));
    if (!send) PLAIT_TRY(add_bytes(q, transfer->target, part->begin, part->end, true));
    if (step->kind == PLAIT_STEP_MOVE) return PLAIT_OK;
    return add_staged(q, q->transfer_staging, q->plan->transfer_staging_bytes, transfer->staging_offset,
                      transfer->staging_bytes, send);
}

/* What a step that is no launch does to memory of devices and of the host. */
static plait_status add_move(queues *q, const plait_plan_step *step) {
    const plait_plan *plan = q->plan;
    if (step->kind == PLAIT_STEP_WRITE_INPUT) {
        PLAIT_TRY(add_host_input(q, &plan->inputs[step->item], false));
        return add_whole(q, plan->inputs[step->item].value, true);
    }
    if (step->kind == PLAIT_STEP_READ_OUTPUT) {
        const plait_plan_output *output = &plan->outputs[step->item];
        uint64_t end = output->source_offset + output->size_bytes;
        PLAIT_TRY(add_bytes(q, output->value, output->source_offset, end, false));
        return add_host_output(q, output, true);
    }
    return add_transfer(q, step);
}

/* What queues other than a device's launches touch. Only there can launches of a device, which are on one queue, come in
 * the wrong order. */
static plait_status find_shared(queues *q) {
    for (size_t s = 0; s < q->plan->n_steps; s++) {
        const plait_plan_step *step = &q->plan->steps[s];
        bool own = step->queue % PLAIT_DEVICE_QUEUES == PLAIT_QUEUE_LAUNCHES && step->kind != PLAIT_STEP_MOVE;
        size_t begin = q->accesses.n;
        if (step->kind == PLAIT_STEP_LAUNCH || own) continue;
        PLAIT_TRY(add_move(q, step));
        for (size_t i = begin; i < q->accesses.n; i++) q->shared[q->n_shared++] = q->accesses.items[i].bytes;
        q->accesses.n = begin;
    }
    q->n_shared = plait_spans_join(q->shared, q->n_shared);
    return PLAIT_OK;
}

/* `seen`: [value] its last access that was looked at, twice the step + 1, + 1 for a write. */
static plait_status add_operand(queues *q, size_t step, uint32_t v, bool write, uint32_t *seen) {
    uint32_t mark = 2 * (uint32_t)step + 1 + write, slot = q->plan->values[v].slot;
    if (seen[v] == mark || slot >= PLAIT_SLOT_WEIGHTS) return PLAIT_OK;
    seen[v] = mark;
    bool host = slot == PLAIT_SLOT_INPUTS; /* touches those */
    bool shared = host || (q->n_shared && plait_spans_meet(q->shared, q->n_shared, whole_of(q, v)));
    return shared ? add_whole(q, v, write) : PLAIT_OK;
}

/* Values once for each step and kind of access. Without queues beside the launches' own nothing is shared, and only
 * inputs, which the host writes, are left to look at. */
static plait_status add_launch(queues *q, size_t s, uint32_t *seen) {
    const plait_plan_segment *segment = &q->plan->segments[q->plan->steps[s].item];
    for (uint32_t n = 0; n < segment->n_nodes; n++) {
        const plait_segment_node *node = &segment->nodes[n];
        for (int i = 0; i < node->n_inputs; i++)
            if (node->present >> i & 1u) PLAIT_TRY(add_operand(q, s, node->inputs[i].value, false, seen));
        for (int o = 0; o < node->n_outputs; o++)
            PLAIT_TRY(add_operand(q, s, node->outputs[o].value, true, seen));
    }
    for (int g = 0; q->n_shared && g < segment->prepared.n_groups; g++) {
        const plait_group *group = &segment->prepared.groups[g];
        uint64_t begin =
            q->rows[segment->device].arena +
            plait_plan_join(q->plan, segment->device, group->scratch_slot, group->scratch_offset);
        plait_span bytes = {begin, begin + group->scratch_bytes};
        if (plait_spans_meet(q->shared, q->n_shared, bytes))
            PLAIT_TRY(plait_accesses_add(&q->accesses, bytes, 0, true));
    }
    return PLAIT_OK;
}

/* What the host does in a step, as two lists behind those of the steps: it reads outputs, it writes inputs (each once,
 * at its home or in staging). */
static plait_status add_host(queues *q) {
    const plait_plan *plan = q->plan;
    q->begins[plan->n_steps] = q->accesses.n;
    for (size_t o = 0; o < plan->n_outputs; o++) PLAIT_TRY(add_host_output(q, &plan->outputs[o], false));
    q->begins[plan->n_steps + 1] = q->accesses.n;
    for (size_t i = 0; i < plan->n_inputs; i++)
        if (plan->inputs[i].home == PLAIT_NO_SLOT || plan->inputs[i].home == i)
            PLAIT_TRY(add_host_input(q, &plan->inputs[i], true));
    q->begins[plan->n_steps + 2] = q->accesses.n;
    return PLAIT_OK;
}

/* Gathered once; rounds differ in the places of what is staged only. */
static plait_status find_accesses(queues *q) {
    const plait_plan *plan = q->plan;
    uint32_t *seen = plait_arena_alloc(&q->arena, plan->n_values, sizeof *seen);
    if (!seen) return plait_error_memory("proof", plan->n_values * sizeof *seen);
    PLAIT_TRY(find_shared(q));
    for (size_t s = 0; s < plan->n_steps; s++) {
        q->begins[s] = q->accesses.n;
        PLAIT_TRY(plan->steps[s].kind == PLAIT_STEP_LAUNCH ? add_launch(q, s, seen)
                                                           : add_move(q, &plan->steps[s]));
    }
    return add_host(q);
}

/* ---- checking ---- */

/* An earlier access that the current one conflicts with: it must be known to be over. */
static void meet(void *user, uint32_t lane, uint32_t stamp) {
    queues *q = user;
    if (stamp <= clock_row(q, q->now, q->lane)[lane]) return;
    q->late = true;
    q->late_lane = lane;
    q->late_stamp = stamp;
}

/* What a step does, in a word or two, and to what. */
static const char *describe(const plait_plan *plan, const plait_plan_step *step, const char **out_subject) {
    static const char *const verbs[] = {"input", "launch of", "move of", "send of", "receive of", "output"};
    const plait_graph *graph = plan->graph;
    if (step->kind == PLAIT_STEP_LAUNCH) {
        const plait_plan_segment *segment = &plan->segments[step->item];
        *out_subject = segment->n_nodes ? segment->nodes[0].name : "nothing";
    } else if (step->kind == PLAIT_STEP_WRITE_INPUT) {
        *out_subject = graph->storages[plan->inputs[step->item].storage].name;
    } else if (step->kind == PLAIT_STEP_READ_OUTPUT) {
        *out_subject = graph->outputs[plan->outputs[step->item].output].name;
    } else {
        *out_subject = graph->storages[plan->values[plan->transfers[step->item].source].storage].name;
    }
    return verbs[step->kind];
}

/* "launch of blk.7.add (queue 0 of cpu:1)" for the command with that number in its lane; says in which step it is. */
static void name_command(const queues *q, uint32_t lane, uint32_t stamp, char *text, size_t size_bytes,
                         size_t *out_round) {
    const plait_plan *plan = q->plan;
    size_t n = 0, at = 0;
    if (lane == 0) {
        *out_round = stamp - 1;
        snprintf(text, size_bytes, "what the host does");
        return;
    }
    for (size_t s = 0; s < plan->n_steps; s++) n += q->lane_of[plan->steps[s].queue] == lane;
    *out_round = (stamp - 1) / n;
    for (size_t s = 0; s < plan->n_steps; s++) {
        const plait_plan_step *step = &plan->steps[s];
        const char *subject;
        if (q->lane_of[step->queue] != lane || at++ != (stamp - 1) % n) continue;
        const char *verb = describe(plan, step, &subject);
        snprintf(text, size_bytes, "%s %s (queue %u of %s)", verb, subject, step->queue % PLAIT_DEVICE_QUEUES,
                 plan->context->devices[step->device].device->name);
    }
}

/* Says both commands by name and step, and how many bytes they meet in: enough to find the missing wait. */
static plait_status not_ordered(const queues *q, plait_span bytes) {
    char text[160] = "", other[160] = "";
    size_t round = 0, other_round = 0;
    name_command(q, q->lane, q->stamp, text, sizeof text, &round);
    name_command(q, q->late_lane, q->late_stamp, other, sizeof other, &other_round);
    return plait_error(
        PLAIT_INTERNAL,
        "proof: %s in step %zu of a run and %s in step %zu are not ordered; they meet in %llu bytes", other,
        other_round, text, round, (unsigned long long)(bytes.end - bytes.begin));
}

/* The accesses of a step, or of the host, at the current place. */
static plait_status check_accesses(queues *q, size_t step) {
    size_t place = q->round % (size_t)q->plan->depth;
    for (size_t i = q->begins[step]; i < q->begins[step + 1]; i++) {
        PLAIT_TRY(plait_accesses_touch(&q->accesses, i, place, &q->touches, q->lane, q->stamp, meet, q));
        if (q->late) return not_ordered(q, q->accesses.items[i].bytes);
    }
    return PLAIT_OK;
}

/* ---- the steps as a run carries them out ---- */

static void tick(queues *q, uint32_t lane) {
    q->lane = lane;
    q->stamp = ++clock_row(q, q->now, lane)[lane];
}

/* The host waits for the end of the step that used this one's places, reads its outputs, writes inputs, and submits.
 * The first `depth` steps find their places unused, so there is nothing to wait for or to read. */
static plait_status host_begins(queues *q) {
    const plait_plan *plan = q->plan;
    size_t depth = (size_t)plan->depth;
    if (q->round >= depth) join(q, clock_row(q, q->now, 0), clock_row(q, q->ends, q->round % depth));
    tick(q, 0);
    if (q->round >= depth) PLAIT_TRY(check_accesses(q, plan->n_steps));
    PLAIT_TRY(check_accesses(q, plan->n_steps + 1));
    for (uint32_t lane = 1; lane < q->n_lanes; lane++)
        join(q, clock_row(q, q->now, lane), clock_row(q, q->now, 0));
    return PLAIT_OK;
}

/* What the host knows when it has waited for the awaited queues; if that were not all lanes, the next use of this
 * step's places would find an access that is not over. */
static void end_round(queues *q) {
    const plait_plan *plan = q->plan;
    uint32_t *end = clock_row(q, q->ends, q->round % (size_t)plan->depth);
    memset(end, 0, q->n_lanes * sizeof *end);
    for (size_t i = 0; i < plan->n_queues; i++)
        if (q->lane_of[i] && plan->queues[i].awaited) join(q, end, clock_row(q, q->now, q->lane_of[i]));
}

/* One step of the run, in the order of the list: a lane's clock takes over the clocks of what is waited for, counts the
 * command, and every access is compared with it. */
static plait_status run_steps(queues *q) {
    const plait_plan *plan = q->plan;
    for (size_t s = 0; s < plan->n_steps; s++) {
        const plait_plan_step *step = &plan->steps[s];
        uint32_t lane = q->lane_of[step->queue];
        for (uint32_t w = step->first_wait; w < step->first_wait + step->n_waits; w++) {
            const plait_plan_wait *wait = &plan->waits[w];
            if (wait->before && q->round == 0) continue; /* there is none */
            join(q, clock_row(q, q->now, lane), kept_clock(q, q->round - wait->before, wait->step));
        }
        tick(q, lane);
        PLAIT_TRY(check_accesses(q, s));
        if (step->signal)
            memcpy(kept_clock(q, q->round, s), clock_row(q, q->now, lane), q->n_lanes * sizeof *q->now);
    }
    return PLAIT_OK;
}

/* A signal's clock is kept over two rounds; a queue's clock at its last signal is its clock at the end. */
static plait_status run_rounds(queues *q) {
    for (q->round = 0; q->round <= (size_t)q->plan->depth; q->round++) {
        PLAIT_TRY(host_begins(q));
        PLAIT_TRY(run_steps(q));
        end_round(q);
    }
    return PLAIT_OK;
}

/* ---- hand-over ---- */

/* Of a step's own device and of both ends of a move: hand-over between plans looks at nothing else. */
static plait_status check_touches(const queues *q) {
    const plait_plan *plan = q->plan;
    for (size_t s = 0; s < plan->n_steps; s++) {
        const plait_plan_step *step = &plan->steps[s];
        uint64_t devices = (uint64_t)1 << step->device;
        if (step->kind == PLAIT_STEP_MOVE)
            devices |= (uint64_t)1 << plan->values[plan->transfers[step->item].source].device |
                       (uint64_t)1 << plan->values[plan->transfers[step->item].target].device;
        if ((plan->queues[step->queue].touches & devices) != devices)
            return plait_error(PLAIT_INTERNAL,
                               "proof: step %zu touches a device that its queue says nothing of", s);
    }
    return PLAIT_OK;
}

/* The devices in `touches` first, as it needs no tables; then one walk of all rounds. */
static plait_status prove(queues *q) {
    PLAIT_TRY(init_tables(q));
    PLAIT_TRY(check_touches(q));
    PLAIT_TRY(lay_out(q));
    PLAIT_TRY(find_accesses(q));
    PLAIT_TRY(plait_accesses_settle(&q->accesses, (size_t)q->plan->depth, &q->arena, &q->touches));
    return run_rounds(q);
}

/* What indexes tables is checked before any table is used. */
plait_status plait_plan_verify_queues(const plait_plan *plan) {
    queues q = {.plan = plan};
    plait_arena_init_pooled(&q.arena, &plan->context->pool);
    uint32_t *signals = plait_arena_alloc(&q.arena, 2 * plan->n_queues, sizeof *signals);
    plait_status status = signals ? check_homes(plan) : plait_error_memory("proof", 0);
    if (status == PLAIT_OK) status = check_steps(plan, signals);
    if (status == PLAIT_OK) status = check_waits(plan);
    if (status == PLAIT_OK) status = prove(&q);
    plait_accesses_deinit(&q.accesses);
    plait_arena_deinit(&q.arena);
    return status;
}
