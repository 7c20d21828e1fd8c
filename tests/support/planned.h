/* A graph with its context, residence and plan: what tests of planning make and look at. */
#ifndef PLAIT_TESTS_SUPPORT_PLANNED_H
#define PLAIT_TESTS_SUPPORT_PLANNED_H

#include "plan/plan.h"
#include "support/assert_ok.h"

#include <string.h>

typedef struct planned {
    plait_context *context;
    plait_graph *graph;
    plait_residence *residence;
    plait_plan *plan;
} planned;

/* Takes over the graph, NULL for one that could not be built. depth 0: the usual one. */
static inline void planned_make(planned *f, plait_graph *graph, const char *devices,
                                const plait_residence_options *options, int depth) {
    const plait_graph *graphs[] = {graph};
    if (!graph) fail_msg("%s", plait_error_message());
    *f = (planned){.graph = graph};
    assert_ok(plait_context_open(&f->context, devices, NULL));
    assert_ok(plait_residence_create(&f->residence, f->context, graphs, 1, options));
    assert_ok(plait_plan_make(&f->plan, f->context, graph,
                              &(plait_plan_options){.residence = f->residence, .depth = depth}));
}

static inline void planned_destroy(planned *f) {
    plait_plan_release(f->plan);
    plait_residence_release(f->residence);
    plait_context_close(f->context);
    plait_graph_destroy(f->graph);
    *f = (planned){0};
}

static inline uint32_t planned_node(const planned *f, const char *name) {
    for (uint32_t n = 0; n < f->plan->graph->n_nodes; n++)
        if (strcmp(f->plan->graph->nodes[n].name, name) == 0) return n;
    fail_msg("no node is called %s", name);
    return 0;
}

static inline const plait_placement *planned_placement(const planned *f, const char *node) {
    return &f->plan->placements[planned_node(f, node)];
}

#endif
