/* room: plan */
/* Memory that runs out while residence is decided for several devices, in each of its ways, and while plans are placed:
 * OUT_OF_MEMORY each time, nothing kept, and the next decision is right. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "fault/fault.h"
#include "plan/plan.h"
#include "support/decoder.h"
#include "support/fake_device.h"

typedef struct life {
    const char *devices;
    plait_graph *graph;
    plait_residence_options options;
    int copies; /* that planning inserts */
} life;

static plait_status use(plait_context *context, const life *l) {
    const plait_graph *graphs[] = {l->graph};
    plait_residence *residence = NULL;
    plait_plan *plan = NULL;
    plait_plan_facts facts;
    PLAIT_TRY(plait_residence_create(&residence, context, graphs, 1, &l->options));
    plait_status status =
        plait_plan_make(&plan, context, l->graph, &(plait_plan_options){.residence = residence});
    if (status == PLAIT_OK) {
        plait_plan_describe(plan, &facts);
        assert_int_equal(facts.n_copies, l->copies);
        assert_true(facts.predicted_ns > 0 || strchr(l->devices, ',') == NULL);
    }
    plait_plan_release(plan);
    plait_residence_release(residence);
    return status;
}

static plait_status whole_life(void *user) {
    const life *l = user;
    plait_context *context = NULL;
    PLAIT_TRY(plait_context_open(&context, l->devices, NULL));
    plait_status status = use(context, l);
    plait_context_close(context);
    return status;
}

static void each_allocation(void **state) {
    (void)state;
    static const double half[] = {1, 1}, none[] = {0, 1};
    static const plait_pin pins[] = {{"blk.1.*", 1}, {"cache.*", 0}};
    static const uint64_t tight[] = {160000, 90000};
    static const struct {
        const char *name, *devices;
        plait_residence_options options;
    } ways[] = {
        {"by cost", "fake,fake:speed=2", {0}},
        {"by ratio", "fake,fake", {.ratio = half}},
        {"nothing on one", "fake,fake", {.ratio = none}},
        {"none, with lacks", "fake:lack=rope+attention,fake", {.split = PLAIT_SPLIT_NONE}},
        {"pins", "fake,fake", {.pins = pins, .n_pins = 2}},
        {"little memory", "fake,fake", {.budget_bytes = tight, .split = PLAIT_SPLIT_NONE}},
    };
    plait_graph *graph = decoder_make(3, 32, 4);
    assert_non_null(graph);
    for (size_t w = 0; w < sizeof ways / sizeof *ways; w++) {
        life l = {.devices = ways[w].devices, .graph = graph, .options = ways[w].options};
        if (whole_life(&l) != PLAIT_OK) fail_msg("%s: %s", ways[w].name, plait_error_message());
        assert_true(fault_each_named(ways[w].name, whole_life, &l) > 30);
    }
    plait_graph_destroy(graph);
}

/* A device that refuses what it accepted: the search for the culprit, and the second plan. */
static plait_status refused(void *user) {
    plait_context *context = NULL;
    plait_plan *plan = NULL;
    PLAIT_TRY(plait_context_open(&context, "fake:refuse=swiglu:balk=rope,fake", NULL));
    plait_status status =
        plait_plan_make(&plan, context, user, &(plait_plan_options){.split = PLAIT_SPLIT_NONE});
    plait_plan_release(plan);
    plait_context_close(context);
    return status;
}

static void refusals(void **state) {
    (void)state;
    plait_graph *graph = decoder_make(1, 32, 4);
    assert_non_null(graph);
    if (refused(graph) != PLAIT_OK) fail_msg("%s", plait_error_message());
    fault_each(refused, graph);
    plait_graph_destroy(graph);
}

/* Operands that a device takes only dense: the second graph, its places, and the proof that compares the two. */
static void copies(void **state) {
    static const int order[] = {1, 0, 2, 3};
    static const char *const devices[] = {"fake:dense=yes", "fake:dense=yes:latency=1000000,fake",
                                          "fake:dense=all:latency=1000000,fake"};
    static const plait_pin pins[] = {{"a", 0}, {"relu", 0}};
    plait_graph *graph = plait_graph_create(NULL);
    (void)state;
    plait_tensor x = plait_input(graph, "x", PLAIT_F32, PLAIT_SHAPE(16, 16));
    x = plait_matmul(graph, plait_weight(graph, "a", PLAIT_F32, PLAIT_SHAPE(16, 16)), x);
    x = plait_named(graph, "relu", plait_relu(graph, plait_permute(graph, x, order)));
    plait_output(graph, "y", x);
    assert_int_equal(plait_graph_seal(graph), PLAIT_OK);
    for (size_t w = 0; w < sizeof devices / sizeof *devices; w++) {
        life l = {.devices = devices[w], .graph = graph, .options = {.pins = pins, .n_pins = 2}};
        l.copies = 1;
        if (whole_life(&l) != PLAIT_OK) fail_msg("%s: %s", devices[w], plait_error_message());
        assert_true(fault_each_named(devices[w], whole_life, &l) > 30);
    }
    plait_graph_destroy(graph);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(each_allocation), cmocka_unit_test(refusals),
                                       cmocka_unit_test(copies)};
    if (fake_register() != PLAIT_OK) return 1;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
