/* Steps in flight: a device begins the next step while another is still in this one; runs of different plans take turns on
 * devices with copy queues, relays and delays; and when something fails in the middle, nobody waits for ever, and it is
 * known what can still be used. */
/* monitor: no */
#include "plait/run.h"

#include "device/context.h"
#include "support/assert_ok.h"
#include "support/evaluate.h"
#include "support/fake_device.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <pthread.h>

static void assert_fails(plait_status status, plait_status expected, const char *message) {
    if (status != expected || !strstr(plait_error_message(), message))
        fail_msg("expected %s %s, found %s %s", plait_status_name(expected), message,
                 plait_status_name(status), status ? plait_error_message() : "");
}

enum { ROWS = 4, WIDTH = 16, N = ROWS * WIDTH };

typedef struct fixture {
    plait_context *context;
    plait_graph *graph;
    plait_residence *residence;
    plait_plan *plan;
    plait_run *run;
} fixture;

/* y = (x + 1) * 3 + sum of all x so far, each part a stage: what adds and sums up is a state. Stage s on device s. */
static plait_graph *stages(const char *name) {
    plait_graph *g = plait_graph_create(&(plait_graph_options){.name = name});
    plait_tensor x = plait_input(g, "x", PLAIT_F32, PLAIT_SHAPE(WIDTH, 1, ROWS));
    plait_tensor slots = plait_input(g, "slots", PLAIT_I32, PLAIT_SHAPE(ROWS));
    plait_graph_scope(g, "stage0.");
    plait_tensor a = plait_scale(g, x, 3);
    plait_graph_scope(g, "stage1.");
    plait_tensor sums = plait_state(g, "sums", PLAIT_F32, PLAIT_SHAPE(WIDTH, ROWS, 1, 1));
    plait_tensor b = plait_add(g, a, plait_reshape(g, sums, PLAIT_SHAPE(WIDTH, 1, ROWS)));
    plait_tensor kept = plait_kv_write(g, sums, b, slots);
    plait_graph_scope(g, "stage2.");
    plait_output(g, "y", plait_scale(g, plait_reshape(g, kept, PLAIT_SHAPE(WIDTH, 1, ROWS)), 2));
    assert_ok(plait_graph_seal(g));
    return g;
}

static const plait_pin stage_pins[] = {{"stage0.*", 0}, {"stage1.*", 1}, {"sums", 1}, {"stage2.*", 2}};

static void make(fixture *f, const char *devices, int depth) {
    assert_ok(plait_context_open(&f->context, devices, NULL));
    f->graph = stages("stages");
    const plait_graph *graphs[] = {f->graph};
    plait_residence_options options = {
        .pins = stage_pins, .n_pins = f->context->n_devices < 3 ? 1 : 4, .split = PLAIT_SPLIT_NONE};
    assert_ok(plait_residence_create(&f->residence, f->context, graphs, 1, &options));
    assert_ok(plait_residence_load(f->residence, &(plait_weight_source){0}));
    assert_ok(plait_plan_make(&f->plan, f->context, f->graph,
                              &(plait_plan_options){.residence = f->residence, .depth = depth}));
    assert_ok(plait_run_create(&f->run, f->plan, NULL));
}

static void destroy(fixture *f) {
    plait_run_destroy(f->run);
    plait_plan_release(f->plan);
    plait_residence_release(f->residence);
    plait_context_close(f->context);
    plait_graph_destroy(f->graph);
}

static void write_step(plait_run *run, int step) {
    static const int32_t slots[ROWS] = {0, 1, 2, 3};
    float x[N];
    for (int i = 0; i < N; i++) x[i] = (float)(step % 5 + i);
    assert_ok(plait_run_write(run, "x", x, sizeof x));
    assert_ok(plait_run_write(run, "slots", slots, sizeof slots));
}

/* Element i of y after `step`: sums of 3 x over all steps, twice. */
static float expected(int step, int i) {
    float sum = 0;
    for (int s = 0; s <= step; s++) sum += 3 * (float)(s % 5 + i);
    return 2 * sum;
}

static void check_step(plait_run *run, int step) {
    const void *bytes = NULL;
    uint64_t size = 0;
    assert_ok(plait_run_output(run, "y", &bytes, &size));
    assert_int_equal(size, N * sizeof(float));
    for (int i = 0; i < N; i++)
        if (((const float *)bytes)[i] != expected(step, i))
            fail_msg("step %d: y[%d] is %g, expected %g", step, i, (double)((const float *)bytes)[i],
                     (double)expected(step, i));
}

static fake_device *fake_at(const fixture *f, int d) {
    return (fake_device *)f->context->devices[d].device;
}

/* True when the device begins that many launches, soon. */
static bool begins(fake_device *device, int launches) {
    for (int i = 0; i < 20000 && device->launches < launches; i++)
        nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);
    return device->launches >= launches;
}

/* ---- steps in flight ---- */

static const char *const lists[] = {
    "fake",
    "fake,fake,fake",
    "fake:copy=1,fake:hide=yes:copy=1,fake:copy=2",
    "fake:hide=yes:copy=2:waits=no,fake:hide=yes:copy=2:waits=no,fake:hide=yes:copy=1:waits=no",
    "fake:hide=yes,fake:hide=yes:waits=no:boxes=no,fake:reach=no",
    "fake:jitter=5:copy=1,fake:jitter=7:hide=yes:copy=2,fake:jitter=8:waits=no",
};
enum { LISTS = sizeof lists / sizeof *lists };

/* The second step's first stage runs while the first step's last stage is held up; nobody waits in plait_run_step. */
static void test_next_step_begins(void **state) {
    (void)state;
    static const char *const held[] = {
        "fake,fake,fake:gate=0",
        "fake:hide=yes:copy=2,fake:hide=yes:copy=2,fake:hide=yes:copy=2:gate=0",
        "fake:hide=yes:copy=1:waits=no,fake:hide=yes:copy=1:waits=no,fake:hide=yes:copy=1:waits=no:gate=0",
    };
    for (size_t l = 0; l < sizeof held / sizeof *held; l++) {
        fixture f = {0};
        make(&f, held[l], 4);
        for (int step = 0; step < 4; step++) {
            write_step(f.run, step);
            assert_ok(plait_run_step(f.run));
        }
        assert_true(begins(fake_at(&f, 2), 1)); /* and stays in it */
        if (!begins(fake_at(&f, 0), 2) || !begins(fake_at(&f, 1), 2))
            fail_msg("%s: %d and %d launches while the last stage is in its first", held[l],
                     fake_at(&f, 0)->launches, fake_at(&f, 1)->launches);
        assert_int_equal(fake_at(&f, 2)->launches, 1);
        fake_at(&f, 2)->gate = -1;
        check_step(f.run, 3);
        destroy(&f);
    }
}

/* Many steps, waited for now and then; outputs stay until the next step but one. */
static void test_many_steps(void **state) {
    (void)state;
    for (int l = 0; l < 2 * LISTS; l++) {
        fixture f = {0};
        make(&f, lists[l / 2], l % 2 ? 5 : 0);
        for (int step = 0; step < 60; step++) {
            write_step(f.run, step);
            assert_ok(plait_run_step(f.run));
            if (step % 7 == 3 || step == 59) check_step(f.run, step);
        }
        destroy(&f);
    }
}

/* ---- hand-over ---- */

/* Another plan that shares the state: what it shows is what the last step left. */
static plait_graph *shows(void) {
    plait_graph *g = plait_graph_create(&(plait_graph_options){.name = "shows"});
    plait_tensor sums = plait_state(g, "sums", PLAIT_F32, PLAIT_SHAPE(WIDTH, ROWS, 1, 1));
    plait_graph_scope(g, "stage0.");
    plait_output(g, "z", plait_scale(g, sums, 4));
    assert_ok(plait_graph_seal(g));
    return g;
}

/* Two plans of one model take turns with one state; nothing waits for the host in between. */
static void test_plans_take_turns(void **state) {
    (void)state;
    for (int l = 0; l < LISTS; l++) {
        plait_context *context;
        plait_residence *residence;
        plait_plan *plans[2];
        plait_session_state *shared;
        plait_run *runs[2];
        plait_graph *both[2] = {stages("stages"), shows()};
        const plait_graph *graphs[] = {both[0], both[1]};
        assert_ok(plait_context_open(&context, lists[l], NULL));
        plait_residence_options options = {
            .pins = stage_pins, .n_pins = context->n_devices < 3 ? 1 : 4, .split = PLAIT_SPLIT_NONE};
        assert_ok(plait_residence_create(&residence, context, graphs, 2, &options));
        assert_ok(plait_residence_load(residence, &(plait_weight_source){0}));
        assert_ok(plait_session_state_create(&shared, residence));
        for (int i = 0; i < 2; i++) {
            assert_ok(
                plait_plan_make(&plans[i], context, both[i], &(plait_plan_options){.residence = residence}));
            assert_ok(plait_run_create(&runs[i], plans[i], &(plait_run_options){.state = shared}));
        }
        for (int step = 0; step < 40; step++) {
            const void *bytes = NULL;
            uint64_t size;
            write_step(runs[0], step);
            assert_ok(plait_run_step(runs[0]));
            if (step % 3 == 0) assert_ok(plait_run_step(runs[1]));
            if (step % 12 != 0) continue;
            assert_ok(plait_run_output(runs[1], "z", &bytes, &size));
            for (int i = 0; i < N; i++)
                if (((const float *)bytes)[i] != 2 * expected(step, i))
                    fail_msg("%s, step %d: z[%d] is %g, expected %g", lists[l], step, i,
                             (double)((const float *)bytes)[i], (double)(2 * expected(step, i)));
        }
        check_step(runs[0], 39);
        for (int i = 0; i < 2; i++) {
            plait_run_destroy(runs[i]);
            plait_plan_release(plans[i]);
        }
        plait_session_state_destroy(shared);
        plait_residence_release(residence);
        plait_context_close(context);
        for (int i = 0; i < 2; i++) plait_graph_destroy(both[i]);
    }
}

static void *drive(void *argument) {
    plait_run *run = argument;
    for (int step = 0; step < 50; step++) {
        write_step(run, step);
        assert_ok(plait_run_step(run));
        if (step % 9 == 0) check_step(run, step);
    }
    check_step(run, 49);
    return NULL;
}

/* Runs of one plan, each with a state of its own, driven by threads of their own: they share arenas and queues. */
static void test_threads_take_turns(void **state) {
    (void)state;
    for (int l = 0; l < LISTS; l++) {
        fixture f = {0};
        plait_run *runs[3];
        pthread_t threads[3];
        make(&f, lists[l], l % 2 ? 3 : 0);
        for (int i = 0; i < 3; i++) assert_ok(plait_run_create(&runs[i], f.plan, NULL));
        for (int i = 0; i < 3; i++) assert_int_equal(pthread_create(&threads[i], NULL, drive, runs[i]), 0);
        for (int i = 0; i < 3; i++) pthread_join(threads[i], NULL);
        for (int i = 0; i < 3; i++) plait_run_destroy(runs[i]);
        destroy(&f);
    }
}

/* ---- failures ---- */

/* A launch fails on one device: the wait says so with its message, others of the context too, and everything ends. */
static void test_launch_fails(void **state) {
    (void)state;
    static const char *const failing[] = {
        "fake,fake:fail=3,fake",
        "fake:hide=yes:copy=2:waits=no,fake:hide=yes:copy=1:fail=3:waits=no,fake:hide=yes:waits=no",
        "fake:hide=yes:copy=1:fail=3,fake:copy=1,fake:hide=yes:copy=2",
        "fake:copy=1,fake:hide=yes:copy=1:waits=no,fake:fail=3:waits=no",
    };
    for (size_t l = 0; l < sizeof failing / sizeof *failing; l++) {
        fixture f = {0};
        plait_run *other;
        make(&f, failing[l], 0);
        assert_ok(plait_run_create(&other, f.plan, NULL));
        assert_ok(plait_context_health(f.context));
        plait_status status = PLAIT_OK;
        for (int step = 0; step < 8 && status == PLAIT_OK; step++) {
            void *bytes;
            uint64_t size;
            status = plait_run_input(f.run, "slots", &bytes, &size);
            if (status == PLAIT_OK) status = plait_run_step(f.run);
        }
        if (status == PLAIT_OK) status = plait_run_wait(f.run);
        assert_fails(status, PLAIT_IO, "launch 3 was told to fail");
        assert_fails(plait_run_step(f.run), PLAIT_IO, "launch 3 was told to fail");
        assert_fails(plait_context_health(f.context), PLAIT_IO, "launch 3 was told to fail");
        assert_fails(plait_run_step(other), PLAIT_IO, "launch 3 was told to fail");
        plait_run_destroy(other);
        destroy(&f);
    }
}

/* A submission fails. Where it is the step's first, nothing has happened; else queues that wait for it must not. */
static void test_submission_fails(void **state) {
    (void)state;
    static const struct {
        const char *devices;
        bool goes_on;
    } cases[] = {
        {"fake:fail-submit=3,fake,fake", true},
        {"fake:hide=yes:copy=1:fail-submit=5,fake,fake",
         true},                                  /* two queues of the device: the first of step 2 */
        {"fake,fake:fail-submit=4,fake", false}, /* the state was cleared on it before */
        {"fake,fake,fake:fail-submit=3", false},
        {"fake:hide=yes:copy=1:waits=no,fake:hide=yes:waits=no,fake:hide=yes:copy=1:fail-submit=5", false},
        {"fake:hide=yes:copy=1:fail-submit=6,fake,fake",
         false}, /* its copy queue, when its launches are on their way */
    };
    for (size_t l = 0; l < sizeof cases / sizeof *cases; l++) {
        fixture f = {0};
        int done = 0;
        make(&f, cases[l].devices, 0);
        plait_status status = PLAIT_OK;
        for (; done < 8 && status == PLAIT_OK; done += status == PLAIT_OK) {
            write_step(f.run, done);
            status = plait_run_step(f.run);
        }
        assert_fails(status, PLAIT_IO, "was told to fail");
        if (cases[l].goes_on) {
            assert_ok(plait_context_health(f.context));
            for (int step = done; step < 10; step++) {
                write_step(f.run, step);
                assert_ok(plait_run_step(f.run));
            }
            check_step(f.run, 9);
        } else {
            assert_fails(plait_context_health(f.context), PLAIT_IO, "was told to fail");
            assert_fails(plait_run_step(f.run), PLAIT_IO, "was told to fail");
            assert_fails(plait_run_wait(f.run), PLAIT_IO, "was told to fail");
        }
        destroy(&f);
    }
}

static int make_known(void **state) {
    (void)state;
    return fake_register() == PLAIT_OK ? 0 : -1;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_next_step_begins), cmocka_unit_test(test_many_steps),
        cmocka_unit_test(test_plans_take_turns), cmocka_unit_test(test_threads_take_turns),
        cmocka_unit_test(test_launch_fails),     cmocka_unit_test(test_submission_fails),
    };
    return cmocka_run_group_tests(tests, make_known, NULL);
}
