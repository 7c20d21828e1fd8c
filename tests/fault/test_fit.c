/* Choosing what fits while memory runs out: each allocation fails in turn, everything is freed, and want of memory here is
 * never taken for want of memory there: a choice that was made is the choice that is made without. */
/* room: fit */
#include "fault/fault.h"
#include "fit/models.h"
#include "plait/machine.h"
#include "plait/model.h"

#include <setjmp.h>
#include <cmocka.h>

typedef struct job {
    const char *machine;
    char path[256], flags[256];
    int64_t context, batch; /* 0: open, and the type of the cache with them */
} job;

static plait_status life(void *user) {
    job *j = user;
    plait_context *context = NULL;
    plait_model *model = NULL;
    PLAIT_TRY(plait_machine_open(&context, j->machine, strlen(j->machine), NULL));
    plait_status status =
        plait_model_open(&model, context, j->path,
                         &(plait_model_options){
                             .dry = true, .context = j->context, .batch = j->batch, .kv_open = !j->context});
    if (status == PLAIT_OK && !j->flags[0])
        snprintf(j->flags, sizeof j->flags, "%s", plait_model_flags(model));
    if (status == PLAIT_OK) assert_string_equal(j->flags, plait_model_flags(model));
    plait_model_release(model);
    plait_context_close(context);
    return status;
}

static void test_choice(void **state) {
    (void)state;
    job j = {.machine = "card memory=3MiB flops=1T memory-bandwidth=100GB\n"};
    fit_model(fit_shape_named("tiny"), j.path);
    fit_must(life(&j));
    print_message("%s\n", j.flags);
    assert_null(strstr(j.flags, "--ctx 4096 --batch 512 ")); /* there is something to choose */
    fault_each_named("a choice", life, &j);
    remove(j.path);
}

/* Experts apart from their layers: one more thing to choose, and a pin that is made for it. */
static void test_choice_of_experts(void **state) {
    (void)state;
    job j = {.context = 512,
             .batch = 64,
             .machine = "card memory=1500KiB flops=1T memory-bandwidth=100GB bandwidth=12GB latency=1us\n"
                        "host memory=1GiB flops=20G memory-bandwidth=4GB bandwidth=12GB latency=1us\n"};
    fit_model(fit_shape_named("tiny-moe"), j.path);
    fit_must(life(&j));
    print_message("%s\n", j.flags);
    assert_non_null(strstr(j.flags, ".ffn_*_exps*=host"));
    fault_each_named("a choice of experts", life, &j);
    remove(j.path);
}

static plait_status nothing(void *user) {
    job *j = user;
    plait_context *context = NULL;
    plait_model *model = NULL;
    PLAIT_TRY(plait_machine_open(&context, j->machine, strlen(j->machine), NULL));
    plait_status status = plait_model_open(&model, context, j->path, &(plait_model_options){.dry = true});
    bool said = strstr(plait_error_message(), "nothing fits") != NULL;
    plait_model_release(model);
    plait_context_close(context);
    return status == PLAIT_OUT_OF_MEMORY && said ? PLAIT_OK : status;
}

static void test_nothing_fits(void **state) {
    (void)state;
    job j = {.machine = "a memory=100KiB flops=1T memory-bandwidth=100GB\nb memory=200KiB flops=1T "
                        "memory-bandwidth=1GB\n"};
    fit_model(fit_shape_named("tiny"), j.path);
    fit_must(nothing(&j));
    fault_each_named("no choice", nothing, &j);
    remove(j.path);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_choice),
                                       cmocka_unit_test(test_choice_of_experts),
                                       cmocka_unit_test(test_nothing_fits)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
