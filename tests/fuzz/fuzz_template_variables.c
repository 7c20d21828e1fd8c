/* room: text */
/* Any bytes as the JSON variables of a template that puts them through everything: the first byte chooses which. The
 * second property checked: a control character that no template holds never counts as the template's. */
#include "base/utf8.h"
#include "plait/template.h"

#include <stdint.h>
#include <string.h>

static const char *const sources[] = {
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m['content'] | trim }}<|im_end|>\n{% endfor %}",
    "{{ messages | tojson(indent=2) }}{{ tools | tojson }}{{ tools }}{{ messages }}{{ s | pprint }}",
    "{% for k, v in d | dictsort %}{{ k }}={{ v }};{% endfor %}{% for k, v in d | items %}{{ k ~ v }}{% "
    "endfor %}",
    "{{ s | upper }}{{ s | title }}{{ s.lower() }}{{ s.swapcase() }}{{ s | capitalize }}{{ s.title() }}{{ "
    "s.casefold() }}",
    "{{ s | wordwrap(7) }}{{ s | truncate(5) }}{{ s | indent(3, true, true) }}{{ s | center(30) }}{{ s | "
    "urlize }}",
    "{{ s.split() }}{{ s.split('a') }}{{ s.rsplit(none, 2) }}{{ s.splitlines() }}{{ s.partition('b') }}{{ "
    "s[::-1] }}{{ s[1:-1:2] }}",
    "{{ l | sort }}{{ l | unique | list }}{{ l | sum }}{{ l | join('-') }}{{ l | batch(2, 'x') | list }}{{ l "
    "| slice(3) | list }}",
    "{{ l | groupby('a') }}{{ l | map(attribute='a.b') | list }}{{ l | selectattr('a') | list }}{{ l | max "
    "}}{{ l | min }}",
    "{{ s | format(i, f) }}{{ s.format(i, f, a=s) }}{{ s % i }}{{ '%5.2f' % f }}{{ '{:>8}'.format(s) }}",
    "{{ i + f }}{{ i // f }}{{ i % f }}{{ i ** f }}{{ f | round(2) }}{{ s | int }}{{ s | float }}{{ i | "
    "filesizeformat }}",
    "{{ s | escape }}{{ s | striptags }}{{ d | xmlattr }}{{ s | urlencode }}{{ d | urlencode }}{{ s | safe ~ "
    "s }}",
    "{{ strftime_now(s) }}{{ s in s }}{{ s < s }}{{ l == l }}{{ d == d }}{{ l < l }}{{ s * 3 }}{{ l + l }}",
    "{% macro r(x) %}{% if x is mapping %}{% for k in x %}{{ k }}:{{ r(x[k]) }}{% endfor %}{% elif x is "
    "string %}{{ x }}"
    "{% elif x is iterable %}{% for y in x %}{{ r(y) }}{% endfor %}{% else %}{{ x }}{% endif %}{% endmacro "
    "%}{{ r(v) }}",
    "{{ s.replace('a', 'bb') }}{{ s.find('a') }}{{ s.count('a') }}{{ s.strip('ab') }}{{ s.zfill(9) }}{{ "
    "s.expandtabs(3) }}"
    "{{ s.isalpha() }}{{ s.istitle() }}{{ s.isidentifier() }}{{ s.removeprefix('a') }}{{ s.center(9, '*') }}",
};

static void must(int condition) {
    if (!condition) __builtin_trap();
}

static void check_output(const plait_template_output *out) {
    size_t at = 0;
    must(plait_utf8_valid(out->text, out->n_bytes));
    for (size_t i = 0; i < out->n_segments; i++) {
        must(out->segments[i].offset_bytes == at && out->segments[i].n_bytes > 0);
        at += out->segments[i].n_bytes;
        if (!out->segments[i].from_template) continue;
        const char *p =
            out->text + out->segments[i].offset_bytes; /* this mark is in no template: it is never theirs */
        for (size_t k = 0; k < out->segments[i].n_bytes; k++) must(p[k] != '\x01');
    }
    must(at == out->n_bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size < 1) return 0;
    const plait_template_limits limits = {
        .steps = 50000, .memory_bytes = 8 << 20, .output_bytes = 1 << 20, .depth = 200, .parse_depth = 60};
    const char *source = sources[data[0] % (sizeof sources / sizeof *sources)];
    plait_template *t = NULL;
    must(plait_template_create(&t, source, strlen(source), &limits) == PLAIT_OK);
    plait_template_input input = {
        .variables_json = (const char *)data + 1, .variables_bytes = size - 1, .now = "2025-03-09 14:05:07"};
    plait_template_output out;
    if (plait_template_render(t, &input, &out) == PLAIT_OK)
        check_output(&out);
    else
        must(plait_error_message()[0] != '\0' && out.text == NULL);
    plait_template_output_deinit(&out);
    plait_template_destroy(t);
    return 0;
}
