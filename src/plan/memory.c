/* Memory: values of a device's arena get offsets so that values which are alive at the same position of the device's
 * command order never share bytes, unless one takes over the other's (shared pairs), and the arena is as small as
 * can be found. All commands that touch an arena are on its device's one queue, so positions of that queue are the
 * partial order that matters.
 *
 * Several greedy orders are tried and the smallest result is taken; the lower bound (heaviest set alive at once) is
 * kept beside it, so that the loss is known.
 *
 * Invariant: offsets depend on the plan's tables only: same plan, same addresses. */
#include "plan/plan.h"

#include "base/alloc.h"
#include "base/size.h"
#include "base/status.h"

#include <stdlib.h>
#include <string.h>

/* Something that needs bytes from position first to last. */
typedef struct item {
    uint64_t size, offset, alignment;
    int32_t first, last;
    uint32_t value;     /* root value, or PLAIT_NO_SLOT for scratch */
    plait_group *group; /* of scratch */
    uint32_t sequence;  /* for stable sorting */
} item;

typedef int (*item_order)(const void *, const void *);

/* ---- lifetimes ---- */

static void touch(plait_plan *plan, uint32_t value, int32_t position) {
    plait_plan_value *row = &plan->values[value];
    if (row->first < 0 || position < row->first) row->first = position;
    if (position > row->last) row->last = position;
}

static void touch_group(plait_plan *plan, const plait_plan_segment *segment, const plait_group *group,
                        int32_t position) {
    for (int k = group->first; k < group->first + group->n; k++) {
        const plait_segment_node *node = &segment->nodes[segment->prepared.order[k]];
        for (int i = 0; i < node->n_inputs; i++)
            if (node->present >> i & 1u) touch(plan, node->inputs[i].value, position);
        for (int o = 0; o < node->n_outputs; o++) touch(plan, node->outputs[o].value, position);
    }
}

/* Numbers the positions of every device's queue and notes who is touched where. */
static void number_positions(plait_plan *plan) {
    for (size_t s = 0; s < plan->n_steps; s++) {
        plait_plan_step *step = &plan->steps[s];
        int32_t *position = &plan->devices[step->device].n_positions;
        step->position = *position;
        switch (step->kind) {
        case PLAIT_STEP_WRITE_INPUT: touch(plan, plan->inputs[step->item].value, *position); break;
        case PLAIT_STEP_SEND: touch(plan, plan->transfers[step->item].source, *position); break;
        case PLAIT_STEP_RECEIVE: touch(plan, plan->transfers[step->item].target, *position); break;
        case PLAIT_STEP_READ_OUTPUT: touch(plan, plan->outputs[step->item].value, *position); break;
        case PLAIT_STEP_LAUNCH: {
            const plait_plan_segment *segment = &plan->segments[step->item];
            for (int g = 0; g < segment->prepared.n_groups; g++)
                touch_group(plan, segment, &segment->prepared.groups[g], *position + g);
            *position += segment->prepared.n_groups - 1;
            break;
        }
        }
        (*position)++;
    }
}

static bool in_arena(const plait_plan_value *value) {
    return value->slot == PLAIT_SLOT_ARENA && !value->elided && value->first >= 0;
}

static plait_plan_value *root_of(const plait_plan *plan, uint32_t value) {
    while (plan->values[value].alias != value) value = plan->values[value].alias;
    return &plan->values[value];
}

/* The output takes over the input's bytes when the input dies exactly where the output is born. */
static void accept_shared(plait_plan *plan) {
    for (size_t s = 0; s < plan->n_segments; s++) {
        const plait_prepared *prepared = &plan->segments[s].prepared;
        for (int k = 0; k < prepared->n_shared; k++) {
            uint32_t out = prepared->shared[k].output, in = prepared->shared[k].input;
            if (out >= plan->n_values || in >= plan->n_values || out == in) continue;
            plait_plan_value *output = &plan->values[out], *input = &plan->values[in];
            bool both = in_arena(output) && in_arena(input) && output->alias == out &&
                        output->size_bytes == input->size_bytes;
            if (!both || input->is_output || input->last != output->first) continue;
            plait_plan_value *root = root_of(plan, in);
            if (root->last > output->first && root != input) continue; /* taken over already by another */
            output->alias = (uint32_t)(root - plan->values);
            root->last = output->last;
        }
    }
}

/* ---- packing ---- */

static int by_size(const void *a, const void *b) {
    const item *x = a, *y = b;
    if (x->size != y->size) return x->size < y->size ? 1 : -1;
    int32_t dx = x->last - x->first, dy = y->last - y->first;
    if (dx != dy) return dx < dy ? 1 : -1;
    return x->sequence < y->sequence ? -1 : 1;
}

static int by_area(const void *a, const void *b) {
    const item *x = a, *y = b;
    double ax = (double)x->size * (x->last - x->first + 1), ay = (double)y->size * (y->last - y->first + 1);
    if (ax != ay) return ax < ay ? 1 : -1;
    return x->sequence < y->sequence ? -1 : 1;
}

static int by_length(const void *a, const void *b) {
    const item *x = a, *y = b;
    int32_t dx = x->last - x->first, dy = y->last - y->first;
    if (dx != dy) return dx < dy ? 1 : -1;
    return by_size(a, b);
}

static int by_start(const void *a, const void *b) {
    const item *x = a, *y = b;
    if (x->first != y->first) return x->first < y->first ? -1 : 1;
    return by_size(a, b);
}

static int by_end(const void *a, const void *b) {
    const item *x = a, *y = b;
    if (x->last != y->last) return x->last > y->last ? -1 : 1;
    return by_size(a, b);
}

/* Places items in the given order, each in the lowest gap (or, `best_fit`, the tightest) that is free for its whole
 * life. `placed` is kept sorted by offset. Returns the arena's size. */
static uint64_t pack(item *items, size_t n, const item **placed, bool best_fit) {
    uint64_t total = 0;
    for (size_t i = 0; i < n; i++) {
        item *it = &items[i];
        uint64_t cursor = 0, best = UINT64_MAX, best_gap = UINT64_MAX;
        for (size_t k = 0; k <= i; k++) {
            const item *other = k < i ? placed[k] : NULL;
            if (other && (other->last < it->first || other->first > it->last)) continue;
            uint64_t start = (cursor + it->alignment - 1) & ~(it->alignment - 1);
            uint64_t limit = other ? other->offset : UINT64_MAX;
            if (limit >= start && limit - start >= it->size) {
                uint64_t gap = limit - start;
                if (best == UINT64_MAX || (best_fit && gap < best_gap)) best = start, best_gap = gap;
                if (!best_fit) break;
            }
            if (other && other->offset + other->size > cursor) cursor = other->offset + other->size;
        }
        it->offset = best;
        size_t at = i;
        while (at > 0 && placed[at - 1]->offset > it->offset) placed[at] = placed[at - 1], at--;
        placed[at] = it;
        if (it->offset + it->size > total) total = it->offset + it->size;
    }
    return total;
}

static uint64_t lower_bound(const item *items, size_t n, int32_t n_positions, int32_t *out_position) {
    uint64_t heaviest = 0;
    for (int32_t p = 0; p < n_positions; p++) {
        uint64_t sum = 0;
        for (size_t i = 0; i < n; i++) sum += items[i].first <= p && p <= items[i].last ? items[i].size : 0;
        if (sum > heaviest) heaviest = sum, *out_position = p;
    }
    return heaviest;
}

static size_t gather(plait_plan *plan, int device, item *items) {
    size_t n = 0;
    uint64_t unit = plan->context->devices[device].info.alignment;
    for (size_t v = 0; v < plan->n_values; v++) {
        const plait_plan_value *value = &plan->values[v];
        if (value->device != device || !in_arena(value) || value->alias != v) continue;
        items[n] = (item){.size = value->size_bytes,
                          .alignment = unit,
                          .first = value->first,
                          .last = value->last,
                          .value = (uint32_t)v,
                          .sequence = (uint32_t)n};
        n++;
    }
    for (size_t s = 0; s < plan->n_steps; s++) {
        const plait_plan_step *step = &plan->steps[s];
        if (step->kind != PLAIT_STEP_LAUNCH || step->device != device) continue;
        plait_prepared *prepared = &plan->segments[step->item].prepared;
        for (int g = 0; g < prepared->n_groups; g++) {
            plait_group *group = &prepared->groups[g];
            uint64_t size = (group->scratch_bytes + unit - 1) & ~(unit - 1);
            group->scratch_slot = PLAIT_SLOT_ARENA;
            group->scratch_offset = 0;
            if (size == 0) continue;
            items[n] = (item){.size = size,
                              .first = step->position + g,
                              .last = step->position + g,
                              .alignment = group->scratch_alignment > unit ? group->scratch_alignment : unit,
                              .value = PLAIT_NO_SLOT,
                              .group = group,
                              .sequence = (uint32_t)n};
            n++;
        }
    }
    return n;
}

static void keep_offsets(plait_plan *plan, const item *items, size_t n) {
    for (size_t i = 0; i < n; i++) {
        if (items[i].group)
            items[i].group->scratch_offset = items[i].offset;
        else
            plan->values[items[i].value].offset = items[i].offset;
    }
}

/* Places again and again, each time beginning with what reached the top the time before: those are the items that found
 * no room among the others. Most graphs come to the bound in a few rounds. */
static uint64_t lift(plait_plan *plan, item *items, size_t n, const item **placed, bool best_fit,
                     uint64_t best, uint64_t bound, size_t rounds) {
    pack(items, n, placed, best_fit);
    for (size_t round = 0; round < rounds && best > bound; round++) {
        size_t top = 0;
        for (size_t i = 1; i < n; i++)
            if (items[i].offset + items[i].size > items[top].offset + items[top].size) top = i;
        if (top == 0) top = 1 + round % (n - 1); /* it was first already: another beginning */
        item moved = items[top];
        memmove(items + 1, items, top * sizeof *items);
        items[0] = moved;
        uint64_t total = pack(items, n, placed, best_fit);
        if (total < best) keep_offsets(plan, items, n), best = total;
    }
    return best;
}

static plait_status assign_device(plait_plan *plan, int device, item *items, const item **placed) {
    static const item_order orders[] = {by_size, by_area, by_length, by_start, by_end};
    plait_plan_device *row = &plan->devices[device];
    size_t n = gather(plan, device, items);
    uint64_t sum = 0;
    for (size_t i = 0; i < n; i++)
        if (!plait_add_u64(sum, items[i].size + items[i].alignment, &sum))
            return plait_error(PLAIT_OUT_OF_RANGE, "temporaries: sizes overflow");
    row->bound_bytes = lower_bound(items, n, row->n_positions, &row->bound_position);
    uint64_t best = UINT64_MAX;
    size_t best_k = 0, n_orders = 2 * PLAIT_COUNT_OF(orders);
    for (size_t k = 0; k < n_orders && best > row->bound_bytes; k++) {
        qsort(items, n, sizeof *items, orders[k / 2]);
        uint64_t total = pack(items, n, placed, k % 2 == 1);
        if (total < best) keep_offsets(plan, items, n), best = total, best_k = k;
    }
    /* Time is bounded: a round costs about n * n. The order that did best is tried first, then the others. */
    size_t rounds = n > 1 ? (size_t)8 + ((size_t)1 << 23) / (n * n) : 0;
    if (rounds > 512) rounds = 512;
    for (size_t i = 0; i < n_orders && best > row->bound_bytes; i++) {
        size_t k = (best_k + i) % n_orders;
        qsort(items, n, sizeof *items, orders[k / 2]);
        best = lift(plan, items, n, placed, k % 2 == 1, best, row->bound_bytes, rounds);
    }
    row->arena_bytes = best == UINT64_MAX ? 0 : best;
    return PLAIT_OK;
}

plait_status plait_plan_assign_memory(plait_plan *plan) {
    number_positions(plan);
    accept_shared(plan);
    size_t n_most = plan->n_values + (size_t)plan->facts.n_groups;
    item *items = plait_alloc_array(n_most, sizeof *items);
    const item **placed = plait_alloc_array(n_most, sizeof *placed);
    plait_status status =
        items && placed ? PLAIT_OK : plait_error_memory("plan memory", n_most * sizeof *items);
    for (int d = 0; status == PLAIT_OK && d < plan->context->n_devices; d++)
        status = assign_device(plan, d, items, placed);
    free(items);
    free(placed);
    PLAIT_TRY(status);
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
