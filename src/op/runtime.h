/* What check_runtime functions are made of: ranges of the numbers that the host wrote. They run before every step, so
 * the loops are plain and vectorisable, and only a failing check looks for the culprit. Not here: any op's rule. */
#ifndef PLAIT_OP_RUNTIME_H
#define PLAIT_OP_RUNTIME_H

#include "plait/op.h"

/* True when every number of an i32 input lies in [low, high). Inputs that are absent or have no data, and empty ones,
 * pass. Only dims 0 and 1 are looked at: run-time operands have no more. */
bool plait_ids_within(const plait_operand *ids, int64_t low, int64_t high);

/* OUT_OF_RANGE naming the input, the first index that is outside, its value and the range; OK when there is none. */
plait_status plait_check_ids(const plait_op_use *use, int input, int64_t low, int64_t high);

/* The message for one element, index i0 of dim 0 and i1 of dim 1. */
plait_status plait_bad_id(const plait_op_use *use, int input, int64_t i0, int64_t i1, int64_t low,
                          int64_t high);

#endif
