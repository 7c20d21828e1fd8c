/* Allocation, growable arrays, the arena, checked sizes. That memory may run out is tested in tests/fault. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/size.h"

#include <stdlib.h>
#include <string.h>

static bool all_zero(const void *bytes, size_t n) {
    const unsigned char *p = bytes;
    for (size_t i = 0; i < n; i++)
        if (p[i]) return false;
    return true;
}

static void test_alloc(void **state) {
    (void)state;
    unsigned char *p = plait_alloc_array(100, 7);
    assert_true(p && all_zero(p, 700));
    free(p);
    p = plait_alloc_array(0, 8);
    assert_non_null(p);
    free(p);
    volatile size_t half = SIZE_MAX / 2; /* hidden from the compiler, which would warn */
    assert_null(plait_alloc_array(half, 4));
    for (size_t alignment = 1; alignment <= 1 << 16; alignment *= 2) {
        p = plait_alloc_aligned(alignment, 1000);
        assert_true(p && (uintptr_t)p % alignment == 0 && all_zero(p, 1000));
        free(p);
    }
    p = plait_alloc_aligned(64, 0);
    assert_non_null(p);
    free(p);
    volatile size_t most = SIZE_MAX;
    assert_null(plait_alloc_aligned(64, most - 3));
}

static void test_strings(void **state) {
    (void)state;
    char *copy = plait_string_copy("text");
    assert_string_equal(copy, "text");
    free(copy);
    copy = plait_string_copy_n("a\0bc", 3);
    assert_memory_equal(copy, "a\0b", 4);
    free(copy);
    copy = plait_string_copy_n(NULL, 0);
    assert_string_equal(copy, "");
    free(copy);
    assert_null(plait_string_copy_n("x", SIZE_MAX));
}

static void test_grow(void **state) {
    (void)state;
    int *items = NULL;
    size_t capacity = 0;
    for (size_t n = 1; n <= 1000; n++) {
        size_t before = capacity;
        assert_int_equal(plait_grow(&items, &capacity, n, sizeof *items, 1000, "items"), PLAIT_OK);
        assert_true(capacity >= n && capacity <= 1000);
        assert_true(all_zero(items + before, (capacity - before) * sizeof *items));
        items[n - 1] = (int)n;
    }
    for (int i = 0; i < 1000; i++) assert_int_equal(items[i], i + 1);
    int *same = items;
    assert_int_equal(plait_grow(&items, &capacity, 1001, sizeof *items, 1000, "items"), PLAIT_LIMIT);
    assert_string_equal(plait_error_message(), "items: 1001 entries wanted, at most 1000 allowed");
    assert_true(items == same && capacity == 1000);
    assert_int_equal(plait_grow(&items, &capacity, SIZE_MAX / 2, 16, SIZE_MAX, "items"), PLAIT_OUT_OF_MEMORY);
    assert_true(items == same && capacity == 1000 && items[999] == 1000);
    free(items);
}

static void test_arena(void **state) {
    (void)state;
    plait_arena arena;
    plait_arena_init(&arena, 0);
    enum { N = 2000 };
    unsigned char *objects[N];
    for (int i = 0; i < N; i++) {
        size_t bytes = (size_t)(i * 37 % 900);
        objects[i] = plait_arena_alloc(&arena, 1, bytes);
        assert_true(objects[i] && (uintptr_t)objects[i] % _Alignof(max_align_t) == 0 &&
                    all_zero(objects[i], bytes));
        memset(objects[i], i & 255, bytes);
    }
    for (int i = 0; i < N; i++)
        for (int k = 0; k < i * 37 % 900; k++) assert_int_equal(objects[i][k], i & 255);
    char *big = plait_arena_alloc(&arena, 3, 5 << 20);
    assert_true(big && all_zero(big, 15 << 20));
    assert_string_equal(plait_arena_string(&arena, "name"), "name");
    assert_memory_equal(plait_arena_string_n(&arena, "na\0me", 4), "na\0m", 5);
    assert_string_equal(plait_arena_string_n(&arena, NULL, 0), "");
    assert_null(plait_arena_alloc(&arena, SIZE_MAX / 2, 3));
    assert_null(plait_arena_alloc(&arena, 1, SIZE_MAX));
    assert_true(arena.used_bytes >= 15 << 20);
    plait_arena_deinit(&arena);
    assert_true(arena.chunks == NULL && arena.used_bytes == 0);
    assert_non_null(plait_arena_alloc(&arena, 1, 1)); /* usable again */
    plait_arena_deinit(&arena);
    plait_arena_deinit(&arena);
    plait_arena zeroed = {0};
    plait_arena_deinit(&zeroed);
}

static void test_arena_limit(void **state) {
    (void)state;
    plait_arena arena;
    plait_arena_init(&arena, 10000);
    int n = 0;
    while (plait_arena_alloc(&arena, 1, 100)) n++;
    assert_true(n >= 70 && n <= 100); /* padding counts */
    assert_null(plait_arena_alloc(&arena, 1, 100));
    assert_true(arena.used_bytes <= 10000);
    plait_arena_deinit(&arena);
    assert_null(plait_arena_alloc(&arena, 1, 10001)); /* the limit stays */
    plait_arena_deinit(&arena);
}

static void test_sizes(void **state) {
    (void)state;
    uint64_t u = 5;
    size_t z = 5;
    assert_false(plait_add_u64(UINT64_MAX, 1, &u));
    assert_false(plait_mul_u64(UINT64_MAX / 2 + 1, 2, &u));
    assert_false(plait_add_size(SIZE_MAX, 1, &z));
    assert_false(plait_mul_size(SIZE_MAX / 3 + 1, 3, &z));
    assert_false(plait_align_u64(UINT64_MAX, 16, &u));
    assert_true(u == 5 && z == 5); /* outputs untouched */
    assert_true(plait_add_u64(UINT64_MAX - 1, 1, &u) && u == UINT64_MAX);
    assert_true(plait_mul_size(SIZE_MAX / 3, 3, &z) && z == SIZE_MAX / 3 * 3);
    assert_true(plait_align_u64(0, 64, &u) && u == 0);
    assert_true(plait_align_u64(1, 64, &u) && u == 64);
    assert_true(plait_align_u64(128, 64, &u) && u == 128);
    assert_true(plait_is_power_of_two(1) && plait_is_power_of_two(1ull << 63));
    assert_false(plait_is_power_of_two(0) || plait_is_power_of_two(3));
    assert_int_equal(plait_min_i64(-3, 2), -3);
    assert_int_equal(plait_max_i64(-3, 2), 2);
}

static void test_parts(void **state) {
    (void)state;
    static const int64_t sizes[] = {0, 1, 2, 7, 64, 1000, INT64_MAX};
    for (size_t k = 0; k < PLAIT_COUNT_OF(sizes); k++)
        for (int64_t parts = 1; parts <= 9; parts++) {
            int64_t n = sizes[k];
            assert_int_equal(plait_part_start(n, 0, parts), 0);
            assert_int_equal(plait_part_start(n, parts, parts), n);
            for (int64_t i = 0; i < parts; i++) {
                int64_t size = plait_part_start(n, i + 1, parts) - plait_part_start(n, i, parts);
                assert_true(size == n / parts || size == n / parts + 1);
            }
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_alloc), cmocka_unit_test(test_strings),     cmocka_unit_test(test_grow),
        cmocka_unit_test(test_arena), cmocka_unit_test(test_arena_limit), cmocka_unit_test(test_sizes),
        cmocka_unit_test(test_parts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
