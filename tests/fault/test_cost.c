/* room: cost */
/* Memory that runs out while a device is measured, its figures are written to the cache and read back: OUT_OF_MEMORY each
 * time, nothing kept. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "cost/cost.h"
#include "fault/fault.h"

/* A device of little memory measures little, and takes the same way through the code: every figure has a value. */
#define SMALL "sim:inner=cpu/threads=1:mem=4MiB"
static char folder[64], one[] = SMALL, two[] = SMALL "," SMALL;

/* A cache of the test's own; what is in it depends on the run before, so each run begins by emptying it. */
static plait_status measure_and_read(void *user) {
    plait_device *device = NULL;
    plait_device_figures figures;
    PLAIT_TRY(plait_device_create(user, NULL, &device));
    plait_status status = plait_device_measure(device, true, &figures, NULL);
    if (status == PLAIT_OK) status = plait_device_measure(device, false, &figures, NULL);
    device->vtable->destroy(device);
    return status;
}

static plait_status links(void *user) {
    plait_context *context = NULL;
    plait_cost cost;
    plait_link_figures link;
    PLAIT_TRY(plait_context_open(&context, user, NULL));
    plait_status status = plait_context_link(context, 0, 1, &link);
    if (status == PLAIT_OK) status = plait_cost_init(&cost, context);
    if (status == PLAIT_OK) plait_cost_deinit(&cost);
    plait_context_close(context);
    return status;
}

static void measuring(void **state) {
    (void)state;
    if (measure_and_read(one) != PLAIT_OK) fail_msg("%s", plait_error_message());
    assert_true(fault_each_named("measuring a device", measure_and_read, one) > 30);
    assert_true(fault_each_named("links of two", links, two) > 5);
}

static int make_cache(void **state) {
    (void)state;
    strcpy(folder, "/tmp/plait-fault-cost-XXXXXX");
    return mkdtemp(folder) ? setenv("XDG_CACHE_HOME", folder, 1) : 1;
}

static int remove_cache(void **state) {
    (void)state;
    char command[128];
    snprintf(command, sizeof command, "rm -r %s", folder);
    return system(command);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test_setup_teardown(measuring, make_cache, remove_cache)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
