/* Float32 products for avx2. */
#include "device/cpu/features.h"
#include "device/cpu/matmul/kernels.h"
#include "device/cpu/matmul/vec_avx2.h"

#define FLOAT_TABLE    plait_cpu_floats_avx2
#define FLOAT_FEATURES PLAIT_CPU_AVX2
#define FLOAT_ISA      "avx2"
#define FLOAT_COLUMNS  4
#define FLOAT_GROUPS   1
#include "device/cpu/matmul/floats.inc"
