/* Asks a model one question through its chat template and prints the answer as it comes.
 *
 *     ask model.gguf "Name three primary colors."
 */
#include <plait/chat.h>
#include <plait/session.h>

#include <stdio.h>
#include <stdlib.h>

/* One message, as the JSON that chat templates expect. The question must not hold quotes or backslashes here; a real
 * program builds it with a JSON library. */
static void write_messages(char *out, size_t size, const char *question) {
    snprintf(out, size, "[{\"role\":\"user\",\"content\":\"%s\"}]", question);
}

static plait_status feed_question(plait_session *session, plait_seq seq, const plait_tokenizer *tokenizer,
                                  const char *question) {
    plait_chat *chat = NULL;
    plait_tokenizer_scratch *scratch = NULL;
    plait_tokens tokens = {0};
    char messages[4096];
    write_messages(messages, sizeof messages, question);
    plait_chat_input input = {.messages_json = messages, .generation_prompt = true};
    plait_status status =
        plait_chat_create(&chat, plait_model_gguf(plait_session_model(session)), tokenizer, NULL);
    if (status == PLAIT_OK) status = plait_tokenizer_scratch_create(&scratch, tokenizer);
    if (status == PLAIT_OK) status = plait_chat_tokens(chat, &input, scratch, &tokens);
    if (status == PLAIT_OK) status = plait_session_feed(session, seq, tokens.ids, (int64_t)tokens.n);
    plait_tokens_deinit(&tokens);
    plait_tokenizer_scratch_destroy(scratch);
    plait_chat_destroy(chat);
    return status;
}

static plait_status answer(plait_session *session, plait_seq seq, const plait_tokenizer *tokenizer) {
    plait_detokenizer stream;
    char piece[1024];
    plait_detokenizer_init(&stream, tokenizer, 0);
    for (;;) {
        plait_token token = PLAIT_NO_TOKEN;
        size_t n = 0;
        PLAIT_TRY(plait_session_next(session, seq, NULL, &token)); /* NULL: greedy */
        if (plait_token_ends(tokenizer, token)) break;
        PLAIT_TRY(plait_detokenizer_feed(&stream, token, piece, sizeof piece, &n));
        fwrite(piece, 1, n, stdout);
        fflush(stdout);
    }
    putchar('\n');
    return PLAIT_OK;
}

static plait_status ask(plait_model *model, const char *question) {
    plait_session *session = NULL;
    const plait_tokenizer *tokenizer = NULL;
    plait_seq seq = 0;
    PLAIT_TRY(plait_model_need_tokenizer(model, &tokenizer));
    PLAIT_TRY(plait_session_create(&session, model));
    plait_status status = plait_session_begin(session, &seq);
    if (status == PLAIT_OK) status = feed_question(session, seq, tokenizer, question);
    if (status == PLAIT_OK) status = answer(session, seq, tokenizer);
    plait_session_destroy(session);
    return status;
}

int main(int argc, char **argv) {
    plait_context *context = NULL;
    plait_model *model = NULL;
    if (argc != 3) {
        fprintf(stderr, "usage: ask MODEL.gguf QUESTION\n");
        return 2;
    }
    plait_status status = plait_context_open(&context, "cpu", NULL);
    if (status == PLAIT_OK) status = plait_model_open(&model, context, argv[1], NULL);
    if (status == PLAIT_OK) status = ask(model, argv[2]);
    if (status != PLAIT_OK) fprintf(stderr, "ask: %s\n", plait_error_message());
    plait_model_release(model);
    plait_context_close(context);
    return status == PLAIT_OK ? EXIT_SUCCESS : EXIT_FAILURE;
}
