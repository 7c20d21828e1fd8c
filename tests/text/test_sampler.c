/* Behaviour of sampler chains: what they need, that the few best are enough, history and DRY, state, errors, options, and the
 * statistics of the draw. The definitions of single steps are held by test_sampler_golden. */
#include "plait/sampler.h"
#include "text/sampler/chain.h"

#include <float.h>
#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define OK(call)                                                                                             \
    do {                                                                                                     \
        if ((call) != PLAIT_OK) fail_msg("%s: %s", #call, plait_error_message());                            \
    } while (0)

static uint32_t random_state;
static uint32_t next_random(void) {
    random_state = random_state * 1664525u + 1013904223u;
    return random_state >> 8;
}

/* Logits as models make them: a bell, few far above it. */
static void fill_logits(float *x, size_t n, float spread) {
    for (size_t i = 0; i < n; i++) {
        float sum = 0.0f;
        for (int j = 0; j < 6; j++) sum += (float)next_random() * 0x1p-24f - 0.5f;
        x[i] = sum * spread;
    }
}

static plait_sampler *create(uint64_t seed) {
    plait_sampler *s = NULL;
    OK(plait_sampler_create(&s, seed));
    return s;
}

static plait_token pick(plait_sampler *s, const float *logits, size_t n) {
    plait_token token = -1;
    OK(plait_sampler_pick_from_all(s, logits, (int64_t)n, &token));
    return token;
}

/* ---- need ---- */

static const float *sort_logits;
static int by_falling_logit(const void *a, const void *b) {
    plait_token x = *(const plait_token *)a, y = *(const plait_token *)b;
    float p = sort_logits[x], q = sort_logits[y];
    return p > q ? -1 : p < q ? 1 : x < y ? -1 : x > y;
}

#define VOCAB 3000

/* Picks from exactly what the chain says it needs. */
static plait_token pick_need(plait_sampler *s, const float *logits, size_t n, bool all) {
    static plait_token order[VOCAB], ids[2 * VOCAB];
    static float values[2 * VOCAB];
    plait_logits_need need;
    OK(plait_sampler_need(s, (int64_t)n, &need));
    assert_int_equal(need.kind == PLAIT_LOGITS_ALL, all);
    for (size_t i = 0; i < n; i++) order[i] = (plait_token)i;
    sort_logits = logits;
    qsort(order, n, sizeof *order, by_falling_logit);
    size_t m = (size_t)need.n;
    memcpy(ids, order, m * sizeof *ids);
    for (size_t i = 0; i < need.n_ids; i++) ids[m++] = need.ids[i];
    for (size_t i = 0; i < m; i++) values[i] = logits[ids[i]];
    plait_token token = -1;
    OK(plait_sampler_pick_from_best(s, ids, values, m, (int64_t)n, &token));
    return token;
}

typedef struct need_case {
    bool all;
    float repeat, presence, bias;
    bool dry, greedy;
    int32_t k;
} need_case;

static plait_sampler *make_need_chain(const need_case *c, uint64_t seed) {
    plait_sampler *s = create(seed);
    plait_logit_bias bias[] = {{5, c->bias}, {9, -INFINITY}, {VOCAB + 7, 1.0f}};
    if (c->bias != 0.0f) OK(plait_sampler_add_bias(s, bias, 3));
    OK(plait_sampler_add_penalties(s, 64, c->repeat, 0.1f, c->presence));
    if (c->dry) OK(plait_sampler_add_dry(s, 0.8f, 1.75f, 2, 256, NULL, 0));
    if (c->greedy)
        OK(plait_sampler_add_greedy(s));
    else if (c->k)
        OK(plait_sampler_add_top_k(s, c->k));
    OK(plait_sampler_add_top_p(s, 0.95f, 1));
    OK(plait_sampler_add_min_p(s, 0.02f, 1));
    OK(plait_sampler_add_temp(s, 1.3f));
    return s;
}

static void test_best_is_enough(void **state) {
    (void)state;
    static const need_case cases[] = {
        {false, 1.1f, 0.2f, 0.0f, false, false, 40}, {false, 0.7f, 0.0f, 0.0f, false, false, 40},
        {false, 1.0f, -0.5f, 4.0f, true, false, 10}, {false, 1.3f, 0.0f, 0.0f, true, true, 0},
        {false, 1.1f, 0.0f, 9.0f, false, false, 1},  {true, 1.1f, 0.0f, 0.0f, false, false, 0},
    };
    static float logits[VOCAB];
    random_state = 3;
    size_t picks = 0;
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        plait_sampler *all = make_need_chain(&cases[c], c), *best = make_need_chain(&cases[c], c),
                      *twin = NULL;
        for (int i = 0; i < 400; i++, picks++) {
            fill_logits(logits, VOCAB, i % 2 ? 3.0f : 12.0f);
            if (i % 5 == 0) /* ties at every border */
                for (size_t j = 0; j < VOCAB; j++) logits[j] = floorf(logits[j] * 2.0f);
            plait_token a = -1, b = pick_need(best, logits, VOCAB, cases[c].all);
            OK(plait_sampler_clone(all, &twin));
            OK(plait_sampler_pick_plainly(all, logits, VOCAB, &a));
            assert_int_equal(a, b);
            assert_int_equal(a, pick(twin, logits, VOCAB));
            plait_sampler_destroy(twin);
            plait_token said = i % 3 ? a : (plait_token)(next_random() % 40);
            OK(plait_sampler_accept(all, said));
            OK(plait_sampler_accept(best, said));
        }
        plait_sampler_destroy(all);
        plait_sampler_destroy(best);
    }
    printf("%zu picks from the best alone equal those from all\n", picks);
}

static void test_needs(void **state) {
    (void)state;
    plait_logits_need need;
    plait_sampler *s = create(1);
    OK(plait_sampler_need(s, 100, &need));
    assert_int_equal(need.kind, PLAIT_LOGITS_ALL);
    assert_int_equal(need.n, 100);
    OK(plait_sampler_add_penalties(s, 8, 1.1f, 0.0f, 0.0f));
    OK(plait_sampler_add_temp(s, 0.0f));
    OK(plait_sampler_need(s, 100, &need));
    assert_int_equal(need.kind, PLAIT_LOGITS_ARGMAX); /* nothing was said yet */
    for (int i = 0; i < 6; i++) OK(plait_sampler_accept(s, i % 2));
    OK(plait_sampler_need(s, 100, &need));
    assert_int_equal(need.kind, PLAIT_LOGITS_BEST);
    assert_int_equal(need.n, 3); /* 1 and the 2 tokens that were said; none can rise */
    assert_int_equal(need.n_ids, 0);
    OK(plait_sampler_need(s, 3, &need));
    assert_int_equal(need.kind, PLAIT_LOGITS_ALL);
    assert_int_equal(plait_sampler_need(s, 0, &need), PLAIT_INVALID_ARGUMENT);
    plait_sampler_destroy(s);
    s = create(1);
    plait_logit_bias bias[] = {{3, 2.0f}, {4, -2.0f}, {200, 1.0f}};
    OK(plait_sampler_add_bias(s, bias, 3));
    OK(plait_sampler_add_top_k(s, 20));
    OK(plait_sampler_need(s, 100, &need));
    assert_int_equal(need.n, 22);
    assert_int_equal(need.n_ids, 1);
    assert_int_equal(need.ids[0], 3);
    plait_token ids[1] = {3}, token;
    float logits[1] = {1.0f};
    assert_int_equal(plait_sampler_pick_from_best(s, ids, logits, 1, 100, &token), PLAIT_INVALID_ARGUMENT);
    plait_sampler_destroy(s);
}

/* ---- history ---- */

/* DRY as its author wrote it down: for each place, extend the match backwards. */
static void dry_by_hand(const plait_token *h, size_t n, const plait_token *breakers, size_t n_breakers,
                        size_t *longest) {
#define BREAKS(t) (n_breakers && ((t) == breakers[0] || (n_breakers > 1 && (t) == breakers[1])))
    if (n == 0 || BREAKS(h[n - 1])) return;
    for (size_t i = 0; i + 1 < n; i++) {
        if (h[i] != h[n - 1] || BREAKS(h[i + 1])) continue;
        size_t length = 1;
        while (length <= i && h[i - length] == h[n - 1 - length] && !BREAKS(h[i - length])) length++;
        if (length > longest[h[i + 1]]) longest[h[i + 1]] = length;
    }
#undef BREAKS
}

static void test_dry(void **state) {
    (void)state;
    enum { N = 12 };
    float logits[N], probs[N];
    plait_token ids[N], history[64], breakers[2] = {7, 2};
    random_state = 9;
    size_t penalised = 0;
    for (int round = 0; round < 2000; round++) {
        size_t n = next_random() % 64, last_n = 1 + next_random() % 50, letters = 2 + next_random() % 9, kept;
        size_t n_breakers = round % 3;
        int32_t allowed = 1 + round % 4;
        plait_sampler *s = create(1);
        OK(plait_sampler_add_dry(s, 0.5f, 1.5f, allowed, (int32_t)last_n, breakers, n_breakers));
        for (size_t i = 0; i < n; i++) {
            history[i] = (plait_token)(next_random() % letters);
            OK(plait_sampler_accept(s, history[i]));
        }
        size_t longest[N] = {0}, window = n < last_n ? n : last_n;
        dry_by_hand(history + n - window, window, breakers, n_breakers, longest);
        double expected[N], total = 0.0;
        for (size_t i = 0; i < N; i++) {
            logits[i] = (float)i * 0.1f;
            double penalty =
                longest[i] >= (size_t)allowed ? 0.5 * pow(1.5, (double)(longest[i] - (size_t)allowed)) : 0;
            penalised += penalty > 0;
            total += expected[i] = exp((double)logits[i] - penalty);
        }
        OK(plait_sampler_distribution(s, logits, N, ids, probs, N, &kept));
        assert_int_equal(kept, N);
        for (size_t i = 0; i < N; i++) assert_true(fabs((double)probs[i] - expected[ids[i]] / total) < 1e-5);
        plait_sampler_destroy(s);
    }
    printf("DRY: 2000 histories, %zu tokens penalised\n", penalised);
    assert_true(penalised > 1000);
}

static void test_dry_is_linear(void **state) {
    (void)state;
    /* One token over and over: extending each match by hand would take 2 * 10^11 steps. */
    plait_sampler *s = create(1);
    OK(plait_sampler_add_dry(s, 1.0f, 1.75f, 2, PLAIT_SAMPLER_MAX_HISTORY, NULL, 0));
    for (int i = 0; i < PLAIT_SAMPLER_MAX_HISTORY; i++) OK(plait_sampler_accept(s, 1));
    float logits[2] = {0.0f, 5.0f};
    assert_int_equal(pick(s, logits, 2), 0);
    plait_sampler_destroy(s);
}

static void test_penalty_window(void **state) {
    (void)state;
    float logits[4] = {1.0f, 1.0f, 1.0f, -INFINITY}, probs[4];
    plait_token ids[4];
    size_t kept;
    plait_sampler *s = create(1);
    OK(plait_sampler_add_dry(s, 1.0f, 2.0f, 50, 100, NULL,
                             0)); /* keeps a longer history than the penalties look at */
    OK(plait_sampler_add_penalties(s, 3, 1.0f, 1.0f, 0.0f));
    plait_token said[] = {0, 0, 0, 0, 2, 1, 2};
    for (size_t i = 0; i < 7; i++) OK(plait_sampler_accept(s, said[i]));
    OK(plait_sampler_distribution(s, logits, 4, ids, probs, 4, &kept));
    assert_int_equal(kept, 3);
    assert_int_equal(ids[0], 0); /* out of the window; 1 counts once, 2 twice */
    assert_int_equal(ids[1], 1);
    assert_true(fabs((double)(probs[1] / probs[2]) - exp(1.0)) < 1e-5);
    assert_int_equal(plait_sampler_accept(s, -1), PLAIT_OUT_OF_RANGE);
    plait_sampler_destroy(s);
}

static void test_mirostat_holds_surprise(void **state) {
    (void)state;
    enum { N = 2000 };
    static float logits[N];
    random_state = 4;
    for (int version = 1; version <= 2; version++)
        for (int t = 1; t <= 3; t++) {
            plait_sampler *s = create(77);
            float tau = 1.5f + (float)t * 0.5f; /* between the surprise of the best token and the entropy */
            if (version == 1) OK(plait_sampler_add_mirostat_v1(s, tau, 0.1f, 100));
            if (version == 2) OK(plait_sampler_add_mirostat_v2(s, tau, 0.1f));
            double surprise = 0.0;
            for (int i = 0; i < 3000; i++) {
                fill_logits(logits, N, 7.0f);
                plait_token token = pick(s, logits, N);
                double total = 0.0;
                for (size_t j = 0; j < N; j++) total += exp((double)logits[j]);
                surprise += log2(total) - (double)logits[token] / log(2.0);
            }
            /* mu moves by eta times the error of each pick, so the errors sum to (mu_0 - mu_n) / eta. */
            surprise /= 3000.0;
            printf("mirostat %d: tau %g, mean surprise %.3f\n", version, (double)tau, surprise);
            assert_true(fabs(surprise - (double)tau) < 0.1);
            plait_sampler_destroy(s);
        }
}

/* ---- state ---- */

static plait_sampler *make_rich_chain(uint64_t seed) {
    plait_sampler *s = create(seed);
    plait_token breakers[] = {3};
    plait_logit_bias bias[] = {{1, 0.5f}, {2, -INFINITY}};
    OK(plait_sampler_add_bias(s, bias, 2));
    OK(plait_sampler_add_penalties(s, 20, 1.1f, 0.1f, 0.1f));
    OK(plait_sampler_add_dry(s, 0.8f, 1.75f, 2, 50, breakers, 1));
    OK(plait_sampler_add_mirostat_v2(s, 4.0f, 0.1f));
    OK(plait_sampler_add_xtc(s, 0.5f, 0.05f, 1));
    OK(plait_sampler_add_temp_dynamic(s, 1.0f, 0.4f, 1.0f));
    return s;
}

#define SMALL 500

static void go_on(plait_sampler *s, uint32_t logits_seed, int n, plait_token *out) {
    static float logits[SMALL];
    random_state = logits_seed;
    for (int i = 0; i < n; i++) {
        fill_logits(logits, SMALL, 8.0f);
        out[i] = pick(s, logits, SMALL);
        OK(plait_sampler_accept(s, out[i]));
    }
}

static void test_save_load_clone(void **state) {
    (void)state;
    plait_token first[100], second[100], again[100];
    plait_sampler *s = make_rich_chain(5), *copy = NULL, *other = make_rich_chain(99);
    go_on(s, 1, 100, first);
    size_t size = plait_sampler_state_bytes(s);
    unsigned char *saved = malloc(size);
    assert_non_null(saved);
    assert_int_equal(plait_sampler_save(s, saved, size - 1), PLAIT_OUT_OF_RANGE);
    OK(plait_sampler_save(s, saved, size));
    OK(plait_sampler_clone(s, &copy));
    go_on(s, 2, 100, second);
    go_on(copy, 2, 100, again);
    assert_memory_equal(second, again, sizeof second);
    OK(plait_sampler_load(other, saved, size));
    go_on(other, 2, 100, again);
    assert_memory_equal(second, again, sizeof second);
    plait_sampler_reset(s);
    go_on(s, 1, 100, again);
    assert_memory_equal(first, again, sizeof first);
    /* Each wrong byte either is refused, or is a state (seed, picks, tokens, mu have many). */
    for (size_t i = 0; i < size; i++) {
        saved[i] ^= 0x80;
        plait_status status = plait_sampler_load(other, saved, size);
        assert_true(i >= 16 || status != PLAIT_OK);
        saved[i] ^= 0x80;
    }
    for (size_t n = 0; n < size; n++) assert_int_not_equal(plait_sampler_load(other, saved, n), PLAIT_OK);
    plait_sampler *stranger = create(5);
    assert_int_equal(plait_sampler_load(stranger, saved, size), PLAIT_INVALID_ARGUMENT);
    free(saved);
    plait_sampler_destroy(stranger);
    plait_sampler_destroy(s);
    plait_sampler_destroy(copy);
    plait_sampler_destroy(other);
}

/* Chosen once; every machine must get these. */
static void test_seeds_reproduce(void **state) {
    (void)state;
    plait_token first[64], second[64];
    for (size_t v = 0; plait_sampler_kernels_at(v); v++) {
        plait_sampler *s = make_rich_chain(2024);
        plait_sampler_use_kernels(s, plait_sampler_kernels_at(v));
        go_on(s, 7, 64, v ? second : first);
        if (v) assert_memory_equal(first, second, sizeof first);
        plait_sampler_reset(s);
        plait_sampler_reseed(s, 2025);
        go_on(s, 7, 64, second);
        assert_memory_not_equal(first, second, sizeof first);
        plait_sampler_destroy(s);
    }
    static const plait_token expected[8] = {340, 254, 373, 247, 46, 269, 428, 36};
    assert_memory_equal(first, expected, sizeof expected);
}

static plait_sampler *make_numbered_chain(unsigned bits) {
    plait_sampler *s = create(bits);
    if (bits & 1) OK(plait_sampler_add_penalties(s, 64, 1.1f, 0.1f, 0.1f));
    if (bits & 2) OK(plait_sampler_add_dry(s, 0.8f, 1.75f, 2, 200, NULL, 0));
    if (bits & 4) OK(plait_sampler_add_temp_dynamic(s, 0.9f, 0.4f, 1.3f));
    if (bits & 8) OK(plait_sampler_add_typical(s, 0.95f, 1));
    if (bits & 16) OK(plait_sampler_add_top_p(s, 0.97f, 1));
    if (bits & 32) OK(plait_sampler_add_mirostat_v2(s, 4.0f, 0.1f));
    if (bits & 64) OK(plait_sampler_add_xtc(s, 0.5f, 0.05f, 1));
    if (bits % 5 == 0) OK(plait_sampler_add_top_n_sigma(s, 2.5f));
    return s;
}

/* Many chains on vocabularies of many sizes, all tokens in one number, the same for every processor and compiler. */
static void test_same_everywhere(void **state) {
    (void)state;
    static float logits[4096];
    for (size_t v = 0; plait_sampler_kernels_at(v); v++) {
        uint64_t hash = 0xCBF29CE484222325ull;
        for (unsigned bits = 0; bits < 128; bits++) {
            plait_sampler *s = make_numbered_chain(bits);
            plait_sampler_use_kernels(s, plait_sampler_kernels_at(v));
            random_state = bits;
            for (int i = 0; i < 12; i++) {
                size_t n = 100 + next_random() % 3900;
                fill_logits(logits, n, 6.0f);
                plait_token token = pick(s, logits, n);
                OK(plait_sampler_accept(s, token));
                hash = plait_sampler_hash_u64(hash, (uint64_t)token);
            }
            plait_sampler_destroy(s);
        }
        printf("1536 tokens of 128 chains: %016llx with %s\n", (unsigned long long)hash,
               plait_sampler_kernels_at(v)->name);
        assert_true(hash == 0xf7642e7c088681ffull);
    }
}

typedef struct thread_work {
    uint64_t seed;
    const float *logits;
    plait_token out[200];
} thread_work;

static void *run_thread(void *user) {
    thread_work *work = user;
    plait_sampler *s = NULL;
    plait_sampler_options options;
    plait_sampler_options_default(&options);
    options.seed = work->seed;
    options.temp = 1.2f;
    options.repeat_penalty = 1.1f;
    if (plait_sampler_create_from_options(&s, &options) != PLAIT_OK) return NULL;
    for (int i = 0; i < 200; i++) {
        if (plait_sampler_pick_from_all(s, work->logits + i, SMALL, &work->out[i]) != PLAIT_OK) break;
        (void)plait_sampler_accept(s, work->out[i]);
    }
    plait_sampler_destroy(s);
    return work;
}

static void test_threads_do_not_matter(void **state) {
    (void)state;
    static float logits[SMALL + 200];
    static thread_work alone[4], together[4];
    pthread_t threads[4];
    random_state = 8;
    fill_logits(logits, SMALL + 200, 10.0f);
    for (int i = 0; i < 4; i++) {
        alone[i] = together[i] = (thread_work){.seed = (uint64_t)i, .logits = logits};
        assert_non_null(run_thread(&alone[i]));
    }
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, run_thread, &together[i]), 0);
    for (int i = 0; i < 4; i++) assert_int_equal(pthread_join(threads[i], NULL), 0);
    for (int i = 0; i < 4; i++) assert_memory_equal(alone[i].out, together[i].out, sizeof alone[i].out);
}

/* ---- statistics ---- */

#define DRAWS 200000

/* Chi-square of DRAWS picks against the softmax of the logits in float64, classes of less than 10 expected draws
 * taken together.
 * Returns its distance from the mean in standard deviations. */
static double chi_square_sigmas(plait_sampler *s, const float *logits, size_t n, const double *weights) {
    double total = 0.0, chi = 0.0, rest_expected = 0.0, rest_seen = 0.0;
    size_t classes = 0;
    uint32_t *seen = calloc(n, sizeof *seen);
    assert_non_null(seen);
    for (size_t i = 0; i < n; i++) total += weights[i];
    for (int i = 0; i < DRAWS; i++) seen[pick(s, logits, n)]++;
    for (size_t i = 0; i < n; i++) {
        double expected = weights[i] / total * DRAWS;
        if (expected == 0.0) assert_int_equal(seen[i], 0);
        if (expected < 10.0) {
            rest_expected += expected;
            rest_seen += seen[i];
            continue;
        }
        chi += ((double)seen[i] - expected) * ((double)seen[i] - expected) / expected;
        classes++;
    }
    if (rest_expected >= 1.0) {
        chi += (rest_seen - rest_expected) * (rest_seen - rest_expected) / rest_expected;
        classes++;
    }
    free(seen);
    double freedom = (double)classes - 1.0;
    return (chi - freedom) / sqrt(2.0 * freedom);
}

static void check_draws(const char *name, plait_sampler *s, const float *logits, size_t n,
                        const double *weights) {
    double sigmas = chi_square_sigmas(s, logits, n, weights);
    printf("%d draws, %s: chi-square %+.2f standard deviations from its mean\n", DRAWS, name, sigmas);
    assert_true(fabs(sigmas) < 3.0);
    plait_sampler_destroy(s);
}

static void test_statistics(void **state) {
    (void)state;
    enum { N = 400 };
    static float logits[N];
    static double weights[N];
    random_state = 12;
    fill_logits(logits, N, 6.0f);
    for (size_t i = 0; i < N; i++) weights[i] = exp((double)logits[i]);
    check_draws("400 tokens, no step", create(42), logits, N, weights);

    plait_sampler *s = create(43);
    OK(plait_sampler_add_temp(s, 0.7f));
    for (size_t i = 0; i < N; i++) weights[i] = exp((double)logits[i] / (double)0.7f);
    check_draws("temperature 0.7", s, logits, N, weights);

    s = create(44);
    OK(plait_sampler_add_min_p(s, 0.1f, 1));
    float max = logits[0];
    for (size_t i = 0; i < N; i++) max = logits[i] > max ? logits[i] : max;
    for (size_t i = 0; i < N; i++) {
        double p = exp((double)logits[i] - (double)max);
        weights[i] = p >= (double)0.1f ? p : 0.0;
    }
    check_draws("min-p 0.1", s, logits, N, weights);

    float few[5] = {0.0f, 1.0f, 2.0f, -INFINITY, 3.0f};
    double four[5] = {1.0, exp(1.0), exp(2.0), 0.0, exp(3.0)};
    check_draws("five tokens, one masked", create(45), few, 5, four);
}

static void test_xtc_probability(void **state) {
    (void)state;
    float logits[3] = {2.0f, 1.9f, -8.0f};
    double p[3], total = exp(2.0) + exp(1.9) + exp(-8.0);
    plait_sampler *s = create(6);
    OK(plait_sampler_add_xtc(s, 0.3f, 0.1f, 1));
    /* With 0.3 the best is removed, else all stay. */
    double without = exp(1.9) + exp(-8.0);
    p[0] = 0.7 * exp(2.0) / total;
    p[1] = 0.7 * exp(1.9) / total + 0.3 * exp(1.9) / without;
    p[2] = 0.7 * exp(-8.0) / total + 0.3 * exp(-8.0) / without;
    check_draws("XTC of probability 0.3", s, logits, 3, p);
}

/* ---- errors and edges ---- */

static void test_bad_logits(void **state) {
    (void)state;
    float logits[70] = {0};
    plait_token token = 123;
    plait_sampler *s = create(1);
    OK(plait_sampler_add_temp(s, 0.5f));
    logits[66] = logits[68] = NAN;
    assert_int_equal(plait_sampler_pick_from_all(s, logits, 70, &token), PLAIT_INVALID_ARGUMENT);
    assert_non_null(strstr(plait_error_message(),
                           "2 of 70 logits are NaN and 0 are plus infinity, the first for token 66"));
    logits[3] = INFINITY;
    assert_int_equal(plait_sampler_pick_from_all(s, logits, 70, &token), PLAIT_INVALID_ARGUMENT);
    assert_non_null(strstr(plait_error_message(), "the first for token 3"));
    for (int i = 0; i < 70; i++) logits[i] = -INFINITY;
    assert_int_equal(plait_sampler_pick_from_all(s, logits, 70, &token), PLAIT_INVALID_ARGUMENT);
    assert_non_null(strstr(plait_error_message(), "all 70 candidates"));
    assert_int_equal(plait_sampler_pick_from_all(s, logits, 0, &token), PLAIT_INVALID_ARGUMENT);
    assert_int_equal(plait_sampler_pick_from_all(s, logits, (int64_t)1 << 40, &token),
                     PLAIT_INVALID_ARGUMENT);
    plait_token ids[2] = {0, 70};
    float pair[2] = {1.0f, 1.0f};
    assert_int_equal(plait_sampler_pick_from_best(s, ids, pair, 2, 70, &token), PLAIT_OUT_OF_RANGE);
    ids[1] = 0;
    pair[1] = 2.0f;
    assert_int_equal(plait_sampler_pick_from_best(s, ids, pair, 2, 70, &token), PLAIT_INVALID_ARGUMENT);
    assert_int_equal(token, 123);
    logits[9] = -5.0f;
    assert_int_equal(pick(s, logits, 70), 9);
    assert_int_equal(plait_sampler_add_greedy(s), PLAIT_WRONG_STATE);
    plait_sampler_destroy(s);
}

/* Steps that take the largest logit away, followed by one that asks for the largest. */
static void test_largest_may_go(void **state) {
    (void)state;
    float logits[6] = {5.0f, 1.0f, 1.5f, 1.25f, 1.0f, 0.75f};
    for (int kind = 0; kind < 3; kind++) {
        plait_sampler *s = create(1);
        plait_logit_bias ban = {0, kind ? -INFINITY : -9.0f};
        /* Twice as hot: the peak is then further from the entropy than the rest, and typical drops it. */
        OK(plait_sampler_add_temp(s, 2.0f));
        if (kind == 2)
            OK(plait_sampler_add_xtc(s, 1.0f, 0.1f, 1));
        else
            OK(plait_sampler_add_bias(s, &ban, 1));
        OK(plait_sampler_add_min_p(s, 1.0f, 1));
        assert_int_equal(pick(s, logits, 6), 2);
        plait_sampler_destroy(s);
    }
    float bell[101];
    bell[0] = 3.0f; /* gap 3 from the peak to the entropy of a hundred equal tokens */
    for (int i = 1; i <= 100; i++) bell[i] = i == 50 ? 0.01f : 0.0f;
    plait_sampler *s = create(1);
    OK(plait_sampler_add_typical(s, 0.2f, 1));
    OK(plait_sampler_add_min_p(s, 1.0f, 1));
    assert_int_equal(pick(s, bell, 101), 50);
    plait_sampler_destroy(s);
}

static void test_every_step_survives_extremes(void **state) {
    (void)state;
    static const float vectors[][4] = {
        {FLT_MAX, -FLT_MAX, 0.0f, FLT_MAX},    {-FLT_MAX, -FLT_MAX, -INFINITY, -FLT_MAX},
        {FLT_MIN, -FLT_MIN, 1e-45f, 0.0f},     {1e38f, -1e38f, 3e38f, -INFINITY},
        {-INFINITY, -INFINITY, -7.0f, -1e30f}, {0.0f, -0.0f, 0.0f, -0.0f}};
    for (size_t v = 0; v < sizeof vectors / sizeof *vectors; v++)
        for (int kind = 0; kind < 14; kind++) {
            plait_sampler *s = create(v);
            plait_logit_bias bias[] = {{0, 3e38f}, {1, -3e38f}};
            switch (kind) {
            case 0: OK(plait_sampler_add_bias(s, bias, 2)); break;
            case 1: OK(plait_sampler_add_penalties(s, 9, 1e-30f, -3e38f, 3e38f)); break;
            case 2: OK(plait_sampler_add_dry(s, 3e38f, 3e38f, 1, 9, NULL, 0)); break;
            case 3: OK(plait_sampler_add_temp(s, 1e-45f)); break;
            case 4: OK(plait_sampler_add_temp(s, 3e38f)); break;
            case 5: OK(plait_sampler_add_temp_dynamic(s, 3e38f, 3e38f, 0.0f)); break;
            case 6: OK(plait_sampler_add_temp_dynamic(s, -1.0f, 0.5f, 3e38f)); break;
            case 7: OK(plait_sampler_add_top_p(s, 1e-45f, 3)); break;
            case 8: OK(plait_sampler_add_min_p(s, 1e-45f, 9)); break;
            case 9: OK(plait_sampler_add_typical(s, -1.0f, 0)); break;
            case 10: OK(plait_sampler_add_top_n_sigma(s, 3e38f)); break;
            case 11: OK(plait_sampler_add_xtc(s, 1.0f, 0.0f, 0)); break;
            case 12: OK(plait_sampler_add_mirostat_v1(s, 0.0f, 1e6f, 2)); break;
            default: OK(plait_sampler_add_mirostat_v2(s, 1e6f, 1e6f)); break;
            }
            for (int i = 0; i < 20; i++) {
                plait_token token = pick(s, vectors[v], 4);
                assert_in_range(token, 0, 3);
                assert_true(vectors[v][token] > -INFINITY);
                OK(plait_sampler_accept(s, token));
            }
            plait_sampler_destroy(s);
        }
}

static void test_bad_parameters(void **state) {
    (void)state;
    plait_sampler *s = create(1);
    plait_logit_bias bias = {1, INFINITY};
    assert_int_equal(plait_sampler_add_bias(s, &bias, 1), PLAIT_INVALID_ARGUMENT);
    bias = (plait_logit_bias){-1, 0.0f};
    assert_int_equal(plait_sampler_add_bias(s, &bias, 1), PLAIT_INVALID_ARGUMENT);
    assert_int_equal(plait_sampler_add_temp(s, NAN), PLAIT_INVALID_ARGUMENT);
    assert_string_equal(plait_error_message(),
                        "sampler temp: t is nan, expected -3.40282e+38 to 3.40282e+38");
    assert_int_equal(plait_sampler_add_temp_dynamic(s, 1, 1, -1), PLAIT_INVALID_ARGUMENT);
    assert_int_equal(plait_sampler_add_penalties(s, -1, 1, 0, 0), PLAIT_INVALID_ARGUMENT);
    assert_int_equal(plait_sampler_add_penalties(s, 1, 0, 0, 0), PLAIT_INVALID_ARGUMENT);
    assert_int_equal(plait_sampler_add_dry(s, -1, 2, 2, 9, NULL, 0), PLAIT_INVALID_ARGUMENT);
    assert_int_equal(plait_sampler_add_min_p(s, 1.5f, 1), PLAIT_INVALID_ARGUMENT);
    assert_int_equal(plait_sampler_add_top_p(s, NAN, 1), PLAIT_INVALID_ARGUMENT);
    assert_int_equal(plait_sampler_add_typical(s, INFINITY, 1), PLAIT_INVALID_ARGUMENT);
    assert_int_equal(plait_sampler_add_top_n_sigma(s, NAN), PLAIT_INVALID_ARGUMENT);
    assert_int_equal(plait_sampler_add_xtc(s, 2, 0.1f, 1), PLAIT_INVALID_ARGUMENT);
    assert_int_equal(plait_sampler_add_mirostat_v1(s, 5, 0.1f, 1), PLAIT_INVALID_ARGUMENT);
    assert_int_equal(plait_sampler_add_mirostat_v2(s, NAN, 0.1f), PLAIT_INVALID_ARGUMENT);
    for (int i = 0; i < PLAIT_SAMPLER_MAX_STEPS; i++) OK(plait_sampler_add_greedy(s));
    assert_int_equal(plait_sampler_add_dry(s, 1, 2, 2, 9, NULL, 0), PLAIT_LIMIT);
    plait_sampler_destroy(s);
    plait_sampler_destroy(NULL);
}

static void test_options(void **state) {
    (void)state;
    static float logits[VOCAB];
    random_state = 21;
    fill_logits(logits, VOCAB, 12.0f);
    plait_sampler_options options;
    plait_sampler_options_default(&options);
    plait_sampler *s = NULL;
    plait_logits_need need;
    OK(plait_sampler_create_from_options(&s, NULL)); /* temp 0: greedy */
    OK(plait_sampler_need(s, VOCAB, &need));
    assert_int_equal(need.kind, PLAIT_LOGITS_ARGMAX);
    plait_token best = pick(s, logits, VOCAB);
    for (size_t i = 0; i < VOCAB; i++) assert_true(logits[i] <= logits[best]);
    plait_sampler_destroy(s);
    options.temp = 0.8f;
    options.frequency_penalty = 0.5f;
    options.dry_multiplier = 0.8f;
    options.typical_p = 0.9f;
    options.xtc_probability = 0.5f;
    OK(plait_sampler_create_from_options(&s, &options));
    OK(plait_sampler_need(s, VOCAB, &need));
    assert_int_equal(need.kind, PLAIT_LOGITS_BEST);
    assert_int_equal(need.n, 40);
    (void)pick(s, logits, VOCAB);
    plait_sampler_destroy(s);
    options.mirostat = 2;
    OK(plait_sampler_create_from_options(&s, &options));
    OK(plait_sampler_need(s, VOCAB, &need));
    assert_int_equal(need.kind, PLAIT_LOGITS_ALL);
    plait_sampler_destroy(s);
    options.mirostat = 3;
    assert_int_equal(plait_sampler_create_from_options(&s, &options), PLAIT_INVALID_ARGUMENT);
    options.mirostat = 0;
    options.top_p = NAN;
    assert_int_equal(plait_sampler_create_from_options(&s, &options), PLAIT_INVALID_ARGUMENT);
    assert_non_null(strstr(plait_error_message(), "top_p"));
    options.temp = NAN;
    options.top_p = 1.0f;
    assert_int_equal(plait_sampler_create_from_options(&s, &options), PLAIT_INVALID_ARGUMENT);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_best_is_enough),
        cmocka_unit_test(test_needs),
        cmocka_unit_test(test_dry),
        cmocka_unit_test(test_dry_is_linear),
        cmocka_unit_test(test_penalty_window),
        cmocka_unit_test(test_mirostat_holds_surprise),
        cmocka_unit_test(test_save_load_clone),
        cmocka_unit_test(test_seeds_reproduce),
        cmocka_unit_test(test_same_everywhere),
        cmocka_unit_test(test_threads_do_not_matter),
        cmocka_unit_test(test_statistics),
        cmocka_unit_test(test_xtc_probability),
        cmocka_unit_test(test_bad_logits),
        cmocka_unit_test(test_largest_may_go),
        cmocka_unit_test(test_every_step_survives_extremes),
        cmocka_unit_test(test_bad_parameters),
        cmocka_unit_test(test_options),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
