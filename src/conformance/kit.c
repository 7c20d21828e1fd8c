/* The kit. Not here: what checks do with it. Invariant: an object that was taken is given back exactly once, in an
 * order that the contract allows. */
#include "conformance/kit.h"

#include "base/alloc.h"
#include "base/os.h"
#include "base/size.h"
#include "base/thread.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

/* ---- objects ---- */

typedef struct kit_check {
    plait_conf_kit_fn fn;
    const void *user;
} kit_check;

/* A check that returned early may have left queues that wait: nobody else will tell them, and destroying them would
 * wait for ever. Events that nobody waits for fail as well, which does no harm. */
static void release_waiters(plait_conf_kit *kit) {
    plait_error_record reason = {.status = PLAIT_CANCELLED, .message = "the check that waits has failed"};
    for (int i = 0; i < kit->n_events; i++)
        kit->events[i]->device->vtable->event_fail(kit->events[i], &reason);
}

/* Queues first, which waits for their commands; then events, newest first, so that an import goes before what it shows;
 * buffers; devices, newest first; host memory last, for commands have pointed to it. The check's message is kept
 * meanwhile: the calls in between may leave their own. The kit is on the heap, as its tables would take much of a
 * thread's stack. */
static plait_status with_kit(plait_conf *c, void *user) {
    const kit_check *check = user;
    plait_conf_kit *kit = plait_alloc_array(1, sizeof *kit);
    if (!kit) return plait_error_memory("conformance", sizeof *kit);
    kit->c = c;
    plait_arena_init(&kit->lists, 0);
    plait_status status = check->fn(c, kit, check->user);
    plait_error_record result = {0};
    if (status != PLAIT_OK) {
        plait_error_save(status, &result);
        release_waiters(kit);
    }
    while (kit->n_queues) plait_conf_drop_queue(kit, kit->queues[0]);
    while (kit->n_events) plait_conf_drop_event(kit, kit->events[kit->n_events - 1]);
    while (kit->n_buffers) plait_conf_drop_buffer(kit, kit->buffers[0]);
    while (kit->n_devices) plait_conf_drop_device(kit, kit->devices[kit->n_devices - 1]);
    while (kit->n_blocks) free(kit->blocks[--kit->n_blocks]);
    plait_arena_deinit(&kit->lists);
    free(kit);
    return status == PLAIT_OK ? PLAIT_OK : plait_error_raise(&result);
}

/* The pair lives until the check has run, which is in this call. */
void plait_conf_check_kit(plait_conf *c, const char *name, plait_conf_kit_fn fn, const void *user) {
    kit_check check = {fn, user};
    plait_conf_check(c, name, with_kit, &check);
}

/* Before the object is made, so that none is made and then lost. */
static plait_status room(int n) {
    if (n < PLAIT_CONF_KIT_OBJECTS) return PLAIT_OK;
    return plait_error(PLAIT_LIMIT, "a check takes more than %d objects", PLAIT_CONF_KIT_OBJECTS);
}

/* The four of these differ in the function alone; on a failure the kit owns nothing more. */
plait_status plait_conf_device(plait_conf_kit *kit, const char *item, plait_device **out) {
    PLAIT_TRY(room(kit->n_devices));
    PLAIT_TRY(plait_conf_open(kit->c, item, out));
    kit->devices[kit->n_devices++] = *out;
    return PLAIT_OK;
}

plait_status plait_conf_queue(plait_conf_kit *kit, plait_device *device, uint32_t flags, plait_queue **out) {
    PLAIT_TRY(room(kit->n_queues));
    PLAIT_TRY(device->vtable->queue_create(device, flags, out));
    kit->queues[kit->n_queues++] = *out;
    return PLAIT_OK;
}

plait_status plait_conf_event(plait_conf_kit *kit, plait_device *device, plait_event **out) {
    PLAIT_TRY(room(kit->n_events));
    PLAIT_TRY(device->vtable->event_create(device, out));
    kit->events[kit->n_events++] = *out;
    return PLAIT_OK;
}

plait_status plait_conf_buffer(plait_conf_kit *kit, plait_device *device, uint64_t size_bytes, uint32_t usage,
                               plait_buffer **out) {
    PLAIT_TRY(room(kit->n_buffers));
    PLAIT_TRY(device->vtable->buffer_create(device, size_bytes, usage, out));
    kit->buffers[kit->n_buffers++] = *out;
    return PLAIT_OK;
}

/* Aligned to 64, of at least one byte, zeroed. */
plait_status plait_conf_bytes(plait_conf_kit *kit, uint64_t size_bytes, unsigned char **out) {
    PLAIT_TRY(room(kit->n_blocks));
    unsigned char *bytes = plait_alloc_aligned(64, size_bytes ? (size_t)size_bytes : 1);
    if (!bytes) return plait_error_memory("conformance", size_bytes);
    kit->blocks[kit->n_blocks++] = *out = bytes;
    return PLAIT_OK;
}

/* Where there is no room the buffer is destroyed here: the kit has taken it over either way. */
plait_status plait_conf_keep_buffer(plait_conf_kit *kit, plait_buffer *buffer) {
    plait_status status = room(kit->n_buffers);
    if (status == PLAIT_OK)
        kit->buffers[kit->n_buffers++] = buffer;
    else
        buffer->device->vtable->buffer_destroy(buffer);
    return status;
}

plait_status plait_conf_keep_event(plait_conf_kit *kit, plait_event *event) {
    plait_status status = room(kit->n_events);
    if (status == PLAIT_OK)
        kit->events[kit->n_events++] = event;
    else
        event->device->vtable->event_destroy(event);
    return status;
}

/* Takes `object` out of a list, whose order stays. The list is an array of pointers to objects of one kind; pointers to
 * structs have one representation here. */
static void forget(void *list, int *n, const void *object) {
    void **items = list;
    int k = 0;
    for (int i = 0; i < *n; i++)
        if (items[i] != object) items[k++] = items[i];
    *n = k;
}

/* Out of the list before it is destroyed, in each of these: a failure in between must not destroy it twice. */
void plait_conf_drop_queue(plait_conf_kit *kit, plait_queue *queue) {
    forget(kit->queues, &kit->n_queues, queue);
    queue->device->vtable->queue_destroy(queue);
}

void plait_conf_drop_event(plait_conf_kit *kit, plait_event *event) {
    forget(kit->events, &kit->n_events, event);
    event->device->vtable->event_destroy(event);
}

void plait_conf_drop_buffer(plait_conf_kit *kit, plait_buffer *buffer) {
    forget(kit->buffers, &kit->n_buffers, buffer);
    buffer->device->vtable->buffer_destroy(buffer);
}

void plait_conf_drop_device(plait_conf_kit *kit, plait_device *device) {
    forget(kit->devices, &kit->n_devices, device);
    device->vtable->destroy(device);
}

/* ---- commands ---- */

/* The host memory is only read; commands have one pointer for both ways. */
plait_command plait_conf_write(plait_buffer *buffer, uint64_t offset, const void *host, uint64_t n) {
    return (plait_command){.kind = PLAIT_COMMAND_WRITE,
                           .transfer = {.region = {buffer, offset, n}, .host = (void *)(uintptr_t)host}};
}

plait_command plait_conf_read(plait_buffer *buffer, uint64_t offset, void *host, uint64_t n) {
    return (plait_command){.kind = PLAIT_COMMAND_READ,
                           .transfer = {.region = {buffer, offset, n}, .host = host}};
}

/* Both regions are exactly what is moved. */
plait_command plait_conf_copy(plait_buffer *from, uint64_t from_offset, plait_buffer *to, uint64_t to_offset,
                              uint64_t n) {
    return (plait_command){.kind = PLAIT_COMMAND_COPY,
                           .copy = {.source = {from, from_offset, n}, .target = {to, to_offset, n}}};
}

plait_command plait_conf_fill(plait_buffer *buffer, uint64_t offset, uint64_t n, uint8_t byte) {
    return (plait_command){.kind = PLAIT_COMMAND_FILL, .fill = {{buffer, offset, n}, byte}};
}

plait_command plait_conf_signal(plait_event *event, const uint64_t *value) {
    return (plait_command){.kind = PLAIT_COMMAND_SIGNAL, .signal = {.event = event, .value = value}};
}

plait_command plait_conf_wait(plait_event *event, const uint64_t *value) {
    return (plait_command){.kind = PLAIT_COMMAND_WAIT, .wait = {.event = event, .value = value}};
}

/* The copy has one command more than it needs: a list of none still has an address. */
plait_status plait_conf_submit(plait_conf_kit *kit, plait_queue *queue, const plait_command *commands,
                               int n) {
    plait_command *copy = plait_arena_alloc(&kit->lists, (size_t)n + 1, sizeof *copy);
    if (!copy) return plait_error_memory("conformance", (size_t)n * sizeof *copy);
    memcpy(copy, commands, (size_t)n * sizeof *copy);
    return queue->device->vtable->submit(queue, copy, n);
}

/* The list is the caller's and over when this returns, after a failure too: a queue that failed has let go of it.
 * Nothing else may be in flight on the queue that could fail, or its failure would be this list's. */
plait_status plait_conf_do(plait_queue *queue, const plait_command *commands, int n) {
    PLAIT_TRY(queue->device->vtable->submit(queue, commands, n));
    return queue->device->vtable->synchronise(queue);
}

/* The suite's patience instead of no limit: a device that forgets a signal fails this check, and not all of them by the
 * time limit. */
plait_status plait_conf_await(plait_conf *c, plait_event *event, uint64_t value, const char *what) {
    plait_status status = event->device->vtable->event_wait(event, value, c->patience_ns);
    if (status != PLAIT_TIMEOUT) return plait_error_context(status, "%s", what);
    return plait_error(PLAIT_INTERNAL, "%s: its event did not reach %llu within %.1f s", what,
                       (unsigned long long)value, (double)c->patience_ns / 1e9);
}

/* ---- bytes ---- */

/* The upper eight bits of a linear congruential generator: its lower ones repeat soon, and damage at the distance of a
 * period would not show. */
void plait_conf_pattern(unsigned char *bytes, uint64_t n, uint32_t seed) {
    uint32_t state = seed * 2654435761u + 12345;
    for (uint64_t i = 0; i < n; i++) {
        state = state * 1664525u + 1013904223u;
        bytes[i] = (unsigned char)(state >> 24);
    }
}

/* Says the first byte that differs and how many do: one tells of an end, many of a place. */
plait_status plait_conf_same(const unsigned char *actual, const unsigned char *expected, uint64_t n,
                             const char *what) {
    if (n == 0 || memcmp(actual, expected, (size_t)n) == 0) return PLAIT_OK;
    uint64_t first = 0, differ = 0;
    while (actual[first] == expected[first]) first++;
    for (uint64_t i = first; i < n; i++) differ += actual[i] != expected[i];
    return plait_error(PLAIT_INTERNAL, "%s: byte %llu of %llu is %d, expected %d (%llu bytes differ)", what,
                       (unsigned long long)first, (unsigned long long)n, actual[first], expected[first],
                       (unsigned long long)differ);
}

plait_status plait_conf_all(const unsigned char *actual, int expected, uint64_t n, const char *what) {
    for (uint64_t i = 0; i < n; i++)
        PLAIT_CONF_EXPECT(actual[i] == expected, "%s: byte %llu of %llu is %d, expected %d", what,
                          (unsigned long long)i, (unsigned long long)n, actual[i], expected);
    return PLAIT_OK;
}

/* Through the device's own read, which other checks are about. */
plait_status plait_conf_expect(plait_conf_kit *kit, plait_queue *queue, plait_buffer *buffer,
                               const unsigned char *expected, const char *what) {
    unsigned char *back = plait_alloc_array(1, buffer->size_bytes + 1);
    (void)kit;
    if (!back) return plait_error_memory("conformance", buffer->size_bytes);
    plait_command read = plait_conf_read(buffer, 0, back, buffer->size_bytes);
    plait_status status = plait_conf_do(queue, &read, 1);
    if (status == PLAIT_OK) status = plait_conf_same(back, expected, buffer->size_bytes, what);
    free(back);
    return status;
}

/* A message of "" with no status. */
void plait_conf_forget_message(void) {
    plait_error_set(PLAIT_OK, "%s", "");
}

/* Ten characters: a message of a word or two helps nobody. The message is this thread's last one, so the caller clears
 * it in front of the call (PLAIT_CONF_FAILS). */
plait_status plait_conf_failed(plait_status actual, plait_status expected, const char *what) {
    PLAIT_CONF_EXPECT(actual == expected, "%s: %s, expected %s", what, plait_status_name(actual),
                      plait_status_name(expected));
    PLAIT_CONF_EXPECT(strlen(plait_error_message()) > 10, "%s: %s without a message", what,
                      plait_status_name(actual));
    return PLAIT_OK;
}

/* UNSUPPORTED is an answer here, but must come with words. */
plait_status plait_conf_optional(plait_conf *c, plait_status status, const char *what) {
    if (status == PLAIT_UNSUPPORTED) PLAIT_TRY(plait_conf_failed(status, PLAIT_UNSUPPORTED, what));
    return plait_conf_may_lack(c, status);
}

/* A device whose memory is as large as the host's is taken to be the host's, whatever it says. */
bool plait_conf_own_memory(const plait_conf *c) {
    return !c->info.unified_memory && c->info.memory_total_bytes < plait_os_memory_total();
}

/* ---- threads ---- */

typedef struct worker {
    plait_thread thread;
    plait_conf_thread_fn fn;
    void *user;
    int index;
    plait_error_record result;
} worker;

/* A thread's message is its own, so it is saved for whoever started it. */
static void *work(void *argument) {
    worker *w = argument;
    plait_status status = w->fn(w->user, w->index);
    if (status != PLAIT_OK) plait_error_save(status, &w->result);
    return NULL;
}

/* Threads that were started are waited for whatever happens; joining one that was not does nothing. Of several failures
 * the one of the lowest index is told, so a run that is repeated says the same. A thread that cannot be started fails
 * the call, after the others have ended. */
plait_status plait_conf_parallel(int n, plait_conf_thread_fn fn, void *user) {
    worker *workers = plait_alloc_array((size_t)n, sizeof *workers);
    plait_status status = PLAIT_OK;
    if (!workers) return plait_error_memory("conformance", (size_t)n * sizeof *workers);
    for (int i = 0; i < n && status == PLAIT_OK; i++) {
        workers[i].fn = fn;
        workers[i].user = user;
        workers[i].index = i;
        status = plait_thread_start(&workers[i].thread, "plait-check", work, &workers[i]);
    }
    for (int i = 0; i < n; i++) plait_thread_join(&workers[i].thread);
    for (int i = 0; i < n && status == PLAIT_OK; i++)
        if (workers[i].result.status != PLAIT_OK) status = plait_error_raise(&workers[i].result);
    free(workers);
    return status;
}

/* Goes on after a signal, with what is left. */
void plait_conf_sleep_ns(uint64_t ns) {
    struct timespec left = {.tv_sec = (time_t)(ns / 1000000000), .tv_nsec = (long)(ns % 1000000000)};
    while (nanosleep(&left, &left) != 0) {
    }
}
