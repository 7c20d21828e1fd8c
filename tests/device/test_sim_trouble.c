/* What goes wrong on request: the n-th failure of each kind, loss in the middle of work, commands in random order. */
/* monitor: no */
#include "device/sim_bench.h"

#include "base/thread.h"

enum { BYTES = 64 };

/* ---- the n-th call ---- */

static plait_status allocate(plait_device *device) {
    plait_buffer *buffer = NULL;
    PLAIT_TRY(device->vtable->buffer_create(device, BYTES, PLAIT_BUFFER_STATE, &buffer));
    device->vtable->buffer_destroy(buffer);
    return PLAIT_OK;
}

static plait_status make_program(plait_device *device) {
    plait_program *program = NULL;
    PLAIT_TRY(small_program_make(device, &program));
    device->vtable->program_destroy(device, program);
    return PLAIT_OK;
}

static plait_status copy(plait_device *device) {
    unsigned char bytes[BYTES];
    plait_buffer *buffer = make_buffer(device, BYTES, PLAIT_BUFFER_STATE);
    plait_command read = read_of(buffer, 0, BYTES, bytes);
    plait_status status = try_list(device, 0, &read, 1);
    device->vtable->buffer_destroy(buffer);
    return status;
}

static plait_status launch(plait_device *device) {
    plait_program *program = NULL;
    const int64_t n = 3;
    must(small_program_make(device, &program));
    plait_buffer *buffer = make_buffer(device, 512, PLAIT_BUFFER_STATE);
    plait_buffer *slots[2] = {buffer, buffer};
    plait_command command = launch_of(program, slots, &n);
    plait_status status = try_list(device, 0, &command, 1);
    device->vtable->buffer_destroy(buffer);
    device->vtable->program_destroy(device, program);
    return status;
}

static plait_status queue_wait(plait_device *device) {
    const uint64_t one = 1;
    plait_event *event = make_event(device);
    plait_command wait = wait_of(event, &one);
    must(device->vtable->event_signal(event, 1));
    plait_status status = try_list(device, 0, &wait, 1);
    device->vtable->event_destroy(event);
    return status;
}

static plait_status host_wait(plait_device *device) {
    plait_event *event = make_event(device);
    plait_status status = device->vtable->event_wait(event, 0, 0);
    device->vtable->event_destroy(event);
    return status;
}

static void nth_failure(void **state) {
    static const struct {
        const char *key;
        plait_status (*call)(plait_device *device);
        plait_status expected;
    } cases[] = {
        {"fail-alloc", allocate, PLAIT_OUT_OF_MEMORY},
        {"fail-prepare", make_program, PLAIT_UNSUPPORTED},
        {"fail-compile", make_program, PLAIT_UNSUPPORTED},
        {"fail-copy", copy, PLAIT_IO},
        {"fail-launch", launch, PLAIT_IO},
        {"fail-wait", queue_wait, PLAIT_IO},
        {"fail-wait", host_wait, PLAIT_IO},
    };
    (void)state;
    for (size_t i = 0; i < PLAIT_COUNT_OF(cases); i++)
        for (int n = 1; n <= 3; n++) {
            char item[64], words[64];
            snprintf(item, sizeof item, "sim:%s=%d", cases[i].key, n);
            snprintf(words, sizeof words, "%s number %d fails", cases[i].key + 5, n);
            plait_device *device = open_device(item);
            for (int k = 1; k <= 4; k++)
                if (k == n)
                    must_fail(cases[i].call(device), cases[i].expected, words);
                else
                    must(cases[i].call(device));
            must(device->vtable->health(device));
            device->vtable->destroy(device);
        }
}

/* What stands before a command that fails takes effect, in whatever order it was executed; nothing behind it does; its
 * events fail, other queues and the device go on. */
static void failed_queue(void **state) {
    enum { N = 16, AT = 9 };
    const uint64_t one = 1;
    (void)state;
    for (int seed = 1; seed <= 20; seed++) {
        char item[64];
        unsigned char got[N];
        snprintf(item, sizeof item, "sim:reorder=%d:fail-copy=%d:nan=no", seed, AT + 1);
        plait_device *device = open_device(item);
        const plait_device_vtable *v = device->vtable;
        plait_buffer *buffer = make_buffer(device, N, PLAIT_BUFFER_STATE);
        plait_event *event = make_event(device);
        plait_queue *queue = make_queue(device, 0);
        plait_command list[N + 1];
        for (int i = 0; i < N; i++) list[i] = fill_of(buffer, (uint64_t)i, 1, i + 1);
        list[N] = signal_of(event, &one);
        must(v->submit(queue, list, N + 1));
        must_fail(v->event_wait(event, 1, UINT64_MAX), PLAIT_IO, "copy number 10 fails");
        must_fail(v->synchronise(queue), PLAIT_IO, "copy number 10 fails");
        plait_command read = read_of(buffer, 0, N, got);
        must(try_list(device, 0, &read, 1));
        for (int i = 0; i < N; i++) assert_int_equal(got[i], i < AT ? i + 1 : 0);
        must(v->submit(queue, &read, 1)); /* accepted, and without effect */
        memset(got, 0x77, N);
        must_fail(v->synchronise(queue), PLAIT_IO, "copy number 10 fails");
        assert_int_equal(got[0], 0x77);
        v->queue_destroy(queue);
        v->event_destroy(event);
        v->buffer_destroy(buffer);
        v->destroy(device);
    }
}

/* ---- loss ---- */

typedef struct host_waiter {
    plait_event *event;
    plait_status status;
} host_waiter;

static void *wait_on_host(void *user) {
    host_waiter *waiter = user;
    waiter->status = waiter->event->device->vtable->event_wait(waiter->event, 5, UINT64_MAX);
    return NULL;
}

/* Four who wait for what now never comes: a queue for an event of its device, a queue for another device's event, a queue
 * of another device, and the host. */
static void lose_in_work(const char *item) {
    const uint64_t two = 2, five = 5;
    plait_device *device = open_device(item), *other = open_device("cpu:threads=1");
    const plait_device_vtable *v = device->vtable;
    plait_event *event = make_event(device), *foreign = make_event(other), *done = make_event(other);
    plait_buffer *buffer = make_buffer(device, BYTES, PLAIT_BUFFER_STATE);
    plait_queue *queues[3] = {make_queue(device, 0), make_queue(device, PLAIT_QUEUE_COPY),
                              make_queue(device, 0)};
    plait_queue *theirs = make_queue(other, 0);
    plait_command waits[] = {wait_of(event, &five)}, foreign_waits[] = {wait_of(foreign, &five)};
    plait_command their_list[] = {wait_of(event, &five), signal_of(done, &five)};
    plait_command work[] = {signal_of(event, &two), fill_of(buffer, 0, BYTES, 1),
                            fill_of(buffer, 0, BYTES, 2), fill_of(buffer, 0, BYTES, 3),
                            signal_of(event, &five)};
    plait_thread thread;
    host_waiter waiter = {event, PLAIT_OK};
    must(plait_thread_start(&thread, "test", wait_on_host, &waiter));
    must(v->submit(queues[0], waits, 1));
    must(v->submit(queues[1], foreign_waits, 1));
    must(other->vtable->submit(theirs, their_list, 2));
    must(v->submit(queues[2], work, 5));
    for (int q = 0; q < 3; q++) must_fail(v->synchronise(queues[q]), PLAIT_DEVICE_LOST, "is lost");
    plait_thread_join(&thread);
    assert_int_equal(waiter.status, PLAIT_DEVICE_LOST);
    must_fail(other->vtable->synchronise(theirs), PLAIT_DEVICE_LOST, "is lost");
    must_fail(other->vtable->event_wait(done, 5, UINT64_MAX), PLAIT_DEVICE_LOST, "is lost");
    must(other->vtable->health(other));
    must(v->event_wait(event, 2, 0)); /* reached before */
    /* Everything that needs the device says so. */
    plait_device_info info;
    plait_program *program = NULL;
    plait_queue *queue = NULL;
    plait_event *late = NULL;
    uint64_t a, b;
    must(v->describe(device, &info));
    must_fail(v->health(device), PLAIT_DEVICE_LOST, "is lost");
    must_fail(allocate(device), PLAIT_DEVICE_LOST, "is lost");
    must_fail(small_program_make(device, &program), PLAIT_DEVICE_LOST, "is lost");
    must_fail(v->queue_create(device, 0, &queue), PLAIT_DEVICE_LOST, "is lost");
    must_fail(v->event_create(device, &late), PLAIT_DEVICE_LOST, "is lost");
    must_fail(v->submit(queues[0], waits, 1), PLAIT_DEVICE_LOST, "is lost");
    must_fail(v->memory_query(device, &a, &b), PLAIT_DEVICE_LOST, "is lost");
    must_fail(v->time_query(device, &a, &b), PLAIT_DEVICE_LOST, "is lost");
    assert_true(!program && !queue && !late);
    for (int q = 0; q < 3; q++) v->queue_destroy(queues[q]);
    v->event_destroy(event);
    v->buffer_destroy(buffer);
    v->destroy(device);
    other->vtable->queue_destroy(theirs);
    other->vtable->event_destroy(foreign);
    other->vtable->event_destroy(done);
    other->vtable->destroy(other);
}

/* The two waits count as commands too, whenever their threads take them: the loss comes somewhere in the work, before
 * its last signal. */
static void loss(void **state) {
    static const char *const items[] = {"sim:lose=4", "sim:lose=5", "sim:lose=4:reorder=3:delay=2",
                                        "sim:lose=5:reorder=3"};
    (void)state;
    for (size_t i = 0; i < PLAIT_COUNT_OF(items); i++) lose_in_work(items[i]);
}

/* ---- other devices' events ---- */

/* Without waits for other devices' events the queue refuses; an event that shows the other one serves. */
static void foreign_events(void **state) {
    const uint64_t three = 3;
    (void)state;
    plait_device *device = open_device("sim:no=waits"), *other = open_device("cpu:threads=1");
    const plait_device_vtable *v = device->vtable;
    plait_event *foreign = make_event(other), *shown = NULL, *mine = make_event(device);
    uint64_t now = 0;
    plait_command wait = wait_of(foreign, &three);
    must_fail(try_list(device, 0, &wait, 1), PLAIT_UNSUPPORTED, "without waits");
    must(v->event_import(device, foreign, &shown));
    must_fail(v->event_signal(shown, 3), PLAIT_UNSUPPORTED, "imported");
    plait_queue *queue = make_queue(device, 0);
    plait_command list[] = {wait_of(shown, &three), signal_of(mine, &three)};
    must(v->submit(queue, list, 2));
    assert_int_equal(v->event_wait(mine, 3, 20000000), PLAIT_TIMEOUT);
    must(other->vtable->event_signal(foreign, 3));
    must(v->event_wait(mine, 3, UINT64_MAX));
    must(v->event_query(shown, &now));
    assert_int_equal(now, 3);
    must(v->event_wait(shown, 3, UINT64_MAX));
    v->queue_destroy(queue);
    v->event_destroy(shown);
    v->event_destroy(mine);
    v->destroy(device);
    other->vtable->event_destroy(foreign);
    other->vtable->destroy(other);
}

/* ---- order: seen by a device inside that writes down what it is given ---- */

enum { MAX_SEEN = 4096 };

static struct {
    int n;
    unsigned char fills[MAX_SEEN];
    unsigned char scratch[64]; /* as a launch finds it */
} seen;

static plait_device_vtable spy;

static plait_status spy_create(const char *const *options, int n_options, const plait_logger *logger,
                               plait_device **out) {
    return plait_device_kind("null")->create(options, n_options, logger, out);
}

static plait_status spy_submit(plait_queue *queue, const plait_command *commands, int n) {
    for (int i = 0; i < n; i++) {
        if (commands[i].kind == PLAIT_COMMAND_FILL && seen.n < MAX_SEEN)
            seen.fills[seen.n++] = commands[i].fill.byte;
        if (commands[i].kind == PLAIT_COMMAND_LAUNCH)
            memcpy(seen.scratch, (char *)commands[i].launch.slots[1]->host + 8, sizeof seen.scratch);
    }
    return plait_device_kind("null")->submit(queue, commands, n);
}

static plait_status spy_prepare(plait_device *device, const plait_segment *segment, plait_prepared *out) {
    PLAIT_TRY(plait_device_kind("null")->prepare(device, segment, out));
    out->groups[0].scratch_bytes = sizeof seen.scratch;
    out->groups[0].scratch_offset = 8; /* where this file's program puts it */
    return PLAIT_OK;
}

static int add_spy(void **state) {
    (void)state;
    spy = *plait_device_kind("null");
    spy.kind = "spy";
    spy.create = spy_create;
    spy.submit = spy_submit;
    spy.prepare = spy_prepare;
    return plait_device_register(&spy) == PLAIT_OK ? 0 : -1;
}

/* Place of the fill with this byte among those that the device inside was given. */
static int place_of(int byte) {
    for (int i = 0; i < seen.n; i++)
        if (seen.fills[i] == byte) return i;
    fail_msg("fill %d was not executed", byte);
    return -1;
}

/* Fills 0 to 31 to bytes of their own, then 32 over all of them, 33 to 47 to others, an event, and 48 to 63. */
static void submit_fills(plait_device *device) {
    enum { N = 65 };
    const uint64_t one = 1;
    plait_buffer *buffer = make_buffer(device, 256, PLAIT_BUFFER_STATE);
    plait_event *event = make_event(device);
    plait_command list[N];
    int n = 0;
    for (int i = 0; i < 64; i++) {
        if (i == 48) list[n++] = signal_of(event, &one);
        list[n++] = i == 32 ? fill_of(buffer, 0, 32, i) : fill_of(buffer, (uint64_t)i + 64 * (i > 32), 1, i);
    }
    seen.n = 0;
    must(try_list(device, 0, list, n));
    device->vtable->event_destroy(event);
    device->vtable->buffer_destroy(buffer);
}

static int count_inversions(void) {
    int n = 0;
    for (int i = 0; i + 1 < 64; i++) n += place_of(i) > place_of(i + 1);
    return n;
}

static void random_order(void **state) {
    unsigned char first[64];
    (void)state;
    for (int seed = 0; seed < 20; seed++) {
        char item[64];
        snprintf(item, sizeof item, seed ? "sim:inner=spy:reorder=%d" : "sim:inner=spy", seed);
        plait_device *device = open_device(item);
        submit_fills(device);
        assert_int_equal(seen.n, 64);
        if (seed == 0) assert_int_equal(count_inversions(), 0);
        if (seed > 0) assert_true(count_inversions() > 8);
        for (int i = 0; i < 32; i++) assert_true(place_of(i) < place_of(32));
        for (int i = 0; i < 48; i++)
            for (int k = 48; k < 64; k++) assert_true(place_of(i) < place_of(k));
        memcpy(first, seen.fills, sizeof first);
        device->vtable->destroy(device);
        /* The same seed gives the same order. */
        device = open_device(item);
        submit_fills(device);
        assert_memory_equal(first, seen.fills, sizeof first);
        device->vtable->destroy(device);
    }
}

/* Which commands depend on one another: through buffers, host memory, fields that are read late, programs. */
static void dependence(void **state) {
    static unsigned char host[64];
    static uint64_t size = 8;
    static const int64_t n = 4;
    (void)state;
    plait_device *device = open_device("sim");
    plait_buffer *a = make_buffer(device, 512, PLAIT_BUFFER_STATE),
                 *b = make_buffer(device, 512, PLAIT_BUFFER_STATE),
                 *open = make_buffer(device, 64, PLAIT_BUFFER_STAGING);
    plait_program *program = NULL;
    must(small_program_make(device, &program));
    plait_buffer *slots[2] = {a, b};
    plait_command late = write_of(b, 0, 16, host);
    late.transfer.size_bytes = &size;
    struct plait_launch_span spans[4];
    plait_launch_trace trace = {.capacity = 4, .spans = spans}, full = {.capacity = 0};
    plait_command traced[2] = {read_of(a, 0, 8, host), read_of(b, 0, 8, host + 8)}, untraced[2];
    for (int i = 0; i < 2; i++) {
        untraced[i] = traced[i];
        traced[i].transfer.trace = &trace;
        untraced[i].transfer.trace = &full;
    }
    const struct {
        plait_command x, y;
        bool ordered;
    } cases[] = {
        {fill_of(a, 0, 8, 1), fill_of(a, 8, 8, 1), false},
        {fill_of(a, 0, 9, 1), fill_of(a, 8, 8, 1), true},
        {fill_of(a, 0, 9, 1), fill_of(b, 0, 9, 1), false},
        {read_of(a, 0, 8, host), read_of(a, 0, 8, host + 8), false},
        {read_of(a, 0, 8, host), read_of(b, 0, 8, host + 7), true},
        {read_of(a, 0, 8, host), write_of(b, 0, 8, host), true},
        {write_of(a, 0, 8, host), write_of(b, 0, 8, host), false},
        {read_of(a, 0, 8, &size), late, true},
        {read_of(a, 0, 8, host + 16), late, false},
        {read_of(a, 0, 8, open->host), fill_of(open, 7, 1, 0), true},
        {read_of(a, 0, 8, open->host), fill_of(open, 8, 1, 0), false},
        {copy_of(a, b, 8), fill_of(a, 0, 8, 1), true},
        {copy_of(a, b, 8), read_of(a, 0, 8, host), false},
        {launch_of(program, slots, &n), read_of(a, 0, 128, host), false}, /* reads what the launch reads */
        {launch_of(program, slots, &n), read_of(a, 255, 1, host), true},
        {launch_of(program, slots, &n), fill_of(a, 127, 1, 0), true},
        {launch_of(program, slots, &n), fill_of(a, 256, 9, 0), false},
        {launch_of(program, slots, &n), read_of(b, 0, 8, (void *)(uintptr_t)&n), true},
        {launch_of(program, slots, &n), launch_of(program, slots, &n), true},
        {traced[0], traced[1], true},
        {untraced[0], untraced[1], false},
        {fill_of(a, 0, 1, 0), signal_of(NULL, NULL), true},
        {wait_of(NULL, NULL), fill_of(a, 0, 1, 0), true},
    };
    for (size_t i = 0; i < PLAIT_COUNT_OF(cases); i++) {
        if (plait_sim_ordered(&cases[i].x, &cases[i].y) != cases[i].ordered) fail_msg("case %zu", i);
        if (plait_sim_ordered(&cases[i].y, &cases[i].x) != cases[i].ordered)
            fail_msg("case %zu, reversed", i);
    }
    device->vtable->program_destroy(device, program);
    plait_buffer *const all[] = {a, b, open};
    for (size_t i = 0; i < PLAIT_COUNT_OF(all); i++) device->vtable->buffer_destroy(all[i]);
    device->vtable->destroy(device);
}

/* A launch finds nothing of use in its scratch, and leaves nothing there. */
static void scratch(void **state) {
    unsigned char got[96];
    const int64_t n = 4;
    (void)state;
    for (int poison = 0; poison < 2; poison++) {
        plait_device *device = open_device(poison ? "sim:inner=spy" : "sim:inner=spy:poison=no");
        plait_buffer *a = make_buffer(device, 512, PLAIT_BUFFER_STATE),
                     *b = make_buffer(device, 96, PLAIT_BUFFER_STATE);
        plait_buffer *slots[2] = {a, b};
        plait_program *program = NULL;
        must(small_program_make(device, &program));
        plait_command list[] = {fill_of(b, 0, 96, 0x11), launch_of(program, slots, &n),
                                read_of(b, 0, 96, got)};
        must(try_list(device, 0, list, 3));
        for (int i = 0; i < 64; i++) {
            assert_int_equal(seen.scratch[i], poison ? 0xDB : 0x11);
            assert_int_equal(got[8 + i], poison ? 0xDB : 0x11);
        }
        assert_int_equal(got[7], 0x11);
        assert_int_equal(got[72], 0x11);
        device->vtable->program_destroy(device, program);
        device->vtable->buffer_destroy(a);
        device->vtable->buffer_destroy(b);
        device->vtable->destroy(device);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nth_failure),    cmocka_unit_test(failed_queue), cmocka_unit_test(loss),
        cmocka_unit_test(foreign_events), cmocka_unit_test(random_order), cmocka_unit_test(dependence),
        cmocka_unit_test(scratch),
    };
    return cmocka_run_group_tests(tests, add_spy, NULL);
}
