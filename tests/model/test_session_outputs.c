/* What a step gives: logits of the rows that were wanted, whatever their number, the best token, embeddings, sampled
 * tokens; the tails agree with each other. */
/* room: fit */
#include "model/session_case.h"

#include <stdlib.h>

static const plait_model_options two = {.context = 256, .batch = 128, .sequences = 2};

/* One step over `n` tokens; every `period`-th of them wants output. Returns their number. */
static int64_t step_some(const rig *r, plait_seq seq, const plait_token *tokens, int64_t n, int64_t period) {
    plait_batch_item items[128];
    int64_t wanted = 0;
    for (int64_t i = 0; i < n; i++) {
        items[i] = item_of(&seq, tokens[i]);
        items[i].wants_output = period && i % period == 0;
        wanted += items[i].wants_output;
    }
    must(plait_session_step(r->session, items, n));
    assert_int_equal(plait_session_n_outputs(r->session), wanted);
    return wanted;
}

static plait_token largest(const float *logits, int64_t n) {
    plait_token best = 0;
    for (int64_t i = 1; i < n; i++)
        if (logits[i] > logits[best]) best = (plait_token)i;
    return best;
}

/* More rows than a tail computes at once, read in an order that goes to and fro between tails and pieces. */
static void any_rows_in_any_order(void **state) {
    (void)state;
    enum { N = 100 };
    static const int64_t periods[] = {1, 2, 3, 7, 50, 99, 0};
    rig r;
    plait_token tokens[N];
    rig_open(&r, "qwen3", "cpu:threads=1", &two);
    for (int64_t i = 0; i < N; i++) tokens[i] = token_at(&r, 1, i);
    float *all = logits_alone(&r, tokens, N, 1);
    for (size_t p = 0; p < sizeof periods / sizeof *periods; p++) {
        plait_seq seq = begin(r.session);
        int64_t n = step_some(&r, seq, tokens, N, periods[p]);
        for (int64_t k = 0; k < 2 * n; k++) {
            int64_t row = k * 37 % n;
            const float *expected = all + row * periods[p] * r.n_vocab, *logits = NULL;
            plait_token token = -1;
            if (k % 3 != 1) {
                must(plait_session_logits(r.session, row, &logits));
                assert_rows_equal(&r, logits, expected, 1);
            }
            if (k % 3 != 2) {
                must(plait_session_argmax(r.session, row, &token));
                assert_int_equal(token, largest(expected, r.n_vocab));
            }
        }
        must(plait_session_drop(r.session, seq));
    }
    free(all);
    rig_close(&r);
}

static void rows_that_are_not_there(void **state) {
    (void)state;
    rig r;
    const float *floats = NULL;
    plait_token token = -9, tokens[3] = {1, 2, 3};
    rig_open(&r, "llama-dense", "cpu:threads=1", &two);
    plait_seq seq = begin(r.session);
    assert_fails(plait_session_logits(r.session, 0, &floats), PLAIT_OUT_OF_RANGE, "the last step has 0");
    step_some(&r, seq, tokens, 3, 2);
    assert_fails(plait_session_logits(r.session, 2, &floats), PLAIT_OUT_OF_RANGE,
                 "row 2, the last step has 2");
    assert_fails(plait_session_embedding(r.session, -1, &floats), PLAIT_OUT_OF_RANGE, "output row -1");
    assert_fails(plait_session_argmax(r.session, 5, &token), PLAIT_OUT_OF_RANGE, "output row 5");
    step_some(&r, seq, tokens, 3, 0);
    assert_fails(plait_session_argmax(r.session, 0, &token), PLAIT_OUT_OF_RANGE, "the last step has 0");
    assert_fails(plait_session_next(r.session, seq, NULL, &token), PLAIT_WRONG_STATE, "no output for it");
    assert_null(floats);
    assert_int_equal(token, -9);
    rig_close(&r);
}

/* The hidden state that is lent is the one the logits are made of: products in double agree with them. */
static void embeddings_make_the_logits(void **state) {
    (void)state;
    enum { N = 40 };
    rig r;
    plait_token tokens[N];
    rig_open(&r, "llama-dense", "cpu:threads=1", &two);
    const plait_gguf_tensor *w = plait_gguf_find_tensor(plait_model_gguf(r.model), "output.weight");
    assert_non_null(w);
    assert_int_equal(w->dtype, PLAIT_F32);
    for (int64_t i = 0; i < N; i++) tokens[i] = token_at(&r, 2, i);
    plait_seq seq = begin(r.session);
    step_some(&r, seq, tokens, N, 1);
    float *logits = malloc((size_t)r.n_vocab * sizeof *logits);
    double most = 0;
    for (int64_t row = N - 1; row >= 0; row--) {
        const float *hidden = NULL, *m = (const float *)(const void *)w->bytes;
        copy_logits(&r, row, logits);
        must(plait_session_embedding(r.session, row, &hidden));
        for (int64_t v = 0; v < r.n_vocab; v++) {
            double sum = 0;
            for (int64_t k = 0; k < r.n_embd; k++) sum += (double)m[v * r.n_embd + k] * hidden[k];
            most = fmax(most, fabs(sum - logits[v]));
        }
    }
    print_message("largest difference of %d rows: %.1e\n", N, most);
    assert_true(most < 1e-4);
    free(logits);
    rig_close(&r);
}

/* ---- sampling ---- */

static plait_sampler *sampler_of(float temp, float top_n_sigma, const plait_logit_bias *bias, size_t n_bias) {
    plait_sampler_options options;
    plait_sampler *sampler = NULL;
    plait_sampler_options_default(&options);
    options.seed = 5;
    options.temp = temp;
    options.top_n_sigma = top_n_sigma;
    options.bias = bias;
    options.n_bias = n_bias;
    must(plait_sampler_create_from_options(&sampler, &options));
    return sampler;
}

/* Chains that need one token, the best, and all logits pick what the same chain picks from all logits. */
static void samples_do_not_depend_on_the_tail(void **state) {
    (void)state;
    static const plait_logit_bias bias[] = {{3, 2.5f}, {50, -1e9f}};
    static const struct {
        float temp, top_n_sigma;
        size_t n_bias;
        plait_logits_kind need;
    } chains[] = {{0, 0, 0, PLAIT_LOGITS_ARGMAX},
                  {1.5f, 0, 0, PLAIT_LOGITS_BEST},
                  {1.5f, 0, 2, PLAIT_LOGITS_BEST},
                  {1.5f, 2, 0, PLAIT_LOGITS_ALL}};
    rig r;
    rig_open(&r, "llama-dense", "cpu:threads=1", &two);
    for (size_t c = 0; c < sizeof chains / sizeof *chains; c++) {
        plait_sampler *a = sampler_of(chains[c].temp, chains[c].top_n_sigma, bias, chains[c].n_bias);
        plait_sampler *b = sampler_of(chains[c].temp, chains[c].top_n_sigma, bias, chains[c].n_bias);
        plait_logits_need need;
        must(plait_sampler_need(a, r.n_vocab, &need));
        assert_int_equal(need.kind, chains[c].need);
        plait_seq seq = begin(r.session);
        must(step_one(r.session, seq, 1));
        for (int i = 0; i < 60; i++) {
            const float *logits = NULL;
            plait_token x = -1, y = -2;
            must(plait_session_sample(r.session, 0, a, &x));
            must(plait_session_logits(r.session, 0, &logits));
            must(plait_sampler_pick_from_all(b, logits, r.n_vocab, &y));
            assert_int_equal(x, y);
            must(plait_sampler_accept(a, x));
            must(plait_sampler_accept(b, x));
            must(step_one(r.session, seq, x));
        }
        must(plait_session_drop(r.session, seq));
        plait_sampler_destroy(a);
        plait_sampler_destroy(b);
    }
    rig_close(&r);
}

/* plait_session_next is the loop of sampling, telling and feeding. */
static void next_repeats(void **state) {
    (void)state;
    rig r;
    rig_open(&r, "qwen3", "cpu:threads=1", &two);
    for (int greedy = 0; greedy < 2; greedy++) {
        plait_sampler *a = sampler_of(1, 0, NULL, 0), *b = sampler_of(1, 0, NULL, 0);
        plait_seq one = begin(r.session), other = begin(r.session);
        const plait_token prompt[5] = {1, 2, 3, 4, 5};
        plait_token expected[40], x = -1;
        must(plait_session_feed(r.session, one, prompt, 5));
        for (int i = 0; i < 40; i++)
            must(plait_session_next(r.session, one, greedy ? NULL : a, &expected[i]));
        must(plait_session_feed(r.session, other, prompt, 5));
        for (int i = 0; i < 40; i++) {
            must(greedy ? plait_session_argmax(r.session, 0, &x) : plait_session_sample(r.session, 0, b, &x));
            assert_int_equal(x, expected[i]);
            if (!greedy) must(plait_sampler_accept(b, x));
            must(step_one(r.session, other, x));
        }
        assert_int_equal(plait_session_length(r.session, one), 45);
        assert_memory_equal(plait_session_tokens(r.session, one) + 5, expected, sizeof expected);
        must(plait_session_drop(r.session, one));
        must(plait_session_drop(r.session, other));
        plait_sampler_destroy(a);
        plait_sampler_destroy(b);
    }
    rig_close(&r);
}

/* A file whose vocabulary is only named ("none") runs on ids, and says so when text is fed. */
static void text_needs_a_tokenizer(void **state) {
    (void)state;
    rig r;
    rig_open(&r, "llama-dense", "cpu:threads=1", &two);
    plait_seq seq = begin(r.session);
    assert_fails(plait_session_feed_text(r.session, seq, "text", SIZE_MAX, 0), PLAIT_UNSUPPORTED,
                 "no vocabulary");
    assert_fails(plait_session_feed_text(r.session, 9, "text", SIZE_MAX, 0), PLAIT_INVALID_ARGUMENT,
                 "sequence 9");
    assert_int_equal(plait_session_length(r.session, seq), 0);
    rig_close(&r);
}

static bool stop_at_second_piece(void *user, const char *what, uint64_t done, uint64_t total) {
    int *calls = user;
    (void)done;
    (void)total;
    return strcmp(what, "prompt") != 0 || ++*calls < 2;
}

/* A prompt can be cancelled between its pieces; what was fed before stays and can be continued. */
static void prompts_can_be_cancelled(void **state) {
    (void)state;
    int calls = 0;
    plait_context_options options = {.logger = {.progress = stop_at_second_piece, .user = &calls}};
    rig r;
    plait_token tokens[100], x, y;
    char path[PLAIT_TEST_PATH_BYTES];
    must(plait_context_open(&r.context, "cpu:threads=1", &options));
    must(plait_model_open(&r.model, r.context, plait_test_golden("archs/llama-dense.gguf", path),
                          &(plait_model_options){.context = 256, .batch = 40}));
    must(plait_session_create(&r.session, r.model));
    r.n_vocab = 112;
    for (int64_t i = 0; i < 100; i++) tokens[i] = token_at(&r, 2, i);
    plait_seq seq = begin(r.session);
    assert_fails(plait_session_feed(r.session, seq, tokens, 100), PLAIT_CANCELLED, "after 40 tokens");
    assert_int_equal(plait_session_length(r.session, seq), 40);
    calls = -100;
    must(plait_session_feed(r.session, seq, tokens + 40, 60));
    must(plait_session_argmax(r.session, 0, &x));
    must(plait_session_truncate(r.session, seq, 0));
    must(plait_session_feed(r.session, seq, tokens, 100));
    must(plait_session_argmax(r.session, 0, &y));
    assert_int_equal(x, y);
    rig_close(&r);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_rows_in_any_order),
        cmocka_unit_test(rows_that_are_not_there),
        cmocka_unit_test(embeddings_make_the_logits),
        cmocka_unit_test(samples_do_not_depend_on_the_tail),
        cmocka_unit_test(next_repeats),
        cmocka_unit_test(text_needs_a_tokenizer),
        cmocka_unit_test(prompts_can_be_cancelled),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
