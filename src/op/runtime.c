/* Ranges of ids that the host wrote. Not here: which range an op allows (its check_runtime), and ids made on a device,
 * which kernels check themselves (plait_ref_bad_id). Invariant: nothing is read but the elements of the operand, and
 * nothing is written: a refused step has changed nothing. */
#include "op/runtime.h"

#include "base/status.h"
#include "op/reference.h"
#include "op/shape.h"

#include <stdio.h>

/* Neighbours of 4 bytes: the smallest and largest are found without a branch. Other strides have a loop of their own,
 * so that the common one stays a plain vector loop. */
static bool row_within(const char *row, int64_t n, int64_t stride, int64_t low, int64_t high) {
    int32_t least = INT32_MAX, most = INT32_MIN, value;
    if (stride == (int64_t)sizeof value) {
        for (int64_t i = 0; i < n; i++) {
            memcpy(&value, row + i * (int64_t)sizeof value, sizeof value);
            least = value < least ? value : least;
            most = value > most ? value : most;
        }
    } else {
        for (int64_t i = 0; i < n; i++) {
            memcpy(&value, row + i * stride, sizeof value);
            least = value < least ? value : least;
            most = value > most ? value : most;
        }
    }
    return n <= 0 || (least >= low && most < high);
}

/* Data that is not there passes: the host wrote none, so there is nothing of its own to check. */
bool plait_ids_within(const plait_operand *ids, int64_t low, int64_t high) {
    if (!ids->data) return true;
    for (int64_t i1 = 0; i1 < ids->dims[1]; i1++)
        if (!row_within(plait_ref_at(ids, 0, i1, 0, 0), ids->dims[0], ids->strides[0], low, high))
            return false;
    return true;
}

/* high is exclusive; low of INT32_MIN means that every negative number is allowed, and is not told. */
plait_status plait_bad_id(const plait_op_use *use, int input, int64_t i0, int64_t i1, int64_t low,
                          int64_t high) {
    char name[16], index[48];
    const plait_operand *ids = &use->inputs[input];
    plait_op_input_name(use->op, input, name);
    if (ids->dims[1] == 1)
        snprintf(index, sizeof index, "%lld", (long long)i0);
    else
        snprintf(index, sizeof index, "%lld, %lld", (long long)i0, (long long)i1);
    if (low > INT32_MIN)
        return plait_error(PLAIT_OUT_OF_RANGE, "%s[%s] is %d, expected %lld to %lld", name, index,
                           plait_ref_get_id(ids, i0, i1), (long long)low, (long long)high - 1);
    return plait_error(PLAIT_OUT_OF_RANGE, "%s[%s] is %d, expected less than %lld", name, index,
                       plait_ref_get_id(ids, i0, i1), (long long)high);
}

/* Looks for the culprit only when there is one: the quick check runs before every step. */
plait_status plait_check_ids(const plait_op_use *use, int input, int64_t low, int64_t high) {
    const plait_operand *ids = &use->inputs[input];
    if (!plait_op_has(use, input) || plait_ids_within(ids, low, high)) return PLAIT_OK;
    for (int64_t i1 = 0; i1 < ids->dims[1]; i1++)
        for (int64_t i0 = 0; i0 < ids->dims[0]; i0++) {
            int64_t id = plait_ref_get_id(ids, i0, i1);
            if (id < low || id >= high) return plait_bad_id(use, input, i0, i1, low, high);
        }
    return PLAIT_OK;
}
