/* How much memory an open takes at its peak, by files that try to take much: never above a small multiple of the file.
 * Wraps the allocator itself, for what fault.h counts is what lives on, not the peak. */
/* room: gguf */
#include "gguf/image.h"

#include <malloc.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

void *__real_malloc(size_t size);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *block, size_t size);
void *__real_aligned_alloc(size_t alignment, size_t size);
void __real_free(void *block);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *block, size_t size);
void *__wrap_aligned_alloc(size_t alignment, size_t size);
void __wrap_free(void *block);

static int64_t live_bytes, peak_bytes;

static void *counted(void *block) {
    if (block) live_bytes += (int64_t)malloc_usable_size(block);
    if (live_bytes > peak_bytes) peak_bytes = live_bytes;
    return block;
}

void *__wrap_malloc(size_t size) {
    return counted(__real_malloc(size));
}
void *__wrap_calloc(size_t n, size_t size) {
    return counted(__real_calloc(n, size));
}
void *__wrap_aligned_alloc(size_t alignment, size_t size) {
    return counted(__real_aligned_alloc(alignment, size));
}
void __wrap_free(void *block) {
    if (block) live_bytes -= (int64_t)malloc_usable_size(block);
    __real_free(block);
}
/* Old and new block are taken to exist together, as they may. */
void *__wrap_realloc(void *block, size_t size) {
    int64_t old = block ? (int64_t)malloc_usable_size(block) : 0;
    void *grown = counted(__real_realloc(block, size));
    if (grown) live_bytes -= old;
    return grown;
}

/* The multiple of the file's size, and what an open takes for the smallest file: object, first chunk, tables. */
enum { MULTIPLE = 12, BASE_BYTES = 16384 };

static void check_peak(const char *what, image *m, plait_status expected) {
    plait_gguf *gguf = NULL;
    int64_t before = live_bytes;
    peak_bytes = live_bytes;
    plait_status status = plait_gguf_open_memory(&gguf, m->bytes, m->length, NULL);
    if (status != expected)
        fail_msg("%s: %s: %s", what, plait_status_name(status), status ? plait_error_message() : "");
    int64_t peak = peak_bytes - before;
    plait_gguf_release(gguf);
    assert_int_equal(live_bytes, before);
    print_message("%-28s file %9zu bytes, peak %10lld, %.1f times\n", what, m->length, (long long)peak,
                  (double)peak / (double)m->length);
    assert_true(peak <= (int64_t)m->length * MULTIPLE + BASE_BYTES);
    image_end(m);
}

enum { MANY = 50000 };

static void honest_files(void **state) {
    (void)state;
    image m = {0};
    char name[16];
    image_begin(&m, 0, 1);
    image_key(&m, "s", PLAIT_GGUF_ARRAY), image_array(&m, PLAIT_GGUF_STRING, MANY);
    for (int i = 0; i < MANY; i++) image_string(&m, "");
    check_peak("empty strings", &m, PLAIT_OK);
    image_begin(&m, 0, 1);
    image_key(&m, "n", PLAIT_GGUF_ARRAY), image_array(&m, PLAIT_GGUF_ARRAY, MANY);
    for (int i = 0; i < MANY; i++) image_array(&m, PLAIT_GGUF_U8, 0);
    check_peak("empty arrays", &m, PLAIT_OK);
    image_begin(&m, 0, 1);
    image_key(&m, "n", PLAIT_GGUF_ARRAY), image_array(&m, PLAIT_GGUF_ARRAY, MANY);
    for (int i = 0; i < MANY; i++) image_array(&m, PLAIT_GGUF_U16, 1), image_bytes(&m, "ab", 2);
    check_peak("arrays of one number", &m, PLAIT_OK);
    image_begin(&m, 0, MANY);
    for (int i = 0; i < MANY; i++) {
        snprintf(name, sizeof name, "%x", i);
        image_key(&m, name, PLAIT_GGUF_U8), image_u8(&m, 0);
    }
    check_peak("many keys", &m, PLAIT_OK);
    image_begin(&m, MANY, 1);
    image_entry_u32(&m, "general.alignment", 8);
    for (int i = 0; i < MANY; i++) {
        snprintf(name, sizeof name, "%x", i);
        image_tensor_n(&m, name, strlen(name), PLAIT_I8, (uint64_t)(MANY - 1 - i) * 8, 0,
                       NULL); /* in reverse */
    }
    image_align(&m, 8);
    image_zeros(&m, (size_t)MANY * 8);
    check_peak("many tensors", &m, PLAIT_OK);
}

static void lying_files(void **state) {
    (void)state;
    image m = {0};
    image_begin(&m, 0, 1);
    image_key(&m, "s", PLAIT_GGUF_ARRAY), image_array(&m, PLAIT_GGUF_STRING, (uint64_t)1 << 63);
    check_peak("an array of 2^63", &m, PLAIT_CORRUPT);
    image_begin(&m, 0, 1);
    image_key(&m, "s", PLAIT_GGUF_ARRAY), image_array(&m, PLAIT_GGUF_STRING, 1 << 17);
    for (int i = 0; i < (1 << 17) - 1; i++) image_string(&m, "");
    image_u64(&m, 1);
    check_peak("the last string is cut", &m, PLAIT_CORRUPT);
    image_begin(&m, 1 << 20, 0);
    image_zeros(&m, 25 << 20);
    check_peak("2^20 tensors that are zeros", &m, PLAIT_CORRUPT);
    image_begin(&m, 0, 1 << 20);
    image_zeros(&m, 14 << 20);
    check_peak("2^20 entries that are zeros", &m, PLAIT_CORRUPT);
    image_begin(&m, 1, 1);
    image_entry_u32(&m, "general.alignment", 1u << 20);
    image_tensor(&m, "t", PLAIT_F32, 0, 1);
    check_peak("the largest alignment", &m, PLAIT_CORRUPT);
    image_begin(&m, 1, 0);
    image_tensor(&m, "t", PLAIT_F32, 0, (uint64_t)1 << 40);
    image_align(&m, 32);
    check_peak("a tensor of 4 TiB", &m, PLAIT_CORRUPT);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(honest_files), cmocka_unit_test(lying_files)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
