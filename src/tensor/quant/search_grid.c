/* Lower envelopes of grid points, and the choice of d and levels over them. See search_grid.h for the idea. Not here:
 * how a format packs points, signs and levels (iq*.c).
 *
 * A unit is the smallest set of groups that chooses together: an alternative (a sign flip that restores parity, or the
 * sign of the shift) is common to its parts, each of which has an envelope for every alternative. Invariant: an
 * envelope's lines start at ascending scales, the first at 0.
 *
 * Costs are relative to storing zeros, so negative where a block gains; loops run over points in the inner dimension,
 * without branches, because 2048 points a group of 8 elements are what encoding spends its time on. */
#include "tensor/quant/search_grid.h"

#include <float.h>
#include <math.h>
#include <string.h>

/* Bounds. 64 units are 256 elements in fours; 128 envelopes are 32 units of two parts under two alternatives (IQ3_XXS).
 * When an envelope is full its last line stays in force above: a legal choice of points, if no longer always the
 * best. */
enum { MAX_LINES = 48, MAX_UNITS = 64, MAX_ENVELOPES = 128, LANES = 8, N_STEPS = 28, N_FINE = 6 };

/* Line k is in force for scales t in [from[k], from[k + 1]), where the cost of the group is t (t b[k] - 2 a[k]). */
typedef struct envelope {
    float from[MAX_LINES], a[MAX_LINES], b[MAX_LINES];
    uint16_t point[MAX_LINES];
    int n, at; /* at: the line in force; only moves up while scales ascend */
} envelope;

/* FREE: one part and one alternative. EVEN: the parts of 8 elements, and as many alternatives where a sign must flip.
 * SHIFT8 and SHIFT32: one part or four, and two alternatives. */
typedef struct unit {
    int first; /* index of its envelopes: alternative by alternative, part by part */
    int n_alternatives, n_parts;
    int first_group; /* of point_elems elements */
} unit;

/* All that the search for one super-block keeps; lives on the stack of plait_search_grid. */
typedef struct grid_search {
    const plait_grid_table *table;
    const plait_search_input *in;
    envelope envelopes[MAX_ENVELOPES];
    unit units[MAX_UNITS];
    int n_envelopes, n_units, units_per_sub;
} grid_search;

/* What a value of d leads to. */
typedef struct grid_state {
    double d, error; /* error: relative to storing zeros */
    double xg, gg;   /* least squares for d with everything else fixed */
    uint8_t levels[16];
} grid_state;

/* ---- lines ---- */

/* The lines of one group that can lie on its envelope. b = square + 2 shift sum + shift^2 sum(w). For a point g with
 * weights w: a = sum(w x g), square = sum(w g^2), sum = sum(w g), over the elements of the group. */
typedef struct line_set {
    int n; /* a multiple of LANES; the last may repeat the first */
    float a[2048], square[2048], sum[2048];
    uint16_t point[2048];
} line_set;

/* Flipping the sign of the element where that costs least: a[j] falls by twice the smallest w x g. With magnitudes
 * every sign is that of x, which is best; where the count of negative ones must be even and is not, one element gives
 * way. Weights and magnitudes are not negative, so the cheapest flip is the smallest product. Which element it is,
 * signs_of finds again for the point that was chosen. */
static void flip_cheapest(const plait_grid_table *t, const float *wx, float *a) {
    float least[2048];
    int n = t->format->n_points;
    for (int j = 0; j < n; j++) least[j] = wx[0] * t->g[0][j];
    for (int i = 1; i < t->format->point_elems; i++)
        for (int j = 0; j < n; j++) {
            float v = wx[i] * t->g[i][j];
            least[j] = v < least[j] ? v : least[j];
        }
    for (int j = 0; j < n; j++) a[j] -= 2 * least[j];
}

/* Without weights b is one of few values, the class of the point, and only the largest a of a class can be on the
 * envelope. That makes 2048 lines a few hundred at most. */
static void reduce_to_classes(const plait_grid_table *t, const float *a, line_set *out) {
    int n = t->n_classes;
    for (int c = 0; c < n; c++) {
        out->a[c] = -FLT_MAX;
        out->square[c] = t->class_square[c];
        out->sum[c] = t->class_sum[c];
    }
    for (int j = 0; j < t->format->n_points; j++) {
        int c = t->class_of[j];
        if (a[j] <= out->a[c]) continue;
        out->a[c] = a[j];
        out->point[c] = (uint16_t)j;
    }
    for (; n % LANES; n++) {
        out->a[n] = out->a[0];
        out->square[n] = out->square[0];
        out->sum[n] = out->sum[0];
        out->point[n] = out->point[0];
    }
    out->n = n;
}

/* The lines of one group. wx: w x (or w |x|) of its elements; flip: the parity of its signs is wrong. With weights b
 * differs from point to point, and every point stays a candidate. Lines come in the order of points in the weighted
 * case and of classes in the other; both are the same on every machine. */
static void gather_lines(const grid_search *s, const float *wx, const float *w, bool flip, line_set *out) {
    const plait_grid_table *t = s->table;
    int n = t->format->n_points, elems = t->format->point_elems;
    float a[2048] = {0};
    for (int i = 0; i < elems; i++)
        for (int j = 0; j < n; j++) a[j] += wx[i] * t->g[i][j];
    if (flip) flip_cheapest(t, wx, a);
    if (!s->in->weighted) {
        reduce_to_classes(t, a, out);
        return;
    }
    out->n = n;
    memcpy(out->a, a, (size_t)n * sizeof *a);
    memset(out->square, 0, (size_t)n * sizeof *out->square);
    memset(out->sum, 0, (size_t)n * sizeof *out->sum);
    for (int i = 0; i < elems; i++)
        for (int j = 0; j < n; j++) {
            float wg = w[i] * t->g[i][j];
            out->square[j] += wg * t->g[i][j];
            out->sum[j] += wg;
        }
    for (int j = 0; j < n; j++) out->point[j] = (uint16_t)j;
}

/* ---- envelopes ---- */

/* Smallest of n values (a multiple of LANES), and among equals the place with the smallest b. Two passes: the minimum
 * in lanes, without looking for its place, then the first place that has it. Among lines that cross at one scale the
 * one that falls fastest stays lowest beyond it, hence the smallest b. */
static int index_of_least(const float *v, const float *b, int n, float *out_value) {
    float lanes[LANES];
    for (int l = 0; l < LANES; l++) lanes[l] = v[l];
    for (int j = LANES; j < n; j += LANES)
        for (int l = 0; l < LANES; l++) lanes[l] = v[j + l] < lanes[l] ? v[j + l] : lanes[l];
    float least = lanes[0];
    for (int l = 1; l < LANES; l++) least = lanes[l] < least ? lanes[l] : least;
    *out_value = least;
    int at = -1;
    for (int j = 0; j < n; j++)
        if (v[j] == least && (at < 0 || b[j] < b[at])) at = j;
    return at < 0 ? 0 : at;
}

/* A line that is lowest at scale t; n is a multiple of LANES. Only the part of the lines that holds the minimum is
 * searched for its place. Of several equally low lines the first: the same on every machine. */
static int lowest_at(const float *a, const float *b, int n, float t) {
    enum { PART = 64 };
    float least = FLT_MAX;
    int from = 0, to = n < PART ? n : PART;
    for (int part = 0; part < n; part += PART) {
        int end = part + PART < n ? part + PART : n;
        float lanes[LANES];
        for (int l = 0; l < LANES; l++) lanes[l] = FLT_MAX;
        for (int j = part; j < end; j += LANES)
            for (int l = 0; l < LANES; l++) {
                float v = t * b[j + l] - 2 * a[j + l];
                lanes[l] = v < lanes[l] ? v : lanes[l];
            }
        for (int l = 1; l < LANES; l++) lanes[0] = lanes[l] < lanes[0] ? lanes[l] : lanes[0];
        if (lanes[0] >= least) continue;
        least = lanes[0];
        from = part;
        to = end;
    }
    for (int j = from; j < to; j++)
        if (t * b[j] - 2 * a[j] <= least) return j;
    return from;
}

/* Drops lines that are nowhere on the envelope. The lowest lines at a few scales, 0 and infinity among them, bound it
 * from above; their minimum is concave, so a line that is below it anywhere is below it at one of its corners. Compacts
 * a, b and point and returns how many remain. Points at equal places on the envelope may both stay: walk decides
 * between them. At t of infinity only b counts, which the call with b in both places finds. */
static int prune(float *a, float *b, uint16_t *point, int n) {
    enum { SAMPLES = 8 };
    float corner_t[SAMPLES], corner_v[SAMPLES];
    int n_corners = 0, kept = 0, before = lowest_at(a, b, n, 0);
    float typical = b[before] > 0 ? a[before] / b[before] : 0;
    for (int k = 1; k < SAMPLES; k++) {
        float t = k == SAMPLES - 1 ? FLT_MAX : typical * 0.6f * (float)(1 << k) / (k > 1 ? 1.5f : 1);
        int next = t == FLT_MAX ? lowest_at(b, b, n, 3) : lowest_at(a, b, n, t);
        if (b[next] >= b[before]) continue;
        corner_t[n_corners] = 2 * (a[before] - a[next]) / (b[before] - b[next]);
        corner_v[n_corners] = corner_t[n_corners] * b[before] - 2 * a[before];
        corner_v[n_corners] +=
            1e-5f * fabsf(corner_v[n_corners]); /* the lines themselves must survive rounding */
        n_corners++;
        before = next;
    }
    if (n_corners == 0) corner_t[0] = corner_v[0] = 0, n_corners = 1;
    float below[2048];
    for (int j = 0; j < n; j++) below[j] = corner_t[0] * b[j] - 2 * a[j] <= corner_v[0] ? 1 : 0;
    for (int k = 1; k < n_corners; k++)
        for (int j = 0; j < n; j++) below[j] = corner_t[k] * b[j] - 2 * a[j] <= corner_v[k] ? 1 : below[j];
    for (int j = 0; j < n; j++) {
        if (below[j] == 0) continue;
        a[kept] = a[j];
        b[kept] = b[j];
        point[kept++] = point[j];
    }
    return kept;
}

/* Walks the envelope of the lines t b - 2 a from t = 0 upwards. n is a multiple of LANES. From the line in force the
 * next is the one that it meets first, among those that fall faster (smaller b): from there on the other is lower. At t
 * = 0 the lowest line is the one of largest a. Linear in n for each line of the envelope. When the envelope has
 * MAX_LINES the rest is left out. Rounding may give a crossing slightly below the last one, so `from` is held to
 * rise. */
static void walk(const float *a, const float *b, const uint16_t *point, int n, envelope *e) {
    float cross[2048], least, from = 0;
    for (int j = 0; j < n; j++) cross[j] = -a[j];
    int at = index_of_least(cross, b, n, &least);
    for (e->n = 0; e->n < MAX_LINES;) {
        float a_at = a[at], b_at = b[at];
        e->from[e->n] = from;
        e->a[e->n] = a_at;
        e->b[e->n] = b_at;
        e->point[e->n++] = point[at];
        for (int j = 0; j < n; j++) {
            float fall = b_at - b[j], t = 2 * (a_at - a[j]) / fall;
            cross[j] = fall > 0 ? t : FLT_MAX;
        }
        at = index_of_least(cross, b, n, &least);
        if (least >= FLT_MAX || b[at] >= b_at) return;
        from = least > from ? least : from;
    }
}

/* The envelope of the lines for one shift (0 for magnitudes); sum_wx and sum_w are those of the group. Shifting all
 * points by c adds c sum(w x) to a, and 2 c sum(w g) + c^2 sum(w) to b: both shifts come from one set of lines. Pruning
 * pays only where there are more lines than it looks at itself. Lines are copied, because pruning moves them and the
 * other shift needs them whole. */
static void build_envelope(const line_set *lines, float shift, float sum_wx, float sum_w, envelope *e) {
    float a[2048], b[2048];
    uint16_t point[2048];
    int n = lines->n;
    for (int j = 0; j < n; j++) {
        a[j] = lines->a[j] + shift * sum_wx;
        b[j] = lines->square[j] + 2 * shift * lines->sum[j] + shift * shift * sum_w;
    }
    memcpy(point, lines->point, (size_t)n * sizeof *point);
    if (n > 8 * LANES) n = prune(a, b, point, n);
    for (; n % LANES; n++) {
        a[n] = a[0];
        b[n] = b[0];
        point[n] = point[0];
    }
    walk(a, b, point, n, e);
}

/* ---- units ---- */

/* Of 8 neighbours; -0 and 0 count as positive. */
static bool odd_signs(const float *x) {
    int n = 0;
    for (int i = 0; i < 8; i++) n += x[i] < 0;
    return n & 1;
}

/* Magnitudes: the alternatives of a unit are the part in which a sign is flipped, when one must be. A flip within a
 * part is chosen point by point (flip_cheapest), so only the part is an alternative. Where a sign must flip, each
 * alternative has one part with flipped lines and the others without, so n_parts^2 envelopes; without a flip
 * n_parts. */
static void add_magnitude_unit(grid_search *s, int first_elem) {
    const plait_grid_format *f = s->table->format;
    bool even = f->signs == PLAIT_GRID_EVEN, flip = even && odd_signs(s->in->x + first_elem);
    unit *u = &s->units[s->n_units++];
    u->first = s->n_envelopes;
    u->first_group = first_elem / f->point_elems;
    u->n_parts = even ? 8 / f->point_elems : 1;
    u->n_alternatives = flip ? u->n_parts : 1;
    s->n_envelopes += u->n_parts * u->n_alternatives;
    line_set lines;
    for (int part = 0; part < u->n_parts; part++) {
        const float *x = s->in->x + first_elem + part * f->point_elems, *w = s->in->w + (x - s->in->x);
        float wx[8];
        for (int i = 0; i < f->point_elems; i++) wx[i] = w[i] * fabsf(x[i]);
        for (int alternative = 0; alternative < u->n_alternatives; alternative++) {
            gather_lines(s, wx, w, flip && part == alternative, &lines);
            build_envelope(&lines, 0, 0, 0, &s->envelopes[u->first + alternative * u->n_parts + part]);
        }
    }
}

/* Shifted points: the alternatives are the two shifts. All parts of a unit take the same shift, hence a sum of costs
 * for each alternative. */
static void add_shift_unit(grid_search *s, int first_elem, int n_parts) {
    unit *u = &s->units[s->n_units++];
    *u = (unit){
        .first = s->n_envelopes, .n_alternatives = 2, .n_parts = n_parts, .first_group = first_elem / 8};
    s->n_envelopes += 2 * n_parts;
    line_set lines;
    for (int part = 0; part < n_parts; part++) {
        const float *x = s->in->x + first_elem + 8 * part, *w = s->in->w + first_elem + 8 * part;
        float wx[8], sum_wx = 0, sum_w = 0;
        for (int i = 0; i < 8; i++) {
            wx[i] = w[i] * x[i];
            sum_wx += wx[i];
            sum_w += w[i];
        }
        gather_lines(s, wx, w, false, &lines);
        for (int alternative = 0; alternative < 2; alternative++)
            build_envelope(&lines, alternative ? -0.125f : 0.125f, sum_wx, sum_w,
                           &s->envelopes[u->first + alternative * n_parts + part]);
    }
}

/* Units in the order of elements; sub-blocks are whole units, because no format's parity or shift crosses a level. */
static void build_units(grid_search *s) {
    const plait_grid_format *f = s->table->format;
    int unit_elems = f->signs == PLAIT_GRID_SHIFT32 ? 32 : f->signs == PLAIT_GRID_FREE ? f->point_elems : 8;
    s->n_units = s->n_envelopes = 0;
    s->units_per_sub = f->sub_elems / unit_elems;
    for (int at = 0; at < s->in->n; at += unit_elems)
        if (f->signs == PLAIT_GRID_SHIFT8 || f->signs == PLAIT_GRID_SHIFT32)
            add_shift_unit(s, at, unit_elems / 8);
        else
            add_magnitude_unit(s, at);
}

/* ---- scales ---- */

/* Least cost of a unit at a scale, and which alternative has it. Scales must not fall from call to call, unless the
 * envelopes are rewound: `at` only moves up, which makes a scan over levels one walk along each envelope. The cost is
 * scale (scale b - 2 a), relative to storing zeros, and so negative where the unit gains. */
static float unit_cost(grid_search *s, const unit *u, float scale, int *out_alternative) {
    float least = FLT_MAX;
    for (int alternative = 0; alternative < u->n_alternatives; alternative++) {
        float cost = 0;
        for (int part = 0; part < u->n_parts; part++) {
            envelope *e = &s->envelopes[u->first + alternative * u->n_parts + part];
            while (e->at + 1 < e->n && e->from[e->at + 1] <= scale) e->at++;
            cost += scale * (scale * e->b[e->at] - 2 * e->a[e->at]);
        }
        if (cost < least) {
            least = cost;
            *out_alternative = alternative;
        }
    }
    return least;
}

static void rewind_envelopes(grid_search *s) {
    for (int k = 0; k < s->n_envelopes; k++) s->envelopes[k].at = 0;
}

/* Sums of w x g and w g^2 over a sub-block at one scale, in terms of the scale's factor. It rewinds the envelopes of
 * the sub-block first, since it is called with scales in any order. a and b of a chosen line are those sums already,
 * for points without the scale. */
static void sub_sums(grid_search *s, int sub, float scale, double factor, grid_state *state) {
    for (int k = 0; k < s->units_per_sub; k++) {
        const unit *u = &s->units[sub * s->units_per_sub + k];
        int alternative = 0;
        for (int part = 0; part < u->n_alternatives * u->n_parts; part++)
            s->envelopes[u->first + part].at = 0;
        unit_cost(s, u, scale, &alternative);
        for (int part = 0; part < u->n_parts; part++) {
            const envelope *e = &s->envelopes[u->first + alternative * u->n_parts + part];
            state->xg += factor * e->a[e->at];
            state->gg += factor * factor * e->b[e->at];
        }
    }
}

/* Chooses the level of each sub-block for d, and keeps the result in *best when it is better. A d that fp16 rounds to 0
 * is passed over, unless nothing was measured yet. Levels rise in the inner loop, so that envelopes are walked upwards;
 * they are rewound for each d, and start again at the lowest level of every sub-block, whose units are its own. `d` is
 * rounded to fp16 first, so the error is that of the file. */
static void try_d(grid_search *s, double d, grid_state *best) {
    const plait_grid_format *f = s->table->format;
    int n_subs = s->in->n / f->sub_elems, ignored;
    grid_state now = {0};
    plait_search_f16(d, s->in->unit, &now.d);
    if (now.d <= 0 && best->error < FLT_MAX) return;
    rewind_envelopes(s);
    for (int sub = 0; sub < n_subs; sub++) {
        float least = FLT_MAX;
        for (int level = 0; level < f->n_levels; level++) {
            float cost = 0, scale = (float)(now.d * f->unit * (2 * level + 1));
            for (int k = 0; k < s->units_per_sub; k++)
                cost += unit_cost(s, &s->units[sub * s->units_per_sub + k], scale, &ignored);
            if (cost < least) {
                least = cost;
                now.levels[sub] = (uint8_t)level;
            }
        }
        now.error += least;
    }
    if (now.error < best->error) *best = now;
}

/* The d that least squares proposes for the choices of a state. The state's xg and gg are left filled; d stays as it
 * was. xg / gg minimises sum w (x - d g')^2 over d, g' being the points with their levels' factors. */
static double propose_d(grid_search *s, grid_state *state) {
    const plait_grid_format *f = s->table->format;
    state->xg = state->gg = 0;
    for (int sub = 0; sub < s->in->n / f->sub_elems; sub++) {
        double factor = f->unit * (2 * state->levels[sub] + 1);
        sub_sums(s, sub, (float)(state->d * factor), factor, state);
    }
    return state->gg > 0 && state->xg > 0 ? state->xg / state->gg : state->d;
}

/* Largest magnitude of a grid value, the shift included. */
static double largest_value(const plait_grid_table *t) {
    float largest = 0;
    for (int j = 0; j < t->format->n_points; j++) largest = fmaxf(largest, fabsf(t->g[0][j]));
    return largest + (t->format->signs >= PLAIT_GRID_SHIFT8 ? 0.125 : 0);
}

/* Scans d geometrically from where the largest level barely reaches half of the largest value to where a middle level
 * suffices for it, then refines around the best: 28 places over a factor of 16, then steps of 0.8 % and 0.2 % around
 * the best and the d of least squares. The cost may have many local minima in d: the fine steps go on from the best
 * place only, and stop when they do not help. */
static void choose_d(grid_search *s, grid_state *best) {
    const plait_grid_format *f = s->table->format;
    double largest = 0;
    for (int i = 0; i < s->in->n; i++) largest = fmax(largest, fabsf(s->in->x[i]));
    double top = largest / (largest_value(s->table) * f->unit * (2 * f->n_levels - 1));
    *best = (grid_state){.error = FLT_MAX};
    for (int step = 0; step < N_STEPS; step++)
        try_d(s, top * 0.25 * pow(2, 4.0 * step / (N_STEPS - 1)), best);
    for (int round = 0; round < 2; round++) {
        double centre = best->d, before = best->error;
        try_d(s, propose_d(s, best), best);
        for (int k = -N_FINE; k <= N_FINE; k++) try_d(s, centre * (1 + 0.008 / (1 + 3 * round) * k), best);
        if (!(best->error < before)) break;
    }
}

/* ---- results ---- */

/* The signs of a unit's elements, bit by bit; one is flipped when they must be even: in the part that the alternative
 * names, the element whose w |x| g is least, as flip_cheapest assumed it for the chosen point. Bit i is element i; a
 * set bit is a negative sign. */
static uint8_t signs_of(grid_search *s, const unit *u, int alternative, const plait_grid_result *out) {
    const plait_grid_format *f = s->table->format;
    const float *x = s->in->x + u->first_group * f->point_elems, *w = s->in->w + (x - s->in->x);
    uint8_t signs = 0;
    for (int i = 0; i < u->n_parts * f->point_elems; i++) signs |= (uint8_t)((x[i] < 0) << i);
    if (f->signs != PLAIT_GRID_EVEN || !odd_signs(x)) return signs;
    int flip = 0;
    float least = FLT_MAX;
    for (int i = 0; i < f->point_elems; i++) {
        int at = alternative * f->point_elems + i;
        float v = w[at] * fabsf(x[at]) * s->table->g[i][out->points[u->first_group + alternative]];
        if (v < least) {
            least = v;
            flip = at;
        }
    }
    return (uint8_t)(signs ^ 1u << flip);
}

/* Points and signs of a unit at its final scale. Envelopes are taken up to the scale, so units come in any order, each
 * once. */
static void store_unit(grid_search *s, const unit *u, float scale, plait_grid_result *out) {
    const plait_grid_format *f = s->table->format;
    int alternative = 0;
    unit_cost(s, u, scale, &alternative);
    for (int part = 0; part < u->n_parts; part++) {
        const envelope *e = &s->envelopes[u->first + alternative * u->n_parts + part];
        out->points[u->first_group + part] = e->point[e->at];
    }
    int first_eight = u->first_group * f->point_elems / 8;
    if (f->signs == PLAIT_GRID_SHIFT8 || f->signs == PLAIT_GRID_SHIFT32)
        for (int part = 0; part < u->n_parts; part++) out->signs[first_eight + part] = (uint8_t)alternative;
    else
        out->signs[first_eight] |=
            (uint8_t)(signs_of(s, u, alternative, out) << (u->first_group * f->point_elems % 8));
}

/* The choices are made anew for the best d and levels, not remembered: remembering them for every d tried would cost
 * more than this one more look. */
void plait_search_grid(const plait_grid_table *table, const plait_search_input *in, plait_grid_result *out) {
    grid_search s;
    grid_state best;
    s.table = table;
    s.in = in;
    build_units(&s);
    choose_d(&s, &best);
    double ignored;
    *out = (plait_grid_result){.d = plait_search_f16(best.d, in->unit, &ignored)};
    memcpy(out->levels, best.levels, sizeof out->levels);
    rewind_envelopes(&s);
    for (int k = 0; k < s.n_units; k++) {
        int level = best.levels[k / s.units_per_sub];
        store_unit(&s, &s.units[k], (float)(best.d * table->format->unit * (2 * level + 1)), out);
    }
}

/* The class with these sums, made when it is the first of its kind. At most PLAIT_GRID_CLASSES, by the grids' own
 * numbers. Sums of small integers are exact in float, so equality is meant. Linear, once for each point and format. */
static int class_of(plait_grid_table *t, float square, float sum) {
    for (int c = 0; c < t->n_classes; c++)
        if (t->class_square[c] == square && t->class_sum[c] == sum) return c;
    t->class_square[t->n_classes] = square;
    t->class_sum[t->n_classes] = sum;
    return t->n_classes++;
}

/* Signed bytes where there are shifts, magnitudes else; magnitudes need no sum of g, since nothing shifts them. */
void plait_grid_table_init(plait_grid_table *table, const plait_grid_format *format) {
    bool is_signed = format->signs == PLAIT_GRID_SHIFT8 || format->signs == PLAIT_GRID_SHIFT32;
    const uint8_t *p = format->points;
    table->format = format;
    table->n_classes = 0;
    for (int j = 0; j < format->n_points; j++) {
        float square = 0, sum = 0;
        for (int i = 0; i < format->point_elems; i++, p++) {
            float g = is_signed ? (float)(int8_t)*p : (float)*p;
            table->g[i][j] = g;
            square += g * g;
            sum += g;
        }
        table->class_of[j] = (uint16_t)class_of(table, square, is_signed ? sum : 0);
    }
}

/* A block whose d came out as 0 stays zero bytes: what the points are does not matter then. importance has one weight
 * for each element, or is NULL. The table is made once for the row; all the working memory lies on the stack. */
void plait_grid_encode(const plait_grid_format *format, plait_grid_pack_fn pack, const float *x,
                       const float *importance, void *blocks, int64_t block_bytes, int64_t n_elems) {
    enum { ELEMS = 256 };
    plait_grid_table table;
    plait_search_input in;
    plait_grid_result result;
    uint8_t *block = blocks;
    plait_grid_table_init(&table, format);
    for (int64_t at = 0; at < n_elems; at += ELEMS, block += block_bytes) {
        memset(block, 0, (size_t)block_bytes);
        if (!plait_search_load(&in, x + at, importance ? importance + at : NULL, ELEMS)) continue;
        plait_search_grid(&table, &in, &result);
        if (result.d & 0x7FFF) pack(&result, block);
    }
}
