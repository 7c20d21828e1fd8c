/* Moves: after every node has a place, groups of nodes, and single nodes, are tried on other devices, and stay where the
 * whole step is predicted to take at least 3% less. A group is what lies between two points that at most one value
 * crosses; neighbouring groups that can all go are tried together as well. A move within a block of a model is judged as
 * if every block made it: forty blocks that win 2% each are worth a move that none of them would be.
 *
 * What a step costs: nodes on their devices, each value once to each device that reads it elsewhere, a launch for each
 * run of neighbouring nodes on one device. Costs are kept up to date locally, so a trial takes time in proportion to
 * what it touches.
 *
 * Invariant: devices in `device` run their nodes before, during and after. */
#include "plan/place.h"

#include "base/alloc.h"
#include "base/status.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_ROUNDS = 8 };
static const double LEAST_GAIN = 0.03;

/* Things that move between devices: values made by nodes, then storages of the graph (inputs from the host, state from
 * its home). */
typedef struct mover {
    plait_placer *p;
    const plait_graph *graph;
    size_t n_devices;
    uint32_t n_values;
    int *home;         /* [thing] device that has it; -1: the host */
    double *bytes;     /* [thing] */
    uint32_t *readers; /* [thing * n_devices + device] reads by nodes there */
    uint32_t *seen;    /* [thing] trial in which it was counted */
    uint32_t trial;
    uint32_t *group, n_groups; /* [node] */
    double threshold;          /* of one block */
    uint32_t *blocks;          /* [node] blocks that begin before it */
    plait_arena arena;
} mover;

/* UINT32_MAX for weights, which never move. */
static uint32_t thing_of(const mover *m, uint32_t tensor) {
    uint32_t value = plait_weighed_value(&m->p->weighed, tensor);
    if (value != UINT32_MAX) return value;
    uint32_t storage = m->graph->tensors[tensor].storage;
    bool weight = m->graph->storages[storage].kind == PLAIT_STORAGE_WEIGHT;
    return weight ? UINT32_MAX : m->n_values + storage;
}

/* ---- costs ---- */

/* From the host there is a WRITE of an input, which is no link between devices. */
static double move_cost(const mover *m, uint32_t thing, int to) {
    const plait_cost *cost = m->p->weighed.cost;
    int from = m->home[thing];
    if (from >= 0) return plait_cost_transfer(cost, from, to, 1, m->bytes[thing]);
    return (double)cost->devices[to].write_ns +
           1e9 * m->bytes[thing] / (double)cost->devices[to].write_bytes_per_s;
}

/* Once to each device that has a reader, however many read it there: a transfer leaves the bytes for all of them. At
 * its home it costs nothing. */
static double cost_of_thing(const mover *m, uint32_t thing) {
    double ns = 0;
    for (size_t d = 0; d < m->n_devices; d++)
        if (m->readers[(size_t)thing * m->n_devices + d]) ns += move_cost(m, thing, (int)d);
    return ns;
}

/* With what its operands' copies take (weigh.c). */
static double cost_of_node(const mover *m, uint32_t n) {
    return (double)m->p->weighed.ns[(size_t)n * m->n_devices + (size_t)m->p->device[n]];
}

/* A launch begins with node n when the one before it is elsewhere. */
static double cost_of_launch(const mover *m, uint32_t n) {
    bool begins = n < m->graph->n_nodes && (n == 0 || m->p->device[n - 1] != m->p->device[n]);
    return begins ? (double)m->p->weighed.cost->devices[m->p->device[n]].launch_ns : 0;
}

/* Everything that moving nodes [begin, end) could change: the nodes, all things that they touch (each once, stamped by
 * trial), and launches up to the first node behind, which may begin one only because the last of these has left.
 * Differences of two such sums are exact differences of the step. */
static double cost_around(mover *m, uint32_t begin, uint32_t end) {
    double ns = 0;
    m->trial++;
    for (uint32_t n = begin; n < end; n++) {
        const plait_graph_node *node = &m->graph->nodes[n];
        ns += cost_of_node(m, n) + cost_of_launch(m, n);
        for (int k = 0; k < node->n_inputs + node->n_outputs; k++) {
            uint32_t tensor = k < node->n_inputs ? node->inputs[k] : node->outputs[k - node->n_inputs];
            uint32_t thing = tensor ? thing_of(m, tensor) : UINT32_MAX;
            if (thing == UINT32_MAX || m->seen[thing] == m->trial) continue;
            m->seen[thing] = m->trial;
            ns += cost_of_thing(m, thing);
        }
    }
    return ns + cost_of_launch(m, end);
}

/* For the threshold only; trials never sum the whole. */
static double cost_of_step(const mover *m) {
    double ns = 0;
    for (uint32_t n = 0; n < m->graph->n_nodes; n++) ns += cost_of_node(m, n) + cost_of_launch(m, n);
    for (uint32_t t = 0; t < m->n_values + m->graph->n_storages; t++) ns += cost_of_thing(m, t);
    return ns;
}

/* ---- moving ---- */

/* A node's place, and what depends on it: readers of its inputs on both devices, the home of its outputs. The home of a
 * state is fixed: a writer elsewhere has the value it made, and it goes home. */
static void put(mover *m, uint32_t n, int device) {
    const plait_graph_node *node = &m->graph->nodes[n];
    int before = m->p->device[n];
    for (int i = 0; i < node->n_inputs; i++) {
        uint32_t thing = node->inputs[i] ? thing_of(m, node->inputs[i]) : UINT32_MAX;
        if (thing == UINT32_MAX) continue;
        if (before >= 0) m->readers[(size_t)thing * m->n_devices + (size_t)before]--;
        m->readers[(size_t)thing * m->n_devices + (size_t)device]++;
    }
    for (uint32_t v = m->p->weighed.first_value[n]; v < m->p->weighed.first_value[n + 1]; v++)
        m->home[v] = device;
    m->p->device[n] = device;
}

/* Nothing goes to a device of share 0, however fast it is. */
static bool may_move(const mover *m, uint32_t n, int device) {
    const plait_placer *p = m->p;
    return !p->held[n] && p->device[n] != device && (p->weighed.runs[n] >> device & 1u) &&
           !(p->plan->residence->idle >> device & 1u);
}

/* Nodes of [begin, end) that may, go to the device; `before` remembers where they were. How many went. Those that stay
 * (held, or lacking there) do not hold back the rest: the trial's costs show whether that was worth it. */
static uint32_t go(mover *m, uint32_t begin, uint32_t end, int device, int *before) {
    uint32_t n_moved = 0;
    for (uint32_t n = begin; n < end; n++) {
        before[n - begin] = m->p->device[n];
        if (!may_move(m, n, device)) continue;
        put(m, n, device);
        n_moved++;
    }
    return n_moved;
}

static void go_back(mover *m, uint32_t begin, uint32_t end, const int *before) {
    for (uint32_t n = begin; n < end; n++)
        if (m->p->device[n] != before[n - begin]) put(m, n, before[n - begin]);
}

/* What was a wish or a lack is now a matter of cost, and the reason why the wish was not granted is out of date. */
static void note_moves(mover *m, uint32_t begin, uint32_t end, const int *before) {
    for (uint32_t n = begin; n < end; n++) {
        plait_placement *placement = &m->p->plan->placements[n];
        if (m->p->device[n] == before[n - begin]) continue;
        placement->cause = PLAIT_CAUSE_COST;
        placement->reason = "";
    }
}

/* What is won when [begin, end) goes to a device; it is back afterwards. `now`: what it costs where it is. */
static double gain_on(mover *m, uint32_t begin, uint32_t end, int device, double now, int *room) {
    double gain = 0;
    if (go(m, begin, end, device, room)) gain = now - cost_around(m, begin, end);
    go_back(m, begin, end, room);
    return gain;
}

/* What moving [begin, end) must win: one block's part of 3% of the step, as if every block made the move; n times that
 * if n blocks begin in it. In a graph without blocks the part is the whole. */
static double threshold_of(const mover *m, uint32_t begin, uint32_t end) {
    uint32_t n = m->blocks[end] - m->blocks[begin];
    return m->threshold * (n > 1 ? n : 1);
}

/* Tries [begin, end) on every device and keeps the best, if it wins enough. Ties stay with the earlier device, and with
 * where it is, since a gain has to be larger than the best so far. */
static bool try_nodes(mover *m, uint32_t begin, uint32_t end, int *room) {
    double now = cost_around(m, begin, end), best_gain = threshold_of(m, begin, end);
    int best = -1;
    for (int d = 0; d < (int)m->n_devices; d++) {
        double gain = gain_on(m, begin, end, d, now, room);
        if (gain > best_gain) best_gain = gain, best = d;
    }
    if (best < 0) return false;
    go(m, begin, end, best, room);
    note_moves(m, begin, end, room);
    return true;
}

/* Whether every node of [begin, end) may go to the device. */
static bool all_may_move(const mover *m, uint32_t begin, uint32_t end, int device) {
    for (uint32_t n = begin; n < end; n++)
        if (!may_move(m, n, device)) return false;
    return true;
}

/* Neighbouring groups that can all go to a device go there together: one of them alone may win less than its way there
 * and back costs. The longest such run is tried, not every part of it: single groups follow in the same round and may
 * go back. */
static bool try_runs(mover *m, int *room) {
    uint32_t n_nodes = (uint32_t)m->graph->n_nodes;
    bool moved = false;
    for (int d = 0; d < (int)m->n_devices; d++)
        for (uint32_t begin = 0, end; begin < n_nodes; begin = end) {
            uint32_t n_groups = 0, next = begin;
            for (end = begin; end < n_nodes; end = next, n_groups++) {
                for (next = end + 1; next < n_nodes && m->group[next] == m->group[end];) next++;
                if (!all_may_move(m, end, next, d)) break;
            }
            if (n_groups == 0) end = next; /* a group that stays */
            if (n_groups < 2) continue;
            double gain = gain_on(m, begin, end, d, cost_around(m, begin, end), room);
            if (gain <= threshold_of(m, begin, end)) continue;
            go(m, begin, end, d, room);
            note_moves(m, begin, end, room);
            moved = true;
        }
    return moved;
}

/* ---- all ---- */

/* Things are numbered values first, then storages; the home of an input is the host, of a state where the residence has
 * it. */
static plait_status make_tables(mover *m) {
    size_t n_things = m->n_values + m->graph->n_storages;
    m->home = plait_arena_alloc(&m->arena, n_things, sizeof *m->home);
    m->bytes = plait_arena_alloc(&m->arena, n_things, sizeof *m->bytes);
    m->readers = plait_arena_alloc(&m->arena, n_things * m->n_devices, sizeof *m->readers);
    m->seen = plait_arena_alloc(&m->arena, n_things, sizeof *m->seen);
    m->group = plait_arena_alloc(&m->arena, m->graph->n_nodes, sizeof *m->group);
    if (!m->home || !m->bytes || !m->readers || !m->seen || !m->group)
        return plait_error_memory("placement", n_things);
    for (uint32_t v = 0; v < m->n_values; v++) m->bytes[v] = (double)m->p->weighed.bytes[v];
    for (uint32_t s = 0; s < m->graph->n_storages; s++) {
        const plait_graph_storage *row = &m->graph->storages[s];
        const plait_resident *entry =
            row->kind == PLAIT_STORAGE_STATE ? plait_plan_resident(m->p->plan, s, -1) : NULL;
        m->home[m->n_values + s] = entry ? entry->device : -1;
        m->bytes[m->n_values + s] = plait_weigh_storage(m->graph, s, m->p->weighed.steps);
    }
    return plait_weigh_points(&m->p->weighed, m->group, &m->n_groups);
}

/* Nodes that are placed already are placed again, so that the counts hold. */
static void count_reads(mover *m) {
    for (uint32_t n = 0; n < m->graph->n_nodes; n++) {
        int device = m->p->device[n];
        m->p->device[n] = -1;
        put(m, n, device);
    }
}

/* 3% of the step for each block; and how many blocks begin before each node. Blocks are told by the builder's marks; a
 * graph without any counts as one. */
static plait_status find_threshold(mover *m) {
    uint32_t n_blocks = 0, n_nodes = (uint32_t)m->graph->n_nodes;
    int32_t last = -1;
    m->blocks = plait_arena_alloc(&m->arena, (size_t)n_nodes + 1, sizeof *m->blocks);
    if (!m->blocks) return plait_error_memory("placement", n_nodes);
    for (uint32_t n = 0; n < n_nodes; n++) {
        int32_t block = m->graph->nodes[n].block;
        m->blocks[n] = n_blocks;
        if (block >= 0 && block != last) n_blocks++, last = block;
    }
    m->blocks[n_nodes] = n_blocks;
    m->threshold = LEAST_GAIN * cost_of_step(m) / (n_blocks > 1 ? n_blocks : 1);
    return PLAIT_OK;
}

/* Runs of groups, then each group, then its nodes one by one; program order, so a round's result does not depend on
 * anything but costs. True: something moved, another round may find more. */
static bool play_round(mover *m, int *room) {
    bool moved = try_runs(m, room);
    uint32_t n_nodes = (uint32_t)m->graph->n_nodes;
    for (uint32_t begin = 0, end; begin < n_nodes; begin = end) {
        for (end = begin + 1; end < n_nodes && m->group[end] == m->group[begin];) end++;
        moved |= try_nodes(m, begin, end, room);
        for (uint32_t n = begin; end - begin > 1 && n < end; n++) moved |= try_nodes(m, n, n + 1, room);
    }
    return moved;
}

/* Eight rounds at most: every move wins, so it would end anyhow, but nobody says how soon. */
plait_status plait_place_moves(plait_placer *p) {
    mover m = {.p = p, .graph = p->plan->graph, .n_devices = (size_t)p->weighed.n_devices};
    m.n_values = p->weighed.first_value[m.graph->n_nodes];
    plait_arena_init(&m.arena, 0);
    int *room = plait_arena_alloc(&m.arena, m.graph->n_nodes, sizeof *room);
    plait_status status = room ? make_tables(&m) : plait_error_memory("placement", m.graph->n_nodes);
    if (status == PLAIT_OK) {
        count_reads(&m);
        status = find_threshold(&m);
        for (int round = 0; status == PLAIT_OK && round < MAX_ROUNDS && play_round(&m, room);) round++;
    }
    plait_arena_deinit(&m.arena);
    return status;
}
