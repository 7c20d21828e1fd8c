/* Parts that the error bounds of ops are made of (plait_op.tolerance): what another order of summation, a fused
 * multiplication, an approximated function or a short type may cost, and no more. Float64; a bound holds for results in
 * float32.
 *
 * Not here: bounds of whole ops, which stand beside their reference kernels. */
#ifndef PLAIT_OP_TOLERANCE_H
#define PLAIT_OP_TOLERANCE_H

#include "op/reference.h"

#include <math.h>

/* Distance of neighbouring float32 numbers, relative to them. */
#define PLAIT_ULP 0x1p-23
/* Results and operands below the smallest normal float32 may become zero. */
#define PLAIT_FLUSH 0x1p-126
/* A sum of n independent roundings stays below this many times the deviation of one of them, for as many results as a
 * person will ever look at. */
#define PLAIT_DEVIATIONS 6.0

/* Of a float32 sum of n terms in any order, relative to the sum of their magnitudes. Linear in n, because errors of
 * terms of one sign add up, but far below the worst case, so that one missing term of some thousands shows. */
static inline double plait_tol_sum(int64_t n) {
    return (8.0 + (double)n / 16.0) * 0x1p-24;
}

/* Of a smooth function of x that is y, both up to about 1 in relative condition: a handful of units in the last place. */
static inline double plait_tol_function(double y, double x) {
    return 4.0 * PLAIT_ULP * fmax(fabs(y), fabs(x)) + PLAIT_FLUSH;
}

/* Relative error of numbers rounded to a plain float type, 0 for those that hold a float32. */
static inline double plait_tol_type(plait_dtype dtype) {
    switch (dtype) {
    case PLAIT_F16: return 0x1p-11;
    case PLAIT_BF16: return 0x1p-8;
    default: return 0;
    }
}

/* Distance of neighbouring numbers of a quantised type where the largest of a block is `largest`, as far as it is the
 * same for all encoders; what they choose differently (scales, minimums) is within one of these. */
static inline double plait_tol_step(plait_dtype dtype, double largest) {
    switch (dtype) {
    case PLAIT_Q8_0: return 1.07 * largest / 127.0; /* a scale that is a neighbouring float16 */
    case PLAIT_Q6_K: return 2.0 * largest / 31.0;
    case PLAIT_Q5_0:
    case PLAIT_Q5_1:
    case PLAIT_Q5_K: return 2.0 * largest / 15.0;
    default: return 2.0 * largest / 7.0;
    }
}

/* Adds to limits[] what n numbers x may be off that a device encodes in a type of blocks. */
static inline void plait_tol_encoded(plait_dtype dtype, const float *x, int64_t n, double *limits) {
    int64_t block = plait_dtype_block_elems(dtype);
    for (int64_t i = 0; i < n; i += block) {
        double largest = 0;
        for (int64_t k = i; k < i + block; k++) largest = fmax(largest, fabs((double)x[k]));
        double step = plait_dtype_quantised(dtype) ? plait_tol_step(dtype, largest) : 0;
        for (int64_t k = i; k < i + block; k++) limits[k] += step;
    }
}

/* Largest magnitude of the numbers of an operand of any type. */
double plait_tol_largest(const plait_operand *operand);

#endif
