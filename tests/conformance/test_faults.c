/* The suite finds faults: a device with one fault of choice, many times over. For each the check that is meant for it must
 * fail, with the message that says what is wrong; the same device without a fault passes everything. docs/conformance.md
 * lists them, and this test keeps that list true.
 *
 * `test_conformance_faults PATTERN` tries the faults that match, and prints every message. */
/* with: faulty_device faulty_program */
/* monitor: no */
#include "conformance/run.h"

#include "base/glob.h"
#include "conformance/faulty_device.h"

#include <stdlib.h>

#if defined(__SANITIZE_THREAD__)
#define RACES_ARE_REPORTED 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define RACES_ARE_REPORTED 1
#endif
#endif
#ifndef RACES_ARE_REPORTED
#define RACES_ARE_REPORTED 0
#endif

typedef struct planted {
    fault fault;
    const char *option, *what, *check, *message;
} planted;

static const planted faults[] = {
#define PLANTED(name, option, what, check, message) {FAULT_##name, option, what, check, message},
    FAULTS(PLANTED)
#undef PLANTED
};

enum { N_FAULTS = sizeof faults / sizeof faults[0] };

/* Faults whose nature is that two threads touch the same bytes: the thread sanitizer finds them by itself. */
static bool races(fault f) {
    switch (f) {
    case FAULT_EARLY_EVENT:
    case FAULT_EARLY_READ:
    case FAULT_SHARED_STATE:
    case FAULT_SHARED_SCRATCH:
    case FAULT_OVER_WAIT:
    case FAULT_FOREIGN_WAIT:
    case FAULT_KEEPS_BUFFERS:
    case FAULT_SHARED_MEMORY: return true;
    default: return false;
    }
}

static const char *chosen = "*";

/* ---- catching ---- */

typedef struct catch {
    int n;
    plait_conformance_outcome outcome;
    char message[PLAIT_ERROR_BYTES];
}
catch;

static bool keep_result(void *user, const plait_conformance_result *r) {
    catch *c = user;
    c->n++;
    c->outcome = r->outcome;
    snprintf(c->message, sizeof c->message, "%s", r->message);
    return true;
}

static void catch_one(const planted *p, catch *out) {
    char item[80], lost[100];
    snprintf(item, sizeof item, "faulty:fault=%s", p->option);
    snprintf(lost, sizeof lost, "%s:lose=40", item);
    plait_conformance_options options = {.struct_bytes = sizeof options,
                                         .only = p->check,
                                         .lost_item = lost,
                                         .patience_ns = 1500000000,
                                         .check_limit_ns = 6000000000};
    memset(out, 0, sizeof *out);
    plait_status status = plait_conformance_run(item, &options, keep_result, out, NULL);
    if (status != PLAIT_OK) fail_msg("%s: %s", item, plait_error_message());
    if (out->n != 1) fail_msg("%s: %d checks are named %s, expected 1", p->option, out->n, p->check);
}

static void every_fault(void **state) {
    int n_caught = 0, n_tried = 0;
    (void)state;
    for (int i = 0; i < N_FAULTS; i++) {
        const planted *p = &faults[i];
        catch found;
        if (!plait_glob_matches(chosen, p->option)) continue;
        if (RACES_ARE_REPORTED && races(p->fault)) continue;
        n_tried++;
        catch_one(p, &found);
        bool caught = found.outcome == PLAIT_CONFORMANCE_FAILED,
             named = plait_glob_matches(p->message, found.message);
        printf("%-20s %-32s %s\n", p->option, p->check, found.message);
        if (!caught) printf("    NOT FOUND: %s\n", p->what);
        if (caught && !named) printf("    expected: %s\n", p->message);
        n_caught += caught && named;
    }
    printf("%d of %d faults found and named\n", n_caught, n_tried);
    assert_int_equal(n_caught, n_tried);
    assert_true(n_tried >= 30 || strcmp(chosen, "*") != 0);
}

/* ---- no fault, nothing found ---- */

static void unbroken(void **state) {
    static run_log log;
    plait_conformance_options options = {.struct_bytes = sizeof options, .lost_item = "faulty:lose=40"};
    plait_conformance_summary summary = {0};
    (void)state;
    memset(&log, 0, sizeof log);
    log.device = "faulty";
    assert_int_equal(plait_conformance_run("faulty", &options, log_result, &log, &summary), PLAIT_OK);
    printf("faulty without a fault: %d passed, %d failed, %d lacking\n", summary.passed, summary.failed,
           summary.lacking);
    assert_int_equal(summary.failed, 0);
    assert_true(summary.passed > 3500);
}

/* ---- the documentation ---- */

static char *read_file(const char *path) {
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    char *text = calloc(1, 1 << 20);
    assert_non_null(text);
    assert_true(fread(text, 1, (1 << 20) - 1, file) > 0);
    fclose(file);
    return text;
}

/* Every fault is a row of docs/conformance.md, as it is in the list. */
static void documented(void **state) {
    char *text = read_file(PLAIT_SOURCE_DIR "/docs/conformance.md");
    int n_missing = 0;
    (void)state;
    for (int i = 0; i < N_FAULTS; i++) {
        char row[1024];
        snprintf(row, sizeof row, "\n| `%s` | %s | `%s` | `%s` |\n", faults[i].option, faults[i].what,
                 faults[i].check, faults[i].message);
        if (strstr(text, row)) continue;
        printf("missing in docs/conformance.md:%s", row);
        n_missing++;
    }
    free(text);
    assert_int_equal(n_missing, 0);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_fault), cmocka_unit_test(unbroken),
                                       cmocka_unit_test(documented)};
    if (plait_device_register(&faulty_vtable) != PLAIT_OK) return 1;
    if (argc > 1) {
        chosen = argv[1];
        return cmocka_run_group_tests_name(
            "one", ((const struct CMUnitTest[]){cmocka_unit_test(every_fault)}), NULL, NULL);
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
