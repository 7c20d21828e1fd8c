/* One command against the rules, and its translation: the caller's objects become the inner device's, pointers to what
 * changes from step to step stay the caller's. Launches are in launch.c; when a command's turn has come, pump.c knows.
 *
 * Invariant: what is handed on names only objects that are alive, bytes that are there, and capabilities that the
 * device has. */
#include "device/monitor/monitor.h"

#include "base/size.h"

/* More separate runs of bytes than this are not followed one by one. */
enum { MOST_PIECES = 1 << 16 };

typedef plait_monitor_area area;

/* What a side of a box touches, or n bytes without a box. Rows and planes that lie without gaps become one: a box over
 * whole rows is then a single access. */
plait_monitor_area plait_monitor_area_of(const plait_box *box, uint64_t offset, uint64_t n, bool source) {
    area a = {.offset = offset, .row_bytes = n, .n_rows = 1, .n_planes = 1};
    if (!box) return a;
    /* The side's own pitches; counts are the same for both. */
    a = (area){.offset = offset,
               .row_bytes = box->row_bytes,
               .n_rows = box->n_rows,
               .row_pitch = source ? box->source_row_pitch : box->target_row_pitch,
               .n_planes = box->n_planes,
               .plane_pitch = source ? box->source_plane_pitch : box->target_plane_pitch};
    if (!a.row_bytes || !a.n_rows || !a.n_planes) return (area){.offset = offset};
    /* Rows first: planes of one row each may then join as well. */
    if (a.n_rows > 1 && a.row_pitch == a.row_bytes) {
        a.row_bytes *= a.n_rows;
        a.n_rows = 1;
    }
    if (a.n_rows == 1 && a.n_planes > 1 && a.plane_pitch == a.row_bytes) {
        a.row_bytes *= a.n_planes;
        a.n_planes = 1;
    }
    return a;
}

/* A failure of fn ends the walk and is *out_status; the walk as such was possible then, hence true. */
bool plait_monitor_walk(const area *a, plait_monitor_piece_fn fn, void *user, plait_status *out_status) {
    uint64_t n;
    *out_status = PLAIT_OK;
    if (a->row_bytes == 0) return true;
    if (!plait_mul_u64(a->n_rows, a->n_planes, &n) || n > MOST_PIECES) return false;
    for (uint64_t p = 0; p < a->n_planes; p++)
        for (uint64_t r = 0; r < a->n_rows; r++) {
            uint64_t begin = a->offset + p * a->plane_pitch + r * a->row_pitch;
            *out_status = fn(user, begin, begin + a->row_bytes);
            if (*out_status != PLAIT_OK) return true;
        }
    return true;
}

/* ---- accesses ---- */

typedef struct access {
    const plait_monitor_call *call;
    const plait_monitor_queue *queue;
    plait_monitor_buffer *buffer; /* NULL: host memory */
    plait_monitor_mark mark;
    const char *what;
    bool write;
} access;

/* Reads must find bytes that somebody wrote; the order with earlier accesses is the same question for both. */
static plait_status touch_piece(void *user, uint64_t begin, uint64_t end) {
    const access *a = user;
    if (!a->buffer)
        return plait_monitor_touch_host(a->call, (const void *)(uintptr_t)begin, end - begin, a->write,
                                        &a->queue->clock, &a->mark, a->what);
    if (!a->write) PLAIT_TRY(plait_monitor_check_written(a->call, a->buffer, begin, end, a->what));
    return plait_monitor_touch(a->call, a->buffer, begin, end, a->write, &a->queue->clock, &a->mark, a->what);
}

/* Too many runs of bytes are not followed: what they write counts as written. */
static plait_status touch(access *a, const area *bytes) {
    plait_status status;
    if (plait_monitor_walk(bytes, touch_piece, a, &status)) return status;
    if (a->buffer && a->write)
        plait_monitor_shadow_write(&a->buffer->shadow, bytes->offset, a->buffer->base.size_bytes);
    return PLAIT_OK;
}

/* The moment of the command that is looked at: its place in the queue's count. */
static plait_monitor_mark mark_of(const plait_monitor_call *call, const plait_monitor_queue *queue) {
    return (plait_monitor_mark){.t = queue->clock.t[queue->lane],
                                .call = call->number,
                                .command = call->command,
                                .lane = (uint16_t)queue->lane,
                                .function = (uint16_t)call->function};
}

/* ---- regions ---- */

/* The region's buffer is there and reached, the bytes are in it. *out gets the inner buffer; *out_buffer is NULL for
 * memory that is not monitored. */
static plait_status check_region(const plait_monitor_call *call, const plait_monitor_queue *queue,
                                 const plait_region *region, uint64_t n, const char *what, plait_region *out,
                                 plait_monitor_buffer **out_buffer) {
    plait_monitor *monitor = call->device->monitor;
    plait_device *own = call->device->inner;
    plait_monitor_mark mark = mark_of(call, queue);
    uint64_t end;
    if (!region->buffer)
        return plait_monitor_report(call, PLAIT_MONITOR_ARGUMENT, NULL, NULL, "%s: the region has no buffer",
                                    what);
    plait_monitor_buffer *buffer = plait_monitor_buffer_of(monitor, region->buffer);
    if (buffer) PLAIT_TRY(plait_monitor_object_check(call, &buffer->object));
    const plait_monitor_object *object = buffer ? &buffer->object : NULL;
    /* Both limits, in this order: what a region has is the caller's own word, what the buffer has is the device's. */
    if (n > region->size_bytes)
        return plait_monitor_report(call, PLAIT_MONITOR_OUT_OF_RANGE, object, NULL,
                                    "%s moves %llu bytes, the region has %llu", what, (unsigned long long)n,
                                    (unsigned long long)region->size_bytes);
    if (!plait_add_u64(region->offset, n, &end) || end > region->buffer->size_bytes)
        return plait_monitor_report(call, PLAIT_MONITOR_OUT_OF_RANGE, object, NULL,
                                    "%s: bytes [%llu, +%llu) of a buffer of %llu", what,
                                    (unsigned long long)region->offset, (unsigned long long)n,
                                    (unsigned long long)region->buffer->size_bytes);
    /* The inner devices are asked: they are the ones that will move the bytes. */
    plait_device *other = buffer ? buffer->object.device->inner : region->buffer->device;
    if (other != own && !own->vtable->reaches(own, other))
        return plait_monitor_report(call, PLAIT_MONITOR_NOT_REACHED, object, NULL,
                                    "%s: %s does not reach the memory of %s", what, call->device->base.name,
                                    region->buffer->device->name);
    *out = *region;
    *out_buffer = buffer;
    if (!buffer) return PLAIT_OK;
    plait_monitor_object_use(monitor, &buffer->object, &mark);
    out->buffer = buffer->inner;
    return PLAIT_OK;
}

/* Pitches of a box that moves something must step over what lies between them: a side that overlaps itself would depend
 * on the order of rows. */
static plait_status check_pitch(const plait_monitor_call *call, const plait_box *box, bool source) {
    uint64_t row = source ? box->source_row_pitch : box->target_row_pitch;
    uint64_t plane = source ? box->source_plane_pitch : box->target_plane_pitch;
    bool moves = box->row_bytes && box->n_rows && box->n_planes;
    if (moves && box->n_rows > 1 && row < box->row_bytes)
        return plait_monitor_report(
            call, PLAIT_MONITOR_ARGUMENT, NULL, NULL, "box: rows of %llu bytes lie %llu apart in the %s",
            (unsigned long long)box->row_bytes, (unsigned long long)row, source ? "source" : "target");
    if (moves && box->n_planes > 1 &&
        plane < plait_box_span(
                    &(plait_box){.row_bytes = box->row_bytes, .n_rows = box->n_rows, .n_planes = 1}, row, 0))
        return plait_monitor_report(
            call, PLAIT_MONITOR_ARGUMENT, NULL, NULL,
            "box: planes lie %llu bytes apart in the %s, less than their %llu rows span",
            (unsigned long long)plane, source ? "source" : "target", (unsigned long long)box->n_rows);
    return PLAIT_OK;
}

static plait_status check_box(const plait_monitor_call *call, const plait_box *box) {
    if (!box) return PLAIT_OK;
    if (!(call->device->info.caps & PLAIT_CAP_BOXES))
        return plait_monitor_report(call, PLAIT_MONITOR_CAPABILITY, NULL, NULL,
                                    "a box, and %s does not have PLAIT_CAP_BOXES", call->device->base.name);
    PLAIT_TRY(check_pitch(call, box, true));
    return check_pitch(call, box, false);
}

/* Of the source or the target side. */
static uint64_t box_span(const plait_box *box, bool source) {
    return source ? plait_box_span(box, box->source_row_pitch, box->source_plane_pitch)
                  : plait_box_span(box, box->target_row_pitch, box->target_plane_pitch);
}

/* ---- transfers ---- */

/* Sizes are read here, where the command's turn has come, as the device will read them. Both sides are accesses: the
 * device's bytes, and the host's memory, which another list may be reading or writing. */
static plait_status check_transfer(const plait_monitor_call *call, plait_monitor_queue *queue,
                                   const plait_command *command, plait_command *out) {
    const plait_region *region = &command->transfer.region;
    const plait_box *box = command->transfer.box;
    bool write = command->kind == PLAIT_COMMAND_WRITE;
    const char *what = write ? "a write" : "a read";
    uint64_t n = command->transfer.size_bytes ? *command->transfer.size_bytes : region->size_bytes;
    uint64_t host = (uint64_t)(uintptr_t)command->transfer.host;
    plait_monitor_buffer *buffer;
    PLAIT_TRY(check_box(call, box));
    if (box) n = box_span(box, !write);
    PLAIT_TRY(check_region(call, queue, region, n, what, &out->transfer.region, &buffer));
    /* Moving nothing needs no memory. */
    if (n && !host)
        return plait_monitor_report(call, PLAIT_MONITOR_ARGUMENT, NULL, NULL, "%s without host memory", what);
    area device_side = plait_monitor_area_of(box, region->offset, n, !write);
    area host_side = plait_monitor_area_of(box, host, n, write);
    access a = {call, queue, buffer, mark_of(call, queue), what, write};
    if (buffer) PLAIT_TRY(touch(&a, &device_side));
    access h = {call, queue, NULL, a.mark, what, !write};
    return touch(&h, &host_side);
}

/* A byte of the target that `lay` has marked: with a clock that knows nothing every mark is a conflict. */
static plait_status clash(void *user, uint64_t begin, uint64_t end) {
    static const plait_monitor_clock knows_nothing = {{0}};
    plait_monitor *monitor = user;
    bool wrote;
    uint64_t at;
    bool hit =
        plait_monitor_shadow_conflict(&monitor->sides, begin, end, true, &knows_nothing, &wrote, &at) != NULL;
    return hit ? PLAIT_WRONG_STATE : PLAIT_OK;
}

/* Into the monitor's shadow for two sides, as written by somebody that no clock knows. */
static plait_status lay(void *user, uint64_t begin, uint64_t end) {
    static const plait_monitor_mark something = {.t = 1, .lane = 1};
    static const plait_monitor_clock knows_nothing = {{0}};
    plait_monitor *monitor = user;
    plait_monitor_shadow_note(&monitor->sides, begin, end, true, &something, &knows_nothing);
    return PLAIT_OK;
}

/* Both sides in one buffer may lie between each other and must not share a byte. */
static plait_status check_sides(const plait_monitor_call *call, plait_monitor_buffer *buffer,
                                const area *source, const area *target) {
    plait_monitor *monitor = call->device->monitor;
    plait_status status;
    plait_monitor_shadow_clear(&monitor->sides);
    if (!plait_monitor_walk(source, lay, monitor, &status) ||
        !plait_monitor_walk(target, clash, monitor, &status))
        return PLAIT_OK;
    if (status == PLAIT_OK) return PLAIT_OK;
    return plait_monitor_report(call, PLAIT_MONITOR_OVERLAP, &buffer->object, NULL,
                                "a copy from byte %llu to byte %llu of one buffer shares bytes",
                                (unsigned long long)source->offset, (unsigned long long)target->offset);
}

/* Memory of devices that are not monitored has no shadow: only the sides that are known are noted. */
static plait_status check_copy(const plait_monitor_call *call, plait_monitor_queue *queue,
                               const plait_command *command, plait_command *out) {
    const plait_region *source = &command->copy.source, *target = &command->copy.target;
    const plait_box *box = command->copy.box;
    uint64_t n = command->copy.size_bytes ? *command->copy.size_bytes : source->size_bytes;
    plait_monitor_buffer *from, *to;
    PLAIT_TRY(check_box(call, box));
    PLAIT_TRY(check_region(call, queue, source, box ? box_span(box, true) : n, "a copy's source",
                           &out->copy.source, &from));
    PLAIT_TRY(check_region(call, queue, target, box ? box_span(box, false) : n, "a copy's target",
                           &out->copy.target, &to));
    area source_side = plait_monitor_area_of(box, source->offset, n, true);
    area target_side = plait_monitor_area_of(box, target->offset, n, false);
    /* In one buffer only: two buffers share no byte, unless one is a window onto the other, which touch finds. */
    if (from && from == to) PLAIT_TRY(check_sides(call, from, &source_side, &target_side));
    access a = {call, queue, from, mark_of(call, queue), "a copy", false};
    access b = {call, queue, to, a.mark, "a copy", true};
    if (from) PLAIT_TRY(touch(&a, &source_side));
    return to ? touch(&b, &target_side) : PLAIT_OK;
}

static plait_status check_fill(const plait_monitor_call *call, plait_monitor_queue *queue,
                               const plait_command *command, plait_command *out) {
    const plait_region *region = &command->fill.region;
    plait_monitor_buffer *buffer;
    PLAIT_TRY(check_region(call, queue, region, region->size_bytes, "a fill", &out->fill.region, &buffer));
    access a = {call, queue, buffer, mark_of(call, queue), "a fill", true};
    area bytes = plait_monitor_area_of(NULL, region->offset, region->size_bytes, false);
    return buffer ? touch(&a, &bytes) : PLAIT_OK;
}

/* ---- events ---- */

/* Noted as submitted and not forwarded: waits on other queues are held back until the device has it. A timeline of an
 * unknown device is left to the device. */
static plait_status check_signal(const plait_monitor_call *call, plait_monitor_queue *queue,
                                 const plait_command *command, plait_command *out) {
    plait_monitor *monitor = call->device->monitor;
    plait_monitor_event *event = plait_monitor_event_of(monitor, command->signal.event);
    plait_monitor_mark mark = mark_of(call, queue);
    if (!command->signal.event || !command->signal.value)
        return plait_monitor_report(call, PLAIT_MONITOR_ARGUMENT, NULL, NULL,
                                    "a signal without event or value");
    if (!event) return PLAIT_OK; /* of a device that is not monitored */
    PLAIT_TRY(plait_monitor_object_check(call, &event->object));
    if (event->imported)
        return plait_monitor_report(call, PLAIT_MONITOR_ARGUMENT, &event->object, NULL,
                                    "an imported event cannot be signalled");
    plait_monitor_event_add(monitor, event->timeline, *command->signal.value, &queue->clock, &mark, false);
    plait_monitor_object_use(monitor, &event->object, &mark);
    out->signal.event = event->inner;
    return PLAIT_OK;
}

/* What the wait orders is joined to the queue's clock: everything behind it knows that. Of an event that nobody watches
 * nothing is known, so the queue counts as knowing everything: a breach is missed rather than made up. */
static plait_status check_wait(const plait_monitor_call *call, plait_monitor_queue *queue,
                               const plait_command *command, plait_command *out) {
    plait_monitor *monitor = call->device->monitor;
    plait_monitor_event *event = plait_monitor_event_of(monitor, command->wait.event);
    plait_monitor_mark mark = mark_of(call, queue);
    if (!command->wait.event || !command->wait.value)
        return plait_monitor_report(call, PLAIT_MONITOR_ARGUMENT, NULL, NULL,
                                    "a wait without event or value");
    const plait_monitor_object *object = event ? &event->object : NULL;
    if (event) PLAIT_TRY(plait_monitor_object_check(call, object));
    if (command->wait.event->device != &call->device->base &&
        !(call->device->info.caps & PLAIT_CAP_FOREIGN_WAITS))
        return plait_monitor_report(call, PLAIT_MONITOR_CAPABILITY, object, NULL,
                                    "a wait for an event of %s, and %s does not have PLAIT_CAP_FOREIGN_WAITS",
                                    command->wait.event->device->name, call->device->base.name);
    if (!event) { /* nothing is known of it, so nothing is said against it */
        for (const plait_monitor_queue *q = monitor->queues; q; q = q->next)
            plait_monitor_join(&queue->clock, &q->clock);
        return PLAIT_OK;
    }
    plait_monitor_event_join(monitor, event->timeline, *command->wait.value, &queue->clock);
    plait_monitor_object_use(monitor, &event->object, &mark);
    out->wait.event = event->inner;
    return PLAIT_OK;
}

/* *out begins as the caller's command; each check puts the inner objects into it. The lock is held: what is noted here
 * must stand before anybody else's command is looked at. */
plait_status plait_monitor_check_command(const plait_monitor_call *call, plait_monitor_queue *queue,
                                         plait_monitor_flight *flight, const plait_command *command,
                                         plait_command *out) {
    *out = *command;
    switch (command->kind) {
    case PLAIT_COMMAND_WRITE:
    case PLAIT_COMMAND_READ: return check_transfer(call, queue, command, out);
    case PLAIT_COMMAND_COPY: return check_copy(call, queue, command, out);
    case PLAIT_COMMAND_FILL: return check_fill(call, queue, command, out);
    case PLAIT_COMMAND_LAUNCH: return plait_monitor_check_launch(call, queue, flight, command, out);
    case PLAIT_COMMAND_SIGNAL: return check_signal(call, queue, command, out);
    case PLAIT_COMMAND_WAIT: return check_wait(call, queue, command, out);
    }
    return plait_monitor_report(call, PLAIT_MONITOR_ARGUMENT, NULL, NULL, "command kind %d is unknown",
                                (int)command->kind);
}
