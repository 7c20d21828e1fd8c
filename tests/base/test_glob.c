/* Patterns against names: cases, and all short pairs against a recursive definition. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h>

#include "base/glob.h"

/* The definition. */
static bool matches(const char *p, const char *s) {
    if (*p == '*') return matches(p + 1, s) || (*s && matches(p, s + 1));
    return *p == *s && (!*p || matches(p + 1, s + 1));
}

static void cases(void **state) {
    (void)state;
    assert_true(plait_glob_matches("blk.*.ffn*", "blk.12.ffn_up.weight"));
    assert_false(plait_glob_matches("blk.*.attn*", "blk.12.ffn_up.weight"));
    assert_true(plait_glob_matches("*", ""));
    assert_false(plait_glob_matches("", "a"));
}

static void ranges_of_numbers(void **state) {
    (void)state;
    static const char *const yes[][2] = {{"{0-9}", "0"},
                                         {"{0-9}", "9"},
                                         {"blk.{0-26}.ffn_*_exps*", "blk.26.ffn_up_exps.weight"},
                                         {"blk.{7-7}", "blk.7"},
                                         {"*{3-12}b", "a12b"},
                                         {"*{3-12}*", "x99y4"},
                                         {"{1-2}{3-4}", "{1-2}{3-4}"},
                                         {"{1-x}", "{1-x}"},
                                         {"a{", "a{"},
                                         {"{0-999999999}", "123456789"},
                                         {"*{2-3}", "23"}};
    static const char *const no[][2] = {{"{0-9}", "10"},
                                        {"{0-9}", ""},
                                        {"{0-9}", "x"},
                                        {"blk.{0-26}.*", "blk.27.q"},
                                        {"{0-9}", "05"},
                                        {"{5-9}", "4"},
                                        {"{9-5}", "7"},
                                        {"blk.{1-3}", "blk.1.q"},
                                        {"{0-99}", "1234567890123"},
                                        {"{0-9", "5"}};
    for (size_t i = 0; i < sizeof yes / sizeof *yes; i++)
        if (!plait_glob_matches(yes[i][0], yes[i][1])) fail_msg("%s, %s: no", yes[i][0], yes[i][1]);
    for (size_t i = 0; i < sizeof no / sizeof *no; i++)
        if (plait_glob_matches(no[i][0], no[i][1])) fail_msg("%s, %s: yes", no[i][0], no[i][1]);
}

/* Writes word number n over the letters to out. */
static void word(int n, const char *letters, int base, char *out) {
    for (; n > 0; n = (n - 1) / base) *out++ = letters[(n - 1) % base];
    *out = '\0';
}

static void all_short_pairs(void **state) {
    (void)state;
    char pattern[16], name[16];
    int n = 0;
    for (int i = 0; i < 1093; i++)
        for (int k = 0; k < 127; k++, n++) {
            word(i, "ab*", 3, pattern);
            word(k, "ab", 2, name);
            if (plait_glob_matches(pattern, name) != matches(pattern, name))
                fail_msg("pattern \"%s\", name \"%s\"", pattern, name);
        }
    printf("%d pairs\n", n);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(cases), cmocka_unit_test(ranges_of_numbers),
                                       cmocka_unit_test(all_short_pairs)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
