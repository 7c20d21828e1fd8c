/* Plans as a page: what runs where, when and why, with pictures of queues over predicted time (html_lanes.c) and of memory
 * (html_memory.c). The page stands alone (inline SVG, no scripts, no links) and follows the reader's preference for light or
 * dark. Invariant: only reads; every name is escaped. */
#include "plan/html.h"

#include "base/status.h"

#include <stdlib.h>
#include <string.h>

/* Colours are variables, so that light and dark are two lists of them. `fine` drawings have many boxes: thinner lines
 * there. */
static const char style[] =
    ":root{--bg:#fbfbf9;--fg:#23272b;--soft:#6b737b;--line:#dcdcd6;--card:#ffffff;--made:#4f83b8;"
    "--made2:#77a3cf;--came:#8d6bb5;--out:#4d9a68;--scratch:#b9bdc2;--live:#c4502f;--bound:#23272b;"
    "--product:#6f9fd0;--attention:#e0a04c;--other:#a9b3bb;--moved:#b79ad6;--idle:#d9d6cf;--arrow:#8a4fbf;"
    "--ink:#14181c}"
    "@media(prefers-color-scheme:dark){:root{--bg:#16191c;--fg:#e3e6e8;--soft:#98a1a9;--line:#33393f;"
    "--card:#1d2125;--made:#4678a8;--made2:#6593bd;--came:#8a6fb0;--out:#4f9467;--scratch:#59616a;"
    "--live:#ee8a63;--bound:#e3e6e8;--product:#4678a8;--attention:#a8722a;--other:#5c666f;--moved:#7a5ca3;"
    "--idle:#3a4046;--arrow:#c39be8;--ink:#f2f4f6}}"
    "body{background:var(--bg);color:var(--fg);font:14px/1.45 system-ui,-apple-system,'Segoe UI',sans-serif;"
    "margin:0 auto;max-width:1040px;padding:24px}"
    "h1{font-size:22px;margin:0 0 4px}"
    "h2{font-size:18px;margin:36px 0 4px;padding-top:18px;border-top:1px solid var(--line)}"
    "h3{font-size:14px;margin:20px 0 6px}p{margin:4px 0 12px;color:var(--soft)}"
    ".cards{display:flex;flex-wrap:wrap;gap:8px;margin:12px 0}"
    ".card{background:var(--card);border:1px solid var(--line);border-radius:6px;padding:6px 12px}"
    ".card b{display:block;font-size:17px;font-weight:600}.card span{color:var(--soft);font-size:12px}"
    "table{border-collapse:collapse;width:100%;font-size:13px}"
    "th{text-align:left;color:var(--soft);font-weight:500;vertical-align:bottom}"
    "th,td{padding:3px 12px 3px 0;border-bottom:1px solid var(--line)}td{vertical-align:top}"
    "td.n,th.n{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}"
    "td.w{overflow-wrap:anywhere;min-width:150px}td.d{white-space:nowrap}"
    "td small{color:var(--soft);font-size:12px}.wide{overflow-x:auto}"
    "svg{display:block;width:100%;height:auto;background:var(--card);border:1px solid var(--line);"
    "border-radius:6px}"
    "svg text{fill:var(--soft);font-size:11px}svg text.in{fill:var(--ink);pointer-events:none}"
    "rect.v,rect.b{stroke:var(--card);stroke-width:.5}svg.fine rect{stroke:none}"
    "svg.fine .live{stroke-width:.6}svg.fine .arrow{stroke-width:.5;opacity:.6}"
    ".made{fill:var(--made)}.made2{fill:var(--made2)}.came{fill:var(--came)}.out{fill:var(--out)}"
    ".scratch{fill:var(--scratch)}.live{fill:none;stroke:var(--live);stroke-width:1.5}"
    ".product{fill:var(--product)}.attention{fill:var(--attention)}.other{fill:var(--other)}"
    ".moved{fill:var(--moved)}.idle{fill:var(--idle)}.mark{fill:var(--out)}"
    ".arrow{fill:none;stroke:var(--arrow);stroke-width:1}"
    ".bound{stroke:var(--bound);stroke-dasharray:5 4}.grid{stroke:var(--line)}"
    ".key{display:flex;flex-wrap:wrap;gap:14px;color:var(--soft);font-size:12px;margin:6px 0}"
    ".key i{display:inline-block;width:11px;height:11px;border-radius:2px;margin-right:5px;"
    "vertical-align:-1px}"
    "details{margin:8px 0}summary{cursor:pointer;font-weight:600}";

/* ---- text ---- */

/* Safe in text and in attributes with double quotes; there are no others. */
static void print_char(plait_strbuf *s, char c) {
    if (c == '&')
        plait_strbuf_append(s, "&amp;");
    else if (c == '<')
        plait_strbuf_append(s, "&lt;");
    else if (c == '>')
        plait_strbuf_append(s, "&gt;");
    else if (c == '"')
        plait_strbuf_append(s, "&quot;");
    else
        plait_explain_clean_char(s, c);
}

void plait_html_text(plait_strbuf *s, const char *text) {
    for (; *text; text++) print_char(s, *text);
}

/* Cuts between letters, never within one. */
void plait_html_short(plait_strbuf *s, const char *text, size_t most) {
    size_t n = 0, letters = 0;
    for (; text[n]; n++) letters += ((unsigned char)text[n] & 0xC0) != 0x80; /* UTF-8: letters, not bytes */
    bool cut = letters > most;
    letters = 0;
    for (size_t i = 0; i < n; i++) {
        letters += ((unsigned char)text[i] & 0xC0) != 0x80;
        if (cut && letters >= most) break;
        print_char(s, text[i]);
    }
    if (cut) plait_strbuf_append(s, "\xE2\x80\xA6");
}

/* Empty, not 0, where there is nothing: tables of many groups stay readable. */
static void print_cell(plait_strbuf *s, uint64_t size_bytes) {
    plait_strbuf_append(s, "<td class=n>");
    if (size_bytes) plait_strbuf_bytes(s, size_bytes);
    plait_strbuf_append(s, "</td>");
}

static void print_time_cell(plait_strbuf *s, const plait_forecast_span *span) {
    plait_strbuf_append(s, "<td class=n>");
    plait_explain_time(s, span->end_ns - span->begin_ns);
    plait_strbuf_append(s, "</td>");
}

static const char *device_name(const plait_plan *plan, int device) {
    return plan->context->devices[device].device->name;
}

/* One plan of the page. */
typedef struct page {
    plait_explained e;
    plait_forecast one, full;
    plait_strbuf *s;
} page;

/* ---- facts ---- */

/* `format` is one of this file's own, with one double. */
static void print_card(plait_strbuf *s, const char *what, const char *format, double value) {
    plait_strbuf_append(s, "<div class=card><b>");
    plait_strbuf_printf(s, format, value);
    plait_strbuf_printf(s, "</b><span>%s</span></div>", what);
}

static void print_byte_card(plait_strbuf *s, const char *what, uint64_t size_bytes) {
    plait_strbuf_append(s, "<div class=card><b>");
    plait_strbuf_bytes(s, size_bytes);
    plait_strbuf_printf(s, "</b><span>%s</span></div>", what);
}

static void print_time_card(plait_strbuf *s, const char *what, double ns) {
    plait_strbuf_append(s, "<div class=card><b>");
    plait_explain_time(s, ns);
    plait_strbuf_printf(s, "</b><span>%s</span></div>", what);
}

static void print_facts(const page *p) {
    const plait_plan *plan = p->e.plan;
    const plait_plan_facts *f = &plan->facts;
    plait_strbuf *s = p->s;
    plait_strbuf_append(s, "<p>Figures are those of one step with every dim at its bound");
    for (size_t d = 0; d < plan->graph->n_dims; d++) {
        plait_strbuf_append(s, d ? ", " : ": ");
        plait_html_text(s, plan->graph->dims[d].name);
        plait_strbuf_printf(s, " = %lld", (long long)plan->graph->dims[d].bound);
    }
    plait_strbuf_append(s, "; one item: every dim at 1.</p><div class=cards>");
    if (p->e.timed) {
        print_time_card(s, "predicted, one item", p->one.end_ns);
        print_time_card(s, "predicted, at the bounds", p->full.end_ns);
    }
    print_card(s, "nodes", "%.0f", f->n_nodes);
    print_card(s, "groups", "%.0f", f->n_groups);
    print_card(s, "segments", "%.0f", f->n_segments);
    print_card(s, "transfers", "%.0f", f->n_transfers);
    print_card(s, "GFLOP", "%.4g", f->flop / 1e9);
    print_byte_card(s, "of weights read", f->weight_bytes_read);
    print_byte_card(s, "between devices", f->transfer_bytes);
    print_byte_card(s, "largest arena", f->temporary_bytes);
    print_card(s, "ms to plan", "%.2f", (double)f->plan_ns / 1e6);
    print_card(s, "ms to prove", "%.2f", (double)f->verify_ns / 1e6);
    plait_strbuf_append(s, "</div>\n");
}

static void print_device(const page *p, int d) {
    const plait_plan *plan = p->e.plan;
    const plait_residence_device *r = &plan->residence->devices[d];
    double asked, held;
    int n_blocks;
    plait_strbuf_append(p->s, "<tr><td class=d>");
    plait_html_text(p->s, device_name(plan, d));
    plait_strbuf_append(p->s, "</td>");
    print_cell(p->s, r->private_bytes);
    print_cell(p->s, r->mapped_bytes);
    print_cell(p->s, r->state_bytes);
    print_cell(p->s, plan->devices[d].input_bytes);
    print_cell(p->s, plan->devices[d].arena_bytes);
    print_cell(p->s, plan->devices[d].bound_bytes);
    if (plan->context->n_devices == 1) {
        plait_strbuf_append(p->s, "</tr>\n");
        return;
    }
    plait_residence_shares(plan->residence, d, &asked, &held, &n_blocks);
    plait_strbuf_printf(p->s, "<td class=n>%d</td><td class=n>%.1f %%</td><td class=n>", n_blocks,
                        100 * held);
    if (asked >= 0) plait_strbuf_printf(p->s, "%.1f %%", 100 * asked);
    plait_strbuf_append(p->s, "</td></tr>\n");
}

static void print_devices(const page *p) {
    int n = p->e.plan->context->n_devices;
    plait_strbuf_printf(p->s,
                        "<h3>Devices</h3><div class=wide><table><tr><th>device<th class=n>own weights<th "
                        "class=n>weights in the file<th class=n>state<th class=n>inputs<th "
                        "class=n>temporaries<th class=n>bound%s</tr>\n",
                        n > 1 ? "<th class=n>blocks<th class=n>share<th class=n>asked" : "");
    for (int d = 0; d < n; d++) print_device(p, d);
    plait_strbuf_append(p->s, "</table></div>\n");
}

/* Queues that the plan uses, with the sum of their commands: beside the whole step's time that shows which one is the
 * bound. */
static void print_queues(const page *p) {
    const plait_plan *plan = p->e.plan;
    plait_strbuf_append(p->s, "<h3>Queues</h3><table><tr><th>queue<th class=n>commands");
    if (p->e.timed) plait_strbuf_append(p->s, "<th class=n>busy, one item<th class=n>busy, at the bounds");
    plait_strbuf_append(p->s, "</tr>\n");
    for (uint32_t q = 0; q < plan->n_queues; q++) {
        plait_forecast_span one = {0, p->one.busy_ns[q]}, full = {0, p->full.busy_ns[q]};
        if (!plan->queues[q].n_steps) continue;
        plait_strbuf_append(p->s, "<tr><td>");
        plait_html_text(p->s, device_name(plan, (int)(q / PLAIT_DEVICE_QUEUES)));
        plait_strbuf_printf(p->s, " %s</td><td class=n>%u</td>", plait_explain_queue(plan, q),
                            plan->queues[q].n_steps);
        if (p->e.timed) print_time_cell(p->s, &one), print_time_cell(p->s, &full);
        plait_strbuf_append(p->s, "</tr>\n");
    }
    plait_strbuf_append(p->s, "</table>\n");
}

/* ---- pictures ---- */

/* Both kinds of step: what bounds a prompt is seldom what bounds an answer. */
static void print_lanes(const page *p) {
    if (!p->e.timed) {
        plait_strbuf_append(p->s, "<p>Times are not predicted: the devices' figures are not known.</p>\n");
        return;
    }
    for (int k = 0; k < 2; k++) {
        plait_strbuf_append(p->s, k ? "<h3>A step at the bounds, predicted</h3>\n"
                                    : "<h3>A step of one item, predicted</h3>\n");
        plait_html_lanes(&p->e, k ? &p->full : &p->one, p->s);
    }
    plait_html_lanes_key(p->s);
}

/* With the times of the largest step below the positions. */
static plait_status print_memory(const page *p) {
    for (int d = 0; d < p->e.plan->context->n_devices; d++)
        PLAIT_TRY(plait_html_memory(&p->e, &p->full, d, p->s));
    plait_html_memory_key(p->s);
    return PLAIT_OK;
}

/* ---- work ---- */

static void print_step_name(const page *p, uint32_t step) {
    plait_strbuf name;
    plait_strbuf_init(&name, 0);
    plait_explain_step(p->e.plan, step, &name);
    plait_strbuf_inherit(p->s, &name);
    plait_html_text(p->s, plait_strbuf_text(&name));
    plait_strbuf_deinit(&name);
}

/* Waits of a launch are those of its first group's line. */
static void print_waits(const page *p, uint32_t s) {
    const plait_plan *plan = p->e.plan;
    const plait_plan_step *step = &plan->steps[s];
    for (uint32_t w = 0; w < step->n_waits; w++) {
        const plait_plan_wait *wait = &plan->waits[step->first_wait + w];
        plait_strbuf_append(p->s, w ? ", " : "<br><small>after ");
        print_step_name(p, wait->step);
        plait_strbuf_append(p->s, " on ");
        plait_html_text(p->s, device_name(plan, plan->steps[wait->step].device));
        if (wait->before) plait_strbuf_append(p->s, " in the step before");
    }
    if (step->n_waits) plait_strbuf_append(p->s, "</small>");
}

static void print_way(const page *p, uint32_t s) {
    const plait_plan *plan = p->e.plan;
    const plait_plan_step *step = &plan->steps[s];
    if (step->kind == PLAIT_STEP_WRITE_INPUT || step->kind == PLAIT_STEP_READ_OUTPUT) {
        plait_strbuf_append(p->s, step->kind == PLAIT_STEP_WRITE_INPUT ? "from the host" : "to the host");
        return;
    }
    const plait_plan_transfer *transfer = &plan->transfers[step->item];
    plait_html_text(p->s, device_name(plan, plan->values[transfer->source].device));
    plait_strbuf_append(p->s, " to ");
    plait_html_text(p->s, device_name(plan, plan->values[transfer->target].device));
    plait_strbuf_printf(p->s, ", %s", plait_explain_route(transfer->route));
}

/* One line of the table of work, in cursive: between groups, in the order of the list. */
static void print_move(const page *p, uint32_t s) {
    const plait_plan_step *step = &p->e.plan->steps[s];
    plait_strbuf_append(p->s, "<tr><td class=d>");
    plait_html_text(p->s, device_name(p->e.plan, step->device));
    plait_strbuf_printf(p->s, "<br><small>%s</small></td><td class=w><i>",
                        plait_explain_queue(p->e.plan, step->queue));
    print_step_name(p, s);
    plait_strbuf_append(p->s, "</i></td><td>");
    print_way(p, s);
    print_waits(p, s);
    plait_strbuf_append(p->s, "</td>");
    if (p->e.timed) print_time_cell(p->s, &p->one.steps[s]), print_time_cell(p->s, &p->full.steps[s]);
    print_cell(p->s, p->full.bytes[s]);
    plait_strbuf_append(p->s, "<td></td><td></td><td></td></tr>\n");
}

/* Other than in the text nothing is left out: here is room. */
static void print_alternatives(const page *p, const plait_plan_segment *segment, const plait_group *group) {
    const plait_plan *plan = p->e.plan;
    bool any = false;
    for (int d = 0; plan->weighed && d < plan->context->n_devices; d++) {
        double ns = 0;
        const char *reason = "";
        if (d == segment->device) continue;
        bool runs = plait_explain_alternative(plan, segment, group, d, &ns, &reason);
        plait_strbuf_append(p->s, any ? "; " : "<br><small>");
        plait_html_text(p->s, device_name(plan, d));
        plait_strbuf_append(p->s, ": ");
        if (runs)
            plait_explain_elsewhere(p->s, plan, segment, group, ns);
        else
            plait_html_text(p->s, reason);
        any = true;
    }
    if (any) plait_strbuf_append(p->s, "</small>");
}

/* A line of the table of work; the group's waits are the launch's, so its first group shows them. */
static void print_group(const page *p, uint32_t g) {
    const plait_plan *plan = p->e.plan;
    const plait_explained_group *row = &p->e.groups[g];
    const plait_plan_segment *segment = &plan->segments[row->segment];
    const plait_group *group = &segment->prepared.groups[row->group];
    const plait_placement *placement =
        &plan->placements[segment->nodes[segment->prepared.order[group->first]].node];
    plait_strbuf members;
    plait_strbuf_init(&members, 0);
    plait_plan_print_members(segment, group, &members);
    plait_strbuf_append(p->s, "<tr><td class=d>");
    plait_html_text(p->s, device_name(plan, segment->device));
    plait_strbuf_append(p->s, "</td><td class=w>");
    plait_html_text(p->s, plait_strbuf_text(&members));
    plait_strbuf_printf(p->s, "</td><td>%s", plait_cause_text(placement->cause));
    if (placement->cause == PLAIT_CAUSE_COPY) {
        plait_strbuf_append(p->s, " on ");
        plait_html_text(p->s, placement->reason);
    }
    print_alternatives(p, segment, group);
    if (g == p->e.first_group[row->step]) print_waits(p, row->step);
    plait_strbuf_append(p->s, "</td>");
    if (p->e.timed) print_time_cell(p->s, &p->one.groups[g]), print_time_cell(p->s, &p->full.groups[g]);
    print_cell(p->s, plait_plan_group_weight_bytes(plan, segment, group));
    print_cell(p->s, row->in_bytes);
    print_cell(p->s, row->out_bytes);
    print_cell(p->s, group->scratch_bytes);
    plait_strbuf_append(p->s, "</tr>\n");
    plait_strbuf_inherit(p->s, &members);
    plait_strbuf_deinit(&members);
}

/* Open by itself while it is short. */
static void print_work(const page *p) {
    const plait_plan *plan = p->e.plan;
    plait_strbuf_printf(p->s,
                        "<details%s><summary>Work in order: %d groups, %zu commands</summary>\n"
                        "<div class=wide><table><tr><th>device<th>nodes<th>why there; other devices%s"
                        "<th class=n>weights or bytes<th class=n>moved in<th class=n>moved out"
                        "<th class=n>scratch</tr>\n",
                        plan->facts.n_groups <= 60 ? " open" : "", plan->facts.n_groups, plan->n_steps,
                        p->e.timed ? "<th class=n>one item<th class=n>at bounds" : "");
    for (uint32_t s = 0; s < plan->n_steps; s++) {
        if (plan->steps[s].kind != PLAIT_STEP_LAUNCH) print_move(p, s);
        for (uint32_t g = p->e.first_group[s]; g < p->e.first_group[s + 1]; g++) print_group(p, g);
    }
    plait_strbuf_append(p->s, "</table></div></details>\n");
}

/* ---- residence ---- */

/* The line of all entries like this one (device, kind, encoding, cause); nothing when an earlier entry has it.
 * Quadratic in entries, of which there are a few hundred, and only when a page is made. */
static void print_like(const plait_residence *r, size_t i, plait_strbuf *s) {
    const plait_resident *entry = &r->entries[i];
    uint64_t bytes = 0;
    size_t n = 0;
    for (size_t k = 0; k < r->n_entries; k++) {
        const plait_resident *other = &r->entries[k];
        bool like = other->device == entry->device && other->kind == entry->kind &&
                    other->encoding == entry->encoding && other->shape.dtype == entry->shape.dtype &&
                    other->mapped == entry->mapped && other->cause == entry->cause;
        if (!like) continue;
        if (k < i) return;
        bytes += other->size_bytes;
        n++;
    }
    bool state = entry->kind == PLAIT_STORAGE_STATE;
    plait_strbuf_append(s, "<tr><td class=d>");
    plait_html_text(s, r->context->devices[entry->device].device->name);
    plait_strbuf_printf(s, "</td><td class=n>%zu</td><td>%s of %s</td><td>", n, state ? "states" : "weights",
                        plait_dtype_name(entry->shape.dtype));
    plait_html_text(s, state ? "as it is" : entry->encoding_name);
    plait_strbuf_printf(s, "%s</td><td>%s</td>", entry->mapped ? ", used in the file" : "",
                        plait_cause_text(entry->cause));
    print_cell(s, bytes);
    plait_strbuf_append(s, "</tr>\n");
}

static void print_residence(const plait_residence *r, plait_strbuf *s) {
    if (r->n_entries == 0) return;
    plait_strbuf_append(s,
                        "<h3>Where weights and state live</h3><table><tr><th>device<th class=n>number<th>what"
                        "<th>form<th>why there<th class=n>bytes</tr>\n");
    for (size_t i = 0; i < r->n_entries; i++) print_like(r, i, s);
    plait_strbuf_append(s, "</table>\n");
}

/* ---- the page ---- */

/* Tables first, pictures next, the long table of work last and folded. */
static plait_status print_sections(page *p, bool residence) {
    PLAIT_TRY(plait_forecast_smallest(&p->e, &p->e.arena, &p->one));
    PLAIT_TRY(plait_forecast_largest(&p->e, &p->e.arena, &p->full));
    print_facts(p);
    print_devices(p);
    print_queues(p);
    if (residence) print_residence(p->e.plan->residence, p->s);
    print_lanes(p);
    PLAIT_TRY(print_memory(p));
    print_work(p);
    return PLAIT_OK;
}

/* The section is closed after a failure as well; the page is not handed out then. */
static plait_status print_plan(const plait_plan *plan, bool heading, bool residence, plait_strbuf *s) {
    page p = {.s = s};
    plait_strbuf_append(s, "<section>\n");
    if (heading) {
        plait_strbuf_append(s, "<h2>Plan of ");
        plait_html_text(s, plan->name);
        plait_strbuf_append(s, "</h2>\n");
    }
    plait_status status = plait_explain(&p.e, plan);
    if (status == PLAIT_OK) status = print_sections(&p, residence);
    plait_explained_deinit(&p.e);
    plait_strbuf_append(s, "</section>\n");
    return status;
}

/* The text of a failed page is dropped, so *out_text is a whole page or untouched. */
plait_status plait_plans_print_html(const plait_plan *const *plans, int n_plans, const char *title,
                                    char **out_text) {
    plait_strbuf s;
    plait_status status = PLAIT_OK;
    if (n_plans < 1) return plait_error(PLAIT_INVALID_ARGUMENT, "page of plans: %d plans", n_plans);
    plait_strbuf_init(&s, 0);
    plait_strbuf_append(&s, "<!DOCTYPE html>\n<html lang=en><head><meta charset=utf-8>"
                            "<meta name=viewport content=\"width=device-width\">"
                            "<meta name=color-scheme content=\"light dark\"><title>");
    plait_html_text(&s, title ? title : plans[0]->name);
    plait_strbuf_printf(&s, "</title><style>%s</style></head><body><h1>%s", style, title ? "" : "Plan of ");
    plait_html_text(&s, title ? title : plans[0]->name);
    plait_strbuf_append(&s, "</h1>\n");
    for (int i = 0; status == PLAIT_OK && i < n_plans; i++) {
        bool shown = false; /* plans of a model share their residence: it is shown once */
        for (int k = 0; k < i; k++) shown |= plans[k]->residence == plans[i]->residence;
        status = print_plan(plans[i], n_plans > 1 || title, !shown, &s);
    }
    plait_strbuf_append(&s, "</body></html>\n");
    if (status == PLAIT_OK) status = plait_strbuf_status(&s);
    if (status == PLAIT_OK) *out_text = plait_strbuf_take(&s);
    plait_strbuf_deinit(&s);
    return plait_error_context(status, "page of plans");
}

plait_status plait_plan_print_html(const plait_plan *plan, char **out_text) {
    return plait_plans_print_html(&plan, 1, NULL, out_text);
}
