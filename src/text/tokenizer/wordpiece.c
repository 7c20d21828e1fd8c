/* WordPiece as BERT's uncased models have it: clean, decompose, drop non-spacing marks, lower-case, split at white
 * space, punctuation and CJK characters; then the longest token that fits, again and again, or the unknown token for
 * the whole word.
 *
 * In the file, tokens that begin a word have U+2581 in front, and the others nothing. In the trie the former begin
 * with the byte 1, the latter with the byte 2, so that a literal U+2581 in the text is neither.
 */
#include "base/utf8.h"
#include "text/tokenizer/internal.h"

#include <string.h>
#include <utf8proc.h>

enum { BEGINS = 1, CONTINUES = 2 };

/* A token of nothing but the mark stands for no text. Longer tokens than the buffer cannot match a word of 100
 * characters anyway. One that is not UTF-8 cannot match whole characters and is left out: words are cut between
 * characters only, hence never into more ids than characters. */
plait_status plait_tok_wordpiece_load(plait_tokenizer *t) {
    PLAIT_TRY(plait_tok_trie_init(&t->trie));
    char key[PLAIT_TOK_MAX_MERGE_BYTES + 1];
    for (uint32_t id = 0; id < t->n_tokens; id++) {
        uint32_t n, node;
        const char *text = plait_tok_string(&t->texts, id, &n);
        if (n == 0 || n > PLAIT_TOK_MAX_MERGE_BYTES || !(t->flags[id] & PLAIT_TOK_MERGEABLE)) continue;
        bool begins = n >= 3 && memcmp(text, "\xE2\x96\x81", 3) == 0;
        uint32_t skip = begins ? 3 : 0;
        if (n == skip || !plait_utf8_valid(text + skip, n - skip)) continue;
        key[0] = begins ? BEGINS : CONTINUES;
        memcpy(key + 1, text + skip, n - skip);
        PLAIT_TRY(plait_tok_trie_add(&t->trie, key, n - skip + 1, &node));
        t->trie.values[node] = id;
    }
    return PLAIT_OK;
}

/* A word in the making. */
typedef struct word {
    char bytes[4 * PLAIT_TOK_WORD_CHARS];
    uint32_t n_bytes, n_chars;
} word;

/* Takes back what was emitted of the word: it is known as a whole or not at all. */
static void emit_unknown(plait_tokenizer_scratch *s, size_t first) {
    plait_token unknown = s->tokenizer->roles[PLAIT_ROLE_UNKNOWN];
    s->out.n = first;
    if (unknown != PLAIT_NO_TOKEN) plait_tok_emit(s, (uint32_t)unknown);
}

/* Greedy from the left: no looking back. At most 100 characters, so the square of it is a constant. */
static void match_word(plait_tokenizer_scratch *s, const word *w) {
    const plait_tok_trie *trie = &s->tokenizer->trie;
    size_t first = s->out.n;
    bool known = w->n_chars <= PLAIT_TOK_WORD_CHARS;
    for (uint32_t at = 0; known && at < w->n_bytes;) {
        uint32_t node = trie->root[at == 0 ? BEGINS : CONTINUES], id = PLAIT_TOK_NONE, end = at;
        for (uint32_t i = at; node && i < w->n_bytes;) {
            node = plait_tok_trie_step(trie, node, (unsigned char)w->bytes[i++]);
            s->n_steps++;
            if (node && trie->values[node] != PLAIT_TOK_NONE) id = trie->values[node], end = i;
        }
        known = id != PLAIT_TOK_NONE;
        if (known) plait_tok_emit(s, id);
        at = end;
    }
    if (!known) emit_unknown(s, first);
}

static void end_word(plait_tokenizer_scratch *s, word *w) {
    uint32_t hash;
    if (w->n_chars == 0) return;
    /* A word that is too long has lost its end: what is left must not be taken for another word. */
    if (w->n_chars > PLAIT_TOK_WORD_CHARS) {
        match_word(s, w);
    } else if (!plait_tok_cache_get(s, w->bytes, w->n_bytes, &hash)) {
        size_t first = s->out.n;
        match_word(s, w);
        plait_tok_cache_put(s, w->bytes, w->n_bytes, hash, first);
    }
    w->n_bytes = w->n_chars = 0;
}

/* One character beyond the limit is counted but not kept: the count says that the word is too long. */
static void add_char(word *w, uint32_t code) {
    if (w->n_chars < PLAIT_TOK_WORD_CHARS)
        w->n_bytes += (uint32_t)plait_utf8_encode(code, w->bytes + w->n_bytes);
    if (w->n_chars <= PLAIT_TOK_WORD_CHARS) w->n_chars++;
}

static bool is_space(uint32_t c, utf8proc_category_t category) {
    return c == ' ' || c == '\t' || c == '\n' || c == '\r' || category == UTF8PROC_CATEGORY_ZS ||
           category == UTF8PROC_CATEGORY_ZL || category == UTF8PROC_CATEGORY_ZP;
}

/* Removed before anything else: controls, formats, private use, U+FFFD. */
static bool is_dropped(uint32_t c, utf8proc_category_t category) {
    return c == 0 || c == 0xFFFD || category == UTF8PROC_CATEGORY_CC || category == UTF8PROC_CATEGORY_CF ||
           category == UTF8PROC_CATEGORY_CO || category == UTF8PROC_CATEGORY_CS ||
           category == UTF8PROC_CATEGORY_MN;
}

/* ASCII symbols count as punctuation, as in BERT; the ranges are its CJK ideographs. */
static bool is_alone(uint32_t c, utf8proc_category_t category) {
    if (c < 0x80)
        return (c >= 33 && c <= 47) || (c >= 58 && c <= 64) || (c >= 91 && c <= 96) || (c >= 123 && c <= 126);
    if (category >= UTF8PROC_CATEGORY_PC && category <= UTF8PROC_CATEGORY_PO) return true;
    return (c >= 0x4E00 && c <= 0x9FFF) || (c >= 0x3400 && c <= 0x4DBF) || (c >= 0x20000 && c <= 0x2A6DF) ||
           (c >= 0x2A700 && c <= 0x2B73F) || (c >= 0x2B740 && c <= 0x2B81F) ||
           (c >= 0x2B920 && c <= 0x2CEAF) || (c >= 0xF900 && c <= 0xFAFF) || (c >= 0x2F800 && c <= 0x2FA1F);
}

/* Decomposing first makes accents marks of their own, which are then dropped; lower case comes after it, one character
 * at a time. One id a character at most, so emitting needs no check afterwards: a word gives as many as it has
 * characters, or the unknown token. */
plait_status plait_tok_encode_wordpiece(plait_tokenizer_scratch *s, const char *text, uint32_t n_bytes) {
    size_t n;
    word w = {.n_bytes = 0};
    PLAIT_TRY(plait_tok_repair(s, &text, &n_bytes));
    PLAIT_TRY(plait_tok_decompose(s, text, n_bytes, &n));
    PLAIT_TRY(plait_tok_out_reserve(s, n + 1));
    for (size_t i = 0; i < n; i++) {
        uint32_t c = (uint32_t)s->codes[i];
        /* Most text is letters without more ado. */
        if (c < 0x80 && ((c | 0x20) - 'a' < 26 || c - '0' < 10)) {
            add_char(&w, c >= 'A' && c <= 'Z' ? c | 0x20 : c);
            continue;
        }
        utf8proc_category_t category = utf8proc_category((int32_t)c);
        if (is_space(c, category)) {
            end_word(s, &w);
        } else if (!is_dropped(c, category)) {
            c = (uint32_t)utf8proc_tolower((int32_t)c);
            bool alone = is_alone(c, utf8proc_category((int32_t)c));
            if (alone) end_word(s, &w);
            add_char(&w, c);
            if (alone) end_word(s, &w);
        }
    }
    end_word(s, &w);
    return PLAIT_OK;
}
