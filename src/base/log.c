/* Delivery of log lines. Not here: when to log, and failures, which are returned (status.h). Invariant: nothing is
 * written anywhere unless the caller gave a callback, and nothing is allocated: a line is formatted on the stack, so
 * that being out of memory can be told. */
#include "base/log.h"

#include <stdio.h>

void plait_log(const plait_logger *logger, plait_log_level level, const char *format, ...) {
    if (!logger || !logger->line) return;
    char line[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    logger->line(logger->user, level, line);
}

bool plait_log_progress(const plait_logger *logger, const char *what, uint64_t done, uint64_t total) {
    if (!logger || !logger->progress) return true;
    return logger->progress(logger->user, what, done, total);
}
