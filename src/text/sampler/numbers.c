/* Philox, exp and log. Invariant: nothing here depends on the machine, on libm or on rounding of fused
 * operations (contraction is off for the whole library). */
#include "text/sampler/numbers.h"

#include <math.h>
#include <string.h>

/* Multipliers and key increments of the paper, table 2 and section 4.3. */
#define PHILOX_M0 0xD2511F53u
#define PHILOX_M1 0xCD9E8D57u
#define PHILOX_W0 0x9E3779B9u
#define PHILOX_W1 0xBB67AE85u

void plait_philox4x32(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4]) {
    uint32_t c0 = counter[0], c1 = counter[1], c2 = counter[2], c3 = counter[3];
    uint32_t k0 = key[0], k1 = key[1];
    for (int round = 0; round < 10; round++) {
        uint64_t p0 = (uint64_t)PHILOX_M0 * c0, p1 = (uint64_t)PHILOX_M1 * c2;
        c0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0;
        c1 = (uint32_t)p1;
        c2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
        c3 = (uint32_t)p0;
        k0 += PHILOX_W0;
        k1 += PHILOX_W1;
    }
    out[0] = c0, out[1] = c1, out[2] = c2, out[3] = c3;
}

/* The upper 53 bits of 64, so every result is a multiple of 2^-53 and 1 is never reached. */
double plait_philox_uniform(uint64_t seed, uint64_t index, uint32_t lane) {
    uint32_t counter[4] = {(uint32_t)index, (uint32_t)(index >> 32), lane, 0};
    uint32_t key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)}, block[4];
    plait_philox4x32(counter, key, block);
    uint64_t bits = (uint64_t)block[0] << 32 | block[1];
    return (double)(bits >> 11) * 0x1p-53;
}

/* ln 2 in two parts: the first has 32 trailing zero bits, so that its product with an exponent is exact. */
#define LN2_HIGH 0x1.62e42feep-1
#define LN2_LOW  0x1.a39ef35793c76p-33
#define LOG2_E   0x1.71547652b82fep+0

/* exponent in -1022 to 1023: a normal number, made of bits. */
static double power_of_two(int exponent) {
    uint64_t bits = (uint64_t)(exponent + 1023) << 52;
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

double plait_sampler_exp(double x) {
    if (x != x) return x;
    if (x > 709.0) return INFINITY;
    if (x < -708.0) return 0.0;
    /* Adding and taking away 1.5 * 2^52 rounds to the nearest whole number. */
    double n = (x * LOG2_E + 0x1.8p52) - 0x1.8p52;
    double r = (x - n * LN2_HIGH) - n * LN2_LOW;
    /* Taylor: |r| <= 0.347, the first term left out is below 2^-57. */
    double p = 1.0 / 6227020800.0;
    static const double coefficients[] = {1.0 / 479001600.0,
                                          1.0 / 39916800.0,
                                          1.0 / 3628800.0,
                                          1.0 / 362880.0,
                                          1.0 / 40320.0,
                                          1.0 / 5040.0,
                                          1.0 / 720.0,
                                          1.0 / 120.0,
                                          1.0 / 24.0,
                                          1.0 / 6.0,
                                          0.5};
    for (int i = 0; i < 11; i++) p = p * r + coefficients[i];
    p = 1.0 + (r + r * r * p);
    /* In two halves: 2^n itself may not be representable at the ends although the result is. */
    int half = (int)n / 2;
    return p * power_of_two(half) * power_of_two((int)n - half);
}

double plait_sampler_log(double x) {
    if (x != x || x < 0.0) return NAN;
    if (x == 0.0) return -INFINITY;
    if (x > 0x1.fffffffffffffp1023) return x;
    int exponent = 0;
    if (x < 0x1p-1022) x *= 0x1p54, exponent = -54;
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    exponent += (int)(bits >> 52) - 1023;
    bits = (bits & 0x000FFFFFFFFFFFFFull) | 0x3FF0000000000000ull;
    double m;
    memcpy(&m, &bits, sizeof m);
    if (m > 0x1.6a09e667f3bcdp0) m *= 0.5, exponent++; /* m in (sqrt(1/2), sqrt(2)] */
    /* ln m = 2 atanh(s), s = f / (2 + f), f = m - 1. Written as f - f^2/2 + s (f^2/2 + R) the rounding errors
     * of the series stay small beside f. */
    double f = m - 1.0, s = f / (2.0 + f), z = s * s, half_square = 0.5 * f * f;
    double series = 0.0;
    for (int k = 23; k >= 3; k -= 2) series = z * (series + 2.0 / k);
    double e = exponent;
    return e * LN2_HIGH - ((half_square - (s * (half_square + series) + e * LN2_LOW)) - f);
}

double plait_sampler_pow(double base, double exponent) {
    if (exponent == 0.0) return 1.0;
    if (base == 0.0) return exponent > 0.0 ? 0.0 : INFINITY;
    return plait_sampler_exp(exponent * plait_sampler_log(base));
}
