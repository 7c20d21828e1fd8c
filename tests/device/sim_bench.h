/* Handling a simulated device from tests: opening, buffers, lists on a queue, a program of one node. Anything that fails
 * fails the test. */
#ifndef TESTS_DEVICE_SIM_BENCH_H
#define TESTS_DEVICE_SIM_BENCH_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "base/os.h"
#include "base/size.h"
#include "device/sim/sim.h"

static inline void must(plait_status status) {
    if (status != PLAIT_OK) fail_msg("%s: %s", plait_status_name(status), plait_error_message());
}

/* The call fails in this way, and its message holds the words. */
static inline void must_fail(plait_status status, plait_status expected, const char *words) {
    if (status != expected)
        fail_msg("%s, expected %s", plait_status_name(status), plait_status_name(expected));
    if (!strstr(plait_error_message(), words))
        fail_msg("\"%s\" does not say \"%s\"", plait_error_message(), words);
}

static inline plait_device *open_device(const char *item) {
    plait_device *device = NULL;
    if (plait_device_create(item, NULL, &device) != PLAIT_OK) fail_msg("%s: %s", item, plait_error_message());
    return device;
}

static inline plait_buffer *make_buffer(plait_device *device, uint64_t size_bytes, uint32_t usage) {
    plait_buffer *buffer = NULL;
    must(device->vtable->buffer_create(device, size_bytes, usage, &buffer));
    return buffer;
}

static inline plait_queue *make_queue(plait_device *device, uint32_t flags) {
    plait_queue *queue = NULL;
    must(device->vtable->queue_create(device, flags, &queue));
    return queue;
}

static inline plait_event *make_event(plait_device *device) {
    plait_event *event = NULL;
    must(device->vtable->event_create(device, &event));
    return event;
}

/* Runs the list on a queue of its own and returns what came of it. */
static inline plait_status try_list(plait_device *device, uint32_t flags, const plait_command *commands,
                                    int n) {
    plait_queue *queue = make_queue(device, flags);
    plait_status status = device->vtable->submit(queue, commands, n);
    if (status == PLAIT_OK) status = device->vtable->synchronise(queue);
    device->vtable->queue_destroy(queue);
    return status;
}

static inline plait_command fill_of(plait_buffer *buffer, uint64_t offset, uint64_t n, int byte) {
    return (plait_command){.kind = PLAIT_COMMAND_FILL, .fill = {{buffer, offset, n}, (uint8_t)byte}};
}

static inline plait_command read_of(plait_buffer *buffer, uint64_t offset, uint64_t n, void *host) {
    return (plait_command){.kind = PLAIT_COMMAND_READ,
                           .transfer = {.region = {buffer, offset, n}, .host = host}};
}

static inline plait_command write_of(plait_buffer *buffer, uint64_t offset, uint64_t n, void *host) {
    return (plait_command){.kind = PLAIT_COMMAND_WRITE,
                           .transfer = {.region = {buffer, offset, n}, .host = host}};
}

static inline plait_command copy_of(plait_buffer *source, plait_buffer *target, uint64_t n) {
    return (plait_command){.kind = PLAIT_COMMAND_COPY,
                           .copy = {.source = {source, 0, n}, .target = {target, 0, n}}};
}

static inline plait_command wait_of(plait_event *event, const uint64_t *value) {
    return (plait_command){.kind = PLAIT_COMMAND_WAIT, .wait = {.event = event, .value = value}};
}

static inline plait_command signal_of(plait_event *event, const uint64_t *value) {
    return (plait_command){.kind = PLAIT_COMMAND_SIGNAL, .signal = {.event = event, .value = value}};
}

/* y = x + x over [8, n], n up to 4, both in slot 0: x at 0, y at 128; scratch in slot 1. */
typedef struct small_program {
    plait_segment_node node;
    plait_segment_operand operands[3]; /* two inputs, one output */
    int64_t bound;
    plait_segment segment;
} small_program;

static inline void small_program_draw(small_program *p) {
    plait_op_use use;
    plait_op_use_init(&use, plait_op_get(PLAIT_OP_add));
    use.n_inputs = 2;
    use.present = 3;
    use.inputs[0] = (plait_operand){.dtype = PLAIT_F32, .dims = {8, 4, 1, 1}};
    plait_operand_make_dense(&use.inputs[0]);
    use.inputs[1] = use.inputs[0];
    must(plait_op_infer(&use));
    plait_extent extent = {0, 1, 1, 0, 1};
    p->bound = 4;
    p->node = (plait_segment_node){.op = use.op,
                                   .name = "sum",
                                   .n_inputs = 2,
                                   .n_outputs = 1,
                                   .present = 3,
                                   .inputs = p->operands,
                                   .outputs = p->operands + 2};
    for (int i = 0; i < 3; i++) {
        plait_segment_operand *operand = i < 2 ? &p->node.inputs[i] : &p->node.outputs[0];
        *operand = (plait_segment_operand){.shape = i < 2 ? use.inputs[i] : use.outputs[0],
                                           .outer = extent,
                                           .value = (uint32_t)(i / 2),
                                           .storage = (uint32_t)(i / 2),
                                           .needed_after = i == 2};
    }
    p->segment = (plait_segment){
        .struct_bytes = sizeof p->segment, .n_nodes = 1, .nodes = &p->node, .n_dims = 1, .bounds = &p->bound};
}

static inline plait_status small_program_make(plait_device *device, plait_program **out) {
    small_program p;
    plait_prepared prepared;
    small_program_draw(&p);
    PLAIT_TRY(device->vtable->prepare(device, &p.segment, &prepared));
    p.segment.n_slots = 2;
    p.node.outputs[0].offset = 128;
    for (int g = 0; g < prepared.n_groups; g++) prepared.groups[g].scratch_slot = 1;
    plait_status status = device->vtable->compile(device, &p.segment, &prepared, out);
    device->vtable->prepared_destroy(device, &prepared);
    return status;
}

static inline plait_command launch_of(const plait_program *program, plait_buffer *const *slots,
                                      const int64_t *dims) {
    return (plait_command){.kind = PLAIT_COMMAND_LAUNCH,
                           .launch = {.program = program, .slots = slots, .dims = dims}};
}

#endif
