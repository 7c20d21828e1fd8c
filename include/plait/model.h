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

typedef struct plait_model plait_model;

/* Zeroed: what the file says and what is usual. */
typedef struct plait_model_options {
    int64_t context;   /* tokens that a sequence may hold; 0: the file's own, reduced to what fits */
    int64_t batch;     /* most tokens of one step; 0: 512 */
    int64_t sequences; /* most sequences of a session; 0: 1 */
    bool kv_given;     /* k_type and v_type are set; otherwise f16 */
    plait_dtype k_type, v_type;
    /* How the model is spread over the devices of the context; see plait/plan.h and docs/placement.md. All of these are
     * borrowed for the call. */
    plait_split split;
    const double *ratio; /* a share for each device; NULL: by cost */
    const plait_pin *pins;
    int n_pins;
    bool exact;      /* see DESIGN: same bytes for any batching */
    bool no_mmap;    /* read the file into memory */
    bool no_packing; /* keep weights in file form */
    bool skip_verify;
    bool dry;     /* plan only: no memory is taken, no session can be created */
    bool fit_off; /* take the context as given, or fail */
} plait_model_options;

/* Opens a file (all its parts). `context` must outlive the model; options may be NULL. Errors: what the file lacks,
 * with names, expected and actual shapes; OUT_OF_MEMORY with the sums when it does not fit. */
plait_status plait_model_open(plait_model **out, plait_context *context, const char *path,
                              const plait_model_options *options);
plait_model *plait_model_retain(plait_model *model);
void plait_model_release(plait_model *model); /* accepts NULL */

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
void plait_model_describe(const plait_model *model, plait_model_facts *out);

/* Borrowed from the model. The tokenizer is NULL when the file has none that can be used; plait_model_need_tokenizer
 * gives the reason as a status. */
const plait_gguf *plait_model_gguf(const plait_model *model);
const plait_tokenizer *plait_model_tokenizer(const plait_model *model);
plait_status plait_model_need_tokenizer(const plait_model *model, const plait_tokenizer **out);
/* The plan of the layers; of the tails by kind: 0 argmax, 1 n best, 2 all logits. */
const plait_plan *plait_model_plan(const plait_model *model);
const plait_plan *plait_model_tail_plan(const plait_model *model, int kind);

/* Names of the known architectures, 0, 1, ...; NULL after the last. */
const char *plait_model_architecture(size_t index);

#ifdef __cplusplus
}
#endif
#endif
