/* labels: slow */
/* No input takes more than n log n steps: the scratch counts heap pops, trie steps and searches, and PCRE2 counts its
 * own steps through callouts. No clock. */
#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "support/synthetic.h"
#include "support/vocabularies.h"
#include "text/tokenizer/internal.h"

enum { N = 1 << 15, STEPS_PER_BYTE = 24 /* more than log2(N) */ };

static const char *const units[] = {"a",
                                    " ",
                                    "\n",
                                    "\t",
                                    "=",
                                    "1",
                                    "\xF0\x9F\x98\x80",
                                    "\xE4\xB8\xAD",
                                    "ab",
                                    "a ",
                                    " \n",
                                    "  x",
                                    "'s",
                                    "<",
                                    "</",
                                    "<|",
                                    "<|im_start|",
                                    "<|im_end|>",
                                    "</s",
                                    "</s>",
                                    "<s><s",
                                    "\xCC\x81",
                                    "\xE2\x96\x81",
                                    "\xFF",
                                    "\r",
                                    "\xC2\xA0",
                                    "<start_of_turn><end_of_turn>",
                                    "\xEC\x95\x88",
                                    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaab",
                                    "\xCC\x81\xCC\xA3",
                                    "<mask> ",
                                    "<|end|> \n"};

static size_t repeat(char *text, const char *unit) {
    size_t n = strlen(unit), used = 0;
    while (used + n <= N) memcpy(text + used, unit, n), used += n;
    return used;
}

static void count(const char *name, const plait_tokenizer *t, plait_tokenizer_scratch *s, const char *text,
                  size_t n, double *worst) {
    plait_tokens ids = {0};
    for (uint32_t flags = 0; flags <= PLAIT_TOKENIZE_PARSE_SPECIAL; flags += PLAIT_TOKENIZE_PARSE_SPECIAL) {
        uint64_t before = s->n_steps;
        assert_int_equal(plait_tokenize(t, s, text, n, flags, &ids), PLAIT_OK);
        double steps = (double)(s->n_steps - before) / (double)n;
        if (steps > *worst) *worst = steps;
        if (steps > STEPS_PER_BYTE) fail_msg("%s: %.1f steps a byte for \"%.20s...\"", name, steps, text);
    }
    plait_tokens_deinit(&ids);
}

static void long_runs(void **state) {
    (void)state;
    static char names[PLAIT_TEST_MAX_VOCABULARIES][256], text[N];
    size_t n_names = plait_test_vocabulary_names(names);
    for (size_t i = 0; i < n_names; i++) {
        plait_tokenizer *t = plait_test_vocabulary(names[i], NULL);
        plait_tokenizer_scratch *s;
        double worst = 0;
        assert_int_equal(plait_tokenizer_scratch_create(&s, t), PLAIT_OK);
        for (size_t u = 0; u < sizeof units / sizeof *units; u++)
            count(names[i], t, s, text, repeat(text, units[u]), &worst);
        printf("%-16s at most %.1f steps a byte\n", names[i], worst);
        plait_tokenizer_scratch_destroy(s);
        plait_tokenizer_destroy(t);
    }
}

static synthetic vocabulary;
static char letters[N];

/* Thousands of special tokens, each the begin and the end of the next. */
static void nested_special_tokens(void **state) {
    (void)state;
    static char text[N];
    memset(letters, 'a', sizeof letters);
    vocabulary = (synthetic){.model = "gpt2", .pre = "gpt-2"};
    synthetic_add(&vocabulary, "a", 1, PLAIT_TOKEN_NORMAL, 0);
    synthetic_add(&vocabulary, "b", 1, PLAIT_TOKEN_NORMAL, 0);
    for (size_t i = 1; i < 4000; i++)
        synthetic_add(&vocabulary, letters, i, i % 3 ? PLAIT_TOKEN_CONTROL : PLAIT_TOKEN_USER_DEFINED, 0);
    plait_tokenizer *t = NULL;
    plait_tokenizer_scratch *s = NULL;
    assert_int_equal(synthetic_create(&t, &vocabulary, NULL), PLAIT_OK);
    assert_int_equal(plait_tokenizer_scratch_create(&s, t), PLAIT_OK);
    double worst = 0;
    memset(text, 'a', N);
    count("nested", t, s, text, N, &worst);
    for (size_t i = 4001; i < N; i += 4001) text[i] = 'b';
    count("nested", t, s, text, N, &worst);
    for (size_t i = 0, gap = 1; i < N; i += gap, gap = gap % 5000 + 7) text[i] = 'b';
    count("nested", t, s, text, N, &worst);
    printf("4000 nested special tokens: at most %.1f steps a byte\n", worst);
    plait_tokenizer_scratch_destroy(s);
    plait_tokenizer_destroy(t);
}

/* Ten thousand special tokens that differ in their last characters only, in a text of their look-alikes. */
static void ten_thousand_special_tokens(void **state) {
    (void)state;
    enum { COUNT = 10000, SIZE = 24 };
    static char names[COUNT][SIZE], text[N];
    vocabulary = (synthetic){.model = "gpt2", .pre = "gpt-2"};
    static const char bytes[] = "<|special_0123456789>ab";
    for (size_t i = 0; bytes[i]; i++) synthetic_add(&vocabulary, bytes + i, 1, PLAIT_TOKEN_NORMAL, 0);
    for (int i = 0; i < COUNT; i++) {
        snprintf(names[i], SIZE, "<|special_%04d|>", i);
        synthetic_add(&vocabulary, names[i], strlen(names[i]), PLAIT_TOKEN_CONTROL, 0);
    }
    plait_tokenizer *t = NULL;
    plait_tokenizer_scratch *s = NULL;
    assert_int_equal(synthetic_create(&t, &vocabulary, NULL), PLAIT_OK);
    assert_int_equal(plait_tokenizer_scratch_create(&s, t), PLAIT_OK);
    double worst = 0;
    /* All of them in turn; then none of them, each missed by its last character. */
    for (int wrong = 0; wrong < 2; wrong++) {
        for (size_t i = 0, n = 0; n < N; i++)
            for (const char *c = names[i % COUNT]; *c && n < N; c++)
                text[n++] = wrong && *c == '>' ? '<' : *c;
        count("ten thousand", t, s, text, N, &worst);
    }
    printf("10000 special tokens: at most %.1f steps a byte\n", worst);
    plait_tokenizer_scratch_destroy(s);
    plait_tokenizer_destroy(t);
}

/* Merges that double, and tokens of every length: the heap's worst. */
static void nested_tokens(void **state) {
    (void)state;
    static const char *const models[] = {"llama", "t5"};
    static char text[N];
    memset(letters, 'a', sizeof letters);
    memset(text, 'a', N);
    for (size_t m = 0; m < 2; m++) {
        vocabulary = (synthetic){.model = models[m]};
        for (size_t i = 1; i < 250; i++)
            synthetic_add(&vocabulary, letters, i, PLAIT_TOKEN_NORMAL, (float)(i % 7));
        plait_tokenizer *t = NULL;
        plait_tokenizer_scratch *s = NULL;
        assert_int_equal(synthetic_create(&t, &vocabulary, NULL), PLAIT_OK);
        assert_int_equal(plait_tokenizer_scratch_create(&s, t), PLAIT_OK);
        plait_tokens ids = {0};
        assert_int_equal(plait_tokenize(t, s, text, N, 0, &ids), PLAIT_OK);
        /* Unigram tries every token at every place: at most 256 steps, a token's longest length. */
        assert_true(s->n_steps <= (uint64_t)N * (m == 1 ? 256 : STEPS_PER_BYTE));
        plait_tokens_deinit(&ids);
        plait_tokenizer_scratch_destroy(s);
        plait_tokenizer_destroy(t);
    }
}

static int callout(pcre2_callout_block *block, void *user) {
    (void)block;
    ++*(uint64_t *)user;
    return 0;
}

static plait_status ignore_piece(plait_tokenizer_scratch *s, const char *piece, uint32_t n_bytes) {
    (void)s, (void)piece, (void)n_bytes;
    return PLAIT_OK;
}

/* The expressions themselves, with PCRE2 telling each item that it tries. */
static void rules_do_not_backtrack(void **state) {
    (void)state;
    static char text[N];
    static const char *const tails[] = {"", "x", "1", "\n", "."};
    for (size_t r = 0; plait_tokenizer_rule_name(r); r++) {
        const char *name = plait_tokenizer_rule_name(r);
        const plait_tok_pre *pre;
        const char *const *stages;
        assert_int_equal(plait_tok_pre_find(name, strlen(name), &pre), PLAIT_OK);
        plait_tokenizer t = {.model = PLAIT_TOK_BYTE_BPE};
        plait_tokenizer_scratch *s;
        t.split.n_stages = plait_tok_rule_stages(pre->rule, &stages);
        for (uint32_t i = 0; i < t.split.n_stages; i++) {
            int code;
            PCRE2_SIZE offset;
            t.split.stages[i] = pcre2_compile(
                (PCRE2_SPTR)stages[i], PCRE2_ZERO_TERMINATED,
                PCRE2_UTF | PCRE2_UCP | PCRE2_AUTO_CALLOUT | PCRE2_NO_START_OPTIMIZE, &code, &offset, NULL);
            assert_non_null(t.split.stages[i]);
        }
        assert_int_equal(plait_tokenizer_scratch_create(&s, &t), PLAIT_OK);
        uint64_t n_items = 0;
        double worst = 0;
        pcre2_set_callout(s->match_context, callout, &n_items);
        for (size_t u = 0; u < sizeof units / sizeof *units; u++) {
            if (strcmp(units[u], "\xFF") == 0) continue; /* text is repaired before it is split */
            for (size_t k = 0; k < sizeof tails / sizeof *tails; k++) {
                size_t n = repeat(text, units[u]) / 8 / strlen(units[u]) * strlen(units[u]);
                memcpy(text + n, tails[k], strlen(tails[k]));
                n += strlen(tails[k]);
                n_items = 0;
                assert_int_equal(plait_tok_split_run(s, text, (uint32_t)n, ignore_piece), PLAIT_OK);
                double items = (double)n_items / (double)n;
                if (items > worst) worst = items;
                if (items > 200)
                    fail_msg("%s: %.0f items a byte for \"%.10s...%s\"", name, items, text, tails[k]);
            }
        }
        printf("%-18s at most %.0f regular expression items a byte\n", name, worst);
        plait_tokenizer_scratch_destroy(s);
        plait_tok_split_deinit(&t.split);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(long_runs),
        cmocka_unit_test(nested_special_tokens),
        cmocka_unit_test(ten_thousand_special_tokens),
        cmocka_unit_test(nested_tokens),
        cmocka_unit_test(rules_do_not_backtrack),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
