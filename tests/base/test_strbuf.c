/* The growable string: limits, sticky failure, JSON strings and numbers, shortest doubles in any locale. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/strbuf.h"
#include "support/locale.h"

#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void test_append(void **state) {
    (void)state;
    plait_strbuf s;
    plait_strbuf_init(&s, 0);
    assert_string_equal(plait_strbuf_text(&s), "");
    for (int i = 0; i < 1000; i++) plait_strbuf_printf(&s, "%d,", i);
    plait_strbuf_append(&s, "end");
    plait_strbuf_append_char(&s, '.');
    plait_strbuf_append_n(&s, "\0x", 2);
    plait_strbuf_append_n(&s, NULL, 0);
    assert_int_equal(s.length, 3890 + 6);
    assert_int_equal(plait_strbuf_status(&s), PLAIT_OK);
    char *text = plait_strbuf_take(&s);
    assert_memory_equal(text + 3890 - 4, "999,end.\0x", 11);
    free(text);
    assert_int_equal(s.length, 0);
    text = plait_strbuf_take(&s); /* nothing was appended since: an empty string */
    assert_string_equal(text, "");
    free(text);
    plait_strbuf_append(&s, "again");
    plait_strbuf_clear(&s);
    assert_string_equal(plait_strbuf_text(&s), "");
    plait_strbuf_deinit(&s);
}

static void test_limit_is_sticky(void **state) {
    (void)state;
    plait_strbuf s;
    plait_strbuf_init(&s, 10);
    plait_strbuf_append(&s, "0123456789");
    assert_int_equal(plait_strbuf_status(&s), PLAIT_OK);
    plait_strbuf_append_char(&s, 'x');
    assert_int_equal(plait_strbuf_status(&s), PLAIT_LIMIT);
    assert_non_null(strstr(plait_error_message(), "10 bytes"));
    plait_strbuf_append(&s, "");
    plait_strbuf_printf(&s, "%d", 1);
    assert_string_equal(plait_strbuf_text(&s), "0123456789");
    assert_null(plait_strbuf_take(&s));
    plait_strbuf_clear(&s);
    plait_strbuf_append(&s, "ok");
    assert_int_equal(plait_strbuf_status(&s), PLAIT_OK);
    assert_string_equal(plait_strbuf_text(&s), "ok");
    plait_strbuf_deinit(&s);
}

static void expect_json(const char *bytes, size_t n, const char *expected) {
    plait_strbuf s;
    plait_strbuf_init(&s, 0);
    plait_strbuf_json_string_n(&s, bytes, n);
    assert_string_equal(plait_strbuf_text(&s), expected);
    plait_strbuf_deinit(&s);
}

#define EXPECT_JSON(bytes, expected) expect_json(bytes, sizeof(bytes) - 1, expected)

static void test_json_strings(void **state) {
    (void)state;
    EXPECT_JSON("", "\"\"");
    EXPECT_JSON("a \"b\" \\ /", "\"a \\\"b\\\" \\\\ /\"");
    EXPECT_JSON("\n\r\t", "\"\\n\\r\\t\"");
    EXPECT_JSON("\0\x01\x1f\x7f", "\"\\u0000\\u0001\\u001f\\u007f\"");
    EXPECT_JSON("\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80", "\"\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80\"");
    /* Bytes that are not UTF-8, one U+FFFD each: stray, overlong, surrogate, cut short, beyond the last. */
    EXPECT_JSON("a\x80z", "\"a\xEF\xBF\xBDz\"");
    EXPECT_JSON("\xC0\xAF", "\"\xEF\xBF\xBD\xEF\xBF\xBD\"");
    EXPECT_JSON("\xED\xA0\x80", "\"\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\"");
    EXPECT_JSON("\xE2\x82", "\"\xEF\xBF\xBD\xEF\xBF\xBD\"");
    EXPECT_JSON("\xF4\x90\x80\x80", "\"\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\"");
}

static void expect_number(double value, const char *expected) {
    plait_strbuf s;
    plait_strbuf_init(&s, 0);
    plait_strbuf_json_number(&s, value);
    assert_string_equal(plait_strbuf_text(&s), expected);
    plait_strbuf_deinit(&s);
}

static void test_json_numbers(void **state) {
    (void)state;
    expect_number(0, "0");
    expect_number(-1, "-1");
    expect_number(100000000, "100000000");
    expect_number(9007199254740992.0, "9007199254740992");
    expect_number(1e20, "1e+20");
    expect_number(0.1, "0.1");
    expect_number(-2.5e-7, "-2.5e-07");
    expect_number(1.0 / 3, "0.3333333333333333");
    expect_number(5e-324, "5e-324");
    expect_number(1.7976931348623157e308, "1.7976931348623157e+308");
    expect_number(NAN, "null");
    expect_number(INFINITY, "null");
    expect_number(-INFINITY, "null");
}

static void check_shortest(double value) {
    char out[32], shorter[40];
    size_t n = plait_format_double(value, out);
    assert_int_equal(n, strlen(out));
    assert_true(strtod(out, NULL) == value);
    int digits = 0;
    for (const char *p = out; *p && *p != 'e'; p++) digits += *p >= '0' && *p <= '9';
    for (int d = 1; d < 17; d++) { /* no form with fewer digits reads back */
        snprintf(shorter, sizeof shorter, "%.*e", d - 1, value);
        if (strtod(shorter, NULL) == value) {
            assert_true(digits <= d || (digits > d && strchr(out, '.') == NULL) || out[0] == '0' ||
                        out[1] == '0');
            return;
        }
    }
}

static void test_shortest_doubles(void **state) {
    (void)state;
    uint64_t bits = 88172645463325252u;
    for (int i = 0; i < 20000; i++) {
        bits ^= bits << 13, bits ^= bits >> 7, bits ^= bits << 17;
        double value;
        memcpy(&value, &bits, sizeof value);
        if (isfinite(value)) check_shortest(value);
        check_shortest((double)(int64_t)(bits % 2000001) / 1000);
        check_shortest((double)(float)(bits % 1000) / 7);
    }
}

static void test_locale_does_not_matter(void **state) {
    (void)state;
    static const char *const names[] = {"de_DE.UTF-8", "fr_FR.UTF-8", "de_DE", "ps_AF.UTF-8", "fa_IR.UTF-8"};
    int tried = 0;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (!setlocale(LC_ALL, names[i])) continue;
        tried++;
        expect_number(1.5, "1.5");
        expect_number(-2.25e-30, "-2.25e-30");
        plait_strbuf s;
        plait_strbuf_init(&s, 0);
        plait_strbuf_bytes(&s, 10905190);
        assert_string_equal(plait_strbuf_text(&s), "10.4 MiB");
        plait_strbuf_deinit(&s);
    }
    setlocale(LC_ALL, "C");
    printf("locales with another decimal mark that are installed here: %d\n", tried);
}

/* Whatever is printed or read has a point, and the program's locale is what it was. */
static void test_comma_does_not_matter(void **state) {
    char text[64], *end;
    double value = 0;
    plait_strbuf s;
    (void)state;
    plait_strbuf_init(&s, 0);
    assert_true(test_locale_begin());
    plait_strbuf_printf(&s, "%.2f %g %s %.17g|", 1.25, 1e-7, "1,5", 0.1);
    plait_strbuf_json_number(&s, 2.5);
    plait_strbuf_append_char(&s, '|');
    plait_strbuf_bytes(&s, 10905190);
    assert_string_equal(plait_strbuf_text(&s), "1.25 1e-07 1,5 0.10000000000000001|2.5|10.4 MiB");
    plait_strbuf_deinit(&s);
    assert_int_equal(plait_format(text, sizeof text, "%.3e", 1234.5), 9);
    assert_string_equal(text, "1.234e+03");
    assert_true(plait_strtod("2.5,", &end) == 2.5 && *end == ',');
    assert_true(plait_parse_double("-2.5e-1", 7, &value) && value == -0.25);
    assert_false(plait_parse_double("2,5", 3, &value));
    expect_number(-2.25e-30, "-2.25e-30");
    snprintf(text, sizeof text, "%.1f", 0.5);
    test_locale_end();
    assert_string_equal(text, "0,5");
}

static void test_bytes_for_people(void **state) {
    (void)state;
    static const struct {
        uint64_t bytes;
        const char *text;
    } cases[] = {{0, "0 B"},
                 {512, "512 B"},
                 {1023, "1023 B"},
                 {1024, "1.00 KiB"},
                 {1048575, "1.00 MiB"},
                 {10905190, "10.4 MiB"},
                 {3489660928u, "3.25 GiB"},
                 {10234, "9.99 KiB"},
                 {10239, "10.0 KiB"},
                 {UINT64_MAX, "16384.0 PiB"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        plait_strbuf s;
        plait_strbuf_init(&s, 0);
        plait_strbuf_bytes(&s, cases[i].bytes);
        assert_string_equal(plait_strbuf_text(&s), cases[i].text);
        plait_strbuf_deinit(&s);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_append),
        cmocka_unit_test(test_limit_is_sticky),
        cmocka_unit_test(test_json_strings),
        cmocka_unit_test(test_json_numbers),
        cmocka_unit_test(test_shortest_doubles),
        cmocka_unit_test(test_locale_does_not_matter),
        cmocka_unit_test(test_comma_does_not_matter),
        cmocka_unit_test(test_bytes_for_people),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
