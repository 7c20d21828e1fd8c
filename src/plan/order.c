/* The order of commands. Before memory is shared out: how long each value needs its bytes. After it: which command waits
 * for which, the least set of waits.
 *
 * Lives. Positions are those of the groups that a device's launch queue runs. What other queues do to a value of the
 * device is laid between them: bytes that are read by another queue stay until the first launch that is known to come
 * after that read, by what the launch itself must wait for; bytes that come in are there from the launch before the one
 * that reads them first, or later when the order is known to be later. So values whose positions do not meet can share
 * bytes without anybody waiting for it, except a transfer that comes in and may be early.
 *
 * Waits. The steps are walked in their order, two rounds of them, since a step of the run goes on into the next. Every
 * command must come after the earlier ones that it conflicts with: same bytes, one of them writes. A vector clock per
 * queue knows what is ordered already; what remains, less what another of the remaining ones brings along, is waited for.
 * That is the transitive reduction of the conflicts, given the order of the queues: no wait can be left out.
 *
 * Not here: bytes that the host writes or reads (it waits for whole steps, see run.c), and other plans (hand-over, run.c).
 * Invariant: waits go from later to earlier steps of the list, or to the step of the run before: no cycle is possible. */
#include "plan/plan.h"

#include "base/alloc.h"
#include "base/size.h"
#include "base/status.h"
#include "plan/touches.h"

#include <stdlib.h>
#include <string.h>

/* Two rounds of the list of steps show all waits: a step conflicts with steps of its own round and of the one before,
 * and with what is older only by way of those. */
#define NO_LANE UINT32_MAX
enum { ROUNDS = 2 };

/* A lane is a queue that the plan uses. A step's number in its lane counts from 1, on over the rounds. */
typedef struct order {
    plait_plan *plan;
    plait_arena arena; /* everything below */
    uint32_t n_lanes;
    uint32_t *lane_of;    /* [queue of the plan], NO_LANE: not used */
    uint32_t *queue_of;   /* [lane] */
    uint32_t *sizes;      /* [lane] steps in it */
    uint32_t *begins;     /* [lane] where its steps begin in `members` */
    uint32_t *members;    /* steps, lane by lane */
    uint32_t *numbers;    /* [step] its number in its lane in the first round */
    uint32_t *now;        /* [lane][lane] clock of each lane */
    uint32_t *clocks;     /* [round][step][lane] clock of each step when it is done */
    uint32_t *needs;      /* [lane] the number that the current step must come after */
    uint32_t *candidates; /* lanes with a need */
    size_t n_candidates;
    plait_touches touches;
} order;

/* ---- lanes ---- */

/* Queues that the plan never uses have no lane: clocks cost a number for each lane and step. */
static void count_lanes(order *o) {
    plait_plan *plan = o->plan;
    for (size_t q = 0; q < plan->n_queues; q++) plan->queues[q].n_steps = 0;
    for (size_t s = 0; s < plan->n_steps; s++) plan->queues[plan->steps[s].queue].n_steps++;
    for (size_t q = 0; q < plan->n_queues; q++) o->n_lanes += plan->queues[q].n_steps > 0;
}

/* Lanes are numbered by queue, their members by the list of steps, so equal plans get equal waits. */
static void fill_lanes(order *o) {
    const plait_plan *plan = o->plan;
    uint32_t lane = 0, sum = 0;
    for (size_t q = 0; q < plan->n_queues; q++) {
        o->lane_of[q] = NO_LANE;
        if (plan->queues[q].n_steps == 0) continue;
        o->lane_of[q] = lane;
        o->queue_of[lane] = (uint32_t)q;
        o->begins[lane++] = sum;
        sum += plan->queues[q].n_steps;
    }
    for (size_t s = 0; s < plan->n_steps; s++) {
        uint32_t l = o->lane_of[plan->steps[s].queue];
        o->members[o->begins[l] + o->sizes[l]++] = (uint32_t)s;
        o->numbers[s] = o->sizes[l];
    }
}

/* `rounds` of clocks are kept, of every step: later steps look at the clocks of those that they come after. With one
 * lane all is in order, and no clock is needed. */
static plait_status init_order(order *o, plait_plan *plan, size_t rounds) {
    o->plan = plan;
    plait_arena_init_pooled(&o->arena, &plan->context->pool);
    count_lanes(o);
    size_t n = o->n_lanes;
    o->lane_of = plait_arena_alloc(&o->arena, plan->n_queues, sizeof(uint32_t));
    o->queue_of = plait_arena_alloc(&o->arena, n, sizeof(uint32_t));
    o->sizes = plait_arena_alloc(&o->arena, n, sizeof(uint32_t));
    o->begins = plait_arena_alloc(&o->arena, n, sizeof(uint32_t));
    o->needs = plait_arena_alloc(&o->arena, n, sizeof(uint32_t));
    o->candidates = plait_arena_alloc(&o->arena, n, sizeof(uint32_t));
    o->now = plait_arena_alloc(&o->arena, n * n, sizeof(uint32_t));
    o->members = plait_arena_alloc(&o->arena, plan->n_steps, sizeof(uint32_t));
    o->numbers = plait_arena_alloc(&o->arena, plan->n_steps, sizeof(uint32_t));
    o->clocks = plait_arena_alloc(&o->arena, n > 1 ? rounds * plan->n_steps * n : 0, sizeof(uint32_t));
    if (!o->lane_of || !o->queue_of || !o->sizes || !o->begins || !o->needs || !o->candidates || !o->now ||
        !o->members || !o->numbers || !o->clocks)
        return plait_error_memory("plan: order", rounds * plan->n_steps * n * sizeof(uint32_t));
    fill_lanes(o);
    return PLAIT_OK;
}

/* ---- clocks ---- */

static uint32_t *clock_of(const order *o, size_t round, size_t step) {
    return o->clocks + (round * o->plan->n_steps + step) * o->n_lanes;
}

/* The clock of the step that has this number in a lane, counted over the rounds. */
static const uint32_t *clock_at(const order *o, uint32_t lane, uint32_t number) {
    uint32_t round = (number - 1) / o->sizes[lane], at = (number - 1) % o->sizes[lane];
    return clock_of(o, round, o->members[o->begins[lane] + at]);
}

/* After this, whoever has clock `into` comes after all that `from` came after. */
static void join(const order *o, uint32_t *into, const uint32_t *from) {
    for (uint32_t l = 0; l < o->n_lanes; l++)
        if (from[l] > into[l]) into[l] = from[l];
}

/* Called for each earlier access that the current one conflicts with. */
static void add_need(void *user, uint32_t lane, uint32_t number) {
    order *o = user;
    if (o->needs[lane] == 0) o->candidates[o->n_candidates++] = lane;
    if (number > o->needs[lane]) o->needs[lane] = number;
}

/* Leaves the candidates that the lane does not know to be done, and that no other candidate brings along. Of each lane
 * only the latest need counts, its queue brings the earlier ones along. Costs the square of the candidates, of which
 * there are as many as lanes at most. */
static void reduce_needs(order *o, const uint32_t *now) {
    /* First what this lane knows to be done already, by waits it has made before. */
    size_t kept = 0;
    for (size_t i = 0; i < o->n_candidates; i++)
        if (o->needs[o->candidates[i]] > now[o->candidates[i]]) o->candidates[kept++] = o->candidates[i];
    o->n_candidates = kept;
    kept = 0;
    for (size_t i = 0; i < o->n_candidates; i++) {
        uint32_t lane = o->candidates[i];
        bool brought = false;
        for (size_t k = 0; k < o->n_candidates && !brought;
             k++) { /* one that was dropped has one that brings both */
            uint32_t other = o->candidates[k];
            brought = other != lane && clock_at(o, other, o->needs[other])[lane] >= o->needs[lane];
        }
        if (!brought) o->candidates[kept++] = lane;
    }
    o->n_candidates = kept;
}

/* Forgets the needs of the step before. */
static void clear_needs(order *o) {
    memset(o->needs, 0, o->n_lanes * sizeof *o->needs);
    o->n_candidates = 0;
}

/* The current step comes after its candidates; keeps its clock. The clock that is kept is the one at the end of the
 * step: it includes the step itself. */
static void finish_step(order *o, size_t round, size_t step) {
    uint32_t lane = o->lane_of[o->plan->steps[step].queue];
    uint32_t *now = o->now + (size_t)lane * o->n_lanes;
    for (size_t i = 0; i < o->n_candidates; i++)
        join(o, now, clock_at(o, o->candidates[i], o->needs[o->candidates[i]]));
    now[lane] = (uint32_t)round * o->sizes[lane] + o->numbers[step];
    memcpy(clock_of(o, round, step), now, o->n_lanes * sizeof *now);
}

/* ---- lives ---- */

/* An access of another queue than a device's launches to one of the device's values. */
typedef struct visit {
    uint32_t value, number; /* of the step in its lane */
    uint32_t next;
} visit;

typedef struct lives {
    order o;
    plait_plan *plan;
    bool several;         /* lanes */
    uint32_t *cells;      /* [value] its cell + 1, for those that other queues touch */
    uint32_t *n_launches; /* [device] so far */
    int32_t *starts;      /* first positions of launches, device by device */
    uint32_t *start_of;   /* [device] where its own begin in `starts` */
    uint32_t *known;      /* [step] launches of its lane's device up to it */
    uint32_t *arrived;    /* [value] launches of its device known before it came, + 1 */
    bool *filled;         /* [device] something came since its last launch */
    visit *visits;
    size_t n_visits, visit_capacity;
    uint32_t *first_visit, *last_visit; /* [device * n_lanes + lane] + 1 */
} lives;

/* One round is enough: lives are within a step, and what of them reaches into the next is held to the end. */
static plait_status init_lives(lives *l, plait_plan *plan) {
    size_t n_devices = (size_t)plan->context->n_devices;
    l->plan = plan;
    PLAIT_TRY(init_order(&l->o, plan, 1));
    l->several = l->o.n_lanes > 1;
    l->n_launches = plait_arena_alloc(&l->o.arena, n_devices, sizeof *l->n_launches);
    l->starts = plait_arena_alloc(&l->o.arena, plan->n_segments + 1, sizeof *l->starts);
    l->start_of = plait_arena_alloc(&l->o.arena, n_devices + 1, sizeof *l->start_of);
    l->known = plait_arena_alloc(&l->o.arena, plan->n_steps, sizeof *l->known);
    l->arrived = plait_arena_alloc(&l->o.arena, plan->n_values, sizeof *l->arrived);
    l->filled = plait_arena_alloc(&l->o.arena, n_devices, sizeof *l->filled);
    l->cells = plait_arena_alloc(&l->o.arena, plan->n_values, sizeof *l->cells);
    l->first_visit = plait_arena_alloc(&l->o.arena, n_devices * l->o.n_lanes, sizeof *l->first_visit);
    l->last_visit = plait_arena_alloc(&l->o.arena, n_devices * l->o.n_lanes, sizeof *l->last_visit);
    if (!l->n_launches || !l->starts || !l->start_of || !l->known || !l->arrived || !l->filled || !l->cells ||
        !l->first_visit || !l->last_visit)
        return plait_error_memory("plan: lives", plan->n_values * sizeof *l->cells);
    for (size_t s = 0; s < plan->n_segments; s++) l->start_of[plan->segments[s].device + 1]++;
    for (size_t d = 0; d < n_devices; d++) l->start_of[d + 1] += l->start_of[d];
    return PLAIT_OK;
}

/* The values that a step other than a launch touches: at most two; returns how many. The first is read, or written
 * by a step that has only that one. */
static int moved_values(const plait_plan *plan, const plait_plan_step *step, uint32_t *values, bool *write) {
    const plait_plan_transfer *transfer = &plan->transfers[step->item];
    switch (step->kind) {
    case PLAIT_STEP_WRITE_INPUT: values[0] = plan->inputs[step->item].value, write[0] = true; return 1;
    case PLAIT_STEP_SEND: values[0] = transfer->source, write[0] = false; return 1;
    case PLAIT_STEP_RECEIVE: values[0] = transfer->target, write[0] = true; return 1;
    case PLAIT_STEP_READ_OUTPUT: values[0] = plan->outputs[step->item].value, write[0] = false; return 1;
    case PLAIT_STEP_MOVE:
        values[0] = transfer->source, write[0] = false;
        values[1] = transfer->target, write[1] = true;
        return 2;
    case PLAIT_STEP_LAUNCH: break;
    }
    return 0;
}

/* NO_LANE: nothing runs on the device in this plan, it only stores or passes on. */
static uint32_t launch_lane(const order *o, int device) {
    return o->lane_of[device * PLAIT_DEVICE_QUEUES + PLAIT_QUEUE_LAUNCHES];
}

/* Numbers the values that lanes other than their device's launches touch; staging of transfers gets cells behind.
 * Values that only their device's launches touch are in that queue's order and need no cell: in a model that is nearly
 * all of them. Cells are whole values; which bytes share a place is not known yet. */
static plait_status number_cells(lives *l) {
    plait_plan *plan = l->plan;
    uint32_t n = 0, values[2];
    bool write[2];
    for (size_t s = 0; s < plan->n_steps; s++) {
        const plait_plan_step *step = &plan->steps[s];
        int count = moved_values(plan, step, values, write);
        for (int i = 0; i < count; i++)
            if (step->queue != (uint32_t)plan->values[values[i]].device * PLAIT_DEVICE_QUEUES &&
                !l->cells[values[i]])
                l->cells[values[i]] = ++n;
    }
    return plait_touches_init(&l->o.touches, &l->o.arena, n + plan->n_transfers);
}

/* What it conflicts with goes to the needs of the current step. */
static plait_status touch_cell(order *o, size_t cell, size_t step, bool write) {
    return plait_touches_add(&o->touches, cell, cell + 1, o->lane_of[o->plan->steps[step].queue],
                             o->numbers[step], write, add_need, o);
}

/* Where launch number `launch` (from 0) of a device begins; the last one if there are not so many. */
static int32_t start_of_launch(const lives *l, int device, uint32_t launch) {
    uint32_t n = l->n_launches[device];
    if (n == 0) return 0;
    return l->starts[l->start_of[device] + (launch < n ? launch : n - 1)];
}

/* A launch's group touches a value. One that came in has its bytes from the launch before this one on, or later when it
 * is known to have come later. */
static void touch_at(lives *l, uint32_t v, int32_t position) {
    plait_plan_value *value = &l->plan->values[v];
    if (value->first < 0) {
        value->first = position;
        if (l->arrived[v]) {
            /* The launch that reads it first, and the one before that, during which it may have come in. */
            uint32_t current = l->n_launches[value->device] - 1, known = l->arrived[v] - 1;
            uint32_t before = current > 0 ? current - 1 : 0;
            value->first = start_of_launch(l, value->device, known > before ? known : before);
            value->came = true;
        }
    }
    if (position > value->last) value->last = position, value->held = false;
}

/* Something behind the launches up to this position has read or written the value. */
static void hold_until(plait_plan_value *value, int32_t position) {
    if (position > value->held_until) value->held_until = position;
    if (position >= value->last) value->last = position, value->held = true;
}

/* Inputs before outputs: a node that reads and writes one value has both in its list. */
static plait_status touch_node(lives *l, const plait_segment_node *node, size_t step, int32_t position) {
    for (int i = 0; i < node->n_inputs; i++) {
        if (!(node->present >> i & 1u)) continue;
        uint32_t v = node->inputs[i].value;
        touch_at(l, v, position);
        if (l->cells[v]) PLAIT_TRY(touch_cell(&l->o, l->cells[v] - 1, step, false));
    }
    for (int i = 0; i < node->n_outputs; i++) {
        uint32_t v = node->outputs[i].value;
        touch_at(l, v, position);
        if (l->cells[v]) PLAIT_TRY(touch_cell(&l->o, l->cells[v] - 1, step, true));
    }
    return PLAIT_OK;
}

/* What other queues did to the device's values, and is done when this launch begins, needs them up to here. Visits of a
 * lane are done in its order, so the first that is not done ends the search. */
static void end_visits(lives *l, int device, const uint32_t *clock, int32_t start) {
    for (uint32_t lane = 0; lane < l->o.n_lanes; lane++) {
        uint32_t *first = &l->first_visit[(size_t)device * l->o.n_lanes + lane];
        while (*first && l->visits[*first - 1].number <= clock[lane]) {
            hold_until(&l->plan->values[l->visits[*first - 1].value], start - 1);
            *first = l->visits[*first - 1].next;
        }
    }
}

/* A position for each group, since groups of a launch run one after the other and values of different groups can share
 * bytes; members of a group may run at once. */
static plait_status live_launch(lives *l, size_t s) {
    plait_plan_step *step = &l->plan->steps[s];
    plait_plan_device *device = &l->plan->devices[step->device];
    const plait_plan_segment *segment = &l->plan->segments[step->item];
    const plait_prepared *prepared = &segment->prepared;
    uint32_t *n_launches = &l->n_launches[step->device];
    step->position = device->n_positions;
    l->filled[step->device] = false;
    l->starts[l->start_of[step->device] + (*n_launches)++] = step->position;
    device->n_positions += prepared->n_groups;
    for (int g = 0; g < prepared->n_groups; g++)
        for (int k = prepared->groups[g].first; k < prepared->groups[g].first + prepared->groups[g].n; k++)
            PLAIT_TRY(touch_node(l, &segment->nodes[prepared->order[k]], s, step->position + g));
    return PLAIT_OK;
}

/* Adds a visit to the end of its lane's list, for the first launch that comes after it. */
static plait_status add_visit(lives *l, uint32_t v, size_t s) {
    uint32_t lane = l->o.lane_of[l->plan->steps[s].queue];
    size_t list = (size_t)l->plan->values[v].device * l->o.n_lanes + lane;
    PLAIT_TRY(plait_grow(&l->visits, &l->visit_capacity, l->n_visits + 1, sizeof *l->visits, (size_t)1 << 28,
                         "plan: lives"));
    l->visits[l->n_visits++] = (visit){v, l->o.numbers[s], 0};
    if (l->first_visit[list])
        l->visits[l->last_visit[list] - 1].next = (uint32_t)l->n_visits;
    else
        l->first_visit[list] = (uint32_t)l->n_visits;
    l->last_visit[list] = (uint32_t)l->n_visits;
    return PLAIT_OK;
}

/* Launches of the device that come before the step, by what its clock says. */
static uint32_t launches_before(const lives *l, int device, size_t s) {
    uint32_t lane = launch_lane(&l->o, device), number;
    if (lane == NO_LANE) return 0;
    if (!l->several) return l->known[s];
    number = clock_of(&l->o, 0, s)[lane];
    return number ? l->known[l->o.members[l->o.begins[lane] + number - 1]] : 0;
}

/* The step itself has no position: it stands between the launches that surround it, wherever its waits let it run. */
static plait_status live_move(lives *l, size_t s) {
    plait_plan *plan = l->plan;
    plait_plan_step *step = &plan->steps[s];
    uint32_t values[2];
    bool write[2];
    int n = moved_values(plan, step, values, write);
    step->position = plan->devices[step->device].n_positions;
    for (int i = 0; i < n; i++)
        if (l->cells[values[i]]) PLAIT_TRY(touch_cell(&l->o, l->cells[values[i]] - 1, s, write[i]));
    if (step->kind == PLAIT_STEP_SEND || step->kind == PLAIT_STEP_RECEIVE)
        PLAIT_TRY(touch_cell(&l->o, l->o.touches.n_cells - plan->n_transfers + step->item, s,
                             step->kind == PLAIT_STEP_SEND));
    return PLAIT_OK;
}

/* The step's clock is known: its values are needed until a launch comes after it. */
static plait_status visit_values(lives *l, size_t s) {
    plait_plan *plan = l->plan;
    uint32_t values[2];
    bool write[2];
    int n = moved_values(plan, &plan->steps[s], values, write);
    for (int i = 0; i < n; i++) {
        const plait_plan_value *value = &plan->values[values[i]];
        if (write[i] && value->first < 0 && !l->arrived[values[i]])
            l->arrived[values[i]] = launches_before(l, value->device, s) + 1;
        PLAIT_TRY(add_visit(l, values[i], s));
        /* What came before this in the list may begin with the next launch: then they must not share bytes. */
        int32_t next = plan->devices[value->device].n_positions;
        hold_until(&plan->values[values[i]], l->filled[value->device] ? next : next - 1);
        l->filled[value->device] |= write[i];
    }
    return PLAIT_OK;
}

/* First the touches, which give the needs; then the clock; then what the clock says about lives. */
static plait_status live_step(lives *l, size_t s) {
    const plait_plan_step *step = &l->plan->steps[s];
    bool launch = step->kind == PLAIT_STEP_LAUNCH;
    clear_needs(&l->o);
    PLAIT_TRY(launch ? live_launch(l, s) : live_move(l, s));
    if (l->several) finish_step(&l->o, 0, s);
    l->known[s] = l->n_launches[step->device];
    if (!launch) return visit_values(l, s);
    uint32_t own = l->o.numbers[s];
    end_visits(l, step->device, l->several ? clock_of(&l->o, 0, s) : &own, step->position);
    return PLAIT_OK;
}

/* What no launch comes after is needed to the end of the step; what no launch reads has a place all the same. Ends are
 * cut to the device's positions: a hold may name the position of a launch that never came. */
static void close_lives(lives *l) {
    plait_plan *plan = l->plan;
    for (size_t s = 0; s < plan->n_steps; s++) {
        plait_plan_device *device = &plan->devices[plan->steps[s].device];
        if (device->n_positions == 0) device->n_positions = 1;
    }
    for (size_t list = 0; list < (size_t)plan->context->n_devices * l->o.n_lanes; list++)
        for (uint32_t i = l->first_visit[list]; i; i = l->visits[i - 1].next) {
            plait_plan_value *value = &plan->values[l->visits[i - 1].value];
            plait_plan_device *device = &plan->devices[value->device];
            if (device->n_positions == 0) device->n_positions = 1;
            hold_until(value, device->n_positions - 1);
        }
    for (size_t v = 0; v < plan->n_values; v++) {
        plait_plan_value *value = &plan->values[v];
        if (value->first < 0 && l->arrived[v]) {
            value->first = start_of_launch(l, value->device, l->arrived[v] - 1);
            value->came = true;
        }
        if (value->last >= plan->devices[value->device].n_positions)
            value->last = plan->devices[value->device].n_positions - 1;
        if (value->last < value->first) value->last = value->first;
        if (value->first < 0 && value->last >= 0) value->first = 0;
    }
}

/* In the order of the list, which is one of the orders in which the step may run; that others are possible is what
 * visits and holds provide for. */
plait_status plait_plan_find_lives(plait_plan *plan) {
    lives l = {0};
    plait_status status = init_lives(&l, plan);
    if (status == PLAIT_OK) status = number_cells(&l);
    for (size_t s = 0; status == PLAIT_OK && s < plan->n_steps; s++) status = live_step(&l, s);
    if (status == PLAIT_OK) close_lives(&l);
    free(l.visits);
    plait_arena_deinit(&l.o.arena);
    return status;
}

/* ---- lives of one launch again ---- */

/* Takes back the ends that the launch itself set; those that other queues set stay. Values that came in keep their
 * beginning: it depends on launches, not on groups. */
static void forget_ends(plait_plan_value *value, int32_t begin, int32_t end) {
    if (!value->came && value->first >= begin && value->first < end) value->first = -1;
    if (value->last >= begin && value->last < end) value->last = value->held_until, value->held = true;
}

static void set_ends(plait_plan_value *value, int32_t position) {
    if (value->first < 0) value->first = position;
    if (position > value->last) value->last = position, value->held = false;
}

/* Two passes over the launch: forget first, for a value may be touched by several groups, then set again from the
 * groups' new places. Positions of other launches do not change, since the number of groups does not. */
void plait_plan_lives_of_launch(plait_plan *plan, const plait_plan_step *step) {
    const plait_plan_segment *segment = &plan->segments[step->item];
    const plait_prepared *prepared = &segment->prepared;
    int32_t begin = step->position, end = begin + prepared->n_groups;
    plait_plan_value *values = plan->values;
    for (uint32_t n = 0; n < segment->n_nodes; n++) {
        const plait_segment_node *node = &segment->nodes[n];
        for (int i = 0; i < node->n_inputs; i++)
            if (node->present >> i & 1u) forget_ends(&values[node->inputs[i].value], begin, end);
        for (int o = 0; o < node->n_outputs; o++) forget_ends(&values[node->outputs[o].value], begin, end);
    }
    for (int g = 0; g < prepared->n_groups; g++)
        for (int k = prepared->groups[g].first; k < prepared->groups[g].first + prepared->groups[g].n; k++) {
            const plait_segment_node *node = &segment->nodes[prepared->order[k]];
            for (int i = 0; i < node->n_inputs; i++)
                if (node->present >> i & 1u) set_ends(&values[node->inputs[i].value], begin + g);
            for (int o = 0; o < node->n_outputs; o++) set_ends(&values[node->outputs[o].value], begin + g);
        }
}

/* ---- waits ---- */

/* Memory of all devices in one row of bytes: of each device the arena, then the state, then its inputs at the two
 * places that two rounds use; then staging of transfers, at two places. Only what several lanes touch is looked at. */
typedef struct area {
    uint64_t arena, state, inputs;
} area;

typedef struct waits {
    order o;
    plait_plan *plan;
    area *areas; /* [device] */
    uint64_t staging;
    plait_span *hot; /* bytes that lanes other than a device's launches touch, sorted, joined */
    size_t n_hot;
    uint8_t *is_hot;                /* [value] 0: not known yet, else COLD or HOT */
    uint32_t *read_by, *written_by; /* [value] the last step that was seen to touch it, + 1 */
    plait_accesses accesses;
    size_t *begins; /* [step] where its accesses begin, and behind them the end */
    size_t wait_capacity;
} waits;

enum { COLD = 1, HOT = 2 };

/* Addresses for comparison only: nothing is ever there. */
static plait_status lay_out(waits *w) {
    const plait_plan *plan = w->plan;
    uint64_t at = 0;
    bool fits = true;
    for (int d = 0; d < plan->context->n_devices; d++) {
        const plait_plan_device *device = &plan->devices[d];
        area *row = &w->areas[d];
        row->arena = at;
        fits = fits && plait_add_u64(at, device->arena_bytes, &row->state) &&
               plait_add_u64(row->state, plan->residence->devices[d].state_bytes, &row->inputs) &&
               plait_add_u64(row->inputs, device->input_bytes, &at) &&
               plait_add_u64(at, device->input_bytes, &at);
    }
    w->staging = at;
    fits = fits && plait_add_u64(at, plan->transfer_staging_bytes, &at) &&
           plait_add_u64(at, plan->transfer_staging_bytes, &at);
    return fits ? PLAIT_OK : plait_error(PLAIT_OUT_OF_RANGE, "plan: sizes of memory overflow");
}

/* With one lane the tables stay empty, and nothing but signals is left to do. */
static plait_status init_waits(waits *w, plait_plan *plan) {
    plait_arena *arena = &w->o.arena;
    w->plan = plan;
    PLAIT_TRY(init_order(&w->o, plan, ROUNDS));
    if (w->o.n_lanes <= 1) return PLAIT_OK; /* nobody waits */
    w->areas = plait_arena_alloc(arena, (size_t)plan->context->n_devices, sizeof *w->areas);
    w->hot = plait_arena_alloc(arena, 2 * plan->n_steps, sizeof *w->hot);
    w->is_hot = plait_arena_alloc(arena, plan->n_values, sizeof *w->is_hot);
    w->read_by = plait_arena_alloc(arena, plan->n_values, sizeof *w->read_by);
    w->written_by = plait_arena_alloc(arena, plan->n_values, sizeof *w->written_by);
    w->begins = plait_arena_alloc(arena, plan->n_steps + 1, sizeof *w->begins);
    if (!w->areas || !w->hot || !w->is_hot || !w->read_by || !w->written_by || !w->begins)
        return plait_error_memory("plan: waits", plan->n_values * sizeof *w->read_by);
    return lay_out(w);
}

/* ---- what steps touch ---- */

/* Where bytes of a value lie, at the first place; empty for what nobody writes or what never exists. */
static plait_span bytes_of(const waits *w, uint32_t v, uint64_t begin, uint64_t end) {
    const plait_plan_value *value = &w->plan->values[v];
    const area *row = &w->areas[value->device];
    if (value->elided || value->slot >= PLAIT_SLOT_WEIGHTS) return (plait_span){0, 0};
    uint64_t base = value->offset + (value->slot == PLAIT_SLOT_ARENA   ? row->arena
                                     : value->slot == PLAIT_SLOT_STATE ? row->state
                                                                       : row->inputs);
    return (plait_span){base + begin, base + end};
}

/* With its padding, which belongs to it as well. */
static plait_span whole_of(const waits *w, uint32_t v) {
    return bytes_of(w, v, 0, w->plan->values[v].size_bytes);
}

/* Inputs lie at another place in every step in flight; everything else at the same. */
static uint64_t stride_of(const waits *w, uint32_t v) {
    const plait_plan_value *value = &w->plan->values[v];
    return value->slot == PLAIT_SLOT_INPUTS ? w->plan->devices[value->device].input_bytes : 0;
}

/* What lanes other than a device's launches touch of it. Two values a step at most, as moved_values() says. */
static void find_hot(waits *w) {
    const plait_plan *plan = w->plan;
    uint32_t values[2];
    bool write[2];
    size_t n = 0;
    for (size_t s = 0; s < plan->n_steps; s++) {
        int count = moved_values(plan, &plan->steps[s], values, write);
        for (int i = 0; i < count; i++)
            if (plan->steps[s].queue != (uint32_t)plan->values[values[i]].device * PLAIT_DEVICE_QUEUES)
                w->hot[n++] = whole_of(w, values[i]);
    }
    w->n_hot = plait_spans_join(w->hot, n);
}

/* A value is looked at once for each step and kind of access, however many nodes of a launch use it; one that is cold
 * (only its device's launches ever touch its bytes) never again. */
static plait_status add_value(waits *w, size_t step, uint32_t v, bool write) {
    uint32_t *seen = write ? w->written_by : w->read_by;
    if (seen[v] == step + 1 || w->is_hot[v] == COLD) return PLAIT_OK;
    seen[v] = (uint32_t)step + 1;
    if (!w->is_hot[v]) w->is_hot[v] = plait_spans_meet(w->hot, w->n_hot, whole_of(w, v)) ? HOT : COLD;
    if (w->is_hot[v] == COLD) return PLAIT_OK;
    return plait_accesses_add(&w->accesses, whole_of(w, v), stride_of(w, v), write);
}

/* Scratch counts as written: another queue's bytes there would be lost. Values of the segment are taken as a whole,
 * since the launch is one command. */
static plait_status add_launch(waits *w, size_t s) {
    const plait_plan_segment *segment = &w->plan->segments[w->plan->steps[s].item];
    for (uint32_t n = 0; n < segment->n_nodes; n++) {
        const plait_segment_node *node = &segment->nodes[n];
        for (int i = 0; i < node->n_inputs; i++)
            if (node->present >> i & 1u) PLAIT_TRY(add_value(w, s, node->inputs[i].value, false));
        for (int i = 0; i < node->n_outputs; i++) PLAIT_TRY(add_value(w, s, node->outputs[i].value, true));
    }
    for (int g = 0; g < segment->prepared.n_groups; g++) {
        const plait_group *group = &segment->prepared.groups[g];
        uint64_t begin =
            w->areas[segment->device].arena +
            plait_plan_join(w->plan, segment->device, group->scratch_slot, group->scratch_offset);
        plait_span bytes = {begin, begin + group->scratch_bytes};
        if (group->scratch_bytes && plait_spans_meet(w->hot, w->n_hot, bytes))
            PLAIT_TRY(plait_accesses_add(&w->accesses, bytes, 0, true));
    }
    return PLAIT_OK;
}

/* What is sent is written to staging and read from there by the receive, at a place that changes with the step. */
static plait_status add_transfer(waits *w, const plait_plan_step *step) {
    const plait_plan_transfer *transfer = &w->plan->transfers[step->item];
    const plait_plan_part *part = &transfer->part;
    uint64_t begin = w->staging + transfer->staging_offset;
    plait_span staged = {begin, begin + transfer->staging_bytes};
    if (step->kind != PLAIT_STEP_RECEIVE)
        PLAIT_TRY(plait_accesses_add(&w->accesses, bytes_of(w, transfer->source, part->begin, part->end), 0,
                                     false));
    if (step->kind != PLAIT_STEP_SEND)
        PLAIT_TRY(
            plait_accesses_add(&w->accesses, bytes_of(w, transfer->target, part->begin, part->end), 0, true));
    if (step->kind == PLAIT_STEP_MOVE) return PLAIT_OK;
    return plait_accesses_add(&w->accesses, staged, w->plan->transfer_staging_bytes,
                              step->kind == PLAIT_STEP_SEND);
}

/* Bytes of the host (input and output staging) are left out: it writes and reads them only when steps are over. */
static plait_status add_step(waits *w, size_t s) {
    const plait_plan *plan = w->plan;
    const plait_plan_step *step = &plan->steps[s];
    if (step->kind == PLAIT_STEP_LAUNCH) return add_launch(w, s);
    if (step->kind == PLAIT_STEP_WRITE_INPUT) {
        uint32_t v = plan->inputs[step->item].value;
        return plait_accesses_add(&w->accesses, whole_of(w, v), stride_of(w, v), true);
    }
    if (step->kind == PLAIT_STEP_READ_OUTPUT) {
        const plait_plan_output *output = &plan->outputs[step->item];
        uint64_t end = output->source_offset + output->size_bytes;
        return plait_accesses_add(&w->accesses, bytes_of(w, output->value, output->source_offset, end),
                                  stride_of(w, output->value), false);
    }
    return add_transfer(w, step);
}

/* ---- finding what is waited for ---- */

/* By the round of the number it is a step of this run or of the one before. */
static plait_status add_wait(waits *w, uint32_t lane) {
    plait_plan *plan = w->plan;
    order *o = &w->o;
    uint32_t number = o->needs[lane];
    uint32_t round = (number - 1) / o->sizes[lane], at = (number - 1) % o->sizes[lane];
    PLAIT_TRY(plait_grow(&plan->waits, &w->wait_capacity, plan->n_waits + 1, sizeof *plan->waits,
                         (size_t)1 << 28, "plan: waits"));
    plan->waits[plan->n_waits++] =
        (plait_plan_wait){.step = o->members[o->begins[lane] + at], .before = round == 0};
    return PLAIT_OK;
}

/* In the last round everything a step can wait for has been seen: of its own step and the one before. */
static plait_status order_step(waits *w, size_t round, size_t s) {
    order *o = &w->o;
    plait_plan_step *step = &w->plan->steps[s];
    uint32_t lane = o->lane_of[step->queue];
    clear_needs(o);
    for (size_t i = w->begins[s]; i < w->begins[s + 1]; i++)
        PLAIT_TRY(plait_accesses_touch(&w->accesses, i, round, &o->touches, lane,
                                       (uint32_t)round * o->sizes[lane] + o->numbers[s], add_need, o));
    reduce_needs(o, o->now + (size_t)lane * o->n_lanes);
    step->first_wait = (uint32_t)w->plan->n_waits;
    for (size_t i = 0; round == ROUNDS - 1 && i < o->n_candidates; i++)
        PLAIT_TRY(add_wait(w, o->candidates[i]));
    step->n_waits = (uint32_t)w->plan->n_waits - step->first_wait;
    finish_step(o, round, s);
    return PLAIT_OK;
}

/* Accesses of all steps are gathered before the first is ordered, because cells are the pieces between all borders that
 * occur. */
static plait_status order_steps(waits *w) {
    size_t n_steps = w->plan->n_steps;
    find_hot(w);
    for (size_t s = 0; s < n_steps; s++) {
        w->begins[s] = w->accesses.n;
        PLAIT_TRY(add_step(w, s));
    }
    w->begins[n_steps] = w->accesses.n;
    PLAIT_TRY(plait_accesses_settle(&w->accesses, ROUNDS, &w->o.arena, &w->o.touches));
    for (size_t round = 0; round < ROUNDS; round++)
        for (size_t s = 0; s < n_steps; s++) PLAIT_TRY(order_step(w, round, s));
    return PLAIT_OK;
}

/* ---- signals, and what the host and other plans have to know ---- */

/* Devices whose memory the step touches. */
static uint64_t touched_devices(const plait_plan *plan, const plait_plan_step *step) {
    uint32_t values[2];
    bool write[2];
    uint64_t devices = (uint64_t)1 << step->device;
    int n = moved_values(plan, step, values, write);
    for (int i = 0; i < n; i++) devices |= (uint64_t)1 << plan->values[values[i]].device;
    return devices;
}

/* Steps that somebody waits for get a signal, and the last of each queue. Steps nobody waits for cost no signal: on
 * real devices each is a command, and wakes somebody. */
static void number_signals(waits *w) {
    plait_plan *plan = w->plan;
    order *o = &w->o;
    for (size_t i = 0; i < plan->n_waits; i++) plan->steps[plan->waits[i].step].signal = 1;
    for (uint32_t l = 0; l < o->n_lanes; l++)
        plan->steps[o->members[o->begins[l] + o->sizes[l] - 1]].signal = 1;
    for (size_t s = 0; s < plan->n_steps; s++) {
        plait_plan_queue *queue = &plan->queues[plan->steps[s].queue];
        queue->touches |= touched_devices(plan, &plan->steps[s]);
        if (plan->steps[s].signal) plan->steps[s].signal = ++queue->n_signals;
    }
}

/* A step of the run has ended when every lane has; the host need not ask those whose end another's end brings along. No
 * two can bring each other along, so at least one is left. */
static void choose_awaited(waits *w) {
    order *o = &w->o;
    clear_needs(o);
    for (uint32_t l = 0; l < o->n_lanes; l++) add_need(o, l, o->sizes[l]);
    for (uint32_t l = 0; o->n_lanes > 1 && l < o->n_lanes; l++)
        for (uint32_t other = 0; other < o->n_lanes; other++)
            if (other != l && clock_at(o, other, o->sizes[other])[l] >= o->sizes[l]) o->needs[l] = 0;
    for (uint32_t l = 0; l < o->n_lanes; l++) w->plan->queues[o->queue_of[l]].awaited = o->needs[l] > 0;
}

/* From the growing table to the plan's arena. After a failure as well, so that nothing is left that the plan's release
 * does not free. */
static plait_status keep_waits(plait_plan *plan) {
    plait_plan_wait *kept = plait_arena_alloc(&plan->arena, plan->n_waits, sizeof *kept);
    if (kept && plan->n_waits) memcpy(kept, plan->waits, plan->n_waits * sizeof *kept);
    free(plan->waits);
    plan->waits = kept;
    return kept ? PLAIT_OK : plait_error_memory("plan: waits", plan->n_waits * sizeof *kept);
}

/* Waits, then signals for what is waited for, then which queues the host has to ask. What the plan needs of it goes to
 * the plan's tables, everything else is gone. */
plait_status plait_plan_order(plait_plan *plan) {
    waits w = {0};
    plait_status status = init_waits(&w, plan);
    if (status == PLAIT_OK && w.o.n_lanes > 1) status = order_steps(&w);
    if (status == PLAIT_OK) number_signals(&w);
    if (status == PLAIT_OK) choose_awaited(&w);
    plait_status kept = keep_waits(plan);
    plait_accesses_deinit(&w.accesses);
    plait_arena_deinit(&w.o.arena);
    return status != PLAIT_OK ? status : kept;
}
