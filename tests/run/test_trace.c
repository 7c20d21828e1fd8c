/* Traces: JSON that others read; every group, transfer and wait of every recorded step, on the lane of its queue, in order,
 * by the names that the plan prints; arrows that go forward in time; one time base for all devices; nothing beyond what
 * was asked for. */
/* labels: run */
/* room: model */
#include "plan/explain.h"
#include "run/run.h"

#include "base/os.h"
#include "text/json.h"

#include "support/assert_ok.h"
#include "support/decoder.h"
#include "support/fake_device.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

typedef struct fixture {
    plait_context *context;
    plait_graph *graph;
    plait_plan *plan;
    plait_run *run;
    char *json;
    plait_json_document document;
    const plait_json *events;
    size_t n_events;
} fixture;

static void make(fixture *f, const char *devices) {
    *f = (fixture){.graph = decoder_make(2, 64, 4)};
    assert_ok(plait_context_open(&f->context, devices, NULL));
    assert_ok(plait_plan_make(&f->plan, f->context, f->graph,
                              &(plait_plan_options){.split = PLAIT_SPLIT_NONE, .name = "a \"plan\""}));
    assert_ok(plait_run_create(&f->run, f->plan, NULL));
}

static void end_trace(fixture *f) {
    free(f->json);
    f->json = NULL;
    plait_json_document_deinit(&f->document);
    assert_ok(plait_run_trace_end(f->run, &f->json));
    assert_ok(plait_json_parse(&f->document, f->json, strlen(f->json), NULL));
    const plait_json *events = plait_json_get(f->document.root, "traceEvents");
    assert_non_null(events);
    assert_int_equal(events->kind, PLAIT_JSON_ARRAY);
    f->events = events->u.array.items;
    f->n_events = events->u.array.n_items;
}

static void destroy(fixture *f) {
    free(f->json);
    plait_json_document_deinit(&f->document);
    plait_run_destroy(f->run);
    plait_plan_release(f->plan);
    plait_context_close(f->context);
    plait_graph_destroy(f->graph);
}

/* ---- reading ---- */

static const char *text_of(const plait_json *event, const char *key) {
    const plait_json *value = plait_json_get(event, key);
    return value && value->kind == PLAIT_JSON_STRING ? value->u.string.bytes : "";
}

static double number_of(const plait_json *event, const char *key) {
    const plait_json *value = plait_json_get(event, key);
    if (!value) return NAN;
    return value->kind == PLAIT_JSON_INTEGER ? (double)value->u.integer : value->u.real;
}

static bool has(const plait_json *event, const char *key, const char *text) {
    return strcmp(text_of(event, key), text) == 0;
}

static int count(const fixture *f, const char *category) {
    int n = 0;
    for (size_t i = 0; i < f->n_events; i++)
        n += has(&f->events[i], "ph", "X") && has(&f->events[i], "cat", category);
    return n;
}

static int count_name(const fixture *f, const char *name, int step) {
    int n = 0;
    for (size_t i = 0; i < f->n_events; i++) {
        const plait_json *event = &f->events[i];
        if (!has(event, "ph", "X") || !has(event, "name", name)) continue;
        n += number_of(plait_json_get(event, "args"), "step") == step;
    }
    return n;
}

/* ---- what must hold ---- */

typedef struct lane_span {
    double lane, begin, end;
} lane_span;

static int by_begin(const void *a, const void *b) {
    const lane_span *x = a, *y = b;
    if (x->lane != y->lane) return x->lane < y->lane ? -1 : 1;
    return x->begin < y->begin ? -1 : x->begin > y->begin;
}

/* A queue does one thing after the other, and so does the host. */
static void check_lanes(const fixture *f) {
    lane_span *spans = calloc(f->n_events + 1, sizeof *spans);
    size_t n = 0;
    assert_non_null(spans);
    for (size_t i = 0; i < f->n_events; i++) {
        const plait_json *event = &f->events[i];
        if (!has(event, "ph", "X")) continue;
        double begin = number_of(event, "ts"), length = number_of(event, "dur");
        assert_true(begin > 0 && length >= 0);
        spans[n++] =
            (lane_span){100 * number_of(event, "pid") + number_of(event, "tid"), begin, begin + length};
    }
    qsort(spans, n, sizeof *spans, by_begin);
    for (size_t i = 1; i < n; i++)
        if (spans[i].lane == spans[i - 1].lane && spans[i].begin < spans[i - 1].end - 1e-3)
            fail_msg("lane %g: %f begins before %f", spans[i].lane, spans[i].begin, spans[i - 1].end);
    free(spans);
}

/* Arrows come in pairs and go forward; each has an end on a command that ran. */
static int check_arrows(const fixture *f) {
    int n = 0;
    for (size_t i = 0; i < f->n_events; i++) {
        if (!has(&f->events[i], "ph", "s")) continue;
        bool ended = false;
        for (size_t k = 0; k < f->n_events; k++) {
            const plait_json *end = &f->events[k];
            if (!has(end, "ph", "f") || !has(end, "id", text_of(&f->events[i], "id"))) continue;
            assert_false(ended);
            ended = true;
            if (number_of(end, "ts") < number_of(&f->events[i], "ts"))
                fail_msg("arrow %s goes back in time", text_of(end, "id"));
        }
        assert_true(ended);
        n++;
    }
    return n;
}

/* Each command and group of the plan, in each step, under its name. */
static void check_names(const fixture *f, int n_steps, bool groups) {
    plait_explained e;
    plait_strbuf name;
    plait_strbuf_init(&name, 0);
    assert_ok(plait_explain(&e, f->plan));
    for (int step = 0; step < n_steps; step++) {
        for (uint32_t s = 0; s < f->plan->n_steps; s++) {
            if (f->plan->steps[s].kind == PLAIT_STEP_LAUNCH) continue;
            plait_strbuf_clear(&name);
            plait_explain_step(f->plan, s, &name);
            if (!count_name(f, plait_strbuf_text(&name), step))
                fail_msg("%s of step %d is not there", plait_strbuf_text(&name), step);
        }
        for (uint32_t g = 0; groups && g < e.n_groups; g++) {
            const plait_plan_segment *segment = &f->plan->segments[e.groups[g].segment];
            plait_strbuf_clear(&name);
            plait_plan_print_members(segment, &segment->prepared.groups[e.groups[g].group], &name);
            if (!count_name(f, plait_strbuf_text(&name), step))
                fail_msg("%s of step %d is not there", plait_strbuf_text(&name), step);
        }
    }
    plait_strbuf_deinit(&name);
    plait_explained_deinit(&e);
}

static int waits_of(const plait_plan *plan) {
    int n = 0;
    for (size_t s = 0; s < plan->n_steps; s++) n += (int)plan->steps[s].n_waits;
    return n;
}

static int transfers_of(const plait_plan *plan) {
    int n = 0;
    for (size_t s = 0; s < plan->n_steps; s++) n += plan->steps[s].kind != PLAIT_STEP_LAUNCH;
    return n;
}

static void test_everything_is_there(void **state) {
    static const char *const devices[] = {
        "cpu:threads=1", "sim:lack=attention,cpu:threads=1",
        "sim:lack=attention:copy-queues=2:delay=3,sim:lack=rms_norm:no=peer,cpu:threads=1"};
    (void)state;
    for (size_t i = 0; i < sizeof devices / sizeof *devices; i++) {
        fixture f;
        enum { STEPS = 3 };
        make(&f, devices[i]);
        assert_ok(plait_run_trace_begin(f.run, 100000));
        for (int k = 0; k < STEPS; k++) assert_ok(plait_run_step(f.run));
        end_trace(&f);
        check_lanes(&f);
        check_names(&f, STEPS, true);
        assert_int_equal(count(&f, "group"), STEPS * f.plan->facts.n_groups);
        assert_int_equal(count(&f, "wait"), STEPS * waits_of(f.plan));
        assert_int_equal(count(&f, "step"), STEPS);
        assert_int_equal(count(&f, "segment"), 0);
        int n_before = 0;
        for (size_t w = 0; w < f.plan->n_waits; w++) n_before += f.plan->waits[w].before;
        assert_int_equal(check_arrows(&f), STEPS * (int)f.plan->n_waits - n_before);
        destroy(&f);
    }
}

/* A device that tells nothing of groups still shows when it ran a segment. */
static void test_segments_whole(void **state) {
    (void)state;
    fixture f;
    make(&f, "fake:lack=attention:copy=1,fake:group=2:hide=yes:waits=no");
    assert_ok(plait_run_trace_begin(f.run, 100000));
    assert_ok(plait_run_step(f.run));
    assert_ok(plait_run_step(f.run));
    end_trace(&f);
    check_lanes(&f);
    check_names(&f, 2, false);
    assert_int_equal(count(&f, "segment"), 2 * (int)f.plan->n_segments);
    assert_int_equal(count(&f, "transfer"), 2 * transfers_of(f.plan));
    assert_true(check_arrows(&f) > 0);
    assert_non_null(strstr(f.json, "\"plan\":\"a \\\"plan\\\"\""));
    destroy(&f);
}

/* As many steps as there was room for; recording again begins anew; a trace of nothing is one too. */
static void test_room(void **state) {
    (void)state;
    fixture f;
    make(&f, "fake:lack=attention,fake:group=2");
    assert_ok(plait_run_step(f.run));
    assert_ok(plait_run_trace_begin(f.run, 1000));
    assert_ok(plait_run_step(f.run));
    assert_ok(plait_run_trace_begin(f.run, 1)); /* two steps at least */
    for (int k = 0; k < 7; k++) assert_ok(plait_run_step(f.run));
    end_trace(&f);
    check_lanes(&f);
    assert_int_equal(count(&f, "step"), 2);
    assert_int_equal(count(&f, "segment"), 2 * (int)f.plan->n_segments);
    for (int step = 0; step < 10; step++)
        assert_int_equal(count_name(&f, "step", step), step == 2 || step == 3);
    assert_ok(plait_run_step(f.run));
    end_trace(&f); /* nobody asked */
    assert_int_equal(f.n_events, 0);
    assert_ok(plait_run_trace_begin(f.run, 0));
    assert_ok(plait_run_step(f.run));
    end_trace(&f);
    assert_int_equal(f.n_events, 0);
    destroy(&f);
}

/* Spans in a device's own clock are laid beside the host's; numbers that no group has are left out. */
static void test_clocks(void **state) {
    (void)state;
    fixture f;
    uint64_t device_ns, host_ns;
    make(&f, "sim");
    plait_device *device = f.context->devices[0].device;
    assert_ok(plait_run_trace_begin(f.run, 1000));
    assert_ok(plait_run_step(f.run));
    assert_ok(plait_run_wait(f.run));
    uint64_t now_ns = plait_time_ns();
    assert_ok(device->vtable->time_query(device, &device_ns, &host_ns));
    assert_true(device_ns < host_ns);
    for (size_t s = 0; s < f.plan->n_steps; s++) {
        plait_launch_trace *trace = plait_run_trace_of_step(f.run, 0, s);
        if (f.plan->steps[s].kind != PLAIT_STEP_LAUNCH) continue;
        assert_true(trace->capacity >= 2);
        trace->own_clock = true;
        trace->n = 0;
        trace->spans[trace->n++] = (struct plait_launch_span){9999, device_ns, device_ns};
        trace->spans[trace->n++] = (struct plait_launch_span){0, device_ns, device_ns + 5000};
    }
    end_trace(&f);
    assert_null(strstr(f.json, "9999"));
    int found = 0;
    for (size_t i = 0; i < f.n_events; i++) {
        if (!has(&f.events[i], "cat", "group")) continue;
        double at_ns = 1000 * number_of(&f.events[i], "ts");
        if (fabs(at_ns - (double)now_ns) > 1e9)
            fail_msg("%f, the host's time was %llu", at_ns, (unsigned long long)now_ns);
        assert_true(fabs(number_of(&f.events[i], "dur") - 5) < 1e-6);
        found++;
    }
    assert_int_equal(found, f.plan->n_segments);
    destroy(&f);
}

/* What a simulated link takes is in the spans of what went over it. */
static void test_delays_are_seen(void **state) {
    (void)state;
    fixture f;
    int n = 0;
    make(&f, "sim:lack=attention:latency=3ms,cpu:threads=1");
    assert_ok(plait_run_trace_begin(f.run, 1000));
    assert_ok(plait_run_step(f.run));
    end_trace(&f);
    for (size_t i = 0; i < f.n_events; i++) {
        if (strncmp(text_of(&f.events[i], "name"), "move ", 5) != 0) continue;
        if (!has(&f.events[i], "ph", "X") || number_of(&f.events[i], "pid") != 2) continue;
        if (number_of(&f.events[i], "dur") < 3000) fail_msg("%s took no time", text_of(&f.events[i], "name"));
        n++;
    }
    assert_true(n > 0);
    destroy(&f);
}

static int make_known(void **state) {
    (void)state;
    return fake_register() == PLAIT_OK ? 0 : -1;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_everything_is_there),
        cmocka_unit_test(test_segments_whole),
        cmocka_unit_test(test_room),
        cmocka_unit_test(test_clocks),
        cmocka_unit_test(test_delays_are_seen),
    };
    return cmocka_run_group_tests(tests, make_known, NULL);
}
