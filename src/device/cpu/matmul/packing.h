/* The packed layouts, for the kernels and packing.c only. A group is 16 rows; along k it is a run of units (32 or
 * 256 elements, a plain element for float types), unit after unit, and groups follow each other.
 *
 * A step of a product kernel wants 16 rows x 4 neighbouring elements in one 64-byte vector: byte 4 r + i of vector
 * c belongs to row r and element 4 c + i of a block of 32. Four-bit codes lie two to a byte: the low nibbles of
 * vector c (of 4) are step c, the high nibbles step c + 4. Further bits are planes: bit c of a plane's byte belongs
 * to step c (one bit), bits 2 (c % 4) of plane c / 4 (two bits). Scales of the 16 rows lie together.
 */
#ifndef PLAIT_DEVICE_CPU_MATMUL_PACKING_H
#define PLAIT_DEVICE_CPU_MATMUL_PACKING_H

#include "device/cpu/matmul/matmul.h"

enum { GROUP = PLAIT_CPU_GROUP_ROWS };

typedef struct packed_nibbles { /* codes of 16 rows x 32 elements */
    uint8_t q[4][GROUP][4];
} packed_nibbles;

/* Unit of Q4_0: the scales d of 16 rows, then their codes, offset 8. No struct here has padding. */
typedef struct packed_q4_0 {
    uint16_t d[GROUP];
    packed_nibbles low;
} packed_q4_0;

/* m is what a code of 0 stands for, so codes have no offset. */
typedef struct packed_q4_1 {
    uint16_t d[GROUP], m[GROUP];
    packed_nibbles low;
} packed_q4_1;

/* The fifth bit of each code is in the plane. */
typedef struct packed_q5_0 {
    uint16_t d[GROUP];
    uint8_t plane[GROUP][4];
    packed_nibbles low;
} packed_q5_0;

typedef struct packed_q5_1 {
    uint16_t d[GROUP], m[GROUP];
    uint8_t plane[GROUP][4];
    packed_nibbles low;
} packed_q5_1;

typedef struct packed_q8_0 {
    uint16_t d[GROUP];
    uint8_t q[8][GROUP][4]; /* code + 128 */
} packed_q8_0;

/* Minima are subtracted: d * scale * code - dmin * min. */
typedef struct packed_q4_k {
    uint16_t d[GROUP], dmin[GROUP];
    struct {
        uint8_t scale[GROUP], min[GROUP]; /* 6 bits each */
        packed_nibbles low;
    } block[8];
} packed_q4_k;

/* The high bit of 32 elements is a plane of one bit a block; scales and minima have 6 bits each, a byte a row. */
typedef struct packed_q5_k {
    uint16_t d[GROUP], dmin[GROUP];
    struct {
        uint8_t scale[GROUP], min[GROUP];
        uint8_t plane[GROUP][4];
        packed_nibbles low;
    } block[8];
} packed_q5_k;

/* Planes of two bits: bits 4 and 5 of the codes, the plane of a half for its steps. */
typedef struct packed_q6_k {
    uint16_t d[GROUP];
    struct {
        int8_t scale[2][GROUP]; /* of elements 0 to 15, 16 to 31 */
        uint8_t plane[2][GROUP][4];
        packed_nibbles low;
    } block[8];
} packed_q6_k;

typedef struct packed_iq4_nl {
    uint16_t d[GROUP];
    packed_nibbles low; /* indices into a table of 16 values */
} packed_iq4_nl;

typedef struct packed_mxfp4 {
    uint8_t exponent[GROUP]; /* scale 2^(exponent - 128) of doubled values */
    packed_nibbles low;      /* indices */
} packed_mxfp4;

typedef struct packed_iq4_xs {
    uint16_t d[GROUP];
    struct {
        int8_t scale[GROUP]; /* -32 to 31 */
        packed_nibbles low;  /* indices */
    } block[8];
} packed_iq4_xs;

typedef struct packed_q3_k {
    uint16_t d[GROUP];
    struct {
        int8_t scale[2][GROUP];     /* -32 to 31; of elements 0 to 15, 16 to 31 */
        uint8_t pairs[2][GROUP][4]; /* bits 0 and 1 of the codes */
        uint8_t plane[GROUP][4];    /* bit 2 */
    } block[8];
} packed_q3_k;

typedef struct packed_q2_k {
    uint16_t d[GROUP], dmin[GROUP];
    struct {
        uint8_t scale[2][GROUP];    /* as in the file: scale in the low nibble, minimum in the high one */
        uint8_t pairs[2][GROUP][4]; /* the codes */
    } block[8];
} packed_q2_k;

typedef struct packed_f32 {
    float v[GROUP];
} packed_f32;

typedef struct packed_f16 {
    uint16_t v[GROUP];
} packed_f16;

typedef packed_f16 packed_bf16;

/* Dtypes with a packed form: X(NAME, name, elements of a unit). */
#define PLAIT_CPU_PACKED_LIST(X)                                                                             \
    X(F32, f32, 1)                                                                                           \
    X(F16, f16, 1)                                                                                           \
    X(BF16, bf16, 1)                                                                                         \
    X(Q4_0, q4_0, 32)                                                                                        \
    X(Q4_1, q4_1, 32)                                                                                        \
    X(Q5_0, q5_0, 32)                                                                                        \
    X(Q5_1, q5_1, 32)                                                                                        \
    X(Q8_0, q8_0, 32)                                                                                        \
    X(Q4_K, q4_k, 256)                                                                                       \
    X(Q5_K, q5_k, 256)                                                                                       \
    X(Q6_K, q6_k, 256)                                                                                       \
    X(Q2_K, q2_k, 256)                                                                                       \
    X(Q3_K, q3_k, 256)                                                                                       \
    X(IQ4_NL, iq4_nl, 32)                                                                                    \
    X(IQ4_XS, iq4_xs, 256)                                                                                   \
    X(MXFP4, mxfp4, 32)

#endif
