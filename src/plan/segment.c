/* Segments: runs of neighbouring nodes of one device, the transfers between them, and what each device prepares of
 * its segments. The result is the list of steps: one command each, in an order that respects every dependency.
 *
 * Invariant: when a step is reached, every value it reads has been written by an earlier step, on the same device. */
#include "plan/plan.h"

#include "base/alloc.h"
#include "base/size.h"
#include "base/status.h"

#include <stdlib.h>
#include <string.h>

plait_plan_value *plait_plan_value_on(const plait_plan *plan, uint32_t storage, int device) {
    uint32_t v = plan->value_of[(size_t)device * plan->graph->n_storages + storage];
    return v ? &plan->values[v - 1] : NULL;
}

static uint32_t value_index(const plait_plan *plan, const plait_plan_value *value) {
    return (uint32_t)(value - plan->values);
}

/* ---- growing the tables ---- */

/* The tables are arrays in the plan's arena: room for the worst case is taken once, so nothing is moved. */
static plait_status reserve_tables(plait_plan *plan) {
    const plait_graph *graph = plan->graph;
    size_t n_devices = (size_t)plan->context->n_devices, n_writes = 0;
    for (size_t n = 0; n < graph->n_nodes; n++) n_writes += graph->nodes[n].op->writes_input >= 0;
    plan->value_capacity = graph->n_storages * n_devices;
    plan->segment_capacity = graph->n_nodes;
    plan->input_capacity = plan->value_capacity;
    /* A storage goes to each device once, and again after each write in place. */
    plan->transfer_capacity = plan->value_capacity + n_writes * n_devices;
    plan->step_capacity =
        graph->n_nodes + 2 * plan->transfer_capacity + plan->input_capacity + graph->n_outputs;
    plan->value_of = plait_arena_alloc(&plan->arena, plan->value_capacity, sizeof *plan->value_of);
    plan->versions = plait_arena_alloc(&plan->arena, graph->n_storages, sizeof *plan->versions);
    plan->values = plait_arena_alloc(&plan->arena, plan->value_capacity, sizeof *plan->values);
    plan->segments = plait_arena_alloc(&plan->arena, plan->segment_capacity, sizeof *plan->segments);
    plan->transfers = plait_arena_alloc(&plan->arena, plan->transfer_capacity, sizeof *plan->transfers);
    plan->inputs = plait_arena_alloc(&plan->arena, plan->input_capacity, sizeof *plan->inputs);
    plan->outputs = plait_arena_alloc(&plan->arena, graph->n_outputs, sizeof *plan->outputs);
    plan->steps = plait_arena_alloc(&plan->arena, plan->step_capacity, sizeof *plan->steps);
    if (plan->value_of && plan->versions && plan->values && plan->segments && plan->transfers &&
        plan->inputs && plan->outputs && plan->steps)
        return PLAIT_OK;
    return plait_error_memory("plan tables", plan->step_capacity * sizeof *plan->steps);
}

static plait_plan_step *add_step(plait_plan *plan, plait_step_kind kind, int device, size_t item) {
    plait_plan_step *step = &plan->steps[plan->n_steps++];
    *step = (plait_plan_step){.kind = kind, .device = device, .item = (uint32_t)item, .waits_for = -1};
    return step;
}

/* ---- values ---- */

static plait_status add_value(plait_plan *plan, uint32_t storage, int device, plait_plan_value **out) {
    const plait_graph_storage *row = &plan->graph->storages[storage];
    plait_plan_value *value = &plan->values[plan->n_values];
    *value = (plait_plan_value){.storage = storage,
                                .device = device,
                                .slot = PLAIT_SLOT_ARENA,
                                .offset = PLAIT_NO_OFFSET,
                                .first = -1,
                                .last = -1,
                                .alias = (uint32_t)plan->n_values};
    if (!plait_align_u64(row->size_bytes, plan->context->devices[device].info.alignment, &value->size_bytes))
        return plait_error(PLAIT_OUT_OF_RANGE, "value \"%s\": %llu bytes", row->name,
                           (unsigned long long)row->size_bytes);
    plan->n_values++;
    plan->value_of[(size_t)device * plan->graph->n_storages + storage] = (uint32_t)plan->n_values;
    *out = value;
    return PLAIT_OK;
}

/* A weight or state where the residence has it. */
static plait_status add_resident(plait_plan *plan, uint32_t storage, int device, plait_plan_value **out) {
    const plait_graph_storage *row = &plan->graph->storages[storage];
    const plait_resident *entry = plait_residence_find(plan->residence, row->name, device);
    if (!entry)
        return plait_error(PLAIT_INTERNAL, "\"%s\" is not on %s", row->name,
                           plan->context->devices[device].device->name);
    if (memcmp(entry->shape.dims, plan->graph->tensors[row->root].shape.dims, sizeof entry->shape.dims) !=
            0 ||
        entry->shape.dtype != plan->graph->tensors[row->root].shape.dtype)
        return plait_error(PLAIT_INVALID_ARGUMENT, "\"%s\" has another type or shape in the residence",
                           row->name);
    PLAIT_TRY(add_value(plan, storage, device, out));
    (*out)->slot = entry->slot;
    (*out)->offset = entry->offset;
    (*out)->size_bytes = entry->size_bytes;
    (*out)->encoding = entry->encoding;
    return PLAIT_OK;
}

static plait_status add_input(plait_plan *plan, uint32_t storage, int device, plait_plan_value **out) {
    plait_plan_input *input = &plan->inputs[plan->n_inputs];
    plait_plan_device *row = &plan->devices[device];
    PLAIT_TRY(add_value(plan, storage, device, out));
    (*out)->slot = PLAIT_SLOT_INPUTS;
    (*out)->offset = row->input_bytes;
    if (!plait_add_u64(row->input_bytes, (*out)->size_bytes, &row->input_bytes))
        return plait_error(PLAIT_OUT_OF_RANGE, "inputs: sizes overflow");
    *input = (plait_plan_input){.storage = storage, .device = device, .value = value_index(plan, *out)};
    add_step(plan, PLAIT_STEP_WRITE_INPUT, device, plan->n_inputs++);
    return PLAIT_OK;
}

/* The instance that holds all writes so far; where several do, one that did not come by a transfer. */
static plait_plan_value *newest(const plait_plan *plan, uint32_t storage) {
    plait_plan_value *found = NULL;
    for (int d = 0; d < plan->context->n_devices; d++) {
        plait_plan_value *value = plait_plan_value_on(plan, storage, d);
        if (value && value->version == plan->versions[storage] && (!found || found->arrives)) found = value;
    }
    return found;
}

/* Brings a temporary, or a state, from a device that has its newest bytes; `value` is NULL when it was never here. */
static plait_status add_transfer(plait_plan *plan, uint32_t storage, int device, plait_plan_value *value) {
    plait_plan_value *source = newest(plan, storage);
    if (!source)
        return plait_error(PLAIT_INTERNAL, "\"%s\" is read before it is made",
                           plan->graph->storages[storage].name);
    if (!value) PLAIT_TRY(add_value(plan, storage, device, &value));
    value->arrives = true;
    value->version = source->version;
    plan->transfers[plan->n_transfers] =
        (plait_plan_transfer){.source = value_index(plan, source),
                              .target = value_index(plan, value),
                              .size_bytes = plan->graph->storages[storage].size_bytes};
    add_step(plan, PLAIT_STEP_SEND, source->device, plan->n_transfers);
    plait_plan_step *receive = add_step(plan, PLAIT_STEP_RECEIVE, device, plan->n_transfers);
    receive->waits_for = (int32_t)(plan->n_steps - 2);
    plan->n_transfers++;
    return PLAIT_OK;
}

/* A state at home is where the residence has it; elsewhere it is a copy. */
static plait_status need_state(plait_plan *plan, uint32_t storage, int device, plait_plan_value *value) {
    const plait_resident *entry =
        plait_residence_find(plan->residence, plan->graph->storages[storage].name, -1);
    plait_plan_value *home = entry ? plait_plan_value_on(plan, storage, entry->device) : NULL;
    if (!home) PLAIT_TRY(add_resident(plan, storage, entry ? entry->device : device, &home));
    if (home->device == device) value = home;
    if (value && value->version == plan->versions[storage]) return PLAIT_OK;
    return add_transfer(plan, storage, device, value);
}

/* Makes sure that the newest bytes of a storage are there when the device reads it. */
static plait_status need(plait_plan *plan, uint32_t storage, int device) {
    plait_plan_value *value = plait_plan_value_on(plan, storage, device);
    switch (plan->graph->storages[storage].kind) {
    case PLAIT_STORAGE_INPUT: return value ? PLAIT_OK : add_input(plan, storage, device, &value);
    case PLAIT_STORAGE_WEIGHT: return value ? PLAIT_OK : add_resident(plan, storage, device, &value);
    case PLAIT_STORAGE_STATE: return need_state(plan, storage, device, value);
    case PLAIT_STORAGE_TEMPORARY: break;
    }
    if (value && value->version == plan->versions[storage]) return PLAIT_OK;
    return add_transfer(plan, storage, device, value);
}

/* What was written elsewhere goes home before the step ends. */
static plait_status send_home(plait_plan *plan) {
    for (uint32_t s = 0; s < plan->graph->n_storages; s++) {
        if (plan->graph->storages[s].kind != PLAIT_STORAGE_STATE || plan->versions[s] == 0) continue;
        const plait_resident *entry =
            plait_residence_find(plan->residence, plan->graph->storages[s].name, -1);
        if (entry) PLAIT_TRY(need(plan, s, entry->device));
    }
    return PLAIT_OK;
}

/* ---- building segments ---- */

static plait_segment_operand operand_of(const plait_plan *plan, uint32_t tensor_id, int device) {
    const plait_graph_tensor *tensor = &plan->graph->tensors[tensor_id];
    const plait_plan_value *value = plait_plan_value_on(plan, tensor->storage, device);
    plait_storage_kind kind = plan->graph->storages[tensor->storage].kind;
    return (plait_segment_operand){.shape = tensor->shape,
                                   .outer = tensor->outer,
                                   .value = value_index(plan, value),
                                   .storage = tensor->storage,
                                   .slot = PLAIT_NO_SLOT,
                                   .view_offset = tensor->offset,
                                   .encoding = value->encoding,
                                   .is_weight = kind == PLAIT_STORAGE_WEIGHT,
                                   .needed_after = kind == PLAIT_STORAGE_STATE};
}

static plait_status fill_node(plait_plan *plan, plait_plan_segment *segment, uint32_t n) {
    const plait_graph_node *node = &plan->graph->nodes[n];
    plait_segment_node *out = &segment->nodes[segment->n_nodes++];
    *out = (plait_segment_node){.op = node->op,
                                .name = node->name,
                                .node = n,
                                .n_inputs = node->n_inputs,
                                .n_outputs = node->n_outputs,
                                .present = node->present,
                                .inputs = segment->operands + segment->n_operands};
    out->outputs = out->inputs + node->n_inputs;
    segment->n_operands += (size_t)node->n_inputs + (size_t)node->n_outputs;
    memcpy(out->attrs, node->attrs, sizeof node->attrs);
    for (int i = 0; i < node->n_inputs; i++)
        if (node->inputs[i]) out->inputs[i] = operand_of(plan, node->inputs[i], segment->device);
    for (int o = 0; o < node->n_outputs; o++) {
        uint32_t storage = plan->graph->tensors[node->outputs[o]].storage;
        plait_plan_value *value = plait_plan_value_on(plan, storage, segment->device);
        if (!value) PLAIT_TRY(add_value(plan, storage, segment->device, &value));
        value->version = ++plan->versions[storage];
        out->outputs[o] = operand_of(plan, node->outputs[o], segment->device);
    }
    return PLAIT_OK;
}

/* The nodes [first, end) on one device: what they read from outside comes first, then the launch. */
static plait_status build_segment(plait_plan *plan, uint32_t first, uint32_t end) {
    const plait_graph *graph = plan->graph;
    int device = plan->placements[first].device;
    plait_plan_segment *segment = &plan->segments[plan->n_segments];
    *segment = (plait_plan_segment){.device = device, .first_node = first};
    segment->nodes = plait_arena_alloc(&plan->arena, end - first, sizeof *segment->nodes);
    size_t n_operands = 0;
    for (uint32_t n = first; n < end; n++)
        n_operands += (size_t)graph->nodes[n].n_inputs + (size_t)graph->nodes[n].n_outputs;
    segment->operands = plait_arena_alloc(&plan->arena, n_operands, sizeof *segment->operands);
    if (!segment->nodes || !segment->operands)
        return plait_error_memory("plan segments", n_operands * sizeof *segment->operands);
    for (uint32_t n = first; n < end; n++)
        for (int i = 0; i < graph->nodes[n].n_inputs; i++) {
            const plait_graph_tensor *tensor = &graph->tensors[graph->nodes[n].inputs[i]];
            plait_storage_kind kind = graph->storages[tensor->storage].kind;
            bool inside =
                tensor->node != PLAIT_NO_NODE && tensor->node >= first && kind == PLAIT_STORAGE_TEMPORARY;
            if (graph->nodes[n].inputs[i] && !inside) PLAIT_TRY(need(plan, tensor->storage, device));
        }
    for (uint32_t n = first; n < end; n++) PLAIT_TRY(fill_node(plan, segment, n));
    segment->segment = (plait_segment){.struct_bytes = sizeof segment->segment,
                                       .n_nodes = (int)segment->n_nodes,
                                       .nodes = segment->nodes,
                                       .n_dims = (int)graph->n_dims,
                                       .bounds = plan->bounds};
    add_step(plan, PLAIT_STEP_LAUNCH, device, plan->n_segments);
    plan->n_segments++;
    return PLAIT_OK;
}

/* A temporary that an output shows, or the device where a given storage is to be read by the host. */
static plait_status build_outputs(plait_plan *plan) {
    const plait_graph *graph = plan->graph;
    for (size_t o = 0; o < graph->n_outputs; o++) {
        const plait_graph_tensor *tensor = &graph->tensors[graph->outputs[o].tensor];
        plait_plan_value *value = newest(plan, tensor->storage);
        for (int d = 0; d < plan->context->n_devices && !value; d++) { /* no node touches it */
            bool here = graph->storages[tensor->storage].kind == PLAIT_STORAGE_INPUT ||
                        plait_residence_find(plan->residence, graph->storages[tensor->storage].name, d);
            if (here) PLAIT_TRY(need(plan, tensor->storage, d));
            value = plait_plan_value_on(plan, tensor->storage, d);
        }
        if (!value) return plait_error(PLAIT_INTERNAL, "output \"%s\" has no value", graph->outputs[o].name);
        if (value->encoding != PLAIT_ENCODING_FILE)
            return plait_error(PLAIT_INTERNAL, "output \"%s\" is a packed weight", graph->outputs[o].name);
        value->is_output = true;
        plan->outputs[o] =
            (plait_plan_output){.output = (uint32_t)o,
                                .value = value_index(plan, value),
                                .source_offset = tensor->offset,
                                .size_bytes = (uint64_t)plait_operand_span_bytes(&tensor->shape)};
        add_step(plan, PLAIT_STEP_READ_OUTPUT, value->device, o);
    }
    plan->n_outputs = graph->n_outputs;
    return PLAIT_OK;
}

/* Inputs that nothing reads: the host may write them all the same, into staging that goes nowhere. */
static void add_unread_inputs(plait_plan *plan) {
    for (uint32_t s = 0; s < plan->graph->n_storages; s++) {
        bool read = plan->graph->storages[s].kind != PLAIT_STORAGE_INPUT;
        for (int d = 0; d < plan->context->n_devices && !read; d++)
            read = plait_plan_value_on(plan, s, d) != NULL;
        if (!read)
            plan->inputs[plan->n_inputs++] =
                (plait_plan_input){.storage = s, .device = -1, .value = PLAIT_NO_SLOT};
    }
}

/* Takes room in a staging area; offsets are multiples of 64. */
static plait_status take_staging(uint64_t size_bytes, uint64_t *at, uint64_t *out_offset) {
    uint64_t aligned;
    *out_offset = *at;
    if (!plait_align_u64(size_bytes, 64, &aligned) || !plait_add_u64(*at, aligned, at))
        return plait_error(PLAIT_OUT_OF_RANGE, "staging: sizes overflow");
    return PLAIT_OK;
}

/* Offsets of inputs, outputs and transfers in the run's staging. An input has one place for all devices. */
static plait_status stage(plait_plan *plan) {
    for (size_t i = 0; i < plan->n_inputs; i++) {
        plait_plan_input *input = &plan->inputs[i];
        size_t same = 0;
        while (plan->inputs[same].storage != input->storage) same++;
        if (same < i)
            input->host_offset = plan->inputs[same].host_offset;
        else
            PLAIT_TRY(take_staging(plan->graph->storages[input->storage].size_bytes,
                                   &plan->input_staging_bytes, &input->host_offset));
    }
    for (size_t o = 0; o < plan->n_outputs; o++)
        PLAIT_TRY(take_staging(plan->outputs[o].size_bytes, &plan->output_staging_bytes,
                               &plan->outputs[o].host_offset));
    for (size_t t = 0; t < plan->n_transfers; t++)
        PLAIT_TRY(take_staging(plan->transfers[t].size_bytes, &plan->transfer_staging_bytes,
                               &plan->transfers[t].staging_offset));
    return PLAIT_OK;
}

/* ---- prepare ---- */

/* Values that somebody outside the segment needs: read or written by another segment, sent, or an output. */
static plait_status mark_needed(plait_plan *plan) {
    enum { NOBODY = 0, SEVERAL = -1 }; /* otherwise the segment that touches it, from 1 */
    int32_t *touched = plait_alloc_array(plan->n_values, sizeof *touched);
    if (!touched) return plait_error_memory("plan", plan->n_values * sizeof *touched);
    for (size_t s = 0; s < plan->n_segments; s++)
        for (uint32_t n = 0; n < plan->segments[s].n_nodes; n++) {
            const plait_segment_node *node = &plan->segments[s].nodes[n];
            for (int k = 0; k < node->n_inputs + node->n_outputs; k++) {
                bool input = k < node->n_inputs;
                if (input && !(node->present >> k & 1u)) continue;
                uint32_t v = input ? node->inputs[k].value : node->outputs[k - node->n_inputs].value;
                bool other = touched[v] != NOBODY && touched[v] != (int32_t)s + 1;
                touched[v] = other ? SEVERAL : (int32_t)s + 1;
            }
        }
    for (size_t t = 0; t < plan->n_transfers; t++)
        touched[plan->transfers[t].source] = touched[plan->transfers[t].target] = SEVERAL;
    for (size_t s = 0; s < plan->n_segments; s++)
        for (uint32_t n = 0; n < plan->segments[s].n_nodes; n++)
            for (int o = 0; o < plan->segments[s].nodes[n].n_outputs; o++) {
                plait_segment_operand *output = &plan->segments[s].nodes[n].outputs[o];
                output->needed_after |=
                    touched[output->value] == SEVERAL || plan->values[output->value].is_output;
            }
    free(touched);
    return PLAIT_OK;
}

/* The device's answer must name every node once and keep every dependency of the segment. */
static plait_status check_prepared(const plait_plan *plan, const plait_plan_segment *segment) {
    const plait_prepared *p = &segment->prepared;
    const char *device = plan->context->devices[segment->device].device->name;
    int covered = 0;
    bool *seen = plait_alloc_array(segment->n_nodes, sizeof *seen);
    if (!seen) return plait_error_memory("plan", segment->n_nodes);
    plait_status status = PLAIT_OK;
    for (int g = 0; g < p->n_groups; g++) {
        if (p->groups[g].first != covered || p->groups[g].n < 1 ||
            !plait_is_power_of_two(p->groups[g].scratch_alignment))
            status = plait_error(PLAIT_INTERNAL, "device %s: group %d starts at %d, expected %d", device, g,
                                 p->groups[g].first, covered);
        covered += p->groups[g].n;
    }
    if (status == PLAIT_OK && covered != (int)segment->n_nodes)
        status = plait_error(PLAIT_INTERNAL, "device %s: its groups hold %d of %u nodes", device, covered,
                             segment->n_nodes);
    for (int k = 0; status == PLAIT_OK && k < covered; k++) {
        int n = p->order[k];
        if (n < 0 || n >= (int)segment->n_nodes || seen[n])
            status = plait_error(PLAIT_INTERNAL, "device %s: node %d is missing or named twice", device, n);
        else
            seen[n] = true;
    }
    free(seen);
    return status;
}

plait_status plait_plan_prepare(plait_plan *plan) {
    PLAIT_TRY(mark_needed(plan));
    for (size_t s = 0; s < plan->n_segments; s++) {
        plait_plan_segment *segment = &plan->segments[s];
        plait_device *device = plan->context->devices[segment->device].device;
        PLAIT_TRY(device->vtable->prepare(device, &segment->segment, &segment->prepared));
        segment->is_prepared = true;
        PLAIT_TRY(check_prepared(plan, segment));
        for (int e = 0; e < segment->prepared.n_elided; e++) {
            uint32_t value = segment->prepared.elided[e];
            if (value >= plan->n_values || plan->values[value].slot != PLAIT_SLOT_ARENA ||
                plan->values[value].is_output)
                return plait_error(PLAIT_INTERNAL, "device %s: value %u cannot be left out", device->name,
                                   value);
            plan->values[value].elided = true;
        }
        plan->facts.n_groups += segment->prepared.n_groups;
    }
    return PLAIT_OK;
}

plait_status plait_plan_segment_nodes(plait_plan *plan) {
    uint32_t n_nodes = (uint32_t)plan->graph->n_nodes;
    PLAIT_TRY(reserve_tables(plan));
    for (uint32_t first = 0, end; first < n_nodes; first = end) {
        for (end = first + 1;
             end < n_nodes && plan->placements[end].device == plan->placements[first].device;)
            end++;
        PLAIT_TRY(build_segment(plan, first, end));
    }
    PLAIT_TRY(send_home(plan));
    PLAIT_TRY(build_outputs(plan));
    add_unread_inputs(plan);
    return stage(plan);
}
