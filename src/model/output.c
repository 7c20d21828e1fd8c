/* Outputs of a step: the tails run on demand, over up to PLAIT_MODEL_TAIL_OUTPUTS wanted rows at once, and what they
 * gave is kept until another kind or other rows are asked for. Not here: choosing a token from logits (text/sampler).
 *
 * Invariant: results of a tail stay valid until the next call that runs one, or the next step. */
#include "model/session.h"

#include "base/size.h"

static plait_status check_row(const plait_session *s, int64_t row) {
    if (row >= 0 && row < s->n_outputs) return PLAIT_OK;
    return plait_error(PLAIT_OUT_OF_RANGE, "output row %lld, the last step has %lld", (long long)row,
                       (long long)s->n_outputs);
}

/* Makes the results of `row` available; *out_index is its place among them. Rows are computed in aligned pieces, so
 * asking for one row after the other runs each piece once. n_tail is 0 while the tail runs: a failure leaves nothing
 * that looks valid. */
static plait_status run_tail(plait_session *s, plait_tail tail, int64_t row, int64_t *out_index) {
    int64_t most = plait_min_i64(PLAIT_MODEL_TAIL_OUTPUTS, s->model->options.batch);
    PLAIT_TRY(check_row(s, row));
    bool there = s->n_tail > 0 && s->tail == tail && row >= s->tail_row && row < s->tail_row + s->n_tail;
    if (!there) {
        /* The last piece may be shorter. */
        int64_t first = row / most * most, n = plait_min_i64(most, s->n_outputs - first);
        void *bytes;
        uint64_t size;
        s->n_tail = 0;
        PLAIT_TRY(plait_run_input_at(s->tails[tail], s->tail_rows[tail], &bytes, &size));
        for (int64_t i = 0; i < n; i++) ((int32_t *)bytes)[i] = (int32_t)(first + i);
        PLAIT_TRY(plait_run_set_dim_at(s->tails[tail], s->tail_dim[tail], n));
        PLAIT_TRY(plait_run_step(s->tails[tail]));
        s->tail = tail;
        s->tail_row = first;
        s->n_tail = n;
    }
    *out_index = row - s->tail_row;
    return PLAIT_OK;
}

/* Only the first asker of a piece waits; the others find it there. */
static plait_status floats(plait_session *s, plait_tail tail, int64_t row, int64_t width, const float **out) {
    const void *bytes = NULL;
    uint64_t size;
    int64_t index = 0;
    PLAIT_TRY(run_tail(s, tail, row, &index));
    PLAIT_TRY(plait_run_output_at(s->tails[tail], 0, &bytes, &size));
    *out = (const float *)bytes + index * width;
    return PLAIT_OK;
}

int64_t plait_session_n_outputs(const plait_session *session) {
    return session->n_outputs;
}

plait_status plait_session_logits(plait_session *session, int64_t row, const float **out_logits) {
    return floats(session, PLAIT_TAIL_LOGITS, row, session->model->hp.n_vocab, out_logits);
}

plait_status plait_session_embedding(plait_session *session, int64_t row, const float **out_values) {
    return floats(session, PLAIT_TAIL_EMBEDDING, row, session->model->hp.n_embd, out_values);
}

/* The device compares; ties go to the lowest id, as the op says. */
plait_status plait_session_argmax(plait_session *session, int64_t row, plait_token *out_token) {
    const void *bytes = NULL;
    uint64_t size;
    int64_t index = 0;
    PLAIT_TRY(run_tail(session, PLAIT_TAIL_ARGMAX, row, &index));
    PLAIT_TRY(plait_run_output_at(session->tails[PLAIT_TAIL_ARGMAX], 0, &bytes, &size));
    *out_token = ((const int32_t *)bytes)[index];
    return PLAIT_OK;
}

/* Few numbers come from the device instead of a whole vocabulary. */
static plait_status sample_best(plait_session *s, int64_t row, plait_sampler *sampler, int64_t n,
                                plait_token *out_token) {
    const void *values = NULL, *ids = NULL;
    uint64_t size;
    int64_t index = 0;
    PLAIT_TRY(run_tail(s, PLAIT_TAIL_BEST, row, &index));
    PLAIT_TRY(plait_run_output_at(s->tails[PLAIT_TAIL_BEST], 0, &values, &size));
    PLAIT_TRY(plait_run_output_at(s->tails[PLAIT_TAIL_BEST], 1, &ids, &size));
    return plait_sampler_pick_from_best(sampler, (const plait_token *)ids + index * s->model->n_best,
                                        (const float *)values + index * s->model->n_best, (size_t)n,
                                        s->model->hp.n_vocab, out_token);
}

/* The cheapest tail that gives the chain all it asks for. A chain that wants more than the best, or particular ids
 * beside them, gets all logits. */
plait_status plait_session_sample(plait_session *session, int64_t row, plait_sampler *sampler,
                                  plait_token *out_token) {
    plait_logits_need need;
    const float *logits;
    PLAIT_TRY(plait_sampler_need(sampler, session->model->hp.n_vocab, &need));
    if (need.kind == PLAIT_LOGITS_ARGMAX) return plait_session_argmax(session, row, out_token);
    if (need.kind == PLAIT_LOGITS_BEST && need.n_ids == 0 && need.n <= session->model->n_best)
        return sample_best(session, row, sampler, session->model->n_best, out_token);
    PLAIT_TRY(plait_session_logits(session, row, &logits));
    return plait_sampler_pick_from_all(sampler, logits, session->model->hp.n_vocab, out_token);
}
