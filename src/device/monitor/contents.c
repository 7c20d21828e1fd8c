/* Level FULL: bytes around a command, before and after. What a launch must write is laid with the pattern first; what
 * nobody may touch is copied, or hashed where the whole buffer is only read. Memory that is not mapped is looked at
 * through a queue of the monitor's own. Not here: order (check.c), guards of mapped memory (buffer.c).
 *
 * Invariant: a command that is not looked at, because memory is short or the device cannot show its bytes, is no
 * breach. */
#include "device/monitor/monitor.h"

#include "base/alloc.h"
#include "base/map.h"
#include "base/size.h"

#include <stdlib.h>
#include <string.h>

/* AROUND_BYTES: how far beside a transfer's region changes are looked for. RUN_BYTES: so many bytes of the pattern in a
 * row were not written; an F32 that happens to be it would be NaN. PIECE_BYTES: what a launch writes is laid and looked
 * at in pieces of this size. */
enum { AROUND_BYTES = 4096, RUN_BYTES = 4, MOST_VIEWS = 1 << 16, PIECE_BYTES = 4096 };

void plait_monitor_contents_deinit(plait_monitor_contents *contents) {
    free(contents->views);
    free(contents->store);
    free(contents->now);
    *contents = (plait_monitor_contents){0};
}

/* ---- bytes of a buffer ---- */

/* Bytes for `needed`, with half as much to spare; NULL when there are none, and the old ones stay. Running out of
 * memory here is no failure of the caller's call. */
static unsigned char *room(unsigned char **bytes, size_t *capacity, uint64_t needed) {
    if (needed <= *capacity) return *bytes;
    if (needed > SIZE_MAX / 2) return NULL;
    unsigned char *more = plait_alloc_array((size_t)needed + (size_t)needed / 2, 1);
    if (!more) return NULL;
    if (*capacity) memcpy(more, *bytes, *capacity);
    free(*bytes);
    *bytes = more;
    *capacity = (size_t)needed + (size_t)needed / 2;
    return more;
}

/* Moves bytes of memory that is not mapped; false when the device does not let us. Done when it returns: the caller's
 * commands are held back meanwhile. */
static bool spy(plait_monitor_buffer *buffer, plait_command_kind kind, uint64_t offset, unsigned char *host,
                uint64_t n) {
    plait_queue *queue = buffer->object.device->spy;
    plait_command move = {.kind = kind, .transfer = {.region = {buffer->inner, offset, n}, .host = host}};
    if (!queue) return false;
    if (n == 0) return true;
    return queue->device->vtable->submit(queue, &move, 1) == PLAIT_OK &&
           queue->device->vtable->synchronise(queue) == PLAIT_OK;
}

/* The bytes as they are now; NULL when they cannot be seen. Valid until the next call. */
static const unsigned char *bytes_of(plait_monitor_contents *contents, plait_monitor_buffer *buffer,
                                     uint64_t begin, uint64_t end) {
    if (buffer->inner->host) return (const unsigned char *)buffer->inner->host + begin;
    unsigned char *now = room(&contents->now, &contents->now_bytes, end - begin);
    return now && spy(buffer, PLAIT_COMMAND_READ, begin, now, end - begin) ? now : NULL;
}

/* By offset in the buffer, as everywhere. */
static bool put_pattern(plait_monitor_contents *contents, plait_monitor_buffer *buffer, uint64_t begin,
                        uint64_t end) {
    unsigned char *to = buffer->inner->host ? (unsigned char *)buffer->inner->host + begin
                                            : room(&contents->now, &contents->now_bytes, end - begin);
    if (!to) return false;
    for (uint64_t i = begin; i < end; i++) to[i - begin] = plait_monitor_pattern(i);
    return buffer->inner->host || spy(buffer, PLAIT_COMMAND_WRITE, begin, to, end - begin);
}

/* For a buffer that is being made, and is no object yet: only its device has to be known. */
plait_status plait_monitor_lay_tail(const plait_monitor_call *call, plait_monitor_buffer *buffer) {
    plait_monitor *monitor = call->device->monitor;
    uint64_t size = buffer->inner->size_bytes - buffer->tail_bytes;
    buffer->object.device = call->device; /* it has not begun yet */
    plait_monitor_lock(monitor);
    bool laid = put_pattern(&monitor->contents, buffer, size, size + buffer->tail_bytes);
    plait_monitor_unlock(monitor);
    return laid ? PLAIT_OK : plait_error(PLAIT_UNSUPPORTED, "monitor: no guard behind a buffer");
}

/* ---- before ---- */

/* Equal hashes are taken for equal bytes. */
static uint64_t hash_of(const unsigned char *bytes, uint64_t n) {
    return plait_hash_bytes(bytes, (size_t)n, 1);
}

/* Keeps bytes of a buffer; `hash`: it is not going to be written at all. Views lie one behind the other in the store.
 * When anything cannot be had, the whole command is not looked at. */
static void add_view(plait_monitor_contents *c, plait_monitor_buffer *buffer, uint64_t begin, uint64_t end,
                     bool hash) {
    uint64_t used = 0;
    void *views = c->views;
    if (c->blind || begin >= end || buffer->base.usage == PLAIT_BUFFER_STAGING)
        return; /* the host writes there */
    /* The store is used up to the end of the last view that was copied. */
    for (size_t i = 0; i < c->n_views; i++)
        if (!c->views[i].hashed) used = c->views[i].at + (c->views[i].end - c->views[i].begin);
    plait_status status =
        plait_grow(&views, &c->view_capacity, c->n_views + 1, sizeof *c->views, MOST_VIEWS, "monitor: views");
    c->views = views;
    unsigned char *store = hash ? c->store : room(&c->store, &c->store_bytes, used + (end - begin));
    const unsigned char *bytes =
        status == PLAIT_OK && (hash || store) ? bytes_of(c, buffer, begin, end) : NULL;
    if (!bytes) {
        c->blind = true;
        return;
    }
    plait_monitor_view *view = &c->views[c->n_views++];
    *view = (plait_monitor_view){.buffer = buffer, .begin = begin, .end = end, .at = used, .hashed = hash};
    if (hash)
        view->hash = hash_of(bytes, end - begin);
    else
        memcpy(store + used, bytes, (size_t)(end - begin));
}

/* Guards that are mapped are looked at by themselves (buffer.c). */
static uint64_t end_of(const plait_monitor_buffer *buffer) {
    return buffer->base.size_bytes + (buffer->back ? 0 : buffer->tail_bytes);
}

/* The region's bytes and some around them. The region counts in full, whatever the command moves of it: what it leaves
 * of its region must stay as well. */
static void add_around(plait_monitor_contents *c, plait_monitor_buffer *buffer, const plait_region *region) {
    /* What lies behind the region counts up to the end of a guard that is not mapped. */
    uint64_t limit = end_of(buffer), end;
    uint64_t begin = region->offset > AROUND_BYTES ? region->offset - AROUND_BYTES : 0;
    if (!plait_add_u64(region->offset, region->size_bytes, &end) || end > limit - AROUND_BYTES ||
        limit < AROUND_BYTES)
        end = limit;
    else
        end += AROUND_BYTES;
    add_view(c, buffer, begin, end, false);
}

/* Whether the launch reads some of [begin, end) of the slot from before. MAY_READ counts as well: ids may choose these
 * bytes. */
static bool is_read(const plait_monitor_program *p, uint32_t slot, uint64_t begin, uint64_t end) {
    for (size_t i = 0; i < p->n_ranges; i++) {
        const plait_monitor_range *r = &p->ranges[i];
        if ((r->kind == PLAIT_MONITOR_READS || r->kind == PLAIT_MONITOR_MAY_READ) && r->slot == slot &&
            r->begin < end && begin < r->end)
            return true;
    }
    return false;
}

/* A device that computes nothing leaves every result as it was, and says so by its numeric class. */
static bool computes(const plait_monitor_device *device) {
    return strcmp(device->info.numeric_class, "null") != 0;
}

/* What a launch must write, by pieces: those that it also reads keep their bytes. */
static void each_new(const plait_monitor_program *p,
                     bool (*fn)(void *user, const plait_monitor_range *range, uint64_t begin, uint64_t end),
                     void *user) {
    for (size_t i = 0; i < p->n_ranges; i++) {
        const plait_monitor_range *r = &p->ranges[i];
        for (uint64_t at = r->begin; r->kind == PLAIT_MONITOR_WRITES && at < r->end; at += PIECE_BYTES) {
            uint64_t end = r->end - at < PIECE_BYTES ? r->end : at + PIECE_BYTES;
            if (!is_read(p, r->slot, at, end) && !fn(user, r, at, end)) return;
        }
    }
}

typedef struct launch_look {
    const plait_monitor_call *call;
    plait_monitor_contents *contents;
    plait_monitor_program *program;
    plait_buffer *const *slots;
    plait_status status;
} launch_look;

/* Checked before: a slot that the program touches holds a buffer of this monitor. */
static plait_monitor_buffer *slot_buffer(const launch_look *look, uint32_t slot) {
    return (plait_monitor_buffer *)look->slots[slot];
}

/* False, which ends the walk, when the bytes cannot be reached: then none of the launch's can. */
static bool lay_piece(void *user, const plait_monitor_range *r, uint64_t begin, uint64_t end) {
    launch_look *look = user;
    return put_pattern(look->contents, slot_buffer(look, r->slot), begin, end);
}

/* Ranges of kinds from WRITES on, scratch and scattered ones included. */
static bool slot_is_written(const plait_monitor_program *p, uint32_t slot) {
    for (size_t i = 0; i < p->n_ranges; i++)
        if (p->ranges[i].slot == slot && p->ranges[i].kind >= PLAIT_MONITOR_WRITES) return true;
    return false;
}

/* The pattern goes in first, so that what is kept is what the launch finds. */
static void before_launch(const plait_monitor_call *call, const plait_command *command) {
    plait_monitor_contents *c = &call->device->monitor->contents;
    launch_look look = {.call = call, .contents = c, .slots = command->launch.slots};
    look.program = plait_monitor_program_of(command->launch.program);
    if (computes(call->device)) each_new(look.program, lay_piece, &look);
    for (int s = 0; s < look.program->n_slots; s++) {
        if (look.program->slot_bytes[s] == 0) continue;
        plait_monitor_buffer *buffer = slot_buffer(&look, (uint32_t)s);
        add_view(c, buffer, 0, end_of(buffer), !slot_is_written(look.program, (uint32_t)s));
    }
}

/* Everything that the command names; a command without bytes has no views, and is not blind either. */
void plait_monitor_look_before(const plait_monitor_call *call, const plait_command *command) {
    plait_monitor *monitor = call->device->monitor;
    plait_monitor_contents *c = &monitor->contents;
    const plait_region *regions[2] = {NULL, NULL};
    c->n_views = 0;
    c->blind = false;
    switch (command->kind) {
    case PLAIT_COMMAND_WRITE:
    case PLAIT_COMMAND_READ: regions[0] = &command->transfer.region; break;
    case PLAIT_COMMAND_FILL: regions[0] = &command->fill.region; break;
    case PLAIT_COMMAND_COPY:
        regions[0] = &command->copy.source;
        regions[1] = &command->copy.target;
        break;
    case PLAIT_COMMAND_LAUNCH: before_launch(call, command); return;
    default: return;
    }
    for (int i = 0; i < 2; i++) {
        plait_monitor_buffer *buffer =
            regions[i] ? plait_monitor_buffer_of(monitor, regions[i]->buffer) : NULL;
        if (buffer) add_around(c, buffer, regions[i]);
    }
}

/* ---- after: what must stay ---- */

/* Bytes of `buffer` that the command may write go into the monitor's `sides`, as written. */
static plait_status allow(void *user, uint64_t begin, uint64_t end) {
    plait_monitor_shadow_write(user, begin, end);
    return PLAIT_OK;
}

/* What the command may write of this buffer; everything else of the view must be as it was. Target sides of boxes that
 * cannot be walked are allowed whole. */
static void allow_writes(plait_monitor *monitor, const plait_command *command, plait_monitor_buffer *buffer) {
    plait_monitor_shadow *allowed = &monitor->sides;
    const plait_region *target = NULL;
    const plait_box *box = NULL;
    uint64_t n = 0;
    plait_status status;
    plait_monitor_shadow_clear(allowed);
    if (command->kind == PLAIT_COMMAND_LAUNCH) {
        const plait_monitor_program *p = plait_monitor_program_of(command->launch.program);
        for (size_t i = 0; i < p->n_ranges; i++)
            if (p->ranges[i].kind >= PLAIT_MONITOR_WRITES &&
                command->launch.slots[p->ranges[i].slot] == &buffer->base)
                plait_monitor_shadow_write(allowed, p->ranges[i].begin, p->ranges[i].end);
        return;
    }
    if (command->kind == PLAIT_COMMAND_FILL) {
        target = &command->fill.region;
        n = target->size_bytes;
    } else if (command->kind == PLAIT_COMMAND_COPY) {
        target = &command->copy.target;
        box = command->copy.box;
        n = command->copy.size_bytes ? *command->copy.size_bytes : command->copy.source.size_bytes;
    } else if (command->kind == PLAIT_COMMAND_WRITE) {
        target = &command->transfer.region;
        box = command->transfer.box;
        n = command->transfer.size_bytes ? *command->transfer.size_bytes : target->size_bytes;
    }
    if (!target || target->buffer != &buffer->base) return;
    plait_monitor_area area = plait_monitor_area_of(box, target->offset, n, false);
    if (!plait_monitor_walk(&area, allow, allowed, &status))
        plait_monitor_shadow_write(allowed, target->offset, target->offset + target->size_bytes);
}

/* The first byte of [begin, end) that differs. Most of what is compared is equal, which memcmp finds fastest; the place
 * matters only for a message. */
static bool differs(const unsigned char *a, const unsigned char *b, uint64_t begin, uint64_t end,
                    uint64_t *out_at) {
    if (memcmp(a + begin, b + begin, (size_t)(end - begin)) == 0) return false;
    for (uint64_t i = begin; i < end; i++)
        if (a[i] != b[i]) {
            *out_at = i;
            return true;
        }
    return false;
}

/* Who has the byte, for the message: an operand that the launch reads, or nobody. */
static plait_status report_changed(const plait_monitor_call *call, const plait_command *command,
                                   plait_monitor_buffer *buffer, uint64_t at) {
    plait_monitor_call named = *call;
    char name[160];
    if (command->kind == PLAIT_COMMAND_LAUNCH) {
        named.program = plait_monitor_program_of(command->launch.program);
        for (size_t i = 0; i < named.program->n_ranges; i++) {
            const plait_monitor_range *r = &named.program->ranges[i];
            if (command->launch.slots[r->slot] != &buffer->base || at < r->begin || at >= r->end) continue;
            named.operand = r->operand;
            return plait_monitor_report(call, PLAIT_MONITOR_WRITE_OUTSIDE, &buffer->object, NULL,
                                        "byte %llu has changed, and %s only reads it", (unsigned long long)at,
                                        plait_monitor_access_name(&named, NULL, name));
        }
    }
    return plait_monitor_report(call, PLAIT_MONITOR_WRITE_OUTSIDE, &buffer->object, NULL,
                                "byte %llu of %llu has changed, and the command does not write it",
                                (unsigned long long)at, (unsigned long long)buffer->base.size_bytes);
}

/* Pieces between what may be written are compared; a hash only says that something has changed. */
static plait_status check_view(const plait_monitor_call *call, const plait_command *command,
                               const plait_monitor_view *view) {
    plait_monitor *monitor = call->device->monitor;
    plait_monitor_contents *c = &monitor->contents;
    const unsigned char *now = bytes_of(c, view->buffer, view->begin, view->end);
    uint64_t from, to, at;
    if (!now) return PLAIT_OK;
    if (view->hashed) {
        if (hash_of(now, view->end - view->begin) == view->hash) return PLAIT_OK;
        return plait_monitor_report(call, PLAIT_MONITOR_WRITE_OUTSIDE, &view->buffer->object, NULL,
                                    "its bytes have changed, and the launch only reads it");
    }
    allow_writes(monitor, command, view->buffer);
    const unsigned char *before = c->store + view->at;
    for (uint64_t i = view->begin; plait_monitor_shadow_unwritten(&monitor->sides, i, view->end, &from, &to);
         i = to)
        if (differs(before, now, from - view->begin, to - view->begin, &at))
            return report_changed(call, command, view->buffer, view->begin + at);
    return PLAIT_OK;
}

/* ---- after: what must be there ---- */

/* Both sides of a transfer or copy, piece by piece. */
typedef struct twins {
    const plait_monitor_call *call;
    plait_monitor_contents *contents;
    plait_monitor_buffer *from, *to; /* NULL: host memory, by address */
    const char *what;
} twins;

/* Offset of piece number n of an area. */
static uint64_t piece_at(const plait_monitor_area *a, uint64_t n) {
    return a->offset + n / a->n_rows * a->plane_pitch + n % a->n_rows * a->row_pitch;
}

/* n bytes of each side. bytes_of shows one piece at a time, so of two that are both read back the first is kept in the
 * store, whose views have been compared by now. */
static plait_status compare_line(const twins *t, uint64_t source, uint64_t target, uint64_t n) {
    uint64_t at;
    const unsigned char *a = t->from ? bytes_of(t->contents, t->from, source, source + n)
                                     : (const unsigned char *)(uintptr_t)source;
    if (a && t->from && t->to && !t->from->inner->host && !t->to->inner->host) { /* both through `now` */
        unsigned char *kept = room(&t->contents->store, &t->contents->store_bytes, n);
        if (kept) memcpy(kept, a, (size_t)n);
        a = kept;
    }
    const unsigned char *b =
        t->to ? bytes_of(t->contents, t->to, target, target + n) : (const unsigned char *)(uintptr_t)target;
    if (!a || !b || !differs(a, b, 0, n, &at)) return PLAIT_OK;
    return plait_monitor_report(t->call, PLAIT_MONITOR_WRONG_BYTES, t->to ? &t->to->object : &t->from->object,
                                NULL, "%s left byte %llu of %llu as 0x%02x, expected 0x%02x", t->what,
                                (unsigned long long)at, (unsigned long long)n, b[at], a[at]);
}

/* Row by row, since each side has pitches of its own; a box's counts are the same for both. */
static plait_status compare_sides(const twins *t, const plait_box *box, uint64_t source, uint64_t target,
                                  uint64_t n) {
    if (!box) return compare_line(t, source, target, n);
    plait_monitor_area a = {source,        box->row_bytes,         box->n_rows, box->source_row_pitch,
                            box->n_planes, box->source_plane_pitch};
    plait_monitor_area b = {target,        box->row_bytes,         box->n_rows, box->target_row_pitch,
                            box->n_planes, box->target_plane_pitch};
    for (uint64_t i = 0; i < box->n_rows * box->n_planes; i++)
        PLAIT_TRY(compare_line(t, piece_at(&a, i), piece_at(&b, i), box->row_bytes));
    return PLAIT_OK;
}

/* What was moved must have arrived. The host's side is still the caller's to leave alone, as the list has not been seen
 * to be done. */
static plait_status after_transfer(const plait_monitor_call *call, const plait_command *command) {
    plait_monitor *monitor = call->device->monitor;
    plait_monitor_buffer *buffer = plait_monitor_buffer_of(monitor, command->transfer.region.buffer);
    bool write = command->kind == PLAIT_COMMAND_WRITE;
    uint64_t offset = command->transfer.region.offset, host = (uint64_t)(uintptr_t)command->transfer.host;
    uint64_t n =
        command->transfer.size_bytes ? *command->transfer.size_bytes : command->transfer.region.size_bytes;
    if (!buffer) return PLAIT_OK;
    twins t = {.call = call,
               .contents = &monitor->contents,
               .from = write ? NULL : buffer,
               .to = write ? buffer : NULL,
               .what = write ? "a write" : "a read"};
    return compare_sides(&t, command->transfer.box, write ? host : offset, write ? offset : host, n);
}

/* Only between buffers that the monitor can look at. */
static plait_status after_copy(const plait_monitor_call *call, const plait_command *command) {
    plait_monitor *monitor = call->device->monitor;
    twins t = {.call = call,
               .contents = &monitor->contents,
               .from = plait_monitor_buffer_of(monitor, command->copy.source.buffer),
               .to = plait_monitor_buffer_of(monitor, command->copy.target.buffer),
               .what = "a copy"};
    uint64_t n = command->copy.size_bytes ? *command->copy.size_bytes : command->copy.source.size_bytes;
    if (!t.from || !t.to) return PLAIT_OK;
    return compare_sides(&t, command->copy.box, command->copy.source.offset, command->copy.target.offset, n);
}

/* The whole region, byte by byte. */
static plait_status after_fill(const plait_monitor_call *call, const plait_command *command) {
    plait_monitor *monitor = call->device->monitor;
    const plait_region *region = &command->fill.region;
    plait_monitor_buffer *buffer = plait_monitor_buffer_of(monitor, region->buffer);
    if (!buffer) return PLAIT_OK;
    const unsigned char *now =
        bytes_of(&monitor->contents, buffer, region->offset, region->offset + region->size_bytes);
    for (uint64_t i = 0; now && i < region->size_bytes; i++)
        if (now[i] != command->fill.byte)
            return plait_monitor_report(call, PLAIT_MONITOR_WRONG_BYTES, &buffer->object, NULL,
                                        "a fill left byte %llu of %llu as 0x%02x, expected 0x%02x",
                                        (unsigned long long)i, (unsigned long long)region->size_bytes, now[i],
                                        command->fill.byte);
    return PLAIT_OK;
}

/* A run of the pattern that is still there: the operand's node has not written all that it must. Ends the walk, since
 * one report says it. */
static bool see_piece(void *user, const plait_monitor_range *r, uint64_t begin, uint64_t end) {
    launch_look *look = user;
    plait_monitor_buffer *buffer = slot_buffer(look, r->slot);
    const unsigned char *now = bytes_of(look->contents, buffer, begin, end);
    plait_monitor_call named = *look->call;
    char name[160];
    uint64_t run = 0;
    for (uint64_t i = begin; now && i < end; i++) {
        run = now[i - begin] == plait_monitor_pattern(i) ? run + 1 : 0;
        if (run < RUN_BYTES) continue;
        named.program = look->program;
        named.operand = r->operand;
        look->status = plait_monitor_report(look->call, PLAIT_MONITOR_NOT_WRITTEN, &buffer->object, NULL,
                                            "bytes [%llu, %llu) are as they were, and %s writes [%llu, %llu)",
                                            (unsigned long long)(i + 1 - run), (unsigned long long)(i + 1),
                                            plait_monitor_access_name(&named, NULL, name),
                                            (unsigned long long)r->begin, (unsigned long long)r->end);
        return false;
    }
    return true;
}

/* Whether numbers are right is not asked here: only whether they were written. */
static plait_status after_launch(const plait_monitor_call *call, const plait_command *command) {
    launch_look look = {.call = call,
                        .contents = &call->device->monitor->contents,
                        .program = plait_monitor_program_of(command->launch.program),
                        .slots = command->launch.slots};
    if (computes(call->device)) each_new(look.program, see_piece, &look);
    return look.status;
}

/* First what must stay, then guards of every buffer of the device, then what must be there. */
plait_status plait_monitor_look_after(const plait_monitor_call *call, const plait_command *command) {
    plait_monitor_contents *c = &call->device->monitor->contents;
    for (size_t i = 0; i < c->n_views && !c->blind; i++) PLAIT_TRY(check_view(call, command, &c->views[i]));
    plait_monitor_object *head = &call->device->living;
    for (plait_monitor_object *o = head->next; o != head; o = o->next)
        if (o->kind == PLAIT_OBJECT_BUFFER)
            PLAIT_TRY(plait_monitor_check_guards(
                call, (plait_monitor_buffer *)((char *)o - offsetof(plait_monitor_buffer, object))));
    switch (command->kind) {
    case PLAIT_COMMAND_WRITE:
    case PLAIT_COMMAND_READ: return after_transfer(call, command);
    case PLAIT_COMMAND_COPY: return after_copy(call, command);
    case PLAIT_COMMAND_FILL: return after_fill(call, command);
    case PLAIT_COMMAND_LAUNCH: return after_launch(call, command);
    default: return PLAIT_OK;
    }
}
