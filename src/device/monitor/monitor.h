/* Inside of the monitor: its state, the objects that stand before those of the inner devices, and who does what.
 *
 *   monitor.c   making monitors, wrapping devices, the vtable; describe, health, small queries
 *   report.c    breaches: counting, keeping, saying
 *   object.c    life of objects: numbers, names, last uses, the quarantine of the dead
 *   clock.h     vector clocks
 *   shadow.c    who wrote and read the bytes of a buffer last
 *   buffer.c    buffers, guards, the pattern of bytes that nobody wrote; pack and unpack
 *   event.c     timelines: which signals there are, what a wait for a value orders
 *   queue.c     queues, lists in flight, handing them to the device
 *   pump.c      taking waiting lists forward: a queue goes on when its waits have their signals
 *   check.c     one command against the rules
 *   program.c   supports, prepare, compile: questions, answers, programs
 *   launch.c    what a launch reads and writes
 *   contents.c  level FULL: bytes before and after each command
 *
 * Locking: one lock a monitor, never held while the inner device works on a queue or waits. `pumping` is a token: who
 * has it may drop the lock and still is the only one that hands commands on.
 */
#ifndef PLAIT_DEVICE_MONITOR_MONITOR_H
#define PLAIT_DEVICE_MONITOR_MONITOR_H

#include "base/arena.h"
#include "base/status.h"
#include "device/monitor/clock.h"
#include "device/monitor/shadow.h"
#include "plait/monitor.h"

#include <pthread.h>
#include <stdatomic.h>

typedef struct plait_monitor_device plait_monitor_device;
typedef struct plait_monitor_queue plait_monitor_queue;

/* Receives bytes [begin, end); anything but OK ends the walk. */
typedef plait_status (*plait_monitor_piece_fn)(void *user, uint64_t begin, uint64_t end);

/* ---- calls ---- */

/* Functions of the vtable by name, for marks that outlive their calls. */
#define PLAIT_MONITOR_FUNCTIONS(X)                                                                           \
    X(none)                                                                                                  \
    X(destroy)                                                                                               \
    X(describe)                                                                                              \
    X(health)                                                                                                \
    X(buffer_create)                                                                                         \
    X(buffer_destroy)                                                                                        \
    X(event_create)                                                                                          \
    X(event_destroy)                                                                                         \
    X(event_query)                                                                                           \
    X(event_wait)                                                                                            \
    X(event_signal)                                                                                          \
    X(event_fail)                                                                                            \
    X(queue_create)                                                                                          \
    X(queue_destroy)                                                                                         \
    X(submit)                                                                                                \
    X(synchronise)                                                                                           \
    X(supports)                                                                                              \
    X(prepare)                                                                                               \
    X(prepared_destroy)                                                                                      \
    X(compile)                                                                                               \
    X(program_destroy)                                                                                       \
    X(buffer_import)                                                                                         \
    X(encodings)                                                                                             \
    X(pack)                                                                                                  \
    X(unpack)                                                                                                \
    X(allocation_bytes)                                                                                      \
    X(memory_query)                                                                                          \
    X(reaches)                                                                                               \
    X(host_alloc)                                                                                            \
    X(host_free)                                                                                             \
    X(event_import)                                                                                          \
    X(program_update)                                                                                        \
    X(time_query)                                                                                            \
    X(name_object)                                                                                           \
    X(figures)

typedef enum plait_monitor_function {
#define PLAIT_MONITOR_FUNCTION_ENUM(name) PLAIT_MONITOR_F_##name,
    PLAIT_MONITOR_FUNCTIONS(PLAIT_MONITOR_FUNCTION_ENUM)
#undef PLAIT_MONITOR_FUNCTION_ENUM
} plait_monitor_function;

/* A call that is being made; `command` says which of a list is looked at, -1 none. */
typedef struct plait_monitor_call {
    plait_monitor_device *device;
    uint64_t number; /* of all calls on the monitor, from 1 */
    int command;
    plait_monitor_function function;
    /* The operand of a launch that is looked at, for messages; NULL: none. */
    const struct plait_monitor_program *program;
    uint32_t operand;
} plait_monitor_call;

/* ---- objects ---- */

/* Lanes in which an object's last use is kept. */
enum { PLAIT_MONITOR_USES = 6 };

/* Common to all wrapped objects. The struct outlives the object, in the quarantine, so that later uses are noticed. */
typedef struct plait_monitor_object {
    plait_device_object kind;
    plait_monitor_device *device;
    bool alive;
    uint32_t number; /* of its kind on its device, from 1 */
    char name[48];   /* given by name_object */
    uint64_t created;
    plait_monitor_mark destroyed;
    plait_monitor_mark uses[PLAIT_MONITOR_USES];  /* the last use in each lane; t 0: free */
    struct plait_monitor_object *next, *previous; /* among the living of the device, or in the quarantine */
} plait_monitor_object;

typedef struct plait_monitor_buffer plait_monitor_buffer;
/* Two inner buffers where there are guards on both sides: commands name a window onto the larger one. */
struct plait_monitor_buffer {
    plait_buffer base;
    plait_monitor_object object;
    plait_buffer *inner;         /* what commands name: exactly size_bytes where that can be had */
    plait_buffer *outer;         /* what owns the memory, guards included; NULL: `inner` does */
    unsigned char *front, *back; /* guards in mapped memory, NULL: none */
    uint64_t front_bytes, back_bytes;
    uint64_t tail_bytes; /* guard behind the end in memory that is not mapped: the inner buffer is larger */
    bool imported, patterned;
    uint64_t aliased; /* launch that named it last, to find a buffer in two slots */
    plait_monitor_buffer *
        whole; /* an import of a part of this buffer: accesses are that one's, at `part`. NULL: none, or no more */
    uint64_t part;
    plait_monitor_buffer *windows,
        *next_window; /* imports of parts of this one; the next one onto the same */
    plait_monitor_shadow shadow;
};

/* One signal that was submitted, by a queue or the host. */
typedef struct plait_monitor_signal {
    uint64_t value;
    plait_monitor_mark mark;
    bool forwarded; /* the device has it */
    plait_monitor_clock clock;
} plait_monitor_signal;

/* Shared by an event and its imports on other devices. */
typedef struct plait_monitor_timeline {
    int references;
    bool foreign; /* of a device that is not monitored: nothing is known of its signals */
    bool failed;
    uint64_t highest;              /* value that somebody has asked for so far */
    uint64_t observed;             /* highest value that the host has seen */
    plait_monitor_signal *signals; /* Owned. In the order of submission; old ones are merged into `base`. */
    size_t n_signals, capacity;
    plait_monitor_clock base; /* of signals that are forgotten: the host knew all of them */
    uint64_t base_value;      /* highest of them */
} plait_monitor_timeline;

typedef struct plait_monitor_event {
    plait_event base;
    plait_monitor_object object;
    plait_event *inner;
    bool imported;
    plait_monitor_timeline *timeline; /* Shared. */
} plait_monitor_event;

/* A list that was submitted: the caller's commands, a copy to compare with, and what the device gets. */
typedef struct plait_monitor_flight plait_monitor_flight;
struct plait_monitor_flight {
    plait_monitor_flight *next;
    plait_monitor_call call;
    const plait_command *commands; /* Borrowed from the caller until done. */
    int n, position;               /* commands looked at and handed on so far */
    plait_monitor_clock host;      /* what the host knew when it submitted */
    uint64_t first_t, last_t;      /* times of its commands in the queue's lane */
    uint64_t number;               /* value of the progress event at its end */
    bool submitting;               /* submit has not returned */
    bool checked;                  /* compared with the caller's list, after its end */
    plait_status status;           /* of handing it on */
    plait_command *inner;          /* what the device gets */
    int n_inner;
    plait_command end;             /* the signal behind it */
    uint64_t read_begin, read_end; /* host memory that its READs write lies between these */
    plait_command *copy;           /* the commands at submit */
    unsigned char *shown;          /* what their pointers showed, one behind the other */
    plait_buffer **slots;          /* translated */
    size_t used_slots;
    void *memory; /* Owned. All of the above arrays. */
    size_t memory_bytes;
};

struct plait_monitor_queue {
    plait_queue base;
    plait_monitor_object object;
    plait_queue *inner;
    /* Owned, of the inner device. Behind each list; fails when a command breaks a rule. */
    plait_event *progress, *gate;
    /* Owned, level FULL: lets a command begin, says that it is done. And how many: handed on, seen to be done. */
    plait_event *latch, *step;
    uint64_t steps, seen;
    plait_command latch_wait, step_signal;
    bool unseen; /* the device refused a signal behind a list: `progress` does not tell */
    uint32_t flags, lane;
    plait_monitor_clock clock;
    plait_monitor_flight *first, *last;  /* lists in flight, oldest first */
    plait_monitor_flight *pending;       /* the first that is not wholly handed on, or NULL */
    plait_monitor_flight *spare;         /* finished ones, to be used again */
    uint64_t flights, done;              /* lists submitted so far, and known to be over */
    bool failed;                         /* a rule was broken: nothing but signals is handed on any more */
    bool gated;                          /* the device has been given the wait that fails */
    bool device_failed;                  /* by itself, or by an event that it waits for: likewise */
    plait_error_record failure, refusal; /* refusal: of the last list that the device did not take */
    bool busy;                           /* a call is in it: this one */
    plait_monitor_mark in_call;
    plait_monitor_queue *next; /* all queues of the monitor */
};

/* ---- programs ---- */

/* An operand of a node, as a launch touches it. */
typedef struct plait_monitor_operand {
    plait_operand shape; /* dims are bounds */
    plait_extent outer;
    uint64_t offset, view_offset, bytes; /* bytes: that it spans at the bounds, in its encoding */
    uint32_t slot, storage, value;
    int32_t node, position; /* of the segment; number of the input or output */
    bool output, packed, elided;
    bool partial; /* run-time data decides which of its bytes are touched */
} plait_monitor_operand;

/* Nodes that run as one: all that they read and write lies side by side. */
typedef struct plait_monitor_group {
    uint32_t scratch_slot;
    uint64_t scratch_offset, scratch_bytes;
    int first, n; /* operands, in the order of the nodes, inputs before outputs */
} plait_monitor_group;

typedef enum plait_monitor_range_kind {
    PLAIT_MONITOR_READS,     /* all of it, and it must have been written */
    PLAIT_MONITOR_MAY_READ,  /* run-time data decides */
    PLAIT_MONITOR_WRITES,    /* all of it */
    PLAIT_MONITOR_MAY_WRITE, /* run-time data decides, or scratch */
    PLAIT_MONITOR_SCATTERS   /* too many runs of bytes to follow: counts as written, and is in nobody's way */
} plait_monitor_range_kind;

/* Bytes of a slot that a launch touches, for one set of dims. */
typedef struct plait_monitor_range {
    plait_monitor_range_kind kind;
    uint32_t slot;
    uint64_t begin, end;
    uint32_t operand; /* one of those that it comes of */
} plait_monitor_range;

typedef struct plait_monitor_program {
    uint64_t magic; /* the struct behind plait_program is not visible: this tells ours */
    plait_monitor_object object;
    plait_program *inner;
    plait_arena arena; /* everything below but what says otherwise */
    int n_slots, n_dims, n_nodes, n_groups, n_shared;
    uint32_t n_operands;
    int64_t *bounds, *dims; /* dims: those that the ranges are for */
    uint64_t *slot_bytes;   /* that a launch may touch at the bounds; 0: the slot is not used */
    char **names;           /* of nodes */
    plait_monitor_operand *operands;
    plait_monitor_group *groups;
    struct plait_shared_pair *shared;
    bool ranges_valid;
    plait_monitor_range *ranges; /* Owned. */
    size_t n_ranges, range_capacity;
    plait_monitor_shadow *written; /* [n_slots]: what the launch has written, while ranges are found */
} plait_monitor_program;

/* ---- devices and the monitor ---- */

/* Devices stay in the monitor's list when they are destroyed, so that late calls are told. */
struct plait_monitor_device {
    plait_device base;
    plait_device_vtable table; /* the monitor's, under the inner kind's name */
    plait_device *inner;
    plait_monitor *monitor;
    plait_device_info info;
    bool alive;
    _Atomic bool lost;           /* a call has said so */
    plait_monitor_object living; /* head of a ring */
    uint32_t numbers[4];         /* objects made so far, by kind */
    plait_monitor_object held;   /* head of a ring: ended for the caller, kept for the device */
    plait_monitor_device *next;
    plait_queue *spy;  /* Owned, of the inner device, level FULL: looks at memory that is not mapped */
    uint64_t *answers; /* Owned. Open addressing: hash of a question, lowest bit its answer; 0: free */
    size_t n_answers, answer_capacity;
};

/* Where a buffer lies in host memory: transfers to and from there are accesses to the buffer. */
typedef struct plait_monitor_mapped {
    uint64_t begin, end;
    plait_monitor_buffer *buffer;
} plait_monitor_mapped;

/* Level FULL: bytes before the command that runs, for those whose bytes must stay. */
typedef struct plait_monitor_view {
    plait_monitor_buffer *buffer;
    uint64_t begin, end, at; /* window of the buffer; where its copy is in the store */
    bool hashed;             /* only a hash was kept */
    uint64_t hash;
} plait_monitor_view;

typedef struct plait_monitor_contents {
    plait_monitor_view *views;  /* Owned. */
    unsigned char *store, *now; /* Owned. now: what is read back from memory that is not mapped */
    size_t n_views, view_capacity, store_bytes, now_bytes;
    bool blind; /* memory was short: this command is not looked at */
} plait_monitor_contents;

/* KEPT: breaches whose records are kept, the first ones; more are counted. QUARANTINE: dead objects that are still
 * known. */
enum { PLAIT_MONITOR_KEPT = 256, PLAIT_MONITOR_QUARANTINE = 16384 };

/* Everything is under `lock`, but for what is atomic, and the records. */
struct plait_monitor {
    plait_monitor_level level;
    plait_logger logger;
    uint64_t patience_ns; /* without any activity, before a wait counts as one that never ends */
    pthread_mutex_t lock;
    pthread_cond_t changed; /* something that a wait may be for */
    bool pumping, again;    /* the token; whoever finds it taken asks for another round */
    _Atomic uint64_t calls;
    uint64_t activity;                        /* counts what could end a wait */
    plait_monitor_clock host;                 /* what the host knows to be over */
    uint64_t lane_time[PLAIT_MONITOR_LANES];  /* commands so far */
    uint32_t lane_users[PLAIT_MONITOR_LANES]; /* living queues */
    plait_monitor_queue *queues;
    plait_monitor_device *devices;
    plait_monitor_shadow host_memory; /* transfers' host side, by address */
    plait_monitor_mapped *mapped;     /* Owned. Living buffers that the host can address, by address */
    size_t n_mapped, mapped_capacity;
    plait_monitor_shadow sides;      /* while two sides of a copy are compared */
    plait_monitor_object quarantine; /* head of a ring, oldest first */
    size_t n_quarantine;
    uint64_t launches; /* looked at so far; see `aliased` */
    plait_monitor_contents contents;
    /* Of its own, taken last: breaches may be read while a call is under way. */
    pthread_mutex_t records_lock;
    _Atomic uint64_t n_records;
    plait_monitor_violation records[PLAIT_MONITOR_KEPT];
};

/* ---- monitor.c ---- */

/* Recursion is not supported: functions that say "with the lock held" never take it. */
void plait_monitor_lock(plait_monitor *monitor);
void plait_monitor_unlock(plait_monitor *monitor);
/* Begins a call: gives it its number. */
plait_monitor_call plait_monitor_begin(plait_device *device, plait_monitor_function function);
/* The wrapped device, or NULL for one that this monitor does not know. */
plait_monitor_device *plait_monitor_device_of(const plait_monitor *monitor, const plait_device *device);
/* A moment of the host, which it knows at once. With the lock held. */
plait_monitor_mark plait_monitor_host_mark(const plait_monitor_call *call);
/* Looks at the outcome of a call of the inner device: a failure leaves a message. Returns `status`. */
plait_status plait_monitor_outcome(const plait_monitor_call *call, plait_status status);
/* The same for calls with an output, more closely: *kept is this thread's message from before, which a call that succeeds
 * leaves alone. `set`: whether the output has been set. */
void plait_monitor_watch(plait_error_record *kept);
plait_status plait_monitor_watched(const plait_monitor_call *call, const plait_error_record *kept,
                                   plait_status status, bool set);
/* Makes `object` by `expr`, a call of the inner device; returns from the function when that fails. */
#define PLAIT_MONITOR_CREATE(call, object, expr)                                                             \
    do {                                                                                                     \
        plait_error_record kept_;                                                                            \
        plait_monitor_watch(&kept_);                                                                         \
        plait_status made_ = (expr);                                                                         \
        PLAIT_TRY(plait_monitor_watched((call), &kept_, made_, (object) != NULL));                           \
    } while (0)

/* ---- report.c ---- */

/* Counts, keeps and logs a breach, makes it this thread's message, and returns the rule's status. `object` and `earlier`
 * may be NULL. */
plait_status plait_monitor_report(const plait_monitor_call *call, plait_monitor_rule rule,
                                  const plait_monitor_object *object, const plait_monitor_mark *earlier,
                                  const char *format, ...) PLAIT_PRINTF(5, 6);
const char *plait_monitor_function_name(plait_monitor_function function);
/* "buffer 3 (kv) of cpu"; returns out. */
const char *plait_monitor_object_name(const plait_monitor_object *object, char out[128]);

/* ---- object.c ---- */

void plait_monitor_ring_init(plait_monitor_object *head);
/* The function that makes objects of a kind. */
plait_monitor_function plait_monitor_maker(plait_device_object kind);
/* With the lock held. */
void plait_monitor_object_begin(const plait_monitor_call *call, plait_device_object kind,
                                plait_monitor_object *object);
/* Moves it to the quarantine; the struct may be freed much later. */
void plait_monitor_object_end(const plait_monitor_call *call, plait_monitor_object *object);
/* The same for one that the device may still use: what the inner device holds stays until the device is destroyed. */
void plait_monitor_object_hold(const plait_monitor_call *call, plait_monitor_object *object);
/* Reports when commands that name it may still run, or wait. */
plait_status plait_monitor_object_idle(const plait_monitor_call *call, const plait_monitor_object *object);
/* Reports when it has ended already. */
plait_status plait_monitor_object_check(const plait_monitor_call *call, const plait_monitor_object *object);
/* Notes a use, in place of an earlier one of its lane, or of one that the host knows to be over; where there is
 * neither, one is forgotten. */
void plait_monitor_object_use(plait_monitor *monitor, plait_monitor_object *object,
                              const plait_monitor_mark *mark);
/* The use that the host does not know to be over, or NULL. */
const plait_monitor_mark *plait_monitor_object_in_use(const plait_monitor *monitor,
                                                      const plait_monitor_object *object);
/* Whether a list that waits names it: the call, or NULL. */
const plait_monitor_call *plait_monitor_object_awaited(const plait_monitor *monitor,
                                                       const plait_monitor_object *object, int *out_command);
/* Frees the structs of the dead. */
void plait_monitor_quarantine_clear(plait_monitor *monitor);
plait_status plait_monitor_name_object(plait_device *device, plait_device_object kind, void *object,
                                       const char *name);

/* ---- buffer.c ---- */

plait_status plait_monitor_buffer_create(plait_device *device, uint64_t size_bytes, uint32_t usage,
                                         plait_buffer **out);
plait_status plait_monitor_buffer_import(plait_device *device, void *host, uint64_t size_bytes,
                                         uint32_t usage, plait_buffer **out);
void plait_monitor_buffer_destroy(plait_buffer *buffer);
/* Gives back what the inner device holds. */
void plait_monitor_buffer_release(plait_monitor_buffer *buffer);
plait_status plait_monitor_pack(plait_device *device, const plait_operand *source, plait_encoding encoding,
                                int64_t row_begin, int64_t row_end, plait_region target);
plait_status plait_monitor_unpack(plait_device *device, const plait_operand *shape, plait_encoding encoding,
                                  int64_t row_begin, int64_t row_end, plait_region source, void *target);
/* The wrapper of a buffer, or NULL when it is none of this monitor. */
plait_monitor_buffer *plait_monitor_buffer_of(const plait_monitor *monitor, const plait_buffer *buffer);
/* What reads or writes, for messages: `what`, or the operand of the call's launch. */
const char *plait_monitor_access_name(const plait_monitor_call *call, const char *what, char out[160]);
/* Reports guard bytes that changed, of memory that is mapped. */
plait_status plait_monitor_check_guards(const plait_monitor_call *call, plait_monitor_buffer *buffer);
/* Reports bytes in [begin, end) that nobody wrote; `what` says who reads, NULL: the call's operand. */
plait_status plait_monitor_check_written(const plait_monitor_call *call, plait_monitor_buffer *buffer,
                                         uint64_t begin, uint64_t end, const char *what);
/* An access by a command or the host: reports one that has no order with an earlier one, then notes it. */
plait_status plait_monitor_touch(const plait_monitor_call *call, plait_monitor_buffer *buffer, uint64_t begin,
                                 uint64_t end, bool write, const plait_monitor_clock *clock,
                                 const plait_monitor_mark *mark, const char *what);
plait_status plait_monitor_touch_host(const plait_monitor_call *call, const void *address,
                                      uint64_t size_bytes, bool write, const plait_monitor_clock *clock,
                                      const plait_monitor_mark *mark, const char *what);

/* ---- event.c ---- */

plait_status plait_monitor_event_create(plait_device *device, plait_event **out);
plait_status plait_monitor_event_import(plait_device *device, plait_event *foreign, plait_event **out);
void plait_monitor_event_destroy(plait_event *event);
/* As plait_monitor_buffer_release. */
void plait_monitor_event_release(plait_monitor_event *event);
plait_status plait_monitor_event_query(plait_event *event, uint64_t *out_value);
plait_status plait_monitor_event_wait(plait_event *event, uint64_t value, uint64_t timeout_ns);
plait_status plait_monitor_event_signal(plait_event *event, uint64_t value);
void plait_monitor_event_fail(plait_event *event, const plait_error_record *failure);
/* The wrapper of an event, or NULL. */
plait_monitor_event *plait_monitor_event_of(const plait_monitor *monitor, const plait_event *event);
/* Whether the value will be reached without anything more being submitted; whether a wait for it will end so, be it by
 * a failure. `queue`: whose wait it is, NULL: the host's. */
bool plait_monitor_event_comes(const plait_monitor_event *event, uint64_t value,
                               const plait_monitor_queue *queue);
bool plait_monitor_event_settled(const plait_monitor_event *event, uint64_t value,
                                 const plait_monitor_queue *queue);
/* What a wait for the value orders is joined to *clock. */
void plait_monitor_event_join(const plait_monitor *monitor, const plait_monitor_timeline *timeline,
                              uint64_t value, plait_monitor_clock *clock);
/* A signal was submitted, by a queue or the host. Where memory is short, the oldest is merged into what is known of
 * all. */
void plait_monitor_event_add(plait_monitor *monitor, plait_monitor_timeline *timeline, uint64_t value,
                             const plait_monitor_clock *clock, const plait_monitor_mark *mark,
                             bool forwarded);
/* The device has the signals of this call, or will never have them. */
void plait_monitor_event_forwarded(plait_monitor_timeline *timeline, uint64_t call, bool forwarded);

/* ---- queue.c ---- */

plait_status plait_monitor_queue_create(plait_device *device, uint32_t flags, plait_queue **out);
void plait_monitor_queue_destroy(plait_queue *queue);
/* The same, with the events that belong to it. */
void plait_monitor_queue_release(plait_monitor_queue *queue);
plait_status plait_monitor_submit(plait_queue *queue, const plait_command *commands, int n);
plait_status plait_monitor_synchronise(plait_queue *queue);
/* With the lock held, after the host has learned something: compares lists that it knows to be done. */
plait_status plait_monitor_check_lists(const plait_monitor_call *call);

/* Host memory that a READ writes, at most; false for other commands. */
bool plait_monitor_read_target(const plait_command *command, uint64_t *out_begin, uint64_t *out_end);
/* The last list, of which the device took nothing, was never submitted. */
void plait_monitor_take_back(plait_monitor_queue *queue, plait_monitor_flight *flight);

/* Whether what a command's pointers show may still be written by a READ that is in flight: then it is known only when the
 * command's turn has come. */
bool plait_monitor_shows_late(const plait_monitor *monitor, const plait_command *command);

/* ---- pump.c ---- */

/* With the lock held, which may be dropped in between: takes every queue as far as it goes. When another thread does
 * so already, it will do this one's work too. */
void plait_monitor_pump(plait_monitor *monitor);
/* Waits, with the lock held, until `done(user)`; when nothing happens for the monitor's patience, until deadline_ns
 * (UINT64_MAX: none) or for ever, it gives up: false. */
bool plait_monitor_await(plait_monitor *monitor, bool (*done)(const void *user), const void *user,
                         uint64_t deadline_ns);
/* A list that waits and would signal the value: its queue, or NULL. */
plait_monitor_queue *plait_monitor_promised_by(const plait_monitor *monitor,
                                               const plait_monitor_timeline *timeline, uint64_t value);
/* Reports why the queue does not go on, and makes whoever is to blame fail. */
void plait_monitor_give_up(const plait_monitor_call *call, plait_monitor_queue *queue);
/* The queue fails with this thread's message. */
void plait_monitor_queue_fail(plait_monitor_queue *queue, plait_status status);

/* ---- check.c ---- */

/* Looks at command `call->command` of a list and translates it to *out. A breach is reported and returned. */
plait_status plait_monitor_check_command(const plait_monitor_call *call, plait_monitor_queue *queue,
                                         plait_monitor_flight *flight, const plait_command *command,
                                         plait_command *out);

/* The bytes that one side of a transfer or copy touches. */
typedef struct plait_monitor_area {
    uint64_t offset, row_bytes, n_rows, row_pitch, n_planes, plane_pitch;
} plait_monitor_area;
/* Box NULL: n bytes in one run. A box of no bytes: no run. */
plait_monitor_area plait_monitor_area_of(const plait_box *box, uint64_t offset, uint64_t n, bool source);
/* Calls fn for each run of bytes. False, and no call, when there are too many to walk. */
bool plait_monitor_walk(const plait_monitor_area *area, plait_monitor_piece_fn fn, void *user,
                        plait_status *out_status);

/* ---- contents.c ---- */

/* The pattern of bytes that nobody wrote (buffer.c), by their offset. */
unsigned char plait_monitor_pattern(uint64_t offset);
/* Around a command that was found right and is handed on by itself: keeps bytes before it, and compares them after it.
 * The lock is held. */
void plait_monitor_look_before(const plait_monitor_call *call, const plait_command *command);
plait_status plait_monitor_look_after(const plait_monitor_call *call, const plait_command *command);
/* Lays guard bytes behind a buffer that is not mapped. */
plait_status plait_monitor_lay_tail(const plait_monitor_call *call, plait_monitor_buffer *buffer);
/* Accepts a zeroed one. */
void plait_monitor_contents_deinit(plait_monitor_contents *contents);

/* ---- program.c, launch.c ---- */

bool plait_monitor_supports(plait_device *device, const plait_op_use *use, const plait_encoding *encodings,
                            char *reason, size_t reason_bytes);
plait_status plait_monitor_prepare(plait_device *device, const plait_segment *segment, plait_prepared *out);
void plait_monitor_prepared_destroy(plait_device *device, plait_prepared *prepared);
plait_status plait_monitor_compile(plait_device *device, const plait_segment *segment,
                                   const plait_prepared *prepared, plait_program **out);
plait_status plait_monitor_program_update(plait_device *device, plait_program *program,
                                          const plait_segment *segment, const int *nodes, int n_nodes);
void plait_monitor_program_destroy(plait_device *device, plait_program *program);
/* The same, with the arena. */
void plait_monitor_program_release(plait_monitor_program *program);
/* NULL when it was not compiled by a device of a monitor. */
plait_monitor_program *plait_monitor_program_of(const plait_program *program);
plait_status plait_monitor_check_launch(const plait_monitor_call *call, plait_monitor_queue *queue,
                                        plait_monitor_flight *flight, const plait_command *command,
                                        plait_command *out);
/* Two operands of one group, or one and the group's scratch, share bytes, and no rule allows it. `slots`: buffers that
 * stand in the slots, NULL: each slot is a buffer of its own. */
plait_status plait_monitor_check_overlap(const plait_monitor_call *call, const plait_monitor_program *program,
                                         plait_buffer *const *slots);
/* Calls `fn` for each run of bytes that the operand has at these dims. False when there are too many to walk. */
bool plait_monitor_pieces(const plait_operand *shape, uint64_t offset, plait_monitor_piece_fn fn, void *user,
                          plait_status *out_status);

#endif
