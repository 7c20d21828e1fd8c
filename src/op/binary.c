/* add, sub, mul, div: elementwise, with b broadcast over dims where its size is 1 (a bias, a scale for each head).
 *
 * Not here: broadcast of a (swap the operands, or copy), and other types than float32. Invariant: the output has
 * the dims of a. */
#include "base/size.h"
#include "base/status.h"
#include "op/example.h"
#include "op/reference.h"
#include "op/shape.h"
#include "op/tolerance.h"

/* By hand and not by factors, because factors that all operands share say nothing about broadcasting. */
static plait_status binary_shape(plait_op_use *use) {
    const plait_operand *a = &use->inputs[0], *b = &use->inputs[1];
    PLAIT_TRY(plait_shape_dtype(use, 0, PLAIT_F32));
    PLAIT_TRY(plait_shape_dtype(use, 1, PLAIT_F32));
    for (int d = 0; d < PLAIT_MAX_RANK; d++)
        if (b->dims[d] != a->dims[d] && b->dims[d] != 1)
            return plait_error(PLAIT_INVALID_ARGUMENT, "b: dim %d is %lld, expected 1 or %lld (a: dim %d)", d,
                               (long long)b->dims[d], (long long)a->dims[d], d);
    use->outputs[0].dtype = PLAIT_F32;
    memcpy(use->outputs[0].dims, a->dims, sizeof a->dims);
    return PLAIT_OK;
}

/* Index into b: 0 along broadcast dims. */
static int64_t along(const plait_operand *b, int d, int64_t i) {
    return b->dims[d] == 1 ? 0 : i;
}

/* Applies f in float64; what is rounded to float32 is the exact sum or product, as one float32 operation gives. A
 * float32 sum or product is rounded twice here, to double and to float, and still comes out as if rounded once: 53 bits
 * are more than 2 * 24 + 2, which makes double rounding harmless, for quotients too (S. A. Figueroa, "When is double
 * rounding innocuous?", SIGNUM Newsletter, 1995). */
static void binary_reference(const plait_op_use *use, double (*f)(double a, double b)) {
    const plait_operand *a = &use->inputs[0], *b = &use->inputs[1], *y = &use->outputs[0];
    PLAIT_REF_ROWS(y, i1, i2, i3)
    for (int64_t i0 = 0; i0 < y->dims[0]; i0++) {
        double right = plait_ref_get(b, along(b, 0, i0), along(b, 1, i1), along(b, 2, i2), along(b, 3, i3));
        plait_ref_set(y, i0, i1, i2, i3, f(plait_ref_get(a, i0, i1, i2, i3), right));
    }
}

/* Sums, differences and products are what one float32 operation gives, but for numbers that are flushed to zero;
 * quotients may come from an approximated reciprocal. */
static void binary_tolerance(const plait_op_use *use, int output, double *limits, void *scratch) {
    const plait_operand *a = &use->inputs[0], *b = &use->inputs[1], *y = &use->outputs[output];
    (void)scratch;
    PLAIT_REF_ROWS(y, i1, i2, i3)
    for (int64_t i0 = 0; i0 < y->dims[0]; i0++) {
        double left = fabs(plait_ref_get(a, i0, i1, i2, i3));
        double right =
            fabs(plait_ref_get(b, along(b, 0, i0), along(b, 1, i1), along(b, 2, i2), along(b, 3, i3)));
        *limits++ = use->op->id == PLAIT_OP_div
                        ? 2.5 * PLAIT_ULP * left / right + PLAIT_FLUSH * fmax(1, 1 / right)
                        : PLAIT_FLUSH * fmax(1, fmax(left, right));
    }
}

#define PAIR(a0, a1, a2, a3, b0, b1, b2, b3)                                                                 \
    {                                                                                                        \
        .inputs = { PLAIT_IN(F32, a0, a1, a2, a3), PLAIT_IN(F32, b0, b1, b2, b3) }                           \
    }
static const plait_example binary_cases[] = {
    PAIR(7, 5, 1, 1, 7, 5, 1, 1),
    PAIR(576, 3, 1, 1, 576, 1, 1, 1),
    PAIR(5, 3, 4, 2, 5, 3, 4, 2),
    PAIR(5, 3, 4, 2, 1, 3, 1, 2),
    PAIR(9, 4, 1, 1, 1, 1, 1, 1),
    PAIR(9, 0, 1, 1, 9, 1, 1, 1),
    PAIR(9, 0, 1, 1, 9, 0, 1, 1),
    {.inputs = {PLAIT_VIEW(PADDED, F32, 10, 3, 2, 1), PLAIT_VIEW(STRIDED, F32, 10, 3, 2, 1)}},
    {.inputs = {PLAIT_VIEW(PERMUTED, F32, 10, 3, 2, 1), PLAIT_IN(F32, 10, 3, 1, 1)}},
};
#undef PAIR

/* A whole op from its formula in a and b. */
#define BINARY(op_name, formula)                                                                             \
    static double op_name##_of(double a, double b) {                                                         \
        return formula;                                                                                      \
    }                                                                                                        \
    static void op_name##_reference(const plait_op_use *use, void *scratch) {                                \
        (void)scratch;                                                                                       \
        binary_reference(use, op_name##_of);                                                                 \
    }                                                                                                        \
    static bool op_name##_example(int which, plait_op_use *use) {                                            \
        return plait_example_take(&plait_op_##op_name, binary_cases, PLAIT_COUNT_OF(binary_cases), which,    \
                                  use);                                                                      \
    }                                                                                                        \
    const plait_op plait_op_##op_name = {                                                                    \
        .struct_bytes = sizeof(plait_op),                                                                    \
        .id = PLAIT_OP_##op_name,                                                                            \
        .name = #op_name,                                                                                    \
        .doc = "y = " #formula ", b broadcast over dims of size 1",                                          \
        .factors = "a[i,j,k,l] b[i,j,k,l] -> y[i,j,k,l]",                                                    \
        .shape = binary_shape,                                                                               \
        .writes_input = -1,                                                                                  \
        .rows_input = -1,                                                                                    \
        .in_place_inputs = 1u << 0 | 1u << 1,                                                                \
        .reference = op_name##_reference,                                                                    \
        .tolerance = binary_tolerance,                                                                       \
        .example = op_name##_example,                                                                        \
    };

BINARY(add, a + b)
BINARY(sub, a - b)
BINARY(mul, a *b)
BINARY(div, a / b)
