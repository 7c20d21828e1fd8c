/* Direct copies that do not bring the bytes: devices that lose them, damage some kinds of copies, or some of them only. The
 * context finds out before its first plan, says which pair it is, and what runs is right all the same. */
#include "plait/run.h"
#include "plan/plan.h"

#include "support/assert_ok.h"
#include "support/fake_device.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

enum { WIDTH = 64, ROWS = 32 };

typedef struct heard {
    char text[4096];
    int n;
} heard;

static void hear(void *user, plait_log_level level, const char *text) {
    heard *h = user;
    if (level != PLAIT_LOG_WARNING) return;
    h->n++;
    strncat(h->text, text, sizeof h->text - strlen(h->text) - 1);
}

/* x -> scale on device 0 -> scale on device 1 -> scale on device 0. */
static plait_graph *make_graph(void) {
    plait_graph *g = plait_graph_create(NULL);
    plait_tensor y = plait_input(g, "x", PLAIT_F32, PLAIT_SHAPE(WIDTH, ROWS));
    y = plait_named(g, "a", plait_scale(g, y, 2.0));
    y = plait_named(g, "b", plait_scale(g, y, 3.0));
    plait_output(g, "y", plait_named(g, "c", plait_scale(g, y, 0.5)));
    assert_ok(plait_graph_seal(g));
    return g;
}

/* Runs it and returns how many of the transfers are direct. */
static size_t run_on(const char *devices, heard *h) {
    static const plait_pin pins[] = {{"a", 0}, {"b", 1}, {"c", 0}};
    plait_graph *graph = make_graph();
    const plait_graph *graphs[] = {graph};
    plait_context *context;
    plait_residence *residence;
    plait_plan *plan;
    plait_run *run;
    float x[WIDTH * ROWS];
    const void *y;
    uint64_t size;
    size_t n_direct = 0;
    *h = (heard){0};
    for (int i = 0; i < WIDTH * ROWS; i++) x[i] = (float)(i - 100);
    assert_ok(plait_context_open(&context, devices, &(plait_context_options){.logger = {hear, NULL, h}}));
    assert_ok(plait_residence_create(&residence, context, graphs, 1,
                                     &(plait_residence_options){.pins = pins, .n_pins = 3}));
    assert_ok(plait_residence_load_zeros(residence));
    assert_ok(plait_plan_make(&plan, context, graph, &(plait_plan_options){.residence = residence}));
    assert_int_equal(plan->n_transfers, 2);
    for (size_t t = 0; t < plan->n_transfers; t++) n_direct += plan->transfers[t].route == PLAIT_ROUTE_COPY;
    assert_ok(plait_run_create(&run, plan, NULL));
    assert_ok(plait_run_write(run, "x", x, sizeof x));
    assert_ok(plait_run_step(run));
    assert_ok(plait_run_output(run, "y", &y, &size));
    for (int i = 0; i < WIDTH * ROWS; i++)
        if (((const float *)y)[i] != 3 * x[i]) fail_msg("%s: y[%d] is wrong", devices, i);
    plait_run_destroy(run);
    plait_plan_release(plan);
    plait_residence_release(residence);
    plait_context_close(context);
    plait_graph_destroy(graph);
    return n_direct;
}

static const char slow_links[] = "sim:flops=1G:memory-bandwidth=1GB:bandwidth=10MB,"
                                 "sim:flops=1G:memory-bandwidth=1GB:bandwidth=10MB";

static void sound(void **state) {
    (void)state;
    static const char *const lists[] = {"fake,fake", "fake:boxes=no,fake:copy=2",
                                        "fake:mem=100000,fake:align=256", slow_links};
    heard h;
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
        assert_int_equal(run_on(lists[i], &h), 2);
        if (h.n) fail_msg("%s: %s", lists[i], h.text);
    }
}

/* Both ways are taken away, for each device that says it reaches the other: one warning each. */
static void astray(void **state) {
    (void)state;
    static const char *const faults[] = {"all", "boxes", "large", "second", "out"};
    char list[128];
    heard h;
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
        snprintf(list, sizeof list, "fake:reach=no,fake:astray=%s", faults[i]);
        size_t n_direct = run_on(list, &h);
        if (n_direct != 0 || h.n != 1) fail_msg("%s: %zu direct copies, %d warnings", list, n_direct, h.n);
        bool outwards = strcmp(faults[i], "out") == 0, box = strcmp(faults[i], "boxes") == 0;
        if (!strstr(h.text,
                    outwards ? "from fake:1 to fake arrives wrong" : "from fake to fake:1 arrives wrong") ||
            !strstr(h.text, box ? "a box in " : "a direct copy of ") ||
            !strstr(h.text, "goes through host memory"))
            fail_msg("%s: %s", list, h.text);
    }
}

/* Simulated devices, whose memory nobody else can look at. */
static void behind_walls(void **state) {
    (void)state;
    heard h;
    assert_int_equal(
        run_on("sim:flops=1G:memory-bandwidth=1GB:astray=yes,sim:flops=1G:memory-bandwidth=1GB:astray=yes",
               &h),
        0);
    assert_int_equal(h.n, 2);
    assert_true(strstr(h.text, "from sim:1 to sim arrives wrong") != NULL);
}

/* One device is wrong, the other does the copies: nothing is lost but its way. */
static void the_other_copies(void **state) {
    (void)state;
    heard h;
    assert_int_equal(run_on("fake:astray=all,fake", &h), 2);
    assert_int_equal(h.n, 1);
}

/* Before the first plan, and not again. */
static void tried_once(void **state) {
    (void)state;
    heard h = {0};
    plait_context *context;
    plait_plan *a, *b;
    plait_graph *graph = make_graph();
    assert_ok(plait_context_open(&context, "fake:astray=all,fake:astray=all",
                                 &(plait_context_options){.logger = {hear, NULL, &h}}));
    assert_int_equal(h.n, 0);
    assert_ok(plait_plan_make(&a, context, graph, NULL));
    assert_ok(plait_plan_make(&b, context, graph, NULL));
    assert_int_equal(h.n, 2);
    plait_plan_release(a);
    plait_plan_release(b);
    plait_context_close(context);
    plait_graph_destroy(graph);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(sound), cmocka_unit_test(astray),
                                       cmocka_unit_test(behind_walls), cmocka_unit_test(the_other_copies),
                                       cmocka_unit_test(tried_once)};
    if (fake_register() != PLAIT_OK) return 1;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
