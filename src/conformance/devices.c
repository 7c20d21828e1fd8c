/* The device itself: facts that stay, options, health, objects that are no objects, several devices of a kind at once,
 * and the small optional slots. Not here: memory figures (memory.c), two devices that work together (peers.c), loss
 * (life.c).
 *
 * Invariant: checks need no more of a device than its must-haves; what else they ask for may be lacking. */
#include "base/os.h"
#include "base/size.h"
#include "conformance/kit.h"

#include <string.h>

/* BYTES is no multiple of anything: the last bytes of a transfer are moved by other code than the first. */
enum { N_THREADS = 4, N_DEVICES = 3, ROUNDS = 20, BYTES = 777 };

/* ---- facts ---- */

/* Texts of describe are arrays; one without an end makes every printf read on. */
static bool ends_within(const char *text, size_t bytes) {
    return memchr(text, '\0', bytes) != NULL;
}

/* What planners compute with: an alignment that is no power of two, or more free bytes than there are, would lead them
 * astray. */
static plait_status facts_make_sense(const plait_conf *c, const plait_device_info *info) {
    const uint32_t known = PLAIT_CAP_MAPPED | PLAIT_CAP_BOXES | PLAIT_CAP_FOREIGN_WAITS;
    PLAIT_CONF_EXPECT(ends_within(info->kind, sizeof info->kind) &&
                          ends_within(info->name, sizeof info->name) &&
                          ends_within(info->description, sizeof info->description) &&
                          ends_within(info->numeric_class, sizeof info->numeric_class),
                      "describe: a text has no end");
    PLAIT_CONF_EXPECT(strcmp(info->kind, c->v->kind) == 0, "describe: kind is \"%s\", expected \"%s\"",
                      info->kind, c->v->kind);
    PLAIT_CONF_EXPECT(info->numeric_class[0], "describe: the numeric class is empty");
    PLAIT_CONF_EXPECT(plait_is_power_of_two(info->alignment),
                      "describe: alignment is %llu, expected a power of two",
                      (unsigned long long)info->alignment);
    PLAIT_CONF_EXPECT(info->memory_free_bytes <= info->memory_total_bytes,
                      "describe: %llu bytes are free of %llu", (unsigned long long)info->memory_free_bytes,
                      (unsigned long long)info->memory_total_bytes);
    PLAIT_CONF_EXPECT(info->max_buffer_bytes > 0 && info->max_buffer_bytes <= info->memory_total_bytes,
                      "describe: the largest buffer has %llu bytes, expected 1 to all %llu",
                      (unsigned long long)info->max_buffer_bytes,
                      (unsigned long long)info->memory_total_bytes);
    PLAIT_CONF_EXPECT(!(info->caps & ~known), "describe: caps has unknown bits: %#x", info->caps);
    PLAIT_CONF_EXPECT(info->n_copy_queues >= 0 && info->n_threads >= 0,
                      "describe: %d copy queues, %d threads", info->n_copy_queues, info->n_threads);
    return PLAIT_OK;
}

/* The struct is filled with rubbish first, so that a field that describe leaves alone shows as a change. Free memory is
 * the one fact that may move. Texts are compared up to their NUL, so rubbish behind it does not count. */
static plait_status facts_stay(const plait_conf *c, const plait_device_info *first) {
    plait_device_info again;
    memset(&again, 0xEE, sizeof again);
    PLAIT_TRY(c->v->describe(c->device, &again));
    PLAIT_TRY(c->v->health(c->device));
    PLAIT_CONF_EXPECT(strcmp(again.kind, first->kind) == 0 && strcmp(again.name, first->name) == 0 &&
                          strcmp(again.description, first->description) == 0 &&
                          strcmp(again.numeric_class, first->numeric_class) == 0,
                      "describe: texts have changed");
    PLAIT_CONF_EXPECT(
        again.memory_total_bytes == first->memory_total_bytes && again.alignment == first->alignment &&
            again.max_buffer_bytes == first->max_buffer_bytes && again.caps == first->caps &&
            again.n_threads == first->n_threads && again.unified_memory == first->unified_memory &&
            again.n_copy_queues == first->n_copy_queues,
        "describe: numbers have changed that must not");
    return PLAIT_OK;
}

/* Of several threads at once: describe and health may be called by any thread at any time. */
static plait_status ask_often(void *user, int index) {
    const plait_conf *c = user;
    (void)index;
    for (int i = 0; i < ROUNDS; i++) PLAIT_TRY(facts_stay(c, &c->info));
    return PLAIT_OK;
}

/* Asked here, then by several threads at once: describe may be called by any, and gives them the same. */
static plait_status check_facts(plait_conf *c, void *user) {
    (void)user;
    PLAIT_TRY(facts_make_sense(c, &c->info));
    PLAIT_TRY(facts_stay(c, &c->info));
    return plait_conf_parallel(N_THREADS, ask_often, c);
}

/* ---- options ---- */

/* create is called directly, past the registry: the kind itself must refuse. Where it made a device after all, that one
 * is destroyed before the failure is told. The output holds a pointer that create cannot have made, by which a write
 * into it shows. */
static plait_status check_options(plait_conf *c, void *user) {
    const char *const bad[] = {"no-such-key=1"};
    plait_device *device = c->device;
    (void)user;
    plait_conf_forget_message();
    plait_status status = c->v->create(bad, 1, NULL, &device);
    if (status == PLAIT_OK) c->v->destroy(device);
    PLAIT_CONF_EXPECT(device == c->device || status == PLAIT_OK, "a failed create has set its output");
    PLAIT_TRY(plait_conf_failed(status, PLAIT_INVALID_ARGUMENT, "create with the option \"no-such-key=1\""));
    PLAIT_CONF_EXPECT(strstr(plait_error_message(), "no-such-key"),
                      "the message does not name the option: %.200s", plait_error_message());
    return PLAIT_OK;
}

/* ---- objects that are none ---- */

/* Destroying nothing is allowed: constructors that fail halfway rely on it. A zeroed `prepared` is what such a
 * constructor has. */
static plait_status check_null(plait_conf *c, void *user) {
    plait_prepared prepared = {0};
    (void)user;
    c->v->destroy(NULL);
    c->v->buffer_destroy(NULL);
    c->v->event_destroy(NULL);
    c->v->queue_destroy(NULL);
    c->v->program_destroy(c->device, NULL);
    c->v->prepared_destroy(c->device, &prepared);
    c->v->host_free(c->device, NULL);
    return PLAIT_OK;
}

/* ---- several devices ---- */

/* Work on a device of one's own: bytes go in, around and out. A write, a copy within the buffer and a read in one list,
 * again and again: enough to find devices of one kind that share something they should not. Everything is destroyed in
 * the order of the contract, whatever happens. Called on several threads, each with a device of its own; needs nothing
 * of the kit, which is no thread's but the check's. */
static plait_status use_device(plait_device *device, uint32_t seed) {
    const plait_device_vtable *v = device->vtable;
    unsigned char in[BYTES], out[BYTES] = {0};
    plait_queue *queue = NULL;
    plait_buffer *buffer = NULL;
    plait_conf_pattern(in, sizeof in, seed);
    plait_status status = v->queue_create(device, 0, &queue);
    if (status == PLAIT_OK)
        status = v->buffer_create(device, (uint64_t)2 * BYTES, PLAIT_BUFFER_STATE, &buffer);
    if (status == PLAIT_OK) {
        plait_command list[] = {plait_conf_write(buffer, 0, in, BYTES),
                                plait_conf_copy(buffer, 0, buffer, BYTES, BYTES),
                                plait_conf_read(buffer, BYTES, out, BYTES)};
        for (int i = 0; i < ROUNDS && status == PLAIT_OK; i++) {
            memset(out, 0, sizeof out);
            status = plait_conf_do(queue, list, 3);
            if (status == PLAIT_OK)
                status = plait_conf_same(out, in, BYTES, "bytes that went through a device");
        }
    }
    if (queue) v->queue_destroy(queue);
    if (buffer) v->buffer_destroy(buffer);
    return status;
}

static plait_status use_one_of(void *user, int index) {
    plait_device **devices = user;
    return use_device(devices[index], (uint32_t)index + 1);
}

/* Each on a thread of its own. Then one goes while the others stay, the suite's among them. */
static plait_status several(plait_conf *c, plait_conf_kit *kit, const void *user) {
    plait_device *devices[N_DEVICES];
    (void)user;
    for (int i = 0; i < N_DEVICES; i++) {
        PLAIT_TRY(plait_conf_device(kit, c->item, &devices[i]));
        for (int k = 0; k < i; k++)
            PLAIT_CONF_EXPECT(devices[k] != devices[i], "two creates have given one device");
    }
    PLAIT_TRY(plait_conf_parallel(N_DEVICES, use_one_of, devices));
    /* The others do not mind that one is gone. */
    plait_conf_drop_device(kit, devices[0]);
    for (int i = 1; i < N_DEVICES; i++) PLAIT_TRY(use_device(devices[i], 9));
    return use_device(c->device, 10);
}

/* ---- small optional slots ---- */

/* Outputs begin with a number that no clock shows, which a refusal must leave. The host's time must be of the call
 * itself, or traces of two clocks cannot be laid together. Two readings two milliseconds apart: a clock that ticks more
 * coarsely than that serves no trace. */
static plait_status check_clock(plait_conf *c, void *user) {
    uint64_t device[2] = {7, 7}, host[2] = {7, 7};
    (void)user;
    plait_conf_forget_message();
    for (int i = 0; i < 2; i++) {
        uint64_t before = plait_time_ns();
        plait_status status = c->v->time_query(c->device, &device[i], &host[i]);
        if (status == PLAIT_UNSUPPORTED)
            PLAIT_CONF_EXPECT(device[0] == 7 && host[0] == 7, "a refused time_query has set its output");
        PLAIT_TRY(plait_conf_optional(c, status, "time_query"));
        PLAIT_CONF_EXPECT(host[i] >= before && host[i] <= plait_time_ns(),
                          "time_query: the host's time %llu is not between %llu and now",
                          (unsigned long long)host[i], (unsigned long long)before);
        plait_conf_sleep_ns(2000000);
    }
    PLAIT_CONF_EXPECT(device[1] > device[0], "time_query: the device's clock went from %llu to %llu in 2 ms",
                      (unsigned long long)device[0], (unsigned long long)device[1]);
    return PLAIT_OK;
}

/* A name is copied: the text is overwritten before the objects are used again. Only the first call may be refused as a
 * whole slot. */
static plait_status names(plait_conf *c, plait_conf_kit *kit, const void *user) {
    plait_buffer *buffer;
    plait_event *event;
    plait_queue *queue;
    char name[] = "a name that is gone after the call";
    (void)user;
    PLAIT_TRY(plait_conf_buffer(kit, c->device, 16, PLAIT_BUFFER_STATE, &buffer));
    PLAIT_TRY(plait_conf_event(kit, c->device, &event));
    PLAIT_TRY(plait_conf_queue(kit, c->device, 0, &queue));
    plait_conf_forget_message();
    plait_status status = c->v->name_object(c->device, PLAIT_OBJECT_BUFFER, buffer, name);
    PLAIT_TRY(plait_conf_optional(c, status, "name_object"));
    PLAIT_TRY(c->v->name_object(c->device, PLAIT_OBJECT_EVENT, event, name));
    PLAIT_TRY(c->v->name_object(c->device, PLAIT_OBJECT_QUEUE, queue, name));
    memset(name, 0, sizeof name);
    plait_command fill = plait_conf_fill(buffer, 0, 16, 1);
    return plait_conf_do(queue, &fill, 1);
}

void plait_conf_devices(plait_conf *c) {
    plait_conf_check(c, "device/facts", check_facts, NULL);
    plait_conf_check(c, "device/options", check_options, NULL);
    plait_conf_check(c, "device/null", check_null, NULL);
    plait_conf_check_kit(c, "device/several", several, NULL);
    plait_conf_check(c, "device/clock", check_clock, NULL);
    plait_conf_check_kit(c, "device/names", names, NULL);
}
