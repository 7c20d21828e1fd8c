/* softmax over dim 0, of scale * x. Attention has its own, fused with the sums and mergeable over slices; this one
 * is for routers and samplers, whose rows are short and needed whole.
 *
 * Invariant: the maximum is subtracted before the exponential, so that no finite row overflows. A row with a NaN,
 * and one of -infinity alone, is all NaN. */
#include "base/size.h"
#include "op/attrs.h"
#include "op/example.h"
#include "op/reference.h"
#include "op/shape.h"
#include "op/tolerance.h"

#include <math.h>

static const plait_attr_row softmax_attrs[PLAIT_SOFTMAX_ATTRS] = {
    [PLAIT_SOFTMAX_SCALE] =
        {"scale", PLAIT_ATTR_FLOAT, {.f = 1}, false, "multiplies x before the exponential"},
};

static plait_status softmax_shape(plait_op_use *use) {
    PLAIT_TRY(plait_shape_dtype(use, 0, PLAIT_F32));
    return plait_shape_by_factors(use);
}

/* Three passes: maximum, sum, results; the output may be the input. fmax skips a NaN, but the sum has it, and so has
 * every result. */
static void softmax_row(const plait_op_use *use, int64_t i1, int64_t i2, int64_t i3) {
    const plait_operand *x = &use->inputs[0], *y = &use->outputs[0];
    double scale = use->attrs[PLAIT_SOFTMAX_SCALE].f, max = -INFINITY, sum = 0;
    for (int64_t i = 0; i < x->dims[0]; i++) max = fmax(max, scale * plait_ref_get(x, i, i1, i2, i3));
    for (int64_t i = 0; i < x->dims[0]; i++) sum += exp(scale * plait_ref_get(x, i, i1, i2, i3) - max);
    for (int64_t i = 0; i < x->dims[0]; i++)
        plait_ref_set(y, i, i1, i2, i3, exp(scale * plait_ref_get(x, i, i1, i2, i3) - max) / sum);
}

static void softmax_reference(const plait_op_use *use, void *scratch) {
    (void)scratch;
    PLAIT_REF_ROWS(&use->inputs[0], i1, i2, i3) softmax_row(use, i1, i2, i3);
}

/* scale * x - max is rounded before the exponential, which makes that a relative error. Terms that are nothing beside
 * the largest may be nothing at all. */
static void softmax_tolerance(const plait_op_use *use, int output, double *limits, void *scratch) {
    const plait_operand *x = &use->inputs[0];
    double scale = use->attrs[PLAIT_SOFTMAX_SCALE].f;
    (void)output, (void)scratch;
    PLAIT_REF_ROWS(x, i1, i2, i3) {
        double max = -INFINITY, sum = 0, worst = 0;
        for (int64_t i = 0; i < x->dims[0]; i++) max = fmax(max, scale * plait_ref_get(x, i, i1, i2, i3));
        for (int64_t i = 0; i < x->dims[0]; i++) {
            double z = scale * plait_ref_get(x, i, i1, i2, i3), share = exp(z - max);
            sum += share;
            worst += share * PLAIT_ULP * (fabs(z) + fabs(max));
        }
        for (int64_t i = 0; i < x->dims[0]; i++, limits++) {
            double z = scale * plait_ref_get(x, i, i1, i2, i3), y = exp(z - max) / sum;
            double relative = plait_tol_sum(x->dims[0]) + PLAIT_ULP * (fabs(z) + fabs(max)) + worst / sum;
            *limits = y > 0x1p-100 ? y * relative : 0x1p-90;
        }
    }
}

/* An exponential counts as three. */
static double softmax_flop(const plait_op_use *use) {
    return 5.0 * (double)plait_operand_elems(&use->outputs[0]);
}

static const plait_example softmax_cases[] = {
    {.inputs = {PLAIT_IN(F32, 7, 5, 1, 1)}},
    {.inputs = {PLAIT_IN(F32, 1, 5, 1, 1)}},
    {.inputs = {PLAIT_IN(F32, 257, 3, 2, 1)}, .attrs = {{"scale", {.f = 3.25}}}},
    {.inputs = {PLAIT_IN(F32, 9, 0, 1, 1)}},
    {.inputs = {PLAIT_VIEW(PADDED, F32, 10, 3, 2, 2)}, .attrs = {{"scale", {.f = -1}}}},
    {.inputs = {PLAIT_VIEW(STRIDED, F32, 10, 3, 2, 2)}},
};
PLAIT_EXAMPLES(softmax)

/* d is whole: partials would need the merge of attention, for rows that are too short to be cut. */
const plait_op plait_op_softmax = {
    .struct_bytes = sizeof(plait_op),
    .id = PLAIT_OP_softmax,
    .name = "softmax",
    .doc = "y = exp(scale * x) / sum over d of exp(scale * x)",
    .factors = "x[d,i,j,l] -> y[d,i,j,l]; d: whole",
    .attrs = softmax_attrs,
    .n_attrs = PLAIT_SOFTMAX_ATTRS,
    .shape = softmax_shape,
    .writes_input = -1,
    .rows_input = -1,
    .in_place_inputs = 1u << 0,
    .reference = softmax_reference,
    .tolerance = softmax_tolerance,
    .flop = softmax_flop,
    .example = softmax_example,
};
