/* A graph weighed for the devices of a context: which device runs which node, in what time, and what its values weigh.
 * Residence weighs the graphs of a model before it knows where weights live (unbound); placement weighs one graph for
 * weights that are where they are (bound). Not here: any choice. */
#ifndef PLAIT_PLAN_WEIGH_H
#define PLAIT_PLAN_WEIGH_H

#include "cost/cost.h"
#include "plan/plan.h"

typedef struct plait_weighed {
    const plait_graph *graph;
    const plait_cost *cost; /* Borrowed. */
    int n_devices;
    plait_expected_steps steps;
    uint64_t *runs; /* [node] a bit for each device that runs it */
    /* [node * n_devices + device] where it runs: in a step of one item, in a step at the bounds, and on average over the
     * expected mixture of both (where caches are not full). */
    float *single_ns, *full_ns, *ns;
    const char **why; /* [node * n_devices + device] "" where it runs as it is, else the device's reason */
    /* [node * n_devices + device] inputs that have to be copied first, because the device takes them only dense, a bit each;
     * it runs the node then, and the times are with the copies. */
    uint16_t *copies;
    uint32_t *
        first_value; /* [n_nodes + 1] the outputs of node n are values first_value[n] to first_value[n + 1] */
    float *bytes;    /* [value] in one step of the expected mixture */
    plait_arena arena; /* Owned: all of it */
} plait_weighed;

/* Whether a device runs a node, whose use is given at the bounds; if not, or only with copies of some inputs (*out_copies, a
 * bit each; NULL: without), its reason. `bound` NULL: weights may be anywhere; else the device must hold all weights of the
 * node, and is asked for the encodings that it holds. */
bool plait_weigh_device(const plait_context *context, const plait_graph *graph, uint32_t node,
                        const plait_op_use *use, const plait_plan *bound, int device, char *reason,
                        size_t reason_bytes, uint16_t *out_copies);
/* The use of op `copy` that makes an operand dense, and the devices that run it, a bit each. */
void plait_weigh_copy_use(const plait_operand *operand, plait_op_use *out);
uint64_t plait_weigh_copiers(const plait_context *context, const plait_op_use *copy);
/* Time of it on a device. */
double plait_weigh_copy_ns(const plait_cost *cost, const plait_op_use *copy, int device);
/* Whether every device would say the same of two nodes that are one use: with `bound`, when their weights lie in the same
 * forms on the same devices. */
bool plait_weigh_alike(const plait_context *context, const plait_graph *graph, uint32_t a, uint32_t b,
                       const plait_plan *bound);

/* Weighs a graph; `bound` as above. */
plait_status plait_weigh(plait_weighed *out, const plait_graph *graph, const plait_context *context,
                         const plait_cost *cost, plait_expected_steps steps, const plait_plan *bound);
void plait_weighed_deinit(plait_weighed *weighed); /* accepts a zeroed one */

/* Bytes of a storage in one step of the expected mixture: as large as its bounded dim makes it. */
double plait_weigh_storage(const plait_graph *graph, uint32_t storage, plait_expected_steps steps);
/* Numbers nodes by what lies between points that at most one value crosses, in program order from 0: `group` [node],
 * *out_n of them. */
plait_status plait_weigh_points(const plait_weighed *weighed, uint32_t *group, uint32_t *out_n);
/* Time of moving a value in a step of the mixture. */
static inline double plait_weigh_move(const plait_weighed *w, int from, int to, double bytes) {
    return plait_cost_transfer(w->cost, from, to, 1, bytes);
}

/* The number of the value that a tensor shows: the output of a node, whatever views lie between; UINT32_MAX for inputs,
 * weights and states as they begin. */
static inline uint32_t plait_weighed_value(const plait_weighed *w, uint32_t tensor) {
    const plait_graph_tensor *row = &w->graph->tensors[tensor];
    return row->node == PLAIT_NO_NODE ? UINT32_MAX : w->first_value[row->node] + row->output_index;
}

#endif
