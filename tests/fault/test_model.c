/* Opening a model, creating a session, feeding, forking, sampling and destroying, with each allocation failing in turn:
 * each time OUT_OF_MEMORY with a message, nothing left allocated, and the process goes on. */
#include "fault/fault.h"
#include "plait/session.h"
#include "support/paths.h"

#include <setjmp.h>

#include <cmocka.h>

typedef struct life {
    const char *devices;
    char path[PLAIT_TEST_PATH_BYTES];
    plait_model_options options;
} life;

static plait_status use(plait_session *s) {
    static const plait_token prompt[20] = {1, 5, 9, 2, 44, 3, 17, 80, 7, 6, 1, 0, 99, 20, 31, 8, 8, 8, 4, 2};
    plait_sampler_options options;
    plait_sampler *sampler = NULL;
    plait_seq seq = 0, fork = 0;
    plait_token token;
    const float *floats;
    plait_sampler_options_default(&options);
    options.temp = 1;
    PLAIT_TRY(plait_session_begin(s, &seq));
    PLAIT_TRY(plait_session_feed(s, seq, prompt, 20));
    PLAIT_TRY(plait_session_fork(s, seq, &fork));
    PLAIT_TRY(plait_session_embedding(s, 0, &floats));
    PLAIT_TRY(plait_session_logits(s, 0, &floats));
    PLAIT_TRY(plait_session_next(s, seq, NULL, &token));
    PLAIT_TRY(plait_sampler_create_from_options(&sampler, &options));
    plait_status status = plait_session_next(s, seq, sampler, &token);
    plait_sampler_destroy(sampler);
    return status;
}

static plait_status use_model(plait_context *context, const life *l) {
    plait_model *model = NULL;
    plait_session *session = NULL;
    PLAIT_TRY(plait_model_open(&model, context, l->path, &l->options));
    plait_status status = plait_session_create(&session, model);
    if (status == PLAIT_OK) status = use(session);
    plait_session_destroy(session);
    plait_model_release(model);
    return status;
}

static plait_status whole_life(void *user) {
    const life *l = user;
    plait_context *context = NULL;
    PLAIT_TRY(plait_context_open(&context, l->devices, NULL));
    plait_status status = use_model(context, l);
    plait_context_close(context);
    return status;
}

static void each_allocation_of(const char *name, const char *devices, plait_model_options options) {
    life l = {.devices = devices, .options = options};
    char relative[128];
    snprintf(relative, sizeof relative, "archs/%s.gguf", name);
    plait_test_golden(relative, l.path);
    if (whole_life(&l) != PLAIT_OK)
        fail_msg("%s", plait_error_message()); /* what is made once, is made now */
    assert_true(fault_each_named(name, whole_life, &l) > 100);
}

static void plain_model(void **state) {
    (void)state;
    each_allocation_of("llama-dense", "cpu:threads=1",
                       (plait_model_options){.context = 64, .batch = 16, .sequences = 2});
}

/* Quantised weights (packed, so that loading takes memory as well), read instead of mapped. */
static void quantised_model_in_memory(void **state) {
    (void)state;
    each_allocation_of("llama-gqa-quant", "cpu:threads=1",
                       (plait_model_options){.context = 64, .batch = 16, .sequences = 2, .no_mmap = true});
}

/* Two cache groups, two devices: residence and plans of several devices, transfers. */
static void windows_on_two_devices(void **state) {
    (void)state;
    static const plait_pin pins[] = {{"blk.1.*", 1}, {"blk.2.*", 1}};
    each_allocation_of(
        "gemma3", "cpu:threads=1,cpu:threads=1",
        (plait_model_options){.context = 64, .batch = 16, .sequences = 2, .pins = pins, .n_pins = 2});
}

/* Experts: packed matrices of all of them, on another device than what chooses them. */
static void experts_elsewhere(void **state) {
    (void)state;
    static const plait_pin pins[] = {{"*_exps.weight", 1}};
    each_allocation_of(
        "qwen3moe-quant", "cpu:threads=1,cpu:threads=1",
        (plait_model_options){.context = 64, .batch = 16, .sequences = 2, .pins = pins, .n_pins = 1});
}

/* A failed open leaves the context as it was: the next open in the same context succeeds. */
static void the_context_can_go_on(void **state) {
    (void)state;
    life l = {.options = {.context = 64, .batch = 16, .sequences = 2}};
    plait_context *context = NULL;
    plait_test_golden("archs/llama-dense.gguf", l.path);
    assert_int_equal(plait_context_open(&context, "cpu:threads=1", NULL), PLAIT_OK);
    for (uint64_t nth = 1; nth < 2000; nth += 97) {
        fault_arm(nth);
        plait_status status = use_model(context, &l);
        bool hit = fault_hit();
        fault_arm(0);
        assert_int_equal(status, hit ? PLAIT_OUT_OF_MEMORY : PLAIT_OK);
        assert_int_equal(use_model(context, &l), PLAIT_OK);
    }
    plait_context_close(context);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plain_model),
        cmocka_unit_test(quantised_model_in_memory),
        cmocka_unit_test(windows_on_two_devices),
        cmocka_unit_test(experts_elsewhere),
        cmocka_unit_test(the_context_can_go_on),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
