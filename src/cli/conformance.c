/* plait conformance: the suite that every kind of device must pass, on one device. What failed goes to stdout at once;
 * at the end a table of the groups, what is lacking and why, and the times, when asked for. Not here: the checks
 * (src/conformance).
 *
 * A result is looked at once, while it comes: nothing is kept of checks that passed but counts, the worst error and a
 * line of times, so that the deep suite needs no more memory than the short one. */
#include "cli/cli.h"

#include "base/log.h"
#include "base/size.h"
#include "base/status.h"
#include "plait/conformance.h"

#include <stdio.h>
#include <string.h>

/* Beyond these numbers groups and reasons are counted together; texts are cut for the listing, and whole in the JSON
 * file. */
enum { MAX_GROUPS = 20, MAX_REASONS = 60, SHOWN_REASONS = 12, NAME_BYTES = 80, REASON_BYTES = 200 };

/* counts: by outcome, in the order of plait_conformance_outcome. worst: the largest error as a part of its bound. */
typedef struct group {
    char name[24];
    int counts[3];
    double worst;
    char worst_name[NAME_BYTES];
} group;

/* `first`: the check that gave it first, as an example. Thousands of checks lack something for a handful of reasons,
 * and those are what a reader wants. */
typedef struct reason {
    char text[REASON_BYTES], first[NAME_BYTES];
    int n;
} reason;

typedef struct listing {
    const plait_cli_values *values;
    plait_logger logger;
    uint64_t n_seen;
    int n_groups, n_reasons, n_other; /* other: reasons beyond the room for them */
    group groups[MAX_GROUPS];
    reason reasons[MAX_REASONS];
    plait_strbuf times;  /* lines of what was timed */
    plait_status status; /* of writing */
} listing;

/* ---- while it runs ---- */

/* The group is the part of the name before the first slash. A dozen groups are searched one by one for each result,
 * which is nothing beside a check. */
static group *group_of(listing *l, const char *name) {
    size_t n = strcspn(name, "/");
    for (int i = 0; i < l->n_groups; i++)
        if (strlen(l->groups[i].name) == n && memcmp(l->groups[i].name, name, n) == 0) return &l->groups[i];
    /* Beyond the room the last group takes all others, under the name of the newest. */
    group *g = &l->groups[l->n_groups < MAX_GROUPS ? l->n_groups++ : MAX_GROUPS - 1];
    snprintf(g->name, sizeof g->name, "%.*s", (int)n, name);
    return g;
}

/* Reasons are compared by what is kept of them. A message may name sizes, so that each check has a reason of its own;
 * the bound of the array is for those. */
static void count_reason(listing *l, const plait_conformance_result *r) {
    for (int i = 0; i < l->n_reasons; i++)
        if (strncmp(l->reasons[i].text, r->message, REASON_BYTES - 1) == 0) {
            l->reasons[i].n++;
            return;
        }
    if (l->n_reasons == MAX_REASONS) {
        l->n_other++;
        return;
    }
    reason *new_reason = &l->reasons[l->n_reasons++];
    snprintf(new_reason->text, REASON_BYTES, "%s", r->message);
    snprintf(new_reason->first, NAME_BYTES, "%s", r->name);
    new_reason->n = 1;
}

/* ns to us; bytes and flop by ns are GB/s and GFLOP/s. The share is of the limit that binds the launch: memory or
 * arithmetic, whichever allows less. */
static void add_time(listing *l, const plait_conformance_result *r) {
    if (r->launch_ns <= 0) return;
    plait_strbuf_printf(&l->times, "%-44s %10.1f %9.2f %9.2f %8.0f%%\n", r->name, r->launch_ns / 1e3,
                        r->bytes / r->launch_ns, r->flop / r->launch_ns, 100 * r->share_of_limit);
}

/* At once and not at the end: a run may be long, or never end on a broken device. */
static plait_status print_failure(const plait_conformance_result *r) {
    plait_strbuf line;
    plait_strbuf_init(&line, 0);
    plait_strbuf_printf(&line, "FAILED  %s\n        %s\n", r->name, r->message);
    return plait_cli_emit(&line);
}

/* False ends the run: after Ctrl-C, or when stdout cannot be written. The number of checks is not known before, so
 * progress only shows that it goes on. The write's failure is kept in the listing, because the suite only learns that
 * it shall stop. */
static bool show(void *user, const plait_conformance_result *r) {
    listing *l = user;
    group *g = group_of(l, r->name);
    if (!plait_log_progress(&l->logger, r->name, ++l->n_seen % 100, 100)) return false;
    g->counts[r->outcome]++;
    if (r->error > g->worst) {
        g->worst = r->error;
        snprintf(g->worst_name, sizeof g->worst_name, "%s", r->name);
    }
    if (r->outcome == PLAIT_CONFORMANCE_LACKING) count_reason(l, r);
    if (r->outcome == PLAIT_CONFORMANCE_FAILED) l->status = print_failure(r);
    add_time(l, r);
    return l->status == PLAIT_OK;
}

/* ---- afterwards ---- */

/* counts in the order passed, failed, lacking. */
static void table(const listing *l, const plait_conformance_summary *s, plait_strbuf *out) {
    plait_strbuf_printf(out, "%s: %s\n\n%-10s %7s %7s %8s   %s\n", l->values->positional[0],
                        s->info.description, "group", "passed", "failed", "lacking", "worst, of its bound");
    for (int i = 0; i < l->n_groups; i++) {
        const group *g = &l->groups[i];
        plait_strbuf_printf(out, "%-10s %7d %7d %8d", g->name, g->counts[0], g->counts[1], g->counts[2]);
        if (g->worst > 0) plait_strbuf_printf(out, "   %.2f %s", g->worst, g->worst_name);
        plait_strbuf_append_char(out, '\n');
    }
    plait_strbuf_printf(out, "%-10s %7d %7d %8d\n", "all", s->passed, s->failed, s->lacking);
}

/* The reasons that most checks give, one a line. The counts are used up by it. */
static void lacking(listing *l, plait_strbuf *out) {
    int shown = 0, rest = l->n_other;
    if (l->n_reasons) plait_strbuf_append(out, "\nlacking\n");
    for (; shown < SHOWN_REASONS; shown++) {
        /* Selection by count: a dozen passes over some dozens of reasons. */
        reason *most = NULL;
        for (int i = 0; i < l->n_reasons; i++)
            if (l->reasons[i].n > (most ? most->n : 0)) most = &l->reasons[i];
        if (!most) break;
        plait_strbuf_printf(out, "%7d %s (%s%s)\n", most->n, most->text, most->first,
                            most->n > 1 ? ", ..." : "");
        most->n = 0;
    }
    for (int i = 0; i < l->n_reasons; i++) rest += l->reasons[i].n;
    if (rest) plait_strbuf_printf(out, "%7d for other reasons, which --json has\n", rest);
}

/* Beside the limits that were measured on the same device in the same run. */
static void times(const listing *l, const plait_conformance_summary *s, plait_strbuf *out) {
    if (!l->values->bench) return;
    plait_strbuf_printf(out, "\nmeasured limits: %.2f GB/s, %.2f GFLOP/s\n\n%-44s %10s %9s %9s %9s\n",
                        s->bytes_per_s / 1e9, s->flop_per_s / 1e9, "launch", "us", "GB/s", "GFLOP/s",
                        "of limit");
    plait_strbuf_append(out, plait_strbuf_text(&l->times));
    plait_strbuf_inherit(out, &l->times);
}

/* A failed write stands in front of the cancellation that it caused. The listing is printed only after a run that came
 * to its end: half a table would look like a whole one. */
static plait_status check(listing *l, plait_conformance_summary *summary) {
    plait_conformance_options options = {.struct_bytes = sizeof options,
                                         .only = l->values->only,
                                         .bench = l->values->bench,
                                         .deep = l->values->deep,
                                         .monitor = l->values->monitor,
                                         .lost_item = l->values->lost,
                                         .json_path = l->values->out};
    plait_strbuf text;
    plait_status status = plait_conformance_run(l->values->positional[0], &options, show, l, summary);
    plait_log_progress(&l->logger, "", 1, 1);
    if (l->status != PLAIT_OK) return l->status;
    PLAIT_TRY(status);
    plait_strbuf_init(&text, 0);
    table(l, summary, &text);
    lacking(l, &text);
    times(l, summary, &text);
    return plait_cli_emit(&text);
}

/* Failed checks are a failure of the command, though the suite itself ran well. */
static int run(const plait_cli_values *values) {
    static listing l; /* large for a stack */
    plait_conformance_summary summary = {0};
    l = (listing){.values = values, .logger = plait_cli_logger()};
    plait_cli_catch_interrupt();
    plait_status status = plait_cli_load_devices(values);
    if (status == PLAIT_OK) {
        plait_strbuf_init(&l.times, 0);
        status = check(&l, &summary);
        plait_strbuf_deinit(&l.times);
        /* A device item that is wrong is wrong usage. */
        if (status == PLAIT_INVALID_ARGUMENT) return plait_cli_usage_error();
    }
    if (status == PLAIT_OK && summary.failed)
        status = plait_error(PLAIT_INTERNAL, "conformance of %s: %d checks failed, expected 0",
                             values->positional[0], summary.failed);
    return status == PLAIT_OK ? PLAIT_EXIT_OK : plait_cli_fail(status);
}

static const plait_cli_option options[] = {
    {"--bench", NULL, PLAIT_CLI_FLAG, PLAIT_CLI_FIELD(bench), 0,
     "also time ops at the sizes of models, beside the device's measured limits"},
    {"--deep", NULL, PLAIT_CLI_FLAG, PLAIT_CLI_FIELD(deep), 0,
     "more sizes, types, values and rounds: minutes instead of seconds"},
    {"--only", "PATTERN", PLAIT_CLI_STRING, PLAIT_CLI_FIELD(only), 0,
     "checks whose names match; * stands for anything (op/matmul*)"},
    {"--lost", "ITEM", PLAIT_CLI_STRING, PLAIT_CLI_FIELD(lost), 0,
     "also check loss, on this device, which is lost after some commands (sim:lose=40)"},
    {"--monitor", NULL, PLAIT_CLI_FLAG, PLAIT_CLI_FIELD(monitor), 0,
     "put a monitor around every device, which looks at each call"},
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
    .details =
        "DEVICE is an item of a device list, like cpu or cpu:threads=2. Every check that failed is printed "
        "with "
        "its message; then a table of the groups of checks, with the largest error of each beside its bound, "
        "and "
        "what the device says that it lacks. docs/conformance.md tells what is checked. The exit status is 1 "
        "when a check failed.",
    .examples = "  plait conformance cpu\n  plait conformance cpu:threads=2 --only 'op/matmul*'\n"
                "  plait conformance sim:mem=64MiB --lost sim:lose=40\n  plait conformance cpu --only "
                "'shape/*' --bench\n",
    .options = options,
    .run = run,
};
