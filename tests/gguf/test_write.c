/* Writing: every type of metadata, tensors from memory and from a function, and what the writer refuses. Every golden
 * model is read and written again, and must come back equal. */
#include "gguf/image.h"
#include "support/paths.h"

#include "base/size.h"
#include "base/status.h"

#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>
#include <cmocka.h>

static plait_status to_image(void *user, const void *bytes, size_t n) {
    image_bytes(user, bytes, n);
    return PLAIT_OK;
}

static void ok(plait_status status) {
    if (status != PLAIT_OK) fail_msg("%s: %s", plait_status_name(status), plait_error_message());
}

static plait_gguf_string key_of(const char *text) {
    return (plait_gguf_string){text, strlen(text)};
}

static plait_status count_up(void *user, uint64_t offset_bytes, void *out, size_t size_bytes) {
    uint64_t *expected = user;
    if (offset_bytes != *expected) return plait_error(PLAIT_INTERNAL, "out of order");
    for (size_t i = 0; i < size_bytes; i++) ((uint8_t *)out)[i] = (uint8_t)((offset_bytes + i) % 251);
    *expected += size_bytes;
    return PLAIT_OK;
}

static plait_status give_up(void *user, uint64_t offset_bytes, void *out, size_t size_bytes) {
    (void)user, (void)offset_bytes, (void)out, (void)size_bytes;
    return plait_error(PLAIT_CANCELLED, "no more data");
}

static void add_everything(plait_gguf_writer *w) {
    static const int16_t shorts[] = {-1, 2, 3};
    static const plait_gguf_string words[] = {{"a", 1}, {"", 0}, {"b\0c", 3}};
    static const uint8_t bools[] = {1, 0};
    static const uint64_t nines[] = {9, 99};
    plait_gguf_value inner[2] = {
        {.type = PLAIT_GGUF_ARRAY, .elem_type = PLAIT_GGUF_U64, .count = 2, .data = nines},
        {.type = PLAIT_GGUF_ARRAY, .elem_type = PLAIT_GGUF_STRING, .count = 3, .strings = words},
    };
    ok(plait_gguf_writer_add_u32(w, "general.alignment", 64));
    ok(plait_gguf_writer_add_u32(w, "u32", 1));
    ok(plait_gguf_writer_add_i32(w, "i32", -1));
    ok(plait_gguf_writer_add_u64(w, "u64", UINT64_MAX));
    ok(plait_gguf_writer_add_f32(w, "f32", 0.1f));
    ok(plait_gguf_writer_add_bool(w, "bool", true));
    ok(plait_gguf_writer_add_string(w, "string", "text"));
    ok(plait_gguf_writer_add_array(w, "shorts", PLAIT_GGUF_I16, shorts, 3));
    ok(plait_gguf_writer_add_array(w, "words", PLAIT_GGUF_STRING, words, 3));
    ok(plait_gguf_writer_add_array(w, "bools", PLAIT_GGUF_BOOL, bools, 2));
    ok(plait_gguf_writer_add_array(w, "empty", PLAIT_GGUF_F64, NULL, 0));
    ok(plait_gguf_writer_add_array(w, "nested", PLAIT_GGUF_ARRAY, inner, 2));
}

static void everything_comes_back(void **state) {
    (void)state;
    static const float ones[6] = {1, 1, 1, 1, 1, 1};
    uint64_t at = 0, size = 0;
    plait_gguf_writer *w = NULL;
    plait_gguf *g = NULL;
    image m = {0};
    ok(plait_gguf_writer_create(&w));
    ok(plait_gguf_writer_add_tensor(
        w, &(plait_gguf_tensor_source){
               .name = "ones", .dtype = PLAIT_F32, .rank = 2, .dims = {3, 2}, .bytes = ones}));
    ok(plait_gguf_writer_add_tensor(
        w,
        &(plait_gguf_tensor_source){
            .name = "long", .dtype = PLAIT_I8, .rank = 1, .dims = {1000001}, .fill = count_up, .user = &at}));
    add_everything(w); /* the alignment counts wherever it is added */
    ok(plait_gguf_writer_write_to(w, to_image, &m));
    ok(plait_gguf_writer_size(w, &size));
    assert_int_equal(size, m.length);
    assert_int_equal(at, 1000001);
    assert_int_equal(m.length % 64, 0);
    plait_gguf_writer_destroy(w);
    plait_gguf_writer_destroy(NULL);

    ok(plait_gguf_open_memory(&g, m.bytes, m.length, NULL));
    assert_int_equal(plait_gguf_alignment(g), 64);
    assert_int_equal(plait_gguf_entry_count(g), 12);
    uint64_t u64 = 0;
    int32_t i32 = 0;
    ok(plait_gguf_get_u64(g, "u64", &u64));
    ok(plait_gguf_get_i32(g, "i32", &i32));
    assert_true(u64 == UINT64_MAX && i32 == -1);
    const plait_gguf_value *v = plait_gguf_find(g, "nested");
    assert_int_equal(((const uint64_t *)v->arrays[0].data)[1], 99);
    assert_memory_equal(v->arrays[1].strings[2].bytes, "b\0c", 3);
    assert_int_equal(plait_gguf_find(g, "empty")->elem_type, PLAIT_GGUF_F64);
    assert_int_equal(((const int16_t *)plait_gguf_find(g, "shorts")->data)[0], -1);
    const plait_gguf_tensor *t = plait_gguf_find_tensor(g, "long");
    for (size_t i = 0; i < 1000001; i += 997) assert_int_equal(t->bytes[i], i % 251);
    assert_memory_equal(plait_gguf_find_tensor(g, "ones")->bytes, ones, sizeof ones);
    plait_gguf_release(g);
    image_end(&m);
}

static void refusals(void **state) {
    (void)state;
    static const uint8_t two = 2;
    static const plait_gguf_value flat = {
        .type = PLAIT_GGUF_U8, .elem_type = PLAIT_GGUF_U8, .count = 1, .data = &two};
    plait_gguf_writer *w = NULL;
    image before = {0}, after = {0};
    ok(plait_gguf_writer_create(&w));
    ok(plait_gguf_writer_add_u32(w, "k", 1));
    ok(plait_gguf_writer_add_tensor(
        w,
        &(plait_gguf_tensor_source){.name = "t", .dtype = PLAIT_I8, .rank = 1, .dims = {1}, .bytes = &two}));
    ok(plait_gguf_writer_write_to(w, to_image, &before));

    assert_int_equal(plait_gguf_writer_set_version(w, 1), PLAIT_INVALID_ARGUMENT);
    assert_int_equal(plait_gguf_writer_add_u32(w, "k", 2), PLAIT_INVALID_ARGUMENT);
    assert_string_equal(plait_error_message(), "GGUF writer: metadata key \"k\" is there already");
    assert_int_equal(plait_gguf_writer_add_u32(w, "", 2), PLAIT_INVALID_ARGUMENT);
    assert_int_equal(plait_gguf_writer_add(w, (plait_gguf_string){"a\0b", 3}, &flat), PLAIT_INVALID_ARGUMENT);
    assert_int_equal(plait_gguf_writer_add_u32(w, "general.alignment", 33), PLAIT_INVALID_ARGUMENT);
    assert_int_equal(plait_gguf_writer_add_i32(w, "general.alignment", 32), PLAIT_INVALID_ARGUMENT);
    assert_int_equal(plait_gguf_writer_add_array(w, "b", PLAIT_GGUF_BOOL, &two, 1), PLAIT_INVALID_ARGUMENT);
    assert_int_equal(plait_gguf_writer_add_array(w, "a", (plait_gguf_type)13, &two, 1),
                     PLAIT_INVALID_ARGUMENT);
    assert_int_equal(plait_gguf_writer_add_array(w, "a", PLAIT_GGUF_ARRAY, &flat, 1), PLAIT_INVALID_ARGUMENT);
    plait_gguf_value many = flat;
    many.count = 2;
    assert_int_equal(plait_gguf_writer_add(w, key_of("s"), &many), PLAIT_INVALID_ARGUMENT);

    static const plait_gguf_tensor_source bad[] = {
        {.name = "t", .dtype = PLAIT_I8, .rank = 1, .dims = {1}, .bytes = &two},
        {.name = "", .dtype = PLAIT_I8, .rank = 1, .dims = {1}, .bytes = &two},
        {.name = "new\nline", .dtype = PLAIT_I8, .rank = 1, .dims = {1}, .bytes = &two},
        {.name = "n", .dtype = (plait_dtype)4, .rank = 1, .dims = {1}, .bytes = &two},
        {.name = "n", .dtype = PLAIT_I8, .rank = 5, .dims = {1, 1, 1, 1}, .bytes = &two},
        {.name = "n", .dtype = PLAIT_I8, .rank = -1, .bytes = &two},
        {.name = "n", .dtype = PLAIT_I8, .rank = 1, .dims = {0}, .bytes = &two},
        {.name = "n", .dtype = PLAIT_Q4_0, .rank = 1, .dims = {33}, .bytes = &two},
        {.name = "n", .dtype = PLAIT_F64, .rank = 2, .dims = {INT64_MAX, 2}, .bytes = &two},
        {.name = "n", .dtype = PLAIT_I8, .rank = 1, .dims = {1}},
    };
    for (size_t i = 0; i < PLAIT_COUNT_OF(bad); i++) {
        assert_int_equal(plait_gguf_writer_add_tensor(w, &bad[i]), PLAIT_INVALID_ARGUMENT);
        assert_ptr_equal(strstr(plait_error_message(), "GGUF writer: "), plait_error_message());
    }
    ok(plait_gguf_writer_write_to(w, to_image, &after)); /* nothing of that left a trace */
    assert_int_equal(before.length, after.length);
    assert_memory_equal(before.bytes, after.bytes, before.length);
    plait_gguf_writer_destroy(w);
    image_end(&before);
    image_end(&after);
}

/* A write that fails leaves neither the file nor its temporary, and an older file as it was. */
static void nothing_half_written(void **state) {
    (void)state;
    char path[1024], temporary[1100];
    image old = {0};
    plait_gguf *g = NULL;
    plait_gguf_writer *w = NULL;
    snprintf(path, sizeof path, "%s/test_write_half.gguf", PLAIT_BINARY_DIR);
    snprintf(temporary, sizeof temporary, "%s.part.%ld", path, (long)getpid());
    image_small(&old);
    image_save(&old, path);
    ok(plait_gguf_writer_create(&w));
    ok(plait_gguf_writer_add_tensor(
        w, &(plait_gguf_tensor_source){
               .name = "t", .dtype = PLAIT_I8, .rank = 1, .dims = {9}, .fill = give_up}));
    assert_int_equal(plait_gguf_writer_write(w, path), PLAIT_CANCELLED);
    assert_string_equal(plait_error_message(), "tensor \"t\": no more data");
    assert_int_equal(access(temporary, F_OK), -1);
    ok(plait_gguf_open(&g, path, NULL));
    assert_int_equal(plait_gguf_tensor_count(g), 2);
    plait_gguf_release(g);
    assert_int_equal(plait_gguf_writer_write(w, "/no/such/folder/x.gguf"), PLAIT_IO);
    plait_gguf_writer_destroy(w);
    unlink(path);
    image_end(&old);
}

static bool same_value(const plait_gguf_value *a, const plait_gguf_value *b) {
    if (a->type != b->type || a->elem_type != b->elem_type || a->count != b->count) return false;
    for (uint64_t i = 0; i < a->count; i++) {
        if (a->elem_type == PLAIT_GGUF_ARRAY && !same_value(&a->arrays[i], &b->arrays[i])) return false;
        if (a->elem_type == PLAIT_GGUF_STRING &&
            (a->strings[i].length != b->strings[i].length ||
             memcmp(a->strings[i].bytes, b->strings[i].bytes, a->strings[i].length) != 0))
            return false;
    }
    size_t each = plait_gguf_type_bytes(a->elem_type);
    return a->count == 0 || each == 0 || memcmp(a->data, b->data, a->count * each) == 0;
}

static void round_trip(const char *path) {
    plait_gguf *a = NULL, *b = NULL;
    plait_gguf_writer *w = NULL;
    char copy[1024];
    snprintf(copy, sizeof copy, "%s/test_write_copy.gguf", PLAIT_BINARY_DIR);
    ok(plait_gguf_open(&a, path, NULL));
    ok(plait_gguf_writer_create(&w));
    ok(plait_gguf_writer_add_entries(w, a, NULL));
    for (size_t i = 0; i < plait_gguf_tensor_count(a); i++) {
        const plait_gguf_tensor *t = plait_gguf_tensor_at(a, i);
        plait_gguf_tensor_source source = {
            .name = t->name, .dtype = t->dtype, .rank = t->rank, .bytes = t->bytes};
        memcpy(source.dims, t->dims, sizeof source.dims);
        ok(plait_gguf_writer_add_tensor(w, &source));
    }
    ok(plait_gguf_writer_write(w, copy));
    plait_gguf_writer_destroy(w);
    ok(plait_gguf_open(&b, copy, NULL));
    assert_int_equal(plait_gguf_entry_count(a), plait_gguf_entry_count(b));
    for (size_t i = 0; i < plait_gguf_entry_count(a); i++)
        assert_true(same_value(&plait_gguf_entry_at(a, i)->value, &plait_gguf_entry_at(b, i)->value));
    assert_int_equal(plait_gguf_tensor_count(a), plait_gguf_tensor_count(b));
    for (size_t i = 0; i < plait_gguf_tensor_count(a); i++) {
        const plait_gguf_tensor *x = plait_gguf_tensor_at(a, i), *y = plait_gguf_tensor_at(b, i);
        assert_string_equal(x->name, y->name);
        assert_true(x->dtype == y->dtype && x->rank == y->rank && x->size_bytes == y->size_bytes);
        assert_memory_equal(x->dims, y->dims, sizeof x->dims);
        assert_memory_equal(x->bytes, y->bytes, x->size_bytes);
    }
    plait_gguf_release(a);
    plait_gguf_release(b);
    unlink(copy);
}

static void golden_models(void **state) {
    (void)state;
    char dir_path[PLAIT_TEST_PATH_BYTES], path[2 * PLAIT_TEST_PATH_BYTES];
    int n = 0;
    DIR *dir = opendir(plait_test_golden("archs", dir_path));
    assert_non_null(dir);
    for (struct dirent *e; (e = readdir(dir));) {
        size_t length = strlen(e->d_name);
        if (length < 5 || strcmp(e->d_name + length - 5, ".gguf") != 0) continue;
        snprintf(path, sizeof path, "%s/%s", dir_path, e->d_name);
        round_trip(path);
        n++;
    }
    closedir(dir);
    print_message("%d golden files read, written and read again\n", n);
    assert_true(n > 0);
}

/* Sizes whose sum has no 64 bits are refused before anything is written. */
static void too_large(void **state) {
    (void)state;
    uint64_t size = 7;
    image m = {0};
    plait_gguf_writer *w = NULL;
    ok(plait_gguf_writer_create(&w));
    for (int i = 0; i < 2; i++)
        ok(plait_gguf_writer_add_tensor(
            w,
            &(plait_gguf_tensor_source){
                .name = i ? "b" : "a", .dtype = PLAIT_I8, .rank = 1, .dims = {INT64_MAX}, .fill = count_up}));
    assert_int_equal(plait_gguf_writer_size(w, &size), PLAIT_INVALID_ARGUMENT);
    assert_int_equal(plait_gguf_writer_write_to(w, to_image, &m), PLAIT_INVALID_ARGUMENT);
    assert_true(size == 7 && m.length == 0);
    ok(plait_gguf_writer_add_tensor(
        w, &(plait_gguf_tensor_source){
               .name = "c", .dtype = PLAIT_I8, .rank = 1, .dims = {64}, .fill = count_up}));
    assert_int_equal(plait_gguf_writer_size(w, &size), PLAIT_INVALID_ARGUMENT);
    assert_non_null(strstr(plait_error_message(), "beyond 2^64 bytes"));
    plait_gguf_writer_destroy(w);
}

/* Entries taken over from a file, with some left out and replaced. */
static void edited_entries(void **state) {
    (void)state;
    static const char *const skip[] = {"words", "llama.block_count", NULL};
    image m = {0}, out = {0};
    plait_gguf *a = NULL, *b = NULL;
    plait_gguf_writer *w = NULL;
    uint32_t layers = 0;
    image_small(&m);
    ok(plait_gguf_open_memory(&a, m.bytes, m.length, NULL));
    ok(plait_gguf_writer_create(&w));
    ok(plait_gguf_writer_add_entries(w, a, skip));
    ok(plait_gguf_writer_add_u32(w, "llama.block_count", 9));
    ok(plait_gguf_writer_write_to(w, to_image, &out));
    ok(plait_gguf_open_memory(&b, out.bytes, out.length, NULL));
    assert_int_equal(plait_gguf_entry_count(b), 2);
    ok(plait_gguf_get_u32(b, "llama.block_count", &layers));
    assert_int_equal(layers, 9);
    assert_null(plait_gguf_find(b, "words"));
    plait_gguf_release(a);
    plait_gguf_release(b);
    plait_gguf_writer_destroy(w);
    image_end(&m);
    image_end(&out);
}

static void version_two(void **state) {
    (void)state;
    plait_gguf_writer *w = NULL;
    plait_gguf *g = NULL;
    image m = {0};
    ok(plait_gguf_writer_create(&w));
    ok(plait_gguf_writer_set_version(w, 2));
    ok(plait_gguf_writer_write_to(w, to_image, &m));
    ok(plait_gguf_open_memory(&g, m.bytes, m.length, NULL));
    assert_int_equal(plait_gguf_version(g), 2);
    plait_gguf_release(g);
    plait_gguf_writer_destroy(w);
    image_end(&m);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(everything_comes_back), cmocka_unit_test(refusals),
        cmocka_unit_test(nothing_half_written),  cmocka_unit_test(golden_models),
        cmocka_unit_test(version_two),           cmocka_unit_test(too_large),
        cmocka_unit_test(edited_entries),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
