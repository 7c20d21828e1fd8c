/* Quantised products for every processor. */
#include "device/cpu/matmul/kernels.h"
#include "device/cpu/matmul/vec_portable.h"

#define BLOCK_TABLE    plait_cpu_blocks_portable
#define BLOCK_FEATURES 0
#define BLOCK_ISA      "portable"
#include "device/cpu/matmul/blocks.inc"
