/* Checks of operands that the families share. Not here: what only one family asks. Invariant: a refusal leaves its
 * reason, an acceptance leaves `reason` alone. */
#include "device/cpu/kernels/family.h"

#include <stdio.h>

bool plait_cpu_refuse(char *reason, size_t reason_bytes, const char *what) {
    snprintf(reason, reason_bytes, "%s", what);
    return false;
}

/* Ids and caches, which are not F32, are read through op/reference.h or by the family's own rules. */
bool plait_cpu_rows_accepted(const plait_op_use *use, char *reason, size_t reason_bytes) {
    for (int i = 0; i < use->n_inputs + use->n_outputs; i++) {
        bool input = i < use->n_inputs;
        const plait_operand *o = input ? &use->inputs[i] : &use->outputs[i - use->n_inputs];
        if ((input && !plait_op_has(use, i)) || o->dtype != PLAIT_F32) continue;
        if (plait_cpu_row_contiguous(o)) continue;
        snprintf(reason, reason_bytes, "rows of %s %d are not contiguous", input ? "input" : "output",
                 input ? i : i - use->n_inputs);
        return false;
    }
    return true;
}
