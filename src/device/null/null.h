/* The null device: accepts every node, computes nothing. The smallest complete device kind. */
#ifndef PLAIT_DEVICE_NULL_NULL_H
#define PLAIT_DEVICE_NULL_NULL_H

#include "plait/device.h"

extern const plait_device_vtable plait_null_vtable;

#endif
