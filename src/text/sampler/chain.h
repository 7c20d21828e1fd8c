/* Inside a sampler chain: what a step is, and what it may use. Each kind of step is one const descriptor,
 * listed once in chain.c; files steps_*.c hold them. Public contracts are in plait/sampler.h. */
#ifndef PLAIT_TEXT_SAMPLER_CHAIN_H
#define PLAIT_TEXT_SAMPLER_CHAIN_H

#include "base/status.h"
#include "plait/sampler.h"
#include "text/sampler/candidates.h"
#include "text/sampler/token_map.h"

typedef struct plait_step plait_step;

/* What a kind of step does. Functions that are NULL do not apply to it. */
typedef struct plait_step_kind {
    const char *name;
    /* Changes the candidates. May write the step's scratch, never its state: a pick may still fail. */
    plait_status (*apply)(plait_sampler *s, plait_step *step, plait_candidates *c);
    /* True when the step can do nothing to any logits. */
    bool (*idle)(const plait_step *step);
    /* For sparse edits: adds each token that apply would change to `out`; the value becomes 1 when the
     * logit may rise. */
    void (*edits)(plait_sampler *s, const plait_step *step, plait_token_map *out);
    /* For steps that keep exactly the k largest: k; 0 when they do not. */
    size_t (*best)(const plait_step *step);
    /* Takes scratch for n candidates. */
    plait_status (*reserve)(plait_step *step, size_t n);
    /* After a pick: moves the step's state. */
    void (*picked)(plait_step *step, plait_token token);
    /* Mixes the parameters into a fingerprint. */
    uint64_t (*fingerprint)(const plait_step *step, uint64_t hash);
} plait_step_kind;

typedef struct plait_mirostat {
    float tau, eta;
    int32_t m;
    double mu;       /* state */
    double log_sum;  /* scratch of a pick: max + ln(sum e^(l - max)) before this step's cut */
    float *logit;    /* Owned, scratch: the candidates that stayed, as they were at this step */
    plait_token *id; /* Owned, scratch */
    size_t n, capacity;
    bool dense;
} plait_mirostat;

struct plait_step {
    const plait_step_kind *kind;
    uint32_t lane; /* of random numbers: position in the chain + 1 */
    union {
        struct {
            float t, delta, exponent;
        } temp;
        int32_t k;
        struct {
            float p;
            size_t min_keep;
        } cut; /* top-p, min-p, typical, top-n-sigma (p is n) */
        struct {
            float probability, threshold;
            size_t min_keep;
        } xtc;
        struct {
            int32_t last_n;
            float repeat, frequency, presence;
        } penalties;
        struct {
            float multiplier, base;
            int32_t allowed_length, last_n;
            plait_token *breakers; /* Owned. Sorted. */
            size_t n_breakers;
        } dry;
        struct {
            plait_logit_bias *entries; /* Owned. */
            size_t n;
        } bias;
        plait_mirostat mirostat;
    } u;
};

struct plait_sampler {
    plait_step steps[PLAIT_SAMPLER_MAX_STEPS];
    size_t n_steps;
    uint64_t seed, picks;
    /* The last accepted tokens, a ring: the newest is at history_next - 1. */
    plait_token *history; /* Owned. */
    size_t history_capacity, history_length, history_next;
    bool started;           /* a token was picked or accepted: no more steps */
    plait_token_map counts; /* scratch of penalties and DRY */
    plait_token_map edited; /* scratch of plait_sampler_need */
    plait_token *need_ids;  /* Owned. [edited.capacity] */
    plait_token *reversed;  /* Owned. Scratch of DRY: the window, newest first; [dry_capacity] */
    uint32_t *match;        /* Owned. Scratch of DRY: lengths of matches; [dry_capacity] */
    size_t dry_capacity;
    size_t n_edits; /* tokens that the edit steps may name together, at most */
    plait_candidates set;
};

extern const plait_step_kind plait_step_bias, plait_step_penalties, plait_step_dry, plait_step_greedy,
    plait_step_temp, plait_step_temp_dynamic, plait_step_top_k, plait_step_top_p, plait_step_min_p,
    plait_step_typical, plait_step_top_n_sigma, plait_step_xtc, plait_step_mirostat_v1,
    plait_step_mirostat_v2;

/* Adds a finished step at the end and takes the memory that it needs while sampling: n_history tokens of
 * history, n_edits tokens that it may edit at most. Takes over what the step owns, also on failure. */
plait_status plait_sampler_append(plait_sampler *s, const plait_step *step, size_t n_history, size_t n_edits);

/* Uses another variant of the kernels from now on; for tests and benchmarks. */
void plait_sampler_use_kernels(plait_sampler *s, const plait_sampler_kernels *kernels);

/* plait_sampler_pick_from_all without its short cut for chains that need few logits: what tests compare
 * with. */
plait_status plait_sampler_pick_plainly(plait_sampler *s, const float *logits, int64_t n_vocab,
                                        plait_token *out_token);

/* The i-th newest token of the history, i < history_length. */
static inline plait_token plait_sampler_history(const plait_sampler *s, size_t i) {
    size_t back = i + 1;
    return s->history[s->history_next >= back ? s->history_next - back
                                              : s->history_next + s->history_capacity - back];
}

/* Only the largest logit stays, the lowest id of equal ones. */
void plait_sampler_keep_greedy(plait_candidates *c);

/* Parameter checks with one wording: "sampler STEP: FIELD is 3, expected 0 to 1". Bounds are inclusive. */
plait_status plait_sampler_check(const char *step, const char *field, double value, double low, double high);

/* FNV-1a over raw bytes, for fingerprints. */
uint64_t plait_sampler_hash_bytes(uint64_t hash, const void *bytes, size_t n);
uint64_t plait_sampler_hash_u64(uint64_t hash, uint64_t value);
uint64_t plait_sampler_hash_float(uint64_t hash, float value);

#endif
