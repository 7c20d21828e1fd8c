/* Kernels for inputs whose dim 0 is not contiguous: phase 0 copies those inputs dense into scratch, phase 1 is the
 * kernel that takes them so. The bytes of an op do not depend on how its operands lie, and so not on whether somebody
 * copied them first.
 *
 * Not here: ops that only move bytes, of which each kernel makes the same ones; products, which gather by themselves.
 * Invariant: both phases see the same inner kernel, for it follows from shapes, types and features alone. */
#include "device/cpu/gathered.h"

#include "base/size.h"
#include "device/cpu/kernels.h"
#include "device/cpu/kernels/family.h"

#include <stdio.h>
#include <string.h>

enum { ALIGNMENT = 64 };

static bool is_gathered(const plait_op_use *use, int i) {
    return plait_op_has(use, i) && !plait_cpu_row_contiguous(&use->inputs[i]);
}

/* Rounded up, so that the next dense input is aligned too. */
static size_t dense_bytes(const plait_operand *dense) {
    return ((size_t)plait_operand_span_bytes(dense) + ALIGNMENT - 1) & ~(size_t)(ALIGNMENT - 1);
}

/* The use with its gathered inputs dense, at `scratch` and behind; *out_bytes is what they take. With scratch NULL only
 * shapes and sizes mean anything. At the bounds it gives the most: dims of a launch are at most that. */
static plait_op_use make_dense(const plait_op_use *use, void *scratch, size_t *out_bytes) {
    plait_op_use dense = *use;
    size_t at = 0;
    for (int i = 0; i < use->n_inputs; i++) {
        if (!is_gathered(use, i)) continue;
        (void)plait_operand_make_dense(&dense.inputs[i]);
        dense.inputs[i].data = (char *)scratch + at;
        at += dense_bytes(&dense.inputs[i]);
    }
    *out_bytes = at;
    return dense;
}

/* The kernel that takes the dense use; NULL: there is none but the reference. Those with several phases or scratch are
 * left to the reference too: phase 0 and the scratch are taken by the copying. */
static const plait_cpu_kernel *inner_kernel(const plait_op_use *dense, uint32_t features) {
    const plait_cpu_kernel *inner = plait_cpu_kernel_find_family(dense, NULL, features, NULL, 0);
    return inner && inner->n_phases == 1 && !inner->scratch_bytes ? inner : NULL;
}

/* Of any op that has rows to gather. `copy` reads each byte once, so copying first would be twice the work; an op that
 * writes an input, or rows of it, must find those bytes in their place. */
static bool gathered_accepts(const plait_op_use *use, const plait_encoding *encodings, char *reason,
                             size_t reason_bytes) {
    const plait_op *op = use->op;
    bool any = false, moves = op->writes_input >= 0 || op->rows_input >= 0 || op->id == PLAIT_OP_copy;
    size_t bytes;
    (void)encodings;
    for (int i = 0; i < use->n_inputs; i++) any |= is_gathered(use, i);
    plait_op_use dense = make_dense(use, NULL, &bytes);
    for (int i = 0; i < use->n_inputs; i++)
        any &=
            !plait_op_has(use, i) || plait_cpu_row_contiguous(&dense.inputs[i]); /* it can be written out */
    /* Which kernel of a family it is differs between instruction sets; that there is one does not. */
    if (any && !moves && inner_kernel(&dense, 0)) return true;
    snprintf(reason, reason_bytes, "no kernel takes dense inputs");
    return false;
}

/* One copy, whatever the number of threads. */
static size_t gathered_scratch(const plait_op_use *use, int n_threads) {
    size_t bytes;
    (void)n_threads;
    (void)make_dense(use, NULL, &bytes);
    return bytes;
}

/* Made anew by each piece of work, from the call's own dims: a call is read by all threads, and may not be changed. */
static plait_cpu_call dense_call(const plait_cpu_call *call) {
    size_t bytes;
    plait_cpu_call dense = *call;
    dense.use = make_dense(&call->use, call->scratch, &bytes);
    dense.scratch = NULL;
    return dense;
}

/* Rows of all gathered inputs in phase 0; what the inner kernel counts in phase 1. */
static int64_t gathered_units(const plait_cpu_call *call, int phase) {
    int64_t n = 0;
    if (phase == 1) {
        plait_cpu_call dense = dense_call(call);
        return inner_kernel(&dense.use, call->features)->units(&dense, 0);
    }
    for (int i = 0; i < call->use.n_inputs; i++)
        if (is_gathered(&call->use, i)) n += plait_cpu_row_count(&call->use.inputs[i]);
    return n;
}

/* By blocks of the type, one element or one quantised block at a time: dim 0 may have any stride. */
static void gather_row(const plait_operand *from, const plait_operand *to, int64_t row) {
    plait_cpu_place place = plait_cpu_place_of(from, row);
    const char *source = plait_cpu_row_at(from, place);
    char *target = plait_cpu_row_at(to, place);
    int64_t n = from->dims[0] / plait_dtype_block_elems(from->dtype);
    size_t bytes = (size_t)plait_dtype_block_bytes(from->dtype);
    for (int64_t k = 0; k < n; k++, source += from->strides[0], target += bytes)
        memcpy(target, source, bytes);
}

/* Units count the rows of one gathered input after the other's. */
static void gathered_run(const plait_cpu_call *call, int phase, int64_t begin, int64_t end, int thread) {
    plait_cpu_call dense = dense_call(call);
    if (phase == 1) {
        inner_kernel(&dense.use, call->features)->run(&dense, 0, begin, end, thread);
        return;
    }
    int64_t first = 0;
    for (int i = 0; i < call->use.n_inputs; i++) {
        if (!is_gathered(&call->use, i)) continue;
        int64_t n = plait_cpu_row_count(&call->use.inputs[i]);
        for (int64_t row = begin > first ? begin - first : 0; row < n && first + row < end; row++)
            gather_row(&call->use.inputs[i], &dense.use.inputs[i], row);
        first += n;
    }
}

const plait_cpu_kernel plait_cpu_gathered_kernels[] = {
#define PLAIT_OP(op_name, sugar)                                                                             \
    {.op = PLAIT_OP_##op_name,                                                                               \
     .name = #op_name "/gathered",                                                                           \
     .n_phases = 2,                                                                                          \
     .accepts = gathered_accepts,                                                                            \
     .scratch_bytes = gathered_scratch,                                                                      \
     .units = gathered_units,                                                                                \
     .run = gathered_run},
#include "plait/ops.inc"
#undef PLAIT_OP
    {.name = NULL},
};
