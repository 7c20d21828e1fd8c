/* Mirostat, versions 1 and 2: cuts so that the surprise of the text stays near tau (Basu et al. 2021). Not here: the
 * draw. Invariant: mu, the only state, moves in picked() alone, by the surprise that the picked token had before the
 * cut. */
#include "base/alloc.h"
#include "text/sampler/chain.h"
#include "text/sampler/numbers.h"
#include "text/sampler/select.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define LN_2 0x1.62e42fefa39efp-1

/* For n candidates at most; both arrays or none. Contents are scratch of one pick. */
static plait_status mirostat_reserve(plait_step *step, size_t n) {
    plait_mirostat *m = &step->u.mirostat;
    if (n <= m->capacity) return PLAIT_OK;
    float *logit = plait_alloc_array(n, sizeof *logit);
    plait_token *id = plait_alloc_array(n, sizeof *id);
    if (!logit || !id) {
        free(logit);
        free(id);
        return plait_error_memory("sampler mirostat", n * (sizeof *logit + sizeof *id));
    }
    free(m->logit);
    free(m->id);
    m->logit = logit;
    m->id = id;
    m->capacity = n;
    return PLAIT_OK;
}

/* Keeps what later steps may change but picked() needs. */
static void copy_candidates(plait_mirostat *m, const plait_candidates *c, double log_sum) {
    m->n = c->n;
    m->dense = c->dense;
    m->log_sum = log_sum;
    memcpy(m->logit, c->logit, c->n * sizeof *m->logit);
    if (!c->dense) memcpy(m->id, c->id, c->n * sizeof *m->id);
}

/* Surprise is -log2 of the probability before the cut: later steps may have removed others, but not changed what the
 * model said of this one when the step began. */
static void mirostat_picked(plait_step *step, plait_token token) {
    plait_mirostat *m = &step->u.mirostat;
    plait_candidates seen = {.dense = m->dense, .id = m->id, .n = m->n};
    int64_t at = plait_candidates_find(&seen, token);
    if (at < 0) return; /* everything was masked when this step began; the chain fails then */
    double surprise = (m->log_sum - (double)m->logit[at]) / LN_2;
    m->mu -= (double)m->eta * (surprise - (double)m->tau);
}

/* The bound is held at the largest logit, so that one token stays whatever mu is. */
static plait_status v2_apply(plait_sampler *s, plait_step *step, plait_candidates *c) {
    (void)s;
    plait_mirostat *m = &step->u.mirostat;
    m->n = 0;
    float max = plait_candidates_max(c);
    if (max < -FLT_MAX) return PLAIT_OK;
    double log_sum = (double)max + plait_sampler_log(plait_candidates_weigh(c, max));
    /* -log2 q <= mu is l >= ln Z - mu ln 2. */
    double threshold = log_sum - m->mu * LN_2;
    float bound = threshold > (double)max ? max : threshold < -(double)FLT_MAX ? -FLT_MAX : (float)threshold;
    plait_candidates_keep(c, c->index, plait_candidates_collect(c, c->logit, bound));
    copy_candidates(m, c, log_sum);
    return PLAIT_OK;
}

/* The exponent of the Zipf law that the best `n` candidates follow; index lists them by falling logit. Least squares
 * through the origin of b over t; equal logits give 0, a single candidate infinity. */
static double zipf_exponent(const plait_candidates *c, const uint32_t *index, size_t n) {
    double tb = 0.0, tt = 0.0;
    for (size_t i = 0; i + 1 < n; i++) {
        float next = c->logit[index[i + 1]];
        if (next < -FLT_MAX) break;
        double t = plait_sampler_log((double)(i + 2) / (double)(i + 1));
        tb += t * ((double)c->logit[index[i]] - (double)next);
        tt += t * t;
    }
    return tt > 0.0 ? tb / tt : INFINITY;
}

/* k = (e 2^mu / (1 - N^-e))^(1/s), e = s - 1, by logarithms; between 1 and limit. */
static size_t zipf_k(double s, double mu, double n_vocab, size_t limit) {
    if (s > 1e30 || n_vocab < 2.0) return 1; /* one token is everything */
    double e = s - 1.0, log_n = plait_sampler_log(n_vocab);
    /* e / (1 - N^-e) tends to 1 / ln N for small e. */
    double ratio = fabs(e) < 1e-9 ? 1.0 / log_n : e / (1.0 - plait_sampler_exp(-e * log_n));
    double log_base = plait_sampler_log(ratio) + mu * LN_2;
    double log_k = s < 1e-12 ? (log_base > 0.0 ? 1e9 : 0.0) : log_base / s;
    if (log_k > 40.0) return limit;
    double k = plait_sampler_exp(log_k);
    if (k >= (double)limit) return limit;
    return k < 1.0 ? 1 : (size_t)k;
}

/* n_vocab of the model, not of what earlier steps left: the law is about the whole vocabulary. */
static plait_status v1_apply(plait_sampler *s, plait_step *step, plait_candidates *c) {
    (void)s;
    plait_mirostat *m = &step->u.mirostat;
    m->n = 0;
    float max = plait_candidates_max(c);
    if (max < -FLT_MAX) return PLAIT_OK;
    double log_sum = (double)max + plait_sampler_log(plait_candidates_weigh(c, max));
    size_t n = plait_candidates_collect_best(c, (size_t)m->m);
    plait_sampler_sort_falling(c->logit, c->index, n);
    size_t k = zipf_k(zipf_exponent(c, c->index, n), m->mu, (double)c->n_vocab, c->n);
    n = plait_candidates_collect_best(c, k);
    plait_candidates_keep(c, c->index, n);
    copy_candidates(m, c, log_sum);
    return PLAIT_OK;
}

static uint64_t mirostat_fingerprint(const plait_step *step, uint64_t hash) {
    hash = plait_sampler_hash_float(hash, step->u.mirostat.tau);
    hash = plait_sampler_hash_float(hash, step->u.mirostat.eta);
    return plait_sampler_hash_u64(hash, (uint64_t)step->u.mirostat.m);
}

const plait_step_kind plait_step_mirostat_v1 = {.name = "mirostat_v1",
                                                .apply = v1_apply,
                                                .reserve = mirostat_reserve,
                                                .picked = mirostat_picked,
                                                .fingerprint = mirostat_fingerprint};

const plait_step_kind plait_step_mirostat_v2 = {.name = "mirostat_v2",
                                                .apply = v2_apply,
                                                .reserve = mirostat_reserve,
                                                .picked = mirostat_picked,
                                                .fingerprint = mirostat_fingerprint};

/* mu begins at 2 tau, which lets the first picks go freely. */
static plait_status add_mirostat(plait_sampler *s, const plait_step_kind *kind, float tau, float eta,
                                 int32_t m) {
    PLAIT_TRY(plait_sampler_check(kind->name, "tau", (double)tau, 0, 1e6));
    PLAIT_TRY(plait_sampler_check(kind->name, "eta", (double)eta, 0, 1e6));
    PLAIT_TRY(plait_sampler_check(kind->name, "m", m, 2, INT32_MAX));
    plait_step step = {.kind = kind};
    step.u.mirostat.tau = tau;
    step.u.mirostat.eta = eta;
    step.u.mirostat.m = m;
    step.u.mirostat.mu = 2.0 * (double)tau;
    return plait_sampler_append(s, &step, 0, 0);
}

plait_status plait_sampler_add_mirostat_v1(plait_sampler *sampler, float tau, float eta, int32_t m) {
    return add_mirostat(sampler, &plait_step_mirostat_v1, tau, eta, m);
}

plait_status plait_sampler_add_mirostat_v2(plait_sampler *sampler, float tau, float eta) {
    return add_mirostat(sampler, &plait_step_mirostat_v2, tau, eta, 2);
}
