/* Tokenizers: text to token ids and back, from the metadata of a GGUF file alone.
 *
 * A tokenizer reads the keys tokenizer.ggml.* and reproduces the tokenizer that the model was made with:
 *
 *   gpt2     byte-level BPE; the rule that splits the text first is chosen by tokenizer.ggml.pre
 *   gemma4   BPE over characters, lines as pieces, byte fallback
 *   llama    SentencePiece BPE with scores and byte fallback
 *   t5       SentencePiece unigram with a precompiled normaliser
 *   bert     WordPiece, uncased
 *   rwkv     greedy longest match in a trie of byte strings
 *   none     no vocabulary: ids only, every call that needs text is UNSUPPORTED
 *
 * Where the reference implementation most people use departs from the model's own tokenizer, the model's own is
 * followed: text is brought into NFC first where the original does so, user-defined tokens stay user-defined
 * whatever their text is, and WordPiece follows the original's treatment of Hangul, marks and long words.
 *
 * Time is O(n log n) in the text for every input and vocabulary. Bytes that are not UTF-8 never fail: byte-level
 * and WordPiece vocabularies see U+FFFD for each of them, SentencePiece ones keep them through byte tokens.
 *
 * Threading: a tokenizer never changes after plait_tokenizer_create and may be shared by any number of threads;
 * each thread needs a scratch of its own. Once a scratch has seen a text of some size, a call with one no larger
 * allocates nothing except the growth of the caller's own output.
 */
#ifndef PLAIT_TOKENIZER_H
#define PLAIT_TOKENIZER_H

#include "plait/gguf.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* No such token. */
#define PLAIT_NO_TOKEN ((plait_token)-1)

/* Both are opaque. A scratch belongs to the tokenizer that it was created for. */
typedef struct plait_tokenizer plait_tokenizer;
typedef struct plait_tokenizer_scratch plait_tokenizer_scratch;

/* Zeroed: what the file says. */
typedef struct plait_tokenizer_options {
    /* Splitting rule to use instead of tokenizer.ggml.pre: one of plait_tokenizer_rule_name. Borrowed during
     * the call. Only byte-level BPE looks at it. */
    const char *pre;
    /* Longest text that a call takes, in bytes; 0: 256 MiB. Longer ones are LIMIT. */
    size_t max_text_bytes;
} plait_tokenizer_options;

/* Reads the vocabulary; the tokenizer keeps copies, gguf may be released afterwards. options may be NULL.
 * Errors: NOT_FOUND for a missing key, CORRUPT for metadata of a wrong type or that contradicts itself,
 * UNSUPPORTED for a model or splitting rule that is not known (the message lists those that are), LIMIT for
 * vocabularies beyond what any model needs (16 Mi tokens, 64 KiB in one token, 1 GiB in all). */
plait_status plait_tokenizer_create(plait_tokenizer **out_tokenizer, const plait_gguf *gguf,
                                    const plait_tokenizer_options *options);
/* NULL is accepted. All scratches and detokenizers of it must be gone. */
void plait_tokenizer_destroy(plait_tokenizer *tokenizer);

/* Names that tokenizer.ggml.pre and options.pre may have, 0, 1, ...; NULL after the last. */
const char *plait_tokenizer_rule_name(size_t index);

/* ---- the vocabulary ---- */

/* How the file marks a token. Values as in tokenizer.ggml.token_type; other numbers count as NORMAL. */
typedef enum plait_token_type {
    PLAIT_TOKEN_NORMAL = 1,
    PLAIT_TOKEN_UNKNOWN = 2,
    PLAIT_TOKEN_CONTROL = 3,
    PLAIT_TOKEN_USER_DEFINED = 4,
    PLAIT_TOKEN_UNUSED = 5,
    PLAIT_TOKEN_BYTE = 6
} plait_token_type;

/* Tokens with a role. PLAIT_NO_TOKEN where the vocabulary has none. */
typedef enum plait_token_role {
    PLAIT_ROLE_BOS,     /* begin of sequence (CLS of WordPiece) */
    PLAIT_ROLE_EOS,     /* end of sequence */
    PLAIT_ROLE_EOT,     /* end of a turn */
    PLAIT_ROLE_EOM,     /* end of a message that waits for a tool */
    PLAIT_ROLE_UNKNOWN, /* stands for what cannot be tokenised */
    PLAIT_ROLE_SEP,     /* between two texts; closes a WordPiece text */
    PLAIT_ROLE_PAD,
    PLAIT_ROLE_MASK,
    PLAIT_ROLE_COUNT
} plait_token_role;

/* "gpt2", "llama", ... as tokenizer.ggml.model. */
const char *plait_tokenizer_model(const plait_tokenizer *tokenizer);
/* Number of tokens; ids are 0 .. n - 1. */
int32_t plait_tokenizer_n_vocab(const plait_tokenizer *tokenizer);
/* PLAIT_NO_TOKEN where the vocabulary has none. */
plait_token plait_tokenizer_role(const plait_tokenizer *tokenizer, plait_token_role role);
/* What PLAIT_TOKENIZE_ADD_SPECIAL puts in front and behind. */
bool plait_tokenizer_adds_bos(const plait_tokenizer *tokenizer);
bool plait_tokenizer_adds_eos(const plait_tokenizer *tokenizer);

/* True when generation ends with this token: EOS, EOT, EOM, and the tokens whose text is a known end marker. */
bool plait_token_ends(const plait_tokenizer *tokenizer, plait_token token);
/* False for ids outside the vocabulary; then the outputs are untouched. *out_bytes is borrowed from the tokenizer
 * and not NUL-terminated. `text` is the vocabulary's own spelling (byte letters, U+2581 for a space); `piece` the
 * bytes that the token stands for: what a detokenizer emits. */
bool plait_token_text(const plait_tokenizer *tokenizer, plait_token token, const char **out_bytes,
                      size_t *out_n_bytes);
bool plait_token_piece(const plait_tokenizer *tokenizer, plait_token token, const char **out_bytes,
                       size_t *out_n_bytes);
/* The type in the file; NORMAL for ids outside the vocabulary. */
plait_token_type plait_tokenizer_type(const plait_tokenizer *tokenizer, plait_token token);
/* The token with exactly this text, PLAIT_NO_TOKEN if there is none. */
plait_token plait_token_find(const plait_tokenizer *tokenizer, const char *text, size_t n_bytes);

/* ---- text to ids ---- */

/* A growable list of ids. Zeroed: empty. */
typedef struct plait_tokens {
    plait_token *ids; /* Owned: freed by plait_tokens_deinit. */
    size_t n, capacity;
} plait_tokens;

/* Frees the ids and leaves an empty list. A zeroed one is accepted. */
void plait_tokens_deinit(plait_tokens *tokens);

/* Working memory of one thread. OUT_OF_MEMORY is the only failure. The caller destroys *out_scratch; NULL may be
 * destroyed. */
plait_status plait_tokenizer_scratch_create(plait_tokenizer_scratch **out_scratch,
                                            const plait_tokenizer *tokenizer);
void plait_tokenizer_scratch_destroy(plait_tokenizer_scratch *scratch);

enum {
    /* Put BOS, EOS, CLS and SEP where the model wants them. */
    PLAIT_TOKENIZE_ADD_SPECIAL = 1u << 0,
    /* Recognise control tokens in the text. User-defined tokens are part of the text in either case. */
    PLAIT_TOKENIZE_PARSE_SPECIAL = 1u << 1,
    /* The text comes from somebody who must not be able to write markers: user-defined tokens that look like
     * one (an end of turn, <|...|>) are spelled out too. PLAIT_TOKENIZE_PARSE_SPECIAL has no effect then. */
    PLAIT_TOKENIZE_UNTRUSTED = 1u << 2
};

/* Appends the ids of the text to *out. text may be NULL when n_bytes is 0; it may hold NUL. On failure *out is as
 * before. Errors: OUT_OF_MEMORY; LIMIT (length); UNSUPPORTED (model none); INVALID_ARGUMENT (flags). */
plait_status plait_tokenize(const plait_tokenizer *tokenizer, plait_tokenizer_scratch *scratch,
                            const char *text, size_t n_bytes, uint32_t flags, plait_tokens *out);

/* A part of a prompt. */
typedef struct plait_text_segment {
    const char *text; /* Borrowed during the call. */
    size_t n_bytes;
    /* True: the prompt's own text (a template's), special tokens are recognised. False: somebody's words, in
     * which, and across whose borders, nothing becomes a special token (PLAIT_TOKENIZE_UNTRUSTED). */
    bool trusted;
} plait_text_segment;

/* Tokenises segments as one text: what stands on both sides of a border between two segments may share a token,
 * as if the whole had been written at once, except special tokens, which must lie in trusted text with every
 * byte. flags: PLAIT_TOKENIZE_ADD_SPECIAL or 0. */
plait_status plait_tokenize_segments(const plait_tokenizer *tokenizer, plait_tokenizer_scratch *scratch,
                                     const plait_text_segment *segments, size_t n_segments, uint32_t flags,
                                     plait_tokens *out);

/* ---- ids to text ---- */

/* Turns a stream of ids into pieces of valid UTF-8. A character that is spread over several tokens comes out with
 * the token that completes it; bytes that cannot become a character come out as U+FFFD, one for each maximal part
 * of a character (the practice of the Unicode Standard, section 3.9), as soon as that is certain. The pieces of a
 * stream, the flushed one included, joined are the text of all its ids. */
typedef struct plait_detokenizer {
    const plait_tokenizer *tokenizer; /* Borrowed. */
    uint32_t flags;
    bool at_start;            /* no text came out yet */
    unsigned char pending[4]; /* begin of a character */
    uint32_t n_pending;
} plait_detokenizer;

enum {
    /* Write control and unknown tokens with their text; otherwise they give nothing. */
    PLAIT_DETOKENIZE_SPECIAL = 1u << 0,
    /* The ids are a whole text, not the continuation of one: drop the space that the tokenizer put in front of
     * it, where it did. */
    PLAIT_DETOKENIZE_WHOLE = 1u << 1
};

/* Starts a stream. No allocation, nothing to release; may be called again at any time to start anew. */
void plait_detokenizer_init(plait_detokenizer *stream, const plait_tokenizer *tokenizer, uint32_t flags);

/* Bytes of `out` that the longest answer of plait_detokenizer_feed needs, for this tokenizer. */
size_t plait_detokenizer_max_bytes(const plait_tokenizer *tokenizer);

/* Takes the next id and writes what is complete now to out (not NUL-terminated); *out_n_bytes may become 0.
 * OUT_OF_RANGE for an id outside the vocabulary or an `out` that is too small; the stream is as before then. */
plait_status plait_detokenizer_feed(plait_detokenizer *stream, plait_token token, char *out,
                                    size_t capacity_bytes, size_t *out_n_bytes);

/* Ends the stream: writes U+FFFD for a character that stayed unfinished (at most 3 bytes), else nothing. Returns
 * the number of bytes; out needs room for 3. The stream is ready for the next text. */
size_t plait_detokenizer_flush(plait_detokenizer *stream, char *out);

/* The raw bytes of a whole list of ids, bad UTF-8 included, appended to a fresh string: *out_text is the caller's
 * to free, NUL-terminated. flags as for a stream. OUT_OF_RANGE for an id outside the vocabulary. */
plait_status plait_detokenize(const plait_tokenizer *tokenizer, const plait_token *ids, size_t n,
                              uint32_t flags, char **out_text, size_t *out_n_bytes);

#ifdef __cplusplus
}
#endif
#endif
