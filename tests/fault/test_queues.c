/* room: run */
/* labels: slow */
/* Memory that runs out while plans for several devices are made, proved and run: waits, mirrors, the relay, staging, rows
 * by ids. OUT_OF_MEMORY each time, nothing kept; and steps in flight allocate nothing. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "fault/fault.h"
#include "graph/graph.h"
#include "plait/run.h"
#include "support/fake_device.h"
#include "support/layers.h"

static plait_graph *graph, *states; /* made once: graphs have tests of their own */

static plait_status zeros(void *user, const char *name, plait_operand *out, bool *out_lasting) {
    static unsigned char bytes[1 << 16];
    const plait_graph *known = user;
    plait_tensor tensor;
    PLAIT_TRY(plait_graph_find(known, name, &tensor));
    *out = known->tensors[tensor.id].shape;
    out->data = bytes;
    *out_lasting = true;
    return PLAIT_OK;
}

/* Everything from the context to outputs of two steps. */
static plait_status plan_and_run(void *user) {
    plait_context *context = NULL;
    plait_residence *residence = NULL;
    plait_plan *plan = NULL;
    plait_run *run = NULL;
    const void *bytes;
    uint64_t size;
    const plait_pin pins[] = {{"*cache*", 0}, {"0.*", 1}};
    plait_status status = plait_context_open(&context, user, NULL);
    plait_residence_options options = {.pins = pins, .n_pins = 2, .split = PLAIT_SPLIT_NONE};
    const plait_graph *graphs[] = {states};
    if (status == PLAIT_OK) status = plait_residence_create(&residence, context, graphs, 1, &options);
    if (status == PLAIT_OK)
        status =
            plait_plan_make(&plan, context, graph, &(plait_plan_options){.residence = residence, .depth = 3});
    plait_weight_source source = {.find = zeros, .user = states};
    if (status == PLAIT_OK) status = plait_residence_load(residence, &source);
    if (status == PLAIT_OK) status = plait_run_create(&run, plan, NULL);
    for (int step = 0; step < 2 && status == PLAIT_OK; step++) {
        status = plait_run_step(run);
        if (status == PLAIT_OK) status = plait_run_output(run, "half", &bytes, &size);
    }
    plait_run_destroy(run);
    plait_plan_release(plan);
    plait_residence_release(residence);
    plait_context_close(context);
    return status;
}

static void several_devices(void **state) {
    (void)state;
    static char lists[][128] = {
        "fake:lack=kv_write,fake:lack=attention",
        "fake:lack=kv_write:hide=yes:copy=1:waits=no,fake:lack=attention:hide=yes:copy=2:waits=no",
    };
    for (size_t l = 0; l < sizeof lists / sizeof *lists; l++) {
        if (plan_and_run(lists[l]) != PLAIT_OK) fail_msg("%s: %s", lists[l], plait_error_message());
        assert_true(fault_each_named(lists[l], plan_and_run, lists[l]) > 100);
    }
}

static int make_known(void **state) {
    (void)state;
    graph = layers(1);
    states = layers_states(1);
    return graph && states && fake_register() == PLAIT_OK ? 0 : -1;
}

static int forget_graphs(void **state) {
    (void)state;
    plait_graph_destroy(graph);
    plait_graph_destroy(states);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(several_devices)};
    return cmocka_run_group_tests(tests, make_known, forget_graphs);
}
