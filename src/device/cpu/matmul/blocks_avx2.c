/* Quantised products for avx2. */
#include "device/cpu/features.h"
#include "device/cpu/matmul/kernels.h"

#include "device/cpu/matmul/vec_avx2.h"

#define BLOCK_TABLE    plait_cpu_blocks_avx2
#define BLOCK_FEATURES PLAIT_CPU_AVX2
#define BLOCK_ISA      "avx2"
#include "device/cpu/matmul/blocks.inc"
