/* attention over a paged cache (Vaswani et al., arXiv 1706.03762; grouped heads: Ainslie et al., arXiv 2305.13245;
 * pages: Kwon et al., arXiv 2309.06180; sinks as an extra logit: Xiao et al., arXiv 2309.17453).
 *
 * A key's place in its sequence's page list is its position: the key at position t of sequence s lies in page
 * pages[t / page_len, s] at offset t % page_len. Query head q reads KV head q / G, where G = query heads / KV
 * heads. A token at position p sees the keys t that lie in a page (page >= 0) and for which
 *
 *     causal:      t <= p                      (otherwise every t of the page list)
 *     window > 0:  |p - t| < window
 *     lengths:     t < lengths[s]
 *
 * logit = scale * q.k, then softcap * tanh(logit / softcap) when softcap > 0; y = softmax over the visible keys,
 * with exp(sink of the head) in the denominator when there are sinks. A token whose sequence is negative, or that
 * sees no key, gets zeros. Bad at run time (zeros, error word): a sequence or page beyond the tables, a negative
 * position, a causal position beyond the page list, a length outside [0, page list].
 *
 * Slices: k and v may hold only pages [start_c, start_c + c) of total_c and offsets [start_p, start_p + p) of
 * total_p = page_len; keys elsewhere are then not visible here, and partials (merge.h) of all slices merge. */
#include "base/size.h"
#include "base/status.h"
#include "op/activation.h"
#include "op/attrs.h"
#include "op/example.h"
#include "op/merge.h"
#include "op/reference.h"
#include "op/runtime.h"
#include "op/shape.h"
#include "op/tolerance.h"

static const plait_attr_row attention_attrs[PLAIT_ATTENTION_ATTRS] = {
    [PLAIT_ATTENTION_SCALE] =
        {"scale", PLAIT_ATTR_FLOAT, {.f = 0}, false, "multiplies q.k; 0: 1 / sqrt(dim 0 of q)"},
    [PLAIT_ATTENTION_WINDOW] =
        {"window", PLAIT_ATTR_INT, {.i = 0}, false, "keys nearer than this are seen; 0: all"},
    [PLAIT_ATTENTION_SOFTCAP] =
        {"softcap", PLAIT_ATTR_FLOAT, {.f = 0}, false, "bound of the logits; 0: none"},
    [PLAIT_ATTENTION_CAUSAL] = {"causal", PLAIT_ATTR_BOOL, {.i = 1}, false, "no key after the token is seen"},
    [PLAIT_ATTENTION_START_P] =
        {"start_p", PLAIT_ATTR_INT, {.i = 0}, false, "first offset in a page held here"},
    [PLAIT_ATTENTION_TOTAL_P] =
        {"total_p", PLAIT_ATTR_INT, {.i = 0}, false, "keys in a page; 0: start_p + p"},
    [PLAIT_ATTENTION_START_C] =
        {"start_c", PLAIT_ATTR_INT, {.i = 0}, false, "number of the first page held here"},
    [PLAIT_ATTENTION_TOTAL_C] =
        {"total_c", PLAIT_ATTR_INT, {.i = 0}, false, "pages of the whole; 0: start_c + c"},
};

/* Keys in a page of the whole. 1 or more where there is a page at all; 0 only with empty caches. */
static int64_t page_len_of(const plait_op_use *use) {
    return plait_attr_total(use, PLAIT_ATTENTION_START_P, PLAIT_ATTENTION_TOTAL_P,
                            use->inputs[PLAIT_ATTENTION_K].dims[1]);
}

/* Types and attributes first, then all dims at once by factors; last what products of dims must not exceed. Positions
 * are i32, so a page list may span at most 2^31 keys; scale 0 asks for 1 / sqrt(d), which d = 0 does not have. */
static plait_status attention_shape(plait_op_use *use) {
    const plait_operand *k = &use->inputs[PLAIT_ATTENTION_K], *pages = &use->inputs[PLAIT_ATTENTION_PAGES];
    PLAIT_TRY(plait_shape_dtype(use, PLAIT_ATTENTION_Q, PLAIT_F32));
    PLAIT_TRY(plait_shape_float(use, PLAIT_ATTENTION_K));
    PLAIT_TRY(plait_shape_float(use, PLAIT_ATTENTION_V));
    PLAIT_TRY(plait_shape_dtype(use, PLAIT_ATTENTION_POSITIONS, PLAIT_I32));
    PLAIT_TRY(plait_shape_dtype(use, PLAIT_ATTENTION_SEQUENCES, PLAIT_I32));
    PLAIT_TRY(plait_shape_dtype(use, PLAIT_ATTENTION_PAGES, PLAIT_I32));
    PLAIT_TRY(plait_shape_dtype(use, PLAIT_ATTENTION_SINKS, PLAIT_F32));
    PLAIT_TRY(plait_shape_dtype(use, PLAIT_ATTENTION_LENGTHS, PLAIT_I32));
    PLAIT_TRY(plait_attr_not_negative(use, PLAIT_ATTENTION_WINDOW));
    PLAIT_TRY(plait_attr_not_negative(use, PLAIT_ATTENTION_SOFTCAP));
    PLAIT_TRY(plait_attr_window(use, PLAIT_ATTENTION_START_P, PLAIT_ATTENTION_TOTAL_P, k->dims[1]));
    PLAIT_TRY(plait_attr_window(use, PLAIT_ATTENTION_START_C, PLAIT_ATTENTION_TOTAL_C, k->dims[3]));
    PLAIT_TRY(plait_shape_by_factors(use));
    int64_t n_keys;
    if (__builtin_mul_overflow(pages->dims[0], page_len_of(use), &n_keys) || n_keys > INT32_MAX)
        return plait_error(PLAIT_INVALID_ARGUMENT,
                           "pages: dim 0 is %lld with %lld keys a page, expected positions below 2^31",
                           (long long)pages->dims[0], (long long)page_len_of(use));
    if (use->attrs[PLAIT_ATTENTION_SCALE].f == 0 && use->inputs[PLAIT_ATTENTION_Q].dims[0] == 0)
        return plait_error(PLAIT_INVALID_ARGUMENT, "q: dim 0 is 0, expected 1 or more, or a scale");
    return PLAIT_OK;
}

/* ---- reference ---- */

/* Scratch of one head of one token: logits of all keys of a page list, a row of k, one of v, sums over v. */
typedef struct attention_work {
    double *logits, *sums;
    float *k_row, *v_row;
} attention_work;

/* Linear in the longest sequence: the reference keeps all logits of a row, so that the maximum is known before the
 * first exponential. */
static size_t attention_scratch(const plait_op_use *use) {
    size_t n_keys = (size_t)(use->inputs[PLAIT_ATTENTION_PAGES].dims[0] * page_len_of(use));
    size_t d = (size_t)use->inputs[PLAIT_ATTENTION_K].dims[0],
           e = (size_t)use->inputs[PLAIT_ATTENTION_V].dims[0];
    return (n_keys + e) * sizeof(double) + (d + e) * sizeof(float);
}

/* Doubles first, so that both parts are aligned. */
static attention_work split_scratch(const plait_op_use *use, void *scratch) {
    attention_work w;
    w.logits = scratch;
    w.sums = w.logits + use->inputs[PLAIT_ATTENTION_PAGES].dims[0] * page_len_of(use);
    w.k_row = (float *)(w.sums + use->inputs[PLAIT_ATTENTION_V].dims[0]);
    w.v_row = w.k_row + use->inputs[PLAIT_ATTENTION_K].dims[0];
    return w;
}

/* The keys that a token may see, before pages are looked up. */
typedef struct attention_range {
    int64_t sequence, first, end;
} attention_range;

/* Bad control numbers give an empty range and set the error word. `end` may come out below `first`: then no key is
 * seen. A window bounds both sides, the later one only where causal does not. */
static attention_range visible_range(const plait_op_use *use, int64_t token) {
    const plait_operand *pages = &use->inputs[PLAIT_ATTENTION_PAGES];
    const attention_range none = {0, 0, 0};
    int64_t sequence = plait_ref_get_id(&use->inputs[PLAIT_ATTENTION_SEQUENCES], token, 0);
    int64_t position = plait_ref_get_id(&use->inputs[PLAIT_ATTENTION_POSITIONS], token, 0);
    int64_t n_keys = pages->dims[0] * page_len_of(use), window = use->attrs[PLAIT_ATTENTION_WINDOW].i;
    bool causal = use->attrs[PLAIT_ATTENTION_CAUSAL].i != 0;
    if (sequence < 0) return none;
    if (sequence >= pages->dims[1] || position < 0 || (causal && position >= n_keys)) {
        plait_ref_bad_id(use);
        return none;
    }
    attention_range range = {sequence, 0, n_keys};
    if (plait_op_has(use, PLAIT_ATTENTION_LENGTHS)) {
        int64_t length = plait_ref_get_id(&use->inputs[PLAIT_ATTENTION_LENGTHS], sequence, 0);
        if (length < 0 || length > n_keys) {
            plait_ref_bad_id(use);
            return none;
        }
        range.end = length;
    }
    if (causal) range.end = plait_min_i64(range.end, position + 1);
    /* The subtraction avoids position + window, which the attribute could make overflow. */
    if (window > 0 && position >= window) range.first = position - window + 1;
    if (window > 0 && range.end - position > window) range.end = position + window;
    return range;
}

/* Where the key at position t lies in the slice here; false when it is not visible or lies elsewhere. A hole in the
 * page list (a page given up by a sliding window) is an invisible key, no mistake. */
static bool find_key(const plait_op_use *use, int64_t sequence, int64_t t, int64_t *out_page,
                     int64_t *out_offset) {
    const plait_operand *k = &use->inputs[PLAIT_ATTENTION_K];
    int64_t page_len = page_len_of(use);
    int64_t page = plait_ref_get_id(&use->inputs[PLAIT_ATTENTION_PAGES], t / page_len, sequence);
    if (page < 0) return false;
    if (page >= plait_attr_total(use, PLAIT_ATTENTION_START_C, PLAIT_ATTENTION_TOTAL_C, k->dims[3])) {
        plait_ref_bad_id(use);
        return false;
    }
    *out_page = page - use->attrs[PLAIT_ATTENTION_START_C].i;
    *out_offset = t % page_len - use->attrs[PLAIT_ATTENTION_START_P].i;
    return *out_page >= 0 && *out_page < k->dims[3] && *out_offset >= 0 && *out_offset < k->dims[1];
}

/* scale * q.k, capped. A row of k was decoded to float32 before; q is float32 in the reference, where devices may round
 * it to k's precision. */
static double logit_of(const plait_op_use *use, int64_t head, int64_t token, const float *k_row) {
    const plait_operand *q = &use->inputs[PLAIT_ATTENTION_Q];
    double scale = use->attrs[PLAIT_ATTENTION_SCALE].f, cap = use->attrs[PLAIT_ATTENTION_SOFTCAP].f, dot = 0;
    if (scale == 0) scale = 1.0 / sqrt((double)q->dims[0]);
    for (int64_t i = 0; i < q->dims[0]; i++) dot += plait_ref_get(q, i, head, token, 0) * (double)k_row[i];
    return cap > 0 ? plait_act_softcap(scale * dot, cap) : scale * dot;
}

/* One head of one token over the keys that are here: w->sums, and maximum and sum of exp(logit - maximum). Two passes
 * over the keys: the second weighs against the true maximum, so no sum is ever rescaled. Keys whose logit is -infinity
 * weigh nothing and are skipped like invisible ones. */
static void attend(const plait_op_use *use, const attention_work *w, int64_t head, int64_t token,
                   double *out_max, double *out_sum) {
    const plait_operand *k = &use->inputs[PLAIT_ATTENTION_K], *v = &use->inputs[PLAIT_ATTENTION_V];
    int64_t group = use->inputs[PLAIT_ATTENTION_Q].dims[1] / plait_max_i64(k->dims[2], 1), page, offset;
    int64_t kv_head = head / plait_max_i64(group, 1);
    attention_range range = visible_range(use, token);
    double max = -INFINITY, sum = 0;
    /* !(a <= max) instead of a > max: a NaN becomes the maximum and the result, instead of vanishing. */
    for (int64_t t = range.first; t < range.end; t++) {
        w->logits[t] = -INFINITY;
        if (!find_key(use, range.sequence, t, &page, &offset)) continue;
        plait_ref_read_row(k, offset, kv_head, page, k->dims[0], w->k_row);
        w->logits[t] = logit_of(use, head, token, w->k_row);
        if (!(w->logits[t] <= max)) max = w->logits[t];
    }
    for (int64_t i = 0; i < v->dims[0]; i++) w->sums[i] = 0;
    for (int64_t t = range.first; t < range.end; t++) {
        if (w->logits[t] == -INFINITY || !find_key(use, range.sequence, t, &page, &offset)) continue;
        double weight = exp(w->logits[t] - max);
        plait_ref_read_row(v, offset, kv_head, page, v->dims[0], w->v_row);
        for (int64_t i = 0; i < v->dims[0]; i++) w->sums[i] += weight * (double)w->v_row[i];
        sum += weight;
    }
    *out_max = max;
    *out_sum = sum;
}

/* The sink is an extra logit without a value: it only makes the others smaller. sum 0 means that no key was seen:
 * zeros, and no division. A sink alone does not change that. */
static void attention_reference(const plait_op_use *use, void *scratch) {
    const plait_operand *y = &use->outputs[0];
    attention_work w = split_scratch(use, scratch);
    for (int64_t n = 0; n < y->dims[2]; n++)
        for (int64_t h = 0; h < y->dims[1]; h++) {
            double max, sum;
            attend(use, &w, h, n, &max, &sum);
            if (sum != 0 && plait_op_has(use, PLAIT_ATTENTION_SINKS))
                sum += exp(plait_ref_get(&use->inputs[PLAIT_ATTENTION_SINKS], h, 0, 0, 0) - max);
            for (int64_t i = 0; i < y->dims[0]; i++)
                plait_ref_set(y, i, h, n, 0, sum != 0 ? w.sums[i] / sum : 0.0);
        }
}

/* What a logit may be off: a float32 sum over d, and q in the precision of k. q rounded to 8 bits is off by up to
 * largest / 120 / 2, evenly spread (hence 1 / sqrt(12) of a step, times sqrt(d) for a sum of d of them);
 * PLAIT_DEVIATIONS covers the tail. */
static double logit_tolerance(const plait_op_use *use, double largest_k, int64_t head, int64_t token) {
    const plait_operand *q = &use->inputs[PLAIT_ATTENTION_Q], *k = &use->inputs[PLAIT_ATTENTION_K];
    double scale = use->attrs[PLAIT_ATTENTION_SCALE].f, size = 0, square = 0, largest = 0;
    double root = sqrt((double)q->dims[0]);
    if (scale == 0) scale = 1.0 / root;
    for (int64_t i = 0; i < q->dims[0]; i++) {
        double value = fabs(plait_ref_get(q, i, head, token, 0));
        size += value;
        square += value * value;
        largest = fmax(largest, value);
    }
    double lost = plait_dtype_quantised(k->dtype) ? largest * root / 120 / sqrt(12)
                                                  : plait_tol_type(k->dtype) * sqrt(square / 3);
    return fabs(scale) * largest_k * (plait_tol_sum(q->dims[0]) * size + PLAIT_DEVIATIONS * lost);
}

/* An error of logits is a relative one of the weights; weights in the precision of v; a float32 sum over the keys. exp
 * turns an absolute error of the logit into a relative one of its weight, and the sum in the denominator has it again:
 * twice. Weights are averages of v, so its largest magnitude bounds the effect. */
static void attention_tolerance(const plait_op_use *use, int output, double *limits, void *scratch) {
    const plait_operand *v = &use->inputs[PLAIT_ATTENTION_V], *y = &use->outputs[output];
    double largest_k = plait_tol_largest(&use->inputs[PLAIT_ATTENTION_K]), largest_v = plait_tol_largest(v);
    double type = plait_dtype_quantised(v->dtype) ? 1.0 / 120 : plait_tol_type(v->dtype);
    double sum = plait_tol_sum(use->inputs[PLAIT_ATTENTION_PAGES].dims[0] * page_len_of(use));
    (void)scratch;
    for (int64_t n = 0; n < y->dims[2]; n++)
        for (int64_t h = 0; h < y->dims[1]; h++) {
            double weight = 2 * logit_tolerance(use, largest_k, h, n) + PLAIT_DEVIATIONS * type / sqrt(12);
            for (int64_t i = 0; i < y->dims[0]; i++)
                *limits++ = largest_v * (fmin(weight, 2) + sum) + PLAIT_FLUSH;
        }
}

/* The same sums, not divided and without sinks. */
void plait_attention_partial(const plait_op_use *use, const plait_softmax_partial *out, void *scratch) {
    attention_work w = split_scratch(use, scratch);
    for (int64_t n = 0; n < out->values.dims[2]; n++)
        for (int64_t h = 0; h < out->values.dims[1]; h++) {
            double max, sum;
            attend(use, &w, h, n, &max, &sum);
            plait_ref_set(&out->maximum, h, n, 0, 0, max);
            plait_ref_set(&out->sum, h, n, 0, 0, sum);
            for (int64_t i = 0; i < out->values.dims[0]; i++)
                plait_ref_set(&out->values, i, h, n, 0, w.sums[i]);
        }
}

/* One head of one token of the merge. Each part's numbers are relative to its own maximum: exp(maximum - max) brings
 * them to the common one. The order of the parts is the order of the sums. */
static void merge_row(const plait_softmax_partial *parts, int n_parts, const plait_operand *sinks,
                      const plait_operand *out, int64_t h, int64_t n) {
    double max = -INFINITY, sum = 0;
    for (int p = 0; p < n_parts; p++) {
        double other = plait_ref_get(&parts[p].maximum, h, n, 0, 0);
        if (!(other <= max)) max = other;
    }
    for (int p = 0; p < n_parts && max != -INFINITY; p++)
        sum += plait_ref_get(&parts[p].sum, h, n, 0, 0) *
               exp(plait_ref_get(&parts[p].maximum, h, n, 0, 0) - max);
    if (sum != 0 && sinks) sum += exp(plait_ref_get(sinks, h, 0, 0, 0) - max);
    for (int64_t i = 0; i < out->dims[0]; i++) {
        double value = 0;
        for (int p = 0; p < n_parts && max != -INFINITY; p++)
            value += plait_ref_get(&parts[p].values, i, h, n, 0) *
                     exp(plait_ref_get(&parts[p].maximum, h, n, 0, 0) - max);
        plait_ref_set(out, i, h, n, 0, sum != 0 ? value / sum : 0.0);
    }
}

void plait_merge_softmax(const plait_softmax_partial *parts, int n_parts, const plait_operand *sinks,
                         const plait_operand *out) {
    for (int64_t n = 0; n < out->dims[2]; n++)
        for (int64_t h = 0; h < out->dims[1]; h++) merge_row(parts, n_parts, sinks, out, h, n);
}

/* ---- cost ---- */

/* Keys that a token can see at most: shapes do not tell positions. The bound is right for full caches; plans weigh it
 * with the keys that they expect (plait_expected_steps.keys). */
static double keys_seen(const plait_op_use *use) {
    double keys = (double)use->inputs[PLAIT_ATTENTION_PAGES].dims[0] * (double)page_len_of(use);
    double window = (double)use->attrs[PLAIT_ATTENTION_WINDOW].i;
    return window > 0 ? fmin(keys, window) : keys;
}

/* Two products for each element of a key and a value, and about four for its softmax. */
static double attention_flop(const plait_op_use *use) {
    const plait_operand *q = &use->inputs[PLAIT_ATTENTION_Q], *v = &use->inputs[PLAIT_ATTENTION_V];
    double products = 2.0 * (double)(q->dims[0] + v->dims[0]) + 4.0;
    return products * (double)q->dims[1] * (double)q->dims[2] * keys_seen(use);
}

/* Of the caches only pages that the tables can name, and with a window only those it can touch. */
static double attention_bytes(const plait_op_use *use) {
    const plait_operand *pages = &use->inputs[PLAIT_ATTENTION_PAGES], *k = &use->inputs[PLAIT_ATTENTION_K];
    double page_len = fmax(1.0, (double)page_len_of(use)), n = (double)use->inputs[PLAIT_ATTENTION_Q].dims[2];
    double named = (double)pages->dims[0] * fmin((double)pages->dims[1], n);
    double seen = fmin(named, n * (keys_seen(use) / page_len + 1.0));
    double share = k->dims[3] > 0 ? seen / (double)k->dims[3] : 0;
    double bytes = plait_operand_moved_bytes(&use->outputs[0]);
    for (int i = 0; i < use->n_inputs; i++) {
        if (!plait_op_has(use, i)) continue;
        bool cache = i == PLAIT_ATTENTION_K || i == PLAIT_ATTENTION_V;
        bytes += plait_operand_part_bytes(&use->inputs[i], cache ? share : 1.0);
    }
    return bytes;
}

/* ---- examples ---- */

/* q [d, heads, n]; k [d, page_len, kv, pages], v [e, ...]; table [t, s]. */
#define CASE(ktype, vtype, d, e, heads, kv, n, page_len, n_pages, t, s, ...)                                 \
    {                                                                                                        \
        .inputs = {PLAIT_IN(F32, d, heads, n, 1),                                                            \
                   PLAIT_IN(ktype, d, page_len, kv, n_pages),                                                \
                   PLAIT_IN(vtype, e, page_len, kv, n_pages),                                                \
                   PLAIT_IN(I32, n, 1, 1, 1),                                                                \
                   PLAIT_IN(I32, n, 1, 1, 1),                                                                \
                   PLAIT_IN(I32, t, s, 1, 1)},                                                               \
        __VA_ARGS__                                                                                          \
    }
#define SINKS(heads) .inputs[PLAIT_ATTENTION_SINKS] = PLAIT_IN(F32, heads, 1, 1, 1)
#define LENGTHS(s)   .inputs[PLAIT_ATTENTION_LENGTHS] = PLAIT_IN(I32, s, 1, 1, 1)
static const plait_example attention_cases[] = {
    CASE(F32, F32, 8, 8, 3, 1, 5, 4, 7, 3, 2, .attrs = {{0}}),
    CASE(F16, F16, 64, 64, 9, 3, 3, 16, 9, 4, 2, .attrs = {{0}}),
    CASE(F32, F32, 8, 6, 6, 2, 7, 4, 11, 5, 2, .attrs = {{"window", {.i = 6}}}),
    CASE(F16, F16, 16, 16, 6, 2, 4, 8, 9, 4, 2, SINKS(6),
         .attrs = {{"window", {.i = 9}}, {"scale", {.f = 0.3}}}),
    CASE(F32, F32, 8, 8, 4, 4, 5, 4, 9, 4, 2, .attrs = {{"softcap", {.f = 2}}, {"scale", {.f = 0.5}}}),
    CASE(BF16, BF16, 16, 16, 4, 2, 3, 8, 6, 3, 2, .attrs = {{0}}),
    CASE(Q8_0, Q8_0, 64, 64, 9, 3, 2, 16, 8, 4, 2, .attrs = {{0}}),
    CASE(Q8_0, Q4_0, 64, 32, 6, 2, 5, 8, 8, 4, 2, SINKS(6), .attrs = {{0}}),
    CASE(F32, F32, 8, 8, 6, 2, 5, 4, 9, 4, 2, LENGTHS(2), .attrs = {{"causal", {.i = 0}}}),
    CASE(F32, F32, 8, 8, 2, 2, 5, 4, 9, 4, 2, .attrs = {{"causal", {.i = 0}}, {"window", {.i = 3}}}),
    CASE(F16, F16, 8, 8, 3, 1, 0, 4, 7, 3, 2, .attrs = {{0}}),
    {.inputs = {PLAIT_VIEW(PADDED, F32, 8, 6, 3, 1), PLAIT_VIEW(PADDED, F16, 8, 4, 2, 9),
                PLAIT_VIEW(PADDED, F16, 8, 4, 2, 9), PLAIT_IN(I32, 3, 1, 1, 1), PLAIT_IN(I32, 3, 1, 1, 1),
                PLAIT_IN(I32, 4, 2, 1, 1)}},
};
#undef CASE
#undef SINKS
#undef LENGTHS
PLAIT_EXAMPLES(attention)

/* Pages of all sequences in shuffled order, one hole; tokens of the sequences in turn, near the end of their
 * lists; the last of five or more tokens belongs to no sequence. */
static void attention_example_data(int which, plait_op_use *use) {
    const plait_operand *pages = &use->inputs[PLAIT_ATTENTION_PAGES];
    const plait_operand *positions = &use->inputs[PLAIT_ATTENTION_POSITIONS];
    int64_t t = pages->dims[0], s = pages->dims[1], n = positions->dims[0], page_len = page_len_of(use);
    int64_t total = plait_attr_total(use, PLAIT_ATTENTION_START_C, PLAIT_ATTENTION_TOTAL_C,
                                     use->inputs[PLAIT_ATTENTION_K].dims[3]);
    plait_operand list = *pages;
    list.dims[0] = t * s;
    list.dims[1] = 1;
    plait_example_fill_distinct(&list, (uint64_t)which + 3, total);
    if (t > 2) plait_ref_set_id(pages, 0, s - 1, -1);
    for (int64_t i = 0; i < n; i++) {
        int64_t sequence = i % s, step = i / s, steps = (n - 1) / s;
        int64_t length = sequence == 0 ? t * page_len : (t - 1) * page_len - 1;
        plait_ref_set_id(positions, i, 0, (int32_t)plait_max_i64(length - 1 - steps + step, 0));
        plait_ref_set_id(&use->inputs[PLAIT_ATTENTION_SEQUENCES], i, 0,
                         i >= 4 && i == n - 1 ? -1 : (int32_t)sequence);
    }
    for (int64_t i = 0; plait_op_has(use, PLAIT_ATTENTION_LENGTHS) && i < s; i++)
        plait_ref_set_id(&use->inputs[PLAIT_ATTENTION_LENGTHS], i, 0, (int32_t)(t * page_len - 1 - 3 * i));
}

/* ---- before a step ---- */

/* Positions of tokens that belong to a sequence; without the sequences nothing can be said about them. */
static plait_status check_positions(const plait_op_use *use, int64_t limit) {
    const plait_operand *positions = &use->inputs[PLAIT_ATTENTION_POSITIONS];
    const plait_operand *sequences = &use->inputs[PLAIT_ATTENTION_SEQUENCES];
    if (!positions->data || !sequences->data || plait_ids_within(positions, 0, limit)) return PLAIT_OK;
    for (int64_t n = 0; n < positions->dims[0]; n++) {
        int64_t position = plait_ref_get_id(positions, n, 0);
        bool counts = plait_ref_get_id(sequences, n, 0) >= 0;
        if (counts && (position < 0 || position >= limit))
            return plait_bad_id(use, PLAIT_ATTENTION_POSITIONS, n, 0, 0, limit);
    }
    return PLAIT_OK;
}

static plait_status attention_check_runtime(const plait_op_use *use) {
    const plait_operand *pages = &use->inputs[PLAIT_ATTENTION_PAGES];
    int64_t n_keys = pages->dims[0] * page_len_of(use);
    int64_t n_pages = plait_attr_total(use, PLAIT_ATTENTION_START_C, PLAIT_ATTENTION_TOTAL_C,
                                       use->inputs[PLAIT_ATTENTION_K].dims[3]);
    bool causal = use->attrs[PLAIT_ATTENTION_CAUSAL].i != 0;
    PLAIT_TRY(plait_check_ids(use, PLAIT_ATTENTION_SEQUENCES, INT32_MIN, pages->dims[1]));
    PLAIT_TRY(check_positions(use, causal ? n_keys : (int64_t)INT32_MAX + 1));
    PLAIT_TRY(plait_check_ids(use, PLAIT_ATTENTION_PAGES, INT32_MIN, n_pages));
    return plait_check_ids(use, PLAIT_ATTENTION_LENGTHS, 0, n_keys + 1);
}

const plait_op plait_op_attention = {
    .struct_bytes = sizeof(plait_op),
    .id = PLAIT_OP_attention,
    .name = "attention",
    .doc = "y = softmax over the keys that a token sees of scale * q.k, times v; keys and values in pages",
    .factors =
        "q[d,(g h),n] k[d,p,h,c] v[e,p,h,c] positions[n] sequences[n] pages[t,s] sinks?[(g h)] lengths?[s] "
        "-> y[e,(g h),n]; d: whole, p: merge(softmax)@, c: merge(softmax)@, t: whole, s: whole",
    .attrs = attention_attrs,
    .n_attrs = PLAIT_ATTENTION_ATTRS,
    .shape = attention_shape,
    .writes_input = -1,
    .rows_input = -1,
    .runtime_inputs = 1u << PLAIT_ATTENTION_POSITIONS | 1u << PLAIT_ATTENTION_SEQUENCES |
                      1u << PLAIT_ATTENTION_PAGES | 1u << PLAIT_ATTENTION_LENGTHS,
    .reference_scratch = attention_scratch,
    .reference = attention_reference,
    .tolerance = attention_tolerance,
    .flop = attention_flop,
    .example = attention_example,
    .example_data = attention_example_data,
    .bytes = attention_bytes,
    .check_runtime = attention_check_runtime,
};
