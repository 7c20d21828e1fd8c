/* Checked arithmetic on sizes. Every size that depends on data from outside goes through these: they return
 * false on overflow and leave *out untouched. Not here: any policy about limits. */
#ifndef PLAIT_BASE_SIZE_H
#define PLAIT_BASE_SIZE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

static inline bool plait_add_u64(uint64_t a, uint64_t b, uint64_t *out) {
    uint64_t r;
    if (__builtin_add_overflow(a, b, &r)) return false;
    *out = r;
    return true;
}

static inline bool plait_mul_u64(uint64_t a, uint64_t b, uint64_t *out) {
    uint64_t r;
    if (__builtin_mul_overflow(a, b, &r)) return false;
    *out = r;
    return true;
}

static inline bool plait_add_size(size_t a, size_t b, size_t *out) {
    size_t r;
    if (__builtin_add_overflow(a, b, &r)) return false;
    *out = r;
    return true;
}

static inline bool plait_mul_size(size_t a, size_t b, size_t *out) {
    size_t r;
    if (__builtin_mul_overflow(a, b, &r)) return false;
    *out = r;
    return true;
}

/* Rounds `value` up to a multiple of `alignment`, a power of two. */
static inline bool plait_align_u64(uint64_t value, uint64_t alignment, uint64_t *out) {
    uint64_t r;
    if (__builtin_add_overflow(value, alignment - 1, &r)) return false;
    *out = r & ~(alignment - 1);
    return true;
}

static inline bool plait_is_power_of_two(uint64_t value) {
    return value != 0 && (value & (value - 1)) == 0;
}

static inline int64_t plait_min_i64(int64_t a, int64_t b) {
    return a < b ? a : b;
}
static inline int64_t plait_max_i64(int64_t a, int64_t b) {
    return a > b ? a : b;
}

/* Part `index` of `n_parts` nearly equal consecutive parts of [0, n): returns its start; the end is the start of part
 * index + 1. Exact for all n < 2^63 and never overflows. The first n % n_parts parts are one longer than the others.
 * The obvious n * index / n_parts overflows. */
static inline int64_t plait_part_start(int64_t n, int64_t index, int64_t n_parts) {
    int64_t each = n / n_parts, rest = n % n_parts;
    return each * index + (index < rest ? index : rest);
}

/* Of an array, not of a pointer, whose size says nothing of what it points to. */
#define PLAIT_COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

#endif
