/* A monitored device while memory runs short: each allocation fails in turn. The monitor may work on with less to see, so
 * a life may succeed though an allocation failed; it never invents a breach, never keeps anything, and what fails is
 * OUT_OF_MEMORY. */
#include "device/monitor_bench.h"

#include "fault/fault.h"

typedef struct life {
    plait_monitor_level level;
    uint32_t flags;
    uint64_t found;
} life;

/* What a life made, to be given back whatever became of it. */
typedef struct things {
    plait_monitor *monitor;
    plait_device *inner, *device;
    plait_queue *queues[2];
    plait_event *event;
    plait_buffer *buffers[2];
    plait_program *sum;
} things;

static const uint64_t one = 1;

static plait_status make(things *t, const life *l) {
    plait_monitor_options options = {.struct_bytes = sizeof options,
                                     .level = l->level,
                                     .logger = {.line = print_line},
                                     .patience_ns = UINT64_C(60000000000)};
    PLAIT_TRY(plait_monitor_create(&options, &t->monitor));
    PLAIT_TRY(plait_device_create("cpu:threads=1", NULL, &t->inner));
    PLAIT_TRY(plait_monitor_wrap(t->monitor, t->inner, &t->device));
    const plait_device_vtable *v = t->device->vtable;
    PLAIT_TRY(v->queue_create(t->device, l->flags, &t->queues[0]));
    PLAIT_TRY(v->queue_create(t->device, 0, &t->queues[1]));
    PLAIT_TRY(v->event_create(t->device, &t->event));
    for (int i = 0; i < 2; i++)
        PLAIT_TRY(v->buffer_create(t->device, 1024, PLAIT_BUFFER_STATE, &t->buffers[i]));
    return compile_sum(t->device, &sum_usual, &t->sum);
}

/* Two queues, one behind the other; the second list waits before there is a signal. */
static plait_status use(things *t) {
    const plait_device_vtable *v = t->device->vtable;
    plait_buffer *slots[2] = {t->buffers[0], NULL};
    const int64_t rows = 3;
    unsigned char back[96];
    plait_command first[] = {fill_of(t->buffers[0], 0, 1024), launch_of(t->sum, slots, &rows),
                             signal_of(t->event, &one)};
    plait_command second[] = {wait_of(t->event, &one), copy_of(t->buffers[0], 256, t->buffers[1], 8, 96),
                              read_of(t->buffers[1], 8, back, 96)};
    plait_status status = v->submit(t->queues[1], second, 3), other = v->submit(t->queues[0], first, 3);
    plait_error_record failure;
    plait_error_save(other, &failure);
    if (other != PLAIT_OK) v->event_fail(t->event, &failure); /* what waits for it must not wait for ever */
    plait_status ends[2];
    for (int i = 0; i < 2; i++) ends[i] = v->synchronise(t->queues[i]);
    if (status == PLAIT_OK) status = other;
    for (int i = 0; i < 2; i++)
        if (status == PLAIT_OK) status = ends[i];
    return status;
}

static void unmake(things *t, life *l) {
    const plait_device_vtable *v = t->device ? t->device->vtable : NULL;
    if (t->sum) v->program_destroy(t->device, t->sum);
    for (int i = 0; i < 2; i++)
        if (t->queues[i]) v->queue_destroy(t->queues[i]);
    if (t->event) v->event_destroy(t->event);
    for (int i = 0; i < 2; i++)
        if (t->buffers[i]) v->buffer_destroy(t->buffers[i]);
    if (t->device)
        v->destroy(t->device);
    else if (t->inner)
        t->inner->vtable->destroy(t->inner);
    if (t->monitor) l->found += plait_monitor_count(t->monitor);
    plait_monitor_destroy(t->monitor);
}

static plait_status live(life *l) {
    things t = {0};
    plait_status status = make(&t, l);
    if (status == PLAIT_OK) status = use(&t);
    unmake(&t, l);
    return status;
}

/* Until the n-th allocation is none any more. Returns how many failed, and of these how many lives went on. */
static int each(life *l, int *out_survived) {
    for (int n = 1;; n++) {
        size_t blocks = fault_live_blocks();
        l->found = 0;
        plait_error_set(PLAIT_INTERNAL, "nothing");
        fault_arm((uint64_t)n);
        plait_status status = live(l);
        bool hit = fault_hit();
        fault_arm(0);
        if (status != PLAIT_OK && status != PLAIT_OUT_OF_MEMORY)
            fail_msg("allocation %d: %s: %s", n, plait_status_name(status), plait_error_message());
        if (fault_live_blocks() != blocks)
            fail_msg("allocation %d: %zu blocks are left", n, fault_live_blocks() - blocks);
        assert_int_equal(l->found, 0);
        if (!hit) {
            assert_int_equal(status, PLAIT_OK);
            return n - 1;
        }
        *out_survived += status == PLAIT_OK;
    }
}

static void shortage(void **state) {
    (void)state;
    for (int level = PLAIT_MONITOR_ON; level <= PLAIT_MONITOR_FULL; level++)
        for (uint32_t flags = 0; flags < 2; flags++) {
            life l = {.level = (plait_monitor_level)level, .flags = flags};
            int survived = 0, n = each(&l, &survived);
            printf("level %d, flags %u: %d allocations made to fail, %d lives went on\n", level, flags, n,
                   survived);
            assert_true(n > 20);
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(shortage)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
