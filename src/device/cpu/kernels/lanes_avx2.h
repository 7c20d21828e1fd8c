/* What lanes.h needs, with AVX2, FMA and F16C: two registers of eight. The first step of a sum over lanes, i + (i + 8),
 * is the sum of the two. */
#ifndef PLAIT_DEVICE_CPU_KERNELS_LANES_AVX2_H
#define PLAIT_DEVICE_CPU_KERNELS_LANES_AVX2_H

#include "device/cpu/matmul/vec_avx2.h"
#include "tensor/quant/blocks.h"

INLINE VF vf_sub(VF a, VF b) {
    return _mm256_sub_ps(a, b);
}
INLINE VF vf_div(VF a, VF b) {
    return _mm256_div_ps(a, b);
}
/* maxps and minps: the second operand where either is NaN or both are zeros. */
INLINE VF vf_max(VF a, VF b) {
    return _mm256_max_ps(a, b);
}
INLINE VF vf_min(VF a, VF b) {
    return _mm256_min_ps(a, b);
}
/* LT_OQ: false where an operand is NaN, and quiet. */
INLINE VF vf_if_less(VF a, VF b, VF x, VF y) {
    return _mm256_blendv_ps(y, x, _mm256_cmp_ps(a, b, _CMP_LT_OQ));
}
INLINE VF vf_abs(VF a) {
    return _mm256_andnot_ps(_mm256_set1_ps(-0.0f), a);
}
/* The sign bit is that of -0. */
INLINE VF vf_copysign(VF a, VF b) {
    return _mm256_or_ps(vf_abs(a), _mm256_and_ps(b, _mm256_set1_ps(-0.0f)));
}
/* The low bits of t hold n; shifted into the exponent and added to the bits of 1.0 they make 2^n. What is above them is
 * shifted out. */
INLINE VF vf_exp2_of(VF t) {
    VI bits = _mm256_slli_epi32(_mm256_castps_si256(t), 23);
    return _mm256_castsi256_ps(_mm256_add_epi32(bits, _mm256_set1_epi32(0x3F800000)));
}
/* 0xB1: 1 0 3 2, within each half. */
INLINE VF vf_swap_pairs(VF a) {
    return _mm256_permute_ps(a, 0xB1);
}

/* One number of 16 bits. */
INLINE float half_at(const void *p) {
    return _mm_cvtss_f32(_mm_cvtph_ps(_mm_cvtsi32_si128(plait_load_u16(p))));
}
/* Codes of 4 bits, less 8: of the low halves of bytes, of the high ones. */
INLINE VF vf_nibbles(const uint8_t *p, bool high) {
    VI v = _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)(const void *)p));
    v = high ? _mm256_srli_epi32(v, 4) : _mm256_and_si256(v, _mm256_set1_epi32(15));
    return _mm256_cvtepi32_ps(_mm256_sub_epi32(v, _mm256_set1_epi32(8)));
}

#include "device/cpu/kernels/lanes.h"

/* Steps of 8, 4, 2 and 1 lanes. */
INLINE float w_sum(W v) {
    VF a = _mm256_add_ps(v.p[0], v.p[1]);
    __m128 b = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    b = _mm_add_ps(b, _mm_movehl_ps(b, b));
    return _mm_cvtss_f32(_mm_add_ss(b, _mm_shuffle_ps(b, b, 1)));
}
INLINE float w_largest(W v) {
    VF a = _mm256_max_ps(v.p[0], v.p[1]);
    __m128 b = _mm_max_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    b = _mm_max_ps(b, _mm_movehl_ps(b, b));
    return _mm_cvtss_f32(_mm_max_ss(b, _mm_shuffle_ps(b, b, 1)));
}
/* The processor's conversion makes signalling NaNs quiet, ours keeps them. */
INLINE void w_store_half(uint16_t *p, W v) {
    for (int i = 0; i < W_PARTS; i++) {
        if (_mm256_movemask_ps(_mm256_cmp_ps(v.p[i], v.p[i], _CMP_UNORD_Q)) == 0) {
            _mm_storeu_si128((__m128i *)(void *)(p + i * LANES),
                             _mm256_cvtps_ph(v.p[i], _MM_FROUND_TO_NEAREST_INT));
            continue;
        }
        float lanes[LANES];
        vf_store(lanes, v.p[i]);
        for (int k = 0; k < LANES; k++) p[i * LANES + k] = plait_f16_from_f32(lanes[k]);
    }
}

/* Sixteen registers: a tile of four dots takes eight of them, as do four rows of one vector, or one row of four. */
#define TILE_ROWS 2
#define TILE_KEYS 2
#define WIDE      1
#define WIDE_ONE  4
/* Sums over lanes of all dots at once; the tree is that of w_sum. */
INLINE void w_store_sums(const W dots[TILE_ROWS][TILE_KEYS], int rows, float *out, int64_t stride) {
    VF a[TILE_ROWS][TILE_KEYS], low, high;
    UNROLL
    for (int r = 0; r < rows; r++) UNROLL
    for (int k = 0; k < TILE_KEYS; k++) a[r][k] = _mm256_add_ps(dots[r][k].p[0], dots[r][k].p[1]);
    UNROLL
    for (int r = 0; r < rows; r++) {
        low = _mm256_permute2f128_ps(a[r][0], a[r][1], 0x20);
        high = _mm256_permute2f128_ps(a[r][0], a[r][1], 0x31);
        VF b = _mm256_add_ps(low, high);
        b = _mm256_add_ps(b, _mm256_permute_ps(b, 0x0E));
        b = _mm256_add_ps(b, _mm256_permute_ps(b, 0x01));
        out[r * stride] = _mm_cvtss_f32(_mm256_castps256_ps128(b));
        out[r * stride + 1] = _mm_cvtss_f32(_mm256_extractf128_ps(b, 1));
    }
}

#endif
