/* Models: a GGUF file opened for running on the devices of a context.
 *
 *     plait_model *model = NULL;
 *     PLAIT_TRY(plait_model_open(&model, context, "model.gguf", NULL));
 *
 * Opening reads the architecture, builds its graphs, decides residence, checks that everything fits into free memory
 * (private copies of weights, cache, temporaries) before anything is loaded, loads, and makes the few plans that
 * all sessions share. A model is immutable afterwards and may be shared by threads.
 */
#ifndef PLAIT_MODEL_H
#define PLAIT_MODEL_H

#include "plait/gguf.h"
#include "plait/plan.h"
#include "plait/tokenizer.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Opaque, with counted references: plait_model_open gives the first one, sessions keep one each. */
typedef struct plait_model plait_model;

/* Zeroed: what the file says and what is usual. */
typedef struct plait_model_options {
    int64_t context;   /* tokens that a sequence may hold; 0: the file's own, or less if that is what fits */
    int64_t batch;     /* most tokens of one step; 0: 512, or less if that is what fits */
    int64_t sequences; /* most sequences of a session; 0: 1 */
    bool kv_given;     /* k_type and v_type are set; otherwise f16 */
    bool kv_open;      /* where they are not: q8_0 instead, if that is what fits */
    plait_dtype k_type, v_type;
    /* How the model is spread over the devices of the context; see plait/plan.h and docs/placement.md. All of these are
     * borrowed for the call. */
    plait_split split;
    const double *ratio;   /* a share for each device; NULL: by cost */
    const plait_pin *pins; /* the first that matches wins; NULL: none */
    int n_pins;
    bool exact;       /* see DESIGN: same bytes for any batching */
    bool no_mmap;     /* read the file into memory */
    bool no_packing;  /* keep weights in file form */
    bool skip_verify; /* plans are not proved before use: to measure what the proof costs */
    bool dry;         /* plan only: no memory is taken, no session can be created */
    bool fit_off;     /* what is left open is not chosen: the file's context, a batch of 512, or failure */
    const uint64_t *margin_bytes; /* [device] left free of what is free now; NULL: one part in 32 of it */
} plait_model_options;

/* Opens a file (all its parts). What the options leave open is chosen by planning alone, from metadata, before anything
 * is loaded or allocated: the fastest setting that fits (docs/fit.md). `context` must outlive the model; options may be
 * NULL. Errors: what the file lacks, with names, expected and actual shapes; OUT_OF_MEMORY, with what is needed and what
 * there is on each device, when nothing fits. */
plait_status plait_model_open(plait_model **out, plait_context *context, const char *path,
                              const plait_model_options *options);
/* Adds a reference and returns the model. Any thread. */
plait_model *plait_model_retain(plait_model *model);
void plait_model_release(plait_model *model); /* accepts NULL */

/* What a model is and what it takes. Sizes are bytes, counts are elements, layers, heads or tokens. n_embd is the width
 * of the hidden state, head_dim that of a key, n_ff the inner size of the feed-forward part; what differs by layer is
 * the first layer's. page_len are the keys in a page of the cache. private: memory of their own, packed or copied;
 * mapped: used in the file's mapping. */
typedef struct plait_model_facts {
    char architecture[64];
    int64_t n_vocab, n_embd, n_layers, n_heads, n_kv_heads, head_dim, n_ff;
    int64_t context_trained; /* the file's own */
    int64_t context;         /* what sessions get */
    int64_t batch, sequences, page_len;
    int64_t n_outputs; /* rows of logits computed at once */
    bool tied_output, has_window;
    uint64_t weight_private_bytes, weight_mapped_bytes, state_bytes, temporary_bytes; /* over all devices */
    int64_t n_parameters;
} plait_model_facts;
/* Fills all of *out. Cannot fail; any thread. */
void plait_model_describe(const plait_model *model, plait_model_facts *out);

/* Borrowed from the model. The tokenizer is NULL when the file has none that can be used; plait_model_need_tokenizer
 * gives the reason as a status. */
const plait_gguf *plait_model_gguf(const plait_model *model);
const plait_tokenizer *plait_model_tokenizer(const plait_model *model);
plait_status plait_model_need_tokenizer(const plait_model *model, const plait_tokenizer **out);
/* Options of the command line that give the same plans again on the same devices: "--ctx 8192 --batch 512 --kv f16 --ratio
 * 20,12". Whoever has them needs no choice. Borrowed. */
const char *plait_model_flags(const plait_model *model);
/* The plan of the layers; of the tails by kind: 0 argmax, 1 n best, 2 all logits. */
const plait_plan *plait_model_plan(const plait_model *model);
const plait_plan *plait_model_tail_plan(const plait_model *model, int kind);

/* Names of the known architectures, 0, 1, ...; NULL after the last. Static. A file names its own in
 * general.architecture. */
const char *plait_model_architecture(size_t index);

#ifdef __cplusplus
}
#endif
#endif
