/* Conversations: the variables that chat templates expect, and the way from a rendered prompt to token ids. Not here:
 * the template language (template/), recognising special tokens (tokenizer/special.c). Invariant: no byte that came
 * from a variable takes part in a special token.
 *
 * A conversation becomes tokens in three steps, each with its own limits: variables as JSON text, the template's
 * rendering with the origin of every byte, and tokenising segment by segment. */
#include "plait/chat.h"

#include "base/alloc.h"
#include "base/status.h"
#include "base/strbuf.h"
#include "text/json.h"

#include <stdlib.h>
#include <string.h>

struct plait_chat {
    plait_template *compiled;         /* Owned. */
    const plait_tokenizer *tokenizer; /* Borrowed. */
};

/* ---- life ---- */

/* The tokenizer is only borrowed, and nothing of it is looked at here. */
plait_status plait_chat_create_from_text(plait_chat **out, const char *text, size_t n_bytes,
                                         const plait_tokenizer *tokenizer,
                                         const plait_template_limits *limits) {
    plait_chat *chat = plait_alloc_array(1, sizeof *chat);
    if (!chat) return plait_error_memory("chat", sizeof *chat);
    chat->tokenizer = tokenizer;
    plait_status status = plait_template_create(&chat->compiled, text, n_bytes, limits);
    if (status != PLAIT_OK) {
        free(chat);
        return status;
    }
    *out = chat;
    return PLAIT_OK;
}

/* NOT_FOUND where the model has no template, which base models have not; the caller may then take one of its own. */
plait_status plait_chat_create(plait_chat **out, const plait_gguf *gguf, const plait_tokenizer *tokenizer,
                               const plait_template_limits *limits) {
    plait_gguf_string text;
    PLAIT_TRY(plait_gguf_get_string(gguf, "tokenizer.chat_template", &text));
    return plait_error_context(plait_chat_create_from_text(out, text.bytes, text.length, tokenizer, limits),
                               "chat template of the model");
}

void plait_chat_destroy(plait_chat *chat) {
    if (!chat) return;
    plait_template_destroy(chat->compiled);
    free(chat);
}

/* ---- rendering ---- */

/* "name": text of the token with that role; left out where the vocabulary has none. A template may print such a token,
 * and template.c trusts these variables by name: they come out of the vocabulary and not out of a message. */
static void add_token(plait_strbuf *s, const plait_tokenizer *tokenizer, const char *name,
                      plait_token_role role) {
    const char *text;
    size_t n;
    if (!plait_token_text(tokenizer, plait_tokenizer_role(tokenizer, role), &text, &n)) return;
    plait_strbuf_printf(s, ",\"%s\":", name);
    plait_strbuf_json_string_n(s, text, n);
}

/* Text that is joined to other text must be one whole value of its kind: `[],"x":1` would add variables. null stands
 * for what is left out, as NULL does. The text is parsed twice, here and by the template's reader; conversations are
 * small, and joining unchecked text would let one value add others. */
static plait_status check_json(const char *what, const char *text, plait_json_kind kind, bool may_be_null) {
    plait_json_document document;
    PLAIT_TRY(plait_error_context(plait_json_parse(&document, text, strlen(text), NULL), "chat: %s", what));
    plait_json_kind found = document.root->kind;
    plait_json_document_deinit(&document);
    if (found == kind || (may_be_null && found == PLAIT_JSON_NULL)) return PLAIT_OK;
    return plait_error(PLAIT_INVALID_ARGUMENT, "chat: %s: expected a JSON %s, found %s", what,
                       plait_json_kind_name(kind), plait_json_kind_name(found));
}

/* The members of an object given as text, behind a comma: what stands between its braces. The text was checked: these
 * are its first and last characters beside white space. */
static void add_members(plait_strbuf *s, const char *object) {
    const char *begin = strchr(object, '{') + 1, *end = strrchr(object, '}');
    begin += strspn(begin, " \t\r\n");
    if (begin == end) return;
    plait_strbuf_append(s, ",");
    plait_strbuf_append_n(s, begin, (size_t)(end - begin));
}

/* Later members win over earlier ones, so a caller's variables may replace any. documents is there with null, because
 * templates test it without asking whether it is defined. Text is joined instead of trees: the template's reader parses
 * the whole, and its limits hold for all of it. */
static plait_status write_variables(const plait_chat *chat, const plait_chat_input *input, plait_strbuf *s) {
    PLAIT_TRY(check_json("messages", input->messages_json, PLAIT_JSON_ARRAY, false));
    if (input->tools_json) PLAIT_TRY(check_json("tools", input->tools_json, PLAIT_JSON_ARRAY, true));
    if (input->variables_json)
        PLAIT_TRY(check_json("variables", input->variables_json, PLAIT_JSON_OBJECT, false));
    plait_strbuf_printf(s, "{\"messages\":%s,\"tools\":%s,\"documents\":null,\"add_generation_prompt\":%s",
                        input->messages_json, input->tools_json ? input->tools_json : "null",
                        input->generation_prompt ? "true" : "false");
    add_token(s, chat->tokenizer, "bos_token", PLAIT_ROLE_BOS);
    add_token(s, chat->tokenizer, "eos_token", PLAIT_ROLE_EOS);
    if (input->variables_json) add_members(s, input->variables_json);
    plait_strbuf_append(s, "}");
    return plait_strbuf_status(s);
}

/* A failure of writing the variables leaves *out zeroed, so that the caller's deinit is right in every case. */
plait_status plait_chat_render(const plait_chat *chat, const plait_chat_input *input,
                               plait_template_output *out) {
    plait_strbuf variables;
    *out = (plait_template_output){0};
    if (!input->messages_json) return plait_error(PLAIT_INVALID_ARGUMENT, "chat: there are no messages");
    plait_strbuf_init(&variables, 0);
    plait_status status = write_variables(chat, input, &variables);
    if (status == PLAIT_OK) {
        plait_template_input given = {.variables_json = plait_strbuf_text(&variables),
                                      .variables_bytes = variables.length,
                                      .now = input->now};
        status = plait_error_context(plait_template_render(chat->compiled, &given, out), "chat template");
    }
    plait_strbuf_deinit(&variables);
    return status;
}

/* ---- tokens ---- */

/* A template that writes BOS itself must not get a second one, on which models go astray. The same signs in a message are
 * text and no token, and do not count. */
static bool begins_with_bos(const plait_tokenizer *tokenizer, const plait_template_output *prompt) {
    const char *bos;
    size_t n, trusted = 0;
    for (size_t i = 0; i < prompt->n_segments && prompt->segments[i].from_template; i++)
        trusted += prompt->segments[i].n_bytes;
    return plait_token_text(tokenizer, plait_tokenizer_role(tokenizer, PLAIT_ROLE_BOS), &bos, &n) && n > 0 &&
           trusted >= n && memcmp(prompt->text, bos, n) == 0;
}

/* Origins become trust, segment by segment. ADD_SPECIAL may also put EOS behind where the vocabulary asks for it. */
static plait_status tokenise(const plait_chat *chat, const plait_template_output *prompt,
                             plait_tokenizer_scratch *scratch, plait_tokens *out) {
    plait_text_segment *segments = plait_alloc_array(prompt->n_segments, sizeof *segments);
    if (!segments) return plait_error_memory("chat", prompt->n_segments * sizeof *segments);
    for (size_t i = 0; i < prompt->n_segments; i++)
        segments[i] = (plait_text_segment){prompt->text + prompt->segments[i].offset_bytes,
                                           prompt->segments[i].n_bytes, prompt->segments[i].from_template};
    bool bos = plait_tokenizer_adds_bos(chat->tokenizer) && !begins_with_bos(chat->tokenizer, prompt);
    plait_status status = plait_tokenize_segments(chat->tokenizer, scratch, segments, prompt->n_segments,
                                                  bos ? PLAIT_TOKENIZE_ADD_SPECIAL : 0, out);
    free(segments);
    return status;
}

/* *out is appended to by the tokenizer, whose rules for failures hold: see plait_tokenize_segments. */
plait_status plait_chat_tokens(const plait_chat *chat, const plait_chat_input *input,
                               plait_tokenizer_scratch *scratch, plait_tokens *out) {
    plait_template_output prompt;
    plait_status status = plait_chat_render(chat, input, &prompt);
    if (status == PLAIT_OK) status = tokenise(chat, &prompt, scratch, out);
    plait_template_output_deinit(&prompt);
    return status;
}
