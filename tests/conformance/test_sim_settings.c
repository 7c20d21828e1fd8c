/* labels: slow */
/* monitor: no */
/* A simulated device passes the suite in all its settings, with the bytes of the device inside. */
#include "conformance/sim_settings.h"

static void settings(void **state) {
    static const char *const devices[] = {
        "sim",
        "sim:inner=cpu/threads=2:mem=64MiB:lack=attention+rope",
        "sim:lack-type=q4_0+q8_0+f16:copy-queues=3",
        "sim:max-dim=40:max-rank=3",
        "sim:contiguous=yes:pad=100:granularity=1000",
        "sim:no=peer+boxes+waits+timelines+packing+pinned+update+clock+names:copy-queues=0",
        "sim:delay=2:delay-max=50us:reorder=22:inner=cpu/threads=2",
    };
    (void)state;
    run_settings(devices, sizeof devices / sizeof devices[0]);
}

static void other_behaviour(void **state) {
    static const char *const devices[] = {
        "sim:import=yes:nan=no:poison=no",
        "sim:bandwidth=4GiB:latency=1us:flops=20G:memory-bandwidth=20GB:speed=0.5:overhead=2us",
        "sim:delay=1:delay-max=20us:reorder=1",
        "sim:reorder=333",
        "sim:inner=sim/import=yes/reorder=5:reorder=5",
    };
    (void)state;
    run_behaviour(devices, sizeof devices / sizeof devices[0]);
}

/* Another alignment or form of weights lays out the suite's memory in another way, so that bytes are not compared. */
static void other_layouts(void **state) {
    (void)state;
    run_suite("sim:inner=null", NULL, &found);
    run_suite("sim:no=packing+peer:reorder=4", NULL, &found);
    run_suite("sim:align=4096:pad=4097:granularity=3000", NULL, &found);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(settings), cmocka_unit_test(other_behaviour),
                                       cmocka_unit_test(other_layouts)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
