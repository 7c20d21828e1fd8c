/* Who touched what last: a row of cells (bytes between two borders, or whole values), and for each the accesses that a
 * later one must come after. Several lanes of commands touch ranges of cells; of every lane and cell only the accesses
 * count that nothing later in their place stands for: the last write, and the reads since.
 *
 * Not here: what order there is. The caller adds accesses in some total order of which every lane's order is part, and is
 * told which earlier accesses of other lanes each one conflicts with.
 *
 * Invariant: as long as every access comes after those it was told of, it comes after all that it conflicts with.
 */
#ifndef PLAIT_PLAN_TOUCHES_H
#define PLAIT_PLAN_TOUCHES_H

#include "base/ranks.h"

#include <stdbool.h>
#include <stddef.h>

typedef struct plait_touch {
    uint32_t lane, stamp, next;
    bool write;
} plait_touch;

/* Cells form blocks with one list of touches each. Memory is the arena's. */
typedef struct plait_touches {
    size_t n_cells;
    plait_arena *arena;
    plait_ranks starts; /* first cells of blocks */
    uint32_t *heads;    /* [first cell of a block] its newest touch + 1 */
    plait_touch *touches;
    size_t n_touches, capacity;
    uint32_t free_list;
} plait_touches;

typedef void plait_touch_fn(void *user, uint32_t lane, uint32_t stamp);

/* At most 2^28 cells. Everything lives as long as the arena. */
plait_status plait_touches_init(plait_touches *t, plait_arena *arena, size_t n_cells);
/* The cells [begin, end); `earlier` is called for each access that this one conflicts with, an access possibly more than
 * once. Stamps of a lane grow. Costs about as much as there are blocks in the range. */
plait_status plait_touches_add(plait_touches *t, size_t begin, size_t end, uint32_t lane, uint32_t stamp,
                               bool write, plait_touch_fn *earlier, void *user);

/* Ranges of bytes: sorts and joins them to ranges that do not overlap, dropping empty ones, and returns how many are
 * left; whether [begin, end) has a byte in common with one of those. */
typedef struct plait_span {
    uint64_t begin, end;
} plait_span;
size_t plait_spans_join(plait_span *spans, size_t n);
bool plait_spans_meet(const plait_span *spans, size_t n, plait_span with);

/* Borders: sorts them, drops repeated ones, and returns how many are left; the place of one that is there. */
size_t plait_borders_sort(uint64_t *borders, size_t n);
size_t plait_borders_find(const uint64_t *borders, size_t n, uint64_t border);

#endif
