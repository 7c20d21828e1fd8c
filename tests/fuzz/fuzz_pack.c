/* room: plan */
/* Packing of any set of lives: five bytes an item after a head that says how the space is cut. What comes out is compared
 * with a model that compares every pair and sums every position; the same set again gives the same offsets. A
 * result that is a thirty-second above the bound or more is not worse than plain first fit in the order of births. */
#include "plan/pack.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MOST = 300, HEAD = 2, ROW = 5 };

typedef struct set {
    plait_pack_item items[MOST];
    size_t n;
    uint64_t chunk;
} set;

static void broken(const char *what, size_t i, size_t k) {
    fprintf(stderr, "%s: %zu, %zu\n", what, i, k);
    abort();
}

static void read_set(set *s, const uint8_t *data, size_t size) {
    s->chunk = data[0] % 4 ? 0 : 4096 + 64 * (uint64_t)data[1];
    for (; s->n < MOST && size >= HEAD + (s->n + 1) * ROW; s->n++) {
        const uint8_t *row = data + HEAD + s->n * ROW;
        int32_t first = row[2] + (row[4] >> 4) * 16;
        s->items[s->n] = (plait_pack_item){.size_bytes = ((uint64_t)(row[1] & 15) << 8 | row[0]) * 16,
                                           .alignment = (uint64_t)16 << (row[1] >> 6),
                                           .first = first,
                                           .last = first + (row[4] & 15 ? row[3] % 32 : row[3])};
    }
}

static bool share_bytes(const plait_pack_item *a, const plait_pack_item *b) {
    return a->first <= b->last && b->first <= a->last && a->offset < b->offset + b->size_bytes &&
           b->offset < a->offset + a->size_bytes;
}

static void check_offsets(const set *s, const plait_packing *packing) {
    uint64_t total = 0;
    for (size_t i = 0; i < s->n; i++) {
        const plait_pack_item *item = &s->items[i];
        uint64_t begin = s->chunk ? item->offset % s->chunk : item->offset;
        if (begin % item->alignment) broken("not aligned", i, 0);
        if (s->chunk && begin + item->size_bytes > s->chunk) broken("across a cut", i, 0);
        if (item->offset + item->size_bytes > total) total = item->offset + item->size_bytes;
        for (size_t k = 0; k < i; k++)
            if (share_bytes(item, &s->items[k])) broken("two share bytes", k, i);
    }
    if (total != packing->total_bytes) broken("total", (size_t)total, (size_t)packing->total_bytes);
}

static uint64_t load_at(const set *s, int32_t position) {
    uint64_t sum = 0;
    for (size_t i = 0; i < s->n; i++)
        if (s->items[i].first <= position && position <= s->items[i].last) sum += s->items[i].size_bytes;
    return sum;
}

static void check_bound(const set *s, const plait_packing *packing) {
    uint64_t most = 0;
    for (size_t i = 0; i < s->n; i++) {
        uint64_t sum = load_at(s, s->items[i].first);
        if (sum > most) most = sum;
    }
    if (packing->bound_bytes != most || (s->n && load_at(s, packing->bound_position) != most))
        broken("bound", (size_t)packing->bound_bytes, (size_t)most);
    if (packing->total_bytes < most) broken("less than the bound", 0, 0);
}

/* Each item in turn at the lowest place that is free, without cuts: by births, larger ones first. */
static uint64_t first_fit(const set *s) {
    static set simple;
    bool placed[MOST] = {0};
    uint64_t total = 0;
    simple = *s;
    for (size_t turn = 0; turn < s->n; turn++) {
        size_t best = MOST;
        for (size_t i = 0; i < s->n; i++) {
            const plait_pack_item *a = &simple.items[i], *b = &simple.items[best < MOST ? best : i];
            bool before = a->first != b->first ? a->first < b->first : a->size_bytes > b->size_bytes;
            if (!placed[i] && (best == MOST || before)) best = i;
        }
        plait_pack_item *item = &simple.items[best];
        item->offset = 0;
        for (size_t k = 0; k < s->n;) {
            bool meets = placed[k] && share_bytes(item, &simple.items[k]);
            if (meets) item->offset = simple.items[k].offset + simple.items[k].size_bytes;
            item->offset = (item->offset + item->alignment - 1) & ~(item->alignment - 1);
            k = meets ? 0 : k + 1;
        }
        placed[best] = true;
        if (item->offset + item->size_bytes > total) total = item->offset + item->size_bytes;
    }
    return total;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static set s, again;
    plait_packing packing, second;
    if (size < HEAD) return 0;
    s.n = again.n = 0;
    read_set(&s, data, size);
    read_set(&again, data, size);
    plait_status status = plait_pack(s.items, s.n, s.chunk, &packing);
    bool fits = true;
    for (size_t i = 0; s.chunk && i < s.n; i++) fits &= s.items[i].size_bytes <= s.chunk;
    if (fits != (status == PLAIT_OK)) broken("status", (size_t)status, fits);
    if (status != PLAIT_OK) return 0;
    check_offsets(&s, &packing);
    check_bound(&s, &packing);
    if (plait_pack(again.items, again.n, again.chunk, &second) != PLAIT_OK ||
        memcmp(s.items, again.items, s.n * sizeof *s.items) != 0)
        broken("other offsets the second time", 0, 0);
    uint64_t simple = s.chunk ? UINT64_MAX : first_fit(&s);
    if (packing.total_bytes > simple && packing.total_bytes > packing.bound_bytes + packing.bound_bytes / 32)
        broken("worse than first fit", (size_t)packing.total_bytes, (size_t)simple);
    return 0;
}
