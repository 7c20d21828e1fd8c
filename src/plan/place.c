/* Placement: every node gets a device and a cause. Order of reasons: a write in place follows its storage, then the
 * user's pins, then the device where the node's weights live, then the first device of the list; a device that lacks
 * the op is passed over, and the placement remembers what it said.
 *
 * Invariant: the chosen device supports the node and, when the node writes state, holds that state. */
#include "plan/plan.h"

#include "base/status.h"

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

/* Device of the state that the node writes, or -1. */
static int state_device(const plait_plan *plan, const plait_graph_node *node) {
    if (node->op->writes_input < 0) return -1;
    const plait_graph *graph = plan->graph;
    const plait_graph_storage *storage = &graph->storages[graph->tensors[node->outputs[0]].storage];
    if (storage->kind != PLAIT_STORAGE_STATE) return -1;
    const plait_resident *entry = plait_residence_find(plan->residence, storage->name, -1);
    return entry ? entry->device : -1;
}

/* Device of the largest weight among the inputs, or -1. */
static int weight_device(const plait_plan *plan, const plait_graph_node *node) {
    const plait_graph *graph = plan->graph;
    uint64_t largest = 0;
    int device = -1;
    for (int i = 0; i < node->n_inputs; i++) {
        if (!node->inputs[i]) continue;
        const plait_graph_storage *storage = &graph->storages[graph->tensors[node->inputs[i]].storage];
        if (storage->kind != PLAIT_STORAGE_WEIGHT) continue;
        const plait_resident *entry = plait_residence_find(plan->residence, storage->name, -1);
        if (entry && entry->size_bytes > largest) largest = entry->size_bytes, device = entry->device;
    }
    return device;
}

/* Every weight and state that the node reads must be on the device: residence puts them where readers run. */
static bool holds_inputs(const plait_plan *plan, const plait_graph_node *node, int device) {
    const plait_graph *graph = plan->graph;
    for (int i = 0; i < node->n_inputs; i++) {
        if (!node->inputs[i]) continue;
        const plait_graph_storage *storage = &graph->storages[graph->tensors[node->inputs[i]].storage];
        bool stored = storage->kind == PLAIT_STORAGE_WEIGHT || storage->kind == PLAIT_STORAGE_STATE;
        if (stored && !plait_residence_find(plan->residence, storage->name, device)) return false;
    }
    return true;
}

static bool supported(const plait_plan *plan, const plait_graph_node *node, const plait_op_use *use, int d,
                      char *reason, size_t reason_bytes) {
    plait_device *device = plan->context->devices[d].device;
    plait_encoding encodings[PLAIT_MAX_INPUTS] = {0};
    if (!holds_inputs(plan, node, d)) {
        snprintf(reason, reason_bytes, "%s does not hold what it reads", device->name);
        return false;
    }
    for (int i = 0; i < node->n_inputs; i++) {
        const plait_graph_storage *storage =
            &plan->graph->storages[plan->graph->tensors[node->inputs[i]].storage];
        const plait_resident *entry = node->inputs[i] && storage->kind == PLAIT_STORAGE_WEIGHT
                                          ? plait_residence_find(plan->residence, storage->name, d)
                                          : NULL;
        if (entry) encodings[i] = entry->encoding;
    }
    return device->vtable->supports(device, use, encodings, reason, reason_bytes);
}

static plait_status place_node(plait_plan *plan, uint32_t n) {
    const plait_graph_node *node = &plan->graph->nodes[n];
    plait_placement *placement = &plan->placements[n];
    const plait_residence *residence = plan->residence;
    plait_op_use use;
    plait_graph_use(plan->graph, n, NULL, &use);
    int preferred = state_device(plan, node);
    plait_cause cause = PLAIT_CAUSE_STATE;
    for (int i = 0; preferred < 0 && i < residence->n_pins; i++)
        if (plait_pin_matches(residence->pins[i].pattern, node->name))
            preferred = residence->pins[i].device, cause = PLAIT_CAUSE_PINNED;
    if (preferred < 0) preferred = weight_device(plan, node), cause = PLAIT_CAUSE_WEIGHTS;
    if (preferred < 0) preferred = 0, cause = PLAIT_CAUSE_FIRST;
    if (plan->context->n_devices == 1) cause = PLAIT_CAUSE_ONLY_DEVICE;
    char reason[sizeof placement->reason] = "";
    for (int k = -1; k < plan->context->n_devices; k++) {
        int d = k < 0 ? preferred : k;
        if (k == preferred) continue;
        if (supported(plan, node, &use, d, k < 0 ? placement->reason : reason, sizeof reason)) {
            placement->device = d;
            placement->cause = k < 0 ? cause : PLAIT_CAUSE_LACKING;
            if (k < 0) placement->reason[0] = '\0';
            return PLAIT_OK;
        }
    }
    int device;
    PLAIT_TRY(plait_place_first(plan->context, residence->pins, residence->n_pins, node->name, &use, &device,
                                &cause));
    return plait_error(PLAIT_UNSUPPORTED, "node %s (%s): no device that runs it holds what it reads; %s",
                       node->name, node->op->name, placement->reason);
}

plait_status plait_plan_place(plait_plan *plan) {
    for (uint32_t n = 0; n < plan->graph->n_nodes; n++) PLAIT_TRY(place_node(plan, n));
    return PLAIT_OK;
}
