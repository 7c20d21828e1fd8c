/* copy (the same elements, dense) and cast (another type). Neither is needed for views: those are no operations.
 * A cast goes through float32, so 64-bit values lose what float32 cannot hold; quantised targets are encoded
 * without importance. Integers are no targets: nothing computes integers from floats, and rounding would need
 * rules. Invariant: a copy moves blocks as they are, whatever their bytes mean. */
#include "base/size.h"
#include "base/status.h"
#include "op/attrs.h"
#include "op/example.h"
#include "op/reference.h"
#include "op/shape.h"
#include "op/tolerance.h"

static const plait_attr_row cast_attrs[PLAIT_CAST_ATTRS] = {
    [PLAIT_CAST_DTYPE] = {"dtype", PLAIT_ATTR_DTYPE, {.i = PLAIT_F32}, true, "type of the result"},
};

/* plait_shape_by_factors says F32, the rule of most ops; a copy keeps its type, integers and quantised ones
 * included. */
static plait_status copy_shape(plait_op_use *use) {
    PLAIT_TRY(plait_shape_by_factors(use));
    use->outputs[0].dtype = use->inputs[0].dtype;
    return PLAIT_OK;
}

/* Whether the rows are whole blocks of a quantised target is checked with the output's dims. A row that is not whole
 * blocks is refused there (finish_outputs of table.c), with the output's name. */
static plait_status cast_shape(plait_op_use *use) {
    plait_dtype dtype = (plait_dtype)use->attrs[PLAIT_CAST_DTYPE].i;
    if (!plait_dtype_is_float(dtype))
        return plait_error(PLAIT_INVALID_ARGUMENT, "dtype is %s, expected a float or quantised type",
                           plait_dtype_name(dtype));
    PLAIT_TRY(plait_shape_by_factors(use));
    use->outputs[0].dtype = dtype;
    return PLAIT_OK;
}

/* By blocks, not elements: a copy must not decode, or NaN payloads and codes would depend on float arithmetic. */
static void copy_reference(const plait_op_use *use, void *scratch) {
    (void)scratch;
    const plait_operand *x = &use->inputs[0], *y = &use->outputs[0];
    int64_t n_blocks = x->dims[0] / plait_dtype_block_elems(x->dtype);
    size_t bytes = (size_t)plait_dtype_block_bytes(x->dtype);
    PLAIT_REF_ROWS(x, i1, i2, i3)
    for (int64_t i = 0; i < n_blocks; i++)
        memcpy(plait_ref_at(y, i, i1, i2, i3), plait_ref_at(x, i, i1, i2, i3), bytes);
}

/* One row in float32. */
static size_t cast_scratch(const plait_op_use *use) {
    return (size_t)use->inputs[0].dims[0] * sizeof(float);
}

/* Through float32 for every pair of types: exact where the source fits it. */
static void cast_reference(const plait_op_use *use, void *scratch) {
    const plait_operand *x = &use->inputs[0], *y = &use->outputs[0];
    PLAIT_REF_ROWS(x, i1, i2, i3) {
        plait_ref_read_row(x, i1, i2, i3, x->dims[0], scratch);
        plait_ref_write_row(y, i1, i2, i3, x->dims[0], scratch);
    }
}

/* Plain types are rounded to nearest, ties to even, which leaves no choice; encoders of quantised ones have some. */
static void cast_tolerance(const plait_op_use *use, int output, double *limits, void *scratch) {
    const plait_operand *x = &use->inputs[0];
    PLAIT_REF_ROWS(x, i1, i2, i3) {
        plait_ref_read_row(x, i1, i2, i3, x->dims[0], scratch);
        for (int64_t i = 0; i < x->dims[0]; i++) limits[i] = 0;
        plait_tol_encoded(use->outputs[output].dtype, scratch, x->dims[0], limits);
        limits += x->dims[0];
    }
}

/* Moves bytes only. Without this the default would count one for each element. */
static double copy_flop(const plait_op_use *use) {
    (void)use;
    return 0;
}

static const plait_example copy_cases[] = {
    {.inputs = {PLAIT_IN(F32, 7, 5, 3, 1)}},
    {.inputs = {PLAIT_VIEW(PERMUTED, F32, 64, 3, 5, 1)}},
    {.inputs = {PLAIT_VIEW(STRIDED, F32, 7, 5, 3, 2)}},
    {.inputs = {PLAIT_VIEW(PADDED, F16, 7, 5, 3, 2)}},
    {.inputs = {PLAIT_VIEW(STRIDED, I32, 7, 5, 1, 1)}},
    {.inputs = {PLAIT_VIEW(PADDED, Q8_0, 64, 5, 3, 1)}},
    {.inputs = {PLAIT_VIEW(PERMUTED, Q4_K, 256, 3, 2, 1)}},
    {.inputs = {PLAIT_IN(F32, 7, 0, 1, 1)}},
};
PLAIT_EXAMPLES(copy)

#define TO(type) .attrs = {{"dtype", {.i = PLAIT_##type}}}
/* To and from every plain float, one type with a cheap encoder and one with a search, sources of blocks, views. */
static const plait_example cast_cases[] = {
    {.inputs = {PLAIT_IN(F32, 7, 5, 3, 1)}, TO(F16)},
    {.inputs = {PLAIT_IN(F32, 7, 5, 3, 1)}, TO(BF16)},
    {.inputs = {PLAIT_IN(F16, 7, 5, 3, 1)}, TO(F32)},
    {.inputs = {PLAIT_IN(BF16, 7, 5, 3, 1)}, TO(F32)},
    {.inputs = {PLAIT_IN(F32, 64, 5, 1, 1)}, TO(Q8_0)},
    {.inputs = {PLAIT_IN(F32, 64, 5, 1, 1)}, TO(Q4_0)},
    {.inputs = {PLAIT_IN(Q8_0, 64, 5, 1, 1)}, TO(F32)},
    {.inputs = {PLAIT_IN(Q4_K, 256, 3, 1, 1)}, TO(F16)},
    {.inputs = {PLAIT_IN(I32, 9, 2, 1, 1)}, TO(F32)},
    {.inputs = {PLAIT_VIEW(STRIDED, F32, 7, 5, 3, 1)}, TO(F16)},
    {.inputs = {PLAIT_VIEW(PADDED, Q8_0, 64, 5, 1, 1)}, TO(F16)},
    {.inputs = {PLAIT_IN(F32, 7, 0, 1, 1)}, TO(F16)},
};
#undef TO
PLAIT_EXAMPLES(cast)

/* No flop, no tolerance: bytes move. */
const plait_op plait_op_copy = {
    .struct_bytes = sizeof(plait_op),
    .id = PLAIT_OP_copy,
    .name = "copy",
    .doc = "y = x, dense",
    .factors = "x[i,j,k,l] -> y[i,j,k,l]",
    .shape = copy_shape,
    .writes_input = -1,
    .rows_input = -1,
    .reference = copy_reference,
    .flop = copy_flop,
    .example = copy_example,
};

/* All factors are free; that a quantised target needs whole blocks along i is the granule's matter, not the
 * factors'. */
const plait_op plait_op_cast = {
    .struct_bytes = sizeof(plait_op),
    .id = PLAIT_OP_cast,
    .name = "cast",
    .doc = "y = x as another type, rounded to nearest",
    .factors = "x[i,j,k,l] -> y[i,j,k,l]",
    .attrs = cast_attrs,
    .n_attrs = PLAIT_CAST_ATTRS,
    .shape = cast_shape,
    .writes_input = -1,
    .rows_input = -1,
    .reference_scratch = cast_scratch,
    .reference = cast_reference,
    .tolerance = cast_tolerance,
    .example = cast_example,
};
