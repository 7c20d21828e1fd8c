/* Spreading a model over several devices: a survey of its graphs becomes a problem of numbers (split.h), whose solution
 * decides every node and with them every weight and state. What the numbers could not know (what a unit puts on other
 * devices because its own lacks something) is checked afterwards, and the room is made smaller where it did not fit.
 *
 * Invariant: a residence that was decided holds no more on a device than its budget. */
#include "plan/survey.h"

#include "base/alloc.h"
#include "base/size.h"
#include "base/status.h"
#include "base/strbuf.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct spread {
    plait_survey survey;
    plait_residence *residence;
    const plait_residence_options *options; /* never NULL */
    int n_devices;
    const uint64_t *budget;            /* [device] of the residence */
    uint64_t *room, *no_limit, *fixed; /* [device] */
    uint64_t *bytes, *need;            /* [unit * n_devices + device] */
    uint64_t *elsewhere;               /* [(unit * n_devices + device) * n_devices + other] */
    bool spills;                       /* something is in `elsewhere` */
    double *ns;                        /* the same */
    uint32_t *first_shared;
    plait_split_shared *shared;
    uint64_t *held; /* [device] need of the decided whole */
    plait_arena arena;
} spread;

/* What another way must cost of the best, at most, to be taken instead. */
static const double LEAST_GAIN = 0.97;

/* ---- budgets ---- */

/* Temporaries of the plans to come, as far as the caller knows them by now. */
static uint64_t reserve_of(const spread *p, int d) {
    return p->options->reserve_bytes ? p->options->reserve_bytes[d] : 0;
}

/* Rooms are never negative: what is missing shows in the solution, not in the subtraction. */
static uint64_t minus(uint64_t a, uint64_t b) {
    return a > b ? a - b : 0;
}

/* File form lies in the mapped file where the device's memory is the host's; everything else takes memory. */
static bool takes_memory(const spread *p, int d, const plait_survey_item *item, plait_encoding encoding) {
    return item->row->kind == PLAIT_STORAGE_STATE || encoding != PLAIT_ENCODING_FILE ||
           !p->residence->context->devices[d].info.unified_memory;
}

/* ---- the problem ---- */

static bool is_state(const plait_survey_item *item) {
    return item->row->kind == PLAIT_STORAGE_STATE;
}

/* Whether the user says where the item is for this use: the split has no say then. */
static bool fixed_use(const plait_survey *s, const plait_survey_item *item, const plait_survey_user *user) {
    return is_state(item) ? item->pin >= 0 : s->nodes[user->node].pin >= 0;
}

/* Whether a trial of the unit on a device has put the item on another (or the same), of its own will. What the user
 * pinned is counted once, apart (count_pinned), not with every unit that reads it. */
static bool put_there(const plait_survey *s, const plait_survey_item *item, uint32_t unit, int tried,
                      int device) {
    for (uint32_t k = item->first_user; k < item->first_user + item->n_users; k++) {
        const plait_survey_node *row = &s->nodes[s->users[k].node];
        if (row->unit != unit || fixed_use(s, item, &s->users[k])) continue;
        if (is_state(item) ? plait_survey_home(item, tried) == device : row->device == device) return true;
    }
    return false;
}

/* Adds an item of a unit, tried on a device, to what the unit takes there (or to what it shares with other units).
 * `need` is what takes memory, with the padding that aligning it may cost; 0 for what is used in the mapped file.
 * `bytes` is for the shares, where a mapped weight weighs as much as any other. */
static plait_status count_item(spread *p, uint32_t unit, int d, uint32_t index, uint64_t *bytes,
                               uint64_t *need) {
    const plait_survey_item *item = &p->survey.items[index];
    plait_encoding_offer form;
    *bytes = *need = 0;
    if (!put_there(&p->survey, item, unit, d, d) || !plait_survey_copies(&p->survey, item, unit))
        return PLAIT_OK;
    PLAIT_TRY(plait_survey_form(&p->survey, item, d, (int)unit, &form));
    *bytes = form.size_bytes;
    *need = takes_memory(p, d, item, form.encoding) ? form.size_bytes + form.alignment - 1 : 0;
    return PLAIT_OK;
}

/* What a trial of the unit on a device has put on others: items of this unit alone whose users run there. For the
 * shares only; whether there is room for it shows when the whole is counted (count_held). */
static plait_status count_elsewhere(spread *p, uint32_t unit, int tried) {
    const plait_survey *s = &p->survey;
    uint64_t *row =
        &p->elsewhere[((size_t)unit * (size_t)p->n_devices + (size_t)tried) * (size_t)p->n_devices];
    uint64_t others = 0;
    for (uint32_t k = s->first_in_unit[unit]; k < s->first_in_unit[unit + 1]; k++)
        others |= (uint64_t)1 << s->nodes[s->in_unit[k]].device;
    others &= ~((uint64_t)1 << tried);
    for (uint32_t k = s->first_item[unit]; others && k < s->first_item[unit + 1]; k++) {
        const plait_survey_item *item = &s->items[s->unit_items[k]];
        for (int d = 0; d < p->n_devices; d++) {
            plait_encoding_offer form;
            if (!(others >> d & 1u) || item->first_unit != item->last_unit ||
                !put_there(s, item, unit, tried, d))
                continue;
            PLAIT_TRY(plait_survey_form(s, item, d, (int)unit, &form));
            if (!plait_add_u64(row[d], form.size_bytes, &row[d]))
                return plait_error(PLAIT_OUT_OF_RANGE, "residence: sizes overflow");
            p->spills = true;
        }
    }
    return PLAIT_OK;
}

/* Everything about one unit: a trial on each device. Items that only this unit has are added up; those that other
 * units have too go to `shared`, with their figures for each device, since how often they count depends on the
 * solution. */
static plait_status weigh_unit(spread *p, uint32_t unit, uint32_t *n_shared) {
    const plait_survey *s = &p->survey;
    size_t n = (size_t)p->n_devices, n_items = s->first_item[unit + 1] - s->first_item[unit];
    uint64_t *shares = plait_arena_alloc(&p->arena, 2 * n * n_items, sizeof *shares);
    if (!shares) return plait_error_memory("residence", n * n_items);
    for (int d = 0; d < p->n_devices; d++) {
        size_t at = (size_t)unit * n + (size_t)d;
        p->ns[at] = plait_survey_try(&p->survey, unit, d);
        PLAIT_TRY(count_elsewhere(p, unit, d));
        for (size_t k = 0; k < n_items; k++) {
            uint32_t index = s->unit_items[s->first_item[unit] + k];
            uint64_t *bytes = &shares[2 * n * k + (size_t)d], *need = bytes + n;
            PLAIT_TRY(count_item(p, unit, d, index, bytes, need));
            if (s->items[index].first_unit != s->items[index].last_unit) continue;
            if (!plait_add_u64(p->bytes[at], *bytes, &p->bytes[at]) ||
                !plait_add_u64(p->need[at], *need, &p->need[at]))
                return plait_error(PLAIT_OUT_OF_RANGE, "residence: sizes overflow");
        }
    }
    for (size_t k = 0; k < n_items; k++) {
        uint32_t index = s->unit_items[s->first_item[unit] + k];
        if (s->items[index].first_unit == s->items[index].last_unit) continue;
        p->shared[(*n_shared)++] =
            (plait_split_shared){.item = index, .bytes = &shares[2 * n * k], .need = &shares[2 * n * k + n]};
    }
    return PLAIT_OK;
}

/* What pins put on devices, whatever the split says. */
static plait_status count_pinned(spread *p) {
    const plait_survey *s = &p->survey;
    for (int d = 0; d < p->n_devices; d++) p->fixed[d] = 0;
    for (size_t i = 0; s->residence->n_pins && i < s->n_items; i++) {
        const plait_survey_item *item = &s->items[i];
        uint64_t seen = 0;
        for (uint32_t k = item->first_user; k < item->first_user + item->n_users; k++) {
            int pin = is_state(item) ? item->pin : s->nodes[s->users[k].node].pin;
            plait_encoding_offer form;
            if (pin < 0 || seen >> pin & 1u) continue;
            seen |= (uint64_t)1 << pin;
            PLAIT_TRY(plait_survey_form(s, item, pin, PLAIT_SURVEY_HERE, &form));
            if (takes_memory(p, pin, item, form.encoding) &&
                !plait_add_u64(p->fixed[pin], form.size_bytes + form.alignment - 1, &p->fixed[pin]))
                return plait_error(PLAIT_OUT_OF_RANGE, "residence: sizes overflow");
        }
    }
    return PLAIT_OK;
}

/* Nothing is decided while units are weighed: homes of states are those of a unit on the device of the trial. Done
 * again for every way of copying (plait_copies), which changes who holds what. */
static plait_status weigh_units(spread *p) {
    const plait_survey *s = &p->survey;
    size_t n = (size_t)p->n_devices * s->n_units;
    uint32_t n_shared = 0;
    memset(p->bytes, 0, n * sizeof *p->bytes);
    memset(p->need, 0, n * sizeof *p->need);
    memset(p->elsewhere, 0, n * (size_t)p->n_devices * sizeof *p->elsewhere);
    p->spills = false;
    plait_survey_forget(&p->survey);
    for (uint32_t u = 0; u < s->n_units; u++) {
        p->first_shared[u] = n_shared;
        PLAIT_TRY(weigh_unit(p, u, &n_shared));
    }
    p->first_shared[s->n_units] = n_shared;
    return count_pinned(p);
}

/* `shared` items are numbered as the survey's items. `elsewhere` is left out when it is all zeros: then shares are
 * solved in one round. */
static plait_status solve(spread *p, bool soft, const uint64_t *room, double *out_cost, bool *out_found) {
    const plait_survey *s = &p->survey;
    plait_split_problem problem = {.n_units = s->n_units,
                                   .n_shared = (uint32_t)s->n_items,
                                   .n_devices = p->n_devices,
                                   .bytes = p->bytes,
                                   .need = p->need,
                                   .ns = p->ns,
                                   .first_shared = p->first_shared,
                                   .shared = p->shared,
                                   .elsewhere = p->spills ? p->elsewhere : NULL,
                                   .room = room,
                                   .cross_n = s->cross_n,
                                   .cross_bytes = s->cross_bytes,
                                   .cost = &s->cost,
                                   .shares = p->residence->asked,
                                   .first = p->options->split == PLAIT_SPLIT_NONE,
                                   .soft = soft};
    return plait_split_solve(&problem, p->survey.unit_device, out_cost, out_found);
}

/* ---- checking the whole ---- */

/* What the decided whole takes on each device, in the two kinds of buffer that it will lie in. By the device's own
 * rounding, as if all weights lay in one buffer and all state in another. */
static plait_status count_held(spread *p) {
    const plait_survey *s = &p->survey;
    for (int d = 0; d < p->n_devices; d++) {
        plait_device *device = s->context->devices[d].device;
        uint64_t sums[2] = {0}, bytes[2] = {0};
        for (size_t i = 0; i < s->n_items; i++) {
            plait_encoding_offer form;
            if (!plait_survey_holds(s, &s->items[i], d)) continue;
            PLAIT_TRY(plait_survey_form(s, &s->items[i], d, PLAIT_SURVEY_HERE, &form));
            uint64_t *sum = &sums[is_state(&s->items[i])];
            if (takes_memory(p, d, &s->items[i], form.encoding) &&
                !plait_add_u64(*sum, form.size_bytes + form.alignment - 1, sum))
                return plait_error(PLAIT_OUT_OF_RANGE, "residence: sizes overflow");
        }
        for (int k = 0; k < 2; k++)
            if (sums[k])
                PLAIT_TRY(device->vtable->allocation_bytes(
                    device, sums[k], k ? PLAIT_BUFFER_STATE : PLAIT_BUFFER_WEIGHTS, &bytes[k]));
        if (!plait_add_u64(bytes[0], bytes[1], &p->held[d]))
            return plait_error(PLAIT_OUT_OF_RANGE, "residence: sizes overflow");
    }
    return PLAIT_OK;
}

/* The bytes that are too many on a device; devices whose memory is the host's share one budget, unless the caller
 * gave each its own. Takes them from the room of the device that could give them; false when all fits.
 *
 * One device a call: what comes off it may go to another, so each answer is solved and counted again. The room that
 * is left of the largest is what it held, less what is too much: shrinking its old room alone might change nothing,
 * if that was larger than what it held. */
static bool shrink_room(spread *p) {
    uint64_t shared = 0, shared_budget = 0, most = 0;
    int largest = -1;
    for (int d = 0; d < p->n_devices; d++) {
        /* A device that holds nothing runs nothing, as far as residence can tell. */
        uint64_t need = p->held[d] ? p->held[d] + reserve_of(p, d) : 0;
        if (need > p->budget[d]) {
            p->room[d] = minus(p->room[d], need - p->budget[d]);
            return true;
        }
        if (!p->residence->context->devices[d].info.unified_memory || p->options->budget_bytes) continue;
        shared += need;
        if (p->budget[d] > shared_budget) shared_budget = p->budget[d];
        if (need > most) most = need, largest = d;
    }
    if (shared <= shared_budget || largest < 0) return false;
    uint64_t spare = minus(p->held[largest], shared - shared_budget);
    p->room[largest] = minus(spare < p->room[largest] ? spare : p->room[largest], p->fixed[largest]);
    return true;
}

/* What everything would take on one device. */
static plait_status count_all(const spread *p, int d, uint64_t *out) {
    const plait_survey *s = &p->survey;
    *out = 0;
    for (size_t i = 0; i < s->n_items; i++) {
        plait_encoding_offer form;
        PLAIT_TRY(plait_survey_form(s, &s->items[i], d, PLAIT_SURVEY_ALL, &form));
        if (takes_memory(p, d, &s->items[i], form.encoding)) *out += form.size_bytes;
    }
    return PLAIT_OK;
}

/* The numbers are those of each device alone, since with what is missing no split can be shown. *out_full stays false
 * when the message could not be made: then it was the host's memory that ran out. */
static plait_status nothing_fits(const spread *p) {
    plait_strbuf text;
    plait_strbuf_init(&text, 0);
    for (int d = 0; d < p->n_devices; d++) {
        uint64_t need;
        plait_status status = count_all(p, d, &need);
        if (status != PLAIT_OK) {
            plait_strbuf_deinit(&text);
            return status;
        }
        plait_strbuf_printf(&text, "%s%s: all of it would take ", d ? "; " : "",
                            p->residence->context->devices[d].device->name);
        plait_strbuf_bytes(&text, need);
        plait_strbuf_append(&text, ", there are ");
        plait_residence_say_budget(p->residence, d, &text);
        if (reserve_of(p, d)) {
            plait_strbuf_append(&text, " less ");
            plait_strbuf_bytes(&text, reserve_of(p, d));
            plait_strbuf_append(&text, " for temporaries");
        }
    }
    if (p->options->out_full) *p->options->out_full = plait_strbuf_status(&text) == PLAIT_OK;
    plait_status status =
        plait_error(PLAIT_OUT_OF_MEMORY, "weights and state do not fit: %s", plait_strbuf_text(&text));
    plait_strbuf_deinit(&text);
    return status;
}

/* Ways of copying are weighed when they are tried first; the usual one is weighed once. */
static plait_status solve_with(spread *p, plait_copies copies, bool soft, double *out_cost, bool *out_found) {
    if (p->survey.copies != copies) {
        p->survey.copies = copies;
        PLAIT_TRY(weigh_units(p));
    }
    return solve(p, soft, p->room, out_cost, out_found);
}

/* Whether the copies of tables keep better things out: a solution with all of them is there, it would be better with
 * more room, and one without them is better by as much as a move has to be. Then that one is left in `unit_device`;
 * else the first solution is solved again, since trying has written over it. */
static plait_status try_fewer_copies(spread *p, double cost, bool *out_found) {
    double free_cost, lean_cost;
    bool free_found = false, lean_found = false;
    for (int d = 0; d < p->n_devices; d++) p->no_limit[d] = UINT64_MAX;
    PLAIT_TRY(solve(p, false, p->no_limit, &free_cost, &free_found));
    if (free_found && free_cost < LEAST_GAIN * cost) {
        PLAIT_TRY(solve_with(p, PLAIT_COPIES_NO_LOOKUPS, false, &lean_cost, &lean_found));
        if (lean_found && lean_cost < LEAST_GAIN * cost) return PLAIT_OK;
    }
    return solve_with(p, PLAIT_COPIES_ALL, false, &cost, out_found);
}

/* Ways to make it fit, the wished one first: copies wherever something is read, shares of 0 holding nothing; then
 * with fewer copies; then with every device. Copies of a table are given up before a share of 0 is broken: a lookup
 * that travels costs a little time, a device that was to hold nothing was the user's word. */
static plait_status find_solution(spread *p, bool *out_found) {
    double cost;
    for (int way = 0; way < 6; way++) {
        bool soft = way >= 3;
        if (soft && !p->residence->asked) break;
        PLAIT_TRY(solve_with(p, (plait_copies)(way % 3), soft, &cost, out_found));
        if (!*out_found) continue;
        return way == 0 && !p->residence->asked ? try_fewer_copies(p, cost, out_found) : PLAIT_OK;
    }
    return PLAIT_OK;
}

/* Solve, count the whole, shrink a room, again. Rooms only shrink, yet nothing says how soon the whole fits, so rounds
 * are bounded; where they do not do, the answer is that it does not fit, with all figures. */
static plait_status decide(spread *p) {
    PLAIT_TRY(weigh_units(p));
    for (int d = 0; d < p->n_devices; d++)
        p->room[d] = minus(minus(p->budget[d], reserve_of(p, d)), p->fixed[d]);
    for (int round = 0; round < 2 * p->n_devices + 4; round++) {
        bool found = false;
        PLAIT_TRY(find_solution(p, &found));
        if (!found) return nothing_fits(p);
        plait_survey_decide(&p->survey);
        PLAIT_TRY(count_held(p));
        if (!shrink_room(p)) return PLAIT_OK;
    }
    return nothing_fits(p);
}

/* ---- keeping the result ---- */

/* After the decision every item knows its devices, and each copy is packed for the readers that run beside it, not
 * for all. */
static plait_status add_entries(spread *p) {
    const plait_survey *s = &p->survey;
    for (int kind = 0; kind < 2; kind++) /* states come first in the table */
        for (size_t i = 0; i < s->n_items; i++) {
            const plait_survey_item *item = &s->items[i];
            if (is_state(item) != (kind == 0)) continue;
            for (int d = 0; d < p->n_devices; d++) {
                plait_encoding_offer form;
                if (!plait_survey_holds(s, item, d)) continue;
                PLAIT_TRY(plait_survey_form(s, item, d, PLAIT_SURVEY_HERE, &form));
                PLAIT_TRY(plait_residence_add(p->residence, item->row, &item->shape, d, &form,
                                              item->pin == d ? PLAIT_CAUSE_PINNED : PLAIT_CAUSE_READERS));
            }
        }
    return PLAIT_OK;
}

/* Why a unit is where it is: the way of splitting, or want of room for it. `device` is what the split chose; pinned
 * units are told apart by the caller. */
static plait_cause cause_of(const spread *p, int device) {
    if (p->residence->asked) return PLAIT_CAUSE_RATIO;
    if (p->options->split == PLAIT_SPLIT_NONE) return device == 0 ? PLAIT_CAUSE_FIRST : PLAIT_CAUSE_ROOM;
    return PLAIT_CAUSE_COST;
}

/* The device on which the user has pinned every node of a unit; -1: there is none. */
static int pin_of_unit(const plait_survey *s, uint32_t unit) {
    int pin = -1;
    for (uint32_t k = s->first_in_unit[unit]; k < s->first_in_unit[unit + 1]; k++) {
        int here = s->nodes[s->in_unit[k]].pin;
        if (here < 0 || (pin >= 0 && here != pin)) return -1;
        pin = here;
    }
    return pin;
}

/* For the plan's text, and for placing nodes that want to be with their block. Only a block whose nodes are all
 * pinned to one device counts as pinned: one pinned node does not move the block. */
static plait_status keep_blocks(spread *p) {
    const plait_survey *s = &p->survey;
    plait_residence *r = p->residence;
    r->blocks = plait_arena_alloc(&r->strings, s->n_units, sizeof *r->blocks);
    if (!r->blocks) return plait_error_memory("residence", s->n_units);
    for (uint32_t u = 0; u < s->n_units; u++) {
        int pin = pin_of_unit(s, u), d = pin >= 0 ? pin : s->unit_device[u];
        plait_residence_block *block = &r->blocks[u];
        *block = (plait_residence_block){
            .number = s->unit_block[u],
            .n_blocks = s->unit_blocks[u],
            .device = d,
            .cause = pin >= 0 ? PLAIT_CAUSE_PINNED : cause_of(p, d),
            .bytes = p->bytes[(size_t)u * (size_t)p->n_devices + (size_t)d],
            .ns = plait_arena_alloc(&r->strings, (size_t)p->n_devices, sizeof(double))};
        if (!block->ns) return plait_error_memory("residence", s->n_units);
        memcpy(block->ns, &p->ns[(size_t)u * (size_t)p->n_devices], (size_t)p->n_devices * sizeof(double));
    }
    r->n_blocks = s->n_units;
    return PLAIT_OK;
}

/* ---- all of it ---- */

/* Shares that add up to 1, kept for the report. Checked with !(x >= 0), so that a NaN is refused as well. With `none`
 * there is nothing to share: a ratio has no say then. */
static plait_status keep_shares(spread *p) {
    plait_residence *r = p->residence;
    double sum = 0;
    if (!p->options->ratio || p->options->split == PLAIT_SPLIT_NONE) return PLAIT_OK;
    r->asked = plait_arena_alloc(&r->strings, (size_t)p->n_devices, sizeof *r->asked);
    if (!r->asked) return plait_error_memory("residence", 0);
    for (int d = 0; d < p->n_devices; d++) {
        double share = p->options->ratio[d];
        if (!(share >= 0) || !isfinite(share))
            return plait_error(PLAIT_INVALID_ARGUMENT, "ratio: share %d is %g, expected 0 or more", d, share);
        sum += share;
    }
    if (!(sum > 0) || !isfinite(sum))
        return plait_error(PLAIT_INVALID_ARGUMENT, "ratio: the shares add up to %g", sum);
    for (int d = 0; d < p->n_devices; d++) {
        r->asked[d] = p->options->ratio[d] / sum;
        if (r->asked[d] == 0) r->idle |= (uint64_t)1 << d;
    }
    return PLAIT_OK;
}

/* Sizes are known once the survey is: what is shared by several units is a use each at most. */
static plait_status make_tables(spread *p) {
    size_t n = (size_t)p->n_devices, n_units = p->survey.n_units, n_users = 0;
    for (size_t i = 0; i < p->survey.n_items; i++) n_users += p->survey.items[i].n_users;
    p->budget = p->residence->budget_bytes;
    p->room = plait_arena_alloc(&p->arena, n, sizeof *p->room);
    p->no_limit = plait_arena_alloc(&p->arena, n, sizeof *p->no_limit);
    p->fixed = plait_arena_alloc(&p->arena, n, sizeof *p->fixed);
    p->held = plait_arena_alloc(&p->arena, n, sizeof *p->held);
    p->bytes = plait_arena_alloc(&p->arena, n * n_units, sizeof *p->bytes);
    p->need = plait_arena_alloc(&p->arena, n * n_units, sizeof *p->need);
    p->elsewhere = plait_arena_alloc(&p->arena, n * n * n_units, sizeof *p->elsewhere);
    p->ns = plait_arena_alloc(&p->arena, n * n_units, sizeof *p->ns);
    p->first_shared = plait_arena_alloc(&p->arena, n_units + 1, sizeof *p->first_shared);
    p->shared = plait_arena_alloc(&p->arena, n_users, sizeof *p->shared);
    bool all = p->room && p->no_limit && p->fixed && p->held && p->bytes && p->need && p->elsewhere &&
               p->ns && p->first_shared && p->shared;
    return all ? PLAIT_OK : plait_error_memory("residence", n * n_units);
}

/* Everything but the entries and blocks that were kept is gone afterwards; so are the survey's figures, which
 * placement takes anew for its own graph. */
plait_status plait_residence_spread(plait_residence *residence, const plait_graph *const *graphs,
                                    int n_graphs, const plait_residence_options *options) {
    static const plait_residence_options none = {0};
    spread p = {.residence = residence,
                .options = options ? options : &none,
                .n_devices = residence->context->n_devices};
    plait_arena_init(&p.arena, 0);
    plait_status status = keep_shares(&p);
    if (status == PLAIT_OK) status = plait_survey_init(&p.survey, residence, graphs, n_graphs, p.options);
    if (status == PLAIT_OK) status = make_tables(&p);
    if (status == PLAIT_OK) status = decide(&p);
    if (status == PLAIT_OK) status = add_entries(&p);
    if (status == PLAIT_OK) status = keep_blocks(&p);
    plait_survey_deinit(&p.survey);
    plait_arena_deinit(&p.arena);
    return status;
}
