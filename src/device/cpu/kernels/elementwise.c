/* Kernels of unary and binary ops and gates: a unit is a piece of a row. Not here: the functions themselves (math.h,
 * elementwise.inc). Invariant: an element of the result depends on the same element of the inputs alone, so pieces,
 * rows and vectors do not show. */
#include "device/cpu/kernels/family.h"

/* Rows may lie anywhere, but are contiguous themselves. Which inputs may be of size 1 is the shape rule's affair. */
static bool elementwise_accepts(const plait_op_use *use, const plait_encoding *encodings, char *reason,
                                size_t reason_bytes) {
    (void)encodings;
    return plait_cpu_rows_accepted(use, reason, reason_bytes);
}

static int64_t elementwise_units(const plait_cpu_call *call, int phase) {
    /* A row of no elements has no pieces, so no units. */
    const plait_operand *y = &call->use.outputs[0];
    (void)phase;
    return plait_cpu_pieces(y) * plait_cpu_row_count(y);
}

/* n elements of the row at `at`, from element `from` on. */
typedef void piece_fn(const plait_cpu_call *call, const plait_cpu_simd *simd, plait_cpu_place at,
                      int64_t from, int64_t n);

/* Attributes are float64 in the graph and float32 from here on. */
static void unary_piece(const plait_cpu_call *call, const plait_cpu_simd *simd, plait_cpu_place at,
                        int64_t from, int64_t n) {
    const plait_op_use *use = &call->use;
    plait_cpu_unary_function f = PLAIT_CPU_SILU;
    float a = 1.0f;
    switch ((int)use->op->id) {
    case PLAIT_OP_gelu: f = PLAIT_CPU_GELU; break;
    case PLAIT_OP_relu: f = PLAIT_CPU_RELU; break;
    case PLAIT_OP_sigmoid: f = PLAIT_CPU_SIGMOID; break;
    case PLAIT_OP_tanh: f = PLAIT_CPU_TANH; break;
    case PLAIT_OP_scale:
        f = PLAIT_CPU_SCALE;
        a = (float)use->attrs[PLAIT_SCALE_FACTOR].f;
        break;
    case PLAIT_OP_softcap:
        f = PLAIT_CPU_SOFTCAP;
        a = (float)use->attrs[PLAIT_SOFTCAP_CAP].f;
        break;
    default: break;
    }
    simd->unary(f, a, (const float *)plait_cpu_row_at(&use->inputs[0], at) + from, n,
                (float *)plait_cpu_row_at(&use->outputs[0], at) + from);
}

/* The second input may have dims of size 1, which serve all: along dim 0 by a step of 0, along the others by the row
 * that is read. */
static void binary_piece(const plait_cpu_call *call, const plait_cpu_simd *simd, plait_cpu_place at,
                         int64_t from, int64_t n) {
    const plait_op_use *use = &call->use;
    const plait_operand *b = &use->inputs[1];
    plait_cpu_binary_function f = PLAIT_CPU_PLUS;
    /* The first of the functions is what no case names; the table below has no op but these. */
    switch ((int)use->op->id) {
    case PLAIT_OP_sub: f = PLAIT_CPU_MINUS; break;
    case PLAIT_OP_mul: f = PLAIT_CPU_TIMES; break;
    case PLAIT_OP_div: f = PLAIT_CPU_OVER; break;
    case PLAIT_OP_swiglu: f = PLAIT_CPU_SWIGLU; break;
    case PLAIT_OP_geglu: f = PLAIT_CPU_GEGLU; break;
    default: break;
    }
    plait_cpu_place right = {b->dims[1] == 1 ? 0 : at.i1, b->dims[2] == 1 ? 0 : at.i2,
                             b->dims[3] == 1 ? 0 : at.i3};
    int64_t step = b->dims[0] == 1 ? 0 : 1;
    simd->binary(f, (const float *)plait_cpu_row_at(&use->inputs[0], at) + from,
                 (const float *)plait_cpu_row_at(b, right) + step * from, step, n,
                 (float *)plait_cpu_row_at(&use->outputs[0], at) + from);
}

/* Units [begin, end): pieces of rows, those of a row in turn. The place of the first one is found by division, later
 * ones by counting: rows are often shorter than a division takes. */
static void pieces_do(const plait_cpu_call *call, piece_fn *piece, int64_t begin, int64_t end) {
    const plait_operand *y = &call->use.outputs[0];
    const plait_cpu_simd *simd = plait_cpu_simd_for(call->features);
    int64_t pieces = plait_cpu_pieces(y);
    if (begin >= end) return;
    plait_cpu_place at = plait_cpu_place_of(y, begin / pieces);
    int64_t number = begin % pieces;
    for (int64_t unit = begin; unit < end; unit++) {
        int64_t from = number * PLAIT_CPU_PIECE;
        piece(call, simd, at, from, plait_min_i64(PLAIT_CPU_PIECE, y->dims[0] - from));
        if (++number < pieces) continue;
        number = 0;
        plait_cpu_place_next(y, &at);
    }
}

static void unary_run(const plait_cpu_call *call, int phase, int64_t begin, int64_t end, int thread) {
    (void)phase, (void)thread;
    pieces_do(call, unary_piece, begin, end);
}
static void binary_run(const plait_cpu_call *call, int phase, int64_t begin, int64_t end, int thread) {
    (void)phase, (void)thread;
    pieces_do(call, binary_piece, begin, end);
}

/* The same work by rows: all pieces of each, in the numbering of units. */
static void unary_rows(const plait_cpu_call *call, int64_t begin, int64_t end) {
    int64_t pieces = plait_cpu_pieces(&call->use.outputs[0]);
    pieces_do(call, unary_piece, begin * pieces, end * pieces);
}
static void binary_rows(const plait_cpu_call *call, int64_t begin, int64_t end) {
    int64_t pieces = plait_cpu_pieces(&call->use.outputs[0]);
    pieces_do(call, binary_piece, begin * pieces, end * pieces);
}

#define ELEMENTWISE(op_name, kind)                                                                           \
    {                                                                                                        \
        .op = PLAIT_OP_##op_name, .name = #op_name, .n_phases = 1, .accepts = elementwise_accepts,           \
        .units = elementwise_units, .run = kind##_run, .run_rows = kind##_rows                               \
    }

const plait_cpu_kernel plait_cpu_elementwise_kernels[] = {
    ELEMENTWISE(silu, unary),    ELEMENTWISE(gelu, unary), ELEMENTWISE(relu, unary),
    ELEMENTWISE(sigmoid, unary), ELEMENTWISE(tanh, unary), ELEMENTWISE(scale, unary),
    ELEMENTWISE(softcap, unary), ELEMENTWISE(add, binary), ELEMENTWISE(sub, binary),
    ELEMENTWISE(mul, binary),    ELEMENTWISE(div, binary), ELEMENTWISE(swiglu, binary),
    ELEMENTWISE(geglu, binary),  {.name = NULL},
};
