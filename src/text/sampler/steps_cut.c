/* Steps that remove tokens: greedy, top-k, top-p, min-p, typical, top-n-sigma, XTC. Invariant: at least one
 * token stays, and the logits of those that stay are untouched. A set of which everything is masked is
 * passed on as it is; the chain reports it at the end. */
#include "text/sampler/chain.h"
#include "text/sampler/numbers.h"
#include "text/sampler/select.h"

#include <float.h>
#include <math.h>

static size_t at_least_one(int32_t min_keep) {
    return min_keep > 1 ? (size_t)min_keep : 1;
}

/* Keeps what was collected, or the min_keep best when that is more. c->index holds n places in rising order, as every
 * collecting function leaves them. */
static void keep_collected(plait_candidates *c, size_t n, size_t min_keep) {
    if (n < min_keep) n = plait_candidates_collect_best(c, min_keep);
    plait_candidates_keep(c, c->index, n);
}

/* min_keep is part of what a step does. */
static uint64_t cut_fingerprint(const plait_step *step, uint64_t hash) {
    hash = plait_sampler_hash_float(hash, step->u.cut.p);
    return plait_sampler_hash_u64(hash, step->u.cut.min_keep);
}

/* The step owns nothing, so a failure of append has nothing to give back. */
static plait_status add_cut(plait_sampler *s, const plait_step_kind *kind, float p, int32_t min_keep) {
    plait_step step = {.kind = kind};
    step.u.cut.p = p;
    step.u.cut.min_keep = at_least_one(min_keep);
    return plait_sampler_append(s, &step, 0, 0);
}

/* ---- greedy ---- */

/* Of equal logits the one with the smallest id, by the rule of collect_best. */
void plait_sampler_keep_greedy(plait_candidates *c) {
    (void)plait_candidates_collect_best(c, 1);
    plait_candidates_keep(c, c->index, 1);
}

static plait_status greedy_apply(plait_sampler *s, plait_step *step, plait_candidates *c) {
    (void)s;
    (void)step;
    plait_sampler_keep_greedy(c);
    return PLAIT_OK;
}

static size_t greedy_best(const plait_step *step) {
    (void)step;
    return 1;
}

const plait_step_kind plait_step_greedy = {.name = "greedy", .apply = greedy_apply, .best = greedy_best};

plait_status plait_sampler_add_greedy(plait_sampler *sampler) {
    plait_step step = {.kind = &plait_step_greedy};
    return plait_sampler_append(sampler, &step, 0, 0);
}

/* ---- top-k ---- */

/* n_masked counts candidates of no weight that the definition still counts (top-n-sigma masks, it does not remove):
 * they take places among the k too. n_masked above 0 are candidates that were masked and left out of the arrays; below
 * 0, ones that lie in them with minus infinity. */
static plait_status top_k_apply(plait_sampler *s, plait_step *step, plait_candidates *c) {
    (void)s;
    if (step->u.k <= 0) return PLAIT_OK;
    size_t k = (size_t)step->u.k;
    int64_t n_in_play = (int64_t)c->n + (c->n_masked < 0 ? c->n_masked : 0), rest = (int64_t)k - n_in_play;
    if (rest >= 0) { /* masked ones outside of the arrays fill up the rest */
        c->n_masked = c->n_masked < rest ? c->n_masked : rest;
        return PLAIT_OK;
    }
    plait_candidates_keep(c, c->index, plait_candidates_collect_best(c, k));
    return PLAIT_OK;
}

static bool top_k_idle(const plait_step *step) {
    return step->u.k <= 0;
}

static size_t top_k_best(const plait_step *step) {
    return step->u.k > 0 ? (size_t)step->u.k : 0;
}

static uint64_t top_k_fingerprint(const plait_step *step, uint64_t hash) {
    return plait_sampler_hash_u64(hash, (uint64_t)(int64_t)step->u.k);
}

const plait_step_kind plait_step_top_k = {.name = "top_k",
                                          .apply = top_k_apply,
                                          .idle = top_k_idle,
                                          .best = top_k_best,
                                          .fingerprint = top_k_fingerprint};

plait_status plait_sampler_add_top_k(plait_sampler *sampler, int32_t k) {
    plait_step step = {.kind = &plait_step_top_k, .u.k = k};
    return plait_sampler_append(sampler, &step, 0, 0);
}

/* ---- top-p ---- */

/* Tokens further than this below the largest logit are lighter than (1 - p) total / 2n each, so they weigh less than (1
 * - p) total / 2 together: a prefix of mass p that prefers heavy tokens ends before any of them. `total` is the sum of
 * weights relative to the largest, so at least 1; p is below 1. With p of 0 the gap is ln(2n / total) and still
 * safe. */
static double light_gap(const plait_candidates *c, double p, double total) {
    return plait_sampler_log(2.0 * (double)c->n / ((1.0 - p) * total));
}

/* Keeps the prefix by rising c->order that meets the rule. */
static void keep_prefix(plait_candidates *c, plait_mass_rule rule) {
    size_t n = plait_sampler_select_mass(c->kernels, c->order, c->weight, c->n, rule, c->index, c->index2);
    plait_candidates_keep(c, c->index, n);
}

/* The prefix is by falling logit, so by rising distance from the largest; c->order holds that. p of 0 or less keeps
 * min_keep. The filter in front is exact: it only takes away what cannot belong to the prefix, so the costly selection
 * runs over hundreds instead of a hundred thousand. */
static plait_status top_p_apply(plait_sampler *s, plait_step *step, plait_candidates *c) {
    (void)s;
    float max = plait_candidates_max(c);
    if (step->u.cut.p >= 1.0f || max < -FLT_MAX) return PLAIT_OK;
    double p = step->u.cut.p > 0.0f ? (double)step->u.cut.p : 0.0;
    double total = plait_candidates_weigh(c, max);
    plait_candidates_prefilter(c, max - (float)light_gap(c, p, total), step->u.cut.min_keep);
    c->kernels->distance(c->order, c->logit, c->n, max, 0.0f);
    keep_prefix(c, (plait_mass_rule){.target = p * total, .min_count = step->u.cut.min_keep});
    return PLAIT_OK;
}

static bool below_one_idle(const plait_step *step) {
    return step->u.cut.p >= 1.0f;
}

const plait_step_kind plait_step_top_p = {
    .name = "top_p", .apply = top_p_apply, .idle = below_one_idle, .fingerprint = cut_fingerprint};

plait_status plait_sampler_add_top_p(plait_sampler *sampler, float p, int32_t min_keep) {
    PLAIT_TRY(plait_sampler_check("top_p", "p", (double)p, -(double)FLT_MAX, (double)FLT_MAX));
    return add_cut(sampler, &plait_step_top_p, p, min_keep);
}

/* ---- min-p ---- */

/* The threshold is held at the largest logit, which ln p may round above for p = 1. w >= p * w_max is l >= l_max + ln
 * p: one logarithm and a comparison for each candidate, no exponential. */
static plait_status min_p_apply(plait_sampler *s, plait_step *step, plait_candidates *c) {
    (void)s;
    float max = plait_candidates_max(c);
    if (step->u.cut.p <= 0.0f || max < -FLT_MAX) return PLAIT_OK;
    float threshold = (float)((double)max + plait_sampler_log((double)step->u.cut.p));
    keep_collected(c, plait_candidates_collect(c, c->logit, threshold < max ? threshold : max),
                   step->u.cut.min_keep);
    return PLAIT_OK;
}

static bool above_zero_idle(const plait_step *step) {
    return step->u.cut.p <= 0.0f;
}

const plait_step_kind plait_step_min_p = {
    .name = "min_p", .apply = min_p_apply, .idle = above_zero_idle, .fingerprint = cut_fingerprint};

plait_status plait_sampler_add_min_p(plait_sampler *sampler, float p, int32_t min_keep) {
    PLAIT_TRY(plait_sampler_check("min_p", "p", (double)p, -(double)FLT_MAX, 1));
    return add_cut(sampler, &plait_step_min_p, p, min_keep);
}

/* ---- typical ---- */

/* The largest logit may be cut (it is not the most typical one), so it is not known afterwards. Locally typical
 * sampling (Meister et al. 2022): tokens whose surprise is nearest to the entropy, up to the mass p. */
static plait_status typical_apply(plait_sampler *s, plait_step *step, plait_candidates *c) {
    (void)s;
    float max = plait_candidates_max(c);
    if (step->u.cut.p >= 1.0f || max < -FLT_MAX) return PLAIT_OK;
    double total = plait_candidates_weigh(c, max);
    /* -ln q = (max - l) + ln Z and the entropy is ln Z + mean(max - l): ln Z cancels. */
    double mean_gap = c->kernels->weighted_gap(c->weight, c->logit, c->n, max) / total;
    /* Up to a gap G of at least twice the mean the distance is at most G - mean, beyond it is larger. So
     * when the mass up to G is enough, nothing beyond belongs to the prefix. */
    double p = step->u.cut.p > 0.0f ? (double)step->u.cut.p : 0.0;
    double gap = light_gap(c, p, total);
    gap = gap > 2.0 * mean_gap ? gap : 2.0 * mean_gap;
    plait_candidates_prefilter(c, max - (float)gap, step->u.cut.min_keep);
    c->kernels->distance(c->order, c->logit, c->n, max, (float)mean_gap);
    keep_prefix(c, (plait_mass_rule){.target = (double)step->u.cut.p * total,
                                     .strict = true,
                                     .min_count = step->u.cut.min_keep});
    plait_candidates_forget_max(c);
    return PLAIT_OK;
}

const plait_step_kind plait_step_typical = {
    .name = "typical", .apply = typical_apply, .idle = below_one_idle, .fingerprint = cut_fingerprint};

plait_status plait_sampler_add_typical(plait_sampler *sampler, float p, int32_t min_keep) {
    PLAIT_TRY(plait_sampler_check("typical", "p", (double)p, -(double)FLT_MAX, (double)FLT_MAX));
    return add_cut(sampler, &plait_step_typical, p, min_keep);
}

/* ---- top-n-sigma ---- */

/* n_finite is at least 1, since the maximum is finite. Two passes: a one-pass variance would cancel for logits far from
 * 0. Keeps what is within n standard deviations of the largest logit (Tang et al. 2024). Masked candidates count
 * neither for the mean nor for sigma. */
static plait_status top_n_sigma_apply(plait_sampler *s, plait_step *step, plait_candidates *c) {
    (void)s;
    float max = plait_candidates_max(c);
    if (step->u.cut.p <= 0.0f || max < -FLT_MAX) return PLAIT_OK;
    size_t n_finite;
    double mean = c->kernels->finite_sum(c->logit, c->n, &n_finite) / (double)n_finite;
    /* The square root is exactly rounded by IEEE 754, an instruction everywhere: no libm here either. */
    double sigma = sqrt(c->kernels->finite_squares(c->logit, c->n, mean) / (double)n_finite);
    double threshold = (double)max - (double)step->u.cut.p * sigma;
    float bound = threshold < -(double)FLT_MAX ? -FLT_MAX : (float)threshold;
    size_t n = plait_candidates_collect(c, c->logit, bound < max ? bound : max);
    int64_t n_masked = c->n_masked + (int64_t)(c->n - n);
    plait_candidates_keep(c, c->index, n);
    c->n_masked = n_masked; /* the definition masks */
    return PLAIT_OK;
}

const plait_step_kind plait_step_top_n_sigma = {.name = "top_n_sigma",
                                                .apply = top_n_sigma_apply,
                                                .idle = above_zero_idle,
                                                .fingerprint = cut_fingerprint};

plait_status plait_sampler_add_top_n_sigma(plait_sampler *sampler, float n) {
    PLAIT_TRY(plait_sampler_check("top_n_sigma", "n", (double)n, -(double)FLT_MAX, (double)FLT_MAX));
    return add_cut(sampler, &plait_step_top_n_sigma, n, 1);
}

/* ---- XTC ---- */

/* The random number belongs to (seed, pick, step): it is the same whether or not other steps asked for theirs. With the
 * probability, all candidates that reach the threshold go but the least of them: exclude the top choices, so a
 * plausible one that is not the first gets its turn. The best is excluded too, hence forget_max. */
static plait_status xtc_apply(plait_sampler *s, plait_step *step, plait_candidates *c) {
    float max = plait_candidates_max(c);
    if (step->u.xtc.threshold > 0.5f || max < -FLT_MAX) return PLAIT_OK;
    if (!(plait_philox_uniform(s->seed, s->picks, step->lane) < (double)step->u.xtc.probability))
        return PLAIT_OK;
    size_t n;
    if (step->u.xtc.threshold > 0.0f) {
        double total = plait_candidates_weigh(c, max);
        n = plait_candidates_collect(c, c->weight, (float)((double)step->u.xtc.threshold * total));
    } else {
        n = plait_candidates_collect(c, c->logit, -FLT_MAX);
    }
    if (n < 2 || (int64_t)c->n + c->n_masked - (int64_t)(n - 1) < (int64_t)step->u.xtc.min_keep)
        return PLAIT_OK;
    uint32_t least = c->index[0]; /* the last by falling logit, then rising id */
    for (size_t i = 1; i < n; i++)
        if (c->logit[c->index[i]] <= c->logit[least]) least = c->index[i];
    /* Few of many: removing them from the arrays would move all the others. */
    for (size_t i = 0; i < n; i++)
        if (c->index[i] != least) c->logit[c->index[i]] = -INFINITY;
    c->n_masked -= (int64_t)(n - 1);
    plait_candidates_forget_max(c);
    return PLAIT_OK;
}

static bool xtc_idle(const plait_step *step) {
    return step->u.xtc.threshold > 0.5f || step->u.xtc.probability <= 0.0f;
}

static uint64_t xtc_fingerprint(const plait_step *step, uint64_t hash) {
    hash = plait_sampler_hash_float(hash, step->u.xtc.probability);
    hash = plait_sampler_hash_float(hash, step->u.xtc.threshold);
    return plait_sampler_hash_u64(hash, step->u.xtc.min_keep);
}

const plait_step_kind plait_step_xtc = {
    .name = "xtc", .apply = xtc_apply, .idle = xtc_idle, .fingerprint = xtc_fingerprint};

plait_status plait_sampler_add_xtc(plait_sampler *sampler, float probability, float threshold,
                                   int32_t min_keep) {
    PLAIT_TRY(plait_sampler_check("xtc", "probability", (double)probability, 0, 1));
    PLAIT_TRY(plait_sampler_check("xtc", "threshold", (double)threshold, 0, (double)FLT_MAX));
    plait_step step = {.kind = &plait_step_xtc};
    step.u.xtc.probability = probability;
    step.u.xtc.threshold = threshold;
    step.u.xtc.min_keep = at_least_one(min_keep);
    return plait_sampler_append(sampler, &step, 0, 0);
}
