/* RWKV's tokenizer: at each place the longest token there is. Tokens are byte strings; the file has them with Python's
 * escapes, load.c undid those. Not here: splitting, normalising or special treatment of spaces, of which this model has
 * none. Invariant: every byte belongs to one id, since a byte without a token gives its byte token or the unknown
 * one. */
#include "text/tokenizer/internal.h"

/* The limit on a token's bytes bounds the work at each place. */
plait_status plait_tok_rwkv_load(plait_tokenizer *t) {
    PLAIT_TRY(plait_tok_trie_init(&t->trie));
    for (uint32_t id = 0; id < t->n_tokens; id++) {
        uint32_t n, node;
        const char *bytes = plait_tok_string(&t->pieces, id, &n);
        if (n == 0 || !(t->flags[id] & PLAIT_TOK_MERGEABLE)) continue;
        if (n > PLAIT_TOK_UNIGRAM_BYTES)
            return plait_error(PLAIT_LIMIT, "tokenizer.ggml.tokens[%u]: %u bytes, at most %d", id, n,
                               PLAIT_TOK_UNIGRAM_BYTES);
        PLAIT_TRY(plait_tok_trie_add(&t->trie, bytes, n, &node));
        t->trie.values[node] = id;
    }
    return PLAIT_OK;
}

/* `end` trails the walk: it is the end of the last token met, not of the longest beginning. */
plait_status plait_tok_encode_rwkv(plait_tokenizer_scratch *s, const char *text, uint32_t n_bytes) {
    const plait_tok_trie *trie = &s->tokenizer->trie;
    PLAIT_TRY(plait_tok_out_reserve(s, n_bytes));
    for (uint32_t at = 0; at < n_bytes;) {
        uint32_t node = 0, id = PLAIT_TOK_NONE, end = at + 1;
        for (uint32_t i = at; i < n_bytes;) {
            node = plait_tok_trie_step(trie, node, (unsigned char)text[i++]);
            s->n_steps++;
            if (!node) break;
            if (trie->values[node] != PLAIT_TOK_NONE) id = trie->values[node], end = i;
        }
        if (id == PLAIT_TOK_NONE)
            plait_tok_emit_bytes(s, text + at, 1);
        else
            plait_tok_emit(s, id);
        at = end;
    }
    return PLAIT_OK;
}
