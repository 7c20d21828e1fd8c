/* The passes over all logits, vectorised by the compiler, in one variant for each instruction set.
 *
 * Every variant is compiled from the same kernels.inc and gives the same bits: elementwise operations are
 * plain IEEE, and sums go into PLAIT_LANES accumulators, element i into accumulator i mod PLAIT_LANES,
 * which are added in one fixed order at the end.
 */
#ifndef PLAIT_TEXT_SAMPLER_KERNELS_H
#define PLAIT_TEXT_SAMPLER_KERNELS_H

#include <stddef.h>
#include <stdint.h>

#define PLAIT_LANES 16

typedef struct plait_sampler_kernels {
    const char *name;
    /* Copies n values and counts those that are NaN or plus infinity. */
    size_t (*load)(float *out, const float *in, size_t n);
    float (*max)(const float *x, size_t n); /* minus infinity for n == 0; no NaN */
    float (*min)(const float *x, size_t n); /* plus infinity for n == 0; no NaN */
    /* out[j] = max of x[j * group .. (j + 1) * group), the last group may be short; group is a multiple of
     * 8. Returns 0 only when no value is NaN or plus infinity; otherwise the maxima mean nothing. */
    size_t (*group_max)(const float *x, size_t n, size_t group, float *out);
    /* x = x / t; finite values stay finite. */
    void (*divide)(float *x, size_t n, float t);
    /* w = e^(x - max), 0 where x - max < -87; at most 1 ulp off. Returns the sum. max is finite and >=
     * every x. */
    double (*weigh)(float *w, const float *x, size_t n, float max);
    /* Sum of w * (max - x), terms with w == 0 being 0. */
    double (*weighted_gap)(const float *w, const float *x, size_t n, float max);
    /* Sum and number of the finite values (those above minus infinity). */
    double (*finite_sum)(const float *x, size_t n, size_t *out_count);
    /* Sum of (x - mean)^2 over the finite values. */
    double (*finite_squares)(const float *x, size_t n, double mean);
    /* out = |(max - x) - shift|, at most 1e30. */
    void (*distance)(float *out, const float *x, size_t n, float max, float shift);
    double (*sum)(const float *x, size_t n);
    /* Number of x >= threshold. */
    size_t (*count)(const float *x, size_t n, float threshold);
} plait_sampler_kernels;

extern const plait_sampler_kernels plait_sampler_kernels_base;
#if defined(__x86_64__)
extern const plait_sampler_kernels plait_sampler_kernels_avx2;
#endif

/* The fastest variant that this processor runs. */
const plait_sampler_kernels *plait_sampler_kernels_best(void);
/* Variant `index` of those that this processor runs, or NULL behind the last: for tests. */
const plait_sampler_kernels *plait_sampler_kernels_at(size_t index);

#endif
