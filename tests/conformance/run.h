/* Running the suite from a test: what failed is printed, hashes are kept for comparing devices. */
#ifndef TESTS_CONFORMANCE_RUN_H
#define TESTS_CONFORMANCE_RUN_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "plait/conformance.h"

enum { MAX_RESULTS = 10000 };

typedef struct run_log {
    const char *device;
    int n;
    uint64_t hashes[MAX_RESULTS], names[MAX_RESULTS];
    double worst;
} run_log;

static inline uint64_t name_hash(const char *name) {
    uint64_t h = 1469598103934665603u;
    for (; *name; name++) h = (h ^ (unsigned char)*name) * 1099511628211u;
    return h;
}

static inline bool log_result(void *user, const plait_conformance_result *r) {
    run_log *log = user;
    assert_true(log->n < MAX_RESULTS);
    log->names[log->n] = name_hash(r->name);
    log->hashes[log->n++] = r->hash;
    if (r->error > log->worst) log->worst = r->error;
    if (r->outcome == PLAIT_CONFORMANCE_FAILED) printf("%s: %s: %s\n", log->device, r->name, r->message);
    return true;
}

/* Runs the checks that match and demands that none fails. */
static inline plait_conformance_summary run_suite(const char *device, const char *only, run_log *log) {
    plait_conformance_options options = {.struct_bytes = sizeof options, .only = only};
    plait_conformance_summary summary = {0};
    memset(log, 0, sizeof *log);
    log->device = device;
    plait_status status = plait_conformance_run(device, &options, log_result, log, &summary);
    if (status != PLAIT_OK) fail_msg("%s: %s", device, plait_error_message());
    printf("%s: %d passed, %d failed, %d lacking\n", device, summary.passed, summary.failed, summary.lacking);
    assert_int_equal(summary.failed, 0);
    return summary;
}

#endif
