/* Inside of the builder: shared by build.c, view.c, ops.c, seal.c and parse.c. Not for other rooms. */
#ifndef PLAIT_GRAPH_BUILD_H
#define PLAIT_GRAPH_BUILD_H

#include "graph/graph.h"

/* Bounds on what one graph may hold; ids are 32 bit. */
enum { PLAIT_GRAPH_MAX_ENTRIES = 1 << 24, PLAIT_GRAPH_MAX_DIMS = 64, PLAIT_GRAPH_MAX_PARTS = 4096 };

typedef struct plait_graph_builder {
    plait_map names; /* "kind/name" -> tensor, of inputs, weights, states and outputs */
    const char *scope;
    plait_error_record first; /* status OK while nothing failed */
} plait_graph_builder;

/* Remembers the first error: keeps the thread's message, prefixed with the graph's name. Returns poison. */
plait_tensor plait_graph_fail(plait_graph *graph, plait_status status);
/* True when the graph takes no more calls: sealed (an error is remembered) or failed already. */
bool plait_graph_closed(plait_graph *graph);

/* The row of a tensor id, or NULL for poison and foreign ids. */
static inline plait_graph_tensor *plait_graph_row(const plait_graph *graph, plait_tensor tensor) {
    return tensor.id > 0 && tensor.id < graph->n_tensors ? &graph->tensors[tensor.id] : NULL;
}

/* Turns a shape into dims at bounds and an extent. Messages name no operand: the caller adds context. */
plait_status plait_graph_shape(const plait_graph *graph, plait_shape shape, int64_t *out_dims,
                               plait_extent *out_outer);
/* Appends rows; the result's id in *out. */
plait_status plait_graph_add_tensor(plait_graph *graph, const plait_graph_tensor *row, uint32_t *out);
plait_status plait_graph_add_storage(plait_graph *graph, const plait_graph_storage *row, uint32_t *out);
/* Smallest rank that shows all dims other than 1 and the bounded one. */
int plait_graph_rank(const int64_t *dims, const plait_extent *outer);
/* Copies a name, with the scope in front when asked; checks length and characters. */
plait_status plait_graph_name(plait_graph *graph, const char *name, bool scoped, const char **out);
/* Writes the extents of a node's outputs, derived from its inputs' through the op's factors. */
plait_status plait_graph_derive_extents(const plait_graph *graph, const plait_op_use *use,
                                        const plait_tensor *inputs, plait_extent *out_extents);
static inline bool plait_extent_equal(const plait_extent *a, const plait_extent *b) {
    return a->dim == b->dim && (a->dim < 0 || (a->a == b->a && a->b == b->b && a->c == b->c));
}

#endif
