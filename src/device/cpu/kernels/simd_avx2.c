/* The functions of simd.h for AVX2, FMA and F16C. */
#include "device/cpu/kernels/lanes_avx2.h"

#define SIMD_TABLE plait_cpu_simd_avx2
#define SIMD_ISA   "avx2"
#include "device/cpu/kernels/simd.inc"
