/* A call that a test expects to succeed: fails the test with the message of the error. */
#ifndef PLAIT_TESTS_SUPPORT_ASSERT_OK_H
#define PLAIT_TESTS_SUPPORT_ASSERT_OK_H

#include "plait/status.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

static inline void assert_ok(plait_status status) {
    if (status != PLAIT_OK) fail_msg("%s: %s", plait_status_name(status), plait_error_message());
}

#endif
