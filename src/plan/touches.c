/* Blocks of cells and their touches. A range is made to begin and end at block borders; a write leaves one block of all
 * that it covers, so the work of splitting is paid for by what is merged later. */
#include "plan/touches.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_TOUCHES = 1 << 28, FIRST_TOUCHES = 256 };

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

/* The arena's memory is never moved: a larger table leaves the smaller one behind. */
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

/* Makes the cell the first of a block. */
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

plait_status plait_touches_add(plait_touches *t, size_t begin, size_t end, uint32_t lane, uint32_t stamp,
                               bool write, plait_touch_fn *earlier, void *user) {
    plait_touch touch = {.lane = lane, .stamp = stamp, .write = write};
    if (begin >= end) return PLAIT_OK;
    PLAIT_TRY(split(t, begin));
    PLAIT_TRY(split(t, end));
    for (size_t block = begin; block < end;) {
        for (uint32_t i = t->heads[block]; i; i = t->touches[i - 1].next) {
            const plait_touch *before = &t->touches[i - 1];
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

static int by_begin(const void *a, const void *b) {
    const plait_span *x = a, *y = b;
    return x->begin < y->begin ? -1 : x->begin > y->begin;
}

size_t plait_spans_join(plait_span *spans, size_t n) {
    size_t kept = 0;
    if (n) qsort(spans, n, sizeof *spans, by_begin);
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

/* ---- borders ---- */

static int by_value(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

size_t plait_borders_sort(uint64_t *borders, size_t n) {
    size_t kept = 0;
    if (n) qsort(borders, n, sizeof *borders, by_value);
    for (size_t i = 0; i < n; i++)
        if (i == 0 || borders[i] != borders[i - 1]) borders[kept++] = borders[i];
    return kept;
}

size_t plait_borders_find(const uint64_t *borders, size_t n, uint64_t border) {
    size_t low = 0, high = n;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (borders[middle] < border)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}
