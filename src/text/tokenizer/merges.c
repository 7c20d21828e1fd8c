/* The merges of the BPE models: reading them, and the table from a pair of symbols to what they become.
 *
 * A symbol is a byte string: a token that text can become, or something that merges make on the way and that is no
 * token (its number is n_tokens or more). For byte-level vocabularies the strings are the bytes themselves, not the
 * letters that the file spells them with; letters outside that alphabet can never meet text, so merges that have
 * some are left out.
 *
 * Invariant: equal strings are one symbol, and of equal merges the first counts.
 */
#include "base/alloc.h"
#include "base/size.h"
#include "text/tokenizer/internal.h"
#include "text/tokenizer/letters.h"

#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

enum { MAX_MERGES = 1 << 24 };

/* What is at work while merges are read. */
typedef struct reader {
    plait_tokenizer *t;
    char *bytes; /* Owned by the tokenizer in the end. All sides, one after another. */
    size_t n_bytes;
    uint32_t n_symbols;
} reader;

/* Multiplied twice: ids are small and regular, and their bits must reach the low end. The multiplier is random for each
 * table: merges come from files. */
static size_t slot_of(const plait_tok_merges *m, uint32_t left, uint32_t right) {
    uint64_t h = ((uint64_t)left << 32 | right) * m->multiplier;
    h ^= h >> 32;
    return (size_t)(h * m->multiplier >> 20) & (m->n_slots - 1);
}

/* At most half of the slots are used, so probing ends. */
const plait_tok_merge *plait_tok_merges_find(const plait_tok_merges *m, uint32_t left, uint32_t right) {
    if (m->n_slots == 0 || left == PLAIT_TOK_NONE) return NULL;
    for (size_t i = slot_of(m, left, right);; i = (i + 1) & (m->n_slots - 1)) {
        const plait_tok_merge *slot = &m->slots[i];
        if (slot->left == left && slot->right == right) return slot;
        if (slot->left == PLAIT_TOK_NONE) return NULL;
    }
}

void plait_tok_merges_deinit(plait_tok_merges *m) {
    free(m->slots);
    *m = (plait_tok_merges){0};
}

/* For n merges, of which equal ones are entered once. */
static plait_status make_table(plait_tok_merges *m, size_t n) {
    m->n_slots = 16;
    while (m->n_slots / 2 < n) m->n_slots *= 2;
    if (getrandom(&m->multiplier, sizeof m->multiplier, GRND_NONBLOCK) != sizeof m->multiplier)
        m->multiplier = 0xD6E8FEB86659FD93u;
    m->multiplier |= 1;
    m->slots = plait_alloc_array(m->n_slots, sizeof *m->slots);
    if (!m->slots) {
        size_t bytes = m->n_slots * sizeof *m->slots;
        m->n_slots = 0;
        return plait_error_memory("merges", bytes);
    }
    for (size_t i = 0; i < m->n_slots; i++) m->slots[i].left = PLAIT_TOK_NONE;
    return PLAIT_OK;
}

/* Of equal pairs the first, of the lower rank, stays. */
static void insert(plait_tok_merges *m, uint32_t left, uint32_t right, uint32_t rank, uint32_t merged) {
    size_t i = slot_of(m, left, right);
    for (; m->slots[i].left != PLAIT_TOK_NONE; i = (i + 1) & (m->n_slots - 1))
        if (m->slots[i].left == left && m->slots[i].right == right) return;
    m->slots[i] = (plait_tok_merge){.left = left, .right = right, .rank = rank, .merged = merged};
    m->n_used++;
}

/* The symbol of a string that stays where it is. The map borrows the bytes: they stay in r->bytes, which the tokenizer
 * owns. */
static plait_status intern(reader *r, const char *bytes, size_t n, uint32_t *out_symbol) {
    if (plait_map_get(&r->t->symbols, bytes, n, out_symbol)) return PLAIT_OK;
    *out_symbol = r->n_symbols;
    PLAIT_TRY(plait_map_put(&r->t->symbols, bytes, n, r->n_symbols, NULL));
    r->n_symbols++;
    return PLAIT_OK;
}

/* Copies one side of a merge behind the strings so far; false when it cannot meet text. */
static bool copy_side(reader *r, const char *text, size_t n) {
    if (r->t->model == PLAIT_TOK_BYTE_BPE) {
        size_t used;
        if (!plait_tok_letters_decode(text, n, r->bytes + r->n_bytes, &used)) return false;
        r->n_bytes += used;
        return used > 0;
    }
    memcpy(r->bytes + r->n_bytes, text, n);
    r->n_bytes += n;
    return n > 0;
}

/* "a b": the first space behind the first character divides the sides. */
static plait_status read_merge(reader *r, plait_gguf_string text, uint32_t rank) {
    const char *space = text.length > 1 ? memchr(text.bytes + 1, ' ', text.length - 1) : NULL;
    if (!space || space + 1 == text.bytes + text.length)
        return plait_error(PLAIT_CORRUPT,
                           "tokenizer.ggml.merges[%u]: expected two parts and a space, found \"%.*s\"", rank,
                           (int)(text.length > 64 ? 64 : text.length), text.bytes);
    size_t n_left = (size_t)(space - text.bytes), start = r->n_bytes;
    if (!copy_side(r, text.bytes, n_left)) return r->n_bytes = start, PLAIT_OK;
    size_t middle = r->n_bytes;
    if (!copy_side(r, space + 1, text.length - n_left - 1)) return r->n_bytes = start, PLAIT_OK;
    size_t end = r->n_bytes;
    if (end - start > PLAIT_TOK_MAX_MERGE_BYTES)
        return plait_error(PLAIT_LIMIT, "tokenizer.ggml.merges[%u]: makes %zu bytes, at most %d", rank,
                           end - start, PLAIT_TOK_MAX_MERGE_BYTES);
    uint32_t known = r->n_symbols, left, right, merged;
    PLAIT_TRY(intern(r, r->bytes + start, middle - start, &left));
    PLAIT_TRY(intern(r, r->bytes + middle, end - middle, &right));
    PLAIT_TRY(intern(r, r->bytes + start, end - start, &merged));
    insert(&r->t->merges, left, right, rank, merged);
    if (end - start > r->t->max_merge_bytes) r->t->max_merge_bytes = (uint32_t)(end - start);
    /* Strings that were there already need not be kept twice. */
    if (r->n_symbols == known) r->n_bytes = start;
    return PLAIT_OK;
}

/* The sides of all merges need at most as many bytes as their texts. */
static plait_status read_all(reader *r, const plait_gguf_value *list) {
    size_t total = 0;
    for (uint64_t i = 0; i < list->count; i++)
        if (!plait_add_size(total, list->strings[i].length, &total))
            return plait_error(PLAIT_LIMIT, "tokenizer.ggml.merges: too many bytes");
    r->bytes = plait_alloc_array(total + 1, 1);
    r->t->extra_bytes = r->bytes;
    if (!r->bytes) return plait_error_memory("merges", total);
    PLAIT_TRY(make_table(&r->t->merges, list->count));
    for (uint64_t i = 0; i < list->count; i++) PLAIT_TRY(read_merge(r, list->strings[i], (uint32_t)i));
    return PLAIT_OK;
}

/* Tokens that text can become, by their bytes. Of equal ones the last counts, as in the original's dictionary. */
plait_status plait_tok_symbols_load(plait_tokenizer *t) {
    PLAIT_TRY(plait_map_reserve(&t->symbols, t->n_tokens));
    const plait_tok_strings *strings = t->model == PLAIT_TOK_BYTE_BPE ? &t->pieces : &t->texts;
    for (uint32_t id = 0; id < t->n_tokens; id++) {
        uint32_t n;
        const char *bytes = plait_tok_string(strings, id, &n);
        if (n == 0 || !(t->flags[id] & PLAIT_TOK_MERGEABLE)) continue;
        PLAIT_TRY(plait_map_put(&t->symbols, bytes, n, id, NULL));
        if (n > t->max_merge_bytes) t->max_merge_bytes = n;
    }
    return PLAIT_OK;
}

/* Symbols of tokens first, so that what merges make finds them; bytes are looked up last, when all are there. The table
 * of bytes is static because the map wants addresses of keys. */
plait_status plait_tok_merges_load(plait_tokenizer *t, const plait_gguf *gguf) {
    const plait_gguf_value *list;
    PLAIT_TRY(plait_gguf_get_array(gguf, "tokenizer.ggml.merges", PLAIT_GGUF_STRING, &list));
    if (list->count > MAX_MERGES)
        return plait_error(PLAIT_LIMIT, "tokenizer.ggml.merges: %llu merges, at most %d",
                           (unsigned long long)list->count, MAX_MERGES);
    PLAIT_TRY(plait_tok_symbols_load(t));
    reader r = {.t = t, .n_symbols = t->n_tokens};
    PLAIT_TRY(read_all(&r, list));
    static const unsigned char all_bytes[256] = {
#define ROW(h)                                                                                               \
    h, h + 1, h + 2, h + 3, h + 4, h + 5, h + 6, h + 7, h + 8, h + 9, h + 10, h + 11, h + 12, h + 13,        \
        h + 14, h + 15
        ROW(0x00), ROW(0x10), ROW(0x20), ROW(0x30), ROW(0x40), ROW(0x50), ROW(0x60), ROW(0x70),
        ROW(0x80), ROW(0x90), ROW(0xA0), ROW(0xB0), ROW(0xC0), ROW(0xD0), ROW(0xE0), ROW(0xF0)};
#undef ROW
    for (size_t b = 0; b < 256; b++)
        if (!plait_map_get(&t->symbols, (const char *)all_bytes + b, 1, &t->byte_symbols[b]))
            t->byte_symbols[b] = PLAIT_TOK_NONE;
    return PLAIT_OK;
}
