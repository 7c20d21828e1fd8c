/* plait devices: what this machine has, by kind of device, and how fast it is. Not here: measuring (cost), whether
 * results are right (conformance.c). */
#include "cli/cli.h"

#include "base/status.h"
#include "plait/cost.h"

#include <string.h>

/* Kinds and devices as they are written, each list in its own buffer. Devices and kinds come out of one pass, since
 * making a device tells both whether its kind is available and what it is, and making one may take long, as starting a
 * driver does. */
typedef struct listing {
    plait_strbuf kinds, devices;
    bool json, again, any_device;
} listing;

/* A member behind others: the comma comes first. */
static void bytes_json(plait_strbuf *out, const char *name, uint64_t value) {
    plait_strbuf_printf(out, ",\"%s\":%llu", name, (unsigned long long)value);
}

static void text_json(plait_strbuf *out, const char *name, const char *value) {
    plait_strbuf_printf(out, ",\"%s\":", name);
    plait_strbuf_json_string(out, value);
}

/* ---- figures ---- */

/* In the order of plait_figures_source. The source is printed because it tells how far to trust: "stated" figures come
 * from a description, and may be of no real machine. */
static const char *const sources[] = {"stated", "cached", "measured"};

/* By the list of all figures, so that a new one cannot be forgotten. */
static void figures_json(plait_strbuf *out, const plait_device_figures *f, plait_figures_source source) {
    plait_strbuf_printf(out, ",\"figures\":{\"source\":\"%s\"", sources[source]);
#define PRINT(name) bytes_json(out, #name, f->name);
    /* Their names in JSON are those of the fields. */
    PLAIT_DEVICE_FIGURES(PRINT)
#undef PRINT
    plait_strbuf_append_char(out, '}');
}

/* Two lines below the device's own, indented to its column. Three digits, since most of these are measurements. */
static void figures_text(plait_strbuf *out, const plait_device_figures *f, plait_figures_source source) {
    plait_strbuf_printf(out,
                        "%10s products %.3g GFLOP/s (float %.3g), attention %.3g GFLOP/s; weights %.3g GB/s, "
                        "other bytes %.3g GB/s\n",
                        "", (double)f->integer_flop_per_s / 1e9, (double)f->float_flop_per_s / 1e9,
                        (double)f->attention_flop_per_s / 1e9, (double)f->weight_bytes_per_s / 1e9,
                        (double)f->bytes_per_s / 1e9);
    plait_strbuf_printf(
        out,
        "%10s from the host %.3g GB/s and %.3g us, to it %.3g GB/s and %.3g us; a launch %.3g "
        "us, a node %.3g us (%s)\n",
        "", (double)f->write_bytes_per_s / 1e9, (double)f->write_ns / 1e3, (double)f->read_bytes_per_s / 1e9,
        (double)f->read_ns / 1e3, (double)f->launch_ns / 1e3, (double)f->node_ns / 1e3, sources[source]);
}

/* ---- devices and kinds ---- */

/* The object stays open for what follows. */
static void facts_json(plait_strbuf *out, const plait_device_info *info) {
    plait_strbuf_append(out, "{\"name\":");
    plait_strbuf_json_string(out, info->name);
    text_json(out, "kind", info->kind);
    text_json(out, "description", info->description);
    text_json(out, "numeric_class", info->numeric_class);
    bytes_json(out, "memory_total_bytes", info->memory_total_bytes);
    bytes_json(out, "memory_free_bytes", info->memory_free_bytes);
    bytes_json(out, "max_buffer_bytes", info->max_buffer_bytes);
    bytes_json(out, "alignment", info->alignment);
    plait_strbuf_printf(out, ",\"threads\":%d,\"unified_memory\":%s", info->n_threads,
                        info->unified_memory ? "true" : "false");
}

/* Free memory first: it is what decides about fitting. */
static void facts_text(plait_strbuf *out, const plait_device_info *info) {
    plait_strbuf_printf(out, "%-10s %s; memory ", info->name, info->description);
    plait_strbuf_bytes(out, info->memory_free_bytes);
    plait_strbuf_append(out, " free of ");
    plait_strbuf_bytes(out, info->memory_total_bytes);
    plait_strbuf_printf(out, "; numeric class %s\n", info->numeric_class);
}

/* A device that fails while it is measured is listed all the same, with what it said. A device that cannot even
 * describe itself is a failure, as there is nothing to list. */
static plait_status add_device(listing *l, plait_device *device) {
    plait_device_info info;
    plait_device_figures figures;
    plait_figures_source source;
    PLAIT_TRY(device->vtable->describe(device, &info));
    if (l->json && l->any_device) plait_strbuf_append_char(&l->devices, ',');
    (l->json ? facts_json : facts_text)(&l->devices, &info);
    /* Cached figures are used unless --measure asks for new ones. */
    if (plait_device_measure(device, l->again, &figures, &source) == PLAIT_OK)
        (l->json ? figures_json : figures_text)(&l->devices, &figures, source);
    else if (l->json)
        text_json(&l->devices, "failure", plait_error_message());
    else
        plait_strbuf_printf(&l->devices, "%10s %s\n", "", plait_error_message());
    if (l->json) plait_strbuf_append_char(&l->devices, '}');
    l->any_device = true;
    return PLAIT_OK;
}

/* A kind: its line, and the device that it makes without options, or why it makes none. The device is made even when it
 * is not listed, to tell whether the kind is available. Without options means the first device of the machine; others
 * of a kind are seen with --devices. */
static void add_kind(listing *l, const plait_device_vtable *kind, bool first, bool with_device) {
    plait_logger logger = plait_cli_logger();
    plait_device *device = NULL;
    plait_status status = plait_device_create(kind->kind, &logger, &device);
    if (status == PLAIT_OK && with_device) status = add_device(l, device);
    /* Read at once: the message is that of the last failure only. */
    const char *reason = status == PLAIT_OK ? "" : plait_error_message();
    if (l->json) {
        plait_strbuf_append(&l->kinds, first ? "{\"kind\":" : ",{\"kind\":");
        plait_strbuf_json_string(&l->kinds, kind->kind);
        text_json(&l->kinds, "doc", kind->doc ? kind->doc : "");
        plait_strbuf_printf(&l->kinds, ",\"available\":%s", status == PLAIT_OK ? "true" : "false");
        text_json(&l->kinds, "reason", reason);
        plait_strbuf_append_char(&l->kinds, '}');
    } else {
        plait_strbuf_printf(&l->kinds, "%-10s %s%s%s\n", kind->kind, kind->doc ? kind->doc : "",
                            reason[0] ? "; not available: " : "", reason);
    }
    if (device) device->vtable->destroy(device);
}

/* The devices of a list instead of one of each kind. The context owns the devices, so it stays open until all are
 * measured. */
static int add_listed(listing *l, const plait_cli_values *values) {
    plait_context *context;
    int exit_status = plait_cli_open_context(values, &context);
    if (exit_status != PLAIT_EXIT_OK) return exit_status;
    plait_status status = PLAIT_OK;
    for (int d = 0; status == PLAIT_OK && d < plait_context_device_count(context); d++)
        status = add_device(l, plait_context_device(context, d));
    if (status != PLAIT_OK) exit_status = plait_cli_fail(status);
    plait_context_close(context);
    return exit_status;
}

/* Kinds and devices are found together and printed one after the other. */
static plait_status print(listing *l) {
    plait_strbuf out;
    plait_strbuf_init(&out, 0);
    plait_strbuf_append(&out, l->json ? "{\"devices\":[" : "Devices\n");
    plait_strbuf_append(&out, plait_strbuf_text(&l->devices));
    plait_strbuf_append(&out, l->json ? "],\"kinds\":[" : "\nKinds, for --devices\n");
    plait_strbuf_append(&out, plait_strbuf_text(&l->kinds));
    if (l->json) plait_strbuf_append(&out, "]}\n");
    plait_strbuf_inherit(&out, &l->devices);
    plait_strbuf_inherit(&out, &l->kinds);
    return plait_cli_emit(&out);
}

/* A kind that fails is listed with its reason and is no failure of the command. */
static int run(const plait_cli_values *values) {
    listing l = {.json = values->json, .again = values->measure};
    int exit_status = PLAIT_EXIT_OK;
    plait_strbuf_init(&l.kinds, 0);
    plait_strbuf_init(&l.devices, 0);
    plait_status status = PLAIT_OK;
    if (values->devices)
        exit_status = add_listed(&l, values); /* opening a context loads the libraries */
    else
        status = plait_cli_load_devices(values);
    if (status == PLAIT_OK && exit_status == PLAIT_EXIT_OK) {
        for (int i = 0; i < plait_device_kind_count(); i++)
            add_kind(&l, plait_device_kind_at(i), i == 0, !values->devices);
        status = print(&l);
    }
    plait_strbuf_deinit(&l.kinds);
    plait_strbuf_deinit(&l.devices);
    return status == PLAIT_OK ? exit_status : plait_cli_fail(status);
}

static const plait_cli_option options[] = {
    {"--devices", "LIST", PLAIT_CLI_STRING, PLAIT_CLI_FIELD(devices), 0,
     "these devices instead of one of each kind"},
    {"--measure", NULL, PLAIT_CLI_FLAG, PLAIT_CLI_FIELD(measure), 0,
     "measure again what was measured before"},
    PLAIT_CLI_DEVICE_PATH,
    PLAIT_CLI_JSON("the same as one JSON object"),
    PLAIT_CLI_END,
};

const plait_cli_command plait_cli_devices = {
    .name = "devices",
    .arguments = "",
    .summary = "List the devices of this machine and the kinds of device that plait knows.",
    .details =
        "Figures are what plans for several devices are made by. A device that does not state its own is "
        "measured, in less than half a second, and the result is kept in ${XDG_CACHE_HOME:-~/.cache}/plait. "
        "They are rounded to a scale with steps of 10%.\n\n"
        "--json prints {\"devices\":[{\"name\",\"kind\",\"description\",\"numeric_class\","
        "\"memory_total_bytes\",\"memory_free_bytes\",\"max_buffer_bytes\",\"alignment\",\"threads\","
        "\"unified_memory\",\"figures\":{\"source\",\"integer_flop_per_s\",\"float_flop_per_s\","
        "\"attention_flop_per_s\",\"weight_bytes_per_s\",\"bytes_per_s\",\"launch_ns\",\"node_ns\","
        "\"write_bytes_per_s\",\"read_bytes_per_s\",\"peer_bytes_per_s\",\"write_ns\",\"read_ns\","
        "\"peer_ns\"}},...],\"kinds\":[{\"kind\",\"doc\",\"available\",\"reason\"},...]}; \"failure\" stands "
        "for "
        "\"figures\" where a device failed while it was measured.",
    .examples = "  plait devices\n  plait devices --devices cpu:threads=1,cpu:threads=1 --json\n",
    .options = options,
    .run = run,
};
