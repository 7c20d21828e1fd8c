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

/* Nothing fails on any of the devices, and they compute what a cpu does. */
static inline void run_settings(const char *const *devices, size_t n_devices) {
    run_suite("cpu:threads=1", NULL, &expected);
    for (size_t i = 0; i < n_devices; i++) {
        plait_conformance_summary summary = run_suite(devices[i], NULL, &found);
        assert_true(summary.passed > 500);
        int n = assert_same(devices[i]);
        printf("%s: %d results with the bytes of cpu\n", devices[i], n);
        assert_true(n > 300);
    }
}

/* What does not depend on how a device computes: everything but single ops, of which two stand for all. */
static inline void run_behaviour(const char *const *devices, size_t n_devices) {
    static const char *const groups[] = {"memory/*",  "copy/*",    "queue/*",    "event/*", "peer/*",
                                         "program/*", "device/*",  "failure/*",  "life/*",  "segment/*",
                                         "packing/*", "op/copy/*", "op/matmul/*"};
    for (size_t i = 0; i < n_devices; i++) {
        int passed = 0;
        for (size_t g = 0; g < sizeof groups / sizeof groups[0]; g++)
            passed += run_suite(devices[i], groups[g], &found).passed;
        assert_true(passed > 200);
    }
}

#endif
