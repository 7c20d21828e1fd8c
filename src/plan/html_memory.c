/* Memory of temporaries on a device as a picture: to the right the groups that it runs, in order, with predicted times
 * below; upwards the bytes of its arena. A box is a value, as high as its bytes and as long as it lives, where the plan put
 * it; grey boxes are scratch. The line shows how many bytes are alive, the dashed one the most that ever are: no
 * arrangement can be smaller. Invariant: only reads; every box lies within the picture. */
#include "plan/html.h"

#include "base/alloc.h"
#include "base/status.h"

#include <stdlib.h>

enum { WIDTH = PLAIT_HTML_WIDTH, HEIGHT = 240, LEFT = 76, RIGHT = 12, TOP = 14, BOTTOM = 26, TICKS = 4 };

typedef struct frame {
    const plait_plan *plan;
    int device;
    int32_t n_positions;
    double x_unit, y_unit; /* pixels of a position and of a byte */
    plait_strbuf *s;
} frame;

/* Positions to the right, bytes upwards from the bottom line. */
static double x_of(const frame *f, double position) {
    return LEFT + position * f->x_unit;
}

static double y_of(const frame *f, double bytes) {
    return HEIGHT - BOTTOM - bytes * f->y_unit;
}

/* Positions are whole columns: a value that lives at one position is one column wide. The title is left open. */
static void begin_box(const frame *f, const char *class, int32_t first, int32_t last, uint64_t offset,
                      uint64_t size) {
    double width = (last - first + 1) * f->x_unit;
    plait_strbuf_printf(
        f->s, "<rect class=\"v %s\" x=\"%.2f\" y=\"%.2f\" width=\"%.2f\" height=\"%.2f\"><title>", class,
        x_of(f, first), y_of(f, (double)(offset + size)), width, (double)size * f->y_unit);
}

static void end_box(const frame *f, int32_t first, int32_t last, uint64_t size) {
    plait_strbuf_append(f->s, ": ");
    plait_strbuf_bytes(f->s, size);
    plait_strbuf_printf(f->s, ", groups %d to %d</title></rect>\n", first, last);
}

/* Values in two blues by turns, so that neighbours can be told apart; what came and what the host reads have colours of
 * their own. A value that takes over another's bytes is drawn where that is. */
static void draw_values(const frame *f) {
    for (size_t v = 0; v < f->plan->n_values; v++) {
        const plait_plan_value *value = &f->plan->values[v];
        bool drawn = value->device == f->device && value->slot == PLAIT_SLOT_ARENA && !value->elided &&
                     value->first >= 0 && value->size_bytes > 0;
        if (!drawn) continue;
        const char *class = value->is_output ? "out" : value->arrives ? "came" : v % 2 ? "made" : "made2";
        begin_box(f, class, value->first, value->last, value->offset, value->size_bytes);
        plait_html_text(f->s, f->plan->graph->storages[value->storage].name);
        end_box(f, value->first, value->last, value->size_bytes);
    }
}

/* After the values: it lies in gaps between them, never on one. */
static void draw_scratch(const frame *f) {
    const plait_plan *plan = f->plan;
    for (size_t i = 0; i < plan->n_steps; i++) {
        const plait_plan_step *step = &plan->steps[i];
        if (step->kind != PLAIT_STEP_LAUNCH || step->device != f->device) continue;
        const plait_plan_segment *segment = &plan->segments[step->item];
        for (int g = 0; g < segment->prepared.n_groups; g++) {
            const plait_group *group = &segment->prepared.groups[g];
            int32_t at = step->position + g;
            if (!group->scratch_bytes) continue;
            begin_box(f, "scratch", at, at,
                      plait_plan_join(plan, f->device, group->scratch_slot, group->scratch_offset),
                      group->scratch_bytes);
            plait_strbuf_append(f->s, "scratch of ");
            plait_html_text(f->s, segment->nodes[segment->prepared.order[group->first]].name);
            end_box(f, at, at, group->scratch_bytes);
        }
    }
}

/* The bytes that are alive as a stair, a corner only where they change; the bound as a line across. */
static void draw_lines(const frame *f, const int64_t *live) {
    plait_strbuf_printf(f->s, "<path class=live d=\"M%.2f %.2f", x_of(f, 0), y_of(f, 0));
    for (int32_t p = 0; p < f->n_positions; p++)
        if (p == 0 || live[p] != live[p - 1])
            plait_strbuf_printf(f->s, "H%.2fV%.2f", x_of(f, p), y_of(f, (double)live[p]));
    double y = y_of(f, (double)f->plan->devices[f->device].bound_bytes);
    plait_strbuf_printf(f->s, "H%.2f\"/><line class=bound x1=\"%d\" x2=\"%d\" y1=\"%.2f\" y2=\"%.2f\"/>\n",
                        x_of(f, f->n_positions), LEFT, WIDTH - RIGHT, y, y);
}

static void draw_bytes(const frame *f) {
    uint64_t top = f->plan->devices[f->device].arena_bytes;
    for (int k = 0; k <= TICKS; k++) {
        double y = y_of(f, (double)top * k / TICKS);
        plait_strbuf_printf(f->s, "<line class=grid x1=\"%d\" x2=\"%d\" y1=\"%.2f\" y2=\"%.2f\"/>", LEFT,
                            WIDTH - RIGHT, y, y);
        plait_strbuf_printf(f->s, "<text x=\"%d\" y=\"%.2f\" text-anchor=\"end\">", LEFT - 6, y + 4);
        plait_strbuf_bytes(f->s, top * (uint64_t)k / TICKS);
        plait_strbuf_append(f->s, "</text>");
    }
}

/* When the device begins the group at a position; false when times are not known. */
static bool begin_of(const plait_explained *e, const plait_forecast *forecast, int device, int32_t position,
                     double *out_ns) {
    for (uint32_t g = 0; e->timed && g < e->n_groups; g++) {
        const plait_plan_step *step = &e->plan->steps[e->groups[g].step];
        if (step->device != device || step->position + e->groups[g].group != position) continue;
        *out_ns = forecast->groups[g].begin_ns;
        return true;
    }
    return false;
}

/* Five positions or fewer, with the time at which the device begins the group there. */
static void draw_order(const plait_explained *e, const plait_forecast *forecast, const frame *f) {
    static const char *const anchors[] = {"start", "middle", "end"};
    /* The first and the last label are anchored at the edges, so that none leaves the picture. */
    int n = f->n_positions > TICKS ? TICKS : 1;
    for (int k = 0; k <= n && k < f->n_positions; k++) {
        int32_t at = (int32_t)((int64_t)(f->n_positions - 1) * k / n);
        const char *anchor = anchors[k == 0 ? 0 : k == n ? 2 : 1];
        double ns = 0, x = k == 0 ? LEFT : k == n ? WIDTH - RIGHT : x_of(f, at + 0.5);
        plait_strbuf_printf(f->s, "<text x=\"%.2f\" y=\"%d\" text-anchor=\"%s\">group %d", x, HEIGHT - 9,
                            anchor, at);
        if (begin_of(e, forecast, f->device, at, &ns)) {
            plait_strbuf_append(f->s, ", ");
            plait_explain_time(f->s, ns);
        }
        plait_strbuf_append(f->s, "</text>");
    }
    plait_strbuf_append_char(f->s, '\n');
}

/* The scale is the arena as assigned, so every box fits; the bound lies below its top by what the packing has lost. */
plait_status plait_html_memory(const plait_explained *e, const plait_forecast *forecast, int device,
                               plait_strbuf *s) {
    const plait_plan_device *row = &e->plan->devices[device];
    if (row->arena_bytes == 0 || row->n_positions == 0) return PLAIT_OK;
    int64_t *live = plait_alloc_array((size_t)row->n_positions, sizeof *live);
    if (!live) return plait_error_memory("page", (uint64_t)row->n_positions * sizeof *live);
    plait_explain_memory(e->plan, device, live);
    frame f = {.plan = e->plan,
               .device = device,
               .n_positions = row->n_positions,
               .x_unit = (double)(WIDTH - LEFT - RIGHT) / row->n_positions,
               .y_unit = (double)(HEIGHT - TOP - BOTTOM) / (double)row->arena_bytes,
               .s = s};
    plait_strbuf_append(s, "<h3>Memory of temporaries on ");
    plait_html_text(s, e->plan->context->devices[device].device->name);
    plait_strbuf_printf(s, "</h3><svg%s viewBox=\"0 0 %d %d\" role=\"img\">\n",
                        f.x_unit < 3 ? " class=fine" : "", WIDTH, HEIGHT);
    draw_bytes(&f);
    draw_order(e, forecast, &f);
    draw_values(&f);
    draw_scratch(&f);
    draw_lines(&f, live);
    plait_strbuf_append(s, "</svg>\n");
    free(live);
    return PLAIT_OK;
}

void plait_html_memory_key(plait_strbuf *s) {
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
