/* Placement: every node gets a device and a cause. Order of reasons: a write in place follows its state, then the
 * user's pins of nodes, then the device where state that the node reads lives, then that of its largest weight, then
 * the first device of the list; a device that lacks the op is passed over in list order, and the placement remembers
 * what it said. State that lives elsewhere travels (segment.c); weights never do.
 *
 * Invariant: the chosen device supports the node and holds its weights. */
#include "plan/plan.h"

#include "base/glob.h"
#include "base/status.h"
#include "base/strbuf.h"

#include <stdio.h>
#include <string.h>

const char *plait_cause_text(plait_cause cause) {
    switch (cause) {
    case PLAIT_CAUSE_ONLY_DEVICE: return "the only device";
    case PLAIT_CAUSE_FIRST: return "first device of the list";
    case PLAIT_CAUSE_PINNED: return "pinned by the user";
    case PLAIT_CAUSE_WEIGHTS: return "weights live there";
    case PLAIT_CAUSE_STATE: return "state lives there";
    case PLAIT_CAUSE_LACKING: return "the preferred device lacks it";
    case PLAIT_CAUSE_READERS: return "its readers run there";
    }
    return "?";
}

/* ---- preference ---- */

/* Home of the state that the node writes, or else reads; -1 when there is none. */
static int state_device(const plait_residence *residence, const plait_graph *graph,
                        const plait_graph_node *node, bool written) {
    for (int i = 0; i < node->n_inputs; i++) {
        const plait_graph_storage *storage = &graph->storages[graph->tensors[node->inputs[i]].storage];
        if (!node->inputs[i] || storage->kind != PLAIT_STORAGE_STATE) continue;
        if (written && i != node->op->writes_input) continue;
        const plait_resident *entry = plait_residence_find(residence, storage->name, -1);
        if (entry) return entry->device;
    }
    return -1;
}

/* Device of the largest weight among the inputs, where it lives or, before that is decided, where it is pinned. */
static int weight_device(const plait_residence *residence, const plait_graph *graph,
                         const plait_graph_node *node, plait_cause *out_cause) {
    uint64_t largest = 0;
    int device = -1;
    for (int i = 0; i < node->n_inputs; i++) {
        const plait_graph_storage *storage = &graph->storages[graph->tensors[node->inputs[i]].storage];
        if (!node->inputs[i] || storage->kind != PLAIT_STORAGE_WEIGHT || storage->size_bytes <= largest)
            continue;
        const plait_resident *entry = plait_residence_find(residence, storage->name, -1);
        int pinned = plait_residence_pin(residence, storage->name);
        if (!entry && pinned < 0) continue;
        largest = storage->size_bytes;
        device = pinned >= 0 ? pinned : entry->device;
        *out_cause = pinned >= 0 ? PLAIT_CAUSE_PINNED : PLAIT_CAUSE_WEIGHTS;
    }
    return device;
}

static int preferred_device(const plait_residence *residence, const plait_graph *graph,
                            const plait_graph_node *node, plait_cause *out_cause) {
    int device = state_device(residence, graph, node, true);
    *out_cause = PLAIT_CAUSE_STATE;
    if (device < 0) device = plait_residence_pin(residence, node->name), *out_cause = PLAIT_CAUSE_PINNED;
    if (device < 0) device = state_device(residence, graph, node, false), *out_cause = PLAIT_CAUSE_STATE;
    if (device < 0) device = weight_device(residence, graph, node, out_cause);
    if (device < 0) device = 0, *out_cause = PLAIT_CAUSE_FIRST;
    if (residence->context->n_devices == 1) *out_cause = PLAIT_CAUSE_ONLY_DEVICE;
    return device;
}

/* ---- what a device can do ---- */

/* Fills the encodings of the node's weights on the device; false when one is not there. */
static bool holds_weights(const plait_residence *residence, const plait_graph *graph,
                          const plait_graph_node *node, int device, plait_encoding *encodings) {
    for (int i = 0; i < node->n_inputs; i++) {
        const plait_graph_storage *storage = &graph->storages[graph->tensors[node->inputs[i]].storage];
        if (!node->inputs[i] || storage->kind != PLAIT_STORAGE_WEIGHT) continue;
        const plait_resident *entry = plait_residence_find(residence, storage->name, device);
        if (!entry) return false;
        encodings[i] = entry->encoding;
    }
    return true;
}

static bool device_takes(const plait_residence *residence, const plait_graph *graph, uint32_t n,
                         const plait_op_use *use, bool bound, int d, char *reason, size_t reason_bytes) {
    plait_device *device = residence->context->devices[d].device;
    plait_encoding encodings[PLAIT_MAX_INPUTS] = {0};
    reason[0] = '\0';
    if (bound && !holds_weights(residence, graph, &graph->nodes[n], d, encodings)) {
        snprintf(reason, reason_bytes, "its weights are not there");
        return false;
    }
    return device->vtable->supports(device, use, bound ? encodings : NULL, reason, reason_bytes);
}

static plait_status nobody_takes(const plait_residence *residence, const plait_graph *graph, uint32_t n,
                                 const plait_op_use *use, bool bound) {
    plait_strbuf text;
    bool first = true;
    plait_strbuf_init(&text, 0);
    for (int i = 0; i < use->n_inputs; i++) {
        const plait_operand *o = &use->inputs[i];
        if (!plait_op_has(use, i)) continue;
        plait_strbuf_printf(&text, "%s%s [%lld, %lld, %lld, %lld]", first ? "" : ", ",
                            plait_dtype_name(o->dtype), (long long)o->dims[0], (long long)o->dims[1],
                            (long long)o->dims[2], (long long)o->dims[3]);
        first = false;
    }
    plait_strbuf_append(&text, ")");
    for (int d = 0; d < residence->context->n_devices; d++) {
        char reason[120];
        device_takes(residence, graph, n, use, bound, d, reason, sizeof reason);
        plait_strbuf_printf(&text, "; %s: %s", residence->context->devices[d].device->name, reason);
    }
    plait_status status = plait_error(PLAIT_UNSUPPORTED, "node %u \"%s\": no device runs %s(%s", n,
                                      graph->nodes[n].name, use->op->name, plait_strbuf_text(&text));
    if (plait_strbuf_status(&text) != PLAIT_OK) status = plait_strbuf_status(&text);
    plait_strbuf_deinit(&text);
    return status;
}

plait_status plait_place_node(const plait_residence *residence, const plait_graph *graph, uint32_t n,
                              bool bound, plait_placement *out) {
    plait_op_use use;
    plait_placement placement = {0};
    char reason[sizeof placement.reason];
    plait_graph_use(graph, n, NULL, &use);
    int preferred = preferred_device(residence, graph, &graph->nodes[n], &placement.cause);
    for (int k = -1; k < residence->context->n_devices; k++) {
        placement.device = k < 0 ? preferred : k;
        if (k == preferred) continue;
        if (device_takes(residence, graph, n, &use, bound, placement.device, reason, sizeof reason)) {
            if (k >= 0) placement.cause = PLAIT_CAUSE_LACKING;
            *out = placement;
            return PLAIT_OK;
        }
        if (k < 0) snprintf(placement.reason, sizeof placement.reason, "%s", reason);
    }
    return nobody_takes(residence, graph, n, &use, bound);
}

plait_status plait_plan_place(plait_plan *plan) {
    for (uint32_t n = 0; n < plan->graph->n_nodes; n++)
        PLAIT_TRY(plait_place_node(plan->residence, plan->graph, n, true, &plan->placements[n]));
    return PLAIT_OK;
}
