/* The pump: lists that wait go on when their waits are settled. A queue's commands are looked at and handed to the device
 * in its order; a wait holds its queue back until the signal that ends it has been handed on, so what is looked at first
 * is what happens first, and the device never waits for what may not come.
 *
 * Invariant: one thread pumps at a time, and every command is looked at once. */
#include "device/monitor/monitor.h"

#include "base/os.h"

#include <string.h>
#include <time.h>

/* HELD_NS: how long a shut latch is watched. LOOK_NS: how often somebody who waits asks whether devices have failed by
 * themselves. */
enum { HELD_NS = 50000, LOOK_NS = 10000000 };

/* ---- failing ---- */

/* The first breach stays the queue's failure. The gate event fails with the same message, so what the device says of
 * its queue is that. */
void plait_monitor_queue_fail(plait_monitor_queue *queue, plait_status status) {
    if (queue->failed) return;
    queue->failed = true;
    plait_error_save(status, &queue->failure);
    queue->gate->device->vtable->event_fail(queue->gate, &queue->failure);
}

static const uint64_t never = 1; /* the gate's value, which is not reached */

/* The device gets a wait for an event that has failed: its queue fails there, as the contract says. */
static void add_gate(plait_monitor_queue *queue, plait_monitor_flight *flight) {
    if (queue->gated) return;
    queue->gated = true;
    flight->inner[flight->n_inner++] =
        (plait_command){.kind = PLAIT_COMMAND_WAIT, .wait = {.event = queue->gate, .value = &never}};
}

/* ---- one command ---- */

/* A queue that has failed, or whose device is lost, does not wait: it walks through its lists. Nor does anybody wait for
 * an event of a lost device. */
static bool holds(const plait_monitor *monitor, const plait_monitor_queue *queue,
                  const plait_command *command) {
    if (command->kind != PLAIT_COMMAND_WAIT || queue->failed || queue->device_failed || !command->wait.value)
        return false;
    const plait_monitor_event *event = plait_monitor_event_of(monitor, command->wait.event);
    if (!event || !event->object.alive) return false;
    return !plait_monitor_event_settled(event, *command->wait.value, queue);
}

/* Behind a failure only signals are handed on: the device makes their events fail. */
static void add_signal_of_failed(plait_monitor_queue *queue, plait_monitor_flight *flight,
                                 const plait_monitor_call *call, const plait_command *command) {
    plait_monitor *monitor = call->device->monitor;
    plait_monitor_event *event = plait_monitor_event_of(monitor, command->signal.event);
    plait_monitor_mark mark = {.t = queue->clock.t[queue->lane],
                               .call = call->number,
                               .command = call->command,
                               .lane = (uint16_t)queue->lane,
                               .function = (uint16_t)call->function};
    if (!event || !event->object.alive || event->imported || !command->signal.value) return;
    event->timeline->failed = true;
    plait_monitor_object_use(monitor, &event->object, &mark);
    flight->inner[flight->n_inner++] = (plait_command){
        .kind = PLAIT_COMMAND_SIGNAL, .signal = {.event = event->inner, .value = command->signal.value}};
}

/* True for a wait that ends by a failure: then nothing behind it happens. */
static bool ends_badly(const plait_monitor *monitor, const plait_monitor_queue *queue,
                       const plait_command *command) {
    if (command->kind != PLAIT_COMMAND_WAIT || !command->wait.value) return false;
    const plait_monitor_event *event = plait_monitor_event_of(monitor, command->wait.event);
    return event && event->object.alive && !plait_monitor_event_comes(event, *command->wait.value, queue);
}

static void look_at(plait_monitor_queue *queue, plait_monitor_flight *flight, int index) {
    const plait_command *command = &flight->copy[index];
    plait_monitor_call call = flight->call;
    call.command = index;
    queue->clock.t[queue->lane] = flight->first_t + (uint64_t)index;
    if (!queue->failed && !queue->device_failed) {
        plait_command *out = &flight->inner[flight->n_inner];
        bool stops = ends_badly(call.device->monitor, queue, command);
        plait_status status = plait_monitor_check_command(&call, queue, flight, command, out);
        if (status == PLAIT_OK) {
            flight->n_inner++;
            queue->device_failed = stops;
            return;
        }
        plait_monitor_queue_fail(queue, status);
    }
    if (queue->failed) add_gate(queue, flight);
    if (command->kind == PLAIT_COMMAND_SIGNAL) add_signal_of_failed(queue, flight, &call, command);
}

/* ---- lists ---- */

/* Commands [first, end) of the flight have been handed on, or never will be. */
static void settle_signals(const plait_monitor *monitor, const plait_monitor_flight *flight, int first,
                           int end, bool forwarded) {
    for (int i = first; i < end; i++) {
        if (flight->copy[i].kind != PLAIT_COMMAND_SIGNAL) continue;
        const plait_monitor_event *event = plait_monitor_event_of(monitor, flight->copy[i].signal.event);
        if (event && event->timeline)
            plait_monitor_event_forwarded(event->timeline, flight->call.number, forwarded);
    }
}

/* Hands commands to the device. With the lock dropped by the caller. */
static plait_status hand(const plait_monitor_queue *queue, const plait_command *commands, int n) {
    plait_queue *inner = queue->inner;
    return n ? inner->device->vtable->submit(inner, commands, n) : PLAIT_OK;
}

/* All commands are handed on: the next list is the one that waits. */
static void finish(plait_monitor_queue *queue, plait_monitor_flight *flight) {
    flight->position = flight->n;
    queue->pending = flight->next;
}

/* The device does not take the rest of a list. Its first part: the call fails and nothing has happened; otherwise the
 * queue fails. */
static void refuse(plait_monitor *monitor, plait_monitor_queue *queue, plait_monitor_flight *flight,
                   int first, plait_status status) {
    plait_monitor_mark last = {.t = flight->last_t, .lane = (uint16_t)queue->lane};
    settle_signals(monitor, flight, first, flight->n, false);
    if (!plait_monitor_knows(&monitor->host,
                             &last)) /* what was noted of it did not happen: it is in nobody's way */
        monitor->host.t[queue->lane] = last.t;
    flight->status = status;
    plait_error_save(status, &queue->refusal);
    bool whole = first == 0 && flight->submitting;
    if (!whole) plait_monitor_queue_fail(queue, status);
    finish(queue, flight);
    if (whole) plait_monitor_take_back(queue, flight);
}

/* ---- level FULL: one command at a time ---- */

/* Inline queues run on the spot: nobody could open the latch. */
static bool has_latch(const plait_monitor_queue *queue) {
    return !(queue->flags & PLAIT_QUEUE_INLINE);
}

/* A wait of our own in front of the command, which opens when everything was looked at. */
static plait_status hand_latch(plait_monitor_queue *queue) {
    queue->steps = queue->seen + 1;
    queue->latch_wait =
        (plait_command){.kind = PLAIT_COMMAND_WAIT, .wait = {.event = queue->latch, .value = &queue->steps}};
    return has_latch(queue) ? hand(queue, &queue->latch_wait, 1) : PLAIT_OK;
}

/* A signal of our own behind it: when it comes, the command is done. */
static plait_status hand_step(plait_monitor_queue *queue) {
    queue->step_signal = (plait_command){.kind = PLAIT_COMMAND_SIGNAL,
                                         .signal = {.event = queue->step, .value = &queue->steps}};
    return hand(queue, &queue->step_signal, 1);
}

/* With the latch shut nothing behind it may happen. */
static plait_status see_held(const plait_monitor_call *call, plait_monitor_queue *queue) {
    const plait_device_vtable *v = queue->step->device->vtable;
    uint64_t value = 0, start = plait_time_ns();
    while (plait_time_ns() - start < HELD_NS)
        if (v->event_query(queue->step, &value) == PLAIT_OK && value >= queue->steps)
            return plait_monitor_report(
                call, PLAIT_MONITOR_EVENT_EARLY, &queue->object, NULL,
                "the event behind this command is reached, and the one before it, for which "
                "the queue has to wait, is not");
    return PLAIT_OK;
}

/* Lets the command run and waits for it: by its event, where there is one to be trusted. With the lock dropped. */
static plait_status run_step(plait_monitor_queue *queue, bool by_event) {
    const plait_device_vtable *v = queue->step->device->vtable;
    if (has_latch(queue)) v->event_signal(queue->latch, queue->steps);
    plait_status done = by_event ? v->event_wait(queue->step, queue->steps, UINT64_MAX) : PLAIT_LIMIT;
    if (done != PLAIT_OK) v->synchronise(queue->inner); /* until it has let go of the list */
    return done;
}

/* Sees the command done, and looks at what it did; `looked_at` NULL: at nothing. */
static void see_done(const plait_monitor_call *call, plait_monitor_queue *queue, bool has_step,
                     const plait_command *looked_at) {
    plait_monitor *monitor = call->device->monitor;
    plait_error_record kept;
    plait_error_save(PLAIT_INTERNAL, &kept);
    bool held = has_step && has_latch(queue) && !queue->failed;
    plait_status status = held ? see_held(call, queue) : PLAIT_OK;
    bool trusted = has_step && status == PLAIT_OK && !queue->failed;
    plait_monitor_unlock(monitor);
    plait_status done = run_step(queue, trusted);
    plait_monitor_lock(monitor);
    queue->seen = queue->steps;
    if (status == PLAIT_OK && done == PLAIT_OK && looked_at)
        status = plait_monitor_look_after(call, looked_at);
    if (status != PLAIT_OK)
        plait_monitor_queue_fail(queue, status);
    else
        plait_error_raise(&kept);
}

/* Hands on commands [from ..) of the flight, and around them what belongs to the monitor, in lists of its own: the
 * caller's is done when its commands are. */
static plait_status hand_on(plait_monitor *monitor, plait_monitor_queue *queue, plait_monitor_flight *flight,
                            int from, bool whole, bool *out_step) {
    plait_monitor_unlock(monitor);
    plait_status status = queue->step ? hand_latch(queue) : PLAIT_OK;
    if (status == PLAIT_OK) status = hand(queue, flight->inner + from, flight->n_inner - from);
    bool end = status == PLAIT_OK && whole && hand(queue, &flight->end, 1) != PLAIT_OK;
    *out_step = status == PLAIT_OK && queue->step && hand_step(queue) == PLAIT_OK;
    if (status != PLAIT_OK && queue->step) run_step(queue, false);
    plait_monitor_lock(monitor);
    queue->unseen |= end;
    return status;
}

/* Until the device has done what it was given of the queue: what the next command's pointers show is then settled. All
 * that it was given can be done, so this ends. */
static void catch_up(plait_monitor *monitor, plait_monitor_queue *queue) {
    plait_error_record kept;
    plait_error_save(PLAIT_INTERNAL, &kept);
    plait_monitor_unlock(monitor);
    plait_status status = queue->inner->device->vtable->synchronise(queue->inner);
    plait_monitor_lock(monitor);
    if (status != PLAIT_OK) queue->device_failed = true;
    plait_error_raise(&kept);
}

/* Takes the oldest list that waits as far as it goes; level FULL: by one command. False when it does not move. */
static bool advance(plait_monitor *monitor, plait_monitor_queue *queue) {
    plait_monitor_flight *flight = queue->pending;
    if (!flight) return false;
    int first = flight->position, i = first, from = flight->n_inner;
    int end = monitor->level == PLAIT_MONITOR_FULL && first < flight->n ? first + 1 : flight->n;
    plait_monitor_join(&queue->clock, &flight->host);
    if (first < flight->n && plait_monitor_shows_late(monitor, &flight->copy[first]))
        catch_up(monitor, queue);
    while (i < end && !holds(monitor, queue, &flight->copy[i]) &&
           (i == first || !plait_monitor_shows_late(monitor, &flight->copy[i])))
        look_at(queue, flight, i++);
    bool whole = i == flight->n, has_step;
    if (i == first && !whole) return false;
    flight->end = (plait_command){.kind = PLAIT_COMMAND_SIGNAL,
                                  .signal = {.event = queue->progress, .value = &flight->number}};
    bool look = queue->step && i > first && !queue->failed;
    plait_monitor_call call = flight->call;
    call.command = first;
    if (look) plait_monitor_look_before(&call, &flight->copy[first]);
    plait_status status = hand_on(monitor, queue, flight, from, whole, &has_step);
    flight->position = i;
    if (status != PLAIT_OK) {
        refuse(monitor, queue, flight, first, status);
        return true;
    }
    if (queue->step) see_done(&call, queue, has_step, look ? &flight->copy[first] : NULL);
    settle_signals(monitor, flight, first, i, true);
    if (whole) finish(queue, flight);
    return true;
}

/* `again` is set by whoever finds the pump at work; it is then run another time over all queues, since anything may
 * have been settled. */
void plait_monitor_pump(plait_monitor *monitor) {
    monitor->again = true;
    if (monitor->pumping) return;
    monitor->pumping = true;
    while (monitor->again) {
        monitor->again = false;
        for (plait_monitor_queue *q = monitor->queues; q; q = q->next)
            while (advance(monitor, q)) monitor->again = true;
    }
    monitor->pumping = false;
    pthread_cond_broadcast(&monitor->changed);
}

/* ---- waiting ---- */

/* What a device does by itself, that lets waits end: it is lost, or a queue of it fails. */
static bool look_for_failures(plait_monitor *monitor) {
    bool found = false;
    plait_error_record kept;
    plait_error_save(PLAIT_INTERNAL, &kept);
    for (plait_monitor_device *d = monitor->devices; d; d = d->next) {
        if (!d->alive || atomic_load(&d->lost) || d->inner->vtable->health(d->inner) == PLAIT_OK) continue;
        atomic_store(&d->lost, true);
        found = true;
    }
    for (plait_monitor_queue *q = monitor->queues; q; q = q->next) {
        uint64_t value;
        if (!q->pending || q->device_failed) continue;
        q->device_failed = atomic_load(&q->object.device->lost) ||
                           q->progress->device->vtable->event_query(q->progress, &value) != PLAIT_OK;
        found |= q->device_failed;
    }
    plait_error_raise(&kept);
    return found;
}

/* With the lock held, which is dropped meanwhile; spurious wakes are the caller's loop's affair. */
static void sleep_until(plait_monitor *monitor, uint64_t end_ns) {
    struct timespec end = {.tv_sec = (time_t)(end_ns / 1000000000u), .tv_nsec = (long)(end_ns % 1000000000u)};
    pthread_cond_timedwait(&monitor->changed, &monitor->lock, &end);
}

/* Patience begins anew with everything that happens, and does not run while somebody pumps, for a device may take long
 * over one command. */
bool plait_monitor_await(plait_monitor *monitor, bool (*done)(const void *user), const void *user,
                         uint64_t deadline_ns) {
    uint64_t activity = monitor->activity, since = 0;
    while (!done(user)) {
        uint64_t now = plait_time_ns(), end = now + LOOK_NS;
        if (now >= deadline_ns) return false;
        if (since == 0 || monitor->pumping || activity != monitor->activity) since = now;
        activity = monitor->activity;
        if (deadline_ns == UINT64_MAX && now - since >= monitor->patience_ns) return false;
        if (deadline_ns < end) end = deadline_ns;
        if (since + monitor->patience_ns < end) end = since + monitor->patience_ns;
        sleep_until(monitor, end);
        if (!done(user) && look_for_failures(monitor)) {
            monitor->activity++;
            plait_monitor_pump(monitor);
        }
    }
    return true;
}

/* Linear in all commands that wait; asked when somebody has lost patience. */
plait_monitor_queue *plait_monitor_promised_by(const plait_monitor *monitor,
                                               const plait_monitor_timeline *timeline, uint64_t value) {
    for (plait_monitor_queue *q = monitor->queues; q; q = q->next)
        for (const plait_monitor_flight *f = q->pending; f; f = f->next)
            for (int i = f->position; i < f->n; i++) {
                const plait_command *c = &f->copy[i];
                if (c->kind != PLAIT_COMMAND_SIGNAL || !c->signal.value || *c->signal.value < value) continue;
                const plait_monitor_event *event = plait_monitor_event_of(monitor, c->signal.event);
                if (event && event->timeline == timeline) return q;
            }
    return NULL;
}

/* The wait at which a queue stands. */
static const plait_monitor_event *stands_at(const plait_monitor *monitor, const plait_monitor_queue *queue,
                                            uint64_t *out_value) {
    const plait_monitor_flight *flight = queue->pending;
    const plait_command *command = &flight->copy[flight->position];
    *out_value = *command->wait.value;
    return plait_monitor_event_of(monitor, command->wait.event);
}

static plait_monitor_mark mark_of(const plait_monitor_flight *flight) {
    return (plait_monitor_mark){.call = flight->call.number,
                                .command = flight->position,
                                .function = (uint16_t)flight->call.function};
}

/* Follows the waits from queue to queue: to one that nobody ends, or around a circle. */
void plait_monitor_give_up(const plait_monitor_call *call, plait_monitor_queue *queue) {
    plait_monitor *monitor = call->device->monitor;
    plait_monitor_queue *at = queue;
    plait_status status = PLAIT_OK;
    int steps = 0, most = 0;
    for (const plait_monitor_queue *q = monitor->queues; q; q = q->next) most++;
    while (status == PLAIT_OK) {
        uint64_t value = 0;
        const plait_monitor_event *event = stands_at(monitor, at, &value);
        plait_monitor_queue *by = plait_monitor_promised_by(monitor, event->timeline, value);
        plait_monitor_mark mark = mark_of(at->pending);
        char name[128];
        plait_monitor_object_name(&at->object, name);
        if (!by)
            status = plait_monitor_report(call, PLAIT_MONITOR_NEVER_SIGNALLED, &event->object, &mark,
                                          "%s waits for %llu, which nobody signals", name,
                                          (unsigned long long)value);
        else if (steps++ == most)
            status = plait_monitor_report(call, PLAIT_MONITOR_WAIT_CYCLE, &event->object, &mark,
                                          "%s waits for %llu, whose signal waits for this queue", name,
                                          (unsigned long long)value);
        else
            at = by;
    }
    plait_monitor_queue_fail(at, status);
    monitor->activity++;
    plait_monitor_pump(monitor);
}
