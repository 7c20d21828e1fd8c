/* Ops: what a node of a graph can be. One descriptor an op says everything that does not depend on a device:
 * inputs, attributes, dtype rules, shapes, factors (which dims are the same index), what it writes, and a plain
 * reference kernel, the definition of right. Graph, planner, sharding, conformance and benchmarks read these
 * descriptors; nothing about an op is written down anywhere else but in the kernel tables of devices.
 *
 * This is one of the three headers for those who write a device (with device.h and conformance.h). Structs that
 * cross that border start with a version or size; fields are only ever added at their end.
 */
#ifndef PLAIT_OP_H
#define PLAIT_OP_H

#include "plait/types.h"

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The list of ops, one line each (see ops.inc): enum values in list order. Numbers shift when the list changes: they
 * are never written to files, names are. */
typedef enum plait_op_id {
#define PLAIT_OP(name, sugar) PLAIT_OP_##name,
#include "plait/ops.inc"
#undef PLAIT_OP
    PLAIT_OP_COUNT
} plait_op_id;

/* Bounds of every op, so that a use is a plain struct that needs no allocation. A descriptor that exceeds one does not
 * compile or fails a test; raise the number then. */
#define PLAIT_MAX_INPUTS  10
#define PLAIT_MAX_OUTPUTS 3
#define PLAIT_MAX_ATTRS   14
#define PLAIT_MAX_FACTORS 12

/* A tensor as shape rules and kernels see it. Dims beyond the rank are 1. Strides are bytes between neighbours
 * along a dim; strides[0] is the bytes of one block (one element for plain types) when dim 0 is dense. A tensor
 * of a quantised type always has dense dim 0. Elements i0..i3 lie at data + sum of i_d * strides[d], for
 * quantised types with the block number i0 / block_elems in place of i0. */
typedef struct plait_operand {
    plait_dtype dtype;
    int64_t dims[PLAIT_MAX_RANK];
    int64_t strides[PLAIT_MAX_RANK];
    void *data; /* NULL while only shapes are known */
} plait_operand;

/* Kinds of attribute. */
typedef enum plait_attr_kind {
    PLAIT_ATTR_INT,   /* int64 */
    PLAIT_ATTR_FLOAT, /* double in text, used as float32 or double as the op says */
    PLAIT_ATTR_BOOL,  /* int64 0 or 1, printed false or true */
    PLAIT_ATTR_DTYPE  /* int64 holding a plait_dtype, printed as its name */
} plait_attr_kind;

/* Which member counts follows from the kind: f for FLOAT, i for all others. Equal attributes have equal bytes, since
 * unused ones are zero. */
typedef union plait_attr {
    int64_t i;
    double f;
} plait_attr;

/* One attribute of an op: its place in plait_op_use.attrs is its place in the descriptor's list. */
typedef struct plait_attr_row {
    const char *name;
    plait_attr_kind kind;
    plait_attr initial; /* value when the builder does not give one */
    bool required;      /* the builder must give one */
    const char *doc;
} plait_attr_row;

typedef struct plait_op plait_op;

/* One use of an op, with the shapes (and, when a kernel runs, the data) of its operands. Optional inputs that
 * are absent have their bit clear in `present`. Dims are bounds while a graph is built and planned, and the
 * actual values when a kernel runs. */
typedef struct plait_op_use {
    const plait_op *op;
    int n_inputs, n_outputs;
    uint32_t present; /* bit i: input i is there */
    plait_operand inputs[PLAIT_MAX_INPUTS];
    plait_operand outputs[PLAIT_MAX_OUTPUTS];
    plait_attr attrs[PLAIT_MAX_ATTRS];
    /* Where a kernel that meets an id made on a device outside its range stores 1 (it then reads zeros and
     * writes nothing for that id). NULL while shapes are inferred. Borrowed. */
    uint32_t *error_word;
} plait_op_use;

/* True when input i is there. Inputs beyond n_inputs are absent. */
static inline bool plait_op_has(const plait_op_use *use, int input) {
    return input < use->n_inputs && (use->present >> input & 1u);
}

/* How an op treats an index (factor) that its dims share. */
typedef enum plait_factor_kind {
    PLAIT_FACTOR_FREE, /* in the output: slices of it are computed independently */
    PLAIT_FACTOR_SUM,  /* summed over: slices give partial results that add up */
    PLAIT_FACTOR_MERGE, /* slices give partials of a named kind that merge by a rule (softmax, argmax, top_k) */
    PLAIT_FACTOR_INDEXED, /* chosen by ids in an operand: a slice without the id contributes nothing */
    PLAIT_FACTOR_ORDERED, /* a scan: slices must be taken in order, state handed on */
    PLAIT_FACTOR_WHOLE    /* needed whole */
} plait_factor_kind;

/* One index of the factor text, by its name there. */
typedef struct plait_factor {
    char name[16];
    plait_factor_kind kind;
    char rule[16];     /* merge rule, or name of the operand that holds the ids */
    bool global_start; /* '@': the kernel is told where its slice starts (attribute "start_NAME") */
} plait_factor;

/* A dim is a product of factors, fastest first: (g h) means index = g + h * size(g). Sizes multiply to that of the dim.
 * n == 0: the dim is 1 in every use. */
typedef struct plait_factor_dim {
    uint8_t n;
    uint8_t factors[4];
    bool may_be_one; /* written with '?': size 1 serves every index of its one factor */
} plait_factor_dim;

/* The dims of one operand, in factors by their place in plait_factors.factors; dims from `rank` on are 1. */
typedef struct plait_factor_operand {
    char name[16];
    bool optional; /* written with '?': the input may be absent */
    uint8_t rank;
    plait_factor_dim dims[PLAIT_MAX_RANK];
} plait_factor_operand;

/* The parsed form of a descriptor's factor text. A plain value, without pointers. */
typedef struct plait_factors {
    int n_factors, n_inputs, n_outputs;
    plait_factor factors[PLAIT_MAX_FACTORS];
    plait_factor_operand inputs[PLAIT_MAX_INPUTS];
    plait_factor_operand outputs[PLAIT_MAX_OUTPUTS];
} plait_factors;

/* Which part of an input's storage an op that writes in place may touch. */
typedef enum plait_write_part {
    PLAIT_WRITES_NOTHING,
    PLAIT_WRITES_ALL, /* any byte of the operand */
    PLAIT_WRITES_ROWS /* the rows named by run-time operand `rows_input`; to a verifier this is all */
} plait_write_part;

/* Forward declaration of the table of builder calls through which an op states its gradient; graph/ fills it. */
typedef struct plait_gradient_builder plait_gradient_builder;

/* The descriptor: one const object an op, at the end of its family's file in src/op. Constant and immortal; kept by
 * pointer everywhere, and compared by pointer. */
struct plait_op {
    size_t struct_bytes; /* sizeof(plait_op) of whoever made it */
    plait_op_id id;
    const char *name; /* lower case, the field's own word */
    const char *doc;  /* one line: the formula */

    /* Operand names and sharing of indices: "w[k,m] x[k,n] -> y[m,n]; k: sum". Inputs with '?' are optional.
     * Grammar, in order: INPUT... -> OUTPUT... [; FACTOR: KIND[(RULE)][@] , ...]. Factors that are in an output
     * are free and others whole unless said otherwise. "..." dims are not allowed: give all four. A dim of size
     * 1 where its factor is larger is broadcast: in elementwise ops any, elsewhere those written "x[k,u?,n]". */
    const char *factors;

    const plait_attr_row *attrs;
    int n_attrs;

    /* Checks dtypes, shapes and attributes of the inputs and fills outputs (dtype, dims; strides are made dense
     * by the caller). Errors say which operand, expected and actual; the caller puts node and op in front. */
    plait_status (*shape)(plait_op_use *use);

    /* In-place writing: output 0 is the storage of input `writes_input` (-1: none), written as `write_part`. */
    int writes_input;
    plait_write_part write_part;
    int rows_input; /* for PLAIT_WRITES_ROWS; otherwise -1 */

    uint32_t
        runtime_inputs; /* bit i: input i holds ids, lengths or positions that a kernel reads as control */

    /* Bit i: output 0 may lie in the same bytes as input i, when both have equal dtype, dims and strides: the
     * op reads element e of that input no later than it writes element e of the output. */
    uint32_t in_place_inputs;

    /* Bytes of scratch that the reference kernel needs for these shapes (0 when NULL). */
    size_t (*reference_scratch)(const plait_op_use *use);
    /* The definition of right: float32 in and out, float64 accumulation, any strides, any dtype. */
    void (*reference)(const plait_op_use *use, void *scratch);

    /* Adds the nodes of the gradient; NULL when the op has none. */
    plait_status (*gradient)(const plait_gradient_builder *builder, const plait_op_use *use);

    /* Floating-point operations for these shapes; NULL: one for each output element. */
    double (*flop)(const plait_op_use *use);

    /* Fills `use` with the case'th example of operands for tests and benchmarks: dtypes, dims, strides and
     * attributes of inputs (no data; some inputs are views). Returns false when there are no more cases. Every op
     * has at least two. */
    bool (*example)(int which, plait_op_use *use);
    /* Fills the run-time operands (ids, positions, tables) of an example, whose data pointers are set, with
     * valid values; other inputs are filled with random numbers by the caller. NULL: no run-time operand. */
    void (*example_data)(int which, plait_op_use *use);

    /* Bytes that must move for these shapes; NULL: every operand once, of what ids choose from as much as they can name. */
    double (*bytes)(const plait_op_use *use);

    /* Checks the ids, positions and tables that the host gave for the coming step: run-time inputs whose data is
     * set, at their actual dims; the others' data is NULL. OUT_OF_RANGE names operand, index, value and range.
     * NULL: nothing to check. */
    plait_status (*check_runtime)(const plait_op_use *use);

    /* Error bounds, by type and length: how far each element of output o of a device may lie from what the reference
     * kernel computes in float64, for these operands (inputs before the op ran). Fills limits[] in the order of
     * the output's dims, dim 0 fastest; scratch as for the reference kernel. The bound covers other orders of
     * summation, approximated functions, and activations that are rounded to the precision of the weights they meet
     * (8 bits for each 32 elements where those are quantised). NULL: the same numbers. */
    void (*tolerance)(const plait_op_use *use, int output, double *limits, void *scratch);

    /* For PLAIT_WRITES_ROWS: the part of output 0 that is written for an id of operand `rows_input`: whole rows, at
     * *out_offset bytes from its first one. Dims and strides of *out are the same for every id, and are set always; false:
     * nothing is written for it. NULL: it cannot be told. */
    bool (*rows_part)(const plait_op_use *use, int64_t id, plait_operand *out, uint64_t *out_offset);
};

/* The descriptor of an id (never NULL for id < PLAIT_OP_COUNT), or by name (NULL when unknown). */
const plait_op *plait_op_get(plait_op_id id);
const plait_op *plait_op_find(const char *name);

/* Zeroes `use`, sets its op and gives every attribute its initial value. Required attributes are 0 until the caller
 * sets them. `present` is 0, too. */
void plait_op_use_init(plait_op_use *use, const plait_op *op);

/* Place of the attribute in the op's list, or -1. */
int plait_op_attr_index(const plait_op *op, const char *name);

/* Parses the factor text of an op. CORRUPT with the place of the mistake otherwise; the built-in ops never
 * fail (a test parses all). No allocation; any thread. */
plait_status plait_op_factors(const plait_op *op, plait_factors *out);

/* Size of each factor for the shapes of a use (outputs included). INVALID_ARGUMENT when two operands disagree.
 * A broadcast dim does not count; a factor of absent inputs only has size 0. out_sizes has PLAIT_MAX_FACTORS
 * entries. */
plait_status plait_op_factor_sizes(const plait_op_use *use, const plait_factors *factors, int64_t *out_sizes);

/* Most elements of one operand (dims of size 0 counted as 1), so that later arithmetic cannot overflow. 2^48:
 * times the bytes of an element that stays far below 2^63. */
#define PLAIT_MAX_ELEMS ((int64_t)1 << 48)

/* Infers outputs of a use whose inputs, attrs and present are set: checks them, runs the op's shape rule, sets
 * n_outputs, dense strides (an output written in place takes those of the input) and NULL data. Messages are
 * prefixed with the op's name. On failure `use` is unchanged. */
plait_status plait_op_infer(plait_op_use *use);

/* Floating-point operations and bytes that must move (operands read once, outputs written once; a lookup or an in-place
 * row write counts only the rows it touches). Estimates for planning and reports, never used for memory: a double may
 * round where a size must not. Dims are those of the use, bounds or actual values. */
double plait_op_flop(const plait_op_use *use);
double plait_op_bytes(const plait_op_use *use);

/* The op's error bounds for one output, zeros where it has none: see plait_op.tolerance. `limits` has room for every
 * element of the output, `scratch` is as the reference kernel wants it. */
void plait_op_tolerance(const plait_op_use *use, int output, double *limits, void *scratch);

/* Helpers for whoever handles operands. Elements (-1 on overflow or a negative dim); dense strides for the dims
 * (false when dim 0 is no whole number of blocks or a stride overflows); whether the strides are dense (those of
 * dims of size 1 do not matter); bytes from the first element to one past the last (0 when there is none, -1 on
 * overflow, negative strides, or a dim 0 that is no whole number of blocks). */
int64_t plait_operand_elems(const plait_operand *operand);
bool plait_operand_make_dense(plait_operand *operand);
bool plait_operand_is_dense(const plait_operand *operand);
int64_t plait_operand_span_bytes(const plait_operand *operand);

#ifdef __cplusplus
}
#endif
#endif
