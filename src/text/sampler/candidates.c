/* The set of candidates. Invariant: see candidates.h; no function here allocates but
 * plait_candidates_reserve. */
#include "text/sampler/candidates.h"

#include "base/alloc.h"
#include "base/size.h"
#include "text/sampler/select.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* One allocation for all arrays: each rounded to 64 elements, so that every one begins at a cache line. The scratch of
 * the steps is here because it grows with the vocabulary. A failure leaves the old arrays; growing does not keep their
 * contents, since each load fills them anew. */
plait_status plait_candidates_reserve(plait_candidates *c, size_t n) {
    if (n <= c->capacity) return PLAIT_OK;
    size_t rounded = (n + 63) & ~(size_t)63, bytes; /* n is at most PLAIT_SAMPLER_MAX_VOCAB */
    size_t group = rounded / 8 + 16;
    if (!plait_mul_size(rounded, 7, &bytes) || !plait_add_size(bytes, group, &bytes) ||
        !plait_mul_size(bytes, 4, &bytes))
        return plait_error_memory("sampler candidates", UINT64_MAX);
    char *memory = plait_alloc_aligned(64, bytes);
    if (!memory) return plait_error_memory("sampler candidates", bytes);
    free(c->memory);
    c->memory = memory;
    c->capacity = rounded;
    size_t each = rounded * 4;
    c->logit = (float *)(void *)memory;
    c->weight = (float *)(void *)(memory + each);
    c->order = (float *)(void *)(memory + 2 * each);
    c->id = (plait_token *)(void *)(memory + 3 * each);
    c->index = (uint32_t *)(void *)(memory + 4 * each);
    c->index2 = (uint32_t *)(void *)(memory + 5 * each);
    c->index3 = (uint32_t *)(void *)(memory + 6 * each);
    c->group = (float *)(void *)(memory + 7 * each);
    return PLAIT_OK;
}

void plait_candidates_deinit(plait_candidates *c) {
    free(c->memory);
    *c = (plait_candidates){.kernels = c->kernels};
}

/* The slow path of loading: what exactly is wrong. Counting anew costs a pass, on a path that ends in an error. `ids`
 * NULL: the index is the token. */
static plait_status bad_logits(const float *logits, const plait_token *ids, size_t n) {
    size_t n_nan = 0, n_inf = 0, first = n;
    for (size_t i = 0; i < n; i++) {
        bool nan = logits[i] != logits[i], inf = logits[i] > FLT_MAX;
        n_nan += nan;
        n_inf += inf;
        if ((nan || inf) && first == n) first = i;
    }
    return plait_error(
        PLAIT_INVALID_ARGUMENT,
        "sampler: %zu of %zu logits are NaN and %zu are plus infinity, the first for token %lld; expected "
        "finite values or minus infinity",
        n_nan, n, n_inf, (long long)(ids ? ids[first] : (plait_token)first));
}

/* `id` stays unfilled: while nothing was removed the index is the id, and an array of a hundred thousand ids need not
 * be written for every token. */
plait_status plait_candidates_load(plait_candidates *c, const float *logits, size_t n_vocab) {
    PLAIT_TRY(plait_candidates_reserve(c, n_vocab));
    if (c->kernels->load(c->logit, logits, n_vocab)) return bad_logits(logits, NULL, n_vocab);
    c->n = n_vocab;
    c->n_vocab = (int64_t)n_vocab;
    c->n_masked = 0;
    c->dense = true;
    c->max_known = false;
    return PLAIT_OK;
}

/* Pairs of equal id in the order in which they were given: which of them is kept does not depend on the sort. */
static int compare_ids(const plait_token *ids, uint32_t a, uint32_t b) {
    return ids[a] < ids[b] ? -1 : ids[a] > ids[b] ? 1 : a < b ? -1 : 1;
}

/* Shell sort by id: the lists are short, and mostly sorted by something else. Not qsort: it may allocate, and a pick
 * must not. */
static void sort_by_id(const plait_token *ids, uint32_t *index, size_t n) {
    size_t gap = 1;
    while (gap < n / 3) gap = gap * 3 + 1;
    for (; gap > 0; gap /= 3)
        for (size_t i = gap; i < n; i++) {
            uint32_t moving = index[i];
            size_t j = i;
            for (; j >= gap && compare_ids(ids, moving, index[j - gap]) < 0; j -= gap)
                index[j] = index[j - gap];
            index[j] = moving;
        }
}

/* Ids twice are legal when both say the same (the best and the named ids overlap), an error otherwise: one of the two
 * logits must be wrong. On failure the set is useless until the next load, but no state of the chain has changed. The
 * pairs may come in any order; the set is sorted by id, so results do not depend on the device that found them. */
plait_status plait_candidates_load_pairs(plait_candidates *c, const plait_token *ids, const float *logits,
                                         size_t n, size_t n_vocab) {
    PLAIT_TRY(plait_candidates_reserve(c, n));
    for (size_t i = 0; i < n; i++) {
        if (ids[i] < 0 || (size_t)ids[i] >= n_vocab)
            return plait_error(PLAIT_OUT_OF_RANGE, "sampler: pair %zu names token %lld, expected 0 to %zu", i,
                               (long long)ids[i], n_vocab - 1);
        if (!(logits[i] <= FLT_MAX)) return bad_logits(logits, ids, n);
        c->index[i] = (uint32_t)i;
    }
    sort_by_id(ids, c->index, n);
    size_t kept = 0;
    for (size_t i = 0; i < n; i++) {
        uint32_t from = c->index[i];
        if (kept > 0 && c->id[kept - 1] == ids[from]) {
            if (c->logit[kept - 1] == logits[from]) continue;
            return plait_error(PLAIT_INVALID_ARGUMENT,
                               "sampler: token %lld is given with two logits, %g and %g",
                               (long long)ids[from], (double)c->logit[kept - 1], (double)logits[from]);
        }
        c->id[kept] = ids[from];
        c->logit[kept++] = logits[from];
    }
    c->n = kept;
    c->n_vocab = (int64_t)n_vocab;
    c->n_masked = 0;
    c->dense = false;
    c->max_known = false;
    return PLAIT_OK;
}

/* Binary search: ids rise (the invariant). */
int64_t plait_candidates_find(const plait_candidates *c, plait_token id) {
    if (c->dense) return id >= 0 && (size_t)id < c->n ? id : -1;
    size_t low = 0, high = c->n;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (c->id[middle] < id)
            low = middle + 1;
        else
            high = middle;
    }
    return low < c->n && c->id[low] == id ? (int64_t)low : -1;
}

float plait_candidates_max(plait_candidates *c) {
    if (!c->max_known) c->max = c->kernels->max(c->logit, c->n);
    c->max_known = true;
    return c->max;
}

void plait_candidates_divide(plait_candidates *c, float t) {
    c->kernels->divide(c->logit, c->n, t);
    if (c->max_known) c->kernels->divide(&c->max, 1, t); /* division keeps the order */
}

double plait_candidates_weigh(plait_candidates *c, float max) {
    return c->kernels->weigh(c->weight, c->logit, c->n, max);
}

/* Collects x[i] >= threshold into c->index, given the maxima of the groups: groups without such an element are not
 * looked at. The index is written always and counted when it fits: a branch on data of no pattern would cost more. NaN
 * is in neither array: loading refused it. The order found is rising, as keep wants it. */
static size_t collect_grouped(plait_candidates *c, const float *x, size_t n, float threshold, size_t group) {
    size_t found = 0, n_groups = (n + group - 1) / group;
    for (size_t g = 0; g < n_groups; g++) {
        if (!(c->group[g] >= threshold)) continue;
        size_t end = (g + 1) * group < n ? (g + 1) * group : n;
        for (size_t i = g * group; i < end; i++) {
            c->index[found] = (uint32_t)i;
            found += x[i] >= threshold;
        }
    }
    return found;
}

/* Maxima of 64 at vector speed, then only the groups that have anything: with a threshold near the top that is few. */
size_t plait_candidates_collect(plait_candidates *c, const float *x, float threshold) {
    (void)c->kernels->group_max(x, c->n, 64, c->group);
    return collect_grouped(c, x, c->n, threshold, 64);
}

size_t plait_candidates_collect_all(plait_candidates *c) {
    for (size_t i = 0; i < c->n; i++) c->index[i] = (uint32_t)i;
    return c->n;
}

/* Groups that are worth while for the k best of n: small enough that there are many more than k. 0: none is. Larger
 * groups make the first look cheaper and the second dearer; four groups for each of the k leave most groups out. */
static size_t choose_group(size_t n, size_t k) {
    size_t group = 64;
    while (group > 8 && n / group < 4 * k) group /= 2;
    return n / group >= 2 * k ? group : 0;
}

/* The k best of x, given the maxima of its groups. The k-th largest maximum is a lower bound for the k-th largest
 * element, since k elements reach it. So only groups that reach it matter, few when groups are many. Ties at the border
 * are broken by index in both selections, so the same k come out as without groups. */
static void collect_best_grouped(plait_candidates *c, const float *x, size_t n, size_t k, size_t group) {
    float bound = INFINITY;
    plait_sampler_select_largest(c->kernels, c->group, (n + group - 1) / group, k, c->index, c->index2);
    for (size_t i = 0; i < k; i++) bound = c->group[c->index[i]] < bound ? c->group[c->index[i]] : bound;
    size_t found = collect_grouped(c, x, n, bound, group);
    for (size_t i = 0; i < found; i++) c->order[i] = x[c->index[i]];
    plait_sampler_select_largest(c->kernels, c->order, found, k, c->index2, c->index3);
    for (size_t i = 0; i < k; i++) c->index[i] = c->index[c->index2[i]];
}

size_t plait_candidates_collect_best(plait_candidates *c, size_t k) {
    if (k >= c->n) return plait_candidates_collect_all(c);
    size_t group = choose_group(c->n, k);
    if (group) {
        (void)c->kernels->group_max(c->logit, c->n, group, c->group);
        collect_best_grouped(c, c->logit, c->n, k, group);
    } else {
        plait_sampler_select_largest(c->kernels, c->logit, c->n, k, c->index, c->index2);
    }
    return k;
}

/* Too many named ids would not leave room in the arrays of n_vocab entries; loading all is then no more work. index2
 * serves as the list of ids, which are read before load_pairs writes to `id` and `index`. Bad logits are found by the
 * same pass that makes the maxima, so this way refuses what the plain one does. */
plait_status plait_candidates_load_best(plait_candidates *c, const float *logits, size_t n_vocab, size_t k,
                                        const plait_token *ids, size_t n_ids) {
    size_t group = choose_group(n_vocab, k);
    if (!group || n_ids > n_vocab - k) return plait_candidates_load(c, logits, n_vocab);
    PLAIT_TRY(plait_candidates_reserve(c, n_vocab));
    if (c->kernels->group_max(logits, n_vocab, group, c->group)) return bad_logits(logits, NULL, n_vocab);
    collect_best_grouped(c, logits, n_vocab, k, group);
    plait_token *token = (plait_token *)c->index2;
    for (size_t i = 0; i < k; i++) token[i] = (plait_token)c->index[i];
    for (size_t i = 0; i < n_ids; i++) token[k + i] = ids[i];
    for (size_t i = 0; i < k + n_ids; i++) c->order[i] = logits[token[i]];
    return plait_candidates_load_pairs(c, token, c->order, k + n_ids, n_vocab);
}

/* Nothing to move when all stay, and a dense set stays dense. The largest logit is still known, since a step keeps it
 * in. `index` may be c->index itself. Weights are not moved: whoever keeps weighs anew. */
void plait_candidates_keep(plait_candidates *c, const uint32_t *index, size_t n) {
    c->n_masked = 0;
    if (n == c->n) return;
    /* index is rising, so index[i] >= i: moving forward in place never overwrites what is still to be read.
     * */
    if (c->dense)
        for (size_t i = 0; i < n; i++) c->id[i] = (plait_token)index[i];
    else
        for (size_t i = 0; i < n; i++) c->id[i] = c->id[index[i]];
    for (size_t i = 0; i < n; i++) c->logit[i] = c->logit[index[i]];
    c->n = n;
    c->dense = false;
}

/* Where more than half would stay, moving them costs more than the later steps save. n_masked is put back: what is
 * dropped here is not masked but known to be out of the prefix. */
void plait_candidates_prefilter(plait_candidates *c, float threshold, size_t min_keep) {
    size_t n = c->kernels->count(c->logit, c->n, threshold);
    if (n < min_keep || n > c->n / 2) return;
    int64_t n_masked = c->n_masked;
    (void)plait_candidates_collect(c, c->logit, threshold);
    for (size_t i = 0; i < n; i++) c->weight[i] = c->weight[c->index[i]];
    plait_candidates_keep(c, c->index, n);
    c->n_masked = n_masked;
}

/* Held within the finite floats: an edit must not turn a logit into plus infinity, which no later step expects, nor
 * mask a token that nobody forbade. A masked candidate stays masked whatever is asked. */
void plait_candidates_set(plait_candidates *c, size_t i, double value) {
    if (c->logit[i] < -FLT_MAX) return;
    plait_candidates_forget_max(c);
    double held = value > (double)FLT_MAX ? (double)FLT_MAX : value;
    if (held < -(double)FLT_MAX) held = -(double)FLT_MAX;
    c->logit[i] = (float)held;
}
