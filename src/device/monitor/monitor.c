/* Monitors, wrapped devices, and the calls that only pass through. Not here: anything with objects of its own
 * (buffer.c, event.c, queue.c, program.c), what a breach says (report.c).
 *
 * Invariant: a wrapped device has the inner device's kind, facts and name; whoever plans by them makes the same
 * plan. */
#include "device/monitor/monitor.h"

#include "base/alloc.h"
#include "base/size.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* How long nothing may happen before a wait counts as one that never ends. */
#define DEFAULT_PATIENCE_NS UINT64_C(5000000000)

/* What stands for no message while a call is watched: a text that no call would leave. */
static const char no_message[] = "\001";

/* ---- monitors ---- */

/* All or nothing. Waits are timed by the monotonic clock, since patience must not depend on somebody setting the
 * time. */
static bool make_locks(plait_monitor *monitor) {
    pthread_condattr_t attributes;
    if (pthread_condattr_init(&attributes) != 0) return false;
    bool made = pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC) == 0 &&
                pthread_cond_init(&monitor->changed, &attributes) == 0;
    pthread_condattr_destroy(&attributes);
    if (!made) return false;
    if (pthread_mutex_init(&monitor->lock, NULL) == 0) {
        if (pthread_mutex_init(&monitor->records_lock, NULL) == 0) return true;
        pthread_mutex_destroy(&monitor->lock);
    }
    pthread_cond_destroy(&monitor->changed);
    return false;
}

/* Options may be those of an older caller, shorter than ours: what is missing is 0. OFF means that nobody made a
 * monitor, so a monitor that is made is at least ON. */
plait_status plait_monitor_create(const plait_monitor_options *options, plait_monitor **out) {
    plait_monitor_options given = {.struct_bytes = sizeof given};
    if (options && (options->struct_bytes < sizeof(size_t) || options->struct_bytes > sizeof given))
        return plait_error(PLAIT_INVALID_ARGUMENT, "monitor: options of %zu bytes, expected %zu",
                           options->struct_bytes, sizeof given);
    if (options) memcpy(&given, options, options->struct_bytes);
    if ((unsigned)given.level > PLAIT_MONITOR_FULL)
        return plait_error(PLAIT_INVALID_ARGUMENT, "monitor: level %d, expected 0 to %d", (int)given.level,
                           PLAIT_MONITOR_FULL);
    plait_monitor *monitor = plait_alloc_array(1, sizeof *monitor);
    if (!monitor) return plait_error_memory("monitor", sizeof *monitor);
    monitor->level = given.level == PLAIT_MONITOR_OFF ? PLAIT_MONITOR_ON : given.level;
    monitor->logger = given.logger;
    monitor->patience_ns = given.patience_ns ? given.patience_ns : DEFAULT_PATIENCE_NS;
    plait_monitor_ring_init(&monitor->quarantine);
    if (!make_locks(monitor)) {
        free(monitor);
        return plait_error_memory("monitor", 0);
    }
    *out = monitor;
    return PLAIT_OK;
}

/* Behind all wrapped devices. Their structs and those of dead objects lived until here, so that late uses could be told
 * from memory that is somebody else's. */
void plait_monitor_destroy(plait_monitor *monitor) {
    if (!monitor) return;
    plait_monitor_quarantine_clear(monitor);
    while (monitor->devices) {
        plait_monitor_device *device = monitor->devices;
        monitor->devices = device->next;
        free(device);
    }
    plait_monitor_shadow_deinit(&monitor->host_memory);
    free(monitor->mapped);
    plait_monitor_shadow_deinit(&monitor->sides);
    plait_monitor_contents_deinit(&monitor->contents);
    pthread_mutex_destroy(&monitor->records_lock);
    pthread_mutex_destroy(&monitor->lock);
    pthread_cond_destroy(&monitor->changed);
    free(monitor);
}

void plait_monitor_lock(plait_monitor *monitor) {
    pthread_mutex_lock(&monitor->lock);
}

void plait_monitor_unlock(plait_monitor *monitor) {
    pthread_mutex_unlock(&monitor->lock);
}

/* ---- calls ---- */

/* Numbers are given without the lock: they name calls in messages, and say nothing of order. */
plait_monitor_call plait_monitor_begin(plait_device *device, plait_monitor_function function) {
    plait_monitor_device *wrapped = (plait_monitor_device *)device;
    return (plait_monitor_call){
        .device = wrapped,
        .number = atomic_fetch_add_explicit(&wrapped->monitor->calls, 1, memory_order_relaxed) + 1,
        .command = -1,
        .function = function};
}

/* What the host does is known to it at once, so its own count is part of its clock. */
plait_monitor_mark plait_monitor_host_mark(const plait_monitor_call *call) {
    plait_monitor *monitor = call->device->monitor;
    return (plait_monitor_mark){.t = ++monitor->host.t[PLAIT_MONITOR_HOST],
                                .call = call->number,
                                .command = -1,
                                .lane = PLAIT_MONITOR_HOST,
                                .function = (uint16_t)call->function};
}

/* The status is handed on: a missing message is the device's breach, and not another failure for the caller. */
static plait_status without_message(const plait_monitor_call *call, plait_status status) {
    plait_monitor_report(call, PLAIT_MONITOR_FAILED_CALL, NULL, NULL, "it failed with %s and left no message",
                         plait_status_name(status));
    return status;
}

/* For calls whose outputs say nothing: only the message is looked at. */
plait_status plait_monitor_outcome(const plait_monitor_call *call, plait_status status) {
    if (status == PLAIT_OK || plait_error_message()[0]) return status;
    return without_message(call, status);
}

/* The record of this thread is kept and replaced by a text of ours, so that what the call leaves can be told from what
 * was there. */
void plait_monitor_watch(plait_error_record *kept) {
    plait_error_save(PLAIT_INTERNAL, kept);
    plait_error_set(PLAIT_INTERNAL, no_message);
}

/* An inner device that succeeds must leave the caller's record alone, so it is put back, whatever happened to it. A
 * report becomes this thread's message; where the call's own failure is what the caller needs, that one is raised
 * again. */
plait_status plait_monitor_watched(const plait_monitor_call *call, const plait_error_record *kept,
                                   plait_status status, bool set) {
    if (status == PLAIT_OK) {
        plait_error_raise(kept);
        if (set) return PLAIT_OK;
        return plait_monitor_report(call, PLAIT_MONITOR_OBJECT, NULL, NULL, "it succeeded and made nothing");
    }
    if (status == PLAIT_DEVICE_LOST) atomic_store(&call->device->lost, true);
    if (strcmp(plait_error_message(), no_message) == 0 || !plait_error_message()[0])
        return without_message(call, status);
    if (set) {
        plait_error_record own;
        plait_error_save(status, &own);
        plait_monitor_report(call, PLAIT_MONITOR_FAILED_CALL, NULL, NULL,
                             "it failed with %s and set its output", plait_status_name(status));
        plait_error_raise(&own);
    }
    return status;
}

/* ---- facts ---- */

/* Facts that plans are made by. Free memory may change, and names are the context's. */
static bool same_facts(const plait_device_info *a, const plait_device_info *b, const char **out_what) {
#define SAME_TEXT(field) (strcmp(a->field, b->field) == 0 || (*out_what = #field, false))
#define SAME(field)      (a->field == b->field || (*out_what = #field, false))
    return SAME_TEXT(kind) && SAME_TEXT(description) && SAME_TEXT(numeric_class) &&
           SAME(memory_total_bytes) && SAME(alignment) && SAME(max_buffer_bytes) && SAME(n_threads) &&
           SAME(unified_memory) && SAME(caps) && SAME(n_copy_queues);
#undef SAME_TEXT
#undef SAME
}

/* Facts are compared with those at wrapping; the name is the wrapped device's, which the context gave. */
static plait_status monitor_describe(plait_device *device, plait_device_info *out) {
    plait_monitor_call call = plait_monitor_begin(device, PLAIT_MONITOR_F_describe);
    plait_device *real = call.device->inner;
    plait_device_info info;
    const char *what;
    PLAIT_TRY(plait_monitor_outcome(&call, real->vtable->describe(real, &info)));
    if (!same_facts(&info, &call.device->info, &what))
        return plait_monitor_report(&call, PLAIT_MONITOR_FACTS_CHANGED, NULL, NULL,
                                    "%s: its %s is not what it was", device->name, what);
    memcpy(info.name, device->name, sizeof info.name);
    *out = info;
    return PLAIT_OK;
}

/* Once lost, always lost: the flag is set by any call that has said so. */
static plait_status monitor_health(plait_device *device) {
    plait_monitor_call call = plait_monitor_begin(device, PLAIT_MONITOR_F_health);
    plait_device *real = call.device->inner;
    plait_status status = plait_monitor_outcome(&call, real->vtable->health(real));
    if (status == PLAIT_DEVICE_LOST) atomic_store(&call.device->lost, true);
    if (status == PLAIT_OK && atomic_load(&call.device->lost))
        return plait_monitor_report(&call, PLAIT_MONITOR_HEALTH, NULL, NULL,
                                    "%s: it says that it works, and has said DEVICE_LOST before",
                                    device->name);
    return status;
}

/* A device may take more for a buffer than its bytes, never less. */
static plait_status monitor_allocation_bytes(plait_device *device, uint64_t size_bytes, uint32_t usage,
                                             uint64_t *out_bytes) {
    plait_monitor_call call = plait_monitor_begin(device, PLAIT_MONITOR_F_allocation_bytes);
    plait_device *real = call.device->inner;
    uint64_t bytes = 0;
    PLAIT_TRY(plait_monitor_outcome(&call, real->vtable->allocation_bytes(real, size_bytes, usage, &bytes)));
    if (bytes < size_bytes)
        return plait_monitor_report(&call, PLAIT_MONITOR_OBJECT, NULL, NULL,
                                    "%s: a buffer of %llu bytes takes %llu", device->name,
                                    (unsigned long long)size_bytes, (unsigned long long)bytes);
    *out_bytes = bytes;
    return PLAIT_OK;
}

/* ---- passing through ---- */

/* These pass through: what they say changes from call to call, so there is nothing to hold against it. */
static plait_status monitor_memory_query(plait_device *device, uint64_t *out_total_bytes,
                                         uint64_t *out_free_bytes) {
    plait_monitor_call call = plait_monitor_begin(device, PLAIT_MONITOR_F_memory_query);
    plait_device *real = call.device->inner;
    return plait_monitor_outcome(&call, real->vtable->memory_query(real, out_total_bytes, out_free_bytes));
}

/* Devices of this monitor are known to the inner ones by their inner selves; others pass as they are. */
static bool monitor_reaches(plait_device *device, plait_device *other) {
    plait_monitor_call call = plait_monitor_begin(device, PLAIT_MONITOR_F_reaches);
    plait_monitor_device *known = plait_monitor_device_of(call.device->monitor, other);
    plait_device *real = call.device->inner;
    return real->vtable->reaches(real, known ? known->inner : other);
}

static plait_status monitor_encodings(plait_device *device, const plait_weight_use *use,
                                      plait_encoding_offer *offers, int *n_offers) {
    plait_monitor_call call = plait_monitor_begin(device, PLAIT_MONITOR_F_encodings);
    plait_device *real = call.device->inner;
    return plait_monitor_outcome(&call, real->vtable->encodings(real, use, offers, n_offers));
}

/* Watched, since success must give memory. */
static plait_status monitor_host_alloc(plait_device *device, uint64_t size_bytes, void **out) {
    plait_monitor_call call = plait_monitor_begin(device, PLAIT_MONITOR_F_host_alloc);
    plait_device *real = call.device->inner;
    void *memory = NULL;
    PLAIT_MONITOR_CREATE(&call, memory, real->vtable->host_alloc(real, size_bytes, &memory));
    *out = memory;
    return PLAIT_OK;
}

/* Nothing to look at: memory of host_alloc is not an object of the monitor. */
static void monitor_host_free(plait_device *device, void *host) {
    plait_monitor_call call = plait_monitor_begin(device, PLAIT_MONITOR_F_host_free);
    plait_device *real = call.device->inner;
    real->vtable->host_free(real, host);
}

static plait_status monitor_time_query(plait_device *device, uint64_t *out_device_ns, uint64_t *out_host_ns) {
    plait_monitor_call call = plait_monitor_begin(device, PLAIT_MONITOR_F_time_query);
    plait_device *real = call.device->inner;
    return plait_monitor_outcome(&call, real->vtable->time_query(real, out_device_ns, out_host_ns));
}

static plait_status monitor_figures(plait_device *device, plait_device_figures *out) {
    plait_monitor_call call = plait_monitor_begin(device, PLAIT_MONITOR_F_figures);
    plait_device *real = call.device->inner;
    return plait_monitor_outcome(&call, real->vtable->figures(real, out));
}

/* ---- the end of a device ---- */

/* Gives back what the inner device has of an object; queues first, they may use the others. The object stays in its
 * ring, as a struct that says that it is over. Objects are members of their wrappers, which are found by the offset. */
static void release_kind(plait_monitor_object *head, plait_device_object kind) {
    for (plait_monitor_object *o = head->next; o != head; o = o->next) {
        char *at = (char *)o;
        if (o->kind != kind) continue;
        if (kind == PLAIT_OBJECT_QUEUE)
            plait_monitor_queue_release((plait_monitor_queue *)(at - offsetof(plait_monitor_queue, object)));
        if (kind == PLAIT_OBJECT_PROGRAM)
            plait_monitor_program_release(
                (plait_monitor_program *)(at - offsetof(plait_monitor_program, object)));
        if (kind == PLAIT_OBJECT_EVENT)
            plait_monitor_event_release((plait_monitor_event *)(at - offsetof(plait_monitor_event, object)));
        if (kind == PLAIT_OBJECT_BUFFER)
            plait_monitor_buffer_release(
                (plait_monitor_buffer *)(at - offsetof(plait_monitor_buffer, object)));
    }
}

/* In the order in which they use each other: queues wait for their commands, which name programs, events and buffers.
 * Held objects too, which the caller has destroyed while they were in use. */
static void release_all(plait_monitor_device *device) {
    if (device->spy) device->spy->device->vtable->queue_destroy(device->spy);
    device->spy = NULL;
    static const plait_device_object order[] = {PLAIT_OBJECT_QUEUE, PLAIT_OBJECT_PROGRAM, PLAIT_OBJECT_EVENT,
                                                PLAIT_OBJECT_BUFFER};
    for (size_t i = 0; i < PLAIT_COUNT_OF(order); i++) {
        release_kind(&device->living, order[i]);
        release_kind(&device->held, order[i]);
    }
}

/* What is alive is a leak, said once for each object. It is released all the same, for the inner device wants its
 * objects destroyed before it. That one's own destroy is called without the lock, since it may wait. */
static void monitor_destroy(plait_device *base) {
    if (!base) return;
    plait_monitor_device *device = (plait_monitor_device *)base;
    plait_monitor_call call = plait_monitor_begin(base, PLAIT_MONITOR_F_destroy);
    plait_monitor *monitor = device->monitor;
    plait_monitor_lock(monitor);
    for (plait_monitor_object *o = device->living.next; o != &device->living; o = o->next) {
        plait_monitor_mark made = {.call = o->created, .command = -1};
        made.function = (uint16_t)plait_monitor_maker(o->kind);
        plait_monitor_report(&call, PLAIT_MONITOR_LEAK, o, &made, "it is alive, and its device is destroyed");
    }
    release_all(device);
    while (device->living.next != &device->living) plait_monitor_object_end(&call, device->living.next);
    while (device->held.next != &device->held) plait_monitor_object_end(&call, device->held.next);
    device->alive = false;
    free(device->answers);
    device->answers = NULL;
    device->n_answers = device->answer_capacity = 0;
    plait_device *inner = device->inner;
    plait_monitor_unlock(monitor);
    inner->vtable->destroy(inner);
}

/* ---- wrapping ---- */

/* The slots of a wrapped device; kind, doc, create and expand are filled in from the inner one. */
static const plait_device_vtable monitor_vtable = {
    .version = PLAIT_DEVICE_VERSION,
    .struct_bytes = sizeof(plait_device_vtable),
    .sizes = PLAIT_DEVICE_SIZES,
    .destroy = monitor_destroy,
    .describe = monitor_describe,
    .health = monitor_health,
    .buffer_create = plait_monitor_buffer_create,
    .buffer_destroy = plait_monitor_buffer_destroy,
    .event_create = plait_monitor_event_create,
    .event_destroy = plait_monitor_event_destroy,
    .event_query = plait_monitor_event_query,
    .event_wait = plait_monitor_event_wait,
    .event_signal = plait_monitor_event_signal,
    .event_fail = plait_monitor_event_fail,
    .queue_create = plait_monitor_queue_create,
    .queue_destroy = plait_monitor_queue_destroy,
    .submit = plait_monitor_submit,
    .synchronise = plait_monitor_synchronise,
    .supports = plait_monitor_supports,
    .prepare = plait_monitor_prepare,
    .prepared_destroy = plait_monitor_prepared_destroy,
    .compile = plait_monitor_compile,
    .program_destroy = plait_monitor_program_destroy,
    .buffer_import = plait_monitor_buffer_import,
    .encodings = monitor_encodings,
    .pack = plait_monitor_pack,
    .unpack = plait_monitor_unpack,
    .allocation_bytes = monitor_allocation_bytes,
    .memory_query = monitor_memory_query,
    .reaches = monitor_reaches,
    .host_alloc = monitor_host_alloc,
    .host_free = monitor_host_free,
    .event_import = plait_monitor_event_import,
    .program_update = plait_monitor_program_update,
    .time_query = monitor_time_query,
    .name_object = plait_monitor_name_object,
    .figures = monitor_figures,
};

/* By a function of the vtable: wrapped devices have tables of their own, each with this one in it. */
plait_monitor *plait_monitor_of(const plait_device *device) {
    if (!device || !device->vtable || device->vtable->describe != monitor_describe) return NULL;
    return ((const plait_monitor_device *)device)->monitor;
}

/* NULL for devices of another monitor too: their objects have clocks of their own. */
plait_monitor_device *plait_monitor_device_of(const plait_monitor *monitor, const plait_device *device) {
    return plait_monitor_of(device) == monitor ? (plait_monitor_device *)(uintptr_t)device : NULL;
}

/* The inner kind's words, so that nobody sees a difference. */
static void fill_table(plait_monitor_device *device) {
    device->table = monitor_vtable;
    device->table.kind = device->inner->vtable->kind;
    device->table.doc = device->inner->vtable->doc;
    device->table.create = device->inner->vtable->create;
    device->table.expand = device->inner->vtable->expand;
    device->base.vtable = &device->table;
    memcpy(device->base.name, device->inner->name, sizeof device->base.name);
}

/* The registry's table has every slot filled, which the passing functions rely on. Level FULL needs a queue of its own
 * where memory is not mapped: it reads and writes bytes around the caller's commands. On success the inner device
 * belongs to the wrapped one. */
plait_status plait_monitor_wrap(plait_monitor *monitor, plait_device *inner, plait_device **out) {
    if (!monitor || !inner) return plait_error(PLAIT_INVALID_ARGUMENT, "monitor: no monitor or no device");
    if (inner->vtable->struct_bytes < sizeof(plait_device_vtable) || !inner->vtable->reaches)
        return plait_error(PLAIT_INVALID_ARGUMENT, "monitor: %s was not made by the registry", inner->name);
    plait_monitor_device *device = plait_alloc_array(1, sizeof *device);
    if (!device) return plait_error_memory("monitor", sizeof *device);
    device->inner = inner;
    device->monitor = monitor;
    device->alive = true;
    plait_monitor_ring_init(&device->living);
    plait_monitor_ring_init(&device->held);
    fill_table(device);
    plait_status status = inner->vtable->describe(inner, &device->info);
    bool looks = monitor->level == PLAIT_MONITOR_FULL && !(device->info.caps & PLAIT_CAP_MAPPED);
    if (status == PLAIT_OK && looks) status = inner->vtable->queue_create(inner, 0, &device->spy);
    if (status != PLAIT_OK) {
        free(device);
        return status;
    }
    plait_monitor_lock(monitor);
    device->next = monitor->devices;
    monitor->devices = device;
    plait_monitor_unlock(monitor);
    *out = &device->base;
    return PLAIT_OK;
}
