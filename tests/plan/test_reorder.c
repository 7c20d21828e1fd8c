/* Groups in other turns: branches that a builder made side by side are run one after the other, where that needs less
 * memory; dependencies stay, also through storages that are written in place; orders that cannot be bettered stay as they
 * are, and so do those of models. The bytes that come out are compared in tests/run. */
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

typedef struct fixture {
    plait_context *context;
    plait_graph *graph;
    plait_plan *plan;
} fixture;

static void make(fixture *f, plait_graph *graph, const char *devices) {
    if (!graph) fail_msg("%s", plait_error_message());
    f->graph = graph;
    assert_ok(plait_context_open(&f->context, devices, NULL));
    assert_ok(plait_plan_make(&f->plan, f->context, graph, &(plait_plan_options){.split = PLAIT_SPLIT_NONE}));
}

static void destroy(fixture *f) {
    plait_plan_release(f->plan);
    plait_context_close(f->context);
    plait_graph_destroy(f->graph);
}

/* True when no group of any segment has another turn than the device gave it: fake devices list nodes as they come. */
static bool in_old_order(const plait_plan *plan) {
    for (size_t s = 0; s < plan->n_segments; s++)
        for (uint32_t n = 0; n < plan->segments[s].n_nodes; n++)
            if (plan->segments[s].prepared.order[n] != (int)n) return false;
    return true;
}

enum { BRANCHES = 12, LENGTH = 4, WIDE = 1024, NARROW = 16 };

/* Branches from one narrow value: wide inside, narrow at the end, added up. `side_by_side`: all first nodes, then all
 * second ones. */
static plait_graph *branches(bool side_by_side) {
    plait_graph *g = plait_graph_create(NULL);
    plait_tensor x = plait_input(g, "x", PLAIT_F32, PLAIT_SHAPE(NARROW, 8)), at[BRANCHES];
    plait_tensor in = plait_weight(g, "in", PLAIT_F32, PLAIT_SHAPE(NARROW, WIDE));
    plait_tensor out = plait_weight(g, "out", PLAIT_F32, PLAIT_SHAPE(WIDE, NARROW));
    for (int k = 0; k < BRANCHES * LENGTH; k++) {
        int branch = side_by_side ? k % BRANCHES : k / LENGTH,
            step = side_by_side ? k / BRANCHES : k % LENGTH;
        if (step == 0) at[branch] = plait_matmul(g, in, x);
        if (step == 1) at[branch] = plait_silu(g, at[branch]);
        if (step == 2) at[branch] = plait_relu(g, at[branch]);
        if (step == 3) at[branch] = plait_matmul(g, out, at[branch]);
    }
    plait_tensor sum = at[0];
    for (int b = 1; b < BRANCHES; b++) sum = plait_add(g, sum, at[b]);
    plait_output(g, "sum", sum);
    if (plait_graph_seal(g) == PLAIT_OK) return g;
    plait_graph_destroy(g);
    return NULL;
}

static void test_branches(void **state) {
    static const char *const lists[] = {"fake", "fake:share=no", "null", "cpu:threads=1"};
    (void)state;
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
        fixture good = {0}, bad = {0};
        make(&good, branches(false), lists[i]);
        make(&bad, branches(true), lists[i]);
        uint64_t least = good.plan->devices[0].arena_bytes, most = bad.plan->devices[0].arena_bytes;
        print_message("%s: one after the other %llu bytes, side by side %llu\n", lists[i],
                      (unsigned long long)least, (unsigned long long)most);
        assert_true(most <= least + least / 100); /* the builder's order does not matter */
        if (i < 3) assert_true(most < (uint64_t)BRANCHES / 3 * WIDE * 8 * 4);
        if (i < 2) assert_true(!in_old_order(bad.plan));
        assert_ok(plait_plan_verify(bad.plan));
        destroy(&good);
        destroy(&bad);
    }
}

/* A state that is written in place between two readers of it: the early reader stays early, though it would be cheaper
 * late. */
static void test_in_place(void **state) {
    (void)state;
    fixture f = {0};
    plait_graph *g = plait_graph_create(NULL);
    plait_tensor rows = plait_input(g, "rows", PLAIT_F32, PLAIT_SHAPE(8, 1, 4));
    plait_tensor slots = plait_input(g, "slots", PLAIT_I32, PLAIT_SHAPE(4));
    plait_tensor cache = plait_state(g, "cache", PLAIT_F32, PLAIT_SHAPE(8, 16, 1, 8)), early[8];
    for (int i = 0; i < 8; i++) early[i] = i ? plait_relu(g, early[i - 1]) : plait_silu(g, cache);
    plait_tensor written = plait_kv_write(g, cache, rows, slots);
    plait_tensor late = plait_silu(g, written);
    plait_tensor sum = plait_add(g, late, early[0]);
    for (int i = 1; i < 8; i++) sum = plait_add(g, sum, early[i]);
    plait_output(g, "sum", sum);
    assert_ok(plait_graph_seal(g));
    make(&f, g, "fake:share=no");
    assert_ok(plait_plan_verify(f.plan));
    const plait_plan_segment *segment = &f.plan->segments[0];
    int reader = -1, writer = -1;
    for (uint32_t t = 0; t < segment->n_nodes; t++) {
        if (segment->prepared.order[t] == 0) reader = (int)t;
        if (segment->nodes[segment->prepared.order[t]].op->id == PLAIT_OP_kv_write) writer = (int)t;
    }
    assert_true(reader >= 0 && reader < writer);
    destroy(&f);
}

/* Models come in an order that cannot be bettered: nothing is touched. */
static void test_models_stay(void **state) {
    static const char *const lists[] = {"fake", "fake:share=no", "fake:group=3", "fake:lack=attention,fake"};
    (void)state;
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
        for (int64_t bound = 1; bound <= 512; bound *= 8) {
            fixture f = {0};
            make(&f, decoder_make(6, 128, bound), lists[i]);
            if (i != 2) assert_true(in_old_order(f.plan)); /* fake groups of neighbours may be turned */
            destroy(&f);
        }
}

/* Random graphs: the proof is silent, and the same plan comes again. */
static void test_random(void **state) {
    static const char *const lists[] = {"fake", "null", "fake:lack=matmul+attention,fake:group=2"};
    int turned = 0;
    (void)state;
    for (uint64_t seed = 0; seed < 150; seed++) {
        fixture f = {0}, again = {0};
        make(&f, random_graph_make(seed, 10 + (int)(seed % 80)), lists[seed % 3]);
        make(&again, random_graph_make(seed, 10 + (int)(seed % 80)), lists[seed % 3]);
        turned += !in_old_order(f.plan);
        assert_int_equal(f.plan->devices[0].arena_bytes, again.plan->devices[0].arena_bytes);
        for (size_t s = 0; s < f.plan->n_segments; s++)
            assert_memory_equal(f.plan->segments[s].prepared.order, again.plan->segments[s].prepared.order,
                                f.plan->segments[s].n_nodes * sizeof(int));
        destroy(&f);
        destroy(&again);
    }
    print_message("150 random graphs, %d with groups in other turns\n", turned);
    assert_true(turned > 0);
}

/* Lives as the passes left them are those that the whole list of commands gives, launch by launch or all at once. Devices
 * that share nothing: else packing has drawn lives together. */
static void check_lives(plait_plan *plan) {
    plait_plan_value *kept = test_calloc(plan->n_values, sizeof *kept);
    memcpy(kept, plan->values, plan->n_values * sizeof *kept);
    for (size_t v = 0; v < plan->n_values; v++) {
        plan->values[v].first = plan->values[v].last = plan->values[v].held_until = -1;
        plan->values[v].held = plan->values[v].came = false;
    }
    for (int d = 0; d < plan->context->n_devices; d++) plan->devices[d].n_positions = 0;
    assert_ok(plait_plan_find_lives(plan));
    for (size_t v = 0; v < plan->n_values; v++) {
        const plait_plan_value *is = &kept[v], *should = &plan->values[v];
        if (is->first != should->first || is->last != should->last || is->held != should->held)
            fail_msg("value %zu lives from %d to %d%s, expected %d to %d%s", v, is->first, is->last,
                     is->held ? ", held" : "", should->first, should->last, should->held ? ", held" : "");
    }
    test_free(kept);
}

static void test_lives(void **state) {
    static const char *const lists[] = {"fake:share=no", "fake:share=no:lack=matmul+attention,fake:share=no",
                                        "fake:share=no:lack=silu,fake:share=no:lack=add,fake:share=no"};
    int turned = 0;
    (void)state;
    for (uint64_t seed = 0; seed < 300; seed++) {
        fixture f = {0};
        make(&f, random_graph_make(seed, 10 + (int)(seed % 150)), lists[seed % 3]);
        turned += !in_old_order(f.plan) && seed % 3 != 0;
        check_lives(f.plan);
        destroy(&f);
    }
    print_message("lives of 300 plans, %d on several devices with groups in other turns\n", turned);
    assert_true(turned > 0);
}

static int make_known(void **state) {
    (void)state;
    return fake_register() == PLAIT_OK ? 0 : -1;
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_branches), cmocka_unit_test(test_in_place),
                                       cmocka_unit_test(test_models_stay), cmocka_unit_test(test_random),
                                       cmocka_unit_test(test_lives)};
    return cmocka_run_group_tests(tests, make_known, NULL);
}
