/* Opening and closing a context; its queues, and how one device waits for another's.
 *
 * Not here: what a list of devices means (list.c), creating a device of an item (registry.c), testing direct copies
 * (peers.c), and everything that plans and runs do with the queues.
 *
 * Invariant: every device of an open context has its queues, each with its timeline; a device that no plan uses holds
 * no arena. An entry counts in n_devices, and a queue in n_queues, from the moment at which there is something to
 * destroy, so plait_context_close serves a context of any stage of being opened. */
#include "device/context.h"

#include "base/alloc.h"
#include "base/log.h"
#include "base/status.h"
#include "base/strbuf.h"
#include "device/list.h"

#include <stdlib.h>
#include <string.h>

/* POOL_BYTES: what the pool of plans' memory keeps at most for the next plan. CHUNK_UNIT: chunks of arenas are
 * multiples of it. */
enum { POOL_BYTES = 32 << 20, CHUNK_UNIT = 1 << 16 };
/* The device list when the caller names none. */
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

/* The queue takes the next place of the entry. It counts before its timeline exists: a timeline of NULL is what close()
 * passes over. */
static plait_status open_queue(plait_context_entry *entry, uint32_t flags) {
    plait_context_queue *row = &entry->queues[entry->n_queues];
    const plait_device_vtable *vtable = entry->device->vtable;
    PLAIT_TRY(vtable->queue_create(entry->device, flags, &row->queue));
    entry->n_queues++; /* from here on close() destroys it */
    return vtable->event_create(entry->device, &row->timeline);
}

/* Queue 0 is for launches; copy engines help only where there is somebody to copy from or to. A device that is alone
 * never waits for another one's queue, which is what INLINE asks for: its commands then run on the thread that submits
 * them, and nobody has to be woken. */
static plait_status open_queues(plait_context_entry *entry, bool alone) {
    PLAIT_TRY(open_queue(entry, alone ? PLAIT_QUEUE_INLINE : 0));
    entry->queue = entry->queues[PLAIT_QUEUE_LAUNCHES].queue;
    for (int i = 0; !alone && i < entry->info.n_copy_queues && entry->n_queues < PLAIT_DEVICE_QUEUES; i++)
        PLAIT_TRY(open_queue(entry, PLAIT_QUEUE_COPY));
    return PLAIT_OK;
}

/* The largest buffer, less what would break the alignment of scratch in a large one: offsets in an arena are cut at
 * multiples of chunk_bytes, so a chunk that is no multiple of the alignment would shift everything behind it. 0: the
 * device has no largest buffer. */
static uint64_t chunk_bytes(const plait_device_info *info) {
    uint64_t unit = info->max_buffer_bytes >= 1 << 20 ? CHUNK_UNIT : info->alignment;
    return info->max_buffer_bytes == UINT64_MAX ? 0 : info->max_buffer_bytes & ~(unit - 1);
}

/* One item becomes the entry behind the last one. The name is the kind's, numbered from the second of a kind on ("cpu",
 * "cpu:1"), and is set before the monitor wraps the device, which takes it over; only then is the device described, so
 * info.name is what messages call it. */
static plait_status open_device(plait_context *context, const char *item, bool alone) {
    plait_context_entry *entry = &context->devices[context->n_devices];
    char *copy = plait_string_copy(item);
    if (!copy) return plait_error_memory("device item", strlen(item));
    plait_status made = plait_device_create(item, &context->logger, &entry->device);
    if (made != PLAIT_OK) {
        free(copy);
        return made;
    }
    entry->item = copy;
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
    entry->chunk_bytes = chunk_bytes(&entry->info);
    return open_queues(entry, alone);
}

/* What the devices are to each other; asked once, for nothing of it changes. */
static plait_status connect_devices(plait_context *context) {
    size_t n_queues = (size_t)context->n_devices * PLAIT_DEVICE_QUEUES;
    for (int d = 0; d < context->n_devices; d++) {
        plait_context_entry *entry = &context->devices[d];
        entry->mirrors = plait_alloc_array(n_queues, sizeof *entry->mirrors);
        entry->touched = plait_alloc_array(n_queues, sizeof *entry->touched);
        if (!entry->mirrors || !entry->touched) return plait_error_memory("context", n_queues * 16);
        for (int other = 0; other < context->n_devices; other++)
            if (entry->device->vtable->reaches(entry->device, context->devices[other].device))
                entry->reaches |= (uint64_t)1 << other;
    }
    return PLAIT_OK;
}

/* One monitor for all devices, so that it sees what happens between them. */
static plait_status open_monitor(plait_context *context, plait_monitor_level level) {
    plait_monitor_options options = {
        .struct_bytes = sizeof options, .level = level, .logger = context->logger};
    context->monitor_level = level;
    return level == PLAIT_MONITOR_OFF ? PLAIT_OK : plait_monitor_create(&options, &context->monitor);
}

static plait_status open_devices(plait_context *context, const char *const *items, int n_items) {
    context->devices = plait_alloc_array((size_t)n_items, sizeof *context->devices);
    if (!context->devices)
        return plait_error_memory("device list", (uint64_t)n_items * sizeof *context->devices);
    for (int i = 0; i < n_items; i++) PLAIT_TRY(open_device(context, items[i], n_items == 1));
    return connect_devices(context);
}

/* What the contexts of a list and of a reopened context share. items: borrowed, one for each device. Failing,
 * everything that was opened is closed in the order of plait_context_close, and *out stays unset. */
static plait_status open_items(plait_context **out, const char *const *items, int n_items,
                               const plait_context_options *options) {
    plait_context *context = plait_alloc_array(1, sizeof *context);
    if (!context) return plait_error_memory("context", sizeof *context);
    context->logger = options->logger;
    plait_arena_pool_init(&context->pool, POOL_BYTES);
    /* Both are tried whatever becomes of the first: close destroys exactly those that are ready. */
    context->lock_ready = pthread_mutex_init(&context->submit_lock, NULL) == 0;
    context->peer_lock_ready = pthread_mutex_init(&context->peer_lock, NULL) == 0;
    bool ready = context->lock_ready && context->peer_lock_ready;
    plait_status status = ready ? PLAIT_OK : plait_error_memory("context lock", 0);
    if (status == PLAIT_OK) status = open_monitor(context, options->monitor);
    if (status == PLAIT_OK) status = open_devices(context, items, n_items);
    if (status != PLAIT_OK) {
        plait_context_close(context);
        return status;
    }
    *out = context;
    return PLAIT_OK;
}

plait_status plait_context_open(plait_context **out, const char *devices,
                                const plait_context_options *options) {
    static const plait_context_options usual = {0};
    const char *items[PLAIT_MAX_DEVICES];
    plait_device_list list;
    if (!options) options = &usual;
    PLAIT_TRY(plait_device_list_parse(devices && devices[0] ? devices : no_list, options->threads, &list));
    for (int i = 0; i < list.n_items; i++) items[i] = list.items[i].text;
    plait_status status = open_items(out, items, list.n_items, options);
    plait_device_list_deinit(&list);
    return status;
}

/* Names that are made anew may differ, numbers count what is left: who keeps either asks out_devices. The items of the
 * old context were expanded when it was opened, so each is one device, whatever its share was; they are not expanded
 * again, for the devices that are left should be what they were. */
plait_status plait_context_reopen(plait_context **out, const plait_context *from, int *out_devices) {
    const char *items[PLAIT_MAX_DEVICES];
    plait_context_options options = {.logger = from->logger, .monitor = from->monitor_level};
    int n = 0;
    for (int d = 0; d < from->n_devices; d++) {
        plait_device *device = from->devices[d].device;
        if (device->vtable->health(device) != PLAIT_OK) continue;
        if (out_devices) out_devices[n] = d;
        items[n++] = from->devices[d].item;
    }
    if (n == 0)
        return plait_error(PLAIT_DEVICE_LOST, "none of the %d devices of the context is left",
                           from->n_devices);
    return open_items(out, items, n, &options);
}

/* Queues first, while everything that they may wait for still works: destroying one waits for its commands, which may
 * need signals of other queues and of the relay. Then the relay, which signals mirrors and asks timelines; then the
 * mirrors. Timelines follow in plait_context_close, for an imported mirror looks at its timeline as long as it
 * lives. */
static void close_queues(plait_context *context) {
    for (int i = context->n_devices - 1; i >= 0; i--) {
        plait_context_entry *entry = &context->devices[i];
        for (int q = entry->n_queues - 1; q >= 0; q--)
            entry->device->vtable->queue_destroy(entry->queues[q].queue);
    }
    plait_relay_destroy(context->relay);
    for (int i = context->n_devices - 1; i >= 0; i--) {
        plait_context_entry *entry = &context->devices[i];
        for (int m = 0; entry->mirrors && m < context->n_devices * PLAIT_DEVICE_QUEUES; m++)
            if (entry->mirrors[m].event) entry->device->vtable->event_destroy(entry->mirrors[m].event);
    }
}

/* Of a context at any stage of being opened, NULL included. The monitor is destroyed behind the devices that it
 * wraps. */
void plait_context_close(plait_context *context) {
    if (!context) return;
    close_queues(context);
    for (int i = context->n_devices - 1; i >= 0; i--) {
        plait_context_entry *entry = &context->devices[i];
        const plait_device_vtable *vtable = entry->device->vtable;
        for (int q = 0; q < entry->n_queues; q++)
            if (entry->queues[q].timeline) vtable->event_destroy(entry->queues[q].timeline);
        for (int c = 0; c < entry->n_chunks; c++) vtable->buffer_destroy(entry->arena[c]);
        free(entry->arena);
        free(entry->mirrors);
        free(entry->touched);
        free(entry->item);
        vtable->destroy(entry->device);
    }
    plait_arena_pool_deinit(&context->pool);
    plait_monitor_destroy(context->monitor);
    free(context->devices);
    if (context->lock_ready) pthread_mutex_destroy(&context->submit_lock);
    if (context->peer_lock_ready) pthread_mutex_destroy(&context->peer_lock);
    free(context);
}

/* ---- queues ---- */

/* With two copy queues one serves each direction; with one it serves both; without, both are queue 0. */
int plait_context_copy_queue(const plait_context_entry *entry, bool incoming) {
    return incoming && entry->n_queues > 1 ? 1 : entry->n_queues - 1;
}

plait_context_queue *plait_context_queue_at(const plait_context *context, uint32_t number) {
    return &context->devices[number / PLAIT_DEVICE_QUEUES].queues[number % PLAIT_DEVICE_QUEUES];
}

plait_status plait_context_execute(plait_context *context, int device, const plait_command *commands, int n) {
    return plait_context_execute_on(context, (uint32_t)device * PLAIT_DEVICE_QUEUES + PLAIT_QUEUE_LAUNCHES,
                                    commands, n);
}

/* The submit lock is held until the commands are done: a step of another thread waits, and its lists stay in the order
 * of the values that they promise. */
plait_status plait_context_execute_on(plait_context *context, uint32_t number, const plait_command *commands,
                                      int n) {
    plait_queue *queue = plait_context_queue_at(context, number)->queue;
    const plait_device_vtable *vtable = queue->device->vtable;
    pthread_mutex_lock(&context->submit_lock);
    plait_status status = vtable->submit(queue, commands, n);
    if (status == PLAIT_OK) status = vtable->synchronise(queue);
    pthread_mutex_unlock(&context->submit_lock);
    return status;
}

/* Under the lock, since a queue is for one thread at a time. */
plait_status plait_context_synchronise(plait_context *context, uint32_t number) {
    plait_queue *queue = plait_context_queue_at(context, number)->queue;
    pthread_mutex_lock(&context->submit_lock);
    plait_status status = queue->device->vtable->synchronise(queue);
    pthread_mutex_unlock(&context->submit_lock);
    return status;
}

/* An event of the device that repeats the other queue's timeline. With the submit lock held: the context has one relay,
 * and a mirror is made once, whoever asks. A device that cannot import gets an event of its own, which the relay
 * signals. */
static plait_status make_mirror(plait_context *context, plait_context_entry *entry, uint32_t number) {
    plait_context_mirror *mirror = &entry->mirrors[number];
    const plait_device_vtable *vtable = entry->device->vtable;
    plait_event *timeline = plait_context_queue_at(context, number)->timeline;
    plait_status status = vtable->event_import(entry->device, timeline, &mirror->event);
    if (status != PLAIT_UNSUPPORTED) return status;
    if (!context->relay)
        PLAIT_TRY(plait_relay_create(&context->relay, (size_t)context->n_devices * PLAIT_DEVICE_QUEUES));
    PLAIT_TRY(vtable->event_create(entry->device, &mirror->event));
    mirror->relayed = true;
    return PLAIT_OK;
}

plait_status plait_context_awaitable(plait_context *context, int device, uint32_t number,
                                     plait_event **out_event, bool *out_relayed) {
    plait_context_entry *entry = &context->devices[device];
    plait_context_mirror *mirror = &entry->mirrors[number];
    plait_status status = PLAIT_OK;
    /* Its own queues' events, and those of any device for one that waits for foreign events: nothing has to be made, so
     * no lock either. */
    bool direct =
        (int)(number / PLAIT_DEVICE_QUEUES) == device || (entry->info.caps & PLAIT_CAP_FOREIGN_WAITS) != 0;
    if (direct) {
        *out_event = plait_context_queue_at(context, number)->timeline;
        *out_relayed = false;
        return PLAIT_OK;
    }
    pthread_mutex_lock(&context->submit_lock);
    if (!mirror->event) status = make_mirror(context, entry, number);
    if (status == PLAIT_OK) {
        *out_event = mirror->event;
        *out_relayed = mirror->relayed;
    }
    pthread_mutex_unlock(&context->submit_lock);
    return plait_error_context(status, "waits of %s", entry->device->name);
}

/* The first failure is the cause; what fails afterwards, fails because of it. */
void plait_context_fail(plait_context *context, plait_status status) {
    if (context->failure.status == PLAIT_OK) plait_error_save(status, &context->failure);
}

/* A failure that a run has met comes before what the devices say: it has the message of the command that failed.
 * Devices are asked without the lock, for health never blocks. */
plait_status plait_context_health(plait_context *context) {
    pthread_mutex_lock(&context->submit_lock);
    plait_status status =
        context->failure.status == PLAIT_OK ? PLAIT_OK : plait_error_raise(&context->failure);
    pthread_mutex_unlock(&context->submit_lock);
    for (int d = 0; status == PLAIT_OK && d < context->n_devices; d++) {
        plait_device *device = context->devices[d].device;
        status = plait_error_context(device->vtable->health(device), "device %s", device->name);
    }
    return status;
}

/* ---- arenas ---- */

/* All queues of all devices: queues of other devices may copy from and to this one's memory. */
static plait_status synchronise_all(plait_context *context) {
    for (int d = 0; d < context->n_devices; d++) {
        plait_context_entry *entry = &context->devices[d];
        for (int q = 0; q < entry->n_queues; q++)
            PLAIT_TRY(entry->device->vtable->synchronise(entry->queues[q].queue));
    }
    return PLAIT_OK;
}

/* What chunk c of an arena must have at least: chunk_bytes for all but the last, which takes the rest. Without a limit
 * chunk 0 has everything. */
static uint64_t needed_in(const plait_context_entry *entry, uint64_t size_bytes, int c) {
    uint64_t before = (uint64_t)c * entry->chunk_bytes;
    uint64_t rest = size_bytes > before ? size_bytes - before : 0;
    return entry->chunk_bytes && rest > entry->chunk_bytes ? entry->chunk_bytes : rest;
}

/* Larger chunks beside the old ones, which stay in use when one cannot be had: for a moment the device holds both, and
 * a plan that does not fit leaves the arena as it was. chunks[c] stays NULL where the old chunk is large enough; with a
 * limit that is each but the last, so growing a chunked arena moves little. */
static plait_status make_chunks(plait_context_entry *entry, uint64_t size_bytes, plait_buffer **chunks,
                                int n) {
    const plait_device_vtable *vtable = entry->device->vtable;
    plait_status status = PLAIT_OK;
    for (int c = 0; status == PLAIT_OK && c < n; c++) {
        uint64_t needed = needed_in(entry, size_bytes, c);
        if (c < entry->n_chunks && entry->arena[c]->size_bytes >= needed) continue;
        status = vtable->buffer_create(entry->device, needed, PLAIT_BUFFER_TEMPORARY, &chunks[c]);
    }
    for (int c = 0; status != PLAIT_OK && c < n; c++)
        if (chunks[c]) vtable->buffer_destroy(chunks[c]);
    return status;
}

/* With the submit lock held. size_bytes is more than the arena has, so at least 1, and n is never less than n_chunks.
 * Queues are waited for before anything is made, not before it is destroyed: a plan of another session may still run in
 * the old chunks. */
static plait_status grow_arena(plait_context *context, plait_context_entry *entry, uint64_t size_bytes) {
    uint64_t n = entry->chunk_bytes ? (size_bytes - 1) / entry->chunk_bytes + 1 : 1;
    if (n > INT32_MAX)
        return plait_error(PLAIT_OUT_OF_RANGE, "%llu bytes in buffers of %llu",
                           (unsigned long long)size_bytes, (unsigned long long)entry->chunk_bytes);
    PLAIT_TRY(synchronise_all(context));
    plait_buffer **chunks = plait_alloc_array((size_t)n, sizeof *chunks);
    if (!chunks) return plait_error_memory("arena", n * sizeof *chunks);
    plait_status status = make_chunks(entry, size_bytes, chunks, (int)n);
    if (status != PLAIT_OK) {
        free(chunks);
        return status;
    }
    /* Nothing can fail from here on. */
    for (int c = 0; c < entry->n_chunks; c++) {
        if (chunks[c])
            entry->device->vtable->buffer_destroy(entry->arena[c]);
        else
            chunks[c] = entry->arena[c];
    }
    free(entry->arena);
    entry->arena = chunks;
    entry->n_chunks = (int)n;
    entry->arena_bytes = size_bytes;
    context->arenas++;
    return PLAIT_OK;
}

/* Never smaller: several plans share it, each of which wants its own size. */
plait_status plait_context_reserve_arena(plait_context *context, int device, uint64_t size_bytes) {
    plait_context_entry *entry = &context->devices[device];
    plait_status status = PLAIT_OK;
    pthread_mutex_lock(&context->submit_lock);
    if (size_bytes > entry->arena_bytes) status = grow_arena(context, entry, size_bytes);
    pthread_mutex_unlock(&context->submit_lock);
    return plait_error_context(status, "device %s: arena of temporaries", entry->device->name);
}
