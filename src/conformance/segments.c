/* Segments of several nodes, as models have them: the device may fuse what it likes, but the bytes must be those of the
 * nodes run one by one (law 9), with values that share memory where the device said so, for several values of the named
 * dim, 0 among them. Among the segments are some that look like they could be fused and must not be. Not here: single
 * nodes (ops.c).
 *
 * Invariant: only values that somebody needs are compared; what a device leaves out is its own affair. */
#include "base/map.h"
#include "base/size.h"
#include "conformance/built.h"
#include "conformance/fill.h"
#include "conformance/kit.h"
#include "op/attrs.h"
#include "op/reference.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* Sizes that no kernel's blocks divide alike: HIDDEN is whole groups of 16 rows and no whole block of 256. */
enum {
    BOUND = 9,
    WIDTH = 256,
    HIDDEN = 336,
    HEADS = 4,
    KV_HEADS = 2,
    HEAD_DIM = 64,
    PAGE_LEN = 4,
    PAGES = 6
};

/* A segment under construction: shorthands over the bench. A failure sets `failed`, and goes on with tensor 0, so that
 * drawings need no tests. */
typedef struct sketch {
    plait_conf_work *w;
    plait_dtype weights;
    const plait_encoding_offer *offer; /* NULL: file form */
    bool failed;
} sketch;

/* Named dim 0, on this axis, as it is. */
static plait_extent tokens(int axis) {
    return (plait_extent){0, axis, 1, 0, 1};
}

static plait_operand dense(plait_dtype dtype, int64_t d0, int64_t d1, int64_t d2, int64_t d3) {
    plait_operand o = {.dtype = dtype, .dims = {d0, d1, d2, d3}};
    plait_operand_make_dense(&o);
    return o;
}

static int keep(sketch *s, int tensor) {
    s->failed |= tensor < 0;
    return tensor < 0 ? 0 : tensor;
}

/* [k] or [k, tokens] of float32. A tensor for all tokens is a weight, such as a norm's. */
static int input(sketch *s, int64_t k, bool per_token) {
    plait_operand o = dense(PLAIT_F32, k, per_token ? BOUND : 1, 1, 1);
    return keep(s, plait_conf_tensor_add(s->w, &o, per_token ? tokens(1) : PLAIT_CONF_FIXED, 0, !per_token));
}

/* The first attribute is all that these segments set. */
static int apply(sketch *s, plait_op_id op, int n, const int *inputs, plait_attr first, plait_extent extent) {
    plait_op_use use;
    plait_op_use_init(&use, plait_op_get(op));
    if (use.op->n_attrs) use.attrs[0] = first;
    return keep(s, plait_conf_apply(s->w, &use, n, inputs, extent));
}

/* In the form that is under test; the offer is for WIDTH x WIDTH and serves other sizes of the type as well. [k, m]
 * times x of k rows: m rows of tokens. */
static int product(sketch *s, int64_t k, int64_t m, int x) {
    plait_operand o = dense(s->weights, k, m, 1, 1);
    int weight = keep(s, plait_conf_tensor_add(s->w, &o, PLAIT_CONF_FIXED, 0, true));
    if (s->offer) plait_conf_encode(s->w, weight, s->offer);
    int inputs[2] = {weight, x};
    return apply(s, PLAIT_OP_matmul, 2, inputs, (plait_attr){0}, tokens(1));
}

static int norm(sketch *s, int64_t k, int x) {
    int inputs[2] = {x, input(s, k, false)};
    return apply(s, PLAIT_OP_rms_norm, 2, inputs, (plait_attr){.f = 1e-5}, tokens(1));
}

static int two(sketch *s, plait_op_id op, int a, int b) {
    int inputs[2] = {a, b};
    return apply(s, op, 2, inputs, (plait_attr){0}, tokens(1));
}

/* 0.75 as first attribute: a factor of scale, a cap of softcap. */
static int one(sketch *s, plait_op_id op, int a) {
    return apply(s, op, 1, &a, (plait_attr){.f = 0.75}, tokens(1));
}

static void need(sketch *s, int tensor) {
    plait_conf_need(s->w, tensor);
}

/* ---- segments ---- */

/* One x, several products, all of them read outside. 17 and 1 rows: less than any tile, so that a group of products has
 * ragged members. */
static void same_input(sketch *s) {
    int x = norm(s, WIDTH, input(s, WIDTH, true));
    need(s, product(s, WIDTH, 48, x));
    need(s, product(s, WIDTH, 17, x));
    need(s, product(s, WIDTH, 1, x));
}

/* The normalised x is an output too. */
static void kept_input(sketch *s) {
    int x = norm(s, WIDTH, input(s, WIDTH, true));
    need(s, product(s, WIDTH, 33, x));
    need(s, x);
}

/* Gate and up, read by the gate alone; then down and the residual. The gate's result is needed as well, so a device
 * that fuses the gate must still write it. */
static void feed_forward(sketch *s, plait_op_id gate) {
    int x = input(s, WIDTH, true), y = norm(s, WIDTH, x);
    int a = product(s, WIDTH, HIDDEN, y), b = product(s, WIDTH, HIDDEN, y);
    int h = two(s, gate, a, b);
    /* HIDDEN is no multiple of every block: bring it back through whole ones. */
    need(s, h);
    need(s, two(s, PLAIT_OP_add, product(s, WIDTH, WIDTH, y), x));
}
static void swiglu(sketch *s) {
    feed_forward(s, PLAIT_OP_swiglu);
}
static void geglu(sketch *s) {
    feed_forward(s, PLAIT_OP_geglu);
}

/* A chain of rows between products, residuals on both sides of add, a bias of one column. */
static void residuals(sketch *s) {
    int x = input(s, WIDTH, true);
    int y = two(s, PLAIT_OP_add, x, product(s, WIDTH, WIDTH, norm(s, WIDTH, x)));
    int z = norm(s, WIDTH, two(s, PLAIT_OP_add, norm(s, WIDTH, product(s, WIDTH, WIDTH, y)), y));
    int biased = two(s, PLAIT_OP_add, product(s, WIDTH, 80, z), input(s, 80, false));
    need(s, one(s, PLAIT_OP_scale, biased));
    need(s, two(s, PLAIT_OP_add, product(s, WIDTH, WIDTH, z), y));
}

/* Elementwise nodes in a row, values that die on the way. `a` is used twice, once at the very end: a chain that takes
 * it over in place must notice. */
static void elementwise(sketch *s) {
    int x = input(s, WIDTH, true), y = input(s, WIDTH, true);
    int a = two(s, PLAIT_OP_mul, one(s, PLAIT_OP_scale, x), y);
    int b = two(s, PLAIT_OP_add, one(s, PLAIT_OP_silu, a), input(s, WIDTH, false));
    need(s, two(s, PLAIT_OP_sub, b, a));
    need(s, one(s, PLAIT_OP_softcap, b));
}

/* Must not be fused, or only with care: a product read twice, a gate of one product with itself, a sum of two
 * products, an addend that comes later in the same group. */
static void traps(sketch *s) {
    int x = norm(s, WIDTH, input(s, WIDTH, true));
    int a = product(s, WIDTH, WIDTH, x), b = product(s, WIDTH, WIDTH, x), c = product(s, WIDTH, WIDTH, x);
    int d = product(s, WIDTH, WIDTH, x), e = product(s, WIDTH, WIDTH, x);
    need(s, two(s, PLAIT_OP_swiglu, a, a));
    int sum = two(s, PLAIT_OP_add, b, c);
    need(s, two(s, PLAIT_OP_add, sum, two(s, PLAIT_OP_add, d, sum)));
    need(s, two(s, PLAIT_OP_add, e, e));
    need(s, product(s, WIDTH, 40, sum));
}

/* ---- attention ---- */

/* A view: the same bytes as heads of a width. */
static int heads(sketch *s, int x, int64_t n_heads) {
    plait_operand o = dense(PLAIT_F32, HEAD_DIM, n_heads, BOUND, 1);
    return keep(s, plait_conf_view(s->w, x, &o, tokens(2), 0));
}

/* Filled by fill, which knows which they are by their order. */
static int ids(sketch *s, int64_t n, bool per_token) {
    plait_operand o = dense(PLAIT_I32, n, 1, 1, 1);
    return keep(s, plait_conf_tensor_add(s->w, &o, per_token ? tokens(0) : PLAIT_CONF_FIXED, 0, false));
}

static int rope(sketch *s, int x, int positions) {
    int inputs[2] = {x, positions};
    return apply(s, PLAIT_OP_rope, 2, inputs, (plait_attr){.i = 0}, tokens(2));
}

/* Needed: it is state, and what was written must be there afterwards. */
static int cache(sketch *s) {
    plait_operand o = dense(PLAIT_F16, HEAD_DIM, PAGE_LEN, KV_HEADS, PAGES);
    int tensor = keep(s, plait_conf_tensor_add(s->w, &o, PLAIT_CONF_FIXED, 0, false));
    need(s, tensor);
    return tensor;
}

/* A whole layer of attention and feed-forward, with rope and a paged cache. The order in which a layer's ids are added:
 * positions, sequences, slots, pages. Rows of the cache that no token was written to hold random numbers, which
 * attention must not read: every sequence's length follows from its positions. */
static void layer(sketch *s) {
    int x = input(s, WIDTH, true);
    int positions = ids(s, BOUND, true), sequences = ids(s, BOUND, true), slots = ids(s, BOUND, true);
    int pages = ids(s, PAGES, false);
    int k_cache = cache(s), v_cache = cache(s);
    int y = norm(s, WIDTH, x);
    int q = rope(s, heads(s, product(s, WIDTH, HEADS * HEAD_DIM, y), HEADS), positions);
    int k = rope(s, heads(s, product(s, WIDTH, KV_HEADS * HEAD_DIM, y), KV_HEADS), positions);
    int v = heads(s, product(s, WIDTH, KV_HEADS * HEAD_DIM, y), KV_HEADS);
    int write_k[3] = {k_cache, k, slots}, write_v[3] = {v_cache, v, slots};
    k_cache = apply(s, PLAIT_OP_kv_write, 3, write_k, (plait_attr){0}, PLAIT_CONF_FIXED);
    v_cache = apply(s, PLAIT_OP_kv_write, 3, write_v, (plait_attr){0}, PLAIT_CONF_FIXED);
    int attention[6] = {q, k_cache, v_cache, positions, sequences, pages};
    int out = apply(s, PLAIT_OP_attention, 6, attention, (plait_attr){0}, tokens(2));
    plait_operand flat = dense(PLAIT_F32, HEADS * HEAD_DIM, BOUND, 1, 1);
    out = keep(s, plait_conf_view(s->w, out, &flat, tokens(1), 0));
    int residual = two(s, PLAIT_OP_add, product(s, HEADS * HEAD_DIM, WIDTH, out), x);
    y = norm(s, WIDTH, residual);
    int h = two(s, PLAIT_OP_swiglu, product(s, WIDTH, 2 * WIDTH, y), product(s, WIDTH, 2 * WIDTH, y));
    need(s, two(s, PLAIT_OP_add, product(s, 2 * WIDTH, WIDTH, h), residual));
}

/* ---- experts ---- */

enum { EXPERTS = 8, USED = 2 };

/* One matrix for each of the EXPERTS, in the form that is under test; `which` has the ids. */
static int expert_product(sketch *s, int64_t k, int64_t m, int x, int which) {
    plait_operand o = dense(s->weights, k, m, EXPERTS, 1);
    int inputs[3] = {keep(s, plait_conf_tensor_add(s->w, &o, PLAIT_CONF_FIXED, 0, true)), x, which};
    if (s->offer) plait_conf_encode(s->w, inputs[0], s->offer);
    return apply(s, PLAIT_OP_expert_matmul, 3, inputs, (plait_attr){0}, tokens(2));
}

/* A whole mixture: the choice, gate and up of one x, down of each expert's own, the sum by shares and the residual. The
 * ids are made on the device. */
static void mixture(sketch *s) {
    int x = input(s, WIDTH, true), y = norm(s, WIDTH, x);
    int logits = product(s, WIDTH, EXPERTS, y);
    /* Values; their ids are the tensor behind. */
    int best = apply(s, PLAIT_OP_top_k, 1, &logits, (plait_attr){.i = USED}, tokens(1));
    int shares = apply(s, PLAIT_OP_softmax, 1, &best, (plait_attr){.f = 1}, tokens(1));
    plait_operand columns = dense(PLAIT_F32, WIDTH, 1, BOUND, 1); /* [k, tokens] as [k, 1, tokens] */
    int shared = keep(s, plait_conf_view(s->w, y, &columns, tokens(2), 0));
    int gate = expert_product(s, WIDTH, WIDTH, shared, best + 1);
    int up = expert_product(s, WIDTH, WIDTH, shared, best + 1);
    int inputs[2] = {gate, up};
    int h = apply(s, PLAIT_OP_swiglu, 2, inputs, (plait_attr){0}, tokens(2));
    int sum = two(s, PLAIT_OP_weighted_sum, expert_product(s, WIDTH, WIDTH, h, best + 1), shares);
    need(s, two(s, PLAIT_OP_add, sum, x));
}

static const struct {
    const char *name;
    void (*draw)(sketch *s);
} segments[] = {
    {"same-input", same_input}, {"kept-input", kept_input}, {"swiglu", swiglu},
    {"geglu", geglu},           {"residuals", residuals},   {"elementwise", elementwise},
    {"traps", traps},           {"layer", layer},           {"mixture", mixture},
};

/* ---- running ---- */

typedef struct segment_case {
    int which;
    plait_dtype weights;
    bool packed;
    int64_t n;
} segment_case;

/* Ids so that token i of one sequence goes to place i: its pages are those of the cache, each shifted by one. The ids
 * of a segment are its I32 tensors, in order. Everything else is random, by a seed of its own. 1.5 / sqrt(k) keeps a
 * product of random columns at about the size of its input. */
static plait_status fill(plait_conf_work *w) {
    int n_ids = 0;
    for (int t = 0; t < w->n_tensors; t++) {
        plait_operand host = plait_conf_host(w, t);
        if (w->tensors[t].shape.dtype != PLAIT_I32) {
            /* Weights shrink with the length of their sums, so that results stay near 1. */
            bool matrix = w->values[w->tensors[t].value].weight && host.dims[1] > 1;
            PLAIT_TRY(plait_conf_values_fill(w->c, &host, PLAIT_CONF_RANDOM, (uint64_t)t + 1,
                                             matrix ? 1.5f / sqrtf((float)host.dims[0]) : 1));
            continue;
        }
        for (int64_t i = 0; i < host.dims[0]; i++) {
            int64_t slot = (i / PAGE_LEN + 1) % PAGES * PAGE_LEN + i % PAGE_LEN;
            int64_t values[] = {i, 0, slot, (i + 1) % PAGES};
            plait_ref_set_id(&host, i, 0, (int32_t)values[n_ids & 3]);
        }
        n_ids++;
    }
    return PLAIT_OK;
}

/* Needed values of both images are the same bytes. Needed values are the segment's results, so a difference here breaks
 * law 9: a fused group gives the bytes of its parts. */
static plait_status compare(const plait_conf_work *w, const unsigned char *single, const unsigned char *fused,
                            const char *how) {
    for (int v = 0; v < w->n_values; v++) {
        const plait_conf_value *value = &w->values[v];
        if (!value->needed) continue;
        PLAIT_CONF_EXPECT(memcmp(single + value->offset, fused + w->shown[v], value->size_bytes) == 0,
                          "value %d of %d differs between %s and its nodes one by one", v, w->n_values, how);
    }
    return PLAIT_OK;
}

/* The reference comes last, for it runs in the host image that every upload comes from. The last SINGLE run puts
 * `shown` back to each value's own place, where the comparison looks. */
static plait_status run_ways(plait_conf *c, plait_conf_work *w) {
    unsigned char *single = plait_conf_image(w), *fused = plait_conf_image(w);
    double limit = 0.1;
    PLAIT_TRY(fill(w));
    PLAIT_TRY(plait_conf_run_device(w, PLAIT_CONF_SINGLE, single));
    PLAIT_TRY(plait_conf_run_device(w, PLAIT_CONF_WHOLE, fused));
    c->result.launch_ns = w->launch_ns;
    if (!c->computes) return PLAIT_OK;
    c->result.hash = plait_conf_hash(w, single);
    PLAIT_TRY(compare(w, single, fused, "the segment"));
    PLAIT_TRY(plait_conf_run_device(w, PLAIT_CONF_SHARING, fused));
    PLAIT_TRY(compare(w, single, fused, "the segment with shared memory"));
    /* And roughly what the reference gives: the ops' own checks are the sharp ones. */
    PLAIT_TRY(plait_conf_run_device(w, PLAIT_CONF_SINGLE, single));
    PLAIT_TRY(plait_conf_run_reference(w));
    for (int t = 0; t < w->n_tensors; t++) {
        if (!w->values[w->tensors[t].value].needed || !w->values[w->tensors[t].value].written) continue;
        plait_operand host = plait_conf_host(w, t);
        double difference = plait_conf_difference(w, t, single, 2 * plait_conf_magnitude(&host) + 1e-3);
        if (difference > c->result.error) c->result.error = difference;
        PLAIT_CONF_EXPECT(difference <= limit, "tensor %d differs from the reference by %.3g", t, difference);
    }
    return PLAIT_OK;
}

/* The packing that a product with such weights gets; UNSUPPORTED when there is none. The first offer, which devices
 * list in order of preference. */
static plait_status best_offer(plait_conf *c, plait_dtype dtype, plait_encoding_offer *out) {
    struct plait_weight_reader reader = {plait_op_get(PLAIT_OP_matmul), 0, true};
    plait_weight_use use = {.dtype = dtype, .dims = {WIDTH, WIDTH, 1, 1}, .n_readers = 1, .readers = &reader};
    int n = 1;
    PLAIT_TRY(plait_conf_may_lack(c, c->v->encodings(c->device, &use, out, &n)));
    if (n == 0) return plait_conf_lack(c, "the device packs no weights of this type");
    return PLAIT_OK;
}

/* A device that lacks an op of the segment lacks the segment. */
static plait_status check_segment(plait_conf *c, void *user) {
    const segment_case *test = user;
    plait_encoding_offer offer;
    plait_conf_work w;
    if (test->packed) PLAIT_TRY(best_offer(c, test->weights, &offer));
    plait_conf_work_init(&w, c);
    plait_conf_dim(&w, BOUND, test->n);
    sketch s = {.w = &w, .weights = test->weights, .offer = test->packed ? &offer : NULL};
    if (w.tensors && w.values && w.nodes) segments[test->which].draw(&s);
    plait_status status = s.failed ? plait_error(PLAIT_INTERNAL, "the segment is refused") : PLAIT_OK;
    if (status == PLAIT_OK) status = plait_conf_all_supported(c, &w);
    if (status == PLAIT_OK) status = plait_conf_freeze(&w);
    if (status == PLAIT_OK) status = run_ways(c, &w);
    plait_conf_work_deinit(&w);
    return status;
}

void plait_conf_segments(plait_conf *c) {
    static const plait_dtype weights[] = {PLAIT_F32, PLAIT_F16, PLAIT_Q8_0, PLAIT_Q4_K, PLAIT_IQ4_NL};
    static const int64_t counts[] = {1, 3, BOUND, 0};
    for (size_t i = 0; i < PLAIT_COUNT_OF(segments); i++)
        for (size_t d = 0; d < PLAIT_COUNT_OF(weights); d++)
            for (int packed = 0; packed < 2; packed++)
                for (size_t n = 0; n < PLAIT_COUNT_OF(counts); n++) {
                    segment_case test = {(int)i, weights[d], packed != 0, counts[n]};
                    char name[80];
                    snprintf(name, sizeof name, "segment/%s/%s/%s/%lld", segments[i].name,
                             plait_dtype_name(weights[d]), packed ? "packed" : "file", (long long)counts[n]);
                    plait_conf_check(c, name, check_segment, &test);
                }
}
