/* Kernels of get_rows, the cache writers, copy and cast. No row yet: the reference kernels run. */
#include "device/cpu/kernels.h"

const plait_cpu_kernel plait_cpu_rows_kernels[] = {{.name = NULL}};
