/* A context: the devices that plans may use, and the memory that they share among plans.
 *
 * It owns the devices, one queue of launches on each (and queues for transfers where a device has copy engines), and
 * the arenas of temporaries; models, plans, runs and sessions are made in it and borrow them. A process may have
 * several contexts, which know nothing of each other's memory. Not here: where anything runs (plait/plan.h). */
#ifndef PLAIT_CONTEXT_H
#define PLAIT_CONTEXT_H

#include "plait/monitor.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Opaque. Created by plait_context_open or plait_context_reopen, ended by plait_context_close. */
typedef struct plait_context plait_context;

/* Zeroed: silent, all processors, no monitor. */
typedef struct plait_context_options {
    plait_logger logger; /* copied */
    int threads; /* default of cpu items without `threads=`; 0: all processors that the process may use */
    /* Puts a monitor around every device: see plait/monitor.h. Breaches go to `logger` and fail the call or queue. */
    plait_monitor_level monitor;
} plait_context_options;

/* Opens the devices of a comma-separated list of items `kind[:key=value]...`, for example
 * "cpu:threads=1,cpu:threads=1"; NULL or "" means "cpu". The same kind twice is legal; each kind decides what becomes
 * of its items (plait_device_vtable.expand): "cpu:numa=each" is a device of each NUMA node, "cpu,cpu" two with half of
 * the processors each. Unknown kinds and keys are INVALID_ARGUMENT. `options` may be NULL. The context is used by one
 * thread at a time, except by runs. The caller closes *out. Errors: those of the kinds that create the devices; nothing
 * stays open after one. */
plait_status plait_context_open(plait_context **out, const char *devices,
                                const plait_context_options *options);
/* OK while plans can run in the context. Otherwise the first failure, with its message: a device was lost, or a queue
 * failed. Nothing can run in it any more then; runs, plans and models in it can only be destroyed, and another context
 * opened on the devices that are left. Any thread. */
plait_status plait_context_health(plait_context *context);
/* Opens the devices of another context that are not lost (plait_device_vtable.health) again, in the same order, with the
 * same logger and monitor. out_devices, if not NULL, has room for as many numbers as `from` has devices: [i] is the number
 * there of device i here. `from` is only read, and may be closed afterwards. DEVICE_LOST when none is left. */
plait_status plait_context_reopen(plait_context **out, const plait_context *from, int *out_devices);
/* Everything made in the context must be destroyed before. Accepts NULL. */
void plait_context_close(plait_context *context);

/* At least 1, and the same as long as the context lives: a lost device keeps its number. */
int plait_context_device_count(const plait_context *context);
/* Borrowed. NULL when index is out of range. Numbers are the places in the list that plait_context_open was given,
 * after items were expanded. */
plait_device *plait_context_device(const plait_context *context, int index);
/* The monitor of all devices, for what it found; NULL without one. Borrowed; it ends with the context. */
plait_monitor *plait_context_monitor(const plait_context *context);
/* The logger given at opening. Never NULL. */
const plait_logger *plait_context_logger(const plait_context *context);

#ifdef __cplusplus
}
#endif
#endif
