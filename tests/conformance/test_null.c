/* The null device passes everything that needs no numbers, and lacks only what it says it lacks. */
/* monitor: no */
#include "conformance/run.h"

static void null_device(void **state) {
    static run_log log;
    (void)state;
    plait_conformance_summary summary = run_suite("null", NULL, &log);
    assert_true(summary.passed > 100);
    printf("%d checks\n", log.n);
}

static void unknown_device(void **state) {
    (void)state;
    assert_int_equal(plait_conformance_run("sun", NULL, NULL, NULL, NULL), PLAIT_INVALID_ARGUMENT);
    assert_int_equal(plait_conformance_run("null:x=1", NULL, NULL, NULL, NULL), PLAIT_INVALID_ARGUMENT);
}

static bool stop(void *user, const plait_conformance_result *result) {
    (void)user, (void)result;
    return false;
}

static void stopping(void **state) {
    (void)state;
    assert_int_equal(plait_conformance_run("null", NULL, stop, NULL, NULL), PLAIT_CANCELLED);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(null_device), cmocka_unit_test(unknown_device),
                                       cmocka_unit_test(stopping)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
