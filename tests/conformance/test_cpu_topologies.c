/* labels: slow */
/* monitor: no */
/* The same bytes whatever the machine: checks of products, attention, rows and groups on shares of machines that are not
 * at hand, as hwloc describes them (its own variables say which): two sockets, nodes, unequal cores, with all their
 * threads. Without hwloc the descriptions are not read, and what is compared are shares of the machine at hand. */
#include "conformance/run.h"

#include <stdlib.h>

static run_log expected, found;

static void compare(const char *device, const char *only) {
    run_suite(device, only, &found);
    assert_int_equal(found.n, expected.n);
    assert_true(found.n > 0);
    for (int i = 0; i < found.n; i++) {
        assert_int_equal(found.names[i], expected.names[i]);
        if (found.hashes[i] != expected.hashes[i]) fail_msg("%s: result %d has other bytes", device, i);
    }
}

#define TOPOLOGY PLAIT_SOURCE_DIR "/tests/device/topologies/"

static void same_bytes(void **state) {
    static const struct {
        const char *variable, *value, *device;
    } machines[] = {
        {NULL, NULL, "cpu:numa=each"},
        {NULL, NULL, "cpu:cores=0:threads=2"},
        {"HWLOC_SYNTHETIC", "pack:2 numa:2 core:2 pu:2", "cpu"},
        {"HWLOC_SYNTHETIC", "pack:2 numa:2 core:2 pu:2", "cpu:numa=3"},
        {"HWLOC_XMLFILE", TOPOLOGY "hybrid-8p-16e.xml", "cpu:threads=12"},
        {"HWLOC_XMLFILE", TOPOLOGY "hybrid-8p-16e.xml", "cpu:cores=14-16"},
    };
    static const char *const checks[] = {"*matmul*", "*attention*", "*rms_norm*", "segment/*/9"};
    (void)state;
    for (size_t c = 0; c < sizeof checks / sizeof checks[0]; c++) {
        run_suite("cpu:threads=1", checks[c], &expected);
        for (size_t i = 0; i < sizeof machines / sizeof machines[0]; i++) {
            if (machines[i].variable) setenv(machines[i].variable, machines[i].value, 1);
            plait_device *device = NULL;
            plait_device_info info;
            plait_status status = plait_device_create(machines[i].device, NULL, &device);
            if (status == PLAIT_OK) {
                device->vtable->describe(device, &info);
                device->vtable->destroy(device);
                printf("%s: %s\n", machines[i].device, info.description);
                compare(machines[i].device, checks[c]);
            } else {
                /* No such cores or nodes: then the description was not read, or the machine has no nodes. */
                assert_int_equal(status, PLAIT_INVALID_ARGUMENT);
                printf("%s: %s\n", machines[i].device, plait_error_message());
            }
            if (machines[i].variable) unsetenv(machines[i].variable);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(same_bytes)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
