/* Inside of a plan and a residence: the tables that the passes fill, one after the other.
 *
 *   weigh.c      node -> devices that run it, times; value -> bytes   (weigh.h)
 *   survey.c     all graphs of a model: units, items, what a unit costs on a device (survey.h)
 *   split.c      unit -> device, by numbers alone (split.h)
 *   residence.c  weights and state -> device, offset                  (once for all plans of a model)
 *   encode.c     weights -> encoding, from all their readers
 *   load.c       weights -> memory of the devices
 *   place.c      node -> device, with cause
 *   copies.c     operands that a device takes only dense -> a graph with copies of them
 *   segment.c    runs of nodes of one device; transfers between devices, the way each takes (transfer.c); the list of
 *                commands
 *   prepare.c    every device's answer to its segments: groups, scratch, what may share bytes
 *   order.c      before memory: how long each value needs its bytes; after it: who waits for whom
 *   reorder.c    groups in other turns, where that lowers the peak of memory
 *   memory.c     values -> offsets in arenas, from those lives
 *   verify.c     proof: order, reachability, no overwritten value is read (verify_queues.c, verify_versions.c: across
 *                devices)
 *   compile.c    segments with addresses -> programs
 *   make.c       the passes in turn; life of a plan
 *   cache.c      plans of equal graphs, found again
 *   explain.c, forecast.c   what a plan says of itself, and how long it should take (explain.h)
 *   print.c, json.c, html.c   the plan as text, JSON and page
 *
 * A pass reads what earlier passes wrote and writes its own tables only. Nothing writes to the graph (law 1).
 *
 * Addresses are slots + offsets. Each device has the same numbering of slots: SLOT_ARENA, SLOT_INPUTS, SLOT_STATE,
 * then the weight buffers of the residence on that device. Where an arena is larger than a buffer of the device may be, it
 * is cut into chunks: in the tables of a plan its bytes are numbered through (all in SLOT_ARENA); operands, scratch and
 * commands name the chunk, whose slots come behind the weights'.
 */
#ifndef PLAIT_PLAN_PLAN_H
#define PLAIT_PLAN_PLAN_H

#include "base/arena.h"
#include "base/map.h"
#include "base/strbuf.h"
#include "cost/cost.h"
#include "device/context.h"
#include "graph/graph.h"
#include "plait/plan.h"

#include <stdatomic.h>

enum { PLAIT_SLOT_ARENA = 0, PLAIT_SLOT_INPUTS = 1, PLAIT_SLOT_STATE = 2, PLAIT_SLOT_WEIGHTS = 3 };
/* No such slot, queue entry or value; no offset yet. */
#define PLAIT_NO_SLOT   UINT32_MAX
#define PLAIT_NO_OFFSET UINT64_MAX

/* ---- residence ---- */

/* Why something is where it is; printed by explain.c. */
typedef enum plait_cause {
    PLAIT_CAUSE_ONLY_DEVICE, /* there is one device */
    PLAIT_CAUSE_FIRST,       /* the first device of the list that runs it */
    PLAIT_CAUSE_PINNED,      /* the user said so */
    PLAIT_CAUSE_WEIGHTS,     /* its weights live there */
    PLAIT_CAUSE_STATE,       /* it writes state that lives there */
    PLAIT_CAUSE_BLOCK,       /* its block lives there */
    PLAIT_CAUSE_NEIGHBOUR,   /* what it reads is made there */
    PLAIT_CAUSE_COST,        /* fastest there */
    PLAIT_CAUSE_RATIO,       /* a block: by the user's ratio */
    PLAIT_CAUSE_ROOM,        /* a block: the devices before have no room for it */
    PLAIT_CAUSE_LACKING,     /* the preferred device lacks it */
    PLAIT_CAUSE_READERS,     /* a weight or state: its readers run there */
    PLAIT_CAUSE_COPY         /* a copy that planning inserted, for a reader that takes dense operands only */
} plait_cause;

/* One copy of a weight, or a state, on one device. */
typedef struct plait_resident {
    const char *name; /* a copy in `strings` of the residence */
    plait_storage_kind kind;
    plait_operand shape;
    int device;
    plait_cause cause;
    plait_encoding encoding;
    char encoding_name[32];
    uint64_t size_bytes, alignment; /* in that encoding */
    uint32_t slot;                  /* packed weights share slots, one in file form has its own */
    uint64_t offset;
    bool mapped;   /* a weight used where the source has it */
    int32_t next;  /* the entry of the same name on another device, -1: none */
    int32_t block; /* -1: none */
} plait_resident;

/* What of the residence is on one device. Filled by assign_slots() in residence.c; buffers by loading. */
typedef struct plait_residence_device {
    plait_buffer **weights; /* [n_weights] owned buffers of slot PLAIT_SLOT_WEIGHTS + i; NULL until loaded */
    uint64_t *weight_bytes; /* [n_weights] their sizes, known from the start */
    size_t n_weights;
    uint64_t private_bytes, mapped_bytes, state_bytes;
    uint64_t
        taken_bytes; /* of the device's memory for weights and state, the padding of their buffers included */
} plait_residence_device;

/* A block of the model (number -1: what stands before or behind all blocks) and where it lives. Where there are very many,
 * neighbours go together under the number of the first. */
typedef struct plait_residence_block {
    int32_t number;
    int n_blocks; /* 0 for number -1 */
    int device;
    plait_cause cause;
    uint64_t bytes; /* weights and state that only it uses */
    double
        *ns; /* [device] predicted over the steps of a typical use; what the device lacks is done elsewhere */
} plait_residence_block;

/* Where the storages of a graph are among the entries: names are looked up once for all plans. */
typedef struct plait_residence_index {
    const plait_graph *graph; /* Borrowed: it outlives the residence. */
    uint32_t *first;          /* [storage] its first entry + 1, 0: none */
} plait_residence_index;

/* Immutable once it is loaded, but for plait_residence_write_weight. Shared by plans, states and caches through its
 * references. */
struct plait_residence {
    atomic_int references;
    plait_context *context;
    plait_arena strings;
    plait_pin *pins;
    int n_pins;
    bool no_packing, loaded;
    plait_resident *entries;
    size_t n_entries, entry_capacity;
    plait_map names;                /* name -> its first entry */
    plait_residence_index *indices; /* of the graphs that it was made for */
    int n_indices;
    plait_residence_device *devices; /* one a device of the context */
    /* Of several devices: blocks in order of their numbers, what stands before all first, what stands behind last. */
    plait_residence_block *blocks;
    size_t n_blocks;
    double *asked;                         /* [device] shares, NULL without ratio */
    uint64_t idle;                         /* devices of share 0 */
    uint64_t *budget_bytes, *margin_bytes; /* [device] what may be taken; what is left free beside it */
    bool own_budgets; /* the caller gave each device its own; else host memory is shared */
};

/* What is on the devices: budgets of memory, from the options or from what is free now less a margin. Temporaries of
 * earlier plans are there already, and the arena in which they lie will serve the coming ones as well. */
plait_status plait_residence_find_budgets(plait_residence *residence, const plait_residence_options *options);
/* "22.1 GiB beside a margin of 1.00 GiB": of a device. */
void plait_residence_say_budget(const plait_residence *residence, int device, plait_strbuf *text);
/* Whether two residences of one context put the same things into the same places. */
bool plait_residence_same(const plait_residence *a, const plait_residence *b);

/* The entry of a weight or state on a device, or NULL. device -1: on any. */
plait_resident *plait_residence_find(const plait_residence *residence, const char *name, int device);
/* The index of a graph that the residence was made for, or NULL. */
const uint32_t *plait_residence_index_of(const plait_residence *residence, const plait_graph *graph);
/* Allocates every weight, zeroed, for a residence without a source; and writes one of them, on all its devices. */
plait_status plait_residence_load_zeros(plait_residence *residence);
plait_status plait_residence_write_weight(plait_residence *residence, const char *name, const void *bytes,
                                          uint64_t size_bytes);
/* Writes a form into an entry. */
void plait_residence_set_form(plait_resident *entry, const plait_encoding_offer *form);
/* Encodings of all weights of a single device, from what every reader in all graphs needs (encode.c). */
plait_status plait_residence_choose_encodings(plait_residence *residence);
/* The first pin that matches the name or the block's (-1: none): its device, and its place in the list; or -1. */
int plait_residence_pin(const plait_residence *residence, const char *name, int32_t block, int *out_rank);
/* The device of a block, or of the one before it where the residence knows no such block; -1: it knows none. */
int plait_residence_block_device(const plait_residence *residence, int32_t block);
/* INVALID_ARGUMENT when a storage of a graph has another kind, type or shape than the same name elsewhere. */
plait_status plait_residence_check_same(plait_storage_kind kind, const plait_operand *shape,
                                        const plait_graph *graph, uint32_t storage);
/* Adds an entry, in the given form: no entry for the same name on the same device exists. */
plait_status plait_residence_add(plait_residence *residence, const plait_graph_storage *row,
                                 const plait_operand *shape, int device, const plait_encoding_offer *form,
                                 plait_cause cause);
/* Decides all entries for a context of several devices (spread.c). */
plait_status plait_residence_spread(plait_residence *residence, const plait_graph *const *graphs,
                                    int n_graphs, const plait_residence_options *options);
/* The form that a device likes best for a stored value that these readers have; file form for none, for state, and when
 * the residence does not pack (encode.c). */
enum { PLAIT_MAX_READERS = 64 };
plait_status plait_encode_offer(const plait_residence *residence, int device, const plait_graph_storage *row,
                                const plait_operand *shape, const struct plait_weight_reader *readers,
                                int n_readers, plait_encoding_offer *out);
/* The error of a node that no device runs: node, op, shapes, types, and each device's reason (place.c). */
plait_status plait_place_nobody(const plait_context *context, const plait_graph *graph, uint32_t node,
                                const plait_plan *bound);

/* Buffers of all states of a session. Whoever runs a plan with it has it alone meanwhile. */
struct plait_session_state {
    plait_residence *residence; /* Retained. */
    plait_buffer **buffers;     /* one a device of the context; NULL where there is no state */
};

/* ---- plan ---- */

/* An instance of a storage on a device. */
typedef struct plait_plan_value {
    uint32_t storage;
    int device;
    uint32_t slot;
    int32_t held_until;          /* last position for which another queue needs its bytes, -1: none does */
    uint64_t offset, size_bytes; /* size aligned to the device's alignment */
    plait_encoding encoding;
    /* Positions of the device's launches between which its bytes belong to it, both included (order.c). What another
     * queue does to the value lies between them too: memory whose positions do not meet is never used at one time. */
    int32_t first, last;
    uint32_t alias; /* value whose bytes it takes over (shared pair), or itself */
    bool elided;    /* exists only inside a fused group */
    bool is_output; /* read by the host at the end */
    bool arrives;   /* comes by a transfer */
    bool held;      /* read after the launch in which `last` lies: nobody takes over its bytes there */
    bool came;      /* another queue had written it before a launch touched it: `first` is of that */
} plait_plan_value;

/* Where a node runs. Written by place.c and moves.c, carried over to the plan's own graph by copies.c. */
typedef struct plait_placement {
    int device;
    plait_cause cause;
    const char *reason; /* why the preferred device was not taken; "" otherwise. In the plan's arena */
} plait_placement;

/* What a command does. `item` is an index in the plan's table for that kind. */
typedef enum plait_step_kind {
    PLAIT_STEP_WRITE_INPUT, /* the host's bytes -> SLOT_INPUTS of a device; `item`: index in inputs */
    PLAIT_STEP_LAUNCH,      /* `item`: segment */
    PLAIT_STEP_MOVE,        /* value -> value of another device, directly; `item`: transfer */
    PLAIT_STEP_SEND,        /* value -> staging, on the source's queue; `item`: transfer */
    PLAIT_STEP_RECEIVE,     /* staging -> value, on the target's queue; `item`: transfer */
    PLAIT_STEP_READ_OUTPUT  /* value -> host staging; `item`: index in outputs */
} plait_step_kind;

/* One command of a step; the list of them is in an order that respects all dependencies. Each queue takes its own in
 * the order of the list; between queues only waits hold. */
typedef struct plait_plan_step {
    plait_step_kind kind;
    int device;     /* whose queue */
    uint32_t queue; /* in `queues` of the plan */
    uint32_t item;
    uint32_t first_wait, n_waits; /* in `waits`; done before the command begins */
    uint32_t signal;  /* which of its queue's signals comes behind it, from 1; 0: nobody waits for it */
    int32_t position; /* of a launch: its first position in the device's order, one for each group */
} plait_plan_step;

/* For a step on another queue: of this step of the run, or of the one before. */
typedef struct plait_plan_wait {
    uint32_t step;
    bool before; /* of the step before */
} plait_plan_wait;

/* A queue of the context, as the plan uses it: number k of device d is entry d * PLAIT_DEVICE_QUEUES + k. */
typedef struct plait_plan_queue {
    uint32_t n_steps, n_signals; /* the last step signals always: hand-over to other plans waits for it */
    bool awaited;                /* the end of the step is reached when all such queues have ended */
    uint64_t touches;            /* devices whose memory its commands read or write, a bit each */
} plait_plan_queue;

/* A run of neighbouring nodes of one device. segment.c makes nodes and operands, prepare.c the device's answer,
 * reorder.c may change the order of its groups, memory.c gives scratch a place, compile.c makes the program. */
typedef struct plait_plan_segment {
    int device;
    uint32_t first_node, n_nodes;
    plait_segment_node *nodes;       /* in the plan's arena */
    plait_segment_operand *operands; /* of all its nodes, one node's inputs and outputs after the other's */
    size_t n_operands;
    plait_segment segment;
    plait_prepared prepared;
    bool is_prepared;
    plait_program *program; /* Owned. */
} plait_plan_segment;

/* What a transfer moves of its storage: a range of bytes, or rows in up to four levels (transfer.c). */
typedef struct plait_plan_part {
    uint64_t begin, end; /* first byte and one past the last, at the bounds of the dims */
    int n_levels;        /* 0: all bytes of the range that the storage has at the current dims */
    /* Node + 1 that has written rows, 0: none. Then what moves is a part as the levels say for each id of its rows operand,
     * which the host knows when a step begins: n_rows at the bounds. */
    uint32_t rows_node;
    int64_t n_rows;
    int bounded; /* level whose count follows `outer`; PLAIT_PART_ROW: the row's length; -1: none */
    uint64_t row_bytes;
    plait_extent outer;
    struct plait_part_level {
        int64_t count;
        uint64_t pitch; /* bytes; levels go outwards, each steps over all of the one before */
    } levels[PLAIT_MAX_RANK];
} plait_plan_part;
enum { PLAIT_PART_ROW = PLAIT_MAX_RANK };

/* How the bytes go, cheapest first. */
typedef enum plait_route {
    PLAIT_ROUTE_COPY,  /* one COPY: a queue reaches both memories */
    PLAIT_ROUTE_WRITE, /* one WRITE on the target's queue: the source is mapped for the host */
    PLAIT_ROUTE_READ,  /* one READ on the source's queue: the target is mapped */
    PLAIT_ROUTE_STAGED /* a READ to the run's staging and a WRITE from there */
} plait_route;

/* Bytes of a storage on their way from its instance on one device to that on another; one MOVE, or a SEND and a
 * RECEIVE. */
typedef struct plait_plan_transfer {
    uint32_t source, target; /* values */
    plait_route route;
    plait_plan_part part;    /* the same place in both */
    uint64_t size_bytes;     /* moved at the bounds */
    uint64_t staging_offset; /* in the run's staging of transfers; rows lie without gaps there */
    uint64_t staging_bytes;
} plait_plan_transfer;

/* An input on a device that reads it. The host writes an input once: where a device has it, if that device is mapped
 * (`home` is that entry, for all entries of the input), or to staging; other entries get it by a command. */
typedef struct plait_plan_input {
    uint32_t storage;
    int device; /* -1, and no value: nothing reads it */
    uint32_t value;
    uint32_t home;        /* entry where the host writes it; PLAIT_NO_SLOT: in staging */
    uint64_t host_offset; /* in the run's input staging, when it is written there */
} plait_plan_input;

/* A tensor that the host may read after the step: `size_bytes` at the bounds, from `source_offset` in the value, to
 * `host_offset` in the run's staging of outputs. */
typedef struct plait_plan_output {
    uint32_t output; /* index in the graph's outputs */
    uint32_t value;
    uint64_t host_offset, size_bytes, source_offset;
} plait_plan_output;

/* Sizes of what the plan takes on a device: the arena, its lower bound, inputs of one step; and how many groups it
 * launches. */
typedef struct plait_plan_device {
    uint64_t arena_bytes, bound_bytes, input_bytes;
    int32_t n_positions;
    int32_t bound_position; /* where the bound is reached */
} plait_plan_device;

/* The passes in the order in which make.c runs them, for the time that each took. */
typedef enum plait_plan_pass {
    PLAIT_PASS_PLACE,
    PLAIT_PASS_SEGMENT,
    PLAIT_PASS_PREPARE, /* the devices' work, as is COMPILE */
    PLAIT_PASS_LIVES,
    PLAIT_PASS_REORDER,
    PLAIT_PASS_MEMORY,
    PLAIT_PASS_ORDER,
    PLAIT_PASS_VERIFY,
    PLAIT_PASS_COMPILE,
    PLAIT_PASS_ARENA, /* making room in the context */
    PLAIT_PASS_COUNT
} plait_plan_pass;

/* Tables that passes fill, in the plan's arena; nothing in it changes once it is made. They refer to one another by index,
 * so that growing one breaks no other. */
struct plait_plan {
    atomic_int references;
    plait_context *context;
    const plait_graph *source; /* Retained: as the caller gave it. */
    const plait_graph
        *graph; /* Retained: what runs, which is `source` or, with copies of operands, made from it. */
    plait_residence *residence; /* Retained. */
    bool own_residence, exact;
    const char *name;
    plait_arena arena; /* everything below */
    int64_t *bounds;
    plait_placement *placements; /* a node */
    uint32_t
        *origins; /* [node] its number in `source`, beyond those for inserted copies; NULL: there are none */
    const plait_resident **residents; /* [storage] its first entry in the residence; NULL: there is none */
    /* Of several devices: their figures, and what every node would take on each of them (weigh.h). */
    plait_cost cost;
    struct plait_weighed *weighed;
    plait_expected_steps steps_expected;
    bool denied; /* while being made: a device refused an op, which is denied there now; worth another try */
    uint32_t *value_of; /* [device * n_storages + storage] -> value + 1, 0: not there */
    plait_plan_value *values;
    plait_plan_segment *segments;
    plait_plan_transfer *transfers;
    plait_plan_input *inputs;
    plait_plan_output *outputs;
    plait_plan_step *steps;
    plait_plan_wait *waits;
    plait_plan_queue *queues; /* n_devices * PLAIT_DEVICE_QUEUES */
    plait_plan_device *devices;
    size_t n_values, n_segments, n_transfers, n_inputs, n_outputs, n_steps, n_waits, n_queues;
    size_t value_capacity, segment_capacity, transfer_capacity, input_capacity, step_capacity;
    int depth; /* steps that may be in flight, and places of everything that is staged; 2 or more */
    uint64_t input_staging_bytes, output_staging_bytes, transfer_staging_bytes;
    plait_plan_facts facts;
    uint64_t pass_ns[PLAIT_PASS_COUNT];
};

/* What plait_plan_make does without and with a cache (cache.c). The graph is sealed. */
plait_status plait_plan_make_new(plait_plan **out, plait_context *context, const plait_graph *graph,
                                 const plait_plan_options *options);
plait_status plait_plan_cache_make(plait_plan_cache *cache, plait_plan **out, plait_context *context,
                                   const plait_graph *graph, const plait_plan_options *options);

/* The proof of a plan that was made without. */
plait_status plait_plan_prove(plait_plan *plan);
/* Programs and memory of a plan that was made dry. When a device refuses to compile, the context knows more of what is
 * denied afterwards, and another plan can be made. */
plait_status plait_plan_complete(plait_plan *plan);

/* Two steps in flight keep the host and one device busy at once; more are for pipelines of several devices. */
enum { PLAIT_PLAN_DEPTH = 2, PLAIT_PLAN_MAX_DEPTH = 16 };
/* Steps in flight that the options ask for. */
static inline int plait_plan_depth(const plait_plan_options *options) {
    return options && options->depth ? options->depth : PLAIT_PLAN_DEPTH;
}

/* Names are looked up once for all passes. */
void plait_plan_find_residents(plait_plan *plan);

/* The passes. */
plait_status plait_plan_place(plait_plan *plan);
plait_status plait_plan_segment_nodes(plait_plan *plan);
/* Every device's answer to its segments, checked: groups, values left out, scratch, pairs that may share bytes. */
plait_status plait_plan_prepare(plait_plan *plan);
/* How long each value needs its bytes, from the order of commands; positions of launches. */
plait_status plait_plan_find_lives(plait_plan *plan);
/* The same again where only the groups of this launch have other turns: in time proportional to the launch. */
void plait_plan_lives_of_launch(plait_plan *plan, const plait_plan_step *step);
/* Groups take other turns where that lowers the peak of memory (reorder.c); lives follow. */
plait_status plait_plan_reorder(plait_plan *plan);
plait_status plait_plan_assign_memory(plait_plan *plan);
/* Who waits for whom, from the bytes that commands touch: the least set of waits. */
plait_status plait_plan_order(plait_plan *plan);
/* Writes slots and offsets into the operands of all segments. */
void plait_plan_set_addresses(plait_plan *plan);
plait_status plait_plan_verify(const plait_plan *plan);
/* That what runs is the caller's graph, but for copies that hold what they stand for. */
plait_status plait_plan_verify_copies(const plait_plan *plan);
plait_status plait_plan_verify_queues(const plait_plan *plan);
plait_status plait_plan_verify_versions(const plait_plan *plan);
plait_status plait_plan_verify_staging(const plait_plan *plan);
plait_status plait_plan_compile(plait_plan *plan);
/* Called with the failure of a device to prepare or compile a segment: finds the op that it refuses, and denies it there
 * (`denied`). Returns the status with its message (deny.c). */
plait_status plait_plan_refused(plait_plan *plan, const plait_plan_segment *segment, bool compiling,
                                plait_status status);

/* ---- parts of storages (transfer.c) ---- */

/* The bytes [begin, end) of a storage. */
plait_plan_part plait_part_range(uint64_t begin, uint64_t end);
/* A tensor's elements, as rows where that moves clearly less than the range from first to last; `boxes`: rows cost no
 * command each. */
plait_plan_part plait_part_of_tensor(const plait_graph_tensor *tensor, bool boxes);
/* Bytes that move at the bounds; OUT_OF_RANGE never: a part is not larger than its storage. */
uint64_t plait_part_bytes(const plait_plan_part *part);
/* Commands that a part takes, at most: one for each box, or for each row. */
size_t plait_part_pieces(const plait_plan_part *part, bool boxes);
/* The i-th of them for the given values of the dims: its first byte in the storage and in dense staging, and its shape.
 * Source pitches are the storage's, target pitches those of staging. Counts are 0 for pieces that the dims leave out.
 * `storage_bytes`: what the storage has at these dims. */
void plait_part_piece(const plait_plan_part *part, bool boxes, size_t i, const int64_t *dims,
                      uint64_t storage_bytes, plait_box *out, uint64_t *out_offset,
                      uint64_t *out_staging_offset);
/* The rows that a node writes by ids of the host, if the op can tell them and it is worth it; false: move all. */
bool plait_part_of_rows(const plait_graph *graph, uint32_t node, plait_plan_part *out);
/* All pieces of such a part, at most plait_part_pieces: `use` is the node's at the current dims, with the ids. Fills boxes,
 * offsets in the storage and in dense staging; those that are not needed are empty. Rows next to each other are one. */
void plait_part_row_pieces(const plait_plan_part *part, bool boxes, const plait_op_use *use,
                           uint64_t tensor_offset, plait_box *out, uint64_t *out_offsets,
                           uint64_t *out_staging_offsets);
/* The cheapest way from one device to the other, and the queue that takes the only command (or the first of two). */
plait_route plait_transfer_route(const plait_context *context, int source, int target, uint32_t *out_queue);

/* The entry of a weight or state of the graph on a device, or NULL. device -1: the first. */
static inline const plait_resident *plait_plan_resident(const plait_plan *plan, uint32_t storage,
                                                        int device) {
    const plait_resident *entry = plan->residents[storage];
    while (entry && device >= 0 && entry->device != device)
        entry = entry->next < 0 ? NULL : &plan->residence->entries[entry->next];
    return entry;
}
/* Slots of a device, chunks of its arena included. */
static inline size_t plait_plan_slot_count(const plait_plan *plan, int device) {
    uint64_t chunk = plan->context->devices[device].chunk_bytes, bytes = plan->devices[device].arena_bytes;
    size_t more = chunk && bytes > chunk ? (size_t)((bytes - 1) / chunk) : 0;
    return PLAIT_SLOT_WEIGHTS + plan->residence->devices[device].n_weights + more;
}
/* Slot of a chunk. */
static inline uint32_t plait_plan_chunk_slot(const plait_plan *plan, int device, uint64_t chunk) {
    uint32_t first = PLAIT_SLOT_WEIGHTS + (uint32_t)plan->residence->devices[device].n_weights;
    return chunk == 0 ? PLAIT_SLOT_ARENA : first + (uint32_t)chunk - 1;
}
/* The slot and the offset in it of byte `*offset` of a slot of the tables. */
static inline void plait_plan_cut(const plait_plan *plan, int device, uint32_t *slot, uint64_t *offset) {
    uint64_t chunk = plan->context->devices[device].chunk_bytes;
    if (*slot != PLAIT_SLOT_ARENA || !chunk || *offset < chunk) return;
    *slot = plait_plan_chunk_slot(plan, device, *offset / chunk);
    *offset %= chunk;
}
/* And back: the byte of the arena; UINT64_MAX when the slot is none of its chunks. */
static inline uint64_t plait_plan_join(const plait_plan *plan, int device, uint32_t slot, uint64_t offset) {
    uint32_t first = PLAIT_SLOT_WEIGHTS + (uint32_t)plan->residence->devices[device].n_weights;
    uint64_t chunk = plan->context->devices[device].chunk_bytes;
    if (slot == PLAIT_SLOT_ARENA) return offset;
    if (slot < first || slot >= plait_plan_slot_count(plan, device)) return UINT64_MAX;
    return ((uint64_t)(slot - first) + 1) * chunk + offset;
}
/* The instance of a storage on a device, or NULL. */
plait_plan_value *plait_plan_value_on(const plait_plan *plan, uint32_t storage, int device);
/* Value ids in segments are indices in `values`; an operand's storage's instance on the segment's device. */
const char *plait_cause_text(plait_cause cause);

/* What is printed of a group: its work at the bounds, the bytes of weights that it reads, and its nodes'
 * names joined by '+'. */
double plait_plan_group_flop(const plait_plan *plan, const plait_plan_segment *segment,
                             const plait_group *group);
uint64_t plait_plan_group_weight_bytes(const plait_plan *plan, const plait_plan_segment *segment,
                                       const plait_group *group);
void plait_plan_print_members(const plait_plan_segment *segment, const plait_group *group, plait_strbuf *s);

#endif
