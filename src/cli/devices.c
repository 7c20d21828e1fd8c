/* plait devices: what this machine has, by kind of device. */
#include "cli/cli.h"

#include "base/status.h"

#include <string.h>

static void bytes_json(plait_strbuf *out, const char *name, uint64_t value) {
    plait_strbuf_printf(out, ",\"%s\":%llu", name, (unsigned long long)value);
}

static void text_json(plait_strbuf *out, const char *name, const char *value) {
    plait_strbuf_printf(out, ",\"%s\":", name);
    plait_strbuf_json_string(out, value);
}

static void device_json(plait_strbuf *out, const plait_device_info *info) {
    plait_strbuf_append(out, "{\"name\":");
    plait_strbuf_json_string(out, info->name);
    text_json(out, "kind", info->kind);
    text_json(out, "description", info->description);
    text_json(out, "numeric_class", info->numeric_class);
    bytes_json(out, "memory_total_bytes", info->memory_total_bytes);
    bytes_json(out, "memory_free_bytes", info->memory_free_bytes);
    bytes_json(out, "max_buffer_bytes", info->max_buffer_bytes);
    bytes_json(out, "alignment", info->alignment);
    plait_strbuf_printf(out, ",\"threads\":%d,\"unified_memory\":%s}", info->n_threads,
                        info->unified_memory ? "true" : "false");
}

static void device_text(plait_strbuf *out, const plait_device_info *info) {
    plait_strbuf_printf(out, "%-10s %s; memory ", info->name, info->description);
    plait_strbuf_bytes(out, info->memory_free_bytes);
    plait_strbuf_append(out, " free of ");
    plait_strbuf_bytes(out, info->memory_total_bytes);
    plait_strbuf_printf(out, "; numeric class %s\n", info->numeric_class);
}

/* A kind: its line, and the device that it makes without options, or why it makes none. */
static void add_kind(const plait_device_vtable *kind, bool json, bool first, plait_strbuf *kinds,
                     plait_strbuf *devices, bool *any_device) {
    plait_logger logger = plait_cli_logger();
    plait_device *device = NULL;
    plait_device_info info = {0};
    plait_status status = plait_device_create(kind->kind, &logger, &device);
    if (status == PLAIT_OK) status = device->vtable->describe(device, &info);
    const char *reason = status == PLAIT_OK ? "" : plait_error_message();
    if (json) {
        plait_strbuf_append(kinds, first ? "{\"kind\":" : ",{\"kind\":");
        plait_strbuf_json_string(kinds, kind->kind);
        text_json(kinds, "doc", kind->doc ? kind->doc : "");
        plait_strbuf_printf(kinds, ",\"available\":%s", status == PLAIT_OK ? "true" : "false");
        text_json(kinds, "reason", reason);
        plait_strbuf_append_char(kinds, '}');
    } else {
        plait_strbuf_printf(kinds, "%-10s %s%s%s\n", kind->kind, kind->doc ? kind->doc : "",
                            reason[0] ? "; not available: " : "", reason);
    }
    if (status == PLAIT_OK) {
        if (json && *any_device) plait_strbuf_append_char(devices, ',');
        (json ? device_json : device_text)(devices, &info);
        *any_device = true;
    }
    if (device) device->vtable->destroy(device);
}

static plait_status print(bool json) {
    plait_strbuf kinds, devices, out;
    bool any = false;
    plait_strbuf_init(&kinds, 0);
    plait_strbuf_init(&devices, 0);
    plait_strbuf_init(&out, 0);
    for (int i = 0; i < plait_device_kind_count(); i++)
        add_kind(plait_device_kind_at(i), json, i == 0, &kinds, &devices, &any);
    plait_strbuf_append(&out, json ? "{\"devices\":[" : "Devices\n");
    plait_strbuf_append(&out, plait_strbuf_text(&devices));
    plait_strbuf_append(&out, json ? "],\"kinds\":[" : "\nKinds, for --devices\n");
    plait_strbuf_append(&out, plait_strbuf_text(&kinds));
    if (json) plait_strbuf_append(&out, "]}\n");
    plait_strbuf_deinit(&kinds);
    plait_strbuf_deinit(&devices);
    return plait_cli_emit(&out);
}

static int run(const plait_cli_values *values) {
    plait_status status = PLAIT_OK;
    if (values->device_path)
        status = plait_error_context(plait_device_load(values->device_path), "--device-path");
    if (status == PLAIT_OK) status = print(values->json);
    return status == PLAIT_OK ? PLAIT_EXIT_OK : plait_cli_fail(status);
}

static const plait_cli_option options[] = {
    {"--device-path", "LIB", PLAIT_CLI_STRING, PLAIT_CLI_FIELD(device_path), 0,
     "load a device kind from a shared library"},
    PLAIT_CLI_JSON("the same as one JSON object"),
    PLAIT_CLI_END,
};

const plait_cli_command plait_cli_devices = {
    .name = "devices",
    .arguments = "",
    .summary = "List the devices of this machine and the kinds of device that plait knows.",
    .details = "--json prints {\"devices\":[{\"name\",\"kind\",\"description\",\"numeric_class\","
               "\"memory_total_bytes\",\"memory_free_bytes\",\"max_buffer_bytes\",\"alignment\",\"threads\","
               "\"unified_memory\"},...],\"kinds\":[{\"kind\",\"doc\",\"available\",\"reason\"},...]}.",
    .examples = "  plait devices\n  plait devices --json\n",
    .options = options,
    .run = run,
};
