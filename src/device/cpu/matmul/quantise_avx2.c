/* One quantised block with AVX2; the definition is in quantise.c. Not here: rare blocks (too small, not finite), which
 * the portable code settles. Invariant: the same bytes: each vector operation is the scalar one of quantise.c lane by
 * lane, and sums follow its tree. */
#include "device/cpu/matmul/kernels.h"

#ifndef PLAIT_EMULATED
#include <immintrin.h>
#endif

#include <math.h>
#include <string.h>

/* As integers without a sign, as there: a maximum of floats would lose NaN. */
static uint32_t largest_magnitude(const __m256 v[4]) {
    const __m256i mask = _mm256_set1_epi32(0x7FFFFFFF);
    __m256i m = _mm256_and_si256(_mm256_castps_si256(v[0]), mask);
    for (int i = 1; i < 4; i++) m = _mm256_max_epu32(m, _mm256_and_si256(_mm256_castps_si256(v[i]), mask));
    __m128i h = _mm_max_epu32(_mm256_castsi256_si128(m), _mm256_extracti128_si256(m, 1));
    h = _mm_max_epu32(h, _mm_shuffle_epi32(h, 0x4E));
    h = _mm_max_epu32(h, _mm_shuffle_epi32(h, 0xB1));
    return (uint32_t)_mm_cvtsi128_si32(h);
}

/* Integers, so the order is free. */
static int32_t sum_of(__m256i v) {
    __m128i h = _mm_add_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
    h = _mm_add_epi32(h, _mm_shuffle_epi32(h, 0x4E));
    h = _mm_add_epi32(h, _mm_shuffle_epi32(h, 0xB1));
    return _mm_cvtsi128_si32(h);
}

/* As in quantise.c, lane for lane: lane i sums elements i, i + 8, i + 16, i + 24; then i + (i + 4), + 2, + 1. Products
 * are rounded before they are added, as there; fma would give other bytes. */
static float best_top(const __m256 v[4], float a) {
    float best = 0, best_error = INFINITY;
    for (int c = 0; c < PLAIT_CPU_QUANTISE_TOPS; c++) {
        float top = plait_cpu_quantise_tops[c], ratio = 127.0f / top;
        const __m256 r = _mm256_set1_ps(top / a);
        __m256 lanes = _mm256_setzero_ps();
        for (int i = 0; i < 4; i++) {
            __m256 t = _mm256_mul_ps(v[i], r);
            __m256 e = _mm256_sub_ps(t, _mm256_round_ps(t, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
            lanes = _mm256_add_ps(lanes, _mm256_mul_ps(e, e));
        }
        __m128 h = _mm_add_ps(_mm256_castps256_ps128(lanes), _mm256_extractf128_ps(lanes, 1));
        h = _mm_add_ps(h, _mm_movehl_ps(h, h));
        h = _mm_add_ss(h, _mm_movehdup_ps(h));
        float error = _mm_cvtss_f32(h) * (ratio * ratio);
        if (error < best_error) best = top, best_error = error;
    }
    return best;
}

void plait_cpu_quantise_block_avx2(const float *x, plait_cpu_block *out) {
    __m256 v[4];
    for (int i = 0; i < 4; i++) v[i] = _mm256_loadu_ps(x + 8 * i);
    uint32_t largest = largest_magnitude(v);
    float a;
    memcpy(&a, &largest, sizeof a);
    if (largest >= 0x7F800000u || a < 0x1p-100f) { /* rare, and settled in one place */
        plait_cpu_quantise_block_portable(x, out);
        return;
    }
    float top = best_top(v, a);
    const __m256 r = _mm256_set1_ps(top / a);
    __m256i q[4];
    for (int i = 0; i < 4; i++) q[i] = _mm256_cvtps_epi32(_mm256_mul_ps(v[i], r));
    int32_t low = sum_of(_mm256_add_epi32(q[0], q[1])), high = sum_of(_mm256_add_epi32(q[2], q[3]));
    /* Packing works within 128-bit halves, so fours come out as 0 1 2 3 of the low halves, then of the high ones; the
     * permutation puts them in order. Nothing saturates: |q| is at most 127. */
    __m256i bytes = _mm256_packs_epi16(_mm256_packs_epi32(q[0], q[1]), _mm256_packs_epi32(q[2], q[3]));
    bytes = _mm256_permutevar8x32_epi32(bytes, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
    _mm256_storeu_si256((__m256i *)(void *)out->q, bytes);
    out->d = a / top;
    out->s = out->d * (float)(low + high);
    out->offset_half[0] = -128 * low;
    out->offset_half[1] = -128 * high;
    out->offset = out->offset_half[0] + out->offset_half[1];
}
