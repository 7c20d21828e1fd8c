/* Sixteen virtual lanes: the one vector that the kernels of this folder compute in, whatever the registers are: one of
 * AVX-512, two of AVX2, four of anything else. Included after a lanes_ISA.h, which names VF and its primitives.
 *
 * Invariant, on which equal bytes on every instruction set rest: each function here is the same IEEE operations on
 * lane i, in the same order; a sum or maximum over lanes is the tree i + (i+8), + 4, + 2, + 1; fma is one rounding.
 * min, max and comparisons are those of x86: where an operand is NaN, or both are zeros, the second one is taken.
 *
 * Partial loads fill with zeros. Functions of more than one line of mathematics are in math.h.
 */
#ifndef PLAIT_DEVICE_CPU_KERNELS_LANES_H
#define PLAIT_DEVICE_CPU_KERNELS_LANES_H

#include <stdbool.h>
#include <string.h>

enum { W_LANES = 16, W_PARTS = W_LANES / LANES };

typedef struct W {
    VF p[W_PARTS];
} W;

/* A function of W from one of VF: the expression for part i, for each part. Parts do not depend on each other, so they
 * may overlap in time. */
#define W_EACH(expression)                                                                                   \
    W r_;                                                                                                    \
    UNROLL                                                                                                   \
    for (int i = 0; i < W_PARTS; i++) r_.p[i] = (expression);                                                \
    return r_

/* Unaligned, and so is w_store. */
INLINE W w_load(const float *p) {
    W_EACH(vf_load(p + i * LANES));
}
INLINE void w_store(float *p, W v) {
    UNROLL
    for (int i = 0; i < W_PARTS; i++) vf_store(p + i * LANES, v.p[i]);
}
INLINE W w_set(float x) {
    W_EACH(vf_set(x));
}
INLINE W w_add(W a, W b) {
    W_EACH(vf_add(a.p[i], b.p[i]));
}
INLINE W w_sub(W a, W b) {
    W_EACH(vf_sub(a.p[i], b.p[i]));
}
INLINE W w_mul(W a, W b) {
    W_EACH(vf_mul(a.p[i], b.p[i]));
}
INLINE W w_div(W a, W b) {
    W_EACH(vf_div(a.p[i], b.p[i]));
}
/* a * b + c with one rounding. */
INLINE W w_fma(W a, W b, W c) {
    W_EACH(vf_fma(a.p[i], b.p[i], c.p[i]));
}
/* The sign alone changes, of zeros and NaN too. */
INLINE W w_negate(W a) {
    W_EACH(vf_negate(a.p[i]));
}
INLINE W w_max(W a, W b) {
    W_EACH(vf_max(a.p[i], b.p[i]));
}
INLINE W w_min(W a, W b) {
    W_EACH(vf_min(a.p[i], b.p[i]));
}
/* a < b ? x : y. */
INLINE W w_if_less(W a, W b, W x, W y) {
    W_EACH(vf_if_less(a.p[i], b.p[i], x.p[i], y.p[i]));
}
INLINE W w_abs(W a) {
    W_EACH(vf_abs(a.p[i]));
}
/* |a| with the sign of b. */
INLINE W w_copysign(W a, W b) {
    W_EACH(vf_copysign(a.p[i], b.p[i]));
}
/* 2^n for t = n + 1.5 * 2^23, n in [-126, 127]. */
INLINE W w_exp2_of(W t) {
    W_EACH(vf_exp2_of(t.p[i]));
}
/* Lanes 0 and 1 change places, 2 and 3, ... */
INLINE W w_swap_pairs(W a) {
    W_EACH(vf_swap_pairs(a.p[i]));
}
/* Sixteen numbers of 16 bits, made wide exactly; bytes and nibbles become whole numbers. */
INLINE W w_half(const uint16_t *p) {
    W_EACH(vf_half(p + i * LANES));
}
INLINE W w_bfloat(const uint16_t *p) {
    W_EACH(vf_bfloat(p + i * LANES));
}
INLINE W w_signed_bytes(const int8_t *p) {
    W_EACH(vf_signed_bytes(p + i * LANES));
}

/* Codes of 4 bits, less 8: sixteen bytes have 32, of which these are the low or the high ones. */
INLINE W w_nibbles(const uint8_t *p, bool high) {
    W_EACH(vf_nibbles(p + i * LANES, high));
}

/* n of 1 to 15 lanes. */
INLINE W w_load_part(const float *p, int64_t n) {
    float lanes[W_LANES] = {0};
    memcpy(lanes, p, (size_t)n * sizeof *p);
    return w_load(lanes);
}
INLINE void w_store_part(float *p, W v, int64_t n) {
    float lanes[W_LANES];
    w_store(lanes, v);
    memcpy(p, lanes, (size_t)n * sizeof *p);
}

/* Lanes [low, high) of v, and of `fill` elsewhere. */
INLINE W w_keep(W v, int low, int high, W fill) {
    static const float numbers[W_LANES] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    W number = w_load(numbers);
    v = w_if_less(number, w_set((float)high), v, fill);
    return w_if_less(number, w_set((float)low), fill, v);
}

/* w_sum, w_largest, w_store_half and w_store_sums look across lanes, so each lanes_ISA.h has its own. */
#undef W_EACH

#endif
