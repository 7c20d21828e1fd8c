/* Running the suite on simulated devices and comparing their bytes with the device inside. */
#ifndef TESTS_CONFORMANCE_SIM_SETTINGS_H
#define TESTS_CONFORMANCE_SIM_SETTINGS_H

#include "conformance/run.h"

static run_log expected, found;

static inline int place_of(const run_log *log, uint64_t name) {
    for (int i = 0; i < log->n; i++)
        if (log->names[i] == name) return i;
    return -1;
}

/* What both computed is equal in every byte. Returns how many results that is. */
static inline int assert_same(const char *device) {
    int n = 0;
    for (int i = 0; i < found.n; i++) {
        int k = place_of(&expected, found.names[i]);
        if (k < 0 || !found.hashes[i] || !expected.hashes[k]) continue;
        if (found.hashes[i] != expected.hashes[k]) fail_msg("%s: result %d has other bytes", device, i);
        n++;
    }
    return n;
}

typedef struct run_count {
    int passed, lacking, same;
} run_count;

/* compared: with the bytes of `expected`. */
static inline void run_part(const char *device, const char *only, bool compared, run_count *count) {
    plait_conformance_summary summary = run_suite(device, only, &found);
    count->passed += summary.passed;
    count->lacking += summary.lacking;
    if (compared) count->same += assert_same(device);
}

/* What a device does whatever it computes. Segments with 9 tokens: more than one tile of rows, and a ragged one. */
static inline void run_behaviour(const char *device, bool compared, run_count *count) {
    static const char *const parts[] = {"memory/*", "copy/*",    "queue/*",    "event/*",
                                        "peer/*",   "program/*", "device/*",   "failure/*",
                                        "life/*",   "packing/*", "segment/*/9"};
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) run_part(device, parts[i], compared, count);
}

/* Of single ops what a setting of a simulated device can change: how operands lie, which types there are, what may share
 * bytes. Other sizes and values go the same way through it. */
static inline void run_operands(const char *device, bool compared, run_count *count) {
    static const char *const parts[] = {
        "op/*/plain",    "op/*/offset",  "op/*/padded", "op/*/permuted",  "op/*/strided",      "op/*/gapped",
        "op/*/in-place", "op/*/bounded", "op/*/empty",  "op/*/ragged*17", "op/*/type-*/random"};
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) run_part(device, parts[i], compared, count);
}

/* Demands so many checks that were not lacking. */
static inline void enough(const char *device, const run_count *count, int passed) {
    printf("in all, %s: %d passed, 0 failed, %d lacking, %d with the bytes of cpu\n", device, count->passed,
           count->lacking, count->same);
    assert_true(count->passed > passed);
}

#endif
