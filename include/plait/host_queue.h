/* Queues and events for device kinds whose commands a host thread carries out: memory that the host can reach, drivers
 * whose calls block. A kind puts the functions below into its vtable and supplies hooks; everything that the contract of
 * plait/device.h says of queues, events, order, boxes and failures then holds.
 *
 * A queue executes on the submitting thread (PLAIT_QUEUE_INLINE) or on a thread of its own. Waits work on events of every
 * kind; signals on events made here, by whichever kind. A device that uses these has PLAIT_CAP_FOREIGN_WAITS and
 * PLAIT_CAP_BOXES to give.
 */
#ifndef PLAIT_HOST_QUEUE_H
#define PLAIT_HOST_QUEUE_H

#include "plait/device.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What a kind supplies. Lives as long as its queues. All are called from the thread that executes the queue; a failure
 * is the queue's. */
typedef struct plait_host_hooks {
    /* Runs a program. trace: NULL, or where spans of groups go. */
    plait_status (*launch)(plait_device *device, const plait_program *program, plait_buffer *const *slots,
                           const int64_t *dims, plait_launch_trace *trace);
    /* Where the executing thread finds the bytes of a buffer that the device reaches, NULL when it can not. NULL: at
     * plait_buffer.host. */
    unsigned char *(*address)(plait_device *device, const plait_buffer *buffer);
    /* Called before each command. May sleep, or fail in its place. NULL: nothing. */
    plait_status (*before)(plait_device *device, plait_queue *queue, const plait_command *command);
    /* Called once on the queue's own thread, before its first command; never for INLINE queues. NULL: nothing. */
    void (*begin)(plait_device *device);
} plait_host_hooks;

/* queue_create of a kind calls this; the others are slots of the vtable as they are. Without PLAIT_QUEUE_INLINE a
 * thread is started, so OUT_OF_MEMORY may mean that there was none to be had. */
plait_status plait_host_queue_create(plait_device *device, uint32_t flags, const plait_host_hooks *hooks,
                                     plait_queue **out);
void plait_host_queue_destroy(plait_queue *queue);
plait_status plait_host_submit(plait_queue *queue, const plait_command *commands, int n);
plait_status plait_host_synchronise(plait_queue *queue);
/* The queue executes nothing more, and fails with this: for a device that is lost. Any thread. */
void plait_host_queue_fail(plait_queue *queue, const plait_error_record *failure);

/* Slots of the vtable as they are. */
plait_status plait_host_event_create(plait_device *device, plait_event **out);
void plait_host_event_destroy(plait_event *event);
plait_status plait_host_event_query(plait_event *event, uint64_t *out_value);
plait_status plait_host_event_wait(plait_event *event, uint64_t value, uint64_t timeout_ns);
plait_status plait_host_event_signal(plait_event *event, uint64_t value);
void plait_host_event_fail(plait_event *event, const plait_error_record *failure);
/* True when the event was made here. A queue signals no other ones (UNSUPPORTED, which fails the queue); it waits for
 * any, through the event_wait of the device that made them. */
bool plait_host_event_is_ours(const plait_event *event);

/* `reaches` of kinds whose queues copy between whatever is mapped for the host: the device itself, and every device with
 * PLAIT_CAP_MAPPED. */
bool plait_host_reaches(plait_device *device, plait_device *other);

/* Address of the `size_bytes` from the region's start, by the hook. OUT_OF_RANGE when they leave the region or its
 * buffer, UNSUPPORTED when the device can not reach them; `what` stands in front of the message. *out is NULL when
 * size_bytes is 0. */
plait_status plait_host_region_bytes(plait_device *device, const plait_host_hooks *hooks,
                                     const plait_region *region, uint64_t size_bytes, const char *what,
                                     unsigned char **out);

#ifdef __cplusplus
}
#endif
#endif
