/* Choosing some of many without sorting them all. Both functions work on a list of indices in rising order
 * and leave the chosen ones in it, still in rising order. Equal values count as ordered by index. Time is
 * linear in the length of the list, whatever the values. No allocation. */
#ifndef PLAIT_TEXT_SAMPLER_SELECT_H
#define PLAIT_TEXT_SAMPLER_SELECT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Keeps the k largest x[index[i]], k <= n. scratch holds n entries. No NaN. */
void plait_sampler_select_largest(const float *x, uint32_t *index, size_t n, size_t k, uint32_t *scratch);

/* Where a prefix ends: at the first element at which the sum of weights reaches `target` (exceeds it when
 * strict) and at least min_count elements are taken. */
typedef struct plait_mass_rule {
    double target;
    bool strict;
    size_t min_count;
} plait_mass_rule;

/* Orders the list by rising order[] (finite, >= 0) in thought, and keeps the shortest prefix that meets the
 * rule, or all if none does. Returns the number kept. scratch holds n entries. */
size_t plait_sampler_select_mass(const float *order, const float *weight, uint32_t *index, size_t n,
                                 plait_mass_rule rule, uint32_t *scratch);

/* Sorts the list by falling x, equal ones by rising index. Heap sort: n log n always. */
void plait_sampler_sort_falling(const float *x, uint32_t *index, size_t n);

#endif
