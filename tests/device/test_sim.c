/* The simulated device's own laws: memory that nobody touches, a budget kept to the byte, lacking parts that are refused,
 * options that are parsed strictly. */
/* monitor: no */
#include "device/sim_bench.h"

#include <dirent.h>
#include <signal.h>

static void run_list(plait_device *device, const plait_command *commands, int n) {
    must(try_list(device, 0, commands, n));
}

/* ---- isolation ---- */

static sigjmp_buf back;

static void on_fault(int number) {
    (void)number;
    siglongjmp(back, 1);
}

/* Whether reading or writing the byte raises a fault. */
static bool faults(volatile unsigned char *byte, bool write) {
    struct sigaction action = {.sa_handler = on_fault}, old[2];
    sigaction(SIGSEGV, &action, &old[0]);
    sigaction(SIGBUS, &action, &old[1]);
    bool faulted = sigsetjmp(back, 1) != 0;
    if (!faulted) {
        if (write)
            *byte = 1;
        else
            (void)*byte;
    }
    sigaction(SIGSEGV, &old[0], NULL);
    sigaction(SIGBUS, &old[1], NULL);
    return faulted;
}

static void assert_walled(unsigned char *bytes, uint64_t size_bytes) {
    const uint64_t places[] = {0, size_bytes / 2, size_bytes - 1};
    for (size_t i = 0; i < PLAIT_COUNT_OF(places); i++) {
        assert_true(faults(bytes + places[i], false));
        assert_true(faults(bytes + places[i], true));
    }
}

/* Every touch of the published address faults: before, while and after the buffer is used. */
static void isolation(void **state) {
    static const char *const items[] = {"sim", "sim:inner=null", "sim:inner=cpu/threads=2:import=yes"};
    static const uint64_t sizes[] = {1, 4096, 100001};
    unsigned char sent[64], got[64] = {0};
    (void)state;
    memset(sent, 0x3C, sizeof sent);
    for (size_t i = 0; i < PLAIT_COUNT_OF(items); i++) {
        plait_device *device = open_device(items[i]);
        for (size_t s = 0; s < PLAIT_COUNT_OF(sizes); s++) {
            plait_buffer *buffer = make_buffer(device, sizes[s], PLAIT_BUFFER_STATE);
            unsigned char *published = plait_sim_published(buffer);
            uint64_t n = sizes[s] < sizeof sent ? sizes[s] : sizeof sent;
            assert_null(buffer->host);
            assert_non_null(published);
            assert_walled(published, sizes[s]);
            plait_command list[] = {
                {.kind = PLAIT_COMMAND_WRITE,
                 .transfer = {.region = {buffer, sizes[s] - n, n}, .host = sent}},
                {.kind = PLAIT_COMMAND_READ, .transfer = {.region = {buffer, sizes[s] - n, n}, .host = got}}};
            run_list(device, list, 2);
            assert_memory_equal(sent, got, n);
            assert_walled(published, sizes[s]);
            device->vtable->buffer_destroy(buffer);
            assert_walled(published, sizes[s]);
        }
        device->vtable->destroy(device);
    }
}

static void staging_is_open(void **state) {
    static const char *const items[] = {"sim", "sim:inner=null"};
    (void)state;
    for (size_t i = 0; i < PLAIT_COUNT_OF(items); i++) {
        plait_device *device = open_device(items[i]);
        plait_buffer *buffer = make_buffer(device, 5000, PLAIT_BUFFER_STAGING);
        unsigned char got[5000], *host = buffer->host;
        assert_non_null(host);
        memset(host, 0x21, 5000);
        plait_command list[] = {
            {.kind = PLAIT_COMMAND_FILL, .fill = {{buffer, 10, 5}, 7}},
            {.kind = PLAIT_COMMAND_READ, .transfer = {.region = {buffer, 0, 5000}, .host = got}}};
        run_list(device, list, 2);
        assert_int_equal(host[12], 7);
        assert_int_equal(got[9], 0x21);
        assert_memory_equal(host, got, 5000);
        device->vtable->buffer_destroy(buffer);
        device->vtable->destroy(device);
    }
}

/* ---- budget ---- */

static void budget(void **state) {
    (void)state;
    plait_device *device = open_device("sim:mem=10000:pad=100:granularity=1000:max-buffer=8000");
    const plait_device_vtable *v = device->vtable;
    plait_buffer *a = NULL, *b = NULL, *c = NULL;
    uint64_t bytes, total, left;
    assert_int_equal(v->allocation_bytes(device, 900, PLAIT_BUFFER_STATE, &bytes), PLAIT_OK);
    assert_int_equal(bytes, 1000);
    assert_int_equal(v->allocation_bytes(device, 901, PLAIT_BUFFER_STATE, &bytes), PLAIT_OK);
    assert_int_equal(bytes, 2000);
    assert_int_equal(v->buffer_create(device, 8001, PLAIT_BUFFER_STATE, &c), PLAIT_OUT_OF_MEMORY);
    a = make_buffer(device, 7900, PLAIT_BUFFER_STATE);
    assert_int_equal(v->memory_query(device, &total, &left), PLAIT_OK);
    assert_int_equal(total, 10000);
    assert_int_equal(left, 2000);
    assert_int_equal(v->buffer_create(device, 1901, PLAIT_BUFFER_STATE, &c), PLAIT_OUT_OF_MEMORY);
    b = make_buffer(device, 1900, PLAIT_BUFFER_STATE);
    assert_int_equal(v->buffer_create(device, 0, PLAIT_BUFFER_STATE, &c), PLAIT_OUT_OF_MEMORY);
    assert_null(c);
    v->buffer_destroy(a);
    assert_int_equal(v->memory_query(device, &total, &left), PLAIT_OK);
    assert_int_equal(left, 8000);
    v->buffer_destroy(b);
    v->destroy(device);
}

/* ---- bytes nobody wrote ---- */

static void unwritten_bytes(void **state) {
    unsigned char got[300];
    (void)state;
    for (int nan = 0; nan < 2; nan++) {
        plait_device *device = open_device(nan ? "sim" : "sim:nan=no");
        plait_buffer *buffer = make_buffer(device, sizeof got, PLAIT_BUFFER_TEMPORARY);
        plait_command read = {.kind = PLAIT_COMMAND_READ,
                              .transfer = {.region = {buffer, 0, sizeof got}, .host = got}};
        run_list(device, &read, 1);
        for (size_t i = 0; i < sizeof got; i++) assert_int_equal(got[i], nan ? 0xFF : 0);
        device->vtable->buffer_destroy(buffer);
        device->vtable->destroy(device);
    }
}

/* ---- options ---- */

static void refused_options(void **state) {
    static const struct {
        const char *item, *words;
    } cases[] = {
        {"sim:colour=red", "known: inner, mem,"},
        {"sim:mem=", "mem"},
        {"sim:mem=12x", "64MiB"},
        {"sim:mem=0.3", "whole"},
        {"sim:mem=-1", "mem"},
        {"sim:mem=1:mem=2", "twice"},
        {"sim:lack=attention+sunshine", "matmul, get_rows"},
        {"sim:lack=", "known: matmul"},
        {"sim:lack-type=q4_9", "Q4_0"},
        {"sim:no=luck", "peer, boxes"},
        {"sim:align=48", "power of two"},
        {"sim:align=16", "at least the 64"},
        {"sim:max-rank=5", "1 to 4"},
        {"sim:nan=perhaps", "yes or no"},
        {"sim:latency=5", "20us"},
        {"sim:bandwidth=0", "more than 0"},
        {"sim:speed=2", "0.001 to 1"},
        {"sim:fail-alloc=0", "1 to"},
        {"sim:lose=x", "whole number"},
        {"sim:inner=sun", "\"sun\" is unknown"},
        {"sim:inner=cpu/threads=0", "threads"},
        {"sim:inner=sim", "import"},
    };
    (void)state;
    for (size_t i = 0; i < PLAIT_COUNT_OF(cases); i++) {
        plait_device *device = NULL;
        plait_status status = plait_device_create(cases[i].item, NULL, &device);
        if (status == PLAIT_OK) fail_msg("%s was accepted", cases[i].item);
        assert_true(status == PLAIT_INVALID_ARGUMENT || status == PLAIT_UNSUPPORTED);
        assert_null(device);
        if (!strstr(plait_error_message(), cases[i].words))
            fail_msg("%s: \"%s\" does not say \"%s\"", cases[i].item, plait_error_message(), cases[i].words);
    }
}

/* A simulated device inside of another one. */
static void nested(void **state) {
    (void)state;
    plait_device *device = open_device("sim:inner=sim/import=yes/lack=rope");
    plait_op_use use;
    char reason[200] = "";
    plait_op_use_init(&use, plait_op_get(PLAIT_OP_rope));
    assert_false(device->vtable->supports(device, &use, NULL, reason, sizeof reason));
    assert_non_null(strstr(reason, "lacks rope"));
    device->vtable->destroy(device);
}

/* ---- what is lacking ---- */

static bool takes(plait_device *device, plait_op_id op, const plait_operand *x, char reason[200]) {
    plait_op_use use;
    plait_op_use_init(&use, plait_op_get(op));
    use.n_inputs = 1;
    use.present = 1;
    use.inputs[0] = *x;
    must(plait_op_infer(&use));
    reason[0] = '\0';
    return device->vtable->supports(device, &use, NULL, reason, 200);
}

static plait_operand operand(plait_dtype dtype, int64_t d0, int64_t d1, int64_t d2) {
    plait_operand x = {.dtype = dtype, .dims = {d0, d1, d2, 1}};
    assert_true(plait_operand_make_dense(&x));
    return x;
}

static void limits(void **state) {
    plait_operand plain = operand(PLAIT_F32, 8, 4, 1), deep = operand(PLAIT_F32, 8, 4, 2),
                  wide = operand(PLAIT_F32, 65, 1, 1), half = operand(PLAIT_F16, 8, 4, 1), strided = plain;
    strided.strides[1] = 64;
    const struct {
        const char *item;
        plait_op_id op;
        const plait_operand *x;
        const char *reason; /* NULL: is taken */
    } cases[] = {
        {"sim", PLAIT_OP_silu, &strided, NULL},
        {"sim:lack=silu+gelu", PLAIT_OP_silu, &plain, "sim lacks silu"},
        {"sim:lack=silu+gelu", PLAIT_OP_gelu, &plain, "sim lacks gelu"},
        {"sim:lack=silu+gelu", PLAIT_OP_relu, &plain, NULL},
        {"sim:lack-type=f16", PLAIT_OP_copy, &half, "does not take F16 (input 0 of copy)"},
        {"sim:lack-type=f16", PLAIT_OP_copy, &plain, NULL},
        {"sim:contiguous=yes", PLAIT_OP_silu, &strided, "strides that are not dense"},
        {"sim:contiguous=yes", PLAIT_OP_silu, &plain, NULL},
        {"sim:max-rank=2", PLAIT_OP_silu, &deep, "rank, beyond 2"},
        {"sim:max-rank=2", PLAIT_OP_silu, &plain, NULL},
        {"sim:max-dim=64", PLAIT_OP_silu, &wide, "a dim, beyond 64"},
        {"sim:max-dim=65", PLAIT_OP_silu, &wide, NULL},
    };
    char reason[200];
    (void)state;
    for (size_t i = 0; i < PLAIT_COUNT_OF(cases); i++) {
        plait_device *device = open_device(cases[i].item);
        bool taken = takes(device, cases[i].op, cases[i].x, reason);
        if (taken != !cases[i].reason || (!taken && !strstr(reason, cases[i].reason)))
            fail_msg("%s, case %zu: \"%s\"", cases[i].item, i, reason);
        device->vtable->destroy(device);
    }
}

/* Each word of no= takes away what it names, and nothing else. */
static void without(void **state) {
    (void)state;
    plait_device *all = open_device("sim"),
                 *none = open_device("sim:no=boxes+waits+timelines+pinned+clock+names+peer");
    plait_device_info info;
    uint64_t a, b;
    void *host = NULL;
    must(all->vtable->describe(all, &info));
    assert_int_equal(info.caps, PLAIT_CAP_BOXES | PLAIT_CAP_FOREIGN_WAITS);
    assert_int_equal(info.n_copy_queues, 1);
    assert_false(info.unified_memory);
    must(none->vtable->describe(none, &info));
    assert_int_equal(info.caps, 0);
    must(all->vtable->time_query(all, &a, &b));
    assert_true(a < b && plait_time_ns() - b < 1000000000u);
    must_fail(none->vtable->time_query(none, &a, &b), PLAIT_UNSUPPORTED, "clock");
    must(all->vtable->host_alloc(all, 100, &host));
    assert_int_equal((uintptr_t)host % 64, 0);
    memset(host, 1, 100);
    all->vtable->host_free(all, host);
    must_fail(none->vtable->host_alloc(none, 100, &host), PLAIT_UNSUPPORTED, "pinned");
    plait_buffer *buffer = make_buffer(none, 64, PLAIT_BUFFER_STATE);
    must_fail(none->vtable->name_object(none, PLAIT_OBJECT_BUFFER, buffer, "kv"), PLAIT_UNSUPPORTED, "names");
    plait_box box = {
        .row_bytes = 8, .n_rows = 2, .n_planes = 1, .source_row_pitch = 8, .target_row_pitch = 8};
    unsigned char bytes[16] = {0};
    plait_command write = write_of(buffer, 0, 64, bytes);
    write.transfer.box = &box;
    must_fail(try_list(none, 0, &write, 1), PLAIT_UNSUPPORTED, "two and three dims");
    none->vtable->buffer_destroy(buffer);
    none->vtable->destroy(none);
    all->vtable->destroy(all);
}

/* Names show in messages. */
static void names(void **state) {
    (void)state;
    plait_device *device = open_device("sim");
    plait_buffer *buffer = make_buffer(device, 64, PLAIT_BUFFER_STATE);
    plait_queue *queue = make_queue(device, 0);
    must(device->vtable->name_object(device, PLAIT_OBJECT_BUFFER, buffer, "the cache"));
    must(device->vtable->name_object(device, PLAIT_OBJECT_BUFFER, buffer, "the other cache"));
    must(device->vtable->name_object(device, PLAIT_OBJECT_QUEUE, queue, "uploads"));
    plait_command fill = fill_of(buffer, 60, 5, 1);
    must_fail(try_list(device, 0, &fill, 1), PLAIT_OUT_OF_RANGE, "the other cache");
    plait_event *foreign = make_event(device);
    must(device->vtable->name_object(device, PLAIT_OBJECT_EVENT, foreign, "step"));
    must_fail(device->vtable->event_wait(foreign, 1, 0), PLAIT_TIMEOUT, "event step");
    plait_program *program = NULL;
    const int64_t too_many = 5;
    plait_buffer *slots[2] = {buffer, buffer};
    must(small_program_make(device, &program));
    must(device->vtable->name_object(device, PLAIT_OBJECT_PROGRAM, program, "layers"));
    plait_command launch = launch_of(program, slots, &too_many);
    must_fail(try_list(device, 0, &launch, 1), PLAIT_OUT_OF_RANGE, "program layers");
    device->vtable->program_destroy(device, program);
    plait_device *other = open_device("sim");
    plait_event *event = make_event(other);
    const uint64_t one = 1;
    plait_command signal = signal_of(event, &one);
    must(device->vtable->submit(queue, &signal, 1));
    must_fail(device->vtable->synchronise(queue), PLAIT_UNSUPPORTED, "uploads");
    device->vtable->queue_destroy(queue);
    device->vtable->event_destroy(foreign);
    other->vtable->event_destroy(event);
    other->vtable->destroy(other);
    device->vtable->buffer_destroy(buffer);
    device->vtable->destroy(device);
}

/* Regions and boxes that a device may refuse, are. */
static void refused_commands(void **state) {
    unsigned char host[64] = {0};
    (void)state;
    plait_device *device = open_device("sim:reorder=1"), *other = open_device("cpu:threads=1");
    plait_buffer *buffer = make_buffer(device, 64, PLAIT_BUFFER_STATE),
                 *foreign = make_buffer(other, 64, PLAIT_BUFFER_STATE);
    plait_command overlap = {.kind = PLAIT_COMMAND_COPY,
                             .copy = {.source = {buffer, 0, 20}, .target = {buffer, 19, 20}}};
    must_fail(try_list(device, 0, &overlap, 1), PLAIT_INVALID_ARGUMENT, "overlap");
    plait_box box = {
        .row_bytes = 8, .n_rows = 2, .n_planes = 1, .source_row_pitch = 8, .target_row_pitch = 7};
    plait_command boxed = write_of(buffer, 0, 64, host);
    boxed.transfer.box = &box;
    must_fail(try_list(device, 0, &boxed, 1), PLAIT_INVALID_ARGUMENT, "target overlaps itself");
    plait_command theirs = write_of(foreign, 0, 64, host);
    must_fail(try_list(device, 0, &theirs, 1), PLAIT_INVALID_ARGUMENT, "a buffer of cpu");
    plait_program *program = NULL;
    const int64_t n = 4;
    plait_buffer *slots[2] = {foreign, NULL};
    must(small_program_make(device, &program));
    plait_command launch = launch_of(program, slots, &n);
    must_fail(try_list(device, 0, &launch, 1), PLAIT_INVALID_ARGUMENT, "slot 0 holds a buffer of cpu");
    must_fail(try_list(device, PLAIT_QUEUE_COPY, &launch, 1), PLAIT_UNSUPPORTED, "a queue for copies");
    plait_command without[2] = {fill_of(buffer, 0, 8, 1), launch_of(NULL, slots, &n)};
    must_fail(try_list(device, 0, without, 2), PLAIT_INVALID_ARGUMENT, "without a program");
    device->vtable->program_destroy(device, program);
    device->vtable->buffer_destroy(buffer);
    other->vtable->buffer_destroy(foreign);
    device->vtable->destroy(device);
    other->vtable->destroy(other);
}

/* ---- peers ---- */

static void copy_between(plait_device *runs, plait_device *a, plait_device *b) {
    unsigned char sent[100], got[100] = {0};
    plait_buffer *from = make_buffer(a, 100, PLAIT_BUFFER_STATE),
                 *to = make_buffer(b, 100, PLAIT_BUFFER_STATE);
    for (size_t i = 0; i < sizeof sent; i++) sent[i] = (unsigned char)(i * 7);
    plait_command write = write_of(from, 0, 100, sent), copy = copy_of(from, to, 100),
                  read = read_of(to, 0, 100, got);
    must(try_list(a, 0, &write, 1));
    must(try_list(runs, 0, &copy, 1));
    must(try_list(b, 0, &read, 1));
    assert_memory_equal(sent, got, sizeof sent);
    a->vtable->buffer_destroy(from);
    b->vtable->buffer_destroy(to);
}

static void peers(void **state) {
    (void)state;
    plait_device *a = open_device("sim"), *b = open_device("sim:inner=cpu/threads=2"),
                 *cpu = open_device("cpu:threads=1"), *alone = open_device("sim:no=peer");
    assert_true(a->vtable->reaches(a, a) && a->vtable->reaches(a, b) && b->vtable->reaches(b, a));
    assert_true(a->vtable->reaches(a, cpu) && !cpu->vtable->reaches(cpu, a));
    assert_true(alone->vtable->reaches(alone, alone) && !alone->vtable->reaches(alone, cpu));
    assert_true(!alone->vtable->reaches(alone, a) && !a->vtable->reaches(a, alone));
    copy_between(a, a, b);
    copy_between(a, b, a);
    copy_between(a, cpu, a);
    copy_between(a, a, cpu);
    plait_buffer *mine = make_buffer(alone, 64, PLAIT_BUFFER_STATE),
                 *theirs = make_buffer(cpu, 64, PLAIT_BUFFER_STATE);
    plait_command copy = copy_of(theirs, mine, 64);
    must_fail(try_list(alone, 0, &copy, 1), PLAIT_UNSUPPORTED, "does not reach");
    alone->vtable->buffer_destroy(mine);
    cpu->vtable->buffer_destroy(theirs);
    plait_device *const all[] = {a, b, cpu, alone};
    for (size_t i = 0; i < PLAIT_COUNT_OF(all); i++) all[i]->vtable->destroy(all[i]);
}

/* ---- slowness: only what must have passed at least, since machines are late at times ---- */

static uint64_t time_of(plait_device *device, const plait_command *commands, int n) {
    uint64_t begin = plait_time_ns();
    must(try_list(device, 0, commands, n));
    return plait_time_ns() - begin;
}

static void link_speed(void **state) {
    static unsigned char host[100000];
    (void)state;
    plait_device *device = open_device("sim:bandwidth=10MB:latency=1ms");
    plait_buffer *buffer = make_buffer(device, sizeof host, PLAIT_BUFFER_STATE);
    plait_command write = write_of(buffer, 0, sizeof host, host),
                  read = read_of(buffer, 0, sizeof host, host);
    plait_command inside = {.kind = PLAIT_COMMAND_COPY,
                            .copy = {.source = {buffer, 0, 50000}, .target = {buffer, 50000, 50000}}};
    assert_true(time_of(device, &write, 1) >= 11000000);
    assert_true(time_of(device, &read, 1) >= 11000000);
    uint64_t best = UINT64_MAX; /* a copy inside does not go over the link */
    for (int i = 0; i < 20; i++) {
        uint64_t ns = time_of(device, &inside, 1);
        if (ns < best) best = ns;
    }
    assert_true(best < 6000000);
    /* Two queues share the way in. */
    plait_queue *queues[2] = {make_queue(device, 0), make_queue(device, PLAIT_QUEUE_COPY)};
    uint64_t begin = plait_time_ns();
    plait_command halves[2] = {write_of(buffer, 0, 50000, host), write_of(buffer, 50000, 50000, host)};
    for (int q = 0; q < 2; q++) must(device->vtable->submit(queues[q], &halves[q], 1));
    for (int q = 0; q < 2; q++) must(device->vtable->synchronise(queues[q]));
    assert_true(plait_time_ns() - begin >= 11000000);
    for (int q = 0; q < 2; q++) device->vtable->queue_destroy(queues[q]);
    device->vtable->buffer_destroy(buffer);
    device->vtable->destroy(device);
}

/* 32 additions at 16 kFLOP/s are 2 ms; a quarter of the rows, a quarter of that. */
static void launch_speed(void **state) {
    (void)state;
    plait_device *device = open_device("sim:flops=16000:overhead=1ms");
    plait_buffer *buffer = make_buffer(device, 512, PLAIT_BUFFER_STATE);
    plait_buffer *slots[2] = {buffer, buffer};
    plait_program *program = NULL;
    plait_device_figures figures = {.struct_bytes = sizeof figures};
    int64_t n = 4;
    must(small_program_make(device, &program));
    plait_command launch = launch_of(program, slots, &n);
    assert_true(time_of(device, &launch, 1) >= 3000000);
    n = 1;
    uint64_t ns = time_of(device, &launch, 1);
    assert_true(ns >= 1500000);
    must(device->vtable->figures(device, &figures));
    assert_int_equal(figures.float_flop_per_s, 16000);
    assert_int_equal(figures.launch_ns, 1000000);
    device->vtable->program_destroy(device, program);
    device->vtable->buffer_destroy(buffer);
    device->vtable->destroy(device);
    device = open_device("sim:bandwidth=1GB");
    must_fail(device->vtable->figures(device, &figures), PLAIT_UNSUPPORTED, "flops=");
    device->vtable->destroy(device);
}

/* ---- nothing is left behind ---- */

static int count_files(void) {
    int n = 0;
    DIR *folder = opendir("/proc/self/fd");
    assert_non_null(folder);
    while (readdir(folder)) n++;
    closedir(folder);
    return n;
}

/* Mappings of buffers of simulated devices. */
static int count_mappings(void) {
    char line[512];
    int n = 0;
    FILE *maps = fopen("/proc/self/maps", "r");
    assert_non_null(maps);
    while (fgets(line, sizeof line, maps)) n += strstr(line, "plait-sim") != NULL;
    fclose(maps);
    return n;
}

static void nothing_left(void **state) {
    enum { MANY = 600 };
    static plait_buffer *buffers[MANY];
    (void)state;
    int files = count_files();
    plait_device *device = open_device("sim");
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < MANY; i++) buffers[i] = make_buffer(device, 100, PLAIT_BUFFER_STATE);
        assert_int_equal(count_mappings(), 2 * MANY);
        assert_int_equal(count_files(), files);
        for (int i = 0; i < MANY; i++) device->vtable->buffer_destroy(buffers[i]);
        assert_int_equal(count_mappings(), 0);
    }
    device->vtable->destroy(device);
    assert_int_equal(count_files(), files);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(isolation),       cmocka_unit_test(staging_is_open),  cmocka_unit_test(budget),
        cmocka_unit_test(unwritten_bytes), cmocka_unit_test(refused_options),  cmocka_unit_test(nested),
        cmocka_unit_test(limits),          cmocka_unit_test(without),          cmocka_unit_test(names),
        cmocka_unit_test(peers),           cmocka_unit_test(refused_commands), cmocka_unit_test(link_speed),
        cmocka_unit_test(launch_speed),    cmocka_unit_test(nothing_left),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
