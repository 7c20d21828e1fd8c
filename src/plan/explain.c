/* What every form of explanation says of a plan: names, what groups move, other devices, memory over time; the forms
 * are print.c, json.c and html.c, so that no two of them can disagree. Not here: predicted times (forecast.c).
 * Invariant: only reads. */
#include "plan/explain.h"

#include "base/alloc.h"
#include "base/size.h"
#include "base/status.h"
#include "plan/weigh.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- names ---- */

/* A device with one queue beside its launches uses it both ways. */
const char *plait_explain_queue(const plait_plan *plan, uint32_t queue) {
    const plait_context_entry *entry = &plan->context->devices[queue / PLAIT_DEVICE_QUEUES];
    uint32_t number = queue % PLAIT_DEVICE_QUEUES;
    if (number == PLAIT_QUEUE_LAUNCHES) return "launches";
    if (entry->n_queues < 3) return "copies";
    return (int)number == plait_context_copy_queue(entry, true) ? "copies in" : "copies out";
}

const char *plait_explain_verb(plait_step_kind kind) {
    switch (kind) {
    case PLAIT_STEP_WRITE_INPUT: return "input";
    case PLAIT_STEP_LAUNCH: return "launch";
    case PLAIT_STEP_MOVE: return "move";
    case PLAIT_STEP_SEND: return "send";
    case PLAIT_STEP_RECEIVE: return "receive";
    case PLAIT_STEP_READ_OUTPUT: return "output";
    }
    return "?";
}

const char *plait_explain_route(plait_route route) {
    switch (route) {
    case PLAIT_ROUTE_COPY: return "copied directly";
    case PLAIT_ROUTE_WRITE: return "written from mapped memory";
    case PLAIT_ROUTE_READ: return "read into mapped memory";
    case PLAIT_ROUTE_STAGED: return "through host memory";
    }
    return "?";
}

/* Names come from files: an escape sequence in one must not reach a terminal. Bytes above 0x7f are left, as names may
 * be UTF-8. */
void plait_explain_clean_char(plait_strbuf *s, char c) {
    plait_strbuf_append_char(s, (unsigned char)c < ' ' || c == 0x7f ? '?' : c);
}

void plait_explain_clean(plait_strbuf *s, const char *name) {
    for (; *name; name++) plait_explain_clean_char(s, *name);
}

/* A launch is spoken of by its last group: that is what others wait for when they wait for the launch. */
const char *plait_explain_subject(const plait_plan *plan, uint32_t step, int32_t *out_block) {
    const plait_graph *graph = plan->graph;
    const plait_plan_step *row = &plan->steps[step];
    uint32_t storage;
    *out_block = -1;
    if (row->kind == PLAIT_STEP_LAUNCH) {
        const plait_plan_segment *segment = &plan->segments[row->item];
        const plait_group *last = &segment->prepared.groups[segment->prepared.n_groups - 1];
        const plait_segment_node *node = &segment->nodes[segment->prepared.order[last->first]];
        *out_block = graph->nodes[node->node].block;
        return node->name;
    }
    if (row->kind == PLAIT_STEP_READ_OUTPUT) return graph->outputs[plan->outputs[row->item].output].name;
    if (row->kind == PLAIT_STEP_WRITE_INPUT)
        storage = plan->inputs[row->item].storage;
    else
        storage = plan->values[plan->transfers[row->item].source].storage;
    *out_block = graph->storages[storage].block;
    return graph->storages[storage].name;
}

/* "blk.3.attn_q+rope+kv_write": the scope once. */
void plait_plan_print_members(const plait_plan_segment *segment, const plait_group *group, plait_strbuf *s) {
    for (int k = 0; k < group->n; k++) {
        const char *name = segment->nodes[segment->prepared.order[group->first + k]].name;
        /* Members after the first share its scope; their last word says enough. */
        const char *tail = k ? strrchr(name, '.') : NULL;
        if (k) plait_strbuf_append_char(s, '+');
        plait_explain_clean(s, tail ? tail + 1 : name);
    }
}

/* What a command is called in texts and traces, so that one can be found in the other. */
void plait_explain_step(const plait_plan *plan, uint32_t step, plait_strbuf *s) {
    const plait_plan_step *row = &plan->steps[step];
    if (row->kind == PLAIT_STEP_LAUNCH) {
        const plait_plan_segment *segment = &plan->segments[row->item];
        plait_plan_print_members(segment, &segment->prepared.groups[segment->prepared.n_groups - 1], s);
        return;
    }
    int32_t block;
    const char *name = plait_explain_subject(plan, step, &block);
    plait_strbuf_printf(s, "%s ", plait_explain_verb(row->kind));
    plait_explain_clean(s, name);
}

/* The number is looked for by value, not by position, since models name their blocks as they like. "blk.3.ffn" of block
 * 3: the place of the 3. */
const char *plait_explain_block(const char *name, int32_t block, size_t *out_digits) {
    char digits[16];
    size_t n = (size_t)snprintf(digits, sizeof digits, "%d", block);
    *out_digits = n;
    for (const char *at = strchr(name, '.'); block >= 0 && at; at = strchr(at + 1, '.'))
        if (strncmp(at + 1, digits, n) == 0 && (at[1 + n] == '.' || at[1 + n] == '\0')) return at + 1;
    return NULL;
}

/* The limits are those at which rounding would give a fourth digit. */
void plait_explain_time(plait_strbuf *s, double ns) {
    static const char *const units[] = {"ns", "us", "ms", "s"};
    size_t unit = 0;
    while (ns >= 999.5 && unit + 1 < PLAIT_COUNT_OF(units)) ns /= 1000, unit++;
    int digits = unit == 0 || ns >= 99.95 ? 0 : ns >= 9.995 ? 1 : 2;
    plait_strbuf_printf(s, "%.*f %s", digits, ns, units[unit]);
}

/* ---- figures ---- */

/* At the bounds, counted anew for each group: this runs when somebody prints, not when a plan is made. */
double plait_plan_group_flop(const plait_plan *plan, const plait_plan_segment *segment,
                             const plait_group *group) {
    double flop = 0;
    for (int k = group->first; k < group->first + group->n; k++) {
        plait_op_use use;
        plait_graph_use(plan->graph, segment->nodes[segment->prepared.order[k]].node, NULL, &use);
        flop += plait_op_flop(&use);
    }
    return flop;
}

/* In the encodings in which they lie. A weight that is looked up in counts whole here: what is shown is what the group
 * has, not what it reads. */
uint64_t plait_plan_group_weight_bytes(const plait_plan *plan, const plait_plan_segment *segment,
                                       const plait_group *group) {
    uint64_t bytes = 0;
    for (int k = group->first; k < group->first + group->n; k++) {
        const plait_segment_node *node = &segment->nodes[segment->prepared.order[k]];
        for (int i = 0; i < node->n_inputs; i++)
            if ((node->present >> i & 1u) && node->inputs[i].is_weight)
                bytes += plan->values[node->inputs[i].value].size_bytes;
    }
    return bytes;
}

/* From the weighing that placement decided with. Nodes of the group together, without launches and ways: enough to see
 * why a group is where it is, not a forecast of moving it. */
bool plait_explain_alternative(const plait_plan *plan, const plait_plan_segment *segment,
                               const plait_group *group, int device, double *out_ns,
                               const char **out_reason) {
    const plait_weighed *w = plan->weighed;
    double ns = 0;
    for (int k = group->first; k < group->first + group->n; k++) {
        uint32_t node = segment->nodes[segment->prepared.order[k]].node;
        size_t at = (size_t)node * (size_t)w->n_devices + (size_t)device;
        if (!(w->runs[node] >> device & 1u)) {
            *out_reason = w->why[at];
            return false;
        }
        ns += (double)w->ns[at];
    }
    *out_ns = ns;
    return true;
}

/* Beside the group's own time rather than as one: a line has its times of two kinds of step, and this is of neither. */
void plait_explain_elsewhere(plait_strbuf *s, const plait_plan *plan, const plait_plan_segment *segment,
                             const plait_group *group, double ns) {
    const char *reason;
    double here = 0;
    bool known = plait_explain_alternative(plan, segment, group, segment->device, &here, &reason) && here > 0;
    double times = known ? ns / here : 0;
    if (!known)
        plait_explain_time(s, ns);
    else if (times < 0.01)
        plait_strbuf_append(s, "less than 0.01 times as long");
    else
        plait_strbuf_printf(s, "%.*f times as long", times >= 99.95 ? 0 : times >= 9.995 ? 1 : 2, times);
}

/* Changes first, then running sums, then scratch, which lives for one position. It differs from the bound of the
 * packing only by alignment of scratch. */
void plait_explain_memory(const plait_plan *plan, int device, int64_t *live) {
    int32_t n = plan->devices[device].n_positions;
    for (size_t v = 0; v < plan->n_values; v++) {
        const plait_plan_value *value = &plan->values[v];
        bool counts = value->device == device && value->slot == PLAIT_SLOT_ARENA && !value->elided &&
                      value->first >= 0 && value->alias == v;
        if (!counts) continue; /* an alias has the bytes of the value it takes over, which lasts as long */
        live[value->first] += (int64_t)value->size_bytes;
        if (value->last + 1 < n) live[value->last + 1] -= (int64_t)value->size_bytes;
    }
    for (int32_t p = 1; p < n; p++) live[p] += live[p - 1];
    for (size_t i = 0; i < plan->n_steps; i++) {
        const plait_plan_step *step = &plan->steps[i];
        if (step->kind != PLAIT_STEP_LAUNCH || step->device != device) continue;
        const plait_prepared *prepared = &plan->segments[step->item].prepared;
        for (int g = 0; g < prepared->n_groups; g++)
            live[step->position + g] += (int64_t)prepared->groups[g].scratch_bytes;
    }
}

/* ---- groups ---- */

/* Who made each value last, and what of it has arrived that nobody has read so far. */
typedef struct flow {
    uint32_t *maker;  /* [value] group + 1 */
    uint64_t *unread; /* [value] */
} flow;

/* What arrived counts for the first that reads it, once, so sums over groups are what the plan moves. */
static void follow_group(plait_explained *e, flow *f, uint32_t number) {
    plait_explained_group *row = &e->groups[number];
    const plait_plan_segment *segment = &e->plan->segments[row->segment];
    const plait_group *group = &segment->prepared.groups[row->group];
    for (int k = group->first; k < group->first + group->n; k++) {
        const plait_segment_node *node = &segment->nodes[segment->prepared.order[k]];
        for (int i = 0; i < node->n_inputs; i++) {
            if (!(node->present >> i & 1u)) continue;
            row->in_bytes += f->unread[node->inputs[i].value];
            f->unread[node->inputs[i].value] = 0;
        }
        for (int o = 0; o < node->n_outputs; o++) f->maker[node->outputs[o].value] = number + 1;
    }
}

/* Walks the list: groups in their order, and transfers between them, charged to the group that made what they carry.
 * What the host writes and reads is no move between devices. */
static void follow(plait_explained *e, flow *f) {
    const plait_plan *plan = e->plan;
    for (uint32_t s = 0; s < plan->n_steps; s++) {
        const plait_plan_step *step = &plan->steps[s];
        for (uint32_t g = e->first_group[s]; g < e->first_group[s + 1]; g++) follow_group(e, f, g);
        if (step->kind != PLAIT_STEP_MOVE && step->kind != PLAIT_STEP_SEND &&
            step->kind != PLAIT_STEP_RECEIVE)
            continue;
        const plait_plan_transfer *transfer = &plan->transfers[step->item];
        uint32_t maker = f->maker[transfer->source];
        if (step->kind != PLAIT_STEP_RECEIVE && maker) e->groups[maker - 1].out_bytes += transfer->size_bytes;
        /* On its way: it arrives with the receive. */
        if (step->kind == PLAIT_STEP_SEND) continue;
        f->unread[transfer->target] += transfer->size_bytes;
        f->maker[transfer->target] = 0; /* what came is not its group's work any more */
    }
}

/* Groups are numbered by the list of steps; then the plan is walked once for what they move. */
static plait_status list_groups(plait_explained *e) {
    const plait_plan *plan = e->plan;
    flow f = {.maker = plait_alloc_array(plan->n_values, sizeof *f.maker),
              .unread = plait_alloc_array(plan->n_values, sizeof *f.unread)};
    uint32_t n = 0;
    for (uint32_t s = 0; s < plan->n_steps; s++) {
        const plait_plan_step *step = &plan->steps[s];
        e->first_group[s] = n;
        if (step->kind != PLAIT_STEP_LAUNCH) continue;
        for (int g = 0; g < plan->segments[step->item].prepared.n_groups; g++)
            e->groups[n++] = (plait_explained_group){.step = s, .segment = step->item, .group = g};
    }
    e->first_group[plan->n_steps] = e->n_groups = n;
    bool ready = f.maker && f.unread;
    if (ready) follow(e, &f);
    free(f.maker);
    free(f.unread);
    return ready ? PLAIT_OK : plait_error_memory("explanation", plan->n_values);
}

/* ---- all ---- */

/* The figures with which the plan was made, or those that are known by now. Never measures: explaining a plan must not
 * make devices busy. */
static plait_status find_cost(plait_explained *e) {
    plait_context *context = e->plan->context;
    for (int d = 0; d < context->n_devices; d++)
        if (!context->devices[d].figures.struct_bytes) return PLAIT_OK;
    PLAIT_TRY(plait_cost_init(&e->cost, context));
    e->timed = true;
    return PLAIT_OK;
}

/* `first_group` has an entry for every step, launch or not, so the groups of step s are always [first_group[s],
 * first_group[s + 1]). */
plait_status plait_explain(plait_explained *out, const plait_plan *plan) {
    size_t n_groups = 0;
    *out = (plait_explained){.plan = plan};
    plait_arena_init(&out->arena, 0);
    for (size_t s = 0; s < plan->n_segments; s++) n_groups += (size_t)plan->segments[s].prepared.n_groups;
    out->groups = plait_arena_alloc(&out->arena, n_groups, sizeof *out->groups);
    out->first_group = plait_arena_alloc(&out->arena, plan->n_steps + 1, sizeof *out->first_group);
    if (!out->groups || !out->first_group) return plait_error_memory("explanation", n_groups);
    PLAIT_TRY(list_groups(out));
    return find_cost(out);
}

void plait_explained_deinit(plait_explained *e) {
    plait_arena_deinit(&e->arena);
    plait_cost_deinit(&e->cost);
}
