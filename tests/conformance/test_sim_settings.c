/* labels: slow */
/* monitor: no */
/* A simulated device passes the suite in all its settings, with the bytes of the device inside. The plain one does all
 * checks, the others those that a setting can change; `test_conformance_sim_settings all` does all with all of them (the
 * target `long-tests`, and the way to look at them under a sanitizer). */
#include "conformance/sim_settings.h"

static bool all;

/* Checks of one device; where its memory is laid out as a cpu's is, the bytes are a cpu's, too. */
static void check(const char *device, bool whole, bool compared) {
    run_count count = {0};
    if (whole || all) {
        run_part(device, NULL, compared, &count);
    } else {
        run_behaviour(device, compared, &count);
        run_operands(device, compared, &count);
    }
    enough(device, &count, 500);
    assert_true(!compared || count.same > 300);
}

static void settings(void **state) {
    static const char *const devices[] = {
        "sim:inner=cpu/threads=2:mem=64MiB:lack=attention+rope",
        "sim:lack-type=q4_0+q8_0+f16:copy-queues=3",
        "sim:max-dim=40:max-rank=3",
        "sim:contiguous=yes:pad=100:granularity=1000",
        "sim:no=peer+boxes+waits+timelines+packing+pinned+update+clock+names:copy-queues=0",
        "sim:delay=2:delay-max=50us:reorder=22:inner=cpu/threads=2",
    };
    (void)state;
    run_suite("cpu:threads=1", NULL, &expected);
    check("sim", true, true);
    for (size_t i = 0; i < sizeof devices / sizeof devices[0]; i++) check(devices[i], false, true);
}

/* Of these only what they do with commands and memory is looked at, unless all is: their numbers are those of the plain
 * one. */
static void other_behaviour(void **state) {
    static const char *const devices[] = {
        "sim:import=yes:nan=no:poison=no",
        "sim:bandwidth=4GiB:latency=1us:flops=20G:memory-bandwidth=20GB:speed=0.5:overhead=2us",
        "sim:delay=1:delay-max=20us:reorder=1",
        "sim:reorder=333",
        "sim:inner=sim/import=yes/reorder=5:reorder=5",
    };
    (void)state;
    for (size_t i = 0; i < sizeof devices / sizeof devices[0]; i++) {
        run_count count = {0};
        if (all) {
            check(devices[i], true, false);
            continue;
        }
        run_behaviour(devices[i], false, &count);
        run_part(devices[i], "op/matmul/*", false, &count);
        enough(devices[i], &count, 200);
    }
}

/* Another alignment or form of weights lays out the suite's memory in another way, so that bytes are not compared. */
static void other_layouts(void **state) {
    (void)state;
    check("sim:inner=null", false, false);
    check("sim:no=packing+peer:reorder=4", false, false);
    check("sim:align=4096:pad=4097:granularity=3000", false, false);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(settings), cmocka_unit_test(other_behaviour),
                                       cmocka_unit_test(other_layouts)};
    all = argc > 1 && strcmp(argv[1], "all") == 0;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
