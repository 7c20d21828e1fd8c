/* Numbers as text and back, whatever the locale; and failures that pass from one string to another. */
#include "base/strbuf.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <locale.h>
#include <math.h>
#include <string.h>

static void check_round_trip(double value) {
    char text[32];
    double back = NAN;
    size_t n = plait_format_double(value, text);
    assert_true(plait_parse_double(text, n, &back));
    assert_memory_equal(&back, &value, sizeof value);
}

static void test_round_trip(void **state) {
    (void)state;
    static const double some[] = {
        0.0, -0.0, 1, -1.5, 1e-5, 1.0 / 3, 1e300, 5e-324, 1.7976931348623157e308, 123456789.25};
    static const char *const locales[] = {"C", "de_DE.UTF-8", "ps_AF.UTF-8"}; /* those that the system has */
    uint64_t seed = 1;
    for (size_t l = 0; l < 3; l++) {
        setlocale(LC_NUMERIC, locales[l]);
        for (size_t i = 0; i < sizeof some / sizeof *some; i++) check_round_trip(some[i]);
        for (int i = 0; i < 5000; i++) {
            double value;
            seed = seed * 6364136223846793005u + 1442695040888963407u;
            memcpy(&value, &seed, sizeof value);
            if (isfinite(value)) check_round_trip(value);
        }
        setlocale(LC_NUMERIC, "C");
    }
}

static void test_what_is_no_number(void **state) {
    (void)state;
    static const char *const texts[] = {"",     "-",  ".",  "1.2.3", "1,5", "inf", "nan", "1e999",
                                        "0x10", " 1", "1 ", "1e",    "--1", "1f",  "+-1", "1e+-2"};
    double value = 7;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        if (plait_parse_double(texts[i], strlen(texts[i]), &value))
            fail_msg("\"%s\" gave %g", texts[i], value);
    assert_false(plait_parse_double("1\0002", 3, &value));
    char many[100];
    memset(many, '1', sizeof many);
    assert_false(plait_parse_double(many, 64, &value));
    assert_true(value == 7);
    assert_true(plait_parse_double(many, 3, &value)); /* not a byte beyond n */
    assert_true(value == 111);
    assert_true(plait_parse_double("+2.5E+1", 7, &value));
    assert_true(value == 25);
}

static void test_failures_are_inherited(void **state) {
    (void)state;
    plait_strbuf outer, inner;
    plait_strbuf_init(&outer, 0);
    plait_strbuf_init(&inner, 3);
    plait_strbuf_inherit(&outer, &inner);
    assert_int_equal(plait_strbuf_status(&outer), PLAIT_OK);
    plait_strbuf_append(&inner, "four");
    plait_strbuf_inherit(&outer, &inner);
    assert_int_equal(plait_strbuf_status(&outer), PLAIT_LIMIT);
    plait_strbuf_deinit(&inner);
    plait_strbuf_deinit(&outer);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trip),
        cmocka_unit_test(test_what_is_no_number),
        cmocka_unit_test(test_failures_are_inherited),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
