/* Sequences of a session: whatever shares a step, a page or a session with a sequence, its logits are those, byte for
 * byte, that it has alone; forks share pages until they part; failed calls leave everything as it was. */
/* room: fit */
#include "model/session_case.h"
#include "run/run.h"

static const plait_model_options four = {.context = 256, .batch = 128, .sequences = 4};

/* ---- batches ---- */

static void several_sequences_in_one_batch(void **state) {
    (void)state;
    enum { N = 3, MOST = 70 };
    static const int64_t lengths[N] = {70, 33, 1};
    rig r;
    plait_token tokens[N][MOST];
    float *alone[N];
    plait_seq seqs[N];
    plait_batch_item items[N * MOST];
    int64_t n = 0, row = 0;
    rig_open(&r, "qwen3", "cpu:threads=1", &four);
    for (int s = 0; s < N; s++) {
        for (int64_t i = 0; i < lengths[s]; i++) tokens[s][i] = token_at(&r, s, i);
        alone[s] = logits_alone(&r, tokens[s], lengths[s], 128);
    }
    for (int s = 0; s < N; s++) seqs[s] = begin(r.session);
    for (int64_t i = 0; i < MOST; i++) /* interleaved token by token */
        for (int s = 0; s < N; s++)
            if (i < lengths[s]) items[n++] = item_of(&seqs[s], tokens[s][i]);
    must(plait_session_step(r.session, items, n));
    float *got = malloc((size_t)r.n_vocab * sizeof *got);
    for (int64_t i = 0; i < MOST; i++)
        for (int s = 0; s < N; s++)
            if (i < lengths[s]) {
                copy_logits(&r, row++, got);
                assert_rows_equal(&r, got, alone[s] + i * r.n_vocab, 1);
            }
    check_pages_of(r.session);
    for (int s = 0; s < N; s++) free(alone[s]);
    free(got);
    rig_close(&r);
}

static void interleaved_steps(void **state) {
    (void)state;
    enum { N = 2, LENGTH = 90 };
    rig r;
    plait_token tokens[N][LENGTH];
    float *alone[N];
    plait_seq seqs[N];
    rig_open(&r, "llama-dense", "cpu:threads=1", &four);
    float *got = malloc((size_t)(7 * r.n_vocab) * sizeof *got);
    for (int s = 0; s < N; s++) {
        for (int64_t i = 0; i < LENGTH; i++) tokens[s][i] = token_at(&r, s, i);
        alone[s] = logits_alone(&r, tokens[s], LENGTH, 64);
    }
    for (int s = 0; s < N; s++) seqs[s] = begin(r.session);
    for (int64_t at = 0; at < LENGTH; at += 6) /* pieces of 6 here, of 5 and 1 there */
        for (int s = 0; s < N; s++) {
            feed_rows(&r, seqs[s], tokens[s] + at, s ? 5 : 6, 6, got);
            if (s) feed_rows(&r, seqs[s], tokens[s] + at + 5, 1, 1, got + 5 * r.n_vocab);
            assert_rows_equal(&r, got, alone[s] + at * r.n_vocab, 6);
        }
    for (int s = 0; s < N; s++) {
        assert_int_equal(plait_session_length(r.session, seqs[s]), LENGTH);
        assert_memory_equal(plait_session_tokens(r.session, seqs[s]), tokens[s], sizeof tokens[s]);
        free(alone[s]);
    }
    free(got);
    rig_close(&r);
}

/* ---- forks ---- */

/* Forks after `prefix` tokens into three, steps all of them at once, and compares each with a run alone on one device. */
static void fork_at(int64_t prefix, const char *devices, const plait_model_options *options) {
    enum { N = 3, MORE = 40 };
    rig r, judge;
    plait_seq seqs[N];
    plait_token tokens[N][256];
    rig_open(&r, "qwen3", devices, options);
    rig_open(&judge, "qwen3", "cpu:threads=1", &four);
    float *got = malloc((size_t)r.n_vocab * sizeof *got), *alone[N];
    int64_t n_pages = (prefix + PLAIT_MODEL_PAGE_LEN - 1) / PLAIT_MODEL_PAGE_LEN;
    for (int s = 0; s < N; s++) {
        for (int64_t i = 0; i < prefix + MORE; i++) tokens[s][i] = token_at(&r, i < prefix ? 9 : s, i);
        alone[s] = logits_alone(&judge, tokens[s], prefix + MORE, 100);
    }
    seqs[0] = begin(r.session);
    must(plait_session_feed(r.session, seqs[0], tokens[0], prefix));
    for (int s = 1; s < N; s++) must(plait_session_fork(r.session, seqs[s - 1], &seqs[s]));
    assert_int_equal(pages_used(r.session, 0), n_pages); /* shared */
    check_pages_of(r.session);
    for (int64_t i = 0; i < MORE; i++) {
        plait_batch_item items[N];
        for (int s = 0; s < N; s++) items[s] = item_of(&seqs[s], tokens[s][prefix + i]);
        must(plait_session_step(r.session, items, N));
        for (int s = 0; s < N; s++) {
            copy_logits(&r, s, got);
            assert_rows_equal(&r, got, alone[s] + (prefix + i) * r.n_vocab, 1);
        }
        check_pages_of(r.session);
        /* Whole pages of the prefix stay shared; the page that was being filled, and those behind it, do not. */
        int64_t whole = prefix / PLAIT_MODEL_PAGE_LEN;
        int64_t own = (prefix + i) / PLAIT_MODEL_PAGE_LEN - whole + 1;
        assert_int_equal(pages_used(r.session, 0), whole + N * own);
    }
    for (int s = 0; s < N; s++) {
        must(plait_session_drop(r.session, seqs[s]));
        check_pages_of(r.session);
        free(alone[s]);
    }
    assert_int_equal(pages_used(r.session, 0), 0);
    free(got);
    rig_close(&r);
    rig_close(&judge);
}

static void forks_share_pages_until_they_part(void **state) {
    (void)state;
    static const int64_t prefixes[] = {1, 63, 64, 65, 130};
    for (size_t i = 0; i < 5; i++) fork_at(prefixes[i], "cpu:threads=1", &four);
}

/* One layer here, one there, and its cache with it: the same bytes, copies of pages included. */
static void forks_on_two_devices(void **state) {
    (void)state;
    static const plait_pin pins[] = {{"*.1.*", 1}};
    plait_model_options options = four;
    options.pins = pins;
    options.n_pins = 1;
    fork_at(65, "cpu:threads=1,cpu:threads=1", &options);
    fork_at(130, "cpu:threads=1,cpu:threads=1", &options);
}

/* The last outputs belong to a fork as well, and one that is left alone writes without a copy. */
static void a_fork_continues_from_the_same_output(void **state) {
    (void)state;
    rig r;
    plait_seq a, b = -1;
    plait_token x, y;
    rig_open(&r, "llama-dense", "cpu:threads=1", &four);
    a = begin(r.session);
    for (int64_t i = 0; i < 10; i++) must(step_one(r.session, a, token_at(&r, 1, i)));
    must(plait_session_fork(r.session, a, &b));
    must(plait_session_next(r.session, a, NULL, &x));
    assert_fails(plait_session_next(r.session, b, NULL, &y), PLAIT_WRONG_STATE, "feed a token first");
    must(plait_session_drop(r.session, a));
    must(step_one(r.session, b, x));
    assert_int_equal(pages_used(r.session, 0), 1);
    check_pages_of(r.session);
    rig_close(&r);
}

/* A pool of one page a sequence: the last holder of a shared page writes in place. */
static void forks_fit_into_a_tight_pool(void **state) {
    (void)state;
    enum { N = 3 };
    rig r;
    plait_seq seqs[N];
    plait_batch_item items[N];
    rig_open(&r, "llama-dense", "cpu:threads=1",
             &(plait_model_options){.context = 64, .batch = 8, .sequences = N});
    seqs[0] = begin(r.session);
    must(step_one(r.session, seqs[0], 5));
    for (int s = 1; s < N; s++) must(plait_session_fork(r.session, seqs[0], &seqs[s]));
    for (int s = 0; s < N; s++) items[s] = item_of(&seqs[s], s);
    must(plait_session_step(r.session, items, N));
    assert_int_equal(r.session->pools[0].n_free, 0);
    check_pages_of(r.session);
    rig_close(&r);
}

/* ---- dropping and truncating ---- */

static void dropping_gives_pages_back(void **state) {
    (void)state;
    rig r;
    plait_token tokens[200];
    rig_open(&r, "llama-dense", "cpu:threads=1", &four);
    for (int64_t i = 0; i < 200; i++) tokens[i] = token_at(&r, 3, i);
    for (int round = 0; round < 30; round++) {
        plait_seq a = begin(r.session), b = begin(r.session);
        must(plait_session_feed(r.session, a, tokens, 200));
        must(plait_session_feed(r.session, b, tokens, 65));
        assert_int_equal(pages_used(r.session, 0), 4 + 2);
        must(plait_session_drop(r.session, round % 2 ? a : b));
        assert_int_equal(pages_used(r.session, 0), round % 2 ? 2 : 4);
        must(plait_session_drop(r.session, round % 2 ? b : a));
        assert_int_equal(pages_used(r.session, 0), 0);
    }
    assert_fails(plait_session_drop(r.session, 0), PLAIT_INVALID_ARGUMENT, "sequence 0 does not exist");
    check_pages_of(r.session);
    rig_close(&r);
}

static void truncated_sequences_continue_like_fresh_ones(void **state) {
    (void)state;
    enum { LENGTH = 150, MORE = 20 };
    static const int64_t kept[] = {0, 1, 63, 64, 65, 128, 149, 150};
    rig r;
    plait_token tokens[LENGTH + MORE], other[MORE];
    rig_open(&r, "qwen3", "cpu:threads=1", &four);
    float *got = malloc((size_t)(LENGTH * r.n_vocab) * sizeof *got);
    for (int64_t i = 0; i < LENGTH; i++) tokens[i] = token_at(&r, 1, i);
    for (int64_t i = 0; i < MORE; i++) other[i] = token_at(&r, 2, i);
    for (size_t k = 0; k < sizeof kept / sizeof *kept; k++) {
        plait_token joined[LENGTH + MORE];
        plait_seq seq = begin(r.session), fork = -1;
        must(plait_session_feed(r.session, seq, tokens, LENGTH));
        must(plait_session_fork(r.session, seq, &fork)); /* must not notice */
        assert_fails(plait_session_truncate(r.session, seq, LENGTH + 1), PLAIT_OUT_OF_RANGE, "keep 151");
        must(plait_session_truncate(r.session, seq, kept[k]));
        check_pages_of(r.session);
        feed_rows(&r, seq, other, MORE, 7, got);
        memcpy(joined, tokens, (size_t)kept[k] * sizeof *joined);
        memcpy(joined + kept[k], other, sizeof other);
        float *fresh = logits_alone(&r, joined, kept[k] + MORE, 100);
        assert_rows_equal(&r, got, fresh + kept[k] * r.n_vocab, MORE);
        free(fresh);
        must(plait_session_truncate(r.session, fork, LENGTH - 1));
        feed_rows(&r, fork, tokens + LENGTH - 1, 1, 1, got);
        fresh = logits_alone(&r, tokens, LENGTH, 128);
        assert_rows_equal(&r, got, fresh + (LENGTH - 1) * r.n_vocab, 1);
        free(fresh);
        must(plait_session_drop(r.session, seq));
        must(plait_session_drop(r.session, fork));
    }
    assert_int_equal(pages_used(r.session, 0), 0);
    free(got);
    rig_close(&r);
}

/* ---- items of several sequences ---- */

static void an_item_may_belong_to_several_sequences(void **state) {
    (void)state;
    enum { PREFIX = 70, MORE = 30 };
    rig r;
    plait_token tokens[2][PREFIX + MORE];
    plait_batch_item items[128];
    rig_open(&r, "qwen3", "cpu:threads=1", &four);
    float *got = malloc((size_t)(MORE * r.n_vocab) * sizeof *got);
    plait_seq both[2] = {begin(r.session), begin(r.session)};
    for (int s = 0; s < 2; s++)
        for (int64_t i = 0; i < PREFIX + MORE; i++)
            tokens[s][i] = token_at(&r, s == 1 && i >= PREFIX ? 1 : 0, i);
    for (int64_t i = 0; i < PREFIX; i++) {
        items[i] = item_of(both, tokens[0][i]);
        items[i].n_seqs = 2;
    }
    /* The leader goes on alone in the same step; the follower stays at the prefix. */
    items[PREFIX] = item_of(both, tokens[0][PREFIX]);
    must(plait_session_step(r.session, items, PREFIX + 1));
    check_pages_of(r.session);
    assert_int_equal(plait_session_length(r.session, both[0]), PREFIX + 1);
    assert_int_equal(plait_session_length(r.session, both[1]), PREFIX);
    assert_memory_equal(plait_session_tokens(r.session, both[1]), tokens[1], PREFIX * sizeof **tokens);
    assert_int_equal(pages_used(r.session, 0), 2);
    for (int s = 0; s < 2; s++) {
        int64_t at = s == 0 ? PREFIX + 1 : PREFIX, n = PREFIX + MORE - at;
        feed_rows(&r, both[s], tokens[s] + at, n, 4, got);
        float *alone = logits_alone(&r, tokens[s], PREFIX + MORE, 100);
        assert_rows_equal(&r, got, alone + at * r.n_vocab, n);
        free(alone);
    }
    check_pages_of(r.session);
    free(got);
    rig_close(&r);
}

static void outputs_of_shared_items_belong_to_all(void **state) {
    (void)state;
    rig r;
    plait_token tokens[2];
    rig_open(&r, "llama-dense", "cpu:threads=1", &four);
    for (int s = 0; s < 2; s++) {
        plait_seq both[2] = {begin(r.session), begin(r.session)};
        plait_batch_item item = item_of(both, 7);
        item.n_seqs = 2;
        for (int i = 0; i < 3; i++) must(plait_session_step(r.session, &item, 1));
        must(plait_session_next(r.session, both[s], NULL, &tokens[s]));
        assert_int_equal(plait_session_length(r.session, both[s]), 4);
        assert_int_equal(plait_session_length(r.session, both[1 - s]), 3);
        assert_int_equal(pages_used(r.session, 0), 2);
        for (int i = 0; i < 2; i++) must(plait_session_drop(r.session, both[i]));
    }
    assert_int_equal(tokens[0], tokens[1]);
    check_pages_of(r.session);
    rig_close(&r);
}

/* ---- failures ---- */

typedef struct snapshot {
    int64_t lengths[4], n_free, n_outputs;
    plait_token tokens[4][256];
    int32_t pages[4][4], counts[16];
    float logits[128];
} snapshot;

static void take_snapshot(const rig *r, snapshot *out) {
    memset(out, 0, sizeof *out);
    out->n_free = r->session->pools[0].n_free;
    out->n_outputs = plait_session_n_outputs(r->session);
    memcpy(out->counts, r->session->pools[0].counts, sizeof out->counts);
    for (int s = 0; s < 4; s++) {
        const plait_sequence *sequence = &r->session->sequences[s];
        out->lengths[s] = sequence->length;
        memcpy(out->tokens[s], sequence->tokens, (size_t)sequence->length * sizeof(plait_token));
        memcpy(out->pages[s], sequence->pages[0], sizeof out->pages[s]);
    }
    copy_logits(r, 0, out->logits);
}

static void wrong_batches_change_nothing(void **state) {
    (void)state;
    rig r;
    snapshot before, after;
    rig_open(&r, "llama-dense", "cpu:threads=1", &four);
    assert_true(r.n_vocab <= 128);
    plait_seq a = begin(r.session), b = begin(r.session), c = begin(r.session), none = 3, mad = -7;
    plait_token tokens[80];
    for (int64_t i = 0; i < 80; i++) tokens[i] = token_at(&r, 4, i);
    must(plait_session_feed(r.session, a, tokens, 80));
    must(plait_session_fork(r.session, a, &none)); /* 3 */
    must(plait_session_drop(r.session, none));
    must(plait_session_feed(r.session, b, tokens, 3));
    take_snapshot(&r, &before);
    const plait_seq a_a[2] = {a, a}, a_b[2] = {a, b}, a_none[2] = {a, none}, c_b[2] = {c, b};
    const plait_token many = (plait_token)r.n_vocab;
#define ONE(sequence, n, id, at)                                                                             \
    { .token = (id), .position = (at), .seqs = (sequence), .n_seqs = (n), .wants_output = true }
    const struct {
        plait_batch_item items[3];
        int64_t n;
        plait_status status;
        const char *part;
    } cases[] = {
        {{ONE(&a, 1, 1, -1)}, 0, PLAIT_OUT_OF_RANGE, "a step of 0 tokens, expected 1 to 128"},
        {{ONE(&a, 1, 1, -1)}, 129, PLAIT_OUT_OF_RANGE, "a step of 129 tokens"},
        {{ONE(&a, 1, many, -1)}, 1, PLAIT_OUT_OF_RANGE, "item 0: token id 112, expected 0 to 111"},
        {{ONE(&a, 1, -1, -1)}, 1, PLAIT_OUT_OF_RANGE, "token id -1"},
        {{ONE(&a, 1, 1, 79)}, 1, PLAIT_OUT_OF_RANGE, "item 0: position 79 of sequence 0, expected 80"},
        {{ONE(&a, 1, 1, 81)}, 1, PLAIT_OUT_OF_RANGE, "expected 80"},
        {{ONE(&a, 1, 1, 80), ONE(&a, 1, 1, 80)}, 2, PLAIT_OUT_OF_RANGE, "item 1: position 80"},
        {{ONE(&a, 1, 1, 80), ONE(&b, 1, 1, 2)}, 2, PLAIT_OUT_OF_RANGE, "sequence 1, expected 3"},
        {{ONE(&none, 1, 1, -1)}, 1, PLAIT_INVALID_ARGUMENT, "item 0: sequence 3 does not exist"},
        {{ONE(&mad, 1, 1, -1)}, 1, PLAIT_INVALID_ARGUMENT, "sequence -7 does not exist"},
        {{ONE(&a, 0, 1, -1)}, 1, PLAIT_INVALID_ARGUMENT, "item 0 belongs to no sequence"},
        {{ONE(NULL, 1, 1, -1)}, 1, PLAIT_INVALID_ARGUMENT, "belongs to no sequence"},
        {{ONE(a_b, 2, 1, -1)}, 1, PLAIT_INVALID_ARGUMENT, "sequences 0 and 1 are not equal so far"},
        {{ONE(a_a, 2, 1, -1)}, 1, PLAIT_INVALID_ARGUMENT, "sequences 0 and 0 are not equal so far"},
        {{ONE(a_none, 2, 1, -1)}, 1, PLAIT_INVALID_ARGUMENT, "sequence 3 does not exist"},
        {{ONE(&a, 1, 1, -1), ONE(&a, 1, 2, 81), ONE(c_b, 2, 1, -1)},
         3,
         PLAIT_INVALID_ARGUMENT,
         "item 2: sequences 2 and 1 are not equal so far"},
    };
#undef ONE
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        plait_batch_item items[129];
        for (int k = 0; k < 129; k++) items[k] = cases[i].items[k < 3 ? k : 0];
        assert_fails(plait_session_step(r.session, items, cases[i].n), cases[i].status, cases[i].part);
        take_snapshot(&r, &after);
        assert_memory_equal(&before, &after, sizeof before);
        check_pages_of(r.session);
    }
    must(step_one(r.session, a, 1));
    rig_close(&r);
}

/* A sequence that shared an item has no item of its own in that step, and follows one leader without gaps. */
static void followers_follow(void **state) {
    (void)state;
    rig r;
    rig_open(&r, "llama-dense", "cpu:threads=1", &four);
    plait_seq a = begin(r.session), b = begin(r.session), c = begin(r.session);
    const plait_seq a_b[2] = {a, b}, b_a[2] = {b, a}, c_b[2] = {c, b}, a_b_b[3] = {a, b, b};
    plait_batch_item items[3] = {item_of(a_b, 1), item_of(&b, 2), item_of(&a, 3)};
    items[0].n_seqs = 2;
    assert_fails(plait_session_step(r.session, items, 2), PLAIT_INVALID_ARGUMENT,
                 "item 1: sequence 1 shared an item of sequence 0");
    items[1] = item_of(b_a, 2);
    items[1].n_seqs = 2;
    assert_fails(plait_session_step(r.session, items, 2), PLAIT_INVALID_ARGUMENT,
                 "sequence 1 shared an item");
    items[1] = item_of(c_b, 2);
    items[1].n_seqs = 2;
    assert_fails(plait_session_step(r.session, items, 2), PLAIT_INVALID_ARGUMENT, "2 and 1 are not equal");
    items[1] = item_of(&a, 2);
    items[2] = item_of(a_b, 3);
    items[2].n_seqs = 2;
    assert_fails(plait_session_step(r.session, items, 3), PLAIT_INVALID_ARGUMENT, "0 and 1 are not equal");
    items[0] = item_of(&a, 1);
    items[1] = item_of(&b, 1);
    assert_fails(plait_session_step(r.session, items, 3), PLAIT_INVALID_ARGUMENT, "0 and 1 are not equal");
    items[0] = item_of(a_b_b, 1);
    items[0].n_seqs = 3;
    assert_fails(plait_session_step(r.session, items, 1), PLAIT_INVALID_ARGUMENT, "0 and 1 are not equal");
    for (plait_seq s = a; s <= c; s++) assert_int_equal(plait_session_length(r.session, s), 0);
    assert_int_equal(pages_used(r.session, 0), 0);
    check_pages_of(r.session);
    rig_close(&r);
}

static void the_context_ends(void **state) {
    (void)state;
    rig r;
    plait_token tokens[101], x;
    rig_open(&r, "llama-dense", "cpu:threads=1", &(plait_model_options){.context = 100, .batch = 32});
    plait_seq seq = begin(r.session);
    for (int64_t i = 0; i < 101; i++) tokens[i] = token_at(&r, 6, i);
    assert_fails(plait_session_feed(r.session, seq, tokens, 101), PLAIT_OUT_OF_RANGE, "100 of 100 are left");
    assert_fails(plait_session_feed(r.session, seq, tokens, -1), PLAIT_OUT_OF_RANGE, "-1 tokens");
    tokens[90] = -3;
    assert_fails(plait_session_feed(r.session, seq, tokens, 100), PLAIT_OUT_OF_RANGE,
                 "token 90 of the prompt");
    tokens[90] = 1;
    assert_int_equal(plait_session_length(r.session, seq), 0);
    must(plait_session_feed(r.session, seq, tokens, 100));
    assert_fails(step_one(r.session, seq, 1), PLAIT_OUT_OF_RANGE, "beyond the context of 100");
    assert_fails(plait_session_next(r.session, seq, NULL, &x), PLAIT_OUT_OF_RANGE, "fill the context");
    must(plait_session_argmax(r.session, 0, &x)); /* the outputs are still there */
    must(plait_session_truncate(r.session, seq, 99));
    must(step_one(r.session, seq, tokens[99]));
    plait_token y;
    must(plait_session_argmax(r.session, 0, &y));
    assert_int_equal(x, y);
    check_pages_of(r.session);
    rig_close(&r);
}

static void sequences_end(void **state) {
    (void)state;
    rig r;
    plait_seq seq = -5;
    rig_open(&r, "llama-dense", "cpu:threads=1", &four);
    for (int s = 0; s < 4; s++) assert_int_equal(begin(r.session), s);
    assert_fails(plait_session_begin(r.session, &seq), PLAIT_LIMIT, "all 4 sequences");
    assert_fails(plait_session_fork(r.session, 0, &seq), PLAIT_LIMIT, "all 4 sequences");
    assert_int_equal(seq, -5);
    must(plait_session_drop(r.session, 2));
    assert_int_equal(begin(r.session), 2);
    assert_int_equal(plait_session_length(r.session, 77), 0);
    assert_null(plait_session_tokens(r.session, 77));
    assert_fails(plait_session_truncate(r.session, 77, 0), PLAIT_INVALID_ARGUMENT, "sequence 77");
    assert_fails(plait_session_fork(r.session, 77, &seq), PLAIT_INVALID_ARGUMENT, "sequence 77");
    assert_fails(plait_session_feed(r.session, 77, NULL, 0), PLAIT_INVALID_ARGUMENT, "sequence 77");
    rig_close(&r);
}

/* Pools are large enough for every sequence, so pages are hidden here to see what their end does. */
static void pages_end(void **state) {
    (void)state;
    rig r;
    snapshot before, after;
    rig_open(&r, "llama-dense", "cpu:threads=1", &four);
    plait_page_pool *pool = &r.session->pools[0];
    plait_seq a = begin(r.session), b = begin(r.session);
    plait_token tokens[128];
    for (int64_t i = 0; i < 128; i++) tokens[i] = token_at(&r, 8, i);
    must(plait_session_feed(r.session, a, tokens, 60));
    int64_t hidden = pool->n_free - 1;
    pool->n_free = 1;
    take_snapshot(&r, &before);
    plait_batch_item items[70];
    for (int i = 0; i < 70; i++) items[i] = item_of(&a, tokens[60 + i % 60]);
    assert_fails(plait_session_step(r.session, items, 70), PLAIT_LIMIT,
                 "1 free pages of 64 tokens, the step needs 2");
    take_snapshot(&r, &after);
    assert_memory_equal(&before, &after, sizeof before);
    must(step_one(r.session, b, 1)); /* the last page */
    assert_fails(plait_session_step(r.session, items, 5), PLAIT_LIMIT, "0 free pages");
    must(plait_session_step(r.session, items, 4)); /* fits into the page at hand */
    must(plait_session_drop(r.session, b));
    must(step_one(r.session, a, tokens[64]));
    memmove(pool->free, pool->free + 1, (size_t)hidden * sizeof *pool->free);
    pool->n_free = hidden;
    check_pages_of(r.session);
    rig_close(&r);
}

/* Makes the next step of a run fail, or lets it work again. */
static void set_failed(plait_run *run, bool failed) {
    run->failed = failed;
    run->failure = (plait_error_record){.status = PLAIT_IO, .message = "the device is on fire"};
}

/* A device that fails in the copies of shared pages, or in the layers: sequences stay, and can go on. */
static void failed_steps_can_be_repeated(void **state) {
    (void)state;
    enum { PREFIX = 70, N = 2 };
    rig r;
    plait_token tokens[N][PREFIX + 1];
    plait_seq seqs[N];
    plait_batch_item items[N];
    rig_open(&r, "qwen3", "cpu:threads=1", &four);
    float *got = malloc((size_t)(N * r.n_vocab) * sizeof *got);
    for (int s = 0; s < N; s++)
        for (int64_t i = 0; i <= PREFIX; i++) tokens[s][i] = token_at(&r, i < PREFIX ? 1 : 2 + s, i);
    for (int in_layers = 0; in_layers < 2; in_layers++) {
        plait_run *run = in_layers ? r.session->layers : r.session->copies;
        seqs[0] = begin(r.session);
        must(plait_session_feed(r.session, seqs[0], tokens[0], PREFIX));
        must(plait_session_fork(r.session, seqs[0], &seqs[1]));
        for (int s = 0; s < N; s++) items[s] = item_of(&seqs[s], tokens[s][PREFIX]);
        set_failed(run, true);
        assert_fails(plait_session_step(r.session, items, N), PLAIT_IO, "on fire");
        set_failed(run, false);
        check_pages_of(r.session);
        assert_int_equal(plait_session_n_outputs(r.session), 0);
        for (int s = 0; s < N; s++) {
            assert_int_equal(plait_session_length(r.session, seqs[s]), PREFIX);
            plait_token none;
            assert_fails(plait_session_next(r.session, seqs[s], NULL, &none), PLAIT_WRONG_STATE, "");
        }
        must(plait_session_step(r.session, items, N));
        check_pages_of(r.session);
        for (int s = 0; s < N; s++) copy_logits(&r, s, got + s * r.n_vocab);
        for (int s = 0; s < N; s++) {
            float *alone = logits_alone(&r, tokens[s], PREFIX + 1, 128);
            assert_rows_equal(&r, got + s * r.n_vocab, alone + PREFIX * r.n_vocab, 1);
            free(alone);
        }
        for (int s = 0; s < N; s++) must(plait_session_drop(r.session, seqs[s]));
    }
    free(got);
    rig_close(&r);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(several_sequences_in_one_batch),
        cmocka_unit_test(interleaved_steps),
        cmocka_unit_test(forks_share_pages_until_they_part),
        cmocka_unit_test(forks_on_two_devices),
        cmocka_unit_test(a_fork_continues_from_the_same_output),
        cmocka_unit_test(forks_fit_into_a_tight_pool),
        cmocka_unit_test(dropping_gives_pages_back),
        cmocka_unit_test(truncated_sequences_continue_like_fresh_ones),
        cmocka_unit_test(an_item_may_belong_to_several_sequences),
        cmocka_unit_test(outputs_of_shared_items_belong_to_all),
        cmocka_unit_test(wrong_batches_change_nothing),
        cmocka_unit_test(followers_follow),
        cmocka_unit_test(the_context_ends),
        cmocka_unit_test(sequences_end),
        cmocka_unit_test(pages_end),
        cmocka_unit_test(failed_steps_can_be_repeated),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
