/* Inside of a graph: plain tables that the rooms below (shard, plan) read. Written only by the builder
 * (build.c) before sealing; afterwards everything here is constant and may be read by any thread.
 *
 * Ids are indices; entry 0 of `tensors` is unused so that id 0 means "none". A storage has one entry for each
 * input, weight, state and node output that is not written in place; a tensor addresses one storage. A view has
 * no node: it is a tensor with the storage of its root and an offset. An op that writes in place makes a new
 * tensor (a new value) of the same storage, so order is visible: readers of the new tensor come after the write.
 */
#ifndef PLAIT_GRAPH_GRAPH_H
#define PLAIT_GRAPH_GRAPH_H

#include "base/arena.h"
#include "base/map.h"
#include "plait/device.h"
#include "plait/graph.h"

#include <stdatomic.h>

#define PLAIT_NO_NODE UINT32_MAX

typedef struct plait_graph_dim_row {
    const char *name;
    int64_t bound; /* largest value; 0 is legal */
} plait_graph_dim_row;

/* Bytes that tensors address. One for each input, weight and state, and for each output of a node that writes no
 * other's. */
typedef struct plait_graph_storage {
    plait_storage_kind kind;
    const char *name;    /* of an input, weight or state; of the node otherwise */
    uint64_t size_bytes; /* at the bounds */
    uint32_t root;       /* tensor that covers it whole */
    uint32_t writer;     /* node that wrote it last; PLAIT_NO_NODE for inputs, weights and unwritten states */
    int32_t block;       /* that it was declared in; -1: none */
    int part_axis, n_parts; /* packed parts as data; n_parts 0: none */
    plait_part *parts;
} plait_graph_storage;

/* A value, or a view of one. Dims and strides are those at the bounds; at run time only dims[outer.axis] is smaller. */
typedef struct plait_graph_tensor {
    plait_operand shape; /* dims at bounds, strides; data NULL */
    plait_extent outer;  /* dim < 0: constant */
    int rank;
    uint32_t storage;
    uint64_t offset;     /* bytes from the start of the storage */
    uint64_t span_bytes; /* at the bounds, from the first element to the last */
    uint32_t node; /* that made this value; PLAIT_NO_NODE for inputs, weights and states as they begin */
    uint32_t output_index; /* of that node */
    uint32_t base;         /* for a view: the tensor viewed; 0: not a view */
} plait_graph_tensor;

/* A use of an op. `present` has a bit for each input that is there: absent ones count in n_inputs, so that places keep
 * their meaning. */
typedef struct plait_graph_node {
    const plait_op *op;
    const char *name;
    int n_inputs, n_outputs;
    uint32_t present;
    int32_t block;                     /* -1: none */
    uint32_t inputs[PLAIT_MAX_INPUTS]; /* tensor ids, 0: absent */
    uint32_t outputs[PLAIT_MAX_OUTPUTS];
    plait_attr attrs[PLAIT_MAX_ATTRS];
} plait_graph_node;

/* What the host may read after a step, by name; any tensor, views too. */
typedef struct plait_graph_output {
    const char *name;
    uint32_t tensor;
} plait_graph_output;

/* Everything that the builder was told, in words (identity.c): equal words, equal graphs. */
typedef struct plait_graph_identity {
    const uint32_t *words;
    size_t n_words;
    uint64_t hash;
} plait_graph_identity;

/* The tables grow while building (capacities) and are constant once `sealed`. */
struct plait_graph {
    atomic_int *references; /* apart, since nothing in a sealed graph changes; in the arena */
    const char *name;
    plait_arena arena;     /* names, parts, identity */
    plait_extent *extents; /* what the negative plait_dim -1-i stands for */
    plait_graph_dim_row *dims;
    plait_graph_storage *storages;
    plait_graph_tensor *tensors;
    plait_graph_node *nodes;
    plait_graph_output *outputs;
    size_t n_extents, n_dims, n_storages, n_tensors, n_nodes, n_outputs;
    size_t extent_capacity, dim_capacity, storage_capacity, tensor_capacity, node_capacity, output_capacity;
    bool sealed;
    /* Once sealed: */
    plait_graph_identity identity;
    uint32_t *
        use_of; /* [node] number of its use: equal for nodes that differ in who makes their operands only (uses.c) */
    uint32_t *use_nodes; /* [use] the first node that is it */
    size_t n_uses;
    /* Everything below is the builder's. */
    struct plait_graph_builder *builder; /* names taken, scope, first error; freed by seal */
};

/* A sealed graph lives until its maker has destroyed it and everybody else has released it. Any thread. */
const plait_graph *plait_graph_retain(const plait_graph *graph);
void plait_graph_release(const plait_graph *graph); /* accepts NULL */
/* True when both sealed graphs were built by the same calls in the same order: equal in all but the graph's own name. A
 * few nanoseconds a node. */
bool plait_graph_same(const plait_graph *a, const plait_graph *b);

/* The weight of that name in a graph that is being built, if there is one. */
bool plait_graph_known_weight(const plait_graph *graph, const char *name, plait_tensor *out);

/* Fills a use of node `node` with shapes at the bounds of the dims (values == NULL) or at the given values of
 * the named dims. Data pointers are NULL. */
void plait_graph_use(const plait_graph *graph, uint32_t node, const int64_t *values, plait_op_use *out);

/* ---- copies (copies.c) ---- */

/* A copy of a tensor, dense, as a node `copy`: before its first reader, or `early`, as soon as the tensor is there. */
typedef struct plait_graph_copy {
    uint32_t tensor,
        reader; /* of the graph that is copied from; readers do not descend in a list of copies */
    bool early;
} plait_graph_copy;

/* The same graph with copies of operands in it, sealed: input i of node n is copy `instead`[n * PLAIT_MAX_INPUTS + i] - 1,
 * where that is not 0. out_origins [n_nodes + n_copies]: the node of `graph` that each node is; for copy k,
 * graph->n_nodes + k. */
plait_status plait_graph_with_copies(const plait_graph **out, const plait_graph *graph,
                                     const plait_graph_copy *copies, size_t n_copies, const uint32_t *instead,
                                     uint32_t *out_origins);

#endif
