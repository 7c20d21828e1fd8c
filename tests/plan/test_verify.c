/* The proof against plans that were broken on purpose: every kind of damage to a table that a run trusts is refused with
 * a message that says what is wrong, and the plan without the damage is accepted. */
#include "plan/plan.h"

#include "support/assert_ok.h"
#include "support/evaluate.h"
#include "support/fake_device.h"
#include "support/layers.h"
#include "support/saved_plan.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

typedef struct fixture {
    plait_context *context;
    plait_graph *graph;
    plait_plan *plan;
} fixture;

static void make(fixture *f, const char *devices) {
    assert_ok(plait_context_open(&f->context, devices, NULL));
    f->graph = layers(2);
    if (!f->graph) fail_msg("%s", plait_error_message());
    assert_ok(
        plait_plan_make(&f->plan, f->context, f->graph, &(plait_plan_options){.split = PLAIT_SPLIT_NONE}));
    assert_ok(plait_plan_verify(f->plan));
}

static void destroy(fixture *f) {
    plait_plan_release(f->plan);
    plait_graph_destroy(f->graph);
    plait_context_close(f->context);
}

/* ---- damage: returns false when the plan has no place for the k-th of this kind; undo by restoring the tables ---- */

typedef bool damage_fn(plait_plan *plan, int k);

/* The k-th step of a kind, or NULL. */
static plait_plan_step *step_of(plait_plan *plan, plait_step_kind kind, int k) {
    for (size_t s = 0; s < plan->n_steps; s++)
        if (plan->steps[s].kind == kind && k-- == 0) return &plan->steps[s];
    return NULL;
}

/* The k-th value in an arena that exists, or NULL. */
static plait_plan_value *arena_value(plait_plan *plan, int k) {
    for (size_t v = 0; v < plan->n_values; v++)
        if (plan->values[v].slot == PLAIT_SLOT_ARENA && plan->values[v].first >= 0 && k-- == 0)
            return &plan->values[v];
    return NULL;
}

static plait_segment_operand *operand_of(plait_plan *plan, int k, bool output) {
    for (size_t s = 0; s < plan->n_segments; s++)
        for (uint32_t n = 0; n < plan->segments[s].n_nodes; n++) {
            plait_segment_node *node = &plan->segments[s].nodes[n];
            for (int i = 0; i < (output ? node->n_outputs : node->n_inputs); i++)
                if ((output || (node->present >> i & 1u)) && k-- == 0)
                    return output ? &node->outputs[i] : &node->inputs[i];
        }
    return NULL;
}

static int *turn_of(const plait_plan_segment *segment, int node) {
    int *at = segment->prepared.order;
    while (*at != node) at++;
    return at;
}

/* Turns of two nodes of which the second reads what the first makes. */
static bool swap_groups(plait_plan *plan, int k) {
    for (size_t s = 0; s < plan->n_segments; s++) {
        plait_plan_segment *segment = &plan->segments[s];
        for (uint32_t n = 0; n + 1 < segment->n_nodes; n++) {
            const plait_segment_node *first = &segment->nodes[n], *second = &segment->nodes[n + 1];
            bool depends = false;
            for (int i = 0; i < second->n_inputs; i++)
                depends |= (second->present >> i & 1u) && second->inputs[i].value == first->outputs[0].value;
            if (!depends || k-- > 0) continue;
            int *a = turn_of(segment, (int)n), *b = turn_of(segment, (int)n + 1), keep = *a;
            *a = *b;
            *b = keep;
            return true;
        }
    }
    return false;
}

static bool overlap_values(plait_plan *plan, int k) {
    plait_plan_value *a = arena_value(plan, k);
    if (!a) return false;
    for (size_t v = 0; v < plan->n_values; v++) {
        plait_plan_value *b = &plan->values[v];
        bool other = b != a && b->device == a->device && b->slot == PLAIT_SLOT_ARENA && b->first >= 0 &&
                     b->size_bytes && a->size_bytes && b->offset != a->offset;
        if (!other || a->last <= b->first || b->last <= a->first)
            continue; /* never both alive, or just touching */
        a->offset = b->offset;
        plait_plan_set_addresses(plan);
        return true;
    }
    return k < 40 && overlap_values(plan, k + 1);
}

/* The second takes over the first's bytes at the moment when that dies, but no device allowed it. */
static bool alias_without_permission(plait_plan *plan, int k) {
    for (size_t a = 0; a < plan->n_values; a++)
        for (size_t b = 0; b < plan->n_values; b++) {
            plait_plan_value *x = &plan->values[a], *y = &plan->values[b];
            bool pair = a != b && x->device == y->device && x->slot == PLAIT_SLOT_ARENA &&
                        y->slot == PLAIT_SLOT_ARENA && x->first >= 0 && y->first == x->last &&
                        y->first > x->first && x->size_bytes == y->size_bytes && x->offset != y->offset;
            for (size_t s = 0; s < plan->n_segments; s++)
                for (int i = 0; i < plan->segments[s].prepared.n_shared; i++)
                    pair &= plan->segments[s].prepared.shared[i].output != b ||
                            plan->segments[s].prepared.shared[i].input != a;
            if (!pair || k-- > 0) continue;
            y->offset = x->offset;
            plait_plan_set_addresses(plan);
            return true;
        }
    return false;
}

static bool forget_permission(plait_plan *plan, int k) {
    for (size_t s = 0; s < plan->n_segments; s++)
        for (int i = 0; i < plan->segments[s].prepared.n_shared; i++) {
            uint32_t out = plan->segments[s].prepared.shared[i].output;
            const plait_plan_value *in = &plan->values[plan->segments[s].prepared.shared[i].input];
            bool used = plan->values[out].alias != out && in->offset == plan->values[out].offset &&
                        in->last == plan->values[out].first && in->slot == PLAIT_SLOT_ARENA;
            if (!used || k-- > 0) continue;
            plan->segments[s].prepared.shared[i].output = UINT32_MAX;
            return true;
        }
    return false;
}

static bool value_beyond_arena(plait_plan *plan, int k) {
    plait_plan_value *v = arena_value(plan, k);
    if (!v) return false;
    v->offset = plan->devices[v->device].arena_bytes - v->size_bytes + 256;
    plait_plan_set_addresses(plan);
    return true;
}

static bool arena_too_small(plait_plan *plan, int k) {
    if (k >= plan->context->n_devices || plan->devices[k].arena_bytes < 64) return false;
    plan->devices[k].arena_bytes -= 64;
    return true;
}

static bool unaligned(plait_plan *plan, int k) {
    plait_plan_value *v = arena_value(plan, k);
    if (!v || v->offset == 0) return v && unaligned(plan, k + 1);
    v->offset -= 4;
    plait_plan_set_addresses(plan);
    return true;
}

static bool operand_offset(plait_plan *plan, int k) {
    plait_segment_operand *o = operand_of(plan, k, k % 2);
    if (o) o->offset += 64;
    return o != NULL;
}

static bool operand_slot(plait_plan *plan, int k) {
    plait_segment_operand *o = operand_of(plan, k, k % 2);
    if (o) o->slot = o->slot == PLAIT_SLOT_ARENA ? PLAIT_SLOT_INPUTS : PLAIT_SLOT_ARENA;
    return o != NULL;
}

static bool operand_view(plait_plan *plan, int k) {
    plait_segment_operand *o = operand_of(plan, k, false);
    if (o) o->view_offset += 4, o->offset += 4;
    return o != NULL;
}

static bool operand_value(plait_plan *plan, int k) {
    plait_segment_operand *o = operand_of(plan, k, false);
    if (!o) return false;
    o->value = (o->value + 1) % (uint32_t)plan->n_values;
    plait_plan_set_addresses(plan);
    return true;
}

static bool operand_shape(plait_plan *plan, int k) {
    plait_segment_operand *o = operand_of(plan, k, k % 2);
    if (o) o->shape.strides[1] += 4;
    return o != NULL;
}

static bool value_slot(plait_plan *plan, int k) {
    static const uint32_t slots[] = {PLAIT_SLOT_INPUTS, PLAIT_SLOT_STATE, PLAIT_SLOT_WEIGHTS, 4000};
    plait_plan_value *v = arena_value(plan, k / 4);
    if (!v) return false;
    v->slot = slots[k % 4];
    plait_plan_set_addresses(plan);
    return true;
}

static bool resident_moved(plait_plan *plan, int k) {
    for (size_t v = 0; v < plan->n_values; v++) {
        plait_plan_value *row = &plan->values[v];
        if (row->slot < PLAIT_SLOT_STATE || k-- > 0) continue;
        row->offset += plan->context->devices[row->device].info.alignment;
        plait_plan_set_addresses(plan);
        return true;
    }
    return false;
}

static bool scratch_over_value(plait_plan *plan, int k) {
    for (size_t s = 0; s < plan->n_segments; s++)
        for (int g = 0; g < plan->segments[s].prepared.n_groups; g++) {
            plait_group *group = &plan->segments[s].prepared.groups[g];
            if (!group->scratch_bytes || k-- > 0) continue;
            const plait_segment_node *node =
                &plan->segments[s].nodes[plan->segments[s].prepared.order[group->first]];
            group->scratch_offset = plan->values[node->outputs[0].value].offset;
            if (plan->values[node->outputs[0].value].slot != PLAIT_SLOT_ARENA)
                group->scratch_offset = plan->values[node->inputs[1].value].offset;
            return true;
        }
    return false;
}

static bool scratch_beyond(plait_plan *plan, int k) {
    for (size_t s = 0; s < plan->n_segments; s++)
        for (int g = 0; g < plan->segments[s].prepared.n_groups; g++) {
            plait_group *group = &plan->segments[s].prepared.groups[g];
            if (!group->scratch_bytes || k-- > 0) continue;
            group->scratch_offset = plan->devices[plan->segments[s].device].arena_bytes;
            return true;
        }
    return false;
}

/* The step that has the k-th wait. */
static plait_plan_step *waiting_step(plait_plan *plan, int k) {
    for (size_t s = 0; s < plan->n_steps; s++)
        if ((uint32_t)k >= plan->steps[s].first_wait &&
            (uint32_t)k < plan->steps[s].first_wait + plan->steps[s].n_waits)
            return &plan->steps[s];
    return NULL;
}

static bool drop_wait(plait_plan *plan, int k) {
    plait_plan_step *step = (size_t)k < plan->n_waits ? waiting_step(plan, k) : NULL;
    if (!step) return false;
    plan->waits[k] = plan->waits[step->first_wait + step->n_waits - 1];
    step->n_waits--;
    return true;
}

/* For a step that nobody waited for, so that no signal comes. */
static bool wrong_wait(plait_plan *plan, int k) {
    if ((size_t)k >= plan->n_waits) return false;
    for (size_t s = 0; s < plan->n_steps; s++)
        if (plan->steps[s].signal == 0) {
            plan->waits[k].step = (uint32_t)s;
            return true;
        }
    return false;
}

static bool wait_for_itself(plait_plan *plan, int k) {
    plait_plan_step *step = (size_t)k < plan->n_waits ? waiting_step(plan, k) : NULL;
    if (!step) return false;
    plan->waits[k] = (plait_plan_wait){.step = (uint32_t)(step - plan->steps)};
    step->signal = step->signal ? step->signal : 1;
    return true;
}

static bool signal_missing(plait_plan *plan, int k) {
    for (size_t s = 0; s < plan->n_steps; s++)
        if (plan->steps[s].signal && k-- == 0) {
            plan->steps[s].signal = 0;
            return true;
        }
    return false;
}

static bool end_not_awaited(plait_plan *plan, int k) {
    for (size_t q = 0; q < plan->n_queues; q++)
        if (plan->queues[q].awaited && k-- == 0) {
            plan->queues[q].awaited = false;
            return true;
        }
    return false;
}

static bool touches_unsaid(plait_plan *plan, int k) {
    for (size_t q = 0; q < plan->n_queues; q++)
        for (int d = 0; d < plan->context->n_devices; d++)
            if (plan->queues[q].touches >> d & 1u && k-- == 0) {
                plan->queues[q].touches &= ~((uint64_t)1 << d);
                return true;
            }
    return false;
}

/* A step becomes another one of its kind, so one happens twice and one never. */
static bool step_twice(plait_plan *plan, int k) {
    static const plait_step_kind kinds[] = {PLAIT_STEP_WRITE_INPUT, PLAIT_STEP_LAUNCH, PLAIT_STEP_SEND,
                                            PLAIT_STEP_RECEIVE, PLAIT_STEP_READ_OUTPUT};
    plait_plan_step *a = step_of(plan, kinds[k % 5], k / 5), *b = step_of(plan, kinds[k % 5], k / 5 + 1);
    if (!a || !b) return false;
    b->item = a->item;
    return true;
}

static bool last_step_dropped(plait_plan *plan, int k) {
    if ((size_t)k >= plan->n_steps) return false;
    plan->n_steps -= (size_t)k + 1;
    return true;
}

static bool first_steps_dropped(plait_plan *plan, int k) {
    if ((size_t)k + 1 >= plan->n_steps) return false;
    memmove(plan->steps, plan->steps + k + 1, (plan->n_steps - (size_t)k - 1) * sizeof *plan->steps);
    plan->n_steps -= (size_t)k + 1;
    return true;
}

/* A step before what it needs: its neighbour on its own queue, where one of them computes, or that it waits for. */
static bool steps_swapped(plait_plan *plan, int k) {
    for (size_t s = 0; s + 1 < plan->n_steps; s++) {
        plait_plan_step *a = &plan->steps[s], *b = &plan->steps[s + 1], keep = *a;
        bool needs = a->queue == b->queue && (a->kind == PLAIT_STEP_LAUNCH || b->kind == PLAIT_STEP_LAUNCH);
        for (uint32_t w = b->first_wait; w < b->first_wait + b->n_waits; w++)
            needs |= !plan->waits[w].before && plan->waits[w].step == s;
        if (!needs || k-- > 0) continue;
        *a = *b;
        *b = keep;
        return true;
    }
    return false;
}

static bool step_elsewhere(plait_plan *plan, int k) {
    if ((size_t)k >= plan->n_steps || plan->context->n_devices < 2) return false;
    plait_plan_step *step = &plan->steps[k];
    step->device = 1 - step->device;
    step->queue = (uint32_t)step->device * PLAIT_DEVICE_QUEUES + step->queue % PLAIT_DEVICE_QUEUES;
    return true;
}

static bool step_on_other_queue(plait_plan *plan, int k) {
    plait_plan_step *step = step_of(plan, PLAIT_STEP_LAUNCH, k);
    if (!step) return false;
    step->queue++;
    return true;
}

static bool transfer_staging_shared(plait_plan *plan, int k) {
    for (size_t t = 0; t + 1 < plan->n_transfers; t++) {
        plait_plan_transfer *a = &plan->transfers[t], *b = &plan->transfers[t + 1];
        if (a->route != PLAIT_ROUTE_STAGED || b->route != PLAIT_ROUTE_STAGED || k-- > 0) continue;
        b->staging_offset = a->staging_offset;
        return true;
    }
    return false;
}

static bool transfer_staging_small(plait_plan *plan, int k) {
    if (k > 0 || plan->transfer_staging_bytes == 0) return false;
    plan->transfer_staging_bytes -= 64;
    return true;
}

static bool transfer_size(plait_plan *plan, int k) {
    if ((size_t)k >= plan->n_transfers) return false;
    plan->transfers[k].size_bytes -= 4;
    return true;
}

static bool transfer_target(plait_plan *plan, int k) {
    if ((size_t)k + 1 >= plan->n_transfers) return false;
    uint32_t keep = plan->transfers[k].target;
    if (plan->values[keep].storage == plan->values[plan->transfers[k + 1].target].storage) return false;
    plan->transfers[k].target = plan->transfers[k + 1].target;
    plan->transfers[k + 1].target = keep;
    return true;
}

/* As if the two halves of the staging, by parity of the step, were one. */
static bool input_parity_ignored(plait_plan *plan, int k) {
    if (k > 0 || plan->input_staging_bytes == 0) return false;
    plan->input_staging_bytes = 0;
    return true;
}

static bool output_parity_ignored(plait_plan *plan, int k) {
    if (k > 0) return false;
    plan->output_staging_bytes = 0;
    return true;
}

static bool inputs_overlap(plait_plan *plan, int k) {
    if ((size_t)k + 1 >= plan->n_inputs || plan->inputs[k].home != PLAIT_NO_SLOT) return false;
    if (plan->inputs[k].storage == plan->inputs[k + 1].storage) return false;
    plan->inputs[k + 1].host_offset = plan->inputs[k].host_offset;
    return true;
}

static bool outputs_overlap(plait_plan *plan, int k) {
    if (k > 0) return false;
    plan->outputs[1].host_offset = plan->outputs[0].host_offset;
    return true;
}

static bool output_beyond(plait_plan *plan, int k) {
    if ((size_t)k >= plan->n_outputs) return false;
    plan->outputs[k].source_offset += 64;
    return true;
}

static bool output_of_another(plait_plan *plan, int k) {
    if (k > 0) return false;
    plan->outputs[0].value = (plan->outputs[0].value + 1) % (uint32_t)plan->n_values;
    return true;
}

static bool input_values_overlap(plait_plan *plan, int k) {
    if ((size_t)k + 1 >= plan->n_inputs) return false;
    plait_plan_value *a = &plan->values[plan->inputs[k].value], *b = &plan->values[plan->inputs[k + 1].value];
    bool together = a->device == b->device && a->last >= b->first && b->last >= a->first;
    if (!together) return (size_t)k + 2 < plan->n_inputs && input_values_overlap(plan, k + 1);
    b->offset = a->offset;
    plait_plan_set_addresses(plan);
    return true;
}

/* Two residents on the same bytes. */
static bool residents_overlap(plait_plan *plan, int k) {
    plait_residence *r = plan->residence;
    for (size_t a = 0; a < r->n_entries; a++)
        for (size_t b = 0; b < r->n_entries; b++) {
            plait_resident *x = &r->entries[a], *y = &r->entries[b];
            if (a == b || x->device != y->device || x->slot != PLAIT_SLOT_STATE || y->slot != x->slot ||
                k-- > 0)
                continue;
            y->offset = x->offset;
            plait_plan_value *value =
                plait_plan_value_on(plan, 0, 0); /* follows, so that only the overlap is wrong */
            for (size_t v = 0; v < plan->n_values; v++) {
                value = &plan->values[v];
                if (value->slot == PLAIT_SLOT_STATE && value->device == y->device &&
                    strcmp(plan->graph->storages[value->storage].name, y->name) == 0)
                    value->offset = y->offset;
            }
            plait_plan_set_addresses(plan);
            return true;
        }
    return false;
}

/* A value is said not to exist though several groups use it. */
static bool elided_across_groups(plait_plan *plan, int k) {
    plait_plan_value *v = arena_value(plan, k);
    if (!v) return false;
    if (v->first == v->last) return elided_across_groups(plan, k + 1);
    v->elided = true;
    plait_plan_set_addresses(plan);
    return true;
}

static bool node_missing(plait_plan *plan, int k) {
    for (size_t s = 0; s < plan->n_segments; s++) {
        plait_plan_segment *segment = &plan->segments[s];
        if (segment->n_nodes < 2 || k-- > 0) continue;
        segment->nodes[segment->n_nodes - 1] = segment->nodes[segment->n_nodes - 2];
        return true;
    }
    return false;
}

static bool other_attribute(plait_plan *plan, int k) {
    for (size_t s = 0; s < plan->n_segments; s++)
        for (uint32_t n = 0; n < plan->segments[s].n_nodes; n++) {
            if (plan->segments[s].nodes[n].op->n_attrs == 0 || k-- > 0) continue;
            plan->segments[s].nodes[n].attrs[0].i++;
            return true;
        }
    return false;
}

static const struct kind {
    const char *name;
    damage_fn *damage;
    const char *message; /* part of it */
} kinds[] = {
    {"two dependent groups in the wrong order", swap_groups, "proof: "},
    {"two living values on the same bytes", overlap_values, "share bytes"},
    {"bytes taken over without permission", alias_without_permission, "share bytes"},
    {"a permission that was used is taken back", forget_permission, "share bytes"},
    {"a value beyond the arena", value_beyond_arena, "of a buffer of"},
    {"an arena that is too small", arena_too_small, "proof: "},
    {"an offset that is not aligned", unaligned, "not aligned"},
    {"an operand's offset", operand_offset, "address is not that of"},
    {"an operand's slot", operand_slot, "address is not that of"},
    {"an operand's view", operand_view, "proof: "},
    {"an operand of another value", operand_value, "proof: "},
    {"an operand's strides", operand_shape, "proof: "},
    {"a value's slot", value_slot, "proof: "},
    {"a weight or state that is elsewhere", resident_moved, "proof: "},
    {"scratch over a value", scratch_over_value, "share bytes"},
    {"scratch beyond the arena", scratch_beyond, "leaves the arena"},
    {"a wait that is missing", drop_wait, "proof: "},
    {"a wait for something else", wrong_wait, "proof: "},
    {"a wait for itself", wait_for_itself, "proof: "},
    {"a signal that is missing", signal_missing, "signal"},
    {"a queue whose end nobody awaits", end_not_awaited, "not ordered"},
    {"a queue that touches more than it says", touches_unsaid, "says nothing of"},
    {"a step done twice, another never", step_twice, "proof: "},
    {"the last steps are missing", last_step_dropped, "proof: "},
    {"the first steps are missing", first_steps_dropped, "proof: "},
    {"steps in the wrong order", steps_swapped, "proof: "},
    {"a step on another device's queue", step_elsewhere, "proof: "},
    {"a launch on a queue for copies", step_on_other_queue, "on a queue that"},
    {"transfers that share staging", transfer_staging_shared, "transfer staging"},
    {"too little staging for transfers", transfer_staging_small, "transfer staging"},
    {"a transfer that is cut short", transfer_size, "proof: a transfer moves"},
    {"transfers to each other's targets", transfer_target, "proof: "},
    {"inputs without two halves", input_parity_ignored, "input staging"},
    {"outputs without two halves", output_parity_ignored, "output staging"},
    {"inputs on the same staging", inputs_overlap, "input staging"},
    {"outputs on the same staging", outputs_overlap, "output staging"},
    {"an output beyond its value", output_beyond, "proof: output"},
    {"an output of another value", output_of_another, "proof: "},
    {"inputs on the same device memory", input_values_overlap, "proof: "},
    {"states on the same memory", residents_overlap, "share bytes"},
    {"a value that never exists is used by several groups", elided_across_groups, "never exist"},
    {"a node that never runs", node_missing, "proof: "},
    {"a node with another attribute", other_attribute, "proof: node"},
};

/* ---- the test ---- */

static int try_kind(fixture *f, saved *s, const struct kind *kind) {
    int tried = 0;
    for (int k = 0; k < 400; k++) {
        bool done = kind->damage(f->plan, k);
        plait_status status = done ? plait_plan_verify(f->plan) : PLAIT_INTERNAL;
        char message[PLAIT_ERROR_BYTES] = "";
        if (status != PLAIT_OK) plait_error_copy(message, sizeof message);
        restore(f->plan, s);
        if (!done) break;
        tried++;
        if (status != PLAIT_INTERNAL)
            fail_msg("%s, place %d: the proof accepts it (%s)", kind->name, k, message);
        if (!strstr(message, kind->message))
            fail_msg("%s, place %d: \"%s\" says nothing of \"%s\"", kind->name, k, message, kind->message);
    }
    assert_ok(plait_plan_verify(f->plan));
    return tried;
}

static void test_damage_is_refused(void **state) {
    (void)state;
    static const char *const lists[] = {
        "fake:lack=attention+rms_norm:hide=yes:copy=1,fake:lack=kv_write+get_rows:hide=yes:copy=1",
        "fake:lack=attention+rms_norm,fake:lack=kv_write+get_rows", "fake:hide=yes", "fake"};
    int tried[sizeof kinds / sizeof *kinds] = {0}, sum = 0;
    for (size_t l = 0; l < sizeof lists / sizeof *lists; l++) {
        fixture f = {0};
        saved s = {0};
        make(&f, lists[l]);
        save(f.plan, &s);
        for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) tried[i] += try_kind(&f, &s, &kinds[i]);
        forget(&s);
        destroy(&f);
    }
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        if (tried[i] == 0) fail_msg("%s: no place for it in these plans", kinds[i].name);
        sum += tried[i];
    }
    print_message("%zu kinds of damage, %d places\n", sizeof kinds / sizeof *kinds, sum);
}

static int make_known(void **state) {
    (void)state;
    return fake_register() == PLAIT_OK ? 0 : -1;
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_damage_is_refused)};
    return cmocka_run_group_tests(tests, make_known, NULL);
}
