/* Reading a trace beside plans. First its steps, which say how often each plan ran at which dims; those are predicted; then
 * its spans, which are looked up by plan, device, queue and name. Not here: how it is shown (cli/compare.c).
 *
 * Invariant: nothing of the text is believed: every number is checked before it is used, and every name is looked up. */
#include "model/compare.h"

#include "base/alloc.h"
#include "base/map.h"
#include "base/size.h"
#include "base/status.h"
#include "model/model.h"
#include "text/json.h"

#include <stdlib.h>
#include <string.h>

/* Far beyond what a trace of ours has: what is larger was not made by us, and is refused before it takes memory. */
enum { MOST_KINDS = 4096, MOST_STRANGERS = 100000, MOST_PROCESSES = 4096 };

/* Steps of one plan with the same dims, and about as many keys. */
typedef struct step_kind {
    int plan;
    int64_t *dims;
    int64_t keys; /* that a query sees, in whole pages; 0: the trace does not say */
    uint64_t n;
} step_kind;

/* What the trace calls a thread: process and thread names by their numbers. */
typedef struct thread_name {
    int64_t process, thread;
    const char *process_name, *thread_name;
    int64_t queue; /* of the context; -1: none of ours */
} thread_name;

typedef struct comparer {
    plait_comparison *out;
    const plait_context *context;
    plait_json_document document;
    const plait_json *events;
    size_t n_events;
    plait_map exact;   /* plan, queue and exact name -> row */
    plait_map merged;  /* plan, queue and name without its block -> row */
    plait_map unknown; /* of strangers */
    plait_map kinds;   /* plan and dims -> kind of step */
    plait_strbuf key;
    step_kind *steps;           /* Owned. */
    thread_name *threads;       /* Owned. */
    plait_explained *explained; /* Owned. [plan] */
    /* [plan][group or command] row, Owned; segments of a plan have rows of their own, for devices that tell no more. */
    uint32_t **group_rows, **step_rows;
    size_t n_kinds, kind_capacity, n_threads, thread_capacity, row_capacity, stranger_capacity;
} comparer;

#define NO_ROW UINT32_MAX /* and the most rows there may be */

/* ---- reading events ---- */

/* "" where the key is missing or no text, so nobody need ask before comparing. */
static const char *text_of(const plait_json *object, const char *key) {
    const plait_json *value = plait_json_get(object, key);
    return value && value->kind == PLAIT_JSON_STRING ? value->u.string.bytes : "";
}

static bool is(const plait_json *event, const char *key, const char *text) {
    return strcmp(text_of(event, key), text) == 0;
}

/* False for numbers with a fraction as well. */
static bool integer_of(const plait_json *object, const char *key, int64_t *out) {
    const plait_json *value = plait_json_get(object, key);
    if (!value || value->kind != PLAIT_JSON_INTEGER) return false;
    *out = value->u.integer;
    return true;
}

/* Length of a span in nanoseconds; negative: there is none, or none that can be. */
static double length_of(const plait_json *event) {
    const plait_json *value = plait_json_get(event, "dur");
    double us = -1;
    if (value && value->kind == PLAIT_JSON_INTEGER) us = (double)value->u.integer;
    if (value && value->kind == PLAIT_JSON_REAL) us = value->u.real;
    return us >= 0 && us <= 1e15 ? 1000 * us : -1;
}

/* -1: a plan that is not among those compared, or none. */
static int plan_of(const comparer *c, const plait_json *event) {
    const char *name = text_of(plait_json_get(event, "args"), "plan");
    for (int p = 0; p < c->out->n_plans; p++)
        if (strcmp(c->out->plans[p]->name, name) == 0) return p;
    return -1;
}

/* ---- names of threads ---- */

/* By a walk: a trace has a few queues. thread -1 stands for the process as a whole. */
static plait_status thread_at(comparer *c, int64_t process, int64_t thread, thread_name **out) {
    for (size_t i = 0; i < c->n_threads; i++)
        if (c->threads[i].process == process && c->threads[i].thread == thread)
            return *out = &c->threads[i], PLAIT_OK;
    PLAIT_TRY(plait_grow(&c->threads, &c->thread_capacity, c->n_threads + 1, sizeof *c->threads,
                         MOST_PROCESSES, "trace: threads"));
    *out = &c->threads[c->n_threads++];
    **out = (thread_name){
        .process = process, .thread = thread, .process_name = "", .thread_name = "", .queue = -1};
    return PLAIT_OK;
}

/* -1 where the devices are called otherwise: then the trace is of other devices. */
static int64_t queue_named(const comparer *c, const char *device, const char *queue) {
    const plait_plan *plan = c->out->plans[0];
    for (uint32_t q = 0; q < c->out->n_queues; q++) {
        const plait_context_entry *entry = &c->context->devices[q / PLAIT_DEVICE_QUEUES];
        if ((int)(q % PLAIT_DEVICE_QUEUES) < entry->n_queues && strcmp(entry->device->name, device) == 0 &&
            strcmp(plait_explain_queue(plan, q), queue) == 0)
            return q;
    }
    return -1;
}

/* Names may come in any order, and after spans; so they are read before anything else, and the process's name is handed
 * to its threads at the end. */
static plait_status read_threads(comparer *c) {
    thread_name *at;
    for (size_t i = 0; i < c->n_events; i++) {
        const plait_json *event = &c->events[i];
        int64_t process, thread;
        bool names_thread = is(event, "name", "thread_name");
        if (!is(event, "ph", "M") || (!names_thread && !is(event, "name", "process_name"))) continue;
        if (!integer_of(event, "pid", &process) || !integer_of(event, "tid", &thread)) continue;
        PLAIT_TRY(thread_at(c, process, names_thread ? thread : -1, &at));
        const char *name = text_of(plait_json_get(event, "args"), "name");
        if (names_thread)
            at->thread_name = name;
        else
            at->process_name = name;
    }
    /* The name of a process stands under its number with thread -1. */
    for (size_t i = 0; i < c->n_threads; i++) {
        thread_name *thread = &c->threads[i];
        for (size_t k = 0; k < c->n_threads; k++)
            if (c->threads[k].process == thread->process && c->threads[k].thread == -1)
                thread->process_name = c->threads[k].process_name;
        thread->queue = queue_named(c, thread->process_name, thread->thread_name);
    }
    return PLAIT_OK;
}

/* Somebody without names for what the trace never named: its spans become strangers. */
static const thread_name *thread_of(const comparer *c, const plait_json *event) {
    static const thread_name nobody = {.process_name = "", .thread_name = "", .queue = -1};
    int64_t process, thread;
    if (!integer_of(event, "pid", &process) || !integer_of(event, "tid", &thread)) return &nobody;
    for (size_t i = 0; i < c->n_threads; i++)
        if (c->threads[i].process == process && c->threads[i].thread == thread) return &c->threads[i];
    return &nobody;
}

/* ---- rows ---- */

/* Under the key at hand; the map keeps no copy of its own, so the arena does. */
static plait_status put(comparer *c, plait_map *map, uint32_t value) {
    PLAIT_TRY(plait_strbuf_status(&c->key));
    char *kept = plait_arena_string_n(&c->out->arena, plait_strbuf_text(&c->key), c->key.length);
    if (!kept) return plait_error_memory("comparison", c->key.length);
    return plait_map_put(map, kept, c->key.length, value, NULL);
}

static bool find(const comparer *c, const plait_map *map, uint32_t *out) {
    return plait_map_get(map, plait_strbuf_text(&c->key), c->key.length, out);
}

/* Plan and queue are part of the key: the same name on another queue is another row. */
static void set_key(comparer *c, int plan, uint32_t queue, const char *name) {
    plait_strbuf_clear(&c->key);
    plait_strbuf_printf(&c->key, "%d %u %s", plan, queue, name);
}

/* The row of a name: that of the same name in other blocks, if there is one. */
static plait_status merged_row(comparer *c, int plan, uint32_t queue, const char *name, int32_t block,
                               uint32_t *out) {
    plait_comparison *x = c->out;
    plait_strbuf general;
    size_t digits;
    /* "blk.3.ffn" and "blk.4.ffn" are both "blk.*.ffn". */
    const char *at = plait_explain_block(name, block, &digits);
    plait_strbuf_init(&general, 0);
    if (at) {
        plait_strbuf_append_n(&general, name, (size_t)(at - name));
        plait_strbuf_append_char(&general, '*');
        plait_strbuf_append(&general, at + digits);
    } else {
        plait_strbuf_append(&general, name);
    }
    set_key(c, plan, queue, plait_strbuf_text(&general));
    plait_strbuf_inherit(&c->key, &general);
    plait_status status = plait_strbuf_status(&c->key);
    /* A row that is new gets its name first, then its place in the map, then the table: what fails on the way leaves a
     * table that is whole. */
    if (status == PLAIT_OK && !find(c, &c->merged, out)) {
        status = plait_grow(&x->rows, &c->row_capacity, x->n_rows + 1, sizeof *x->rows, NO_ROW, "comparison");
        const char *kept = plait_arena_string(&x->arena, plait_strbuf_text(&general));
        if (status == PLAIT_OK && !kept) status = plait_error_memory("comparison", general.length);
        if (status == PLAIT_OK) status = put(c, &c->merged, (uint32_t)x->n_rows);
        if (status == PLAIT_OK) {
            *out = (uint32_t)x->n_rows;
            x->rows[x->n_rows++] = (plait_compared_row){.name = kept, .plan = plan, .queue = queue};
        }
    }
    plait_strbuf_deinit(&general);
    return status;
}

/* Exact names lead to rows too, so a span is looked up as it stands in the trace, without taking it apart. */
static plait_status add_name(comparer *c, int plan, uint32_t queue, const char *name, int32_t block,
                             uint32_t *out) {
    PLAIT_TRY(merged_row(c, plan, queue, name, block, out));
    set_key(c, plan, queue, name);
    return put(c, &c->exact, *out);
}

/* By the first member's block, as the plan's own text names groups. */
static plait_status add_group(comparer *c, int p, uint32_t g, plait_strbuf *name) {
    const plait_plan *plan = c->out->plans[p];
    const plait_explained_group *row = &c->explained[p].groups[g];
    const plait_plan_segment *segment = &plan->segments[row->segment];
    const plait_group *group = &segment->prepared.groups[row->group];
    const plait_segment_node *first = &segment->nodes[segment->prepared.order[group->first]];
    plait_strbuf_clear(name);
    plait_plan_print_members(segment, group, name);
    PLAIT_TRY(plait_strbuf_status(name));
    return add_name(c, p, plan->steps[row->step].queue, plait_strbuf_text(name),
                    plan->graph->nodes[first->node].block, &c->group_rows[p][g]);
}

/* A launch is known by its segment, for devices that report no groups; all else by what it moves. */
static plait_status add_step(comparer *c, int p, uint32_t s, plait_strbuf *name) {
    const plait_plan *plan = c->out->plans[p];
    const plait_plan_step *step = &plan->steps[s];
    int32_t block = -1;
    plait_strbuf_clear(name);
    if (step->kind == PLAIT_STEP_LAUNCH) {
        plait_strbuf_printf(name, "segment %u", step->item);
    } else {
        plait_explain_subject(plan, s, &block);
        plait_explain_step(plan, s, name);
    }
    PLAIT_TRY(plait_strbuf_status(name));
    return add_name(c, p, step->queue, plait_strbuf_text(name), block, &c->step_rows[p][s]);
}

/* Rows are all made from the plans, before a span is read: a trace can add strangers, never rows. */
static plait_status add_plan(comparer *c, int p, plait_strbuf *name) {
    const plait_plan *plan = c->out->plans[p];
    plait_explained *e = &c->explained[p];
    PLAIT_TRY(plait_explain(e, plan));
    if (!e->timed) return plait_error(PLAIT_WRONG_STATE, "comparison: figures of the devices are not known");
    c->group_rows[p] = plait_arena_alloc(&c->out->arena, e->n_groups, sizeof **c->group_rows);
    c->step_rows[p] = plait_arena_alloc(&c->out->arena, plan->n_steps, sizeof **c->step_rows);
    if (!c->group_rows[p] || !c->step_rows[p]) return plait_error_memory("comparison", e->n_groups);
    for (uint32_t g = 0; g < e->n_groups; g++) PLAIT_TRY(add_group(c, p, g, name));
    for (uint32_t s = 0; s < plan->n_steps; s++) PLAIT_TRY(add_step(c, p, s, name));
    return PLAIT_OK;
}

static plait_status add_plans(comparer *c) {
    plait_strbuf name;
    plait_status status = PLAIT_OK;
    plait_strbuf_init(&name, 0);
    for (int p = 0; status == PLAIT_OK && p < c->out->n_plans; p++) status = add_plan(c, p, &name);
    plait_strbuf_deinit(&name);
    return status;
}

/* ---- steps ---- */

/* False when a dim is missing or out of its bounds. */
static bool read_dims(const plait_plan *plan, const plait_json *event, int64_t *dims) {
    const plait_json *said = plait_json_get(plait_json_get(event, "args"), "dims");
    for (size_t d = 0; d < plan->graph->n_dims; d++)
        if (!integer_of(said, plan->graph->dims[d].name, &dims[d]) || dims[d] < 0 ||
            dims[d] > plan->bounds[d])
            return false;
    return true;
}

/* Rounded up to whole pages, so that steps of growing text are a few kinds, not each its own. */
static int64_t read_keys(const plait_json *event) {
    int64_t keys;
    if (!integer_of(plait_json_get(event, "args"), "keys", &keys) || keys <= 0 || keys > INT32_MAX) return 0;
    return (keys + PLAIT_MODEL_PAGE_LEN - 1) / PLAIT_MODEL_PAGE_LEN * PLAIT_MODEL_PAGE_LEN;
}

/* Steps of the same dims and keys are predicted once, times how often they came. Steps that no plan can have made are
 * passed over, they predict nothing. */
static plait_status count_step(comparer *c, const plait_json *event) {
    int p = plan_of(c, event);
    uint32_t at;
    if (p < 0) return PLAIT_OK;
    size_t n = c->out->plans[p]->graph->n_dims;
    int64_t *dims = plait_arena_alloc(&c->out->arena, n, sizeof *dims);
    if (!dims) return plait_error_memory("comparison", n);
    if (!read_dims(c->out->plans[p], event, dims)) return PLAIT_OK;
    int64_t keys = read_keys(event);
    c->out->n_steps[p]++;
    plait_strbuf_clear(&c->key);
    plait_strbuf_printf(&c->key, "%d ", p);
    /* Keys are bytes, not text: the numbers go in as they lie. */
    plait_strbuf_append_n(&c->key, dims, n * sizeof *dims);
    plait_strbuf_append_n(&c->key, &keys, sizeof keys);
    PLAIT_TRY(plait_strbuf_status(&c->key));
    if (find(c, &c->kinds, &at)) {
        c->steps[at].n++;
        return PLAIT_OK;
    }
    PLAIT_TRY(plait_grow(&c->steps, &c->kind_capacity, c->n_kinds + 1, sizeof *c->steps, MOST_KINDS,
                         "trace: steps of different dims"));
    PLAIT_TRY(put(c, &c->kinds, (uint32_t)c->n_kinds));
    c->steps[c->n_kinds++] = (step_kind){p, dims, keys, 1};
    return PLAIT_OK;
}

static void add_prediction(plait_compared_row *row, plait_forecast_span span, double n) {
    row->predicted_ns += n * (span.end_ns - span.begin_ns);
    row->n_predicted += (uint64_t)n;
}

/* Memory of a forecast is given back at once; there may be thousands of kinds. */
static plait_status predict(comparer *c, const step_kind *kind) {
    const plait_plan *plan = c->out->plans[kind->plan];
    const plait_explained *e = &c->explained[kind->plan];
    plait_forecast forecast;
    plait_arena arena;
    plait_arena_init(&arena, 0);
    plait_status status = plait_forecast_make(e, kind->dims, (double)kind->keys, &arena, &forecast);
    if (status == PLAIT_OK) {
        for (uint32_t g = 0; g < e->n_groups; g++)
            add_prediction(&c->out->rows[c->group_rows[kind->plan][g]], forecast.groups[g], (double)kind->n);
        for (uint32_t s = 0; s < plan->n_steps; s++)
            add_prediction(&c->out->rows[c->step_rows[kind->plan][s]], forecast.steps[s], (double)kind->n);
        for (uint32_t q = 0; q < plan->n_queues; q++)
            c->out->queues[q].predicted_ns += (double)kind->n * forecast.busy_ns[q];
    }
    plait_arena_deinit(&arena);
    return status;
}

/* All steps are counted before the first is predicted. */
static plait_status read_steps(comparer *c) {
    for (size_t i = 0; i < c->n_events; i++)
        if (is(&c->events[i], "ph", "X") && is(&c->events[i], "cat", "step"))
            PLAIT_TRY(count_step(c, &c->events[i]));
    for (size_t k = 0; k < c->n_kinds; k++) PLAIT_TRY(predict(c, &c->steps[k]));
    return PLAIT_OK;
}

/* ---- spans ---- */

/* Added up by all that names it. The names are copied, the text of the trace is gone when the result is read. */
static plait_status add_stranger(comparer *c, const plait_json *event, const thread_name *thread, double ns) {
    plait_comparison *x = c->out;
    const char *plan = text_of(plait_json_get(event, "args"), "plan"), *name = text_of(event, "name");
    uint32_t at;
    plait_strbuf_clear(&c->key);
    plait_strbuf_printf(&c->key, "%s\n%s\n%s\n%s", plan, thread->process_name, thread->thread_name, name);
    PLAIT_TRY(plait_strbuf_status(&c->key));
    if (!find(c, &c->unknown, &at)) {
        PLAIT_TRY(plait_grow(&x->strangers, &c->stranger_capacity, x->n_strangers + 1, sizeof *x->strangers,
                             MOST_STRANGERS, "trace: names"));
        at = (uint32_t)x->n_strangers;
        PLAIT_TRY(put(c, &c->unknown, at));
        plait_compared_stranger *row = &x->strangers[at];
        *row = (plait_compared_stranger){plait_arena_string(&x->arena, plan),
                                         plait_arena_string(&x->arena, thread->process_name),
                                         plait_arena_string(&x->arena, thread->thread_name),
                                         plait_arena_string(&x->arena, name),
                                         0,
                                         0};
        if (!row->plan || !row->device || !row->queue || !row->name)
            return plait_error_memory("comparison", c->key.length);
        x->n_strangers++;
    }
    x->strangers[at].n++;
    x->strangers[at].measured_ns += ns;
    return PLAIT_OK;
}

/* Waits belong to a queue, not to a plan. Categories that are not ours (arrows, host) are passed over; a length that
 * cannot be is no span. */
static plait_status add_span(comparer *c, const plait_json *event) {
    const thread_name *thread = thread_of(c, event);
    double ns = length_of(event);
    int plan = plan_of(c, event);
    uint32_t at;
    if (ns < 0) return PLAIT_OK;
    if (is(event, "cat", "wait")) {
        if (thread->queue >= 0) c->out->queues[thread->queue].wait_ns += ns;
        return PLAIT_OK;
    }
    if (!is(event, "cat", "group") && !is(event, "cat", "segment") && !is(event, "cat", "transfer"))
        return PLAIT_OK;
    c->out->n_spans++;
    if (plan >= 0 && thread->queue >= 0) {
        set_key(c, plan, (uint32_t)thread->queue, text_of(event, "name"));
        PLAIT_TRY(plait_strbuf_status(&c->key));
    }
    if (plan < 0 || thread->queue < 0 || !find(c, &c->exact, &at)) return add_stranger(c, event, thread, ns);
    c->out->n_known++;
    c->out->rows[at].n_measured++;
    c->out->rows[at].measured_ns += ns;
    c->out->queues[thread->queue].measured_ns += ns;
    return PLAIT_OK;
}

/* A trace none of whose spans is known is refused: a table of differences to nothing would look like an answer. */
static plait_status read_spans(comparer *c) {
    for (size_t i = 0; i < c->n_events; i++)
        if (is(&c->events[i], "ph", "X")) PLAIT_TRY(add_span(c, &c->events[i]));
    if (c->out->n_known == 0)
        return plait_error(PLAIT_NOT_FOUND,
                           "trace: none of its %llu spans has a name of these plans; it is of another model, "
                           "other devices or other options",
                           (unsigned long long)c->out->n_spans);
    return PLAIT_OK;
}

/* ---- the result ---- */

/* A launch is told by groups or as a whole: the rows of the other kind are nobody's. Launches that were not measured as
 * a whole keep their groups; what neither side has is dropped. */
static void drop_doubles(comparer *c) {
    for (int p = 0; p < c->out->n_plans; p++) {
        const plait_explained *e = &c->explained[p];
        for (uint32_t g = 0; g < e->n_groups; g++) {
            plait_compared_row *group = &c->out->rows[c->group_rows[p][g]];
            plait_compared_row *whole = &c->out->rows[c->step_rows[p][e->groups[g].step]];
            /* Measured as a whole: the groups' predictions would stand beside nothing. */
            if (whole->n_measured && !group->n_measured) *group = (plait_compared_row){.name = group->name};
            /* And a whole that was measured by its groups would count twice. */
            if (!whole->n_measured) whole->n_predicted = 0;
        }
    }
    size_t n = 0;
    for (size_t i = 0; i < c->out->n_rows; i++)
        if (c->out->rows[i].n_predicted || c->out->rows[i].n_measured) c->out->rows[n++] = c->out->rows[i];
    c->out->n_rows = n;
}

/* In time, not in parts: what matters is where time goes. */
static double difference(const plait_compared_row *row) {
    double ns = row->measured_ns - row->predicted_ns;
    return ns < 0 ? -ns : ns;
}

/* Ties by plan, queue and name, so that the order is one. */
static int by_difference(const void *a, const void *b) {
    const plait_compared_row *x = a, *y = b;
    double dx = difference(x), dy = difference(y);
    if (dx != dy) return dx > dy ? -1 : 1;
    if (x->plan != y->plan) return x->plan - y->plan;
    return x->queue != y->queue ? (x->queue < y->queue ? -1 : 1) : strcmp(x->name, y->name);
}

static int by_time(const void *a, const void *b) {
    const plait_compared_stranger *x = a, *y = b;
    if (x->measured_ns != y->measured_ns) return x->measured_ns > y->measured_ns ? -1 : 1;
    return strcmp(x->name, y->name);
}

/* As JSON first: a broken text is told with its place. */
static plait_status read_text(comparer *c, const char *text, size_t n_bytes) {
    PLAIT_TRY(plait_error_context(plait_json_parse(&c->document, text, n_bytes, NULL), "trace"));
    const plait_json *events = plait_json_get(c->document.root, "traceEvents");
    if (!events || events->kind != PLAIT_JSON_ARRAY)
        return plait_error(PLAIT_CORRUPT, "trace: no list \"traceEvents\" in it");
    c->events = events->u.array.items;
    c->n_events = events->u.array.n_items;
    return PLAIT_OK;
}

/* Threads before plans, since queues are found by the first plan's names; steps before spans, because without steps
 * nothing is predicted. */
static plait_status compare(comparer *c, const char *text, size_t n_bytes) {
    plait_comparison *x = c->out;
    size_t n = (size_t)x->n_plans;
    x->n_queues = (size_t)c->context->n_devices * PLAIT_DEVICE_QUEUES;
    x->n_steps = plait_arena_alloc(&x->arena, n, sizeof *x->n_steps);
    x->queues = plait_arena_alloc(&x->arena, x->n_queues, sizeof *x->queues);
    c->explained = plait_arena_alloc(&x->arena, n, sizeof *c->explained);
    c->group_rows = plait_arena_alloc(&x->arena, n, sizeof *c->group_rows);
    c->step_rows = plait_arena_alloc(&x->arena, n, sizeof *c->step_rows);
    if (!x->n_steps || !x->queues || !c->explained || !c->group_rows || !c->step_rows)
        return plait_error_memory("comparison", n);
    PLAIT_TRY(read_text(c, text, n_bytes));
    PLAIT_TRY(read_threads(c));
    PLAIT_TRY(add_plans(c));
    PLAIT_TRY(read_steps(c));
    PLAIT_TRY(read_spans(c));
    drop_doubles(c);
    if (x->n_rows) qsort(x->rows, x->n_rows, sizeof *x->rows, by_difference);
    if (x->n_strangers) qsort(x->strangers, x->n_strangers, sizeof *x->strangers, by_time);
    return PLAIT_OK;
}

/* The JSON document lives until the end: names point into it. */
plait_status plait_compare(plait_comparison *out, const plait_plan *const *plans, int n_plans,
                           const char *text, size_t n_bytes) {
    *out = (plait_comparison){.plans = plans, .n_plans = n_plans};
    if (n_plans < 1) return plait_error(PLAIT_INVALID_ARGUMENT, "comparison: %d plans", n_plans);
    comparer c = {.out = out, .context = plans[0]->context};
    plait_map *const maps[] = {&c.exact, &c.merged, &c.unknown, &c.kinds};
    plait_arena_init(&out->arena, 0);
    plait_strbuf_init(&c.key, 0);
    for (size_t i = 0; i < PLAIT_COUNT_OF(maps); i++) plait_map_init(maps[i]);
    plait_status status = compare(&c, text, n_bytes);
    for (int p = 0; c.explained && p < n_plans; p++) plait_explained_deinit(&c.explained[p]);
    for (size_t i = 0; i < PLAIT_COUNT_OF(maps); i++) plait_map_deinit(maps[i]);
    plait_strbuf_deinit(&c.key);
    plait_json_document_deinit(&c.document);
    free(c.steps);
    free(c.threads);
    if (status != PLAIT_OK) plait_comparison_deinit(out);
    return status;
}

void plait_comparison_deinit(plait_comparison *comparison) {
    free(comparison->rows);
    free(comparison->strangers);
    plait_arena_deinit(&comparison->arena);
    *comparison = (plait_comparison){0};
}
