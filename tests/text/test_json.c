/* JSON: what RFC 8259 allows is read with its kinds, order and NULs kept; what it forbids is refused with a place; what is
 * read prints as it was. */
#include "text/json.h"

#include "base/strbuf.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void parse(const char *text, plait_json_document *out) {
    plait_status status = plait_json_parse(out, text, strlen(text), NULL);
    if (status != PLAIT_OK) print_error("%s: %s\n", text, plait_error_message());
    assert_int_equal(status, PLAIT_OK);
}

static void round_trip(const char *text, const char *wanted) {
    plait_json_document d;
    plait_strbuf s;
    parse(text, &d);
    plait_strbuf_init(&s, 0);
    plait_json_print(&s, d.root, 0);
    assert_int_equal(plait_strbuf_status(&s), PLAIT_OK);
    assert_string_equal(plait_strbuf_text(&s), wanted);
    plait_strbuf_deinit(&s);
    plait_json_document_deinit(&d);
}

static void values_come_back(void **state) {
    (void)state;
    static const char *const same[] = {
        "null",
        "true",
        "false",
        "0",
        "-1",
        "9223372036854775807",
        "-9223372036854775808",
        "2.0",
        "0.1",
        "-0.0",
        "1e+20",
        "1e-07",
        "\"\"",
        "\"a\\nb\"",
        "[]",
        "{}",
        "[1,2.0,[],{}]",
        "{\"b\":1,\"a\":2,\"\":3}",
        "\"\\u0000\"",
        "\"\xE4\xBD\xA0\"",
    };
    for (size_t i = 0; i < sizeof same / sizeof *same; i++) round_trip(same[i], same[i]);
    round_trip(" [ 1 , 2 ] \n", "[1,2]");
    round_trip("\"\\u00e9\\ud83d\\ude00\\/\"", "\"\xC3\xA9\xF0\x9F\x98\x80/\"");
    round_trip("2E2", "200.0");
    round_trip("{\"a\":1,\"b\":2,\"a\":3}", "{\"a\":3,\"b\":2}");
}

static void kinds_are_kept(void **state) {
    (void)state;
    plait_json_document d;
    parse("[2, 2.0, \"a\\u0000b\", true, null]", &d);
    const plait_json *v = d.root->u.array.items;
    assert_int_equal(d.root->u.array.n_items, 5);
    assert_int_equal(v[0].kind, PLAIT_JSON_INTEGER);
    assert_int_equal(v[1].kind, PLAIT_JSON_REAL);
    assert_true(v[1].u.real == 2.0);
    assert_int_equal(v[2].u.string.n_bytes, 3);
    assert_memory_equal(v[2].u.string.bytes, "a\0b", 4);
    assert_int_equal(v[3].kind, PLAIT_JSON_BOOL);
    assert_string_equal(plait_json_kind_name(v[4].kind), "null");
    plait_json_document_deinit(&d);
    parse("{\"x\":{\"y\":[7]}}", &d);
    assert_int_equal(plait_json_get(plait_json_get(d.root, "x"), "y")->u.array.items[0].u.integer, 7);
    assert_null(plait_json_get(d.root, "z"));
    assert_null(plait_json_get(NULL, "z"));
    assert_null(plait_json_get(plait_json_get(plait_json_get(d.root, "x"), "y"), "z"));
    plait_json_document_deinit(&d);
}

static void indentation(void **state) {
    (void)state;
    plait_json_document d;
    plait_strbuf s;
    parse("{\"a\":[1,{}],\"b\":[]}", &d);
    plait_strbuf_init(&s, 0);
    plait_json_print(&s, d.root, 2);
    assert_string_equal(plait_strbuf_text(&s), "{\n  \"a\": [\n    1,\n    {}\n  ],\n  \"b\": []\n}");
    plait_strbuf_deinit(&s);
    plait_json_document_deinit(&d);
}

static void bad_text_is_refused(void **state) {
    (void)state;
    static const char *const bad[] = {
        "",
        " ",
        "[",
        "]",
        "{",
        "[1,]",
        "{\"a\"}",
        "{\"a\":}",
        "{a:1}",
        "'a'",
        "01",
        "+1",
        "1.",
        ".5",
        "1e",
        "-",
        "nul",
        "truex",
        "\"",
        "\"\\x\"",
        "\"\\u12\"",
        "\"\\ud800\"",
        "\"a\nb\"",
        "[1] 2",
        "NaN",
        "Infinity",
        "// c\n1",
        "\"\xFF\"",
        "\"\xC0\x80\"",
        "{\"a\\u0000\":1}",
        "[1 2]",
        "1e999",
        "99999999999999999999999999",
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        plait_json_document d;
        memset(&d, 1, sizeof d);
        plait_status status = plait_json_parse(&d, bad[i], strlen(bad[i]), NULL);
        if (status != PLAIT_CORRUPT) print_error("accepted: %s\n", bad[i]);
        assert_int_equal(status, PLAIT_CORRUPT);
        assert_null(d.root);
        assert_non_null(strstr(plait_error_message(), "JSON line"));
    }
}

static void limits_hold(void **state) {
    (void)state;
    plait_json_document d;
    char deep[4096];
    memset(deep, '[', sizeof deep);
    assert_int_equal(plait_json_parse(&d, deep, sizeof deep, NULL), PLAIT_LIMIT);
    assert_non_null(strstr(plait_error_message(), "512"));
    plait_json_limits wide = {.depth = 1000000};
    assert_int_equal(plait_json_parse(&d, deep, sizeof deep, &wide), PLAIT_LIMIT);
    memset(deep + 2000, ']', 2000);
    assert_int_equal(plait_json_parse(&d, deep, 4000, &wide), PLAIT_OK);
    plait_json_document_deinit(&d);
    assert_int_equal(plait_json_parse(&d, "[[\"]]]]\"]]", 10, &(plait_json_limits){.depth = 2}), PLAIT_OK);
    plait_json_document_deinit(&d);
    assert_int_equal(plait_json_parse(&d, "[1]", 3, &(plait_json_limits){.text_bytes = 2}), PLAIT_LIMIT);
    assert_int_equal(plait_json_parse(&d, "[1,2,3,4,5,6,7,8]", 17, &(plait_json_limits){.tree_bytes = 64}),
                     PLAIT_LIMIT);
    assert_null(d.root);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_come_back), cmocka_unit_test(kinds_are_kept),
        cmocka_unit_test(indentation),      cmocka_unit_test(bad_text_is_refused),
        cmocka_unit_test(limits_hold),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
