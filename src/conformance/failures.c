/* Failures: a command that cannot be executed fails its queue, with a message, for good; waits on the queue's events
 * return it, queues that wait for them fail likewise; other queues and the device go on. A launch that is misused, and
 * ids that are out of range, are failures too. Not here: loss of the whole device (life.c).
 *
 * Invariant: the suite's own queue never fails here: what fails has a queue of its own. */
#include "base/alloc.h"
#include "base/size.h"
#include "conformance/built.h"
#include "conformance/case.h"
#include "conformance/fill.h"
#include "conformance/kit.h"
#include "op/attrs.h"
#include "op/reference.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BYTES = 64 };

static const uint64_t one = 1, two = 2, three = 3;

/* A queue that will fail, one that goes on, and what they use. */
typedef struct scene {
    plait_conf *c;
    plait_conf_kit *kit;
    plait_queue *queue, *other;
    plait_event *event;
    plait_buffer *buffer;
} scene;

/* The event is the queue's, the buffer both queues'. */
static plait_status set_scene(plait_conf *c, plait_conf_kit *kit, uint32_t flags, scene *s) {
    *s = (scene){.c = c, .kit = kit};
    PLAIT_TRY(plait_conf_queue(kit, c->device, flags, &s->queue));
    PLAIT_TRY(plait_conf_queue(kit, c->device, 0, &s->other));
    PLAIT_TRY(plait_conf_event(kit, c->device, &s->event));
    return plait_conf_buffer(kit, c->device, BYTES, PLAIT_BUFFER_STATE, &s->buffer);
}

/* The failure that every device must notice: one byte more than the buffer has. */
static plait_command beyond(const scene *s) {
    return plait_conf_fill(s->buffer, 32, 33, 1);
}

/* ---- a command that fails ---- */

/* After `bad` the queue has failed: what is in front of it was done, what is behind it is not, and every wait says why,
 * however often it is asked. The value that was reached before counts as reached, though a query of the event fails.
 * The bytes are read through another queue, which goes on. Asked twice, since a failure that is told once and then
 * forgotten would leave the second waiter for ever. */
static plait_status fail_with(scene *s, plait_command bad) {
    plait_conf *c = s->c;
    unsigned char back[BYTES];
    uint64_t value = 99;
    /* In front of the failure a fill and a signal, behind it others. */
    plait_command list[] = {plait_conf_fill(s->buffer, 0, BYTES, 0), plait_conf_signal(s->event, &one), bad,
                            plait_conf_fill(s->buffer, 0, BYTES, 9), plait_conf_signal(s->event, &two)};
    plait_command read = plait_conf_read(s->buffer, 0, back, BYTES);
    PLAIT_TRY(plait_conf_submit(s->kit, s->queue, list, PLAIT_COUNT_OF(list)));
    for (int twice = 0; twice < 2; twice++) {
        PLAIT_TRY(PLAIT_CONF_FAILS(c->v->event_wait(s->event, 2, c->patience_ns), PLAIT_OUT_OF_RANGE,
                                   "a wait for an event of a queue that failed"));
        PLAIT_TRY(plait_error_context(c->v->event_wait(s->event, 1, c->patience_ns),
                                      "a signal in front of the failure"));
        PLAIT_TRY(PLAIT_CONF_FAILS(c->v->event_query(s->event, &value), PLAIT_OUT_OF_RANGE,
                                   "a query of an event of a queue that failed"));
        PLAIT_CONF_EXPECT(value == 99, "a failed event_query has set its output");
        PLAIT_TRY(PLAIT_CONF_FAILS(c->v->synchronise(s->queue), PLAIT_OUT_OF_RANGE,
                                   "synchronise of a queue that failed"));
    }
    /* A queue's failure is not the device's. */
    PLAIT_TRY(c->v->health(c->device));
    PLAIT_TRY(plait_conf_do(s->other, &read, 1));
    return plait_conf_all(back, 0, BYTES, "bytes behind a command that failed");
}

/* On queues of every kind; an INLINE queue's submit must not fail, for the failure is the queue's. */
static plait_status region(plait_conf *c, plait_conf_kit *kit, const void *user) {
    scene s;
    PLAIT_TRY(set_scene(c, kit, *(const uint32_t *)user, &s));
    return fail_with(&s, beyond(&s));
}

/* A size behind a pointer is known only when the command runs, so submit cannot refuse it. */
static plait_status size(plait_conf *c, plait_conf_kit *kit, const void *user) {
    static const uint64_t too_many = 17;
    static unsigned char host[BYTES]; /* never written, and there while commands are in flight */
    scene s;
    (void)user;
    PLAIT_TRY(set_scene(c, kit, 0, &s));
    plait_command bad = plait_conf_write(s.buffer, 0, host, 16);
    bad.transfer.size_bytes = &too_many;
    return fail_with(&s, bad);
}

/* Lists that come after the failure are accepted and fail likewise; so do the events that they would have signalled:
 * somebody may wait for them who knows nothing of the failure. Five lists, as a device may keep the first few in a
 * buffer that it looks at again. */
static plait_status for_good(plait_conf *c, plait_conf_kit *kit, const void *user) {
    scene s;
    plait_event *later;
    unsigned char back[BYTES];
    PLAIT_TRY(set_scene(c, kit, *(const uint32_t *)user, &s));
    plait_command clear = plait_conf_fill(s.buffer, 0, BYTES, 7), bad = beyond(&s);
    /* 7 is what must be left when everything has been tried. */
    PLAIT_TRY(plait_conf_do(s.other, &clear, 1));
    PLAIT_TRY(
        PLAIT_CONF_FAILS(plait_conf_do(s.queue, &bad, 1), PLAIT_OUT_OF_RANGE, "a fill beyond its buffer"));
    /* A new event each time: it has had no signal before the queue failed. */
    for (int i = 0; i < 5; i++) {
        PLAIT_TRY(plait_conf_event(kit, c->device, &later));
        plait_command list[] = {plait_conf_fill(s.buffer, 0, BYTES, 8), plait_conf_signal(later, &one)};
        PLAIT_TRY(plait_error_context(plait_conf_submit(kit, s.queue, list, 2),
                                      "submit to a queue that has failed"));
        PLAIT_TRY(PLAIT_CONF_FAILS(c->v->event_wait(later, 1, c->patience_ns), PLAIT_OUT_OF_RANGE,
                                   "a wait for an event that a failed queue was to signal later"));
        PLAIT_TRY(PLAIT_CONF_FAILS(c->v->synchronise(s.queue), PLAIT_OUT_OF_RANGE,
                                   "synchronise after later lists"));
    }
    plait_command read = plait_conf_read(s.buffer, 0, back, BYTES);
    PLAIT_TRY(plait_conf_do(s.other, &read, 1));
    return plait_conf_all(back, 7, BYTES, "bytes that a failed queue was to write later");
}

/* A queue that waits for a failed one fails with its status and message; a third one, that does not, goes on. The
 * message may gain words on its way, and must keep its own. The status must be the failed queue's, OUT_OF_RANGE, and
 * not a general one: whoever waits at the end acts on it. */
static plait_status passed_on(plait_conf *c, plait_conf_kit *kit, const void *user) {
    scene s;
    plait_queue *waiting;
    plait_event *second;
    char message[PLAIT_ERROR_BYTES];
    (void)user;
    PLAIT_TRY(set_scene(c, kit, 0, &s));
    PLAIT_TRY(plait_conf_queue(kit, c->device, 0, &waiting));
    PLAIT_TRY(plait_conf_event(kit, c->device, &second));
    plait_command wait[] = {plait_conf_wait(s.event, &three), plait_conf_fill(s.buffer, 0, BYTES, 9),
                            plait_conf_signal(second, &one)};
    plait_command bad[] = {beyond(&s), plait_conf_signal(s.event, &three)};
    /* The waiting one first, so that it waits when the failure comes. */
    PLAIT_TRY(plait_conf_submit(kit, waiting, wait, 3));
    PLAIT_TRY(plait_conf_submit(kit, s.queue, bad, 2));
    PLAIT_TRY(PLAIT_CONF_FAILS(c->v->synchronise(s.queue), PLAIT_OUT_OF_RANGE,
                               "synchronise of a queue that failed"));
    /* The queue's own words, which must be found in what the waiting one says. */
    plait_error_copy(message, sizeof message);
    PLAIT_TRY(PLAIT_CONF_FAILS(c->v->event_wait(second, 1, c->patience_ns), PLAIT_OUT_OF_RANGE,
                               "a wait for a queue that waited for one that failed"));
    PLAIT_CONF_EXPECT(strstr(plait_error_message(), message),
                      "the failure was passed on as \"%.200s\", expected \"%.200s\"", plait_error_message(),
                      message);
    PLAIT_TRY(PLAIT_CONF_FAILS(c->v->synchronise(waiting), PLAIT_OUT_OF_RANGE,
                               "synchronise of a queue that waited for one that failed"));
    plait_command fine = plait_conf_fill(s.buffer, 0, BYTES, 4);
    PLAIT_TRY(plait_error_context(plait_conf_do(s.other, &fine, 1), "a queue beside one that failed"));
    return c->v->health(c->device);
}

/* ---- programs ---- */

/* add(x, x) over [8, n], n up to 4. Made without the bench: x at 0 and the result at 128 of slot 0, scratch in slot 1
 * from its start. On success the program is the caller's. `prepare` may split or scratch as it likes; one node always
 * is one group. */
static plait_status small_program(plait_conf *c, plait_program **out) {
    static const int64_t bound = 4;
    plait_op_use use;
    plait_op_use_init(&use, plait_op_get(PLAIT_OP_add));
    use.n_inputs = 2;
    use.present = 3;
    use.inputs[0] = (plait_operand){.dtype = PLAIT_F32, .dims = {8, 4, 1, 1}};
    plait_operand_make_dense(&use.inputs[0]);
    use.inputs[1] = use.inputs[0];
    /* The same tensor twice: values 0 for both inputs and 1 for the result. */
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
    /* All at offset 0: there is one node, so one group runs at a time. */
    for (int g = 0; g < prepared.n_groups; g++) prepared.groups[g].scratch_slot = 1;
    plait_status status = c->v->compile(c->device, &segment, &prepared, out);
    c->v->prepared_destroy(c->device, &prepared);
    return status;
}

/* A queue for each launch: those that are misused leave a failed one behind. */
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

/* Any status will do, as long as there is one, and a message. A hang would be ended by the suite's limit. */
static plait_status refuse(plait_conf *c, const plait_program *program, plait_buffer *const *slots, int64_t n,
                           const char *what) {
    plait_conf_forget_message();
    plait_status status = launch_on(c, program, slots, n);
    PLAIT_CONF_EXPECT(status != PLAIT_OK, "%s was accepted", what);
    return plait_conf_failed(status, status, what);
}

/* Right launches before, between and after: a refusal must leave the program and its buffers usable. Order matters: the
 * right launch at the end shows that the refusals have not spoiled the program. */
static plait_status misuse(plait_conf *c, const plait_program *program, plait_buffer *right,
                           plait_buffer *small) {
    /* The buffer of the right size is long enough for scratch as well, and serves both slots; the other has 100 bytes,
     * fewer than the 256 that the operands reach to. */
    plait_buffer *slots[2] = {right, right}, *none[2] = {NULL, NULL}, *shorts[2] = {small, small};
    PLAIT_TRY(launch_on(c, program, slots, 4));
    PLAIT_TRY(launch_on(c, program, slots, 0));
    PLAIT_TRY(refuse(c, program, slots, 5, "a dim above its bound"));
    PLAIT_TRY(refuse(c, program, slots, -1, "a negative dim"));
    PLAIT_TRY(refuse(c, program, none, 4, "a launch without buffers"));
    PLAIT_TRY(refuse(c, program, shorts, 4, "a buffer that is too small"));
    return launch_on(c, program, slots, 4);
}

/* A device that computes nothing reads no slots, and cannot notice. */
static plait_status check_misuse(plait_conf *c, void *user) {
    plait_program *program = NULL;
    plait_buffer *right = NULL, *small = NULL;
    (void)user;
    if (!c->computes) return plait_conf_lack(c, "the device computes nothing");
    plait_status status = small_program(c, &program);
    if (status == PLAIT_OK) status = c->v->buffer_create(c->device, 65536, PLAIT_BUFFER_TEMPORARY, &right);
    if (status == PLAIT_OK) status = c->v->buffer_create(c->device, 100, PLAIT_BUFFER_TEMPORARY, &small);
    if (status == PLAIT_OK) {
        plait_command fill = plait_conf_fill(right, 0, right->size_bytes, 0);
        status = plait_conf_do(c->queue, &fill, 1);
    }
    if (status == PLAIT_OK) status = misuse(c, program, right, small);
    if (program) c->v->program_destroy(c->device, program);
    if (right) c->v->buffer_destroy(right);
    if (small) c->v->buffer_destroy(small);
    return status;
}

/* ---- bad ids ---- */

/* An op whose host data can be bad: an example with one number of a run-time input far out of range. */
typedef struct bad_id_case {
    plait_conf_case test;
    int input;
} bad_id_case;

/* What the reference kernel makes of it, and whether it noticed: zeros and untouched rows, and the error word. */
static plait_status run_reference(plait_conf_work *w, bool *out_noticed) {
    plait_op_use use = plait_conf_host_use(w, &w->nodes[0]);
    uint32_t error = 0;
    size_t bytes = use.op->reference_scratch ? use.op->reference_scratch(&use) : 0;
    void *scratch = plait_alloc_aligned(64, bytes + 64);
    if (!scratch) return plait_error_memory("reference kernel", bytes);
    use.error_word = &error;
    use.op->reference(&use, scratch);
    free(scratch);
    *out_noticed = error != 0;
    return PLAIT_OK;
}

/* The example's own ids first, then one of them far out of range. The node has a name that no other has. INT32_MAX is
 * out of range for every table. */
static plait_status draw_bad_id(plait_conf_work *w, const bad_id_case *b, int *out_first) {
    const plait_op_use *use = &b->test.use;
    int inputs[PLAIT_MAX_INPUTS];
    plait_op_use data = *use;
    for (int i = 0; i < use->n_inputs; i++) {
        inputs[i] = -1;
        if (plait_op_has(use, i))
            inputs[i] = plait_conf_tensor_add(w, &use->inputs[i], PLAIT_CONF_FIXED, 0, false);
    }
    *out_first = plait_conf_apply(w, use, use->n_inputs, inputs, PLAIT_CONF_FIXED);
    if (*out_first < 0) return plait_error_context(PLAIT_INTERNAL, "the node is refused");
    w->nodes[0].name = "the.bad.node";
    PLAIT_TRY(plait_conf_freeze(w));
    for (int i = 0; i < use->n_inputs; i++) {
        if (!plait_op_has(use, i)) continue;
        plait_operand host = plait_conf_host(w, inputs[i]);
        data.inputs[i].data = host.data;
        PLAIT_TRY(plait_conf_values_fill(w->c, &host, PLAIT_CONF_RANDOM, (uint64_t)i + 1, 1));
    }
    use->op->example_data(b->test.which, &data);
    plait_ref_set_id(&data.inputs[b->input], 0, 0, INT32_MAX);
    return PLAIT_OK;
}

/* The launch fails and names its node; what it wrote is what the reference wrote: zeros or nothing for the bad id, and
 * everything else as usual. Where the reference itself does not mind the number, there is nothing to check. The image
 * is read by a queue that has not failed. SINGLE, so that the node is a program of its own and its name the only one
 * that can be meant. */
static plait_status run_bad_id(plait_conf *c, plait_conf_work *w, const bad_id_case *b) {
    unsigned char *image, *back;
    bool noticed = false;
    int first;
    PLAIT_TRY(draw_bad_id(w, b, &first));
    image = plait_conf_image(w);
    back = plait_conf_image(w);
    if (!image || !back) return plait_error_memory("conformance", w->device_bytes);
    plait_conf_forget_message();
    plait_status status = plait_conf_run_device(w, PLAIT_CONF_SINGLE, image);
    plait_error_record failure = {0};
    if (status != PLAIT_OK) plait_error_save(status, &failure);
    /* In the host image, which the device's run has left alone. */
    PLAIT_TRY(run_reference(w, &noticed));
    if (!noticed) return plait_conf_lack(c, "any number is fine there");
    PLAIT_CONF_EXPECT(status != PLAIT_OK, "an id out of its range was not noticed");
    PLAIT_CONF_EXPECT(strstr(failure.message, "the.bad.node"),
                      "the failure does not name the node: %s: %.200s", plait_status_name(status),
                      failure.message);
    plait_queue *queue = NULL;
    PLAIT_TRY(c->v->queue_create(c->device, 0, &queue));
    plait_command read = plait_conf_read(w->image, 0, back, w->device_bytes);
    status = plait_conf_do(queue, &read, 1);
    c->v->queue_destroy(queue);
    PLAIT_TRY(status);
    for (int o = 0; o < b->test.use.n_outputs; o++) {
        plait_operand host = plait_conf_host(w, first + o);
        double difference = plait_conf_difference(w, first + o, back, 1);
        /* Wide: here it only matters that what belongs to good ids is there, and that bad ones left zeros. */
        PLAIT_CONF_EXPECT(difference < 0.3,
                          "output %d (%s) differs from the reference by %.3g where an id is bad", o,
                          plait_dtype_name(host.dtype), difference);
    }
    return plait_conf_untouched(w, back);
}

/* The suite's queue is replaced for the time of the check. The bench uses c->queue for everything, so the queue that
 * will fail is put there, and taken back before the suite goes on. */
static plait_status check_bad_id(plait_conf *c, void *user) {
    const bad_id_case *b = user;
    plait_conf_work w;
    plait_queue *usual = c->queue;
    char reason[160] = "";
    if (!c->computes) return plait_conf_lack(c, "the device computes nothing");
    if (!c->v->supports(c->device, &b->test.use, NULL, reason, sizeof reason))
        return plait_conf_lack(c, "%s", reason);
    PLAIT_TRY(c->v->queue_create(c->device, 0, &c->queue)); /* it will have failed */
    plait_conf_work_init(&w, c);
    plait_status status = run_bad_id(c, &w, b);
    plait_conf_work_deinit(&w);
    c->v->queue_destroy(c->queue);
    c->queue = usual;
    return status;
}

/* Every op with run-time data that it checks, every such input; found by the descriptors, so a new op is in it. */
static void check_bad_ids(plait_conf *c) {
    for (int id = 0; id < PLAIT_OP_COUNT; id++)
        for (int i = 0; i < PLAIT_MAX_INPUTS; i++) {
            bad_id_case b = {.input = i};
            char name[80];
            if (!plait_conf_case_init(&b.test, plait_op_get(id), 0) || !plait_op_has(&b.test.use, i))
                continue;
            /* Inputs whose numbers an op checks at run time. */
            if (!(b.test.use.op->runtime_inputs >> i & 1u) || !b.test.use.op->check_runtime) continue;
            snprintf(name, sizeof name, "failure/bad-id/%s-%d", b.test.use.op->name, i);
            plait_conf_check(c, name, check_bad_id, &b);
        }
}

void plait_conf_failures(plait_conf *c) {
    static const uint32_t own_thread = 0, caller = PLAIT_QUEUE_INLINE, engine = PLAIT_QUEUE_COPY;
    plait_conf_check_kit(c, "failure/region", region, &own_thread);
    plait_conf_check_kit(c, "failure/region-inline", region, &caller);
    plait_conf_check_kit(c, "failure/region-copy-queue", region, &engine);
    plait_conf_check_kit(c, "failure/size", size, NULL);
    plait_conf_check_kit(c, "failure/for-good", for_good, &own_thread);
    plait_conf_check_kit(c, "failure/for-good-inline", for_good, &caller);
    plait_conf_check_kit(c, "failure/passed-on", passed_on, NULL);
    plait_conf_check(c, "failure/launch", check_misuse, NULL);
    check_bad_ids(c);
}
