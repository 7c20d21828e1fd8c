/* The plan as text for people: a line for each device and queue, then the commands in order, groups below their launches.
 *
 * Models repeat: lines that come again for one block after the other are printed once, with the range of blocks in their
 * names ("blk.3-27.attention"; "blk.0-24/6.": every sixth). Lines are therefore made first, with the numbers of blocks
 * apart, and compared before they are written. --json leaves nothing out.
 *
 * Invariant: only reads; control characters of names do not reach the terminal. */
#include "plan/explain.h"

#include "base/alloc.h"
#include "base/size.h"
#include "base/status.h"

#include <stdlib.h>
#include <string.h>

/* In lines: a number of a block, kept apart; and the place up to which names are padded. */
enum { NUMBER = 1, COLUMN = 2, NAME_WIDTH = 48, MOST_PERIOD = 256 };

typedef struct line {
    size_t begin, length; /* in the text */
    size_t first_number, n_numbers;
    uint64_t hash; /* of the text */
} line;

typedef struct printer {
    const plait_explained *e;
    plait_forecast one, full;
    plait_strbuf text; /* of all lines, unprinted */
    int32_t *numbers;  /* Owned. */
    line *lines;       /* Owned. */
    size_t n_numbers, number_capacity, n_lines, line_capacity;
    plait_status status;
} printer;

/* ---- making lines ---- */

/* A first failure stays in `status` and stops all growing; what is appended to the text then belongs to no line. */
static void begin_line(printer *p) {
    if (p->status == PLAIT_OK)
        p->status =
            plait_grow(&p->lines, &p->line_capacity, p->n_lines + 1, sizeof *p->lines, SIZE_MAX / 64, "text");
    if (p->status == PLAIT_OK)
        p->lines[p->n_lines] = (line){.begin = p->text.length, .first_number = p->n_numbers};
}

/* The hash is of the text with the marks in it, so lines of different blocks have the same one. */
static void end_line(printer *p) {
    if (p->status != PLAIT_OK || plait_strbuf_status(&p->text) != PLAIT_OK) return;
    line *l = &p->lines[p->n_lines++];
    l->length = p->text.length - l->begin;
    l->n_numbers = p->n_numbers - l->first_number;
    l->hash = plait_hash_bytes(p->text.bytes + l->begin, l->length, 0);
}

/* A name of something of a block: its number is kept apart where the name says it. Only one number of a name is kept
 * apart, the first that stands between dots. */
static void add_name(printer *p, const char *name, int32_t block) {
    size_t n;
    const char *at = plait_explain_block(name, block, &n);
    if (at && p->status == PLAIT_OK)
        p->status = plait_grow(&p->numbers, &p->number_capacity, p->n_numbers + 1, sizeof *p->numbers,
                               SIZE_MAX / 64, "text");
    for (; *name && name != at; name++) plait_explain_clean_char(&p->text, *name);
    if (!at || p->status != PLAIT_OK) return;
    p->numbers[p->n_numbers++] = block;
    plait_strbuf_append_char(&p->text, NUMBER);
    plait_explain_clean(&p->text, at + n);
}

/* The block is the first member's: groups do not reach over blocks where names repeat. */
static void add_members(printer *p, const plait_plan_segment *segment, const plait_group *group) {
    plait_strbuf members;
    const plait_segment_node *first = &segment->nodes[segment->prepared.order[group->first]];
    plait_strbuf_init(&members, 0);
    plait_plan_print_members(segment, group, &members);
    plait_strbuf_inherit(&p->text, &members);
    add_name(p, plait_strbuf_text(&members), p->e->plan->graph->nodes[first->node].block);
    plait_strbuf_deinit(&members);
}

/* The same words as plait_explain_step, but with the block's number kept apart for folding. */
static void add_step_name(printer *p, uint32_t s) {
    const plait_plan *plan = p->e->plan;
    const plait_plan_step *step = &plan->steps[s];
    int32_t block;
    if (step->kind == PLAIT_STEP_LAUNCH) {
        const plait_plan_segment *segment = &plan->segments[step->item];
        add_members(p, segment, &segment->prepared.groups[segment->prepared.n_groups - 1]);
        return;
    }
    const char *name = plait_explain_subject(plan, s, &block);
    plait_strbuf_printf(&p->text, "%s ", plait_explain_verb(step->kind));
    add_name(p, name, block);
}

/* ---- cells ---- */

/* Right-aligned, by bytes; cells are ASCII. */
static void add_padded(plait_strbuf *s, plait_strbuf *cell, int width) {
    int n = (int)cell->length;
    plait_strbuf_inherit(s, cell);
    plait_strbuf_printf(s, "%*s%s", n < width ? width - n : 0, "", plait_strbuf_text(cell));
    plait_strbuf_clear(cell);
}

/* Two columns, or none where times are not known. */
static void add_times(printer *p, const plait_forecast_span *one, const plait_forecast_span *full) {
    plait_strbuf cell;
    plait_strbuf_init(&cell, 0);
    for (int k = 0; k < 2 && p->e->timed; k++) {
        plait_explain_time(&cell, k ? full->end_ns - full->begin_ns : one->end_ns - one->begin_ns);
        add_padded(&p->text, &cell, 9);
    }
    plait_strbuf_deinit(&cell);
}

/* "-" for nothing, so that columns can be read down. */
static void add_bytes(printer *p, uint64_t bytes) {
    plait_strbuf cell;
    plait_strbuf_init(&cell, 0);
    if (bytes)
        plait_strbuf_bytes(&cell, bytes);
    else
        plait_strbuf_append_char(&cell, '-');
    add_padded(&p->text, &cell, 11);
    plait_strbuf_deinit(&cell);
}

/* ---- commands ---- */

/* What a command waits for, in words that can be found in the lines before it. */
static void add_waits(printer *p, const plait_plan_step *step) {
    const plait_plan *plan = p->e->plan;
    for (uint32_t w = 0; w < step->n_waits; w++) {
        const plait_plan_wait *wait = &plan->waits[step->first_wait + w];
        plait_strbuf_append(&p->text, w ? ", " : "; after ");
        add_step_name(p, wait->step);
        plait_strbuf_printf(&p->text, " on %s",
                            plan->context->devices[plan->steps[wait->step].device].device->name);
        /* A step that waits for the one before it is where a pipeline is closed: worth the words. */
        if (wait->before) plait_strbuf_append(&p->text, " in the step before");
    }
}

/* Where a node is because its weights are, it goes without saying that they are nowhere else. */
static bool says_more(const plait_placement *placement, const char *reason) {
    return placement->cause != PLAIT_CAUSE_WEIGHTS || strcmp(reason, "its weights are not there") != 0;
}

/* The other devices: why they can not, or what it would take there. */
static void add_alternatives(printer *p, const plait_plan_segment *segment, const plait_group *group,
                             const plait_placement *placement) {
    const plait_plan *plan = p->e->plan;
    for (int d = 0; plan->weighed && d < plan->context->n_devices; d++) {
        double ns = 0;
        const char *reason = "";
        if (d == segment->device) continue;
        bool runs = plait_explain_alternative(plan, segment, group, d, &ns, &reason);
        if (!runs && !says_more(placement, reason)) continue;
        plait_strbuf_printf(&p->text, "; %s: ", plan->context->devices[d].device->name);
        if (runs)
            plait_explain_elsewhere(&p->text, plan, segment, group, ns);
        else
            plait_explain_clean(&p->text, reason);
    }
}

/* A line: who, times, bytes, why there, and what the others would take. The head of the columns is in print_head(). */
static void add_group(printer *p, uint32_t g) {
    const plait_plan *plan = p->e->plan;
    const plait_explained_group *row = &p->e->groups[g];
    const plait_plan_segment *segment = &plan->segments[row->segment];
    const plait_group *group = &segment->prepared.groups[row->group];
    const plait_placement *placement =
        &plan->placements[segment->nodes[segment->prepared.order[group->first]].node];
    begin_line(p);
    plait_strbuf_append(&p->text, "  ");
    add_members(p, segment, group);
    plait_strbuf_append_char(&p->text, COLUMN);
    add_times(p, &p->one.groups[g], &p->full.groups[g]);
    add_bytes(p, plait_plan_group_weight_bytes(plan, segment, group));
    if (plan->context->n_devices > 1) {
        add_bytes(p, row->in_bytes);
        add_bytes(p, row->out_bytes);
    }
    plait_strbuf_printf(&p->text, "  %s", plait_cause_text(placement->cause));
    if (placement->cause == PLAIT_CAUSE_COPY) {
        plait_strbuf_append(&p->text, " on ");
        plait_explain_clean(&p->text, placement->reason);
    }
    add_alternatives(p, segment, group, placement);
    plait_strbuf_append_char(&p->text, '\n');
    end_line(p);
}

/* A line for the launch with what it waits for, then one for each group. */
static void add_launch(printer *p, uint32_t s) {
    const plait_plan_step *step = &p->e->plan->steps[s];
    const plait_plan_segment *segment = &p->e->plan->segments[step->item];
    begin_line(p);
    plait_strbuf_printf(&p->text, "on %s: %u nodes in %d groups",
                        p->e->plan->context->devices[step->device].device->name, segment->n_nodes,
                        segment->prepared.n_groups);
    add_waits(p, step);
    plait_strbuf_append_char(&p->text, '\n');
    end_line(p);
    for (uint32_t g = p->e->first_group[s]; g < p->e->first_group[s + 1]; g++) add_group(p, g);
}

/* Inputs and outputs have one end at the host, transfers two devices and a way between them. */
static void add_command(printer *p, uint32_t s) {
    const plait_plan *plan = p->e->plan;
    const plait_plan_step *step = &plan->steps[s];
    const char *device = plan->context->devices[step->device].device->name;
    begin_line(p);
    add_step_name(p, s);
    plait_strbuf_append_char(&p->text, COLUMN);
    add_times(p, &p->one.steps[s], &p->full.steps[s]);
    add_bytes(p, p->full.bytes[s]);
    plait_strbuf_append(&p->text, "  ");
    if (step->kind == PLAIT_STEP_WRITE_INPUT || step->kind == PLAIT_STEP_READ_OUTPUT) {
        plait_strbuf_printf(
            &p->text, step->kind == PLAIT_STEP_READ_OUTPUT ? "%s to the host" : "the host to %s", device);
    } else {
        const plait_plan_transfer *transfer = &plan->transfers[step->item];
        plait_strbuf_printf(&p->text, "%s to %s, %s",
                            plan->context->devices[plan->values[transfer->source].device].device->name,
                            plan->context->devices[plan->values[transfer->target].device].device->name,
                            plait_explain_route(transfer->route));
    }
    plait_strbuf_printf(&p->text, ", %s of %s", plait_explain_queue(plan, step->queue), device);
    add_waits(p, step);
    plait_strbuf_append_char(&p->text, '\n');
    end_line(p);
}

/* ---- folding ---- */

typedef struct fold {
    size_t period, times;
    int32_t shift; /* of block numbers from one time to the next */
} fold;

/* Whether lines i + k and j + k are alike for all k < n, the numbers of the latter being larger by `shift`. */
static bool alike(const printer *p, size_t i, size_t j, size_t n, int32_t shift) {
    for (size_t k = 0; k < n; k++) {
        const line *a = &p->lines[i + k], *b = &p->lines[j + k];
        if (a->hash != b->hash || a->length != b->length || a->n_numbers != b->n_numbers) return false;
        for (size_t m = 0; m < a->n_numbers; m++)
            if ((int64_t)p->numbers[b->first_number + m] - p->numbers[a->first_number + m] != shift)
                return false;
        if (memcmp(p->text.bytes + a->begin, p->text.bytes + b->begin, a->length) != 0) return false;
    }
    return true;
}

/* How far numbers have grown from line i to the same line a period later; 0: there is no such line, or no number. */
static int32_t shift_of(const printer *p, size_t i, size_t period) {
    for (size_t k = 0; k < period; k++) {
        const line *a = &p->lines[i + k], *b = &p->lines[i + period + k];
        if (a->hash != b->hash || a->n_numbers != b->n_numbers) return 0;
        /* The first number of the repetition decides; alike() holds all others to it. */
        if (a->n_numbers) {
            int64_t shift = (int64_t)p->numbers[b->first_number] - p->numbers[a->first_number];
            return shift > 0 && shift <= 1024 ? (int32_t)shift : 0;
        }
    }
    return 0;
}

/* The repetition that begins at line i and covers most lines; times 1 when nothing repeats. Time: lines times periods,
 * but lines are compared only where the first of them hash alike; each repetition that is found is skipped afterwards.
 * Periods beyond MOST_PERIOD lines would be blocks that nobody reads anyway. */
static fold find_fold(const printer *p, size_t i) {
    fold best = {1, 1, 0};
    /* A repetition of period p shows in line i and line i + p; the longest stretch wins, and of equals the shortest
     * period. */
    for (size_t period = 1; period <= MOST_PERIOD && i + 2 * period <= p->n_lines; period++) {
        /* Comparing the first lines' hashes spares most periods the rest. */
        int32_t shift = p->lines[i].hash == p->lines[i + period].hash ? shift_of(p, i, period) : 0;
        size_t times = 1;
        while (shift && i + (times + 1) * period <= p->n_lines &&
               alike(p, i + (times - 1) * period, i + times * period, period, shift))
            times++;
        if (times > 1 && times * period > best.times * best.period) best = (fold){period, times, shift};
    }
    return best;
}

/* Marks become numbers, or ranges of them ("3-27", with "/6" where not every block is one), and columns become spaces
 * up to the width that names usually have. */
static void write_line(const printer *p, size_t i, const fold *f, plait_strbuf *out) {
    const line *l = &p->lines[i];
    size_t begin = out->length, number = l->first_number;
    if (f->times > 1) plait_strbuf_append(out, "| ");
    for (size_t k = l->begin; k < l->begin + l->length; k++) {
        char c = p->text.bytes[k];
        if (c == NUMBER) {
            int32_t n = p->numbers[number++];
            plait_strbuf_printf(out, "%d", n);
            if (f->times > 1)
                plait_strbuf_printf(out, "-%lld", (long long)n + (long long)(f->times - 1) * f->shift);
            if (f->times > 1 && f->shift > 1) plait_strbuf_printf(out, "/%d", f->shift);
        } else if (c == COLUMN) {
            size_t width = out->length - begin;
            plait_strbuf_printf(out, "%*s", width < NAME_WIDTH ? (int)(NAME_WIDTH - width) : 1, "");
        } else {
            plait_strbuf_append_char(out, c);
        }
    }
}

static void write_lines(const printer *p, plait_strbuf *out) {
    for (size_t i = 0; i < p->n_lines;) {
        fold f = find_fold(p, i);
        if (f.times > 1) plait_strbuf_printf(out, "%zu times:\n", f.times);
        for (size_t k = 0; k < f.period; k++) write_line(p, i + k, &f, out);
        i += f.period * f.times;
    }
}

/* ---- the head ---- */

/* One item, then at the bounds: in this order everywhere. */
static void print_both(const printer *p, double one_ns, double full_ns, plait_strbuf *s) {
    (void)p;
    plait_explain_time(s, one_ns);
    plait_strbuf_append(s, " / ");
    plait_explain_time(s, full_ns);
}

/* Busy times of all queues beside the step's own show what overlaps and what bounds it. */
static void print_queues(const printer *p, int d, plait_strbuf *s) {
    const plait_plan *plan = p->e->plan;
    for (uint32_t q = (uint32_t)d * PLAIT_DEVICE_QUEUES; q < ((uint32_t)d + 1) * PLAIT_DEVICE_QUEUES; q++) {
        if (!plan->queues[q].n_steps) continue;
        plait_strbuf_printf(s, "  %s: %u commands", plait_explain_queue(plan, q), plan->queues[q].n_steps);
        if (p->e->timed) {
            plait_strbuf_append(s, ", busy ");
            print_both(p, p->one.busy_ns[q], p->full.busy_ns[q], s);
        }
        plait_strbuf_append_char(s, '\n');
    }
}

/* The group that runs where the most bytes are alive. */
static void print_peak(const printer *p, int d, plait_strbuf *s) {
    const plait_plan *plan = p->e->plan;
    int32_t at = plan->devices[d].bound_position;
    for (uint32_t g = 0; g < p->e->n_groups && plan->devices[d].bound_bytes; g++) {
        const plait_explained_group *row = &p->e->groups[g];
        const plait_plan_step *step = &plan->steps[row->step];
        if (step->device != d || step->position + row->group != at) continue;
        plait_strbuf_append(s, ", most at ");
        plait_plan_print_members(&plan->segments[row->segment],
                                 &plan->segments[row->segment].prepared.groups[row->group], s);
        return;
    }
}

/* What lies on the device for good, what a step takes, and by how much the arena is larger than it must be. */
static void print_device(const printer *p, int d, plait_strbuf *s) {
    const plait_plan *plan = p->e->plan;
    const plait_plan_device *row = &plan->devices[d];
    const plait_residence_device *resident = &plan->residence->devices[d];
    plait_strbuf_printf(s, "device %s: weights ", plan->context->devices[d].device->name);
    plait_strbuf_bytes(s, resident->private_bytes);
    plait_strbuf_append(s, " of its own and ");
    plait_strbuf_bytes(s, resident->mapped_bytes);
    plait_strbuf_append(s, " in the file, state ");
    plait_strbuf_bytes(s, resident->state_bytes);
    plait_strbuf_append(s, ", inputs ");
    plait_strbuf_bytes(s, row->input_bytes);
    plait_strbuf_append(s, ", temporaries ");
    plait_strbuf_bytes(s, row->arena_bytes);
    plait_strbuf_append(s, " (bound ");
    plait_strbuf_bytes(s, row->bound_bytes);
    print_peak(p, d, s);
    plait_strbuf_append_char(s, ')');
    if (plan->context->n_devices > 1) {
        double asked, held;
        int n_blocks;
        plait_residence_shares(plan->residence, d, &asked, &held, &n_blocks);
        plait_strbuf_printf(s, "; %d blocks, %.1f%% of weights and state", n_blocks, 100 * held);
        if (asked >= 0) plait_strbuf_printf(s, " (asked %.1f%%)", 100 * asked);
    }
    plait_strbuf_append_char(s, '\n');
    print_queues(p, d, s);
}

/* Everything that is true of the plan as a whole, and the names of the columns. */
static void print_head(const printer *p, plait_strbuf *s) {
    const plait_plan *plan = p->e->plan;
    const plait_plan_facts *f = &plan->facts;
    plait_strbuf_append(s, "plan of ");
    plait_explain_clean(s, plan->name);
    plait_strbuf_printf(s, ": %d nodes in %d groups, %d segments, %d transfers", f->n_nodes, f->n_groups,
                        f->n_segments, f->n_transfers);
    for (size_t d = 0; d < plan->graph->n_dims; d++)
        plait_strbuf_printf(s, "%s%s <= %lld", d ? ", " : "; ", plan->graph->dims[d].name,
                            (long long)plan->graph->dims[d].bound);
    plait_strbuf_printf(s, "\nat the bounds: %.4g GFLOP, weights read ", f->flop / 1e9);
    plait_strbuf_bytes(s, f->weight_bytes_read);
    plait_strbuf_append(s, ", moved between devices ");
    plait_strbuf_bytes(s, f->transfer_bytes);
    plait_strbuf_printf(s, "; planned in %.2f ms, proved in %.2f ms\n", (double)f->plan_ns / 1e6,
                        (double)f->verify_ns / 1e6);
    if (p->e->timed) {
        plait_strbuf_append(s, "predicted: ");
        print_both(p, p->one.end_ns, p->full.end_ns, s);
        plait_strbuf_append(s, " (a step of one item / at the bounds)\n");
    } else {
        plait_strbuf_append(s, "predicted: nothing, the devices' figures are not known\n");
    }
    for (int d = 0; d < plan->context->n_devices; d++) print_device(p, d, s);
    plait_strbuf_printf(s, "%-*s", NAME_WIDTH, "");
    if (p->e->timed) plait_strbuf_append(s, " one item at bounds");
    plait_strbuf_append(s, plan->context->n_devices > 1 ? "    weights   moved in  moved out  why there\n"
                                                        : "    weights  why there\n");
}

/* Lines are made before the head is written: forecasts may fail, and then nothing of the text is needed. */
static plait_status print(printer *p, plait_arena *arena, plait_strbuf *out) {
    const plait_plan *plan = p->e->plan;
    PLAIT_TRY(plait_forecast_smallest(p->e, arena, &p->one));
    PLAIT_TRY(plait_forecast_largest(p->e, arena, &p->full));
    for (uint32_t s = 0; s < plan->n_steps; s++) {
        if (plan->steps[s].kind == PLAIT_STEP_LAUNCH)
            add_launch(p, s);
        else
            add_command(p, s);
    }
    PLAIT_TRY(p->status);
    PLAIT_TRY(plait_strbuf_status(&p->text));
    print_head(p, out);
    write_lines(p, out);
    return plait_strbuf_status(out);
}

/* *out_text is set on success only; whatever failed, everything is given back. */
plait_status plait_plan_print(const plait_plan *plan, char **out_text) {
    plait_explained e;
    plait_strbuf out;
    printer p = {.e = &e};
    plait_strbuf_init(&out, 0);
    plait_strbuf_init(&p.text, 0);
    plait_status status = plait_explain(&e, plan);
    if (status == PLAIT_OK) status = print(&p, &e.arena, &out);
    if (status == PLAIT_OK) *out_text = plait_strbuf_take(&out);
    plait_strbuf_deinit(&out);
    plait_strbuf_deinit(&p.text);
    free(p.lines);
    free(p.numbers);
    plait_explained_deinit(&e);
    return status;
}
