/* SentencePiece BPE: pairs are merged whose concatenation is a token, the one with the highest score first; characters
 * that are no token become byte tokens. Tokens marked unused serve on the way and are taken apart in the end.
 *
 * Facts from the sentencepiece library's bpe_model (Apache-2.0), version 0.2.
 */
#include "base/alloc.h"
#include "base/utf8.h"
#include "text/tokenizer/internal.h"

#include <string.h>

/* What is left after merging: a token, an unused token that must be taken apart, or bytes. */
static void emit_symbol(plait_tokenizer_scratch *s, const char *bytes, uint32_t n_bytes) {
    const plait_tokenizer *t = s->tokenizer;
    uint32_t id = plait_tok_lookup(t, bytes, n_bytes);
    if (id == PLAIT_TOK_NONE) {
        plait_tok_emit_bytes(s, bytes, n_bytes);
        return;
    }
    /* Parts are strictly shorter, and their own parts were noted when they were merged: depth is bounded by the
     * longest token, and only the left side recurses. */
    while (s->unused_split && t->types[id] == PLAIT_TOKEN_UNUSED && s->unused_split[id] > 0 &&
           s->unused_split[id] < n_bytes) {
        uint32_t left = s->unused_split[id];
        emit_symbol(s, bytes, left);
        bytes += left;
        n_bytes -= left;
        id = plait_tok_lookup(t, bytes, n_bytes);
        if (id == PLAIT_TOK_NONE) {
            plait_tok_emit_bytes(s, bytes, n_bytes);
            return;
        }
    }
    plait_tok_emit(s, id);
}

/* Symbols have no ids here: merging looks up the bytes of both sides. */
static plait_status spm_piece(plait_tokenizer_scratch *s, const char *piece, uint32_t n_bytes) {
    uint32_t hash, n = 0;
    if (plait_tok_cache_get(s, piece, n_bytes, &hash)) return PLAIT_OK;
    size_t first = s->out.n;
    PLAIT_TRY(
        plait_grow(&s->symbols, &s->symbols_capacity, n_bytes, sizeof *s->symbols, SIZE_MAX / 64, "symbols"));
    for (uint32_t at = 0; at < n_bytes; n++) {
        uint32_t code, length = (uint32_t)plait_utf8_decode(piece + at, n_bytes - at, &code);
        s->symbols[n] = (plait_tok_symbol){.id = n, .start = at};
        at += length ? length : 1;
    }
    PLAIT_TRY(plait_tok_merge_run(s, piece, n_bytes, n, &n));
    for (uint32_t i = 0; i < n; i++) {
        uint32_t start = s->symbols[i].start, end = i + 1 < n ? s->symbols[i + 1].start : n_bytes;
        emit_symbol(s, piece + start, end - start);
    }
    plait_tok_cache_put(s, piece, n_bytes, hash, first);
    return PLAIT_OK;
}

/* Spaces become U+2581, the prefix too. */
plait_status plait_tok_encode_spm(plait_tokenizer_scratch *s, const char *text, uint32_t n_bytes,
                                  bool prefix) {
    size_t n = prefix ? 3 : 0;
    for (uint32_t i = 0; i < n_bytes; i++) n += text[i] == ' ' ? 3 : 1;
    PLAIT_TRY(plait_tok_bytes_reserve(&s->prepared, n));
    char *p = s->prepared.bytes;
    if (prefix) memcpy(p, "\xE2\x96\x81", 3), p += 3;
    for (uint32_t i = 0; i < n_bytes; i++) {
        if (text[i] == ' ')
            memcpy(p, "\xE2\x96\x81", 3), p += 3;
        else
            *p++ = text[i];
    }
    PLAIT_TRY(plait_tok_out_reserve(s, n));
    return plait_tok_pieces(s, s->prepared.bytes, (uint32_t)n, spm_piece);
}
