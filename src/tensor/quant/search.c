/* Loading, codebooks, and the exact search for one scale. See search.h. Not here: offsets (search_affine.c), common
 * scales of sub-blocks (search_levels.c), grids (search_grid.c).
 *
 * The exact search: with scale s, an element takes the code whose value is nearest to x/s. As s falls from infinity to
 * 0, x/s moves away from 0 and crosses the midpoints between codes one after another, at s = x/midpoint. Between two
 * crossings of any element the assignment is constant and the error is a parabola in s, known from two running sums;
 * its best fp16 value is the one nearest to its vertex. So one sorted pass over the crossings visits every assignment
 * that can be optimal.
 *
 * Invariant: sums have a fixed order (lanes, then blocks), so the bytes of an encoded file depend on its numbers alone,
 * not on threads or vector width. */
#include "tensor/quant/search.h"

#include "tensor/float16.h"

#include <float.h>
#include <math.h>
#include <stddef.h>

/* Adding and subtracting this rounds a float below 2^22 to the nearest integer, ties to even. 1.5 * 2^23: the unit in
 * the last place of the sum is then 1, for either sign of the number. */
#define ROUNDER 12582912.0f

/* Added to every weight: elements that do not matter still take the value nearest to theirs. A weight of 0 would leave
 * the codes of such elements to chance. */
#define FAINT 1e-8f

/* 32 elements times 255 codes of Q8_0, or 256 elements times the few of ternary types, stay below. */
enum { MAX_EVENTS = 8192 };

/* NaN becomes `otherwise`, infinities the largest finite number: whatever is computed of them stays finite. */
static float finite_or(float value, float otherwise) {
    if (isnan(value)) return otherwise;
    return value > FLT_MAX ? FLT_MAX : value < -FLT_MAX ? -FLT_MAX : value;
}

/* The power of two p with largest / p in [1, 2); 1 for zero. After dividing by it, squares and sums of a block of any
 * magnitude stay far from overflow and from subnormals; dividing by a power of two loses nothing. */
static double unit_of(float largest) {
    if (largest == 0) return 1;
    int exponent;
    frexp(largest, &exponent);
    return ldexp(1, exponent - 1);
}

/* Importance that is zero everywhere says nothing, and counts as none. Only ratios of weights matter: dividing by a
 * power of two is exact and keeps squares in range. False: all values are zero or NaN, and the block is zero bytes.
 * Negative importance counts as 0. */
bool plait_search_load(plait_search_input *in, const float *x, const float *importance, int n) {
    float largest = 0, heaviest = 0;
    in->n = n;
    for (int i = 0; i < n; i++) {
        in->x[i] = finite_or(x[i], 0);
        largest = fmaxf(largest, fabsf(in->x[i]));
        in->w[i] = importance ? fmaxf(finite_or(importance[i], 0), 0) : 1;
        heaviest = fmaxf(heaviest, in->w[i]);
    }
    in->unit = unit_of(largest);
    in->weighted = importance != NULL && heaviest > 0;
    double weight_unit = unit_of(heaviest);
    for (int i = 0; i < n; i++) {
        in->x[i] = (float)(in->x[i] / in->unit);
        in->w[i] = in->weighted ? (float)(in->w[i] / weight_unit) + FAINT : 1;
    }
    return largest > 0;
}

/* The comparisons are written so that NaN is clamped as well. 65504 is the largest finite fp16; the rest of the search
 * works with the rounded number, so that an error is measured as the file will have it. `unit` turns the scaled value
 * back into the file's; *out_value is in scaled terms again. */
uint16_t plait_search_f16(double value, double unit, double *out_value) {
    double scaled = value * unit;
    if (!(scaled > -65504)) scaled = -65504;
    if (!(scaled < 65504)) scaled = 65504;
    uint16_t bits = plait_f16_from_f32((float)scaled);
    *out_value = plait_f16_to_f32(bits) / unit;
    return bits;
}

/* steps count fp16 numbers away from 0 when positive; the sign stays, and 0 is the end. */
double plait_search_f16_beside(double value, double unit, int steps) {
    double rounded;
    uint16_t bits = plait_search_f16(value, unit, &rounded);
    int magnitude = (bits & 0x7FFF) + steps; /* magnitudes order like their bits */
    magnitude = magnitude < 0 ? 0 : magnitude > 0x7BFF ? 0x7BFF : magnitude;
    return plait_f16_to_f32((uint16_t)((bits & 0x8000) | magnitude)) / unit;
}

int plait_codebook_value(const plait_codebook *book, int code) {
    return book->values ? book->values[code] : book->first + code;
}

/* Evenly spaced codes round ties to even, listed ones down: each of them always the same way. Without a branch, since
 * the codes of neighbours are unrelated. The same choice as list_crossings makes at a midpoint, but for ties, where
 * both codes are equally good. */
int plait_codebook_nearest(const plait_codebook *book, float v) {
    if (!book->values) {
        float at = v - (float)book->first, last = (float)(book->n - 1);
        at = at < 0 ? 0 : at > last ? last : at;
        return (int)(at + ROUNDER - ROUNDER);
    }
    int code = 0;
    for (int k = 0; k + 1 < book->n; k++) code += 2 * v > (float)(book->values[k] + book->values[k + 1]);
    return code;
}

/* The error under a codebook that lists its values: each value is reached from the lowest by adding the steps whose
 * midpoints lie below, a loop that compilers turn into vector code. Sums in the order of elements: this one has no
 * lanes. */
static float listed_error(const plait_codebook *book, const float *x, const float *w, int n, float inverse,
                          float s) {
    float twice[PLAIT_SEARCH_MAX], value[PLAIT_SEARCH_MAX], error = 0;
    for (int i = 0; i < n; i++) {
        twice[i] = 2 * x[i] * inverse;
        value[i] = book->values[0];
    }
    for (int k = 0; k + 1 < book->n; k++) {
        float midpoint = (float)(book->values[k] + book->values[k + 1]);
        float step = (float)(book->values[k + 1] - book->values[k]);
        for (int i = 0; i < n; i++) value[i] += twice[i] > midpoint ? step : 0;
    }
    for (int i = 0; i < n; i++) {
        float off = x[i] - s * value[i];
        error += w[i] * off * off;
    }
    return error;
}

/* Four running sums in place of one: an order that a compiler may keep in a vector register without changing the
 * result. */
float plait_search_scale_error(const plait_codebook *book, const float *x, const float *w, int n, float s) {
    float inverse = s != 0 ? 1 / s : 0;
    if (!(fabsf(inverse) <= FLT_MAX)) inverse = 0; /* a subnormal scale */
    if (!book->values) {
        float first = (float)book->first, last = (float)(book->first + book->n - 1), lanes[4] = {0};
        for (int i = 0; i < n; i += 4)
            for (int l = 0; l < 4; l++) {
                float v = x[i + l] * inverse;
                v = v < first ? first : v;
                v = v > last ? last : v;
                float off = x[i + l] - s * (v + ROUNDER - ROUNDER);
                lanes[l] += w[i + l] * off * off;
            }
        return lanes[0] + lanes[1] + lanes[2] + lanes[3];
    }
    return listed_error(book, x, w, n, inverse, s);
}

/* ---- the sweep ---- */

/* Crossings in the order in which a falling scale meets them: key in the upper 32 bits, element below. */
typedef struct events {
    uint64_t list[MAX_EVENTS], spare[MAX_EVENTS];
    int n;
} events;

/* `scale` is above 0 and rounded to float, which may swap two crossings that are nearly equal: the running sums are
 * then those of an assignment that is off by nothing that matters. */
static void add_event(events *e, double scale, int element) {
    if (e->n == MAX_EVENTS) return;               /* cannot happen within the stated bound */
    uint32_t key = ~plait_f32_bits((float)scale); /* positive floats order like their bits; largest first */
    e->list[e->n++] = (uint64_t)key << 32 | (uint32_t)element;
}

/* Stable radix sort by key, a byte at a time; an even number of passes ends in `list`. Stable, so that equal crossings
 * are visited in the order of elements, on every machine. */
static void sort_events(events *e) {
    uint32_t counts[4][256] = {{0}};
    for (int i = 0; i < e->n; i++)
        for (int b = 0; b < 4; b++) counts[b][e->list[i] >> (32 + 8 * b) & 255]++;
    uint64_t *from = e->list, *to = e->spare;
    for (int b = 0; b < 4; b++) {
        uint32_t at = 0;
        for (int v = 0; v < 256; v++) {
            uint32_t count = counts[b][v];
            counts[b][v] = at;
            at += count;
        }
        for (int i = 0; i < e->n; i++) to[counts[b][from[i] >> (32 + 8 * b) & 255]++] = from[i];
        uint64_t *swap = from;
        from = to;
        to = swap;
    }
}

/* Twice the midpoint between codes k and k + 1. */
static int double_midpoint(const plait_codebook *book, int k) {
    return plait_codebook_value(book, k) + plait_codebook_value(book, k + 1);
}

/* The code of the element at range.high, and its crossings down to range.low. Codes move away from zero_code on the
 * side of y's sign; an element of 0 keeps it at every scale. The walk ends at the codebook's end or below range.low. */
static int list_crossings(const plait_codebook *book, int zero_code, double y, int element,
                          plait_scale_range range, events *e) {
    int start = zero_code, step = y > 0 ? 1 : -1;
    for (int code = zero_code; y != 0; code += step) {
        int edge = y > 0 ? code : code - 1;
        if (edge < 0 || edge + 1 >= book->n) break;
        double scale = 2 * y / double_midpoint(book, edge);
        if (scale < range.low) break;
        if (scale > range.high)
            start = code + step;
        else
            add_event(e, scale, element);
    }
    return start;
}

/* Running sums of a sweep and the best point so far. */
typedef struct sweep {
    double xc, cc; /* sums of w x c and w c^2 over the current codes c */
    double unit, gain, scale;
} sweep;

/* The error of storing zeros falls by s (2 xc - s cc) under scale s; at the vertex s = xc / cc that is xc^2 / cc, which
 * no rounded scale exceeds: where it does not beat the best, the scale need not be rounded. gain is how far the error
 * falls below that of storing zeros; larger is better. unit 0 asks for the real optimum. */
static void consider(sweep *s) {
    if (!(s->xc > 0) || !(s->cc > 0) || s->xc * s->xc <= s->gain * s->cc) return;
    double scale = s->xc / s->cc;
    if (s->unit > 0) plait_search_f16(scale, s->unit, &scale);
    double gain = scale * (2 * s->xc - scale * s->cc);
    if (gain > s->gain) {
        s->gain = gain;
        s->scale = scale;
    }
}

/* Starts with the codes at range.high and moves one element by one code at each crossing: a constant amount of work
 * each, so all in all the number of crossings, which the radix sort passes over four times. sign -1 searches scales
 * below 0 by turning x around. O(n codes) in time; *out_gain 0 and a scale of 0 where no scale gains. */
double plait_search_scale_signed(const plait_codebook *book, const float *x, const float *w, int n, int sign,
                                 plait_scale_range range, double *out_gain) {
    events e;
    uint8_t codes[PLAIT_SEARCH_MAX];
    sweep s = {.unit = range.unit};
    int zero_code = plait_codebook_nearest(book, 0);
    e.n = 0;
    for (int i = 0; i < n; i++) {
        double y = sign * (double)x[i];
        codes[i] = (uint8_t)list_crossings(book, zero_code, y, i, range, &e);
        double c = plait_codebook_value(book, codes[i]);
        s.xc += w[i] * y * c;
        s.cc += w[i] * c * c;
    }
    sort_events(&e);
    consider(&s);
    for (int k = 0; k < e.n; k++) {
        int i = (int)(e.list[k] & 0xFFFFFFFFu);
        double y = sign * (double)x[i], before = plait_codebook_value(book, codes[i]);
        codes[i] = (uint8_t)(codes[i] + (y > 0 ? 1 : -1));
        double after = plait_codebook_value(book, codes[i]);
        s.xc += w[i] * y * (after - before);
        s.cc += w[i] * (after * after - before * before);
        consider(&s);
    }
    *out_gain = s.gain;
    return sign * s.scale;
}

/* A symmetric codebook gives the same errors under -s with all codes negated: one sign is enough. The codes are chosen
 * anew for the rounded scale, under which a neighbour may have become the nearer one. */
uint16_t plait_search_scale(const plait_codebook *book, const plait_search_input *in, plait_scale_range range,
                            uint8_t *codes) {
    double gain, other_gain;
    range.unit = in->unit;
    double scale = plait_search_scale_signed(book, in->x, in->w, in->n, 1, range, &gain);
    if (plait_codebook_value(book, 0) != -plait_codebook_value(book, book->n - 1)) {
        double other = plait_search_scale_signed(book, in->x, in->w, in->n, -1, range, &other_gain);
        if (other_gain > gain) scale = other;
    }
    double rounded;
    uint16_t bits = plait_search_f16(scale, in->unit, &rounded);
    for (int i = 0; i < in->n; i++)
        codes[i] = (uint8_t)plait_codebook_nearest(book, rounded != 0 ? (float)(in->x[i] / rounded) : 0);
    return bits;
}
