/* plait chat through a pipe: each answer is what the whole conversation so far gives when it is run from the start, and
 * only new tokens are fed. */
#include "cli/tiny.h"

#include "base/strbuf.h"

/* The answer to a conversation from its start: rendered by `template`, tokenised by `tokenize`, run by `run`. */
static char *answer_from_scratch(const char *model, const char *messages, size_t *out_n_prompt) {
    char jinja[PLAIT_TEST_PATH_BYTES];
    plait_strbuf variables;
    plait_json_document document;
    write_all(program_file("chatml.jinja", jinja), TINY_TEMPLATE, strlen(TINY_TEMPLATE));
    plait_strbuf_init(&variables, 0);
    plait_strbuf_printf(&variables, "{\"add_generation_prompt\":true,\"messages\":[%s]}", messages);
    outcome prompt =
        PLAIT_WITH(plait_strbuf_text(&variables), variables.length, "template", jinja, "--conversation", "-");
    expect_done(&prompt);
    outcome ids = PLAIT_WITH(prompt.out, prompt.n_out, "tokenize", model);
    expect_done(&ids);
    ids.out[strcspn(ids.out, "]")] = '\0';
    outcome o = PLAIT("run", model, "--ids", ids.out + 1, "-n", "12", "--json");
    expect_done(&o);
    const plait_json *root = parse(o.out, o.n_out, &document);
    const plait_json *text = member(root, "text", PLAIT_JSON_STRING);
    *out_n_prompt = member(root, "prompt_ids", PLAIT_JSON_ARRAY)->u.array.n_items;
    char *answer = strdup(text->u.string.bytes);
    plait_json_document_deinit(&document);
    plait_strbuf_deinit(&variables);
    outcome_free(&prompt);
    outcome_free(&ids);
    outcome_free(&o);
    return answer;
}

static void add_message(plait_strbuf *messages, const char *role, const char *text) {
    plait_strbuf_printf(messages, "%s{\"role\":\"%s\",\"content\":", messages->length ? "," : "", role);
    plait_strbuf_json_string(messages, text);
    plait_strbuf_append_char(messages, '}');
}

/* The number of tokens that a turn fed, from its line on standard error; moves *err behind it. */
static size_t fed(const char **err) {
    *err = strstr(*err, "plait: prompt ");
    assert_non_null(*err);
    *err += strlen("plait: prompt ");
    return (size_t)strtoul(*err, NULL, 10);
}

static void turns_equal_the_whole(void **state) {
    static const char *const texts[] = {"Hello there", "And now?", "Good bye"};
    (void)state;
    char model[PLAIT_TEST_PATH_BYTES];
    plait_strbuf messages, input;
    tiny_model(model);
    plait_strbuf_init(&messages, 0);
    plait_strbuf_init(&input, 0);
    for (int i = 0; i < 3; i++) plait_strbuf_printf(&input, "%s\n", texts[i]);
    outcome o = PLAIT_WITH(plait_strbuf_text(&input), input.length, "chat", model, "--system", "Be brief.",
                           "-n", "12");
    expect_done(&o);
    const char *out = o.out, *err = o.err;
    add_message(&messages, "system", "Be brief.");
    for (int i = 0; i < 3; i++) {
        size_t n_prompt, n_fed = fed(&err);
        add_message(&messages, "user", texts[i]);
        char *answer = answer_from_scratch(model, plait_strbuf_text(&messages), &n_prompt);
        size_t n = strlen(answer);
        if (strncmp(out, answer, n) != 0 || out[n] != '\n')
            fail_msg("turn %d: expected \"%s\" in \"%s\"", i, answer, out);
        printf("turn %d: %zu tokens in all, %zu fed\n", i, n_prompt, n_fed);
        assert_true(i == 0 ? n_fed == n_prompt : n_fed < n_prompt / 2);
        add_message(&messages, "assistant", answer);
        out += n + 1;
        free(answer);
    }
    assert_string_equal(out, "");
    plait_strbuf_deinit(&messages);
    plait_strbuf_deinit(&input);
    outcome_free(&o);
}

/* Commands, continued lines, empty lines; the last line may lack its end. */
static void commands_and_lines(void **state) {
    static const char first[] = "Hello\n", twice[] = "Hello\n\n/clear\nHello", joined[] = "Hel\\\nlo\n",
                      quit[] = "Hello\n/stats\n/walk\n/help\n/quit\nHello\n";
    (void)state;
    char model[PLAIT_TEST_PATH_BYTES];
    tiny_model(model);
    outcome one = PLAIT_WITH(first, sizeof first - 1, "chat", model, "-n", "8"),
            two = PLAIT_WITH(twice, sizeof twice - 1, "chat", model, "-n", "8"),
            three = PLAIT_WITH(joined, sizeof joined - 1, "chat", model, "-n", "8"),
            four = PLAIT_WITH(quit, sizeof quit - 1, "chat", model, "-n", "8"), none = PLAIT("chat", model);
    expect_done(&one);
    expect_done(&two);
    expect_done(&three);
    expect_done(&four);
    expect_done(&none);
    assert_int_equal(two.n_out, 2 * one.n_out); /* a cleared conversation begins as the first did */
    assert_memory_equal(two.out, one.out, one.n_out);
    assert_memory_equal(two.out + one.n_out, one.out, one.n_out);
    assert_string_not_equal(three.out, one.out);
    assert_string_equal(four.out, one.out);
    assert_non_null(strstr(four.err, "/clear"));
    assert_non_null(strstr(four.err, "\"/walk\""));
    assert_string_equal(none.out, "");
    outcome_free(&one);
    outcome_free(&two);
    outcome_free(&three);
    outcome_free(&four);
    outcome_free(&none);
}

static void conversations_that_fail(void **state) {
    (void)state;
    char model[PLAIT_TEST_PATH_BYTES];
    tiny_model(model);
    expect_refused(PLAIT_WITH("Hello\n", 6, "chat", model, "--ctx", "8"), 1, "longer than the context of 8");
    plait_test_golden("archs/qwen3.gguf", model);
    expect_refused(PLAIT_WITH("Hello\n", 6, "chat", model), 1, "");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(turns_equal_the_whole),
        cmocka_unit_test(commands_and_lines),
        cmocka_unit_test(conversations_that_fail),
    };
    return cmocka_run_group_tests(tests, program_setup, program_teardown);
}
