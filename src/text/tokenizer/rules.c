/* The splitting rules of byte-level BPE and the names under which files ask for them. A table; the splitting itself
 * is split.c.
 *
 * The expressions are those of the models' own tokenizer files, as facts, in PCRE2's syntax. White space is written
 * out as [\t-\r\x{85}\p{Z}], because PCRE2's \s with Unicode properties also takes U+180E. A rule has one or more
 * stages: each works on every piece that the stage before left, its matches become pieces, and so does what lies
 * between them.
 *
 * Invariant: no expression can backtrack more than linearly in the length of its piece.
 */
#include "text/tokenizer/internal.h"

#include "base/size.h"
#include "base/strbuf.h"

#include <string.h>

#define SPACE   "\\t-\\r\\x{85}\\p{Z}"
#define NOSPACE "[^" SPACE "]"

/* Spaces, but the last one stays with the word behind them. */
#define SPACE_RUNS "[" SPACE "]+(?!" NOSPACE ")|[" SPACE "]+"
#define GPT2       "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^" SPACE "\\p{L}\\p{N}]+|" SPACE_RUNS
/* The family that began with cl100k: what a number is, and which letters, differ. */
#define CL100K(letters, other, number)                                                                       \
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?" letters "+|" number "| ?" other                    \
    "+[\\r\\n]*|[" SPACE "]*[\\r\\n]+|" SPACE_RUNS
#define NO_LETTER  "[^" SPACE "\\p{L}\\p{N}]"
#define NO_LETTER2 "[^" SPACE "\\p{L}\\p{M}\\p{N}]"
/* The class of the DeepSeek rules really has these three ranges. */
#define CJK "[\\x{4E00}-\\x{9FA5}\\x{800}-\\x{4E00}\\x{AC00}-\\x{D7FF}]+"
/* Letters with case, as the DeepSeek LLM rule lists them. */
#define CASED_LETTERS                                                                                        \
    "A-Za-z\\x{B5}\\x{C0}-\\x{D6}\\x{D8}-\\x{F6}\\x{F8}-\\x{1BA}\\x{1BC}-\\x{1BF}\\x{1C4}-\\x{293}"          \
    "\\x{295}-\\x{2AF}\\x{370}-\\x{373}\\x{376}\\x{377}\\x{37B}-\\x{37D}\\x{37F}\\x{386}"                    \
    "\\x{388}-\\x{38A}\\x{38C}\\x{38E}-\\x{3A1}\\x{3A3}-\\x{3F5}\\x{3F7}-\\x{481}\\x{48A}-\\x{52F}"          \
    "\\x{531}-\\x{556}\\x{10A0}-\\x{10C5}\\x{13A0}-\\x{13F5}\\x{13F8}-\\x{13FD}\\x{1C90}-\\x{1CBA}"          \
    "\\x{1CBD}-\\x{1CBF}\\x{1D00}-\\x{1D2B}\\x{1D6B}-\\x{1D77}\\x{1D79}-\\x{1D9A}\\x{1E00}-\\x{1F15}"        \
    "\\x{1F18}-\\x{1F1D}\\x{1F20}-\\x{1F45}\\x{1F48}-\\x{1F4D}\\x{1F50}-\\x{1F57}\\x{1F59}\\x{1F5B}"         \
    "\\x{1F5D}\\x{1F5F}-\\x{1F7D}\\x{1F80}-\\x{1FB4}\\x{1FB6}-\\x{1FBC}\\x{1FBE}\\x{1FC2}-\\x{1FC4}"         \
    "\\x{1FC6}-\\x{1FCC}\\x{1FD0}-\\x{1FD3}\\x{1FD6}-\\x{1FDB}\\x{1FE0}-\\x{1FEC}\\x{1FF2}-\\x{1FF4}"        \
    "\\x{1FF6}-\\x{1FFC}\\x{2102}\\x{2107}\\x{210A}-\\x{2113}\\x{2115}\\x{2119}-\\x{211D}\\x{2124}"          \
    "\\x{2126}\\x{2128}\\x{212A}-\\x{212D}\\x{212F}-\\x{2134}\\x{2139}\\x{213C}-\\x{213F}"                   \
    "\\x{2145}-\\x{2149}\\x{214E}\\x{2183}\\x{2184}\\x{2C00}-\\x{2C7B}\\x{2C7E}-\\x{2CE4}"                   \
    "\\x{2CEB}-\\x{2CEE}\\x{2CF2}\\x{2CF3}\\x{A640}-\\x{A66D}\\x{A680}-\\x{A69B}\\x{A722}-\\x{A76F}"         \
    "\\x{A771}-\\x{A787}\\x{A78B}-\\x{A78E}\\x{AB70}-\\x{ABBF}\\x{FB00}-\\x{FB06}\\x{FB13}-\\x{FB17}"        \
    "\\x{FF21}-\\x{FF3A}\\x{FF41}-\\x{FF5A}\\x{10400}-\\x{1044F}\\x{104B0}-\\x{104D3}"                       \
    "\\x{104D8}-\\x{104FB}\\x{10C80}-\\x{10CB2}\\x{10CC0}-\\x{10CF2}\\x{118A0}-\\x{118DF}"                   \
    "\\x{1E900}-\\x{1E943}"

struct plait_tok_rule {
    const char *stages[PLAIT_TOK_MAX_STAGES]; /* up to the first NULL */
};

/* "[0-9]" first and GPT2 on the rest, as one expression: what is left of a lone digit never sees the digit, so
 * a run of spaces before one ends there. */
#define DIGITS_GPT2                                                                                          \
    "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+|\\p{N}| ?[^" SPACE "\\p{L}\\p{N}]+|[" SPACE "]+(?![^" SPACE           \
    "\\p{N}])|[" SPACE "]+"

static const plait_tok_rule rule_gpt2 = {{GPT2}};
static const plait_tok_rule rule_digits_gpt2 = {{DIGITS_GPT2}};
static const plait_tok_rule rule_llama3 = {{CL100K("\\p{L}", NO_LETTER, "\\p{N}{1,3}")}};
static const plait_tok_rule rule_qwen2 = {{CL100K("\\p{L}", NO_LETTER, "\\p{N}")}};
static const plait_tok_rule rule_qwen35 = {{CL100K("[\\p{L}\\p{M}]", NO_LETTER2, "\\p{N}")}};
static const plait_tok_rule rule_falcon = {{"[\\p{P}\\$\\+<=>\\^~\\|`]+", GPT2, "[0-9][0-9][0-9]"}};
static const plait_tok_rule rule_missing = {
    {"[\\p{P}\\$\\+<=>\\^~\\|]+", GPT2, "\\p{N}+", "[0-9][0-9][0-9]"}};
static const plait_tok_rule rule_deepseek_coder = {
    {"[\\r\\n]", "[" SPACE "]?\\p{L}+", "[" SPACE "]?\\p{P}+", CJK, "\\p{N}"}};
/* The stage for white space at the end looks from the first of it only, so that it is tried once a run. */
static const plait_tok_rule rule_deepseek_llm = {
    {"[\\r\\n]", "[" SPACE "]?[" CASED_LETTERS "]+",
     "[" SPACE "]?[!-/:-~\\x{FF01}-\\x{FF0F}\\x{FF1A}-\\x{FF5E}\\x{2018}-\\x{201F}\\x{3000}-\\x{3002}]+",
     "(?<![" SPACE "])[" SPACE "]++\\z", CJK, "\\p{N}+"}};
/* gemma4: not chosen by a name. */
static const plait_tok_rule rule_newlines = {{"[^\\n]+|\\n+"}};

static const plait_tok_pre pres[] = {
    {.name = "gpt-2", .rule = &rule_gpt2},
    {.name = "phi-2", .rule = &rule_gpt2},
    {.name = "mpt", .rule = &rule_gpt2, .nfc = true},
    {.name = "gpt-neox", .rule = &rule_gpt2, .nfc = true},
    {.name = "olmo", .rule = &rule_gpt2, .nfc = true},
    {.name = "smollm", .rule = &rule_digits_gpt2},
    {.name = "starcoder", .rule = &rule_digits_gpt2},
    {.name = "refact", .rule = &rule_digits_gpt2},
    {.name = "codeshell", .rule = &rule_digits_gpt2},
    {.name = "command-r", .rule = &rule_digits_gpt2, .nfc = true},
    {.name = "llama-bpe", .rule = &rule_llama3, .whole_pieces = true, .add_bos = true},
    {.name = "llama3", .rule = &rule_llama3, .whole_pieces = true, .add_bos = true},
    {.name = "llama-v3", .rule = &rule_llama3, .whole_pieces = true, .add_bos = true},
    {.name = "falcon3", .rule = &rule_llama3, .whole_pieces = true, .add_bos = true},
    {.name = "dbrx", .rule = &rule_llama3},
    {.name = "smaug-bpe", .rule = &rule_llama3},
    {.name = "qwen2", .rule = &rule_qwen2, .nfc = true},
    {.name = "deepseek-r1-qwen", .rule = &rule_qwen2, .nfc = true},
    {.name = "megrez", .rule = &rule_qwen2, .nfc = true},
    {.name = "qwen35", .rule = &rule_qwen35, .nfc = true},
    {.name = "falcon", .rule = &rule_falcon},
    {.name = "deepseek-llm", .rule = &rule_deepseek_llm},
    {.name = "deepseek-coder", .rule = &rule_deepseek_coder},
    {.name = "default", .rule = &rule_missing},
    {.name = "none", .rule = &rule_missing},
};
static const plait_tok_pre newlines = {.name = "newlines", .rule = &rule_newlines};

const char *plait_tokenizer_rule_name(size_t index) {
    return index < PLAIT_COUNT_OF(pres) ? pres[index].name : NULL;
}

const plait_tok_pre *plait_tok_pre_newlines(void) {
    return &newlines;
}

plait_status plait_tok_pre_find(const char *name, size_t n_bytes, const plait_tok_pre **out_pre) {
    for (size_t i = 0; i < PLAIT_COUNT_OF(pres); i++) {
        if (strlen(pres[i].name) == n_bytes && memcmp(pres[i].name, name, n_bytes) == 0) {
            *out_pre = &pres[i];
            return PLAIT_OK;
        }
    }
    char known[PLAIT_ERROR_BYTES];
    size_t used = 0;
    known[0] = '\0';
    for (size_t i = 0; i < PLAIT_COUNT_OF(pres); i++) {
        size_t length = strlen(pres[i].name);
        if (used + length + 3 > sizeof known) break;
        if (i) memcpy(known + used, ", ", 2), used += 2;
        memcpy(known + used, pres[i].name, length + 1);
        used += length;
    }
    return plait_error(PLAIT_UNSUPPORTED,
                       "tokenizer.ggml.pre: the splitting rule \"%.*s\" is not known; known are: %s",
                       (int)(n_bytes > 64 ? 64 : n_bytes), name, known);
}

uint32_t plait_tok_rule_stages(const plait_tok_rule *rule, const char *const **out_stages) {
    uint32_t n = 0;
    while (n < PLAIT_TOK_MAX_STAGES && rule->stages[n]) n++;
    *out_stages = rule->stages;
    return n;
}
