/* What devices do wrong, one test each: a device breaks the contract in one way (plain_device.h), and the monitor says so.
 * The messages are printed. */
/* monitor: no */
#include "device/monitor_bench.h"

#include "device/plain_device.h"

static const uint64_t one = 1;

static bench open_faulty(plait_monitor_level level, const char *fault) {
    char item[64];
    snprintf(item, sizeof item, "plain:fault=%s", fault);
    return open_bench(level, item, NULL);
}

/* A buffer of 1024 written bytes, sum of its first rows, and the sum read back. What comes of it. */
typedef struct work {
    plait_queue *queue;
    plait_program *sum;
    plait_buffer *buffer, *other;
    plait_buffer *slots[2];
    unsigned char back[128];
    int64_t rows;
    plait_command list[4];
} work;

static void begin_work(work *w, plait_device *device, uint32_t flags) {
    w->queue = make_queue(device, flags);
    w->sum = make_sum(device);
    w->buffer = make_buffer(device, 1024);
    w->other = make_buffer(device, 1024);
    w->slots[0] = w->buffer;
    w->slots[1] = NULL;
    w->rows = 3;
    w->list[0] = fill_of(w->buffer, 0, 1024);
    w->list[1] = launch_of(w->sum, w->slots, &w->rows);
    w->list[2] = copy_of(w->buffer, 256, w->other, 8, 96);
    w->list[3] = read_of(w->other, 8, w->back, 96);
}

static void end_work(work *w, plait_device *device) {
    destroy_queue(w->queue);
    device->vtable->program_destroy(device, w->sum);
    destroy_buffer(w->buffer);
    destroy_buffer(w->other);
}

/* Full level: the fault is found in the command that has it. */
static void found_in_work(const char *fault, plait_monitor_rule rule, int command, const char *words) {
    static const struct {
        uint32_t flags;
        const char *memory; /* commands are needed to look at what is not mapped */
    } ways[] = {{0, ""}, {PLAIT_QUEUE_INLINE, ""}, {0, ":hide=yes"}};
    for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++) {
        char with_memory[64];
        snprintf(with_memory, sizeof with_memory, "%s%s", fault, ways[i].memory);
        bench t = open_faulty(PLAIT_MONITOR_FULL, with_memory);
        plait_monitor_violation found = {0};
        work w;
        begin_work(&w, t.a, ways[i].flags);
        must(submit(w.queue, w.list, 4));
        assert_int_equal(synchronise(w.queue), PLAIT_INTERNAL);
        expect(&t, rule, words, "");
        plait_monitor_get(t.monitor, 0, &found);
        assert_int_equal(found.at.command, command);
        assert_string_equal(found.at.function, "submit");
        end_work(&w, t.a);
        close_bench(&t);
    }
}

/* A device without a fault passes, whatever the level; so does one whose memory is not mapped. */
static void right_devices_pass(void **state) {
    (void)state;
    static const char *const items[] = {"plain", "cpu:threads=2", "sim", "null", "plain:hide=yes"};
    for (size_t i = 0; i < sizeof items / sizeof items[0]; i++)
        for (int level = PLAIT_MONITOR_ON; level <= PLAIT_MONITOR_FULL; level++)
            for (uint32_t flags = 0; flags < 2; flags++) {
                bench t = open_bench((plait_monitor_level)level, items[i], NULL);
                work w;
                begin_work(&w, t.a, flags);
                for (int round = 0; round < 3; round++) {
                    must(submit(w.queue, w.list, 4));
                    must(synchronise(w.queue));
                }
                float sum, seven;
                memcpy(&sum, w.back + 8, sizeof sum);
                memset(&seven, 7, sizeof seven);
                if (i != 3) assert_true(sum == seven + seven);
                end_work(&w, t.a);
                expect_nothing(&t);
                close_bench(&t);
            }
}

/* ---- bytes ---- */

static void writes_into_an_input(void **state) {
    (void)state;
    found_in_work("write-input", PLAIT_MONITOR_WRITE_OUTSIDE, 1,
                  "byte 5 has changed, and the launch (node blk.7.sum, input 0) only reads it");
}

static void writes_beside_its_output(void **state) {
    (void)state;
    found_in_work("write-outside", PLAIT_MONITOR_WRITE_OUTSIDE, 1, "byte 255 of 1024");
}

static void writes_behind_a_buffer(void **state) {
    (void)state;
    found_in_work("write-behind", PLAIT_MONITOR_WRITE_OUTSIDE, 1, "byte 1024 of 1024");
}

static void leaves_out_a_row(void **state) {
    (void)state;
    found_in_work("last-row", PLAIT_MONITOR_NOT_WRITTEN, 1, "bytes [320, 324) are as they were");
}

static void launches_nothing(void **state) {
    (void)state;
    found_in_work("no-launch", PLAIT_MONITOR_NOT_WRITTEN, 1, "(node blk.7.sum, output 0)");
}

static void loses_a_copy(void **state) {
    (void)state;
    found_in_work("lost-copy", PLAIT_MONITOR_WRONG_BYTES, 2, "a copy left byte 0 of 96");
}

static void fills_too_much(void **state) {
    (void)state;
    bench t = open_faulty(PLAIT_MONITOR_FULL, "stray-fill");
    work w;
    begin_work(&w, t.a, 0);
    plait_command list[] = {fill_of(w.buffer, 64, 64)};
    must(submit(w.queue, list, 1));
    assert_int_equal(synchronise(w.queue), PLAIT_INTERNAL);
    expect(&t, PLAIT_MONITOR_WRITE_OUTSIDE, "byte 63 of 1024", "");
    end_work(&w, t.a);
    close_bench(&t);
}

static void ignores_an_offset(void **state) {
    (void)state;
    bench t = open_faulty(PLAIT_MONITOR_FULL, "shifted");
    work w;
    begin_work(&w, t.a, 0);
    unsigned char bytes[64];
    for (int i = 0; i < 64; i++) bytes[i] = (unsigned char)i;
    plait_command write = write_of(w.buffer, 64, bytes, 64);
    must(submit(w.queue, &write, 1));
    assert_int_equal(synchronise(w.queue), PLAIT_INTERNAL);
    expect(&t, PLAIT_MONITOR_WRITE_OUTSIDE, "byte 128 of 1024", "");
    end_work(&w, t.a);
    close_bench(&t);
}

/* Guards are looked at in the cheap level, too. */
static void writes_behind_a_buffer_cheaply(void **state) {
    (void)state;
    bench t = open_faulty(PLAIT_MONITOR_ON, "write-behind");
    work w;
    begin_work(&w, t.a, 0);
    must(submit(w.queue, w.list, 4));
    assert_int_equal(synchronise(w.queue), PLAIT_INTERNAL);
    expect(&t, PLAIT_MONITOR_WRITE_OUTSIDE, "byte 1024 of 1024, behind its end", "");
    end_work(&w, t.a);
    close_bench(&t);
}

/* ---- events and queues ---- */

static void signals_before_its_commands(void **state) {
    (void)state;
    bench t = open_faulty(PLAIT_MONITOR_FULL, "early-signal");
    work w;
    begin_work(&w, t.a, 0);
    must(submit(w.queue, w.list, 4));
    assert_int_equal(synchronise(w.queue), PLAIT_INTERNAL);
    expect(&t, PLAIT_MONITOR_EVENT_EARLY, "the event behind this command is reached", "");
    end_work(&w, t.a);
    close_bench(&t);
}

static void reaches_what_nobody_signalled(void **state) {
    (void)state;
    bench t = open_faulty(PLAIT_MONITOR_ON, "event-ahead");
    plait_event *event = make_event(t.a);
    uint64_t value = 77;
    assert_int_equal(t.a->vtable->event_query(event, &value), PLAIT_INTERNAL);
    assert_int_equal(value, 77);
    expect(&t, PLAIT_MONITOR_EVENT_EARLY, "it is at 1, the largest value of a signal so far is 0", "");
    destroy_event(event);
    close_bench(&t);
}

static void goes_back(void **state) {
    (void)state;
    bench t = open_bench(PLAIT_MONITOR_ON, "odd", NULL);
    plait_event *event = make_event(t.a);
    uint64_t value = 0;
    must(t.a->vtable->event_signal(event, 8));
    must(t.a->vtable->event_query(event, &value));
    must(t.a->vtable->event_query(event, &value));
    assert_int_equal(value, 8);
    assert_int_equal(t.a->vtable->event_query(event, &value), PLAIT_INTERNAL);
    expect(&t, PLAIT_MONITOR_EVENT_BACK, "it is at 4, it was at 8 before", "");
    destroy_event(event);
    close_bench(&t);
}

static void ends_a_wait_too_soon(void **state) {
    (void)state;
    bench t = open_faulty(PLAIT_MONITOR_ON, "short-wait");
    plait_queue *q = make_queue(t.a, 0);
    plait_event *event = make_event(t.a);
    plait_buffer *buffer = make_buffer(t.a, BENCH_BYTES);
    plait_command list[] = {fill_of(buffer, 0, 8), signal_of(event, &one)};
    must(submit(q, list, 2));
    plait_status status = t.a->vtable->event_wait(event, 1, UINT64_MAX);
    expect(&t, PLAIT_MONITOR_EVENT_BACK, "a wait for 1 is over, and it is at 0", "");
    must(synchronise(q));
    assert_int_equal(status, PLAIT_INTERNAL);
    destroy_queue(q);
    destroy_event(event);
    destroy_buffer(buffer);
    close_bench(&t);
}

static void synchronises_too_soon(void **state) {
    (void)state;
    bench t = open_faulty(PLAIT_MONITOR_ON, "no-synchronise");
    plait_queue *q = make_queue(t.a, 0);
    plait_buffer *buffer = make_buffer(t.a, BENCH_BYTES);
    plait_command fill = fill_of(buffer, 0, 8);
    must(submit(q, &fill, 1));
    assert_int_equal(synchronise(q), PLAIT_INTERNAL);
    expect(&t, PLAIT_MONITOR_NOT_DONE, "0 of 1 lists are done", "");
    destroy_queue(q);
    destroy_buffer(buffer);
    close_bench(&t);
}

/* The device fails by itself, and its queue says that nothing happened. */
static void swallows_a_failure(void **state) {
    (void)state;
    bench t = open_faulty(PLAIT_MONITOR_ON, "status-lost");
    plait_queue *q = make_queue(t.a, 0);
    plait_event *event = make_event(t.a);
    const plait_error_record failure = {PLAIT_IO, "the link is down"};
    plait_command wait = wait_of(event, &one);
    t.a->vtable->event_fail(event, &failure);
    must(submit(q, &wait, 1));
    assert_int_equal(synchronise(q), PLAIT_INTERNAL);
    expect(&t, PLAIT_MONITOR_STATUS_LOST, "it has failed, and the device says OK", "");
    destroy_queue(q);
    destroy_event(event);
    close_bench(&t);
}

/* ---- answers ---- */

static void facts_change(void **state) {
    (void)state;
    bench t = open_faulty(PLAIT_MONITOR_ON, "facts");
    plait_device_info info = {.n_threads = 77};
    must(t.a->vtable->describe(t.a, &info));
    info.n_threads = 77;
    assert_int_equal(t.a->vtable->describe(t.a, &info), PLAIT_INTERNAL);
    assert_int_equal(info.n_threads, 77);
    expect(&t, PLAIT_MONITOR_FACTS_CHANGED, "its alignment is not what it was", "");
    close_bench(&t);
}

static bool ask(plait_device *device, const plait_segment_node *node) {
    plait_op_use use = {
        .op = node->op, .n_inputs = node->n_inputs, .n_outputs = node->n_outputs, .present = node->present};
    char reason[80];
    for (int i = 0; i < node->n_inputs; i++) use.inputs[i] = node->inputs[i].shape;
    use.outputs[0] = node->outputs[0].shape;
    return device->vtable->supports(device, &use, NULL, reason, sizeof reason);
}

static void answers_change(void **state) {
    (void)state;
    bench t = open_faulty(PLAIT_MONITOR_ON, "answers");
    sum_segment sum;
    make_sum_node(&sum, &sum_usual);
    assert_true(ask(t.a, &sum.node));
    assert_false(ask(t.a, &sum.node));
    expect(&t, PLAIT_MONITOR_ANSWER_CHANGED, "add is refused, it was accepted before", "");
    close_bench(&t);
}

static void refuses_without_a_reason(void **state) {
    (void)state;
    bench t = open_faulty(PLAIT_MONITOR_ON, "no-reason");
    sum_segment sum;
    make_sum_node(&sum, &sum_usual);
    assert_false(ask(t.a, &sum.node));
    expect(&t, PLAIT_MONITOR_FAILED_CALL, "add is refused without a reason", "");
    close_bench(&t);
}

static void refuses_late(void **state) {
    (void)state;
    static const char *const faults[] = {"refuse-prepare", "refuse-compile"};
    for (int i = 0; i < 2; i++) {
        bench t = open_faulty(PLAIT_MONITOR_ON, faults[i]);
        static const int64_t bound = SUM_ROWS;
        sum_segment sum;
        plait_prepared prepared = {0};
        plait_program *program = NULL;
        make_sum_node(&sum, &sum_usual);
        plait_segment segment = {.struct_bytes = sizeof segment,
                                 .n_nodes = 1,
                                 .nodes = &sum.node,
                                 .n_slots = 2,
                                 .n_dims = 1,
                                 .bounds = &bound};
        plait_status status = t.a->vtable->prepare(t.a, &segment, &prepared);
        if (i == 1) {
            must(status);
            status = t.a->vtable->compile(t.a, &segment, &prepared, &program);
            t.a->vtable->prepared_destroy(t.a, &prepared);
        }
        assert_int_equal(status, PLAIT_UNSUPPORTED); /* planners live with it */
        assert_non_null(strstr(plait_error_message(), "driver"));
        assert_null(program);
        expect(&t, PLAIT_MONITOR_REFUSED_LATE, "supports accepts every node", "");
        close_bench(&t);
    }
}

/* Two nodes: y = a + b, z = y + b. */
static void prepare_badly(const char *fault, const char *words) {
    bench t = open_faulty(PLAIT_MONITOR_ON, fault);
    static const int64_t bound = SUM_ROWS;
    sum_segment first, second;
    plait_prepared prepared = {.n_groups = 77};
    make_sum_node(&first, &sum_usual);
    make_sum_node(&second, &sum_usual);
    second.operands[0] = first.operands[2];
    second.operands[2].value = second.operands[2].storage = 3;
    plait_segment_node nodes[2] = {first.node, second.node};
    nodes[1].name = "blk.7.more";
    plait_segment segment = {.struct_bytes = sizeof segment,
                             .n_nodes = 2,
                             .nodes = nodes,
                             .n_slots = 2,
                             .n_dims = 1,
                             .bounds = &bound};
    assert_int_equal(t.a->vtable->prepare(t.a, &segment, &prepared), PLAIT_INTERNAL);
    assert_int_equal(prepared.n_groups, 77);
    expect(&t, PLAIT_MONITOR_PREPARED, words, "");
    close_bench(&t);
}

static void groups_that_are_wrong(void **state) {
    (void)state;
    prepare_badly("groups", "group 1 has nodes [1, +2)");
    prepare_badly("twice", "node 1 is named twice");
    prepare_badly("order", "node blk.7.more runs before blk.7.sum");
    prepare_badly("elided", "value 3 is left out, and somebody outside needs it");
}

/* ---- calls ---- */

static void create_badly(const char *fault, plait_status expected, plait_monitor_rule rule,
                         const char *words) {
    bench t = open_faulty(PLAIT_MONITOR_ON, fault);
    plait_buffer *buffer = NULL;
    assert_int_equal(t.a->vtable->buffer_create(t.a, 1000, PLAIT_BUFFER_STATE, &buffer), expected);
    assert_null(buffer);
    expect(&t, rule, words, "");
    close_bench(&t);
}

static void calls_that_fail_badly(void **state) {
    (void)state;
    create_badly("output-on-failure", PLAIT_OUT_OF_MEMORY, PLAIT_MONITOR_FAILED_CALL,
                 "failed with OUT_OF_MEMORY and set its output");
    create_badly("no-message", PLAIT_OUT_OF_MEMORY, PLAIT_MONITOR_FAILED_CALL, "left no message");
    create_badly("nothing-made", PLAIT_INTERNAL, PLAIT_MONITOR_OBJECT, "it succeeded and made nothing");
    create_badly("smaller", PLAIT_INTERNAL, PLAIT_MONITOR_OBJECT, "a buffer of 1000 bytes for 0x2 says 936");
}

static void lost_and_well(void **state) {
    (void)state;
    bench t = open_faulty(PLAIT_MONITOR_ON, "lost");
    plait_buffer *buffer = NULL;
    must(t.a->vtable->health(t.a));
    assert_int_equal(t.a->vtable->buffer_create(t.a, 1000, PLAIT_BUFFER_STATE, &buffer), PLAIT_DEVICE_LOST);
    expect_nothing(&t);
    assert_int_equal(t.a->vtable->health(t.a), PLAIT_INTERNAL);
    expect(&t, PLAIT_MONITOR_HEALTH, "has said DEVICE_LOST before", "");
    close_bench(&t);
}

/* A message of the caller's thread outlives calls that succeed. */
static void messages_stay(void **state) {
    (void)state;
    bench t = open_bench(PLAIT_MONITOR_ON, "cpu:threads=1", NULL);
    plait_error_set(PLAIT_IO, "something else");
    work w;
    begin_work(&w, t.a, 0);
    must(submit(w.queue, w.list, 4));
    must(synchronise(w.queue));
    end_work(&w, t.a);
    assert_string_equal(plait_error_message(), "something else");
    close_bench(&t);
}

static void options_are_checked(void **state) {
    (void)state;
    plait_monitor *monitor = NULL;
    plait_monitor_options options = {.struct_bytes = sizeof options + 1};
    assert_int_equal(plait_monitor_create(&options, &monitor), PLAIT_INVALID_ARGUMENT);
    options = (plait_monitor_options){.struct_bytes = sizeof options, .level = (plait_monitor_level)9};
    assert_int_equal(plait_monitor_create(&options, &monitor), PLAIT_INVALID_ARGUMENT);
    assert_null(monitor);
    must(plait_monitor_create(NULL, &monitor));
    plait_device *null = NULL;
    must(plait_device_create("null", NULL, &null));
    assert_null(plait_monitor_of(null));
    plait_device *wrapped = NULL;
    must(plait_monitor_wrap(monitor, null, &wrapped));
    assert_ptr_equal(plait_monitor_of(wrapped), monitor);
    assert_string_equal(wrapped->vtable->kind, "null");
    assert_null(plait_monitor_rule_of(PLAIT_MONITOR_RULE_COUNT));
    wrapped->vtable->destroy(wrapped);
    assert_int_equal(plait_monitor_count(monitor), 0);
    plait_monitor_destroy(monitor);
    plait_monitor_destroy(NULL);
}

static int register_plain(void **state) {
    (void)state;
    return plain_register() == PLAIT_OK ? 0 : -1;
}

static void page_is_true(void **state) {
    (void)state;
    rows_are_messages("test_monitor_device.c");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(right_devices_pass),
        cmocka_unit_test(writes_into_an_input),
        cmocka_unit_test(writes_beside_its_output),
        cmocka_unit_test(writes_behind_a_buffer),
        cmocka_unit_test(leaves_out_a_row),
        cmocka_unit_test(launches_nothing),
        cmocka_unit_test(loses_a_copy),
        cmocka_unit_test(fills_too_much),
        cmocka_unit_test(ignores_an_offset),
        cmocka_unit_test(writes_behind_a_buffer_cheaply),
        cmocka_unit_test(signals_before_its_commands),
        cmocka_unit_test(reaches_what_nobody_signalled),
        cmocka_unit_test(goes_back),
        cmocka_unit_test(ends_a_wait_too_soon),
        cmocka_unit_test(synchronises_too_soon),
        cmocka_unit_test(swallows_a_failure),
        cmocka_unit_test(facts_change),
        cmocka_unit_test(answers_change),
        cmocka_unit_test(refuses_without_a_reason),
        cmocka_unit_test(refuses_late),
        cmocka_unit_test(groups_that_are_wrong),
        cmocka_unit_test(calls_that_fail_badly),
        cmocka_unit_test(lost_and_well),
        cmocka_unit_test(messages_stay),
        cmocka_unit_test(options_are_checked),
        cmocka_unit_test(page_is_true),
    };
    return cmocka_run_group_tests(tests, register_plain, NULL);
}
