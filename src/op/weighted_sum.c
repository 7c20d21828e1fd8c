/* weighted_sum: what the experts of a token gave becomes one row, each by its share.
 *
 * Not here: how shares are made (softmax, top_k). Invariant: the sum runs over u from 0 up. */
#include "base/size.h"
#include "op/example.h"
#include "op/reference.h"
#include "op/shape.h"
#include "op/tolerance.h"

/* Sizes follow from the factors alone; both inputs are float32, since shares and what experts give are made by steps
 * before. */
static plait_status weighted_sum_shape(plait_op_use *use) {
    PLAIT_TRY(plait_shape_dtype(use, 0, PLAIT_F32));
    PLAIT_TRY(plait_shape_dtype(use, 1, PLAIT_F32));
    return plait_shape_by_factors(use);
}

/* In float64, in the order of u that the invariant states. */
static void weighted_sum_reference(const plait_op_use *use, void *scratch) {
    const plait_operand *x = &use->inputs[0], *p = &use->inputs[1], *y = &use->outputs[0];
    (void)scratch;
    for (int64_t n = 0; n < y->dims[1]; n++)
        for (int64_t m = 0; m < y->dims[0]; m++) {
            double sum = 0;
            for (int64_t u = 0; u < x->dims[1]; u++)
                sum += plait_ref_get(p, u, n, 0, 0) * plait_ref_get(x, m, u, n, 0);
            plait_ref_set(y, m, n, 0, 0, sum);
        }
}

/* float32 sums of float32 products. Errors grow with the number of terms and with their sizes, not with the sum, which
 * may cancel; `flushed` covers devices that take subnormal numbers for 0. */
static void weighted_sum_tolerance(const plait_op_use *use, int output, double *limits, void *scratch) {
    const plait_operand *x = &use->inputs[0], *p = &use->inputs[1], *y = &use->outputs[output];
    (void)scratch;
    for (int64_t n = 0; n < y->dims[1]; n++)
        for (int64_t m = 0; m < y->dims[0]; m++) {
            double size = 0, flushed = 0;
            for (int64_t u = 0; u < x->dims[1]; u++) {
                double a = fabs(plait_ref_get(p, u, n, 0, 0)), b = fabs(plait_ref_get(x, m, u, n, 0));
                size += a * b;
                flushed += 1 + a + b;
            }
            *limits++ = plait_tol_sum(x->dims[1]) * size + PLAIT_FLUSH * flushed;
        }
}

/* A product and an addition for each element of x. */
static double weighted_sum_flop(const plait_op_use *use) {
    return 2.0 * (double)plait_operand_elems(&use->inputs[0]);
}

/* Plain sizes; one expert of one element; rows beyond a vector's and a cache's size; no token at all; padded, permuted
 * and strided operands. */
static const plait_example weighted_sum_cases[] = {
    {.inputs = {PLAIT_IN(F32, 7, 2, 3, 1), PLAIT_IN(F32, 2, 3, 1, 1)}},
    {.inputs = {PLAIT_IN(F32, 1, 1, 1, 1), PLAIT_IN(F32, 1, 1, 1, 1)}},
    {.inputs = {PLAIT_IN(F32, 577, 8, 5, 1), PLAIT_IN(F32, 8, 5, 1, 1)}},
    {.inputs = {PLAIT_IN(F32, 9, 4, 0, 1), PLAIT_IN(F32, 4, 0, 1, 1)}},
    {.inputs = {PLAIT_IN(F32, 4200, 3, 2, 1), PLAIT_IN(F32, 3, 2, 1, 1)}},
    {.inputs = {PLAIT_VIEW(PADDED, F32, 33, 2, 5, 1), PLAIT_VIEW(PADDED, F32, 2, 5, 1, 1)}},
    {.inputs = {PLAIT_VIEW(PERMUTED, F32, 33, 4, 5, 1), PLAIT_VIEW(STRIDED, F32, 4, 5, 1, 1)}},
    {.inputs = {PLAIT_VIEW(STRIDED, F32, 33, 2, 5, 1), PLAIT_IN(F32, 2, 5, 1, 1)}},
};
PLAIT_EXAMPLES(weighted_sum)

const plait_op plait_op_weighted_sum = {
    .struct_bytes = sizeof(plait_op),
    .id = PLAIT_OP_weighted_sum,
    .name = "weighted_sum",
    .doc = "y[m,n] = sum over u of p[u,n] * x[m,u,n]",
    .factors = "x[m,u,n] p[u,n] -> y[m,n]; u: sum",
    .shape = weighted_sum_shape,
    .writes_input = -1,
    .rows_input = -1,
    .reference = weighted_sum_reference,
    .tolerance = weighted_sum_tolerance,
    .flop = weighted_sum_flop,
    .example = weighted_sum_example,
};
