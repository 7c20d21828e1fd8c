/* Temperature, plain and dynamic. Not here: greedy as a step of its own (steps_cut.c). Invariant: finite logits stay
 * finite, and the largest stays the largest. */
#include "text/sampler/chain.h"
#include "text/sampler/numbers.h"

#include <float.h>
#include <math.h>

/* t 1 divides nothing, and leaves the logits bit for bit. */
static void apply_temperature(plait_candidates *c, float t) {
    float max = plait_candidates_max(c);
    if (max < -FLT_MAX || t == 1.0f) return;
    /* So cold that the largest logit would not fit into a float: beside it nothing has a chance. */
    if (t <= 0.0f || fabs((double)max) / (double)t > (double)FLT_MAX)
        plait_sampler_keep_greedy(c);
    else
        plait_candidates_divide(c, t);
}

static plait_status temp_apply(plait_sampler *s, plait_step *step, plait_candidates *c) {
    (void)s;
    apply_temperature(c, step->u.temp.t);
    return PLAIT_OK;
}

/* Entropy = ln Z + mean(max - l), over e^(l - max) as weights. Rounding may put h a little outside of [0, 1], where the
 * power would go wrong. n counts masked candidates too, as the definition does, which divides by the logarithm of them
 * all. */
static plait_status temp_dynamic_apply(plait_sampler *s, plait_step *step, plait_candidates *c) {
    double t = (double)step->u.temp.t, delta = (double)step->u.temp.delta;
    if (delta <= 0.0) return temp_apply(s, step, c);
    float max = plait_candidates_max(c);
    int64_t n = (int64_t)c->n + c->n_masked;
    if (n < 2 || max < -FLT_MAX) return PLAIT_OK;
    double total = plait_candidates_weigh(c, max);
    double entropy =
        plait_sampler_log(total) + c->kernels->weighted_gap(c->weight, c->logit, c->n, max) / total;
    double h = entropy / plait_sampler_log((double)n);
    h = h > 0.0 ? h < 1.0 ? h : 1.0 : 0.0;
    double low = t > delta ? t - delta : 0.0, high = t + delta > 0.0 ? t + delta : 0.0;
    double dynamic = low + (high - low) * plait_sampler_pow(h, (double)step->u.temp.exponent);
    apply_temperature(c, dynamic < (double)FLT_MAX ? (float)dynamic : FLT_MAX);
    return PLAIT_OK;
}

/* Only a plain temperature of 1 can be told to do nothing; a dynamic one depends on the logits. */
static bool temp_idle(const plait_step *step) {
    return step->u.temp.delta <= 0.0f && step->u.temp.t == 1.0f;
}

/* Cold: the largest one stays, as after greedy. */
static size_t temp_best(const plait_step *step) {
    return step->u.temp.delta <= 0.0f && step->u.temp.t <= 0.0f;
}

static uint64_t temp_fingerprint(const plait_step *step, uint64_t hash) {
    hash = plait_sampler_hash_float(hash, step->u.temp.t);
    hash = plait_sampler_hash_float(hash, step->u.temp.delta);
    return plait_sampler_hash_float(hash, step->u.temp.exponent);
}

const plait_step_kind plait_step_temp = {.name = "temp",
                                         .apply = temp_apply,
                                         .idle = temp_idle,
                                         .best = temp_best,
                                         .fingerprint = temp_fingerprint};

const plait_step_kind plait_step_temp_dynamic = {.name = "temp_dynamic",
                                                 .apply = temp_dynamic_apply,
                                                 .idle = temp_idle,
                                                 .best = temp_best,
                                                 .fingerprint = temp_fingerprint};

plait_status plait_sampler_add_temp(plait_sampler *sampler, float t) {
    PLAIT_TRY(plait_sampler_check("temp", "t", (double)t, -(double)FLT_MAX, (double)FLT_MAX));
    plait_step step = {.kind = &plait_step_temp};
    step.u.temp.t = t;
    return plait_sampler_append(sampler, &step, 0, 0);
}

plait_status plait_sampler_add_temp_dynamic(plait_sampler *sampler, float t, float delta, float exponent) {
    const char *name = plait_step_temp_dynamic.name;
    PLAIT_TRY(plait_sampler_check(name, "t", (double)t, -(double)FLT_MAX, (double)FLT_MAX));
    PLAIT_TRY(plait_sampler_check(name, "delta", (double)delta, -(double)FLT_MAX, (double)FLT_MAX));
    PLAIT_TRY(plait_sampler_check(name, "exponent", (double)exponent, 0, (double)FLT_MAX));
    plait_step step = {.kind = &plait_step_temp_dynamic};
    step.u.temp.t = t;
    step.u.temp.delta = delta;
    step.u.temp.exponent = exponent;
    return plait_sampler_append(sampler, &step, 0, 0);
}
