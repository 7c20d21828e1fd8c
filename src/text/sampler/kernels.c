/* The sampler kernels for the instruction set that every processor of the target has, and the choice among
 * the variants. The choice affects speed only. */
#define KERNELS_NAME  plait_sampler_kernels_base
#define KERNELS_LABEL "base"
#include "text/sampler/kernels.inc"

const plait_sampler_kernels *plait_sampler_kernels_at(size_t index) {
    if (index == 0) return &plait_sampler_kernels_base;
#if defined(__x86_64__)
    if (index == 1 && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        return &plait_sampler_kernels_avx2;
#endif
    return NULL;
}

const plait_sampler_kernels *plait_sampler_kernels_best(void) {
    const plait_sampler_kernels *best = &plait_sampler_kernels_base;
    for (size_t i = 1; plait_sampler_kernels_at(i); i++) best = plait_sampler_kernels_at(i);
    return best;
}
