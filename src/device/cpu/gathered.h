/* Kernels for inputs whose dim 0 is not contiguous, as rows of the kernel table: behind the families, before the reference. */
#ifndef PLAIT_DEVICE_CPU_GATHERED_H
#define PLAIT_DEVICE_CPU_GATHERED_H

#include "device/cpu/kernel.h"

/* One row an op. */
extern const plait_cpu_kernel plait_cpu_gathered_kernels[];

#endif
