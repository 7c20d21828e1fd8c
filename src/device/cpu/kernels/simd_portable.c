/* The functions of simd.h in plain C, over the compiler's vector extension: what runs on processors without AVX2, and
 * on 64-bit Arm. Compiled without flags of an instruction set. */
#include "device/cpu/kernels/lanes_portable.h"

#define SIMD_TABLE plait_cpu_simd_portable
#define SIMD_ISA   "portable"
#include "device/cpu/kernels/simd.inc"
