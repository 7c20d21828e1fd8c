/* Cutting text where no token can reach across, for the models that have no splitting rule of their own. If no token
 * holds the characters a and b side by side, no merge ever joins an a to the b behind it; then what stands before
 * and behind can be worked on apart, with the same result, in small pieces that are worth remembering.
 *
 * The pairs are kept as a Bloom filter with one bit: a false yes only makes a piece longer.
 */
#include "base/alloc.h"
#include "base/utf8.h"
#include "text/tokenizer/internal.h"

enum { JOIN_BITS = 21 };

/* Characters have 21 bits, so a pair fits one word; the upper bits of the product are the mixed ones. */
static inline uint32_t join_bit(uint32_t a, uint32_t b) {
    uint64_t h = ((uint64_t)a << 21 | b) * 0x9E3779B97F4A7C15u;
    return (uint32_t)(h >> (64 - JOIN_BITS));
}

/* One character, or one byte that is none, under a number that no character has. */
static inline uint32_t next_char(const char *text, uint32_t n_bytes, uint32_t *at) {
    unsigned char byte = (unsigned char)text[*at];
    if (byte < 0x80) return (*at)++, byte;
    uint32_t code;
    size_t length = plait_utf8_decode(text + *at, n_bytes - *at, &code);
    if (!length) code = 0x110000u + byte;
    *at += length ? (uint32_t)length : 1;
    return code;
}

/* Of one token, each pair of neighbours. */
static void add_joins(plait_tokenizer *t, const char *bytes, uint32_t n) {
    uint32_t at = 0;
    if (n < 2) return;
    for (uint32_t before = next_char(bytes, n, &at); at < n;) {
        uint32_t code = next_char(bytes, n, &at), bit = join_bit(before, code);
        t->joins[bit / 64] |= 1ull << bit % 64;
        before = code;
    }
}

plait_status plait_tok_joins_load(plait_tokenizer *t) {
    t->joins = plait_alloc_array((1u << JOIN_BITS) / 64, sizeof *t->joins);
    if (!t->joins) return plait_error_memory("character pairs", (1u << JOIN_BITS) / 8);
    for (uint32_t id = 0; id < t->n_tokens; id++) {
        uint32_t n;
        const char *text = plait_tok_string(&t->texts, id, &n);
        if (t->flags[id] & PLAIT_TOK_MERGEABLE) add_joins(t, text, n);
    }
    /* What merges make on the way and is no token. */
    for (size_t i = 0; i < t->symbols.n_slots; i++) {
        const plait_map_slot *slot = &t->symbols.slots[i];
        if (slot->key && slot->value >= t->n_tokens) add_joins(t, slot->key, slot->key_bytes);
    }
    return PLAIT_OK;
}

/* The first piece begins with the first character, so no piece is empty. */
plait_status plait_tok_pieces(plait_tokenizer_scratch *s, const char *text, uint32_t n_bytes,
                              plait_tok_piece_fn piece) {
    const uint64_t *joins = s->tokenizer->joins;
    uint32_t start = 0, at = 0;
    if (n_bytes == 0) return PLAIT_OK;
    uint32_t before = next_char(text, n_bytes, &at);
    while (at < n_bytes) {
        uint32_t here = at, code = next_char(text, n_bytes, &at), bit = join_bit(before, code);
        if (!(joins[bit / 64] >> bit % 64 & 1)) {
            PLAIT_TRY(piece(s, text + start, here - start));
            start = here;
        }
        before = code;
    }
    return piece(s, text + start, n_bytes - start);
}
