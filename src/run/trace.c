/* Traces: when commands ran, as the devices report it, in the JSON of Chrome's trace viewer (catapult's "Trace Event
 * Format"; microseconds). Names are those of the plan (plan/explain.h). Processes are devices, threads their queues; process 1
 * is the host. docs/reading-a-plan.md tells how to read one, the command line compares it with the plan.
 *
 * Every place has its own spans, so a span belongs to the last step of its place that was handed over before it began.
 * Invariant: recording allocates only at the beginning, and what is not recorded costs a look at a capacity. */
#include "run/run.h"

#include "base/alloc.h"
#include "base/os.h"
#include "base/size.h"
#include "base/status.h"
#include "base/strbuf.h"
#include "plan/explain.h"

#include <stdlib.h>
#include <string.h>

enum { HOST_PROCESS = 1, FIRST_PROCESS = 2, WAITS_PER_STEP = 4 };

/* ---- places of spans ---- */

plait_launch_trace *plait_run_trace_of_step(plait_run *run, int place, size_t step) {
    return &run->trace.spans[(size_t)place * run->trace.n_spans + step];
}

plait_launch_trace *plait_run_trace_of_wait(plait_run *run, int place, size_t wait) {
    return plait_run_trace_of_step(run, place, run->plan->n_steps + wait);
}

plait_launch_trace *plait_run_trace_of_hand_over(plait_run *run, int place, size_t queue) {
    return plait_run_trace_of_step(run, place, run->plan->n_steps + run->plan->n_waits + queue);
}

/* Spans of one step in trace number k. The most that one step can have, so that recording needs no check of room beside
 * the capacity. */
static size_t spans_of(const plait_run *run, size_t k) {
    const plait_plan *plan = run->plan;
    if (k >= plan->n_steps + plan->n_waits) return plan->n_queues; /* waits for every other queue, at most */
    if (k >= plan->n_steps) return 1;
    const plait_plan_step *step = &plan->steps[k];
    if (step->kind == PLAIT_STEP_LAUNCH) return (size_t)plan->segments[step->item].prepared.n_groups;
    if (step->kind == PLAIT_STEP_WRITE_INPUT || step->kind == PLAIT_STEP_READ_OUTPUT) return 1;
    bool boxes = (plan->context->devices[step->device].info.caps & PLAIT_CAP_BOXES) != 0;
    return plait_part_pieces(&plan->transfers[step->item].part, boxes);
}

/* The traces exist from the beginning, because commands point to them; recording or not is their capacity. */
plait_status plait_run_trace_init(plait_run *run) {
    run->trace.n_spans = run->plan->n_steps + run->plan->n_waits + run->plan->n_queues;
    run->trace.spans = plait_alloc_array((size_t)run->depth * run->trace.n_spans, sizeof *run->trace.spans);
    return run->trace.spans ? PLAIT_OK : plait_error_memory("run", run->trace.n_spans);
}

/* Ends recording; traces stay where commands point to them. The caller has waited for the run, so no device writes into
 * what is freed. */
static void forget(plait_run *run) {
    struct plait_run_trace *trace = &run->trace;
    for (size_t i = 0; trace->spans && i < (size_t)run->depth * trace->n_spans; i++) {
        free(trace->spans[i].spans);
        trace->spans[i] = (plait_launch_trace){0};
    }
    free(trace->steps);
    free(trace->dims);
    free(trace->waits);
    trace->steps = NULL;
    trace->dims = NULL;
    trace->waits = NULL;
    trace->n_steps = trace->step_capacity = trace->limit = trace->n_waits = trace->wait_capacity = 0;
}

void plait_run_trace_deinit(plait_run *run) {
    forget(run);
    free(run->trace.spans);
    run->trace.spans = NULL;
}

/* ---- recording ---- */

/* `rounds` of all places. A few steps more than have spans are recorded by their beginning: a span is told to belong to
 * a step by when the next one of its place began, and the last recorded one needs a successor. Capacities are set when
 * all memory is there. */
static plait_status reserve(plait_run *run, size_t rounds) {
    struct plait_run_trace *trace = &run->trace;
    size_t depth = (size_t)run->depth;
    for (size_t i = 0; i < depth * trace->n_spans; i++) {
        size_t n = rounds * spans_of(run, i % trace->n_spans);
        trace->spans[i].spans = plait_alloc_array(n, sizeof *trace->spans[i].spans);
        if (!trace->spans[i].spans) return plait_error_memory("trace", n * sizeof *trace->spans[i].spans);
    }
    trace->limit = rounds * depth;
    trace->step_capacity = trace->limit + depth;
    trace->wait_capacity = WAITS_PER_STEP * trace->step_capacity;
    trace->steps = plait_alloc_array(trace->step_capacity, sizeof *trace->steps);
    trace->dims = plait_alloc_array(trace->step_capacity * run->plan->graph->n_dims, sizeof *trace->dims);
    trace->waits = plait_alloc_array(trace->wait_capacity, sizeof *trace->waits);
    if (!trace->steps || !trace->dims || !trace->waits)
        return plait_error_memory("trace", trace->step_capacity * sizeof *trace->steps);
    for (size_t i = 0; i < depth * trace->n_spans; i++)
        trace->spans[i].capacity = rounds * spans_of(run, i % trace->n_spans);
    trace->first_step = run->step;
    return PLAIT_OK;
}

/* Steps in flight are waited for, so no command of theirs writes into new spans. max_spans is divided by what a step
 * has at most, in whole rounds of all places, at least one. */
plait_status plait_run_trace_begin(plait_run *run, size_t max_spans) {
    size_t each = 0, depth = (size_t)run->depth;
    PLAIT_TRY(plait_run_wait(run));
    forget(run);
    if (max_spans == 0) return PLAIT_OK;
    for (size_t k = 0; k < run->trace.n_spans; k++) each += spans_of(run, k);
    size_t rounds = max_spans / (each * depth);
    plait_status status = reserve(run, rounds ? rounds : 1);
    if (status != PLAIT_OK) forget(run);
    return status;
}

void plait_run_note_keys(plait_run *run, uint64_t keys) {
    run->keys = keys;
}

/* The host's own time begins before pieces are set and ends when the last queue has its list. */
void plait_run_trace_step(plait_run *run) {
    struct plait_run_trace *trace = &run->trace;
    size_t n_dims = run->plan->graph->n_dims, at = trace->n_steps;
    if (at == trace->step_capacity) return;
    memcpy(trace->dims + at * n_dims, run->dims, n_dims * sizeof *run->dims);
    trace->steps[at].keys = run->keys;
    trace->steps[at].submit.begin_ns = plait_time_ns();
}

void plait_run_trace_submitted(plait_run *run) {
    struct plait_run_trace *trace = &run->trace;
    if (trace->n_steps == trace->step_capacity) return;
    trace->steps[trace->n_steps++].submit.end_ns = plait_time_ns();
}

/* begin_ns 0: nothing was recorded when the wait began. */
void plait_run_trace_waited(plait_run *run, uint64_t begin_ns) {
    struct plait_run_trace *trace = &run->trace;
    if (!begin_ns || trace->n_waits == trace->wait_capacity || trace->n_steps > trace->limit) return;
    trace->waits[trace->n_waits++] = (plait_run_moment){begin_ns, plait_time_ns()};
}

/* ---- one time base ---- */

/* A device's clock beside the host's, at one moment. */
typedef struct clock_reading {
    uint64_t device_ns, host_ns;
    bool known;
} clock_reading;

typedef struct collector {
    plait_run *run;
    plait_strbuf *text;
    bool *first;
    clock_reading *clocks; /* [device] */
    /* [recorded step * n_steps + command] when it ran, for arrows; end 0: it is not known */
    plait_run_moment *moments;
} collector;

/* A device that says its spans are in its own clock is corrected by one reading; without one they stay as they are. */
static uint64_t host_time(const collector *c, int device, const plait_launch_trace *trace, uint64_t ns) {
    const clock_reading *clock = &c->clocks[device];
    return trace->own_clock && clock->known ? ns - clock->device_ns + clock->host_ns : ns;
}

/* The recorded step that a span of a place belongs to; `at`: that of the span before it. SIZE_MAX: none. Spans of a
 * trace come in the order of time, so the search goes on from the last one. */
static size_t step_of(const collector *c, int place, uint64_t begin_ns, size_t at) {
    const struct plait_run_trace *trace = &c->run->trace;
    size_t depth = (size_t)c->run->depth;
    /* Steps of a place are `depth` apart; the first recorded one that used this place depends on which step recording
     * began with. */
    size_t next =
        at == SIZE_MAX ? ((size_t)place + depth - (size_t)(trace->first_step % depth)) % depth : at + depth;
    while (next < trace->n_steps && trace->steps[next].submit.begin_ns <= begin_ns) at = next, next += depth;
    return at;
}

/* ---- events ---- */

static void begin_event(collector *c) {
    plait_strbuf_append(c->text, *c->first ? "\n" : ",\n");
    *c->first = false;
}

/* The format wants microseconds; the fraction keeps the nanoseconds. */
static void print_micros(plait_strbuf *s, const char *key, uint64_t ns) {
    plait_strbuf_printf(s, "%s:%llu.%03llu", key, (unsigned long long)(ns / 1000),
                        (unsigned long long)(ns % 1000));
}

static void print_place(plait_strbuf *s, uint32_t queue) {
    plait_strbuf_printf(s, ",\"pid\":%u,\"tid\":%u", queue / PLAIT_DEVICE_QUEUES + FIRST_PROCESS,
                        queue % PLAIT_DEVICE_QUEUES + 1);
}

/* Left open for more. */
static void print_args(collector *c, size_t step) {
    plait_strbuf_append(c->text, ",\"args\":{\"plan\":");
    plait_strbuf_json_string(c->text, c->run->plan->name);
    plait_strbuf_printf(c->text, ",\"step\":%llu", (unsigned long long)(c->run->trace.first_step + step));
}

/* A complete event ("X"): begin and duration. */
static void print_span(collector *c, const char *name, const char *category, uint32_t queue,
                       plait_run_moment when, size_t step) {
    begin_event(c);
    plait_strbuf_append(c->text, "{\"name\":");
    plait_strbuf_json_string(c->text, name);
    plait_strbuf_printf(c->text, ",\"cat\":\"%s\",\"ph\":\"X\"", category);
    print_place(c->text, queue);
    print_micros(c->text, ",\"ts\"", when.begin_ns);
    print_micros(c->text, ",\"dur\"", when.end_ns > when.begin_ns ? when.end_ns - when.begin_ns : 0);
    print_args(c, step);
    plait_strbuf_append(c->text, "}}");
}

/* ---- spans ---- */

/* The name of a span of trace number k. */
static void span_name(const collector *c, size_t k, int group, plait_strbuf *name) {
    const plait_plan *plan = c->run->plan;
    plait_strbuf_clear(name);
    if (k >= plan->n_steps + plan->n_waits) {
        plait_strbuf_append(name, "wait for another plan");
    } else if (k >= plan->n_steps) {
        plait_strbuf_append(name, "wait for ");
        plait_explain_step(plan, plan->waits[k - plan->n_steps].step, name);
    } else if (plan->steps[k].kind != PLAIT_STEP_LAUNCH) {
        plait_explain_step(plan, (uint32_t)k, name);
    } else if (group == PLAIT_SPAN_WHOLE) {
        plait_strbuf_printf(name, "segment %u", plan->steps[k].item);
    } else {
        const plait_plan_segment *segment = &plan->segments[plan->steps[k].item];
        plait_plan_print_members(segment, &segment->prepared.groups[group], name);
    }
}

/* All pieces of a transfer, or groups of a launch, together are the command. */
static void keep_moment(collector *c, size_t k, size_t step, plait_run_moment when) {
    if (k >= c->run->plan->n_steps) return;
    plait_run_moment *moment = &c->moments[step * c->run->plan->n_steps + k];
    /* The first span gives the beginning, the latest end the end. */
    if (!moment->end_ns) *moment = when;
    if (when.end_ns > moment->end_ns) moment->end_ns = when.end_ns;
}

static const char *category_of(const plait_plan *plan, size_t k, int group) {
    if (k >= plan->n_steps) return "wait";
    if (plan->steps[k].kind != PLAIT_STEP_LAUNCH) return "transfer";
    return group == PLAIT_SPAN_WHOLE ? "segment" : "group";
}

/* All spans of trace number k in a place, of commands of `queue`. Devices report what they like: groups that do not
 * exist are left out. Spans of steps beyond the limit end the trace. */
static void print_trace(collector *c, int place, size_t k, uint32_t queue, plait_strbuf *name) {
    const plait_plan *plan = c->run->plan;
    const plait_launch_trace *trace = plait_run_trace_of_step(c->run, place, k);
    size_t step = SIZE_MAX;
    int n_groups = 0;
    if (k < plan->n_steps && plan->steps[k].kind == PLAIT_STEP_LAUNCH)
        n_groups = plan->segments[plan->steps[k].item].prepared.n_groups;
    for (size_t i = 0; i < trace->n; i++) {
        const struct plait_launch_span *span = &trace->spans[i];
        int device = (int)(queue / PLAIT_DEVICE_QUEUES);
        if (span->group < PLAIT_SPAN_WHOLE || span->group >= (n_groups ? n_groups : 1)) continue;
        plait_run_moment when = {host_time(c, device, trace, span->begin_ns),
                                 host_time(c, device, trace, span->end_ns)};
        step = step_of(c, place, when.begin_ns, step);
        if (step == SIZE_MAX) continue;
        if (step >= c->run->trace.limit) break;
        span_name(c, k, span->group, name);
        plait_strbuf_inherit(c->text, name);
        print_span(c, plait_strbuf_text(name), category_of(plan, k, span->group), queue, when, step);
        keep_moment(c, k, step, when);
    }
}

/* Place by place; a viewer sorts by time. */
static void print_traces(collector *c) {
    const plait_plan *plan = c->run->plan;
    plait_strbuf name;
    plait_strbuf_init(&name, 0);
    for (int place = 0; place < c->run->depth; place++) {
        for (size_t s = 0; s < plan->n_steps; s++) {
            const plait_plan_step *step = &plan->steps[s];
            for (uint32_t w = step->first_wait; w < step->first_wait + step->n_waits; w++)
                print_trace(c, place, plan->n_steps + w, step->queue, &name);
            print_trace(c, place, s, step->queue, &name);
        }
        for (uint32_t q = 0; q < plan->n_queues; q++)
            print_trace(c, place, plan->n_steps + plan->n_waits + q, q, &name);
    }
    plait_strbuf_deinit(&name);
}

/* ---- arrows ---- */

/* One end of an arrow: 's' where the earlier command ended, 'f' where the later one began. "bp":"e" ties the end to the
 * span that encloses it. */
static void print_end(collector *c, char phase, size_t step, size_t wait, uint32_t queue, uint64_t at_ns) {
    begin_event(c);
    plait_strbuf_printf(c->text, "{\"name\":\"after\",\"cat\":\"order\",\"ph\":\"%c\"%s,\"id\":", phase,
                        phase == 'f' ? ",\"bp\":\"e\"" : "");
    plait_strbuf id;
    plait_strbuf_init(&id, 0);
    plait_strbuf_printf(&id, "%s.%llu.%zu", c->run->plan->name,
                        (unsigned long long)(c->run->trace.first_step + step), wait);
    plait_strbuf_inherit(c->text, &id);
    plait_strbuf_json_string(c->text, plait_strbuf_text(&id));
    plait_strbuf_deinit(&id);
    print_place(c->text, queue);
    print_micros(c->text, ",\"ts\"", at_ns);
    plait_strbuf_append_char(c->text, '}');
}

/* Where both ends are known. The id is of plan, step and wait: several plans may be in one trace. */
static void print_arrows(collector *c) {
    const plait_run *run = c->run;
    const plait_plan *plan = run->plan;
    size_t n = run->trace.n_steps < run->trace.limit ? run->trace.n_steps : run->trace.limit;
    for (size_t k = 0; k < n; k++)
        for (size_t s = 0; s < plan->n_steps; s++) {
            const plait_plan_step *step = &plan->steps[s];
            const plait_run_moment *to = &c->moments[k * plan->n_steps + s];
            for (uint32_t w = step->first_wait; w < step->first_wait + step->n_waits; w++) {
                const plait_plan_wait *wait = &plan->waits[w];
                /* The step before the first recorded one left no spans. */
                if (wait->before && k == 0) continue;
                const plait_run_moment *from = &c->moments[(k - wait->before) * plan->n_steps + wait->step];
                if (!from->end_ns || !to->end_ns) continue;
                /* A nanosecond before the end: inside of its span, to which the viewer ties it. */
                uint64_t left = from->end_ns > from->begin_ns ? from->end_ns - 1 : from->end_ns;
                print_end(c, 's', k, w, plan->steps[wait->step].queue, left);
                print_end(c, 'f', k, w, step->queue, to->begin_ns);
            }
        }
}

/* ---- the host ---- */

/* The dims and keys of a step stand with the host's event, once, for comparing with forecasts. */
static void print_host(collector *c) {
    const struct plait_run_trace *trace = &c->run->trace;
    const plait_graph *graph = c->run->plan->graph;
    for (size_t k = 0; k < trace->n_steps && k < trace->limit; k++) {
        const plait_run_moment *when = &trace->steps[k].submit;
        begin_event(c);
        plait_strbuf_printf(c->text, "{\"name\":\"step\",\"cat\":\"step\",\"ph\":\"X\",\"pid\":%d,\"tid\":1",
                            HOST_PROCESS);
        print_micros(c->text, ",\"ts\"", when->begin_ns);
        print_micros(c->text, ",\"dur\"", when->end_ns - when->begin_ns);
        print_args(c, k);
        plait_strbuf_append(c->text, ",\"dims\":{");
        for (size_t d = 0; d < graph->n_dims; d++) {
            plait_strbuf_append(c->text, d ? "," : "");
            plait_strbuf_json_string(c->text, graph->dims[d].name);
            plait_strbuf_printf(c->text, ":%lld", (long long)trace->dims[k * graph->n_dims + d]);
        }
        plait_strbuf_append_char(c->text, '}');
        if (trace->steps[k].keys)
            plait_strbuf_printf(c->text, ",\"keys\":%llu", (unsigned long long)trace->steps[k].keys);
        plait_strbuf_append(c->text, "}}");
    }
    for (size_t w = 0; w < trace->n_waits; w++) {
        begin_event(c);
        plait_strbuf_printf(
            c->text, "{\"name\":\"wait for a step\",\"cat\":\"host\",\"ph\":\"X\",\"pid\":%d,\"tid\":1",
            HOST_PROCESS);
        print_micros(c->text, ",\"ts\"", trace->waits[w].begin_ns);
        print_micros(c->text, ",\"dur\"", trace->waits[w].end_ns - trace->waits[w].begin_ns);
        plait_strbuf_append(c->text, ",\"args\":{\"plan\":");
        plait_strbuf_json_string(c->text, c->run->plan->name);
        plait_strbuf_append(c->text, "}}");
    }
}

static void print_label(collector *c, const char *what, unsigned process, unsigned thread, const char *name) {
    begin_event(c);
    plait_strbuf_printf(c->text,
                        "{\"name\":\"%s\",\"ph\":\"M\",\"pid\":%u,\"tid\":%u,\"args\":{\"name\":", what,
                        process, thread);
    plait_strbuf_json_string(c->text, name);
    plait_strbuf_append(c->text, "}}");
}

/* Names of processes and threads, once for all runs of a context. */
static void print_labels(collector *c) {
    const plait_context *context = c->run->plan->context;
    print_label(c, "process_name", HOST_PROCESS, 1, "host");
    print_label(c, "thread_name", HOST_PROCESS, 1, "steps");
    for (int d = 0; d < context->n_devices; d++) {
        print_label(c, "process_name", (unsigned)d + FIRST_PROCESS, 1, context->devices[d].device->name);
        for (int q = 0; q < context->devices[d].n_queues; q++)
            print_label(c, "thread_name", (unsigned)d + FIRST_PROCESS, (unsigned)q + 1,
                        plait_explain_queue(c->run->plan, (uint32_t)d * PLAIT_DEVICE_QUEUES + (uint32_t)q));
    }
}

/* ---- collecting ---- */

/* One reading a device, now. A device that cannot tell leaves `known` false, and its spans are taken for the host's
 * time. */
static void read_clocks(collector *c) {
    const plait_context *context = c->run->plan->context;
    for (int d = 0; d < context->n_devices; d++) {
        plait_device *device = context->devices[d].device;
        clock_reading *clock = &c->clocks[d];
        clock->known = device->vtable->time_query(device, &clock->device_ns, &clock->host_ns) == PLAIT_OK;
    }
}

/* After a failed step the spans that there are go into the text all the same, and the failure is returned: whether the
 * text is of use then is for the caller to say. */
plait_status plait_run_trace_collect(plait_run *run, plait_strbuf *text, bool *first) {
    const struct plait_run_trace *trace = &run->trace;
    plait_status status = plait_run_wait(run), memory = PLAIT_OK;
    plait_error_record failure;
    if (status != PLAIT_OK) plait_error_save(status, &failure);
    if (!trace->steps) return status;
    size_t n = trace->n_steps < trace->limit ? trace->n_steps : trace->limit;
    collector c = {.run = run, .text = text, .first = first};
    c.clocks = plait_alloc_array((size_t)run->plan->context->n_devices, sizeof *c.clocks);
    c.moments = plait_alloc_array(n * run->plan->n_steps, sizeof *c.moments);
    if (c.clocks && c.moments) {
        if (*first) print_labels(&c);
        read_clocks(&c);
        print_host(&c);
        print_traces(&c);
        print_arrows(&c);
    } else {
        memory = plait_error_memory("trace", n * run->plan->n_steps * sizeof *c.moments);
    }
    free(c.clocks);
    free(c.moments);
    forget(run);
    return status != PLAIT_OK ? plait_error_raise(&failure) : memory;
}

/* One run's trace by itself, with names of processes and threads. */
plait_status plait_run_trace_end(plait_run *run, char **out_json) {
    plait_strbuf text;
    bool first = true;
    plait_strbuf_init(&text, 0);
    plait_strbuf_append(&text, "{\"traceEvents\":[");
    plait_status status = plait_run_trace_collect(run, &text, &first);
    plait_strbuf_append(&text, "\n]}\n");
    if (status == PLAIT_OK) status = plait_strbuf_status(&text);
    if (status == PLAIT_OK) *out_json = plait_strbuf_take(&text);
    plait_strbuf_deinit(&text);
    return status;
}
