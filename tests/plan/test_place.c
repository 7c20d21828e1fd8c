/* Placement by cost: what stays with its neighbours, what goes where it is faster, what is kept from moving; the ways of
 * law 3; what is denied after a device refused it; and that plans of many devices are the same each time, cost in
 * proportion, and say why. */
/* monitor: no */
#include "plan/weigh.h"

#include "base/os.h"
#include "support/decoder.h"
#include "support/evaluate.h"
#include "support/fake_device.h"
#include "support/planned.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <time.h>

static void make(planned *f, const char *devices, const plait_residence_options *options) {
    planned_make(f, f->graph, devices, options, 0);
}

static void check(const planned *f, const char *node, int device, plait_cause cause) {
    const plait_placement *p = planned_placement(f, node);
    if (p->device != device || p->cause != cause)
        fail_msg("%s is on %d, %s (%s); expected %d, %s", node, p->device, plait_cause_text(p->cause),
                 p->reason, device, plait_cause_text(cause));
}

/* ---- neighbours ---- */

/* x -> product on device 0 -> many small nodes -> product on device 1: the glue is where what it reads is made, and one
 * value crosses. */
static void test_glue(void **state) {
    (void)state;
    static const plait_pin pins[] = {{"a", 0}, {"b", 1}};
    planned f = {.graph = plait_graph_create(NULL)};
    plait_graph *g = f.graph;
    plait_tensor x = plait_input(g, "x", PLAIT_F32, PLAIT_SHAPE(64, plait_graph_dim(g, "n", 8)));
    plait_tensor y =
        plait_named(g, "first", plait_matmul(g, plait_weight(g, "a", PLAIT_F32, PLAIT_SHAPE(64, 64)), x));
    y = plait_named(g, "glue.1", plait_silu(g, y));
    y = plait_named(g, "glue.2", plait_add(g, y, x));
    y = plait_named(g, "glue.3", plait_relu(g, y));
    y = plait_named(g, "second", plait_matmul(g, plait_weight(g, "b", PLAIT_F32, PLAIT_SHAPE(64, 64)), y));
    plait_output(g, "y", plait_named(g, "glue.4", plait_silu(g, y)));
    assert_ok(plait_graph_seal(g));
    make(&f, "fake,fake,fake", &(plait_residence_options){.pins = pins, .n_pins = 2});
    check(&f, "first", 0, PLAIT_CAUSE_PINNED);
    check(&f, "glue.1", 0, PLAIT_CAUSE_NEIGHBOUR);
    check(&f, "glue.2", 0, PLAIT_CAUSE_NEIGHBOUR);
    check(&f, "glue.3", 0, PLAIT_CAUSE_NEIGHBOUR);
    check(&f, "second", 1, PLAIT_CAUSE_PINNED);
    check(&f, "glue.4", 1, PLAIT_CAUSE_NEIGHBOUR);
    assert_int_equal(f.plan->n_transfers, 1);
    planned_destroy(&f);
}

/* Nodes before the first that wishes anything go where that one is. */
static void test_beginning(void **state) {
    (void)state;
    static const plait_pin pins[] = {{"w", 1}};
    planned f = {.graph = plait_graph_create(NULL)};
    plait_graph *g = f.graph;
    plait_tensor x = plait_input(g, "x", PLAIT_F32, PLAIT_SHAPE(64, plait_graph_dim(g, "n", 8)));
    plait_tensor y = plait_named(g, "early", plait_silu(g, x));
    y = plait_named(g, "late", plait_relu(g, y));
    plait_output(g, "y", plait_matmul(g, plait_weight(g, "w", PLAIT_F32, PLAIT_SHAPE(64, 64)), y));
    assert_ok(plait_graph_seal(g));
    make(&f, "fake,fake", &(plait_residence_options){.pins = pins, .n_pins = 1, .split = PLAIT_SPLIT_NONE});
    check(&f, "early", 1, PLAIT_CAUSE_NEIGHBOUR);
    check(&f, "late", 1, PLAIT_CAUSE_NEIGHBOUR);
    assert_int_equal(f.plan->n_transfers, 0);
    planned_destroy(&f);
}

/* A graph in which nothing is stored: all of it on the device that takes the least time. */
static plait_graph *free_graph(int n_nodes, int64_t width, int64_t bound) {
    plait_graph *g = plait_graph_create(NULL);
    plait_tensor x = plait_input(g, "x", PLAIT_F32, PLAIT_SHAPE(width, plait_graph_dim(g, "n", bound)));
    plait_tensor y = x;
    for (int i = 0; i < n_nodes; i++)
        y = i % 3 == 2 ? plait_add(g, y, y) : i % 3 ? plait_silu(g, y) : plait_relu(g, y);
    plait_output(g, "y", y);
    return plait_graph_seal(g) == PLAIT_OK ? g : NULL;
}

static void test_nothing_stored(void **state) {
    (void)state;
    static const struct {
        const char *devices;
        int device;
    } cases[] = {
        {"fake,fake", 0}, {"fake,fake:speed=3,fake:speed=2", 1}, {"fake:lack=silu,fake,fake:speed=1", 1}};
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        planned f = {.graph = free_graph(60, 4096, 64)};
        make(&f, cases[c].devices, NULL);
        for (size_t n = 0; n < f.graph->n_nodes; n++)
            assert_int_equal(f.plan->placements[n].device, cases[c].device);
        assert_int_equal(f.plan->n_segments, 1);
        planned_destroy(&f);
    }
}

/* ---- moves ---- */

/* A long stretch of work without weights between two products on a slow device: a fast device wins it if the link lets
 * it, and only if it wins 3% of the step. */
static void test_move_of_a_group(void **state) {
    (void)state;
    static const plait_pin pins[] = {{"a", 0}, {"b", 0}};
    static const struct {
        const char *devices;
        int64_t width;
        int device;
    } cases[] = {
        {"fake,fake:speed=20:link=1000000000000:latency=10", 8192, 1},
        {"fake,fake:speed=20:link=1000000:latency=10", 8192, 0},            /* the way is too long */
        {"fake,fake:speed=20:link=1000000000000:latency=100000000", 64, 0}, /* and here */
        {"fake,fake", 8192, 0},                                             /* not faster */
    };
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        int64_t width = cases[c].width;
        planned f = {.graph = plait_graph_create(NULL)};
        plait_graph *g = f.graph;
        plait_tensor x = plait_input(g, "x", PLAIT_F32, PLAIT_SHAPE(64, plait_graph_dim(g, "n", 256)));
        plait_tensor y = plait_matmul(g, plait_weight(g, "a", PLAIT_F32, PLAIT_SHAPE(64, width)), x);
        for (int i = 0; i < 30; i++)
            y = plait_named(g, i == 15 ? "middle" : "other", plait_add(g, plait_silu(g, y), y));
        plait_output(g, "y", plait_matmul(g, plait_weight(g, "b", PLAIT_F32, PLAIT_SHAPE(width, 64)), y));
        assert_ok(plait_graph_seal(g));
        make(&f, cases[c].devices,
             &(plait_residence_options){.pins = pins, .n_pins = 2, .split = PLAIT_SPLIT_NONE});
        if (planned_placement(&f, "middle")->device != cases[c].device)
            fail_msg("case %zu: on %d", c, planned_placement(&f, "middle")->device);
        if (cases[c].device == 1) check(&f, "middle", 1, PLAIT_CAUSE_COST);
        assert_int_equal(f.plan->placements[0].device, 0); /* its weight is there */
        planned_destroy(&f);
    }
}

/* ---- law 3 ---- */

/* A write in place goes where its storage lives, and the storage where what touches it runs. */
static void test_writers(void **state) {
    (void)state;
    static const struct {
        const char *devices;
        int home, writer, reader;
    } cases[] = {
        {"fake,fake", 0, 0, 0},
        {"fake:lack=kv_write,fake", 1, 1, 1},  /* residence of that state chosen elsewhere */
        {"fake:lack=attention,fake", 1, 1, 1}, /* and with it what only writes */
        {"fake:lack=kv_write,fake:lack=attention", 1, 1,
         0}, /* nobody runs both: it is at home with its writer */
        {"fake:lack=kv_write,fake:lack=attention,fake", 2, 2, 2},
    };
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        planned f = {.graph = decoder_make(2, 64, 8)};
        make(&f, cases[c].devices, &(plait_residence_options){.split = PLAIT_SPLIT_NONE});
        const plait_resident *home = plait_residence_find(f.residence, "cache.k.1", -1);
        if (home->device != cases[c].home) fail_msg("case %zu: cache on %d", c, home->device);
        for (size_t n = 0; n < f.graph->n_nodes; n++) {
            int expected = -1;
            if (f.graph->nodes[n].op->id == PLAIT_OP_kv_write) expected = cases[c].writer;
            if (f.graph->nodes[n].op->id == PLAIT_OP_attention) expected = cases[c].reader;
            if (expected >= 0 && f.plan->placements[n].device != expected)
                fail_msg("case %zu: %s on %d", c, f.graph->nodes[n].name, f.plan->placements[n].device);
        }
        assert_ok(plait_plan_verify(f.plan));
        planned_destroy(&f);
    }
}

/* ---- refusals ---- */

/* A device accepts an op and refuses it when it comes to prepare or compile: the plan is made without it there. */
static void test_refusals(void **state) {
    (void)state;
    static const char *const lists[] = {"fake:refuse=swiglu,fake", "fake:balk=swiglu,fake",
                                        "fake:refuse=swiglu+rope:balk=rms_norm+attention,fake",
                                        "fake:balk=attention:group=3,fake:lack=silu"};
    for (size_t l = 0; l < sizeof lists / sizeof *lists; l++) {
        planned f = {.graph = decoder_make(2, 64, 8)};
        assert_ok(plait_context_open(&f.context, lists[l], NULL));
        assert_ok(
            plait_plan_make(&f.plan, f.context, f.graph, &(plait_plan_options){.split = PLAIT_SPLIT_NONE}));
        const plait_placement *p = planned_placement(&f, l == 3 ? "blk.1.attention" : "blk.1.swiglu");
        assert_int_equal(p->device, 1);
        /* It is remembered: the next plan does not try again. */
        plait_plan *again = NULL;
        uint32_t n_denied = f.context->n_denied;
        assert_int_equal(n_denied, l == 2 ? 4 : 1);
        assert_ok(
            plait_plan_make(&again, f.context, f.graph, &(plait_plan_options){.split = PLAIT_SPLIT_NONE}));
        assert_int_equal(f.context->n_denied, n_denied);
        assert_int_equal(again->n_segments, f.plan->n_segments);
        plait_plan_release(again);
        planned_destroy(&f);
    }
}

/* Nobody is left: the error says what was accepted and refused. With one device the refusal itself is the error. */
static void test_refused_by_all(void **state) {
    (void)state;
    planned f = {.graph = decoder_make(1, 64, 8)};
    assert_ok(plait_context_open(&f.context, "fake:balk=swiglu,fake:refuse=swiglu", NULL));
    assert_int_equal(plait_plan_make(&f.plan, f.context, f.graph, NULL), PLAIT_UNSUPPORTED);
    assert_non_null(strstr(plait_error_message(), "no device runs swiglu"));
    assert_non_null(strstr(plait_error_message(), "fake:1: it said that it runs swiglu, and refused to"));
    plait_context_close(f.context);
    assert_ok(plait_context_open(&f.context, "fake:balk=swiglu", NULL));
    assert_int_equal(plait_plan_make(&f.plan, f.context, f.graph, NULL), PLAIT_INTERNAL);
    assert_string_equal(plait_error_message(),
                        "plan of decoder: compiling for fake: fake does not compile swiglu");
    planned_destroy(&f);
}

/* ---- predictions ---- */

/* A plan of several devices predicts its step: here one launch after its input and before its output, so a sum. With one
 * device nothing is predicted until somebody asks for the device's figures. */
static void test_predictions(void **state) {
    (void)state;
    planned f = {.graph = free_graph(30, 4096, 64)};
    plait_device_figures figures;
    plait_plan_facts facts, one;
    make(&f, "fake,fake", NULL);
    plait_plan_describe(f.plan, &facts);
    assert_ok(plait_context_figures(f.context, 0, &figures));
    double full = 0, single = 0, moved = 4096 * 64 * 4;
    for (size_t s = 0; s < f.plan->n_steps; s++) {
        bool in = f.plan->steps[s].kind == PLAIT_STEP_WRITE_INPUT,
             out = f.plan->steps[s].kind == PLAIT_STEP_READ_OUTPUT;
        if (!in && !out) continue;
        double rate = (double)(in ? figures.write_bytes_per_s : figures.read_bytes_per_s);
        full += (double)(in ? figures.write_ns : figures.read_ns) + 1e9 * moved / rate;
        single += (double)(in ? figures.write_ns : figures.read_ns) + 1e9 * moved / 64 / rate;
    }
    full += (double)figures.launch_ns;
    single += (double)figures.launch_ns;
    for (int i = 0; i < 30; i++) {
        double operands = i % 3 == 2 ? 3 : 2;
        full += (double)figures.node_ns + 1e9 * operands * moved / (double)figures.bytes_per_s;
        single += (double)figures.node_ns + 1e9 * operands * moved / 64 / (double)figures.bytes_per_s;
    }
    if (fabs((double)facts.predicted_ns - full) > 1e-4 * full + 2 ||
        fabs((double)facts.predicted_single_ns - single) > 1e-4 * single + 2)
        fail_msg("predicted %llu and %llu ns, expected %.0f and %.0f", (unsigned long long)facts.predicted_ns,
                 (unsigned long long)facts.predicted_single_ns, full, single);
    planned_destroy(&f);

    f = (planned){.graph = free_graph(30, 4096, 64)};
    make(&f, "fake", NULL);
    plait_plan_describe(f.plan, &one);
    assert_int_equal(one.predicted_ns, 0);
    assert_ok(plait_context_figures(f.context, 0, &figures));
    plait_plan_describe(f.plan, &one);
    assert_true(fabs((double)one.predicted_ns - (double)facts.predicted_ns) <
                1e-3 * (double)facts.predicted_ns);
    planned_destroy(&f);
}

/* ---- time ---- */

/* Time of this thread's own work, whatever else the machine does. */
static uint64_t work_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* Planning costs in proportion to nodes and devices. */
static void test_near_linear(void **state) {
    (void)state;
    static const int layers[] = {60, 600, 6000};
    double per_node[3];
    for (int i = 0; i < 3; i++) {
        planned f = {.graph = decoder_make(layers[i], 32, 8)};
        const plait_graph *graphs[] = {f.graph};
        double ratio[] = {1, 1, 1, 1, 1, 1, 1, 1};
        assert_ok(plait_context_open(&f.context, "fake,fake,fake,fake,fake,fake,fake,fake:lack=rope", NULL));
        uint64_t begin = work_ns();
        assert_ok(plait_residence_create(&f.residence, f.context, graphs, 1,
                                         &(plait_residence_options){.ratio = i ? ratio : NULL}));
        uint64_t decided = work_ns();
        assert_ok(plait_plan_make(&f.plan, f.context, f.graph,
                                  &(plait_plan_options){.residence = f.residence, .skip_verify = true}));
        plait_weighed_deinit(f.plan->weighed);
        plait_cost_deinit(&f.plan->cost);
        uint64_t before = work_ns();
        assert_ok(plait_plan_place(f.plan)); /* again, alone */
        uint64_t placed = work_ns();
        double n = (double)f.graph->n_nodes;
        per_node[i] = (double)(decided - begin + placed - before) / n;
        print_message("%.0f nodes on 8 devices: residence %.0f ns, place %.0f ns a node\n", n,
                      (double)(decided - begin) / n, (double)(placed - before) / n);
        planned_destroy(&f);
    }
    assert_true(per_node[2] < 3 * per_node[1]);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_glue),           cmocka_unit_test(test_beginning),
        cmocka_unit_test(test_nothing_stored), cmocka_unit_test(test_move_of_a_group),
        cmocka_unit_test(test_writers),        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_refused_by_all), cmocka_unit_test(test_predictions),
        cmocka_unit_test(test_near_linear),
    };
    if (fake_register() != PLAIT_OK) return 1;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
