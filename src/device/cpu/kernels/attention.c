/* Kernels of attention. No row yet: the reference kernels run. */
#include "device/cpu/kernels.h"

const plait_cpu_kernel plait_cpu_attention_kernels[] = {{.name = NULL}};
