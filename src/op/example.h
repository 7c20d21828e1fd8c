/* Examples of operands as data: how the ops' files write down the cases that tests, conformance and benchmarks
 * run, and how those become uses. Not here: random filling of inputs, which whoever runs an example does. */
#ifndef PLAIT_OP_EXAMPLE_H
#define PLAIT_OP_EXAMPLE_H

#include "plait/op.h"

/* How an example's operand lies in memory. */
typedef enum plait_example_view {
    PLAIT_EXAMPLE_DENSE,
    PLAIT_EXAMPLE_PADDED,   /* rows farther apart than they are long: a slice of something wider */
    PLAIT_EXAMPLE_PERMUTED, /* dim 2 lies inside dim 1 in memory */
    PLAIT_EXAMPLE_STRIDED   /* dim 0 is not the contiguous one (plain types only) */
} plait_example_view;

typedef struct plait_example_operand {
    plait_dtype dtype;
    int64_t dims[PLAIT_MAX_RANK]; /* all four; all zero: the input is absent */
    plait_example_view view;
} plait_example_operand;

/* One operand: type and all its dims. */
#define PLAIT_IN(type, ...)                                                                                  \
    {                                                                                                        \
        .dtype = PLAIT_##type, .dims = { __VA_ARGS__ }                                                       \
    }
#define PLAIT_VIEW(kind, type, ...)                                                                          \
    { .dtype = PLAIT_##type, .dims = {__VA_ARGS__}, .view = PLAIT_EXAMPLE_##kind }
#define PLAIT_ABSENT                                                                                         \
    {                                                                                                        \
        .dims = { 0, 0, 0, 0 }                                                                               \
    }

typedef struct plait_example_attr {
    const char *name; /* NULL ends the list */
    plait_attr value;
} plait_example_attr;

#define PLAIT_EXAMPLE_MAX_ATTRS 10

typedef struct plait_example {
    plait_example_operand inputs[PLAIT_MAX_INPUTS];
    plait_example_attr attrs[PLAIT_EXAMPLE_MAX_ATTRS];
} plait_example;

/* Makes case `which` of n a use of the op; false when there is no such case. */
bool plait_example_take(const plait_op *op, const plait_example *cases, size_t n, int which,
                        plait_op_use *use);

/* The examples of an op from its table `NAME_cases`. */
#define PLAIT_EXAMPLES(name)                                                                                 \
    static bool name##_example(int which, plait_op_use *use) {                                               \
        return plait_example_take(&plait_op_##name, name##_cases, PLAIT_COUNT_OF(name##_cases), which, use); \
    }

/* A small generator with a stated sequence, for control data: the upper bits of a 64-bit linear congruence
 * (Knuth's MMIX constants). Returns a number in [0, limit), 0 for limit < 1. */
int64_t plait_example_random(uint64_t *state, int64_t limit);

/* Fills an i32 operand with numbers in [0, limit); every fifth one -1 when `holes`. */
void plait_example_fill_ids(const plait_operand *ids, uint64_t seed, int64_t limit, bool holes);
/* Fills i32 [n] with different numbers of [0, limit) in random order; -1 when there are no more. */
void plait_example_fill_distinct(const plait_operand *ids, uint64_t seed, int64_t limit);

#endif
