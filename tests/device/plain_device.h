/* A device kind for the tests of the monitor: a fake device that can lack capabilities, and that breaks the contract in one
 * way when it is told to.
 *
 *   plain:caps=0:copies=1:reaches=no:scratch=64:hide=yes:fault=lost-copy
 *
 * `hide`: its memory is not mapped. Its numeric class is "reference". */
#ifndef TESTS_DEVICE_PLAIN_DEVICE_H
#define TESTS_DEVICE_PLAIN_DEVICE_H

#include "support/fake_device.h"

#include <time.h>

enum { PLAIN_IMPORTS = 4, PLAIN_MOST_BYTES = 1 << 20 };

typedef struct plain_device {
    fake_device fake;
    char fault[32];
    int caps, copies, scratch;
    bool reaches_itself_only;
    int described, asked; /* calls so far */
    bool lost;
    unsigned addressed; /* how often the queue asked where a buffer is, in a copy */
    unsigned char *elsewhere;
    struct {
        plait_event *event, *foreign;
    } imports[PLAIN_IMPORTS];
} plain_device;

extern const plait_device_vtable plain_vtable;

static inline bool plain_has(const plait_device *device, const char *fault) {
    return strcmp(((const plain_device *)device)->fault, fault) == 0;
}

/* ---- device ---- */

static inline plait_status plain_option(plain_device *device, const char *option) {
    if (strncmp(option, "caps=", 5) == 0) return device->caps = atoi(option + 5), PLAIT_OK;
    if (strncmp(option, "copies=", 7) == 0) return device->copies = atoi(option + 7), PLAIT_OK;
    if (strncmp(option, "scratch=", 8) == 0) return device->scratch = atoi(option + 8), PLAIT_OK;
    if (strcmp(option, "reaches=no") == 0) return device->reaches_itself_only = true, PLAIT_OK;
    if (strcmp(option, "hide=yes") == 0) {
        device->fake.hidden = true;
        return device->caps &= ~PLAIT_CAP_MAPPED, PLAIT_OK;
    }
    if (strncmp(option, "fault=", 6) == 0)
        return snprintf(device->fault, sizeof device->fault, "%s", option + 6), PLAIT_OK;
    return plait_error(PLAIT_INVALID_ARGUMENT, "option \"%.60s\" is unknown", option);
}

static inline plait_status plain_create(const char *const *options, int n_options, const plait_logger *logger,
                                        plait_device **out) {
    (void)logger;
    plain_device *device = plait_alloc_array(1, sizeof *device);
    if (!device) return plait_error_memory("plain device", sizeof *device);
    device->fake.base.vtable = &plain_vtable;
    device->fake.alignment = 64;
    device->fake.gate = -1; /* launches wait for nobody */
    device->fake.group = 1;
    device->fake.memory_bytes = (uint64_t)1 << 30;
    device->caps = PLAIT_CAP_MAPPED | PLAIT_CAP_BOXES | PLAIT_CAP_FOREIGN_WAITS;
    device->elsewhere = plait_alloc_array(PLAIN_MOST_BYTES, 1);
    strcpy(device->fake.base.name, "plain");
    plait_status status = device->elsewhere ? PLAIT_OK : plait_error_memory("plain device", 0);
    for (int i = 0; i < n_options && status == PLAIT_OK; i++) status = plain_option(device, options[i]);
    if (status == PLAIT_OK) {
        *out = &device->fake.base;
    } else {
        free(device->elsewhere);
        free(device);
    }
    return status;
}

static inline void plain_destroy(plait_device *device) {
    free(((plain_device *)device)->elsewhere);
    free(device);
}

static inline plait_status plain_describe(plait_device *base, plait_device_info *out) {
    plain_device *device = (plain_device *)base;
    PLAIT_TRY(fake_describe(base, out));
    strcpy(out->kind, "plain");
    out->caps = (uint32_t)device->caps;
    out->n_copy_queues = device->copies;
    if (plain_has(base, "facts") && device->described++ > 1) out->alignment *= 2;
    return PLAIT_OK;
}

static inline plait_status plain_health(plait_device *device) {
    (void)device; /* it does not know that it is lost */
    return PLAIT_OK;
}

static inline bool plain_reaches(plait_device *device, plait_device *other) {
    return device == other ||
           (!((plain_device *)device)->reaches_itself_only && plait_host_reaches(device, other));
}

/* ---- memory ---- */

static inline plait_status plain_buffer_create(plait_device *device, uint64_t size_bytes, uint32_t usage,
                                               plait_buffer **out) {
    static plait_buffer stale;
    if (plain_has(device, "lost")) {
        ((plain_device *)device)->lost = true;
        return plait_error(PLAIT_DEVICE_LOST, "%s: it fell out of its slot", device->name);
    }
    if (plain_has(device, "output-on-failure")) {
        *out = &stale;
        return plait_error_memory("buffer", size_bytes);
    }
    if (plain_has(device, "no-message")) return PLAIT_OUT_OF_MEMORY;
    if (plain_has(device, "nothing-made")) return PLAIT_OK;
    PLAIT_TRY(fake_buffer_create(device, size_bytes, usage, out));
    if (plain_has(device, "smaller")) (*out)->size_bytes -= 64;
    return PLAIT_OK;
}

/* ---- events ---- */

static inline plait_status plain_event_import(plait_device *base, plait_event *foreign, plait_event **out) {
    plain_device *device = (plain_device *)base;
    for (int i = 0; i < PLAIN_IMPORTS; i++) {
        if (device->imports[i].event) continue;
        PLAIT_TRY(plait_host_event_create(base, out));
        device->imports[i].event = *out;
        device->imports[i].foreign = foreign;
        return PLAIT_OK;
    }
    return plait_error(PLAIT_LIMIT, "%s: %d imports", base->name, PLAIN_IMPORTS);
}

/* A queue signals events that it made itself only; one that is reached from the start will do for a fault. */
static inline plait_status plain_event_create(plait_device *device, plait_event **out) {
    PLAIT_TRY(plait_host_event_create(device, out));
    return plain_has(device, "event-ahead") ? plait_host_event_signal(*out, 1) : PLAIT_OK;
}

/* The other device's event behind an import, or the event itself. */
static inline plait_event *plain_behind(plait_event *event) {
    plain_device *device = (plain_device *)event->device;
    for (int i = 0; i < PLAIN_IMPORTS; i++)
        if (device->imports[i].event == event) return device->imports[i].foreign;
    return event;
}

static inline void plain_event_destroy(plait_event *event) {
    if (!event) return;
    plain_device *device = (plain_device *)event->device;
    for (int i = 0; i < PLAIN_IMPORTS; i++)
        if (device->imports[i].event == event) device->imports[i].event = NULL;
    plait_host_event_destroy(event);
}

/* The odd kind: its queries go back after a while. */
static inline plait_status odd_event_query(plait_event *event, uint64_t *out_value) {
    PLAIT_TRY(plait_host_event_query(event, out_value));
    if (((plain_device *)event->device)->asked++ > 1) *out_value /= 2;
    return PLAIT_OK;
}

static inline plait_status plain_event_wait(plait_event *event, uint64_t value, uint64_t timeout_ns) {
    plait_event *behind = plain_behind(event);
    if (behind != event) return behind->device->vtable->event_wait(behind, value, timeout_ns);
    if (plain_has(event->device, "short-wait")) timeout_ns = 0;
    plait_status status = plait_host_event_wait(event, value, timeout_ns);
    return plain_has(event->device, "short-wait") ? PLAIT_OK : status;
}

/* ---- running ---- */

/* Byte number `n` of an operand's place, from its beginning; it may lie outside of it. */
static inline unsigned char *plain_byte(const plait_segment_operand *operand, plait_buffer *const *slots,
                                        int64_t n) {
    return ((fake_buffer *)slots[operand->slot])->bytes + operand->offset + n;
}

static inline void plain_nap(void) {
    nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
}

static inline plait_status plain_launch(plait_device *device, const plait_program *program,
                                        plait_buffer *const *slots, const int64_t *dims,
                                        plait_launch_trace *trace) {
    const plait_segment_operand *x = &program->nodes[0].inputs[0], *y = &program->nodes[0].outputs[0];
    if (plain_has(device, "no-launch")) return PLAIT_OK;
    PLAIT_TRY(fake_launch(device, program, slots, dims, trace));
    if (plain_has(device, "write-input")) *plain_byte(x, slots, 5) ^= 1;
    if (plain_has(device, "write-behind")) *plain_byte(y, slots, 1024 - (int64_t)y->offset) ^= 1;
    if (plain_has(device, "write-outside")) *plain_byte(y, slots, -1) ^= 1;
    if (plain_has(device, "last-row")) /* written as if it had not been */
        memcpy(plain_byte(y, slots, (int64_t)y->shape.strides[1] * (dims[0] - 1)),
               (const unsigned char[]){0xA5, 0xA5, 0xA5, 0x7F}, 4);
    return PLAIT_OK;
}

/* Where the queue finds a buffer: the wrong place leads transfers astray. A copy asks twice, for source and target. */
static inline unsigned char *plain_address(plait_device *base, const plait_buffer *buffer) {
    plain_device *device = (plain_device *)base;
    unsigned char *host = ((const fake_buffer *)buffer)->bytes;
    if (plain_has(base, "lost-copy") && ++device->addressed % 2 == 0) return device->elsewhere;
    if (plain_has(base, "shifted")) return host + 1;
    return host;
}

static inline plait_status plain_before(plait_device *device, plait_queue *queue,
                                        const plait_command *command) {
    plain_device *plain = (plain_device *)device;
    (void)queue;
    if (command->kind == PLAIT_COMMAND_COPY) plain->addressed = 0;
    if (command->kind != PLAIT_COMMAND_COPY) plain->addressed = 1; /* the next one is even */
    if (plain_has(device, "lost-copy") && command->kind != PLAIT_COMMAND_COPY) plain->addressed = 2;
    bool slow = plain_has(device, "short-wait") || plain_has(device, "no-synchronise");
    if (slow && command->kind == PLAIT_COMMAND_FILL) plain_nap();
    if (plain_has(device, "stray-fill") && command->kind == PLAIT_COMMAND_FILL)
        ((fake_buffer *)command->fill.region.buffer)->bytes[command->fill.region.offset - 1] ^= 1;
    return PLAIT_OK;
}

static inline plait_status plain_queue_create(plait_device *device, uint32_t flags, plait_queue **out) {
    static const plait_host_hooks hooks = {
        .launch = plain_launch, .address = plain_address, .before = plain_before};
    return plait_host_queue_create(device, flags, &hooks, out);
}

static inline plait_status plain_submit(plait_queue *queue, const plait_command *commands, int n) {
    if (plain_has(queue->device, "early-signal"))
        for (int i = 0; i < n; i++)
            if (commands[i].kind == PLAIT_COMMAND_SIGNAL)
                PLAIT_TRY(plait_host_event_signal(commands[i].signal.event, *commands[i].signal.value));
    return plait_host_submit(queue, commands, n);
}

static inline plait_status plain_synchronise(plait_queue *queue) {
    if (plain_has(queue->device, "no-synchronise")) return PLAIT_OK;
    plait_status status = plait_host_synchronise(queue);
    return plain_has(queue->device, "status-lost") ? PLAIT_OK : status;
}

/* ---- programs ---- */

static inline bool plain_supports(plait_device *device, const plait_op_use *use,
                                  const plait_encoding *encodings, char *reason, size_t reason_bytes) {
    if (plain_has(device, "answers") && ((plain_device *)device)->asked++ % 2) {
        snprintf(reason, reason_bytes, "not now");
        return false;
    }
    if (plain_has(device, "no-reason")) return false;
    return fake_supports(device, use, encodings, reason, reason_bytes);
}

static inline plait_status plain_prepare(plait_device *device, const plait_segment *segment,
                                         plait_prepared *out) {
    if (plain_has(device, "refuse-prepare"))
        return plait_error(PLAIT_UNSUPPORTED, "%s: its driver does not like this", device->name);
    PLAIT_TRY(fake_prepare(device, segment, out));
    for (int g = 0; g < out->n_groups; g++) {
        uint64_t scratch = (uint64_t)((const plain_device *)device)->scratch;
        if (out->groups[g].scratch_bytes < scratch) out->groups[g].scratch_bytes = scratch;
    }
    if (plain_has(device, "groups")) out->groups[out->n_groups - 1].n++;
    if (plain_has(device, "twice")) out->order[0] = out->order[segment->n_nodes - 1];
    if (plain_has(device, "order") && segment->n_nodes > 1) {
        out->order[0] = 1;
        out->order[1] = 0;
    }
    if (plain_has(device, "elided")) {
        static uint32_t value;
        value = segment->nodes[segment->n_nodes - 1].outputs[0].value;
        out->elided = &value;
        out->n_elided = 1;
    }
    return PLAIT_OK;
}

static inline plait_status plain_compile(plait_device *device, const plait_segment *segment,
                                         const plait_prepared *prepared, plait_program **out) {
    if (plain_has(device, "refuse-compile"))
        return plait_error(PLAIT_UNSUPPORTED, "%s: its driver does not like this", device->name);
    return fake_compile(device, segment, prepared, out);
}

const plait_device_vtable plain_vtable = {
    .version = PLAIT_DEVICE_VERSION,
    .struct_bytes = sizeof(plait_device_vtable),
    .sizes = PLAIT_DEVICE_SIZES,
    .kind = "plain",
    .doc = "a fake device that breaks the contract when told to",
    .create = plain_create,
    .destroy = plain_destroy,
    .describe = plain_describe,
    .health = plain_health,
    .buffer_create = plain_buffer_create,
    .buffer_destroy = fake_buffer_destroy,
    .event_create = plain_event_create,
    .event_destroy = plain_event_destroy,
    .event_query = plait_host_event_query,
    .event_wait = plain_event_wait,
    .event_signal = plait_host_event_signal,
    .event_fail = plait_host_event_fail,
    .event_import = plain_event_import,
    .queue_create = plain_queue_create,
    .queue_destroy = plait_host_queue_destroy,
    .submit = plain_submit,
    .synchronise = plain_synchronise,
    .supports = plain_supports,
    .prepare = plain_prepare,
    .prepared_destroy = fake_prepared_destroy,
    .compile = plain_compile,
    .program_destroy = fake_program_destroy,
    .reaches = plain_reaches,
};

/* Makes the kinds known; may be called again. */
static inline plait_status plain_register(void) {
    static plait_device_vtable odd;
    if (plait_device_kind("plain")) return PLAIT_OK;
    PLAIT_TRY(plait_device_register(&plain_vtable));
    odd = plain_vtable;
    odd.kind = "odd";
    odd.event_query = odd_event_query;
    return plait_device_register(&odd);
}

#endif
