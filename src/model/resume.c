/* Sequences moved to another session: their tokens, which the host keeps, are fed again. This is what is left to do after
 * a device was lost with its part of the cache.
 *
 * Prefixes that sequences have in common are computed once and shared, however they came to be equal: sequences are taken
 * in the order of their tokens, so that each has its longest common prefix with the one before it.
 *
 * Invariant: the old session is only read. A new session that was handed out holds every token of the old one. */
#include "model/session.h"

#include "base/alloc.h"
#include "base/size.h"

#include <stdlib.h>
#include <string.h>

/* A sequence of the old session. The last token of those that had an output is fed at the end, all in one step, so that
 * sampling can go on where it was. */
typedef struct moved {
    const plait_sequence *from;
    plait_seq seq;
    int64_t n_before; /* tokens that are fed before that step */
    int64_t row;      /* of its output, -1: none. Sequences that share one have the same tokens */
} moved;

/* Of what is fed before the last step, for only that is there when the next sequence is taken. */
static int64_t common_prefix(const moved *a, const moved *b) {
    int64_t n = plait_min_i64(a->n_before, b->n_before), k = 0;
    while (k < n && a->from->tokens[k] == b->from->tokens[k]) k++;
    return k;
}

/* Lexicographic, a prefix before what goes on from it; in that order the longest common prefix of a sequence with any
 * before it is that with its neighbour. */
static int by_tokens(const void *pa, const void *pb) {
    const moved *a = pa, *b = pb;
    int64_t k = common_prefix(a, b);
    if (k < a->n_before && k < b->n_before) return a->from->tokens[k] < b->from->tokens[k] ? -1 : 1;
    if (a->n_before != b->n_before) return a->n_before < b->n_before ? -1 : 1;
    return a->seq < b->seq ? -1 : 1;
}

/* Sequences in use. Those without an output are fed whole. */
static size_t list_sequences(const plait_session *from, moved *out) {
    size_t n = 0;
    for (plait_seq i = 0; i < from->model->options.sequences; i++) {
        const plait_sequence *sequence = &from->sequences[i];
        int64_t row = sequence->length > 0 ? from->output_of[i] : -1;
        if (sequence->used) out[n++] = (moved){sequence, i, sequence->length - (row >= 0), row};
    }
    return n;
}

/* In pieces of the batch, no output wanted. */
static plait_status feed(plait_session *s, const moved *m, int64_t begin) {
    int64_t piece = s->model->options.batch;
    for (int64_t at = begin; at < m->n_before; at += piece) {
        int64_t n = plait_min_i64(piece, m->n_before - at);
        for (int64_t i = 0; i < n; i++)
            s->items[i] = (plait_batch_item){
                .token = m->from->tokens[at + i], .position = -1, .seqs = &m->seq, .n_seqs = 1};
        PLAIT_TRY(plait_session_step(s, s->items, n));
    }
    return PLAIT_OK;
}

/* Begins with what the sequence has in common with the one before it; where a sliding window has given that up already,
 * with nothing. */
static plait_status move_one(plait_session *s, const moved *m, const moved *before) {
    plait_sequence *to = &s->sequences[m->seq];
    int64_t shared = before ? common_prefix(m, before) : 0;
    to->used = true;
    if (shared > 0) {
        plait_sequence *other = &s->sequences[before->seq];
        /* All of it first, then cut back: truncating knows what windows still have. */
        plait_pages_share(s, other, to, other->length);
        memcpy(to->tokens, other->tokens, (size_t)other->length * sizeof *to->tokens);
        to->length = other->length;
        plait_status status = plait_session_truncate(s, m->seq, shared);
        if (status == PLAIT_UNSUPPORTED) {
            shared = 0;
            status = plait_session_truncate(s, m->seq, 0);
        }
        PLAIT_TRY(status);
    }
    return feed(s, m, shared);
}

static int by_row(const void *pa, const void *pb) {
    const moved *a = pa, *b = pb;
    if (a->row != b->row) return a->row < b->row ? -1 : 1;
    return a->seq < b->seq ? -1 : 1;
}

/* One step for the last tokens of all sequences that had an output, in the order of the outputs; where they are more than
 * a step takes, the outputs of the last step stay. `seqs` has room for all numbers. */
static plait_status feed_last(plait_session *s, moved *list, size_t n, plait_seq *seqs) {
    int64_t n_items = 0;
    if (n > 1) qsort(list, n, sizeof *list, by_row);
    for (size_t i = 0; i < n; i++) seqs[i] = list[i].seq;
    for (size_t i = 0, end; i < n; i = end) {
        for (end = i + 1; end < n && list[end].row == list[i].row;) end++;
        if (list[i].row < 0) continue;
        s->items[n_items++] = (plait_batch_item){.token = list[i].from->tokens[list[i].n_before],
                                                 .position = -1,
                                                 .seqs = &seqs[i],
                                                 .n_seqs = (int)(end - i),
                                                 .wants_output = true};
        if (n_items < s->model->options.batch) continue;
        PLAIT_TRY(plait_session_step(s, s->items, n_items));
        n_items = 0;
    }
    return n_items ? plait_session_step(s, s->items, n_items) : PLAIT_OK;
}

/* What cannot be moved is found before anything is fed. */
static plait_status move_all(plait_session *s, const plait_session *from, moved *list, plait_seq *seqs) {
    size_t n = list_sequences(from, list);
    for (size_t i = 0; i < n; i++) {
        if (list[i].from->length > s->model->engine.context)
            return plait_error(PLAIT_OUT_OF_RANGE, "sequence %d has %lld tokens, the context is %lld",
                               list[i].seq, (long long)list[i].from->length,
                               (long long)s->model->engine.context);
        if (list[i].seq >= s->model->options.sequences)
            return plait_error(PLAIT_LIMIT, "sequence %d: the model is opened for %lld sequences",
                               list[i].seq, (long long)s->model->options.sequences);
    }
    if (n > 1) qsort(list, n, sizeof *list, by_tokens);
    for (size_t i = 0; i < n; i++) PLAIT_TRY(move_one(s, &list[i], i ? &list[i - 1] : NULL));
    return feed_last(s, list, n, seqs);
}

/* Sequence numbers stay, so the caller's own tables do. */
plait_status plait_session_resume(plait_session **out, plait_model *model, const plait_session *from) {
    plait_session *s = NULL;
    if (model->hp.n_vocab != from->model->hp.n_vocab)
        return plait_error(PLAIT_INVALID_ARGUMENT,
                           "resuming: the model has %lld tokens, that of the session %lld",
                           (long long)model->hp.n_vocab, (long long)from->model->hp.n_vocab);
    size_t n = (size_t)from->model->options.sequences;
    moved *list = plait_alloc_array(n, sizeof *list);
    plait_seq *seqs = plait_alloc_array(n, sizeof *seqs);
    plait_status status =
        list && seqs ? PLAIT_OK : plait_error_memory("resuming", (uint64_t)n * sizeof *list);
    if (status == PLAIT_OK) status = plait_session_create(&s, model);
    if (status == PLAIT_OK) status = move_all(s, from, list, seqs);
    free(list);
    free(seqs);
    if (status != PLAIT_OK) {
        plait_session_destroy(s);
        return plait_error_context(status, "resuming");
    }
    *out = s;
    return PLAIT_OK;
}
