/* The memory of frequent pieces: a direct-mapped table in each scratch. A piece and its ids are stored whole, so a
 * hit is as right as the work it saves. Not shared between threads, never larger than its fixed size.
 *
 * Invariant: an entry with n_ids > 0 holds exactly the ids that its key gives; n_ids 0 is a free entry.
 */
#include "text/tokenizer/internal.h"

#include <string.h>

bool plait_tok_cache_get(plait_tokenizer_scratch *s, const char *piece, uint32_t n_bytes,
                         uint32_t *out_hash) {
    s->after_unknown = false;
    if (n_bytes > PLAIT_TOK_CACHE_KEY) return false;
    uint32_t hash = (uint32_t)plait_hash_bytes(piece, n_bytes, s->seed);
    *out_hash = hash;
    const plait_tok_cached *e = &s->cache[hash & (PLAIT_TOK_CACHE_SLOTS - 1)];
    if (e->hash != hash || e->n_bytes != n_bytes || e->n_ids == 0 || memcmp(e->key, piece, n_bytes) != 0)
        return false;
    plait_token *out = s->out.ids + s->out.n;
    for (uint32_t i = 0; i < e->n_ids; i++) out[i] = (plait_token)e->ids[i];
    s->out.n += e->n_ids;
    return true;
}

void plait_tok_cache_put(plait_tokenizer_scratch *s, const char *piece, uint32_t n_bytes, uint32_t hash,
                         size_t first) {
    size_t n_ids = s->out.n - first;
    if (n_bytes > PLAIT_TOK_CACHE_KEY || n_ids == 0 || n_ids > PLAIT_TOK_CACHE_IDS) return;
    /* Unknown tokens depend on their neighbours; one that is not there, for there was one before, does too. */
    if (s->after_unknown) return;
    plait_tok_cached *e = &s->cache[hash & (PLAIT_TOK_CACHE_SLOTS - 1)];
    e->hash = hash;
    e->n_bytes = (uint8_t)n_bytes;
    e->n_ids = (uint8_t)n_ids;
    memcpy(e->key, piece, n_bytes);
    for (size_t i = 0; i < n_ids; i++) e->ids[i] = (uint32_t)s->out.ids[first + i];
}
