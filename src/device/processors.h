/* Who of this process computes on how many processors, over all devices and contexts: so that threads of two devices do
 * not spin while each waits for a processor that the other one's spinner holds. It is global because processors are.
 *
 * A user is a group of threads that works in launches (the compute threads of a cpu device). As long as all users
 * together have no more threads than there are processors, and no more in any set that they are bound to, everybody gets
 * all threads, at the cost of one store. Otherwise a launch gets those of its threads that the launches of others, at
 * that moment, leave processors for, at least one; alone it gets all. Whoever gets a single thread has nobody to wait for
 * and never spins, so the threads that spin within launches are never more than the processors.
 *
 * Threads of the host that wait for a device (queues, waits on events) may spin on what users leave.
 *
 * Not here: which processors a user is bound to (device/cpu/share.h), and how threads wait (device/cpu/pool.h).
 */
#ifndef PLAIT_DEVICE_PROCESSORS_H
#define PLAIT_DEVICE_PROCESSORS_H

#include "base/cpuset.h"

#include <stdatomic.h>
#include <stdbool.h>

/* Part of its owner; the first two fields are set before joining and stay. */
typedef struct plait_processor_user {
    int n_threads;
    const plait_cpuset *bound;      /* Borrowed. The processors its threads keep to; NULL: any */
    _Alignas(64) _Atomic int taken; /* threads of the launch that runs; 0: none does */
    _Atomic bool crowded;           /* users have more threads than processors */
    struct plait_processor_user *next;
} plait_processor_user;

void plait_processors_join(plait_processor_user *user);
/* No launch of it may run. Does nothing for a user that has not joined. */
void plait_processors_leave(plait_processor_user *user);

/* Around a launch, one at a time for a user: how many of its threads may work, 1 to n_threads. */
int plait_processors_take(plait_processor_user *user);
void plait_processors_give(plait_processor_user *user);
/* True when idle threads of the user may spin until its next launch. */
static inline bool plait_processors_are_plenty(plait_processor_user *user) {
    return !atomic_load_explicit(&user->crowded, memory_order_relaxed);
}

/* Around the spinning of a thread that belongs to no user: false when it should sleep at once, and there is nothing to
 * end then. */
bool plait_spin_begin(void);
void plait_spin_end(void);

#endif
