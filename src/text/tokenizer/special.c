/* Finding special tokens: longest text first, for each one from left to right in what is still text.
 *
 * Taken literally that is one pass over the text for each of thousands of tokens. The same choice comes from looking
 * at all occurrences in the order (length, longest first; then id; then position) and taking each that touches
 * nothing taken before. An Aho-Corasick automaton gives for every end the longest token there. Ends wait in a heap by
 * that order; when the best one is blocked by something taken, the longest shorter token that fits between takes its
 * place. Each time that happens the free room before the end at least halves, because what blocks it is no shorter
 * than the token itself; so an end is looked at O(log longest) times, and the whole is O(n log n).
 *
 * Invariant: bytes that belong to a match are set in `cover`, whose upper levels say which words below are not zero.
 */
#include "base/alloc.h"
#include "base/size.h"
#include "text/tokenizer/internal.h"

#include <stdlib.h>
#include <string.h>

enum { LEVELS = 5 };

/* ---- building ---- */

/* An empty text would match everywhere. Normal tokens count where their text is a known marker, which text must not
 * spell. */
static bool is_pattern(const plait_tokenizer *t, uint32_t id) {
    uint8_t type = t->types[id];
    uint32_t n;
    plait_tok_string(&t->texts, id, &n);
    if (n == 0) return false;
    return type == PLAIT_TOKEN_CONTROL || type == PLAIT_TOKEN_UNKNOWN || type == PLAIT_TOKEN_USER_DEFINED ||
           (type == PLAIT_TOKEN_NORMAL && (t->flags[id] & PLAIT_TOK_MARKER));
}

/* Longest first, then by id: a total order, since ids differ. */
static int by_rank(const void *a, const void *b) {
    const plait_tok_pattern *x = a, *y = b;
    if (x->n_bytes != y->n_bytes) return x->n_bytes < y->n_bytes ? 1 : -1;
    return x->token < y->token ? -1 : x->token > y->token;
}

/* The text of a special token as it stands in a prepared text: SentencePiece knows no difference between a space and
 * U+2581. Returns its length; out has room for all of it. */
static uint32_t pattern_text(const plait_tokenizer *t, uint32_t id, char *out) {
    uint32_t n, used = 0;
    const char *text = plait_tok_string(&t->texts, id, &n);
    for (uint32_t i = 0; i < n;) {
        if (t->model == PLAIT_TOK_SPM && n - i >= 3 && memcmp(text + i, "\xE2\x96\x81", 3) == 0)
            out[used++] = ' ', i += 3;
        else
            out[used++] = text[i++];
    }
    return used;
}

/* The list of patterns, sorted by rank. Classes tell what counts in text that nobody vouches for: any special token
 * only in trusted text, user-defined ones everywhere unless they are markers too, which then need trust in some calls.
 * The numbers are in internal.h. */
static plait_status collect(plait_tokenizer *t, char *buffer) {
    plait_tok_special *sp = &t->special;
    uint32_t n = 0;
    for (uint32_t id = 0; id < t->n_tokens; id++) n += is_pattern(t, id);
    sp->patterns = plait_alloc_array(n, sizeof *sp->patterns);
    if (!sp->patterns) return plait_error_memory("special tokens", n * sizeof *sp->patterns);
    for (uint32_t id = 0; id < t->n_tokens; id++) {
        if (!is_pattern(t, id)) continue;
        bool user = t->types[id] == PLAIT_TOKEN_USER_DEFINED;
        sp->patterns[sp->n_patterns++] =
            (plait_tok_pattern){.token = id,
                                .n_bytes = pattern_text(t, id, buffer),
                                .class = !user                             ? PLAIT_TOK_CLASS_ANY
                                         : t->flags[id] & PLAIT_TOK_MARKER ? PLAIT_TOK_CLASS_USER
                                                                           : PLAIT_TOK_CLASS_PLAIN,
                                .user_defined = user};
        plait_tok_pattern *p = &sp->patterns[sp->n_patterns - 1];
        plait_tok_strips(t, id, &p->strip_left, &p->strip_right);
        sp->any_strip |= p->strip_left || p->strip_right;
        sp->any_user |= user;
    }
    qsort(sp->patterns, sp->n_patterns, sizeof *sp->patterns, by_rank);
    return PLAIT_OK;
}

/* Parents and bytes of the nodes, wanted only while the automaton is built. `order` is the nodes by rising depth;
 * `byte` and `parent` of the root mean nothing. */
typedef struct builder {
    uint32_t *parent, *order; /* Owned. */
    unsigned char *byte;      /* Owned. */
    uint32_t *depth;          /* Owned. */
} builder;

/* Patterns come by rank, so of equal texts the lowest id is kept. A pattern's text is made again in each pass instead
 * of being kept: there are few passes, and they run once for each model. */
static plait_status add_patterns(plait_tokenizer *t, char *buffer) {
    plait_tok_special *sp = &t->special;
    PLAIT_TRY(plait_tok_trie_init(&sp->trie));
    for (uint32_t p = 0; p < sp->n_patterns; p++) {
        uint32_t node, n = pattern_text(t, sp->patterns[p].token, buffer);
        PLAIT_TRY(plait_tok_trie_add(&sp->trie, buffer, n, &node));
        if (sp->trie.values[node] == PLAIT_TOK_NONE) sp->trie.values[node] = p;
    }
    return PLAIT_OK;
}

/* Walks the patterns again and notes each node's parent; then sorts the nodes by depth, by counting. A node's failure
 * link needs those of all shallower nodes; the trie numbers nodes by creation, which is not by depth. */
static plait_status order_nodes(plait_tokenizer *t, builder *b, char *buffer) {
    plait_tok_special *sp = &t->special;
    uint32_t n_nodes = sp->trie.n_nodes, deepest = sp->n_patterns ? sp->patterns[0].n_bytes : 0;
    b->parent = plait_alloc_array(n_nodes, sizeof *b->parent);
    b->order = plait_alloc_array(n_nodes, sizeof *b->order);
    b->byte = plait_alloc_array(n_nodes, 1);
    b->depth = plait_alloc_array(n_nodes, sizeof *b->depth);
    uint32_t *start = plait_alloc_array((size_t)deepest + 2, sizeof *start);
    if (!b->parent || !b->order || !b->byte || !b->depth || !start) {
        free(start);
        return plait_error_memory("special tokens", n_nodes * sizeof *b->parent);
    }
    for (uint32_t p = 0; p < sp->n_patterns; p++) {
        uint32_t node = 0, n = pattern_text(t, sp->patterns[p].token, buffer);
        for (uint32_t i = 0; i < n; i++) {
            uint32_t child = plait_tok_trie_step(&sp->trie, node, (unsigned char)buffer[i]);
            b->parent[child] = node;
            b->byte[child] = (unsigned char)buffer[i];
            b->depth[child] = i + 1;
            node = child;
        }
    }
    for (uint32_t i = 0; i < n_nodes; i++) start[b->depth[i] + 1]++;
    for (uint32_t d = 1; d <= deepest; d++) start[d + 1] += start[d];
    for (uint32_t i = 0; i < n_nodes; i++) b->order[start[b->depth[i]]++] = i;
    free(start);
    return PLAIT_OK;
}

/* The state behind a byte: the longest end of the text so far that some pattern begins with. Amortised constant: each
 * failure link is shallower, and reading deepens by one. */
static uint32_t go(const plait_tok_special *sp, uint32_t node, unsigned char byte) {
    uint32_t child = plait_tok_trie_step(&sp->trie, node, byte);
    while (!child && node) {
        node = sp->fail[node];
        child = plait_tok_trie_step(&sp->trie, node, byte);
    }
    return child;
}

/* Failure links by rising depth, and for each pattern the next shorter one at the same end. The root comes first, with
 * depth 0; nodes of depth 1 fail to it. longest[node] is the highest rank that ends here, its own pattern or one
 * inherited by the failure link. */
static void link_nodes(plait_tok_special *sp, const builder *b) {
    for (uint32_t i = 0; i < sp->trie.n_nodes; i++) {
        uint32_t node = b->order[i], parent = b->parent[node];
        sp->fail[node] = node && parent ? go(sp, sp->fail[parent], b->byte[node]) : 0;
        uint32_t own = sp->trie.values[node], shorter = node ? sp->longest[sp->fail[node]] : PLAIT_TOK_NONE;
        sp->longest[node] = own != PLAIT_TOK_NONE ? own : shorter;
        if (own != PLAIT_TOK_NONE) sp->patterns[own].next[PLAIT_TOK_CLASS_ANY] = shorter;
    }
}

/* Skew-binary jump pointers (Myers 1983): a search along a chain takes logarithmic time. From the last rank to the
 * first, because `next` is shorter and so has a higher rank, whose links are needed. `depth` counts the patterns to
 * come. A set holds the patterns whose class is at least its number; each has a chain and jumps of its own, because a
 * search in one must not stop at members of another. */
static void link_chains(plait_tok_special *sp) {
    for (uint32_t p = sp->n_patterns; p-- > 0;) {
        plait_tok_pattern *x = &sp->patterns[p];
        for (int set = 0; set < PLAIT_TOK_CLASSES; set++) {
            uint32_t next = x->next[PLAIT_TOK_CLASS_ANY];
            if (next != PLAIT_TOK_NONE && (int)sp->patterns[next].class < set)
                next = sp->patterns[next].next[set];
            x->next[set] = next;
            x->jump[set] = next;
            if (next == PLAIT_TOK_NONE) continue;
            const plait_tok_pattern *y = &sp->patterns[next];
            x->depth[set] = y->depth[set] + 1;
            uint32_t far = y->jump[set];
            if (far == PLAIT_TOK_NONE || sp->patterns[far].jump[set] == PLAIT_TOK_NONE) continue;
            uint32_t farther = sp->patterns[far].jump[set];
            if (y->depth[set] - sp->patterns[far].depth[set] ==
                sp->patterns[far].depth[set] - sp->patterns[farther].depth[set])
                x->jump[set] = farther;
        }
    }
}

/* What is made along the way is owned by `t` and `b`, which the caller frees in every case. */
static plait_status build(plait_tokenizer *t, builder *b, char *buffer) {
    plait_tok_special *sp = &t->special;
    PLAIT_TRY(collect(t, buffer));
    PLAIT_TRY(add_patterns(t, buffer));
    PLAIT_TRY(order_nodes(t, b, buffer));
    sp->fail = plait_alloc_array(sp->trie.n_nodes, sizeof *sp->fail);
    sp->longest = plait_alloc_array(sp->trie.n_nodes, sizeof *sp->longest);
    if (!sp->fail || !sp->longest)
        return plait_error_memory("special tokens", sp->trie.n_nodes * sizeof *sp->fail);
    /* Equal texts: only the first of them is in the trie; the others have no neighbours. */
    for (uint32_t p = 0; p < sp->n_patterns; p++) sp->patterns[p].next[PLAIT_TOK_CLASS_ANY] = PLAIT_TOK_NONE;
    link_nodes(sp, b);
    link_chains(sp);
    return PLAIT_OK;
}

plait_status plait_tok_special_init(plait_tokenizer *t) {
    builder b = {0};
    char *buffer = plait_alloc_array(PLAIT_TOK_MAX_TOKEN_BYTES, 1);
    if (!buffer) return plait_error_memory("special tokens", PLAIT_TOK_MAX_TOKEN_BYTES);
    plait_status status = build(t, &b, buffer);
    free(buffer);
    free(b.parent);
    free(b.order);
    free(b.byte);
    free(b.depth);
    return status;
}

void plait_tok_special_deinit(plait_tok_special *sp) {
    plait_tok_trie_deinit(&sp->trie);
    free(sp->patterns);
    free(sp->fail);
    free(sp->longest);
    *sp = (plait_tok_special){0};
}

/* ---- the bytes that are taken ---- */

/* No byte of a stretch of n_bits is taken. Each level has a bit for each word of the one below: five levels cover 64^5
 * = 2^30 bytes, the longest text. Memory of a scratch only grows; the stretch is that of one group of candidates, so
 * most calls clear a few words. */
static plait_status cover_clear(plait_tokenizer_scratch *s, size_t n_bits) {
    for (int level = 0; level < LEVELS; level++) {
        size_t words = n_bits / 64 + 1;
        PLAIT_TRY(plait_grow(&s->cover[level], &s->cover_capacity[level], words, sizeof *s->cover[level],
                             SIZE_MAX / 64, "special tokens"));
        memset(s->cover[level], 0, words * sizeof *s->cover[level]);
        n_bits = words;
    }
    return PLAIT_OK;
}

/* end > start. On upper levels the range is that of the words touched, which are not zero afterwards. */
static void cover_set(plait_tokenizer_scratch *s, size_t start, size_t end) {
    for (int level = 0; level < LEVELS; level++) {
        for (size_t i = start; i < end;) {
            size_t bit = i % 64, n = 64 - bit < end - i ? 64 - bit : end - i;
            s->cover[level][i / 64] |= (n == 64 ? ~0ull : (1ull << n) - 1) << bit;
            i += n;
        }
        start /= 64;
        end = (end - 1) / 64 + 1;
    }
}

/* The last taken byte at or before i; SIZE_MAX when there is none. Up until a level has a bit to the left, then down
 * along the highest bits: at most 2 * LEVELS words are looked at. */
static size_t cover_last(const plait_tokenizer_scratch *s, size_t i) {
    uint64_t word = s->cover[0][i / 64] & (~0ull >> (63 - i % 64));
    int level = 0;
    while (!word) {
        i /= 64;
        if (++level == LEVELS) return SIZE_MAX;
        word = s->cover[level][i / 64] & ((1ull << i % 64) - 1);
    }
    i = i / 64 * 64 + (63 - (size_t)__builtin_clzll(word));
    while (level-- > 0) i = i * 64 + (63 - (size_t)__builtin_clzll(s->cover[level][i]));
    return i;
}

/* ---- searching ---- */

/* A search in one text. n_found counts ends, n_keys what still waits in the heap. Positions are bytes of `text`; those
 * in the bitmap are relative to `base`. */
typedef struct finder {
    plait_tokenizer_scratch *s;
    const plait_tok_special *sp;
    const char *text;
    uint32_t n_bytes;
    plait_tok_class set;
    size_t n_found, n_keys;
    uint32_t base; /* where the bitmap begins */
} finder;

/* The longest pattern of a set with at most max_bytes, from p on along its chain. `p` itself may be the answer. A jump
 * is taken only where it stays too long, so nothing that fits is passed over. */
static uint32_t shorter(const finder *f, uint32_t p, plait_tok_class set, uint32_t max_bytes) {
    const plait_tok_pattern *patterns = f->sp->patterns;
    if (p != PLAIT_TOK_NONE && patterns[p].class < set) p = patterns[p].next[set];
    while (p != PLAIT_TOK_NONE && patterns[p].n_bytes > max_bytes) {
        uint32_t jump = patterns[p].jump[set];
        f->s->n_steps++;
        p = jump != PLAIT_TOK_NONE && patterns[jump].n_bytes > max_bytes ? jump : patterns[p].next[set];
    }
    return p;
}

/* How many bytes before `end` are trusted without a gap. 0 where the byte before `end` is not trusted. Binary search
 * over the runs. A run is its end and a bit, trusted or not; runs follow each other without gaps from the beginning of
 * the text. */
static uint32_t trusted_bytes(const plait_tokenizer_scratch *s, uint32_t end) {
    size_t low = 0, high = s->n_trust;
    while (low < high) { /* the first run that ends at or behind `end` */
        size_t middle = (low + high) / 2;
        if (s->trust[middle] >> 1 < end)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == s->n_trust || !(s->trust[low] & 1)) return 0;
    return end - (low ? s->trust[low - 1] >> 1 : 0);
}

/* The best pattern that ends at `end`, has at most max_bytes and counts there; `head` is no shorter than it. A pattern
 * counts by its class anywhere, or by lying in trusted text with every byte: the better of both. */
static uint32_t best_at(const finder *f, uint32_t head, uint32_t end, uint32_t max_bytes) {
    uint32_t p = shorter(f, head, f->set, max_bytes);
    if (f->set == PLAIT_TOK_CLASS_ANY || f->s->n_trust == 0) return p;
    uint32_t trusted = trusted_bytes(f->s, end);
    if (trusted == 0) return p;
    uint32_t q = shorter(f, head, PLAIT_TOK_CLASS_ANY, trusted < max_bytes ? trusted : max_bytes);
    return q < p ? q : p; /* the index is the rank; none is the largest number */
}

/* One pass over the text: every end of a pattern that counts. In the root most bytes begin nothing, and are passed over
 * without a step of the automaton. Only the best pattern of each end is noted: shorter ones at the same end come up
 * when it is blocked. */
static plait_status scan(finder *f) {
    plait_tokenizer_scratch *s = f->s;
    const uint32_t *root = f->sp->trie.root;
    const unsigned char *text = (const unsigned char *)f->text;
    uint32_t node = 0;
    for (uint32_t i = 0; i < f->n_bytes; i++) {
        if (node == 0) {
            while (i < f->n_bytes && !root[text[i]]) i++;
            if (i == f->n_bytes) break;
        }
        node = go(f->sp, node, text[i]);
        if (f->sp->longest[node] == PLAIT_TOK_NONE) continue;
        uint32_t p = best_at(f, f->sp->longest[node], i + 1, UINT32_MAX);
        if (p == PLAIT_TOK_NONE) continue;
        PLAIT_TRY(plait_grow(&s->found, &s->found_capacity, f->n_found + 1, sizeof *s->found, SIZE_MAX / 64,
                             "special tokens"));
        s->found[f->n_found++] = (plait_tok_found){.end = i + 1, .pattern = p};
    }
    return PLAIT_OK;
}

static void keys_sift_down(uint64_t *keys, size_t n, size_t i) {
    uint64_t key = keys[i];
    for (size_t child; (child = 2 * i + 1) < n; i = child) {
        if (child + 1 < n && keys[child + 1] < keys[child]) child++;
        if (keys[child] >= key) break;
        keys[i] = keys[child];
    }
    keys[i] = key;
}

/* Replaces the top, or removes it when there is no other. Replacing costs one sift; removing and inserting would cost
 * two. */
static void keys_replace_top(finder *f, bool replace, uint64_t key) {
    uint64_t *keys = f->s->keys;
    if (!replace) key = keys[--f->n_keys];
    if (f->n_keys == 0) return;
    keys[0] = key;
    keys_sift_down(keys, f->n_keys, 0);
}

static bool is_space(char c) {
    return c == ' ' || (c >= '\t' && c <= '\r');
}

/* Takes an occurrence, with the white space that goes along, as far as nothing else has it. Stripped white space counts
 * as taken, so no later token gets it. `covering` is false for a match that touches no other candidate, for which
 * nobody will ask the bitmap. */
static plait_status accept(finder *f, uint32_t start, uint32_t end, uint32_t pattern, bool covering) {
    plait_tokenizer_scratch *s = f->s;
    const plait_tok_pattern *p = &f->sp->patterns[pattern];
    if (p->strip_left) {
        size_t last = start > f->base ? cover_last(s, start - 1 - f->base) : SIZE_MAX;
        uint32_t stop = last == SIZE_MAX ? 0 : f->base + (uint32_t)last + 1;
        while (start > stop && is_space(f->text[start - 1])) start--;
    }
    if (p->strip_right) {
        while (end < f->n_bytes && is_space(f->text[end]) && cover_last(s, end - f->base) != end - f->base)
            end++;
    }
    if (covering) cover_set(s, start - f->base, end - f->base);
    PLAIT_TRY(plait_grow(&s->matches, &s->matches_capacity, s->n_matches + 1, sizeof *s->matches,
                         SIZE_MAX / 64, "special tokens"));
    s->matches[s->n_matches++] = (plait_tok_match){.start = start, .end = end, .pattern = pattern};
    return PLAIT_OK;
}

static void matches_sift_down(plait_tok_match *m, size_t n, size_t i) {
    plait_tok_match x = m[i];
    for (size_t child; (child = 2 * i + 1) < n; i = child) {
        if (child + 1 < n && m[child + 1].start > m[child].start) child++;
        if (m[child].start <= x.start) break;
        m[i] = m[child];
    }
    m[i] = x;
}

/* By position. Heapsort, for qsort may allocate. */
static void sort_matches(plait_tok_match *m, size_t n) {
    bool sorted = true;
    for (size_t i = 1; i < n; i++) sorted &= m[i - 1].start < m[i].start;
    if (sorted) return;
    for (size_t i = n / 2; i-- > 0;) matches_sift_down(m, n, i);
    for (size_t i = n; i-- > 1;) {
        plait_tok_match x = m[0];
        m[0] = m[i];
        m[i] = x;
        matches_sift_down(m, i, 0);
    }
}

/* Chooses among candidates [first, last) that overlap. Keys are rank, then start: the smallest is the longest, the
 * lowest id, the leftmost. With stripping the whole text is one group, for white space may reach from one candidate to
 * the next. found[first, last) overlap as a chain, each with the next; low and high bound the bytes they touch. An end
 * whose best pattern is blocked goes back with a shorter one, or leaves. */
static plait_status resolve(finder *f, size_t first, size_t last) {
    plait_tokenizer_scratch *s = f->s;
    const plait_tok_pattern *patterns = f->sp->patterns;
    uint32_t low = UINT32_MAX, high = s->found[last - 1].end;
    PLAIT_TRY(plait_grow(&s->keys, &s->keys_capacity, last - first, sizeof *s->keys, SIZE_MAX / 64,
                         "special tokens"));
    f->n_keys = 0;
    for (size_t i = first; i < last; i++) {
        uint32_t p = s->found[i].pattern, start = s->found[i].end - patterns[p].n_bytes;
        s->keys[f->n_keys++] = (uint64_t)p << 32 | start;
        if (start < low) low = start;
    }
    f->base = f->sp->any_strip ? 0 : low;
    PLAIT_TRY(cover_clear(s, (f->sp->any_strip ? f->n_bytes : high) - f->base));
    for (size_t i = f->n_keys / 2; i-- > 0;) keys_sift_down(s->keys, f->n_keys, i);
    size_t n_before = s->n_matches;
    while (f->n_keys) {
        s->n_steps++;
        uint32_t p = (uint32_t)(s->keys[0] >> 32), start = (uint32_t)s->keys[0],
                 end = start + patterns[p].n_bytes;
        size_t last_taken = cover_last(s, end - 1 - f->base);
        uint32_t free_from = last_taken == SIZE_MAX ? 0 : f->base + (uint32_t)last_taken + 1;
        if (free_from <= start) {
            PLAIT_TRY(accept(f, start, end, p, true));
            keys_replace_top(f, false, 0);
            continue;
        }
        uint32_t q = free_from < end ? best_at(f, p, end, end - free_from) : PLAIT_TOK_NONE;
        keys_replace_top(f, q != PLAIT_TOK_NONE,
                         q == PLAIT_TOK_NONE ? 0 : (uint64_t)q << 32 | (end - patterns[q].n_bytes));
    }
    sort_matches(s->matches + n_before, s->n_matches - n_before);
    return PLAIT_OK;
}

/* Nothing to look for: no patterns, or only control tokens where none of them counts. */
plait_status plait_tok_special_find(plait_tokenizer_scratch *s, const char *text, uint32_t n_bytes,
                                    plait_tok_class set) {
    const plait_tok_special *sp = &s->tokenizer->special;
    finder f = {.s = s, .sp = sp, .text = text, .n_bytes = n_bytes, .set = set};
    s->n_matches = 0;
    if (sp->n_patterns == 0 || (set != PLAIT_TOK_CLASS_ANY && !sp->any_user && s->n_trust == 0))
        return PLAIT_OK;
    PLAIT_TRY(scan(&f));
    /* Candidates that touch none of the others, which is nearly all, need no heap. */
    uint32_t low = n_bytes;
    for (size_t i = f.n_found; i-- > 0;) {
        uint32_t start = s->found[i].end - sp->patterns[s->found[i].pattern].n_bytes;
        if (start < low) low = start;
        s->found[i].low = low;
    }
    for (size_t first = 0, last; first < f.n_found; first = last) {
        last = first + 1;
        while (last < f.n_found && (sp->any_strip || s->found[last].low < s->found[last - 1].end)) last++;
        uint32_t p = s->found[first].pattern, end = s->found[first].end;
        if (last == first + 1 && !sp->any_strip)
            PLAIT_TRY(accept(&f, end - sp->patterns[p].n_bytes, end, p, false));
        else
            PLAIT_TRY(resolve(&f, first, last));
    }
    return PLAIT_OK;
}
