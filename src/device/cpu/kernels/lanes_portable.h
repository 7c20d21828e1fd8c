/* What lanes.h needs, in the compiler's vector extension: four vectors of four. Comparisons give masks of all ones or
 * zeros, so max and min choose the second operand where the comparison is false, as on x86. Here the tree of w_sum is
 * over vectors first, (0 + 2) + (1 + 3), which are the steps of 8 and 4 lanes. */
#ifndef PLAIT_DEVICE_CPU_KERNELS_LANES_PORTABLE_H
#define PLAIT_DEVICE_CPU_KERNELS_LANES_PORTABLE_H

#include "device/cpu/matmul/vec_portable.h"
#include "tensor/quant/blocks.h"

/* Bit by bit, so NaN and zeros pass unchanged. */
INLINE VF vf_choose(VI mask, VF x, VF y) {
    return (VF)(((VI)x & mask) | ((VI)y & ~mask));
}
INLINE VF vf_sub(VF a, VF b) {
    return a - b;
}
INLINE VF vf_div(VF a, VF b) {
    return a / b;
}
INLINE VF vf_max(VF a, VF b) {
    return vf_choose(a > b, a, b);
}
INLINE VF vf_min(VF a, VF b) {
    return vf_choose(a < b, a, b);
}
INLINE VF vf_if_less(VF a, VF b, VF x, VF y) {
    return vf_choose(a < b, x, y);
}
INLINE VF vf_abs(VF a) {
    return (VF)((VI)a & 0x7FFFFFFF);
}
/* INT32_MIN is the sign bit alone. */
INLINE VF vf_copysign(VF a, VF b) {
    return (VF)(((VI)a & 0x7FFFFFFF) | ((VI)b & INT32_MIN));
}
/* As in lanes_avx2.h. Unsigned, since bits are shifted out. */
INLINE VF vf_exp2_of(VF t) {
    return (VF)(((VU)t << 23) + 0x3F800000u);
}
INLINE VF vf_swap_pairs(VF a) {
    return (VF){a[1], a[0], a[3], a[2]};
}

/* One number of 16 bits. */
INLINE float half_at(const void *p) {
    return plait_load_f16(p);
}
/* Codes of 4 bits, less 8: of the low halves of bytes, of the high ones. */
INLINE VF vf_nibbles(const uint8_t *p, bool high) {
    VI v = {p[0], p[1], p[2], p[3]};
    v = high ? v >> 4 : v & 15;
    return __builtin_convertvector(v - 8, VF);
}

#include "device/cpu/kernels/lanes.h"

INLINE float w_sum(W v) {
    VF a = (v.p[0] + v.p[2]), b = (v.p[1] + v.p[3]), c = a + b;
    return (c[0] + c[2]) + (c[1] + c[3]);
}
/* In the order of w_sum; the plain comparisons choose as vf_max does. */
INLINE float w_largest(W v) {
    VF a = vf_max(v.p[0], v.p[2]), b = vf_max(v.p[1], v.p[3]), c = vf_max(a, b);
    float x = c[0] > c[2] ? c[0] : c[2], y = c[1] > c[3] ? c[1] : c[3];
    return x > y ? x : y;
}
INLINE void w_store_half(uint16_t *p, W v) {
    float lanes[W_LANES];
    w_store(lanes, v);
    for (int i = 0; i < W_LANES; i++) p[i] = plait_f16_from_f32(lanes[i]);
}

/* Small tiles, for each vector takes four registers. */
#define TILE_ROWS 2
#define TILE_KEYS 2
#define WIDE      1
#define WIDE_ONE  2
/* The definition that the others must match. */
INLINE void w_store_sums(const W dots[TILE_ROWS][TILE_KEYS], int rows, float *out, int64_t stride) {
    for (int r = 0; r < rows; r++)
        for (int k = 0; k < TILE_KEYS; k++) out[r * stride + k] = w_sum(dots[r][k]);
}

#endif
