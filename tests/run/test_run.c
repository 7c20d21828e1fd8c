/* Runs as callers use them: dims, inputs and outputs by name and index, ids that are refused before anything runs, what
 * lives how long, failures of devices, several plans on one arena, several threads on one plan. */
/* labels: run */
#include "plait/run.h"

#include "run/run.h"
#include "support/assert_ok.h"
#include "support/decoder.h"
#include "support/evaluate.h"
#include "support/fake_device.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <pthread.h>

static void assert_fails(plait_status status, plait_status expected, const char *message) {
    if (status != expected || !strstr(plait_error_message(), message))
        fail_msg("expected %s %s, found %s %s", plait_status_name(expected), message,
                 plait_status_name(status), status ? plait_error_message() : "");
}

typedef struct fixture {
    plait_context *context;
    plait_graph *graph;
    plait_plan *plan;
    plait_run *run;
} fixture;

static void make(fixture *f, plait_graph *graph, const char *devices) {
    if (!graph) fail_msg("%s", plait_error_message());
    f->graph = graph;
    assert_ok(plait_context_open(&f->context, devices, NULL));
    assert_ok(plait_plan_make(&f->plan, f->context, graph, &(plait_plan_options){.split = PLAIT_SPLIT_NONE}));
    assert_ok(plait_run_create(&f->run, f->plan, NULL));
}

static void destroy(fixture *f) {
    plait_run_destroy(f->run);
    plait_plan_release(f->plan);
    plait_context_close(f->context);
    plait_graph_destroy(f->graph);
}

/* y = 2 x, rows of w by id, a counter that adds up in a state */
static plait_graph *small(void) {
    plait_graph *g = plait_graph_create(&(plait_graph_options){.name = "small"});
    plait_dim n = plait_graph_dim(g, "n", 4);
    plait_tensor x = plait_input(g, "x", PLAIT_F32, PLAIT_SHAPE(2, n));
    plait_tensor ids = plait_input(g, "ids", PLAIT_I32, PLAIT_SHAPE(n));
    plait_output(g, "y", plait_scale(g, x, 2));
    plait_output(g, "rows", plait_get_rows(g, plait_weight(g, "w", PLAIT_F32, PLAIT_SHAPE(2, 3)), ids));
    assert_ok(plait_graph_seal(g));
    return g;
}

static const float numbers[] = {1, 2, 3, 4, 5, 6, 7, 8};

static void check_floats(plait_run *run, const char *output, const float *expected, size_t n) {
    const void *bytes;
    uint64_t size;
    assert_ok(plait_run_output(run, output, &bytes, &size));
    assert_int_equal(size, n * sizeof(float));
    for (size_t i = 0; i < n; i++)
        if (((const float *)bytes)[i] != expected[i])
            fail_msg("%s[%zu] is %g, expected %g", output, i, (double)((const float *)bytes)[i],
                     (double)expected[i]);
}

static void test_by_name(void **state) {
    (void)state;
    fixture f = {0};
    make(&f, small(), "fake");
    const int32_t ids[] = {2, 0};
    assert_ok(plait_plan_write_weight(f.plan, "w", numbers, 6 * sizeof(float)));
    assert_ok(plait_run_set_dim(f.run, "n", 2));
    assert_ok(plait_run_write(f.run, "x", numbers, 4 * sizeof(float)));
    assert_ok(plait_run_write(f.run, "ids", ids, sizeof ids));
    assert_ok(plait_run_step(f.run));
    check_floats(f.run, "y", (const float[]){2, 4, 6, 8}, 4);
    check_floats(f.run, "rows", (const float[]){5, 6, 1, 2}, 4);
    destroy(&f);
}

static void test_wrong_calls(void **state) {
    (void)state;
    fixture f = {0};
    void *bytes = NULL;
    const void *read = NULL;
    uint64_t size = 7;
    int index = 7;
    make(&f, small(), "fake");
    assert_fails(plait_run_output(f.run, "y", &read, &size), PLAIT_WRONG_STATE,
                 "run of small: no step was made yet");
    assert_fails(plait_run_set_dim(f.run, "m", 1), PLAIT_NOT_FOUND, "run of small: there is no dim \"m\"");
    assert_fails(plait_run_set_dim(f.run, "n", 5), PLAIT_OUT_OF_RANGE,
                 "run of small: dim n: 5, expected 0 to 4");
    assert_fails(plait_run_set_dim(f.run, "n", -1), PLAIT_OUT_OF_RANGE, "dim n: -1, expected 0 to 4");
    assert_fails(plait_run_set_dim_at(f.run, 1, 1), PLAIT_OUT_OF_RANGE, "dim number 1, there are 1");
    assert_fails(plait_run_set_dim_at(f.run, -1, 1), PLAIT_OUT_OF_RANGE, "dim number -1, there are 1");
    assert_fails(plait_run_write(f.run, "y", numbers, 4), PLAIT_NOT_FOUND, "there is no input \"y\"");
    assert_ok(plait_run_set_dim(f.run, "n", 2));
    assert_fails(plait_run_write(f.run, "x", numbers, 20), PLAIT_INVALID_ARGUMENT,
                 "run of small: input \"x\": 20 bytes, expected at most 16");
    assert_fails(plait_run_input(f.run, "q", &bytes, &size), PLAIT_NOT_FOUND, "there is no input \"q\"");
    assert_fails(plait_run_input_at(f.run, 2, &bytes, &size), PLAIT_OUT_OF_RANGE,
                 "input number 2, there are 2");
    assert_fails(plait_run_output_at(f.run, 2, &read, &size), PLAIT_OUT_OF_RANGE,
                 "output number 2, there are 2");
    assert_fails(plait_run_output_index(f.run, "x", &index), PLAIT_NOT_FOUND, "there is no output \"x\"");
    assert_fails(plait_plan_write_weight(f.plan, "v", numbers, 4), PLAIT_NOT_FOUND,
                 "no weight is called \"v\"");
    assert_fails(plait_plan_write_weight(f.plan, "w", numbers, 4), PLAIT_INVALID_ARGUMENT,
                 "weight \"w\": 4 bytes given, expected 24");
    assert_true(bytes == NULL && read == NULL && size == 7 && index == 7); /* set on success only */
    assert_ok(plait_run_step(f.run));
    assert_ok(plait_run_wait(f.run));
    destroy(&f);
}

static void test_by_index(void **state) {
    (void)state;
    fixture f = {0};
    int n, x, y;
    void *bytes;
    const void *result;
    uint64_t size;
    make(&f, small(), "fake");
    assert_ok(plait_run_dim_index(f.run, "n", &n));
    assert_ok(plait_run_input_index(f.run, "x", &x));
    assert_ok(plait_run_output_index(f.run, "y", &y));
    for (int step = 0; step < 5; step++) {
        assert_ok(plait_run_set_dim_at(f.run, n, 1));
        assert_ok(plait_run_input_at(f.run, x, &bytes, &size));
        assert_int_equal(size, 4 * 2 * sizeof(float)); /* capacity */
        ((float *)bytes)[0] = (float)step, ((float *)bytes)[1] = 1;
        assert_ok(plait_run_step(f.run));
        assert_ok(plait_run_output_at(f.run, y, &result, &size));
        assert_int_equal(size, 2 * sizeof(float));
        assert_true(((const float *)result)[0] == 2.0f * (float)step && ((const float *)result)[1] == 2);
    }
    destroy(&f);
}

/* What an output call lent stays until the next step but one, on one device and on several. */
static void test_outputs_last_one_more_step(void **state) {
    (void)state;
    static const char *const lists[] = {"fake", "fake:lack=scale,fake"};
    for (int l = 0; l < 2; l++) {
        fixture f = {0};
        const void *before = NULL, *now;
        uint64_t size;
        make(&f, small(), lists[l]);
        for (int step = 0; step < 40; step++) {
            float x[8];
            for (int i = 0; i < 8; i++) x[i] = (float)(step * 100 + i);
            assert_ok(plait_run_write(f.run, "x", x, sizeof x));
            assert_ok(plait_run_step(f.run));
            if (before)
                for (int i = 0; i < 8; i++)
                    assert_true(((const float *)before)[i] == 2.0f * (float)((step - 1) * 100 + i));
            assert_ok(plait_run_output(f.run, "y", &now, &size));
            for (int i = 0; i < 8; i++) assert_true(((const float *)now)[i] == 2.0f * x[i]);
            before = now;
        }
        destroy(&f);
    }
}

/* Steps are submitted ahead; each gives its own numbers though nobody waits in between. */
static void test_steps_ahead(void **state) {
    (void)state;
    fixture f = {0};
    make(&f, small(), "fake:lack=scale,fake:lack=get_rows");
    for (int step = 0; step < 200; step++) {
        float x[8];
        for (int i = 0; i < 8; i++) x[i] = (float)(step + i);
        assert_ok(plait_run_write(f.run, "x", x, sizeof x));
        assert_ok(plait_run_step(f.run));
        if (step % 7 == 6) {
            float expected[8];
            for (int i = 0; i < 8; i++) expected[i] = 2 * x[i];
            check_floats(f.run, "y", expected, 8);
        }
    }
    assert_ok(plait_run_wait(f.run));
    destroy(&f);
}

/* ---- ids ---- */

static void write_ids(fixture *f, const char *name, int32_t value, int at, int n) {
    int32_t ids[64] = {0};
    for (int i = 0; i < n; i++) ids[i] = i == at ? value : 0;
    assert_ok(plait_run_write(f->run, name, ids, (uint64_t)n * sizeof *ids));
}

static void test_bad_ids_are_refused(void **state) {
    (void)state;
    static const struct {
        const char *input;
        int32_t value;
        int at, n;
        const char *message; /* NULL: fine */
    } cases[] = {
        {"ids", 128, 3, 4, "run of decoder: node embed (get_rows): ids[3] is 128, expected 0 to 127"},
        {"ids", -1, 0, 4, "ids[0] is -1, expected 0 to 127"},
        {"slots", 1024, 1, 4, "node blk.0.kv_write (kv_write): slots[1] is 1024, expected less than 1024"},
        {"slots", -5, 1, 4, NULL},
        {"positions", 256, 2, 4, "node blk.0.attention (attention): positions[2] is 256, expected 0 to 255"},
        {"positions", -1, 2, 4, "positions[2] is -1, expected 0 to 255"},
        {"sequences", 4, 0, 4, "sequences[0] is 4, expected less than 4"},
        {"sequences", -1, 0, 4, NULL},
        {"pages", 64, 17, 64, "pages[1, 1] is 64, expected less than 64"},
        {"pages", -1, 17, 64, NULL},
    };
    fixture f = {0};
    make(&f, decoder_make(2, 64, 4), "fake:lack=attention,fake");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        static const char *const names[] = {"ids", "slots", "positions", "sequences"};
        for (int k = 0; k < 4; k++) write_ids(&f, names[k], 0, 0, 4);
        write_ids(&f, "pages", 0, 0, 64);
        write_ids(&f, cases[i].input, cases[i].value, cases[i].at, cases[i].n);
        plait_status status = plait_run_step(f.run);
        if (!cases[i].message)
            assert_ok(status);
        else
            assert_fails(status, PLAIT_OUT_OF_RANGE, cases[i].message);
        assert_ok(plait_run_wait(f.run)); /* the run goes on */
    }
    /* A position that no sequence has does not matter, nor what lies behind the current dims. */
    write_ids(&f, "sequences", -1, 2, 4);
    write_ids(&f, "positions", 9999, 2, 4);
    write_ids(&f, "ids", 9999, 3, 4);
    for (int k = 0; k < 2; k++) write_ids(&f, k ? "slots" : "pages", 0, 0, 4);
    assert_ok(plait_run_set_dim(f.run, "tokens", 3));
    assert_ok(plait_run_step(f.run));
    assert_ok(plait_run_wait(f.run));
    destroy(&f);
}

/* Nothing of a refused step runs: state is as it was. */
static void test_refused_step_changes_nothing(void **state) {
    (void)state;
    plait_graph *g = plait_graph_create(&(plait_graph_options){.name = "cache"});
    plait_tensor rows = plait_input(g, "rows", PLAIT_F32, PLAIT_SHAPE(1, 1, 2));
    plait_tensor slots = plait_input(g, "slots", PLAIT_I32, PLAIT_SHAPE(2));
    plait_tensor cache = plait_state(g, "cache", PLAIT_F32, PLAIT_SHAPE(1, 4, 1, 1));
    plait_output(g, "cache", plait_kv_write(g, cache, rows, slots));
    assert_ok(plait_graph_seal(g));
    fixture f = {0};
    make(&f, g, "fake");
    assert_ok(plait_run_write(f.run, "rows", numbers, 8));
    assert_ok(plait_run_write(f.run, "slots", (const int32_t[]){0, 3}, 8));
    assert_ok(plait_run_step(f.run));
    check_floats(f.run, "cache", (const float[]){1, 0, 0, 2}, 4);
    assert_ok(plait_run_write(f.run, "rows", numbers + 4, 8));
    assert_ok(plait_run_write(f.run, "slots", (const int32_t[]){1, 4}, 8));
    assert_fails(plait_run_step(f.run), PLAIT_OUT_OF_RANGE, "slots[1] is 4, expected less than 4");
    assert_ok(plait_run_write(f.run, "slots", (const int32_t[]){-1, 2}, 8));
    assert_ok(plait_run_step(f.run));
    check_floats(f.run, "cache", (const float[]){1, 0, 6, 2}, 4);
    destroy(&f);
}

/* ---- failures ---- */

static void test_device_failure_surfaces(void **state) {
    (void)state;
    static const char *const lists[] = {"fake:fail=2", "fake:lack=scale:fail=2,fake",
                                        "fake:lack=scale,fake:fail=2"};
    for (int l = 0; l < 3; l++) {
        fixture f = {0};
        make(&f, small(), lists[l]);
        assert_ok(plait_run_step(f.run));
        assert_ok(plait_run_wait(f.run));
        plait_status status = plait_run_step(f.run);
        if (status == PLAIT_OK) status = plait_run_wait(f.run);
        assert_fails(status, PLAIT_IO, "was told to fail");
        assert_fails(plait_run_step(f.run), PLAIT_IO, "was told to fail");
        assert_fails(plait_run_wait(f.run), PLAIT_IO, "was told to fail");
        destroy(&f); /* and nobody waits for ever */
    }
}

/* An id that a device made is not checked before: the kernel reads zeros, and the next wait says so. */
static void test_bad_id_made_on_a_device(void **state) {
    (void)state;
    plait_graph *g = plait_graph_create(&(plait_graph_options){.name = "made"});
    plait_tensor x = plait_input(g, "x", PLAIT_F32, PLAIT_SHAPE(8, 1));
    plait_tensor table = plait_weight(g, "w", PLAIT_F32, PLAIT_SHAPE(2, 3));
    plait_output(g, "y", plait_get_rows(g, table, plait_argmax(g, x)));
    assert_ok(plait_graph_seal(g));
    fixture f = {0};
    make(&f, g, "fake");
    assert_ok(plait_run_write(f.run, "x", numbers, 32)); /* the largest is number 7 */
    plait_status status = plait_run_step(f.run);
    if (status == PLAIT_OK) status = plait_run_wait(f.run);
    assert_fails(status, PLAIT_OUT_OF_RANGE, "node get_rows: an id is out of range");
    destroy(&f);
}

/* ---- several plans, several runs ---- */

/* Two plans of one context share its arena, the second one larger; their steps alternate. */
static void test_two_plans_share_an_arena(void **state) {
    (void)state;
    static const char *const lists[] = {"fake", "fake:lack=silu+kv_write,fake:lack=matmul"};
    for (uint64_t seed = 0; seed < 40; seed++) {
        plait_context *context = NULL;
        plait_graph *graphs[2];
        plait_plan *plans[2] = {NULL, NULL};
        plait_run *runs[2] = {NULL, NULL};
        evaluation e[2];
        assert_ok(plait_context_open(&context, lists[seed % 2], NULL));
        for (int i = 0; i < 2; i++) {
            graphs[i] = random_graph_make(seed + 1000 * (uint64_t)i, 6 + 20 * i);
            assert_non_null(graphs[i]);
            assert_true(evaluation_init(&e[i], graphs[i]));
            evaluation_fill(&e[i], PLAIT_STORAGE_WEIGHT, seed);
        }
        /* The first run has been made, and has stepped, before the arena grows. */
        for (int step = 0; step < 6; step++) {
            int i = step % 2;
            if (!plans[i]) {
                assert_ok(plait_plan_make(&plans[i], context, graphs[i], NULL));
                for (size_t s = 0; s < graphs[i]->n_storages; s++)
                    if (graphs[i]->storages[s].kind == PLAIT_STORAGE_WEIGHT)
                        assert_ok(plait_plan_write_weight(plans[i], graphs[i]->storages[s].name,
                                                          e[i].storages[s],
                                                          graphs[i]->storages[s].size_bytes));
                assert_ok(plait_run_create(&runs[i], plans[i], NULL));
            }
            evaluation_fill(&e[i], PLAIT_STORAGE_INPUT, seed + (uint64_t)step);
            for (size_t s = 0; s < graphs[i]->n_storages; s++)
                if (graphs[i]->storages[s].kind == PLAIT_STORAGE_INPUT)
                    assert_ok(plait_run_write(runs[i], graphs[i]->storages[s].name, e[i].storages[s],
                                              graphs[i]->storages[s].size_bytes));
            assert_ok(plait_run_step(runs[i]));
            assert_true(evaluation_step(&e[i]));
            for (size_t o = 0; o < graphs[i]->n_outputs && step >= 2; o++) {
                const void *bytes;
                uint64_t size;
                assert_ok(plait_run_output(runs[i], graphs[i]->outputs[o].name, &bytes, &size));
                assert_true(evaluation_difference(&e[i], graphs[i]->outputs[o].tensor, bytes) == 0);
            }
        }
        for (int i = 0; i < 2; i++) {
            plait_run_destroy(runs[i]);
            plait_plan_release(plans[i]);
            evaluation_deinit(&e[i]);
            plait_graph_destroy(graphs[i]);
        }
        plait_context_close(context);
    }
}

typedef struct worker {
    plait_plan *plan;
    int number;
    plait_status status;
    char message[256];
} worker;

/* Steps of its own run, with numbers of its own; every result is looked at. */
static plait_status work(worker *w, plait_run *run) {
    for (int step = 0; step < 60; step++) {
        float x[8];
        const void *bytes;
        uint64_t size;
        for (int i = 0; i < 8; i++) x[i] = (float)(w->number * 10000 + step * 10 + i);
        PLAIT_TRY(plait_run_write(run, "x", x, sizeof x));
        PLAIT_TRY(plait_run_step(run));
        PLAIT_TRY(plait_run_output(run, "y", &bytes, &size));
        for (int i = 0; i < 8; i++)
            if (((const float *)bytes)[i] != 2 * x[i])
                return plait_error(PLAIT_INTERNAL, "thread %d, step %d: wrong number", w->number, step);
    }
    return PLAIT_OK;
}

static void *worker_main(void *argument) {
    worker *w = argument;
    plait_run *run = NULL;
    w->status = plait_run_create(&run, w->plan, NULL);
    if (w->status == PLAIT_OK) w->status = work(w, run);
    plait_error_copy(w->message, sizeof w->message);
    plait_run_destroy(run);
    return NULL;
}

static void test_threads_share_a_plan(void **state) {
    (void)state;
    static const char *const lists[] = {"fake", "fake:lack=scale,fake", "cpu:threads=1",
                                        "cpu:threads=2,cpu:threads=1"};
    for (int l = 0; l < 4; l++) {
        fixture f = {0};
        pthread_t threads[3];
        worker workers[3];
        make(&f, small(), lists[l]);
        for (int i = 0; i < 3; i++) {
            workers[i] = (worker){.plan = f.plan, .number = i};
            assert_int_equal(pthread_create(&threads[i], NULL, worker_main, &workers[i]), 0);
        }
        for (int i = 0; i < 3; i++) pthread_join(threads[i], NULL);
        for (int i = 0; i < 3; i++)
            if (workers[i].status != PLAIT_OK) fail_msg("%s", workers[i].message);
        destroy(&f);
    }
}

/* State belongs to a session: two sessions of one residence do not see each other's. */
static void test_sessions_are_apart(void **state) {
    (void)state;
    plait_graph *g = plait_graph_create(&(plait_graph_options){.name = "cache"});
    plait_tensor rows = plait_input(g, "rows", PLAIT_F32, PLAIT_SHAPE(1, 1, 1));
    plait_tensor slots = plait_input(g, "slots", PLAIT_I32, PLAIT_SHAPE(1));
    plait_tensor cache = plait_state(g, "cache", PLAIT_F32, PLAIT_SHAPE(1, 2, 1, 1));
    plait_output(g, "cache", plait_kv_write(g, cache, rows, slots));
    assert_ok(plait_graph_seal(g));
    plait_context *context = NULL;
    plait_residence *residence = NULL, *other = NULL;
    plait_plan *plan = NULL;
    const plait_graph *graphs[] = {g};
    assert_ok(plait_context_open(&context, "fake", NULL));
    assert_ok(plait_residence_create(&residence, context, graphs, 1, NULL));
    assert_ok(plait_residence_create(&other, context, graphs, 1, NULL));
    assert_ok(plait_plan_make(&plan, context, g, &(plait_plan_options){.residence = residence}));
    plait_run *runs[2] = {NULL, NULL}, *never = NULL;
    assert_fails(plait_run_create(&never, plan, NULL), PLAIT_WRONG_STATE, "its residence is not loaded");
    assert_ok(plait_residence_load(residence, &(plait_weight_source){0}));
    assert_fails(plait_residence_load(residence, &(plait_weight_source){0}), PLAIT_WRONG_STATE,
                 "loaded already");
    plait_session_state *sessions[2] = {NULL, NULL}, *stranger = NULL;
    assert_ok(plait_session_state_create(&stranger, other));
    assert_fails(plait_run_create(&never, plan, &(plait_run_options){.state = stranger}),
                 PLAIT_INVALID_ARGUMENT, "the state belongs to another residence");
    for (int i = 0; i < 2; i++) {
        assert_ok(plait_session_state_create(&sessions[i], residence));
        assert_ok(plait_run_create(&runs[i], plan, &(plait_run_options){.state = sessions[i]}));
        assert_ok(plait_run_write(runs[i], "rows", &numbers[i], 4));
        assert_ok(plait_run_write(runs[i], "slots", &(int32_t){i}, 4));
        assert_ok(plait_run_step(runs[i]));
    }
    check_floats(runs[0], "cache", (const float[]){1, 0}, 2);
    check_floats(runs[1], "cache", (const float[]){0, 2}, 2);
    for (int i = 0; i < 2; i++) {
        plait_run_destroy(runs[i]);
        plait_session_state_destroy(sessions[i]);
    }
    plait_session_state_destroy(stranger);
    plait_plan_release(plan);
    plait_residence_release(residence);
    plait_residence_release(other);
    plait_context_close(context);
    plait_graph_destroy(g);
}

/* ---- laws ---- */

static uint64_t hash_graph(const plait_graph *g) {
    uint64_t h = plait_hash_bytes(g->storages, g->n_storages * sizeof *g->storages, 1);
    h = plait_hash_bytes(g->tensors, g->n_tensors * sizeof *g->tensors, h);
    h = plait_hash_bytes(g->nodes, g->n_nodes * sizeof *g->nodes, h);
    h = plait_hash_bytes(g->outputs, g->n_outputs * sizeof *g->outputs, h);
    return plait_hash_bytes(g, sizeof *g, h);
}

static void test_running_leaves_the_graph_alone(void **state) {
    (void)state;
    fixture f = {0};
    plait_graph *graph = decoder_make(2, 64, 4);
    uint64_t before = hash_graph(graph);
    make(&f, graph, "fake:lack=attention,fake");
    for (int i = 0; i < 3; i++) assert_ok(plait_run_step(f.run));
    assert_ok(plait_run_wait(f.run));
    destroy(&(fixture){.run = f.run, .plan = f.plan, .context = f.context});
    assert_true(hash_graph(graph) == before);
    plait_graph_destroy(graph);
}

/* Sizes of 0, always or by the dim: nothing moves, nothing fails. */
static void test_nothing_to_compute(void **state) {
    (void)state;
    static const char *const lists[] = {"fake", "fake:lack=silu,fake", "cpu:threads=1"};
    for (int l = 0; l < 3; l++)
        for (int64_t bound = 0; bound < 2; bound++) {
            plait_graph *g = plait_graph_create(NULL);
            plait_tensor x = plait_input(g, "x", PLAIT_F32, PLAIT_SHAPE(4, plait_graph_dim(g, "n", bound)));
            plait_tensor w = plait_weight(g, "w", PLAIT_F32, PLAIT_SHAPE(4, 0));
            plait_tensor z = plait_matmul(g, w, plait_input(g, "z", PLAIT_F32, PLAIT_SHAPE(4, 3)));
            plait_output(g, "y", plait_silu(g, x));
            plait_output(g, "z", plait_silu(g, z));
            assert_ok(plait_graph_seal(g));
            fixture f = {0};
            make(&f, g, lists[l]);
            for (int step = 0; step < 3; step++) {
                assert_ok(plait_run_set_dim(f.run, "n", 0));
                assert_ok(plait_run_write(f.run, "x", numbers, 0));
                assert_ok(plait_run_step(f.run));
                check_floats(f.run, "y", NULL, 0);
                check_floats(f.run, "z", NULL, 0);
            }
            destroy(&f);
        }
}

/* Inputs, weights and states shown as they are, whole or in part, and an input that nothing reads. */
static void test_outputs_without_nodes(void **state) {
    (void)state;
    plait_graph *g = plait_graph_create(&(plait_graph_options){.name = "plain"});
    plait_tensor x = plait_input(g, "x", PLAIT_F32, PLAIT_SHAPE(4));
    plait_input(g, "unread", PLAIT_F32, PLAIT_SHAPE(2));
    plait_output(g, "x", plait_slice(g, x, 0, 1, 2));
    plait_output(g, "w", plait_weight(g, "w", PLAIT_F32, PLAIT_SHAPE(2)));
    plait_output(g, "s", plait_state(g, "s", PLAIT_F32, PLAIT_SHAPE(2)));
    assert_ok(plait_graph_seal(g));
    fixture f = {0};
    make(&f, g, "fake,fake");
    assert_ok(plait_plan_write_weight(f.plan, "w", numbers + 2, 8));
    assert_ok(plait_run_write(f.run, "x", numbers, 16));
    assert_ok(plait_run_write(f.run, "unread", numbers, 8));
    assert_ok(plait_run_step(f.run));
    check_floats(f.run, "x", numbers + 1, 2);
    check_floats(f.run, "w", numbers + 2, 2);
    check_floats(f.run, "s", (const float[]){0, 0}, 2);
    destroy(&f);
}

static int make_known(void **state) {
    (void)state;
    return fake_register() == PLAIT_OK ? 0 : -1;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_by_name),
        cmocka_unit_test(test_wrong_calls),
        cmocka_unit_test(test_by_index),
        cmocka_unit_test(test_outputs_last_one_more_step),
        cmocka_unit_test(test_steps_ahead),
        cmocka_unit_test(test_bad_ids_are_refused),
        cmocka_unit_test(test_refused_step_changes_nothing),
        cmocka_unit_test(test_device_failure_surfaces),
        cmocka_unit_test(test_bad_id_made_on_a_device),
        cmocka_unit_test(test_two_plans_share_an_arena),
        cmocka_unit_test(test_threads_share_a_plan),
        cmocka_unit_test(test_sessions_are_apart),
        cmocka_unit_test(test_running_leaves_the_graph_alone),
        cmocka_unit_test(test_nothing_to_compute),
        cmocka_unit_test(test_outputs_without_nodes),
    };
    return cmocka_run_group_tests(tests, make_known, NULL);
}
