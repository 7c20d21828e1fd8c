/* Placement: every node gets a device and a cause, starting from where the residence has weights and state.
 *
 * The beginning: a write in place goes where its storage lives, then the user's pins of nodes, then state that is read,
 * then the largest weight, then the block, then what makes the node's largest operand; a device that lacks the op is
 * passed over for the one on which the node and the ways there and back cost least. Then moves.c looks for groups and
 * nodes that are better off elsewhere. docs/placement.md tells it for people.
 *
 * What a device takes only dense is copied for it, where that costs less than going elsewhere (copies.c).
 *
 * State that lives elsewhere travels (segment.c); weights never do. Invariant: the chosen device supports the node and
 * holds its weights. */
#include "plan/place.h"

#include "base/alloc.h"
#include "base/status.h"
#include "base/strbuf.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The same words in text, JSON and page. */
const char *plait_cause_text(plait_cause cause) {
    switch (cause) {
    case PLAIT_CAUSE_ONLY_DEVICE: return "the only device";
    case PLAIT_CAUSE_FIRST: return "first device of the list";
    case PLAIT_CAUSE_PINNED: return "pinned by the user";
    case PLAIT_CAUSE_WEIGHTS: return "weights live there";
    case PLAIT_CAUSE_STATE: return "state lives there";
    case PLAIT_CAUSE_BLOCK: return "its block lives there";
    case PLAIT_CAUSE_NEIGHBOUR: return "what it reads is made there";
    case PLAIT_CAUSE_COST: return "fastest there";
    case PLAIT_CAUSE_RATIO: return "by the ratio";
    case PLAIT_CAUSE_ROOM: return "no room on the devices before";
    case PLAIT_CAUSE_LACKING: return "the preferred device lacks it";
    case PLAIT_CAUSE_READERS: return "its readers run there";
    case PLAIT_CAUSE_COPY: return "copied for its reader";
    }
    return "?";
}

/* ---- nobody ---- */

/* `bound`: with the plan whose weights decide, or NULL while residence is still open. Devices are asked again, so that
 * this message needs no table and can be made anywhere. */
plait_status plait_place_nobody(const plait_context *context, const plait_graph *graph, uint32_t n,
                                const plait_plan *bound) {
    plait_op_use use;
    plait_strbuf text;
    bool first = true;
    plait_graph_use(graph, n, NULL, &use);
    plait_strbuf_init(&text, 0);
    for (int i = 0; i < use.n_inputs; i++) {
        const plait_operand *o = &use.inputs[i];
        if (!plait_op_has(&use, i)) continue;
        plait_strbuf_printf(&text, "%s%s [%lld, %lld, %lld, %lld]", first ? "" : ", ",
                            plait_dtype_name(o->dtype), (long long)o->dims[0], (long long)o->dims[1],
                            (long long)o->dims[2], (long long)o->dims[3]);
        first = false;
    }
    plait_strbuf_append(&text, ")");
    for (int d = 0; d < context->n_devices; d++) {
        char reason[120];
        plait_weigh_device(context, graph, n, &use, bound, d, reason, sizeof reason, NULL);
        plait_strbuf_printf(&text, "; %s: %s", context->devices[d].device->name, reason);
    }
    plait_status status = plait_error(PLAIT_UNSUPPORTED, "node %u \"%s\": no device runs %s(%s", n,
                                      graph->nodes[n].name, use.op->name, plait_strbuf_text(&text));
    if (plait_strbuf_status(&text) != PLAIT_OK) status = plait_strbuf_status(&text);
    plait_strbuf_deinit(&text);
    return status;
}

/* ---- one device ---- */

/* Every node is on device 0, which is what the zeroed placement says. Still each use is asked about: an op that the
 * device lacks must fail here, with its reason, not in a driver. */
static plait_status ask_one(plait_plan *plan, uint16_t *copies) {
    char reason[120];
    plait_op_use use;
    for (uint32_t n = 0; n < plan->graph->n_nodes; n++) {
        uint32_t first = plan->graph->use_nodes[plan->graph->use_of[n]];
        copies[n] = copies[first];
        if (first == n || !plait_weigh_alike(plan->context, plan->graph, first, n, plan)) {
            plait_graph_use(plan->graph, n, NULL, &use);
            if (!plait_weigh_device(plan->context, plan->graph, n, &use, plan, 0, reason, sizeof reason,
                                    &copies[n]))
                return plait_place_nobody(plan->context, plan->graph, n, plan);
        }
        plan->placements[n] = (plait_placement){.cause = PLAIT_CAUSE_ONLY_DEVICE, .reason = ""};
    }
    return PLAIT_OK;
}

/* The way through placement that costs no figures and no weighing: with one device nothing is measured. */
static plait_status place_on_one(plait_plan *plan) {
    plait_arena scratch;
    plait_arena_init_pooled(&scratch, &plan->context->pool);
    uint16_t *copies = plait_arena_alloc(&scratch, plan->graph->n_nodes, sizeof *copies);
    plait_status status =
        copies ? ask_one(plan, copies) : plait_error_memory("placement", plan->graph->n_nodes);
    if (status == PLAIT_OK) status = plait_place_copies(plan, copies, NULL);
    plait_arena_deinit(&scratch);
    return status;
}

/* ---- what a node wants ---- */

/* NULL for what is not stored: inputs and temporaries. */
static const plait_resident *resident_of(const plait_placer *p, uint32_t tensor) {
    return tensor ? p->plan->residents[p->plan->graph->tensors[tensor].storage] : NULL;
}

/* Home of the state that the node writes, or else reads; -1 when there is none. Only a state's first entry is asked,
 * for it has one. */
static int state_device(const plait_placer *p, const plait_graph_node *node, bool written) {
    for (int i = 0; i < node->n_inputs; i++) {
        const plait_resident *entry = resident_of(p, node->inputs[i]);
        if (!entry || entry->kind != PLAIT_STORAGE_STATE) continue;
        if (written && i != node->op->writes_input) continue;
        return entry->device;
    }
    return -1;
}

/* The first pin that names the node or its block; one that names a weight of its own takes it along, if it comes first.
 * The rank is the pin's place in the user's list, so what was written first wins, as documented, whatever it names. */
static int pinned_device(const plait_placer *p, const plait_graph_node *node) {
    const plait_residence *r = p->plan->residence;
    int rank = 0, weight_rank = 0;
    if (r->n_pins == 0) return -1;
    int device = plait_residence_pin(r, node->name, node->block, &rank);
    for (int i = 0; i < node->n_inputs; i++) {
        const plait_resident *entry = resident_of(p, node->inputs[i]);
        if (!entry || entry->kind != PLAIT_STORAGE_WEIGHT) continue;
        int pin = plait_residence_pin(r, entry->name, entry->block, &weight_rank);
        if (pin >= 0 && (device < 0 || weight_rank < rank)) device = pin, rank = weight_rank;
    }
    return device;
}

/* Where the largest weight of the node lives, if it lives on one device only: with copies the node may choose. */
static int weight_device(const plait_placer *p, const plait_graph_node *node) {
    uint64_t largest = 0;
    int device = -1;
    for (int i = 0; i < node->n_inputs; i++) {
        const plait_resident *entry = resident_of(p, node->inputs[i]);
        if (!entry || entry->kind != PLAIT_STORAGE_WEIGHT || entry->next >= 0) continue;
        if (entry->size_bytes > largest) largest = entry->size_bytes, device = entry->device;
    }
    return device;
}

/* The device that makes the largest value that the node reads. */
static int neighbour_device(const plait_placer *p, const plait_graph_node *node) {
    float largest = -1;
    int device = -1;
    for (int i = 0; i < node->n_inputs; i++) {
        uint32_t value = node->inputs[i] ? plait_weighed_value(&p->weighed, node->inputs[i]) : UINT32_MAX;
        if (value == UINT32_MAX || p->weighed.bytes[value] <= largest) continue;
        largest = p->weighed.bytes[value];
        device = p->device[p->plan->graph->tensors[node->inputs[i]].node];
    }
    return device;
}

/* ---- the beginning ---- */

/* The wish that counts, and why; -1: none. What the node's neighbours want is not in it. The order is by what it would
 * cost to do otherwise: written state would have to go home again in every step; a pin is the user's word; state that
 * is read is mostly larger than the node's other operands; weights cannot travel at all, but if they lie on several
 * devices leave a choice. */
static int wish_of(const plait_placer *p, const plait_graph_node *node, plait_cause *cause) {
    int device = state_device(p, node, true);
    *cause = PLAIT_CAUSE_STATE;
    if (device < 0) device = pinned_device(p, node), *cause = PLAIT_CAUSE_PINNED;
    if (device < 0) device = state_device(p, node, false), *cause = PLAIT_CAUSE_STATE;
    if (device < 0) device = weight_device(p, node), *cause = PLAIT_CAUSE_WEIGHTS;
    if (device < 0 && node->block >= 0)
        device = plait_residence_block_device(p->plan->residence, node->block), *cause = PLAIT_CAUSE_BLOCK;
    return device;
}

/* All wishes; nodes without one hear that of the first who reads them. Walked backwards, so that a chain of nodes
 * without weights hears what stands at its end: what prepares an operand is best made where it is used. */
static void find_wishes(plait_placer *p) {
    const plait_graph *graph = p->plan->graph;
    for (uint32_t n = 0; n < graph->n_nodes; n++) {
        plait_cause cause;
        p->device[n] = p->later[n] = -1;
        p->wish[n] = wish_of(p, &graph->nodes[n], &cause);
        p->cause[n] = (unsigned char)cause;
    }
    for (size_t n = graph->n_nodes; n-- > 0;) {
        const plait_graph_node *node = &graph->nodes[n];
        int wish = p->wish[n] >= 0 ? p->wish[n] : p->later[n];
        for (int i = 0; wish >= 0 && i < node->n_inputs; i++) {
            uint32_t maker = node->inputs[i] ? graph->tensors[node->inputs[i]].node : PLAIT_NO_NODE;
            if (maker != PLAIT_NO_NODE) p->later[maker] = wish;
        }
    }
}

/* What it costs to have the node's operands on a device, from where their makers are now. */
static double cost_of_operands(const plait_placer *p, uint32_t n, int d) {
    const plait_weighed *w = &p->weighed;
    const plait_graph_node *node = &p->plan->graph->nodes[n];
    double ns = 0;
    for (int i = 0; i < node->n_inputs; i++) {
        uint32_t value = node->inputs[i] ? plait_weighed_value(w, node->inputs[i]) : UINT32_MAX;
        if (value == UINT32_MAX) continue;
        int from = p->device[p->plan->graph->tensors[node->inputs[i]].node];
        if (from >= 0) ns += plait_weigh_move(w, from, d, (double)w->bytes[value]);
    }
    return ns;
}

/* The device on which the node costs least, its operands' way there and its results' way back to `home` included. */
static int cheapest_device(const plait_placer *p, uint32_t n, int home) {
    const plait_weighed *w = &p->weighed;
    int best = -1;
    double least = INFINITY;
    for (int d = 0; d < w->n_devices; d++) {
        if (!(w->runs[n] >> d & 1u)) continue;
        double ns = (double)w->ns[(size_t)n * (size_t)w->n_devices + (size_t)d] + cost_of_operands(p, n, d);
        for (uint32_t v = w->first_value[n]; home >= 0 && v < w->first_value[n + 1]; v++)
            ns += plait_weigh_move(w, d, home, (double)w->bytes[v]);
        if (p->plan->residence->idle >> d & 1u) ns += 1e30; /* a share of 0: the last resort */
        if (ns < least) least = ns, best = d;
    }
    return best;
}

/* Neighbours come before readers: what reads a value where it is made costs nothing now, what will be read elsewhere
 * costs a transfer either way.
 *
 * A node is held (no move may take it away) where the user wants it, or where it writes state at home. It may run there
 * even with copies of its operands; others go to the cheapest device, on which copies may cost less than the way. */
static void place_first(plait_placer *p, uint32_t n) {
    const plait_weighed *w = &p->weighed;
    const plait_graph_node *node = &p->plan->graph->nodes[n];
    plait_placement *out = &p->plan->placements[n];
    int wish = p->wish[n];
    out->cause = (plait_cause)p->cause[n];
    out->reason = "";
    if (wish < 0) wish = neighbour_device(p, node), out->cause = PLAIT_CAUSE_NEIGHBOUR;
    if (wish < 0) wish = p->later[n];
    if (wish < 0) wish = p->start, out->cause = PLAIT_CAUSE_COST;
    out->device = wish;
    bool holds = wish == p->wish[n] && (p->cause[n] == PLAIT_CAUSE_PINNED ||
                                        (p->cause[n] == PLAIT_CAUSE_STATE && node->op->writes_input >= 0));
    bool runs = w->runs[n] >> wish & 1u;
    size_t at = (size_t)n * (size_t)w->n_devices + (size_t)wish;
    if (!runs || (w->copies[at] && !holds)) out->device = cheapest_device(p, n, wish);
    if (out->device != wish) {
        out->cause = PLAIT_CAUSE_LACKING;
        out->reason = w->why[at];
    }
    p->device[n] = out->device;
    p->held[n] = holds && runs;
}

/* For graphs in which nothing is stored anywhere: the device that would take the least time for all of it. Only the
 * first device that runs a lacking node is looked at: a guess that moves will mend. */
static int find_start(const plait_placer *p) {
    const plait_weighed *w = &p->weighed;
    int best = 0;
    double least = INFINITY;
    for (int d = 0; d < w->n_devices; d++) {
        double ns = p->plan->residence->idle >> d & 1u ? 1e30 : 0;
        for (uint32_t n = 0; n < p->plan->graph->n_nodes; n++) {
            int e = d; /* what it lacks goes to the next best, and back */
            if (!(w->runs[n] >> d & 1u)) {
                e = __builtin_ctzll(w->runs[n]);
                ns += plait_weigh_move(w, d, e, 0) + plait_weigh_move(w, e, d, 0);
            }
            ns += (double)w->ns[(size_t)n * (size_t)w->n_devices + (size_t)e];
        }
        if (ns < least) least = ns, best = d;
    }
    return best;
}

/* ---- all of it ---- */

static plait_status make_tables(plait_placer *p) {
    size_t n = p->plan->graph->n_nodes;
    p->device = plait_alloc_array(n, sizeof *p->device);
    p->wish = plait_alloc_array(n, sizeof *p->wish);
    p->later = plait_alloc_array(n, sizeof *p->later);
    p->cause = plait_alloc_array(n, sizeof *p->cause);
    p->held = plait_alloc_array(n, sizeof *p->held);
    if (p->device && p->wish && p->later && p->cause && p->held) return PLAIT_OK;
    return plait_error_memory("placement", n);
}

/* Inputs that the chosen devices take only dense are copied. After the moves: only now is it settled where nodes run,
 * and so what has to be dense for whom. */
static plait_status copy_operands(plait_placer *p) {
    size_t n_nodes = p->plan->graph->n_nodes, n_devices = (size_t)p->weighed.n_devices;
    uint16_t *copies = plait_alloc_array(n_nodes, sizeof *copies);
    if (!copies) return plait_error_memory("placement", n_nodes * sizeof *copies);
    for (size_t n = 0; n < n_nodes; n++) {
        p->plan->placements[n].device = p->device[n];
        copies[n] = p->weighed.copies[n * n_devices + (size_t)p->device[n]];
    }
    plait_status status = plait_place_copies(p->plan, copies, &p->weighed);
    free(copies);
    return status;
}

/* The weighing stays with the plan, so that it can say what else was possible. It owns memory of its own; what is left
 * here is zeroed, so that the caller's deinit does nothing. */
static plait_status keep(plait_placer *p) {
    plait_plan *plan = p->plan;
    plan->weighed = plait_arena_alloc(&plan->arena, 1, sizeof *plan->weighed);
    if (!plan->weighed) return plait_error_memory("placement", sizeof *plan->weighed);
    *plan->weighed = p->weighed;
    p->weighed = (plait_weighed){0};
    return PLAIT_OK;
}

/* First everything at its wish, then moves by cost: starting from wishes keeps what hardly differs where its weights
 * and state are, and moves have to win something. */
static plait_status place_on_several(plait_placer *p) {
    const plait_graph *graph = p->plan->graph;
    for (uint32_t n = 0; n < graph->n_nodes; n++)
        if (!p->weighed.runs[n]) return plait_place_nobody(p->plan->context, graph, n, p->plan);
    PLAIT_TRY(make_tables(p));
    find_wishes(p);
    p->start = find_start(p);
    for (uint32_t n = 0; n < graph->n_nodes; n++) place_first(p, n);
    PLAIT_TRY(plait_place_moves(p));
    PLAIT_TRY(copy_operands(p));
    return keep(p);
}

/* Figures stay in the plan: forecasts and explanations are made from the same numbers. */
plait_status plait_plan_place(plait_plan *plan) {
    plait_placer p = {.plan = plan};
    plait_cost *cost = &plan->cost;
    if (plan->context->n_devices == 1) return place_on_one(plan);
    plait_status status = plait_cost_init(cost, plan->context);
    if (status == PLAIT_OK)
        status = plait_weigh(&p.weighed, plan->graph, plan->context, cost, plan->steps_expected, plan);
    if (status == PLAIT_OK) status = place_on_several(&p);
    plait_weighed_deinit(&p.weighed);
    free(p.device);
    free(p.wish);
    free(p.later);
    free(p.cause);
    free(p.held);
    return status;
}
