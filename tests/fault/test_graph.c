/* Graphs, plans and runs when memory runs out: each allocation fails in turn, everything is freed, the message is the
 * caller's; and a step after the first few allocates nothing at all. */
/* room: run */
#include "fault/fault.h"
#include "plait/run.h"
#include "plan/plan.h"
#include "support/assert_ok.h"
#include "support/decoder.h"
#include "support/fake_device.h"
#include "support/random_graph.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

/* ---- graphs ---- */

/* plait_graph_create says no more than NULL. */
static plait_status no_graph(void) {
    return plait_error_memory("graph", 0);
}

static plait_status build_life(void *user) {
    (void)user;
    plait_graph *g = plait_graph_create(&(plait_graph_options){.name = "g"});
    if (!g) return no_graph();
    plait_dim n = plait_graph_dim(g, "n", 8), half = plait_graph_derived_dim(g, n, 1, 0, 2);
    plait_graph_scope(g, "blk.0.");
    plait_tensor x = plait_input(g, "x", PLAIT_F32, PLAIT_SHAPE(8, n)), values, ids;
    plait_tensor w = plait_weight(g, "w", PLAIT_F32, PLAIT_SHAPE(8, 4));
    plait_graph_parts(g, w, 1, (plait_part[]){{"a", 1, 1}, {"b", 3, 1}}, 2);
    plait_tensor cache = plait_state(g, "cache", PLAIT_F32, PLAIT_SHAPE(4, 2, 1, 3));
    plait_tensor rows = plait_reshape(g, plait_matmul(g, w, x), PLAIT_SHAPE(4, 1, n));
    cache = plait_kv_write(g, cache, rows, plait_input(g, "slots", PLAIT_I32, PLAIT_SHAPE(n)));
    plait_top_k(g, plait_named(g, "z", plait_silu(g, x)), 2, &values, &ids);
    for (int i = 0; i < 40; i++) x = plait_permute(g, plait_silu(g, x), (const int[]){0, 1, 2, 3});
    plait_output(g, "y", x);
    plait_output(g, "ids", ids);
    plait_output(g, "half", plait_input(g, "h", PLAIT_F32, PLAIT_SHAPE(2, half)));
    plait_status status = plait_graph_seal(g);
    plait_graph_destroy(g);
    return status;
}

static plait_status print_life(void *user) {
    const plait_graph *graph = user;
    char *text = NULL, *drawing = NULL;
    plait_graph *copy = NULL;
    plait_status status = plait_graph_print(graph, &text);
    if (status == PLAIT_OK) status = plait_graph_print_dot(graph, &drawing);
    if (status == PLAIT_OK) status = plait_graph_parse(text, strlen(text), &copy);
    if (status == PLAIT_OK && !plait_graph_equal(graph, copy)) status = PLAIT_INTERNAL;
    if (status != PLAIT_OK) assert_null(copy);
    free(text);
    free(drawing);
    plait_graph_destroy(copy);
    return status;
}

static void test_graphs(void **state) {
    (void)state;
    fault_each(build_life, NULL);
    plait_graph *graph = random_graph_make(11, 12);
    assert_non_null(graph);
    fault_each(print_life, graph);
    plait_graph_destroy(graph);
}

/* ---- plans and runs ---- */

typedef struct job {
    const char *devices;
    plait_graph *graph;
} job;

static const float weights[64 * 64];

static plait_status find_weight(void *user, const char *name, plait_operand *out, bool *lasting) {
    const job *j = user;
    plait_tensor tensor;
    PLAIT_TRY(plait_graph_find(j->graph, name, &tensor));
    *out = j->graph->tensors[tensor.id].shape;
    out->data = (void *)(uintptr_t)weights;
    *lasting = true;
    return PLAIT_OK;
}

static plait_status print_plan(const plait_plan *plan) {
    char *text = NULL, *json = NULL, *html = NULL;
    plait_status status = plait_plan_print(plan, &text);
    if (status == PLAIT_OK) status = plait_plan_print_json(plan, &json);
    if (status == PLAIT_OK) status = plait_plan_print_html(plan, &html);
    free(text);
    free(json);
    free(html);
    return status;
}

static plait_status step(plait_run *run) {
    char *json = NULL;
    PLAIT_TRY(plait_run_trace_begin(run, 64));
    for (int i = 0; i < 3; i++) PLAIT_TRY(plait_run_step(run));
    PLAIT_TRY(plait_run_wait(run));
    plait_status status = plait_run_trace_end(run, &json);
    free(json);
    return status;
}

static plait_status use(const job *j, plait_context *context, plait_residence **residence, plait_plan **plan,
                        plait_run **run) {
    const plait_graph *graphs[] = {j->graph};
    plait_pin pin = {"blk.1.*", plait_context_device_count(context) - 1};
    plait_weight_source source = {.find = find_weight, .user = (void *)(uintptr_t)j};
    PLAIT_TRY(plait_residence_create(residence, context, graphs, 1,
                                     &(plait_residence_options){.pins = &pin, .n_pins = 1}));
    PLAIT_TRY(plait_residence_load(*residence, &source));
    PLAIT_TRY(plait_plan_make(plan, context, j->graph, &(plait_plan_options){.residence = *residence}));
    PLAIT_TRY(print_plan(*plan));
    PLAIT_TRY(plait_run_create(run, *plan, NULL));
    return step(*run);
}

static plait_status run_life(void *user) {
    const job *j = user;
    plait_context *context = NULL;
    plait_residence *residence = NULL;
    plait_plan *plan = NULL;
    plait_run *run = NULL;
    PLAIT_TRY(plait_context_open(&context, j->devices, NULL));
    plait_status status = use(j, context, &residence, &plan, &run);
    plait_run_destroy(run);
    plait_plan_release(plan);
    plait_residence_release(residence);
    plait_context_close(context);
    return status;
}

/* A plan that makes its own residence, and writes a weight of it. */
static plait_status own_life(void *user) {
    const job *j = user;
    plait_context *context = NULL;
    plait_plan *plan = NULL;
    plait_run *run = NULL;
    PLAIT_TRY(plait_context_open(&context, j->devices, NULL));
    plait_status status = plait_plan_make(&plan, context, j->graph, NULL);
    if (status == PLAIT_OK) status = plait_plan_write_weight(plan, "blk.0.attn_norm.weight", weights, 32 * 4);
    if (status == PLAIT_OK) status = plait_run_create(&run, plan, NULL);
    if (status == PLAIT_OK) status = plait_run_step(run);
    if (status == PLAIT_OK) status = plait_run_wait(run);
    plait_run_destroy(run);
    plait_plan_release(plan);
    plait_context_close(context);
    return status;
}

/* A graph of branches, whose groups take other turns, planned through a cache: made, found by a copy, made again. */
static plait_status make_branches(plait_graph **out) {
    plait_graph *g = plait_graph_create(NULL);
    if (!g) return no_graph();
    plait_tensor x = plait_input(g, "x", PLAIT_F32, PLAIT_SHAPE(16, 64)), at[6];
    plait_tensor in = plait_weight(g, "in", PLAIT_F32, PLAIT_SHAPE(16, 256));
    plait_tensor back = plait_weight(g, "back", PLAIT_F32, PLAIT_SHAPE(256, 16));
    for (int b = 0; b < 6; b++) at[b] = plait_matmul(g, in, x);
    for (int b = 0; b < 6; b++) at[b] = plait_matmul(g, back, at[b]);
    for (int b = 1; b < 6; b++) at[0] = plait_add(g, at[0], at[b]);
    plait_output(g, "y", at[0]);
    plait_status status = plait_graph_seal(g);
    if (status == PLAIT_OK)
        *out = g;
    else
        plait_graph_destroy(g);
    return status;
}

static plait_status plan_cached(plait_context *context, plait_plan_cache *cache, plait_plan **out) {
    plait_graph *graph = NULL;
    plait_status status = make_branches(&graph);
    if (status == PLAIT_OK)
        status = plait_plan_make(out, context, graph, &(plait_plan_options){.cache = cache});
    plait_graph_destroy(graph);
    return status;
}

static plait_status cache_life(void *user) {
    plait_context *context = NULL;
    plait_plan_cache *cache = NULL;
    plait_plan *plans[3] = {NULL};
    PLAIT_TRY(plait_context_open(&context, user, NULL));
    plait_status status = plait_plan_cache_create(&cache, context, 2);
    for (int i = 0; i < 3 && status == PLAIT_OK; i++) {
        status = plan_cached(context, cache, &plans[i]);
        if (status == PLAIT_OK && i == 1) plait_plan_cache_clear(cache);
    }
    if (status == PLAIT_OK && (plans[0] != plans[1] || plans[1] == plans[2])) status = PLAIT_INTERNAL;
    for (int i = 0; i < 3; i++) plait_plan_release(plans[i]);
    plait_plan_cache_destroy(cache);
    plait_context_close(context);
    return status;
}

static void test_plans_and_runs(void **state) {
    (void)state;
    static const char *const lists[] = {"fake", "fake:lack=attention,fake:lack=kv_write:group=2"};
    for (int i = 0; i < 2; i++) {
        job j = {.devices = lists[i], .graph = decoder_make(2, 32, 4)};
        assert_non_null(j.graph);
        fault_each_named(lists[i], run_life, &j);
        fault_each_named(lists[i], own_life, &j);
        plait_graph_destroy(j.graph);
    }
    fault_each_named("a plan cache", cache_life, (char[]){"fake"});
    fault_each_named("a plan cache, chunks", cache_life, (char[]){"sim:max-buffer=128KiB"});
}

/* ---- law 8 ---- */

static void count_steps(const char *devices, plait_graph *graph, bool traced) {
    plait_context *context = NULL;
    plait_plan *plan = NULL;
    plait_run *run = NULL;
    const void *bytes;
    uint64_t size;
    assert_ok(plait_context_open(&context, devices, NULL));
    assert_ok(plait_plan_make(&plan, context, graph, NULL));
    assert_ok(plait_run_create(&run, plan, NULL));
    assert_ok(plait_run_step(run));
    assert_ok(plait_run_wait(run));
    if (traced) assert_ok(plait_run_trace_begin(run, 1000));
    uint64_t before = fault_allocations();
    for (int i = 0; i < 20; i++) {
        assert_ok(plait_run_set_dim(run, "tokens", i % 5));
        assert_ok(plait_run_write(run, "ids", (const int32_t[]){1, 2, 3, 4}, (uint64_t)(i % 5) * 4));
        assert_ok(plait_run_step(run));
        if (i % 3 == 0) assert_ok(plait_run_output(run, "x", &bytes, &size));
    }
    assert_ok(plait_run_wait(run));
    print_message("%s: %llu allocations in 20 steps%s\n", devices,
                  (unsigned long long)(fault_allocations() - before), traced ? ", traced" : "");
    assert_int_equal(fault_allocations(), before);
    plait_run_destroy(run);
    plait_plan_release(plan);
    plait_context_close(context);
}

static void test_steps_allocate_nothing(void **state) {
    (void)state;
    static const char *const lists[] = {"fake",
                                        "fake:lack=attention,fake:lack=kv_write",
                                        "cpu:threads=1",
                                        "cpu:threads=2",
                                        "cpu:threads=1,cpu:threads=1",
                                        "fake:lack=attention,cpu:threads=1"};
    plait_graph *graph = decoder_make(2, 32, 4);
    assert_non_null(graph);
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
        count_steps(lists[i], graph, false), count_steps(lists[i], graph, true);
    plait_graph_destroy(graph);
}

static int make_known(void **state) {
    (void)state;
    return fake_register() == PLAIT_OK ? 0 : -1;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_graphs),
        cmocka_unit_test(test_plans_and_runs),
        cmocka_unit_test(test_steps_allocate_nothing),
    };
    return cmocka_run_group_tests(tests, make_known, NULL);
}
