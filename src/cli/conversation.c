/* A conversation through the model's own chat template, to token ids: the library's chat, made for one prompt. Not
 * here: reading and keeping conversations (chat.c). */
#include "cli/cli.h"

#include "base/status.h"
#include "plait/chat.h"

/* The chat is compiled for each prompt. A conversation could keep it, but compiling is short work beside an answer, and
 * after a loss of a device the model and its tokenizer are other ones. */
plait_status plait_cli_render_chat(const plait_model *model, const char *messages_json, plait_tokens *out) {
    const plait_tokenizer *tokenizer;
    plait_tokenizer_scratch *scratch = NULL;
    plait_chat *chat = NULL;
    plait_chat_input input = {.messages_json = messages_json, .generation_prompt = true};
    PLAIT_TRY(plait_model_need_tokenizer(model, &tokenizer));
    plait_status status = plait_chat_create(&chat, plait_model_gguf(model), tokenizer, NULL);
    if (status == PLAIT_OK) status = plait_tokenizer_scratch_create(&scratch, tokenizer);
    if (status == PLAIT_OK) status = plait_chat_tokens(chat, &input, scratch, out);
    plait_tokenizer_scratch_destroy(scratch);
    plait_chat_destroy(chat);
    return status;
}
