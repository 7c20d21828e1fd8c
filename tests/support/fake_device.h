/* A device kind for tests: computes by the reference kernels, one group a node, and lacks what it is told to lack.
 *
 *   fake:lack=matmul+rope:align=256:group=3:share=no:fail=5:mem=65536:speed=4:link=1000000000:latency=5000
 *
 * `group`: that many neighbouring nodes run as one group; `share`: whether outputs may take over their inputs' bytes;
 * `fail`: the launch with that number (from 1) fails, once. `mem`: bytes of memory; `speed`: how many times faster than
 * usual; `link` and `latency`: bytes a second and nanoseconds of all its links; `reach=no`: no direct copies to others.
 * `copy`: its copy engines; `hide=yes`: its memory is not mapped and nobody else reaches it; `waits=no`: its queues wait
 * for no event of another device; `boxes=no`: copies in one dim only. `jitter`: a seed; commands take up to 200 us longer.
 * `gate`: launches that may begin; the next waits until the test adds to `gate`. `fail-submit`: the submission with that number
 * (from 1, since the device compiled for the first time: what goes before, trials of direct copies, is not a run's) fails.
 * `refuse` and `balk`: ops that it says it runs, and then does not prepare, or does not compile.
 * `unified=yes`: its memory is the host's, as all such devices' is.
 * `astray`: direct copies with other devices go wrong (all, boxes, large, second, out: fake_astray).
 * `dense`: it takes dense inputs only; `yes`: but copies any, `all`: nor does it copy others.
 * Its figures are stated, so that plans for it do not depend on the machine. Memory that was never written holds
 * 0xFF, which is no
 * number in float32, so that a read before a write shows in results. */
#ifndef PLAIT_TESTS_SUPPORT_FAKE_DEVICE_H
#define PLAIT_TESTS_SUPPORT_FAKE_DEVICE_H

#include "base/alloc.h"
#include "base/status.h"
#include "plait/host_queue.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { FAKE_NODES_AT_MOST = 1 << 20 };

/* Which direct copies with other devices go to, or come from, memory that is not the other's. */
typedef enum fake_astray {
    FAKE_ASTRAY_NONE,
    FAKE_ASTRAY_ALL,
    FAKE_ASTRAY_BOXES,
    FAKE_ASTRAY_LARGE,  /* beyond 100000 bytes */
    FAKE_ASTRAY_SECOND, /* every second one */
    FAKE_ASTRAY_OUT     /* those to others */
} fake_astray;

typedef struct fake_device {
    plait_device base;
    bool lacks[PLAIT_OP_COUNT], refuses[PLAIT_OP_COUNT], balks[PLAIT_OP_COUNT];
    uint64_t alignment, memory_bytes, speed, link_bytes_per_s, latency_ns;
    int group, fail, n_copy_queues, fail_submit;
    fake_astray astray;
    _Atomic int launches, gate, submissions, copies; /* gate -1: no gate */
    _Atomic bool compiled;
    uint32_t jitter;
    bool no_share, alone, hidden, no_waits, no_boxes, dense, dense_copies, unified;
} fake_device;

typedef struct fake_buffer {
    plait_buffer base;
    unsigned char *bytes;
} fake_buffer;

struct plait_program {
    plait_segment_node *nodes; /* in the order of execution */
    plait_segment_operand *operands;
    uint64_t *scratch_offsets;
    uint32_t *scratch_slots;
    int n_nodes, n_dims;
};

extern const plait_device_vtable fake_vtable;

/* ---- device ---- */

static inline plait_status fake_list(bool *lacks, const char *list) {
    while (*list) {
        size_t n = strcspn(list, "+");
        char name[64] = "";
        if (n >= sizeof name) return plait_error(PLAIT_INVALID_ARGUMENT, "lack=%.60s: too long", list);
        memcpy(name, list, n);
        const plait_op *op = plait_op_find(name);
        if (!op) return plait_error(PLAIT_INVALID_ARGUMENT, "lack=%s: no such op", name);
        lacks[op->id] = true;
        list += n + (list[n] == '+');
    }
    return PLAIT_OK;
}

static inline plait_status fake_option(fake_device *device, const char *option) {
    if (strncmp(option, "lack=", 5) == 0) return fake_list(device->lacks, option + 5);
    if (strncmp(option, "refuse=", 7) == 0) return fake_list(device->refuses, option + 7);
    if (strncmp(option, "balk=", 5) == 0) return fake_list(device->balks, option + 5);
    if (strncmp(option, "align=", 6) == 0) return device->alignment = (uint64_t)atoi(option + 6), PLAIT_OK;
    if (strncmp(option, "group=", 6) == 0) return device->group = atoi(option + 6), PLAIT_OK;
    if (strncmp(option, "gate=", 5) == 0) {
        device->gate = atoi(option + 5);
        return PLAIT_OK;
    }
    if (strncmp(option, "fail-submit=", 12) == 0) return device->fail_submit = atoi(option + 12), PLAIT_OK;
    if (strncmp(option, "copy=", 5) == 0) return device->n_copy_queues = atoi(option + 5), PLAIT_OK;
    if (strncmp(option, "jitter=", 7) == 0) return device->jitter = (uint32_t)atoi(option + 7), PLAIT_OK;
    if (strcmp(option, "hide=yes") == 0) return device->hidden = device->alone = true, PLAIT_OK;
    if (strcmp(option, "waits=no") == 0) return device->no_waits = true, PLAIT_OK;
    if (strcmp(option, "boxes=no") == 0) return device->no_boxes = true, PLAIT_OK;
    if (strncmp(option, "fail=", 5) == 0) return device->fail = atoi(option + 5), PLAIT_OK;
    if (strncmp(option, "mem=", 4) == 0)
        return device->memory_bytes = strtoull(option + 4, NULL, 10), PLAIT_OK;
    if (strncmp(option, "speed=", 6) == 0) return device->speed = strtoull(option + 6, NULL, 10), PLAIT_OK;
    if (strncmp(option, "link=", 5) == 0)
        return device->link_bytes_per_s = strtoull(option + 5, NULL, 10), PLAIT_OK;
    if (strncmp(option, "latency=", 8) == 0)
        return device->latency_ns = strtoull(option + 8, NULL, 10), PLAIT_OK;
    if (strcmp(option, "reach=no") == 0) return device->alone = true, PLAIT_OK;
    if (strcmp(option, "dense=all") == 0) return device->dense = device->dense_copies = true, PLAIT_OK;
    if (strcmp(option, "dense=yes") == 0) return device->dense = true, PLAIT_OK;
    if (strcmp(option, "unified=yes") == 0) return device->unified = true, PLAIT_OK;
    if (strcmp(option, "astray=all") == 0) return device->astray = FAKE_ASTRAY_ALL, PLAIT_OK;
    if (strcmp(option, "astray=boxes") == 0) return device->astray = FAKE_ASTRAY_BOXES, PLAIT_OK;
    if (strcmp(option, "astray=large") == 0) return device->astray = FAKE_ASTRAY_LARGE, PLAIT_OK;
    if (strcmp(option, "astray=second") == 0) return device->astray = FAKE_ASTRAY_SECOND, PLAIT_OK;
    if (strcmp(option, "astray=out") == 0) return device->astray = FAKE_ASTRAY_OUT, PLAIT_OK;
    if (strcmp(option, "share=no") == 0) return device->no_share = true, PLAIT_OK;
    return plait_error(PLAIT_INVALID_ARGUMENT, "option \"%.60s\" is unknown", option);
}

static inline plait_status fake_create(const char *const *options, int n_options, const plait_logger *logger,
                                       plait_device **out) {
    (void)logger;
    fake_device *device = plait_alloc_array(1, sizeof *device);
    if (!device) return plait_error_memory("fake device", sizeof *device);
    device->base.vtable = &fake_vtable;
    device->gate = -1;
    device->alignment = 64;
    device->group = 1;
    device->memory_bytes = (uint64_t)1 << 34;
    device->speed = 1;
    device->link_bytes_per_s = 10000000000;
    device->latency_ns = 10000;
    strcpy(device->base.name, "fake");
    for (int i = 0; i < n_options; i++) {
        plait_status status = fake_option(device, options[i]);
        if (status == PLAIT_OK) continue;
        free(device);
        return status;
    }
    *out = &device->base;
    return PLAIT_OK;
}

static inline void fake_destroy(plait_device *device) {
    free(device);
}

static inline plait_status fake_describe(plait_device *device, plait_device_info *out) {
    const fake_device *fake = (const fake_device *)device;
    *out = (plait_device_info){.kind = "fake",
                               .numeric_class = "reference",
                               .memory_total_bytes = fake->memory_bytes,
                               .memory_free_bytes = fake->memory_bytes,
                               .max_buffer_bytes = fake->memory_bytes,
                               .alignment = fake->alignment,
                               .unified_memory = fake->unified,
                               .n_copy_queues = fake->n_copy_queues,
                               .caps = (fake->hidden ? 0 : (uint32_t)PLAIT_CAP_MAPPED) |
                                       (fake->no_boxes ? 0 : (uint32_t)PLAIT_CAP_BOXES) |
                                       (fake->no_waits ? 0 : (uint32_t)PLAIT_CAP_FOREIGN_WAITS)};
    memcpy(out->name, device->name, sizeof out->name);
    return PLAIT_OK;
}

static inline plait_status fake_health(plait_device *device) {
    (void)device;
    return PLAIT_OK;
}

static inline plait_status fake_figures(plait_device *device, plait_device_figures *out) {
    const fake_device *fake = (const fake_device *)device;
    uint64_t speed = fake->speed, link = fake->link_bytes_per_s, ns = fake->latency_ns;
    *out = (plait_device_figures){.struct_bytes = sizeof *out,
                                  .integer_flop_per_s = 200000000000 * speed,
                                  .float_flop_per_s = 100000000000 * speed,
                                  .attention_flop_per_s = 50000000000 * speed,
                                  .weight_bytes_per_s = 10000000000 * speed,
                                  .bytes_per_s = 10000000000 * speed,
                                  .launch_ns = 2000,
                                  .node_ns = 100,
                                  .write_bytes_per_s = link,
                                  .read_bytes_per_s = link,
                                  .peer_bytes_per_s = link,
                                  .write_ns = ns,
                                  .read_ns = ns,
                                  .peer_ns = ns};
    return PLAIT_OK;
}

static inline bool fake_reaches(plait_device *device, plait_device *other) {
    return device == other || (!((fake_device *)device)->alone && plait_host_reaches(device, other));
}

/* ---- memory ---- */

static inline plait_status fake_buffer_create(plait_device *device, uint64_t size_bytes, uint32_t usage,
                                              plait_buffer **out) {
    fake_buffer *buffer = plait_alloc_array(1, sizeof *buffer);
    unsigned char *bytes = buffer ? plait_alloc_aligned(256, size_bytes ? size_bytes : 1) : NULL;
    if (!bytes) {
        free(buffer);
        return plait_error_memory("buffer", size_bytes);
    }
    memset(bytes, usage == PLAIT_BUFFER_TEMPORARY ? 0xFF : 0, size_bytes);
    buffer->bytes = bytes;
    buffer->base = (plait_buffer){.device = device,
                                  .size_bytes = size_bytes,
                                  .usage = usage,
                                  .host = ((fake_device *)device)->hidden ? NULL : bytes};
    *out = &buffer->base;
    return PLAIT_OK;
}

static inline void fake_buffer_destroy(plait_buffer *buffer) {
    if (!buffer) return;
    free(((fake_buffer *)buffer)->bytes);
    free(buffer);
}

static _Thread_local unsigned char fake_elsewhere[1 << 19];
static _Thread_local bool fake_goes_astray; /* the command that the thread carries out */

static inline bool fake_is_astray(fake_device *device, const plait_command *command) {
    const plait_device *self = &device->base;
    if (command->kind != PLAIT_COMMAND_COPY || device->astray == FAKE_ASTRAY_NONE) return false;
    if (command->copy.source.buffer->device == self && command->copy.target.buffer->device == self)
        return false;
    switch (device->astray) {
    case FAKE_ASTRAY_BOXES: return command->copy.box != NULL;
    case FAKE_ASTRAY_LARGE: return command->copy.size_bytes && *command->copy.size_bytes > 100000;
    case FAKE_ASTRAY_SECOND: return device->copies++ % 2 == 1;
    case FAKE_ASTRAY_OUT: return command->copy.source.buffer->device == self;
    default: return true;
    }
}

/* Where a queue of the device finds a buffer's bytes: its own wherever they are, others' where they are mapped. */
static inline unsigned char *fake_address(plait_device *device, const plait_buffer *buffer) {
    if (buffer->device != device && fake_goes_astray) return fake_elsewhere;
    return buffer->device == device ? ((const fake_buffer *)buffer)->bytes : (unsigned char *)buffer->host;
}

/* ---- running ---- */

static inline void fake_operand(const plait_segment_operand *from, plait_buffer *const *slots,
                                const int64_t *dims, plait_operand *out) {
    *out = from->shape;
    if (from->outer.dim >= 0) out->dims[from->outer.axis] = plait_extent_value(&from->outer, 0, dims);
    out->data = slots[from->slot] ? ((fake_buffer *)slots[from->slot])->bytes + from->offset : NULL;
}

static inline plait_status fake_run_node(const plait_segment_node *node, plait_buffer *const *slots,
                                         const int64_t *dims, void *scratch) {
    uint32_t error_word = 0;
    plait_op_use use = {.op = node->op,
                        .n_inputs = node->n_inputs,
                        .n_outputs = node->n_outputs,
                        .present = node->present,
                        .error_word = &error_word};
    memcpy(use.attrs, node->attrs, sizeof use.attrs);
    for (int i = 0; i < node->n_inputs; i++)
        if (node->present >> i & 1u) fake_operand(&node->inputs[i], slots, dims, &use.inputs[i]);
    for (int o = 0; o < node->n_outputs; o++) fake_operand(&node->outputs[o], slots, dims, &use.outputs[o]);
    node->op->reference(&use, scratch);
    if (!error_word) return PLAIT_OK;
    return plait_error(PLAIT_OUT_OF_RANGE, "node %s: an id is out of range", node->name);
}

static inline plait_status fake_launch(plait_device *device, const plait_program *program,
                                       plait_buffer *const *slots, const int64_t *dims,
                                       plait_launch_trace *trace) {
    fake_device *fake = (fake_device *)device;
    (void)trace;
    int launch = ++fake->launches;
    while (fake->gate >= 0 && launch > fake->gate) nanosleep(&(struct timespec){.tv_nsec = 50000}, NULL);
    if (launch == fake->fail)
        return plait_error(PLAIT_IO, "%s: launch %d was told to fail", device->name, launch);
    for (int n = 0; n < program->n_nodes; n++) {
        plait_buffer *arena = slots[program->scratch_slots[n]];
        void *scratch = arena ? ((fake_buffer *)arena)->bytes + program->scratch_offsets[n] : NULL;
        PLAIT_TRY(fake_run_node(&program->nodes[n], slots, dims, scratch));
    }
    return PLAIT_OK;
}

/* Refuses what the device said that it lacks, and takes its time. */
static inline plait_status fake_before(plait_device *device, plait_queue *queue,
                                       const plait_command *command) {
    fake_device *fake = (fake_device *)device;
    bool moves = command->kind == PLAIT_COMMAND_WRITE || command->kind == PLAIT_COMMAND_READ;
    fake_goes_astray = fake_is_astray(fake, command);
    if (command->kind == PLAIT_COMMAND_WAIT && fake->no_waits && command->wait.event->device != device)
        return plait_error(PLAIT_UNSUPPORTED, "%s waits for an event of %s", device->name,
                           command->wait.event->device->name);
    if (fake->no_boxes &&
        ((moves && command->transfer.box) || (command->kind == PLAIT_COMMAND_COPY && command->copy.box)))
        return plait_error(PLAIT_UNSUPPORTED, "%s moves a box", device->name);
    if (fake->jitter && command->kind != PLAIT_COMMAND_WAIT) {
        static _Thread_local uint32_t state;
        if (!state) state = fake->jitter + (uint32_t)(uintptr_t)queue;
        state = state * 1664525u + 1013904223u;
        if (state >> 30 == 0) nanosleep(&(struct timespec){.tv_nsec = (long)(state >> 8) % 200000}, NULL);
    }
    return PLAIT_OK;
}

static inline plait_status fake_queue_create(plait_device *device, uint32_t flags, plait_queue **out) {
    static const plait_host_hooks hooks = {
        .launch = fake_launch, .address = fake_address, .before = fake_before};
    return plait_host_queue_create(device, flags, &hooks, out);
}

static inline plait_status fake_submit(plait_queue *queue, const plait_command *commands, int n) {
    fake_device *fake = (fake_device *)queue->device;
    int submission = fake->compiled ? ++fake->submissions : 0;
    if (submission && submission == fake->fail_submit)
        return plait_error(PLAIT_IO, "%s: submission %d was told to fail", queue->device->name, submission);
    return plait_host_submit(queue, commands, n);
}

/* ---- programs ---- */

static inline bool fake_supports(plait_device *device, const plait_op_use *use,
                                 const plait_encoding *encodings, char *reason, size_t reason_bytes) {
    const fake_device *fake = (const fake_device *)device;
    bool dense = fake->dense && (fake->dense_copies || use->op->id != PLAIT_OP_copy);
    (void)encodings;
    for (int i = 0; i < use->n_inputs; i++)
        if (dense && plait_op_has(use, i) && !plait_operand_is_dense(&use->inputs[i])) {
            snprintf(reason, reason_bytes, "input %d is not dense", i);
            return false;
        }
    if (!fake->lacks[use->op->id]) return true;
    snprintf(reason, reason_bytes, "it was told to lack %s", use->op->name);
    return false;
}

static inline size_t fake_scratch(const plait_segment_node *node) {
    plait_op_use use = {
        .op = node->op, .n_inputs = node->n_inputs, .n_outputs = node->n_outputs, .present = node->present};
    memcpy(use.attrs, node->attrs, sizeof use.attrs);
    for (int i = 0; i < node->n_inputs; i++) use.inputs[i] = node->inputs[i].shape;
    for (int o = 0; o < node->n_outputs; o++) use.outputs[o] = node->outputs[o].shape;
    return node->op->reference_scratch ? node->op->reference_scratch(&use) : 0;
}

/* Output 0 over input i: equal shapes and strides, the whole value, and no other operand of the same value. */
static inline bool fake_may_share(const plait_segment_node *node, int i) {
    const plait_segment_operand *in = &node->inputs[i], *out = &node->outputs[0];
    bool equal = in->shape.dtype == out->shape.dtype && in->view_offset == 0 && !in->is_weight &&
                 memcmp(in->shape.dims, out->shape.dims, sizeof out->shape.dims) == 0 &&
                 memcmp(in->shape.strides, out->shape.strides, sizeof out->shape.strides) == 0;
    for (int k = 0; k < node->n_inputs; k++)
        equal = equal && (k == i || !(node->present >> k & 1u) || node->inputs[k].value != in->value);
    return equal && (node->op->in_place_inputs >> i & node->present >> i & 1u);
}

static inline void fake_prepared_destroy(plait_device *device, plait_prepared *prepared) {
    (void)device;
    free(prepared->groups);
    free(prepared->order);
    free(prepared->shared);
    *prepared = (plait_prepared){0};
}

static inline plait_status fake_prepare(plait_device *device, const plait_segment *segment,
                                        plait_prepared *out) {
    const fake_device *fake = (const fake_device *)device;
    size_t n = (size_t)segment->n_nodes;
    for (int k = 0; k < segment->n_nodes; k++)
        if (fake->refuses[segment->nodes[k].op->id])
            return plait_error(PLAIT_UNSUPPORTED, "%s does not prepare %s", device->name,
                               segment->nodes[k].op->name);
    plait_prepared p = {.groups = plait_alloc_array(n, sizeof *p.groups),
                        .order = plait_alloc_array(n, sizeof *p.order),
                        .shared = plait_alloc_array(n * PLAIT_MAX_INPUTS, sizeof *p.shared)};
    if (!p.groups || !p.order || !p.shared) {
        fake_prepared_destroy(device, &p);
        return plait_error_memory("preparing", n);
    }
    for (int k = 0; k < segment->n_nodes; k++) {
        const plait_segment_node *node = &segment->nodes[k];
        p.order[k] = k;
        if (k % fake->group == 0) p.groups[p.n_groups++] = (plait_group){.first = k, .scratch_alignment = 16};
        plait_group *group = &p.groups[p.n_groups - 1];
        group->n++;
        if (fake_scratch(node) > group->scratch_bytes) group->scratch_bytes = fake_scratch(node);
        for (int i = 0; i < node->n_inputs && !fake->no_share && fake->group == 1; i++)
            if (fake_may_share(node, i)) {
                p.shared[p.n_shared].output = node->outputs[0].value;
                p.shared[p.n_shared++].input = node->inputs[i].value;
            }
    }
    *out = p;
    return PLAIT_OK;
}

static inline void fake_program_destroy(plait_device *device, plait_program *program) {
    (void)device;
    if (!program) return;
    free(program->nodes);
    free(program->operands);
    free(program->scratch_offsets);
    free(program->scratch_slots);
    free(program);
}

/* Scratch shares no byte with an operand of its group: a device may refuse that. */
static inline plait_status fake_scratch_apart(const plait_device *device, const plait_segment_node *node,
                                              const plait_group *group) {
    for (int i = 0; i < node->n_inputs + node->n_outputs && group->scratch_bytes; i++) {
        bool input = i < node->n_inputs;
        const plait_segment_operand *o = input ? &node->inputs[i] : &node->outputs[i - node->n_inputs];
        if ((input && !(node->present >> i & 1u)) || o->slot != group->scratch_slot) continue;
        if (o->offset < group->scratch_offset + group->scratch_bytes &&
            group->scratch_offset < o->offset + (uint64_t)plait_operand_span_bytes(&o->shape))
            return plait_error(PLAIT_INVALID_ARGUMENT, "%s: the scratch of %s lies over operand %d",
                               device->name, node->op->name, i);
    }
    return PLAIT_OK;
}

static inline plait_status fake_compile(plait_device *device, const plait_segment *segment,
                                        const plait_prepared *prepared, plait_program **out) {
    size_t n = (size_t)segment->n_nodes;
    for (int g = 0; g < prepared->n_groups; g++)
        for (int k = prepared->groups[g].first; k < prepared->groups[g].first + prepared->groups[g].n; k++)
            PLAIT_TRY(fake_scratch_apart(device, &segment->nodes[prepared->order[k]], &prepared->groups[g]));
    for (int k = 0; k < segment->n_nodes; k++)
        if (((fake_device *)device)->balks[segment->nodes[k].op->id])
            return plait_error(PLAIT_INTERNAL, "%s does not compile %s", device->name,
                               segment->nodes[k].op->name);
    plait_program *program = plait_alloc_array(1, sizeof *program);
    if (!program) return plait_error_memory("program", sizeof *program);
    program->nodes = plait_alloc_array(n, sizeof *program->nodes);
    program->scratch_offsets = plait_alloc_array(n, sizeof *program->scratch_offsets);
    program->scratch_slots = plait_alloc_array(n, sizeof *program->scratch_slots);
    size_t n_operands = 0;
    for (size_t k = 0; k < n; k++)
        n_operands += (size_t)segment->nodes[k].n_inputs + (size_t)segment->nodes[k].n_outputs;
    program->operands = plait_alloc_array(n_operands, sizeof *program->operands);
    if (!program->nodes || !program->operands || !program->scratch_offsets || !program->scratch_slots) {
        fake_program_destroy(device, program);
        return plait_error_memory("program", n);
    }
    plait_segment_operand *operands = program->operands;
    for (int g = 0; g < prepared->n_groups; g++)
        for (int k = prepared->groups[g].first; k < prepared->groups[g].first + prepared->groups[g].n; k++) {
            plait_segment_node *node = &program->nodes[k];
            *node = segment->nodes[prepared->order[k]];
            memcpy(operands, node->inputs, (size_t)node->n_inputs * sizeof *operands);
            node->inputs = operands, operands += node->n_inputs;
            memcpy(operands, node->outputs, (size_t)node->n_outputs * sizeof *operands);
            node->outputs = operands, operands += node->n_outputs;
            program->scratch_offsets[k] = prepared->groups[g].scratch_offset;
            program->scratch_slots[k] = prepared->groups[g].scratch_slot;
        }
    program->n_nodes = segment->n_nodes;
    ((fake_device *)device)->compiled = true;
    *out = program;
    return PLAIT_OK;
}

const plait_device_vtable fake_vtable = {
    .version = PLAIT_DEVICE_VERSION,
    .struct_bytes = sizeof(plait_device_vtable),
    .sizes = PLAIT_DEVICE_SIZES,
    .kind = "fake",
    .doc = "computes by reference kernels, for tests",
    .create = fake_create,
    .destroy = fake_destroy,
    .describe = fake_describe,
    .buffer_create = fake_buffer_create,
    .buffer_destroy = fake_buffer_destroy,
    .event_create = plait_host_event_create,
    .event_destroy = plait_host_event_destroy,
    .event_query = plait_host_event_query,
    .event_wait = plait_host_event_wait,
    .event_signal = plait_host_event_signal,
    .event_fail = plait_host_event_fail,
    .queue_create = fake_queue_create,
    .queue_destroy = plait_host_queue_destroy,
    .submit = fake_submit,
    .synchronise = plait_host_synchronise,
    .supports = fake_supports,
    .prepare = fake_prepare,
    .prepared_destroy = fake_prepared_destroy,
    .compile = fake_compile,
    .program_destroy = fake_program_destroy,
    .reaches = fake_reaches,
    .figures = fake_figures,
    .health = fake_health,
};

/* Makes the kind known; may be called again. */
static inline plait_status fake_register(void) {
    return plait_device_kind("fake") ? PLAIT_OK : plait_device_register(&fake_vtable);
}

#endif
