/* Queues: command lists, executed by a thread of the queue through a queue of the device inside. The submitting thread
 * never executes anything, INLINE or not: who forgets to wait is found out.
 *
 * With a seed for reordering, commands between which no byte tells the order are gathered and executed in random order.
 * A batch ends at an event, at a command that depends on one of the batch, and behind one that may fail, so that a
 * failure leaves behind what the contract says: all before it, nothing after it.
 *
 * Not here: which commands depend on each other (access.c), counting and losing (trouble.c). Invariant: after its first
 * failure a queue executes nothing more; the events that its commands would have signalled fail with the queue's
 * message instead. */
#include "device/sim/sim.h"

#include "base/alloc.h"
#include "base/os.h"
#include "base/size.h"
#include "device/ring.h"
#include "plait/host_queue.h"

#include <stdlib.h>

enum { MAX_BATCH = 16 };

struct plait_sim_queue {
    plait_queue base;
    /* Owned. INLINE: they execute on our thread. Launches have one of their own, so that one that fails leaves the
     * other able to execute what stood before it. */
    plait_queue *inner, *inner_launches;
    bool copies_only;
    plait_sim_queue *previous, *next;
    char *name;           /* Owned. */
    uint64_t random;      /* of delays and orders; the thread's */
    plait_buffer **slots; /* Owned. Of the launch that executes; the thread's. */
    size_t slots_capacity;
    plait_thread thread;
    bool lock_ready;
    pthread_mutex_t lock; /* of all below */
    pthread_cond_t changed;
    bool stop;
    plait_command_ring ring;
    uint64_t submitted, done, taken; /* lists; `taken` is the one whose commands are handed out */
    int at;                          /* next command of list `taken` */
    _Atomic bool failed;             /* set after `failure` is written, for good */
    plait_error_record failure;
};

/* What the thread has taken and not yet executed. */
typedef struct batch {
    int n;
    const plait_command *commands[MAX_BATCH];
    plait_error_record refusal; /* of the last command; OK: none */
} batch;

static plait_sim_device *device_of(const plait_sim_queue *queue) {
    return (plait_sim_device *)queue->base.device;
}

/* ---- failure ---- */

/* The first failure stays. The record is written before `failed` is set, and never again, so it is read without the
 * lock by whoever has seen `failed`. */
static void keep_failure(plait_sim_queue *queue, const plait_error_record *failure) {
    pthread_mutex_lock(&queue->lock);
    if (!atomic_load_explicit(&queue->failed, memory_order_relaxed)) {
        queue->failure = *failure;
        atomic_store_explicit(&queue->failed, true, memory_order_release);
    }
    pthread_mutex_unlock(&queue->lock);
}

static bool has_failed(plait_sim_queue *queue) {
    return atomic_load_explicit(&queue->failed, memory_order_acquire);
}

/* Takes each queue's lock under the device's: the one order of locks that sim.h allows. */
void plait_sim_queues_fail(plait_sim_device *device, const plait_error_record *failure) {
    for (plait_sim_queue *queue = device->queues; queue; queue = queue->next) keep_failure(queue, failure);
}

/* ---- executing ---- */

/* Not without peers on either side; otherwise as the device inside reaches the other one, or the one inside of it:
 * copies are made there. */
bool plait_sim_reaches(plait_device *base, plait_device *other) {
    plait_sim_device *device = (plait_sim_device *)base;
    if (base == other) return true;
    if (device->options.without[PLAIT_SIM_NO_PEER]) return false;
    if (plait_sim_is(other)) {
        const plait_sim_device *peer = (const plait_sim_device *)other;
        if (peer->options.without[PLAIT_SIM_NO_PEER]) return false;
        other = peer->inner;
    }
    return device->inner->vtable->reaches(device->inner, other);
}

/* The buffer as the device inside knows it. */
static plait_buffer *inner_buffer(plait_buffer *buffer) {
    return buffer && plait_sim_is(buffer->device) ? ((plait_sim_buffer *)buffer)->inner : buffer;
}

/* One command at a time, waited for: its failure is this command's, and the order is this queue's own. INLINE queues do
 * both on this thread. */
static plait_status run_inner(plait_sim_queue *queue, const plait_command *command) {
    const plait_device_vtable *inner = device_of(queue)->inner->vtable;
    plait_queue *runs = command->kind == PLAIT_COMMAND_LAUNCH ? queue->inner_launches : queue->inner;
    PLAIT_TRY(inner->submit(runs, command, 1));
    return inner->synchronise(runs);
}

/* A command that moves bytes over the link takes as long as the link does. */
static plait_status run_moving(plait_sim_queue *queue, const plait_command *command, int way,
                               uint64_t size_bytes) {
    uint64_t arrival = plait_sim_link_claim(device_of(queue), way, size_bytes);
    plait_status status = run_inner(queue, command);
    plait_sim_sleep_until(arrival);
    return status;
}

/* Bytes that go over the link: of a box what it moves, not what it spans. */
static uint64_t moved_bytes(const plait_region *region, const uint64_t *size_bytes, const plait_box *box) {
    if (box) return box->row_bytes * box->n_rows * box->n_planes;
    return size_bytes ? *size_bytes : region->size_bytes;
}

/* The command is copied, with the inner buffer in place of ours; everything else, pointers included, is the
 * caller's. */
static plait_status run_transfer(plait_sim_queue *queue, const plait_command *command) {
    plait_command inner = *command;
    bool write = command->kind == PLAIT_COMMAND_WRITE;
    inner.transfer.region.buffer = inner_buffer(inner.transfer.region.buffer);
    inner.transfer.trace = NULL; /* what the link takes belongs to the span: execute adds it */
    uint64_t n = moved_bytes(&command->transfer.region, command->transfer.size_bytes, command->transfer.box);
    return run_moving(queue, &inner, write ? 0 : 1, n);
}

/* Within the device the link is not used. Between devices it is claimed in the direction of the bytes, on this device's
 * side. */
static plait_status run_copy(plait_sim_queue *queue, const plait_command *command) {
    plait_command inner = *command;
    const plait_device *self = queue->base.device;
    bool from_self = command->copy.source.buffer->device == self;
    bool to_self = command->copy.target.buffer->device == self;
    inner.copy.source.buffer = inner_buffer(inner.copy.source.buffer);
    inner.copy.target.buffer = inner_buffer(inner.copy.target.buffer);
    inner.copy.trace = NULL;
    if (from_self && to_self) return run_inner(queue, &inner);
    if (device_of(queue)->options.astray) return PLAIT_OK; /* as drivers do: no bytes, and no word */
    uint64_t n = moved_bytes(&command->copy.source, command->copy.size_bytes, command->copy.box);
    return run_moving(queue, &inner, to_self ? 0 : 1, n);
}

static plait_status run_fill(plait_sim_queue *queue, const plait_command *command) {
    plait_command inner = *command;
    inner.fill.region.buffer = inner_buffer(inner.fill.region.buffer);
    return run_inner(queue, &inner);
}

/* Slots of the inner device's launch. Buffers of others are no memory that this device computes on: where the inner
 * device is unified with them it would work, and on the device that is simulated it would not. The array grows to the
 * largest launch and stays. */
static plait_status bind_slots(plait_sim_queue *queue, const plait_command *command) {
    plait_buffer *const *slots = command->launch.slots;
    size_t n = (size_t)command->launch.program->n_slots;
    PLAIT_TRY(
        plait_grow(&queue->slots, &queue->slots_capacity, n, sizeof *queue->slots, SIZE_MAX / 64, "slots"));
    for (size_t s = 0; s < n; s++) {
        if (slots && slots[s] && slots[s]->device != queue->base.device)
            return plait_error(PLAIT_INVALID_ARGUMENT, "launch: slot %zu holds a buffer of %s", s,
                               slots[s]->device->name);
        queue->slots[s] = slots ? inner_buffer(slots[s]) : NULL;
    }
    return PLAIT_OK;
}

/* `inner` is `command` for the device inside. The scratch of the first group is poisoned before the launch, that of the
 * last one behind it: whatever was kept there across launches is gone. Spans are stretched to the time that the
 * simulated device takes, which is then slept through. */
static plait_status run_timed(plait_sim_queue *queue, const plait_command *inner,
                              const plait_command *command) {
    const plait_sim_device *device = device_of(queue);
    const plait_program *program = command->launch.program;
    plait_launch_trace *trace = command->launch.trace;
    size_t n_spans = trace ? trace->n : 0;
    plait_sim_poison(device, command->launch.slots, &program->scratch[0]);
    uint64_t begin_ns = plait_time_ns();
    PLAIT_TRY(run_inner(queue, inner));
    uint64_t now_ns = plait_time_ns(),
             end_ns = plait_sim_end_of_launch(device, program, command->launch.dims, begin_ns);
    if (trace) plait_sim_stretch(trace, n_spans, begin_ns, now_ns, end_ns);
    plait_sim_sleep_until(end_ns);
    plait_sim_poison(device, command->launch.slots, &program->scratch[1]);
    return PLAIT_OK;
}

/* On a queue for copies the launch is refused: a device with copy engines has nothing there that computes. */
static plait_status run_launch(plait_sim_queue *queue, const plait_command *command) {
    plait_command inner = *command;
    if (queue->copies_only) return plait_error(PLAIT_UNSUPPORTED, "a launch on a queue for copies");
    if (!command->launch.program) return plait_error(PLAIT_INVALID_ARGUMENT, "launch without a program");
    PLAIT_TRY(bind_slots(queue, command));
    inner.launch.program = command->launch.program->inner;
    inner.launch.slots = queue->slots;
    const char *name = command->launch.program->name;
    plait_status status = run_timed(queue, &inner, command);
    return name ? plait_error_context(status, "program %s", name) : status;
}

/* Events of other devices are for waiting alone. */
static plait_status run_signal(plait_sim_queue *queue, const plait_command *command) {
    plait_event *event = command->signal.event;
    if (event->device != queue->base.device)
        return plait_error(PLAIT_UNSUPPORTED, "signals an event of %s", event->device->name);
    return plait_sim_event_signal(event, *command->signal.value);
}

static plait_status run_kind(plait_sim_queue *queue, const plait_command *command) {
    switch (command->kind) {
    case PLAIT_COMMAND_WRITE:
    case PLAIT_COMMAND_READ: return run_transfer(queue, command);
    case PLAIT_COMMAND_COPY: return run_copy(queue, command);
    case PLAIT_COMMAND_FILL: return run_fill(queue, command);
    case PLAIT_COMMAND_LAUNCH: return run_launch(queue, command);
    case PLAIT_COMMAND_SIGNAL: return run_signal(queue, command);
    case PLAIT_COMMAND_WAIT:
        return plait_sim_event_hold(device_of(queue), command->wait.event, *command->wait.value);
    }
    return plait_error(PLAIT_INVALID_ARGUMENT, "command kind %d is unknown", (int)command->kind);
}

/* An event of this device that this queue would have signalled; another one's was refused, or cannot be failed from
 * here. */
static void fail_signal(plait_sim_queue *queue, const plait_command *command) {
    plait_event *event = command->signal.event;
    if (command->kind == PLAIT_COMMAND_SIGNAL && event->device == queue->base.device)
        plait_sim_event_fail(event, &queue->failure);
}

/* `refusal`: what was found wrong with the command before it ran, OK for nothing. `dead`: something that stands before
 * it has failed. The delay comes before the command, inside of its span: it is part of how long the command takes
 * here. */
static void execute(plait_sim_queue *queue, const plait_command *command, const plait_error_record *refusal,
                    bool dead) {
    plait_sim_device *device = device_of(queue);
    if (!dead) {
        plait_error_record failure;
        plait_launch_trace *trace = plait_command_trace(command);
        size_t n_spans = trace ? trace->n : 0;
        uint64_t begin_ns = trace ? plait_time_ns() : 0;
        if (device->options.delay_seed) plait_sim_delay(device, &queue->random);
        plait_status status =
            refusal->status == PLAIT_OK
                ? plait_error_context(run_kind(queue, command), "%s%s%s", device->base.name,
                                      queue->name ? ", queue " : "", queue->name ? queue->name : "")
                : plait_error_raise(refusal);
        if (status == PLAIT_OK && trace && trace->n == n_spans)
            trace->spans[trace->n++] =
                (struct plait_launch_span){PLAIT_SPAN_WHOLE, begin_ns, plait_time_ns()};
        if (status == PLAIT_OK) return;
        plait_error_save(status, &failure);
        keep_failure(queue, &failure);
    }
    fail_signal(queue, command);
}

/* ---- batches ---- */

/* With the lock held: steps over lists whose commands are all taken. */
static void skip_empty(plait_sim_queue *queue) {
    while (queue->taken < queue->submitted &&
           queue->at == plait_command_ring_at(&queue->ring, queue->taken)->n) {
        queue->taken++;
        queue->at = 0;
    }
}

/* With the lock held, and nothing taken that is not executed: the lists that are wholly taken are done, and the
 * commands are the caller's again. */
static void settle(plait_sim_queue *queue) {
    skip_empty(queue);
    if (queue->done == queue->taken) return;
    queue->done = queue->taken;
    pthread_cond_broadcast(&queue->changed);
}

/* The next command, which stays where it is; NULL when there is none now or, waiting for one, at the queue's end.
 * Waiting is what the thread does with an empty batch, so only then are lists settled. */
static const plait_command *next_command(plait_sim_queue *queue, bool wait) {
    const plait_command *command = NULL;
    pthread_mutex_lock(&queue->lock);
    for (;;) {
        if (wait)
            settle(queue);
        else
            skip_empty(queue);
        if (queue->taken < queue->submitted || queue->stop || !wait) break;
        pthread_cond_wait(&queue->changed, &queue->lock);
    }
    if (queue->taken < queue->submitted)
        command = &plait_command_ring_at(&queue->ring, queue->taken)->commands[queue->at];
    pthread_mutex_unlock(&queue->lock);
    return command;
}

/* Against every command of the batch: any of them may be executed last. */
static bool depends(const batch *b, const plait_command *command) {
    for (int i = 0; i < b->n; i++)
        if (plait_sim_ordered(b->commands[i], command)) return true;
    return false;
}

/* Takes the command into the batch; true when others may follow. A failed queue takes one command at a time, only to
 * fail its signals. Here the command is counted, refused if it has to be, and if it is neither an event nor a launch,
 * which may fail by itself, others may stand beside it. */
static bool add(plait_sim_queue *queue, batch *b, const plait_command *command) {
    plait_sim_device *device = device_of(queue);
    b->commands[b->n++] = command;
    pthread_mutex_lock(&queue->lock);
    queue->at++;
    pthread_mutex_unlock(&queue->lock);
    b->refusal.status = PLAIT_OK;
    if (has_failed(queue)) return false;
    plait_status status = plait_sim_count_command(device, command);
    if (status == PLAIT_OK) status = plait_sim_check_regions(&device->base, command);
    if (status != PLAIT_OK) plait_error_save(status, &b->refusal);
    bool moves = command->kind != PLAIT_COMMAND_LAUNCH && command->kind != PLAIT_COMMAND_SIGNAL &&
                 command->kind != PLAIT_COMMAND_WAIT;
    return status == PLAIT_OK && moves && device->options.reorder_seed && b->n < MAX_BATCH;
}

/* Waits for commands; false at the queue's end. */
static bool gather(plait_sim_queue *queue, batch *b) {
    const plait_command *command = next_command(queue, true);
    b->n = 0;
    while (command && add(queue, b, command)) {
        command = next_command(queue, false);
        if (command && depends(b, command)) break;
    }
    return b->n > 0;
}

/* A random order (Fisher and Yates). The last command stays the last one when it may not be executed at all, for what
 * stood before it must have its effect. */
static void shuffle(plait_sim_queue *queue, batch *b) {
    int n = b->refusal.status == PLAIT_OK ? b->n : b->n - 1;
    for (int i = n - 1; i > 0; i--) {
        int j = (int)(plait_sim_random(&queue->random) % (uint64_t)(i + 1));
        const plait_command *kept = b->commands[i];
        b->commands[i] = b->commands[j];
        b->commands[j] = kept;
    }
}

/* `dead` is asked once a batch: within one nothing fails but its last command. */
static void *queue_main(void *argument) {
    static const plait_error_record fine = {.status = PLAIT_OK};
    plait_sim_queue *queue = argument;
    batch b;
    while (gather(queue, &b)) {
        bool dead = has_failed(queue);
        shuffle(queue, &b);
        for (int i = 0; i < b.n; i++) execute(queue, b.commands[i], i + 1 == b.n ? &b.refusal : &fine, dead);
    }
    return NULL;
}

/* ---- life ---- */

static void enlist(plait_sim_device *device, plait_sim_queue *queue) {
    queue->next = device->queues;
    if (queue->next) queue->next->previous = queue;
    device->queues = queue;
}

/* Accepts a queue that is in no list. */
static void delist(plait_sim_device *device, plait_sim_queue *queue) {
    pthread_mutex_lock(&device->lock);
    if (queue->previous || device->queues == queue) {
        if (queue->next) queue->next->previous = queue->previous;
        if (queue->previous)
            queue->previous->next = queue->next;
        else
            device->queues = queue->next;
        device->n_queues--;
    }
    pthread_mutex_unlock(&device->lock);
}

/* Each queue has a random state of its own, from the seeds and its number: equal options and equal creation give equal
 * troubles on each queue, however threads are scheduled. */
static plait_status join_device(plait_sim_device *device, plait_sim_queue *queue) {
    plait_status status = PLAIT_OK;
    pthread_mutex_lock(&device->lock);
    if (atomic_load_explicit(&device->lost, memory_order_relaxed)) {
        status = plait_error_raise(&device->loss);
    } else if (device->n_queues == PLAIT_SIM_MAX_QUEUES) {
        status = plait_error(PLAIT_LIMIT, "%s has %d queues and offers no more", device->base.name,
                             device->n_queues);
    } else {
        queue->random = device->options.delay_seed ^ device->options.reorder_seed << 32 ^
                        device->n_queues_made++ * 0xd1342543de82ef95u;
        device->n_queues++;
        enlist(device, queue);
    }
    pthread_mutex_unlock(&device->lock);
    return status;
}

/* What exists when this fails is undone by destroy: the list of the device knows whether the queue was in it,
 * lock_ready whether there are locks. */
static plait_status start(plait_sim_device *device, plait_sim_queue *queue) {
    if (pthread_mutex_init(&queue->lock, NULL) != 0) return plait_error_memory("queue", 0);
    if (pthread_cond_init(&queue->changed, NULL) != 0) {
        pthread_mutex_destroy(&queue->lock);
        return plait_error_memory("queue", 0);
    }
    queue->lock_ready = true;
    PLAIT_TRY(
        plait_command_ring_reserve(&queue->ring, queue->base.device->name, queue->done, queue->submitted));
    PLAIT_TRY(device->inner->vtable->queue_create(device->inner, PLAIT_QUEUE_INLINE, &queue->inner));
    PLAIT_TRY(device->inner->vtable->queue_create(device->inner, PLAIT_QUEUE_INLINE, &queue->inner_launches));
    PLAIT_TRY(join_device(device, queue));
    return plait_thread_start(&queue->thread, "plait-sim", queue_main, queue);
}

/* Without copy queues of its own the device takes the flag for a wish. */
plait_status plait_sim_queue_create(plait_device *base, uint32_t flags, plait_queue **out) {
    plait_sim_device *device = (plait_sim_device *)base;
    plait_sim_queue *queue = plait_alloc_array(1, sizeof *queue);
    if (!queue) return plait_error_memory("queue", sizeof *queue);
    queue->base.device = base;
    queue->copies_only = (flags & PLAIT_QUEUE_COPY) != 0 && device->options.copy_queues > 0;
    plait_status status = start(device, queue);
    if (status != PLAIT_OK) {
        plait_sim_queue_destroy(&queue->base);
        return status;
    }
    *out = &queue->base;
    return PLAIT_OK;
}

/* The thread ends when everything is executed; then nobody finds the queue any more; then the inner queues go. */
void plait_sim_queue_destroy(plait_queue *base) {
    plait_sim_queue *queue = (plait_sim_queue *)base;
    if (!queue) return;
    plait_sim_device *device = device_of(queue);
    if (queue->lock_ready) {
        pthread_mutex_lock(&queue->lock);
        queue->stop = true;
        pthread_cond_broadcast(&queue->changed);
        pthread_mutex_unlock(&queue->lock);
        plait_thread_join(&queue->thread);
        delist(device, queue);
        pthread_cond_destroy(&queue->changed);
        pthread_mutex_destroy(&queue->lock);
    }
    if (queue->inner) device->inner->vtable->queue_destroy(queue->inner);
    if (queue->inner_launches) device->inner->vtable->queue_destroy(queue->inner_launches);
    free(queue->slots);
    plait_command_ring_deinit(&queue->ring);
    free(queue->name);
    free(queue);
}

/* Refused on a lost device, unlike on a failed queue, which takes everything. */
plait_status plait_sim_submit(plait_queue *base, const plait_command *commands, int n) {
    plait_sim_queue *queue = (plait_sim_queue *)base;
    if (n < 0) return plait_error(PLAIT_INVALID_ARGUMENT, "%s: %d commands", base->device->name, n);
    PLAIT_TRY(plait_sim_alive(device_of(queue)));
    pthread_mutex_lock(&queue->lock);
    plait_status status =
        plait_command_ring_reserve(&queue->ring, queue->base.device->name, queue->done, queue->submitted);
    if (status == PLAIT_OK) {
        *plait_command_ring_at(&queue->ring, queue->submitted++) = (plait_command_list){commands, n};
        pthread_cond_broadcast(&queue->changed);
    }
    pthread_mutex_unlock(&queue->lock);
    return status;
}

/* Of what was submitted before the call, whatever others submit meanwhile. */
plait_status plait_sim_synchronise(plait_queue *base) {
    plait_sim_queue *queue = (plait_sim_queue *)base;
    plait_status status = PLAIT_OK;
    pthread_mutex_lock(&queue->lock);
    uint64_t wanted = queue->submitted;
    while (queue->done < wanted) pthread_cond_wait(&queue->changed, &queue->lock);
    if (has_failed(queue)) status = plait_error_raise(&queue->failure);
    pthread_mutex_unlock(&queue->lock);
    return status;
}

char **plait_sim_queue_name(plait_queue *queue) {
    return &((plait_sim_queue *)queue)->name;
}
