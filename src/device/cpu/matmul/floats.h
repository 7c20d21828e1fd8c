/* Products in float32: weights of plain float types, and any dtype after decoding. What an instruction set
 * supplies, and the loops around it (floats.c). For the files of this folder only.
 *
 * An interleaved run is [element of k][16 rows] values of one type: a stretch of a packed group, or 16 decoded
 * rows in scratch. */
#ifndef PLAIT_DEVICE_CPU_MATMUL_FLOATS_H
#define PLAIT_DEVICE_CPU_MATMUL_FLOATS_H

#include "device/cpu/matmul/packing.h"

enum {
    RUN_ELEMS = 256,    /* elements of k summed before they join the total; part of the numbers of matmul.h */
    FLOAT_TILE = 8,     /* most columns of a part call */
    FLOAT_PANEL = 64,   /* columns of a panel: their elements stay in the second-level cache */
    DECODED_PANEL = 256 /* wider where each panel costs a decoding of the weight */
};

/* total[group][column][row] += the run's sums, for `groups` (1 to 4) interleaved runs group_stride_bytes apart, k
 * (up to RUN_ELEMS) elements, `columns` (1 to FLOAT_TILE); total_stride floats lie between groups. */
typedef void float_part_fn(const void *w, int64_t group_stride_bytes, int groups, int64_t k, const float *x,
                           int64_t x_stride, int columns, float *total, int64_t total_stride);

typedef struct float_ops {
    float_part_fn *f32, *f16, *bf16;
    /* n interleaved values to float32; n is a multiple of 16 */
    void (*widen_f16)(const uint16_t *v, int64_t n, float *out);
    void (*widen_bf16)(const uint16_t *v, int64_t n, float *out);
    /* out[element][row] = rows[row][element] for 16 rows of n elements, RUN_ELEMS apart */
    void (*interleave)(const float *rows, int64_t n, float *out);
} float_ops;

/* Packed F32, F16, BF16. */
void plait_cpu_run_floats(const plait_cpu_matmul_args *args, const float_ops *ops);
/* Any dtype, in file form. */
void plait_cpu_run_decoded(const plait_cpu_matmul_args *args, const float_ops *ops);

#endif
