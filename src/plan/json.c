/* The plan as JSON: everything that the text says, and every command, group, node, wait and byte, unfolded. The fields
 * are described in docs/command-line.md. Not here: what the words mean (explain.c). Written straight into the text,
 * without a tree; names go through the JSON escape, everything else is ours. Invariant: only reads; numbers of commands
 * are their places in "commands", which "after" and "command" refer to. */
#include "plan/explain.h"

#include "base/alloc.h"
#include "base/status.h"

#include <stdlib.h>
#include <string.h>

typedef struct writer {
    const plait_explained *e;
    plait_forecast one, full;
    plait_strbuf *s;
} writer;

/* `key` with its quotes, and with what comes before it: ",\"name\"". */
static void key_string(plait_strbuf *s, const char *key, const char *text) {
    plait_strbuf_printf(s, "%s:", key);
    plait_strbuf_json_string(s, text);
}

/* Integers are printed as such; readers that know only doubles are exact up to 2^53. */
static void key_bytes(plait_strbuf *s, const char *key, uint64_t value) {
    plait_strbuf_printf(s, "%s:%llu", key, (unsigned long long)value);
}

static const char *device_name(const writer *w, int d) {
    return w->e->plan->context->devices[d].device->name;
}

/* Whole nanoseconds: more digits would say more than is known. */
static void number_ns(plait_strbuf *s, double ns) {
    plait_strbuf_printf(s, "%.0f", ns);
}

/* Begin and end in both kinds of step; left out, not null, where times are not known. */
static void spans(const writer *w, const plait_forecast_span *one, const plait_forecast_span *full) {
    if (!w->e->timed) return;
    for (int k = 0; k < 2; k++) {
        const plait_forecast_span *span = k ? full : one;
        plait_strbuf_append(w->s, k ? ",\"full\":{\"begin_ns\":" : ",\"single\":{\"begin_ns\":");
        number_ns(w->s, span->begin_ns);
        plait_strbuf_append(w->s, ",\"end_ns\":");
        number_ns(w->s, span->end_ns);
        plait_strbuf_append_char(w->s, '}');
    }
}

/* ---- devices ---- */

/* Only queues that the plan uses. */
static void queues(const writer *w, int d) {
    const plait_plan *plan = w->e->plan;
    bool any = false;
    plait_strbuf_append(w->s, ",\"queues\":[");
    for (uint32_t q = (uint32_t)d * PLAIT_DEVICE_QUEUES; q < ((uint32_t)d + 1) * PLAIT_DEVICE_QUEUES; q++) {
        if (!plan->queues[q].n_steps) continue;
        key_string(w->s, any ? ",{\"name\"" : "{\"name\"", plait_explain_queue(plan, q));
        plait_strbuf_printf(w->s, ",\"commands\":%u", plan->queues[q].n_steps);
        if (w->e->timed) {
            plait_strbuf_append(w->s, ",\"single_busy_ns\":");
            number_ns(w->s, w->one.busy_ns[q]);
            plait_strbuf_append(w->s, ",\"full_busy_ns\":");
            number_ns(w->s, w->full.busy_ns[q]);
        }
        plait_strbuf_append_char(w->s, '}');
        any = true;
    }
    plait_strbuf_append_char(w->s, ']');
}

/* Bytes in use from a position on, wherever they change: pairs of position and bytes, which a reader draws as steps. */
static plait_status memory(const writer *w, int d) {
    int32_t n = w->e->plan->devices[d].n_positions;
    int64_t *live = plait_alloc_array((size_t)n + 1, sizeof *live);
    if (!live) return plait_error_memory("plan", (uint64_t)n * sizeof *live);
    plait_explain_memory(w->e->plan, d, live);
    plait_strbuf_append(w->s, ",\"temporary_use\":[");
    /* Only where it changes: positions of a model are thousands, changes a few. */
    for (int32_t p = 0; p < n; p++)
        if (p == 0 || live[p] != live[p - 1])
            plait_strbuf_printf(w->s, "%s[%d,%lld]", p ? "," : "", p, (long long)live[p]);
    plait_strbuf_append_char(w->s, ']');
    free(live);
    return PLAIT_OK;
}

/* Sizes as the plan's tables and the residence have them; "asked_share" only where a ratio was asked for. */
static plait_status device(const writer *w, int d) {
    const plait_plan *plan = w->e->plan;
    const plait_plan_device *row = &plan->devices[d];
    const plait_residence_device *resident = &plan->residence->devices[d];
    double asked, held;
    int n_blocks;
    key_string(w->s, d ? ",\n{\"name\"" : "{\"name\"", device_name(w, d));
    key_bytes(w->s, ",\"weight_private_bytes\"", resident->private_bytes);
    key_bytes(w->s, ",\"weight_mapped_bytes\"", resident->mapped_bytes);
    key_bytes(w->s, ",\"state_bytes\"", resident->state_bytes);
    key_bytes(w->s, ",\"temporary_bytes\"", row->arena_bytes);
    key_bytes(w->s, ",\"temporary_bound_bytes\"", row->bound_bytes);
    key_bytes(w->s, ",\"input_bytes\"", row->input_bytes);
    plait_residence_shares(plan->residence, d, &asked, &held, &n_blocks);
    plait_strbuf_printf(w->s, ",\"blocks\":%d,\"held_share\":", n_blocks);
    plait_strbuf_json_number(w->s, held);
    if (asked >= 0) {
        plait_strbuf_append(w->s, ",\"asked_share\":");
        plait_strbuf_json_number(w->s, asked);
    }
    queues(w, d);
    PLAIT_TRY(memory(w, d));
    plait_strbuf_append_char(w->s, '}');
    return PLAIT_OK;
}

/* ---- commands ---- */

/* The number of the transfer ties a send to its receive. */
static void transfer(const writer *w, const plait_plan_step *step) {
    const plait_plan *plan = w->e->plan;
    const plait_plan_transfer *row = &plan->transfers[step->item];
    plait_strbuf_printf(w->s, ",\"transfer\":%u", step->item);
    key_string(w->s, ",\"from\"", device_name(w, plan->values[row->source].device));
    key_string(w->s, ",\"to\"", device_name(w, plan->values[row->target].device));
    key_string(w->s, ",\"route\"", plait_explain_route(row->route));
}

/* Bytes are those of both kinds of step; a launch has none, its groups say what they read. */
static void command(const writer *w, uint32_t s) {
    const plait_plan *plan = w->e->plan;
    const plait_plan_step *step = &plan->steps[s];
    int32_t block;
    key_string(w->s, s ? ",\n{\"kind\"" : "{\"kind\"", plait_explain_verb(step->kind));
    /* A launch points to its groups in "work", everything else says what it moves. */
    if (step->kind == PLAIT_STEP_LAUNCH) {
        plait_strbuf_printf(w->s, ",\"segment\":%u,\"first_group\":%u,\"groups\":%u", step->item,
                            w->e->first_group[s], w->e->first_group[s + 1] - w->e->first_group[s]);
    } else {
        plait_strbuf name;
        plait_strbuf_init(&name, 0);
        plait_explain_step(plan, s, &name);
        plait_strbuf_inherit(w->s, &name);
        key_string(w->s, ",\"name\"", plait_strbuf_text(&name));
        plait_strbuf_deinit(&name);
        key_string(w->s, ",\"subject\"", plait_explain_subject(plan, s, &block));
        if (step->kind != PLAIT_STEP_WRITE_INPUT && step->kind != PLAIT_STEP_READ_OUTPUT) transfer(w, step);
        key_bytes(w->s, ",\"single_bytes\"", w->one.bytes[s]);
        key_bytes(w->s, ",\"full_bytes\"", w->full.bytes[s]);
    }
    key_string(w->s, ",\"device\"", device_name(w, step->device));
    key_string(w->s, ",\"queue\"", plait_explain_queue(plan, step->queue));
    plait_strbuf_append(w->s, ",\"after\":[");
    for (uint32_t k = 0; k < step->n_waits; k++) {
        const plait_plan_wait *wait = &plan->waits[step->first_wait + k];
        plait_strbuf_printf(w->s, "%s{\"command\":%u%s}", k ? "," : "", wait->step,
                            wait->before ? ",\"step_before\":true" : "");
    }
    plait_strbuf_append_char(w->s, ']');
    spans(w, &w->one.steps[s], &w->full.steps[s]);
    plait_strbuf_append_char(w->s, '}');
}

/* ---- groups ---- */

/* Every other device, with a time or the reason why not; empty for one device. */
static void alternatives(const writer *w, const plait_plan_segment *segment, const plait_group *group) {
    const plait_plan *plan = w->e->plan;
    bool any = false;
    plait_strbuf_append(w->s, ",\"alternatives\":[");
    for (int d = 0; plan->weighed && d < plan->context->n_devices; d++) {
        double ns = 0;
        const char *reason = "";
        if (d == segment->device) continue;
        bool runs = plait_explain_alternative(plan, segment, group, d, &ns, &reason);
        key_string(w->s, any ? ",{\"device\"" : "{\"device\"", device_name(w, d));
        if (runs) {
            plait_strbuf_append(w->s, ",\"expected_ns\":");
            number_ns(w->s, ns);
        } else {
            key_string(w->s, ",\"reason\"", reason);
        }
        plait_strbuf_append_char(w->s, '}');
        any = true;
    }
    plait_strbuf_append_char(w->s, ']');
}

/* Nodes with their own cause: fused nodes may be there for different reasons. */
static void members(const writer *w, const plait_plan_segment *segment, const plait_group *group) {
    plait_strbuf name;
    plait_strbuf_init(&name, 0);
    plait_plan_print_members(segment, group, &name);
    plait_strbuf_inherit(w->s, &name);
    key_string(w->s, "{\"name\"", plait_strbuf_text(&name));
    plait_strbuf_deinit(&name);
    plait_strbuf_append(w->s, ",\"nodes\":[");
    for (int k = 0; k < group->n; k++) {
        const plait_segment_node *node = &segment->nodes[segment->prepared.order[group->first + k]];
        const plait_placement *placement = &w->e->plan->placements[node->node];
        key_string(w->s, k ? ",{\"name\"" : "{\"name\"", node->name);
        plait_strbuf_printf(w->s, ",\"op\":\"%s\",\"cause\":\"%s\"", node->op->name,
                            plait_cause_text(placement->cause));
        if (placement->reason[0]) key_string(w->s, ",\"reason\"", placement->reason);
        plait_strbuf_append_char(w->s, '}');
    }
    plait_strbuf_append_char(w->s, ']');
}

/* Cause and reason of the group are those of its first node. */
static void group(const writer *w, uint32_t g) {
    const plait_plan *plan = w->e->plan;
    const plait_explained_group *row = &w->e->groups[g];
    const plait_plan_segment *segment = &plan->segments[row->segment];
    const plait_group *group = &segment->prepared.groups[row->group];
    const plait_placement *placement =
        &plan->placements[segment->nodes[segment->prepared.order[group->first]].node];
    if (g) plait_strbuf_append(w->s, ",\n");
    members(w, segment, group);
    key_string(w->s, ",\"device\"", device_name(w, segment->device));
    plait_strbuf_printf(w->s, ",\"command\":%u,\"position\":%d", row->step,
                        plan->steps[row->step].position + row->group);
    key_string(w->s, ",\"cause\"", plait_cause_text(placement->cause));
    key_string(w->s, ",\"reason\"", placement->reason);
    alternatives(w, segment, group);
    plait_strbuf_append(w->s, ",\"flop\":");
    plait_strbuf_json_number(w->s, plait_plan_group_flop(plan, segment, group));
    key_bytes(w->s, ",\"weight_bytes\"", plait_plan_group_weight_bytes(plan, segment, group));
    key_bytes(w->s, ",\"scratch_bytes\"", group->scratch_bytes);
    key_bytes(w->s, ",\"in_bytes\"", row->in_bytes);
    key_bytes(w->s, ",\"out_bytes\"", row->out_bytes);
    spans(w, &w->one.groups[g], &w->full.groups[g]);
    plait_strbuf_append_char(w->s, '}');
}

/* ---- the whole ---- */

/* plait_plan_facts, and the bounds of the dims that they are for. */
static void facts(const writer *w) {
    const plait_plan *plan = w->e->plan;
    const plait_plan_facts *f = &plan->facts;
    key_string(w->s, "{\"name\"", plan->name);
    plait_strbuf_append(w->s, ",\"dims\":{");
    for (size_t d = 0; d < plan->graph->n_dims; d++) {
        plait_strbuf_append(w->s, d ? "," : "");
        plait_strbuf_json_string(w->s, plan->graph->dims[d].name);
        plait_strbuf_printf(w->s, ":%lld", (long long)plan->graph->dims[d].bound);
    }
    plait_strbuf_printf(w->s, "},\"nodes\":%d,\"groups\":%d,\"segments\":%d,\"transfers\":%d,\"copies\":%d",
                        f->n_nodes, f->n_groups, f->n_segments, f->n_transfers, f->n_copies);
    key_bytes(w->s, ",\"transfer_bytes\"", f->transfer_bytes);
    key_bytes(w->s, ",\"weight_bytes_read\"", f->weight_bytes_read);
    key_bytes(w->s, ",\"temporary_bytes\"", f->temporary_bytes);
    key_bytes(w->s, ",\"temporary_bound_bytes\"", f->temporary_bound_bytes);
    plait_strbuf_append(w->s, ",\"flop\":");
    plait_strbuf_json_number(w->s, f->flop);
    key_bytes(w->s, ",\"plan_ns\"", f->plan_ns);
    key_bytes(w->s, ",\"verify_ns\"", f->verify_ns);
    if (!w->e->timed) return;
    plait_strbuf_append(w->s, ",\"single_ns\":");
    number_ns(w->s, w->one.end_ns);
    plait_strbuf_append(w->s, ",\"full_ns\":");
    number_ns(w->s, w->full.end_ns);
}

/* Forecasts first, as they may fail; after them only the text's memory can. */
static plait_status write(writer *w, plait_arena *arena) {
    const plait_plan *plan = w->e->plan;
    PLAIT_TRY(plait_forecast_smallest(w->e, arena, &w->one));
    PLAIT_TRY(plait_forecast_largest(w->e, arena, &w->full));
    facts(w);
    plait_strbuf_append(w->s, ",\n\"devices\":[");
    for (int d = 0; d < plan->context->n_devices; d++) PLAIT_TRY(device(w, d));
    plait_strbuf_append(w->s, "],\n\"commands\":[");
    for (uint32_t s = 0; s < plan->n_steps; s++) command(w, s);
    plait_strbuf_append(w->s, "],\n\"work\":[");
    for (uint32_t g = 0; g < w->e->n_groups; g++) group(w, g);
    plait_strbuf_append(w->s, "]}\n");
    return plait_strbuf_status(w->s);
}

/* *out_text is the caller's to free; it is set when the whole text is there. */
plait_status plait_plan_print_json(const plait_plan *plan, char **out_text) {
    plait_explained e;
    plait_strbuf s;
    writer w = {.e = &e, .s = &s};
    plait_strbuf_init(&s, 0);
    plait_status status = plait_explain(&e, plan);
    if (status == PLAIT_OK) status = write(&w, &e.arena);
    if (status == PLAIT_OK) *out_text = plait_strbuf_take(&s);
    plait_strbuf_deinit(&s);
    plait_explained_deinit(&e);
    return status;
}
