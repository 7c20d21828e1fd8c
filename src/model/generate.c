/* Text on top of steps: feeding prompts in pieces, and the loop of sampling one token after the other. Not here: a step
 * (step.c), what outputs cost (output.c). Invariant: a prompt is checked against the context before its first piece is
 * fed. */
#include "model/session.h"

#include "base/log.h"
#include "base/size.h"

#include <string.h>

/* One piece of at most `batch` tokens. */
static plait_status feed_piece(plait_session *s, const plait_seq *seq, const plait_token *tokens, int64_t n,
                               bool last) {
    for (int64_t i = 0; i < n; i++)
        s->items[i] = (plait_batch_item){
            .token = tokens[i], .position = -1, .seqs = seq, .n_seqs = 1, .wants_output = last && i == n - 1};
    return plait_session_step(s, s->items, n);
}

/* All ids are checked first as well: a prompt with a bad id at its end would otherwise be fed half. What a cancelled or
 * failed prompt has fed stays, the caller sees it in the length. */
plait_status plait_session_feed(plait_session *s, plait_seq seq, const plait_token *tokens,
                                int64_t n_tokens) {
    plait_sequence *sequence;
    const plait_logger *logger = plait_context_logger(s->model->context);
    PLAIT_TRY(plait_session_sequence(s, seq, &sequence));
    if (n_tokens < 0 || n_tokens > s->model->engine.context - sequence->length)
        return plait_error(PLAIT_OUT_OF_RANGE,
                           "the prompt of %lld tokens is longer than the context: %lld of %lld are left",
                           (long long)n_tokens, (long long)(s->model->engine.context - sequence->length),
                           (long long)s->model->engine.context);
    for (int64_t i = 0; i < n_tokens; i++)
        if (tokens[i] < 0 || tokens[i] >= s->model->hp.n_vocab)
            return plait_error(PLAIT_OUT_OF_RANGE, "token %lld of the prompt: id %d, expected 0 to %lld",
                               (long long)i, tokens[i], (long long)s->model->hp.n_vocab - 1);
    int64_t piece = s->model->options.batch;
    for (int64_t at = 0; at < n_tokens; at += piece) {
        int64_t n = plait_min_i64(piece, n_tokens - at);
        if (!plait_log_progress(logger, "prompt", (uint64_t)at, (uint64_t)n_tokens))
            return plait_error(PLAIT_CANCELLED, "the prompt was cancelled after %lld tokens", (long long)at);
        PLAIT_TRY(feed_piece(s, &seq, tokens + at, n, at + n == n_tokens));
    }
    return PLAIT_OK;
}

/* BOS is for the beginning of a sequence: text that follows gets none. */
plait_status plait_session_feed_text(plait_session *s, plait_seq seq, const char *text, size_t n_bytes,
                                     uint32_t flags) {
    const plait_tokenizer *tokenizer;
    plait_tokenizer_scratch *scratch;
    plait_sequence *sequence;
    plait_tokens tokens = {0};
    PLAIT_TRY(plait_session_sequence(s, seq, &sequence));
    PLAIT_TRY(plait_model_need_tokenizer(s->model, &tokenizer));
    PLAIT_TRY(plait_tokenizer_scratch_create(&scratch, tokenizer));
    if (n_bytes == SIZE_MAX) n_bytes = strlen(text);
    flags = (flags & ~(uint32_t)PLAIT_TOKENIZE_ADD_SPECIAL) |
            (sequence->length == 0 ? PLAIT_TOKENIZE_ADD_SPECIAL : 0);
    plait_status status = plait_tokenize(tokenizer, scratch, text, n_bytes, flags, &tokens);
    if (status == PLAIT_OK) status = plait_session_feed(s, seq, tokens.ids, (int64_t)tokens.n);
    plait_tokens_deinit(&tokens);
    plait_tokenizer_scratch_destroy(scratch);
    return status;
}

/* Sample, feed, tell the sampler: in this order a failure at any point leaves sampler and sequence agreeing. The room
 * for one more token is looked at first, or the sampler's random number would be spent for nothing. */
plait_status plait_session_next(plait_session *s, plait_seq seq, plait_sampler *sampler,
                                plait_token *out_token) {
    plait_sequence *sequence;
    plait_token token = PLAIT_NO_TOKEN;
    PLAIT_TRY(plait_session_sequence(s, seq, &sequence));
    int64_t row = s->output_of[seq];
    if (row < 0)
        return plait_error(PLAIT_WRONG_STATE,
                           "sequence %d: the last step has no output for it; feed a token first", seq);
    if (sequence->length >= s->model->engine.context)
        return plait_error(PLAIT_OUT_OF_RANGE, "sequence %d: its %lld tokens fill the context", seq,
                           (long long)sequence->length);
    PLAIT_TRY(sampler ? plait_session_sample(s, row, sampler, &token) : plait_session_argmax(s, row, &token));
    /* The sampler is told of tokens that the sequence has: after a failed step the call can be repeated elsewhere. */
    PLAIT_TRY(feed_piece(s, &seq, &token, 1, true));
    if (sampler) PLAIT_TRY(plait_sampler_accept(sampler, token));
    *out_token = token;
    return PLAIT_OK;
}
