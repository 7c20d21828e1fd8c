/* Sealing, and reading what is known of a graph and its tensors. Invariant: after plait_graph_seal succeeded,
 * nothing in the graph is written again until it is destroyed. */
#include "graph/build.h"

#include "base/alloc.h"

#include <stdlib.h>
#include <string.h>

/* Marks the nodes whose results reach an output or that write state. Backwards, as makers have smaller numbers than
 * readers: one pass. */
static plait_status mark_used(const plait_graph *graph, bool *used) {
    for (size_t o = 0; o < graph->n_outputs; o++) {
        uint32_t node = graph->tensors[graph->outputs[o].tensor].node;
        if (node != PLAIT_NO_NODE) used[node] = true;
    }
    for (size_t n = graph->n_nodes; n-- > 0;) {
        const plait_graph_node *node = &graph->nodes[n];
        /* Writing state has an effect that no output shows. */
        if (node->op->writes_input >= 0 &&
            graph->storages[graph->tensors[node->outputs[0]].storage].kind == PLAIT_STORAGE_STATE)
            used[n] = true;
        for (int i = 0; used[n] && i < node->n_inputs; i++) {
            uint32_t maker = node->inputs[i] ? graph->tensors[node->inputs[i]].node : PLAIT_NO_NODE;
            if (maker != PLAIT_NO_NODE) used[maker] = true;
        }
    }
    return PLAIT_OK;
}

/* Faults that no single call can see: a node that nobody needs (mostly a forgotten output, which would cost time in
 * every step), an output whose storage was written since, a graph that does nothing. */
static plait_status check_whole(const plait_graph *graph) {
    bool *used = plait_alloc_array(graph->n_nodes, sizeof *used);
    if (!used) return plait_error_memory("sealing a graph", graph->n_nodes);
    plait_status status = mark_used(graph, used);
    for (size_t n = 0; status == PLAIT_OK && n < graph->n_nodes; n++)
        if (!used[n])
            status =
                plait_error(PLAIT_INVALID_ARGUMENT, "graph %s: node %zu \"%s\" (%s): nothing uses its result",
                            graph->name, n, graph->nodes[n].name, graph->nodes[n].op->name);
    free(used);
    for (size_t o = 0; status == PLAIT_OK && o < graph->n_outputs; o++) {
        const plait_graph_tensor *tensor = &graph->tensors[graph->outputs[o].tensor];
        const plait_graph_storage *storage = &graph->storages[tensor->storage];
        if (tensor->node != storage->writer)
            status = plait_error(
                PLAIT_INVALID_ARGUMENT,
                "graph %s: output \"%s\" is an old value of \"%s\": node \"%s\" wrote it since", graph->name,
                graph->outputs[o].name, storage->name, graph->nodes[storage->writer].name);
    }
    if (status == PLAIT_OK && graph->n_outputs == 0 && graph->n_nodes == 0)
        status = plait_error(PLAIT_INVALID_ARGUMENT, "graph %s: it has no node and no output", graph->name);
    return status;
}

/* Again on a sealed graph: OK, nothing happens. A failure leaves the graph open; what needs the builder (names) ends
 * with it. */
plait_status plait_graph_seal(plait_graph *graph) {
    if (graph->sealed) return PLAIT_OK;
    if (graph->builder->first.status != PLAIT_OK) return plait_error_raise(&graph->builder->first);
    PLAIT_TRY(check_whole(graph));
    PLAIT_TRY(plait_graph_identify(graph));
    PLAIT_TRY(plait_graph_number_uses(graph));
    plait_map_deinit(&graph->builder->names);
    free(graph->builder);
    graph->builder = NULL;
    graph->sealed = true;
    return PLAIT_OK;
}

/* The reference by which the caller could have written the extent; 0 if nobody ever named it, as for extents that ops
 * derived. */
static plait_dim dim_name(const plait_graph *graph, const plait_extent *extent) {
    for (size_t i = 0; i < graph->n_extents; i++)
        if (plait_extent_equal(&graph->extents[i], extent)) return -1 - (plait_dim)i;
    return 0;
}

/* Works on open and sealed graphs. */
plait_status plait_tensor_describe(const plait_graph *graph, plait_tensor tensor, plait_tensor_info *out) {
    const plait_graph_tensor *row = plait_graph_row(graph, tensor);
    if (!row)
        return plait_error(PLAIT_INVALID_ARGUMENT, "graph %s: %u is not a tensor of this graph", graph->name,
                           tensor.id);
    const plait_graph_storage *storage = &graph->storages[row->storage];
    plait_tensor_info info = {.name =
                                  row->node == PLAIT_NO_NODE ? storage->name : graph->nodes[row->node].name,
                              .dtype = row->shape.dtype,
                              .shape.rank = row->rank,
                              .storage = storage->kind,
                              .is_view = row->base != 0,
                              .block = storage->block};
    for (int i = 0; i < PLAIT_MAX_RANK; i++) {
        info.bounds[i] = row->shape.dims[i];
        bool bounded = row->outer.dim >= 0 && row->outer.axis == i;
        info.shape.dims[i] = bounded ? dim_name(graph, &row->outer) : row->shape.dims[i];
    }
    *out = info;
    return PLAIT_OK;
}

/* Outputs first: where an output has the name of an input, it is what a caller asks about. By a walk, as names' map is
 * gone with the builder. */
plait_status plait_graph_find(const plait_graph *graph, const char *name, plait_tensor *out) {
    for (size_t o = 0; o < graph->n_outputs; o++)
        if (strcmp(graph->outputs[o].name, name) == 0) return out->id = graph->outputs[o].tensor, PLAIT_OK;
    for (size_t s = 0; s < graph->n_storages; s++)
        if (graph->storages[s].kind != PLAIT_STORAGE_TEMPORARY && strcmp(graph->storages[s].name, name) == 0)
            return out->id = graph->storages[s].root, PLAIT_OK;
    return plait_error(PLAIT_NOT_FOUND, "graph %s: nothing is called \"%s\"", graph->name, name);
}
