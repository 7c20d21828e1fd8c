/* labels: slow */
/* A real model, used as people use it: greedy answers and perplexity against golden/models, which llama.cpp and an exact
 * evaluation computed. Needs scripts/get-models. */
#include "cli/program.h"

#include <math.h>

#define SMOLLM2 "SmolLM2-135M-Instruct.Q4_1.gguf"

static const char *need_model(char path[PLAIT_TEST_PATH_BYTES]) {
    const char *found = plait_test_model(SMOLLM2, path);
    if (!found) fail_msg("%s is needed", SMOLLM2);
    return found;
}

/* Mean of -log p of a golden text, in one window: the bound is that of golden/models/README.md, for the same text. */
static void perplexity_is_golden(void **state) {
    (void)state;
    char model[PLAIT_TEST_PATH_BYTES], text[PLAIT_TEST_PATH_BYTES];
    plait_json_document golden, document;
    size_t n;
    need_model(model);
    char *bytes = read_all(plait_test_golden("models/smollm2/perplexity.json", text), &n);
    const plait_json *texts = member(parse(bytes, n, &golden), "texts", PLAIT_JSON_ARRAY);
    const plait_json *first = &texts->u.array.items[0];
    char relative[300];
    snprintf(relative, sizeof relative, "models/texts/%s.txt",
             member(first, "name", PLAIT_JSON_STRING)->u.string.bytes);
    outcome o =
        PLAIT("perplexity", model, "-f", plait_test_golden(relative, text), "--windows", "4", "--json");
    expect_done(&o);
    const plait_json *root = parse(o.out, o.n_out, &document);
    double nll = number(member(root, "mean_nll", PLAIT_JSON_REAL)),
           wanted =
               number(member(member(first, "reference", PLAIT_JSON_OBJECT), "mean_nll", PLAIT_JSON_REAL));
    printf("%s: mean -log p %.4f, exact %.4f\n", relative, nll, wanted);
    assert_true(fabs(nll - wanted) <= 0.015);
    plait_json_document_deinit(&golden);
    plait_json_document_deinit(&document);
    outcome_free(&o);
    free(bytes);
}

static void answers_questions(void **state) {
    (void)state;
    char model[PLAIT_TEST_PATH_BYTES];
    need_model(model);
    outcome o = PLAIT("run", model, "-p", "The capital of France is", "-n", "4"),
            chat = PLAIT_WITH("Name three primary colors.\n", 27, "chat", model, "-n", "48");
    expect_done(&o);
    expect_done(&chat);
    assert_non_null(strstr(o.out, "Paris"));
    assert_non_null(strstr(chat.out, "lue"));
    outcome_free(&o);
    outcome_free(&chat);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(perplexity_is_golden),
        cmocka_unit_test(answers_questions),
    };
    return cmocka_run_group_tests(tests, program_setup, program_teardown);
}
