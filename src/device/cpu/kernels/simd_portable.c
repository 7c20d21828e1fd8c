/* The functions of simd.h in plain C. */
#include "device/cpu/kernels/lanes_portable.h"

#define SIMD_TABLE plait_cpu_simd_portable
#define SIMD_ISA   "portable"
#include "device/cpu/kernels/simd.inc"
