/* Puts a monitor around every device of a test (cmake -DPLAIT_MONITOR_ALL=ON or FULL): linked into each program, it comes
 * before plait_context_open, plait_context_close and plait_device_create. What a monitor finds goes to stderr, and the
 * program then ends with status 97, so that a test that passes has broken no rule.
 *
 * Devices of a context share the context's monitor. Devices made one by one share one of the process, those inside of other
 * devices another, and so on.
 *
 * Tests that count allocations (tests/fault) are built without this: the monitor makes some of its own, and works on with
 * less to see when they fail. So are those that look behind the interface or break its rules on purpose, to see what
 * a device does
 * then: they say so in a comment of their own. */
#include "plait/context.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifndef PLAIT_MONITOR_ALL_LEVEL
#define PLAIT_MONITOR_ALL_LEVEL PLAIT_MONITOR_ON
#endif

enum { MOST_CONTEXTS = 256, MOST_DEPTH = 8, EXIT_FOUND = 97 };

plait_status __real_plait_context_open(plait_context **out, const char *devices,
                                       const plait_context_options *options);
plait_status __real_plait_context_reopen(plait_context **out, const plait_context *from, int *out_devices);
void __real_plait_context_close(plait_context *context);
plait_status __real_plait_device_create(const char *item, const plait_logger *logger, plait_device **out);
plait_status __wrap_plait_context_open(plait_context **out, const char *devices,
                                       const plait_context_options *options);
plait_status __wrap_plait_context_reopen(plait_context **out, const plait_context *from, int *out_devices);
void __wrap_plait_context_close(plait_context *context);
plait_status __wrap_plait_device_create(const char *item, const plait_logger *logger, plait_device **out);

static atomic_int found;
static _Thread_local int opening, creating;
static _Atomic(plait_monitor *) shared[MOST_DEPTH]; /* of devices made one by one, of those inside, ... */

/* A context's logger, and the one that it was opened with. No allocation: some tests count them. */
static struct watched {
    _Atomic(plait_context *) context;
    atomic_bool taken;
    plait_logger logger;
} contexts[MOST_CONTEXTS];

static void end_with_status(void) {
    if (!atomic_load(&found)) return;
    fprintf(stderr, "monitor: %d breaches in all\n", atomic_load(&found));
    _exit(EXIT_FOUND);
}

static void note(const char *line) {
    if (strncmp(line, "monitor: ", 9) != 0) return;
    if (atomic_fetch_add(&found, 1) == 0) atexit(end_with_status);
    fprintf(stderr, "%s\n", line);
}

static void watch_line(void *user, plait_log_level level, const char *line) {
    const struct watched *watched = user;
    note(line);
    if (watched->logger.line) watched->logger.line(watched->logger.user, level, line);
}

static bool watch_progress(void *user, const char *what, uint64_t done, uint64_t total) {
    const struct watched *watched = user;
    return !watched->logger.progress || watched->logger.progress(watched->logger.user, what, done, total);
}

static struct watched *take(void) {
    for (int i = 0; i < MOST_CONTEXTS; i++)
        if (!atomic_exchange(&contexts[i].taken, true)) return &contexts[i];
    return NULL;
}

plait_status __wrap_plait_context_open(plait_context **out, const char *devices,
                                       const plait_context_options *options) {
    plait_context_options watched_options = {0};
    struct watched *watched = take();
    if (options) watched_options = *options;
    if (watched) {
        watched->logger = watched_options.logger;
        watched_options.logger =
            (plait_logger){.line = watch_line, .progress = watch_progress, .user = watched};
        if (!watched_options.monitor) watched_options.monitor = PLAIT_MONITOR_ALL_LEVEL;
    }
    opening++;
    plait_status status = __real_plait_context_open(out, devices, &watched_options);
    opening--;
    if (watched && status == PLAIT_OK) atomic_store(&watched->context, *out);
    if (watched && status != PLAIT_OK) atomic_store(&watched->taken, false);
    return status;
}

/* The new context keeps the monitor's level and the logger of the old one, whose place stays taken. */
plait_status __wrap_plait_context_reopen(plait_context **out, const plait_context *from, int *out_devices) {
    for (int i = 0; i < MOST_CONTEXTS; i++) {
        plait_context *known = (plait_context *)(uintptr_t)from;
        atomic_compare_exchange_strong(&contexts[i].context, &known, NULL);
    }
    opening++;
    plait_status status = __real_plait_context_reopen(out, from, out_devices);
    opening--;
    return status;
}

void __wrap_plait_context_close(plait_context *context) {
    struct watched *watched = NULL;
    for (int i = 0; context && i < MOST_CONTEXTS; i++)
        if (atomic_load(&contexts[i].context) == context) watched = &contexts[i];
    if (watched) atomic_store(&watched->context, NULL);
    __real_plait_context_close(context);
    if (watched) atomic_store(&watched->taken, false);
}

/* ---- devices made one by one ---- */

static void note_line(void *user, plait_log_level level, const char *line) {
    (void)user, (void)level;
    note(line);
}

static plait_monitor *shared_monitor(int depth) {
    plait_monitor *monitor = atomic_load(&shared[depth]), *made = NULL, *none = NULL;
    if (monitor) return monitor;
    plait_monitor_options options = {
        .struct_bytes = sizeof options, .level = PLAIT_MONITOR_ALL_LEVEL, .logger = {.line = note_line}};
    if (plait_monitor_create(&options, &made) != PLAIT_OK) return NULL;
    if (atomic_compare_exchange_strong(&shared[depth], &none, made)) return made;
    plait_monitor_destroy(made);
    return none;
}

/* Memory of the process' monitors stays; sanitizers see it through `shared`. */
plait_status __wrap_plait_device_create(const char *item, const plait_logger *logger, plait_device **out) {
    plait_device *inner = NULL;
    creating++;
    plait_status status = __real_plait_device_create(item, logger, &inner);
    creating--;
    if (status != PLAIT_OK) return status;
    bool watched = (!opening || creating) && creating < MOST_DEPTH;
    plait_monitor *monitor = watched ? shared_monitor(creating) : NULL;
    if (!monitor)
        *out = inner;
    else if ((status = plait_monitor_wrap(monitor, inner, out)) != PLAIT_OK)
        inner->vtable->destroy(inner);
    return status;
}
