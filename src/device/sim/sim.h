/* A simulated device: wraps another one, which does the computing, and stands between it and everybody else: own
 * memory that the host cannot touch, own queues and threads, own budget, and whatever troubles it was asked for.
 *
 * Invariants: only queue threads of the device, and the calls that the contract lets touch memory (pack, unpack), reach
 * the bytes of a buffer that is not staging; used_bytes is the sum of what living buffers take; once lost, always lost.
 *
 * Locks: `lock` is held for moments only, never while a call of the device inside runs, and no other lock of the room is
 * taken under it but those of queues (in lose). */
#ifndef PLAIT_DEVICE_SIM_SIM_H
#define PLAIT_DEVICE_SIM_SIM_H

#include "base/thread.h"
#include "device/sim/map.h"
#include "device/sim/options.h"
#include "plait/device.h"

/* GRAVES: destroyed buffers whose addresses stay taken, so that a late access faults instead of meeting another
 * buffer. */
enum { PLAIT_SIM_GRAVES = 256, PLAIT_SIM_MAX_QUEUES = 64 };

typedef struct plait_sim_event plait_sim_event;
typedef struct plait_sim_queue plait_sim_queue;

typedef struct plait_sim_device {
    plait_device base;
    plait_sim_options options;
    plait_device *inner; /* Owned. */
    plait_device_info inner_info;
    uint64_t memory_bytes, alignment, granularity_bytes, max_buffer_bytes;
    uint64_t begin_ns; /* zero of the device's clock */
    char asked[160];   /* the options, for people and for who remembers measured figures */
    bool inner_imports;
    bool lock_ready;
    pthread_mutex_t lock; /* of all below */
    uint64_t used_bytes;
    uint64_t calls[PLAIT_SIM_FAILURE_COUNT], n_commands, n_queues_made; /* so far */
    uint64_t link_free_ns[2]; /* when the link's way in and out has moved all that was asked of it */
    int n_queues;
    plait_sim_queue *queues; /* lists of the living */
    plait_sim_event *events;
    plait_sim_map graves[PLAIT_SIM_GRAVES]; /* addresses of buffers that were destroyed last */
    size_t n_buried;
    _Atomic bool lost; /* set after `loss` is written, for good */
    plait_error_record loss;
} plait_sim_device;

/* A buffer is seen at two addresses (map.h): the published one, which faults but for staging, and the private one. */
typedef struct plait_sim_buffer {
    plait_buffer base;
    plait_buffer *inner; /* Owned. The same bytes, as the device inside addresses them. */
    plait_sim_map map;
    void *imported; /* host memory that it shows; NULL for memory of the device */
    uint64_t taken_bytes;
    char *name; /* Owned. NULL: none was given. */
} plait_sim_buffer;

struct plait_sim_event {
    plait_event base;
    plait_event *timeline; /* Owned. NULL when it shows another device's. */
    plait_event *shown;    /* Borrowed. */
    plait_sim_event *previous, *next;
    char *name; /* Owned. */
};

/* A range of bytes that a launch touches: of the buffer in a slot. */
typedef struct plait_sim_range {
    uint32_t slot;
    bool written;
    uint64_t begin, end;
} plait_sim_range;

/* What a node costs: its operations and bytes at the bounds, and the dim that they grow with. */
typedef struct plait_sim_cost {
    double flop, bytes;
    plait_extent outer;
    int64_t bound; /* of the outermost dim */
} plait_sim_cost;

struct plait_program {
    plait_program *inner; /* Owned. */
    int n_slots, n_dims;
    size_t n_ranges, n_costs;
    size_t n_scratch;           /* the last of the ranges: scratch of groups */
    plait_sim_range scratch[2]; /* of the first group and of the last: dead before a launch, and after it */
    plait_sim_range *ranges;    /* Owned. */
    plait_sim_cost *costs;      /* Owned. */
    char *name;                 /* Owned. */
};

extern const plait_device_vtable plait_sim_vtable;

/* True when the device is of this kind. */
bool plait_sim_is(const plait_device *device);
/* Where a buffer's bytes would be if the host could touch them: an address that faults, for tests. The host's address of
 * a staging buffer. NULL for buffers of other kinds and imports. */
void *plait_sim_published(const plait_buffer *buffer);

/* -- buffer.c: slots of the vtable -- */
plait_status plait_sim_buffer_create(plait_device *device, uint64_t size_bytes, uint32_t usage,
                                     plait_buffer **out);
plait_status plait_sim_buffer_import(plait_device *device, void *host, uint64_t size_bytes, uint32_t usage,
                                     plait_buffer **out);
void plait_sim_buffer_destroy(plait_buffer *buffer);
plait_status plait_sim_allocation_bytes(plait_device *device, uint64_t size_bytes, uint32_t usage,
                                        uint64_t *out_bytes);
plait_status plait_sim_memory_query(plait_device *device, uint64_t *out_total_bytes,
                                    uint64_t *out_free_bytes);
/* Where the device inside has the bytes of a buffer; for the device's own threads and calls. */
void *plait_sim_private(const plait_sim_buffer *buffer);
/* Overwrites a range of a buffer in `slots` with what dead memory looks like. */
void plait_sim_poison(const plait_sim_device *device, plait_buffer *const *slots,
                      const plait_sim_range *range);
/* Bytes that are not taken. */
uint64_t plait_sim_free_bytes(plait_sim_device *device);

/* -- event.c: slots of the vtable -- */
plait_status plait_sim_event_create(plait_device *device, plait_event **out);
plait_status plait_sim_event_import(plait_device *device, plait_event *foreign, plait_event **out);
void plait_sim_event_destroy(plait_event *event);
plait_status plait_sim_event_query(plait_event *event, uint64_t *out_value);
plait_status plait_sim_event_wait(plait_event *event, uint64_t value, uint64_t timeout_ns);
plait_status plait_sim_event_signal(plait_event *event, uint64_t value);
void plait_sim_event_fail(plait_event *event, const plait_error_record *failure);
/* A queue's wait, which ends when the device is lost, whoever signals. */
plait_status plait_sim_event_hold(plait_sim_device *device, plait_event *event, uint64_t value);

/* -- queue.c: slots of the vtable -- */
plait_status plait_sim_queue_create(plait_device *device, uint32_t flags, plait_queue **out);
void plait_sim_queue_destroy(plait_queue *queue);
plait_status plait_sim_submit(plait_queue *queue, const plait_command *commands, int n);
plait_status plait_sim_synchronise(plait_queue *queue);
bool plait_sim_reaches(plait_device *device, plait_device *other);
/* Where the queue keeps its name. Owned by the queue. */
char **plait_sim_queue_name(plait_queue *queue);
/* Fails every queue; the caller holds the device's lock. */
void plait_sim_queues_fail(plait_sim_device *device, const plait_error_record *failure);

/* -- access.c -- */
/* True when the order of two commands can be seen in any byte: one writes what the other touches, in buffers or in host
 * memory, pointers to fields included. Signals and waits are in order with everything. */
bool plait_sim_ordered(const plait_command *a, const plait_command *b);
/* Whether the command will be refused for its regions, with the message. Never for a LAUNCH, SIGNAL or WAIT. */
plait_status plait_sim_check_regions(plait_device *device, const plait_command *command);

/* -- program.c: slots of the vtable -- */
bool plait_sim_supports(plait_device *device, const plait_op_use *use, const plait_encoding *encodings,
                        char *reason, size_t reason_bytes);
plait_status plait_sim_prepare(plait_device *device, const plait_segment *segment, plait_prepared *out);
void plait_sim_prepared_destroy(plait_device *device, plait_prepared *prepared);
plait_status plait_sim_compile(plait_device *device, const plait_segment *segment,
                               const plait_prepared *prepared, plait_program **out);
void plait_sim_program_destroy(plait_device *device, plait_program *program);
plait_status plait_sim_program_update(plait_device *device, plait_program *program,
                                      const plait_segment *segment, const int *nodes, int n_nodes);
plait_status plait_sim_encodings(plait_device *device, const plait_weight_use *use,
                                 plait_encoding_offer *offers, int *n_offers);
plait_status plait_sim_pack(plait_device *device, const plait_operand *source, plait_encoding encoding,
                            int64_t row_begin, int64_t row_end, plait_region target);
plait_status plait_sim_unpack(plait_device *device, const plait_operand *shape, plait_encoding encoding,
                              int64_t row_begin, int64_t row_end, plait_region source, void *target);

/* -- trouble.c: failures that were asked for, loss, delays, the link -- */

/* OK, or that the device is lost. */
plait_status plait_sim_alive(plait_sim_device *device);
/* Counts a call; a failure when it is the one that must fail. */
plait_status plait_sim_count(plait_sim_device *device, plait_sim_failure kind);
/* Counts a command of a queue; at the one at which the device is to be lost, loses it. */
plait_status plait_sim_count_command(plait_sim_device *device, const plait_command *command);
/* Queues and events fail with the cause, and from then on calls that make or run something do. Losing it again changes
 * nothing. */
void plait_sim_lose(plait_sim_device *device, const char *cause);
/* UNSUPPORTED when the device was made without it. */
plait_status plait_sim_offers(const plait_sim_device *device, plait_sim_without what);
/* Pseudo-random numbers from a state that starts as the seed. */
uint64_t plait_sim_random(uint64_t *state);
/* Sleeps for a random time, often none. */
void plait_sim_delay(const plait_sim_device *device, uint64_t *random);
/* Sleeps until the moment. */
void plait_sim_sleep_until(uint64_t moment_ns);
/* Claims the link for so many bytes in one way (0 in, 1 out); returns when they will have arrived. */
uint64_t plait_sim_link_claim(plait_sim_device *device, int way, uint64_t size_bytes);
/* States the figures that the options describe; UNSUPPORTED when they do not say how fast launches are. A slot. */
plait_status plait_sim_figures(plait_device *device, plait_device_figures *out);
/* When a launch that began at begin_ns and has ended now would have ended on the device that is simulated. */
uint64_t plait_sim_end_of_launch(const plait_sim_device *device, const plait_program *program,
                                 const int64_t *dims, uint64_t begin_ns);
/* Spans from number `first` on took until new_end_ns, not old_end_ns, all of them alike. */
void plait_sim_stretch(plait_launch_trace *trace, size_t first, uint64_t begin_ns, uint64_t old_end_ns,
                       uint64_t new_end_ns);

#endif
