/* Rotary angles, shared by rope and kv_shift: RoFormer (Su et al., arXiv 2104.09864) with the mix of YaRN (Peng et
 * al., arXiv 2309.00071). Angle of pair i at position t:
 *
 *     extra  = t * base^(-2i / n_rot) / factor_i          the trained frequencies
 *     inter  = freq_scale * extra                         positions squeezed
 *     angle  = inter * (1 - mix_i) + extra * mix_i        mix_i = ext_factor * ramp(i), 0 when ext_factor is 0
 *
 * ramp falls from 1 to 0 between pairs low and high: low = floor(at(beta_fast)), high = ceil(at(beta_slow)),
 * clamped to [0, n_rot - 1], at(beta) = n_rot * ln(context / (2 pi beta)) / (2 ln base). With the mix on, cos and
 * sin are also multiplied by 1 + 0.1 ln(1 / freq_scale), which is rope's matter, not that of kv_shift: stored
 * keys have it already. */
#ifndef PLAIT_OP_ROTARY_H
#define PLAIT_OP_ROTARY_H

#include "plait/op.h"

/* The attribute rows that rope and kv_shift share, in the order of attrs.h. */
#define PLAIT_ROTARY_ATTR_ROWS                                                                               \
    [PLAIT_ROPE_N_ROT] = {"n_rot",                                                                           \
                          PLAIT_ATTR_INT,                                                                    \
                          {.i = 0},                                                                          \
                          false,                                                                             \
                          "rotated elements, even; 0: all of dim 0"},                                        \
    [PLAIT_ROPE_SPLIT_HALVES] = {"split_halves",                                                             \
                                 PLAIT_ATTR_BOOL,                                                            \
                                 {.i = 0},                                                                   \
                                 false,                                                                      \
                                 "pairs (i, i + n_rot/2) instead of (2i, 2i + 1)"},                          \
    [PLAIT_ROPE_FREQ_BASE] = {"freq_base",                                                                   \
                              PLAIT_ATTR_FLOAT,                                                              \
                              {.f = 10000},                                                                  \
                              false,                                                                         \
                              "base of the frequencies"},                                                    \
    [PLAIT_ROPE_FREQ_SCALE] = {"freq_scale", PLAIT_ATTR_FLOAT, {.f = 1}, false, "multiplies positions"},     \
    [PLAIT_ROPE_EXT_FACTOR] = {"ext_factor", PLAIT_ATTR_FLOAT, {.f = 0}, false, "YaRN mix; 0: off"},         \
    [PLAIT_ROPE_BETA_FAST] = {"beta_fast",                                                                   \
                              PLAIT_ATTR_FLOAT,                                                              \
                              {.f = 32},                                                                     \
                              false,                                                                         \
                              "YaRN: turns of the ramp's start"},                                            \
    [PLAIT_ROPE_BETA_SLOW] = {"beta_slow",                                                                   \
                              PLAIT_ATTR_FLOAT,                                                              \
                              {.f = 1},                                                                      \
                              false,                                                                         \
                              "YaRN: turns of the ramp's end"},                                              \
    [PLAIT_ROPE_ORIGINAL_CONTEXT] = {                                                                        \
        "original_context", PLAIT_ATTR_INT, {.i = 0}, false, "YaRN: context length of the training"}

/* Checks the shared attributes for rows of d elements and the optional input of frequency factors. */
plait_status plait_rotary_check(const plait_op_use *use, int64_t d, int factors_input);

typedef struct plait_rotary {
    int64_t n_rot;
    bool split_halves;
    double freq_base, freq_scale, ext_factor;
    double low, high; /* of the ramp, in pairs */
    double magnitude; /* 1 + 0.1 ln(1 / freq_scale) with the mix on, else 1 */
} plait_rotary;

/* From attributes that passed the check. */
void plait_rotary_init(plait_rotary *rotary, const plait_attr *attrs, int64_t d);

/* Angle of pair i at a position; `factor` divides the frequency. */
double plait_rotary_angle(const plait_rotary *rotary, int64_t pair, double position, double factor);

/* Relative to the size of a pair: what it may be off when the angle was made in float32 from a float32 frequency. */
double plait_rotary_tolerance(const plait_rotary *rotary, int64_t pair, double position, double factor);

/* Places of the two elements of pair i in a row. */
static inline int64_t plait_rotary_first(const plait_rotary *r, int64_t pair) {
    return r->split_halves ? pair : 2 * pair;
}
static inline int64_t plait_rotary_second(const plait_rotary *r, int64_t pair) {
    return r->split_halves ? pair + r->n_rot / 2 : 2 * pair + 1;
}

#endif
