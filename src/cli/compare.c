/* plait plan --compare: what a trace says beside what was predicted, as text and as JSON. Not here: the comparison
 * (model/compare.c), names of queues and forms of times (explain).
 *
 * Names come from files and go through plait_explain_clean, which leaves nothing that a terminal obeys. Times are in ns
 * in JSON.
 *
 * The two sides may not be of one machine: a trace of one computer beside the plan of another is allowed, and its
 * strangers are then what differs. Nothing here decides whether a difference matters; it is sorted by size and
 * shown. */
#include "cli/compare.h"

#include "base/status.h"

#include <stdlib.h>

/* Of each list in text; JSON has all. */
enum { MOST_LINES = 20, NAME_WIDTH = 40 };

/* Queues are numbered through all devices of the context, PLAIT_DEVICE_QUEUES for each. The numbering is that of plans,
 * so a queue of the trace has been found among the plans' before it gets a number. */
static const char *device_of(const plait_comparison *c, uint32_t queue) {
    return c->plans[0]->context->devices[queue / PLAIT_DEVICE_QUEUES].device->name;
}

/* Any of the plans knows the names: they have one context. */
static const char *queue_of(const plait_comparison *c, uint32_t queue) {
    return plait_explain_queue(c->plans[0], queue);
}

/* ---- text ---- */

/* Text to the right of what is there, at least `width` wide. `cell` is emptied; a failure in it moves to s. Going
 * through a second buffer lets every printer of a value write at any length, and the alignment be made in one place. */
static void add_cell(plait_strbuf *s, plait_strbuf *cell, int width, bool left) {
    /* In bytes: a name beyond ASCII only shifts its own line. */
    int n = (int)cell->length, pad = n < width ? width - n : 0;
    plait_strbuf_inherit(s, cell);
    plait_strbuf_printf(s, "%*s%s%*s", left ? 0 : pad, "", plait_strbuf_text(cell), left ? pad : 0, "");
    plait_strbuf_clear(cell);
}

/* Ten wide: the forms of plait_explain_time fit. */
static void add_time(plait_strbuf *s, plait_strbuf *cell, double ns) {
    plait_explain_time(cell, ns);
    add_cell(s, cell, 10, false);
}

/* Measured by predicted: above 1 the plan was too hopeful. "-" where one side has nothing. Two digits behind the point:
 * the spread of times from run to run is larger than more digits would tell. */
static void add_factor(plait_strbuf *s, plait_strbuf *cell, double measured_ns, double predicted_ns) {
    if (predicted_ns > 0 && measured_ns > 0)
        plait_strbuf_printf(cell, "%.2f", measured_ns / predicted_ns);
    else
        plait_strbuf_append(cell, "-");
    add_cell(s, cell, 9, false);
}

/* A trace of another model would compare nonsense without a sign; unknown names are that sign. */
static void print_steps(const plait_comparison *c, plait_strbuf *s) {
    plait_strbuf_append(s, "steps:");
    for (int p = 0; p < c->n_plans; p++) {
        plait_strbuf_append(s, p ? ", " : " ");
        plait_explain_clean(s, c->plans[p]->name);
        plait_strbuf_printf(s, " %llu", (unsigned long long)c->n_steps[p]);
    }
    plait_strbuf_append_char(s, '\n');
    if (c->n_known < c->n_spans)
        plait_strbuf_printf(s,
                            "%llu of %llu spans have names that these plans have not: another model, other "
                            "devices or other options?\n",
                            (unsigned long long)(c->n_spans - c->n_known), (unsigned long long)c->n_spans);
}

/* Queues that nothing happened on are left out. Waits are what a queue stood still for another one; the plan has no
 * such figure, so they stand alone. */
static void print_queues(const plait_comparison *c, plait_strbuf *s) {
    plait_strbuf cell;
    plait_strbuf_init(&cell, 0);
    plait_strbuf_printf(s, "\n%-*s predicted  measured   factor     waits\n", NAME_WIDTH, "queue");
    for (uint32_t q = 0; q < c->n_queues; q++) {
        const plait_compared_queue *row = &c->queues[q];
        if (row->predicted_ns <= 0 && row->measured_ns <= 0 && row->wait_ns <= 0) continue;
        plait_strbuf_printf(&cell, "%s of %s", queue_of(c, q), device_of(c, q));
        add_cell(s, &cell, NAME_WIDTH, true);
        add_time(s, &cell, row->predicted_ns);
        add_time(s, &cell, row->measured_ns);
        add_factor(s, &cell, row->measured_ns, row->predicted_ns);
        add_time(s, &cell, row->wait_ns);
        plait_strbuf_append_char(s, '\n');
    }
    plait_strbuf_deinit(&cell);
}

/* One buffer serves all cells of a row. */
static void print_row(const plait_comparison *c, const plait_compared_row *row, plait_strbuf *s) {
    plait_strbuf cell;
    plait_strbuf_init(&cell, 0);
    plait_explain_clean(&cell, row->name);
    add_cell(s, &cell, NAME_WIDTH, true);
    add_time(s, &cell, row->predicted_ns);
    add_time(s, &cell, row->measured_ns);
    add_factor(s, &cell, row->measured_ns, row->predicted_ns);
    plait_strbuf_printf(&cell, "%llu", (unsigned long long)row->n_measured);
    add_cell(s, &cell, 8, false);
    plait_strbuf_printf(s, "  %s of %s, ", queue_of(c, row->queue), device_of(c, row->queue));
    plait_explain_clean(s, c->plans[row->plan]->name);
    plait_strbuf_append_char(s, '\n');
    plait_strbuf_deinit(&cell);
}

/* Rows come in order of their difference. */
static void print_differences(const plait_comparison *c, plait_strbuf *s) {
    size_t n = 0, rest = 0;
    plait_strbuf_printf(s, "\n%-*s predicted  measured   factor   times  where\n", NAME_WIDTH,
                        "largest differences");
    for (size_t i = 0; i < c->n_rows; i++) {
        /* What has only one side is no difference; print_missing has it. */
        if (!c->rows[i].n_measured || !c->rows[i].n_predicted) continue;
        if (n++ < MOST_LINES)
            print_row(c, &c->rows[i], s);
        else
            rest++;
    }
    if (rest) plait_strbuf_printf(s, "and %zu smaller ones (--json has all)\n", rest);
}

/* What only one side has: nodes that never ran, and spans that no plan knows. Nodes that never ran are often those of a
 * plan that was not asked for, as the logits while greedy text is made; they are shown all the same, since the other
 * reason is a trace of another model. */
static void print_missing(const plait_comparison *c, plait_strbuf *s) {
    size_t n = 0;
    for (size_t i = 0; i < c->n_rows; i++) {
        const plait_compared_row *row = &c->rows[i];
        if (row->n_measured) continue;
        if (n == 0) plait_strbuf_append(s, "\nin the plan, not in the trace:\n");
        /* Counted on for the last line. */
        if (n++ >= MOST_LINES) continue;
        plait_strbuf_append(s, "  ");
        plait_explain_clean(s, row->name);
        plait_strbuf_printf(s, " on %s of %s\n", queue_of(c, row->queue), device_of(c, row->queue));
    }
    if (n > MOST_LINES) plait_strbuf_printf(s, "  and %zu more\n", n - MOST_LINES);
    for (size_t i = 0; i < c->n_strangers && i < MOST_LINES; i++) {
        const plait_compared_stranger *row = &c->strangers[i];
        if (i == 0) plait_strbuf_append(s, "\nin the trace, not in the plan:\n");
        plait_strbuf_append(s, "  ");
        plait_explain_clean(s, row->name);
        plait_strbuf_append(s, " on ");
        plait_explain_clean(s, row->queue);
        plait_strbuf_append(s, " of ");
        plait_explain_clean(s, row->device);
        plait_strbuf_append(s, ", ");
        plait_explain_clean(s, row->plan);
        plait_strbuf_printf(s, ": %llu times, ", (unsigned long long)row->n);
        plait_explain_time(s, row->measured_ns);
        plait_strbuf_append_char(s, '\n');
    }
    if (c->n_strangers > MOST_LINES) plait_strbuf_printf(s, "  and %zu more\n", c->n_strangers - MOST_LINES);
}

/* ---- JSON ---- */

/* Names of queues are the program's own and need no escaping. */
static void json_place(const plait_comparison *c, uint32_t queue, plait_strbuf *s) {
    plait_strbuf_append(s, "\"device\":");
    plait_strbuf_json_string(s, device_of(c, queue));
    plait_strbuf_printf(s, ",\"queue\":\"%s\"", queue_of(c, queue));
}

/* Totals and not means: whoever reads them divides by the counts, and can add rows up. */
static void json_row(const plait_comparison *c, const plait_compared_row *row, plait_strbuf *s) {
    plait_strbuf_append(s, "{\"name\":");
    plait_strbuf_json_string(s, row->name);
    plait_strbuf_append(s, ",\"plan\":");
    plait_strbuf_json_string(s, c->plans[row->plan]->name);
    plait_strbuf_append_char(s, ',');
    json_place(c, row->queue, s);
    plait_strbuf_printf(s,
                        ",\"predicted\":%llu,\"measured\":%llu,\"predicted_ns\":%.0f,\"measured_ns\":%.0f}",
                        (unsigned long long)row->n_predicted, (unsigned long long)row->n_measured,
                        row->predicted_ns, row->measured_ns);
}

/* The same queues are left out as in the text, so that both say the same. */
static void json_queues(const plait_comparison *c, plait_strbuf *s) {
    bool any = false;
    plait_strbuf_append(s, ",\n\"queues\":[");
    for (uint32_t q = 0; q < c->n_queues; q++) {
        const plait_compared_queue *row = &c->queues[q];
        if (row->predicted_ns <= 0 && row->measured_ns <= 0 && row->wait_ns <= 0) continue;
        plait_strbuf_append(s, any ? ",{" : "{");
        json_place(c, q, s);
        plait_strbuf_printf(s, ",\"predicted_ns\":%.0f,\"measured_ns\":%.0f,\"wait_ns\":%.0f}",
                            row->predicted_ns, row->measured_ns, row->wait_ns);
        any = true;
    }
    plait_strbuf_append_char(s, ']');
}

static void json_strangers(const plait_comparison *c, plait_strbuf *s) {
    plait_strbuf_append(s, ",\n\"only_in_trace\":[");
    for (size_t i = 0; i < c->n_strangers; i++) {
        const plait_compared_stranger *row = &c->strangers[i];
        /* All four come from the trace and are escaped. */
        const char *const texts[][2] = {{"{\"name\":", row->name},
                                        {",\"plan\":", row->plan},
                                        {",\"device\":", row->device},
                                        {",\"queue\":", row->queue}};
        if (i) plait_strbuf_append(s, ",\n");
        for (size_t k = 0; k < sizeof texts / sizeof *texts; k++) {
            plait_strbuf_append(s, texts[k][0]);
            plait_strbuf_json_string(s, texts[k][1]);
        }
        plait_strbuf_printf(s, ",\"measured\":%llu,\"measured_ns\":%.0f}", (unsigned long long)row->n,
                            row->measured_ns);
    }
    plait_strbuf_append_char(s, ']');
}

/* The form is documented in the help of plan and in docs/command-line.md. */
static void print_json(const plait_comparison *c, plait_strbuf *s) {
    plait_strbuf_append(s, "{\"steps\":{");
    for (int p = 0; p < c->n_plans; p++) {
        plait_strbuf_append(s, p ? "," : "");
        plait_strbuf_json_string(s, c->plans[p]->name);
        plait_strbuf_printf(s, ":%llu", (unsigned long long)c->n_steps[p]);
    }
    plait_strbuf_printf(s, "},\"spans\":%llu,\"known_spans\":%llu", (unsigned long long)c->n_spans,
                        (unsigned long long)c->n_known);
    json_queues(c, s);
    plait_strbuf_append(s, ",\n\"names\":[");
    for (size_t i = 0; i < c->n_rows; i++) {
        if (i) plait_strbuf_append(s, ",\n");
        json_row(c, &c->rows[i], s);
    }
    plait_strbuf_append_char(s, ']');
    json_strangers(c, s);
    plait_strbuf_append(s, "}\n");
}

/* The text of the trace is freed before anything is printed; the comparison has copies of the names. */
plait_status plait_cli_compare(const plait_plan *const *plans, int n_plans, const char *path, bool json,
                               plait_strbuf *out) {
    plait_comparison comparison;
    char *text = NULL;
    size_t n_bytes;
    PLAIT_TRY(plait_error_context(plait_cli_read_file(path, &text, &n_bytes), "--compare"));
    plait_status status =
        plait_error_context(plait_compare(&comparison, plans, n_plans, text, n_bytes), "--compare %s", path);
    free(text);
    PLAIT_TRY(status);
    if (json) {
        print_json(&comparison, out);
    } else {
        print_steps(&comparison, out);
        print_queues(&comparison, out);
        print_differences(&comparison, out);
        print_missing(&comparison, out);
    }
    plait_comparison_deinit(&comparison);
    return plait_strbuf_status(out);
}
