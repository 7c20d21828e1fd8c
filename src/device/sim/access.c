/* What commands touch: whether the order of two of them can be told from any byte, and whether their regions are ones
 * that exist. Everything is an upper bound: fields that are read when a command runs count in full. Not here: doing it
 * (queue.c).
 *
 * Invariant: two commands of which one writes what the other touches are never called unordered; the opposite may
 * happen, and costs a batch that is shorter than it could be. */
#include "device/sim/sim.h"

#include "base/size.h"
#include "plait/host_queue.h"

typedef struct access {
    const void *space; /* a buffer that the host cannot address, or NULL for host memory */
    uint64_t begin, end;
    bool written;
} access;

/* Bytes [offset, +size) of a buffer. Buffers that the host can address may overlap host memory, and each other, so they
 * are all one space, by address. What the host cannot address is a space of its own. */
static access of_buffer(const plait_buffer *buffer, uint64_t offset, uint64_t size_bytes, bool written) {
    uint64_t end;
    if (!plait_add_u64(offset, size_bytes, &end)) end = UINT64_MAX;
    access a = {.space = buffer, .begin = offset, .end = end, .written = written};
    if (buffer && buffer->host) {
        a.space = NULL;
        a.begin += (uint64_t)(uintptr_t)buffer->host;
        if (!plait_add_u64(end, (uint64_t)(uintptr_t)buffer->host, &a.end)) a.end = UINT64_MAX;
    }
    return a;
}

static access of_region(const plait_region *region, bool written) {
    return of_buffer(region->buffer, region->offset, region->size_bytes, written);
}

/* No address: no bytes, as of fields that were left out. */
static access of_host(const void *host, uint64_t size_bytes, bool written) {
    uint64_t begin = (uint64_t)(uintptr_t)host, end;
    if (!plait_add_u64(begin, size_bytes, &end)) end = UINT64_MAX;
    return (access){.begin = begin, .end = host ? end : begin, .written = written};
}

/* The i-th access of a transfer; false behind the last. The region counts in full, whatever size_bytes will say. Fields
 * behind pointers are accesses too: a READ may be writing the very size that a later command reads. */
static bool of_transfer(const plait_command *command, size_t i, access *out) {
    const plait_region *region = &command->transfer.region;
    const plait_box *box = command->transfer.box;
    bool write = command->kind == PLAIT_COMMAND_WRITE;
    uint64_t host_bytes = region->size_bytes;
    if (box)
        host_bytes = plait_box_span(box, write ? box->source_row_pitch : box->target_row_pitch,
                                    write ? box->source_plane_pitch : box->target_plane_pitch);
    switch (i) {
    case 0: *out = of_region(region, write); return true;
    case 1: *out = of_host(command->transfer.host, host_bytes, !write); return true;
    case 2: *out = of_host(command->transfer.size_bytes, sizeof(uint64_t), false); return true;
    case 3: *out = of_host(box, sizeof *box, false); return true;
    default: return false;
    }
}

/* The box and the size are read when the command runs, so they are accesses to host memory. */
static bool of_copy(const plait_command *command, size_t i, access *out) {
    switch (i) {
    case 0: *out = of_region(&command->copy.source, false); return true;
    case 1: *out = of_region(&command->copy.target, true); return true;
    case 2: *out = of_host(command->copy.size_bytes, sizeof(uint64_t), false); return true;
    case 3: *out = of_host(command->copy.box, sizeof *command->copy.box, false); return true;
    default: return false;
    }
}

/* What the program's nodes touch, at the bounds of the dims, then the arrays that the command points to. */
static bool of_launch(const plait_command *command, size_t i, access *out) {
    const plait_program *program = command->launch.program;
    plait_buffer *const *slots = command->launch.slots;
    if (!program) return false; /* it will be refused */
    if (i < program->n_ranges) {
        const plait_sim_range *range = &program->ranges[i];
        const plait_buffer *buffer = slots ? slots[range->slot] : NULL;
        *out = of_buffer(buffer, range->begin, range->end - range->begin, range->written);
        return true;
    }
    switch (i - program->n_ranges) {
    case 0: *out = of_host(slots, (uint64_t)program->n_slots * sizeof *slots, false); return true;
    case 1:
        *out = of_host(command->launch.dims, (uint64_t)program->n_dims * sizeof(int64_t), false);
        return true;
    default: return false;
    }
}

/* The i-th access of a command that touches bytes; false behind the last. */
static bool access_at(const plait_command *command, size_t i, access *out) {
    switch (command->kind) {
    case PLAIT_COMMAND_WRITE:
    case PLAIT_COMMAND_READ: return of_transfer(command, i, out);
    case PLAIT_COMMAND_COPY: return of_copy(command, i, out);
    case PLAIT_COMMAND_LAUNCH: return of_launch(command, i, out);
    case PLAIT_COMMAND_FILL: *out = of_region(&command->fill.region, true); return i == 0;
    case PLAIT_COMMAND_SIGNAL:
    case PLAIT_COMMAND_WAIT: break;
    }
    return false;
}

/* Events are a border: what is signalled may be waited for by anybody, who then sees all that was before. */
static bool is_event(const plait_command *command) {
    return command->kind == PLAIT_COMMAND_SIGNAL || command->kind == PLAIT_COMMAND_WAIT;
}

/* Every access of one against every access of the other. Two ranges meet when each begins before the other ends; ranges
 * of no bytes meet nothing. */
bool plait_sim_ordered(const plait_command *a, const plait_command *b) {
    access x, y;
    const plait_launch_trace *trace = plait_command_trace(a);
    if (is_event(a) || is_event(b)) return true;
    if (trace && trace == plait_command_trace(b)) return true; /* it shows whose span came first */
    for (size_t i = 0; access_at(a, i, &x); i++)
        for (size_t j = 0; access_at(b, j, &y); j++)
            if ((x.written || y.written) && x.space == y.space && x.begin < y.end && y.begin < x.end)
                return true;
    return false;
}

/* ---- regions ---- */

/* Only sums are made with it here: whether a region is inside its buffer does not need a byte of it. */
static unsigned char *address(plait_device *device, const plait_buffer *buffer) {
    if (!plait_sim_reaches(device, buffer->device)) return NULL;
    return plait_sim_is(buffer->device) ? plait_sim_private((const plait_sim_buffer *)buffer) : buffer->host;
}

static const plait_host_hooks anywhere = {.address = address};

/* Rows and planes of one side step over one another: a pitch that is smaller than what it steps over makes a side
 * overlap itself, and the result depend on the order of rows. A pitch over a single row or plane is never used. */
static plait_status check_pitch(const plait_device *device, const plait_box *box, const char *side,
                                uint64_t row_pitch, uint64_t plane_pitch) {
    plait_box plane = {box->row_bytes, box->n_rows, 1, 0, 0, 0, 0};
    if (!plait_box_span(box, row_pitch, plane_pitch)) return PLAIT_OK;
    if ((box->n_rows == 1 || row_pitch >= box->row_bytes) &&
        (box->n_planes == 1 || plane_pitch >= plait_box_span(&plane, row_pitch, 0)))
        return PLAIT_OK;
    return plait_error(PLAIT_INVALID_ARGUMENT,
                       "%s: a box whose %s overlaps itself: %llu rows of %llu bytes, pitches %llu and %llu",
                       device->name, side, (unsigned long long)box->n_rows,
                       (unsigned long long)box->row_bytes, (unsigned long long)row_pitch,
                       (unsigned long long)plane_pitch);
}

static plait_status check_box(plait_device *base, const plait_box *box) {
    if (!box) return PLAIT_OK;
    PLAIT_TRY(plait_sim_offers((const plait_sim_device *)base, PLAIT_SIM_NO_BOXES));
    PLAIT_TRY(check_pitch(base, box, "source", box->source_row_pitch, box->source_plane_pitch));
    return check_pitch(base, box, "target", box->target_row_pitch, box->target_plane_pitch);
}

/* The message names the device, and the buffer where a name was given to it. */
static plait_status check_region(plait_device *device, const plait_region *region, uint64_t size_bytes,
                                 const char *what) {
    unsigned char *bytes;
    const plait_buffer *buffer = region->buffer;
    const char *name =
        buffer && plait_sim_is(buffer->device) ? ((const plait_sim_buffer *)buffer)->name : NULL;
    plait_status status = plait_host_region_bytes(device, &anywhere, region, size_bytes, what, &bytes);
    return name ? plait_error_context(status, "%s, buffer \"%s\"", device->name, name)
                : plait_error_context(status, "%s", device->name);
}

/* Transfers are between the host and this device's own memory; other devices' buffers are for COPY. */
static plait_status check_transfer(plait_device *device, const plait_command *command) {
    const plait_region *region = &command->transfer.region;
    const plait_box *box = command->transfer.box;
    bool write = command->kind == PLAIT_COMMAND_WRITE;
    uint64_t n = command->transfer.size_bytes ? *command->transfer.size_bytes : region->size_bytes;
    PLAIT_TRY(check_box(device, box));
    if (box)
        n = plait_box_span(box, write ? box->target_row_pitch : box->source_row_pitch,
                           write ? box->target_plane_pitch : box->source_plane_pitch);
    if (region->buffer && region->buffer->device != device)
        return plait_error(PLAIT_INVALID_ARGUMENT, "%s: %s of a buffer of %s", device->name,
                           write ? "write" : "read", region->buffer->device->name);
    return check_region(device, region, n, write ? "write" : "read");
}

/* Source and target of one buffer may not meet, by the contract: an engine may move either end first. */
static plait_status check_copy(plait_device *device, const plait_command *command) {
    const plait_region *source = &command->copy.source, *target = &command->copy.target;
    const plait_box *box = command->copy.box;
    uint64_t n = command->copy.size_bytes ? *command->copy.size_bytes : source->size_bytes, m = n;
    PLAIT_TRY(check_box(device, box));
    if (box) {
        n = plait_box_span(box, box->source_row_pitch, box->source_plane_pitch);
        m = plait_box_span(box, box->target_row_pitch, box->target_plane_pitch);
    }
    PLAIT_TRY(check_region(device, source, n, "copy, source"));
    PLAIT_TRY(check_region(device, target, m, "copy, target"));
    bool meet = source->buffer == target->buffer && source->offset < target->offset + m &&
                target->offset < source->offset + n;
    if (!meet || box) return PLAIT_OK; /* two boxes may lie in one another's gaps */
    return plait_error(PLAIT_INVALID_ARGUMENT, "%s: a copy of %llu bytes whose source and target overlap",
                       device->name, (unsigned long long)n);
}

/* Done before a command joins a batch, and not when it is executed: a refused command must be the last of its batch. */
plait_status plait_sim_check_regions(plait_device *device, const plait_command *command) {
    switch (command->kind) {
    case PLAIT_COMMAND_WRITE:
    case PLAIT_COMMAND_READ: return check_transfer(device, command);
    case PLAIT_COMMAND_COPY: return check_copy(device, command);
    case PLAIT_COMMAND_FILL:
        return check_region(device, &command->fill.region, command->fill.region.size_bytes, "fill");
    case PLAIT_COMMAND_LAUNCH:
    case PLAIT_COMMAND_SIGNAL:
    case PLAIT_COMMAND_WAIT: break;
    }
    return PLAIT_OK;
}
