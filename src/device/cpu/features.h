/* Which instruction sets this processor and operating system offer, as bits. Kernels state the bits they need;
 * a set of bits is an ordinary value, so that a test or a user can ask for less than the machine has.
 *
 * Not here: which kernel is chosen (each kernel table does that), and numeric classes: the kernels of the cpu
 * device give the same bytes on every instruction set.
 */
#ifndef PLAIT_DEVICE_CPU_FEATURES_H
#define PLAIT_DEVICE_CPU_FEATURES_H

#include <stddef.h>
#include <stdint.h>

/* Each bit includes what a compiler's flags for files named *_ISA.c switch on (cmake/PlaitRooms.cmake). */
enum {
    PLAIT_CPU_AVX2 = 1u << 0,       /* AVX2, FMA and F16C */
    PLAIT_CPU_AVXVNNI = 1u << 1,    /* AVX-VNNI: vpdpbusd on 256-bit registers; comes with AVX2 */
    PLAIT_CPU_AVX512 = 1u << 2,     /* AVX-512 F, BW, VL and DQ; comes with AVX2 */
    PLAIT_CPU_AVX512VNNI = 1u << 3, /* AVX-512 VNNI; comes with AVX512 */
};

/* What this machine has: the processor's word and the operating system's (saved registers). Cheap enough to
 * call at the opening of a device; not meant for inner loops. 0 on processors other than x86-64. */
uint32_t plait_cpu_features_detect(void);

/* Writes the names of the bits, "avx2 avxvnni", "none" for 0, cut to `bytes`; returns `out`. */
const char *plait_cpu_features_names(uint32_t features, char *out, size_t bytes);

#endif
