/* Opening real files: every model of the golden folder opens in every way, with the same result. */
#include "plait/gguf.h"
#include "support/paths.h"

#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static void assert_same(const plait_gguf *a, const plait_gguf *b) {
    assert_int_equal(plait_gguf_entry_count(a), plait_gguf_entry_count(b));
    assert_int_equal(plait_gguf_tensor_count(a), plait_gguf_tensor_count(b));
    for (size_t i = 0; i < plait_gguf_tensor_count(a); i++) {
        const plait_gguf_tensor *x = plait_gguf_tensor_at(a, i), *y = plait_gguf_find_tensor(b, x->name);
        assert_non_null(y);
        assert_int_equal(x->size_bytes, y->size_bytes);
        assert_int_equal(x->offset_bytes, y->offset_bytes);
        assert_memory_equal(x->bytes, y->bytes, x->size_bytes);
    }
}

static void check_file(const char *path) {
    plait_gguf *mapped = NULL, *read = NULL, *memory = NULL;
    if (plait_gguf_open(&mapped, path, NULL) != PLAIT_OK) fail_msg("%s", plait_error_message());
    assert_int_equal(plait_gguf_open(&read, path, &(plait_gguf_options){.read_into_memory = true}), PLAIT_OK);
    assert_true(plait_gguf_part_at(mapped, 0)->mapped);
    assert_false(plait_gguf_part_at(read, 0)->mapped);
    assert_int_equal(plait_gguf_part_at(mapped, 0)->inode, plait_gguf_part_at(read, 0)->inode);
    assert_same(mapped, read);

    size_t size = (size_t)plait_gguf_part_at(mapped, 0)->size_bytes;
    char *bytes = malloc(size + 1);
    FILE *f = fopen(path, "rb");
    assert_int_equal(fread(bytes + 1, 1, size, f), size); /* an odd address: the reader makes its own copy */
    fclose(f);
    assert_int_equal(plait_gguf_open_memory(&memory, bytes + 1, size, NULL), PLAIT_OK);
    assert_same(mapped, memory);
    plait_gguf_release(memory);
    free(bytes);
    plait_gguf_release(read);
    plait_gguf_release(mapped);
}

static void every_golden_file_opens(void **state) {
    (void)state;
    char dir_path[PLAIT_TEST_PATH_BYTES], path[2 * PLAIT_TEST_PATH_BYTES];
    int n = 0;
    DIR *dir = opendir(plait_test_golden("archs", dir_path));
    assert_non_null(dir);
    for (struct dirent *e; (e = readdir(dir));) {
        size_t length = strlen(e->d_name);
        if (length < 5 || strcmp(e->d_name + length - 5, ".gguf") != 0) continue;
        snprintf(path, sizeof path, "%s/%s", dir_path, e->d_name);
        check_file(path);
        n++;
    }
    closedir(dir);
    print_message("%d golden files from %s\n", n, dir_path);
    assert_true(n > 0);
}

/* What another reader of the format (the Python package gguf) says about a few tensors and values. */
typedef struct frozen_tensor {
    const char *file, *name;
    plait_dtype dtype;
    int64_t dims[2];
    uint64_t offset_bytes, size_bytes, sum; /* sum of all its bytes */
} frozen_tensor;

static const frozen_tensor frozen[] = {
    {"llama-gqa-quant", "token_embd.weight", PLAIT_Q6_K, {256, 112}, 3488, 23520, 2858955},
    {"llama-gqa-quant", "blk.0.attn_output.weight", PLAIT_Q4_0, {288, 256}, 116800, 41472, 5346585},
    {"llama-gqa-quant", "blk.1.attn_q.weight", PLAIT_Q4_K, {256, 288}, 270912, 41472, 5365848},
    {"llama-gqa-quant", "blk.1.ffn_down.weight", PLAIT_Q4_K, {256, 256}, 438016, 36864, 4788445},
    {"gemma3", "token_embd.weight", PLAIT_F32, {64, 112}, 5632, 28672, 3613356},
    {"gemma3", "blk.1.attn_v.weight", PLAIT_F32, {64, 32}, 238848, 8192, 1025751},
    {"gemma3", "blk.2.ffn_norm.weight", PLAIT_F32, {64, 1}, 443392, 256, 27982},
    {"qwen3", "blk.0.ffn_down.weight", PLAIT_F32, {104, 64}, 158912, 26624, 3309184},
    {"llama-dense", "blk.1.attn_k.weight", PLAIT_F32, {96, 96}, 413568, 36864, 4607047},
};

static void assert_tensor(const plait_gguf *g, const frozen_tensor *f) {
    const plait_gguf_tensor *t = plait_gguf_find_tensor(g, f->name);
    assert_non_null(t);
    assert_int_equal(t->dtype, f->dtype);
    assert_int_equal(t->dims[0], f->dims[0]);
    assert_int_equal(t->dims[1], f->dims[1]);
    assert_int_equal(t->offset_bytes, f->offset_bytes);
    assert_int_equal(t->size_bytes, f->size_bytes);
    uint64_t sum = 0;
    for (uint64_t i = 0; i < t->size_bytes; i++) sum += t->bytes[i];
    assert_int_equal(sum, f->sum);
}

static void frozen_tensors(void **state) {
    (void)state;
    char relative[64], path[PLAIT_TEST_PATH_BYTES];
    for (size_t i = 0; i < sizeof frozen / sizeof frozen[0]; i++) {
        plait_gguf *g = NULL;
        snprintf(relative, sizeof relative, "archs/%s.gguf", frozen[i].file);
        assert_int_equal(plait_gguf_open(&g, plait_test_golden(relative, path), NULL), PLAIT_OK);
        assert_tensor(g, &frozen[i]);
        plait_gguf_release(g);
    }
    print_message("%zu golden tensors\n", sizeof frozen / sizeof frozen[0]);
}

static plait_gguf *open_model(const char *name, size_t n_entries, size_t n_tensors) {
    char path[PLAIT_TEST_PATH_BYTES];
    plait_gguf *g = NULL;
    if (!plait_test_model(name, path)) fail_msg("%s is missing", name);
    if (plait_gguf_open(&g, path, NULL) != PLAIT_OK) fail_msg("%s", plait_error_message());
    assert_int_equal(plait_gguf_entry_count(g), n_entries);
    assert_int_equal(plait_gguf_tensor_count(g), n_tensors);
    return g;
}

static void the_llama(void **state) {
    (void)state;
    plait_gguf *g = open_model("SmolLM2-135M-Instruct.Q4_1.gguf", 33, 272);
    uint32_t layers = 0;
    float base = 0, epsilon = 0;
    const plait_gguf_value *v = NULL;
    assert_int_equal(plait_gguf_get_u32(g, "llama.block_count", &layers), PLAIT_OK);
    assert_int_equal(plait_gguf_get_f32(g, "llama.rope.freq_base", &base), PLAIT_OK);
    assert_int_equal(plait_gguf_get_f32(g, "llama.attention.layer_norm_rms_epsilon", &epsilon), PLAIT_OK);
    assert_true(layers == 30 && base == 100000 && epsilon == 1e-5f);
    assert_int_equal(plait_gguf_get_array(g, "tokenizer.ggml.tokens", PLAIT_GGUF_STRING, &v), PLAIT_OK);
    assert_int_equal(v->count, 49152);
    assert_true(plait_gguf_string_is(v->strings[1000], "()"));
    assert_int_equal(plait_gguf_get_array(g, "tokenizer.ggml.merges", PLAIT_GGUF_STRING, &v), PLAIT_OK);
    assert_int_equal(v->count, 48900);
    assert_true(plait_gguf_string_is(v->strings[1000], "\xc4\xa0pl an"));
    assert_tensor(
        g, &(frozen_tensor){"", "blk.17.attn_v.weight", PLAIT_Q4_1, {576, 192}, 53962048, 69120, 8653763});
    assert_tensor(
        g, &(frozen_tensor){"", "blk.9.attn_v.weight", PLAIT_Q4_1, {576, 192}, 98291008, 69120, 8673956});
    plait_gguf_release(g);
}

static void the_gemma(void **state) {
    (void)state;
    plait_gguf *g = open_model("gemma-3-270m-q4_k_m.gguf", 33, 236);
    uint32_t window = 0;
    bool add_bos = false;
    const plait_gguf_value *v = NULL;
    assert_int_equal(plait_gguf_get_u32(g, "gemma3.attention.sliding_window", &window), PLAIT_OK);
    assert_int_equal(plait_gguf_get_bool(g, "tokenizer.ggml.add_bos_token", &add_bos), PLAIT_OK);
    assert_true(window == 512 && add_bos);
    assert_int_equal(plait_gguf_get_array(g, "tokenizer.ggml.tokens", PLAIT_GGUF_STRING, &v), PLAIT_OK);
    assert_int_equal(v->count, 262144);
    assert_true(plait_gguf_string_is(v->strings[1000], "put"));
    assert_int_equal(plait_gguf_get_array(g, "tokenizer.ggml.scores", PLAIT_GGUF_F32, &v), PLAIT_OK);
    assert_true(v->count == 262144 && ((const float *)v->data)[1000] == -506);
    assert_tensor(g, &(frozen_tensor){"", "output_norm.weight", PLAIT_F32, {640, 1}, 6525120, 2560, 135666});
    assert_tensor(g,
                  &(frozen_tensor){
                      "", "blk.17.post_attention_norm.weight", PLAIT_F32, {640, 1}, 253107904, 2560, 114062});
    plait_gguf_forget_pages(g, plait_gguf_tensor_at(g, 0));
    plait_gguf_release(g);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_golden_file_opens),
        cmocka_unit_test(frozen_tensors),
        cmocka_unit_test(the_llama),
        cmocka_unit_test(the_gemma),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
