/* plait embed: the hidden state behind the last norm, of the last token of a text. Not here: pooling over tokens, and
 * scaling to length 1. */
#include "cli/cli.h"

#include "base/status.h"
#include "gguf/describe.h"

/* The shortest digits that read back as the same float32. */
static void print_values(plait_strbuf *out, const float *values, int64_t n, char separator) {
    for (int64_t i = 0; i < n; i++) {
        char number[32];
        /* Room for any float32. */
        plait_gguf_format_f32(values[i], number);
        if (i) plait_strbuf_append_char(out, separator);
        plait_strbuf_append(out, number);
    }
}

/* The ids are printed too: they tell what the embedding is of. */
static plait_status print(const plait_cli_values *values, const plait_tokens *ids, const float *embedding,
                          int64_t n) {
    plait_strbuf s;
    plait_strbuf_init(&s, 0);
    if (values->json) {
        plait_strbuf_append(&s, "{\"ids\":");
        plait_cli_print_ids(&s, ids->ids, ids->n);
        plait_strbuf_append(&s, ",\"pooling\":\"last\",\"embedding\":[");
        print_values(&s, embedding, n, ',');
        plait_strbuf_append(&s, "]}\n");
    } else {
        print_values(&s, embedding, n, ' ');
        plait_strbuf_append_char(&s, '\n');
    }
    return plait_cli_emit(&s);
}

/* The session feeds any number of tokens in steps; only the last one's state is read. The last token is taken because
 * it alone has seen the whole text in a model whose attention looks back only. */
static plait_status embed(const plait_cli_values *values, plait_session *session, const plait_tokens *ids) {
    plait_model_facts facts;
    plait_seq seq = 0;
    const float *embedding;
    plait_model_describe(plait_session_model(session), &facts);
    /* No state without a token. */
    if (ids->n == 0) return plait_error(PLAIT_INVALID_ARGUMENT, "the text has no token");
    PLAIT_TRY(plait_session_begin(session, &seq));
    PLAIT_TRY(plait_session_feed(session, seq, ids->ids, (int64_t)ids->n));
    PLAIT_TRY(plait_session_embedding(session, 0, &embedding));
    return print(values, ids, embedding, facts.n_embd);
}

static int run(const plait_cli_values *values) {
    plait_context *context;
    plait_model *model;
    plait_session *session = NULL;
    plait_tokens ids = {0};
    /* Without a text standard input is read, which is what a filter does. */
    int exit_status = plait_cli_check_prompt(values, true);
    if (exit_status != PLAIT_EXIT_OK) return exit_status;
    plait_cli_catch_interrupt();
    exit_status = plait_cli_open(values, NULL, NULL, &context, &model);
    if (exit_status != PLAIT_EXIT_OK) return exit_status;
    plait_status status = plait_cli_prompt(values, model, &ids);
    if (status == PLAIT_OK) status = plait_cli_session_open(values, model, &session);
    if (status == PLAIT_OK) status = embed(values, session, &ids);
    /* Takes NULL too, when the prompt already failed. */
    status = plait_cli_session_close(values, session, status);
    if (status != PLAIT_OK) exit_status = plait_cli_fail(status);
    plait_tokens_deinit(&ids);
    plait_cli_close(context, model);
    return exit_status;
}

static const plait_cli_option options[] = {
    PLAIT_CLI_PROMPT_OPTIONS,
    PLAIT_CLI_JSON("ids and embedding as one JSON object"),
    PLAIT_CLI_END,
};

const plait_cli_command plait_cli_embed = {
    .name = "embed",
    .arguments = "FILE [-p TEXT | -f FILE | --ids 1,2,3]",
    .min_positional = 1,
    .max_positional = 1,
    .summary = "Print the embedding of a text.",
    .details =
        "The embedding of a decoder model is the hidden state behind its last norm, of the last token, as it "
        "is (not scaled to length 1). Without -p, -f and --ids the text is read from standard input. Printed "
        "are numbers with spaces between them; --json prints "
        "{\"ids\":[...],\"pooling\":\"last\",\"embedding\":[...]}.",
    .examples = "  plait embed model.gguf -p \"A cat sat on the mat.\" --json\n",
    .options = options,
    .computes = true,
    .run = run,
};
