/* Sparse edits: logit bias, penalties on what was said, DRY. They change the logits of a few tokens by id
 * and remove none. Invariant: edits() names every token whose logit apply() would change, and marks those
 * that may rise.
 *
 * Each edit is computed in double and rounded to float once, by IEEE operations alone, so the bits are the same on
 * every machine. */
#include "base/alloc.h"
#include "base/size.h"
#include "text/sampler/chain.h"
#include "text/sampler/numbers.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- bias ---- */

/* Entries in order, so that a token named twice gets both; minus infinity masks, and no later entry brings a masked
 * token back (plait_candidates_set leaves it). A token that is not among the candidates (cut before, or beyond the
 * vocabulary) is passed over. */
static plait_status bias_apply(plait_sampler *s, plait_step *step, plait_candidates *c) {
    (void)s;
    for (size_t i = 0; i < step->u.bias.n; i++) {
        const plait_logit_bias *entry = &step->u.bias.entries[i];
        int64_t at = plait_candidates_find(c, entry->token);
        if (at < 0) continue;
        if (entry->bias < -FLT_MAX)
            c->logit[at] = -INFINITY, plait_candidates_forget_max(c);
        else
            plait_candidates_set(c, (size_t)at, (double)c->logit[at] + (double)entry->bias);
    }
    return PLAIT_OK;
}

static bool bias_idle(const plait_step *step) {
    return step->u.bias.n == 0;
}

/* =: once a token may rise it may, whatever other entries say. */
static void bias_edits(plait_sampler *s, const plait_step *step, plait_token_map *out) {
    (void)s;
    for (size_t i = 0; i < step->u.bias.n; i++)
        *plait_token_map_at(out, step->u.bias.entries[i].token) |= step->u.bias.entries[i].bias > 0.0f;
}

/* Order counts as well: sums in float depend on it. */
static uint64_t bias_fingerprint(const plait_step *step, uint64_t hash) {
    for (size_t i = 0; i < step->u.bias.n; i++) {
        hash = plait_sampler_hash_u64(hash, (uint64_t)(uint32_t)step->u.bias.entries[i].token);
        hash = plait_sampler_hash_float(hash, step->u.bias.entries[i].bias);
    }
    return hash;
}

const plait_step_kind plait_step_bias = {.name = "bias",
                                         .apply = bias_apply,
                                         .idle = bias_idle,
                                         .edits = bias_edits,
                                         .fingerprint = bias_fingerprint};

plait_status plait_sampler_add_bias(plait_sampler *sampler, const plait_logit_bias *entries,
                                    size_t n_entries) {
    if (n_entries > PLAIT_SAMPLER_MAX_LIST)
        return plait_error(PLAIT_LIMIT, "sampler bias: %zu entries, at most %d allowed", n_entries,
                           PLAIT_SAMPLER_MAX_LIST);
    for (size_t i = 0; i < n_entries; i++) {
        if (!(entries[i].bias <= FLT_MAX))
            return plait_error(
                PLAIT_INVALID_ARGUMENT,
                "sampler bias: entry %zu for token %lld is %g, expected finite or minus infinity", i,
                (long long)entries[i].token, (double)entries[i].bias);
        if (entries[i].token < 0)
            return plait_error(PLAIT_INVALID_ARGUMENT,
                               "sampler bias: entry %zu names token %lld, expected 0 or more", i,
                               (long long)entries[i].token);
    }
    plait_step step = {.kind = &plait_step_bias, .u.bias.n = n_entries};
    step.u.bias.entries = plait_alloc_array(n_entries, sizeof *entries);
    if (!step.u.bias.entries) return plait_error_memory("sampler bias", n_entries * sizeof *entries);
    if (n_entries) memcpy(step.u.bias.entries, entries, n_entries * sizeof *entries);
    return plait_sampler_append(sampler, &step, 0, n_entries);
}

/* ---- penalties ---- */

/* Counts the tokens of the window in s->counts. The map holds as many tokens as the longest window, so this never
 * allocates. */
static void count_window(plait_sampler *s, size_t last_n) {
    size_t n = last_n < s->history_length ? last_n : s->history_length;
    plait_token_map_clear(&s->counts);
    for (size_t i = 0; i < n; i++) ++*plait_token_map_at(&s->counts, plait_sampler_history(s, i));
}

/* What is subtracted; negative penalties raise a logit. */
static double penalty_of(const plait_step *step, uint32_t count) {
    return (double)count * (double)step->u.penalties.frequency + (double)step->u.penalties.presence;
}

/* Rounded once, in plait_candidates_set. The map lists tokens from the newest on; each is edited on its own, so the
 * order does not matter. The repeat penalty as CTRL has it (Keskar et al. 2019), with the sign taken into account: a
 * logit below 0 is multiplied, so that it falls as well. Frequency and presence are subtracted behind it. */
static plait_status penalties_apply(plait_sampler *s, plait_step *step, plait_candidates *c) {
    count_window(s, (size_t)step->u.penalties.last_n);
    double repeat = (double)step->u.penalties.repeat;
    for (size_t i = 0; i < s->counts.n; i++) {
        const plait_token_entry *entry = &s->counts.entries[i];
        int64_t at = plait_candidates_find(c, entry->token);
        if (at < 0) continue;
        double logit = (double)c->logit[at];
        logit = logit <= 0.0 ? logit * repeat : logit / repeat;
        plait_candidates_set(c, (size_t)at, logit - penalty_of(step, entry->value));
    }
    return PLAIT_OK;
}

/* Neutral values do nothing, and so cost no look at the history and no larger need. */
static bool penalties_idle(const plait_step *step) {
    return step->u.penalties.last_n == 0 ||
           (step->u.penalties.repeat == 1.0f && step->u.penalties.frequency == 0.0f &&
            step->u.penalties.presence == 0.0f);
}

/* Dividing or multiplying by less than 1 raises a positive logit or lowers a negative one's magnitude: it may rise. A
 * token that may rise has to be named: it could enter the best although it is not among them before the edit. One that
 * only falls needs room for a successor and no name. */
static void penalties_edits(plait_sampler *s, const plait_step *step, plait_token_map *out) {
    count_window(s, (size_t)step->u.penalties.last_n);
    for (size_t i = 0; i < s->counts.n; i++) {
        const plait_token_entry *entry = &s->counts.entries[i];
        bool rises = step->u.penalties.repeat < 1.0f || penalty_of(step, entry->value) < 0.0;
        *plait_token_map_at(out, entry->token) |= rises;
    }
}

static uint64_t penalties_fingerprint(const plait_step *step, uint64_t hash) {
    hash = plait_sampler_hash_u64(hash, (uint64_t)step->u.penalties.last_n);
    hash = plait_sampler_hash_float(hash, step->u.penalties.repeat);
    hash = plait_sampler_hash_float(hash, step->u.penalties.frequency);
    return plait_sampler_hash_float(hash, step->u.penalties.presence);
}

const plait_step_kind plait_step_penalties = {.name = "penalties",
                                              .apply = penalties_apply,
                                              .idle = penalties_idle,
                                              .edits = penalties_edits,
                                              .fingerprint = penalties_fingerprint};

/* repeat must be a normal number above 0: it divides. */
plait_status plait_sampler_add_penalties(plait_sampler *sampler, int32_t last_n, float repeat,
                                         float frequency, float presence) {
    const char *name = plait_step_penalties.name;
    PLAIT_TRY(plait_sampler_check(name, "last_n", last_n, 0, PLAIT_SAMPLER_MAX_HISTORY));
    PLAIT_TRY(plait_sampler_check(name, "repeat", (double)repeat, (double)FLT_MIN, (double)FLT_MAX));
    PLAIT_TRY(plait_sampler_check(name, "frequency", (double)frequency, -(double)FLT_MAX, (double)FLT_MAX));
    PLAIT_TRY(plait_sampler_check(name, "presence", (double)presence, -(double)FLT_MAX, (double)FLT_MAX));
    plait_step step = {.kind = &plait_step_penalties, .u.penalties = {last_n, repeat, frequency, presence}};
    return plait_sampler_append(sampler, &step, (size_t)last_n, (size_t)last_n);
}

/* ---- DRY ---- */

static int compare_tokens(const void *a, const void *b) {
    plait_token x = *(const plait_token *)a, y = *(const plait_token *)b;
    return x < y ? -1 : x > y;
}

/* Sorted when the step was added. */
static bool is_breaker(const plait_step *step, plait_token token) {
    const plait_token *list = step->u.dry.breakers;
    return step->u.dry.n_breakers &&
           bsearch(&token, list, step->u.dry.n_breakers, sizeof *list, compare_tokens);
}

/* Z function: z[i] is the length of the longest common beginning of text and text + i (Gusfield 1997, chapter 1).
 * Linear: `right` only grows, and each comparison that succeeds moves it. z[0] is n by convention and never read here:
 * i is above left wherever i < right. */
static void z_function(const plait_token *text, uint32_t *z, size_t n) {
    size_t left = 0, right = 0; /* the match that reaches furthest covers [left, right) */
    z[0] = (uint32_t)n;
    for (size_t i = 1; i < n; i++) {
        size_t length = 0;
        if (i < right) length = z[i - left] < right - i ? z[i - left] : right - i;
        while (i + length < n && text[length] == text[i + length]) length++;
        if (i + length > right) left = i, right = i + length;
        z[i] = (uint32_t)length;
    }
}

/* Puts into s->counts, for each token that would lengthen a repetition, the length of the longest one. Reversed, the
 * end of the text is the beginning, and z[i] says how long it matches what stands i tokens before; the token that
 * followed there stands at i - 1. Every window is looked at anew, since the oldest token falls out of it. Linear in the
 * window, but for the search among the breakers. */
static void find_repetitions(plait_sampler *s, const plait_step *step) {
    size_t last_n = (size_t)step->u.dry.last_n;
    size_t n = last_n < s->history_length ? last_n : s->history_length, limit = n;
    plait_token_map_clear(&s->counts);
    for (size_t i = 0; i < n; i++) s->reversed[i] = plait_sampler_history(s, i);
    /* No match reaches past the newest breaker. */
    for (size_t i = 0; i < limit; i++)
        if (is_breaker(step, s->reversed[i])) limit = i;
    if (n < 2 || limit == 0) return;
    z_function(s->reversed, s->match, n);
    for (size_t i = 1; i < n; i++) {
        uint32_t length = s->match[i] < limit ? s->match[i] : (uint32_t)limit;
        plait_token next = s->reversed[i - 1];
        if (length < (uint32_t)step->u.dry.allowed_length || is_breaker(step, next)) continue;
        uint32_t *longest = plait_token_map_at(&s->counts, next);
        if (length > *longest) *longest = length;
    }
}

/* base^excess may overflow to infinity: the logit is then the smallest finite one, not masked. DRY ("don't repeat
 * yourself"): multiplier * base^(length - allowed_length), where length is how far the repetition already reaches. */
static plait_status dry_apply(plait_sampler *s, plait_step *step, plait_candidates *c) {
    find_repetitions(s, step);
    for (size_t i = 0; i < s->counts.n; i++) {
        const plait_token_entry *entry = &s->counts.entries[i];
        int64_t at = plait_candidates_find(c, entry->token);
        if (at < 0) continue;
        double excess = (double)(entry->value - (uint32_t)step->u.dry.allowed_length);
        double penalty = (double)step->u.dry.multiplier * plait_sampler_pow((double)step->u.dry.base, excess);
        plait_candidates_set(c, (size_t)at, (double)c->logit[at] - penalty);
    }
    return PLAIT_OK;
}

static bool dry_idle(const plait_step *step) {
    return step->u.dry.last_n == 0 || step->u.dry.multiplier == 0.0f;
}

/* Nothing rises: penalties are subtracted, and at least 0. */
static void dry_edits(plait_sampler *s, const plait_step *step, plait_token_map *out) {
    find_repetitions(s, step);
    for (size_t i = 0; i < s->counts.n; i++) (void)plait_token_map_at(out, s->counts.entries[i].token);
}

static uint64_t dry_fingerprint(const plait_step *step, uint64_t hash) {
    hash = plait_sampler_hash_float(hash, step->u.dry.multiplier);
    hash = plait_sampler_hash_float(hash, step->u.dry.base);
    hash = plait_sampler_hash_u64(hash, (uint64_t)step->u.dry.allowed_length);
    hash = plait_sampler_hash_u64(hash, (uint64_t)step->u.dry.last_n);
    for (size_t i = 0; i < step->u.dry.n_breakers; i++)
        hash = plait_sampler_hash_u64(hash, (uint64_t)(uint32_t)step->u.dry.breakers[i]);
    return hash;
}

const plait_step_kind plait_step_dry = {
    .name = "dry", .apply = dry_apply, .idle = dry_idle, .edits = dry_edits, .fingerprint = dry_fingerprint};

plait_status plait_sampler_add_dry(plait_sampler *sampler, float multiplier, float base,
                                   int32_t allowed_length, int32_t last_n, const plait_token *breakers,
                                   size_t n_breakers) {
    const char *name = plait_step_dry.name;
    PLAIT_TRY(plait_sampler_check(name, "multiplier", (double)multiplier, 0, (double)FLT_MAX));
    PLAIT_TRY(plait_sampler_check(name, "base", (double)base, 1, (double)FLT_MAX));
    PLAIT_TRY(plait_sampler_check(name, "allowed_length", allowed_length, 1, INT32_MAX));
    PLAIT_TRY(plait_sampler_check(name, "last_n", last_n, 0, PLAIT_SAMPLER_MAX_HISTORY));
    PLAIT_TRY(plait_sampler_check(name, "number of breakers", (double)n_breakers, 0, PLAIT_SAMPLER_MAX_LIST));
    plait_step step = {.kind = &plait_step_dry};
    step.u.dry.multiplier = multiplier;
    step.u.dry.base = base;
    step.u.dry.allowed_length = allowed_length;
    step.u.dry.last_n = last_n;
    step.u.dry.n_breakers = n_breakers;
    step.u.dry.breakers = plait_alloc_array(n_breakers, sizeof *breakers);
    if (!step.u.dry.breakers) return plait_error_memory("sampler dry", n_breakers * sizeof *breakers);
    if (n_breakers) {
        memcpy(step.u.dry.breakers, breakers, n_breakers * sizeof *breakers);
        qsort(step.u.dry.breakers, n_breakers, sizeof *breakers, compare_tokens);
    }
    return plait_sampler_append(sampler, &step, (size_t)last_n, (size_t)last_n);
}
