/* The error record: what it keeps, how long messages are cut, and that threads do not share it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/status.h"
#include "base/thread.h"

#include <string.h>

static void test_names(void **state) {
    (void)state;
    assert_string_equal(plait_status_name(PLAIT_OK), "OK");
    assert_string_equal(plait_status_name(PLAIT_OUT_OF_MEMORY), "OUT_OF_MEMORY");
    assert_string_equal(plait_status_name(PLAIT_INTERNAL), "INTERNAL");
    assert_string_equal(plait_status_name((plait_status)99), "UNKNOWN_STATUS");
    assert_string_equal(plait_status_name((plait_status)-1), "UNKNOWN_STATUS");
}

static void test_message(void **state) {
    (void)state;
    assert_int_equal(plait_error(PLAIT_IO, "%s: expected %d, found %d", "a.gguf", 3, 4), PLAIT_IO);
    assert_string_equal(plait_error_message(), "a.gguf: expected 3, found 4");
    /* The arguments may be the record itself. */
    plait_error_set(PLAIT_IO, "again: %s", plait_error_message());
    assert_string_equal(plait_error_message(), "again: a.gguf: expected 3, found 4");
    plait_error_set_memory("weights", 123);
    assert_string_equal(plait_error_message(), "weights: cannot allocate 123 bytes");
}

static void test_context(void **state) {
    (void)state;
    plait_error_set(PLAIT_CORRUPT, "bad magic");
    assert_int_equal(plait_error_context(PLAIT_CORRUPT, "file %d", 7), PLAIT_CORRUPT);
    assert_string_equal(plait_error_message(), "file 7: bad magic");
    assert_int_equal(plait_error_context(PLAIT_OK, "not said"), PLAIT_OK);
    assert_string_equal(plait_error_message(), "file 7: bad magic");
}

static void test_cutting(void **state) {
    (void)state;
    char big[3 * PLAIT_ERROR_BYTES];
    memset(big, 'x', sizeof big - 1);
    big[sizeof big - 1] = 0;
    plait_error_set(PLAIT_LIMIT, "%s", big);
    assert_int_equal(strlen(plait_error_message()), PLAIT_ERROR_BYTES - 1);
    plait_error_context(PLAIT_LIMIT, "front");
    assert_int_equal(strlen(plait_error_message()), PLAIT_ERROR_BYTES - 1);
    assert_int_equal(strncmp(plait_error_message(), "front: xxx", 10), 0);
    plait_error_context(PLAIT_LIMIT, "%s", big);
    assert_int_equal(strlen(plait_error_message()), PLAIT_ERROR_BYTES - 1);
}

static void test_copy(void **state) {
    (void)state;
    char out[6] = "?????";
    plait_error_set(PLAIT_IO, "0123456789");
    assert_int_equal(plait_error_copy(out, 0), 10);
    assert_string_equal(out, "?????");
    assert_int_equal(plait_error_copy(NULL, 0), 10);
    assert_int_equal(plait_error_copy(out, 1), 10);
    assert_string_equal(out, "");
    assert_int_equal(plait_error_copy(out, sizeof out), 10);
    assert_string_equal(out, "01234");
}

static void *fail_elsewhere(void *argument) {
    plait_error_record *record = argument;
    if (plait_error_message()[0]) return argument; /* a fresh thread has no message */
    plait_error_set(PLAIT_DEVICE_LOST, "lost at step %d", 5);
    plait_error_save(PLAIT_DEVICE_LOST, record);
    return NULL;
}

static void test_threads_have_their_own(void **state) {
    (void)state;
    plait_error_record record = {0};
    plait_thread thread = {0};
    plait_error_set(PLAIT_IO, "mine");
    assert_int_equal(plait_thread_start(&thread, "fails", fail_elsewhere, &record), PLAIT_OK);
    plait_thread_join(&thread);
    assert_string_equal(plait_error_message(), "mine");
    assert_int_equal(plait_error_raise(&record), PLAIT_DEVICE_LOST);
    assert_string_equal(plait_error_message(), "lost at step 5");
    record.status = PLAIT_OK;
    assert_int_equal(plait_error_raise(&record), PLAIT_OK);
    assert_string_equal(plait_error_message(), "lost at step 5");
}

static plait_status tries(plait_status first, int *reached) {
    PLAIT_TRY(first);
    *reached = 1;
    plait_status status;
    PLAIT_TRY_GOTO(status, PLAIT_TIMEOUT, out);
    *reached = 2;
out:
    return status;
}

static void test_try(void **state) {
    (void)state;
    int reached = 0;
    assert_int_equal(tries(PLAIT_LIMIT, &reached), PLAIT_LIMIT);
    assert_int_equal(reached, 0);
    assert_int_equal(tries(PLAIT_OK, &reached), PLAIT_TIMEOUT);
    assert_int_equal(reached, 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names),   cmocka_unit_test(test_message),
        cmocka_unit_test(test_context), cmocka_unit_test(test_cutting),
        cmocka_unit_test(test_copy),    cmocka_unit_test(test_threads_have_their_own),
        cmocka_unit_test(test_try),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
