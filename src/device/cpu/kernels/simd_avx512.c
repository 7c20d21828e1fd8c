/* The functions of simd.h for AVX-512. */
#include "device/cpu/kernels/lanes_avx512.h"

#define SIMD_TABLE plait_cpu_simd_avx512
#define SIMD_ISA   "avx512"
#include "device/cpu/kernels/simd.inc"
