/* Float32 products for avx512. */
#include "device/cpu/features.h"
#include "device/cpu/matmul/kernels.h"
#include "device/cpu/matmul/vec_avx512.h"

#define FLOAT_TABLE    plait_cpu_floats_avx512
#define FLOAT_FEATURES PLAIT_CPU_AVX512
#define FLOAT_ISA      "avx512"
#define FLOAT_COLUMNS  8
#define FLOAT_GROUPS   2
#include "device/cpu/matmul/floats.inc"
