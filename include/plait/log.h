/* Log lines and progress, delivered to the embedding program. */
#ifndef PLAIT_LOG_H
#define PLAIT_LOG_H

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum plait_log_level {
    PLAIT_LOG_DEBUG = 0,
    PLAIT_LOG_INFO = 1,
    PLAIT_LOG_WARNING = 2,
    PLAIT_LOG_ERROR = 3 /* something failed that no return value can report */
} plait_log_level;

/* Receives one line without a line end, valid during the call. May be called from any thread, also from
 * several at once. */
typedef void (*plait_log_fn)(void *user, plait_log_level level, const char *line);

/* Receives progress: `what` names the work, done counts up to total (bytes or items; total may be 0 when
 * unknown). Returns false to ask for the work to be cancelled. Called from the thread that does the work. */
typedef bool (*plait_progress_fn)(void *user, const char *what, uint64_t done, uint64_t total);

/* Where log lines and progress go. Zeroed: nowhere. Copied by whoever keeps it; `user` must outlive that. */
typedef struct plait_logger {
    plait_log_fn line;
    plait_progress_fn progress;
    void *user;
} plait_logger;

#ifdef __cplusplus
}
#endif
#endif
