/* The cpu device passes the whole suite with one and with two threads, and gives the same bytes on every instruction set
 * and for every number of threads. Instruction sets that this processor lacks are named and left to emulation
 * (scripts/test-arm64 and the
 * kernels' own tests). */
/* monitor: no */
#include "conformance/run.h"

static run_log expected, found;

static void all_checks(void **state) {
    (void)state;
    plait_conformance_summary summary = run_suite("cpu:threads=2", NULL, &expected);
    assert_true(summary.passed > 4000);
    printf("largest difference to the reference, of its bound: %.3g\n", expected.worst);
}

/* Equal names, equal hashes. Both logs have the checks in the same order. */
static void assert_same(const char *device) {
    int k = 0;
    for (int i = 0; i < found.n; i++) {
        while (k < expected.n && expected.names[k] != found.names[i]) k++;
        assert_true(k < expected.n);
        if (found.hashes[i] != expected.hashes[k]) fail_msg("%s: result %d has other bytes", device, i);
    }
    printf("%s: %d results with the same bytes\n", device, found.n);
}

static void one_thread(void **state) {
    (void)state;
    run_suite("cpu:threads=1", NULL, &found);
    assert_int_equal(found.n, expected.n);
    assert_same("cpu:threads=1");
}

/* What depends on how work is cut: the rest of the suite has nothing new to say about them. Segments with 9 tokens: more
 * than one tile of rows, and a ragged one. */
static const char *const kernels[] = {"op/*/plain", "op/*/ragged*", "segment/*/9", "packing/*"};

static void run_kernels(const char *device) {
    for (size_t i = 0; i < sizeof kernels / sizeof kernels[0]; i++) {
        run_suite(device, kernels[i], &found);
        assert_true(found.n >= 80);
        assert_same(device);
    }
}

static void other_threads(void **state) {
    static const char *const devices[] = {"cpu:threads=3", "cpu:threads=4"};
    (void)state;
    for (size_t i = 0; i < sizeof devices / sizeof devices[0]; i++) run_kernels(devices[i]);
}

static void other_instruction_sets(void **state) {
    static const char *const sets[] = {"portable", "avx2", "avxvnni", "avx512", "avx512vnni"};
    int n = 0;
    (void)state;
    for (size_t i = 0; i < sizeof sets / sizeof sets[0]; i++) {
        char device[64];
        plait_device *probe = NULL;
        snprintf(device, sizeof device, "cpu:threads=1:isa=%s", sets[i]);
        plait_status status = plait_device_create(device, NULL, &probe);
        if (status == PLAIT_UNSUPPORTED) {
            printf("%s: not on this processor\n", sets[i]);
            continue;
        }
        assert_int_equal(status, PLAIT_OK);
        probe->vtable->destroy(probe);
        run_kernels(device);
        n++;
    }
    printf("%d instruction sets\n", n);
    assert_true(n >= 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(all_checks), cmocka_unit_test(one_thread),
                                       cmocka_unit_test(other_threads),
                                       cmocka_unit_test(other_instruction_sets)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
