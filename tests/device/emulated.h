/* x86-64 intrinsics that run anywhere (SIMDe), for compiling kernels a second time in a test. Include this first, then
 * rename the kernel tables with macros, then include the kernels' .c files. One instruction set a program: the files
 * share names. EMULATED is 1 when that is possible here.
 *
 * SIMDe rounds a fused multiply-add twice and lacks a few conversions; those are given here, lane by lane. */
#ifndef PLAIT_TESTS_DEVICE_EMULATED_H
#define PLAIT_TESTS_DEVICE_EMULATED_H

#include "device/matmul_cases.h"

#if defined(__x86_64__) && __has_include(<simde/x86/avx512.h>)
#define EMULATED 1
#else
#define EMULATED 0
#endif

#if EMULATED
/* Optimised fully, such a file takes minutes to compile. */
#ifdef __clang__
#pragma clang diagnostic ignored "-Wpass-failed"
#else
#pragma GCC optimize("O1")
#endif
#define SIMDE_ENABLE_NATIVE_ALIASES
#define SIMDE_NO_NATIVE
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wundef"
#pragma GCC diagnostic ignored "-Wpsabi"
#pragma GCC diagnostic ignored "-Wshadow"
#pragma GCC diagnostic ignored "-Wpointer-arith"
#include <simde/x86/avx2.h>
#include <simde/x86/avx512.h>
#include <simde/x86/f16c.h>
#include <simde/x86/fma.h>
#pragma GCC diagnostic pop
/* Vectors wider than the target's registers pass through memory; no ABI is at stake in one file. */
#pragma GCC diagnostic ignored "-Wpsabi"

#define PLAIT_EMULATED
#ifndef _MM_FROUND_NO_EXC /* SIMDe gives its other names */
#define _MM_FROUND_NO_EXC SIMDE_MM_FROUND_NO_EXC
#endif
#ifndef _MM_FROUND_TO_NEAREST_INT
#define _MM_FROUND_TO_NEAREST_INT SIMDE_MM_FROUND_TO_NEAREST_INT
#endif
#define EMULATED_INLINE static inline __attribute__((always_inline, unused))
#define VEC_KEEP_LOOPS

typedef union lanes512 {
    __m512 f;
    __m512i i;
    float f32[16];
    int32_t i32[16];
} lanes512;

typedef union lanes256 {
    __m256 f;
    float f32[8];
} lanes256;

EMULATED_INLINE __m512 fused512(__m512 a, __m512 b, __m512 c) {
    lanes512 x = {.f = a}, y = {.f = b}, z = {.f = c};
    for (int i = 0; i < 16; i++) z.f32[i] = fmaf(x.f32[i], y.f32[i], z.f32[i]);
    return z.f;
}

EMULATED_INLINE __m256 fused256(__m256 a, __m256 b, __m256 c) {
    lanes256 x = {.f = a}, y = {.f = b}, z = {.f = c};
    for (int i = 0; i < 8; i++) z.f32[i] = fmaf(x.f32[i], y.f32[i], z.f32[i]);
    return z.f;
}

#define WIDEN(name, result, lane, count, from_type, vector, expression)                                      \
    EMULATED_INLINE result name(vector v) {                                                                  \
        from_type from[count];                                                                               \
        union lanes##lane out;                                                                               \
        memcpy(from, &v, sizeof from);                                                                       \
        for (int i = 0; i < count; i++) expression;                                                          \
        result r;                                                                                            \
        memcpy(&r, &out, sizeof r);                                                                          \
        return r;                                                                                            \
    }
WIDEN(halves256, __m256, 256, 8, uint16_t, __m128i, out.f32[i] = plait_f16_to_f32(from[i]))
WIDEN(halves512, __m512, 512, 16, uint16_t, __m256i, out.f32[i] = plait_f16_to_f32(from[i]))
WIDEN(words512, __m512i, 512, 16, uint16_t, __m256i, out.i32[i] = from[i])
WIDEN(bytes512, __m512i, 512, 16, uint8_t, __m128i, out.i32[i] = from[i])
WIDEN(signed512, __m512i, 512, 16, int8_t, __m128i, out.i32[i] = from[i])
WIDEN(floats512, __m512, 512, 16, int32_t, __m512i, out.f32[i] = (float)from[i])
#undef WIDEN

/* SIMDe wants literal shift counts. */
EMULATED_INLINE __m512i left512(__m512i v, unsigned n) {
    uint16_t lanes[32];
    memcpy(lanes, &v, sizeof lanes);
    for (int i = 0; i < 32; i++) lanes[i] = (uint16_t)(lanes[i] << n);
    memcpy(&v, lanes, sizeof v);
    return v;
}

EMULATED_INLINE __m512i right512(__m512i v, unsigned n) {
    uint16_t lanes[32];
    memcpy(lanes, &v, sizeof lanes);
    for (int i = 0; i < 32; i++) lanes[i] = (uint16_t)(lanes[i] >> n);
    memcpy(&v, lanes, sizeof v);
    return v;
}

#undef _mm512_slli_epi16
#undef _mm512_srli_epi16
#define _mm512_slli_epi16 left512
#define _mm512_srli_epi16 right512
#undef _mm512_fmadd_ps
#undef _mm256_fmadd_ps
#undef _mm256_cvtph_ps
#define _mm512_fmadd_ps         fused512
#define _mm256_fmadd_ps         fused256
#define _mm256_cvtph_ps         halves256
#define _mm512_cvtph_ps         halves512
#define _mm512_cvtepu16_epi32   words512
#define _mm512_cvtepu8_epi32    bytes512
#define _mm512_cvtepi8_epi32    signed512
#define _mm512_cvtepi32_ps      floats512
#define _mm256_dpbusd_avx_epi32 _mm256_dpbusd_epi32
#endif

/* Holds every kernel of a table to the portable bytes; returns how many products were compared. */
static inline int check_table(const plait_cpu_matmul *kernel, char *why, size_t why_bytes) {
    static const int64_t shapes[][3] = {{1, 17, 1},  {3, 16, 2},  {2, 33, 3}, {5, 5, 4},
                                        {2, 20, 13}, {41, 16, 7}, {2, 48, 70}};
    int cases = 0;
    for (; kernel->run; kernel++) {
        plait_dtype dtype = kernel->any_dtype ? PLAIT_TQ2_0 : kernel->dtype;
        int64_t block = plait_dtype_block_elems(dtype) > 1 ? plait_dtype_block_elems(dtype) : 37;
        const plait_cpu_matmul *portable = plait_cpu_matmul_find(dtype, 0);
        for (size_t s = 0; s < sizeof shapes / sizeof shapes[0]; s++, cases++) {
            problem p = problem_random(dtype, block * shapes[s][0], shapes[s][1], shapes[s][2]);
            size_t bytes = (size_t)(p.n * p.y_stride + 1) * 4;
            float *want = aligned((int64_t)bytes);
            memcpy(want, problem_run(&p, portable, 0, p.m), bytes);
            bool same = memcmp(problem_run(&p, kernel, 0, p.m), want, bytes) == 0;
            free(want);
            problem_free(&p);
            if (same) continue;
            snprintf(why, why_bytes, "%s %s k %d m %d n %d differs", plait_dtype_name(dtype), kernel->isa,
                     (int)(block * shapes[s][0]), (int)shapes[s][1], (int)shapes[s][2]);
            return -1;
        }
    }
    return cases;
}

#endif
