/* Launches: slots, dims, and the bytes that a program reads and writes. A launch is one access for everybody else: it
 * reads what no node of it has written before, and writes what any node writes. The runs of bytes are found once for each
 * set of dims, and kept with the program.
 *
 * Invariant: runs of one kind are sorted and joined, so that a step costs little. */
#include "device/monitor/monitor.h"

#include "base/alloc.h"
#include "base/size.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_PIECES = 1 << 16, MOST_RANGES = 1 << 20 };

/* ---- bytes of an operand ---- */

/* n times `stride` bytes. */
typedef struct loop {
    uint64_t n, stride;
} loop;

/* The operand's dims as loops over bytes, smallest stride first; false when it has no bytes. Dim 0 counts in blocks,
 * whose bytes are the first run. A stride of 0 repeats bytes that are touched already. */
static bool loops_of(const plait_operand *shape, loop loops[PLAIT_MAX_RANK], int *out_n, uint64_t *out_run) {
    int64_t block = plait_dtype_block_elems(shape->dtype);
    int n = 0;
    *out_run = (uint64_t)plait_dtype_block_bytes(shape->dtype);
    for (int d = 0; d < PLAIT_MAX_RANK; d++) {
        int64_t count = d == 0 ? shape->dims[0] / block : shape->dims[d];
        if (count <= 0) return false;
        if (count == 1 || shape->strides[d] == 0) continue;
        /* By insertion: there are four dims at most. */
        int at = n++;
        for (; at > 0 && loops[at - 1].stride > (uint64_t)shape->strides[d]; at--) loops[at] = loops[at - 1];
        loops[at] = (loop){(uint64_t)count, (uint64_t)shape->strides[d]};
    }
    *out_n = n;
    return true;
}

/* Takes loops into the run while they lie without gaps; returns how many are left. A dense operand has none. */
static int join_runs(loop *loops, int n, uint64_t *run) {
    int first = 0;
    while (first < n && loops[first].stride == *run) *run *= loops[first++].n;
    memmove(loops, loops + first, (size_t)(n - first) * sizeof *loops);
    return n - first;
}

/* The number of runs is known before the first is called for: it is what is left of the loops, multiplied. */
bool plait_monitor_pieces(const plait_operand *shape, uint64_t offset, plait_monitor_piece_fn fn, void *user,
                          plait_status *out_status) {
    loop loops[PLAIT_MAX_RANK];
    uint64_t run, total = 1;
    int n;
    *out_status = PLAIT_OK;
    if (!loops_of(shape, loops, &n, &run)) return true;
    n = join_runs(loops, n, &run);
    for (int i = 0; i < n; i++)
        if (!plait_mul_u64(total, loops[i].n, &total) || total > MOST_PIECES) return false;
    /* k is the number of a run, taken apart into a place in each loop that is left. */
    for (uint64_t k = 0; k < total && *out_status == PLAIT_OK; k++) {
        uint64_t rest = k, at = offset;
        for (int i = 0; i < n; i++) {
            at += rest % loops[i].n * loops[i].stride;
            rest /= loops[i].n;
        }
        *out_status = fn(user, at, at + run);
    }
    return true;
}

/* ---- ranges ---- */

typedef struct collector {
    plait_monitor_program *program;
    const plait_monitor_operand *operand;
    uint32_t index;
} collector;

/* Ranges are kept from launch to launch of the same dims, so the array is made once. */
static plait_status add_range(plait_monitor_program *p, plait_monitor_range_kind kind, uint32_t slot,
                              uint64_t begin, uint64_t end, uint32_t operand) {
    void *ranges = p->ranges;
    plait_status status = plait_grow(&ranges, &p->range_capacity, p->n_ranges + 1, sizeof *p->ranges,
                                     MOST_RANGES, "monitor: ranges of a launch");
    p->ranges = ranges;
    PLAIT_TRY(status);
    p->ranges[p->n_ranges++] = (plait_monitor_range){kind, slot, begin, end, operand};
    return PLAIT_OK;
}

/* A run of bytes of an operand: outputs go into what the launch has written, inputs count only where it has not. So
 * what one node makes and another reads is nobody else's read. */
static plait_status collect(void *user, uint64_t begin, uint64_t end) {
    collector *c = user;
    plait_monitor_program *p = c->program;
    const plait_monitor_operand *o = c->operand;
    plait_monitor_shadow *written = &p->written[o->slot];
    if (o->output) {
        plait_monitor_shadow_write(written, begin, end);
        return add_range(p, o->partial ? PLAIT_MONITOR_MAY_WRITE : PLAIT_MONITOR_WRITES, o->slot, begin, end,
                         c->index);
    }
    uint64_t from, to;
    for (uint64_t at = begin; plait_monitor_shadow_unwritten(written, at, end, &from, &to); at = to)
        PLAIT_TRY(add_range(p, o->partial ? PLAIT_MONITOR_MAY_READ : PLAIT_MONITOR_READS, o->slot, from, to,
                            c->index));
    return PLAIT_OK;
}

/* Packed operands are read whole; what cannot be walked is a SCATTERS of its whole span, or, as an input, nothing. */
static plait_status collect_operand(plait_monitor_program *p, uint32_t index) {
    const plait_monitor_operand *o = &p->operands[index];
    collector c = {p, o, index};
    plait_operand shape = o->shape;
    plait_status status;
    if (o->elided || o->bytes == 0) return PLAIT_OK;
    if (o->packed) return collect(&c, o->offset, o->offset + o->bytes);
    if (o->outer.dim >= 0) shape.dims[o->outer.axis] = plait_extent_value(&o->outer, 0, p->dims);
    if (plait_monitor_pieces(&shape, o->offset, collect, &c, &status)) return status;
    if (!o->output) return PLAIT_OK;
    plait_monitor_shadow_write(&p->written[o->slot], o->offset, o->offset + o->bytes);
    return add_range(p, PLAIT_MONITOR_SCATTERS, o->slot, o->offset, o->offset + o->bytes, index);
}

/* Kinds together, then slots, then bytes; the operand last, so that equal ranges are named after the first node. */
static int by_place(const void *a, const void *b) {
    const plait_monitor_range *x = a, *y = b;
    if (x->kind != y->kind) return x->kind < y->kind ? -1 : 1;
    if (x->slot != y->slot) return x->slot < y->slot ? -1 : 1;
    if (x->begin != y->begin) return x->begin < y->begin ? -1 : 1;
    return x->operand < y->operand ? -1 : x->operand > y->operand;
}

/* Of one kind and slot, where they touch or overlap. Sorted, so the one before is the only one to compare with. */
static void join_ranges(plait_monitor_program *p) {
    size_t kept = 0;
    if (p->n_ranges == 0) return;
    qsort(p->ranges, p->n_ranges, sizeof *p->ranges, by_place);
    for (size_t i = 1; i < p->n_ranges; i++) {
        plait_monitor_range *last = &p->ranges[kept], *next = &p->ranges[i];
        if (last->kind == next->kind && last->slot == next->slot && next->begin <= last->end) {
            if (next->end > last->end) last->end = next->end;
        } else {
            p->ranges[++kept] = *next;
        }
    }
    p->n_ranges = kept + 1;
}

/* The ranges for these dims. Groups in the order in which they run, operands in that of the nodes, inputs before
 * outputs: what has been written when an input is read follows from that order. They stay valid until the dims change;
 * a failure leaves none. */
static plait_status find_ranges(plait_monitor_program *p, const int64_t *dims) {
    size_t bytes = (size_t)p->n_dims * sizeof *dims;
    if (p->ranges_valid && (bytes == 0 || memcmp(p->dims, dims, bytes) == 0)) return PLAIT_OK;
    p->ranges_valid = false;
    p->n_ranges = 0;
    if (bytes) memcpy(p->dims, dims, bytes);
    for (int s = 0; s < p->n_slots; s++) plait_monitor_shadow_clear(&p->written[s]);
    for (int g = 0; g < p->n_groups; g++) {
        const plait_monitor_group *group = &p->groups[g];
        /* Scratch may be written anywhere, by any node of the group, and need not be written before. */
        if (group->scratch_bytes)
            PLAIT_TRY(add_range(p, PLAIT_MONITOR_MAY_WRITE, group->scratch_slot, group->scratch_offset,
                                group->scratch_offset + group->scratch_bytes, (uint32_t)group->first));
        for (int k = 0; k < group->n; k++) PLAIT_TRY(collect_operand(p, (uint32_t)(group->first + k)));
    }
    join_ranges(p);
    p->ranges_valid = true;
    return PLAIT_OK;
}

/* ---- overlap ---- */

/* Whether two places are the same memory. Without buffers each slot is memory of its own. */
static bool same_memory(uint32_t a, uint32_t b, plait_buffer *const *slots) {
    return a == b || (slots && slots[a] && slots[a] == slots[b]);
}

/* Ranges of no bytes are kept away by has_bytes. */
static bool meet(uint64_t a, uint64_t a_bytes, uint64_t b, uint64_t b_bytes) {
    return a < b + b_bytes && b < a + a_bytes;
}

/* A pair that may share bytes lies at the same place: `prepare` has said that the output may be written over the input,
 * and element meets element only where both values begin together. */
static bool may_share(const plait_monitor_program *p, const plait_monitor_operand *a,
                      const plait_monitor_operand *b) {
    if (a->offset - a->view_offset != b->offset - b->view_offset) return false;
    for (int k = 0; k < p->n_shared; k++)
        if ((p->shared[k].output == a->value && p->shared[k].input == b->value) ||
            (p->shared[k].output == b->value && p->shared[k].input == a->value))
            return true;
    return false;
}

/* Values that are left out have no place. */
static bool has_bytes(const plait_monitor_operand *o) {
    return !o->elided && o->bytes > 0;
}

/* Operands of one storage are views of each other, and their order was checked when the segment was prepared. */
static plait_status check_pair(const plait_monitor_call *call, const plait_monitor_program *p,
                               const plait_monitor_operand *a, const plait_monitor_operand *b,
                               plait_buffer *const *slots) {
    if (!has_bytes(b) || (!a->output && !b->output) || a->storage == b->storage ||
        !same_memory(a->slot, b->slot, slots) || !meet(a->offset, a->bytes, b->offset, b->bytes) ||
        may_share(p, a, b))
        return PLAIT_OK;
    return plait_monitor_report(
        call, PLAIT_MONITOR_OVERLAP, NULL, NULL,
        "node %s, %s %d at bytes [%llu, +%llu) of slot %u lies over node %s, %s %d at "
        "[%llu, +%llu) of slot %u, in one group",
        p->names[a->node], a->output ? "output" : "input", a->position, (unsigned long long)a->offset,
        (unsigned long long)a->bytes, a->slot, p->names[b->node], b->output ? "output" : "input", b->position,
        (unsigned long long)b->offset, (unsigned long long)b->bytes, b->slot);
}

/* Scratch is the group's alone while it runs. */
static plait_status check_scratch(const plait_monitor_call *call, const plait_monitor_program *p,
                                  const plait_monitor_group *group, const plait_monitor_operand *a,
                                  plait_buffer *const *slots) {
    if (!group->scratch_bytes || !same_memory(a->slot, group->scratch_slot, slots) ||
        !meet(a->offset, a->bytes, group->scratch_offset, group->scratch_bytes))
        return PLAIT_OK;
    return plait_monitor_report(
        call, PLAIT_MONITOR_OVERLAP, NULL, NULL,
        "node %s, %s %d at bytes [%llu, +%llu) of slot %u lies over its group's scratch at "
        "[%llu, +%llu)",
        p->names[a->node], a->output ? "output" : "input", a->position, (unsigned long long)a->offset,
        (unsigned long long)a->bytes, a->slot, (unsigned long long)group->scratch_offset,
        (unsigned long long)group->scratch_bytes);
}

/* All pairs of a group's operands: they are touched at the same time. Between groups bytes may be used again. Done at
 * compile, and at a launch again where one buffer is in two slots. */
plait_status plait_monitor_check_overlap(const plait_monitor_call *call, const plait_monitor_program *p,
                                         plait_buffer *const *slots) {
    for (int g = 0; g < p->n_groups; g++) {
        const plait_monitor_group *group = &p->groups[g];
        const plait_monitor_operand *first = p->operands + group->first;
        for (int i = 0; i < group->n; i++) {
            if (!has_bytes(&first[i])) continue;
            PLAIT_TRY(check_scratch(call, p, group, &first[i], slots));
            for (int k = 0; k < i; k++) PLAIT_TRY(check_pair(call, p, &first[k], &first[i], slots));
        }
    }
    return PLAIT_OK;
}

/* ---- a launch ---- */

/* Up to the bounds that the program was compiled for. */
static plait_status check_dims(const plait_monitor_call *call, const plait_monitor_program *p,
                               const int64_t *dims) {
    if (p->n_dims && !dims)
        return plait_monitor_report(call, PLAIT_MONITOR_DIM, &p->object, NULL,
                                    "a launch without the values of %d dims", p->n_dims);
    /* 0 is legal: then the launch touches what no dim decides. */
    for (int d = 0; d < p->n_dims; d++)
        if (dims[d] < 0 || dims[d] > p->bounds[d])
            return plait_monitor_report(call, PLAIT_MONITOR_DIM, &p->object, NULL,
                                        "dim %d is %lld, expected 0 to %lld", d, (long long)dims[d],
                                        (long long)p->bounds[d]);
    return PLAIT_OK;
}

/* A slot that the program does not touch may hold anything, and is passed on as it is. */
static plait_status check_slot(const plait_monitor_call *call, const plait_monitor_program *p, int slot,
                               const plait_buffer *given, plait_buffer **out) {
    plait_monitor_buffer *buffer = plait_monitor_buffer_of(call->device->monitor, given);
    *out = buffer ? buffer->inner : (plait_buffer *)(uintptr_t)given;
    if (p->slot_bytes[slot] == 0) return PLAIT_OK;
    if (!given)
        return plait_monitor_report(call, PLAIT_MONITOR_SLOT, &p->object, NULL,
                                    "slot %d has no buffer, expected one of %llu bytes", slot,
                                    (unsigned long long)p->slot_bytes[slot]);
    if (!buffer || buffer->object.device != call->device)
        return plait_monitor_report(
            call, PLAIT_MONITOR_SLOT, &p->object, NULL, "slot %d has a buffer of %s, the program is of %s",
            slot, given->device ? given->device->name : "no device", call->device->base.name);
    PLAIT_TRY(plait_monitor_object_check(call, &buffer->object));
    if (given->size_bytes < p->slot_bytes[slot])
        return plait_monitor_report(
            call, PLAIT_MONITOR_SLOT, &buffer->object, NULL, "slot %d has %llu bytes, expected at least %llu",
            slot, (unsigned long long)given->size_bytes, (unsigned long long)p->slot_bytes[slot]);
    return PLAIT_OK;
}

/* All slots; *out_aliased when a buffer is in two of them. */
static plait_status check_slots(const plait_monitor_call *call, const plait_monitor_program *p,
                                plait_buffer *const *given, const plait_monitor_mark *mark,
                                plait_buffer **out, bool *out_aliased) {
    plait_monitor *monitor = call->device->monitor;
    /* Buffers remember the launch that named them last, so one in two slots is found without comparing slots with each
     * other. */
    uint64_t launch = ++monitor->launches;
    *out_aliased = false;
    for (int s = 0; s < p->n_slots; s++) {
        PLAIT_TRY(check_slot(call, p, s, given ? given[s] : NULL, &out[s]));
        if (p->slot_bytes[s] == 0) continue;
        plait_monitor_buffer *buffer = (plait_monitor_buffer *)given[s];
        plait_monitor_object_use(monitor, &buffer->object, mark);
        *out_aliased |= buffer->aliased == launch;
        buffer->aliased = launch;
    }
    return PLAIT_OK;
}

/* A breach is told in terms of the operand that the range comes of. */
static plait_status touch_ranges(plait_monitor_call *call, plait_monitor_program *p,
                                 plait_buffer *const *slots, const plait_monitor_clock *clock,
                                 const plait_monitor_mark *mark) {
    call->program = p;
    for (size_t i = 0; i < p->n_ranges; i++) {
        const plait_monitor_range *r = &p->ranges[i];
        plait_monitor_buffer *buffer = (plait_monitor_buffer *)slots[r->slot];
        bool write = r->kind == PLAIT_MONITOR_WRITES || r->kind == PLAIT_MONITOR_MAY_WRITE;
        call->operand = r->operand;
        if (r->kind == PLAIT_MONITOR_SCATTERS) {
            plait_monitor_shadow_write(&buffer->shadow, r->begin, r->end);
            continue;
        }
        if (r->kind == PLAIT_MONITOR_READS)
            PLAIT_TRY(plait_monitor_check_written(call, buffer, r->begin, r->end, NULL));
        PLAIT_TRY(plait_monitor_touch(call, buffer, r->begin, r->end, write, clock, mark, NULL));
    }
    return PLAIT_OK;
}

/* Of this device, and on a queue that computes. */
static plait_status check_program(const plait_monitor_call *call, const plait_monitor_queue *queue,
                                  const plait_monitor_program *program) {
    if (!program)
        return plait_monitor_report(call, PLAIT_MONITOR_ARGUMENT, NULL, NULL,
                                    "a launch of something that no monitored device compiled");
    PLAIT_TRY(plait_monitor_object_check(call, &program->object));
    if (program->object.device != call->device)
        return plait_monitor_report(call, PLAIT_MONITOR_ARGUMENT, &program->object, NULL,
                                    "a launch on a queue of %s", call->device->base.name);
    if ((queue->flags & PLAIT_QUEUE_COPY) && call->device->info.n_copy_queues > 0)
        return plait_monitor_report(call, PLAIT_MONITOR_CAPABILITY, &queue->object, NULL,
                                    "a launch on a queue for copies");
    return PLAIT_OK;
}

/* Slots are translated into the flight, which lives as long as the device needs them: the caller's array stays the
 * caller's. */
plait_status plait_monitor_check_launch(const plait_monitor_call *call, plait_monitor_queue *queue,
                                        plait_monitor_flight *flight, const plait_command *command,
                                        plait_command *out) {
    plait_monitor *monitor = call->device->monitor;
    plait_monitor_program *program = plait_monitor_program_of(command->launch.program);
    plait_monitor_call access = *call;
    plait_monitor_mark mark = {.t = queue->clock.t[queue->lane],
                               .call = call->number,
                               .command = call->command,
                               .lane = (uint16_t)queue->lane,
                               .function = (uint16_t)call->function};
    PLAIT_TRY(check_program(call, queue, program));
    /* Behind those of the list's earlier launches. */
    plait_buffer **slots = flight->slots + flight->used_slots;
    bool aliased;
    flight->used_slots += (size_t)program->n_slots;
    PLAIT_TRY(check_slots(call, program, command->launch.slots, &mark, slots, &aliased));
    PLAIT_TRY(check_dims(call, program, command->launch.dims));
    if (aliased) PLAIT_TRY(plait_monitor_check_overlap(call, program, command->launch.slots));
    plait_monitor_object_use(monitor, &program->object, &mark);
    PLAIT_TRY(find_ranges(program, command->launch.dims));
    PLAIT_TRY(touch_ranges(&access, program, command->launch.slots, &queue->clock, &mark));
    out->launch.program = program->inner;
    out->launch.slots = slots;
    return PLAIT_OK;
}
