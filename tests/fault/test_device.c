/* room: conformance */
/* labels: threads */
/* Memory that runs out while devices are opened, programs made and run: a status each time, nothing kept; and a warm
 * device launches without allocating. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h>

#include "base/os.h"
#include "conformance/built.h"
#include "device/topology.h"
#include "fault/fault.h"
#include "plait/context.h"

enum { K = 64, N = 3 };

static int input(plait_conf_work *w, plait_dtype dtype, int64_t d0, int64_t d1, bool weight) {
    plait_operand o = {.dtype = dtype, .dims = {d0, d1, 1, 1}};
    return plait_operand_make_dense(&o) ? plait_conf_tensor_add(w, &o, PLAIT_CONF_FIXED, 0, weight) : -1;
}

static int node(plait_conf_work *w, plait_op_id op, int a, int b) {
    int inputs[2] = {a, b};
    plait_op_use use;
    plait_op_use_init(&use, plait_op_get(op));
    if (use.op->n_attrs) use.attrs[0].f = 0.5;
    return a < 0 || b < 0 ? -1 : plait_conf_apply(w, &use, 2, inputs, PLAIT_CONF_FIXED);
}

/* norm, two products, a gate, a residual: rows, quantising, tiles and an epilogue. */
static plait_status draw(plait_conf_work *w) {
    int x = input(w, PLAIT_F32, K, N, false);
    int y = node(w, PLAIT_OP_rms_norm, x, input(w, PLAIT_F32, K, 1, true));
    int a = node(w, PLAIT_OP_matmul, input(w, PLAIT_Q8_0, K, K, true), y);
    int b = node(w, PLAIT_OP_matmul, input(w, PLAIT_Q8_0, K, K, true), y);
    int h = node(w, PLAIT_OP_swiglu, a, b);
    int sum = node(w, PLAIT_OP_add, node(w, PLAIT_OP_matmul, input(w, PLAIT_Q4_0, K, K, true), h), x);
    if (sum < 0) return plait_error_memory("conformance", 0);
    plait_conf_need(w, sum);
    return plait_conf_freeze(w);
}

static plait_status compute(plait_conf *c) {
    plait_conf_work w;
    plait_conf_work_init(&w, c);
    plait_status status = w.tensors && w.values && w.nodes ? draw(&w) : plait_error_memory("conformance", 0);
    unsigned char *image = status == PLAIT_OK ? plait_conf_image(&w) : NULL;
    if (status == PLAIT_OK) status = plait_conf_run_device(&w, PLAIT_CONF_WHOLE, image);
    if (status == PLAIT_OK) status = plait_conf_run_device(&w, PLAIT_CONF_SINGLE, image);
    plait_conf_work_deinit(&w);
    return status;
}

static plait_status life(void *user) {
    plait_conf c = {.item = user};
    plait_event *event = NULL;
    PLAIT_TRY(plait_device_create(c.item, NULL, &c.device));
    c.v = c.device->vtable;
    plait_status status = c.v->describe(c.device, &c.info);
    if (status == PLAIT_OK) status = c.v->queue_create(c.device, 0, &c.queue);
    if (status == PLAIT_OK) status = c.v->event_create(c.device, &event);
    if (status == PLAIT_OK) status = compute(&c);
    if (event) c.v->event_destroy(event);
    if (c.queue) c.v->queue_destroy(c.queue);
    c.v->destroy(c.device);
    return status;
}

static void cpu(void **state) {
    char item[] = "cpu:threads=2";
    (void)state;
    fault_each_named("cpu", life, item);
}

static void null(void **state) {
    char item[] = "null";
    (void)state;
    fault_each_named("null", life, item);
}

/* ---- lists and shares ---- */

static plait_status open_list(void *user) {
    plait_context *context = NULL;
    plait_status status = plait_context_open(&context, user, NULL);
    plait_context_close(context);
    return status;
}

static void lists(void **state) {
    char two[] = "cpu:threads=1,null,cpu:isa=portable:threads=2,cpu:cores=0";
    uint64_t total, left;
    (void)state;
    fault_each_named("a list of shares", open_list, two);
    /* hwloc's own memory is not plait's, but copying what it says is. */
    if (plait_os_node_memory(0, &total, &left) == PLAIT_OK) {
        char nodes[] = "cpu:numa=each,cpu:numa=0:threads=1";
        fault_each_named("a list of nodes", open_list, nodes);
    }
}

static plait_status read_system(void *user) {
    plait_topology topology = {0};
    (void)user;
    plait_status status = plait_topology_read_system("/sys", NULL, &topology);
    plait_topology_deinit(&topology);
    return status;
}

static plait_status read_described(void *user) {
    plait_topology topology = {0};
    plait_status status = plait_topology_read_hwloc(NULL, user, NULL, &topology);
    plait_topology_deinit(&topology);
    return status;
}

static void topologies(void **state) {
    char description[] = "pack:2 numa:2 core:2 pu:2";
    (void)state;
    fault_each_named("topology of /sys", read_system, NULL);
    plait_topology probe;
    if (plait_topology_read_hwloc(NULL, description, NULL, &probe) == PLAIT_UNSUPPORTED)
        return; /* no hwloc */
    plait_topology_deinit(&probe);
    fault_each_named("topology of hwloc", read_described, description);
}

static void sim(void **state) {
    char item[] = "sim:inner=cpu/threads=2:reorder=1", around_null[] = "sim:inner=null:import=yes";
    (void)state;
    fault_each_named("sim", life, item);
    fault_each_named("sim around null", life, around_null);
}

/* ---- a warm device ---- */

/* Looking at a library that is no vendor's: refused for that, once there is memory to say so. */
static plait_status look_at_library(void *user) {
    plait_status status = plait_device_load(user);
    return status == PLAIT_INVALID_ARGUMENT ? PLAIT_OK : status;
}

static void libraries(void **state) {
    static char path[] = "libm.so.6";
    (void)state;
    assert_true(fault_each(look_at_library, path) >= 1);
}

static void warm_lists_of(const char *item) {
    enum { LISTS = 200 };
    plait_device *device = NULL;
    plait_queue *queue = NULL;
    plait_buffer *buffer = NULL;
    plait_event *event = NULL;
    uint64_t value = 0;
    assert_int_equal(plait_device_create(item, NULL, &device), PLAIT_OK);
    const plait_device_vtable *v = device->vtable;
    assert_int_equal(v->queue_create(device, 0, &queue), PLAIT_OK);
    assert_int_equal(v->buffer_create(device, 256, PLAIT_BUFFER_STATE, &buffer), PLAIT_OK);
    assert_int_equal(v->event_create(device, &event), PLAIT_OK);
    plait_command list[2] = {{.kind = PLAIT_COMMAND_FILL, .fill = {{buffer, 0, 256}, 1}},
                             {.kind = PLAIT_COMMAND_SIGNAL, .signal = {.event = event, .value = &value}}};
    for (int round = 0; round < 2; round++) {
        uint64_t before = fault_allocations();
        for (int i = 0; i < LISTS; i++) {
            value++;
            assert_int_equal(v->submit(queue, list, 2), PLAIT_OK);
            assert_int_equal(v->event_wait(event, value, UINT64_MAX), PLAIT_OK);
        }
        if (round) assert_int_equal(fault_allocations(), before);
    }
    v->event_destroy(event);
    v->queue_destroy(queue);
    v->buffer_destroy(buffer);
    v->destroy(device);
}

static void warm_lists(void **state) {
    (void)state;
    warm_lists_of("cpu:threads=2");
    warm_lists_of("sim:reorder=3");
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(cpu),       cmocka_unit_test(null),
                                       cmocka_unit_test(sim),       cmocka_unit_test(lists),
                                       cmocka_unit_test(libraries), cmocka_unit_test(topologies),
                                       cmocka_unit_test(warm_lists)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
