/* rms_norm (Zhang and Sennrich, arXiv 1910.07467) and layer_norm (Ba et al., arXiv 1607.06450) over dim 0, with
 * optional weight and bias. The variance of layer_norm is that of the population (divided by d).
 *
 * Not here: norms over heads or groups, which are views of x with d the size of the group. Invariant: a row is
 * read whole before it is written, so the output may be the input. */
#include "base/size.h"
#include "op/attrs.h"
#include "op/example.h"
#include "op/reference.h"
#include "op/shape.h"
#include "op/tolerance.h"

#include <math.h>

static const plait_attr_row norm_attrs[PLAIT_NORM_ATTRS] = {
    [PLAIT_NORM_EPS] =
        {"eps", PLAIT_ATTR_FLOAT, {.f = 0}, true, "added to the mean square or variance, above 0"},
};

/* Both norms: eps is required and positive, so that a row of zeros has a result. All inputs are float32, weights too:
 * norms are small, and files store them so. */
static plait_status norm_shape(plait_op_use *use) {
    for (int i = 0; i < use->n_inputs; i++) PLAIT_TRY(plait_shape_dtype(use, i, PLAIT_F32));
    PLAIT_TRY(plait_attr_above_zero(use, PLAIT_NORM_EPS));
    return plait_shape_by_factors(use);
}

/* One row of either norm: (x - mean) / sqrt(mean((x - mean)^2) + eps) * w + b, with mean 0 for rms_norm. The variance
 * is taken of centred values in a second pass: mean(x^2) - mean^2 would cancel for rows far from 0. */
static void norm_row(const plait_op_use *use, bool centred, int64_t i1, int64_t i2, int64_t i3) {
    const plait_operand *x = &use->inputs[0], *y = &use->outputs[0];
    int64_t d = x->dims[0];
    double mean = 0, square = 0;
    if (centred) {
        for (int64_t i = 0; i < d; i++) mean += plait_ref_get(x, i, i1, i2, i3);
        mean /= (double)d;
    }
    for (int64_t i = 0; i < d; i++) {
        double value = plait_ref_get(x, i, i1, i2, i3) - mean;
        square += value * value;
    }
    double factor = 1.0 / sqrt(square / (double)d + use->attrs[PLAIT_NORM_EPS].f);
    for (int64_t i = 0; i < d; i++) {
        double value = (plait_ref_get(x, i, i1, i2, i3) - mean) * factor;
        if (plait_op_has(use, 1)) value *= plait_ref_get(&use->inputs[1], i, 0, 0, 0);
        if (plait_op_has(use, 2)) value += plait_ref_get(&use->inputs[2], i, 0, 0, 0);
        plait_ref_set(y, i, i1, i2, i3, value);
    }
}

/* Both norms are one formula with the mean at 0 or where it is. */
static void rms_norm_reference(const plait_op_use *use, void *scratch) {
    (void)scratch;
    PLAIT_REF_ROWS(&use->inputs[0], i1, i2, i3) norm_row(use, false, i1, i2, i3);
}

static void layer_norm_reference(const plait_op_use *use, void *scratch) {
    (void)scratch;
    PLAIT_REF_ROWS(&use->inputs[0], i1, i2, i3) norm_row(use, true, i1, i2, i3);
}

/* What a row's sums may be off, relative to the numbers in it: the mean moves every element, and the deviation scales
 * them. PLAIT_FLUSH is scaled by the factor, because a flushed x is multiplied by it. */
static void norm_row_tolerance(const plait_op_use *use, bool centred, int64_t i1, int64_t i2, int64_t i3,
                               double *limits) {
    const plait_operand *x = &use->inputs[0];
    int64_t d = x->dims[0];
    double sum = plait_tol_sum(d), mean = 0, size = 0, square = 0;
    for (int64_t i = 0; i < d; i++) {
        double value = plait_ref_get(x, i, i1, i2, i3);
        mean += centred ? value / (double)d : 0;
        size += centred ? fabs(value) / (double)d : 0;
    }
    for (int64_t i = 0; i < d; i++) square += pow(plait_ref_get(x, i, i1, i2, i3) - mean, 2) / (double)d;
    double factor = 1.0 / sqrt(square + use->attrs[PLAIT_NORM_EPS].f), moved = sum * size * factor;
    for (int64_t i = 0; i < d; i++) {
        double normal = fabs(plait_ref_get(x, i, i1, i2, i3) - mean) * factor;
        double limit = moved + normal * (sum + moved), weight = 1, bias = 0;
        if (plait_op_has(use, 1)) weight = fabs(plait_ref_get(&use->inputs[1], i, 0, 0, 0));
        if (plait_op_has(use, 2)) bias = fabs(plait_ref_get(&use->inputs[2], i, 0, 0, 0));
        limits[i] = limit * weight + PLAIT_ULP * bias + PLAIT_FLUSH * fmax(1, factor);
    }
}

/* limits advances by a row, in the order of the output. */
static void norm_tolerance(const plait_op_use *use, int output, double *limits, void *scratch) {
    (void)output, (void)scratch;
    PLAIT_REF_ROWS(&use->inputs[0], i1, i2, i3) {
        norm_row_tolerance(use, use->op->id == PLAIT_OP_layer_norm, i1, i2, i3, limits);
        limits += use->inputs[0].dims[0];
    }
}

/* Square and add, then one product for the factor and one for the weight. */
static double rms_norm_flop(const plait_op_use *use) {
    return (plait_op_has(use, 1) ? 4.0 : 3.0) * (double)plait_operand_elems(&use->inputs[0]);
}

/* Two passes of sums, centring and scaling; weight and bias if there are any. */
static double layer_norm_flop(const plait_op_use *use) {
    int per_element = 5 + (plait_op_has(use, 1) ? 1 : 0) + (plait_op_has(use, 2) ? 1 : 0);
    return (double)per_element * (double)plait_operand_elems(&use->inputs[0]);
}

#define EPS(value) .attrs = {{"eps", {.f = (value)}}}
/* eps of 0.5 beside tiny ones: where it is left out, or taken outside of the root, results differ visibly. */
static const plait_example rms_norm_cases[] = {
    {.inputs = {PLAIT_IN(F32, 7, 3, 1, 1), PLAIT_IN(F32, 7, 1, 1, 1)}, EPS(1e-5)},
    {.inputs = {PLAIT_IN(F32, 576, 5, 1, 1), PLAIT_IN(F32, 576, 1, 1, 1)}, EPS(1e-6)},
    {.inputs = {PLAIT_IN(F32, 65, 3, 2, 2)}, EPS(1e-6)},
    {.inputs = {PLAIT_IN(F32, 16, 0, 1, 1), PLAIT_IN(F32, 16, 1, 1, 1)}, EPS(1e-5)},
    {.inputs = {PLAIT_VIEW(PADDED, F32, 12, 3, 4, 1), PLAIT_VIEW(STRIDED, F32, 12, 1, 1, 1)}, EPS(1e-5)},
    {.inputs = {PLAIT_VIEW(PERMUTED, F32, 12, 3, 4, 1)}, EPS(0.5)},
};
PLAIT_EXAMPLES(rms_norm)

/* Bias without weight too: absent inputs may stand before present ones. */
static const plait_example layer_norm_cases[] = {
    {.inputs = {PLAIT_IN(F32, 7, 3, 1, 1), PLAIT_IN(F32, 7, 1, 1, 1), PLAIT_IN(F32, 7, 1, 1, 1)}, EPS(1e-5)},
    {.inputs = {PLAIT_IN(F32, 384, 5, 1, 1), PLAIT_IN(F32, 384, 1, 1, 1)}, EPS(1e-12)},
    {.inputs = {PLAIT_IN(F32, 65, 3, 2, 2)}, EPS(1e-6)},
    {.inputs = {PLAIT_IN(F32, 16, 0, 1, 1), PLAIT_ABSENT, PLAIT_IN(F32, 16, 1, 1, 1)}, EPS(1e-5)},
    {.inputs = {PLAIT_VIEW(PADDED, F32, 12, 3, 4, 1), PLAIT_ABSENT, PLAIT_IN(F32, 12, 1, 1, 1)}, EPS(1e-5)},
    {.inputs = {PLAIT_VIEW(PERMUTED, F32, 12, 3, 4, 1)}, EPS(0.5)},
};
#undef EPS
PLAIT_EXAMPLES(layer_norm)

/* d is whole: cut rows would need their sums of squares before any result. Rows are free. */
const plait_op plait_op_rms_norm = {
    .struct_bytes = sizeof(plait_op),
    .id = PLAIT_OP_rms_norm,
    .name = "rms_norm",
    .doc = "y = x / sqrt(mean over d of x^2 + eps) * w",
    .factors = "x[d,i,j,l] w?[d] -> y[d,i,j,l]; d: whole",
    .attrs = norm_attrs,
    .n_attrs = PLAIT_NORM_ATTRS,
    .shape = norm_shape,
    .writes_input = -1,
    .rows_input = -1,
    .in_place_inputs = 1u << 0,
    .reference = rms_norm_reference,
    .tolerance = norm_tolerance,
    .flop = rms_norm_flop,
    .example = rms_norm_example,
};

const plait_op plait_op_layer_norm = {
    .struct_bytes = sizeof(plait_op),
    .id = PLAIT_OP_layer_norm,
    .name = "layer_norm",
    .doc = "y = (x - mean) / sqrt(variance over d of x + eps) * w + b",
    .factors = "x[d,i,j,l] w?[d] b?[d] -> y[d,i,j,l]; d: whole",
    .attrs = norm_attrs,
    .n_attrs = PLAIT_NORM_ATTRS,
    .shape = norm_shape,
    .writes_input = -1,
    .rows_input = -1,
    .in_place_inputs = 1u << 0,
    .reference = layer_norm_reference,
    .tolerance = norm_tolerance,
    .flop = layer_norm_flop,
    .example = layer_norm_example,
};
