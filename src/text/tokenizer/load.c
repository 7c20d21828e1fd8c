/* From the metadata of a file to a tokenizer. Everything is checked here: counts that must agree, types, ranges,
 * lengths. What comes after can rely on it. Not here: what a text of a token means (markers.c), merges (merges.c).
 *
 * Keys and their meaning: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md, section Tokenizer.
 *
 * Invariant: nothing of the file is kept but copies, so it may be released afterwards; on failure the caller destroys
 * what is there, half made as it is. */
#include "base/alloc.h"
#include "base/size.h"
#include "base/utf8.h"
#include "text/tokenizer/internal.h"
#include "text/tokenizer/letters.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define KEY "tokenizer.ggml."

/* 2^30 is the most that 32-bit positions with a bit of trust allow. */
enum { DEFAULT_MAX_TEXT = 256 << 20, MAX_TEXT = 1 << 30 };

/* "no_vocab" is an older spelling of "none". */
static const struct model_row {
    const char *name;
    plait_tok_model model;
} models[] = {
    {"gpt2", PLAIT_TOK_BYTE_BPE}, {"gemma4", PLAIT_TOK_CHAR_BPE},   {"llama", PLAIT_TOK_SPM},
    {"t5", PLAIT_TOK_UNIGRAM},    {"bert", PLAIT_TOK_WORDPIECE},    {"rwkv", PLAIT_TOK_RWKV},
    {"none", PLAIT_TOK_NO_MODEL}, {"no_vocab", PLAIT_TOK_NO_MODEL},
};

/* tokenizer.ggml.model decides everything else. The name is stored as the table's literal, so it outlives the file. */
static plait_status load_model(plait_tokenizer *t, const plait_gguf *gguf) {
    plait_gguf_string name;
    PLAIT_TRY(plait_gguf_get_string(gguf, KEY "model", &name));
    for (size_t i = 0; i < PLAIT_COUNT_OF(models); i++) {
        if (!plait_gguf_string_is(name, models[i].name)) continue;
        t->model = models[i].model;
        t->model_name = models[i].name;
        return PLAIT_OK;
    }
    return plait_error(
        PLAIT_UNSUPPORTED,
        KEY "model: the tokenizer \"%.*s\" is not known; known are: gpt2, gemma4, llama, t5, bert, rwkv, "
            "none",
        (int)(name.length > 64 ? 64 : name.length), name.bytes);
}

/* One copy of all texts, and the map from text to id; of equal texts the last id counts, as in a dictionary that is
 * filled in order. Offsets are 32 bits, hence the limit of 1 GiB. The map borrows the copies. Duplicates are legal. */
static plait_status load_texts(plait_tokenizer *t, const plait_gguf_value *tokens) {
    size_t total = 0;
    /* Sizes first, so that all texts are one allocation of the right size. */
    for (uint64_t i = 0; i < tokens->count; i++) {
        size_t n = tokens->strings[i].length;
        if (n > PLAIT_TOK_MAX_TOKEN_BYTES)
            return plait_error(PLAIT_LIMIT, KEY "tokens[%llu]: %zu bytes, at most %d", (unsigned long long)i,
                               n, PLAIT_TOK_MAX_TOKEN_BYTES);
        if (!plait_add_size(total, n, &total) || total > (1u << 30))
            return plait_error(PLAIT_LIMIT, KEY "tokens: more than 1 GiB in all");
    }
    t->texts.bytes = plait_alloc_array(total + 1, 1);
    t->texts.offsets = plait_alloc_array((size_t)tokens->count + 1, sizeof *t->texts.offsets);
    if (!t->texts.bytes || !t->texts.offsets) return plait_error_memory("tokens", total);
    PLAIT_TRY(plait_map_reserve(&t->by_text, tokens->count));
    uint32_t at = 0;
    for (uint32_t i = 0; i < t->n_tokens; i++) {
        plait_gguf_string text = tokens->strings[i];
        t->texts.offsets[i] = at;
        if (text.length) memcpy(t->texts.bytes + at, text.bytes, text.length);
        PLAIT_TRY(plait_map_put(&t->by_text, t->texts.bytes + at, text.length, i, NULL));
        at += (uint32_t)text.length;
        t->texts.offsets[i + 1] = at;
    }
    return PLAIT_OK;
}

/* An array that belongs to the tokens, or NULL when the file has none. A column of another length belongs to another
 * vocabulary: reading it by token would be reading past its end or giving tokens each other's values. */
static plait_status find_column(const plait_tokenizer *t, const plait_gguf *gguf, const char *key,
                                const plait_gguf_value **out) {
    const plait_gguf_value *value = plait_gguf_find(gguf, key);
    if (value && value->type != PLAIT_GGUF_ARRAY)
        return plait_error(PLAIT_CORRUPT, "%s: expected an array, found %s", key,
                           plait_gguf_type_name(value->type));
    if (value && value->count != t->n_tokens)
        return plait_error(PLAIT_CORRUPT, "%s: expected %u values, one for each token, found %llu", key,
                           t->n_tokens, (unsigned long long)value->count);
    *out = value;
    return PLAIT_OK;
}

/* Types out of the known range count as normal: converters have written others. No column means that all tokens are
 * normal. */
static plait_status load_types(plait_tokenizer *t, const plait_gguf *gguf) {
    const plait_gguf_value *column;
    PLAIT_TRY(find_column(t, gguf, KEY "token_type", &column));
    t->types = plait_alloc_array(t->n_tokens, 1);
    t->flags = plait_alloc_array(t->n_tokens, 1);
    if (!t->types || !t->flags) return plait_error_memory("token types", t->n_tokens);
    for (uint32_t i = 0; i < t->n_tokens; i++) {
        int64_t type = PLAIT_TOKEN_NORMAL;
        if (column && !plait_gguf_elem_i64(column, i, &type))
            return plait_error(PLAIT_CORRUPT, KEY "token_type: expected integers, found %s",
                               plait_gguf_type_name(column->elem_type));
        if (type < PLAIT_TOKEN_NORMAL || type > PLAIT_TOKEN_BYTE) type = PLAIT_TOKEN_NORMAL;
        t->types[i] = (uint8_t)type;
        /* With such tokens SPM's scratch keeps how they were joined. */
        t->has_unused |= type == PLAIT_TOKEN_UNUSED;
    }
    return PLAIT_OK;
}

/* Scores must be finite: merging orders by them, and NaN has no order. They are checked as floats, which is what they
 * are kept as: a finite double may be none. */
static plait_status load_scores(plait_tokenizer *t, const plait_gguf *gguf) {
    const plait_gguf_value *column;
    PLAIT_TRY(find_column(t, gguf, KEY "scores", &column));
    /* Others may have scores that mean nothing to them; their length is checked all the same. */
    if (t->model != PLAIT_TOK_SPM && t->model != PLAIT_TOK_UNIGRAM) return PLAIT_OK;
    if (!column)
        return plait_error(PLAIT_NOT_FOUND, KEY "scores: missing, and the tokenizer %s needs them",
                           t->model_name);
    t->scores = plait_alloc_array(t->n_tokens, sizeof *t->scores);
    if (!t->scores) return plait_error_memory("token scores", t->n_tokens * sizeof *t->scores);
    for (uint32_t i = 0; i < t->n_tokens; i++) {
        double score;
        if (!plait_gguf_elem_f64(column, i, &score))
            return plait_error(PLAIT_CORRUPT, KEY "scores: expected floats, found %s",
                               plait_gguf_type_name(column->elem_type));
        if (!isfinite((float)score)) return plait_error(PLAIT_CORRUPT, KEY "scores[%u]: %g", i, score);
        t->scores[i] = (float)score;
    }
    return PLAIT_OK;
}

/* Ids that the tokenizers have when the file does not say; they are taken only where there are that many tokens. A role
 * that has two rows takes either key; "seperator" is how files spell it. Rows in order, so a key that is there wins
 * over a default that came before it. */
static const struct role_row {
    const char *key;
    plait_token_role role;
    plait_token spm, unigram, wordpiece;
} role_rows[] = {
    {KEY "bos_token_id", PLAIT_ROLE_BOS, 1, -1, 101},
    {KEY "cls_token_id", PLAIT_ROLE_BOS, -1, -1, 101},
    {KEY "eos_token_id", PLAIT_ROLE_EOS, 2, 1, -1},
    {KEY "eot_token_id", PLAIT_ROLE_EOT, -1, -1, -1},
    {KEY "eom_token_id", PLAIT_ROLE_EOM, -1, -1, -1},
    {KEY "unknown_token_id", PLAIT_ROLE_UNKNOWN, 0, 2, 100},
    {KEY "seperator_token_id", PLAIT_ROLE_SEP, -1, -1, 102},
    {KEY "separator_token_id", PLAIT_ROLE_SEP, -1, -1, 102},
    {KEY "padding_token_id", PLAIT_ROLE_PAD, -1, 0, 0},
    {KEY "mask_token_id", PLAIT_ROLE_MASK, -1, -1, 103},
};

/* Ids out of range are refused, not replaced by a default: the file would mean another token. A default is taken only
 * where the id exists in this vocabulary, so a tiny vocabulary gets no BOS it does not have. */
static plait_status load_roles(plait_tokenizer *t, const plait_gguf *gguf) {
    for (int role = 0; role < PLAIT_ROLE_COUNT; role++) t->roles[role] = PLAIT_NO_TOKEN;
    for (size_t i = 0; i < PLAIT_COUNT_OF(role_rows); i++) {
        const struct role_row *row = &role_rows[i];
        const plait_gguf_value *value = plait_gguf_find(gguf, row->key);
        int64_t id = t->model == PLAIT_TOK_SPM         ? row->spm
                     : t->model == PLAIT_TOK_UNIGRAM   ? row->unigram
                     : t->model == PLAIT_TOK_WORDPIECE ? row->wordpiece
                                                       : -1;
        if (!value) {
            /* Not over a key that came before in the table. */
            if (id >= 0 && id < t->n_tokens && t->roles[row->role] == PLAIT_NO_TOKEN)
                t->roles[row->role] = (plait_token)id;
            continue;
        }
        if (value->type == PLAIT_GGUF_ARRAY || !plait_gguf_elem_i64(value, 0, &id))
            return plait_error(PLAIT_CORRUPT, "%s: expected an integer, found %s", row->key,
                               plait_gguf_type_name(value->type));
        if (id == -1 || id == UINT32_MAX) continue; /* how some files say: none */
        if (id < 0 || id >= t->n_tokens)
            return plait_error(PLAIT_CORRUPT, "%s: expected an id below %u, found %lld", row->key,
                               t->n_tokens, (long long)id);
        t->roles[row->role] = (plait_token)id;
    }
    return PLAIT_OK;
}

/* True when text has `part` (in lower case) in any letter case. Only ASCII letters are folded. */
static bool contains(plait_gguf_string text, const char *part) {
    size_t n = strlen(part);
    for (size_t i = 0; i + n <= text.length; i++) {
        size_t j = 0;
        while (j < n && (text.bytes[i + j] |
                         (text.bytes[i + j] >= 'A' && text.bytes[i + j] <= 'Z' ? 0x20 : 0)) == part[j])
            j++;
        if (j == n) return true;
    }
    return false;
}

/* An optional string; *out is empty when it is missing. */
static plait_status get_string_or_empty(const plait_gguf *gguf, const char *key, plait_gguf_string *out) {
    *out = (plait_gguf_string){.bytes = "", .length = 0};
    return plait_gguf_find(gguf, key) ? plait_gguf_get_string(gguf, key, out) : PLAIT_OK;
}

/* The splitting rule: what the caller asks for, or the file, or what is known about files that say nothing. "none" is a
 * rule too: what such files were tokenised with. An unknown name fails rather than falling back: a wrong splitting rule
 * gives other tokens without any sign of it. */
static plait_status load_rule(plait_tokenizer *t, const plait_gguf *gguf,
                              const plait_tokenizer_options *options) {
    plait_gguf_string pre, architecture;
    PLAIT_TRY(get_string_or_empty(gguf, KEY "pre", &pre));
    PLAIT_TRY(get_string_or_empty(gguf, "general.architecture", &architecture));
    /* The caller knows better than a file that was converted before its rule had a name. */
    if (options && options->pre)
        pre = (plait_gguf_string){.bytes = options->pre, .length = strlen(options->pre)};
    else if (pre.length == 0)
        pre = plait_gguf_string_is(architecture, "gptneox")
                  ? (plait_gguf_string){.bytes = "gpt-neox", .length = 8}
                  : (plait_gguf_string){.bytes = "none", .length = 4};
    const plait_tok_pre *row;
    PLAIT_TRY(plait_tok_pre_find(pre.bytes, pre.length, &row));
    t->nfc = row->nfc;
    t->whole_pieces = row->whole_pieces;
    t->add_bos = row->add_bos;
    return plait_tok_split_compile(&t->split, row->rule);
}

/* What goes in front and behind, and habits that only the model's name tells: Phi-3's special tokens take the white
 * space behind them along, XLM-R's <mask> that before it. The file's own words win over habits of the model, which win
 * over nothing being said. All keys are optional; a key of another type than bool is an error of the file. */
static plait_status load_switches(plait_tokenizer *t, const plait_gguf *gguf,
                                  const plait_tokenizer_options *options) {
    t->add_bos = t->model == PLAIT_TOK_SPM || t->model == PLAIT_TOK_WORDPIECE;
    t->add_eos = t->model == PLAIT_TOK_UNIGRAM;
    t->add_sep = t->model == PLAIT_TOK_WORDPIECE;
    /* Only these models put a space in front at all; for others the key is ignored. */
    bool prefix = t->model == PLAIT_TOK_SPM || t->model == PLAIT_TOK_UNIGRAM;
    if (t->model == PLAIT_TOK_BYTE_BPE) PLAIT_TRY(load_rule(t, gguf, options));
    PLAIT_TRY(plait_gguf_get_bool_or(gguf, KEY "add_bos_token", t->add_bos, &t->add_bos));
    PLAIT_TRY(plait_gguf_get_bool_or(gguf, KEY "add_eos_token", t->add_eos, &t->add_eos));
    PLAIT_TRY(plait_gguf_get_bool_or(gguf, KEY "add_sep_token", t->add_sep, &t->add_sep));
    PLAIT_TRY(plait_gguf_get_bool_or(gguf, KEY "add_space_prefix", prefix, &t->add_space_prefix));
    if (!prefix) t->add_space_prefix = false;
    PLAIT_TRY(plait_gguf_get_bool_or(gguf, KEY "remove_extra_whitespaces", t->model == PLAIT_TOK_UNIGRAM,
                                     &t->remove_extra_spaces));
    plait_gguf_string name, architecture, pre;
    PLAIT_TRY(get_string_or_empty(gguf, "general.name", &name));
    PLAIT_TRY(get_string_or_empty(gguf, "general.architecture", &architecture));
    PLAIT_TRY(get_string_or_empty(gguf, KEY "pre", &pre));
    t->strip_before_mask = contains(architecture, "nomic-bert-moe") || contains(architecture, "jina-bert-v3");
    t->strip_behind = !t->strip_before_mask && (contains(name, "phi-3") || contains(name, "phi3"));
    return PLAIT_OK;
}

static int hex_digit(char c) {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    return -1;
}

/* "<0x1F>" Six characters exactly; either case of the digits, though the format writes capitals. */
static bool parse_byte_token(const char *text, uint32_t n, char *out) {
    if (n != 6 || memcmp(text, "<0x", 3) != 0 || text[5] != '>') return false;
    int high = hex_digit(text[3]), low = hex_digit(text[4]);
    if (high < 0 || low < 0) return false;
    *out = (char)(high << 4 | low);
    return true;
}

/* Python's escapes as RWKV vocabularies have them. Unknown escapes stand for the character behind the backslash. The
 * result is never longer than the text. */
static size_t unescape(const char *text, uint32_t n, char *out) {
    size_t used = 0;
    for (uint32_t i = 0; i < n; i++) {
        char c = text[i];
        if (c == '\\' && i + 1 < n) {
            c = text[++i];
            if (c == 'x' && i + 2 < n && hex_digit(text[i + 1]) >= 0 && hex_digit(text[i + 2]) >= 0) {
                c = (char)(hex_digit(text[i + 1]) << 4 | hex_digit(text[i + 2]));
                i += 2;
            } else {
                c = (char)(c == 't' ? '\t' : c == 'n' ? '\n' : c == 'r' ? '\r' : c);
            }
        }
        out[used++] = c;
    }
    return used;
}

/* U+2581 stands for a space. */
static size_t unmark_spaces(const char *text, uint32_t n, char *out) {
    size_t used = 0;
    for (uint32_t i = 0; i < n;) {
        if (n - i >= 3 && memcmp(text + i, "\xE2\x96\x81", 3) == 0)
            out[used++] = ' ', i += 3;
        else
            out[used++] = text[i++];
    }
    return used;
}

/* The bytes that a token stands for; never more than its text has. Control and user-defined tokens stand for their text
 * as it is, without letters or marks: they are written by templates, not by the encoder. `out` has room for the token's
 * text. */
static size_t piece_of(const plait_tokenizer *t, uint32_t id, char *out) {
    uint32_t n;
    size_t used;
    const char *text = plait_tok_string(&t->texts, id, &n);
    uint8_t type = t->types[id];
    bool plain = type == PLAIT_TOKEN_NORMAL || type == PLAIT_TOKEN_UNUSED;
    /* A byte token with another text stands for that text. */
    if (type == PLAIT_TOKEN_BYTE && parse_byte_token(text, n, out)) return 1;
    if (plain) {
        if (t->model == PLAIT_TOK_BYTE_BPE) {
            /* Texts with characters beyond the alphabet of bytes are taken as they are. */
            if (plait_tok_letters_decode(text, n, out, &used)) return used;
        } else if (t->model == PLAIT_TOK_RWKV) {
            return unescape(text, n, out);
        } else {
            return unmark_spaces(text, n, out);
        }
    }
    if (n) memcpy(out, text, n);
    return n;
}

/* Pieces are made once, so that a detokenizer only copies. Room of all texts is enough, since no piece is longer than
 * its text. max_piece_bytes lets a detokenizer reserve once. */
static plait_status load_pieces(plait_tokenizer *t) {
    t->pieces.bytes = plait_alloc_array((size_t)t->texts.offsets[t->n_tokens] + 1, 1);
    t->pieces.offsets = plait_alloc_array((size_t)t->n_tokens + 1, sizeof *t->pieces.offsets);
    if (!t->pieces.bytes || !t->pieces.offsets)
        return plait_error_memory("tokens", t->texts.offsets[t->n_tokens]);
    uint32_t at = 0;
    for (uint32_t id = 0; id < t->n_tokens; id++) {
        uint32_t n = (uint32_t)piece_of(t, id, t->pieces.bytes + at);
        at += n;
        /* offsets[0] is 0 from the allocation. */
        t->pieces.offsets[id + 1] = at;
        if (n > t->max_piece_bytes) t->max_piece_bytes = n;
    }
    return PLAIT_OK;
}

/* Found by text, for not all files mark them with the type byte. Capitals only, as the format writes them. */
static void load_byte_tokens(plait_tokenizer *t) {
    static const char digits[] = "0123456789ABCDEF";
    for (uint32_t b = 0; b < 256; b++) {
        char text[6] = {'<', '0', 'x', digits[b >> 4], digits[b & 15], '>'};
        if (!plait_map_get(&t->by_text, text, sizeof text, &t->byte_tokens[b]))
            t->byte_tokens[b] = PLAIT_TOK_NONE;
    }
}

/* A merging loop hashes what it looks up: the longest token bounds that. Only tokens that a merge can produce count: a
 * long control token does no harm, since it is found by the automaton of special.c. */
static plait_status check_lengths(const plait_tokenizer *t) {
    if (t->max_merge_bytes <= PLAIT_TOK_MAX_MERGE_BYTES) return PLAIT_OK;
    return plait_error(PLAIT_LIMIT, KEY "tokens: one that text can become has %u bytes, at most %d",
                       t->max_merge_bytes, PLAIT_TOK_MAX_MERGE_BYTES);
}

/* The structures of each model's own search. */
static plait_status load_search(plait_tokenizer *t, const plait_gguf *gguf) {
    switch (t->model) {
    case PLAIT_TOK_BYTE_BPE: PLAIT_TRY(plait_tok_merges_load(t, gguf)); break;
    case PLAIT_TOK_CHAR_BPE:
        PLAIT_TRY(plait_tok_merges_load(t, gguf));
        PLAIT_TRY(plait_tok_joins_load(t));
        break;
    case PLAIT_TOK_SPM:
        PLAIT_TRY(plait_tok_symbols_load(t));
        PLAIT_TRY(plait_tok_joins_load(t));
        break;
    case PLAIT_TOK_UNIGRAM: PLAIT_TRY(plait_tok_unigram_load(t, gguf)); break;
    case PLAIT_TOK_WORDPIECE: PLAIT_TRY(plait_tok_wordpiece_load(t)); break;
    case PLAIT_TOK_RWKV: PLAIT_TRY(plait_tok_rwkv_load(t)); break;
    case PLAIT_TOK_NO_MODEL: break;
    }
    return check_lengths(t);
}

/* The order is that of need: counts before columns, roles before the flags that depend on them, flags before pieces and
 * the search, which leave out what text cannot become. */
plait_status plait_tok_load(plait_tokenizer *t, const plait_gguf *gguf,
                            const plait_tokenizer_options *options) {
    /* Zero means the default. */
    size_t max = options && options->max_text_bytes ? options->max_text_bytes : DEFAULT_MAX_TEXT;
    t->max_text_bytes = max < MAX_TEXT ? max : MAX_TEXT;
    PLAIT_TRY(load_model(t, gguf));
    for (int role = 0; role < PLAIT_ROLE_COUNT; role++) t->roles[role] = PLAIT_NO_TOKEN;
    /* Such a file may have tokens, which nobody could use. */
    if (t->model == PLAIT_TOK_NO_MODEL) return PLAIT_OK;
    const plait_gguf_value *tokens;
    PLAIT_TRY(plait_gguf_get_array(gguf, KEY "tokens", PLAIT_GGUF_STRING, &tokens));
    if (tokens->count == 0 || tokens->count > PLAIT_TOK_MAX_TOKENS)
        return plait_error(tokens->count ? PLAIT_LIMIT : PLAIT_CORRUPT,
                           KEY "tokens: %llu tokens, expected 1 to %d", (unsigned long long)tokens->count,
                           PLAIT_TOK_MAX_TOKENS);
    t->n_tokens = (uint32_t)tokens->count;
    PLAIT_TRY(load_texts(t, tokens));
    PLAIT_TRY(load_types(t, gguf));
    PLAIT_TRY(load_scores(t, gguf));
    PLAIT_TRY(load_roles(t, gguf));
    PLAIT_TRY(load_switches(t, gguf, options));
    plait_tok_mark(t);
    PLAIT_TRY(load_pieces(t));
    load_byte_tokens(t);
    PLAIT_TRY(plait_tok_special_init(t));
    return load_search(t, gguf);
}
