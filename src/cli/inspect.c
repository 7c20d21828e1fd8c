/* plait inspect: what is in a file, and whether this program can run it. What an architecture needs is asked of the
 * model room, by opening the model for planning only. Not here: reading and describing files (src/gguf).
 *
 * Broken files are what this command is for: it shows what can be read, and fails at the end. */
#include "cli/cli.h"

#include "base/status.h"
#include "gguf/describe.h"

#include <string.h>

/* Why the file cannot be run, or "" when it can. Memory for weights is not taken. Everything but a lack of memory here
 * is a property of the file. A dry opening does all that is checked before weights are loaded: architecture, tensors,
 * their shapes and types. So "runs" is never a list of names that somebody has to keep current. */
static plait_status find_obstacle(const char *path, char out[PLAIT_ERROR_BYTES]) {
    plait_context *context;
    plait_model *model;
    /* The CPU runs every model that can be run. */
    PLAIT_TRY(plait_context_open(&context, NULL, NULL));
    plait_status status = plait_model_open(&model, context, path, &(plait_model_options){.dry = true});
    out[0] = '\0';
    if (status == PLAIT_OK)
        plait_model_release(model);
    else
        plait_error_copy(out, PLAIT_ERROR_BYTES);
    plait_context_close(context);
    /* That says nothing about the file. */
    return status == PLAIT_OUT_OF_MEMORY ? status : PLAIT_OK;
}

/* Texts of the file go through the printers of gguf, which make control characters harmless. */
static void print_text(const plait_cli_values *values, const plait_gguf_description *d, const char *obstacle,
                       plait_strbuf *out) {
    plait_gguf_description_text(d, out);
    plait_strbuf_printf(out, "%-24s", "runs");
    if (obstacle[0]) plait_strbuf_append(out, "no: ");
    plait_gguf_plain_text(
        /* The obstacle may quote names of the file. */
        (plait_gguf_string){obstacle[0] ? obstacle : "yes", strlen(obstacle[0] ? obstacle : "yes")},
        PLAIT_ERROR_BYTES, out);
    plait_strbuf_append_char(out, '\n');
    if (values->metadata) {
        plait_strbuf_append_char(out, '\n');
        plait_gguf_metadata_text(d->gguf, NULL, out);
    }
    if (values->tensors) {
        plait_strbuf_append_char(out, '\n');
        plait_gguf_tensors_text(d->gguf, out);
    }
}

/* The description's object with more members. */
static void print_json(const plait_cli_values *values, const plait_gguf_description *d, const char *obstacle,
                       plait_strbuf *out) {
    plait_strbuf_append(out, "{\"runs\":");
    plait_strbuf_append(out, obstacle[0] ? "false" : "true");
    plait_strbuf_append(out, ",\"obstacle\":");
    if (obstacle[0])
        plait_strbuf_json_string(out, obstacle);
    else
        plait_strbuf_append(out, "null");
    plait_strbuf_append(out, ",\"description\":");
    plait_gguf_description_json(d, out);
    plait_strbuf_append(out, ",\"metadata\":");
    plait_gguf_metadata_json(d->gguf, NULL, out);
    if (values->tensors) {
        plait_strbuf_append(out, ",\"tensors\":");
        plait_gguf_tensors_json(d->gguf, out);
    }
    plait_strbuf_append(out, "}\n");
}

/* The file is opened twice: once for its metadata as they are, once by the model, with all checks. */
static plait_status print(const plait_cli_values *values, const plait_gguf *gguf) {
    plait_gguf_description description;
    char obstacle[PLAIT_ERROR_BYTES];
    plait_strbuf out;
    PLAIT_TRY(find_obstacle(values->positional[0], obstacle));
    PLAIT_TRY(plait_gguf_describe(&description, gguf, NULL));
    plait_strbuf_init(&out, 0);
    (values->json ? print_json : print_text)(values, &description, obstacle, &out);
    plait_gguf_description_deinit(&description);
    return plait_cli_emit(&out);
}

static int run(const plait_cli_values *values) {
    plait_gguf *gguf;
    plait_status status =
        plait_gguf_open(&gguf, values->positional[0], &(plait_gguf_options){.metadata_only = true});
    if (status != PLAIT_OK) return plait_cli_fail(status);
    status = print(values, gguf);
    if (status == PLAIT_OK) status = plait_gguf_check_tensors(gguf); /* what was shown, but cannot be used */
    int exit_status = status == PLAIT_OK ? PLAIT_EXIT_OK : plait_cli_fail(status);
    plait_gguf_release(gguf);
    return exit_status;
}

static const plait_cli_option options[] = {
    {"--tensors", NULL, PLAIT_CLI_FLAG, PLAIT_CLI_FIELD(tensors), 0, "also every tensor"},
    {"--metadata", NULL, PLAIT_CLI_FLAG, PLAIT_CLI_FIELD(metadata), 0,
     "also every metadata entry (in JSON they are always there)"},
    PLAIT_CLI_JSON("the same as one JSON object"),
    PLAIT_CLI_END,
};

const plait_cli_command plait_cli_inspect = {
    .name = "inspect",
    .arguments = "FILE",
    .min_positional = 1,
    .max_positional = 1,
    .summary = "Show what is in a model file.",
    .details = "A file that cannot be used as it is (cut, overlapping or unknown tensors) is shown as far as "
               "it makes sense, "
               "and the exit status is 1. \"runs\" tells whether this program can run the model, and what is "
               "missing "
               "otherwise.\n\n"
               "--json prints {\"runs\":bool,\"obstacle\":text or "
               "null,\"description\":{...},\"metadata\":[...]}, with "
               "--tensors also "
               "\"tensors\":[{\"name\",\"type\",\"dims\",\"n_elems\",\"bytes\",\"offset\",\"part\"},...].",
    .examples = "  plait inspect model.gguf\n  plait inspect model.gguf --tensors --json\n",
    .options = options,
    .run = run,
};
