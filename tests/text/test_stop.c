/* Stop conditions against a model that sees the whole text at once. */
#include "base/utf8.h"
#include "plait/stop.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define ROOM 4096

typedef struct shown_text {
    char bytes[ROOM];
    size_t n;
} shown_text;

static plait_stop *make(const plait_stop_options *options) {
    plait_stop *stop = NULL;
    if (plait_stop_create(&stop, options) != PLAIT_OK) fail_msg("%s", plait_error_message());
    return stop;
}

static plait_stop_result feed(plait_stop *stop, plait_token token, const char *piece, size_t n,
                              shown_text *shown) {
    plait_stop_result r = {0};
    if (plait_stop_feed(stop, token, piece, n, &r) != PLAIT_OK) fail_msg("%s", plait_error_message());
    assert_true(shown->n + r.n_bytes < ROOM);
    memcpy(shown->bytes + shown->n, r.text, r.n_bytes);
    shown->n += r.n_bytes;
    return r;
}

static plait_stop_result feed_text(plait_stop *stop, const char *piece, shown_text *shown) {
    return feed(stop, 7, piece, strlen(piece), shown);
}

static void assert_shown(const shown_text *shown, const char *expected) {
    assert_int_equal(shown->n, strlen(expected));
    assert_memory_equal(shown->bytes, expected, shown->n);
}

static void test_string_over_borders(void **state) {
    (void)state;
    const char *strings[] = {"</answer>"};
    plait_stop *stop = make(&(plait_stop_options){.strings = strings, .n_strings = 1});
    shown_text shown = {0};
    assert_int_equal(feed_text(stop, "42 <", &shown).reason, PLAIT_STOP_NONE);
    assert_shown(&shown, "42 ");
    assert_int_equal(feed_text(stop, "/ans", &shown).n_bytes, 0);
    assert_int_equal(feed_text(stop, "!", &shown).reason, PLAIT_STOP_NONE); /* it was not one after all */
    assert_shown(&shown, "42 </ans!");
    assert_int_equal(feed_text(stop, " </", &shown).reason, PLAIT_STOP_NONE);
    plait_stop_result r = feed_text(stop, "answer> and more", &shown);
    assert_int_equal(r.reason, PLAIT_STOP_STRING);
    assert_int_equal(r.index, 0);
    assert_shown(&shown, "42 </ans! ");
    assert_int_equal(plait_stop_feed(stop, 1, "x", 1, &r), PLAIT_WRONG_STATE);
    assert_int_equal(plait_stop_flush(stop, &r), PLAIT_OK);
    assert_int_equal(r.n_bytes, 0);
    plait_stop_reset(stop);
    shown.n = 0;
    assert_int_equal(feed_text(stop, "again", &shown).reason, PLAIT_STOP_NONE);
    assert_shown(&shown, "again");
    plait_stop_destroy(stop);
}

static void test_first_completed_then_longest(void **state) {
    (void)state;
    const char *strings[] = {"cde", "bcd", "d", "xyz", "z"};
    plait_stop *stop = make(&(plait_stop_options){.strings = strings, .n_strings = 5});
    shown_text shown = {0};
    plait_stop_result r = feed_text(stop, "abcde", &shown);
    assert_int_equal(r.index, 1); /* "bcd" and "d" end before "cde" does; "bcd" is longer */
    assert_shown(&shown, "a");
    plait_stop_reset(stop);
    shown.n = 0;
    assert_int_equal(feed_text(stop, "wxy", &shown).reason, PLAIT_STOP_NONE);
    assert_int_equal(feed_text(stop, "z", &shown).index, 3);
    assert_shown(&shown, "w");
    plait_stop_destroy(stop);
}

static void test_tokens_and_length(void **state) {
    (void)state;
    const char *strings[] = {"END"};
    plait_token end[] = {2, 32000}, own[] = {5};
    plait_stop_options options = {.end_tokens = end,
                                  .n_end_tokens = 2,
                                  .stop_tokens = own,
                                  .n_stop_tokens = 1,
                                  .strings = strings,
                                  .n_strings = 1,
                                  .max_tokens = 3};
    plait_stop *stop = make(&options);
    shown_text shown = {0};
    feed(stop, 10, "aE", 2, &shown);
    assert_shown(&shown, "a");
    plait_stop_result r = feed(stop, 32000, "<|im_end|>", 10, &shown);
    assert_int_equal(r.reason, PLAIT_STOP_END);
    assert_int_equal(r.index, 1);
    assert_shown(&shown, "aE"); /* nothing can complete it any more; the token's own piece is no text */
    assert_int_equal(plait_stop_n_tokens(stop), 1);
    plait_stop_reset(stop);
    shown.n = 0;
    assert_int_equal(feed(stop, 5, "x", 1, &shown).reason, PLAIT_STOP_TOKEN);
    assert_int_equal(shown.n, 0);
    plait_stop_reset(stop);
    for (int i = 0; i < 2; i++) assert_int_equal(feed(stop, 1, "E", 1, &shown).reason, PLAIT_STOP_NONE);
    r = feed(stop, 1, "N", 1, &shown);
    assert_int_equal(r.reason, PLAIT_STOP_LENGTH);
    assert_shown(&shown, "EEN");
    plait_stop_reset(stop);
    shown.n = 0;
    feed(stop, 1, "E", 1, &shown);
    feed(stop, 1, "N", 1, &shown);
    assert_int_equal(feed(stop, 1, "D", 1, &shown).reason, PLAIT_STOP_STRING); /* before length */
    plait_stop_destroy(stop);
    options.ignore_end = true;
    options.max_tokens = 0;
    stop = make(&options);
    assert_int_equal(feed(stop, 2, "</s>", 4, &shown).reason, PLAIT_STOP_NONE);
    assert_shown(&shown, "</s>");
    plait_stop_destroy(stop);
}

static void test_characters_stay_whole(void **state) {
    (void)state;
    const char *strings[] = {"\xE2\x82\xAC"}; /* the euro sign; shares two bytes with its neighbour below */
    plait_stop *stop = make(&(plait_stop_options){.strings = strings, .n_strings = 1});
    shown_text shown = {0};
    const char text[] = "a\xE2\x82\xAB\xF0\x9F\x99\x82"
                        "b\xE2\x82\xAC"
                        "c";
    plait_stop_reason reason = PLAIT_STOP_NONE;
    for (size_t i = 0; i + 1 < sizeof text && reason == PLAIT_STOP_NONE; i++) {
        reason = feed(stop, 1, text + i, 1, &shown).reason;
        assert_true(plait_utf8_valid(shown.bytes, shown.n));
    }
    assert_int_equal(reason, PLAIT_STOP_STRING);
    assert_shown(&shown, "a\xE2\x82\xAB\xF0\x9F\x99\x82"
                         "b");
    plait_stop_reset(stop);
    shown.n = 0;
    feed(stop, 1, "\xF0\x9F", 2, &shown);
    assert_int_equal(shown.n, 0);
    plait_stop_result r;
    assert_int_equal(plait_stop_flush(stop, &r), PLAIT_OK);
    assert_int_equal(r.n_bytes, 2);
    plait_stop_destroy(stop);
}

/* ---- the model ---- */

static uint32_t next_random(uint32_t *x) {
    *x = *x * 1664525u + 1013904223u;
    return *x >> 8;
}

typedef struct verdict {
    bool stopped;
    size_t string, visible; /* bytes of the text that may be seen */
} verdict;

static bool occurs_at(const char *text, size_t n, size_t at, const char *s, size_t length) {
    return at + length <= n && memcmp(text + at, s, length) == 0;
}

static verdict judge(const char *text, size_t n, const char *const *strings, size_t n_strings) {
    for (size_t end = 1; end <= n; end++) {
        size_t best = 0, which = 0;
        for (size_t s = 0; s < n_strings; s++) {
            size_t length = strlen(strings[s]);
            if (length > best && length <= end && occurs_at(text, end, end - length, strings[s], length))
                best = length, which = s;
        }
        if (best) return (verdict){true, which, end - best};
    }
    for (size_t held = n; held > 0; held--)
        for (size_t s = 0; s < n_strings; s++)
            if (strlen(strings[s]) > held && memcmp(text + n - held, strings[s], held) == 0)
                return (verdict){false, 0, n - held};
    return (verdict){false, 0, n};
}

static void check_random_text(uint32_t seed, size_t *stops) {
    uint32_t random = seed;
    char storage[6][9], text[256];
    const char *strings[6];
    size_t n_strings = 1 + next_random(&random) % 6, n = 0;
    uint32_t letters = 1 + next_random(&random) % 3;
    for (size_t s = 0; s < n_strings; s++) {
        size_t length = 2 + next_random(&random) % 7;
        for (size_t i = 0; i < length; i++) storage[s][i] = (char)('a' + next_random(&random) % letters);
        storage[s][length] = '\0';
        strings[s] = storage[s];
    }
    plait_stop *stop = make(&(plait_stop_options){.strings = strings, .n_strings = n_strings});
    shown_text shown = {0};
    for (verdict v = {0}; n < 200 && !v.stopped;) {
        size_t length = next_random(&random) % 5;
        /* one letter more than the strings have, so that texts go on for a while */
        for (size_t i = 0; i < length; i++) text[n + i] = (char)('a' + next_random(&random) % (letters + 1));
        plait_stop_result r = feed(stop, 1, text + n, length, &shown);
        n += length;
        v = judge(text, n, strings, n_strings);
        if (v.stopped != (r.reason == PLAIT_STOP_STRING) || shown.n != v.visible ||
            memcmp(shown.bytes, text, shown.n) != 0)
            fail_msg("seed %u: %zu of %zu bytes shown, expected %zu", seed, shown.n, n, v.visible);
        if (v.stopped) {
            assert_string_equal(strings[r.index], strings[v.string]);
            ++*stops;
        }
    }
    plait_stop_destroy(stop);
}

static void test_against_the_model(void **state) {
    (void)state;
    size_t stops = 0;
    for (uint32_t seed = 1; seed <= 20000; seed++) check_random_text(seed, &stops);
    printf("20000 random texts, %zu stopped by a string\n", stops);
    assert_in_range(stops, 2000, 19999);
}

static void test_linear_in_hostile_text(void **state) {
    (void)state;
    /* A long string that almost matches everywhere: each byte must cost a constant, or this does not end. */
    size_t n = 200000;
    char *pattern = malloc(n + 1), *text = malloc(n);
    assert_non_null(pattern);
    assert_non_null(text);
    memset(pattern, 'a', n);
    memset(text, 'a', n);
    pattern[n] = 'b';
    const char *strings[] = {pattern};
    size_t lengths[] = {n + 1};
    plait_stop *stop =
        make(&(plait_stop_options){.strings = strings, .string_bytes = lengths, .n_strings = 1});
    plait_stop_result r;
    for (int i = 0; i < 20; i++) {
        assert_int_equal(plait_stop_feed(stop, 1, text, n, &r), PLAIT_OK);
        assert_int_equal(r.n_bytes, i == 0 ? 0 : n); /* the last n bytes may always be the beginning */
    }
    assert_int_equal(plait_stop_feed(stop, 1, "b", 1, &r), PLAIT_OK);
    assert_int_equal(r.reason, PLAIT_STOP_STRING);
    assert_int_equal(r.n_bytes, 0);
    plait_stop_destroy(stop);
    free(pattern);
    free(text);
}

static void test_wrong_options(void **state) {
    (void)state;
    plait_stop *stop = NULL;
    const char *empty[] = {"a", ""};
    assert_int_equal(plait_stop_create(&stop, &(plait_stop_options){.strings = empty, .n_strings = 2}),
                     PLAIT_INVALID_ARGUMENT);
    assert_non_null(strstr(plait_error_message(), "string 1 is empty"));
    assert_int_equal(plait_stop_create(&stop, &(plait_stop_options){.max_tokens = -1}),
                     PLAIT_INVALID_ARGUMENT);
    assert_int_equal(plait_stop_create(&stop, &(plait_stop_options){.n_strings = PLAIT_STOP_MAX_STRINGS + 1}),
                     PLAIT_LIMIT);
    size_t huge[] = {(size_t)PLAIT_STOP_MAX_STRING_BYTES + 1};
    assert_int_equal(
        plait_stop_create(&stop,
                          &(plait_stop_options){.strings = empty, .string_bytes = huge, .n_strings = 1}),
        PLAIT_LIMIT);
    assert_null(stop);
    stop = make(NULL);
    shown_text shown = {0};
    assert_int_equal(feed(stop, 0, NULL, 0, &shown).reason, PLAIT_STOP_NONE);
    assert_int_equal(feed_text(stop, "x", &shown).reason, PLAIT_STOP_NONE);
    assert_shown(&shown, "x");
    plait_stop_destroy(stop);
    plait_stop_destroy(NULL);
    assert_string_equal(plait_stop_reason_name(PLAIT_STOP_LENGTH), "length");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_string_over_borders), cmocka_unit_test(test_first_completed_then_longest),
        cmocka_unit_test(test_tokens_and_length),   cmocka_unit_test(test_characters_stay_whole),
        cmocka_unit_test(test_against_the_model),   cmocka_unit_test(test_linear_in_hostile_text),
        cmocka_unit_test(test_wrong_options),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
