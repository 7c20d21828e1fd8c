/* Commands that need no model to run: tokenize and template, against golden data, byte for byte. */
#include "cli/program.h"
#include "cli/tiny.h"
#include "support/vocabularies.h"

/* ---- template ---- */

typedef struct counts {
    size_t files, equal, refused;
} counts;

static void check_case(const plait_json *root, const plait_json *c, const char *jinja, counts *n) {
    char path[PLAIT_TEST_PATH_BYTES];
    plait_strbuf variables;
    plait_strbuf_init(&variables, 0);
    plait_json_print(&variables, member(c, "variables", PLAIT_JSON_OBJECT), 0);
    write_all(program_file("c.json", path), plait_strbuf_text(&variables), variables.length);
    plait_strbuf_deinit(&variables);
    outcome o = PLAIT("template", jinja, "--conversation", path, "--now",
                      member(root, "now", PLAIT_JSON_STRING)->u.string.bytes);
    const plait_json *wanted = plait_json_get(c, "output");
    if (wanted) {
        expect_done(&o);
        assert_int_equal(o.n_out, wanted->u.string.n_bytes);
        assert_memory_equal(o.out, wanted->u.string.bytes, o.n_out);
        assert_int_equal(o.n_err, 0);
        n->equal++;
        outcome_free(&o);
    } else if (o.status != 0) { /* a renderer may accept what the sandbox of the original refuses */
        expect_refused(o, 1, "");
        n->refused++;
    } else {
        outcome_free(&o);
    }
}

/* The first cases of a file: the library's own test renders all of them. */
static void check_template(const char *path, counts *n) {
    enum { CASES = 3 };
    char jinja[PLAIT_TEST_PATH_BYTES];
    plait_json_document document;
    size_t n_bytes;
    char *text = read_all(path, &n_bytes);
    const plait_json *root = parse(text, n_bytes, &document);
    const plait_json *source = member(root, "template_text", PLAIT_JSON_STRING);
    const plait_json *cases = member(root, "cases", PLAIT_JSON_ARRAY);
    write_all(program_file("t.jinja", jinja), source->u.string.bytes, source->u.string.n_bytes);
    for (size_t i = 0; i < cases->u.array.n_items && i < CASES; i++)
        check_case(root, &cases->u.array.items[i], jinja, n);
    plait_json_document_deinit(&document);
    free(text);
    n->files++;
}

static void templates_print_exact_bytes(void **state) {
    (void)state;
    char folder[PLAIT_TEST_PATH_BYTES];
    counts n = {0};
    DIR *d = opendir(plait_test_golden("templates", folder));
    assert_non_null(d);
    for (struct dirent *entry; (entry = readdir(d)) != NULL;) {
        char path[PLAIT_TEST_PATH_BYTES + 300];
        size_t length = strlen(entry->d_name);
        if (length < 5 || strcmp(entry->d_name + length - 5, ".json") != 0) continue;
        if (strcmp(entry->d_name, "snippets.json") == 0)
            continue; /* of another form: text/template_snippets */
        snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        check_template(path, &n);
    }
    closedir(d);
    printf("golden/templates: %zu files, %zu outputs equal, %zu refused\n", n.files, n.equal, n.refused);
    assert_true(n.files >= 34 && n.equal >= 60);
}

static void templates_that_fail(void **state) {
    (void)state;
    char jinja[PLAIT_TEST_PATH_BYTES], json[PLAIT_TEST_PATH_BYTES];
    write_all(program_file("t.jinja", jinja), "{{ raise_exception('no\nway') }}", 31);
    write_all(program_file("c.json", json), "{}", 2);
    expect_refused(PLAIT("template", jinja, "--conversation", json), 1, "no way");
    write_all(jinja, "{% if %}", 8);
    expect_refused(PLAIT("template", jinja, "--conversation", json), 1, "line 1");
    write_all(jinja, "a\n", 2);
    write_all(json, "{\"a\":", 5);
    expect_refused(PLAIT("template", jinja, "--conversation", json), 1, "c.json");
    expect_refused(PLAIT("template", "none.jinja", "--conversation", json), 1, "none.jinja");
    outcome o = PLAIT_WITH("{}", 2, "template", jinja, "--conversation", "-");
    expect_done(&o);
    assert_string_equal(o.out, "a"); /* the line end at the end of a template is dropped, none is added */
    outcome_free(&o);
}

/* ---- tokenize ---- */

/* The ids in a JSON array as printed by the program. */
static void expect_ids(const plait_json *wanted, const char *line, size_t n, const char *what) {
    plait_json_document document;
    const plait_json *got = parse(line, n, &document);
    bool same = got->kind == PLAIT_JSON_ARRAY && got->u.array.n_items == wanted->u.array.n_items;
    for (size_t i = 0; same && i < got->u.array.n_items; i++)
        same = got->u.array.items[i].u.integer == wanted->u.array.items[i].u.integer;
    if (!same) fail_msg("%s: other ids: %.200s", what, line);
    plait_json_document_deinit(&document);
}

/* Golden lines that follow no second opinion, as a file for --jsonl. */
static size_t collect(const char *name, plait_strbuf *texts, plait_json_document *lines, size_t most) {
    char path[PLAIT_TEST_PATH_BYTES], relative[300];
    size_t n_bytes, n = 0;
    snprintf(relative, sizeof relative, "tokenizers/%s.jsonl", name);
    char *text = read_all(plait_test_golden(relative, path), &n_bytes);
    for (char *line = text, *end; n < most && (end = strchr(line, '\n')) != NULL; line = end + 1) {
        const plait_json *root = parse(line, (size_t)(end - line), &lines[n]);
        if (!plait_json_get(root, "text") || plait_json_get(root, "second_ids")) {
            plait_json_document_deinit(&lines[n]);
            continue;
        }
        plait_json_print(texts, plait_json_get(root, "text"), 0);
        plait_strbuf_append_char(texts, '\n');
        n++;
    }
    free(text);
    return n;
}

static void compare_lines(const outcome *o, const plait_json_document *lines, size_t n, const char *key) {
    const char *line = o->out;
    for (size_t i = 0; i < n; i++) {
        const char *end = strchr(line, '\n');
        assert_non_null(end);
        expect_ids(member(lines[i].root, key, PLAIT_JSON_ARRAY), line, (size_t)(end - line),
                   member(lines[i].root, "id", PLAIT_JSON_STRING)->u.string.bytes);
        line = end + 1;
    }
    assert_int_equal(line - o->out, o->n_out);
}

static size_t check_vocabulary(const char *name) {
    enum { LINES = 400 };
    static plait_json_document lines[LINES];
    char path[PLAIT_TEST_PATH_BYTES], vocabulary[PLAIT_TEST_PATH_BYTES], relative[300];
    size_t n_bytes;
    plait_strbuf texts;
    snprintf(relative, sizeof relative, "tokenizers/vocab/%s.gguf.gz", name);
    unsigned char *bytes = plait_test_gunzip(plait_test_golden(relative, path), &n_bytes);
    write_all(program_file("vocabulary.gguf", vocabulary), bytes, n_bytes);
    free(bytes);
    plait_strbuf_init(&texts, 0);
    size_t n = collect(name, &texts, lines, LINES);
    outcome o = PLAIT_WITH(texts.bytes, texts.length, "tokenize", vocabulary, "--jsonl");
    expect_done(&o);
    compare_lines(&o, lines, n, "ids_special");
    outcome_free(&o);
    o = PLAIT_WITH(texts.bytes, texts.length, "tokenize", vocabulary, "--jsonl", "--no-special");
    expect_done(&o);
    compare_lines(&o, lines, n, "ids_plain");
    /* One text at a time: the first that is not short. */
    const plait_json *text = member(lines[n / 2].root, "text", PLAIT_JSON_STRING);
    outcome one = PLAIT_WITH(text->u.string.bytes, text->u.string.n_bytes, "tokenize", vocabulary, "--json");
    expect_done(&one);
    expect_ids(member(lines[n / 2].root, "ids_special", PLAIT_JSON_ARRAY), one.out, one.n_out, name);
    outcome_free(&one);
    outcome back = PLAIT_WITH(o.out, o.n_out, "tokenize", vocabulary, "--jsonl", "--decode");
    expect_done(&back);
    assert_int_equal(count_lines(back.out), n);
    outcome_free(&back);
    outcome_free(&o);
    plait_strbuf_deinit(&texts);
    for (size_t i = 0; i < n; i++) plait_json_document_deinit(&lines[i]);
    return n;
}

static void golden_ids(void **state) {
    (void)state;
    size_t n_spm = check_vocabulary("llama-spm"), n_bpe = check_vocabulary("smollm2");
    printf("golden/tokenizers: %zu lines of llama-spm, %zu of smollm2, with and without special tokens\n",
           n_spm, n_bpe);
    assert_true(n_spm >= 100 && n_bpe >= 100);
}

/* Bytes that no text has come back, and so does NUL. */
static void exact_bytes_both_ways(void **state) {
    static const char text[] = "a\0b ~\n<|im_end|>\n";
    (void)state;
    char model[PLAIT_TEST_PATH_BYTES];
    tiny_model(model);
    outcome ids = PLAIT_WITH("! \n<|im_end|>", 13, "tokenize", model);
    expect_done(&ids);
    assert_string_equal(ids.out, "[0,94,95,97]\n");
    outcome_free(&ids);
    ids = PLAIT_WITH("! <|im_end|>", 12, "tokenize", model, "--no-special");
    expect_done(&ids);
    assert_string_equal(ids.out, "[0,94,27,91,72,76,62,68,77,67,91,29]\n");
    outcome back = PLAIT_WITH(ids.out, ids.n_out, "tokenize", model, "--decode");
    expect_done(&back);
    assert_string_equal(back.out, "! <|im_end|>"); /* no line end added */
    outcome_free(&back);
    outcome_free(&ids);
    /* The vocabulary has no token for NUL; what it has comes through, in order. */
    ids = PLAIT_WITH(text, sizeof text - 1, "tokenize", model);
    expect_done(&ids);
    back = PLAIT_WITH(ids.out, ids.n_out, "tokenize", model, "--decode");
    assert_string_equal(back.out, "ab ~\n<|im_end|>\n");
    outcome_free(&back);
    outcome_free(&ids);
    outcome empty = PLAIT("tokenize", model);
    assert_string_equal(empty.out, "[]\n");
    outcome_free(&empty);
}

static void bad_input(void **state) {
    (void)state;
    char model[PLAIT_TEST_PATH_BYTES];
    tiny_model(model);
    expect_refused(PLAIT_WITH("[1,112]", 7, "tokenize", model, "--decode"), 1, "112");
    expect_refused(PLAIT_WITH("[1,-1]", 6, "tokenize", model, "--decode"), 1, "entry 1");
    expect_refused(PLAIT_WITH("[1,1.5]", 7, "tokenize", model, "--decode"), 1, "entry 1");
    expect_refused(PLAIT_WITH("{}", 2, "tokenize", model, "--decode"), 1, "object");
    expect_refused(PLAIT_WITH("", 0, "tokenize", model, "--decode"), 1, "standard input");
    expect_refused(PLAIT_WITH("\"a\"\nb\n", 6, "tokenize", model, "--jsonl"), 1, "line 2");
    expect_refused(PLAIT_WITH("[1]\n", 4, "tokenize", model, "--jsonl"), 1, "array");
    expect_refused(PLAIT_WITH("\"a\"\n", 4, "tokenize", model, "--jsonl", "--decode"), 1, "string");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(templates_print_exact_bytes),
        cmocka_unit_test(templates_that_fail),
        cmocka_unit_test(golden_ids),
        cmocka_unit_test(exact_bytes_both_ways),
        cmocka_unit_test(bad_input),
    };
    return cmocka_run_group_tests(tests, program_setup, program_teardown);
}
