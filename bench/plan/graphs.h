/* Graphs for measuring the planner: a decoder with the numbers of a 1B model, chains and meshes of any size. Their shapes
 * are what a planner sees of a model; no weight is ever allocated.
 *
 * Nodes are named "d<device>.<op>", so that one pin a device spreads them. */
#ifndef PLAIT_BENCH_PLAN_GRAPHS_H
#define PLAIT_BENCH_PLAN_GRAPHS_H

#include "plait/graph.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

/* How nodes are spread over devices: runs of `run` neighbours take turns; one run each when it is 0. */
typedef struct spread {
    int n_devices;
    int64_t run;
} spread;

static inline void fail_now(const char *what) {
    fprintf(stderr, "%s: %s\n", what, plait_error_message());
    exit(1);
}

static inline plait_graph *sealed(plait_graph *graph) {
    if (plait_graph_seal(graph) != PLAIT_OK) fail_now("graph");
    return graph;
}

/* The scope of node i of n. */
static inline void spread_scope(plait_graph *graph, const spread *how, int64_t i, int64_t n) {
    int64_t run = how->run ? how->run : (n + how->n_devices - 1) / how->n_devices;
    char scope[32];
    if (i % run) return;
    snprintf(scope, sizeof scope, "d%lld.", (long long)(i / run % how->n_devices));
    plait_graph_scope(graph, scope);
}

/* ---- chain: each node reads the one before it ---- */

static inline plait_graph *make_chain(int64_t n, const spread *how) {
    plait_graph *g = plait_graph_create(&(plait_graph_options){.name = "chain"});
    plait_tensor x = plait_input(g, "x", PLAIT_F32, PLAIT_SHAPE(256, plait_graph_dim(g, "n", 8)));
    for (int64_t i = 0; i < n; i++) {
        spread_scope(g, how, i, n);
        x = i % 2 ? plait_silu(g, x) : plait_relu(g, x);
    }
    plait_output(g, "y", x);
    return sealed(g);
}

/* ---- mesh: each node reads two of the last values, of several widths; some live long ---- */

enum { MESH_CLASSES = 4, MESH_RING = 32 };

typedef struct mesh {
    plait_graph *graph;
    plait_tensor ring[MESH_CLASSES][MESH_RING]; /* the last values of each width */
    plait_tensor change[MESH_CLASSES];          /* weights from each width to the next */
    uint64_t random;
    int64_t made[MESH_CLASSES];
} mesh;

static inline uint64_t mesh_pick(mesh *m, uint64_t limit) {
    m->random = m->random * 6364136223846793005u + 1442695040888963407u;
    return (m->random >> 33) % limit;
}

static inline void mesh_add(mesh *m, int class, plait_tensor x) {
    m->ring[class][m->made[class]++ % MESH_RING] = x;
}

/* Mostly one of the last few, now and then an old one. */
static inline plait_tensor mesh_value(mesh *m, int class) {
    int64_t have = m->made[class] < MESH_RING ? m->made[class] : MESH_RING;
    int64_t back = (int64_t)mesh_pick(m, mesh_pick(m, 8) ? 4 : MESH_RING) % have;
    return m->ring[class][(m->made[class] - 1 - back) % MESH_RING];
}

static inline plait_graph *make_mesh(int64_t n, const spread *how) {
    static const int64_t widths[MESH_CLASSES] = {64, 160, 384, 1024};
    mesh m = {.graph = plait_graph_create(&(plait_graph_options){.name = "mesh"}), .random = 7};
    plait_dim tokens = plait_graph_dim(m.graph, "n", 16);
    plait_tensor total[MESH_CLASSES];
    int64_t i = 0;
    for (int c = 0; c < MESH_CLASSES; c++) {
        char name[32];
        snprintf(name, sizeof name, "x%d", c);
        mesh_add(&m, c, plait_input(m.graph, name, PLAIT_F32, PLAIT_SHAPE(widths[c], tokens)));
        snprintf(name, sizeof name, "w%d", c);
        m.change[c] =
            plait_weight(m.graph, name, PLAIT_F32, PLAIT_SHAPE(widths[c], widths[(c + 1) % MESH_CLASSES]));
    }
    for (int c = 0; c < MESH_CLASSES; c++) total[c] = m.ring[c][0];
    /* Every value is added to a running total sooner or later, so that none is unused. */
    for (; i + 2 <= n; i += 2) {
        int class = (int)mesh_pick(&m, MESH_CLASSES), to = class;
        spread_scope(m.graph, how, i, n);
        plait_tensor y, a = mesh_value(&m, class);
        if (mesh_pick(&m, 6) == 0) {
            y = plait_matmul(m.graph, m.change[class], a);
            to = (class + 1) % MESH_CLASSES;
        } else {
            y = plait_mul(m.graph, a, mesh_value(&m, class));
        }
        mesh_add(&m, to, y);
        total[to] = plait_add(m.graph, total[to], y);
    }
    for (int c = 0; c < MESH_CLASSES; c++) {
        char name[32];
        snprintf(name, sizeof name, "y%d", c);
        plait_output(m.graph, name, total[c]);
    }
    return sealed(m.graph);
}

/* ---- decoder: what a language model's layers look like ---- */

typedef struct decoder_shape {
    int n_layers;
    int64_t width, heads, kv_heads, hidden, vocabulary, batch, pages;
} decoder_shape;

typedef struct decoder_builder {
    plait_graph *graph;
    const decoder_shape *shape;
    plait_dim tokens;
    plait_tensor positions, sequences, slots, pages;
    int layer;
} decoder_builder;

static inline plait_tensor decoder_weight(decoder_builder *b, const char *what, plait_dtype dtype,
                                          plait_shape shape) {
    char name[64];
    snprintf(name, sizeof name, "blk.%d.%s.weight", b->layer, what);
    return plait_weight(b->graph, name, dtype, shape);
}

static inline plait_tensor decoder_linear(decoder_builder *b, const char *what, plait_tensor x, int64_t k,
                                          int64_t m) {
    plait_tensor w = decoder_weight(b, what, PLAIT_Q4_K, PLAIT_SHAPE(k, m));
    return plait_named(b->graph, what, plait_matmul(b->graph, w, x));
}

static inline plait_tensor decoder_norm(decoder_builder *b, const char *what, plait_tensor x) {
    return plait_rms_norm(b->graph, x, decoder_weight(b, what, PLAIT_F32, PLAIT_SHAPE(b->shape->width)),
                          1e-5);
}

static inline plait_tensor decoder_heads(decoder_builder *b, const char *what, plait_tensor x,
                                         int64_t heads) {
    int64_t head = b->shape->width / b->shape->heads;
    x = decoder_linear(b, what, x, b->shape->width, head * heads);
    return plait_reshape(b->graph, x, PLAIT_SHAPE(head, heads, b->tokens));
}

static inline plait_tensor decoder_cache(decoder_builder *b, const char *what, plait_tensor rows) {
    char name[64];
    const decoder_shape *s = b->shape;
    snprintf(name, sizeof name, "cache.%d.%s", b->layer, what);
    plait_tensor cache =
        plait_state(b->graph, name, PLAIT_F16, PLAIT_SHAPE(s->width / s->heads, 64, s->kv_heads, s->pages));
    return plait_kv_write(b->graph, cache, rows, b->slots);
}

static inline plait_tensor decoder_layer(decoder_builder *b, plait_tensor x) {
    const decoder_shape *s = b->shape;
    plait_graph *g = b->graph;
    plait_rope_options rope = {0};
    plait_tensor h = decoder_norm(b, "attn_norm", x);
    plait_tensor q =
        plait_rope(g, decoder_heads(b, "attn_q", h, s->heads), b->positions, PLAIT_NO_TENSOR, &rope);
    plait_tensor k =
        plait_rope(g, decoder_heads(b, "attn_k", h, s->kv_heads), b->positions, PLAIT_NO_TENSOR, &rope);
    plait_tensor v = decoder_heads(b, "attn_v", h, s->kv_heads);
    plait_attention_inputs inputs = {.q = q,
                                     .k = decoder_cache(b, "k", k),
                                     .v = decoder_cache(b, "v", v),
                                     .positions = b->positions,
                                     .sequences = b->sequences,
                                     .pages = b->pages};
    plait_tensor y = plait_attention(g, &inputs, &(plait_attention_options){0});
    y = plait_reshape(g, y, PLAIT_SHAPE(s->width, b->tokens));
    x = plait_add(g, decoder_linear(b, "attn_output", y, s->width, s->width), x);
    h = decoder_norm(b, "ffn_norm", x);
    plait_tensor gate = decoder_linear(b, "ffn_gate", h, s->width, s->hidden);
    plait_tensor up = decoder_linear(b, "ffn_up", h, s->width, s->hidden);
    return plait_add(g, decoder_linear(b, "ffn_down", plait_swiglu(g, gate, up), s->hidden, s->width), x);
}

static inline plait_graph *make_decoder(const decoder_shape *shape, const spread *how) {
    decoder_builder b = {.shape = shape,
                         .graph = plait_graph_create(&(plait_graph_options){.name = "decoder"})};
    plait_graph *g = b.graph;
    b.tokens = plait_graph_dim(g, "tokens", shape->batch);
    plait_tensor ids = plait_input(g, "ids", PLAIT_I32, PLAIT_SHAPE(b.tokens));
    b.positions = plait_input(g, "positions", PLAIT_I32, PLAIT_SHAPE(b.tokens));
    b.sequences = plait_input(g, "sequence_of", PLAIT_I32, PLAIT_SHAPE(b.tokens));
    b.slots = plait_input(g, "slots", PLAIT_I32, PLAIT_SHAPE(b.tokens));
    b.pages = plait_input(g, "pages", PLAIT_I32, PLAIT_SHAPE(shape->pages, 1));
    plait_tensor table =
        plait_weight(g, "token_embd.weight", PLAIT_Q6_K, PLAIT_SHAPE(shape->width, shape->vocabulary));
    plait_tensor x = plait_get_rows(g, table, ids);
    for (b.layer = 0; b.layer < shape->n_layers; b.layer++) {
        spread_scope(g, how, b.layer, shape->n_layers);
        x = decoder_layer(&b, x);
    }
    plait_tensor norm = plait_weight(g, "output_norm.weight", PLAIT_F32, PLAIT_SHAPE(shape->width));
    plait_output(g, "logits", plait_matmul(g, table, plait_rms_norm(g, x, norm, 1e-5)));
    return sealed(g);
}

#endif
