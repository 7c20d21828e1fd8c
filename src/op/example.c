/* Examples as data become uses. Not here: random filling of float inputs, which whoever runs an example does.
 * Invariant: every operand of an example addresses each of its elements once, and no number depends on the machine. */
#include "op/example.h"

#include "base/size.h"
#include "op/reference.h"

/* Strides of a view; padding is two blocks, which no other operand has by chance. A dim of size 0 counts as 1, so that
 * strides stay positive and distinct. */
static void set_strides(plait_operand *o, plait_example_view view) {
    plait_operand_make_dense(o);
    int64_t one = o->strides[0];
    switch (view) {
    case PLAIT_EXAMPLE_DENSE: break;
    case PLAIT_EXAMPLE_PADDED:
        o->strides[1] += 2 * one;
        o->strides[2] = o->strides[1] * plait_max_i64(o->dims[1], 1);
        o->strides[3] = o->strides[2] * plait_max_i64(o->dims[2], 1);
        break;
    case PLAIT_EXAMPLE_PERMUTED:
        o->strides[2] = o->strides[1];
        o->strides[1] = o->strides[2] * plait_max_i64(o->dims[2], 1);
        break;
    case PLAIT_EXAMPLE_STRIDED:
        o->strides[0] = one * plait_max_i64(o->dims[1], 1);
        o->strides[1] = one;
        break;
    }
}

/* An input whose dims are all 0 is absent; one of size 0 has another dim above 0. Attribute names that the op does not
 * have are passed over: families share their tables. */
bool plait_example_take(const plait_op *op, const plait_example *cases, size_t n, int which,
                        plait_op_use *use) {
    if (which < 0 || (size_t)which >= n) return false;
    const plait_example *example = &cases[which];
    plait_op_use_init(use, op);
    for (int i = 0; i < PLAIT_MAX_INPUTS; i++) {
        const plait_example_operand *from = &example->inputs[i];
        int64_t any = 0;
        for (int d = 0; d < PLAIT_MAX_RANK; d++) any |= from->dims[d];
        if (!any) continue;
        use->n_inputs = i + 1;
        use->present |= 1u << i;
        use->inputs[i].dtype = from->dtype;
        memcpy(use->inputs[i].dims, from->dims, sizeof from->dims);
        set_strides(&use->inputs[i], from->view);
    }
    for (int i = 0; i < PLAIT_EXAMPLE_MAX_ATTRS && example->attrs[i].name; i++) {
        int attr = plait_op_attr_index(op, example->attrs[i].name);
        if (attr >= 0) use->attrs[attr] = example->attrs[i].value;
    }
    return true;
}

/* The upper bits: the lowest bit of a linear congruence modulo 2^64 only alternates. */
int64_t plait_example_random(uint64_t *state, int64_t limit) {
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return limit < 1 ? 0 : (int64_t)((*state >> 33) % (uint64_t)limit);
}

/* A limit below 1 leaves no id to name: -1 everywhere. */
void plait_example_fill_ids(const plait_operand *ids, uint64_t seed, int64_t limit, bool holes) {
    int64_t count = 0;
    for (int64_t j = 0; j < ids->dims[1]; j++)
        for (int64_t i = 0; i < ids->dims[0]; i++, count++) {
            int64_t id = plait_example_random(&seed, limit);
            bool hole = limit < 1 || (holes && count % 5 == 4);
            plait_ref_set_id(ids, i, j, hole ? -1 : (int32_t)id);
        }
}

/* A stride without a common divisor visits every residue once before it repeats, so the ids are distinct without a
 * table of those that were taken. */
void plait_example_fill_distinct(const plait_operand *ids, uint64_t seed, int64_t limit) {
    /* Steps through [0, limit) with a stride that shares no divisor with it. */
    int64_t at = plait_example_random(&seed, limit), step = plait_max_i64(limit / 3, 1);
    for (int64_t a = step, b = limit; limit > 1;) {
        while (b) {
            int64_t rest = a % b;
            a = b;
            b = rest;
        }
        if (a == 1) break;
        a = ++step;
        b = limit;
    }
    for (int64_t i = 0; i < ids->dims[0]; i++) {
        plait_ref_set_id(ids, i, 0, i < limit ? (int32_t)at : -1);
        if (limit > 0) at = (at + step) % limit;
    }
}
