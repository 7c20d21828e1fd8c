/* Searches for a scale and an offset: for one block (Q4_1, Q5_1), and for super-blocks whose sub-blocks have small
 * integer multiples of a common scale and a common minimum (Q2_K, Q4_K, Q5_K). See search.h. Not here: scales without
 * offset, for which the exact sweep of search.c serves; with two unknowns there is none that is affordable.
 *
 * Both alternate between assigning codes and weighted least squares, from many starting ranges, and keep the best state
 * ever measured: a step that rounding makes worse is never kept. Invariant: `error` of a state is what its rounded
 * fields give, summed in fixed order. */
#include "tensor/quant/search.h"

#include <float.h>
#include <math.h>

#define ROUNDER 12582912.0f /* see search.c */

enum { MAX_SUBS = 16 };

/* ---- one block ---- */

/* Nearest code of v in 0..q_max as a float. Ties go to the even code. v may be infinite: it is clamped before it is
 * rounded. NaN compares as not above 0 and becomes 0. */
static inline float code_of(float v, float q_max) {
    v = v > 0 ? v : 0;
    v = v < q_max ? v : q_max;
    return v + ROUNDER - ROUNDER;
}

/* What least squares needs from an assignment of codes. Weighted: w = sum w, wq = sum w q, wqq = sum w q^2, wx = sum w
 * x, wxq = sum w x q. */
typedef struct affine_sums {
    double w, wq, wqq, wx, wxq;
    double error; /* under the scale and offset given */
} affine_sums;

/* 1 / s, and 0 where that is no finite number: then every code is 0. */
static inline float inverse_of(float s) {
    float inverse = s > 0 || s < 0 ? 1 / s : 0;
    return fabsf(inverse) <= FLT_MAX ? inverse : 0;
}

/* One assignment pass: codes q = nearest of (x - o) / s in 0..q_max, and the sums over them. n is a multiple of 4.
 * Floats within the four lanes, doubles over them: an order that compilers can keep in registers and that no width
 * changes. */
static void assign_codes(const float *x, const float *w, int n, int q_max, float s, float o,
                         affine_sums *out) {
    enum { LANES = 4 };
    float inverse = inverse_of(s), last = (float)q_max;
    float aw[LANES] = {0}, aq[LANES] = {0}, aqq[LANES] = {0}, ax[LANES] = {0}, axq[LANES] = {0},
          ae[LANES] = {0};
    for (int i = 0; i < n; i += LANES)
        for (int l = 0; l < LANES; l++) {
            float xi = x[i + l], wi = w[i + l], q = code_of((xi - o) * inverse, last);
            float wq = wi * q, off = xi - (s * q + o);
            aw[l] += wi;
            aq[l] += wq;
            aqq[l] += wq * q;
            ax[l] += wi * xi;
            axq[l] += wq * xi;
            ae[l] += wi * off * off;
        }
    *out = (affine_sums){0};
    for (int l = 0; l < LANES; l++) {
        out->w += aw[l];
        out->wq += aq[l];
        out->wqq += aqq[l];
        out->wx += ax[l];
        out->wxq += axq[l];
        out->error += ae[l];
    }
}

/* Scale and offset that minimise the error of those codes; false when they do not determine both. The 2x2 normal
 * equations of x ~ s q + o. When all codes are (nearly) equal the determinant vanishes against its terms; the bound is
 * far above the rounding of the float sums. */
static bool least_squares(const affine_sums *a, double *out_s, double *out_o) {
    double determinant = a->w * a->wqq - a->wq * a->wq;
    if (!(determinant > 1e-6 * a->w * a->wqq)) return false;
    *out_s = (a->w * a->wxq - a->wx * a->wq) / determinant;
    *out_o = (a->wqq * a->wx - a->wq * a->wxq) / determinant;
    return true;
}

/* The codes of an assignment. */
static void store_codes(const float *x, int n, int q_max, float s, float o, uint8_t *codes) {
    float inverse = inverse_of(s);
    for (int i = 0; i < n; i++) codes[i] = (uint8_t)code_of((x[i] - o) * inverse, (float)q_max);
}

/* Improves (s, o) by rounds of assignment and least squares; *error and *best_s, *best_o keep the best seen. An offset
 * of the forbidden sign is set to 0, and the scale fitted alone. Being no better ends it from the third round on only:
 * the first assignment comes from a guessed range, and what least squares makes of it deserves a look. Alternating
 * descent: with codes fixed the parabola in (s, o) has one minimum, with (s, o) fixed the nearest codes are best.
 * Neither step makes the error larger but for rounding, and both can stand still at a local minimum, hence the many
 * starts. */
static void descend(const float *x, const float *w, int n, int q_max, int offset_sign, double s, double o,
                    double *error, double *best_s, double *best_o) {
    for (int round = 0; round < 4; round++) {
        affine_sums sums;
        if (offset_sign * o < 0) o = 0;
        assign_codes(x, w, n, q_max, (float)s, (float)o, &sums);
        bool better = sums.error < *error;
        if (better) {
            *error = sums.error;
            *best_s = (float)s;
            *best_o = (float)o;
        }
        if (round > 1 && !better) return;
        if (!least_squares(&sums, &s, &o)) return;
        if (offset_sign * o < 0) {
            o = 0;
            s = sums.wqq > 0 ? sums.wxq / sums.wqq : 0;
        }
        if (!(s > 0)) return;
    }
}

/* How much of the range to cut off (or add) at either end, in hundredths; few codes profit from bolder cuts. */
static const int cuts_coarse[] = {-12, 0, 6, 12, 19, 27, 36}, cuts_fine[] = {-4, 0, 4, 8, 13};

/* Best real scale (>= 0) and offset of n elements; offset_sign -1 or +1 forbids offsets of the other sign, 0 allows
 * both. cuts x cuts starts, 49 or 25 of them, of up to four rounds each. Cutting pays with few codes, where giving up
 * an extreme value makes all other steps finer. */
static void fit_affine(const float *x, const float *w, int n, int q_max, int offset_sign, double *out_s,
                       double *out_o) {
    float low = x[0], high = x[0];
    for (int i = 1; i < n; i++) {
        low = x[i] < low ? x[i] : low;
        high = x[i] > high ? x[i] : high;
    }
    if (offset_sign < 0 && low > 0) low = 0;
    if (offset_sign > 0 && low < 0) low = 0;
    double range = (double)high - low, error = DBL_MAX;
    *out_s = 0;
    *out_o = low;
    if (!(range > 0)) return;
    const int *cuts = q_max < 8 ? cuts_coarse : cuts_fine;
    int n_cuts = q_max < 8 ? (int)(sizeof cuts_coarse / sizeof *cuts_coarse)
                           : (int)(sizeof cuts_fine / sizeof *cuts_fine);
    for (int a = 0; a < n_cuts; a++)
        for (int b = 0; b < n_cuts; b++) {
            double from = low + range * cuts[a] / 100, to = high - range * cuts[b] / 100;
            if (from < to)
                descend(x, w, n, q_max, offset_sign, (to - from) / q_max, from, &error, out_s, out_o);
        }
}

/* The state of the search for one block: fp16 numbers and the error they give. */
typedef struct affine_best {
    plait_affine bits;
    double s, o, error;
} affine_best;

/* Measures (s, o) rounded to fp16, and what least squares makes of one of them with the other fixed. Round 0 corrects
 * the scale for the rounded offset, round 1 the offset for the rounded scale; the last one only measures. The codes are
 * assigned anew for each rounded pair, so an error is never that of numbers the file does not hold. */
static void try_affine(const plait_search_input *in, int q_max, double s, double o, affine_best *best) {
    for (int round = 0; round < 3; round++) {
        affine_best now;
        affine_sums sums;
        now.bits.d = plait_search_f16(s, in->unit, &now.s);
        now.bits.m = plait_search_f16(o, in->unit, &now.o);
        assign_codes(in->x, in->w, in->n, q_max, (float)now.s, (float)now.o, &sums);
        now.error = sums.error;
        if (now.error < best->error) *best = now;
        if (!(sums.w > 0)) return;
        s = now.s;
        if (round == 0 && sums.wqq > 0) s = (sums.wxq - now.o * sums.wq) / sums.wqq;
        o = round == 0 ? now.o : (sums.wx - now.s * sums.wq) / sums.w;
    }
}

/* The fp16 number that comes closest to value / k for a k in the upper half of 1..largest: where one value outweighs
 * all, or all are equal, its rounding is what matters. `value` may be negative. */
static double luckiest_quotient(double value, int largest, double unit) {
    double best = 0, least = DBL_MAX;
    for (int k = largest; k > largest / 2; k--) {
        double rounded;
        plait_search_f16(value / k, unit, &rounded);
        double off = fabs(value - rounded * k);
        if (off < least) {
            least = off;
            best = rounded;
        }
    }
    return best;
}

/* A block of equal values has no range: s is 0 then, and the neighbours of s and o in fp16 do the work. */
plait_affine plait_search_affine(const plait_search_input *in, int q_max, uint8_t *codes) {
    double s, o;
    affine_best best = {.error = DBL_MAX};
    float high = -FLT_MAX;
    for (int i = 0; i < in->n; i++) high = in->x[i] > high ? in->x[i] : high;
    fit_affine(in->x, in->w, in->n, q_max, 0, &s, &o);
    for (int steps = -1; steps <= 1; steps++) {
        /* Where the rounding of the offset exceeds the spread of the values, a scale that reaches from a
         * neighbouring offset to them is the better choice. */
        double anchor = plait_search_f16_beside(o, in->unit, steps);
        try_affine(in, q_max, plait_search_f16_beside(s, in->unit, steps), o, &best);
        try_affine(in, q_max, s, anchor, &best);
        try_affine(in, q_max, (high - anchor) / q_max, anchor, &best);
        try_affine(in, q_max, luckiest_quotient(high - anchor, q_max, in->unit), anchor, &best);
    }
    store_codes(in->x, in->n, q_max, (float)best.s, (float)best.o, codes);
    return best.bits;
}

/* ---- super-blocks ---- */

/* Everything that a candidate (d, dmin) decides. */
typedef struct pairs_state {
    plait_pairs bits;
    double d, dmin;
    uint8_t scales[MAX_SUBS], mins[MAX_SUBS];
    double error;
    double uu, uv, vv, xu, xv; /* normal equations of x ~ d u + dmin v, u = scale q, v = -min */
} pairs_state;

/* The real optima of each sub-block are found once for each sign of offsets and serve every candidate (d, dmin). */
typedef struct pairs_search {
    const plait_pairs_format *format;
    const plait_search_input *in;
    int n_subs;
    double s[MAX_SUBS], o[MAX_SUBS]; /* best real scale and offset of each sub-block */
} pairs_search;

/* Nearest level, halves upwards; 0 for NaN. */
static int clamp_level(double v, int max) {
    return !(v > 0) ? 0 : v >= max ? max : (int)(v + 0.5);
}

/* Best minimum for one scale level of a sub-block; false when (scale, min) does not beat *error. With the scale fixed,
 * codes and offset are alternated, at most three times; a minimum seen before ends it. */
static bool try_scale(const pairs_search *p, int b, const pairs_state *state, int scale, affine_sums *sums,
                      int *out_min) {
    const plait_pairs_format *f = p->format;
    const float *x = p->in->x + b * f->sub_elems, *w = p->in->w + b * f->sub_elems;
    double s = scale * state->d, o = p->o[b];
    bool better = false;
    int tried = -1, tried_before = -1;
    for (int round = 0; round < 3; round++) {
        int min = state->dmin != 0 ? clamp_level(-o / state->dmin, f->level_max) : 0;
        if (min == tried || min == tried_before) break;
        affine_sums now;
        assign_codes(x, w, f->sub_elems, f->q_max, (float)s, (float)(-state->dmin * min), &now);
        if (now.error < sums->error) {
            *sums = now;
            *out_min = min;
            better = true;
        }
        tried_before = tried;
        tried = min;
        if (!(now.w > 0)) break;
        o = (now.wx - s * now.wq) / now.w;
    }
    return better;
}

/* Chooses scale and minimum of every sub-block for state->d and state->dmin; fills the rest of the state. Levels of few
 * steps look at two neighbours on either side of the real optimum, since their rounding moves the scale far; six bits
 * need one. The sums for u and v are weighted by the levels, since u = scale q and v = -min for each element. */
static void evaluate_pairs(const pairs_search *p, pairs_state *state) {
    int window = p->format->level_max < 32 ? 2 : 1;
    state->error = state->uu = state->uv = state->vv = state->xu = state->xv = 0;
    for (int b = 0; b < p->n_subs; b++) {
        affine_sums best = {.error = DBL_MAX};
        int min = 0, scale = 0;
        int centre = state->d > 0 ? clamp_level(p->s[b] / state->d, p->format->level_max) : 0;
        for (int level = centre - window; level <= centre + window; level++)
            if (level >= 0 && level <= p->format->level_max && try_scale(p, b, state, level, &best, &min))
                scale = level;
        state->scales[b] = (uint8_t)scale;
        state->mins[b] = (uint8_t)min;
        state->error += best.error;
        state->uu += best.wqq * scale * scale;
        state->uv -= best.wq * scale * min;
        state->vv += best.w * min * min;
        state->xu += best.wxq * scale;
        state->xv -= best.wx * min;
    }
}

/* Measures a candidate and keeps it in *best when it is better. */
static void try_pairs(const pairs_search *p, double d, double dmin, pairs_state *best) {
    pairs_state now;
    now.bits.d = plait_search_f16(d, p->in->unit, &now.d);
    now.bits.dmin = plait_search_f16(dmin, p->in->unit, &now.dmin);
    evaluate_pairs(p, &now);
    if (now.error < best->error) *best = now;
}

/* Least squares for d and dmin with the levels fixed, then for dmin alone with d rounded down and up. u and v are made
 * of the levels and codes of the best state, which stay; try_pairs then chooses them anew. */
static void refine_pairs(const pairs_search *p, pairs_state *best) {
    pairs_state from = *best;
    double determinant = from.uu * from.vv - from.uv * from.uv, d = from.d;
    if (determinant > 1e-9 * from.uu * from.vv)
        d = (from.vv * from.xu - from.uv * from.xv) / determinant;
    else if (from.uu > 0)
        d = (from.xu - from.dmin * from.uv) / from.uu;
    for (int steps = -1; steps <= 1; steps++) {
        double near = plait_search_f16_beside(d, p->in->unit, steps);
        double dmin = from.vv > 0 ? (from.xv - near * from.uv) / from.vv : from.dmin;
        try_pairs(p, near, dmin, best);
    }
}

/* Without minimums, dmin is free to carry the mean error that the rounding of d leaves. */
static void use_idle_min(const pairs_search *p, pairs_state *best) {
    for (int b = 0; b < p->n_subs; b++)
        if (best->mins[b]) return;
    double wx = 0, w = 0;
    for (int b = 0; b < p->n_subs; b++) {
        affine_sums sums;
        assign_codes(p->in->x + b * p->format->sub_elems, p->in->w + b * p->format->sub_elems,
                     p->format->sub_elems, p->format->q_max, (float)(best->d * best->scales[b]), 0, &sums);
        wx += best->d * best->scales[b] * sums.wq - sums.wx;
        w += sums.w;
    }
    if (w > 0) try_pairs(p, best->d, wx / w, best);
}

/* The whole search with offsets of one sign: -1 (dmin >= 0) or +1 (dmin <= 0). The factors spread around where the
 * largest level just serves the neediest sub-block; few bits of level need more of them. */
static void search_pairs_signed(pairs_search *p, int offset_sign, pairs_state *best) {
    static const double factors_few[] = {0.82, 0.9, 0.97, 1, 1.05, 1.15},
                        factors_many[] = {0.95, 0.98, 1, 1.03};
    const plait_pairs_format *f = p->format;
    double largest_s = 0, largest_o = 0;
    for (int b = 0; b < p->n_subs; b++) {
        fit_affine(p->in->x + b * f->sub_elems, p->in->w + b * f->sub_elems, f->sub_elems, f->q_max,
                   offset_sign, &p->s[b], &p->o[b]);
        largest_s = fmax(largest_s, p->s[b]);
        largest_o = fmax(largest_o, fabs(p->o[b]));
    }
    const double *factors = f->level_max < 32 ? factors_few : factors_many;
    int n_factors = f->level_max < 32 ? 6 : 4;
    for (int i = 0; i < n_factors; i++)
        for (int j = 0; j < n_factors; j++) {
            if (largest_o == 0 && j > 0) break;
            try_pairs(p, factors[i] * largest_s / f->level_max,
                      -offset_sign * factors[j] * largest_o / f->level_max, best);
        }
    double lucky_d = luckiest_quotient(largest_s, f->level_max, p->in->unit),
           lucky_dmin = luckiest_quotient(-offset_sign * largest_o, f->level_max, p->in->unit);
    try_pairs(p, lucky_d, best->dmin, best);
    try_pairs(p, lucky_d, lucky_dmin, best);
    try_pairs(p, best->d, lucky_dmin, best);
    for (int round = 0; round < 3; round++) {
        double before = best->error;
        refine_pairs(p, best);
        if (!(best->error < before)) break;
    }
    use_idle_min(p, best);
}

/* Offsets are minimums (dmin >= 0) as the formats mean them. Where nearly all values are positive a minimum would have
 * to be negative: dmin < 0 is legal in the file, and is tried as well. scales and mins get one entry for each
 * sub-block, codes one for each element. */
plait_pairs plait_search_pairs(const plait_pairs_format *format, const plait_search_input *in,
                               uint8_t *scales, uint8_t *mins, uint8_t *codes) {
    pairs_search p = {.format = format, .in = in, .n_subs = in->n / format->sub_elems};
    pairs_state best = {.error = DBL_MAX};
    int n_positive = 0;
    for (int i = 0; i < in->n; i++) n_positive += in->x[i] > 0;
    search_pairs_signed(&p, -1, &best);
    if (n_positive > in->n * 7 / 8) search_pairs_signed(&p, 1, &best);
    for (int b = 0; b < p.n_subs; b++) {
        scales[b] = best.scales[b];
        mins[b] = best.mins[b];
        store_codes(in->x + b * format->sub_elems, format->sub_elems, format->q_max,
                    (float)(best.d * scales[b]), (float)(-best.dmin * mins[b]),
                    codes + b * format->sub_elems);
    }
    return best.bits;
}
