/* BPE by merge numbers: byte-level (gpt2) and over characters with byte fallback (gemma4). Invariant: ids of a piece
 * depend on its bytes alone, which is what makes remembering pieces right.
 *
 * Not here: SentencePiece BPE, which merges by scores (spm.c); the merging itself (merge.c). */
#include "base/alloc.h"
#include "base/utf8.h"
#include "text/tokenizer/internal.h"

#include <string.h>

static plait_status reserve_symbols(plait_tokenizer_scratch *s, size_t n) {
    return plait_grow(&s->symbols, &s->symbols_capacity, n, sizeof *s->symbols, SIZE_MAX / 64, "symbols");
}

/* Emits the symbols left of a piece; one that is no token gives the tokens of its bytes. A string that merges make on
 * the way and that is no token can be left over where the vocabulary lacks it. */
static void emit_symbols(plait_tokenizer_scratch *s, const char *piece, uint32_t n_bytes, uint32_t n) {
    const plait_tokenizer *t = s->tokenizer;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t id = s->symbols[i].id, start = s->symbols[i].start;
        uint32_t end = i + 1 < n ? s->symbols[i + 1].start : n_bytes;
        if (id < t->n_tokens) {
            plait_tok_emit(s, id);
        } else if (t->model == PLAIT_TOK_CHAR_BPE) {
            plait_tok_emit_bytes(s, piece + start, end - start);
        } else {
            for (; start < end; start++) {
                uint32_t byte = t->byte_symbols[(unsigned char)piece[start]];
                if (byte < t->n_tokens) plait_tok_emit(s, byte);
            }
        }
    }
}

/* One match of the splitting rule. whole_pieces (Llama 3's ignore_merges): a piece that is a token is that token, even
 * where merging would end elsewhere. */
static plait_status byte_piece(plait_tokenizer_scratch *s, const char *piece, uint32_t n_bytes) {
    const plait_tokenizer *t = s->tokenizer;
    uint32_t hash;
    if (plait_tok_cache_get(s, piece, n_bytes, &hash)) return PLAIT_OK;
    size_t first = s->out.n;
    uint32_t whole = t->whole_pieces ? plait_tok_lookup(t, piece, n_bytes) : PLAIT_TOK_NONE;
    if (whole < t->n_tokens) {
        plait_tok_emit(s, whole);
    } else {
        PLAIT_TRY(reserve_symbols(s, n_bytes));
        /* A byte without a token is dropped before anything is merged, as in the original: its neighbours meet. */
        uint32_t n = 0;
        for (uint32_t i = 0; i < n_bytes; i++) {
            uint32_t id = t->byte_symbols[(unsigned char)piece[i]];
            if (id < t->n_tokens) s->symbols[n++] = (plait_tok_symbol){.id = id, .start = i};
        }
        PLAIT_TRY(plait_tok_merge_run(s, piece, n_bytes, n, &n));
        emit_symbols(s, piece, n_bytes, n);
    }
    plait_tok_cache_put(s, piece, n_bytes, hash, first);
    return PLAIT_OK;
}

/* Repair comes first: splitting and NFC want valid UTF-8. One id a byte at most, so emitting needs no check
 * afterwards. */
plait_status plait_tok_encode_byte_bpe(plait_tokenizer_scratch *s, const char *text, uint32_t n_bytes) {
    PLAIT_TRY(plait_tok_repair(s, &text, &n_bytes));
    if (s->tokenizer->nfc) PLAIT_TRY(plait_tok_nfc(s, &text, &n_bytes));
    PLAIT_TRY(plait_tok_out_reserve(s, n_bytes));
    return plait_tok_split_run(s, text, n_bytes, byte_piece);
}

/* Characters that are no token begin as no symbol, merge with nothing, and end as the tokens of their bytes. */
static plait_status char_piece(plait_tokenizer_scratch *s, const char *piece, uint32_t n_bytes) {
    const plait_tokenizer *t = s->tokenizer;
    uint32_t hash, n = 0;
    if (plait_tok_cache_get(s, piece, n_bytes, &hash)) return PLAIT_OK;
    size_t first = s->out.n;
    PLAIT_TRY(reserve_symbols(s, n_bytes));
    for (uint32_t at = 0; at < n_bytes; n++) {
        uint32_t code, length = (uint32_t)plait_utf8_decode(piece + at, n_bytes - at, &code), id;
        if (!length) length = 1;
        if (!plait_map_get(&t->symbols, piece + at, length, &id)) id = PLAIT_TOK_NONE;
        s->symbols[n] = (plait_tok_symbol){.id = id, .start = at};
        at += length;
    }
    PLAIT_TRY(plait_tok_merge_run(s, piece, n_bytes, n, &n));
    emit_symbols(s, piece, n_bytes, n);
    plait_tok_cache_put(s, piece, n_bytes, hash, first);
    return PLAIT_OK;
}

/* A run of newlines that is one token is taken whole; other lines are cut and merged. */
static plait_status line_piece(plait_tokenizer_scratch *s, const char *piece, uint32_t n_bytes) {
    const plait_tokenizer *t = s->tokenizer;
    if (piece[0] == '\n') {
        uint32_t whole = plait_tok_lookup(t, piece, n_bytes);
        if (whole < t->n_tokens) return plait_tok_emit(s, whole), PLAIT_OK;
    }
    return plait_tok_pieces(s, piece, n_bytes, char_piece);
}

/* Spaces become U+2581. The lines are found here, not by a regular expression: bytes that are not UTF-8 are kept. */
plait_status plait_tok_encode_char_bpe(plait_tokenizer_scratch *s, const char *text, uint32_t n_bytes) {
    size_t n = 0;
    for (uint32_t i = 0; i < n_bytes; i++) n += text[i] == ' ' ? 3 : 1;
    PLAIT_TRY(plait_tok_bytes_reserve(&s->prepared, n));
    char *p = s->prepared.bytes;
    for (uint32_t i = 0; i < n_bytes; i++) {
        if (text[i] == ' ')
            memcpy(p, "\xE2\x96\x81", 3), p += 3;
        else
            *p++ = text[i];
    }
    PLAIT_TRY(plait_tok_out_reserve(s, n));
    for (const char *at = s->prepared.bytes, *end = at + n; at < end;) {
        const char *stop = at;
        bool newline = *at == '\n';
        while (stop < end && (*stop == '\n') == newline) stop++;
        PLAIT_TRY(line_piece(s, at, (uint32_t)(stop - at)));
        at = stop;
    }
    return PLAIT_OK;
}
