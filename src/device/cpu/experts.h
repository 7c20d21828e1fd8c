/* Products with experts (expert_matmul): rows of the kernel table. */
#ifndef PLAIT_DEVICE_CPU_EXPERTS_H
#define PLAIT_DEVICE_CPU_EXPERTS_H

#include "device/cpu/kernel.h"

extern const plait_cpu_kernel plait_cpu_expert_kernels[];

#endif
