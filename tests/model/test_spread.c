/* Every known architecture spread over several devices, in proportions, by pins, with ops missing, with little memory,
 * gives the bytes that one device gives: all tokens at once and one by one. */
/* room: fit */
#include "model/arch_case.h"

#include <stdlib.h>

static const char *const cases[] = {"llama-dense",     "llama-gqa", "llama-gqa-quant", "llama-yarn",
                                    "llama-ropefreqs", "qwen2",     "qwen3",           "gemma3",
                                    "gemma3-quant",    "mistral3",  "gemma2",          "granite",
                                    "llama-moe",       "qwen2moe",  "qwen3moe-quant",  "granitemoe"};

typedef struct way {
    const char *devices;
    plait_split split;
    double ratio[3];
    plait_pin pins[3];
    int n_pins;
} way;

static const way ways[] = {
    {"cpu:threads=1,cpu:threads=1", PLAIT_SPLIT_LAYER, {1, 1}, {{0}}, 0},
    {"cpu:threads=1,cpu:threads=1", PLAIT_SPLIT_LAYER, {0, 1}, {{0}}, 0},
    {"cpu:threads=1,cpu:threads=1", PLAIT_SPLIT_LAYER, {3, 1}, {{0}}, 0},
    {"cpu:threads=1,cpu:threads=1", PLAIT_SPLIT_LAYER, {0}, {{0}}, 0},
    {"cpu:threads=1,cpu:threads=1,cpu:threads=1", PLAIT_SPLIT_LAYER, {1, 1, 1}, {{0}}, 0},
    {"cpu:threads=1,cpu:threads=1,cpu:threads=1", PLAIT_SPLIT_LAYER, {2, 0, 1}, {{0}}, 0},
    {"cpu:threads=1,cpu:threads=1", PLAIT_SPLIT_AUTO, {0}, {{"blk.1", 1}, {"token_embd.weight", 1}}, 2},
    {"cpu:threads=1,cpu:threads=1", PLAIT_SPLIT_NONE, {0}, {{"*.ffn_*", 1}, {"cache.0.*", 1}}, 2},
    {"cpu:threads=1,cpu:threads=1", PLAIT_SPLIT_LAYER, {1, 1}, {{"cache.*", 0}}, 1},
    {"sim,cpu:threads=1", PLAIT_SPLIT_NONE, {0}, {{"*_exps.weight", 1}}, 1},
    {"cpu:threads=1,sim", PLAIT_SPLIT_LAYER, {1, 1}, {{"blk.0.ffn_up_exps.weight", 1}}, 1},
    {"sim:lack=expert_matmul+weighted_sum,sim:lack=top_k", PLAIT_SPLIT_NONE, {0}, {{0}}, 0},
    {"sim:lack=attention+rope,cpu:threads=1", PLAIT_SPLIT_NONE, {0}, {{0}}, 0},
    {"sim:lack=rms_norm+kv_write,sim:lack=matmul", PLAIT_SPLIT_NONE, {0}, {{0}}, 0},
    {"cpu:threads=1,sim,sim:lack=get_rows+swiglu+geglu", PLAIT_SPLIT_LAYER, {1, 1, 1}, {{0}}, 0},
};

static void run_way(const way *w, const arch_case *c, int64_t piece, float *out) {
    plait_context *context;
    plait_model *model;
    plait_session *session;
    plait_model_options options = {.context = 256,
                                   .batch = 64,
                                   .split = w->split,
                                   .ratio = w->ratio[0] + w->ratio[1] > 0 ? w->ratio : NULL,
                                   .pins = w->pins,
                                   .n_pins = w->n_pins};
    must(plait_context_open(&context, w->devices, NULL));
    must(plait_model_open(&model, context, c->model, &options));
    must(plait_session_create(&session, model));
    arch_run(session, c, piece, out);
    plait_session_destroy(session);
    plait_model_release(model);
    plait_context_close(context);
}

static void spread_gives_the_same_bytes(void **state) {
    (void)state;
    static const way alone = {.devices = "cpu:threads=1"};
    int n = 0;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        if (!arch_exists(cases[i])) continue; /* a stranger's clone has a subset */
        arch_case c;
        arch_load(cases[i], strstr(cases[i], "quant") != NULL, &c);
        size_t bytes = (size_t)(c.n_tokens * c.n_vocab) * sizeof(float);
        float *expected = malloc(bytes), *got = malloc(bytes);
        run_way(&alone, &c, 64, expected);
        for (size_t w = 0; w < sizeof ways / sizeof *ways; w++)
            for (int64_t piece = 1; piece <= 64; piece *= 64) {
                run_way(&ways[w], &c, piece, got);
                if (memcmp(got, expected, bytes) != 0)
                    fail_msg("%s, way %zu (%s), %lld at a time: other logits", cases[i], w, ways[w].devices,
                             (long long)piece);
                n++;
            }
        free(expected), free(got), free(c.expected);
    }
    print_message("%d runs over several devices\n", n);
    assert_true(n >= 96);
}

/* A device of little memory takes the layers that it has room for, and never more than that. */
static void memory_is_kept(void **state) {
    (void)state;
    static const way alone = {.devices = "cpu:threads=1"};
    arch_case c;
    arch_load("llama-dense", false, &c);
    size_t bytes = (size_t)(c.n_tokens * c.n_vocab) * sizeof(float);
    float *expected = malloc(bytes), *got = malloc(bytes);
    run_way(&alone, &c, 64, expected);
    int fitted = 0, partly = 0;
    for (int64_t kib = 256; kib <= 16384; kib *= 2) {
        char devices[64];
        plait_context *context;
        plait_model *model;
        plait_session *session;
        plait_model_options options = {.context = 256, .batch = 64, .split = PLAIT_SPLIT_NONE};
        snprintf(devices, sizeof devices, "sim:mem=%lldKiB,cpu:threads=1", (long long)kib);
        must(plait_context_open(&context, devices, NULL));
        must(plait_model_open(&model, context, c.model, &options));
        must(plait_session_create(&session, model));
        arch_run(session, &c, 64, got);
        assert_memory_equal(got, expected, bytes);
        plait_device *sim = plait_context_device(context, 0);
        uint64_t total, left;
        must(sim->vtable->memory_query(sim, &total, &left));
        assert_int_equal(total, (uint64_t)kib << 10);
        fitted += left < total;
        partly += left < total && kib < 4096;
        plait_session_destroy(session);
        plait_model_release(model);
        plait_context_close(context);
    }
    print_message("%d sizes of memory held something, %d of the small ones\n", fitted, partly);
    assert_true(fitted >= 2);
    free(expected), free(got), free(c.expected);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(spread_gives_the_same_bytes),
        cmocka_unit_test(memory_is_kept),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
