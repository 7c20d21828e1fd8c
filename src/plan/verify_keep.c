/* The part of the proof that compares lives: positions are walked in their order, and of the lives that are going on, no
 * two may hold one byte. Those are kept by where they begin, so that a new one meets only its neighbours.
 *
 * Invariant: the lives in the set are apart; of one that was taken over and goes on at this very position, what its heir
 * does not cover is kept aside until the position is over. */
#include "base/ranks.h"
#include "base/sort.h"
#include "base/status.h"
#include "plan/verify.h"

/* ---- pairs ---- */

/* Listed by output, for a new life asks what it may take over. */
plait_status plait_life_pairs_init(plait_life_pairs *out, const plait_plan *plan, plait_arena *arena) {
    size_t n_pairs = 0;
    uint32_t at = 0;
    for (size_t s = 0; s < plan->n_segments; s++) n_pairs += (size_t)plan->segments[s].prepared.n_shared;
    out->heads = plait_arena_alloc(arena, plan->n_values, sizeof *out->heads);
    out->pairs = plait_arena_alloc(arena, n_pairs, sizeof *out->pairs);
    if (!out->heads || !out->pairs) return plait_error_memory("proof", n_pairs * sizeof *out->pairs);
    for (size_t s = 0; s < plan->n_segments; s++) {
        const plait_prepared *prepared = &plan->segments[s].prepared;
        for (int k = 0; k < prepared->n_shared; k++) {
            uint32_t output = prepared->shared[k].output;
            if (output >= plan->n_values) continue;
            out->pairs[at] = (struct plait_life_pair){prepared->shared[k].input, out->heads[output]};
            out->heads[output] = ++at;
        }
    }
    return PLAIT_OK;
}

/* True when `late` takes over the bytes of `early` where that ends, and the device said that it may. Same beginning, so
 * that the output's first byte replaces the input's; it may be shorter. */
static bool takes_over(const plait_life_pairs *pairs, const plait_life *early, const plait_life *late) {
    if (early->value == PLAIT_NO_SLOT || late->value == PLAIT_NO_SLOT) return false;
    if (early->last != late->first || early->begin != late->begin) return false;
    for (uint32_t k = pairs->heads[late->value]; k; k = pairs->pairs[k - 1].next)
        if (pairs->pairs[k - 1].input == early->value) return true;
    return false;
}

/* Both lives, with positions and the bytes they share. */
static plait_status clash(const plait_plan *plan, const plait_life *early, const plait_life *late) {
    const char *names[2];
    const plait_life *lives[2] = {early, late};
    for (int i = 0; i < 2; i++)
        names[i] = lives[i]->value == PLAIT_NO_SLOT
                       ? "scratch"
                       : plan->graph->storages[plan->values[lives[i]->value].storage].name;
    return plait_error(PLAIT_INTERNAL,
                       "proof: \"%s\" [%d, %d] and \"%s\" [%d, %d] share bytes [%llu, %llu) while both live",
                       names[0], early->first, early->last, names[1], late->first, late->last,
                       (unsigned long long)(early->begin > late->begin ? early->begin : late->begin),
                       (unsigned long long)(early->end < late->end ? early->end : late->end));
}

/* ---- the walk ---- */

typedef struct keeper {
    const plait_plan *plan;
    const plait_life_pairs *pairs;
    plait_life *lives; /* by begin: the index is the rank */
    size_t n;
    uint32_t *by_first, *by_last;
    plait_ranks going; /* ranks of lives that are going on */
    uint32_t *taken;   /* lives that were taken over at this position and end behind their heirs */
    size_t n_taken;
} keeper;

#define BEGINS_BEFORE(a, b)                                                                                  \
    ((a)->begin != (b)->begin   ? (a)->begin < (b)->begin                                                    \
     : (a)->first != (b)->first ? (a)->first < (b)->first                                                    \
                                : (a)->value < (b)->value)
PLAIT_DEFINE_SORT(sort_by_begin, plait_life, BEGINS_BEFORE)

/* Indices of lives by first or last position, in the order of the indices where that is equal. Positions are dense, so
 * this takes time in proportion to lives and positions. */
static plait_status count_sort(const keeper *k, plait_arena *arena, int32_t n_positions, bool last,
                               uint32_t **out) {
    uint32_t *at = plait_arena_alloc(arena, (size_t)n_positions + 1, sizeof *at);
    *out = plait_arena_alloc(arena, k->n, sizeof **out);
    if (!at || !*out) return plait_error_memory("proof", ((uint64_t)n_positions + k->n) * sizeof *at);
    for (size_t i = 0; i < k->n; i++) at[(last ? k->lives[i].last : k->lives[i].first) + 1]++;
    for (int32_t p = 0; p < n_positions; p++) at[p + 1] += at[p];
    for (uint32_t i = 0; i < k->n; i++) (*out)[at[last ? k->lives[i].last : k->lives[i].first]++] = i;
    return PLAIT_OK;
}

/* The life at rank `other` meets the new one: a clash, or it is taken over and leaves the set. */
static plait_status meet(keeper *k, size_t other, const plait_life *life) {
    const plait_life *early = &k->lives[other];
    if (!takes_over(k->pairs, early, life)) return clash(k->plan, early, life);
    plait_ranks_remove(&k->going, other);
    if (early->end > life->end) k->taken[k->n_taken++] = (uint32_t)other;
    return PLAIT_OK;
}

/* The lives in the set are apart, so only the one that begins below can reach into the new one from there; all that
 * begin within it meet it. */
static plait_status begin_life(keeper *k, uint32_t rank) {
    const plait_life *life = &k->lives[rank];
    for (size_t t = 0; t < k->n_taken; t++) {
        const plait_life *rest = &k->lives[k->taken[t]];
        if (rest->begin < life->end && life->begin < rest->end) return clash(k->plan, rest, life);
    }
    size_t below = plait_ranks_below(&k->going, rank);
    if (below != PLAIT_NO_RANK && k->lives[below].end > life->begin) PLAIT_TRY(meet(k, below, life));
    for (size_t above = rank;
         (above = plait_ranks_above(&k->going, above)) != PLAIT_NO_RANK && k->lives[above].begin < life->end;)
        PLAIT_TRY(meet(k, above, life));
    plait_ranks_add(&k->going, rank);
    return PLAIT_OK;
}

/* Lives that ended are taken out before one begins. `taken` holds lives of one position only, so those of an earlier
 * one are dropped from its end. */
static plait_status walk(keeper *k) {
    size_t ended = 0;
    for (size_t i = 0; i < k->n; i++) {
        const plait_life *life = &k->lives[k->by_first[i]];
        for (; k->lives[k->by_last[ended]].last < life->first; ended++)
            plait_ranks_remove(&k->going, k->by_last[ended]);
        while (k->n_taken && k->lives[k->taken[k->n_taken - 1]].last < life->first) k->n_taken--;
        PLAIT_TRY(begin_life(k, k->by_first[i]));
    }
    return PLAIT_OK;
}

/* Sorted by begin, a life's index is its rank in the set of those that are going on; sorted by position, lives begin
 * and end in turn. Time in proportion to lives and positions, apart from the sort. */
plait_status plait_plan_verify_keep(const plait_plan *plan, const plait_life_pairs *pairs, plait_life *lives,
                                    size_t n) {
    keeper k = {.plan = plan, .pairs = pairs, .lives = lives, .n = n};
    plait_arena arena;
    int32_t n_positions = 0;
    if (n == 0) return PLAIT_OK;
    plait_arena_init_pooled(&arena, &plan->context->pool);
    sort_by_begin(lives, n);
    for (size_t i = 0; i < n; i++)
        if (lives[i].last >= n_positions) n_positions = lives[i].last + 1;
    plait_status status = count_sort(&k, &arena, n_positions, false, &k.by_first);
    if (status == PLAIT_OK) status = count_sort(&k, &arena, n_positions, true, &k.by_last);
    if (status == PLAIT_OK) status = plait_ranks_init(&k.going, &arena, n);
    k.taken = plait_arena_alloc(&arena, n, sizeof *k.taken);
    if (status == PLAIT_OK && !k.taken) status = plait_error_memory("proof", n * sizeof *k.taken);
    if (status == PLAIT_OK) status = walk(&k);
    plait_arena_deinit(&arena);
    return status;
}
