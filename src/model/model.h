/* Inside of a model: graphs, residence and plans that its sessions share. */
#ifndef PLAIT_MODEL_MODEL_H
#define PLAIT_MODEL_MODEL_H

#include "model/arch.h"
#include "plait/model.h"
#include "plait/run.h"

#include "base/status.h"

#include <stdatomic.h>

enum {
    PLAIT_MODEL_PAGE_LEN = 64,     /* tokens of a cache page */
    PLAIT_MODEL_TAIL_OUTPUTS = 32, /* rows of logits computed at once */
    PLAIT_MODEL_BEST = 256         /* tokens that the tail of n best gives */
};

/* The tails: what is made of the hidden state of wanted rows. */
typedef enum plait_tail {
    PLAIT_TAIL_ARGMAX,    /* "ids" i32 [outputs] */
    PLAIT_TAIL_BEST,      /* "values" f32, "ids" i32 [best, outputs] */
    PLAIT_TAIL_LOGITS,    /* "logits" f32 [n_vocab, outputs] */
    PLAIT_TAIL_EMBEDDING, /* "hidden" f32 [n_embd, outputs] */
    PLAIT_TAIL_COUNT
} plait_tail;

/* Everything that depends on the length of the context: built again for each length that is tried. */
typedef struct plait_engine {
    plait_graph *layers, *tails[PLAIT_TAIL_COUNT], *copies;
    plait_residence *residence;
    plait_plan *layers_plan, *tail_plans[PLAIT_TAIL_COUNT], *copies_plan;
    int n_groups;
    plait_cache_group groups[PLAIT_MODEL_MAX_GROUPS];
    int64_t context;
    uint64_t *reserve_bytes; /* Owned. [device] kept for temporaries when residence was decided */
    uint64_t private_bytes, mapped_bytes, state_bytes, temporary_bytes;
} plait_engine;

struct plait_model {
    atomic_int references;
    plait_context *context;
    plait_gguf *gguf; /* Retained. */
    plait_arena arena;
    const plait_arch *arch;
    plait_hparams hp;
    plait_model_options options; /* with defaults filled in */
    plait_tokenizer *tokenizer;  /* Owned. NULL: see tokenizer_failure */
    plait_error_record tokenizer_failure;
    plait_engine engine;
    int64_t n_best; /* of PLAIT_TAIL_BEST */
};

/* Builds graphs, residence and plans for this length of context into a zeroed engine. */
plait_status plait_engine_build(plait_model *model, int64_t context, plait_engine *out);
void plait_engine_destroy(plait_engine *engine); /* accepts a zeroed one */

#endif
