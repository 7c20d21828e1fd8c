/* How items are packed. With lives known beforehand this is dynamic storage allocation (Garey and Johnson, Computers
 * and Intractability, SR2), which is NP-hard: no way is always the best, and what is found is judged by the lower
 * bound. Three ways, each tried only while that bound is not reached:
 *
 *   sweep   positions in order, each item into the tightest gap that is free just then. Quick, and knows no future.
 *   settle  the largest item first, each into the lowest gap that is free for its whole life; by bytes times length of
 *           life, then by bytes. Reaches the bound for models' graphs. Where neither comes near it, by birth: first fit.
 *   mend    a ceiling is set below what was reached. Items above it are taken out and placed again under it, and throw
 *           out whoever costs least where there is no room; those are placed in their turn. An item that was thrown out
 *           often becomes dear, so the search moves on. The first ceiling is the bound itself, with little patience; others
 *           come down from a tenth above it to three hundredths.
 *
 * Settling and mending look at the neighbours of an item: those alive while it is. They are found through lanes: items
 * of about the same length of life, sorted by birth, with an index from positions. What is looked at is counted as
 * work, and the allowance of work grows with n only, so that hostile sets cost quality, not time.
 *
 * Invariant: at any time, placed items that are alive together are apart. */
#include "plan/pack.h"

#include "base/alloc.h"
#include "base/size.h"
#include "base/sort.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* A lane holds lives up to four times as long as the one before it: 4^15 positions are more than there can be. */
enum { LANES = 17, LANE_RATIO = 4 };

/* Units of about a nanosecond: looking at one neighbour is one. What is spent whatever n is grows with n * n where that is
 * less: few items have been tried in all ways before. */
enum { WORK_AT_LEAST = 1 << 19, WORK_WHILE_BAD = 1 << 23, WORK_PER_ITEM = 128, SETTLE_PER_ITEM = 256 };
enum { WORK_PER_PAIR = 64, BAD_PER_PAIR = 1024 };
/* Thousandths above the bound: worth more time, on the few sets that meet it; worth no more; as good as the bound. */
enum { BAD = 60, GOOD = 30, AS_GOOD_AS = 10 };

#define NOWHERE UINT64_MAX

typedef struct life {
    int32_t first, last;
    uint32_t item;
} life;

typedef struct lane {
    const life *lives;    /* sorted by birth */
    const uint32_t *from; /* [position]: the first born there or later; NULL: the lane is empty */
    uint32_t n;
    int32_t longest;
} lane;

/* Bytes of an item, once it is placed. */
typedef struct span {
    uint64_t begin, end;
    uint32_t item;
    bool placed;
} span;

/* An item by what settles its turn. */
typedef struct weighed {
    double weight;
    uint32_t item;
} weighed;

typedef struct packer {
    plait_pack_item *items;
    size_t n;
    int32_t n_positions;
    uint64_t chunk_bytes;
    lane lanes[LANES];
    uint32_t *by_birth; /* all items, larger ones first where several are born */
    life *lives;        /* of the lanes */
    uint32_t *tables;   /* of the lanes */
    span *places;       /* [item]: as its neighbours see it */
    weighed *order;
    uint64_t work;
    span *near, *ends; /* neighbours of the item at hand, by begin and by end */
    double *sums;      /* running costs of `near`, then of `ends` */
    uint32_t *waiting; /* a heap: items to be placed, the largest first */
    size_t n_waiting;
    uint32_t *thrown; /* [item]: how often it was thrown out */
    uint64_t *best;   /* [item]: offsets of the smallest packing so far */
    uint64_t best_bytes;
} packer;

/* ---- places ---- */

/* The lowest legal offset in [begin, end) for the item, or NOWHERE. Alignment is that inside the chunk, whose buffer
 * begins aligned. An item that would lie across a cut goes to the beginning of the next chunk, and is then checked
 * against `end` as any other. */
static uint64_t fit(const packer *p, const plait_pack_item *item, uint64_t begin, uint64_t end) {
    uint64_t chunk = p->chunk_bytes ? begin / p->chunk_bytes * p->chunk_bytes : 0;
    uint64_t inside = (begin - chunk + item->alignment - 1) & ~(item->alignment - 1);
    if (p->chunk_bytes && (inside > p->chunk_bytes || item->size_bytes > p->chunk_bytes - inside))
        chunk += p->chunk_bytes, inside = 0;
    uint64_t at = chunk + inside;
    return at <= end && end - at >= item->size_bytes ? at : NOWHERE;
}

static uint64_t top_of(const plait_pack_item *item) {
    return item->offset + item->size_bytes;
}

static uint64_t total_of(const packer *p) {
    uint64_t total = 0;
    for (size_t i = 0; i < p->n; i++)
        if (top_of(&p->items[i]) > total) total = top_of(&p->items[i]);
    return total;
}

/* Keeps what is placed now when it is the smallest so far; the first packing is always kept, as best_bytes begins at
 * UINT64_MAX. */
static void keep_best(packer *p) {
    uint64_t total = total_of(p);
    if (total >= p->best_bytes) return;
    p->best_bytes = total;
    for (size_t i = 0; i < p->n; i++) p->best[i] = p->items[i].offset;
}

/* Mending begins from the best, not from what the last attempt left behind. */
static void take_best(packer *p) {
    for (size_t i = 0; i < p->n; i++) p->items[i].offset = p->best[i];
}

/* Larger first; equals in their order. */
static bool is_larger(const packer *p, uint32_t a, uint32_t b) {
    uint64_t x = p->items[a].size_bytes, y = p->items[b].size_bytes;
    return x != y ? x > y : a < b;
}

/* Offset and span always together: the item is the caller's result, the span what its neighbours look at. */
static void place(packer *p, uint32_t i, uint64_t offset) {
    p->items[i].offset = offset;
    p->places[i] = (span){offset, offset + p->items[i].size_bytes, i, true};
}

/* ---- the heaviest position ---- */

/* Loads are sums of births less deaths: one pass over items, one over positions. Ties go to the first position. */
static plait_status find_bound(const plait_pack_item *items, size_t n, int32_t n_positions,
                               plait_packing *out) {
    uint64_t *change = plait_alloc_array((size_t)n_positions + 1, sizeof *change);
    if (!change) return plait_error_memory("packing", ((uint64_t)n_positions + 1) * sizeof *change);
    for (size_t i = 0; i < n; i++) { /* modulo 2^64: the sums come out right */
        change[items[i].first] += items[i].size_bytes;
        change[items[i].last + 1] -= items[i].size_bytes;
    }
    uint64_t load = 0;
    for (int32_t at = 0; at < n_positions; at++) {
        load += change[at];
        if (load > out->bound_bytes) out->bound_bytes = load, out->bound_position = at;
    }
    free(change);
    return PLAIT_OK;
}

/* ---- lanes ---- */

/* The lane of a length of life: 1, then up to 4, up to 16, and so on. Within a lane lives differ by a factor of four at
 * most, so a look back by the longest of them meets at least about a quarter that is alive. */
static int lane_of(const plait_pack_item *item) {
    int64_t length = (int64_t)item->last - item->first + 1, most = 1;
    int k = 0;
    while (most < length) most *= LANE_RATIO, k++;
    return k;
}

/* All items by position of birth, then by size. */
static plait_status sort_by_birth(packer *p) {
    size_t row = (size_t)p->n_positions + 1;
    uint32_t *begins = plait_alloc_array(2 * row, sizeof *begins), *ends = begins + row;
    if (!begins) return plait_error_memory("packing", 2 * row * sizeof *begins);
    for (size_t i = 0; i < p->n; i++) begins[p->items[i].first + 1]++;
    for (size_t k = 1; k < row; k++) begins[k] += begins[k - 1];
    memcpy(ends, begins, row * sizeof *ends);
    for (uint32_t i = 0; i < p->n; i++) {
        int32_t at = p->items[i].first;
        uint32_t k = ends[at]++;
        /* Few are born at one position: each goes in front of the smaller ones there. */
        for (; k > begins[at] && is_larger(p, i, p->by_birth[k - 1]); k--)
            p->by_birth[k] = p->by_birth[k - 1];
        p->by_birth[k] = i;
    }
    free(begins);
    return PLAIT_OK;
}

/* Lanes of the items in order of birth, and each lane's index from positions. The index of a lane says for each
 * position which life is the first that begins there or later, so neighbours are found without a search. Lanes that
 * nobody is in take no table. */
static plait_status build_lanes(packer *p) {
    size_t counts[LANES] = {0}, n_lanes = 0, row = (size_t)p->n_positions + 1;
    for (size_t i = 0; i < p->n; i++) counts[lane_of(&p->items[i])]++;
    for (int l = 0; l < LANES; l++) n_lanes += counts[l] > 0;
    p->lives = plait_alloc_array(p->n, sizeof *p->lives);
    p->tables = plait_alloc_array(n_lanes * row, sizeof *p->tables);
    if (!p->lives || !p->tables) return plait_error_memory("packing", n_lanes * row * sizeof *p->tables);
    life *lists[LANES], *list = p->lives;
    uint32_t *index = p->tables;
    /* All lanes share one array, each at its own stretch; filled in order of birth, so each comes out sorted. */
    for (int l = 0; l < LANES; l++) lists[l] = list, list += counts[l];
    for (size_t k = 0; k < p->n; k++) {
        const plait_pack_item *item = &p->items[p->by_birth[k]];
        int l = lane_of(item);
        int32_t length = item->last - item->first + 1;
        if (length > p->lanes[l].longest) p->lanes[l].longest = length;
        lists[l][p->lanes[l].n++] = (life){item->first, item->last, p->by_birth[k]};
    }
    for (int l = 0; l < LANES; l++) {
        if (!counts[l]) continue;
        /* [at]: how many were born before position `at`, which is where those born there or later begin. */
        uint32_t next = 0;
        for (int32_t at = 0; at <= p->n_positions; at++) {
            while (next < p->lanes[l].n && lists[l][next].first < at) next++;
            index[at] = next;
        }
        p->lanes[l].lives = lists[l];
        p->lanes[l].from = index;
        index += row;
    }
    return PLAIT_OK;
}

/* ---- neighbours ---- */

#define BEGINS_BEFORE(a, b) ((a)->begin < (b)->begin)
PLAIT_DEFINE_SORT(sort_spans, span, BEGINS_BEFORE)

/* Placed neighbours of an item into `near`, in no order. In each lane: those born from the longest life before the
 * item's birth on, until its death. Counted as work, with what handling a neighbour costs later. */
static size_t find_neighbours(packer *p, uint32_t i) {
    const plait_pack_item *item = &p->items[i];
    size_t n = 0;
    for (int l = 0; l < LANES; l++) {
        const lane *row = &p->lanes[l];
        if (!row->from) continue;
        /* Who was born earlier than this had died before the item was born, even if it lived longest of its lane. */
        int32_t earliest = item->first - row->longest + 1;
        uint32_t from = row->from[earliest > 0 ? earliest : 0], k = from;
        for (; k < row->n && row->lives[k].first <= item->last; k++) {
            const span *other = &p->places[row->lives[k].item];
            p->near[n] = *other; /* kept or written over: there is nothing to guess for the processor */
            n += (size_t)((row->lives[k].last >= item->first) & other->placed);
        }
        p->work += 2 + k - from;
    }
    p->work += 4 * n;
    return n;
}

/* The lowest place below `limit` that none of the n in `near` touches, or NOWHERE. `cursor` is the end of all that
 * begins below. The lowest, not the tightest: what counts in the end is how high anything reaches. */
static uint64_t find_gap(packer *p, const plait_pack_item *item, size_t n, uint64_t limit) {
    uint64_t cursor = 0;
    sort_spans(p->near, n);
    for (size_t k = 0; k <= n && cursor < limit; k++) {
        uint64_t end = k < n && p->near[k].begin < limit ? p->near[k].begin : limit;
        uint64_t at = end > cursor ? fit(p, item, cursor, end) : NOWHERE;
        if (at != NOWHERE) return at;
        if (k < n && p->near[k].end > cursor) cursor = p->near[k].end;
    }
    return NOWHERE;
}

/* ---- sweep ---- */

/* Gaps that are free at a position, sorted; the last one is endless. */
typedef struct gaps {
    span *spans;
    size_t n;
} gaps;

/* Gaps are few compared with items, and sorted by begin. */
static size_t first_gap_from(const gaps *g, uint64_t begin) {
    size_t low = 0, high = g->n;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (g->spans[middle].begin < begin)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static void remove_gap(gaps *g, size_t k) {
    memmove(g->spans + k, g->spans + k + 1, (g->n - k - 1) * sizeof *g->spans);
    g->n--;
}

static void insert_gap(gaps *g, size_t k, uint64_t begin, uint64_t end) {
    memmove(g->spans + k + 1, g->spans + k, (g->n - k) * sizeof *g->spans);
    g->spans[k] = (span){.begin = begin, .end = end};
    g->n++;
}

/* Joined with the gaps on both sides, so that two gaps never touch; hence never more gaps than items alive, and one. */
static void give_back(gaps *g, uint64_t begin, uint64_t end) {
    size_t k = first_gap_from(g, begin);
    bool left = k > 0 && g->spans[k - 1].end == begin, right = k < g->n && g->spans[k].begin == end;
    if (left) g->spans[k - 1].end = right ? g->spans[k].end : end;
    if (left && right) remove_gap(g, k);
    if (!left && right) g->spans[k].begin = begin;
    if (!left && !right) insert_gap(g, k, begin, end);
}

/* The tightest gap that has room, the lowest of equals. The last gap is endless, so there always is one; what is left
 * before the item by alignment, or behind it, stays a gap. */
static uint64_t take(const packer *p, gaps *g, const plait_pack_item *item) {
    size_t best = g->n;
    uint64_t best_at = NOWHERE, best_size = UINT64_MAX;
    /* Tightest first: a gap with the least room left over is of least use to others. Comparing sizes before fitting
     * saves the division by chunks for most gaps. */
    for (size_t k = 0; k < g->n; k++) {
        uint64_t size = g->spans[k].end - g->spans[k].begin;
        if (size < item->size_bytes || (best < g->n && size >= best_size)) continue;
        uint64_t at = fit(p, item, g->spans[k].begin, g->spans[k].end);
        if (at != NOWHERE) best = k, best_at = at, best_size = size;
    }
    span whole = g->spans[best];
    uint64_t end = best_at + item->size_bytes;
    if (whole.begin == best_at)
        g->spans[best].begin = end;
    else
        g->spans[best].end = best_at;
    if (whole.begin != best_at && end < whole.end) insert_gap(g, best + 1, end, whole.end);
    if (g->spans[best].begin == g->spans[best].end) remove_gap(g, best);
    return best_at;
}

/* Items by position of death, for giving back: a counting sort into `by_death`. */
static plait_status sort_by_death(const packer *p, uint32_t *by_death) {
    uint32_t *at = plait_alloc_array((size_t)p->n_positions + 1, sizeof *at);
    if (!at) return plait_error_memory("packing", ((uint64_t)p->n_positions + 1) * sizeof *at);
    for (size_t i = 0; i < p->n; i++) at[p->items[i].last + 1]++;
    for (int32_t k = 0; k < p->n_positions; k++) at[k + 1] += at[k];
    for (uint32_t i = 0; i < p->n; i++) by_death[at[p->items[i].last]++] = i;
    free(at);
    return PLAIT_OK;
}

/* Deaths are given back before births are served, by position. `waiting` and `near` are lent: what uses them otherwise
 * has not begun. */
static plait_status sweep(packer *p) {
    gaps g = {.spans = p->near, .n = 1};
    uint32_t *by_death = p->waiting;
    size_t dead = 0;
    PLAIT_TRY(sort_by_death(p, by_death));
    g.spans[0] = (span){.end = UINT64_MAX};
    for (size_t k = 0; k < p->n; k++) {
        plait_pack_item *item = &p->items[p->by_birth[k]];
        for (; p->items[by_death[dead]].last < item->first; dead++) {
            const plait_pack_item *gone = &p->items[by_death[dead]];
            if (gone->size_bytes) give_back(&g, gone->offset, top_of(gone));
        }
        item->offset = item->size_bytes ? take(p, &g, item) : 0;
    }
    keep_best(p);
    return PLAIT_OK;
}

/* ---- settle ---- */

/* Pairs that are alive together, counted without looking at them: for each item all that are born until it dies, less
 * those that died before it was born. Each pair counts twice, once for either member, and each item once with itself:
 * it is a measure of work. */
static plait_status count_pairs(const packer *p, uint64_t *out) {
    uint32_t *born = plait_alloc_array(2 * ((size_t)p->n_positions + 1), sizeof *born);
    if (!born) return plait_error_memory("packing", 2 * ((uint64_t)p->n_positions + 1) * sizeof *born);
    uint32_t *died = born + p->n_positions + 1;
    for (size_t i = 0; i < p->n; i++) born[p->items[i].first]++, died[p->items[i].last + 1]++;
    for (int32_t k = 0; k < p->n_positions; k++) born[k + 1] += born[k], died[k + 1] += died[k];
    *out = 0;
    for (size_t i = 0; i < p->n; i++) *out += born[p->items[i].last] - died[p->items[i].first];
    free(born);
    return PLAIT_OK;
}

/* A binary heap, larger items above. */
static void push(packer *p, uint32_t item) {
    size_t i = p->n_waiting++;
    for (; i > 0 && is_larger(p, item, p->waiting[(i - 1) / 2]); i = (i - 1) / 2)
        p->waiting[i] = p->waiting[(i - 1) / 2];
    p->waiting[i] = item;
}

/* The largest of those that wait; n_waiting is not 0. */
static uint32_t pop(packer *p) {
    uint32_t largest = p->waiting[0], moved = p->waiting[--p->n_waiting];
    size_t i = 0, n = p->n_waiting;
    for (size_t child; (child = 2 * i + 1) < n; i = child) {
        if (child + 1 < n && is_larger(p, p->waiting[child + 1], p->waiting[child])) child++;
        if (!is_larger(p, p->waiting[child], moved)) break;
        p->waiting[i] = p->waiting[child];
    }
    p->waiting[i] = moved;
    return largest;
}

/* Bytes, or bytes times positions. */
static double weight_of(const plait_pack_item *item, bool by_area) {
    double length = by_area ? (double)item->last - item->first + 1 : 1;
    return (double)item->size_bytes * length;
}

#define IS_HEAVIER(a, b) ((a)->weight != (b)->weight ? (a)->weight > (b)->weight : (a)->item < (b)->item)
PLAIT_DEFINE_SORT(sort_weighed, weighed, IS_HEAVIER)

/* Whose turn is first. */
typedef enum turn { BY_AREA, BY_BYTES, BY_BIRTH } turn;

/* Everything is taken out first, then placed one by one; items without bytes lie at 0 and are nobody's neighbours.
 * Placed without a limit, so there always is a place. */
static void settle(packer *p, turn by) {
    size_t n_items = 0;
    for (uint32_t k = 0; k < p->n; k++) {
        uint32_t i = by == BY_BIRTH ? p->by_birth[k] : k;
        place(p, i, 0);
        p->places[i].placed = p->items[i].size_bytes == 0;
        if (!p->places[i].placed) p->order[n_items++] = (weighed){weight_of(&p->items[i], by == BY_AREA), i};
    }
    if (by != BY_BIRTH) sort_weighed(p->order, n_items);
    for (size_t k = 0; k < n_items; k++) {
        uint32_t i = p->order[k].item;
        size_t n = find_neighbours(p, i);
        place(p, i, find_gap(p, &p->items[i], n, UINT64_MAX));
    }
    keep_best(p);
}

/* ---- mend ---- */

/* Grows with the square of how often it was thrown out, so that two items cannot throw each other out for ever. */
static double cost_of(const packer *p, uint32_t item) {
    double times = 1 + p->thrown[item];
    return (double)p->items[item].size_bytes * times * times;
}

/* `near` is sorted. Fills `ends` (begin and end swapped, so that it sorts by end) and the running sums of costs. */
static void sum_costs(packer *p, size_t n) {
    double *by_begin = p->sums, *by_end = p->sums + p->n + 1;
    for (size_t k = 0; k < n; k++)
        p->ends[k] = (span){.begin = p->near[k].end, .end = p->near[k].begin, .item = p->near[k].item};
    sort_spans(p->ends, n);
    by_begin[0] = by_end[0] = 0;
    for (size_t k = 0; k < n; k++) {
        by_begin[k + 1] = by_begin[k] + cost_of(p, p->near[k].item);
        by_end[k + 1] = by_end[k] + cost_of(p, p->ends[k].item);
    }
    p->work += 8 * n;
}

/* How many of the n spans begin below `limit`. */
static size_t count_below(const span *spans, size_t n, uint64_t limit) {
    size_t low = 0, high = n;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (spans[middle].begin < limit)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Where the item costs its neighbours least, below the ceiling: at the bottom, at the ceiling, above or below one of
 * them. Touched are those that begin below its end, less those that end at or below its begin. Between two such places
 * the cost does not change, so no other needs to be tried. `below`: places whose upper end is given; others have their
 * lower end given. Ties go to the candidate that was tried first. */
static uint64_t cheapest_place(packer *p, const plait_pack_item *item, size_t n, uint64_t ceiling) {
    double best_cost = 0;
    uint64_t best = NOWHERE;
    sum_costs(p, n);
    for (size_t c = 0; c < 2 * n + 2; c++) {
        uint64_t from = c < n ? p->near[c].end : c < 2 * n ? p->near[c - n].begin : c == 2 * n ? ceiling : 0;
        bool below = c >= n && c <= 2 * n;
        if (below && from < item->size_bytes) continue;
        if (below) from = (from - item->size_bytes) & ~(item->alignment - 1);
        uint64_t at = fit(p, item, from, ceiling);
        if (at == NOWHERE) continue;
        double cost = p->sums[count_below(p->near, n, at + item->size_bytes)] -
                      p->sums[p->n + 1 + count_below(p->ends, n, at + 1)];
        if (best == NOWHERE || cost < best_cost) best = at, best_cost = cost;
    }
    p->work += 16 * n;
    return best;
}

/* They wait again in the heap, by size: what is hard to place goes first. */
static void throw_out(packer *p, size_t n, uint64_t begin, uint64_t end) {
    for (size_t k = 0; k < n; k++) {
        uint32_t other = p->near[k].item;
        if (p->near[k].begin >= end || p->near[k].end <= begin) continue;
        p->places[other].placed = false;
        p->thrown[other]++;
        push(p, other);
    }
}

/* True when everything lies below the ceiling before the work is used up. `most_work` is an amount on the packer's
 * clock, not a duration. When it ends early the items are a mixture that is worth nothing; only keep_best() after a
 * success looks at them. */
static bool mend(packer *p, uint64_t ceiling, uint64_t most_work) {
    p->n_waiting = 0;
    memset(p->thrown, 0, p->n * sizeof *p->thrown);
    for (uint32_t i = 0; i < p->n; i++) {
        place(p, i, p->items[i].offset);
        p->places[i].placed = top_of(&p->items[i]) <= ceiling;
        if (!p->places[i].placed) push(p, i);
    }
    /* Largest first. An item without a gap goes where its neighbours weigh least, and its own price rises as theirs do,
     * so that it is not thrown out again at once. */
    while (p->n_waiting && p->work < most_work) {
        uint32_t i = pop(p);
        plait_pack_item *item = &p->items[i];
        size_t n = find_neighbours(p, i);
        uint64_t at = find_gap(p, item, n, ceiling);
        if (at == NOWHERE) {
            at = cheapest_place(p, item, n, ceiling);
            if (at == NOWHERE) return false; /* chunks: no legal place below the ceiling at all */
            throw_out(p, n, at, at + item->size_bytes);
            p->thrown[i]++;
        }
        place(p, i, at);
    }
    return p->n_waiting == 0;
}

/* From what is placed now straight to the bound, with little patience: often it is not far. From the last packing,
 * whichever it was: it often fails at a few items only. */
static void mend_once(packer *p, uint64_t bound) {
    uint64_t patience = WORK_AT_LEAST / 32 + WORK_PER_ITEM / 4 * (uint64_t)p->n;
    if (p->best_bytes > bound && mend(p, bound, p->work + patience)) keep_best(p);
}

/* Within so many thousandths above the bound, in integers. */
static bool is_near(const packer *p, uint64_t bound, uint64_t thousandths) {
    return p->best_bytes <= bound + bound / 1000 * thousandths;
}

/* Step by step down from the best. A ceiling that is reached already is passed over, one that is missed ends the
 * search, since lower ones are harder. Packings that are bad (BAD above the bound and more) get more time: they are
 * rare, and a tenth of the memory is worth it. */
static void mend_all(packer *p, uint64_t bound) {
    static const uint64_t ceilings[] = {100, BAD, 45, GOOD};
    uint64_t n_pairs = (uint64_t)p->n * p->n; /* n is below 2^31 */
    uint64_t usual = p->work + WORK_PER_ITEM * (uint64_t)p->n;
    usual += n_pairs < WORK_AT_LEAST / WORK_PER_PAIR ? n_pairs * WORK_PER_PAIR : WORK_AT_LEAST;
    uint64_t more = n_pairs < WORK_WHILE_BAD / BAD_PER_PAIR ? n_pairs * BAD_PER_PAIR : WORK_WHILE_BAD;
    for (size_t c = 0; c < PLAIT_COUNT_OF(ceilings) && !is_near(p, bound, GOOD); c++) {
        if (is_near(p, bound, ceilings[c])) continue;
        take_best(p);
        bool worth = ceilings[c] >= BAD && !p->chunk_bytes; /* cuts cost what no search finds */
        if (!mend(p, bound + bound / 1000 * ceilings[c], worth ? usual + more : usual)) break;
        keep_best(p);
    }
}

/* ---- together ---- */

/* What the sweep needs; `near` holds its gaps, one more than there are items. */
static plait_status allocate(packer *p) {
    size_t n = p->n + 1;
    p->by_birth = plait_alloc_array(n, sizeof *p->by_birth);
    p->near = plait_alloc_array(n, sizeof *p->near);
    p->waiting = plait_alloc_array(n, sizeof *p->waiting);
    p->best = plait_alloc_array(n, sizeof *p->best);
    bool all = p->by_birth && p->near && p->waiting && p->best;
    return all ? PLAIT_OK : plait_error_memory("packing", n * sizeof *p->near);
}

/* What the others need beside that. */
static plait_status allocate_more(packer *p) {
    size_t n = p->n + 1;
    p->places = plait_alloc_array(n, sizeof *p->places);
    p->order = plait_alloc_array(n, sizeof *p->order);
    p->ends = plait_alloc_array(n, sizeof *p->ends);
    p->sums = plait_alloc_array(2 * n, sizeof *p->sums);
    p->thrown = plait_alloc_array(n, sizeof *p->thrown);
    bool all = p->places && p->order && p->ends && p->sums && p->thrown;
    return all ? PLAIT_OK : plait_error_memory("packing", n * 2 * sizeof *p->ends);
}

static void packer_deinit(packer *p) {
    free(p->by_birth);
    free(p->lives);
    free(p->tables);
    free(p->places);
    free(p->order);
    free(p->near);
    free(p->ends);
    free(p->sums);
    free(p->waiting);
    free(p->thrown);
    free(p->best);
}

/* The cheap way first; everything else only while the bound is not reached, and only the tables it needs. Where too
 * many pairs are alive together to settle in the allowed work, mending from the sweep is all that is tried. */
static plait_status pack(packer *p, uint64_t bound) {
    uint64_t n_pairs;
    PLAIT_TRY(allocate(p));
    PLAIT_TRY(sort_by_birth(p));
    PLAIT_TRY(sweep(p));
    if (p->best_bytes > bound) {
        PLAIT_TRY(allocate_more(p));
        PLAIT_TRY(count_pairs(p, &n_pairs));
        PLAIT_TRY(build_lanes(p));
        bool few = n_pairs <= SETTLE_PER_ITEM * (uint64_t)p->n + WORK_AT_LEAST;
        for (turn by = BY_AREA; by <= BY_BYTES && !is_near(p, bound, AS_GOOD_AS); by++) {
            if (few) settle(p, by);
            if (few || by == BY_AREA) mend_once(p, bound);
        }
        if (few && !is_near(p, bound, GOOD)) settle(p, BY_BIRTH);
    }
    mend_all(p, bound);
    take_best(p);
    return PLAIT_OK;
}

/* So many items would not be numbered in 32 bits, with twice as many nodes of a heap. */
static plait_status check_items(const plait_pack_item *items, size_t n, uint64_t chunk_bytes,
                                int32_t *out_n_positions) {
    uint64_t sum = 0;
    if (n >= UINT32_MAX / 2)
        return plait_error(PLAIT_LIMIT, "packing %zu items, at most %u", n, UINT32_MAX / 2);
    for (size_t i = 0; i < n; i++) {
        uint64_t most = chunk_bytes ? chunk_bytes : UINT64_MAX;
        if (items[i].size_bytes > most)
            return plait_error(PLAIT_OUT_OF_RANGE, "%llu bytes in one piece, at most %llu",
                               (unsigned long long)items[i].size_bytes, (unsigned long long)most);
        /* Twice: with cuts, up to as much is left unused. */
        if (!plait_add_u64(sum, items[i].size_bytes, &sum) ||
            !plait_add_u64(sum, items[i].size_bytes, &sum) || !plait_add_u64(sum, items[i].alignment, &sum))
            return plait_error(PLAIT_OUT_OF_RANGE, "temporaries: sizes overflow");
        if (items[i].last >= *out_n_positions) *out_n_positions = items[i].last + 1;
    }
    return PLAIT_OK;
}

/* Result and bound go to `packing`, offsets to the items, also where an earlier call has put others. */
static plait_status pack_with(plait_pack_item *items, size_t n, int32_t n_positions, uint64_t chunk_bytes,
                              plait_packing *packing) {
    packer p = {.items = items,
                .n = n,
                .n_positions = n_positions,
                .chunk_bytes = chunk_bytes,
                .best_bytes = UINT64_MAX};
    plait_status status = pack(&p, packing->bound_bytes);
    packing->total_bytes = p.best_bytes;
    packer_deinit(&p);
    return status;
}

/* Chunks cost every placement a division and mending its patience, so they are looked at only if they can matter. */
plait_status plait_pack(plait_pack_item *items, size_t n, uint64_t chunk_bytes, plait_packing *out) {
    plait_packing packing = {0};
    int32_t n_positions = 0;
    PLAIT_TRY(check_items(items, n, chunk_bytes, &n_positions));
    PLAIT_TRY(find_bound(items, n, n_positions, &packing));
    /* Where twice the bound fits into a chunk, the cut is hardly ever met: it is left out of the reckoning first. */
    bool cut = chunk_bytes && chunk_bytes / 2 < packing.bound_bytes;
    PLAIT_TRY(pack_with(items, n, n_positions, cut ? chunk_bytes : 0, &packing));
    if (!cut && chunk_bytes && packing.total_bytes > chunk_bytes)
        PLAIT_TRY(pack_with(items, n, n_positions, chunk_bytes, &packing));
    *out = packing;
    return PLAIT_OK;
}
