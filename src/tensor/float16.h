/* Conversions between float32 and the two 16-bit float formats, done on bits: the same result on every machine,
 * in every rounding and flush-to-zero mode, without compiler support for 16-bit floats. Not here: vector forms
 * (kernels have those) and arithmetic on 16-bit values (nothing computes in them).
 *
 * f16 is IEEE 754 binary16: 1 sign, 5 exponent, 10 fraction bits. bf16 is the upper half of a float32. Both
 * directions are exact where that is possible and otherwise round to nearest, ties to even. NaNs stay NaNs and
 * keep the upper bits of their payload, so every one of the 65536 patterns survives a round trip unchanged. */
#ifndef PLAIT_TENSOR_FLOAT16_H
#define PLAIT_TENSOR_FLOAT16_H

#include <stdint.h>
#include <string.h>

/* The bits of a float32 and back; compilers turn these into a register move. */
static inline uint32_t plait_f32_bits(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static inline float plait_f32_from_bits(uint32_t bits) {
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* Exact. 112 is the difference of the exponent biases, 127 - 15. */
static inline float plait_f16_to_f32(uint16_t half) {
    uint32_t sign = (uint32_t)(half & 0x8000u) << 16;
    uint32_t exponent = half >> 10 & 31u, fraction = half & 0x3FFu;
    if (exponent == 0) /* zero or subnormal: a multiple of 2^-24, which float32 holds as a normal number */
        return plait_f32_from_bits(sign | plait_f32_bits((float)fraction * 0x1p-24f));
    if (exponent == 31) return plait_f32_from_bits(sign | 0x7F800000u | fraction << 13);
    return plait_f32_from_bits(sign | (exponent + 112) << 23 | fraction << 13);
}

/* Adding 0xFFF plus the lowest bit that stays, then cutting 13 bits, is round to nearest, ties to even; a carry out of
 * the fraction raises the exponent, which is right. Subnormals are shifted by hand, with the same rule. */
static inline uint16_t plait_f16_from_f32(float value) {
    uint32_t bits = plait_f32_bits(value), magnitude = bits & 0x7FFFFFFFu;
    uint32_t sign = bits >> 16 & 0x8000u;
    if (magnitude > 0x7F800000u) { /* NaN: the payload must not become zero, that would be infinity */
        uint32_t payload = magnitude >> 13 & 0x3FFu;
        return (uint16_t)(sign | 0x7C00u | (payload ? payload : 0x200u));
    }
    if (magnitude >= 0x477FF000u) return (uint16_t)(sign | 0x7C00u); /* 65520 and more round to infinity */
    if (magnitude >= 0x38800000u) {                                  /* 2^-14 and more: normal */
        uint32_t rounded = magnitude + 0xFFFu + (magnitude >> 13 & 1u);
        return (uint16_t)(sign | (rounded - 0x38000000u) >> 13);
    }
    if (magnitude < 0x33000000u) return (uint16_t)sign; /* below 2^-25 */
    uint32_t shift = 126 - (magnitude >> 23);           /* 14..24: the unit becomes 2^-24 */
    uint32_t fraction = (magnitude & 0x7FFFFFu) | 0x800000u;
    uint32_t whole = fraction >> shift, rest = fraction & ((1u << shift) - 1), middle = 1u << (shift - 1);
    return (uint16_t)(sign | (whole + (rest > middle || (rest == middle && (whole & 1u)))));
}

/* Exact. */
static inline float plait_bf16_to_f32(uint16_t half) {
    return plait_f32_from_bits((uint32_t)half << 16);
}

static inline uint16_t plait_bf16_from_f32(float value) {
    uint32_t bits = plait_f32_bits(value);
    if ((bits & 0x7FFFFFFFu) > 0x7F800000u) { /* NaN: see above */
        uint32_t upper = bits >> 16;
        return (uint16_t)((upper & 0x7Fu) ? upper : upper | 0x40u);
    }
    return (uint16_t)((bits + 0x7FFFu + (bits >> 16 & 1u)) >> 16);
}

#endif
