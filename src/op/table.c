/* The table of ops, expanded from ops.inc, and inference over it. Invariant: entry i is the descriptor of id i. Not
 * here: any rule of one op; op files hold their descriptors, and nothing else lists them. */
#include "base/size.h"
#include "base/status.h"
#include "op/shape.h"

#include <math.h>
#include <string.h>

static const plait_op *const table[PLAIT_OP_COUNT] = {
#define PLAIT_OP(name, sugar) [PLAIT_OP_##name] = &plait_op_##name,
#include "plait/ops.inc"
#undef PLAIT_OP
};

/* NULL only for numbers that are none of the list, which may come from a graph's text. */
const plait_op *plait_op_get(plait_op_id id) {
    return (unsigned)id < PLAIT_OP_COUNT ? table[id] : NULL;
}

/* A few dozen names: searched in order, while graphs are built or options read. */
const plait_op *plait_op_find(const char *name) {
    for (size_t i = 0; i < PLAIT_OP_COUNT; i++)
        if (strcmp(table[i]->name, name) == 0) return table[i];
    return NULL;
}

int plait_op_attr_index(const plait_op *op, const char *name) {
    for (int i = 0; i < op->n_attrs; i++)
        if (strcmp(op->attrs[i].name, name) == 0) return i;
    return -1;
}

/* memset: absent inputs and unused attributes are zeros in every use, and equal uses have equal bytes. */
void plait_op_use_init(plait_op_use *use, const plait_op *op) {
    memset(use, 0, sizeof *use);
    use->op = op;
    for (int i = 0; i < op->n_attrs; i++) use->attrs[i] = op->attrs[i].initial;
}

/* ---- inference ---- */

/* Known type, no negative dim, whole blocks, and few enough elements that no later product of dims overflows. The
 * product is compared by division, before it is formed. A dim of 0 is left out of it: the other dims of an empty tensor
 * are bounded all the same. */
static plait_status check_operand(const plait_operand *o, const char *name) {
    if (!plait_dtype_known((int)o->dtype))
        return plait_error(PLAIT_INVALID_ARGUMENT, "%s: type number %d is unknown", name, (int)o->dtype);
    int64_t elems = 1;
    for (int d = 0; d < PLAIT_MAX_RANK; d++) {
        if (o->dims[d] < 0)
            return plait_error(PLAIT_INVALID_ARGUMENT, "%s: dim %d is %lld, expected 0 or more", name, d,
                               (long long)o->dims[d]);
        if (o->dims[d] > 0 && (o->dims[d] > PLAIT_MAX_ELEMS / elems))
            return plait_error(
                PLAIT_INVALID_ARGUMENT, "%s: [%lld, %lld, %lld, %lld] has more than 2^48 elements", name,
                (long long)o->dims[0], (long long)o->dims[1], (long long)o->dims[2], (long long)o->dims[3]);
        if (o->dims[d] > 0) elems *= o->dims[d];
    }
    int64_t block = plait_dtype_block_elems(o->dtype);
    if (o->dims[0] % block != 0)
        return plait_error(PLAIT_INVALID_ARGUMENT, "%s: dim 0 is %lld, expected a multiple of %lld (%s)",
                           name, (long long)o->dims[0], (long long)block, plait_dtype_name(o->dtype));
    return PLAIT_OK;
}

/* Inputs beyond n_inputs are absent, which only optional ones may be. Operands are checked under the names of the
 * factor text, which messages show. */
static plait_status check_inputs(const plait_op_use *use, const plait_factors *f) {
    if (use->n_inputs < 0 || use->n_inputs > f->n_inputs)
        return plait_error(PLAIT_INVALID_ARGUMENT, "%d inputs given, expected at most %d", use->n_inputs,
                           f->n_inputs);
    for (int i = 0; i < f->n_inputs; i++) {
        if (plait_op_has(use, i))
            PLAIT_TRY(check_operand(&use->inputs[i], f->inputs[i].name));
        else if (!f->inputs[i].optional)
            return plait_error(PLAIT_INVALID_ARGUMENT, "%s: the input is missing", f->inputs[i].name);
    }
    return PLAIT_OK;
}

/* What the kind of an attribute demands; ranges are the shape rules' matter. INT needs nothing: every number is one. */
static plait_status check_attrs(const plait_op_use *use) {
    for (int i = 0; i < use->op->n_attrs; i++) {
        const plait_attr_row *row = &use->op->attrs[i];
        plait_attr value = use->attrs[i];
        if (row->kind == PLAIT_ATTR_FLOAT && !isfinite(value.f))
            return plait_error(PLAIT_INVALID_ARGUMENT, "%s is %g, expected a finite number", row->name,
                               value.f);
        if (row->kind == PLAIT_ATTR_BOOL && value.i != 0 && value.i != 1)
            return plait_error(PLAIT_INVALID_ARGUMENT, "%s is %lld, expected 0 or 1", row->name,
                               (long long)value.i);
        if (row->kind == PLAIT_ATTR_DTYPE &&
            (value.i < 0 || value.i >= PLAIT_DTYPE_LIMIT || !plait_dtype_known((int)value.i)))
            return plait_error(PLAIT_INVALID_ARGUMENT, "%s is %lld, expected the number of a type", row->name,
                               (long long)value.i);
    }
    return PLAIT_OK;
}

/* Strides and data of the outputs, whose dtype and dims the shape rule has set. An output written in place takes
 * strides, dims and dtype of the input: it is the same storage. */
static plait_status finish_outputs(plait_op_use *use, const plait_factors *f) {
    use->n_outputs = f->n_outputs;
    for (int i = 0; i < f->n_outputs; i++) {
        plait_operand *out = &use->outputs[i];
        PLAIT_TRY(check_operand(out, f->outputs[i].name));
        if (i == 0 && use->op->writes_input >= 0)
            *out = use->inputs[use->op->writes_input];
        else if (!plait_operand_make_dense(out))
            return plait_error(PLAIT_INVALID_ARGUMENT, "%s: its size in bytes overflows", f->outputs[i].name);
        out->data = NULL;
    }
    return PLAIT_OK;
}

/* The order is that of trust: only inputs that passed the generic checks reach a shape rule, so that rules may divide
 * by and multiply dims without a thought. */
static plait_status infer(plait_op_use *use) {
    plait_factors room;
    const plait_factors *f;
    PLAIT_TRY(plait_op_factors_at(use->op, &room, &f));
    PLAIT_TRY(check_inputs(use, f));
    PLAIT_TRY(check_attrs(use));
    memset(use->outputs, 0, sizeof use->outputs);
    PLAIT_TRY(use->op->shape(use));
    return finish_outputs(use, f);
}

/* Works on a copy, so that a failure leaves the caller's use alone. */
plait_status plait_op_infer(plait_op_use *use) {
    plait_op_use work = *use;
    plait_status status = infer(&work);
    if (status != PLAIT_OK) return plait_error_context(status, "%s", use->op->name);
    *use = work;
    return PLAIT_OK;
}

/* ---- cost ---- */

double plait_op_flop(const plait_op_use *use) {
    if (use->op->flop) return use->op->flop(use);
    double n = 0;
    for (int i = 0; i < use->n_outputs; i++) n += (double)plait_operand_elems(&use->outputs[i]);
    return n;
}

/* Zeros mean the same bits: for ops that move data or compute with integers. */
void plait_op_tolerance(const plait_op_use *use, int output, double *limits, void *scratch) {
    int64_t n = plait_operand_elems(&use->outputs[output]);
    if (use->op->tolerance)
        use->op->tolerance(use, output, limits, scratch);
    else
        for (int64_t i = 0; i < n; i++) limits[i] = 0;
}

/* What part of an input ids can name at most: each of them one place along an indexed dim. */
static double named_part(const plait_op_use *use, const plait_factors *f, int input) {
    const plait_factor_operand *operand = &f->inputs[input];
    double part = 1;
    for (int d = 0; d < operand->rank; d++) {
        const plait_factor *factor = &f->factors[operand->dims[d].factors[0]];
        if (operand->dims[d].n != 1 || factor->kind != PLAIT_FACTOR_INDEXED) continue;
        int ids = 0;
        while (strcmp(f->inputs[ids].name, factor->rule) != 0) ids++;
        double n_ids = (double)plait_operand_elems(&use->inputs[ids]), n = (double)use->inputs[input].dims[d];
        if (n_ids < n) part *= n_ids / n;
    }
    return part;
}

double plait_op_input_bytes(const plait_op_use *use, int input) {
    plait_factors room;
    const plait_factors *f;
    if (!plait_op_has(use, input)) return 0;
    bool known = plait_op_factors_at(use->op, &room, &f) == PLAIT_OK;
    return plait_operand_part_bytes(&use->inputs[input], known ? named_part(use, f, input) : 1);
}

double plait_op_bytes(const plait_op_use *use) {
    if (use->op->bytes) return use->op->bytes(use);
    double bytes = 0;
    for (int i = 0; i < use->n_inputs; i++) bytes += plait_op_input_bytes(use, i);
    for (int i = 0; i < use->n_outputs; i++) bytes += plait_operand_moved_bytes(&use->outputs[i]);
    return bytes;
}
