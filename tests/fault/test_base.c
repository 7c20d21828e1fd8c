/* Running out of memory in the helpers that everything else is built of: each allocation fails in turn. */
/* room: base */
#include "base/alloc.h"
#include "base/arena.h"
#include "base/map.h"
#include "base/os.h"
#include "base/size.h"
#include "base/strbuf.h"
#include "fault/fault.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static plait_status arena_life(void *user) {
    (void)user;
    plait_arena arena;
    plait_arena_init(&arena, 0);
    plait_status status = PLAIT_OK;
    for (int i = 0; i < 40 && status == PLAIT_OK; i++)
        if (!plait_arena_alloc(&arena, 1, (size_t)1 << (i % 20)) || !plait_arena_string(&arena, "a name"))
            status = plait_error_memory("arena", 1);
    plait_arena_deinit(&arena);
    return status;
}

static plait_status strbuf_life(void *user) {
    (void)user;
    plait_strbuf text;
    plait_strbuf_init(&text, 0);
    for (int i = 0; i < 300; i++) {
        plait_strbuf_printf(&text, "%d of %d ", i, 300);
        plait_strbuf_json_string(&text, "quoted \"twice\"\n");
    }
    plait_status status = plait_strbuf_status(&text);
    char *taken = plait_strbuf_take(&text);
    if (status == PLAIT_OK) assert_non_null(taken);
    if (status != PLAIT_OK) assert_null(taken);
    free(taken);
    plait_strbuf_deinit(&text);
    return status;
}

static plait_status map_life(void *user) {
    char(*keys)[8] = user;
    plait_map map;
    plait_map_init(&map);
    plait_status status = PLAIT_OK;
    uint32_t n = 0;
    while (n < 1000 && status == PLAIT_OK) {
        status = plait_map_put(&map, keys[n], strlen(keys[n]), n, NULL);
        if (status == PLAIT_OK) n++;
    }
    /* What was put before the failure is still there. */
    for (uint32_t i = 0, value; i < n; i++) {
        assert_true(plait_map_get(&map, keys[i], strlen(keys[i]), &value));
        assert_int_equal(value, i);
    }
    plait_map_deinit(&map);
    return status;
}

static plait_status grow_life(void *user) {
    (void)user;
    int *numbers = NULL;
    size_t capacity = 0;
    plait_status status = PLAIT_OK;
    for (size_t i = 0; i < 1000 && status == PLAIT_OK; i++) {
        status = plait_grow(&numbers, &capacity, i + 1, sizeof *numbers, 4096, "numbers");
        if (status == PLAIT_OK) numbers[i] = (int)i;
    }
    if (status == PLAIT_OK) assert_int_equal(numbers[999], 999);
    free(numbers);
    return status;
}

static plait_status file_life(void *user) {
    const char *path = user;
    plait_file_writer writer = {0};
    plait_status status = plait_file_writer_open(&writer, path);
    if (status == PLAIT_OK) status = plait_file_writer_write(&writer, "some bytes", 10);
    if (status == PLAIT_OK) status = plait_file_writer_commit(&writer);
    plait_file_writer_abandon(&writer);
    if (status != PLAIT_OK) return status;
    plait_file file = {0};
    status = plait_file_open(&file, path, false);
    if (status != PLAIT_OK) return status;
    assert_int_equal(file.size_bytes, 10);
    plait_file_close(&file);
    return PLAIT_OK;
}

static void test_arena(void **unused) {
    (void)unused;
    assert_true(fault_each(arena_life, NULL) > 1);
}

static void test_strbuf(void **unused) {
    (void)unused;
    assert_true(fault_each(strbuf_life, NULL) > 1);
}

static void test_map(void **unused) {
    (void)unused;
    char keys[1000][8];
    for (int i = 0; i < 1000; i++) snprintf(keys[i], sizeof keys[i], "k%d", i);
    assert_true(fault_each(map_life, keys) > 1);
}

static void test_grow(void **unused) {
    (void)unused;
    assert_true(fault_each(grow_life, NULL) > 1);
}

static void test_file(void **unused) {
    (void)unused;
    char path[] = PLAIT_BINARY_DIR "/fault-file";
    assert_true(fault_each(file_life, path) > 1);
    remove(path);
}

/* The tool itself: it sees a leak, a fault that went unnoticed, and a step without allocations. */
static void test_counting(void **unused) {
    (void)unused;
    size_t blocks = fault_live_blocks(), bytes = fault_live_bytes();
    uint64_t before = fault_allocations();
    /* volatile: a compiler may leave out allocations that nobody uses */
    char *volatile block = malloc(100);
    assert_non_null(block);
    assert_int_equal(fault_live_blocks(), blocks + 1);
    assert_int_equal(fault_live_bytes(), bytes + 100);
    block = realloc(block, 5000);
    assert_int_equal(fault_live_bytes(), bytes + 5000);
    assert_int_equal(fault_allocations(), before + 2);
    free(block);
    assert_int_equal(fault_live_blocks(), blocks);
    fault_arm(1);
    block = malloc(9000);
    assert_null(block);
    assert_true(fault_hit());
    assert_int_equal(fault_live_bytes(), bytes);
    fault_arm(2);
    assert_false(fault_hit());
    fault_arm(0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_arena), cmocka_unit_test(test_strbuf), cmocka_unit_test(test_map),
        cmocka_unit_test(test_grow),  cmocka_unit_test(test_file),   cmocka_unit_test(test_counting),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
