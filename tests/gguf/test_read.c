/* What an open file gives back: values of every type, typed getters and their messages, tensors, streams, references. */
#include "gguf/image.h"

#include "base/size.h"

#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

static plait_gguf *opened(const image *m) {
    plait_gguf *gguf = NULL;
    if (plait_gguf_open_memory(&gguf, m->bytes, m->length, NULL) != PLAIT_OK)
        fail_msg("%s", plait_error_message());
    return gguf;
}

/* A file with one scalar of each type; integers are 200 or -3. */
static void scalars(image *m) {
    int8_t i8 = -3;
    int16_t i16 = -3;
    uint16_t u16 = 200;
    int32_t i32 = -3;
    int64_t i64 = -3;
    float f32 = 0.1f;
    double f64 = 0.1;
    image_begin(m, 0, 14);
    image_key(m, "u8", PLAIT_GGUF_U8), image_u8(m, 200);
    image_key(m, "i8", PLAIT_GGUF_I8), image_bytes(m, &i8, 1);
    image_key(m, "u16", PLAIT_GGUF_U16), image_bytes(m, &u16, 2);
    image_key(m, "i16", PLAIT_GGUF_I16), image_bytes(m, &i16, 2);
    image_key(m, "u32", PLAIT_GGUF_U32), image_u32(m, 200);
    image_key(m, "i32", PLAIT_GGUF_I32), image_bytes(m, &i32, 4);
    image_key(m, "u64", PLAIT_GGUF_U64), image_u64(m, 200);
    image_key(m, "i64", PLAIT_GGUF_I64), image_bytes(m, &i64, 8);
    image_key(m, "f32", PLAIT_GGUF_F32), image_bytes(m, &f32, 4);
    image_key(m, "f64", PLAIT_GGUF_F64), image_bytes(m, &f64, 8);
    image_key(m, "yes", PLAIT_GGUF_BOOL), image_u8(m, 1);
    image_key(m, "text", PLAIT_GGUF_STRING), image_string_n(m, "a\0\xff", 3);
    image_key(m, "big", PLAIT_GGUF_U64), image_u64(m, UINT64_MAX);
    image_key(m, "none", PLAIT_GGUF_STRING), image_string(m, "");
}

static void getters(void **state) {
    (void)state;
    image m = {0};
    scalars(&m);
    plait_gguf *g = opened(&m);
    static const char *const positive[] = {"u8", "u16", "u32", "u64"}, *const negative[] = {"i8", "i16",
                                                                                            "i32", "i64"};
    for (size_t i = 0; i < 4; i++) {
        uint32_t u32 = 0;
        int32_t i32 = 0;
        uint64_t u64 = 0;
        int64_t i64 = 0;
        assert_int_equal(plait_gguf_get_u32(g, positive[i], &u32), PLAIT_OK);
        assert_int_equal(plait_gguf_get_i32(g, positive[i], &i32), PLAIT_OK);
        assert_int_equal(plait_gguf_get_u64(g, positive[i], &u64), PLAIT_OK);
        assert_int_equal(plait_gguf_get_i64(g, positive[i], &i64), PLAIT_OK);
        assert_true(u32 == 200 && i32 == 200 && u64 == 200 && i64 == 200);
        assert_int_equal(plait_gguf_get_i32(g, negative[i], &i32), PLAIT_OK);
        assert_int_equal(plait_gguf_get_i64(g, negative[i], &i64), PLAIT_OK);
        assert_true(i32 == -3 && i64 == -3);
        assert_int_equal(plait_gguf_get_u32(g, negative[i], &u32), PLAIT_OUT_OF_RANGE);
        assert_int_equal(plait_gguf_get_u64(g, negative[i], &u64), PLAIT_OUT_OF_RANGE);
        assert_true(u32 == 200 && u64 == 200); /* untouched */
        assert_string_equal(strstr(plait_error_message(), "expected"),
                            "expected 0 to 18446744073709551615, found -3");
    }
    float f32 = 0;
    double f64 = 0;
    bool yes = false;
    plait_gguf_string text;
    assert_int_equal(plait_gguf_get_f32(g, "f32", &f32), PLAIT_OK);
    assert_int_equal(plait_gguf_get_f64(g, "f64", &f64), PLAIT_OK);
    assert_true(f32 == 0.1f && f64 == 0.1);
    assert_int_equal(plait_gguf_get_f32(g, "f64", &f32), PLAIT_OK);
    assert_true(f32 == (float)0.1);
    assert_int_equal(plait_gguf_get_bool(g, "yes", &yes), PLAIT_OK);
    assert_true(yes);
    assert_int_equal(plait_gguf_get_string(g, "text", &text), PLAIT_OK);
    assert_int_equal(text.length, 3);
    assert_memory_equal(text.bytes, "a\0\xff", 3);
    assert_int_equal(plait_gguf_get_string(g, "none", &text), PLAIT_OK);
    assert_true(plait_gguf_string_is(text, ""));
    assert_false(plait_gguf_string_is(text, "x"));
    plait_gguf_release(g);
    image_end(&m);
}

#define WRONG(call, status, text)                                                                            \
    do {                                                                                                     \
        assert_int_equal(call, status);                                                                      \
        assert_string_equal(plait_error_message(), text);                                                    \
    } while (0)

static void wrong_types(void **state) {
    (void)state;
    image m = {0};
    scalars(&m);
    plait_gguf *g = opened(&m);
    uint32_t u32 = 7;
    int64_t i64 = 7;
    float f32 = 7;
    bool b = true;
    plait_gguf_string text = {0};
    const plait_gguf_value *v = NULL;
    WRONG(plait_gguf_get_u32(g, "nope", &u32), PLAIT_NOT_FOUND, "memory: metadata \"nope\" is missing");
    WRONG(plait_gguf_get_u32(g, "f32", &u32), PLAIT_CORRUPT,
          "memory: metadata \"f32\": expected an integer, found f32");
    WRONG(plait_gguf_get_u32(g, "yes", &u32), PLAIT_CORRUPT,
          "memory: metadata \"yes\": expected an integer, found bool");
    WRONG(plait_gguf_get_u32(g, "big", &u32), PLAIT_OUT_OF_RANGE,
          "memory: metadata \"big\": expected 0 to 4294967295, found 18446744073709551615");
    WRONG(plait_gguf_get_i64(g, "big", &i64), PLAIT_OUT_OF_RANGE,
          "memory: metadata \"big\": expected -9223372036854775808 to 9223372036854775807, found "
          "18446744073709551615");
    WRONG(plait_gguf_get_f32(g, "u32", &f32), PLAIT_CORRUPT,
          "memory: metadata \"u32\": expected a float, found u32");
    WRONG(plait_gguf_get_bool(g, "u8", &b), PLAIT_CORRUPT,
          "memory: metadata \"u8\": expected a bool, found u8");
    WRONG(plait_gguf_get_string(g, "u8", &text), PLAIT_CORRUPT,
          "memory: metadata \"u8\": expected a string, found u8");
    WRONG(plait_gguf_get_array(g, "u8", PLAIT_GGUF_STRING, &v), PLAIT_CORRUPT,
          "memory: metadata \"u8\": expected an array of string, found u8");
    assert_true(u32 == 7 && i64 == 7 && f32 == 7 && b && !text.bytes && !v);
    assert_int_equal(plait_gguf_get_u32_or(g, "nope", 5, &u32), PLAIT_OK);
    assert_int_equal(u32, 5);
    assert_int_equal(plait_gguf_get_u32_or(g, "u8", 5, &u32), PLAIT_OK);
    assert_int_equal(u32, 200);
    assert_int_equal(plait_gguf_get_u32_or(g, "text", 5, &u32), PLAIT_CORRUPT);
    assert_int_equal(plait_gguf_get_f32_or(g, "nope", 2.5f, &f32), PLAIT_OK);
    assert_true(f32 == 2.5f);
    assert_int_equal(plait_gguf_get_bool_or(g, "nope", false, &b), PLAIT_OK);
    assert_false(b);
    plait_gguf_release(g);
    image_end(&m);
}

static void arrays(void **state) {
    (void)state;
    image m = {0};
    image_begin(&m, 0, 6);
    image_key(&m, "i", PLAIT_GGUF_ARRAY), image_array(&m, PLAIT_GGUF_I32, 3);
    for (uint32_t i = 0; i < 3; i++) image_u32(&m, i + 1);
    image_key(&m, "s", PLAIT_GGUF_ARRAY), image_array(&m, PLAIT_GGUF_STRING, 3);
    image_string(&m, "x"), image_string(&m, ""), image_string_n(&m, "\0y", 2);
    image_key(&m, "b", PLAIT_GGUF_ARRAY), image_array(&m, PLAIT_GGUF_BOOL, 2);
    image_bytes(&m, "\1\0", 2);
    image_key(&m, "f", PLAIT_GGUF_ARRAY), image_array(&m, PLAIT_GGUF_F32, 1);
    image_bytes(&m, &(float){0.5f}, 4);
    image_key(&m, "e", PLAIT_GGUF_ARRAY), image_array(&m, PLAIT_GGUF_U64, 0);
    image_key(&m, "n", PLAIT_GGUF_ARRAY), image_array(&m, PLAIT_GGUF_ARRAY, 2);
    image_array(&m, PLAIT_GGUF_U64, 1), image_u64(&m, 9);
    image_array(&m, PLAIT_GGUF_STRING, 1), image_string(&m, "deep");
    plait_gguf *g = opened(&m);

    const plait_gguf_value *v = NULL;
    uint32_t u32[4] = {0};
    float f32[2] = {0};
    bool b[2] = {false, true};
    assert_int_equal(plait_gguf_get_array(g, "i", PLAIT_GGUF_I32, &v), PLAIT_OK);
    assert_true((uintptr_t)v->data % 4 == 0 && v->count == 3 && ((const int32_t *)v->data)[2] == 3);
    assert_int_equal(plait_gguf_get_array(g, "i", PLAIT_GGUF_U32, &v), PLAIT_CORRUPT);
    assert_string_equal(plait_error_message(),
                        "memory: metadata \"i\": expected an array of u32, found an array of 3 i32");
    assert_int_equal(plait_gguf_get_array(g, "e", PLAIT_GGUF_STRING, &v), PLAIT_OK);
    assert_int_equal(v->count, 0);
    assert_int_equal(plait_gguf_get_array(g, "s", PLAIT_GGUF_STRING, &v), PLAIT_OK);
    assert_int_equal(v->strings[2].length, 2);
    assert_int_equal(plait_gguf_get_array(g, "n", PLAIT_GGUF_ARRAY, &v), PLAIT_OK);
    assert_true((uintptr_t)v->arrays[0].data % 8 == 0);
    assert_int_equal(*(const uint64_t *)v->arrays[0].data, 9);
    assert_true(plait_gguf_string_is(v->arrays[1].strings[0], "deep"));

    assert_int_equal(plait_gguf_get_u32_each(g, "i", u32, 3), PLAIT_OK);
    assert_true(u32[0] == 1 && u32[1] == 2 && u32[2] == 3);
    assert_int_equal(plait_gguf_get_u32_each(g, "i", u32, 4), PLAIT_CORRUPT);
    assert_string_equal(plait_error_message(),
                        "memory: metadata \"i\": expected one value or at least 4, found 3");
    assert_int_equal(plait_gguf_get_u32_each(g, "s", u32, 1), PLAIT_CORRUPT);
    assert_int_equal(plait_gguf_get_f32_each(g, "f", f32, 1), PLAIT_OK);
    assert_true(f32[0] == 0.5f);
    assert_int_equal(plait_gguf_get_bool_each(g, "b", b, 2), PLAIT_OK);
    assert_true(b[0] && !b[1]);
    assert_int_equal(plait_gguf_get_u32(g, "i", u32), PLAIT_CORRUPT); /* an array is no scalar */
    assert_int_equal(plait_gguf_get_f32(g, "f", f32), PLAIT_CORRUPT);
    plait_gguf_release(g);
    image_end(&m);
}

static void each_of_a_scalar(void **state) {
    (void)state;
    image m = {0};
    scalars(&m);
    plait_gguf *g = opened(&m);
    uint32_t u32[3] = {0};
    float f32[2] = {0};
    bool b[2] = {0};
    assert_int_equal(plait_gguf_get_u32_each(g, "u8", u32, 3), PLAIT_OK);
    assert_true(u32[0] == 200 && u32[2] == 200);
    assert_int_equal(plait_gguf_get_u32_each(g, "i8", u32, 3), PLAIT_OUT_OF_RANGE);
    assert_int_equal(plait_gguf_get_f32_each(g, "f32", f32, 2), PLAIT_OK);
    assert_true(f32[1] == 0.1f);
    assert_int_equal(plait_gguf_get_bool_each(g, "yes", b, 2), PLAIT_OK);
    assert_true(b[1]);
    uint64_t u64 = 0;
    int64_t i64 = 0;
    double f64 = 0;
    assert_true(plait_gguf_elem_u64(plait_gguf_find(g, "big"), 0, &u64) && u64 == UINT64_MAX);
    assert_false(plait_gguf_elem_i64(plait_gguf_find(g, "big"), 0, &i64));
    assert_false(plait_gguf_elem_u64(plait_gguf_find(g, "u8"), 1, &u64));
    assert_true(plait_gguf_elem_f64(plait_gguf_find(g, "i64"), 0, &f64) && f64 == -3);
    assert_false(plait_gguf_elem_f64(plait_gguf_find(g, "text"), 0, &f64));
    plait_gguf_release(g);
    image_end(&m);
}

static void tensors_and_indices(void **state) {
    (void)state;
    image m = {0};
    image_small(&m);
    plait_gguf *g = opened(&m);
    assert_int_equal(plait_gguf_tensor_count(g), 2);
    assert_null(plait_gguf_tensor_at(g, 2));
    assert_int_equal(plait_gguf_entry_count(g), 3);
    assert_null(plait_gguf_entry_at(g, 3));
    assert_true(plait_gguf_string_is(plait_gguf_entry_at(g, 1)->key, "llama.block_count"));
    const plait_gguf_tensor *t = NULL;
    assert_int_equal(plait_gguf_get_tensor(g, "second.weight", &t), PLAIT_OK);
    assert_ptr_equal(t, plait_gguf_tensor_at(g, 1));
    assert_true(t->dtype == PLAIT_Q8_0 && t->rank == 1 && t->dims[0] == 64 && t->dims[1] == 1 &&
                t->size_bytes == 68);
    assert_int_equal(t->bytes[0], 32);
    assert_int_equal((uintptr_t)t->bytes % 16, 0);
    assert_int_equal(plait_gguf_get_tensor(g, "third", &t), PLAIT_NOT_FOUND);
    assert_string_equal(plait_error_message(), "memory: tensor \"third\" is missing");
    plait_gguf_forget_pages(g, t); /* harmless where nothing is mapped */
    plait_gguf *other = plait_gguf_retain(g);
    plait_gguf_release(g);
    assert_int_equal(plait_gguf_tensor_at(other, 0)->bytes[1], 1); /* alive until the last reference */
    plait_gguf_release(other);
    plait_gguf_release(NULL);
    image_end(&m);
}

/* A scalar of rank 0 has one element. */
static void rank_zero(void **state) {
    (void)state;
    image m = {0};
    image_begin(&m, 1, 0);
    image_tensor_n(&m, "scalar", 6, PLAIT_F32, 0, 0, NULL);
    image_align(&m, 32);
    image_u32(&m, 0x3f800000);
    plait_gguf *g = opened(&m);
    const plait_gguf_tensor *t = plait_gguf_tensor_at(g, 0);
    assert_true(t->rank == 0 && t->n_elems == 1 && t->size_bytes == 4 && t->dims[0] == 1);
    plait_gguf_release(g);
    image_end(&m);
}

typedef struct drip {
    const image *m;
    size_t at, most;
} drip;

static plait_status drip_read(void *user, void *out, size_t capacity, size_t *out_n) {
    drip *d = user;
    size_t n = d->m->length - d->at;
    if (n > d->most) n = d->most;
    if (n > capacity) n = capacity;
    memcpy(out, d->m->bytes + d->at, n);
    d->at += n;
    *out_n = n;
    return PLAIT_OK;
}

static plait_status failing_read(void *user, void *out, size_t capacity, size_t *out_n) {
    (void)user, (void)out, (void)capacity, (void)out_n;
    return PLAIT_CANCELLED;
}

/* A short read is never taken for the end. */
static void streams(void **state) {
    (void)state;
    image m = {0};
    image_small(&m);
    for (size_t most = 1; most < 400; most += 37) {
        plait_gguf *g = NULL;
        assert_int_equal(plait_gguf_open_stream(&g, drip_read, &(drip){&m, 0, most}, 0, NULL), PLAIT_OK);
        assert_int_equal(plait_gguf_part_at(g, 0)->size_bytes, m.length);
        assert_int_equal(plait_gguf_part_at(g, 0)->inode, 0);
        assert_memory_equal(plait_gguf_tensor_at(g, 1)->bytes, m.bytes + m.length - 68, 68);
        plait_gguf_release(g);
    }
    plait_gguf *g = NULL;
    assert_int_equal(plait_gguf_open_stream(&g, drip_read, &(drip){&m, 0, 10}, 100, NULL), PLAIT_LIMIT);
    assert_int_equal(plait_gguf_open_stream(&g, failing_read, NULL, 0, NULL), PLAIT_CANCELLED);
    image zip = {0};
    image_bytes(&zip, "PK\3\4", 4);
    image_zeros(&zip, 1000000);
    drip d = {&zip, 0, 512};
    assert_int_equal(plait_gguf_open_stream(&g, drip_read, &d, 0, NULL), PLAIT_CORRUPT);
    assert_true(d.at <= 512); /* not read on */
    assert_null(g);
    image_end(&zip);
    image_end(&m);
}

/* Paths that are no readable files, each one line that names the path. */
static void paths(void **state) {
    (void)state;
    plait_gguf *g = NULL;
    char path[1024];
    WRONG(plait_gguf_open(&g, "/no/such.gguf", NULL), PLAIT_NOT_FOUND,
          "/no/such.gguf: cannot open: No such file or directory");
    WRONG(plait_gguf_open(&g, "/", NULL), PLAIT_IO, "/: is a directory, expected a file");
    WRONG(plait_gguf_open(&g, "/dev/null", NULL), PLAIT_CORRUPT,
          "/dev/null: file is empty, expected a GGUF file");
    image m = {0};
    image_small(&m);
    snprintf(path, sizeof path, "%s/test_read_pipe", PLAIT_BINARY_DIR);
    unlink(path);
    assert_int_equal(mkfifo(path, 0600), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        image_save(&m, path);
        _exit(0);
    }
    assert_int_equal(plait_gguf_open(&g, path, NULL), PLAIT_OK); /* a pipe is read into memory */
    assert_false(plait_gguf_part_at(g, 0)->mapped);
    assert_int_equal(plait_gguf_part_at(g, 0)->inode, 0); /* nothing else is the same file */
    assert_int_equal(plait_gguf_tensor_count(g), 2);
    plait_gguf_release(g);
    unlink(path);
    image_end(&m);
}

/* An unreadable file; as root every file is readable, so only others see the refusal. */
static void unreadable(void **state) {
    (void)state;
    char path[1024];
    image m = {0};
    plait_gguf *g = NULL;
    image_small(&m);
    snprintf(path, sizeof path, "%s/test_read_secret.gguf", PLAIT_BINARY_DIR);
    image_save(&m, path);
    assert_int_equal(chmod(path, 0), 0);
    plait_status status = plait_gguf_open(&g, path, NULL);
    assert_int_equal(status, geteuid() == 0 ? PLAIT_OK : PLAIT_IO);
    if (status != PLAIT_OK) assert_non_null(strstr(plait_error_message(), strerror(EACCES)));
    plait_gguf_release(g);
    unlink(path);
    image_end(&m);
}

static void defaults(void **state) {
    (void)state;
    image m = {0};
    scalars(&m);
    plait_gguf *g = opened(&m);
    int32_t i32 = 0;
    uint64_t u64 = 0;
    int64_t i64 = 0;
    double f64 = 0;
    assert_int_equal(plait_gguf_get_i32_or(g, "nope", -5, &i32), PLAIT_OK);
    assert_int_equal(plait_gguf_get_u64_or(g, "nope", UINT64_MAX, &u64), PLAIT_OK);
    assert_int_equal(plait_gguf_get_i64_or(g, "nope", INT64_MIN, &i64), PLAIT_OK);
    assert_int_equal(plait_gguf_get_f64_or(g, "nope", 0.1, &f64), PLAIT_OK);
    assert_true(i32 == -5 && u64 == UINT64_MAX && i64 == INT64_MIN && f64 == 0.1);
    assert_int_equal(plait_gguf_get_i32_or(g, "i8", 5, &i32), PLAIT_OK);
    assert_int_equal(plait_gguf_get_i64_or(g, "i64", 5, &i64), PLAIT_OK);
    assert_true(i32 == -3 && i64 == -3);
    assert_int_equal(plait_gguf_get_u64_or(g, "i64", 5, &u64), PLAIT_OUT_OF_RANGE);
    assert_int_equal(plait_gguf_get_f64_or(g, "i64", 5, &f64), PLAIT_CORRUPT);
    assert_true(u64 == UINT64_MAX && f64 == 0.1);
    plait_gguf_release(g);
    image_end(&m);
}

static void type_names(void **state) {
    (void)state;
    assert_string_equal(plait_gguf_type_name(PLAIT_GGUF_F64), "f64");
    assert_string_equal(plait_gguf_type_name((plait_gguf_type)13), "unknown");
    assert_int_equal(plait_gguf_type_bytes(PLAIT_GGUF_I16), 2);
    assert_int_equal(plait_gguf_type_bytes(PLAIT_GGUF_STRING), 0);
    assert_int_equal(plait_gguf_type_bytes((plait_gguf_type)99), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(getters),    cmocka_unit_test(wrong_types),
        cmocka_unit_test(arrays),     cmocka_unit_test(each_of_a_scalar),
        cmocka_unit_test(streams),    cmocka_unit_test(tensors_and_indices),
        cmocka_unit_test(rank_zero),  cmocka_unit_test(paths),
        cmocka_unit_test(unreadable), cmocka_unit_test(type_names),
        cmocka_unit_test(defaults),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
