/* Kernels of rope and position_scale: a unit is a token.
 *
 * An angle is position * w_i, where w_i holds the frequency, its factor and the mix of YaRN, in float64. The w are made
 * once for a run of tokens (one power, then products), cos and sin once a token, and serve all its heads. Pairs are
 * taken in strips of STRIP, whose tables lie on the stack, so that no scratch is needed.
 *
 * Not here: sin and cos (rope.inc), what the attributes mean (op/rotary.h). Invariant: a strip begins with a power of
 * its own, at the same pairs for every row, so the products that follow it are the same whichever rows are turned. */
#include "device/cpu/kernels/family.h"
#include "op/rotary.h"

#include <math.h>

enum { STRIP = 256 };

typedef struct rope_strip {
    int64_t first, n;
    double w[STRIP];
    float cosines[STRIP], sines[STRIP];
} rope_strip;

/* What turns a position into the angle of each pair of the strip; see plait_rotary_angle. Input 2, where there is one,
 * divides the frequency of each pair. The interpolated and the unchanged frequency are mixed by where the pair lies
 * between `low` and `high`. */
static void fill_strip(const plait_op_use *use, const plait_rotary *rotary, rope_strip *strip) {
    double ratio = pow(rotary->freq_base, -2.0 / (double)rotary->n_rot);
    double w = pow(ratio, (double)strip->first);
    for (int64_t i = 0; i < strip->n; i++, w *= ratio) {
        int64_t pair = strip->first + i;
        double mix = 0, extra = w;
        if (plait_op_has(use, 2)) extra /= plait_ref_get(&use->inputs[2], pair, 0, 0, 0);
        if (rotary->ext_factor != 0) {
            double along = ((double)pair - rotary->low) / fmax(0.001, rotary->high - rotary->low);
            mix = rotary->ext_factor * (1.0 - fmin(1.0, fmax(0.0, along)));
        }
        strip->w[i] = rotary->freq_scale * extra * (1.0 - mix) + extra * mix;
    }
}

/* A pair is elements i and i + n_rot / 2 with split halves, neighbours otherwise. y may be x. */
static void turn_head(const plait_cpu_simd *simd, const plait_rotary *rotary, const rope_strip *strip,
                      const float *x, float *y) {
    if (rotary->split_halves)
        simd->turn_halves(x + strip->first, rotary->n_rot / 2, strip->cosines, strip->sines, strip->n,
                          y + strip->first);
    else
        simd->turn_pairs(x + 2 * strip->first, strip->cosines, strip->sines, strip->n, y + 2 * strip->first);
}

/* Rows [begin, end) of heads: the strip of each, angles whenever the token changes. A run that begins within a token
 * makes that token's angles anew, from the same numbers. */
static void turn_strip(const plait_cpu_call *call, const plait_rotary *rotary, rope_strip *strip,
                       int64_t begin, int64_t end) {
    const plait_op_use *use = &call->use;
    const plait_operand *x = &use->inputs[0], *y = &use->outputs[0];
    const plait_cpu_simd *simd = plait_cpu_simd_for(call->features);
    float magnitude = (float)(rotary->magnitude * use->attrs[PLAIT_ROPE_ATTN_FACTOR].f);
    plait_cpu_place at = plait_cpu_place_of(y, begin);
    for (int64_t row = begin; row < end; row++, plait_cpu_place_next(y, &at)) {
        if (row == begin || at.i1 == 0)
            simd->angles(strip->w, strip->n, plait_ref_get_id(&use->inputs[1], at.i2, 0), magnitude,
                         strip->cosines, strip->sines);
        turn_head(simd, rotary, strip, plait_cpu_row_at(x, at), plait_cpu_row_at(y, at));
    }
}

/* Elements behind the turned ones stay as they are. */
static void copy_rest(const plait_op_use *use, int64_t n_rot, int64_t begin, int64_t end) {
    const plait_operand *x = &use->inputs[0], *y = &use->outputs[0];
    if (n_rot == x->dims[0] || x->data == y->data) return;
    plait_cpu_place at = plait_cpu_place_of(y, begin);
    for (int64_t row = begin; row < end; row++, plait_cpu_place_next(y, &at))
        memcpy((float *)plait_cpu_row_at(y, at) + n_rot, (const float *)plait_cpu_row_at(x, at) + n_rot,
               (size_t)(x->dims[0] - n_rot) * sizeof(float));
}

/* Strip by strip over all rows rather than row by row: w is made once for the run. */
static void rope_rows(const plait_cpu_call *call, int64_t begin, int64_t end) {
    plait_rotary rotary;
    rope_strip strip;
    if (begin >= end) return;
    plait_rotary_init(&rotary, call->use.attrs, call->use.inputs[0].dims[0]);
    for (strip.first = 0; strip.first < rotary.n_rot / 2; strip.first += STRIP) {
        strip.n = plait_min_i64(STRIP, rotary.n_rot / 2 - strip.first);
        fill_strip(&call->use, &rotary, &strip);
        turn_strip(call, &rotary, &strip, begin, end);
    }
    copy_rest(&call->use, rotary.n_rot, begin, end);
}

static bool rope_accepts(const plait_op_use *use, const plait_encoding *encodings, char *reason,
                         size_t reason_bytes) {
    (void)encodings;
    return plait_cpu_rows_accepted(use, reason, reason_bytes);
}

/* A token's heads share its angles, so they are one unit. */
static int64_t token_units(const plait_cpu_call *call, int phase) {
    const plait_operand *y = &call->use.outputs[0];
    (void)phase;
    return y->dims[0] > 0 && y->dims[1] > 0 ? y->dims[2] : 0;
}

static void rope_run(const plait_cpu_call *call, int phase, int64_t begin, int64_t end, int thread) {
    int64_t heads = call->use.outputs[0].dims[1];
    (void)phase, (void)thread;
    rope_rows(call, begin * heads, end * heads);
}

/* The factor of op/rope.c in float64, rounded once, for every head of a token. */
static void position_scale_rows(const plait_cpu_call *call, int64_t begin, int64_t end) {
    const plait_op_use *use = &call->use;
    const plait_operand *x = &use->inputs[0], *y = &use->outputs[0];
    const plait_cpu_simd *simd = plait_cpu_simd_for(call->features);
    int64_t length = use->attrs[PLAIT_POSITION_SCALE_LENGTH].i;
    float factor = 1.0f;
    if (begin >= end) return;
    plait_cpu_place at = plait_cpu_place_of(y, begin);
    for (int64_t row = begin; row < end; row++, plait_cpu_place_next(y, &at)) {
        int64_t position = plait_max_i64(plait_ref_get_id(&use->inputs[1], at.i2, 0), 0);
        if (row == begin || at.i1 == 0)
            factor = (float)(1.0 + use->attrs[PLAIT_POSITION_SCALE_SCALE].f *
                                       log((double)(position / length) + 1.0));
        simd->unary(PLAIT_CPU_SCALE, factor, plait_cpu_row_at(x, at), x->dims[0], plait_cpu_row_at(y, at));
    }
}

static void position_scale_run(const plait_cpu_call *call, int phase, int64_t begin, int64_t end,
                               int thread) {
    int64_t heads = call->use.outputs[0].dims[1];
    (void)phase, (void)thread;
    position_scale_rows(call, begin * heads, end * heads);
}

#define ROPE(op_name)                                                                                        \
    {                                                                                                        \
        .op = PLAIT_OP_##op_name, .name = #op_name, .n_phases = 1, .accepts = rope_accepts,                  \
        .units = token_units, .run = op_name##_run, .run_rows = op_name##_rows                               \
    }

const plait_cpu_kernel plait_cpu_rope_kernels[] = {
    ROPE(rope),
    ROPE(position_scale),
    {.name = NULL},
};
