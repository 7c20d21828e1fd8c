/* Buffers. Mapped memory gets guard bytes on both sides, and a pattern that stays where nobody writes; the inner device
 * then works on an import of exactly the bytes that were asked for. Not here: memory that is not mapped, which only
 * level FULL looks at (contents.c); spans (shadow.c).
 *
 * Invariant: offsets of the caller are offsets of the inner buffer. */
#include "device/monitor/monitor.h"

#include "base/alloc.h"
#include "base/size.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Bytes that nobody wrote: NaN as float32, and as every second value of float16 and bfloat16. By place, so that a moved
 * piece is noticed. */
static const unsigned char pattern[4] = {0xA5, 0xA5, 0xA5, 0x7F};
enum { GUARD_BYTES = 4096, RUN_BYTES = 16 };

unsigned char plait_monitor_pattern(uint64_t offset) {
    return pattern[offset % sizeof pattern];
}

/* Counted from the start of the buffer or guard, which is what its offsets count from. */
static void lay_pattern(unsigned char *bytes, uint64_t n) {
    for (uint64_t i = 0; i < n && i < sizeof pattern; i++) bytes[i] = plait_monitor_pattern(i);
    for (uint64_t done = sizeof pattern; done < n;) { /* doubling: copies are fast */
        uint64_t more = n - done < done ? n - done : done;
        memcpy(bytes + done, bytes, more);
        done += more;
    }
}

/* The pattern counts from the start of these bytes, as lay_pattern laid it. */
static bool pattern_lies(const unsigned char *bytes, uint64_t n, uint64_t *out_at) {
    for (uint64_t i = 0; i < n; i++)
        if (bytes[i] != plait_monitor_pattern(i)) return *out_at = i, false;
    return true;
}

/* Buffers of other monitors' devices, and of devices that are not wrapped, are none. */
plait_monitor_buffer *plait_monitor_buffer_of(const plait_monitor *monitor, const plait_buffer *buffer) {
    if (!buffer || !plait_monitor_device_of(monitor, buffer->device)) return NULL;
    return (plait_monitor_buffer *)(uintptr_t)buffer;
}

/* ---- mapped memory ---- */

enum { MOST_MAPPED = 1 << 20 };

/* The first that ends behind the address. Living buffers do not overlap (imports are left out), so one order serves
 * both ends. */
static size_t find_mapped(const plait_monitor *monitor, uint64_t address) {
    size_t low = 0, high = monitor->n_mapped;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (monitor->mapped[middle].end > address)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

/* The buffer that holds all n bytes, or NULL. */
static plait_monitor_mapped *mapped_at(const plait_monitor *monitor, uint64_t address, uint64_t n) {
    size_t i = find_mapped(monitor, address);
    if (i == monitor->n_mapped) return NULL;
    plait_monitor_mapped *row = &monitor->mapped[i];
    return address >= row->begin && n <= row->end - address ? row : NULL;
}

/* So that transfers whose host side is a buffer's memory count as accesses to that buffer. Imports are not entered:
 * their memory is the host's, or another buffer's. */
static plait_status add_mapped(plait_monitor *monitor, plait_monitor_buffer *buffer) {
    uint64_t begin = (uint64_t)(uintptr_t)buffer->inner->host, size = buffer->base.size_bytes;
    void *rows = monitor->mapped;
    if (begin == 0 || size == 0 || buffer->imported) return PLAIT_OK;
    plait_status status = plait_grow(&rows, &monitor->mapped_capacity, monitor->n_mapped + 1,
                                     sizeof *monitor->mapped, MOST_MAPPED, "monitor: buffers");
    monitor->mapped = rows;
    PLAIT_TRY(status);
    size_t at = find_mapped(monitor, begin);
    memmove(monitor->mapped + at + 1, monitor->mapped + at,
            (monitor->n_mapped - at) * sizeof *monitor->mapped);
    monitor->mapped[at] = (plait_monitor_mapped){begin, begin + size, buffer};
    monitor->n_mapped++;
    return PLAIT_OK;
}

/* A buffer that was never entered is found nowhere. */
static void remove_mapped(plait_monitor *monitor, const plait_monitor_buffer *buffer) {
    for (size_t i = 0; i < monitor->n_mapped; i++) {
        if (monitor->mapped[i].buffer != buffer) continue;
        memmove(monitor->mapped + i, monitor->mapped + i + 1,
                (monitor->n_mapped - i - 1) * sizeof *monitor->mapped);
        monitor->n_mapped--;
        return;
    }
}

/* ---- making ---- */

/* One usage a buffer: devices place by it, and two would be two places. */
static plait_status check_usage(const plait_monitor_call *call, uint32_t usage) {
    const uint32_t all =
        PLAIT_BUFFER_WEIGHTS | PLAIT_BUFFER_STATE | PLAIT_BUFFER_TEMPORARY | PLAIT_BUFFER_STAGING;
    if (plait_is_power_of_two(usage) && (usage & all)) return PLAIT_OK;
    return plait_monitor_report(call, PLAIT_MONITOR_USAGE, NULL, NULL,
                                "usage is 0x%x, expected one of WEIGHTS 1, STATE 2, TEMPORARY 4, STAGING 8",
                                usage);
}

/* A buffer with room for guards, and an import of what lies between them. False when that cannot be had: then nothing
 * has changed, and the caller's message neither. Guards are at least an alignment long, so that the import begins at
 * one. */
static bool create_guarded(const plait_monitor_call *call, uint64_t size_bytes, uint32_t usage,
                           plait_monitor_buffer *buffer) {
    plait_device *real = call->device->inner;
    uint64_t guard = GUARD_BYTES, total;
    plait_error_record kept; /* the attempt is ours: its failure is nobody's message */
    if (call->device->info.alignment > guard) guard = call->device->info.alignment;
    if (!(call->device->info.caps & PLAIT_CAP_MAPPED) || !plait_add_u64(size_bytes, 2 * guard, &total))
        return false;
    plait_error_save(PLAIT_INTERNAL, &kept);
    plait_buffer *outer = NULL, *inner = NULL;
    bool made = real->vtable->buffer_create(real, total, usage, &outer) == PLAIT_OK && outer;
    bool imported = made && outer->host &&
                    real->vtable->buffer_import(real, (char *)outer->host + guard, size_bytes, usage,
                                                &inner) == PLAIT_OK &&
                    inner;
    plait_error_raise(&kept);
    if (!imported) {
        if (made) real->vtable->buffer_destroy(outer);
        return false;
    }
    buffer->outer = outer;
    buffer->inner = inner;
    /* Guards in front and behind; the buffer's own bytes get the pattern when it is made. */
    buffer->front = outer->host;
    buffer->back = (unsigned char *)outer->host + guard + size_bytes;
    buffer->front_bytes = buffer->back_bytes = guard;
    lay_pattern(buffer->front, guard);
    lay_pattern(buffer->back, guard);
    return true;
}

/* Without imports there is room behind the end only. Memory that is not mapped needs commands to be looked at, so only
 * level FULL does that. Staging buffers are left alone: their size is what the host sees. False leaves everything as it
 * was. */
static bool create_tailed(const plait_monitor_call *call, uint64_t size_bytes, uint32_t usage,
                          plait_monitor_buffer *buffer) {
    plait_device *real = call->device->inner;
    bool mapped = (call->device->info.caps & PLAIT_CAP_MAPPED) != 0;
    plait_error_record kept;
    uint64_t total;
    if ((!mapped && call->device->monitor->level != PLAIT_MONITOR_FULL) || usage == PLAIT_BUFFER_STAGING ||
        !plait_add_u64(size_bytes, GUARD_BYTES, &total))
        return false;
    plait_error_save(PLAIT_INTERNAL, &kept);
    plait_buffer *inner = NULL;
    plait_status status = real->vtable->buffer_create(real, total, usage, &inner);
    plait_error_raise(&kept);
    if (status != PLAIT_OK || !inner) return false;
    buffer->inner = inner;
    buffer->tail_bytes = GUARD_BYTES;
    /* A device that makes the size asked for, and shows its memory: the guard is laid here. Otherwise by commands, or
     * not at all. */
    if (inner->size_bytes == total && mapped && inner->host) {
        buffer->back = (unsigned char *)inner->host + size_bytes;
        buffer->back_bytes = GUARD_BYTES;
        lay_pattern(buffer->back, buffer->back_bytes);
        return true;
    }
    if (inner->size_bytes == total && plait_monitor_lay_tail(call, buffer) == PLAIT_OK) return true;
    plait_error_raise(&kept);
    real->vtable->buffer_destroy(inner);
    buffer->inner = NULL;
    buffer->tail_bytes = 0;
    return false;
}

/* The best that can be had: guards on both sides, behind the end, none. Only the last attempt's failure is the
 * caller's. */
static plait_status create_inner(const plait_monitor_call *call, uint64_t size_bytes, uint32_t usage,
                                 plait_monitor_buffer *buffer) {
    plait_device *real = call->device->inner;
    plait_buffer *inner = NULL;
    if (create_guarded(call, size_bytes, usage, buffer) || create_tailed(call, size_bytes, usage, buffer))
        return PLAIT_OK;
    PLAIT_MONITOR_CREATE(call, inner, real->vtable->buffer_create(real, size_bytes, usage, &inner));
    buffer->inner = inner;
    return PLAIT_OK;
}

/* What the device says of the buffer that it made, guards taken off. */
static plait_status judge(const plait_monitor_call *call, const plait_monitor_buffer *buffer,
                          uint64_t size_bytes, uint32_t usage) {
    const plait_buffer *inner = buffer->inner;
    uint64_t made = inner->size_bytes - buffer->tail_bytes;
    bool mapped = (call->device->info.caps & PLAIT_CAP_MAPPED) || usage == PLAIT_BUFFER_STAGING;
    if (made != size_bytes || inner->usage != usage || inner->device != call->device->inner)
        return plait_monitor_report(
            call, PLAIT_MONITOR_OBJECT, NULL, NULL, "a buffer of %llu bytes for 0x%x says %llu, 0x%x%s",
            (unsigned long long)size_bytes, usage, (unsigned long long)made, inner->usage,
            inner->device == call->device->inner ? "" : " and another device");
    if (mapped && !inner->host && size_bytes)
        return plait_monitor_report(call, PLAIT_MONITOR_OBJECT, NULL, NULL,
                                    "a buffer of %llu bytes for 0x%x is not mapped for the host",
                                    (unsigned long long)size_bytes, usage);
    return PLAIT_OK;
}

static void open_window(plait_monitor_buffer *window, plait_monitor_buffer *whole, uint64_t part) {
    window->whole = whole;
    window->part = part;
    window->next_window = whole->windows;
    whole->windows = window;
}

/* Either side may end first, a whole before its windows only by a breach of the caller's; nobody keeps the address of who
 * has ended. */
static void close_windows(plait_monitor_buffer *buffer) {
    for (plait_monitor_buffer *w = buffer->windows; w; w = w->next_window) w->whole = NULL;
    buffer->windows = NULL;
    if (!buffer->whole) return;
    plait_monitor_buffer **link = &buffer->whole->windows;
    while (*link != buffer) link = &(*link)->next_window;
    *link = buffer->next_window;
    buffer->whole = NULL;
}

/* From here on it is an object. An import of memory that lies within a buffer of ours is a window onto it: accesses are
 * noted there, or two windows onto the same bytes would not know of each other. */
static plait_status begin_buffer(const plait_monitor_call *call, plait_monitor_buffer *buffer,
                                 uint64_t size_bytes, uint32_t usage) {
    plait_monitor *monitor = call->device->monitor;
    void *host = buffer->inner->host;
    buffer->base =
        (plait_buffer){.device = &call->device->base, .size_bytes = size_bytes, .usage = usage, .host = host};
    plait_monitor_lock(monitor);
    /* Only when all of it lies in one living buffer; otherwise it is host memory of its own. */
    if (buffer->imported && host) {
        const plait_monitor_mapped *row = mapped_at(monitor, (uint64_t)(uintptr_t)host, size_bytes);
        if (row) open_window(buffer, row->buffer, (uint64_t)(uintptr_t)host - row->begin);
    }
    plait_status status = add_mapped(monitor, buffer);
    if (status == PLAIT_OK) plait_monitor_object_begin(call, PLAIT_OBJECT_BUFFER, &buffer->object);
    plait_monitor_unlock(monitor);
    return status;
}

/* The import before what it shows. */
static void free_inner(plait_monitor_buffer *buffer) {
    if (buffer->inner) buffer->inner->device->vtable->buffer_destroy(buffer->inner);
    if (buffer->outer) buffer->outer->device->vtable->buffer_destroy(buffer->outer);
    buffer->inner = buffer->outer = NULL;
    buffer->front = buffer->back = NULL;
    plait_monitor_shadow_deinit(&buffer->shadow);
}

/* Without the struct nothing is left. */
static plait_status drop(plait_monitor_buffer *buffer, plait_status status) {
    free_inner(buffer);
    free(buffer);
    return status;
}

/* The pattern is laid before anybody has the buffer. Failing, nothing of it is left, guards included. */
plait_status plait_monitor_buffer_create(plait_device *device, uint64_t size_bytes, uint32_t usage,
                                         plait_buffer **out) {
    plait_monitor_call call = plait_monitor_begin(device, PLAIT_MONITOR_F_buffer_create);
    PLAIT_TRY(check_usage(&call, usage));
    plait_monitor_buffer *buffer = plait_alloc_array(1, sizeof *buffer);
    if (!buffer) return plait_error_memory("monitor: buffer", sizeof *buffer);
    plait_status status = create_inner(&call, size_bytes, usage, buffer);
    if (status == PLAIT_OK) status = judge(&call, buffer, size_bytes, usage);
    if (status != PLAIT_OK) return drop(buffer, status);
    if (buffer->inner->host) {
        lay_pattern(buffer->inner->host, size_bytes);
        buffer->patterned = true;
    }
    status = begin_buffer(&call, buffer, size_bytes, usage);
    if (status != PLAIT_OK) return drop(buffer, status);
    *out = &buffer->base;
    return PLAIT_OK;
}

/* What the host has there is the host's business: it counts as written. */
plait_status plait_monitor_buffer_import(plait_device *device, void *host, uint64_t size_bytes,
                                         uint32_t usage, plait_buffer **out) {
    plait_monitor_call call = plait_monitor_begin(device, PLAIT_MONITOR_F_buffer_import);
    plait_device *real = call.device->inner;
    PLAIT_TRY(check_usage(&call, usage));
    plait_buffer *inner = NULL;
    PLAIT_MONITOR_CREATE(&call, inner, real->vtable->buffer_import(real, host, size_bytes, usage, &inner));
    plait_monitor_buffer *buffer = plait_alloc_array(1, sizeof *buffer);
    if (!buffer) {
        real->vtable->buffer_destroy(inner);
        return plait_error_memory("monitor: buffer", sizeof *buffer);
    }
    buffer->inner = inner;
    buffer->imported = true;
    plait_status status = judge(&call, buffer, size_bytes, usage);
    if (status != PLAIT_OK) return drop(buffer, status);
    plait_monitor_shadow_write(&buffer->shadow, 0, size_bytes);
    status = begin_buffer(&call, buffer, size_bytes, usage);
    if (status != PLAIT_OK) return drop(buffer, status);
    *out = &buffer->base;
    return PLAIT_OK;
}

/* ---- ending ---- */

/* Everything but the struct, which stays in its ring or the quarantine. */
void plait_monitor_buffer_release(plait_monitor_buffer *buffer) {
    remove_mapped(buffer->object.device->monitor, buffer);
    close_windows(buffer);
    free_inner(buffer);
}

/* Not found by address any more in any case. In use: what the device has is kept until the device ends. */
void plait_monitor_buffer_destroy(plait_buffer *base) {
    if (!base) return;
    plait_monitor_buffer *buffer = (plait_monitor_buffer *)base;
    plait_monitor_call call = plait_monitor_begin(base->device, PLAIT_MONITOR_F_buffer_destroy);
    plait_monitor *monitor = call.device->monitor;
    plait_monitor_lock(monitor);
    if (plait_monitor_object_check(&call, &buffer->object) == PLAIT_OK) {
        remove_mapped(monitor, buffer);
        close_windows(buffer);
        if (plait_monitor_object_idle(&call, &buffer->object) == PLAIT_OK) {
            plait_monitor_check_guards(&call, buffer);
            plait_monitor_buffer_release(buffer);
            plait_monitor_object_end(&call, &buffer->object);
        } else {
            plait_monitor_object_hold(&call, &buffer->object);
        }
    }
    plait_monitor_unlock(monitor);
}

/* ---- bytes ---- */

/* A guard that was written over is laid again, so that each breach is said once. */
plait_status plait_monitor_check_guards(const plait_monitor_call *call, plait_monitor_buffer *buffer) {
    uint64_t at;
    /* Both sides may have been written; the first one found is said, the other at the next look. */
    if (buffer->front && !pattern_lies(buffer->front, buffer->front_bytes, &at)) {
        lay_pattern(buffer->front, buffer->front_bytes); /* said once */
        return plait_monitor_report(call, PLAIT_MONITOR_WRITE_OUTSIDE, &buffer->object, NULL,
                                    "byte -%llu, in front of it, was written",
                                    (unsigned long long)(buffer->front_bytes - at));
    }
    if (buffer->back && !pattern_lies(buffer->back, buffer->back_bytes, &at)) {
        lay_pattern(buffer->back, buffer->back_bytes);
        return plait_monitor_report(call, PLAIT_MONITOR_WRITE_OUTSIDE, &buffer->object, NULL,
                                    "byte %llu of %llu, behind its end, was written",
                                    (unsigned long long)(buffer->base.size_bytes + at),
                                    (unsigned long long)buffer->base.size_bytes);
    }
    return PLAIT_OK;
}

/* A run of the pattern in mapped bytes that no command wrote; false when the host has written there, which nobody tells
 * the monitor. Runs shorter than RUN_BYTES may be chance, unless that is all there is. */
static bool still_pattern(const plait_monitor_buffer *buffer, uint64_t begin, uint64_t end,
                          uint64_t *out_begin, uint64_t *out_end) {
    const unsigned char *bytes = buffer->inner->host;
    uint64_t run = 0, least = end - begin < RUN_BYTES ? end - begin : RUN_BYTES;
    for (uint64_t i = begin; i < end; i++) {
        run = bytes[i] == plait_monitor_pattern(i) ? run + 1 : 0;
        if (run < least) continue;
        *out_begin = i + 1 - run;
        while (i < end && bytes[i] == plait_monitor_pattern(i)) i++;
        *out_end = i;
        return true;
    }
    return false;
}

/* `what` where it is given; the operand that a launch is looked at for; "it" otherwise. */
const char *plait_monitor_access_name(const plait_monitor_call *call, const char *what, char out[160]) {
    if (what || !call->program) return what ? what : "it";
    const plait_monitor_operand *operand = &call->program->operands[call->operand];
    snprintf(out, 160, "the launch (node %s, %s %d)", call->program->names[operand->node],
             operand->output ? "output" : "input", operand->position);
    return out;
}

/* Bytes that no command wrote may have been written by the host, where it can: then the pattern is gone, and they count
 * as written from here on. */
plait_status plait_monitor_check_written(const plait_monitor_call *call, plait_monitor_buffer *buffer,
                                         uint64_t begin, uint64_t end, const char *what) {
    uint64_t first, last;
    char name[160];
    /* A window onto a living buffer: the answer is that one's. */
    if (buffer->whole)
        return plait_monitor_check_written(call, buffer->whole, begin + buffer->part, end + buffer->part,
                                           what);
    while (plait_monitor_shadow_unwritten(&buffer->shadow, begin, end, &first, &last)) {
        uint64_t from = first, to = last;
        if (!buffer->patterned || still_pattern(buffer, first, last, &from, &to))
            return plait_monitor_report(call, PLAIT_MONITOR_UNWRITTEN_READ, &buffer->object, NULL,
                                        "%s reads bytes [%llu, %llu), and nobody wrote [%llu, %llu)",
                                        plait_monitor_access_name(call, what, name),
                                        (unsigned long long)begin, (unsigned long long)end,
                                        (unsigned long long)from, (unsigned long long)to);
        plait_monitor_shadow_write(&buffer->shadow, first, last); /* the host did */
    }
    return PLAIT_OK;
}

/* The breach is of the later access; which of the two ran first in fact is not known, and does not matter. What is
 * reported is not noted. */
plait_status plait_monitor_touch(const plait_monitor_call *call, plait_monitor_buffer *buffer, uint64_t begin,
                                 uint64_t end, bool write, const plait_monitor_clock *clock,
                                 const plait_monitor_mark *mark, const char *what) {
    plait_monitor *monitor = call->device->monitor;
    char name[160];
    bool wrote;
    uint64_t at;
    if (begin >= end) return PLAIT_OK;
    if (buffer->whole) {
        plait_monitor_object_use(monitor, &buffer->whole->object, mark);
        return plait_monitor_touch(call, buffer->whole, begin + buffer->part, end + buffer->part, write,
                                   clock, mark, what);
    }
    const plait_monitor_mark *earlier =
        plait_monitor_shadow_conflict(&buffer->shadow, begin, end, write, clock, &wrote, &at);
    if (earlier)
        return plait_monitor_report(call, PLAIT_MONITOR_UNORDERED_ACCESS, &buffer->object, earlier,
                                    "%s %s bytes [%llu, %llu), of which another queue %s byte %llu; nothing "
                                    "orders the two",
                                    plait_monitor_access_name(call, what, name), write ? "writes" : "reads",
                                    (unsigned long long)begin, (unsigned long long)end,
                                    wrote ? "writes" : "reads", (unsigned long long)at);
    plait_monitor_shadow_note(&buffer->shadow, begin, end, write, mark, &monitor->host);
    return PLAIT_OK;
}

/* Host memory that is no buffer's is one space by address. It is the host's own business whether its bytes were
 * written. */
plait_status plait_monitor_touch_host(const plait_monitor_call *call, const void *address,
                                      uint64_t size_bytes, bool write, const plait_monitor_clock *clock,
                                      const plait_monitor_mark *mark, const char *what) {
    plait_monitor *monitor = call->device->monitor;
    uint64_t begin = (uint64_t)(uintptr_t)address, end, at;
    bool wrote;
    if (size_bytes == 0 || !plait_add_u64(begin, size_bytes, &end)) return PLAIT_OK;
    const plait_monitor_mapped *row = mapped_at(monitor, begin, size_bytes);
    if (row) { /* it is a buffer's memory, seen by the host */
        plait_monitor_object_use(monitor, &row->buffer->object, mark);
        begin -= row->begin;
        end -= row->begin;
        if (!write) PLAIT_TRY(plait_monitor_check_written(call, row->buffer, begin, end, what));
        return plait_monitor_touch(call, row->buffer, begin, end, write, clock, mark, what);
    }
    const plait_monitor_mark *earlier =
        plait_monitor_shadow_conflict(&monitor->host_memory, begin, end, write, clock, &wrote, &at);
    if (earlier)
        return plait_monitor_report(call, PLAIT_MONITOR_UNORDERED_ACCESS, NULL, earlier,
                                    "%s %s %llu bytes of host memory at %p, which another queue %s; nothing "
                                    "orders the two",
                                    what, write ? "writes" : "reads", (unsigned long long)size_bytes, address,
                                    wrote ? "writes" : "reads");
    plait_monitor_shadow_note(&monitor->host_memory, begin, end, write, mark, &monitor->host);
    return PLAIT_OK;
}

/* ---- packed weights ---- */

/* The buffer of a region that the host's call works on, checked; and the call as an access to it: by what the host
 * knows, for the call begins at once. */
static plait_status host_region(const plait_monitor_call *call, const plait_region *region, bool write,
                                plait_region *out) {
    plait_monitor *monitor = call->device->monitor;
    plait_monitor_buffer *buffer = plait_monitor_buffer_of(monitor, region->buffer);
    uint64_t end;
    if (!buffer || buffer->object.device != call->device)
        return plait_monitor_report(call, PLAIT_MONITOR_ARGUMENT, NULL, NULL,
                                    "the region's buffer is none of this device");
    PLAIT_TRY(plait_monitor_object_check(call, &buffer->object));
    if (!plait_add_u64(region->offset, region->size_bytes, &end) || end > buffer->base.size_bytes)
        return plait_monitor_report(call, PLAIT_MONITOR_OUT_OF_RANGE, &buffer->object, NULL,
                                    "bytes [%llu, +%llu) of %llu", (unsigned long long)region->offset,
                                    (unsigned long long)region->size_bytes,
                                    (unsigned long long)buffer->base.size_bytes);
    const char *what = plait_monitor_function_name(call->function);
    plait_monitor_mark mark = plait_monitor_host_mark(call);
    if (!write) PLAIT_TRY(plait_monitor_check_written(call, buffer, region->offset, end, what));
    PLAIT_TRY(plait_monitor_touch(call, buffer, region->offset, end, write, &monitor->host, &mark, what));
    *out = (plait_region){buffer->inner, region->offset, region->size_bytes};
    return PLAIT_OK;
}

/* The access is checked and noted first, then the device works without the lock: packing takes long, and other threads
 * load at the same time. */
plait_status plait_monitor_pack(plait_device *device, const plait_operand *source, plait_encoding encoding,
                                int64_t row_begin, int64_t row_end, plait_region target) {
    plait_monitor_call call = plait_monitor_begin(device, PLAIT_MONITOR_F_pack);
    plait_device *real = call.device->inner;
    plait_region region = {0};
    plait_monitor_lock(call.device->monitor);
    plait_status status = host_region(&call, &target, true, &region);
    plait_monitor_unlock(call.device->monitor);
    if (status != PLAIT_OK) return status;
    return plait_monitor_outcome(&call,
                                 real->vtable->pack(real, source, encoding, row_begin, row_end, region));
}

plait_status plait_monitor_unpack(plait_device *device, const plait_operand *shape, plait_encoding encoding,
                                  int64_t row_begin, int64_t row_end, plait_region source, void *target) {
    plait_monitor_call call = plait_monitor_begin(device, PLAIT_MONITOR_F_unpack);
    plait_device *real = call.device->inner;
    plait_region region = {0};
    plait_monitor_lock(call.device->monitor);
    plait_status status = host_region(&call, &source, false, &region);
    plait_monitor_unlock(call.device->monitor);
    if (status != PLAIT_OK) return status;
    return plait_monitor_outcome(
        &call, real->vtable->unpack(real, shape, encoding, row_begin, row_end, region, target));
}
