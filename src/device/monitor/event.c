/* Timelines. A wait for a value is over when any of the signals of at least that value has come, so it orders what all
 * of them order in common. Not here: waiting itself (pump.c).
 *
 * Invariant: signals that the host knows are merged into `base`, which loses nothing: every later command knows what
 * the host knows. */
#include "device/monitor/monitor.h"

#include "base/alloc.h"
#include "base/os.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_SIGNALS = 4096 };

plait_monitor_event *plait_monitor_event_of(const plait_monitor *monitor, const plait_event *event) {
    if (!event || !plait_monitor_device_of(monitor, event->device)) return NULL;
    return (plait_monitor_event *)(uintptr_t)event;
}

/* ---- timelines ---- */

/* The oldest signal goes into `base` though the host may not know it: waits then order more than they should, and a
 * breach may be missed. */
static void merge_signal(plait_monitor_timeline *timeline, size_t i) {
    const plait_monitor_signal *signal = &timeline->signals[i];
    plait_monitor_join(&timeline->base, &signal->clock);
    if (signal->value > timeline->base_value) timeline->base_value = signal->value;
    memmove(timeline->signals + i, timeline->signals + i + 1,
            (timeline->n_signals - i - 1) * sizeof *timeline->signals);
    timeline->n_signals--;
}

/* Signals that the device has, and that the host knows to be over. Kept ones stay in their order. */
static void forget_known(const plait_monitor *monitor, plait_monitor_timeline *timeline) {
    size_t kept = 0;
    for (size_t i = 0; i < timeline->n_signals; i++) {
        plait_monitor_signal *signal = &timeline->signals[i];
        if (signal->forwarded && plait_monitor_knows(&monitor->host, &signal->mark)) {
            plait_monitor_join(&timeline->base, &signal->clock);
            if (signal->value > timeline->base_value) timeline->base_value = signal->value;
        } else if (kept++ != i) {
            timeline->signals[kept - 1] = *signal;
        }
    }
    timeline->n_signals = kept;
}

/* `forwarded`: the device has it already, as a signal of the host; those of lists are forwarded later. `highest` counts
 * from here on: the device may reach the value at once. */
void plait_monitor_event_add(plait_monitor *monitor, plait_monitor_timeline *timeline, uint64_t value,
                             const plait_monitor_clock *clock, const plait_monitor_mark *mark,
                             bool forwarded) {
    void *signals = timeline->signals;
    /* Before the array grows: a host that waits now and then keeps it short. */
    if (timeline->n_signals == timeline->capacity) forget_known(monitor, timeline);
    plait_status status = plait_grow(&signals, &timeline->capacity, timeline->n_signals + 1,
                                     sizeof *timeline->signals, MOST_SIGNALS, "monitor: signals");
    timeline->signals = signals;
    if (value > timeline->highest) timeline->highest = value;
    if (status != PLAIT_OK) { /* then a wait for it orders more than it should */
        if (timeline->n_signals == 0) {
            plait_monitor_join(&timeline->base, clock);
            if (value > timeline->base_value) timeline->base_value = value;
            return;
        }
        merge_signal(timeline, 0);
    }
    timeline->signals[timeline->n_signals++] =
        (plait_monitor_signal){.value = value, .mark = *mark, .forwarded = forwarded, .clock = *clock};
}

/* From the newest on, for it is the newest that are changed. Signals that will never come are taken out, so that nobody
 * is thought to be waiting for them. */
void plait_monitor_event_forwarded(plait_monitor_timeline *timeline, uint64_t call, bool forwarded) {
    for (size_t i = timeline->n_signals; i-- > 0;) {
        plait_monitor_signal *signal = &timeline->signals[i];
        if (signal->forwarded || signal->mark.call != call) continue;
        signal->forwarded = forwarded;
        if (forwarded) continue;
        memmove(signal, signal + 1, (timeline->n_signals - i - 1) * sizeof *signal);
        timeline->n_signals--;
    }
}

/* Value 0 is where every timeline begins. Of a foreign one nothing is known, so everything may come. */
bool plait_monitor_event_comes(const plait_monitor_event *event, uint64_t value,
                               const plait_monitor_queue *queue) {
    const plait_monitor_timeline *timeline = event->timeline;
    if (timeline->foreign || value == 0 || timeline->base_value >= value || timeline->observed >= value)
        return true;
    for (size_t i = 0; i < timeline->n_signals; i++) {
        const plait_monitor_signal *signal = &timeline->signals[i];
        /* What stands before the wait on its own queue will have come. */
        bool there = signal->forwarded || (queue && signal->mark.lane == queue->lane);
        if (there && signal->value >= value) return true;
    }
    return false;
}

/* Reached, failed, or of a device that is lost: in each case a wait ends. */
bool plait_monitor_event_settled(const plait_monitor_event *event, uint64_t value,
                                 const plait_monitor_queue *queue) {
    return event->timeline->failed || atomic_load(&event->object.device->lost) ||
           plait_monitor_event_comes(event, value, queue);
}

/* What all signals of at least the value have in common, the forgotten ones as one. None: the wait orders nothing, and
 * will not end either. */
void plait_monitor_event_join(const plait_monitor *monitor, const plait_monitor_timeline *timeline,
                              uint64_t value, plait_monitor_clock *clock) {
    plait_monitor_clock common;
    bool any = false;
    if (value == 0) return;
    if (timeline->foreign) { /* nothing is known, so nothing is said against it */
        for (const plait_monitor_queue *q = monitor->queues; q; q = q->next)
            plait_monitor_join(clock, &q->clock);
        return;
    }
    for (size_t i = 0; i < timeline->n_signals; i++) {
        const plait_monitor_signal *signal = &timeline->signals[i];
        /* A smaller one does not end the wait. */
        if (signal->value < value) continue;
        if (any)
            plait_monitor_meet(&common, &signal->clock);
        else
            common = signal->clock;
        any = true;
    }
    if (timeline->base_value >= value) {
        if (any)
            plait_monitor_meet(&common, &timeline->base);
        else
            common = timeline->base;
        any = true;
    }
    if (any) plait_monitor_join(clock, &common);
}

/* One reference an event and an import; the last one to go frees it, whichever device it is of. */
static void timeline_release(plait_monitor_timeline *timeline) {
    if (!timeline || --timeline->references > 0) return;
    free(timeline->signals);
    free(timeline);
}

/* ---- life ---- */

/* `shared`: the timeline of an event that is imported; NULL makes one. Failing, the inner event is destroyed and a
 * shared timeline left to the caller. */
static plait_status wrap_event(const plait_monitor_call *call, plait_event *inner,
                               plait_monitor_timeline *shared, plait_event **out) {
    plait_monitor_event *event = plait_alloc_array(1, sizeof *event);
    plait_monitor_timeline *timeline = shared ? shared : plait_alloc_array(1, sizeof *timeline);
    if (!event || !timeline) {
        if (!shared) free(timeline);
        free(event);
        inner->device->vtable->event_destroy(inner);
        return plait_error_memory("monitor: event", sizeof *event + sizeof *timeline);
    }
    event->base.device = &call->device->base;
    event->inner = inner;
    event->imported = shared != NULL;
    event->timeline = timeline;
    plait_monitor_lock(call->device->monitor);
    timeline->references++;
    plait_monitor_object_begin(call, PLAIT_OBJECT_EVENT, &event->object);
    plait_monitor_unlock(call->device->monitor);
    *out = &event->base;
    return PLAIT_OK;
}

plait_status plait_monitor_event_create(plait_device *device, plait_event **out) {
    plait_monitor_call call = plait_monitor_begin(device, PLAIT_MONITOR_F_event_create);
    plait_device *real = call.device->inner;
    plait_event *inner = NULL;
    PLAIT_MONITOR_CREATE(&call, inner, real->vtable->event_create(real, &inner));
    return wrap_event(&call, inner, NULL, out);
}

/* An import shares the timeline of the event that it shows, so signals of the one order waits for the other. The inner
 * device gets the inner event; one of an unknown device has a timeline of which nothing is known. */
plait_status plait_monitor_event_import(plait_device *device, plait_event *foreign, plait_event **out) {
    plait_monitor_call call = plait_monitor_begin(device, PLAIT_MONITOR_F_event_import);
    plait_monitor *monitor = call.device->monitor;
    plait_device *real = call.device->inner;
    plait_monitor_event *known = plait_monitor_event_of(monitor, foreign);
    plait_monitor_timeline *timeline = known ? known->timeline : NULL;
    plait_event *inner = NULL;
    if (!foreign)
        return plait_monitor_report(&call, PLAIT_MONITOR_ARGUMENT, NULL, NULL, "import of no event");
    if (known) PLAIT_TRY(plait_monitor_object_check(&call, &known->object));
    PLAIT_MONITOR_CREATE(&call, inner,
                         real->vtable->event_import(real, known ? known->inner : foreign, &inner));
    /* An event of a device that is not watched: nothing will ever be known of its signals. */
    if (!timeline) {
        timeline = plait_alloc_array(1, sizeof *timeline);
        if (!timeline) {
            real->vtable->event_destroy(inner);
            return plait_error_memory("monitor: event", sizeof *timeline);
        }
        timeline->foreign = true;
    }
    plait_status status = wrap_event(&call, inner, timeline, out);
    if (status != PLAIT_OK && timeline->references == 0) free(timeline);
    return status;
}

/* The inner event and this event's share of the timeline. */
void plait_monitor_event_release(plait_monitor_event *event) {
    if (event->inner) event->inner->device->vtable->event_destroy(event->inner);
    timeline_release(event->timeline);
    event->inner = NULL;
    event->timeline = NULL;
}

/* In use: held until the device ends. */
void plait_monitor_event_destroy(plait_event *base) {
    if (!base) return;
    plait_monitor_event *event = (plait_monitor_event *)base;
    plait_monitor_call call = plait_monitor_begin(base->device, PLAIT_MONITOR_F_event_destroy);
    plait_monitor *monitor = call.device->monitor;
    plait_monitor_lock(monitor);
    if (plait_monitor_object_check(&call, &event->object) == PLAIT_OK) {
        if (plait_monitor_object_idle(&call, &event->object) == PLAIT_OK) {
            plait_monitor_event_release(event);
            plait_monitor_object_end(&call, &event->object);
        } else {
            plait_monitor_object_hold(&call, &event->object);
        }
    }
    plait_monitor_unlock(monitor);
}

/* ---- the host's calls ---- */

/* The host has learned that the value is reached. What the host knows then may settle that lists are done, which are
 * compared now. */
static plait_status learned(const plait_monitor_call *call, plait_monitor_event *event, uint64_t value) {
    plait_monitor *monitor = call->device->monitor;
    plait_monitor_event_join(monitor, event->timeline, value, &monitor->host);
    if (value > event->timeline->observed) event->timeline->observed = value;
    return plait_monitor_check_lists(call);
}

/* seen_before was read before the device was asked: another thread may have seen more in the meantime. */
static plait_status judge_value(const plait_monitor_call *call, plait_monitor_event *event, uint64_t value,
                                uint64_t seen_before) {
    const plait_monitor_timeline *timeline = event->timeline;
    if (value < seen_before)
        return plait_monitor_report(call, PLAIT_MONITOR_EVENT_BACK, &event->object, NULL,
                                    "it is at %llu, it was at %llu before", (unsigned long long)value,
                                    (unsigned long long)seen_before);
    if (!timeline->foreign && value > timeline->highest)
        return plait_monitor_report(call, PLAIT_MONITOR_EVENT_EARLY, &event->object, NULL,
                                    "it is at %llu, the largest value of a signal so far is %llu",
                                    (unsigned long long)value, (unsigned long long)timeline->highest);
    return PLAIT_OK;
}

/* The lock is not held while the device is asked. What it says is a breach when it is less than before, or more than
 * anybody signalled. */
plait_status plait_monitor_event_query(plait_event *base, uint64_t *out_value) {
    plait_monitor_event *event = (plait_monitor_event *)base;
    plait_monitor_call call = plait_monitor_begin(base->device, PLAIT_MONITOR_F_event_query);
    plait_monitor *monitor = call.device->monitor;
    uint64_t value = 0;
    plait_monitor_lock(monitor);
    plait_status status = plait_monitor_object_check(&call, &event->object);
    uint64_t seen = event->timeline ? event->timeline->observed : 0;
    plait_monitor_unlock(monitor);
    if (status != PLAIT_OK) return status;
    PLAIT_TRY(plait_monitor_outcome(&call, event->inner->device->vtable->event_query(event->inner, &value)));
    plait_monitor_lock(monitor);
    /* Judged by what was known before; what the host learns counts from now on. */
    status = judge_value(&call, event, value, seen);
    if (status == PLAIT_OK) status = learned(&call, event, value);
    plait_monitor_unlock(monitor);
    if (status == PLAIT_OK) *out_value = value;
    return status;
}

typedef struct awaited {
    const plait_monitor_event *event;
    uint64_t value;
} awaited;

/* For plait_monitor_await. */
static bool is_settled(const void *user) {
    const awaited *a = user;
    return plait_monitor_event_settled(a->event, a->value, NULL);
}

/* With the lock held: until the value will come. Without a limit it is a breach when it never will: of a queue that
 * would signal it, or else of who waits. A queue that gives up makes its events fail, and the wait is then settled. */
static plait_status await_signal(const plait_monitor_call *call, plait_monitor_event *event, uint64_t value,
                                 uint64_t deadline_ns) {
    plait_monitor *monitor = call->device->monitor;
    awaited wanted = {event, value};
    while (!plait_monitor_await(monitor, is_settled, &wanted, deadline_ns)) {
        if (deadline_ns != UINT64_MAX) return PLAIT_OK; /* the device says TIMEOUT */
        plait_monitor_queue *queue = plait_monitor_promised_by(monitor, event->timeline, value);
        if (!queue)
            return plait_monitor_report(call, PLAIT_MONITOR_NEVER_SIGNALLED, &event->object, NULL,
                                        "nobody signals %llu", (unsigned long long)value);
        plait_monitor_give_up(call, queue);
    }
    return PLAIT_OK;
}

/* A wait that is over must be so for everybody: the event is asked for its value. */
static plait_status after_wait(const plait_monitor_call *call, plait_monitor_event *event, uint64_t value) {
    plait_event *inner = event->inner;
    uint64_t now = value;
    plait_error_record
        kept; /* a value that was reached before a failure counts as reached: a failing query says nothing */
    plait_error_save(PLAIT_INTERNAL, &kept);
    plait_status query = inner->device->vtable->event_query(inner, &now);
    if (query != PLAIT_OK) plait_error_raise(&kept);
    if (query == PLAIT_OK && now < value)
        return plait_monitor_report(call, PLAIT_MONITOR_EVENT_BACK, &event->object, NULL,
                                    "a wait for %llu is over, and it is at %llu", (unsigned long long)value,
                                    (unsigned long long)now);
    plait_monitor_lock(call->device->monitor);
    plait_status status = learned(call, event, value);
    plait_monitor_unlock(call->device->monitor);
    return status;
}

/* First until the signal has been handed on, then the device's own wait with what is left of the time: so the device
 * never waits for what the monitor holds back. */
plait_status plait_monitor_event_wait(plait_event *base, uint64_t value, uint64_t timeout_ns) {
    plait_monitor_event *event = (plait_monitor_event *)base;
    plait_monitor_call call = plait_monitor_begin(base->device, PLAIT_MONITOR_F_event_wait);
    plait_monitor *monitor = call.device->monitor;
    uint64_t start = timeout_ns == UINT64_MAX ? 0 : plait_time_ns(), deadline;
    if (__builtin_add_overflow(start, timeout_ns, &deadline)) deadline = UINT64_MAX - 1;
    plait_monitor_lock(monitor);
    plait_status status = plait_monitor_object_check(&call, &event->object);
    if (status == PLAIT_OK) status = await_signal(&call, event, value, deadline);
    plait_monitor_unlock(monitor);
    if (status != PLAIT_OK) return status;
    /* What is left for the device's own wait; 0 still asks once. */
    if (timeout_ns != UINT64_MAX) {
        uint64_t now = plait_time_ns();
        timeout_ns = now < deadline ? deadline - now : 0;
    }
    plait_event *inner = event->inner;
    PLAIT_TRY(plait_monitor_outcome(&call, inner->device->vtable->event_wait(inner, value, timeout_ns)));
    return after_wait(&call, event, value);
}

/* The value counts as asked for before the device has it, and the signal is noted after that, with what the host knows
 * then. Queues that wait for it go on. */
plait_status plait_monitor_event_signal(plait_event *base, uint64_t value) {
    plait_monitor_event *event = (plait_monitor_event *)base;
    plait_monitor_call call = plait_monitor_begin(base->device, PLAIT_MONITOR_F_event_signal);
    plait_monitor *monitor = call.device->monitor;
    plait_monitor_lock(monitor);
    plait_status status = plait_monitor_object_check(&call, &event->object);
    if (status == PLAIT_OK && event->imported)
        status = plait_monitor_report(&call, PLAIT_MONITOR_ARGUMENT, &event->object, NULL,
                                      "an imported event cannot be signalled");
    /* Known before it is given: a queue may see it at once. */
    if (status == PLAIT_OK && value > event->timeline->highest) event->timeline->highest = value;
    plait_monitor_unlock(monitor);
    if (status != PLAIT_OK) return status;
    plait_event *inner = event->inner;
    PLAIT_TRY(plait_monitor_outcome(&call, inner->device->vtable->event_signal(inner, value)));
    plait_monitor_lock(monitor);
    plait_monitor_mark mark = plait_monitor_host_mark(&call);
    plait_monitor_event_add(monitor, event->timeline, value, &monitor->host, &mark, true);
    monitor->activity++;
    plait_monitor_pump(monitor);
    plait_monitor_unlock(monitor);
    return PLAIT_OK;
}

/* A failure settles every wait: queues that were held back walk on, and fail by their device's own means. */
void plait_monitor_event_fail(plait_event *base, const plait_error_record *failure) {
    plait_monitor_event *event = (plait_monitor_event *)base;
    plait_monitor_call call = plait_monitor_begin(base->device, PLAIT_MONITOR_F_event_fail);
    plait_monitor *monitor = call.device->monitor;
    plait_monitor_lock(monitor);
    plait_status status = plait_monitor_object_check(&call, &event->object);
    if (status == PLAIT_OK && (!failure || failure->status == PLAIT_OK))
        status = plait_monitor_report(&call, PLAIT_MONITOR_ARGUMENT, &event->object, NULL,
                                      "a failure that is none");
    plait_monitor_unlock(monitor);
    if (status != PLAIT_OK) return;
    event->inner->device->vtable->event_fail(event->inner, failure);
    plait_monitor_lock(monitor);
    event->timeline->failed = true;
    monitor->activity++;
    plait_monitor_pump(monitor);
    plait_monitor_unlock(monitor);
}
