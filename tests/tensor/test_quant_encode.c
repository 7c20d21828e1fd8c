/* Laws of the encoders, for every type and many kinds of rows: finite results, no writes outside, never worse than
 * zeros, weights lower the weighted error, encoding a decoded row again loses little, any input is safe. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tensor/float16.h"
#include "tensor/quant/blocks.h"
#include "tensor/quant/scales.h"

#include "tensor/quant_test.h"

enum { N = 512, GUARD = 16, MAX_ROW_BYTES = 8 * N };

typedef struct listed {
    const char *name;
    plait_dtype dtype;
} listed;

static const listed list[] = {
#define LISTED(name, number, elems, bytes) {#name, PLAIT_##name},
    PLAIT_DTYPE_LIST(LISTED)
#undef LISTED
};
enum { N_LISTED = sizeof list / sizeof *list };

static bool is_integer(plait_dtype t) {
    return t == PLAIT_I8 || t == PLAIT_I16 || t == PLAIT_I32 || t == PLAIT_I64;
}

/* Encodes and decodes a row; checks guard bytes on both sides and that the address need not be aligned. */
static void round_trip(const plait_quant *quant, const float *x, const float *w, float *out) {
    unsigned char bytes[MAX_ROW_BYTES + 2 * GUARD + 1];
    size_t row = (size_t)plait_dtype_row_bytes(quant->dtype, N);
    memset(bytes, 0xA5, sizeof bytes);
    quant->encode(x, w, bytes + GUARD + 1, N);
    for (size_t i = 0; i < GUARD; i++) {
        assert_int_equal(bytes[1 + i], 0xA5);
        assert_int_equal(bytes[GUARD + 1 + row + i], 0xA5);
    }
    quant->decode(bytes + GUARD + 1, out, N);
}

static void test_all_kinds_are_finite_and_useful(void **state) {
    (void)state;
    int n = 0;
    for (int t = 0; t < N_LISTED; t++)
        for (int kind = 0; kind < N_ROW_KINDS; kind++, n++) {
            uint64_t r = 1234567 + (uint64_t)kind;
            float x[N], y[N], zero[N] = {0};
            if (is_integer(list[t].dtype)) continue;
            fill_row(kind, &r, x, N);
            round_trip(plait_quant_of(list[t].dtype), x, NULL, y);
            if (list[t].dtype == PLAIT_F16 && kind >= ROW_beyond_fp16 && kind <= ROW_huge)
                continue; /* infinities */
            for (int i = 0; i < N; i++)
                if (!isfinite(y[i]))
                    fail_msg("%s, %s: not finite at %d", list[t].name, row_kind_name(kind), i);
            if (row_error(x, y, NULL, N) > row_error(x, zero, NULL, N) * (1 + 1e-6))
                fail_msg("%s, %s: worse than zeros", list[t].name, row_kind_name(kind));
        }
    printf("%d types x %d kinds of rows\n", N_LISTED, N_ROW_KINDS);
    assert_int_equal(n, N_LISTED * N_ROW_KINDS);
}

/* Root mean square errors for gaussian rows that each format must reach, relative to the standard deviation:
 * 1% above what this code measured when the line was written, so that no search loses quality unnoticed. */
static const struct {
    plait_dtype dtype;
    double bound;
} gaussian_bounds[] = {
    {PLAIT_Q1_0, 0.61219},   {PLAIT_Q2_0, 0.35372},    {PLAIT_Q4_0, 0.08450},    {PLAIT_Q4_1, 0.07069},
    {PLAIT_Q5_0, 0.04099},   {PLAIT_Q5_1, 0.03412},    {PLAIT_Q8_0, 0.00490},    {PLAIT_Q2_K, 0.26133},
    {PLAIT_Q3_K, 0.14728},   {PLAIT_Q4_K, 0.07120},    {PLAIT_Q5_K, 0.03512},    {PLAIT_Q6_K, 0.01704},
    {PLAIT_IQ4_NL, 0.07503}, {PLAIT_IQ4_XS, 0.07544},  {PLAIT_TQ1_0, 0.44576},   {PLAIT_TQ2_0, 0.44576},
    {PLAIT_MXFP4, 0.11226},  {PLAIT_NVFP4, 0.08264},   {PLAIT_IQ2_XXS, 0.32898}, {PLAIT_IQ2_XS, 0.28811},
    {PLAIT_IQ2_S, 0.24163},  {PLAIT_IQ3_XXS, 0.17824}, {PLAIT_IQ3_S, 0.13332},   {PLAIT_IQ1_S, 0.45436},
    {PLAIT_IQ1_M, 0.42058},
};

static void test_gaussian_quality(void **state) {
    (void)state;
    for (size_t k = 0; k < sizeof gaussian_bounds / sizeof *gaussian_bounds; k++) {
        double sum = 0;
        uint64_t r = 99;
        enum { ROWS = 8 };
        for (int row = 0; row < ROWS; row++) {
            float x[N], y[N];
            fill_row(ROW_gaussian, &r, x, N);
            round_trip(plait_quant_of(gaussian_bounds[k].dtype), x, NULL, y);
            double e = row_error(x, y, NULL, N);
            sum += e * e;
        }
        double error = sqrt(sum / ROWS);
        printf("%-8s %.5f\n", plait_dtype_name(gaussian_bounds[k].dtype), error);
        if (error > gaussian_bounds[k].bound)
            fail_msg("%s: error %g, at most %g", plait_dtype_name(gaussian_bounds[k].dtype), error,
                     gaussian_bounds[k].bound);
    }
}

static void test_importance_lowers_weighted_error(void **state) {
    (void)state;
    for (int t = 0; t < N_LISTED; t++) {
        if (plait_dtype_block_elems(list[t].dtype) == 1) continue;
        const plait_quant *quant = plait_quant_of(list[t].dtype);
        double plain = 0, weighted = 0;
        uint64_t r = 4242;
        for (int row = 0; row < 6; row++) {
            float x[N], w[N], y[N];
            fill_row(row % 2 ? ROW_laplace : ROW_gaussian, &r, x, N);
            for (int i = 0; i < N; i++) w[i] = (float)(0.01 + 10 * pow(random_unit(&r), 4));
            round_trip(quant, x, NULL, y);
            plain += row_error(x, y, w, N);
            round_trip(quant, x, w, y);
            weighted += row_error(x, y, w, N);
        }
        printf("%-8s weighted error falls to %.3f\n", list[t].name, weighted / plain);
        if (!(weighted < plain)) fail_msg("%s: %g with weights, %g without", list[t].name, weighted, plain);
    }
}

static void test_odd_importance_is_safe(void **state) {
    (void)state;
    for (int t = 0; t < N_LISTED; t++) {
        const plait_quant *quant = plait_quant_of(list[t].dtype);
        uint64_t r = 7;
        float x[N], w[N], y[N], plain[N];
        fill_row(ROW_gaussian, &r, x, N);
        round_trip(quant, x, NULL, plain);
        for (int i = 0; i < N; i++) w[i] = 0; /* nothing matters: as without */
        round_trip(quant, x, w, y);
        assert_memory_equal(y, plain, sizeof y);
        for (int i = 0; i < N; i++) w[i] = 3.0e38f; /* all the same: as without, up to rounding of sums */
        round_trip(quant, x, w, y);
        assert_true(row_error(x, y, NULL, N) <= row_error(x, plain, NULL, N) * 1.02);
        for (int i = 0; i < N; i++) w[i] = i % 7 == 0 ? 1e-38f : i % 5 == 0 ? 0 : 1e30f;
        round_trip(quant, x, w, y);
        for (int i = 0; i < N; i++) assert_true(isfinite(y[i]));
    }
}

static void test_zero_rows(void **state) {
    (void)state;
    for (int t = 0; t < N_LISTED; t++) {
        float x[N] = {0}, y[N];
        for (int i = 0; i < N; i += 3) x[i] = -0.0f;
        round_trip(plait_quant_of(list[t].dtype), x, NULL, y);
        for (int i = 0; i < N; i++) assert_true(y[i] == 0);
    }
}

static void test_non_finite_input_is_safe(void **state) {
    (void)state;
    for (int t = 0; t < N_LISTED; t++)
        for (int pattern = 0; pattern < 5; pattern++) {
            uint64_t r = 5;
            float x[N], w[N], y[N];
            fill_row(ROW_gaussian, &r, x, N);
            for (int i = 0; i < N; i++) w[i] = pattern & 1 ? (i % 11 ? 1 : NAN) : 1;
            for (int i = 0; i < N; i += pattern == 4 ? 1 : 17)
                x[i] = pattern == 0 ? NAN : pattern == 1 ? INFINITY : pattern == 2 ? -INFINITY : -NAN;
            round_trip(plait_quant_of(list[t].dtype), x, w, y);
        }
}

/* What a format can represent, it must represent again. With one scale for a block the search is exact; with two
 * levels of scales it need not find the very same numbers. */
static double allowed_second_loss(plait_dtype t) {
    switch (t) {
    case PLAIT_Q4_1:
    case PLAIT_Q5_1:
    case PLAIT_Q2_K:
    case PLAIT_Q3_K:
    case PLAIT_Q4_K:
    case PLAIT_Q5_K:
    case PLAIT_Q6_K:
    case PLAIT_IQ4_XS:
    case PLAIT_IQ2_XXS:
    case PLAIT_IQ2_XS:
    case PLAIT_IQ2_S:
    case PLAIT_IQ3_XXS:
    case PLAIT_IQ3_S:
    case PLAIT_IQ1_S:
    case PLAIT_IQ1_M: return 0.25;
    default: return 1e-6;
    }
}

static void test_encoding_again_loses_little(void **state) {
    (void)state;
    for (int t = 0; t < N_LISTED; t++) {
        if (is_integer(list[t].dtype)) continue;
        const plait_quant *quant = plait_quant_of(list[t].dtype);
        uint64_t r = 31;
        double first = 0, second = 0, size = 0;
        for (int row = 0; row < 4; row++) {
            float x[N], y[N], z[N], zero[N] = {0};
            fill_row(row % 2 ? ROW_outliers : ROW_gaussian, &r, x, N);
            round_trip(quant, x, NULL, y);
            round_trip(quant, y, NULL, z);
            first += row_error(x, y, NULL, N);
            second += row_error(y, z, NULL, N);
            size += row_error(x, zero, NULL, N);
        }
        printf("%-8s first %.5f second %.5f\n", list[t].name, first / size, second / size);
        if (second > first * allowed_second_loss(list[t].dtype) + 1e-7 * size)
            fail_msg("%s: first error %g, second %g", list[t].name, first, second);
    }
}

static void test_rows_are_independent_blocks(void **state) {
    (void)state;
    for (int t = 0; t < N_LISTED; t++) {
        const plait_quant *quant = plait_quant_of(list[t].dtype);
        int64_t elems = plait_dtype_block_elems(list[t].dtype),
                bytes = plait_dtype_block_bytes(list[t].dtype);
        unsigned char whole[MAX_ROW_BYTES], one[512];
        uint64_t r = 77;
        float x[N], w[N];
        fill_row(ROW_mixed_magnitudes, &r, x, N);
        for (int i = 0; i < N; i++) w[i] = (float)random_unit(&r);
        quant->encode(x, w, whole, N);
        for (int64_t b = 0; b < N / elems; b++) {
            quant->encode(x + b * elems, w + b * elems, one, elems);
            assert_memory_equal(one, whole + b * bytes, (size_t)bytes);
        }
        quant->encode(x, w, whole, 0); /* nothing to do */
    }
}

static void test_integers(void **state) {
    (void)state;
    static const float x[] = {0,        1.5f,      2.5f, -1.5f,  1e30f,   -1e30f,
                              INFINITY, -INFINITY, NAN,  127.4f, -128.6f, 32768};
    enum { COUNT = sizeof x / sizeof *x };
    static const float i8[] = {0, 2, 2, -2, 127, -128, 127, -128, 0, 127, -128, 127};
    static const float i16[] = {0, 2, 2, -2, 32767, -32768, 32767, -32768, 0, 127, -129, 32767};
    static const float i32[] = {0, 2, 2, -2, 0x1p31f, -0x1p31f, 0x1p31f, -0x1p31f, 0, 127, -129, 32768};
    static const float i64[] = {0, 2, 2, -2, 0x1p63f, -0x1p63f, 0x1p63f, -0x1p63f, 0, 127, -129, 32768};
    static const float *const expected[] = {i8, i16, i32, i64};
    static const plait_dtype types[] = {PLAIT_I8, PLAIT_I16, PLAIT_I32, PLAIT_I64};
    for (int t = 0; t < 4; t++) {
        unsigned char bytes[8 * COUNT];
        float out[COUNT];
        plait_quant_of(types[t])->encode(x, NULL, bytes, COUNT);
        plait_quant_of(types[t])->decode(bytes, out, COUNT);
        for (int i = 0; i < COUNT; i++) assert_true(out[i] == expected[t][i]);
    }
}

static void test_scale_packings(void **state) {
    (void)state;
    uint64_t r = 3;
    for (int round = 0; round < 2000; round++) {
        uint8_t packed[12], again[12], scales[8], mins[8];
        int8_t levels[16];
        for (int i = 0; i < 12; i++) packed[i] = (uint8_t)random_bits(&r);
        plait_scales_6bit_pairs_unpack(packed, scales, mins);
        plait_scales_6bit_pairs_pack(scales, mins, again);
        assert_memory_equal(packed, again, 12);
        plait_scales_6bit_signed_unpack(packed, levels);
        plait_scales_6bit_signed_pack(levels, again);
        assert_memory_equal(packed, again, 12);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_kinds_are_finite_and_useful),
        cmocka_unit_test(test_gaussian_quality),
        cmocka_unit_test(test_importance_lowers_weighted_error),
        cmocka_unit_test(test_odd_importance_is_safe),
        cmocka_unit_test(test_zero_rows),
        cmocka_unit_test(test_non_finite_input_is_safe),
        cmocka_unit_test(test_encoding_again_loses_little),
        cmocka_unit_test(test_rows_are_independent_blocks),
        cmocka_unit_test(test_integers),
        cmocka_unit_test(test_scale_packings),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
