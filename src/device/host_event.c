/* Timelines of devices whose commands a host thread carries out: an atomic value, and a futex word that changes with
 * every step of it. Not here: who signals (host_queue.c), and events of devices with timelines of their own.
 * Invariants: the value only grows; once failed an event stays failed, with the message of the first failure.
 *
 * A waiter looks, spins for a while where processors are left for that, and then sleeps. It counts itself in `sleepers`
 * before it reads `changes`, and a signaller changes `changes` before it reads `sleepers`, both sequentially
 * consistent: either the signaller sees the sleeper and wakes it, or the sleeper sees the change and does not sleep. */
#include "base/alloc.h"
#include "base/os.h"
#include "base/status.h"
#include "base/thread.h"
#include "device/processors.h"
#include "plait/host_queue.h"

#include <stdlib.h>

/* SPIN_NS: how long a wait spins before it sleeps. SPINS_PER_LOOK: looks at the event between two readings of the
 * clock. */
enum { SPIN_NS = 20000, SPINS_PER_LOOK = 32 };

typedef struct host_event {
    plait_event base;
    _Atomic uint64_t value;
    /* changes: the futex word, wraps; sleepers: waiters beyond spinning. */
    _Atomic uint32_t changes, sleepers;
    _Atomic bool failed;  /* set after `failure` is written */
    pthread_mutex_t lock; /* of writers */
    plait_error_record failure;
} host_event;

plait_status plait_host_event_create(plait_device *device, plait_event **out) {
    host_event *event = plait_alloc_array(1, sizeof *event);
    if (!event) return plait_error_memory("event", sizeof *event);
    if (pthread_mutex_init(&event->lock, NULL) != 0) {
        free(event);
        return plait_error_memory("event", 0);
    }
    event->base.device = device;
    *out = &event->base;
    return PLAIT_OK;
}

void plait_host_event_destroy(plait_event *base) {
    host_event *event = (host_event *)base;
    if (!event) return;
    /* A signaller may still be on its way out of the lock: its last touch is the unlock. */
    pthread_mutex_lock(&event->lock);
    pthread_mutex_unlock(&event->lock);
    pthread_mutex_destroy(&event->lock);
    free(event);
}

/* By the function in its vtable, whichever kind the device is of: kinds that take their events from here share the
 * struct. */
bool plait_host_event_is_ours(const plait_event *event) {
    return event->device->vtable->event_query == plait_host_event_query;
}

/* With the lock held. The system call is made only when somebody sleeps: most signals of a step find nobody. */
static void announce(host_event *event) {
    atomic_fetch_add(&event->changes, 1);
    if (atomic_load(&event->sleepers)) plait_futex_wake(&event->changes, INT32_MAX);
}

/* Smaller values change nothing, but wake: that costs a look. Works on an event that failed: values that were reached
 * count. */
plait_status plait_host_event_signal(plait_event *base, uint64_t value) {
    host_event *event = (host_event *)base;
    pthread_mutex_lock(&event->lock);
    if (value > atomic_load_explicit(&event->value, memory_order_relaxed))
        atomic_store_explicit(&event->value, value, memory_order_release);
    announce(event);
    pthread_mutex_unlock(&event->lock);
    return PLAIT_OK;
}

/* The record is written before `failed` is, and never again, so readers that have seen `failed` read it without the
 * lock. */
void plait_host_event_fail(plait_event *base, const plait_error_record *failure) {
    host_event *event = (host_event *)base;
    pthread_mutex_lock(&event->lock);
    if (!atomic_load_explicit(&event->failed, memory_order_relaxed)) {
        event->failure = *failure;
        atomic_store_explicit(&event->failed, true, memory_order_release);
    }
    announce(event);
    pthread_mutex_unlock(&event->lock);
}

/* A failed event answers with the failure, whatever value it had reached: who asks for a value must not go on
 * waiting. */
plait_status plait_host_event_query(plait_event *base, uint64_t *out_value) {
    host_event *event = (host_event *)base;
    if (atomic_load_explicit(&event->failed, memory_order_acquire)) return plait_error_raise(&event->failure);
    *out_value = atomic_load_explicit(&event->value, memory_order_acquire);
    return PLAIT_OK;
}

/* True when the wait is over, with its outcome. A value reached before the failure counts as reached. */
static bool over(host_event *event, uint64_t value, plait_status *out) {
    *out = PLAIT_OK;
    if (atomic_load_explicit(&event->value, memory_order_acquire) >= value) return true;
    if (!atomic_load_explicit(&event->failed, memory_order_acquire)) return false;
    *out = plait_error_raise(&event->failure);
    return true;
}

/* False, at once, when no processor is left to spin on (device/processors.h): the one who will signal may need this
 * one. */
static bool spin(host_event *event, uint64_t value, uint64_t start, uint64_t limit_ns, plait_status *out) {
    bool done = false;
    if (!plait_spin_begin()) return false;
    do {
        for (int i = 0; i < SPINS_PER_LOOK && !done; i++) {
            done = over(event, value, out);
            plait_cpu_relax();
        }
    } while (!done && plait_time_ns() - start < limit_ns);
    plait_spin_end();
    return done;
}

/* True when the wait is over, with its outcome; false when timeout_ns after `start` it is not. `changes` is read before
 * the event: a signal in between makes the futex word differ from what the system call is given, which then returns at
 * once. */
static bool sleep_until(host_event *event, uint64_t value, uint64_t start, uint64_t timeout_ns,
                        plait_status *out) {
    for (;;) {
        uint32_t changes = atomic_load(&event->changes);
        if (over(event, value, out)) return true;
        uint64_t passed = timeout_ns == UINT64_MAX ? 0 : plait_time_ns() - start;
        if (passed >= timeout_ns) return false;
        plait_futex_wait(&event->changes, changes,
                         timeout_ns == UINT64_MAX ? UINT64_MAX : timeout_ns - passed);
    }
}

plait_status plait_host_event_wait(plait_event *base, uint64_t value, uint64_t timeout_ns) {
    host_event *event = (host_event *)base;
    plait_status status = PLAIT_OK;
    uint64_t start = plait_time_ns();
    if (over(event, value, &status)) return status;
    if (spin(event, value, start, timeout_ns < SPIN_NS ? timeout_ns : SPIN_NS, &status)) return status;
    atomic_fetch_add(&event->sleepers, 1);
    bool done = sleep_until(event, value, start, timeout_ns, &status);
    atomic_fetch_sub(&event->sleepers, 1);
    if (done) return status;
    return plait_error(PLAIT_TIMEOUT, "%s: an event is at %llu after %llu ns, expected %llu",
                       base->device->name, (unsigned long long)atomic_load(&event->value),
                       (unsigned long long)timeout_ns, (unsigned long long)value);
}
