/* Reference kernels as table rows. Whether the rows of an op are independent is read from its factors: dims 1 to 3 of
 * the output are the same index in the same place of every input, or not there. Such an op runs row by row on slices of
 * its operands; any other one runs whole, on one thread.
 *
 * Not here: the references themselves (src/op). Invariant: both ways give the bytes of one whole call, and between them
 * every op has a row, so the device lacks none. */
#include "device/cpu/reference.h"

#include "base/size.h"

#include <stdio.h>

/* ---- whole ---- */

/* The last resort takes everything in file form. */
static bool whole_accepts(const plait_op_use *use, const plait_encoding *encodings, char *reason,
                          size_t reason_bytes) {
    (void)use, (void)encodings, (void)reason, (void)reason_bytes;
    return true;
}

static size_t whole_scratch(const plait_op_use *use, int n_threads) {
    (void)n_threads;
    return use->op->reference_scratch ? use->op->reference_scratch(use) : 0;
}

/* One unit, so one thread, whatever the shapes: a reference may do anything with its operands. */
static int64_t whole_units(const plait_cpu_call *call, int phase) {
    (void)call, (void)phase;
    return 1;
}

static void whole_run(const plait_cpu_call *call, int phase, int64_t begin, int64_t end, int thread) {
    (void)phase, (void)begin, (void)end, (void)thread;
    call->use.op->reference(&call->use, call->scratch);
}

/* ---- by rows ---- */

/* Dim `dim` of the input has the factors of that dim of the output, or none at all: then it is of size 1, and serves
 * all rows. */
static bool same_place(const plait_factor_operand *input, const plait_factor_operand *output, int dim) {
    const plait_factor_dim *a = &input->dims[dim], *b = &output->dims[dim];
    if (dim >= input->rank || a->n == 0) return true;
    if (dim >= output->rank || a->n != b->n) return false;
    for (int i = 0; i < a->n; i++)
        if (a->factors[i] != b->factors[i]) return false;
    return true;
}

/* No factor of the output's dims 1 to 3 stands elsewhere in the input. */
static bool not_elsewhere(const plait_factor_operand *input, const plait_factor_operand *output) {
    for (int d = 0; d < input->rank; d++)
        for (int i = 0; i < input->dims[d].n; i++)
            for (int k = 1; k < output->rank; k++)
                for (int j = 0; j < output->dims[k].n; j++)
                    if (k != d && output->dims[k].factors[j] == input->dims[d].factors[i]) return false;
    return true;
}

/* Reductions and the like have factors of other kinds than FREE and WHOLE: their rows are not made alone. An op that
 * writes an input, reads ids that decide which rows it touches, or has scratch, is left to run whole. Asked of the op,
 * not of the use: all its shapes have the same answer. */
static bool rows_accepts(const plait_op_use *use, const plait_encoding *encodings, char *reason,
                         size_t reason_bytes) {
    (void)encodings;
    plait_factors f;
    snprintf(reason, reason_bytes, "the rows of %s depend on each other", use->op->name);
    if (use->op->writes_input >= 0 || use->op->runtime_inputs || use->op->reference_scratch) return false;
    if (use->n_outputs != 1 || plait_op_factors(use->op, &f) != PLAIT_OK) return false;
    for (int i = 0; i < f.n_factors; i++)
        if (f.factors[i].kind != PLAIT_FACTOR_FREE && f.factors[i].kind != PLAIT_FACTOR_WHOLE) return false;
    for (int i = 0; i < f.n_inputs; i++) {
        if (!not_elsewhere(&f.inputs[i], &f.outputs[0])) return false;
        for (int d = 1; d < PLAIT_MAX_RANK; d++)
            if (!same_place(&f.inputs[i], &f.outputs[0], d)) return false;
    }
    return true;
}

/* A row of the output is one call of the reference. */
static int64_t rows_units(const plait_cpu_call *call, int phase) {
    const plait_operand *y = &call->use.outputs[0];
    (void)phase;
    return y->dims[0] > 0 ? y->dims[1] * y->dims[2] * y->dims[3] : 0;
}

/* The operand's part that belongs to row (i1, i2, i3): dims of size 1 are for all rows. */
static void slice(plait_operand *o, const int64_t at[PLAIT_MAX_RANK]) {
    char *data = o->data;
    for (int d = 1; d < PLAIT_MAX_RANK; d++) {
        if (o->dims[d] > 1) data += at[d] * o->strides[d];
        o->dims[d] = 1;
    }
    o->data = data;
}

/* Rows are numbered with dim 1 fastest. The use is copied for each row, since slicing changes dims and addresses. */
static void rows_do(const plait_cpu_call *call, int64_t begin, int64_t end) {
    const plait_op_use *use = &call->use;
    const plait_operand *y = &use->outputs[0];
    for (int64_t row = begin; row < end; row++) {
        plait_op_use one = *use;
        int64_t at[PLAIT_MAX_RANK] = {0, row % y->dims[1], row / y->dims[1] % y->dims[2],
                                      row / y->dims[1] / y->dims[2]};
        for (int i = 0; i < use->n_inputs; i++)
            if (plait_op_has(use, i)) slice(&one.inputs[i], at);
        slice(&one.outputs[0], at);
        use->op->reference(&one, NULL);
    }
}

static void rows_run(const plait_cpu_call *call, int phase, int64_t begin, int64_t end, int thread) {
    (void)phase, (void)thread;
    rows_do(call, begin, end);
}

const plait_cpu_kernel plait_cpu_reference_kernels[] = {
#define PLAIT_OP(op_name, sugar)                                                                             \
    {.op = PLAIT_OP_##op_name,                                                                               \
     .name = #op_name "/reference-rows",                                                                     \
     .n_phases = 1,                                                                                          \
     .accepts = rows_accepts,                                                                                \
     .units = rows_units,                                                                                    \
     .run = rows_run,                                                                                        \
     .run_rows = rows_do},                                                                                   \
        {.op = PLAIT_OP_##op_name,                                                                           \
         .name = #op_name "/reference",                                                                      \
         .n_phases = 1,                                                                                      \
         .accepts = whole_accepts,                                                                           \
         .scratch_bytes = whole_scratch,                                                                     \
         .units = whole_units,                                                                               \
         .run = whole_run},
#include "plait/ops.inc"
#undef PLAIT_OP
    {.name = NULL},
};
