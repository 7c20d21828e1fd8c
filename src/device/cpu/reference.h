/* The reference kernels of src/op as rows of the kernel table: what runs when nothing faster does. */
#ifndef PLAIT_DEVICE_CPU_REFERENCE_H
#define PLAIT_DEVICE_CPU_REFERENCE_H

#include "device/cpu/kernel.h"

/* Two rows an op: cut into rows, for uses whose rows are independent; and the whole op as one unit. */
extern const plait_cpu_kernel plait_cpu_reference_kernels[];

#endif
