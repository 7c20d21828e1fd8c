/* What checks are made of: objects that are destroyed behind them, commands, host images of buffers, threads. A check
 * takes devices, queues, events, buffers and host memory from its kit and returns at the first surprise; the kit gives
 * everything back in the order that the contract wants: queues first, devices last.
 */
#ifndef PLAIT_CONFORMANCE_KIT_H
#define PLAIT_CONFORMANCE_KIT_H

#include "base/arena.h"
#include "conformance/suite.h"

/* Objects of each kind that a check may have at a time; one more is LIMIT. */
enum { PLAIT_CONF_KIT_OBJECTS = 80 };

typedef struct plait_conf_kit {
    plait_conf *c;
    int n_devices, n_queues, n_events, n_buffers, n_blocks;
    plait_device *devices[PLAIT_CONF_KIT_OBJECTS];
    plait_queue *queues[PLAIT_CONF_KIT_OBJECTS];
    plait_event *events[PLAIT_CONF_KIT_OBJECTS];
    plait_buffer *buffers[PLAIT_CONF_KIT_OBJECTS];
    void *blocks[PLAIT_CONF_KIT_OBJECTS];
    plait_arena lists; /* of commands in flight */
} plait_conf_kit;

/* A check with a kit. What the kit owns lives until it has returned. */
typedef plait_status (*plait_conf_kit_fn)(plait_conf *c, plait_conf_kit *kit, const void *user);

/* plait_conf_check with a kit. */
void plait_conf_check_kit(plait_conf *c, const char *name, plait_conf_kit_fn fn, const void *user);

/* Objects that the kit owns, from the device's own function. */
plait_status plait_conf_device(plait_conf_kit *kit, const char *item, plait_device **out);
plait_status plait_conf_queue(plait_conf_kit *kit, plait_device *device, uint32_t flags, plait_queue **out);
plait_status plait_conf_event(plait_conf_kit *kit, plait_device *device, plait_event **out);
plait_status plait_conf_buffer(plait_conf_kit *kit, plait_device *device, uint64_t size_bytes, uint32_t usage,
                               plait_buffer **out);
/* Zeroed host memory. */
plait_status plait_conf_bytes(plait_conf_kit *kit, uint64_t size_bytes, unsigned char **out);
/* The kit destroys it from now on. */
plait_status plait_conf_keep_buffer(plait_conf_kit *kit, plait_buffer *buffer);
plait_status plait_conf_keep_event(plait_conf_kit *kit, plait_event *event);
/* Destroyed now, instead of with the kit. */
void plait_conf_drop_queue(plait_conf_kit *kit, plait_queue *queue);
void plait_conf_drop_event(plait_conf_kit *kit, plait_event *event);
void plait_conf_drop_buffer(plait_conf_kit *kit, plait_buffer *buffer);
void plait_conf_drop_device(plait_conf_kit *kit, plait_device *device);

/* ---- commands ---- */

/* One command each, of one run of bytes; pointers are kept, not what they show. */
plait_command plait_conf_write(plait_buffer *buffer, uint64_t offset, const void *host, uint64_t n);
plait_command plait_conf_read(plait_buffer *buffer, uint64_t offset, void *host, uint64_t n);
plait_command plait_conf_copy(plait_buffer *from, uint64_t from_offset, plait_buffer *to, uint64_t to_offset,
                              uint64_t n);
plait_command plait_conf_fill(plait_buffer *buffer, uint64_t offset, uint64_t n, uint8_t byte);
plait_command plait_conf_signal(plait_event *event, const uint64_t *value);
plait_command plait_conf_wait(plait_event *event, const uint64_t *value);

/* Submits and waits until all is done. */
plait_status plait_conf_do(plait_queue *queue, const plait_command *commands, int n);
/* Submits a copy of the list, which lives as long as the kit: a check may return at any time, with its list in flight. What
 * the commands point to must not be on the check's stack either. */
plait_status plait_conf_submit(plait_conf_kit *kit, plait_queue *queue, const plait_command *commands, int n);
/* Waits for an event on the host, within the suite's patience; a failure says what was waited for. */
plait_status plait_conf_await(plait_conf *c, plait_event *event, uint64_t value, const char *what);

/* ---- bytes ---- */

/* Bytes that differ between seeds and from their neighbours. */
void plait_conf_pattern(unsigned char *bytes, uint64_t n, uint32_t seed);
/* The first byte that is not as expected is named. */
plait_status plait_conf_same(const unsigned char *actual, const unsigned char *expected, uint64_t n,
                             const char *what);
/* Every byte is `expected`. */
plait_status plait_conf_all(const unsigned char *actual, int expected, uint64_t n, const char *what);
/* Reads the whole buffer through the queue and compares it. */
plait_status plait_conf_expect(plait_conf_kit *kit, plait_queue *queue, plait_buffer *buffer,
                               const unsigned char *expected, const char *what);

/* The thread's message becomes empty, so that one which is there afterwards is of the calls in between. */
void plait_conf_forget_message(void);
/* The call failed with this status, and left a message that says more than a word. */
plait_status plait_conf_failed(plait_status actual, plait_status expected, const char *what);

/* The same for a call, whose message is its own. */
#define PLAIT_CONF_FAILS(call, expected, what)                                                               \
    (plait_conf_forget_message(), plait_conf_failed((call), (expected), (what)))
/* Of an optional call, in front of which the message was forgotten: lacking, with the device's own words, when it said
 * UNSUPPORTED; a failure when it said so without any. */
plait_status plait_conf_optional(plait_conf *c, plait_status status, const char *what);

/* True when the device's numbers of free memory are its own: those of unified memory, or of a device that may use all that
 * the host has, move with what other programs do. */
bool plait_conf_own_memory(const plait_conf *c);

/* ---- threads ---- */

typedef plait_status (*plait_conf_thread_fn)(void *user, int index);
/* Runs fn(user, 0 .. n-1), each on a thread, and waits for all; the first failure is this call's. */
plait_status plait_conf_parallel(int n, plait_conf_thread_fn fn, void *user);

/* At least so long. */
void plait_conf_sleep_ns(uint64_t ns);

#endif
