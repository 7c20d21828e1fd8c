/* Inside of the suite: the device under test, how a check fails, and the list of groups of checks.
 *
 * A check is a function that returns OK, or a failure whose message says what was expected; it cleans up behind itself
 * either way. Groups of checks call plait_conf_check for each, which runs it when its name is asked for.
 */
#ifndef PLAIT_CONFORMANCE_SUITE_H
#define PLAIT_CONFORMANCE_SUITE_H

#include "base/status.h"
#include "base/strbuf.h"
#include "plait/conformance.h"
#include "plait/monitor.h"

/* A block of a quantised type whose scales are known: see fill.c. */
typedef struct plait_conf_block plait_conf_block;

/* Everything a check sees. It is used by one thread, the suite's. */
typedef struct plait_conf {
    const char *item; /* Borrowed. Of the device list. */
    plait_device *device;
    const plait_device_vtable *v;
    plait_device_info info;
    plait_queue *queue;     /* INLINE */
    bool computes;          /* results are compared */
    plait_monitor *monitor; /* around every device, when asked for */
    plait_conformance_options options;
    uint64_t patience_ns;
    plait_conformance_result result; /* of the check that runs: error, hash, launch_ns, bytes, flop */
    bool lacks;                      /* the check that runs has found what the device may lack */
    bool stopped;
    double bytes_per_s, flop_per_s; /* measured limits */
    double least_ns;                /* of the launch that was timed last */
    plait_conf_block *blocks;       /* Owned. Cache of fill.c; NULL until the first one. */
    void *session;                  /* of run.c; NULL: there is nobody to report to */
} plait_conf;

/* Makes a device of an item, with the session's monitor around it. The caller destroys it. */
plait_status plait_conf_open(plait_conf *c, const char *item, plait_device **out);

/* `user` is what plait_conf_check was given. */
typedef plait_status (*plait_conf_fn)(plait_conf *c, void *user);

/* Runs the check when the options ask for it. */
void plait_conf_check(plait_conf *c, const char *name, plait_conf_fn fn, void *user);
/* True when some check whose name begins so may be asked for: saves making what nobody wants. */
bool plait_conf_wanted(const plait_conf *c, const char *name);

/* Returns from the check with a failure unless the condition holds. */
#define PLAIT_CONF_EXPECT(condition, ...)                                                                    \
    do {                                                                                                     \
        if (!(condition)) return plait_error(PLAIT_INTERNAL, __VA_ARGS__);                                   \
    } while (0)

/* The device may lack this and says so: the check is lacking instead of failed. Anything else passes unchanged. Only for
 * calls that may answer UNSUPPORTED; from a must-have it is a failure. */
plait_status plait_conf_may_lack(plait_conf *c, plait_status status);
/* The same, with a reason of the suite's. */
plait_status plait_conf_lack(plait_conf *c, const char *format, ...) PLAIT_PRINTF(2, 3);

/* The groups, each in a file of its name. */
void plait_conf_devices(plait_conf *c);
void plait_conf_memory(plait_conf *c);
void plait_conf_copies(plait_conf *c);
void plait_conf_queues(plait_conf *c);
void plait_conf_events(plait_conf *c);
void plait_conf_peers(plait_conf *c);
void plait_conf_programs(plait_conf *c);
void plait_conf_failures(plait_conf *c);
void plait_conf_life(plait_conf *c);
void plait_conf_ops(plait_conf *c);
void plait_conf_shapes(plait_conf *c);
void plait_conf_segments(plait_conf *c);
void plait_conf_packings(plait_conf *c);

#endif
