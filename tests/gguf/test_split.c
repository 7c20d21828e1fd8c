/* Files in parts: opened through any of them, and everything that can be wrong with a set of parts. */
#include "gguf/describe.h"
#include "gguf/image.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

enum { N_PARTS = 3 };

static const char *const tensor_names[N_PARTS] = {"a.weight", "b.weight", "c.weight"};

static char *part_path(int part, int count, char out[1024]) {
    snprintf(out, 1024, "%s/split/m-%05d-of-%05d.gguf", PLAIT_BINARY_DIR, part + 1, count);
    return out;
}

/* Part `part` of `count` as the file says, with one tensor of four floats, all equal to the part's number. */
static void make_part(image *m, uint16_t part, uint16_t count, uint32_t n_tensors, const char *tensor) {
    image_begin(m, 1, part == 0 ? 4 : 3);
    if (part == 0) image_entry_u32(m, "only.first", 77);
    image_key(m, "split.no", PLAIT_GGUF_U16), image_bytes(m, &part, 2);
    image_key(m, "split.count", PLAIT_GGUF_U16), image_bytes(m, &count, 2);
    image_key(m, "split.tensors.count", PLAIT_GGUF_I32), image_u32(m, n_tensors);
    image_tensor(m, tensor, PLAIT_F32, 0, 4);
    image_align(m, 32);
    for (int i = 0; i < 4; i++) image_bytes(m, &(float){(float)part}, 4);
}

static void save_part(int place, uint16_t part, uint16_t count, uint32_t n_tensors, const char *tensor) {
    char path[1024];
    image m = {0};
    make_part(&m, part, count, n_tensors, tensor);
    image_save(&m, part_path(place, N_PARTS, path));
    image_end(&m);
}

static int save_good(void **state) {
    (void)state;
    char path[1024];
    snprintf(path, sizeof path, "%s/split", PLAIT_BINARY_DIR);
    mkdir(path, 0777);
    for (int i = 0; i < N_PARTS; i++) save_part(i, (uint16_t)i, N_PARTS, N_PARTS, tensor_names[i]);
    return 0;
}

static void through_any_part(void **state) {
    (void)state;
    char path[1024];
    for (int through = 0; through < N_PARTS; through++)
        for (int read = 0; read < 2; read++) {
            plait_gguf *g = NULL;
            plait_gguf_options options = {.read_into_memory = read != 0};
            if (plait_gguf_open(&g, part_path(through, N_PARTS, path), &options) != PLAIT_OK)
                fail_msg("%s", plait_error_message());
            assert_int_equal(plait_gguf_part_count(g), N_PARTS);
            assert_null(plait_gguf_part_at(g, N_PARTS));
            assert_string_equal(plait_gguf_path(g), part_path(0, N_PARTS, path));
            assert_int_equal(plait_gguf_tensor_count(g), N_PARTS);
            uint32_t only = 0;
            assert_int_equal(plait_gguf_get_u32(g, "only.first", &only), PLAIT_OK);
            assert_int_equal(only, 77);
            for (int i = 0; i < N_PARTS; i++) {
                const plait_gguf_tensor *t = plait_gguf_find_tensor(g, tensor_names[i]);
                assert_int_equal(t->part, i);
                assert_true(((const float *)(const void *)t->bytes)[3] == (float)i);
                const plait_gguf_part *part = plait_gguf_part_at(g, (size_t)i);
                assert_true(part->first_tensor == (uint32_t)i && part->n_tensors == 1 && part->inode != 0);
                assert_string_equal(part->path, part_path(i, N_PARTS, path));
            }
            plait_gguf_release(g);
        }
}

/* Opens through `through`, which must fail so. */
static void refused(int through, plait_status expected, const char *a, const char *b) {
    char path[1024];
    plait_gguf *g = NULL;
    plait_status status = plait_gguf_open(&g, part_path(through, N_PARTS, path), NULL);
    if (status != expected || !strstr(plait_error_message(), a) || !strstr(plait_error_message(), b))
        fail_msg("expected %s with \"%s\" and \"%s\", found %s: %s", plait_status_name(expected), a, b,
                 plait_status_name(status), plait_error_message());
    assert_null(g);
}

static void missing_parts(void **state) {
    (void)state;
    char path[1024];
    unlink(part_path(1, N_PARTS, path));
    refused(0, PLAIT_NOT_FOUND, "part 2 of 3 is missing", path);
    refused(2, PLAIT_NOT_FOUND, "part 2 of 3 is missing", path);
    unlink(part_path(0, N_PARTS, path));
    refused(2, PLAIT_NOT_FOUND, "first part", "00001-of-00003.gguf: cannot open");
}

static void inconsistent_parts(void **state) {
    (void)state;
    save_part(1, 2, N_PARTS, N_PARTS, "b.weight"); /* part 3 under the name of part 2 */
    refused(0, PLAIT_CORRUPT, "00002-of-00003.gguf", "expected part 2 of 3, the file says it is part 3 of 3");
    refused(1, PLAIT_CORRUPT, "the name says part 2 of 3", "the file says it is part 3 of 3");
    save_part(1, 1, 4, N_PARTS, "b.weight");
    refused(0, PLAIT_CORRUPT, "expected part 2 of 3", "part 2 of 4");
    save_part(1, 5, N_PARTS, N_PARTS, "b.weight");
    refused(1, PLAIT_CORRUPT, "split.no is 5", "split.count is 3");
    save_part(1, 1, N_PARTS, N_PARTS, "a.weight"); /* a tensor that part 1 has */
    refused(0, PLAIT_CORRUPT, "00002-of-00003.gguf", "\"a.weight\" appears twice");
}

static void wrong_counts(void **state) {
    (void)state;
    save_part(0, 0, N_PARTS, 5, "a.weight");
    refused(0, PLAIT_CORRUPT, "split.tensors.count is 5", "the 3 parts hold 3 tensors");
    save_part(0, 0, N_PARTS, (uint32_t)-1, "a.weight");
    refused(0, PLAIT_CORRUPT, "split.tensors.count", "expected an integer of at least 0");
    save_part(0, 0, 2, 3, "a.weight");
    refused(0, PLAIT_CORRUPT, "the name says part 1 of 3", "part 1 of 2");
}

/* The place of the first part holds a file that is no part of anything. */
static void a_stranger_first(void **state) {
    (void)state;
    char path[1024];
    image m = {0};
    image_small(&m);
    image_save(&m, part_path(0, N_PARTS, path));
    image_end(&m);
    refused(1, PLAIT_CORRUPT, "00001-of-00003.gguf: expected part 1", "found a whole file");
    image_begin(&m, 0, 1);
    image_entry_u32(&m, "split.count", 70000);
    image_save(&m, part_path(0, N_PARTS, path));
    image_end(&m);
    refused(0, PLAIT_LIMIT, "split.count is 70000", "at most 65535");
}

static void described(void **state) {
    (void)state;
    char path[1024];
    plait_gguf *g = NULL;
    plait_gguf_description d;
    plait_strbuf text;
    assert_int_equal(plait_gguf_open(&g, part_path(1, N_PARTS, path), NULL), PLAIT_OK);
    assert_int_equal(plait_gguf_describe(&d, g, NULL), PLAIT_OK);
    assert_int_equal(d.n_parameters, 12);
    plait_strbuf_init(&text, 0);
    plait_gguf_description_text(&d, &text);
    assert_non_null(strstr(plait_strbuf_text(&text), " in 3 parts\n"));
    plait_strbuf_clear(&text);
    plait_gguf_description_json(&d, &text);
    assert_non_null(strstr(plait_strbuf_text(&text), "-00003-of-00003.gguf\",\"bytes\":"));
    plait_strbuf_clear(&text);
    plait_gguf_tensors_text(g, &text);
    assert_non_null(strstr(plait_strbuf_text(&text), "  part 3\n"));
    plait_strbuf_deinit(&text);
    plait_gguf_description_deinit(&d);
    plait_gguf_release(g);
}

static void damaged_parts(void **state) {
    (void)state;
    char path[1024];
    image m = {0};
    make_part(&m, 2, N_PARTS, N_PARTS, "c.weight");
    m.length -= 5;
    image_save(&m, part_path(2, N_PARTS, path));
    image_end(&m);
    refused(0, PLAIT_CORRUPT, "00003-of-00003.gguf: tensor \"c.weight\"", "5 bytes are missing");
    image_save(&m, part_path(2, N_PARTS, path));
    refused(1, PLAIT_CORRUPT, "00003-of-00003.gguf: file is empty", "GGUF");
}

static void names_of_parts(void **state) {
    (void)state;
    char from[1024], to[1024];
    plait_gguf *g = NULL;
    part_path(1, N_PARTS, from);
    snprintf(to, sizeof to, "%s/split/renamed.gguf", PLAIT_BINARY_DIR);
    unlink(to);
    assert_int_equal(link(from, to), 0);
    assert_int_equal(plait_gguf_open(&g, to, NULL), PLAIT_CORRUPT);
    assert_non_null(
        strstr(plait_error_message(), "is part 2 of 3, so its name must end in -00002-of-00003.gguf"));
    assert_int_equal(plait_gguf_open(&g, to, &(plait_gguf_options){.single_part = true}), PLAIT_OK);
    assert_int_equal(plait_gguf_tensor_count(g), 1);
    plait_gguf_release(g);
    unlink(to);
}

static void no_parts_in_memory(void **state) {
    (void)state;
    image m = {0};
    plait_gguf *g = NULL;
    make_part(&m, 1, N_PARTS, N_PARTS, "b.weight");
    assert_int_equal(plait_gguf_open_memory(&g, m.bytes, m.length, NULL), PLAIT_UNSUPPORTED);
    assert_string_equal(plait_error_message(), "memory: is part 2 of 3; split files are opened by path");
    image_end(&m);
    make_part(&m, 0, 1, 1, "a.weight"); /* one part of one is no split file */
    assert_int_equal(plait_gguf_open_memory(&g, m.bytes, m.length, NULL), PLAIT_OK);
    plait_gguf_release(g);
    image_end(&m);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(through_any_part, save_good),
        cmocka_unit_test_setup(missing_parts, save_good),
        cmocka_unit_test_setup(inconsistent_parts, save_good),
        cmocka_unit_test_setup(wrong_counts, save_good),
        cmocka_unit_test_setup(damaged_parts, save_good),
        cmocka_unit_test_setup(names_of_parts, save_good),
        cmocka_unit_test_setup(a_stranger_first, save_good),
        cmocka_unit_test_setup(described, save_good),
        cmocka_unit_test(no_parts_in_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
