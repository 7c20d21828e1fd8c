/* A decoder as models have it, of any depth, for tests of planning: attention over paged caches with rope, a gated
 * feed-forward part, norms, an embedding. The names are those of real models; numbers are small. */
#ifndef PLAIT_TESTS_SUPPORT_DECODER_H
#define PLAIT_TESTS_SUPPORT_DECODER_H

#include "plait/graph.h"

#include <stdio.h>

typedef struct decoder {
    plait_graph *graph;
    plait_dim tokens;
    plait_tensor ids, slots, positions, sequences, pages;
    int64_t width, heads, kv_heads, hidden;
} decoder;

static inline plait_tensor decoder_weight(decoder *d, int layer, const char *what, int64_t k, int64_t m) {
    char name[64];
    snprintf(name, sizeof name, "blk.%d.%s.weight", layer, what);
    return plait_weight(d->graph, name, m ? PLAIT_Q4_0 : PLAIT_F32, m ? PLAIT_SHAPE(k, m) : PLAIT_SHAPE(k));
}

static inline plait_tensor decoder_product(decoder *d, int layer, const char *what, plait_tensor x, int64_t k,
                                           int64_t m) {
    return plait_named(d->graph, what, plait_matmul(d->graph, decoder_weight(d, layer, what, k, m), x));
}

static inline plait_tensor decoder_cache(decoder *d, int layer, const char *what, int64_t head,
                                         plait_tensor rows) {
    char name[64];
    snprintf(name, sizeof name, "cache.%s.%d", what, layer);
    plait_tensor cache = plait_state(d->graph, name, PLAIT_F16, PLAIT_SHAPE(head, 16, d->kv_heads, 64));
    return plait_kv_write(d->graph, cache, rows, d->slots);
}

static inline plait_tensor decoder_attention(decoder *d, int layer, plait_tensor x) {
    plait_graph *g = d->graph;
    int64_t head = d->width / d->heads, kv = head * d->kv_heads;
    plait_rope_options rope = {0};
    plait_tensor h = plait_rms_norm(g, x, decoder_weight(d, layer, "attn_norm", d->width, 0), 1e-5);
    plait_tensor q = decoder_product(d, layer, "attn_q", h, d->width, d->width);
    plait_tensor k = decoder_product(d, layer, "attn_k", h, d->width, kv);
    plait_tensor v = decoder_product(d, layer, "attn_v", h, d->width, kv);
    q = plait_reshape(g, q, PLAIT_SHAPE(head, d->heads, d->tokens));
    k = plait_reshape(g, k, PLAIT_SHAPE(head, d->kv_heads, d->tokens));
    v = plait_reshape(g, v, PLAIT_SHAPE(head, d->kv_heads, d->tokens));
    plait_attention_inputs inputs = {
        .q = plait_rope(g, q, d->positions, PLAIT_NO_TENSOR, &rope),
        .k = decoder_cache(d, layer, "k", head, plait_rope(g, k, d->positions, PLAIT_NO_TENSOR, &rope)),
        .v = decoder_cache(d, layer, "v", head, v),
        .positions = d->positions,
        .sequences = d->sequences,
        .pages = d->pages};
    plait_tensor y = plait_named(g, "attention", plait_attention(g, &inputs, &(plait_attention_options){0}));
    y = plait_reshape(g, y, PLAIT_SHAPE(d->width, d->tokens));
    return plait_add(g, x, decoder_product(d, layer, "attn_output", y, d->width, d->width));
}

static inline plait_tensor decoder_feed_forward(decoder *d, int layer, plait_tensor x) {
    plait_graph *g = d->graph;
    plait_tensor h = plait_rms_norm(g, x, decoder_weight(d, layer, "ffn_norm", d->width, 0), 1e-5);
    plait_tensor gate = decoder_product(d, layer, "ffn_gate", h, d->width, d->hidden);
    plait_tensor up = decoder_product(d, layer, "ffn_up", h, d->width, d->hidden);
    h = decoder_product(d, layer, "ffn_down", plait_swiglu(g, gate, up), d->hidden, d->width);
    return plait_add(g, x, h);
}

/* Sealed, or NULL with the message set. Output "x" is [width, tokens]. */
static inline plait_graph *decoder_make(int n_layers, int64_t width, int64_t bound) {
    decoder d = {.width = width, .heads = 4, .kv_heads = 2, .hidden = 2 * width};
    plait_graph *g = d.graph = plait_graph_create(&(plait_graph_options){.name = "decoder"});
    if (!g) return NULL;
    d.tokens = plait_graph_dim(g, "tokens", bound);
    d.ids = plait_input(g, "ids", PLAIT_I32, PLAIT_SHAPE(d.tokens));
    d.slots = plait_input(g, "slots", PLAIT_I32, PLAIT_SHAPE(d.tokens));
    d.positions = plait_input(g, "positions", PLAIT_I32, PLAIT_SHAPE(d.tokens));
    d.sequences = plait_input(g, "sequences", PLAIT_I32, PLAIT_SHAPE(d.tokens));
    d.pages = plait_input(g, "pages", PLAIT_I32, PLAIT_SHAPE(16, 4));
    plait_tensor table = plait_weight(g, "token_embd.weight", PLAIT_Q8_0, PLAIT_SHAPE(width, 128));
    plait_tensor x = plait_named(g, "embed", plait_get_rows(g, table, d.ids));
    for (int l = 0; l < n_layers; l++) {
        char scope[32];
        snprintf(scope, sizeof scope, "blk.%d.", l);
        plait_graph_scope(g, scope);
        plait_graph_block(g, l);
        x = decoder_feed_forward(&d, l, decoder_attention(&d, l, x));
    }
    plait_graph_block(g, -1);
    plait_output(g, "x", x);
    if (plait_graph_seal(g) == PLAIT_OK) return g;
    plait_graph_destroy(g);
    return NULL;
}

#endif
