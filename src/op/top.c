/* argmax and top_k over dim 0, and their partials. Not here: sampling, which works on their results on the host
 * (text/sampler). Invariant: equal values go by lower id, and NaN is worse than every number, so that results do not
 * depend on how the dim is cut or in which order its elements are seen. */
#include "base/size.h"
#include "base/status.h"
#include "op/attrs.h"
#include "op/example.h"
#include "op/merge.h"
#include "op/reference.h"
#include "op/shape.h"

#include <math.h>

/* A total order: for different ids exactly one of two is better. */
bool plait_better(float value, int64_t id, float other, int64_t other_id) {
    bool nan = value != value, other_nan = other != other;
    if (nan != other_nan) return other_nan;
    if (nan || value == other) return id < other_id;
    return value > other;
}

/* Values are float32, so nothing is lost on the way through double. */
static float get_value(const plait_operand *o, int64_t i, int64_t n) {
    return (float)plait_ref_get(o, i, n, 0, 0);
}

/* Puts (value, id) into column n of a list that is sorted best first, holds `held` entries and has room for
 * `room`; returns how many it then holds. Compares from the end: for most elements of a long row once. */
static int64_t insert(const plait_operand *values, const plait_operand *ids, int64_t n, int64_t held,
                      int64_t room, float value, int32_t id) {
    int64_t place = held;
    while (place > 0 &&
           plait_better(value, id, get_value(values, place - 1, n), plait_ref_get_id(ids, place - 1, n)))
        place--;
    if (place == room) return held;
    int64_t last = held < room ? held : room - 1;
    for (int64_t i = last; i > place; i--) {
        plait_ref_set(values, i, n, 0, 0, plait_ref_get(values, i - 1, n, 0, 0));
        plait_ref_set_id(ids, i, n, plait_ref_get_id(ids, i - 1, n));
    }
    plait_ref_set(values, place, n, 0, 0, (double)value);
    plait_ref_set_id(ids, place, n, id);
    return held < room ? held + 1 : room;
}

/* The best of every column of x into lists as long as `values` is. Insertion: k is tens, dim 0 a vocabulary, and after
 * the first few hundred elements most of them fail the first comparison. */
static void best_of(const plait_operand *x, int64_t start, const plait_operand *values,
                    const plait_operand *ids) {
    int64_t room = values->dims[0];
    for (int64_t n = 0; n < x->dims[1] && room > 0; n++) {
        int64_t held = 0;
        for (int64_t i = 0; i < x->dims[0]; i++)
            held = insert(values, ids, n, held, room, get_value(x, i, n), (int32_t)(start + i));
    }
}

/* Both ops have the attribute, at different places. */
static int64_t start_of(const plait_op_use *use) {
    return use->attrs[use->op->id == PLAIT_OP_top_k ? PLAIT_TOP_K_START_V : PLAIT_ARGMAX_START_V].i;
}

/* A slice may have fewer elements than are wanted, or none: `out` then has as many rows as there are. */
void plait_best_of_slice(const plait_op_use *use, const plait_best_partial *out) {
    best_of(&use->inputs[0], start_of(use), &out->values, &out->ids);
}

/* The best entry of column n that is not yet taken, by walking all lists from their heads. after_id < 0: nothing was
 * taken yet. Entries of id -1 are fillers. Ids are different over all slices, so "worse than the one taken last" is
 * "not yet taken". */
static bool next_best(const plait_best_partial *parts, int n_parts, int64_t n, float after, int64_t after_id,
                      float *out_value, int32_t *out_id) {
    bool found = false;
    for (int p = 0; p < n_parts; p++)
        for (int64_t i = 0; i < parts[p].ids.dims[0]; i++) {
            float value = get_value(&parts[p].values, i, n);
            int32_t id = plait_ref_get_id(&parts[p].ids, i, n);
            if (id < 0 || (after_id >= 0 && !plait_better(after, after_id, value, id))) continue;
            if (!found || plait_better(value, id, *out_value, *out_id)) {
                *out_value = value;
                *out_id = id;
                found = true;
            }
            break; /* the list is sorted: its later entries are worse than this one */
        }
    return found;
}

/* Picks the best entry below the last one picked, until the list is full or the parts are used up. k times the sum of
 * the lists' lengths at most; lists are short. */
void plait_merge_best(const plait_best_partial *parts, int n_parts, const plait_operand *values,
                      const plait_operand *ids) {
    for (int64_t n = 0; n < ids->dims[1]; n++) {
        float last = 0;
        int64_t last_id = -1;
        bool more = true;
        for (int64_t i = 0; i < ids->dims[0]; i++) {
            float value = -INFINITY;
            int32_t id = -1;
            more = more && next_best(parts, n_parts, n, last, last_id, &value, &id);
            if (more) {
                last = value;
                last_id = id;
            }
            if (values) plait_ref_set(values, i, n, 0, 0, (double)value);
            plait_ref_set_id(ids, i, n, id);
        }
    }
}

/* Ids of dim 0 are i32. Compared by subtraction, before start + v is formed anywhere. */
static plait_status check_start(const plait_op_use *use, int attr) {
    int64_t start = use->attrs[attr].i, v = use->inputs[0].dims[0];
    if (start >= 0 && start <= INT32_MAX && v <= INT32_MAX - start) return PLAIT_OK;
    return plait_error(PLAIT_INVALID_ARGUMENT,
                       "start_v is %lld for x: dim 0 of %lld, expected ids in [0, 2^31)", (long long)start,
                       (long long)v);
}

/* ---- argmax ---- */

/* Without values: only greedy sampling needs it, and a member's partial carries its value anyway. */

static const plait_attr_row argmax_attrs[PLAIT_ARGMAX_ATTRS] = {
    [PLAIT_ARGMAX_START_V] = {"start_v", PLAIT_ATTR_INT, {.i = 0}, false, "id of the first element of x"},
};

/* Without an element there is no largest one, so here a dim of 0 is an error; a row count of 0 is none. */
static plait_status argmax_shape(plait_op_use *use) {
    PLAIT_TRY(plait_shape_dtype(use, 0, PLAIT_F32));
    PLAIT_TRY(check_start(use, PLAIT_ARGMAX_START_V));
    PLAIT_TRY(plait_shape_by_factors(use));
    if (use->inputs[0].dims[0] == 0)
        return plait_error(PLAIT_INVALID_ARGUMENT, "x: dim 0 is 0, expected 1 or more");
    use->outputs[0].dtype = PLAIT_I32;
    return PLAIT_OK;
}

/* In the order of ids, with the order of values that slices share. */
static void argmax_reference(const plait_op_use *use, void *scratch) {
    (void)scratch;
    const plait_operand *x = &use->inputs[0];
    /* The first element is the best so far; equal ones later do not replace it. */
    for (int64_t n = 0; n < x->dims[1]; n++) {
        int64_t best = 0;
        for (int64_t i = 1; i < x->dims[0]; i++)
            if (plait_better(get_value(x, i, n), i, get_value(x, best, n), best)) best = i;
        plait_ref_set_id(&use->outputs[0], n, 0, (int32_t)(best + start_of(use)));
    }
}

/* A comparison for each element; the outputs are too few to tell the cost. */
static double input_flop(const plait_op_use *use) {
    return (double)plait_operand_elems(&use->inputs[0]);
}

/* Widths beside vectors' and blocks', one element, ids that begin at 500, no column, views. */
static const plait_example argmax_cases[] = {
    {.inputs = {PLAIT_IN(F32, 17, 3, 1, 1)}},
    {.inputs = {PLAIT_IN(F32, 1, 2, 1, 1)}},
    {.inputs = {PLAIT_IN(F32, 1031, 4, 1, 1)}, .attrs = {{"start_v", {.i = 500}}}},
    {.inputs = {PLAIT_IN(F32, 9, 0, 1, 1)}},
    {.inputs = {PLAIT_VIEW(PADDED, F32, 33, 5, 1, 1)}},
    {.inputs = {PLAIT_VIEW(STRIDED, F32, 33, 5, 1, 1)}},
};
PLAIT_EXAMPLES(argmax)

/* v: merge(argmax)@: a slice counts its ids from start_v, and slices merge by value and id. Columns are free. */
const plait_op plait_op_argmax = {
    .struct_bytes = sizeof(plait_op),
    .id = PLAIT_OP_argmax,
    .name = "argmax",
    .doc =
        "ids[n] = start_v + the place of the largest x[v,n]; equal: the lowest; NaN never wins over a number",
    .factors = "x[v,n] -> ids[n]; v: merge(argmax)@",
    .attrs = argmax_attrs,
    .n_attrs = PLAIT_ARGMAX_ATTRS,
    .shape = argmax_shape,
    .writes_input = -1,
    .rows_input = -1,
    .reference = argmax_reference,
    .flop = input_flop,
    .example = argmax_example,
};

/* ---- top_k ---- */

static const plait_attr_row top_k_attrs[PLAIT_TOP_K_ATTRS] = {
    [PLAIT_TOP_K_K] = {"k", PLAIT_ATTR_INT, {.i = 0}, true, "how many, at most dim 0 of x"},
    [PLAIT_TOP_K_START_V] = {"start_v", PLAIT_ATTR_INT, {.i = 0}, false, "id of the first element of x"},
};

/* k of the text has no input that tells its size; it is an attribute, and set by hand after the factors were solved. */
static plait_status top_k_shape(plait_op_use *use) {
    int64_t k = use->attrs[PLAIT_TOP_K_K].i;
    PLAIT_TRY(plait_shape_dtype(use, 0, PLAIT_F32));
    PLAIT_TRY(plait_attr_above_zero(use, PLAIT_TOP_K_K));
    PLAIT_TRY(check_start(use, PLAIT_TOP_K_START_V));
    PLAIT_TRY(plait_shape_by_factors(use));
    if (k > use->inputs[0].dims[0])
        return plait_error(PLAIT_INVALID_ARGUMENT, "k is %lld, expected at most %lld (x: dim 0)",
                           (long long)k, (long long)use->inputs[0].dims[0]);
    use->outputs[0].dims[0] = use->outputs[1].dims[0] = k;
    use->outputs[1].dtype = PLAIT_I32;
    return PLAIT_OK;
}

/* Sorted, best first: merges rely on it. */
static void top_k_reference(const plait_op_use *use, void *scratch) {
    (void)scratch;
    best_of(&use->inputs[0], start_of(use), &use->outputs[0], &use->outputs[1]);
}

#define BEST(n) .attrs = {{"k", {.i = (n)}}}
/* k of all elements, k of 1, ids that start at 500, no column, and views of both kinds. */
static const plait_example top_k_cases[] = {
    {.inputs = {PLAIT_IN(F32, 17, 3, 1, 1)}, BEST(5)},
    {.inputs = {PLAIT_IN(F32, 6, 2, 1, 1)}, BEST(6)},
    {.inputs = {PLAIT_IN(F32, 1031, 4, 1, 1)}, .attrs = {{"k", {.i = 40}}, {"start_v", {.i = 500}}}},
    {.inputs = {PLAIT_IN(F32, 9, 0, 1, 1)}, BEST(2)},
    {.inputs = {PLAIT_VIEW(PADDED, F32, 33, 5, 1, 1)}, BEST(1)},
    {.inputs = {PLAIT_VIEW(STRIDED, F32, 33, 5, 1, 1)}, BEST(7)},
};
#undef BEST
PLAIT_EXAMPLES(top_k)

/* v as in argmax; k is whole, because a part of the best is not the best of a part. */
const plait_op plait_op_top_k = {
    .struct_bytes = sizeof(plait_op),
    .id = PLAIT_OP_top_k,
    .name = "top_k",
    .doc = "the k largest x[v,n] and their ids, best first; equal: the lowest id first; NaN last",
    .factors = "x[v,n] -> values[k,n] ids[k,n]; v: merge(top_k)@, k: whole",
    .attrs = top_k_attrs,
    .n_attrs = PLAIT_TOP_K_ATTRS,
    .shape = top_k_shape,
    .writes_input = -1,
    .rows_input = -1,
    .reference = top_k_reference,
    .flop = input_flop,
    .example = top_k_example,
};
