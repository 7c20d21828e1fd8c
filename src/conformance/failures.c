/* Failures: a command that cannot be executed fails its queue, with a message; waits on the queue's events return it;
 * other queues and the device go on. */
#include "base/size.h"
#include "conformance/built.h"
#include "conformance/fill.h"
#include "op/attrs.h"
#include "op/reference.h"

#include <string.h>

enum { BYTES = 64 };

typedef struct bench {
    plait_queue *queue;
    plait_event *event;
    plait_buffer *buffer;
} bench;

static plait_status bench_begin(plait_conf *c, uint32_t flags, bench *b) {
    PLAIT_TRY(c->v->queue_create(c->device, flags, &b->queue));
    PLAIT_TRY(c->v->event_create(c->device, &b->event));
    return c->v->buffer_create(c->device, BYTES, PLAIT_BUFFER_STATE, &b->buffer);
}

static void bench_end(plait_conf *c, bench *b) {
    if (b->queue) c->v->queue_destroy(b->queue);
    if (b->event) c->v->event_destroy(b->event);
    if (b->buffer) c->v->buffer_destroy(b->buffer);
}

/* After `bad` the queue has failed: what is behind it does not run, and every wait says why. */
static plait_status fail_with(plait_conf *c, bench *b, plait_command bad) {
    const uint64_t one = 1;
    unsigned char back[BYTES], zeros[BYTES] = {0};
    uint64_t now = 7;
    plait_command list[] = {
        {.kind = PLAIT_COMMAND_FILL, .fill = {{b->buffer, 0, BYTES}, 0}},
        bad,
        {.kind = PLAIT_COMMAND_FILL, .fill = {{b->buffer, 0, BYTES}, 9}},
        {.kind = PLAIT_COMMAND_SIGNAL, .signal = {b->event, &one}},
    };
    PLAIT_TRY(c->v->submit(b->queue, list, PLAIT_COUNT_OF(list)));
    plait_status status = c->v->event_wait(b->event, 1, UINT64_MAX);
    PLAIT_CONF_EXPECT(status != PLAIT_OK && status != PLAIT_TIMEOUT, "a wait for a failed queue gave %s",
                      plait_status_name(status));
    PLAIT_CONF_EXPECT(strlen(plait_error_message()) > 10, "a failed queue left no message");
    PLAIT_CONF_EXPECT(c->v->event_query(b->event, &now) == status, "a query of its event forgot the failure");
    PLAIT_CONF_EXPECT(c->v->synchronise(b->queue) == status, "synchronise forgot the failure");
    PLAIT_TRY(c->v->health(c->device));
    plait_command read = {.kind = PLAIT_COMMAND_READ,
                          .transfer = {.region = {b->buffer, 0, BYTES}, .host = back}};
    PLAIT_TRY(c->v->submit(c->queue, &read, 1));
    PLAIT_TRY(c->v->synchronise(c->queue));
    PLAIT_CONF_EXPECT(memcmp(back, zeros, BYTES) == 0, "a failed queue executed what came behind");
    return PLAIT_OK;
}

static plait_status check_region(plait_conf *c, void *user) {
    bench b = {0};
    plait_status status = bench_begin(c, *(const uint32_t *)user, &b);
    plait_command bad = {.kind = PLAIT_COMMAND_FILL, .fill = {{b.buffer, 32, 33}, 1}};
    if (status == PLAIT_OK) status = fail_with(c, &b, bad);
    bench_end(c, &b);
    return status;
}

static plait_status check_size(plait_conf *c, void *user) {
    static const uint64_t too_many = 17;
    unsigned char host[BYTES] = {0};
    bench b = {0};
    (void)user;
    plait_status status = bench_begin(c, 0, &b);
    plait_command bad = {.kind = PLAIT_COMMAND_WRITE,
                         .transfer = {.region = {b.buffer, 0, 16}, .host = host, .size_bytes = &too_many}};
    if (status == PLAIT_OK) status = fail_with(c, &b, bad);
    bench_end(c, &b);
    return status;
}

/* ---- programs ---- */

/* add(x, x) over [8, n], n up to 4. */
static plait_status small_program(plait_conf *c, plait_program **out) {
    static const int64_t bound = 4;
    plait_op_use use;
    plait_op_use_init(&use, plait_op_get(PLAIT_OP_add));
    use.n_inputs = 2;
    use.present = 3;
    use.inputs[0] = (plait_operand){.dtype = PLAIT_F32, .dims = {8, 4, 1, 1}};
    plait_operand_make_dense(&use.inputs[0]);
    use.inputs[1] = use.inputs[0];
    PLAIT_TRY(plait_op_infer(&use));
    char reason[160] = "";
    if (!c->v->supports(c->device, &use, NULL, reason, sizeof reason))
        return plait_conf_lack(c, "add: %s", reason);
    plait_extent extent = {0, 1, 1, 0, 1};
    plait_segment_operand operands[3];
    plait_segment_node node = {.op = use.op,
                               .name = "sum",
                               .n_inputs = 2,
                               .n_outputs = 1,
                               .present = 3,
                               .inputs = operands,
                               .outputs = operands + 2};
    for (int i = 0; i < 3; i++) {
        operands[i] = (plait_segment_operand){.shape = i < 2 ? use.inputs[i] : use.outputs[0],
                                              .outer = extent,
                                              .value = (uint32_t)(i / 2),
                                              .storage = (uint32_t)(i / 2),
                                              .needed_after = i == 2};
    }
    plait_segment segment = {
        .struct_bytes = sizeof segment, .n_nodes = 1, .nodes = &node, .n_dims = 1, .bounds = &bound};
    plait_prepared prepared;
    PLAIT_TRY(c->v->prepare(c->device, &segment, &prepared));
    segment.n_slots = 2;
    operands[2].offset = 128;
    for (int g = 0; g < prepared.n_groups; g++) prepared.groups[g].scratch_slot = 1;
    plait_status status = c->v->compile(c->device, &segment, &prepared, out);
    c->v->prepared_destroy(c->device, &prepared);
    return status;
}

static plait_status launch_on(plait_conf *c, const plait_program *program, plait_buffer *const *slots,
                              int64_t n) {
    plait_queue *queue = NULL;
    PLAIT_TRY(c->v->queue_create(c->device, 0, &queue));
    plait_command launch = {.kind = PLAIT_COMMAND_LAUNCH,
                            .launch = {.program = program, .slots = slots, .dims = &n}};
    plait_status status = c->v->submit(queue, &launch, 1);
    if (status == PLAIT_OK) status = c->v->synchronise(queue);
    c->v->queue_destroy(queue);
    return status;
}

static plait_status misuse(plait_conf *c, const plait_program *program, plait_buffer *right,
                           plait_buffer *small) {
    plait_buffer *slots[2] = {right, right}, *none[2] = {NULL, NULL}, *shorts[2] = {small, small};
    PLAIT_TRY(launch_on(c, program, slots, 4));
    PLAIT_TRY(launch_on(c, program, slots, 0));
    PLAIT_CONF_EXPECT(launch_on(c, program, slots, 5) != PLAIT_OK, "a dim above its bound was accepted");
    PLAIT_CONF_EXPECT(launch_on(c, program, slots, -1) != PLAIT_OK, "a negative dim was accepted");
    PLAIT_CONF_EXPECT(launch_on(c, program, none, 4) != PLAIT_OK, "a launch without buffers was accepted");
    PLAIT_CONF_EXPECT(launch_on(c, program, shorts, 4) != PLAIT_OK,
                      "a buffer that is too small was accepted");
    return launch_on(c, program, slots, 4);
}

static plait_status check_misuse(plait_conf *c, void *user) {
    plait_program *program = NULL;
    plait_buffer *right = NULL, *small = NULL;
    (void)user;
    if (!c->computes) return plait_conf_lack(c, "the device computes nothing");
    plait_status status = small_program(c, &program);
    if (status == PLAIT_OK) status = c->v->buffer_create(c->device, 65536, PLAIT_BUFFER_TEMPORARY, &right);
    if (status == PLAIT_OK) status = c->v->buffer_create(c->device, 100, PLAIT_BUFFER_TEMPORARY, &small);
    if (status == PLAIT_OK) status = misuse(c, program, right, small);
    if (program) c->v->program_destroy(c->device, program);
    if (right) c->v->buffer_destroy(right);
    if (small) c->v->buffer_destroy(small);
    return status;
}

/* ---- bad ids ---- */

/* A lookup with an id outside: zeros, and a failure that names the node. */
static plait_status look_up(plait_conf_work *w) {
    plait_op_use use;
    plait_operand table = {.dtype = PLAIT_F32, .dims = {8, 5, 1, 1}},
                  ids = {.dtype = PLAIT_I32, .dims = {3, 1, 1, 1}};
    plait_operand_make_dense(&table);
    plait_operand_make_dense(&ids);
    plait_op_use_init(&use, plait_op_get(PLAIT_OP_get_rows));
    int inputs[2] = {plait_conf_tensor_add(w, &table, PLAIT_CONF_FIXED, 0, false),
                     plait_conf_tensor_add(w, &ids, PLAIT_CONF_FIXED, 0, false)};
    PLAIT_CONF_EXPECT(plait_conf_apply(w, &use, 2, inputs, PLAIT_CONF_FIXED) >= 0, "get_rows is refused");
    PLAIT_TRY(plait_conf_freeze(w));
    plait_operand host = plait_conf_host(w, inputs[1]), rows = plait_conf_host(w, inputs[0]);
    PLAIT_TRY(plait_conf_values_fill(w->c, &rows, PLAIT_CONF_RANDOM, 1, 1));
    for (int i = 0; i < 3; i++) plait_ref_set_id(&host, i, 0, i == 1 ? 5 : i);
    plait_status status = plait_conf_run_device(w, PLAIT_CONF_SINGLE, plait_conf_image(w));
    PLAIT_CONF_EXPECT(status != PLAIT_OK, "an id outside its range was not noticed");
    PLAIT_CONF_EXPECT(strstr(plait_error_message(), "get_rows"), "the failure does not name the node: %s",
                      plait_error_message());
    return PLAIT_OK;
}

static plait_status check_bad_id(plait_conf *c, void *user) {
    plait_conf_work w;
    plait_queue *usual = c->queue;
    (void)user;
    if (!c->computes) return plait_conf_lack(c, "the device computes nothing");
    PLAIT_TRY(c->v->queue_create(c->device, 0, &c->queue)); /* it will have failed */
    plait_conf_work_init(&w, c);
    plait_status status = look_up(&w);
    plait_conf_work_deinit(&w);
    c->v->queue_destroy(c->queue);
    c->queue = usual;
    return status;
}

void plait_conf_failures(plait_conf *c) {
    uint32_t own_thread = 0, caller = PLAIT_QUEUE_INLINE;
    plait_conf_check(c, "failure/region", check_region, &own_thread);
    plait_conf_check(c, "failure/region-inline", check_region, &caller);
    plait_conf_check(c, "failure/size", check_size, NULL);
    plait_conf_check(c, "failure/launch", check_misuse, NULL);
    plait_conf_check(c, "failure/bad-id", check_bad_id, NULL);
}
