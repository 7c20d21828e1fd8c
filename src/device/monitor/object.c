/* Life of wrapped objects. Ended ones stay in memory for long, so that a later use finds a struct that says so; the
 * oldest go when there are too many. Not here: what each kind gives back when it ends. Invariant: an object is in
 * exactly one ring: its device's living, its device's held (ended for the caller while the device may still use it), or
 * the monitor's quarantine.
 *
 * Everything here is called with the monitor's lock held, but plait_monitor_name_object. */
#include "device/monitor/monitor.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- rings ---- */

void plait_monitor_ring_init(plait_monitor_object *head) {
    head->next = head->previous = head;
}

static void unlink_object(plait_monitor_object *object) {
    object->previous->next = object->next;
    object->next->previous = object->previous;
}

/* At the end, so the first of a ring is the oldest. */
static void append(plait_monitor_object *head, plait_monitor_object *object) {
    object->next = head;
    object->previous = head->previous;
    head->previous->next = object;
    head->previous = object;
}

/* ---- life ---- */

/* The wrapper is zeroed; from here on the object is found among the living. */
void plait_monitor_object_begin(const plait_monitor_call *call, plait_device_object kind,
                                plait_monitor_object *object) {
    object->kind = kind;
    object->device = call->device;
    object->alive = true;
    object->number = ++call->device->numbers[kind];
    object->created = call->number;
    append(&call->device->living, object);
}

/* For messages: where an object of this kind was made. */
plait_monitor_function plait_monitor_maker(plait_device_object kind) {
    switch (kind) {
    case PLAIT_OBJECT_BUFFER: return PLAIT_MONITOR_F_buffer_create;
    case PLAIT_OBJECT_EVENT: return PLAIT_MONITOR_F_event_create;
    case PLAIT_OBJECT_QUEUE: return PLAIT_MONITOR_F_queue_create;
    case PLAIT_OBJECT_PROGRAM: return PLAIT_MONITOR_F_compile;
    }
    return PLAIT_MONITOR_F_none;
}

/* The object is a member of its wrapper; what that owned was released before. */
static void free_wrapper(plait_monitor_object *object) {
    switch (object->kind) {
    case PLAIT_OBJECT_BUFFER: free((char *)object - offsetof(plait_monitor_buffer, object)); break;
    case PLAIT_OBJECT_EVENT: free((char *)object - offsetof(plait_monitor_event, object)); break;
    case PLAIT_OBJECT_QUEUE: free((char *)object - offsetof(plait_monitor_queue, object)); break;
    case PLAIT_OBJECT_PROGRAM: free((char *)object - offsetof(plait_monitor_program, object)); break;
    }
}

/* The device may not use it any more: what it held is given back. With more than PLAIT_MONITOR_QUARANTINE dead, the one
 * that died first is forgotten. */
void plait_monitor_object_end(const plait_monitor_call *call, plait_monitor_object *object) {
    plait_monitor *monitor = call->device->monitor;
    object->alive = false;
    object->destroyed =
        (plait_monitor_mark){.call = call->number, .command = -1, .function = (uint16_t)call->function};
    unlink_object(object);
    append(&monitor->quarantine, object);
    if (++monitor->n_quarantine <= PLAIT_MONITOR_QUARANTINE) return;
    plait_monitor_object *oldest = monitor->quarantine.next;
    unlink_object(oldest);
    free_wrapper(oldest);
    monitor->n_quarantine--;
}

/* For an object that was destroyed while a command may still name it: the breach is reported, and the memory is kept,
 * so that the device does not write into somebody else's. */
void plait_monitor_object_hold(const plait_monitor_call *call, plait_monitor_object *object) {
    object->alive = false;
    object->destroyed =
        (plait_monitor_mark){.call = call->number, .command = -1, .function = (uint16_t)call->function};
    unlink_object(object);
    append(&object->device->held, object);
}

void plait_monitor_quarantine_clear(plait_monitor *monitor) {
    while (monitor->quarantine.next != &monitor->quarantine) {
        plait_monitor_object *oldest = monitor->quarantine.next;
        unlink_object(oldest);
        free_wrapper(oldest);
    }
    monitor->n_quarantine = 0;
}

/* The earlier place in the report is where it was destroyed. */
plait_status plait_monitor_object_check(const plait_monitor_call *call, const plait_monitor_object *object) {
    if (object->alive) return PLAIT_OK;
    return plait_monitor_report(call, PLAIT_MONITOR_USE_AFTER_DESTROY, object, &object->destroyed,
                                "it was destroyed");
}

/* ---- uses ---- */

/* One place a lane, and those that the host knows to be over are free: a use is kept only until the host has waited for
 * it. */
void plait_monitor_object_use(plait_monitor *monitor, plait_monitor_object *object,
                              const plait_monitor_mark *mark) {
    int place = PLAIT_MONITOR_USES - 1; /* with more lanes than places one is forgotten */
    for (int i = PLAIT_MONITOR_USES - 1; i >= 0; i--)
        if (object->uses[i].t == 0 || plait_monitor_knows(&monitor->host, &object->uses[i])) place = i;
    for (int i = 0; i < PLAIT_MONITOR_USES; i++)
        if (object->uses[i].t && object->uses[i].lane == mark->lane) place = i;
    object->uses[place] = *mark;
}

/* Uses of commands that were looked at and handed on. */
const plait_monitor_mark *plait_monitor_object_in_use(const plait_monitor *monitor,
                                                      const plait_monitor_object *object) {
    for (int i = 0; i < PLAIT_MONITOR_USES; i++)
        if (object->uses[i].t && !plait_monitor_knows(&monitor->host, &object->uses[i]))
            return &object->uses[i];
    return NULL;
}

/* The wrapper that this object is part of. */
static bool is_buffer(const plait_monitor *monitor, const plait_buffer *buffer,
                      const plait_monitor_object *object) {
    const plait_monitor_buffer *wrapper = plait_monitor_buffer_of(monitor, buffer);
    return wrapper && &wrapper->object == object;
}

static bool is_event(const plait_monitor *monitor, const plait_event *event,
                     const plait_monitor_object *object) {
    const plait_monitor_event *wrapper = plait_monitor_event_of(monitor, event);
    return wrapper && &wrapper->object == object;
}

/* A launch names its program, and the buffers in its slots. */
static bool launch_names(const plait_monitor *monitor, const plait_command *command,
                         const plait_monitor_object *object) {
    const plait_monitor_program *program = plait_monitor_program_of(command->launch.program);
    if (!program) return false;
    if (&program->object == object) return true;
    for (int s = 0; command->launch.slots && s < program->n_slots; s++)
        if (command->launch.slots[s] && is_buffer(monitor, command->launch.slots[s], object)) return true;
    return false;
}

static bool names(const plait_monitor *monitor, const plait_command *command,
                  const plait_monitor_object *object) {
    switch (command->kind) {
    case PLAIT_COMMAND_WRITE:
    case PLAIT_COMMAND_READ: return is_buffer(monitor, command->transfer.region.buffer, object);
    case PLAIT_COMMAND_FILL: return is_buffer(monitor, command->fill.region.buffer, object);
    case PLAIT_COMMAND_COPY:
        return is_buffer(monitor, command->copy.source.buffer, object) ||
               is_buffer(monitor, command->copy.target.buffer, object);
    case PLAIT_COMMAND_LAUNCH: return launch_names(monitor, command, object);
    case PLAIT_COMMAND_SIGNAL: return is_event(monitor, command->signal.event, object);
    case PLAIT_COMMAND_WAIT: return is_event(monitor, command->wait.event, object);
    }
    return false;
}

/* In lists that wait, whose commands have not been looked at and so left no mark. Linear in all commands that wait,
 * which happens when something is destroyed. */
const plait_monitor_call *plait_monitor_object_awaited(const plait_monitor *monitor,
                                                       const plait_monitor_object *object, int *out_command) {
    for (const plait_monitor_queue *q = monitor->queues; q; q = q->next)
        for (const plait_monitor_flight *f = q->pending; f; f = f->next)
            for (int i = f->position; i < f->n; i++)
                if (names(monitor, &f->copy[i], object)) {
                    *out_command = i;
                    return &f->call;
                }
    return NULL;
}

/* First what is in flight, then what waits. The report names the call and the command. */
plait_status plait_monitor_object_idle(const plait_monitor_call *call, const plait_monitor_object *object) {
    plait_monitor *monitor = call->device->monitor;
    const plait_monitor_mark *use = plait_monitor_object_in_use(monitor, object);
    plait_monitor_mark mark = {0};
    if (!use) {
        const plait_monitor_call *waiting = plait_monitor_object_awaited(monitor, object, &mark.command);
        if (!waiting) return PLAIT_OK;
        mark.call = waiting->number;
        mark.function = (uint16_t)waiting->function;
        use = &mark;
    }
    return plait_monitor_report(
        call, PLAIT_MONITOR_DESTROYED_IN_FLIGHT, object, use,
        "a command that names it may still run: the host has waited for nothing behind it");
}

/* ---- names ---- */

/* The object's own part of a wrapper, and what the inner device calls it. */
static plait_monitor_object *object_of(plait_device_object kind, void *object, void **out_inner) {
    switch (kind) {
    case PLAIT_OBJECT_BUFFER:
        *out_inner = ((plait_monitor_buffer *)object)->inner;
        return &((plait_monitor_buffer *)object)->object;
    case PLAIT_OBJECT_EVENT:
        *out_inner = ((plait_monitor_event *)object)->inner;
        return &((plait_monitor_event *)object)->object;
    case PLAIT_OBJECT_QUEUE:
        *out_inner = ((plait_monitor_queue *)object)->inner;
        return &((plait_monitor_queue *)object)->object;
    case PLAIT_OBJECT_PROGRAM:
        *out_inner = ((plait_monitor_program *)object)->inner;
        return &((plait_monitor_program *)object)->object;
    }
    return NULL;
}

/* The monitor keeps the name even where the device cannot. */
plait_status plait_monitor_name_object(plait_device *device, plait_device_object kind, void *object,
                                       const char *name) {
    plait_monitor_call call = plait_monitor_begin(device, PLAIT_MONITOR_F_name_object);
    void *inner = NULL;
    plait_monitor_object *row = object ? object_of(kind, object, &inner) : NULL;
    if (!row || !name)
        return plait_monitor_report(&call, PLAIT_MONITOR_ARGUMENT, NULL, NULL, "no object or no name");
    plait_monitor_lock(call.device->monitor);
    plait_status status = plait_monitor_object_check(&call, row);
    if (status == PLAIT_OK) snprintf(row->name, sizeof row->name, "%s", name);
    plait_monitor_unlock(call.device->monitor);
    if (status != PLAIT_OK) return status;
    plait_device *real = call.device->inner;
    return plait_monitor_outcome(&call, real->vtable->name_object(real, kind, inner, name));
}
