/* Plans beside a trace of what happened: predicted and measured time of every name, for each plan and queue.
 *
 * A trace is what run/trace.c writes; it comes from a file, so it may be anything. What it says of steps (their plan and
 * dims) decides what is predicted, so both sides count the same work. Names of blocks that differ in the block's number
 * alone are one row, with '*' for the number.
 */
#ifndef PLAIT_MODEL_COMPARE_H
#define PLAIT_MODEL_COMPARE_H

#include "base/arena.h"
#include "plan/explain.h"

typedef struct plait_compared_row {
    const char *name;
    int plan;       /* in the list of plans */
    uint32_t queue; /* of the context */
    uint64_t n_predicted, n_measured;
    double predicted_ns, measured_ns;
} plait_compared_row;

/* Spans of the trace that no plan has. */
typedef struct plait_compared_stranger {
    const char *plan, *device, *queue, *name;
    uint64_t n;
    double measured_ns;
} plait_compared_stranger;

typedef struct plait_compared_queue {
    double predicted_ns, measured_ns, wait_ns; /* waits as measured */
} plait_compared_queue;

typedef struct plait_comparison {
    plait_arena arena; /* Owned: all of it */
    const plait_plan *const *plans;
    int n_plans;
    uint64_t *n_steps;            /* [plan] recorded */
    plait_compared_row *rows;     /* largest difference first; those that neither side has had are left out */
    plait_compared_queue *queues; /* [queue of the context] */
    plait_compared_stranger *strangers; /* most time first */
    size_t n_rows, n_queues, n_strangers;
    uint64_t n_spans, n_known; /* groups, segments and transfers of the trace; those that a plan has */
} plait_comparison;

/* Compares plans of one context, whose figures must be known, with the text of a trace. CORRUPT: not JSON, or no trace;
 * NOT_FOUND: no span has a name of these plans, so it is of another model, other devices or other options; LIMIT: more
 * names or kinds of steps than any trace of ours has. Deinit accepts a zeroed one. Everything but names of strangers is
 * the plans'. */
plait_status plait_compare(plait_comparison *out, const plait_plan *const *plans, int n_plans,
                           const char *text, size_t n_bytes);
void plait_comparison_deinit(plait_comparison *comparison);

#endif
