/* Packed weights outside of products: lookups of their rows. (Offers, packing and unpacking are in cpu.h.) */
#ifndef PLAIT_DEVICE_CPU_WEIGHTS_H
#define PLAIT_DEVICE_CPU_WEIGHTS_H

#include "device/cpu/kernel.h"

/* get_rows of a packed table. */
extern const plait_cpu_kernel plait_cpu_packed_rows_kernels[];

#endif
