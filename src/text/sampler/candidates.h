/* The tokens still in play while a chain is applied, with their logits, and the scratch memory of the steps.
 *
 * Invariant: candidates are always in the order of rising token id. Sums and the final draw run in that
 * order, so they depend on which tokens are in play and never on how they were found; that is why picking
 * from the few best gives the same token as picking from all.
 */
#ifndef PLAIT_TEXT_SAMPLER_CANDIDATES_H
#define PLAIT_TEXT_SAMPLER_CANDIDATES_H

#include "plait/sampler.h"
#include "text/sampler/kernels.h"

typedef struct plait_candidates {
    const plait_sampler_kernels *kernels;
    size_t n; /* candidates in play, at least 1 */
    /* Candidates of no weight that are not in the arrays, less those in the arrays that are none any more. */
    int64_t n_masked;
    int64_t n_vocab; /* size of the whole vocabulary */
    /* The largest logit, once someone has asked for it; steps that may lower it say so. */
    float max;
    bool max_known;
    bool dense;      /* id[i] is i, and the array id is not filled */
    float *logit;    /* [n]; NaN and plus infinity never occur */
    plait_token *id; /* [n] */
    float *weight;   /* [n]: e^(logit - max), as far as a step filled it */
    float *order;    /* scratch, as are all below */
    uint32_t *index; /* where selections collect their result */
    uint32_t *index2, *index3;
    float *group; /* [capacity / 8 + 1] */
    size_t capacity;
    void *memory; /* Owned. All arrays lie in it. */
} plait_candidates;

/* Room for n candidates; contents are lost when it grows. */
plait_status plait_candidates_reserve(plait_candidates *c, size_t n);
void plait_candidates_deinit(plait_candidates *c);

/* All of a vocabulary. Fails as the public header says for NaN and plus infinity. */
plait_status plait_candidates_load(plait_candidates *c, const float *logits, size_t n_vocab);
/* Some of it: any order, equal ids once. */
plait_status plait_candidates_load_pairs(plait_candidates *c, const plait_token *ids, const float *logits,
                                         size_t n, size_t n_vocab);

/* The k best of a whole vocabulary and the ids named besides, all of which must be in it; or simply all
 * when that is quicker. Looks at every logit, and fails as plait_candidates_load does. */
plait_status plait_candidates_load_best(plait_candidates *c, const float *logits, size_t n_vocab, size_t k,
                                        const plait_token *ids, size_t n_ids);

static inline plait_token plait_candidates_id(const plait_candidates *c, size_t i) {
    return c->dense ? (plait_token)i : c->id[i];
}
/* Index of a token, or -1 when it is not in play. */
int64_t plait_candidates_find(const plait_candidates *c, plait_token id);

/* The largest logit; minus infinity when everything is masked. Remembered until
 * plait_candidates_forget_max. */
float plait_candidates_max(plait_candidates *c);
/* To be called after a change that may concern the largest logit. */
static inline void plait_candidates_forget_max(plait_candidates *c) {
    c->max_known = false;
}
/* Divides every logit by t > 0. */
void plait_candidates_divide(plait_candidates *c, float t);
/* Fills weight and returns its sum; max must be finite and the largest logit. */
double plait_candidates_weigh(plait_candidates *c, float max);

/* Collects the indices i with x[i] >= threshold into c->index, rising; returns their number. x is logit or
 * weight. */
size_t plait_candidates_collect(plait_candidates *c, const float *x, float threshold);
/* Collects all indices. */
size_t plait_candidates_collect_all(plait_candidates *c);
/* Collects the indices of the k largest logits, ties by lower id, rising; returns min(k, n). */
size_t plait_candidates_collect_best(plait_candidates *c, size_t k);
/* Keeps the candidates listed in index[0..n) (rising), n >= 1; weights are lost. Masked ones outside are
 * dropped. */
void plait_candidates_keep(plait_candidates *c, const uint32_t *index, size_t n);

/* Drops candidates below a threshold that the caller knows to be out, and keeps the others' weights, where
 * that is worth the trouble and leaves at least min_keep. */
void plait_candidates_prefilter(plait_candidates *c, float threshold, size_t min_keep);

/* Sets the logit at i to a value computed in double: held within what floats can say; masked ones stay
 * masked. */
void plait_candidates_set(plait_candidates *c, size_t i, double value);

#endif
