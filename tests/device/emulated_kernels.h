/* Holds a table of row functions (device/cpu/kernels/simd.h) to the portable one, function by function, on ragged
 * lengths. Included by test programs only. */
#ifndef PLAIT_TESTS_DEVICE_EMULATED_KERNELS_H
#define PLAIT_TESTS_DEVICE_EMULATED_KERNELS_H

#include "device/cpu/kernels/simd.h"
#include "device/matmul_cases.h"

/* What SIMDe lacks, or has by the processor's rules only where the processor has it. */
static inline __m512 parts512(__m512 a, __m512 b, int order) {
    lanes512 x = {.f = a}, y = {.f = b}, z;
    for (int i = 0; i < 16; i++) z.f32[i] = (i < 8 ? x : y).f32[4 * (order >> (i / 4 * 2) & 3) + i % 4];
    return z.f;
}

static inline __m256i to_halves512(__m512 v) {
    lanes512 x = {.f = v};
    uint16_t halves[16];
    __m256i r;
    for (int i = 0; i < 16; i++) halves[i] = plait_f16_from_f32(x.f32[i]);
    memcpy(&r, halves, sizeof r);
    return r;
}

static inline __m128i to_halves256(__m256 v) {
    lanes256 x = {.f = v};
    uint16_t halves[8];
    __m128i r;
    for (int i = 0; i < 8; i++) halves[i] = plait_f16_from_f32(x.f32[i]);
    memcpy(&r, halves, sizeof r);
    return r;
}

#undef _mm512_shuffle_f32x4
#undef _mm512_cvtps_ph
#undef _mm256_cvtps_ph
#define _mm512_shuffle_f32x4(a, b, order) parts512(a, b, order)
#define _mm512_cvtps_ph(v, rounding)      to_halves512(v)
#define _mm256_cvtps_ph(v, rounding)      to_halves256(v)

enum { ROW = 200, ROW_ROOM = 4 * PLAIT_CPU_KEYS * 4 };

/* Two outputs of a function, one of each table, in memory that starts alike. */
typedef struct pair {
    float a[ROW_ROOM], b[ROW_ROOM];
} pair;

static inline void pair_begin(pair *p) {
    memset(p, 0x5A, sizeof *p);
}
static inline void pair_end(const pair *p, const char *what, int64_t n) {
    if (memcmp(p->a, p->b, sizeof p->a) != 0) fail_msg("%s of %d differs", what, (int)n);
}

static inline void random_row(float *x, int64_t n, float size) {
    for (int64_t i = 0; i < n; i++) x[i] = random_float() * size;
}

static inline void compare_rows(const plait_cpu_simd *one, const plait_cpu_simd *two, int64_t n) {
    float x[ROW + 16], y[ROW + 16], z[ROW + 16];
    pair p;
    random_row(x, ROW, 12.0f);
    random_row(y, ROW, 3.0f);
    random_row(z, ROW, 1.0f);
#define COMPARE(what, call_one, call_two)                                                                    \
    pair_begin(&p);                                                                                          \
    call_one;                                                                                                \
    call_two;                                                                                                \
    pair_end(&p, what, n)
    COMPARE("rms_norm", one->rms_norm(x, y, 1e-5f, n, p.a), two->rms_norm(x, y, 1e-5f, n, p.b));
    COMPARE("rms_norm", one->rms_norm(x, NULL, 1e-5f, n, p.a), two->rms_norm(x, NULL, 1e-5f, n, p.b));
    COMPARE("layer_norm", one->layer_norm(x, y, z, 1e-5f, n, p.a), two->layer_norm(x, y, z, 1e-5f, n, p.b));
    for (int f = PLAIT_CPU_SILU; f <= PLAIT_CPU_SOFTCAP; f++) {
        plait_cpu_unary_function u = (plait_cpu_unary_function)f;
        COMPARE("unary", one->unary(u, 2.5f, x, n, p.a), two->unary(u, 2.5f, x, n, p.b));
    }
    for (int f = PLAIT_CPU_PLUS; f <= PLAIT_CPU_GEGLU; f++)
        for (int step = 0; step < 2; step++) {
            plait_cpu_binary_function b = (plait_cpu_binary_function)f;
            COMPARE("binary", one->binary(b, x, y, step, n, p.a), two->binary(b, x, y, step, n, p.b));
        }
    COMPARE("turn_halves", one->turn_halves(x, n / 2, y, z, n / 2, p.a),
            two->turn_halves(x, n / 2, y, z, n / 2, p.b));
    COMPARE("turn_pairs", one->turn_pairs(x, y, z, n / 2, p.a), two->turn_pairs(x, y, z, n / 2, p.b));
    double w[ROW];
    for (int i = 0; i < ROW; i++) w[i] = 1.0 / (1 + i);
    COMPARE("angles", one->angles(w, n, 99991, 1.1f, p.a, p.a + ROW),
            two->angles(w, n, 99991, 1.1f, p.b, p.b + ROW));
    COMPARE("largest", p.a[0] = one->largest(x, -1.5f, n), p.b[0] = two->largest(x, -1.5f, n));
    COMPARE("exps", p.a[ROW] = one->exps(x, 1.5f, 20.0f, n, p.a),
            p.b[ROW] = two->exps(x, 1.5f, 20.0f, n, p.b));
    assert_int_equal(one->find_above(x, 11.0f, 0, n), two->find_above(x, 11.0f, 0, n));
}

static inline void compare_formats(const plait_cpu_simd *one, const plait_cpu_simd *two) {
    static const plait_dtype dtypes[] = {PLAIT_F32, PLAIT_F16, PLAIT_BF16, PLAIT_Q8_0, PLAIT_Q4_0};
    float x[ROW];
    pair p, q;
    random_row(x, ROW, 5.0f);
    x[3] = 1e-40f, x[70] = 1e9f, x[100] = -0.0f;
    for (size_t d = 0; d < sizeof dtypes / sizeof dtypes[0]; d++) {
        int64_t n = plait_dtype_quantised(dtypes[d]) ? 192 : 197;
        pair_begin(&p), pair_begin(&q);
        assert_true(one->encode(dtypes[d], x, p.a, n) && two->encode(dtypes[d], x, p.b, n));
        pair_end(&p, "encode", (int)dtypes[d]);
        assert_true(one->decode(dtypes[d], p.a, q.a, n) && two->decode(dtypes[d], p.a, q.b, n));
        pair_end(&q, "decode", (int)dtypes[d]);
    }
}

/* Blocks of keys: dots, weights, sums, the end. */
static inline void compare_attention(const plait_cpu_simd *one, const plait_cpu_simd *two, int rows,
                                     plait_cpu_key_form form, int64_t d, int begin, int end) {
    static float keys[PLAIT_CPU_KEYS * ROW], q[5 * ROW];
    uint16_t halves[PLAIT_CPU_KEYS * ROW];
    const void *row[PLAIT_CPU_KEYS];
    pair s, o;
    const plait_cpu_ahead ahead = {(const char *)keys, rows % 2 ? d * 4 : 0};
    random_row(keys, PLAIT_CPU_KEYS * d, 1.0f);
    random_row(q, rows * d, 1.0f);
    for (int64_t i = 0; i < PLAIT_CPU_KEYS * d; i++)
        halves[i] = form == PLAIT_CPU_KEYS_BF16 ? plait_bf16_from_f32(keys[i]) : plait_f16_from_f32(keys[i]);
    for (int j = begin; j < end; j++)
        row[j] = form == PLAIT_CPU_KEYS_F32 ? (const void *)(keys + j * d) : halves + j * d;
    pair_begin(&s), pair_begin(&o);
    one->dots(q, rows, form, row, d, begin, end, s.a, ahead);
    two->dots(q, rows, form, row, d, begin, end, s.b, ahead);
    plait_cpu_softmax a[5], b[5];
    for (int r = 0; r < rows; r++) {
        /* tiles may reach to different places beside [begin, end) */
        for (int j = begin; j < end; j++)
            assert_true(s.a[r * PLAIT_CPU_KEYS + j] == s.b[r * PLAIT_CPU_KEYS + j]);
        a[r] = b[r] = (plait_cpu_softmax){-0.5f, 2.0f};
        float older = one->weights(s.a + r * PLAIT_CPU_KEYS, begin, end, 0.3f, r % 2 ? 4.0f : 0.0f, &a[r]);
        assert_true(older ==
                    two->weights(s.b + r * PLAIT_CPU_KEYS, begin, end, 0.3f, r % 2 ? 4.0f : 0.0f, &b[r]));
        assert_true(a[r].max == b[r].max && a[r].sum == b[r].sum);
        assert_memory_equal(s.a + r * PLAIT_CPU_KEYS + begin, s.b + r * PLAIT_CPU_KEYS + begin,
                            (size_t)(end - begin) * 4);
    }
    for (int64_t i = 0; i < rows * d; i++) o.a[i] = o.b[i] = q[i];
    one->sums(s.a, rows, form, row, d, begin, end, o.a, d, ahead);
    two->sums(s.b, rows, form, row, d, begin, end, o.b, d, ahead);
    one->merge(&a[0], o.a, &a[rows - 1], o.a + (rows - 1) * d, d);
    two->merge(&b[0], o.b, &b[rows - 1], o.b + (rows - 1) * d, d);
    assert_true(a[0].max == b[0].max && a[0].sum == b[0].sum);
    pair_end(&o, "sums", d);
    pair_begin(&s);
    one->finish(&a[0], q, o.a, d - 3, s.a);
    two->finish(&b[0], q, o.b, d - 3, s.b);
    pair_end(&s, "finish", d);
}

static inline void compare_tables(const plait_cpu_simd *one, const plait_cpu_simd *two) {
    int cases = 0;
    for (int64_t n = 0; n < ROW; n += n < 20 ? 1 : 23, cases++) compare_rows(one, two, n);
    compare_formats(one, two);
    for (int rows = 1; rows <= 5; rows++)
        for (int form = PLAIT_CPU_KEYS_F32; form <= PLAIT_CPU_KEYS_BF16; form++)
            for (int64_t d = 16; d <= 192; d += 80)
                for (int begin = 0; begin < 20; begin += 7, cases++)
                    compare_attention(one, two, rows, (plait_cpu_key_form)form, d, begin, 64 - begin / 2);
    print_message("%d cases, %s\n", cases, two->isa);
}

#endif
