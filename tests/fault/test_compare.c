/* Comparing a trace with a plan when memory runs out: each allocation fails in turn, everything is freed. */
/* room: model */
#include "fault/fault.h"
#include "model/compare.h"
#include "run/run.h"
#include "support/assert_ok.h"
#include "support/decoder.h"
#include "support/fake_device.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

typedef struct job {
    plait_context *context;
    plait_graph *graph;
    plait_plan *plan;
    char *trace;
} job;

static void record(job *j) {
    plait_run *run = NULL;
    j->graph = decoder_make(2, 32, 4);
    assert_non_null(j->graph);
    assert_ok(plait_context_open(&j->context, "fake:lack=attention,fake", NULL));
    assert_ok(plait_plan_make(&j->plan, j->context, j->graph, NULL));
    assert_ok(plait_run_create(&run, j->plan, NULL));
    assert_ok(plait_run_trace_begin(run, 1));
    assert_ok(plait_run_step(run));
    assert_ok(plait_run_trace_end(run, &j->trace));
    plait_run_destroy(run);
}

static plait_status compare_life(void *user) {
    const job *j = user;
    const plait_plan *plans[] = {j->plan, j->plan};
    plait_comparison comparison;
    PLAIT_TRY(plait_compare(&comparison, plans, 2, j->trace, strlen(j->trace)));
    plait_comparison_deinit(&comparison);
    return PLAIT_OK;
}

static void test_comparison(void **state) {
    (void)state;
    job j = {0};
    record(&j);
    fault_each_named("a comparison", compare_life, &j);
    free(j.trace);
    plait_plan_release(j.plan);
    plait_context_close(j.context);
    plait_graph_destroy(j.graph);
}

static int make_known(void **state) {
    (void)state;
    return fake_register() == PLAIT_OK ? 0 : -1;
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_comparison)};
    return cmocka_run_group_tests(tests, make_known, NULL);
}
