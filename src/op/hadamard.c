/* hadamard: blocks of dim 0 times an orthonormal Walsh-Hadamard matrix. Spreads an outlier over its whole block, so
 * that what is quantised afterwards (a cache of 8 or 4 bits) loses less; dot products of two vectors that were both
 * transformed are unchanged, and the transform is its own inverse.
 *
 * Source: J. J. Sylvester's construction of Hadamard matrices, 1867; its use before quantisation: Ashkboos et al.,
 * "QuaRot", arXiv 2404.00456. Invariant: rows are independent. */
#include "base/size.h"
#include "base/status.h"
#include "op/attrs.h"
#include "op/example.h"
#include "op/reference.h"
#include "op/shape.h"
#include "op/tolerance.h"

#include <math.h>

static const plait_attr_row hadamard_attrs[PLAIT_HADAMARD_ATTRS] = {
    [PLAIT_HADAMARD_BLOCK] =
        {"block", PLAIT_ATTR_INT, {.i = 0}, true, "elements of a block, a power of two that divides dim 0"},
};

/* block 1 is the identity, and legal. */
static plait_status hadamard_shape(plait_op_use *use) {
    int64_t block = use->attrs[PLAIT_HADAMARD_BLOCK].i, d = use->inputs[0].dims[0];
    PLAIT_TRY(plait_shape_dtype(use, 0, PLAIT_F32));
    if (block < 1 || !plait_is_power_of_two((uint64_t)block) || d % block != 0)
        return plait_error(PLAIT_INVALID_ARGUMENT,
                           "block is %lld, expected a power of two that divides dim 0 of x, which is %lld",
                           (long long)block, (long long)d);
    return plait_shape_by_factors(use);
}

/* A row in float64, so that rounding happens once, when the result is stored. */
static size_t hadamard_scratch(const plait_op_use *use) {
    return (size_t)use->inputs[0].dims[0] * sizeof(double);
}

/* In place: sums and differences of neighbours at distance 1, 2, 4, ... n log n steps. The division by sqrt(n) at the
 * end is one rounding for all; n = 4^k makes it exact. */
static void transform(double *x, int64_t n) {
    for (int64_t half = 1; half < n; half *= 2)
        for (int64_t i = 0; i < n; i++) {
            if (i & half) continue;
            double a = x[i], b = x[i + half];
            x[i] = a + b;
            x[i + half] = a - b;
        }
    for (int64_t i = 0; i < n; i++) x[i] /= sqrt((double)n);
}

static void hadamard_reference(const plait_op_use *use, void *scratch) {
    const plait_operand *x = &use->inputs[0], *y = &use->outputs[0];
    int64_t block = use->attrs[PLAIT_HADAMARD_BLOCK].i;
    double *row = scratch;
    PLAIT_REF_ROWS(y, i1, i2, i3) {
        for (int64_t i = 0; i < x->dims[0]; i++) row[i] = plait_ref_get(x, i, i1, i2, i3);
        for (int64_t i = 0; i < x->dims[0]; i += block) transform(row + i, block);
        for (int64_t i = 0; i < x->dims[0]; i++) plait_ref_set(y, i, i1, i2, i3, row[i]);
    }
}

/* Every result of a block is a sum of all its elements. All of a block's results share one bound, for each is a sum of
 * all its elements with signs. */
static void hadamard_tolerance(const plait_op_use *use, int output, double *limits, void *scratch) {
    const plait_operand *x = &use->inputs[0];
    int64_t block = use->attrs[PLAIT_HADAMARD_BLOCK].i;
    (void)output, (void)scratch;
    PLAIT_REF_ROWS(x, i1, i2, i3)
    for (int64_t i = 0; i < x->dims[0]; i += block) {
        double size = 0;
        for (int64_t k = i; k < i + block; k++) size += fabs(plait_ref_get(x, k, i1, i2, i3));
        for (int64_t k = i; k < i + block; k++)
            *limits++ = plait_tol_sum(block) * size / sqrt((double)block) + PLAIT_FLUSH;
    }
}

/* log2(block) additions an element, and one product. */
static double hadamard_flop(const plait_op_use *use) {
    double flop = 0;
    for (int64_t n = 1; n < use->attrs[PLAIT_HADAMARD_BLOCK].i; n *= 2) flop += 1;
    return (flop + 1) * (double)plait_operand_elems(&use->outputs[0]);
}

static const plait_example hadamard_cases[] = {
    {.inputs = {PLAIT_IN(F32, 64, 3, 5, 1)}, .attrs = {{"block", {.i = 64}}}},
    {.inputs = {PLAIT_IN(F32, 96, 2, 3, 1)}, .attrs = {{"block", {.i = 32}}}},
    {.inputs = {PLAIT_IN(F32, 3, 2, 2, 1)}, .attrs = {{"block", {.i = 1}}}},
    {.inputs = {PLAIT_IN(F32, 8, 0, 2, 1)}, .attrs = {{"block", {.i = 8}}}},
    {.inputs = {PLAIT_VIEW(PADDED, F32, 16, 3, 2, 1)}, .attrs = {{"block", {.i = 4}}}},
};

static bool hadamard_example(int which, plait_op_use *use) {
    return plait_example_take(&plait_op_hadamard, hadamard_cases, PLAIT_COUNT_OF(hadamard_cases), which, use);
}

const plait_op plait_op_hadamard = {
    .struct_bytes = sizeof(plait_op),
    .id = PLAIT_OP_hadamard,
    .name = "hadamard",
    .doc = "y = H x / sqrt(block) for each block of dim 0",
    .factors = "x[d,i,j,k] -> y[d,i,j,k]; d: whole",
    .attrs = hadamard_attrs,
    .n_attrs = PLAIT_HADAMARD_ATTRS,
    .shape = hadamard_shape,
    .writes_input = -1,
    .rows_input = -1,
    .reference_scratch = hadamard_scratch,
    .reference = hadamard_reference,
    .tolerance = hadamard_tolerance,
    .flop = hadamard_flop,
    .example = hadamard_example,
};
