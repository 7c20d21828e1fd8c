/* plait template: the prompt that a chat template makes of a conversation, byte for byte. Not here: templates out of
 * model files, which run and chat use (conversation.c).
 *
 * No model is needed, so a template can be checked against the one that transformers renders. */
#include "cli/cli.h"

#include "base/status.h"
#include "plait/template.h"

#include <stdio.h>
#include <stdlib.h>

/* The message names the file with the variables only where it is broken; what the template itself says is about the
 * template. Variables stay JSON text for the library, so that no value changes on its way through this program. */
static plait_status render(const plait_cli_values *values, const plait_template *compiled) {
    char *variables;
    size_t n_bytes;
    plait_template_output out = {0};
    PLAIT_TRY(plait_cli_read_file(values->conversation, &variables, &n_bytes));
    plait_template_input input = {
        .variables_json = variables, .variables_bytes = n_bytes, .now = values->now};
    plait_status status = plait_template_render(compiled, &input, &out);
    if (status == PLAIT_CORRUPT) status = plait_error_context(status, "%s", values->conversation);
    if (status == PLAIT_OK) status = plait_cli_write(out.text, out.n_bytes);
    plait_template_output_deinit(&out);
    free(variables);
    return status;
}

static plait_status compile_and_render(const plait_cli_values *values) {
    char *source;
    size_t n_bytes;
    plait_template *compiled;
    PLAIT_TRY(plait_cli_read_file(values->positional[0], &source, &n_bytes));
    plait_status status = plait_error_context(plait_template_create(&compiled, source, n_bytes, NULL), "%s",
                                              values->positional[0]);
    free(source);
    PLAIT_TRY(status);
    status = render(values, compiled);
    plait_template_destroy(compiled);
    return status;
}

/* "2025-03-09 14:05:07" A first look, so that a wrong form is wrong usage; the library checks the rest, as days of
 * months. Widths in the format bound each number, so that no text overflows an int; %n tells that nothing stands
 * behind. */
static bool is_time(const char *text) {
    int year, month, day, hour, minute, second, n = 0;
    return sscanf(text, "%4d-%2d-%2d %2d:%2d:%2d%n", &year, &month, &day, &hour, &minute, &second, &n) == 6 &&
           text[n] == '\0' && month >= 1 && month <= 12 && day >= 1 && day <= 31 && hour >= 0 && hour < 24 &&
           minute >= 0 && minute < 60 && second >= 0 && second <= 60;
}

static int run(const plait_cli_values *values) {
    if (!values->conversation) return plait_cli_usage("template: --conversation C.json is needed");
    if (values->now && !is_time(values->now))
        return plait_cli_usage("--now wants \"YEAR-MONTH-DAY HOUR:MINUTE:SECOND\", not \"%s\"", values->now);
    plait_status status = compile_and_render(values);
    return status == PLAIT_OK ? PLAIT_EXIT_OK : plait_cli_fail(status);
}

static const plait_cli_option options[] = {
    {"--conversation", "C.json", PLAIT_CLI_STRING, PLAIT_CLI_FIELD(conversation), 0,
     "all variables as a JSON object: messages, tools, ... (-: stdin)"},
    {"--now", "TIME", PLAIT_CLI_STRING, PLAIT_CLI_FIELD(now), 0,
     "the time that strftime_now prints, \"2025-03-09 14:05:07\" (default: the clock)"},
    PLAIT_CLI_END,
};

const plait_cli_command plait_cli_template = {
    .name = "template",
    .arguments = "TEMPLATE.jinja --conversation C.json",
    .min_positional = 1,
    .max_positional = 1,
    .summary = "Print the prompt that a chat template renders.",
    .details = "The template is rendered as Hugging Face transformers renders it. Its bytes are printed as "
               "they are, no "
               "line end is added. C.json holds all variables: messages, tools, add_generation_prompt, "
               "bos_token and "
               "whatever else the template looks at.",
    .examples = "  plait template chatml.jinja --conversation c.json --now \"2025-03-09 14:05:07\"\n",
    .options = options,
    .run = run,
};
