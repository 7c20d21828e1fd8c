/* What a launch costs beside its computing: a program of many groups with almost nothing to do in each, so that what
 * is left are barriers, the binding of addresses and the queue. Prints the best and the median of many launches.
 *
 * usage: bench_launch [groups] [device...]      default: 200 cpu:threads=1 cpu:threads=2
 *
 * Not a test: nothing is checked. */
/* room: device */
#include "base/os.h"
#include "plait/device.h"

#include <stdio.h>
#include <stdlib.h>

enum { ROUNDS = 2000, ROWS = 4, SLOT_BYTES = 1 << 20 };

static void check(plait_status status) {
    if (status == PLAIT_OK) return;
    fprintf(stderr, "%s\n", plait_error_message());
    exit(1);
}

/* get_rows after get_rows: each takes its rows of what the one before it made, so no two are side by side. */
static void make_nodes(plait_segment_node *nodes, plait_segment_operand *operands, int n) {
    plait_op_use use;
    plait_op_use_init(&use, plait_op_get(PLAIT_OP_get_rows));
    use.n_inputs = 2;
    use.present = 3;
    use.inputs[0] = (plait_operand){.dtype = PLAIT_F32, .dims = {16, ROWS, 1, 1}};
    use.inputs[1] = (plait_operand){.dtype = PLAIT_I32, .dims = {ROWS, 1, 1, 1}};
    if (!plait_operand_make_dense(&use.inputs[0]) || !plait_operand_make_dense(&use.inputs[1])) exit(1);
    check(plait_op_infer(&use));
    for (int i = 0; i < n; i++) {
        nodes[i] = (plait_segment_node){.op = use.op,
                                        .name = "rows",
                                        .node = (uint32_t)i,
                                        .n_inputs = 2,
                                        .n_outputs = 1,
                                        .present = 3,
                                        .inputs = operands + 3 * i,
                                        .outputs = operands + 3 * i + 2};
        for (int k = 0; k < 3; k++) {
            plait_segment_operand *o = &operands[3 * i + k];
            uint32_t value = k == 1 ? 0 : (uint32_t)(k == 0 ? i + 1 : i + 2);
            *o = (plait_segment_operand){.shape = k == 2 ? use.outputs[0] : use.inputs[k],
                                         .outer.dim = -1,
                                         .value = value,
                                         .storage = value,
                                         .offset = 1024 * (uint64_t)(value % 512),
                                         .needed_after = true};
        }
    }
}

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static void time_launches(const char *item, plait_device *device, const plait_program *program, int groups) {
    static double us[ROUNDS];
    const plait_device_vtable *v = device->vtable;
    plait_queue *queue;
    plait_buffer *buffer;
    check(v->queue_create(device, PLAIT_QUEUE_INLINE, &queue));
    check(v->buffer_create(device, SLOT_BYTES, PLAIT_BUFFER_TEMPORARY, &buffer));
    plait_buffer *slots[1] = {buffer};
    plait_command clear = {.kind = PLAIT_COMMAND_FILL, .fill = {{buffer, 0, SLOT_BYTES}, 0}};
    plait_command launch = {.kind = PLAIT_COMMAND_LAUNCH, .launch = {.program = program, .slots = slots}};
    check(v->submit(queue, &clear, 1));
    for (int i = 0; i < ROUNDS; i++) {
        uint64_t start = plait_time_ns();
        check(v->submit(queue, &launch, 1));
        us[i] = (double)(plait_time_ns() - start) / 1e3;
    }
    check(v->synchronise(queue));
    qsort(us, ROUNDS, sizeof us[0], by_value);
    printf("%-24s %d groups: best %.1f us, median %.1f us, 95%% %.1f us\n", item, groups, us[0],
           us[ROUNDS / 2], us[ROUNDS * 95 / 100]);
    v->queue_destroy(queue);
    v->buffer_destroy(buffer);
}

static void run(const char *item, int n) {
    plait_device *device;
    plait_prepared prepared;
    plait_program *program;
    plait_segment_node *nodes = calloc((size_t)n, sizeof *nodes);
    plait_segment_operand *operands = calloc(3 * (size_t)n, sizeof *operands);
    if (!nodes || !operands) exit(1);
    make_nodes(nodes, operands, n);
    plait_segment segment = {.struct_bytes = sizeof segment, .n_nodes = n, .nodes = nodes};
    check(plait_device_create(item, NULL, &device));
    check(device->vtable->prepare(device, &segment, &prepared));
    segment.n_slots = 1;
    check(device->vtable->compile(device, &segment, &prepared, &program));
    time_launches(item, device, program, prepared.n_groups);
    device->vtable->prepared_destroy(device, &prepared);
    device->vtable->program_destroy(device, program);
    device->vtable->destroy(device);
    free(nodes);
    free(operands);
}

int main(int argc, char **argv) {
    int n = argc > 1 ? atoi(argv[1]) : 200;
    if (n < 1 || n > 100000) return 2;
    for (int i = 2; i < argc; i++) run(argv[i], n);
    if (argc > 2) return 0;
    run("cpu:threads=1", n);
    run("cpu:threads=2", n);
    return 0;
}
