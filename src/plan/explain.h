/* What every form of explanation says: names of commands, what a group moves, alternatives, predicted times. Filled once
 * from a finished plan; print.c, json.c and html.c give it its three forms, run/trace.c uses the same names, and the
 * command line lays traces beside forecasts.
 *
 * Not here: any decision. Nothing writes to the plan.
 */
#ifndef PLAIT_PLAN_EXPLAIN_H
#define PLAIT_PLAN_EXPLAIN_H

#include "plan/plan.h"

/* A group of a launch, in the order of the list. */
typedef struct plait_explained_group {
    uint32_t step, segment;
    int group; /* of the segment's prepared groups */
    uint64_t in_bytes,
        out_bytes; /* between devices, at the bounds: what it is the first to read; what it made */
} plait_explained_group;

typedef struct plait_explained {
    const plait_plan *plan; /* Borrowed. */
    plait_arena arena;      /* Owned: the tables */
    plait_explained_group *groups;
    uint32_t *first_group; /* [step + 1] */
    uint32_t n_groups;
    /* Figures of all devices are known, so times can be predicted: always with several devices; with one, once somebody has
     * asked for its figures (plait_context_figures). */
    bool timed;
    plait_cost cost; /* Owned. */
} plait_explained;

/* Deinit accepts a zeroed one, and one whose init has failed. */
plait_status plait_explain(plait_explained *out, const plait_plan *plan);
void plait_explained_deinit(plait_explained *e);

/* ---- forecast (forecast.c) ---- */

typedef struct plait_forecast_span {
    double begin_ns, end_ns;
} plait_forecast_span;

/* One step that begins on idle queues: each command begins when the one before it on its queue and all that it waits for
 * have ended. All zero when times are not known; `bytes` always. */
typedef struct plait_forecast {
    plait_forecast_span *steps;  /* [step] */
    plait_forecast_span *groups; /* [group] */
    uint64_t *bytes;             /* [step] moved; 0 for launches */
    double *busy_ns;             /* [queue] sum of its commands */
    double end_ns;
} plait_forecast;

/* dims: values of the named dims; keys: what a query of the step sees at most, 0: all that caches can hold. Tables are
 * the arena's. */
plait_status plait_forecast_make(const plait_explained *e, const int64_t *dims, double keys,
                                 plait_arena *arena, plait_forecast *out);
/* Every dim at 1 (0 where that is its bound): the smallest step, for example one token. */
plait_status plait_forecast_smallest(const plait_explained *e, plait_arena *arena, plait_forecast *out);
/* Every dim at its bound. */
plait_status plait_forecast_largest(const plait_explained *e, plait_arena *arena, plait_forecast *out);
/* Time of all the steps that the plan was made to expect, with the keys expected; 0 where times are not known. */
plait_status plait_forecast_use(const plait_plan *plan, double *out_ns);

/* ---- names ---- */

/* "launches", "copies", "copies in", "copies out". */
const char *plait_explain_queue(const plait_plan *plan, uint32_t queue);
/* The name of a command that is no launch, "move blk.3.rope"; of a launch that of its last group, which is what others
 * wait for. Control characters become '?'. */
void plait_explain_step(const plait_plan *plan, uint32_t step, plait_strbuf *s);
/* What a step moves, and the block it belongs to (-1: none); names of a launch: its last group's first node. */
const char *plait_explain_subject(const plait_plan *plan, uint32_t step, int32_t *out_block);
/* "launch", "input", "output", "move", "send", "receive". */
const char *plait_explain_verb(plait_step_kind kind);
const char *plait_explain_route(plait_route route);
/* A name with '?' in place of control characters. */
void plait_explain_clean_char(plait_strbuf *s, char c);
void plait_explain_clean(plait_strbuf *s, const char *name);
/* Where a name says the number of its block, behind a dot and before a dot or the end; NULL: nowhere. */
const char *plait_explain_block(const char *name, int32_t block, size_t *out_digits);
/* "12.3 us" in three digits. */
void plait_explain_time(plait_strbuf *s, double ns);

/* ---- figures ---- */

/* What a group would take on a device on average over the expected steps; false, and the first reason, where a node of it
 * does not run. Plans of several devices only. */
bool plait_explain_alternative(const plait_plan *plan, const plait_plan_segment *segment,
                               const plait_group *group, int device, double *out_ns, const char **out_reason);
/* That time as "2.57 times as long" as on the group's own device; as a time where nothing is known of that. */
void plait_explain_elsewhere(plait_strbuf *s, const plait_plan *plan, const plait_plan_segment *segment,
                             const plait_group *group, double ns);
/* Bytes of temporaries that are in use at each position of a device: live[n_positions], zeroed by the caller. */
void plait_explain_memory(const plait_plan *plan, int device, int64_t *live);

#endif
