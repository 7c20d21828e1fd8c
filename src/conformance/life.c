/* The ends of things: shut down in the middle of work, nothing left behind after many lives and runs, and a device that
 * is lost while it works. Not here: single failures (failures.c).
 *
 * Invariant: whatever a check has started (threads, devices) has ended when it returns. */
#include "base/os.h"
#include "base/size.h"
#include "base/thread.h"
#include "conformance/built.h"
#include "conformance/kit.h"

#include <string.h>

/* WARM rounds come before counting: first uses fill caches and lists that stay. ROUNDS are counted. */
enum { BYTES = 5000, CYCLES = 12, WARM = 30, ROUNDS = 200, MAX_LISTS = 5000 };
/* Less than the smallest block that an allocator gives out, for each round. */
enum { TOLERATED_BYTES = ROUNDS * 16 };

static const uint64_t numbers[] = {0, 1, 2, 3};

/* ---- shutting down ---- */

/* One life: work is submitted, and everything destroyed as early as the contract allows: queues while they work, the
 * one that waits too, then events and buffers, then the device. What was read must be there when the queues are gone.
 * No kit here: the order of destroying is what is tested, and a kit has one of its own. */
static plait_status short_life(plait_conf *c, uint32_t seed) {
    enum { DEPTH = 20 };
    plait_device *device = NULL;
    plait_queue *queues[2] = {NULL, NULL};
    plait_event *event = NULL;
    plait_buffer *buffer = NULL;
    unsigned char in[BYTES], out[BYTES] = {0};
    plait_conf_pattern(in, BYTES, seed);
    PLAIT_TRY(plait_conf_open(c, c->item, &device));
    const plait_device_vtable *v = device->vtable;
    plait_status status = v->event_create(device, &event);
    for (int i = 0; i < 2 && status == PLAIT_OK; i++) status = v->queue_create(device, 0, &queues[i]);
    if (status == PLAIT_OK) status = v->buffer_create(device, BYTES, PLAIT_BUFFER_STATE, &buffer);
    if (status == PLAIT_OK) {
        plait_command write[] = {plait_conf_write(buffer, 0, in, BYTES),
                                 plait_conf_signal(event, &numbers[1])};
        plait_command take[] = {plait_conf_wait(event, &numbers[1]), plait_conf_read(buffer, 0, out, BYTES)};
        /* It waits for the last list of the other queue, which is not submitted yet. */
        status = v->submit(queues[1], take, 2);
        for (int i = 0; i < DEPTH && status == PLAIT_OK; i++) status = v->submit(queues[0], write, 1);
        if (status == PLAIT_OK) status = v->submit(queues[0], write, 2);
        /* The one that works first, while the other still waits for it. */
        for (int i = 0; i < 2; i++) v->queue_destroy(queues[i]);
        if (status == PLAIT_OK)
            status = plait_conf_same(out, in, BYTES, "what was read by a queue that is destroyed");
    } else {
        for (int i = 0; i < 2; i++) v->queue_destroy(queues[i]);
    }
    v->event_destroy(event);
    v->buffer_destroy(buffer);
    v->destroy(device);
    return status;
}

/* Again and again, for what goes wrong here does so rarely. */
static plait_status check_shutdown(plait_conf *c, void *user) {
    (void)user;
    for (uint32_t i = 0; i < (c->options.deep ? 20 * CYCLES : CYCLES); i++) PLAIT_TRY(short_life(c, i));
    return PLAIT_OK;
}

/* ---- leaks ---- */

/* What is counted: host memory of the process, and the device's own, where it has some. */
typedef struct counts {
    uint64_t host, device;
} counts;

/* Host memory is what the process has from the allocator; memory that a device maps by itself is counted where it has
 * memory of its own. A sanitizer's allocator is asked where there is one (os.c). */
static plait_status count(plait_conf *c, counts *out) {
    uint64_t total = 0, left = 0;
    /* Without memory of its own the device's figure is 0 - 0, and compares equal. */
    if (plait_conf_own_memory(c)) PLAIT_TRY(c->v->memory_query(c->device, &total, &left));
    *out = (counts){plait_os_heap_bytes(), total - left};
    return PLAIT_OK;
}

/* Less is fine: others may have given back. Device memory must be back to the byte. An allocator may take a little more
 * in between for its own lists, hence the tolerance; a leak of anything in each round is above it. */
static plait_status compare_counts(plait_conf *c, const counts *before, const char *what) {
    counts after;
    PLAIT_TRY(count(c, &after));
    PLAIT_CONF_EXPECT(after.device <= before->device,
                      "%s: %llu bytes of device memory were left behind in %d rounds", what,
                      (unsigned long long)(after.device - before->device), ROUNDS);
    PLAIT_CONF_EXPECT(after.host <= before->host + TOLERATED_BYTES,
                      "%s: %llu bytes of host memory were left behind in %d rounds", what,
                      (unsigned long long)(after.host - before->host), ROUNDS);
    return PLAIT_OK;
}

typedef plait_status (*round_fn)(plait_conf *c, void *user);

/* Rounds until everything is warm, then those that count. Under the monitor nothing can be counted, since it records
 * all calls. */
static plait_status repeat(plait_conf *c, round_fn fn, void *user, const char *what) {
    counts before;
    if (c->monitor) return plait_conf_lack(c, "the monitor keeps what it has seen");
    for (int i = 0; i < WARM; i++) PLAIT_TRY(fn(c, user));
    PLAIT_TRY(count(c, &before));
    for (int i = 0; i < ROUNDS; i++) PLAIT_TRY(fn(c, user));
    return compare_counts(c, &before, what);
}

/* Each object is used before it is destroyed: some devices make what they need only then. */
static plait_status objects_round(plait_conf *c, void *user) {
    plait_queue *queue = NULL;
    plait_event *event = NULL;
    plait_buffer *buffer = NULL;
    (void)user;
    plait_status status = c->v->queue_create(c->device, 0, &queue);
    if (status == PLAIT_OK) status = c->v->event_create(c->device, &event);
    if (status == PLAIT_OK) status = c->v->buffer_create(c->device, BYTES, PLAIT_BUFFER_STATE, &buffer);
    if (status == PLAIT_OK) {
        plait_command list[] = {plait_conf_fill(buffer, 0, BYTES, 1), plait_conf_signal(event, &numbers[1])};
        status = plait_conf_do(queue, list, 2);
    }
    c->v->queue_destroy(queue);
    c->v->event_destroy(event);
    c->v->buffer_destroy(buffer);
    return status;
}

static plait_status check_objects(plait_conf *c, void *user) {
    (void)user;
    return repeat(c, objects_round, NULL, "queues, events and buffers that came and went");
}

/* Calls that fail keep nothing: a refused buffer, and a queue with a failure and its message. */
static plait_status failures_round(plait_conf *c, void *user) {
    plait_queue *queue = NULL;
    plait_buffer *buffer = NULL, *large = NULL;
    (void)user;
    PLAIT_TRY(c->v->queue_create(c->device, 0, &queue));
    plait_status status = c->v->buffer_create(c->device, 16, PLAIT_BUFFER_STATE, &buffer);
    if (status == PLAIT_OK &&
        c->v->buffer_create(c->device, (uint64_t)1 << 60, PLAIT_BUFFER_STATE, &large) == PLAIT_OK)
        status = plait_error(PLAIT_INTERNAL, "a buffer of 2^60 bytes was given out");
    if (status == PLAIT_OK) {
        /* Ten bytes from the tenth of sixteen. */
        plait_command outside = plait_conf_fill(buffer, 10, 10, 1);
        if (plait_conf_do(queue, &outside, 1) == PLAIT_OK)
            status = plait_error(PLAIT_INTERNAL, "a fill beyond its buffer has not failed");
    }
    c->v->queue_destroy(queue);
    c->v->buffer_destroy(buffer);
    c->v->buffer_destroy(large);
    return status;
}

static plait_status check_failures(plait_conf *c, void *user) {
    (void)user;
    return repeat(c, failures_round, NULL, "calls and commands that failed");
}

/* A node that most devices run. All zeros: only what is left behind matters. */
static plait_status draw_node(plait_conf *c, plait_conf_work *w) {
    plait_op_use use;
    plait_operand shapes[] = {{.dtype = PLAIT_F32, .dims = {64, 48, 1, 1}},
                              {.dtype = PLAIT_F32, .dims = {64, 3, 1, 1}}};
    int inputs[2];
    for (int i = 0; i < 2; i++) {
        plait_operand_make_dense(&shapes[i]);
        inputs[i] = plait_conf_tensor_add(w, &shapes[i], PLAIT_CONF_FIXED, 0, i == 0);
    }
    plait_op_use_init(&use, plait_op_get(PLAIT_OP_matmul));
    int y = plait_conf_apply(w, &use, 2, inputs, PLAIT_CONF_FIXED);
    plait_op_use_init(&use, plait_op_get(PLAIT_OP_silu));
    if (y < 0 || plait_conf_apply(w, &use, 1, &y, PLAIT_CONF_FIXED) < 0)
        return plait_error_context(PLAIT_INTERNAL, "the nodes are refused");
    PLAIT_TRY(plait_conf_all_supported(c, w));
    PLAIT_TRY(plait_conf_freeze(w));
    memset(w->host, 0, w->host_bytes);
    return PLAIT_OK;
}

typedef struct runner {
    plait_conf_built built;
    plait_buffer *slots[PLAIT_CONF_SLOTS];
    plait_queue *queue;
} runner;

/* One launch, and one byte read behind it. */
static plait_status run_round(plait_conf *c, void *user) {
    runner *r = user;
    unsigned char byte;
    plait_command list[] = {plait_conf_launch(r->built.program, r->slots, NULL),
                            plait_conf_read(r->slots[0], 0, &byte, 1)};
    (void)c;
    return plait_conf_do(r->queue, list, 2);
}

/* Prepared, compiled and destroyed, without a launch. A failed build is taken apart by the same call. */
static plait_status programs_round(plait_conf *c, void *user) {
    plait_conf_work *w = user;
    plait_conf_built built;
    (void)c;
    plait_status status = plait_conf_build(w, 0, w->n_nodes, PLAIT_CONF_WHOLE, &built);
    plait_conf_built_deinit(&built);
    return status;
}

/* Programs that come and go, and one that runs again and again. The bench is drawn once: its own memory is the same
 * before and after. */
static plait_status leaks_of_programs(plait_conf *c, plait_conf_kit *kit, plait_conf_work *w) {
    /* Its slots are the bench's image, and scratch that the kit destroys. */
    runner r = {.slots = {NULL, NULL}};
    PLAIT_TRY(draw_node(c, w));
    PLAIT_TRY(repeat(c, programs_round, w, "programs that came and went"));
    PLAIT_TRY(plait_conf_queue(kit, c->device, 0, &r.queue));
    plait_status status = plait_conf_build(w, 0, w->n_nodes, PLAIT_CONF_WHOLE, &r.built);
    if (status == PLAIT_OK) status = plait_conf_scratch_create(&r.built, r.queue, &r.slots[1]);
    if (status == PLAIT_OK) status = plait_conf_keep_buffer(kit, r.slots[1]);
    if (status == PLAIT_OK) {
        r.slots[0] = w->image;
        status = plait_conf_upload(w, r.queue, w->image);
    }
    if (status == PLAIT_OK) status = repeat(c, run_round, &r, "launches of one program");
    plait_conf_built_deinit(&r.built);
    return status;
}

/* The bench outlives everything that is made of it. */
static plait_status program_leaks(plait_conf *c, plait_conf_kit *kit, const void *user) {
    plait_conf_work w;
    (void)user;
    plait_conf_work_init(&w, c);
    plait_status status = leaks_of_programs(c, kit, &w);
    plait_conf_work_deinit(&w);
    return status;
}

/* ---- loss ---- */

/* A device that will be lost, and what it is doing then. Lies in the kit's memory: commands of a lost device may stay
 * in flight until its queues are destroyed. */
typedef struct wreck {
    plait_conf *c;
    plait_device *device;
    plait_queue *working, *waiting;
    plait_event *counter, *never, *reached;
    plait_buffer *buffer;
    plait_thread thread; /* waits for `never` */
    plait_status woken;
    uint64_t values[MAX_LISTS];
    plait_command lists[MAX_LISTS][2], last;
} wreck;

/* A thread of the host that the loss must wake. */
static void *wait_for_never(void *user) {
    wreck *w = user;
    w->woken = w->device->vtable->event_wait(w->never, 1, w->c->patience_ns);
    return NULL;
}

/* Everything that may be in use when a device is lost: a queue that works, one that waits for ever, a thread that
 * waits, an event that has been reached, a buffer. */
static plait_status board(plait_conf_kit *kit, wreck *w) {
    const plait_conformance_options *o = &w->c->options;
    PLAIT_TRY(plait_conf_device(kit, o->lost_item ? o->lost_item : w->c->item, &w->device));
    PLAIT_TRY(plait_conf_queue(kit, w->device, 0, &w->working));
    PLAIT_TRY(plait_conf_queue(kit, w->device, 0, &w->waiting));
    PLAIT_TRY(plait_conf_event(kit, w->device, &w->counter));
    PLAIT_TRY(plait_conf_event(kit, w->device, &w->never));
    PLAIT_TRY(plait_conf_event(kit, w->device, &w->reached));
    PLAIT_TRY(plait_conf_buffer(kit, w->device, BYTES, PLAIT_BUFFER_STATE, &w->buffer));
    /* 3 is reached while the device lives, and must stay so. */
    PLAIT_TRY(w->device->vtable->event_signal(w->reached, 3));
    plait_command wait = plait_conf_wait(w->never, &numbers[1]);
    PLAIT_TRY(plait_conf_submit(kit, w->waiting, &wait, 1));
    return plait_thread_start(&w->thread, "plait-never", wait_for_never, w);
}

/* Work until something fails, which must be for the loss: of a device that was made to be lost after some commands, or
 * that the caller's function loses after three lists. MAX_LISTS bounds the work where the loss never comes; the status
 * is then OK and fails the comparison. */
static plait_status sink(wreck *w) {
    const plait_conformance_options *o = &w->c->options;
    plait_status status = PLAIT_OK;
    int r = 0;
    for (; r < MAX_LISTS && status == PLAIT_OK; r++) {
        w->values[r] = (uint64_t)r + 1;
        w->lists[r][0] = plait_conf_fill(w->buffer, 0, BYTES, (uint8_t)r);
        w->lists[r][1] = plait_conf_signal(w->counter, &w->values[r]);
        /* After three lists the device is warm, and in the middle of something. */
        if (o->lose && r == 3) PLAIT_TRY(o->lose(o->lose_user, w->device));
        plait_conf_forget_message();
        status = w->device->vtable->submit(w->working, w->lists[r], 2);
        if (status == PLAIT_OK)
            status = w->device->vtable->event_wait(w->counter, w->values[r], w->c->patience_ns);
    }
    return plait_error_context(
        plait_conf_failed(status, PLAIT_DEVICE_LOST, "work on a device that is being lost"), "after %d lists",
        r);
}

/* What waits has been told; what was reached stays; nothing new can be had. Asked twice, for the loss is for good. A
 * submission may be refused or accepted; synchronise fails either way. describe works, since whoever cleans up wants to
 * say what was lost. */
static plait_status look_at(plait_conf_kit *kit, wreck *w) {
    const plait_device_vtable *v = w->device->vtable;
    uint64_t patience = w->c->patience_ns, value = 99;
    plait_device_info info;
    plait_buffer *buffer = NULL;
    plait_queue *queue = NULL;
    for (int twice = 0; twice < 2; twice++) {
        PLAIT_TRY(PLAIT_CONF_FAILS(v->health(w->device), PLAIT_DEVICE_LOST, "health of a lost device"));
        PLAIT_TRY(PLAIT_CONF_FAILS(v->synchronise(w->working), PLAIT_DEVICE_LOST,
                                   "synchronise of the queue that worked"));
        PLAIT_TRY(PLAIT_CONF_FAILS(v->event_wait(w->never, 1, patience), PLAIT_DEVICE_LOST,
                                   "a wait for an event that is not reached"));
        PLAIT_TRY(PLAIT_CONF_FAILS(v->event_query(w->never, &value), PLAIT_DEVICE_LOST,
                                   "a query of an event that is not reached"));
        PLAIT_TRY(PLAIT_CONF_FAILS(v->synchronise(w->waiting), PLAIT_DEVICE_LOST,
                                   "synchronise of a queue that waited"));
        PLAIT_TRY(
            plait_error_context(v->event_wait(w->reached, 3, patience), "a value reached before the loss"));
    }
    PLAIT_CONF_EXPECT(value == 99, "a failed event_query has set its output");
    /* In the wreck: an accepted list stays in flight for ever. */
    w->last = plait_conf_fill(w->buffer, 0, 1, 1);
    plait_conf_forget_message();
    plait_status status = v->submit(w->working, &w->last, 1);
    if (status != PLAIT_OK)
        PLAIT_TRY(plait_conf_failed(status, PLAIT_DEVICE_LOST, "submit to a queue of a lost device"));
    PLAIT_TRY(PLAIT_CONF_FAILS(v->synchronise(w->working), PLAIT_DEVICE_LOST,
                               "synchronise after one more command"));
    PLAIT_TRY(PLAIT_CONF_FAILS(plait_conf_buffer(kit, w->device, 16, PLAIT_BUFFER_STATE, &buffer),
                               PLAIT_DEVICE_LOST, "buffer_create of a lost device"));
    PLAIT_TRY(PLAIT_CONF_FAILS(plait_conf_queue(kit, w->device, 0, &queue), PLAIT_DEVICE_LOST,
                               "queue_create of a lost device"));
    PLAIT_CONF_EXPECT(!buffer && !queue, "a failed create has set its output");
    PLAIT_TRY(plait_error_context(v->describe(w->device, &info), "describe of a lost device"));
    return PLAIT_OK;
}

/* The thread is woken by this check when the device has not done it, so that it can be joined. The suite's own device
 * must not notice, though it may be of the same kind. */
static plait_status loss(plait_conf *c, plait_conf_kit *kit, const void *user) {
    wreck *w;
    unsigned char byte = 0;
    (void)user;
    if (!c->options.lost_item && !c->options.lose)
        return plait_conf_lack(c, "nothing is known of how to lose such a device (lost_item, lose)");
    PLAIT_TRY(plait_conf_bytes(kit, sizeof *w, (unsigned char **)&w));
    w->c = c;
    plait_status status = board(kit, w);
    if (status == PLAIT_OK) status = sink(w);
    if (status == PLAIT_OK) status = look_at(kit, w);
    if (status != PLAIT_OK && w->never) { /* nobody else will wake the thread */
        plait_error_record reason;
        plait_error_save(status, &reason);
        w->device->vtable->event_fail(w->never, &reason);
        status = plait_error_raise(&reason);
    }
    plait_thread_join(&w->thread);
    PLAIT_TRY(status);
    PLAIT_CONF_EXPECT(w->woken == PLAIT_DEVICE_LOST,
                      "a thread that waited for an event was woken with %s, expected %s",
                      plait_status_name(w->woken), plait_status_name(PLAIT_DEVICE_LOST));
    /* Other devices do not mind. */
    plait_buffer *buffer;
    PLAIT_TRY(plait_conf_buffer(kit, c->device, 16, PLAIT_BUFFER_STATE, &buffer));
    plait_command list[] = {plait_conf_fill(buffer, 0, 16, 9), plait_conf_read(buffer, 3, &byte, 1)};
    PLAIT_TRY(plait_conf_do(c->queue, list, 2));
    PLAIT_CONF_EXPECT(byte == 9, "beside a lost device another one reads %d, expected 9", byte);
    return c->v->health(c->device);
}

void plait_conf_life(plait_conf *c) {
    plait_conf_check(c, "life/shutdown", check_shutdown, NULL);
    plait_conf_check(c, "life/leaks-objects", check_objects, NULL);
    plait_conf_check(c, "life/leaks-failures", check_failures, NULL);
    plait_conf_check_kit(c, "life/leaks-programs", program_leaks, NULL);
    plait_conf_check_kit(c, "life/lost", loss, NULL);
}
