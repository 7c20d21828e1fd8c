/* Plans found again: an equal graph finds its plan, whoever built it; a graph that differs in one thing does not, whatever
 * the thing. Public report B084 is among them: equal ops, shapes and sizes at each place, another tensor at one. */
#include "plan/plan.h"

#include "base/os.h"
#include "base/size.h"
#include "base/thread.h"
#include "support/assert_ok.h"
#include "support/decoder.h"
#include "support/fake_device.h"
#include "support/random_graph.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

static plait_context *open_context(const char *devices) {
    plait_context *context = NULL;
    assert_ok(plait_context_open(&context, devices, NULL));
    return context;
}

/* ---- a graph with one thing changed ---- */

enum {
    AS_IT_IS,
    OTHER_OP,
    OTHER_ATTRIBUTE,
    OTHER_OPERAND, /* report B084 */
    OPERANDS_SWAPPED,
    LEAF_LONGER,
    WEIGHT_OTHER_TYPE,
    WEIGHT_OTHER_NAME,
    STATE_NOT_INPUT,
    BOUND_LARGER,
    DIM_OTHER_NAME,
    NOT_BOUNDED,
    VIEW_ELSEWHERE,
    VIEW_OF_ANOTHER,
    NODES_SWAPPED,
    NODE_OTHER_NAME,
    OUTPUT_OTHER_NAME,
    OUTPUT_OF_ANOTHER,
    ONE_OUTPUT_MORE,
    OTHER_PARTS,
    OTHER_BLOCK,
    NO_OPTIONAL,
    VARIATIONS
};

static plait_tensor leaf(plait_graph *g, int what, plait_dim n) {
    plait_shape shape = PLAIT_SHAPE(16, what == NOT_BOUNDED ? 6 : n);
    return what == STATE_NOT_INPUT ? plait_state(g, "x", PLAIT_F32, PLAIT_SHAPE(16, 6))
                                   : plait_input(g, "x", PLAIT_F32, shape);
}

static plait_graph *build(int what) {
    plait_graph *g = plait_graph_create(&(plait_graph_options){.name = "varied"});
    plait_dim n = plait_graph_dim(g, what == DIM_OTHER_NAME ? "m" : "n", what == BOUND_LARGER ? 7 : 6);
    int64_t m = what == LEAF_LONGER ? 64 : 32;
    plait_tensor x = leaf(g, what, n);
    plait_tensor w = plait_weight(g, what == WEIGHT_OTHER_NAME ? "v" : "w",
                                  what == WEIGHT_OTHER_TYPE ? PLAIT_F16 : PLAIT_F32, PLAIT_SHAPE(16, m));
    plait_graph_parts(g, w, 1, (plait_part[]){{"gate", m / 2, 1}, {"up", m / 2, what == OTHER_PARTS ? 2 : 1}},
                      2);
    plait_tensor scale = plait_weight(g, "scale", PLAIT_F32, PLAIT_SHAPE(m));
    plait_graph_block(g, what == OTHER_BLOCK ? 1 : 0);
    plait_tensor y = plait_matmul(g, w, x);
    plait_tensor a = plait_silu(g, y), b = PLAIT_NO_TENSOR, c;
    plait_tensor norm = what == NO_OPTIONAL ? PLAIT_NO_TENSOR : scale;
    double eps = what == OTHER_ATTRIBUTE ? 1e-6 : 1e-5;
    if (what == NODES_SWAPPED) c = plait_rms_norm(g, y, norm, eps), b = plait_relu(g, y);
    if (what != NODES_SWAPPED) b = plait_relu(g, y), c = plait_rms_norm(g, y, norm, eps);
    c = plait_named(g, what == NODE_OTHER_NAME ? "other" : "norm", c);
    plait_tensor d = what == OPERANDS_SWAPPED ? plait_sub(g, b, a) : plait_sub(g, a, b);
    plait_tensor e = what == OTHER_OP ? plait_mul(g, d, c) : plait_add(g, d, what == OTHER_OPERAND ? b : c);
    plait_tensor view = plait_slice(g, what == VIEW_OF_ANOTHER ? d : c, 0, what == VIEW_ELSEWHERE ? 8 : 0, 8);
    plait_output(g, what == OUTPUT_OTHER_NAME ? "z" : "y", what == OUTPUT_OF_ANOTHER ? d : e);
    plait_output(g, "e", e);
    plait_output(g, "c", c);
    plait_output(g, "view", plait_copy(g, view));
    if (norm.id == 0) plait_output(g, "scale", scale);
    if (what == ONE_OUTPUT_MORE) plait_output(g, "more", a);
    assert_ok(plait_graph_seal(g));
    return g;
}

static void test_every_difference_counts(void **state) {
    (void)state;
    plait_context *context = open_context("fake");
    plait_plan_cache *cache = NULL;
    plait_plan *plans[VARIATIONS];
    assert_ok(plait_plan_cache_create(&cache, context, VARIATIONS));
    for (int what = 0; what < VARIATIONS; what++) {
        plait_graph *graph = build(what);
        assert_ok(plait_plan_make(&plans[what], context, graph, &(plait_plan_options){.cache = cache}));
        for (int other = 0; other < what; other++)
            if (plans[other] == plans[what]) fail_msg("variation %d got the plan of %d", what, other);
        plait_graph_destroy(graph); /* the plan keeps what it needs */
    }
    for (int what = 0; what < VARIATIONS; what++) {
        plait_graph *graph = build(what);
        plait_plan *again = NULL;
        assert_ok(plait_plan_make(&again, context, graph, &(plait_plan_options){.cache = cache}));
        assert_ptr_equal(again, plans[what]);
        assert_ok(plait_plan_verify(again));
        plait_graph_destroy(graph);
        plait_plan_release(again);
    }
    uint64_t found, made;
    plait_plan_cache_describe(cache, &found, &made);
    assert_int_equal(found, VARIATIONS);
    assert_int_equal(made, VARIATIONS);
    for (int what = 0; what < VARIATIONS; what++) plait_plan_release(plans[what]);
    plait_plan_cache_destroy(cache);
    plait_context_close(context);
}

/* The identity says the same as comparing all tables, over random graphs and every pair of neighbours. */
static void test_same_as_equal(void **state) {
    enum { GRAPHS = 40 };
    plait_graph *graphs[GRAPHS], *again[GRAPHS];
    (void)state;
    for (int i = 0; i < GRAPHS; i++) {
        graphs[i] = random_graph_make((uint64_t)i / 2,
                                      10 + i / 4); /* every other one is the one before it, longer or not */
        again[i] = random_graph_make((uint64_t)i / 2, 10 + i / 4);
        assert_non_null(graphs[i]);
        assert_non_null(again[i]);
        assert_true(plait_graph_same(graphs[i], again[i]));
    }
    for (int i = 0; i < GRAPHS; i++)
        for (int k = 0; k < GRAPHS; k++)
            assert_true(plait_graph_same(graphs[i], again[k]) == plait_graph_equal(graphs[i], again[k]));
    for (int i = 0; i < GRAPHS; i++) plait_graph_destroy(graphs[i]), plait_graph_destroy(again[i]);
}

/* ---- options ---- */

static plait_plan *ask(plait_context *context, const plait_graph *graph, plait_plan_options options) {
    plait_plan *plan = NULL;
    assert_ok(plait_plan_make(&plan, context, graph, &options));
    plait_plan_release(plan); /* the cache holds it */
    return plan;
}

static void test_every_option_counts(void **state) {
    (void)state;
    plait_context *context = open_context("fake,fake");
    plait_graph *graph = build(AS_IT_IS), *equal = build(AS_IT_IS);
    const plait_graph *graphs[] = {graph};
    plait_residence *free_choice = NULL, *pinned = NULL;
    plait_plan_cache *cache = NULL;
    plait_pin pin = {"silu", 1};
    assert_ok(plait_residence_create(&free_choice, context, graphs, 1, NULL));
    assert_ok(plait_residence_create(&pinned, context, graphs, 1,
                                     &(plait_residence_options){.pins = &pin, .n_pins = 1}));
    assert_ok(plait_plan_cache_create(&cache, context, 0));
    plait_plan_options options[] = {
        {.cache = cache},
        {.cache = cache, .residence = free_choice},
        {.cache = cache, .residence = pinned},
        {.cache = cache, .residence = free_choice, .exact = true},
        {.cache = cache, .residence = free_choice, .name = "another"},
    };
    plait_plan *plans[PLAIT_COUNT_OF(options)];
    for (size_t i = 0; i < PLAIT_COUNT_OF(options); i++) {
        plans[i] = ask(context, graph, options[i]);
        for (size_t k = 0; k < i; k++) assert_ptr_not_equal(plans[i], plans[k]);
    }
    for (size_t i = 0; i < PLAIT_COUNT_OF(options); i++)
        assert_ptr_equal(ask(context, equal, options[i]), plans[i]);
    assert_int_equal(plans[2]->placements[1].device, 1);
    /* A plan without proof is for those only who want none. */
    plait_plan_cache_clear(cache);
    plait_plan *unproved = ask(context, graph, (plait_plan_options){.cache = cache, .skip_verify = true});
    plait_plan *proved = ask(context, graph, (plait_plan_options){.cache = cache});
    assert_ptr_not_equal(unproved, proved);
    assert_true(proved->facts.verify_ns > 0);
    plait_plan_cache_destroy(cache);
    plait_residence_release(free_choice);
    plait_residence_release(pinned);
    plait_graph_destroy(graph);
    plait_graph_destroy(equal);
    plait_context_close(context);
}

static void test_other_context(void **state) {
    (void)state;
    plait_context *context = open_context("fake"), *other = open_context("fake");
    plait_graph *graph = build(AS_IT_IS);
    plait_plan_cache *cache = NULL;
    plait_plan *plan = NULL;
    assert_ok(plait_plan_cache_create(&cache, context, 0));
    assert_int_equal(plait_plan_make(&plan, other, graph, &(plait_plan_options){.cache = cache}),
                     PLAIT_INVALID_ARGUMENT);
    assert_null(plan);
    plait_plan_cache_destroy(cache);
    plait_plan_cache_destroy(NULL);
    plait_graph_destroy(graph);
    plait_context_close(other);
    plait_context_close(context);
}

/* ---- what is kept ---- */

static void test_oldest_goes_first(void **state) {
    (void)state;
    plait_context *context = open_context("fake");
    plait_graph *graphs[3] = {build(AS_IT_IS), build(OTHER_OP), build(OTHER_OPERAND)};
    plait_plan_cache *cache = NULL;
    plait_plan *held = NULL;
    uint64_t found, made;
    assert_ok(plait_plan_cache_create(&cache, context, 2));
    plait_plan_options options = {.cache = cache};
    assert_ok(plait_plan_make(&held, context, graphs[0], &options));
    ask(context, graphs[1], options);
    ask(context, graphs[2], options); /* graphs[0] goes */
    ask(context, graphs[1], options);
    plait_plan_cache_describe(cache, &found, &made);
    assert_int_equal(found, 1);
    assert_int_equal(made, 3);
    assert_ptr_not_equal(ask(context, graphs[0], options), held); /* graphs[2] goes */
    ask(context, graphs[1], options);
    plait_plan_cache_describe(cache, &found, &made);
    assert_int_equal(found, 2);
    assert_int_equal(made, 4);
    plait_plan_cache_destroy(cache);
    assert_ok(plait_plan_verify(held)); /* held by us */
    plait_plan_release(held);
    for (int i = 0; i < 3; i++) plait_graph_destroy(graphs[i]);
    plait_context_close(context);
}

/* Weights that were written to a plan's own residence are there when it is found. */
static void test_weights_stay(void **state) {
    (void)state;
    plait_context *context = open_context("fake");
    plait_graph *graph = build(AS_IT_IS);
    plait_plan_cache *cache = NULL;
    plait_plan *plan = NULL, *again = NULL;
    float scale[32];
    for (int i = 0; i < 32; i++) scale[i] = (float)i;
    assert_ok(plait_plan_cache_create(&cache, context, 0));
    assert_ok(plait_plan_make(&plan, context, graph, &(plait_plan_options){.cache = cache}));
    assert_ok(plait_plan_write_weight(plan, "scale", scale, sizeof scale));
    plait_graph_destroy(graph);
    graph = build(AS_IT_IS);
    assert_ok(plait_plan_make(&again, context, graph, &(plait_plan_options){.cache = cache}));
    const plait_resident *entry = plait_residence_find(again->residence, "scale", 0);
    const plait_buffer *buffer = again->residence->devices[0].weights[entry->slot - PLAIT_SLOT_WEIGHTS];
    assert_memory_equal((const char *)buffer->host + entry->offset, scale, sizeof scale);
    plait_plan_release(plan);
    plait_plan_release(again);
    plait_graph_destroy(graph);
    plait_plan_cache_destroy(cache);
    plait_context_close(context);
}

/* ---- threads ---- */

typedef struct asker {
    plait_thread thread;
    plait_context *context;
    plait_plan_cache *cache;
    plait_plan *plans[8];
} asker;

static void *ask_often(void *user) {
    asker *a = user;
    for (int i = 0; i < 8; i++) {
        plait_graph *graph = build(i % 4);
        a->plans[i] = NULL;
        (void)plait_plan_make(&a->plans[i], a->context, graph, &(plait_plan_options){.cache = a->cache});
        plait_graph_destroy(graph);
    }
    return NULL;
}

static void test_several_threads(void **state) {
    enum { ASKERS = 4 };
    static asker askers[ASKERS];
    (void)state;
    plait_context *context = open_context("fake");
    plait_plan_cache *cache = NULL;
    assert_ok(plait_plan_cache_create(&cache, context, 0));
    for (int i = 0; i < ASKERS; i++) {
        askers[i].context = context;
        askers[i].cache = cache;
        assert_ok(plait_thread_start(&askers[i].thread, "asker", ask_often, &askers[i]));
    }
    for (int i = 0; i < ASKERS; i++) plait_thread_join(&askers[i].thread);
    for (int i = 0; i < ASKERS; i++)
        for (int k = 0; k < 8; k++) {
            assert_non_null(askers[i].plans[k]);
            assert_ptr_equal(askers[i].plans[k], askers[0].plans[k % 4]);
        }
    for (int i = 0; i < ASKERS; i++)
        for (int k = 0; k < 8; k++) plait_plan_release(askers[i].plans[k]);
    plait_plan_cache_destroy(cache);
    plait_context_close(context);
}

/* ---- time ---- */

static void test_finding_is_quick(void **state) {
    (void)state;
    plait_context *context = open_context("fake");
    plait_plan_cache *cache = NULL;
    plait_graph *graph = decoder_make(60, 64, 64), *equal = decoder_make(60, 64, 64);
    plait_plan *plan = NULL, *again = NULL;
    uint64_t best = UINT64_MAX;
    assert_ok(plait_plan_cache_create(&cache, context, 0));
    assert_ok(plait_plan_make(&plan, context, graph, &(plait_plan_options){.cache = cache}));
    for (int k = 0; k < 20; k++) {
        uint64_t begin = plait_time_ns();
        assert_ok(plait_plan_make(&again, context, equal, &(plait_plan_options){.cache = cache}));
        uint64_t took = plait_time_ns() - begin;
        if (took < best) best = took;
        assert_ptr_equal(again, plan);
        plait_plan_release(again);
    }
    double per_node = (double)best / (double)graph->n_nodes;
    print_message("an equal graph of %zu nodes finds its plan in %.2f ns a node\n", graph->n_nodes, per_node);
/* figures of a build for use, not of one with sanitizers */
#if defined(NDEBUG) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
    assert_true(per_node <= 10);
#endif
    plait_plan_release(plan);
    plait_plan_cache_destroy(cache);
    plait_graph_destroy(graph);
    plait_graph_destroy(equal);
    plait_context_close(context);
}

static int make_known(void **state) {
    (void)state;
    return fake_register() == PLAIT_OK ? 0 : -1;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_difference_counts), cmocka_unit_test(test_same_as_equal),
        cmocka_unit_test(test_every_option_counts),     cmocka_unit_test(test_other_context),
        cmocka_unit_test(test_oldest_goes_first),       cmocka_unit_test(test_weights_stay),
        cmocka_unit_test(test_several_threads),         cmocka_unit_test(test_finding_is_quick),
    };
    return cmocka_run_group_tests(tests, make_known, NULL);
}
