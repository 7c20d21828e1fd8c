/* What the files of the tokenizer share: the tokenizer itself, the scratch, and the few structures they are made
 * of. Not here: anything another room needs; that is plait/tokenizer.h.
 *
 * A text goes this way:
 *
 *   segments --special.c--> fragments --prepare, split.c--> pieces --cache.c, merge.c, ...--> ids
 *
 * special.c cuts the text at special tokens. A fragment is text between two of them. A piece is the unit that the
 * merging loops see: a match of a splitting rule, or a run of characters that no token can reach across.
 */
#ifndef PLAIT_TEXT_TOKENIZER_INTERNAL_H
#define PLAIT_TEXT_TOKENIZER_INTERNAL_H

#include "base/map.h"
#include "base/status.h"
#include "plait/tokenizer.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PLAIT_TOK_NONE UINT32_MAX

enum {
    PLAIT_TOK_MAX_TOKENS = 1 << 24,      /* tokens of a vocabulary */
    PLAIT_TOK_MAX_TOKEN_BYTES = 1 << 16, /* bytes of one token */
    PLAIT_TOK_MAX_MERGE_BYTES =
        4096, /* bytes of a token that text can be merged into; longer ones only match whole */
    PLAIT_TOK_MAX_STAGES = 8,      /* regular expressions of a rule */
    PLAIT_TOK_UNIGRAM_BYTES = 256, /* bytes of a unigram token: each position looks that far */
    PLAIT_TOK_WORD_CHARS = 100     /* WordPiece: longer words are unknown */
};

typedef enum plait_tok_model {
    PLAIT_TOK_NO_MODEL,
    PLAIT_TOK_BYTE_BPE,  /* gpt2 */
    PLAIT_TOK_CHAR_BPE,  /* gemma4 */
    PLAIT_TOK_SPM,       /* llama */
    PLAIT_TOK_UNIGRAM,   /* t5 */
    PLAIT_TOK_WORDPIECE, /* bert */
    PLAIT_TOK_RWKV
} plait_tok_model;

/* n strings in one block. */
typedef struct plait_tok_strings {
    char *bytes;       /* Owned. */
    uint32_t *offsets; /* Owned. n + 1 of them. */
} plait_tok_strings;

static inline const char *plait_tok_string(const plait_tok_strings *s, uint32_t i, uint32_t *out_n) {
    *out_n = s->offsets[i + 1] - s->offsets[i];
    return s->bytes + s->offsets[i];
}

/* ---- trie.c: byte strings to values, walked byte by byte ---- */

typedef struct plait_tok_trie {
    uint64_t *slots; /* Owned. Edges: (node << 8 | byte) << 32 | child; 0: free. */
    size_t n_slots, n_edges;
    uint64_t multiplier;
    uint32_t *values; /* Owned. By node; PLAIT_TOK_NONE: no string ends here. */
    uint32_t n_nodes; /* node 0 is the root */
    size_t values_capacity;
    uint32_t root[256]; /* children of the root, 0: none */
} plait_tok_trie;

plait_status plait_tok_trie_init(plait_tok_trie *trie);
void plait_tok_trie_deinit(plait_tok_trie *trie);
/* Adds a string (not empty) and sets *out_node to its end. The value is set by the caller. */
plait_status plait_tok_trie_add(plait_tok_trie *trie, const char *key, uint32_t key_bytes,
                                uint32_t *out_node);
/* Where the search for an edge begins. */
static inline size_t plait_tok_trie_slot(const plait_tok_trie *trie, uint32_t key) {
    uint64_t h = (key + 1ull) * trie->multiplier;
    return (size_t)(h ^ h >> 32) & (trie->n_slots - 1);
}

/* The child of a node, 0 when there is none. */
static inline uint32_t plait_tok_trie_step(const plait_tok_trie *trie, uint32_t node, unsigned char byte) {
    if (node == 0) return trie->root[byte];
    uint32_t key = node << 8 | byte;
    for (size_t i = plait_tok_trie_slot(trie, key);; i = (i + 1) & (trie->n_slots - 1)) {
        if (trie->slots[i] == 0) return 0;
        if (trie->slots[i] >> 32 == key) return (uint32_t)trie->slots[i];
    }
}

/* ---- special.c: the automaton that finds special tokens ---- */

/* When a special token counts. Each set contains the ones behind it. */
typedef enum plait_tok_class {
    PLAIT_TOK_CLASS_ANY,   /* control tokens: only in trusted text with PARSE_SPECIAL */
    PLAIT_TOK_CLASS_USER,  /* user-defined ones that look like markers: not in untrusted text */
    PLAIT_TOK_CLASS_PLAIN, /* the other user-defined ones: always */
    PLAIT_TOK_CLASSES
} plait_tok_class;

/* A special token. Patterns are sorted by length, longest first, then by id: the index is the rank. */
typedef struct plait_tok_pattern {
    uint32_t token, n_bytes;
    plait_tok_class class;
    bool strip_left, strip_right; /* white space there goes with the token */
    bool user_defined;            /* SentencePiece puts no space behind these */
    /* For each set of classes, the next shorter pattern that ends where this one ends, a farther one, and the
     * number of those to come: a search for one of at most n bytes takes O(log patterns). */
    uint32_t next[PLAIT_TOK_CLASSES], jump[PLAIT_TOK_CLASSES], depth[PLAIT_TOK_CLASSES];
} plait_tok_pattern;

typedef struct plait_tok_special {
    plait_tok_pattern *patterns; /* Owned. */
    uint32_t n_patterns;
    bool any_strip, any_user;
    plait_tok_trie trie;
    uint32_t *fail,
        *longest; /* Owned. By node: the longest proper suffix, the longest pattern that ends here. */
} plait_tok_special;

/* ---- merges.c ---- */

typedef struct plait_tok_merge {
    uint32_t left, right, rank, merged; /* left PLAIT_TOK_NONE: a free slot */
} plait_tok_merge;

typedef struct plait_tok_merges {
    plait_tok_merge *slots; /* Owned. */
    size_t n_slots, n_used;
    uint64_t multiplier;
} plait_tok_merges;

/* ---- split.c ---- */

struct pcre2_real_code_8;
struct pcre2_real_match_data_8;
struct pcre2_real_match_context_8;
struct pcre2_real_jit_stack_8;

typedef struct plait_tok_rule plait_tok_rule;

/* One name that tokenizer.ggml.pre may have. */
typedef struct plait_tok_pre {
    const char *name;
    const plait_tok_rule *rule;
    bool nfc;          /* the original brings text into NFC first */
    bool whole_pieces; /* a piece that is a token is taken without merging */
    bool add_bos;      /* default where the file has no add_bos_token */
} plait_tok_pre;

typedef struct plait_tok_split {
    struct pcre2_real_code_8 *stages[PLAIT_TOK_MAX_STAGES]; /* Owned. */
    bool jit[PLAIT_TOK_MAX_STAGES];
    uint32_t n_stages;
} plait_tok_split;

/* ---- the tokenizer ---- */

struct plait_tokenizer {
    plait_tok_model model;
    const char *model_name;
    uint32_t n_tokens;
    size_t max_text_bytes;
    plait_tok_strings texts, pieces;
    uint32_t max_piece_bytes;
    uint8_t *types; /* Owned. plait_token_type */
    uint8_t *flags; /* Owned. PLAIT_TOK_ENDS ... */
    float *scores;  /* Owned. NULL where the model has none. */
    plait_map by_text;
    plait_token roles[PLAIT_ROLE_COUNT];
    bool add_bos, add_eos, add_sep, add_space_prefix, remove_extra_spaces;
    bool nfc, whole_pieces, has_unused;
    /* White space behind control tokens goes with them (Phi-3); white space before <mask> does. */
    bool strip_behind, strip_before_mask;
    uint32_t max_merge_bytes; /* longest token that text can become by merging */
    plait_tok_special special;
    plait_tok_split split;
    plait_tok_merges merges;
    plait_map symbols;          /* byte strings to symbols: ids, or n_tokens and more for what is no token */
    uint32_t byte_symbols[256]; /* byte-level: the symbol of a byte */
    uint32_t byte_tokens[256];  /* <0xXX>, PLAIT_TOK_NONE if missing */
    char *extra_bytes;          /* Owned. Texts of symbols that are no tokens. */
    uint64_t *joins;            /* Owned. Bloom filter of character pairs inside tokens; see piece.c */
    plait_tok_trie trie;        /* unigram, WordPiece, RWKV */
    float unknown_score;
    unsigned char *charsmap; /* Owned. */
    size_t charsmap_bytes, charsmap_trie_units;
};

enum {
    PLAIT_TOK_ENDS = 1,     /* generation ends with it */
    PLAIT_TOK_MARKER = 2,   /* its text is a known marker, or looks like one */
    PLAIT_TOK_HIDDEN = 4,   /* a detokenizer shows it only on demand */
    PLAIT_TOK_MERGEABLE = 8 /* text can become it */
};

/* load.c: fills everything from the metadata. */
plait_status plait_tok_load(plait_tokenizer *t, const plait_gguf *gguf,
                            const plait_tokenizer_options *options);
/* markers.c: flags and the roles that are found by text. */
void plait_tok_mark(plait_tokenizer *t);
void plait_tok_strips(const plait_tokenizer *t, uint32_t id, bool *out_left, bool *out_right);
/* rules.c */
plait_status plait_tok_pre_find(const char *name, size_t n_bytes, const plait_tok_pre **out_pre);
const plait_tok_pre *plait_tok_pre_newlines(void);
uint32_t plait_tok_rule_stages(const plait_tok_rule *rule, const char *const **out_stages);

/* ---- scratch ---- */

typedef struct plait_tok_bytes {
    char *bytes; /* Owned. */
    size_t n, capacity;
} plait_tok_bytes;

/* Bytes [start, start + n) of a piece; as a list while merging. */
typedef struct plait_tok_symbol {
    uint32_t id, start, prev, next;
} plait_tok_symbol;

/* A pair of symbols that could be merged, by priority, then by position. */
typedef struct plait_tok_candidate {
    uint64_t key; /* priority << 32 | index of the left symbol */
    uint32_t middle, end;
} plait_tok_candidate;

/* An accepted special token: bytes [start, end), stripped white space included. */
typedef struct plait_tok_match {
    uint32_t start, end, pattern;
} plait_tok_match;

/* A place where special tokens end, and the longest of them that counts. */
typedef struct plait_tok_found {
    uint32_t end, pattern;
    uint32_t low; /* where the first of this and all later ones begins: a long one may reach back over many */
} plait_tok_found;

/* Pieces of up to 28 bytes and 7 ids, remembered. 64 bytes: one cache line. */
enum { PLAIT_TOK_CACHE_KEY = 28, PLAIT_TOK_CACHE_IDS = 7, PLAIT_TOK_CACHE_SLOTS = 1 << 14 };
typedef struct plait_tok_cached {
    uint32_t hash;
    uint8_t n_bytes, n_ids;
    uint8_t unused[2];
    char key[PLAIT_TOK_CACHE_KEY];
    uint32_t ids[PLAIT_TOK_CACHE_IDS];
} plait_tok_cached;

struct plait_tokenizer_scratch {
    const plait_tokenizer *tokenizer; /* Borrowed. */
    /* Work done: heap and trie steps, matches. For tests that bound time without a clock. */
    uint64_t n_steps;
    plait_tokens out;
    size_t fragment_first;   /* where the ids of the fragment at work begin in out */
    plait_tok_cached *cache; /* Owned. */
    uint64_t seed;
    plait_tok_bytes joined, prepared, normal; /* texts: joined segments, repaired or escaped, normalised */
    int32_t *codes;                           /* Owned. Code points while normalising. */
    size_t codes_capacity;
    int32_t *sorted; /* Owned. */
    size_t sorted_capacity;
    plait_tok_symbol *symbols; /* Owned. */
    size_t symbols_capacity;
    plait_tok_candidate *heap; /* Owned. */
    size_t heap_capacity, n_heap;
    uint32_t
        *unused_split; /* Owned. By token: bytes of the left part that an unused token was merged from. */
    plait_tok_found *found; /* Owned. */
    size_t found_capacity;
    uint64_t *keys; /* Owned. Heap of special.c. */
    size_t keys_capacity;
    uint64_t *cover[5]; /* Owned. Bytes taken by special tokens, as a tree of bitmaps. */
    size_t cover_capacity[5];
    plait_tok_match *matches; /* Owned. */
    size_t matches_capacity, n_matches;
    uint32_t *trust; /* Owned. Runs of equal trust in the joined text: end << 1 | trusted. */
    size_t trust_capacity, n_trust;
    double *best_score; /* Owned. Viterbi. */
    size_t best_score_capacity;
    uint32_t *best_start, *best_token; /* Owned. */
    size_t best_start_capacity, best_token_capacity;
    bool after_unknown; /* since the last look into the cache: a character without tokens was met */
    struct pcre2_real_match_data_8 *match_data;
    struct pcre2_real_match_context_8 *match_context;
    struct pcre2_real_jit_stack_8 *jit_stack;
};

/* ---- special.c ---- */

plait_status plait_tok_special_init(plait_tokenizer *t);
void plait_tok_special_deinit(plait_tok_special *special);

/* Finds the special tokens of the text into scratch->matches, in order. Those of `set` count everywhere, all others
 * where scratch->trust says that every byte is trusted. */
plait_status plait_tok_special_find(plait_tokenizer_scratch *s, const char *text, uint32_t n_bytes,
                                    plait_tok_class set);

/* ---- split.c ---- */

plait_status plait_tok_split_compile(plait_tok_split *split, const plait_tok_rule *rule);
void plait_tok_split_deinit(plait_tok_split *split);
plait_status plait_tok_split_scratch(plait_tokenizer_scratch *s);
void plait_tok_split_scratch_deinit(plait_tokenizer_scratch *s);
typedef plait_status (*plait_tok_piece_fn)(plait_tokenizer_scratch *s, const char *piece, uint32_t n_bytes);
/* Calls `piece` for the pieces of valid UTF-8 text, in order. */
plait_status plait_tok_split_run(plait_tokenizer_scratch *s, const char *text, uint32_t n_bytes,
                                 plait_tok_piece_fn piece);

/* ---- merges.c, merge.c ---- */

plait_status plait_tok_merges_load(plait_tokenizer *t, const plait_gguf *gguf);
void plait_tok_merges_deinit(plait_tok_merges *merges);
const plait_tok_merge *plait_tok_merges_find(const plait_tok_merges *merges, uint32_t left, uint32_t right);
/* Merges the n symbols of the piece until no pair can be, and leaves the rest in order in scratch->symbols[0 ..
 * *out_n). Symbols need id and start. */
plait_status plait_tok_merge_run(plait_tokenizer_scratch *s, const char *piece, uint32_t n_bytes, uint32_t n,
                                 uint32_t *out_n);
/* The token that bytes can become by merging, PLAIT_TOK_NONE if there is none. */
uint32_t plait_tok_lookup(const plait_tokenizer *t, const char *bytes, uint32_t n_bytes);

/* ---- one file per model: a fragment to ids ---- */

plait_status plait_tok_encode_byte_bpe(plait_tokenizer_scratch *s, const char *text, uint32_t n_bytes);
plait_status plait_tok_encode_char_bpe(plait_tokenizer_scratch *s, const char *text, uint32_t n_bytes);
plait_status plait_tok_encode_spm(plait_tokenizer_scratch *s, const char *text, uint32_t n_bytes,
                                  bool prefix);
plait_status plait_tok_encode_unigram(plait_tokenizer_scratch *s, const char *text, uint32_t n_bytes);
plait_status plait_tok_encode_wordpiece(plait_tokenizer_scratch *s, const char *text, uint32_t n_bytes);
plait_status plait_tok_encode_rwkv(plait_tokenizer_scratch *s, const char *text, uint32_t n_bytes);

plait_status plait_tok_unigram_load(plait_tokenizer *t, const plait_gguf *gguf);
plait_status plait_tok_wordpiece_load(plait_tokenizer *t);
plait_status plait_tok_rwkv_load(plait_tokenizer *t);

/* ---- piece.c: characters that no token joins ---- */

/* Fills t->symbols with the tokens that text can become. */
plait_status plait_tok_symbols_load(plait_tokenizer *t);
/* Fills t->joins from all tokens that text can become. */
plait_status plait_tok_joins_load(plait_tokenizer *t);
/* Cuts text where no token reaches across, and calls `piece` for each part. Bytes that are not UTF-8 stand alone. */
plait_status plait_tok_pieces(plait_tokenizer_scratch *s, const char *text, uint32_t n_bytes,
                              plait_tok_piece_fn piece);

/* ---- nfc.c ---- */

/* The text in NFC: either text itself, or scratch->normal. The text is valid UTF-8. */
plait_status plait_tok_nfc(plait_tokenizer_scratch *s, const char **text, uint32_t *n_bytes);
/* Canonical decomposition of text into scratch->codes, marks in canonical order; *out_n code points. */
plait_status plait_tok_decompose(plait_tokenizer_scratch *s, const char *text, uint32_t n_bytes,
                                 size_t *out_n);

/* ---- scratch.c ---- */

/* The text with U+FFFD for each byte that is not UTF-8: either itself, or scratch->prepared. */
plait_status plait_tok_repair(plait_tokenizer_scratch *s, const char **text, uint32_t *n_bytes);
plait_status plait_tok_bytes_reserve(plait_tok_bytes *b, size_t n_bytes);
/* Makes room for n more ids, so that plait_tok_emit cannot fail that often. */
plait_status plait_tok_out_reserve(plait_tokenizer_scratch *s, size_t n);
static inline void plait_tok_emit(plait_tokenizer_scratch *s, uint32_t id) {
    s->out.ids[s->out.n++] = (plait_token)id;
}
/* Emits the <0xXX> tokens of bytes, or the unknown token, once for neighbours in a fragment. */
void plait_tok_emit_bytes(plait_tokenizer_scratch *s, const char *bytes, uint32_t n_bytes);

/* ---- cache.c ---- */

/* True and the ids emitted when the piece is known; *out_hash is for the call below. */
bool plait_tok_cache_get(plait_tokenizer_scratch *s, const char *piece, uint32_t n_bytes, uint32_t *out_hash);
/* Remembers that the piece gave the ids emitted since `first`. */
void plait_tok_cache_put(plait_tokenizer_scratch *s, const char *piece, uint32_t n_bytes, uint32_t hash,
                         size_t first);

#endif
