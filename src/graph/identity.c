/* What makes two graphs the same: a text of words that says everything a builder was told, in the order in which it was told.
 * All else in the tables follows from it (shapes of results from shape rules, storages from roots and results), so two
 * graphs with equal words are equal in everything but their own names, and comparing them is comparing bytes.
 *
 *     graph  = n_dims { dim } { tensor } end n_outputs { output }
 *     dim    = bound name
 *     tensor = root | view | node           a node stands for all its outputs
 *
 * Every part begins with what tells its length, so no two graphs share a text.
 *
 * Not here: equality up to another order of nodes. Same calls in the same order, same graph.
 * Invariant: written once, by seal; two words for every 64-bit number, low half first. */
#include "graph/build.h"

#include "base/alloc.h"

#include <string.h>

enum { END = 0, ROOT = 1, VIEW = 2, NODE = 3 };

/* Words are first counted (words NULL), then written. */
typedef struct writer {
    uint32_t *words;
    size_t n;
} writer;

/* Both passes go through here, so they count and write the same. */
static void put(writer *w, uint32_t word) {
    if (w->words) w->words[w->n] = word;
    w->n++;
}

static void put64(writer *w, uint64_t value) {
    put(w, (uint32_t)value);
    put(w, (uint32_t)(value >> 32));
}

/* Length, then bytes, the last word filled up with zeros. */
static void put_name(writer *w, const char *name) {
    size_t length = strlen(name), words = (length + 3) / 4;
    put(w, (uint32_t)length);
    if (w->words && words) {
        w->words[w->n + words - 1] = 0;
        memcpy(w->words + w->n, name, length);
    }
    w->n += words;
}

/* Dims behind the rank are 1. The rank is in the word before. */
static void put_dims(writer *w, const int64_t *dims, int rank) {
    for (int i = 0; i < rank; i++) put64(w, (uint64_t)dims[i]);
}

static void put_outer(writer *w, const plait_extent *outer) {
    put(w, (uint32_t)outer->dim);
    if (outer->dim < 0) return;
    put(w, (uint32_t)outer->axis);
    put64(w, (uint64_t)outer->a);
    put64(w, (uint64_t)outer->b);
    put64(w, (uint64_t)outer->c);
}

/* Strides are not told: roots are dense. */
static void put_root(writer *w, const plait_graph_storage *storage, const plait_graph_tensor *tensor) {
    put(w, ROOT | (uint32_t)storage->kind << 8 | (uint32_t)tensor->rank << 16);
    put(w, (uint32_t)tensor->shape.dtype);
    put_dims(w, tensor->shape.dims, tensor->rank);
    put_outer(w, &tensor->outer);
    put_name(w, storage->name);
    put(w, (uint32_t)storage->block);
    put(w, (uint32_t)storage->n_parts);
    if (storage->n_parts) put(w, (uint32_t)storage->part_axis);
    for (int i = 0; i < storage->n_parts; i++) {
        put_name(w, storage->parts[i].name);
        put64(w, (uint64_t)storage->parts[i].size);
        put64(w, (uint64_t)storage->parts[i].granule);
    }
}

/* Strides and offset as they are, so all forms of view are one. */
static void put_view(writer *w, const plait_graph_tensor *tensor) {
    put(w, VIEW | (uint32_t)tensor->rank << 16);
    put(w, tensor->base);
    put64(w, tensor->offset);
    put_dims(w, tensor->shape.dims, tensor->rank);
    put_dims(w, tensor->shape.strides, PLAIT_MAX_RANK);
    put_outer(w, &tensor->outer);
}

/* Shapes of results follow from the op's rule. Attributes that have their initial value are left out, the word before
 * says which are told; floats are compared by their bits. */
static void put_node(writer *w, const plait_graph_node *node) {
    put(w, NODE | (uint32_t)node->n_inputs << 8 | (uint32_t)node->op->id << 16);
    for (int i = 0; i < node->n_inputs; i++) put(w, node->inputs[i]);
    uint32_t given = 0; /* attributes that are not as they are when nothing is said */
    for (int i = 0; i < node->op->n_attrs && i < PLAIT_MAX_ATTRS; i++)
        given |= (uint32_t)(node->attrs[i].i != node->op->attrs[i].initial.i) << i;
    put(w, given);
    for (int i = 0; i < node->op->n_attrs && i < PLAIT_MAX_ATTRS; i++)
        if (given >> i & 1u) put64(w, (uint64_t)node->attrs[i].i);
    put_name(w, node->name);
    put(w, (uint32_t)node->block);
}

/* In the order of tensor ids, which is the order of the calls. */
static void put_graph(writer *w, const plait_graph *graph) {
    put(w, (uint32_t)graph->n_dims);
    for (size_t d = 0; d < graph->n_dims; d++) {
        put64(w, (uint64_t)graph->dims[d].bound);
        put_name(w, graph->dims[d].name);
    }
    for (size_t t = 1; t < graph->n_tensors; t++) {
        const plait_graph_tensor *tensor = &graph->tensors[t];
        if (tensor->base)
            put_view(w, tensor);
        else if (tensor->node == PLAIT_NO_NODE)
            put_root(w, &graph->storages[tensor->storage], tensor);
        else if (tensor->output_index == 0)
            put_node(w, &graph->nodes[tensor->node]);
    }
    put(w, END);
    put(w, (uint32_t)graph->n_outputs);
    for (size_t o = 0; o < graph->n_outputs; o++) {
        put(w, graph->outputs[o].tensor);
        put_name(w, graph->outputs[o].name);
    }
}

/* The hash is of all words: it decides quickly that graphs differ, never that they are equal. */
plait_status plait_graph_identify(plait_graph *graph) {
    writer count = {0}, w = {0};
    put_graph(&count, graph);
    w.words = plait_arena_alloc(&graph->arena, count.n, sizeof *w.words);
    if (!w.words) return plait_error_memory("sealing a graph", count.n * sizeof *w.words);
    put_graph(&w, graph);
    graph->identity = (plait_graph_identity){
        .words = w.words, .n_words = w.n, .hash = plait_hash_bytes(w.words, w.n * sizeof *w.words, 0)};
    return PLAIT_OK;
}

bool plait_graph_same(const plait_graph *a, const plait_graph *b) {
    const plait_graph_identity *x = &a->identity, *y = &b->identity;
    return x->hash == y->hash && x->n_words == y->n_words &&
           memcmp(x->words, y->words, x->n_words * sizeof *x->words) == 0;
}
