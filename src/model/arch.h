/* Architectures: one row each. Families that share a block are rows of one builder, told apart by traits, so that a
 * new relative is a line in arch.c. A builder is a pure function: hyperparameters and tensors of the file in, nodes
 * of a graph out. */
#ifndef PLAIT_MODEL_ARCH_H
#define PLAIT_MODEL_ARCH_H

#include "model/hparams.h"

/* What the shares of a token's experts are made of. */
typedef enum plait_expert_shares {
    PLAIT_EXPERTS_NONE, /* the family has no experts */
    PLAIT_EXPERTS_OF_CHOSEN, /* a softmax over the chosen ones; the same as shares of all made to add up to 1 again */
    PLAIT_EXPERTS_OF_ALL /* a softmax over all: the chosen ones' shares add up to less than 1 */
} plait_expert_shares;

/* Traits of decoder-only transformers with rotary positions (decoder.c). */
typedef struct plait_arch_traits {
    bool rope_halves;      /* rotary on split halves; otherwise on adjacent pairs */
    bool qk_norm;          /* per-head RMS norm of q and k before rotary */
    bool post_norms;       /* a norm behind attention and behind the FFN, before the residual */
    bool gelu;             /* gate activation GELU (tanh form); otherwise SiLU */
    bool scaled_embedding; /* embeddings times sqrt(n_embd) */
    bool multipliers;      /* granite: embedding, residual, attention and logit multipliers from the file */
    int window_period; /* every period-th layer is full, the others local; 0: no window without a pattern key */
    bool local_unscaled; /* local layers use the local base and no rope scaling */
    bool temperature;    /* attention temperature that grows with position */
    plait_expert_shares experts;
    bool shared_gate; /* an expert that every token uses, behind a sigmoid of its own */
} plait_arch_traits;

/* What a pin calls everything of a layer's experts, their weights and their nodes: behind "blk.LAYER.". */
#define PLAIT_EXPERT_NAMES "ffn_*_exps*"

typedef struct plait_builder plait_builder;

typedef struct plait_arch {
    const char *name; /* general.architecture */
    plait_arch_traits traits;
    /* Appends the layers, each marked as a block of its number; returns the normed hidden state [n_embd, outputs] of
     * the rows that are wanted. */
    plait_tensor (*layers)(plait_builder *builder);
} plait_arch;

/* NULL when unknown; the i-th row, NULL past the end. */
const plait_arch *plait_arch_find(const char *name, size_t length);
const plait_arch *plait_arch_at(size_t index);

/* ---- what a builder works with ---- */

/* Layers that keep the same positions share a page table. */
typedef struct plait_cache_group {
    int64_t window;     /* 0: all positions are kept */
    int64_t n_pages;    /* pages of the pool */
    int64_t max_list;   /* entries of a sequence's page list */
    plait_tensor slots; /* i32 [tokens] */
    plait_tensor pages; /* i32 [max_list, sequences] */
    char slots_name[32], pages_name[32];
} plait_cache_group;

enum { PLAIT_MODEL_MAX_GROUPS = 2 };

struct plait_builder {
    plait_graph *graph;
    const plait_gguf *gguf;
    const plait_hparams *hp;
    const plait_arch *arch;
    int64_t page_len;
    plait_dtype k_type, v_type;
    int n_groups;
    plait_cache_group groups[PLAIT_MODEL_MAX_GROUPS];
    plait_dim tokens, sequences, outputs; /* bounded dims */
    plait_tensor ids, positions, sequence_of, output_rows;
    plait_status status; /* of a missing or misshapen tensor: first one; its message is in `error` */
    char error[PLAIT_ERROR_BYTES];
};

/* A weight of the file with the shape that the model must have; dims beyond are 1. NULL in the file: the builder's
 * status becomes NOT_FOUND, another shape: CORRUPT, and a poison tensor is returned. `layer` < 0: the name as it
 * is; otherwise "blk.LAYER.NAME". */
plait_tensor plait_builder_weight(plait_builder *b, int64_t layer, const char *name, int64_t d0, int64_t d1);
/* The same for a weight that the file may lack: then PLAIT_NO_TENSOR without an error. */
plait_tensor plait_builder_optional(plait_builder *b, int64_t layer, const char *name, int64_t d0,
                                    int64_t d1);
/* The matrices of all experts, NAME.weight [d0, d1, experts], which must be there. */
plait_tensor plait_builder_experts(plait_builder *b, int64_t layer, const char *name, int64_t d0, int64_t d1,
                                   int64_t n_experts);
/* W x, plus the bias of the same name if the file has one. */
plait_tensor plait_builder_linear(plait_builder *b, int64_t layer, const char *name, plait_tensor x,
                                  int64_t n_in, int64_t n_out);
/* Writes k and v [dim, kv_heads, tokens] to the caches of a layer and attends: [v_dim, heads, tokens]. */
plait_tensor plait_builder_attend(plait_builder *b, int64_t layer, plait_tensor q, plait_tensor k,
                                  plait_tensor v, const plait_attention_options *options);

plait_tensor plait_decoder_layers(plait_builder *b);

#endif
