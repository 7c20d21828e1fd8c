/* The suite's frame: a thread that opens the device and runs the groups, and the calling thread, which delivers results
 * and keeps the time. Not here: what is checked (the groups), what results look like as JSON (report.c). Invariant: a
 * result is delivered for every check that was asked for, once, in one fixed order, whatever the device does short of
 * crashing.
 *
 * A device that never answers keeps the suite's thread for ever. Its session, with everything the thread can still
 * touch, is then left to that thread, which frees it should it ever return; a new session goes on behind the check. */
#include "base/alloc.h"
#include "base/glob.h"
#include "base/os.h"
#include "base/size.h"
#include "base/thread.h"
#include "conformance/fill.h"
#include "conformance/report.h"
#include "conformance/suite.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Patience is what a check waits for one event; the limit is what a whole check may take before its device is given
 * up. */
#define DEFAULT_PATIENCE_NS    ((uint64_t)20 * 1000000000)
#define DEFAULT_CHECK_LIMIT_NS ((uint64_t)300 * 1000000000)

/* After so many devices that never answered, the rest would not either, and each keeps a thread and its memory. */
enum { MAX_GIVEN_UP = 20, NAME_BYTES = 128 };

/* Who acts next. The two threads never work at once: the suite's runs checks, the caller's delivers one result. */
typedef enum turn { TURN_SUITE, TURN_CALLER, TURN_ENDED } turn;

/* `turn`, `given_up`, `started_ns`, `name` and `in_check` are under the lock; `c` belongs to whoever's turn it is. */
typedef struct session {
    plait_conf c;
    char *item, *only, *lost_item; /* Owned. */
    int index, skip;               /* of checks that are asked for: reached, and not to be run */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    turn turn;
    bool given_up;             /* the caller is gone */
    uint64_t started_ns;       /* what runs now; 0: nothing */
    char name[NAME_BYTES];     /* its name */
    bool in_check;             /* it is a check, and not the opening or closing of the device */
    plait_status status;       /* of the whole, when ended */
    plait_error_record reason; /* its message */
} session;

/* ---- checks, on the suite's thread ---- */

bool plait_conf_wanted(const plait_conf *c, const char *name) {
    return !c->stopped && (!c->options.only || plait_glob_matches(c->options.only, name));
}

/* The mark is what tells a device that lacks something from one that fails with UNSUPPORTED where it must not. */
plait_status plait_conf_may_lack(plait_conf *c, plait_status status) {
    if (status == PLAIT_UNSUPPORTED) c->lacks = true;
    return status;
}

plait_status plait_conf_lack(plait_conf *c, const char *format, ...) {
    va_list args;
    va_start(args, format);
    plait_error_v(PLAIT_UNSUPPORTED, format, args);
    va_end(args);
    return plait_conf_may_lack(c, PLAIT_UNSUPPORTED);
}

/* From here on the caller's clock runs for `name`. A session that was given up meanwhile learns it here, and does no
 * more checks. strncpy leaves the last byte alone, which is 0 from the allocation. */
static void begin(session *s, const char *name, bool in_check) {
    pthread_mutex_lock(&s->lock);
    s->started_ns = plait_time_ns();
    strncpy(s->name, name, sizeof s->name - 1);
    s->in_check = in_check;
    s->c.stopped |= s->given_up;
    pthread_mutex_unlock(&s->lock);
}

/* Lets the caller have the result, and waits until it has seen it: the result is the session's, and would be written
 * over by the next check. The clock stands meanwhile. A caller that has gone away never answers, hence given_up in the
 * condition. */
static void hand_over(session *s) {
    pthread_mutex_lock(&s->lock);
    s->started_ns = 0;
    s->turn = TURN_CALLER;
    pthread_cond_broadcast(&s->changed);
    while (s->turn == TURN_CALLER && !s->given_up) pthread_cond_wait(&s->changed, &s->lock);
    s->c.stopped |= s->given_up;
    pthread_mutex_unlock(&s->lock);
}

/* Of the time that the work takes at the measured limits, by what bounds it more; 0 where nothing was measured. 1 is as
 * fast as the measured limits allow; above 1 the limits were measured too low. */
static double share_of_limit(const plait_conf *c) {
    const plait_conformance_result *r = &c->result;
    double bytes_ns = c->bytes_per_s > 0 ? r->bytes / c->bytes_per_s * 1e9 : 0;
    double flop_ns = c->flop_per_s > 0 ? r->flop / c->flop_per_s * 1e9 : 0;
    return r->launch_ns > 0 ? (bytes_ns > flop_ns ? bytes_ns : flop_ns) / r->launch_ns : 0;
}

/* A queue that failed stays failed, which is nothing that later checks are about. Without another one the old stays,
 * and they fail as well. */
static void renew_queue(plait_conf *c) {
    plait_queue *queue = NULL;
    if (c->v->synchronise(c->queue) == PLAIT_OK) return;
    if (c->v->queue_create(c->device, PLAIT_QUEUE_INLINE, &queue) != PLAIT_OK) return;
    c->v->queue_destroy(c->queue);
    c->queue = queue;
}

/* Checks that are not asked for have no number; those that an earlier session has delivered, or was given up at, are
 * counted and passed over. `message` lives on this stack: the caller's thread reads it before hand_over returns. */
void plait_conf_check(plait_conf *c, const char *name, plait_conf_fn fn, void *user) {
    char message[PLAIT_ERROR_BYTES] = "";
    session *s = c->session;
    if (!plait_conf_wanted(c, name) || s->index++ < s->skip) return;
    begin(s, name, true);
    if (c->stopped) return;
    c->result = (plait_conformance_result){.name = name, .message = message};
    c->lacks = false;
    plait_status status = fn(c, user);
    if (status != PLAIT_OK) plait_error_copy(message, sizeof message);
    c->result.outcome = status == PLAIT_OK                        ? PLAIT_CONFORMANCE_PASSED
                        : status == PLAIT_UNSUPPORTED && c->lacks ? PLAIT_CONFORMANCE_LACKING
                                                                  : PLAIT_CONFORMANCE_FAILED;
    c->result.share_of_limit = share_of_limit(c);
    if (c->result.outcome == PLAIT_CONFORMANCE_FAILED) renew_queue(c);
    hand_over(s);
}

/* On failure nothing of the device is left. With a monitor, the check sees the wrapped device only. */
plait_status plait_conf_open(plait_conf *c, const char *item, plait_device **out) {
    plait_device *device = NULL;
    PLAIT_TRY(plait_device_create(item, NULL, &device));
    plait_status status = c->monitor ? plait_monitor_wrap(c->monitor, device, out) : PLAIT_OK;
    if (status != PLAIT_OK) device->vtable->destroy(device);
    if (status == PLAIT_OK && !c->monitor) *out = device;
    return status;
}

/* In this order, which is that of results. What is open when something fails is closed by suite_main. The groups'
 * failures are results and no failures of this function. */
static plait_status open_and_run(plait_conf *c) {
    static void (*const groups[])(plait_conf *) = {
        plait_conf_devices, plait_conf_memory,   plait_conf_copies,   plait_conf_queues, plait_conf_events,
        plait_conf_peers,   plait_conf_programs, plait_conf_failures, plait_conf_life,   plait_conf_ops,
        plait_conf_shapes,  plait_conf_segments, plait_conf_packings,
    };
    if (c->options.monitor) PLAIT_TRY(plait_monitor_create(NULL, &c->monitor));
    PLAIT_TRY(plait_conf_open(c, c->item, &c->device));
    c->v = c->device->vtable;
    PLAIT_TRY(c->v->describe(c->device, &c->info));
    c->computes = strcmp(c->info.numeric_class, "null") != 0;
    PLAIT_TRY(c->v->queue_create(c->device, PLAIT_QUEUE_INLINE, &c->queue));
    for (size_t i = 0; i < PLAIT_COUNT_OF(groups); i++) groups[i](c);
    return PLAIT_OK;
}

/* ---- sessions ---- */

/* The suite's own memory; the device is not among it, for it belongs to the suite's thread. */
static void session_destroy(session *s) {
    if (!s) return;
    pthread_cond_destroy(&s->changed);
    pthread_mutex_destroy(&s->lock);
    plait_conf_blocks_destroy(s->c.blocks);
    free(s->item);
    free(s->only);
    free(s->lost_item);
    free(s);
}

/* No text is copied as none, and is no failure. */
static bool copy_text(const char *text, char **out) {
    *out = text ? plait_string_copy(text) : NULL;
    return !text || *out;
}

/* A session keeps copies of the caller's strings: it may outlive the call. The condition waits on the monotonic clock,
 * so a change of the wall clock gives no device up. */
static plait_status session_create(const char *item, const plait_conformance_options *options, int skip,
                                   session **out) {
    pthread_condattr_t monotonic;
    session *s = plait_alloc_array(1, sizeof *s);
    if (!s) return plait_error_memory("conformance", sizeof *s);
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_mutex_init(&s->lock, NULL);
    pthread_cond_init(&s->changed, &monotonic);
    pthread_condattr_destroy(&monotonic);
    bool copied = copy_text(item, &s->item);
    copied = copy_text(options->only, &s->only) && copied;
    copied = copy_text(options->lost_item, &s->lost_item) && copied;
    if (!copied) {
        session_destroy(s);
        return plait_error_memory("conformance", strlen(item));
    }
    s->skip = skip;
    s->c = (plait_conf){.item = s->item, .options = *options, .session = s};
    s->c.options.only = s->only;
    s->c.options.lost_item = s->lost_item;
    s->c.patience_ns = options->patience_ns ? options->patience_ns : DEFAULT_PATIENCE_NS;
    *out = s;
    return PLAIT_OK;
}

/* The device is closed here whatever happened, under the clock like a check: closing may hang too. Afterwards either
 * the caller frees the session or, when it has gone, this thread does. given_up is read under the same lock under which
 * the caller sets it, so exactly one of the two frees the session. */
static void *suite_main(void *user) {
    session *s = user;
    begin(s, "device/open", false);
    plait_status status = open_and_run(&s->c);
    plait_error_record reason = {0};
    if (status != PLAIT_OK) plait_error_save(status, &reason);
    begin(s, "device/close", false);
    if (s->c.queue) s->c.v->queue_destroy(s->c.queue);
    if (s->c.device) s->c.v->destroy(s->c.device);
    plait_monitor_destroy(s->c.monitor);
    pthread_mutex_lock(&s->lock);
    bool given_up = s->given_up;
    s->status = status;
    s->reason = reason;
    s->turn = TURN_ENDED;
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->lock);
    if (given_up) session_destroy(s);
    return NULL;
}

/* ---- the calling thread ---- */

/* What one call of the suite keeps over all its sessions. */
typedef struct caller {
    const char *item;
    plait_conformance_options options;
    plait_conformance_fn deliver;
    void *user;
    plait_conformance_summary summary;
    plait_conf_report report;
    bool stopped, more; /* more: a session was given up, and others may follow */
    int n_given_up, skip;
} caller;

/* The callback may stop the suite; the result is counted and reported all the same. */
static void take(caller *k, const plait_conformance_result *result) {
    int *const counts[] = {&k->summary.passed, &k->summary.failed, &k->summary.lacking};
    ++*counts[result->outcome];
    plait_conf_report_add(&k->report, result);
    if (k->deliver && !k->deliver(k->user, result)) k->stopped = true;
}

static struct timespec time_of(uint64_t ns) {
    return (struct timespec){.tv_sec = (time_t)(ns / 1000000000), .tv_nsec = (long)(ns % 1000000000)};
}

/* Waits until the suite wants something; false when a check has taken too long. Between checks the time counts from now
 * on, so making the next one may take its time. With the lock held, as follow calls it. */
static bool wait_for(session *s, uint64_t limit_ns) {
    while (s->turn == TURN_SUITE) {
        uint64_t now = plait_time_ns(), end = (s->started_ns ? s->started_ns : now) + limit_ns;
        if (now >= end) return false;
        struct timespec until = time_of(end);
        pthread_cond_timedwait(&s->changed, &s->lock, &until);
    }
    return true;
}

/* With the lock held: the session is left to its thread. The check counts as failed, and the next session begins behind
 * it. A device that hangs while it is opened or closed would do so again, so there is no next one. The result's name
 * points into the session, which cannot go away while the lock is held. */
static void give_up(caller *k, session *s, uint64_t limit_ns) {
    char message[200];
    plait_conformance_result result = {
        .name = s->name, .outcome = PLAIT_CONFORMANCE_FAILED, .message = message};
    snprintf(message, sizeof message, "did not end within %.1f s; its device is given up",
             (double)limit_ns / 1e9);
    take(k, &result);
    s->given_up = true;
    k->more = s->in_check && !k->stopped && ++k->n_given_up < MAX_GIVEN_UP;
    k->skip = s->index;
}

/* Results until the session ends, which is true, or is given up. */
static bool follow(caller *k, session *s) {
    uint64_t limit_ns = k->options.check_limit_ns ? k->options.check_limit_ns : DEFAULT_CHECK_LIMIT_NS;
    bool in_time = true;
    pthread_mutex_lock(&s->lock);
    while ((in_time = wait_for(s, limit_ns)) && s->turn != TURN_ENDED) {
        take(k, &s->c.result);
        s->c.stopped |= k->stopped;
        s->turn = TURN_SUITE;
        pthread_cond_broadcast(&s->changed);
    }
    if (s->c.bytes_per_s > 0) k->summary.bytes_per_s = s->c.bytes_per_s;
    if (s->c.flop_per_s > 0) k->summary.flop_per_s = s->c.flop_per_s;
    k->summary.info = s->c.info;
    if (!in_time) give_up(k, s, limit_ns);
    pthread_mutex_unlock(&s->lock); /* a session that was given up is its thread's from here on */
    return in_time;
}

/* One session, from the check on where the last one was given up. A failure of opening the device is this call's, with
 * the message from the suite's thread. The thread is detached only after it was given up; what it holds then is lost to
 * the process. */
static plait_status run_session(caller *k) {
    session *s = NULL;
    plait_thread thread = {0};
    PLAIT_TRY(session_create(k->item, &k->options, k->skip, &s));
    plait_status status = plait_thread_start(&thread, "plait-conform", suite_main, s);
    if (status != PLAIT_OK) {
        session_destroy(s);
        return status;
    }
    if (!follow(k, s)) {
        pthread_detach(thread.handle);
        return PLAIT_OK;
    }
    plait_thread_join(&thread);
    status = s->status == PLAIT_OK ? PLAIT_OK : plait_error_raise(&s->reason);
    session_destroy(s);
    return status;
}

/* A report is written of a run that was stopped too: of the checks that it came to. */
static plait_status run_sessions(caller *k) {
    do {
        k->more = false;
        PLAIT_TRY(run_session(k));
    } while (k->more);
    if (k->options.json_path)
        PLAIT_TRY(plait_conf_report_write(&k->report, &k->summary, k->options.json_path));
    if (k->stopped) return plait_error(PLAIT_CANCELLED, "conformance of %s was stopped", k->item);
    return PLAIT_OK;
}

/* Options of an older caller are shorter: what is missing is 0. *out_summary is set only when the whole suite ran.
 * Failed checks are no failure of this call: the counts tell. */
plait_status plait_conformance_run(const char *device_item, const plait_conformance_options *options,
                                   plait_conformance_fn result, void *user,
                                   plait_conformance_summary *out_summary) {
    caller k = {.item = device_item, .deliver = result, .user = user};
    if (options) {
        size_t bytes = options->struct_bytes < sizeof k.options ? options->struct_bytes : sizeof k.options;
        memcpy(&k.options, options, bytes);
    }
    plait_conf_report_init(&k.report, device_item, k.options.json_path != NULL);
    plait_status status = run_sessions(&k);
    plait_conf_report_deinit(&k.report);
    if (status == PLAIT_OK && out_summary) *out_summary = k.summary;
    return status;
}
