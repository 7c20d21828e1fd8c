/* room: conformance */
/* What the cpu device fuses: for each pattern the number of groups and of values that never exist, and the bytes of
 * the fused run against those of the nodes one by one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "base/size.h"
#include "conformance/built.h"
#include "conformance/fill.h"
#include "op/attrs.h"
#include "op/reference.h"

enum { K = 256, BOUND = 5, EXPERTS = 60, BEST = 6 };

typedef struct pattern {
    plait_conf conf;
    plait_conf_work w;
    plait_dtype weights;
} pattern;

static plait_extent tokens(int axis) {
    return (plait_extent){0, axis, 1, 0, 1};
}

static int tensor(pattern *p, plait_dtype dtype, int64_t d0, int64_t d1, bool per_token) {
    plait_operand o = {.dtype = dtype, .dims = {d0, d1, 1, 1}};
    assert_true(plait_operand_make_dense(&o));
    int t = plait_conf_tensor_add(&p->w, &o, per_token ? tokens(1) : PLAIT_CONF_FIXED, 0, !per_token);
    assert_true(t >= 0);
    return t;
}

static int node(pattern *p, plait_op_id op, int a, int b) {
    int inputs[2] = {a, b};
    plait_op_use use;
    plait_op_use_init(&use, plait_op_get(op));
    if (op == PLAIT_OP_top_k)
        use.attrs[PLAIT_TOP_K_K].i = BEST;
    else if (use.op->n_attrs)
        use.attrs[0].f = 0.5;
    int t = plait_conf_apply(&p->w, &use, b < 0 ? 1 : 2, inputs, tokens(1));
    if (t < 0) fail_msg("%s", plait_error_message());
    return t;
}

static int x_of(pattern *p) {
    return tensor(p, PLAIT_F32, K, BOUND, true);
}
static int product(pattern *p, int64_t m, int x) {
    return node(p, PLAIT_OP_matmul, tensor(p, p->weights, K, m, false), x);
}
static int norm(pattern *p, int x) {
    return node(p, PLAIT_OP_rms_norm, x, tensor(p, PLAIT_F32, K, 1, false));
}
static void need(pattern *p, int t) {
    plait_conf_need(&p->w, t);
}

/* ---- patterns ---- */

static void products_of_one_x(pattern *p) {
    int x = x_of(p);
    for (int i = 1; i <= 3; i++) need(p, product(p, 24 * i, x));
}

static void norm_and_products(pattern *p) {
    int x = norm(p, x_of(p));
    for (int i = 1; i <= 3; i++) need(p, product(p, 24 * i, x));
}

static void norm_that_is_kept(pattern *p) {
    int x = norm(p, x_of(p));
    need(p, product(p, 40, x));
    need(p, x);
}

static void gated(pattern *p) {
    int x = norm(p, x_of(p));
    int a = product(p, 200, x), b = product(p, 200, x);
    need(p, node(p, PLAIT_OP_swiglu, a, b));
}

static void gated_other_way(pattern *p) {
    int x = x_of(p);
    int a = product(p, 33, x), b = product(p, 33, x);
    need(p, node(p, PLAIT_OP_geglu, b, a));
}

static void residual(pattern *p) {
    int x = x_of(p);
    need(p, node(p, PLAIT_OP_add, product(p, K, norm(p, x)), x));
}

static void residual_first(pattern *p) {
    int x = x_of(p);
    need(p, node(p, PLAIT_OP_add, x, product(p, K, norm(p, x))));
}

static void bias(pattern *p) {
    need(p, node(p, PLAIT_OP_add, product(p, 50, x_of(p)), tensor(p, PLAIT_F32, 50, 1, false)));
}

static void rows_then_products(pattern *p) {
    int x = x_of(p), y = x_of(p);
    int sum = node(p, PLAIT_OP_add, norm(p, x), node(p, PLAIT_OP_scale, y, -1));
    need(p, product(p, 30, norm(p, sum)));
    need(p, sum);
}

static void elementwise(pattern *p) {
    int x = x_of(p);
    need(p, node(p, PLAIT_OP_silu, node(p, PLAIT_OP_mul, node(p, PLAIT_OP_scale, x, -1), x), -1));
}

/* Read twice: it must exist. */
static void gate_of_itself(pattern *p) {
    int a = product(p, 64, x_of(p));
    need(p, node(p, PLAIT_OP_swiglu, a, a));
}

/* Both addends are products of one group: at most one of them can be the other's epilogue. */
static void sum_of_products(pattern *p) {
    int x = x_of(p);
    int a = product(p, 64, x), b = product(p, 64, x);
    need(p, node(p, PLAIT_OP_add, a, b));
}

/* The residual is made by a product of the same group, later in it. */
static void tangled(pattern *p) {
    int x = x_of(p);
    int a = product(p, K, x), b = product(p, K, x);
    int c = node(p, PLAIT_OP_add, a, x), d = node(p, PLAIT_OP_add, b, c);
    need(p, c);
    need(p, d);
}

/* The choice of experts: probabilities, the best of them with their ids, shares that sum to 1. The ids are a second
 * output; what somebody else reads too stays. Returns the probabilities. */
static int choose_experts(pattern *p) {
    int probabilities = node(p, PLAIT_OP_softmax, product(p, EXPERTS, x_of(p)), -1);
    int best = node(p, PLAIT_OP_top_k, probabilities, -1);
    need(p, best + 1);
    need(p, node(p, PLAIT_OP_softmax, best, -1));
    return probabilities;
}

static void experts(pattern *p) {
    choose_experts(p);
}

static void experts_seen(pattern *p) {
    need(p, choose_experts(p));
}

static const struct {
    const char *name;
    void (*draw)(pattern *p);
    int nodes, groups, elided;
} patterns[] = {
    {"products of one x", products_of_one_x, 3, 1, 0},
    {"norm and products", norm_and_products, 4, 1, 1},
    {"a norm that is kept", norm_that_is_kept, 2, 1, 0},
    {"norm, gate and up, swiglu", gated, 4, 1, 3},
    {"geglu of up and gate", gated_other_way, 3, 1, 2},
    {"norm, product, residual", residual, 3, 1, 2},
    {"residual first", residual_first, 3, 1, 2},
    {"bias", bias, 2, 1, 1},
    {"rows, then products", rows_then_products, 5, 2, 1},
    {"elementwise", elementwise, 3, 1, 2},
    {"gate of a product with itself", gate_of_itself, 2, 2, 0},
    {"sum of two products", sum_of_products, 3, 2, 0},
    {"tangled residuals", tangled, 4, 2, 1},
    {"the choice of experts", experts, 4, 2, 2},
    {"a choice of which more is seen", experts_seen, 4, 2, 1},
};

/* ---- running ---- */

static void fill(pattern *p) {
    for (int t = 0; t < p->w.n_tensors; t++) {
        plait_operand host = plait_conf_host(&p->w, t);
        assert_int_equal(plait_conf_values_fill(&p->conf, &host, PLAIT_CONF_RANDOM, (uint64_t)t + 1, 1),
                         PLAIT_OK);
    }
}

static void assert_equal_bytes(const pattern *p, const unsigned char *a, const unsigned char *b) {
    for (int v = 0; v < p->w.n_values; v++) {
        const plait_conf_value *value = &p->w.values[v];
        if (value->needed) assert_memory_equal(a + value->offset, b + p->w.shown[v], value->size_bytes);
    }
}

static void run_pattern(const char *device, size_t which, plait_dtype weights, int64_t n) {
    pattern p = {.conf = {.item = device}, .weights = weights};
    assert_int_equal(plait_device_create(device, NULL, &p.conf.device), PLAIT_OK);
    p.conf.v = p.conf.device->vtable;
    assert_int_equal(p.conf.v->describe(p.conf.device, &p.conf.info), PLAIT_OK);
    assert_int_equal(p.conf.v->queue_create(p.conf.device, PLAIT_QUEUE_INLINE, &p.conf.queue), PLAIT_OK);
    plait_conf_work_init(&p.w, &p.conf);
    plait_conf_dim(&p.w, BOUND, n);
    patterns[which].draw(&p);
    assert_int_equal(plait_conf_freeze(&p.w), PLAIT_OK);
    fill(&p);
    unsigned char *single = plait_conf_image(&p.w), *fused = plait_conf_image(&p.w);
    assert_int_equal(plait_conf_run_device(&p.w, PLAIT_CONF_SINGLE, single), PLAIT_OK);
    assert_int_equal(plait_conf_run_device(&p.w, PLAIT_CONF_WHOLE, fused), PLAIT_OK);
    assert_int_equal(p.w.n_nodes, patterns[which].nodes);
    if (p.w.n_groups != patterns[which].groups)
        fail_msg("%s: %d groups, expected %d", patterns[which].name, p.w.n_groups, patterns[which].groups);
    if (p.w.n_elided != patterns[which].elided)
        fail_msg("%s: %d values never exist, expected %d", patterns[which].name, p.w.n_elided,
                 patterns[which].elided);
    assert_equal_bytes(&p, single, fused);
    assert_int_equal(plait_conf_run_device(&p.w, PLAIT_CONF_SHARING, fused), PLAIT_OK);
    assert_equal_bytes(&p, single, fused);
    plait_conf_work_deinit(&p.w);
    plait_conf_blocks_destroy(p.conf.blocks);
    p.conf.v->queue_destroy(p.conf.queue);
    p.conf.v->destroy(p.conf.device);
}

static void all_patterns(void **state) {
    static const plait_dtype weights[] = {PLAIT_F32, PLAIT_Q4_0, PLAIT_Q6_K};
    static const int64_t counts[] = {1, BOUND, 0};
    int n = 0;
    (void)state;
    for (size_t i = 0; i < PLAIT_COUNT_OF(patterns); i++) {
        for (size_t w = 0; w < PLAIT_COUNT_OF(weights); w++)
            for (size_t c = 0; c < PLAIT_COUNT_OF(counts); c++, n++)
                run_pattern("cpu:threads=2", i, weights[w], counts[c]);
        run_pattern("cpu:threads=1", i, PLAIT_Q4_0, BOUND);
        run_pattern("cpu:threads=3:isa=portable", i, PLAIT_Q4_0, BOUND);
        n += 2;
    }
    printf("%d runs of %zu patterns\n", n, PLAIT_COUNT_OF(patterns));
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(all_patterns)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
