/* Vectors of sixteen rows: AVX-512 F, BW, VL, DQ, and VNNI in files that use vi_dots. A test compiles the files over
 * this header with emulated intrinsics; it includes them itself and defines PLAIT_EMULATED. */
#ifndef PLAIT_DEVICE_CPU_MATMUL_VEC_AVX512_H
#define PLAIT_DEVICE_CPU_MATMUL_VEC_AVX512_H

#include "device/cpu/matmul/vec.h"

#ifndef PLAIT_EMULATED
#include <immintrin.h>
#endif

/* A vector is a whole group of rows, so a kernel has one part; eight columns of sums fit beside the codes in 32
 * registers. */
#define LANES         16
#define CODES_SCALED  1
#define MICRO_COLUMNS 8

typedef __m512 VF;
typedef __m512i VI;
typedef __m512i VB;

INLINE VF vf_load(const float *p) {
    return _mm512_loadu_ps(p);
}
INLINE void vf_store(float *p, VF v) {
    _mm512_storeu_ps(p, v);
}
INLINE VF vf_set(float x) {
    return _mm512_set1_ps(x);
}
INLINE VF vf_mul(VF a, VF b) {
    return _mm512_mul_ps(a, b);
}
INLINE VF vf_add(VF a, VF b) {
    return _mm512_add_ps(a, b);
}
INLINE VF vf_negate(VF a) {
    return _mm512_castsi512_ps(_mm512_xor_si512(_mm512_castps_si512(a), _mm512_set1_epi32(INT32_MIN)));
}
INLINE VF vf_fma(VF a, VF b, VF c) {
    return _mm512_fmadd_ps(a, b, c);
}
INLINE VF vf_from_int(VI v) {
    return _mm512_cvtepi32_ps(v);
}
INLINE VF vf_half(const uint16_t *p) {
    return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(const void *)p));
}
/* The upper half of a float32: exact, and NaN keeps its bits. */
INLINE VF vf_bfloat(const uint16_t *p) {
    VI wide = _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)(const void *)p));
    return _mm512_castsi512_ps(_mm512_slli_epi32(wide, 16));
}
INLINE VF vf_bytes(const uint8_t *p) {
    return _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)(const void *)p)));
}
INLINE VF vf_signed_bytes(const int8_t *p) {
    return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i *)(const void *)p)));
}

/* Bytes without a sign, one a row, as 32-bit numbers. */
INLINE VI vi_bytes(const uint8_t *p) {
    return _mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)(const void *)p));
}
INLINE VF vf_low_nibbles(const uint8_t *p) {
    return _mm512_cvtepi32_ps(_mm512_and_si512(vi_bytes(p), _mm512_set1_epi32(15)));
}
INLINE VF vf_high_nibbles(const uint8_t *p) {
    return _mm512_cvtepi32_ps(_mm512_srli_epi32(vi_bytes(p), 4));
}
/* 2^(e - 128): two factors, since one may be subnormal. */
INLINE VF vf_power(const uint8_t *p) {
    const VI bias = _mm512_set1_epi32(63);
    VI e = vi_bytes(p), half = _mm512_srli_epi32(e, 1), rest = _mm512_sub_epi32(e, half);
    return _mm512_mul_ps(_mm512_castsi512_ps(_mm512_slli_epi32(_mm512_add_epi32(half, bias), 23)),
                         _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_add_epi32(rest, bias), 23)));
}

INLINE VB vb_load(const uint8_t *p) {
    return _mm512_loadu_si512(p);
}
INLINE void vb_store(uint8_t *p, VB v) {
    _mm512_storeu_si512(p, v);
}
INLINE VB vb_or(VB a, VB b) {
    return _mm512_or_si512(a, b);
}
/* Bits [from, from + bits) of each byte, moved to bit `to`; shifted in 16-bit lanes, the neighbour's bits masked
 * out. */
INLINE VB vb_place(VB v, int from, int bits, int to) {
    if (to > from) v = _mm512_slli_epi16(v, (unsigned)(to - from));
    if (to < from) v = _mm512_srli_epi16(v, (unsigned)(from - to));
    return _mm512_and_si512(v, _mm512_set1_epi8((char)(((1 << bits) - 1) << to)));
}
/* values[index] for indices of 0 to 15; the table stands in each 128-bit part. */
INLINE VB vb_lookup(VB index, const uint8_t *values) {
    __m128i table = _mm_loadu_si128((const __m128i *)(const void *)values);
    return _mm512_shuffle_epi8(_mm512_broadcast_i32x4(table), index);
}
/* With dpbusd codes stay unsigned: it multiplies unsigned by signed bytes, and adds to 32 bits without saturating. */
INLINE VB vb_code8(VB v) {
    return v;
}

#ifdef VEC_DOT4
/* Steps [first, first + count) of the block for each column, from the column's start. */
INLINE void vi_dots(VI *out, const VB *code, const plait_cpu_block *x, int columns, int first, int count,
                    int start, int bits, int e) {
    (void)bits, (void)e;
    UNROLL
    for (int j = 0; j < columns; j++) {
        out[j] = _mm512_set1_epi32(start_of(&x[j], start));
        UNROLL
        for (int c = first; c < first + count; c++)
            out[j] = VEC_DOT4(out[j], code[c], _mm512_set1_epi32(load_four(x[j].q + 4 * c)));
    }
}
#endif
#endif
