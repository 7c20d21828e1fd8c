/* Ids to text, one at a time or all at once.
 *
 * Invariant of a stream: `pending` is empty or the begin of a character that can still become one (RFC 3629's table);
 * what was written is valid UTF-8.
 */
#include "base/alloc.h"
#include "base/size.h"
#include "text/tokenizer/internal.h"

#include <string.h>

static const char replacement[3] = {'\xEF', '\xBF', '\xBD'};

void plait_detokenizer_init(plait_detokenizer *stream, const plait_tokenizer *tokenizer, uint32_t flags) {
    *stream = (plait_detokenizer){.tokenizer = tokenizer, .flags = flags, .at_start = true};
}

size_t plait_detokenizer_max_bytes(const plait_tokenizer *t) {
    /* Each byte may turn out bad, and what was pending before them. */
    return 3 * (size_t)t->max_piece_bytes + 8;
}

/* Length of a character by its first byte; 0: no character begins so. */
static uint32_t length_of(unsigned char byte) {
    if (byte < 0x80) return 1;
    if (byte < 0xC2 || byte > 0xF4) return 0;
    return byte < 0xE0 ? 2 : byte < 0xF0 ? 3 : 4;
}

/* True when byte may follow the n bytes of a begun character. The second byte decides about overlong forms, surrogates
 * and the end of Unicode: table 3-7 of the Unicode Standard. */
static bool continues(const unsigned char *begun, uint32_t n, unsigned char byte) {
    if ((byte & 0xC0) != 0x80) return false;
    if (n > 1) return true;
    switch (begun[0]) {
    case 0xE0: return byte >= 0xA0;
    case 0xED: return byte < 0xA0;
    case 0xF0: return byte >= 0x90;
    case 0xF4: return byte < 0x90;
    default: return true;
    }
}

static size_t put(char *out, size_t at, const void *bytes, size_t n) {
    memcpy(out + at, bytes, n);
    return at + n;
}

/* Takes one byte into the stream; returns where output goes on. At most 4 bytes more than 3 for each byte fed. A byte
 * that does not continue ends the character before it as one U+FFFD, and is then looked at anew: it may begin
 * another. */
static size_t feed_byte(plait_detokenizer *d, unsigned char byte, char *out, size_t at) {
    if (d->n_pending) {
        if (continues(d->pending, d->n_pending, byte)) {
            d->pending[d->n_pending++] = byte;
            if (d->n_pending < length_of(d->pending[0])) return at;
            at = put(out, at, d->pending, d->n_pending);
            d->n_pending = 0;
            return at;
        }
        at = put(out, at, replacement, 3);
        d->n_pending = 0;
    }
    uint32_t length = length_of(byte);
    if (length == 0) return put(out, at, replacement, 3);
    if (length == 1) return put(out, at, &byte, 1);
    d->pending[d->n_pending++] = byte;
    return at;
}

/* The bytes that a token adds to the text. */
static const char *bytes_of(const plait_tokenizer *t, uint32_t flags, bool *at_start, plait_token token,
                            size_t *out_n) {
    uint32_t n;
    const char *piece = plait_tok_string(&t->pieces, (uint32_t)token, &n);
    if ((t->flags[token] & PLAIT_TOK_HIDDEN) && !(flags & PLAIT_DETOKENIZE_SPECIAL)) n = 0;
    /* The space that encoding put in front, or that a word of WordPiece begins with. */
    bool prefixed = t->add_space_prefix || t->model == PLAIT_TOK_WORDPIECE;
    if (n > 0 && *at_start) {
        *at_start = false;
        if ((flags & PLAIT_DETOKENIZE_WHOLE) && prefixed && piece[0] == ' ') piece++, n--;
    }
    *out_n = n;
    return piece;
}

/* Ids are the caller's: from a model, a file, a network. */
static plait_status check_id(const plait_tokenizer *t, plait_token token) {
    if (token >= 0 && (uint32_t)token < t->n_tokens) return PLAIT_OK;
    return plait_error(PLAIT_OUT_OF_RANGE, "detokenize: id %d, the vocabulary has %u tokens", (int)token,
                       t->n_tokens);
}

plait_status plait_detokenizer_feed(plait_detokenizer *d, plait_token token, char *out, size_t capacity_bytes,
                                    size_t *out_n_bytes) {
    PLAIT_TRY(check_id(d->tokenizer, token));
    size_t n, at = 0;
    bool at_start = d->at_start;
    const char *piece = bytes_of(d->tokenizer, d->flags, &at_start, token, &n);
    /* The worst: what was pending is bad, and so is each byte. Checked first, so that a refused call changes nothing. */
    if (capacity_bytes < 3 * n + 8)
        return plait_error(PLAIT_OUT_OF_RANGE, "detokenize: %zu bytes of room, token %d may need %zu",
                           capacity_bytes, (int)token, 3 * n + 8);
    d->at_start = at_start;
    for (size_t i = 0; i < n; i++) at = feed_byte(d, (unsigned char)piece[i], out, at);
    *out_n_bytes = at;
    return PLAIT_OK;
}

/* A begun character is one maximal part, so one U+FFFD. */
size_t plait_detokenizer_flush(plait_detokenizer *d, char *out) {
    size_t n = d->n_pending ? put(out, 0, replacement, 3) : 0;
    plait_detokenizer_init(d, d->tokenizer, d->flags);
    return n;
}

/* Twice over the ids, for exactly as much memory as the text takes; the bytes are those of the tokens, bad UTF-8
 * included. */
plait_status plait_detokenize(const plait_tokenizer *t, const plait_token *ids, size_t n, uint32_t flags,
                              char **out_text, size_t *out_n_bytes) {
    size_t total = 0, at = 0, length;
    bool at_start = true;
    for (size_t i = 0; i < n; i++) {
        PLAIT_TRY(check_id(t, ids[i]));
        bytes_of(t, flags, &at_start, ids[i], &length);
        if (!plait_add_size(total, length, &total)) return plait_error_memory("text", SIZE_MAX);
    }
    char *text = plait_alloc_array(total + 1, 1);
    if (!text) return plait_error_memory("text", total + 1);
    at_start = true;
    for (size_t i = 0; i < n; i++) {
        const char *piece = bytes_of(t, flags, &at_start, ids[i], &length);
        at = put(text, at, piece, length);
    }
    *out_text = text;
    *out_n_bytes = at;
    return PLAIT_OK;
}
