/* Opening real files: every model of the golden folder opens in every way, with the same result. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "plait/gguf.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *archs_dir(void) {
    return access(PLAIT_SHARED_DIR "/golden/archs", R_OK) == 0 ? PLAIT_SHARED_DIR "/golden/archs"
                                                               : PLAIT_GOLDEN_DIR "/archs";
}

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
    char path[1024];
    int n = 0;
    DIR *dir = opendir(archs_dir());
    assert_non_null(dir);
    for (struct dirent *e; (e = readdir(dir));) {
        size_t length = strlen(e->d_name);
        if (length < 5 || strcmp(e->d_name + length - 5, ".gguf") != 0) continue;
        snprintf(path, sizeof path, "%s/%s", archs_dir(), e->d_name);
        check_file(path);
        n++;
    }
    closedir(dir);
    print_message("%d golden files from %s\n", n, archs_dir());
    assert_true(n > 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_golden_file_opens)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
