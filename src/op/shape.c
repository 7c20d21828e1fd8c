/* Checks that shape rules are made of. Not here: the rules (each op's file) and what holds for every op (table.c).
 * Invariant: a failing check leaves the use as it was and a message that names operand or attribute, expected and
 * actual. */
#include "op/shape.h"

#include "base/status.h"

#include <math.h>
#include <string.h>

/* The names live in the factor text. Only messages need them, so parsing costs nothing where nothing fails. "?" where
 * the text is wrong itself. */
const char *plait_op_input_name(const plait_op *op, int input, char out[16]) {
    plait_factors f;
    memcpy(out, "?", 2);
    if (plait_op_factors(op, &f) == PLAIT_OK && input < f.n_inputs) memcpy(out, f.inputs[input].name, 16);
    return out;
}

const char *plait_op_output_name(const plait_op *op, int output, char out[16]) {
    plait_factors f;
    memcpy(out, "?", 2);
    if (plait_op_factors(op, &f) == PLAIT_OK && output < f.n_outputs) memcpy(out, f.outputs[output].name, 16);
    return out;
}

/* Quantised types count as floats: they decode to float32. */
bool plait_dtype_is_float(plait_dtype dtype) {
    switch (dtype) {
    case PLAIT_I8:
    case PLAIT_I16:
    case PLAIT_I32:
    case PLAIT_I64: return false;
    default: return plait_dtype_known((int)dtype);
    }
}

/* An absent input passes: whether it may be absent was checked before any rule ran. */
plait_status plait_shape_dtype(const plait_op_use *use, int input, plait_dtype dtype) {
    char name[16];
    if (!plait_op_has(use, input) || use->inputs[input].dtype == dtype) return PLAIT_OK;
    return plait_error(PLAIT_INVALID_ARGUMENT, "%s: type is %s, expected %s",
                       plait_op_input_name(use->op, input, name), plait_dtype_name(use->inputs[input].dtype),
                       plait_dtype_name(dtype));
}

plait_status plait_shape_float(const plait_op_use *use, int input) {
    char name[16];
    if (!plait_op_has(use, input) || plait_dtype_is_float(use->inputs[input].dtype)) return PLAIT_OK;
    return plait_error(PLAIT_INVALID_ARGUMENT, "%s: type is %s, expected a float or quantised type",
                       plait_op_input_name(use->op, input, name), plait_dtype_name(use->inputs[input].dtype));
}

/* For what factors cannot say: a dim that follows from an attribute or is a fixed number. */
plait_status plait_shape_dim(const plait_op_use *use, int input, int dim, int64_t expected, const char *why) {
    char name[16];
    int64_t actual = use->inputs[input].dims[dim];
    if (actual == expected) return PLAIT_OK;
    return plait_error(PLAIT_INVALID_ARGUMENT, "%s: dim %d is %lld, expected %lld (%s)",
                       plait_op_input_name(use->op, input, name), dim, (long long)actual, (long long)expected,
                       why);
}

/* Dims beyond those the factor text gives are 1. */
static plait_status check_ranks(const plait_op_use *use, const plait_factors *f) {
    for (int i = 0; i < f->n_inputs; i++) {
        if (!plait_op_has(use, i)) continue;
        for (int d = f->inputs[i].rank; d < PLAIT_MAX_RANK; d++)
            if (use->inputs[i].dims[d] != 1)
                return plait_error(PLAIT_INVALID_ARGUMENT, "%s: dim %d is %lld, expected 1 (at most %d dims)",
                                   f->inputs[i].name, d, (long long)use->inputs[i].dims[d],
                                   f->inputs[i].rank);
    }
    return PLAIT_OK;
}

/* Only inputs are solved: outputs follow from them. A factor that no input tells counts as 1, so an output of other
 * size is the rule's to correct afterwards (top_k). */
plait_status plait_shape_by_factors(plait_op_use *use) {
    plait_factors room;
    const plait_factors *f;
    int64_t sizes[PLAIT_MAX_FACTORS];
    PLAIT_TRY(plait_op_factors_at(use->op, &room, &f));
    PLAIT_TRY(check_ranks(use, f));
    PLAIT_TRY(plait_factor_solve(use, f, false, false, sizes));
    for (int o = 0; o < f->n_outputs; o++) {
        plait_operand *out = &use->outputs[o];
        out->dtype = PLAIT_F32;
        for (int d = 0; d < PLAIT_MAX_RANK; d++) {
            out->dims[d] = 1;
            for (int i = 0; d < f->outputs[o].rank && i < f->outputs[o].dims[d].n; i++) {
                int64_t size = sizes[f->outputs[o].dims[d].factors[i]];
                if (size < 0) size = 1;
                if (__builtin_mul_overflow(out->dims[d], size, &out->dims[d]))
                    return plait_error(PLAIT_INVALID_ARGUMENT, "%s: dim %d overflows", f->outputs[o].name, d);
            }
        }
    }
    return PLAIT_OK;
}

/* Attributes are checked as numbers, whatever their kind. A double holds every integer up to 2^53; the checks compare
 * with 0 only. */
static double attr_number(const plait_op_use *use, int attr) {
    return use->op->attrs[attr].kind == PLAIT_ATTR_FLOAT ? use->attrs[attr].f : (double)use->attrs[attr].i;
}

/* Written so that NaN fails. */
plait_status plait_attr_above_zero(const plait_op_use *use, int attr) {
    if (attr_number(use, attr) > 0) return PLAIT_OK;
    return plait_error(PLAIT_INVALID_ARGUMENT, "%s is %g, expected above 0", use->op->attrs[attr].name,
                       attr_number(use, attr));
}

plait_status plait_attr_not_negative(const plait_op_use *use, int attr) {
    if (attr_number(use, attr) >= 0) return PLAIT_OK;
    return plait_error(PLAIT_INVALID_ARGUMENT, "%s is %g, expected 0 or more", use->op->attrs[attr].name,
                       attr_number(use, attr));
}

/* Compared by subtraction: both numbers come from outside, and start + size could overflow before it is compared. */
plait_status plait_attr_window(const plait_op_use *use, int start_attr, int total_attr, int64_t size) {
    const char *start_name = use->op->attrs[start_attr].name, *total_name = use->op->attrs[total_attr].name;
    int64_t start = use->attrs[start_attr].i, total = use->attrs[total_attr].i;
    if (start < 0 || start > INT32_MAX || size > INT32_MAX - start)
        return plait_error(PLAIT_INVALID_ARGUMENT,
                           "%s is %lld for a size of %lld, expected a whole below 2^31", start_name,
                           (long long)start, (long long)size);
    if (total < 0 || total > INT32_MAX || (total != 0 && start + size > total))
        return plait_error(PLAIT_INVALID_ARGUMENT,
                           "%s is %lld, expected 0 or at least %lld (%s %lld + size %lld)", total_name,
                           (long long)total, (long long)(start + size), start_name, (long long)start,
                           (long long)size);
    return PLAIT_OK;
}

/* After plait_attr_window the sum is below 2^31. */
int64_t plait_attr_total(const plait_op_use *use, int start_attr, int total_attr, int64_t size) {
    int64_t total = use->attrs[total_attr].i;
    return total != 0 ? total : use->attrs[start_attr].i + size;
}
