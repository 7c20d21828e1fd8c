/* Plans for several devices, damaged in every way at every place: the proof refuses the damage, or what it let pass is
 * harmless in any order of the commands, which a run on symbols with a journal proves (support/symbolic.h); runs in many
 * orders are made beside it, to see that it speaks the truth. And plans that are whole pass all of it. */
/* labels: slow */
#include "plan/plan.h"

#include "support/assert_ok.h"
#include "support/fake_device.h"
#include "support/layers.h"
#include "support/random_graph.h"
#include "support/saved_plan.h"
#include "support/symbolic.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

enum { ORDERS = 12, WHOLE_ORDERS = 40 };

/* ---- damage: false when the plan has no k-th place for it ---- */

typedef bool damage_fn(plait_plan *plan, size_t k);

static plait_plan_step *step_with_wait(plait_plan *plan, size_t k) {
    for (size_t s = 0; s < plan->n_steps; s++)
        if (k >= plan->steps[s].first_wait && k < plan->steps[s].first_wait + plan->steps[s].n_waits)
            return &plan->steps[s];
    return NULL;
}

static bool drop_wait(plait_plan *plan, size_t k) {
    plait_plan_step *step = step_with_wait(plan, k);
    if (!step) return false;
    plan->waits[k] = plan->waits[step->first_wait + --step->n_waits];
    return true;
}

static bool wait_for_previous(plait_plan *plan, size_t k) {
    if (k >= plan->n_waits) return false;
    plan->waits[k].step = (plan->waits[k].step + (uint32_t)plan->n_steps - 1) % (uint32_t)plan->n_steps;
    return true;
}

static bool wait_for_next(plait_plan *plan, size_t k) {
    if (k >= plan->n_waits) return false;
    plan->waits[k].step = (plan->waits[k].step + 1) % (uint32_t)plan->n_steps;
    return true;
}

/* For another signal of the same queue. */
static bool wait_for_other_signal(plait_plan *plan, size_t k) {
    if (k >= 2 * plan->n_waits) return false;
    plait_plan_wait *wait = &plan->waits[k / 2];
    uint32_t queue = plan->steps[wait->step].queue;
    for (size_t i = 1; i < plan->n_steps; i++) {
        size_t s = (wait->step + (k % 2 ? i : plan->n_steps - i)) % plan->n_steps;
        if (plan->steps[s].queue != queue || !plan->steps[s].signal) continue;
        wait->step = (uint32_t)s;
        break;
    }
    return true;
}

static bool wait_in_other_step(plait_plan *plan, size_t k) {
    if (k >= plan->n_waits) return false;
    plan->waits[k].before = !plan->waits[k].before;
    return true;
}

static bool drop_signal(plait_plan *plan, size_t k) {
    if (k >= plan->n_steps) return false;
    plan->steps[k].signal = 0;
    return true;
}

static bool other_signal(plait_plan *plan, size_t k) {
    if (k >= plan->n_steps) return false;
    plan->steps[k].signal++;
    return true;
}

static void exchange(plait_plan *plan, size_t a, size_t b) {
    plait_plan_step keep = plan->steps[a];
    plan->steps[a] = plan->steps[b];
    plan->steps[b] = keep;
    for (size_t w = 0; w < plan->n_waits; w++) /* waits mean the same step as before */
        plan->waits[w].step = plan->waits[w].step == a   ? (uint32_t)b
                              : plan->waits[w].step == b ? (uint32_t)a
                                                         : plan->waits[w].step;
}

/* Numbers the signals anew in the order of the list, as a plan of that order would have them. */
static void renumber(plait_plan *plan) {
    for (size_t q = 0; q < plan->n_queues; q++) plan->queues[q].n_signals = 0;
    for (size_t s = 0; s < plan->n_steps; s++)
        if (plan->steps[s].signal) plan->steps[s].signal = ++plan->queues[plan->steps[s].queue].n_signals;
}

static bool swap_neighbours(plait_plan *plan, size_t k) {
    if (k + 1 >= plan->n_steps) return false;
    exchange(plan, k, k + 1);
    renumber(plan);
    return true;
}

static bool swap_distant(plait_plan *plan, size_t k) {
    if (k + 5 >= plan->n_steps) return false;
    exchange(plan, k, k + 5);
    renumber(plan);
    return true;
}

/* The step goes to the end of the list. */
static bool step_last(plait_plan *plan, size_t k) {
    if (k + 1 >= plan->n_steps) return false;
    for (size_t s = k; s + 1 < plan->n_steps; s++) exchange(plan, s, s + 1);
    renumber(plan);
    return true;
}

static bool step_first(plait_plan *plan, size_t k) {
    if (k == 0) return step_first(plan, 1);
    if (k >= plan->n_steps) return false;
    for (size_t s = k; s > 0; s--) exchange(plan, s, s - 1);
    renumber(plan);
    return true;
}

static bool step_on_other_queue(plait_plan *plan, size_t k) {
    if (k >= plan->n_steps * plan->n_queues) return false;
    plait_plan_step *step = &plan->steps[k / plan->n_queues];
    step->queue = (uint32_t)(k % plan->n_queues);
    step->device = (int)(step->queue / PLAIT_DEVICE_QUEUES);
    renumber(plan);
    return true;
}

static size_t items_of(const plait_plan *plan, plait_step_kind kind) {
    switch (kind) {
    case PLAIT_STEP_LAUNCH: return plan->n_segments;
    case PLAIT_STEP_WRITE_INPUT: return plan->n_inputs;
    case PLAIT_STEP_READ_OUTPUT: return plan->n_outputs;
    default: return plan->n_transfers;
    }
}

static bool other_item(plait_plan *plan, size_t k) {
    if (k >= plan->n_steps) return false;
    plait_plan_step *step = &plan->steps[k];
    step->item = (step->item + 1) % (uint32_t)items_of(plan, step->kind);
    return true;
}

static bool step_dropped(plait_plan *plan, size_t k) {
    if (!step_last(plan, k)) return false;
    plan->n_steps--;
    for (size_t w = 0; w < plan->n_waits; w++)
        if (plan->waits[w].step == plan->n_steps) plan->waits[w].step = 0;
    renumber(plan);
    return true;
}

static bool end_not_awaited(plait_plan *plan, size_t k) {
    if (k >= plan->n_queues) return false;
    plan->queues[k].awaited = false;
    return true;
}

static bool touches_less(plait_plan *plan, size_t k) {
    if (k >= plan->n_queues * 4) return false;
    plan->queues[k / 4].touches &= ~((uint64_t)1 << k % 4);
    return true;
}

static bool value_elsewhere(plait_plan *plan, size_t k, int64_t by) {
    for (size_t v = 0; v < plan->n_values; v++) {
        plait_plan_value *value = &plan->values[v];
        if (value->slot > PLAIT_SLOT_INPUTS || value->first < 0 || k-- > 0) continue;
        uint64_t unit = plan->context->devices[value->device].info.alignment;
        value->offset = (uint64_t)((int64_t)value->offset + by * (int64_t)unit);
        plait_plan_set_addresses(plan);
        return true;
    }
    return false;
}

static bool value_behind(plait_plan *plan, size_t k) {
    return value_elsewhere(plan, k, 1);
}

static bool value_before(plait_plan *plan, size_t k) {
    return value_elsewhere(plan, k, -1);
}

/* On the bytes of each other value of its device in turn. */
static bool value_on_other(plait_plan *plan, size_t k) {
    for (size_t v = 0; v < plan->n_values; v++)
        for (size_t o = 0; o < plan->n_values; o++) {
            plait_plan_value *value = &plan->values[v], *other = &plan->values[o];
            bool pair = v != o && value->device == other->device && value->slot == other->slot &&
                        value->slot <= PLAIT_SLOT_INPUTS && value->first >= 0 && other->first >= 0;
            if (!pair || k-- > 0) continue;
            value->offset = other->offset;
            plait_plan_set_addresses(plan);
            return true;
        }
    return false;
}

static plait_segment_operand *operand_at(plait_plan *plan, size_t k) {
    for (size_t s = 0; s < plan->n_segments; s++)
        for (uint32_t n = 0; n < plan->segments[s].n_nodes; n++) {
            plait_segment_node *node = &plan->segments[s].nodes[n];
            for (int i = 0; i < node->n_inputs + node->n_outputs; i++) {
                if (i < node->n_inputs && !(node->present >> i & 1u)) continue;
                if (k-- == 0)
                    return i < node->n_inputs ? &node->inputs[i] : &node->outputs[i - node->n_inputs];
            }
        }
    return NULL;
}

static bool operand_behind(plait_plan *plan, size_t k) {
    plait_segment_operand *o = operand_at(plan, k);
    if (o) o->offset += 64;
    return o != NULL;
}

static bool operand_before(plait_plan *plan, size_t k) {
    plait_segment_operand *o = operand_at(plan, k);
    if (o) o->offset -= 64;
    return o != NULL;
}

static plait_group *scratch_at(plait_plan *plan, size_t k) {
    for (size_t s = 0; s < plan->n_segments; s++)
        for (int g = 0; g < plan->segments[s].prepared.n_groups; g++)
            if (plan->segments[s].prepared.groups[g].scratch_bytes && k-- == 0)
                return &plan->segments[s].prepared.groups[g];
    return NULL;
}

static bool scratch_behind(plait_plan *plan, size_t k) {
    plait_group *group = scratch_at(plan, k);
    if (group) group->scratch_offset += 64;
    return group != NULL;
}

static bool scratch_first(plait_plan *plan, size_t k) {
    plait_group *group = scratch_at(plan, k);
    if (group) group->scratch_offset = 0;
    return group != NULL;
}

/* A node runs before the one ahead of it. */
static bool nodes_swapped(plait_plan *plan, size_t k) {
    for (size_t s = 0; s < plan->n_segments; s++)
        for (uint32_t n = 0; n + 1 < plan->segments[s].n_nodes; n++) {
            int *order = plan->segments[s].prepared.order, keep = order[n];
            if (k-- > 0) continue;
            order[n] = order[n + 1];
            order[n + 1] = keep;
            return true;
        }
    return false;
}

/* A node's place in the segment is another's. */
static bool node_moved(plait_plan *plan, size_t k) {
    for (size_t s = 0; s < plan->n_segments; s++)
        for (uint32_t n = 0; n + 1 < plan->segments[s].n_nodes; n++) {
            plait_segment_node *nodes = plan->segments[s].nodes, keep = nodes[n];
            if (k-- > 0) continue;
            nodes[n] = nodes[n + 1];
            nodes[n + 1] = keep;
            return true;
        }
    return false;
}

/* The last node of a segment runs in the next one, whichever device that is on. */
static bool node_in_next_segment(plait_plan *plan, size_t k) {
    if (k + 1 >= plan->n_segments) return false;
    plait_plan_segment *a = &plan->segments[k], *b = &plan->segments[k + 1];
    plait_segment_node keep = a->nodes[a->n_nodes - 1];
    a->nodes[a->n_nodes - 1] = b->nodes[0];
    b->nodes[0] = keep;
    return true;
}

static bool transfer_of_less(plait_plan *plan, size_t k) {
    if (k >= plan->n_transfers) return false;
    plait_plan_transfer *t = &plan->transfers[k];
    if (t->part.n_levels == 0 && t->part.end > t->part.begin + 2) t->part.end -= 2;
    if (t->part.n_levels > 0) t->part.levels[0].count--;
    t->size_bytes = plait_part_bytes(&t->part);
    return true;
}

static bool transfer_from_behind(plait_plan *plan, size_t k) {
    if (k >= plan->n_transfers) return false;
    plan->transfers[k].part.begin += 2;
    plan->transfers[k].size_bytes = plait_part_bytes(&plan->transfers[k].part);
    return true;
}

static bool transfer_elsewhere(plait_plan *plan, size_t k) {
    if (k >= plan->n_transfers * plan->n_values) return false;
    plan->transfers[k / plan->n_values].target = (uint32_t)(k % plan->n_values);
    return true;
}

static bool transfer_from_other(plait_plan *plan, size_t k) {
    if (k >= plan->n_transfers * plan->n_values) return false;
    plan->transfers[k / plan->n_values].source = (uint32_t)(k % plan->n_values);
    return true;
}

static bool transfer_other_way(plait_plan *plan, size_t k) {
    if (k >= plan->n_transfers * 4) return false;
    plan->transfers[k / 4].route = (plait_route)(k % 4);
    return true;
}

static bool transfer_staged_elsewhere(plait_plan *plan, size_t k) {
    if (k >= plan->n_transfers * 2) return false;
    if (plan->transfers[k / 2].route == PLAIT_ROUTE_STAGED)
        plan->transfers[k / 2].staging_offset += k % 2 ? 64 : (uint64_t)-64;
    return true;
}

static bool staging_of_other(plait_plan *plan, size_t k) {
    if (k >= plan->n_transfers * plan->n_transfers) return false;
    plait_plan_transfer *a = &plan->transfers[k / plan->n_transfers];
    const plait_plan_transfer *b = &plan->transfers[k % plan->n_transfers];
    if (a->route == PLAIT_ROUTE_STAGED && b->route == PLAIT_ROUTE_STAGED)
        a->staging_offset = b->staging_offset;
    return true;
}

static bool input_elsewhere(plait_plan *plan, size_t k) {
    if (k >= plan->n_inputs * 2) return false;
    if (plan->inputs[k / 2].home == PLAIT_NO_SLOT)
        plan->inputs[k / 2].host_offset += k % 2 ? 64 : (uint64_t)-64;
    return true;
}

static bool input_home(plait_plan *plan, size_t k) {
    size_t n = plan->n_inputs + 1;
    if (k >= plan->n_inputs * n) return false;
    plan->inputs[k / n].home = k % n == plan->n_inputs ? PLAIT_NO_SLOT : (uint32_t)(k % n);
    return true;
}

static bool output_elsewhere(plait_plan *plan, size_t k) {
    if (k >= plan->n_outputs * 2) return false;
    plan->outputs[k / 2].host_offset += k % 2 ? 64 : (uint64_t)-64;
    return true;
}

static bool output_of_other(plait_plan *plan, size_t k) {
    if (k >= plan->n_outputs * plan->n_values) return false;
    plan->outputs[k / plan->n_values].value = (uint32_t)(k % plan->n_values);
    return true;
}

static bool output_from_behind(plait_plan *plan, size_t k) {
    if (k >= plan->n_outputs) return false;
    plan->outputs[k].source_offset += 4;
    return true;
}

static bool areas_smaller(plait_plan *plan, size_t k) {
    uint64_t *areas[] = {&plan->input_staging_bytes, &plan->output_staging_bytes,
                         &plan->transfer_staging_bytes};
    size_t n_devices = (size_t)plan->context->n_devices;
    if (k >= 3 + 2 * n_devices) return false;
    uint64_t *area = k < 3               ? areas[k]
                     : k < 3 + n_devices ? &plan->devices[k - 3].arena_bytes
                                         : &plan->devices[k - 3 - n_devices].input_bytes;
    *area -= *area < 64 ? *area : 64;
    return true;
}

static const struct kind {
    const char *name;
    damage_fn *damage;
} kinds[] = {
    {"a wait dropped", drop_wait},
    {"a wait for the step before", wait_for_previous},
    {"a wait for the step behind", wait_for_next},
    {"a wait for another signal of its queue", wait_for_other_signal},
    {"a wait in the other step of the run", wait_in_other_step},
    {"a signal dropped", drop_signal},
    {"another signal", other_signal},
    {"neighbours swapped", swap_neighbours},
    {"distant steps swapped", swap_distant},
    {"a step at the end", step_last},
    {"a step at the beginning", step_first},
    {"a step on another queue", step_on_other_queue},
    {"a step that does another's work", other_item},
    {"a step dropped", step_dropped},
    {"a queue whose end is not awaited", end_not_awaited},
    {"a queue that touches less", touches_less},
    {"a value moved up", value_behind},
    {"a value moved down", value_before},
    {"a value on another's bytes", value_on_other},
    {"an operand moved up", operand_behind},
    {"an operand moved down", operand_before},
    {"scratch moved up", scratch_behind},
    {"scratch at the beginning", scratch_first},
    {"nodes that run in the wrong order", nodes_swapped},
    {"a node at another's place", node_moved},
    {"a node in the next segment", node_in_next_segment},
    {"a transfer of less", transfer_of_less},
    {"a transfer from further on", transfer_from_behind},
    {"a transfer to another value", transfer_elsewhere},
    {"a transfer of another value", transfer_from_other},
    {"a transfer another way", transfer_other_way},
    {"a transfer staged elsewhere", transfer_staged_elsewhere},
    {"a transfer on another's staging", staging_of_other},
    {"an input elsewhere", input_elsewhere},
    {"an input at another home", input_home},
    {"an output elsewhere", output_elsewhere},
    {"an output of another value", output_of_other},
    {"an output from further on", output_from_behind},
    {"an area that is smaller", areas_smaller},
};
enum { KINDS = sizeof kinds / sizeof *kinds };

/* ---- the plans ---- */

static const struct recipe {
    const char *devices;
    int random_nodes; /* 0: two layers of a transformer */
    uint64_t seed;
    const plait_pin *pins;
    int n_pins;
    bool states_first; /* where states live is settled before anybody writes them */
} recipes[] = {
    {"fake:lack=attention+rms_norm:hide=yes:copy=1,fake:lack=kv_write+get_rows:hide=yes:copy=1", 0, 0, NULL,
     0, false},
    {"fake:lack=attention,fake:lack=kv_write+silu:copy=2:hide=yes,fake:lack=matmul:copy=1", 0, 0, NULL, 0,
     false},
    {"fake:copy=1,fake:hide=yes:copy=2,fake", 0, 0,
     (const plait_pin[]){{"1.*", 1}, {"add*", 2}, {"silu*", 1}, {"embed", 2}}, 4, false},
    {"fake:lack=matmul+rope:copy=1:hide=yes:waits=no,fake:lack=silu+kv_write+get_rows:align=128", 25, 31,
     NULL, 0, false},
    {"fake:lack=kv_write,fake:hide=yes:copy=1,fake:lack=attention:hide=yes:copy=2", 0, 0,
     (const plait_pin[]){{"*cache*", 0}, {"0.*", 1}, {"1.*", 2}}, 3, true},
    {"fake:lack=attention+add:hide=yes:copy=1,fake:lack=mul+relu+scale:hide=yes:copy=1:group=2,fake:lack="
     "matmul",
     30, 77, NULL, 0, false},
};

typedef struct fixture {
    plait_context *context;
    plait_graph *graph, *states;
    plait_residence *residence;
    plait_plan *plan;
    symbolic_truth truth;
} fixture;

static void make(fixture *f, const struct recipe *recipe) {
    assert_ok(plait_context_open(&f->context, recipe->devices, NULL));
    f->graph = recipe->random_nodes ? random_graph_of(recipe->seed, recipe->random_nodes, false) : layers(2);
    if (!f->graph) fail_msg("%s", plait_error_message());
    f->states = recipe->states_first ? layers_states(2) : NULL;
    const plait_graph *graphs[] = {f->states ? f->states : f->graph};
    plait_residence_options options = {
        .pins = recipe->pins, .n_pins = recipe->n_pins, .split = PLAIT_SPLIT_NONE};
    assert_ok(plait_residence_create(&f->residence, f->context, graphs, 1, &options));
    assert_ok(
        plait_plan_make(&f->plan, f->context, f->graph, &(plait_plan_options){.residence = f->residence}));
    symbolic_truth_init(&f->truth, f->graph);
}

static void destroy(fixture *f) {
    symbolic_truth_deinit(&f->truth);
    plait_plan_release(f->plan);
    plait_residence_release(f->residence);
    plait_graph_destroy(f->graph);
    plait_graph_destroy(f->states);
    plait_context_close(f->context);
}

/* What goes wrong in one of many orders. */
static const char *try_orders(fixture *f, int n_orders) {
    const char *wrong = NULL;
    for (uint64_t seed = 1; seed <= (uint64_t)n_orders && !wrong; seed++)
        wrong = symbolic_check(f->plan, &f->truth, seed * 7919);
    return wrong;
}

typedef struct tally {
    int tried, caught, harmless, missed;
} tally;

static void try_kind(fixture *f, saved *s, const struct kind *kind, tally *t) {
    for (size_t k = 0; kind->damage(f->plan, k); k++) {
        if (same_as_saved(f->plan, s)) continue; /* no damage at this place */
        plait_status status = plait_plan_verify(f->plan);
        const char *wrong = status == PLAIT_OK ? try_orders(f, ORDERS) : NULL;
        if (status == PLAIT_OK && !wrong) wrong = symbolic_prove(f->plan, &f->truth);
        t->tried++;
        t->caught += status != PLAIT_OK;
        t->harmless += status == PLAIT_OK;
        restore(f->plan, s);
        if (wrong) {
            print_error("%s, place %zu: the proof lets it pass, but %s\n", kind->name, k, wrong);
            t->missed++;
        }
        if (status != PLAIT_OK && status != PLAIT_INTERNAL)
            fail_msg("%s, place %zu: %s", kind->name, k, plait_error_message());
    }
}

static void test_damage(void **state) {
    (void)state;
    size_t by_rows = 0, by_parts = 0;
    tally sums[KINDS] = {{0, 0, 0, 0}}, all = {0, 0, 0, 0};
    for (size_t i = 0; i < sizeof recipes / sizeof *recipes; i++) {
        fixture f = {0};
        saved s = {0};
        make(&f, &recipes[i]);
        const char *wrong = try_orders(&f, WHOLE_ORDERS);
        if (!wrong) wrong = symbolic_prove(f.plan, &f.truth);
        if (wrong) fail_msg("plan %zu is whole, but %s", i, wrong);
        for (size_t t = 0; t < f.plan->n_transfers; t++) {
            by_rows += f.plan->transfers[t].part.rows_node > 0;
            by_parts += f.plan->transfers[t].part.n_levels > 0 && !f.plan->transfers[t].part.rows_node;
        }
        save(f.plan, &s);
        for (size_t k = 0; k < KINDS; k++) try_kind(&f, &s, &kinds[k], &sums[k]);
        forget(&s);
        destroy(&f);
    }
    print_message("%zu transfers of rows by ids, %zu of views\n", by_rows, by_parts);
    assert_true(by_rows > 0);
    for (size_t k = 0; k < KINDS; k++) {
        print_message("%-42s %5d places, %5d caught, %5d harmless\n", kinds[k].name, sums[k].tried,
                      sums[k].caught, sums[k].harmless);
        if (sums[k].caught == 0) fail_msg("%s: never caught", kinds[k].name);
        all.missed += sums[k].missed;
        all.tried += sums[k].tried, all.caught += sums[k].caught, all.harmless += sums[k].harmless;
    }
    print_message("%d places, %.2f%% caught, the rest proved harmless in any order, and tried in %d\n",
                  all.tried, 100.0 * all.caught / all.tried, ORDERS);
    if (all.missed) fail_msg("%d kinds of harm were let pass", all.missed);
}

/* The oracle sees what the proof refuses: else it would prove nothing about the rest. */
static void test_the_oracle_sees(void **state) {
    (void)state;
    static damage_fn *const seen[] = {drop_wait, value_on_other, transfer_of_less, step_last};
    for (size_t d = 0; d < sizeof seen / sizeof *seen; d++) {
        int tried = 0, wrong = 0;
        for (size_t i = 0; i < 3; i++) {
            fixture f = {0};
            saved s = {0};
            make(&f, &recipes[i]);
            save(f.plan, &s);
            for (size_t k = 0; seen[d](f.plan, k); k++) {
                if (k % 7 == 0) {
                    tried++;
                    wrong += try_orders(&f, ORDERS) != NULL;
                }
                restore(f.plan, &s);
            }
            forget(&s);
            destroy(&f);
        }
        if (wrong * 5 < tried) fail_msg("damage %zu: %d of %d show", d, wrong, tried);
        print_message("damage %zu: %d of %d places show in results\n", d, wrong, tried);
    }
}

/* The set of waits is the least: whichever is dropped, two commands meet that nothing orders any more. So a journal finds
 * each of them in its one run, whatever order that takes. */
static void test_the_journal_sees(void **state) {
    (void)state;
    size_t tried = 0, seen = 0;
    for (size_t i = 0; i < sizeof recipes / sizeof *recipes; i++) {
        fixture f = {0};
        saved s = {0};
        make(&f, &recipes[i]);
        save(f.plan, &s);
        for (size_t k = 0; drop_wait(f.plan, k); k++) {
            tried++;
            seen += symbolic_prove(f.plan, &f.truth) != NULL;
            restore(f.plan, &s);
        }
        forget(&s);
        destroy(&f);
    }
    print_message("%zu of %zu dropped waits show in one run with a journal\n", seen, tried);
    assert_true(tried > 50);
    assert_int_equal(seen, tried);
}

static int make_known(void **state) {
    (void)state;
    return fake_register() == PLAIT_OK ? 0 : -1;
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_damage), cmocka_unit_test(test_the_oracle_sees),
                                       cmocka_unit_test(test_the_journal_sees)};
    return cmocka_run_group_tests(tests, make_known, NULL);
}
