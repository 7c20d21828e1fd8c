/* Detection of instruction sets. Invariant: a bit is set only when the bits it comes with are set too.
 * Source: Intel 64 and IA-32 Architectures Software Developer's Manual, volume 2, CPUID and XGETBV. */
#include "device/cpu/features.h"

#include "base/size.h"

#include <stdio.h>

#if defined(__x86_64__)
#include <cpuid.h>

/* Which registers the system saves when it changes threads; readable when OSXSAVE is set. The upper half has nothing of
 * ours. */
static uint32_t extended_control_register_0(void) {
    uint32_t low, high;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    (void)high;
    return low;
}

static int has_all(uint32_t word, uint32_t bits) {
    return (word & bits) == bits;
}

uint32_t plait_cpu_features_detect(void) {
    /* Leaf 1, ECX: FMA, F16C, OSXSAVE, AVX. PLAIT_CPU_AVX2 stands for FMA and F16C as well, which every kernel of that
     * set uses. */
    enum { FMA_F16C_OSXSAVE_AVX = 1u << 12 | 1u << 29 | 1u << 27 | 1u << 28 };
    /* XMM and YMM; with opmasks and both halves of ZMM: a processor may have AVX-512 that its system does not save. */
    enum { YMM_STATE = 0x6, ZMM_STATE = 0xE6 };
    uint32_t a, b, c, d, features = 0;
    if (!__get_cpuid(1, &a, &b, &c, &d) || !has_all(c, FMA_F16C_OSXSAVE_AVX)) return 0;
    uint32_t saved = extended_control_register_0();
    uint32_t b7, c7;
    if (!has_all(saved, YMM_STATE) || !__get_cpuid_count(7, 0, &a, &b7, &c7, &d)) return 0;
    /* AVX2 is leaf 7, EBX bit 5. Leaf 7 is asked once for AVX-512 too, so its answers get names of their own. */
    if (!has_all(b7, 1u << 5)) return 0;
    features |= PLAIT_CPU_AVX2;
    if (__get_cpuid_count(7, 1, &a, &b, &c, &d) && has_all(a, 1u << 4)) features |= PLAIT_CPU_AVXVNNI;
    /* F 16, DQ 17, BW 30, VL 31 */
    if (has_all(saved, ZMM_STATE) && has_all(b7, 1u << 16 | 1u << 17 | 1u << 30 | 1u << 31)) {
        features |= PLAIT_CPU_AVX512;
        if (has_all(c7, 1u << 11)) features |= PLAIT_CPU_AVX512VNNI;
    }
    return features;
}
#else
uint32_t plait_cpu_features_detect(void) {
    return 0;
}
#endif

const char *plait_cpu_features_names(uint32_t features, char *out, size_t bytes) {
    static const struct {
        uint32_t bit;
        const char *name;
    } names[] = {{PLAIT_CPU_AVX2, "avx2"},
                 {PLAIT_CPU_AVXVNNI, "avxvnni"},
                 {PLAIT_CPU_AVX512, "avx512"},
                 {PLAIT_CPU_AVX512VNNI, "avx512vnni"}};
    size_t used = 0;
    if (bytes) out[0] = 0;
    for (size_t i = 0; i < PLAIT_COUNT_OF(names) && used < bytes; i++)
        if (features & names[i].bit)
            used += (size_t)snprintf(out + used, bytes - used, "%s%s", used ? " " : "", names[i].name);
    if (!used) snprintf(out, bytes, "none");
    return out;
}
