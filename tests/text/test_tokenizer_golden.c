/* Every line of golden/tokenizers: ids with and without special tokens, and the bytes that ids stand for. What to
 * demand is in the README there. Where a second tokenizer, rebuilt from the original's rules, disagrees with the first
 * (second_ids), the second is demanded. */
#include "support/vocabularies.h"

#include <jansson.h>

/* Lines where neither must be met: several segmentations have the same score. */
static bool either_is_right(const char *name) {
    return strcmp(name, "nomic-bert-moe") == 0;
}

static int from_base64(char c) {
    if (c >= 'A' && c <= 'Z') return c - 'A';
    if (c >= 'a' && c <= 'z') return c - 'a' + 26;
    if (c >= '0' && c <= '9') return c - '0' + 52;
    return c == '+' ? 62 : c == '/' ? 63 : -1;
}

/* The caller frees the bytes. */
static char *decode_base64(const char *text, size_t *out_n) {
    char *bytes = malloc(strlen(text) + 1);
    assert_non_null(bytes);
    size_t n = 0;
    unsigned bits = 0, n_bits = 0;
    for (; *text && *text != '='; text++) {
        int value = from_base64(*text);
        assert_true(value >= 0);
        bits = bits << 6 | (unsigned)value;
        n_bits += 6;
        if (n_bits >= 8) bytes[n++] = (char)(bits >> (n_bits -= 8) & 0xFF);
    }
    *out_n = n;
    return bytes;
}

static bool ids_equal(const json_t *wanted, const plait_tokens *got) {
    if (json_array_size(wanted) != got->n) return false;
    for (size_t i = 0; i < got->n; i++)
        if (json_integer_value(json_array_get(wanted, i)) != got->ids[i]) return false;
    return true;
}

static void show(const char *name, const char *what, const json_t *line, const json_t *wanted,
                 const plait_tokens *got) {
    char *text = json_dumps(json_object_get(line, "text"), JSON_ENCODE_ANY | JSON_ENSURE_ASCII);
    fprintf(stderr, "%s %s %s: %.200s\n  expected", name, json_string_value(json_object_get(line, "id")),
            what, text ? text : "");
    for (size_t i = 0; i < json_array_size(wanted) && i < 24; i++)
        fprintf(stderr, " %d", (int)json_integer_value(json_array_get(wanted, i)));
    fprintf(stderr, "\n  found   ");
    for (size_t i = 0; i < got->n && i < 24; i++) fprintf(stderr, " %d", (int)got->ids[i]);
    fprintf(stderr, "\n");
    free(text);
}

typedef struct bench {
    const char *name;
    const plait_tokenizer *tokenizer;
    plait_tokenizer_scratch *scratch;
    bool cleans;
    size_t n_lines, n_second, n_pieces, n_detok, n_invalid, n_failed;
} bench;

static void tokenize(bench *b, const char *text, size_t n, uint32_t flags, plait_tokens *out) {
    out->n = 0;
    if (plait_tokenize(b->tokenizer, b->scratch, text, n, flags, out) != PLAIT_OK)
        fail_msg("%s: %s", b->name, plait_error_message());
}

/* Bad UTF-8: nothing but the same result twice. */
static void check_invalid(bench *b, const char *text, size_t n) {
    static const uint32_t flags[] = {0, PLAIT_TOKENIZE_ADD_SPECIAL | PLAIT_TOKENIZE_PARSE_SPECIAL};
    for (int i = 0; i < 2; i++) {
        plait_tokens once = {0}, twice = {0};
        tokenize(b, text, n, flags[i], &once);
        tokenize(b, text, n, flags[i], &twice);
        assert_int_equal(once.n, twice.n);
        if (once.n) assert_memory_equal(once.ids, twice.ids, once.n * sizeof *once.ids);
        plait_tokens_deinit(&once);
        plait_tokens_deinit(&twice);
    }
    b->n_invalid++;
}

static void check_bytes(bench *b, const json_t *line, const char *what, const plait_token *ids, size_t n_ids,
                        const char *wanted_b64, uint32_t flags) {
    size_t n, n_wanted;
    char *text, *wanted = decode_base64(wanted_b64, &n_wanted);
    assert_int_equal(plait_detokenize(b->tokenizer, ids, n_ids, flags, &text, &n), PLAIT_OK);
    if (n != n_wanted || memcmp(text, wanted, n) != 0) {
        fprintf(stderr, "%s %s %s: expected \"%.*s\", found \"%.*s\"\n", b->name,
                json_string_value(json_object_get(line, "id")), what, (int)n_wanted, wanted, (int)n, text);
        b->n_failed++;
    }
    free(text);
    free(wanted);
}

/* The pieces of the line's own ids: those of the first tokenizer, for the file has no others. */
static void check_pieces(bench *b, const json_t *line) {
    const json_t *ids = json_object_get(line, "ids_plain");
    const char *detok = json_string_value(json_object_get(line, "detok_b64"));
    const char *pieces = json_string_value(json_object_get(line, "pieces_b64"));
    size_t n = json_array_size(ids);
    plait_token *list = calloc(n + 1, sizeof *list);
    assert_non_null(list);
    for (size_t i = 0; i < n; i++) list[i] = (plait_token)json_integer_value(json_array_get(ids, i));
    check_bytes(b, line, "pieces", list, n, pieces ? pieces : detok, PLAIT_DETOKENIZE_SPECIAL);
    b->n_pieces++;
    if (!b->cleans) {
        check_bytes(b, line, "detokenised", list, n, detok,
                    PLAIT_DETOKENIZE_SPECIAL | PLAIT_DETOKENIZE_WHOLE);
        b->n_detok++;
    }
    free(list);
}

static void check_line(bench *b, const json_t *line) {
    const json_t *text = json_object_get(line, "text"), *second = json_object_get(line, "second_ids");
    b->n_lines++;
    if (!text) {
        size_t n;
        char *bytes = decode_base64(json_string_value(json_object_get(line, "text_b64")), &n);
        check_invalid(b, bytes, n);
        free(bytes);
        if (json_object_get(line, "ids_plain")) check_pieces(b, line);
        return;
    }
    plait_tokens ids = {0};
    tokenize(b, json_string_value(text), json_string_length(text), 0, &ids);
    const json_t *plain = json_object_get(line, "ids_plain");
    if (second) b->n_second++;
    bool right = ids_equal(second ? second : plain, &ids) ||
                 (second && either_is_right(b->name) && ids_equal(plain, &ids));
    if (!right) {
        b->n_failed++;
        show(b->name, second ? "second" : "plain", line, second ? second : plain, &ids);
    }
    if (!second) {
        tokenize(b, json_string_value(text), json_string_length(text),
                 PLAIT_TOKENIZE_ADD_SPECIAL | PLAIT_TOKENIZE_PARSE_SPECIAL, &ids);
        if (!ids_equal(json_object_get(line, "ids_special"), &ids)) {
            b->n_failed++;
            show(b->name, "special", line, json_object_get(line, "ids_special"), &ids);
        }
    }
    plait_tokens_deinit(&ids);
    check_pieces(b, line);
}

/* What index.json says of the vocabulary. */
static void check_index(const bench *b, const json_t *entry) {
    const json_t *ends = json_object_get(entry, "end_of_generation");
    assert_int_equal(plait_tokenizer_n_vocab(b->tokenizer),
                     json_integer_value(json_object_get(entry, "n_tokens")));
    size_t n_ends = 0;
    for (plait_token id = 0; id < plait_tokenizer_n_vocab(b->tokenizer); id++)
        n_ends += plait_token_ends(b->tokenizer, id);
    for (size_t i = 0; i < json_array_size(ends); i++) {
        plait_token id = (plait_token)json_integer_value(json_array_get(ends, i));
        if (!plait_token_ends(b->tokenizer, id))
            fail_msg("%s: generation does not end with %d", b->name, (int)id);
    }
    if (n_ends != json_array_size(ends)) fail_msg("%s: %zu tokens end generation", b->name, n_ends);
    assert_int_equal(plait_tokenizer_adds_bos(b->tokenizer),
                     json_is_true(json_object_get(entry, "effective_add_bos")));
    assert_int_equal(plait_tokenizer_adds_eos(b->tokenizer),
                     json_is_true(json_object_get(entry, "effective_add_eos")));
    assert_int_equal(plait_tokenizer_role(b->tokenizer, PLAIT_ROLE_BOS),
                     json_integer_value(json_object_get(entry, "bos")));
}

static void check_file(bench *b) {
    char path[PLAIT_TEST_PATH_BYTES], relative[300];
    snprintf(relative, sizeof relative, "tokenizers/%s.jsonl", b->name);
    FILE *file = fopen(plait_test_golden(relative, path), "r");
    assert_non_null(file);
    char *text = NULL;
    size_t capacity = 0;
    for (ssize_t n; (n = getline(&text, &capacity, file)) > 0;) {
        json_t *line = json_loadb(text, (size_t)n, JSON_ALLOW_NUL, NULL);
        assert_non_null(line);
        check_line(b, line);
        json_decref(line);
    }
    free(text);
    fclose(file);
}

static size_t check_vocabulary(const char *name, const json_t *entry) {
    bench b = {.name = name, .cleans = json_is_true(json_object_get(entry, "detokeniser_cleans_spaces"))};
    plait_tokenizer *tokenizer = plait_test_vocabulary(name, NULL);
    b.tokenizer = tokenizer;
    assert_int_equal(plait_tokenizer_scratch_create(&b.scratch, tokenizer), PLAIT_OK);
    check_index(&b, entry);
    check_file(&b);
    size_t n_public = (size_t)json_integer_value(json_object_get(entry, "public_lines"));
    size_t n_others = (size_t)json_integer_value(json_object_get(entry, "held_out_lines"));
    assert_true(b.n_lines == n_public || b.n_lines == n_public + n_others);
    printf("%-16s %4zu lines (%zu with bad UTF-8, %zu by the second tokenizer), pieces of %zu, text of %zu: "
           "%zu wrong\n",
           name, b.n_lines, b.n_invalid, b.n_second, b.n_pieces, b.n_detok, b.n_failed);
    plait_tokenizer_scratch_destroy(b.scratch);
    plait_tokenizer_destroy(tokenizer);
    assert_int_equal(b.n_failed, 0);
    return b.n_lines;
}

static void every_golden_line(void **state) {
    (void)state;
    char path[PLAIT_TEST_PATH_BYTES];
    json_t *index = json_load_file(plait_test_golden("tokenizers/index.json", path), 0, NULL);
    assert_non_null(index);
    size_t i, n_lines = 0;
    json_t *entry;
    const char *only = getenv("PLAIT_TEST_VOCABULARY");
    json_array_foreach(index, i, entry) {
        const char *name = json_string_value(json_object_get(entry, "name"));
        if (!only || strcmp(only, name) == 0) n_lines += check_vocabulary(name, entry);
    }
    printf("golden/tokenizers: %zu vocabularies, %zu lines\n", json_array_size(index), n_lines);
    json_decref(index);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_golden_line)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
