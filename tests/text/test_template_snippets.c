/* Several thousand expressions and statements against jinja2 itself (tests/golden/templates/snippets.json): equal outputs, and
 * errors where Python gives errors. */
#include "text/template_support.h"

static void every_snippet(void **state) {
    (void)state;
    plait_json_document document;
    read_json(PLAIT_GOLDEN_DIR "/templates/snippets.json", &document);
    const plait_json *cases = plait_json_get(document.root, "cases");
    const plait_json *variables = plait_json_get(document.root, "variables");
    const char *now = get_string(document.root, "now")->u.string.bytes;
    size_t outputs = 0, errors = 0, wrong = 0;
    for (size_t i = 0; i < cases->u.array.n_items; i++) {
        const plait_json *c = &cases->u.array.items[i], *text = get_string(c, "template");
        const plait_json *wanted = plait_json_get(c, "output");
        plait_template *t = NULL;
        plait_template_output out = {0};
        plait_template_input input = {.variables = variables, .now = now};
        plait_status status = plait_template_create(&t, text->u.string.bytes, text->u.string.n_bytes, NULL);
        if (status == PLAIT_OK) status = plait_template_render(t, &input, &out);
        if (status == PLAIT_OK) check_segments(&out);
        bool good =
            wanted ? status == PLAIT_OK && text_equals(wanted, out.text, out.n_bytes) : status != PLAIT_OK;
        if (!good) {
            wrong++;
            print_error("%s\nexpected: %s\nfound: %s\n", text->u.string.bytes,
                        wanted ? wanted->u.string.bytes : "an error",
                        status ? plait_error_message() : out.text);
        }
        *(wanted ? &outputs : &errors) += 1;
        plait_template_output_deinit(&out);
        plait_template_destroy(t);
    }
    printf("%zu outputs, %zu errors, %zu wrong\n", outputs, errors, wrong);
    assert_true(outputs > 3000 && errors > 500);
    assert_int_equal(wrong, 0);
    plait_json_document_deinit(&document);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_snippet)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
