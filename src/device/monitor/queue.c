/* Queues and lists in flight. A list is copied when it is submitted, with all that its pointers show, and compared with
 * the caller's when the host first knows that it is done. Not here: looking at commands and handing them on (pump.c,
 * check.c).
 *
 * Invariant: a flight leaves its queue only when the device is done with it and it was compared. */
#include "device/monitor/monitor.h"

#include "base/alloc.h"
#include "base/size.h"

#include <stdlib.h>
#include <string.h>

/* Lists that are done and not compared, because the host never waits, are kept up to this number. */
enum { MOST_FLIGHTS = 4096 };

/* ---- what pointers show ---- */

/* n bytes at an address that a command points to. */
typedef bool (*shown_fn)(void *user, const void *address, size_t n);

/* size_bytes and box, where they are given. */
static bool show_move(const uint64_t *size_bytes, const plait_box *box, shown_fn fn, void *user) {
    if (size_bytes && !fn(user, size_bytes, sizeof *size_bytes)) return false;
    return !box || fn(user, box, sizeof *box);
}

/* Calls fn for all that the command's pointers show, host memory of transfers left out, until it returns false. */
static bool each_shown(const plait_command *c, shown_fn fn, void *user) {
    switch (c->kind) {
    case PLAIT_COMMAND_WRITE:
    case PLAIT_COMMAND_READ: return show_move(c->transfer.size_bytes, c->transfer.box, fn, user);
    case PLAIT_COMMAND_COPY: return show_move(c->copy.size_bytes, c->copy.box, fn, user);
    case PLAIT_COMMAND_FILL: return true;
    case PLAIT_COMMAND_LAUNCH: {
        const plait_monitor_program *program = plait_monitor_program_of(c->launch.program);
        if (!program) return true;
        /* How long the arrays are, only the program knows. */
        size_t slots = (size_t)program->n_slots * sizeof(plait_buffer *);
        if (slots && c->launch.slots && !fn(user, c->launch.slots, slots)) return false;
        size_t dims = (size_t)program->n_dims * sizeof(int64_t);
        return !dims || !c->launch.dims || fn(user, c->launch.dims, dims);
    }
    case PLAIT_COMMAND_SIGNAL: return !c->signal.value || fn(user, c->signal.value, sizeof *c->signal.value);
    case PLAIT_COMMAND_WAIT: return !c->wait.value || fn(user, c->wait.value, sizeof *c->wait.value);
    }
    return true;
}

/* For each_shown: the sum of all that is shown; false when it overflows. */
static bool add_size(void *user, const void *address, size_t n) {
    size_t *sum = user;
    (void)address;
    return plait_add_size(*sum, n, sum);
}

/* One behind the other, in the order in which each_shown comes to them; compare walks the same way. */
static bool save(void *user, const void *address, size_t n) {
    unsigned char **at = user;
    memcpy(*at, address, n);
    *at += n;
    return true;
}

typedef struct comparison {
    const unsigned char *at;
    const void *changed;
    size_t n;
} comparison;

/* Ends at the first difference, which `changed` and `n` then tell. */
static bool compare(void *user, const void *address, size_t n) {
    comparison *c = user;
    if (memcmp(c->at, address, n) != 0) {
        c->changed = address;
        c->n = n;
        return false;
    }
    c->at += n;
    return true;
}

static bool same_region(const plait_region *a, const plait_region *b) {
    return a->buffer == b->buffer && a->offset == b->offset && a->size_bytes == b->size_bytes;
}

/* Field by field, for the bytes between fields of a union may be anything. */
static bool same_command(const plait_command *a, const plait_command *b) {
    if (a->kind != b->kind) return false;
    switch (a->kind) {
    case PLAIT_COMMAND_WRITE:
    case PLAIT_COMMAND_READ:
        return same_region(&a->transfer.region, &b->transfer.region) &&
               a->transfer.host == b->transfer.host && a->transfer.size_bytes == b->transfer.size_bytes &&
               a->transfer.box == b->transfer.box && a->transfer.trace == b->transfer.trace;
    case PLAIT_COMMAND_COPY:
        return same_region(&a->copy.source, &b->copy.source) &&
               same_region(&a->copy.target, &b->copy.target) && a->copy.size_bytes == b->copy.size_bytes &&
               a->copy.box == b->copy.box && a->copy.trace == b->copy.trace;
    case PLAIT_COMMAND_FILL:
        return same_region(&a->fill.region, &b->fill.region) && a->fill.byte == b->fill.byte;
    case PLAIT_COMMAND_LAUNCH:
        return a->launch.program == b->launch.program && a->launch.slots == b->launch.slots &&
               a->launch.dims == b->launch.dims && a->launch.trace == b->launch.trace;
    case PLAIT_COMMAND_SIGNAL:
        return a->signal.event == b->signal.event && a->signal.value == b->signal.value;
    case PLAIT_COMMAND_WAIT:
        return a->wait.event == b->wait.event && a->wait.value == b->wait.value &&
               a->wait.trace == b->wait.trace;
    }
    return true;
}

/* Host memory that the command writes, at most; false for none. */
bool plait_monitor_read_target(const plait_command *c, uint64_t *out_begin, uint64_t *out_end) {
    const plait_box *box = c->transfer.box;
    if (c->kind != PLAIT_COMMAND_READ || !c->transfer.host) return false;
    uint64_t n = box ? plait_box_span(box, box->target_row_pitch, box->target_plane_pitch)
                     : c->transfer.region.size_bytes;
    *out_begin = (uint64_t)(uintptr_t)c->transfer.host;
    if (!plait_add_u64(*out_begin, n, out_end)) *out_end = UINT64_MAX;
    return n > 0;
}

/* ---- flights ---- */

/* What the device may get of a list of n: a wait that fails more. */
static size_t inner_places(int n) {
    return (size_t)n + 1;
}

/* Bytes of a flight's arrays for these commands. False when a sum overflows. Slots are those of all launches, to be
 * translated. */
static bool flight_bytes(const plait_command *commands, int n, size_t *out_slots, size_t *out_shown,
                         size_t *out_all) {
    size_t commands_bytes, slots = 0, shown = 0, slots_bytes;
    for (int i = 0; i < n; i++) {
        if (commands[i].kind == PLAIT_COMMAND_LAUNCH) {
            const plait_monitor_program *program = plait_monitor_program_of(commands[i].launch.program);
            if (program) slots += (size_t)program->n_slots;
        }
        if (!each_shown(&commands[i], add_size, &shown)) return false;
    }
    *out_slots = slots;
    *out_shown = shown;
    return plait_mul_size(inner_places(n) + (size_t)n, sizeof(plait_command), &commands_bytes) &&
           plait_mul_size(slots, sizeof(plait_buffer *), &slots_bytes) &&
           plait_add_size(commands_bytes, slots_bytes, out_all) && plait_add_size(*out_all, shown, out_all);
}

/* A flight with room for the commands: a spare one if it is large enough, so a queue that is warm allocates nothing.
 * All arrays are one piece of memory: what the device gets, the copy, translated slots, and what pointers showed, which
 * needs no alignment. The struct is cleared but for that memory. */
static plait_status take_flight(plait_monitor_queue *queue, const plait_command *commands, int n,
                                plait_monitor_flight **out) {
    size_t slots, shown, all;
    if (!flight_bytes(commands, n, &slots, &shown, &all))
        return plait_error(PLAIT_OUT_OF_RANGE, "monitor: a list of %d commands", n);
    plait_monitor_flight *flight = queue->spare;
    if (flight)
        queue->spare = flight->next;
    else
        flight = plait_alloc_array(1, sizeof *flight);
    /* Too small a spare one is made larger and never smaller. */
    if (flight && flight->memory_bytes < all) {
        free(flight->memory);
        flight->memory = plait_alloc_array(all, 1);
        flight->memory_bytes = flight->memory ? all : 0;
    }
    if (!flight || !flight->memory) {
        free(flight);
        return plait_error_memory("monitor: command list", all);
    }
    void *memory = flight->memory;
    size_t memory_bytes = flight->memory_bytes;
    *flight = (plait_monitor_flight){.memory = memory, .memory_bytes = memory_bytes};
    flight->inner = memory;
    flight->copy = flight->inner + inner_places(n);
    flight->slots = (plait_buffer **)(void *)(flight->copy + n);
    flight->shown = (unsigned char *)(flight->slots + slots);
    flight->commands = commands;
    flight->n = n;
    *out = flight;
    return PLAIT_OK;
}

static void free_flights(plait_monitor_flight *flight) {
    while (flight) {
        plait_monitor_flight *next = flight->next;
        free(flight->memory);
        free(flight);
        flight = next;
    }
}

/* Puts what the device is done with aside, oldest first. `progress` tells how far it is; of a queue that has failed it
 * tells nothing, and what was known before counts. */
static void retire(plait_monitor_queue *queue) {
    uint64_t value;
    /* The last list that waits, and those behind it, are not the device's yet. */
    plait_error_record kept; /* a failed queue's query fails: nobody's message */
    if (!queue->first || queue->first == queue->pending) return;
    plait_error_save(PLAIT_INTERNAL, &kept);
    if (queue->progress->device->vtable->event_query(queue->progress, &value) == PLAIT_OK) {
        if (value > queue->done) queue->done = value;
    } else {
        plait_error_raise(&kept);
    }
    while (queue->first && queue->first != queue->pending && queue->first->number <= queue->done) {
        plait_monitor_flight *flight = queue->first;
        /* One that the host does not know to be over is still to be compared, unless too many are kept. */
        if (!flight->checked && queue->flights - flight->number < MOST_FLIGHTS) break;
        queue->first = flight->next;
        if (!queue->first) queue->last = NULL;
        flight->next = queue->spare;
        queue->spare = flight;
    }
}

/* A READ that is among the lists may write what a later command reads its size from. */
static bool is_read_into(const plait_monitor *monitor, const void *address) {
    uintptr_t at = (uintptr_t)address;
    for (const plait_monitor_queue *q = monitor->queues; q; q = q->next)
        for (const plait_monitor_flight *f = q->first; f; f = f->next) {
            /* Most lists read nothing, or nowhere near. */
            if (at < f->read_begin || at >= f->read_end) continue;
            for (int i = 0; i < f->n; i++) {
                uint64_t begin, end;
                if (plait_monitor_read_target(&f->copy[i], &begin, &end) && at >= begin && at < end)
                    return true;
            }
        }
    return false;
}

/* What a command shows is not read from anywhere that a list in flight writes. */
static bool is_settled(void *user, const void *address, size_t n) {
    const plait_monitor *monitor = user;
    (void)n;
    return !is_read_into(monitor, address);
}

bool plait_monitor_shows_late(const plait_monitor *monitor, const plait_command *command) {
    return !each_shown(command, is_settled, (void *)(uintptr_t)monitor);
}

/* Changes of what pointers show are no breach where a READ in flight was to write there: then the copy from submit says
 * nothing, and neither does what follows it. */
static plait_status check_flight(const plait_monitor_call *call, const plait_monitor_queue *queue,
                                 const plait_monitor_flight *flight) {
    /* In the order of append_flight: `at` walks through what the pointers showed then, command by command. */
    comparison c = {.at = flight->shown};
    for (int i = 0; i < flight->n; i++) {
        plait_monitor_mark mark = {
            .call = flight->call.number, .command = i, .function = (uint16_t)flight->call.function};
        if (!same_command(&flight->commands[i], &flight->copy[i]))
            return plait_monitor_report(call, PLAIT_MONITOR_LIST_CHANGED, &queue->object, &mark,
                                        "command %d is not what it was when it was submitted", i);
        if (!each_shown(&flight->copy[i], compare, &c) && !is_read_into(call->device->monitor, c.changed))
            return plait_monitor_report(call, PLAIT_MONITOR_LIST_CHANGED, &queue->object, &mark,
                                        "the %zu bytes at %p that command %d points to are not what they "
                                        "were when it was submitted",
                                        c.n, c.changed, i);
        if (c.changed) return PLAIT_OK; /* the rest cannot be told apart */
    }
    return PLAIT_OK;
}

/* A list is done when the host knows its last command to be over; lists of a queue are over in order, so the first that
 * is not ends the search. */
plait_status plait_monitor_check_lists(const plait_monitor_call *call) {
    plait_monitor *monitor = call->device->monitor;
    plait_status status = PLAIT_OK;
    for (plait_monitor_queue *q = monitor->queues; q; q = q->next)
        for (plait_monitor_flight *f = q->first; f && f != q->pending; f = f->next) {
            plait_monitor_mark last = {.t = f->last_t, .lane = (uint16_t)q->lane};
            if (!plait_monitor_knows(&monitor->host, &last)) break;
            if (f->checked) continue;
            f->checked = true;
            plait_status found = f->status == PLAIT_OK ? check_flight(call, q, f) : PLAIT_OK;
            if (status == PLAIT_OK) status = found;
        }
    return status;
}

/* ---- life ---- */

/* The first that nobody uses; with too many queues the last one is shared. */
static uint32_t take_lane(plait_monitor *monitor) {
    uint32_t lane = PLAIT_MONITOR_HOST + 1;
    while (lane + 1 < PLAIT_MONITOR_LANES && monitor->lane_users[lane]) lane++;
    monitor->lane_users[lane]++;
    return lane;
}

/* A queue that never became an object: nobody can have used it. */
static void drop(plait_monitor_queue *queue) {
    plait_monitor_queue_release(queue);
    free(queue);
}

/* Of the inner device, and unseen by the caller. Those of level FULL hold each command back, and tell when it is
 * done. */
static plait_status make_events(const plait_monitor_call *call, plait_monitor_queue *queue) {
    plait_device *real = call->device->inner;
    PLAIT_TRY(real->vtable->event_create(real, &queue->progress));
    PLAIT_TRY(real->vtable->event_create(real, &queue->gate));
    if (call->device->monitor->level != PLAIT_MONITOR_FULL) return PLAIT_OK;
    PLAIT_TRY(real->vtable->event_create(real, &queue->latch));
    return real->vtable->event_create(real, &queue->step);
}

plait_status plait_monitor_queue_create(plait_device *device, uint32_t flags, plait_queue **out) {
    plait_monitor_call call = plait_monitor_begin(device, PLAIT_MONITOR_F_queue_create);
    plait_monitor *monitor = call.device->monitor;
    plait_device *real = call.device->inner;
    plait_queue *inner = NULL;
    PLAIT_MONITOR_CREATE(&call, inner, real->vtable->queue_create(real, flags, &inner));
    plait_monitor_queue *queue = plait_alloc_array(1, sizeof *queue);
    if (!queue) {
        real->vtable->queue_destroy(inner);
        return plait_error_memory("monitor: queue", sizeof *queue);
    }
    queue->base.device = device;
    queue->inner = inner;
    /* Copy queues and INLINE queues have rules of their own (check.c, pump.c). */
    queue->flags = flags;
    plait_status status = make_events(&call, queue);
    if (status != PLAIT_OK) {
        drop(queue);
        return status;
    }
    plait_monitor_lock(monitor);
    queue->lane = take_lane(monitor);
    queue->next = monitor->queues;
    monitor->queues = queue;
    plait_monitor_object_begin(&call, PLAIT_OBJECT_QUEUE, &queue->object);
    plait_monitor_unlock(monitor);
    *out = &queue->base;
    return PLAIT_OK;
}

/* A queue that is in the list gives its lane back; another one may take it, and goes on where its count stands. */
static void unlist(plait_monitor *monitor, plait_monitor_queue *queue) {
    for (plait_monitor_queue **q = &monitor->queues; *q; q = &(*q)->next)
        if (*q == queue) {
            *q = queue->next;
            monitor->lane_users[queue->lane]--;
            return;
        }
}

/* Everything but the struct. The inner queue first: it may still be executing lists of the flights. */
void plait_monitor_queue_release(plait_monitor_queue *queue) {
    plait_monitor *monitor = plait_monitor_of(queue->base.device);
    unlist(monitor, queue);
    if (queue->inner) queue->inner->device->vtable->queue_destroy(queue->inner);
    plait_event *const events[] = {queue->progress, queue->gate, queue->latch, queue->step};
    for (size_t i = 0; i < PLAIT_COUNT_OF(events); i++)
        if (events[i]) events[i]->device->vtable->event_destroy(events[i]);
    free_flights(queue->first);
    free_flights(queue->spare);
    queue->inner = NULL;
    queue->progress = queue->gate = queue->latch = queue->step = NULL;
    queue->first = queue->last = queue->pending = queue->spare = NULL;
}

/* ---- calls ---- */

/* Calls on one queue come from one thread at a time, by the contract: `busy` shows the second one. */
static plait_status enter(const plait_monitor_call *call, plait_monitor_queue *queue) {
    plait_monitor *monitor = call->device->monitor;
    plait_monitor_lock(monitor);
    plait_status status = plait_monitor_object_check(call, &queue->object);
    if (status == PLAIT_OK && queue->busy)
        status = plait_monitor_report(call, PLAIT_MONITOR_TWO_THREADS, &queue->object, &queue->in_call,
                                      "another thread is in a call on it");
    if (status == PLAIT_OK) {
        queue->busy = true;
        queue->in_call =
            (plait_monitor_mark){.call = call->number, .command = -1, .function = (uint16_t)call->function};
    }
    plait_monitor_unlock(monitor);
    return status;
}

/* A queue that is being destroyed is not left: the struct is in the quarantine then. */
static void leave(const plait_monitor_call *call, plait_monitor_queue *queue) {
    plait_monitor_lock(call->device->monitor);
    queue->busy = false;
    plait_monitor_unlock(call->device->monitor);
}

/* For plait_monitor_await. */
static bool is_handed_on(const void *user) {
    return ((const plait_monitor_queue *)user)->pending == NULL;
}

/* With the lock held: until the device has all lists. Every give-up makes some queue fail and go on, so this ends. */
static void drain(const plait_monitor_call *call, plait_monitor_queue *queue) {
    while (!plait_monitor_await(call->device->monitor, is_handed_on, queue, UINT64_MAX))
        plait_monitor_give_up(call, queue);
}

/* The clock of the host is copied: what it learns later, these commands do not know. Times are taken for all commands
 * at once, so a list's last one is known before it is looked at. */
static void append_flight(const plait_monitor_call *call, plait_monitor_queue *queue,
                          plait_monitor_flight *flight) {
    plait_monitor *monitor = call->device->monitor;
    unsigned char *shown = flight->shown;
    flight->call = *call;
    flight->submitting = true;
    flight->host = monitor->host;
    flight->first_t = monitor->lane_time[queue->lane] + 1;
    flight->last_t = monitor->lane_time[queue->lane] += (uint64_t)flight->n;
    flight->number = ++queue->flights;
    flight->read_begin = UINT64_MAX;
    for (int i = 0; i < flight->n; i++) {
        uint64_t begin, end;
        flight->copy[i] = flight->commands[i];
        each_shown(&flight->copy[i], save, &shown);
        if (!plait_monitor_read_target(&flight->copy[i], &begin, &end)) continue;
        if (begin < flight->read_begin) flight->read_begin = begin;
        if (end > flight->read_end) flight->read_end = end;
    }
    /* At the end of the lists in flight; `pending` is the first that is not wholly handed on, which this one is if none
     * was. */
    if (queue->last)
        queue->last->next = flight;
    else
        queue->first = flight;
    queue->last = flight;
    if (!queue->pending) queue->pending = flight;
}

/* Inline lists are done when submit returns. */
static plait_status finish_inline(const plait_monitor_call *call, plait_monitor_queue *queue) {
    drain(call, queue);
    plait_monitor_join(&call->device->monitor->host, &queue->clock);
    return plait_monitor_check_lists(call);
}

/* With the lock held. A list of which the device took nothing was not submitted, and its failure is this call's. */
static plait_status submit(const plait_monitor_call *call, plait_monitor_queue *queue,
                           const plait_command *commands, int n) {
    plait_monitor *monitor = call->device->monitor;
    plait_monitor_flight *flight;
    if (n < 0 || (n > 0 && !commands))
        return plait_monitor_report(call, PLAIT_MONITOR_ARGUMENT, &queue->object, NULL,
                                    "a list of %d commands at %p", n, (const void *)commands);
    /* First what is over, so that its flight can be used again. */
    retire(queue);
    PLAIT_TRY(take_flight(queue, commands, n, &flight));
    append_flight(call, queue, flight);
    monitor->activity++;
    plait_monitor_pump(monitor);
    plait_status status = PLAIT_OK;
    /* Everything was done on this thread, so the host knows it. */
    if (queue->flags & PLAIT_QUEUE_INLINE) status = finish_inline(call, queue);
    flight->submitting = false;
    if (flight->status == PLAIT_OK) return status;
    return plait_error_raise(&queue->refusal);
}

/* `busy` is set around all of it, the lock only where the state is touched: the pump drops it while the device
 * works. */
plait_status plait_monitor_submit(plait_queue *base, const plait_command *commands, int n) {
    plait_monitor_queue *queue = (plait_monitor_queue *)base;
    plait_monitor_call call = plait_monitor_begin(base->device, PLAIT_MONITOR_F_submit);
    PLAIT_TRY(enter(&call, queue));
    plait_monitor_lock(call.device->monitor);
    plait_status status = submit(&call, queue, commands, n);
    plait_monitor_unlock(call.device->monitor);
    leave(&call, queue);
    return status;
}

/* Of the device's living buffers: a queue of it has just been waited for. */
static plait_status check_all_guards(const plait_monitor_call *call) {
    plait_status status = PLAIT_OK;
    plait_monitor_object *head = &call->device->living;
    for (plait_monitor_object *o = head->next; o != head && status == PLAIT_OK; o = o->next)
        if (o->kind == PLAIT_OBJECT_BUFFER)
            status = plait_monitor_check_guards(
                call, (plait_monitor_buffer *)((char *)o - offsetof(plait_monitor_buffer, object)));
    return status;
}

/* It is the last one, and nothing of it was handed on: it leaves the queue as if it had never come, its number is given
 * again. */
void plait_monitor_take_back(plait_monitor_queue *queue, plait_monitor_flight *flight) {
    plait_monitor_flight **at = &queue->first;
    queue->last = NULL;
    for (; *at != flight; at = &(*at)->next) queue->last = *at;
    *at = NULL;
    queue->flights--;
    flight->next = queue->spare;
    queue->spare = flight;
}

/* What synchronise must have done, seen by the event behind the last list. A queue that has failed must say so. */
static plait_status judge_done(const plait_monitor_call *call, plait_monitor_queue *queue,
                               plait_status status) {
    uint64_t value = 0;
    if (status == PLAIT_OK && (queue->gated || queue->device_failed))
        return plait_monitor_report(call, PLAIT_MONITOR_STATUS_LOST, &queue->object, NULL,
                                    "it has failed, and the device says OK");
    if (status != PLAIT_OK) return status;
    status = queue->progress->device->vtable->event_query(queue->progress, &value);
    if (status != PLAIT_OK)
        return plait_monitor_report(call, PLAIT_MONITOR_STATUS_LOST, &queue->object, NULL,
                                    "an event behind its last command has failed with %s, and the device "
                                    "says OK",
                                    plait_status_name(status));
    if (value < queue->flights && !queue->unseen)
        return plait_monitor_report(call, PLAIT_MONITOR_NOT_DONE, &queue->object, NULL,
                                    "%llu of %llu lists are done", (unsigned long long)value,
                                    (unsigned long long)queue->flights);
    return PLAIT_OK;
}

/* The device's own failure is what the caller gets, before any breach that was found on the way; a breach of the list
 * is the queue's failure. */
static plait_status after_synchronise(const plait_monitor_call *call, plait_monitor_queue *queue,
                                      plait_status status) {
    plait_monitor *monitor = call->device->monitor;
    plait_error_record failure;
    if (status != PLAIT_OK) plait_error_save(status, &failure);
    /* Synchronising waits for all lists, so the host knows everything that this queue has done. */
    queue->done = queue->flights;
    plait_monitor_join(&monitor->host, &queue->clock);
    /* Lists are compared before guards: whoever changed a list while it was in flight explains most of what else is
     * wrong. */
    plait_status found = plait_monitor_check_lists(call);
    if (found == PLAIT_OK) found = check_all_guards(call);
    if (found == PLAIT_OK && queue->flights) found = judge_done(call, queue, status);
    retire(queue);
    if (status != PLAIT_OK) {
        queue->device_failed = true;
        return plait_error_raise(&failure);
    }
    if (found == PLAIT_OK && queue->failed) return plait_error_raise(&queue->failure);
    return found;
}

/* First until the device has all lists, then the device's own synchronise, without the lock. */
plait_status plait_monitor_synchronise(plait_queue *base) {
    plait_monitor_queue *queue = (plait_monitor_queue *)base;
    plait_monitor_call call = plait_monitor_begin(base->device, PLAIT_MONITOR_F_synchronise);
    plait_monitor *monitor = call.device->monitor;
    PLAIT_TRY(enter(&call, queue));
    plait_monitor_lock(monitor);
    drain(&call, queue);
    plait_monitor_unlock(monitor);
    plait_queue *inner = queue->inner;
    plait_status status = plait_monitor_outcome(&call, inner->device->vtable->synchronise(inner));
    plait_monitor_lock(monitor);
    status = after_synchronise(&call, queue, status);
    plait_monitor_unlock(monitor);
    leave(&call, queue);
    return status;
}

/* Destroying waits, so the event behind the last list is reached, or has failed. */
static void judge_destroyed(const plait_monitor_call *call, plait_monitor_queue *queue) {
    uint64_t value = queue->flights;
    plait_error_record kept;
    plait_error_save(PLAIT_INTERNAL, &kept);
    plait_status status = queue->progress->device->vtable->event_query(queue->progress, &value);
    if (status == PLAIT_OK && value < queue->flights && !queue->unseen)
        plait_monitor_report(call, PLAIT_MONITOR_NOT_DONE, &queue->object, NULL,
                             "%llu of %llu lists are done", (unsigned long long)value,
                             (unsigned long long)queue->flights);
    plait_error_raise(&kept);
}

/* The inner queue is taken out of the struct before it is destroyed without the lock, so that nobody hands anything to
 * it meanwhile. */
void plait_monitor_queue_destroy(plait_queue *base) {
    if (!base) return;
    plait_monitor_queue *queue = (plait_monitor_queue *)base;
    plait_monitor_call call = plait_monitor_begin(base->device, PLAIT_MONITOR_F_queue_destroy);
    plait_monitor *monitor = call.device->monitor;
    /* In use by another thread, or destroyed before: nothing is touched. */
    if (enter(&call, queue) != PLAIT_OK) return;
    plait_monitor_lock(monitor);
    drain(&call, queue);
    plait_queue *inner = queue->inner;
    queue->inner = NULL;
    plait_monitor_unlock(monitor);
    inner->device->vtable->queue_destroy(inner);
    plait_monitor_lock(monitor);
    judge_destroyed(&call, queue);
    plait_monitor_join(&monitor->host, &queue->clock);
    plait_monitor_check_lists(&call);
    plait_monitor_queue_release(queue);
    plait_monitor_object_end(&call, &queue->object);
    plait_monitor_unlock(monitor);
}
