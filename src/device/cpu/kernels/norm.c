/* Kernels of rms_norm and layer_norm: a unit is a row, so heads of [d, h, n] are rows too. Not here: the arithmetic
 * (norm.inc). Invariant: a row is summed by one thread in the order that simd.h names, so neither cuts nor widths
 * show. */
#include "device/cpu/kernels/family.h"

static bool norm_accepts(const plait_op_use *use, const plait_encoding *encodings, char *reason,
                         size_t reason_bytes) {
    (void)encodings;
    return plait_cpu_rows_accepted(use, reason, reason_bytes);
}

/* Rows are not cut: a row's sum belongs to one thread. A single token's norm is work for one thread, which is why
 * chains run it right before its product. */
static int64_t norm_units(const plait_cpu_call *call, int phase) {
    (void)phase;
    return call->use.outputs[0].dims[0] > 0 ? plait_cpu_row_count(&call->use.outputs[0]) : 0;
}

/* NULL for an input that is left out: ones for a weight, zeros for a bias. */
static const float *optional(const plait_op_use *use, int input) {
    return plait_op_has(use, input) ? use->inputs[input].data : NULL;
}

static void norm_rows(const plait_cpu_call *call, int64_t begin, int64_t end) {
    const plait_op_use *use = &call->use;
    const plait_cpu_simd *simd = plait_cpu_simd_for(call->features);
    const plait_operand *x = &use->inputs[0], *y = &use->outputs[0];
    const float *w = optional(use, 1), *b = optional(use, 2);
    float eps = (float)use->attrs[PLAIT_NORM_EPS].f;
    if (begin >= end) return;
    plait_cpu_place at = plait_cpu_place_of(y, begin);
    for (int64_t row = begin; row < end; row++, plait_cpu_place_next(y, &at)) {
        if (use->op->id == PLAIT_OP_rms_norm)
            simd->rms_norm(plait_cpu_row_at(x, at), w, eps, x->dims[0], plait_cpu_row_at(y, at));
        else
            simd->layer_norm(plait_cpu_row_at(x, at), w, b, eps, x->dims[0], plait_cpu_row_at(y, at));
    }
}

static void norm_run(const plait_cpu_call *call, int phase, int64_t begin, int64_t end, int thread) {
    (void)phase, (void)thread;
    norm_rows(call, begin, end);
}

#define NORM(op_name)                                                                                        \
    {                                                                                                        \
        .op = PLAIT_OP_##op_name, .name = #op_name, .n_phases = 1, .accepts = norm_accepts,                  \
        .units = norm_units, .run = norm_run, .run_rows = norm_rows                                          \
    }

const plait_cpu_kernel plait_cpu_norm_kernels[] = {
    NORM(rms_norm),
    NORM(layer_norm),
    {.name = NULL},
};
