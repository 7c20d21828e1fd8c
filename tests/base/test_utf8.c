/* UTF-8 against its definition: every code point, every two-byte sequence, every way to be wrong. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/utf8.h"

#include <stdio.h>
#include <string.h>

static void test_every_code_point(void **state) {
    (void)state;
    uint32_t n_valid = 0;
    for (uint32_t code = 0; code <= 0x10FFFF; code++) {
        char bytes[4];
        uint32_t back = 0xFFFFFFFF;
        size_t n = plait_utf8_encode(code, bytes);
        assert_int_equal(n, code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4);
        if (code >= 0xD800 && code <= 0xDFFF) {
            assert_int_equal(plait_utf8_decode(bytes, n, &back), 0);
            assert_int_equal(back, 0xFFFFFFFF);
            continue;
        }
        assert_int_equal(plait_utf8_decode(bytes, n, &back), n);
        assert_int_equal(back, code);
        for (size_t cut = 0; cut < n; cut++) assert_int_equal(plait_utf8_decode(bytes, cut, &back), 0);
        n_valid++;
    }
    printf("%u code points\n", n_valid);
    assert_int_equal(n_valid, 0x110000 - 0x800);
}

/* The definition, table 3-7 of the Unicode standard, written as ranges. */
static size_t length_by_table(const unsigned char *p, size_t n) {
    static const unsigned char rows[][9] = {
        /* length, then low and high of each byte */
        {1, 0x00, 0x7F},
        {2, 0xC2, 0xDF, 0x80, 0xBF},
        {3, 0xE0, 0xE0, 0xA0, 0xBF, 0x80, 0xBF},
        {3, 0xE1, 0xEC, 0x80, 0xBF, 0x80, 0xBF},
        {3, 0xED, 0xED, 0x80, 0x9F, 0x80, 0xBF},
        {3, 0xEE, 0xEF, 0x80, 0xBF, 0x80, 0xBF},
        {4, 0xF0, 0xF0, 0x90, 0xBF, 0x80, 0xBF, 0x80, 0xBF},
        {4, 0xF1, 0xF3, 0x80, 0xBF, 0x80, 0xBF, 0x80, 0xBF},
        {4, 0xF4, 0xF4, 0x80, 0x8F, 0x80, 0xBF, 0x80, 0xBF},
    };
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
        bool match = n >= rows[r][0];
        for (size_t i = 0; match && i < rows[r][0]; i++)
            match = p[i] >= rows[r][1 + 2 * i] && p[i] <= rows[r][2 + 2 * i];
        if (match) return rows[r][0];
    }
    return 0;
}

static void test_byte_sequences(void **state) {
    (void)state;
    static const unsigned char tails[] = {0x00, 0x7F, 0x80, 0x8F, 0x90, 0x9F, 0xA0, 0xBF, 0xC0, 0xFF};
    enum { N_TAILS = sizeof tails };
    uint32_t code;
    for (int a = 0; a < 256; a++)
        for (int b = 0; b < 256; b++)
            for (int c = 0; c < N_TAILS; c++)
                for (int d = 0; d < N_TAILS; d++) {
                    unsigned char p[4] = {(unsigned char)a, (unsigned char)b, tails[c], tails[d]};
                    size_t expected = length_by_table(p, 4);
                    if (plait_utf8_decode(p, 4, &code) != expected)
                        fail_msg("%02x %02x %02x %02x", a, b, p[2], p[3]);
                }
}

static void test_valid(void **state) {
    (void)state;
    static const char good[] = "a\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80\0z";
    assert_true(plait_utf8_valid(good, sizeof good));
    assert_true(plait_utf8_valid(NULL, 0));
    assert_false(plait_utf8_valid(good, 2));
    assert_false(plait_utf8_valid("ab\xFFzz", 5));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_code_point),
        cmocka_unit_test(test_byte_sequences),
        cmocka_unit_test(test_valid),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
