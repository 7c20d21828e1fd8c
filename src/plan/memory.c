/* Memory: values of a device's arena get offsets so that values which are alive at the same position of the device's
 * command order never share bytes, unless one takes over the other's (shared pairs), and the arena is as small as
 * can be found. Positions are those of the device's launches; what other queues do to a value lies within its first and
 * last (order.c), so they are the partial order that matters.
 *
 * How offsets are found is pack.c's business; the lower bound (heaviest set alive at once) is kept beside the result, so
 * that the loss is known.
 *
 * Invariant: offsets depend on the plan's tables only: same plan, same addresses. */
#include "plan/plan.h"

#include "base/size.h"
#include "base/status.h"
#include "plan/pack.h"

/* Whose bytes an item of the packing is: a value's, or the scratch of a group. */
typedef struct owner {
    uint32_t value;     /* root value, unless it is scratch */
    plait_group *group; /* NULL: a value's */
} owner;

/* Weights, state and inputs have their slots; what is left out and what nothing touches needs no bytes. */
static bool in_arena(const plait_plan_value *value) {
    return value->slot == PLAIT_SLOT_ARENA && !value->elided && value->first >= 0;
}

/* Whose bytes the value has: aliases form chains, each member taking over from the one before. */
static plait_plan_value *root_of(const plait_plan *plan, uint32_t value) {
    while (plan->values[value].alias != value) value = plan->values[value].alias;
    return &plan->values[value];
}

/* The output takes over the input's bytes when the input dies exactly where the output is born. In the order of
 * segments and pairs, so a chain grows at its end: the root's life is stretched to the last heir's, and the packing
 * sees one item. An input that another queue reads afterwards (`held`) gives nothing away, nor one that has an heir
 * already. */
static void accept_shared(plait_plan *plan) {
    for (size_t s = 0; s < plan->n_segments; s++) {
        const plait_prepared *prepared = &plan->segments[s].prepared;
        for (int k = 0; k < prepared->n_shared; k++) {
            uint32_t out = prepared->shared[k].output, in = prepared->shared[k].input;
            if (out >= plan->n_values || in >= plan->n_values || out == in) continue;
            plait_plan_value *output = &plan->values[out], *input = &plan->values[in];
            bool both = in_arena(output) && in_arena(input) && output->alias == out &&
                        output->size_bytes == input->size_bytes;
            if (!both || input->held || input->last != output->first) continue;
            plait_plan_value *root = root_of(plan, in);
            if (root->last > output->first && root != input) continue; /* taken over already by another */
            output->alias = (uint32_t)(root - plan->values);
            root->last = output->last;
        }
    }
}

/* ---- packing ---- */

/* Scratch is an item that lives for one position, rounded to the device's alignment like values. */
static void add_scratch(plait_plan *plan, const plait_plan_step *step, plait_pack_item *items, owner *owners,
                        size_t *n) {
    plait_prepared *prepared = &plan->segments[step->item].prepared;
    uint64_t unit = plan->context->devices[step->device].info.alignment;
    for (int g = 0; g < prepared->n_groups; g++) {
        plait_group *group = &prepared->groups[g];
        uint64_t size = (group->scratch_bytes + unit - 1) & ~(unit - 1);
        group->scratch_slot = PLAIT_SLOT_ARENA;
        group->scratch_offset = 0; /* numbered through until the arena is packed */
        if (size == 0) continue;
        items[*n] =
            (plait_pack_item){.size_bytes = size,
                              .alignment = group->scratch_alignment > unit ? group->scratch_alignment : unit,
                              .first = step->position + g,
                              .last = step->position + g};
        owners[(*n)++] = (owner){.group = group};
    }
}

/* Roots of the device's values, then scratch; at most a value or a group each. */
static size_t gather(plait_plan *plan, int device, plait_pack_item *items, owner *owners) {
    size_t n = 0;
    uint64_t unit = plan->context->devices[device].info.alignment;
    for (size_t v = 0; v < plan->n_values; v++) {
        const plait_plan_value *value = &plan->values[v];
        if (value->device != device || !in_arena(value) || value->alias != v) continue;
        items[n] = (plait_pack_item){
            .size_bytes = value->size_bytes, .alignment = unit, .first = value->first, .last = value->last};
        owners[n++] = (owner){.value = (uint32_t)v};
    }
    for (size_t s = 0; s < plan->n_steps; s++) {
        const plait_plan_step *step = &plan->steps[s];
        if (step->kind == PLAIT_STEP_LAUNCH && step->device == device)
            add_scratch(plan, step, items, owners, &n);
    }
    return n;
}

/* A device whose largest buffer does not hold one of the values cannot run this. Here rather than in the packing,
 * because here the value has a name. */
static plait_status check_sizes(const plait_plan *plan, int device, const plait_pack_item *items,
                                const owner *owners, size_t n) {
    const plait_context_entry *entry = &plan->context->devices[device];
    for (size_t i = 0; entry->chunk_bytes && i < n; i++) {
        if (items[i].size_bytes <= entry->chunk_bytes) continue;
        uint32_t storage = plan->values[owners[i].value].storage;
        return plait_error(PLAIT_OUT_OF_RANGE, "%s \"%s\" takes %llu bytes, but a buffer of %s at most %llu",
                           owners[i].group ? "scratch of a group beside" : "value",
                           plan->graph->storages[storage].name, (unsigned long long)items[i].size_bytes,
                           entry->device->name, (unsigned long long)entry->chunk_bytes);
    }
    return PLAIT_OK;
}

/* Values keep offsets that are numbered through the arena; scratch is cut into slot and offset at once, since what the
 * device gets at compile is the group itself. */
static plait_status assign_device(plait_plan *plan, int device, plait_pack_item *items, owner *owners) {
    plait_plan_device *row = &plan->devices[device];
    size_t n = gather(plan, device, items, owners);
    plait_packing packing;
    PLAIT_TRY(check_sizes(plan, device, items, owners, n));
    PLAIT_TRY(plait_error_context(plait_pack(items, n, plan->context->devices[device].chunk_bytes, &packing),
                                  "arena of %s", plan->context->devices[device].device->name));
    row->arena_bytes = packing.total_bytes;
    for (size_t i = 0; i < n; i++) {
        plait_group *group = owners[i].group;
        *(group ? &group->scratch_offset : &plan->values[owners[i].value].offset) = items[i].offset;
        if (group) plait_plan_cut(plan, device, &group->scratch_slot, &group->scratch_offset);
    }
    row->bound_bytes = packing.bound_bytes;
    row->bound_position = packing.bound_position;
    return PLAIT_OK;
}

/* One table for all devices, one after the other. */
static plait_status assign_devices(plait_plan *plan) {
    size_t n_most = plan->n_values + (size_t)plan->facts.n_groups;
    plait_arena arena;
    plait_arena_init_pooled(&arena, &plan->context->pool);
    plait_pack_item *items = plait_arena_take(&arena, n_most, sizeof *items);
    owner *owners = plait_arena_take(&arena, n_most, sizeof *owners);
    plait_status status =
        items && owners ? PLAIT_OK : plait_error_memory("plan memory", n_most * sizeof *items);
    for (int d = 0; status == PLAIT_OK && d < plan->context->n_devices; d++)
        status = assign_device(plan, d, items, owners);
    plait_arena_deinit(&arena);
    return status;
}

/* In chunks, as the context will allocate them: each is rounded up by the device on its own. */
plait_status plait_plan_memory_on(const plait_plan *plan, int d, plait_plan_memory *out) {
    if (d < 0 || d >= plan->context->n_devices)
        return plait_error(PLAIT_OUT_OF_RANGE, "plan of %s: device %d, there are %d", plan->name, d,
                           plan->context->n_devices);
    const plait_plan_device *row = &plan->devices[d];
    const plait_context_entry *entry = &plan->context->devices[d];
    plait_plan_memory memory = {.temporary_bytes = row->arena_bytes,
                                .bound_bytes = row->bound_bytes,
                                .input_bytes = row->input_bytes};
    for (uint64_t at = 0, size; at < row->arena_bytes; at += size) {
        uint64_t taken = 0;
        size = row->arena_bytes - at;
        if (entry->chunk_bytes && size > entry->chunk_bytes) size = entry->chunk_bytes;
        PLAIT_TRY(
            entry->device->vtable->allocation_bytes(entry->device, size, PLAIT_BUFFER_TEMPORARY, &taken));
        if (!plait_add_u64(memory.taken_bytes, taken, &memory.taken_bytes))
            return plait_error(PLAIT_OUT_OF_RANGE, "plan of %s: sizes overflow", plan->name);
    }
    *out = memory;
    return PLAIT_OK;
}

/* An heir lies where its root lies. The facts name the largest arena and the bound beside it, of the same device, so
 * that one can be compared with the other. */
plait_status plait_plan_assign_memory(plait_plan *plan) {
    accept_shared(plan);
    PLAIT_TRY(assign_devices(plan));
    for (size_t v = 0; v < plan->n_values; v++) {
        plait_plan_value *value = &plan->values[v];
        if (in_arena(value)) value->offset = root_of(plan, (uint32_t)v)->offset;
    }
    for (int d = 0; d < plan->context->n_devices; d++)
        if (plan->devices[d].arena_bytes >= plan->facts.temporary_bytes) {
            plan->facts.temporary_bytes = plan->devices[d].arena_bytes;
            plan->facts.temporary_bound_bytes = plan->devices[d].bound_bytes;
        }
    return PLAIT_OK;
}
