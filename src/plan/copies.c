/* Copies of operands. Where a node runs on a device that takes an operand only dense, a node `copy` makes it dense: on that
 * device if it copies what it does not compute with, else where the way from the operand's maker to the reader costs least.
 * Readers on devices served by one copier share the copy. The caller's graph stays as it is: the plan goes on with another
 * one, which plait_plan_verify_copies compares with it.
 *
 * Not here: whether a copy is better than another device, which the times in weigh.c have settled. Invariant: every other
 * node keeps its device and its cause. */
#include "plan/place.h"

#include "base/alloc.h"
#include "base/status.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct copier {
    plait_plan *plan;
    const plait_weighed *weighed; /* NULL: one device */
    plait_graph_copy *copies;     /* Owned, as all below. */
    int *devices;                 /* [copy] */
    uint32_t *next;               /* [copy] of the same tensor, + 1 */
    uint32_t *first;              /* [tensor] + 1 */
    uint32_t *instead;            /* [node * PLAIT_MAX_INPUTS + input] its copy + 1 */
    size_t n, copy_capacity, device_capacity, next_capacity;
} copier;

/* ---- which copies ---- */

/* Where a tensor's bytes are when they are copied; -1: anywhere, the host sends them. */
static int maker_device(const plait_plan *plan, const plait_graph_tensor *tensor) {
    if (tensor->node != PLAIT_NO_NODE) return plan->placements[tensor->node].device;
    const plait_resident *entry = plan->residents[tensor->storage];
    return entry ? entry->device : -1;
}

/* The device that makes the copy for a reader on `device`: the reader's if it can. With one device (no weighing) it
 * can, or the device would not have been taken for the node. Bytes are counted as they travel: the gaps of a view go to
 * the copier, dense bytes come from it. */
static int choose_device(const copier *c, const plait_graph_tensor *tensor, int device) {
    const plait_weighed *w = c->weighed;
    plait_op_use copy;
    plait_weigh_copy_use(&tensor->shape, &copy);
    uint64_t copiers = plait_weigh_copiers(c->plan->context, &copy);
    if (!w || copiers >> device & 1u) return device;
    int best = device, from = maker_device(c->plan, tensor);
    double least = INFINITY, before = (double)tensor->span_bytes;
    double after = (double)plait_operand_span_bytes(&copy.outputs[0]);
    for (int d = 0; d < w->n_devices; d++) {
        if (!(copiers >> d & 1u)) continue;
        double ns = plait_weigh_copy_ns(w->cost, &copy, d) + plait_weigh_move(w, d, device, after);
        if (from >= 0) ns += plait_weigh_move(w, from, d, before);
        if (ns < least) least = ns, best = d;
    }
    return best;
}

/* The copy of a tensor on a device, made once for all who read it from there; *out: its number + 1. Readers are visited
 * in program order, so the first one is the earliest, before which the copy stands; the value is the same for all of
 * them, as a tensor is one version of its storage. */
static plait_status add_copy(copier *c, uint32_t tensor, uint32_t reader, int device, uint32_t *out) {
    const plait_graph_tensor *row = &c->plan->graph->tensors[tensor];
    for (uint32_t k = c->first[tensor]; k; k = c->next[k - 1])
        if (c->devices[k - 1] == device) return *out = k, PLAIT_OK;
    size_t most = (size_t)1 << 24;
    PLAIT_TRY(plait_grow(&c->copies, &c->copy_capacity, c->n + 1, sizeof *c->copies, most, "copies"));
    PLAIT_TRY(plait_grow(&c->devices, &c->device_capacity, c->n + 1, sizeof *c->devices, most, "copies"));
    PLAIT_TRY(plait_grow(&c->next, &c->next_capacity, c->n + 1, sizeof *c->next, most, "copies"));
    /* On a third device it stands with what makes the tensor, so that it cuts no run of nodes of the reader's. */
    bool early = device != c->plan->placements[reader].device && row->node != PLAIT_NO_NODE;
    c->copies[c->n] = (plait_graph_copy){tensor, reader, early};
    c->devices[c->n] = device;
    c->next[c->n] = c->first[tensor];
    *out = c->first[tensor] = (uint32_t)++c->n;
    return PLAIT_OK;
}

/* `copies` [node]: a bit for each input, as weigh.c found for the device on which the node is now. */
static plait_status list_copies(copier *c, const uint16_t *copies) {
    const plait_graph *graph = c->plan->graph;
    c->first = plait_alloc_array(graph->n_tensors, sizeof *c->first);
    c->instead = plait_alloc_array(graph->n_nodes * PLAIT_MAX_INPUTS, sizeof *c->instead);
    if (!c->first || !c->instead)
        return plait_error_memory("copies", graph->n_nodes * PLAIT_MAX_INPUTS * sizeof *c->instead);
    for (uint32_t n = 0; n < graph->n_nodes; n++)
        for (int i = 0; copies[n] >> i; i++) {
            if (!(copies[n] >> i & 1u)) continue;
            uint32_t tensor = graph->nodes[n].inputs[i];
            int device = choose_device(c, &graph->tensors[tensor], c->plan->placements[n].device);
            PLAIT_TRY(add_copy(c, tensor, n, device, &c->instead[(size_t)n * PLAIT_MAX_INPUTS + (size_t)i]));
        }
    return PLAIT_OK;
}

/* ---- the graph that has them ---- */

/* Why there is a copy: who reads it, and what that device says of the operand as it was. Asked again with the original
 * operand, whose refusal is the reason. */
static plait_status explain(const copier *c, uint32_t reader, const char **out) {
    const plait_plan *plan = c->plan;
    int device = plan->placements[reader].device;
    char reason[120], text[PLAIT_MAX_NAME + 128];
    uint16_t copies;
    plait_op_use use;
    plait_graph_use(plan->graph, reader, NULL, &use);
    (void)plait_weigh_device(plan->context, plan->graph, reader, &use, plan, device, reason, sizeof reason,
                             &copies);
    snprintf(text, sizeof text, "%s: %s", plan->context->devices[device].device->name, reason);
    *out = plait_arena_string(&c->plan->arena, text);
    return *out ? PLAIT_OK : plait_error_memory("copies", strlen(text));
}

/* Nodes of the caller's keep what was decided for them; copies are told by their origin, which lies behind the caller's
 * nodes. */
static plait_status place_nodes(const copier *c, const plait_graph *graph, const uint32_t *origins,
                                plait_placement *out) {
    const plait_plan *plan = c->plan;
    for (uint32_t n = 0; n < graph->n_nodes; n++) {
        size_t copy = origins[n] - plan->graph->n_nodes;
        if (origins[n] < plan->graph->n_nodes) {
            out[n] = plan->placements[origins[n]];
            if (!out[n].reason[0]) continue;
            /* What refused it was noted by the weighing, which is made anew for this graph. */
            out[n].reason = plait_arena_string(&c->plan->arena, out[n].reason);
            if (!out[n].reason) return plait_error_memory("copies", 0);
            continue;
        }
        out[n] = (plait_placement){.device = c->devices[copy], .cause = PLAIT_CAUSE_COPY};
        PLAIT_TRY(explain(c, c->copies[copy].reader, &out[n].reason));
    }
    return PLAIT_OK;
}

/* The plan takes the graph over, with what depends on the numbers of its nodes and storages. Takes the graph over, or
 * releases it when it fails: the plan then still has the one it had. The older graph lives on as `source`. */
static plait_status adopt(copier *c, const plait_graph *graph, uint32_t *origins) {
    plait_plan *plan = c->plan;
    plait_placement *placements = plait_arena_alloc(&plan->arena, graph->n_nodes, sizeof *placements);
    const plait_resident **residents = plait_arena_alloc(&plan->arena, graph->n_storages, sizeof *residents);
    if (!placements || !residents) {
        plait_graph_release(graph);
        return plait_error_memory("copies", graph->n_nodes * sizeof *placements);
    }
    plait_status status = place_nodes(c, graph, origins, placements);
    plait_graph_release(status == PLAIT_OK ? plan->graph : graph);
    PLAIT_TRY(status);
    plan->graph = graph;
    plan->placements = placements;
    plan->residents = residents;
    plan->origins = origins;
    plait_plan_find_residents(plan);
    return PLAIT_OK;
}

/* All copies are known before the graph is built: building needs each node's inputs final. */
static plait_status insert(copier *c, const uint16_t *copies) {
    plait_plan *plan = c->plan;
    const plait_graph *graph;
    PLAIT_TRY(list_copies(c, copies));
    uint32_t *origins = plait_arena_alloc(&plan->arena, plan->graph->n_nodes + c->n, sizeof *origins);
    if (!origins) return plait_error_memory("copies", plan->graph->n_nodes * sizeof *origins);
    PLAIT_TRY(plait_graph_with_copies(&graph, plan->graph, c->copies, c->n, c->instead, origins));
    return adopt(c, graph, origins);
}

/* Times and values are by numbers of nodes, which have changed. Copies that were inserted leave operands dense, so no
 * node of the new graph asks for copies where it is. */
static plait_status weigh_anew(plait_plan *plan, plait_weighed *weighed) {
    plait_weighed_deinit(weighed);
    return plait_weigh(weighed, plan->graph, plan->context, &plan->cost, plan->steps_expected, plan);
}

/* Mostly no node asks for a copy, and then the caller's graph is what runs. After copies were inserted everything that
 * was weighed by the numbers of nodes is weighed anew. */
plait_status plait_place_copies(plait_plan *plan, const uint16_t *copies, plait_weighed *weighed) {
    copier c = {.plan = plan, .weighed = weighed};
    bool any = false;
    for (size_t n = 0; n < plan->graph->n_nodes; n++) any = any || copies[n];
    if (!any) return PLAIT_OK;
    plait_status status = insert(&c, copies);
    free(c.copies);
    free(c.devices);
    free(c.next);
    free(c.first);
    free(c.instead);
    return status == PLAIT_OK && weighed ? weigh_anew(plan, weighed) : status;
}
