/* A simulated device passes the suite while it dawdles and executes in random order, lacks what it may lack, and stands
 * around a device that computes nothing. The other settings are in test_sim_settings.c. */
/* monitor: no */
#include "conformance/sim_settings.h"

static void settings(void **state) {
    static const char *const devices[] = {
        "sim:delay=2:delay-max=50us:reorder=22:inner=cpu/threads=2",
        "sim:no=peer+boxes+waits+timelines+packing+pinned+update+clock+names:copy-queues=0",
    };
    (void)state;
    run_settings(devices, sizeof devices / sizeof devices[0]);
}

/* A device inside that neither computes nor imports. */
static void around_null(void **state) {
    (void)state;
    plait_conformance_summary summary = run_suite("sim:inner=null:reorder=9", NULL, &found);
    assert_true(summary.passed > 100);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(settings), cmocka_unit_test(around_null)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
