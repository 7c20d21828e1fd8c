/* Queues and events of devices whose commands a host thread carries out: one implementation for all kinds whose memory
 * the host can reach. A kind puts these functions into its vtable and supplies what a launch does.
 *
 * A queue executes on the submitting thread (PLAIT_QUEUE_INLINE) or on a thread of its own. Transfers, copies and
 * fills move bytes of buffers that are mapped (plait_buffer.host). Waits work on events of every kind; signals on
 * events made here, by whichever kind.
 */
#ifndef PLAIT_DEVICE_HOST_QUEUE_H
#define PLAIT_DEVICE_HOST_QUEUE_H

#include "base/status.h"
#include "plait/device.h"

/* Runs a program; called from the thread that executes the queue. trace: NULL, or where spans of groups go. */
typedef plait_status plait_host_launch_fn(plait_device *device, const plait_program *program,
                                          plait_buffer *const *slots, const int64_t *dims,
                                          plait_launch_trace *trace);

/* queue_create of a kind calls this; the others are slots of the vtable as they are. */
plait_status plait_host_queue_create(plait_device *device, uint32_t flags, plait_host_launch_fn *launch,
                                     plait_queue **out);
void plait_host_queue_destroy(plait_queue *queue);
plait_status plait_host_submit(plait_queue *queue, const plait_command *commands, int n);
plait_status plait_host_synchronise(plait_queue *queue);

/* Slots of the vtable as they are. */
plait_status plait_host_event_create(plait_device *device, plait_event **out);
void plait_host_event_destroy(plait_event *event);
plait_status plait_host_event_query(plait_event *event, uint64_t *out_value);
plait_status plait_host_event_wait(plait_event *event, uint64_t value, uint64_t timeout_ns);

/* For whoever signals: the value is reached; or it never will be, for this reason. */
void plait_host_event_signal(plait_event *event, uint64_t value);
void plait_host_event_fail(plait_event *event, const plait_error_record *failure);
/* True when the event was made here. */
bool plait_host_event_is_ours(const plait_event *event);

/* Address of size_bytes from the region's start. OUT_OF_RANGE when they leave the region or its buffer, UNSUPPORTED
 * when the buffer is not mapped; `what` stands in front of the message. */
plait_status plait_host_region_bytes(const plait_region *region, uint64_t size_bytes, const char *what,
                                     unsigned char **out);

#endif
