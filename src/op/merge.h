/* Partials and their merging: what a slice of a merge(softmax), merge(argmax) or merge(top_k) factor yields, and
 * how the slices become the whole. These are the definition of right for devices and collectives that split such
 * factors; each partial kernel takes a use of the op whose sliced inputs and start_ attributes are set (a slice
 * may be empty, which the op's own shape rule would refuse).
 *
 * Order of merging is the order of the slices given, so equal cuts give equal bytes. Any thread; no allocation. */
#ifndef PLAIT_OP_MERGE_H
#define PLAIT_OP_MERGE_H

#include "plait/op.h"

/* Attention over the keys of a slice: values[e,heads,n] is the sum of exp(logit - maximum) * v, not divided;
 * maximum[heads,n] (-infinity when no key is visible) and sum[heads,n] of exp(logit - maximum). All float32.
 * Sinks belong to no slice; the merge takes them once. */
typedef struct plait_softmax_partial {
    plait_operand values, maximum, sum;
} plait_softmax_partial;

/* `use` is attention with inputs k and v sliced along p or c; its outputs and sinks are not used. Scratch as the
 * op's reference_scratch says. */
void plait_attention_partial(const plait_op_use *use, const plait_softmax_partial *out, void *scratch);

/* out[e,heads,n] = the attention of the whole. `sinks` is NULL or float32 [heads]. Where no slice saw a key, 0. */
void plait_merge_softmax(const plait_softmax_partial *parts, int n_parts, const plait_operand *sinks,
                         const plait_operand *out);

/* Best values and their ids, of slices: values[k,n] float32 and ids[k,n] i32, best first; k may differ between
 * slices. For argmax k is 1; a slice with no elements has k 0. */
typedef struct plait_best_partial {
    plait_operand values, ids;
} plait_best_partial;

/* The min(k, elements) best of a slice for use of argmax (k 1) or top_k, ids counted from start_v. out->values
 * dims say how many are wanted. */
void plait_best_of_slice(const plait_op_use *use, const plait_best_partial *out);

/* Merges to the dims of `values` and `ids` ([k,n]; `values` NULL: not wanted, as for argmax). Equal values: the
 * lower id. Places beyond what all slices hold get -infinity and -1. */
void plait_merge_best(const plait_best_partial *parts, int n_parts, const plait_operand *values,
                      const plait_operand *ids);

/* True when (value, id) is better than (other, other_id): larger, or a number against NaN, or equal with the
 * lower id. Two NaNs are equal. */
bool plait_better(float value, int64_t id, float other, int64_t other_id);

#endif
