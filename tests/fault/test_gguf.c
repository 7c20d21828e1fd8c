/* Running out of memory while reading, describing and writing GGUF files: each allocation fails in turn. */
/* room: gguf */
#include "fault/fault.h"
#include "gguf/describe.h"
#include "support/paths.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

static plait_status one_byte(void *user, uint64_t offset_bytes, void *out, size_t size_bytes) {
    (void)user, (void)offset_bytes;
    memset(out, 7, size_bytes);
    return PLAIT_OK;
}

static plait_status add_content(plait_gguf_writer *w) {
    static const plait_gguf_string words[] = {{"a", 1}, {"bc", 2}};
    static const int32_t numbers[] = {1, 2, 3};
    plait_gguf_value inner[2] = {
        {.type = PLAIT_GGUF_ARRAY, .elem_type = PLAIT_GGUF_I32, .count = 3, .data = numbers},
        {.type = PLAIT_GGUF_ARRAY, .elem_type = PLAIT_GGUF_STRING, .count = 2, .strings = words},
    };
    char name[32];
    PLAIT_TRY(plait_gguf_writer_add_string(w, "general.architecture", "llama"));
    PLAIT_TRY(plait_gguf_writer_add_u32(w, "llama.block_count", 2));
    PLAIT_TRY(
        plait_gguf_writer_add_f32(w, "llama.block_count_", 2)); /* shifts what follows to odd addresses */
    PLAIT_TRY(plait_gguf_writer_add_string(w, "llama.context_length", "a wrong type"));
    PLAIT_TRY(plait_gguf_writer_add_array(w, "words", PLAIT_GGUF_STRING, words, 2));
    PLAIT_TRY(plait_gguf_writer_add_array(w, "nested", PLAIT_GGUF_ARRAY, inner, 2));
    PLAIT_TRY(plait_gguf_writer_add_u32(w, "tokenizer.ggml.bos_token_id", 9));
    for (int i = 0; i < 40; i++) {
        snprintf(name, sizeof name, "blk.%d.weight", i);
        PLAIT_TRY(plait_gguf_writer_add_tensor(
            w, &(plait_gguf_tensor_source){
                   .name = name, .dtype = PLAIT_Q4_0, .rank = 2, .dims = {64, 3}, .fill = one_byte}));
    }
    return PLAIT_OK;
}

static plait_status write_life(void *user) {
    plait_gguf_writer *w = NULL;
    PLAIT_TRY(plait_gguf_writer_create(&w));
    plait_status status = add_content(w);
    if (status == PLAIT_OK) status = plait_gguf_writer_write(w, user);
    plait_gguf_writer_destroy(w);
    return status;
}

static plait_status open_life(void *user) {
    plait_gguf *gguf = NULL;
    plait_gguf_options options = {.read_into_memory = true};
    PLAIT_TRY(plait_gguf_open(&gguf, user, &options));
    plait_gguf_release(gguf);
    PLAIT_TRY(plait_gguf_open(&gguf, user, NULL));
    plait_gguf_release(gguf);
    return PLAIT_OK;
}

/* At an odd address, so that a private copy is made and every array has to be moved. */
static plait_status memory_life(void *user) {
    static unsigned char bytes[1 << 15];
    plait_gguf *gguf = NULL;
    FILE *f = fopen(user, "rb");
    size_t n = f ? fread(bytes + 1, 1, sizeof bytes - 1, f) : 0;
    if (f) fclose(f);
    PLAIT_TRY(plait_gguf_open_memory(&gguf, bytes + 1, n, NULL));
    plait_gguf_release(gguf);
    return PLAIT_OK;
}

static plait_status stream_read(void *user, void *out, size_t capacity, size_t *out_n) {
    *out_n = fread(out, 1, capacity, user);
    return PLAIT_OK;
}

static plait_status stream_life(void *user) {
    plait_gguf *gguf = NULL;
    FILE *f = fopen(user, "rb");
    if (!f) return PLAIT_IO;
    plait_status status = plait_gguf_open_stream(&gguf, stream_read, f, 0, NULL);
    fclose(f);
    plait_gguf_release(gguf);
    return status;
}

static plait_status print_all(const plait_gguf_description *d, plait_strbuf *out) {
    plait_gguf_description_text(d, out);
    plait_gguf_description_json(d, out);
    plait_gguf_metadata_text(d->gguf, NULL, out);
    plait_gguf_metadata_json(d->gguf, NULL, out);
    plait_gguf_tensors_text(d->gguf, out);
    plait_gguf_tensors_json(d->gguf, out);
    return plait_strbuf_status(out);
}

static plait_status describe_life(void *user) {
    static const char *const needed[] = {"a.key", "another"};
    plait_gguf_needs needs = {.keys = needed, .n_keys = 2, .tensors = needed, .n_tensors = 2};
    plait_gguf_description d;
    plait_strbuf text;
    plait_strbuf_init(&text, 0);
    PLAIT_TRY(plait_gguf_describe(&d, user, &needs));
    plait_status status = print_all(&d, &text);
    plait_strbuf_deinit(&text);
    plait_gguf_description_deinit(&d);
    return status;
}

static void each_allocation(void **state) {
    (void)state;
    char path[PLAIT_TEST_PATH_BYTES], temporary[PLAIT_TEST_PATH_BYTES + 32];
    plait_gguf *gguf = NULL;
    snprintf(path, sizeof path, "%s/test_fault.gguf", PLAIT_BINARY_DIR);
    snprintf(temporary, sizeof temporary, "%s.part.%ld", path, (long)getpid());
    fault_each(write_life, path);
    assert_int_equal(access(temporary, F_OK), -1);
    fault_each(open_life, path);
    fault_each(memory_life, path);
    fault_each(stream_life, path);
    assert_int_equal(plait_gguf_open(&gguf, path, NULL), PLAIT_OK);
    fault_each(describe_life, gguf);
    plait_gguf_release(gguf);
    unlink(path);
}

static plait_status golden_life(void *user) {
    plait_gguf *gguf = NULL;
    PLAIT_TRY(plait_gguf_open(&gguf, user, NULL));
    plait_gguf_release(gguf);
    return PLAIT_OK;
}

static void a_golden_model(void **state) {
    (void)state;
    char path[PLAIT_TEST_PATH_BYTES];
    fault_each(golden_life, plait_test_golden("archs/llama-gqa-quant.gguf", path));
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(each_allocation), cmocka_unit_test(a_golden_model)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
