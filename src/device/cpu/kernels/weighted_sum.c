/* Kernel of weighted_sum: a unit is a row. Plain C for every instruction set: each element is a sum of rounded products
 * in the order of u, which compilers vectorise without changing a byte. Not here: how shares come about. Invariant: a
 * row's bytes follow from that row's columns and shares alone. */
#include "device/cpu/kernels/family.h"

/* Only x and y are read by rows; p is held to the same rule, though its elements are read one by one. */
static bool sum_accepts(const plait_op_use *use, const plait_encoding *encodings, char *reason,
                        size_t reason_bytes) {
    (void)encodings;
    return plait_cpu_rows_accepted(use, reason, reason_bytes);
}

static int64_t sum_units(const plait_cpu_call *call, int phase) {
    (void)phase;
    return call->use.outputs[0].dims[0] > 0 ? plait_cpu_row_count(&call->use.outputs[0]) : 0;
}

/* The product is rounded before it is added: the build lets no compiler contract the two (-ffp-contract=off). */
static void add_times(float *restrict y, const float *restrict x, float p, int64_t n) {
    for (int64_t m = 0; m < n; m++) y[m] = y[m] + p * x[m];
}

/* From 0 in the order of u, as in the reference. */
static void sum_rows(const plait_cpu_call *call, int64_t begin, int64_t end) {
    const plait_operand *x = &call->use.inputs[0], *p = &call->use.inputs[1], *y = &call->use.outputs[0];
    for (int64_t n = begin; n < end; n++) {
        float *out = (float *)(void *)plait_ref_at(y, 0, n, 0, 0);
        memset(out, 0, (size_t)y->dims[0] * sizeof *out);
        for (int64_t u = 0; u < x->dims[1]; u++)
            add_times(out, (const float *)(void *)plait_ref_at(x, 0, u, n, 0),
                      (float)plait_ref_get(p, u, n, 0, 0), y->dims[0]);
    }
}

static void sum_run(const plait_cpu_call *call, int phase, int64_t begin, int64_t end, int thread) {
    (void)phase, (void)thread;
    sum_rows(call, begin, end);
}

const plait_cpu_kernel plait_cpu_weighted_sum_kernels[] = {
    {.op = PLAIT_OP_weighted_sum,
     .name = "weighted_sum",
     .n_phases = 1,
     .accepts = sum_accepts,
     .units = sum_units,
     .run = sum_run,
     .run_rows = sum_rows},
    {.name = NULL},
};
