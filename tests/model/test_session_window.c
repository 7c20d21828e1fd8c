/* Sliding windows over many cache pages: pages that no coming query sees are given up while a sequence grows, and
 * its logits stay those, byte for byte, of a session that keeps everything in one batch. */
/* room: fit */
#include "model/session_case.h"

#include <stdlib.h>

enum { LENGTH = 300, WINDOW = 8 };

static const plait_model_options small_steps = {.context = 512, .batch = 16, .sequences = 3};
static const plait_model_options one_step = {.context = 512, .batch = LENGTH, .sequences = 1};

static int local_group(const rig *r) {
    int g = r->model->engine.n_groups - 1;
    assert_int_equal(r->model->engine.groups[g].window, WINDOW);
    return g;
}

static void fill(const rig *r, int stream, plait_token *tokens, int64_t n) {
    for (int64_t i = 0; i < n; i++) tokens[i] = token_at(r, stream, i);
}

static void long_sequences_equal_one_big_step(void **state) {
    (void)state;
    static const int64_t pieces[] = {1, 7, 16};
    rig small, big;
    plait_token tokens[LENGTH];
    rig_open(&small, "gemma3", "cpu:threads=1", &small_steps);
    rig_open(&big, "gemma3", "cpu:threads=1", &one_step);
    fill(&big, 1, tokens, LENGTH);
    float *expected = logits_alone(&big, tokens, LENGTH, LENGTH);
    float *got = malloc((size_t)(LENGTH * big.n_vocab) * sizeof *got);
    int g = local_group(&small);
    int64_t most = (WINDOW + small_steps.batch + PLAIT_MODEL_PAGE_LEN - 1) / PLAIT_MODEL_PAGE_LEN + 2;
    for (size_t p = 0; p < 3; p++) {
        plait_seq seq = begin(small.session);
        for (int64_t at = 0; at < LENGTH; at += pieces[p]) {
            int64_t n = LENGTH - at < pieces[p] ? LENGTH - at : pieces[p];
            feed_rows(&small, seq, tokens + at, n, n, got + at * small.n_vocab);
            assert_true(pages_used(small.session, g) <= most);
            check_pages_of(small.session);
        }
        assert_rows_equal(&big, got, expected, LENGTH);
        assert_int_equal(pages_used(small.session, 0), (LENGTH + 63) / 64);
        assert_true(pages_used(small.session, g) <= 2); /* of five */
        must(plait_session_drop(small.session, seq));
    }
    free(expected);
    free(got);
    rig_close(&small);
    rig_close(&big);
}

/* Three long sequences at once fit into the pool that windows need. */
static void several_long_sequences(void **state) {
    (void)state;
    enum { N = 3 };
    rig r;
    plait_token tokens[N][LENGTH];
    plait_seq seqs[N];
    float *alone[N];
    rig_open(&r, "gemma3", "cpu:threads=1", &small_steps);
    float *got = malloc((size_t)r.n_vocab * sizeof *got);
    for (int s = 0; s < N; s++) {
        fill(&r, s, tokens[s], LENGTH);
        alone[s] = logits_alone(&r, tokens[s], LENGTH, 16);
    }
    for (int s = 0; s < N; s++) seqs[s] = begin(r.session);
    for (int64_t i = 0; i < LENGTH; i += 5) {
        plait_batch_item items[5 * N];
        for (int k = 0; k < 5; k++)
            for (int s = 0; s < N; s++) items[k * N + s] = item_of(&seqs[s], tokens[s][i + k]);
        must(plait_session_step(r.session, items, 5 * N));
        for (int s = 0; s < N; s++) {
            copy_logits(&r, 4 * N + s, got);
            assert_rows_equal(&r, got, alone[s] + (i + 4) * r.n_vocab, 1);
        }
    }
    check_pages_of(r.session);
    for (int s = 0; s < N; s++) free(alone[s]);
    free(got);
    rig_close(&r);
}

/* The number in the message "the shortest that can be restored is N". */
static int64_t shortest_of_message(void) {
    const char *at = strstr(plait_error_message(), "restored is ");
    assert_non_null(at);
    return strtol(at + strlen("restored is "), NULL, 10);
}

static void truncating_behind_the_window(void **state) {
    (void)state;
    rig r;
    plait_token tokens[LENGTH], other[20], joined[LENGTH + 20];
    rig_open(&r, "gemma3", "cpu:threads=1", &small_steps);
    fill(&r, 1, tokens, LENGTH);
    fill(&r, 2, other, 20);
    float *got = malloc((size_t)(20 * r.n_vocab) * sizeof *got);
    plait_seq seq = begin(r.session), fork = -1;
    must(plait_session_feed(r.session, seq, tokens, LENGTH));
    must(plait_session_fork(r.session, seq, &fork));
    assert_fails(plait_session_truncate(r.session, seq, 100), PLAIT_UNSUPPORTED,
                 "what 100 tokens would need; the shortest that can be restored is ");
    int64_t shortest = shortest_of_message();
    print_message("of %d tokens, %lld can be restored\n", LENGTH, (long long)shortest);
    assert_true(shortest > 100 && shortest <= LENGTH - 16);
    assert_fails(plait_session_truncate(r.session, seq, shortest - 1), PLAIT_UNSUPPORTED, "restored is");
    assert_int_equal(plait_session_length(r.session, seq), LENGTH);
    must(plait_session_truncate(r.session, seq, shortest));
    feed_rows(&r, seq, other, 20, 3, got);
    memcpy(joined, tokens, sizeof tokens);
    memcpy(joined + shortest, other, sizeof other);
    float *fresh = logits_alone(&r, joined, shortest + 20, 16);
    assert_rows_equal(&r, got, fresh + shortest * r.n_vocab, 20);
    free(fresh);
    /* The fork still has what it had; to nothing, all can go back. */
    feed_rows(&r, fork, other, 5, 5, got);
    memcpy(joined, tokens, sizeof tokens);
    memcpy(joined + LENGTH, other, sizeof other);
    fresh = logits_alone(&r, joined, LENGTH + 5, 16);
    assert_rows_equal(&r, got, fresh + LENGTH * r.n_vocab, 5);
    free(fresh);
    must(plait_session_truncate(r.session, fork, 0));
    feed_rows(&r, fork, tokens, 20, 16, got);
    fresh = logits_alone(&r, tokens, 20, 16);
    assert_rows_equal(&r, got, fresh, 20);
    free(fresh);
    check_pages_of(r.session);
    free(got);
    rig_close(&r);
}

/* ---- any history ---- */

enum { N_SEQS = 3, MOST = 200 };

typedef struct shadow {
    bool used;
    plait_token tokens[MOST];
    int64_t n;
} shadow;

static uint32_t next_random(uint32_t *x, uint32_t n) {
    *x = *x * 1664525u + 1013904223u;
    return (*x >> 8) % n;
}

/* The last logits of a sequence are those of its tokens fed to another session. */
static void check_last(const rig *r, const rig *judge, const shadow *s, int64_t row) {
    plait_seq seq = begin(judge->session);
    float *got = malloc((size_t)r->n_vocab * sizeof *got);
    const float *expected = NULL;
    copy_logits(r, row, got);
    must(plait_session_feed(judge->session, seq, s->tokens, s->n));
    must(plait_session_logits(judge->session, 0, &expected));
    assert_rows_equal(r, got, expected, 1);
    must(plait_session_drop(judge->session, seq));
    free(got);
}

static void grow(const rig *r, const rig *judge, shadow *all, uint32_t *x) {
    plait_seq seqs[N_SEQS];
    plait_batch_item items[16];
    int64_t n = 1 + next_random(x, 16), last[N_SEQS] = {-1, -1, -1}, k = 0;
    for (int s = 0; s < N_SEQS; s++) seqs[s] = s;
    for (int64_t i = 0; i < n; i++) {
        int s = (int)next_random(x, N_SEQS);
        if (!all[s].used || all[s].n == MOST) continue;
        plait_token token = (plait_token)next_random(x, (uint32_t)r->n_vocab);
        all[s].tokens[all[s].n++] = token;
        last[s] = k;
        items[k++] = item_of(&seqs[s], token);
    }
    if (k == 0) return;
    must(plait_session_step(r->session, items, k));
    for (int s = 0; s < N_SEQS; s++)
        if (last[s] >= 0 && next_random(x, 4) == 0) check_last(r, judge, &all[s], last[s]);
}

/* Beginning, growing, forking, truncating and dropping in any order. */
static void any_history(void **state) {
    (void)state;
    rig r, judge;
    shadow *all = calloc(N_SEQS, sizeof *all);
    uint32_t x = 2024;
    plait_model_options options = {.context = MOST, .batch = 16, .sequences = N_SEQS};
    assert_non_null(all);
    rig_open(&r, "gemma3", "cpu:threads=1", &options);
    options.batch = MOST;
    options.sequences = 1;
    rig_open(&judge, "gemma3", "cpu:threads=1", &options);
    for (int round = 0; round < 600; round++) {
        int s = (int)next_random(&x, N_SEQS);
        uint32_t what = next_random(&x, 20);
        plait_seq made = -1;
        if (what == 0 && all[s].used) {
            must(plait_session_drop(r.session, s));
            all[s] = (shadow){0};
        } else if (what <= 2 && plait_session_begin(r.session, &made) == PLAIT_OK) {
            all[made] = (shadow){.used = true};
        } else if (what <= 4 && all[s].used && plait_session_fork(r.session, s, &made) == PLAIT_OK) {
            all[made] = all[s];
        } else if (what <= 6 && all[s].used) {
            int64_t keep = (int64_t)next_random(&x, (uint32_t)all[s].n + 1);
            plait_status status = plait_session_truncate(r.session, s, keep);
            if (status == PLAIT_UNSUPPORTED) {
                keep = shortest_of_message();
                status = plait_session_truncate(r.session, s, keep);
            }
            must(status);
            all[s].n = keep;
        } else {
            grow(&r, &judge, all, &x);
        }
        check_pages_of(r.session);
        for (int q = 0; q < N_SEQS; q++) {
            assert_int_equal(plait_session_length(r.session, q), all[q].n);
            if (all[q].n)
                assert_memory_equal(plait_session_tokens(r.session, q), all[q].tokens,
                                    (size_t)all[q].n * sizeof *all[q].tokens);
        }
    }
    free(all);
    rig_close(&r);
    rig_close(&judge);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(long_sequences_equal_one_big_step),
        cmocka_unit_test(several_long_sequences),
        cmocka_unit_test(truncating_behind_the_window),
        cmocka_unit_test(any_history),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
