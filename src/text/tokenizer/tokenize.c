/* The calls of plait/tokenizer.h that make and ask a tokenizer, and turn text into ids. Not here: what a model does
 * with a fragment (one file each), ids to text (detokenize.c). Invariant: a tokenizer is only read here, everything
 * that a call works on is in the scratch, and the caller's list changes last. */
#include "base/alloc.h"
#include "base/size.h"
#include "text/tokenizer/internal.h"

#include <stdlib.h>
#include <string.h>

plait_status plait_tokenizer_create(plait_tokenizer **out_tokenizer, const plait_gguf *gguf,
                                    const plait_tokenizer_options *options) {
    plait_tokenizer *t = plait_alloc_array(1, sizeof *t);
    if (!t) return plait_error_memory("tokenizer", sizeof *t);
    plait_status status = plait_tok_load(t, gguf, options);
    if (status != PLAIT_OK) {
        plait_tokenizer_destroy(t);
        return status;
    }
    *out_tokenizer = t;
    return PLAIT_OK;
}

/* Also for a half-loaded one: what was not made is NULL or zeroed. */
void plait_tokenizer_destroy(plait_tokenizer *t) {
    if (!t) return;
    plait_tok_special_deinit(&t->special);
    plait_tok_split_deinit(&t->split);
    plait_tok_merges_deinit(&t->merges);
    plait_tok_trie_deinit(&t->trie);
    plait_map_deinit(&t->by_text);
    plait_map_deinit(&t->symbols);
    void *owned[] = {t->texts.bytes, t->texts.offsets, t->pieces.bytes, t->pieces.offsets, t->types,
                     t->flags,       t->scores,        t->extra_bytes,  t->joins,          t->charsmap};
    for (size_t i = 0; i < PLAIT_COUNT_OF(owned); i++) free(owned[i]);
    free(t);
}

/* ---- the vocabulary ---- */

/* The getters accept any id: ids often come from outside. */
static bool in_range(const plait_tokenizer *t, plait_token token) {
    return token >= 0 && (uint32_t)token < t->n_tokens;
}

const char *plait_tokenizer_model(const plait_tokenizer *t) {
    return t->model_name;
}

int32_t plait_tokenizer_n_vocab(const plait_tokenizer *t) {
    return (int32_t)t->n_tokens;
}

plait_token plait_tokenizer_role(const plait_tokenizer *t, plait_token_role role) {
    return (unsigned)role < PLAIT_ROLE_COUNT ? t->roles[role] : PLAIT_NO_TOKEN;
}

/* Only where the vocabulary has the token: a file may ask for one that it does not name. */
bool plait_tokenizer_adds_bos(const plait_tokenizer *t) {
    return t->add_bos && t->roles[PLAIT_ROLE_BOS] != PLAIT_NO_TOKEN;
}

bool plait_tokenizer_adds_eos(const plait_tokenizer *t) {
    return t->add_eos && t->roles[PLAIT_ROLE_EOS] != PLAIT_NO_TOKEN;
}

bool plait_token_ends(const plait_tokenizer *t, plait_token token) {
    return in_range(t, token) && (t->flags[token] & PLAIT_TOK_ENDS);
}

/* Strings are lent from the tokenizer, which never changes. */
static bool give(const plait_tokenizer *t, const plait_tok_strings *strings, plait_token token,
                 const char **out_bytes, size_t *out_n) {
    if (!in_range(t, token)) return false;
    uint32_t n;
    *out_bytes = plait_tok_string(strings, (uint32_t)token, &n);
    *out_n = n;
    return true;
}

bool plait_token_text(const plait_tokenizer *t, plait_token token, const char **out_bytes,
                      size_t *out_n_bytes) {
    return give(t, &t->texts, token, out_bytes, out_n_bytes);
}

bool plait_token_piece(const plait_tokenizer *t, plait_token token, const char **out_bytes,
                       size_t *out_n_bytes) {
    return give(t, &t->pieces, token, out_bytes, out_n_bytes);
}

plait_token_type plait_tokenizer_type(const plait_tokenizer *t, plait_token token) {
    return in_range(t, token) ? (plait_token_type)t->types[token] : PLAIT_TOKEN_NORMAL;
}

plait_token plait_token_find(const plait_tokenizer *t, const char *text, size_t n_bytes) {
    uint32_t id;
    return plait_map_get(&t->by_text, text, n_bytes, &id) ? (plait_token)id : PLAIT_NO_TOKEN;
}

/* ---- text to ids ---- */

/* One fragment, without special tokens, to ids behind those there are. prefix: a space goes in front (SentencePiece).
 * fragment_first tells plait_tok_emit_bytes where neighbours of the fragment end. */
static plait_status encode(plait_tokenizer_scratch *s, const char *text, uint32_t n_bytes, bool prefix) {
    s->fragment_first = s->out.n;
    switch (s->tokenizer->model) {
    case PLAIT_TOK_BYTE_BPE: return plait_tok_encode_byte_bpe(s, text, n_bytes);
    case PLAIT_TOK_CHAR_BPE: return plait_tok_encode_char_bpe(s, text, n_bytes);
    case PLAIT_TOK_SPM: return plait_tok_encode_spm(s, text, n_bytes, prefix);
    case PLAIT_TOK_UNIGRAM: return plait_tok_encode_unigram(s, text, n_bytes);
    case PLAIT_TOK_WORDPIECE: return plait_tok_encode_wordpiece(s, text, n_bytes);
    case PLAIT_TOK_RWKV: return plait_tok_encode_rwkv(s, text, n_bytes);
    case PLAIT_TOK_NO_MODEL: break;
    }
    return plait_error(PLAIT_UNSUPPORTED,
                       "tokenizer: the file has no vocabulary (tokenizer.ggml.model is \"none\")");
}

/* Cuts the text at special tokens and encodes what lies between. In SentencePiece a space goes in front of the text and
 * of what follows a control token, but not of what follows a user-defined one, which counts as part of the text.
 * `fresh` carries that from one match to the next. */
static plait_status encode_text(plait_tokenizer_scratch *s, const char *text, uint32_t n_bytes,
                                plait_tok_class set) {
    const plait_tokenizer *t = s->tokenizer;
    PLAIT_TRY(plait_tok_special_find(s, text, n_bytes, set));
    bool fresh = t->add_space_prefix; /* a space goes in front of what comes next */
    uint32_t at = 0;
    for (size_t i = 0; i < s->n_matches; i++) {
        plait_tok_match m = s->matches[i];
        const plait_tok_pattern *p = &t->special.patterns[m.pattern];
        /* In front of a user-defined token the space stands alone. */
        bool alone = fresh && p->user_defined && t->model == PLAIT_TOK_SPM;
        if (m.start > at || alone) {
            PLAIT_TRY(encode(s, text + at, m.start - at, fresh));
            fresh = false;
        }
        PLAIT_TRY(plait_tok_out_reserve(s, 1));
        plait_tok_emit(s, p->token);
        fresh = t->add_space_prefix && !p->user_defined;
        at = m.end;
    }
    return at < n_bytes ? encode(s, text + at, n_bytes - at, fresh) : PLAIT_OK;
}

/* Copies a segment behind the joined text; SentencePiece sees a literal U+2581 as a space. The room was made for the
 * segments' bytes; the mark is longer than the space, so the copy never is longer. A mark that is cut by a border
 * between segments stays as it is. */
static void join(plait_tokenizer_scratch *s, const char *text, size_t n_bytes) {
    char *to = s->joined.bytes + s->joined.n;
    bool spm = s->tokenizer->model == PLAIT_TOK_SPM;
    for (size_t i = 0; i < n_bytes;) {
        if (spm && n_bytes - i >= 3 && memcmp(text + i, "\xE2\x96\x81", 3) == 0)
            *to++ = ' ', i += 3;
        else
            *to++ = text[i++];
    }
    s->joined.n = (size_t)(to - s->joined.bytes);
}

/* Notes that the joined text up to here is trusted or not, in runs. A run that continues the one before replaces its
 * end. Texts are at most 2^30 bytes, so that an end and a bit fit. */
static void note_trust(plait_tokenizer_scratch *s, bool trusted) {
    uint32_t end = (uint32_t)s->joined.n;
    if (s->n_trust > 0 && (s->trust[s->n_trust - 1] & 1) == trusted) s->n_trust--;
    s->trust[s->n_trust++] = end << 1 | trusted;
}

/* All segments as one text with runs of trust. Empty segments leave no trace. On failure the scratch holds nothing of
 * use, and the caller's list is as before. */
static plait_status join_segments(plait_tokenizer_scratch *s, const plait_text_segment *segments, size_t n,
                                  size_t total) {
    PLAIT_TRY(plait_tok_bytes_reserve(&s->joined, total));
    PLAIT_TRY(plait_grow(&s->trust, &s->trust_capacity, n, sizeof *s->trust, SIZE_MAX / 16, "text segments"));
    s->joined.n = 0;
    s->n_trust = 0;
    for (size_t i = 0; i < n; i++) {
        if (segments[i].n_bytes == 0) continue;
        join(s, segments[i].text, segments[i].n_bytes);
        note_trust(s, segments[i].trusted);
    }
    return PLAIT_OK;
}

/* BOS, SEP or EOS, where they are wanted and the vocabulary has one. */
static void add_edge(plait_tokenizer_scratch *s, bool wanted, plait_token_role role) {
    plait_token id = s->tokenizer->roles[role];
    if (wanted && id != PLAIT_NO_TOKEN) plait_tok_emit(s, (uint32_t)id);
}

/* The whole text into scratch->out, then behind *out: the caller's list changes only when nothing can fail any more.
 * EOS stands for SEP where both are one token (BERT): it must not come twice. */
static plait_status run(plait_tokenizer_scratch *s, const char *text, uint32_t n_bytes, uint32_t flags,
                        plait_tok_class set, plait_tokens *out) {
    const plait_tokenizer *t = s->tokenizer;
    bool edges = flags & PLAIT_TOKENIZE_ADD_SPECIAL;
    s->out.n = 0;
    PLAIT_TRY(plait_tok_out_reserve(s, 1));
    add_edge(s, edges && t->add_bos, PLAIT_ROLE_BOS);
    if (t->model == PLAIT_TOK_NO_MODEL) return encode(s, text, n_bytes, false);
    PLAIT_TRY(encode_text(s, text, n_bytes, set));
    PLAIT_TRY(plait_tok_out_reserve(s, 2));
    add_edge(s, edges && t->add_sep && t->roles[PLAIT_ROLE_SEP] != t->roles[PLAIT_ROLE_EOS], PLAIT_ROLE_SEP);
    add_edge(s, edges && t->add_eos, PLAIT_ROLE_EOS);
    PLAIT_TRY(plait_grow(&out->ids, &out->capacity, out->n + s->out.n, sizeof *out->ids, SIZE_MAX / 16,
                         "token ids"));
    if (s->out.n == 0) return PLAIT_OK;
    memcpy(out->ids + out->n, s->out.ids, s->out.n * sizeof *out->ids);
    out->n += s->out.n;
    return PLAIT_OK;
}

/* Positions are 32 bits everywhere behind this check. */
static plait_status check_length(const plait_tokenizer *t, size_t n_bytes) {
    if (n_bytes <= t->max_text_bytes) return PLAIT_OK;
    return plait_error(PLAIT_LIMIT, "tokenizer: a text of %zu bytes, at most %zu", n_bytes,
                       t->max_text_bytes);
}

/* Without segments the whole text has one trust, which is the set of tokens that count: no runs are needed. */
plait_status plait_tokenize(const plait_tokenizer *t, plait_tokenizer_scratch *s, const char *text,
                            size_t n_bytes, uint32_t flags, plait_tokens *out) {
    if (flags &
        ~(uint32_t)(PLAIT_TOKENIZE_ADD_SPECIAL | PLAIT_TOKENIZE_PARSE_SPECIAL | PLAIT_TOKENIZE_UNTRUSTED))
        return plait_error(PLAIT_INVALID_ARGUMENT, "tokenize: unknown flags 0x%x", (unsigned)flags);
    if (s->tokenizer != t)
        return plait_error(PLAIT_INVALID_ARGUMENT, "tokenize: the scratch is another tokenizer's");
    PLAIT_TRY(check_length(t, n_bytes));
    plait_tok_class set = flags & PLAIT_TOKENIZE_UNTRUSTED       ? PLAIT_TOK_CLASS_PLAIN
                          : flags & PLAIT_TOKENIZE_PARSE_SPECIAL ? PLAIT_TOK_CLASS_ANY
                                                                 : PLAIT_TOK_CLASS_USER;
    /* Its text is copied in any case: U+2581 must become a space before special tokens are looked for. */
    if (t->model == PLAIT_TOK_SPM) {
        plait_text_segment whole = {.text = text, .n_bytes = n_bytes};
        PLAIT_TRY(join_segments(s, &whole, 1, n_bytes));
        text = s->joined.bytes;
        n_bytes = s->joined.n;
    }
    s->n_trust = 0;
    return run(s, n_bytes ? text : "", (uint32_t)n_bytes, flags, set, out);
}

/* The plain tokens count everywhere; all others where the runs say that every byte is trusted. */
plait_status plait_tokenize_segments(const plait_tokenizer *t, plait_tokenizer_scratch *s,
                                     const plait_text_segment *segments, size_t n_segments, uint32_t flags,
                                     plait_tokens *out) {
    if (flags & ~(uint32_t)PLAIT_TOKENIZE_ADD_SPECIAL)
        return plait_error(PLAIT_INVALID_ARGUMENT, "tokenize segments: unknown flags 0x%x", (unsigned)flags);
    if (s->tokenizer != t)
        return plait_error(PLAIT_INVALID_ARGUMENT, "tokenize: the scratch is another tokenizer's");
    size_t total = 0;
    for (size_t i = 0; i < n_segments; i++)
        if (!plait_add_size(total, segments[i].n_bytes, &total)) total = SIZE_MAX;
    PLAIT_TRY(check_length(t, total));
    PLAIT_TRY(join_segments(s, segments, n_segments, total));
    return run(s, s->joined.n ? s->joined.bytes : "", (uint32_t)s->joined.n, flags, PLAIT_TOK_CLASS_PLAIN,
               out);
}
