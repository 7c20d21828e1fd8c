/* Which device holds which unit of a model: a problem of numbers alone, so that it can be solved exactly and tested
 * without devices. Units are whole blocks and what stands before and behind them; a device gets a contiguous range of
 * them, possibly none, ranges follow each other in the order of the devices. */
#ifndef PLAIT_PLAN_SPLIT_H
#define PLAIT_PLAN_SPLIT_H

#include "cost/cost.h"

/* Something that several units need: it is there once for all units of a device. */
typedef struct plait_split_shared {
    uint32_t item;                /* 0 to n_shared - 1 */
    const uint64_t *bytes, *need; /* [device] */
} plait_split_shared;

typedef struct plait_split_problem {
    uint32_t n_units, n_shared;
    int n_devices;
    /* [unit * n_devices + device] what the unit holds there, without what is shared: for the shares; and how much of that
     * takes memory (weights that are used in a mapped file do not): for the room. */
    const uint64_t *bytes, *need;
    const double *ns;             /* [unit * n_devices + device] time of the unit there */
    const uint32_t *first_shared; /* [n_units + 1] places in `shared` */
    const plait_split_shared *shared;
    /* [(unit * n_devices + device) * n_devices + other] what the unit puts on another device when it is on `device`, for
     * what that one lacks: for the shares. NULL: nothing. */
    const uint64_t *elsewhere;
    const uint64_t *room; /* [device] most of `need` */
    const double *cross_n,
        *cross_bytes; /* [unit] transfers and bytes from the unit before it, if that is elsewhere */
    const plait_cost *cost;
    /* What is sought: bytes in proportion to shares, least sum of squares of what is missing or too much (for equal units
     * that is the method of largest remainders), a share of 0 holding nothing; without shares as much as possible on the
     * earliest devices (`first`), or the least time (all on the first device, unless another way wins 3%). Equal solutions:
     * more units on earlier devices. */
    const double *shares; /* [device], not all 0; or NULL */
    bool first;
    bool soft; /* devices of share 0 may hold what nobody else has room for */
} plait_split_problem;

/* *out_found: whether there is a solution; then out_devices [n_units] holds it, and *out_cost what it costs in the terms
 * of what is sought: time, bytes by the place of their device, or squares. Time n_devices * n_units^2. */
plait_status plait_split_solve(const plait_split_problem *problem, int *out_devices, double *out_cost,
                               bool *out_found);

#endif
