/* The merging loop of all BPE models: again and again the pair with the best priority, the leftmost of equals, becomes
 * one symbol. Short pieces search their few pairs anew; long ones keep candidates in a heap, O(n log n). Both give the
 * same symbols. Not here: what pairs there are (merges.c, or the vocabulary itself for SentencePiece).
 *
 * A candidate names the bytes of its two sides, so that it is known to be stale when either has grown. Invariant: the
 * symbols in the list cover the piece without gaps, in order. */
#include "base/alloc.h"
#include "text/tokenizer/internal.h"

#include <string.h>

/* Up to here the quadratic loop is quicker than a heap, and its arrays fit on the stack. */
enum { SHORT = 40 };

/* Order-preserving: a higher score gives a smaller number. */
static uint32_t score_priority(float score) {
    uint32_t bits;
    memcpy(&bits, &score, sizeof bits);
    bits = bits & 0x80000000u ? ~bits : bits | 0x80000000u; /* rising with the score */
    return ~bits;
}

/* Lengths beyond the longest token need no hash. */
uint32_t plait_tok_lookup(const plait_tokenizer *t, const char *bytes, uint32_t n_bytes) {
    uint32_t id;
    if (n_bytes > t->max_merge_bytes || !plait_map_get(&t->symbols, bytes, n_bytes, &id))
        return PLAIT_TOK_NONE;
    return id;
}

/* What symbols [start, middle) and [middle, end) become; false: nothing. */
static inline bool find_pair(const plait_tokenizer *t, const char *piece, uint32_t left, uint32_t right,
                             uint32_t start, uint32_t end, uint32_t *out_priority, uint32_t *out_id) {
    if (t->model != PLAIT_TOK_SPM) {
        const plait_tok_merge *m = plait_tok_merges_find(&t->merges, left, right);
        if (!m) return false;
        *out_priority = m->rank;
        *out_id = m->merged;
        return true;
    }
    uint32_t id = plait_tok_lookup(t, piece + start, end - start);
    if (id == PLAIT_TOK_NONE) return false;
    *out_priority = score_priority(t->scores[id]);
    *out_id = id;
    return true;
}

/* Keeps what an unused token was made from, for SentencePiece takes it apart again. */
static inline void note_split(plait_tokenizer_scratch *s, uint32_t id, uint32_t left_bytes) {
    if (s->unused_split && id < s->tokenizer->n_tokens) s->unused_split[id] = left_bytes;
}

/* Priorities of pairs are kept and moved along; after a merge only the pairs on both sides of it are looked up anew. */
static uint32_t merge_short(plait_tokenizer_scratch *s, const char *piece, uint32_t n_bytes, uint32_t n) {
    const plait_tokenizer *t = s->tokenizer;
    plait_tok_symbol *list = s->symbols;
    uint32_t priority[SHORT], merged[SHORT];
    bool possible[SHORT];
    for (uint32_t i = 0; i + 1 < n; i++)
        possible[i] = find_pair(t, piece, list[i].id, list[i + 1].id, list[i].start,
                                i + 2 < n ? list[i + 2].start : n_bytes, &priority[i], &merged[i]);
    while (n > 1) {
        uint32_t best = PLAIT_TOK_NONE;
        for (uint32_t i = 0; i + 1 < n; i++)
            if (possible[i] && (best == PLAIT_TOK_NONE || priority[i] < priority[best])) best = i;
        if (best == PLAIT_TOK_NONE) break;
        note_split(s, merged[best], list[best + 1].start - list[best].start);
        list[best].id = merged[best];
        for (uint32_t i = best + 1; i + 1 < n; i++) {
            list[i] = list[i + 1];
            if (i + 2 < n)
                possible[i] = possible[i + 1], priority[i] = priority[i + 1], merged[i] = merged[i + 1];
        }
        n--;
        s->n_steps += n;
        for (uint32_t i = best > 0 ? best - 1 : 0; i <= best && i + 1 < n; i++)
            possible[i] = find_pair(t, piece, list[i].id, list[i + 1].id, list[i].start,
                                    i + 2 < n ? list[i + 2].start : n_bytes, &priority[i], &merged[i]);
    }
    return n;
}

/* A heap with four children a node: 64 bytes, one cache line a level. */
static void sift_up(plait_tok_candidate *heap, size_t i) {
    plait_tok_candidate c = heap[i];
    while (i > 0 && c.key < heap[(i - 1) / 4].key) {
        heap[i] = heap[(i - 1) / 4];
        i = (i - 1) / 4;
    }
    heap[i] = c;
}

/* Four comparisons a level, but half as many levels, and misses of the cache are what costs. */
static void sift_down(plait_tok_candidate *heap, size_t n, size_t i) {
    plait_tok_candidate c = heap[i];
    for (;;) {
        size_t first = 4 * i + 1, last = first + 4 < n ? first + 4 : n, best = first;
        if (first >= n) break;
        for (size_t j = first + 1; j < last; j++)
            if (heap[j].key < heap[best].key) best = j;
        if (heap[best].key >= c.key) break;
        heap[i] = heap[best];
        i = best;
    }
    heap[i] = c;
}

static inline uint32_t end_of(const plait_tok_symbol *list, uint32_t i, uint32_t n_bytes) {
    return list[i].next == PLAIT_TOK_NONE ? n_bytes : list[list[i].next].start;
}

/* Writes the candidate of symbol i and its neighbour behind the heap; false when they cannot be merged. */
static bool propose(plait_tokenizer_scratch *s, const char *piece, uint32_t n_bytes, uint32_t i) {
    const plait_tok_symbol *list = s->symbols;
    uint32_t right = list[i].next, priority, id;
    if (right == PLAIT_TOK_NONE) return false;
    uint32_t end = end_of(list, right, n_bytes);
    if (!find_pair(s->tokenizer, piece, list[i].id, list[right].id, list[i].start, end, &priority, &id))
        return false;
    s->heap[s->n_heap++] =
        (plait_tok_candidate){.key = (uint64_t)priority << 32 | i, .middle = list[right].start, .end = end};
    return true;
}

static void push_pair(plait_tokenizer_scratch *s, const char *piece, uint32_t n_bytes, uint32_t i) {
    if (propose(s, piece, n_bytes, i)) sift_up(s->heap, s->n_heap - 1);
}

/* Carries out the best candidate if it is still true. The pair is looked up again instead of kept in the candidate,
 * which then is 16 bytes. Ids of the sides may have changed without their bytes having: stale is what has other
 * bytes. */
static void take_best(plait_tokenizer_scratch *s, const char *piece, uint32_t n_bytes) {
    plait_tok_symbol *list = s->symbols;
    plait_tok_candidate c = s->heap[0];
    s->heap[0] = s->heap[--s->n_heap];
    if (s->n_heap) sift_down(s->heap, s->n_heap, 0);
    uint32_t left = (uint32_t)c.key, right = list[left].next, priority, id;
    /* A symbol that was swallowed has itself as predecessor. */
    if (list[left].prev == left || right == PLAIT_TOK_NONE || list[right].start != c.middle ||
        end_of(list, right, n_bytes) != c.end)
        return;
    if (!find_pair(s->tokenizer, piece, list[left].id, list[right].id, list[left].start, c.end, &priority,
                   &id))
        return;
    note_split(s, id, c.middle - list[left].start);
    list[left].id = id;
    list[left].next = list[right].next;
    if (list[right].next != PLAIT_TOK_NONE) list[list[right].next].prev = left;
    list[right].prev = right;
    if (list[left].prev != PLAIT_TOK_NONE) push_pair(s, piece, n_bytes, list[left].prev);
    push_pair(s, piece, n_bytes, left);
}

static plait_status merge_long(plait_tokenizer_scratch *s, const char *piece, uint32_t n_bytes, uint32_t n,
                               uint32_t *out_n) {
    /* Each merge removes a symbol and proposes two pairs. */
    PLAIT_TRY(plait_grow(&s->heap, &s->heap_capacity, 3 * (size_t)n, sizeof *s->heap, SIZE_MAX / 64,
                         "merging heap"));
    plait_tok_symbol *list = s->symbols;
    for (uint32_t i = 0; i < n; i++) {
        list[i].prev = i ? i - 1 : PLAIT_TOK_NONE;
        list[i].next = i + 1 < n ? i + 1 : PLAIT_TOK_NONE;
    }
    s->n_heap = 0;
    for (uint32_t i = 0; i + 1 < n; i++) propose(s, piece, n_bytes, i);
    for (size_t i = s->n_heap / 4 + 1; i-- > 0;)
        if (i < s->n_heap) sift_down(s->heap, s->n_heap, i);
    while (s->n_heap) {
        s->n_steps++;
        take_best(s, piece, n_bytes);
    }
    uint32_t kept = 0;
    for (uint32_t i = 0; i != PLAIT_TOK_NONE;) {
        uint32_t next = list[i].next;
        list[kept++] = list[i];
        i = next;
    }
    *out_n = kept;
    return PLAIT_OK;
}

/* The symbols' prev and next are used by the long way only. */
plait_status plait_tok_merge_run(plait_tokenizer_scratch *s, const char *piece, uint32_t n_bytes, uint32_t n,
                                 uint32_t *out_n) {
    if (n > SHORT) return merge_long(s, piece, n_bytes, n, out_n);
    *out_n = merge_short(s, piece, n_bytes, n);
    return PLAIT_OK;
}
