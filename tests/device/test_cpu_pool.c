/* The compute threads of the cpu device under many tiny launches: every unit of every phase runs once, after all units
 * of the phase before it; and queues with many launches from several threads. Quick, because the thread sanitizer
 * runs it too. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "base/os.h"
#include "base/size.h"
#include "base/thread.h"
#include "device/cpu/pool.h"
#include "plait/device.h"

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
enum { LAUNCHES = 4000 };
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer) || __has_feature(address_sanitizer)
enum { LAUNCHES = 4000 };
#else
enum { LAUNCHES = 100000 };
#endif
#else
enum { LAUNCHES = 100000 };
#endif

enum { MAX_UNITS = 64, PHASES = 5 };

/* Units count how often they ran; plain memory on purpose: the barriers must order it. */
typedef struct counting {
    plait_cpu_work work;
    int64_t units[PHASES];
    int ran[PHASES][MAX_UNITS];
    _Atomic int wrong;
} counting;

static void run_counting(const plait_cpu_work *work, int phase, int64_t begin, int64_t end, int thread) {
    counting *c = (counting *)(uintptr_t)work;
    (void)thread;
    for (int64_t u = begin; u < end; u++) c->ran[phase][u]++;
    /* The first unit looks at all of the phase before. */
    for (int64_t u = 0; begin == 0 && phase > 0 && u < c->units[phase - 1]; u++)
        if (c->ran[phase - 1][u] != c->ran[phase][0]) c->wrong++;
}

static plait_cpu_pool *plain_pool(int n_threads) {
    plait_cpu_share share;
    plait_cpu_pool *pool = NULL;
    plait_cpu_share_plain(n_threads, &share);
    assert_int_equal(plait_cpu_pool_create(&share, &pool), PLAIT_OK);
    return pool;
}

/* Launches with phases of 0, 1, few and many units, which change from launch to launch. */
static void stress(int n_threads, int launches) {
    static counting c;
    plait_cpu_pool *pool = plain_pool(n_threads);
    uint64_t seed = 5, start = plait_time_ns();
    int64_t expected = 0, ran = 0;
    memset(&c, 0, sizeof c);
    c.work = (plait_cpu_work){.n_phases = PHASES, .units = c.units, .run = run_counting};
    assert_int_equal(plait_cpu_pool_threads(pool), n_threads);
    for (int i = 0; i < launches; i++) {
        memset(c.ran, 0, sizeof c.ran);
        for (int p = 0; p < PHASES; p++) {
            seed = seed * 6364136223846793005u + 1442695040888963407u;
            unsigned kind = (unsigned)(seed >> 60) & 3, number = (unsigned)(seed >> 40) % MAX_UNITS;
            c.units[p] = kind == 0 ? (int64_t)(number & 1) : (int64_t)number + 1;
        }
        plait_cpu_pool_acquire(pool);
        plait_cpu_pool_run(pool, &c.work);
        plait_cpu_pool_release(pool);
        for (int p = 0; p < PHASES; p++) {
            expected += c.units[p];
            for (int u = 0; u < MAX_UNITS; u++) {
                ran += c.ran[p][u];
                assert_int_equal(c.ran[p][u], u < c.units[p]);
            }
        }
    }
    assert_int_equal(c.wrong, 0);
    assert_int_equal(ran, expected);
    printf("%d threads: %d launches, %lld units, %.2f us each\n", n_threads, launches, (long long)ran,
           (double)(plait_time_ns() - start) / 1e3 / launches);
    plait_cpu_pool_destroy(pool);
}

static void tiny_launches(void **state) {
    (void)state;
    /* More threads than processors never spin: every barrier is a switch. */
    stress(1, LAUNCHES / 4);
    stress(2, LAUNCHES / 2);
    stress(3, LAUNCHES / 8);
    stress(4, LAUNCHES / 8);
}

static void idle_pools(void **state) {
    (void)state;
    for (int n = 1; n <= 8; n++) plait_cpu_pool_destroy(plain_pool(n));
    plait_cpu_pool_destroy(NULL);
}

/* ---- queues of one device, driven by several threads ---- */

enum { DRIVERS = 3, LISTS = LAUNCHES / 40, FLOATS = 96, ADDEND = 2048 };

typedef struct driver {
    plait_device *device;
    plait_program *program;
    plait_thread thread;
    int failures;
} driver;

/* x := x + y, from 1 and with ones, for ten steps at a time; each driver has its buffer and its queue. */
static void *drive(void *argument) {
    driver *d = argument;
    const plait_device_vtable *v = d->device->vtable;
    plait_queue *queue = NULL;
    plait_buffer *buffer = NULL;
    float ones[FLOATS], back[FLOATS];
    for (int i = 0; i < FLOATS; i++) ones[i] = 1;
    d->failures += v->queue_create(d->device, 0, &queue) != PLAIT_OK;
    d->failures += v->buffer_create(d->device, 4096, PLAIT_BUFFER_STATE, &buffer) != PLAIT_OK;
    if (d->failures) return NULL;
    plait_buffer *slots[1] = {buffer};
    plait_command list[13] = {
        {.kind = PLAIT_COMMAND_WRITE, .transfer = {.region = {buffer, 0, sizeof ones}, .host = ones}},
        {.kind = PLAIT_COMMAND_WRITE, .transfer = {.region = {buffer, ADDEND, sizeof ones}, .host = ones}}};
    for (int i = 2; i < 12; i++)
        list[i] =
            (plait_command){.kind = PLAIT_COMMAND_LAUNCH, .launch = {.program = d->program, .slots = slots}};
    list[12] = (plait_command){.kind = PLAIT_COMMAND_READ,
                               .transfer = {.region = {buffer, 0, sizeof back}, .host = back}};
    for (int i = 0; i < LISTS; i++) {
        d->failures += v->submit(queue, list, 13) != PLAIT_OK;
        if (i % 16 && i + 1 < LISTS) continue;
        d->failures += v->synchronise(queue) != PLAIT_OK;
        for (int k = 0; k < FLOATS; k++) d->failures += back[k] != 11;
    }
    v->queue_destroy(queue);
    v->buffer_destroy(buffer);
    return NULL;
}

static void make_sum(plait_device *device, plait_program **out) {
    plait_op_use use;
    plait_prepared prepared;
    plait_op_use_init(&use, plait_op_get(PLAIT_OP_add));
    use.n_inputs = 2;
    use.present = 3;
    use.inputs[0] = (plait_operand){.dtype = PLAIT_F32, .dims = {4, FLOATS / 4, 1, 1}};
    assert_true(plait_operand_make_dense(&use.inputs[0]));
    use.inputs[1] = use.inputs[0];
    assert_int_equal(plait_op_infer(&use), PLAIT_OK);
    /* The sum is written over x: one value for both would be a write in place, so two with one address, which prepare has
     * to offer. */
    plait_segment_operand operands[3];
    plait_segment_node node = {.op = use.op,
                               .name = "sum",
                               .n_inputs = 2,
                               .n_outputs = 1,
                               .present = 3,
                               .inputs = operands,
                               .outputs = operands + 2};
    operands[0] = (plait_segment_operand){.shape = use.inputs[0], .outer.dim = -1};
    operands[1] = (plait_segment_operand){
        .shape = use.inputs[1], .outer.dim = -1, .value = 2, .storage = 2, .offset = ADDEND};
    operands[2] = (plait_segment_operand){
        .shape = use.outputs[0], .outer.dim = -1, .value = 1, .storage = 1, .needed_after = true};
    plait_segment segment = {.struct_bytes = sizeof segment, .n_nodes = 1, .nodes = &node};
    assert_int_equal(device->vtable->prepare(device, &segment, &prepared), PLAIT_OK);
    bool offered = false;
    for (int i = 0; i < prepared.n_shared; i++)
        offered |= prepared.shared[i].output == 1 && prepared.shared[i].input == 0;
    assert_true(offered);
    segment.n_slots = 1;
    assert_int_equal(device->vtable->compile(device, &segment, &prepared, out), PLAIT_OK);
    device->vtable->prepared_destroy(device, &prepared);
}

static void several_drivers(void **state) {
    (void)state;
    plait_device *device = NULL;
    plait_program *program = NULL;
    driver drivers[DRIVERS];
    memset(drivers, 0, sizeof drivers);
    assert_int_equal(plait_device_create("cpu:threads=2", NULL, &device), PLAIT_OK);
    make_sum(device, &program);
    for (int i = 0; i < DRIVERS; i++) {
        drivers[i] = (driver){.device = device, .program = program};
        assert_int_equal(plait_thread_start(&drivers[i].thread, "driver", drive, &drivers[i]), PLAIT_OK);
    }
    for (int i = 0; i < DRIVERS; i++) {
        plait_thread_join(&drivers[i].thread);
        assert_int_equal(drivers[i].failures, 0);
    }
    printf("%d queues, %d launches of one program\n", DRIVERS, DRIVERS * LISTS * 10);
    device->vtable->program_destroy(device, program);
    device->vtable->destroy(device);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(idle_pools), cmocka_unit_test(tiny_launches),
                                       cmocka_unit_test(several_drivers)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
