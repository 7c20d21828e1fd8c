/* Devices: the interface that a device kind implements, and the segment it is asked to run.
 *
 * A device holds memory and runs nodes through queues. It has no knowledge of graphs, plans or models: what it
 * compiles is a segment, a run of nodes whose operands are described by dtype, dims, strides and an address =
 * binding slot + offset; what it launches is the program it made of it, with buffers for the slots and values
 * for the named dims. src/device/null is the smallest complete kind, to be copied; CONTRIBUTING.md has the steps.
 *
 * Threading: a vtable function may be called from any thread, but calls on one queue, and on one program being
 * compiled, come from one thread at a time. `supports`, `encodings` and `describe` may run concurrently.
 * Ownership: create calls give the object to the caller, who destroys it before its device. Everything passed in
 * is borrowed for the call, except command lists, which are borrowed until they have been executed.
 * Errors: a failing call leaves its message in the caller's error record. A failure while commands run makes
 * the queue fail: every later wait on an event that this queue would have signalled returns the failure, with
 * its own message, until the queue is destroyed.
 */
#ifndef PLAIT_DEVICE_H
#define PLAIT_DEVICE_H

#include "plait/log.h"
#include "plait/op.h"

#ifdef __cplusplus
extern "C" {
#endif

#define PLAIT_DEVICE_VERSION 1

typedef struct plait_device plait_device;
typedef struct plait_device_vtable plait_device_vtable;

/* ---- memory ---- */

/* What a buffer is for; a device may place and align by it. */
typedef enum plait_buffer_usage {
    PLAIT_BUFFER_WEIGHTS = 1, /* written once, then read */
    PLAIT_BUFFER_STATE = 2,   /* read and written, lives long */
    PLAIT_BUFFER_TEMPORARY = 4,
    PLAIT_BUFFER_STAGING = 8 /* must be mapped for the host */
} plait_buffer_usage;

/* A piece of device memory. Device kinds embed it as first member of their own struct. */
typedef struct plait_buffer {
    plait_device *device; /* Borrowed. */
    uint64_t size_bytes;
    uint32_t usage;
    /* Address at which the host may read and write it, NULL when the memory is not mapped. Law 7 and 3: nobody
     * but the device touches unmapped memory. */
    void *host;
} plait_buffer;

typedef struct plait_region {
    plait_buffer *buffer;
    uint64_t offset, size_bytes;
} plait_region;

/* ---- events ---- */

/* A timeline: its value only grows; reaching v fulfils all waits for values up to v. Embedded by kinds. */
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

/* Value of an extent for given values of the named dims; `constant` when it is no bounded dim. */
static inline int64_t plait_extent_value(const plait_extent *extent, int64_t constant,
                                         const int64_t *values) {
    return extent->dim < 0 ? constant : (extent->a * values[extent->dim] + extent->b) / extent->c;
}

/* How the bytes of a weight lie: 0 is the form they have in the file; other numbers are packings that belong to
 * a device kind. */
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

typedef struct plait_segment_node {
    const plait_op *op;
    const char *name; /* for messages and traces */
    uint32_t node;    /* id in the lowered graph */
    int n_inputs, n_outputs;
    uint32_t present;
    plait_segment_operand inputs[PLAIT_MAX_INPUTS];
    plait_segment_operand outputs[PLAIT_MAX_OUTPUTS];
    plait_attr attrs[PLAIT_MAX_ATTRS];
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

/* What `prepare` decides: nodes that run as one. Groups are listed in the order in which they will run; each
 * node is in exactly one group. The order keeps every dependency of the segment, through shared bytes too. */
typedef struct plait_group {
    int first, n;               /* members: order[first .. first + n) of plait_prepared */
    uint64_t scratch_bytes;     /* memory that the group needs while it runs, at the bounds of the dims */
    uint64_t scratch_alignment; /* power of two; 1 when there is no scratch */
    /* Filled by the planner between prepare and compile: where the scratch lies. */
    uint32_t scratch_slot;
    uint64_t scratch_offset;
} plait_group;

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

/* Spans of a launch's groups, for traces. A device that cannot tell leaves n at 0. */
typedef struct plait_launch_trace {
    size_t capacity, n; /* the device appends while n < capacity */
    struct plait_launch_span {
        int group;
        uint64_t begin_ns, end_ns; /* monotonic time of the host */
    } * spans;
} plait_launch_trace;

typedef struct plait_program
    plait_program; /* what a device compiled; immutable, used by any number of runs */
typedef struct plait_queue {
    plait_device *device; /* Borrowed. Embedded by kinds. */
} plait_queue;

typedef enum plait_command_kind {
    PLAIT_COMMAND_WRITE,  /* host bytes -> region */
    PLAIT_COMMAND_READ,   /* region -> host bytes */
    PLAIT_COMMAND_COPY,   /* region -> region, both on devices that this queue reaches */
    PLAIT_COMMAND_FILL,   /* region := a byte */
    PLAIT_COMMAND_LAUNCH, /* run a program */
    PLAIT_COMMAND_SIGNAL, /* event := value, when all before is done */
    PLAIT_COMMAND_WAIT    /* hold the queue until event >= value */
} plait_command_kind;

/* One command. A list of them is submitted at once and stays where it is until executed; fields that change
 * from step to step are read through pointers when the command is executed. */
typedef struct plait_command {
    plait_command_kind kind;
    union {
        struct {
            plait_region region;
            void *host;                 /* Borrowed. Source of a WRITE, target of a READ. */
            const uint64_t *size_bytes; /* bytes to move, at most region.size_bytes; NULL: all of it */
        } transfer;
        struct {
            plait_region source, target;
            const uint64_t *size_bytes;
        } copy;
        struct {
            plait_region region;
            uint8_t byte;
        } fill;
        struct {
            const plait_program *program;
            plait_buffer *const *slots; /* n_slots of the segment */
            const int64_t *dims;        /* values of the named dims */
            plait_launch_trace *trace;  /* Borrowed; filled while its `capacity` is not 0. NULL: never */
        } launch;
        struct {
            plait_event *event;
            const uint64_t *value;
        } signal, wait;
    };
} plait_command;

/* ---- device facts ---- */

typedef enum plait_queue_flags {
    /* Commands may run on the submitting thread, which then is the device's first worker; submit returns when
     * they are done. Only for plans whose queue waits for no event of another queue. */
    PLAIT_QUEUE_INLINE = 1
} plait_queue_flags;

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
} plait_device_info;

/* A weight and who reads it, for `encodings`. */
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

typedef struct plait_encoding_offer {
    plait_encoding encoding;
    char name[32];       /* "cpu/q4_0x16" */
    uint64_t size_bytes; /* of the whole weight in this encoding */
    uint64_t alignment;
} plait_encoding_offer;

/* ---- the vtable ---- */

/* The must-haves come first. An optional slot that is NULL is filled by plait_device_register with a stub that
 * returns UNSUPPORTED. */
struct plait_device_vtable {
    uint32_t version; /* PLAIT_DEVICE_VERSION */
    size_t struct_bytes;
    const char *kind;
    const char *doc; /* one line for `plait devices` */

    /* Makes a device from the options of a device-list item, "key=value" pairs split at ':'. Unknown keys are
     * INVALID_ARGUMENT naming the known ones. `logger` may be NULL. */
    plait_status (*create)(const char *const *options, int n_options, const plait_logger *logger,
                           plait_device **out);
    void (*destroy)(plait_device *device); /* all its objects are destroyed before */
    plait_status (*describe)(plait_device *device, plait_device_info *out);

    plait_status (*buffer_create)(plait_device *device, uint64_t size_bytes, uint32_t usage,
                                  plait_buffer **out);
    void (*buffer_destroy)(plait_buffer *buffer);

    plait_status (*event_create)(plait_device *device, plait_event **out);
    void (*event_destroy)(plait_event *event);
    /* Current value; a failure of the queue that should signal it is returned. */
    plait_status (*event_query)(plait_event *event, uint64_t *out_value);
    /* Host wait until the value is reached; TIMEOUT when timeout_ns is over (UINT64_MAX: none). */
    plait_status (*event_wait)(plait_event *event, uint64_t value, uint64_t timeout_ns);

    plait_status (*queue_create)(plait_device *device, uint32_t flags, plait_queue **out);
    void (*queue_destroy)(plait_queue *queue); /* waits for its commands */
    /* Hands over commands, to be executed in order. Never blocks for an event (unless the queue is INLINE). */
    plait_status (*submit)(plait_queue *queue, const plait_command *commands, int n);
    /* Waits for all commands submitted; returns the queue's failure, if any. */
    plait_status (*synchronise)(plait_queue *queue);

    /* Whether the device runs this node; if not, the reason goes to `reason` (reason_bytes long, NUL-terminated).
     * Derived from the kernel table, never a second switch. Dims are bounds; inputs[i] of encodings other than
     * FILE have it in encodings[i]. */
    bool (*supports)(plait_device *device, const plait_op_use *use, const plait_encoding *encodings,
                     char *reason, size_t reason_bytes);
    plait_status (*prepare)(plait_device *device, const plait_segment *segment, plait_prepared *out);
    void (*prepared_destroy)(plait_device *device, plait_prepared *prepared);
    plait_status (*compile)(plait_device *device, const plait_segment *segment,
                            const plait_prepared *prepared, plait_program **out);
    void (*program_destroy)(plait_device *device, plait_program *program);

    /* OK while the device works, DEVICE_LOST with the cause afterwards. */
    plait_status (*health)(plait_device *device);

    /* ---- optional ---- */

    /* Makes a buffer of host memory without copying; the memory must outlive it. */
    plait_status (*buffer_import)(plait_device *device, void *host, uint64_t size_bytes, uint32_t usage,
                                  plait_buffer **out);
    /* Lists the packings that serve every reader of the weight, best first; *n_offers is capacity in, count out. */
    plait_status (*encodings)(plait_device *device, const plait_weight_use *use, plait_encoding_offer *offers,
                              int *n_offers);
    /* Packs rows [row_begin, row_end) (rows over dims 1..3 flattened) of a weight in file form at `source` (host
     * memory) into its packed region. Blocks until done; uses the device's own parallelism. */
    plait_status (*pack)(plait_device *device, const plait_operand *source, plait_encoding encoding,
                         int64_t row_begin, int64_t row_end, plait_region target);
    /* The way back, to file form at `target` (host memory, dense rows from row_begin on). Lossless. */
    plait_status (*unpack)(plait_device *device, const plait_operand *shape, plait_encoding encoding,
                           int64_t row_begin, int64_t row_end, plait_region source, void *target);
};

/* Embedded as first member by every kind. */
struct plait_device {
    const plait_device_vtable *vtable;
    char name[PLAIT_MAX_NAME]; /* set by the context */
};

/* Adds a kind to the registry; built-in kinds are there already. The vtable must live for ever. Thread-safe.
 * INVALID_ARGUMENT for another version, a missing must-have or a kind that exists. */
plait_status plait_device_register(const plait_device_vtable *vtable);
/* The kind's vtable, or NULL; number of kinds; the i-th of them. */
const plait_device_vtable *plait_device_kind(const char *kind);
int plait_device_kind_count(void);
const plait_device_vtable *plait_device_kind_at(int index);

/* Parses one item of a device list, "kind[:key=value]...", and creates the device. Unknown kinds and keys are
 * INVALID_ARGUMENT (wrong usage) naming the known ones. */
plait_status plait_device_create(const char *item, const plait_logger *logger, plait_device **out);

/* Loads kinds from a vendor's shared library (--device-path): it exports plait_device_entry, which is called with
 * 0, 1, 2, ... and returns the vtable of that kind, NULL behind the last one. The library stays loaded for ever once
 * a kind of it is registered. NOT_FOUND when it cannot be opened, INVALID_ARGUMENT when it exports no entry or no
 * kind, or a kind is refused as by plait_device_register. Thread-safe. */
plait_status plait_device_load(const char *path);
typedef const plait_device_vtable *(*plait_device_entry_fn)(int index);
#define PLAIT_DEVICE_ENTRY "plait_device_entry"

#ifdef __cplusplus
}
#endif
#endif
