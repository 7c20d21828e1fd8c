/* The builder: dims, storages and nodes are appended here, the first error is remembered. Not here: nodes (node.c),
 * views (view.c), the typed calls (ops.c), sealing (seal.c), and rules of any op (the op's file).
 *
 * Model code calls without looking at results, so every call checks first whether the graph still takes calls, does all
 * that can fail, and appends last. A failed call returns poison, on which later calls fail too; but they are not heard,
 * for the first error closes the graph.
 *
 * Invariant: after any call, failed or not, the tables are consistent: a failed call appends nothing that a later id
 * could refer to. */
#include "graph/build.h"

#include "base/alloc.h"
#include "base/size.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- life ---- */

/* NULL for want of memory: there is no graph yet that could remember an error. Row 0 of the tensors is zeroed and
 * stands for "none". */
plait_graph *plait_graph_create(const plait_graph_options *options) {
    plait_graph *graph = plait_alloc_array(1, sizeof *graph);
    if (!graph) return NULL;
    plait_arena_init(&graph->arena, 0);
    graph->references = plait_arena_alloc(&graph->arena, 1, sizeof *graph->references);
    if (graph->references) atomic_init(graph->references, 1);
    graph->builder = plait_alloc_array(1, sizeof *graph->builder);
    if (graph->builder) {
        plait_map_init(&graph->builder->names);
        graph->builder->scope = "";
        graph->builder->block = -1;
    }
    /* Defaults are filled in before anything is checked, so that one place can fail, and the ordinary destroy frees
     * what there is. */
    graph->name = plait_arena_string(&graph->arena, options && options->name ? options->name : "graph");
    graph->n_tensors = 1; /* id 0 is no tensor */
    plait_status status = plait_grow(&graph->tensors, &graph->tensor_capacity, 1, sizeof *graph->tensors,
                                     PLAIT_GRAPH_MAX_ENTRIES, "graph tensors");
    if (!graph->references || !graph->builder || !graph->name || status != PLAIT_OK) {
        plait_graph_destroy(graph);
        return NULL;
    }
    return graph;
}

/* References are counted beside the graph, not in it: a sealed graph is const for everybody, of any thread. */
const plait_graph *plait_graph_retain(const plait_graph *graph) {
    atomic_fetch_add(graph->references, 1);
    return graph;
}

void plait_graph_release(const plait_graph *graph) {
    plait_graph_destroy((plait_graph *)(uintptr_t)graph);
}

/* Gives up one reference, the maker's; frees what a failed create has left, too. */
void plait_graph_destroy(plait_graph *graph) {
    if (!graph || (graph->references && atomic_fetch_sub(graph->references, 1) > 1)) return;
    if (graph->builder) plait_map_deinit(&graph->builder->names);
    free(graph->builder);
    free(graph->extents);
    free(graph->dims);
    free(graph->storages);
    free(graph->tensors);
    free(graph->nodes);
    free(graph->outputs);
    plait_arena_deinit(&graph->arena);
    free(graph);
}

/* Later failures are dropped: they follow from the first. */
plait_tensor plait_graph_fail(plait_graph *graph, plait_status status) {
    if (graph->builder && graph->builder->first.status == PLAIT_OK) {
        plait_error_context(status, "graph %s", graph->name);
        plait_error_save(status, &graph->builder->first);
    }
    return PLAIT_NO_TENSOR;
}

/* None for a sealed graph, whose builder is gone. */
plait_status plait_graph_first_error(const plait_graph *graph) {
    bool failed = graph->builder && graph->builder->first.status != PLAIT_OK;
    return failed ? plait_error_raise(&graph->builder->first) : PLAIT_OK;
}

/* A sealed graph takes calls as little as a failed one, and remembers nothing of them: it does not change. */
bool plait_graph_closed(plait_graph *graph) {
    return !graph->builder || graph->builder->first.status != PLAIT_OK;
}

/* Names go into texts, messages and patterns: no spaces, quotes or control bytes. With `scoped` the scope stands in
 * front. The copy lives as long as the graph. */
plait_status plait_graph_name(plait_graph *graph, const char *name, bool scoped, const char **out) {
    const char *scope = scoped ? graph->builder->scope : "";
    size_t n = name ? strlen(name) : 0, m = strlen(scope);
    if (n == 0) return plait_error(PLAIT_INVALID_ARGUMENT, "a name is missing");
    if (n + m >= PLAIT_MAX_NAME)
        return plait_error(PLAIT_INVALID_ARGUMENT, "name \"%s%.40s\": %zu bytes, at most %d", scope, name,
                           n + m, PLAIT_MAX_NAME - 1);
    for (size_t i = 0; i < n; i++)
        if ((unsigned char)name[i] <= ' ' || name[i] == '"' || name[i] == 0x7f)
            return plait_error(PLAIT_INVALID_ARGUMENT,
                               "name \"%.60s\": byte %zu is a space, quote or control byte", name, i);
    char *copy = plait_arena_alloc(&graph->arena, 1, n + m + 1);
    if (!copy) return plait_error_memory("graph names", n + m + 1);
    memcpy(copy, scope, m);
    memcpy(copy + m, name, n);
    *out = copy;
    return PLAIT_OK;
}

/* ---- dims and shapes ---- */

/* Equal extents get one number, so comparing dims is comparing integers. *out is -1 - index, which no size can be. */
static plait_status add_extent(plait_graph *graph, plait_extent extent, plait_dim *out) {
    for (size_t i = 0; i < graph->n_extents; i++)
        if (plait_extent_equal(&graph->extents[i], &extent)) {
            *out = -1 - (plait_dim)i;
            return PLAIT_OK;
        }
    PLAIT_TRY(plait_grow(&graph->extents, &graph->extent_capacity, graph->n_extents + 1, sizeof extent,
                         PLAIT_GRAPH_MAX_EXTENTS, "derived dims"));
    graph->extents[graph->n_extents] = extent;
    *out = -1 - (plait_dim)graph->n_extents++;
    return PLAIT_OK;
}

/* The same name again gives the same dim, if the bound is the same: builders of parts need not pass dims around. 0 is a
 * legal bound. */
static plait_status add_dim(plait_graph *graph, const char *name, int64_t bound, plait_dim *out) {
    plait_extent extent = {.a = 1, .c = 1};
    if (bound < 0 || bound > INT32_MAX)
        return plait_error(PLAIT_INVALID_ARGUMENT, "dim %s: bound %lld, expected 0 to %d", name,
                           (long long)bound, INT32_MAX);
    for (size_t i = 0; i < graph->n_dims; i++)
        if (strcmp(graph->dims[i].name, name) == 0) {
            /* Two bounds under one name would make two dims that a run sets as one. */
            if (graph->dims[i].bound != bound)
                return plait_error(PLAIT_INVALID_ARGUMENT,
                                   "dim %s: bound %lld, but it was given before as %lld", name,
                                   (long long)bound, (long long)graph->dims[i].bound);
            extent.dim = (int32_t)i;
            return add_extent(graph, extent, out);
        }
    plait_graph_dim_row row = {.bound = bound};
    PLAIT_TRY(plait_graph_name(graph, name, false, &row.name));
    PLAIT_TRY(plait_grow(&graph->dims, &graph->dim_capacity, graph->n_dims + 1, sizeof row,
                         PLAIT_GRAPH_MAX_DIMS, "named dims"));
    extent.dim = (int32_t)graph->n_dims;
    PLAIT_TRY(add_extent(graph, extent, out));
    graph->dims[graph->n_dims++] = row;
    return PLAIT_OK;
}

/* 0 after a failure: a legal size, so that the call which uses it fails for no other reason than the graph's being
 * closed. */
plait_dim plait_graph_dim(plait_graph *graph, const char *name, int64_t bound) {
    plait_dim dim = 0;
    if (plait_graph_closed(graph)) return 0;
    plait_status status = add_dim(graph, name, bound, &dim);
    if (status != PLAIT_OK) plait_graph_fail(graph, status);
    return dim;
}

/* A dim derived from a derived one is expressed in the named dim itself, so there is one level only. Coefficients are
 * never negative, so a derived dim grows with its dim, and its value at the bound is the largest. */
static plait_status derive_dim(plait_graph *graph, plait_dim n, int64_t a, int64_t b, int64_t c,
                               plait_dim *out) {
    if (n >= 0 || (size_t)(-1 - n) >= graph->n_extents)
        return plait_error(PLAIT_INVALID_ARGUMENT, "derived dim: %lld is not a bounded dim of this graph",
                           (long long)n);
    plait_extent e = graph->extents[-1 - n];
    /* floor((a * floor((ea n + eb) / ec) + b) / c) is one floor only when the inner division is exact or a is 1. */
    bool composes = e.c == 1 || a == 1;
    int64_t ab, bound = graph->dims[e.dim].bound;
    if (a < 0 || c <= 0 || !composes)
        return plait_error(PLAIT_INVALID_ARGUMENT,
                           "derived dim: (%lld n + %lld) / %lld of a dim divided by %lld", (long long)a,
                           (long long)b, (long long)c, (long long)e.c);
    if (__builtin_mul_overflow(a, e.a, &e.a) || __builtin_mul_overflow(a, e.b, &ab) ||
        __builtin_mul_overflow(b, e.c, &e.b) || __builtin_add_overflow(ab, e.b, &e.b) ||
        __builtin_mul_overflow(c, e.c, &e.c) || e.b < 0 || __builtin_mul_overflow(e.a, bound, &ab) ||
        ab > INT64_MAX - e.b)
        return plait_error(PLAIT_INVALID_ARGUMENT, "derived dim of %s: out of range",
                           graph->dims[e.dim].name);
    return add_extent(graph, e, out);
}

plait_dim plait_graph_derived_dim(plait_graph *graph, plait_dim n, int64_t a, int64_t b, int64_t c) {
    plait_dim dim = 0;
    if (plait_graph_closed(graph)) return 0;
    plait_status status = derive_dim(graph, n, a, b, c, &dim);
    if (status != PLAIT_OK) plait_graph_fail(graph, status);
    return dim;
}

/* Dims at their bounds; *out_outer says which of them is bounded, if any. Negative numbers are references to extents of
 * this graph, possibly of another one: they are checked. */
plait_status plait_graph_shape(const plait_graph *graph, plait_shape shape, int64_t *out_dims,
                               plait_extent *out_outer) {
    *out_outer = (plait_extent){.dim = -1};
    if (shape.rank < 1 || shape.rank > PLAIT_MAX_RANK)
        return plait_error(PLAIT_INVALID_ARGUMENT, "rank %d, expected 1 to %d", shape.rank, PLAIT_MAX_RANK);
    for (int i = 0; i < PLAIT_MAX_RANK; i++) {
        int64_t dim = i < shape.rank ? shape.dims[i] : 1;
        if (dim < 0) {
            /* Strides are products of the dims further in, so with any other dim bounded they would change from step to
             * step. */
            if (i != shape.rank - 1)
                return plait_error(PLAIT_INVALID_ARGUMENT,
                                   "dim %d is bounded, but only the outermost (dim %d) may be", i,
                                   shape.rank - 1);
            if ((size_t)(-1 - dim) >= graph->n_extents)
                return plait_error(PLAIT_INVALID_ARGUMENT, "dim %d: %lld is not a bounded dim of this graph",
                                   i, (long long)dim);
            *out_outer = graph->extents[-1 - dim];
            out_outer->axis = i;
            dim = (out_outer->a * graph->dims[out_outer->dim].bound + out_outer->b) / out_outer->c;
        }
        out_dims[i] = dim;
    }
    return PLAIT_OK;
}

/* For results of ops, which know no rank: trailing dims of 1 are not shown, but a bounded one is, even if its bound is
 * 1. */
int plait_graph_rank(const int64_t *dims, const plait_extent *outer) {
    int rank = outer->dim >= 0 ? outer->axis + 1 : 1;
    for (int i = rank; i < PLAIT_MAX_RANK; i++)
        if (dims[i] != 1) rank = i + 1;
    return rank;
}

/* ---- storages ---- */

/* The span is kept, as every later pass asks for it. */
plait_status plait_graph_add_tensor(plait_graph *graph, const plait_graph_tensor *row, uint32_t *out) {
    PLAIT_TRY(plait_grow(&graph->tensors, &graph->tensor_capacity, graph->n_tensors + 1, sizeof *row,
                         PLAIT_GRAPH_MAX_ENTRIES, "graph tensors"));
    graph->tensors[graph->n_tensors] = *row;
    graph->tensors[graph->n_tensors].span_bytes = (uint64_t)plait_operand_span_bytes(&row->shape);
    *out = (uint32_t)graph->n_tensors++;
    return PLAIT_OK;
}

plait_status plait_graph_add_storage(plait_graph *graph, const plait_graph_storage *row, uint32_t *out) {
    PLAIT_TRY(plait_grow(&graph->storages, &graph->storage_capacity, graph->n_storages + 1, sizeof *row,
                         PLAIT_GRAPH_MAX_ENTRIES, "graph storages"));
    graph->storages[graph->n_storages] = *row;
    *out = (uint32_t)graph->n_storages++;
    return PLAIT_OK;
}

/* A name that must be new among those of its kind. Kinds have name spaces of their own: an input and an output may
 * share a name, as in "x" in, "x" out. */
static plait_status claim_name(plait_graph *graph, const char *kind, const char *name, uint32_t tensor) {
    size_t n = strlen(kind) + 1 + strlen(name);
    char *key = plait_arena_alloc(&graph->arena, 1, n + 1);
    if (!key) return plait_error_memory("graph names", n + 1);
    memcpy(key, kind, strlen(kind));
    key[strlen(kind)] = '/';
    memcpy(key + strlen(kind) + 1, name, strlen(name) + 1);
    uint32_t old;
    if (plait_map_get(&graph->builder->names, key, n, &old))
        return plait_error(PLAIT_INVALID_ARGUMENT, "%s \"%s\" exists already", kind, name);
    return plait_map_put(&graph->builder->names, key, n, tensor, NULL);
}

/* Order matters where something can fail half way: rows get room first, then the name is claimed, then both rows are
 * written. A root covers its storage: dense, from its first byte. Weights have no bounded dim, they are loaded once; of
 * quantised types dim 0 is cut into blocks, which a dim at run time could split. */
static plait_status add_root(plait_graph *graph, const char *kind_name, plait_storage_kind kind,
                             const char *name, plait_dtype dtype, plait_shape shape, uint32_t *out) {
    plait_graph_tensor row = {.rank = shape.rank, .node = PLAIT_NO_NODE, .shape.dtype = dtype};
    if (!plait_dtype_known((int)dtype))
        return plait_error(PLAIT_INVALID_ARGUMENT, "type number %d is unknown", (int)dtype);
    PLAIT_TRY(plait_graph_shape(graph, shape, row.shape.dims, &row.outer));
    for (int i = 0; i < PLAIT_MAX_RANK; i++)
        if (row.shape.dims[i] < 0)
            return plait_error(PLAIT_INVALID_ARGUMENT, "dim %d is %lld", i, (long long)row.shape.dims[i]);
    if (kind == PLAIT_STORAGE_WEIGHT && row.outer.dim >= 0)
        return plait_error(PLAIT_INVALID_ARGUMENT, "a weight cannot have a bounded dim");
    if (row.outer.dim >= 0 && row.outer.axis == 0 && plait_dtype_quantised(dtype))
        return plait_error(PLAIT_INVALID_ARGUMENT, "dim 0 of a quantised type (%s) cannot be bounded",
                           plait_dtype_name(dtype));
    if (!plait_operand_make_dense(&row.shape))
        return plait_error(
            PLAIT_INVALID_ARGUMENT,
            "%s [%lld, %lld, %lld, %lld]: too large, or dim 0 is no whole number of blocks of %lld",
            plait_dtype_name(dtype), (long long)row.shape.dims[0], (long long)row.shape.dims[1],
            (long long)row.shape.dims[2], (long long)row.shape.dims[3],
            (long long)plait_dtype_block_elems(dtype));
    if (plait_operand_elems(&row.shape) < 0 || plait_operand_elems(&row.shape) > PLAIT_MAX_ELEMS)
        return plait_error(PLAIT_INVALID_ARGUMENT, "[%lld, %lld, %lld, %lld] has more than 2^48 elements",
                           (long long)row.shape.dims[0], (long long)row.shape.dims[1],
                           (long long)row.shape.dims[2], (long long)row.shape.dims[3]);
    /* Nobody has written it: readers find inputs, weights and states as they begin. */
    plait_graph_storage storage = {.kind = kind,
                                   .writer = PLAIT_NO_NODE,
                                   .block = graph->builder->block,
                                   .size_bytes = (uint64_t)plait_operand_span_bytes(&row.shape)};
    PLAIT_TRY(plait_graph_name(graph, name, false, &storage.name));
    storage.root = (uint32_t)graph->n_tensors;
    PLAIT_TRY(plait_grow(&graph->tensors, &graph->tensor_capacity, graph->n_tensors + 1, sizeof row,
                         PLAIT_GRAPH_MAX_ENTRIES, "graph tensors")); /* so that nothing is half added below */
    PLAIT_TRY(claim_name(graph, kind_name, storage.name, storage.root));
    PLAIT_TRY(plait_graph_add_storage(graph, &storage, &row.storage));
    return plait_graph_add_tensor(graph, &row, out);
}

/* Every message says which kind and name was declared. */
static plait_tensor root(plait_graph *graph, const char *kind_name, plait_storage_kind kind, const char *name,
                         plait_dtype dtype, plait_shape shape) {
    plait_tensor tensor = PLAIT_NO_TENSOR;
    if (plait_graph_closed(graph)) return tensor;
    plait_status status = add_root(graph, kind_name, kind, name, dtype, shape, &tensor.id);
    if (status == PLAIT_OK) return tensor;
    return plait_graph_fail(graph, plait_error_context(status, "%s \"%.60s\"", kind_name, name ? name : ""));
}

plait_tensor plait_input(plait_graph *graph, const char *name, plait_dtype dtype, plait_shape shape) {
    return root(graph, "input", PLAIT_STORAGE_INPUT, name, dtype, shape);
}

plait_tensor plait_weight(plait_graph *graph, const char *name, plait_dtype dtype, plait_shape shape) {
    return root(graph, "weight", PLAIT_STORAGE_WEIGHT, name, dtype, shape);
}

/* A weight of the graph as it is being built; not after sealing, when names are gone. */
bool plait_graph_known_weight(const plait_graph *graph, const char *name, plait_tensor *out) {
    char key[sizeof "weight/" + PLAIT_MAX_NAME];
    int n = snprintf(key, sizeof key, "weight/%s", name);
    return graph->builder && n < (int)sizeof key &&
           plait_map_get(&graph->builder->names, key, (size_t)n, &out->id);
}

plait_tensor plait_state(plait_graph *graph, const char *name, plait_dtype dtype, plait_shape shape) {
    return root(graph, "state", PLAIT_STORAGE_STATE, name, dtype, shape);
}

/* An output shows a tensor, view or not; several may show the same one. That it is the newest value of its storage can
 * only be told when the graph is whole (seal.c). */
static plait_status add_output(plait_graph *graph, const char *name, plait_tensor tensor) {
    plait_graph_output row = {.tensor = tensor.id};
    if (!plait_graph_row(graph, tensor))
        return plait_error(PLAIT_INVALID_ARGUMENT, "%u is not a tensor of this graph", tensor.id);
    PLAIT_TRY(plait_graph_name(graph, name, false, &row.name));
    PLAIT_TRY(plait_grow(&graph->outputs, &graph->output_capacity, graph->n_outputs + 1, sizeof row,
                         PLAIT_GRAPH_MAX_ENTRIES, "graph outputs"));
    PLAIT_TRY(claim_name(graph, "output", row.name, tensor.id));
    graph->outputs[graph->n_outputs++] = row;
    return PLAIT_OK;
}

void plait_output(plait_graph *graph, const char *name, plait_tensor tensor) {
    if (plait_graph_closed(graph)) return;
    plait_status status = add_output(graph, name, tensor);
    if (status != PLAIT_OK)
        plait_graph_fail(graph, plait_error_context(status, "output \"%.60s\"", name ? name : ""));
}

/* NULL or "" ends it. Not nested: the caller gives the whole prefix. */
void plait_graph_scope(plait_graph *graph, const char *prefix) {
    if (plait_graph_closed(graph)) return;
    const char *copy = "";
    plait_status status = PLAIT_OK;
    graph->builder->scope = "";
    if (prefix && prefix[0]) status = plait_graph_name(graph, prefix, false, &copy);
    if (status != PLAIT_OK) plait_graph_fail(graph, plait_error_context(status, "scope"));
    graph->builder->scope = copy;
}

/* Nodes and stored values that follow belong to this block, until the next call. */
void plait_graph_block(plait_graph *graph, int block) {
    if (plait_graph_closed(graph)) return;
    if (block < -1 || block >= PLAIT_GRAPH_MAX_BLOCKS)
        plait_graph_fail(graph, plait_error(PLAIT_INVALID_ARGUMENT, "block %d, expected -1 to %d", block,
                                            PLAIT_GRAPH_MAX_BLOCKS - 1));
    else
        graph->builder->block = block;
}

/* Renames the node that makes the tensor, and the storages that it made, since values are called after their nodes. */
plait_tensor plait_named(plait_graph *graph, const char *name, plait_tensor tensor) {
    plait_graph_tensor *row = plait_graph_row(graph, tensor);
    if (plait_graph_closed(graph)) return PLAIT_NO_TENSOR;
    plait_status status = PLAIT_OK;
    if (!row || row->node == PLAIT_NO_NODE)
        status = plait_error(PLAIT_INVALID_ARGUMENT, "naming \"%.60s\": no node makes that tensor",
                             name ? name : "");
    else
        status = plait_graph_name(graph, name, true, &graph->nodes[row->node].name);
    if (status != PLAIT_OK) return plait_graph_fail(graph, status);
    const plait_graph_node *node = &graph->nodes[row->node];
    for (int o = 0; o < node->n_outputs;
         o++) { /* storages that the node made, not one that it writes in place */
        plait_graph_storage *storage = &graph->storages[graph->tensors[node->outputs[o]].storage];
        /* A storage that the node writes in place is another's, and keeps its name. */
        if (storage->root == node->outputs[o]) storage->name = node->name;
    }
    return tensor;
}

/* What is packed into a weight, as data: later passes that cut it must not cut through a granule of a part. The parts
 * cover the axis exactly. */
static plait_status add_parts(plait_graph *graph, plait_tensor tensor, int axis, const plait_part *parts,
                              int n) {
    const plait_graph_tensor *row = plait_graph_row(graph, tensor);
    if (!row || row->base)
        return plait_error(PLAIT_INVALID_ARGUMENT, "parts: %u is no weight or state", tensor.id);
    plait_graph_storage *storage = &graph->storages[row->storage];
    if (storage->kind != PLAIT_STORAGE_WEIGHT && storage->kind != PLAIT_STORAGE_STATE)
        return plait_error(PLAIT_INVALID_ARGUMENT, "parts: \"%s\" is no weight or state", storage->name);
    if (axis < 0 || axis >= PLAIT_MAX_RANK || n < 1 || n > PLAIT_GRAPH_MAX_PARTS)
        return plait_error(PLAIT_INVALID_ARGUMENT, "parts of \"%s\": axis %d, %d parts", storage->name, axis,
                           n);
    plait_part *copy = plait_arena_alloc(&graph->arena, (size_t)n, sizeof *copy);
    if (!copy) return plait_error_memory("parts", (uint64_t)n * sizeof *copy);
    int64_t sum = 0;
    for (int i = 0; i < n; i++) {
        copy[i] = parts[i];
        PLAIT_TRY(plait_graph_name(graph, parts[i].name, false, &copy[i].name));
        if (parts[i].size < 0 || parts[i].granule < 1 || __builtin_add_overflow(sum, parts[i].size, &sum))
            return plait_error(PLAIT_INVALID_ARGUMENT, "part \"%s\" of \"%s\": size %lld, granule %lld",
                               parts[i].name, storage->name, (long long)parts[i].size,
                               (long long)parts[i].granule);
    }
    /* Parts that leave something out would leave later passes with rows of which they know nothing. */
    if (sum != row->shape.dims[axis])
        return plait_error(PLAIT_INVALID_ARGUMENT, "parts of \"%s\" add up to %lld, but dim %d is %lld",
                           storage->name, (long long)sum, axis, (long long)row->shape.dims[axis]);
    storage->parts = copy;
    storage->n_parts = n;
    storage->part_axis = axis;
    return PLAIT_OK;
}

void plait_graph_parts(plait_graph *graph, plait_tensor tensor, int axis, const plait_part *parts, int n) {
    if (plait_graph_closed(graph)) return;
    plait_status status = add_parts(graph, tensor, axis, parts, n);
    if (status != PLAIT_OK) plait_graph_fail(graph, status);
}
