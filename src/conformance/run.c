/* The suite's frame: opens the device, runs the groups, counts and delivers results. Invariant: a result is delivered
 * for every check that was asked for, in one fixed order. */
#include "base/glob.h"
#include "base/os.h"
#include "base/size.h"
#include "conformance/suite.h"

#include <stdio.h>
#include <string.h>

static const char *const outcome_names[] = {"passed", "failed", "lacking"};

bool plait_conf_wanted(const plait_conf *c, const char *name) {
    return !c->stopped && (!c->options.only || plait_glob_matches(c->options.only, name));
}

static void append_json(plait_conf *c) {
    const plait_conformance_result *r = &c->result;
    if (!c->options.json_path) return;
    plait_strbuf_append(&c->json,
                        c->summary.passed + c->summary.failed + c->summary.lacking > 1 ? ",\n" : "");
    plait_strbuf_append(&c->json, "{\"name\":");
    plait_strbuf_json_string(&c->json, r->name);
    plait_strbuf_printf(&c->json, ",\"outcome\":\"%s\",\"message\":", outcome_names[r->outcome]);
    plait_strbuf_json_string(&c->json, r->message);
    plait_strbuf_append(&c->json, ",\"error\":");
    plait_strbuf_json_number(&c->json, r->error);
    plait_strbuf_printf(&c->json, ",\"hash\":\"%016llx\",\"launch_ns\":", (unsigned long long)r->hash);
    plait_strbuf_json_number(&c->json, r->launch_ns);
    plait_strbuf_append(&c->json, ",\"bytes\":");
    plait_strbuf_json_number(&c->json, r->bytes);
    plait_strbuf_append(&c->json, ",\"flop\":");
    plait_strbuf_json_number(&c->json, r->flop);
    plait_strbuf_append(&c->json, "}");
}

void plait_conf_check(plait_conf *c, const char *name, plait_conf_fn fn, void *user) {
    char message[PLAIT_ERROR_BYTES] = "";
    if (!plait_conf_wanted(c, name)) return;
    c->result = (plait_conformance_result){.name = name, .message = message};
    plait_status status = fn(c, user);
    if (status != PLAIT_OK) plait_error_copy(message, sizeof message);
    c->result.outcome = status == PLAIT_OK            ? PLAIT_CONFORMANCE_PASSED
                        : status == PLAIT_UNSUPPORTED ? PLAIT_CONFORMANCE_LACKING
                                                      : PLAIT_CONFORMANCE_FAILED;
    int *const counts[] = {&c->summary.passed, &c->summary.failed, &c->summary.lacking};
    ++*counts[c->result.outcome];
    append_json(c);
    if (c->deliver && !c->deliver(c->user, &c->result)) c->stopped = true;
}

static plait_status write_json(plait_conf *c) {
    plait_file_writer writer;
    plait_strbuf_append(&c->json, "\n]}\n");
    PLAIT_TRY(plait_strbuf_status(&c->json));
    PLAIT_TRY(plait_file_writer_open(&writer, c->options.json_path));
    plait_status status = plait_file_writer_write(&writer, plait_strbuf_text(&c->json), c->json.length);
    if (status == PLAIT_OK) return plait_file_writer_commit(&writer);
    plait_file_writer_abandon(&writer);
    return status;
}

static plait_status run_groups(plait_conf *c) {
    static void (*const groups[])(plait_conf *) = {
        plait_conf_memory, plait_conf_queues,   plait_conf_events,   plait_conf_failures,
        plait_conf_ops,    plait_conf_segments, plait_conf_packings,
    };
    plait_strbuf_append(&c->json, "{\"device\":");
    plait_strbuf_json_string(&c->json, c->item);
    plait_strbuf_append(&c->json, ",\"description\":");
    plait_strbuf_json_string(&c->json, c->info.description);
    plait_strbuf_append(&c->json, ",\"results\":[\n");
    for (size_t i = 0; i < PLAIT_COUNT_OF(groups); i++) groups[i](c);
    if (c->options.json_path) PLAIT_TRY(write_json(c));
    if (c->stopped) return plait_error(PLAIT_CANCELLED, "conformance of %s was stopped", c->item);
    return PLAIT_OK;
}

static plait_status open_and_run(plait_conf *c) {
    PLAIT_TRY(plait_device_create(c->item, NULL, &c->device));
    c->v = c->device->vtable;
    PLAIT_TRY(c->v->describe(c->device, &c->info));
    c->computes = strcmp(c->info.numeric_class, "null") != 0;
    PLAIT_TRY(c->v->queue_create(c->device, PLAIT_QUEUE_INLINE, &c->queue));
    return run_groups(c);
}

plait_status plait_conformance_run(const char *device_item, const plait_conformance_options *options,
                                   plait_conformance_fn result, void *user,
                                   plait_conformance_summary *out_summary) {
    plait_conf c = {.item = device_item, .deliver = result, .user = user};
    if (options) {
        size_t bytes = options->struct_bytes < sizeof c.options ? options->struct_bytes : sizeof c.options;
        memcpy(&c.options, options, bytes);
    }
    plait_strbuf_init(&c.json, 0);
    plait_status status = open_and_run(&c);
    if (c.queue) c.v->queue_destroy(c.queue);
    if (c.device) c.v->destroy(c.device);
    plait_strbuf_deinit(&c.json);
    if (status == PLAIT_OK && out_summary) *out_summary = c.summary;
    return status;
}
