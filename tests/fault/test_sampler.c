/* Samplers and stop conditions when memory runs out, and that they take none while tokens are picked. */
/* room: text */
#include "fault/fault.h"
#include "plait/sampler.h"
#include "plait/stop.h"

#include "base/status.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define N_VOCAB 2000

static void fill(float *logits, int round) {
    uint32_t x = (uint32_t)round + 1;
    for (size_t i = 0; i < N_VOCAB; i++) {
        x = x * 1664525u + 1013904223u;
        logits[i] = (float)(x >> 8) * 0x1p-24f * 10.0f;
    }
}

static plait_status add_every_step(plait_sampler *s) {
    static const plait_token breakers[] = {1, 2};
    static const plait_logit_bias bias[] = {{4, 1.0f}, {5, -INFINITY}};
    PLAIT_TRY(plait_sampler_add_bias(s, bias, 2));
    PLAIT_TRY(plait_sampler_add_penalties(s, 32, 1.1f, 0.1f, 0.0f));
    PLAIT_TRY(plait_sampler_add_dry(s, 0.8f, 1.75f, 2, 64, breakers, 2));
    PLAIT_TRY(plait_sampler_add_top_n_sigma(s, 3.0f));
    PLAIT_TRY(plait_sampler_add_top_k(s, 500));
    PLAIT_TRY(plait_sampler_add_typical(s, 0.99f, 1));
    PLAIT_TRY(plait_sampler_add_top_p(s, 0.99f, 1));
    PLAIT_TRY(plait_sampler_add_min_p(s, 0.01f, 1));
    PLAIT_TRY(plait_sampler_add_mirostat_v1(s, 5.0f, 0.1f, 100));
    PLAIT_TRY(plait_sampler_add_mirostat_v2(s, 5.0f, 0.1f));
    PLAIT_TRY(plait_sampler_add_xtc(s, 0.5f, 0.1f, 1));
    PLAIT_TRY(plait_sampler_add_temp_dynamic(s, 1.0f, 0.5f, 1.0f));
    return plait_sampler_add_temp(s, 0.9f);
}

static plait_status use(plait_sampler *s, plait_sampler **copy) {
    static float logits[N_VOCAB];
    plait_token token;
    fill(logits, 1);
    PLAIT_TRY(add_every_step(s));
    PLAIT_TRY(plait_sampler_pick_from_all(s, logits, N_VOCAB, &token));
    PLAIT_TRY(plait_sampler_accept(s, token));
    PLAIT_TRY(plait_sampler_clone(s, copy));
    return plait_sampler_pick_from_all(*copy, logits, N_VOCAB, &token);
}

static plait_status sampler_life(void *user) {
    (void)user;
    plait_sampler *s = NULL, *copy = NULL;
    PLAIT_TRY(plait_sampler_create(&s, 1));
    plait_status status = use(s, &copy);
    plait_sampler_destroy(copy);
    plait_sampler_destroy(s);
    return status;
}

static plait_status options_life(void *user) {
    (void)user;
    plait_sampler_options options;
    plait_sampler_options_default(&options);
    options.temp = 1.0f;
    options.repeat_penalty = 1.1f;
    options.dry_multiplier = 1.0f;
    plait_sampler *s = NULL;
    plait_status status = plait_sampler_create_from_options(&s, &options);
    if (status != PLAIT_OK) assert_null(s);
    plait_sampler_destroy(s);
    return status;
}

/* A step that could not be added leaves the chain usable. */
static void test_failed_step_leaves_chain(void **state) {
    (void)state;
    float logits[4] = {0.0f, 3.0f, 1.0f, 2.0f};
    for (uint64_t nth = 1; nth < 12; nth++) {
        plait_sampler *s = NULL;
        assert_int_equal(plait_sampler_create(&s, 1), PLAIT_OK);
        assert_int_equal(plait_sampler_add_dry(s, 1.0f, 2.0f, 1, 8, NULL, 0), PLAIT_OK);
        fault_arm(nth);
        plait_status status = plait_sampler_add_dry(s, 1.0f, 2.0f, 1, 500, NULL, 0);
        fault_arm(0);
        assert_true(status == PLAIT_OK || status == PLAIT_OUT_OF_MEMORY);
        plait_token token;
        for (int i = 0; i < 300; i++) {
            assert_int_equal(plait_sampler_pick_from_all(s, logits, 4, &token), PLAIT_OK);
            assert_int_equal(plait_sampler_accept(s, token), PLAIT_OK);
        }
        plait_sampler_destroy(s);
    }
}

static plait_status stop_life(void *user) {
    (void)user;
    static const char *const strings[] = {"abc", "abd", "</s>"};
    static const plait_token end[] = {2};
    plait_stop *stop = NULL;
    plait_stop_result r;
    PLAIT_TRY(plait_stop_create(
        &stop,
        &(plait_stop_options){.end_tokens = end, .n_end_tokens = 1, .strings = strings, .n_strings = 3}));
    char piece[2000];
    memset(piece, 'a', sizeof piece);
    plait_status status = plait_stop_feed(stop, 1, piece, sizeof piece, &r);
    if (status == PLAIT_OK) status = plait_stop_feed(stop, 2, "", 0, &r);
    plait_stop_destroy(stop);
    return status;
}

static void test_each_allocation(void **state) {
    (void)state;
    fault_each(sampler_life, NULL);
    fault_each(options_life, NULL);
    fault_each(stop_life, NULL);
}

static void test_picking_allocates_nothing(void **state) {
    (void)state;
    static float logits[N_VOCAB];
    static plait_token ids[N_VOCAB];
    plait_sampler *s = NULL;
    plait_stop *stop = NULL;
    plait_stop_result r;
    const char *strings[] = {"stop"};
    assert_int_equal(plait_stop_create(&stop, &(plait_stop_options){.strings = strings, .n_strings = 1}),
                     PLAIT_OK);
    assert_int_equal(plait_sampler_create(&s, 1), PLAIT_OK);
    assert_int_equal(add_every_step(s), PLAIT_OK);
    assert_int_equal(plait_sampler_reserve(s, N_VOCAB), PLAIT_OK);
    for (size_t i = 0; i < N_VOCAB; i++) ids[i] = (plait_token)i;
    uint64_t before = fault_allocations();
    for (int i = 0; i < 200; i++) {
        plait_token token;
        plait_logits_need need;
        fill(logits, i);
        assert_int_equal(plait_sampler_need(s, N_VOCAB, &need), PLAIT_OK);
        if (i % 2)
            assert_int_equal(plait_sampler_pick_from_all(s, logits, N_VOCAB, &token), PLAIT_OK);
        else
            assert_int_equal(plait_sampler_pick_from_best(s, ids, logits, N_VOCAB, N_VOCAB, &token),
                             PLAIT_OK);
        assert_int_equal(plait_sampler_accept(s, token), PLAIT_OK);
        assert_int_equal(plait_stop_feed(stop, token, " piece st", 9, &r), PLAIT_OK);
    }
    assert_int_equal(fault_allocations() - before, 0);
    plait_sampler_destroy(s);
    plait_stop_destroy(stop);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_allocation),
        cmocka_unit_test(test_failed_step_leaves_chain),
        cmocka_unit_test(test_picking_allocates_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
