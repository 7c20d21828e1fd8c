/* What tests of sessions share: opening a small model of golden/archs, streams of tokens, logits of a sequence that runs
 * alone, and the invariant of cache pages. */
#ifndef PLAIT_TESTS_MODEL_SESSION_CASE_H
#define PLAIT_TESTS_MODEL_SESSION_CASE_H

#include "model/arch_case.h"
#include "model/session.h"

typedef struct rig {
    plait_context *context;
    plait_model *model;
    plait_session *session;
    int64_t n_vocab, n_embd;
} rig;

static inline void rig_open(rig *r, const char *name, const char *devices,
                            const plait_model_options *options) {
    char relative[128], path[PLAIT_TEST_PATH_BYTES];
    plait_model_facts facts;
    snprintf(relative, sizeof relative, "archs/%s.gguf", name);
    must(plait_context_open(&r->context, devices, NULL));
    must(plait_model_open(&r->model, r->context, plait_test_golden(relative, path), options));
    must(plait_session_create(&r->session, r->model));
    plait_model_describe(r->model, &facts);
    r->n_vocab = facts.n_vocab;
    r->n_embd = facts.n_embd;
}

static inline void rig_close(rig *r) {
    plait_session_destroy(r->session);
    plait_model_release(r->model);
    plait_context_close(r->context);
}

static inline plait_seq begin(plait_session *s) {
    plait_seq seq = -1;
    must(plait_session_begin(s, &seq));
    return seq;
}

/* The i-th token of stream number `stream`. */
static inline plait_token token_at(const rig *r, int stream, int64_t i) {
    uint64_t x = ((uint64_t)stream << 32 | (uint64_t)i) * 0x9e3779b97f4a7c15u;
    return (plait_token)((x >> 33) % (uint64_t)r->n_vocab);
}

static inline plait_batch_item item_of(const plait_seq *seq, plait_token token) {
    return (plait_batch_item){.token = token, .position = -1, .seqs = seq, .n_seqs = 1, .wants_output = true};
}

/* One step of one token for one sequence. */
static inline plait_status step_one(plait_session *s, plait_seq seq, plait_token token) {
    plait_batch_item item = item_of(&seq, token);
    return plait_session_step(s, &item, 1);
}

static inline void copy_logits(const rig *r, int64_t row, float *out) {
    const float *logits = NULL;
    must(plait_session_logits(r->session, row, &logits));
    memcpy(out, logits, (size_t)r->n_vocab * sizeof *out);
}

/* Feeds tokens in steps of up to `piece` and stores the logits behind each of them. */
static inline void feed_rows(const rig *r, plait_seq seq, const plait_token *tokens, int64_t n, int64_t piece,
                             float *out) {
    plait_batch_item items[512];
    for (int64_t at = 0; at < n; at += piece) {
        int64_t k = n - at < piece ? n - at : piece;
        for (int64_t i = 0; i < k; i++) items[i] = item_of(&seq, tokens[at + i]);
        must(plait_session_step(r->session, items, k));
        for (int64_t i = 0; i < k; i++) copy_logits(r, i, out + (at + i) * r->n_vocab);
    }
}

/* Logits behind each of the tokens, by a sequence of its own. The caller frees. */
static inline float *logits_alone(const rig *r, const plait_token *tokens, int64_t n, int64_t piece) {
    float *out = malloc((size_t)(n * r->n_vocab) * sizeof *out);
    assert_non_null(out);
    plait_seq seq = begin(r->session);
    feed_rows(r, seq, tokens, n, piece, out);
    must(plait_session_drop(r->session, seq));
    return out;
}

static inline void assert_rows_equal(const rig *r, const float *a, const float *b, int64_t n) {
    assert_memory_equal(a, b, (size_t)(n * r->n_vocab) * sizeof *a);
}

static inline int64_t pages_used(const plait_session *s, int group) {
    return s->pools[group].n_pages - s->pools[group].n_free;
}

/* Counts are the numbers of list entries, free pages are those without any, and each token that a group without window
 * holds has its page. */
static inline void check_pages_of(const plait_session *s) {
    for (int g = 0; g < s->model->engine.n_groups; g++) {
        const plait_page_pool *pool = &s->pools[g];
        int32_t counts[4096] = {0};
        assert_true(pool->n_pages <= 4096);
        for (int64_t i = 0; i < s->model->options.sequences; i++)
            for (int64_t p = 0; p < s->model->engine.groups[g].max_list; p++) {
                int32_t page = s->sequences[i].pages[g][p];
                bool held = p * PLAIT_MODEL_PAGE_LEN < s->sequences[i].length;
                if (held && s->model->engine.groups[g].window == 0) assert_true(page >= 0);
                if (!s->sequences[i].used) assert_int_equal(page, -1);
                if (page >= 0) counts[page]++;
            }
        assert_memory_equal(counts, pool->counts, (size_t)pool->n_pages * sizeof *counts);
        for (int64_t f = 0; f < pool->n_free; f++) assert_int_equal(counts[pool->free[f]]++, 0);
        for (int64_t p = 0; p < pool->n_pages; p++) assert_true(counts[p] > 0);
        assert_int_equal(pool->n_copies, 0);
    }
}

/* The call fails with this status and a message that has `part`. */
static inline void assert_fails(plait_status status, plait_status expected, const char *part) {
    if (status != expected || !strstr(plait_error_message(), part))
        fail_msg("expected %s with \"%s\", found %s: %s", plait_status_name(expected), part,
                 plait_status_name(status), plait_error_message());
}

#endif
