/* Which nodes are the same use of an op: a model has hundreds of nodes and a few dozen uses, so what depends on nothing else
 * (whether a device runs it, how long it takes) need be asked once each. Two nodes are one use when op, attributes and
 * present inputs are equal, and their operands in type, dims, strides, bounded dims and kind of storage; not in who makes
 * them.
 *
 * Invariant: numbers count up from 0 in the order of first nodes. */
#include "graph/build.h"

#include "base/alloc.h"

#include <stdlib.h>
#include <string.h>

typedef struct finder {
    const plait_graph *graph;
    uint64_t *shapes; /* [tensor] hash of its type, dims, strides and bounded dim */
    uint32_t *slots;  /* number of the use + 1; as many as a power of two, at most half of them taken */
    size_t n_slots;
} finder;

/* Multiplicative hashing (Knuth, The Art of Computer Programming, volume 3, 6.4): the factor is 2^64 over the golden
 * ratio; the shift brings high bits down to where slots are chosen. */
static uint64_t mix(uint64_t h, uint64_t value) {
    h = (h ^ value) * 0x9E3779B97F4A7C15u;
    return h ^ h >> 29;
}

static plait_storage_kind kind_of(const plait_graph *graph, const plait_graph_tensor *tensor) {
    return graph->storages[tensor->storage].kind;
}

/* Once for each tensor rather than for each operand that shows it. */
static uint64_t hash_shape(const plait_graph *graph, const plait_graph_tensor *tensor) {
    uint64_t h = (uint64_t)tensor->shape.dtype << 8 | (uint64_t)kind_of(graph, tensor);
    for (int i = 0; i < PLAIT_MAX_RANK; i++) h = mix(h, (uint64_t)tensor->shape.dims[i]);
    for (int i = 0; i < PLAIT_MAX_RANK; i++) h = mix(h, (uint64_t)tensor->shape.strides[i]);
    if (tensor->outer.dim < 0) return h;
    h = mix(h, (uint64_t)tensor->outer.dim << 8 | (uint64_t)tensor->outer.axis);
    return mix(mix(mix(h, (uint64_t)tensor->outer.a), (uint64_t)tensor->outer.b), (uint64_t)tensor->outer.c);
}

/* Absent inputs count as a shape of their own. */
static uint64_t hash_node(const finder *f, const plait_graph_node *node) {
    uint64_t h = mix((uint64_t)node->op->id, node->present);
    for (int i = 0; i < node->op->n_attrs; i++) h = mix(h, (uint64_t)node->attrs[i].i);
    for (int i = 0; i < node->n_inputs; i++) h = mix(h, node->inputs[i] ? f->shapes[node->inputs[i]] : 1);
    for (int o = 0; o < node->n_outputs; o++) h = mix(h, f->shapes[node->outputs[o]]);
    return h;
}

/* Hashes first: different shapes nearly always end there. */
static bool same_shape(const finder *f, uint32_t a, uint32_t b) {
    const plait_graph_tensor *x = &f->graph->tensors[a], *y = &f->graph->tensors[b];
    return f->shapes[a] == f->shapes[b] && x->shape.dtype == y->shape.dtype &&
           kind_of(f->graph, x) == kind_of(f->graph, y) &&
           memcmp(x->shape.dims, y->shape.dims, sizeof x->shape.dims) == 0 &&
           memcmp(x->shape.strides, y->shape.strides, sizeof x->shape.strides) == 0 &&
           plait_extent_equal(&x->outer, &y->outer) && (x->outer.dim < 0 || x->outer.axis == y->outer.axis);
}

/* An input that is absent in one is absent in the other, as `present` is the same. */
static bool same_use(const finder *f, const plait_graph_node *a, const plait_graph_node *b) {
    bool same = a->op == b->op && a->present == b->present && a->n_inputs == b->n_inputs &&
                a->n_outputs == b->n_outputs &&
                memcmp(a->attrs, b->attrs, (size_t)a->op->n_attrs * sizeof *a->attrs) == 0;
    for (int i = 0; same && i < a->n_inputs; i++)
        same = !a->inputs[i] || same_shape(f, a->inputs[i], b->inputs[i]);
    for (int o = 0; same && o < a->n_outputs; o++) same = same_shape(f, a->outputs[o], b->outputs[o]);
    return same;
}

/* Open addressing with at most half of the slots taken, so runs are short; uses are never removed. */
static void number_nodes(finder *f, plait_graph *graph) {
    for (size_t t = 1; t < graph->n_tensors; t++) f->shapes[t] = hash_shape(graph, &graph->tensors[t]);
    for (uint32_t n = 0; n < graph->n_nodes; n++) {
        size_t at = (size_t)hash_node(f, &graph->nodes[n]) & (f->n_slots - 1);
        while (f->slots[at] &&
               !same_use(f, &graph->nodes[graph->use_nodes[f->slots[at] - 1]], &graph->nodes[n]))
            at = (at + 1) & (f->n_slots - 1);
        if (!f->slots[at]) {
            graph->use_nodes[graph->n_uses++] = n;
            f->slots[at] = (uint32_t)graph->n_uses;
        }
        graph->use_of[n] = f->slots[at] - 1;
    }
}

/* Both tables of the graph in one allocation, as many uses as nodes at most. */
plait_status plait_graph_number_uses(plait_graph *graph) {
    finder f = {.graph = graph, .n_slots = 64};
    while (f.n_slots < 2 * graph->n_nodes) f.n_slots *= 2;
    graph->use_of = plait_arena_alloc(&graph->arena, 2 * graph->n_nodes, sizeof *graph->use_of);
    graph->use_nodes = graph->use_of + graph->n_nodes;
    graph->n_uses = 0;
    f.shapes = plait_alloc_array(graph->n_tensors, sizeof *f.shapes);
    f.slots = plait_alloc_array(f.n_slots, sizeof *f.slots);
    bool all = graph->use_of && f.shapes && f.slots;
    if (all) number_nodes(&f, graph);
    free(f.shapes);
    free(f.slots);
    return all ? PLAIT_OK : plait_error_memory("sealing a graph", graph->n_nodes * sizeof *graph->use_of);
}
