/* Templates and JSON when memory runs out: at whichever allocation it happens, the call says so, and nothing leaks. */
/* room: text */
#include "fault/fault.h"
#include "plait/template.h"

#include "base/os.h"
#include "base/status.h"
#include "support/paths.h"
#include "text/json.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

/* Puts most kinds of values and functions through a rendering, long enough that the arena takes several chunks. */
static const char source[] =
    "{%- macro show2(y) %}{{ caller(y) }}{% endmacro %}"
    "{%- macro show(x, depth=0) -%}{% if x is mapping %}{% for k, v in x|dictsort %}{{ k ~ '=' ~ show(v, "
    "depth + 1) }};{% endfor %}"
    "{% elif x is string %}{{ x|upper }}{% elif x is sequence %}{{ x|map('string')|join(',') }}{% else %}{{ "
    "x }}{% endif %}"
    "{%- endmacro -%}\n"
    "{% set ns = namespace(text='', n=0) %}\n"
    "{% for m in messages if m.role != 'tool' %}{% set ns.text = ns.text + m.content + '\\n' %}{% set ns.n = "
    "ns.n + 1 %}\n"
    "{{ loop.index }}/{{ loop.length }} {{ (loop.previtem or m).role }} {{ m|tojson(indent=2) }}\n{% endfor "
    "%}\n"
    "{{ show(messages) }}{{ show(extra) }}{{ ns }}{{ nothing }}{{ ns.text.split()|unique|sort|list }}\n"
    "{% call(a) show2('x') %}{{ a }}{% endcall %}{% filter indent(4) %}a\nb{{ ns.text }}{% endfilter %}\n"
    "{{ '%s %05d' % ('a', 7) }}{{ '{:>8}{!r}'.format(1, 'b') }}{{ strftime_now('%d %b %Y') }}{{ "
    "ns.text|wordwrap(10) }}\n"
    "{{ messages|groupby('role') }}{{ extra|pprint }}{{ ns.text[::-1] }}{{ ns.text|title }}{{ "
    "range(50)|batch(7)|list }}";
static const char loop_source[] = "{% for i in range(300) %}{{ i }}{% set q = [i, {'a': i}] %}{% endfor %}";
static const char variables[] =
    "{\"messages\":[{\"role\":\"user\",\"content\":\"one two three\"},{\"role\":\"tool\",\"content\":\"x\"},"
    "{\"role\":\"assistant\",\"content\":\"vier "
    "f\\u00fcnf\"}],\"extra\":{\"b\":[1,2.5,null,true],\"a\":{\"c\":\"d\"}},\"bos_token\":\"<s>\"}";

static plait_status life_of(const char *text, size_t n_bytes) {
    plait_template *t = NULL;
    PLAIT_TRY(plait_template_create(&t, text, n_bytes, NULL));
    plait_template_output out;
    plait_template_input input = {
        .variables_json = variables, .variables_bytes = sizeof variables - 1, .now = "2025-03-09 14:05:07"};
    plait_status status = plait_template_render(t, &input, &out);
    if (status != PLAIT_OK) assert_null(out.text);
    plait_template_output_deinit(&out);
    plait_template_destroy(t);
    return status;
}

static plait_status rich_life(void *user) {
    (void)user;
    return life_of(source, sizeof source - 1);
}

static plait_status loop_life(void *user) {
    (void)user;
    return life_of(loop_source, sizeof loop_source - 1);
}

/* A message of the template itself, which is kept in full. */
static plait_status refusal_life(void *user) {
    (void)user;
    static const char text[] = "{{ raise_exception('no ' * 1000) }}";
    plait_template *t = NULL;
    plait_template_output out;
    PLAIT_TRY(plait_template_create(&t, text, sizeof text - 1, NULL));
    plait_status status = plait_template_render(t, NULL, &out);
    if (status == PLAIT_INVALID_ARGUMENT) {
        assert_int_equal(strlen(out.raised), 3000);
        status = PLAIT_OK;
    }
    plait_template_output_deinit(&out);
    plait_template_destroy(t);
    return status;
}

static plait_status json_life(void *user) {
    (void)user;
    plait_json_document d;
    plait_strbuf s;
    plait_status status = plait_json_parse(&d, variables, sizeof variables - 1, NULL);
    if (status != PLAIT_OK) {
        assert_null(d.root);
        return status;
    }
    plait_strbuf_init(&s, 0);
    plait_json_print(&s, d.root, 2);
    status = plait_strbuf_status(&s);
    plait_strbuf_deinit(&s);
    plait_json_document_deinit(&d);
    return status;
}

/* A real template and its first conversation, kept parsed outside of the counted part. */
typedef struct golden {
    plait_json_document document;
} golden;

static plait_status golden_life(void *user) {
    const golden *g = user;
    const plait_json *text = plait_json_get(g->document.root, "template_text");
    plait_template *t = NULL;
    plait_template_output out;
    PLAIT_TRY(plait_template_create(&t, text->u.string.bytes, text->u.string.n_bytes, NULL));
    plait_template_input input = {
        .variables =
            plait_json_get(&plait_json_get(g->document.root, "cases")->u.array.items[0], "variables"),
        .now = "2025-03-09 14:05:07"};
    plait_status status = plait_template_render(t, &input, &out);
    plait_template_output_deinit(&out);
    plait_template_destroy(t);
    return status;
}

static void lives_of_made_up_templates(void **state) {
    (void)state;
    assert_true(fault_each(rich_life, NULL) > 10);
    fault_each(loop_life, NULL);
    fault_each(refusal_life, NULL);
    fault_each(json_life, NULL);
}

static void life_of_a_real_template(void **state) {
    (void)state;
    golden g;
    plait_file file;
    assert_int_equal(plait_file_open(&file, PLAIT_GOLDEN_DIR "/templates/google-gemma-4-31B-it.json", false),
                     PLAIT_OK);
    assert_int_equal(plait_json_parse(&g.document, (const char *)file.bytes, (size_t)file.size_bytes, NULL),
                     PLAIT_OK);
    plait_file_close(&file);
    assert_true(fault_each(golden_life, &g) > 10);
    plait_json_document_deinit(&g.document);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lives_of_made_up_templates),
        cmocka_unit_test(life_of_a_real_template),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
