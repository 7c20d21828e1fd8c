/* Shape rules: every op's messages, word for word, and random shapes that no rule may stumble over. */
#include "uses.h"

#include "op/attrs.h"

/* One change to example `which` of an op, and the message it must give. */
typedef enum change_kind { DIM, TYPE, ATTR_INT, ATTR_FLOAT, ABSENT, COUNT } change_kind;
typedef struct refusal {
    const char *op;
    int which;
    change_kind kind;
    int input, dim; /* or attribute */
    double value;
    const char *message;
} refusal;

static const refusal refusals[] = {
    /* matmul 0: w[7,5] x[7,3] */
    {"matmul", 0, DIM, 1, 0, 8, "matmul: w: dim 0 is 7 but x: dim 0 is 8"},
    {"matmul", 0, DIM, 0, 2, 2, "matmul: w: dim 2 is 2, expected 1 (at most 2 dims)"},
    {"matmul", 0, DIM, 0, 1, -1, "matmul: w: dim 1 is -1, expected 0 or more"},
    {"matmul", 0, DIM, 0, 1, 1e15, "matmul: w: [7, 1000000000000000, 1, 1] has more than 2^48 elements"},
    {"matmul", 0, TYPE, 0, 0, PLAIT_I32, "matmul: w: type is I32, expected a float or quantised type"},
    {"matmul", 0, TYPE, 0, 0, PLAIT_Q4_0, "matmul: w: dim 0 is 7, expected a multiple of 32 (Q4_0)"},
    {"matmul", 0, TYPE, 0, 0, 5, "matmul: w: type number 5 is unknown"},
    {"matmul", 0, TYPE, 1, 0, PLAIT_F16, "matmul: x: type is F16, expected F32"},
    {"matmul", 0, ABSENT, 1, 0, 0, "matmul: x: the input is missing"},
    {"matmul", 0, COUNT, 0, 0, 3, "matmul: 3 inputs given, expected at most 2"},
    /* get_rows 0: table[7,11] ids[5] */
    {"get_rows", 0, TYPE, 1, 0, PLAIT_F32, "get_rows: ids: type is F32, expected I32"},
    {"get_rows", 0, DIM, 1, 1, 2, "get_rows: ids: dim 1 is 2, expected 1 (at most 1 dims)"},
    {"get_rows", 0, ATTR_INT, 0, PLAIT_GET_ROWS_START_V, -1,
     "get_rows: start_v is -1 for a size of 11, expected a whole below 2^31"},
    {"get_rows", 0, ATTR_INT, 0, PLAIT_GET_ROWS_TOTAL_V, 10,
     "get_rows: total_v is 10, expected 0 or at least 11 (start_v 0 + size 11)"},
    /* expert_matmul 0: w[7,5,4] x[7,1,3] ids[2,3]; 3: w[24,33,3] x[24,4,11] ids[4,11] */
    {"expert_matmul", 0, DIM, 1, 0, 8, "expert_matmul: w: dim 0 is 7 but x: dim 0 is 8"},
    {"expert_matmul", 0, DIM, 1, 2, 4, "expert_matmul: x: dim 2 is 4 but ids: dim 1 is 3"},
    {"expert_matmul", 0, DIM, 1, 1, 3, "expert_matmul: x: dim 1 is 3 but ids: dim 0 is 2"},
    {"expert_matmul", 3, DIM, 2, 0, 5, "expert_matmul: x: dim 1 is 4 but ids: dim 0 is 5"},
    {"expert_matmul", 0, DIM, 0, 3, 2, "expert_matmul: w: dim 3 is 2, expected 1 (at most 3 dims)"},
    {"expert_matmul", 0, TYPE, 0, 0, PLAIT_I32,
     "expert_matmul: w: type is I32, expected a float or quantised type"},
    {"expert_matmul", 0, TYPE, 1, 0, PLAIT_F16, "expert_matmul: x: type is F16, expected F32"},
    {"expert_matmul", 0, TYPE, 2, 0, PLAIT_F32, "expert_matmul: ids: type is F32, expected I32"},
    {"expert_matmul", 0, ABSENT, 2, 0, 0, "expert_matmul: ids: the input is missing"},
    {"expert_matmul", 0, ATTR_INT, 0, PLAIT_EXPERT_MATMUL_START_E, -1,
     "expert_matmul: start_e is -1 for a size of 4, expected a whole below 2^31"},
    {"expert_matmul", 0, ATTR_INT, 0, PLAIT_EXPERT_MATMUL_TOTAL_E, 3,
     "expert_matmul: total_e is 3, expected 0 or at least 4 (start_e 0 + size 4)"},
    /* weighted_sum 0: x[7,2,3] p[2,3] */
    {"weighted_sum", 0, DIM, 1, 0, 3, "weighted_sum: x: dim 1 is 2 but p: dim 0 is 3"},
    {"weighted_sum", 0, DIM, 1, 1, 2, "weighted_sum: x: dim 2 is 3 but p: dim 1 is 2"},
    {"weighted_sum", 0, TYPE, 1, 0, PLAIT_F16, "weighted_sum: p: type is F16, expected F32"},
    /* rms_norm 0: x[7,3] w[7]; layer_norm 0: with b[7] */
    {"rms_norm", 0, DIM, 1, 0, 8, "rms_norm: x: dim 0 is 7 but w: dim 0 is 8"},
    {"rms_norm", 0, TYPE, 1, 0, PLAIT_F16, "rms_norm: w: type is F16, expected F32"},
    {"rms_norm", 0, ATTR_FLOAT, 0, PLAIT_NORM_EPS, 0, "rms_norm: eps is 0, expected above 0"},
    {"rms_norm", 0, ATTR_FLOAT, 0, PLAIT_NORM_EPS, NAN, "rms_norm: eps is nan, expected a finite number"},
    {"layer_norm", 0, DIM, 2, 0, 6, "layer_norm: x: dim 0 is 7 but b: dim 0 is 6"},
    {"layer_norm", 0, ATTR_FLOAT, 0, PLAIT_NORM_EPS, -1, "layer_norm: eps is -1, expected above 0"},
    /* add 0: [7,5] + [7,5] */
    {"add", 0, DIM, 1, 0, 6, "add: b: dim 0 is 6, expected 1 or 7 (a: dim 0)"},
    {"sub", 0, DIM, 1, 2, 2, "sub: b: dim 2 is 2, expected 1 or 1 (a: dim 2)"},
    {"mul", 0, TYPE, 1, 0, PLAIT_F16, "mul: b: type is F16, expected F32"},
    {"div", 0, ABSENT, 1, 0, 0, "div: b: the input is missing"},
    {"scale", 0, ATTR_FLOAT, 0, PLAIT_SCALE_FACTOR, INFINITY,
     "scale: factor is inf, expected a finite number"},
    {"silu", 0, TYPE, 0, 0, PLAIT_F16, "silu: x: type is F16, expected F32"},
    {"gelu", 0, TYPE, 0, 0, PLAIT_BF16, "gelu: x: type is BF16, expected F32"},
    {"relu", 0, DIM, 0, 3, -5, "relu: x: dim 3 is -5, expected 0 or more"},
    {"sigmoid", 0, ABSENT, 0, 0, 0, "sigmoid: x: the input is missing"},
    {"tanh", 0, TYPE, 0, 0, PLAIT_I32, "tanh: x: type is I32, expected F32"},
    {"hadamard", 0, ATTR_INT, 0, PLAIT_HADAMARD_BLOCK, 48,
     "hadamard: block is 48, expected a power of two that divides dim 0 of x, which is 64"},
    {"softcap", 0, ATTR_FLOAT, 0, PLAIT_SOFTCAP_CAP, 0, "softcap: cap is 0, expected above 0"},
    {"swiglu", 0, DIM, 1, 1, 4, "swiglu: gate: dim 1 is 5 but up: dim 1 is 4"},
    {"geglu", 0, TYPE, 0, 0, PLAIT_F16, "geglu: gate: type is F16, expected F32"},
    {"softmax", 0, TYPE, 0, 0, PLAIT_F64, "softmax: x: type is F64, expected F32"},
    /* rope 0: x[8,3,5] positions[5]; 2: n_rot 12 of 20 with freq_factors[6] */
    {"rope", 0, DIM, 1, 0, 4, "rope: x: dim 2 is 5 but positions: dim 0 is 4"},
    {"rope", 0, DIM, 0, 0, 7, "rope: n_rot is 7, expected an even number up to dim 0, which is 7"},
    {"rope", 0, ATTR_INT, 0, PLAIT_ROPE_N_ROT, 10,
     "rope: n_rot is 10, expected an even number up to dim 0, which is 8"},
    {"rope", 0, ATTR_INT, 0, PLAIT_ROPE_SPLIT_HALVES, 2, "rope: split_halves is 2, expected 0 or 1"},
    {"rope", 2, DIM, 2, 0, 5, "rope: freq_factors: dim 0 is 5, expected 6 (n_rot / 2)"},
    {"rope", 0, ATTR_FLOAT, 0, PLAIT_ROPE_FREQ_BASE, 0, "rope: freq_base is 0, expected above 0"},
    {"rope", 0, ATTR_FLOAT, 0, PLAIT_ROPE_FREQ_SCALE, -1, "rope: freq_scale is -1, expected above 0"},
    {"rope", 0, ATTR_FLOAT, 0, PLAIT_ROPE_EXT_FACTOR, 1, "rope: original_context is 0, expected above 0"},
    {"rope", 4, ATTR_FLOAT, 0, PLAIT_ROPE_FREQ_BASE, 1,
     "rope: freq_base is 1, expected above 1 with ext_factor"},
    {"rope", 4, ATTR_FLOAT, 0, PLAIT_ROPE_BETA_FAST, 0, "rope: beta_fast is 0, expected above 0"},
    {"rope", 4, ATTR_FLOAT, 0, PLAIT_ROPE_BETA_SLOW, 0, "rope: beta_slow is 0, expected above 0"},
    {"position_scale", 0, ATTR_INT, 0, PLAIT_POSITION_SCALE_LENGTH, 0,
     "position_scale: length is 0, expected above 0"},
    {"position_scale", 0, TYPE, 1, 0, PLAIT_F32, "position_scale: positions: type is F32, expected I32"},
    /* attention 1: q[64,9,3] k, v[64,16,3,9] positions, sequences[3] pages[4,2] */
    {"attention", 1, DIM, 0, 1, 10, "attention: q: dim 1 is 10, expected a multiple of k: dim 2, which is 3"},
    {"attention", 1, DIM, 2, 1, 8, "attention: k: dim 1 is 16 but v: dim 1 is 8"},
    {"attention", 1, DIM, 2, 2, 9, "attention: k: dim 2 is 3 but v: dim 2 is 9"},
    {"attention", 1, DIM, 1, 3, 8, "attention: k: dim 3 is 8 but v: dim 3 is 9"},
    {"attention", 1, DIM, 1, 0, 32, "attention: q: dim 0 is 64 but k: dim 0 is 32"},
    {"attention", 1, DIM, 4, 0, 5, "attention: q: dim 2 is 3 but sequences: dim 0 is 5"},
    {"attention", 1, TYPE, 5, 0, PLAIT_F32, "attention: pages: type is F32, expected I32"},
    {"attention", 1, DIM, 5, 0, 1 << 30,
     "attention: pages: dim 0 is 1073741824 with 16 keys a page, expected positions below 2^31"},
    {"attention", 3, DIM, 6, 0, 5, "attention: sinks: dim 0 is 5, expected 6"},
    {"attention", 3, TYPE, 6, 0, PLAIT_F16, "attention: sinks: type is F16, expected F32"},
    {"attention", 8, DIM, 7, 0, 3, "attention: pages: dim 1 is 2 but lengths: dim 0 is 3"},
    {"attention", 1, ATTR_INT, 0, PLAIT_ATTENTION_WINDOW, -1, "attention: window is -1, expected 0 or more"},
    {"attention", 1, ATTR_FLOAT, 0, PLAIT_ATTENTION_SOFTCAP, -2,
     "attention: softcap is -2, expected 0 or more"},
    {"attention", 1, ATTR_INT, 0, PLAIT_ATTENTION_CAUSAL, 3, "attention: causal is 3, expected 0 or 1"},
    {"attention", 1, ATTR_INT, 0, PLAIT_ATTENTION_TOTAL_C, 4,
     "attention: total_c is 4, expected 0 or at least 9 (start_c 0 + size 9)"},
    {"attention", 1, ABSENT, 5, 0, 0, "attention: pages: the input is missing"},
    /* kv_write 0: cache[7,4,3,5] rows[7,3,6] slots[6]; 3: q8_0 */
    {"kv_write", 0, DIM, 1, 1, 2, "kv_write: cache: dim 2 is 3 but rows: dim 1 is 2"},
    {"kv_write", 0, DIM, 2, 0, 5, "kv_write: rows: dim 2 is 6 but slots: dim 0 is 5"},
    {"kv_write", 0, TYPE, 0, 0, PLAIT_I8, "kv_write: cache: type is I8, expected a float or quantised type"},
    {"kv_write", 0, TYPE, 1, 0, PLAIT_F16, "kv_write: rows: type is F16, expected F32"},
    {"kv_write", 3, DIM, 0, 0, 48, "kv_write: cache: dim 0 is 48, expected a multiple of 32 (Q8_0)"},
    {"kv_write", 0, DIM, 0, 3, 1 << 30,
     "kv_write: cache: 1073741824 pages of 4 keys, expected slots below 2^31"},
    {"page_copy", 0, DIM, 1, 0, 3, "page_copy: list: dim 0 is 3, expected 2 (two numbers an entry)"},
    {"page_copy", 0, TYPE, 1, 0, PLAIT_F32, "page_copy: list: type is F32, expected I32"},
    {"kv_shift", 0, DIM, 1, 0, 1, "kv_shift: list: dim 0 is 1, expected 2 (two numbers an entry)"},
    {"kv_shift", 3, DIM, 2, 0, 8, "kv_shift: freq_factors: dim 0 is 8, expected 6 (n_rot / 2)"},
    {"kv_shift", 0, ATTR_INT, 0, PLAIT_ROPE_N_ROT, 3,
     "kv_shift: n_rot is 3, expected an even number up to dim 0, which is 8"},
    {"copy", 5, DIM, 0, 0, 33, "copy: x: dim 0 is 33, expected a multiple of 32 (Q8_0)"},
    {"copy", 0, COUNT, 0, 0, -1, "copy: -1 inputs given, expected at most 1"},
    {"cast", 0, ATTR_INT, 0, PLAIT_CAST_DTYPE, PLAIT_I32,
     "cast: dtype is I32, expected a float or quantised type"},
    {"cast", 0, ATTR_INT, 0, PLAIT_CAST_DTYPE, 4, "cast: dtype is 4, expected the number of a type"},
    {"cast", 0, ATTR_INT, 0, PLAIT_CAST_DTYPE, PLAIT_Q8_0,
     "cast: y: dim 0 is 7, expected a multiple of 32 (Q8_0)"},
    {"argmax", 0, DIM, 0, 0, 0, "argmax: x: dim 0 is 0, expected 1 or more"},
    {"argmax", 0, DIM, 0, 2, 2, "argmax: x: dim 2 is 2, expected 1 (at most 2 dims)"},
    {"argmax", 0, ATTR_INT, 0, PLAIT_ARGMAX_START_V, 2147483640,
     "argmax: start_v is 2147483640 for x: dim 0 of 17, expected ids in [0, 2^31)"},
    {"top_k", 0, ATTR_INT, 0, PLAIT_TOP_K_K, 18, "top_k: k is 18, expected at most 17 (x: dim 0)"},
    {"top_k", 0, ATTR_INT, 0, PLAIT_TOP_K_K, 0, "top_k: k is 0, expected above 0"},
    {"top_k", 0, TYPE, 0, 0, PLAIT_F16, "top_k: x: type is F16, expected F32"},
};

static void apply(plait_op_use *use, const refusal *r) {
    switch (r->kind) {
    case DIM: use->inputs[r->input].dims[r->dim] = (int64_t)r->value; break;
    case TYPE: use->inputs[r->input].dtype = (plait_dtype)(int)r->value; break;
    case ATTR_INT: use->attrs[r->dim].i = (int64_t)r->value; break;
    case ATTR_FLOAT: use->attrs[r->dim].f = r->value; break;
    case ABSENT: use->present &= ~(1u << r->input); break;
    case COUNT: use->n_inputs = (int)r->value; break;
    }
}

static void wrong_uses_are_refused_in_words(void **state) {
    (void)state;
    bool seen[PLAIT_OP_COUNT] = {false};
    for (size_t i = 0; i < PLAIT_COUNT_OF(refusals); i++) {
        const plait_op *op = plait_op_find(refusals[i].op);
        plait_op_use use, before;
        assert_non_null(op);
        assert_true(op->example(refusals[i].which, &use));
        apply(&use, &refusals[i]);
        before = use;
        assert_int_equal(plait_op_infer(&use), PLAIT_INVALID_ARGUMENT);
        assert_string_equal(plait_error_message(), refusals[i].message);
        assert_memory_equal(&use, &before, sizeof use);
        seen[op->id] = true;
    }
    for (int id = 0; id < PLAIT_OP_COUNT; id++)
        if (!seen[id]) fail_msg("%s has no refused use in the list", plait_op_get((plait_op_id)id)->name);
    printf("%zu messages\n", PLAIT_COUNT_OF(refusals));
}

static void outputs_have_the_right_shapes(void **state) {
    (void)state;
    static const struct {
        const char *op;
        int which, output;
        plait_dtype dtype;
        int64_t dims[PLAIT_MAX_RANK];
    } rows[] = {
        {"matmul", 0, 0, PLAIT_F32, {5, 3, 1, 1}},
        {"matmul", 1, 0, PLAIT_F32, {33, 0, 1, 1}},
        {"get_rows", 4, 0, PLAIT_F32, {64, 1, 1, 1}},
        {"rms_norm", 2, 0, PLAIT_F32, {65, 3, 2, 2}},
        {"add", 3, 0, PLAIT_F32, {5, 3, 4, 2}},
        {"softmax", 2, 0, PLAIT_F32, {257, 3, 2, 1}},
        {"rope", 1, 0, PLAIT_F32, {64, 9, 4, 1}},
        {"attention", 2, 0, PLAIT_F32, {6, 6, 7, 1}},
        {"attention", 10, 0, PLAIT_F32, {8, 3, 0, 1}},
        {"kv_write", 3, 0, PLAIT_Q8_0, {64, 8, 3, 4}},
        {"page_copy", 1, 0, PLAIT_F16, {64, 16, 3, 6}},
        {"kv_shift", 2, 0, PLAIT_Q8_0, {64, 8, 3, 7}},
        {"copy", 3, 0, PLAIT_F16, {7, 5, 3, 2}},
        {"cast", 4, 0, PLAIT_Q8_0, {64, 5, 1, 1}},
        {"argmax", 0, 0, PLAIT_I32, {3, 1, 1, 1}},
        {"top_k", 0, 0, PLAIT_F32, {5, 3, 1, 1}},
        {"top_k", 0, 1, PLAIT_I32, {5, 3, 1, 1}},
        {"expert_matmul", 0, 0, PLAIT_F32, {5, 2, 3, 1}},
        {"expert_matmul", 3, 0, PLAIT_F32, {33, 4, 11, 1}},
        {"expert_matmul", 1, 0, PLAIT_F32, {33, 2, 0, 1}},
        {"weighted_sum", 0, 0, PLAIT_F32, {7, 3, 1, 1}},
    };
    for (size_t i = 0; i < PLAIT_COUNT_OF(rows); i++) {
        plait_op_use use;
        assert_true(plait_op_find(rows[i].op)->example(rows[i].which, &use));
        use.inputs[0].data = &use; /* must not be handed on to outputs in place */
        assert_int_equal(plait_op_infer(&use), PLAIT_OK);
        const plait_operand *out = &use.outputs[rows[i].output];
        assert_int_equal(out->dtype, rows[i].dtype);
        assert_memory_equal(out->dims, rows[i].dims, sizeof out->dims);
        assert_null(out->data);
        if (use.op->writes_input >= 0)
            assert_memory_equal(out->strides, use.inputs[use.op->writes_input].strides, sizeof out->strides);
        else
            assert_true(plait_operand_is_dense(out));
    }
}

static int64_t random_size(uint64_t *seed) {
    static const int64_t odd[] = {
        0, 1, 2, 3, 32, 256, -1, INT32_MAX, INT64_MAX, INT64_MIN, (int64_t)1 << 48, 1 << 24};
    int64_t kind = plait_example_random(seed, 4);
    if (kind == 0) return odd[plait_example_random(seed, (int64_t)PLAIT_COUNT_OF(odd))];
    return kind == 1 ? plait_example_random(seed, 5) : 32 * plait_example_random(seed, 20);
}

static double random_number(uint64_t *seed) {
    static const double odd[] = {0, 1, -1, 0.5, 1e300, -1e300, 1e-300, 10000, 3};
    return odd[plait_example_random(seed, (int64_t)PLAIT_COUNT_OF(odd))];
}

/* Changes a few things of an example at random. */
static void disturb(plait_op_use *use, uint64_t *seed) {
    for (int64_t n = plait_example_random(seed, 4); n >= 0; n--) {
        plait_operand *in = &use->inputs[plait_example_random(seed, PLAIT_MAX_INPUTS)];
        plait_attr *attr = &use->attrs[plait_example_random(seed, PLAIT_MAX_ATTRS)];
        int64_t *dim = &in->dims[plait_example_random(seed, PLAIT_MAX_RANK)];
        switch (plait_example_random(seed, 7)) {
        case 0: in->dtype = (plait_dtype)(int)plait_example_random(seed, PLAIT_DTYPE_LIMIT + 2); break;
        case 1: use->present ^= 1u << plait_example_random(seed, PLAIT_MAX_INPUTS); break;
        case 2: use->n_inputs = (int)plait_example_random(seed, PLAIT_MAX_INPUTS + 2); break;
        case 3: attr->i = random_size(seed); break;
        case 4: attr->f = random_number(seed); break;
        default: *dim = random_size(seed); break;
        }
    }
}

/* Whatever the shapes, a rule answers; accepted ones have sane outputs, factor sizes, costs and scratch. */
static void random_shapes_do_no_harm(void **state) {
    (void)state;
    uint64_t seed = 77;
    int accepted = 0;
    for (int round = 0; round < 100000; round++) {
        const plait_op *op = plait_op_get((plait_op_id)(round % PLAIT_OP_COUNT));
        plait_op_use use;
        plait_factors f;
        int64_t sizes[PLAIT_MAX_FACTORS];
        int n_examples = 0;
        while (op->example(n_examples, &use)) n_examples++;
        assert_true(op->example((int)plait_example_random(&seed, n_examples), &use));
        disturb(&use, &seed);
        if (plait_op_infer(&use) != PLAIT_OK) {
            assert_true(strncmp(plait_error_message(), op->name, strlen(op->name)) == 0);
            continue;
        }
        accepted++;
        assert_int_equal(plait_op_factors(op, &f), PLAIT_OK);
        assert_int_equal(plait_op_factor_sizes(&use, &f, sizes), PLAIT_OK);
        assert_true(plait_op_flop(&use) >= 0 && plait_op_bytes(&use) >= 0);
        if (op->reference_scratch) assert_true(op->reference_scratch(&use) < (size_t)1 << 62);
        for (int i = 0; i < use.n_outputs; i++) assert_true(plait_operand_elems(&use.outputs[i]) >= 0);
    }
    assert_true(accepted > 10000);
    printf("%d of 100000 random uses accepted\n", accepted);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(wrong_uses_are_refused_in_words),
        cmocka_unit_test(outputs_have_the_right_shapes),
        cmocka_unit_test(random_shapes_do_no_harm),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
