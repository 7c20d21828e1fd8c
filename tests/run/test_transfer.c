/* What a transfer moves: the view that is read, what was written since, the rows that ids name; never more than a part of
 * the storage where a part is enough, and the same results on every kind of device. */
/* labels: run */
#include "plait/run.h"

#include "plan/plan.h"
#include "support/assert_ok.h"
#include "support/evaluate.h"
#include "support/fake_device.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

typedef struct fixture {
    plait_context *context;
    plait_graph *graph, *reader;
    plait_residence *residence;
    plait_plan *plan;
    plait_run *run;
    evaluation e;
} fixture;

/* `reader`: the graph that residence is decided by, as if the other one came later; NULL: the graph itself. */
static void make(fixture *f, plait_graph *graph, plait_graph *reader, const char *devices,
                 const plait_pin *pins, int n_pins) {
    if (!graph) fail_msg("%s", plait_error_message());
    f->graph = graph;
    f->reader = reader;
    assert_true(evaluation_init(&f->e, graph));
    assert_ok(plait_context_open(&f->context, devices, NULL));
    const plait_graph *graphs[] = {reader ? reader : graph};
    plait_residence_options options = {.pins = pins, .n_pins = n_pins, .split = PLAIT_SPLIT_NONE};
    assert_ok(plait_residence_create(&f->residence, f->context, graphs, 1, &options));
    assert_ok(plait_residence_load(f->residence, &(plait_weight_source){0}));
    assert_ok(plait_plan_make(&f->plan, f->context, graph, &(plait_plan_options){.residence = f->residence}));
    assert_ok(plait_run_create(&f->run, f->plan, NULL));
}

static void destroy(fixture *f) {
    plait_run_destroy(f->run);
    plait_plan_release(f->plan);
    plait_residence_release(f->residence);
    plait_context_close(f->context);
    evaluation_deinit(&f->e);
    plait_graph_destroy(f->graph);
    plait_graph_destroy(f->reader);
}

/* Devices of every kind of route: the target pulls, one is mapped, both are hidden; with and without boxes. */
static const char *const lists[] = {
    "fake%s,fake%s",
    "fake:hide=yes:copy=1%s,fake:copy=1%s",
    "fake:reach=no%s,fake:hide=yes:copy=2%s",
    "fake:hide=yes:copy=1%s,fake:hide=yes:copy=2%s",
    "fake:hide=yes:boxes=no%s,fake:hide=yes:copy=1%s",
    "fake:hide=yes:waits=no%s,fake:hide=yes:boxes=no:waits=no:jitter=3%s",
};
enum { LISTS = sizeof lists / sizeof *lists };

static const char *list_of(int l, const char *first, const char *second) {
    static char text[256];
    snprintf(text, sizeof text, lists[l], first, second);
    return text;
}

static uint64_t state_of_random = 99;

static void write_inputs(fixture *f, int64_t n) {
    f->e.dims[0] = n;
    assert_ok(plait_run_set_dim(f->run, "n", n));
    for (size_t s = 0; s < f->graph->n_storages; s++) {
        const plait_graph_storage *storage = &f->graph->storages[s];
        if (storage->kind != PLAIT_STORAGE_INPUT) continue;
        plait_operand o = evaluation_operand(&f->e, storage->root);
        int64_t elems = plait_operand_elems(&o);
        for (int64_t i = 0; i < elems; i++) {
            uint64_t number = random_next(&state_of_random, 48);
            if (o.dtype == PLAIT_I32) /* slots: some next to each other, some twice, some nowhere */
                ((int32_t *)o.data)[i] =
                    i % 3 && number % 4 ? ((int32_t *)o.data)[i - 1] + 1 : (int32_t)number - 1;
            else
                ((float *)o.data)[i] = (float)number;
            int32_t most = strcmp(storage->name, "list") == 0 ? 2 : 47;
            if (o.dtype == PLAIT_I32 && ((int32_t *)o.data)[i] > most) ((int32_t *)o.data)[i] = most;
        }
        assert_ok(plait_run_write(f->run, storage->name, o.data, (uint64_t)plait_operand_span_bytes(&o)));
    }
}

static void run_steps(fixture *f, const char *devices) {
    static const int64_t values[] = {6, 1, 0, 3, 6, 2};
    for (int k = 0; k < 24; k++) {
        write_inputs(f, values[k % 6]);
        assert_ok(plait_run_step(f->run));
        assert_true(evaluation_step(&f->e));
        for (size_t o = 0; o < f->graph->n_outputs && k % 2; o++) {
            const void *bytes;
            uint64_t size;
            assert_ok(plait_run_output(f->run, f->graph->outputs[o].name, &bytes, &size));
            double difference = evaluation_difference(&f->e, f->graph->outputs[o].tensor, bytes);
            if (difference > 0)
                fail_msg("%s, step %d: %s differs by %g", devices, k, f->graph->outputs[o].name, difference);
        }
    }
}

/* ---- views ---- */

/* One device makes [64, 3, n]; the other reads columns 16 to 32 of it, or two views, or all. */
static plait_graph *views(int which) {
    plait_graph *g = plait_graph_create(&(plait_graph_options){.name = "views"});
    plait_dim n = plait_graph_dim(g, "n", 6);
    plait_tensor x = plait_input(g, "x", PLAIT_F32, PLAIT_SHAPE(64, 3, n));
    plait_tensor y = plait_silu(g, x);
    plait_output(g, "a", plait_relu(g, plait_slice(g, y, 0, 16, which == 2 ? 32 : 16)));
    if (which == 1) plait_output(g, "b", plait_relu(g, plait_slice(g, y, 1, 1, 1)));
    assert_ok(plait_graph_seal(g));
    return g;
}

static void test_views(void **state) {
    (void)state;
    for (int l = 0; l < LISTS; l++)
        for (int which = 0; which < 3; which++) {
            fixture f = {0};
            const char *devices = list_of(l, ":lack=relu", ":lack=silu");
            make(&f, views(which), NULL, devices, NULL, 0);
            assert_int_equal(f.plan->n_transfers, 1);
            const plait_plan_transfer *t = &f.plan->transfers[0];
            bool boxes = !strstr(devices, "boxes=no");
            /* Rows of 16 of 64 floats, 18 of them; without boxes what lies between is cheaper than 18 commands. */
            uint64_t all = 64 * 3 * 6 * 4, expected = which == 2 ? 32 * 18 * 4 : 16 * 18 * 4;
            if (which == 1) expected = all - 16 * 4;
            if (which != 1 && !boxes) expected = all - (which == 2 ? 32 : 48) * 4;
            if (which == 1) assert_true(t->size_bytes <= all && t->part.n_levels == 0);
            if (which != 1 && t->size_bytes != expected)
                fail_msg("%s, %d: %llu bytes are moved, expected %llu", devices, which,
                         (unsigned long long)t->size_bytes, (unsigned long long)expected);
            run_steps(&f, devices);
            destroy(&f);
        }
}

/* ---- rows ---- */

enum { ROW = 8, PAGE = 4, HEADS = 2, PAGES = 12 };

/* The state lives on the first device, which lacks kv_write; its readers are there. `chain`: two writers, of which the
 * second may be on the other device or on the first. `reads`: somebody reads the state where it is written. */
static plait_graph *caches(int writers, bool reads) {
    plait_graph *g = plait_graph_create(&(plait_graph_options){.name = "caches"});
    plait_dim n = plait_graph_dim(g, "n", 6);
    plait_tensor cache = plait_state(g, "cache", PLAIT_F32, PLAIT_SHAPE(ROW, PAGE, HEADS, PAGES));
    plait_tensor first = PLAIT_NO_TENSOR;
    for (int w = 0; w < writers; w++) {
        char name[16];
        snprintf(name, sizeof name, "rows%d", w);
        plait_tensor rows = plait_input(g, name, PLAIT_F32, PLAIT_SHAPE(ROW, HEADS, n));
        snprintf(name, sizeof name, "slots%d", w);
        plait_tensor slots = plait_input(g, name, PLAIT_I32, PLAIT_SHAPE(n));
        cache = plait_kv_write(g, cache, rows, slots);
        first = w == 0 ? rows : first;
    }
    if (reads) plait_output(g, "there", plait_relu(g, cache));
    plait_output(g, "here", plait_scale(g, cache, 2));
    plait_output(g, "cache", cache);
    assert_ok(plait_graph_seal(g));
    return g;
}

/* Knows the state and does not write it: where it lives is settled before anybody does. */
static plait_graph *reader(void) {
    plait_graph *g = plait_graph_create(&(plait_graph_options){.name = "reader"});
    plait_tensor cache = plait_state(g, "cache", PLAIT_F32, PLAIT_SHAPE(ROW, PAGE, HEADS, PAGES));
    plait_output(g, "here", plait_scale(g, cache, 2));
    assert_ok(plait_graph_seal(g));
    return g;
}

static uint64_t moved_home(const plait_plan *plan) {
    uint64_t bytes = 0;
    for (size_t t = 0; t < plan->n_transfers; t++)
        bytes += plan->values[plan->transfers[t].target].slot == PLAIT_SLOT_STATE
                     ? plan->transfers[t].size_bytes
                     : 0;
    return bytes;
}

/* Only rows go home, and nothing comes, unless the device reads the state as well. */
static void test_rows(void **state) {
    (void)state;
    const uint64_t row_bytes = ROW * HEADS * 4, all = (uint64_t)ROW * PAGE * HEADS * PAGES * 4;
    const plait_pin pins[] = {{"cache", 0}};
    for (int l = 0; l < LISTS; l++)
        for (int which = 0; which < 4; which++) {
            fixture f = {0};
            int writers = 1 + which % 2;
            bool reads = which >= 2;
            const char *devices = list_of(l, ":lack=kv_write+relu", ":lack=scale");
            make(&f, caches(writers, reads), reader(), devices, pins, 1);
            assert_int_equal(moved_home(f.plan), (uint64_t)writers * 6 * row_bytes);
            uint64_t moved = 0;
            for (size_t t = 0; t < f.plan->n_transfers; t++) moved += f.plan->transfers[t].size_bytes;
            assert_int_equal(moved, (uint64_t)writers * 6 * row_bytes + (reads ? all : 0));
            run_steps(&f, devices);
            destroy(&f);
        }
}

/* A write of a fixed part: all of the state comes for it, and that part goes home. */
static void test_static_part(void **state) {
    (void)state;
    const uint64_t page_bytes = ROW * PAGE * HEADS * 4;
    const plait_pin pins[] = {{"cache", 0}};
    for (int l = 0; l < LISTS; l++) {
        plait_graph *g = plait_graph_create(&(plait_graph_options){.name = "pages"});
        plait_dim n = plait_graph_dim(g, "n", 6);
        plait_tensor x = plait_input(g, "x", PLAIT_F32, PLAIT_SHAPE(ROW, HEADS, n));
        plait_tensor slots = plait_input(g, "slots", PLAIT_I32, PLAIT_SHAPE(n));
        plait_tensor pages = plait_input(g, "list", PLAIT_I32, PLAIT_SHAPE(2, 2));
        plait_tensor cache = plait_state(g, "cache", PLAIT_F32, PLAIT_SHAPE(ROW, PAGE, HEADS, PAGES));
        cache = plait_kv_write(g, cache, x, slots);
        plait_tensor part = plait_slice(g, cache, 3, 5, 3);
        plait_tensor inputs[] = {part, pages};
        part = plait_apply(g, PLAIT_OP_page_copy, inputs, 2, NULL, 0, NULL, 1);
        plait_output(g, "part", plait_scale(g, part, 2));
        assert_ok(plait_graph_seal(g));
        fixture f = {0};
        const char *devices = list_of(l, ":lack=page_copy", ":lack=scale+kv_write");
        make(&f, g, reader(), devices, pins, 1);
        assert_int_equal(moved_home(f.plan), 3 * page_bytes);
        run_steps(&f, devices);
        destroy(&f);
    }
}

/* Rows written on three devices, of which none has the state: in the order of the writes they come home. */
static void test_rows_from_several(void **state) {
    (void)state;
    static const char *const sets[] = {
        "fake:lack=kv_write,fake:hide=yes:copy=1,fake:copy=2",
        "fake:lack=kv_write:hide=yes:copy=2,fake:hide=yes:waits=no,fake:hide=yes:boxes=no",
        "fake:lack=kv_write:copy=1:jitter=4,fake:jitter=5,fake:copy=1:jitter=6",
    };
    const plait_pin pins[] = {{"cache", 0}, {"w1*", 1}, {"w2*", 2}};
    for (size_t l = 0; l < 3; l++) {
        plait_graph *g = plait_graph_create(&(plait_graph_options){.name = "several"});
        plait_dim n = plait_graph_dim(g, "n", 6);
        plait_tensor cache = plait_state(g, "cache", PLAIT_F32, PLAIT_SHAPE(ROW, PAGE, HEADS, PAGES));
        plait_tensor rows = plait_input(g, "rows", PLAIT_F32, PLAIT_SHAPE(ROW, HEADS, n));
        for (int w = 0; w < 4; w++) {
            char name[16];
            snprintf(name, sizeof name, "slots%d", w);
            plait_tensor slots = plait_input(g, name, PLAIT_I32, PLAIT_SHAPE(n));
            plait_graph_scope(g, w % 2 ? "w1." : "w2.");
            rows = plait_relu(g, rows);
            cache = plait_kv_write(g, cache, plait_scale(g, rows, w + 1), slots);
        }
        plait_graph_scope(g, "");
        plait_output(g, "here", plait_scale(g, cache, 2));
        assert_ok(plait_graph_seal(g));
        fixture f = {0};
        make(&f, g, reader(), sets[l], pins, 3);
        int rows_moved = 0;
        for (size_t t = 0; t < f.plan->n_transfers; t++)
            rows_moved += f.plan->transfers[t].part.rows_node > 0;
        if (rows_moved != 4) {
            char *text;
            plait_plan_print(f.plan, &text);
            puts(text);
        }
        assert_int_equal(rows_moved, 4);
        run_steps(&f, sets[l]);
        destroy(&f);
    }
}

/* A context whose arenas grow between two steps: rows go on to where they belong. */
static void test_rows_after_growth(void **state) {
    (void)state;
    fixture f = {0};
    const plait_pin pins[] = {{"cache", 0}};
    make(&f, caches(1, false), reader(), "fake:lack=kv_write:hide=yes,fake:hide=yes:copy=1", pins, 1);
    for (int k = 0; k < 6; k++) {
        run_steps(&f, "growing");
        for (int d = 0; d < 2; d++)
            assert_ok(plait_context_reserve_arena(f.context, d, (uint64_t)10000 * ((uint64_t)k + 1)));
    }
    destroy(&f);
}

static int make_known(void **state) {
    (void)state;
    return fake_register() == PLAIT_OK ? 0 : -1;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_views),
        cmocka_unit_test(test_rows),
        cmocka_unit_test(test_static_part),
        cmocka_unit_test(test_rows_from_several),
        cmocka_unit_test(test_rows_after_growth),
    };
    return cmocka_run_group_tests(tests, make_known, NULL);
}
