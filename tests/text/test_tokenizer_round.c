/* Laws over all vocabularies: random text comes back, random ids never make bad UTF-8, a piecewise stream equals the
 * whole, and threads share a tokenizer. */
#include "base/thread.h"
#include "support/random_text.h"
#include "support/vocabularies.h"
#include "text/tokenizer/internal.h"

#include <utf8proc.h>

enum { ROUNDS = 400, MAX_CHARS = 200 };

typedef struct subject {
    const char *name;
    plait_tokenizer *tokenizer;
    plait_tokenizer_scratch *scratch;
    uint64_t random;
} subject;

static void open_subject(subject *s, const char *name) {
    *s = (subject){.name = name, .tokenizer = plait_test_vocabulary(name, NULL), .random = 1};
    assert_int_equal(plait_tokenizer_scratch_create(&s->scratch, s->tokenizer), PLAIT_OK);
}

static void close_subject(subject *s) {
    plait_tokenizer_scratch_destroy(s->scratch);
    plait_tokenizer_destroy(s->tokenizer);
}

/* True when every byte of the text has a token, so that nothing can be lost. */
static bool keeps_all(const plait_tokenizer *t, const char *text, size_t n) {
    if (t->model == PLAIT_TOK_UNIGRAM || t->model == PLAIT_TOK_WORDPIECE) return false;
    for (size_t i = 0; i < n; i++) {
        unsigned char b = (unsigned char)text[i];
        if ((t->model == PLAIT_TOK_BYTE_BPE ? t->byte_symbols[b] : t->byte_tokens[b]) >= t->n_tokens)
            return false;
    }
    return true;
}

/* What must come back: the text itself, in NFC where the model wants that, with spaces for U+2581 where that is the
 * mark of a space. The caller frees it. */
static char *expected_text(const plait_tokenizer *t, const char *text, size_t n, size_t *out_n) {
    if (t->nfc) {
        utf8proc_uint8_t *normal = NULL;
        utf8proc_ssize_t length = utf8proc_map((const utf8proc_uint8_t *)text, (utf8proc_ssize_t)n, &normal,
                                               UTF8PROC_STABLE | UTF8PROC_COMPOSE);
        assert_true(length >= 0);
        *out_n = (size_t)length;
        return (char *)normal;
    }
    char *copy = malloc(n + 1);
    assert_non_null(copy);
    size_t used = 0;
    bool marks = t->model == PLAIT_TOK_SPM || t->model == PLAIT_TOK_CHAR_BPE;
    for (size_t i = 0; i < n;) {
        if (marks && n - i >= 3 && memcmp(text + i, "\xE2\x96\x81", 3) == 0)
            copy[used++] = ' ', i += 3;
        else
            copy[used++] = text[i++];
    }
    *out_n = used;
    return copy;
}

static void check_round(subject *s, size_t *n_equal) {
    char text[4 * MAX_CHARS];
    size_t n = random_text(&s->random, 1 + random_below(&s->random, MAX_CHARS), text), n_back, n_wanted;
    plait_tokens ids = {0};
    char *back;
    assert_int_equal(plait_tokenize(s->tokenizer, s->scratch, text, n, 0, &ids), PLAIT_OK);
    assert_int_equal(plait_detokenize(s->tokenizer, ids.ids, ids.n, PLAIT_DETOKENIZE_WHOLE, &back, &n_back),
                     PLAIT_OK);
    char *wanted = expected_text(s->tokenizer, text, n, &n_wanted);
    if (keeps_all(s->tokenizer, wanted, n_wanted)) {
        if (n_back != n_wanted || memcmp(back, wanted, n_back) != 0)
            fail_msg("%s: \"%.*s\" came back as \"%.*s\"", s->name, (int)n, text, (int)n_back, back);
        ++*n_equal;
    }
    free(wanted);
    free(back);
    plait_tokens_deinit(&ids);
}

/* Length of the longest begin of bytes that is the begin of some character, 1 if there is none: what one U+FFFD
 * stands for. By trying, not by the table that the stream uses. */
static size_t bad_length(const unsigned char *bytes, size_t n) {
    for (size_t length = n < 3 ? n : 3; length > 1; length--) {
        unsigned char whole[4] = {0};
        memcpy(whole, bytes, length);
        for (unsigned rest = 0; rest < 1u << (6 * (4 - length)); rest++) {
            for (size_t i = length; i < 4; i++) whole[i] = 0x80 | (rest >> 6 * (i - length) & 0x3F);
            uint32_t code;
            size_t used = plait_utf8_decode(whole, 4, &code);
            if (used > length) return length;
        }
    }
    return 1;
}

static size_t repair(const char *text, size_t n, char *out) {
    size_t used = 0;
    for (size_t i = 0; i < n;) {
        uint32_t code;
        size_t length = plait_utf8_decode(text + i, n - i, &code), skip = length;
        if (!length) skip = bad_length((const unsigned char *)text + i, n - i);
        memcpy(out + used, length ? text + i : "\xEF\xBF\xBD", length ? length : 3);
        used += length ? length : 3;
        i += skip;
    }
    return used;
}

static plait_token random_token(subject *s) {
    const plait_tokenizer *t = s->tokenizer;
    /* Mostly those of single bytes, where there is most to go wrong. */
    if (random_below(&s->random, 3)) {
        uint32_t b = 0x80 + random_below(&s->random, 0x80);
        uint32_t id = t->model == PLAIT_TOK_BYTE_BPE ? t->byte_symbols[b] : t->byte_tokens[b];
        if (id < t->n_tokens) return (plait_token)id;
    }
    return (plait_token)random_below(&s->random, t->n_tokens);
}

static void check_stream(subject *s) {
    enum { N = 24 };
    plait_token ids[N];
    uint32_t flags = random_below(&s->random, 4);
    size_t room = plait_detokenizer_max_bytes(s->tokenizer), n_joined = 0, n_whole, n_wanted;
    size_t n_ids = 1 + random_below(&s->random, N);
    for (size_t i = 0; i < n_ids; i++) ids[i] = random_token(s);
    char *joined = malloc(room * (N + 1)), *whole;
    assert_non_null(joined);
    plait_detokenizer stream;
    plait_detokenizer_init(&stream, s->tokenizer, flags);
    for (size_t i = 0; i < n_ids; i++) {
        size_t n;
        assert_int_equal(plait_detokenizer_feed(&stream, ids[i], joined + n_joined, room, &n), PLAIT_OK);
        assert_true(plait_utf8_valid(joined + n_joined, n));
        n_joined += n;
    }
    n_joined += plait_detokenizer_flush(&stream, joined + n_joined);
    assert_int_equal(plait_detokenize(s->tokenizer, ids, n_ids, flags, &whole, &n_whole), PLAIT_OK);
    char *wanted = malloc(3 * n_whole + 1);
    assert_non_null(wanted);
    n_wanted = repair(whole, n_whole, wanted);
    if (n_joined != n_wanted || memcmp(joined, wanted, n_joined) != 0)
        fail_msg("%s: the stream gave \"%.*s\", the whole is \"%.*s\"", s->name, (int)n_joined, joined,
                 (int)n_wanted, wanted);
    free(wanted);
    free(whole);
    free(joined);
}

static void text_and_streams(void **state) {
    (void)state;
    static char names[PLAIT_TEST_MAX_VOCABULARIES][256];
    size_t n = plait_test_vocabulary_names(names);
    for (size_t i = 0; i < n; i++) {
        subject s;
        size_t n_equal = 0;
        open_subject(&s, names[i]);
        for (int round = 0; round < ROUNDS; round++) check_round(&s, &n_equal);
        for (int round = 0; round < ROUNDS; round++) check_stream(&s);
        printf("%-16s %d random texts, %zu of them came back equal; %d streams of random ids\n", names[i],
               ROUNDS, n_equal, ROUNDS);
        /* Some vocabularies lack bytes (those of tag characters and private planes): long texts hit one. */
        assert_true(n_equal >= ROUNDS / 16 || s.tokenizer->model == PLAIT_TOK_UNIGRAM ||
                    s.tokenizer->model == PLAIT_TOK_WORDPIECE);
        close_subject(&s);
    }
}

/* Any bytes: no crash, the same twice, and with another scratch. */
static void bad_bytes(void **state) {
    (void)state;
    static char names[PLAIT_TEST_MAX_VOCABULARIES][256];
    size_t n = plait_test_vocabulary_names(names);
    for (size_t i = 0; i < n; i++) {
        subject s;
        open_subject(&s, names[i]);
        plait_tokenizer_scratch *other;
        assert_int_equal(plait_tokenizer_scratch_create(&other, s.tokenizer), PLAIT_OK);
        for (int round = 0; round < 200; round++) {
            char text[300];
            size_t length = random_below(&s.random, sizeof text);
            for (size_t k = 0; k < length; k++)
                text[k] = (char)(random_below(&s.random, 2) ? random_next(&s.random)
                                                            : 0xC0 + random_below(&s.random, 0x40));
            char *exact = malloc(length + 1); /* its end is the end of the block, for sanitizers */
            assert_non_null(exact);
            memcpy(exact, text, length);
            exact = realloc(exact, length ? length : 1);
            plait_tokens a = {0}, b = {0};
            assert_int_equal(plait_tokenize(s.tokenizer, s.scratch, exact, length, (uint32_t)round & 7, &a),
                             PLAIT_OK);
            assert_int_equal(plait_tokenize(s.tokenizer, other, exact, length, (uint32_t)round & 7, &b),
                             PLAIT_OK);
            assert_int_equal(a.n, b.n);
            if (a.n) assert_memory_equal(a.ids, b.ids, a.n * sizeof *a.ids);
            free(exact);
            plait_tokens_deinit(&a);
            plait_tokens_deinit(&b);
        }
        plait_tokenizer_scratch_destroy(other);
        close_subject(&s);
    }
}

/* The first character of a row without tokens gives the unknown one, the others give nothing. So what a piece gives depends on
 * what stands before it, and a scratch that met it behind another one must not remember it. */
static bool is_unknown(subject *s, const char *text, size_t n) {
    plait_tokens ids = {0};
    assert_int_equal(plait_tokenize(s->tokenizer, s->scratch, text, n, 0, &ids), PLAIT_OK);
    bool last = ids.n && ids.ids[ids.n - 1] == s->tokenizer->roles[PLAIT_ROLE_UNKNOWN];
    plait_tokens_deinit(&ids);
    return last;
}

static uint32_t n_pieces;

static plait_status count_piece(plait_tokenizer_scratch *s, const char *piece, uint32_t n_bytes) {
    (void)s, (void)piece, (void)n_bytes;
    n_pieces++;
    return PLAIT_OK;
}

static uint32_t pieces_of(subject *s, const char *text, size_t n) {
    n_pieces = 0;
    assert_int_equal(plait_tok_pieces(s->scratch, text, (uint32_t)n, count_piece), PLAIT_OK);
    return n_pieces;
}

/* Whatever the other scratch has met, this one says the same. */
static void check_fresh(subject *s, const char *before, size_t n_before, const char *text, size_t n) {
    plait_tokenizer_scratch *used, *fresh;
    plait_tokens a = {0}, b = {0};
    assert_int_equal(plait_tokenizer_scratch_create(&used, s->tokenizer), PLAIT_OK);
    assert_int_equal(plait_tokenizer_scratch_create(&fresh, s->tokenizer), PLAIT_OK);
    assert_int_equal(plait_tokenize(s->tokenizer, used, before, n_before, 0, &a), PLAIT_OK);
    a.n = 0;
    assert_int_equal(plait_tokenize(s->tokenizer, used, text, n, 0, &a), PLAIT_OK);
    assert_int_equal(plait_tokenize(s->tokenizer, fresh, text, n, 0, &b), PLAIT_OK);
    if (a.n != b.n || memcmp(a.ids, b.ids, a.n * sizeof *a.ids) != 0)
        fail_msg("%s: \"%.*s\" gives %zu ids behind \"%.*s\", %zu alone", s->name, (int)n, text, a.n,
                 (int)n_before, before, b.n);
    plait_tokens_deinit(&a);
    plait_tokens_deinit(&b);
    plait_tokenizer_scratch_destroy(used);
    plait_tokenizer_scratch_destroy(fresh);
}

/* Characters u and v without tokens and a letter a such that "va" is one piece: "uva" is met first, then "va" alone. */
static int unknown_rows(subject *s) {
    enum { FIRST = 0x1F000, CHARS = 300 };
    static char unknown[CHARS][4];
    int n_unknown = 0, n_found = 0;
    for (uint32_t code = FIRST; code < FIRST + 4 * CHARS && n_unknown < CHARS; code++) {
        size_t n = plait_utf8_encode(code, unknown[n_unknown]);
        assert_int_equal(n, 4);
        n_unknown += is_unknown(s, unknown[n_unknown], n);
    }
    for (int v = 1; v < n_unknown && n_found < 20; v++)
        for (char letter = 'a'; letter <= 'z'; letter++) {
            char text[9];
            memcpy(text, unknown[v - 1], 4);
            memcpy(text + 4, unknown[v], 4);
            text[8] = letter;
            if (pieces_of(s, text + 4, 5) != 1 || pieces_of(s, text, 8) != 2) continue;
            check_fresh(s, text, 9, text + 4, 5);
            n_found++;
        }
    return n_found;
}

static void rows_of_unknown(void **state) {
    (void)state;
    static char names[PLAIT_TEST_MAX_VOCABULARIES][256];
    size_t n = plait_test_vocabulary_names(names);
    int n_found = 0;
    for (size_t i = 0; i < n; i++) {
        subject s;
        open_subject(&s, names[i]);
        bool has = s.tokenizer->joins && s.tokenizer->roles[PLAIT_ROLE_UNKNOWN] != PLAIT_NO_TOKEN;
        if (has) {
            int found = unknown_rows(&s);
            printf("%-16s %d rows\n", names[i], found);
            n_found += found;
        }
        close_subject(&s);
    }
    assert_true(n_found > 0);
}

typedef struct worker {
    plait_thread thread;
    const plait_tokenizer *tokenizer;
    plait_tokens ids;
    plait_status status;
} worker;

static void *work(void *argument) {
    worker *w = argument;
    plait_tokenizer_scratch *scratch = NULL;
    uint64_t random = 7;
    char text[4 * MAX_CHARS];
    w->status = plait_tokenizer_scratch_create(&scratch, w->tokenizer);
    for (int round = 0; round < 100 && w->status == PLAIT_OK; round++) {
        size_t n = random_text(&random, MAX_CHARS, text);
        w->status = plait_tokenize(w->tokenizer, scratch, text, n, PLAIT_TOKENIZE_PARSE_SPECIAL, &w->ids);
    }
    plait_tokenizer_scratch_destroy(scratch);
    return NULL;
}

static void threads_share(void **state) {
    (void)state;
    static const char *const names[] = {"smollm2", "gemma-3"};
    for (size_t i = 0; i < 2; i++) {
        plait_tokenizer *tokenizer = plait_test_vocabulary(names[i], NULL);
        worker workers[4] = {0};
        for (int k = 0; k < 4; k++) {
            workers[k].tokenizer = tokenizer;
            assert_int_equal(plait_thread_start(&workers[k].thread, "tokenize", work, &workers[k]), PLAIT_OK);
        }
        for (int k = 0; k < 4; k++) {
            plait_thread_join(&workers[k].thread);
            assert_int_equal(workers[k].status, PLAIT_OK);
            assert_int_equal(workers[k].ids.n, workers[0].ids.n);
            assert_memory_equal(workers[k].ids.ids, workers[0].ids.ids,
                                workers[0].ids.n * sizeof *workers[0].ids.ids);
        }
        for (int k = 0; k < 4; k++) plait_tokens_deinit(&workers[k].ids);
        plait_tokenizer_destroy(tokenizer);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(text_and_streams),
        cmocka_unit_test(bad_bytes),
        cmocka_unit_test(rows_of_unknown),
        cmocka_unit_test(threads_share),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
