/* plait conformance: the suite that every kind of device must pass, on one device. Results go to stdout, a line for each
 * check that failed or is lacking, then the counts. */
#include "cli/cli.h"

#include "base/log.h"
#include "base/status.h"
#include "plait/conformance.h"

#include <string.h>

typedef struct listing {
    const plait_cli_values *values;
    plait_logger logger;
    uint64_t n_seen;
    plait_status status; /* of writing */
} listing;

static bool show(void *user, const plait_conformance_result *r) {
    static const char *const words[] = {"passed", "FAILED", "lacking"};
    listing *l = user;
    plait_strbuf line;
    bool timed = l->values->bench && r->launch_ns > 0;
    if (!plait_log_progress(&l->logger, r->name, ++l->n_seen % 100, 100)) return false;
    if (r->outcome == PLAIT_CONFORMANCE_PASSED && !timed) return true;
    plait_strbuf_init(&line, 0);
    plait_strbuf_printf(&line, "%-8s %-40s", words[r->outcome], r->name);
    if (timed) {
        plait_strbuf_printf(&line, " %10.1f us", r->launch_ns / 1e3);
        plait_strbuf_printf(&line, " %8.2f GB/s %8.2f GFLOP/s", r->bytes / r->launch_ns,
                            r->flop / r->launch_ns);
    }
    if (r->message[0]) plait_strbuf_printf(&line, " %s", r->message);
    plait_strbuf_append_char(&line, '\n');
    l->status = plait_cli_emit(&line);
    return l->status == PLAIT_OK;
}

static plait_status check(const plait_cli_values *values, plait_conformance_summary *summary) {
    listing l = {.values = values, .logger = plait_cli_logger()};
    plait_conformance_options options = {.struct_bytes = sizeof options,
                                         .only = values->only,
                                         .bench = values->bench,
                                         .json_path = values->out};
    plait_strbuf text;
    plait_status status = plait_conformance_run(values->positional[0], &options, show, &l, summary);
    plait_log_progress(&l.logger, "", 1, 1);
    if (l.status != PLAIT_OK) return l.status;
    PLAIT_TRY(status);
    plait_strbuf_init(&text, 0);
    plait_strbuf_printf(&text, "%s: %d passed, %d failed, %d lacking\n", values->positional[0],
                        summary->passed, summary->failed, summary->lacking);
    return plait_cli_emit(&text);
}

static int run(const plait_cli_values *values) {
    plait_conformance_summary summary = {0};
    plait_cli_catch_interrupt();
    plait_status status = plait_cli_load_devices(values);
    if (status == PLAIT_OK) {
        status = check(values, &summary);
        if (status == PLAIT_INVALID_ARGUMENT) return plait_cli_usage_error();
    }
    if (status == PLAIT_OK && summary.failed)
        status = plait_error(PLAIT_INTERNAL, "conformance of %s: %d checks failed, expected 0",
                             values->positional[0], summary.failed);
    return status == PLAIT_OK ? PLAIT_EXIT_OK : plait_cli_fail(status);
}

static const plait_cli_option options[] = {
    {"--bench", NULL, PLAIT_CLI_FLAG, PLAIT_CLI_FIELD(bench), 0, "also time the launch of each op"},
    {"--only", "PATTERN", PLAIT_CLI_STRING, PLAIT_CLI_FIELD(only), 0,
     "checks whose names match; * stands for anything (op/matmul*)"},
    {"--json", "OUT", PLAIT_CLI_STRING, PLAIT_CLI_FIELD(out), 0, "also write every result to a file as JSON"},
    PLAIT_CLI_DEVICE_PATH,
    PLAIT_CLI_END,
};

const plait_cli_command plait_cli_conformance = {
    .name = "conformance",
    .arguments = "DEVICE",
    .min_positional = 1,
    .max_positional = 1,
    .summary = "Check that a device does what every device must do.",
    .details = "DEVICE is an item of a device list, like cpu or cpu:threads=2. A line is printed for each "
               "check that failed, "
               "or that the device lacks and says so; with --bench for each that was timed. The exit status "
               "is 1 when a check "
               "failed.",
    .examples = "  plait conformance cpu\n  plait conformance cpu:threads=2 --only 'op/matmul*' --bench\n",
    .options = options,
    .run = run,
};
