/* Threads, futexes and log delivery. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/log.h"
#include "base/os.h"
#include "base/thread.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

static void *observe(void *argument) {
    sigset_t *blocked = argument;
    pthread_sigmask(SIG_SETMASK, NULL, blocked);
    return NULL;
}

static void test_start_and_join(void **state) {
    (void)state;
    sigset_t blocked, before, after;
    sigemptyset(&blocked);
    pthread_sigmask(SIG_SETMASK, NULL, &before);
    plait_thread thread = {0};
    assert_int_equal(plait_thread_start(&thread, "observer", observe, &blocked), PLAIT_OK);
    assert_true(thread.started);
    plait_thread_join(&thread);
    assert_false(thread.started);
    plait_thread_join(&thread); /* again does nothing */
    assert_true(sigismember(&blocked, SIGINT) && sigismember(&blocked, SIGTERM) &&
                sigismember(&blocked, SIGUSR1));
    pthread_sigmask(SIG_SETMASK, NULL, &after);
    assert_int_equal(sigismember(&before, SIGINT), sigismember(&after, SIGINT));
}

/* Two threads hand a ball to each other through one word. */
enum { ROUNDS = 2000 };

static void play(_Atomic uint32_t *word, uint32_t mine) {
    for (int i = 0; i < ROUNDS; i++) {
        uint32_t seen;
        while ((seen = atomic_load(word)) % 2 != mine) plait_futex_wait(word, seen, UINT64_MAX);
        atomic_fetch_add(word, 1);
        plait_futex_wake(word, INT32_MAX);
    }
}

static void *other_player(void *argument) {
    play(argument, 1);
    return NULL;
}

static void test_futex_hand_over(void **state) {
    (void)state;
    _Atomic uint32_t word = 0;
    plait_thread thread = {0};
    assert_int_equal(plait_thread_start(&thread, "other player", other_player, &word), PLAIT_OK);
    play(&word, 0);
    plait_thread_join(&thread);
    assert_int_equal(atomic_load(&word), 2 * ROUNDS);
}

static void test_futex_timeout(void **state) {
    (void)state;
    _Atomic uint32_t word = 5;
    assert_true(plait_futex_wait(&word, 4, UINT64_MAX)); /* not the expected value: at once */
    uint64_t start = plait_time_ns();
    while (plait_futex_wait(&word, 5, 20000000)) continue;
    uint64_t waited = plait_time_ns() - start;
    assert_true(waited >= 15000000);
    assert_false(plait_futex_wait(&word, 5, 0));
    plait_futex_wake(&word, 1); /* nobody sleeps */
    plait_cpu_relax();
}

static char last_line[2048];
static plait_log_level last_level;

static void keep_line(void *user, plait_log_level level, const char *line) {
    ++*(int *)user;
    last_level = level;
    snprintf(last_line, sizeof last_line, "%s", line);
}

static bool stop_at_half(void *user, const char *what, uint64_t done, uint64_t total) {
    ++*(int *)user;
    return strcmp(what, "load") == 0 && done * 2 < total;
}

static void test_log(void **state) {
    (void)state;
    int calls = 0;
    plait_logger silent = {0}, logger = {.line = keep_line, .progress = stop_at_half, .user = &calls};
    plait_log(NULL, PLAIT_LOG_ERROR, "dropped");
    plait_log(&silent, PLAIT_LOG_ERROR, "dropped");
    plait_log(&logger, PLAIT_LOG_WARNING, "fell back to %s", "cpu");
    assert_int_equal(calls, 1);
    assert_int_equal(last_level, PLAIT_LOG_WARNING);
    assert_string_equal(last_line, "fell back to cpu");
    plait_log(&logger, PLAIT_LOG_INFO, "%1500d", 1);
    assert_int_equal(strlen(last_line), 1023);
    assert_true(plait_log_progress(NULL, "load", 1, 2));
    assert_true(plait_log_progress(&silent, "load", 1, 2));
    assert_true(plait_log_progress(&logger, "load", 1, 4));
    assert_false(plait_log_progress(&logger, "load", 3, 4));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_start_and_join),
        cmocka_unit_test(test_futex_hand_over),
        cmocka_unit_test(test_futex_timeout),
        cmocka_unit_test(test_log),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
