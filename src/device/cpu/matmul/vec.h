/* Small things that every vec_ISA.h needs, and what a vec_ISA.h gives: LANES, rows of a vector; VF, VI, VB, vectors of
 * LANES floats, 32-bit integers, and 4 * LANES bytes; vf_, vi_, vb_ operations on them, unaligned loads and stores;
 * CODES_SCALED, whether codes with an offset are brought to the offset 128 when they are loaded; MICRO_COLUMNS, columns
 * of a register tile; vi_dots, the dot products of a block.
 *
 * Invariant: an operation is the same IEEE or integer operation on each lane on every instruction set, so files written
 * in them give the same bytes. */
#ifndef PLAIT_DEVICE_CPU_MATMUL_VEC_H
#define PLAIT_DEVICE_CPU_MATMUL_VEC_H

#include "device/cpu/matmul/packing.h"

/* Instrumented builds keep calls and loops: checks on every unrolled copy make compilers run for many minutes. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define VEC_KEEP_CALLS
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(undefined_behavior_sanitizer) ||                       \
    __has_feature(thread_sanitizer)
#define VEC_KEEP_CALLS
#endif
#endif

#ifdef VEC_KEEP_CALLS
#ifndef VEC_KEEP_LOOPS
#define VEC_KEEP_LOOPS
#endif
#define INLINE static inline
#else
#define INLINE static inline __attribute__((always_inline))
#endif

/* Before a loop of constant length whose arrays must become registers. */
#ifdef VEC_KEEP_LOOPS
#define UNROLL
#elif defined(__clang__)
#define UNROLL _Pragma("clang loop unroll(full)")
#else
#define UNROLL _Pragma("GCC unroll 16")
#endif

/* Four neighbouring activations as one number, for broadcasting. */
INLINE int32_t load_four(const int8_t *q) {
    int32_t value;
    __builtin_memcpy(&value, q, sizeof value);
    return value;
}

/* What the int32 dot of a column starts from. which: 0 the whole block, 1 and 2 its halves, -1 nothing. */
INLINE int32_t start_of(const plait_cpu_block *x, int which) {
    return which < 0 ? 0 : which == 0 ? x->offset : x->offset_half[which - 1];
}

#endif
