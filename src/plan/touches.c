/* Blocks of cells and their touches. A range is made to begin and end at block borders; a write leaves one block of all
 * that it covers, so the work of splitting is paid for by what is merged later. Not here: clocks, and what order there
 * is (order.c, verify_queues.c both ask). Invariant: a block's list holds the last write of its cells and the reads
 * since, of each lane the latest only. */
#include "plan/touches.h"

#include "base/alloc.h"
#include "base/sort.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_TOUCHES = 1 << 28, FIRST_TOUCHES = 256 };

/* One cell more than there are marks the end, as the first of a block that is never touched. */
plait_status plait_touches_init(plait_touches *t, plait_arena *arena, size_t n_cells) {
    *t = (plait_touches){.n_cells = n_cells, .arena = arena};
    if (n_cells > MAX_TOUCHES) return plait_error(PLAIT_LIMIT, "plan: %zu borders of memory", n_cells);
    PLAIT_TRY(plait_ranks_init(&t->starts, arena, n_cells + 1));
    t->heads = plait_arena_alloc(arena, n_cells + 1, sizeof *t->heads);
    if (!t->heads) return plait_error_memory("plan: touches", n_cells * sizeof *t->heads);
    plait_ranks_add(&t->starts, 0);
    plait_ranks_add(&t->starts, n_cells); /* so that every block has one behind it */
    return PLAIT_OK;
}

/* ---- lists of touches ---- */

/* The arena's memory is never moved: a larger table leaves the smaller one behind. Indices stay good, pointers into the
 * table do not. */
static plait_status grow(plait_touches *t) {
    size_t capacity = t->capacity ? 2 * t->capacity : FIRST_TOUCHES;
    plait_touch *larger = plait_arena_alloc(t->arena, capacity, sizeof *larger);
    if (!larger || capacity > MAX_TOUCHES)
        return plait_error_memory("plan: touches", capacity * sizeof *larger);
    if (t->n_touches) memcpy(larger, t->touches, t->n_touches * sizeof *larger);
    t->touches = larger;
    t->capacity = capacity;
    return PLAIT_OK;
}

/* At the head, so the newest touch of a block is the first of its list. Dropped touches are used again before the table
 * grows. */
static plait_status push(plait_touches *t, uint32_t *head, const plait_touch *touch) {
    uint32_t at = t->free_list;
    if (at) {
        t->free_list = t->touches[at - 1].next;
    } else {
        if (t->n_touches == t->capacity) PLAIT_TRY(grow(t));
        at = (uint32_t)++t->n_touches;
    }
    t->touches[at - 1] = *touch;
    t->touches[at - 1].next = *head;
    *head = at;
    return PLAIT_OK;
}

static void release_list(plait_touches *t, uint32_t *head) {
    while (*head) {
        uint32_t at = *head;
        *head = t->touches[at - 1].next;
        t->touches[at - 1].next = t->free_list;
        t->free_list = at;
    }
}

/* Makes the cell the first of a block, whose list becomes a copy of the one it was part of, in reverse: order within a
 * list matters to is_known() alone, which then misses, and costs a little time. At the end of all cells there is
 * nothing to split. */
static plait_status split(plait_touches *t, size_t cell) {
    if (cell >= t->n_cells) return PLAIT_OK;
    size_t block = plait_ranks_below(&t->starts, cell);
    if (block == cell) return PLAIT_OK;
    t->heads[cell] = 0;
    plait_ranks_add(&t->starts, cell);
    for (uint32_t i = t->heads[block]; i; i = t->touches[i - 1].next) {
        plait_touch copy = t->touches[i - 1];
        PLAIT_TRY(push(t, &t->heads[cell], &copy));
    }
    return PLAIT_OK;
}

/* A later read of the same lane stands for an earlier one: whoever comes after it comes after both. */
static void drop_reads(plait_touches *t, uint32_t *head, uint32_t lane) {
    for (uint32_t *link = head; *link;) {
        plait_touch *touch = &t->touches[*link - 1];
        if (touch->lane == lane && !touch->write) {
            uint32_t at = *link;
            *link = touch->next;
            touch->next = t->free_list;
            t->free_list = at;
        } else {
            link = &touch->next;
        }
    }
}

/* True when the cells are one block in whose list this very access, or a stronger one of the same command, stands for
 * all that it would add: commands touch the same bytes again and again. */
static bool is_known(const plait_touches *t, size_t begin, size_t end, const plait_touch *touch) {
    if (!plait_ranks_has(&t->starts, begin) || plait_ranks_above(&t->starts, begin + 1) != end) return false;
    if (!t->heads[begin]) return false;
    const plait_touch *newest = &t->touches[t->heads[begin] - 1];
    if (newest->lane != touch->lane || newest->stamp != touch->stamp) return false;
    return touch->write ? newest->write && !newest->next : true;
}

/* Steps through the blocks of the range. Accesses of the same lane never conflict, its queue orders them. A write
 * stands for everything before it, as it comes after all of that and all that follows comes after it, so the blocks
 * become one with it alone. */
plait_status plait_touches_add(plait_touches *t, size_t begin, size_t end, uint32_t lane, uint32_t stamp,
                               bool write, plait_touch_fn *earlier, void *user) {
    plait_touch touch = {.lane = lane, .stamp = stamp, .write = write};
    if (begin >= end || is_known(t, begin, end, &touch)) return PLAIT_OK;
    PLAIT_TRY(split(t, begin));
    PLAIT_TRY(split(t, end));
    for (size_t block = begin; block < end;) {
        for (uint32_t i = t->heads[block]; i; i = t->touches[i - 1].next) {
            const plait_touch *before = &t->touches[i - 1];
            /* Two reads do not conflict. */
            if ((before->write || write) && before->lane != lane) earlier(user, before->lane, before->stamp);
        }
        size_t next = plait_ranks_above(&t->starts, block + 1);
        if (write) {
            release_list(t, &t->heads[block]);
            if (block != begin) plait_ranks_remove(&t->starts, block);
        } else {
            drop_reads(t, &t->heads[block], lane);
            PLAIT_TRY(push(t, &t->heads[block], &touch));
        }
        block = next;
    }
    return write ? push(t, &t->heads[begin], &touch) : PLAIT_OK;
}

/* ---- spans ---- */

#define BEGINS_BEFORE(a, b) ((a)->begin < (b)->begin)
PLAIT_DEFINE_SORT(sort_spans, plait_span, BEGINS_BEFORE)

/* Touching spans are joined too. In place; what lies behind the ones that are left is undefined. */
size_t plait_spans_join(plait_span *spans, size_t n) {
    size_t kept = 0;
    sort_spans(spans, n);
    for (size_t i = 0; i < n; i++) {
        plait_span s = spans[i];
        if (s.begin >= s.end) continue;
        if (kept == 0 || s.begin > spans[kept - 1].end)
            spans[kept++] = s;
        else if (s.end > spans[kept - 1].end)
            spans[kept - 1].end = s.end;
    }
    return kept;
}

/* The spans are sorted and apart, so the first that ends behind `with` begins is the only one to look at: all before it
 * end too early, all after it begin later. */
bool plait_spans_meet(const plait_span *spans, size_t n, plait_span with) {
    size_t low = 0, high = n;
    while (low < high) { /* the first that ends behind the begin */
        size_t middle = low + (high - low) / 2;
        if (spans[middle].end <= with.begin)
            low = middle + 1;
        else
            high = middle;
    }
    return with.begin < with.end && low < n && spans[low].begin < with.end;
}

/* ---- accesses ---- */

plait_status plait_accesses_add(plait_accesses *list, plait_span bytes, uint64_t stride, bool write) {
    if (bytes.begin >= bytes.end) return PLAIT_OK;
    PLAIT_TRY(plait_grow(&list->items, &list->capacity, list->n + 1, sizeof *list->items, MAX_TOUCHES,
                         "plan: accesses"));
    list->items[list->n++] = (plait_access){.bytes = bytes, .stride = stride, .write = write};
    return PLAIT_OK;
}

void plait_accesses_deinit(plait_accesses *list) {
    free(list->items);
    *list = (plait_accesses){0};
}

#define IS_LESS(a, b) (*(a) < *(b))
PLAIT_DEFINE_SORT(sort_borders, uint64_t, IS_LESS)

/* The index of a border that is in the list: all that are asked for are. */
static size_t find_border(const plait_accesses *list, uint64_t border) {
    size_t low = 0, high = list->n_borders;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (list->borders[middle] < border)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Borders of every place at which bytes are looked at; cells are numbered by them. Places of accesses with a stride lie
 * apart, so their cells are found when they are touched. */
plait_status plait_accesses_settle(plait_accesses *list, size_t n_places, plait_arena *arena,
                                   plait_touches *out) {
    size_t n = 0, kept = 0;
    for (size_t i = 0; i < list->n; i++) n += list->items[i].stride ? 2 * n_places : 2;
    list->borders = plait_arena_alloc(arena, n, sizeof *list->borders);
    if (!list->borders) return plait_error_memory("plan: borders", n * sizeof *list->borders);
    n = 0;
    /* Bytes that lie elsewhere at each place give borders at each. */
    for (size_t i = 0; i < list->n; i++)
        for (size_t p = 0; p < (list->items[i].stride ? n_places : 1); p++) {
            list->borders[n++] = list->items[i].bytes.begin + p * list->items[i].stride;
            list->borders[n++] = list->items[i].bytes.end + p * list->items[i].stride;
        }
    sort_borders(list->borders, n);
    for (size_t i = 0; i < n; i++)
        if (i == 0 || list->borders[i] != list->borders[i - 1]) list->borders[kept++] = list->borders[i];
    list->n_borders = kept;
    if (kept > MAX_TOUCHES) return plait_error(PLAIT_LIMIT, "plan: %zu borders of memory", kept);
    for (size_t i = 0; i < list->n; i++) {
        list->items[i].begin = (uint32_t)find_border(list, list->items[i].bytes.begin);
        list->items[i].end = (uint32_t)find_border(list, list->items[i].bytes.end);
    }
    return plait_touches_init(out, arena, kept);
}

/* `place`: the step's number modulo the places. Without a stride every place is the first. */
plait_status plait_accesses_touch(const plait_accesses *list, size_t i, size_t place, plait_touches *t,
                                  uint32_t lane, uint32_t stamp, plait_touch_fn *earlier, void *user) {
    const plait_access *access = &list->items[i];
    size_t begin = access->begin, end = access->end;
    if (access->stride && place) {
        begin = find_border(list, access->bytes.begin + place * access->stride);
        end = find_border(list, access->bytes.end + place * access->stride);
    }
    return plait_touches_add(t, begin, end, lane, stamp, access->write, earlier, user);
}
