/* Vector clocks: what a queue, a signal or the host knows to be over. A lane is a queue's (or the host's) own count of
 * what it did; lane 0 is the host, and when there are more queues than lanes the last lane is shared, which claims order
 * that is not there and never denies one that is. */
#ifndef PLAIT_DEVICE_MONITOR_CLOCK_H
#define PLAIT_DEVICE_MONITOR_CLOCK_H

#include <stdbool.h>
#include <stdint.h>

enum { PLAIT_MONITOR_LANES = 48, PLAIT_MONITOR_HOST = 0 };

typedef struct plait_monitor_clock {
    uint64_t t[PLAIT_MONITOR_LANES];
} plait_monitor_clock;

/* A moment: number t of a lane, and the call that it belongs to. t 0: none. */
typedef struct plait_monitor_mark {
    uint64_t t, call;
    int32_t command; /* of the list submitted by the call; -1: none */
    uint16_t lane, function;
} plait_monitor_mark;

/* True when whoever has the clock knows the moment to be over. */
static inline bool plait_monitor_knows(const plait_monitor_clock *clock, const plait_monitor_mark *mark) {
    return clock->t[mark->lane] >= mark->t;
}

/* Knows what either knows: after a wait. */
static inline void plait_monitor_join(plait_monitor_clock *clock, const plait_monitor_clock *other) {
    for (int i = 0; i < PLAIT_MONITOR_LANES; i++)
        if (other->t[i] > clock->t[i]) clock->t[i] = other->t[i];
}

/* Knows what both know: of several signals, any of which may have ended a wait. */
static inline void plait_monitor_meet(plait_monitor_clock *clock, const plait_monitor_clock *other) {
    for (int i = 0; i < PLAIT_MONITOR_LANES; i++)
        if (other->t[i] < clock->t[i]) clock->t[i] = other->t[i];
}

#endif
