/* How rows are stored in a cache: as their format's encoder does, but for Q8_0 and Q4_0 by a plain recipe, since a
 * cache row is written once a token and layer and the encoders' search for the best scale would take longer than the
 * attention that reads it. Inline, so that kernels compile it for their instruction set; the same operations, the
 * same bytes.
 *
 *   Q8_0   d = largest |x| / 127 as f16;            code = x / d, to nearest
 *   Q4_0   d = -(the x of largest |x|) / 8 as f16;  code = x / d + 8, to nearest, at most 15
 *
 * "x / d" is x * (1 / d) in float32. d is kept within f16's finite numbers; blocks of smaller values than f16 can
 * scale become zeros. Infinities and NaNs give unspecified but initialised bytes.
 */
#ifndef PLAIT_OP_CACHE_ROW_H
#define PLAIT_OP_CACHE_ROW_H

#include "tensor/quant/blocks.h"
#include "tensor/quant/quant.h"

/* The largest |x| of 32, as bits: their order is that of magnitudes. */
static inline uint32_t plait_cache_largest(const float *x) {
    uint32_t largest = 0;
    for (int i = 0; i < 32; i++) {
        uint32_t bits = plait_f32_bits(x[i]) & 0x7FFFFFFFu;
        largest = bits > largest ? bits : largest;
    }
    return largest;
}

/* 1 / the scale that is stored; 0 where that is 0. */
static inline float plait_cache_store_scale(float d, uint8_t out[2]) {
    d = d > 65504.0f ? 65504.0f : d < -65504.0f ? -65504.0f : d;
    uint16_t half = plait_f16_from_f32(d);
    plait_store_u16(out, half);
    float stored = plait_f16_to_f32(half);
    return stored == 0 ? 0.0f : 1.0f / stored;
}

/* v as the nearest whole number, |v| < 2^22, without a call: the low bits of v + 1.5 * 2^23. */
static inline int32_t plait_cache_round(float v) {
    return (int32_t)(plait_f32_bits(v + 12582912.0f) - 0x4B400000u);
}

static inline void plait_cache_encode_q8_0(const float *x, void *blocks, int64_t n_elems) {
    plait_block_Q8_0 *b = (plait_block_Q8_0 *)blocks;
    for (; n_elems > 0; n_elems -= 32, b++, x += 32) {
        float per_d = plait_cache_store_scale(plait_f32_from_bits(plait_cache_largest(x)) / 127.0f, b->d);
        for (int i = 0; i < 32; i++) {
            float v = x[i] * per_d;
            v = v < 127.0f ? v : 127.0f;
            b->qs[i] = (int8_t)plait_cache_round(v > -127.0f ? v : -127.0f);
        }
    }
}

static inline void plait_cache_encode_q4_0(const float *x, void *blocks, int64_t n_elems) {
    plait_block_Q4_0 *b = (plait_block_Q4_0 *)blocks;
    for (; n_elems > 0; n_elems -= 32, b++, x += 32) {
        uint32_t largest = plait_cache_largest(x);
        int at = 0;
        while (at < 31 && (plait_f32_bits(x[at]) & 0x7FFFFFFFu) != largest) at++;
        float per_d = plait_cache_store_scale(x[at] / -8.0f, b->d);
        uint8_t q[32];
        for (int i = 0; i < 32; i++) {
            float v = x[i] * per_d + 8.0f;
            v = v < 15.0f ? v : 15.0f;
            q[i] = (uint8_t)plait_cache_round(v > 0.0f ? v : 0.0f);
        }
        for (int i = 0; i < 16; i++) b->qs[i] = (uint8_t)(q[i] | q[i + 16] << 4);
    }
}

/* n_elems values, whole blocks. */
static inline void plait_cache_encode(plait_dtype dtype, const float *x, void *blocks, int64_t n_elems) {
    if (dtype == PLAIT_Q8_0)
        plait_cache_encode_q8_0(x, blocks, n_elems);
    else if (dtype == PLAIT_Q4_0)
        plait_cache_encode_q4_0(x, blocks, n_elems);
    else
        plait_quant_of(dtype)->encode(x, NULL, blocks, n_elems);
}

#endif
