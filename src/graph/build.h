/* Inside of the builder: shared by build.c, view.c, node.c, seal.c, text.c, parse.c and dot.c. Not for other rooms. */
#ifndef PLAIT_GRAPH_BUILD_H
#define PLAIT_GRAPH_BUILD_H

#include "base/status.h"
#include "base/strbuf.h"
#include "graph/graph.h"

/* Bounds on what one graph may hold; ids are 32 bit. */
enum {
    PLAIT_GRAPH_MAX_ENTRIES = 1 << 24,
    PLAIT_GRAPH_MAX_DIMS = 64,
    PLAIT_GRAPH_MAX_EXTENTS = 4096,
    PLAIT_GRAPH_MAX_PARTS = 4096,
    PLAIT_GRAPH_MAX_BLOCKS = 1 << 20
};

/* What is needed only while a graph is being built; freed by seal, so a sealed graph has no builder. */
typedef struct plait_graph_builder {
    plait_map names;          /* "kind/name" -> tensor, of inputs, weights, states and outputs */
    const char *scope;        /* put in front of nodes' names; in the graph's arena, "" for none */
    int32_t block;            /* of nodes and stored values to come; -1: none */
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
/* Writes the words of a graph that is about to be sealed. */
plait_status plait_graph_identify(plait_graph *graph);
/* Numbers the uses of a graph that is about to be sealed. */
plait_status plait_graph_number_uses(plait_graph *graph);
/* Writes the extents of a node's outputs, derived from its inputs' through the op's factors. */
plait_status plait_graph_derive_extents(const plait_graph *graph, const plait_op_use *use,
                                        const plait_tensor *inputs, plait_extent *out_extents);
/* The first error of all builder calls, raised again; OK when there is none. */
plait_status plait_graph_first_error(const plait_graph *graph);
/* A view in its general form, as parse.c reads it: any shape, strides and offset in bytes from the storage's start,
 * checked to address nothing but bytes of `base` at every value of the bounded dim. */
plait_tensor plait_graph_view(plait_graph *graph, plait_tensor base, plait_shape shape,
                              const int64_t strides[PLAIT_MAX_RANK], int64_t offset);

/* ---- printing: pieces of the text form that parse.c and dot.c share ---- */

const char *plait_storage_kind_name(plait_storage_kind kind);
void plait_graph_print_quoted(plait_strbuf *s, const char *name);
void plait_graph_print_shape(const plait_graph *graph, const plait_graph_tensor *tensor, plait_strbuf *s);
/* Attributes that differ from their initial values, each with a space in front. */
void plait_graph_print_attrs(const plait_graph_node *node, plait_strbuf *s);

static inline bool plait_extent_equal(const plait_extent *a, const plait_extent *b) {
    return a->dim == b->dim && (a->dim < 0 || (a->a == b->a && a->b == b->b && a->c == b->c));
}

#endif
