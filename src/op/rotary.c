/* Rotary angles. See rotary.h for the formulas. Not here: applying them, which is the ops' matter. Invariant: an
 * angle depends on pair, position and attributes alone, in float64. */
#include "op/rotary.h"

#include "base/status.h"
#include "op/attrs.h"
#include "op/shape.h"
#include "op/tolerance.h"

#include <math.h>

/* The mix needs a logarithm of base and context, so they are only checked when it is on. */
plait_status plait_rotary_check(const plait_op_use *use, int64_t d, int factors_input) {
    int64_t n_rot = use->attrs[PLAIT_ROPE_N_ROT].i;
    if (n_rot == 0) n_rot = d;
    if (n_rot < 0 || n_rot > d || n_rot % 2 != 0)
        return plait_error(PLAIT_INVALID_ARGUMENT,
                           "n_rot is %lld, expected an even number up to dim 0, which is %lld",
                           (long long)n_rot, (long long)d);
    PLAIT_TRY(plait_attr_above_zero(use, PLAIT_ROPE_FREQ_BASE));
    PLAIT_TRY(plait_attr_above_zero(use, PLAIT_ROPE_FREQ_SCALE));
    if (use->attrs[PLAIT_ROPE_EXT_FACTOR].f != 0) {
        if (!(use->attrs[PLAIT_ROPE_FREQ_BASE].f > 1))
            return plait_error(PLAIT_INVALID_ARGUMENT, "freq_base is %g, expected above 1 with ext_factor",
                               use->attrs[PLAIT_ROPE_FREQ_BASE].f);
        PLAIT_TRY(plait_attr_above_zero(use, PLAIT_ROPE_ORIGINAL_CONTEXT));
        PLAIT_TRY(plait_attr_above_zero(use, PLAIT_ROPE_BETA_FAST));
        PLAIT_TRY(plait_attr_above_zero(use, PLAIT_ROPE_BETA_SLOW));
    }
    if (!plait_op_has(use, factors_input)) return PLAIT_OK;
    PLAIT_TRY(plait_shape_dtype(use, factors_input, PLAIT_F32));
    return plait_shape_dim(use, factors_input, 0, n_rot / 2, "n_rot / 2");
}

/* The pair that makes `beta` turns over the training context, as a real number. Solves position turns = context / (2
 * pi) * base^(-2 i / n_rot) = beta for i. */
static double ramp_end(const plait_attr *attrs, int64_t n_rot, double beta) {
    double turns = (double)attrs[PLAIT_ROPE_ORIGINAL_CONTEXT].i / (beta * 6.283185307179586477);
    return (double)n_rot * log(turns) / (2.0 * log(attrs[PLAIT_ROPE_FREQ_BASE].f));
}

/* low exceeds high where beta_slow is above beta_fast: the ramp then has no width, which plait_rotary_angle allows
 * for. */
void plait_rotary_init(plait_rotary *rotary, const plait_attr *attrs, int64_t d) {
    *rotary = (plait_rotary){
        .n_rot = attrs[PLAIT_ROPE_N_ROT].i ? attrs[PLAIT_ROPE_N_ROT].i : d,
        .split_halves = attrs[PLAIT_ROPE_SPLIT_HALVES].i != 0,
        .freq_base = attrs[PLAIT_ROPE_FREQ_BASE].f,
        .freq_scale = attrs[PLAIT_ROPE_FREQ_SCALE].f,
        .ext_factor = attrs[PLAIT_ROPE_EXT_FACTOR].f,
        .magnitude = 1.0,
    };
    if (rotary->ext_factor == 0) return;
    double last = (double)rotary->n_rot - 1;
    rotary->low = fmax(0.0, floor(ramp_end(attrs, rotary->n_rot, attrs[PLAIT_ROPE_BETA_FAST].f)));
    rotary->high = fmin(last, ceil(ramp_end(attrs, rotary->n_rot, attrs[PLAIT_ROPE_BETA_SLOW].f)));
    rotary->magnitude = 1.0 + 0.1 * log(1.0 / rotary->freq_scale);
}

/* Frequencies come from a power, whose exponent times the logarithm of the base is rounded too. At most 2: a pair
 * turned by any angle is nowhere farther off than its diameter. */
double plait_rotary_tolerance(const plait_rotary *rotary, int64_t pair, double position, double factor) {
    double exponent = 2.0 * (double)pair / (double)rotary->n_rot * fabs(log(rotary->freq_base));
    double angle = fabs(plait_rotary_angle(rotary, pair, position, factor));
    return fmin(2.0, PLAIT_ULP * (4.0 + angle * (4.0 + exponent)));
}

/* Pairs that turn fast (i below low) keep the trained frequency, slow ones are interpolated, between them the ramp
 * mixes. */
double plait_rotary_angle(const plait_rotary *rotary, int64_t pair, double position, double factor) {
    double extra = position * pow(rotary->freq_base, -2.0 * (double)pair / (double)rotary->n_rot) / factor;
    double inter = rotary->freq_scale * extra;
    if (rotary->ext_factor == 0) return inter;
    /* A ramp of no width would divide by zero. */
    double along = ((double)pair - rotary->low) / fmax(0.001, rotary->high - rotary->low);
    double mix = rotary->ext_factor * (1.0 - fmin(1.0, fmax(0.0, along)));
    return inter * (1.0 - mix) + extra * mix;
}
