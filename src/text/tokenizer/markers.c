/* What is known about tokens by their text: end markers, fill-in-the-middle markers, white space that goes with a
 * special token. Lists of facts about published models; files often say less than this.
 *
 * A marker of type normal is treated like a control token, for no text should spell it; one of type user-defined keeps
 * that type, as in the original, but untrusted text cannot write it.
 */
#include "base/size.h"
#include "text/tokenizer/internal.h"

#include <string.h>

typedef enum marker_kind { ENDS_TURN, ENDS, ENDS_MESSAGE, ONLY_MARKS } marker_kind;

static const struct marker {
    const char *text;
    marker_kind kind;
} markers[] = {
    {"<|eot_id|>", ENDS_TURN},
    {"<|im_end|>", ENDS_TURN},
    {"<|end|>", ENDS_TURN},
    {"<end_of_turn>", ENDS_TURN},
    {"<turn|>", ENDS_TURN},
    {"<|endoftext|>", ENDS_TURN},
    {"<|end_of_text|>", ENDS_TURN},
    {"<EOT>", ENDS_TURN},
    {"_<EOT>", ENDS_TURN},
    {"[EOT]", ENDS_TURN},
    {"<\xEF\xBD\x9C"
     "end\xE2\x96\x81of\xE2\x96\x81sentence\xEF\xBD\x9C>",
     ENDS_TURN},
    {"<end_of_utterance>", ENDS_TURN},
    {"<|eom_id|>", ENDS_MESSAGE},
    {"<|return|>", ENDS},
    {"<|call|>", ENDS},
    {"<|flush|>", ENDS},
    {"<|calls|>", ENDS},
    {"</s>", ENDS},
    {"[EOS]", ENDS},
    {"<eos>", ENDS},
    {"<|tool_response>", ENDS},
    {"[e~[", ENDS},
    /* fill in the middle: padding and borders between files end what is generated */
    {"<|fim_pad|>", ENDS},
    {"<fim-pad>", ENDS},
    {"<fim_pad>", ENDS},
    {"<PAD>", ENDS},
    {"[PAD]", ENDS},
    {"<|fim_repo|>", ENDS},
    {"<|repo_name|>", ENDS},
    {"<fim-repo>", ENDS},
    {"<REPO>", ENDS},
    {"<reponame>", ENDS},
    {"<|file_sep|>", ENDS},
    {"<|fim_prefix|>", ONLY_MARKS},
    {"<fim-prefix>", ONLY_MARKS},
    {"<fim_prefix>", ONLY_MARKS},
    {"<\xEF\xBD\x9C"
     "fim\xE2\x96\x81"
     "begin\xEF\xBD\x9C>",
     ONLY_MARKS},
    {"<PRE>", ONLY_MARKS},
    {"\xE2\x96\x81<PRE>", ONLY_MARKS},
    {"<|code_prefix|>", ONLY_MARKS},
    {"<|prefix|>", ONLY_MARKS},
    {"<|fim_suffix|>", ONLY_MARKS},
    {"<fim-suffix>", ONLY_MARKS},
    {"<fim_suffix>", ONLY_MARKS},
    {"<\xEF\xBD\x9C"
     "fim\xE2\x96\x81hole\xEF\xBD\x9C>",
     ONLY_MARKS},
    {"<SUF>", ONLY_MARKS},
    {"\xE2\x96\x81<SUF>", ONLY_MARKS},
    {"<|code_suffix|>", ONLY_MARKS},
    {"<|suffix|>", ONLY_MARKS},
    {"<|fim_middle|>", ONLY_MARKS},
    {"<fim-middle>", ONLY_MARKS},
    {"<fim_middle>", ONLY_MARKS},
    {"<\xEF\xBD\x9C"
     "fim\xE2\x96\x81"
     "end\xEF\xBD\x9C>",
     ONLY_MARKS},
    {"<MID>", ONLY_MARKS},
    {"\xE2\x96\x81<MID>", ONLY_MARKS},
    {"<|code_middle|>", ONLY_MARKS},
    {"<|middle|>", ONLY_MARKS},
};

/* Borrowed texts are constants, looked up in the vocabulary: a few dozen look-ups instead of a walk over all tokens. */
static bool find(const plait_tokenizer *t, const char *text, uint32_t *out_id) {
    return plait_map_get(&t->by_text, text, strlen(text), out_id);
}

/* The file's word, or the earlier row of the list, stays. */
static void set_role(plait_tokenizer *t, plait_token_role role, uint32_t id) {
    if (t->roles[role] == PLAIT_NO_TOKEN) t->roles[role] = (plait_token)id;
}

/* <|...|>, <|...>, <...|>, the same with a fullwidth bar, and ..._of_turn>: what a chat template is made of. A
 * user-defined token of such a text is kept out of untrusted text: somebody could end a turn with it. */
static bool looks_like_marker(const char *text, uint32_t n) {
    static const char bar[] = "\xEF\xBD\x9C";
    if (n < 4 || text[0] != '<' || text[n - 1] != '>') return false;
    if (text[1] == '|' || text[n - 2] == '|') return true;
    if (n >= 8 && (memcmp(text + 1, bar, 3) == 0 || memcmp(text + n - 4, bar, 3) == 0)) return true;
    return n > 9 && memcmp(text + n - 9, "_of_turn>", 9) == 0;
}

/* Flags and roles of the listed texts. A role that the file states is not changed. */
static void mark_by_text(plait_tokenizer *t) {
    uint32_t id;
    bool plain_s = find(t, "<|tool_response>", &id) || find(t, "<|plamo:eos|>", &id);
    for (size_t i = 0; i < PLAIT_COUNT_OF(markers); i++) {
        if (!find(t, markers[i].text, &id)) continue;
        /* There </s> is a word like others. */
        if (plain_s && strcmp(markers[i].text, "</s>") == 0 && t->types[id] != PLAIT_TOKEN_CONTROL) continue;
        t->flags[id] |= PLAIT_TOK_MARKER;
        if (markers[i].kind != ONLY_MARKS) t->flags[id] |= PLAIT_TOK_ENDS;
        if (markers[i].kind == ENDS_TURN) set_role(t, PLAIT_ROLE_EOT, id);
        if (markers[i].kind == ENDS_MESSAGE) set_role(t, PLAIT_ROLE_EOM, id);
    }
}

/* Where turns end with <|return|> or <|call|> (or <|flush|>), <|end|> only ends a message. That is the format of
 * gpt-oss, whose messages end with <|end|> and whose turns go on after it. */
static void unmark_harmony_end(plait_tokenizer *t) {
    uint32_t id, other;
    bool call = find(t, "<|call|>", &other) || find(t, "<|calls|>", &other);
    if (!find(t, "<|end|>", &id) || !call) return;
    if (!find(t, "<|return|>", &other) && !find(t, "<|flush|>", &other)) return;
    t->flags[id] &= (uint8_t)~PLAIT_TOK_ENDS;
    if (t->roles[PLAIT_ROLE_EOT] == (plait_token)id) t->roles[PLAIT_ROLE_EOT] = PLAIT_NO_TOKEN;
}

/* Runs after the roles were read and before anything asks for flags. Tokens that have an ending role end generation
 * whatever their text; a role makes a user-defined token a marker. */
void plait_tok_mark(plait_tokenizer *t) {
    mark_by_text(t);
    unmark_harmony_end(t);
    static const plait_token_role ends[] = {PLAIT_ROLE_EOS, PLAIT_ROLE_EOT, PLAIT_ROLE_EOM};
    for (size_t i = 0; i < PLAIT_COUNT_OF(ends); i++)
        if (t->roles[ends[i]] != PLAIT_NO_TOKEN) t->flags[t->roles[ends[i]]] |= PLAIT_TOK_ENDS;
    for (int role = 0; role < PLAIT_ROLE_COUNT; role++)
        if (t->roles[role] != PLAIT_NO_TOKEN && t->types[t->roles[role]] == PLAIT_TOKEN_USER_DEFINED)
            t->flags[t->roles[role]] |= PLAIT_TOK_MARKER;
    for (uint32_t id = 0; id < t->n_tokens; id++) {
        uint32_t n;
        const char *text = plait_tok_string(&t->texts, id, &n);
        uint8_t type = t->types[id];
        if (type == PLAIT_TOKEN_USER_DEFINED && looks_like_marker(text, n)) t->flags[id] |= PLAIT_TOK_MARKER;
        if (type == PLAIT_TOKEN_CONTROL || type == PLAIT_TOKEN_UNKNOWN ||
            (type == PLAIT_TOKEN_NORMAL && t->flags[id] & PLAIT_TOK_MARKER))
            t->flags[id] |= PLAIT_TOK_HIDDEN;
        /* SentencePiece merges text into user-defined tokens as well; for BPE they are added beside the vocabulary. */
        if (type == PLAIT_TOKEN_NORMAL || type == PLAIT_TOKEN_UNUSED ||
            (type == PLAIT_TOKEN_USER_DEFINED &&
             (t->model == PLAIT_TOK_SPM || t->model == PLAIT_TOK_UNIGRAM)))
            t->flags[id] |= PLAIT_TOK_MERGEABLE;
    }
}

static bool text_is(const plait_tokenizer *t, uint32_t id, const char *text) {
    uint32_t n;
    const char *bytes = plait_tok_string(&t->texts, id, &n);
    return n == strlen(text) && memcmp(bytes, text, n) == 0;
}

/* The exceptions are those of Phi-3's own tokenizer file, which marks all but these as rstrip. */
void plait_tok_strips(const plait_tokenizer *t, uint32_t id, bool *out_left, bool *out_right) {
    *out_left = t->strip_before_mask && text_is(t, id, "<mask>");
    *out_right = t->strip_behind && t->types[id] != PLAIT_TOKEN_USER_DEFINED && !text_is(t, id, "<unk>") &&
                 !text_is(t, id, "<s>") && !text_is(t, id, "<|endoftext|>");
}
