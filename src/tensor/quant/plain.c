/* The types whose block is one number: F32, F16, BF16, F64 and the integers. Floats round to nearest, ties to even;
 * integers too, and saturate, NaN becoming 0. Decoding I32, I64 and F64 rounds to float32. Importance has no
 * effect: each element is stored as well as it can be.
 * Layouts: IEEE 754 and two's complement, little-endian.
 *
 * Invariant: decoding what was encoded gives back the same float32 wherever the type can hold it. */
#include "tensor/quant/blocks.h"
#include "tensor/quant/quant.h"

#include <math.h>

/* v rounded to an integer within [low, high]; high + 1 is a power of two, so that comparing in double is exact.
 * nearbyint rounds ties to even in the default mode. Clamping comes before the conversion, which is undefined outside
 * of the range. At 64 bits `high` is no double, but the bound that it rounds to is 2^63, and everything below it
 * fits. */
static int64_t to_integer(float v, int64_t low, int64_t high) {
    if (isnan(v)) return 0;
    double r = nearbyint((double)v);
    if (r <= (double)low) return low;
    if (r >= (double)high) return high;
    return (int64_t)r;
}

static float decode_f32(const uint8_t *p) {
    return plait_f32_from_bits(plait_load_u32(p));
}
static void encode_f32(float v, uint8_t *p) {
    plait_store_u32(p, plait_f32_bits(v));
}

static float decode_f16(const uint8_t *p) {
    return plait_load_f16(p);
}
static void encode_f16(float v, uint8_t *p) {
    plait_store_u16(p, plait_f16_from_f32(v));
}

static float decode_bf16(const uint8_t *p) {
    return plait_bf16_to_f32(plait_load_u16(p));
}
static void encode_bf16(float v, uint8_t *p) {
    plait_store_u16(p, plait_bf16_from_f32(v));
}

/* The one rounding goes to float32: beyond its range infinity, and below it zero. */
static float decode_f64(const uint8_t *p) {
    uint64_t bits = plait_load_u64(p);
    double value;
    memcpy(&value, &bits, sizeof value);
    return (float)value;
}
/* Exact: every float32 is a double. */
static void encode_f64(float v, uint8_t *p) {
    double value = v;
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    plait_store_u64(p, bits);
}

/* Exact, as are 16 bits; 32 and 64 are not beyond 2^24. */
static float decode_i8(const uint8_t *p) {
    return (float)(int8_t)*p;
}
static void encode_i8(float v, uint8_t *p) {
    *p = (uint8_t)to_integer(v, INT8_MIN, INT8_MAX);
}

static float decode_i16(const uint8_t *p) {
    return (float)(int16_t)plait_load_u16(p);
}
static void encode_i16(float v, uint8_t *p) {
    plait_store_u16(p, (uint16_t)to_integer(v, INT16_MIN, INT16_MAX));
}

static float decode_i32(const uint8_t *p) {
    return (float)(int32_t)plait_load_u32(p);
}
static void encode_i32(float v, uint8_t *p) {
    plait_store_u32(p, (uint32_t)to_integer(v, INT32_MIN, INT32_MAX));
}

static float decode_i64(const uint8_t *p) {
    return (float)(int64_t)plait_load_u64(p);
}
static void encode_i64(float v, uint8_t *p) {
    plait_store_u64(p, (uint64_t)to_integer(v, INT64_MIN, INT64_MAX));
}

/* Row functions and table entry of one plain type, from its element functions. Blocks of one element have no alignment
 * in a file, hence bytes and not numbers. */
#define PLAIN_FORMAT(name, lower)                                                                            \
    static void decode_row_##lower(const void *blocks, float *out, int64_t n_elems) {                        \
        const plait_block_##name *b = blocks;                                                                \
        for (int64_t i = 0; i < n_elems; i++) out[i] = decode_##lower(b[i].bytes);                           \
    }                                                                                                        \
    static void encode_row_##lower(const float *x, const float *importance, void *blocks, int64_t n_elems) { \
        plait_block_##name *b = blocks;                                                                      \
        (void)importance;                                                                                    \
        for (int64_t i = 0; i < n_elems; i++) encode_##lower(x[i], b[i].bytes);                              \
    }                                                                                                        \
    const plait_quant plait_quant_##name = {PLAIT_##name, decode_row_##lower, encode_row_##lower};

PLAIN_FORMAT(F32, f32)
PLAIN_FORMAT(F16, f16)
PLAIN_FORMAT(BF16, bf16)
PLAIN_FORMAT(F64, f64)
PLAIN_FORMAT(I8, i8)
PLAIN_FORMAT(I16, i16)
PLAIN_FORMAT(I32, i32)
PLAIN_FORMAT(I64, i64)
