/* Status codes and error messages: how every call of plait reports failure.
 *
 * Every function that can fail returns a plait_status. On failure it also leaves a message in a fixed-size
 * record of the calling thread that says what failed, where, and with which numbers. The record is never
 * allocated and stays valid until the next failing call on the same thread; outputs of a failed call are
 * left untouched. Nothing in the library aborts or exits.
 */
#ifndef PLAIT_STATUS_H
#define PLAIT_STATUS_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Kinds of outcome. X(name, value, meaning). Values are stable. Programs may switch on them; text for people is the
 * message, which may change. INVALID_ARGUMENT is the caller's mistake, CORRUPT the data's, INTERNAL plait's own: nobody
 * else can mend it. */
#define PLAIT_STATUS_LIST(X)                                                                                 \
    X(OK, 0, "success")                                                                                      \
    X(INVALID_ARGUMENT, 1, "the caller passed something that can never be right")                            \
    X(OUT_OF_RANGE, 2, "an index, id, position or size is outside its bounds")                               \
    X(OUT_OF_MEMORY, 3, "host or device memory is exhausted; everything was freed")                          \
    X(NOT_FOUND, 4, "a named thing does not exist")                                                          \
    X(UNSUPPORTED, 5, "understood, but not provided by this build, device or model")                         \
    X(CORRUPT, 6, "data from outside breaks the rules of its format")                                        \
    X(IO, 7, "the operating system failed to read or write")                                                 \
    X(LIMIT, 8, "a stated limit (steps, depth, bytes, time) was reached")                                    \
    X(WRONG_STATE, 9, "the object is not in a state that allows this call")                                  \
    X(CANCELLED, 10, "the caller asked to stop")                                                             \
    X(TIMEOUT, 11, "a wait ended without its event")                                                         \
    X(DEVICE_LOST, 12, "the device is gone; its memory is lost")                                             \
    X(INTERNAL, 13, "an invariant of plait itself is broken; please report it")

/* OK is 0 and nothing else is, so `if (status)` asks for failure. */
typedef enum plait_status {
#define PLAIT_STATUS_ENUM(name, value, meaning) PLAIT_##name = value,
    PLAIT_STATUS_LIST(PLAIT_STATUS_ENUM)
#undef PLAIT_STATUS_ENUM
} plait_status;

/* Size of the error record's message, the terminating NUL included; longer messages are cut at the end. The cut may
 * fall inside a UTF-8 character. */
#define PLAIT_ERROR_BYTES 1024

/* Name of a code without prefix, for example "OUT_OF_MEMORY"; "UNKNOWN_STATUS" for other values. Static. Never
 * fails. */
const char *plait_status_name(plait_status status);

/* The message of the last failing call on this thread, or "" if none failed yet. Valid until the next failing call on
 * this thread. A call that succeeds leaves it as it was: look at it only after a failure. */
const char *plait_error_message(void);

/* Copies that message into out (always NUL-terminated when size_bytes > 0) and returns its full length in bytes without
 * the NUL. Use it to keep a message, or to hand it to another thread. `out` may be NULL when size_bytes is 0. The
 * message itself stays. */
size_t plait_error_copy(char *out, size_t size_bytes);

/* ---- for device kinds and callbacks, which report failures of their own ---- */

/* Sets this thread's message (cut at the record's size) and returns `code`. It says what, where, expected and actual:
 * "mine: a buffer of 4096 bytes, 100 are free". Arguments may point into the old message. `code` should not be OK: a
 * success has no message. */
plait_status plait_error_set(plait_status code, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* A failure stored by one thread and raised by another: of a queue, an event. A plain value that may be copied;
 * `message` is NUL-terminated. Zeroed: no failure. */
typedef struct plait_error_record {
    plait_status status;
    char message[PLAIT_ERROR_BYTES];
} plait_error_record;

/* Copies this thread's message with `status` into *out. Call it on the thread that failed, before anything else there
 * can fail. */
void plait_error_save(plait_status status, plait_error_record *out);
/* Makes *record this thread's message and returns its status. A record of OK changes nothing and gives OK. */
plait_status plait_error_raise(const plait_error_record *record);

/* Returns the status from the calling function when `expr` fails. For use where nothing needs cleaning up. `expr` is
 * evaluated once. */
#define PLAIT_TRY(expr)                                                                                      \
    do {                                                                                                     \
        plait_status plait_try_status_ = (expr);                                                             \
        if (plait_try_status_ != PLAIT_OK) return plait_try_status_;                                         \
    } while (0)

#ifdef __cplusplus
}
#endif
#endif
