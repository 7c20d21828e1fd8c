/* Quantised products for avxvnni. */
#include "device/cpu/features.h"
#include "device/cpu/matmul/kernels.h"

#define VEC_DOT4 _mm256_dpbusd_avx_epi32
#include "device/cpu/matmul/vec_avx2.h"

#define BLOCK_TABLE    plait_cpu_blocks_avxvnni
#define BLOCK_FEATURES (PLAIT_CPU_AVX2 | PLAIT_CPU_AVXVNNI)
#define BLOCK_ISA      "avxvnni"
#include "device/cpu/matmul/blocks.inc"
