/* The survey of a model's graphs. Tables first, then the trial of a unit on a device, then the decision.
 *
 * Invariant: a trial and the decision take the same steps, so what was predicted is what is decided. */
#include "plan/survey.h"

#include "base/alloc.h"
#include "base/glob.h"
#include "base/status.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Nodes of all graphs have one row of numbers (survey.h); this is the way back. */
static const plait_graph_node *graph_node(const plait_survey *s, uint32_t n) {
    return &s->graphs[s->nodes[n].graph]->nodes[s->nodes[n].node];
}

/* Index of the item that a tensor of a graph addresses, or -1 for inputs and temporaries. */
static int64_t item_of(const plait_survey *s, uint32_t g, uint32_t tensor) {
    if (!tensor) return -1;
    return (int64_t)s->item_of[s->first_storage[g] + s->graphs[g]->tensors[tensor].storage] - 1;
}

/* ---- what is stored ---- */

/* The first graph that names an item describes it; others are compared with that. *out: its index + 1, as `item_of`
 * keeps it. */
static plait_status add_item(plait_survey *s, const plait_graph *graph, uint32_t storage, uint32_t *out) {
    const plait_graph_storage *row = &graph->storages[storage];
    const plait_operand *shape = &graph->tensors[row->root].shape;
    uint32_t at;
    if (plait_map_get(&s->names, row->name, strlen(row->name), &at)) {
        *out = at + 1;
        return plait_residence_check_same(s->items[at].row->kind, &s->items[at].shape, graph, storage);
    }
    PLAIT_TRY(plait_grow(&s->items, &s->item_capacity, s->n_items + 1, sizeof *s->items, PLAIT_MAX_NAME << 16,
                         "residence"));
    s->items[s->n_items] =
        (plait_survey_item){.name = row->name, .row = row, .shape = *shape, .pin = -1, .home = -1};
    s->items[s->n_items].pin =
        plait_residence_pin(s->residence, row->name, row->block, &s->items[s->n_items].pin_rank);
    *out = (uint32_t)s->n_items + 1;
    return plait_map_put(&s->names, row->name, strlen(row->name), (uint32_t)s->n_items++, NULL);
}

/* Every weight and state that a node or an output touches; what nothing touches takes no memory. */
static plait_status list_items(plait_survey *s) {
    size_t n_storages = 0;
    s->first_storage = plait_arena_alloc(&s->arena, (size_t)s->n_graphs, sizeof *s->first_storage);
    for (int g = 0; s->first_storage && g < s->n_graphs; g++) {
        s->first_storage[g] = n_storages;
        n_storages += s->graphs[g]->n_storages;
    }
    s->item_of = plait_arena_alloc(&s->arena, n_storages, sizeof *s->item_of);
    if (!s->first_storage || !s->item_of) return plait_error_memory("residence", n_storages);
    for (int g = 0; g < s->n_graphs; g++) {
        const plait_graph *graph = s->graphs[g];
        /* What nothing touches must not take memory: files of some models carry weights that their graphs do not use.
         */
        bool *touched = plait_alloc_array(graph->n_storages, sizeof *touched);
        if (!touched) return plait_error_memory("residence", graph->n_storages);
        for (size_t n = 0; n < graph->n_nodes; n++)
            for (int i = 0; i < graph->nodes[n].n_inputs; i++)
                if (graph->nodes[n].inputs[i])
                    touched[graph->tensors[graph->nodes[n].inputs[i]].storage] = true;
        for (size_t o = 0; o < graph->n_outputs; o++)
            touched[graph->tensors[graph->outputs[o].tensor].storage] = true;
        plait_status status = PLAIT_OK;
        for (uint32_t k = 0; status == PLAIT_OK && k < graph->n_storages; k++) {
            plait_storage_kind kind = graph->storages[k].kind;
            if (touched[k] && (kind == PLAIT_STORAGE_WEIGHT || kind == PLAIT_STORAGE_STATE))
                status = add_item(s, graph, k, &s->item_of[s->first_storage[g] + k]);
        }
        free(touched);
        PLAIT_TRY(status);
        for (size_t o = 0; o < graph->n_outputs; o++) {
            int64_t item = item_of(s, (uint32_t)g, graph->outputs[o].tensor);
            if (item >= 0) s->items[item].shown = true;
        }
    }
    return PLAIT_OK;
}

/* Calls for every input that is an item: counts users, or fills their rows. Run twice, since rows are laid out item
 * by item. `whole`: the tensor itself is read, not a view of part of it, which packings ask about. */
static void visit_users(plait_survey *s, bool fill, uint32_t *next) {
    for (uint32_t n = 0; n < s->first_node[s->n_graphs]; n++) {
        const plait_graph *graph = s->graphs[s->nodes[n].graph];
        const plait_graph_node *node = graph_node(s, n);
        for (int i = 0; i < node->n_inputs; i++) {
            int64_t item = item_of(s, s->nodes[n].graph, node->inputs[i]);
            if (item < 0) continue;
            if (fill)
                s->users[next[item]++] =
                    (plait_survey_user){.node = n,
                                        .input = i,
                                        .whole = graph->tensors[node->inputs[i]].base == 0,
                                        .lookup = s->lookups[node->op->id] >> i & 1u,
                                        .writes = node->op->writes_input == i};
            else
                s->items[item].n_users++;
        }
    }
}

/* Users of an item stand together, in order of graphs and nodes, so "the first user that..." is the same in every
 * run. */
static plait_status list_users(plait_survey *s) {
    uint32_t total = 0, *next = plait_arena_alloc(&s->arena, s->n_items, sizeof *next);
    if (!next) return plait_error_memory("residence", s->n_items);
    visit_users(s, false, NULL);
    for (size_t i = 0; i < s->n_items; i++) {
        s->items[i].first_user = next[i] = total;
        total += s->items[i].n_users;
    }
    s->users = plait_arena_alloc(&s->arena, total, sizeof *s->users);
    if (!s->users) return plait_error_memory("residence", total);
    visit_users(s, true, next);
    return PLAIT_OK;
}

/* ---- pins of nodes ---- */

/* The pin that comes first in the user's list among those that name the node, its block, or a weight that it reads.
 * *out_rank: its place in the list. A pin of a state is not asked for here: its readers hear of it through the
 * state's home (choose). */
static int pin_of_node(const plait_survey *s, uint32_t g, const plait_graph_node *node, int *out_rank) {
    int device = plait_residence_pin(s->residence, node->name, node->block, out_rank);
    for (int i = 0; i < node->n_inputs; i++) {
        int64_t item = item_of(s, g, node->inputs[i]);
        if (item < 0 || s->items[item].row->kind != PLAIT_STORAGE_WEIGHT || s->items[item].pin < 0) continue;
        if (device >= 0 && *out_rank <= s->items[item].pin_rank) continue;
        device = s->items[item].pin;
        *out_rank = s->items[item].pin_rank;
    }
    return device;
}

/* Pins of nodes; a pinned writer pins the state that it writes, unless a pin before it names the state. */
static void pin_nodes(plait_survey *s) {
    for (uint32_t n = 0; n < s->first_node[s->n_graphs]; n++) {
        const plait_graph_node *node = graph_node(s, n);
        int rank = 0;
        s->nodes[n].pin = s->residence->n_pins ? pin_of_node(s, s->nodes[n].graph, node, &rank) : -1;
        if (s->nodes[n].pin < 0 || node->op->writes_input < 0) continue;
        int64_t at = item_of(s, s->nodes[n].graph, node->inputs[node->op->writes_input]);
        if (at < 0) continue;
        plait_survey_item *item = &s->items[at];
        if (item->pin < 0 || rank < item->pin_rank) item->pin = s->nodes[n].pin, item->pin_rank = rank;
    }
}

/* ---- units ---- */

static int by_number(const void *a, const void *b) {
    int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
    return x < y ? -1 : x > y;
}

/* The numbers of all blocks, sorted, each once. Graphs visit blocks in runs, so the list before sorting is about as
 * long as there are blocks in all graphs. */
static plait_status list_blocks(plait_survey *s, int32_t **out, size_t *out_n) {
    size_t n = 0;
    int32_t *blocks = plait_arena_alloc(&s->arena, s->first_node[s->n_graphs], sizeof *blocks);
    if (!blocks) return plait_error_memory("residence", s->first_node[s->n_graphs]);
    for (uint32_t k = 0; k < s->first_node[s->n_graphs]; k++) {
        int32_t block = graph_node(s, k)->block;
        if (block >= 0 && (n == 0 || blocks[n - 1] != block)) blocks[n++] = block;
    }
    qsort(blocks, n, sizeof *blocks, by_number);
    size_t kept = 0;
    for (size_t i = 0; i < n; i++)
        if (i == 0 || blocks[i] != blocks[i - 1]) blocks[kept++] = blocks[i];
    *out = blocks;
    *out_n = kept;
    return PLAIT_OK;
}

/* Units without a block keep -1: what stands before and behind. */
static plait_status name_units(plait_survey *s) {
    s->unit_block = plait_arena_alloc(&s->arena, s->n_units, sizeof *s->unit_block);
    s->unit_blocks = plait_arena_alloc(&s->arena, s->n_units, sizeof *s->unit_blocks);
    if (!s->unit_block || !s->unit_blocks) return plait_error_memory("residence", s->n_units);
    for (uint32_t u = 0; u < s->n_units; u++) s->unit_block[u] = -1;
    return PLAIT_OK;
}

/* Unit 0 stands before all blocks, the last one behind them. Nodes without a mark stay with the block before them, so
 * that what glues blocks together does not cut a block off. More blocks than there may be units are put together
 * evenly, neighbours with neighbours: solving the split takes time by the square of the units, and a split at every
 * fourth of a thousand layers is as good as one anywhere.
 *
 * A graph without any block is a tail: it reads what the last block made, so it belongs behind. */
static plait_status unite_blocks(plait_survey *s, const int32_t *blocks, size_t n_blocks) {
    size_t n_between = n_blocks < PLAIT_SURVEY_MAX_UNITS - 2 ? n_blocks : PLAIT_SURVEY_MAX_UNITS - 2;
    s->n_units = (uint32_t)n_between + 2;
    PLAIT_TRY(name_units(s));
    for (size_t rank = n_blocks; rank-- > 0;) {
        size_t unit = 1 + rank * n_between / n_blocks;
        s->unit_block[unit] = blocks[rank];
        s->unit_blocks[unit]++;
    }
    for (int g = 0; g < s->n_graphs; g++) {
        uint32_t begin = s->first_node[g], end = s->first_node[g + 1], last = begin, unit = 0;
        for (uint32_t n = begin; n < end; n++)
            if (graph_node(s, n)->block >= 0) last = n + 1;
        if (last == begin) unit = s->n_units - 1; /* no block at all: it works on what the blocks made */
        for (uint32_t n = begin; n < end; n++) {
            int32_t block = graph_node(s, n)->block;
            if (block >= 0) {
                const int32_t *at = bsearch(&block, blocks, n_blocks, sizeof *blocks, by_number);
                unit = at ? (uint32_t)(1 + (size_t)(at - blocks) * n_between / n_blocks) : unit;
            } else if (n >= last) {
                unit = s->n_units - 1;
            }
            s->nodes[n].unit = unit;
        }
    }
    return PLAIT_OK;
}

/* Without blocks a unit is what lies between points that at most one value crosses. Graphs follow one another, as if
 * they were one program; where there are too many points, neighbours go together evenly. */
static plait_status unite_points(plait_survey *s) {
    uint32_t n_nodes = s->first_node[s->n_graphs], n_all = 0;
    uint32_t *unit = plait_arena_alloc(&s->arena, n_nodes, sizeof *unit);
    if (!unit) return plait_error_memory("residence", n_nodes);
    for (int g = 0; g < s->n_graphs; g++) {
        uint32_t n;
        PLAIT_TRY(plait_weigh_points(&s->weighed[g], unit + s->first_node[g], &n));
        for (uint32_t k = s->first_node[g]; k < s->first_node[g + 1]; k++) unit[k] += n_all;
        n_all += n;
    }
    s->n_units = n_all < PLAIT_SURVEY_MAX_UNITS ? n_all : PLAIT_SURVEY_MAX_UNITS;
    PLAIT_TRY(name_units(s));
    for (uint32_t k = 0; k < n_nodes; k++)
        s->nodes[k].unit = (uint32_t)((uint64_t)unit[k] * s->n_units / n_all);
    return PLAIT_OK;
}

/* Lists by counting: `first` [n_units + 1] from `count(u)` already in first[u + 1]. */
static void begin_lists(uint32_t *first, uint32_t n) {
    for (uint32_t u = 0; u < n; u++) first[u + 1] += first[u];
}

static void end_lists(uint32_t *first, uint32_t n) { /* filling moved each beginning to its end */
    for (uint32_t u = n; u > 0; u--) first[u] = first[u - 1];
    first[0] = 0;
}

/* Two tables by unit, each filled by counting first: nodes of a unit, and items that they touch. `stamp` keeps an
 * item from being listed twice in a unit that has several users of it. */
static plait_status list_units(plait_survey *s) {
    uint32_t n_nodes = s->first_node[s->n_graphs], n_users = 0;
    for (size_t i = 0; i < s->n_items; i++) n_users += s->items[i].n_users;
    s->first_in_unit = plait_arena_alloc(&s->arena, (size_t)s->n_units + 2, sizeof *s->first_in_unit);
    s->in_unit = plait_arena_alloc(&s->arena, n_nodes, sizeof *s->in_unit);
    s->first_item = plait_arena_alloc(&s->arena, (size_t)s->n_units + 2, sizeof *s->first_item);
    s->unit_items = plait_arena_alloc(&s->arena, n_users, sizeof *s->unit_items);
    uint32_t *stamp = plait_arena_alloc(&s->arena, s->n_units, sizeof *stamp);
    if (!s->first_in_unit || !s->in_unit || !s->first_item || !s->unit_items || !stamp)
        return plait_error_memory("residence", n_nodes);
    for (uint32_t n = 0; n < n_nodes; n++) s->first_in_unit[s->nodes[n].unit + 1]++;
    begin_lists(s->first_in_unit, s->n_units);
    for (uint32_t n = 0; n < n_nodes; n++) s->in_unit[s->first_in_unit[s->nodes[n].unit]++] = n;
    end_lists(s->first_in_unit, s->n_units);
    /* Items by unit need two passes over users: counting, then filling. An item is listed where a unit first meets it.
     */
    for (int fill = 0; fill < 2; fill++) {
        for (uint32_t u = 0; u < s->n_units; u++) stamp[u] = 0;
        for (size_t i = 0; i < s->n_items; i++)
            for (uint32_t k = s->items[i].first_user; k < s->items[i].first_user + s->items[i].n_users; k++) {
                uint32_t unit = s->nodes[s->users[k].node].unit;
                if (stamp[unit] == (uint32_t)i + 1) continue;
                stamp[unit] = (uint32_t)i + 1;
                if (fill)
                    s->unit_items[s->first_item[unit]++] = (uint32_t)i;
                else
                    s->first_item[unit + 1]++;
            }
        if (fill)
            end_lists(s->first_item, s->n_units);
        else
            begin_lists(s->first_item, s->n_units);
    }
    return PLAIT_OK;
}

/* First and last unit of every item. */
static void span_items(plait_survey *s) {
    for (size_t i = 0; i < s->n_items; i++) {
        plait_survey_item *item = &s->items[i];
        for (uint32_t k = item->first_user; k < item->first_user + item->n_users; k++) {
            uint32_t unit = s->nodes[s->users[k].node].unit;
            if (k == item->first_user || unit < item->first_unit) item->first_unit = unit;
            if (k == item->first_user || unit > item->last_unit) item->last_unit = unit;
        }
    }
}

/* ---- what goes from unit to unit ---- */

/* What a cut between two units costs, summed over the steps of a typical use: a value made in unit a and read last in
 * unit z crosses every cut between them, also where units in the middle do not read it; in a pipeline of devices it
 * travels with the rest. `escapes` marks values that leave their unit at all: a trial charges their way back to the
 * unit's device, if a lacking op made them elsewhere. */
static plait_status list_crossings(plait_survey *s) {
    uint32_t n_values = s->first_value[s->n_graphs];
    s->escapes = plait_arena_alloc(&s->arena, n_values, sizeof *s->escapes);
    s->cross_n = plait_arena_alloc(&s->arena, (size_t)s->n_units + 1, sizeof *s->cross_n);
    s->cross_bytes = plait_arena_alloc(&s->arena, (size_t)s->n_units + 1, sizeof *s->cross_bytes);
    uint32_t *last = plait_arena_alloc(&s->arena, n_values, sizeof *last);
    if (!s->escapes || !s->cross_n || !s->cross_bytes || !last)
        return plait_error_memory("residence", n_values);
    for (uint32_t n = 0; n < s->first_node[s->n_graphs]; n++) {
        const plait_weighed *w = &s->weighed[s->nodes[n].graph];
        const plait_graph_node *node = graph_node(s, n);
        uint32_t base = s->first_value[s->nodes[n].graph];
        for (int i = 0; i < node->n_inputs; i++) {
            uint32_t value = node->inputs[i] ? plait_weighed_value(w, node->inputs[i]) : UINT32_MAX;
            if (value == UINT32_MAX) continue;
            uint32_t maker = s->first_node[s->nodes[n].graph] + w->graph->tensors[node->inputs[i]].node;
            if (s->nodes[maker].unit != s->nodes[n].unit) s->escapes[base + value] = true;
            if (s->nodes[n].unit > last[base + value]) last[base + value] = s->nodes[n].unit;
        }
    }
    for (uint32_t n = 0; n < s->first_node[s->n_graphs]; n++) {
        const plait_survey_node *row = &s->nodes[n];
        const plait_weighed *w = &s->weighed[row->graph];
        for (uint32_t v = w->first_value[row->node]; v < w->first_value[row->node + 1]; v++)
            /* In every cut from the maker's unit to that of the last reader. */
            for (uint32_t u = row->unit + 1; u <= last[s->first_value[row->graph] + v]; u++) {
                s->cross_n[u] += s->steps[row->graph];
                s->cross_bytes[u] += s->steps[row->graph] * (double)w->bytes[v];
            }
    }
    return PLAIT_OK;
}

/* ---- homes of state ---- */

/* The device of a mask on which the users of a state take the least time. */
static int cheapest(const plait_survey *s, const plait_survey_item *item, uint64_t mask) {
    int best = -1;
    double least = INFINITY;
    for (int d = 0; d < s->n_devices; d++) {
        double ns = s->idle >> d & 1u ? 1e30 : 0; /* the last resort */
        if (!(mask >> d & 1u)) continue;
        for (uint32_t k = item->first_user; k < item->first_user + item->n_users; k++) {
            const plait_survey_node *row = &s->nodes[s->users[k].node];
            const plait_weighed *w = &s->weighed[row->graph];
            ns += s->steps[row->graph] * (double)w->ns[(size_t)row->node * (size_t)s->n_devices + (size_t)d];
        }
        if (ns < least) least = ns, best = d;
    }
    return best;
}

/* For every state: which devices run all that touches it, which run all that writes it, and where it goes when its
 * unit's device is neither. Readers may lack a device, the bytes then travel; writers should not, or everything
 * written travels home in every step. */
static void find_refuges(plait_survey *s) {
    uint64_t all = s->n_devices >= 64 ? UINT64_MAX : ((uint64_t)1 << s->n_devices) - 1;
    for (size_t i = 0; i < s->n_items; i++) {
        plait_survey_item *item = &s->items[i];
        item->touch = item->write = all;
        for (uint32_t k = item->first_user; k < item->first_user + item->n_users; k++) {
            const plait_survey_node *row = &s->nodes[s->users[k].node];
            uint64_t runs = s->weighed[row->graph].runs[row->node];
            item->touch &= runs;
            if (s->users[k].writes) item->write &= runs;
        }
        item->refuge = cheapest(s, item, item->touch ? item->touch : item->write);
    }
}

/* A pin that runs the writers; the unit's device if it runs everything that touches the state; else the refuge; where not
 * even the writers have a common device, what they write travels, and the state stays with its unit. */
int plait_survey_home(const plait_survey_item *item, int device) {
    bool pinned = item->pin >= 0 && (item->write == 0 || item->write >> item->pin & 1u);
    if (pinned) return item->pin;
    if (item->touch >> device & 1u) return device;
    if (!item->touch && item->write >> device & 1u) return device;
    return item->refuge >= 0 ? item->refuge : device;
}

/* ---- trying a unit on a device ---- */

/* Where a value is during this trial, a bit for each device that has it: what other units made is on the device of
 * the trial. Stamped by trial, so that nothing needs to be cleared. */
static uint64_t *place_of(plait_survey *s, uint32_t value, int device) {
    if (s->placed[value] != s->trial) {
        s->placed[value] = s->trial;
        s->places[value] = (uint64_t)1 << device;
    }
    return &s->places[value];
}

/* From the first device that has it: all copies are of the same bytes, and which one a transfer really takes is
 * settled when segments are cut. */
static double move_cost(const plait_survey *s, const plait_survey_node *row, uint64_t from, int to,
                        uint32_t value) {
    double steps = s->steps[row->graph];
    if (from >> to & 1u) return 0;
    return plait_cost_transfer(&s->cost, __builtin_ctzll(from), to, steps,
                               steps * (double)s->weighed[row->graph].bytes[value]);
}

/* In all steps of a typical use, so that graphs that run often weigh more. */
static double time_on(const plait_survey *s, const plait_survey_node *row, int d) {
    const plait_weighed *w = &s->weighed[row->graph];
    return s->steps[row->graph] * (double)w->ns[(size_t)row->node * (size_t)s->n_devices + (size_t)d];
}

/* The inputs of a node that are values: what it costs to have them on a device; `stay`: they are there afterwards. */
static double fetch(plait_survey *s, const plait_survey_node *row, int trial_device, int d, bool stay) {
    const plait_weighed *w = &s->weighed[row->graph];
    const plait_graph_node *node = &w->graph->nodes[row->node];
    double ns = 0;
    for (int i = 0; i < node->n_inputs; i++) {
        uint32_t value = node->inputs[i] ? plait_weighed_value(w, node->inputs[i]) : UINT32_MAX;
        if (value == UINT32_MAX) continue;
        uint64_t *place = place_of(s, s->first_value[row->graph] + value, trial_device);
        ns += move_cost(s, row, *place, d, value);
        if (stay) *place |= (uint64_t)1 << d;
    }
    return ns;
}

/* The device where it costs least: its time, and the ways there and back. 1e30 keeps devices of share 0 behind all
 * others, and in order among themselves. -1 only when no device runs the node, which weigh_graphs() has excluded. */
static int best_elsewhere(plait_survey *s, const plait_survey_node *row, int trial_device) {
    const plait_weighed *w = &s->weighed[row->graph];
    int best = -1;
    double least = INFINITY;
    for (int d = 0; d < s->n_devices; d++) {
        if (!(w->runs[row->node] >> d & 1u)) continue;
        double ns = time_on(s, row, d) + fetch(s, row, trial_device, d, false);
        for (uint32_t v = w->first_value[row->node]; v < w->first_value[row->node + 1]; v++)
            ns += move_cost(s, row, (uint64_t)1 << d, trial_device, v);
        if (s->idle >> d & 1u) ns += 1e30; /* the last resort */
        if (ns < least) least = ns, best = d;
    }
    return best;
}

/* Home of a state that the node writes (or reads), for a unit on a device; -1: none. */
static int state_home(const plait_survey *s, const plait_survey_node *row, int device, bool written) {
    const plait_graph_node *node = &s->graphs[row->graph]->nodes[row->node];
    for (int i = 0; i < node->n_inputs; i++) {
        if (written && i != node->op->writes_input) continue;
        int64_t at = item_of(s, row->graph, node->inputs[i]);
        if (at < 0 || s->items[at].row->kind != PLAIT_STORAGE_STATE) continue;
        return s->items[at].home >= 0 ? s->items[at].home : plait_survey_home(&s->items[at], device);
    }
    return -1;
}

/* The user that has an item where the others have no copy: the first that reads it whole. Its copy is the one that
 * must be fast; a lookup of a few rows can travel to it. */
static const plait_survey_user *owner_of(const plait_survey *s, const plait_survey_item *item) {
    for (uint32_t k = item->first_user; k < item->first_user + item->n_users; k++)
        if (!s->users[k].lookup) return &s->users[k];
    return &s->users[item->first_user];
}

/* By the way that is tried (plait_copies). An item of one unit is always there with it. Under NO_LOOKUPS a unit that
 * reads the item whole keeps a copy; where everybody only looks things up, all keep theirs, as there is no better
 * place to send them to. */
bool plait_survey_copies(const plait_survey *s, const plait_survey_item *item, uint32_t unit) {
    if (s->copies == PLAIT_COPIES_ALL || item->first_unit == item->last_unit) return true;
    if (s->copies == PLAIT_COPIES_NONE) return s->nodes[owner_of(s, item)->node].unit == unit;
    for (uint32_t k = item->first_user; k < item->first_user + item->n_users; k++)
        if (!s->users[k].lookup && s->nodes[s->users[k].node].unit == unit) return true;
    return owner_of(s, item)->lookup;
}

/* The device of a weight that the node reads and its unit has no copy of; -1: no such thing, or not known yet. */
static int owner_device(const plait_survey *s, const plait_survey_node *row) {
    const plait_graph_node *node = &s->graphs[row->graph]->nodes[row->node];
    for (int i = 0; s->copies != PLAIT_COPIES_ALL && i < node->n_inputs; i++) {
        int64_t at = item_of(s, row->graph, node->inputs[i]);
        if (at < 0 || s->items[at].row->kind != PLAIT_STORAGE_WEIGHT) continue;
        if (plait_survey_copies(s, &s->items[at], row->unit)) continue;
        const plait_survey_node *owner = &s->nodes[owner_of(s, &s->items[at])->node];
        int device = owner->pin >= 0 ? owner->pin : s->unit_device[owner->unit];
        if (device >= 0 && s->weighed[owner->graph].runs[owner->node] >> device & 1u) return device;
    }
    return -1;
}

/* Where a node of a unit runs when the unit is on a device; -1: nowhere. In this order: where the state is that it
 * writes; where the user wants it; where the state is that it reads; where the weight is that its unit has no copy
 * of; with its unit; where it costs least. place.c begins with the same order, so a plan of the whole finds what was
 * predicted here. */
static int choose(plait_survey *s, const plait_survey_node *row, int device, plait_cause *cause,
                  const char **why) {
    uint64_t runs = s->weighed[row->graph].runs[row->node];
    const struct {
        int device;
        plait_cause cause;
    } wishes[] = {{state_home(s, row, device, true), PLAIT_CAUSE_STATE},
                  {row->pin, PLAIT_CAUSE_PINNED},
                  {state_home(s, row, device, false), PLAIT_CAUSE_STATE},
                  {owner_device(s, row), PLAIT_CAUSE_WEIGHTS},
                  {device, PLAIT_CAUSE_BLOCK}};
    *why = "";
    for (size_t i = 0; i < sizeof wishes / sizeof *wishes; i++) {
        if (wishes[i].device < 0) continue;
        size_t at = (size_t)row->node * (size_t)s->n_devices + (size_t)wishes[i].device;
        bool stays =
            i < 2 || s->weighed[row->graph].copies[at] == 0; /* with copies elsewhere may cost less */
        *cause = wishes[i].cause;
        if ((runs >> wishes[i].device & 1u) && (stays || best_elsewhere(s, row, device) == wishes[i].device))
            return wishes[i].device;
        *why = s->weighed[row->graph].why[at];
        break; /* what it would have wanted next is no better than the cheapest place */
    }
    *cause = PLAIT_CAUSE_LACKING;
    return best_elsewhere(s, row, device);
}

/* Nodes in program order, as one queue of the device would take them: fetching what is not there, a launch wherever
 * the device changes, and the results' way to the unit's device, where the next unit expects them. `row->device` and
 * its cause stay behind; plait_survey_decide() relies on that. */
double plait_survey_try(plait_survey *s, uint32_t unit, int device) {
    double ns = 0;
    int before = device;
    s->trial++;
    for (uint32_t k = s->first_in_unit[unit]; k < s->first_in_unit[unit + 1]; k++) {
        plait_survey_node *row = &s->nodes[s->in_unit[k]];
        const plait_weighed *w = &s->weighed[row->graph];
        plait_cause cause;
        const char *why;
        int d = choose(s, row, device, &cause, &why);
        row->device = d;
        row->cause = cause;
        row->why = why;
        ns += time_on(s, row, d) + fetch(s, row, device, d, true);
        if (d != before) ns += s->steps[row->graph] * (double)s->cost.devices[d].launch_ns;
        before = d;
        for (uint32_t v = w->first_value[row->node]; v < w->first_value[row->node + 1]; v++) {
            uint32_t value = s->first_value[row->graph] + v;
            *place_of(s, value, device) = (uint64_t)1 << d;
            if (s->escapes[value]) ns += move_cost(s, row, (uint64_t)1 << d, device, v);
        }
    }
    return ns;
}

/* ---- deciding ---- */

/* State lives with the unit of its first writer; one that is only read with its first reader; one that nothing
 * touches, but an output shows, where it is pinned or on the first device. */
static void decide_homes(plait_survey *s) {
    for (size_t i = 0; i < s->n_items; i++) {
        plait_survey_item *item = &s->items[i];
        if (item->row->kind != PLAIT_STORAGE_STATE) continue;
        uint32_t unit = item->first_unit;
        for (uint32_t k = item->first_user; k < item->first_user + item->n_users; k++)
            if (s->users[k].writes) {
                unit = s->nodes[s->users[k].node].unit;
                break;
            }
        int device = item->n_users ? s->unit_device[unit] : item->pin >= 0 ? item->pin : 0;
        item->home = plait_survey_home(item, device);
    }
}

/* Homes first: choose() asks for them. During trials it took the unit of a state to be on the device of the trial. */
void plait_survey_decide(plait_survey *s) {
    decide_homes(s);
    for (uint32_t u = 0; u < s->n_units; u++) plait_survey_try(s, u, s->unit_device[u]);
}

void plait_survey_forget(plait_survey *s) {
    for (uint32_t u = 0; u < s->n_units; u++) s->unit_device[u] = -1;
    for (size_t i = 0; i < s->n_items; i++) s->items[i].home = -1;
}

/* A weight is on every device on which a reader runs (law: weights never move in a step). */
bool plait_survey_holds(const plait_survey *s, const plait_survey_item *item, int device) {
    if (item->row->kind == PLAIT_STORAGE_STATE) return item->home == device;
    for (uint32_t k = item->first_user; k < item->first_user + item->n_users; k++)
        if (s->nodes[s->users[k].node].device == device) return true;
    return item->n_users == 0 && device == (item->pin >= 0 ? item->pin : 0);
}

/* Readers beyond PLAIT_MAX_READERS cannot all be shown to the device: then file form, which serves everybody, as for
 * what an output gives to the host. */
plait_status plait_survey_form(const plait_survey *s, const plait_survey_item *item, int device, int unit,
                               plait_encoding_offer *out) {
    struct plait_weight_reader readers[PLAIT_MAX_READERS];
    int n = 0;
    for (uint32_t k = item->first_user; k < item->first_user + item->n_users; k++) {
        const plait_survey_user *user = &s->users[k];
        const plait_survey_node *row = &s->nodes[user->node];
        bool counts =
            unit == PLAIT_SURVEY_ALL || (unit >= 0 ? row->unit == (uint32_t)unit : row->device == device);
        if (!counts) continue;
        if (n == PLAIT_MAX_READERS)
            return plait_encode_offer(s->residence, device, item->row, &item->shape, NULL, 0, out);
        readers[n++] = (struct plait_weight_reader){graph_node(s, user->node)->op, user->input, user->whole};
    }
    bool plain = item->shown || item->row->kind == PLAIT_STORAGE_STATE;
    return plait_encode_offer(s->residence, device, item->row, &item->shape, readers, plain ? 0 : n, out);
}

/* ---- life ---- */

/* Inputs in which an op looks things up by id, told from its factors: an indexed factor in one of the input's dims.
 * No op is named. */
static plait_status find_lookups(plait_survey *s) {
    for (int id = 0; id < PLAIT_OP_COUNT; id++) {
        plait_factors f;
        PLAIT_TRY(plait_op_factors(plait_op_get((plait_op_id)id), &f));
        for (int i = 0; i < f.n_inputs; i++)
            for (int k = 0; k < f.inputs[i].rank; k++)
                for (int m = 0; m < f.inputs[i].dims[k].n; m++)
                    if (f.factors[f.inputs[i].dims[k].factors[m]].kind == PLAIT_FACTOR_INDEXED)
                        s->lookups[id] |= 1u << i;
    }
    return PLAIT_OK;
}

/* Unbound: where weights live is what this is for. A node that nobody runs is found here, before anything is decided,
 * and with every device's reason. */
static plait_status weigh_graphs(plait_survey *s, const plait_residence_options *options) {
    size_t n = (size_t)s->n_graphs;
    s->weighed = plait_arena_alloc(&s->arena, n, sizeof *s->weighed);
    s->steps = plait_arena_alloc(&s->arena, n, sizeof *s->steps);
    s->first_node = plait_arena_alloc(&s->arena, n + 1, sizeof *s->first_node);
    s->first_value = plait_arena_alloc(&s->arena, n + 1, sizeof *s->first_value);
    if (!s->weighed || !s->steps || !s->first_node || !s->first_value)
        return plait_error_memory("residence", n);
    for (int g = 0; g < s->n_graphs; g++) {
        plait_expected_steps steps =
            options && options->steps ? options->steps[g] : (plait_expected_steps){.full = 1};
        s->steps[g] = steps.single + steps.full;
        PLAIT_TRY(plait_weigh(&s->weighed[g], s->graphs[g], s->context, &s->cost, steps, NULL));
        for (uint32_t k = 0; k < s->graphs[g]->n_nodes; k++)
            if (!s->weighed[g].runs[k]) return plait_place_nobody(s->context, s->graphs[g], k, NULL);
        s->first_node[g + 1] = s->first_node[g] + (uint32_t)s->graphs[g]->n_nodes;
        s->first_value[g + 1] = s->first_value[g] + s->weighed[g].first_value[s->graphs[g]->n_nodes];
    }
    return PLAIT_OK;
}

/* Nothing is decided: device -1, no cause, no reason. */
static plait_status list_nodes(plait_survey *s) {
    uint32_t n_nodes = s->first_node[s->n_graphs], n_values = s->first_value[s->n_graphs];
    s->nodes = plait_arena_alloc(&s->arena, n_nodes, sizeof *s->nodes);
    s->places = plait_arena_alloc(&s->arena, n_values, sizeof *s->places);
    s->placed = plait_arena_alloc(&s->arena, n_values, sizeof *s->placed);
    if (!s->nodes || !s->places || !s->placed) return plait_error_memory("residence", n_nodes);
    for (int g = 0; g < s->n_graphs; g++)
        for (uint32_t n = s->first_node[g]; n < s->first_node[g + 1]; n++)
            s->nodes[n] = (plait_survey_node){
                .graph = (uint32_t)g, .node = n - s->first_node[g], .pin = -1, .device = -1, .why = ""};
    return PLAIT_OK;
}

/* Marks of the builder where there are any; else the shape of the graph says where it can be cut. */
static plait_status make_units(plait_survey *s) {
    int32_t *blocks;
    size_t n_blocks;
    PLAIT_TRY(list_blocks(s, &blocks, &n_blocks));
    PLAIT_TRY(n_blocks ? unite_blocks(s, blocks, n_blocks) : unite_points(s));
    PLAIT_TRY(list_units(s));
    span_items(s);
    s->unit_device = plait_arena_alloc(&s->arena, s->n_units, sizeof *s->unit_device);
    if (!s->unit_device) return plait_error_memory("residence", s->n_units);
    for (uint32_t u = 0; u < s->n_units; u++) s->unit_device[u] = -1;
    return list_crossings(s);
}

/* Items before pins, since a pinned writer pins its state; users before refuges, which are judged by them; all before
 * units, whose crossings need the weighed values. What failed half way is freed by deinit. */
plait_status plait_survey_init(plait_survey *s, plait_residence *residence, const plait_graph *const *graphs,
                               int n_graphs, const plait_residence_options *options) {
    *s = (plait_survey){.context = residence->context,
                        .graphs = graphs,
                        .n_graphs = n_graphs,
                        .n_devices = residence->context->n_devices,
                        .residence = residence,
                        .idle = residence->idle};
    plait_arena_init(&s->arena, 0);
    plait_map_init(&s->names);
    PLAIT_TRY(plait_cost_init(&s->cost, s->context));
    PLAIT_TRY(find_lookups(s));
    PLAIT_TRY(weigh_graphs(s, options));
    PLAIT_TRY(list_nodes(s));
    PLAIT_TRY(list_items(s));
    PLAIT_TRY(list_users(s));
    pin_nodes(s);
    find_refuges(s);
    return make_units(s);
}

void plait_survey_deinit(plait_survey *s) {
    for (int g = 0; s->weighed && g < s->n_graphs; g++) plait_weighed_deinit(&s->weighed[g]);
    plait_cost_deinit(&s->cost);
    plait_map_deinit(&s->names);
    free(s->items);
    plait_arena_deinit(&s->arena);
}
