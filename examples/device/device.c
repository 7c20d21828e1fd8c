/* The example device: an accelerator with memory of its own, played by a piece of host memory that nobody else gets the
 * address of. Bytes come and go by commands only, as with a card behind a driver whose calls block; the driver's calls
 * would stand where memory is touched here.
 *
 *   example[:mem=MIB][:reference=on][:lose=N]   its memory (default 1024); ops without a kernel run the reference kernels;
 *                                               the device is lost at its N-th command, to see what that does
 *
 * Invariant: what `lock` guards is consistent whenever it is free; `lost` is set once, and everything fails behind it. */
#include "example.h"

#include <stdlib.h>
#include <string.h>

enum { ALIGNMENT = 64, MAX_MIB = 1 << 20 };

typedef struct example_buffer {
    plait_buffer base;
    unsigned char *memory; /* in a real device: the driver's handle */
} example_buffer;

static example_device *mine(plait_device *device) {
    return (example_device *)device;
}

/* ---- life ---- */

static plait_status set_option(example_device *device, const char *option) {
    const char *value = strchr(option, '=') + 1; /* whoever parsed the device list has seen it */
    char *end;
    uint64_t number = strtoull(value, &end, 10);
    bool is_number = *value >= '0' && *value <= '9' && !*end;
    if (strncmp(option, "mem=", 4) == 0 && is_number && number >= 1 && number <= MAX_MIB)
        device->memory_bytes = number << 20;
    else if (strncmp(option, "lose=", 5) == 0 && is_number)
        device->lose_at = number;
    else if (strcmp(option, "reference=on") == 0 || strcmp(option, "reference=off") == 0)
        device->reference = value[1] == 'n';
    else
        return plait_error_set(PLAIT_INVALID_ARGUMENT,
                               "option \"%.60s\"; known: mem=1...%d (MiB), reference=on|off, lose=N", option,
                               MAX_MIB);
    return PLAIT_OK;
}

static void destroy(plait_device *base) {
    example_device *device = mine(base);
    if (!device) return;
    pthread_mutex_destroy(&device->lock);
    free(device->queues.items);
    free(device->events.items);
    free(device);
}

static plait_status create(const char *const *options, int n_options, const plait_logger *logger,
                           plait_device **out) {
    (void)logger; /* for what no return value can say */
    example_device *device = calloc(1, sizeof *device);
    if (!device || pthread_mutex_init(&device->lock, NULL) != 0) {
        free(device);
        return plait_error_set(PLAIT_OUT_OF_MEMORY, "%zu bytes for a device", sizeof *device);
    }
    device->memory_bytes = (uint64_t)1024 << 20;
    for (int i = 0; i < n_options; i++) {
        plait_status status = set_option(device, options[i]);
        if (status != PLAIT_OK) {
            destroy(&device->base);
            return status;
        }
    }
    *out = &device->base;
    return PLAIT_OK;
}

static plait_status describe(plait_device *base, plait_device_info *out) {
    example_device *device = mine(base);
    *out = (plait_device_info){
        .kind = "example",
        .description = "an accelerator with memory of its own, simulated",
        .numeric_class = "example-1",
        .memory_total_bytes = device->memory_bytes,
        .alignment = ALIGNMENT,
        .max_buffer_bytes = device->memory_bytes,
        .n_threads = 1,
        .caps = PLAIT_CAP_BOXES | PLAIT_CAP_FOREIGN_WAITS /* what plait/host_queue.h gives */
    };
    memcpy(out->name, base->name, sizeof out->name);
    pthread_mutex_lock(&device->lock);
    out->memory_free_bytes = device->memory_bytes - device->used_bytes;
    pthread_mutex_unlock(&device->lock);
    return PLAIT_OK;
}

static plait_status health(plait_device *base) {
    example_device *device = mine(base);
    pthread_mutex_lock(&device->lock);
    plait_status status = device->lost ? plait_error_raise(&device->loss) : PLAIT_OK;
    pthread_mutex_unlock(&device->lock);
    return status;
}

/* ---- loss ---- */

/* With the lock held: the device answers nothing any more, and nobody waits for it. */
static void lose(example_device *device, const char *cause) {
    plait_error_save(plait_error_set(PLAIT_DEVICE_LOST, "%s is lost: %s", device->base.name, cause),
                     &device->loss);
    device->lost = true;
    for (size_t i = 0; i < device->queues.n; i++)
        plait_host_queue_fail(device->queues.items[i], &device->loss);
    for (size_t i = 0; i < device->events.n; i++)
        plait_host_event_fail(device->events.items[i], &device->loss);
}

/* Called before each command: where a driver would say that the card has stopped answering. */
static plait_status before(plait_device *base, plait_queue *queue, const plait_command *command) {
    example_device *device = mine(base);
    (void)queue, (void)command;
    pthread_mutex_lock(&device->lock);
    if (++device->commands == device->lose_at) lose(device, "it was asked for by lose=");
    pthread_mutex_unlock(&device->lock);
    return health(base);
}

/* Remembers an object that has to fail with the device. */
static plait_status attach(example_device *device, example_list *to, void *item) {
    plait_status status = PLAIT_OK;
    pthread_mutex_lock(&device->lock);
    if (device->lost) {
        status = plait_error_raise(&device->loss);
    } else if (to->n == to->capacity) {
        size_t capacity = to->capacity ? 2 * to->capacity : 16;
        void **items = realloc(to->items, capacity * sizeof *items);
        if (items) to->items = items, to->capacity = capacity;
        if (!items)
            status = plait_error_set(PLAIT_OUT_OF_MEMORY, "%s: %zu objects", device->base.name, to->n);
    }
    if (status == PLAIT_OK) to->items[to->n++] = item;
    pthread_mutex_unlock(&device->lock);
    return status;
}

static void detach(example_device *device, example_list *from, const void *item) {
    pthread_mutex_lock(&device->lock);
    for (size_t i = 0; i < from->n; i++)
        if (from->items[i] == item) from->items[i--] = from->items[--from->n];
    pthread_mutex_unlock(&device->lock);
}

/* ---- memory ---- */

/* Takes bytes of the device's memory, if there are enough. */
static plait_status take(example_device *device, uint64_t size_bytes) {
    plait_status status = PLAIT_OK;
    pthread_mutex_lock(&device->lock);
    uint64_t free_bytes = device->memory_bytes - device->used_bytes;
    if (device->lost)
        status = plait_error_raise(&device->loss);
    else if (size_bytes > free_bytes)
        status = plait_error_set(PLAIT_OUT_OF_MEMORY, "%s: a buffer of %llu bytes, %llu are free",
                                 device->base.name, (unsigned long long)size_bytes,
                                 (unsigned long long)free_bytes);
    else
        device->used_bytes += size_bytes;
    pthread_mutex_unlock(&device->lock);
    return status;
}

static void buffer_destroy(plait_buffer *base) {
    example_buffer *buffer = (example_buffer *)base;
    if (!buffer) return;
    example_device *device = mine(base->device);
    pthread_mutex_lock(&device->lock);
    device->used_bytes -= base->size_bytes;
    pthread_mutex_unlock(&device->lock);
    free(buffer->memory);
    free(buffer);
}

static plait_status buffer_create(plait_device *device, uint64_t size_bytes, uint32_t usage,
                                  plait_buffer **out) {
    example_buffer *buffer = calloc(1, sizeof *buffer);
    if (!buffer) return plait_error_set(PLAIT_OUT_OF_MEMORY, "%s: a buffer", device->name);
    plait_status status = take(mine(device), size_bytes);
    if (status != PLAIT_OK) {
        free(buffer);
        return status;
    }
    buffer->base = (plait_buffer){.device = device, .size_bytes = size_bytes, .usage = usage};
    /* The size is at most the device's memory: rounding up cannot overflow. */
    buffer->memory = aligned_alloc(ALIGNMENT, (size_bytes / ALIGNMENT + 1) * ALIGNMENT);
    if (!buffer->memory) {
        buffer_destroy(&buffer->base);
        return plait_error_set(PLAIT_OUT_OF_MEMORY, "%s: a buffer of %llu bytes", device->name,
                               (unsigned long long)size_bytes);
    }
    if (usage & PLAIT_BUFFER_STAGING) buffer->base.host = buffer->memory; /* all others stay out of reach */
    *out = &buffer->base;
    return PLAIT_OK;
}

/* Where the thread of a queue finds a buffer: ours by what only we know, another device's if the host reaches it. */
static unsigned char *address(plait_device *device, const plait_buffer *buffer) {
    return buffer->device == device ? ((const example_buffer *)buffer)->memory : buffer->host;
}

/* ---- events and queues: those of plait/host_queue.h, remembered for the day the device is lost ---- */

const plait_host_hooks example_hooks = {.launch = example_launch, .address = address, .before = before};

static plait_status event_create(plait_device *device, plait_event **out) {
    plait_event *event = NULL;
    PLAIT_TRY(plait_host_event_create(device, &event));
    plait_status status = attach(mine(device), &mine(device)->events, event);
    if (status != PLAIT_OK)
        plait_host_event_destroy(event);
    else
        *out = event;
    return status;
}

static void event_destroy(plait_event *event) {
    if (event) detach(mine(event->device), &mine(event->device)->events, event);
    plait_host_event_destroy(event);
}

static plait_status queue_create(plait_device *device, uint32_t flags, plait_queue **out) {
    plait_queue *queue = NULL;
    PLAIT_TRY(plait_host_queue_create(device, flags, &example_hooks, &queue));
    plait_status status = attach(mine(device), &mine(device)->queues, queue);
    if (status != PLAIT_OK)
        plait_host_queue_destroy(queue);
    else
        *out = queue;
    return status;
}

static void queue_destroy(plait_queue *queue) {
    if (queue) detach(mine(queue->device), &mine(queue->device)->queues, queue);
    plait_host_queue_destroy(queue);
}

/* ---- the table, and the door ---- */

static const plait_device_vtable example_vtable = {
    .version = PLAIT_DEVICE_VERSION,
    .struct_bytes = sizeof(plait_device_vtable),
    .sizes = PLAIT_DEVICE_SIZES,
    .kind = "example",
    .doc = "the example of docs/writing-a-device.md; mem=MIB, reference=on|off, lose=N",
    .create = create,
    .destroy = destroy,
    .describe = describe,
    .health = health,
    .buffer_create = buffer_create,
    .buffer_destroy = buffer_destroy,
    .event_create = event_create,
    .event_destroy = event_destroy,
    .event_query = plait_host_event_query,
    .event_wait = plait_host_event_wait,
    .event_signal = plait_host_event_signal,
    .event_fail = plait_host_event_fail,
    .queue_create = queue_create,
    .queue_destroy = queue_destroy,
    .submit = plait_host_submit,
    .synchronise = plait_host_synchronise,
    .supports = example_supports,
    .prepare = example_prepare,
    .prepared_destroy = example_prepared_destroy,
    .compile = example_compile,
    .program_destroy = example_program_destroy,
    .reaches = plait_host_reaches, /* of the optional slots, the only one that we fill */
};

__attribute__((visibility("default"))) const plait_device_vtable *plait_device_entry(int index) {
    return index == 0 ? &example_vtable : NULL;
}
