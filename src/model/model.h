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
    plait_graph *layers, *tails[PLAIT_TAIL_COUNT], *copies; /* Owned, as plans and residence */
    plait_residence *residence;
    plait_plan *layers_plan, *tail_plans[PLAIT_TAIL_COUNT], *copies_plan;
    int n_groups;
    plait_cache_group groups[PLAIT_MODEL_MAX_GROUPS];
    int64_t context;         /* tokens of a sequence */
    bool full;               /* after a failure: because the devices' memory is too small */
    uint64_t *reserve_bytes; /* Owned. [device] kept for temporaries when residence was decided */
    uint64_t *arena_bytes;   /* [device] of the largest plan */
    uint64_t *taken_bytes;   /* [device] that plans and the runs of a session take, padding included */
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
    /* Borrowed while planning: memory instead of what is free; and what temporaries are known to take at least. */
    const uint64_t *budget_bytes, *reserve_bytes; /* [device], or NULL */
    char *flags;                                  /* Owned. See plait_model_flags */
};

/* A model of which everything is known that does not depend on what fits: file, numbers, options with defaults filled in
 * but for context and batch. What is left open is chosen by the room fit, which then hands an engine over to
 * plait_model_finish. */
plait_status plait_model_create(plait_model **out, plait_context *context, const char *path,
                                const plait_model_options *options);
/* Takes the engine over (it is zeroed, whatever comes of it), makes it ready to run and loads the weights; of a model that
 * is dry only the tokenizer. The options in the model must be those that the engine was built with. */
plait_status plait_model_finish(plait_model *model, plait_engine *engine);

/* Builds graphs, residence and plans for this length of context into a zeroed engine, by the model's options: metadata
 * alone is read, and nothing is taken from devices. OUT_OF_MEMORY with the numbers of every device when it does not fit;
 * the engine is to be destroyed all the same. */
plait_status plait_engine_build(plait_model *model, int64_t context, plait_engine *out);
/* Proves the plans of an engine that was built with skip_verify. */
plait_status plait_engine_prove(plait_engine *engine);
/* Programs and arenas. */
plait_status plait_engine_complete(plait_model *model, plait_engine *engine);
/* Predicted time of a typical use: a prompt and an answer; 0 where the devices' figures are not known. */
plait_status plait_engine_time(const plait_engine *engine, double *out_ns);
/* Whether all weights, states and nodes are on the same devices. Of engines for one model's graphs. */
bool plait_engine_same(const plait_engine *a, const plait_engine *b);
void plait_engine_destroy(plait_engine *engine); /* accepts a zeroed one */

#endif
