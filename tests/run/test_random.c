/* Random graphs on random sets of devices give what a plain evaluation gives, step after step, for every value of the
 * dims, with state kept between steps; and what a second step overwrites is not what the host still reads. */
/* labels: run */
#include "plait/run.h"

#include "support/evaluate.h"
#include "support/fake_device.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

static void assert_ok(plait_status status, uint64_t seed, const char *devices) {
    if (status != PLAIT_OK)
        fail_msg("seed %llu on %s: %s", (unsigned long long)seed, devices, plait_error_message());
}

typedef struct trial {
    uint64_t seed;
    const char *devices;
    double tolerance; /* 0: the same bytes; otherwise ids (which may change places) are not compared */
    bool plain;
    plait_context *context;
    plait_graph *graph;
    plait_residence *residence;
    plait_plan *plan;
    plait_run *run;
    evaluation e;
} trial;

static plait_status find_weight(void *user, const char *name, plait_operand *out, bool *lasting) {
    trial *t = user;
    plait_tensor tensor;
    PLAIT_TRY(plait_graph_find(t->graph, name, &tensor));
    *out = evaluation_operand(&t->e, tensor.id);
    *lasting = t->seed % 2;
    return PLAIT_OK;
}

static void begin(trial *t, const plait_pin *pins, int n_pins) {
    t->graph = random_graph_of(t->seed, 3 + (int)(t->seed % 30), t->plain);
    if (!t->graph) fail_msg("seed %llu: %s", (unsigned long long)t->seed, plait_error_message());
    assert_true(evaluation_init(&t->e, t->graph));
    evaluation_fill(&t->e, PLAIT_STORAGE_WEIGHT, t->seed);
    assert_ok(plait_context_open(&t->context, t->devices, NULL), t->seed, t->devices);
    const plait_graph *graphs[] = {t->graph};
    double ratio[8] = {1}; /* any shares, of which some are 0 */
    int n_devices = plait_context_device_count(t->context), way = (int)(t->seed / 9 % 3);
    for (int d = 1; d < n_devices; d++) ratio[d] = (double)(t->seed >> d & 3);
    plait_residence_options options = {.pins = pins,
                                       .n_pins = n_pins,
                                       .split = way == 0 ? PLAIT_SPLIT_NONE : PLAIT_SPLIT_AUTO,
                                       .ratio = way == 2 ? ratio : NULL};
    plait_weight_source source = {.find = find_weight, .user = t};
    assert_ok(plait_residence_create(&t->residence, t->context, graphs, 1, &options), t->seed, t->devices);
    assert_ok(plait_residence_load(t->residence, &source), t->seed, t->devices);
    assert_ok(
        plait_plan_make(&t->plan, t->context, t->graph, &(plait_plan_options){.residence = t->residence}),
        t->seed, t->devices);
    assert_ok(plait_run_create(&t->run, t->plan, NULL), t->seed, t->devices);
}

static void end(trial *t) {
    plait_run_destroy(t->run);
    plait_plan_release(t->plan);
    plait_residence_release(t->residence);
    plait_context_close(t->context);
    evaluation_deinit(&t->e);
    plait_graph_destroy(t->graph);
}

static void write_inputs(trial *t) {
    for (size_t s = 0; s < t->graph->n_storages; s++) {
        const plait_graph_storage *storage = &t->graph->storages[s];
        if (storage->kind != PLAIT_STORAGE_INPUT) continue;
        plait_operand o = evaluation_operand(&t->e, storage->root);
        assert_ok(plait_run_write(t->run, storage->name, o.data, (uint64_t)plait_operand_span_bytes(&o)),
                  t->seed, t->devices);
    }
}

static void compare(trial *t, int64_t n) {
    for (size_t o = 0; o < t->graph->n_outputs; o++) {
        const void *bytes;
        uint64_t size;
        const plait_graph_output *output = &t->graph->outputs[o];
        assert_ok(plait_run_output(t->run, output->name, &bytes, &size), t->seed, t->devices);
        plait_operand expected = evaluation_operand(&t->e, output->tensor);
        assert_int_equal(size, plait_operand_span_bytes(&expected));
        if (t->tolerance > 0 && expected.dtype == PLAIT_I32) continue;
        double difference = evaluation_difference(&t->e, output->tensor, bytes);
        if (difference > t->tolerance)
            fail_msg("seed %llu on %s, n = %lld: output %s differs by %g", (unsigned long long)t->seed,
                     t->devices, (long long)n, output->name, difference);
    }
}

static void steps(trial *t) {
    int64_t bound = t->graph->dims[0].bound;
    const int64_t values[] = {bound, 0, 1, bound / 2, bound, 0, bound > 2 ? 2 : 1};
    for (size_t k = 0; k < sizeof values / sizeof *values; k++) {
        t->e.dims[0] = values[k];
        evaluation_fill(&t->e, PLAIT_STORAGE_INPUT, 1000 * k + t->seed);
        assert_ok(plait_run_set_dim(t->run, "n", values[k]), t->seed, t->devices);
        write_inputs(t);
        assert_ok(plait_run_step(t->run), t->seed, t->devices);
        assert_true(evaluation_step(&t->e));
        compare(t, values[k]);
    }
}

static int transfers_of(const plait_plan *plan) {
    plait_plan_facts facts;
    plait_plan_describe(plan, &facts);
    return facts.n_transfers;
}

/* ---- tests ---- */

static void test_fake_devices(void **state) {
    (void)state;
    static const char *const lists[] = {
        "fake",
        "fake:share=no",
        "fake:group=3",
        "fake:lack=matmul,fake",
        "fake:lack=attention+rope,fake:lack=get_rows",
        "fake:lack=kv_write,fake:lack=attention:align=256",
        "fake:lack=kv_write+silu+rms_norm,fake:lack=attention+matmul+copy:group=2,fake:align=128",
        "fake:lack=attention+matmul+add+scale,fake:lack=kv_write+get_rows+swiglu",
        "fake:lack=mul+sub+relu+top_k+softmax,fake:lack=matmul+copy,fake:lack=silu+kv_write+rope",
        "fake:lack=matmul+rope:copy=1,fake:lack=silu+kv_write:copy=2",
        "fake:lack=matmul+rope:copy=1:hide=yes,fake:lack=silu+kv_write:copy=1:hide=yes",
        "fake:lack=matmul+rope:copy=1:hide=yes:waits=no:jitter=3,fake:lack=silu+kv_write:jitter=9",
        "fake:lack=attention+get_rows,fake:lack=matmul+add:copy=2:hide=yes:boxes=no:waits=no:jitter=1",
        "fake:lack=attention+add:hide=yes:waits=no:copy=1,fake:lack=kv_write+silu:hide=yes:waits=no:copy=1:"
        "boxes=no,"
        "fake:lack=matmul+scale:hide=yes:copy=2",
        "fake:lack=add+mul+silu:hide=yes:waits=no,fake:lack=kv_write+matmul:reach=no,fake:copy=1",
    };
    int transfers = 0, n = 0;
    for (uint64_t seed = 0; seed < 450; seed++) {
        trial t = {.seed = seed, .devices = lists[seed % (sizeof lists / sizeof *lists)]};
        begin(&t, NULL, 0);
        steps(&t);
        transfers += transfers_of(t.plan);
        n++;
        end(&t);
    }
    print_message("%d random graphs, %d transfers in their plans\n", n, transfers);
}

/* Pins scatter nodes, weights and state over equal devices. */
static void test_pins(void **state) {
    (void)state;
    static const plait_pin pins[] = {{"blk.0.*", 1}, {"cache.v", 2}, {"w.3", 2}, {"blk.2.*", 2},
                                     {"*matmul", 1}, {"cache.k", 1}, {"w.*", 2}};
    for (uint64_t seed = 0; seed < 90; seed++) {
        trial t = {.seed = seed, .devices = "fake,fake:align=128,fake:group=2"};
        begin(&t, pins, 7);
        steps(&t);
        end(&t);
    }
}

/* Kernels of the cpu device round in another order than the reference ones. */
static void test_cpu(void **state) {
    (void)state;
    static const char *const lists[] = {"cpu:threads=1", "cpu:threads=2", "cpu:threads=1,cpu:threads=1",
                                        "fake:lack=matmul+attention,cpu:threads=1"};
    for (uint64_t seed = 0; seed < 80; seed++) {
        trial t = {.seed = seed, .devices = lists[seed % 4], .tolerance = 1e-3, .plain = true};
        begin(&t, (const plait_pin[]){{"blk.1.*", seed % 4 >= 2}}, 1);
        steps(&t);
        end(&t);
    }
}

/* Makes what a run gave the expectation of another evaluation of the same graph. */
static void take_outputs(trial *t, evaluation *out) {
    for (size_t o = 0; o < t->graph->n_outputs; o++) {
        const void *bytes;
        uint64_t size;
        assert_ok(plait_run_output(t->run, t->graph->outputs[o].name, &bytes, &size), t->seed, t->devices);
        plait_operand target = evaluation_operand(out, t->graph->outputs[o].tensor);
        if (size) memcpy(target.data, bytes, size);
    }
}

/* Any number of devices of one class, and of threads, gives the same bytes. */
static void test_cpus_agree(void **state) {
    (void)state;
    static const char *const lists[] = {"cpu:threads=1", "cpu:threads=2", "cpu:threads=1,cpu:threads=1",
                                        "cpu:threads=2,cpu:threads=1"};
    static const plait_pin pins[] = {{"blk.0.*", 0}, {"*matmul", 1}, {"blk.2.*", 1}, {"cache.k", 1}};
    for (uint64_t seed = 0; seed < 80; seed++) {
        trial one = {.seed = seed, .devices = "cpu:threads=1"},
              other = {.seed = seed, .devices = lists[seed % 4]};
        begin(&one, NULL, 0);
        begin(&other, pins, seed % 4 >= 2 ? 4 : 0);
        int64_t bound = one.graph->dims[0].bound, values[] = {bound, 1, 0, (bound + 1) / 2, bound};
        for (size_t k = 0; k < 5; k++) {
            trial *trials[] = {&one, &other};
            for (int i = 0; i < 2; i++) {
                trials[i]->e.dims[0] = values[k];
                evaluation_fill(&trials[i]->e, PLAIT_STORAGE_INPUT, 77 * k + seed);
                assert_ok(plait_run_set_dim(trials[i]->run, "n", values[k]), seed, trials[i]->devices);
                write_inputs(trials[i]);
                assert_ok(plait_run_step(trials[i]->run), seed, trials[i]->devices);
            }
            take_outputs(&one, &other.e);
            compare(&other, values[k]);
        }
        end(&one);
        end(&other);
    }
}

static int make_known(void **state) {
    (void)state;
    return fake_register() == PLAIT_OK ? 0 : -1;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fake_devices),
        cmocka_unit_test(test_pins),
        cmocka_unit_test(test_cpu),
        cmocka_unit_test(test_cpus_agree),
    };
    return cmocka_run_group_tests(tests, make_known, NULL);
}
