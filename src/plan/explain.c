/* The plan as text and JSON: where every group runs, why, what moves, how much memory. Invariant: only reads. */
#include "plan/plan.h"

#include "base/status.h"
#include "base/strbuf.h"

#include <string.h>

/* ---- text ---- */

static void print_devices(const plait_plan *plan, plait_strbuf *s) {
    for (int d = 0; d < plan->context->n_devices; d++) {
        const plait_plan_device *row = &plan->devices[d];
        const plait_residence_device *resident = &plan->residence->devices[d];
        plait_strbuf_printf(s, "device %s: weights ", plan->context->devices[d].device->name);
        plait_strbuf_bytes(s, resident->private_bytes);
        plait_strbuf_append(s, " of its own and ");
        plait_strbuf_bytes(s, resident->mapped_bytes);
        plait_strbuf_append(s, " in the file, state ");
        plait_strbuf_bytes(s, resident->state_bytes);
        plait_strbuf_append(s, ", temporaries ");
        plait_strbuf_bytes(s, row->arena_bytes);
        plait_strbuf_append(s, " (bound ");
        plait_strbuf_bytes(s, row->bound_bytes);
        plait_strbuf_append(s, ")\n");
    }
}

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

/* Bytes of weights that the group reads. */
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

void plait_plan_print_members(const plait_plan_segment *segment, const plait_group *group, plait_strbuf *s) {
    for (int k = 0; k < group->n; k++) {
        const plait_segment_node *node = &segment->nodes[segment->prepared.order[group->first + k]];
        const char *name = node->name;
        /* Members after the first share its scope; their last word says enough. */
        const char *tail = k ? strrchr(name, '.') : NULL;
        plait_strbuf_printf(s, "%s%s", k ? "+" : "", tail ? tail + 1 : name);
    }
}

static void print_group(const plait_plan *plan, const plait_plan_segment *segment, int g, plait_strbuf *s) {
    const plait_group *group = &segment->prepared.groups[g];
    const plait_segment_node *first = &segment->nodes[segment->prepared.order[group->first]];
    const plait_placement *placement = &plan->placements[first->node];
    size_t begin = s->length;
    plait_plan_print_members(segment, group, s);
    size_t width = s->length - begin;
    plait_strbuf_printf(s, "%*s", width < 48 ? (int)(48 - width) : 0, "");
    plait_strbuf_printf(s, " %-8s %s", plan->context->devices[segment->device].device->name,
                        plait_cause_text(placement->cause));
    if (placement->reason[0]) plait_strbuf_printf(s, " (%s)", placement->reason);
    uint64_t weights = plait_plan_group_weight_bytes(plan, segment, group);
    if (weights) plait_strbuf_append(s, ", weights "), plait_strbuf_bytes(s, weights);
    plait_strbuf_printf(s, ", %.3g MFLOP", plait_plan_group_flop(plan, segment, group) / 1e6);
    if (group->scratch_bytes)
        plait_strbuf_append(s, ", scratch "), plait_strbuf_bytes(s, group->scratch_bytes);
    plait_strbuf_append_char(s, '\n');
}

static void print_step(const plait_plan *plan, const plait_plan_step *step, plait_strbuf *s) {
    const char *device = plan->context->devices[step->device].device->name;
    const plait_graph *graph = plan->graph;
    if (step->kind == PLAIT_STEP_LAUNCH) {
        const plait_plan_segment *segment = &plan->segments[step->item];
        plait_strbuf_printf(s, "segment %u on %s: %u nodes in %d groups\n", step->item, device,
                            segment->n_nodes, segment->prepared.n_groups);
        for (int g = 0; g < segment->prepared.n_groups; g++)
            plait_strbuf_append(s, "  "), print_group(plan, segment, g, s);
        return;
    }
    const char *verb = "", *name = "";
    uint64_t bytes = 0;
    if (step->kind == PLAIT_STEP_WRITE_INPUT) {
        const plait_graph_storage *storage = &graph->storages[plan->inputs[step->item].storage];
        verb = "input", name = storage->name, bytes = storage->size_bytes;
    } else if (step->kind == PLAIT_STEP_READ_OUTPUT) {
        verb = "output", name = graph->outputs[plan->outputs[step->item].output].name,
        bytes = plan->outputs[step->item].size_bytes;
    } else {
        const plait_plan_transfer *transfer = &plan->transfers[step->item];
        verb = step->kind == PLAIT_STEP_SEND ? "send" : step->kind == PLAIT_STEP_MOVE ? "move" : "receive";
        name = graph->storages[plan->values[transfer->source].storage].name, bytes = transfer->size_bytes;
    }
    plait_strbuf_printf(s, "%s %s on %s: up to ", verb, name, device);
    plait_strbuf_bytes(s, bytes);
    plait_strbuf_append_char(s, '\n');
}

plait_status plait_plan_print(const plait_plan *plan, char **out_text) {
    plait_strbuf s;
    const plait_plan_facts *f = &plan->facts;
    plait_strbuf_init(&s, 0);
    plait_strbuf_printf(&s, "plan of %s: %d nodes in %d groups, %d segments, %d transfers", plan->name,
                        f->n_nodes, f->n_groups, f->n_segments, f->n_transfers);
    for (size_t d = 0; d < plan->graph->n_dims; d++)
        plait_strbuf_printf(&s, "%s%s <= %lld", d ? ", " : "; ", plan->graph->dims[d].name,
                            (long long)plan->graph->dims[d].bound);
    plait_strbuf_printf(&s, "\nat the bounds: %.4g GFLOP, weights read ", f->flop / 1e9);
    plait_strbuf_bytes(&s, f->weight_bytes_read);
    plait_strbuf_append(&s, ", moved between devices ");
    plait_strbuf_bytes(&s, f->transfer_bytes);
    plait_strbuf_printf(&s, "; planned in %.2f ms, proved in %.2f ms\n", (double)f->plan_ns / 1e6,
                        (double)f->verify_ns / 1e6);
    print_devices(plan, &s);
    for (size_t i = 0; i < plan->n_steps; i++) print_step(plan, &plan->steps[i], &s);
    plait_status status = plait_strbuf_status(&s);
    if (status == PLAIT_OK) *out_text = plait_strbuf_take(&s);
    plait_strbuf_deinit(&s);
    return status;
}

/* ---- JSON ---- */

static void json_devices(const plait_plan *plan, plait_strbuf *s) {
    plait_strbuf_append(s, "\"devices\":[");
    for (int d = 0; d < plan->context->n_devices; d++) {
        const plait_plan_device *row = &plan->devices[d];
        const plait_residence_device *resident = &plan->residence->devices[d];
        plait_strbuf_append(s, d ? ",{\"name\":" : "{\"name\":");
        plait_strbuf_json_string(s, plan->context->devices[d].device->name);
        plait_strbuf_printf(
            s,
            ",\"weight_private_bytes\":%llu,\"weight_mapped_bytes\":%llu,\"state_bytes\":%llu,"
            "\"temporary_bytes\":%llu,\"temporary_bound_bytes\":%llu,\"input_bytes\":%llu}",
            (unsigned long long)resident->private_bytes, (unsigned long long)resident->mapped_bytes,
            (unsigned long long)resident->state_bytes, (unsigned long long)row->arena_bytes,
            (unsigned long long)row->bound_bytes, (unsigned long long)row->input_bytes);
    }
    plait_strbuf_append(s, "]");
}

static void json_group(const plait_plan *plan, const plait_plan_segment *segment, int g, plait_strbuf *s) {
    const plait_group *group = &segment->prepared.groups[g];
    const plait_segment_node *first = &segment->nodes[segment->prepared.order[group->first]];
    const plait_placement *placement = &plan->placements[first->node];
    plait_strbuf_append(s, "{\"nodes\":[");
    for (int k = 0; k < group->n; k++) {
        const plait_segment_node *node = &segment->nodes[segment->prepared.order[group->first + k]];
        plait_strbuf_append(s, k ? ",{\"name\":" : "{\"name\":");
        plait_strbuf_json_string(s, node->name);
        plait_strbuf_printf(s, ",\"op\":\"%s\"}", node->op->name);
    }
    plait_strbuf_append(s, "],\"device\":");
    plait_strbuf_json_string(s, plan->context->devices[segment->device].device->name);
    plait_strbuf_printf(s, ",\"cause\":\"%s\",\"reason\":", plait_cause_text(placement->cause));
    plait_strbuf_json_string(s, placement->reason);
    plait_strbuf_append(s, ",\"flop\":");
    plait_strbuf_json_number(s, plait_plan_group_flop(plan, segment, group));
    plait_strbuf_printf(s, ",\"weight_bytes\":%llu,\"scratch_bytes\":%llu}",
                        (unsigned long long)plait_plan_group_weight_bytes(plan, segment, group),
                        (unsigned long long)group->scratch_bytes);
}

plait_status plait_plan_print_json(const plait_plan *plan, char **out_text) {
    plait_strbuf s;
    const plait_plan_facts *f = &plan->facts;
    plait_strbuf_init(&s, 0);
    plait_strbuf_append(&s, "{\"name\":");
    plait_strbuf_json_string(&s, plan->name);
    plait_strbuf_append(&s, ",\"dims\":{");
    for (size_t d = 0; d < plan->graph->n_dims; d++) {
        plait_strbuf_append(&s, d ? "," : "");
        plait_strbuf_json_string(&s, plan->graph->dims[d].name);
        plait_strbuf_printf(&s, ":%lld", (long long)plan->graph->dims[d].bound);
    }
    plait_strbuf_printf(
        &s,
        "},\"nodes\":%d,\"groups\":%d,\"segments\":%d,\"transfers\":%d,\"transfer_bytes\":%llu,"
        "\"weight_bytes_read\":%llu,\"temporary_bytes\":%llu,\"temporary_bound_bytes\":%llu,\"flop\":",
        f->n_nodes, f->n_groups, f->n_segments, f->n_transfers, (unsigned long long)f->transfer_bytes,
        (unsigned long long)f->weight_bytes_read, (unsigned long long)f->temporary_bytes,
        (unsigned long long)f->temporary_bound_bytes);
    plait_strbuf_json_number(&s, f->flop);
    plait_strbuf_printf(&s, ",\"plan_ns\":%llu,\"verify_ns\":%llu,", (unsigned long long)f->plan_ns,
                        (unsigned long long)f->verify_ns);
    json_devices(plan, &s);
    plait_strbuf_append(&s, ",\"work\":[");
    bool any = false;
    for (size_t i = 0; i < plan->n_steps; i++) {
        if (plan->steps[i].kind != PLAIT_STEP_LAUNCH) continue;
        const plait_plan_segment *segment = &plan->segments[plan->steps[i].item];
        for (int g = 0; g < segment->prepared.n_groups; g++, any = true) {
            if (any) plait_strbuf_append(&s, ",\n");
            json_group(plan, segment, g, &s);
        }
    }
    plait_strbuf_append(&s, "]}\n");
    plait_status status = plait_strbuf_status(&s);
    if (status == PLAIT_OK) *out_text = plait_strbuf_take(&s);
    plait_strbuf_deinit(&s);
    return status;
}
