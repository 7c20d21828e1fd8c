/* The device with a fault of choice: memory, events, queues. Programs are in faulty_program.c. Where nothing says
 * `broken`, the code is what a device needs, and no more.
 *
 * Invariant: faults break the contract and never memory safety: what is read and written stays inside what was allocated,
 * so that tests run under sanitizers. */
#include "conformance/faulty_inside.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define MEMORY_BYTES ((uint64_t)48 << 20)

enum { ALIGNMENT = 64, SLACK_BYTES = 64, LARGE_BYTES = 64 << 10, FIRST_LISTS = 16 };

static uint64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

void faulty_pause_ms(int ms) {
    struct timespec t = {.tv_nsec = ms * 1000000L};
    nanosleep(&t, NULL);
}

static plait_status no_memory(const char *what) {
    return plait_error_set(PLAIT_OUT_OF_MEMORY, "faulty: no host memory for a %s", what);
}

/* ---- loss ---- */

static plait_status alive(faulty_device *device) {
    plait_error_record loss;
    pthread_mutex_lock(&device->lock);
    loss = device->loss;
    pthread_mutex_unlock(&device->lock);
    return loss.status == PLAIT_OK ? PLAIT_OK : plait_error_raise(&loss);
}

static void fail_event(event *e, const plait_error_record *failure) {
    pthread_mutex_lock(&e->lock);
    if (e->failure.status == PLAIT_OK) e->failure = *failure;
    pthread_cond_broadcast(&e->changed);
    pthread_mutex_unlock(&e->lock);
}

static void fail_queue(queue *q, const plait_error_record *failure) {
    pthread_mutex_lock(&q->lock);
    if (q->failure.status == PLAIT_OK) q->failure = *failure;
    pthread_mutex_unlock(&q->lock);
}

/* Everything that the device has fails, so that nobody waits for ever. */
static void lose(faulty_device *device) {
    plait_error_record loss;
    plait_error_set(PLAIT_DEVICE_LOST, "faulty: lost at command %d, as was asked for", device->n_commands);
    plait_error_save(PLAIT_DEVICE_LOST, &loss);
    pthread_mutex_lock(&device->lock);
    device->loss = loss;
    for (queue *q = device->queues; q; q = q->next) fail_queue(q, &loss);
    for (event *e = device->events; e && !broken(device, LOST_SLEEPERS); e = e->next) fail_event(e, &loss);
    pthread_mutex_unlock(&device->lock);
}

/* ---- the device ---- */

static void faulty_destroy(plait_device *base) {
    faulty_device *device = (faulty_device *)base;
    if (!device) return;
    while (device->kept) {
        kept *next = device->kept->next;
        free(device->kept->memory);
        free(device->kept);
        device->kept = next;
    }
    free(device->scratch);
    pthread_mutex_destroy(&device->lock);
    free(device);
}

/* Memory that a fault gives back when its device goes, and no sooner. */
void faulty_retire(faulty_device *device, void *memory) {
    kept *k = calloc(1, sizeof *k);
    if (!k) return;
    k->memory = memory;
    pthread_mutex_lock(&device->lock);
    k->next = device->kept;
    device->kept = k;
    pthread_mutex_unlock(&device->lock);
}

/* The fault of the device that was made last, for a create that names none: the suite's own with unknown options. */
static _Atomic int last_fault;

static plait_status parse(faulty_device *device, const char *option) {
    static const char *const names[] = {"none",
#define FAULT_NAME(name, option, what, check, message) option,
                                        FAULTS(FAULT_NAME)
#undef FAULT_NAME
    };
    if (strncmp(option, "lose=", 5) == 0) {
        device->lose_at = atoi(option + 5);
        return PLAIT_OK;
    }
    for (size_t i = 0; strncmp(option, "fault=", 6) == 0 && i < sizeof names / sizeof names[0]; i++)
        if (strcmp(option + 6, names[i]) == 0) {
            device->fault = (fault)i;
            last_fault = (int)i;
            return PLAIT_OK;
        }
    if (last_fault == FAULT_OPTIONS_IGNORED) return PLAIT_OK;
    return plait_error_set(PLAIT_INVALID_ARGUMENT, "option \"%.60s\" is unknown; known: fault, lose", option);
}

static plait_status faulty_create(const char *const *options, int n_options, const plait_logger *logger,
                                  plait_device **out) {
    faulty_device *device = calloc(1, sizeof *device);
    (void)logger;
    if (!device) return no_memory("device");
    pthread_mutex_init(&device->lock, NULL);
    memcpy(device->base.name, "faulty", sizeof "faulty");
    device->base.vtable = &faulty_vtable;
    static _Atomic int n_devices;
    device->number = n_devices++;
    for (int i = 0; i < n_options; i++) {
        plait_status status = parse(device, options[i]);
        if (status == PLAIT_OK) continue;
        faulty_destroy(&device->base);
        return status;
    }
    device->scratch = calloc(1, LARGE_BYTES);
    *out = &device->base;
    return PLAIT_OK;
}

static plait_status faulty_memory_query(plait_device *base, uint64_t *out_total, uint64_t *out_free) {
    faulty_device *device = (faulty_device *)base;
    pthread_mutex_lock(&device->lock);
    *out_total = MEMORY_BYTES;
    *out_free = MEMORY_BYTES - device->used_bytes;
    pthread_mutex_unlock(&device->lock);
    return PLAIT_OK;
}

static plait_status faulty_describe(plait_device *base, plait_device_info *out) {
    faulty_device *device = (faulty_device *)base;
    uint64_t total, left;
    faulty_memory_query(base, &total, &left);
    plait_device_info info = {.kind = "faulty",
                              .description = "reference kernels, and a fault of choice",
                              .numeric_class = "reference",
                              .memory_total_bytes = total,
                              .memory_free_bytes = left,
                              .alignment = ALIGNMENT,
                              .max_buffer_bytes = MEMORY_BYTES / 2,
                              .caps = PLAIT_CAP_BOXES | PLAIT_CAP_FOREIGN_WAITS};
    memcpy(info.name, base->name, sizeof info.name);
    if (broken(device, FACTS_CHANGE) && device->n_asked++ % 5 == 4) info.alignment = 2 * ALIGNMENT;
    *out = info;
    return PLAIT_OK;
}

static plait_status faulty_health(plait_device *base) {
    faulty_device *device = (faulty_device *)base;
    return broken(device, LOST_HEALTHY) ? PLAIT_OK : alive(device);
}

static plait_status faulty_time_query(plait_device *base, uint64_t *out_device_ns, uint64_t *out_host_ns) {
    *out_host_ns = now_ns();
    *out_device_ns = broken((faulty_device *)base, CLOCK_STANDS) ? 1 : *out_host_ns / 2;
    return PLAIT_OK;
}

static plait_status faulty_host_alloc(plait_device *base, uint64_t size_bytes, void **out) {
    (void)size_bytes, (void)out;
    if (broken((faulty_device *)base, STUB_WITHOUT_WORDS)) return PLAIT_UNSUPPORTED;
    return plait_error_set(PLAIT_UNSUPPORTED, "faulty offers no pinned memory");
}

/* ---- memory ---- */

static uint64_t padded(uint64_t size_bytes) {
    return (size_bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

static plait_status faulty_allocation_bytes(plait_device *base, uint64_t size_bytes, uint32_t usage,
                                            uint64_t *out_bytes) {
    (void)usage;
    if (size_bytes > UINT64_MAX - ALIGNMENT)
        return plait_error_set(PLAIT_OUT_OF_RANGE, "faulty: a buffer too large");
    *out_bytes = broken((faulty_device *)base, PADDING_HIDDEN) ? size_bytes : padded(size_bytes);
    return PLAIT_OK;
}

static plait_status refuse_buffer(faulty_device *device, uint64_t size_bytes, plait_buffer **out) {
    static plait_buffer nobody;
    if (broken(device, OUTPUT_SET)) *out = &nobody;
    if (broken(device, NO_MESSAGE)) return PLAIT_OUT_OF_MEMORY;
    return plait_error_set(PLAIT_OUT_OF_MEMORY, "faulty: a buffer of %llu bytes, of %llu are %llu used",
                           (unsigned long long)size_bytes, (unsigned long long)MEMORY_BYTES,
                           (unsigned long long)device->used_bytes);
}

/* Takes from the budget; false when there is too little left. */
static bool take(faulty_device *device, uint64_t bytes) {
    pthread_mutex_lock(&device->lock);
    bool fits = bytes <= MEMORY_BYTES - device->used_bytes;
    if (fits) device->used_bytes += bytes;
    pthread_mutex_unlock(&device->lock);
    return fits;
}

/* Memory of a buffer that lives, for faults that share it; NULL where there is none as large. */
static unsigned char *lent(faulty_device *device, uint64_t size_bytes) {
    unsigned char *bytes = NULL;
    pthread_mutex_lock(&device->lock);
    for (buffer *b = device->buffers; b && !bytes; b = b->next)
        if (b->base.size_bytes >= size_bytes && !b->foreign) bytes = b->bytes;
    pthread_mutex_unlock(&device->lock);
    return bytes;
}

static void link_buffer(faulty_device *device, buffer *b) {
    pthread_mutex_lock(&device->lock);
    b->next = device->buffers;
    device->buffers = b;
    pthread_mutex_unlock(&device->lock);
}

/* The memory that a new buffer gets: its own, but for faults. */
static void find_memory(faulty_device *device, buffer *b, uint64_t size_bytes, bool in_budget) {
    bool share = broken(device, SHARED_MEMORY) && ++device->n_buffers % 11 == 0 && size_bytes < LARGE_BYTES;
    if (share || !in_budget) b->bytes = lent(device, size_bytes);
    b->foreign = b->bytes != NULL;
    if (!b->bytes) b->bytes = calloc(1, (size_t)size_bytes + SLACK_BYTES);
}

static plait_status faulty_buffer_create(plait_device *base, uint64_t size_bytes, uint32_t usage,
                                         plait_buffer **out) {
    faulty_device *device = (faulty_device *)base;
    if (!broken(device, LOST_GIVES)) FAULTY_TRY(alive(device));
    if (size_bytes > MEMORY_BYTES / 2) return refuse_buffer(device, size_bytes, out);
    bool in_budget = take(device, padded(size_bytes));
    if (!in_budget && !broken(device, BAD_BUFFER)) return refuse_buffer(device, size_bytes, out);
    buffer *b = calloc(1, sizeof *b);
    if (!b) return no_memory("buffer");
    find_memory(device, b, size_bytes, in_budget);
    if (!b->bytes) {
        free(b);
        return no_memory("buffer");
    }
    b->base = (plait_buffer){.device = base, .size_bytes = size_bytes, .usage = usage};
    b->taken = in_budget ? padded(size_bytes) : 0;
    if (usage == PLAIT_BUFFER_STAGING && !broken(device, UNMAPPED_STAGING)) b->base.host = b->bytes;
    if (usage != PLAIT_BUFFER_STAGING && broken(device, FALSE_MAPPING))
        b->base.host = b->other = calloc(1, (size_t)size_bytes + 1);
    link_buffer(device, b);
    *out = &b->base;
    return PLAIT_OK;
}

static plait_status faulty_buffer_import(plait_device *base, void *host, uint64_t size_bytes, uint32_t usage,
                                         plait_buffer **out) {
    faulty_device *device = (faulty_device *)base;
    buffer *b = calloc(1, sizeof *b);
    if (!b) return no_memory("buffer");
    b->base = (plait_buffer){.device = base, .size_bytes = size_bytes, .usage = usage, .host = host};
    b->foreign = !broken(device, IMPORT_COPIES);
    b->bytes = b->foreign ? host : calloc(1, (size_t)size_bytes + SLACK_BYTES);
    if (!b->foreign && b->bytes) memcpy(b->bytes, host, (size_t)size_bytes);
    link_buffer(device, b);
    *out = &b->base;
    return PLAIT_OK;
}

static void faulty_buffer_destroy(plait_buffer *base) {
    buffer *b = (buffer *)base;
    if (!b) return;
    faulty_device *device = (faulty_device *)base->device;
    pthread_mutex_lock(&device->lock);
    buffer **link = &device->buffers;
    while (*link != b) link = &(*link)->next;
    *link = b->next;
    if (!broken(device, MEMORY_LOST)) device->used_bytes -= b->taken;
    pthread_mutex_unlock(&device->lock);
    /* What may be lent to others stays until the device goes. */
    if (!b->foreign && (broken(device, SHARED_MEMORY) || broken(device, BAD_BUFFER)))
        faulty_retire(device, b->bytes);
    else if (!b->foreign)
        free(b->bytes);
    free(b->other);
    free(b);
}

/* A device reaches every other one of its kind. */
static bool faulty_reaches(plait_device *base, plait_device *other) {
    return strcmp(base->vtable->kind, other->vtable->kind) == 0 ||
           broken((faulty_device *)base, REACHES_LIES);
}

/* ---- events ---- */

static plait_status faulty_event_create(plait_device *base, plait_event **out) {
    faulty_device *device = (faulty_device *)base;
    pthread_condattr_t monotonic;
    event *e = calloc(1, sizeof *e);
    if (!e) return no_memory("event");
    e->base.device = base;
    pthread_mutex_init(&e->lock, NULL);
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&e->changed, &monotonic);
    pthread_condattr_destroy(&monotonic);
    pthread_mutex_lock(&device->lock);
    e->next = device->events;
    device->events = e;
    e->failure = device->loss;
    pthread_mutex_unlock(&device->lock);
    *out = &e->base;
    return PLAIT_OK;
}

static void faulty_event_destroy(plait_event *base) {
    event *e = (event *)base;
    if (!e) return;
    faulty_device *device = (faulty_device *)base->device;
    pthread_mutex_lock(&device->lock);
    event **link = &device->events;
    while (*link != e) link = &(*link)->next;
    *link = e->next;
    pthread_mutex_unlock(&device->lock);
    pthread_mutex_lock(&e->lock); /* a signaller may be on its way out */
    pthread_mutex_unlock(&e->lock);
    pthread_cond_destroy(&e->changed);
    pthread_mutex_destroy(&e->lock);
    free(e);
    if (broken(device, LEAK_OBJECT)) faulty_retire(device, malloc(32));
}

static plait_status faulty_event_query(plait_event *base, uint64_t *out_value) {
    event *e = (event *)base;
    plait_status status = PLAIT_OK;
    pthread_mutex_lock(&e->lock);
    /* Only here: who waits, queues among them, may come late. */
    bool forgotten = broken((faulty_device *)base->device, FAILURE_FORGOTTEN) && e->told;
    if (e->failure.status != PLAIT_OK && !forgotten) {
        e->told = true;
        status = plait_error_raise(&e->failure);
    } else {
        *out_value = e->value;
    }
    pthread_mutex_unlock(&e->lock);
    return status;
}

/* With the lock held. */
static plait_status wait_locked(event *e, uint64_t value, uint64_t timeout_ns) {
    uint64_t begin = now_ns();
    while (e->value < value && e->failure.status == PLAIT_OK) {
        uint64_t passed = now_ns() - begin;
        if (passed >= timeout_ns)
            return broken((faulty_device *)e->base.device, TIMEOUT_OK)
                       ? PLAIT_OK
                       : plait_error_set(PLAIT_TIMEOUT, "faulty: an event is at %llu, expected %llu",
                                         (unsigned long long)e->value, (unsigned long long)value);
        uint64_t slice = timeout_ns - passed < 1000000000u ? timeout_ns - passed : 1000000000u,
                 end = now_ns() + slice;
        struct timespec until = {.tv_sec = (time_t)(end / 1000000000u), .tv_nsec = (long)(end % 1000000000u)};
        pthread_cond_timedwait(&e->changed, &e->lock, &until);
    }
    return e->value >= value ? PLAIT_OK : plait_error_raise(&e->failure);
}

static plait_status faulty_event_wait(plait_event *base, uint64_t value, uint64_t timeout_ns) {
    event *e = (event *)base;
    pthread_mutex_lock(&e->lock);
    plait_status status = wait_locked(e, value, timeout_ns);
    pthread_mutex_unlock(&e->lock);
    return status;
}

static void reach(event *e, uint64_t value) {
    pthread_mutex_lock(&e->lock);
    if (value > e->value || broken((faulty_device *)e->base.device, BACKWARDS)) e->value = value;
    pthread_cond_broadcast(&e->changed);
    pthread_mutex_unlock(&e->lock);
}

static plait_status faulty_event_signal(plait_event *base, uint64_t value) {
    event *e = (event *)base;
    if (broken((faulty_device *)base->device, DEAF_QUEUE)) e->by_host = value;
    reach(e, value);
    return PLAIT_OK;
}

static void faulty_event_fail(plait_event *base, const plait_error_record *failure) {
    fail_event((event *)base, failure);
}

/* ---- commands ---- */

/* Bytes of a region, which must hold `n`; or the failure. */
static plait_status find_bytes(queue *q, const plait_region *region, uint64_t n, unsigned char **out) {
    buffer *b = (buffer *)region->buffer;
    faulty_device *device = (faulty_device *)q->base.device;
    if (!b) return plait_error_set(PLAIT_INVALID_ARGUMENT, "faulty: a region without a buffer");
    if (strcmp(b->base.device->vtable->kind, q->base.device->vtable->kind) != 0)
        return plait_error_set(PLAIT_UNSUPPORTED, "faulty does not reach the memory of %s",
                               b->base.device->name);
    bool inside = n <= region->size_bytes && region->offset <= b->base.size_bytes &&
                  n <= b->base.size_bytes - region->offset;
    if (!inside)
        return plait_error_set(
            PLAIT_OUT_OF_RANGE, "faulty: bytes [%llu, +%llu) of a region of %llu in a buffer of %llu",
            (unsigned long long)region->offset, (unsigned long long)n, (unsigned long long)region->size_bytes,
            (unsigned long long)b->base.size_bytes);
    *out = b->bytes + region->offset;
    (void)device;
    return PLAIT_OK;
}

/* How much of `n` bytes from the region's start its buffer has. */
static uint64_t that_fit(const plait_region *region, uint64_t n) {
    uint64_t size = region->buffer->size_bytes;
    uint64_t left = region->offset < size ? size - region->offset : 0;
    return n < left ? n : left;
}

static uint64_t span_of(faulty_device *device, const plait_box *box, uint64_t row_pitch,
                        uint64_t plane_pitch) {
    uint64_t span = plait_box_span(box, row_pitch, plane_pitch);
    if (!broken(device, BOX_OVERFLOW) || span != UINT64_MAX) return span;
    return (uint32_t)((box->n_rows - 1) * row_pitch + (box->n_planes - 1) * plane_pitch + box->row_bytes) %
           16;
}

/* Rows that leave what was checked are left out, whatever a fault makes of the pitches. */
static void move_box(faulty_device *device, unsigned char *to, const unsigned char *from,
                     const plait_box *box) {
    uint64_t from_span = plait_box_span(box, box->source_row_pitch, box->source_plane_pitch);
    uint64_t to_span = plait_box_span(box, box->target_row_pitch, box->target_plane_pitch);
    if (from_span == UINT64_MAX || to_span == UINT64_MAX) return;
    bool swap = broken(device, SWAPPED_PITCHES), flat = broken(device, PLANE_PITCH);
    uint64_t from_row = swap ? box->target_row_pitch : box->source_row_pitch;
    uint64_t to_row = swap ? box->source_row_pitch : box->target_row_pitch;
    uint64_t from_plane = flat ? box->n_rows * from_row : box->source_plane_pitch;
    uint64_t to_plane = flat ? box->n_rows * to_row : box->target_plane_pitch;
    for (uint64_t p = 0; p < box->n_planes; p++)
        for (uint64_t r = 0; r < box->n_rows; r++) {
            uint64_t a = p * from_plane + r * from_row, b = p * to_plane + r * to_row;
            if (a + box->row_bytes <= from_span && b + box->row_bytes <= to_span)
                memmove(to + b, from + a, (size_t)box->row_bytes);
        }
}

static uint64_t size_of(faulty_device *device, const uint64_t *pointer, uint64_t all) {
    if (!pointer || (broken(device, NOTHING_MOVES) && *pointer == 0)) return all;
    return *pointer;
}

/* A read whose second half comes later, for a fault; at most one at a time. */
static void postpone(queue *q, unsigned char *to, const unsigned char *from, uint64_t n) {
    q->late_to = to;
    q->late_from = from;
    q->late_bytes = n;
}

static void catch_up(queue *q) {
    if (!q->late_bytes) return;
    faulty_pause_ms(30);
    memcpy(q->late_to, q->late_from, (size_t)q->late_bytes);
    q->late_bytes = 0;
}

static plait_status write_bytes(queue *q, const plait_command *c) {
    faulty_device *device = (faulty_device *)q->base.device;
    const plait_box *box = c->transfer.box;
    uint64_t n = size_of(device, c->transfer.size_bytes, c->transfer.region.size_bytes);
    unsigned char *bytes;
    if (box) n = span_of(device, box, box->target_row_pitch, box->target_plane_pitch);
    plait_status status = find_bytes(q, &c->transfer.region, n, &bytes);
    if (status == PLAIT_OUT_OF_RANGE && !box && broken(device, RANGE_PARTLY)) {
        uint64_t part = that_fit(&c->transfer.region, n);
        memcpy(((buffer *)c->transfer.region.buffer)->bytes + c->transfer.region.offset, c->transfer.host,
               (size_t)part);
    }
    FAULTY_TRY(status);
    if (box)
        move_box(device, bytes, c->transfer.host, box);
    else if (n)
        memcpy(bytes, c->transfer.host, (size_t)n);
    if (broken(device, WRITE_PAST) && n &&
        c->transfer.region.offset + n < c->transfer.region.buffer->size_bytes)
        bytes[n] = 0;
    return PLAIT_OK;
}

static plait_status read_bytes(queue *q, const plait_command *c) {
    faulty_device *device = (faulty_device *)q->base.device;
    const plait_box *box = c->transfer.box;
    uint64_t n = size_of(device, c->transfer.size_bytes, c->transfer.region.size_bytes);
    unsigned char *bytes, *host = c->transfer.host;
    if (box) n = span_of(device, box, box->source_row_pitch, box->source_plane_pitch);
    FAULTY_TRY(find_bytes(q, &c->transfer.region, n, &bytes));
    if (broken(device, REGION_OFFSET) && !box) bytes = ((buffer *)c->transfer.region.buffer)->bytes;
    if (box) {
        move_box(device, host, bytes, box);
    } else if (n >= LARGE_BYTES && broken(device, EARLY_READ)) {
        memcpy(host, bytes, (size_t)(n / 2));
        postpone(q, host + n / 2, bytes + n / 2, n - n / 2);
    } else if (n) {
        memcpy(host, bytes, (size_t)n);
        /* Of a size for which the suite's host memory goes on. */
        if (broken(device, READ_PAST) && n == 127) host[n] = 0;
    }
    return PLAIT_OK;
}

static plait_status copy_bytes(queue *q, const plait_command *c) {
    faulty_device *device = (faulty_device *)q->base.device;
    const plait_box *box = c->copy.box;
    uint64_t n = size_of(device, c->copy.size_bytes, c->copy.source.size_bytes), m = n;
    unsigned char *from, *to;
    if (box) {
        n = span_of(device, box, box->source_row_pitch, box->source_plane_pitch);
        m = span_of(device, box, box->target_row_pitch, box->target_plane_pitch);
    }
    FAULTY_TRY(find_bytes(q, &c->copy.source, n, &from));
    FAULTY_TRY(find_bytes(q, &c->copy.target, m, &to));
    if (broken(device, LOST_COPY) && ++device->n_copies % 7 == 0) return PLAIT_OK;
    if (broken(device, PEER_COPY) && c->copy.target.buffer->device != q->base.device)
        to = from; /* into the own memory */
    if (box)
        move_box(device, to, from, box);
    else if (n >= LARGE_BYTES && broken(device, OUT_OF_ORDER))
        postpone(q, to, from, n);
    else if (n)
        memmove(to, from, (size_t)(broken(device, SHORT_COPY) && n > 64 ? n - 1 : n));
    return PLAIT_OK;
}

static plait_status fill_bytes(queue *q, const plait_command *c) {
    unsigned char *bytes;
    uint64_t n = c->fill.region.size_bytes;
    FAULTY_TRY(find_bytes(q, &c->fill.region, n, &bytes));
    if (broken((faulty_device *)q->base.device, FILL_TAIL)) n = n / 8 * 8;
    if (n) memset(bytes, c->fill.byte, (size_t)n);
    return PLAIT_OK;
}

static plait_status signal_event(queue *q, const plait_command *c) {
    faulty_device *device = (faulty_device *)q->base.device;
    plait_event *e = c->signal.event;
    if (broken(device, LOST_SIGNAL) && ++device->n_signals % 50 == 0) return PLAIT_OK;
    if (strcmp(e->device->vtable->kind, "faulty") != 0)
        return e->device->vtable->event_signal(e, *c->signal.value);
    reach((event *)e, *c->signal.value);
    catch_up(q);
    return PLAIT_OK;
}

/* For a fault: a value that the host gave is not enough, as long as the event does not fail. */
static plait_status do_not_hear(event *e, uint64_t value) {
    plait_status status = PLAIT_OK;
    while (e->by_host >= value && status == PLAIT_OK) {
        faulty_pause_ms(1);
        pthread_mutex_lock(&e->lock);
        if (e->failure.status != PLAIT_OK) status = plait_error_raise(&e->failure);
        pthread_mutex_unlock(&e->lock);
    }
    return status;
}

static plait_status wait_event(queue *q, const plait_command *c) {
    faulty_device *device = (faulty_device *)q->base.device;
    plait_event *e = c->wait.event;
    if (broken(device, FOREIGN_WAIT) && e->device != q->base.device) return PLAIT_OK;
    FAULTY_TRY(e->device->vtable->event_wait(e, *c->wait.value, UINT64_MAX));
    if (broken(device, DEAF_QUEUE) && e->device == q->base.device)
        return do_not_hear((event *)e, *c->wait.value);
    return PLAIT_OK;
}

static plait_status execute_one(queue *q, const plait_command *c) {
    faulty_device *device = (faulty_device *)q->base.device;
    pthread_mutex_lock(&device->lock);
    bool last = ++device->n_commands == device->lose_at;
    pthread_mutex_unlock(&device->lock);
    if (last) lose(device);
    FAULTY_TRY(alive(device));
    switch (c->kind) {
    case PLAIT_COMMAND_WRITE: return write_bytes(q, c);
    case PLAIT_COMMAND_READ: return read_bytes(q, c);
    case PLAIT_COMMAND_COPY: return copy_bytes(q, c);
    case PLAIT_COMMAND_FILL: return fill_bytes(q, c);
    case PLAIT_COMMAND_LAUNCH: return faulty_launch(device, c);
    case PLAIT_COMMAND_SIGNAL: return signal_event(q, c);
    case PLAIT_COMMAND_WAIT: return wait_event(q, c);
    }
    return plait_error_set(PLAIT_INVALID_ARGUMENT, "faulty: command kind %d", (int)c->kind);
}

/* ---- lists ---- */

static plait_status failure_of(queue *q, plait_error_record *out) {
    pthread_mutex_lock(&q->lock);
    *out = q->failure;
    pthread_mutex_unlock(&q->lock);
    return out->status;
}

/* One command of a list; a failure is the queue's, and of every event that would have been signalled behind it. */
static void run_command(queue *q, const plait_command *c) {
    faulty_device *device = (faulty_device *)q->base.device;
    plait_error_record failure;
    if (failure_of(q, &failure) != PLAIT_OK && !broken(device, FAILED_GOES_ON)) {
        if (c->kind == PLAIT_COMMAND_SIGNAL)
            c->signal.event->device->vtable->event_fail(c->signal.event, &failure);
        return;
    }
    plait_status status = execute_one(q, c);
    bool hidden =
        broken(device, STATUS_SWALLOWED) || (status == PLAIT_OUT_OF_RANGE && broken(device, RANGE_CLAMPED));
    if (status == PLAIT_OK || hidden) return;
    if (broken(device, LEAK_FAILURE)) faulty_retire(device, malloc(32));
    plait_error_save(status, &failure);
    fail_queue(q, &failure);
}

static bool is_plain(const plait_command *c) {
    return c->kind != PLAIT_COMMAND_SIGNAL && c->kind != PLAIT_COMMAND_WAIT;
}

static void run_list(queue *q, const list *l) {
    faulty_device *device = (faulty_device *)q->base.device;
    for (int i = 0; i < l->n; i++) {
        const plait_command *c = &l->commands[i];
        bool overtakes =
            c->kind == PLAIT_COMMAND_WAIT && i + 1 < l->n && is_plain(c + 1) && broken(device, OVER_WAIT);
        if (c->kind == PLAIT_COMMAND_SIGNAL && (broken(device, LATE_EVENT) || broken(device, EARLY_EVENT)))
            continue;
        if (overtakes) run_command(q, c + 1);
        run_command(q, c);
        i += overtakes;
    }
    for (int i = 0; i < l->n && broken(device, LATE_EVENT); i++)
        if (l->commands[i].kind == PLAIT_COMMAND_SIGNAL) run_command(q, &l->commands[i]);
    if (l->own) free((void *)(uintptr_t)l->commands);
    free(l->sizes);
}

static void *queue_main(void *argument) {
    queue *q = argument;
    pthread_mutex_lock(&q->lock);
    for (;;) {
        while (q->done == q->submitted && !q->stop) pthread_cond_wait(&q->changed, &q->lock);
        if (q->done == q->submitted) break;
        list l = q->lists[q->done % q->capacity];
        bool drop = false;
        pthread_mutex_unlock(&q->lock);
        if (broken((faulty_device *)q->base.device, DESTROY_DROPS)) {
            faulty_pause_ms(20); /* in no hurry, so that there is something to forget */
            pthread_mutex_lock(&q->lock);
            drop = q->stop;
            pthread_mutex_unlock(&q->lock);
        }
        if (!drop) run_list(q, &l);
        pthread_mutex_lock(&q->lock);
        if (q->done + 1 == q->submitted) {
            pthread_mutex_unlock(&q->lock);
            catch_up(q);
            pthread_mutex_lock(&q->lock);
        }
        q->done++;
        pthread_cond_broadcast(&q->changed);
    }
    pthread_mutex_unlock(&q->lock);
    return NULL;
}

/* With the lock held: room for one more list. */
static plait_status make_room(queue *q) {
    if (q->submitted - q->done < q->capacity) return PLAIT_OK;
    size_t capacity = q->capacity ? 2 * q->capacity : FIRST_LISTS;
    list *lists = calloc(capacity, sizeof *lists);
    if (!lists) return no_memory("list");
    for (uint64_t i = q->done; i != q->submitted; i++) lists[i % capacity] = q->lists[i % q->capacity];
    free(q->lists);
    q->lists = lists;
    q->capacity = capacity;
    return PLAIT_OK;
}

/* For a fault: the list with the sizes that its pointers show now. */
static list with_sizes(const plait_command *commands, int n) {
    plait_command *own = calloc((size_t)n + 1, sizeof *own);
    uint64_t *sizes = calloc((size_t)n + 1, sizeof *sizes);
    memcpy(own, commands, (size_t)n * sizeof *own);
    for (int i = 0; i < n; i++) {
        bool transfer = own[i].kind == PLAIT_COMMAND_WRITE || own[i].kind == PLAIT_COMMAND_READ;
        const uint64_t **pointer = transfer ? &own[i].transfer.size_bytes : &own[i].copy.size_bytes;
        if ((!transfer && own[i].kind != PLAIT_COMMAND_COPY) || !*pointer) continue;
        sizes[i] = **pointer;
        *pointer = &sizes[i];
    }
    return (list){.commands = own, .n = n, .own = true, .sizes = sizes};
}

static plait_status faulty_submit(plait_queue *base, const plait_command *commands, int n) {
    queue *q = (queue *)base;
    faulty_device *device = (faulty_device *)base->device;
    list l = broken(device, SIZE_AT_SUBMIT) ? with_sizes(commands, n) : (list){.commands = commands, .n = n};
    for (int i = 0; i < n && broken(device, EARLY_EVENT); i++)
        if (commands[i].kind == PLAIT_COMMAND_SIGNAL) signal_event(q, &commands[i]);
    if (q->runs_inline) {
        run_list(q, &l);
        catch_up(q);
        return PLAIT_OK;
    }
    pthread_mutex_lock(&q->lock);
    plait_status status = make_room(q);
    if (status == PLAIT_OK) q->lists[q->submitted++ % q->capacity] = l;
    uint64_t mine = q->submitted;
    pthread_cond_broadcast(&q->changed);
    while (broken(device, SUBMIT_BLOCKS) && q->done < mine) pthread_cond_wait(&q->changed, &q->lock);
    pthread_mutex_unlock(&q->lock);
    return status;
}

static plait_status faulty_synchronise(plait_queue *base) {
    queue *q = (queue *)base;
    plait_status status = PLAIT_OK;
    pthread_mutex_lock(&q->lock);
    uint64_t wanted = q->submitted;
    while (q->done < wanted) pthread_cond_wait(&q->changed, &q->lock);
    if (q->failure.status != PLAIT_OK) status = plait_error_raise(&q->failure);
    if (broken((faulty_device *)base->device, QUEUE_RECOVERS)) q->failure.status = PLAIT_OK;
    pthread_mutex_unlock(&q->lock);
    return status;
}

static void faulty_queue_destroy(plait_queue *base) {
    queue *q = (queue *)base;
    if (!q) return;
    faulty_device *device = (faulty_device *)base->device;
    pthread_mutex_lock(&q->lock);
    q->stop = true;
    pthread_cond_broadcast(&q->changed);
    pthread_mutex_unlock(&q->lock);
    if (!q->runs_inline) pthread_join(q->thread, NULL);
    pthread_mutex_lock(&device->lock);
    queue **link = &device->queues;
    while (*link != q) link = &(*link)->next;
    *link = q->next;
    device->n_queues--;
    pthread_mutex_unlock(&device->lock);
    pthread_cond_destroy(&q->changed);
    pthread_mutex_destroy(&q->lock);
    free(q->lists);
    free(q);
}

static plait_status faulty_queue_create(plait_device *base, uint32_t flags, plait_queue **out) {
    faulty_device *device = (faulty_device *)base;
    FAULTY_TRY(alive(device));
    if (broken(device, FEW_QUEUES) && device->n_queues == 5)
        return plait_error_set(PLAIT_LIMIT, "faulty: there are 5 queues already");
    queue *q = calloc(1, sizeof *q);
    if (!q) return no_memory("queue");
    q->base.device = base;
    q->runs_inline = (flags & PLAIT_QUEUE_INLINE) != 0;
    pthread_mutex_init(&q->lock, NULL);
    pthread_cond_init(&q->changed, NULL);
    pthread_mutex_lock(&device->lock);
    q->next = device->queues;
    device->queues = q;
    device->n_queues++;
    pthread_mutex_unlock(&device->lock);
    if (!q->runs_inline && pthread_create(&q->thread, NULL, queue_main, q) != 0) {
        q->runs_inline = true;
        faulty_queue_destroy(&q->base);
        return no_memory("thread");
    }
    *out = &q->base;
    return PLAIT_OK;
}

const plait_device_vtable faulty_vtable = {
    .version = PLAIT_DEVICE_VERSION,
    .struct_bytes = sizeof(plait_device_vtable),
    .sizes = PLAIT_DEVICE_SIZES,
    .kind = "faulty",
    .doc = "reference kernels, and a fault of choice",
    .create = faulty_create,
    .destroy = faulty_destroy,
    .describe = faulty_describe,
    .health = faulty_health,
    .buffer_create = faulty_buffer_create,
    .buffer_destroy = faulty_buffer_destroy,
    .event_create = faulty_event_create,
    .event_destroy = faulty_event_destroy,
    .event_query = faulty_event_query,
    .event_wait = faulty_event_wait,
    .event_signal = faulty_event_signal,
    .event_fail = faulty_event_fail,
    .queue_create = faulty_queue_create,
    .queue_destroy = faulty_queue_destroy,
    .submit = faulty_submit,
    .synchronise = faulty_synchronise,
    .supports = faulty_supports,
    .prepare = faulty_prepare,
    .prepared_destroy = faulty_prepared_destroy,
    .compile = faulty_compile,
    .program_destroy = faulty_program_destroy,
    .buffer_import = faulty_buffer_import,
    .allocation_bytes = faulty_allocation_bytes,
    .memory_query = faulty_memory_query,
    .reaches = faulty_reaches,
    .host_alloc = faulty_host_alloc,
    .time_query = faulty_time_query,
};
