/* Buffers: a budget kept to the byte, memory that the host cannot touch, NaN patterns in what nobody has written, and
 * addresses that keep faulting after a buffer is gone. Not here: the mappings themselves (map.c).
 *
 * A device inside that imports host memory gets the private alias; one that does not, but is mapped, supplies the bytes
 * itself, and only an address that faults is published beside them. Invariant: what a buffer took of the budget is
 * given back exactly once. */
#include "device/sim/sim.h"

#include "base/alloc.h"
#include "base/os.h"
#include "base/size.h"

#include <stdlib.h>
#include <string.h>

/* All types read 0xFF everywhere as NaN, or as an id that no table has; dead memory looks different in a debugger. */
enum { UNWRITTEN = 0xFF, DEAD = 0xDB };

static plait_status lacks_memory(uint64_t size_bytes, const char *what, uint64_t limit_bytes) {
    return plait_error(PLAIT_OUT_OF_MEMORY, "a buffer of %llu bytes, %s %llu", (unsigned long long)size_bytes,
                       what, (unsigned long long)limit_bytes);
}

/* ---- budget ---- */

/* What a driver's allocator would take: pad= more, in whole granules. granularity_bytes is at least 1. */
plait_status plait_sim_allocation_bytes(plait_device *base, uint64_t size_bytes, uint32_t usage,
                                        uint64_t *out_bytes) {
    const plait_sim_device *device = (const plait_sim_device *)base;
    uint64_t padded, grain = device->granularity_bytes;
    (void)usage;
    if (!plait_add_u64(size_bytes, device->options.pad_bytes, &padded) || padded > UINT64_MAX - grain)
        return plait_error(PLAIT_OUT_OF_RANGE, "%s: a buffer of %llu bytes", base->name,
                           (unsigned long long)size_bytes);
    *out_bytes = (padded + grain - 1) / grain * grain;
    return PLAIT_OK;
}

/* Without a size of its own the device has what the one inside has left, if that is less: memory of the machine, which
 * others take too. The device inside is asked without the lock. */
uint64_t plait_sim_free_bytes(plait_sim_device *device) {
    uint64_t total, inner_left = UINT64_MAX;
    pthread_mutex_lock(&device->lock);
    uint64_t left = device->memory_bytes - device->used_bytes;
    pthread_mutex_unlock(&device->lock);
    if (!device->options.mem_bytes &&
        device->inner->vtable->memory_query(device->inner, &total, &inner_left) != PLAIT_OK)
        return left;
    return inner_left < left ? inner_left : left;
}

/* Unlike describe, not of a lost device. */
plait_status plait_sim_memory_query(plait_device *base, uint64_t *out_total_bytes, uint64_t *out_free_bytes) {
    plait_sim_device *device = (plait_sim_device *)base;
    PLAIT_TRY(plait_sim_alive(device));
    *out_total_bytes = device->memory_bytes;
    *out_free_bytes = plait_sim_free_bytes(device);
    return PLAIT_OK;
}

/* Looks and takes under one lock, so that two threads cannot both get the last bytes. */
static plait_status take(plait_sim_device *device, uint64_t size_bytes, uint32_t usage, uint64_t *out_taken) {
    uint64_t bytes;
    if (size_bytes > device->max_buffer_bytes)
        return lacks_memory(size_bytes, "the largest buffer has", device->max_buffer_bytes);
    PLAIT_TRY(plait_sim_allocation_bytes(&device->base, size_bytes, usage, &bytes));
    pthread_mutex_lock(&device->lock);
    uint64_t left = device->memory_bytes - device->used_bytes;
    if (bytes <= left) device->used_bytes += bytes;
    pthread_mutex_unlock(&device->lock);
    if (bytes > left) return lacks_memory(size_bytes, "which takes more than what is free:", left);
    *out_taken = bytes;
    return PLAIT_OK;
}

static void give_back(plait_sim_device *device, uint64_t taken_bytes) {
    pthread_mutex_lock(&device->lock);
    device->used_bytes -= taken_bytes;
    pthread_mutex_unlock(&device->lock);
}

/* ---- bytes ---- */

/* The alias where there is one, else what the device inside has mapped (of an import: the host's own memory); NULL for
 * neither. */
void *plait_sim_private(const plait_sim_buffer *buffer) {
    return buffer->map.alias ? buffer->map.alias : buffer->inner ? buffer->inner->host : NULL;
}

/* Fills in map, inner and the published address; whatever was made when it fails is freed by free_buffer. A staging
 * buffer is open to the host, and published where it is mapped; of others `host` stays NULL, as of any device with
 * memory of its own. */
static plait_status find_bytes(plait_sim_device *device, plait_sim_buffer *buffer) {
    const plait_device_vtable *inner = device->inner->vtable;
    uint64_t size_bytes = buffer->base.size_bytes;
    bool open = (buffer->base.usage & PLAIT_BUFFER_STAGING) != 0;
    if (device->inner_imports) {
        PLAIT_TRY(plait_sim_map_init(&buffer->map, size_bytes, open));
        PLAIT_TRY(inner->buffer_import(device->inner, buffer->map.alias, size_bytes, buffer->base.usage,
                                       &buffer->inner));
        if (open) buffer->base.host = buffer->map.published;
    } else {
        PLAIT_TRY(plait_sim_map_init_published(&buffer->map, size_bytes));
        PLAIT_TRY(inner->buffer_create(device->inner, size_bytes, buffer->base.usage, &buffer->inner));
        if (open) buffer->base.host = buffer->inner->host;
    }
    if (device->options.nan) memset(plait_sim_private(buffer), UNWRITTEN, size_bytes);
    return PLAIT_OK;
}

/* Keeps the addresses of a dead buffer faulting for as long as few others die: the system would give them to the next
 * mapping, and a late touch would find that one's bytes. The grave that it takes over is emptied outside of the
 * lock. */
static void bury(plait_sim_device *device, plait_sim_map *map) {
    plait_sim_map old;
    plait_sim_map_bury(map);
    pthread_mutex_lock(&device->lock);
    plait_sim_map *grave = &device->graves[device->n_buried++ % PLAIT_SIM_GRAVES];
    old = *grave;
    *grave = *map;
    pthread_mutex_unlock(&device->lock);
    plait_sim_map_deinit(&old);
}

/* Of a buffer at any stage of being made. Its bytes are overwritten before the device inside loses it: one that still
 * reads them reads 0xDB and not what was right. Imported memory is somebody's, and is left alone. */
static void free_buffer(plait_sim_device *device, plait_sim_buffer *buffer) {
    bool poison = device->options.poison && !buffer->imported;
    void *bytes = plait_sim_private(buffer);
    if (poison && bytes) memset(bytes, DEAD, buffer->base.size_bytes);
    if (buffer->inner) device->inner->vtable->buffer_destroy(buffer->inner);
    if (poison && buffer->map.published)
        bury(device, &buffer->map);
    else
        plait_sim_map_deinit(&buffer->map);
    give_back(device, buffer->taken_bytes);
    free(buffer->name);
    free(buffer);
}

/* Scratch outside of its group's time has no content that anybody may rely on; a range of no bytes, or of a slot that
 * is empty, is nothing. */
void plait_sim_poison(const plait_sim_device *device, plait_buffer *const *slots,
                      const plait_sim_range *range) {
    const plait_buffer *buffer = range->begin < range->end && slots ? slots[range->slot] : NULL;
    if (!device->options.poison || !buffer || range->end > buffer->size_bytes) return;
    memset((char *)plait_sim_private((const plait_sim_buffer *)buffer) + range->begin, DEAD,
           range->end - range->begin);
}

/* ---- the vtable's part ---- */

static plait_sim_buffer *new_buffer(plait_device *device, uint64_t size_bytes, uint32_t usage) {
    plait_sim_buffer *buffer = plait_alloc_array(1, sizeof *buffer);
    if (!buffer) return NULL;
    buffer->base = (plait_buffer){.device = device, .size_bytes = size_bytes, .usage = usage};
    return buffer;
}

/* The call is counted before anything is taken, so that the n-th allocation fails whatever its size. */
plait_status plait_sim_buffer_create(plait_device *base, uint64_t size_bytes, uint32_t usage,
                                     plait_buffer **out) {
    plait_sim_device *device = (plait_sim_device *)base;
    PLAIT_TRY(plait_sim_alive(device));
    PLAIT_TRY(plait_sim_count(device, PLAIT_SIM_FAIL_ALLOC));
    plait_sim_buffer *buffer = new_buffer(base, size_bytes, usage);
    if (!buffer) return plait_error_memory("buffer", sizeof *buffer);
    plait_status status = take(device, size_bytes, usage, &buffer->taken_bytes);
    if (status == PLAIT_OK) status = find_bytes(device, buffer);
    if (status != PLAIT_OK) {
        free_buffer(device, buffer);
        return plait_error_context(status, "%s", base->name);
    }
    *out = &buffer->base;
    return PLAIT_OK;
}

/* Off unless asked for: a planner that can import needs no copies, and sim is there to make it copy. Takes none of the
 * budget. */
plait_status plait_sim_buffer_import(plait_device *base, void *host, uint64_t size_bytes, uint32_t usage,
                                     plait_buffer **out) {
    plait_sim_device *device = (plait_sim_device *)base;
    PLAIT_TRY(plait_sim_alive(device));
    if (!device->options.import || !device->inner_imports)
        return plait_error(PLAIT_UNSUPPORTED, "%s: import of host memory %s", base->name,
                           device->options.import ? "is more than the device inside can"
                                                  : "was not asked for (import=yes)");
    plait_sim_buffer *buffer = new_buffer(base, size_bytes, usage);
    if (!buffer) return plait_error_memory("buffer", sizeof *buffer);
    plait_status status =
        device->inner->vtable->buffer_import(device->inner, host, size_bytes, usage, &buffer->inner);
    if (status != PLAIT_OK) {
        free(buffer);
        return plait_error_context(status, "%s", base->name);
    }
    buffer->imported = buffer->base.host = host;
    *out = &buffer->base;
    return PLAIT_OK;
}

void plait_sim_buffer_destroy(plait_buffer *buffer) {
    if (buffer) free_buffer((plait_sim_device *)buffer->device, (plait_sim_buffer *)buffer);
}

void *plait_sim_published(const plait_buffer *buffer) {
    return plait_sim_is(buffer->device) ? ((const plait_sim_buffer *)buffer)->map.published : NULL;
}
