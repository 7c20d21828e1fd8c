/* Models on simulated devices: memory that the host cannot touch, commands that dawdle and overtake, ops and types that
 * are lacking, links between devices that do not reach one another. The logits are a cpu's, byte for byte. */
/* room: fit */
#include "model/arch_case.h"

static const char *const names[] = {"llama-dense", "llama-gqa-quant", "qwen3",    "gemma3",
                                    "mistral3",    "gemma2",          "qwen2moe", "qwen3moe-quant"};

/* Logits of all tokens of the case, fed in pieces. The caller frees them. */
static float *logits_on(const char *devices, const arch_case *c, int64_t piece) {
    plait_context *context = NULL;
    plait_model *model = NULL;
    plait_session *session = NULL;
    plait_model_options options = {.context = 256, .batch = 64};
    float *got = calloc((size_t)(c->n_tokens * c->n_vocab), sizeof *got);
    assert_non_null(got);
    must(plait_context_open(&context, devices, NULL));
    must(plait_model_open(&model, context, c->model, &options));
    must(plait_session_create(&session, model));
    arch_run(session, c, piece, got);
    plait_session_destroy(session);
    plait_model_release(model);
    plait_context_close(context);
    return got;
}

static void same_as_cpu(const char *const *lists, size_t n_lists) {
    int n = 0;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        arch_case c;
        if (!arch_exists(names[i])) continue; /* a stranger's clone has a subset */
        arch_load(names[i], strstr(names[i], "quant") != NULL, &c);
        float *expected = logits_on("cpu:threads=1", &c, 64);
        for (size_t l = 0; l < n_lists; l++) {
            float *got = logits_on(lists[l], &c, l % 2 ? 64 : 7);
            if (memcmp(expected, got, (size_t)(c.n_tokens * c.n_vocab) * sizeof *got) != 0)
                fail_msg("%s on %s: other logits", names[i], lists[l]);
            free(got);
            n++;
        }
        free(expected);
        free(c.expected);
    }
    print_message("%d runs with the bytes of cpu\n", n);
    assert_true((size_t)n >= 4 * n_lists);
}

static void alone(void **state) {
    static const char *const lists[] = {
        "sim",
        "sim:delay=1:delay-max=30us:reorder=1",
        "sim:delay=2:delay-max=30us:reorder=2:inner=cpu/threads=2:copy-queues=2",
        "sim:no=peer+boxes+waits+timelines+packing+pinned:pad=100:granularity=4096:align=256",
        "sim:import=yes",
    };
    (void)state;
    same_as_cpu(lists, sizeof lists / sizeof *lists);
}

/* What one lacks, the other one runs. */
static void in_company(void **state) {
    static const char *const lists[] = {
        "sim:lack=attention+rope:flops=100G,cpu:threads=1",
        "sim:lack=rms_norm+get_rows+kv_write+swiglu:flops=100G:delay=3:delay-max=30us,cpu:threads=1",
        "sim:lack-type=f16+q4_0+q8_0:flops=100G,cpu:threads=2",
        "cpu:threads=1,sim:lack=matmul:flops=100G",
        "sim:lack=attention:flops=1T:reorder=4,sim:lack=matmul+rope:flops=1T:delay=4:delay-max=30us",
        "sim:lack=expert_matmul:flops=1T,sim:lack=top_k+weighted_sum:flops=1T:delay=5:delay-max=30us",
        "sim:no=peer:lack=matmul:flops=1T,sim:no=peer+waits+boxes:lack=add+mul:flops=1T,cpu:threads=1",
        "sim:contiguous=yes:max-rank=3:flops=100G,cpu:threads=1",
    };
    (void)state;
    same_as_cpu(lists, sizeof lists / sizeof *lists);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(alone), cmocka_unit_test(in_company)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
