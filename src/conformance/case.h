/* One node under test: an op with operands, how they lie, what numbers they hold. It is run twice on the device, for
 * equal bytes, and compared with the reference kernel within the bounds of the op table; nothing else may have changed.
 */
#ifndef PLAIT_CONFORMANCE_CASE_H
#define PLAIT_CONFORMANCE_CASE_H

#include "conformance/fill.h"

typedef struct plait_conf_case {
    plait_op_use use; /* inputs, attributes, at the bounds; outputs as inferred */
    int which;        /* the op's example that it is made of: its run-time data */
    uint64_t seed;
    plait_conf_values values;
    uint64_t shift_blocks;         /* operands begin so many blocks behind an aligned place */
    int same_as[PLAIT_MAX_INPUTS]; /* input i is the tensor of input same_as[i]; -1: of its own */
    bool share;                    /* the output lies over an input, where the device allows it */
    bool bounded;                  /* the outermost dim of some operands is a named dim */
    int64_t bound, value;          /* its bound and value */
    plait_extent inputs[PLAIT_MAX_INPUTS], outputs;
    bool packed;    /* input 0 is a weight in the encoding that the device likes best, if there is one */
    bool timed;     /* launches are timed, after the runs that are compared */
    bool unchecked; /* only timed: the reference kernel would take too long */
} plait_conf_case;

/* Example number `which` as it is; false when there is none. */
bool plait_conf_case_init(plait_conf_case *test, const plait_op *op, int which);
/* Infers the outputs again after a change of the inputs; false when the op refuses them. */
bool plait_conf_case_infer(plait_conf_case *test);
/* Makes a factor a named dim, where it is the outermost one in every operand that has it; false where there is none. */
bool plait_conf_case_bind(plait_conf_case *test);
/* Runs it, when the device supports it. A check for plait_conf_check. */
plait_status plait_conf_case_check(plait_conf *c, void *plait_conf_case);

#endif
