/* plait run: continue a prompt. Only the continuation goes to stdout, as it comes; speed and notes go to stderr. Not
 * here: the loop that makes tokens (generation.c), several turns (chat.c). */
#include "cli/cli.h"

#include "base/status.h"

#include <stdio.h>

/* Whole at the end: an object cannot be printed as it comes. */
static plait_status print_json(const plait_cli_generation *g, const plait_tokens *prompt) {
    plait_strbuf s;
    plait_strbuf_init(&s, 0);
    plait_strbuf_append(&s, "{\"prompt_ids\":");
    plait_cli_print_ids(&s, prompt->ids, prompt->n);
    plait_strbuf_append(&s, ",\"ids\":");
    plait_cli_print_ids(&s, g->made.ids, g->made.n);
    plait_strbuf_append(&s, ",\"text\":");
    plait_strbuf_json_string_n(&s, plait_strbuf_text(&g->text), g->text.length);
    plait_strbuf_append(&s, "}\n");
    return plait_cli_emit(&s);
}

/* A model needs at least one token to continue; an empty text gives none where no BOS is added. Silent is what --json
 * makes of it: the text is collected, and shown in the object at the end. */
static plait_status continue_prompt(plait_cli_generation *g, plait_tokens *prompt) {
    PLAIT_TRY(plait_cli_prompt(g->values, *g->model, prompt));
    if (prompt->n == 0) return plait_error(PLAIT_INVALID_ARGUMENT, "the prompt has no token");
    PLAIT_TRY(plait_cli_generation_feed(g, prompt->ids, prompt->n));
    PLAIT_TRY(plait_cli_generate(g));
    /* The line end is this command's; the text itself may hold others. */
    return g->silent ? print_json(g, prompt) : plait_cli_write("\n", 1);
}

/* With --ids no tokenizer is needed, and a model without one prints ids. Context and model may be other ones at the end
 * than at the beginning, after a loss. */
static int run(const plait_cli_values *values) {
    plait_context *context;
    plait_model *model;
    plait_cli_generation g;
    plait_tokens prompt = {0};
    int exit_status = plait_cli_check_prompt(values, false);
    if (exit_status == PLAIT_EXIT_OK) exit_status = plait_cli_generation_init(&g, values);
    if (exit_status != PLAIT_EXIT_OK) return exit_status;
    plait_cli_catch_interrupt();
    /* With --json nothing comes before the object. */
    g.silent = values->json;
    exit_status = plait_cli_open(values, plait_cli_let_kv_fit, NULL, &context, &model);
    if (exit_status != PLAIT_EXIT_OK) {
        plait_cli_generation_close(&g, PLAIT_OK);
        return exit_status;
    }
    plait_status status = plait_cli_generation_open(&g, &context, &model, !values->ids);
    if (status == PLAIT_OK) status = continue_prompt(&g, &prompt);
    if (status == PLAIT_OK) plait_cli_report_speed(&g);
    /* Before the model is closed, which the session uses. */
    status = plait_cli_generation_close(&g, status);
    if (status != PLAIT_OK) exit_status = plait_cli_fail(status);
    plait_tokens_deinit(&prompt);
    plait_cli_close(context, model);
    return exit_status;
}

static const plait_cli_option options[] = {
    PLAIT_CLI_PROMPT_OPTIONS,
    {"--chat", NULL, PLAIT_CLI_FLAG, PLAIT_CLI_FIELD(chat), 0,
     "put the text as a user's message through the model's template"},
    PLAIT_CLI_SAMPLING_OPTIONS,
    PLAIT_CLI_JSON("prompt ids, ids and text as one JSON object"),
    PLAIT_CLI_END,
};

const plait_cli_command plait_cli_run = {
    .name = "run",
    .arguments = "FILE (-p TEXT | -f FILE | --ids 1,2,3)",
    .min_positional = 1,
    .max_positional = 1,
    .summary = "Continue a prompt.",
    .details =
        "Only the continuation goes to standard output, as it comes, and a line end behind it; speed and "
        "notes go to "
        "standard error. Text of a prompt is never taken for special tokens; with --chat those of the "
        "template "
        "are. The end token of the model is neither shown nor among the ids.\n\n"
        "--json prints {\"prompt_ids\":[...],\"ids\":[...],\"text\":\"...\"}. Ctrl-C ends the generation "
        "cleanly, a second one ends the program.",
    .examples = "  plait run model.gguf -p \"The capital of France is\" -n 16\n"
                "  plait run model.gguf --chat -p \"Name three primary colors.\" --temp 0.7 --seed 1\n"
                "  plait run model.gguf --ids 1,2,3 -n 8 --json\n",
    .options = options,
    .computes = true,
    .run = run,
};
