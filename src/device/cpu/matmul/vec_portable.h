/* Vectors of four rows in the compiler's own vector extension: SSE2, NEON or whatever the target has. Comes without
 * flags of an instruction set, so it is also what a build for another processor runs on. Invariant: as vec.h says;
 * where the target lacks an instruction, a loop over lanes does the same operations. */
#ifndef PLAIT_DEVICE_CPU_MATMUL_VEC_PORTABLE_H
#define PLAIT_DEVICE_CPU_MATMUL_VEC_PORTABLE_H

#ifndef VEC_KEEP_LOOPS
#define VEC_KEEP_LOOPS /* a loop is small here, four vectors wide */
#endif
#include "device/cpu/matmul/vec.h"
#include "tensor/float16.h"

/* A quarter of a group of rows; codes are not shifted when they are loaded, for the dot product multiplies by 2^e at
 * its end. */
#define LANES         4
#define CODES_SCALED  0
#define MICRO_COLUMNS 4

typedef float VF __attribute__((vector_size(16)));
typedef int32_t VI __attribute__((vector_size(16)));
typedef uint32_t VU __attribute__((vector_size(16)));
typedef uint8_t VB __attribute__((vector_size(16)));

/* memcpy: any address will do, and becomes one load. */
INLINE VF vf_load(const float *p) {
    VF v;
    __builtin_memcpy(&v, p, sizeof v);
    return v;
}
INLINE void vf_store(float *p, VF v) {
    __builtin_memcpy(p, &v, sizeof v);
}
INLINE VF vf_set(float x) {
    return (VF){x, x, x, x};
}
INLINE VF vf_mul(VF a, VF b) {
    return a * b;
}
INLINE VF vf_add(VF a, VF b) {
    return a + b;
}
INLINE VF vf_negate(VF a) {
    return -a;
}
/* The C library's fmaf where the processor has no instruction for it: slow, and rightly rounded. */
INLINE VF vf_fma(VF a, VF b, VF c) {
    VF r;
    for (int i = 0; i < LANES; i++) r[i] = __builtin_fmaf(a[i], b[i], c[i]);
    return r;
}
INLINE VF vf_from_int(VI v) {
    return __builtin_convertvector(v, VF);
}
INLINE VF vf_half(const uint16_t *p) {
    return (VF){plait_f16_to_f32(p[0]), plait_f16_to_f32(p[1]), plait_f16_to_f32(p[2]),
                plait_f16_to_f32(p[3])};
}
INLINE VF vf_bfloat(const uint16_t *p) {
    return (VF){plait_bf16_to_f32(p[0]), plait_bf16_to_f32(p[1]), plait_bf16_to_f32(p[2]),
                plait_bf16_to_f32(p[3])};
}
INLINE VF vf_bytes(const uint8_t *p) {
    return (VF){p[0], p[1], p[2], p[3]};
}
INLINE VF vf_signed_bytes(const int8_t *p) {
    return (VF){p[0], p[1], p[2], p[3]};
}

INLINE VF vf_low_nibbles(const uint8_t *p) {
    return (VF){(float)(p[0] & 15), (float)(p[1] & 15), (float)(p[2] & 15), (float)(p[3] & 15)};
}
INLINE VF vf_high_nibbles(const uint8_t *p) {
    return (VF){(float)(p[0] >> 4), (float)(p[1] >> 4), (float)(p[2] >> 4), (float)(p[3] >> 4)};
}
/* 2^(e - 128): two factors, since one may be subnormal. */
INLINE VF vf_power(const uint8_t *p) {
    VU e = {p[0], p[1], p[2], p[3]};
    return (VF)(((e >> 1) + 63) << 23) * (VF)((e - (e >> 1) + 63) << 23);
}

INLINE VB vb_load(const uint8_t *p) {
    VB v;
    __builtin_memcpy(&v, p, sizeof v);
    return v;
}
INLINE void vb_store(uint8_t *p, VB v) {
    __builtin_memcpy(p, &v, sizeof v);
}
INLINE VB vb_or(VB a, VB b) {
    return a | b;
}
/* Bits [from, from + bits) of each byte, moved to bit `to`. */
INLINE VB vb_place(VB v, int from, int bits, int to) {
    uint8_t mask = (uint8_t)(((1 << bits) - 1) << to);
    return (VB)(to > from ? (VU)v << (to - from) : (VU)v >> (from - to)) & mask;
}
/* Lane by lane: no vector extension has it. */
INLINE VB vb_lookup(VB index, const uint8_t *values) {
    VB v;
    for (int i = 0; i < 16; i++) v[i] = values[index[i]];
    return v;
}
INLINE VB vb_code8(VB v) {
    return v;
}

/* Steps [first, first + count) of the block for each column. Products are taken in 16-bit lanes, even and odd
 * bytes apart (255 * 127 fits), then widened. */
INLINE void vi_dots(VI *out, const VB *code, const plait_cpu_block *x, int columns, int first, int count,
                    int start, int bits, int e) {
    typedef int16_t VS __attribute__((vector_size(16)));
    typedef uint16_t VW __attribute__((vector_size(16)));
    for (int j = 0; j < columns; j++) {
        VI sum = {0};
        for (int c = first; c < first + count; c++) {
            const int8_t *q = x[j].q + 4 * c;
            /* A 32-bit lane of codes has four elements of a row: bytes 0 and 2 as the low halves of its 16-bit lanes, 1
             * and 3 as the high ones. */
            VS even = {q[0], q[2], q[0], q[2], q[0], q[2], q[0], q[2]};
            VS odd = {q[1], q[3], q[1], q[3], q[1], q[3], q[1], q[3]};
            VS p = (VS)((VW)code[c] & 255) * even, r = (VS)((VW)code[c] >> 8) * odd;
            /* 2 * 63 * 127 at most: two products fit into 16 bits. With codes of eight bits one does, 255 * 127 =
             * 32385. */
            if (bits < 8) {
                p += r;
            } else {
                sum += ((VI)((VU)r << 16) >> 16) + ((VI)r >> 16);
            }
            sum += ((VI)((VU)p << 16) >> 16) + ((VI)p >> 16);
        }
        int32_t from = start_of(&x[j], start);
        out[j] = (VI)((VU)sum << e) + (VI){from, from, from, from};
    }
}

#endif
