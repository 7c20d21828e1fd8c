/* Metadata that contradicts itself, and calls that ask for what is not there: a status, a message, nothing left over. */
#include "support/synthetic.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <cmocka.h>

static synthetic v;
static char long_text[70000];

static void start(const char *model) {
    memset(&v, 0, sizeof v);
    v.model = model;
    synthetic_add(&v, "<unk>", 5, PLAIT_TOKEN_UNKNOWN, 0);
    synthetic_add(&v, "a", 1, PLAIT_TOKEN_NORMAL, -1);
    synthetic_add(&v, "b", 1, PLAIT_TOKEN_NORMAL, -2);
    synthetic_add(&v, "ab", 2, PLAIT_TOKEN_NORMAL, -3);
    v.merges[0] = (plait_gguf_string){"a b", 3};
    v.n_merges = 1;
}

static void refused(plait_status (*more)(plait_gguf_writer *w), plait_status status, const char *message) {
    plait_tokenizer *t = NULL;
    assert_int_equal(synthetic_create(&t, &v, more), status);
    assert_null(t);
    if (!strstr(plait_error_message(), message))
        fail_msg("\"%s\" is not in: %s", message, plait_error_message());
}

static plait_tokenizer *accepted(plait_status (*more)(plait_gguf_writer *w)) {
    plait_tokenizer *t = NULL;
    if (synthetic_create(&t, &v, more) != PLAIT_OK) fail_msg("%s", plait_error_message());
    return t;
}

/* The ids of a text as a string of numbers. */
static const char *ids_of(const plait_tokenizer *t, const char *text, size_t n, uint32_t flags) {
    static char out[4096];
    plait_tokenizer_scratch *s = NULL;
    plait_tokens ids = {0};
    size_t used = 0;
    assert_int_equal(plait_tokenizer_scratch_create(&s, t), PLAIT_OK);
    assert_int_equal(plait_tokenize(t, s, text, n, flags, &ids), PLAIT_OK);
    out[0] = '\0';
    for (size_t i = 0; i < ids.n; i++)
        used += (size_t)snprintf(out + used, sizeof out - used, i ? " %d" : "%d", (int)ids.ids[i]);
    plait_tokens_deinit(&ids);
    plait_tokenizer_scratch_destroy(s);
    return out;
}

static plait_status bos_99(plait_gguf_writer *w) {
    return plait_gguf_writer_add_u32(w, "tokenizer.ggml.bos_token_id", 99);
}
static plait_status bos_minus(plait_gguf_writer *w) {
    return plait_gguf_writer_add_i32(w, "tokenizer.ggml.bos_token_id", -7);
}
static plait_status bos_none(plait_gguf_writer *w) {
    return plait_gguf_writer_add_u32(w, "tokenizer.ggml.bos_token_id", UINT32_MAX);
}
static plait_status bos_text(plait_gguf_writer *w) {
    return plait_gguf_writer_add_string(w, "tokenizer.ggml.bos_token_id", "one");
}
static plait_status add_bos_number(plait_gguf_writer *w) {
    return plait_gguf_writer_add_string(w, "tokenizer.ggml.add_bos_token", "yes");
}
static plait_status charsmap_cut(plait_gguf_writer *w) {
    static const uint8_t map[] = {200, 0, 0, 0, 1, 2, 3, 4};
    return plait_gguf_writer_add_array(w, "tokenizer.ggml.precompiled_charsmap", PLAIT_GGUF_U8, map,
                                       sizeof map);
}
static plait_status charsmap_words(plait_gguf_writer *w) {
    static const uint32_t map[] = {1, 2};
    return plait_gguf_writer_add_array(w, "tokenizer.ggml.precompiled_charsmap", PLAIT_GGUF_U32, map, 2);
}

static void contradictions(void **state) {
    (void)state;
    start(NULL);
    refused(NULL, PLAIT_NOT_FOUND, "tokenizer.ggml.model");
    start("martian");
    refused(NULL, PLAIT_UNSUPPORTED, "known are: gpt2");
    start("gpt2");
    v.pre = "unheard-of";
    refused(NULL, PLAIT_UNSUPPORTED, "\"unheard-of\" is not known; known are: gpt-2");
    start("gpt2");
    v.no_tokens = true;
    refused(NULL, PLAIT_NOT_FOUND, "tokenizer.ggml.tokens");
    start("gpt2");
    v.n_tokens = 0;
    v.n_types = v.n_scores = 0;
    refused(NULL, PLAIT_CORRUPT, "0 tokens");
    start("gpt2");
    v.n_types = 3;
    refused(NULL, PLAIT_CORRUPT, "expected 4 values, one for each token, found 3");
    start("llama");
    v.n_scores = 5;
    refused(NULL, PLAIT_CORRUPT, "tokenizer.ggml.scores");
    start("llama");
    v.n_scores = 0;
    refused(NULL, PLAIT_NOT_FOUND, "tokenizer.ggml.scores");
    start("llama");
    v.scores[2] = NAN;
    refused(NULL, PLAIT_CORRUPT, "tokenizer.ggml.scores[2]");
    start("gpt2");
    refused(bos_99, PLAIT_CORRUPT, "expected an id below 4, found 99");
    refused(bos_minus, PLAIT_CORRUPT, "found -7");
    refused(bos_text, PLAIT_CORRUPT, "expected an integer, found string");
    refused(add_bos_number, PLAIT_CORRUPT, "tokenizer.ggml.add_bos_token");
    static const char *const bad_merges[] = {"ab", "a ", "", " ", "a"};
    for (size_t i = 0; i < sizeof bad_merges / sizeof *bad_merges; i++) {
        start("gpt2");
        v.merges[0] = (plait_gguf_string){bad_merges[i], strlen(bad_merges[i])};
        refused(NULL, PLAIT_CORRUPT, "tokenizer.ggml.merges[0]: expected two parts");
    }
    start("t5");
    refused(charsmap_cut, PLAIT_CORRUPT, "a trie of 200 bytes in 8");
    refused(charsmap_words, PLAIT_CORRUPT, "expected an array of bytes");
}

static void limits(void **state) {
    (void)state;
    memset(long_text, 'a', sizeof long_text);
    start("gpt2");
    synthetic_add(&v, long_text, 65537, PLAIT_TOKEN_CONTROL, 0);
    refused(NULL, PLAIT_LIMIT, "65537 bytes");
    start("llama");
    synthetic_add(&v, long_text, 4097, PLAIT_TOKEN_NORMAL, 0);
    refused(NULL, PLAIT_LIMIT, "has 4097 bytes");
    start("t5");
    synthetic_add(&v, long_text, 257, PLAIT_TOKEN_NORMAL, 0);
    refused(NULL, PLAIT_LIMIT, "257 bytes");
    start("gpt2");
    synthetic_add(&v, long_text, 65536, PLAIT_TOKEN_CONTROL, 0); /* as a special token it may be that long */
    plait_tokenizer *t = accepted(NULL);
    assert_string_equal(ids_of(t, long_text, 65536, PLAIT_TOKENIZE_PARSE_SPECIAL), "4");
    plait_tokenizer_destroy(t);
}

static void oddities(void **state) {
    (void)state;
    /* Merges of what is no token: kept on the way, spelled in the end. */
    start("gpt2");
    v.merges[1] = (plait_gguf_string){"ab ab", 5};
    v.n_merges = 2;
    plait_tokenizer *t = accepted(bos_none);
    assert_string_equal(ids_of(t, "abab", 4, PLAIT_TOKENIZE_ADD_SPECIAL), "1 2 1 2");
    assert_string_equal(ids_of(t, "ab", 2, 0), "3");
    assert_string_equal(ids_of(t, "azb", 3, 0),
                        "3"); /* a byte without a token is dropped, then its neighbours meet */
    plait_tokenizer_destroy(t);
    /* Letters outside the byte alphabet. */
    start("gpt2");
    v.merges[0] = (plait_gguf_string){"\xE4\xB8\xAD a", 5};
    t = accepted(NULL);
    assert_string_equal(ids_of(t, "a", 1, 0), "1");
    plait_tokenizer_destroy(t);
    /* Equal and empty tokens: the last of equals counts, empty ones never match. */
    for (size_t i = 0; i < 5; i++) {
        static const char *const models[] = {"gpt2", "gemma4", "llama", "t5", "bert"};
        start(models[i]);
        synthetic_add(&v, "ab", 2, PLAIT_TOKEN_NORMAL, -3);
        synthetic_add(&v, "", 0, PLAIT_TOKEN_NORMAL, 0);
        synthetic_add(&v, "", 0, PLAIT_TOKEN_CONTROL, 0);
        synthetic_add(&v, "", 0, PLAIT_TOKEN_USER_DEFINED, 0);
        synthetic_add(&v, "\xE2\x96\x81", 3, PLAIT_TOKEN_NORMAL, -3);
        t = accepted(NULL);
        const char *wanted = i == 2 || i == 3 ? "8 4"
                             : i == 4         ? ""
                                      : "4"; /* WordPiece: no token begins a word, none is for the unknown */
        assert_string_equal(ids_of(t, "ab", 2, PLAIT_TOKENIZE_PARSE_SPECIAL), wanted);
        plait_tokenizer_destroy(t);
    }
    /* Types that do not exist are normal. */
    start("gpt2");
    v.types[3] = 77;
    t = accepted(NULL);
    assert_int_equal(plait_tokenizer_type(t, 3), PLAIT_TOKEN_NORMAL);
    assert_int_equal(plait_tokenizer_type(t, -1), PLAIT_TOKEN_NORMAL);
    assert_int_equal(plait_tokenizer_role(t, PLAIT_ROLE_BOS), PLAIT_NO_TOKEN);
    assert_int_equal(plait_tokenizer_role(t, (plait_token_role)99), PLAIT_NO_TOKEN);
    assert_false(plait_token_ends(t, 4));
    assert_int_equal(plait_token_find(t, "ab", 2), 3);
    assert_int_equal(plait_token_find(t, "abc", 3), PLAIT_NO_TOKEN);
    plait_tokenizer_destroy(t);
}

static void unused_tokens_are_taken_apart(void **state) {
    (void)state;
    memset(&v, 0, sizeof v);
    v.model = "llama";
    synthetic_add(&v, "a", 1, PLAIT_TOKEN_NORMAL, -9);
    synthetic_add(&v, "b", 1, PLAIT_TOKEN_NORMAL, -9);
    synthetic_add(&v, "ab", 2, PLAIT_TOKEN_UNUSED, -1);
    synthetic_add(&v, "abab", 4, PLAIT_TOKEN_UNUSED, -2);
    synthetic_add(&v, "abb", 3, PLAIT_TOKEN_NORMAL, -3);
    synthetic_add(&v, "\xE2\x96\x81", 3, PLAIT_TOKEN_NORMAL, -9);
    plait_tokenizer *t = accepted(NULL);
    assert_string_equal(ids_of(t, "abab", 4, 0), "5 0 1 0 1");
    assert_string_equal(ids_of(t, "abb", 3, 0), "5 4"); /* made by way of an unused one */
    plait_tokenizer_destroy(t);
}

static void greedy_trie(void **state) {
    (void)state;
    memset(&v, 0, sizeof v);
    v.model = "rwkv";
    synthetic_add(&v, "<s>", 3, PLAIT_TOKEN_CONTROL, 0);
    synthetic_add(&v, "a", 1, PLAIT_TOKEN_NORMAL, 0);
    synthetic_add(&v, "ab", 2, PLAIT_TOKEN_NORMAL, 0);
    synthetic_add(&v, "abc", 3, PLAIT_TOKEN_NORMAL, 0);
    synthetic_add(&v, "\\xe4\\xb8", 8, PLAIT_TOKEN_NORMAL, 0);
    synthetic_add(&v, "\\xad\\n", 6, PLAIT_TOKEN_NORMAL, 0);
    synthetic_add(&v, "\\\\", 2, PLAIT_TOKEN_NORMAL, 0);
    plait_tokenizer *t = accepted(NULL);
    assert_string_equal(ids_of(t, "abcab\\a\xE4\xB8\xAD\n", 11, 0), "3 2 6 1 4 5");
    plait_tokenizer_destroy(t);
}

/* Tokens that are parts of a character, in all models: a character gives an id for each of its bytes at most, and in
 * WordPiece, which makes room for one id a character, such tokens match nothing. The text is far longer than what room
 * is made in advance. */
static void parts_of_characters(void **state) {
    (void)state;
    static const char *const models[] = {"gpt2", "gemma4", "llama", "t5", "bert", "rwkv"};
    enum { CHARS = 3000 };
    for (size_t i = 0; i < CHARS; i++) memcpy(long_text + 3 * i, "\xE4\xB8\xAD", 3);
    for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
        start(models[i]);
        static const char *const parts[] = {"\xE2\x96\x81\xE4", "\xE4", "\xB8", "\xAD"};
        for (size_t k = 0; k < 4; k++) synthetic_add(&v, parts[k], strlen(parts[k]), PLAIT_TOKEN_NORMAL, -4);
        plait_tokenizer *t = accepted(NULL);
        plait_tokenizer_scratch *s = NULL;
        plait_tokens ids = {0};
        assert_int_equal(plait_tokenizer_scratch_create(&s, t), PLAIT_OK);
        /* Twice: the second time small pieces come out of the cache. */
        for (int round = 0; round < 2; round++) {
            ids.n = 0;
            assert_int_equal(plait_tokenize(t, s, long_text, 3 * CHARS, 0, &ids), PLAIT_OK);
            assert_true(ids.n <= (strcmp(models[i], "bert") == 0 ? 0 : 3 * CHARS + 3));
        }
        plait_tokens_deinit(&ids);
        plait_tokenizer_scratch_destroy(s);
        plait_tokenizer_destroy(t);
    }
}

static void no_vocabulary(void **state) {
    (void)state;
    memset(&v, 0, sizeof v);
    v.model = "none";
    v.no_tokens = true;
    plait_tokenizer *t = accepted(NULL);
    plait_tokenizer_scratch *s = NULL;
    plait_tokens ids = {0};
    char *text = NULL;
    size_t n;
    assert_int_equal(plait_tokenizer_n_vocab(t), 0);
    assert_int_equal(plait_tokenizer_scratch_create(&s, t), PLAIT_OK);
    assert_int_equal(plait_tokenize(t, s, "a", 1, 0, &ids), PLAIT_UNSUPPORTED);
    assert_int_equal(ids.n, 0);
    plait_token zero = 0;
    assert_int_equal(plait_detokenize(t, &zero, 1, 0, &text, &n), PLAIT_OUT_OF_RANGE);
    plait_tokenizer_scratch_destroy(s);
    plait_tokenizer_destroy(t);
}

static void wrong_calls(void **state) {
    (void)state;
    start("gpt2");
    plait_tokenizer *t = accepted(NULL), *other = accepted(NULL);
    plait_tokenizer_scratch *s = NULL;
    plait_tokens ids = {0};
    plait_text_segment segment = {"a", 1, true};
    assert_int_equal(plait_tokenizer_scratch_create(&s, t), PLAIT_OK);
    assert_int_equal(plait_tokenize(t, s, "a", 1, 64, &ids), PLAIT_INVALID_ARGUMENT);
    assert_int_equal(plait_tokenize_segments(t, s, &segment, 1, 2, &ids), PLAIT_INVALID_ARGUMENT);
    assert_int_equal(plait_tokenize(other, s, "a", 1, 0, &ids), PLAIT_INVALID_ARGUMENT);
    assert_int_equal(plait_tokenize(t, s, "a", SIZE_MAX, 0, &ids), PLAIT_LIMIT);
    plait_text_segment huge[2] = {{"a", SIZE_MAX, true}, {"a", SIZE_MAX, true}};
    assert_int_equal(plait_tokenize_segments(t, s, huge, 2, 0, &ids), PLAIT_LIMIT);
    assert_int_equal(ids.n, 0);
    assert_int_equal(plait_tokenize(t, s, NULL, 0, 0, &ids), PLAIT_OK);
    assert_int_equal(plait_tokenize_segments(t, s, NULL, 0, 0, &ids), PLAIT_OK);
    plait_detokenizer stream;
    char out[64];
    size_t n = 77;
    plait_detokenizer_init(&stream, t, 0);
    assert_int_equal(plait_detokenizer_feed(&stream, 4, out, sizeof out, &n), PLAIT_OUT_OF_RANGE);
    assert_int_equal(plait_detokenizer_feed(&stream, -1, out, sizeof out, &n), PLAIT_OUT_OF_RANGE);
    assert_int_equal(plait_detokenizer_feed(&stream, 3, out, 2, &n), PLAIT_OUT_OF_RANGE);
    assert_int_equal(n, 77);
    assert_int_equal(plait_detokenizer_feed(&stream, 3, out, sizeof out, &n), PLAIT_OK);
    assert_int_equal(n, 2);
    plait_tokens_deinit(&ids);
    plait_tokenizer_scratch_destroy(s);
    plait_tokenizer_destroy(t);
    plait_tokenizer_destroy(other);
    plait_tokenizer_destroy(NULL);
    plait_tokenizer_scratch_destroy(NULL);
    plait_tokens_deinit(NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(contradictions), cmocka_unit_test(limits),
        cmocka_unit_test(oddities),       cmocka_unit_test(unused_tokens_are_taken_apart),
        cmocka_unit_test(greedy_trie),    cmocka_unit_test(no_vocabulary),
        cmocka_unit_test(wrong_calls),    cmocka_unit_test(parts_of_characters),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
