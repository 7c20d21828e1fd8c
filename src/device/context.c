/* Opening and closing a context. Invariant: every device of an open context has its queue and step event; a
 * device that no plan uses holds no arena. */
#include "device/context.h"

#include "base/alloc.h"
#include "base/log.h"
#include "base/status.h"
#include "base/strbuf.h"
#include "device/list.h"

#include <stdlib.h>
#include <string.h>

enum { POOL_BYTES = 32 << 20 };
static const char *const no_list = "cpu";

int plait_context_device_count(const plait_context *context) {
    return context->n_devices;
}

plait_device *plait_context_device(const plait_context *context, int index) {
    return index >= 0 && index < context->n_devices ? context->devices[index].device : NULL;
}

const plait_logger *plait_context_logger(const plait_context *context) {
    return &context->logger;
}

plait_monitor *plait_context_monitor(const plait_context *context) {
    return context->monitor;
}

static plait_status open_device(plait_context *context, const char *item, bool inline_queue) {
    plait_context_entry *entry = &context->devices[context->n_devices];
    PLAIT_TRY(plait_device_create(item, &context->logger, &entry->device));
    context->n_devices++; /* from here on close() destroys it */
    plait_device *device = entry->device;
    int same = 0;
    for (int i = 0; i + 1 < context->n_devices; i++)
        same += strcmp(context->devices[i].device->vtable->kind, device->vtable->kind) == 0;
    plait_strbuf name;
    plait_strbuf_init(&name, 0);
    plait_strbuf_printf(&name, same ? "%s:%d" : "%s", device->vtable->kind, same);
    plait_status status = plait_strbuf_status(&name);
    if (status == PLAIT_OK) strncpy(device->name, plait_strbuf_text(&name), sizeof device->name - 1);
    plait_strbuf_deinit(&name);
    PLAIT_TRY(status);
    if (context->monitor) {
        PLAIT_TRY(plait_monitor_wrap(context->monitor, device, &entry->device));
        device = entry->device;
    }
    PLAIT_TRY(device->vtable->describe(device, &entry->info));
    PLAIT_TRY(device->vtable->queue_create(device, inline_queue ? PLAIT_QUEUE_INLINE : 0, &entry->queue));
    return device->vtable->event_create(device, &entry->step_event);
}

/* One monitor for all devices, so that it sees what happens between them. */
static plait_status open_monitor(plait_context *context, plait_monitor_level level) {
    plait_monitor_options options = {
        .struct_bytes = sizeof options, .level = level, .logger = context->logger};
    return level == PLAIT_MONITOR_OFF ? PLAIT_OK : plait_monitor_create(&options, &context->monitor);
}

static plait_status open_devices(plait_context *context, const char *text, int threads) {
    plait_device_list list;
    PLAIT_TRY(plait_device_list_parse(text, threads, &list));
    plait_status status = PLAIT_OK;
    context->devices = plait_alloc_array((size_t)list.n_items, sizeof *context->devices);
    if (!context->devices)
        status = plait_error_memory("device list", (uint64_t)list.n_items * sizeof *context->devices);
    for (int i = 0; status == PLAIT_OK && i < list.n_items; i++)
        status = open_device(context, list.items[i].text, list.n_items == 1);
    plait_device_list_deinit(&list);
    return status;
}

plait_status plait_context_open(plait_context **out, const char *devices,
                                const plait_context_options *options) {
    plait_context *context = plait_alloc_array(1, sizeof *context);
    if (!context) return plait_error_memory("context", sizeof *context);
    if (options) context->logger = options->logger;
    plait_arena_pool_init(&context->pool, POOL_BYTES);
    context->lock_ready = pthread_mutex_init(&context->submit_lock, NULL) == 0;
    plait_status status = context->lock_ready ? PLAIT_OK : plait_error_memory("context lock", 0);
    if (status == PLAIT_OK && options) status = open_monitor(context, options->monitor);
    if (status == PLAIT_OK)
        status =
            open_devices(context, devices && devices[0] ? devices : no_list, options ? options->threads : 0);
    if (status != PLAIT_OK) {
        plait_context_close(context);
        return status;
    }
    *out = context;
    return PLAIT_OK;
}

void plait_context_close(plait_context *context) {
    if (!context) return;
    for (int i = context->n_devices - 1; i >= 0; i--) {
        plait_context_entry *entry = &context->devices[i];
        const plait_device_vtable *vtable = entry->device->vtable;
        if (entry->queue) vtable->queue_destroy(entry->queue);
        if (entry->step_event) vtable->event_destroy(entry->step_event);
        if (entry->arena) vtable->buffer_destroy(entry->arena);
        vtable->destroy(entry->device);
    }
    plait_arena_pool_deinit(&context->pool);
    plait_monitor_destroy(context->monitor);
    free(context->devices);
    if (context->lock_ready) pthread_mutex_destroy(&context->submit_lock);
    free(context);
}

static plait_status grow_arena(plait_context_entry *entry, uint64_t size_bytes) {
    const plait_device_vtable *vtable = entry->device->vtable;
    plait_buffer *arena = NULL;
    PLAIT_TRY(vtable->synchronise(entry->queue));
    PLAIT_TRY(vtable->buffer_create(entry->device, size_bytes, PLAIT_BUFFER_TEMPORARY, &arena));
    if (entry->arena) vtable->buffer_destroy(entry->arena);
    entry->arena = arena;
    entry->arena_bytes = size_bytes;
    return PLAIT_OK;
}

plait_status plait_context_reserve_arena(plait_context *context, int device, uint64_t size_bytes) {
    plait_context_entry *entry = &context->devices[device];
    plait_status status = PLAIT_OK;
    pthread_mutex_lock(&context->submit_lock);
    if (size_bytes > entry->arena_bytes) status = grow_arena(entry, size_bytes);
    pthread_mutex_unlock(&context->submit_lock);
    return plait_error_context(status, "device %s: arena of temporaries", entry->device->name);
}
