/* matmul: the matrix product of weights of any type with float32 activations; expert_matmul: the same with one of several
 * matrices, chosen by an id for each column. Rows of w are the output's dim 0, as in GGUF files, so both operands are read
 * along their contiguous dim.
 *
 * Not here: batches (a third dim is a view or another node) and activations of other types; devices may quantise
 * x on the way, the definition does not. Invariant: each output element is one sum over k, from 0 up, in float64. */
#include "base/size.h"
#include "op/attrs.h"
#include "op/example.h"
#include "op/reference.h"
#include "op/runtime.h"
#include "op/shape.h"
#include "op/tolerance.h"

static plait_status matmul_shape(plait_op_use *use) {
    PLAIT_TRY(plait_shape_float(use, 0));
    PLAIT_TRY(plait_shape_dtype(use, 1, PLAIT_F32));
    return plait_shape_by_factors(use);
}

/* One decoded row of w. */
static size_t matmul_scratch(const plait_op_use *use) {
    return (size_t)use->inputs[0].dims[0] * sizeof(float);
}

/* Rows of w outside, so that each is decoded once. */
static void matmul_reference(const plait_op_use *use, void *scratch) {
    const plait_operand *w = &use->inputs[0], *x = &use->inputs[1], *y = &use->outputs[0];
    float *row = scratch;
    for (int64_t m = 0; m < y->dims[0]; m++) {
        plait_ref_read_row(w, m, 0, 0, w->dims[0], row);
        for (int64_t n = 0; n < y->dims[1]; n++) {
            double sum = 0;
            for (int64_t k = 0; k < w->dims[0]; k++) sum += (double)row[k] * plait_ref_get(x, k, n, 0, 0);
            plait_ref_set(y, m, n, 0, 0, sum);
        }
    }
}

/* Largest deviation of an element of column (i1, i2) of x when each 32 of them are rounded to 8 bits with one scale; 0 where
 * that loses nothing. The scale of tiny ones is no normal number: they may become zero. */
static double short_deviation(const plait_operand *x, int64_t i1, int64_t i2) {
    double deviation = 0;
    for (int64_t begin = 0; begin < x->dims[0]; begin += 32) {
        double largest = 0, lost = 0;
        int64_t end = plait_min_i64(begin + 32, x->dims[0]);
        for (int64_t k = begin; k < end; k++) largest = fmax(largest, fabs(plait_ref_get(x, k, i1, i2, 0)));
        for (int64_t k = begin; k < end && largest > 0; k++) {
            double code = plait_ref_get(x, k, i1, i2, 0) / largest * 127;
            lost = fmax(lost, fabs(code - nearbyint(code)));
        }
        if (lost > 1e-3) deviation = fmax(deviation, largest / 120 / sqrt(12));
        if (largest < 0x1p-100) deviation = fmax(deviation, largest);
    }
    return deviation;
}

/* One sum of a decoded row of w and a column of x: float32, and x in the precision of w: rounded to its type, or to 8 bits
 * where w is quantised, which costs `deviation`. */
static double sum_tolerance(const plait_operand *w, const float *row, const plait_operand *x, int64_t i1,
                            int64_t i2, double deviation) {
    double size = 0, square = 0, weights = 0, n_terms = (double)w->dims[0];
    for (int64_t k = 0; k < w->dims[0]; k++) {
        double a = (double)row[k], term = a * plait_ref_get(x, k, i1, i2, 0);
        size += fabs(term);
        square += term * term;
        weights += a * a;
    }
    double rounded =
        PLAIT_DEVIATIONS * (plait_tol_type(w->dtype) * sqrt(square / 3) + deviation * sqrt(weights));
    return plait_tol_sum(w->dims[0]) * size + rounded + PLAIT_FLUSH * (n_terms + sqrt(n_terms * weights));
}

static double column_deviation(const plait_operand *w, const plait_operand *x, int64_t i1, int64_t i2) {
    return plait_dtype_quantised(w->dtype) ? short_deviation(x, i1, i2) : 0;
}

static void matmul_tolerance(const plait_op_use *use, int output, double *limits, void *scratch) {
    const plait_operand *w = &use->inputs[0], *x = &use->inputs[1], *y = &use->outputs[output];
    for (int64_t n = 0; n < y->dims[1]; n++) {
        double deviation = column_deviation(w, x, n, 0);
        for (int64_t m = 0; m < y->dims[0]; m++) {
            plait_ref_read_row(w, m, 0, 0, w->dims[0], scratch);
            *limits++ = sum_tolerance(w, scratch, x, n, 0, deviation);
        }
    }
}

/* A multiplication and an addition for each term. */
static double matmul_flop(const plait_op_use *use) {
    const plait_operand *w = &use->inputs[0], *y = &use->outputs[0];
    return 2.0 * (double)w->dims[0] * (double)plait_operand_elems(y);
}

/* Every type that models use as weights, one column (decode) and several (prompts), odd sizes, none at all; then
 * operands that are slices of something wider and transposed ones. */
#define CASE(type, k, m, n)                                                                                  \
    {                                                                                                        \
        .inputs = { PLAIT_IN(type, k, m, 1, 1), PLAIT_IN(F32, k, n, 1, 1) }                                  \
    }
static const plait_example matmul_cases[] = {
    CASE(F32, 7, 5, 3),
    CASE(F32, 64, 33, 0),
    CASE(F32, 1, 1, 1),
    CASE(F16, 96, 17, 1),
    CASE(BF16, 65, 9, 4),
    CASE(Q4_0, 64, 19, 1),
    CASE(Q4_1, 64, 19, 3),
    CASE(Q5_0, 96, 11, 2),
    CASE(Q5_1, 96, 11, 5),
    CASE(Q8_0, 160, 37, 1),
    CASE(Q8_0, 160, 37, 17),
    CASE(Q2_K, 256, 7, 2),
    CASE(Q3_K, 256, 7, 2),
    CASE(Q4_K, 512, 21, 1),
    CASE(Q4_K, 512, 21, 6),
    CASE(Q5_K, 256, 10, 2),
    CASE(Q6_K, 512, 13, 1),
    CASE(Q6_K, 512, 13, 33),
    CASE(IQ4_NL, 64, 9, 2),
    CASE(IQ4_XS, 256, 9, 2),
    CASE(MXFP4, 64, 9, 2),
    {.inputs = {PLAIT_VIEW(PADDED, F32, 24, 10, 1, 1), PLAIT_VIEW(PADDED, F32, 24, 7, 1, 1)}},
    {.inputs = {PLAIT_VIEW(PADDED, Q8_0, 64, 10, 1, 1), PLAIT_VIEW(STRIDED, F32, 64, 3, 1, 1)}},
    {.inputs = {PLAIT_VIEW(STRIDED, F16, 24, 10, 1, 1), PLAIT_IN(F32, 24, 3, 1, 1)}},
};
#undef CASE
PLAIT_EXAMPLES(matmul)

const plait_op plait_op_matmul = {
    .struct_bytes = sizeof(plait_op),
    .id = PLAIT_OP_matmul,
    .name = "matmul",
    .doc = "y[m,n] = sum over k of w[k,m] * x[k,n]",
    .factors = "w[k,m] x[k,n] -> y[m,n]; k: sum",
    .shape = matmul_shape,
    .writes_input = -1,
    .rows_input = -1,
    .reference_scratch = matmul_scratch,
    .reference = matmul_reference,
    .tolerance = matmul_tolerance,
    .flop = matmul_flop,
    .example = matmul_example,
};

/* ---- expert_matmul ---- */

/* A slice of the experts knows which ids it holds (start_e) and how many there are in all (total_e), as get_rows does: ids
 * elsewhere in the whole give zeros, so that slices add up; ids outside of it are bad, give zeros too and set the error
 * word. An id may come twice for a token. */
static const plait_attr_row expert_matmul_attrs[PLAIT_EXPERT_MATMUL_ATTRS] = {
    [PLAIT_EXPERT_MATMUL_START_E] =
        {"start_e", PLAIT_ATTR_INT, {.i = 0}, false, "id of the first matrix of w"},
    [PLAIT_EXPERT_MATMUL_TOTAL_E] =
        {"total_e", PLAIT_ATTR_INT, {.i = 0}, false, "matrices of the whole; 0: start_e + e"},
};

static plait_status expert_matmul_shape(plait_op_use *use) {
    PLAIT_TRY(plait_shape_float(use, PLAIT_EXPERT_MATMUL_W));
    PLAIT_TRY(plait_shape_dtype(use, PLAIT_EXPERT_MATMUL_X, PLAIT_F32));
    PLAIT_TRY(plait_shape_dtype(use, PLAIT_EXPERT_MATMUL_IDS, PLAIT_I32));
    PLAIT_TRY(plait_attr_window(use, PLAIT_EXPERT_MATMUL_START_E, PLAIT_EXPERT_MATMUL_TOTAL_E,
                                use->inputs[PLAIT_EXPERT_MATMUL_W].dims[2]));
    return plait_shape_by_factors(use);
}

static int64_t expert_total(const plait_op_use *use) {
    return plait_attr_total(use, PLAIT_EXPERT_MATMUL_START_E, PLAIT_EXPERT_MATMUL_TOTAL_E,
                            use->inputs[PLAIT_EXPERT_MATMUL_W].dims[2]);
}

/* The matrix of slot (u, n); -1 where it is not here. */
static int64_t expert_of(const plait_op_use *use, int64_t u, int64_t n) {
    int64_t id = plait_ref_get_id(&use->inputs[PLAIT_EXPERT_MATMUL_IDS], u, n);
    int64_t e = id - use->attrs[PLAIT_EXPERT_MATMUL_START_E].i;
    if (id < 0 || id >= expert_total(use)) plait_ref_bad_id(use);
    return e >= 0 && e < use->inputs[PLAIT_EXPERT_MATMUL_W].dims[2] ? e : -1;
}

/* The column of x that slot u reads: its own, or the one that all slots of a token share. */
static int64_t expert_column(const plait_operand *x, int64_t u) {
    return x->dims[1] == 1 ? 0 : u;
}

static void expert_matmul_reference(const plait_op_use *use, void *scratch) {
    const plait_operand *w = &use->inputs[0], *x = &use->inputs[1], *y = &use->outputs[0];
    float *row = scratch;
    for (int64_t n = 0; n < y->dims[2]; n++)
        for (int64_t u = 0; u < y->dims[1]; u++) {
            int64_t e = expert_of(use, u, n), from = expert_column(x, u);
            for (int64_t m = 0; m < y->dims[0]; m++) {
                double sum = 0;
                if (e >= 0) plait_ref_read_row(w, m, e, 0, w->dims[0], row);
                for (int64_t k = 0; e >= 0 && k < w->dims[0]; k++)
                    sum += (double)row[k] * plait_ref_get(x, k, from, n, 0);
                plait_ref_set(y, m, u, n, 0, sum);
            }
        }
}

static void expert_matmul_tolerance(const plait_op_use *use, int output, double *limits, void *scratch) {
    const plait_operand *w = &use->inputs[0], *x = &use->inputs[1], *y = &use->outputs[output];
    for (int64_t n = 0; n < y->dims[2]; n++)
        for (int64_t u = 0; u < y->dims[1]; u++) {
            int64_t e = expert_of(use, u, n), from = expert_column(x, u);
            double deviation = e < 0 ? 0 : column_deviation(w, x, from, n);
            for (int64_t m = 0; m < y->dims[0]; m++) {
                if (e >= 0) plait_ref_read_row(w, m, e, 0, w->dims[0], scratch);
                *limits++ = e < 0 ? 0 : sum_tolerance(w, scratch, x, from, n, deviation);
            }
        }
}

static plait_status expert_matmul_check_runtime(const plait_op_use *use) {
    return plait_check_ids(use, PLAIT_EXPERT_MATMUL_IDS, 0, expert_total(use));
}

/* Every type again; x shared by a token's experts (one column) and not; more slots than experts, so that some experts are
 * chosen by many tokens, twice by one, and never; a slice of the experts. */
#define CASE(type, k, m, e, c, u, n)                                                                         \
    {                                                                                                        \
        .inputs = { PLAIT_IN(type, k, m, e, 1), PLAIT_IN(F32, k, c, n, 1), PLAIT_IN(I32, u, n, 1, 1) }       \
    }
static const plait_example expert_matmul_cases[] = {
    CASE(F32, 7, 5, 4, 1, 2, 3),
    CASE(F32, 24, 33, 3, 2, 2, 0),
    CASE(F32, 1, 1, 1, 1, 1, 1),
    CASE(F32, 24, 33, 3, 4, 4, 11),
    CASE(F16, 96, 17, 8, 1, 2, 1),
    CASE(BF16, 65, 9, 5, 3, 3, 4),
    CASE(Q4_0, 64, 19, 6, 1, 2, 1),
    CASE(Q4_1, 64, 16, 4, 2, 2, 3),
    CASE(Q5_0, 96, 11, 3, 1, 2, 2),
    CASE(Q5_1, 96, 11, 3, 3, 3, 5),
    CASE(Q8_0, 160, 37, 4, 1, 4, 1),
    CASE(Q8_0, 160, 48, 2, 3, 3, 17),
    CASE(Q2_K, 256, 7, 3, 1, 2, 2),
    CASE(Q3_K, 256, 7, 3, 1, 2, 2),
    CASE(Q4_K, 512, 32, 4, 1, 2, 6),
    CASE(Q5_K, 256, 10, 3, 2, 2, 2),
    CASE(Q6_K, 512, 13, 5, 2, 2, 9),
    CASE(IQ4_NL, 64, 9, 3, 1, 2, 2),
    CASE(IQ4_XS, 256, 9, 3, 1, 2, 2),
    CASE(MXFP4, 64, 9, 3, 2, 2, 2),
    {.inputs = {PLAIT_VIEW(PADDED, F32, 24, 10, 3, 1), PLAIT_VIEW(PADDED, F32, 24, 2, 7, 1),
                PLAIT_VIEW(PADDED, I32, 2, 7, 1, 1)}},
    {.inputs = {PLAIT_VIEW(PADDED, Q8_0, 64, 10, 3, 1), PLAIT_VIEW(STRIDED, F32, 64, 1, 3, 1),
                PLAIT_VIEW(STRIDED, I32, 2, 3, 1, 1)}},
    {.inputs = {PLAIT_VIEW(PERMUTED, Q8_0, 64, 16, 3, 1), PLAIT_VIEW(PERMUTED, F32, 64, 2, 3, 1),
                PLAIT_IN(I32, 2, 3, 1, 1)}},
    {.inputs = {PLAIT_VIEW(STRIDED, F16, 24, 10, 2, 1), PLAIT_IN(F32, 24, 1, 3, 1),
                PLAIT_IN(I32, 2, 3, 1, 1)}},
    /* A slice: matrices 4 to 6 of 8. */
    {.inputs = {PLAIT_IN(Q8_0, 64, 16, 3, 1), PLAIT_IN(F32, 64, 1, 6, 1), PLAIT_IN(I32, 4, 6, 1, 1)},
     .attrs = {{"start_e", {.i = 4}}, {"total_e", {.i = 8}}}},
};
#undef CASE
PLAIT_EXAMPLES(expert_matmul)

/* Ids over the whole, so that a slice meets ids that it does not hold. */
static void expert_matmul_example_data(int which, plait_op_use *use) {
    plait_example_fill_ids(&use->inputs[PLAIT_EXPERT_MATMUL_IDS], (uint64_t)which + 1, expert_total(use),
                           false);
}

const plait_op plait_op_expert_matmul = {
    .struct_bytes = sizeof(plait_op),
    .id = PLAIT_OP_expert_matmul,
    .name = "expert_matmul",
    .doc = "y[m,u,n] = sum over k of w[k,m,ids[u,n]] * x[k,u,n]; x may have one column for all u",
    .factors = "w[k,m,e] x[k,u?,n] ids[u,n] -> y[m,u,n]; k: sum, e: indexed(ids)@",
    .attrs = expert_matmul_attrs,
    .n_attrs = PLAIT_EXPERT_MATMUL_ATTRS,
    .shape = expert_matmul_shape,
    .writes_input = -1,
    .rows_input = -1,
    .runtime_inputs = 1u << PLAIT_EXPERT_MATMUL_IDS,
    .reference_scratch = matmul_scratch,
    .reference = expert_matmul_reference,
    .tolerance = expert_matmul_tolerance,
    .flop = matmul_flop,
    .example = expert_matmul_example,
    .example_data = expert_matmul_example_data,
    .check_runtime = expert_matmul_check_runtime,
};
