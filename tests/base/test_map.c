/* The hash map against a plain array, and its promises about keys, room and equal hashes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/map.h"

#include <stdio.h>
#include <string.h>

enum { N = 20000 };

static void test_against_array(void **state) {
    (void)state;
    static char keys[N][12];
    static uint32_t values[N];
    plait_map map;
    plait_map_init(&map);
    uint32_t value = 77;
    assert_false(plait_map_get(&map, "none", 4, &value));
    for (int i = 0; i < N; i++) {
        bool existed = true;
        snprintf(keys[i], sizeof keys[i], "key%d", i);
        values[i] = (uint32_t)i * 2654435761u;
        assert_int_equal(plait_map_put(&map, keys[i], strlen(keys[i]), values[i], &existed), PLAIT_OK);
        assert_false(existed);
    }
    assert_int_equal(map.n_used, N);
    assert_true(map.n_used <= map.n_slots / 4 * 3);
    for (int i = 0; i < N; i += 3) {
        bool existed = false;
        values[i] ^= 1;
        assert_int_equal(plait_map_put(&map, keys[i], strlen(keys[i]), values[i], &existed), PLAIT_OK);
        assert_true(existed);
    }
    assert_int_equal(map.n_used, N);
    for (int i = 0; i < N; i++) {
        assert_true(plait_map_get(&map, keys[i], strlen(keys[i]), &value));
        assert_int_equal(value, values[i]);
    }
    value = 77;
    assert_false(plait_map_get(&map, "key20000", 8, &value));
    assert_false(plait_map_get(&map, "ke", 2, &value));
    assert_int_equal(value, 77);
    plait_map_deinit(&map);
    assert_false(plait_map_get(&map, keys[0], strlen(keys[0]), &value));
    plait_map_deinit(&map);
}

static void test_odd_keys(void **state) {
    (void)state;
    plait_map map;
    plait_map_init(&map);
    uint32_t value;
    bool existed;
    /* An empty key, said in two ways; keys that hold or end in NUL bytes. */
    assert_int_equal(plait_map_put(&map, NULL, 0, 1, &existed), PLAIT_OK);
    assert_false(existed);
    assert_int_equal(plait_map_put(&map, "", 0, 2, &existed), PLAIT_OK);
    assert_true(existed);
    assert_int_equal(plait_map_put(&map, "\0", 1, 3, NULL), PLAIT_OK);
    assert_int_equal(plait_map_put(&map, "\0\0", 2, 4, NULL), PLAIT_OK);
    assert_int_equal(map.n_used, 3);
    assert_true(plait_map_get(&map, NULL, 0, &value) && value == 2);
    assert_true(plait_map_get(&map, "\0\0\0", 1, &value) && value == 3);
    assert_true(plait_map_get(&map, "\0\0\0", 2, &value) && value == 4);
    assert_false(plait_map_get(&map, "\0\0\0", 3, &value));
    plait_map_deinit(&map);
}

static void test_reserve(void **state) {
    (void)state;
    static const char letters[] = "abcdefghijkl";
    plait_map map;
    plait_map_init(&map);
    assert_int_equal(plait_map_reserve(&map, 12), PLAIT_OK);
    const plait_map_slot *slots = map.slots;
    for (uint32_t i = 0; i < 12; i++)
        assert_int_equal(plait_map_put(&map, letters + i, 1, i, NULL), PLAIT_OK);
    for (uint32_t i = 0; i < 12; i++)
        assert_int_equal(plait_map_put(&map, letters + i, 1, i + 1, NULL), PLAIT_OK);
    assert_ptr_equal(map.slots, slots); /* the promised room was enough, also for replacing */
    assert_int_equal(plait_map_reserve(&map, SIZE_MAX), PLAIT_LIMIT);
    assert_ptr_equal(map.slots, slots);
    plait_map_deinit(&map);
}

static void test_hash(void **state) {
    (void)state;
    unsigned char bytes[64];
    for (int i = 0; i < 64; i++) bytes[i] = (unsigned char)(i * 7);
    /* Every length, every byte and the seed count; the same on every run and machine. */
    for (size_t n = 0; n < 64; n++) {
        uint64_t h = plait_hash_bytes(bytes, n, 1);
        assert_true(h == plait_hash_bytes(bytes, n, 1));
        assert_true(h != plait_hash_bytes(bytes, n, 2));
        assert_true(h != plait_hash_bytes(bytes, n + 1, 1));
        for (size_t i = 0; i < n; i++) {
            bytes[i] ^= 0x10;
            assert_true(h != plait_hash_bytes(bytes, n, 1));
            bytes[i] ^= 0x10;
        }
    }
    uint64_t chain = 1; /* at every address, too */
    for (size_t n = 0; n <= 64; n++) chain = plait_hash_bytes(bytes, n, chain);
    for (size_t at = 0; at < 8; at++)
        for (size_t n = 0; n + at <= 64; n++) chain = plait_hash_bytes(bytes + at, n, chain);
    assert_true(chain == 0x5a51202754f0d83eu);
    /* Low bits spread: the map uses only those. */
    int counts[64] = {0};
    for (uint32_t i = 0; i < 64000; i++) counts[plait_hash_bytes(&i, sizeof i, 9) & 63]++;
    for (int i = 0; i < 64; i++) assert_in_range(counts[i], 800, 1200);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_against_array),
        cmocka_unit_test(test_odd_keys),
        cmocka_unit_test(test_reserve),
        cmocka_unit_test(test_hash),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
