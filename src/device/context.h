/* Inside of a context: one entry a device, with the queues and the arena that all plans share there.
 *
 * Queue 0 of a device takes launches. A device with copy engines has, in a context of several devices, one or two queues
 * more for transfers: one for what comes and goes, or one for each direction. All runs of a context submit to the same
 * queues, so commands of different plans on one queue are in order by construction. Every queue has one timeline, which
 * all runs count on: its values are promised at submission, under `submit_lock`, so they grow in the queue's own order.
 * What a run must know of the runs before it (hand-over) is which value each queue had promised when it last touched a
 * device's memory: `touched`.
 *
 * A queue of a device without PLAIT_CAP_FOREIGN_WAITS waits for another device's queue through a mirror: an event of its
 * own device that repeats the other timeline, by the device itself (event_import) or by the relay (relay.h).
 */
#ifndef PLAIT_DEVICE_CONTEXT_H
#define PLAIT_DEVICE_CONTEXT_H

#include "base/arena.h"
#include "device/relay.h"
#include "plait/context.h"

#include <pthread.h>
#include <stdatomic.h>

/* Queues of all devices are numbered device * PLAIT_DEVICE_QUEUES + queue of the device. */
enum { PLAIT_DEVICE_QUEUES = 3, PLAIT_QUEUE_LAUNCHES = 0 };

typedef struct plait_context_queue {
    plait_queue *queue;    /* Owned. NULL: the device has fewer */
    plait_event *timeline; /* Owned. */
    uint64_t promised;     /* the last value that a submitted list signals; under submit_lock */
} plait_context_queue;

/* A timeline of another device as this device's queues can wait for it. */
typedef struct plait_context_mirror {
    plait_event *event; /* Owned. NULL until somebody needs it */
    bool relayed; /* signalled by the relay, for each value that is asked for; else by the device itself */
} plait_context_mirror;

typedef struct plait_context_entry {
    plait_device *device; /* Owned. */
    char *item;           /* Owned. What it was made of, for plait_context_reopen */
    plait_queue *queue;   /* queue 0, for who needs no other */
    plait_context_queue queues[PLAIT_DEVICE_QUEUES];
    int n_queues;
    plait_device_info info;
    /* Devices of the context whose buffers its COPY commands may name, a bit each: what it says, less what was found wrong by
     * plait_context_test_peers, which stands before every reading. */
    uint64_t reaches;
    /* Temporaries of whichever plan runs: chunks of chunk_bytes each, the last one as large as it must be; none while
     * nobody needs any. */
    plait_buffer **arena; /* Owned, array and buffers. */
    int n_chunks;
    uint64_t arena_bytes;         /* of all chunks */
    uint64_t chunk_bytes;         /* as large as a buffer may be; 0: no limit, one chunk */
    plait_device_figures figures; /* struct_bytes 0: not asked for yet (plait/cost.h) */
    /* A bit for each op that it accepted and then refused to prepare or compile: it is not asked again. */
    uint64_t denied[(PLAIT_OP_COUNT + 63) / 64];
    atomic_bool packs_nothing;     /* it has said once that it offers no packing of any weight */
    plait_context_mirror *mirrors; /* Owned. [queues of all devices] */
    /* Hand-over: the run that touched this device's memory last (0: none that lives), and what its queues had then
     * promised, [queues of all devices], 0 for those that did not touch it. Under submit_lock. */
    const void *user;
    uint64_t *touched; /* Owned. */
} plait_context_entry;

struct plait_context {
    plait_logger logger;
    plait_monitor_level monitor_level;
    plait_monitor *monitor; /* Owned. NULL: the devices are not watched. */
    int n_devices;
    plait_context_entry *devices;
    uint32_t n_denied; /* bits set in `denied` of all devices */
    pthread_mutex_t submit_lock;
    bool lock_ready;
    pthread_mutex_t peer_lock; /* while direct copies are tested */
    bool peer_lock_ready, peers_tested;
    plait_arena_pool pool; /* memory of plans */
    uint64_t arenas;       /* how often an arena was replaced; under submit_lock */
    plait_relay *relay;    /* Owned. NULL until a mirror needs it */
    /* The first failure that left a queue unusable; under submit_lock. */
    plait_error_record failure;
};

/* Number of the queue that takes transfers to (incoming) or from a device. */
int plait_context_copy_queue(const plait_context_entry *entry, bool incoming);
/* Queue of the given number over all devices. */
plait_context_queue *plait_context_queue_at(const plait_context *context, uint32_t number);

/* What a queue of `device` waits on for the timeline of queue `number`: the timeline itself, or a mirror, which is made
 * if need be (so may fail, and allocates). *out_relayed: every value must be asked for with plait_relay_pass. Takes the
 * submit lock. */
plait_status plait_context_awaitable(plait_context *context, int device, uint32_t number,
                                     plait_event **out_event, bool *out_relayed);

/* Makes the arena of a device at least this large. No run may be in flight: takes the submit lock and
 * synchronises the queues. The buffer changes, so runs read it from the context at each step. */
plait_status plait_context_reserve_arena(plait_context *context, int device, uint64_t size_bytes);

/* With the submit lock held: keeps the calling thread's failure as the context's, unless there is one. */
void plait_context_fail(plait_context *context, plait_status status);

/* Calls on one queue come from one thread at a time, so who uses a queue beside plait_run_submit takes turns with it:
 * runs commands on queue 0 of a device and waits for them; waits for a queue by its number among all. */
plait_status plait_context_execute(plait_context *context, int device, const plait_command *commands, int n);
plait_status plait_context_execute_on(plait_context *context, uint32_t number, const plait_command *commands,
                                      int n);
plait_status plait_context_synchronise(plait_context *context, uint32_t number);

/* Tests direct copies between all devices, once in a context (peers.c): a pair between which bytes arrive wrong reaches each
 * other no more, and a warning names it. Any other failure is returned, and the next call tries again. */
plait_status plait_context_test_peers(plait_context *context);

#endif
