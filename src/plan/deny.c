/* What happens when a device refuses to prepare or compile a segment although `supports` accepted each of its nodes
 * (drivers do that): the node that it refuses is found by asking about each op of the segment alone, that op is denied
 * on that device for as long as the context lives, and the plan is made anew without it. As an op is denied on a device
 * once only, this ends.
 *
 * Not here: failures that are no refusal (memory, a lost device), and refusals of nodes that the device takes one by
 * one: those are the caller's error. Invariant: the first message is the one that stays. */
#include "plan/plan.h"

#include "base/log.h"
#include "base/status.h"

#include <string.h>

/* Statuses with which a device says no, not that something went wrong. */
static bool is_refusal(plait_status status) {
    return status == PLAIT_UNSUPPORTED || status == PLAIT_INVALID_ARGUMENT || status == PLAIT_INTERNAL ||
           status == PLAIT_LIMIT || status == PLAIT_OUT_OF_RANGE;
}

/* A segment of one node. What a group would have left out exists here, and has no place in the plan's memory: such
 * storages, and the scratch that the node alone asks for, get slots of their own behind the plan's. On bytes of others they
 * could be refused for lying there, and the wrong op would be denied. */
typedef struct trial {
    plait_segment_operand inputs[PLAIT_MAX_INPUTS], outputs[PLAIT_MAX_OUTPUTS];
    plait_segment_node node;
    plait_segment segment;
    uint32_t storages[PLAIT_MAX_INPUTS + PLAIT_MAX_OUTPUTS], n_storages; /* without a place */
} trial;

/* An operand as the trial shows it: everything is needed afterwards, since nobody else is in the segment. What has a
 * place keeps it; operands of one storage get one slot between them, so views still overlap as they did. */
static plait_segment_operand alone(trial *t, uint32_t n_slots, const plait_segment_operand *operand) {
    plait_segment_operand copy = *operand;
    uint32_t k = 0;
    copy.needed_after = true;
    if (copy.slot != PLAIT_NO_SLOT) return copy;
    while (k < t->n_storages && t->storages[k] != copy.storage) k++;
    if (k == t->n_storages) t->storages[t->n_storages++] = copy.storage;
    copy.slot = n_slots + k;
    copy.offset = copy.view_offset;
    return copy;
}

/* `whole` has addresses when compiling and none while preparing; absent inputs stay zeroed. */
static void trial_init(trial *t, const plait_segment *whole, const plait_segment_node *node) {
    t->node = *node;
    t->segment = *whole;
    t->n_storages = 0;
    for (int i = 0; i < node->n_inputs; i++)
        t->inputs[i] = node->present >> i & 1u ? alone(t, whole->n_slots, &node->inputs[i]) : node->inputs[i];
    for (int o = 0; o < node->n_outputs; o++) t->outputs[o] = alone(t, whole->n_slots, &node->outputs[o]);
    t->node.inputs = t->inputs;
    t->node.outputs = t->outputs;
    t->segment.nodes = &t->node;
    t->segment.n_nodes = 1;
    t->segment.n_slots = 0;
}

/* Prepares, and if asked compiles, one node as a segment; the result is thrown away. Scratch goes to one slot behind
 * those of the storages. Prepared anew, since a group of one node may want other scratch than the group that was
 * refused. */
static plait_status try_node(plait_device *device, const plait_segment *whole, const plait_segment_node *node,
                             bool compiling) {
    trial t;
    plait_prepared prepared = {0};
    plait_program *program = NULL;
    trial_init(&t, whole, node);
    PLAIT_TRY(device->vtable->prepare(device, &t.segment, &prepared));
    t.segment.n_slots = whole->n_slots + t.n_storages + 1;
    for (int g = 0; g < prepared.n_groups; g++)
        prepared.groups[g].scratch_slot = whole->n_slots + t.n_storages;
    plait_status status =
        compiling ? device->vtable->compile(device, &t.segment, &prepared, &program) : PLAIT_OK;
    if (program) device->vtable->program_destroy(device, program);
    device->vtable->prepared_destroy(device, &prepared);
    return status;
}

/* True when that is news. The bit stays for the context's life: a driver that refused once will do so again, and plans
 * that were made since must not meet it half way. */
static bool deny(plait_context *context, plait_context_entry *entry, const plait_op *op) {
    uint64_t *word = &entry->denied[(unsigned)op->id / 64], bit = (uint64_t)1 << (unsigned)op->id % 64;
    bool news = !(*word & bit);
    *word |= bit;
    context->n_denied += news;
    return news;
}

/* With one device there is nowhere else to go, and the refusal is the answer. The first failure is saved, since trying
 * nodes alone writes over the thread's record; it is what the caller hears if nothing could be denied.
 *
 * Out of memory while trying is no refusal and says nothing about ops: it goes up as it is. */
plait_status plait_plan_refused(plait_plan *plan, const plait_plan_segment *segment, bool compiling,
                                plait_status status) {
    plait_context_entry *entry = &plan->context->devices[segment->device];
    bool asked[PLAIT_OP_COUNT] = {false};
    plait_error_record first;
    if (status == PLAIT_OK || !is_refusal(status) || plan->context->n_devices == 1) return status;
    plait_error_save(status, &first);
    for (uint32_t n = 0; n < segment->n_nodes && !plan->denied; n++) {
        const plait_segment_node *node = &segment->nodes[n];
        /* Denied once, an op is denied for all shapes: what a device refuses for one it may well refuse for the next.
         */
        if (asked[node->op->id]) continue;
        plait_status alone_status = try_node(entry->device, &segment->segment, node, compiling);
        /* Nodes of one op are alike but for types and shapes: all are asked until one is refused. */
        if (alone_status == PLAIT_OUT_OF_MEMORY) return alone_status;
        if (!is_refusal(alone_status)) continue;
        asked[node->op->id] = true;
        plan->denied = deny(plan->context, entry, node->op);
        if (plan->denied)
            plait_log(&plan->context->logger, PLAIT_LOG_WARNING, "%s accepted %s and refused it: %s",
                      entry->device->name, node->op->name, plait_error_message());
    }
    return plait_error_raise(&first);
}
