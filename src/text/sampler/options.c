/* From everyday options to a chain. Not here: parameters of steps (checked where they are added) and the command line's
 * names for options (cli/options.c). Invariant: an option at its "off" value adds no step. */
#include "text/sampler/chain.h"

/* Fields that are left out are 0, their off value or default. */
void plait_sampler_options_default(plait_sampler_options *options) {
    *options = (plait_sampler_options){.top_k = 40,
                                       .top_p = 0.95f,
                                       .min_p = 0.05f,
                                       .typical_p = 1.0f,
                                       .xtc_threshold = 0.1f,
                                       .dynatemp_exponent = 1.0f,
                                       .repeat_last_n = 64,
                                       .repeat_penalty = 1.0f,
                                       .dry_base = 1.75f,
                                       .dry_allowed_length = 2,
                                       .dry_last_n = 4096,
                                       .mirostat_tau = 5.0f,
                                       .mirostat_eta = 0.1f};
}

/* Edits come first: plait_sampler_need can then ask for few logits. */
static plait_status add_edits(plait_sampler *s, const plait_sampler_options *o) {
    if (o->n_bias) PLAIT_TRY(plait_sampler_add_bias(s, o->bias, o->n_bias));
    bool penalties = o->repeat_penalty != 1.0f || o->frequency_penalty != 0.0f || o->presence_penalty != 0.0f;
    if (penalties && o->repeat_last_n != 0)
        PLAIT_TRY(plait_sampler_add_penalties(s, o->repeat_last_n, o->repeat_penalty, o->frequency_penalty,
                                              o->presence_penalty));
    if (o->dry_multiplier != 0.0f && o->dry_last_n != 0)
        PLAIT_TRY(plait_sampler_add_dry(s, o->dry_multiplier, o->dry_base, o->dry_allowed_length,
                                        o->dry_last_n, o->dry_breakers, o->n_dry_breakers));
    return PLAIT_OK;
}

/* temp 1 adds nothing: a step that does nothing would still be one of 64. */
static plait_status add_temperature(plait_sampler *s, const plait_sampler_options *o) {
    if (o->dynatemp_range > 0.0f)
        return plait_sampler_add_temp_dynamic(s, o->temp, o->dynatemp_range, o->dynatemp_exponent);
    return o->temp == 1.0f ? PLAIT_OK : plait_sampler_add_temp(s, o->temp);
}

/* m of version 1: 100 neighbours, as implementations commonly take. */
static plait_status add_mirostat(plait_sampler *s, const plait_sampler_options *o) {
    PLAIT_TRY(add_temperature(s, o));
    if (o->mirostat == 1) return plait_sampler_add_mirostat_v1(s, o->mirostat_tau, o->mirostat_eta, 100);
    if (o->mirostat == 2) return plait_sampler_add_mirostat_v2(s, o->mirostat_tau, o->mirostat_eta);
    return plait_error(PLAIT_INVALID_ARGUMENT, "sampler options: mirostat is %d, expected 0, 1 or 2",
                       o->mirostat);
}

/* The comparisons are written so that NaN reaches the step, which refuses it. The order is that of the declaration,
 * which says why. */
static plait_status add_cuts(plait_sampler *s, const plait_sampler_options *o) {
    if (!(o->top_n_sigma <= 0.0f)) PLAIT_TRY(plait_sampler_add_top_n_sigma(s, o->top_n_sigma));
    if (o->top_k > 0) PLAIT_TRY(plait_sampler_add_top_k(s, o->top_k));
    if (!(o->typical_p >= 1.0f)) PLAIT_TRY(plait_sampler_add_typical(s, o->typical_p, 1));
    if (!(o->top_p >= 1.0f)) PLAIT_TRY(plait_sampler_add_top_p(s, o->top_p, 1));
    if (!(o->min_p <= 0.0f)) PLAIT_TRY(plait_sampler_add_min_p(s, o->min_p, 1));
    if (o->xtc_probability != 0.0f)
        PLAIT_TRY(plait_sampler_add_xtc(s, o->xtc_probability, o->xtc_threshold, 1));
    return add_temperature(s, o);
}

/* With greedy nothing behind it could change the choice. */
static plait_status add_steps(plait_sampler *s, const plait_sampler_options *o) {
    PLAIT_TRY(add_edits(s, o));
    if (o->temp <= 0.0f) return plait_sampler_add_greedy(s);
    if (o->mirostat != 0) return add_mirostat(s, o);
    return add_cuts(s, o);
}

/* A chain that failed half-way is destroyed; its steps own what they were given. */
plait_status plait_sampler_create_from_options(plait_sampler **out_sampler,
                                               const plait_sampler_options *options) {
    plait_sampler_options defaults;
    plait_sampler_options_default(&defaults);
    if (!options) options = &defaults;
    plait_sampler *s = NULL;
    PLAIT_TRY(plait_sampler_create(&s, options->seed));
    plait_status status = add_steps(s, options);
    if (status != PLAIT_OK) {
        plait_sampler_destroy(s);
        return status;
    }
    *out_sampler = s;
    return PLAIT_OK;
}
