/* Temperature, plain and dynamic. Invariant: finite logits stay finite, and the largest stays the largest. */
#include "text/sampler/chain.h"
#include "text/sampler/numbers.h"

#include <float.h>
#include <math.h>

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

static bool temp_idle(const plait_step *step) {
    return step->u.temp.delta <= 0.0f && step->u.temp.t == 1.0f;
}

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
