/* Queues: command lists executed in order, on the submitting thread (INLINE) or on a thread of the queue. Lists wait in
 * a ring that grows only while it has never been so long, so a warm queue allocates nothing. Not here: timelines
 * (host_event.c), and what a launch does (the kind's hook).
 *
 * Invariant: after its first failure a queue executes nothing more; the events that its commands would have signalled
 * fail with the queue's message instead, so nobody waits for ever. */
#include "plait/host_queue.h"
#include "base/alloc.h"
#include "base/os.h"
#include "base/size.h"
#include "base/status.h"
#include "base/thread.h"
#include "device/processors.h"
#include "device/ring.h"

#include <stdlib.h>
#include <string.h>

/* How often an idle queue's thread looks before it sleeps, so that lists which follow each other closely find it
 * awake. */
enum { SPINS = 2000 };

typedef struct host_queue {
    plait_queue base;
    const plait_host_hooks *hooks;
    bool runs_inline, lock_ready, stop;
    pthread_mutex_t lock;
    pthread_cond_t changed; /* something was submitted, or done */
    plait_thread thread;
    plait_command_ring ring;
    _Atomic uint64_t submitted, done; /* lists; written under the lock, read by spinners without */
    _Atomic bool failed;              /* set after `failure` is written, for good */
    plait_error_record failure;       /* under the lock until `failed` */
} host_queue;

/* ---- executing ---- */

plait_status plait_host_region_bytes(plait_device *device, const plait_host_hooks *hooks,
                                     const plait_region *region, uint64_t size_bytes, const char *what,
                                     unsigned char **out) {
    uint64_t end;
    if (!region->buffer) return plait_error(PLAIT_INVALID_ARGUMENT, "%s: the region has no buffer", what);
    if (size_bytes > region->size_bytes)
        return plait_error(PLAIT_OUT_OF_RANGE, "%s: %llu bytes, the region has %llu", what,
                           (unsigned long long)size_bytes, (unsigned long long)region->size_bytes);
    if (!plait_add_u64(region->offset, size_bytes, &end) || end > region->buffer->size_bytes)
        return plait_error(PLAIT_OUT_OF_RANGE, "%s: bytes [%llu, +%llu) of a buffer of %llu", what,
                           (unsigned long long)region->offset, (unsigned long long)size_bytes,
                           (unsigned long long)region->buffer->size_bytes);
    unsigned char *base = hooks && hooks->address ? hooks->address(device, region->buffer)
                                                  : (unsigned char *)region->buffer->host;
    if (!base && size_bytes)
        return plait_error(PLAIT_UNSUPPORTED, "%s: %s does not reach the memory of %s", what, device->name,
                           region->buffer->device ? region->buffer->device->name : "another device");
    *out = size_bytes ? base + region->offset : NULL;
    return PLAIT_OK;
}

/* Row by row. memmove: a device may import host memory, so a transfer may name the bytes that the region itself has,
 * and moving a range onto itself must be harmless. In planes and rows of one side nothing overlaps, so the order does
 * not matter. */
static void move_box(unsigned char *to, const unsigned char *from, const plait_box *box) {
    for (uint64_t p = 0; p < box->n_planes; p++)
        for (uint64_t r = 0; r < box->n_rows; r++)
            memmove(to + p * box->target_plane_pitch + r * box->target_row_pitch,
                    from + p * box->source_plane_pitch + r * box->source_row_pitch, box->row_bytes);
}

/* What each side of a box touches, from first byte to last: what the region must have. */
static uint64_t source_span(const plait_box *box) {
    return plait_box_span(box, box->source_row_pitch, box->source_plane_pitch);
}

static uint64_t target_span(const plait_box *box) {
    return plait_box_span(box, box->target_row_pitch, box->target_plane_pitch);
}

/* Sizes are read here, when the command runs: size_bytes points to what the run sets anew for each step. The host side
 * of a box begins at `host`, with the pitches of the other side. */
static plait_status transfer(host_queue *queue, const plait_command *command) {
    const plait_region *region = &command->transfer.region;
    const plait_box *box = command->transfer.box;
    bool write = command->kind == PLAIT_COMMAND_WRITE;
    uint64_t n = command->transfer.size_bytes ? *command->transfer.size_bytes : region->size_bytes;
    if (box) n = write ? target_span(box) : source_span(box);
    unsigned char *bytes, *host = command->transfer.host;
    PLAIT_TRY(plait_host_region_bytes(queue->base.device, queue->hooks, region, n, write ? "write" : "read",
                                      &bytes));
    if (n && box)
        move_box(write ? bytes : host, write ? host : bytes, box);
    else if (n)
        memmove(write ? bytes : host, write ? host : bytes, n);
    return PLAIT_OK;
}

/* Both regions are looked up before a byte moves, so a copy that leaves its target changes nothing. `from` is NULL when
 * nothing moves, of a box without rows too. */
static plait_status copy(host_queue *queue, const plait_command *command) {
    const plait_region *source = &command->copy.source, *target = &command->copy.target;
    const plait_box *box = command->copy.box;
    uint64_t n = command->copy.size_bytes ? *command->copy.size_bytes : source->size_bytes;
    unsigned char *from, *to;
    PLAIT_TRY(plait_host_region_bytes(queue->base.device, queue->hooks, source, box ? source_span(box) : n,
                                      "copy, source", &from));
    PLAIT_TRY(plait_host_region_bytes(queue->base.device, queue->hooks, target, box ? target_span(box) : n,
                                      "copy, target", &to));
    if (box && from)
        move_box(to, from, box);
    else if (n && from)
        memmove(to, from, n);
    return PLAIT_OK;
}

/* Of no bytes is legal: then the buffer may have no memory. */
static plait_status fill(host_queue *queue, const plait_command *command) {
    unsigned char *bytes;
    uint64_t n = command->fill.region.size_bytes;
    PLAIT_TRY(
        plait_host_region_bytes(queue->base.device, queue->hooks, &command->fill.region, n, "fill", &bytes));
    if (n) memset(bytes, command->fill.byte, n);
    return PLAIT_OK;
}

/* The hook `before` may fail a command in its place, which then has no effect. A wait is made by the event's own
 * device: the event may be any kind's. A signal is not: another kind's timeline is only moved by its own queues, or by
 * its host functions. */
static plait_status run_command(host_queue *queue, const plait_command *command) {
    if (queue->hooks->before) PLAIT_TRY(queue->hooks->before(queue->base.device, &queue->base, command));
    switch (command->kind) {
    case PLAIT_COMMAND_WRITE:
    case PLAIT_COMMAND_READ: return transfer(queue, command);
    case PLAIT_COMMAND_COPY: return copy(queue, command);
    case PLAIT_COMMAND_FILL: return fill(queue, command);
    case PLAIT_COMMAND_LAUNCH:
        return queue->hooks->launch(queue->base.device, command->launch.program, command->launch.slots,
                                    command->launch.dims, command->launch.trace);
    case PLAIT_COMMAND_SIGNAL:
        if (!plait_host_event_is_ours(command->signal.event))
            return plait_error(PLAIT_UNSUPPORTED, "%s signals an event of %s", queue->base.device->name,
                               command->signal.event->device->name);
        return plait_host_event_signal(command->signal.event, *command->signal.value);
    case PLAIT_COMMAND_WAIT: {
        plait_event *event = command->wait.event;
        return event->device->vtable->event_wait(event, *command->wait.value, UINT64_MAX);
    }
    }
    return plait_error(PLAIT_INVALID_ARGUMENT, "%s: command kind %d is unknown", queue->base.device->name,
                       (int)command->kind);
}

/* A launch whose device tells nothing of its groups is one span, like every other command. A command that fails leaves
 * no span of ours. */
static plait_status execute(host_queue *queue, const plait_command *command) {
    plait_launch_trace *trace = plait_command_trace(command);
    if (!trace) return run_command(queue, command);
    size_t n_before = trace->n;
    uint64_t begin_ns = plait_time_ns();
    PLAIT_TRY(run_command(queue, command));
    if (trace->n == n_before)
        trace->spans[trace->n++] = (struct plait_launch_span){PLAIT_SPAN_WHOLE, begin_ns, plait_time_ns()};
    return PLAIT_OK;
}

/* The first failure stays; it is announced by `failed` after it was written, so that the executing thread need not take
 * the lock before each command. */
static void keep_failure(host_queue *queue, const plait_error_record *failure) {
    pthread_mutex_lock(&queue->lock);
    if (queue->failure.status == PLAIT_OK) {
        queue->failure = *failure;
        atomic_store_explicit(&queue->failed, true, memory_order_release);
    }
    pthread_mutex_unlock(&queue->lock);
}

void plait_host_queue_fail(plait_queue *base, const plait_error_record *failure) {
    keep_failure((host_queue *)base, failure);
}

/* A list whose queue has failed is gone through all the same, for the events in it: those made here fail with the
 * queue's message. An event of another kind in a signal is a mistake of the list, which this queue has no means to
 * fail. */
static void run_list(host_queue *queue, const plait_command_list *list) {
    for (int i = 0; i < list->n; i++) {
        const plait_command *command = &list->commands[i];
        if (!atomic_load_explicit(&queue->failed, memory_order_acquire)) {
            plait_error_record failure;
            plait_status status = execute(queue, command);
            if (status == PLAIT_OK) continue;
            plait_error_save(status, &failure);
            keep_failure(queue, &failure);
        }
        if (command->kind == PLAIT_COMMAND_SIGNAL && plait_host_event_is_ours(command->signal.event))
            plait_host_event_fail(command->signal.event, &queue->failure);
    }
}

/* ---- the queue's thread ---- */

/* `done` is the caller's copy: only the queue's thread counts it up, so it need not be read again. */
static bool is_idle(host_queue *queue, uint64_t done) {
    return atomic_load_explicit(&queue->submitted, memory_order_acquire) == done;
}

/* Waits for a list; false when the queue ends and nothing is left, so destroying a queue waits for what was submitted.
 * The spin is for the time between two steps; it looks at an atomic without the lock, which submitters would otherwise
 * contend for. */
static bool next_list(host_queue *queue, plait_command_list *out) {
    uint64_t done = atomic_load_explicit(&queue->done, memory_order_relaxed);
    if (is_idle(queue, done) && plait_spin_begin()) {
        for (int i = 0; i < SPINS && is_idle(queue, done); i++) plait_cpu_relax();
        plait_spin_end();
    }
    pthread_mutex_lock(&queue->lock);
    while (queue->submitted == done && !queue->stop) pthread_cond_wait(&queue->changed, &queue->lock);
    bool more = queue->submitted != done;
    if (more) *out = *plait_command_ring_at(&queue->ring, done);
    pthread_mutex_unlock(&queue->lock);
    return more;
}

/* A list counts as done after its last command, and its place in the ring is only then free: commands are borrowed
 * until here. */
static void *queue_main(void *argument) {
    host_queue *queue = argument;
    plait_command_list list;
    if (queue->hooks->begin) queue->hooks->begin(queue->base.device);
    while (next_list(queue, &list)) {
        run_list(queue, &list);
        pthread_mutex_lock(&queue->lock);
        queue->done++;
        pthread_cond_broadcast(&queue->changed);
        pthread_mutex_unlock(&queue->lock);
    }
    return NULL;
}

/* ---- the vtable's part ---- */

/* Failing, what exists is undone here (the lock) or by destroy (ring, thread), which lock_ready tells apart. */
static plait_status start(host_queue *queue) {
    if (pthread_mutex_init(&queue->lock, NULL) != 0) return plait_error_memory("queue", 0);
    if (pthread_cond_init(&queue->changed, NULL) != 0) {
        pthread_mutex_destroy(&queue->lock);
        return plait_error_memory("queue", 0);
    }
    queue->lock_ready = true;
    if (queue->runs_inline) return PLAIT_OK;
    PLAIT_TRY(
        plait_command_ring_reserve(&queue->ring, queue->base.device->name, queue->done, queue->submitted));
    return plait_thread_start(&queue->thread, "plait-queue", queue_main, queue);
}

plait_status plait_host_queue_create(plait_device *device, uint32_t flags, const plait_host_hooks *hooks,
                                     plait_queue **out) {
    host_queue *queue = plait_alloc_array(1, sizeof *queue);
    if (!queue) return plait_error_memory("queue", sizeof *queue);
    queue->base.device = device;
    queue->hooks = hooks;
    queue->runs_inline = (flags & PLAIT_QUEUE_INLINE) != 0;
    plait_status status = start(queue);
    if (status != PLAIT_OK) {
        plait_host_queue_destroy(&queue->base);
        return status;
    }
    *out = &queue->base;
    return PLAIT_OK;
}

/* Of a queue that failed to start too: plait_thread_join does nothing for a thread that does not run. */
void plait_host_queue_destroy(plait_queue *base) {
    host_queue *queue = (host_queue *)base;
    if (!queue) return;
    if (queue->lock_ready) {
        pthread_mutex_lock(&queue->lock);
        queue->stop = true;
        pthread_cond_broadcast(&queue->changed);
        pthread_mutex_unlock(&queue->lock);
        plait_thread_join(&queue->thread);
        pthread_cond_destroy(&queue->changed);
        pthread_mutex_destroy(&queue->lock);
    }
    plait_command_ring_deinit(&queue->ring);
    free(queue);
}

/* An INLINE queue executes here and answers OK whatever happened: a failure is the queue's, which synchronise and the
 * events tell. Otherwise it is kept in the ring; when there is no room for it, nothing of it is executed. */
plait_status plait_host_submit(plait_queue *base, const plait_command *commands, int n) {
    host_queue *queue = (host_queue *)base;
    plait_command_list list = {commands, n};
    if (n < 0) return plait_error(PLAIT_INVALID_ARGUMENT, "%s: %d commands", base->device->name, n);
    if (queue->runs_inline) {
        run_list(queue, &list);
        return PLAIT_OK;
    }
    pthread_mutex_lock(&queue->lock);
    plait_status status =
        plait_command_ring_reserve(&queue->ring, queue->base.device->name, queue->done, queue->submitted);
    if (status == PLAIT_OK) {
        *plait_command_ring_at(&queue->ring, queue->submitted) = list;
        queue->submitted++;
        pthread_cond_broadcast(&queue->changed);
    }
    pthread_mutex_unlock(&queue->lock);
    return status;
}

/* For the lists submitted before the call; later ones, of whoever submits meanwhile, are not waited for. */
plait_status plait_host_synchronise(plait_queue *base) {
    host_queue *queue = (host_queue *)base;
    plait_status status = PLAIT_OK;
    pthread_mutex_lock(&queue->lock);
    uint64_t wanted = queue->submitted;
    while (queue->done < wanted) pthread_cond_wait(&queue->changed, &queue->lock);
    if (queue->failure.status != PLAIT_OK) status = plait_error_raise(&queue->failure);
    pthread_mutex_unlock(&queue->lock);
    return status;
}

bool plait_host_reaches(plait_device *device, plait_device *other) {
    plait_device_info info;
    if (device == other) return true;
    return other->vtable->describe(other, &info) == PLAIT_OK && (info.caps & PLAIT_CAP_MAPPED) != 0;
}
