/* Lookup tables that are part of the GGUF block formats: the points among which grid formats choose, the signs
 * behind 7-bit codes, and the codebooks of the non-linear 4-bit formats. All are constants of the formats,
 * byte for byte; tables.c holds them in element order, so a row may be loaded as one 4- or 8-byte value. */
#ifndef PLAIT_TENSOR_QUANT_TABLES_H
#define PLAIT_TENSOR_QUANT_TABLES_H

#include <stdint.h>

/* X(name, element type, points, elements a point): the grids. Magnitudes for IQ2 and IQ3 (signs come from the
 * block), signed values -1, 0, 1 for IQ1. */
#define PLAIT_GRID_LIST(X)                                                                                   \
    X(iq2xxs, uint8_t, 256, 8)                                                                               \
    X(iq2xs, uint8_t, 512, 8)                                                                                \
    X(iq2s, uint8_t, 1024, 8)                                                                                \
    X(iq3xxs, uint8_t, 256, 4)                                                                               \
    X(iq3s, uint8_t, 512, 4)                                                                                 \
    X(iq1, int8_t, 2048, 8)

#define PLAIT_GRID_DECLARE(name, type, points, elems) extern const type plait_grid_##name[points][elems];
PLAIT_GRID_LIST(PLAIT_GRID_DECLARE)
#undef PLAIT_GRID_DECLARE

/* IQ4_NL and IQ4_XS: code -> value, ascending. */
extern const int8_t plait_codes_iq4nl[16];
/* MXFP4 and NVFP4: code -> twice the E2M1 value; bit 3 is the sign. */
extern const int8_t plait_codes_fp4_doubled[16];
/* The same values in ascending order without the second zero, and the code of each: for encoders. */
extern const int8_t plait_fp4_values[15];
extern const uint8_t plait_fp4_codes[15];

/* The 8 signs behind a 7-bit code: the code itself, and as bit 7 its parity, so that the number of negative
 * elements is even. Bit j set: element j is negative. */
static inline uint8_t plait_sign_bits(uint32_t code7) {
    uint32_t parity = code7 ^ code7 >> 4;
    parity ^= parity >> 2;
    parity ^= parity >> 1;
    return (uint8_t)(code7 | (parity & 1u) << 7);
}

/* A magnitude with the sign of element j out of 8. */
static inline float plait_signed_value(uint8_t magnitude, uint8_t signs, int j) {
    return signs >> j & 1 ? -(float)magnitude : (float)magnitude;
}

#endif
