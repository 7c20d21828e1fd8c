/* Layers of a transformer with a cache, small enough to try everything with every table of their plan. */
#ifndef PLAIT_TESTS_SUPPORT_LAYERS_H
#define PLAIT_TESTS_SUPPORT_LAYERS_H

#include "plait/graph.h"

#include <stdio.h>

/* Sealed, or NULL with the message. */
static inline plait_graph *layers(int n_layers) {
    plait_graph *g = plait_graph_create(&(plait_graph_options){.name = "layers"});
    if (!g) return NULL;
    plait_dim n = plait_graph_dim(g, "tokens", 8);
    plait_tensor ids = plait_input(g, "ids", PLAIT_I32, PLAIT_SHAPE(n));
    plait_tensor slots = plait_input(g, "slots", PLAIT_I32, PLAIT_SHAPE(n));
    plait_tensor positions = plait_input(g, "positions", PLAIT_I32, PLAIT_SHAPE(n));
    plait_tensor sequences = plait_input(g, "sequences", PLAIT_I32, PLAIT_SHAPE(n));
    plait_tensor pages = plait_input(g, "pages", PLAIT_I32, PLAIT_SHAPE(3, 4));
    plait_tensor x = plait_get_rows(g, plait_weight(g, "embed", PLAIT_Q8_0, PLAIT_SHAPE(32, 20)), ids);
    for (int l = 0; l < n_layers; l++) {
        char name[32];
#define NAME(what) (snprintf(name, sizeof name, "%d." what, l), name)
        plait_tensor h =
            plait_rms_norm(g, x, plait_weight(g, NAME("norm"), PLAIT_F32, PLAIT_SHAPE(32)), 1e-5);
        plait_tensor q = plait_matmul(g, plait_weight(g, NAME("q"), PLAIT_F16, PLAIT_SHAPE(32, 32)), h);
        plait_tensor kv = plait_matmul(g, plait_weight(g, NAME("k"), PLAIT_F16, PLAIT_SHAPE(32, 16)), h);
        kv = plait_reshape(g, kv, PLAIT_SHAPE(8, 2, n));
        plait_tensor k = plait_state(g, NAME("cache.k"), PLAIT_F16, PLAIT_SHAPE(8, 4, 2, 12));
        plait_tensor v = plait_state(g, NAME("cache.v"), PLAIT_F16, PLAIT_SHAPE(8, 4, 2, 12));
#undef NAME
        plait_attention_inputs inputs = {.q = plait_reshape(g, q, PLAIT_SHAPE(8, 4, n)),
                                         .k = plait_kv_write(g, k, kv, slots),
                                         .v = plait_kv_write(g, v, kv, slots),
                                         .positions = positions,
                                         .sequences = sequences,
                                         .pages = pages};
        plait_tensor y = plait_attention(g, &inputs, &(plait_attention_options){0});
        x = plait_add(g, x, plait_reshape(g, y, PLAIT_SHAPE(32, n)));
        x = plait_add(g, x, plait_silu(g, x));
    }
    plait_output(g, "x", x);
    plait_output(g, "half", plait_slice(g, x, 0, 16, 16));
    if (plait_graph_seal(g) == PLAIT_OK) return g;
    plait_graph_destroy(g);
    return NULL;
}

/* The same weights and states, which nothing writes. */
static inline plait_graph *layers_states(int n_layers) {
    plait_graph *g = plait_graph_create(&(plait_graph_options){.name = "states"});
    if (!g) return NULL;
    plait_tensor ids = plait_input(g, "ids", PLAIT_I32, PLAIT_SHAPE(1));
    plait_tensor x = plait_get_rows(g, plait_weight(g, "embed", PLAIT_Q8_0, PLAIT_SHAPE(32, 20)), ids);
    for (int l = 0; l < n_layers; l++) {
        static const char *const states[] = {"k", "v"};
        char name[32];
        snprintf(name, sizeof name, "%d.norm", l);
        x = plait_rms_norm(g, x, plait_weight(g, name, PLAIT_F32, PLAIT_SHAPE(32)), 1e-5);
        snprintf(name, sizeof name, "%d.q", l);
        x = plait_matmul(g, plait_weight(g, name, PLAIT_F16, PLAIT_SHAPE(32, 32)), x);
        snprintf(name, sizeof name, "%d.k", l);
        plait_tensor k = plait_matmul(g, plait_weight(g, name, PLAIT_F16, PLAIT_SHAPE(32, 16)), x);
        snprintf(name, sizeof name, "k%d", l);
        plait_output(g, name, k);
        for (int i = 0; i < 2; i++) {
            snprintf(name, sizeof name, "%d.cache.%s", l, states[i]);
            plait_tensor state = plait_state(g, name, PLAIT_F16, PLAIT_SHAPE(8, 4, 2, 12));
            snprintf(name, sizeof name, "%s%d", states[i], l + 10);
            plait_output(g, name, state);
        }
    }
    plait_output(g, "x", x);
    if (plait_graph_seal(g) == PLAIT_OK) return g;
    plait_graph_destroy(g);
    return NULL;
}

#endif
