/* The kernel table of the cpu device: which arrays of kernels exist, and the choice among them.
 *
 * Each family is an array in a file of src/device/cpu/kernels, best rows first, ended by a row whose name is NULL.
 * Behind all of them stands, for every op, the reference kernel, which takes every operand in file form; so a family
 * lists only what it does faster. A family's rows of one op must all give the same bytes, whatever they need of the
 * processor: a portable row and an AVX2 row differ in speed only.
 *
 * Not here: how a kernel is run (program.c, pool.c) and what is fused (prepare.c).
 */
#ifndef PLAIT_DEVICE_CPU_KERNELS_H
#define PLAIT_DEVICE_CPU_KERNELS_H

#include "device/cpu/kernel.h"

extern const plait_cpu_kernel plait_cpu_norm_kernels[];        /* rms_norm, layer_norm */
extern const plait_cpu_kernel plait_cpu_hadamard_kernels[];    /* hadamard */
extern const plait_cpu_kernel plait_cpu_rope_kernels[];        /* rope, position_scale */
extern const plait_cpu_kernel plait_cpu_attention_kernels[];   /* attention */
extern const plait_cpu_kernel plait_cpu_elementwise_kernels[]; /* unary, binary, gates */
extern const plait_cpu_kernel
    plait_cpu_rows_kernels[]; /* get_rows, kv_write, page_copy, kv_shift, copy, cast */
extern const plait_cpu_kernel plait_cpu_top_kernels[];          /* argmax, top_k, softmax */
extern const plait_cpu_kernel plait_cpu_weighted_sum_kernels[]; /* weighted_sum */

/* The first row of the table that runs this use with these features; NULL, and the reason of the last row asked,
 * when there is none. `encodings` may be NULL: all in file form. `reason` may be NULL when reason_bytes is 0. */
const plait_cpu_kernel *plait_cpu_kernel_find(const plait_op_use *use, const plait_encoding *encodings,
                                              uint32_t features, char *reason, size_t reason_bytes);

/* The same without what stands behind the families: rows for inputs that are not contiguous, and reference kernels. */
const plait_cpu_kernel *plait_cpu_kernel_find_family(const plait_op_use *use, const plait_encoding *encodings,
                                                     uint32_t features, char *reason, size_t reason_bytes);

/* All rows in turn, best first, for tests and benchmarks; NULL from the end on. */
const plait_cpu_kernel *plait_cpu_kernel_at(size_t index);

#endif
