/* The simulated device: making it around another one, its facts, and the vtable. Not here: the options (options.c), and
 * everything that it does to commands (queue.c, trouble.c). Invariant: results are the inner device's, byte for byte,
 * so it has that one's numeric class; it claims no cap that the inner device or the options do not give it. */
#include "device/sim/sim.h"

#include "base/alloc.h"
#include "base/os.h"
#include "base/size.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* By a function of the vtable, so that it works on any device, wrapped ones excepted. */
bool plait_sim_is(const plait_device *device) {
    return device->vtable->buffer_create == plait_sim_buffer_create;
}

/* ---- life ---- */

/* Of a device at any stage of being made. Buffers were destroyed before; what is left of them are graves. */
static void sim_destroy(plait_device *base) {
    plait_sim_device *device = (plait_sim_device *)base;
    if (!device) return;
    for (size_t i = 0; i < PLAIT_SIM_GRAVES; i++) plait_sim_map_deinit(&device->graves[i]);
    if (device->inner) device->inner->vtable->destroy(device->inner);
    if (device->lock_ready) pthread_mutex_destroy(&device->lock);
    free(device);
}

/* Options as they were given, joined again, cut to fit: the description carries them, so measured figures of one
 * simulation are not taken for another's. */
static void keep_asked(plait_sim_device *device, const char *const *options, int n_options) {
    size_t used = 0;
    for (int i = 0; i < n_options && used < sizeof device->asked; i++)
        used += (size_t)snprintf(device->asked + used, sizeof device->asked - used, "%s%s", i ? ":" : "",
                                 options[i]);
}

/* Whether the device inside computes on memory that it is given; what it has to be otherwise: mapped, so that this
 * device can fill and poison its bytes. Tried with one byte rather than asked: there is no cap for it. */
static plait_status try_import(plait_sim_device *device) {
    plait_sim_map map;
    plait_buffer *buffer = NULL;
    PLAIT_TRY(plait_sim_map_init(&map, 1, false));
    plait_status status =
        device->inner->vtable->buffer_import(device->inner, map.alias, 1, PLAIT_BUFFER_TEMPORARY, &buffer);
    if (status == PLAIT_OK) device->inner->vtable->buffer_destroy(buffer);
    plait_sim_map_deinit(&map);
    device->inner_imports = status == PLAIT_OK;
    if (status == PLAIT_UNSUPPORTED && device->inner_info.caps & PLAIT_CAP_MAPPED) return PLAIT_OK;
    return plait_error_context(status, "inner=%s", device->options.inner);
}

/* Figures that follow from the options and the device inside. An alignment below the inner one's would have it read
 * operands at addresses that it cannot. */
static plait_status choose_sizes(plait_sim_device *device) {
    const plait_sim_options *options = &device->options;
    const plait_device_info *inner = &device->inner_info;
    device->alignment = options->align_bytes ? options->align_bytes : inner->alignment;
    if (device->alignment < inner->alignment)
        return plait_error(PLAIT_INVALID_ARGUMENT, "align is %llu, expected at least the %llu of inner=%s",
                           (unsigned long long)device->alignment, (unsigned long long)inner->alignment,
                           options->inner);
    device->granularity_bytes = options->granularity_bytes ? options->granularity_bytes : device->alignment;
    device->memory_bytes = options->mem_bytes ? options->mem_bytes : inner->memory_total_bytes;
    device->max_buffer_bytes = options->max_buffer_bytes ? options->max_buffer_bytes : device->memory_bytes;
    return PLAIT_OK;
}

/* Everything that may fail, in the order in which it depends on each other; sim_destroy undoes any part of it. */
static plait_status open(plait_sim_device *device, const plait_logger *logger) {
    device->lock_ready = pthread_mutex_init(&device->lock, NULL) == 0;
    if (!device->lock_ready) return plait_error_memory("sim device", 0);
    PLAIT_TRY(
        plait_error_context(plait_device_create(device->options.inner, logger, &device->inner), "inner"));
    PLAIT_TRY(device->inner->vtable->describe(device->inner, &device->inner_info));
    PLAIT_TRY(try_import(device));
    return choose_sizes(device);
}

/* The clock begins with the device, not with its first use. */
static plait_status sim_create(const char *const *options, int n_options, const plait_logger *logger,
                               plait_device **out) {
    plait_sim_device *device = plait_alloc_array(1, sizeof *device);
    if (!device) return plait_error_memory("sim device", sizeof *device);
    device->base.vtable = &plait_sim_vtable;
    snprintf(device->base.name, sizeof device->base.name, "sim");
    device->begin_ns = plait_time_ns();
    keep_asked(device, options, n_options);
    plait_status status = plait_sim_options_parse(&device->options, options, n_options);
    if (status == PLAIT_OK) status = open(device, logger);
    if (status != PLAIT_OK) {
        sim_destroy(&device->base);
        return status;
    }
    *out = &device->base;
    return PLAIT_OK;
}

/* ---- facts ---- */

/* Never MAPPED: nobody else may touch the memory. Boxes are executed inside, so they must be known there; waits for
 * foreign events are the queue thread's own. */
static uint32_t caps_of(const plait_sim_device *device) {
    const bool *without = device->options.without;
    uint32_t caps = device->inner_info.caps & PLAIT_CAP_BOXES;
    if (without[PLAIT_SIM_NO_BOXES]) caps = 0;
    if (!without[PLAIT_SIM_NO_WAITS]) caps |= PLAIT_CAP_FOREIGN_WAITS;
    return caps;
}

/* Works on a lost device, from what was kept when it was made. */
static plait_status sim_describe(plait_device *base, plait_device_info *out) {
    plait_sim_device *device = (plait_sim_device *)base;
    plait_device_info info = {.kind = "sim",
                              .memory_total_bytes = device->memory_bytes,
                              .memory_free_bytes = plait_sim_free_bytes(device),
                              .alignment = device->alignment,
                              .max_buffer_bytes = device->max_buffer_bytes,
                              .n_threads = device->inner_info.n_threads,
                              .caps = caps_of(device),
                              .n_copy_queues = (int)device->options.copy_queues};
    memcpy(info.name, base->name, sizeof info.name);
    memcpy(info.numeric_class, device->inner_info.numeric_class, sizeof info.numeric_class);
    snprintf(info.description, sizeof info.description, "%s%ssimulated on %.80s", device->asked,
             device->asked[0] ? "; " : "", device->inner_info.description);
    *out = info;
    return PLAIT_OK;
}

/* Asked of what is kept here, not of the device inside, whose loss shows when a command fails. */
static plait_status sim_health(plait_device *device) {
    return plait_sim_alive((plait_sim_device *)device);
}

/* The device's clock began when it was made, so that whoever takes its times for the host's is wrong by much. */
static plait_status sim_time_query(plait_device *base, uint64_t *out_device_ns, uint64_t *out_host_ns) {
    plait_sim_device *device = (plait_sim_device *)base;
    PLAIT_TRY(plait_sim_alive(device));
    PLAIT_TRY(plait_sim_offers(device, PLAIT_SIM_NO_CLOCK));
    *out_host_ns = plait_time_ns();
    *out_device_ns = *out_host_ns - device->begin_ns;
    return PLAIT_OK;
}

/* ---- host memory and names ---- */

/* Memory like any other: what is simulated is that it has to be asked for. */
static plait_status sim_host_alloc(plait_device *base, uint64_t size_bytes, void **out) {
    plait_sim_device *device = (plait_sim_device *)base;
    PLAIT_TRY(plait_sim_alive(device));
    PLAIT_TRY(plait_sim_offers(device, PLAIT_SIM_NO_PINNED));
    if (size_bytes > plait_os_memory_total()) return plait_error_memory("host memory", size_bytes);
    void *memory = plait_alloc_aligned(64, size_bytes ? size_bytes : 1);
    if (!memory) return plait_error_memory("host memory", size_bytes);
    *out = memory;
    return PLAIT_OK;
}

/* Works on a lost device too. */
static void sim_host_free(plait_device *device, void *host) {
    (void)device;
    free(host);
}

/* The name of an object is replaced, never changed in place; each is owned by its object. */
static plait_status sim_name_object(plait_device *base, plait_device_object kind, void *object,
                                    const char *name) {
    char **place = NULL;
    PLAIT_TRY(plait_sim_offers((plait_sim_device *)base, PLAIT_SIM_NO_NAMES));
    switch (kind) {
    case PLAIT_OBJECT_BUFFER: place = &((plait_sim_buffer *)object)->name; break;
    case PLAIT_OBJECT_EVENT: place = &((plait_sim_event *)object)->name; break;
    case PLAIT_OBJECT_QUEUE: place = plait_sim_queue_name(object); break;
    case PLAIT_OBJECT_PROGRAM: place = &((plait_program *)object)->name; break;
    }
    if (!place)
        return plait_error(PLAIT_INVALID_ARGUMENT, "%s: objects of kind %d are unknown", base->name,
                           (int)kind);
    char *copy = plait_string_copy(name);
    if (!copy) return plait_error_memory("name", strlen(name));
    free(*place);
    *place = copy;
    return PLAIT_OK;
}

const plait_device_vtable plait_sim_vtable = {
    .version = PLAIT_DEVICE_VERSION,
    .struct_bytes = sizeof(plait_device_vtable),
    .sizes = PLAIT_DEVICE_SIZES,
    .kind = "sim",
    .doc = "another device behind a wall, with less memory, ops and luck; inner=cpu/threads=2, mem=64MiB, "
           "lack=OP+OP, "
           "delay=SEED, fail-copy=N, lose=N, and more: docs/command-line.md",
    .create = sim_create,
    .destroy = sim_destroy,
    .describe = sim_describe,
    .health = sim_health,
    .buffer_create = plait_sim_buffer_create,
    .buffer_destroy = plait_sim_buffer_destroy,
    .event_create = plait_sim_event_create,
    .event_destroy = plait_sim_event_destroy,
    .event_query = plait_sim_event_query,
    .event_wait = plait_sim_event_wait,
    .event_signal = plait_sim_event_signal,
    .event_fail = plait_sim_event_fail,
    .queue_create = plait_sim_queue_create,
    .queue_destroy = plait_sim_queue_destroy,
    .submit = plait_sim_submit,
    .synchronise = plait_sim_synchronise,
    .supports = plait_sim_supports,
    .prepare = plait_sim_prepare,
    .prepared_destroy = plait_sim_prepared_destroy,
    .compile = plait_sim_compile,
    .program_destroy = plait_sim_program_destroy,
    .buffer_import = plait_sim_buffer_import,
    .encodings = plait_sim_encodings,
    .pack = plait_sim_pack,
    .unpack = plait_sim_unpack,
    .allocation_bytes = plait_sim_allocation_bytes,
    .memory_query = plait_sim_memory_query,
    .reaches = plait_sim_reaches,
    .host_alloc = sim_host_alloc,
    .host_free = sim_host_free,
    .event_import = plait_sim_event_import,
    .program_update = plait_sim_program_update,
    .time_query = sim_time_query,
    .name_object = sim_name_object,
    .figures = plait_sim_figures,
};
