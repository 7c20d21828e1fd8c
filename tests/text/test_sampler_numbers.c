/* Random numbers against the published vectors; exp and log against libm in higher precision; the kernel variants
 * against each other, bit for bit; selections against sorting. */
#include "text/sampler/kernels.h"
#include "text/sampler/numbers.h"
#include "text/sampler/select.h"

#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* Known answers of philox4x32_10: Random123 1.14, examples/kat_vectors. */
static void test_philox(void **state) {
    (void)state;
    static const uint32_t vectors[3][10] = {
        {0, 0, 0, 0, 0, 0, 0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8},
        {0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff, 0x408f276d, 0x41c83b0e,
         0xa20bc7c6, 0x6d5451fd},
        {0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344, 0xa4093822, 0x299f31d0, 0xd16cfe09, 0x94fdcceb,
         0x5001e420, 0x24126ea1}};
    for (int i = 0; i < 3; i++) {
        uint32_t out[4];
        plait_philox4x32(vectors[i], vectors[i] + 4, out);
        assert_memory_equal(out, vectors[i] + 6, sizeof out);
    }
    double u = plait_philox_uniform(0, 0, 0);
    assert_true(u == (double)(0x6627e8d5e169c58dull >> 11) * 0x1p-53);
}

static double ulps(double value, long double exact, double unit) {
    return (double)(fabsl((long double)value - exact) / (long double)unit);
}

static void test_double_exp_and_log(void **state) {
    (void)state;
    double worst_exp = 0.0, worst_log = 0.0;
    for (int i = 0; i <= 400000; i++) {
        double x = -707.0 + (double)i * (1415.0 / 400000.0) + 1e-7;
        long double exact = expl((long double)x);
        double e = ulps(plait_sampler_exp(x), exact, nextafter((double)exact, INFINITY) - (double)exact);
        worst_exp = e > worst_exp ? e : worst_exp;
        double y = plait_sampler_exp(x / 1.01);
        exact = logl((long double)y);
        double unit = fabs(nextafter((double)exact, INFINITY) - (double)exact);
        e = ulps(plait_sampler_log(y), exact, unit);
        worst_log = e > worst_log ? e : worst_log;
        y = 0.5 + (double)i / 200000.0; /* around 1, where ln is small */
        exact = logl((long double)y);
        if (y != 1.0) {
            e = ulps(plait_sampler_log(y), exact, fabs(nextafter((double)exact, INFINITY) - (double)exact));
            worst_log = e > worst_log ? e : worst_log;
        }
    }
    printf("exp: at most %.3f ulp, log: at most %.3f ulp (double)\n", worst_exp, worst_log);
    assert_true(worst_exp <= 1.0);
    assert_true(worst_log <= 1.0);
    assert_true(plait_sampler_exp(0.0) == 1.0 && plait_sampler_log(1.0) == 0.0);
    assert_true(plait_sampler_exp(-INFINITY) == 0.0 && isinf(plait_sampler_exp(INFINITY)));
    assert_true(isinf(plait_sampler_log(0.0)) && isnan(plait_sampler_log(-1.0)) &&
                isnan(plait_sampler_exp(NAN)));
    assert_true(fabs(plait_sampler_log(0x1p-1070) + 1070.0 * log(2.0)) < 1e-12);
    assert_true(plait_sampler_pow(0.0, 0.0) == 1.0 && plait_sampler_pow(0.0, 2.0) == 0.0);
    assert_true(fabs(plait_sampler_pow(1.75, 10.0) / pow(1.75, 10.0) - 1.0) < 1e-14);
}

static void test_float_exp(void **state) {
    (void)state;
    enum { N = 4096 };
    static float x[N], w[N];
    double worst = 0.0;
    size_t checked = 0;
    /* Every 37th float from -87 to the smallest beside 0. */
    uint32_t first, bits;
    float lowest = -87.0f;
    memcpy(&first, &lowest, sizeof first);
    for (bits = first; bits > 0x80000000u + 37u * N;) {
        for (int i = 0; i < N; i++, bits -= 37) memcpy(&x[i], &bits, sizeof bits);
        double sum = plait_sampler_kernels_base.weigh(w, x, N, 0.0f);
        assert_true(sum > 0.0);
        for (int i = 0; i < N; i++) {
            double exact = exp((double)x[i]);
            float near = (float)exact;
            double e = fabs((double)w[i] - exact) / (double)(nextafterf(near, INFINITY) - near);
            worst = e > worst ? e : worst;
        }
        checked += N;
    }
    printf("exp: at most %.3f ulp (float), %zu values\n", worst, checked);
    assert_true(worst <= 1.0);
    float edge[3] = {0.0f, -INFINITY, -87.5f};
    plait_sampler_kernels_base.weigh(w, edge, 3, 0.0f);
    assert_true(w[0] == 1.0f && w[1] == 0.0f && w[2] == 0.0f);
}

static uint32_t random_state;
static uint32_t next_random(void) {
    random_state = random_state * 1664525u + 1013904223u;
    return random_state >> 8;
}
static float next_unit(void) {
    return (float)next_random() * 0x1p-24f;
}

/* Logits of several kinds; kind 3 has masked ones. */
static void fill(float *x, size_t n, int kind) {
    for (size_t i = 0; i < n; i++) {
        float u = next_unit();
        x[i] = kind == 0   ? u * 20.0f - 15.0f
               : kind == 1 ? floorf(u * 5.0f)
               : kind == 2 ? 1.0f
                           : -1.0f / (u + 1e-6f);
        if (kind == 3 && next_random() % 4 == 0) x[i] = -INFINITY;
        if (kind == 4) x[i] = ldexpf(u, (int)(next_random() % 200) - 100);
    }
}

static void compare_variant(const plait_sampler_kernels *a, const plait_sampler_kernels *b, const float *x,
                            size_t n) {
    static float u[5000], v[5000], wa[5000], wb[5000];
    size_t na = 0, nb = 0;
    assert_int_equal(a->load(u, x, n), b->load(v, x, n));
    assert_memory_equal(u, v, n * sizeof *u);
    float max = a->max(x, n), other = b->max(x, n);
    assert_memory_equal(&max, &other, sizeof max);
    float min = a->min(x, n);
    other = b->min(x, n);
    assert_memory_equal(&min, &other, sizeof min);
    for (size_t group = 8; group <= 64; group *= 2) {
        a->group_max(x, n, group, u);
        b->group_max(x, n, group, v);
        assert_memory_equal(u, v, (n + group - 1) / group * sizeof *u);
    }
    if (!(max > -INFINITY)) return;
    double pairs[6][2];
    pairs[0][0] = a->weigh(wa, x, n, max), pairs[0][1] = b->weigh(wb, x, n, max);
    assert_memory_equal(wa, wb, n * sizeof *wa);
    pairs[1][0] = a->weighted_gap(wa, x, n, max), pairs[1][1] = b->weighted_gap(wa, x, n, max);
    pairs[2][0] = a->finite_sum(x, n, &na), pairs[2][1] = b->finite_sum(x, n, &nb);
    pairs[3][0] = a->finite_squares(x, n, 0.3), pairs[3][1] = b->finite_squares(x, n, 0.3);
    pairs[4][0] = a->sum(wa, n), pairs[4][1] = b->sum(wa, n);
    pairs[5][0] = (double)na, pairs[5][1] = (double)nb;
    assert_int_equal(a->count(x, n, 1.0f), b->count(x, n, 1.0f));
    for (int i = 0; i < 6; i++) assert_memory_equal(&pairs[i][0], &pairs[i][1], sizeof(double));
    a->distance(u, x, n, max, 1.25f);
    b->distance(v, x, n, max, 1.25f);
    assert_memory_equal(u, v, n * sizeof *u);
    memcpy(u, x, n * sizeof *u);
    memcpy(v, x, n * sizeof *v);
    a->divide(u, n, 0.7f);
    b->divide(v, n, 0.7f);
    assert_memory_equal(u, v, n * sizeof *u);
}

static void test_variants_agree(void **state) {
    (void)state;
    static float x[5000];
    size_t compared = 0;
    random_state = 11;
    for (size_t v = 1; plait_sampler_kernels_at(v); v++)
        for (int round = 0; round < 600; round++) {
            size_t n = round < 150 ? (size_t)round + 1 : 1 + next_random() % 5000;
            fill(x, n, round % 5);
            compare_variant(plait_sampler_kernels_at(0), plait_sampler_kernels_at(v), x, n);
            compared++;
        }
    printf("%zu comparisons of kernel variants, best here: %s\n", compared,
           plait_sampler_kernels_best()->name);
}

/* ---- selections ---- */

static const float *sort_values;
static float sort_sign;

static int by_value(const void *a, const void *b) {
    uint32_t i = *(const uint32_t *)a, j = *(const uint32_t *)b;
    float p = sort_sign * sort_values[i], q = sort_sign * sort_values[j];
    return p < q ? -1 : p > q ? 1 : i < j ? -1 : i > j;
}

static int by_index(const void *a, const void *b) {
    uint32_t i = *(const uint32_t *)a, j = *(const uint32_t *)b;
    return i < j ? -1 : i > j;
}

static void sorted_indices(const float *values, float sign, size_t n, uint32_t *out) {
    for (size_t i = 0; i < n; i++) out[i] = (uint32_t)i;
    sort_values = values;
    sort_sign = sign;
    qsort(out, n, sizeof *out, by_value);
}

static void test_select_largest(void **state) {
    (void)state;
    enum { N = 20000 };
    static float x[N];
    static uint32_t index[N], expected[N], scratch[N];
    random_state = 5;
    for (int round = 0; round < 200; round++) {
        size_t n = 1 + next_random() % (round % 10 ? 300 : N), k = 1 + next_random() % n;
        fill(x, n, round % 5);
        if (round % 3 == 0) x[next_random() % n] = -0.0f, x[next_random() % n] = 0.0f;
        sorted_indices(x, -1.0f, n, expected);
        for (size_t i = 0; i < n; i++) index[i] = (uint32_t)i;
        plait_sampler_sort_falling(x, index, n);
        assert_memory_equal(index, expected, n * sizeof *index);
        plait_sampler_select_largest(plait_sampler_kernels_best(), x, n, k, index, scratch);
        qsort(expected, k, sizeof *expected, by_index);
        assert_memory_equal(index, expected, k * sizeof *index);
    }
}

/* Weights are powers of two, so that sums are exact in any order and the answer is unique. */
static void check_mass(const float *order, const float *weight, size_t n, plait_mass_rule rule) {
    enum { N = 20000 };
    static uint32_t index[N], expected[N], scratch[N];
    sorted_indices(order, 1.0f, n, expected);
    double mass = 0.0;
    size_t kept = 0;
    while (kept < n) {
        mass += (double)weight[expected[kept++]];
        if ((rule.strict ? mass > rule.target : mass >= rule.target) && kept >= rule.min_count) break;
    }
    assert_int_equal(
        plait_sampler_select_mass(plait_sampler_kernels_best(), order, weight, n, rule, index, scratch),
        kept);
    qsort(expected, kept, sizeof *expected, by_index);
    assert_memory_equal(index, expected, kept * sizeof *index);
}

static void test_select_mass(void **state) {
    (void)state;
    enum { N = 20000 };
    static float order[N], weight[N];
    random_state = 6;
    for (int round = 0; round < 300; round++) {
        size_t n = 1 + next_random() % (round % 10 ? 500 : N);
        double total = 0.0;
        fill(order, n, round % 5);
        for (size_t i = 0; i < n; i++) {
            order[i] = fabsf(order[i]) < 1e30f ? fabsf(order[i]) : 1e30f;
            weight[i] = ldexpf(1.0f, -(int)(next_random() % 12));
            total += (double)weight[i];
        }
        plait_mass_rule rule = {.target = total * (double)next_unit(),
                                .strict = round & 1,
                                .min_count = round % 7 ? 1 : next_random() % (n + 5)};
        check_mass(order, weight, n, rule);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_philox),         cmocka_unit_test(test_double_exp_and_log),
        cmocka_unit_test(test_float_exp),      cmocka_unit_test(test_variants_agree),
        cmocka_unit_test(test_select_largest), cmocka_unit_test(test_select_mass),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
