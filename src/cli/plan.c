/* plait plan: what would run where, why, and what it costs, without taking memory for it. Not here: planning and its
 * proofs (plan), what --compare prints (compare.c). */
#include "cli/compare.h"

#include "base/os.h"
#include "base/status.h"
#include "plait/cost.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The plans of a model: that of the layers, then those of the outputs. The outputs have plans of their own because a
 * step needs one of them at most, and the layers are the same before each. */
static const char *const names[] = {"layers", "argmax", "best", "logits"};
enum { N_PLANS = 4 };

/* 0 is the plan of the layers; the tails follow in the order of `names`. */
static const plait_plan *plan_at(const plait_model *model, int i) {
    return i == 0 ? plait_model_plan(model) : plait_model_tail_plan(model, i - 1);
}

/* "the same again" are the options that give this plan without fitting, for scripts. Mapped weights lie in the file's
 * own pages, which the system may drop and read again; packed ones are copies in the layout of a device, and count as
 * memory in full. */
static void print_memory(const plait_model *model, const plait_model_facts *f, plait_strbuf *out) {
    plait_strbuf_printf(out,
                        "%s, %lld layers, context %lld, steps of up to %lld tokens\n"
                        "the same again: %s\nweights: packed ",
                        f->architecture, (long long)f->n_layers, (long long)f->context, (long long)f->batch,
                        plait_model_flags(model));
    plait_strbuf_bytes(out, f->weight_private_bytes);
    plait_strbuf_append(out, ", mapped ");
    plait_strbuf_bytes(out, f->weight_mapped_bytes);
    plait_strbuf_append(out, "; cache ");
    plait_strbuf_bytes(out, f->state_bytes);
    plait_strbuf_append(out, "; temporaries ");
    plait_strbuf_bytes(out, f->temporary_bytes);
    plait_strbuf_append_char(out, '\n');
}

/* Without the line ends at its end, so that JSON and text can go on behind it. */
static plait_status append(plait_status (*print)(const plait_plan *, char **), const plait_plan *plan,
                           plait_strbuf *out) {
    char *text;
    PLAIT_TRY(print(plan, &text));
    size_t n = strlen(text);
    while (n > 0 && text[n - 1] == '\n') n--;
    plait_strbuf_append_n(out, text, n);
    free(text);
    return PLAIT_OK;
}

/* An empty line before each plan. */
static plait_status print_text(const plait_model *model, const plait_model_facts *facts, plait_strbuf *out) {
    print_memory(model, facts, out);
    for (int i = 0; i < N_PLANS; i++) {
        plait_strbuf_append_char(out, '\n');
        PLAIT_TRY(append(plait_plan_print, plan_at(model, i), out));
        plait_strbuf_append_char(out, '\n');
    }
    return PLAIT_OK;
}

/* The plans print themselves; a plan that cannot be printed is a failure, and nothing goes out. */
static plait_status print_json(const plait_model *model, const plait_model_facts *f, plait_strbuf *out) {
    plait_strbuf_append(out, "{\"architecture\":");
    plait_strbuf_json_string(out, f->architecture);
    plait_strbuf_append(out, ",\"flags\":");
    plait_strbuf_json_string(out, plait_model_flags(model));
    plait_strbuf_printf(
        out,
        ",\"context\":%lld,\"batch\":%lld,\"weight_private_bytes\":%llu,\"weight_mapped_bytes\":%llu,"
        "\"state_bytes\":%llu,\"temporary_bytes\":%llu,\"plans\":{",
        (long long)f->context, (long long)f->batch, (unsigned long long)f->weight_private_bytes,
        (unsigned long long)f->weight_mapped_bytes, (unsigned long long)f->state_bytes,
        (unsigned long long)f->temporary_bytes);
    for (int i = 0; i < N_PLANS; i++) {
        plait_strbuf_printf(out, "%s\"%s\":", i ? ",\n" : "\n", names[i]);
        PLAIT_TRY(append(plait_plan_print_json, plan_at(model, i), out));
    }
    plait_strbuf_append(out, "\n}}\n");
    return PLAIT_OK;
}

/* A page that stands alone: no scripts or pictures from elsewhere. 64 bytes of a foreign name are enough for a title.
 * Written before the text is printed, so that its failure leaves standard output empty. */
static plait_status write_html(const plait_model *model, const plait_model_facts *facts, const char *path) {
    char *page, title[160];
    const plait_plan *plans[N_PLANS];
    /* Whole or not at all; -1 is nothing to abandon. */
    plait_file_writer file = {.fd = -1};
    for (int i = 0; i < N_PLANS; i++) plans[i] = plan_at(model, i);
    snprintf(title, sizeof title, "Plans of a %.64s model", facts->architecture);
    PLAIT_TRY(plait_plans_print_html(plans, N_PLANS, title, &page));
    plait_status status = plait_file_writer_open(&file, path);
    if (status == PLAIT_OK) status = plait_file_writer_write(&file, page, strlen(page));
    if (status == PLAIT_OK) status = plait_file_writer_commit(&file);
    plait_file_writer_abandon(&file);
    free(page);
    return plait_error_context(status, "--html");
}

static plait_status compare(const plait_cli_values *values, const plait_model *model, plait_strbuf *out) {
    const plait_plan *plans[N_PLANS];
    for (int i = 0; i < N_PLANS; i++) plans[i] = plan_at(model, i);
    return plait_cli_compare(plans, N_PLANS, values->compare, values->json, out);
}

/* Times are predicted from the devices' figures, which a plan for one device does not need. The figures themselves are
 * not used here: asking leaves them in the context, where printing finds them. */
static plait_status find_figures(plait_context *context) {
    plait_device_figures figures;
    for (int d = 0; d < plait_context_device_count(context); d++)
        PLAIT_TRY(plait_context_figures(context, d, &figures));
    return PLAIT_OK;
}

/* Everything is made before anything is written, so a failure leaves no half output. */
static plait_status print(const plait_cli_values *values, plait_context *context, const plait_model *model) {
    plait_model_facts facts;
    plait_strbuf out;
    /* Measured now if they were not before, so that the times in the plan are all there. */
    PLAIT_TRY(find_figures(context));
    plait_model_describe(model, &facts);
    plait_strbuf_init(&out, 0);
    /* --compare takes the place of the plans, --html comes beside either. */
    plait_status status = values->compare ? compare(values, model, &out)
                                          : (values->json ? print_json : print_text)(model, &facts, &out);
    if (status == PLAIT_OK && values->html) status = write_html(model, &facts, values->html);
    if (status == PLAIT_OK) return plait_cli_emit(&out);
    plait_strbuf_deinit(&out);
    return status;
}

/* Dry: the model is planned as it would be opened, with the same fitting. */
static void plan_only(plait_model_options *options, const void *user) {
    (void)user;
    options->dry = true;
    /* As run and chat do, so that the plan is theirs. */
    options->kv_open = true;
}

static int run(const plait_cli_values *values) {
    plait_context *context;
    plait_model *model;
    int exit_status = plait_cli_open(values, plan_only, NULL, &context, &model);
    if (exit_status != PLAIT_EXIT_OK) return exit_status;
    plait_status status = print(values, context, model);
    if (status != PLAIT_OK) exit_status = plait_cli_fail(status);
    plait_cli_close(context, model);
    return exit_status;
}

static const plait_cli_option options[] = {
    PLAIT_CLI_JSON("plans as one JSON object"),
    {"--machine", "FILE", PLAIT_CLI_STRING, PLAIT_CLI_FIELD(machine), 0,
     "plan for the devices that a file describes, whatever is here: docs/fit.md"},
    {"--html", "OUT", PLAIT_CLI_STRING, PLAIT_CLI_FIELD(html), 0, "also a page with pictures of the plans"},
    {"--compare", "TRACE", PLAIT_CLI_STRING, PLAIT_CLI_FIELD(compare), 0,
     "lay a trace (--trace of run, bench, ...) beside the plans instead of printing them"},
    PLAIT_CLI_END,
};

const plait_cli_command plait_cli_plan = {
    .name = "plan",
    .arguments = "FILE",
    .min_positional = 1,
    .max_positional = 1,
    .summary = "Show what would run where, why, and what it costs.",
    .details =
        "The model is planned, and the plan proved, without memory being taken for weights or cache. Shown "
        "are the plan "
        "of the layers and those of the outputs: the best token only (argmax), the n best (best), all "
        "logits.\n\n"
        "--json prints "
        "{\"architecture\",\"flags\",\"context\",\"batch\",\"weight_private_bytes\",\"weight_mapped_bytes\","
        "\"state_bytes\",\"temporary_bytes\",\"plans\":{\"layers\":{...},\"argmax\":{...},\"best\":{...},"
        "\"logits\":{...}}}; docs/command-line.md describes the plans.\n\n"
        "--compare reads a trace that was made with the same model, devices and options, predicts the steps "
        "that it "
        "recorded, and prints time by queue, the largest differences by name, and what only one side has. "
        "With --json: "
        "{\"steps\",\"spans\",\"known_spans\",\"queues\":[...],\"names\":[...],\"only_in_trace\":[...]}.",
    .examples =
        "  plait plan model.gguf\n  plait plan model.gguf --ctx 8192 --kv q8_0 --html plan.html\n"
        "  plait plan model.gguf --machine two-cards.txt\n"
        "  plait run model.gguf -p Hello -n 32 --trace t.json && plait plan model.gguf --compare t.json\n",
    .options = options,
    .computes = true,
    .run = run,
};
