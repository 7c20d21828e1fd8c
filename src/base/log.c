/* Delivery of log lines. Invariant: nothing is written anywhere unless the caller gave a callback. */
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
