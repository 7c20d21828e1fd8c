/* Vectors of eight rows: AVX2, FMA and F16C, and AVX-VNNI where VEC_DOT4 names its instruction. A test compiles the
 * files over this header with emulated intrinsics; it includes them itself and defines PLAIT_EMULATED. */
#ifndef PLAIT_DEVICE_CPU_MATMUL_VEC_AVX2_H
#define PLAIT_DEVICE_CPU_MATMUL_VEC_AVX2_H

#include "device/cpu/matmul/vec.h"

#ifndef PLAIT_EMULATED
#include <immintrin.h>
#endif

/* Half a group of rows: kernels have two parts. Four columns of sums leave room for codes and scales in 16
 * registers. */
#define LANES         8
#define MICRO_COLUMNS 4

typedef __m256 VF;
typedef __m256i VI;
typedef __m256i VB;

INLINE VF vf_load(const float *p) {
    return _mm256_loadu_ps(p);
}
INLINE void vf_store(float *p, VF v) {
    _mm256_storeu_ps(p, v);
}
INLINE VF vf_set(float x) {
    return _mm256_set1_ps(x);
}
INLINE VF vf_mul(VF a, VF b) {
    return _mm256_mul_ps(a, b);
}
INLINE VF vf_add(VF a, VF b) {
    return _mm256_add_ps(a, b);
}
INLINE VF vf_negate(VF a) {
    return _mm256_xor_ps(a, _mm256_set1_ps(-0.0f));
}
INLINE VF vf_fma(VF a, VF b, VF c) {
    return _mm256_fmadd_ps(a, b, c);
}
INLINE VF vf_from_int(VI v) {
    return _mm256_cvtepi32_ps(v);
}
INLINE VF vf_half(const uint16_t *p) {
    return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)p));
}
/* The upper half of a float32: exact, and NaN keeps its bits. */
INLINE VF vf_bfloat(const uint16_t *p) {
    VI wide = _mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)(const void *)p));
    return _mm256_castsi256_ps(_mm256_slli_epi32(wide, 16));
}
INLINE VF vf_bytes(const uint8_t *p) {
    return _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)(const void *)p)));
}
INLINE VF vf_signed_bytes(const int8_t *p) {
    return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *)(const void *)p)));
}

INLINE VI vi_bytes(const uint8_t *p) {
    return _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)(const void *)p));
}
INLINE VF vf_low_nibbles(const uint8_t *p) {
    return _mm256_cvtepi32_ps(_mm256_and_si256(vi_bytes(p), _mm256_set1_epi32(15)));
}
INLINE VF vf_high_nibbles(const uint8_t *p) {
    return _mm256_cvtepi32_ps(_mm256_srli_epi32(vi_bytes(p), 4));
}
/* 2^(e - 128): two factors, since one may be subnormal. */
INLINE VF vf_power(const uint8_t *p) {
    const VI bias = _mm256_set1_epi32(63);
    VI e = vi_bytes(p), half = _mm256_srli_epi32(e, 1), rest = _mm256_sub_epi32(e, half);
    return _mm256_mul_ps(_mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(half, bias), 23)),
                         _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(rest, bias), 23)));
}

INLINE VB vb_load(const uint8_t *p) {
    return _mm256_loadu_si256((const __m256i *)(const void *)p);
}
INLINE void vb_store(uint8_t *p, VB v) {
    _mm256_storeu_si256((__m256i *)(void *)p, v);
}
INLINE VB vb_or(VB a, VB b) {
    return _mm256_or_si256(a, b);
}
/* Bits [from, from + bits) of each byte, moved to bit `to`. There are no shifts of bytes: those of 16-bit lanes bring
 * bits of the neighbour, which the mask removes. */
INLINE VB vb_place(VB v, int from, int bits, int to) {
    if (to > from) v = _mm256_slli_epi16(v, to - from);
    if (to < from) v = _mm256_srli_epi16(v, from - to);
    return _mm256_and_si256(v, _mm256_set1_epi8((char)(((1 << bits) - 1) << to)));
}

/* values[index] for indices of 0 to 15; the table stands in both halves, since the instruction looks within each. */
INLINE VB vb_lookup(VB index, const uint8_t *values) {
    __m128i table = _mm_loadu_si128((const __m128i *)(const void *)values);
    return _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(table), index);
}

/* With the dot instruction sums need no care: 32 bits, from the first product on. */
#ifdef VEC_DOT4

#define CODES_SCALED 1

INLINE VB vb_code8(VB v) {
    return v;
}
/* Steps [first, first + count) of the block for each column, from the column's start. */
INLINE void vi_dots(VI *out, const VB *code, const plait_cpu_block *x, int columns, int first, int count,
                    int start, int bits, int e) {
    (void)bits, (void)e;
    UNROLL
    for (int j = 0; j < columns; j++) out[j] = _mm256_set1_epi32(start_of(&x[j], start));
    UNROLL
    for (int c = first; c < first + count; c++) UNROLL
    for (int j = 0; j < columns; j++)
        out[j] = VEC_DOT4(out[j], code[c], _mm256_set1_epi32(load_four(x[j].q + 4 * c)));
}

#else

#define CODES_SCALED 0

/* Codes of eight bits are taken as signed, so that pairs of products fit in 16 bits. */
INLINE VB vb_code8(VB v) {
    return _mm256_xor_si256(v, _mm256_set1_epi8((char)0x80));
}

/* 16-bit sums of pairs of products: of unsigned codes, or of |code| and q with the code's sign. vpmaddubsw saturates:
 * with codes of at most 7 bits 2 * 127 * 127 = 32258 fits, with those of eight it would not, hence the signs; |code|
 * may then be 128, and 2 * 128 * 127 = 32512 fits too. */
INLINE VI pairs(VB code, VB q, int bits) {
    if (bits == 8) return _mm256_maddubs_epi16(_mm256_abs_epi8(code), _mm256_sign_epi8(q, code));
    return _mm256_maddubs_epi16(code, q);
}

/* As many pair sums as fit are added in 16 bits before they are widened: 2 * 127 * (2^bits - 1) each, which is 30480
 * for eight of 4 bits, 31496 for four of 5, 32004 for two of 6. Widening multiplies by 2^e, so that codes count as they
 * do where they were shifted when loaded; codes of eight bits have lost their offset to the sign, so nothing is started
 * from. */
INLINE void vi_dots(VI *out, const VB *code, const plait_cpu_block *x, int columns, int first, int count,
                    int start, int bits, int e) {
    const int together = bits <= 4 ? 8 : bits == 5 ? 4 : bits == 6 ? 2 : 1;
    const VI factor = _mm256_set1_epi16((short)(1 << e));
    VI sum[MICRO_COLUMNS];
    UNROLL
    for (int j = 0; j < columns; j++) out[j] = _mm256_set1_epi32(bits == 8 ? 0 : start_of(&x[j], start));
    UNROLL
    for (int c = first; c < first + count; c++) UNROLL
    for (int j = 0; j < columns; j++) {
        VI p = pairs(code[c], _mm256_set1_epi32(load_four(x[j].q + 4 * c)), bits);
        sum[j] = (c - first) % together == 0 ? p : _mm256_add_epi16(sum[j], p);
        if ((c - first) % together == together - 1 || c == first + count - 1)
            out[j] = _mm256_add_epi32(out[j], _mm256_madd_epi16(sum[j], factor));
    }
}

#endif
#endif
