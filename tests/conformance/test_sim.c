/* A simulated device passes the suite while it dawdles and executes in random order, lacks what it may lack, and stands
 * around a device that neither computes nor imports. All ops in all settings: test_sim_settings.c. */
/* monitor: no */
/* labels: threads */
#include "conformance/sim_settings.h"

static void behaviour(void **state) {
    static const char *const devices[] = {
        "sim:delay=2:delay-max=50us:reorder=22:inner=cpu/threads=2",
        "sim:no=peer+boxes+waits+timelines+packing+pinned+update+clock+names:copy-queues=0",
        "sim:inner=null:reorder=9",
    };
    (void)state;
    for (size_t i = 0; i < sizeof devices / sizeof devices[0]; i++) {
        run_count count = {0};
        run_behaviour(devices[i], false, &count);
        /* Two ops stand for all. */
        run_part(devices[i], "op/copy/*", false, &count);
        run_part(devices[i], "op/matmul/*", false, &count);
        enough(devices[i], &count, 200);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(behaviour)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
