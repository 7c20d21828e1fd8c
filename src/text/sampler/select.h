/* Choosing some of many without sorting them all. The chosen indices come out in rising order; equal values
 * count as ordered by index. Time is linear in n whatever the values. No allocation: out and scratch hold n
 * entries each. */
#ifndef PLAIT_TEXT_SAMPLER_SELECT_H
#define PLAIT_TEXT_SAMPLER_SELECT_H

#include "text/sampler/kernels.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The indices of the k largest x, 1 <= k <= n. No NaN, no plus infinity. */
void plait_sampler_select_largest(const plait_sampler_kernels *kernels, const float *x, size_t n, size_t k,
                                  uint32_t *out, uint32_t *scratch);

/* Where a prefix ends: at the first element at which the sum of weights reaches `target` (exceeds it when
 * strict) and at least min_count elements are taken. */
typedef struct plait_mass_rule {
    double target;
    bool strict;
    size_t min_count;
} plait_mass_rule;

/* Orders the n >= 1 elements by rising order[] (finite, >= 0) in thought; gives the shortest prefix that
 * meets the rule, or all if none does. Returns the number chosen. */
size_t plait_sampler_select_mass(const plait_sampler_kernels *kernels, const float *order,
                                 const float *weight, size_t n, plait_mass_rule rule, uint32_t *out,
                                 uint32_t *scratch);

/* Sorts the list by falling x, equal ones by rising index. Heap sort: n log n always. */
void plait_sampler_sort_falling(const float *x, uint32_t *index, size_t n);

#endif
