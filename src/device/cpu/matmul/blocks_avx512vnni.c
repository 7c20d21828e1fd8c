/* Quantised products for avx512vnni. */
#include "device/cpu/features.h"
#include "device/cpu/matmul/kernels.h"

#define VEC_DOT4 _mm512_dpbusd_epi32
#include "device/cpu/matmul/vec_avx512.h"

#define BLOCK_TABLE    plait_cpu_blocks_avx512vnni
#define BLOCK_FEATURES (PLAIT_CPU_AVX512 | PLAIT_CPU_AVX512VNNI)
#define BLOCK_ISA      "avx512vnni"
#include "device/cpu/matmul/blocks.inc"
