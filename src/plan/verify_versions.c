/* The part of the proof that follows bytes across devices: a storage may have an instance on each of several devices,
 * and a write in place makes all but one of them old. The steps are walked in their order, counting writes.
 *
 *   - every node of the graph runs exactly once, in program order, with the operands that the graph gives it;
 *   - what a node reads, and what the host reads, is the newest: it holds all writes that came before in the graph;
 *   - a receive comes after its own send, on another device, and waits for it;
 *   - every output is read; state that was written elsewhere is at home when the step ends.
 *
 * Invariant: order inside a device is proved by verify.c; here a segment's nodes count in program order. */
#include "plan/plan.h"

#include "base/alloc.h"
#include "base/status.h"

#include <stdlib.h>
#include <string.h>

#define NOTHING UINT32_MAX /* the instance was never written */

typedef struct history {
    const plait_plan *plan;
    uint32_t *writes; /* [storage] */
    uint32_t *held;   /* [value]: how many of the writes it holds, or NOTHING */
    uint32_t *sent;   /* [transfer]: what the staging holds */
    bool *shown;      /* [output] */
    uint32_t next_node;
} history;

static const char *name_of(const plait_plan *plan, uint32_t value) {
    return plan->graph->storages[plan->values[value].storage].name;
}

static plait_status check_newest(const history *h, uint32_t value, const char *reader) {
    uint32_t storage = h->plan->values[value].storage;
    if (h->held[value] == h->writes[storage]) return PLAIT_OK;
    return plait_error(PLAIT_INTERNAL, "proof: %s reads %s bytes of \"%s\" on %s", reader,
                       h->held[value] == NOTHING ? "unwritten" : "old", name_of(h->plan, value),
                       h->plan->context->devices[h->plan->values[value].device].device->name);
}

/* The operand is the graph's tensor, on an instance of its storage. */
static plait_status check_operand(const history *h, const plait_segment_operand *operand, uint32_t tensor_id,
                                  const char *node) {
    const plait_graph_tensor *tensor = &h->plan->graph->tensors[tensor_id];
    bool same = operand->value < h->plan->n_values &&
                h->plan->values[operand->value].storage == tensor->storage &&
                operand->storage == tensor->storage && operand->view_offset == tensor->offset &&
                operand->shape.dtype == tensor->shape.dtype &&
                memcmp(operand->shape.dims, tensor->shape.dims, sizeof tensor->shape.dims) == 0 &&
                memcmp(operand->shape.strides, tensor->shape.strides, sizeof tensor->shape.strides) == 0 &&
                memcmp(&operand->outer, &tensor->outer, sizeof tensor->outer) == 0;
    if (same) return PLAIT_OK;
    return plait_error(PLAIT_INTERNAL, "proof: an operand of node %s is not the graph's", node);
}

static plait_status run_node(history *h, const plait_segment_node *node) {
    const plait_plan *plan = h->plan;
    if (node->node != h->next_node)
        return plait_error(PLAIT_INTERNAL, "proof: node %u runs where node %u is expected", node->node,
                           h->next_node);
    const plait_graph_node *row = &plan->graph->nodes[h->next_node++];
    if (node->op != row->op || node->n_inputs != row->n_inputs || node->n_outputs != row->n_outputs ||
        node->present != row->present || memcmp(node->attrs, row->attrs, sizeof row->attrs) != 0)
        return plait_error(PLAIT_INTERNAL, "proof: node %s is not the graph's", row->name);
    for (int i = 0; i < node->n_inputs; i++) {
        if (!row->inputs[i]) continue;
        PLAIT_TRY(check_operand(h, &node->inputs[i], row->inputs[i], row->name));
        PLAIT_TRY(check_newest(h, node->inputs[i].value, row->name));
    }
    for (int o = 0; o < node->n_outputs; o++) {
        PLAIT_TRY(check_operand(h, &node->outputs[o], row->outputs[o], row->name));
        uint32_t value = node->outputs[o].value;
        h->held[value] = ++h->writes[plan->values[value].storage];
    }
    return PLAIT_OK;
}

static plait_status receive(history *h, const plait_plan_step *step, size_t s) {
    const plait_plan *plan = h->plan;
    const plait_plan_transfer *transfer = &plan->transfers[step->item];
    const plait_plan_step *send =
        step->waits_for >= 0 && (size_t)step->waits_for < s ? &plan->steps[step->waits_for] : NULL;
    if (!send || send->kind != PLAIT_STEP_SEND || send->item != step->item || h->sent[step->item] == NOTHING)
        return plait_error(PLAIT_INTERNAL, "proof: \"%s\" is received without waiting for its send",
                           name_of(plan, transfer->target));
    uint64_t size = plan->graph->storages[plan->values[transfer->source].storage].size_bytes;
    if (plan->values[transfer->source].storage != plan->values[transfer->target].storage ||
        transfer->size_bytes != size)
        return plait_error(PLAIT_INTERNAL, "proof: a transfer moves %llu bytes of \"%s\" to \"%s\"",
                           (unsigned long long)transfer->size_bytes, name_of(plan, transfer->source),
                           name_of(plan, transfer->target));
    h->held[transfer->target] = h->sent[step->item];
    return PLAIT_OK;
}

static plait_status walk_step(history *h, size_t s) {
    const plait_plan *plan = h->plan;
    const plait_plan_step *step = &plan->steps[s];
    switch (step->kind) {
    case PLAIT_STEP_WRITE_INPUT:
        if (plan->values[plan->inputs[step->item].value].storage != plan->inputs[step->item].storage)
            return plait_error(PLAIT_INTERNAL, "proof: an input is written to \"%s\"",
                               name_of(plan, plan->inputs[step->item].value));
        h->held[plan->inputs[step->item].value] = 0;
        return PLAIT_OK;
    case PLAIT_STEP_LAUNCH:
        for (uint32_t n = 0; n < plan->segments[step->item].n_nodes; n++)
            PLAIT_TRY(run_node(h, &plan->segments[step->item].nodes[n]));
        return PLAIT_OK;
    case PLAIT_STEP_SEND: h->sent[step->item] = h->held[plan->transfers[step->item].source]; return PLAIT_OK;
    case PLAIT_STEP_RECEIVE: return receive(h, step, s);
    case PLAIT_STEP_READ_OUTPUT: break;
    }
    const plait_plan_output *output = &plan->outputs[step->item];
    uint32_t tensor = plan->graph->outputs[output->output].tensor;
    if (plan->values[output->value].storage != plan->graph->tensors[tensor].storage)
        return plait_error(PLAIT_INTERNAL, "proof: output \"%s\" is read from \"%s\"",
                           plan->graph->outputs[output->output].name, name_of(plan, output->value));
    h->shown[output->output] = true;
    return check_newest(h, output->value, "the host");
}

static plait_status check_end(const history *h) {
    const plait_plan *plan = h->plan;
    if (h->next_node != plan->graph->n_nodes)
        return plait_error(PLAIT_INTERNAL, "proof: node %u never runs", h->next_node);
    for (size_t o = 0; o < plan->graph->n_outputs; o++)
        if (!h->shown[o])
            return plait_error(PLAIT_INTERNAL, "proof: output \"%s\" is never read",
                               plan->graph->outputs[o].name);
    for (uint32_t v = 0; v < plan->n_values; v++)
        if (plan->values[v].slot == PLAIT_SLOT_STATE) PLAIT_TRY(check_newest(h, v, "the next step"));
    for (uint32_t s = 0; s < plan->graph->n_storages; s++) { /* written, but not even present at home */
        if (plan->graph->storages[s].kind != PLAIT_STORAGE_STATE || h->writes[s] == 0) continue;
        const plait_resident *entry =
            plait_residence_find(plan->residence, plan->graph->storages[s].name, -1);
        if (!entry || !plait_plan_value_on(plan, s, entry->device))
            return plait_error(PLAIT_INTERNAL, "proof: state \"%s\" is written away from home",
                               plan->graph->storages[s].name);
    }
    return PLAIT_OK;
}

static plait_status walk(history *h) {
    for (uint32_t v = 0; v < h->plan->n_values; v++) {
        uint32_t slot = h->plan->values[v].slot;
        h->held[v] = slot == PLAIT_SLOT_ARENA || slot == PLAIT_SLOT_INPUTS ? NOTHING : 0;
    }
    for (size_t t = 0; t < h->plan->n_transfers; t++) h->sent[t] = NOTHING;
    for (size_t s = 0; s < h->plan->n_steps; s++) PLAIT_TRY(walk_step(h, s));
    return check_end(h);
}

plait_status plait_plan_verify_versions(const plait_plan *plan) {
    history h = {.plan = plan};
    h.writes = plait_alloc_array(plan->graph->n_storages, sizeof *h.writes);
    h.held = plait_alloc_array(plan->n_values, sizeof *h.held);
    h.sent = plait_alloc_array(plan->n_transfers, sizeof *h.sent);
    h.shown = plait_alloc_array(plan->graph->n_outputs, sizeof *h.shown);
    bool all = h.writes && h.held && h.sent && h.shown;
    plait_status status = all ? walk(&h) : plait_error_memory("proof", plan->n_values * sizeof *h.held);
    free(h.writes);
    free(h.held);
    free(h.sent);
    free(h.shown);
    return status;
}
