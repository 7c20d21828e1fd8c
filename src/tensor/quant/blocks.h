/* The bytes of every block format, as structs: what decoders, encoders and kernels share. Not here: what the
 * fields mean; that is told once, in the file of each format.
 *
 * Every field is made of bytes, so a struct has alignment 1, no padding, and may be laid over any address of a
 * mapped file. Numbers of more than one byte are little-endian arrays; read and write them with the helpers
 * below, which compile to one load or store. Sizes are tied to PLAIT_DTYPE_LIST at the end of this file. */
#ifndef PLAIT_TENSOR_QUANT_BLOCKS_H
#define PLAIT_TENSOR_QUANT_BLOCKS_H

#include "plait/types.h"
#include "tensor/float16.h"

/* ---- access: any alignment, any byte order of the host ---- */

static inline uint16_t plait_load_u16(const void *p) {
    const uint8_t *b = (const uint8_t *)p;
    return (uint16_t)(b[0] | b[1] << 8);
}

static inline uint32_t plait_load_u32(const void *p) {
    const uint8_t *b = (const uint8_t *)p;
    return (uint32_t)b[0] | (uint32_t)b[1] << 8 | (uint32_t)b[2] << 16 | (uint32_t)b[3] << 24;
}

static inline uint64_t plait_load_u64(const void *p) {
    return plait_load_u32(p) | (uint64_t)plait_load_u32((const uint8_t *)p + 4) << 32;
}

static inline void plait_store_u16(void *p, uint16_t value) {
    uint8_t *b = (uint8_t *)p;
    b[0] = (uint8_t)value;
    b[1] = (uint8_t)(value >> 8);
}

static inline void plait_store_u32(void *p, uint32_t value) {
    plait_store_u16(p, (uint16_t)value);
    plait_store_u16((uint8_t *)p + 2, (uint16_t)(value >> 16));
}

static inline void plait_store_u64(void *p, uint64_t value) {
    plait_store_u32(p, (uint32_t)value);
    plait_store_u32((uint8_t *)p + 4, (uint32_t)(value >> 32));
}

/* An fp16 field as float32. */
static inline float plait_load_f16(const void *p) {
    return plait_f16_to_f32(plait_load_u16(p));
}

/* ---- plain types: a block is one element ---- */

#define PLAIT_BLOCK_PLAIN(name, n)                                                                           \
    typedef struct plait_block_##name {                                                                      \
        uint8_t bytes[n];                                                                                    \
    } plait_block_##name;
PLAIT_BLOCK_PLAIN(F32, 4)
PLAIT_BLOCK_PLAIN(F16, 2)
PLAIT_BLOCK_PLAIN(BF16, 2)
PLAIT_BLOCK_PLAIN(F64, 8)
PLAIT_BLOCK_PLAIN(I8, 1)
PLAIT_BLOCK_PLAIN(I16, 2)
PLAIT_BLOCK_PLAIN(I32, 4)
PLAIT_BLOCK_PLAIN(I64, 8)
#undef PLAIT_BLOCK_PLAIN

/* ---- one scale a block; d and m are fp16 ---- */

typedef struct plait_block_Q1_0 {
    uint8_t d[2];
    uint8_t qs[16]; /* a bit an element */
} plait_block_Q1_0;

typedef struct plait_block_Q2_0 {
    uint8_t d[2];
    uint8_t qs[16]; /* 2 bits an element */
} plait_block_Q2_0;

typedef struct plait_block_Q4_0 {
    uint8_t d[2];
    uint8_t qs[16]; /* elements 0..15 in the low nibbles, 16..31 in the high ones */
} plait_block_Q4_0;

typedef struct plait_block_Q4_1 {
    uint8_t d[2], m[2];
    uint8_t qs[16];
} plait_block_Q4_1;

typedef struct plait_block_Q5_0 {
    uint8_t d[2];
    uint8_t qh[4]; /* u32: bit j is bit 4 of element j */
    uint8_t qs[16];
} plait_block_Q5_0;

typedef struct plait_block_Q5_1 {
    uint8_t d[2], m[2];
    uint8_t qh[4];
    uint8_t qs[16];
} plait_block_Q5_1;

typedef struct plait_block_Q8_0 {
    uint8_t d[2];
    int8_t qs[32];
} plait_block_Q8_0;

/* Codes are places in plait_codes_iq4nl; nibbles as in Q4_0. */
typedef struct plait_block_IQ4_NL {
    uint8_t d[2];
    uint8_t qs[16];
} plait_block_IQ4_NL;

/* Codes are places in plait_codes_fp4_doubled; nibbles as in Q4_0. */
typedef struct plait_block_MXFP4 {
    uint8_t e; /* power of two */
    uint8_t qs[16];
} plait_block_MXFP4;

typedef struct plait_block_NVFP4 {
    uint8_t scales[4]; /* unsigned E4M3, one for 16 elements */
    uint8_t qs[32];
} plait_block_NVFP4;

typedef struct plait_block_TQ1_0 {
    uint8_t qs[48]; /* 5 ternary digits a byte */
    uint8_t qh[4];  /* 4 ternary digits a byte */
    uint8_t d[2];
} plait_block_TQ1_0;

/* 2 bits an element, planes of 32 elements: bits 2g of byte l are element l of the g-th 32 of a run of 128. Q2_K and
 * Q3_K place their low bits in the same way. */
typedef struct plait_block_TQ2_0 {
    uint8_t qs[64];
    uint8_t d[2];
} plait_block_TQ2_0;

/* ---- 256 elements, sub-blocks with scales of their own ---- */

typedef struct plait_block_Q2_K {
    uint8_t scales[16]; /* low nibble scale, high nibble minimum */
    uint8_t qs[64];
    uint8_t d[2], dmin[2];
} plait_block_Q2_K;

typedef struct plait_block_Q3_K {
    uint8_t hmask[32]; /* bit 2 of each element */
    uint8_t qs[64];
    uint8_t scales[12]; /* 16 of 6 bits, see scales.h */
    uint8_t d[2];
} plait_block_Q3_K;

typedef struct plait_block_Q4_K {
    uint8_t d[2], dmin[2];
    uint8_t scales[12]; /* 8 scales and 8 minimums of 6 bits, see scales.h */
    uint8_t qs[128];
} plait_block_Q4_K;

typedef struct plait_block_Q5_K {
    uint8_t d[2], dmin[2];
    uint8_t scales[12];
    uint8_t qh[32];
    uint8_t qs[128];
} plait_block_Q5_K;

/* scales come behind the codes, d at the very end: the struct is ordered as the format is, unlike Q4_K. */
typedef struct plait_block_Q6_K {
    uint8_t ql[128], qh[64];
    int8_t scales[16];
    uint8_t d[2];
} plait_block_Q6_K;

typedef struct plait_block_IQ4_XS {
    uint8_t d[2];
    uint8_t scales_h[2]; /* u16: bits 2g are bits 4-5 of the scale of group g */
    uint8_t scales_l[4]; /* nibble g is its low bits */
    uint8_t qs[128];
} plait_block_IQ4_XS;

/* ---- 256 elements, groups of 8 or 4 chosen from a table of points (tables.h) ---- */

typedef struct plait_block_IQ2_XXS {
    uint8_t d[2];
    uint8_t qs[64]; /* for 32 elements: 4 point bytes, u32 of 4 sign codes of 7 bits and a scale of 4 */
} plait_block_IQ2_XXS;

typedef struct plait_block_IQ2_XS {
    uint8_t d[2];
    uint8_t qs[64]; /* u16 for 8 elements: point 9 bits, sign code 7 bits */
    uint8_t scales[8];
} plait_block_IQ2_XS;

typedef struct plait_block_IQ2_S {
    uint8_t d[2];
    uint8_t qs[32], signs[32];
    uint8_t qh[8]; /* bits 8-9 of the points */
    uint8_t scales[8];
} plait_block_IQ2_S;

typedef struct plait_block_IQ3_XXS {
    uint8_t d[2];
    uint8_t qs[64];           /* a point for 4 elements */
    uint8_t signs_scales[32]; /* u32 for 32 elements: as in IQ2_XXS */
} plait_block_IQ3_XXS;

typedef struct plait_block_IQ3_S {
    uint8_t d[2];
    uint8_t qs[64];
    uint8_t qh[8]; /* bit 8 of the points */
    uint8_t signs[32];
    uint8_t scales[4];
} plait_block_IQ3_S;

typedef struct plait_block_IQ1_S {
    uint8_t d[2];
    uint8_t qs[32];
    uint8_t qh[16]; /* u16 for 32 elements: 4 x 3 bits of points, 3 bits scale, sign of delta */
} plait_block_IQ1_S;

typedef struct plait_block_IQ1_M {
    uint8_t qs[32];
    uint8_t qh[16];    /* nibble for 8 elements: 3 bits of point, sign of delta */
    uint8_t scales[8]; /* u16 for 64 elements: 4 scales of 3 bits, a nibble of d */
} plait_block_IQ1_M;

/* ---- the sizes are those of the list ---- */

#ifdef __cplusplus
#define PLAIT_BLOCK_ASSERT static_assert
#else
#define PLAIT_BLOCK_ASSERT _Static_assert
#endif
#define PLAIT_BLOCK_CHECK(name, number, elems, size)                                                         \
    PLAIT_BLOCK_ASSERT(sizeof(plait_block_##name) == (size), #name ": struct and list disagree");
PLAIT_DTYPE_LIST(PLAIT_BLOCK_CHECK)
#undef PLAIT_BLOCK_CHECK
#undef PLAIT_BLOCK_ASSERT

#endif
