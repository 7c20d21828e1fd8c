/* Kernels of the cpu device (all but products): every example of every op they take, against the reference kernels;
 * the same bytes from every instruction set of this machine, every cut of the units, and by rows; larger cases of the
 * kind that models have; the functions of math.h over the range of float32. */
#include "device/kernel_calls.h"

#include "device/cpu/kernels/simd.h"
#include "op/attrs.h"
#include "op/merge.h"
#include "tensor/float16.h"

/* ---- every example ---- */

/* Float32 rounding of the op's own sums: few operations, so few units. */
static double tolerance_of(const plait_op *op) {
    switch ((int)op->id) {
    case PLAIT_OP_layer_norm: return 2e-6;
    case PLAIT_OP_attention: return 3e-6;
    default: return 1e-6;
    }
}

/* Products of quantised weights round x, so each sum has a bound of its own. */
static void check_bounds(const test_use *t, const plait_operand *want, int which) {
    const plait_operand *y = &t->use.outputs[0];
    double *limits = calloc((size_t)plait_operand_elems(y) + 1, sizeof *limits), *limit = limits;
    assert_non_null(limits);
    plait_op_tolerance(&t->use, 0, limits, t->scratch);
    PLAIT_REF_ROWS(y, i1, i2, i3)
    for (int64_t i0 = 0; i0 < y->dims[0]; i0++, limit++) {
        double off = fabs(test_at(y, i0, i1, i2, i3) - test_at(want, i0, i1, i2, i3));
        if (!(off <= *limit + 1e-6 * fabs(test_at(want, i0, i1, i2, i3))))
            fail_msg("%s example %d: differs by %g, allowed %g", t->use.op->name, which, off, *limit);
    }
    free(limits);
}

/* One output as the reference leaves it, element by element. */
static void check_near(const test_use *t, const plait_operand *want, int which) {
    if (t->use.op->id == PLAIT_OP_expert_matmul) {
        check_bounds(t, want, which);
        return;
    }
    for (int i = 0; i < t->use.n_outputs; i++) {
        double difference = test_difference(&t->use.outputs[i], &want[i]);
        if (difference > tolerance_of(t->use.op))
            fail_msg("%s example %d output %d: differs by %g", t->use.op->name, which, i, difference);
    }
}

static void check_same(const test_use *t, const kept *want, int which, uint32_t features, const char *how) {
    for (int i = 0; i < t->use.n_outputs; i++)
        if (!is_kept(&want[i]))
            fail_msg("%s example %d output %d, features %u: other bytes %s", t->use.op->name, which, i,
                     features, how);
}

static void run_by_rows(const plait_cpu_kernel *kernel, const test_use *t, uint32_t features) {
    plait_cpu_call call = {.use = t->use, .n_threads = 1, .features = features};
    const plait_operand *y = &t->use.outputs[0];
    int64_t rows = y->dims[0] > 0 ? y->dims[1] * y->dims[2] * y->dims[3] : 0;
    kernel->run_rows(&call, rows / 3, rows);
    for (int64_t r = 0; r < rows / 3; r++) kernel->run_rows(&call, r, r + 1);
}

/* All ways to run a use give the bytes that are in its outputs now. */
static void check_ways(test_use *t, const kept *start, int which, int *n_ways) {
    kept want[PLAIT_MAX_OUTPUTS];
    uint32_t sets[3];
    int n_sets = feature_sets(sets);
    for (int i = 0; i < t->use.n_outputs; i++) want[i] = keep(output_memory(t, i));
    for (int s = 0; s < n_sets; s++) {
        const plait_cpu_kernel *kernel = fast_kernel(&t->use, sets[s]);
        for (unit_order order = UNITS_AT_ONCE; order <= UNITS_BY_THREADS; order++, ++*n_ways) {
            for (int i = 0; i < t->use.n_outputs; i++) put_back(&start[i]);
            run_kernel(kernel, &t->use, sets[s], order);
            check_same(t, want, which, sets[s], "in units");
        }
        if (!kernel->run_rows) continue;
        for (int i = 0; i < t->use.n_outputs; i++) put_back(&start[i]);
        run_by_rows(kernel, t, sets[s]);
        check_same(t, want, which, sets[s], "by rows");
        ++*n_ways;
    }
    for (int i = 0; i < t->use.n_outputs; i++) free(want[i].bytes);
}

/* Ops that move bytes or round once give the reference's very bytes. */
static bool is_exact(const plait_op *op) {
    switch ((int)op->id) {
    case PLAIT_OP_kv_write:
    case PLAIT_OP_page_copy:
    case PLAIT_OP_copy:
    case PLAIT_OP_cast:
    case PLAIT_OP_get_rows:
    case PLAIT_OP_argmax:
    case PLAIT_OP_top_k:
    case PLAIT_OP_add:
    case PLAIT_OP_sub:
    case PLAIT_OP_mul:
    case PLAIT_OP_div:
    case PLAIT_OP_relu: return true;
    default: return false;
    }
}

/* A use with data: kernels against the reference. */
static bool check_use(test_use *t, int which, int *n_ways) {
    const plait_cpu_kernel *kernel = fast_kernel(&t->use, 0);
    if (!kernel) return false;
    kept start[PLAIT_MAX_OUTPUTS], exact[PLAIT_MAX_OUTPUTS];
    plait_operand want[PLAIT_MAX_OUTPUTS];
    test_memory copies[PLAIT_MAX_OUTPUTS] = {{0}};
    for (int i = 0; i < t->use.n_outputs; i++) start[i] = keep(output_memory(t, i));
    test_run(t);
    uint32_t reference_error = t->error_word;
    t->error_word = 0;
    for (int i = 0; i < t->use.n_outputs; i++) {
        test_copy(&copies[i], &want[i], &t->use.outputs[i]);
        exact[i] = keep(output_memory(t, i));
        put_back(&start[i]);
    }
    run_kernel(kernel, &t->use, 0, UNITS_AT_ONCE);
    assert_int_equal(t->error_word, reference_error);
    check_near(t, want, which);
    if (is_exact(t->use.op)) check_same(t, exact, which, 0, "than the reference");
    check_ways(t, start, which, n_ways);
    for (int i = 0; i < t->use.n_outputs; i++) {
        free(start[i].bytes);
        free(exact[i].bytes);
        test_release(&copies[i]);
    }
    return true;
}

static void examples_agree_with_the_reference(void **state) {
    (void)state;
    int n_fast = 0, n_slow = 0, n_ways = 0;
    for (int id = 0; id < PLAIT_OP_COUNT; id++) {
        const plait_op *op = plait_op_get((plait_op_id)id);
        test_use t;
        int fast = 0;
        if (op->id == PLAIT_OP_matmul) continue;
        for (int which = 0; test_begin(&t, op, which); which++, test_end(&t)) {
            bool took = check_use(&t, which, &n_ways);
            fast += took;
            n_slow += !took;
        }
        test_end(&t);
        n_fast += fast;
    }
    printf("%d examples on kernels, %d ways; %d only on the reference\n", n_fast, n_ways, n_slow);
    assert_true(n_fast > 120);
}

/* ---- larger cases ---- */

/* A use of dense float32 inputs (dims all zero: absent; an i32 one is marked by dims[3] == -1). */
typedef struct big_case {
    const char *op;
    int64_t dims[3][PLAIT_MAX_RANK];
    plait_example_attr attrs[3];
} big_case;

#define I32_INPUT(n)                                                                                         \
    { n, 1, 1, -1 }

static void begin_big(test_use *t, const big_case *c, uint64_t seed) {
    memset(t, 0, sizeof *t);
    plait_op_use_init(&t->use, plait_op_find(c->op));
    for (int i = 0; i < 3 && c->dims[i][0]; i++) {
        plait_operand *o = &t->use.inputs[i];
        memcpy(o->dims, c->dims[i], sizeof o->dims);
        o->dtype = o->dims[3] < 0 ? PLAIT_I32 : PLAIT_F32;
        if (o->dims[3] < 0) o->dims[3] = 1;
        assert_true(plait_operand_make_dense(o));
        t->use.present |= 1u << i;
        t->use.n_inputs = i + 1;
    }
    for (int a = 0; a < 3 && c->attrs[a].name; a++)
        t->use.attrs[plait_op_attr_index(t->use.op, c->attrs[a].name)] = c->attrs[a].value;
    assert_int_equal(plait_op_infer(&t->use), PLAIT_OK);
    for (int i = 0; i < t->use.n_inputs; i++) {
        test_reserve(&t->inputs[i], &t->use.inputs[i]);
        test_fill(&t->use.inputs[i], seed + (uint64_t)i);
    }
    test_outputs(t);
}

static void models_rows_agree_with_the_reference(void **state) {
    (void)state;
    static const big_case cases[] = {
        {"rms_norm", {{8192, 3, 1, 1}, {8192, 1, 1, 1}}, {{"eps", {.f = 1e-6}}}},
        {"rms_norm", {{130, 8, 5, 1}, {130, 1, 1, 1}}, {{"eps", {.f = 1e-5}}}},
        {"layer_norm", {{1023, 5, 1, 1}, {1023, 1, 1, 1}, {1023, 1, 1, 1}}, {{"eps", {.f = 1e-5}}}},
        {"swiglu", {{14336, 2, 1, 1}, {14336, 2, 1, 1}}, {{0}}},
        {"geglu", {{4099, 2, 1, 1}, {4099, 2, 1, 1}}, {{0}}},
        {"add", {{4099, 3, 2, 1}, {4099, 1, 2, 1}}, {{0}}},
        {"div", {{333, 3, 2, 1}, {1, 3, 1, 1}}, {{0}}},
        {"softmax", {{50257, 2, 1, 1}}, {{"scale", {.f = 20}}}},
        {"argmax", {{262144, 2, 1, 1}}, {{0}}},
        {"top_k", {{262144, 2, 1, 1}}, {{"k", {.i = 256}}}},
        {"top_k", {{16385, 3, 1, 1}}, {{"k", {.i = 1}}}},
        {"top_k", {{70, 3, 1, 1}}, {{"k", {.i = 70}}}},
        {"rope", {{128, 5, 7, 1}, I32_INPUT(7)}, {{"split_halves", {.i = 1}}, {"freq_base", {.f = 5e5}}}},
        {"rope", {{1100, 2, 3, 1}, I32_INPUT(3)}, {{"n_rot", {.i = 1090}}}},
        {"rope", {{1100, 2, 3, 1}, I32_INPUT(3)}, {{"n_rot", {.i = 1090}}, {"split_halves", {.i = 1}}}},
    };
    int n_ways = 0;
    for (size_t c = 0; c < PLAIT_COUNT_OF(cases); c++) {
        test_use t;
        begin_big(&t, &cases[c], 77 + c);
        for (int64_t i = 0; t.use.inputs[1].dtype == PLAIT_I32 && i < t.use.inputs[1].dims[0]; i++)
            plait_ref_set_id(&t.use.inputs[1], i, 0, (int32_t)(i * 166667)); /* up to a million */
        assert_true(check_use(&t, (int)c, &n_ways));
        test_end(&t);
    }
    printf("%zu cases, %d ways\n", PLAIT_COUNT_OF(cases), n_ways);
}

/* Positions up to a million, as exactly as near 0: 1e-6 of the reference. */
static void rope_is_exact_far_out(void **state) {
    (void)state;
    static const int32_t positions[] = {0, 1, 4095, 131071, 999983, 1000000, -5};
    static const double bases[] = {10000, 1e6};
    double worst = 0;
    for (int halves = 0; halves < 2; halves++)
        for (int b = 0; b < 2; b++) {
            big_case c = {"rope",
                          {{128, 3, 7, 1}, I32_INPUT(7)},
                          {{"split_halves", {.i = halves}}, {"freq_base", {.f = bases[b]}}}};
            test_use t;
            plait_operand want;
            test_memory copy = {0};
            begin_big(&t, &c, 3);
            for (int i = 0; i < 7; i++) plait_ref_set_id(&t.use.inputs[1], i, 0, positions[i]);
            test_run(&t);
            test_copy(&copy, &want, &t.use.outputs[0]);
            run_kernel(fast_kernel(&t.use, 0), &t.use, 0, UNITS_AT_ONCE);
            worst = fmax(worst, test_difference(&t.use.outputs[0], &want));
            test_release(&copy);
            test_end(&t);
        }
    printf("rope: %.2g from the reference\n", worst);
    assert_true(worst < 1e-6);
}

/* Equal values, NaNs and infinities: exactly the reference's ids. */
static void best_entries_are_the_references(void **state) {
    (void)state;
    static const float odd[] = {0.0f, -0.0f, 1.0f, NAN, INFINITY, -INFINITY, 1e-40f, -1.0f};
    int n_ways = 0;
    for (int round = 0; round < 40; round++) {
        big_case c = {round % 4 == 0 ? "argmax" : "top_k",
                      {{round < 20 ? 300 : 33000, 2, 1, 1}},
                      {{round % 4 == 0 ? NULL : "k", {.i = 1 + round * 7}}}};
        test_use t;
        begin_big(&t, &c, (uint64_t)round);
        float *x = t.use.inputs[0].data;
        uint64_t seed = (uint64_t)round;
        int64_t kinds = round % 3 == 0 ? 8 : round % 3 == 1 ? 4 : 400;
        for (int64_t i = 0; i < 2 * t.use.inputs[0].dims[0]; i++) {
            int64_t which = plait_example_random(&seed, kinds);
            if (which < 8) x[i] = odd[which];
            if (round == 39) x[i] = NAN;
        }
        assert_true(check_use(&t, round, &n_ways));
        test_end(&t);
    }
    printf("%d ways\n", n_ways);
}

/* ---- functions ---- */

typedef double exact_fn(double x);

static double exact_silu(double x) {
    return x / (1 + exp(-x));
}
static double exact_sigmoid(double x) {
    return 1 / (1 + exp(-x));
}
static double exact_gelu(double x) {
    return x / (1 + exp(-2 * 0.79788456080286535588 * (x + 0.044715 * x * x * x)));
}

/* Distance from the exact value in units in the last place of float32; results below 2^-120 count as 0. */
static double ulps(float found, double exact) {
    if (isnan(exact)) return isnan(found) ? 0 : INFINITY;
    if (fabs(exact) > 3.4028235e38) return isinf(found) ? 0 : INFINITY;
    if (fabs(exact) < 0x1p-120 && fabsf(found) < 0x1p-119f) return 0;
    int exponent;
    frexp(exact, &exponent);
    return fabs((double)found - exact) / ldexp(1.0, exponent - 24);
}

/* A strided walk over all bit patterns, the same bytes on all sets. */
static double worst_ulps(plait_cpu_unary_function f, exact_fn *exact, double reach, float *out_at) {
    uint32_t sets[3];
    int n_sets = feature_sets(sets);
    double worst = 0;
    float x[256], y[256], other[256];
    for (uint64_t bits = 0; bits < 1ull << 32; bits += 256 * 8191) {
        for (int i = 0; i < 256; i++) x[i] = plait_f32_from_bits((uint32_t)(bits + (uint64_t)i * 8191));
        plait_cpu_simd_for(0)->unary(f, 1.0f, x, 256, y);
        for (int s = 1; s < n_sets; s++) {
            plait_cpu_simd_for(sets[s])->unary(f, 1.0f, x, 256, other);
            for (int i = 0; i < 256; i++)
                assert_true(plait_f32_bits(y[i]) == plait_f32_bits(other[i]) ||
                            (isnan(y[i]) && isnan(other[i])));
        }
        for (int i = 0; i < 256; i++) {
            double u = fabs((double)x[i]) > reach ? 0 : ulps(y[i], exact((double)x[i]));
            if (u > worst) *out_at = x[i];
            worst = fmax(worst, u);
        }
    }
    return worst;
}

static void functions_are_near(void **state) {
    (void)state;
    /* beyond `reach` results are so small that their exponentials are taken as 0 */
    static const struct {
        const char *name;
        plait_cpu_unary_function f;
        exact_fn *exact;
        double reach, bound;
    } rows[] = {
        {"tanh", PLAIT_CPU_TANH, tanh, INFINITY, 3},
        {"sigmoid", PLAIT_CPU_SIGMOID, exact_sigmoid, 80, 4},
        {"silu", PLAIT_CPU_SILU, exact_silu, 80, 5},
        {"gelu", PLAIT_CPU_GELU, exact_gelu, 4, 40},
    };
    for (size_t r = 0; r < PLAIT_COUNT_OF(rows); r++) {
        float at = 0;
        double worst = worst_ulps(rows[r].f, rows[r].exact, rows[r].reach, &at);
        printf("%s: %.2f ulp at %g\n", rows[r].name, worst, (double)at);
        assert_true(worst <= rows[r].bound);
    }
    float edges[6] = {NAN, INFINITY, -INFINITY, 0.0f, -1e30f, 1e30f}, y[6];
    plait_cpu_simd_for(0)->unary(PLAIT_CPU_SILU, 1.0f, edges, 6, y);
    assert_true(isnan(y[0]) && y[1] == INFINITY && y[2] == 0 && y[3] == 0 && y[4] == 0 && y[5] == 1e30f);
    plait_cpu_simd_for(0)->unary(PLAIT_CPU_GELU, 1.0f, edges, 6, y);
    assert_true(isnan(y[0]) && y[1] == INFINITY && y[2] == 0 && y[3] == 0 && y[4] == 0 && y[5] == 1e30f);
}

/* exp of numbers up to 0, through the exps of softmax; the other one is in sigmoid. */
static void exponentials_are_near(void **state) {
    (void)state;
    double worst = 0;
    uint32_t sets[3];
    int n_sets = feature_sets(sets);
    float x[64], y[64], other[64];
    for (int block = 0; block < 3000; block++) {
        for (int i = 0; i < 64; i++) x[i] = -(float)(block * 64 + i) * (87.0f / 192000.0f);
        plait_cpu_simd_for(0)->exps(x, 1.0f, 0.0f, 64, y);
        for (int s = 1; s < n_sets; s++) {
            plait_cpu_simd_for(sets[s])->exps(x, 1.0f, 0.0f, 64, other);
            assert_memory_equal(y, other, sizeof y);
        }
        for (int i = 0; i < 64; i++) worst = fmax(worst, ulps(y[i], exp((double)x[i])));
    }
    printf("exp: %.2f ulp\n", worst);
    assert_true(worst <= 2);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(examples_agree_with_the_reference),
        cmocka_unit_test(models_rows_agree_with_the_reference),
        cmocka_unit_test(rope_is_exact_far_out),
        cmocka_unit_test(best_entries_are_the_references),
        cmocka_unit_test(functions_are_near),
        cmocka_unit_test(exponentials_are_near),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
