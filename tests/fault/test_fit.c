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
} job;

static plait_status life(void *user) {
    job *j = user;
    plait_context *context = NULL;
    plait_model *model = NULL;
    PLAIT_TRY(plait_machine_open(&context, j->machine, strlen(j->machine), NULL));
    plait_status status =
        plait_model_open(&model, context, j->path, &(plait_model_options){.dry = true, .kv_open = true});
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
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_choice), cmocka_unit_test(test_nothing_fits)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
