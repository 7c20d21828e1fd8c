/* The kernel of attention. Order of one row (a query head of one token), which no batch, cut or thread changes:
 *
 *   chunks   of whole pages, at least CHUNK_KEYS keys, from position 0 of the sequence on. Each has a softmax state of
 *            its own; states are merged in order of position.
 *   blocks   of PLAIT_CPU_KEYS places inside a chunk. The keys of a block that a row sees, one stretch after the other
 *            where pages are missing between them, give logits, then the new maximum, then weights, which are summed by
 *            place mod 16; older sums are multiplied once; then values are added in order of position.
 *
 * A block in which a row sees no key leaves the row's state alone, and keys that it does not see change nothing, so it
 * does not matter with which other rows a row walks through the cache. Rows that share keys and values (the query
 * heads of a KV head, neighbouring tokens of a
 * sequence) walk together, up to ROWS of them.
 *
 * Few tokens: a unit is (token, KV head, lane), a lane takes every LANES-th chunk and leaves its states in scratch;
 * phase 1 merges. Many tokens: a unit is some tokens of a KV head and merges as it goes. The bytes are the same.
 *
 * Keys and values of F32, F16 and BF16 are read where they lie when dim 0 is whole sixteens, except that many rows
 * have 16-bit ones decoded first; other types are decoded block by block, and dims filled up to sixteens with zeros.
 * Keys that no row of a unit sees are never read. */
#include "device/cpu/kernels/family.h"

#include <math.h>

/* CHUNK_KEYS and KEYS are part of the numbers: where states are merged and sums rescaled shows in the bytes. ROWS,
 * LANES, FEW and DIRECT_ROWS only decide who computes and from where, and may be changed freely. */
enum {
    CHUNK_KEYS = 256,
    ROWS = 64,       /* rows that walk together */
    LANES = 16,      /* units of a token and KV head, few tokens */
    FEW = 4,         /* tokens */
    DIRECT_ROWS = 4, /* up to so many rows read 16-bit keys where they lie */
    KEYS = PLAIT_CPU_KEYS
};

/* What a call's parts have in common. Lengths are in elements. */
typedef struct shape {
    const plait_op_use *use;
    const plait_operand *q, *k, *v, *y, *pages;
    int64_t n, heads, kv_heads, group; /* group: query heads of a KV head */
    int64_t page_len, n_keys, chunk, chunks;
    int64_t d, e; /* filled up to sixteens */
    bool few;
} shape;

/* Rows of q, keys and values are worked on in whole vectors of lanes.h. */
static int64_t sixteens(int64_t n) {
    return (n + 15) / 16 * 16;
}

/* From actual dims, so `few` may differ from launch to launch of one program; both ways give the same bytes. A chunk is
 * as many whole pages as make CHUNK_KEYS keys, so that its bounds are bounds of pages, wherever these lie. */
static shape shape_of(const plait_op_use *use) {
    shape s = {.use = use,
               .q = &use->inputs[PLAIT_ATTENTION_Q],
               .k = &use->inputs[PLAIT_ATTENTION_K],
               .v = &use->inputs[PLAIT_ATTENTION_V],
               .y = &use->outputs[0],
               .pages = &use->inputs[PLAIT_ATTENTION_PAGES]};
    s.n = s.q->dims[2];
    s.heads = s.q->dims[1];
    s.kv_heads = s.k->dims[2];
    s.group = s.kv_heads > 0 ? s.heads / s.kv_heads : 0;
    s.page_len = s.k->dims[1];
    s.n_keys = s.pages->dims[0] * s.page_len;
    s.chunk = s.page_len > 0 ? (CHUNK_KEYS + s.page_len - 1) / s.page_len * s.page_len : CHUNK_KEYS;
    s.chunks = (s.n_keys + s.chunk - 1) / s.chunk;
    s.d = sixteens(s.q->dims[0]);
    s.e = sixteens(s.v->dims[0]);
    s.few = s.n <= FEW;
    return s;
}

/* ---- scratch ---- */

/* One thread's: rows of q and scores, sums of the chunk and of all, a block of keys and of values. */
typedef struct area {
    float *q, *scores, *part_o, *o, *keys, *values; /* floats; each row of its own, filled up to sixteens */
} area;

/* The last 16 keep areas of different threads out of one cache line, and give whole vectors room behind the last
 * row. */
static int64_t area_floats(const shape *s) {
    return ROWS * (s->d + KEYS + 2 * s->e) + KEYS * (s->d + s->e) + 16;
}

/* In the order of the sum in area_floats. */
static area area_of(const shape *s, void *scratch, int thread) {
    area a;
    a.q = (float *)scratch + area_floats(s) * thread;
    a.scores = a.q + ROWS * s->d;
    a.part_o = a.scores + ROWS * KEYS;
    a.o = a.part_o + ROWS * s->e;
    a.keys = a.o + ROWS * s->e;
    a.values = a.keys + KEYS * s->d;
    return a;
}

/* Few tokens: the state of (token, head, chunk), in front of it its sums. A state is two floats, and takes sixteen so
 * that sums begin at lines. */
static int64_t partial_floats(const shape *s) {
    return s->e + 16;
}
static float *partial_at(const shape *s, const plait_cpu_call *call, int64_t token, int64_t head,
                         int64_t chunk) {
    float *first = (float *)call->scratch + area_floats(s) * call->n_threads;
    return first + ((token * s->heads + head) * s->chunks + chunk) * partial_floats(s);
}

/* At the bounds: as many areas as threads, and partials for as many tokens as the first way ever takes. Chunks are
 * counted at the length of the page list, whatever a sequence has used of it. */
static size_t attention_scratch(const plait_op_use *use, int n_threads) {
    shape s = shape_of(use);
    int64_t partials = plait_min_i64(s.n, FEW) * s.heads * s.chunks;
    return (size_t)(area_floats(&s) * n_threads + partials * partial_floats(&s)) * sizeof(float);
}

/* ---- which keys ---- */

/* Keys that a token may see, before pages are looked up: as the op's reference says it (op/attention.c). */
typedef struct range {
    int64_t sequence, first, end;
} range;

/* Keys that a token may see, before pages are looked up: as the op's reference says it (op/attention.c). Sequence -1 is
 * a token that sees none, also after a bad id, which is noted. Every unit of a token asks again: it is a few loads, and
 * no unit depends on another. */
static range range_of(const shape *s, int64_t token) {
    const plait_op_use *use = s->use;
    const range none = {-1, 0, 0};
    int64_t sequence = plait_ref_get_id(&use->inputs[PLAIT_ATTENTION_SEQUENCES], token, 0);
    int64_t position = plait_ref_get_id(&use->inputs[PLAIT_ATTENTION_POSITIONS], token, 0);
    int64_t window = use->attrs[PLAIT_ATTENTION_WINDOW].i;
    bool causal = use->attrs[PLAIT_ATTENTION_CAUSAL].i != 0;
    if (sequence < 0) return none;
    range r = {sequence, 0, s->n_keys};
    bool bad = sequence >= s->pages->dims[1] || position < 0 || (causal && position >= s->n_keys);
    if (!bad && plait_op_has(use, PLAIT_ATTENTION_LENGTHS)) {
        r.end = plait_ref_get_id(&use->inputs[PLAIT_ATTENTION_LENGTHS], sequence, 0);
        bad = r.end < 0 || r.end > s->n_keys;
    }
    if (bad) {
        plait_ref_bad_id(use);
        return none;
    }
    if (causal) r.end = plait_min_i64(r.end, position + 1);
    if (window > 0 && position >= window) r.first = position - window + 1;
    if (window > 0 && r.end - position > window) r.end = position + window;
    if (r.first >= r.end) return none;
    return r;
}

/* ---- a walk: rows of one sequence and one KV head through its keys ---- */

typedef struct walk {
    const shape *s;
    const plait_cpu_simd *simd;
    area a;
    int64_t sequence, kv_head;
    int n_rows;
    int64_t first[ROWS], end[ROWS]; /* what each row sees */
    plait_cpu_softmax part[ROWS], state[ROWS];
    float scale, cap;
    plait_cpu_ahead values_ahead, keys_ahead; /* of this block and the next one; for walks of one call */
    int64_t page_at, page; /* the last page looked up: its place in the list, its number or -1 */
} walk;

/* The page of the key at position t; -1 when it is missing. The last answer is kept, since keys of a page follow each
 * other. Negative numbers are pages that are missing; those beyond the cache are errors, and missing too. */
static int64_t page_of(walk *w, int64_t t) {
    int64_t at = t / w->s->page_len;
    if (at == w->page_at) return w->page;
    w->page_at = at;
    w->page = plait_ref_get_id(w->s->pages, at, w->sequence);
    if (w->page >= w->s->k->dims[3]) {
        plait_ref_bad_id(w->s->use);
        w->page = -1;
    }
    return w->page;
}

/* Keys of a stretch of a block: those [begin, end) after position t, whose pages all exist. */
typedef struct stretch {
    int64_t t;
    int begin, end;
} stretch;

/* How the walk gets at one of k and v. */
typedef struct source {
    const plait_operand *cache;
    float *decoded;
    int64_t filled; /* elements of a row of `decoded` */
    plait_cpu_key_form form;
    bool direct;
} source;

/* `decoded` is the walk's room for a block, for sources that are not read in place. Read in place, 16-bit keys are made
 * wide anew for every tile of rows; decoded first, once for all rows of the walk, which pays for more than
 * DIRECT_ROWS. */
static source source_of(const walk *w, const plait_operand *cache, float *decoded, int64_t filled) {
    source from = {cache, decoded, filled, PLAIT_CPU_KEYS_F32, false};
    bool whole = cache->dims[0] == filled, half = cache->dtype == PLAIT_F16 || cache->dtype == PLAIT_BF16;
    from.direct = whole && (cache->dtype == PLAIT_F32 || (half && w->n_rows <= DIRECT_ROWS));
    if (from.direct && half) from.form = cache->dtype == PLAIT_F16 ? PLAIT_CPU_KEYS_F16 : PLAIT_CPU_KEYS_BF16;
    return from;
}

/* Keys [begin, end) of a block; rows of the cache from `row` on. In one piece where rows follow each other without gaps
 * and are whole sixteens; otherwise row by row, and filled up with zeros, which add +0 to every dot. */
static void decode_keys(const walk *w, const source *from, const char *row, int begin, int end) {
    const plait_operand *cache = from->cache;
    int64_t n = cache->dims[0];
    float *out = from->decoded + begin * from->filled;
    bool together = n == from->filled && cache->strides[1] == plait_dtype_row_bytes(cache->dtype, n);
    if (together && w->simd->decode(cache->dtype, row, out, (end - begin) * n)) return;
    for (int j = begin; j < end; j++, row += cache->strides[1], out += from->filled) {
        if (!w->simd->decode(cache->dtype, row, out, n)) plait_quant_of(cache->dtype)->decode(row, out, n);
        for (int64_t i = n; i < from->filled; i++) out[i] = 0.0f;
    }
}

/* rows[j] for the keys of a stretch: where they lie, or decoded. A stretch may run over several pages, each of which
 * has its own place in the cache. */
static void find_rows(walk *w, const source *from, stretch all, const void **rows) {
    const plait_operand *cache = from->cache;
    int64_t page_len = w->s->page_len;
    for (int j = all.begin; j < all.end;) {
        int64_t offset = (all.t + j) % page_len;
        int stop = (int)plait_min_i64(all.end, j + page_len - offset);
        const char *row = plait_ref_at(cache, 0, offset, w->kv_head, page_of(w, all.t + j));
        if (!from->direct) decode_keys(w, from, row, j, stop);
        for (; j < stop; j++, row += cache->strides[1])
            rows[j] = from->direct ? (const void *)row : from->decoded + j * from->filled;
    }
}

/* The memory of a block's keys: walks of few rows wait for it more than they compute, so they ask early. Only where the
 * block lies in one page. The page that was looked up last is put back, for the look ahead must not disturb the walk's
 * own order. */
static plait_cpu_ahead ahead_of(walk *w, const plait_operand *cache, int64_t t) {
    int64_t page_len = w->s->page_len, page_at = w->page_at, page = w->page;
    plait_cpu_ahead none = {NULL, 0}, ahead = none;
    if (w->n_rows > 4 || t >= w->end[0] || page_len % KEYS != 0) return none;
    int64_t found = page_of(w, t);
    if (found >= 0)
        ahead = (plait_cpu_ahead){plait_ref_at(cache, 0, t % page_len, w->kv_head, found), cache->strides[1]};
    w->page_at = page_at;
    w->page = page;
    return ahead;
}

/* The part of a stretch that rows [row, row + count) see, between the first and the last; empty: begin >= end. Of one
 * row this is exactly what it sees; of several there may be keys in it that some do not see. */
static stretch seen_by(const walk *w, int row, int count, stretch all) {
    stretch seen = {all.t, all.end, all.begin};
    for (int r = row; r < row + count; r++) {
        int begin = (int)plait_max_i64(w->first[r] - all.t, all.begin);
        int end = (int)plait_min_i64(w->end[r] - all.t, all.end);
        if (begin >= end) continue;
        seen.begin = begin < seen.begin ? begin : seen.begin;
        seen.end = end > seen.end ? end : seen.end;
    }
    return seen;
}

/* Weights of up to four rows. Dots are made of all keys that any of the rows sees: those that a row does not see are
 * overwritten or never read. Only the row's own keys enter its maximum and sum, and older sums are multiplied once a
 * stretch, if the maximum has grown (a factor of 1 would change nothing). */
static void stretch_weights(walk *w, const source *k, const void **keys, stretch all, int row, int count) {
    stretch any = seen_by(w, row, count, all);
    if (any.begin >= any.end) return;
    w->simd->dots(w->a.q + row * w->s->d, count, k->form, keys, w->s->d, any.begin, any.end,
                  w->a.scores + row * KEYS, w->values_ahead);
    for (int r = row; r < row + count; r++) {
        float *o = w->a.part_o + r * w->s->e;
        stretch seen = seen_by(w, r, 1, all);
        if (seen.begin >= seen.end) continue;
        float older =
            w->simd->weights(w->a.scores + r * KEYS, seen.begin, seen.end, w->scale, w->cap, &w->part[r]);
        if (older != 1.0f) w->simd->unary(PLAIT_CPU_SCALE, older, o, w->s->e, o);
    }
}

/* Adds the values of keys [begin, end) to rows that all see them. */
static void add_values(const walk *w, const source *v, const void **values, int row, int count, int begin,
                       int end, plait_cpu_ahead ahead) {
    if (begin < end)
        w->simd->sums(w->a.scores + row * KEYS, count, v->form, values, w->s->e, begin, end,
                      w->a.part_o + row * w->s->e, w->s->e, ahead);
}

/* Values for up to four rows: what all see together, before and after that each alone. So each row adds its values in
 * order of position, whichever rows it walks with, and the common part reads each value once for four rows. */
static void stretch_values(const walk *w, const source *v, const void **values, stretch all, int row,
                           int count) {
    const plait_cpu_ahead none = {NULL, 0};
    stretch seen[4];
    int low = 0, high = KEYS;
    for (int r = 0; r < count; r++) {
        seen[r] = seen_by(w, row + r, 1, all);
        if (seen[r].begin >= seen[r].end) seen[r].begin = seen[r].end = 0;
        low = seen[r].begin > low ? seen[r].begin : low;
        high = seen[r].end < high ? seen[r].end : high;
    }
    if (high <= low) low = high = KEYS; /* nothing in common */
    for (int r = 0; r < count; r++)
        add_values(w, v, values, row + r, 1, seen[r].begin, low < seen[r].end ? low : seen[r].end, none);
    add_values(w, v, values, row, count, low, high, w->keys_ahead);
    for (int r = 0; r < count; r++) add_values(w, v, values, row + r, 1, high, seen[r].end, none);
}

/* Keys are decoded, if they are, before the weights, values after them: in the meantime memory can come. */
static void walk_stretch(walk *w, stretch all) {
    source k = source_of(w, w->s->k, w->a.keys, w->s->d), v = source_of(w, w->s->v, w->a.values, w->s->e);
    const void *rows[KEYS];
    find_rows(w, &k, all, rows);
    w->values_ahead = ahead_of(w, w->s->v, all.t);
    w->keys_ahead = ahead_of(w, w->s->k, all.t + KEYS);
    for (int r = 0; r < w->n_rows; r += 4)
        stretch_weights(w, &k, rows, all, r, w->n_rows - r < 4 ? w->n_rows - r : 4);
    find_rows(w, &v, all, rows);
    for (int r = 0; r < w->n_rows; r += 4)
        stretch_values(w, &v, rows, all, r, w->n_rows - r < 4 ? w->n_rows - r : 4);
}

/* The block of n keys at position t: what some row sees of it, in stretches between missing pages. A stretch ends where
 * a page is missing; the missing page is stepped over whole. Where it ends does not depend on the rows, beyond what
 * they see. */
static void walk_block(walk *w, int64_t t, int n) {
    int64_t page_len = w->s->page_len;
    stretch any = seen_by(w, 0, w->n_rows, (stretch){t, 0, n});
    for (int begin = any.begin; begin < any.end;) {
        int end = begin;
        while (end < any.end && page_of(w, t + end) >= 0)
            end += (int)plait_min_i64(page_len - (t + end) % page_len, any.end - end);
        if (begin < end)
            walk_stretch(w, (stretch){t, begin, end});
        else
            end += (int)plait_min_i64(page_len - (t + end) % page_len, any.end - end);
        begin = end;
    }
}

/* One chunk; its states start anew, so that a chunk's state depends on its own keys alone and can be made by any
 * lane. */
static void walk_chunk(walk *w, int64_t chunk) {
    int64_t start = chunk * w->s->chunk, stop = plait_min_i64(start + w->s->chunk, w->s->n_keys);
    for (int r = 0; r < w->n_rows; r++) w->part[r] = (plait_cpu_softmax){-INFINITY, 0.0f};
    memset(w->a.part_o, 0, (size_t)(w->n_rows * w->s->e) * sizeof(float));
    for (int64_t t = start; t < stop; t += KEYS) walk_block(w, t, (int)plait_min_i64(KEYS, stop - t));
}

/* ---- rows ---- */

/* A scale of 0 stands for the usual one. It is rounded to float32 once, here, for every way. */
static void walk_init(walk *w, const shape *s, const plait_cpu_call *call, int thread) {
    const plait_attr *attrs = s->use->attrs;
    double scale = attrs[PLAIT_ATTENTION_SCALE].f;
    w->s = s;
    w->simd = plait_cpu_simd_for(call->features);
    w->a = area_of(s, call->scratch, thread);
    w->scale = (float)(scale != 0 ? scale : 1.0 / sqrt((double)s->q->dims[0]));
    w->cap = (float)attrs[PLAIT_ATTENTION_SOFTCAP].f;
    w->page_at = -1;
}

/* Row number `row` becomes head `head` of a token. Lanes behind q's own are zero: with zeros of the keys they add
 * nothing, whatever is in the memory behind. */
static void put_row(walk *w, int row, int64_t token, int64_t head, const range *r) {
    float *q = w->a.q + row * w->s->d;
    int64_t n = w->s->q->dims[0];
    memcpy(q, plait_ref_at(w->s->q, 0, head, token, 0), (size_t)n * sizeof *q);
    for (int64_t i = n; i < w->s->d; i++) q[i] = 0.0f;
    w->first[row] = r->first;
    w->end[row] = r->end;
    w->state[row] = (plait_cpu_softmax){-INFINITY, 0.0f};
}

/* The positions that any row sees. */
static void seen_by_any(const walk *w, int64_t *out_first, int64_t *out_end) {
    *out_first = w->first[0];
    *out_end = w->end[0];
    for (int r = 1; r < w->n_rows; r++) {
        *out_first = plait_min_i64(*out_first, w->first[r]);
        *out_end = plait_max_i64(*out_end, w->end[r]);
    }
}

/* With a sink the denominator has one more term, and no value: softmax over a key that is nowhere. */
static void write_row(const walk *w, const plait_cpu_softmax *state, const float *o, int64_t token,
                      int64_t head) {
    const plait_operand *sinks = &w->s->use->inputs[PLAIT_ATTENTION_SINKS];
    const float *sink =
        plait_op_has(w->s->use, PLAIT_ATTENTION_SINKS) ? (const float *)sinks->data + head : NULL;
    w->simd->finish(state, sink, o, w->s->y->dims[0],
                    (float *)(void *)plait_ref_at(w->s->y, 0, head, token, 0));
}

static void zero_heads(const shape *s, int64_t token, int64_t head, int64_t count) {
    for (int64_t h = head; h < head + count; h++)
        memset(plait_ref_at(s->y, 0, h, token, 0), 0, (size_t)s->y->dims[0] * sizeof(float));
}

/* ---- many tokens ---- */

/* Tokens of a unit: as many as fill the rows of a walk, fewer when there are few, for the sake of threads: at least 16
 * units a KV head, where there are as many tokens. */
static int64_t unit_tokens(const shape *s) {
    int64_t fill = plait_max_i64(ROWS / plait_max_i64(s->group, 1), 1);
    return plait_max_i64(plait_min_i64(fill, s->n / 16), 1);
}

/* All chunks of a full walk, then its results. Row r is head first_head + (r0 + r) % group of token (r0 + r) / group
 * after `token`. A row merges every chunk, also those in which it saw nothing: such a part changes nothing. */
static void walk_rows(walk *w, int64_t token, int64_t r0) {
    const shape *s = w->s;
    int64_t first, end;
    seen_by_any(w, &first, &end);
    memset(w->a.o, 0, (size_t)(w->n_rows * s->e) * sizeof(float));
    for (int64_t c = first / s->chunk; c * s->chunk < end; c++) {
        walk_chunk(w, c);
        for (int r = 0; r < w->n_rows; r++)
            w->simd->merge(&w->state[r], w->a.o + r * s->e, &w->part[r], w->a.part_o + r * s->e, s->e);
    }
    for (int r = 0; r < w->n_rows; r++)
        write_row(w, &w->state[r], w->a.o + r * s->e, token + (r0 + r) / s->group,
                  w->kv_head * s->group + (r0 + r) % s->group);
}

/* Tokens [begin, end) of one sequence, ranges given for each. More rows than a walk has go in several, over the same
 * keys. */
static void walk_tokens(walk *w, int64_t begin, int64_t end, const range *ranges) {
    int64_t group = w->s->group, rows = (end - begin) * group;
    w->sequence = ranges[0].sequence;
    w->page_at = -1;
    for (int64_t r0 = 0; r0 < rows; r0 += ROWS) {
        w->n_rows = (int)plait_min_i64(ROWS, rows - r0);
        for (int r = 0; r < w->n_rows; r++) {
            int64_t at = (r0 + r) / group;
            put_row(w, r, begin + at, w->kv_head * group + (r0 + r) % group, &ranges[at]);
        }
        walk_rows(w, begin, r0);
    }
}

/* Unit number: KV head, then tile of tokens. A tile is cut where the sequence changes, since rows walk together through
 * one page list. Ranges have room for ROWS tokens, and a tile never has more. */
static void many_unit(const shape *s, walk *w, int64_t unit) {
    int64_t size = unit_tokens(s), tiles = (s->n + size - 1) / size;
    int64_t token = unit % tiles * size, end = plait_min_i64(token + size, s->n);
    w->kv_head = unit / tiles;
    while (token < end) {
        range ranges[ROWS];
        int64_t n = 0;
        while (token + n < end) {
            ranges[n] = range_of(s, token + n);
            if (ranges[n].sequence != ranges[0].sequence) break;
            n++;
        }
        if (ranges[0].sequence < 0)
            for (int64_t i = 0; i < n; i++) zero_heads(s, token + i, w->kv_head * s->group, s->group);
        else
            walk_tokens(w, token, token + n, ranges);
        token += n;
    }
}

/* ---- few tokens ---- */

/* Neighbouring lanes, which are one thread's, take chunks far apart: the bits of the lane in reverse order. Were they
 * neighbours too, the first threads would have all chunks of a short sequence. */
static int64_t lane_start(int64_t lane) {
    return (lane & 1) << 3 | (lane & 2) << 1 | (lane & 4) >> 1 | (lane & 8) >> 3;
}

/* The chunk's sums and states go to scratch, a place for each head of the walk. */
static void few_chunk(walk *w, const plait_cpu_call *call, int64_t token, int64_t head, int64_t chunk) {
    const shape *s = w->s;
    walk_chunk(w, chunk);
    for (int row = 0; row < w->n_rows; row++) {
        float *out = partial_at(s, call, token, head + row, chunk);
        memcpy(out, w->a.part_o + row * s->e, (size_t)s->e * sizeof *out);
        memcpy(out + s->e, &w->part[row], sizeof w->part[row]);
    }
}

/* A lane without chunks does nothing. Its partials are never read, for few_merge asks for the range as well. */
static void few_unit(const shape *s, walk *w, const plait_cpu_call *call, int64_t unit) {
    int64_t lane = unit % LANES, token = unit / LANES / s->kv_heads, last;
    range r = range_of(s, token);
    w->kv_head = unit / LANES % s->kv_heads;
    if (r.sequence < 0) return;
    w->sequence = r.sequence;
    w->page_at = -1;
    last = (r.end - 1) / s->chunk;
    int64_t first = r.first / s->chunk;
    /* the lane's chunks are those congruent to its start */
    first += (lane_start(lane) - first % LANES + LANES) % LANES;
    for (int64_t head = 0; head < s->group && first <= last; head += ROWS) {
        w->n_rows = (int)plait_min_i64(ROWS, s->group - head);
        for (int row = 0; row < w->n_rows; row++)
            put_row(w, row, token, w->kv_head * s->group + head + row, &r);
        for (int64_t c = first; c <= last; c += LANES)
            few_chunk(w, call, token, w->kv_head * s->group + head, c);
    }
}

/* A row's chunks in order of position, as walk_rows merges them. */
static void few_merge(const shape *s, walk *w, const plait_cpu_call *call, int64_t unit) {
    int64_t token = unit / s->heads, head = unit % s->heads;
    range r = range_of(s, token);
    if (r.sequence < 0) {
        zero_heads(s, token, head, 1);
        return;
    }
    plait_cpu_softmax state = {-INFINITY, 0.0f}, part;
    memset(w->a.o, 0, (size_t)s->e * sizeof(float));
    for (int64_t c = r.first / s->chunk; c * s->chunk < r.end; c++) {
        const float *o = partial_at(s, call, token, head, c);
        memcpy(&part, o + s->e, sizeof part);
        w->simd->merge(&state, w->a.o, &part, o, s->e);
    }
    write_row(w, &state, w->a.o, token, head);
}

/* ---- the row of the table ---- */

/* A slice along keys would need partials of the op's merge rule as its result; see the README of this folder. */
static bool whole(const plait_op_use *use, int start, int total, int64_t n) {
    return use->attrs[start].i == 0 && (use->attrs[total].i == 0 || use->attrs[total].i == n);
}

/* Any type of cache that has a decoder. Rows of k and v must be contiguous, pages and heads may lie anywhere. */
static bool attention_accepts(const plait_op_use *use, const plait_encoding *encodings, char *reason,
                              size_t reason_bytes) {
    const plait_operand *k = &use->inputs[PLAIT_ATTENTION_K], *v = &use->inputs[PLAIT_ATTENTION_V];
    const plait_operand *sinks = &use->inputs[PLAIT_ATTENTION_SINKS];
    (void)encodings;
    if (!whole(use, PLAIT_ATTENTION_START_P, PLAIT_ATTENTION_TOTAL_P, k->dims[1]) ||
        !whole(use, PLAIT_ATTENTION_START_C, PLAIT_ATTENTION_TOTAL_C, k->dims[3]))
        return plait_cpu_refuse(reason, reason_bytes, "k and v are slices of pages");
    if (!plait_cpu_row_contiguous(k) || !plait_cpu_row_contiguous(v))
        return plait_cpu_refuse(reason, reason_bytes, "rows of k or v are not contiguous");
    if (plait_op_has(use, PLAIT_ATTENTION_SINKS) && !plait_cpu_row_contiguous(sinks))
        return plait_cpu_refuse(reason, reason_bytes, "sinks are not contiguous");
    return plait_cpu_rows_accepted(use, reason, reason_bytes);
}

/* Phase 1 has work only for few tokens. */
static int64_t attention_units(const plait_cpu_call *call, int phase) {
    shape s = shape_of(&call->use);
    if (s.n == 0 || s.heads == 0 || s.kv_heads == 0) return 0;
    if (!s.few) return phase == 0 ? (s.n + unit_tokens(&s) - 1) / unit_tokens(&s) * s.kv_heads : 0;
    return phase == 0 ? LANES * s.kv_heads * s.n : s.heads * s.n;
}

static void attention_run(const plait_cpu_call *call, int phase, int64_t begin, int64_t end, int thread) {
    shape s = shape_of(&call->use);
    walk w;
    walk_init(&w, &s, call, thread);
    for (int64_t unit = begin; unit < end; unit++) {
        if (phase == 1)
            few_merge(&s, &w, call, unit);
        else if (s.few)
            few_unit(&s, &w, call, unit);
        else
            many_unit(&s, &w, unit);
    }
}

const plait_cpu_kernel plait_cpu_attention_kernels[] = {
    {.op = PLAIT_OP_attention,
     .name = "attention",
     .n_phases = 2,
     .accepts = attention_accepts,
     .scratch_bytes = attention_scratch,
     .units = attention_units,
     .run = attention_run},
    {.name = NULL},
};
