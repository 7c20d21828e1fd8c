/* The working memory of one thread, and the small steps that all models share. Not here: what the fields mean
 * (internal.h).
 *
 * Every buffer grows to the largest text seen and stays: a warm scratch allocates nothing. Its content has no meaning
 * from one call to the next, except the cache (cache.c). Invariant: a scratch belongs to one tokenizer for its life,
 * because the cache and unused_split speak of its ids. */
#include "base/alloc.h"
#include "base/utf8.h"
#include "text/tokenizer/internal.h"

#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

/* One more than asked, so that an empty text has a pointer too. */
plait_status plait_tok_bytes_reserve(plait_tok_bytes *b, size_t n_bytes) {
    return plait_grow(&b->bytes, &b->capacity, n_bytes + 1, 1, SIZE_MAX / 4, "text");
}

plait_status plait_tok_out_reserve(plait_tokenizer_scratch *s, size_t n) {
    /* A cache hit copies all slots of its entry. */
    return plait_grow(&s->out.ids, &s->out.capacity, s->out.n + n + PLAIT_TOK_CACHE_IDS, sizeof *s->out.ids,
                      SIZE_MAX / 16, "token ids");
}

void plait_tok_emit_bytes(plait_tokenizer_scratch *s, const char *bytes, uint32_t n_bytes) {
    const plait_tokenizer *t = s->tokenizer;
    /* All bytes of a character or none: half a character as bytes would be another one. */
    plait_token unknown = t->roles[PLAIT_ROLE_UNKNOWN];
    bool complete = true;
    for (uint32_t i = 0; i < n_bytes; i++)
        complete &= t->byte_tokens[(unsigned char)bytes[i]] != PLAIT_TOK_NONE;
    if (complete) {
        for (uint32_t i = 0; i < n_bytes; i++) plait_tok_emit(s, t->byte_tokens[(unsigned char)bytes[i]]);
    } else if (unknown !=
               PLAIT_NO_TOKEN) { /* one for a row of them, which may have begun in the piece before */
        s->after_unknown = true;
        if (s->out.n == s->fragment_first || s->out.ids[s->out.n - 1] != unknown)
            plait_tok_emit(s, (uint32_t)unknown);
    }
}

/* Most texts are valid and are lent back as they are. Three bytes for one is the worst. */
plait_status plait_tok_repair(plait_tokenizer_scratch *s, const char **text, uint32_t *n_bytes) {
    const char *from = *text;
    size_t n = *n_bytes;
    if (plait_utf8_valid(from, n)) return PLAIT_OK;
    PLAIT_TRY(plait_tok_bytes_reserve(&s->prepared, 3 * n));
    char *to = s->prepared.bytes;
    for (size_t i = 0; i < n;) {
        uint32_t code;
        size_t length = plait_utf8_decode(from + i, n - i, &code);
        memcpy(to, length ? from + i : "\xEF\xBF\xBD", length ? length : 3);
        to += length ? length : 3;
        i += length ? length : 1;
    }
    *text = s->prepared.bytes;
    *n_bytes = (uint32_t)(to - s->prepared.bytes);
    return PLAIT_OK;
}

/* The seed keeps a text's author from filling one slot of the cache with all pieces; without randomness an address must
 * do. */
static plait_status init(plait_tokenizer_scratch *s) {
    const plait_tokenizer *t = s->tokenizer;
    if (getrandom(&s->seed, sizeof s->seed, GRND_NONBLOCK) != sizeof s->seed)
        s->seed = (uint64_t)(uintptr_t)s;
    s->cache = plait_alloc_aligned(64, PLAIT_TOK_CACHE_SLOTS * sizeof *s->cache);
    if (!s->cache) return plait_error_memory("tokenizer cache", PLAIT_TOK_CACHE_SLOTS * sizeof *s->cache);
    /* Only few vocabularies have unused tokens; only SentencePiece BPE takes them apart again. */
    if (t->model == PLAIT_TOK_SPM && t->has_unused) {
        s->unused_split = plait_alloc_array(t->n_tokens, sizeof *s->unused_split);
        if (!s->unused_split)
            return plait_error_memory("unused tokens", t->n_tokens * sizeof *s->unused_split);
    }
    return t->split.n_stages ? plait_tok_split_scratch(s) : PLAIT_OK;
}

/* A scratch that failed half-way is destroyed like a whole one. */
plait_status plait_tokenizer_scratch_create(plait_tokenizer_scratch **out_scratch,
                                            const plait_tokenizer *tokenizer) {
    plait_tokenizer_scratch *s = plait_alloc_array(1, sizeof *s);
    if (!s) return plait_error_memory("tokenizer scratch", sizeof *s);
    s->tokenizer = tokenizer;
    plait_status status = init(s);
    if (status != PLAIT_OK) {
        plait_tokenizer_scratch_destroy(s);
        return status;
    }
    *out_scratch = s;
    return PLAIT_OK;
}

void plait_tokenizer_scratch_destroy(plait_tokenizer_scratch *s) {
    if (!s) return;
    plait_tok_split_scratch_deinit(s);
    plait_tokens_deinit(&s->out);
    for (size_t i = 0; i < sizeof s->cover / sizeof *s->cover; i++) free(s->cover[i]);
    void *owned[] = {s->cache,   s->joined.bytes, s->prepared.bytes, s->normal.bytes, s->codes, s->sorted,
                     s->symbols, s->heap,         s->unused_split,   s->found,        s->keys,  s->matches,
                     s->trust,   s->best_score,   s->best_start,     s->best_token};
    for (size_t i = 0; i < sizeof owned / sizeof *owned; i++) free(owned[i]);
    free(s);
}

void plait_tokens_deinit(plait_tokens *tokens) {
    if (!tokens) return;
    free(tokens->ids);
    *tokens = (plait_tokens){0};
}
