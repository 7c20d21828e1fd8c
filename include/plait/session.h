/* Sessions: sequences of tokens in a model's cache, fed in batches, with logits, best tokens or embeddings out.
 *
 *     plait_session *session = NULL;
 *     plait_seq seq;
 *     PLAIT_TRY(plait_session_create(&session, model));
 *     PLAIT_TRY(plait_session_begin(session, &seq));
 *     PLAIT_TRY(plait_session_feed_text(session, seq, "Name three primary colors.", SIZE_MAX, 0));
 *     for (plait_token t;;) {
 *         PLAIT_TRY(plait_session_next(session, seq, sampler, &t));
 *         if (plait_token_ends(plait_model_tokenizer(model), t)) break;
 *     }
 *
 * A session has state of its own (the cache) and shares the model's weights and plans. It is used by one thread at a
 * time. A failed call leaves every sequence as it was before, unless it says otherwise.
 */
#ifndef PLAIT_SESSION_H
#define PLAIT_SESSION_H

#include "plait/model.h"
#include "plait/sampler.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Opaque. One cache on the model's devices, allocated whole when the session is created. */
typedef struct plait_session plait_session;

/* A sequence of a session: a small number, reused after the end. */
typedef int32_t plait_seq;

/* The model must outlive the session (it is retained). OUT_OF_MEMORY when the cache does not fit any more; WRONG_STATE
 * for a model that was opened dry. */
plait_status plait_session_create(plait_session **out, plait_model *model);
void plait_session_destroy(plait_session *session); /* accepts NULL */
/* Borrowed. */
plait_model *plait_session_model(const plait_session *session);

/* A session of `model` with the sequences of another one, which may have lost its device: the same numbers, tokens and,
 * for those whose last token has an output, that output, so that plait_session_next goes on. Tokens are fed again,
 * common prefixes once. `from` is only read, and belongs to a model of the same vocabulary (the same file, opened in a
 * context of the devices that are left, plait_context_reopen). The sequences' lengths must fit. While both live, weights
 * that the file's mapping does not serve are there twice; who has no room for that keeps plait_session_tokens, destroys
 * everything, and feeds them anew. */
plait_status plait_session_resume(plait_session **out, plait_model *model, const plait_session *from);

/* ---- sequences ---- */

/* An empty sequence; LIMIT when the model's number of sequences is in use. */
plait_status plait_session_begin(plait_session *session, plait_seq *out);
/* Gives its cache back. */
plait_status plait_session_drop(plait_session *session, plait_seq seq);
/* A new sequence with the same tokens; cache pages are shared until one of them is written. */
plait_status plait_session_fork(plait_session *session, plait_seq seq, plait_seq *out);
/* Keeps the first n_tokens. UNSUPPORTED when a sliding window has given up cache that would be needed again; the
 * message names the shortest length that can be restored. */
plait_status plait_session_truncate(plait_session *session, plait_seq seq, int64_t n_tokens);
/* Number of tokens, and the tokens themselves (borrowed until the sequence changes). 0 and NULL for no sequence. */
int64_t plait_session_length(const plait_session *session, plait_seq seq);
const plait_token *plait_session_tokens(const plait_session *session, plait_seq seq);

/* ---- a step ---- */

/* One token of a step. Positions count from 0 in each sequence. */
typedef struct plait_batch_item {
    plait_token token;
    int64_t position;      /* -1: the next of its sequence; otherwise it must be just that */
    const plait_seq *seqs; /* sequences that it belongs to: equal so far when there are several. Borrowed. */
    int n_seqs;
    bool wants_output; /* logits or embedding of this token are wanted */
} plait_batch_item;

/* Runs one step over up to `batch` tokens of any sequences. Items of one sequence are in order. Where an item belongs
 * to several sequences the first one leads: the others have no items of their own in this step, and may stop following it
 * but not skip an item of it. Outputs of the step before are gone. Errors: INVALID_ARGUMENT for sequences that do not
 * exist or break these rules; OUT_OF_RANGE for token ids, positions, lengths beyond the context; LIMIT when the cache
 * has no page left: pages that no window sees any more are given up before that, so truncating reaches back less far. */
plait_status plait_session_step(plait_session *session, const plait_batch_item *items, int64_t n_items);
/* Waits until the last step is done, and returns its failure. Steps return earlier where devices have queues of their
 * own; asking for an output waits by itself. */
plait_status plait_session_wait(plait_session *session);
/* Items of the last step that wanted output, numbered in order from 0. */
int64_t plait_session_n_outputs(const plait_session *session);
/* All logits of output `row`: n_vocab floats, borrowed until the next call that computes outputs. */
plait_status plait_session_logits(plait_session *session, int64_t row, const float **out_logits);
/* The id of the largest logit, the lowest such id. NaN is never larger than a number. */
plait_status plait_session_argmax(plait_session *session, int64_t row, plait_token *out_token);
/* The token that the sampler picks for a row; asks only for the logits that the chain needs. The sampler is not told
 * (plait_sampler_accept). */
plait_status plait_session_sample(plait_session *session, int64_t row, plait_sampler *sampler,
                                  plait_token *out_token);
/* The hidden state of output `row` after the last norm: n_embd floats, borrowed as above. */
plait_status plait_session_embedding(plait_session *session, int64_t row, const float **out_values);

/* ---- text ---- */

/* Feeds tokens to one sequence in steps of the model's batch; output is wanted of the last token only. Checks the
 * whole length first. The progress callback of the context sees "prompt" before each step and may cancel; what was fed
 * before a failure stays, see plait_session_length. */
plait_status plait_session_feed(plait_session *session, plait_seq seq, const plait_token *tokens,
                                int64_t n_tokens);
/* Tokenises and feeds. n_bytes SIZE_MAX: NUL-terminated. BOS is added to an empty sequence as the model asks; special
 * tokens are recognised when flags has PLAIT_TOKENIZE_PARSE_SPECIAL. */
plait_status plait_session_feed_text(plait_session *session, plait_seq seq, const char *text, size_t n_bytes,
                                     uint32_t flags);
/* Samples the next token of a sequence whose last step ended with it (sampler NULL: greedy), tells the sampler, and
 * feeds the token, so that the call can be repeated. */
plait_status plait_session_next(plait_session *session, plait_seq seq, plait_sampler *sampler,
                                plait_token *out_token);

/* ---- trace ---- */

/* Records when each group of nodes ran, layers and outputs alike, in the steps that follow: about max_spans spans, then
 * recording stops. Allocates only here. A span is one group on one device. */
plait_status plait_session_trace_begin(plait_session *session, size_t max_spans);
/* Ends recording; the spans in the JSON of Chrome's trace viewer. The caller frees *out_json. */
plait_status plait_session_trace_end(plait_session *session, char **out_json);

#ifdef __cplusplus
}
#endif
#endif
