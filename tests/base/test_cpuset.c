/* Sets of processors: members, counting, set arithmetic, and the lists that the kernel and users write. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/cpuset.h"

static void members(void **state) {
    static bool expected[PLAIT_CPUSET_LIMIT];
    plait_cpuset set = {0};
    int n = 0;
    (void)state;
    assert_int_equal(plait_cpuset_count(&set), 0);
    assert_int_equal(plait_cpuset_next(&set, 0), -1);
    for (int i = 0, number = 5; i < 300; i++, number = number * 1103 % PLAIT_CPUSET_LIMIT) {
        n += !expected[number];
        expected[number] = true;
        plait_cpuset_add(&set, number);
    }
    assert_int_equal(plait_cpuset_count(&set), n);
    for (int i = 0; i < PLAIT_CPUSET_LIMIT; i++) assert_int_equal(plait_cpuset_has(&set, i), expected[i]);
    int seen = 0;
    for (int i = plait_cpuset_next(&set, 0); i >= 0; i = plait_cpuset_next(&set, i + 1)) {
        assert_true(expected[i]);
        seen++;
    }
    assert_int_equal(seen, n);
    assert_false(plait_cpuset_has(&set, -1));
    assert_false(plait_cpuset_has(&set, PLAIT_CPUSET_LIMIT));
    plait_cpuset_add(&set, -1);
    plait_cpuset_add(&set, PLAIT_CPUSET_LIMIT);
    assert_int_equal(plait_cpuset_count(&set), n);
    assert_int_equal(plait_cpuset_next(&set, PLAIT_CPUSET_LIMIT), -1);
}

static plait_cpuset list(const char *text) {
    plait_cpuset set;
    if (plait_cpuset_parse(text, &set) != PLAIT_OK) fail_msg("%s: %s", text, plait_error_message());
    return set;
}

static void assert_list(const plait_cpuset *set, const char *expected) {
    char text[256];
    size_t n = plait_cpuset_print(set, ',', text, sizeof text);
    assert_string_equal(text, expected);
    assert_int_equal(n, strlen(expected));
}

static void arithmetic(void **state) {
    plait_cpuset a = list("0-9,100,8191"), b = list("5-20,8191"), c = a;
    (void)state;
    assert_true(plait_cpuset_intersects(&a, &b));
    plait_cpuset_keep(&c, &b);
    assert_list(&c, "5-9,8191");
    c = a;
    plait_cpuset_remove(&c, &b);
    assert_list(&c, "0-4,100");
    assert_false(plait_cpuset_intersects(&c, &b));
    plait_cpuset_join(&c, &b);
    assert_list(&c, "0-20,100,8191");
    assert_false(plait_cpuset_equal(&a, &b));
    b = list("8191+100+0-9");
    assert_true(plait_cpuset_equal(&a, &b));
}

static void texts(void **state) {
    static const char *const fine[][2] = {
        {"", ""},         {"0", "0"},   {"0-3+6", "0-3,6"}, {"6,0-3\n", "0-3,6"},
        {"3,1,2", "1-3"}, {"7-7", "7"}, {"0-1,1-2", "0-2"}, {"8191", "8191"},
        {" ", ""}};
    static const char *const wrong[] = {"a",  "1,",  "1+",  ",1",  "1--2", "-1",
                                        "1-", "2-1", "1 2", "0x3", "1,,2", "each"};
    plait_cpuset set;
    (void)state;
    for (size_t i = 0; i < sizeof fine / sizeof fine[0]; i++) {
        set = list(fine[i][0]);
        assert_list(&set, fine[i][1]);
    }
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        if (plait_cpuset_parse(wrong[i], &set) != PLAIT_INVALID_ARGUMENT)
            fail_msg("\"%s\" was read", wrong[i]);
    assert_int_equal(plait_cpuset_parse("8192", &set), PLAIT_OUT_OF_RANGE);
    assert_int_equal(plait_cpuset_parse("99999999999999999999999", &set), PLAIT_OUT_OF_RANGE);
    assert_int_equal(plait_cpuset_parse("0-8192", &set), PLAIT_OUT_OF_RANGE);
}

/* Whatever the room: no byte behind it, a NUL, the whole length; and a list that was cut says so. */
static void little_room(void **state) {
    plait_cpuset set = list("0-3,17,200-300,8000");
    char whole[64], text[64];
    size_t n = plait_cpuset_print(&set, '+', whole, sizeof whole);
    (void)state;
    assert_string_equal(whole, "0-3+17+200-300+8000");
    assert_int_equal(plait_cpuset_print(&set, '+', NULL, 0), n);
    for (size_t room = 1; room <= n + 2; room++) {
        memset(text, '#', sizeof text);
        assert_int_equal(plait_cpuset_print(&set, '+', text, room), n);
        assert_true(strlen(text) < room);
        assert_int_equal(text[room], '#');
        if (room > n)
            assert_string_equal(text, whole);
        else if (room > 3)
            assert_string_equal(text + strlen(text) - 3, "...");
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(members), cmocka_unit_test(arithmetic),
                                       cmocka_unit_test(texts), cmocka_unit_test(little_room)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
