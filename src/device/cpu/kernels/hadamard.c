/* Kernel of hadamard: a unit is a row. Plain C for every instruction set: only additions and subtractions in a fixed
 * order and one multiplication, which compilers vectorise without changing a byte (none of it may be contracted: the
 * build says so). Not here: simd.h, which has no function for it. Invariant: a row's bytes follow from that row and the
 * block size alone. */
#include "device/cpu/kernels/family.h"

#include <math.h>
#include <string.h>

static bool hadamard_accepts(const plait_op_use *use, const plait_encoding *encodings, char *reason,
                             size_t reason_bytes) {
    (void)encodings;
    return plait_cpu_rows_accepted(use, reason, reason_bytes);
}

static int64_t hadamard_units(const plait_cpu_call *call, int phase) {
    (void)phase;
    return call->use.outputs[0].dims[0] > 0 ? plait_cpu_row_count(&call->use.outputs[0]) : 0;
}

/* The fast Walsh-Hadamard transform in place, n a power of two, n log2 n additions; divided by sqrt(n), it is its own
 * inverse. In each pass every element is read and written once, so the order within a pass does not matter. */
static void transform(float *restrict x, int64_t n) {
    for (int64_t half = 1; half < n; half *= 2)
        for (int64_t i = 0; i < n; i += 2 * half)
            for (int64_t k = i; k < i + half; k++) {
                float a = x[k], b = x[k + half];
                x[k] = a + b;
                x[k + half] = a - b;
            }
    float scale = 1.0f / sqrtf((float)n);
    for (int64_t i = 0; i < n; i++) x[i] *= scale;
}

/* A row is cut into blocks of the attribute's size, each transformed by itself. The copy is exact, or nothing when y is
 * x. */
static void hadamard_rows(const plait_cpu_call *call, int64_t begin, int64_t end) {
    const plait_operand *x = &call->use.inputs[0], *y = &call->use.outputs[0];
    int64_t d = x->dims[0], block = call->use.attrs[0].i;
    if (begin >= end) return;
    plait_cpu_place at = plait_cpu_place_of(y, begin);
    for (int64_t row = begin; row < end; row++, plait_cpu_place_next(y, &at)) {
        float *out = plait_cpu_row_at(y, at);
        memcpy(out, plait_cpu_row_at(x, at), (size_t)d * sizeof *out);
        for (int64_t i = 0; i < d; i += block) transform(out + i, block);
    }
}

static void hadamard_run(const plait_cpu_call *call, int phase, int64_t begin, int64_t end, int thread) {
    (void)phase, (void)thread;
    hadamard_rows(call, begin, end);
}

const plait_cpu_kernel plait_cpu_hadamard_kernels[] = {
    {.op = PLAIT_OP_hadamard,
     .name = "hadamard",
     .n_phases = 1,
     .accepts = hadamard_accepts,
     .units = hadamard_units,
     .run = hadamard_run,
     .run_rows = hadamard_rows},
    {.name = NULL},
};
