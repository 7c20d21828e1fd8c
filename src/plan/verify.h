/* Inside of the proof: lives of bytes in one buffer, and whether those that meet may. */
#ifndef PLAIT_PLAN_VERIFY_H
#define PLAIT_PLAN_VERIFY_H

#include "plan/plan.h"

/* Bytes of a buffer, and the positions of a device's order between which they belong to one value or to scratch. */
typedef struct plait_life {
    uint64_t begin, end; /* begin < end */
    int32_t first, last; /* both included */
    uint32_t value;      /* PLAIT_NO_SLOT: scratch of a group */
} plait_life;

/* The pairs that devices allow to share bytes, by output. */
typedef struct plait_life_pairs {
    uint32_t *heads; /* [value] its pairs + 1 */
    struct plait_life_pair {
        uint32_t input, next;
    } * pairs;
} plait_life_pairs;

/* Tables in memory of the arena. */
plait_status plait_life_pairs_init(plait_life_pairs *pairs, const plait_plan *plan, plait_arena *arena);
/* No two lives use a byte at one position, unless the later one takes over the earlier one's where that ends, by a pair.
 * Reorders `lives`. */
plait_status plait_plan_verify_keep(const plait_plan *plan, const plait_life_pairs *pairs, plait_life *lives,
                                    size_t n);

#endif
