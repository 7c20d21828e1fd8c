/* The sampler kernels for x86-64 processors with AVX2. The same source as the base variant, the same
 * results. */
#define KERNELS_NAME  plait_sampler_kernels_avx2
#define KERNELS_LABEL "avx2"
#include "text/sampler/kernels.inc"
