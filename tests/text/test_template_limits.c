/* Hostile templates and variables: whatever they ask for, they end within their limits, with an error that names the line
 * and the limit, or with a result. No clock decides here (but for the test of the clock): bounds are steps and bytes. */
#include "text/template_support.h"

#include "base/strbuf.h"
#include "support/locale.h"
#include "text/template/ast.h"

#include <pthread.h>

static const plait_template_limits small = {
    .steps = 200000, .memory_bytes = 16 << 20, .output_bytes = 1 << 20, .depth = 200, .parse_depth = 50};

static void expect(const char *source, const char *variables, plait_status wanted, const char *message) {
    plait_template_output out;
    plait_status status = render_text(source, variables, &small, &out);
    if (status != wanted || (message && !strstr(plait_error_message(), message)))
        print_error("%.200s\n%s: %s\n", source, plait_status_name(status),
                    status ? plait_error_message() : out.text);
    assert_int_equal(status, wanted);
    if (message) assert_non_null(strstr(plait_error_message(), message));
    if (status != PLAIT_OK) assert_null(out.text);
    plait_template_output_deinit(&out);
}

static void limit(const char *source) {
    expect(source, NULL, PLAIT_LIMIT, "limit");
    assert_non_null(strstr(plait_error_message(), "template line"));
}

/* `n` times `piece` between `before` and `after`. */
static char *repeated(const char *before, const char *piece, size_t n, const char *after) {
    plait_strbuf s;
    plait_strbuf_init(&s, 0);
    plait_strbuf_append(&s, before);
    for (size_t i = 0; i < n; i++) plait_strbuf_append(&s, piece);
    plait_strbuf_append(&s, after);
    char *text = plait_strbuf_take(&s);
    assert_non_null(text);
    return text;
}

static void deep_sources(void **state) {
    (void)state;
    static const char *const rows[][3] = {
        {"{{ ", "(", "1"},
        {"{{ ", "[", ""},
        {"{{ ", "{1:", ""},
        {"{{ ", "-", "1 }}"},
        {"{{ ", "not ", "1 }}"},
        {"{{ x", "[x", ""},
        {"{{ x", "(x", ""},
        {"", "{% if 1 %}", ""},
        {"", "{% for a in [1] %}", ""},
        {"", "{% set a %}", ""},
        {"", "{% macro m() %}", ""},
        {"{{ 1", " if 1 else 1", " }}"},
        {"{% set ", "(", ""},
        {"", "{% filter upper %}", ""},
        {"", "{% with %}", ""},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char *source = repeated(rows[i][0], rows[i][1], 100000, rows[i][2]);
        plait_template *t = NULL;
        plait_status status = plait_template_create(&t, source, strlen(source), NULL);
        if (status != PLAIT_LIMIT) print_error("%s: %s\n", rows[i][1], plait_error_message());
        assert_int_equal(status, PLAIT_LIMIT);
        assert_null(t);
        free(source);
    }
}

/* Long but flat: these make no parser recurse, but their trees are deep or wide. */
static void long_sources(void **state) {
    (void)state;
    static const char *const rows[][3] = {
        {"{{ 1", " + 1", " }}"},
        {"{{ 'a'", "|upper", " }}"},
        {"{{ x", ".x", " }}"},
        {"{{ x", "()", " }}"},
        {"{{ 1", " and 1", " }}"},
        {"{{ 2", " ** 1", " }}"},
        {"{{ 1", " is odd is odd", " }}"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char *source = repeated(rows[i][0], rows[i][1], 20000, rows[i][2]);
        plait_template_output out;
        plait_status status = render_text(source, NULL, NULL, &out);
        assert_int_not_equal(status, PLAIT_OK);
        free(source);
    }
    static const char *const flat[][3] = {
        {"{{ 'a'", " ~ 'a'", " }}"},
        {"{{ 1", " < 2", " }}"},
        {"{{ [1", ", 1", "]|length }}"},
        {"{% if 0 %}", "{% elif 0 %}", "{% endif %}"},
        {"", "{{ 1 }}", ""},
        {"{{ ", "'a' ", "}}"},
        {"{# ", "{# ", "#}"},
        {"", "{ { ", ""},
        {"{{ 1 }}", "{% set a = 1 %}", ""},
    };
    for (size_t i = 0; i < sizeof flat / sizeof *flat; i++) {
        char *source = repeated(flat[i][0], flat[i][1], 20000, flat[i][2]);
        plait_template_output out;
        plait_status status = render_text(source, NULL, NULL, &out);
        if (status != PLAIT_OK) print_error("%s: %s\n", flat[i][1], plait_error_message());
        assert_int_equal(status, PLAIT_OK);
        plait_template_output_deinit(&out);
        free(source);
    }
}

static void huge_results(void **state) {
    (void)state;
    static const char *const rows[] = {
        "{{ 'a' * 1000000000000 }}",
        "{{ [1] * 1000000000000 }}",
        "{{ (1,2) * 4611686018427387904 }}",
        "{{ 'ab' * 9223372036854775807 }}",
        "{{ range(1000000000000) }}",
        "{{ range(0, 9223372036854775807, 1) }}",
        "{{ 'a'|center(1000000000000) }}",
        "{{ 'a'.ljust(1000000000000) }}",
        "{{ 'a'.rjust(1000000000000, '*') }}",
        "{{ 'a'.zfill(1000000000000) }}",
        "{{ '\\t'.expandtabs(1000000000000) }}",
        "{{ 'a\\nb'|indent(1000000000000) }}",
        "{{ [1]|tojson(indent=1000000000) }}",
        "{{ '%1000000000d' % 1 }}",
        "{{ '%.1000000000f' % 1 }}",
        "{{ '%*d' % (1000000000, 1) }}",
        "{{ '%.1000000000d' % 1 }}",
        "{{ '{:>1000000000}'.format(1) }}",
        "{{ '{:.1000000000f}'.format(1) }}",
        "{{ '{:01000000000,}'.format(1) }}",
        "{{ '{:01896092359,}'.format(1234567) }}",
        "{{ [1]|batch(1000000000, 2)|list }}",
        "{{ [1]|slice(1000000000)|list }}",
        "{{ '%99999999999999999999d' % 1 }}",
        "{{ 2 ** 64 }}",
        "{{ 9223372036854775807 + 1 }}",
        "{{ 10 ** 1000000000 }}",
        "{% for a in range(100000) %}{{ 'x' * 100 }}{% endfor %}",
        "{{ 'a'.replace('', 'b' * 1000000).replace('', 'c' * 1000000) }}",
        "{% set ns = namespace(s='a') %}{% for i in range(99) %}{% set ns.s = ns.s + ns.s %}{% endfor %}",
        "{% set ns = namespace(s='a') %}{% for i in range(99) %}{% set ns.s = ns.s ~ ns.s %}{% endfor %}",
        "{% set ns = namespace(s=[1]) %}{% for i in range(99) %}{% set ns.s = ns.s + ns.s %}{% endfor %}",
        "{% set ns = namespace(s=[1]) %}{% for i in range(99) %}{% set ns.s = [ns.s, ns.s] %}{% endfor %}{{ "
        "ns.s }}",
        "{% set ns = namespace(s='<') %}{% for i in range(99) %}{% set ns.s = ns.s|forceescape|replace('&', "
        "'&&') %}{% endfor %}",
        "{% set ns = namespace(s='\\'') %}{% for i in range(99) %}{% set ns.s = [ns.s]|string %}{% endfor %}",
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) limit(rows[i]);
}

static void endless_work(void **state) {
    (void)state;
    limit("{% for a in range(1000) %}{% for b in range(1000) %}{% for c in range(1000) %}{% endfor %}{% "
          "endfor %}{% endfor %}");
    limit("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}");
    limit("{% macro m(n) %}{{ m(n) }}{{ m(n) }}{% endmacro %}{{ m(1) }}");
    limit("{% macro m() %}{% if caller %}{% endif %}{% call m() %}{% endcall %}{% endmacro %}{{ m() }}");
    limit("{% for a in [1] recursive %}{{ loop([1]) }}{% endfor %}");
    limit("{% set l = [1] %}{% for a in l %}{% set q = l.append(1) %}{% endfor %}");
    limit("{% set ns = namespace(i=none) %}{% for a in range(1000) %}{% set ns.i = (ns.i or "
          "[1])|map('string') %}{% endfor %}{{ ns.i|list }}");
    limit("{% set l = [] %}{% set q = l.append(l) %}{{ l }}");
    limit("{% set l = [] %}{% set q = l.append(l) %}{{ l|tojson }}");
    limit("{% set l = [] %}{% set q = l.append(l) %}{{ l|pprint }}");
    limit("{% set l = [] %}{% set m = [] %}{% set q = l.append(m) %}{% set q = m.append(l) %}{{ l == m }}");
    limit("{% set l = [] %}{% set m = [] %}{% set q = l.append(m) %}{% set q = m.append(l) %}{{ l < m }}");
    limit("{% set d = {} %}{% set q = d.update({'d': d}) %}{{ d }}");
    limit("{% set ns = namespace() %}{% set ns.ns = ns %}{{ ns }}");
    limit("{% set ns = namespace(t=(1,)) %}{% for a in range(1000) %}{% set ns.t = (ns.t,) %}{% endfor %}{{ "
          "{ns.t: 1} }}");
    limit("{% set n = 1e308 * 10 - 1e308 * 10 %}{% set d = {} %}{% for a in range(100000) %}{% set q = "
          "d.update([[n, 1]]) %}{% endfor %}");
    limit("{% for a in range(100000) %}{% for b in range(100000) if false %}{% endfor %}{% endfor %}");
    limit("{{ range(100000)|map('string')|join|list|map('upper')|list|sort|unique|list }}");
}

/* A rendering whose memory ends at any point says so: every allocation in it is refused once. */
static void memory_ends_anywhere(void **state) {
    (void)state;
    static const char source[] =
        "{% macro m(a, b=[1]) %}{{ a }}{{ kwargs }}{{ varargs }}{% endmacro %}{% set ns = namespace(t='') %}"
        "{% for k, v in d|dictsort %}{{ m(k, v, x=1) }}{% set ns.t = ns.t + k ~ v %}{{ loop.cycle('a', 'b') "
        "}}{% endfor %}"
        "{{ d|tojson(indent=1) }}{{ d|pprint }}{{ l|map('first')|sort|unique|list }}{{ l|groupby(0) }}{{ "
        "'%5s' % l }}{{ "
        "'{:>5}'.format('a') }}"
        "{{ ns.t|title|wordwrap(3)|indent }}{{ ns.t.split('b') }}{{ (ns.t|safe + "
        "'<')|striptags|urlize|urlencode }}{{ x.y is defined }}";
    static const char variables[] =
        "{\"d\":{\"b\":[1,2.5],\"a\":{\"c\":null}},\"l\":[[1,2],[1,3],[0,1]],\"x\":{}}";
    size_t refused = 0;
    plait_template *t = NULL;
    plait_template_output out;
    plait_template_input input = {.variables_json = variables, .variables_bytes = sizeof variables - 1};
    assert_int_equal(plait_template_create(&t, source, sizeof source - 1, NULL), PLAIT_OK);
    for (size_t bytes = 16;; bytes += 16) {
        t->limits.memory_bytes = bytes;
        plait_status status = plait_template_render(t, &input, &out);
        if (status == PLAIT_OK) break;
        if (status != PLAIT_LIMIT) print_error("%s\n", plait_error_message());
        assert_int_equal(status, PLAIT_LIMIT);
        assert_null(out.text);
        refused++;
    }
    plait_template_output_deinit(&out);
    plait_template_destroy(t);
    for (size_t bytes = 64;; bytes += 64) {
        plait_template_limits limits = {.memory_bytes = bytes};
        plait_status status = plait_template_create(&t, source, sizeof source - 1, &limits);
        if (status == PLAIT_OK) break;
        assert_int_equal(status, PLAIT_LIMIT);
        refused++;
    }
    plait_template_destroy(t);
    printf("%zu times refused for memory\n", refused);
}

/* Searches that are quadratic when done naively take steps in proportion to the text. */
static void searches_are_linear(void **state) {
    (void)state;
    expect("{% set a = 'a' * 200000 %}{% set b = 'a' * 100000 + 'b' %}{{ b in a }}{{ a.count(b) }}{{ "
           "a.rfind(b) }}{{ a.find('b' + b) }}"
           "{{ a.replace(b, 'x')|length }}{{ a.split(b)|length }}",
           NULL, PLAIT_OK, NULL);
    expect("{% set a = ' ' * 200000 + 'x' %}{{ a|trim }}{{ a.split() }}{{ a|wordcount }}{{ "
           "(a|striptags)|length }}{{ a|title|length }}",
           NULL, PLAIT_OK, NULL);
    expect("{% set a = 'A' + '.' * 100000 + 'B' %}{{ a.lower()|length }}{{ ('\\u03a3' * "
           "20000).lower()|length }}",
           NULL, PLAIT_OK, NULL);
    expect("{% set a = '<' * 100000 %}{{ (a|striptags)|length }}{{ a|urlize|length }}{{ (a|escape)|length }}",
           NULL, PLAIT_OK, NULL);
}

static void appending_is_linear(void **state) {
    (void)state;
    expect("{% set ns = namespace(s='') %}{% for a in range(10000) %}{% set ns.s = ns.s + 'some words ' %}{% "
           "endfor %}{{ ns.s|length }}",
           NULL, PLAIT_OK, NULL);
}

static void named_limits(void **state) {
    (void)state;
    expect("\n\n{% for a in range(100000) %}\n{{ a }}{{ a }}{{ a }}{% endfor %}", NULL, PLAIT_LIMIT,
           "200000 steps");
    expect("a\n{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}", NULL, PLAIT_LIMIT, "line 2");
    expect("{{ 9000000000000000000|round(-19, 'common') }}", NULL, PLAIT_LIMIT, "line 1"); /* 10^19 */
    expect("a\nb\n{{ 'a' * 1100000 }}", NULL, PLAIT_LIMIT,
           "line 3, column 8: output longer than the limit of 1048576 bytes");
    plait_template_output out;
    plait_template_limits fast = {.time_ns = 1};
    assert_int_equal(render_text("{% for a in range(90000) %}{% endfor %}", NULL, &fast, &out), PLAIT_LIMIT);
    assert_non_null(strstr(plait_error_message(), "ms"));
    plait_template_limits brief = {.source_bytes = 3};
    assert_int_equal(render_text("abcd", NULL, &brief, &out), PLAIT_LIMIT);
}

static void deep_variables(void **state) {
    (void)state;
    char *deep = repeated("{\"v\":", "[", 100, "");
    char *closed = repeated(deep, "]", 100, "}");
    expect("{{ v }}{{ v|tojson }}{{ v == v }}{{ v|pprint }}", closed, PLAIT_OK, NULL);
    free(deep);
    free(closed);
    deep = repeated("{\"v\":", "[", 300, "");
    closed = repeated(deep, "]", 300, "}");
    expect("{{ v }}", closed, PLAIT_LIMIT, "200");
    free(deep);
    free(closed);
    expect("{{ v }}", "[1]", PLAIT_INVALID_ARGUMENT, "expected a JSON object");
    expect("{{ v }}", "{", PLAIT_CORRUPT, "template variables: JSON line 1");
    expect("{{ v }}", "{\"v\":1}", PLAIT_OK, NULL);
}

/* The deepest that the default limits allow fits on a thread with a stack of 2 MiB (more under sanitizers). */
static void *deepest(void *user) {
    (void)user;
    static const char recursive_macro[] =
        "{% macro m(n) %}{% if n %}{% for a in [1] %}{{ (m(n) ~ '') }}{% endfor %}{% endif %}{% endmacro %}"
        "{{ m(1) }}";
    static const char *const sources[] = {
        recursive_macro,
        "{% for a in [1] recursive %}{% if 1 %}{{ [loop([1])] | join | upper }}{% endif %}{% endfor %}",
        "{% set l = [] %}{% set q = l.append({'a': l}) %}{{ l }}",
        "{% set l = [] %}{% set q = l.append((l, 1)) %}{{ l|tojson }}",
        "{% set l = [] %}{% set q = l.append({'a': l}) %}{{ l|pprint }}",
    };
    size_t limits_seen = 0;
    for (size_t i = 0; i < sizeof sources / sizeof *sources; i++) {
        plait_template_output out;
        limits_seen += render_text(sources[i], NULL, NULL, &out) == PLAIT_LIMIT;
    }
    return limits_seen == sizeof sources / sizeof *sources ? user : NULL;
}

static void stack_is_bounded(void **state) {
    pthread_attr_t attributes;
    pthread_t thread;
    void *result = NULL;
    size_t stack = (size_t)2 << 20;
#if defined(__SANITIZE_ADDRESS__)
    stack *= 8;
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
    stack *= 8;
#endif
#endif
    assert_int_equal(pthread_attr_init(&attributes), 0);
    assert_int_equal(pthread_attr_setstacksize(&attributes, stack), 0);
    assert_int_equal(pthread_create(&thread, &attributes, deepest, state), 0);
    pthread_join(thread, &result);
    pthread_attr_destroy(&attributes);
    assert_ptr_equal(result, state);
}

static void errors_name_the_place(void **state) {
    (void)state;
    expect("a\n  {{ x.y }}", NULL, PLAIT_INVALID_ARGUMENT, "template line 2, column 7: 'x' is undefined");
    expect("{{ 'a' + 1 }}", NULL, PLAIT_INVALID_ARGUMENT, "line 1, column 8");
    expect("\n{% if %}", NULL, PLAIT_CORRUPT, "template line 2, column 7: expected an expression");
    expect("{% include 'x' %}", NULL, PLAIT_UNSUPPORTED, "include");
    expect("{% extends 'x' %}", NULL, PLAIT_UNSUPPORTED, "extends");
    expect("{% import 'x' as y %}", NULL, PLAIT_UNSUPPORTED, "import");
    expect("{{ 1|nope }}", NULL, PLAIT_CORRUPT, "there is no filter named 'nope'");
    expect("\xFF", NULL, PLAIT_CORRUPT, "UTF-8");
    expect("{{ raise_exception('no ' ~ 'tools') }}", NULL, PLAIT_INVALID_ARGUMENT, "no tools");
    plait_template *t = NULL;
    plait_template_output out;
    assert_int_equal(plait_template_create(&t, "{{ strftime_now('%Y') }}", 24, NULL), PLAIT_OK);
    static const char *const bad[] = {"",
                                      "2025",
                                      "2025-02-30 00:00:00",
                                      "2025-01-01 24:00:00",
                                      "2025-01-01T00:00:00Z",
                                      "x025-01-01 00:00:00"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(plait_template_render(t, &(plait_template_input){.now = bad[i]}, &out),
                         PLAIT_INVALID_ARGUMENT);
    assert_int_equal(plait_template_render(t, NULL, &out), PLAIT_OK); /* the clock */
    assert_int_equal(out.n_bytes, 4);
    plait_template_output_deinit(&out);
    plait_template_destroy(t);
    plait_template_destroy(NULL);
}

static void *render_many(void *user) {
    const plait_template *t = user;
    static const char variables[] = "{\"l\":[3,1,2],\"s\":\"text\"}";
    plait_template_input input = {.variables_json = variables, .variables_bytes = sizeof variables - 1};
    for (int i = 0; i < 200; i++) {
        plait_template_output out;
        if (plait_template_render(t, &input, &out) != PLAIT_OK) return NULL;
        bool same = strcmp(out.text, "1-2-3 TEXTab ab!") == 0;
        plait_template_output_deinit(&out);
        if (!same) return NULL;
    }
    return user;
}

static void threads_share_a_template(void **state) {
    (void)state;
    static const char source[] = "{{ l|sort|join('-') }} {{ s|upper ~ 'a' 'b' }} {{ ('a' 'b') + '!' }}";
    plait_template *t = NULL;
    pthread_t threads[4];
    assert_int_equal(plait_template_create(&t, source, sizeof source - 1, NULL), PLAIT_OK);
    for (int i = 0; i < 4; i++) assert_int_equal(pthread_create(&threads[i], NULL, render_many, t), 0);
    for (int i = 0; i < 4; i++) {
        void *result = NULL;
        pthread_join(threads[i], &result);
        assert_ptr_equal(result, t);
    }
    plait_template_destroy(t);
}

/* Numbers are read and printed with a point, whatever locale the program has set. */
static void another_locale(void **state) {
    (void)state;
    plait_template_output out;
    assert_true(test_locale_begin());
    plait_status status =
        render_text("{{ 1.5 }} {{ x }} {{ '%.2f' % x }} {{ '{:.1e} {:g} {:.3}'.format(x, x, x) }} "
                    "{{ '2.5'|float }} {{ 2.345|round(2) }} {{ 2500|filesizeformat }} {{ {'a': x}|tojson }}",
                    "{\"x\": 0.25}", NULL, &out);
    test_locale_end();
    assert_int_equal(status, PLAIT_OK);
    assert_string_equal(out.text, "1.5 0.25 0.25 2.5e-01 0.25 0.25 2.5 2.35 2.5 kB {\"a\": 0.25}");
    plait_template_output_deinit(&out);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(deep_sources),          cmocka_unit_test(long_sources),
        cmocka_unit_test(huge_results),          cmocka_unit_test(endless_work),
        cmocka_unit_test(memory_ends_anywhere),  cmocka_unit_test(searches_are_linear),
        cmocka_unit_test(appending_is_linear),   cmocka_unit_test(named_limits),
        cmocka_unit_test(deep_variables),        cmocka_unit_test(stack_is_bounded),
        cmocka_unit_test(errors_name_the_place), cmocka_unit_test(threads_share_a_template),
        cmocka_unit_test(another_locale),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
