/* Copies of operands that planning inserts: where a device takes only dense ones, when that is better than going elsewhere, who
 * makes them and who shares them; what the plan says of them; and that the proof sees what is wrong with one. */
#include "plan/weigh.h"

#include "support/fake_device.h"
#include "support/planned.h"
#include "support/saved_plan.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

/* x -> product on the first device -> its transpose -> relu (and silu) -> product there again. */
static plait_graph *transposed(int64_t width, bool twice) {
    static const int order[] = {1, 0, 2, 3};
    plait_graph *g = plait_graph_create(NULL);
    plait_tensor x = plait_input(g, "x", PLAIT_F32, PLAIT_SHAPE(width, width));
    plait_tensor a = plait_weight(g, "a", PLAIT_F32, PLAIT_SHAPE(width, width));
    plait_tensor b = plait_weight(g, "b", PLAIT_F32, PLAIT_SHAPE(width, width));
    plait_tensor y = plait_named(g, "first", plait_matmul(g, a, x));
    plait_tensor t = plait_permute(g, y, order);
    y = plait_named(g, "relu", plait_relu(g, t));
    if (twice) y = plait_named(g, "sum", plait_add(g, y, plait_named(g, "silu", plait_silu(g, t))));
    plait_output(g, "y", plait_named(g, "second", plait_matmul(g, b, y)));
    assert_ok(plait_graph_seal(g));
    return g;
}

static const plait_pin first_pins[] = {{"a", 0}, {"b", 0}};

static void make(planned *f, plait_graph *graph, const char *devices, const plait_pin *pins, int n_pins) {
    planned_make(f, graph, devices, &(plait_residence_options){.pins = pins, .n_pins = n_pins}, 0);
    assert_ok(plait_plan_verify(f->plan));
}

static int n_copies(const planned *f) {
    plait_plan_facts facts;
    plait_plan_describe(f->plan, &facts);
    return facts.n_copies;
}

static void check(const planned *f, const char *node, int device, plait_cause cause) {
    const plait_placement *p = planned_placement(f, node);
    if (p->device != device || p->cause != cause)
        fail_msg("%s is on %d, %s (%s); expected %d, %s", node, p->device, plait_cause_text(p->cause),
                 p->reason, device, plait_cause_text(cause));
}

/* ---- when, where, by whom ---- */

/* What was said of nodes that are where they are for another reason outlives the graph without copies. */
static void reasons_stay(void **state) {
    (void)state;
    planned f;
    char *text;
    make(&f, transposed(64, true), "fake:dense=yes:lack=silu:latency=1000000,fake", first_pins, 2);
    assert_int_equal(n_copies(&f), 1);
    check(&f, "silu", 1, PLAIT_CAUSE_LACKING);
    assert_string_equal(planned_placement(&f, "silu")->reason, "input 0 is not dense");
    assert_ok(plait_plan_print_json(f.plan, &text));
    assert_non_null(strstr(text, "\"reason\":\"input 0 is not dense\""));
    free(text);
    planned_destroy(&f);
}

/* The way to the other device is far: the first one copies for itself, once for both readers. */
static void copied_at_home(void **state) {
    (void)state;
    planned f;
    make(&f, transposed(64, true), "fake:dense=yes:latency=1000000,fake", first_pins, 2);
    assert_int_equal(n_copies(&f), 1);
    check(&f, "relu.copy", 0, PLAIT_CAUSE_COPY);
    assert_string_equal(f.plan->placements[planned_node(&f, "relu.copy")].reason,
                        "fake: input 0 is not dense");
    check(&f, "relu", 0, PLAIT_CAUSE_NEIGHBOUR);
    check(&f, "silu", 0, PLAIT_CAUSE_NEIGHBOUR);
    assert_int_equal(f.plan->n_transfers, 0);
    const plait_graph *g = f.plan->graph;
    assert_int_equal(g->nodes[planned_node(&f, "relu")].inputs[0],
                     g->nodes[planned_node(&f, "silu")].inputs[0]);
    assert_int_equal(planned_node(&f, "relu.copy") + 1, planned_node(&f, "relu"));
    planned_destroy(&f);
}

/* The way is short, and the other device computes a thousand times faster: the node goes there as it is. */
static void better_elsewhere(void **state) {
    (void)state;
    planned f;
    make(&f, transposed(1024, false),
         "fake:dense=yes:latency=1:link=10000000000000,fake:speed=1000:latency=1:link=10000000000000",
         first_pins, 2);
    assert_int_equal(n_copies(&f), 0);
    assert_ptr_equal(f.plan->graph, f.graph);
    assert_int_equal(f.plan->placements[planned_node(&f, "relu")].device, 1);
    planned_destroy(&f);
}

/* A device that does not copy either, and a pin: the copy is made on the other one and comes back dense. */
static void copied_elsewhere(void **state) {
    (void)state;
    static const plait_pin pins[] = {{"a", 0}, {"b", 0}, {"relu", 0}, {"silu", 0}};
    planned f;
    make(&f, transposed(64, true), "fake:dense=all,fake", pins, 4);
    assert_int_equal(n_copies(&f), 1);
    check(&f, "relu.copy", 1, PLAIT_CAUSE_COPY);
    check(&f, "relu", 0, PLAIT_CAUSE_PINNED);
    check(&f, "silu", 0, PLAIT_CAUSE_PINNED);
    assert_int_equal(f.plan->n_transfers, 2);
    planned_destroy(&f);
}

/* A transpose that was made on the device where the copy is made: it stands there, and only the dense bytes travel. */
static void copied_at_the_maker(void **state) {
    (void)state;
    static const plait_pin pins[] = {{"a", 1}, {"b", 0}, {"relu", 0}};
    planned f;
    make(&f, transposed(64, false), "fake:dense=all,fake", pins, 3);
    check(&f, "first", 1, PLAIT_CAUSE_PINNED);
    check(&f, "relu.copy", 1, PLAIT_CAUSE_COPY);
    assert_int_equal(planned_node(&f, "first") + 1, planned_node(&f, "relu.copy"));
    assert_int_equal(f.plan->n_segments, 2);
    assert_int_equal(f.plan->n_transfers, 1);
    planned_destroy(&f);
}

/* One device alone needs no figures; nor does it matter what it computes with. */
static void one_device(void **state) {
    (void)state;
    planned f;
    make(&f, transposed(16, true), "fake:dense=yes", NULL, 0);
    assert_int_equal(n_copies(&f), 1);
    check(&f, "relu.copy", 0, PLAIT_CAUSE_COPY);
    check(&f, "relu", 0, PLAIT_CAUSE_ONLY_DEVICE);
    planned_destroy(&f);
}

/* Where nobody copies, the device's own reason is what is heard. */
static void nobody_copies(void **state) {
    (void)state;
    plait_context *context;
    plait_plan *plan;
    plait_graph *graph = transposed(16, false);
    assert_ok(plait_context_open(&context, "fake:dense=all", NULL));
    assert_int_equal(plait_plan_make(&plan, context, graph, NULL), PLAIT_UNSUPPORTED);
    if (!strstr(plait_error_message(), "\"relu\"") || !strstr(plait_error_message(), "input 0 is not dense"))
        fail_msg("%s", plait_error_message());
    plait_context_close(context);
    plait_graph_destroy(graph);
}

/* Sealed graphs do not change, and a plan is found again by the graph that the caller has. */
static void found_again(void **state) {
    (void)state;
    plait_context *context;
    plait_plan_cache *cache;
    plait_plan *a, *b;
    plait_graph *graph = transposed(16, false), *equal = transposed(16, false);
    assert_ok(plait_context_open(&context, "fake:dense=yes", NULL));
    assert_ok(plait_plan_cache_create(&cache, context, 4));
    assert_ok(plait_plan_make(&a, context, graph, &(plait_plan_options){.cache = cache}));
    assert_ok(plait_plan_make(&b, context, equal, &(plait_plan_options){.cache = cache}));
    assert_ptr_equal(a, b);
    assert_true(plait_graph_same(graph, equal));
    assert_int_equal(a->graph->n_nodes, graph->n_nodes + 1);
    plait_plan_release(a);
    plait_plan_release(b);
    plait_plan_cache_destroy(cache);
    plait_context_close(context);
    plait_graph_destroy(graph);
    plait_graph_destroy(equal);
}

/* ---- what is said ---- */

static void explained(void **state) {
    (void)state;
    planned f;
    char *text;
    make(&f, transposed(64, false), "fake:dense=yes:latency=1000000,fake", first_pins, 2);
    assert_ok(plait_plan_print(f.plan, &text));
    if (!strstr(text, "copied for its reader on fake: input 0 is not dense")) fail_msg("%s", text);
    free(text);
    assert_ok(plait_plan_print_json(f.plan, &text));
    if (!strstr(text, "\"copies\":1") || !strstr(text, "\"reason\":\"fake: input 0 is not dense\""))
        fail_msg("%s", text);
    free(text);
    planned_destroy(&f);
}

/* ---- damage ---- */

typedef bool damage_fn(plait_graph *now, plait_plan *plan, uint32_t copy);

static bool copies_another(plait_graph *g, plait_plan *plan, uint32_t copy) {
    (void)plan;
    return g->nodes[copy].inputs[0] = g->nodes[copy - 1].inputs[1], true; /* the input of the product */
}
static bool copies_its_base(plait_graph *g, plait_plan *plan, uint32_t copy) {
    (void)plan;
    return g->nodes[copy].inputs[0] = g->nodes[copy - 1].outputs[0], true; /* not transposed */
}
static bool is_no_copy(plait_graph *g, plait_plan *plan, uint32_t copy) {
    (void)plan;
    return g->nodes[copy].op = plait_op_get(PLAIT_OP_relu), true;
}
static bool does_something_else(plait_graph *g, plait_plan *plan, uint32_t copy) {
    (void)plan;
    return g->nodes[copy + 1].op = plait_op_get(PLAIT_OP_silu), true;
}
static bool is_taken_for_a_node(plait_graph *g, plait_plan *plan, uint32_t copy) {
    (void)g;
    return plan->origins[copy] = plan->origins[copy + 1], true;
}
static bool node_is_taken_for_a_copy(plait_graph *g, plait_plan *plan, uint32_t copy) {
    (void)g;
    return plan->origins[copy + 1] = (uint32_t)plan->source->n_nodes, true;
}
static bool other_offset(plait_graph *g, plait_plan *plan, uint32_t copy) {
    (void)plan;
    return g->tensors[g->nodes[copy].inputs[0]].offset += 4, true;
}
static bool other_strides(plait_graph *g, plait_plan *plan, uint32_t copy) {
    (void)plan;
    return g->tensors[g->nodes[copy].inputs[0]].shape.strides[0] += 4, true;
}
static bool other_output(plait_graph *g, plait_plan *plan, uint32_t copy) {
    (void)plan;
    return g->outputs[0].tensor = g->nodes[copy].outputs[0], true;
}
static bool old_value(plait_graph *g, plait_plan *plan, uint32_t copy) {
    (void)plan;
    return g->tensors[g->nodes[copy].inputs[0]].node = PLAIT_NO_NODE, true;
}

/* The plan's graph is the plan's own; it is written to here, which nobody else may do. */
static void damaged(void **state) {
    (void)state;
    static const struct {
        const char *name;
        damage_fn *damage;
    } ways[] = {{"copies another tensor", copies_another},
                {"copies its base", copies_its_base},
                {"is no copy", is_no_copy},
                {"the reader does something else", does_something_else},
                {"is taken for a node", is_taken_for_a_node},
                {"a node is taken for a copy", node_is_taken_for_a_copy},
                {"other offset", other_offset},
                {"other strides", other_strides},
                {"other output", other_output},
                {"an old value", old_value}};
    for (size_t w = 0; w < sizeof ways / sizeof *ways; w++) {
        planned f;
        make(&f, transposed(16, false), "fake:dense=yes", NULL, 0);
        assert_ok(plait_plan_verify_copies(f.plan));
        ways[w].damage((plait_graph *)(uintptr_t)f.plan->graph, f.plan, planned_node(&f, "relu.copy"));
        if (plait_plan_verify_copies(f.plan) != PLAIT_INTERNAL) fail_msg("%s: not refused", ways[w].name);
        if (strncmp(plait_error_message(), "proof: ", 7) != 0)
            fail_msg("%s: %s", ways[w].name, plait_error_message());
        planned_destroy(&f);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reasons_stay),        cmocka_unit_test(copied_at_home),
        cmocka_unit_test(better_elsewhere),    cmocka_unit_test(copied_elsewhere),
        cmocka_unit_test(copied_at_the_maker), cmocka_unit_test(one_device),
        cmocka_unit_test(nobody_copies),       cmocka_unit_test(found_again),
        cmocka_unit_test(explained),           cmocka_unit_test(damaged)};
    if (fake_register() != PLAIT_OK) return 1;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
