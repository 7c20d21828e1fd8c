/* exp, tanh and what is made of them, on sixteen lanes: ours, so that no libm decides the bytes. Polynomials were
 * fitted to the least largest relative error; errors are in units in the last place of the float32 result, found by
 * trying every float32 (exp, tanh) or many (tests/device/test_cpu_kernels.c holds them to the bounds).
 *
 *   exp       2 ulp; 0 below -87 (instead of numbers under 2^-125), infinity above 88.73
 *   tanh      3 ulp
 *   sigmoid   1 / (1 + exp(-x)), 4 ulp; from -87 down it may be 0
 *   silu      x * sigmoid(x)
 *   gelu      x * sigmoid(2 u), u = sqrt(2/pi) (x + 0.044715 x^3): the tanh form without its cancellation
 *
 * NaN stays NaN. silu and gelu of -infinity are -0.
 */
#ifndef PLAIT_DEVICE_CPU_KERNELS_MATH_H
#define PLAIT_DEVICE_CPU_KERNELS_MATH_H

/* Adding it leaves the nearest whole number in the low bits of a float32. */
#define ROUNDER 12582912.0f

/* exp of |r| up to ln 2 / 2. */
INLINE W exp_rest(W r) {
    W p = w_fma(w_set(0.0013814465f), r, w_set(0.008368781f));
    p = w_fma(p, r, w_set(0.041668393f));
    p = w_fma(p, r, w_set(0.1666652f));
    p = w_fma(p, r, w_set(0.49999994f));
    return w_add(w_fma(w_mul(r, r), p, r), w_set(1.0f));
}

/* x = n ln 2 + r; 2^n in two factors, so that n = 128 and products that overflow work. */
INLINE W w_exp(W x) {
    const W rounder = w_set(ROUNDER), floor_x = w_set(-87.0f);
    W inside = w_min(w_set(89.0f), w_max(floor_x, x));
    W n = w_sub(w_fma(inside, w_set(0x1.715476p+0f), rounder), rounder);
    W p = exp_rest(w_fma(n, w_set(-0x1.7f7d1cp-20f), w_fma(n, w_set(-0x1.62e4p-1f), inside)));
    W half = w_fma(n, w_set(0.5f), rounder), rest = w_add(w_sub(n, w_sub(half, rounder)), rounder);
    p = w_mul(w_mul(p, w_exp2_of(half)), w_exp2_of(rest));
    return w_if_less(x, floor_x, w_set(0.0f), p);
}

/* The same bytes for x of at most 0, where one factor is enough. */
INLINE W w_exp_falling(W x) {
    const W rounder = w_set(ROUNDER), floor_x = w_set(-87.0f);
    W inside = w_max(floor_x, x);
    W t = w_fma(inside, w_set(0x1.715476p+0f), rounder), n = w_sub(t, rounder);
    W p = exp_rest(w_fma(n, w_set(-0x1.7f7d1cp-20f), w_fma(n, w_set(-0x1.62e4p-1f), inside)));
    return w_if_less(x, floor_x, w_set(0.0f), w_mul(p, w_exp2_of(t)));
}

/* An odd polynomial near 0, 1 - 2 / (exp(2 |x|) + 1) elsewhere. */
INLINE W w_tanh(W x) {
    const W one = w_set(1.0f);
    W a = w_abs(x), s = w_mul(x, x);
    W p = w_fma(w_set(-0.0056973873f), s, w_set(0.02063255f));
    p = w_fma(p, s, w_set(-0.0537378f));
    p = w_fma(p, s, w_set(0.1333142f));
    p = w_fma(p, s, w_set(-0.3333328f));
    W near = w_fma(w_mul(s, x), p, x);
    W far = w_sub(one, w_div(w_set(2.0f), w_add(w_exp(w_add(a, a)), one)));
    return w_if_less(a, w_set(0.625f), near, w_copysign(far, x));
}

INLINE W w_sigmoid(W x) {
    const W one = w_set(1.0f);
    return w_div(one, w_add(one, w_exp(w_negate(x))));
}

/* The bound keeps -infinity * 0 out. */
INLINE W w_silu(W x) {
    x = w_max(w_set(-0x1p100f), x);
    return w_mul(x, w_sigmoid(x));
}

/* In the form of tanh, x * sigmoid(2 t), which needs no tanh. The bound keeps -infinity * 0 out; below it all is -0. */
INLINE W w_gelu(W x) {
    x = w_max(w_set(-1e6f), x);
    /* 2 sqrt(2/pi) and that times 0.044715 */
    W u = w_mul(x, w_fma(w_mul(x, x), w_set(0.07135481627f), w_set(1.5957691216f)));
    return w_mul(x, w_sigmoid(u));
}

INLINE W w_softcap(W x, W cap, W per_cap) {
    return w_mul(cap, w_tanh(w_mul(x, per_cap)));
}

#endif
