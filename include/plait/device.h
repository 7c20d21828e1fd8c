/* Devices: the interface that a device kind implements, and the segment it is asked to run.
 *
 * A device holds memory and runs nodes through queues. It has no knowledge of graphs, plans or models: what it
 * compiles is a segment, a run of nodes whose operands are described by dtype, dims, strides and an address =
 * binding slot + offset; what it launches is the program it made of it, with buffers for the slots and values
 * for the named dims. docs/writing-a-device.md goes from an empty folder to a kind that passes the conformance suite
 * (plait/conformance.h); src/device/null is the smallest complete kind. Kinds whose commands a host thread carries out
 * take their queues and events from plait/host_queue.h.
 *
 * The contract, where a function below does not say otherwise:
 *
 * Threads    Any function may be called from any thread. Calls on one queue, and on one program being compiled, come
 *            from one thread at a time; all others may come at the same time, on the same object too (events above
 *            all). A program that is compiled is immutable: it may be launched by several queues at once.
 * Order      The commands of a queue take effect in the order in which they were submitted; what that order and the
 *            events do not settle, happens in any order. A device may overlap commands as long as nobody can tell.
 *            Commands of different queues, of one device too, are ordered by events only.
 * In flight  submit returns before its commands are done. Until they are, the list, what its pointers show, the host
 *            memory of transfers, buffers, events and programs that it names belong to the device: the caller neither
 *            changes nor destroys them. Fields behind pointers are read when the command runs, not when it is submitted.
 * Bytes      A command touches the bytes of its regions and of the operands of its program, and no others: padding
 *            between rows of an operand, bytes around a region and elided values' places included. Bytes of a new buffer
 *            are undefined.
 * Failure    A call that fails leaves its message in the caller's error record (plait/status.h), sets no output and
 *            keeps nothing. A failure while commands run makes the queue fail: commands behind it have no effect, every
 *            event that they would have signalled fails with the same status and message, so that nobody waits for
 *            ever; synchronise returns it; later submissions to this queue are accepted and fail likewise. Other
 *            queues, and the device, go on, unless they wait for what failed.
 * Loss       A device that can not go on is lost: health says DEVICE_LOST with the cause, every queue fails, every
 *            event of the device that is not reached fails with DEVICE_LOST, and each later call that needs the device
 *            returns DEVICE_LOST. Destroying always works, on a lost device too, and gives back all host memory.
 * Ownership  create calls give the object to the caller, who destroys it before its device, buffers after every command
 *            that names them. Nothing is reference counted. Everything passed in is borrowed for the call, except what
 *            commands name. Destroying NULL is allowed.
 */
#ifndef PLAIT_DEVICE_H
#define PLAIT_DEVICE_H

#include "plait/log.h"
#include "plait/op.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Counts up whenever a struct or a meaning of this header changes. A kind that was compiled against another number is
 * refused when it is registered: nothing is guessed about structs of another shape. */
#define PLAIT_DEVICE_VERSION 3

/* Both are defined at the end of this header: what a kind embeds, and what it implements. */
typedef struct plait_device plait_device;
typedef struct plait_device_vtable plait_device_vtable;

/* ---- memory ---- */

/* What a buffer is for; a device may place and align by it. Exactly one for a buffer. */
typedef enum plait_buffer_usage {
    PLAIT_BUFFER_WEIGHTS = 1,   /* written once, then read */
    PLAIT_BUFFER_STATE = 2,     /* read and written, lives long */
    PLAIT_BUFFER_TEMPORARY = 4, /* an arena: contents mean nothing between steps */
    PLAIT_BUFFER_STAGING = 8    /* must be mapped for the host */
} plait_buffer_usage;

/* A piece of device memory. Device kinds embed it as first member of their own struct. Created and destroyed through
 * the vtable only; the fields are the device's to set, and do not change. */
typedef struct plait_buffer {
    plait_device *device; /* Borrowed. */
    uint64_t size_bytes;  /* as asked for, without padding */
    uint32_t usage;       /* one of plait_buffer_usage */
    /* Address at which the host may read and write it, NULL when the memory is not mapped. Law 7 and 3: nobody
     * but the device touches unmapped memory. */
    void *host;
} plait_buffer;

/* Part of a buffer: offset + size_bytes is at most the buffer's size. A value that borrows the buffer; size 0 is
 * legal. */
typedef struct plait_region {
    plait_buffer *buffer;
    uint64_t offset, size_bytes;
} plait_region;

/* Bytes that a copy of two or three dims moves: planes of rows of bytes, whose beginnings lie a pitch apart. Both sides
 * have the same counts and pitches of their own, which are at least as large as what they step over (rows of one side
 * do not overlap). A count of 0 moves nothing. */
typedef struct plait_box {
    uint64_t row_bytes, n_rows, n_planes;
    uint64_t source_row_pitch, source_plane_pitch; /* bytes; of a WRITE: the host memory's */
    uint64_t target_row_pitch, target_plane_pitch; /* of a READ: the host memory's */
} plait_box;

/* Bytes from the first to the last that a side of a box touches, 0 when it moves nothing. UINT64_MAX when they overflow. */
static inline uint64_t plait_box_span(const plait_box *box, uint64_t row_pitch, uint64_t plane_pitch) {
    uint64_t rows, planes, sum;
    if (!box->row_bytes || !box->n_rows || !box->n_planes) return 0;
    if (__builtin_mul_overflow(box->n_rows - 1, row_pitch, &rows) ||
        __builtin_mul_overflow(box->n_planes - 1, plane_pitch, &planes) ||
        __builtin_add_overflow(rows, planes, &sum) || __builtin_add_overflow(sum, box->row_bytes, &sum))
        return UINT64_MAX;
    return sum;
}

/* ---- events ---- */

/* A timeline: its value begins at 0 and only grows; reaching v fulfils all waits for values up to v, those that begin
 * later too. Signalling a smaller value changes nothing. A value that was reached before a failure counts as reached;
 * waits for larger ones get the failure. Embedded by kinds. Who else than its own device can wait for it is a matter of
 * PLAIT_CAP_FOREIGN_WAITS. */
typedef struct plait_event {
    plait_device *device; /* Borrowed. */
} plait_event;

/* ---- segments ---- */

/* Value of a bounded dim: floor((a * value(dim) + b) / c) for named dim number `dim`; dim < 0: a constant, the
 * operand's own dims hold it. Only the outermost dim of a tensor is bounded, and strides do not depend on it. */
typedef struct plait_extent {
    int32_t dim;
    int32_t axis; /* which dim of the operand it is */
    int64_t a, b, c;
} plait_extent;

/* Value of an extent for given values of the named dims; `constant` when it is no bounded dim. a >= 0 and c > 0, so
 * that the value never shrinks as the named dim grows, and its bound is the value at the bound. */
static inline int64_t plait_extent_value(const plait_extent *extent, int64_t constant,
                                         const int64_t *values) {
    return extent->dim < 0 ? constant : (extent->a * values[extent->dim] + extent->b) / extent->c;
}

/* How the bytes of a weight lie: 0 is the form they have in the file; other numbers are packings that belong to a
 * device kind. Who did not make an encoding cannot read it: other devices get the weight through `unpack`, in file
 * form. */
typedef uint32_t plait_encoding;
#define PLAIT_ENCODING_FILE 0u

/* An operand in a segment. Two operands with equal value ids address the same value; operands may overlap in
 * bytes (views), which is visible from slot and offset once addresses are known, and from `storage` before. */
typedef struct plait_segment_operand {
    plait_operand shape;  /* dims are bounds, data is NULL */
    plait_extent outer;   /* how the outermost dim depends on a named dim */
    uint32_t value;       /* id of the value, unique in the segment's plan */
    uint32_t storage;     /* id of the storage that it addresses */
    uint32_t slot;        /* which buffer, at launch; unset while preparing */
    uint64_t offset;      /* byte offset in that buffer; unset while preparing */
    uint64_t view_offset; /* byte offset inside the storage */
    plait_encoding encoding;
    bool is_weight;    /* constant once loaded */
    bool needed_after; /* somebody outside this segment reads it, or it is an output or state */
} plait_segment_operand;

/* One node as a device sees it. Everything behind the pointers is the planner's, and lives as long as the call. */
typedef struct plait_segment_node {
    const plait_op *op;
    const char *name; /* for messages and traces */
    uint32_t node;    /* id in the lowered graph */
    int n_inputs, n_outputs;
    uint32_t present;                  /* bit i: input i is there, as in plait_op_use */
    plait_segment_operand *inputs;     /* [n_inputs], the planner's; absent ones are zeroed */
    plait_segment_operand *outputs;    /* [n_outputs], the planner's */
    plait_attr attrs[PLAIT_MAX_ATTRS]; /* at their places in op->attrs */
} plait_segment_node;

/* A run of nodes in program order. The planner owns it; a program copies what it keeps. */
typedef struct plait_segment {
    size_t struct_bytes;
    int n_nodes;
    const plait_segment_node *nodes;
    int n_slots;           /* 0 while preparing */
    int n_dims;            /* named dims */
    const int64_t *bounds; /* upper bound of each */
} plait_segment;

/* What `prepare` decides: nodes that run as one. Groups are listed in an order in which they can run; each node is in
 * exactly one group. The order keeps every dependency of the segment, through shared bytes too. What compile gets is the
 * order in which they will run: the planner may have given groups other turns (and their members' places in `order`), where
 * that keeps every dependency as well. */
typedef struct plait_group {
    int first, n;               /* members: order[first .. first + n) of plait_prepared */
    uint64_t scratch_bytes;     /* memory that the group needs while it runs, at the bounds of the dims */
    uint64_t scratch_alignment; /* power of two; 1 when there is no scratch */
    /* Filled by the planner between prepare and compile: where the scratch lies. */
    uint32_t scratch_slot;
    uint64_t scratch_offset;
} plait_group;

/* What prepare returns and compile gets back, with the places of scratch filled in. Values are named by their ids in
 * the segment. Everything in it belongs to the device that made it, and ends with prepared_destroy. */
typedef struct plait_prepared {
    int n_groups;
    plait_group *groups; /* Owned by the device's allocation; freed by prepared_destroy. */
    int *order;          /* node numbers of the segment, n_nodes of them */
    int n_elided;
    uint32_t *elided; /* values that will never exist in memory: made and used up inside one group */
    int n_shared;
    struct plait_shared_pair {
        uint32_t output, input; /* value ids: output may be written over input's bytes, which is then dead */
    } * shared;
} plait_prepared;

/* ---- commands ---- */

/* When a command ran: spans of a launch's groups, or one span of any other command. The device appends while n < capacity,
 * before it signals anything behind the command; one that cannot tell leaves n as it is. Times are the host's monotonic
 * time, or, with own_clock set by the device, those of its own clock, which time_query compares with the host's. */
typedef struct plait_launch_trace {
    size_t capacity, n;
    bool own_clock;
    struct plait_launch_span {
        int group; /* of a launch; PLAIT_SPAN_WHOLE: all of the launch, or of another command */
        uint64_t begin_ns, end_ns;
    } * spans;
} plait_launch_trace;
#define PLAIT_SPAN_WHOLE (-1)

typedef struct plait_program
    plait_program; /* what a device compiled; immutable, used by any number of runs */
/* Made by queue_create. Calls on one queue come from one thread at a time. */
typedef struct plait_queue {
    plait_device *device; /* Borrowed. Embedded by kinds. */
} plait_queue;

/* Kinds of command. Only LAUNCH computes; WRITE, READ, COPY and FILL move bytes, SIGNAL and WAIT order queues. */
typedef enum plait_command_kind {
    PLAIT_COMMAND_WRITE, /* host bytes -> region */
    PLAIT_COMMAND_READ,  /* region -> host bytes */
    PLAIT_COMMAND_COPY, /* region -> region that shares no byte with it, both on devices that `reaches` names */
    PLAIT_COMMAND_FILL,   /* region := a byte */
    PLAIT_COMMAND_LAUNCH, /* run a program */
    PLAIT_COMMAND_SIGNAL, /* event := value, when all before is done */
    PLAIT_COMMAND_WAIT    /* hold the queue until event >= value */
} plait_command_kind;

/* One command. A list of them is submitted at once and stays where it is until executed; fields that change
 * from step to step are read through pointers when the command is executed. A region or box that leaves its buffer, or
 * moves more than a region holds, is OUT_OF_RANGE and fails the queue. */
typedef struct plait_command {
    plait_command_kind kind;
    union {
        struct {
            plait_region region;
            void *host;                 /* Borrowed. Source of a WRITE, target of a READ. */
            const uint64_t *size_bytes; /* bytes to move, at most region.size_bytes; NULL: all of it */
            const plait_box
                *box; /* what to move in two or three dims, from the region's start; NULL: one row,
                                           of size_bytes. Only for devices with PLAIT_CAP_BOXES */
            plait_launch_trace *trace; /* Borrowed; filled while its `capacity` is not 0. NULL: never */
        } transfer;
        struct {
            plait_region source, target;
            const uint64_t *size_bytes; /* as above; NULL: all of the source */
            const plait_box *box;       /* as above */
            plait_launch_trace *trace;  /* as above */
        } copy;
        struct {
            plait_region region;
            uint8_t byte;
        } fill;
        struct {
            const plait_program *program;
            plait_buffer *const *slots; /* n_slots of the segment */
            const int64_t *dims;        /* values of the named dims */
            plait_launch_trace *trace;  /* as above */
        } launch;
        struct {
            plait_event *event;
            const uint64_t *value;
            plait_launch_trace *trace; /* of a WAIT, as above: how long it held the queue */
        } signal, wait;
    };
} plait_command;

/* Where spans of a command go; NULL: nowhere, now. */
static inline plait_launch_trace *plait_command_trace(const plait_command *command) {
    plait_launch_trace *trace = NULL;
    switch (command->kind) {
    case PLAIT_COMMAND_WRITE:
    case PLAIT_COMMAND_READ: trace = command->transfer.trace; break;
    case PLAIT_COMMAND_COPY: trace = command->copy.trace; break;
    case PLAIT_COMMAND_LAUNCH: trace = command->launch.trace; break;
    case PLAIT_COMMAND_WAIT: trace = command->wait.trace; break;
    case PLAIT_COMMAND_FILL:
    case PLAIT_COMMAND_SIGNAL: break;
    }
    return trace && trace->n < trace->capacity ? trace : NULL;
}

/* ---- device facts ---- */

typedef enum plait_queue_flags {
    /* Commands may run on the submitting thread, which then is the device's first worker; submit returns when
     * they are done. Only for plans whose queue waits for no event of another queue. */
    PLAIT_QUEUE_INLINE = 1,
    /* For transfers beside another queue's launches: one of the device's copy engines. Takes every command but LAUNCH.
     * Devices whose n_copy_queues is 0 treat it as any other queue. */
    PLAIT_QUEUE_COPY = 2
} plait_queue_flags;

/* What a device can do beyond the must-haves. They never change while the device lives, and the planner believes them:
 * one that promises too much breaks plans. */
typedef enum plait_device_caps {
    /* Every buffer is mapped (plait_buffer.host): the host, and whoever can read host memory, reaches it directly. */
    PLAIT_CAP_MAPPED = 1,
    /* Transfers and copies take boxes of two and three dims as one command; without it callers cut them into rows. */
    PLAIT_CAP_BOXES = 2,
    /* Its queues can wait for events of any other device of the process. Without it they wait for events of their own
     * device only, and the host passes on what others signal (event_signal). */
    PLAIT_CAP_FOREIGN_WAITS = 4
} plait_device_caps;

/* Facts that do not change while the device lives, except memory_free_bytes. */
typedef struct plait_device_info {
    char kind[32];             /* "cpu" */
    char name[PLAIT_MAX_NAME]; /* "cpu", "cpu:0": unique in a context, used in plans and messages */
    char description[256];     /* for people: processor model, driver */
    char numeric_class[64];    /* equal class, equal bytes: kernel set and instruction-set family */
    uint64_t memory_total_bytes, memory_free_bytes;
    uint64_t alignment; /* of offsets in buffers, a power of two */
    uint64_t max_buffer_bytes;
    int n_threads;       /* 0 when the notion does not apply */
    bool unified_memory; /* its memory is the host's: budgets are shared with every such device */
    uint32_t caps;       /* plait_device_caps */
    int n_copy_queues;   /* copy engines that work beside launches; 0: transfers take the launches' time */
} plait_device_info;

/* How fast a device is, as planning sees it. A device that states its figures fills what it knows and leaves the rest at
 * 0; the planner rounds them to a scale with steps of 10% (plait/cost.h). */
typedef struct plait_device_figures {
    size_t struct_bytes; /* sizeof(plait_device_figures) of the caller */
    /* Arithmetic of matrix products with many columns: quantised weights, float weights; and of attention. */
    uint64_t integer_flop_per_s, float_flop_per_s, attention_flop_per_s;
    uint64_t weight_bytes_per_s; /* weights read by a product with one column */
    uint64_t bytes_per_s;        /* operands of everything else, read and written */
    uint64_t launch_ns, node_ns; /* what a launch costs beyond its nodes, and a node beyond its work */
    /* Moving bytes from the host, to the host, and to a device that it reaches: rate, and what a command costs at least,
     * the waking of who waits for it included. */
    uint64_t write_bytes_per_s, read_bytes_per_s, peer_bytes_per_s;
    uint64_t write_ns, read_ns, peer_ns;
} plait_device_figures;

/* The figures by name, in their order: X(field), each a uint64_t. */
#define PLAIT_DEVICE_FIGURES(X)                                                                              \
    X(integer_flop_per_s)                                                                                    \
    X(float_flop_per_s)                                                                                      \
    X(attention_flop_per_s)                                                                                  \
    X(weight_bytes_per_s)                                                                                    \
    X(bytes_per_s)                                                                                           \
    X(launch_ns)                                                                                             \
    X(node_ns)                                                                                               \
    X(write_bytes_per_s)                                                                                     \
    X(read_bytes_per_s)                                                                                      \
    X(peer_bytes_per_s)                                                                                      \
    X(write_ns)                                                                                              \
    X(read_ns)                                                                                               \
    X(peer_ns)

/* A weight and who reads it, for `encodings`. `readers` is borrowed during the call. The dims are the whole weight's,
 * dim 0 contiguous. */
typedef struct plait_weight_use {
    plait_dtype dtype;
    int64_t dims[PLAIT_MAX_RANK];
    int n_readers;
    const struct plait_weight_reader {
        const plait_op *op;
        int input;
        bool whole; /* reads the tensor itself, not a view of part of it */
    } * readers;
} plait_weight_use;

/* A packing that a device offers for a weight: what it is called and what it takes. Lossless: what is unpacked is, byte
 * for byte, what was packed. */
typedef struct plait_encoding_offer {
    plait_encoding encoding;
    char name[32];       /* "cpu/q4_0x16" */
    uint64_t size_bytes; /* of the whole weight in this encoding */
    uint64_t alignment;  /* of the region it is packed into, a power of two */
} plait_encoding_offer;

/* ---- the vtable ---- */

/* Sizes of the structs that cross the boundary: a kind that was compiled against another header is refused. */
typedef struct plait_device_sizes {
    uint32_t command, segment, node, prepared, group, info, buffer, use;
} plait_device_sizes;
#define PLAIT_DEVICE_SIZES                                                                                   \
    {                                                                                                        \
        sizeof(plait_command), sizeof(plait_segment), sizeof(plait_segment_node), sizeof(plait_prepared),    \
            sizeof(plait_group), sizeof(plait_device_info), sizeof(plait_buffer), sizeof(plait_op_use)       \
    }

/* Kinds of objects that can be given a name for debuggers. */
typedef enum plait_device_object {
    PLAIT_OBJECT_BUFFER,
    PLAIT_OBJECT_EVENT,
    PLAIT_OBJECT_QUEUE,
    PLAIT_OBJECT_PROGRAM
} plait_device_object;

/* Where `expand` puts the options of a device that item number `item` becomes, without the kind. The text is copied
 * before it returns; a failure of the sink ends `expand`. */
typedef plait_status plait_item_sink(void *user, int item, const char *options);

/* The must-haves come first. An optional slot that is NULL is filled by plait_device_register with a stub that
 * returns UNSUPPORTED, or with the default that the slot's comment names: callers never test a slot for NULL. */
struct plait_device_vtable {
    uint32_t version; /* PLAIT_DEVICE_VERSION */
    size_t struct_bytes;
    plait_device_sizes sizes; /* PLAIT_DEVICE_SIZES */
    const char *kind;
    const char *doc; /* one line for `plait devices` */

    /* -- the device -- */

    /* Makes a device from the options of a device-list item, "key=value" pairs split at ':'. Unknown keys are
     * INVALID_ARGUMENT naming the known ones; hardware that is not there is NOT_FOUND. `logger` may be NULL. */
    plait_status (*create)(const char *const *options, int n_options, const plait_logger *logger,
                           plait_device **out);
    /* All its objects are destroyed before. Waits for whatever still runs. */
    void (*destroy)(plait_device *device);
    /* Fills *out. Works on a lost device. */
    plait_status (*describe)(plait_device *device, plait_device_info *out);
    /* OK while the device works, DEVICE_LOST with the cause afterwards. Never blocks. */
    plait_status (*health)(plait_device *device);

    /* -- memory -- */

    /* A buffer of exactly size_bytes (0 is legal) for one usage; a STAGING buffer is always mapped. OUT_OF_MEMORY when it
     * can not be had, also when larger than max_buffer_bytes: the device then is as it was before. */
    plait_status (*buffer_create)(plait_device *device, uint64_t size_bytes, uint32_t usage,
                                  plait_buffer **out);
    void (*buffer_destroy)(plait_buffer *buffer);

    /* -- events -- */

    plait_status (*event_create)(plait_device *device, plait_event **out);
    void (*event_destroy)(plait_event *event);
    /* Current value; the failure of an event that failed. Never blocks. */
    plait_status (*event_query)(plait_event *event, uint64_t *out_value);
    /* Host wait until the value is reached, by several threads if need be; TIMEOUT when timeout_ns is over (UINT64_MAX:
     * none), the failure when the event failed below the value. What the signalling queue wrote before is then visible
     * to this thread. */
    plait_status (*event_wait)(plait_event *event, uint64_t value, uint64_t timeout_ns);
    /* The host reaches a value: queues and threads that wait for it go on. */
    plait_status (*event_signal)(plait_event *event, uint64_t value);
    /* The host says that no further value will be reached, for this reason: every wait for one fails, queues that wait
     * fail. The first failure stays. */
    void (*event_fail)(plait_event *event, const plait_error_record *failure);

    /* -- queues -- */

    /* flags: of plait_queue_flags. A device offers at least 8 queues at a time; LIMIT beyond what it has. */
    plait_status (*queue_create)(plait_device *device, uint32_t flags, plait_queue **out);
    /* Waits for its commands, which must not wait for what never comes. */
    void (*queue_destroy)(plait_queue *queue);
    /* Hands over commands, to be executed in order. Never blocks for an event (unless the queue is INLINE), does not
     * allocate once as many lists were in flight before. On failure nothing of the list is executed. A WAIT may come
     * long before its signal is submitted anywhere. */
    plait_status (*submit)(plait_queue *queue, const plait_command *commands, int n);
    /* Waits for all commands submitted; returns the queue's failure, if any. */
    plait_status (*synchronise)(plait_queue *queue);

    /* -- programs -- */

    /* Whether the device runs this node; if not, the reason goes to `reason` (reason_bytes long, NUL-terminated).
     * Derived from the kernel table, never a second switch. Dims are bounds; inputs[i] of encodings other than
     * FILE have it in encodings[i] (NULL: all FILE). The same question always has the same answer, and what it accepts,
     * prepare, compile and launch accept, in any segment, for all values of named dims. Data pointers of the use are
     * NULL. */
    bool (*supports)(plait_device *device, const plait_op_use *use, const plait_encoding *encodings,
                     char *reason, size_t reason_bytes);
    /* Decides which nodes of a segment run as one, without addresses: see plait_prepared. */
    plait_status (*prepare)(plait_device *device, const plait_segment *segment, plait_prepared *out);
    void (*prepared_destroy)(plait_device *device, plait_prepared *prepared);
    /* Makes a program of a segment with addresses (slot, offset) and its prepared groups, whose scratch has been given a
     * place. Copies what it keeps. */
    plait_status (*compile)(plait_device *device, const plait_segment *segment,
                            const plait_prepared *prepared, plait_program **out);
    void (*program_destroy)(plait_device *device, plait_program *program);

    /* ---- optional ---- */

    /* Makes a buffer of host memory without copying; the memory must outlive it. */
    plait_status (*buffer_import)(plait_device *device, void *host, uint64_t size_bytes, uint32_t usage,
                                  plait_buffer **out);
    /* Lists the packings that serve every reader of the weight, best first; *n_offers is capacity in, count out.
     * UNSUPPORTED: it packs no weight, whoever reads it, and is not asked again. */
    plait_status (*encodings)(plait_device *device, const plait_weight_use *use, plait_encoding_offer *offers,
                              int *n_offers);
    /* Packs rows [row_begin, row_end) (rows over dims 1..3 flattened) of a weight in file form at `source` (host
     * memory) into its packed region. Blocks until done; uses the device's own parallelism. */
    plait_status (*pack)(plait_device *device, const plait_operand *source, plait_encoding encoding,
                         int64_t row_begin, int64_t row_end, plait_region target);
    /* The way back, to file form at `target` (host memory, dense rows from row_begin on). Lossless. */
    plait_status (*unpack)(plait_device *device, const plait_operand *shape, plait_encoding encoding,
                           int64_t row_begin, int64_t row_end, plait_region source, void *target);

    /* Bytes that a buffer of this size and usage takes from the device's memory, padding included. Default: size_bytes
     * rounded up to the alignment. */
    plait_status (*allocation_bytes)(plait_device *device, uint64_t size_bytes, uint32_t usage,
                                     uint64_t *out_bytes);
    /* Memory of the device now: all of it, and what a buffer could still take. Default: what describe says. */
    plait_status (*memory_query)(plait_device *device, uint64_t *out_total_bytes, uint64_t *out_free_bytes);
    /* Whether COPY on this device's queues may name buffers of `other`, as source and as target. A device always
     * reaches itself. Default: itself only. Set for good when both devices exist. */
    bool (*reaches)(plait_device *device, plait_device *other);
    /* Host memory that transfers of this device move fastest (pinned), aligned to 64 bytes. Any host pointer serves
     * transfers; this one serves them better. */
    plait_status (*host_alloc)(plait_device *device, uint64_t size_bytes, void **out);
    void (*host_free)(plait_device *device, void *host);
    /* Makes an event of this device that shows the timeline of another device's event, so that queues of this device can
     * wait for it (without PLAIT_CAP_FOREIGN_WAITS). The other event outlives it. It cannot be signalled. */
    plait_status (*event_import)(plait_device *device, plait_event *foreign, plait_event **out);
    /* Changes attributes, addresses and dims of some nodes of a program that is not in flight: `segment` as at compile,
     * nodes numbered in it. Groups and shapes of scratch stay. */
    plait_status (*program_update)(plait_device *device, plait_program *program, const plait_segment *segment,
                                   const int *nodes, int n_nodes);
    /* The device's clock and the host's monotonic clock at one moment, in nanoseconds, for laying traces together. */
    plait_status (*time_query)(plait_device *device, uint64_t *out_device_ns, uint64_t *out_host_ns);
    /* A name for debuggers and captures; copied. */
    plait_status (*name_object)(plait_device *device, plait_device_object kind, void *object,
                                const char *name);
    /* States the device's figures, for kinds that know them better than a measurement would. *out is zeroed but for its
     * struct_bytes. Without it the device is measured once and the result is cached. */
    plait_status (*figures)(plait_device *device, plait_device_figures *out);

    /* What becomes of the items of a device list that are of this kind, asked before any is created: one item may become
     * several (a device of each NUMA node), and items may share out between them what none of them names. items[i]: what
     * stands behind "kind:", in the order of the list; threads: plait_context_options.threads. Calls emit(user, i,
     * options) for each device that item i becomes, and returns its failure. Default: every item as it is. */
    plait_status (*expand)(const char *const *items, int n_items, int threads, plait_item_sink *emit,
                           void *user);
};

/* Embedded as first member by every kind. A kind's create allocates the whole, sets `vtable`, and leaves the rest of
 * this part zeroed. */
struct plait_device {
    const plait_device_vtable *vtable;
    char name[PLAIT_MAX_NAME]; /* set by the context */
};

/* Adds a kind to the registry; built-in kinds are there already. The vtable must live for ever. Thread-safe.
 * INVALID_ARGUMENT for another version, a missing must-have or a kind that exists. */
plait_status plait_device_register(const plait_device_vtable *vtable);
/* The kind's vtable, or NULL; number of kinds; the i-th of them. Any thread. Kinds are never removed, so what is
 * returned stays valid. */
const plait_device_vtable *plait_device_kind(const char *kind);
int plait_device_kind_count(void);
const plait_device_vtable *plait_device_kind_at(int index);

/* Parses one item of a device list, "kind[:key=value]...", and creates the device. Unknown kinds and keys are
 * INVALID_ARGUMENT (wrong usage) naming the known ones. The caller destroys *out through its vtable, after all that was
 * made on it. */
plait_status plait_device_create(const char *item, const plait_logger *logger, plait_device **out);

/* Loads kinds from a vendor's shared library (--device-path): it exports plait_device_entry, which is called with
 * 0, 1, 2, ... and returns the vtable of that kind, NULL behind the last one. All its kinds are registered, or none; the
 * library then stays loaded for ever. A path without '/' is a file of the current folder, or else one that the system's
 * loader finds. NOT_FOUND when there is no such file, INVALID_ARGUMENT when it is no library, exports no entry or no
 * kind, is linked to another copy of plait than the caller, or a kind is refused as by plait_device_register. Thread-safe. */
plait_status plait_device_load(const char *path);
typedef const plait_device_vtable *(*plait_device_entry_fn)(int index);
#define PLAIT_DEVICE_ENTRY "plait_device_entry"

#ifdef __cplusplus
}
#endif
#endif
