/* Float32 products for every processor. */
#include "device/cpu/matmul/kernels.h"
#include "device/cpu/matmul/vec_portable.h"

#define FLOAT_TABLE    plait_cpu_floats_portable
#define FLOAT_FEATURES 0
#define FLOAT_ISA      "portable"
#define FLOAT_COLUMNS  4
#define FLOAT_GROUPS   1
#include "device/cpu/matmul/floats.inc"
