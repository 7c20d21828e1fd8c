/* How plait's own code sets the error record of the calling thread.
 *
 * The function that decides an error writes the message once, with plait_error; functions on the way up
 * either pass the status on unchanged (PLAIT_TRY) or put what they were doing in front of the message with
 * plait_error_context. Nothing here allocates.
 */
#ifndef PLAIT_BASE_STATUS_H
#define PLAIT_BASE_STATUS_H

#include "plait/status.h"

#include <stdarg.h>
#include <stdint.h>

#define PLAIT_PRINTF(format_index, args_index) __attribute__((format(printf, format_index, args_index)))

/* plait_error_set as a macro, so that `return plait_error(PLAIT_IO, "...")` reads well. The text
 * says what, where, expected and actual: "blk.0.attn_q.weight: expected shape [576, 576], found [576, 64]". A macro,
 * so that compilers see that the result is the code: never OK where the code is a constant that is not. */
#define plait_error(code, ...) (plait_error_set((code), __VA_ARGS__), (code))
plait_status plait_error_v(plait_status code, const char *format, va_list args);

/* Puts "CONTEXT: " in front of the message and returns `code`; does nothing when code is PLAIT_OK. When the
 * whole would not fit, the end of the old message is cut. */
plait_status plait_error_context(plait_status code, const char *format, ...) PLAIT_PRINTF(2, 3);

/* The one message for a failed allocation. */
plait_status plait_error_set_memory(const char *what, uint64_t size_bytes);
#define plait_error_memory(what, size_bytes)                                                                 \
    (plait_error_set_memory((what), (size_bytes)), PLAIT_OUT_OF_MEMORY)

/* Runs `expr`; on failure stores the status in `var` and jumps to `label`. For local temporaries that must
 * be released; the label names what it undoes. */
#define PLAIT_TRY_GOTO(var, expr, label)                                                                     \
    do {                                                                                                     \
        (var) = (expr);                                                                                      \
        if ((var) != PLAIT_OK) goto label;                                                                   \
    } while (0)

#endif
