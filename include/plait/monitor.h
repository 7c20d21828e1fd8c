/* The monitor: a device around another device that checks every call against the contract of plait/device.h while real
 * work runs, and names the call, the object and the earlier call that it conflicts with. `--monitor` and
 * plait_context_options.monitor put one around every device of a context; those who drive devices themselves wrap them
 * with plait_monitor_wrap.
 *
 * Two sides are watched: the caller (objects used after their end, accesses without order, bytes read that nobody wrote,
 * waits for what nobody signals, regions, slots, dims, ...) and the device (writes outside of regions, answers that
 * change, events out of turn, failures that vanish, ...). plait_monitor_rules lists them.
 *
 * A broken rule is counted, kept, logged as a line of level ERROR that begins with "monitor: ", and makes the call
 * fail. One that a command breaks makes its queue fail at that command, as the contract says queues fail: what stands
 * before it is executed, events behind it fail, synchronise returns it. The status is the rule's: WRONG_STATE for the
 * caller, INTERNAL for the device, or the one that the contract names. Calls that return nothing (destroy) are reported
 * and made harmless: what is still in use stays alive until its device is destroyed.
 *
 * How it works: commands are handed to the device once every event that they wait for has its signal submitted, in the
 * order of their queue; the order among commands, events and the host is kept as vector clocks, and each buffer has a map
 * of who wrote and read its bytes last. Accesses of the host itself through plait_buffer.host cannot be seen; new mapped
 * buffers are filled with a pattern that tells whether somebody wrote there. What two host threads settle between
 * themselves counts as order. Everything else passes through: info, capabilities and plans are those of the device.
 */
#ifndef PLAIT_MONITOR_H
#define PLAIT_MONITOR_H

#include "plait/device.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What the devices of a monitor share: the clocks, the calls counted, the breaches kept. Any thread. */
typedef struct plait_monitor plait_monitor;

/* How much is watched. What ON finds, FULL finds too; neither changes what a right program computes. */
typedef enum plait_monitor_level {
    PLAIT_MONITOR_OFF = 0,
    PLAIT_MONITOR_ON = 1, /* commands stay asynchronous; guard bytes around buffers of mapped memory only */
    /* Also one command at a time, and the bytes around, before and after each are compared: what must not change, what
     * must be written, what a transfer must have moved. Many times slower; takes room for copies of the buffers. */
    PLAIT_MONITOR_FULL = 2
} plait_monitor_level;

/* Who has to mend it. */
typedef enum plait_monitor_side {
    PLAIT_MONITOR_CALLER, /* whoever calls the device broke the rule */
    PLAIT_MONITOR_DEVICE  /* the device did */
} plait_monitor_side;

/* The rules: X(NAME, text, side, status, what it means). Texts are stable: they stand in log lines and reports. What a
 * rule watches is promised in plait/device.h, at the function or under the word that its name recalls. */
#define PLAIT_MONITOR_RULE_LIST(X)                                                                           \
    X(USE_AFTER_DESTROY, "use-after-destroy", CALLER, WRONG_STATE, "an object is used after its end")        \
    X(DESTROYED_IN_FLIGHT, "destroyed-in-flight", CALLER, WRONG_STATE,                                       \
      "an object ends while commands that name it may still run")                                            \
    X(UNWRITTEN_READ, "unwritten-read", CALLER, WRONG_STATE, "bytes are read that nobody has written")       \
    X(UNORDERED_ACCESS, "unordered-access", CALLER, WRONG_STATE,                                             \
      "two accesses to the same bytes, one of them a write, have no order")                                  \
    X(LIST_CHANGED, "list-changed", CALLER, WRONG_STATE,                                                     \
      "a command list, or what its pointers show, changed while it was in flight")                           \
    X(OUT_OF_RANGE, "out-of-range", CALLER, OUT_OF_RANGE, "a region or box leaves its buffer or region")     \
    X(MISALIGNED, "misaligned", CALLER, WRONG_STATE, "scratch or an operand does not lie at its alignment")  \
    X(NOT_REACHED, "not-reached", CALLER, WRONG_STATE, "a command names memory its device does not reach")   \
    X(CAPABILITY, "capability", CALLER, WRONG_STATE, "the device says that it lacks what is asked for")      \
    X(NEVER_SIGNALLED, "never-signalled", CALLER, WRONG_STATE, "an event is waited for that nobody signals") \
    X(WAIT_CYCLE, "wait-cycle", CALLER, WRONG_STATE, "queues wait for one another")                          \
    X(TWO_THREADS, "two-threads", CALLER, WRONG_STATE, "two threads are in calls on one queue")              \
    X(SLOT, "slot", CALLER, WRONG_STATE, "a launch slot is missing, too small or of another device")         \
    X(DIM, "dim", CALLER, WRONG_STATE, "the value of a named dim is outside of its bounds")                  \
    X(OVERLAP, "overlap", CALLER, WRONG_STATE, "operands, scratch or sides of a copy share bytes")           \
    X(USAGE, "usage", CALLER, WRONG_STATE, "the usage of a buffer is none, several or unknown")              \
    X(ARGUMENT, "argument", CALLER, WRONG_STATE, "an argument can never be right")                           \
    X(LEAK, "leak", CALLER, WRONG_STATE, "an object is alive when its device is destroyed")                  \
    X(WRITE_OUTSIDE, "write-outside", DEVICE, INTERNAL, "bytes changed that no command may write")           \
    X(NOT_WRITTEN, "not-written", DEVICE, INTERNAL, "a launch left bytes of its result as they were")        \
    X(WRONG_BYTES, "wrong-bytes", DEVICE, INTERNAL,                                                          \
      "a transfer, copy or fill left other bytes than its own")                                              \
    X(STATUS_LOST, "status-lost", DEVICE, INTERNAL, "a failure was forgotten")                               \
    X(EVENT_EARLY, "event-early", DEVICE, INTERNAL, "an event is reached before anybody signalled it")       \
    X(EVENT_BACK, "event-back", DEVICE, INTERNAL, "an event went back, or a wait ended below its value")     \
    X(NOT_DONE, "not-done", DEVICE, INTERNAL, "synchronise returned before commands were done")              \
    X(FACTS_CHANGED, "facts-changed", DEVICE, INTERNAL, "describe gives other facts than before")            \
    X(ANSWER_CHANGED, "answer-changed", DEVICE, INTERNAL, "supports gives another answer than before")       \
    X(REFUSED_LATE, "refused-late", DEVICE, INTERNAL, "prepare or compile refuses what supports accepts")    \
    X(PREPARED, "prepared", DEVICE, INTERNAL, "groups of a prepared segment break a rule")                   \
    X(FAILED_CALL, "failed-call", DEVICE, INTERNAL, "a failed call set an output or left no message")        \
    X(HEALTH, "health", DEVICE, INTERNAL, "a lost device says that it works")                                \
    X(OBJECT, "object", DEVICE, INTERNAL, "an object does not have the size, usage or mapping asked for")

/* PLAIT_MONITOR_USE_AFTER_DESTROY and so on, in the order of the list; numbers may shift when it grows. */
typedef enum plait_monitor_rule {
#define PLAIT_MONITOR_ENUM(name, text, side, status, meaning) PLAIT_MONITOR_##name,
    PLAIT_MONITOR_RULE_LIST(PLAIT_MONITOR_ENUM)
#undef PLAIT_MONITOR_ENUM
        PLAIT_MONITOR_RULE_COUNT
} plait_monitor_rule;

/* What is known of a rule. Static. */
typedef struct plait_monitor_rule_info {
    const char *text; /* "use-after-destroy" */
    const char *meaning;
    plait_monitor_side side;
    plait_status status;
} plait_monitor_rule_info;
/* NULL when the number is none of the list. */
const plait_monitor_rule_info *plait_monitor_rule_of(plait_monitor_rule rule);

/* A call of the vtable: its number (all calls on the devices of a monitor are counted from 1; 0: none), its name, and the
 * command in the list that it submitted (-1: none). */
typedef struct plait_monitor_place {
    uint64_t call;
    const char *function; /* static: "submit"; "" when call is 0 */
    int command;
} plait_monitor_place;

/* One breach. A plain value: what it names may be gone when it is read. */
typedef struct plait_monitor_violation {
    plait_monitor_rule rule;
    plait_monitor_place at, earlier; /* earlier.call is 0 where no other call takes part */
    char object[128]; /* "buffer 3 of cpu", with its debug name where it has one; "" when none */
    char message[PLAIT_ERROR_BYTES];
} plait_monitor_violation;

/* Zeroed but for struct_bytes: level ON, no log, five seconds of patience. */
typedef struct plait_monitor_options {
    size_t struct_bytes;       /* sizeof(plait_monitor_options) of whoever made it */
    plait_monitor_level level; /* OFF means ON here */
    plait_logger logger;       /* copied; must not call devices */
    /* How long nothing may happen on any device before a wait without a signal counts as one that never ends. 0: five
     * seconds. Other threads may submit or signal until then. */
    uint64_t patience_ns;
} plait_monitor_options;

/* A monitor for devices that work with each other. `options` may be NULL. The caller destroys *out. */
plait_status plait_monitor_create(const plait_monitor_options *options, plait_monitor **out);
/* All its devices are destroyed before. Accepts NULL. Handles that it gave out are dangling afterwards. */
void plait_monitor_destroy(plait_monitor *monitor);

/* Wraps a device, under the same name. On success the new device owns `inner`, and destroying it destroys both; use
 * only the new one. Devices whose objects meet in commands belong into one monitor; a device that works inside of
 * another one does not. Events of other devices are taken as they are, and a wait for one counts as order with
 * everything before. Any thread. On failure `inner` stays the caller's. */
plait_status plait_monitor_wrap(plait_monitor *monitor, plait_device *inner, plait_device **out);
/* The monitor of a wrapped device; NULL for other devices. */
plait_monitor *plait_monitor_of(const plait_device *device);

/* Breaches so far; the first 256 are kept. Any thread. */
uint64_t plait_monitor_count(const plait_monitor *monitor);
/* Copies breach number `index`, from 0; false when it is not kept or there is none. */
bool plait_monitor_get(const plait_monitor *monitor, uint64_t index, plait_monitor_violation *out);

#ifdef __cplusplus
}
#endif
#endif
