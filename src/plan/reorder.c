/* The order of groups inside a segment, for a lower peak of memory. After `prepare`, so that fusion is not disturbed:
 * groups stay what they are, only their turns change, and never against a dependency. The least peak is NP-hard to find
 * (it is the question of register sufficiency: Sethi, Complete register allocation problems, SIAM Journal on Computing
 * 4(3), 1975), so this is a heuristic that is compared with what there was.
 *
 * Only where it can win: the heaviest position of each device is looked at. What must be alive there in any order (what
 * the group itself touches; what is made before it and read behind it by way of it) is a bound; where that is nearly
 * all that is alive, as in the layers of a model, nothing is tried. Else the segment's groups are listed again, each
 * time taking of those that are ready the one that leaves least alive, and the list is kept if its peak is clearly
 * lower.
 *
 * Invariant: every order that is kept has each dependency of the segment, through shared bytes too: reads stay between
 * the writes that they stood between. The proof (verify.c) does not rely on it. */
#include "plan/plan.h"

#include "base/status.h"

#include <string.h>

enum { WORTH = 10 };   /* thousandths of the peak that an order must win */
enum { CHOICES = 24 }; /* groups that are ready and looked at, in their old order */
enum { ATTEMPTS = 4 }; /* segments of a device */

/* ---- the heaviest position ---- */

typedef struct peak {
    uint64_t bytes;
    int32_t position;
} peak;

/* What takes bytes of the arena at some position; elided values and what nothing touches do not. */
static bool in_arena(const plait_plan_value *value) {
    return value->slot == PLAIT_SLOT_ARENA && !value->elided && value->first >= 0;
}

/* True when `out` may lie where `in` lies and that dies just there; as memory.c takes them up, but for chains. */
static bool shares(const plait_plan *plan, const struct plait_shared_pair *pair) {
    if (pair->output >= plan->n_values || pair->input >= plan->n_values) return false;
    const plait_plan_value *out = &plan->values[pair->output], *in = &plan->values[pair->input];
    return in_arena(out) && in_arena(in) && out->size_bytes == in->size_bytes && !in->is_output &&
           in->last == out->first && in->first < out->first;
}

/* Loads of a device by position, from lives as they are. Scratch lives for its group's position. A pair that shares
 * bytes counts once at the position where one takes over; an input is taken over by one output only. Chunks and
 * alignment are left out. */
static plait_status find_peak(const plait_plan *plan, int device, plait_arena *arena, peak *out) {
    int32_t n = plan->devices[device].n_positions;
    uint64_t *change = plait_arena_alloc(arena, (size_t)n + 2, sizeof *change), load = 0;
    bool *taken = plait_arena_alloc(arena, plan->n_values, sizeof *taken);
    if (!change || !taken) return plait_error_memory("order of groups", ((uint64_t)n + 2) * sizeof *change);
    for (size_t v = 0; v < plan->n_values; v++) {
        const plait_plan_value *value = &plan->values[v];
        if (value->device != device || !in_arena(value)) continue;
        change[value->first] += value->size_bytes;
        change[value->last + 1] -= value->size_bytes;
    }
    for (size_t s = 0; s < plan->n_steps; s++) {
        const plait_plan_step *step = &plan->steps[s];
        if (step->kind != PLAIT_STEP_LAUNCH || step->device != device) continue;
        const plait_prepared *p = &plan->segments[step->item].prepared;
        for (int g = 0; g < p->n_groups; g++) {
            change[step->position + g] += p->groups[g].scratch_bytes;
            change[step->position + g + 1] -= p->groups[g].scratch_bytes;
        }
        /* At the position where an output takes over its input's bytes both are alive, but they are the same bytes. */
        for (int k = 0; k < p->n_shared; k++) {
            if (!shares(plan, &p->shared[k]) || taken[p->shared[k].input]) continue;
            const plait_plan_value *in = &plan->values[p->shared[k].input];
            taken[p->shared[k].input] = true;
            change[in->last] -= in->size_bytes;
            change[in->last + 1] += in->size_bytes;
        }
    }
    for (int32_t at = 0; at < n; at++) {
        load += change[at];
        if (load > out->bytes) *out = (peak){load, at};
    }
    return PLAIT_OK;
}

/* The launch that has a position of a device; NULL for none. */
static const plait_plan_step *launch_at(const plait_plan *plan, int device, int32_t position) {
    for (size_t s = 0; s < plan->n_steps; s++) {
        const plait_plan_step *step = &plan->steps[s];
        if (step->kind == PLAIT_STEP_LAUNCH && step->device == device && step->position <= position &&
            position < step->position + plan->segments[step->item].prepared.n_groups)
            return step;
    }
    return NULL;
}

/* ---- what must be alive there ---- */

/* Marks the makers, nodes from `lowest` on, of all that a node depends on. */
typedef struct search {
    const plait_graph *graph;
    uint32_t *stack, *seen; /* [node] stamps */
    uint32_t stamp, lowest;
    size_t n;
} search;

/* By the graph's own edges, not by values: an in-place write makes a new tensor, whose maker is the writer. */
static void push_makers(search *s, uint32_t node) {
    const plait_graph_node *row = &s->graph->nodes[node];
    for (int i = 0; i < row->n_inputs; i++) {
        uint32_t maker = row->inputs[i] ? s->graph->tensors[row->inputs[i]].node : PLAIT_NO_NODE;
        if (maker == PLAIT_NO_NODE || maker < s->lowest || s->seen[maker] == s->stamp) continue;
        s->seen[maker] = s->stamp;
        s->stack[s->n++] = maker;
    }
}

/* True when the group of nodes `from` depends on one of the nodes `to`, directly or not. `lowest` bounds the search:
 * makers have smaller numbers than those who read them, so below the lowest of `to` nothing can lead there. */
static bool depends(search *s, const plait_plan_segment *segment, const plait_group *from,
                    const plait_group *to) {
    const int *order = segment->prepared.order;
    s->stamp++;
    s->n = 0;
    s->lowest = UINT32_MAX;
    for (int k = to->first; k < to->first + to->n; k++)
        if (segment->nodes[order[k]].node < s->lowest) s->lowest = segment->nodes[order[k]].node;
    for (int k = from->first; k < from->first + from->n; k++) push_makers(s, segment->nodes[order[k]].node);
    while (s->n) push_makers(s, s->stack[--s->n]);
    for (int k = to->first; k < to->first + to->n; k++)
        if (s->seen[segment->nodes[order[k]].node] == s->stamp) return true;
    return false;
}

/* By value, for a group as it stands in the prepared order. */
static bool touches(const plait_plan_segment *segment, const plait_group *group, uint32_t value) {
    for (int k = group->first; k < group->first + group->n; k++) {
        const plait_segment_node *node = &segment->nodes[segment->prepared.order[k]];
        for (int i = 0; i < node->n_inputs; i++)
            if ((node->present >> i & 1u) && node->inputs[i].value == value) return true;
        for (int o = 0; o < node->n_outputs; o++)
            if (node->outputs[o].value == value) return true;
    }
    return false;
}

/* True when the value is alive while the group at `position` runs, in whatever order: it comes from before the segment, or
 * what makes it comes before the group in any order; and it is needed behind the segment, or its last reader is behind the
 * group in any order. */
static bool must_live(search *s, const plait_plan_segment *segment, const plait_plan_step *step,
                      int32_t position, uint32_t v, const plait_plan_value *value) {
    const plait_group *groups = segment->prepared.groups, *here = &groups[position - step->position];
    int32_t end = step->position + segment->prepared.n_groups;
    if (touches(segment, here, v)) return true;
    /* Where a life begins or ends without a touch, something outside of the segment holds it. */
    const plait_group *first = value->first < step->position ? NULL : &groups[value->first - step->position];
    const plait_group *last = value->last >= end ? NULL : &groups[value->last - step->position];
    if (first && touches(segment, first, v) && !depends(s, segment, here, first)) return false;
    return !last || !touches(segment, last, v) || depends(s, segment, last, here);
}

/* Bytes of what is alive at the peak and need not be. Time: values alive at the peak times the segment; only where the
 * peak is. */
static plait_status find_loose(const plait_plan *plan, const plait_plan_step *step, const peak *top,
                               plait_arena *arena, uint64_t *out_bytes) {
    const plait_plan_segment *segment = &plan->segments[step->item];
    search s = {.graph = plan->graph};
    s.stack = plait_arena_alloc(arena, plan->graph->n_nodes, sizeof *s.stack);
    s.seen = plait_arena_alloc(arena, plan->graph->n_nodes, sizeof *s.seen);
    if (!s.stack || !s.seen) return plait_error_memory("order of groups", plan->graph->n_nodes * 8);
    *out_bytes = 0;
    for (uint32_t v = 0; v < plan->n_values; v++) {
        const plait_plan_value *value = &plan->values[v];
        bool alive = value->device == step->device && in_arena(value) && value->first <= top->position &&
                     top->position <= value->last;
        if (alive && !must_live(&s, segment, step, top->position, v, value)) *out_bytes += value->size_bytes;
    }
    return PLAIT_OK;
}

/* ---- a segment as a list to be ordered ---- */

typedef struct lister {
    const plait_plan *plan;
    const plait_plan_segment *segment;
    int32_t first, end;    /* positions */
    int n;                 /* groups */
    uint32_t *touch_begin; /* [group + 1] in `touch_values` */
    uint32_t *touch_values;
    uint32_t *next_begin; /* [group + 1] in `next`: groups that must come later */
    uint32_t *next;
    uint32_t *before;    /* [group] how many must come earlier and have not */
    uint32_t *users;     /* [value] groups of the segment that touch it and have not run */
    bool *alive;         /* [value] */
    bool *comes, *stays; /* [value] it is alive before its first group of the segment, behind its last one */
    int *ready, n_ready;
    int *turns; /* the new order */
} lister;

/* Only values of the arena weigh in the comparison of orders. */
static bool counts(const lister *l, uint32_t v) {
    return in_arena(&l->plan->values[v]);
}

/* Pairs (earlier, later) of groups, by the accesses of the nodes in the order of the program. */
typedef struct edges {
    uint32_t *from, *to;
    size_t n;
    uint32_t *writer;  /* [value] group that wrote it last + 1 */
    uint32_t *readers; /* [value] the last of those that read it since, in `links` + 1 */
    struct link {
        uint32_t group, next;
    } * links;
    uint32_t n_links;
} edges;

/* Inside a group order is the device's business. */
static void add_edge(edges *e, uint32_t from, uint32_t to) {
    if (from == to) return;
    e->from[e->n] = from;
    e->to[e->n++] = to;
}

/* A read comes after the last write. */
static void read_value(edges *e, uint32_t v, uint32_t group) {
    if (e->writer[v]) add_edge(e, e->writer[v] - 1, group);
    e->links[e->n_links] = (struct link){group, e->readers[v]};
    e->readers[v] = ++e->n_links;
}

/* A write comes after the last write and all reads since; those reads are then bounded from both sides, so they are
 * forgotten. */
static void write_value(edges *e, uint32_t v, uint32_t group) {
    if (e->writer[v]) add_edge(e, e->writer[v] - 1, group);
    for (uint32_t k = e->readers[v]; k; k = e->links[k - 1].next) add_edge(e, e->links[k - 1].group, group);
    e->readers[v] = 0;
    e->writer[v] = group + 1;
}

/* Values rather than bytes: two values share no bytes yet, and views of one storage are one value. Weights are never
 * written. At most two edges an operand: a read is counted when it happens, and once more by the write that ends it. */
static plait_status find_edges(const lister *l, const uint32_t *group_of, plait_arena *arena, edges *e) {
    const plait_plan_segment *segment = l->segment;
    size_t n = segment->n_operands;
    e->from = plait_arena_alloc(arena, 2 * n, sizeof *e->from);
    e->to = plait_arena_alloc(arena, 2 * n, sizeof *e->to);
    e->links = plait_arena_alloc(arena, n, sizeof *e->links);
    e->writer = plait_arena_alloc(arena, l->plan->n_values, sizeof *e->writer);
    e->readers = plait_arena_alloc(arena, l->plan->n_values, sizeof *e->readers);
    if (!e->from || !e->to || !e->links || !e->writer || !e->readers)
        return plait_error_memory("order of groups", 4 * n * sizeof *e->from);
    for (uint32_t k = 0; k < segment->n_nodes; k++) {
        const plait_segment_node *node = &segment->nodes[k];
        for (int i = 0; i < node->n_inputs; i++)
            if ((node->present >> i & 1u) && !node->inputs[i].is_weight)
                read_value(e, node->inputs[i].value, group_of[k]);
        for (int o = 0; o < node->n_outputs; o++) write_value(e, node->outputs[o].value, group_of[k]);
    }
    return PLAIT_OK;
}

/* Lists of later groups, and counts of earlier ones. Equal pairs count as often as they are there, on both sides. */
static plait_status fill_next(lister *l, const edges *e, plait_arena *arena) {
    l->next_begin = plait_arena_alloc(arena, (size_t)l->n + 2, sizeof *l->next_begin);
    l->next = plait_arena_alloc(arena, e->n, sizeof *l->next);
    l->before = plait_arena_alloc(arena, (size_t)l->n, sizeof *l->before);
    if (!l->next_begin || !l->next || !l->before)
        return plait_error_memory("order of groups", e->n * sizeof *l->next);
    for (size_t k = 0; k < e->n; k++) l->next_begin[e->from[k] + 2]++, l->before[e->to[k]]++;
    for (int g = 0; g <= l->n; g++) l->next_begin[g + 1] += l->next_begin[g];
    for (size_t k = 0; k < e->n; k++) l->next[l->next_begin[e->from[k] + 1]++] = e->to[k];
    return PLAIT_OK;
}

/* Each group's values of the arena, each once. `comes` and `stays` are told from lives as they are now: a value that
 * lives before its first group here, or behind its last, is held by something outside of the segment, in any order. */
static plait_status fill_touches(lister *l, plait_arena *arena) {
    const plait_prepared *p = &l->segment->prepared;
    uint32_t *stamp = plait_arena_alloc(arena, l->plan->n_values, sizeof *stamp), n = 0;
    l->touch_begin = plait_arena_alloc(arena, (size_t)l->n + 1, sizeof *l->touch_begin);
    l->touch_values = plait_arena_alloc(arena, l->segment->n_operands, sizeof *l->touch_values);
    l->users = plait_arena_alloc(arena, l->plan->n_values, sizeof *l->users);
    l->alive = plait_arena_alloc(arena, l->plan->n_values, sizeof *l->alive);
    l->comes = plait_arena_alloc(arena, l->plan->n_values, sizeof *l->comes);
    l->stays = plait_arena_alloc(arena, l->plan->n_values, sizeof *l->stays);
    if (!stamp || !l->touch_begin || !l->touch_values || !l->users || !l->alive || !l->comes || !l->stays)
        return plait_error_memory("order of groups", l->segment->n_operands * sizeof *l->touch_values);
    for (int g = 0; g < l->n; g++) {
        for (int k = p->groups[g].first; k < p->groups[g].first + p->groups[g].n; k++) {
            const plait_segment_node *node = &l->segment->nodes[p->order[k]];
            for (int i = 0; i < node->n_inputs + node->n_outputs; i++) {
                bool input = i < node->n_inputs;
                if (input && !(node->present >> i & 1u)) continue;
                uint32_t v = input ? node->inputs[i].value : node->outputs[i - node->n_inputs].value;
                if (!counts(l, v) || stamp[v] == (uint32_t)g + 1) continue;
                if (!stamp[v]) l->comes[v] = l->plan->values[v].first < l->first + g;
                l->stays[v] = l->plan->values[v].last > l->first + g;
                stamp[v] = (uint32_t)g + 1;
                l->touch_values[n++] = v;
            }
        }
        l->touch_begin[g + 1] = n;
    }
    return PLAIT_OK;
}

/* Everything about the segment that does not depend on the order of its groups. */
static plait_status list_segment(lister *l, const plait_plan *plan, const plait_plan_step *step,
                                 plait_arena *arena) {
    edges e = {0};
    l->plan = plan;
    l->segment = &plan->segments[step->item];
    const plait_prepared *p = &l->segment->prepared;
    l->n = p->n_groups;
    l->first = step->position;
    uint32_t *group_of = plait_arena_alloc(arena, l->segment->n_nodes, sizeof *group_of);
    l->ready = plait_arena_alloc(arena, (size_t)l->n, sizeof *l->ready);
    l->turns = plait_arena_alloc(arena, (size_t)l->n, sizeof *l->turns);
    if (!group_of || !l->ready || !l->turns)
        return plait_error_memory("order of groups", l->segment->n_nodes * sizeof *group_of);
    for (int g = 0; g < l->n; g++)
        for (int k = p->groups[g].first; k < p->groups[g].first + p->groups[g].n; k++)
            group_of[p->order[k]] = (uint32_t)g;
    PLAIT_TRY(find_edges(l, group_of, arena, &e));
    PLAIT_TRY(fill_next(l, &e, arena));
    return fill_touches(l, arena);
}

/* ---- running it in thought ---- */

/* As before the first group: what comes from before is alive. */
static void rewind_values(lister *l) {
    for (uint32_t k = 0; k < l->touch_begin[l->n]; k++) l->users[l->touch_values[k]] = 0;
    for (uint32_t k = 0; k < l->touch_begin[l->n]; k++) {
        uint32_t v = l->touch_values[k];
        l->users[v]++;
        l->alive[v] = l->comes[v];
    }
}

/* Bytes that a group adds while it runs, and that are left when it has run (less than nothing where it frees more). */
typedef struct effect {
    int64_t during, after;
} effect;

/* A value that is not alive yet begins with this group; one whose last user this group is ends with it, unless
 * something behind the segment needs it. */
static effect effect_of(const lister *l, int g) {
    effect e = {(int64_t)l->segment->prepared.groups[g].scratch_bytes, 0};
    for (uint32_t k = l->touch_begin[g]; k < l->touch_begin[g + 1]; k++) {
        uint32_t v = l->touch_values[k];
        int64_t size = (int64_t)l->plan->values[v].size_bytes;
        if (!l->alive[v]) e.during += size, e.after += size;
        if (l->users[v] == 1 && !l->stays[v]) e.after -= size;
    }
    return e;
}

/* Of the pairs of the segment those whose output this group begins and whose input it ends: those bytes count once. */
static int64_t shared_by(const lister *l, int g, const uint32_t *pair_of) {
    int64_t bytes = 0;
    for (uint32_t k = l->touch_begin[g]; k < l->touch_begin[g + 1]; k++) {
        uint32_t v = l->touch_values[k];
        if (l->alive[v] || !pair_of[v]) continue;
        const struct plait_shared_pair *pair = &l->segment->prepared.shared[pair_of[v] - 1];
        const plait_plan_value *in = &l->plan->values[pair->input];
        bool ends = pair->input < l->plan->n_values && in_arena(in) && l->alive[pair->input] &&
                    l->users[pair->input] == 1 && !l->stays[pair->input] && !in->is_output &&
                    in->size_bytes == l->plan->values[v].size_bytes;
        if (ends) bytes += (int64_t)in->size_bytes;
    }
    return bytes;
}

/* After its last user a value dies, if nobody outside needs it. */
static void run_group(lister *l, int g) {
    for (uint32_t k = l->touch_begin[g]; k < l->touch_begin[g + 1]; k++) {
        uint32_t v = l->touch_values[k];
        l->alive[v] = true;
        if (--l->users[v] == 0 && !l->stays[v]) l->alive[v] = false;
    }
}

/* The peak of an order, above what is alive all the time; turns NULL: as it is. What is alive all the time without
 * being touched here adds the same to both orders and is left out. */
static int64_t peak_of(lister *l, const int *turns, const uint32_t *pair_of) {
    int64_t load = 0, top = 0;
    rewind_values(l);
    for (int t = 0; t < l->n; t++) {
        int g = turns ? turns[t] : t;
        effect e = effect_of(l, g);
        int64_t during = load + e.during - shared_by(l, g, pair_of);
        if (during > top) top = during;
        load += e.after;
        run_group(l, g);
    }
    return top;
}

/* ---- a new order ---- */

/* Of the first ready ones that which leaves least alive; then that which needs least while it runs; then the oldest. */
static int choose(const lister *l) {
    effect best = {0};
    int at = -1;
    for (int k = 0; k < l->n_ready && k < CHOICES; k++) {
        effect e = effect_of(l, l->ready[k]);
        if (at < 0 || e.after < best.after || (e.after == best.after && e.during < best.during))
            at = k, best = e;
    }
    return at;
}

/* Ready groups are kept in their old order. */
static void make_ready(lister *l, int g) {
    int k = l->n_ready++;
    for (; k > 0 && l->ready[k - 1] > g; k--) l->ready[k] = l->ready[k - 1];
    l->ready[k] = g;
}

/* List scheduling: of what is ready, the best by choose(), with no look ahead. Consumes `before`, so once for each
 * listing. */
static void find_turns(lister *l) {
    rewind_values(l);
    l->n_ready = 0;
    for (int g = 0; g < l->n; g++)
        if (l->before[g] == 0) make_ready(l, g);
    for (int t = 0; t < l->n; t++) {
        int at = choose(l), g = l->ready[at];
        memmove(l->ready + at, l->ready + at + 1, (size_t)(--l->n_ready - at) * sizeof *l->ready);
        l->turns[t] = g;
        run_group(l, g);
        for (uint32_t k = l->next_begin[g]; k < l->next_begin[g + 1]; k++)
            if (--l->before[l->next[k]] == 0) make_ready(l, (int)l->next[k]);
    }
}

/* Groups, and the nodes of each, in their new turns. Scratch goes along with its group; its place is not known yet. */
static plait_status apply(lister *l, plait_prepared *p, plait_arena *arena) {
    plait_group *groups = plait_arena_alloc(arena, (size_t)l->n, sizeof *groups);
    int *order = plait_arena_alloc(arena, l->segment->n_nodes, sizeof *order), at = 0;
    if (!groups || !order) return plait_error_memory("order of groups", (uint64_t)l->n * sizeof *groups);
    for (int t = 0; t < l->n; t++) {
        groups[t] = p->groups[l->turns[t]];
        memcpy(order + at, p->order + groups[t].first, (size_t)groups[t].n * sizeof *order);
        groups[t].first = at;
        at += groups[t].n;
    }
    memcpy(p->groups, groups, (size_t)l->n * sizeof *groups);
    memcpy(p->order, order, (size_t)at * sizeof *order);
    return PLAIT_OK;
}

/* `pair_of`: of several pairs of an output the first that the device named. The list is kept only if it wins WORTH
 * thousandths of the device's peak: a little less memory is not worth a plan that is harder to follow. Then the
 * device's peak may lie elsewhere, and the caller looks again. */
static plait_status try_segment(plait_plan *plan, const plait_plan_step *step, const peak *top,
                                plait_arena *arena, bool *out_won) {
    lister l = {0};
    plait_prepared *p = &plan->segments[step->item].prepared;
    uint32_t *pair_of = plait_arena_alloc(arena, plan->n_values, sizeof *pair_of);
    if (!pair_of) return plait_error_memory("order of groups", plan->n_values * sizeof *pair_of);
    PLAIT_TRY(list_segment(&l, plan, step, arena));
    for (int k = p->n_shared; k-- > 0;)
        if (p->shared[k].output < plan->n_values) pair_of[p->shared[k].output] = (uint32_t)k + 1;
    int64_t old = peak_of(&l, NULL, pair_of);
    find_turns(&l);
    int64_t new = peak_of(&l, l.turns, pair_of);
    *out_won = old > new && (uint64_t)(old - new) > top->bytes / 1000 * WORTH;
    return *out_won ? apply(&l, p, arena) : PLAIT_OK;
}

/* Peak by peak: an order that won moves the peak, possibly to another segment. Fewer than three groups have no other
 * order that could help. Ends at the first peak that cannot be lowered, for the arena is as large as that. */
static plait_status reorder_device(plait_plan *plan, int device, plait_arena *arena) {
    bool won = true;
    for (int attempt = 0; won && attempt < ATTEMPTS; attempt++) {
        peak top = {0};
        uint64_t loose = 0;
        won = false;
        PLAIT_TRY(find_peak(plan, device, arena, &top));
        const plait_plan_step *step = top.bytes ? launch_at(plan, device, top.position) : NULL;
        if (!step || plan->segments[step->item].prepared.n_groups < 3) return PLAIT_OK;
        PLAIT_TRY(find_loose(plan, step, &top, arena, &loose));
        if (loose <= top.bytes / 1000 * WORTH) return PLAIT_OK;
        PLAIT_TRY(try_segment(plan, step, &top, arena, &won));
        if (won) plait_plan_lives_of_launch(plan, step);
    }
    return PLAIT_OK;
}

/* Tables of one device are gone before the next begins; the orders are in the devices' answers. */
plait_status plait_plan_reorder(plait_plan *plan) {
    plait_arena arena;
    plait_status status = PLAIT_OK;
    for (int d = 0; status == PLAIT_OK && d < plan->context->n_devices; d++) {
        plait_arena_init_pooled(&arena, &plan->context->pool);
        status = reorder_device(plan, d, &arena);
        plait_arena_deinit(&arena);
    }
    return status;
}
