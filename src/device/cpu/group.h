/* Segments as the cpu device reads them, and groups of nodes that run as one.
 *
 * A group is one of three kinds, told by its members alone, so that compile finds again what prepare meant:
 *
 *   PARALLEL   nodes that do not depend on each other; their kernels' phases run side by side
 *   ROWS       nodes that work row by row, each on the row the one before it made; one phase
 *   PRODUCTS   rows, as above, then matrix products of one x, then what finishes them:
 *                phase 0: each row of the chain, and quantising of the row of x that came out of it
 *                phase 1: the rows of all products in one space of units; sums are stored through an added
 *                         residual or bias (add), or two products meet in a gate and never exist
 *
 * Invariant: a group gives the bytes that its nodes give one by one (law 9).
 */
#ifndef PLAIT_DEVICE_CPU_GROUP_H
#define PLAIT_DEVICE_CPU_GROUP_H

#include "base/arena.h"
#include "base/status.h"
#include "device/cpu/cpu.h"
#include "device/cpu/kernels.h"
#include "device/cpu/product.h"

/* ---- a segment, read ---- */

/* A value of the segment (what operands with equal value ids address). */
typedef struct plait_cpu_value {
    uint32_t id;
    int n_accesses; /* operands in the segment */
    bool needed;    /* outside of the segment, or it is no plain temporary */
    /* `elided` is set by prepare's choice, and by compile from what was prepared. */
    bool elided;         /* never exists in memory outside of its group's scratch */
    uint64_t span_bytes; /* from the storage's start to the last byte of any operand */
    uint64_t scratch;    /* offset in the group's scratch, when elided and still stored there */
    uint32_t skipped_read, skipped_written; /* stamps of prepare's scans */
    int group_accesses;                     /* counted by prepare, a group at a time */
} plait_cpu_value;

enum { PLAIT_CPU_MAX_OPERANDS = PLAIT_MAX_INPUTS + PLAIT_MAX_OUTPUTS };

typedef struct plait_cpu_reading {
    const plait_segment *segment;
    uint32_t features;
    int n_threads;
    plait_arena arena;                /* everything below */
    const plait_cpu_kernel **kernels; /* of each node */
    plait_cpu_value *values;          /* sorted by id */
    int n_values;
    plait_cpu_value **operand_values; /* PLAIT_CPU_MAX_OPERANDS a node; NULL: absent */
} plait_cpu_reading;

/* UNSUPPORTED names the node that no kernel takes. Deinit accepts a zeroed reading. */
plait_status plait_cpu_reading_init(plait_cpu_reading *reading, const plait_cpu_device *device,
                                    const plait_segment *segment);
void plait_cpu_reading_deinit(plait_cpu_reading *reading);

plait_cpu_value *plait_cpu_find_value(const plait_cpu_reading *reading, uint32_t id);
/* Operand k of a node, inputs first; whether it is one of the outputs; its value (NULL: absent). */
static inline const plait_segment_operand *plait_cpu_operand(const plait_segment_node *node, int k) {
    return k < PLAIT_MAX_INPUTS ? &node->inputs[k] : &node->outputs[k - PLAIT_MAX_INPUTS];
}
static inline bool plait_cpu_is_output(int k) {
    return k >= PLAIT_MAX_INPUTS;
}
static inline plait_cpu_value *plait_cpu_operand_value(const plait_cpu_reading *reading, int node, int k) {
    return reading->operand_values[(size_t)node * PLAIT_CPU_MAX_OPERANDS + (size_t)k];
}

/* The node as ops and kernels see it, at the bounds. */
void plait_cpu_node_use(const plait_segment_node *node, plait_op_use *out, plait_encoding *encodings);

/* True when both touch a value that one of them writes. */
bool plait_cpu_conflict(const plait_cpu_reading *reading, int a, int b);
/* True for operands at the same place with the same dims and strides. */
bool plait_cpu_same_operand(const plait_segment_operand *a, const plait_segment_operand *b);

/* ---- groups ---- */

typedef enum plait_cpu_group_kind {
    PLAIT_CPU_PARALLEL,
    PLAIT_CPU_ROWS,
    PLAIT_CPU_PRODUCTS
} plait_cpu_group_kind;

enum { PLAIT_CPU_MAX_MEMBERS = 48, PLAIT_CPU_MAX_PRODUCTS = 16 };

/* A product of the group: its node, and the node that finishes it. */
typedef struct plait_cpu_group_product {
    int node;
    int finish;    /* node, or -1 */
    int add_input; /* of an add: the input that joins the sums; -1 for a gate */
    int partner;   /* of a gate: the product of input 1; -1 for others, -2 for that product itself */
} plait_cpu_group_product;

typedef struct plait_cpu_group {
    plait_cpu_group_kind kind;
    int n;
    int members[PLAIT_CPU_MAX_MEMBERS]; /* rows, then products, then finishes */
    int n_rows, n_products;
    plait_cpu_group_product products[PLAIT_CPU_MAX_PRODUCTS];

    /* Scratch, by plait_cpu_group_place. */
    uint64_t scratch_bytes;
    uint64_t member_scratch[PLAIT_CPU_MAX_MEMBERS]; /* of kernels of a PARALLEL group */
    bool gathers, quantises;
    uint64_t input_area, thread_area, tiles;
    size_t thread_bytes;
    int64_t tile_floats;
} plait_cpu_group;

/* Sets kind, roles and products from the members. False when they are no group. */
bool plait_cpu_group_classify(const plait_cpu_reading *reading, plait_cpu_group *group);
/* Lays out the scratch, elided values included (their `elided` is set before). OUT_OF_RANGE on overflow. */
plait_status plait_cpu_group_place(const plait_cpu_reading *reading, plait_cpu_group *group);

/* True when the node's kernel is that of products. */
bool plait_cpu_is_product(const plait_cpu_reading *reading, int node);
/* Whether `finish` can finish products of the group (classified, or being built); fills *out for the product of
 * input 0 or of the added one, its number in *out_index. */
bool plait_cpu_can_finish(const plait_cpu_reading *reading, const plait_cpu_group *group, int finish,
                          int *out_index, plait_cpu_group_product *out);

#endif
