/* The arena of temporaries: cut into chunks where a device's buffers are small, shared by plans of different bounds, never
 * smaller than it was, in use while it grows. The simulated device refuses larger buffers and faults when anything but its
 * own work touches memory; results must be those of a device without limits, byte for byte. */
/* labels: run */
#include "plait/cost.h"
#include "plait/run.h"

#include "plan/plan.h"
#include "support/assert_ok.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WIDTH = 64, BOUND = 1024, LAYERS = 6, VALUE_BYTES = WIDTH * BOUND * 4 };

/* Values of 256 KiB, some of which live long, made by products, which no device fuses away. */
static plait_graph *make_graph(int64_t bound) {
    plait_graph *g = plait_graph_create(&(plait_graph_options){.name = "wide"});
    plait_tensor x = plait_input(g, "x", PLAIT_F32, PLAIT_SHAPE(WIDTH, plait_graph_dim(g, "n", bound)));
    plait_tensor w = plait_weight(g, "w", PLAIT_F32, PLAIT_SHAPE(WIDTH, WIDTH));
    plait_tensor first = plait_matmul(g, w, x), kept[LAYERS], y = first;
    for (int i = 0; i < LAYERS; i++) {
        kept[i] = plait_matmul(g, w, y);
        y = plait_add(g, plait_matmul(g, w, plait_relu(g, kept[i])), first);
    }
    for (int i = 0; i < LAYERS; i++) y = plait_matmul(g, w, plait_sub(g, y, kept[i]));
    plait_output(g, "y", y);
    plait_output(g, "first", first);
    assert_ok(plait_graph_seal(g));
    return g;
}

typedef struct fixture {
    plait_context *context;
    plait_graph *graph;
    plait_plan *plan;
    plait_run *run;
    float y[WIDTH * BOUND], first[WIDTH * BOUND];
} fixture;

static float number(int i) {
    return (float)((i * 37) % 101) * 0.02f - 1.0f;
}

static void open_fixture(fixture *f, plait_context *context, int64_t bound) {
    float w[WIDTH * WIDTH];
    for (int i = 0; i < WIDTH * WIDTH; i++) w[i] = number(i + 5) * 0.1f;
    f->context = context;
    f->graph = make_graph(bound);
    assert_ok(plait_plan_make(&f->plan, context, f->graph, NULL));
    assert_ok(plait_plan_write_weight(f->plan, "w", w, sizeof w));
    assert_ok(plait_run_create(&f->run, f->plan, NULL));
}

static void step(fixture *f, int64_t n) {
    float x[WIDTH * BOUND];
    const void *bytes;
    uint64_t size;
    for (int i = 0; i < WIDTH * BOUND; i++) x[i] = number(i);
    assert_ok(plait_run_set_dim(f->run, "n", n));
    assert_ok(plait_run_write(f->run, "x", x, (uint64_t)n * WIDTH * sizeof *x));
    assert_ok(plait_run_step(f->run));
    assert_ok(plait_run_output(f->run, "y", &bytes, &size));
    assert_int_equal(size, (uint64_t)n * WIDTH * sizeof(float));
    memcpy(f->y, bytes, size);
    assert_ok(plait_run_output(f->run, "first", &bytes, &size));
    memcpy(f->first, bytes, size);
}

static void close_fixture(fixture *f) {
    plait_run_destroy(f->run);
    plait_plan_release(f->plan);
    plait_graph_destroy(f->graph);
}

static plait_context *open_context(const char *devices) {
    plait_context *context = NULL;
    assert_ok(plait_context_open(&context, devices, NULL));
    /* Stated, so that nothing is measured: that would need more memory than some of these devices have. */
    plait_device_figures figures = {
        .struct_bytes = sizeof figures, .float_flop_per_s = 1000000000, .bytes_per_s = 1000000000};
    for (int d = 0; d < plait_context_device_count(context); d++)
        assert_ok(plait_context_set_figures(context, d, &figures));
    return context;
}

/* What a device without limits gives. */
static void expect(fixture *out, int64_t n) {
    plait_context *context = open_context("cpu:threads=1");
    open_fixture(out, context, BOUND);
    step(out, n);
    close_fixture(out);
    plait_context_close(context);
}

static void check_same(const fixture *f, const fixture *expected, int64_t n) {
    assert_memory_equal(f->y, expected->y, (size_t)n * WIDTH * sizeof(float));
    assert_memory_equal(f->first, expected->first, (size_t)n * WIDTH * sizeof(float));
}

/* ---- chunks ---- */

static void check_chunks(const plait_plan *plan, int device, uint64_t chunk) {
    const plait_plan_device *row = &plan->devices[device];
    const plait_context_entry *entry = &plan->context->devices[device];
    assert_int_equal(entry->chunk_bytes, chunk);
    assert_true(row->arena_bytes > chunk);
    assert_int_equal(entry->n_chunks, (row->arena_bytes - 1) / chunk + 1);
    for (int c = 0; c < entry->n_chunks; c++) assert_true(entry->arena[c]->size_bytes <= chunk);
    for (size_t v = 0; v < plan->n_values; v++) {
        const plait_plan_value *value = &plan->values[v];
        bool placed = value->device == device && value->slot == PLAIT_SLOT_ARENA && !value->elided &&
                      value->first >= 0 && value->size_bytes;
        if (placed) assert_int_equal(value->offset / chunk, (value->offset + value->size_bytes - 1) / chunk);
    }
}

static void test_chunks(void **state) {
    static const char *const lists[] = {"sim:max-buffer=600KiB",
                                        "sim:max-buffer=600KiB:lack=relu,sim:max-buffer=520KiB",
                                        "sim:max-buffer=520KiB:align=4096"};
    static const uint64_t chunks[] = {600 << 10, 600 << 10, 520 << 10};
    static fixture expected, f;
    (void)state;
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
        plait_context *context = open_context(lists[i]);
        open_fixture(&f, context, BOUND);
        check_chunks(f.plan, 0, chunks[i]);
        assert_ok(plait_plan_verify(f.plan));
        for (int64_t n = BOUND; n > 0; n -= 400) {
            expect(&expected, n);
            step(&f, n);
            check_same(&f, &expected, n);
        }
        close_fixture(&f);
        plait_context_close(context);
    }
}

static void test_value_too_large(void **state) {
    (void)state;
    plait_context *context = open_context("sim:max-buffer=250000");
    plait_graph *graph = make_graph(BOUND);
    plait_plan *plan = NULL;
    char expected[32];
    snprintf(expected, sizeof expected, "%d bytes", VALUE_BYTES);
    assert_int_equal(plait_plan_make(&plan, context, graph, NULL), PLAIT_OUT_OF_RANGE);
    if (!strstr(plait_error_message(), expected) || !strstr(plait_error_message(), "value \""))
        fail_msg("%s", plait_error_message());
    plait_graph_destroy(graph);
    plait_context_close(context);
}

/* ---- sharing ---- */

/* Plans for a token, for a few and for many share one arena, which only ever grows; a run that was made before it grew goes
 * on, in chunks or not. */
static void test_bounds_share(void **state) {
    static const char *const lists[] = {"sim", "sim:max-buffer=520KiB", "cpu:threads=1", "sim:lack=relu,sim"};
    static const int64_t bounds[] = {64, BOUND, 7};
    static fixture expected, f[3];
    (void)state;
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
        plait_context *context = open_context(lists[i]);
        const plait_context_entry *entry = &context->devices[0];
        uint64_t most = 0, replaced = 0;
        for (int k = 0; k < 3; k++) {
            open_fixture(&f[k], context, bounds[k]);
            uint64_t needed = f[k].plan->devices[0].arena_bytes;
            assert_true(entry->arena_bytes >= needed && entry->arena_bytes >= most);
            if (k == 2) assert_int_equal(context->arenas, replaced); /* the smallest takes what is there */
            most = entry->arena_bytes;
            replaced = context->arenas;
            for (int earlier = 0; earlier <= k; earlier++) {
                expect(&expected, bounds[earlier]);
                step(&f[earlier], bounds[earlier]);
                check_same(&f[earlier], &expected, bounds[earlier]);
            }
        }
        for (int k = 0; k < 3; k++) close_fixture(&f[k]);
        assert_int_equal(entry->arena_bytes, most);
        plait_context_close(context);
    }
}

/* An arena that cannot grow leaves the old one in use. */
static void test_growth_fails(void **state) {
    static fixture expected, f;
    (void)state;
    plait_context *context = open_context("sim:mem=3MiB");
    plait_graph *large = make_graph(2048);
    plait_plan *plan = NULL;
    open_fixture(&f, context, 32);
    uint64_t before = context->devices[0].arena_bytes;
    assert_int_equal(plait_plan_make(&plan, context, large, NULL), PLAIT_OUT_OF_MEMORY);
    assert_null(plan);
    assert_int_equal(context->devices[0].arena_bytes, before);
    expect(&expected, 32);
    step(&f, 32);
    check_same(&f, &expected, 32);
    close_fixture(&f);
    plait_graph_destroy(large);
    plait_context_close(context);
}

/* What buffers really take: each chunk padded as the device pads. */
static void test_bytes_taken(void **state) {
    static fixture f;
    (void)state;
    plait_context *context = open_context("sim:max-buffer=600KiB:pad=100:granularity=4096");
    open_fixture(&f, context, BOUND);
    plait_plan_memory memory;
    assert_ok(plait_plan_memory_on(f.plan, 0, &memory));
    assert_int_equal(memory.temporary_bytes, f.plan->devices[0].arena_bytes);
    assert_int_equal(memory.bound_bytes, f.plan->devices[0].bound_bytes);
    uint64_t expected = 0;
    for (uint64_t at = 0, size; at < memory.temporary_bytes; at += size) {
        size = memory.temporary_bytes - at < 600 << 10 ? memory.temporary_bytes - at : 600 << 10;
        expected += (size + 100 + 4095) / 4096 * 4096;
    }
    assert_int_equal(memory.taken_bytes, expected);
    close_fixture(&f);
    plait_context_close(context);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_chunks),       cmocka_unit_test(test_value_too_large),
        cmocka_unit_test(test_bounds_share), cmocka_unit_test(test_growth_fails),
        cmocka_unit_test(test_bytes_taken),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
