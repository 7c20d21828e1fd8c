/* A step as a picture: a lane for the host and for each queue, predicted time to the right. A box is a group or a transfer,
 * coloured by what it does; a thin grey one is a queue that waits. Arrows go from what is waited for to what waits, so a
 * transfer has one that leads to it and one that leads away, unless its neighbour is on its own queue, which needs none.
 * The host's lane has a mark where it wrote an input and where an output is there for it.
 *
 * Invariant: only reads; boxes of a lane do not overlap; every name is escaped. */
#include "plan/html.h"

#include "device/list.h"

#include <string.h>

/* Pixels of the view box, which the page scales. */
enum {
    WIDTH = PLAIT_HTML_WIDTH,
    LEFT = 150,
    RIGHT = 14,
    TOP = 10,
    BOTTOM = 24,
    LANE = 34,
    BOX = 22, /* height of a box; what is left of a lane is for arrows to be seen */
    TICKS = 5,
    LANE_LETTERS = 23,
    LEAST_LETTERS = 12, /* fewer say nothing */
    NO_LANE = -1
};
#define LETTER 6.3 /* width of a letter of the pictures' text, roughly */

typedef struct lanes {
    const plait_explained *e;
    const plait_forecast *forecast;
    int of_queue[PLAIT_MAX_DEVICES * PLAIT_DEVICE_QUEUES]; /* its lane */
    int n;                                                 /* the host's lane is number 0 */
    double unit;                                           /* pixels of a nanosecond */
    plait_strbuf *s;
} lanes;

/* Time to the right, lanes downwards. */
static double x_of(const lanes *l, double ns) {
    return LEFT + ns * l->unit;
}

static double middle_of(int lane) {
    return TOP + LANE * (lane + 0.5);
}

/* ---- boxes ---- */

/* What a group does, told by its heaviest kind of work. */
static const char *kind_of(const plait_explained *e, const plait_plan_segment *segment,
                           const plait_group *group) {
    const char *kind = "other";
    for (int k = group->first; k < group->first + group->n; k++) {
        const plait_op *op = segment->nodes[segment->prepared.order[k]].op;
        unsigned char class = e->cost.classes[op->id];
        if (class == PLAIT_COST_ATTENTION) return "attention";
        if (class == PLAIT_COST_PRODUCT) kind = "product";
    }
    return kind;
}

/* A name where there is room for it, or else for its words behind the scope, or for much of them. */
static void draw_label(const lanes *l, const char *name, int lane, double x, double width) {
    size_t letters = width > 8 ? (size_t)((width - 8) / LETTER) : 0;
    const char *dot = strrchr(name, '.');
    if (dot && letters < strlen(name)) name = dot + 1;
    /* A stump of a name is worse than none; the title has all of it. */
    if (letters < strlen(name) && letters < LEAST_LETTERS) return;
    plait_strbuf_printf(l->s, "<text class=in x=\"%.2f\" y=\"%.1f\">", x + 4, middle_of(lane) + 4);
    plait_html_short(l->s, name, letters);
    plait_strbuf_append(l->s, "</text>\n");
}

/* A box is left open for what stands in its title: shown when a pointer rests on it. */
static void begin_box(const lanes *l, const char *class, int lane, const plait_forecast_span *span,
                      double height) {
    plait_strbuf_printf(l->s,
                        "<rect class=\"b %s\" x=\"%.3f\" y=\"%.1f\" width=\"%.3f\" height=\"%.0f\"><title>",
                        class, x_of(l, span->begin_ns), middle_of(lane) - height / 2,
                        (span->end_ns - span->begin_ns) * l->unit, height);
}

static void end_box(const lanes *l, const plait_forecast_span *span) {
    plait_strbuf_append(l->s, ", at ");
    plait_explain_time(l->s, span->begin_ns);
    plait_strbuf_append(l->s, " for ");
    plait_explain_time(l->s, span->end_ns - span->begin_ns);
    plait_strbuf_append(l->s, "</title></rect>\n");
}

/* Groups of a launch stand side by side, with a gap in front for what the launch itself costs. */
static void draw_group(const lanes *l, uint32_t g, int lane) {
    const plait_explained_group *row = &l->e->groups[g];
    const plait_plan_segment *segment = &l->e->plan->segments[row->segment];
    const plait_group *group = &segment->prepared.groups[row->group];
    const plait_forecast_span *span = &l->forecast->groups[g];
    plait_strbuf name;
    plait_strbuf_init(&name, 0);
    plait_plan_print_members(segment, group, &name);
    plait_strbuf_inherit(l->s, &name);
    begin_box(l, kind_of(l->e, segment, group), lane, span, BOX);
    plait_html_text(l->s, plait_strbuf_text(&name));
    end_box(l, span);
    draw_label(l, plait_strbuf_text(&name), lane, x_of(l, span->begin_ns),
               (span->end_ns - span->begin_ns) * l->unit);
    plait_strbuf_deinit(&name);
}

static void draw_transfer(const lanes *l, uint32_t s, int lane) {
    const plait_forecast_span *span = &l->forecast->steps[s];
    plait_strbuf name;
    plait_strbuf_init(&name, 0);
    plait_explain_step(l->e->plan, s, &name);
    plait_strbuf_inherit(l->s, &name);
    begin_box(l, "moved", lane, span, BOX);
    plait_html_text(l->s, plait_strbuf_text(&name));
    plait_strbuf_append(l->s, ", ");
    plait_strbuf_bytes(l->s, l->forecast->bytes[s]);
    end_box(l, span);
    draw_label(l, plait_strbuf_text(&name), lane, x_of(l, span->begin_ns),
               (span->end_ns - span->begin_ns) * l->unit);
    plait_strbuf_deinit(&name);
}

/* Time from the end of the queue's last command to the beginning of this one. */
static void draw_wait(const lanes *l, uint32_t s, int lane, double free_ns) {
    const plait_plan *plan = l->e->plan;
    const plait_plan_step *step = &plan->steps[s];
    plait_forecast_span gap = {free_ns, l->forecast->steps[s].begin_ns};
    bool any = false;
    if (gap.end_ns <= gap.begin_ns) return;
    begin_box(l, "idle", lane, &gap, 4);
    for (uint32_t w = step->first_wait; w < step->first_wait + step->n_waits; w++) {
        if (plan->waits[w].before) continue;
        plait_strbuf name;
        plait_strbuf_init(&name, 0);
        plait_explain_step(plan, plan->waits[w].step, &name);
        plait_strbuf_inherit(l->s, &name);
        plait_strbuf_append(l->s, any ? ", " : "waits for ");
        plait_html_text(l->s, plait_strbuf_text(&name));
        plait_strbuf_deinit(&name);
        any = true;
    }
    end_box(l, &gap);
}

/* `free_ns`: when each queue ended its last command, from which a gap is a wait. */
static void draw_boxes(const lanes *l) {
    const plait_plan *plan = l->e->plan;
    double free_ns[PLAIT_MAX_DEVICES * PLAIT_DEVICE_QUEUES] = {0};
    for (uint32_t s = 0; s < plan->n_steps; s++) {
        const plait_plan_step *step = &plan->steps[s];
        int lane = l->of_queue[step->queue];
        draw_wait(l, s, lane, free_ns[step->queue]);
        free_ns[step->queue] = l->forecast->steps[s].end_ns;
        if (step->kind != PLAIT_STEP_LAUNCH) draw_transfer(l, s, lane);
        for (uint32_t g = l->e->first_group[s]; g < l->e->first_group[s + 1]; g++) draw_group(l, g, lane);
    }
}

/* ---- arrows ---- */

/* From the edge of one lane's box to the edge of the other's, with a small head. */
static void draw_arrow(const lanes *l, double from_ns, int from, double to_ns, int to) {
    /* Leaves and arrives at right angles, so that arrows between the same lanes run side by side. */
    double down = to > from ? 1 : -1, y1 = middle_of(from) + down * BOX / 2,
           y2 = middle_of(to) - down * BOX / 2;
    double x1 = x_of(l, from_ns), x2 = x_of(l, to_ns);
    plait_strbuf_printf(l->s, "<path class=arrow d=\"M%.2f %.1fC%.2f %.1f %.2f %.1f %.2f %.1f", x1, y1, x1,
                        y1 + down * 8, x2, y2 - down * 10, x2, y2);
    plait_strbuf_printf(l->s, "M%.2f %.1fL%.2f %.1fL%.2f %.1f\"/>\n", x2 - 2.5, y2 - down * 5, x2, y2,
                        x2 + 2.5, y2 - down * 5);
}

/* A dot on the host's lane: it has no time of its own in the picture. */
static void draw_mark(const lanes *l, double ns, const char *what, const char *name) {
    plait_strbuf_printf(l->s, "<circle class=mark cx=\"%.2f\" cy=\"%.1f\" r=\"3.5\"><title>%s ", x_of(l, ns),
                        middle_of(0), what);
    plait_html_text(l->s, name);
    plait_strbuf_append(l->s, "</title></circle>\n");
}

/* Arrows over all boxes, so that none is hidden. Waits for the step before are left out: the picture shows one step
 * that begins on idle queues. */
static void draw_arrows(const lanes *l) {
    const plait_plan *plan = l->e->plan;
    for (uint32_t s = 0; s < plan->n_steps; s++) {
        const plait_plan_step *step = &plan->steps[s];
        const plait_forecast_span *span = &l->forecast->steps[s];
        int lane = l->of_queue[step->queue];
        int32_t block;
        for (uint32_t w = step->first_wait; w < step->first_wait + step->n_waits; w++) {
            const plait_plan_wait *wait = &plan->waits[w];
            if (!wait->before)
                draw_arrow(l, l->forecast->steps[wait->step].end_ns,
                           l->of_queue[plan->steps[wait->step].queue], span->begin_ns, lane);
        }
        if (step->kind == PLAIT_STEP_WRITE_INPUT) {
            draw_arrow(l, span->begin_ns, 0, span->begin_ns, lane);
            draw_mark(l, span->begin_ns, "input", plait_explain_subject(plan, s, &block));
        } else if (step->kind == PLAIT_STEP_READ_OUTPUT) {
            draw_arrow(l, span->end_ns, lane, span->end_ns, 0);
            draw_mark(l, span->end_ns, "output", plait_explain_subject(plan, s, &block));
        }
    }
}

/* ---- the frame ---- */

static void draw_lane(const lanes *l, int lane, const char *device, const char *queue) {
    double y = TOP + LANE * lane;
    plait_strbuf name;
    plait_strbuf_init(&name, 0);
    plait_strbuf_printf(&name, "%s%s%s", device, queue[0] ? " " : "", queue);
    plait_strbuf_inherit(l->s, &name);
    plait_strbuf_printf(l->s, "<line class=grid x1=\"0\" x2=\"%d\" y1=\"%.1f\" y2=\"%.1f\"/>", WIDTH,
                        y + LANE, y + LANE);
    plait_strbuf_printf(l->s, "<text x=\"8\" y=\"%.1f\">", middle_of(lane) + 4);
    plait_html_short(l->s, plait_strbuf_text(&name), LANE_LETTERS);
    plait_strbuf_append(l->s, "</text>\n");
    plait_strbuf_deinit(&name);
}

/* Six lines with times, from 0 to the end of the step. */
static void draw_axis(const lanes *l) {
    double y = TOP + LANE * l->n;
    for (int k = 0; k <= TICKS; k++) {
        double ns = l->forecast->end_ns * k / TICKS, x = x_of(l, ns);
        plait_strbuf_printf(l->s, "<line class=grid x1=\"%.2f\" x2=\"%.2f\" y1=\"%d\" y2=\"%.1f\"/>", x, x,
                            TOP, y);
        plait_strbuf_printf(l->s, "<text x=\"%.2f\" y=\"%.1f\" text-anchor=\"%s\">", x, y + 15,
                            k == TICKS ? "end" : "middle");
        plait_explain_time(l->s, ns);
        plait_strbuf_append(l->s, "</text>");
    }
    plait_strbuf_append_char(l->s, '\n');
}

/* Nothing when times are not known. The host has the first lane; queues that the plan does not use have none. */
void plait_html_lanes(const plait_explained *e, const plait_forecast *forecast, plait_strbuf *s) {
    const plait_plan *plan = e->plan;
    lanes l = {.e = e, .forecast = forecast, .n = 1, .s = s};
    if (!e->timed || forecast->end_ns <= 0) return;
    l.unit = (WIDTH - LEFT - RIGHT) / forecast->end_ns;
    for (uint32_t q = 0; q < plan->n_queues; q++) l.of_queue[q] = plan->queues[q].n_steps ? l.n++ : NO_LANE;
    plait_strbuf_printf(s, "<svg class=\"lanes%s\" viewBox=\"0 0 %d %d\" role=\"img\">\n",
                        plan->n_steps + e->n_groups > 150 ? " fine" : "", WIDTH, TOP + LANE * l.n + BOTTOM);
    draw_axis(&l);
    draw_lane(&l, 0, "host", "");
    for (uint32_t q = 0; q < plan->n_queues; q++)
        if (l.of_queue[q] != NO_LANE)
            draw_lane(&l, l.of_queue[q], plan->context->devices[q / PLAIT_DEVICE_QUEUES].device->name,
                      plait_explain_queue(plan, q));
    draw_boxes(&l);
    draw_arrows(&l);
    plait_strbuf_append(s, "</svg>\n");
}

void plait_html_lanes_key(plait_strbuf *s) {
    static const char *const keys[][2] = {
        {"product", "matrix products"},         {"attention", "attention"}, {"other", "other work"},
        {"moved", "transfer, input or output"}, {"idle", "waits"},          {"arrow", "after (arrow)"}};
    plait_strbuf_append(s, "<div class=key>");
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        plait_strbuf_printf(s, "<span><i style=\"background:var(--%s)\"></i>%s</span>", keys[i][0],
                            keys[i][1]);
    plait_strbuf_append(s, "</div>\n");
}
