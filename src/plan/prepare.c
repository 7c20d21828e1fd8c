/* Every device's answer to its segments: which nodes run as one, which values never exist, what scratch a group needs,
 * what may share bytes. Not here: using the answer (memory.c, reorder.c), and what happens when a device refuses
 * (deny.c). Invariant: an answer that was accepted names every node once, and leaves out only values that nobody
 * outside the segment needs. */
#include "plan/plan.h"

#include "base/alloc.h"
#include "base/size.h"
#include "base/status.h"

#include <stdlib.h>

/* Values that somebody outside the segment needs: read or written by another segment, sent, or an output. Devices fuse
 * by it: a value that is needed after must come to exist, whatever the group. State is needed always (segment.c has
 * said so), since its reader may be the next step. */
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

/* The device's answer must name every node once. Groups must be a partition of `order` as it stands. That dependencies
 * are kept is not looked at here: the proof finds out, for what the planner makes of the order too. INTERNAL, not
 * INVALID: it is the device's code that is wrong. */
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

/* One segment after the other, as addresses do not exist yet and nothing a device says of one depends on another. From
 * is_prepared on the answer is the device's memory, freed with the plan. A value that is left out needs no bytes;
 * weights, inputs, state and outputs cannot be. */
plait_status plait_plan_prepare(plait_plan *plan) {
    PLAIT_TRY(mark_needed(plan));
    for (size_t s = 0; s < plan->n_segments; s++) {
        plait_plan_segment *segment = &plan->segments[s];
        plait_device *device = plan->context->devices[segment->device].device;
        plait_status status = device->vtable->prepare(device, &segment->segment, &segment->prepared);
        PLAIT_TRY(plait_plan_refused(plan, segment, false, status));
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
