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

/* An access to bytes that lie `stride` bytes further on at each place: at the same place every time where it is 0. */
typedef struct plait_access {
    plait_span bytes;
    uint64_t stride;
    uint32_t begin, end; /* cells, where the stride is 0 */
    bool write;
} plait_access;

/* Accesses of all steps, one after the other, and the borders between the bytes that they tell apart: the cells. */
typedef struct plait_accesses {
    plait_access *items; /* Owned. */
    size_t n, capacity;
    uint64_t *borders; /* the arena's */
    size_t n_borders;
} plait_accesses;

/* Zeroed before; what has no bytes is left out. */
plait_status plait_accesses_add(plait_accesses *list, plait_span bytes, uint64_t stride, bool write);
void plait_accesses_deinit(plait_accesses *list);
/* After the last one was added: makes cells of the bytes at all places, and empty touches of them. */
plait_status plait_accesses_settle(plait_accesses *list, size_t n_places, plait_arena *arena,
                                   plait_touches *out);
/* plait_touches_add for one of them. */
plait_status plait_accesses_touch(const plait_accesses *list, size_t i, size_t place, plait_touches *t,
                                  uint32_t lane, uint32_t stamp, plait_touch_fn *earlier, void *user);

#endif
