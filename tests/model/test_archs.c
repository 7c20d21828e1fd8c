/* Every known architecture computes the function that its reference computes (golden/archs): all tokens at once, in
 * sevens and one by one, with one and two threads, cache in float32 and float16. */
/* room: fit */
#include "model/arch_case.h"

static const struct {
    const char *name;
    bool quantised;
} cases[] = {
    {"llama-dense", false},     {"llama-gqa", false}, {"llama-gqa-quant", true}, {"llama-yarn", false},
    {"llama-ropefreqs", false}, {"qwen2", false},     {"qwen3", false},          {"gemma3", false},
    {"gemma3-quant", true},     {"mistral3", false},  {"gemma2", false},         {"granite", false},
    {"llama-moe", false},       {"qwen2moe", false},  {"qwen3moe", false},       {"qwen3moe-quant", true},
    {"granitemoe", false},
};

static plait_session *open_session(const char *path, const char *devices, plait_dtype kv,
                                   plait_context **context, plait_model **model) {
    plait_session *session;
    plait_model_options options = {.context = 256, .batch = 64, .kv_given = true, .k_type = kv, .v_type = kv};
    must(plait_context_open(context, devices, NULL));
    must(plait_model_open(model, *context, path, &options));
    must(plait_session_create(&session, *model));
    return session;
}

static void check_case(const char *name, bool quantised, const char *devices, plait_dtype kv) {
    static const int64_t pieces[] = {64, 7, 1};
    arch_case c;
    plait_context *context;
    plait_model *model;
    arch_load(name, quantised, &c);
    plait_session *session = open_session(c.model, devices, kv, &context, &model);
    size_t bytes = (size_t)(c.n_tokens * c.n_vocab) * sizeof(float);
    float *got = malloc(bytes), *first = malloc(bytes);
    for (size_t p = 0; p < 3; p++) {
        double most, rms, limit = quantised ? 0.15 : kv == PLAIT_F32 ? 2e-4 : 3e-2;
        arch_run(session, &c, pieces[p], got);
        arch_difference(&c, got, &most, &rms);
        print_message("%-16s %s %s in %2lld: max %.2e rms %.2e\n", name, devices, plait_dtype_name(kv),
                      (long long)pieces[p], most, rms);
        assert_true(most <= limit);
        if (quantised) assert_true(rms <= 0.03);
        /* A token's numbers do not depend on what shares its step. */
        if (p == 0) memcpy(first, got, bytes);
        assert_memory_equal(first, got, bytes);
    }
    plait_session_destroy(session);
    plait_model_release(model);
    plait_context_close(context);
    free(c.expected);
    free(got);
    free(first);
}

static void run_all(const char *devices, plait_dtype kv) {
    int n = 0;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        if (!arch_exists(cases[i].name)) continue; /* a stranger's clone has a subset */
        check_case(cases[i].name, cases[i].quantised, devices, kv);
        n++;
    }
    print_message("%d models checked\n", n);
    assert_true(n >= 4);
}

static void one_thread(void **state) {
    (void)state;
    run_all("cpu:threads=1", PLAIT_F32);
}

static void two_threads(void **state) {
    (void)state;
    run_all("cpu:threads=2", PLAIT_F32);
}

static void half_cache(void **state) {
    (void)state;
    run_all("cpu:threads=2", PLAIT_F16);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_thread),
        cmocka_unit_test(two_threads),
        cmocka_unit_test(half_cache),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
