/* The simulated device's own laws: memory that nobody touches, a budget kept to the byte, lacking parts that are refused,
 * options that are parsed strictly. */
#include "base/os.h"
#include "base/size.h"
#include "device/sim/sim.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include <signal.h>

static plait_device *open_device(const char *item) {
    plait_device *device = NULL;
    if (plait_device_create(item, NULL, &device) != PLAIT_OK) fail_msg("%s: %s", item, plait_error_message());
    return device;
}

static plait_buffer *make(plait_device *device, uint64_t size_bytes, uint32_t usage) {
    plait_buffer *buffer = NULL;
    if (device->vtable->buffer_create(device, size_bytes, usage, &buffer) != PLAIT_OK)
        fail_msg("%s", plait_error_message());
    return buffer;
}

static void run_list(plait_device *device, const plait_command *commands, int n) {
    plait_queue *queue = NULL;
    assert_int_equal(device->vtable->queue_create(device, 0, &queue), PLAIT_OK);
    assert_int_equal(device->vtable->submit(queue, commands, n), PLAIT_OK);
    if (device->vtable->synchronise(queue) != PLAIT_OK) fail_msg("%s", plait_error_message());
    device->vtable->queue_destroy(queue);
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
            plait_buffer *buffer = make(device, sizes[s], PLAIT_BUFFER_STATE);
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
        plait_buffer *buffer = make(device, 5000, PLAIT_BUFFER_STAGING);
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
    a = make(device, 7900, PLAIT_BUFFER_STATE);
    assert_int_equal(v->memory_query(device, &total, &left), PLAIT_OK);
    assert_int_equal(total, 10000);
    assert_int_equal(left, 2000);
    assert_int_equal(v->buffer_create(device, 1901, PLAIT_BUFFER_STATE, &c), PLAIT_OUT_OF_MEMORY);
    b = make(device, 1900, PLAIT_BUFFER_STATE);
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
        plait_buffer *buffer = make(device, sizeof got, PLAIT_BUFFER_TEMPORARY);
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

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(isolation),       cmocka_unit_test(staging_is_open), cmocka_unit_test(budget),
        cmocka_unit_test(unwritten_bytes), cmocka_unit_test(refused_options), cmocka_unit_test(nested),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
