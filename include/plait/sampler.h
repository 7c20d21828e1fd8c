/* Samplers: from logits to the next token.
 *
 * A plait_sampler is a chain: small steps, applied in the order in which they were added, then one draw
 * from what they left. Each step works on the tokens and logits that the step before left; probabilities
 * (softmax) are taken anew over those.
 *
 *     plait_sampler *s = NULL;
 *     PLAIT_TRY(plait_sampler_create(&s, 42));
 *     PLAIT_TRY(plait_sampler_add_top_k(s, 40));
 *     PLAIT_TRY(plait_sampler_add_temp(s, 0.8f));
 *     ...
 *     PLAIT_TRY(plait_sampler_pick_from_all(s, logits, n_vocab, &token));
 *     PLAIT_TRY(plait_sampler_accept(s, token));
 *
 * Repeatable everywhere. The same chain, seed, history and logits give the same token on every machine, for
 * every SIMD variant and any number of threads: random numbers come from a counter (Philox4x32-10), exp and
 * log are plait's own, sums have a fixed order, nothing is contracted, and no function of libm takes part.
 *
 * State is the history of accepted tokens, the mu of each mirostat step and the number of picks so far. It
 * can be cloned, saved and loaded. Memory is taken when steps are added and at the first pick of a
 * vocabulary size (plait_sampler_reserve does it earlier); later picks allocate nothing.
 *
 * Threading: a chain is used by one thread at a time; different chains are independent.
 *
 * Errors: logits that are NaN or plus infinity, and chains that leave no token at all (everything minus
 * infinity), are INVALID_ARGUMENT with the count and the first index in the message; the state is then as
 * before the call.
 */
#ifndef PLAIT_SAMPLER_H
#define PLAIT_SAMPLER_H

#include "plait/types.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A chain of steps and its state. */
typedef struct plait_sampler plait_sampler;

/* Bounds of a chain; LIMIT or INVALID_ARGUMENT beyond. */
#define PLAIT_SAMPLER_MAX_STEPS 64
/* Longest history window of a step, in tokens. */
#define PLAIT_SAMPLER_MAX_HISTORY (1 << 20)
/* Most entries of one logit-bias or sequence-breaker list. */
#define PLAIT_SAMPLER_MAX_LIST (1 << 20)
/* Largest vocabulary. */
#define PLAIT_SAMPLER_MAX_VOCAB (1 << 26)

/* ---- a chain from everyday options ---- */

/* Adds `bias` to the logit of `token`; minus infinity forbids it. */
typedef struct plait_logit_bias {
    plait_token token;
    float bias;
} plait_logit_bias;

/* What people set. Fill with plait_sampler_options_default, then change fields. "Off" values add no step. */
typedef struct plait_sampler_options {
    uint64_t seed;
    float temp;        /* 0 or less: greedy, and then only bias, penalties and DRY matter. Default 0 */
    int32_t top_k;     /* 0 or less: off. Default 40 */
    float top_p;       /* 1 or more: off. Default 0.95 */
    float min_p;       /* 0 or less: off. Default 0.05 */
    float typical_p;   /* 1 or more: off. Default 1 */
    float top_n_sigma; /* 0 or less: off. Default 0 */
    float xtc_probability, xtc_threshold;    /* probability 0: off. Defaults 0 and 0.1 */
    float dynatemp_range, dynatemp_exponent; /* range 0: plain temperature. Defaults 0 and 1 */
    int32_t repeat_last_n;                   /* window of the three penalties in tokens; 0: off. Default 64 */
    float repeat_penalty, frequency_penalty, presence_penalty; /* 1, 0, 0: off, the default */
    float dry_multiplier;                                      /* 0: off, the default */
    float dry_base;                                            /* Default 1.75 */
    int32_t dry_allowed_length, dry_last_n;                    /* Defaults 2 and 4096 */
    const plait_token *dry_breakers;                           /* Borrowed during the call. Default none */
    size_t n_dry_breakers;
    int mirostat; /* 0: off; 1 or 2: this version takes the place of all truncating steps. Default 0 */
    float mirostat_tau, mirostat_eta; /* Defaults 5 and 0.1 */
    const plait_logit_bias *bias;     /* Borrowed during the call. Default none */
    size_t n_bias;
} plait_sampler_options;

/* Sets every field. */
void plait_sampler_options_default(plait_sampler_options *options);

/* A chain in this order: bias, penalties, DRY, then
 *   temp <= 0:   greedy;
 *   mirostat:    temp, mirostat;
 *   otherwise:   top-n-sigma, top-k, typical, top-p, min-p, XTC, temp (dynamic when asked).
 * Truncation comes before temperature so that a high temperature does not let improbable tokens back in.
 * The one step that needs all logits (top-n-sigma) comes first; without it plait_sampler_need asks for few
 * logits. NULL options are the defaults. Errors: INVALID_ARGUMENT names the field and the value. The caller
 * destroys *out_sampler. */
plait_status plait_sampler_create_from_options(plait_sampler **out_sampler,
                                               const plait_sampler_options *options);

/* ---- a chain step by step ---- */

/* An empty chain: draws from the softmax of the logits as they are. */
plait_status plait_sampler_create(plait_sampler **out_sampler, uint64_t seed);
/* Accepts NULL. */
void plait_sampler_destroy(plait_sampler *sampler);

/* Each of these adds a step at the end. Common errors: INVALID_ARGUMENT for parameters that are NaN or
 * outside what is said, LIMIT beyond PLAIT_SAMPLER_MAX_STEPS, WRONG_STATE once a token was picked or
 * accepted, OUT_OF_MEMORY; the chain is then as before. Ties are broken by the lower token id everywhere.
 * min_keep is a number of tokens that a truncating step keeps at least; 0 counts as 1, since one token
 * always stays. */

/* logit + bias for each entry; a token named twice gets both. bias: finite or minus infinity. The list is
 * copied. Tokens outside of the vocabulary of a pick are ignored. Definition: OpenAI API reference,
 * "logit_bias". */
plait_status plait_sampler_add_bias(plait_sampler *sampler, const plait_logit_bias *entries,
                                    size_t n_entries);

/* Counts the last last_n accepted tokens; a token with count c > 0: a logit <= 0 is multiplied by repeat,
 * one > 0 is divided by it; then c * frequency + presence is subtracted. last_n 0: nothing happens. repeat
 * > 0, the others finite. Definitions: Keskar et al. 2019, "CTRL", section 4.1 (repeat, with the sign rule
 * that everybody uses since); OpenAI API reference (frequency, presence). */
plait_status plait_sampler_add_penalties(plait_sampler *sampler, int32_t last_n, float repeat,
                                         float frequency, float presence);

/* DRY ("don't repeat yourself"): looks at the last last_n accepted tokens. For each earlier place where the
 * end of that text occurred before, over m tokens, the token that followed there gets its logit lowered by
 * multiplier * base^(m - allowed_length) if m >= allowed_length (the longest m counts for each token). A
 * breaker ends a match, and is never penalised itself. last_n 0 or multiplier 0: nothing happens.
 * multiplier >= 0, base >= 1, allowed_length >= 1. Time is linear in last_n (Z function of the reversed
 * text). Definition: P. E. Weidmann, pull request 5677 of oobabooga/text-generation-webui, "DRY: A modern
 * repetition penalty that reliably prevents looping", 2024. There breakers are strings; here the caller,
 * who has the vocabulary, gives their token ids. */
plait_status plait_sampler_add_dry(plait_sampler *sampler, float multiplier, float base,
                                   int32_t allowed_length, int32_t last_n, const plait_token *breakers,
                                   size_t n_breakers);

/* Only the largest logit stays. */
plait_status plait_sampler_add_greedy(plait_sampler *sampler);

/* logit / t for t > 0; t <= 0: as greedy. So small a t that the largest logit would overflow: as greedy
 * too. */
plait_status plait_sampler_add_temp(plait_sampler *sampler, float t);

/* Dynamic temperature: H = entropy / ln(n) with n the number of candidates, those of minus infinity
 * included (those that top-n-sigma masked too); the temperature is lo + (hi - lo) H^exponent with lo =
 * max(0, t - delta), hi = t + delta. delta <= 0: as temp(t). A single candidate: nothing happens. exponent
 * >= 0. Definition: "entropy sampling" by kalomaze, 2023. */
plait_status plait_sampler_add_temp_dynamic(plait_sampler *sampler, float t, float delta, float exponent);

/* The k largest stay; k <= 0: all. Definition: Fan et al. 2018. */
plait_status plait_sampler_add_top_k(plait_sampler *sampler, int32_t k);

/* The shortest prefix, by falling probability, whose sum is >= p; p >= 1: all. Definition: Holtzman et al.
 * 2020. */
plait_status plait_sampler_add_top_p(plait_sampler *sampler, float p, int32_t min_keep);

/* Tokens with logit >= largest logit + ln p; p <= 0: all; p <= 1. Definition: Nguyen et al. 2024, "min-p". */
plait_status plait_sampler_add_min_p(plait_sampler *sampler, float p, int32_t min_keep);

/* Locally typical: by rising |-ln q - entropy|, the shortest prefix whose sum is > p; p >= 1: all.
 * Definition: Meister et al. 2022. */
plait_status plait_sampler_add_typical(plait_sampler *sampler, float p, int32_t min_keep);

/* logit >= max - n * sigma, sigma the population standard deviation of the finite logits; n <= 0: all.
 * Definition: Tang et al. 2024, "Top-nsigma". */
plait_status plait_sampler_add_top_n_sigma(plait_sampler *sampler, float n);

/* XTC ("exclude top choices"): with the given probability, if at least two tokens have q >= threshold, all
 * of them but the least probable are removed, provided that at least min_keep tokens stay. threshold > 0.5
 * or probability 0: nothing happens. Definition: P. E. Weidmann, pull request 6335 of
 * oobabooga/text-generation-webui, 2024. */
plait_status plait_sampler_add_xtc(plait_sampler *sampler, float probability, float threshold,
                                   int32_t min_keep);

/* Mirostat, version 1: mu starts at 2 tau. s = sum(t_i b_i) / sum(t_i^2) with t_i = ln((i+2)/(i+1)), b_i =
 * ln(q_i / q_(i+1)) over the first min(m, n) - 1 neighbours by falling probability; e = s - 1; k = (e 2^mu
 * / (1 - N^-e))^(1/s), N the size of the vocabulary; the max(1, floor k) largest stay. After a pick, mu -=
 * eta (surprise - tau), where surprise is -log2 of the probability that the picked token had when this step
 * began. m >= 2. tau and eta between 0 and 1e6. Definition: Basu et al. 2021, "Mirostat", algorithm 1. */
plait_status plait_sampler_add_mirostat_v1(plait_sampler *sampler, float tau, float eta, int32_t m);

/* Mirostat, version 2: tokens with -log2 q <= mu stay, at least one; mu as above. Definition: the same,
 * algorithm 2. */
plait_status plait_sampler_add_mirostat_v2(plait_sampler *sampler, float tau, float eta);

/* ---- what a chain needs of the logits ---- */

typedef enum plait_logits_kind {
    PLAIT_LOGITS_ARGMAX = 0, /* the id of the largest logit, the lowest such id */
    PLAIT_LOGITS_BEST = 1,   /* the n largest with their ids, and the logits of some named ids */
    PLAIT_LOGITS_ALL = 2
} plait_logits_kind;

typedef struct plait_logits_need {
    plait_logits_kind kind;
    int64_t n; /* ARGMAX: 1; BEST: how many of the best; ALL: n_vocab */
    const plait_token
        *ids; /* BEST: ids whose logits are wanted besides. Borrowed until the next call on the chain. */
    size_t n_ids;
} plait_logits_need;

/* Says which logits the next pick needs, given the state now. Ask after the last accept before the pick.
 *
 * A chain that begins with edits of m tokens (bias, penalties, DRY; steps that do nothing are skipped)
 * followed by top-k, or by greedy (k = 1), needs only the k + m best: at least k of these are not edited,
 * and they all stand before every token that is not among the k + m best and was not raised. Tokens that an
 * edit can raise may come from anywhere, so their ids are listed, and their logits are needed even when
 * they are not among the best. Without edits greedy needs the argmax alone. Everything else, and k + m >=
 * n_vocab, needs all logits. */
plait_status plait_sampler_need(plait_sampler *sampler, int64_t n_vocab, plait_logits_need *out_need);

/* ---- picking ---- */

/* Takes memory for vocabularies of up to n_vocab tokens now, so that not even the first pick allocates. */
plait_status plait_sampler_reserve(plait_sampler *sampler, int64_t n_vocab);

/* Applies the chain to logits[0 .. n_vocab) and draws. The logits are not changed. A success counts the
 * pick and moves every mu; it does not accept the token. */
plait_status plait_sampler_pick_from_all(plait_sampler *sampler, const float *logits, int64_t n_vocab,
                                         plait_token *out_token);

/* The same from n pairs of id and logit, in any order, an id may occur twice (the pairs must then be
 * equal): the need.n best, where of equal logits the lower ids count as better, and the need.ids. The
 * result is that of plait_sampler_pick_from_all on the whole vector, bit for bit. INVALID_ARGUMENT when
 * there are fewer than the need; NaN is seen only among the given. */
plait_status plait_sampler_pick_from_best(plait_sampler *sampler, const plait_token *ids, const float *logits,
                                          size_t n, int64_t n_vocab, plait_token *out_token);

/* Adds a token to the history that penalties and DRY look at. Call it for prompt tokens too if they shall
 * count. OUT_OF_RANGE for a negative id. */
plait_status plait_sampler_accept(plait_sampler *sampler, plait_token token);

/* The distribution that the next plait_sampler_pick_from_all on these logits would draw from; nothing of
 * the state changes. Writes the first `capacity` tokens by falling probability, equal ones by rising id.
 * *out_kept is the number of tokens that were not removed (finite logits); their probability may have
 * underflowed to 0. */
plait_status plait_sampler_distribution(plait_sampler *sampler, const float *logits, int64_t n_vocab,
                                        plait_token *out_ids, float *out_probs, size_t capacity,
                                        size_t *out_kept);

/* ---- state ---- */

/* As fresh: no history, no picks, every mu at its start. The seed stays. */
void plait_sampler_reset(plait_sampler *sampler);
/* A new seed, and the pick counter at 0; history and mu stay. */
void plait_sampler_reseed(plait_sampler *sampler, uint64_t seed);

/* An independent copy with the same steps and state. The caller destroys it. */
plait_status plait_sampler_clone(const plait_sampler *sampler, plait_sampler **out_copy);

/* Size in bytes of the state as saved now. */
size_t plait_sampler_state_bytes(const plait_sampler *sampler);
/* Writes the state (seed, picks, history, mu; not the steps) to out, the same bytes on every machine.
 * OUT_OF_RANGE when capacity_bytes is too small. */
plait_status plait_sampler_save(const plait_sampler *sampler, void *out, size_t capacity_bytes);
/* Restores it into a chain with the same steps and parameters. CORRUPT for bytes that no save wrote,
 * INVALID_ARGUMENT for another chain's; the state is then as before. */
plait_status plait_sampler_load(plait_sampler *sampler, const void *bytes, size_t size_bytes);

#ifdef __cplusplus
}
#endif
#endif
