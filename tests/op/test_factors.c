/* The parser of factor texts, the solver of factor sizes, and the helpers for operands. */
#include "uses.h"

static plait_status parse(const char *text, plait_factors *out) {
    const plait_op op = {.name = "probe", .factors = text};
    return plait_op_factors(&op, out);
}

static void a_text_becomes_tables(void **state) {
    (void)state;
    plait_factors f;
    assert_int_equal(parse("q[d,(g h),n] k[d,s,h] ids?[n] -> y[e,(g h),n] z[n]; d: sum, s: merge(softmax)@, "
                           "n: indexed(ids), g: free, e: ordered",
                           &f),
                     PLAIT_OK);
    assert_int_equal(f.n_inputs, 3);
    assert_int_equal(f.n_outputs, 2);
    assert_int_equal(f.n_factors, 6);
    static const struct {
        const char *name, *rule;
        plait_factor_kind kind;
        bool global_start;
    } expected[] = {
        {"d", "", PLAIT_FACTOR_SUM, false},         {"g", "", PLAIT_FACTOR_FREE, false},
        {"h", "", PLAIT_FACTOR_FREE, false},        {"n", "ids", PLAIT_FACTOR_INDEXED, false},
        {"s", "softmax", PLAIT_FACTOR_MERGE, true}, {"e", "", PLAIT_FACTOR_ORDERED, false},
    };
    for (int i = 0; i < 6; i++) {
        assert_string_equal(f.factors[i].name, expected[i].name);
        assert_string_equal(f.factors[i].rule, expected[i].rule);
        assert_int_equal(f.factors[i].kind, expected[i].kind);
        assert_int_equal(f.factors[i].global_start, expected[i].global_start);
    }
    assert_string_equal(f.inputs[2].name, "ids");
    assert_true(f.inputs[2].optional && !f.inputs[0].optional);
    assert_int_equal(f.inputs[0].rank, 3);
    assert_int_equal(f.inputs[0].dims[1].n, 2);
    assert_int_equal(f.inputs[0].dims[1].factors[0], 1);
    assert_int_equal(f.inputs[0].dims[1].factors[1], 2);
    assert_int_equal(f.outputs[1].rank, 1);
}

static void defaults_follow_the_outputs(void **state) {
    (void)state;
    plait_factors f;
    assert_int_equal(parse("x[a,b]->y[a]", &f), PLAIT_OK);
    assert_int_equal(f.factors[0].kind, PLAIT_FACTOR_FREE);
    assert_int_equal(f.factors[1].kind, PLAIT_FACTOR_WHOLE);
}

static void mistakes_are_named(void **state) {
    (void)state;
    static const struct {
        const char *text, *message;
    } bad[] = {
        {"", "factors of probe: column 1: expected a name, found \"\""},
        {"-> y[a]", "factors of probe: column 8: expected inputs and outputs, found \"\""},
        {"x[a] ->", "factors of probe: column 8: expected inputs and outputs, found \"\""},
        {"x[a] - y[a]", "factors of probe: column 6: expected \"->\", found \"- y[a]\""},
        {"x a -> y[a]", "factors of probe: column 3: expected '[', found \"a -> y[a]\""},
        {"x[] -> y[a]", "factors of probe: column 3: expected a name, found \"] -> y[a]\""},
        {"x[a -> y[a]", "factors of probe: column 5: expected ']' or ',', found \"-> y[a]\""},
        {"x[(a b)?] -> y[a]", "factors of probe: column 8: expected ']' or ',', found \"?] -> y[a]\""},
        {"x[(a)] -> y[a]",
         "factors of probe: column 5: expected two factors in brackets, found \")] -> y[a]\""},
        {"x[a,b,c,d,e] -> y[a]",
         "factors of probe: column 11: expected at most 4 dims, found \"e] -> y[a]\""},
        {"x[(a b c d e)] -> y[a]",
         "factors of probe: column 12: expected at most 4 factors in a dim, found \"e)] -> y[a]\""},
        {"x[a] -> y[a]; b: sum",
         "factors of probe: column 15: expected a factor that an operand has, found \"b: sum\""},
        {"x[a] -> y[a]; a: free, a: free",
         "factors of probe: column 24: expected one rule for each factor, found \"a: free\""},
        {"x[a] -> y[a]; a sum", "factors of probe: column 17: expected ':', found \"sum\""},
        {"x[a] -> y[a]; a: some", "factors of probe: column 17: expected free, sum, merge, indexed, ordered "
                                  "or whole, found \" some\""},
        {"x[a] -> y[a]; a: sum(x)",
         "factors of probe: column 22: expected no rule for this kind, found \"x)\""},
        {"x[a] -> y[a]; a: merge", "factors of probe: column 23: expected '(', found \"\""},
        {"x[a] -> y[a]; a: merge(f", "factors of probe: column 25: expected ')', found \"\""},
        {"x[a] -> y[a]; a: indexed(ids)",
         "factors of probe: column 26: expected the name of an input, found \"ids)\""},
        {"x[a] -> y[a]; a: free b", "factors of probe: column 23: expected the end, found \"b\""},
        {"a_name_that_is_too_long[a] -> y[a]",
         "factors of probe: column 1: expected a name below 16 characters, found \"a_name_that_\""},
        {"x[a,b,c,d] y[e,f,g,h] z[i,j,k,l] u[m] -> v[a]",
         "factors of probe: column 36: expected no more factors, found \"m] -> v[a]\""},
        {"a[x] b[x] c[x] d[x] e[x] f[x] g[x] h[x] i[x] j[x] k[x] -> y[x]",
         "factors of probe: column 51: expected \"->\" after the last input, found \"k[x] -> y[x]\""},
        {"x[a] -> y[a] z[a] u[a] v[a]",
         "factors of probe: column 24: expected ';' after the last output, found \"v[a]\""},
    };
    for (size_t i = 0; i < PLAIT_COUNT_OF(bad); i++) {
        plait_factors f, before;
        memset(&f, 0x5A, sizeof f);
        before = f;
        assert_int_equal(parse(bad[i].text, &f), PLAIT_CORRUPT);
        assert_string_equal(plait_error_message(), bad[i].message);
        assert_memory_equal(&f, &before, sizeof f);
    }
}

/* Random cuts and swaps of good texts never do harm. */
static void damaged_texts_are_refused_or_parsed(void **state) {
    (void)state;
    uint64_t seed = 9;
    int parsed = 0;
    for (int round = 0; round < 20000; round++) {
        char text[256];
        const plait_op *op = plait_op_get((plait_op_id)(round % PLAIT_OP_COUNT));
        size_t n = strlen(op->factors);
        assert_true(n < sizeof text);
        memcpy(text, op->factors, n + 1);
        for (int i = 0; i < 1 + round % 3; i++) {
            int64_t place = plait_example_random(&seed, (int64_t)n);
            text[place] = "abd?[](),:;->@ x9_"[plait_example_random(&seed, 18)];
        }
        if (round % 5 == 0) text[plait_example_random(&seed, (int64_t)n)] = 0;
        plait_factors f;
        parsed += parse(text, &f) == PLAIT_OK;
    }
    printf("%d of 20000 damaged texts still have a meaning\n", parsed);
}

static void sizes_come_from_shapes(void **state) {
    (void)state;
    plait_op_use use;
    plait_factors f;
    int64_t sizes[PLAIT_MAX_FACTORS];
    const plait_op *attention = plait_op_find("attention");
    assert_true(attention->example(
        1, &use)); /* d 64, 9 heads over 3, 3 tokens, pages of 16, 9 of them, table 4 x 2 */
    assert_int_equal(plait_op_infer(&use), PLAIT_OK);
    assert_int_equal(plait_op_factors(attention, &f), PLAIT_OK);
    assert_int_equal(plait_op_factor_sizes(&use, &f, sizes), PLAIT_OK);
    const int64_t expected[] = {64, 3, 3, 3, 16, 9, 64, 4, 2}; /* d g h n p c e t s */
    for (int i = 0; i < 9; i++) assert_int_equal(sizes[i], expected[i]);

    /* Broadcast dims do not count; absent inputs leave 0. */
    assert_true(plait_op_find("add")->example(3, &use)); /* [5,3,4,2] + [1,3,1,2] */
    assert_int_equal(plait_op_infer(&use), PLAIT_OK);
    assert_int_equal(plait_op_factors(use.op, &f), PLAIT_OK);
    assert_int_equal(plait_op_factor_sizes(&use, &f, sizes), PLAIT_OK);
    assert_int_equal(sizes[0], 5);
    assert_int_equal(sizes[2], 4);
    assert_true(plait_op_find("expert_matmul")->example(0, &use)); /* [7,5,4] x [7,1,3] by [2,3] */
    assert_int_equal(plait_op_infer(&use), PLAIT_OK);
    assert_int_equal(plait_op_factors(use.op, &f), PLAIT_OK);
    assert_true(f.inputs[1].dims[1].may_be_one && !f.inputs[1].dims[0].may_be_one);
    assert_int_equal(plait_op_factor_sizes(&use, &f, sizes), PLAIT_OK);
    assert_int_equal(sizes[3], 2); /* k m e u n */
    assert_true(plait_op_find("rope")->example(0, &use));
    assert_int_equal(plait_op_infer(&use), PLAIT_OK);
    assert_int_equal(plait_op_factors(use.op, &f), PLAIT_OK);
    assert_int_equal(plait_op_factor_sizes(&use, &f, sizes), PLAIT_OK);
    assert_int_equal(sizes[3], 0);

    use.outputs[0].dims[1] = 77;
    assert_int_equal(plait_op_factor_sizes(&use, &f, sizes), PLAIT_INVALID_ARGUMENT);
    assert_string_equal(plait_error_message(), "x: dim 1 is 3 but y: dim 1 is 77");
}

static plait_operand shape(plait_dtype dtype, int64_t a, int64_t b, int64_t c, int64_t d) {
    return (plait_operand){.dtype = dtype, .dims = {a, b, c, d}};
}

static void operands_are_measured(void **state) {
    (void)state;
    plait_operand o = shape(PLAIT_F16, 3, 4, 5, 6);
    assert_int_equal(plait_operand_elems(&o), 360);
    assert_true(plait_operand_make_dense(&o));
    assert_int_equal(o.strides[0], 2);
    assert_int_equal(o.strides[1], 6);
    assert_int_equal(o.strides[2], 24);
    assert_int_equal(o.strides[3], 120);
    assert_true(plait_operand_is_dense(&o));
    assert_int_equal(plait_operand_span_bytes(&o), 720);
    o.strides[1] = 8;
    assert_false(plait_operand_is_dense(&o));
    assert_int_equal(plait_operand_span_bytes(&o), 2 * 2 + 3 * 8 + 4 * 24 + 5 * 120 + 2);

    o = shape(PLAIT_Q8_0, 64, 3, 1, 1);
    assert_true(plait_operand_make_dense(&o));
    assert_int_equal(o.strides[0], 34);
    assert_int_equal(o.strides[1], 68);
    assert_int_equal(plait_operand_span_bytes(&o), 204);
    o.strides[2] = o.strides[3] = 12345; /* of dims of size 1 */
    assert_true(plait_operand_is_dense(&o));
    assert_int_equal(plait_operand_span_bytes(&o), 204);

    o = shape(PLAIT_F32, 3, 0, 5, 1);
    assert_int_equal(plait_operand_elems(&o), 0);
    assert_true(plait_operand_make_dense(&o));
    assert_true(o.strides[3] > 0);
    assert_int_equal(plait_operand_span_bytes(&o), 0);
}

static void operands_that_overflow_are_refused(void **state) {
    (void)state;
    plait_operand o = shape(PLAIT_F32, INT64_MAX / 2, 3, 1, 1);
    assert_int_equal(plait_operand_elems(&o), -1);
    assert_int_equal(plait_operand_span_bytes(&o), -1);
    assert_false(plait_operand_make_dense(&o));
    o = shape(PLAIT_F32, 2, INT64_MAX / 16, 3, 1);
    assert_false(plait_operand_make_dense(&o) && plait_operand_span_bytes(&o) != -1);
    o = shape(PLAIT_F32, 2, -1, 3, 1);
    assert_int_equal(plait_operand_elems(&o), -1);
    assert_false(plait_operand_make_dense(&o));
    o = shape(PLAIT_Q4_0, 33, 1, 1, 1);
    assert_false(plait_operand_make_dense(&o));
    assert_int_equal(plait_operand_span_bytes(&o), -1);
    o = shape(PLAIT_F32, 4, 2, 1, 1);
    assert_true(plait_operand_make_dense(&o));
    o.strides[1] = -16;
    assert_int_equal(plait_operand_span_bytes(&o), -1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_text_becomes_tables),
        cmocka_unit_test(defaults_follow_the_outputs),
        cmocka_unit_test(mistakes_are_named),
        cmocka_unit_test(damaged_texts_are_refused_or_parsed),
        cmocka_unit_test(sizes_come_from_shapes),
        cmocka_unit_test(operands_are_measured),
        cmocka_unit_test(operands_that_overflow_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
