/* The null device. Its memory is real: what is written, copied and filled can be read back. A launch does nothing, so
 * results keep whatever bytes were there. It is here to be copied (README.md), and to measure what everything around
 * the computing costs.
 *
 * Invariant: every call of the vtable keeps its contract; only numbers are missing. */
#include "device/null/null.h"

#include "base/alloc.h"
#include "base/os.h"
#include "base/size.h"
#include "base/status.h"
#include "plait/host_queue.h"

#include <stdlib.h>
#include <string.h>

/* Of buffers, and of offsets in them: a cache line, and the largest vector register. */
enum { ALIGNMENT = 64 };

/* A kind with state of its own puts it behind `base`. */
typedef struct null_device {
    plait_device base;
} null_device;

/* A program copies what it keeps of a segment. */
struct plait_program {
    int n_slots, n_dims;
};

/* ---- device ---- */

/* A kind that has options reads them here, refusing every key that it does not know. */
static plait_status null_create(const char *const *options, int n_options, const plait_logger *logger,
                                plait_device **out) {
    (void)logger;
    if (n_options > 0)
        return plait_error(PLAIT_INVALID_ARGUMENT, "option \"%.60s\" is unknown; there are none", options[0]);
    null_device *device = plait_alloc_array(1, sizeof *device);
    if (!device) return plait_error_memory("null device", sizeof *device);
    device->base.vtable = &plait_null_vtable;
    memcpy(device->base.name, "null", sizeof "null");
    *out = &device->base;
    return PLAIT_OK;
}

static void null_destroy(plait_device *device) {
    free(device);
}

/* Works as long as the device lives. The caps are what host memory and host queues give: mapped buffers, boxes in
 * transfers, waits for events of every kind. unified_memory: bytes that this device takes are missing from every other
 * such device. A numeric class of its own keeps anybody from comparing its results. */
static plait_status null_describe(plait_device *device, plait_device_info *out) {
    plait_device_info info = {.kind = "null",
                              .description = "accepts everything, computes nothing",
                              .numeric_class = "null",
                              .memory_total_bytes = plait_os_memory_total(),
                              .memory_free_bytes = plait_os_memory_available(),
                              .alignment = ALIGNMENT,
                              .unified_memory = true,
                              .caps = PLAIT_CAP_MAPPED | PLAIT_CAP_BOXES | PLAIT_CAP_FOREIGN_WAITS};
    info.max_buffer_bytes = info.memory_total_bytes;
    memcpy(info.name, device->name, sizeof info.name);
    *out = info;
    return PLAIT_OK;
}

/* Without this, whoever asks would get it from null_describe, which counts the machine's memory each time. */
static plait_status null_allocation_bytes(plait_device *device, uint64_t size_bytes, uint32_t usage,
                                          uint64_t *out_bytes) {
    (void)usage;
    if (plait_align_u64(size_bytes, ALIGNMENT, out_bytes)) return PLAIT_OK;
    return plait_error(PLAIT_OUT_OF_RANGE, "%s: a buffer of %llu bytes", device->name,
                       (unsigned long long)size_bytes);
}

/* Nothing of it can be lost. A kind whose hardware can fail keeps the first failure and answers with it. */
static plait_status null_health(plait_device *device) {
    (void)device;
    return PLAIT_OK;
}

/* ---- memory ---- */

/* More than the machine has is refused here, for the system would promise it. A buffer of 0 bytes has an address too,
 * so that `host` says nothing but whether it is mapped. */
static plait_status null_buffer_create(plait_device *device, uint64_t size_bytes, uint32_t usage,
                                       plait_buffer **out) {
    if (size_bytes > plait_os_memory_total()) return plait_error_memory("buffer", size_bytes);
    plait_buffer *buffer = plait_alloc_array(1, sizeof *buffer);
    void *host = buffer ? plait_alloc_aligned(ALIGNMENT, size_bytes ? size_bytes : 1) : NULL;
    if (!host) {
        free(buffer);
        return plait_error_memory("buffer", size_bytes);
    }
    *buffer = (plait_buffer){.device = device, .size_bytes = size_bytes, .usage = usage, .host = host};
    *out = buffer;
    return PLAIT_OK;
}

static void null_buffer_destroy(plait_buffer *buffer) {
    if (!buffer) return;
    free(buffer->host);
    free(buffer);
}

/* ---- queues ---- */

/* The hook of the host queue. What is checked is what a computing device would read first. */
static plait_status null_launch(plait_device *device, const plait_program *program,
                                plait_buffer *const *slots, const int64_t *dims, plait_launch_trace *trace) {
    (void)trace;
    if ((program->n_slots && !slots) || (program->n_dims && !dims))
        return plait_error(PLAIT_INVALID_ARGUMENT, "%s: launch without slots or dims", device->name);
    return PLAIT_OK;
}

static const plait_host_hooks null_hooks = {.launch = null_launch};

static plait_status null_queue_create(plait_device *device, uint32_t flags, plait_queue **out) {
    return plait_host_queue_create(device, flags, &null_hooks, out);
}

/* ---- programs ---- */

/* Whoever says no gives the reason; this device never does. */
static bool null_supports(plait_device *device, const plait_op_use *use, const plait_encoding *encodings,
                          char *reason, size_t reason_bytes) {
    (void)device, (void)use, (void)encodings, (void)reason, (void)reason_bytes;
    return true;
}

static void null_prepared_destroy(plait_device *device, plait_prepared *prepared) {
    (void)device;
    if (!prepared) return;
    free(prepared->groups);
    free(prepared->order);
    *prepared = (plait_prepared){0};
}

/* Every node is a group of its own, in program order; nothing is left out, nothing shared. */
static plait_status null_prepare(plait_device *device, const plait_segment *segment, plait_prepared *out) {
    size_t n = (size_t)segment->n_nodes;
    plait_prepared prepared = {.n_groups = segment->n_nodes,
                               .groups = plait_alloc_array(n, sizeof *prepared.groups),
                               .order = plait_alloc_array(n, sizeof *prepared.order)};
    if (!prepared.groups || !prepared.order) {
        null_prepared_destroy(device, &prepared);
        return plait_error_memory("preparing a segment", n * sizeof *prepared.groups);
    }
    for (int i = 0; i < segment->n_nodes; i++) {
        prepared.order[i] = i;
        prepared.groups[i] = (plait_group){.first = i, .n = 1, .scratch_alignment = 1};
    }
    *out = prepared;
    return PLAIT_OK;
}

/* Borrows nothing of the segment: the planner's memory ends with the call. A device that computes copies each node's
 * attributes, shapes, slots and offsets. */
static plait_status null_compile(plait_device *device, const plait_segment *segment,
                                 const plait_prepared *prepared, plait_program **out) {
    (void)device, (void)prepared;
    plait_program *program = plait_alloc_array(1, sizeof *program);
    if (!program) return plait_error_memory("program", sizeof *program);
    *program = (plait_program){.n_slots = segment->n_slots, .n_dims = segment->n_dims};
    *out = program;
    return PLAIT_OK;
}

static void null_program_destroy(plait_device *device, plait_program *program) {
    (void)device;
    free(program);
}

/* Optional slots that are not named here are filled by the registry. */
const plait_device_vtable plait_null_vtable = {
    .version = PLAIT_DEVICE_VERSION,
    .struct_bytes = sizeof(plait_device_vtable),
    .sizes = PLAIT_DEVICE_SIZES,
    .kind = "null",
    .doc = "accepts everything, computes nothing; the smallest example of a device",
    .create = null_create,
    .destroy = null_destroy,
    .describe = null_describe,
    .allocation_bytes = null_allocation_bytes,
    .buffer_create = null_buffer_create,
    .buffer_destroy = null_buffer_destroy,
    .event_create = plait_host_event_create,
    .event_destroy = plait_host_event_destroy,
    .event_query = plait_host_event_query,
    .event_wait = plait_host_event_wait,
    .event_signal = plait_host_event_signal,
    .event_fail = plait_host_event_fail,
    .queue_create = null_queue_create,
    .queue_destroy = plait_host_queue_destroy,
    .submit = plait_host_submit,
    .synchronise = plait_host_synchronise,
    .supports = null_supports,
    .prepare = null_prepare,
    .prepared_destroy = null_prepared_destroy,
    .compile = null_compile,
    .program_destroy = null_program_destroy,
    .health = null_health,
    .reaches = plait_host_reaches,
};
