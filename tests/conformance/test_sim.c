/* The simulated device passes the suite whatever it lacks and however it dawdles, with the bytes of the device inside. */
#include "conformance/run.h"

static run_log expected, found;

static int place_of(const run_log *log, uint64_t name) {
    for (int i = 0; i < log->n; i++)
        if (log->names[i] == name) return i;
    return -1;
}

/* What both computed is equal in every byte. Returns how many results that is. */
static int assert_same(const char *device) {
    int n = 0;
    for (int i = 0; i < found.n; i++) {
        int k = place_of(&expected, found.names[i]);
        if (k < 0 || !found.hashes[i] || !expected.hashes[k]) continue;
        if (found.hashes[i] != expected.hashes[k]) fail_msg("%s: result %d has other bytes", device, i);
        n++;
    }
    return n;
}

static void settings(void **state) {
    static const char *const devices[] = {
        "sim",
        "sim:inner=cpu/threads=2",
        "sim:mem=64MiB:lack=attention+rope",
        "sim:lack-type=q4_0+q8_0+f16:copy-queues=3",
        "sim:max-dim=40:max-rank=3",
        "sim:contiguous=yes:pad=100:granularity=1000",
        "sim:no=peer+boxes+waits+timelines+packing+pinned+update+clock+names:copy-queues=0",
        "sim:import=yes:nan=no:poison=no",
        "sim:bandwidth=4GiB:latency=1us:flops=20G:speed=0.5:overhead=2us",
        "sim:delay=1:delay-max=20us:reorder=1",
        "sim:delay=2:delay-max=50us:reorder=22:inner=cpu/threads=2",
        "sim:reorder=333",
    };
    (void)state;
    run_suite("cpu:threads=1", NULL, &expected);
    for (size_t i = 0; i < sizeof devices / sizeof devices[0]; i++) {
        plait_conformance_summary summary = run_suite(devices[i], NULL, &found);
        assert_true(summary.passed > 500);
        int n = assert_same(devices[i]);
        printf("%s: %d results with the bytes of cpu\n", devices[i], n);
        assert_true(n > 300);
    }
}

/* Another alignment lays out the suite's memory in another way; a device inside may neither compute nor import. */
static void other_layouts(void **state) {
    (void)state;
    run_suite("sim:align=4096:pad=4097:granularity=3000", NULL, &found);
    plait_conformance_summary summary = run_suite("sim:inner=null:reorder=9", NULL, &found);
    assert_true(summary.passed > 100);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(settings), cmocka_unit_test(other_layouts)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
