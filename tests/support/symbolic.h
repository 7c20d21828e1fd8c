/* Runs of a plan on symbols: every two bytes of all memories hold a number that says which value they are part of. Queues
 * and the host take their commands in a random order that their own order, signals and waits allow, as a run carries them
 * out; a node's outputs are numbers made of all that it reads. What the host reads at the end of each step must be what
 * the graph says, evaluated with memory of its own for every storage.
 *
 * An oracle for the proof: it uses addresses, steps, waits and signals of the plan, and nothing else that planning has
 * concluded. One run can show a plan wrong. A run that keeps a journal proves more: of all pairs of commands that touched the
 * same unit, one of them writing, each must be ordered by what holds in every order (symbolic_unordered). Then any order
 * can be made from this one by exchanging neighbours that do not meet, so all of them give what this one gave. */
#ifndef PLAIT_TESTS_SUPPORT_SYMBOLIC_H
#define PLAIT_TESTS_SUPPORT_SYMBOLIC_H

#include "op/reference.h"
#include "plan/plan.h"
#include "support/random_graph.h"

#include <stdlib.h>
#include <string.h>

enum {
    SYMBOLIC_UNIT = 2,
    SYMBOLIC_ROUNDS = 4,
    SYMBOLIC_WORDS = 5,
    SYMBOLIC_COMMANDS = 64 * SYMBOLIC_WORDS,
    SYMBOLIC_QUEUES = 32
};

/* A set of commands: step s of round r is number r * n_steps + s; behind those the host's submissions, then its reads. */
typedef struct symbolic_set {
    uint64_t words[SYMBOLIC_WORDS];
} symbolic_set;

/* Of a unit of memory. */
typedef struct symbolic_touched {
    symbolic_set any, writers;
} symbolic_touched;

/* What comes before what in every order, and who runs now. */
typedef struct symbolic_journal {
    size_t n, current;
    symbolic_set before[SYMBOLIC_COMMANDS];
    struct symbolic_raise { /* by which command a queue's timeline came to a value, in their order */
        uint64_t value;
        size_t command;
    } * raises[SYMBOLIC_QUEUES];
    size_t n_raises[SYMBOLIC_QUEUES];
    size_t last[SYMBOLIC_QUEUES]; /* the newest command + 1 */
} symbolic_journal;

typedef struct symbolic_area {
    uint64_t *symbols;
    uint64_t size_bytes;
    symbolic_journal *journal; /* NULL: nothing is noted */
    symbolic_touched *touched; /* [unit] */
} symbolic_area;

/* The running command touches these bytes. */
static inline void symbolic_note(symbolic_area *area, uint64_t begin, uint64_t size, bool write) {
    if (!area->journal) return;
    size_t c = area->journal->current;
    for (uint64_t u = begin / SYMBOLIC_UNIT; u < begin / SYMBOLIC_UNIT + (size + 1) / SYMBOLIC_UNIT; u++) {
        area->touched[u].any.words[c / 64] |= (uint64_t)1 << c % 64;
        area->touched[u].writers.words[c / 64] |= (uint64_t)write << c % 64;
    }
}

static inline uint64_t symbolic_mix(uint64_t a, uint64_t b) {
    a ^= b + 0x9E3779B97F4A7C15u + (a << 6) + (a >> 2);
    a *= 0xD6E8FEB86659FD93u;
    return a ^ a >> 32;
}

static inline uint64_t symbolic_name(const char *text) {
    uint64_t h = 1469598103934665603u;
    for (; *text; text++) h = symbolic_mix(h, (unsigned char)*text);
    return h;
}

static inline symbolic_area symbolic_make(uint64_t size_bytes) {
    symbolic_area area = {.symbols = calloc(size_bytes / SYMBOLIC_UNIT + 2, sizeof(uint64_t)),
                          .size_bytes = size_bytes};
    if (!area.symbols) abort();
    return area;
}

/* Symbols [begin, begin + size) or NULL when they leave the area. */
static inline uint64_t *symbolic_at(symbolic_area *area, uint64_t begin, uint64_t size) {
    if (!area || begin > area->size_bytes || size > area->size_bytes - begin) return NULL;
    return area->symbols + begin / SYMBOLIC_UNIT;
}

/* ---- nodes ---- */

/* Calls f for each block of elements, with its place in the operand's bytes. */
#define SYMBOLIC_EACH(shape, at, body)                                                                       \
    do {                                                                                                     \
        int64_t per_block = plait_dtype_block_elems((shape)->dtype);                                         \
        for (int64_t i3 = 0; i3 < (shape)->dims[3]; i3++)                                                    \
            for (int64_t i2 = 0; i2 < (shape)->dims[2]; i2++)                                                \
                for (int64_t i1 = 0; i1 < (shape)->dims[1]; i1++)                                            \
                    for (int64_t i0 = 0; i0 < (shape)->dims[0] / per_block; i0++) {                          \
                        const uint64_t at = (uint64_t)(i0 * (shape)->strides[0] + i1 * (shape)->strides[1] + \
                                                       i2 * (shape)->strides[2] + i3 * (shape)->strides[3]); \
                        body;                                                                                \
                    }                                                                                        \
    } while (0)

static inline uint64_t symbolic_read(const plait_operand *shape, symbolic_area *area, uint64_t offset,
                                     uint64_t h, bool *fault) {
    uint64_t block = (uint64_t)plait_dtype_block_bytes(shape->dtype);
    SYMBOLIC_EACH(shape, at, {
        uint64_t *s = symbolic_at(area, offset + at, block);
        if (!s) {
            *fault = true;
            return h;
        }
        symbolic_note(area, offset + at, block, false);
        for (uint64_t k = 0; k < (block + 1) / SYMBOLIC_UNIT; k++) h = symbolic_mix(h, s[k]);
    });
    return h;
}

static inline void symbolic_write(const plait_operand *shape, symbolic_area *area, uint64_t offset,
                                  uint64_t h, bool *fault) {
    uint64_t block = (uint64_t)plait_dtype_block_bytes(shape->dtype);
    SYMBOLIC_EACH(shape, at, {
        uint64_t *s = symbolic_at(area, offset + at, block);
        if (!s) {
            *fault = true;
            return;
        }
        symbolic_note(area, offset + at, block, true);
        for (uint64_t k = 0; k < (block + 1) / SYMBOLIC_UNIT; k++) s[k] = symbolic_mix(h, at + k);
    });
}

static inline uint64_t symbolic_op(const plait_op *op, const plait_attr *attrs) {
    uint64_t h = symbolic_name(op->name);
    for (int i = 0; i < op->n_attrs; i++) h = symbolic_mix(h, (uint64_t)attrs[i].i);
    return h;
}

/* ---- rows by ids ---- */

enum { SYMBOLIC_IDS = 48 };

static inline int64_t symbolic_id(uint64_t round, int64_t n) {
    return (int64_t)(round * 5 + (uint64_t)n * (1 + round % 3)) % SYMBOLIC_IDS;
}

static inline bool symbolic_by_rows(const plait_op *op) {
    return op->write_part == PLAIT_WRITES_ROWS && op->rows_part;
}

/* What a node that writes rows does: each row gets a number made of all that the node reads. */
static inline void symbolic_write_rows(const plait_graph *graph, uint32_t n, symbolic_area *area,
                                       uint64_t offset, uint64_t round, uint64_t h, bool *fault) {
    plait_op_use use;
    plait_graph_use(graph, n, NULL, &use);
    for (int64_t i = 0; i < use.inputs[use.op->rows_input].dims[0]; i++) {
        plait_operand row;
        uint64_t at;
        if (use.op->rows_part(&use, symbolic_id(round, i), &row, &at))
            symbolic_write(&row, area, offset + at, symbolic_mix(h, (uint64_t)i), fault);
    }
}

/* ---- what the graph says ---- */

typedef struct symbolic_truth {
    const plait_graph *graph;
    uint64_t *outputs[SYMBOLIC_ROUNDS]; /* one number for each output */
} symbolic_truth;

static inline uint64_t symbolic_input(const char *name, uint64_t round, uint64_t k) {
    return symbolic_mix(symbolic_mix(symbolic_name(name), round + 77), k);
}

static inline uint64_t symbolic_weight(const char *name, uint64_t k) {
    return symbolic_mix(symbolic_name(name), k);
}

static inline void symbolic_fill_inputs(const plait_graph *graph, symbolic_area *storages, uint64_t round) {
    for (size_t s = 0; s < graph->n_storages; s++) {
        uint64_t n = storages[s].size_bytes / SYMBOLIC_UNIT;
        for (uint64_t k = 0; graph->storages[s].kind == PLAIT_STORAGE_INPUT && k < n; k++)
            storages[s].symbols[k] = symbolic_input(graph->storages[s].name, round, k);
    }
}

static inline void symbolic_evaluate(const plait_graph *graph, symbolic_area *storages, uint64_t round) {
    bool fault = false;
    for (size_t n = 0; n < graph->n_nodes; n++) {
        const plait_graph_node *node = &graph->nodes[n];
        uint64_t h = symbolic_op(node->op, node->attrs);
        for (int i = 0; i < node->n_inputs; i++) {
            const plait_graph_tensor *t = &graph->tensors[node->inputs[i]];
            bool target = i == node->op->writes_input && symbolic_by_rows(node->op);
            if (node->inputs[i] && !target)
                h = symbolic_read(&t->shape, &storages[t->storage], t->offset, h, &fault);
        }
        for (int o = 0; o < node->n_outputs; o++) {
            const plait_graph_tensor *t = &graph->tensors[node->outputs[o]];
            if (symbolic_by_rows(node->op))
                symbolic_write_rows(graph, (uint32_t)n, &storages[t->storage], t->offset, round, h, &fault);
            else
                symbolic_write(&t->shape, &storages[t->storage], t->offset, symbolic_mix(h, (uint64_t)o),
                               &fault);
        }
    }
    if (fault) abort();
}

static inline void symbolic_truth_init(symbolic_truth *truth, const plait_graph *graph) {
    symbolic_area *storages = calloc(graph->n_storages + 1, sizeof *storages);
    if (!storages) abort();
    truth->graph = graph;
    for (size_t s = 0; s < graph->n_storages; s++) {
        storages[s] = symbolic_make(graph->storages[s].size_bytes);
        for (uint64_t k = 0;
             graph->storages[s].kind == PLAIT_STORAGE_WEIGHT && k < storages[s].size_bytes / SYMBOLIC_UNIT;
             k++)
            storages[s].symbols[k] = symbolic_weight(graph->storages[s].name, k);
    }
    for (uint64_t round = 0; round < SYMBOLIC_ROUNDS; round++) {
        bool fault = false;
        truth->outputs[round] = calloc(graph->n_outputs + 1, sizeof(uint64_t));
        if (!truth->outputs[round]) abort();
        symbolic_fill_inputs(graph, storages, round);
        symbolic_evaluate(graph, storages, round);
        for (size_t o = 0; o < graph->n_outputs; o++) {
            const plait_graph_tensor *t = &graph->tensors[graph->outputs[o].tensor];
            truth->outputs[round][o] = symbolic_read(&t->shape, &storages[t->storage], t->offset, 5, &fault);
        }
    }
    for (size_t s = 0; s < graph->n_storages; s++) free(storages[s].symbols);
    free(storages);
}

static inline void symbolic_truth_deinit(symbolic_truth *truth) {
    for (int r = 0; r < SYMBOLIC_ROUNDS; r++) free(truth->outputs[r]);
}

/* ---- the plan ---- */

typedef struct symbolic_run {
    plait_plan *plan;
    const symbolic_truth *truth;
    const int64_t *dims;
    uint64_t state; /* of the random numbers */
    symbolic_area *arenas, *states, *inputs /* [place * n_devices + d] */, **weights;
    symbolic_area *input_staging, *output_staging, *transfer_staging; /* [place] */
    uint64_t *timelines;                                              /* [queue] */
    size_t *next;     /* [queue] its next step of the list, counted over the rounds */
    size_t submitted; /* rounds */
    const char *wrong;
    symbolic_journal *journal; /* NULL: none is kept */
} symbolic_run;

static inline symbolic_area *symbolic_slot(symbolic_run *r, int device, uint32_t slot, size_t place) {
    size_t n = (size_t)r->plan->context->n_devices, n_weights = r->plan->residence->devices[device].n_weights;
    if (slot == PLAIT_SLOT_ARENA) return &r->arenas[device];
    if (slot == PLAIT_SLOT_STATE) return &r->states[device];
    if (slot == PLAIT_SLOT_INPUTS) return &r->inputs[place * n + (size_t)device];
    return slot - PLAIT_SLOT_WEIGHTS < n_weights ? &r->weights[device][slot - PLAIT_SLOT_WEIGHTS] : NULL;
}

static inline void symbolic_copy(symbolic_run *r, symbolic_area *to, uint64_t to_offset, symbolic_area *from,
                                 uint64_t from_offset, uint64_t size) {
    uint64_t *target = symbolic_at(to, to_offset, size), *source = symbolic_at(from, from_offset, size);
    if (size == 0) return;
    if (!target || !source) r->wrong = "bytes outside of a buffer are moved";
    if (!target || !source) return;
    symbolic_note(from, from_offset, size, false);
    symbolic_note(to, to_offset, size, true);
    memmove(target, source, (size + 1) / SYMBOLIC_UNIT * sizeof *target);
}

static inline void symbolic_node(symbolic_run *r, int device, const plait_segment_node *node,
                                 uint64_t round) {
    size_t place = (size_t)round % (size_t)r->plan->depth;
    bool fault = false;
    uint64_t h = symbolic_op(node->op, node->attrs);
    for (int i = 0; i < node->n_inputs; i++) {
        const plait_segment_operand *o = &node->inputs[i];
        bool target = i == node->op->writes_input && symbolic_by_rows(node->op);
        if ((node->present >> i & 1u) && !target)
            h = symbolic_read(&o->shape, symbolic_slot(r, device, o->slot, place), o->offset, h, &fault);
    }
    for (int k = 0; k < node->n_outputs; k++) {
        const plait_segment_operand *o = &node->outputs[k];
        symbolic_area *area = symbolic_slot(r, device, o->slot, place);
        if (symbolic_by_rows(node->op))
            symbolic_write_rows(r->plan->graph, node->node, area, o->offset, round, h, &fault);
        else
            symbolic_write(&o->shape, area, o->offset, symbolic_mix(h, (uint64_t)k), &fault);
    }
    if (fault) r->wrong = "a node leaves a buffer";
}

static inline void symbolic_launch(symbolic_run *r, const plait_plan_step *step, uint64_t round) {
    size_t place = (size_t)round % (size_t)r->plan->depth;
    const plait_plan_segment *segment = &r->plan->segments[step->item];
    for (int g = 0; g < segment->prepared.n_groups && !r->wrong; g++) {
        const plait_group *group = &segment->prepared.groups[g];
        for (int k = group->first; k < group->first + group->n && !r->wrong; k++) {
            symbolic_area *area = symbolic_slot(r, step->device, group->scratch_slot, place);
            uint64_t *scratch = symbolic_at(area, group->scratch_offset, group->scratch_bytes);
            if (group->scratch_bytes && !scratch) r->wrong = "scratch leaves the arena";
            if (scratch) symbolic_note(area, group->scratch_offset, group->scratch_bytes, true);
            for (uint64_t b = 0; scratch && b < group->scratch_bytes / SYMBOLIC_UNIT; b++) scratch[b] = 0xBAD;
            symbolic_node(r, step->device, &segment->nodes[segment->prepared.order[k]], round);
            for (uint64_t b = 0; scratch && b < group->scratch_bytes / SYMBOLIC_UNIT; b++) scratch[b] = 0xBAD;
        }
    }
}

static inline symbolic_area *symbolic_value(symbolic_run *r, uint32_t v, size_t place, uint64_t *out_offset) {
    const plait_plan_value *value = &r->plan->values[v];
    *out_offset = value->offset;
    return symbolic_slot(r, value->device, value->slot, place);
}

static inline void symbolic_box(symbolic_run *r, const plait_plan_step *step, size_t place,
                                const plait_box *box, uint64_t offset, uint64_t staged) {
    const plait_plan_transfer *t = &r->plan->transfers[step->item];
    uint64_t from, to;
    symbolic_area *source = symbolic_value(r, t->source, place, &from);
    symbolic_area *target = symbolic_value(r, t->target, place, &to);
    symbolic_area *staging = &r->transfer_staging[place];
    for (uint64_t p = 0; p < box->n_planes; p++)
        for (uint64_t k = 0; k < box->n_rows; k++) {
            uint64_t at = offset + p * box->source_plane_pitch + k * box->source_row_pitch;
            uint64_t there =
                t->staging_offset + staged + p * box->target_plane_pitch + k * box->target_row_pitch;
            if (step->kind == PLAIT_STEP_MOVE)
                symbolic_copy(r, target, to + at, source, from + at, box->row_bytes);
            else if (step->kind == PLAIT_STEP_SEND)
                symbolic_copy(r, staging, there, source, from + at, box->row_bytes);
            else
                symbolic_copy(r, target, to + at, staging, there, box->row_bytes);
        }
}

static inline void symbolic_rows(symbolic_run *r, const plait_plan_step *step, uint64_t round, size_t place) {
    const plait_plan_part *part = &r->plan->transfers[step->item].part;
    const plait_graph *graph = r->plan->graph;
    size_t n = plait_part_pieces(part, true);
    plait_box *boxes = calloc(n + 1, sizeof *boxes);
    uint64_t *offsets = calloc(2 * n + 1, sizeof *offsets);
    plait_op_use use;
    plait_graph_use(graph, part->rows_node - 1, NULL, &use);
    plait_operand *ids = &use.inputs[use.op->rows_input];
    ids->data = calloc(1, (size_t)plait_operand_span_bytes(ids) + 8);
    if (!boxes || !offsets || !ids->data) abort();
    for (int64_t i = 0; i < ids->dims[0]; i++) plait_ref_set_id(ids, i, 0, (int32_t)symbolic_id(round, i));
    plait_part_row_pieces(part, true, &use,
                          graph->tensors[graph->nodes[part->rows_node - 1].outputs[0]].offset, boxes, offsets,
                          offsets + n);
    for (size_t i = 0; i < n; i++)
        if (boxes[i].row_bytes) symbolic_box(r, step, place, &boxes[i], offsets[i], offsets[n + i]);
    free(ids->data);
    free(boxes);
    free(offsets);
}

static inline void symbolic_transfer(symbolic_run *r, const plait_plan_step *step, uint64_t round) {
    const plait_plan_transfer *t = &r->plan->transfers[step->item];
    size_t place = (size_t)round % (size_t)r->plan->depth;
    uint64_t root = r->plan->graph->storages[r->plan->values[t->source].storage].size_bytes;
    if (t->part.rows_node) {
        symbolic_rows(r, step, round, place);
        return;
    }
    for (size_t i = 0; i < plait_part_pieces(&t->part, true); i++) {
        plait_box box;
        uint64_t offset, staged;
        plait_part_piece(&t->part, true, i, r->dims, root, &box, &offset, &staged);
        symbolic_box(r, step, place, &box, offset, staged);
    }
}

static inline void symbolic_step(symbolic_run *r, const plait_plan_step *step, uint64_t round) {
    const plait_plan *plan = r->plan;
    size_t place = (size_t)round % (size_t)plan->depth;
    uint64_t offset, host_offset;
    if (step->kind == PLAIT_STEP_LAUNCH) {
        symbolic_launch(r, step, round);
    } else if (step->kind == PLAIT_STEP_WRITE_INPUT) {
        const plait_plan_input *input = &plan->inputs[step->item];
        symbolic_area *host = &r->input_staging[place];
        host_offset = input->host_offset;
        if (input->home != PLAIT_NO_SLOT)
            host = symbolic_value(r, plan->inputs[input->home].value, place, &host_offset);
        symbolic_area *target = symbolic_value(r, input->value, place, &offset);
        symbolic_copy(r, target, offset, host, host_offset, plan->graph->storages[input->storage].size_bytes);
    } else if (step->kind == PLAIT_STEP_READ_OUTPUT) {
        const plait_plan_output *output = &plan->outputs[step->item];
        symbolic_area *source = symbolic_value(r, output->value, place, &offset);
        symbolic_copy(r, &r->output_staging[place], output->host_offset, source,
                      offset + output->source_offset, output->size_bytes);
    } else {
        symbolic_transfer(r, step, round);
    }
}

/* ---- the journal ---- */

static inline bool symbolic_has(const symbolic_set *set, size_t c) {
    return set->words[c / 64] >> c % 64 & 1u;
}

/* The running command comes after this one, and all that comes before that. */
static inline void symbolic_after(symbolic_journal *j, size_t command) {
    for (int w = 0; w < SYMBOLIC_WORDS; w++) j->before[j->current].words[w] |= j->before[command].words[w];
    j->before[j->current].words[command / 64] |= (uint64_t)1 << command % 64;
}

/* After the command that first brings the queue's timeline to the value, in every order: it is always the same one. */
static inline void symbolic_after_value(symbolic_journal *j, uint32_t queue, uint64_t value) {
    for (size_t i = 0; value && i < j->n_raises[queue]; i++) {
        if (j->raises[queue][i].value < value) continue;
        symbolic_after(j, j->raises[queue][i].command);
        return;
    }
}

/* Commands of a queue run in their order, and none before its round was submitted. */
static inline void symbolic_journal_step(symbolic_run *r, uint32_t q, size_t at) {
    symbolic_journal *j = r->journal;
    if (!j) return;
    size_t n = r->plan->n_steps, round = at / n;
    const plait_plan_step *step = &r->plan->steps[at % n];
    j->current = at;
    symbolic_after(j, SYMBOLIC_ROUNDS * n + round);
    if (j->last[q]) symbolic_after(j, j->last[q] - 1);
    j->last[q] = at + 1;
    for (uint32_t w = step->first_wait; w < step->first_wait + step->n_waits; w++) {
        const plait_plan_step *other = &r->plan->steps[r->plan->waits[w].step];
        size_t before = r->plan->waits[w].before;
        if (round >= before)
            symbolic_after_value(j, other->queue,
                                 (round - before) * r->plan->queues[other->queue].n_signals + other->signal);
    }
}

static inline void symbolic_journal_raise(symbolic_run *r, uint32_t q, uint64_t value) {
    symbolic_journal *j = r->journal;
    if (!j) return;
    if (!j->raises[q]) j->raises[q] = calloc(SYMBOLIC_COMMANDS, sizeof *j->raises[q]);
    if (!j->raises[q]) abort();
    j->raises[q][j->n_raises[q]++] = (struct symbolic_raise){value, j->current};
}

/* The host submits a round after the one before, and after it read the round whose places this one takes. */
static inline void symbolic_journal_submit(symbolic_run *r, size_t round) {
    symbolic_journal *j = r->journal;
    if (!j) return;
    size_t first = SYMBOLIC_ROUNDS * r->plan->n_steps, depth = (size_t)r->plan->depth;
    j->current = first + round;
    if (round) symbolic_after(j, first + round - 1);
    if (round >= depth) symbolic_after(j, first + SYMBOLIC_ROUNDS + round - depth);
}

/* It reads a round after the one before, when all queues that it asks have come to the end. */
static inline void symbolic_journal_read(symbolic_run *r, size_t round) {
    symbolic_journal *j = r->journal;
    if (!j) return;
    size_t first = SYMBOLIC_ROUNDS * r->plan->n_steps + SYMBOLIC_ROUNDS;
    j->current = first + round;
    symbolic_after(j, first - SYMBOLIC_ROUNDS + round);
    if (round) symbolic_after(j, first + round - 1);
    for (uint32_t q = 0; q < r->plan->n_queues; q++)
        if (r->plan->queues[q].awaited)
            symbolic_after_value(j, q, (round + 1) * r->plan->queues[q].n_signals);
}

/* True when no order is known between two commands of which the first writes where the other is seen. */
static inline bool symbolic_stray(const symbolic_journal *j, size_t a, const symbolic_touched *t) {
    for (size_t b = 0; b < j->n; b++)
        if (b != a && symbolic_has(&t->any, b) && !symbolic_has(&j->before[a], b) &&
            !symbolic_has(&j->before[b], a))
            return true;
    return false;
}

/* True when two commands met in the area that nothing orders. */
static inline bool symbolic_meet(const symbolic_journal *j, const symbolic_area *area) {
    for (uint64_t u = 0; u <= area->size_bytes / SYMBOLIC_UNIT; u++) {
        const symbolic_touched *t = &area->touched[u];
        for (size_t a = 0; a < j->n; a++) {
            if (t->writers.words[a / 64] == 0)
                a |= 63; /* nobody of these */
            else if (symbolic_has(&t->writers, a) && symbolic_stray(j, a, t))
                return true;
        }
    }
    return false;
}

/* True when the queue has a step whose waits are over; does it. */
static inline bool symbolic_queue(symbolic_run *r, uint32_t q) {
    const plait_plan *plan = r->plan;
    size_t at = r->next[q], n = plan->n_steps;
    while (at < r->submitted * n && plan->steps[at % n].queue != q) at++;
    r->next[q] = at;
    if (at >= r->submitted * n) return false;
    const plait_plan_step *step = &plan->steps[at % n];
    uint64_t round = at / n;
    for (uint32_t w = step->first_wait; w < step->first_wait + step->n_waits; w++) {
        const plait_plan_step *other = &plan->steps[plan->waits[w].step];
        uint64_t signals = plan->queues[other->queue].n_signals, before = plan->waits[w].before ? 1 : 0;
        uint64_t value = round < before ? 0 : (round - before) * signals + other->signal;
        if (r->timelines[other->queue] < value) return false;
    }
    symbolic_journal_step(r, q, at);
    symbolic_step(r, step, round);
    uint64_t value = round * plan->queues[q].n_signals + step->signal;
    if (step->signal && value > r->timelines[q]) {
        r->timelines[q] = value;
        symbolic_journal_raise(r, q, value);
    }
    r->next[q]++;
    return true;
}

/* ---- the host ---- */

static inline bool symbolic_ended(const symbolic_run *r, uint64_t round) {
    for (size_t q = 0; q < r->plan->n_queues; q++)
        if (r->plan->queues[q].awaited && r->timelines[q] < (round + 1) * r->plan->queues[q].n_signals)
            return false;
    return true;
}

static inline void symbolic_read_outputs(symbolic_run *r, uint64_t round) {
    const plait_plan *plan = r->plan;
    size_t place = (size_t)round % (size_t)plan->depth;
    for (size_t o = 0; o < plan->n_outputs && !r->wrong; o++) {
        bool fault = false;
        const plait_graph_tensor *t = &plan->graph->tensors[plan->graph->outputs[o].tensor];
        uint64_t h =
            symbolic_read(&t->shape, &r->output_staging[place], plan->outputs[o].host_offset, 5, &fault);
        if (fault || h != r->truth->outputs[round][o]) r->wrong = "an output is wrong";
    }
}

static inline void symbolic_write_inputs(symbolic_run *r, uint64_t round) {
    const plait_plan *plan = r->plan;
    size_t place = (size_t)round % (size_t)plan->depth;
    for (size_t i = 0; i < plan->n_inputs && !r->wrong; i++) {
        const plait_plan_input *input = &plan->inputs[i];
        const plait_graph_storage *storage = &plan->graph->storages[input->storage];
        uint64_t offset = input->host_offset;
        symbolic_area *area = &r->input_staging[place];
        if (input->home != PLAIT_NO_SLOT && input->home != i) continue;
        if (input->home == i) area = symbolic_value(r, input->value, place, &offset);
        uint64_t *s = symbolic_at(area, offset, storage->size_bytes);
        if (!s && storage->size_bytes) r->wrong = "the host leaves a buffer";
        if (s) symbolic_note(area, offset, storage->size_bytes, true);
        for (uint64_t k = 0; s && k < (storage->size_bytes + 1) / SYMBOLIC_UNIT; k++)
            s[k] = symbolic_input(storage->name, round, k);
    }
}

/* One thing that can be done, chosen at random; false when there is none. `slow`: a queue that goes on only when nobody
 * else can, PLAIT_NO_SLOT: none. */
static inline bool symbolic_move(symbolic_run *r, size_t *read, uint32_t slow) {
    size_t n = r->plan->n_queues + 1, first = (size_t)random_next(&r->state, n);
    for (size_t k = 0; k < n; k++) {
        size_t who = (first + k) % n;
        if (who < r->plan->n_queues) {
            if (who != slow && symbolic_queue(r, (uint32_t)who)) return true;
            continue;
        }
        if (r->submitted < SYMBOLIC_ROUNDS && r->submitted - *read < (size_t)r->plan->depth) {
            symbolic_journal_submit(r, r->submitted);
            symbolic_write_inputs(r, r->submitted++);
            return true;
        }
        if (*read < r->submitted && symbolic_ended(r, *read)) {
            symbolic_journal_read(r, *read);
            symbolic_read_outputs(r, (*read)++);
            return true;
        }
    }
    return slow < r->plan->n_queues && symbolic_queue(r, slow);
}

static inline symbolic_area *symbolic_areas(size_t n, uint64_t size_bytes) {
    symbolic_area *areas = calloc(n + 1, sizeof *areas);
    if (!areas) abort();
    for (size_t i = 0; i < n; i++) areas[i] = symbolic_make(size_bytes);
    return areas;
}

static inline void symbolic_free(symbolic_area *areas, size_t n) {
    for (size_t i = 0; i < n; i++) free(areas[i].symbols);
    free(areas);
}

static inline void symbolic_fill_weights(symbolic_run *r) {
    const plait_residence *residence = r->plan->residence;
    for (size_t i = 0; i < residence->n_entries; i++) {
        const plait_resident *entry = &residence->entries[i];
        if (entry->kind != PLAIT_STORAGE_WEIGHT) continue;
        uint64_t *s = symbolic_at(&r->weights[entry->device][entry->slot - PLAIT_SLOT_WEIGHTS], entry->offset,
                                  entry->size_bytes);
        for (uint64_t k = 0; s && k < entry->size_bytes / SYMBOLIC_UNIT; k++)
            s[k] = symbolic_weight(entry->name, k);
    }
}

/* All memory that somebody writes. */
typedef void symbolic_area_fn(symbolic_run *r, symbolic_area *area);

static inline void symbolic_each_area(symbolic_run *r, symbolic_area_fn *f) {
    size_t n = (size_t)r->plan->context->n_devices, depth = (size_t)r->plan->depth;
    for (size_t d = 0; d < n; d++) f(r, &r->arenas[d]), f(r, &r->states[d]);
    for (size_t i = 0; i < n * depth; i++) f(r, &r->inputs[i]);
    for (size_t p = 0; p < depth; p++)
        f(r, &r->input_staging[p]), f(r, &r->output_staging[p]), f(r, &r->transfer_staging[p]);
}

static inline void symbolic_watch(symbolic_run *r, symbolic_area *area) {
    area->journal = r->journal;
    area->touched = calloc(area->size_bytes / SYMBOLIC_UNIT + 2, sizeof *area->touched);
    if (!area->touched) abort();
}

static inline void symbolic_judge(symbolic_run *r, symbolic_area *area) {
    if (!r->wrong && symbolic_meet(r->journal, area)) r->wrong = "two commands meet that nothing orders";
    free(area->touched);
}

static inline const char *symbolic_run_once(plait_plan *plan, const symbolic_truth *truth, uint64_t seed,
                                            symbolic_journal *journal) {
    size_t n = (size_t)plan->context->n_devices, depth = (size_t)plan->depth, read = 0;
    symbolic_run r = {.plan = plan, .truth = truth, .dims = plan->bounds, .state = seed, .journal = journal};
    r.arenas = calloc(n, sizeof *r.arenas);
    r.states = calloc(n, sizeof *r.states);
    r.inputs = calloc(n * depth, sizeof *r.inputs);
    r.weights = calloc(n, sizeof *r.weights);
    r.timelines = calloc(plan->n_queues, sizeof *r.timelines);
    r.next = calloc(plan->n_queues, sizeof *r.next);
    if (!r.arenas || !r.states || !r.inputs || !r.weights || !r.timelines || !r.next) abort();
    for (size_t d = 0; d < n; d++) {
        const plait_residence_device *resident = &plan->residence->devices[d];
        r.arenas[d] = symbolic_make(plan->devices[d].arena_bytes);
        r.states[d] = symbolic_make(resident->state_bytes);
        for (size_t p = 0; p < depth; p++) r.inputs[p * n + d] = symbolic_make(plan->devices[d].input_bytes);
        r.weights[d] = calloc(resident->n_weights + 1, sizeof **r.weights);
        if (!r.weights[d]) abort();
        for (size_t w = 0; w < resident->n_weights; w++)
            r.weights[d][w] = symbolic_make(resident->weight_bytes[w]);
    }
    r.input_staging = symbolic_areas(depth, plan->input_staging_bytes);
    r.output_staging = symbolic_areas(depth, plan->output_staging_bytes);
    r.transfer_staging = symbolic_areas(depth, plan->transfer_staging_bytes);
    symbolic_fill_weights(&r);
    if (journal) symbolic_each_area(&r, symbolic_watch);
    uint32_t slow = seed % 2 ? (uint32_t)random_next(&r.state, plan->n_queues) : PLAIT_NO_SLOT;
    while (read < SYMBOLIC_ROUNDS && !r.wrong)
        if (!symbolic_move(&r, &read, slow)) r.wrong = "everybody waits";
    if (journal) symbolic_each_area(&r, symbolic_judge);
    for (size_t d = 0; d < n; d++) symbolic_free(r.weights[d], plan->residence->devices[d].n_weights);
    symbolic_free(r.arenas, n);
    symbolic_free(r.states, n);
    symbolic_free(r.inputs, n * depth);
    symbolic_free(r.input_staging, depth);
    symbolic_free(r.output_staging, depth);
    symbolic_free(r.transfer_staging, depth);
    free(r.weights);
    free(r.timelines);
    free(r.next);
    return r.wrong;
}

/* What goes wrong in one run with random numbers from the seed, NULL: nothing. */
static inline const char *symbolic_check(plait_plan *plan, const symbolic_truth *truth, uint64_t seed) {
    return symbolic_run_once(plan, truth, seed, NULL);
}

/* What can go wrong in any order at all, NULL: nothing, as far as rows that ids name are those of the runs. */
static inline const char *symbolic_prove(plait_plan *plan, const symbolic_truth *truth) {
    symbolic_journal *journal = calloc(1, sizeof *journal);
    const char *wrong = "too much happens for a journal";
    if (!journal) abort();
    journal->n = SYMBOLIC_ROUNDS * (plan->n_steps + 2);
    if (journal->n <= SYMBOLIC_COMMANDS && plan->n_queues <= SYMBOLIC_QUEUES)
        wrong = symbolic_run_once(plan, truth, 1, journal);
    for (size_t q = 0; q < SYMBOLIC_QUEUES; q++) free(journal->raises[q]);
    free(journal);
    return wrong;
}

#endif
