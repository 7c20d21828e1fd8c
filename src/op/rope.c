/* rope (rotary position embedding) and position_scale (the temperature of queries by position).
 *
 * The angles are in rotary.h. Each head's first n_rot elements are turned in pairs, either neighbours (2i, 2i + 1)
 * or halves (i, i + n_rot/2); both layouts occur in files. Elements beyond n_rot are copied. Negative positions
 * turn back, which undoes a rotation. Not here: heads whose last elements are turned (a view of them is rotated).
 * Invariant: both elements of a pair are read before either is written, so the output may be the input. */
#include "op/rotary.h"

#include "base/size.h"
#include "op/attrs.h"
#include "op/example.h"
#include "op/reference.h"
#include "op/shape.h"
#include "op/tolerance.h"

#include <math.h>

static const plait_attr_row rope_attrs[PLAIT_ROPE_ATTRS] = {
    PLAIT_ROTARY_ATTR_ROWS,
    [PLAIT_ROPE_ATTN_FACTOR] = {"attn_factor", PLAIT_ATTR_FLOAT, {.f = 1}, false, "multiplies cos and sin"},
};

/* Factors first: the check of the attributes needs dim 0 of x to be sane, and freq_factors to have one dim. */
static plait_status rope_shape(plait_op_use *use) {
    PLAIT_TRY(plait_shape_dtype(use, 0, PLAIT_F32));
    PLAIT_TRY(plait_shape_dtype(use, 1, PLAIT_I32));
    PLAIT_TRY(plait_shape_by_factors(use));
    return plait_rotary_check(use, use->inputs[0].dims[0], 2);
}

/* One head of one token. Factors, where given, divide the frequency of their pair. The magnitude is one number for all
 * pairs: YaRN's own times the model's. */
static void rope_row(const plait_op_use *use, const plait_rotary *rotary, int64_t h, int64_t n) {
    const plait_operand *x = &use->inputs[0], *y = &use->outputs[0];
    double position = plait_ref_get_id(&use->inputs[1], n, 0);
    double magnitude = rotary->magnitude * use->attrs[PLAIT_ROPE_ATTN_FACTOR].f;
    for (int64_t pair = 0; pair < rotary->n_rot / 2; pair++) {
        int64_t first = plait_rotary_first(rotary, pair), second = plait_rotary_second(rotary, pair);
        double factor = plait_op_has(use, 2) ? plait_ref_get(&use->inputs[2], pair, 0, 0, 0) : 1.0;
        double angle = plait_rotary_angle(rotary, pair, position, factor);
        double c = cos(angle) * magnitude, s = sin(angle) * magnitude;
        double a = plait_ref_get(x, first, h, n, 0), b = plait_ref_get(x, second, h, n, 0);
        plait_ref_set(y, first, h, n, 0, a * c - b * s);
        plait_ref_set(y, second, h, n, 0, a * s + b * c);
    }
    for (int64_t i = rotary->n_rot; i < x->dims[0]; i++)
        plait_ref_set(y, i, h, n, 0, plait_ref_get(x, i, h, n, 0));
}

/* What depends on attributes alone is worked out once for all rows. */
static void rope_reference(const plait_op_use *use, void *scratch) {
    (void)scratch;
    plait_rotary rotary;
    plait_rotary_init(&rotary, use->attrs, use->inputs[0].dims[0]);
    for (int64_t n = 0; n < use->inputs[0].dims[2]; n++)
        for (int64_t h = 0; h < use->inputs[0].dims[1]; h++) rope_row(use, &rotary, h, n);
}

/* An angle is made in float32, and its error turns the pair; what is not turned is copied. Elements that are copied
 * have no tolerance at all. */
static void rope_tolerance(const plait_op_use *use, int output, double *limits, void *scratch) {
    const plait_operand *x = &use->inputs[0];
    plait_rotary rotary;
    (void)output, (void)scratch;
    plait_rotary_init(&rotary, use->attrs, x->dims[0]);
    double magnitude = fabs(rotary.magnitude * use->attrs[PLAIT_ROPE_ATTN_FACTOR].f);
    for (int64_t n = 0; n < x->dims[2]; n++)
        for (int64_t h = 0; h < x->dims[1]; h++, limits += x->dims[0]) {
            for (int64_t i = 0; i < x->dims[0]; i++) limits[i] = 0;
            for (int64_t pair = 0; pair < rotary.n_rot / 2; pair++) {
                int64_t first = plait_rotary_first(&rotary, pair),
                        second = plait_rotary_second(&rotary, pair);
                double factor = plait_op_has(use, 2) ? plait_ref_get(&use->inputs[2], pair, 0, 0, 0) : 1.0;
                double turn =
                    plait_rotary_tolerance(&rotary, pair, plait_ref_get_id(&use->inputs[1], n, 0), factor);
                double size =
                    fabs(plait_ref_get(x, first, h, n, 0)) + fabs(plait_ref_get(x, second, h, n, 0));
                limits[first] = limits[second] = magnitude * size * turn + PLAIT_FLUSH;
            }
        }
}

/* Three multiplications and additions an element; angles are few. */
static double rope_flop(const plait_op_use *use) {
    return 3.0 * (double)plait_operand_elems(&use->outputs[0]);
}

/* Both ways of pairing, part of a row, frequency factors, the mix of YaRN at two scales, no token, views. */
static const plait_example rope_cases[] = {
    {.inputs = {PLAIT_IN(F32, 8, 3, 5, 1), PLAIT_IN(I32, 5, 1, 1, 1)}},
    {.inputs = {PLAIT_IN(F32, 64, 9, 4, 1), PLAIT_IN(I32, 4, 1, 1, 1)},
     .attrs = {{"split_halves", {.i = 1}}, {"freq_base", {.f = 1e6}}}},
    {.inputs = {PLAIT_IN(F32, 20, 2, 3, 1), PLAIT_IN(I32, 3, 1, 1, 1), PLAIT_IN(F32, 6, 1, 1, 1)},
     .attrs = {{"n_rot", {.i = 12}}, {"freq_scale", {.f = 0.25}}, {"attn_factor", {.f = 1.19}}}},
    {.inputs = {PLAIT_IN(F32, 20, 2, 3, 1), PLAIT_IN(I32, 3, 1, 1, 1), PLAIT_IN(F32, 6, 1, 1, 1)},
     .attrs = {{"n_rot", {.i = 12}}, {"split_halves", {.i = 1}}}},
    {.inputs = {PLAIT_IN(F32, 64, 3, 7, 1), PLAIT_IN(I32, 7, 1, 1, 1)},
     .attrs = {{"freq_scale", {.f = 0.25}}, {"ext_factor", {.f = 1}}, {"original_context", {.i = 4096}}}},
    {.inputs = {PLAIT_IN(F32, 64, 3, 7, 1), PLAIT_IN(I32, 7, 1, 1, 1)},
     .attrs = {{"split_halves", {.i = 1}},
               {"freq_scale", {.f = 0.03125}},
               {"ext_factor", {.f = 1}},
               {"original_context", {.i = 4096}},
               {"freq_base", {.f = 150000}},
               {"attn_factor", {.f = 0.9}}}},
    {.inputs = {PLAIT_IN(F32, 8, 3, 0, 1), PLAIT_IN(I32, 0, 1, 1, 1)}},
    {.inputs = {PLAIT_VIEW(PADDED, F32, 16, 3, 2, 1), PLAIT_IN(I32, 2, 1, 1, 1)},
     .attrs = {{"n_rot", {.i = 8}}}},
    {.inputs = {PLAIT_VIEW(PERMUTED, F32, 16, 3, 2, 1), PLAIT_IN(I32, 2, 1, 1, 1)}},
};
PLAIT_EXAMPLES(rope)

/* Positions as a long context has them, and frequency factors. */
static void rope_example_data(int which, plait_op_use *use) {
    plait_example_fill_ids(&use->inputs[1], (uint64_t)which + 11, 3000, false);
    /* Frequency factors are at least 1 in real models; near 0 they would only amplify rounding. */
    uint64_t seed = (uint64_t)which;
    if (!plait_op_has(use, 2)) return;
    for (int64_t i = 0; i < use->inputs[2].dims[0]; i++)
        plait_ref_set(&use->inputs[2], i, 0, 0, 0, 1.0 + (double)plait_example_random(&seed, 64) / 8.0);
}

/* d is whole, since split halves pair elements far apart; heads and tokens are free. The output may be the input: see
 * above. */
const plait_op plait_op_rope = {
    .struct_bytes = sizeof(plait_op),
    .id = PLAIT_OP_rope,
    .name = "rope",
    .doc = "y = each pair of x turned by position * freq_base^(-2i/n_rot) / freq_factors_i, YaRN mixed in",
    .factors = "x[d,h,n] positions[n] freq_factors?[r] -> y[d,h,n]; d: whole, r: whole",
    .attrs = rope_attrs,
    .n_attrs = PLAIT_ROPE_ATTRS,
    .shape = rope_shape,
    .writes_input = -1,
    .rows_input = -1,
    .runtime_inputs = 1u << 1,
    .in_place_inputs = 1u << 0,
    .reference = rope_reference,
    .tolerance = rope_tolerance,
    .flop = rope_flop,
    .example = rope_example,
    .example_data = rope_example_data,
};

/* ---- position_scale ---- */

/* Queries grow with the logarithm of their position, in steps of `length` positions: the long-context temperature
 * of Llama 4 and Mistral 3, whose files call the two numbers temperature scale and original context. */

static const plait_attr_row position_scale_attrs[PLAIT_POSITION_SCALE_ATTRS] = {
    [PLAIT_POSITION_SCALE_SCALE] = {"scale", PLAIT_ATTR_FLOAT, {.f = 0}, true, "multiplies the logarithm"},
    [PLAIT_POSITION_SCALE_LENGTH] =
        {"length", PLAIT_ATTR_INT, {.i = 0}, true, "positions in a step, above 0"},
};

/* `length` divides positions, so 0 is refused here and not at run time. */
static plait_status position_scale_shape(plait_op_use *use) {
    PLAIT_TRY(plait_shape_dtype(use, 0, PLAIT_F32));
    PLAIT_TRY(plait_shape_dtype(use, 1, PLAIT_I32));
    PLAIT_TRY(plait_attr_above_zero(use, PLAIT_POSITION_SCALE_LENGTH));
    return plait_shape_by_factors(use);
}

/* The division is whole: the factor rises in steps, one for each `length` positions, as the models were trained. */
static void position_scale_reference(const plait_op_use *use, void *scratch) {
    (void)scratch;
    const plait_operand *x = &use->inputs[0], *y = &use->outputs[0];
    double scale = use->attrs[PLAIT_POSITION_SCALE_SCALE].f;
    int64_t length = use->attrs[PLAIT_POSITION_SCALE_LENGTH].i;
    for (int64_t n = 0; n < x->dims[2]; n++) {
        int64_t position = plait_max_i64(plait_ref_get_id(&use->inputs[1], n, 0), 0);
        double factor = 1.0 + scale * log((double)(position / length) + 1.0);
        for (int64_t h = 0; h < x->dims[1]; h++)
            for (int64_t i = 0; i < x->dims[0]; i++)
                plait_ref_set(y, i, h, n, 0, plait_ref_get(x, i, h, n, 0) * factor);
    }
}

/* A logarithm and a product. The size is that of the smooth curve, which is at least that of the step. */
static void position_scale_tolerance(const plait_op_use *use, int output, double *limits, void *scratch) {
    const plait_operand *x = &use->inputs[0];
    double scale = fabs(use->attrs[PLAIT_POSITION_SCALE_SCALE].f);
    (void)output, (void)scratch;
    for (int64_t n = 0; n < x->dims[2]; n++) {
        double position = fmax(plait_ref_get_id(&use->inputs[1], n, 0), 0);
        double size = 1.0 + scale * log(position / (double)use->attrs[PLAIT_POSITION_SCALE_LENGTH].i + 1.0);
        for (int64_t h = 0; h < x->dims[1]; h++)
            for (int64_t i = 0; i < x->dims[0]; i++)
                *limits++ = plait_tol_function(0, size * plait_ref_get(x, i, h, n, 0));
    }
}

#define STEP(s, l) .attrs = {{"scale", {.f = (s)}}, {"length", {.i = (l)}}}
/* Factors of real models, a step for each position, a scale below 0, no token. */
static const plait_example position_scale_cases[] = {
    {.inputs = {PLAIT_IN(F32, 7, 3, 5, 1), PLAIT_IN(I32, 5, 1, 1, 1)}, STEP(0.1, 100)},
    {.inputs = {PLAIT_IN(F32, 64, 9, 4, 1), PLAIT_IN(I32, 4, 1, 1, 1)}, STEP(0.5, 8192)},
    {.inputs = {PLAIT_IN(F32, 8, 3, 0, 1), PLAIT_IN(I32, 0, 1, 1, 1)}, STEP(0.1, 100)},
    {.inputs = {PLAIT_VIEW(PERMUTED, F32, 8, 3, 4, 1), PLAIT_IN(I32, 4, 1, 1, 1)}, STEP(-0.1, 1)},
};
#undef STEP
PLAIT_EXAMPLES(position_scale)

/* Positions on both sides of many steps. */
static void position_scale_example_data(int which, plait_op_use *use) {
    plait_example_fill_ids(&use->inputs[1], (uint64_t)which + 7, 2000, false);
}

/* Every factor is free, d too: an element needs its token's position alone. */
const plait_op plait_op_position_scale = {
    .struct_bytes = sizeof(plait_op),
    .id = PLAIT_OP_position_scale,
    .name = "position_scale",
    .doc = "y = x * (1 + scale * ln(floor(position / length) + 1)); negative positions count as 0",
    .factors = "x[d,h,n] positions[n] -> y[d,h,n]",
    .attrs = position_scale_attrs,
    .n_attrs = PLAIT_POSITION_SCALE_ATTRS,
    .shape = position_scale_shape,
    .writes_input = -1,
    .rows_input = -1,
    .runtime_inputs = 1u << 1,
    .in_place_inputs = 1u << 0,
    .reference = position_scale_reference,
    .tolerance = position_scale_tolerance,
    .example = position_scale_example,
    .example_data = position_scale_example_data,
};
