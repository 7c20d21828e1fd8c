/* Conversations: messages and tools through a chat template to the text of a prompt, or straight to token ids.
 *
 * Special tokens are recognised only where the template wrote them; what a user, a tool or a model said stays text,
 * whatever it looks like. BOS is put in front as the vocabulary asks, unless the template wrote it itself.
 *
 *     plait_chat *chat = NULL;
 *     PLAIT_TRY(plait_chat_create(&chat, plait_model_gguf(model), tokenizer, NULL));
 *     plait_chat_input input = {.messages_json = "[{\"role\":\"user\",\"content\":\"Hello\"}]", .generation_prompt = true};
 *     PLAIT_TRY(plait_chat_tokens(chat, &input, scratch, &tokens));
 */
#ifndef PLAIT_CHAT_H
#define PLAIT_CHAT_H

#include "plait/template.h"
#include "plait/tokenizer.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A compiled template and the vocabulary it writes for. Immutable: any number of threads may use it at once. */
typedef struct plait_chat plait_chat;

/* Compiles the template of a file (key tokenizer.chat_template). The tokenizer is borrowed and must outlive the chat;
 * limits may be NULL. Errors: NOT_FOUND when the file has no template; those of plait_template_create. What the limits
 * bound is told in plait/template.h. */
plait_status plait_chat_create(plait_chat **out, const plait_gguf *gguf, const plait_tokenizer *tokenizer,
                               const plait_template_limits *limits);
/* The same for a template given as text (n_bytes of UTF-8, copied). */
plait_status plait_chat_create_from_text(plait_chat **out, const char *text, size_t n_bytes,
                                         const plait_tokenizer *tokenizer,
                                         const plait_template_limits *limits);
/* Accepts NULL. */
void plait_chat_destroy(plait_chat *chat);

/* What is said. Strings are NUL-terminated JSON and borrowed during the call. */
typedef struct plait_chat_input {
    const char
        *messages_json; /* an array of messages: {"role": ..., "content": ...} and what the template knows */
    const char *tools_json; /* an array of tools; NULL: none */
    const char
        *variables_json;    /* an object whose members are added to the template's variables; NULL: none */
    bool generation_prompt; /* ask for the begin of the model's answer */
    const char *now;        /* as in plait_template_input; NULL: the clock */
} plait_chat_input;

/* The prompt as text with the origin of each byte; as plait_template_render. Errors, beside those: CORRUPT for JSON that
 * is none or goes on behind its value, INVALID_ARGUMENT for a value of another kind. *out is as plait_template_output_deinit
 * wants it, also after a failure. Any thread, any number at once. */
plait_status plait_chat_render(const plait_chat *chat, const plait_chat_input *input,
                               plait_template_output *out);
/* The prompt as token ids, appended to *out. `scratch` belongs to the chat's tokenizer. On failure *out is as before.
 * The scratch, and so the call, belongs to one thread at a time. */
plait_status plait_chat_tokens(const plait_chat *chat, const plait_chat_input *input,
                               plait_tokenizer_scratch *scratch, plait_tokens *out);

#ifdef __cplusplus
}
#endif
#endif
