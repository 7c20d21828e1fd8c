/* matmul: the matrix product of weights of any type with float32 activations. Rows of w are the output's dim 0,
 * as in GGUF files, so both operands are read along their contiguous dim.
 *
 * Not here: batches (a third dim is a view or another node) and activations of other types; devices may quantise
 * x on the way, the definition does not. Invariant: each output element is one sum over k, from 0 up, in float64. */
#include "base/size.h"
#include "op/example.h"
#include "op/reference.h"
#include "op/shape.h"
#include "op/tolerance.h"

static plait_status matmul_shape(plait_op_use *use) {
    PLAIT_TRY(plait_shape_float(use, 0));
    PLAIT_TRY(plait_shape_dtype(use, 1, PLAIT_F32));
    return plait_shape_by_factors(use);
}

/* One decoded row of w. */
static size_t matmul_scratch(const plait_op_use *use) {
    return (size_t)use->inputs[0].dims[0] * sizeof(float);
}

/* Rows of w outside, so that each is decoded once. */
static void matmul_reference(const plait_op_use *use, void *scratch) {
    const plait_operand *w = &use->inputs[0], *x = &use->inputs[1], *y = &use->outputs[0];
    float *row = scratch;
    for (int64_t m = 0; m < y->dims[0]; m++) {
        plait_ref_read_row(w, m, 0, 0, w->dims[0], row);
        for (int64_t n = 0; n < y->dims[1]; n++) {
            double sum = 0;
            for (int64_t k = 0; k < w->dims[0]; k++) sum += (double)row[k] * plait_ref_get(x, k, n, 0, 0);
            plait_ref_set(y, m, n, 0, 0, sum);
        }
    }
}

/* Largest deviation of an element of column n of x when each 32 of them are rounded to 8 bits with one scale; 0 where
 * that loses nothing. */
static double short_deviation(const plait_operand *x, int64_t n) {
    double deviation = 0;
    for (int64_t begin = 0; begin < x->dims[0]; begin += 32) {
        double largest = 0, lost = 0;
        int64_t end = plait_min_i64(begin + 32, x->dims[0]);
        for (int64_t k = begin; k < end; k++) largest = fmax(largest, fabs(plait_ref_get(x, k, n, 0, 0)));
        for (int64_t k = begin; k < end && largest > 0; k++) {
            double code = plait_ref_get(x, k, n, 0, 0) / largest * 127;
            lost = fmax(lost, fabs(code - nearbyint(code)));
        }
        if (lost > 1e-3) deviation = fmax(deviation, largest / 120 / sqrt(12));
    }
    return deviation;
}

/* float32 sums, and x in the precision of w: rounded to its type, or to 8 bits where w is quantised. */
static void matmul_tolerance(const plait_op_use *use, int output, double *limits, void *scratch) {
    const plait_operand *w = &use->inputs[0], *x = &use->inputs[1], *y = &use->outputs[output];
    double type = plait_tol_type(w->dtype), sum = plait_tol_sum(w->dims[0]), n_terms = (double)w->dims[0];
    float *row = scratch;
    for (int64_t n = 0; n < y->dims[1]; n++) {
        double deviation = plait_dtype_quantised(w->dtype) ? short_deviation(x, n) : 0;
        for (int64_t m = 0; m < y->dims[0]; m++) {
            double size = 0, square = 0, weights = 0;
            plait_ref_read_row(w, m, 0, 0, w->dims[0], row);
            for (int64_t k = 0; k < w->dims[0]; k++) {
                double a = (double)row[k], term = a * plait_ref_get(x, k, n, 0, 0);
                size += fabs(term);
                square += term * term;
                weights += a * a;
            }
            double rounded = PLAIT_DEVIATIONS * (type * sqrt(square / 3) + deviation * sqrt(weights));
            *limits++ = sum * size + rounded + PLAIT_FLUSH * (n_terms + sqrt(n_terms * weights));
        }
    }
}

/* A multiplication and an addition for each term. */
static double matmul_flop(const plait_op_use *use) {
    const plait_operand *w = &use->inputs[0], *y = &use->outputs[0];
    return 2.0 * (double)w->dims[0] * (double)y->dims[0] * (double)y->dims[1];
}

/* Every type that models use as weights, one column (decode) and several (prompts), odd sizes, none at all; then
 * operands that are slices of something wider and transposed ones. */
#define CASE(type, k, m, n)                                                                                  \
    {                                                                                                        \
        .inputs = { PLAIT_IN(type, k, m, 1, 1), PLAIT_IN(F32, k, n, 1, 1) }                                  \
    }
static const plait_example matmul_cases[] = {
    CASE(F32, 7, 5, 3),
    CASE(F32, 64, 33, 0),
    CASE(F32, 1, 1, 1),
    CASE(F16, 96, 17, 1),
    CASE(BF16, 65, 9, 4),
    CASE(Q4_0, 64, 19, 1),
    CASE(Q4_1, 64, 19, 3),
    CASE(Q5_0, 96, 11, 2),
    CASE(Q5_1, 96, 11, 5),
    CASE(Q8_0, 160, 37, 1),
    CASE(Q8_0, 160, 37, 17),
    CASE(Q2_K, 256, 7, 2),
    CASE(Q3_K, 256, 7, 2),
    CASE(Q4_K, 512, 21, 1),
    CASE(Q4_K, 512, 21, 6),
    CASE(Q5_K, 256, 10, 2),
    CASE(Q6_K, 512, 13, 1),
    CASE(Q6_K, 512, 13, 33),
    CASE(IQ4_NL, 64, 9, 2),
    CASE(IQ4_XS, 256, 9, 2),
    CASE(MXFP4, 64, 9, 2),
    {.inputs = {PLAIT_VIEW(PADDED, F32, 24, 10, 1, 1), PLAIT_VIEW(PADDED, F32, 24, 7, 1, 1)}},
    {.inputs = {PLAIT_VIEW(PADDED, Q8_0, 64, 10, 1, 1), PLAIT_VIEW(STRIDED, F32, 64, 3, 1, 1)}},
    {.inputs = {PLAIT_VIEW(STRIDED, F16, 24, 10, 1, 1), PLAIT_IN(F32, 24, 3, 1, 1)}},
};
#undef CASE
PLAIT_EXAMPLES(matmul)

const plait_op plait_op_matmul = {
    .struct_bytes = sizeof(plait_op),
    .id = PLAIT_OP_matmul,
    .name = "matmul",
    .doc = "y[m,n] = sum over k of w[k,m] * x[k,n]",
    .factors = "w[k,m] x[k,n] -> y[m,n]; k: sum",
    .shape = matmul_shape,
    .writes_input = -1,
    .rows_input = -1,
    .reference_scratch = matmul_scratch,
    .reference = matmul_reference,
    .tolerance = matmul_tolerance,
    .flop = matmul_flop,
    .example = matmul_example,
};
