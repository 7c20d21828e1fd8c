/* The splitting rules against rules.json: its expressions, stage by stage as its README says, with PCRE2's interpreter,
 * on random text. The tree's own rules differ in form (stages fused, no lookbehind into other pieces). */
#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "support/random_text.h"
#include "support/vocabularies.h"
#include "text/tokenizer/internal.h"

#include <jansson.h>

enum { ROUNDS = 3000, MAX_CHARS = 40, MAX_BYTES = 4 * MAX_CHARS };

/* Where pieces end. */
typedef struct cuts {
    uint32_t ends[MAX_BYTES];
    size_t n;
    const char *text;
} cuts;

static cuts found; /* plait_tok_piece_fn has no user pointer */

static plait_status note_piece(plait_tokenizer_scratch *s, const char *piece, uint32_t n_bytes) {
    (void)s;
    found.ends[found.n++] = (uint32_t)(piece - found.text) + n_bytes;
    return PLAIT_OK;
}

/* \s is Unicode White_Space, which PCRE2's is not quite. */
static void widen_spaces(const char *from, char *to) {
    bool in_class = false;
    for (size_t i = 0; from[i]; i++) {
        if (from[i] == '\\' && (from[i + 1] == 's' || from[i + 1] == 'S')) {
            static const char white[] = "\\t-\\r\\x{85}\\p{Z}";
            bool not = from[i + 1] == 'S';
            to += sprintf(to, in_class ? "%s%s" : "[%s%s]", not ? "^" : "", white);
            i++;
        } else {
            if (from[i] == '\\')
                *to++ = from[i++];
            else if (from[i] == '[')
                in_class = true;
            else if (from[i] == ']')
                in_class = false;
            *to++ = from[i];
        }
    }
    *to = '\0';
}

typedef struct rule {
    pcre2_code *stages[PLAIT_TOK_MAX_STAGES];
    size_t n_stages;
} rule;

static void compile(rule *r, const json_t *stages) {
    char pattern[8192];
    size_t i;
    json_t *stage;
    r->n_stages = 0;
    json_array_foreach(stages, i, stage) {
        int code;
        PCRE2_SIZE offset;
        widen_spaces(json_string_value(stage), pattern);
        r->stages[i] = pcre2_compile((PCRE2_SPTR)pattern, PCRE2_ZERO_TERMINATED, PCRE2_UTF | PCRE2_UCP, &code,
                                     &offset, NULL);
        if (!r->stages[i]) fail_msg("%s: error %d at %zu", pattern, code, (size_t)offset);
        r->n_stages = i + 1;
    }
}

/* The cuts of one stage added to those before it. */
static void apply(const pcre2_code *code, cuts *c) {
    cuts next = {.text = c->text};
    pcre2_match_data *data = pcre2_match_data_create(1, NULL);
    uint32_t start = 0;
    for (size_t i = 0; i < c->n; start = c->ends[i++]) {
        uint32_t n = c->ends[i] - start, at = 0;
        while (at < n && pcre2_match(code, (PCRE2_SPTR)c->text + start, n, at, 0, data, NULL) > 0) {
            const PCRE2_SIZE *range = pcre2_get_ovector_pointer(data);
            if (range[0] > at) next.ends[next.n++] = start + (uint32_t)range[0];
            next.ends[next.n++] = start + (uint32_t)range[1];
            at = (uint32_t)range[1];
        }
        if (at < n) next.ends[next.n++] = start + n;
    }
    pcre2_match_data_free(data);
    *c = next;
}

static void check_text(const char *name, const rule *r, plait_tokenizer_scratch *s, const char *text,
                       uint32_t n) {
    cuts wanted = {.ends = {n}, .n = 1, .text = text};
    for (size_t i = 0; i < r->n_stages; i++) apply(r->stages[i], &wanted);
    found = (cuts){.text = text};
    assert_int_equal(plait_tok_split_run(s, text, n, note_piece), PLAIT_OK);
    if (found.n != wanted.n || memcmp(found.ends, wanted.ends, wanted.n * sizeof *wanted.ends) != 0)
        fail_msg("%s: \"%.*s\" is %zu pieces, expected %zu", name, (int)n, text, found.n, wanted.n);
}

/* Texts full of what rules decide about. */
static uint32_t hard_text(uint64_t *random, char *text) {
    static const char *const parts[] = {" ",
                                        "  ",
                                        "\n",
                                        "\r\n",
                                        "\t",
                                        "'s",
                                        "'LL",
                                        "'\xC5\xBF",
                                        "1",
                                        "23",
                                        "\xD9\xA3",
                                        "a",
                                        "Zb",
                                        "\xC3\xA9",
                                        "e\xCC\x81",
                                        ".",
                                        "!?",
                                        "\xE2\x80\x99",
                                        "\xC2\xA0",
                                        "\xE3\x80\x80",
                                        "\xC2\x85",
                                        "\xE1\xA0\x8E",
                                        "\xE4\xB8\xAD",
                                        "\xEA\xB0\x80",
                                        "\xE0\xA4\x95\xE0\xA5\x8D",
                                        "_",
                                        "$",
                                        "`",
                                        "/",
                                        "\xF0\x9F\x98\x80",
                                        "\xEF\xBB\xBF",
                                        "\xE2\x81\xA0"};
    size_t n = 0, n_parts = random_below(random, 16);
    for (size_t i = 0; i < n_parts; i++) {
        const char *part = parts[random_below(random, sizeof parts / sizeof *parts)];
        memcpy(text + n, part, strlen(part));
        n += strlen(part);
    }
    return (uint32_t)n;
}

static void check_rule(const char *name, const json_t *stages, const plait_tok_pre *pre) {
    plait_tokenizer tokenizer = {.model = PLAIT_TOK_BYTE_BPE};
    plait_tokenizer_scratch *s;
    rule r;
    char text[MAX_BYTES];
    uint64_t random = 3;
    compile(&r, stages);
    assert_int_equal(plait_tok_split_compile(&tokenizer.split, pre->rule), PLAIT_OK);
    for (int jit = 0; jit < 2; jit++) {
        for (size_t i = 0; i < PLAIT_TOK_MAX_STAGES; i++) tokenizer.split.jit[i] &= jit == 0;
        assert_int_equal(plait_tokenizer_scratch_create(&s, &tokenizer), PLAIT_OK);
        for (int round = 0; round < ROUNDS; round++) {
            check_text(name, &r, s, text, hard_text(&random, text));
            check_text(name, &r, s, text,
                       (uint32_t)random_text(&random, random_below(&random, MAX_CHARS), text));
        }
        plait_tokenizer_scratch_destroy(s);
    }
    plait_tok_split_deinit(&tokenizer.split);
    for (size_t i = 0; i < r.n_stages; i++) pcre2_code_free(r.stages[i]);
}

static void rules_split_as_stated(void **state) {
    (void)state;
    char path[PLAIT_TEST_PATH_BYTES];
    json_t *rules = json_load_file(plait_test_golden("tokenizers/rules.json", path), 0, NULL);
    assert_non_null(rules);
    const char *name;
    json_t *rule_name;
    size_t n = 0;
    json_object_foreach(json_object_get(rules, "pre"), name, rule_name) {
        const plait_tok_pre *pre;
        assert_int_equal(plait_tok_pre_find(name, strlen(name), &pre), PLAIT_OK);
        check_rule(name, json_object_get(rules, json_string_value(rule_name)), pre);
        n++;
    }
    check_rule("newlines", json_object_get(rules, "newlines"), plait_tok_pre_newlines());
    printf("rules.json: %zu names, %d random texts each, with and without JIT\n", n + 1, 4 * ROUNDS);
    json_decref(rules);
}

static void unknown_names_list_the_known(void **state) {
    (void)state;
    const plait_tok_pre *pre = NULL;
    assert_int_equal(plait_tok_pre_find("gpt-1", 5, &pre), PLAIT_UNSUPPORTED);
    assert_null(pre);
    assert_non_null(strstr(plait_error_message(), "\"gpt-1\""));
    for (size_t i = 0; plait_tokenizer_rule_name(i); i++)
        assert_non_null(strstr(plait_error_message(), plait_tokenizer_rule_name(i)));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rules_split_as_stated),
        cmocka_unit_test(unknown_names_list_the_known),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
