/* Files that lack something, or say something that cannot be: opening fails with the name, the expected and the actual,
 * and what a model does not need may be anything. The files are made from a good one by the GGUF writer. */
/* room: fit */
#include "model/arch_case.h"

#include "plait/gguf.h"

#include <math.h>

enum { MOST_CHANGES = 4 };

/* One change of metadata. `type` PLAIT_GGUF_ARRAY with n elements of u32; `key` NULL ends a list. */
typedef struct change {
    const char *key;
    bool remove;
    plait_gguf_type type;
    double number;
    const char *text;
    uint32_t elems[4];
    uint64_t n;
} change;

#define GONE(k)                                                                                              \
    { .key = (k), .remove = true }
#define U32(k, v)                                                                                            \
    { .key = (k), .type = PLAIT_GGUF_U32, .number = (v) }
#define I32(k, v)                                                                                            \
    { .key = (k), .type = PLAIT_GGUF_I32, .number = (v) }
#define F32(k, v)                                                                                            \
    { .key = (k), .type = PLAIT_GGUF_F32, .number = (v) }
#define U64(k, v)                                                                                            \
    { .key = (k), .type = PLAIT_GGUF_U64, .number = (v) }
#define TEXT(k, v)                                                                                           \
    { .key = (k), .type = PLAIT_GGUF_STRING, .text = (v) }
#define LIST(k, count, ...)                                                                                  \
    { .key = (k), .type = PLAIT_GGUF_ARRAY, .elems = {__VA_ARGS__}, .n = (count) }

/* A change of one tensor: gone, or of other dims; or one more tensor of these dims. Its bytes are zeros then. */
typedef struct tensor_change {
    const char *name;
    bool remove;
    int rank;
    int64_t dims[PLAIT_MAX_RANK];
    plait_dtype dtype;
} tensor_change;

static unsigned char zeros[1 << 20];

static void add_change(plait_gguf_writer *w, const change *c) {
    if (c->remove) return;
    switch (c->type) {
    case PLAIT_GGUF_U32: must(plait_gguf_writer_add_u32(w, c->key, (uint32_t)c->number)); break;
    case PLAIT_GGUF_I32: must(plait_gguf_writer_add_i32(w, c->key, (int32_t)c->number)); break;
    case PLAIT_GGUF_U64: must(plait_gguf_writer_add_u64(w, c->key, (uint64_t)c->number)); break;
    case PLAIT_GGUF_F32: must(plait_gguf_writer_add_f32(w, c->key, (float)c->number)); break;
    case PLAIT_GGUF_STRING: must(plait_gguf_writer_add_string(w, c->key, c->text)); break;
    default: must(plait_gguf_writer_add_array(w, c->key, PLAIT_GGUF_U32, c->elems, c->n)); break;
    }
}

static void add_tensors(plait_gguf_writer *w, const plait_gguf *gguf, const tensor_change *t) {
    bool found = false;
    for (size_t i = 0; i < plait_gguf_tensor_count(gguf); i++) {
        const plait_gguf_tensor *from = plait_gguf_tensor_at(gguf, i);
        plait_gguf_tensor_source source = {
            .name = from->name, .dtype = from->dtype, .rank = from->rank, .bytes = from->bytes};
        memcpy(source.dims, from->dims, sizeof source.dims);
        if (t && strcmp(t->name, from->name) == 0) {
            found = true;
            if (t->remove) continue;
            source.dtype = t->dtype;
            source.rank = t->rank;
            source.bytes = zeros;
            memcpy(source.dims, t->dims, sizeof source.dims);
        }
        must(plait_gguf_writer_add_tensor(w, &source));
    }
    if (!t || found) return;
    plait_gguf_tensor_source source = {.name = t->name, .dtype = t->dtype, .rank = t->rank, .bytes = zeros};
    memcpy(source.dims, t->dims, sizeof source.dims);
    must(plait_gguf_writer_add_tensor(w, &source));
}

/* Writes the golden model `name`, changed. Returns the path. */
static const char *write_changed(const char *name, const change *changes, const tensor_change *tensor) {
    static const char path[] = PLAIT_BINARY_DIR "/hparams-changed.gguf";
    char relative[128], golden[PLAIT_TEST_PATH_BYTES];
    const char *skip[MOST_CHANGES + 1] = {NULL};
    plait_gguf *gguf = NULL;
    plait_gguf_writer *w = NULL;
    snprintf(relative, sizeof relative, "archs/%s.gguf", name);
    must(plait_gguf_open(&gguf, plait_test_golden(relative, golden), NULL));
    must(plait_gguf_writer_create(&w));
    for (int i = 0; changes && i < MOST_CHANGES && changes[i].key; i++) skip[i] = changes[i].key;
    must(plait_gguf_writer_add_entries(w, gguf, skip));
    for (int i = 0; skip[i]; i++) add_change(w, &changes[i]);
    add_tensors(w, gguf, tensor);
    must(plait_gguf_writer_write(w, path));
    plait_gguf_writer_destroy(w);
    plait_gguf_release(gguf);
    return path;
}

/* Opens it for planning: everything but loading. */
static void expect(const char *path, plait_status expected, const char *part) {
    plait_context *context = NULL;
    plait_model *model = NULL;
    must(plait_context_open(&context, "cpu:threads=1", NULL));
    plait_status status = plait_model_open(&model, context, path,
                                           &(plait_model_options){.context = 64, .batch = 8, .dry = true});
    if (status != expected || (status != PLAIT_OK && !strstr(plait_error_message(), part)))
        fail_msg("expected %s with \"%s\", found %s: %s", plait_status_name(expected), part,
                 plait_status_name(status), status == PLAIT_OK ? "" : plait_error_message());
    if (status != PLAIT_OK && !strstr(plait_error_message(), path))
        fail_msg("the file is not named: %s", plait_error_message());
    assert_true((model != NULL) == (status == PLAIT_OK));
    plait_model_release(model);
    plait_context_close(context);
}

/* ---- metadata ---- */

typedef struct meta_case {
    change changes[MOST_CHANGES];
    plait_status status;
    const char *part; /* of the message */
} meta_case;

static void run_cases(const char *name, const meta_case *cases, size_t n) {
    for (size_t i = 0; i < n; i++)
        expect(write_changed(name, cases[i].changes, NULL), cases[i].status, cases[i].part);
    print_message("%zu files made from %s\n", n, name);
}

#define RUN_CASES(name, cases) run_cases(name, cases, sizeof(cases) / sizeof *(cases))

static void keys_that_are_missing_or_wrong(void **state) {
    (void)state;
    static const meta_case cases[] = {
        {{GONE("general.architecture")}, PLAIT_NOT_FOUND, "\"general.architecture\" is missing"},
        {{U32("general.architecture", 3)},
         PLAIT_CORRUPT,
         "\"general.architecture\": expected a string, found u32"},
        {{GONE("llama.block_count")}, PLAIT_NOT_FOUND, "\"llama.block_count\" is missing"},
        {{TEXT("llama.block_count", "2")}, PLAIT_CORRUPT, "\"llama.block_count\": expected "},
        {{F32("llama.block_count", 2)}, PLAIT_CORRUPT, "found f32"},
        {{U32("llama.block_count", 0)}, PLAIT_CORRUPT, "llama.block_count is 0, expected 1 to 4096"},
        {{U32("llama.block_count", 5000)}, PLAIT_CORRUPT, "llama.block_count is 5000"},
        {{U32("llama.block_count", 3)},
         PLAIT_NOT_FOUND,
         "tensor blk.2.attn_norm.weight of shape [96, 1] is missing"},
        {{U32("llama.block_count", 1)}, PLAIT_OK, ""}, /* the tensors of the other layer are not used */
        {{GONE("llama.embedding_length")}, PLAIT_NOT_FOUND, "\"llama.embedding_length\" is missing"},
        {{U64("llama.embedding_length", 1e19)}, PLAIT_OUT_OF_RANGE, "\"llama.embedding_length\""},
        {{U32("llama.embedding_length", 64)},
         PLAIT_CORRUPT,
         "expected shape [64, 112], found [96, 112, 1, 1]"},
        {{GONE("llama.context_length")}, PLAIT_NOT_FOUND, "\"llama.context_length\" is missing"},
        {{U32("llama.context_length", 0)}, PLAIT_CORRUPT, "llama.context_length is 0, expected 1 to"},
        {{GONE("llama.feed_forward_length")}, PLAIT_NOT_FOUND, "\"llama.feed_forward_length\" is missing"},
        {{U32("llama.feed_forward_length", 121)},
         PLAIT_CORRUPT,
         "blk.0.ffn_gate.weight: expected shape [96, 121], found [96, 120, 1, 1]"},
        {{F32("llama.attention.layer_norm_rms_epsilon", 0)}, PLAIT_CORRUPT, "is 0, expected more than 0"},
        {{F32("llama.attention.layer_norm_rms_epsilon", (double)NAN)}, PLAIT_CORRUPT, "not a finite number"},
        {{U32("llama.attention.layer_norm_rms_epsilon", 1)}, PLAIT_CORRUPT, "found u32"},
        {{GONE("general.name"), GONE("llama.vocab_size")}, PLAIT_OK, ""},
    };
    RUN_CASES("llama-dense", cases);
}

static void heads_that_do_not_divide(void **state) {
    (void)state;
    static const meta_case cases[] = {
        {{GONE("llama.attention.head_count")}, PLAIT_NOT_FOUND, "\"llama.attention.head_count\" is missing"},
        {{U32("llama.attention.head_count", 0)},
         PLAIT_CORRUPT,
         "llama.attention.head_count of layer 0 is 0, expected 1 to 65536"},
        {{LIST("llama.attention.head_count", 2, 3, 0)}, PLAIT_CORRUPT, "head_count of layer 1 is 0"},
        {{LIST("llama.attention.head_count", 1, 3)}, PLAIT_CORRUPT, "\"llama.attention.head_count\""},
        {{LIST("llama.attention.head_count", 3, 3, 3, 9)}, PLAIT_OK, ""},
        {{U32("llama.attention.head_count_kv", 2)},
         PLAIT_CORRUPT,
         "layer 0 has 3 heads, no multiple of its 2 KV heads"},
        {{U32("llama.attention.head_count_kv", 6)}, PLAIT_CORRUPT, "3 heads, no multiple of its 6 KV heads"},
        {{U32("llama.attention.head_count_kv", 1)},
         PLAIT_CORRUPT,
         "blk.0.attn_k.weight: expected shape [96, 32], found [96, 96, 1, 1]"},
        {{GONE("llama.attention.head_count_kv")}, PLAIT_OK, ""},
        {{GONE("llama.attention.key_length"), GONE("llama.attention.value_length")}, PLAIT_OK, ""},
        {{GONE("llama.attention.key_length"), U32("llama.attention.head_count", 5),
          GONE("llama.attention.head_count_kv")},
         PLAIT_CORRUPT,
         "no llama.attention.key_length, and embedding_length 96 is no multiple of 5 heads"},
        {{U32("llama.attention.value_length", 0)},
         PLAIT_CORRUPT,
         "llama.attention.value_length is 0, expected 1 to 65536"},
        {{U32("llama.attention.key_length", 70000)}, PLAIT_CORRUPT, "llama.attention.key_length is 70000"},
    };
    RUN_CASES("llama-dense", cases);
}

static void rotary_numbers(void **state) {
    (void)state;
    static const meta_case cases[] = {
        {{U32("llama.rope.dimension_count", 31)}, PLAIT_CORRUPT, "is 31, expected an even number"},
        {{U32("llama.rope.dimension_count", 64)},
         PLAIT_CORRUPT,
         "llama.rope.dimension_count is 64, expected 2 to 32"},
        {{GONE("llama.rope.dimension_count")}, PLAIT_OK, ""},
        {{F32("llama.rope.freq_base", 0)}, PLAIT_CORRUPT, "rope base 0"},
        {{F32("llama.rope.freq_base", (double)INFINITY)},
         PLAIT_CORRUPT,
         "llama.rope.freq_base is not a finite number"},
        {{TEXT("llama.rope.scaling.type", "su")},
         PLAIT_UNSUPPORTED,
         "rope scaling of type \"su\"; known are none, linear, yarn"},
        {{U32("llama.rope.scaling.type", 1)}, PLAIT_CORRUPT, "expected a string, found u32"},
        {{TEXT("llama.rope.scaling.type", "linear"), F32("llama.rope.scaling.factor", -2)},
         PLAIT_CORRUPT,
         "factor -2"},
        {{TEXT("llama.rope.scaling.type", "linear"), F32("llama.rope.scaling.factor", 0)}, PLAIT_OK, ""},
        {{TEXT("llama.rope.scaling.type", "linear"), F32("llama.rope.scaling.factor", 1e-45)},
         PLAIT_CORRUPT,
         "rope.scaling.factor"},
        {{TEXT("llama.rope.scaling.type", "yarn"), F32("llama.rope.scaling.factor", 1e-6),
          F32("llama.rope.scaling.yarn_log_multiplier", 0.1)},
         PLAIT_CORRUPT,
         "rope.scaling.factor"},
        {{TEXT("llama.rope.scaling.type", "yarn"), F32("llama.rope.scaling.factor", 4)}, PLAIT_OK, ""},
    };
    RUN_CASES("llama-dense", cases);
}

static void windows(void **state) {
    (void)state;
    static const meta_case cases[] = {
        {{I32("gemma3.attention.sliding_window", -1)},
         PLAIT_CORRUPT,
         "gemma3.attention.sliding_window is -1, expected 0 to"},
        {{U32("gemma3.attention.sliding_window", 0)}, PLAIT_OK, ""},
        {{U32("gemma3.attention.sliding_window", 1)}, PLAIT_OK, ""},
        {{GONE("gemma3.attention.sliding_window_pattern")}, PLAIT_OK, ""},
        {{U32("gemma3.attention.sliding_window_pattern", 0)},
         PLAIT_CORRUPT,
         "gemma3.attention.sliding_window_pattern is 0, expected 1 to"},
        {{U32("gemma3.attention.sliding_window_pattern", 1)}, PLAIT_OK, ""},    /* all layers full */
        {{U32("gemma3.attention.sliding_window_pattern", 4000)}, PLAIT_OK, ""}, /* all layers local */
        {{LIST("gemma3.attention.sliding_window_pattern", 2, 1, 0)}, PLAIT_CORRUPT, "sliding_window_pattern"},
        {{F32("gemma3.rope.freq_base_swa", -1)},
         PLAIT_CORRUPT,
         "gemma3.rope.freq_base_swa is -1, expected more than 0"},
    };
    RUN_CASES("gemma3", cases);
}

static void numbers_of_experts(void **state) {
    (void)state;
    static const meta_case cases[] = {
        {{U32("qwen2moe.expert_used_count", 8)}, PLAIT_OK, ""},
        {{U32("qwen2moe.expert_used_count", 9)},
         PLAIT_CORRUPT,
         "qwen2moe.expert_used_count is 9, expected 1 to 8"},
        {{U32("qwen2moe.expert_used_count", 0)}, PLAIT_CORRUPT, "qwen2moe.expert_used_count is 0"},
        {{GONE("qwen2moe.expert_used_count")}, PLAIT_NOT_FOUND, "\"qwen2moe.expert_used_count\" is missing"},
        {{U32("qwen2moe.expert_count", 70000)}, PLAIT_CORRUPT, "qwen2moe.expert_count is 70000"},
        {{U32("qwen2moe.expert_count", 6)},
         PLAIT_CORRUPT,
         "tensor blk.0.ffn_gate_inp.weight: expected shape [64, 6], found [64, 8, 1, 1]"},
        {{U32("qwen2moe.expert_count", 0)},
         PLAIT_NOT_FOUND,
         "tensor blk.0.ffn_gate.weight of shape [64, 40] is missing"},
        {{U32("qwen2moe.expert_feed_forward_length", 32)},
         PLAIT_CORRUPT,
         "tensor blk.0.ffn_gate_exps.weight: expected shape [64, 32, 8], found [64, 24, 8, 1]"},
        {{GONE("qwen2moe.expert_feed_forward_length")},
         PLAIT_CORRUPT,
         "tensor blk.0.ffn_gate_exps.weight: expected shape [64, 40, 8]"},
        {{U32("qwen2moe.expert_shared_feed_forward_length", 48)},
         PLAIT_CORRUPT,
         "tensor blk.0.ffn_gate_shexp.weight: expected shape [64, 48], found [64, 40, 1, 1]"},
        {{GONE("qwen2moe.expert_shared_feed_forward_length")}, PLAIT_OK, ""}, /* as long as a dense layer */
        {{U32("qwen2moe.expert_gating_func", 1)}, PLAIT_OK, ""},
        {{U32("qwen2moe.expert_gating_func", 2)},
         PLAIT_UNSUPPORTED,
         "qwen2moe.expert_gating_func is 2; known is 1 (softmax)"},
        {{U32("qwen2moe.expert_group_count", 1)}, PLAIT_OK, ""},
        {{U32("qwen2moe.expert_group_count", 4)},
         PLAIT_UNSUPPORTED,
         "qwen2moe.expert_group_count is 4: groups of experts are not known"},
        {{F32("qwen2moe.expert_weights_scale", NAN)},
         PLAIT_CORRUPT,
         "qwen2moe.expert_weights_scale is not a finite number"},
        {{F32("qwen2moe.expert_weights_scale", 0)}, PLAIT_OK, ""},
    };
    static const meta_case others[] = {
        {{U32("gemma3.expert_count", 4)},
         PLAIT_UNSUPPORTED,
         "gemma3.expert_count is 4, and architecture gemma3 is known without experts"},
        {{U32("gemma3.expert_count", 0)}, PLAIT_OK, ""},
    };
    RUN_CASES("qwen2moe", cases);
    RUN_CASES("gemma3", others);
}

/* The message lists every architecture that is known. */
static void unknown_architecture(void **state) {
    (void)state;
    static const change changes[MOST_CHANGES] = {TEXT("general.architecture", "perceiver")};
    const char *path = write_changed("llama-dense", changes, NULL);
    size_t n = 0;
    expect(path, PLAIT_UNSUPPORTED, "architecture \"perceiver\" is not known; known are: ");
    for (; plait_model_architecture(n); n++)
        assert_non_null(strstr(plait_error_message(), plait_model_architecture(n)));
    print_message("%zu architectures named\n", n);
    assert_true(n >= 7);
}

/* ---- tensors ---- */

static void check_tensor(const char *name, const tensor_change *t, plait_status status, const char *part) {
    expect(write_changed(name, NULL, t), status, part);
}

/* Each tensor in turn is missing, and has another shape. */
static void each_tensor_of(const char *name) {
    char relative[128], golden[PLAIT_TEST_PATH_BYTES], part[PLAIT_MAX_NAME + 64];
    plait_gguf *gguf = NULL;
    snprintf(relative, sizeof relative, "archs/%s.gguf", name);
    must(plait_gguf_open(&gguf, plait_test_golden(relative, golden), NULL));
    size_t n = plait_gguf_tensor_count(gguf);
    for (size_t i = 0; i < n; i++) {
        const plait_gguf_tensor *from = plait_gguf_tensor_at(gguf, i);
        bool table = strcmp(from->name, "token_embd.weight") == 0;
        tensor_change t = {.name = from->name, .remove = true, .rank = from->rank, .dtype = PLAIT_F32};
        if (strcmp(from->name, "output.weight") == 0) { /* the table serves in its place */
            check_tensor(name, &t, PLAIT_OK, "");
        } else {
            snprintf(part, sizeof part, table ? "tensor \"%s\" is missing" : "tensor %s of shape [",
                     from->name);
            check_tensor(name, &t, PLAIT_NOT_FOUND, part);
        }
        t.remove = false;
        memcpy(t.dims, from->dims, sizeof t.dims);
        t.dims[0] += 1;
        snprintf(part, sizeof part, "tensor %s: expected shape [%lld, %lld], found [%lld, %lld, 1, 1]",
                 from->name, (long long)from->dims[0], (long long)from->dims[1], (long long)t.dims[0],
                 (long long)t.dims[1]);
        check_tensor(name, &t, PLAIT_CORRUPT, part);
    }
    print_message("%zu tensors of %s\n", n, name);
    plait_gguf_release(gguf);
}

static void tensors_that_are_missing_or_misshapen(void **state) {
    (void)state;
    each_tensor_of("llama-dense");
    each_tensor_of("gemma3");
}

static void tensors_that_may_be_there(void **state) {
    (void)state;
    static const tensor_change unused = {
        .name = "blk.0.unheard_of.weight", .rank = 3, .dims = {5, 4, 3}, .dtype = PLAIT_I8};
    static const tensor_change bias = {
        .name = "blk.1.attn_q.bias", .rank = 1, .dims = {96}, .dtype = PLAIT_F32};
    static const tensor_change long_bias = {
        .name = "blk.1.attn_q.bias", .rank = 1, .dims = {97}, .dtype = PLAIT_F32};
    static const tensor_change frequencies = {
        .name = "rope_freqs.weight", .rank = 1, .dims = {15}, .dtype = PLAIT_F32};
    check_tensor("llama-dense", &unused, PLAIT_OK, "");
    check_tensor("llama-dense", &bias, PLAIT_OK, "");
    check_tensor("llama-dense", &long_bias, PLAIT_CORRUPT,
                 "tensor blk.1.attn_q.bias: expected shape [96, 1], found [97, 1, 1, 1]");
    check_tensor("llama-dense", &frequencies, PLAIT_CORRUPT,
                 "tensor rope_freqs.weight: expected shape [16, 1], found [15, 1, 1, 1]");
}

static void tensors_of_experts(void **state) {
    (void)state;
    static const tensor_change missing[] = {
        {.name = "blk.1.ffn_gate_inp.weight", .remove = true},
        {.name = "blk.1.ffn_up_exps.weight", .remove = true},
        {.name = "blk.0.ffn_down_exps.weight", .remove = true},
        {.name = "blk.0.ffn_down_shexp.weight", .remove = true},
        {.name = "blk.0.ffn_gate_inp_shexp.weight", .remove = true},
    };
    static const char *const parts[] = {
        "tensor blk.1.ffn_gate_inp.weight of shape [64, 8] is missing",
        "tensor blk.1.ffn_up_exps.weight of shape [64, 24, 8] is missing",
        "tensor blk.0.ffn_down_exps.weight of shape [24, 64, 8] is missing",
        "tensor blk.0.ffn_down_shexp.weight of shape [40, 64] is missing",
        "tensor blk.0.ffn_gate_inp_shexp.weight of shape [64, 1] is missing",
    };
    static const tensor_change fewer = {
        .name = "blk.1.ffn_up_exps.weight", .rank = 3, .dims = {64, 24, 7}, .dtype = PLAIT_F32};
    static const tensor_change flat = {
        .name = "blk.1.ffn_up_exps.weight", .rank = 2, .dims = {64, 192}, .dtype = PLAIT_F32};
    static const tensor_change bias = {
        .name = "blk.0.ffn_up_exps.bias", .rank = 2, .dims = {24, 8}, .dtype = PLAIT_F32};
    for (size_t i = 0; i < sizeof missing / sizeof *missing; i++)
        check_tensor("qwen2moe", &missing[i], PLAIT_NOT_FOUND, parts[i]);
    check_tensor("qwen2moe", &fewer, PLAIT_CORRUPT,
                 "tensor blk.1.ffn_up_exps.weight: expected shape [64, 24, 8], found [64, 24, 7, 1]");
    check_tensor("qwen2moe", &flat, PLAIT_CORRUPT, "expected shape [64, 24, 8], found [64, 192, 1, 1]");
    check_tensor("qwen2moe", &bias, PLAIT_UNSUPPORTED,
                 "tensor blk.0.ffn_up_exps.bias: biases of experts are not known");
}

/* Element types that no op takes as a weight. */
static void tensors_of_wrong_type(void **state) {
    (void)state;
    static const tensor_change matrix = {
        .name = "blk.0.attn_q.weight", .rank = 2, .dims = {96, 96}, .dtype = PLAIT_I32};
    static const tensor_change norm = {
        .name = "blk.1.ffn_norm.weight", .rank = 1, .dims = {96}, .dtype = PLAIT_I16};
    static const tensor_change table = {
        .name = "token_embd.weight", .rank = 2, .dims = {96, 112}, .dtype = PLAIT_I64};
    check_tensor("llama-dense", &matrix, PLAIT_CORRUPT,
                 "tensor blk.0.attn_q.weight: expected a float or quantised type, found I32");
    check_tensor("llama-dense", &norm, PLAIT_CORRUPT, "tensor blk.1.ffn_norm.weight: expected a float");
    check_tensor("llama-dense", &table, PLAIT_CORRUPT, "tensor token_embd.weight: expected a float");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keys_that_are_missing_or_wrong),
        cmocka_unit_test(heads_that_do_not_divide),
        cmocka_unit_test(rotary_numbers),
        cmocka_unit_test(windows),
        cmocka_unit_test(numbers_of_experts),
        cmocka_unit_test(tensors_of_experts),
        cmocka_unit_test(unknown_architecture),
        cmocka_unit_test(tensors_that_are_missing_or_misshapen),
        cmocka_unit_test(tensors_that_may_be_there),
        cmocka_unit_test(tensors_of_wrong_type),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
