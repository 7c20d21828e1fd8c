/* Plans beside traces: a trace of the same run has every name, both sides count the same work, sums agree with the trace
 * itself; traces of other plans are told so; nothing that a file may hold does harm. */
/* labels: threads */
#include "model/compare.h"
#include "model/model.h"

#include "run/run.h"

#include "support/assert_ok.h"
#include "support/decoder.h"
#include "support/fake_device.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>

typedef struct fixture {
    plait_context *context;
    plait_graph *graph;
    plait_plan *plan;
} fixture;

static void make(fixture *f, const char *devices, int layers) {
    plait_device_figures figures;
    *f = (fixture){.graph = decoder_make(layers, 64, 8)};
    assert_ok(plait_context_open(&f->context, devices, NULL));
    for (int d = 0; d < f->context->n_devices; d++) assert_ok(plait_context_figures(f->context, d, &figures));
    assert_ok(plait_plan_make(&f->plan, f->context, f->graph,
                              &(plait_plan_options){.split = PLAIT_SPLIT_NONE, .name = "layers"}));
}

static void destroy(fixture *f) {
    plait_plan_release(f->plan);
    plait_context_close(f->context);
    plait_graph_destroy(f->graph);
}

/* Keys that queries of a step see: the first step does not say. */
static uint64_t keys_of(int step) {
    return 40 * (uint64_t)step;
}

/* A trace of steps with these numbers of tokens. */
static char *record(const fixture *f, const int64_t *tokens, int n) {
    plait_run *run = NULL;
    char *json = NULL;
    assert_ok(plait_run_create(&run, f->plan, NULL));
    assert_ok(plait_run_trace_begin(run, 100000));
    for (int k = 0; k < n; k++) {
        assert_ok(plait_run_set_dim(run, "tokens", tokens[k]));
        plait_run_note_keys(run, keys_of(k));
        assert_ok(plait_run_step(run));
    }
    assert_ok(plait_run_trace_end(run, &json));
    plait_run_destroy(run);
    return json;
}

static plait_status compare(plait_comparison *c, const fixture *f, const char *json) {
    static const plait_plan *plans[1];
    plans[0] = f->plan;
    return plait_compare(c, plans, 1, json, strlen(json));
}

static double forecast_ns(const fixture *f, const int64_t *tokens, int n) {
    plait_explained e;
    double ns = 0;
    assert_ok(plait_explain(&e, f->plan));
    for (int k = 0; k < n; k++) {
        plait_forecast forecast;
        double keys = ceil((double)keys_of(k) / PLAIT_MODEL_PAGE_LEN) * PLAIT_MODEL_PAGE_LEN;
        assert_ok(plait_forecast_make(&e, &tokens[k], keys, &e.arena, &forecast));
        for (size_t q = 0; q < f->plan->n_queues; q++) ns += forecast.busy_ns[q];
    }
    plait_explained_deinit(&e);
    return ns;
}

static bool near(double a, double b) {
    return a > b * (1 - 1e-9) - 1e-3 && a < b * (1 + 1e-9) + 1e-3;
}

static void test_same_run(void **state) {
    static const char *const devices[] = {
        "fake", "fake:lack=attention,fake", "cpu:threads=2",
        "sim:lack=attention:copy-queues=1:flops=1T:memory-bandwidth=1TB,cpu:threads=1"};
    static const int64_t tokens[] = {1, 1, 8, 1, 3};
    enum { N = 5 };
    (void)state;
    for (size_t i = 0; i < sizeof devices / sizeof *devices; i++) {
        fixture f;
        plait_comparison c;
        double predicted = 0, measured = 0;
        uint64_t n_measured = 0;
        make(&f, devices[i], 3);
        char *json = record(&f, tokens, N);
        assert_ok(compare(&c, &f, json));
        assert_int_equal(c.n_steps[0], N);
        assert_int_equal(c.n_strangers, 0);
        assert_int_equal(c.n_known, c.n_spans);
        for (size_t r = 0; r < c.n_rows; r++) {
            const plait_compared_row *row = &c.rows[r];
            if (row->n_measured != row->n_predicted)
                fail_msg("%s: %s: %d times, predicted %d", devices[i], row->name, (int)row->n_measured,
                         (int)row->n_predicted);
            n_measured += row->n_measured;
            assert_null(strstr(row->name, "blk.1."));
        }
        assert_int_equal(n_measured, c.n_spans);
        for (size_t q = 0; q < c.n_queues; q++) {
            double rows_ns = 0;
            for (size_t r = 0; r < c.n_rows; r++)
                if (c.rows[r].queue == q) rows_ns += c.rows[r].measured_ns;
            assert_true(near(rows_ns, c.queues[q].measured_ns));
            predicted += c.queues[q].predicted_ns;
            measured += c.queues[q].measured_ns;
        }
        assert_true(near(predicted, forecast_ns(&f, tokens, N)));
        assert_true(measured > 0);
        for (size_t r = 1; r < c.n_rows; r++) {
            double before = c.rows[r - 1].measured_ns - c.rows[r - 1].predicted_ns;
            double here = c.rows[r].measured_ns - c.rows[r].predicted_ns;
            assert_true(before * before >= here * here);
        }
        plait_comparison_deinit(&c);
        free(json);
        destroy(&f);
    }
}

/* Names that only one side has are listed; when there is no other, it is the wrong trace. */
static void test_another_plan(void **state) {
    static const int64_t tokens[] = {2};
    (void)state;
    fixture two, three, other;
    plait_comparison c;
    make(&two, "fake", 2);
    make(&three, "fake", 3);
    make(&other, "null", 2);
    char *json = record(&three, tokens, 1);
    assert_int_equal(compare(&c, &other, json), PLAIT_NOT_FOUND);
    assert_non_null(strstr(plait_error_message(), "another model"));
    free(json);
    destroy(&two);
    destroy(&three);
    make(&two, "cpu:threads=1", 2);
    make(&three, "cpu:threads=1", 3);
    json = record(&three, tokens, 1);
    assert_ok(compare(&c, &two, json));
    assert_true(c.n_strangers > 0 && c.n_known < c.n_spans);
    for (size_t i = 0; i < c.n_strangers; i++) {
        assert_string_equal(c.strangers[i].plan, "layers");
        assert_string_equal(c.strangers[i].device, "cpu");
        assert_string_equal(c.strangers[i].queue, "launches");
    }
    plait_comparison_deinit(&c);
    free(json);
    destroy(&two);
    destroy(&three);
    destroy(&other);
}

/* Texts that are no traces, and traces that lie. */
static void test_hostile(void **state) {
#define NAMES                                                                                                \
    "{\"traceEvents\":[{\"name\":\"process_name\",\"ph\":\"M\",\"pid\":2,\"tid\":1,\"args\":{\"name\":"      \
    "\"fake\"}},"                                                                                            \
    "{\"name\":\"thread_name\",\"ph\":\"M\",\"pid\":2,\"tid\":1,\"args\":{\"name\":\"launches\"}},"
#define SPAN(dur)                                                                                            \
    "{\"name\":\"segment 0\",\"cat\":\"segment\",\"ph\":\"X\",\"pid\":2,\"tid\":1,\"ts\":1,\"dur\":" dur     \
    ",\"args\":{\"plan\":\"layers\",\"step\":0}}"
#define STEP(tokens)                                                                                         \
    "{\"name\":\"step\",\"cat\":\"step\",\"ph\":\"X\",\"pid\":1,\"tid\":1,\"args\":{\"plan\":\"layers\","    \
    "\"dims\":{\"tokens\":" tokens "}}},"
    static const char *const refused[] = {"",
                                          "{",
                                          "[]",
                                          "{\"traceEvents\":{}}",
                                          "{\"traceEvents\":[]}",
                                          "{\"traceEvents\":[1,\"x\",null,[]]}",
                                          NAMES "{}]}",
                                          NAMES SPAN("-5") "]}",
                                          NAMES SPAN("1e300") "]}",
                                          NAMES SPAN("\"7\"") "]}"};
    static const char *const taken[] = {NAMES SPAN("5") "]}",
                                        NAMES STEP("-1") SPAN("5.5") "]}",
                                        NAMES STEP("9") SPAN("5") "]}",
                                        NAMES STEP("99999999999") SPAN("5") "]}",
                                        NAMES STEP("1.5") SPAN("5") "]}",
                                        NAMES STEP("{}") SPAN("5") "]}"};
    (void)state;
    fixture f;
    plait_comparison c;
    make(&f, "fake", 2);
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        plait_status status = compare(&c, &f, refused[i]);
        if (status != PLAIT_CORRUPT && status != PLAIT_NOT_FOUND) fail_msg("%s is taken", refused[i]);
    }
    for (size_t i = 0; i < sizeof taken / sizeof *taken; i++) {
        assert_ok(compare(&c, &f, taken[i]));
        assert_int_equal(c.n_known, 1);
        assert_int_equal(c.n_steps[0], 0);
        plait_comparison_deinit(&c);
    }
    assert_ok(compare(&c, &f, NAMES STEP("8") STEP("8") SPAN("5") "]}"));
    assert_int_equal(c.n_steps[0], 2);
    plait_comparison_deinit(&c);
    destroy(&f);
}

static int make_known(void **state) {
    (void)state;
    return fake_register() == PLAIT_OK ? 0 : -1;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_same_run),
        cmocka_unit_test(test_another_plan),
        cmocka_unit_test(test_hostile),
    };
    return cmocka_run_group_tests(tests, make_known, NULL);
}
