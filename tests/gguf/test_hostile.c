/* Files made to do harm. Each must be refused with one line that names what is wrong and the numbers; nothing may be
 * read outside the file (run under AddressSanitizer), and a small file may not take long or much memory. */
#include "gguf/image.h"

#include "base/os.h"
#include "base/size.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

/* Opens the image from a block of exactly its size, so that a sanitizer sees the first byte behind it, and checks
 * status and message. Frees the image. */
static void refused(image *m, plait_status expected, const char *fragment, const char *fragment2) {
    plait_gguf *gguf = NULL;
    unsigned char *exact = malloc(m->length ? m->length : 1);
    if (m->length) memcpy(exact, m->bytes, m->length);
    plait_status status = plait_gguf_open_memory(&gguf, exact, m->length, NULL);
    if (status != expected)
        fail_msg("expected %s (%s), found %s: %s", plait_status_name(expected), fragment,
                 plait_status_name(status), status ? plait_error_message() : "");
    assert_null(gguf);
    const char *message = plait_error_message();
    if (!strstr(message, fragment) || (fragment2 && !strstr(message, fragment2)))
        fail_msg("message lacks \"%s\" or \"%s\": %s", fragment, fragment2 ? fragment2 : "", message);
    if (strchr(message, '\n')) fail_msg("more than one line: %s", message);
    free(exact);
    image_end(m);
}

static void no_gguf_file(void **state) {
    (void)state;
    image m = {0};
    refused(&m, PLAIT_CORRUPT, "file is empty", NULL);
    image_bytes(&m, "GG", 2);
    refused(&m, PLAIT_CORRUPT, "file is cut: 2 bytes", NULL);
    image_bytes(&m, "PK\3\4 a zip file", 15);
    refused(&m, PLAIT_CORRUPT, "not a GGUF file: begins with \"PK\\x03\\x04\"", NULL);
    image_bytes(&m, "G", 1);
    image_bytes(&m, "\n\n\n\n\n\n\n", 7);
    refused(&m, PLAIT_CORRUPT, "\"G\\x0a\\x0a\\x0a\"", NULL);
}

static void versions(void **state) {
    (void)state;
    image m = {0};
    for (uint32_t version = 2; version <= 3; version++) {
        plait_gguf *gguf = NULL;
        image_begin_version(&m, version, 0, 0);
        assert_int_equal(plait_gguf_open_memory(&gguf, m.bytes, m.length, NULL), PLAIT_OK);
        assert_int_equal(plait_gguf_version(gguf), version);
        plait_gguf_release(gguf);
        image_end(&m);
    }
    image_begin_version(&m, 1, 0, 0);
    refused(&m, PLAIT_UNSUPPORTED, "version 1 is too old", "2 to 3");
    image_begin_version(&m, 0, 0, 0);
    refused(&m, PLAIT_UNSUPPORTED, "version 0 is too old", "2 to 3");
    image_begin_version(&m, 4, 0, 0);
    refused(&m, PLAIT_UNSUPPORTED, "version 4 is too new", "2 to 3");
    image_begin_version(&m, 0x03000000, 0, 0);
    refused(&m, PLAIT_UNSUPPORTED, "version 3 in big-endian", "little-endian");
    image_begin_version(&m, 0xffffffff, 0, 0);
    refused(&m, PLAIT_UNSUPPORTED, "version 4294967295 is too new", NULL);
}

/* Counts just below and far above what an allocation could bear. */
static void counts(void **state) {
    (void)state;
    image m = {0};
    static const uint64_t huge[] = {1u << 21, UINT32_MAX, UINT64_MAX / 80, (uint64_t)1 << 63, UINT64_MAX};
    for (size_t i = 0; i < PLAIT_COUNT_OF(huge); i++) {
        image_begin(&m, huge[i], 0);
        refused(&m, PLAIT_LIMIT, "tensors stated, at most 1048576", NULL);
        image_begin(&m, 0, huge[i]);
        refused(&m, PLAIT_LIMIT, "metadata entries stated, at most 1048576", NULL);
    }
    image_begin(&m, 1000, 0);
    refused(&m, PLAIT_CORRUPT, "1000 tensors stated, but only 0 bytes are left", NULL);
    image_begin(&m, 0, 5);
    image_zeros(&m, 30);
    refused(&m, PLAIT_CORRUPT, "5 metadata entries stated, but only 30 bytes are left", NULL);
}

/* Arrays and strings longer than the file, wrapping byte counts included. */
static void lengths(void **state) {
    (void)state;
    image m = {0};
    static const uint64_t huge[] = {
        100, UINT32_MAX, UINT64_MAX / 8 + 2, (uint64_t)1 << 61, (uint64_t)1 << 63, UINT64_MAX};
    static const uint32_t types[] = {PLAIT_GGUF_U8,  PLAIT_GGUF_U32,    PLAIT_GGUF_F64,
                                     PLAIT_GGUF_I16, PLAIT_GGUF_STRING, PLAIT_GGUF_ARRAY};
    for (size_t i = 0; i < PLAIT_COUNT_OF(huge); i++) {
        for (size_t k = 0; k < PLAIT_COUNT_OF(types); k++) {
            image_begin(&m, 0, 1);
            image_key(&m, "long", PLAIT_GGUF_ARRAY);
            image_array(&m, types[k], huge[i]);
            image_zeros(&m, 6);
            refused(&m, PLAIT_CORRUPT, "metadata \"long\"", "only 6 bytes are left");
        }
        image_begin(&m, 0, 1);
        image_key(&m, "text", PLAIT_GGUF_STRING);
        image_u64(&m, huge[i]);
        refused(&m, PLAIT_CORRUPT, "metadata \"text\": file is cut", "the file ends at 48");
        image_begin(&m, 0, 1);
        image_u64(&m, huge[i]);
        image_zeros(&m, 20);
        refused(&m, PLAIT_CORRUPT, "a metadata key", "file is cut");
        image_begin(&m, 1, 0);
        image_u64(&m, huge[i]);
        image_zeros(&m, 20);
        refused(&m, PLAIT_CORRUPT, "a tensor name", "file is cut");
    }
}

static void nested(image *m, int depth, uint64_t count) {
    image_begin(m, 0, 1);
    image_key(m, "deep", PLAIT_GGUF_ARRAY);
    for (int i = 1; i < depth; i++) image_array(m, PLAIT_GGUF_ARRAY, count);
    image_array(m, PLAIT_GGUF_U8, 1);
    image_u8(m, 7);
}

static void recursion(void **state) {
    (void)state;
    image m = {0};
    plait_gguf *gguf = NULL;
    nested(&m, PLAIT_GGUF_MAX_DEPTH, 1);
    assert_int_equal(plait_gguf_open_memory(&gguf, m.bytes, m.length, NULL), PLAIT_OK);
    const plait_gguf_value *v = plait_gguf_find(gguf, "deep");
    assert_int_equal(*(const uint8_t *)v->arrays[0].arrays[0].arrays[0].data, 7);
    plait_gguf_release(gguf);
    image_end(&m);
    nested(&m, PLAIT_GGUF_MAX_DEPTH + 1, 1);
    refused(&m, PLAIT_CORRUPT, "metadata \"deep\"", "more than 4 deep");
    nested(&m, 100000, 1);
    refused(&m, PLAIT_CORRUPT, "more than 4 deep", NULL);
    nested(&m, 3, (uint64_t)1 << 62);
    refused(&m, PLAIT_CORRUPT, "metadata \"deep\"", "bytes are left");
}

static void values(void **state) {
    (void)state;
    image m = {0};
    image_begin(&m, 0, 1);
    image_key(&m, "b", PLAIT_GGUF_BOOL);
    image_u8(&m, 2);
    refused(&m, PLAIT_CORRUPT, "metadata \"b\": bool at byte 37 is 2", NULL);
    image_begin(&m, 0, 1);
    image_key(&m, "b", PLAIT_GGUF_ARRAY);
    image_array(&m, PLAIT_GGUF_BOOL, 3);
    image_bytes(&m, "\0\1\xff", 3);
    refused(&m, PLAIT_CORRUPT, "metadata \"b\": bool at byte 51 is 255", NULL);
    image_begin(&m, 0, 1);
    image_key(&m, "what", 13);
    image_zeros(&m, 8);
    refused(&m, PLAIT_CORRUPT, "metadata \"what\": value type 13", "expected 0 to 12");
    image_begin(&m, 0, 1);
    image_key(&m, "what", PLAIT_GGUF_ARRAY);
    image_array(&m, 0xffffffff, 0);
    refused(&m, PLAIT_CORRUPT, "element type 4294967295", NULL);
}

static void keys(void **state) {
    (void)state;
    image m = {0};
    image_begin(&m, 0, 2);
    image_entry_u32(&m, "twice", 1);
    image_entry_u32(&m, "twice", 2);
    refused(&m, PLAIT_CORRUPT, "entry 2 of 2", "\"twice\" appears twice");
    image_begin(&m, 0, 1);
    image_entry_u32(&m, "", 1);
    refused(&m, PLAIT_CORRUPT, "metadata key is empty", NULL);
    image_begin(&m, 0, 1);
    image_string_n(&m, "a\0b", 3);
    image_u32(&m, PLAIT_GGUF_U8);
    image_u8(&m, 0);
    refused(&m, PLAIT_CORRUPT, "\"a\\x00b\" has byte 0x00 at 1", NULL);
    image_begin(&m, 0, 1);
    image_entry_u32(&m, "esc\x1b[31m", 1);
    refused(&m, PLAIT_CORRUPT, "\"esc\\x1b[31m\"", NULL);
    image_begin(&m, 0, 1);
    image_entry_u32(&m, "bad\xff", 1);
    refused(&m, PLAIT_CORRUPT, "\"bad\\xff\"", NULL);
    char *big = malloc(70000);
    memset(big, 'k', 70000);
    image_begin(&m, 0, 1);
    image_string_n(&m, big, 65536);
    image_zeros(&m, 8);
    refused(&m, PLAIT_CORRUPT, "has 65536 bytes, at most 65535", NULL);
    free(big);
}

static void alignments(void **state) {
    (void)state;
    image m = {0};
    plait_gguf *gguf = NULL;
    static const uint32_t bad[] = {0, 1, 4, 24, 48, 1u << 21, 1u << 30, 0x80000000, 0xffffffff};
    for (size_t i = 0; i < PLAIT_COUNT_OF(bad); i++) {
        image_begin(&m, 0, 1);
        image_entry_u32(&m, "general.alignment", bad[i]);
        refused(&m, PLAIT_CORRUPT, "general.alignment: expected a power of two from 8 to 1048576", NULL);
    }
    image_begin(&m, 0, 1);
    image_key(&m, "general.alignment", PLAIT_GGUF_I32);
    image_u32(&m, 32);
    refused(&m, PLAIT_CORRUPT, "general.alignment: expected type u32, found i32", NULL);
    for (uint32_t good = 8; good <= 1u << 20; good *= 2) {
        image_begin(&m, 1, 1);
        image_entry_u32(&m, "general.alignment", good);
        image_tensor(&m, "t", PLAIT_F32, 0, 2);
        image_align(&m, good);
        image_zeros(&m, 8);
        assert_int_equal(plait_gguf_open_memory(&gguf, m.bytes, m.length, NULL), PLAIT_OK);
        assert_int_equal(plait_gguf_alignment(gguf), good);
        assert_int_equal(plait_gguf_tensor_at(gguf, 0)->offset_bytes,
                         (90 + good - 1) / good * good); /* the header has 90 */
        plait_gguf_release(gguf);
        image_end(&m);
    }
}

/* A file with one tensor of these dims, with 64 bytes of data. */
static void one_tensor(image *m, uint32_t type, uint64_t offset, uint32_t rank, const uint64_t *dims) {
    image_begin(m, 1, 0);
    image_tensor_n(m, "the.weight", 10, type, offset, rank, dims);
    image_align(m, 32);
    image_zeros(m, 64);
}

#define DIMS(...)                                                                                            \
    (const uint64_t[]) {                                                                                     \
        __VA_ARGS__                                                                                          \
    }

static void dims(void **state) {
    (void)state;
    image m = {0};
    one_tensor(&m, PLAIT_F32, 0, 1, DIMS(0));
    refused(&m, PLAIT_CORRUPT, "tensor \"the.weight\": dim 0 is 0", NULL);
    one_tensor(&m, PLAIT_F32, 0, 2, DIMS(4, UINT64_MAX));
    refused(&m, PLAIT_CORRUPT, "tensor \"the.weight\": dim 1 is -1", NULL);
    one_tensor(&m, PLAIT_F32, 0, 2, DIMS(4, (uint64_t)1 << 63));
    refused(&m, PLAIT_CORRUPT, "dim 1 is -9223372036854775808", NULL);
    one_tensor(&m, PLAIT_F32, 0, 5, DIMS(1, 1, 1, 1, 1));
    refused(&m, PLAIT_CORRUPT, "\"the.weight\": 5 dims, at most 4", NULL);
    one_tensor(&m, PLAIT_F32, 0, 0xffffffff & 6, DIMS(1, 1, 1, 1, 1, 1));
    refused(&m, PLAIT_CORRUPT, "6 dims", NULL);
    /* products that wrap to something small */
    one_tensor(&m, PLAIT_F32, 0, 2, DIMS((uint64_t)1 << 22, 4398046511105));
    refused(&m, PLAIT_CORRUPT, "[4194304, 4398046511105, 1, 1] multiply to more than 2^63", NULL);
    one_tensor(&m, PLAIT_I8, 0, 3, DIMS((uint64_t)1 << 32, (uint64_t)1 << 31, 2));
    refused(&m, PLAIT_CORRUPT, "multiply to more than 2^63", NULL);
    one_tensor(&m, PLAIT_F32, 0, 1, DIMS(((uint64_t)1 << 62) + 4));
    refused(&m, PLAIT_CORRUPT, "type F32 are more than 2^63 bytes", NULL);
    one_tensor(&m, PLAIT_F64, 0, 2, DIMS((uint64_t)1 << 31, (uint64_t)1 << 31));
    refused(&m, PLAIT_CORRUPT, "type F64 are more than 2^63 bytes", NULL);
    /* rows that are no whole blocks, although the whole tensor would be */
    one_tensor(&m, PLAIT_Q4_0, 0, 2, DIMS(16, 2));
    refused(&m, PLAIT_CORRUPT, "rows of 16 elements", "Q4_0 (32 elements)");
    one_tensor(&m, PLAIT_Q4_K, 0, 1, DIMS(128));
    refused(&m, PLAIT_CORRUPT, "rows of 128 elements", "Q4_K (256 elements)");
    /* large, but honest: the file is too short */
    one_tensor(&m, PLAIT_F32, 0, 2, DIMS(1 << 20, 1 << 20));
    refused(&m, PLAIT_CORRUPT, "tensor \"the.weight\" needs bytes 96 to 4398046511200", "ends at 160");
}

static void unknown_types(void **state) {
    (void)state;
    image m = {0};
    static const uint32_t numbers[] = {4, 5, 9, 31, 38, 43, 1000, 0x80000000, 0xffffffff};
    for (size_t i = 0; i < PLAIT_COUNT_OF(numbers); i++) {
        char fragment[64];
        plait_gguf *gguf = NULL;
        snprintf(fragment, sizeof fragment, "element type number %u is unknown", numbers[i]);
        one_tensor(&m, numbers[i], 0, 1, DIMS(32));
        assert_int_equal(
            plait_gguf_open_memory(&gguf, m.bytes, m.length, &(plait_gguf_options){.metadata_only = true}),
            PLAIT_OK);
        const plait_gguf_tensor *t = plait_gguf_find_tensor(gguf, "the.weight");
        assert_false(t->type_known);
        assert_int_equal(t->type_number, numbers[i]);
        assert_int_equal(t->n_elems, 32);
        assert_null(t->bytes);
        assert_int_equal(plait_gguf_check_tensors(gguf), PLAIT_UNSUPPORTED);
        assert_non_null(strstr(plait_error_message(), fragment));
        plait_gguf_release(gguf);
        refused(&m, PLAIT_UNSUPPORTED, "tensor \"the.weight\"", fragment);
    }
}

static void offsets(void **state) {
    (void)state;
    image m = {0};
    one_tensor(&m, PLAIT_F32, 8, 1, DIMS(4));
    refused(&m, PLAIT_CORRUPT, "tensor \"the.weight\": offset 8 is no multiple of the alignment 32", NULL);
    one_tensor(&m, PLAIT_F32, UINT64_MAX - 31, 1, DIMS(4));
    refused(&m, PLAIT_CORRUPT, "tensor \"the.weight\": offset 18446744073709551584", NULL);
    one_tensor(&m, PLAIT_F32, UINT64_MAX - 127, 1,
               DIMS(32)); /* data start + offset + size wraps to inside the file */
    refused(&m, PLAIT_CORRUPT, "tensor \"the.weight\"", "2^64");
    one_tensor(&m, PLAIT_F32, (uint64_t)1 << 63, 1, DIMS(4));
    refused(&m, PLAIT_CORRUPT, "tensor \"the.weight\" needs bytes", "file ends at");
    one_tensor(&m, PLAIT_F32, 64, 1, DIMS(4));
    refused(&m, PLAIT_CORRUPT, "it is cut, 16 bytes are missing", NULL);
    one_tensor(&m, PLAIT_F32, 32, 1, DIMS(9));
    refused(&m, PLAIT_CORRUPT, "it is cut, 4 bytes are missing", NULL);
    /* one bad tensor of two: never one tensor and no error */
    image_begin(&m, 2, 0);
    image_tensor(&m, "good", PLAIT_F32, 0, 4);
    image_tensor(&m, "bad", PLAIT_F32, 4096, 4);
    image_align(&m, 32);
    image_zeros(&m, 64);
    refused(&m, PLAIT_CORRUPT, "tensor \"bad\" needs bytes", NULL);
}

static void two_tensors(image *m, const char *a, uint64_t offset_a, const char *b, uint64_t offset_b) {
    image_begin(m, 2, 0);
    image_tensor(m, a, PLAIT_F32, offset_a, 16);
    image_tensor(m, b, PLAIT_F32, offset_b, 8);
    image_align(m, 32);
    image_zeros(m, 128);
}

static void overlaps_and_names(void **state) {
    (void)state;
    image m = {0};
    plait_gguf *gguf = NULL;
    two_tensors(&m, "a", 0, "b", 32);
    refused(&m, PLAIT_CORRUPT, "tensors \"a\"", "\"b\" (from byte 128) overlap");
    two_tensors(&m, "a", 0, "b", 0);
    refused(&m, PLAIT_CORRUPT, "overlap", NULL);
    two_tensors(&m, "a", 32, "b", 32);
    refused(&m, PLAIT_CORRUPT, "overlap", NULL);
    two_tensors(&m, "a", 32, "b", 0); /* out of order, with a gap behind: fine */
    assert_int_equal(plait_gguf_open_memory(&gguf, m.bytes, m.length, NULL), PLAIT_OK);
    plait_gguf_release(gguf);
    image_end(&m);
    two_tensors(&m, "same", 0, "same", 64);
    refused(&m, PLAIT_CORRUPT, "tensor 2 of 2: tensor \"same\" appears twice", NULL);
    two_tensors(&m, "a", 0, "", 64);
    refused(&m, PLAIT_CORRUPT, "tensor name is empty", NULL);
    two_tensors(&m, "a", 0, "line\nend", 64);
    refused(&m, PLAIT_CORRUPT, "\"line\\x0aend\"", NULL);
    char name[200];
    memset(name, 'n', sizeof name);
    name[PLAIT_MAX_NAME] = '\0';
    two_tensors(&m, "a", 0, name, 64);
    refused(&m, PLAIT_CORRUPT, "has 128 bytes, at most 127", NULL);
    name[PLAIT_MAX_NAME - 1] = '\0';
    two_tensors(&m, "a", 0, name, 64);
    assert_int_equal(plait_gguf_open_memory(&gguf, m.bytes, m.length, NULL), PLAIT_OK);
    assert_non_null(plait_gguf_find_tensor(gguf, name));
    plait_gguf_release(gguf);
    image_end(&m);
}

/* Every proper beginning of a small file is refused as a full file; with its last padding cut it is whole. */
static void every_cut(void **state) {
    (void)state;
    image m = {0}, part = {0};
    image_small(&m);
    for (size_t n = 0; n < m.length; n++) {
        plait_gguf *gguf = NULL;
        image_bytes(&part, m.bytes, n);
        plait_status status =
            plait_gguf_open_memory(&gguf, m.bytes, n, &(plait_gguf_options){.metadata_only = true});
        plait_gguf_release(gguf);
        if (status == PLAIT_OK)
            refused(&part, PLAIT_CORRUPT, "tensor \"", "bytes are missing"); /* the header is whole */
        else
            refused(&part, PLAIT_CORRUPT, n == 0 ? "file is empty" : "file is cut", NULL);
    }
    plait_gguf *gguf = NULL;
    assert_int_equal(plait_gguf_open_memory(&gguf, m.bytes, m.length, NULL), PLAIT_OK);
    plait_gguf_release(gguf);
    print_message("%zu cuts\n", m.length);
    image_end(&m);
}

/* Every byte of a small file set to other values: no crash, and what still opens is whole. */
static void every_byte_changed(void **state) {
    (void)state;
    image m = {0};
    image_small(&m);
    unsigned n_open = 0, n_refused = 0;
    for (size_t i = 0; i < m.length; i++)
        for (int k = 0; k < 4; k++) {
            static const unsigned char flips[] = {0x01, 0x80, 0xff, 0x10};
            plait_gguf *gguf = NULL;
            m.bytes[i] ^= flips[k];
            if (plait_gguf_open_memory(&gguf, m.bytes, m.length, NULL) == PLAIT_OK) {
                assert_int_equal(plait_gguf_tensor_count(gguf) <= 2, 1);
                n_open++;
            } else {
                n_refused++;
            }
            plait_gguf_release(gguf);
            m.bytes[i] ^= flips[k];
        }
    print_message("%u changed files open, %u are refused\n", n_open, n_refused);
    assert_true(n_refused > 300);
    image_end(&m);
}

/* Two million strings, and arrays of two million numbers, in time that a check per element of the file system would
 * multiply; the bound is far above what a slow machine under a sanitizer needs. */
static void large_arrays_are_quick(void **state) {
    (void)state;
    enum { N = 2000000 };
    image m = {0};
    image_begin(&m, 0, 2);
    image_key(&m, "tokens", PLAIT_GGUF_ARRAY);
    image_array(&m, PLAIT_GGUF_STRING, N);
    for (int i = 0; i < N; i++) image_string(&m, "token");
    image_key(&m, "scores", PLAIT_GGUF_ARRAY);
    image_array(&m, PLAIT_GGUF_F32, N);
    image_zeros(&m, 4 * (size_t)N);
    plait_gguf *gguf = NULL;
    uint64_t start = plait_time_ns();
    assert_int_equal(plait_gguf_open_memory(&gguf, m.bytes, m.length, NULL), PLAIT_OK);
    double ms = (double)(plait_time_ns() - start) / 1e6;
    print_message("%d strings and %d floats opened in %.1f ms\n", N, N, ms);
    assert_true(ms < 2000);
    assert_true(plait_gguf_string_is(plait_gguf_find(gguf, "tokens")->strings[N - 1], "token"));
    plait_gguf_release(gguf);
    image_end(&m);
}

/* Header of another file behind the last tensor: parts joined with cat. */
static void joined_files(void **state) {
    (void)state;
    image m = {0};
    for (int padded = 0; padded < 2; padded++) {
        image_small(&m);
        if (padded) image_align(&m, 32);
        image_begin(&m, 0, 0);
        refused(&m, PLAIT_CORRUPT, "another GGUF file begins at byte", "joined");
    }
    image_small(&m);
    image_zeros(&m, 100); /* other trailing bytes do no harm */
    plait_gguf *gguf = NULL;
    assert_int_equal(plait_gguf_open_memory(&gguf, m.bytes, m.length, NULL), PLAIT_OK);
    plait_gguf_release(gguf);
    image_end(&m);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_gguf_file),
        cmocka_unit_test(versions),
        cmocka_unit_test(counts),
        cmocka_unit_test(lengths),
        cmocka_unit_test(recursion),
        cmocka_unit_test(values),
        cmocka_unit_test(keys),
        cmocka_unit_test(alignments),
        cmocka_unit_test(dims),
        cmocka_unit_test(unknown_types),
        cmocka_unit_test(offsets),
        cmocka_unit_test(overlaps_and_names),
        cmocka_unit_test(every_cut),
        cmocka_unit_test(joined_files),
        cmocka_unit_test(every_byte_changed),
        cmocka_unit_test(large_arrays_are_quick),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
