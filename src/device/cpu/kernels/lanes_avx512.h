/* What lanes.h needs, with AVX-512 F, BW, VL and DQ: one register. Its halves are added first, then as with AVX2, so
 * that sums follow the same tree; _mm512_reduce_add_ps would leave the order to the compiler. */
#ifndef PLAIT_DEVICE_CPU_KERNELS_LANES_AVX512_H
#define PLAIT_DEVICE_CPU_KERNELS_LANES_AVX512_H

#include "device/cpu/matmul/vec_avx512.h"
#include "tensor/quant/blocks.h"

INLINE VF vf_sub(VF a, VF b) {
    return _mm512_sub_ps(a, b);
}
INLINE VF vf_div(VF a, VF b) {
    return _mm512_div_ps(a, b);
}
/* As maxps and minps of AVX2. */
INLINE VF vf_max(VF a, VF b) {
    return _mm512_max_ps(a, b);
}
INLINE VF vf_min(VF a, VF b) {
    return _mm512_min_ps(a, b);
}
/* Where the mask is set, x. */
INLINE VF vf_if_less(VF a, VF b, VF x, VF y) {
    return _mm512_mask_blend_ps(_mm512_cmp_ps_mask(a, b, _CMP_LT_OQ), y, x);
}
INLINE VF vf_abs(VF a) {
    return _mm512_castsi512_ps(_mm512_and_si512(_mm512_castps_si512(a), _mm512_set1_epi32(INT32_MAX)));
}
INLINE VF vf_copysign(VF a, VF b) {
    VI sign = _mm512_and_si512(_mm512_castps_si512(b), _mm512_set1_epi32(INT32_MIN));
    return _mm512_castsi512_ps(_mm512_or_si512(_mm512_castps_si512(vf_abs(a)), sign));
}
/* As in lanes_avx2.h. */
INLINE VF vf_exp2_of(VF t) {
    VI bits = _mm512_slli_epi32(_mm512_castps_si512(t), 23);
    return _mm512_castsi512_ps(_mm512_add_epi32(bits, _mm512_set1_epi32(0x3F800000)));
}
INLINE VF vf_swap_pairs(VF a) {
    return _mm512_shuffle_ps(a, a, 0xB1);
}

/* One number of 16 bits. */
INLINE float half_at(const void *p) {
    return _mm_cvtss_f32(_mm_cvtph_ps(_mm_cvtsi32_si128(plait_load_u16(p))));
}
/* Codes of 4 bits, less 8: of the low halves of bytes, of the high ones. */
INLINE VF vf_nibbles(const uint8_t *p, bool high) {
    VI v = _mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)(const void *)p));
    v = high ? _mm512_srli_epi32(v, 4) : _mm512_and_si512(v, _mm512_set1_epi32(15));
    return _mm512_cvtepi32_ps(_mm512_sub_epi32(v, _mm512_set1_epi32(8)));
}

#include "device/cpu/kernels/lanes.h"

/* Lanes 8 to 15. */
INLINE __m256 upper_half(VF v) {
    return _mm512_castps512_ps256(_mm512_shuffle_f32x4(v, v, 0x4E));
}

/* The step of 8 lanes adds the halves; from there on it is the code of AVX2. */
INLINE float w_sum(W v) {
    __m256 a = _mm256_add_ps(_mm512_castps512_ps256(v.p[0]), upper_half(v.p[0]));
    __m128 b = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    b = _mm_add_ps(b, _mm_movehl_ps(b, b));
    return _mm_cvtss_f32(_mm_add_ss(b, _mm_shuffle_ps(b, b, 1)));
}
INLINE float w_largest(W v) {
    __m256 a = _mm256_max_ps(_mm512_castps512_ps256(v.p[0]), upper_half(v.p[0]));
    __m128 b = _mm_max_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    b = _mm_max_ps(b, _mm_movehl_ps(b, b));
    return _mm_cvtss_f32(_mm_max_ss(b, _mm_shuffle_ps(b, b, 1)));
}
/* The processor's conversion makes signalling NaNs quiet, ours keeps them. */
INLINE void w_store_half(uint16_t *p, W v) {
    if (_mm512_cmp_ps_mask(v.p[0], v.p[0], _CMP_UNORD_Q) == 0) {
        _mm256_storeu_si256((__m256i *)(void *)p, _mm512_cvtps_ph(v.p[0], _MM_FROUND_TO_NEAREST_INT));
        return;
    }
    float lanes[LANES];
    vf_store(lanes, v.p[0]);
    for (int k = 0; k < LANES; k++) p[k] = plait_f16_from_f32(lanes[k]);
}

/* Thirty-two registers: a tile of sixteen dots takes half of them, and so do four rows of four vectors. */
#define TILE_ROWS 4
#define TILE_KEYS 4
#define WIDE      4
#define WIDE_ONE  8

/* Sums over lanes of four vectors: number n stands four times, as lanes 4n .. 4n+3 that are still to be added. */
INLINE VF quarter_sums(const W v[4]) {
    VF ab = _mm512_add_ps(_mm512_shuffle_f32x4(v[0].p[0], v[1].p[0], 0x44),
                          _mm512_shuffle_f32x4(v[0].p[0], v[1].p[0], 0xEE));
    VF cd = _mm512_add_ps(_mm512_shuffle_f32x4(v[2].p[0], v[3].p[0], 0x44),
                          _mm512_shuffle_f32x4(v[2].p[0], v[3].p[0], 0xEE));
    return _mm512_add_ps(_mm512_shuffle_f32x4(ab, cd, 0x88), _mm512_shuffle_f32x4(ab, cd, 0xDD));
}

/* Sums over lanes of all dots at once; the tree is that of w_sum. After the first steps a row's four keys are the
 * 128-bit parts of one vector; two more steps pair the rows. */
INLINE void w_store_sums(const W dots[TILE_ROWS][TILE_KEYS], int rows, float *out, int64_t stride) {
    VF q[TILE_ROWS];
    UNROLL
    for (int r = 0; r < TILE_ROWS; r++) q[r] = r < rows ? quarter_sums(dots[r]) : _mm512_setzero_ps();
    VF p01 = _mm512_add_ps(_mm512_shuffle_ps(q[0], q[1], 0x44), _mm512_shuffle_ps(q[0], q[1], 0xEE));
    VF p23 = _mm512_add_ps(_mm512_shuffle_ps(q[2], q[3], 0x44), _mm512_shuffle_ps(q[2], q[3], 0xEE));
    VF s = _mm512_add_ps(_mm512_shuffle_ps(p01, p23, 0x88), _mm512_shuffle_ps(p01, p23, 0xDD));
    /* part k, place r is the sum of row r and key k: transpose */
    const VI order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    s = _mm512_permutexvar_ps(order, s);
    _mm_storeu_ps(out, _mm512_castps512_ps128(s));
    if (rows > 1) _mm_storeu_ps(out + stride, _mm512_extractf32x4_ps(s, 1));
    if (rows > 2) _mm_storeu_ps(out + 2 * stride, _mm512_extractf32x4_ps(s, 2));
    if (rows > 3) _mm_storeu_ps(out + 3 * stride, _mm512_extractf32x4_ps(s, 3));
}

#endif
