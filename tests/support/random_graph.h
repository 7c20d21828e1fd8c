/* Random graphs for property tests: ops over views, quantised weights, caches written in place, several bounded dims.
 * The same seed gives the same graph everywhere. What is made is sealed; every value that nothing reads is an output. */
#ifndef PLAIT_TESTS_SUPPORT_RANDOM_GRAPH_H
#define PLAIT_TESTS_SUPPORT_RANDOM_GRAPH_H

#include "graph/graph.h"

#include <stdio.h>
#include <stdlib.h>

enum { RANDOM_GRAPH_VALUES = 96, RANDOM_HEAD = 8, RANDOM_PAGE_LEN = 4, RANDOM_PAGES = 12, RANDOM_TABLE = 3 };

typedef struct random_value {
    plait_tensor tensor; /* float32 [width, n] where `bounded`, else [width, 5] */
    int64_t width;
    bool bounded;
} random_value;

typedef struct random_graph {
    plait_graph *graph;
    uint64_t state;
    int64_t bound;
    bool plain; /* all weights of matrix products are float32 */
    plait_dim n;
    random_value values[RANDOM_GRAPH_VALUES];
    int n_values, n_weights, n_outputs;
    plait_tensor ids, positions, slots, sequences, pages, experts; /* inputs; made when first used */
    plait_tensor cache_k, cache_v;
} random_graph;

static inline uint64_t random_next(uint64_t *state, uint64_t limit) {
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return limit ? (*state >> 33) % limit : 0;
}

static inline uint64_t rg_pick(random_graph *r, uint64_t limit) {
    return random_next(&r->state, limit);
}

static inline void rg_output(random_graph *r, const char *what, plait_tensor tensor) {
    char name[32];
    snprintf(name, sizeof name, "%s.%d", what, r->n_outputs++);
    plait_output(r->graph, name, tensor);
}

static inline void rg_add(random_graph *r, plait_tensor tensor, int64_t width, bool bounded) {
    if (r->n_values < RANDOM_GRAPH_VALUES)
        r->values[r->n_values++] = (random_value){tensor, width, bounded};
    else
        rg_output(r, "more", tensor);
}

/* A value to read, mostly a late one; `bounded` values only if asked. */
static inline random_value *rg_value(random_graph *r, bool bounded) {
    for (int tries = 0; tries < 64; tries++) {
        uint64_t back = rg_pick(r, rg_pick(r, 3) ? 6 : RANDOM_GRAPH_VALUES);
        if (back >= (uint64_t)r->n_values) continue;
        random_value *v = &r->values[r->n_values - 1 - (int)back];
        if (bounded && !v->bounded) continue;
        return v;
    }
    return &r->values[0];
}

static inline plait_tensor rg_weight(random_graph *r, plait_dtype dtype, plait_shape shape) {
    char name[32];
    snprintf(name, sizeof name, "w.%d", r->n_weights++);
    return plait_weight(r->graph, name, dtype, shape);
}

static inline plait_tensor rg_control(random_graph *r, plait_tensor *slot, const char *name) {
    if (!slot->id) *slot = plait_input(r->graph, name, PLAIT_I32, PLAIT_SHAPE(r->n));
    return *slot;
}

static inline void rg_matmul(random_graph *r) {
    static const plait_dtype types[] = {PLAIT_F32, PLAIT_F16, PLAIT_Q8_0, PLAIT_Q4_0, PLAIT_BF16};
    static const int64_t widths[] = {16, 32, 64, 40};
    random_value x = *rg_value(r, false);
    plait_dtype dtype = types[r->plain ? 0 : rg_pick(r, 5)];
    int64_t m = widths[rg_pick(r, 4)];
    if (x.width % plait_dtype_block_elems(dtype)) dtype = PLAIT_F16;
    rg_add(r, plait_matmul(r->graph, rg_weight(r, dtype, PLAIT_SHAPE(x.width, m)), x.tensor), m, x.bounded);
}

static inline void rg_unary(random_graph *r) {
    random_value x = *rg_value(r, false);
    plait_tensor y = PLAIT_NO_TENSOR;
    switch (rg_pick(r, 7)) {
    case 0: y = plait_silu(r->graph, x.tensor); break;
    case 1: y = plait_relu(r->graph, x.tensor); break;
    case 2: y = plait_scale(r->graph, x.tensor, 0.75); break;
    case 3: y = plait_apply(r->graph, PLAIT_OP_softmax, &x.tensor, 1, NULL, 0, NULL, 1); break;
    case 4: y = plait_copy(r->graph, x.tensor); break;
    case 5: y = plait_rms_norm(r->graph, x.tensor, PLAIT_NO_TENSOR, 1e-5); break;
    default:
        y = plait_rms_norm(r->graph, x.tensor, rg_weight(r, PLAIT_F32, PLAIT_SHAPE(x.width)), 1e-6);
        break;
    }
    rg_add(r, y, x.width, x.bounded);
}

/* Two values of equal shape; a matrix product makes the second one where there is none. */
static inline void rg_binary(random_graph *r) {
    random_value a = *rg_value(r, false), b = *rg_value(r, false);
    plait_tensor y;
    if (a.width != b.width || a.bounded != b.bounded) b = a;
    switch (rg_pick(r, 4)) {
    case 0: y = plait_add(r->graph, a.tensor, b.tensor); break;
    case 1: y = plait_mul(r->graph, a.tensor, b.tensor); break;
    case 2: y = plait_sub(r->graph, a.tensor, b.tensor); break;
    default: y = plait_swiglu(r->graph, a.tensor, b.tensor); break;
    }
    rg_add(r, y, a.width, a.bounded);
}

/* Views: they cost no node, but what reads them meets strides and offsets. */
static inline void rg_view(random_graph *r) {
    random_value x = *rg_value(r, false);
    plait_dim outer = x.bounded ? r->n : 5;
    plait_tensor v = x.tensor;
    int64_t width = x.width;
    if (rg_pick(r, 2) && width >= 16) {
        int64_t start = (int64_t)rg_pick(r, (uint64_t)(width / 16)) * 8;
        width /= 2;
        v = plait_slice(r->graph, v, 0, start, width);
    } else if (width % RANDOM_HEAD == 0 && width > RANDOM_HEAD) {
        static const int order[] = {1, 0, 2, 3};
        v = plait_reshape(r->graph, v, PLAIT_SHAPE(RANDOM_HEAD, width / RANDOM_HEAD, outer));
        if (rg_pick(r, 2)) v = plait_permute(r->graph, v, order);
        v = plait_silu(r->graph, v);
        v = plait_reshape(r->graph, v, PLAIT_SHAPE(width, outer));
    }
    if (!x.bounded && rg_pick(r, 3) == 0) v = plait_slice(r->graph, v, 1, 0, 5);
    rg_add(r, v, width, x.bounded);
}

static inline void rg_rope(random_graph *r) {
    random_value x = *rg_value(r, true);
    if (!x.bounded || x.width % RANDOM_HEAD) return;
    plait_rope_options options = {.split_halves = rg_pick(r, 2) != 0};
    plait_tensor v = plait_reshape(r->graph, x.tensor, PLAIT_SHAPE(RANDOM_HEAD, x.width / RANDOM_HEAD, r->n));
    v = plait_rope(r->graph, v, rg_control(r, &r->positions, "positions"), PLAIT_NO_TENSOR, &options);
    rg_add(r, plait_reshape(r->graph, v, PLAIT_SHAPE(x.width, r->n)), x.width, true);
}

/* Keys and values are written to caches, and read by attention with grouped heads. */
static inline void rg_attention(random_graph *r) {
    random_value q = *rg_value(r, true), k = *rg_value(r, true);
    if (!q.bounded || !k.bounded || q.width % 16 || k.width < 16) return;
    if (!r->cache_k.id) {
        const plait_shape shape = PLAIT_SHAPE(RANDOM_HEAD, RANDOM_PAGE_LEN, 2, RANDOM_PAGES);
        r->cache_k = plait_state(r->graph, "cache.k", PLAIT_F16, shape);
        r->cache_v = plait_state(r->graph, "cache.v", PLAIT_F32, shape);
        r->pages = plait_input(r->graph, "pages", PLAIT_I32, PLAIT_SHAPE(RANDOM_TABLE, 4));
    }
    plait_tensor rows = plait_slice(r->graph, k.tensor, 0, 0, 16);
    rows = plait_reshape(r->graph, rows, PLAIT_SHAPE(RANDOM_HEAD, 2, r->n));
    plait_tensor slots = rg_control(r, &r->slots, "slots");
    r->cache_k = plait_kv_write(r->graph, r->cache_k, rows, slots);
    if (rg_pick(r, 2)) r->cache_v = plait_kv_write(r->graph, r->cache_v, rows, slots);
    plait_attention_inputs inputs = {
        .q = plait_reshape(r->graph, q.tensor, PLAIT_SHAPE(RANDOM_HEAD, q.width / RANDOM_HEAD, r->n)),
        .k = r->cache_k,
        .v = r->cache_v,
        .positions = rg_control(r, &r->positions, "positions"),
        .sequences = rg_control(r, &r->sequences, "sequences"),
        .pages = r->pages};
    plait_tensor y =
        plait_attention(r->graph, &inputs, &(plait_attention_options){.window = rg_pick(r, 2) ? 5 : 0});
    rg_add(r, plait_reshape(r->graph, y, PLAIT_SHAPE(q.width, r->n)), q.width, true);
}

static inline void rg_lookup(random_graph *r) {
    plait_tensor table = rg_weight(r, rg_pick(r, 2) ? PLAIT_Q8_0 : PLAIT_F32, PLAIT_SHAPE(32, 20));
    rg_add(r, plait_get_rows(r->graph, table, rg_control(r, &r->ids, "ids")), 32, true);
}

/* Two products with experts of the host's choice, the second of columns of their own, and a sum by shares. */
static inline void rg_experts(random_graph *r) {
    static const plait_dtype types[] = {PLAIT_F32, PLAIT_F16, PLAIT_Q8_0};
    random_value x = *rg_value(r, true);
    plait_dtype dtype = types[r->plain ? 0 : rg_pick(r, 3)];
    if (!x.bounded || x.width % plait_dtype_block_elems(dtype)) return;
    if (!r->experts.id) r->experts = plait_input(r->graph, "experts", PLAIT_I32, PLAIT_SHAPE(2, r->n));
    plait_tensor column = plait_reshape(r->graph, x.tensor, PLAIT_SHAPE(x.width, 1, r->n));
    plait_tensor y =
        plait_expert_matmul(r->graph, rg_weight(r, dtype, PLAIT_SHAPE(x.width, 32, 3)), column, r->experts);
    y = plait_expert_matmul(r->graph, rg_weight(r, dtype, PLAIT_SHAPE(32, 16, 3)), plait_silu(r->graph, y),
                            r->experts);
    plait_tensor shares = plait_slice(r->graph, x.tensor, 0, 0, 2);
    shares = plait_apply(r->graph, PLAIT_OP_softmax, &shares, 1, NULL, 0, NULL, 1);
    rg_add(r, plait_weighted_sum(r->graph, y, shares), 16, true);
}

/* A temporary that is written in place after others have read it. */
static inline void rg_temporary_cache(random_graph *r) {
    random_value rows = *rg_value(r, true);
    if (!rows.bounded || rows.width < 16) return;
    plait_tensor w = rg_weight(r, PLAIT_F32, PLAIT_SHAPE(RANDOM_HEAD, RANDOM_PAGE_LEN, 2, RANDOM_PAGES));
    plait_tensor cache = plait_copy(r->graph, w);
    if (rg_pick(r, 2)) { /* a reader of the old value */
        plait_tensor old = plait_scale(r->graph, cache, 2.0);
        old = plait_slice(r->graph, old, 3, 0, 1);
        plait_output(r->graph, rg_pick(r, 2) ? "old.a" : "old.b", old);
    }
    plait_tensor k = plait_reshape(r->graph, plait_slice(r->graph, rows.tensor, 0, 0, 16),
                                   PLAIT_SHAPE(RANDOM_HEAD, 2, r->n));
    cache = plait_kv_write(r->graph, cache, k, rg_control(r, &r->slots, "slots"));
    plait_tensor y = plait_scale(r->graph, cache, 0.5);
    y = plait_reshape(r->graph, y, PLAIT_SHAPE(RANDOM_HEAD * RANDOM_PAGE_LEN * 2 * RANDOM_PAGES));
    y = plait_slice(r->graph, y, 0, 0, 80);
    rg_add(r, plait_reshape(r->graph, y, PLAIT_SHAPE(16, 5)), 16, false);
}

static inline void rg_several_outputs(random_graph *r) {
    random_value x = *rg_value(r, false);
    plait_tensor values, ids;
    plait_top_k(r->graph, x.tensor, 3, &values, &ids);
    plait_named(r->graph, "best", values);
    rg_output(r, "ids", ids);
    rg_output(r, "best", values);
}

/* `old` outputs have two names only, so a graph has at most one temporary cache. */
static inline void rg_step(random_graph *r, bool *cached) {
    switch (rg_pick(r, 12)) {
    case 0:
    case 1:
    case 2: rg_matmul(r); break;
    case 3:
    case 4: rg_unary(r); break;
    case 5:
    case 6: rg_binary(r); break;
    case 7: rg_view(r); break;
    case 8: rg_rope(r); break;
    case 9: rg_attention(r); break;
    case 10:
        if (rg_pick(r, 2))
            rg_lookup(r);
        else
            rg_experts(r);
        break;
    default:
        if (*cached || rg_pick(r, 2))
            rg_several_outputs(r);
        else
            rg_temporary_cache(r), *cached = true;
        break;
    }
}

/* Marks the nodes that made this one's inputs, and theirs. */
static inline void rg_mark(const plait_graph *graph, bool *reached) {
    for (size_t n = graph->n_nodes; n-- > 0;) {
        const plait_graph_node *node = &graph->nodes[n];
        for (int i = 0; reached[n] && i < node->n_inputs; i++) {
            uint32_t maker = graph->tensors[node->inputs[i]].node;
            if (node->inputs[i] && maker != PLAIT_NO_NODE) reached[maker] = true;
        }
    }
}

/* Values that reach no output become outputs, latest first. */
static inline void rg_outputs(random_graph *r) {
    const plait_graph *graph = r->graph;
    bool *reached = calloc(graph->n_nodes + 1, sizeof *reached);
    for (size_t o = 0; reached && o < graph->n_outputs; o++) {
        uint32_t node = graph->tensors[graph->outputs[o].tensor].node;
        if (node != PLAIT_NO_NODE) reached[node] = true;
    }
    for (int v = r->n_values; reached && v-- > 0;) {
        uint32_t id = r->values[v].tensor.id, node = graph->tensors[id].node;
        rg_mark(graph, reached);
        if (node == PLAIT_NO_NODE || reached[node]) continue;
        reached[node] = true;
        rg_output(r, "y", r->values[v].tensor);
    }
    free(reached);
}

/* The graph, sealed; NULL with the message set when the builder refused something, which is a fault of the test. `more`,
 * if not NULL, adds to it before. */
static inline plait_graph *random_graph_with(uint64_t seed, int n_steps, bool plain,
                                             void (*more)(plait_graph *graph, void *user), void *user) {
    random_graph r = {.state = seed * 2 + 1, .plain = plain};
    char name[32];
    bool cached = false;
    snprintf(name, sizeof name, "random %llu", (unsigned long long)seed);
    r.graph = plait_graph_create(&(plait_graph_options){.name = name});
    if (!r.graph) return NULL;
    for (int i = 0; i < 8; i++) rg_pick(&r, 2);
    r.bound = (int64_t)rg_pick(&r, 9) + 1;
    r.n = plait_graph_dim(r.graph, "n", r.bound);
    rg_add(&r, plait_input(r.graph, "x", PLAIT_F32, PLAIT_SHAPE(32, r.n)), 32, true);
    rg_add(&r, plait_input(r.graph, "z", PLAIT_F32, PLAIT_SHAPE(16, 5)), 16, false);
    for (int i = 0; i < n_steps; i++) {
        snprintf(name, sizeof name, "blk.%d.", i / 6);
        plait_graph_scope(r.graph, name);
        if (seed % 2) plait_graph_block(r.graph, i / 6); /* every other graph has blocks */
        rg_step(&r, &cached);
    }
    rg_outputs(&r);
    if (more) more(r.graph, user);
    if (plait_graph_seal(r.graph) == PLAIT_OK) return r.graph;
    plait_graph_destroy(r.graph);
    return NULL;
}

static inline plait_graph *random_graph_of(uint64_t seed, int n_steps, bool plain) {
    return random_graph_with(seed, n_steps, plain, NULL, NULL);
}

static inline plait_graph *random_graph_make(uint64_t seed, int n_steps) {
    return random_graph_of(seed, n_steps, false);
}

#endif
