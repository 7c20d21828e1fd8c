/* Small random vocabularies against the plainest possible reading of the rules: special tokens pass by pass, merges by
 * looking at every pair each time, unigram by trying every segmentation's best begin. */
#include "support/random_text.h"
#include "support/synthetic.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <cmocka.h>

enum { MAX_TEXT = 160, MAX_IDS = 4 * MAX_TEXT };

static synthetic vocabulary;
static char strings[4096][24]; /* texts of tokens and merges */
static size_t n_strings;
static uint64_t rnd = 11;

static const char *keep(const char *text, size_t n) {
    memcpy(strings[n_strings], text, n);
    strings[n_strings][n] = '\0';
    return strings[n_strings++];
}

static void add(const char *text, plait_token_type type, float score) {
    for (size_t i = 0; i < vocabulary.n_tokens; i++)
        if (strcmp(vocabulary.tokens[i].bytes, text) == 0) return;
    synthetic_add(&vocabulary, keep(text, strlen(text)), strlen(text), type, score);
}

static void random_word(char *out, size_t max, unsigned n_letters) {
    size_t n = 1 + random_below(&rnd, (uint32_t)max);
    for (size_t i = 0; i < n; i++) out[i] = (char)('a' + random_below(&rnd, n_letters));
    out[n] = '\0';
}

static void start(const char *model, unsigned n_letters) {
    memset(&vocabulary, 0, sizeof vocabulary);
    n_strings = 0;
    vocabulary.model = model;
    for (unsigned i = 0; i < n_letters; i++) add((char[]){(char)('a' + i), 0}, PLAIT_TOKEN_NORMAL, -20);
}

static int token_of(const char *bytes, size_t n) {
    for (size_t i = 0; i < vocabulary.n_tokens; i++)
        if (vocabulary.tokens[i].length == n && memcmp(vocabulary.tokens[i].bytes, bytes, n) == 0)
            return (int)i;
    return -1;
}

static size_t random_string(char *text, unsigned n_letters) {
    size_t n = random_below(&rnd, MAX_TEXT);
    for (size_t i = 0; i < n; i++)
        text[i] = (char)('a' + (random_below(&rnd, 3) ? 0 : random_below(&rnd, n_letters)));
    return n;
}

static void compare(const char *what, const char *text, size_t n, const plait_tokens *got,
                    const plait_token *wanted, size_t n_wanted) {
    if (got->n == n_wanted && (n_wanted == 0 || memcmp(got->ids, wanted, n_wanted * sizeof *wanted) == 0))
        return;
    fprintf(stderr, "%s: \"%.*s\"\n expected", what, (int)n, text);
    for (size_t i = 0; i < n_wanted; i++) fprintf(stderr, " %s", vocabulary.tokens[wanted[i]].bytes);
    fprintf(stderr, "\n found   ");
    for (size_t i = 0; i < got->n; i++) fprintf(stderr, " %s", vocabulary.tokens[got->ids[i]].bytes);
    fail_msg("%s", what);
}

/* ---- special tokens ---- */

/* taken[i]: the token that byte i begins, -2 inside one, -1 text. */
static void pass(const char *text, size_t n, const bool *trusted, int id, int *taken) {
    size_t length = vocabulary.tokens[id].length;
    bool user = vocabulary.types[id] == PLAIT_TOKEN_USER_DEFINED;
    for (size_t i = 0; i + length <= n;) {
        bool fits = memcmp(text + i, vocabulary.tokens[id].bytes, length) == 0;
        for (size_t k = 0; k < length && fits; k++) fits = taken[i + k] == -1 && (user || trusted[i + k]);
        if (!fits) {
            i++;
            continue;
        }
        for (size_t k = 0; k < length; k++) taken[i + k] = -2;
        taken[i] = id;
        i += length;
    }
}

static size_t naive_special(const char *text, size_t n, const bool *trusted, plait_token *out) {
    int taken[MAX_TEXT];
    size_t n_out = 0;
    for (size_t i = 0; i < n; i++) taken[i] = -1;
    for (size_t length = 20; length > 0; length--)
        for (size_t id = 0; id < vocabulary.n_tokens; id++)
            if (vocabulary.types[id] != PLAIT_TOKEN_NORMAL && vocabulary.tokens[id].length == length)
                pass(text, n, trusted, (int)id, taken);
    for (size_t i = 0; i < n; i++) {
        if (taken[i] >= 0) out[n_out++] = taken[i];
        if (taken[i] == -1) out[n_out++] = token_of(text + i, 1);
    }
    return n_out;
}

static void special_tokens(void **state) {
    (void)state;
    for (int round = 0; round < 300; round++) {
        start("gpt2", 3);
        vocabulary.pre = "gpt-2";
        unsigned n_special = 1 + random_below(&rnd, 14);
        for (unsigned i = 0; i < n_special; i++) {
            char word[24];
            random_word(word, random_below(&rnd, 2) ? 4 : 12, 1 + random_below(&rnd, 3));
            add(word, random_below(&rnd, 2) ? PLAIT_TOKEN_CONTROL : PLAIT_TOKEN_USER_DEFINED, 0);
        }
        plait_tokenizer *t = NULL;
        plait_tokenizer_scratch *s = NULL;
        assert_int_equal(synthetic_create(&t, &vocabulary, NULL), PLAIT_OK);
        assert_int_equal(plait_tokenizer_scratch_create(&s, t), PLAIT_OK);
        for (int k = 0; k < 30; k++) {
            char text[MAX_TEXT];
            bool trusted[MAX_TEXT];
            plait_token wanted[MAX_IDS];
            plait_tokens got = {0};
            size_t n = random_string(text, 3);
            for (size_t i = 0; i < n; i++) trusted[i] = true;
            assert_int_equal(plait_tokenize(t, s, text, n, PLAIT_TOKENIZE_PARSE_SPECIAL, &got), PLAIT_OK);
            compare("special", text, n, &got, wanted, naive_special(text, n, trusted, wanted));
            for (size_t i = 0; i < n; i++) trusted[i] = false;
            got.n = 0;
            assert_int_equal(plait_tokenize(t, s, text, n, 0, &got), PLAIT_OK);
            compare("plain", text, n, &got, wanted, naive_special(text, n, trusted, wanted));
            /* Segments of either kind. */
            plait_text_segment segments[MAX_TEXT];
            size_t n_segments = 0;
            for (size_t i = 0; i < n;) {
                size_t length = 1 + random_below(&rnd, 30);
                if (length > n - i) length = n - i;
                segments[n_segments] = (plait_text_segment){text + i, length, random_below(&rnd, 2)};
                for (size_t j = 0; j < length; j++) trusted[i + j] = segments[n_segments].trusted;
                n_segments++;
                i += length;
            }
            got.n = 0;
            assert_int_equal(plait_tokenize_segments(t, s, segments, n_segments, 0, &got), PLAIT_OK);
            compare("segments", text, n, &got, wanted, naive_special(text, n, trusted, wanted));
            plait_tokens_deinit(&got);
        }
        plait_tokenizer_scratch_destroy(s);
        plait_tokenizer_destroy(t);
    }
}

/* ---- merging ---- */

/* Ends of symbols; again and again the best pair. priority returns INT_MIN.. for none through *ok. */
static size_t naive_merge(const char *text, size_t n, bool by_score, size_t *ends) {
    size_t count = n;
    for (size_t i = 0; i < n; i++) ends[i] = i + 1;
    for (;;) {
        size_t best = SIZE_MAX, begin = 0;
        double best_priority = 0;
        for (size_t i = 0; i + 1 < count; begin = ends[i++]) {
            size_t length = ends[i + 1] - begin, left = ends[i] - begin;
            double priority = 0;
            bool possible = false;
            if (by_score) {
                int id = token_of(text + begin, length);
                possible = id >= 0;
                if (possible) priority = -(double)vocabulary.scores[id];
            } else {
                for (size_t m = 0; m < vocabulary.n_merges && !possible; m++) {
                    const char *merge = vocabulary.merges[m].bytes;
                    possible = vocabulary.merges[m].length == length + 1 &&
                               memcmp(merge, text + begin, left) == 0 && merge[left] == ' ' &&
                               memcmp(merge + left + 1, text + begin + left, length - left) == 0;
                    priority = (double)m;
                }
            }
            if (possible && (best == SIZE_MAX || priority < best_priority))
                best = i, best_priority = priority;
        }
        if (best == SIZE_MAX) return count;
        memmove(ends + best, ends + best + 1, (count - best - 1) * sizeof *ends);
        count--;
    }
}

static size_t naive_ids(const char *text, size_t n, bool by_score, plait_token *out) {
    size_t ends[MAX_TEXT], count = naive_merge(text, n, by_score, ends), n_out = 0, begin = 0;
    for (size_t i = 0; i < count; begin = ends[i++]) {
        int id = token_of(text + begin, ends[i] - begin);
        if (id >= 0)
            out[n_out++] = id;
        else /* a symbol that is no token: its bytes */
            for (size_t k = begin; k < ends[i]; k++) out[n_out++] = token_of(text + k, 1);
    }
    return n_out;
}

static void check_merging(const char *what, bool by_score) {
    plait_tokenizer *t = NULL;
    plait_tokenizer_scratch *s = NULL;
    assert_int_equal(synthetic_create(&t, &vocabulary, NULL), PLAIT_OK);
    assert_int_equal(plait_tokenizer_scratch_create(&s, t), PLAIT_OK);
    for (int k = 0; k < 40; k++) {
        char text[MAX_TEXT];
        plait_token wanted[MAX_IDS];
        plait_tokens got = {0};
        size_t n = random_string(text, 3);
        assert_int_equal(plait_tokenize(t, s, text, n, 0, &got), PLAIT_OK);
        compare(what, text, n, &got, wanted, naive_ids(text, n, by_score, wanted));
        plait_tokens_deinit(&got);
    }
    plait_tokenizer_scratch_destroy(s);
    plait_tokenizer_destroy(t);
}

static plait_status no_prefix(plait_gguf_writer *w) {
    return plait_gguf_writer_add_bool(w, "tokenizer.ggml.add_space_prefix", false);
}

static void merges_by_number(void **state) {
    (void)state;
    for (int round = 0; round < 200; round++) {
        start("gpt2", 3);
        vocabulary.pre = "gpt-2";
        unsigned n_merges = random_below(&rnd, 40);
        for (unsigned i = 0; i < n_merges; i++) {
            char left[24], right[24], merge[64], whole[64];
            random_word(left, 3, 3);
            random_word(right, 3, 3);
            snprintf(merge, sizeof merge, "%s %s", left, right);
            snprintf(whole, sizeof whole, "%s%s", left, right);
            vocabulary.merges[vocabulary.n_merges++] =
                (plait_gguf_string){keep(merge, strlen(merge)), strlen(merge)};
            if (random_below(&rnd, 4)) add(whole, PLAIT_TOKEN_NORMAL, 0); /* some merges make no token */
        }
        check_merging("merges", false);
    }
}

static void merges_by_score(void **state) {
    (void)state;
    for (int round = 0; round < 200; round++) {
        start("llama", 3);
        unsigned n_tokens = random_below(&rnd, 40);
        for (unsigned i = 0; i < n_tokens; i++) {
            char word[24];
            random_word(word, 6, 3);
            add(word, PLAIT_TOKEN_NORMAL, -(float)random_below(&rnd, 12)); /* ties */
        }
        plait_tokenizer *t = NULL;
        plait_tokenizer_scratch *s = NULL;
        assert_int_equal(synthetic_create(&t, &vocabulary, no_prefix), PLAIT_OK);
        assert_int_equal(plait_tokenizer_scratch_create(&s, t), PLAIT_OK);
        for (int k = 0; k < 40; k++) {
            char text[MAX_TEXT];
            plait_token wanted[MAX_IDS];
            plait_tokens got = {0};
            size_t n = random_string(text, 3);
            assert_int_equal(plait_tokenize(t, s, text, n, 0, &got), PLAIT_OK);
            compare("scores", text, n, &got, wanted, naive_ids(text, n, true, wanted));
            plait_tokens_deinit(&got);
        }
        plait_tokenizer_scratch_destroy(s);
        plait_tokenizer_destroy(t);
    }
}

/* ---- unigram ---- */

static double naive_best(const char *text, size_t n) {
    double best[MAX_TEXT + 8];
    best[0] = 0;
    for (size_t end = 1; end <= n; end++) {
        best[end] = -1e30;
        for (size_t begin = 0; begin < end; begin++) {
            int id = token_of(text + begin, end - begin);
            if (id >= 0 && best[begin] + (double)vocabulary.scores[id] > best[end])
                best[end] = best[begin] + (double)vocabulary.scores[id];
        }
    }
    return best[n];
}

static void unigram_is_best(void **state) {
    (void)state;
    for (int round = 0; round < 100; round++) {
        start("t5", 3);
        unsigned n_tokens = random_below(&rnd, 40);
        for (unsigned i = 0; i < n_tokens; i++) {
            char word[24];
            random_word(word, 6, 3);
            add(word, PLAIT_TOKEN_NORMAL, -1 - (float)random_below(&rnd, 2000) / 64);
        }
        plait_tokenizer *t = NULL;
        plait_tokenizer_scratch *s = NULL;
        assert_int_equal(synthetic_create(&t, &vocabulary, no_prefix), PLAIT_OK);
        assert_int_equal(plait_tokenizer_scratch_create(&s, t), PLAIT_OK);
        for (int k = 0; k < 20; k++) {
            char text[MAX_TEXT], *back;
            plait_tokens got = {0};
            size_t n = random_string(text, 3), n_back;
            assert_int_equal(plait_tokenize(t, s, text, n, 0, &got), PLAIT_OK);
            double sum = 0;
            for (size_t i = 0; i < got.n; i++) sum += (double)vocabulary.scores[got.ids[i]];
            assert_true(sum == naive_best(text, n)); /* scores are sixty-fourths: sums are exact */
            assert_int_equal(plait_detokenize(t, got.ids, got.n, PLAIT_DETOKENIZE_SPECIAL, &back, &n_back),
                             PLAIT_OK);
            assert_int_equal(n_back, n);
            assert_memory_equal(back, text, n);
            free(back);
            plait_tokens_deinit(&got);
        }
        plait_tokenizer_scratch_destroy(s);
        plait_tokenizer_destroy(t);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(special_tokens),
        cmocka_unit_test(merges_by_number),
        cmocka_unit_test(merges_by_score),
        cmocka_unit_test(unigram_is_best),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
