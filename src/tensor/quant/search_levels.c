/* The search for super-blocks whose sub-blocks have integer multiples of one fp16 scale (Q3_K, Q6_K, IQ4_XS).
 * See search.h.
 *
 * Each sub-block's best real scale is found exactly, for either sign. The common scale d is then tried at many
 * places; for each, every sub-block takes the best of the levels around its real optimum, and least squares
 * over the codes that result proposes the next d.
 *
 * Not here: sub-blocks with minimums (search_affine.c). Invariant: the error of a state is that of its fp16 d and its
 * integer levels, as the file will have them. */
#include "tensor/quant/search.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>

enum { MAX_SUBS = 16, N_STEPS = 26, N_NEAR = 16, N_FINALISTS = 4, N_NEIGHBOURS = 8 };

/* Filled once for a super-block; nothing in it depends on d. */
typedef struct levels_search {
    const plait_levels_format *format;
    const plait_search_input *in;
    int n_subs;
    double optimum[MAX_SUBS][2]; /* best scale > 0 and best scale < 0; 0: none */
    int better[MAX_SUBS];        /* which of the two */
} levels_search;

typedef struct levels_state {
    uint16_t bits;
    double d, error;
    int levels[MAX_SUBS];
} levels_state;

/* One level of one sub-block: keeps it when it lowers *error. Levels out of range are passed over. *error is that of
 * the best level so far; state->levels[b] belongs to it. */
static void try_level(const levels_search *p, int b, int level, levels_state *state, float *error) {
    const plait_levels_format *f = p->format;
    if (level < f->level_min || level > f->level_max) return;
    float e = plait_search_scale_error(&f->book, p->in->x + b * f->sub_elems, p->in->w + b * f->sub_elems,
                                       f->sub_elems, (float)(level * state->d));
    if (e < *error) {
        *error = e;
        state->levels[b] = level;
    }
}

/* Levels around the optimum of one side, `window` beyond the two nearest. Returns false when the optimum is out of
 * reach. Side 0 is scales above 0, side 1 below. */
static bool try_side(const levels_search *p, int b, int side, int window, levels_state *state, float *error) {
    if (p->optimum[b][side] == 0 || state->d == 0) return true;
    double wanted = p->optimum[b][side] / state->d;
    double at = fmin(fmax(wanted, p->format->level_min), p->format->level_max);
    int below = (int)floor(at);
    for (int level = below - window; level <= below + 1 + window; level++)
        try_level(p, b, level, state, error);
    return at == wanted;
}

/* Chooses all levels for the scale d and keeps the result in *best when it is better. `thorough`: always looks at both
 * signs of each sub-block's scale (one code range is longer than the other), and further. Gives up as soon as the error
 * exceeds the best: later sub-blocks cannot lower it. Level 0 is always tried: a sub-block that no level serves is best
 * left at zero. */
static void try_scale(const levels_search *p, double d, bool thorough, levels_state *best) {
    levels_state now = {.error = 0};
    now.bits = plait_search_f16(d, p->in->unit, &now.d);
    for (int b = 0; b < p->n_subs && now.error < best->error; b++) {
        float error = FLT_MAX;
        try_level(p, b, 0, &now, &error);
        bool reached = try_side(p, b, p->better[b], thorough, &now, &error);
        if (thorough || !reached) try_side(p, b, !p->better[b], 1, &now, &error);
        now.error += error;
    }
    if (now.error < best->error) *best = now;
}

/* The d that suits the codes of a state best; 0 when they are all zero. Codes are recomputed, not kept: a state is
 * small, and few of them get here. Elements of sub-blocks with level 0 have no say. */
static double least_squares(const levels_search *p, const levels_state *state) {
    const plait_levels_format *f = p->format;
    double xc = 0, cc = 0;
    for (int i = 0; i < p->in->n; i++) {
        int level = state->levels[i / f->sub_elems];
        double s = level * state->d;
        if (s == 0) continue;
        double c = level * (double)plait_codebook_value(
                               &f->book, plait_codebook_nearest(&f->book, (float)(p->in->x[i] / s)));
        xc += p->in->w[i] * p->in->x[i] * c;
        cc += p->in->w[i] * c * c;
    }
    return cc > 0 ? xc / cc : 0;
}

/* The step-th place to look for |d|. `least` is where the largest level and the largest code just reach the largest
 * value; `ample` is where the largest level gives what the neediest sub-block would like best. Most steps go to the
 * surroundings of least, the others lead up to ample: sub-blocks that hold one peak like few codes, but then the
 * steps are coarse for all the others. */
static double place_of_step(double least, double ample, int step) {
    if (step < N_NEAR) return least * (0.92 + 0.6 * step / (N_NEAR - 1));
    double from = least * 1.52, to = fmax(ample * 1.4, from * 1.1);
    return from * pow(to / from, (double)(step - N_NEAR + 1) / (N_STEPS - N_NEAR));
}

/* The fp16 d under which some code at some level meets the value of largest magnitude most exactly: where one value
 * outweighs all, or all are equal, the rounding of d is what matters. Only the upper half of the levels: with a lower
 * one at the peak d would be coarser than it has to be. */
static double luckiest_scale(const levels_search *p, double peak) {
    const plait_levels_format *f = p->format;
    double best = 0, least = DBL_MAX;
    for (int k = 0; k < f->book.n; k++)
        for (int level = f->level_max; level > f->level_max / 2; level--) {
            double product = (double)level * plait_codebook_value(&f->book, k), d;
            if (product == 0) continue;
            plait_search_f16(peak / product, p->in->unit, &d);
            double off = fabs(peak - d * product);
            if (off < least) {
                least = off;
                best = d;
            }
        }
    return best;
}

/* Scans d and polishes the best few. Odd steps try -d: with codes or levels that are longer on one side the sign
 * matters. Four finalists are kept because the scan is coarse: its best place need not lead to the best d. A finalist
 * takes the place of the worst one. */
static levels_state search_scale(const levels_search *p, double peak, double least, double ample) {
    levels_state finalists[N_FINALISTS], best = {.error = DBL_MAX};
    for (int k = 0; k < N_FINALISTS; k++) finalists[k] = best;
    for (int step = 0; step < 2 * N_STEPS; step++) {
        double d = place_of_step(least, ample, step / 2) * (step % 2 ? -1 : 1);
        levels_state now = {.error = DBL_MAX};
        int worst = 0;
        for (int k = 1; k < N_FINALISTS; k++)
            if (finalists[k].error > finalists[worst].error) worst = k;
        now.error = finalists[worst].error;
        try_scale(p, d, false, &now);
        if (now.error < finalists[worst].error) finalists[worst] = now;
    }
    for (int k = 0; k < N_FINALISTS; k++) {
        if (finalists[k].error == DBL_MAX) continue;
        for (int round = 0; round < 3; round++) {
            double before = finalists[k].error;
            try_scale(p, least_squares(p, &finalists[k]), true, &finalists[k]);
            if (!(finalists[k].error < before)) break;
        }
        if (finalists[k].error < best.error) best = finalists[k];
    }
    try_scale(p, luckiest_scale(p, peak), true, &best);
    for (int steps = -N_NEIGHBOURS; steps <= N_NEIGHBOURS; steps++)
        try_scale(p, plait_search_f16_beside(best.d, p->in->unit, steps), false, &best);
    return best;
}

/* levels gets one entry for each sub-block, codes one for each element. Codes are chosen for the rounded product of
 * level and d. */
uint16_t plait_search_levels(const plait_levels_format *format, const plait_search_input *in, int8_t *levels,
                             uint8_t *codes) {
    levels_search p = {.format = format, .in = in, .n_subs = in->n / format->sub_elems};
    plait_scale_range all = {.low = 0, .high = INFINITY, .unit = 0};
    double largest = 0, gain[2];
    for (int b = 0; b < p.n_subs; b++) {
        const float *x = in->x + b * format->sub_elems, *w = in->w + b * format->sub_elems;
        for (int side = 0; side < 2; side++)
            p.optimum[b][side] = plait_search_scale_signed(&format->book, x, w, format->sub_elems,
                                                           side ? -1 : 1, all, &gain[side]);
        p.better[b] = gain[1] > gain[0];
        largest = fmax(largest, fabs(p.optimum[b][p.better[b]]));
    }
    double peak = 0, code_max = 0;
    for (int i = 0; i < in->n; i++)
        if (fabs((double)in->x[i]) > fabs(peak)) peak = in->x[i];
    for (int k = 0; k < format->book.n; k++)
        code_max = fmax(code_max, abs(plait_codebook_value(&format->book, k)));
    double least = fabs(peak) / (code_max * format->level_max);
    levels_state best = search_scale(&p, peak, least, largest / format->level_max);
    for (int i = 0; i < in->n; i++) {
        int b = i / format->sub_elems;
        double s = best.levels[b] * best.d;
        levels[b] = (int8_t)best.levels[b];
        codes[i] = (uint8_t)plait_codebook_nearest(&format->book, s != 0 ? (float)(in->x[i] / s) : 0);
    }
    return best.bits;
}
