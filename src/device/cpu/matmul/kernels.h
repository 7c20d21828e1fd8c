/* The kernel tables of this folder, one an instruction set; each ends with a row without run. For matmul.c and the
 * files that define them. */
#ifndef PLAIT_DEVICE_CPU_MATMUL_KERNELS_H
#define PLAIT_DEVICE_CPU_MATMUL_KERNELS_H

#include "device/cpu/matmul/matmul.h"

/* Quantised types by integer dot products; float types, and types that are decoded to floats. */
extern const plait_cpu_matmul plait_cpu_blocks_portable[];
extern const plait_cpu_matmul plait_cpu_floats_portable[];
#if defined(__x86_64__)
extern const plait_cpu_matmul plait_cpu_blocks_avx2[];
extern const plait_cpu_matmul plait_cpu_blocks_avxvnni[];
extern const plait_cpu_matmul plait_cpu_blocks_avx512vnni[];
extern const plait_cpu_matmul plait_cpu_floats_avx2[];
extern const plait_cpu_matmul plait_cpu_floats_avx512[];
#endif

/* Largest codes that are tried for a block; see matmul.h. */
enum { PLAIT_CPU_QUANTISE_TOPS = 8 };
extern const float plait_cpu_quantise_tops[PLAIT_CPU_QUANTISE_TOPS];
/* Quantises one whole block; the bytes do not depend on the instruction set. */
void plait_cpu_quantise_block_portable(const float *x, plait_cpu_block *out);
#if defined(__x86_64__)
void plait_cpu_quantise_block_avx2(const float *x, plait_cpu_block *out);
#endif

#endif
