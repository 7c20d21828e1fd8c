/* Law 8: after the first step a session allocates nothing, whatever the steps are: one token or prompts of any length,
 * argmax, best tokens, all logits and embeddings, forks that part, sequences that end and begin again. */
#include "fault/fault.h"
#include "plait/session.h"
#include "support/paths.h"

#include <setjmp.h>
#include <string.h>

#include <cmocka.h>

enum { BATCH = 64, CONTEXT = 256, N_STEPS = 300 };

static void must(plait_status status) {
    if (status != PLAIT_OK) fail_msg("%s: %s", plait_status_name(status), plait_error_message());
}

static void step(plait_session *s, plait_seq seq, int64_t n, bool all_outputs) {
    plait_batch_item items[BATCH];
    for (int64_t i = 0; i < n; i++)
        items[i] = (plait_batch_item){.token = (plait_token)((n * 31 + i * 7) % 100),
                                      .position = -1,
                                      .seqs = &seq,
                                      .n_seqs = 1,
                                      .wants_output = all_outputs || i == n - 1};
    if (plait_session_length(s, seq) + n > CONTEXT) must(plait_session_truncate(s, seq, 0));
    must(plait_session_step(s, items, n));
}

/* One output of each kind in turn. */
static void read_output(plait_session *s, plait_sampler *const samplers[2], int i) {
    const float *floats = NULL;
    plait_token token = 0;
    int64_t row = plait_session_n_outputs(s) - 1;
    switch (i % 6) {
    case 0: must(plait_session_argmax(s, row, &token)); break;
    case 1: must(plait_session_sample(s, row, samplers[0], &token)); break;
    case 2: must(plait_session_logits(s, row, &floats)); break;
    case 3: must(plait_session_embedding(s, row, &floats)); break;
    case 4: must(plait_session_sample(s, row, samplers[1], &token)); break;
    default: must(plait_session_logits(s, 0, &floats)); break;
    }
}

static void make_samplers(plait_sampler *out[2], int64_t n_vocab) {
    plait_sampler_options options;
    plait_sampler_options_default(&options);
    options.temp = 1;
    must(plait_sampler_create_from_options(&out[0], &options)); /* the best tokens */
    options.top_n_sigma = 2;
    must(plait_sampler_create_from_options(&out[1], &options)); /* all logits */
    for (int i = 0; i < 2; i++) must(plait_sampler_reserve(out[i], n_vocab));
}

static void many_steps(plait_session *s, plait_sampler *const samplers[2]) {
    plait_seq a = -1, fork = -1;
    must(plait_session_begin(s, &a));
    for (int i = 0; i < N_STEPS; i++) {
        int64_t n = i % 5 ? 1 : 1 + i * 13 % BATCH;
        step(s, a, n, i % 2);
        read_output(s, samplers, i);
        if (i % 7 != 3) continue;
        must(plait_session_fork(s, a, &fork)); /* parts from its pages at its next step */
        step(s, fork, 3, true);
        read_output(s, samplers, i / 7);
        step(s, a, 1, true);
        must(plait_session_drop(s, a));
        a = fork;
    }
    must(plait_session_drop(s, a));
}

static void steps_of(const char *name, const char *devices) {
    char relative[128], path[PLAIT_TEST_PATH_BYTES];
    plait_context *context = NULL;
    plait_model *model = NULL;
    plait_session *session = NULL;
    plait_sampler *samplers[2];
    plait_model_facts facts;
    plait_model_options options = {.context = CONTEXT, .batch = BATCH, .sequences = 2};
    snprintf(relative, sizeof relative, "archs/%s.gguf", name);
    must(plait_context_open(&context, devices, NULL));
    must(plait_model_open(&model, context, plait_test_golden(relative, path), &options));
    must(plait_session_create(&session, model));
    plait_model_describe(model, &facts);
    make_samplers(samplers, facts.n_vocab);
    plait_seq seq = -1;
    must(plait_session_begin(session, &seq));
    step(session, seq, 1, true);
    must(plait_session_drop(session, seq));
    uint64_t before = fault_allocations();
    many_steps(session, samplers);
    uint64_t n = fault_allocations() - before;
    print_message("%s on %s: %llu allocations in %d steps and more\n", name, devices, (unsigned long long)n,
                  N_STEPS);
    assert_int_equal(n, 0);
    for (int i = 0; i < 2; i++) plait_sampler_destroy(samplers[i]);
    plait_session_destroy(session);
    plait_model_release(model);
    plait_context_close(context);
}

static void one_thread(void **state) {
    (void)state;
    steps_of("llama-gqa-quant", "cpu:threads=1");
    steps_of("gemma3", "cpu:threads=1");
}

static void two_threads(void **state) {
    (void)state;
    steps_of("gemma3", "cpu:threads=2");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_thread),
        cmocka_unit_test(two_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
