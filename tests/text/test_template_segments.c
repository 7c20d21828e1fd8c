/* The origin of every byte, through every function: variables whose letters are all full-width are put through each snippet of
 * tests/golden/templates/snippets.json, whose own text has none. No full-width letter may ever count as the template's. */
#include "text/template_support.h"

/* Turns ASCII letters of all string values (not of keys) into full-width ones, of which upper and lower case exist. */
static plait_json widen(plait_arena *arena, const plait_json *from) {
    plait_json to = *from;
    if (from->kind == PLAIT_JSON_STRING) {
        size_t n = from->u.string.n_bytes, k = 0;
        char *bytes = plait_arena_alloc(arena, n + 1, 3);
        assert_non_null(bytes);
        for (size_t i = 0; i < n; i++) {
            unsigned char c = (unsigned char)from->u.string.bytes[i];
            bool upper = c >= 'A' && c <= 'Z', lower = c >= 'a' && c <= 'z';
            if (!upper && !lower) {
                bytes[k++] = (char)c;
                continue;
            }
            bytes[k++] = '\xEF';
            bytes[k++] = upper ? '\xBC' : '\xBD';
            bytes[k++] = (char)(upper ? c - 'A' + 0xA1 : c - 'a' + 0x81);
        }
        to.u.string.bytes = bytes;
        to.u.string.n_bytes = k;
    } else if (from->kind == PLAIT_JSON_ARRAY) {
        plait_json *items = plait_arena_alloc(arena, from->u.array.n_items, sizeof *items);
        assert_non_null(items);
        for (size_t i = 0; i < from->u.array.n_items; i++) items[i] = widen(arena, &from->u.array.items[i]);
        to.u.array.items = items;
    } else if (from->kind == PLAIT_JSON_OBJECT) {
        plait_json_member *members = plait_arena_alloc(arena, from->u.object.n_members, sizeof *members);
        assert_non_null(members);
        for (size_t i = 0; i < from->u.object.n_members; i++) {
            members[i] = from->u.object.members[i];
            members[i].value = widen(arena, &members[i].value);
        }
        to.u.object.members = members;
    }
    return to;
}

/* Letters of the variables in the output, and how many of them count as the template's. */
static void count_letters(const plait_template_output *out, size_t *letters, size_t *claimed) {
    for (size_t s = 0; s < out->n_segments; s++) {
        const unsigned char *p = (const unsigned char *)out->text + out->segments[s].offset_bytes;
        for (size_t i = 0; i + 1 < out->segments[s].n_bytes; i++) {
            if (p[i] != 0xEF || (p[i + 1] != 0xBC && p[i + 1] != 0xBD)) continue;
            ++*letters;
            *claimed += out->segments[s].from_template;
        }
    }
}

static void nothing_is_laundered(void **state) {
    (void)state;
    plait_json_document document;
    plait_arena arena;
    size_t rendered = 0, letters = 0, claimed = 0;
    plait_arena_init(&arena, 0);
    read_json(PLAIT_GOLDEN_DIR "/templates/snippets.json", &document);
    const plait_json *cases = plait_json_get(document.root, "cases");
    plait_json variables = widen(&arena, plait_json_get(document.root, "variables"));
    for (size_t i = 0; i < cases->u.array.n_items; i++) {
        const plait_json *text = get_string(&cases->u.array.items[i], "template");
        plait_template *t = NULL;
        plait_template_output out;
        plait_template_input input = {.variables = &variables, .now = "2025-03-09 14:05:07"};
        if (plait_template_create(&t, text->u.string.bytes, text->u.string.n_bytes, NULL) != PLAIT_OK)
            continue;
        if (plait_template_render(t, &input, &out) == PLAIT_OK) {
            size_t before = claimed;
            rendered++;
            check_segments(&out);
            count_letters(&out, &letters, &claimed);
            if (claimed != before) print_error("%s\n%s\n", text->u.string.bytes, out.text);
        }
        plait_template_output_deinit(&out);
        plait_template_destroy(t);
    }
    printf("%zu snippets rendered, %zu letters of variables seen, %zu of them claimed by templates\n",
           rendered, letters, claimed);
    assert_true(rendered > 3000 && letters > 10000);
    assert_int_equal(claimed, 0);
    plait_arena_deinit(&arena);
    plait_json_document_deinit(&document);
}

typedef struct row {
    const char *source;
    const char *text;
    const char *marks; /* T: the template's, v: a variable's; one letter a byte */
} row;

/* Exact origins where they can be said byte by byte. Variables: s = "abc", l = ["x", "y"], d = {"k": "v"}, n = 7. */
static void exact_origins(void **state) {
    (void)state;
    static const row rows[] = {
        {"<{{ s }}>", "<abc>", "TvvvT"},
        {"{{ '<' + s + '>' }}", "<abc>", "TvvvT"},
        {"{{ '<' ~ s ~ n ~ '>' }}", "<abc7>", "TvvvTT"},
        {"{{ s[1:] + '!' }}", "bc!", "vvT"},
        {"{{ ('<' + s + '>')[::-1] }}", ">cba<", "TvvvT"},
        {"{{ s|upper ~ 'd'|upper }}", "ABCD", "vvvT"},
        {"{{ s|replace('b', '--') }}", "a--c", "vTTv"},
        {"{{ 'a-c'|replace('-', s) }}", "aabcc", "TvvvT"},
        {"{{ l|join(', ') }}", "x, y", "vTTv"},
        {"{{ l + [] }}", "['x', 'y']", "vvvvvvvvvv"},
        {"{{ l * 2 }}", "['x', 'y', 'x', 'y']", "vvvvvvvvvvvvvvvvvvvv"},
        {"{{ 1 * l }}", "['x', 'y']", "vvvvvvvvvv"},
        {"{{ '%s=%s' % (s, 'z') }}", "abc=z", "vvvTT"},
        {"{{ '[{}|{:>4}]'.format(s, s) }}", "[abc| abc]", "TvvvTTvvvT"},
        {"{{ (' ' + s + ' ')|trim }}", "abc", "vvv"},
        {"{{ (s + '-' + s).split('-')|join('+') }}", "abc+abc", "vvvTvvv"},
        {"{% set x %}<{{ s }}>{% endset %}{{ x }}", "<abc>", "TvvvT"},
        {"{% macro m(a) %}<{{ a }}>{% endmacro %}{{ m(s) }}", "<abc>", "TvvvT"},
        {"{% filter upper %}x{{ s }}{% endfilter %}", "XABC", "Tvvv"},
        {"{{ d|tojson }}", "{\"k\": \"v\"}", "vvvvvvvvvv"},
        {"{{ {'q': s}|tojson }}", "{\"q\": \"abc\"}", "TTTTTTvvvvvT"},
        {"{{ [1, s] }}", "[1, 'abc']", "TTTTvvvvvT"},
        {"{% for k, v in d.items() %}{{ k }}:{{ v }}{% endfor %}", "k:v", "vTv"},
        {"{{ n }}{{ n + 1 }}", "78", "TT"},
        {"{{ bos_token ~ s }}", "<s>abc", "TTTvvv"},
        {"{{ s|center(5) }}", " abc ", "TvvvT"},
        {"{{ '%c' % 60 }}", "<", "v"},
        {"{{ s * 2 ~ '-' * 2 }}", "abcabc--", "vvvvvvTT"},
        {"{{ strftime_now('%Y') }}", "2025", "TTTT"},
        {"{{ s|e ~ ('<' ~ s)|e }}", "abc&lt;abc", "vvvTTTTvvv"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        plait_template_output out;
        plait_status status = render_text(
            rows[i].source,
            "{\"s\":\"abc\",\"l\":[\"x\",\"y\"],\"d\":{\"k\":\"v\"},\"n\":7,\"bos_token\":\"<s>\"}", NULL,
            &out);
        if (status != PLAIT_OK) print_error("%s: %s\n", rows[i].source, plait_error_message());
        assert_int_equal(status, PLAIT_OK);
        assert_string_equal(out.text, rows[i].text);
        check_segments(&out);
        for (size_t s = 0; s < out.n_segments; s++)
            for (size_t k = 0; k < out.segments[s].n_bytes; k++)
                if (out.segments[s].from_template != (rows[i].marks[out.segments[s].offset_bytes + k] == 'T'))
                    fail_msg("%s: byte %zu has the wrong origin", rows[i].source,
                             out.segments[s].offset_bytes + k);
        plait_template_output_deinit(&out);
    }
}

/* Whom to trust is the caller's to say. */
static void trusted_names(void **state) {
    (void)state;
    static const char source[] = "{{ bos_token }}{{ header }}{{ list[0] }}",
                      variables[] = "{\"bos_token\":\"b\",\"header\":\"h\",\"list\":[\"l\"]}";
    static const char *const names[] = {"header", "list", "absent", NULL}, *const nobody[] = {NULL};
    plait_template *t = NULL;
    assert_int_equal(plait_template_create(&t, source, sizeof source - 1, NULL), PLAIT_OK);
    const char *const *lists[] = {NULL, names, nobody};
    static const char *const wanted[] = {"Tvv", "vTv", "vvv"};
    for (size_t i = 0; i < 3; i++) {
        plait_template_output out;
        plait_template_input input = {
            .variables_json = variables, .variables_bytes = sizeof variables - 1, .trusted = lists[i]};
        assert_int_equal(plait_template_render(t, &input, &out), PLAIT_OK);
        for (size_t s = 0; s < out.n_segments; s++)
            for (size_t k = 0; k < out.segments[s].n_bytes; k++)
                assert_int_equal(out.segments[s].from_template,
                                 wanted[i][out.segments[s].offset_bytes + k] == 'T');
        plait_template_output_deinit(&out);
    }
    plait_template_destroy(t);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_is_laundered),
        cmocka_unit_test(exact_origins),
        cmocka_unit_test(trusted_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
