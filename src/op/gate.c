/* swiglu and geglu (Shazeer, arXiv 2002.05202): an activated gate times the up projection. Gate and up are two
 * operands; packed weights give them as two slices of one product, which are views.
 *
 * Not here: gates with clamps or biases of particular models. Invariant: elementwise, no broadcast. */
#include "base/size.h"
#include "op/activation.h"
#include "op/example.h"
#include "op/reference.h"
#include "op/shape.h"
#include "op/tolerance.h"

/* Both are float32 and of the same shape: the factors find any disagreement of dims. */
static plait_status gate_shape(plait_op_use *use) {
    PLAIT_TRY(plait_shape_dtype(use, 0, PLAIT_F32));
    PLAIT_TRY(plait_shape_dtype(use, 1, PLAIT_F32));
    return plait_shape_by_factors(use);
}

/* The activation and the product are float64, rounded once at the end. */
static void gate_reference(const plait_op_use *use, double (*activate)(double)) {
    const plait_operand *gate = &use->inputs[0], *up = &use->inputs[1], *y = &use->outputs[0];
    PLAIT_REF_ROWS(y, i1, i2, i3)
    for (int64_t i0 = 0; i0 < y->dims[0]; i0++)
        plait_ref_set(y, i0, i1, i2, i3,
                      activate(plait_ref_get(gate, i0, i1, i2, i3)) * plait_ref_get(up, i0, i1, i2, i3));
}

static void swiglu_reference(const plait_op_use *use, void *scratch) {
    (void)scratch;
    gate_reference(use, plait_act_silu);
}

static void geglu_reference(const plait_op_use *use, void *scratch) {
    (void)scratch;
    gate_reference(use, plait_act_gelu);
}

/* The activated gate's error, times up. Relative to gate * up: an activation's error is one of a factor between 0 and 1
 * of the gate. */
static void gate_tolerance(const plait_op_use *use, int output, double *limits, void *scratch) {
    const plait_operand *gate = &use->inputs[0], *up = &use->inputs[1], *y = &use->outputs[output];
    (void)scratch;
    PLAIT_REF_ROWS(y, i1, i2, i3)
    for (int64_t i0 = 0; i0 < y->dims[0]; i0++)
        *limits++ =
            plait_tol_function(0, plait_ref_get(gate, i0, i1, i2, i3) * plait_ref_get(up, i0, i1, i2, i3));
}

/* Counted as five for each element, whatever the exponential costs. It matters against bytes only, which are three
 * operands of four bytes an element. */
static double gate_flop(const plait_op_use *use) {
    return 5.0 * (double)plait_operand_elems(&use->outputs[0]);
}

/* Gate and up lie alike: that is how slices of one product lie. */
#define CASE(kind, ...)                                                                                      \
    {                                                                                                        \
        .inputs = { PLAIT_VIEW(kind, F32, __VA_ARGS__), PLAIT_VIEW(kind, F32, __VA_ARGS__) }                 \
    }
static const plait_example gate_cases[] = {
    CASE(DENSE, 7, 5, 1, 1), CASE(DENSE, 1536, 3, 1, 1), CASE(DENSE, 5, 3, 4, 2),
    CASE(DENSE, 9, 0, 1, 1), CASE(PADDED, 12, 3, 2, 1),  CASE(PERMUTED, 12, 3, 2, 1),
};
#undef CASE

static bool swiglu_example(int which, plait_op_use *use) {
    return plait_example_take(&plait_op_swiglu, gate_cases, PLAIT_COUNT_OF(gate_cases), which, use);
}

static bool geglu_example(int which, plait_op_use *use) {
    return plait_example_take(&plait_op_geglu, gate_cases, PLAIT_COUNT_OF(gate_cases), which, use);
}

/* All factors are free: gate and up split together along any dim, which is how a feed-forward layer is cut. */
const plait_op plait_op_swiglu = {
    .struct_bytes = sizeof(plait_op),
    .id = PLAIT_OP_swiglu,
    .name = "swiglu",
    .doc = "y = silu(gate) * up",
    .factors = "gate[i,j,k,l] up[i,j,k,l] -> y[i,j,k,l]",
    .shape = gate_shape,
    .writes_input = -1,
    .rows_input = -1,
    .in_place_inputs = 1u << 0 | 1u << 1,
    .reference = swiglu_reference,
    .tolerance = gate_tolerance,
    .flop = gate_flop,
    .example = swiglu_example,
};

const plait_op plait_op_geglu = {
    .struct_bytes = sizeof(plait_op),
    .id = PLAIT_OP_geglu,
    .name = "geglu",
    .doc = "y = gelu(gate) * up",
    .factors = "gate[i,j,k,l] up[i,j,k,l] -> y[i,j,k,l]",
    .shape = gate_shape,
    .writes_input = -1,
    .rows_input = -1,
    .in_place_inputs = 1u << 0 | 1u << 1,
    .reference = geglu_reference,
    .tolerance = gate_tolerance,
    .flop = gate_flop,
    .example = geglu_example,
};
