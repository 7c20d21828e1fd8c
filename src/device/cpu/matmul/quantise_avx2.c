/* One quantised block with AVX2; the definition is in quantise.c. */
#include "device/cpu/matmul/kernels.h"

#ifndef PLAIT_EMULATED
#include <immintrin.h>
#endif

#include <string.h>

static uint32_t largest_magnitude(const __m256 v[4]) {
    const __m256i mask = _mm256_set1_epi32(0x7FFFFFFF);
    __m256i m = _mm256_and_si256(_mm256_castps_si256(v[0]), mask);
    for (int i = 1; i < 4; i++) m = _mm256_max_epu32(m, _mm256_and_si256(_mm256_castps_si256(v[i]), mask));
    __m128i h = _mm_max_epu32(_mm256_castsi256_si128(m), _mm256_extracti128_si256(m, 1));
    h = _mm_max_epu32(h, _mm_shuffle_epi32(h, 0x4E));
    h = _mm_max_epu32(h, _mm_shuffle_epi32(h, 0xB1));
    return (uint32_t)_mm_cvtsi128_si32(h);
}

static int32_t sum_of(__m256i v) {
    __m128i h = _mm_add_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
    h = _mm_add_epi32(h, _mm_shuffle_epi32(h, 0x4E));
    h = _mm_add_epi32(h, _mm_shuffle_epi32(h, 0xB1));
    return _mm_cvtsi128_si32(h);
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
    const __m256 r = _mm256_set1_ps(127.0f / a);
    __m256i q[4];
    for (int i = 0; i < 4; i++) q[i] = _mm256_cvtps_epi32(_mm256_mul_ps(v[i], r));
    int32_t low = sum_of(_mm256_add_epi32(q[0], q[1])), high = sum_of(_mm256_add_epi32(q[2], q[3]));
    __m256i bytes = _mm256_packs_epi16(_mm256_packs_epi32(q[0], q[1]), _mm256_packs_epi32(q[2], q[3]));
    bytes = _mm256_permutevar8x32_epi32(bytes, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
    _mm256_storeu_si256((__m256i *)(void *)out->q, bytes);
    out->d = a / 127.0f;
    out->s = out->d * (float)(low + high);
    out->offset_half[0] = -128 * low;
    out->offset_half[1] = -128 * high;
    out->offset = out->offset_half[0] + out->offset_half[1];
}
