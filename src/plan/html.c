/* Plans as a page: what runs where and why, and a picture of memory over the order of commands. The page stands alone
 * (inline SVG, no scripts, no links) and follows the reader's preference for light or dark.
 *
 * The picture of a device: to the right the positions of its queue, upwards the bytes of its arena. A box is a value, as
 * high as its bytes and as long as it lives, where the plan put it; grey boxes are scratch. The line shows how many bytes
 * are alive, the dashed one the most that ever are: no arrangement can be smaller.
 *
 * Invariant: only reads; every name is escaped. */
#include "plan/plan.h"

#include "base/alloc.h"
#include "base/status.h"

#include <stdlib.h>
#include <string.h>

enum { WIDTH = 960, HEIGHT = 240, LEFT = 76, RIGHT = 12, TOP = 14, BOTTOM = 26 };

static const char style[] =
    ":root{--bg:#fbfbf9;--fg:#23272b;--soft:#6b737b;--line:#dcdcd6;--card:#ffffff;--made:#4f83b8;--made2:#"
    "77a3cf;"
    "--came:#8d6bb5;--out:#4d9a68;--scratch:#b9bdc2;--live:#c4502f;--bound:#23272b}"
    "@media(prefers-color-scheme:dark){:root{--bg:#16191c;--fg:#e3e6e8;--soft:#98a1a9;--line:#33393f;--card:#"
    "1d2125;"
    "--made:#4678a8;--made2:#6593bd;--came:#8a6fb0;--out:#4f9467;--scratch:#59616a;--live:#ee8a63;--bound:#"
    "e3e6e8}}"
    "body{background:var(--bg);color:var(--fg);font:14px/1.45 system-ui,-apple-system,'Segoe UI',sans-serif;"
    "margin:0 auto;max-width:1040px;padding:24px}"
    "h1{font-size:22px;margin:0 0 4px}h2{font-size:18px;margin:36px 0 4px;padding-top:18px;border-top:1px "
    "solid "
    "var(--line)}h3{font-size:14px;margin:20px 0 6px}p{margin:4px 0 12px;color:var(--soft)}"
    ".cards{display:flex;flex-wrap:wrap;gap:8px;margin:12px 0}.card{background:var(--card);border:1px solid "
    "var(--line);"
    "border-radius:6px;padding:6px 12px}.card b{display:block;font-size:17px;font-weight:600}"
    ".card span{color:var(--soft);font-size:12px}"
    "table{border-collapse:collapse;width:100%;font-size:13px}th{text-align:left;color:var(--soft);font-"
    "weight:500}"
    "th,td{padding:3px 10px 3px 0;border-bottom:1px solid var(--line);vertical-align:top}"
    "td.n,th.n{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}"
    "td.w{word-break:break-word}td.d{white-space:nowrap}"
    "svg{display:block;width:100%;height:auto;background:var(--card);border:1px solid "
    "var(--line);border-radius:6px}"
    "svg text{fill:var(--soft);font-size:11px}rect.v{stroke:var(--card);stroke-width:.5}"
    "svg.fine rect.v{stroke:none}svg.fine .live{stroke-width:.6}"
    ".made{fill:var(--made)}.made2{fill:var(--made2)}.came{fill:var(--came)}.out{fill:var(--out)}"
    ".scratch{fill:var(--scratch)}.live{fill:none;stroke:var(--live);stroke-width:1.5}"
    ".bound{stroke:var(--bound);stroke-dasharray:5 4}.grid{stroke:var(--line)}"
    ".key{display:flex;flex-wrap:wrap;gap:14px;color:var(--soft);font-size:12px;margin:6px 0}"
    ".key "
    "i{display:inline-block;width:11px;height:11px;border-radius:2px;margin-right:5px;vertical-align:-1px}"
    "details{margin:8px 0}summary{cursor:pointer;font-weight:600}";

/* ---- text ---- */

static void print_text(plait_strbuf *s, const char *text) {
    for (; *text; text++) {
        unsigned char c = (unsigned char)*text;
        if (c == '&')
            plait_strbuf_append(s, "&amp;");
        else if (c == '<')
            plait_strbuf_append(s, "&lt;");
        else if (c == '>')
            plait_strbuf_append(s, "&gt;");
        else if (c == '"')
            plait_strbuf_append(s, "&quot;");
        else
            plait_strbuf_append_char(s, c < ' ' || c == 0x7f ? '?' : (char)c);
    }
}

static void print_cell(plait_strbuf *s, uint64_t size_bytes) {
    plait_strbuf_append(s, "<td class=n>");
    plait_strbuf_bytes(s, size_bytes);
    plait_strbuf_append(s, "</td>");
}

static const char *device_name(const plait_plan *plan, int device) {
    return plan->context->devices[device].device->name;
}

/* ---- facts ---- */

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

static void print_facts(const plait_plan *plan, plait_strbuf *s) {
    const plait_plan_facts *f = &plan->facts;
    plait_strbuf_append(s, "<p>All figures are those of one step with every dim at its bound");
    for (size_t d = 0; d < plan->graph->n_dims; d++) {
        plait_strbuf_append(s, d ? ", " : ": ");
        print_text(s, plan->graph->dims[d].name);
        plait_strbuf_printf(s, " = %lld", (long long)plan->graph->dims[d].bound);
    }
    plait_strbuf_append(s, ".</p><div class=cards>");
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

static void print_devices(const plait_plan *plan, plait_strbuf *s) {
    plait_strbuf_append(
        s, "<h3>Devices</h3><table><tr><th>device<th class=n>own weights<th class=n>weights in the "
           "file<th class=n>state<th class=n>inputs<th class=n>temporaries<th class=n>bound</tr>\n");
    for (int d = 0; d < plan->context->n_devices; d++) {
        const plait_residence_device *r = &plan->residence->devices[d];
        plait_strbuf_append(s, "<tr><td class=d>");
        print_text(s, device_name(plan, d));
        plait_strbuf_append(s, "</td>");
        print_cell(s, r->private_bytes);
        print_cell(s, r->mapped_bytes);
        print_cell(s, r->state_bytes);
        print_cell(s, plan->devices[d].input_bytes);
        print_cell(s, plan->devices[d].arena_bytes);
        print_cell(s, plan->devices[d].bound_bytes);
        plait_strbuf_append(s, "</tr>\n");
    }
    plait_strbuf_append(s, "</table>\n");
}

/* ---- the picture ---- */

typedef struct frame {
    int32_t n_positions;
    double x_unit, y_unit; /* pixels of a position and of a byte */
} frame;

static double x_of(const frame *f, double position) {
    return LEFT + position * f->x_unit;
}

static double y_of(const frame *f, double bytes) {
    return HEIGHT - BOTTOM - bytes * f->y_unit;
}

static void begin_box(const frame *f, const char *class, int32_t first, int32_t last, uint64_t offset,
                      uint64_t size, plait_strbuf *s) {
    double width = (last - first + 1) * f->x_unit;
    plait_strbuf_printf(
        s, "<rect class=\"v %s\" x=\"%.2f\" y=\"%.2f\" width=\"%.2f\" height=\"%.2f\"><title>", class,
        x_of(f, first), y_of(f, (double)(offset + size)), width, (double)size * f->y_unit);
}

static void end_box(int32_t first, int32_t last, uint64_t size, plait_strbuf *s) {
    plait_strbuf_append(s, ": ");
    plait_strbuf_bytes(s, size);
    plait_strbuf_printf(s, ", positions %d to %d</title></rect>\n", first, last);
}

static void draw_values(const plait_plan *plan, int device, const frame *f, int64_t *changes,
                        plait_strbuf *s) {
    for (size_t v = 0; v < plan->n_values; v++) {
        const plait_plan_value *value = &plan->values[v];
        bool drawn = value->device == device && value->slot == PLAIT_SLOT_ARENA && !value->elided &&
                     value->first >= 0 && value->size_bytes > 0;
        if (!drawn) continue;
        const char *class = value->is_output ? "out" : value->arrives ? "came" : v % 2 ? "made" : "made2";
        begin_box(f, class, value->first, value->last, value->offset, value->size_bytes, s);
        print_text(s, plan->graph->storages[value->storage].name);
        end_box(value->first, value->last, value->size_bytes, s);
        if (value->alias != v)
            continue; /* its bytes are those of the value it takes over, which lasts as long */
        changes[value->first] += (int64_t)value->size_bytes;
        changes[value->last + 1] -= (int64_t)value->size_bytes;
    }
}

static void draw_scratch(const plait_plan *plan, int device, const frame *f, int64_t *changes,
                         plait_strbuf *s) {
    for (size_t i = 0; i < plan->n_steps; i++) {
        const plait_plan_step *step = &plan->steps[i];
        if (step->kind != PLAIT_STEP_LAUNCH || step->device != device) continue;
        const plait_plan_segment *segment = &plan->segments[step->item];
        for (int g = 0; g < segment->prepared.n_groups; g++) {
            const plait_group *group = &segment->prepared.groups[g];
            int32_t at = step->position + g;
            if (!group->scratch_bytes) continue;
            begin_box(f, "scratch", at, at,
                      plait_plan_join(plan, device, group->scratch_slot, group->scratch_offset),
                      group->scratch_bytes, s);
            plait_strbuf_append(s, "scratch of ");
            print_text(s, segment->nodes[segment->prepared.order[group->first]].name);
            end_box(at, at, group->scratch_bytes, s);
            changes[at] += (int64_t)group->scratch_bytes;
            changes[at + 1] -= (int64_t)group->scratch_bytes;
        }
    }
}

static void draw_lines(const plait_plan *plan, int device, const frame *f, const int64_t *changes,
                       plait_strbuf *s) {
    int64_t live = 0, before = -1;
    plait_strbuf_append(s, "<path class=live d=\"");
    for (int32_t p = 0; p < f->n_positions; p++) {
        live += changes[p];
        if (live == before) continue;
        if (before < 0) plait_strbuf_printf(s, "M%.2f %.2f", x_of(f, 0), y_of(f, 0));
        plait_strbuf_printf(s, "H%.2fV%.2f", x_of(f, p), y_of(f, (double)live));
        before = live;
    }
    double y = y_of(f, (double)plan->devices[device].bound_bytes);
    plait_strbuf_printf(s, "H%.2f", x_of(f, f->n_positions));
    plait_strbuf_printf(s, "\"/><line class=bound x1=\"%d\" x2=\"%d\" y1=\"%.2f\" y2=\"%.2f\"/>\n", LEFT,
                        WIDTH - RIGHT, y, y);
}

static void draw_axes(const plait_plan *plan, int device, const frame *f, plait_strbuf *s) {
    uint64_t top = plan->devices[device].arena_bytes;
    for (int k = 0; k <= 4; k++) {
        double y = y_of(f, (double)top * k / 4);
        plait_strbuf_printf(s, "<line class=grid x1=\"%d\" x2=\"%d\" y1=\"%.2f\" y2=\"%.2f\"/>", LEFT,
                            WIDTH - RIGHT, y, y);
        plait_strbuf_printf(s, "<text x=\"%d\" y=\"%.2f\" text-anchor=\"end\">", LEFT - 6, y + 4);
        plait_strbuf_bytes(s, top * (uint64_t)k / 4);
        plait_strbuf_append(s, "</text>");
    }
    plait_strbuf_printf(s, "<text x=\"%d\" y=\"%d\">command 0</text>", LEFT, HEIGHT - 9);
    plait_strbuf_printf(s, "<text x=\"%d\" y=\"%d\" text-anchor=\"end\">%d</text>\n", WIDTH - RIGHT,
                        HEIGHT - 9, f->n_positions - 1);
}

static plait_status draw_memory(const plait_plan *plan, int device, plait_strbuf *s) {
    const plait_plan_device *row = &plan->devices[device];
    if (row->arena_bytes == 0 || row->n_positions == 0) return PLAIT_OK;
    int64_t *changes = plait_alloc_array((size_t)row->n_positions + 2, sizeof *changes);
    if (!changes) return plait_error_memory("page", (uint64_t)row->n_positions * sizeof *changes);
    frame f = {.n_positions = row->n_positions,
               .x_unit = (double)(WIDTH - LEFT - RIGHT) / row->n_positions,
               .y_unit = (double)(HEIGHT - TOP - BOTTOM) / (double)row->arena_bytes};
    plait_strbuf_append(s, "<h3>Memory of temporaries on ");
    print_text(s, device_name(plan, device));
    plait_strbuf_printf(s, "</h3><svg%s viewBox=\"0 0 %d %d\" role=\"img\">\n",
                        f.x_unit < 3 ? " class=fine" : "", WIDTH, HEIGHT);
    draw_axes(plan, device, &f, s);
    draw_values(plan, device, &f, changes, s);
    draw_scratch(plan, device, &f, changes, s);
    draw_lines(plan, device, &f, changes, s);
    plait_strbuf_append(s, "</svg>\n");
    free(changes);
    return PLAIT_OK;
}

static void print_key(plait_strbuf *s) {
    static const char *const keys[][2] = {{"made", "value"},
                                          {"came", "came from another device"},
                                          {"out", "read by the host"},
                                          {"scratch", "scratch of a group"},
                                          {"live", "bytes alive (line) and the most at once (dashed)"}};
    plait_strbuf_append(s, "<div class=key>");
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        plait_strbuf_printf(s, "<span><i style=\"background:var(--%s)\"></i>%s</span>", keys[i][0],
                            keys[i][1]);
    plait_strbuf_append(s, "</div>\n");
}

/* ---- work ---- */

static void print_move(const plait_plan *plan, const plait_plan_step *step, plait_strbuf *s) {
    const plait_graph *graph = plan->graph;
    const char *verb = "from the host", *name = "";
    uint64_t bytes = 0;
    if (step->kind == PLAIT_STEP_WRITE_INPUT) {
        const plait_graph_storage *storage = &graph->storages[plan->inputs[step->item].storage];
        name = storage->name, bytes = storage->size_bytes;
    } else if (step->kind == PLAIT_STEP_READ_OUTPUT) {
        verb = "to the host", name = graph->outputs[plan->outputs[step->item].output].name;
        bytes = plan->outputs[step->item].size_bytes;
    } else {
        const plait_plan_transfer *transfer = &plan->transfers[step->item];
        verb = step->kind == PLAIT_STEP_SEND ? "sent" : step->kind == PLAIT_STEP_MOVE ? "moved" : "received";
        name = graph->storages[plan->values[transfer->source].storage].name, bytes = transfer->size_bytes;
    }
    plait_strbuf_printf(s, "<tr><td class=n>%d</td><td class=d>", step->position);
    print_text(s, device_name(plan, step->device));
    plait_strbuf_append(s, "</td><td class=w><i>");
    print_text(s, name);
    plait_strbuf_printf(s, "</i></td><td>%s</td>", verb);
    print_cell(s, bytes);
    plait_strbuf_append(s, "<td></td><td></td></tr>\n");
}

static void print_group(const plait_plan *plan, const plait_plan_segment *segment, int g, int32_t position,
                        plait_strbuf *s) {
    const plait_group *group = &segment->prepared.groups[g];
    const plait_placement *placement =
        &plan->placements[segment->nodes[segment->prepared.order[group->first]].node];
    plait_strbuf members;
    plait_strbuf_init(&members, 0);
    plait_plan_print_members(segment, group, &members);
    plait_strbuf_printf(s, "<tr><td class=n>%d</td><td class=d>", position);
    print_text(s, device_name(plan, segment->device));
    plait_strbuf_append(s, "</td><td class=w>");
    print_text(s, plait_strbuf_text(&members));
    plait_strbuf_printf(s, "</td><td>%s", plait_cause_text(placement->cause));
    if (placement->reason[0]) {
        plait_strbuf_append(s, ": ");
        print_text(s, placement->reason);
    }
    plait_strbuf_append(s, "</td>");
    print_cell(s, plait_plan_group_weight_bytes(plan, segment, group));
    plait_strbuf_printf(s, "<td class=n>%.3g</td>", plait_plan_group_flop(plan, segment, group) / 1e6);
    print_cell(s, group->scratch_bytes);
    plait_strbuf_append(s, "</tr>\n");
    plait_strbuf_inherit(s, &members);
    plait_strbuf_deinit(&members);
}

static void print_work(const plait_plan *plan, plait_strbuf *s) {
    plait_strbuf_printf(
        s,
        "<details%s><summary>Work in order: %d groups, %zu commands</summary>\n"
        "<table><tr><th class=n>at<th>device<th>nodes<th>why there<th class=n>weights or bytes"
        "<th class=n>MFLOP<th class=n>scratch</tr>\n",
        plan->facts.n_groups <= 60 ? " open" : "", plan->facts.n_groups, plan->n_steps);
    for (size_t i = 0; i < plan->n_steps; i++) {
        const plait_plan_step *step = &plan->steps[i];
        if (step->kind != PLAIT_STEP_LAUNCH) {
            print_move(plan, step, s);
            continue;
        }
        const plait_plan_segment *segment = &plan->segments[step->item];
        for (int g = 0; g < segment->prepared.n_groups; g++)
            print_group(plan, segment, g, step->position + g, s);
    }
    plait_strbuf_append(s, "</table></details>\n");
}

/* ---- residence ---- */

/* The line of all entries like this one (device, kind, encoding, cause); nothing when an earlier entry has it. */
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
    print_text(s, r->context->devices[entry->device].device->name);
    plait_strbuf_printf(s, "</td><td class=n>%zu</td><td>%s of %s</td><td>", n, state ? "states" : "weights",
                        plait_dtype_name(entry->shape.dtype));
    print_text(s, state ? "as it is" : entry->encoding_name);
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

static plait_status print_plan(const plait_plan *plan, bool heading, bool residence, plait_strbuf *s) {
    plait_strbuf_append(s, "<section>\n");
    if (heading) {
        plait_strbuf_append(s, "<h2>Plan of ");
        print_text(s, plan->name);
        plait_strbuf_append(s, "</h2>\n");
    }
    print_facts(plan, s);
    print_devices(plan, s);
    if (residence) print_residence(plan->residence, s);
    for (int d = 0; d < plan->context->n_devices; d++) PLAIT_TRY(draw_memory(plan, d, s));
    print_key(s);
    print_work(plan, s);
    plait_strbuf_append(s, "</section>\n");
    return PLAIT_OK;
}

plait_status plait_plans_print_html(const plait_plan *const *plans, int n_plans, const char *title,
                                    char **out_text) {
    plait_strbuf s;
    plait_status status = PLAIT_OK;
    if (n_plans < 1) return plait_error(PLAIT_INVALID_ARGUMENT, "page of plans: %d plans", n_plans);
    plait_strbuf_init(&s, 0);
    plait_strbuf_append(&s, "<!DOCTYPE html>\n<html lang=en><head><meta charset=utf-8>"
                            "<meta name=viewport content=\"width=device-width\"><title>");
    print_text(&s, title ? title : plans[0]->name);
    plait_strbuf_printf(&s, "</title><style>%s</style></head><body><h1>%s", style, title ? "" : "Plan of ");
    print_text(&s, title ? title : plans[0]->name);
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
