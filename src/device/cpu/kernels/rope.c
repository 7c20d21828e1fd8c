/* Kernels of rope and position_scale. No row yet: the reference kernels run. */
#include "device/cpu/kernels.h"

const plait_cpu_kernel plait_cpu_rope_kernels[] = {{.name = NULL}};
