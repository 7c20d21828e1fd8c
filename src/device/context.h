/* Inside of a context: one entry a device, with the queue and the arena that all plans share there.
 *
 * All runs of a context submit to the one queue of each device, so commands of different plans on one device are
 * in queue order: a run's first command waits for the last one of the run before it by construction, and the
 * arena can be shared. `submit_lock` keeps the commands of two runs that are driven by different threads from
 * mixing.
 */
#ifndef PLAIT_DEVICE_CONTEXT_H
#define PLAIT_DEVICE_CONTEXT_H

#include "base/arena.h"
#include "plait/context.h"

#include <pthread.h>

typedef struct plait_context_entry {
    plait_device *device; /* Owned. */
    plait_queue *queue;   /* Owned. */
    plait_device_info info;
    plait_buffer *arena; /* Owned. Temporaries of whichever plan runs; NULL while nobody needs any. */
    uint64_t arena_bytes;
    plait_device_figures figures; /* struct_bytes 0: not asked for yet (plait/cost.h) */
    /* A bit for each op that it accepted and then refused to prepare or compile: it is not asked again. */
    uint64_t denied[(PLAIT_OP_COUNT + 63) / 64];
    plait_event *step_event; /* Owned. Counts the steps submitted to this queue, over all runs. */
} plait_context_entry;

struct plait_context {
    plait_logger logger;
    plait_monitor *monitor; /* Owned. NULL: the devices are not watched. */
    int n_devices;
    plait_context_entry *devices;
    pthread_mutex_t submit_lock;
    bool lock_ready;
    plait_arena_pool pool; /* memory of plans */
    uint64_t steps;        /* steps submitted so far; each queue's step_event reaches it when they are done */
};

/* Makes the arena of a device at least this large. No run may be in flight on it: takes the submit lock and
 * synchronises the queue. The buffer changes, so runs read it from the context at each step. */
plait_status plait_context_reserve_arena(plait_context *context, int device, uint64_t size_bytes);

#endif
