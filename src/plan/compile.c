/* Compile: addresses go into the segments, and each device makes its programs. Not here: where values lie (memory.c),
 * and buffers, which a run binds to slots (run/lists.c). Invariant: a program knows slots and offsets, never a buffer
 * or a dim's value, so any number of runs can use it at once. */
#include "plan/plan.h"

#include "base/status.h"

/* What never exists has no slot, which devices know from the groups they formed themselves. The cut into chunks is made
 * for the value, then the view's offset is added. */
static void set_address(const plait_plan *plan, plait_segment_operand *operand) {
    const plait_plan_value *value = &plan->values[operand->value];
    operand->slot = value->elided ? PLAIT_NO_SLOT : value->slot;
    operand->offset = value->elided ? 0 : value->offset;
    plait_plan_cut(plan, value->device, &operand->slot, &operand->offset);
    if (!value->elided) operand->offset += operand->view_offset; /* a value lies in one chunk */
    operand->encoding = value->encoding;
}

/* The message names the device before the refusal is looked into, so it stays with the failure that is raised in the
 * end. */
static plait_status compile_segment(plait_plan *plan, plait_plan_segment *segment) {
    plait_device *device = plan->context->devices[segment->device].device;
    segment->segment.n_slots = (int)plait_plan_slot_count(plan, segment->device);
    plait_status status =
        device->vtable->compile(device, &segment->segment, &segment->prepared, &segment->program);
    plait_error_context(status, "compiling for %s", device->name);
    return plait_plan_refused(plan, segment, true, status);
}

/* Called by the pass that assigns memory, long before compiling: order and proof read addresses from operands. */
void plait_plan_set_addresses(plait_plan *plan) {
    for (size_t s = 0; s < plan->n_segments; s++) {
        plait_plan_segment *segment = &plan->segments[s];
        for (uint32_t n = 0; n < segment->n_nodes; n++) {
            plait_segment_node *node = &segment->nodes[n];
            for (int i = 0; i < node->n_inputs; i++)
                if (node->present >> i & 1u) set_address(plan, &node->inputs[i]);
            for (int o = 0; o < node->n_outputs; o++) set_address(plan, &node->outputs[o]);
        }
    }
}

plait_status plait_plan_compile(plait_plan *plan) {
    for (size_t s = 0; s < plan->n_segments; s++) PLAIT_TRY(compile_segment(plan, &plan->segments[s]));
    return PLAIT_OK;
}
