/* The table: matrix products, the families, lookups in packed tables, and behind them the reference kernels. Not here:
 * what a row is (kernel.h), and the rows themselves. Invariant: the first row that takes a use is the one that runs it,
 * whoever asks: supports, prepare and compile come here. */
#include "device/cpu/kernels.h"

#include "base/size.h"
#include "device/cpu/experts.h"
#include "device/cpu/gathered.h"
#include "device/cpu/product.h"
#include "device/cpu/reference.h"
#include "device/cpu/weights.h"

#include <stdio.h>

/* Best first. A row of an earlier array is preferred. Two arrays with rows of one op: rows before packed_rows (get_rows
 * of a table in file form, and of a packed one). */
static const plait_cpu_kernel *const families[] = {
    plait_cpu_matmul_kernels,      plait_cpu_norm_kernels,         plait_cpu_rope_kernels,
    plait_cpu_attention_kernels,   plait_cpu_rows_kernels,         plait_cpu_top_kernels,
    plait_cpu_elementwise_kernels, plait_cpu_packed_rows_kernels,  plait_cpu_hadamard_kernels,
    plait_cpu_expert_kernels,      plait_cpu_weighted_sum_kernels,
};

/* Copying an operand dense for a fast kernel is preferred to reading it in place by the reference. */
static const plait_cpu_kernel *const fallbacks[] = {plait_cpu_gathered_kernels, plait_cpu_reference_kernels};

/* What a row without `accepts` takes. */
static bool all_dense_floats(const plait_op_use *use, char *reason, size_t reason_bytes) {
    for (int i = 0; i < use->n_inputs + use->n_outputs; i++) {
        bool input = i < use->n_inputs;
        const plait_operand *o = input ? &use->inputs[i] : &use->outputs[i - use->n_inputs];
        if (input && !plait_op_has(use, i)) continue;
        if (o->dtype == PLAIT_F32 && plait_operand_is_dense(o)) continue;
        snprintf(reason, reason_bytes, "%s %d is not dense F32", input ? "input" : "output",
                 input ? i : i - use->n_inputs);
        return false;
    }
    return true;
}

/* Inputs that are present and not in file form; what stands in places of absent ones has no meaning. */
static bool any_packed(const plait_op_use *use, const plait_encoding *encodings) {
    for (int i = 0; i < use->n_inputs; i++)
        if (plait_op_has(use, i) && encodings[i] != PLAIT_ENCODING_FILE) return true;
    return false;
}

/* The reason is that of this row, overwriting an earlier one's; rows that the processor cannot run leave none, since
 * nobody could do anything about it. Packed inputs are refused for the row, so that only rows which read them need to
 * look. */
static bool takes(const plait_cpu_kernel *row, const plait_op_use *use, const plait_encoding *encodings,
                  uint32_t features, char *reason, size_t reason_bytes) {
    if (row->op != use->op->id || (row->needs & ~features)) return false;
    if (!row->takes_packed && any_packed(use, encodings)) {
        snprintf(reason, reason_bytes, "%s reads no packed weights", row->name);
        return false;
    }
    if (!row->accepts) return all_dense_floats(use, reason, reason_bytes);
    return row->accepts(use, encodings, reason, reason_bytes);
}

/* Linear, in the order of preference: it is asked when plans are made, never in a launch (but by gathered.c, for short
 * tables). */
static const plait_cpu_kernel *find_in(const plait_cpu_kernel *const *arrays, size_t n_arrays,
                                       const plait_op_use *use, const plait_encoding *encodings,
                                       uint32_t features, char *reason, size_t reason_bytes) {
    for (size_t a = 0; a < n_arrays; a++)
        for (const plait_cpu_kernel *row = arrays[a]; row->name; row++)
            if (takes(row, use, encodings, features, reason, reason_bytes)) return row;
    return NULL;
}

/* PLAIT_ENCODING_FILE is 0. */
static const plait_encoding all_file[PLAIT_MAX_INPUTS] = {PLAIT_ENCODING_FILE};

/* A reason for the case that no row is of this op; any row that is overwrites it. */
const plait_cpu_kernel *plait_cpu_kernel_find_family(const plait_op_use *use, const plait_encoding *encodings,
                                                     uint32_t features, char *reason, size_t reason_bytes) {
    char unread[8];
    if (!encodings) encodings = all_file;
    if (!reason || !reason_bytes) reason = unread, reason_bytes = sizeof unread;
    snprintf(reason, reason_bytes, "there is no kernel of %s", use->op->name);
    return find_in(families, PLAIT_COUNT_OF(families), use, encodings, features, reason, reason_bytes);
}

const plait_cpu_kernel *plait_cpu_kernel_find(const plait_op_use *use, const plait_encoding *encodings,
                                              uint32_t features, char *reason, size_t reason_bytes) {
    char unread[8];
    if (!encodings) encodings = all_file;
    if (!reason || !reason_bytes) reason = unread, reason_bytes = sizeof unread;
    const plait_cpu_kernel *row =
        plait_cpu_kernel_find_family(use, encodings, features, reason, reason_bytes);
    if (!row)
        row = find_in(fallbacks, PLAIT_COUNT_OF(fallbacks), use, encodings, features, reason, reason_bytes);
    /* The refusals of rows that stood before the one found are no answer. */
    if (row) reason[0] = '\0';
    return row;
}

const plait_cpu_kernel *plait_cpu_kernel_at(size_t index) {
    for (size_t a = 0; a < PLAIT_COUNT_OF(families) + PLAIT_COUNT_OF(fallbacks); a++) {
        bool family = a < PLAIT_COUNT_OF(families);
        const plait_cpu_kernel *row = family ? families[a] : fallbacks[a - PLAIT_COUNT_OF(families)];
        for (; row->name; row++)
            if (index-- == 0) return row;
    }
    return NULL;
}
