/* The choice of a table. AVX-VNNI and AVX-512 VNNI have nothing that these functions need. Invariant: which table it is
 * changes no byte. */
#include "device/cpu/kernels/simd.h"

#include "device/cpu/features.h"

/* The widest that may be used. */
const plait_cpu_simd *plait_cpu_simd_for(uint32_t features) {
#if defined(__x86_64__)
    if (features & PLAIT_CPU_AVX512) return &plait_cpu_simd_avx512;
    if (features & PLAIT_CPU_AVX2) return &plait_cpu_simd_avx2;
#else
    (void)features;
#endif
    return &plait_cpu_simd_portable;
}
