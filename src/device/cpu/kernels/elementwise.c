/* Kernels of unary and binary ops and gates. No row yet: the reference kernels run. */
#include "device/cpu/kernels.h"

const plait_cpu_kernel plait_cpu_elementwise_kernels[] = {{.name = NULL}};
