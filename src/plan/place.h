/* What the parts of placement share: the beginning (place.c), the moves (moves.c), copies of operands (copies.c). */
#ifndef PLAIT_PLAN_PLACE_H
#define PLAIT_PLAN_PLACE_H

#include "plan/weigh.h"

typedef struct plait_placer {
    plait_plan *plan;
    plait_weighed weighed; /* Owned. */
    /* Owned, [node]. */
    int *device;          /* where it is now; -1: not placed yet */
    int *wish;            /* where weights, state, pins or its block want it; -1: nowhere in particular */
    int *later;           /* the wish of who reads it, for nodes without one */
    unsigned char *cause; /* of the wish */
    bool *held;           /* no move may take it away */
    int start;            /* for nodes that neither wish nor have neighbours that do */
} plait_placer;

/* Moves groups and nodes to where they are better off: groups in graph order, at most eight rounds, each move winning 3%
 * of the step. */
plait_status plait_place_moves(plait_placer *placer);

/* Nodes that run where a device takes some of their inputs only dense (`copies` [node], a bit for each input) are given copies
 * to read: the plan goes on with a graph that has them, in which all other nodes keep their places. `weighed` is made anew for
 * that graph; NULL: there is one device. Does nothing where there is nothing to copy. */
plait_status plait_place_copies(plait_plan *plan, const uint16_t *copies, plait_weighed *weighed);

#endif
