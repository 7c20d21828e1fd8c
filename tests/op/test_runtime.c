/* What the host wrote is checked before a step: every op's own example passes, each kind of bad number is named with its
 * place and range, and what a kernel would not look at, or what is not known yet, is let through. */
#include "op/runtime.h"

#include "op/uses.h"

#include <string.h>

static const char *check(const plait_op_use *use, plait_status *out_status) {
    *out_status = use->op->check_runtime ? use->op->check_runtime(use) : PLAIT_OK;
    return *out_status == PLAIT_OK ? "" : plait_error_message();
}

/* Only run-time operands have data when a step is checked. */
static plait_op_use runtime_only(const test_use *t) {
    plait_op_use use = t->use;
    for (int i = 0; i < use.n_inputs; i++)
        if (!(use.op->runtime_inputs >> i & 1u)) use.inputs[i].data = NULL;
    return use;
}

static void test_examples_pass(void **state) {
    (void)state;
    int n = 0;
    test_use t;
    for (int op = 0; op < PLAIT_OP_COUNT; op++)
        for (int which = 0; test_begin(&t, plait_op_get((plait_op_id)op), which); which++) {
            plait_op_use use = runtime_only(&t);
            plait_status status;
            const char *message = check(&use, &status);
            if (status != PLAIT_OK) fail_msg("%s, example %d: %s", t.use.op->name, which, message);
            n += use.op->check_runtime != NULL;
            for (int i = 0; i < use.n_inputs; i++) use.inputs[i].data = NULL;
            assert_int_equal(use.op->check_runtime ? use.op->check_runtime(&use) : PLAIT_OK, PLAIT_OK);
            test_end(&t);
        }
    print_message("%d examples checked\n", n);
}

/* A number in the control data of an example, and what is said of it; NULL: it passes. */
static const struct bad {
    const char *op;
    int which, input, i0, i1, value;
    const char *message;
} bads[] = {
    {"get_rows", 0, 1, 4, 0, 11, "ids[4] is 11, expected 0 to 10"},
    {"get_rows", 0, 1, 2, 0, -1, "ids[2] is -1, expected 0 to 10"},
    {"get_rows", 0, 1, 0, 0, INT32_MIN, "ids[0] is -2147483648, expected 0 to 10"},
    {"get_rows", 9, 1, 5, 0, 10, "ids[5] is 10, expected 0 to 9"}, /* strided */
    {"get_rows", 10, 1, 3, 0, 49, NULL}, /* of the whole, though not of this slice */
    {"get_rows", 10, 1, 3, 0, 50, "ids[3] is 50, expected 0 to 49"},
    {"expert_matmul", 0, 2, 1, 2, 4, "ids[1, 2] is 4, expected 0 to 3"},
    {"expert_matmul", 0, 2, 0, 1, -1, "ids[0, 1] is -1, expected 0 to 3"},
    {"expert_matmul", 24, 2, 3, 5, 7, NULL}, /* of the whole, though not of this slice */
    {"expert_matmul", 24, 2, 3, 5, 8, "ids[3, 5] is 8, expected 0 to 7"},
    {"kv_write", 0, 2, 1, 0, 20, "slots[1] is 20, expected less than 20"},
    {"kv_write", 0, 2, 1, 0, -7, NULL},
    {"kv_write", 8, 2, 1, 0, 39, NULL},
    {"kv_write", 8, 2, 1, 0, 40, "slots[1] is 40, expected less than 40"},
    {"page_copy", 0, 1, 0, 2, 5, "list[0, 2] is 5, expected less than 5"},
    {"page_copy", 0, 1, 1, 1, 9, "list[1, 1] is 9, expected less than 5"},
    {"page_copy", 2, 1, 0, 3, 99, NULL}, /* its other page is negative: skipped */
    {"kv_shift", 0, 1, 0, 1, 5, "list[0, 1] is 5, expected less than 5"},
    {"kv_shift", 0, 1, 1, 1, 100000, NULL},
    {"kv_shift", 0, 1, 0, 1, -3, NULL},
    {"attention", 0, 3, 1, 0, 12, "positions[1] is 12, expected 0 to 11"},
    {"attention", 0, 3, 1, 0, -1, "positions[1] is -1, expected 0 to 11"},
    {"attention", 0, 3, 4, 0, 99, NULL}, /* the token belongs to no sequence */
    {"attention", 0, 4, 2, 0, 2, "sequences[2] is 2, expected less than 2"},
    {"attention", 0, 5, 2, 1, 7, "pages[2, 1] is 7, expected less than 7"},
    {"attention", 0, 5, 2, 1, -9, NULL},
    {"attention", 8, 3, 1, 0, 9999, NULL}, /* not causal */
    {"attention", 8, 3, 1, 0, -2, "positions[1] is -2, expected 0 to 2147483647"},
    {"attention", 8, 7, 1, 0, 17, "lengths[1] is 17, expected 0 to 16"},
    {"attention", 8, 7, 1, 0, -1, "lengths[1] is -1, expected 0 to 16"},
    {"rope", 0, 1, 0, 0, -12345, NULL},
    {"position_scale", 0, 1, 0, 0, -12345, NULL},
};

static void test_bad_numbers(void **state) {
    (void)state;
    for (size_t k = 0; k < sizeof bads / sizeof *bads; k++) {
        const struct bad *b = &bads[k];
        test_use t;
        plait_status status;
        assert_true(test_begin(&t, plait_op_find(b->op), b->which));
        plait_op_use use = runtime_only(&t);
        plait_ref_set_id(&use.inputs[b->input], b->i0, b->i1, b->value);
        const char *message = check(&use, &status);
        if (status != (b->message ? PLAIT_OUT_OF_RANGE : PLAIT_OK) ||
            (b->message && strcmp(message, b->message)))
            fail_msg("case %zu, %s: \"%s\", expected \"%s\"", k, b->op, message,
                     b->message ? b->message : "");
        /* The reference kernel agrees: it meets a bad id exactly where the check does, if it looks there at all. */
        test_run(&t);
        if (t.error_word && status == PLAIT_OK) fail_msg("case %zu, %s: the kernel finds it bad", k, b->op);
        test_end(&t);
    }
}

/* Positions say nothing while the sequences are not known. */
static void test_unknown_sequences(void **state) {
    (void)state;
    test_use t;
    assert_true(test_begin(&t, plait_op_find("attention"), 0));
    plait_op_use use = runtime_only(&t);
    plait_ref_set_id(&use.inputs[3], 1, 0, -5);
    void *sequences = use.inputs[4].data;
    use.inputs[4].data = NULL;
    assert_int_equal(use.op->check_runtime(&use), PLAIT_OK);
    use.inputs[4].data = sequences;
    assert_int_equal(use.op->check_runtime(&use), PLAIT_OUT_OF_RANGE);
    use.inputs[3].data = NULL;
    assert_int_equal(use.op->check_runtime(&use), PLAIT_OK);
    test_end(&t);
}

/* The helper on its own: long rows, gaps, several rows, none. */
static void test_ranges(void **state) {
    (void)state;
    int32_t data[4096];
    for (int i = 0; i < 4096; i++) data[i] = i % 100;
    plait_operand ids = {
        .dtype = PLAIT_I32, .dims = {4096, 1, 1, 1}, .strides = {4, 16384, 16384, 16384}, .data = data};
    assert_true(plait_ids_within(&ids, 0, 100));
    assert_false(plait_ids_within(&ids, 0, 99));
    assert_false(plait_ids_within(&ids, 1, 100));
    for (int i = 0; i < 4096; i += 97) {
        int32_t keep = data[i];
        data[i] = INT32_MAX;
        assert_false(plait_ids_within(&ids, 0, 100));
        assert_true(plait_ids_within(&ids, 0, (int64_t)INT32_MAX + 1));
        data[i] = keep;
    }
    data[1] = -1; /* between those that a stride of 8 bytes meets */
    ids.dims[0] = 10, ids.strides[0] = 8, ids.dims[1] = 3, ids.strides[1] = 400;
    assert_true(plait_ids_within(&ids, 0, 100));
    data[200 + 18] = -1;
    assert_false(plait_ids_within(&ids, 0, 100));
    ids.dims[0] = 0;
    assert_true(plait_ids_within(&ids, 5, 5));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_examples_pass),
        cmocka_unit_test(test_bad_numbers),
        cmocka_unit_test(test_unknown_sequences),
        cmocka_unit_test(test_ranges),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
