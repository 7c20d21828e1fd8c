/* What the families share: rows of float32 operands by number, checks of operands for `accepts`, pieces of long rows.
 * A row number counts dims 1 to 3, dim 1 fastest. */
#ifndef PLAIT_DEVICE_CPU_KERNELS_FAMILY_H
#define PLAIT_DEVICE_CPU_KERNELS_FAMILY_H

#include "base/size.h"
#include "device/cpu/kernels.h"
#include "device/cpu/kernels/simd.h"
#include "op/attrs.h"
#include "op/reference.h"

/* Dim 0 contiguous, as every kernel here wants it. A row of one block has no stride that matters. */
static inline bool plait_cpu_row_contiguous(const plait_operand *o) {
    return o->strides[0] == plait_dtype_block_bytes(o->dtype) ||
           o->dims[0] <= plait_dtype_block_elems(o->dtype);
}

/* True when inputs and outputs of type F32 have contiguous rows; those of other types do not matter. */
bool plait_cpu_rows_accepted(const plait_op_use *use, char *reason, size_t reason_bytes);
/* False, with the reason "WHAT are not contiguous" or whatever `what` says. */
bool plait_cpu_refuse(char *reason, size_t reason_bytes, const char *what);

/* Rows of an operand; 0 where a dim is. */
static inline int64_t plait_cpu_row_count(const plait_operand *o) {
    return o->dims[1] * o->dims[2] * o->dims[3];
}

/* A walk over rows: the place of a row, and the next one. */
typedef struct plait_cpu_place {
    int64_t i1, i2, i3;
} plait_cpu_place;

/* By division; o has rows. */
static inline plait_cpu_place plait_cpu_place_of(const plait_operand *o, int64_t row) {
    return (plait_cpu_place){row % o->dims[1], row / o->dims[1] % o->dims[2], row / o->dims[1] / o->dims[2]};
}
/* By counting, for rows in turn. Beyond the last row the place is of no row. */
static inline void plait_cpu_place_next(const plait_operand *o, plait_cpu_place *p) {
    if (++p->i1 < o->dims[1]) return;
    p->i1 = 0;
    if (++p->i2 < o->dims[2]) return;
    p->i2 = 0;
    p->i3++;
}
/* Where the row begins: strides may be anything, or 0. */
static inline void *plait_cpu_row_at(const plait_operand *o, plait_cpu_place p) {
    return (char *)o->data + p.i1 * o->strides[1] + p.i2 * o->strides[2] + p.i3 * o->strides[3];
}

/* Long rows are cut into pieces of this many elements, so that one row is work for several threads. */
enum { PLAIT_CPU_PIECE = 2048 };

/* Pieces of a row, the last one shorter. */
static inline int64_t plait_cpu_pieces(const plait_operand *o) {
    return (o->dims[0] + PLAIT_CPU_PIECE - 1) / PLAIT_CPU_PIECE;
}

#endif
