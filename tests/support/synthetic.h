/* Tokenizers made from a few lists, through a GGUF file in memory: for tests that need a vocabulary of their own, or a
 * broken one. Not here: any assert; what fails is returned. */
#ifndef PLAIT_TESTS_SUPPORT_SYNTHETIC_H
#define PLAIT_TESTS_SUPPORT_SYNTHETIC_H

#include "plait/gguf.h"
#include "plait/tokenizer.h"

#include <stdlib.h>
#include <string.h>

enum { SYNTHETIC_TOKENS = 10240 };

/* What goes into the file. Lists that are NULL are left out; counts may be wrong on purpose. */
typedef struct synthetic {
    const char *model, *pre;
    plait_gguf_string tokens[SYNTHETIC_TOKENS];
    int32_t types[SYNTHETIC_TOKENS];
    float scores[SYNTHETIC_TOKENS];
    plait_gguf_string merges[4096];
    size_t n_tokens, n_types, n_scores, n_merges;
    bool no_tokens;
} synthetic;

typedef struct synthetic_image {
    unsigned char *bytes;
    size_t n, capacity;
} synthetic_image;

static inline void synthetic_add(synthetic *s, const char *text, size_t n, plait_token_type type,
                                 float score) {
    s->tokens[s->n_tokens] = (plait_gguf_string){.bytes = text, .length = n};
    s->types[s->n_tokens] = type;
    s->scores[s->n_tokens++] = score;
    s->n_types = s->n_scores = s->n_tokens;
}

static inline plait_status synthetic_sink(void *user, const void *bytes, size_t n) {
    synthetic_image *image = user;
    if (image->n + n > image->capacity) {
        size_t capacity = (image->n + n) * 2;
        unsigned char *grown = realloc(image->bytes, capacity);
        if (!grown) return PLAIT_OUT_OF_MEMORY;
        image->bytes = grown;
        image->capacity = capacity;
    }
    memcpy(image->bytes + image->n, bytes, n);
    image->n += n;
    return PLAIT_OK;
}

static inline plait_status synthetic_fill(plait_gguf_writer *w, const synthetic *s) {
    if (s->model) PLAIT_TRY(plait_gguf_writer_add_string(w, "tokenizer.ggml.model", s->model));
    if (s->pre) PLAIT_TRY(plait_gguf_writer_add_string(w, "tokenizer.ggml.pre", s->pre));
    if (!s->no_tokens)
        PLAIT_TRY(plait_gguf_writer_add_array(w, "tokenizer.ggml.tokens", PLAIT_GGUF_STRING, s->tokens,
                                              s->n_tokens));
    if (s->n_types)
        PLAIT_TRY(plait_gguf_writer_add_array(w, "tokenizer.ggml.token_type", PLAIT_GGUF_I32, s->types,
                                              s->n_types));
    if (s->n_scores)
        PLAIT_TRY(
            plait_gguf_writer_add_array(w, "tokenizer.ggml.scores", PLAIT_GGUF_F32, s->scores, s->n_scores));
    return plait_gguf_writer_add_array(w, "tokenizer.ggml.merges", PLAIT_GGUF_STRING, s->merges, s->n_merges);
}

/* Further entries may come from `more` (may be NULL). */
static inline plait_status synthetic_create(plait_tokenizer **out, const synthetic *s,
                                            plait_status (*more)(plait_gguf_writer *w)) {
    plait_gguf_writer *w = NULL;
    plait_gguf *gguf = NULL;
    synthetic_image image = {0};
    plait_status status = plait_gguf_writer_create(&w);
    if (status == PLAIT_OK) status = synthetic_fill(w, s);
    if (status == PLAIT_OK && more) status = more(w);
    if (status == PLAIT_OK) status = plait_gguf_writer_write_to(w, synthetic_sink, &image);
    plait_gguf_writer_destroy(w);
    if (status == PLAIT_OK) status = plait_gguf_open_memory(&gguf, image.bytes, image.n, NULL);
    if (status == PLAIT_OK) status = plait_tokenizer_create(out, gguf, NULL);
    plait_gguf_release(gguf);
    free(image.bytes);
    return status;
}

#endif
