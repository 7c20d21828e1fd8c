/* The thread-local error record. Not here: logging (log.h), and any policy about which code to use.
 * Invariant: the record is a fixed array, always NUL-terminated, and writing it never allocates. */
#include "base/status.h"

#include <stdio.h>
#include <string.h>

/* One of the three mutable things of the library that are in no object; the others are the registry of kinds and the
 * list of who computes (device/processors.h). */
static _Thread_local char error_text[PLAIT_ERROR_BYTES];

const char *plait_status_name(plait_status status) {
    switch (status) {
#define STATUS_CASE(name, value, meaning)                                                                    \
    case PLAIT_##name: return #name;
        PLAIT_STATUS_LIST(STATUS_CASE)
#undef STATUS_CASE
    }
    return "UNKNOWN_STATUS";
}

/* Never NULL; empty before the first failure of the thread. */
const char *plait_error_message(void) {
    return error_text;
}

/* Like snprintf: the length returned is that of the whole message, so a caller sees when its room was too small. */
size_t plait_error_copy(char *out, size_t size_bytes) {
    size_t length = strlen(error_text);
    if (size_bytes > 0) {
        size_t n = length < size_bytes - 1 ? length : size_bytes - 1;
        memcpy(out, error_text, n);
        out[n] = '\0';
    }
    return length;
}

/* A message longer than the record is cut at its end. */
plait_status plait_error_v(plait_status code, const char *format, va_list args) {
    char text[PLAIT_ERROR_BYTES]; /* arguments may point into the record itself */
    vsnprintf(text, sizeof text, format, args);
    memcpy(error_text, text, sizeof text);
    return code;
}

plait_status plait_error_set(plait_status code, const char *format, ...) {
    va_list args;
    va_start(args, format);
    plait_error_v(code, format, args);
    va_end(args);
    return code;
}

/* The new text is built beside the record, because arguments may point into it. What does not fit is lost at the end:
 * the outermost context, which says where, is worth more than the tail of the cause. The result reads from the outside
 * in: "part 2 of 3: tensor x: offset ...". OK passes through untouched, so a call can be wrapped whatever it
 * returns. */
plait_status plait_error_context(plait_status code, const char *format, ...) {
    if (code == PLAIT_OK) return code;
    char text[PLAIT_ERROR_BYTES];
    va_list args;
    va_start(args, format);
    int n = vsnprintf(text, sizeof text, format, args);
    va_end(args);
    size_t used = n < 0 ? 0 : (size_t)n < sizeof text - 1 ? (size_t)n : sizeof text - 1;
    snprintf(text + used, sizeof text - used, ": %s", error_text);
    memcpy(error_text, text, sizeof text);
    return code;
}

plait_status plait_error_set_memory(const char *what, uint64_t size_bytes) {
    return plait_error(PLAIT_OUT_OF_MEMORY, "%s: cannot allocate %llu bytes", what,
                       (unsigned long long)size_bytes);
}

/* All of the record is copied, not only up to the NUL: both have one size, and the copy then needs no length. For a
 * failure on a device's thread, which surfaces later on the thread that waits. */
void plait_error_save(plait_status status, plait_error_record *out) {
    out->status = status;
    memcpy(out->message, error_text, sizeof error_text);
}

/* A record of OK leaves the message as it is: it belongs to an earlier failure, and a success never clears it. */
plait_status plait_error_raise(const plait_error_record *record) {
    if (record->status != PLAIT_OK) memcpy(error_text, record->message, sizeof error_text);
    return record->status;
}
