/* What a file says about its model, read once from the metadata of architecture ARCH ("ARCH.block_count", ...).
 * Numbers that may differ from layer to layer are arrays with one entry a layer. Everything is checked here: builders
 * may divide and index without care. */
#ifndef PLAIT_MODEL_HPARAMS_H
#define PLAIT_MODEL_HPARAMS_H

#include "base/arena.h"
#include "plait/gguf.h"
#include "plait/graph.h"

enum { PLAIT_MODEL_MAX_LAYERS = 4096, PLAIT_MODEL_MAX_HEADS = 65536 };

typedef struct plait_hparams {
    int64_t n_vocab, n_embd, n_layers;
    uint32_t *n_heads, *n_kv_heads, *n_ff; /* [n_layers] */
    int64_t k_dim, v_dim;                  /* of a head */
    double norm_eps;
    int64_t n_experts, n_used_experts; /* 0: none; how many of them a token uses */
    int64_t n_ff_expert,
        n_ff_shared;     /* of an expert, 0: as n_ff says; of one that all tokens use, 0: there is none */
    double expert_scale; /* of the experts' shares */
    int64_t context_trained;

    plait_rope_options rope;       /* of full-attention layers */
    plait_rope_options rope_local; /* of sliding-window layers */

    int64_t window; /* 0: none */
    bool *is_local; /* [n_layers]: the layer attends within the window only */

    double attention_scale; /* 0: 1 / sqrt(k_dim) */
    double attention_softcap, output_softcap;
    double embedding_scale, residual_scale, output_scale; /* multipliers; 1: none */
    double temperature_scale;                             /* of attention with position, 0: none */
    int64_t temperature_length;
} plait_hparams;

/* How an architecture's defaults differ; from its row in the table (arch.h). */
struct plait_arch;

/* Reads and checks. Arrays live in the arena. Errors name file and key. */
plait_status plait_hparams_read(plait_hparams *out, const plait_gguf *gguf, const struct plait_arch *arch,
                                plait_arena *arena);

#endif
