/* SentencePiece unigram: normalise by the file's compiled map, then the segmentation with the best sum of scores.
 *
 * Facts about the map's format (a darts-clone double array and NUL-terminated replacements) and about the normaliser
 * from the sentencepiece library, version 0.2 (Apache-2.0). Every index of the double array is checked, for it comes
 * from the file.
 *
 * Not here: where a text may be cut into pieces beforehand (piece.c), the cache of pieces (cache.c), tokens for bytes
 * (scratch.c). Invariant: the sum of scores of what comes out is the largest there is, with unknown characters at
 * unknown_score each. */
#include "base/alloc.h"
#include "base/utf8.h"
#include "text/tokenizer/internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* MAX_GROWTH: a map from a hostile file may make kilobytes of each character. */
enum { MAX_CHARSMAP_BYTES = 64 << 20, MAX_MAP_KEY = 256, MAX_GROWTH = 64 };

static const char mark[] = "\xE2\x96\x81";

/* ---- loading ---- */

/* Unit i of the double array, little-endian in the file. i is below charsmap_trie_units; the four bytes in front are
 * the trie's size. */
static uint32_t unit_at(const plait_tokenizer *t, size_t i) {
    const unsigned char *p = t->charsmap + 4 + 4 * i;
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

/* u32 size of the trie, the trie, then the replacements. A file without the key has no normalisation but the spaces.
 * Replacements need no check here: map_next bounds each. */
static plait_status load_charsmap(plait_tokenizer *t, const plait_gguf *gguf) {
    static const char key[] = "tokenizer.ggml.precompiled_charsmap";
    const plait_gguf_value *value = plait_gguf_find(gguf, key);
    if (!value) return PLAIT_OK;
    if (value->type != PLAIT_GGUF_ARRAY ||
        (value->count && value->elem_type != PLAIT_GGUF_U8 && value->elem_type != PLAIT_GGUF_I8))
        return plait_error(PLAIT_CORRUPT, "%s: expected an array of bytes, found %s of %s", key,
                           plait_gguf_type_name(value->type), plait_gguf_type_name(value->elem_type));
    if (value->count == 0) return PLAIT_OK;
    if (value->count > MAX_CHARSMAP_BYTES)
        return plait_error(PLAIT_LIMIT, "%s: %llu bytes, at most %d", key, (unsigned long long)value->count,
                           MAX_CHARSMAP_BYTES);
    if (value->count < 4)
        return plait_error(PLAIT_CORRUPT, "%s: %llu bytes, expected more", key,
                           (unsigned long long)value->count);
    t->charsmap = plait_alloc_array((size_t)value->count, 1);
    if (!t->charsmap) return plait_error_memory("character map", value->count);
    memcpy(t->charsmap, value->data, (size_t)value->count);
    t->charsmap_bytes = (size_t)value->count;
    uint32_t trie_bytes = t->charsmap[0] | (uint32_t)t->charsmap[1] << 8 | (uint32_t)t->charsmap[2] << 16 |
                          (uint32_t)t->charsmap[3] << 24;
    if (trie_bytes % 4 != 0 || trie_bytes > value->count - 4)
        return plait_error(PLAIT_CORRUPT, "%s: a trie of %u bytes in %llu", key, trie_bytes,
                           (unsigned long long)value->count);
    t->charsmap_trie_units = trie_bytes / 4;
    return PLAIT_OK;
}

/* The score of an unknown character is 10 below the lowest, as in sentencepiece: any token is better. Control, unused
 * and byte tokens are left out of the trie: text cannot become them by segmentation. */
plait_status plait_tok_unigram_load(plait_tokenizer *t, const plait_gguf *gguf) {
    PLAIT_TRY(load_charsmap(t, gguf));
    PLAIT_TRY(plait_tok_joins_load(t));
    PLAIT_TRY(plait_tok_trie_init(&t->trie));
    float lowest = 0;
    for (uint32_t id = 0; id < t->n_tokens; id++) {
        uint32_t n, node;
        const char *text = plait_tok_string(&t->texts, id, &n);
        if (t->types[id] == PLAIT_TOKEN_NORMAL && t->scores[id] < lowest) lowest = t->scores[id];
        if (n == 0 || (t->types[id] != PLAIT_TOKEN_NORMAL && t->types[id] != PLAIT_TOKEN_USER_DEFINED))
            continue;
        if (n > PLAIT_TOK_UNIGRAM_BYTES)
            return plait_error(PLAIT_LIMIT, "tokenizer.ggml.tokens[%u]: %u bytes, at most %d", id, n,
                               PLAIT_TOK_UNIGRAM_BYTES);
        PLAIT_TRY(plait_tok_trie_add(&t->trie, text, n, &node));
        t->trie.values[node] = id;
    }
    t->unknown_score = lowest - 10;
    return PLAIT_OK;
}

/* ---- normalising ---- */

/* The longest entry of the map at the begin of text: its length, 0 for none, and its replacement's offset. A unit of
 * darts-clone: bits 10 to 30 the offset, bit 9 its scale (8 bits more), bit 8 whether a value follows, the low byte the
 * label, bit 31 set in values. XOR with the offset leads to the children. A unit out of range ends the walk, as if
 * there were no longer entry. */
static uint32_t map_longest(const plait_tokenizer *t, const char *text, uint32_t n_bytes,
                            uint32_t *out_offset) {
    size_t n_units = t->charsmap_trie_units, at = 0;
    uint32_t longest = 0;
    if (n_units == 0) return 0;
    uint32_t unit = unit_at(t, 0);
    at ^= (unit >> 10) << ((unit & 0x200) >> 6);
    for (uint32_t i = 0; i < n_bytes && i < MAX_MAP_KEY; i++) {
        unsigned char byte = (unsigned char)text[i];
        at ^= byte;
        if (at >= n_units) break;
        unit = unit_at(t, at);
        if ((unit & 0x800000FFu) != byte) break;
        at ^= (unit >> 10) << ((unit & 0x200) >> 6);
        if (!(unit & 0x100)) continue;
        if (at >= n_units) break;
        *out_offset = unit_at(t, at) & 0x7FFFFFFFu;
        longest = i + 1;
    }
    return longest;
}

/* What the characters at the begin of text become; returns how many bytes it took. Bytes that are no UTF-8 become
 * U+FFFD, one for each. An offset behind the end of the replacements gives an empty one, as does a missing NUL up to
 * the end of the file's bytes. */
static uint32_t map_next(const plait_tokenizer *t, const char *text, uint32_t n_bytes, const char **out,
                         size_t *out_n) {
    uint32_t offset = 0, used = map_longest(t, text, n_bytes, &offset);
    if (used) {
        size_t start = 4 + 4 * t->charsmap_trie_units, room = t->charsmap_bytes - start;
        *out = (const char *)t->charsmap + start + (offset < room ? offset : room);
        *out_n = offset < room ? strnlen(*out, room - offset) : 0;
        return used;
    }
    uint32_t code;
    used = (uint32_t)plait_utf8_decode(text, n_bytes, &code);
    *out = used ? text : "\xEF\xBF\xBD";
    *out_n = used ? used : 3;
    return used ? used : 1;
}

/* The reservation grows by doubling, so a byte at a time costs linear time. */
static plait_status append(plait_tok_bytes *b, const char *bytes, size_t n) {
    PLAIT_TRY(plait_tok_bytes_reserve(b, b->n + n));
    memcpy(b->bytes + b->n, bytes, n);
    b->n += n;
    return PLAIT_OK;
}

/* Adds a replacement with U+2581 for spaces; *space says whether a space came last and further ones are dropped. A
 * space at the begin of a replacement is dropped where one came before, in the same or an earlier one. */
static plait_status append_mapped(plait_tok_bytes *b, const char *bytes, size_t n, bool squeeze,
                                  bool *space) {
    size_t i = 0;
    if (*space)
        while (i < n && bytes[i] == ' ') i++;
    if (i == n) return PLAIT_OK;
    for (; i < n; i++) {
        if (bytes[i] == ' ')
            PLAIT_TRY(append(b, mark, 3));
        else
            PLAIT_TRY(append(b, bytes + i, 1));
    }
    *space = squeeze && bytes[n - 1] == ' ';
    return PLAIT_OK;
}

static bool ends_with_mark(const plait_tok_bytes *b) {
    return b->n >= 3 && memcmp(b->bytes + b->n - 3, mark, 3) == 0;
}

/* The normalised text in scratch->normal. Spaces in front are dropped before the prefix is put there; a text of spaces
 * alone becomes nothing at all. The growth is bounded by 64 times the text and a constant: the map is the file's, and
 * the text the user's. */
static plait_status normalise(plait_tokenizer_scratch *s, const char *text, uint32_t n_bytes) {
    const plait_tokenizer *t = s->tokenizer;
    plait_tok_bytes *b = &s->normal;
    bool squeeze = t->remove_extra_spaces, space = squeeze;
    uint32_t at = 0;
    const char *mapped;
    size_t n;
    b->n = 0;
    while (squeeze && at < n_bytes) {
        uint32_t used = map_next(t, text + at, n_bytes - at, &mapped, &n);
        if (n != 1 || mapped[0] != ' ') break;
        at += used;
    }
    if (at == n_bytes) return PLAIT_OK;
    if (t->add_space_prefix) PLAIT_TRY(append(b, mark, 3));
    while (at < n_bytes) {
        at += map_next(t, text + at, n_bytes - at, &mapped, &n);
        PLAIT_TRY(append_mapped(b, mapped, n, squeeze, &space));
        s->n_steps++;
        if (b->n > MAX_GROWTH * (size_t)n_bytes + 4096)
            return plait_error(PLAIT_LIMIT,
                               "tokenizer: normalising %u bytes makes more than %d times as many", n_bytes,
                               MAX_GROWTH);
    }
    while (squeeze && ends_with_mark(b)) b->n -= 3;
    return PLAIT_OK;
}

/* ---- segmentation ---- */

/* Keeps the better way to reach `end`; of equal ones the first, the one that starts farther left. "First" because
 * starts are tried from left to right. */
static void offer(plait_tokenizer_scratch *s, uint32_t start, uint32_t end, double score, uint32_t token) {
    if (s->best_start[end] != PLAIT_TOK_NONE && !(score > s->best_score[end])) return;
    s->best_score[end] = score;
    s->best_start[end] = start;
    s->best_token[end] = token;
}

/* Room for a piece of n - 1 bytes; no place but the first is reached yet. */
static plait_status prepare(plait_tokenizer_scratch *s, size_t n) {
    PLAIT_TRY(plait_grow(&s->best_score, &s->best_score_capacity, n, sizeof *s->best_score, SIZE_MAX / 16,
                         "segmentation"));
    PLAIT_TRY(plait_grow(&s->best_start, &s->best_start_capacity, n, sizeof *s->best_start, SIZE_MAX / 16,
                         "segmentation"));
    PLAIT_TRY(plait_grow(&s->best_token, &s->best_token_capacity, n, sizeof *s->best_token, SIZE_MAX / 16,
                         "segmentation"));
    for (size_t i = 0; i < n; i++) s->best_start[i] = PLAIT_TOK_NONE;
    s->best_score[0] = 0;
    return PLAIT_OK;
}

/* Forwards over the characters: every token that begins here offers a way to its end. Where none is one character long,
 * the character itself is offered as unknown, so that every place is reached. Sums are doubles: with floats, long texts
 * would round differences of scores away. The trie bounds how far a token reaches, so the whole is linear times 256.
 * best_start of `at` is set when the loop arrives there: the single character before it always offered a way. */
static void search(plait_tokenizer_scratch *s, const char *piece, uint32_t n_bytes) {
    const plait_tokenizer *t = s->tokenizer;
    for (uint32_t at = 0, length; at < n_bytes; at += length) {
        uint32_t code, node = 0;
        bool single = false;
        double here = s->best_score[at];
        length = (uint32_t)plait_utf8_decode(piece + at, n_bytes - at, &code);
        if (!length) length = 1;
        for (uint32_t end = at; end < n_bytes;) {
            node = plait_tok_trie_step(&t->trie, node, (unsigned char)piece[end++]);
            s->n_steps++;
            if (!node) break;
            uint32_t id = t->trie.values[node];
            if (id == PLAIT_TOK_NONE) continue;
            offer(s, at, end, here + (double)t->scores[id], id);
            single |= end - at == length;
        }
        if (!single) offer(s, at, at + length, here + (double)t->unknown_score, PLAIT_TOK_NONE);
    }
}

/* The links lead backwards, from the end of the piece; ids are wanted forwards. best_start is written over while the
 * links are turned: afterwards it leads from each place of the path to the next one. */
static plait_status unigram_piece(plait_tokenizer_scratch *s, const char *piece, uint32_t n_bytes) {
    uint32_t hash;
    if (plait_tok_cache_get(s, piece, n_bytes, &hash)) return PLAIT_OK;
    size_t first = s->out.n;
    PLAIT_TRY(prepare(s, (size_t)n_bytes + 1));
    search(s, piece, n_bytes);
    /* Turn the links around, then go forwards. */
    uint32_t next = PLAIT_TOK_NONE;
    for (uint32_t at = n_bytes; at > 0;) {
        uint32_t start = s->best_start[at];
        s->best_start[at] = next;
        next = at;
        at = start;
    }
    for (uint32_t start = 0, end = next; end != PLAIT_TOK_NONE;) {
        if (s->best_token[end] == PLAIT_TOK_NONE)
            plait_tok_emit_bytes(s, piece + start, end - start);
        else
            plait_tok_emit(s, s->best_token[end]);
        start = end;
        end = s->best_start[end];
    }
    plait_tok_cache_put(s, piece, n_bytes, hash, first);
    return PLAIT_OK;
}

/* The best segmentation of the whole is that of its parts, for no token reaches across their borders (piece.c). */
plait_status plait_tok_encode_unigram(plait_tokenizer_scratch *s, const char *text, uint32_t n_bytes) {
    PLAIT_TRY(normalise(s, text, n_bytes));
    PLAIT_TRY(plait_tok_out_reserve(s, s->normal.n));
    return plait_tok_pieces(s, s->normal.bytes, (uint32_t)s->normal.n, unigram_piece);
}
