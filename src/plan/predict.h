/* Predicted times of a plan that is made: of nodes, of commands, of the whole step. From the figures of the devices
 * (plait/cost.h); a context of one device has them only if somebody asked for them, and without them every time is 0.
 *
 * Two steps are predicted: `full` with every dim at its bound, `single` with every dim at 1. Nanoseconds. */
#ifndef PLAIT_PLAN_PREDICT_H
#define PLAIT_PLAN_PREDICT_H

#include "plan/weigh.h"

typedef struct plait_prediction {
    const plait_plan *plan;
    const plait_cost *cost; /* NULL: no figures are known */
    plait_cost own_cost;    /* of a plan for one device, which keeps none */
    int64_t *ones;          /* values of the named dims in a single step */
} plait_prediction;

/* Deinit accepts a zeroed one. */
plait_status plait_prediction_init(plait_prediction *prediction, const plait_plan *plan);
void plait_prediction_deinit(plait_prediction *prediction);

/* A node where it runs. A launch is not in it. */
double plait_predict_node(const plait_prediction *prediction, uint32_t node, bool full);
/* A node on another device: what it would take there in a step of the expected mixture (as placement saw it), or why not.
 * False when it does not run there, or nothing is known. *out_why is "" where it runs; borrowed from the plan. */
bool plait_predict_elsewhere(const plait_plan *plan, uint32_t node, int device, double *out_ns,
                             const char **out_why);
/* A command of the plan: launch, transfer, input or output. */
double plait_predict_command(const plait_prediction *prediction, size_t step, bool full);
/* The step: queues work side by side, each command after those before it and those it waits for. `begins` (may be NULL)
 * gets the beginning of every command. */
plait_status plait_predict_step(const plait_prediction *prediction, bool full, double *begins,
                                double *out_ns);

#endif
