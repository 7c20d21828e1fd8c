/* The chain: its life, its history, what it needs, and the pick. Steps are in steps_*.c, saved state is in state.c.
 * Invariant: a call that fails leaves the state (picks, history, mu) as it was: steps write scratch while they are
 * applied, and state moves in finish_pick alone, behind everything that can fail. */
#include "text/sampler/chain.h"

#include "base/alloc.h"
#include "base/size.h"
#include "text/sampler/numbers.h"
#include "text/sampler/select.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- life ---- */

/* Takes no memory beyond the struct: arrays come with the steps that need them and with the first vocabulary. */
plait_status plait_sampler_create(plait_sampler **out_sampler, uint64_t seed) {
    plait_sampler *s = plait_alloc_array(1, sizeof *s);
    if (!s) return plait_error_memory("sampler", sizeof *s);
    s->seed = seed;
    s->set.kernels = plait_sampler_kernels_best();
    *out_sampler = s;
    return PLAIT_OK;
}

/* A zeroed step owns nothing and has no kind. */
static void step_deinit(plait_step *step) {
    if (step->kind == &plait_step_bias) free(step->u.bias.entries);
    if (step->kind == &plait_step_dry) free(step->u.dry.breakers);
    if (step->kind == &plait_step_mirostat_v1 || step->kind == &plait_step_mirostat_v2) {
        free(step->u.mirostat.logit);
        free(step->u.mirostat.id);
    }
    *step = (plait_step){0};
}

/* Steps own arrays by their kinds; all else belongs to the chain. */
void plait_sampler_destroy(plait_sampler *sampler) {
    if (!sampler) return;
    for (size_t i = 0; i < sampler->n_steps; i++) step_deinit(&sampler->steps[i]);
    free(sampler->history);
    free(sampler->need_ids);
    free(sampler->reversed);
    free(sampler->match);
    plait_token_map_deinit(&sampler->counts);
    plait_token_map_deinit(&sampler->edited);
    plait_candidates_deinit(&sampler->set);
    free(sampler);
}

void plait_sampler_use_kernels(plait_sampler *s, const plait_sampler_kernels *kernels) {
    s->set.kernels = kernels;
}

/* NaN is outside of any range, since it compares with nothing. */
plait_status plait_sampler_check(const char *step, const char *field, double value, double low, double high) {
    if (value >= low && value <= high) return PLAIT_OK;
    return plait_error(PLAIT_INVALID_ARGUMENT, "sampler %s: %s is %g, expected %g to %g", step, field, value,
                       low, high);
}

/* A larger array in place of *pointer, whose contents are not kept. The old one goes only when the new one is there.
 * Never smaller than it was, since callers ask only when it must grow. */
static plait_status replace_array(void *pointer, size_t n, size_t size_bytes, const char *what) {
    void *fresh = plait_alloc_array(n, size_bytes), *old;
    if (!fresh) return plait_error_memory(what, (uint64_t)n * size_bytes);
    memcpy(&old, pointer, sizeof old); /* *pointer is some object pointer type */
    free(old);
    memcpy(pointer, &fresh, sizeof fresh);
    return PLAIT_OK;
}

/* The ring as long as the longest window of any step; the map counts the tokens of a window, at most as many. Steps are
 * added before anything is accepted, so the ring is empty when it is replaced. */
static plait_status reserve_history(plait_sampler *s, size_t n) {
    if (n > s->history_capacity) {
        PLAIT_TRY(replace_array(&s->history, n, sizeof *s->history, "sampler history"));
        s->history_capacity = n;
    }
    return plait_token_map_reserve(&s->counts, n);
}

/* n: tokens that all edit steps together may name at most. Both arrays are so large that plait_sampler_need never
 * allocates. */
static plait_status reserve_edits(plait_sampler *s, size_t n) {
    PLAIT_TRY(replace_array(&s->need_ids, n, sizeof *s->need_ids, "sampler need"));
    PLAIT_TRY(plait_token_map_reserve(&s->edited, n));
    s->n_edits = n;
    return PLAIT_OK;
}

/* DRY's scratch: the history backwards and the length of the match at each place. */
static plait_status reserve_dry(plait_sampler *s, size_t n) {
    if (n <= s->dry_capacity) return PLAIT_OK;
    PLAIT_TRY(replace_array(&s->reversed, n, sizeof *s->reversed, "sampler dry"));
    PLAIT_TRY(replace_array(&s->match, n, sizeof *s->match, "sampler dry"));
    s->dry_capacity = n;
    return PLAIT_OK;
}

/* Memory first, the step last: nothing of the chain that a pick would notice has changed when this fails. The lane is
 * the place in the chain, so that two XTC steps of one chain draw different numbers. A chain is fixed once it has
 * picked: a step added later would find a history that was too short for it. */
static plait_status append_checked(plait_sampler *s, const plait_step *step, size_t n_history,
                                   size_t n_edits) {
    if (s->started)
        return plait_error(PLAIT_WRONG_STATE,
                           "sampler %s: steps can't be added once a token was picked or accepted",
                           step->kind->name);
    if (s->n_steps == PLAIT_SAMPLER_MAX_STEPS)
        return plait_error(PLAIT_LIMIT, "sampler %s: a chain has at most %d steps", step->kind->name,
                           PLAIT_SAMPLER_MAX_STEPS);
    if (n_history) PLAIT_TRY(reserve_history(s, n_history));
    if (n_edits) PLAIT_TRY(reserve_edits(s, s->n_edits + n_edits));
    if (step->kind == &plait_step_dry && n_history) PLAIT_TRY(reserve_dry(s, n_history));
    s->steps[s->n_steps] = *step;
    s->steps[s->n_steps].lane = (uint32_t)s->n_steps + 1;
    s->n_steps++;
    return PLAIT_OK;
}

/* Takes what the step owns, also when it fails. */
plait_status plait_sampler_append(plait_sampler *s, const plait_step *step, size_t n_history,
                                  size_t n_edits) {
    plait_status status = append_checked(s, step, n_history, n_edits);
    if (status != PLAIT_OK) {
        plait_step copy = *step;
        step_deinit(&copy);
    }
    return status;
}

/* ---- copies ---- */

/* Gives the copy of a step memory of its own. On failure the copy owns nothing. Mirostat's arrays are scratch of one
 * pick and begin empty in the copy; mu is copied with the struct. */
static plait_status step_own(plait_step *copy, const plait_step *from) {
    *copy = *from;
    if (from->kind == &plait_step_bias) {
        size_t bytes = from->u.bias.n * sizeof *from->u.bias.entries;
        copy->u.bias.entries = plait_alloc_array(1, bytes);
        if (!copy->u.bias.entries) return *copy = (plait_step){0}, plait_error_memory("sampler bias", bytes);
        if (bytes) memcpy(copy->u.bias.entries, from->u.bias.entries, bytes);
    } else if (from->kind == &plait_step_dry) {
        size_t bytes = from->u.dry.n_breakers * sizeof *from->u.dry.breakers;
        copy->u.dry.breakers = plait_alloc_array(1, bytes);
        if (!copy->u.dry.breakers) return *copy = (plait_step){0}, plait_error_memory("sampler dry", bytes);
        if (bytes) memcpy(copy->u.dry.breakers, from->u.dry.breakers, bytes);
    } else if (from->kind->picked) {
        copy->u.mirostat.logit = NULL;
        copy->u.mirostat.id = NULL;
        copy->u.mirostat.n = copy->u.mirostat.capacity = 0;
    }
    return PLAIT_OK;
}

/* Steps are counted one by one, so that destroying a copy that failed half-way frees just what it owns. Candidates are
 * scratch and not copied. */
static plait_status clone_into(const plait_sampler *s, plait_sampler *copy) {
    for (size_t i = 0; i < s->n_steps; i++) {
        PLAIT_TRY(step_own(&copy->steps[i], &s->steps[i]));
        copy->n_steps = i + 1;
    }
    if (s->history_capacity) PLAIT_TRY(reserve_history(copy, s->history_capacity));
    if (s->n_edits) PLAIT_TRY(reserve_edits(copy, s->n_edits));
    if (s->dry_capacity) PLAIT_TRY(reserve_dry(copy, s->dry_capacity));
    if (s->history_capacity) memcpy(copy->history, s->history, s->history_capacity * sizeof *s->history);
    copy->history_length = s->history_length;
    copy->history_next = s->history_next;
    copy->picks = s->picks;
    copy->started = s->started;
    copy->set.kernels = s->set.kernels;
    return PLAIT_OK;
}

plait_status plait_sampler_clone(const plait_sampler *sampler, plait_sampler **out_copy) {
    plait_sampler *copy = NULL;
    PLAIT_TRY(plait_sampler_create(&copy, sampler->seed));
    plait_status status = clone_into(sampler, copy);
    if (status != PLAIT_OK) {
        plait_sampler_destroy(copy);
        return status;
    }
    *out_copy = copy;
    return PLAIT_OK;
}

/* As after its making: only steps, seed and kernels stay. mirostat's mu begins at 2 tau, as its paper has it. */
void plait_sampler_reset(plait_sampler *sampler) {
    sampler->history_length = sampler->history_next = 0;
    sampler->picks = 0;
    sampler->started = false;
    for (size_t i = 0; i < sampler->n_steps; i++)
        if (sampler->steps[i].kind->picked)
            sampler->steps[i].u.mirostat.mu = 2.0 * (double)sampler->steps[i].u.mirostat.tau;
}

/* The history stays: penalties are about the text, not about the numbers. */
void plait_sampler_reseed(plait_sampler *sampler, uint64_t seed) {
    sampler->seed = seed;
    sampler->picks = 0;
}

/* A chain without penalties and DRY has no ring and remembers nothing. The oldest token falls out where the ring is
 * full. Accepting is apart from picking, since the prompt's tokens count for penalties and nobody picked them. */
plait_status plait_sampler_accept(plait_sampler *sampler, plait_token token) {
    if (token < 0)
        return plait_error(PLAIT_OUT_OF_RANGE, "sampler: token %lld accepted, expected 0 or more",
                           (long long)token);
    sampler->started = true;
    if (sampler->history_capacity == 0) return PLAIT_OK;
    sampler->history[sampler->history_next] = token;
    sampler->history_next =
        sampler->history_next + 1 == sampler->history_capacity ? 0 : sampler->history_next + 1;
    if (sampler->history_length < sampler->history_capacity) sampler->history_length++;
    return PLAIT_OK;
}

/* ---- need ---- */

/* Ids are 32 bits, and arrays by vocabulary have to be addressable. The bound also keeps every size in candidates.c far
 * from an overflow. */
static plait_status check_vocab(int64_t n_vocab) {
    if (n_vocab >= 1 && n_vocab <= PLAIT_SAMPLER_MAX_VOCAB) return PLAIT_OK;
    return plait_error(PLAIT_INVALID_ARGUMENT, "sampler: a vocabulary of %lld tokens, expected 1 to %d",
                       (long long)n_vocab, PLAIT_SAMPLER_MAX_VOCAB);
}

/* With settings that do nothing, for example a temperature of 1: such a step need not be looked at. */
static bool step_idle(const plait_step *step) {
    return step->kind->idle && step->kind->idle(step);
}

/* The reasoning is at its declaration. Edits of tokens beyond this vocabulary do not count; n_edited counts distinct
 * tokens, because the map has each once. k best after the edits: each edited token may push one of the k out, so k +
 * n_edited of the unedited best, and those that may rise by name, hold the k best of the edited ones. */
plait_status plait_sampler_need(plait_sampler *sampler, int64_t n_vocab, plait_logits_need *out_need) {
    PLAIT_TRY(check_vocab(n_vocab));
    plait_logits_need need = {.kind = PLAIT_LOGITS_ALL, .n = n_vocab};
    plait_token_map_clear(&sampler->edited);
    size_t i = 0, k = 0, n_edited = 0, n_ids = 0;
    for (; i < sampler->n_steps; i++) {
        const plait_step *step = &sampler->steps[i];
        if (step_idle(step)) continue;
        /* The first step that does more than edit ends the edits that can be told in advance. */
        if (!step->kind->edits) break;
        step->kind->edits(sampler, step, &sampler->edited);
    }
    if (i < sampler->n_steps && sampler->steps[i].kind->best)
        k = sampler->steps[i].kind->best(&sampler->steps[i]);
    for (size_t j = 0; j < sampler->edited.n; j++) {
        const plait_token_entry *entry = &sampler->edited.entries[j];
        if (entry->token >= n_vocab) continue;
        n_edited++;
        if (entry->value) sampler->need_ids[n_ids++] = entry->token;
    }
    if (k > 0 && (int64_t)(k + n_edited) < n_vocab) {
        /* The best token and no edit: a device can answer with the token alone. */
        bool argmax = k == 1 && n_edited == 0;
        need.kind = argmax ? PLAIT_LOGITS_ARGMAX : PLAIT_LOGITS_BEST;
        need.n = (int64_t)(k + n_edited);
        need.ids = n_ids ? sampler->need_ids : NULL;
        need.n_ids = n_ids;
    }
    *out_need = need;
    return PLAIT_OK;
}

/* ---- picking ---- */

/* For n candidates; later calls with as many allocate nothing. A step with arrays of its own says so by `reserve`.
 * Failure leaves all arrays as large as they were or larger. */
static plait_status reserve_scratch(plait_sampler *s, size_t n) {
    PLAIT_TRY(plait_candidates_reserve(&s->set, n));
    for (size_t i = 0; i < s->n_steps; i++)
        if (s->steps[i].kind->reserve) PLAIT_TRY(s->steps[i].kind->reserve(&s->steps[i], n));
    return PLAIT_OK;
}

plait_status plait_sampler_reserve(plait_sampler *sampler, int64_t n_vocab) {
    PLAIT_TRY(check_vocab(n_vocab));
    return reserve_scratch(sampler, (size_t)n_vocab);
}

/* Applies the steps to the loaded candidates and weighs what is left; *out_total is the sum of the weights.
 *
 * A chain may have cut everything to minus infinity; only here, behind all steps, is that an error, since a later step
 * may not bring anything back. */
static plait_status apply_steps(plait_sampler *s, double *out_total) {
    plait_candidates *c = &s->set;
    for (size_t i = 0; i < s->n_steps; i++)
        if (!step_idle(&s->steps[i])) PLAIT_TRY(s->steps[i].kind->apply(s, &s->steps[i], c));
    float max = plait_candidates_max(c);
    if (max < -FLT_MAX)
        return plait_error(
            PLAIT_INVALID_ARGUMENT,
            "sampler: all %zu candidates of a vocabulary of %lld are minus infinity, the first is token "
            "%lld; expected at least one finite logit",
            c->n, (long long)c->n_vocab, (long long)plait_candidates_id(c, 0));
    *out_total = plait_candidates_weigh(c, max);
    return PLAIT_OK;
}

/* Candidates of a block, whose sum is taken at vector speed; only one block is walked element by element. */
#define DRAW_BLOCK 1024

/* The last candidate of any weight in [start, end), or `fallback`. */
static size_t last_weighty(const plait_candidates *c, size_t start, size_t end, size_t fallback) {
    while (end > start)
        if (c->weight[--end] > 0.0f) return end;
    return fallback;
}

/* The candidate at which the running sum of weights, in the order of ids, passes u * total, u in [0, 1). Whole blocks
 * are passed by their sums. Where rounding leaves the target behind a block or behind all, the last candidate before it
 * is taken. Sums are taken in blocks of a fixed size and in the order of ids, so the token does not depend on the
 * kernel's width. */
static size_t draw(const plait_candidates *c, double total, double u) {
    double target = u * total, passed = 0.0;
    for (size_t start = 0; start < c->n; start += DRAW_BLOCK) {
        size_t end = c->n - start < DRAW_BLOCK ? c->n : start + DRAW_BLOCK;
        double sum = c->kernels->sum(c->weight + start, end - start);
        if (target < passed + sum) {
            for (size_t i = start; i < end; i++) {
                passed += (double)c->weight[i];
                if (target < passed) return i;
            }
            return last_weighty(c, start, end, start);
        }
        passed += sum;
    }
    return last_weighty(c, 0, c->n, 0);
}

/* Lane 0 is the draw's. The number belongs to (seed, picks): a pick that failed draws the same number again when it is
 * repeated. `picked` tells steps with a memory (mirostat) which token it was; it cannot fail. */
static plait_status finish_pick(plait_sampler *s, plait_token *out_token) {
    double total;
    PLAIT_TRY(apply_steps(s, &total));
    size_t at = draw(&s->set, total, plait_philox_uniform(s->seed, s->picks, 0));
    plait_token token = plait_candidates_id(&s->set, at);
    for (size_t i = 0; i < s->n_steps; i++)
        if (s->steps[i].kind->picked) s->steps[i].kind->picked(&s->steps[i], token);
    s->picks++;
    s->started = true;
    *out_token = token;
    return PLAIT_OK;
}

/* All logits, each step over all candidates: what the other ways are tested against. */
plait_status plait_sampler_pick_plainly(plait_sampler *s, const float *logits, int64_t n_vocab,
                                        plait_token *out_token) {
    PLAIT_TRY(plait_sampler_reserve(s, n_vocab));
    PLAIT_TRY(plait_candidates_load(&s->set, logits, (size_t)n_vocab));
    return finish_pick(s, out_token);
}

/* The result is that of the plain way, bit for bit; only the number of candidates that are looked at differs. */
plait_status plait_sampler_pick_from_all(plait_sampler *sampler, const float *logits, int64_t n_vocab,
                                         plait_token *out_token) {
    plait_logits_need need;
    PLAIT_TRY(plait_sampler_need(sampler, n_vocab, &need));
    if (need.kind == PLAIT_LOGITS_ALL) return plait_sampler_pick_plainly(sampler, logits, n_vocab, out_token);
    /* The best are enough: one look at the logits, and no copy of them. */
    PLAIT_TRY(plait_sampler_reserve(sampler, n_vocab));
    PLAIT_TRY(plait_candidates_load_best(&sampler->set, logits, (size_t)n_vocab, (size_t)need.n, need.ids,
                                         need.n_ids));
    return finish_pick(sampler, out_token);
}

/* Pairs may be twice as many as a vocabulary: the best and the named ids may overlap in full. */
plait_status plait_sampler_pick_from_best(plait_sampler *sampler, const plait_token *ids, const float *logits,
                                          size_t n, int64_t n_vocab, plait_token *out_token) {
    plait_logits_need need;
    PLAIT_TRY(plait_sampler_need(sampler, n_vocab, &need));
    if (n > 2 * (size_t)PLAIT_SAMPLER_MAX_VOCAB)
        return plait_error(PLAIT_LIMIT, "sampler: %zu pairs, at most %d allowed", n,
                           2 * PLAIT_SAMPLER_MAX_VOCAB);
    PLAIT_TRY(reserve_scratch(sampler, n));
    PLAIT_TRY(plait_candidates_load_pairs(&sampler->set, ids, logits, n, (size_t)n_vocab));
    if (sampler->set.n < (size_t)need.n)
        return plait_error(PLAIT_INVALID_ARGUMENT,
                           "sampler: %zu different tokens given, expected the %lld best that the chain needs",
                           sampler->set.n, (long long)need.n);
    return finish_pick(sampler, out_token);
}

/* Applies the steps as a pick does, random ones (XTC) included, with the numbers of the coming pick; draws nothing.
 * *out_kept is how many have any probability, which may be more than `capacity`. State stays as it is. */
plait_status plait_sampler_distribution(plait_sampler *sampler, const float *logits, int64_t n_vocab,
                                        plait_token *out_ids, float *out_probs, size_t capacity,
                                        size_t *out_kept) {
    PLAIT_TRY(plait_sampler_reserve(sampler, n_vocab));
    plait_candidates *c = &sampler->set;
    PLAIT_TRY(plait_candidates_load(c, logits, (size_t)n_vocab));
    double total;
    PLAIT_TRY(apply_steps(sampler, &total));
    size_t n_finite = plait_candidates_collect(c, c->logit, -FLT_MAX);
    size_t n = capacity < n_finite ? capacity : n_finite;
    if (n > 0) (void)plait_candidates_collect_best(c, n);
    /* The most probable first; of equal ones the smaller id, by the sort's own rule. */
    plait_sampler_sort_falling(c->logit, c->index, n);
    for (size_t i = 0; i < n; i++) {
        out_ids[i] = plait_candidates_id(c, c->index[i]);
        out_probs[i] = (float)((double)c->weight[c->index[i]] / total);
    }
    *out_kept = n_finite;
    return PLAIT_OK;
}
