/* Every descriptor of the op table is consistent, and every example of it runs on the reference kernel without
 * touching a byte that is not its own. */
#include "uses.h"

#include "op/attrs.h"

static void descriptors_are_complete(void **state) {
    (void)state;
    for (int id = 0; id < PLAIT_OP_COUNT; id++) {
        const plait_op *op = plait_op_get((plait_op_id)id);
        assert_non_null(op);
        assert_int_equal(op->id, id);
        assert_int_equal(op->struct_bytes, sizeof(plait_op));
        assert_ptr_equal(plait_op_find(op->name), op);
        assert_true(op->doc && op->doc[0] && op->factors && op->shape && op->reference && op->example);
        for (const char *c = op->name; *c; c++) assert_true((*c >= 'a' && *c <= 'z') || *c == '_');
        assert_true(op->n_attrs <= PLAIT_MAX_ATTRS);
        for (int a = 0; a < op->n_attrs; a++) {
            assert_true(op->attrs[a].name && op->attrs[a].doc && op->attrs[a].doc[0]);
            assert_int_equal(plait_op_attr_index(op, op->attrs[a].name), a);
        }
        assert_int_equal(plait_op_attr_index(op, "no such attribute"), -1);
    }
    assert_null(plait_op_get(PLAIT_OP_COUNT));
    assert_null(plait_op_find("no such op"));
    assert_null(plait_op_find(""));
    printf("%d ops\n", PLAIT_OP_COUNT);
}

static void factors_fit_descriptors(void **state) {
    (void)state;
    for (int id = 0; id < PLAIT_OP_COUNT; id++) {
        const plait_op *op = plait_op_get((plait_op_id)id);
        plait_factors f;
        assert_int_equal(plait_op_factors(op, &f), PLAIT_OK);
        uint32_t inputs = (1u << f.n_inputs) - 1;
        assert_int_equal(op->runtime_inputs & ~inputs, 0);
        assert_int_equal(op->in_place_inputs & ~inputs, 0);
        assert_true(op->writes_input >= -1 && op->writes_input < f.n_inputs);
        assert_int_equal(op->writes_input >= 0, op->write_part != PLAIT_WRITES_NOTHING);
        assert_int_equal(op->rows_input >= 0, op->write_part == PLAIT_WRITES_ROWS);
        if (op->rows_input >= 0) assert_true(op->runtime_inputs >> op->rows_input & 1u);
        assert_int_equal(op->runtime_inputs != 0, op->example_data != NULL);
        for (int i = 0; i < f.n_factors; i++) {
            char attr[32];
            snprintf(attr, sizeof attr, "start_%s", f.factors[i].name);
            assert_int_equal(f.factors[i].global_start, plait_op_attr_index(op, attr) >= 0);
            if (f.factors[i].kind != PLAIT_FACTOR_INDEXED) continue;
            int ids = 0;
            while (strcmp(f.inputs[ids].name, f.factors[i].rule) != 0) ids++;
            assert_true(op->runtime_inputs >> ids & 1u);
        }
    }
}

/* The enums of attrs.h and the descriptors' lists. */
static void attribute_places_match(void **state) {
    (void)state;
    static const struct {
        plait_op_id op;
        int place, count;
        const char *name;
    } rows[] = {
        {PLAIT_OP_get_rows, PLAIT_GET_ROWS_START_V, PLAIT_GET_ROWS_ATTRS, "start_v"},
        {PLAIT_OP_get_rows, PLAIT_GET_ROWS_TOTAL_V, PLAIT_GET_ROWS_ATTRS, "total_v"},
        {PLAIT_OP_expert_matmul, PLAIT_EXPERT_MATMUL_START_E, PLAIT_EXPERT_MATMUL_ATTRS, "start_e"},
        {PLAIT_OP_expert_matmul, PLAIT_EXPERT_MATMUL_TOTAL_E, PLAIT_EXPERT_MATMUL_ATTRS, "total_e"},
        {PLAIT_OP_rms_norm, PLAIT_NORM_EPS, PLAIT_NORM_ATTRS, "eps"},
        {PLAIT_OP_layer_norm, PLAIT_NORM_EPS, PLAIT_NORM_ATTRS, "eps"},
        {PLAIT_OP_scale, PLAIT_SCALE_FACTOR, PLAIT_SCALE_ATTRS, "factor"},
        {PLAIT_OP_softcap, PLAIT_SOFTCAP_CAP, PLAIT_SOFTCAP_ATTRS, "cap"},
        {PLAIT_OP_softmax, PLAIT_SOFTMAX_SCALE, PLAIT_SOFTMAX_ATTRS, "scale"},
        {PLAIT_OP_rope, PLAIT_ROPE_N_ROT, PLAIT_ROPE_ATTRS, "n_rot"},
        {PLAIT_OP_rope, PLAIT_ROPE_SPLIT_HALVES, PLAIT_ROPE_ATTRS, "split_halves"},
        {PLAIT_OP_rope, PLAIT_ROPE_FREQ_BASE, PLAIT_ROPE_ATTRS, "freq_base"},
        {PLAIT_OP_rope, PLAIT_ROPE_FREQ_SCALE, PLAIT_ROPE_ATTRS, "freq_scale"},
        {PLAIT_OP_rope, PLAIT_ROPE_EXT_FACTOR, PLAIT_ROPE_ATTRS, "ext_factor"},
        {PLAIT_OP_rope, PLAIT_ROPE_BETA_FAST, PLAIT_ROPE_ATTRS, "beta_fast"},
        {PLAIT_OP_rope, PLAIT_ROPE_BETA_SLOW, PLAIT_ROPE_ATTRS, "beta_slow"},
        {PLAIT_OP_rope, PLAIT_ROPE_ORIGINAL_CONTEXT, PLAIT_ROPE_ATTRS, "original_context"},
        {PLAIT_OP_rope, PLAIT_ROPE_ATTN_FACTOR, PLAIT_ROPE_ATTRS, "attn_factor"},
        {PLAIT_OP_kv_shift, PLAIT_ROPE_ORIGINAL_CONTEXT, PLAIT_KV_SHIFT_ATTRS, "original_context"},
        {PLAIT_OP_kv_shift, PLAIT_KV_SHIFT_START_C, PLAIT_KV_SHIFT_ATTRS, "start_c"},
        {PLAIT_OP_kv_shift, PLAIT_KV_SHIFT_TOTAL_C, PLAIT_KV_SHIFT_ATTRS, "total_c"},
        {PLAIT_OP_position_scale, PLAIT_POSITION_SCALE_SCALE, PLAIT_POSITION_SCALE_ATTRS, "scale"},
        {PLAIT_OP_position_scale, PLAIT_POSITION_SCALE_LENGTH, PLAIT_POSITION_SCALE_ATTRS, "length"},
        {PLAIT_OP_attention, PLAIT_ATTENTION_SCALE, PLAIT_ATTENTION_ATTRS, "scale"},
        {PLAIT_OP_attention, PLAIT_ATTENTION_WINDOW, PLAIT_ATTENTION_ATTRS, "window"},
        {PLAIT_OP_attention, PLAIT_ATTENTION_SOFTCAP, PLAIT_ATTENTION_ATTRS, "softcap"},
        {PLAIT_OP_attention, PLAIT_ATTENTION_CAUSAL, PLAIT_ATTENTION_ATTRS, "causal"},
        {PLAIT_OP_attention, PLAIT_ATTENTION_START_P, PLAIT_ATTENTION_ATTRS, "start_p"},
        {PLAIT_OP_attention, PLAIT_ATTENTION_TOTAL_P, PLAIT_ATTENTION_ATTRS, "total_p"},
        {PLAIT_OP_attention, PLAIT_ATTENTION_START_C, PLAIT_ATTENTION_ATTRS, "start_c"},
        {PLAIT_OP_attention, PLAIT_ATTENTION_TOTAL_C, PLAIT_ATTENTION_ATTRS, "total_c"},
        {PLAIT_OP_kv_write, PLAIT_KV_WRITE_START_P, PLAIT_KV_WRITE_ATTRS, "start_p"},
        {PLAIT_OP_kv_write, PLAIT_KV_WRITE_TOTAL_P, PLAIT_KV_WRITE_ATTRS, "total_p"},
        {PLAIT_OP_kv_write, PLAIT_KV_WRITE_START_C, PLAIT_KV_WRITE_ATTRS, "start_c"},
        {PLAIT_OP_kv_write, PLAIT_KV_WRITE_TOTAL_C, PLAIT_KV_WRITE_ATTRS, "total_c"},
        {PLAIT_OP_cast, PLAIT_CAST_DTYPE, PLAIT_CAST_ATTRS, "dtype"},
        {PLAIT_OP_argmax, PLAIT_ARGMAX_START_V, PLAIT_ARGMAX_ATTRS, "start_v"},
        {PLAIT_OP_top_k, PLAIT_TOP_K_K, PLAIT_TOP_K_ATTRS, "k"},
        {PLAIT_OP_top_k, PLAIT_TOP_K_START_V, PLAIT_TOP_K_ATTRS, "start_v"},
    };
    for (size_t i = 0; i < PLAIT_COUNT_OF(rows); i++) {
        assert_int_equal(plait_op_attr_index(plait_op_get(rows[i].op), rows[i].name), rows[i].place);
        assert_int_equal(plait_op_get(rows[i].op)->n_attrs, rows[i].count);
    }
}

/* Runs case `which` of the op; inputs that are not written must keep their bytes. */
static void run_example(const plait_op *op, int which) {
    test_use t;
    plait_factors f;
    int64_t sizes[PLAIT_MAX_FACTORS];
    assert_true(test_begin(&t, op, which));
    assert_int_equal(plait_op_factors(op, &f), PLAIT_OK);
    assert_int_equal(plait_op_factor_sizes(&t.use, &f, sizes), PLAIT_OK);
    assert_true(plait_op_flop(&t.use) >= 0 && isfinite(plait_op_flop(&t.use)));
    assert_true(plait_op_bytes(&t.use) >= 0 && isfinite(plait_op_bytes(&t.use)));

    unsigned char *before[PLAIT_MAX_INPUTS] = {NULL};
    for (int i = 0; i < t.use.n_inputs; i++) {
        if (!t.inputs[i].block) continue;
        before[i] = malloc((size_t)t.inputs[i].bytes + 1);
        assert_non_null(before[i]);
        memcpy(before[i], t.inputs[i].block + GUARD_BYTES, (size_t)t.inputs[i].bytes);
    }
    test_run(&t);
    assert_int_equal(t.error_word, 0);
    for (int i = 0; i < t.use.n_inputs; i++) {
        if (!before[i]) continue;
        if (i != op->writes_input)
            assert_memory_equal(before[i], t.inputs[i].block + GUARD_BYTES, (size_t)t.inputs[i].bytes);
        free(before[i]);
    }
    test_end(&t);
}

static void examples_run(void **state) {
    (void)state;
    int n = 0;
    for (int id = 0; id < PLAIT_OP_COUNT; id++) {
        const plait_op *op = plait_op_get((plait_op_id)id);
        plait_op_use use;
        int cases = 0;
        while (op->example(cases, &use)) {
            assert_ptr_equal(use.op, op);
            run_example(op, cases++);
        }
        assert_true(cases >= 2);
        assert_false(op->example(-1, &use));
        n += cases;
    }
    printf("%d examples ran\n", n);
}

/* An input of in_place_inputs may share the output's bytes: the result is the same. */
static void in_place_gives_the_same(void **state) {
    (void)state;
    int n = 0;
    for (int id = 0; id < PLAIT_OP_COUNT; id++) {
        const plait_op *op = plait_op_get((plait_op_id)id);
        test_use t;
        for (int which = 0; test_begin(&t, op, which); which++, test_end(&t)) {
            test_run(&t);
            for (int i = 0; i < t.use.n_inputs; i++) {
                plait_operand *in = &t.use.inputs[i], *out = &t.use.outputs[0];
                bool alike = in->dtype == out->dtype && memcmp(in->dims, out->dims, sizeof in->dims) == 0 &&
                             memcmp(in->strides, out->strides, sizeof in->strides) == 0;
                if (!(op->in_place_inputs >> i & 1u) || !plait_op_has(&t.use, i) || !alike) continue;
                plait_op_use shared = t.use;
                test_memory copy;
                test_copy(&copy, &shared.inputs[i], in);
                shared.outputs[0].data = shared.inputs[i].data;
                op->reference(&shared, t.scratch);
                assert_true(test_difference(&shared.outputs[0], out) == 0);
                test_release(&copy);
                n++;
            }
        }
        test_end(&t);
    }
    assert_true(n > 30);
    printf("%d shared operands checked\n", n);
}

/* Worked out by hand from the shapes of the examples. */
static void costs_have_known_values(void **state) {
    (void)state;
    test_use t;
    assert_true(test_begin(&t, plait_op_find("matmul"), 0)); /* k 7, m 5, n 3 */
    assert_true(plait_op_flop(&t.use) == 2 * 7 * 5 * 3);
    assert_true(plait_op_bytes(&t.use) == 4 * (7 * 5 + 7 * 3 + 5 * 3));
    test_end(&t);
    assert_true(test_begin(&t, plait_op_find("get_rows"), 5)); /* q8_0 k 96, v 13, n 4 */
    assert_true(plait_op_bytes(&t.use) == 4 * 102 + 4 * 4 + 4 * 96 * 4);
    test_end(&t);
    assert_true(
        test_begin(&t, plait_op_find("expert_matmul"), 4)); /* f16 k 96, m 17, e 8, x 96 x 1, ids 2 x 1 */
    assert_true(plait_op_flop(&t.use) == 2 * 96 * 17 * 2);
    assert_true(plait_op_bytes(&t.use) == 2 * 96 * 17 * 2 + 4 * (96 + 2 + 17 * 2)); /* two experts of eight */
    test_end(&t);
    assert_true(test_begin(&t, plait_op_find("expert_matmul"), 3)); /* k 24, m 33, e 3, x 24 x 4 x 11 */
    assert_true(plait_op_bytes(&t.use) == 4 * (24 * 33 * 3 + 24 * 44 + 44 + 33 * 44)); /* all of them */
    test_end(&t);
    assert_true(test_begin(&t, plait_op_find("kv_write"), 1)); /* f16 d 64, h 3, n 5 */
    assert_true(fabs(plait_op_bytes(&t.use) - (5 * 3 * 64 * 2 + 5 * 3 * 64 * 4 + 5 * 4)) < 1e-6);
    assert_true(plait_op_flop(&t.use) == 0);
    test_end(&t);
    assert_true(test_begin(&t, plait_op_find("add"), 1)); /* 576 x 3 + 576 */
    assert_true(plait_op_flop(&t.use) == 576 * 3);
    assert_true(plait_op_bytes(&t.use) == 4 * (576 * 3 + 576 + 576 * 3));
    test_end(&t);
    assert_true(test_begin(&t, plait_op_find("attention"), 2)); /* d 8, e 6, heads 6, n 7, window 6 */
    assert_true(plait_op_flop(&t.use) == (2 * (8 + 6) + 4) * 6.0 * 7 * 6);
    test_end(&t);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(descriptors_are_complete), cmocka_unit_test(factors_fit_descriptors),
        cmocka_unit_test(attribute_places_match),   cmocka_unit_test(examples_run),
        cmocka_unit_test(in_place_gives_the_same),  cmocka_unit_test(costs_have_known_values),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
