/* Elementwise functions of one tensor: silu, gelu (tanh form), relu, sigmoid, tanh, scale, softcap.
 *
 * Not here: the gated forms (gate.c). Invariant: element e of the output depends on element e of x alone, NaN
 * stays NaN, and the limits at infinity are those of the function. */
#include "base/size.h"
#include "op/activation.h"
#include "op/attrs.h"
#include "op/example.h"
#include "op/reference.h"
#include "op/shape.h"
#include "op/tolerance.h"

static const plait_attr_row scale_attrs[PLAIT_SCALE_ATTRS] = {
    [PLAIT_SCALE_FACTOR] = {"factor", PLAIT_ATTR_FLOAT, {.f = 1}, true, "multiplies every element"},
};
static const plait_attr_row softcap_attrs[PLAIT_SOFTCAP_ATTRS] = {
    [PLAIT_SOFTCAP_CAP] = {"cap", PLAIT_ATTR_FLOAT, {.f = 0}, true, "bound of the result, above 0"},
};

/* Any shape; strides are the kernels' matter. */
static plait_status unary_shape(plait_op_use *use) {
    PLAIT_TRY(plait_shape_dtype(use, 0, PLAIT_F32));
    return plait_shape_by_factors(use);
}

/* A cap of 0 would divide by zero. */
static plait_status softcap_shape(plait_op_use *use) {
    PLAIT_TRY(plait_attr_above_zero(use, PLAIT_SOFTCAP_CAP));
    return unary_shape(use);
}

/* Applies f in float64 to every element; f gets the attributes of the op. One loop for all: a call through a pointer
 * for each element is slow, which a reference may be. */
static void unary_reference(const plait_op_use *use, double (*f)(double x, const plait_attr *attrs)) {
    const plait_operand *x = &use->inputs[0], *y = &use->outputs[0];
    PLAIT_REF_ROWS(y, i1, i2, i3)
    for (int64_t i0 = 0; i0 < y->dims[0]; i0++)
        plait_ref_set(y, i0, i1, i2, i3, f(plait_ref_get(x, i0, i1, i2, i3), use->attrs));
}

/* tanh, sigmoid and what is made of them: errors of a bounded factor, so relative to x or the function's bound,
 * whichever is smaller; relu is exact, scale may use a float32 factor. */
static void unary_tolerance(const plait_op_use *use, int output, double *limits, void *scratch) {
    const plait_operand *x = &use->inputs[0], *y = &use->outputs[output];
    (void)scratch;
    PLAIT_REF_ROWS(y, i1, i2, i3)
    for (int64_t i0 = 0; i0 < y->dims[0]; i0++) {
        double size = fabs(plait_ref_get(x, i0, i1, i2, i3)), bound = size;
        switch (use->op->id) {
        case PLAIT_OP_relu: bound = 0; break;
        case PLAIT_OP_sigmoid: bound = 1; break;
        case PLAIT_OP_tanh: bound = fmin(size, 1); break;
        case PLAIT_OP_softcap: bound = fmin(size, use->attrs[PLAIT_SOFTCAP_CAP].f); break;
        case PLAIT_OP_scale: bound = 0.5 * size * fabs(use->attrs[PLAIT_SCALE_FACTOR].f); break;
        default: break;
        }
        *limits++ = plait_tol_function(0, bound);
    }
}

/* The same shapes and views for all of them; only attributes differ. */
#define CASES(...)                                                                                           \
    {                                                                                                        \
        {.inputs = {PLAIT_IN(F32, 7, 5, 1, 1)}, __VA_ARGS__},                                                \
            {.inputs = {PLAIT_IN(F32, 576, 3, 1, 1)}, __VA_ARGS__},                                          \
            {.inputs = {PLAIT_IN(F32, 5, 3, 4, 2)}, __VA_ARGS__},                                            \
            {.inputs = {PLAIT_IN(F32, 9, 0, 1, 1)}, __VA_ARGS__},                                            \
            {.inputs = {PLAIT_VIEW(PADDED, F32, 10, 3, 2, 1)}, __VA_ARGS__},                                 \
            {.inputs = {PLAIT_VIEW(PERMUTED, F32, 10, 3, 2, 1)}, __VA_ARGS__},                               \
            {.inputs = {PLAIT_VIEW(STRIDED, F32, 10, 3, 2, 1)}, __VA_ARGS__},                                \
    }
static const plait_example plain_cases[] = CASES(.attrs = {{0}});
static const plait_example scale_cases[] = CASES(.attrs = {{"factor", {.f = -0.37}}});
static const plait_example softcap_cases[] = CASES(.attrs = {{"cap", {.f = 1.5}}});
#undef CASES

/* A whole op from its formula in x and attrs. */
#define UNARY(op_name, text, formula, shape_rule, attr_rows, attr_count, cases)                              \
    static double op_name##_of(double x, const plait_attr *attrs) {                                          \
        (void)attrs;                                                                                         \
        return formula;                                                                                      \
    }                                                                                                        \
    static void op_name##_reference(const plait_op_use *use, void *scratch) {                                \
        (void)scratch;                                                                                       \
        unary_reference(use, op_name##_of);                                                                  \
    }                                                                                                        \
    static bool op_name##_example(int which, plait_op_use *use) {                                            \
        return plait_example_take(&plait_op_##op_name, cases, PLAIT_COUNT_OF(cases), which, use);            \
    }                                                                                                        \
    const plait_op plait_op_##op_name = {                                                                    \
        .struct_bytes = sizeof(plait_op),                                                                    \
        .id = PLAIT_OP_##op_name,                                                                            \
        .name = #op_name,                                                                                    \
        .doc = text,                                                                                         \
        .factors = "x[i,j,k,l] -> y[i,j,k,l]",                                                               \
        .attrs = attr_rows,                                                                                  \
        .n_attrs = attr_count,                                                                               \
        .shape = shape_rule,                                                                                 \
        .writes_input = -1,                                                                                  \
        .rows_input = -1,                                                                                    \
        .in_place_inputs = 1u << 0,                                                                          \
        .reference = op_name##_reference,                                                                    \
        .tolerance = unary_tolerance,                                                                        \
        .example = op_name##_example,                                                                        \
    };

UNARY(silu, "y = x / (1 + exp(-x))", plait_act_silu(x), unary_shape, NULL, 0, plain_cases)
UNARY(gelu, "y = x/2 * (1 + tanh(sqrt(2/pi) * (x + 0.044715 x^3)))", plait_act_gelu(x), unary_shape, NULL, 0,
      plain_cases)
/* The negation keeps NaN. */
UNARY(relu, "y = max(x, 0)", !(x < 0) ? x : 0.0, unary_shape, NULL, 0, plain_cases)
UNARY(sigmoid, "y = 1 / (1 + exp(-x))", plait_act_sigmoid(x), unary_shape, NULL, 0, plain_cases)
UNARY(tanh, "y = tanh(x)", tanh(x), unary_shape, NULL, 0, plain_cases)
UNARY(scale, "y = factor * x", attrs[PLAIT_SCALE_FACTOR].f *x, unary_shape, scale_attrs, PLAIT_SCALE_ATTRS,
      scale_cases)
UNARY(softcap, "y = cap * tanh(x / cap)", plait_act_softcap(x, attrs[PLAIT_SOFTCAP_CAP].f), softcap_shape,
      softcap_attrs, PLAIT_SOFTCAP_ATTRS, softcap_cases)
