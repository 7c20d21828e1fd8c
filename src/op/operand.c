/* Helpers for operands: counting, strides, bytes. Not here: access to elements (reference.h), and dims that are
 * bounded, which are at their bounds or their values by now. Invariant: no function overflows, whatever the dims. */
#include "base/size.h"
#include "op/shape.h"
#include "op/tolerance.h"

/* A dim of size 0 is looked for first: with it the count is 0 even when the other dims would overflow. */
int64_t plait_operand_elems(const plait_operand *operand) {
    int64_t n = 1;
    bool empty = false;
    for (int d = 0; d < PLAIT_MAX_RANK; d++) {
        if (operand->dims[d] < 0) return -1;
        if (operand->dims[d] == 0) empty = true;
    }
    if (empty) return 0;
    for (int d = 0; d < PLAIT_MAX_RANK; d++)
        if (__builtin_mul_overflow(n, operand->dims[d], &n)) return -1;
    return n;
}

/* Strides that dense dims would have. A dim of size 0 counts as 1, so that strides never collapse. Row bytes of 0
 * elements count as one block, so that strides of an empty tensor are distinct as well. */
static bool dense_strides(const plait_operand *operand, int64_t strides[PLAIT_MAX_RANK]) {
    int64_t row = plait_dtype_row_bytes(operand->dtype, operand->dims[0]);
    if (row < 0) return false;
    strides[0] = plait_dtype_block_bytes(operand->dtype);
    strides[1] = plait_max_i64(row, strides[0]);
    for (int d = 2; d < PLAIT_MAX_RANK; d++) {
        if (operand->dims[d - 1] < 0) return false;
        if (__builtin_mul_overflow(strides[d - 1], plait_max_i64(operand->dims[d - 1], 1), &strides[d]))
            return false;
    }
    return true;
}

/* On failure the strides are as before. */
bool plait_operand_make_dense(plait_operand *operand) {
    int64_t strides[PLAIT_MAX_RANK];
    if (!dense_strides(operand, strides)) return false;
    for (int d = 0; d < PLAIT_MAX_RANK; d++) operand->strides[d] = strides[d];
    return true;
}

/* Strides of dims with one place say nothing, so that a slice of one row of a larger tensor counts as dense. */
bool plait_operand_is_dense(const plait_operand *operand) {
    int64_t strides[PLAIT_MAX_RANK];
    if (!dense_strides(operand, strides)) return false;
    if (plait_operand_elems(operand) == 0) return true;
    /* A quantised row of one block has a dim 0 larger than 1 but only one place along it. */
    for (int d = 0; d < PLAIT_MAX_RANK; d++) {
        int64_t places =
            d == 0 ? operand->dims[0] / plait_dtype_block_elems(operand->dtype) : operand->dims[d];
        if (places > 1 && operand->strides[d] != strides[d]) return false;
    }
    return true;
}

/* The farthest block's place, along every dim that has more than one, plus that block. */
int64_t plait_operand_span_bytes(const plait_operand *operand) {
    int64_t elems = plait_operand_elems(operand);
    if (elems <= 0) return elems;
    if (plait_dtype_row_bytes(operand->dtype, operand->dims[0]) < 0) return -1;
    int64_t span = plait_dtype_block_bytes(operand->dtype);
    for (int d = 0; d < PLAIT_MAX_RANK; d++) {
        int64_t places =
            d == 0 ? operand->dims[0] / plait_dtype_block_elems(operand->dtype) : operand->dims[d];
        int64_t reach;
        if (places > 1 && operand->strides[d] < 0) return -1;
        if (places == 1) continue;
        if (__builtin_mul_overflow(places - 1, operand->strides[d], &reach)) return -1;
        if (__builtin_add_overflow(span, reach, &span)) return -1;
    }
    return span;
}

/* In double: it is an estimate, and dims at their bounds may be large. Padding between rows does not move. */
double plait_operand_moved_bytes(const plait_operand *operand) {
    double blocks =
        (double)operand->dims[0] / (double)plait_max_i64(plait_dtype_block_elems(operand->dtype), 1);
    for (int d = 1; d < PLAIT_MAX_RANK; d++) blocks *= (double)operand->dims[d];
    return blocks * (double)plait_dtype_block_bytes(operand->dtype);
}

/* Decodes the whole operand: for tests and conformance only. A block has at most 256 elements. */
double plait_tol_largest(const plait_operand *operand) {
    float block[256];
    int64_t n = plait_dtype_block_elems(operand->dtype);
    double largest = 0;
    if (plait_operand_elems(operand) <= 0) return 0;
    PLAIT_REF_ROWS(operand, i1, i2, i3)
    for (int64_t i = 0; i < operand->dims[0] / n; i++) {
        plait_quant_of(operand->dtype)->decode(plait_ref_at(operand, i, i1, i2, i3), block, n);
        for (int64_t k = 0; k < n; k++) largest = fmax(largest, fabs((double)block[k]));
    }
    return largest;
}

double plait_operand_part_bytes(const plait_operand *operand, double share) {
    return plait_operand_moved_bytes(operand) * (share < 0 ? 0 : share > 1 ? 1 : share);
}
