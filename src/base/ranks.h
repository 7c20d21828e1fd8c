/* A set of numbers below a limit that finds the nearest member on either side: words of bits, and words that say which of
 * those are not empty, and so on up. Every operation looks at a handful of words, however large the set. */
#ifndef PLAIT_BASE_RANKS_H
#define PLAIT_BASE_RANKS_H

#include "base/arena.h"

#include <stdbool.h>
#include <stdint.h>

enum { PLAIT_RANKS_LEVELS = 6 };
#define PLAIT_NO_RANK SIZE_MAX

typedef struct plait_ranks {
    uint64_t *levels[PLAIT_RANKS_LEVELS]; /* Borrowed from the arena. */
    size_t n_words[PLAIT_RANKS_LEVELS];
    int n_levels;
} plait_ranks;

/* The empty set of numbers below n, at most 2^36, in memory of the arena. */
plait_status plait_ranks_init(plait_ranks *ranks, plait_arena *arena, size_t n);
void plait_ranks_add(plait_ranks *ranks, size_t rank);
void plait_ranks_remove(plait_ranks *ranks, size_t rank);
bool plait_ranks_has(const plait_ranks *ranks, size_t rank);
/* The largest member at or below, the smallest at or above `rank` (both below n), or PLAIT_NO_RANK. */
size_t plait_ranks_below(const plait_ranks *ranks, size_t rank);
size_t plait_ranks_above(const plait_ranks *ranks, size_t rank);

#endif
