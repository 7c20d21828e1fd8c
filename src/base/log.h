/* Logging through a callback: the library never writes to stderr by itself. Errors are not logged where they
 * are returned; a log line is for what the caller would not otherwise learn (progress, a fallback taken). */
#ifndef PLAIT_BASE_LOG_H
#define PLAIT_BASE_LOG_H

#include "base/status.h"
#include "plait/log.h"

/* Formats and delivers one line (without line end). A NULL logger, or one without a function, drops it. Lines
 * longer than 1 KiB are cut. */
void plait_log(const plait_logger *logger, plait_log_level level, const char *format, ...) PLAIT_PRINTF(3, 4);

/* Reports progress of something that takes long: done of total in bytes or items. Returns false when the
 * callback asks to stop; a NULL logger or one without progress function returns true. */
bool plait_log_progress(const plait_logger *logger, const char *what, uint64_t done, uint64_t total);

#endif
