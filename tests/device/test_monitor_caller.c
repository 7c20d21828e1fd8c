/* What callers do wrong, one test each: the monitor names the rule, the call, the object and the earlier call. The messages
 * are printed. */
/* monitor: no */
#include "device/monitor_bench.h"

#include "device/plain_device.h"

#include <pthread.h>
#include <time.h>

static const uint64_t one = 1, two = 2;

static bench open_two(void) {
    return open_bench(PLAIT_MONITOR_ON, "cpu:threads=1", "cpu:threads=1");
}

static bench open_one(void) {
    return open_bench(PLAIT_MONITOR_ON, "cpu:threads=1", NULL);
}

/* Runs a list that breaks a rule: submit takes it, the queue fails with the rule's status. */
static void run_bad(plait_queue *queue, const plait_command *commands, int n, plait_status expected) {
    must(submit(queue, commands, n));
    assert_int_equal(synchronise(queue), expected);
    assert_non_null(strstr(plait_error_message(), "monitor: "));
}

static void run_good(plait_queue *queue, const plait_command *commands, int n) {
    must(submit(queue, commands, n));
    must(synchronise(queue));
}

/* ---- life ---- */

static void buffer_after_its_end(void **state) {
    (void)state;
    bench t = open_one();
    plait_queue *q = make_queue(t.a, 0);
    plait_buffer *buffer = make_buffer(t.a, BENCH_BYTES);
    destroy_buffer(buffer);
    plait_command fill = fill_of(buffer, 0, BENCH_BYTES);
    run_bad(q, &fill, 1, PLAIT_WRONG_STATE);
    expect(&t, PLAIT_MONITOR_USE_AFTER_DESTROY, "buffer 1 of cpu", "buffer_destroy");
    destroy_queue(q);
    close_bench(&t);
}

static void buffer_in_a_launch_after_its_end(void **state) {
    (void)state;
    bench t = open_one();
    plait_queue *q = make_queue(t.a, 0);
    plait_program *sum = make_sum(t.a);
    plait_buffer *buffer = make_buffer(t.a, 1024), *slots[2] = {buffer, NULL};
    int64_t rows = 2;
    destroy_buffer(buffer);
    plait_command launch = launch_of(sum, slots, &rows);
    run_bad(q, &launch, 1, PLAIT_WRONG_STATE);
    expect(&t, PLAIT_MONITOR_USE_AFTER_DESTROY, "buffer 1 of cpu", "buffer_destroy");
    destroy_queue(q);
    t.a->vtable->program_destroy(t.a, sum);
    close_bench(&t);
}

static void event_after_its_end(void **state) {
    (void)state;
    bench t = open_one();
    plait_queue *q = make_queue(t.a, 0);
    plait_event *event = make_event(t.a);
    must(t.a->vtable->name_object(t.a, PLAIT_OBJECT_EVENT, event, "step") == PLAIT_UNSUPPORTED
             ? PLAIT_OK
             : PLAIT_INTERNAL);
    destroy_event(event);
    plait_command wait = wait_of(event, &one);
    run_bad(q, &wait, 1, PLAIT_WRONG_STATE);
    expect(&t, PLAIT_MONITOR_USE_AFTER_DESTROY, "event 1 (step) of cpu", "event_destroy");
    destroy_queue(q);
    close_bench(&t);
}

static void event_queried_after_its_end(void **state) {
    (void)state;
    bench t = open_one();
    plait_event *event = make_event(t.a);
    uint64_t value = 77;
    destroy_event(event);
    assert_int_equal(t.a->vtable->event_query(event, &value), PLAIT_WRONG_STATE);
    assert_int_equal(value, 77);
    expect(&t, PLAIT_MONITOR_USE_AFTER_DESTROY, "event_query", "event_destroy");
    close_bench(&t);
}

static void program_after_its_end(void **state) {
    (void)state;
    bench t = open_one();
    plait_queue *q = make_queue(t.a, 0);
    plait_program *sum = make_sum(t.a);
    plait_buffer *buffer = make_buffer(t.a, 1024), *slots[2] = {buffer, NULL};
    int64_t rows = 2;
    t.a->vtable->program_destroy(t.a, sum);
    plait_command launch = launch_of(sum, slots, &rows);
    run_bad(q, &launch, 1, PLAIT_WRONG_STATE);
    expect(&t, PLAIT_MONITOR_USE_AFTER_DESTROY, "program 1 of cpu", "program_destroy");
    destroy_queue(q);
    destroy_buffer(buffer);
    close_bench(&t);
}

static void queue_after_its_end(void **state) {
    (void)state;
    bench t = open_one();
    plait_queue *q = make_queue(t.a, 0);
    destroy_queue(q);
    plait_command none = {.kind = PLAIT_COMMAND_FILL};
    assert_int_equal(submit(q, &none, 0), PLAIT_WRONG_STATE);
    expect(&t, PLAIT_MONITOR_USE_AFTER_DESTROY, "queue 1 of cpu", "queue_destroy");
    close_bench(&t);
}

static void destroyed_twice(void **state) {
    (void)state;
    bench t = open_one();
    plait_buffer *buffer = make_buffer(t.a, BENCH_BYTES);
    destroy_buffer(buffer);
    destroy_buffer(buffer);
    expect(&t, PLAIT_MONITOR_USE_AFTER_DESTROY, "buffer_destroy", "buffer_destroy");
    close_bench(&t);
}

static void buffer_destroyed_in_flight(void **state) {
    (void)state;
    bench t = open_one();
    plait_queue *q = make_queue(t.a, 0);
    plait_event *event = make_event(t.a);
    plait_buffer *buffer = make_buffer(t.a, BENCH_BYTES);
    plait_command list[] = {wait_of(event, &one), fill_of(buffer, 0, BENCH_BYTES)};
    must(submit(q, list, 2));
    destroy_buffer(buffer);
    expect(&t, PLAIT_MONITOR_DESTROYED_IN_FLIGHT, "buffer 1 of cpu", "submit");
    must(t.a->vtable->event_signal(event, 1)); /* the list goes on, and finds that its buffer has ended */
    assert_int_equal(synchronise(q), PLAIT_WRONG_STATE);
    destroy_queue(q);
    destroy_event(event);
    close_bench(&t);
}

/* The command may be done by now; the host has not waited for it. */
static void buffer_destroyed_without_waiting(void **state) {
    (void)state;
    bench t = open_one();
    plait_queue *q = make_queue(t.a, 0);
    plait_buffer *buffer = make_buffer(t.a, BENCH_BYTES);
    plait_command fill = fill_of(buffer, 0, BENCH_BYTES);
    must(submit(q, &fill, 1));
    destroy_buffer(buffer);
    expect(&t, PLAIT_MONITOR_DESTROYED_IN_FLIGHT, "buffer 1 of cpu", "submit");
    must(synchronise(q));
    destroy_queue(q);
    close_bench(&t);
}

static void program_destroyed_in_flight(void **state) {
    (void)state;
    bench t = open_one();
    plait_queue *q = make_queue(t.a, 0);
    plait_program *sum = make_sum(t.a);
    plait_buffer *buffer = make_buffer(t.a, 1024), *slots[2] = {buffer, NULL};
    int64_t rows = 2;
    plait_command list[] = {fill_of(buffer, 0, 1024), launch_of(sum, slots, &rows)};
    must(submit(q, list, 2));
    t.a->vtable->program_destroy(t.a, sum);
    expect(&t, PLAIT_MONITOR_DESTROYED_IN_FLIGHT, "program 1 of cpu", "submit");
    must(synchronise(q));
    destroy_queue(q);
    destroy_buffer(buffer);
    close_bench(&t);
}

static void event_destroyed_in_flight(void **state) {
    (void)state;
    bench t = open_one();
    plait_queue *q = make_queue(t.a, 0);
    plait_event *event = make_event(t.a);
    plait_command signal = signal_of(event, &one);
    must(submit(q, &signal, 1));
    destroy_event(event);
    expect(&t, PLAIT_MONITOR_DESTROYED_IN_FLIGHT, "event 1 of cpu", "submit");
    must(synchronise(q));
    destroy_queue(q);
    close_bench(&t);
}

static void objects_outlive_their_device(void **state) {
    (void)state;
    bench t = open_one();
    plait_monitor_violation found;
    make_queue(t.a, 0);
    make_buffer(t.a, BENCH_BYTES);
    make_event(t.a);
    make_sum(t.a);
    t.a->vtable->destroy(t.a);
    static const char *const makers[] = {"queue_create", "buffer_create", "event_create", "compile"};
    assert_int_equal(plait_monitor_count(t.monitor), 4);
    for (uint64_t i = 0; i < 4; i++) {
        assert_true(plait_monitor_get(t.monitor, i, &found));
        keep_message(&found);
        assert_int_equal(found.rule, PLAIT_MONITOR_LEAK);
        assert_string_equal(found.earlier.function, makers[i]);
    }
    assert_false(plait_monitor_get(t.monitor, 4, &found));
    plait_monitor_destroy(t.monitor);
}

/* ---- bytes nobody wrote ---- */

static void read_before_write(void **state) {
    (void)state;
    bench t = open_one();
    plait_queue *q = make_queue(t.a, 0);
    plait_buffer *buffer = make_buffer(t.a, BENCH_BYTES);
    unsigned char back[BENCH_BYTES];
    plait_command list[] = {fill_of(buffer, 0, 100), read_of(buffer, 0, back, BENCH_BYTES)};
    run_bad(q, list, 2, PLAIT_WRONG_STATE);
    expect(&t, PLAIT_MONITOR_UNWRITTEN_READ, "nobody wrote [100, 256)", "");
    destroy_queue(q);
    destroy_buffer(buffer);
    close_bench(&t);
}

static void copy_before_write(void **state) {
    (void)state;
    bench t = open_two();
    plait_queue *q = make_queue(t.b, 0);
    plait_buffer *from = make_buffer(t.a, BENCH_BYTES), *to = make_buffer(t.b, BENCH_BYTES);
    plait_command list[] = {fill_of(to, 0, BENCH_BYTES), copy_of(from, 8, to, 0, 64)};
    run_bad(q, list, 2, PLAIT_WRONG_STATE);
    expect(&t, PLAIT_MONITOR_UNWRITTEN_READ, "a copy reads bytes [8, 72)", "");
    destroy_queue(q);
    destroy_buffer(from);
    destroy_buffer(to);
    close_bench(&t);
}

static void launch_before_write(void **state) {
    (void)state;
    bench t = open_one();
    plait_queue *q = make_queue(t.a, 0);
    plait_program *sum = make_sum(t.a);
    plait_buffer *buffer = make_buffer(t.a, 1024), *slots[2] = {buffer, NULL};
    int64_t rows = 3;
    plait_command list[] = {fill_of(buffer, 0, 128 + 64), launch_of(sum, slots, &rows)};
    run_bad(q, list, 2, PLAIT_WRONG_STATE);
    expect(&t, PLAIT_MONITOR_UNWRITTEN_READ, "node blk.7.sum, input 1) reads bytes [128, 224)", "");
    destroy_queue(q);
    destroy_buffer(buffer);
    t.a->vtable->program_destroy(t.a, sum);
    close_bench(&t);
}

/* Fewer rows: then what was written is enough. And the host may write mapped memory by itself. */
static void what_is_written_may_be_read(void **state) {
    (void)state;
    bench t = open_one();
    plait_queue *q = make_queue(t.a, 0);
    plait_program *sum = make_sum(t.a);
    plait_buffer *buffer = make_buffer(t.a, 1024), *slots[2] = {buffer, NULL};
    unsigned char back[64];
    int64_t rows = 2;
    plait_command list[] = {fill_of(buffer, 0, 128 + 64), launch_of(sum, slots, &rows),
                            read_of(buffer, 256, back, 64), read_of(buffer, 512, back, 64)};
    memset((char *)buffer->host + 512, 3, 64);
    run_good(q, list, 4);
    assert_int_equal(back[5], 3);
    expect_nothing(&t);
    destroy_queue(q);
    destroy_buffer(buffer);
    t.a->vtable->program_destroy(t.a, sum);
    close_bench(&t);
}

/* ---- order ---- */

static void two_writers(void **state) {
    (void)state;
    bench t = open_one();
    plait_queue *q = make_queue(t.a, 0), *r = make_queue(t.a, 0);
    plait_buffer *buffer = make_buffer(t.a, BENCH_BYTES);
    plait_command first = fill_of(buffer, 0, 100), second = fill_of(buffer, 99, 100);
    must(submit(q, &first, 1));
    run_bad(r, &second, 1, PLAIT_WRONG_STATE);
    expect(&t, PLAIT_MONITOR_UNORDERED_ACCESS, "another queue writes byte 99", "submit");
    must(synchronise(q));
    destroy_queue(q);
    destroy_queue(r);
    destroy_buffer(buffer);
    close_bench(&t);
}

/* The wait stands behind what it should stand before. */
static void wait_too_late(void **state) {
    (void)state;
    bench t = open_two();
    plait_queue *q = make_queue(t.a, 0), *r = make_queue(t.b, 0);
    plait_buffer *from = make_buffer(t.a, BENCH_BYTES), *to = make_buffer(t.b, BENCH_BYTES);
    plait_event *event = make_event(t.a);
    plait_command first = fill_of(from, 0, BENCH_BYTES);
    run_good(q, &first, 1);
    plait_command writer[] = {fill_of(from, 0, BENCH_BYTES), signal_of(event, &one)};
    plait_command reader[] = {copy_of(from, 0, to, 0, BENCH_BYTES), wait_of(event, &one)};
    must(submit(q, writer, 2));
    run_bad(r, reader, 2, PLAIT_WRONG_STATE);
    expect(&t, PLAIT_MONITOR_UNORDERED_ACCESS, "buffer 1 of cpu", "submit");
    must(synchronise(q));
    destroy_queue(q);
    destroy_queue(r);
    destroy_event(event);
    destroy_buffer(from);
    destroy_buffer(to);
    close_bench(&t);
}

/* Overwritten while another queue still reads. */
static void write_over_a_reader(void **state) {
    (void)state;
    bench t = open_one();
    plait_queue *q = make_queue(t.a, 0), *r = make_queue(t.a, 0);
    plait_buffer *buffer = make_buffer(t.a, BENCH_BYTES);
    unsigned char back[BENCH_BYTES];
    plait_command first = fill_of(buffer, 0, BENCH_BYTES), read = read_of(buffer, 0, back, BENCH_BYTES);
    run_good(q, &first, 1);
    must(submit(q, &read, 1));
    run_bad(r, &first, 1, PLAIT_WRONG_STATE);
    expect(&t, PLAIT_MONITOR_UNORDERED_ACCESS, "another queue reads byte 0", "submit");
    must(synchronise(q));
    destroy_queue(q);
    destroy_queue(r);
    destroy_buffer(buffer);
    close_bench(&t);
}

/* A value that is smaller than the signal behind the write, and so may be reached before it. */
static void wait_for_too_little(void **state) {
    (void)state;
    bench t = open_one();
    plait_queue *q = make_queue(t.a, 0), *r = make_queue(t.a, 0);
    plait_buffer *buffer = make_buffer(t.a, BENCH_BYTES);
    plait_event *event = make_event(t.a);
    plait_command writer[] = {signal_of(event, &one), fill_of(buffer, 0, BENCH_BYTES),
                              signal_of(event, &two)};
    plait_command late[] = {wait_of(event, &one), fill_of(buffer, 0, BENCH_BYTES)};
    must(submit(r, late, 2)); /* before any signal is there */
    must(submit(q, writer, 3));
    assert_int_equal(synchronise(r), PLAIT_WRONG_STATE);
    expect(&t, PLAIT_MONITOR_UNORDERED_ACCESS, "buffer 1 of cpu", "submit");
    must(synchronise(q));
    destroy_queue(q);
    destroy_queue(r);
    destroy_event(event);
    destroy_buffer(buffer);
    close_bench(&t);
}

/* Right in every way that a queue can follow another: events, in either order of submission, and the host. */
static void order_is_seen(void **state) {
    (void)state;
    bench t = open_two();
    plait_queue *q = make_queue(t.a, 0), *r = make_queue(t.b, 0);
    plait_buffer *buffer = make_buffer(t.a, BENCH_BYTES), *to = make_buffer(t.b, BENCH_BYTES);
    plait_event *event = make_event(t.a), *back = make_event(t.b);
    plait_command writer[] = {fill_of(buffer, 0, BENCH_BYTES), signal_of(event, &one)};
    plait_command reader[] = {wait_of(event, &one), copy_of(buffer, 0, to, 0, BENCH_BYTES),
                              signal_of(back, &one)};
    plait_command again[] = {wait_of(back, &one), fill_of(buffer, 0, BENCH_BYTES), signal_of(event, &two)};
    must(submit(r, reader, 3));
    must(submit(q, writer, 2));
    must(submit(q, again, 3));
    must(t.a->vtable->event_wait(event, 2, UINT64_MAX));
    plait_command last = fill_of(buffer, 0, 10);
    run_good(r, &last, 1); /* the host has waited for q */
    expect_nothing(&t);
    destroy_queue(q);
    destroy_queue(r);
    destroy_event(event);
    destroy_event(back);
    destroy_buffer(buffer);
    destroy_buffer(to);
    close_bench(&t);
}

static void host_memory_shared(void **state) {
    (void)state;
    bench t = open_two();
    plait_queue *q = make_queue(t.a, 0), *r = make_queue(t.b, 0);
    plait_buffer *from = make_buffer(t.a, BENCH_BYTES), *to = make_buffer(t.b, BENCH_BYTES);
    unsigned char staging[BENCH_BYTES];
    plait_command send[] = {fill_of(from, 0, BENCH_BYTES), read_of(from, 0, staging, BENCH_BYTES)};
    plait_command receive = write_of(to, 0, staging + 100, 50);
    must(submit(q, send, 2));
    run_bad(r, &receive, 1, PLAIT_WRONG_STATE);
    expect(&t, PLAIT_MONITOR_UNORDERED_ACCESS, "host memory", "submit");
    must(synchronise(q));
    destroy_queue(q);
    destroy_queue(r);
    destroy_buffer(from);
    destroy_buffer(to);
    close_bench(&t);
}

static void pack_beside_a_command(void **state) {
    (void)state;
    bench t = open_one();
    plait_queue *q = make_queue(t.a, 0);
    plait_buffer *buffer = make_buffer(t.a, 1 << 16);
    static unsigned char weights[32 * 18];
    plait_operand w = {.dtype = PLAIT_Q4_0, .dims = {32, 32, 1, 1}, .data = weights};
    assert_true(plait_operand_make_dense(&w));
    plait_command fill = fill_of(buffer, 0, 1 << 16);
    must(submit(q, &fill, 1));
    assert_int_equal(t.a->vtable->pack(t.a, &w, 1, 0, 32, (plait_region){buffer, 0, 1 << 16}),
                     PLAIT_WRONG_STATE);
    expect(&t, PLAIT_MONITOR_UNORDERED_ACCESS, "pack", "submit");
    must(synchronise(q));
    destroy_queue(q);
    destroy_buffer(buffer);
    close_bench(&t);
}

/* ---- lists ---- */

static void list_changed_in_flight(void **state) {
    (void)state;
    bench t = open_one();
    plait_queue *q = make_queue(t.a, 0);
    plait_event *event = make_event(t.a);
    plait_buffer *buffer = make_buffer(t.a, BENCH_BYTES);
    plait_command list[] = {wait_of(event, &one), fill_of(buffer, 0, 64)};
    must(submit(q, list, 2));
    list[1].fill.region.size_bytes = 128;
    must(t.a->vtable->event_signal(event, 1));
    assert_int_equal(synchronise(q), PLAIT_WRONG_STATE);
    expect(&t, PLAIT_MONITOR_LIST_CHANGED, "command 1 is not what it was", "submit");
    destroy_queue(q);
    destroy_event(event);
    destroy_buffer(buffer);
    close_bench(&t);
}

static void size_changed_in_flight(void **state) {
    (void)state;
    bench t = open_one();
    plait_queue *q = make_queue(t.a, 0);
    plait_event *event = make_event(t.a);
    plait_buffer *buffer = make_buffer(t.a, BENCH_BYTES);
    unsigned char bytes[BENCH_BYTES] = {0};
    uint64_t n = 64;
    plait_command list[] = {wait_of(event, &one), write_of(buffer, 0, bytes, BENCH_BYTES)};
    list[1].transfer.size_bytes = &n;
    must(submit(q, list, 2));
    n = 32;
    must(t.a->vtable->event_signal(event, 1));
    assert_int_equal(synchronise(q), PLAIT_WRONG_STATE);
    expect(&t, PLAIT_MONITOR_LIST_CHANGED, "that command 1 points to", "submit");
    destroy_queue(q);
    destroy_event(event);
    destroy_buffer(buffer);
    close_bench(&t);
}

/* A size that an earlier command of the list brings: it is read when its command's turn has come, and changing it so is
 * no breach. One that comes out wrong is. */
static void size_comes_late(void **state) {
    (void)state;
    static const uint32_t flags[] = {0, PLAIT_QUEUE_INLINE};
    for (int level = PLAIT_MONITOR_ON; level <= PLAIT_MONITOR_FULL; level++)
        for (int i = 0; i < 2; i++) {
            bench t = open_bench((plait_monitor_level)level, "cpu:threads=1", NULL);
            plait_queue *q = make_queue(t.a, flags[i]);
            plait_buffer *buffer = make_buffer(t.a, BENCH_BYTES);
            uint64_t sizes[2] = {24, 65}, n = 7777;
            unsigned char back[64] = {0};
            plait_command list[] = {write_of(buffer, 128, sizes, 16), fill_of(buffer, 0, 64),
                                    read_of(buffer, 128, &n, 8), read_of(buffer, 0, back, 64)};
            list[3].transfer.size_bytes = &n;
            run_good(q, list, 4);
            assert_int_equal(back[23], 7);
            assert_int_equal(back[24], 0);
            expect_nothing(&t);
            list[2] = read_of(buffer, 136, &n, 8);
            run_bad(q, list, 4, PLAIT_OUT_OF_RANGE);
            expect(&t, PLAIT_MONITOR_OUT_OF_RANGE, "a read moves 65 bytes, the region has 64", "");
            destroy_queue(q);
            destroy_buffer(buffer);
            close_bench(&t);
        }
}

/* Once it is done it is the caller's again, though later commands of the queue are not. */
static void list_reused_after_its_event(void **state) {
    (void)state;
    bench t = open_one();
    plait_queue *q = make_queue(t.a, 0);
    plait_event *event = make_event(t.a);
    plait_buffer *buffer = make_buffer(t.a, BENCH_BYTES);
    uint64_t value;
    plait_command list[2];
    for (value = 1; value < 20; value++) {
        list[0] = fill_of(buffer, value, 64);
        list[1] = signal_of(event, &value);
        must(submit(q, list, 2));
        must(t.a->vtable->event_wait(event, value, UINT64_MAX));
    }
    must(synchronise(q));
    expect_nothing(&t);
    destroy_queue(q);
    destroy_event(event);
    destroy_buffer(buffer);
    close_bench(&t);
}

/* ---- places ---- */

static void region_outside(void **state) {
    (void)state;
    bench t = open_one();
    plait_queue *q = make_queue(t.a, 0);
    plait_buffer *buffer = make_buffer(t.a, BENCH_BYTES);
    plait_command fill = fill_of(buffer, 200, 57);
    run_bad(q, &fill, 1, PLAIT_OUT_OF_RANGE);
    expect(&t, PLAIT_MONITOR_OUT_OF_RANGE, "bytes [200, +57) of a buffer of 256", "");
    destroy_queue(q);
    destroy_buffer(buffer);
    close_bench(&t);
}

static void more_than_the_region(void **state) {
    (void)state;
    bench t = open_one();
    plait_queue *q = make_queue(t.a, 0);
    plait_buffer *buffer = make_buffer(t.a, BENCH_BYTES);
    unsigned char bytes[BENCH_BYTES] = {0};
    const uint64_t n = 17;
    plait_command write = write_of(buffer, 0, bytes, 16);
    write.transfer.size_bytes = &n;
    run_bad(q, &write, 1, PLAIT_OUT_OF_RANGE);
    expect(&t, PLAIT_MONITOR_OUT_OF_RANGE, "moves 17 bytes, the region has 16", "");
    destroy_queue(q);
    destroy_buffer(buffer);
    close_bench(&t);
}

static void box_outside(void **state) {
    (void)state;
    bench t = open_one();
    plait_queue *q = make_queue(t.a, 0);
    plait_buffer *buffer = make_buffer(t.a, BENCH_BYTES);
    unsigned char bytes[BENCH_BYTES] = {0};
    const plait_box box = {8, 5, 1, 8, 0, 64, 0}; /* the last row ends at 4 * 64 + 8 */
    plait_command write = write_of(buffer, 0, bytes, BENCH_BYTES);
    write.transfer.box = &box;
    run_bad(q, &write, 1, PLAIT_OUT_OF_RANGE);
    expect(&t, PLAIT_MONITOR_OUT_OF_RANGE, "moves 264 bytes, the region has 256", "");
    destroy_queue(q);
    destroy_buffer(buffer);
    close_bench(&t);
}

static void rows_over_one_another(void **state) {
    (void)state;
    bench t = open_one();
    plait_queue *q = make_queue(t.a, 0);
    plait_buffer *buffer = make_buffer(t.a, BENCH_BYTES);
    unsigned char bytes[BENCH_BYTES] = {0};
    const plait_box box = {8, 4, 1, 8, 0, 6, 0};
    plait_command write = write_of(buffer, 0, bytes, BENCH_BYTES);
    write.transfer.box = &box;
    run_bad(q, &write, 1, PLAIT_WRONG_STATE);
    expect(&t, PLAIT_MONITOR_ARGUMENT, "rows of 8 bytes lie 6 apart in the target", "");
    destroy_queue(q);
    destroy_buffer(buffer);
    close_bench(&t);
}

/* Rows are followed one by one: two boxes that lie between each other touch no common byte. */
static void boxes_between_each_other(void **state) {
    (void)state;
    bench t = open_one();
    plait_queue *q = make_queue(t.a, 0), *r = make_queue(t.a, 0);
    plait_buffer *buffer = make_buffer(t.a, BENCH_BYTES);
    unsigned char bytes[64] = {0}, back[8];
    const plait_box box = {8, 8, 1, 8, 0, 16, 0};
    plait_command left = write_of(buffer, 0, bytes, BENCH_BYTES),
                  right = write_of(buffer, 8, bytes, BENCH_BYTES - 8), read = read_of(buffer, 130, back, 8);
    left.transfer.box = right.transfer.box = &box;
    must(submit(q, &left, 1));
    must(submit(r, &right, 1));
    must(synchronise(q));
    must(synchronise(r));
    expect_nothing(&t);
    run_bad(q, &read, 1, PLAIT_WRONG_STATE); /* behind the last row */
    expect(&t, PLAIT_MONITOR_UNWRITTEN_READ, "nobody wrote [130, 138)", "");
    destroy_queue(q);
    destroy_queue(r);
    destroy_buffer(buffer);
    close_bench(&t);
}

static void copy_over_itself(void **state) {
    (void)state;
    bench t = open_one();
    plait_queue *q = make_queue(t.a, 0);
    plait_buffer *buffer = make_buffer(t.a, BENCH_BYTES);
    plait_command list[] = {fill_of(buffer, 0, BENCH_BYTES), copy_of(buffer, 0, buffer, 63, 64)};
    run_bad(q, list, 2, PLAIT_WRONG_STATE);
    expect(&t, PLAIT_MONITOR_OVERLAP, "from byte 0 to byte 63", "");
    destroy_queue(q);
    destroy_buffer(buffer);
    close_bench(&t);
}

static void memory_not_reached(void **state) {
    (void)state;
    bench t = open_bench(PLAIT_MONITOR_ON, "plain:reaches=no", "cpu:threads=1");
    plait_queue *q = make_queue(t.a, 0);
    plait_buffer *from = make_buffer(t.b, BENCH_BYTES), *to = make_buffer(t.a, BENCH_BYTES);
    plait_command copy = copy_of(from, 0, to, 0, 64);
    run_bad(q, &copy, 1, PLAIT_WRONG_STATE);
    expect(&t, PLAIT_MONITOR_NOT_REACHED, "plain does not reach the memory of cpu", "");
    destroy_queue(q);
    destroy_buffer(from);
    destroy_buffer(to);
    close_bench(&t);
}

/* ---- capabilities ---- */

static void box_without_boxes(void **state) {
    (void)state;
    bench t = open_bench(PLAIT_MONITOR_ON, "plain:caps=0", NULL);
    plait_queue *q = make_queue(t.a, 0);
    plait_buffer *buffer = make_buffer(t.a, BENCH_BYTES);
    unsigned char bytes[64] = {0};
    const plait_box box = {8, 8, 1, 8, 0, 16, 0};
    plait_command write = write_of(buffer, 0, bytes, BENCH_BYTES);
    write.transfer.box = &box;
    run_bad(q, &write, 1, PLAIT_WRONG_STATE);
    expect(&t, PLAIT_MONITOR_CAPABILITY, "PLAIT_CAP_BOXES", "");
    destroy_queue(q);
    destroy_buffer(buffer);
    close_bench(&t);
}

static void foreign_wait_without_foreign_waits(void **state) {
    (void)state;
    bench t = open_bench(PLAIT_MONITOR_ON, "plain:caps=0", "cpu:threads=1");
    plait_queue *q = make_queue(t.a, 0);
    plait_event *event = make_event(t.b);
    plait_command wait = wait_of(event, &one);
    must(t.b->vtable->event_signal(event, 1));
    run_bad(q, &wait, 1, PLAIT_WRONG_STATE);
    expect(&t, PLAIT_MONITOR_CAPABILITY, "an event of cpu", "");
    destroy_queue(q);
    destroy_event(event);
    close_bench(&t);
}

static void launch_on_a_copy_queue(void **state) {
    (void)state;
    bench t = open_bench(PLAIT_MONITOR_ON, "plain:copies=1", NULL);
    plait_queue *q = make_queue(t.a, PLAIT_QUEUE_COPY);
    plait_program *sum = make_sum(t.a);
    plait_buffer *buffer = make_buffer(t.a, 1024), *slots[2] = {buffer, buffer};
    int64_t rows = 2;
    plait_command list[] = {fill_of(buffer, 0, 1024), launch_of(sum, slots, &rows)};
    run_bad(q, list, 2, PLAIT_WRONG_STATE);
    expect(&t, PLAIT_MONITOR_CAPABILITY, "a launch on a queue for copies", "");
    destroy_queue(q);
    destroy_buffer(buffer);
    t.a->vtable->program_destroy(t.a, sum);
    close_bench(&t);
}

static void imported_event_signalled(void **state) {
    (void)state;
    bench t = open_bench(PLAIT_MONITOR_ON, "plain", "cpu:threads=1");
    plait_event *event = make_event(t.b), *imported = NULL;
    must(t.a->vtable->event_import(t.a, event, &imported));
    plait_queue *q = make_queue(t.a, 0);
    plait_command wait = wait_of(imported, &one);
    must(submit(q, &wait, 1));
    must(t.b->vtable->event_signal(event, 1)); /* it shows the other's timeline */
    must(synchronise(q));
    expect_nothing(&t);
    assert_int_equal(t.a->vtable->event_signal(imported, 2), PLAIT_WRONG_STATE);
    expect(&t, PLAIT_MONITOR_ARGUMENT, "an imported event cannot be signalled", "");
    destroy_queue(q);
    destroy_event(imported);
    destroy_event(event);
    close_bench(&t);
}

/* ---- waits that never end ---- */

static void host_waits_for_nobody(void **state) {
    (void)state;
    bench t = open_one();
    plait_event *event = make_event(t.a);
    must(t.a->vtable->event_signal(event, 4));
    assert_int_equal(t.a->vtable->event_wait(event, 5, 1000000), PLAIT_TIMEOUT);
    expect_nothing(&t); /* with a limit it is the caller's business */
    assert_int_equal(t.a->vtable->event_wait(event, 5, UINT64_MAX), PLAIT_WRONG_STATE);
    expect(&t, PLAIT_MONITOR_NEVER_SIGNALLED, "nobody signals 5", "");
    destroy_event(event);
    close_bench(&t);
}

static void queue_waits_for_nobody(void **state) {
    (void)state;
    bench t = open_one();
    plait_queue *q = make_queue(t.a, 0);
    plait_event *event = make_event(t.a), *after = make_event(t.a);
    plait_command list[] = {wait_of(event, &one), signal_of(after, &one)};
    must(submit(q, list, 2));
    assert_int_equal(synchronise(q), PLAIT_WRONG_STATE);
    expect(&t, PLAIT_MONITOR_NEVER_SIGNALLED, "queue 1 of cpu waits for 1", "submit");
    /* The queue has failed there, and so has what stands behind. */
    assert_int_equal(t.a->vtable->event_wait(after, 1, UINT64_MAX), PLAIT_WRONG_STATE);
    assert_non_null(strstr(plait_error_message(), "never-signalled"));
    destroy_queue(q);
    destroy_event(event);
    destroy_event(after);
    close_bench(&t);
}

/* The host waits for what would come from a queue that waits for nobody: the event that is missing is named. */
static void host_waits_behind_a_queue(void **state) {
    (void)state;
    bench t = open_one();
    plait_queue *q = make_queue(t.a, 0);
    plait_event *event = make_event(t.a), *after = make_event(t.a);
    plait_command list[] = {wait_of(event, &two), signal_of(after, &one)};
    must(submit(q, list, 2));
    assert_int_equal(t.a->vtable->event_wait(after, 1, UINT64_MAX), PLAIT_WRONG_STATE);
    expect(&t, PLAIT_MONITOR_NEVER_SIGNALLED, "event 1 of cpu", "submit");
    destroy_queue(q);
    destroy_event(event);
    destroy_event(after);
    close_bench(&t);
}

static void queues_wait_for_one_another(void **state) {
    (void)state;
    bench t = open_two();
    plait_queue *q = make_queue(t.a, 0), *r = make_queue(t.b, 0);
    plait_event *e = make_event(t.a), *f = make_event(t.b);
    plait_command left[] = {wait_of(f, &one), signal_of(e, &one)};
    plait_command right[] = {wait_of(e, &one), signal_of(f, &one)};
    must(submit(q, left, 2));
    must(submit(r, right, 2));
    synchronise(q);
    synchronise(r);
    expect(&t, PLAIT_MONITOR_WAIT_CYCLE, "whose signal waits for this queue", "submit");
    destroy_queue(q);
    destroy_queue(r);
    destroy_event(e);
    destroy_event(f);
    close_bench(&t);
}

static void destroyed_while_it_waits(void **state) {
    (void)state;
    bench t = open_one();
    plait_queue *q = make_queue(t.a, 0);
    plait_event *event = make_event(t.a);
    plait_command wait = wait_of(event, &one);
    must(submit(q, &wait, 1));
    destroy_queue(q);
    expect(&t, PLAIT_MONITOR_NEVER_SIGNALLED, "event 1 of cpu", "submit");
    destroy_event(event);
    close_bench(&t);
}

/* A signal that comes late, from another thread, is none of these. */
typedef struct late_signal {
    plait_event *event;
    uint64_t value;
} late_signal;

static void *signal_late(void *user) {
    const late_signal *late = user;
    nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
    late->event->device->vtable->event_signal(late->event, late->value);
    return NULL;
}

static void late_signals_count(void **state) {
    (void)state;
    bench t = open_one();
    plait_event *event = make_event(t.a);
    late_signal late = {event, 1};
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, signal_late, &late), 0);
    must(t.a->vtable->event_wait(event, 1, UINT64_MAX));
    assert_int_equal(pthread_join(thread, NULL), 0);
    expect_nothing(&t);
    destroy_event(event);
    close_bench(&t);
}

/* ---- threads ---- */

static void *synchronise_elsewhere(void *user) {
    synchronise(user);
    return NULL;
}

static void two_threads_in_a_queue(void **state) {
    (void)state;
    bench t = open_one();
    plait_queue *q = make_queue(t.a, 0);
    plait_event *event = make_event(t.a);
    plait_command wait = wait_of(event, &one), none = {.kind = PLAIT_COMMAND_FILL};
    must(submit(q, &wait, 1));
    pthread_t thread;
    plait_status status = PLAIT_OK;
    assert_int_equal(pthread_create(&thread, NULL, synchronise_elsewhere, q), 0);
    for (int i = 0; i < 20 && status == PLAIT_OK; i++) { /* until the other one has begun */
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
        status = submit(q, &none, 0);
    }
    must(t.a->vtable->event_signal(event, 1));
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(status, PLAIT_WRONG_STATE);
    expect(&t, PLAIT_MONITOR_TWO_THREADS, "another thread is in a call", "synchronise");
    destroy_queue(q);
    destroy_event(event);
    close_bench(&t);
}

/* ---- launches ---- */

/* Launches sum with these slots and rows; a buffer of 1024 written bytes stands for `buffer`. */
static void launch_badly(plait_device *device, plait_buffer *const *slots, const int64_t *rows,
                         plait_status expected) {
    plait_queue *q = make_queue(device, 0);
    plait_program *sum = make_sum(device);
    plait_command launch = launch_of(sum, slots, rows);
    run_bad(q, &launch, 1, expected);
    destroy_queue(q);
    device->vtable->program_destroy(device, sum);
}

static void slot_missing(void **state) {
    (void)state;
    bench t = open_one();
    plait_buffer *slots[2] = {NULL, NULL};
    const int64_t rows = 2;
    launch_badly(t.a, slots, &rows, PLAIT_WRONG_STATE);
    expect(&t, PLAIT_MONITOR_SLOT, "slot 0 has no buffer, expected one of 384 bytes", "");
    close_bench(&t);
}

static void slot_too_small(void **state) {
    (void)state;
    bench t = open_one();
    plait_buffer *buffer = make_buffer(t.a, 383), *slots[2] = {buffer, NULL};
    const int64_t rows = 2;
    launch_badly(t.a, slots, &rows, PLAIT_WRONG_STATE);
    expect(&t, PLAIT_MONITOR_SLOT, "slot 0 has 383 bytes, expected at least 384", "");
    destroy_buffer(buffer);
    close_bench(&t);
}

static void slot_of_another_device(void **state) {
    (void)state;
    bench t = open_two();
    plait_buffer *buffer = make_buffer(t.b, 1024), *slots[2] = {buffer, NULL};
    const int64_t rows = 2;
    launch_badly(t.a, slots, &rows, PLAIT_WRONG_STATE);
    expect(&t, PLAIT_MONITOR_SLOT, "slot 0 has a buffer of cpu", "");
    destroy_buffer(buffer);
    close_bench(&t);
}

static void dim_above_its_bound(void **state) {
    (void)state;
    bench t = open_one();
    plait_buffer *buffer = make_buffer(t.a, 1024), *slots[2] = {buffer, NULL};
    const int64_t rows = 5;
    launch_badly(t.a, slots, &rows, PLAIT_WRONG_STATE);
    expect(&t, PLAIT_MONITOR_DIM, "dim 0 is 5, expected 0 to 4", "");
    destroy_buffer(buffer);
    close_bench(&t);
}

static void program_of_another_device(void **state) {
    (void)state;
    bench t = open_two();
    plait_queue *q = make_queue(t.b, 0);
    plait_program *sum = make_sum(t.a);
    plait_buffer *buffer = make_buffer(t.b, 1024), *slots[2] = {buffer, NULL};
    const int64_t rows = 2;
    plait_command launch = launch_of(sum, slots, &rows);
    run_bad(q, &launch, 1, PLAIT_WRONG_STATE);
    expect(&t, PLAIT_MONITOR_ARGUMENT, "program 1 of cpu", "");
    destroy_queue(q);
    destroy_buffer(buffer);
    t.a->vtable->program_destroy(t.a, sum);
    close_bench(&t);
}

static void operands_over_one_another(void **state) {
    (void)state;
    bench t = open_one();
    plait_program *sum = NULL;
    const sum_place place = {0, 128, 64, 0};
    assert_int_equal(compile_sum(t.a, &place, &sum), PLAIT_WRONG_STATE);
    assert_null(sum);
    expect(&t, PLAIT_MONITOR_OVERLAP, "lies over node blk.7.sum, output 0 at [64, +128) of slot 0", "");
    close_bench(&t);
}

/* Operands in two slots, apart by their numbers and together by the buffer. */
static void one_buffer_in_two_slots(void **state) {
    (void)state;
    bench t = open_bench(PLAIT_MONITOR_ON, "plain:scratch=64", NULL);
    plait_queue *q = make_queue(t.a, 0);
    plait_program *sum = make_sum(t.a);
    plait_buffer *buffer = make_buffer(t.a, 1024), *slots[2] = {buffer, buffer};
    const int64_t rows = 2;
    plait_command list[] = {fill_of(buffer, 0, 1024), launch_of(sum, slots, &rows)};
    run_bad(q, list, 2, PLAIT_WRONG_STATE);
    expect(&t, PLAIT_MONITOR_OVERLAP, "lies over its group's scratch", "");
    destroy_queue(q);
    destroy_buffer(buffer);
    t.a->vtable->program_destroy(t.a, sum);
    close_bench(&t);
}

static void operand_misaligned(void **state) {
    (void)state;
    bench t = open_one();
    plait_program *sum = NULL;
    const sum_place place = {0, 128, 260, 0};
    assert_int_equal(compile_sum(t.a, &place, &sum), PLAIT_WRONG_STATE);
    expect(&t, PLAIT_MONITOR_MISALIGNED, "output 0: its value lies at 260, the device's alignment is 64", "");
    close_bench(&t);
}

static void scratch_misaligned(void **state) {
    (void)state;
    bench t = open_bench(PLAIT_MONITOR_ON, "plain:scratch=64", NULL);
    plait_program *sum = NULL;
    const sum_place place = {0, 128, 256, 24};
    assert_int_equal(compile_sum(t.a, &place, &sum), PLAIT_WRONG_STATE);
    expect(&t, PLAIT_MONITOR_MISALIGNED, "scratch of group 0 lies at 24, its alignment is 16", "");
    close_bench(&t);
}

/* ---- arguments ---- */

static void usage_unknown(void **state) {
    (void)state;
    static const uint32_t usages[] = {0, 16, PLAIT_BUFFER_STATE | PLAIT_BUFFER_WEIGHTS};
    for (size_t i = 0; i < sizeof usages / sizeof usages[0]; i++) {
        bench t = open_one();
        plait_buffer *buffer = NULL;
        assert_int_equal(t.a->vtable->buffer_create(t.a, 64, usages[i], &buffer), PLAIT_WRONG_STATE);
        assert_null(buffer);
        expect(&t, PLAIT_MONITOR_USAGE, "expected one of WEIGHTS 1", "");
        close_bench(&t);
    }
}

static void arguments_that_are_never_right(void **state) {
    (void)state;
    bench t = open_one();
    plait_buffer *buffer = make_buffer(t.a, BENCH_BYTES);
    plait_event *event = make_event(t.a);
    const plait_command bad[] = {{.kind = (plait_command_kind)99},
                                 fill_of(NULL, 0, 8),
                                 write_of(buffer, 0, NULL, 8),
                                 signal_of(event, NULL),
                                 wait_of(NULL, &one)};
    static const char *const words[] = {"command kind 99", "the region has no buffer", "without host memory",
                                        "a signal without", "a wait without"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        plait_queue *q = make_queue(t.a, 0);
        plait_monitor_violation found;
        run_bad(q, &bad[i], 1, PLAIT_WRONG_STATE);
        assert_true(plait_monitor_get(t.monitor, i, &found));
        keep_message(&found);
        assert_int_equal(found.rule, PLAIT_MONITOR_ARGUMENT);
        assert_int_equal(found.at.command, 0);
        assert_non_null(strstr(found.message, words[i]));
        destroy_queue(q);
    }
    destroy_event(event);
    destroy_buffer(buffer);
    close_bench(&t);
}

/* ---- failing ---- */

/* What stands before the breach is done, what stands behind it is not, and its events fail. */
static void queue_fails_in_order(void **state) {
    (void)state;
    static const uint32_t flags[] = {0, PLAIT_QUEUE_INLINE};
    for (int i = 0; i < 2; i++) {
        bench t = open_one();
        plait_queue *q = make_queue(t.a, flags[i]), *r = make_queue(t.a, 0);
        plait_buffer *buffer = make_buffer(t.a, BENCH_BYTES);
        plait_event *event = make_event(t.a);
        unsigned char back[64] = {0};
        plait_command list[] = {fill_of(buffer, 0, 64), signal_of(event, &one), fill_of(buffer, 0, 257),
                                fill_of(buffer, 0, 32), signal_of(event, &two)};
        plait_command read = read_of(buffer, 0, back, 64), later = fill_of(buffer, 0, 8);
        must(submit(q, list, 5));
        must(t.a->vtable->event_wait(event, 1, UINT64_MAX));
        assert_int_equal(t.a->vtable->event_wait(event, 2, UINT64_MAX), PLAIT_OUT_OF_RANGE);
        assert_non_null(strstr(plait_error_message(), "command 2"));
        assert_int_equal(synchronise(q), PLAIT_OUT_OF_RANGE);
        must(submit(q, &later, 1)); /* accepted, and fails likewise */
        assert_int_equal(synchronise(q), PLAIT_OUT_OF_RANGE);
        run_good(r, &read, 1);
        for (int k = 0; k < 64; k++) assert_int_equal(back[k], 7);
        assert_int_equal(plait_monitor_count(t.monitor), 1);
        destroy_queue(q);
        destroy_queue(r);
        destroy_event(event);
        destroy_buffer(buffer);
        close_bench(&t);
    }
}

/* A queue that waits for one that has failed fails as well, with the first one's message. */
static void failure_travels(void **state) {
    (void)state;
    bench t = open_two();
    plait_queue *q = make_queue(t.a, 0), *r = make_queue(t.b, 0);
    plait_buffer *buffer = make_buffer(t.a, BENCH_BYTES);
    plait_event *event = make_event(t.a);
    plait_command left[] = {fill_of(buffer, 0, 999), signal_of(event, &one)};
    plait_command right = wait_of(event, &one);
    must(submit(r, &right, 1));
    must(submit(q, left, 2));
    assert_int_equal(synchronise(r), PLAIT_OUT_OF_RANGE);
    assert_non_null(strstr(plait_error_message(), "+999"));
    assert_int_equal(plait_monitor_count(t.monitor), 1);
    destroy_queue(q);
    destroy_queue(r);
    destroy_event(event);
    destroy_buffer(buffer);
    close_bench(&t);
}

/* Behind a wait that fails nothing happens, so what stands there breaks no rule. */
static void nothing_happens_behind_a_failure(void **state) {
    (void)state;
    bench t = open_two();
    plait_queue *q = make_queue(t.a, 0), *r = make_queue(t.b, 0);
    plait_buffer *buffer = make_buffer(t.a, BENCH_BYTES), *to = make_buffer(t.b, BENCH_BYTES);
    plait_event *event = make_event(t.a), *after = make_event(t.b);
    const plait_error_record failure = {PLAIT_CANCELLED, "nobody wants it any more"};
    plait_command list[] = {wait_of(event, &one), copy_of(buffer, 0, to, 0, 8), signal_of(after, &one)};
    plait_command behind[] = {wait_of(after, &one), fill_of(to, 0, 999)};
    must(submit(q, behind, 2));
    must(submit(r, list, 3));
    t.a->vtable->event_fail(event, &failure);
    assert_int_equal(synchronise(q), PLAIT_CANCELLED);
    assert_int_equal(synchronise(r), PLAIT_CANCELLED);
    assert_int_equal(t.b->vtable->event_wait(after, 1, UINT64_MAX), PLAIT_CANCELLED);
    expect_nothing(&t);
    destroy_queue(q);
    destroy_queue(r);
    destroy_event(event);
    destroy_event(after);
    destroy_buffer(buffer);
    destroy_buffer(to);
    close_bench(&t);
}

static int register_plain(void **state) {
    (void)state;
    return plain_register() == PLAIT_OK ? 0 : -1;
}

static void page_is_true(void **state) {
    (void)state;
    rows_are_messages("test_monitor_caller.c");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(buffer_after_its_end),
        cmocka_unit_test(buffer_in_a_launch_after_its_end),
        cmocka_unit_test(event_after_its_end),
        cmocka_unit_test(event_queried_after_its_end),
        cmocka_unit_test(program_after_its_end),
        cmocka_unit_test(queue_after_its_end),
        cmocka_unit_test(destroyed_twice),
        cmocka_unit_test(buffer_destroyed_in_flight),
        cmocka_unit_test(buffer_destroyed_without_waiting),
        cmocka_unit_test(program_destroyed_in_flight),
        cmocka_unit_test(event_destroyed_in_flight),
        cmocka_unit_test(objects_outlive_their_device),
        cmocka_unit_test(read_before_write),
        cmocka_unit_test(copy_before_write),
        cmocka_unit_test(launch_before_write),
        cmocka_unit_test(what_is_written_may_be_read),
        cmocka_unit_test(two_writers),
        cmocka_unit_test(wait_too_late),
        cmocka_unit_test(write_over_a_reader),
        cmocka_unit_test(wait_for_too_little),
        cmocka_unit_test(order_is_seen),
        cmocka_unit_test(host_memory_shared),
        cmocka_unit_test(pack_beside_a_command),
        cmocka_unit_test(list_changed_in_flight),
        cmocka_unit_test(size_changed_in_flight),
        cmocka_unit_test(size_comes_late),
        cmocka_unit_test(list_reused_after_its_event),
        cmocka_unit_test(region_outside),
        cmocka_unit_test(more_than_the_region),
        cmocka_unit_test(box_outside),
        cmocka_unit_test(rows_over_one_another),
        cmocka_unit_test(boxes_between_each_other),
        cmocka_unit_test(copy_over_itself),
        cmocka_unit_test(memory_not_reached),
        cmocka_unit_test(box_without_boxes),
        cmocka_unit_test(foreign_wait_without_foreign_waits),
        cmocka_unit_test(launch_on_a_copy_queue),
        cmocka_unit_test(imported_event_signalled),
        cmocka_unit_test(host_waits_for_nobody),
        cmocka_unit_test(queue_waits_for_nobody),
        cmocka_unit_test(host_waits_behind_a_queue),
        cmocka_unit_test(queues_wait_for_one_another),
        cmocka_unit_test(destroyed_while_it_waits),
        cmocka_unit_test(late_signals_count),
        cmocka_unit_test(two_threads_in_a_queue),
        cmocka_unit_test(slot_missing),
        cmocka_unit_test(slot_too_small),
        cmocka_unit_test(slot_of_another_device),
        cmocka_unit_test(dim_above_its_bound),
        cmocka_unit_test(program_of_another_device),
        cmocka_unit_test(operands_over_one_another),
        cmocka_unit_test(one_buffer_in_two_slots),
        cmocka_unit_test(operand_misaligned),
        cmocka_unit_test(scratch_misaligned),
        cmocka_unit_test(usage_unknown),
        cmocka_unit_test(arguments_that_are_never_right),
        cmocka_unit_test(queue_fails_in_order),
        cmocka_unit_test(failure_travels),
        cmocka_unit_test(nothing_happens_behind_a_failure),
        cmocka_unit_test(page_is_true),
    };
    return cmocka_run_group_tests(tests, register_plain, NULL);
}
