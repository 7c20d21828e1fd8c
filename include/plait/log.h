/* Log lines and progress, delivered to the embedding program. The library writes to no stream of its own accord, and a
 * failure that a call returns is not logged as well: a line is for what nobody would otherwise learn (a fallback taken,
 * a cache that could not be written). Not here: the failures themselves (plait/status.h). */
#ifndef PLAIT_LOG_H
#define PLAIT_LOG_H

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Rising: a program that wants warnings and worse compares with >=. */
typedef enum plait_log_level {
    PLAIT_LOG_DEBUG = 0,   /* for who looks into plait itself */
    PLAIT_LOG_INFO = 1,    /* what was chosen */
    PLAIT_LOG_WARNING = 2, /* works, but not as it could or as was asked */
    PLAIT_LOG_ERROR = 3    /* something failed that no return value can report */
} plait_log_level;

/* Receives one line without a line end, valid during the call. May be called from any thread, also from several at
 * once. At most 1 KiB; longer lines are cut. */
typedef void (*plait_log_fn)(void *user, plait_log_level level, const char *line);

/* Receives progress: `what` names the work, done counts up to total (bytes or items; total may be 0 when unknown).
 * Returns false to ask for the work to be cancelled: it then ends with CANCELLED, and what remains of it is said where
 * the call is declared. Called from the thread that does the work; `what` is valid during the call. */
typedef bool (*plait_progress_fn)(void *user, const char *what, uint64_t done, uint64_t total);

/* Where log lines and progress go. Zeroed: nowhere. Copied by whoever keeps it; `user` must outlive that. A function
 * that is NULL is not called. */
typedef struct plait_logger {
    plait_log_fn line;
    plait_progress_fn progress;
    void *user;
} plait_logger;

#ifdef __cplusplus
}
#endif
#endif
