/* All tables of a plan, saved and restored: for tests that damage a plan on purpose, and want it back. */
#ifndef PLAIT_TESTS_SUPPORT_SAVED_PLAN_H
#define PLAIT_TESTS_SUPPORT_SAVED_PLAN_H

#include "plan/plan.h"

#include <stdlib.h>
#include <string.h>

typedef struct saved {
    plait_plan plan;
    plait_plan_value *values;
    plait_plan_step *steps;
    plait_plan_wait *waits;
    plait_plan_queue *queues;
    plait_plan_transfer *transfers;
    plait_plan_input *inputs;
    plait_plan_output *outputs;
    plait_plan_device *devices;
    plait_resident *entries;
    plait_segment_node *nodes;
    plait_segment_operand *operands;
    plait_group *groups;
    int *order;
    struct plait_shared_pair *shared;
    size_t n_nodes;
} saved;

static inline void *saved_copy(const void *from, size_t n, size_t size) {
    void *copy = malloc(n * size + 1);
    if (!copy) abort();
    if (n) memcpy(copy, from, n * size);
    return copy;
}

/* Tables of all segments, one after the other. */
static inline void saved_segments(plait_plan *plan, saved *s, bool back) {
    size_t node = 0, operand = 0, group = 0, shared = 0;
    for (size_t i = 0; i < plan->n_segments; i++) {
        plait_plan_segment *segment = &plan->segments[i];
        plait_prepared *p = &segment->prepared;
        size_t n = segment->n_nodes, n_groups = (size_t)p->n_groups, n_shared = (size_t)p->n_shared;
#define MOVE(a, b, count)                                                                                    \
    memcpy(back ? (void *)(a) : (void *)(b), back ? (void *)(b) : (void *)(a), (count) * sizeof *(a))
        MOVE(segment->nodes, s->nodes + node, n);
        MOVE(segment->operands, s->operands + operand, segment->n_operands);
        MOVE(p->order, s->order + node, n);
        MOVE(p->groups, s->groups + group, n_groups);
        if (n_shared) MOVE(p->shared, s->shared + shared, n_shared);
#undef MOVE
        node += n, operand += segment->n_operands, group += n_groups, shared += n_shared;
    }
}

static inline void save(plait_plan *plan, saved *s) {
    size_t n = plan->graph->n_nodes;
    memcpy(&s->plan, plan, sizeof s->plan);
    s->values = saved_copy(plan->values, plan->n_values, sizeof *s->values);
    s->steps = saved_copy(plan->steps, plan->n_steps, sizeof *s->steps);
    s->waits = saved_copy(plan->waits, plan->n_waits, sizeof *s->waits);
    s->queues = saved_copy(plan->queues, plan->n_queues, sizeof *s->queues);
    s->transfers = saved_copy(plan->transfers, plan->n_transfers, sizeof *s->transfers);
    s->inputs = saved_copy(plan->inputs, plan->n_inputs, sizeof *s->inputs);
    s->outputs = saved_copy(plan->outputs, plan->n_outputs, sizeof *s->outputs);
    s->devices = saved_copy(plan->devices, (size_t)plan->context->n_devices, sizeof *s->devices);
    s->entries = saved_copy(plan->residence->entries, plan->residence->n_entries, sizeof *s->entries);
    s->nodes = calloc(n + 1, sizeof *s->nodes);
    s->operands = calloc(n * (PLAIT_MAX_INPUTS + PLAIT_MAX_OUTPUTS) + 1, sizeof *s->operands);
    s->order = calloc(n + 1, sizeof *s->order);
    s->groups = calloc(n + 1, sizeof *s->groups);
    s->shared = calloc(n * PLAIT_MAX_INPUTS + 1, sizeof *s->shared);
    if (!s->nodes || !s->operands || !s->order || !s->groups || !s->shared) abort();
    saved_segments(plan, s, false);
}

static inline void restore(plait_plan *plan, saved *s) {
    memcpy(plan, &s->plan, sizeof s->plan);
    memcpy(plan->values, s->values, plan->n_values * sizeof *s->values);
    memcpy(plan->steps, s->steps, plan->n_steps * sizeof *s->steps);
    if (plan->n_waits) memcpy(plan->waits, s->waits, plan->n_waits * sizeof *s->waits);
    memcpy(plan->queues, s->queues, plan->n_queues * sizeof *s->queues);
    if (plan->n_transfers) memcpy(plan->transfers, s->transfers, plan->n_transfers * sizeof *s->transfers);
    memcpy(plan->inputs, s->inputs, plan->n_inputs * sizeof *s->inputs);
    memcpy(plan->outputs, s->outputs, plan->n_outputs * sizeof *s->outputs);
    memcpy(plan->devices, s->devices, (size_t)plan->context->n_devices * sizeof *s->devices);
    memcpy(plan->residence->entries, s->entries, plan->residence->n_entries * sizeof *s->entries);
    saved_segments(plan, s, true);
}

static inline void forget(saved *s) {
    void *blocks[] = {s->values, s->steps,    s->transfers, s->inputs, s->outputs, s->devices, s->entries,
                      s->nodes,  s->operands, s->groups,    s->order,  s->shared,  s->waits,   s->queues};
    for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++) free(blocks[i]);
}

static inline bool saved_equal(const void *a, const void *b, size_t n, size_t size) {
    return n == 0 || memcmp(a, b, n * size) == 0;
}

/* True when the tables are as they were saved. */
static inline bool same_as_saved(plait_plan *plan, saved *s) {
    saved now = {0};
    save(plan, &now);
    bool same = memcmp(&now.plan, &s->plan, sizeof now.plan) == 0;
#define SAME(table, n) same = same && saved_equal(now.table, s->table, (n), sizeof *now.table)
    SAME(values, plan->n_values);
    SAME(steps, plan->n_steps);
    SAME(waits, plan->n_waits);
    SAME(queues, plan->n_queues);
    SAME(transfers, plan->n_transfers);
    SAME(inputs, plan->n_inputs);
    SAME(outputs, plan->n_outputs);
    SAME(devices, (size_t)plan->context->n_devices);
    SAME(entries, plan->residence->n_entries);
    SAME(nodes, plan->graph->n_nodes);
    SAME(operands, plan->graph->n_nodes * (PLAIT_MAX_INPUTS + PLAIT_MAX_OUTPUTS));
    SAME(order, plan->graph->n_nodes);
    SAME(groups, plan->graph->n_nodes);
    SAME(shared, plan->graph->n_nodes * PLAIT_MAX_INPUTS);
#undef SAME
    forget(&now);
    return same;
}

#endif
