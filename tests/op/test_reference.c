/* Reference kernels against numbers that numpy computed (float64, from the published formulas, on inputs of the
 * generator in uses.h) and against second formulas written here, for all examples of every op. Attention and the
 * cache ops have files of their own. */
#include "uses.h"

#include "op/attrs.h"

#include <complex.h>

/* ---- numbers by numpy ---- */

static const double rms_norm_9x2[] = {-0.187105393,    0.0356474907, 0.257957956, 0.144178564,  -0.785689038,
                                      -0.000277899917, -0.230896684, -1.08513329, -0.936187671, -0.761899332,
                                      0.96566841,      0.0644687895, -0.36206703, 0.504488305,  0.14453388,
                                      -1.10941874,     -0.195387865, -0.206149847};
static const double layer_norm_9x2[] = {-1.02145885,  -0.407206345, 0.685863186,  -0.132499497, -0.487271486,
                                        -0.227348988, -0.120393596, -1.18431717,  -0.767338969, -1.55591516,
                                        0.585016818,  0.519167259,  -0.659942367, 0.764750902,  -0.0912952255,
                                        -1.06802791,  -0.247329472, -0.0765897823};
static const double softmax_9x2[] = {0.0305580645, 0.0512552602, 0.117981755,   0.0239880047, 0.285162755,
                                     0.0485911404, 0.0669526691, 0.00357115611, 0.371939195,  0.00886946186,
                                     0.236646916,  0.0671225223, 0.297101713,   0.0180703114, 0.011628537,
                                     0.242622036,  0.0344390852, 0.0834994173};
static const double silu_9[] = {-0.139473019, 1.60974194, 2.00222415,   -0.27744217, -0.0860005384,
                                -0.275689438, 3.74574301, -0.194615667, 3.16557324};
static const double gelu_9[] = {-0.123389593, 1.80179127, 2.19068071,    -0.116182108, -0.000216705282,
                                -0.107582919, 3.82712691, -0.0170755006, 3.28280193};
static const double sigmoid_9[] = {0.417191248, 0.865328141, 0.902008251,  0.201401061, 0.02291703,
                                   0.190884891, 0.978695097, 0.0794321124, 0.963882441};
static const double tanh_9[] = {-0.322392065, 0.952703568, 0.976671198, -0.880403854, -0.998900374,
                                -0.894554146, 0.999052698, -0.9852195,  0.997195798};
static const double softcap_9[] = {-0.328886611, 1.26825971, 1.35215333,  -1.08769075, -1.47999289,
                                   -1.11831618,  1.48187551, -1.38981469, 1.46284916};
static const double swiglu_9[] = {-0.0845795665, -1.15823457,  1.2834403,   0.105732037, 0.00984954659,
                                  0.132817334,   -0.350336439, -0.15692985, -1.47226827};
static const double matmul_4x3[] = {0.546740141,  0.430697669,  -0.558472296, 1.12839417,
                                    0.126503008,  0.812522498,  0.520215058,  -0.194317886,
                                    -0.822529926, -0.373589566, -0.393714127, 0.494181657};
static const double rope_yarn_16x2[] = {
    0.740382128,  0.231057913,  0.661216492,  -0.57947751,  0.326426248,   -0.871764337, 0.773922907,
    -0.96033997,  0.205487278,  -0.176815059, 0.645384382,  0.373153768,   0.8943585,    0.719690339,
    0.118974994,  0.236087097,  -0.749477602, 0.874146841,  -0.0155084788, 0.55696546,   0.529639851,
    -0.819001041, -0.205245595, 0.251026269,  0.0398555849, -0.267242738,  0.0374585972, -0.0550759295,
    -0.815613344, 0.0799905509, -0.660217411, 0.538455183};
static const double rope_pairs_12x2[] = {-0.702735389, -0.71236304,  1.26757099,   -0.438807589, -0.964395317,
                                         -1.17379901,  -0.354939814, 0.577623726,  0.390372992,  -0.573321223,
                                         0.290941,     0.80054605,   -0.895080233, -0.627885955, 1.01652777,
                                         0.685320627,  -0.364502448, 0.510110153,  0.887718342,  0.384479811,
                                         -0.350331545, 0.647006989,  0.97270298,   -0.840489626};
static const double attention_3x4x2[] = {
    -0.125261104,  0.295783953, -0.484993178, -0.216972912,  0.146184146,   -0.176470571,
    0.141901453,   0.120731173, 0.414797927,  -0.0205003637, -0.0415628729, 0.314312211,
    -0.167823294,  0.198349941, 0.0782313964, 0.180154866,   0.202470574,   -0.0632313812,
    0.00855353387, 0.146639813, 0.0920258091, -0.0335979682, -0.136276564,  0.0321187419};
static const double position_scale_3x2[] = {0.816431642,  0.619240522, -0.584343433,
                                            -0.945927533, -0.93301385, 0.574334084};

/* A use with one F32 input after another, each filled from its own seed. */
typedef struct frozen_input {
    int64_t dims[PLAIT_MAX_RANK];
    uint64_t seed;
    float times;
} frozen_input;

static void fill_frozen(const plait_operand *o, uint64_t seed, float times) {
    PLAIT_REF_ROWS(o, i1, i2, i3)
    for (int64_t i = 0; i < o->dims[0]; i++)
        plait_ref_set(o, i, i1, i2, i3, (double)(times * test_random(&seed)));
}

/* Puts the inputs, attributes and positions together, runs, and compares output 0 in memory order. */
typedef struct frozen_case {
    const char *op;
    frozen_input inputs[PLAIT_MAX_INPUTS];
    const char *attrs[8];
    double values[8];
    int32_t positions[3];
    double factors[4];
    const double *expected;
    size_t n_expected;
} frozen_case;

static void begin_frozen(test_use *t, const frozen_case *c) {
    memset(t, 0, sizeof *t);
    plait_op_use_init(&t->use, plait_op_find(c->op));
    for (int i = 0; i < PLAIT_MAX_INPUTS && c->inputs[i].dims[0]; i++) {
        plait_operand *in = &t->use.inputs[i];
        t->use.n_inputs = i + 1;
        t->use.present |= 1u << i;
        in->dtype = t->use.op->runtime_inputs >> i & 1u ? PLAIT_I32 : PLAIT_F32;
        memcpy(in->dims, c->inputs[i].dims, sizeof in->dims);
        assert_true(plait_operand_make_dense(in));
        test_reserve(&t->inputs[i], in);
        if (in->dtype == PLAIT_F32)
            fill_frozen(in, c->inputs[i].seed, c->inputs[i].times);
        else
            for (int64_t j = 0; j < in->dims[0]; j++) plait_ref_set_id(in, j, 0, c->positions[j]);
    }
    for (int i = 0; i < 8 && c->attrs[i]; i++) {
        int attr = plait_op_attr_index(t->use.op, c->attrs[i]);
        assert_true(attr >= 0);
        if (t->use.op->attrs[attr].kind == PLAIT_ATTR_FLOAT)
            t->use.attrs[attr].f = c->values[i];
        else
            t->use.attrs[attr].i = (int64_t)c->values[i];
    }
    assert_int_equal(plait_op_infer(&t->use), PLAIT_OK);
    test_outputs(t);
}

static void check_frozen(const frozen_case *c) {
    test_use t;
    size_t at = 0;
    begin_frozen(&t, c);
    for (int64_t i = 0; t.use.op->id == PLAIT_OP_rope && plait_op_has(&t.use, 2) && i < 4; i++)
        plait_ref_set(&t.use.inputs[2], i, 0, 0, 0, c->factors[i]);
    test_run(&t);
    const plait_operand *y = &t.use.outputs[0];
    assert_int_equal(plait_operand_elems(y), c->n_expected);
    PLAIT_REF_ROWS(y, i1, i2, i3)
    for (int64_t i = 0; i < y->dims[0]; i++) assert_near(test_at(y, i, i1, i2, i3), c->expected[at++], 2e-7);
    test_end(&t);
}

#define EXPECT(array) .expected = (array), .n_expected = PLAIT_COUNT_OF(array)
#define ROW(n, seed_)                                                                                        \
    { {9, n, 1, 1}, seed_, 1 }
#define WIDE                                                                                                 \
    { {9, 1, 1, 1}, 4, 4 }
static const frozen_case frozen_cases[] = {
    {.op = "rms_norm",
     .inputs = {ROW(2, 1), ROW(1, 2)},
     .attrs = {"eps"},
     .values = {1e-5},
     EXPECT(rms_norm_9x2)},
    {.op = "layer_norm",
     .inputs = {ROW(2, 1), ROW(1, 2), ROW(1, 3)},
     .attrs = {"eps"},
     .values = {1e-5},
     EXPECT(layer_norm_9x2)},
    {.op = "softmax", .inputs = {ROW(2, 1)}, .attrs = {"scale"}, .values = {3}, EXPECT(softmax_9x2)},
    {.op = "silu", .inputs = {WIDE}, EXPECT(silu_9)},
    {.op = "gelu", .inputs = {WIDE}, EXPECT(gelu_9)},
    {.op = "sigmoid", .inputs = {WIDE}, EXPECT(sigmoid_9)},
    {.op = "tanh", .inputs = {WIDE}, EXPECT(tanh_9)},
    {.op = "softcap", .inputs = {WIDE}, .attrs = {"cap"}, .values = {1.5}, EXPECT(softcap_9)},
    {.op = "swiglu", .inputs = {WIDE, ROW(1, 5)}, EXPECT(swiglu_9)},
    {.op = "matmul", .inputs = {{{5, 4, 1, 1}, 6, 1}, {{5, 3, 1, 1}, 7, 1}}, EXPECT(matmul_4x3)},
    {.op = "rope",
     .inputs = {{{16, 1, 2, 1}, 8, 1}, {{2, 1, 1, 1}, 0, 0}},
     {"split_halves", "freq_scale", "ext_factor", "attn_factor", "original_context"},
     {1, 0.25, 1, 0.9, 4096},
     .positions = {7, 1234},
     EXPECT(rope_yarn_16x2)},
    {.op = "rope",
     .inputs = {{{12, 1, 2, 1}, 9, 1}, {{2, 1, 1, 1}, 0, 0}, {{4, 1, 1, 1}, 0, 0}},
     {"n_rot", "freq_base", "freq_scale", "attn_factor"},
     {8, 500, 0.5, 1.2},
     .positions = {3, 500},
     .factors = {1, 2, 4, 8},
     EXPECT(rope_pairs_12x2)},
    {.op = "position_scale",
     .inputs = {{{3, 1, 2, 1}, 14, 1}, {{2, 1, 1, 1}, 0, 0}},
     {"scale", "length"},
     {0.3, 100},
     .positions = {50, 250},
     EXPECT(position_scale_3x2)},
};
#undef ROW
#undef WIDE

static void numbers_by_numpy(void **state) {
    (void)state;
    for (size_t i = 0; i < PLAIT_COUNT_OF(frozen_cases); i++) check_frozen(&frozen_cases[i]);
    printf("%zu cases by numpy\n", PLAIT_COUNT_OF(frozen_cases));
}

/* The paged attention of numpy: 3 pages of 2 keys in order 2, 0, 1, window 4, softcap 2, sinks. */
static void attention_by_numpy(void **state) {
    (void)state;
    const frozen_case c = {.op = "attention",
                           .inputs = {{{4, 4, 2, 1}, 10, 1},
                                      {{4, 2, 2, 3}, 11, 1},
                                      {{3, 2, 2, 3}, 12, 1},
                                      {{2, 1, 1, 1}, 0, 0},
                                      {{2, 1, 1, 1}, 0, 0},
                                      {{3, 1, 1, 1}, 0, 0},
                                      {{4, 1, 1, 1}, 13, 1}},
                           {"scale", "window", "softcap"},
                           {0.7, 4, 2}};
    static const int32_t control[3][3] = {{3, 5, 0}, {0, 0, 0}, {2, 0, 1}}; /* positions, sequences, pages */
    test_use t;
    size_t at = 0;
    begin_frozen(&t, &c);
    for (int i = 0; i < 3; i++)
        for (int64_t j = 0; j < t.use.inputs[3 + i].dims[0]; j++)
            plait_ref_set_id(&t.use.inputs[3 + i], j, 0, control[i][j]);
    test_run(&t);
    assert_int_equal(plait_operand_elems(&t.use.outputs[0]), PLAIT_COUNT_OF(attention_3x4x2));
    PLAIT_REF_ROWS(&t.use.outputs[0], i1, i2, i3)
    for (int64_t i = 0; i < 3; i++)
        assert_near(test_at(&t.use.outputs[0], i, i1, i2, i3), attention_3x4x2[at++], 2e-7);
    test_end(&t);
}

/* ---- second formulas, over all examples ---- */

/* What element (i0, i1, i2, i3) of output 0 should be. */
typedef double (*formula)(const plait_op_use *use, int64_t i0, int64_t i1, int64_t i2, int64_t i3);

static double x_at(const plait_op_use *use, int64_t i0, int64_t i1, int64_t i2, int64_t i3) {
    return test_at(&use->inputs[0], i0, i1, i2, i3);
}

static double matmul_formula(const plait_op_use *use, int64_t m, int64_t n, int64_t i2, int64_t i3) {
    (void)i2;
    (void)i3;
    long double sum = 0;
    for (int64_t k = use->inputs[0].dims[0] - 1; k >= 0; k--)
        sum += (long double)test_at(&use->inputs[0], k, m, 0, 0) *
               (long double)test_at(&use->inputs[1], k, n, 0, 0);
    return (double)sum;
}

static double get_rows_formula(const plait_op_use *use, int64_t k, int64_t n, int64_t i2, int64_t i3) {
    (void)i2;
    (void)i3;
    int64_t id = plait_ref_get_id(&use->inputs[1], n, 0) - use->attrs[PLAIT_GET_ROWS_START_V].i;
    return id < 0 || id >= use->inputs[0].dims[1] ? 0.0 : test_at(&use->inputs[0], k, id, 0, 0);
}

static double expert_matmul_formula(const plait_op_use *use, int64_t m, int64_t u, int64_t n, int64_t i3) {
    (void)i3;
    const plait_operand *w = &use->inputs[0], *x = &use->inputs[1];
    int64_t e = plait_ref_get_id(&use->inputs[2], u, n) - use->attrs[PLAIT_EXPERT_MATMUL_START_E].i;
    long double sum = 0;
    if (e < 0 || e >= w->dims[2]) return 0;
    for (int64_t k = w->dims[0] - 1; k >= 0; k--)
        sum += (long double)test_at(w, k, m, e, 0) * (long double)test_at(x, k, u % x->dims[1], n, 0);
    return (double)sum;
}

static double weighted_sum_formula(const plait_op_use *use, int64_t m, int64_t n, int64_t i2, int64_t i3) {
    (void)i2;
    (void)i3;
    long double sum = 0;
    for (int64_t u = use->inputs[0].dims[1] - 1; u >= 0; u--)
        sum += (long double)test_at(&use->inputs[0], m, u, n, 0) *
               (long double)test_at(&use->inputs[1], u, n, 0, 0);
    return (double)sum;
}

/* The k'th moment of a row about a point. */
static double moment(const plait_op_use *use, int power, double about, int64_t i1, int64_t i2, int64_t i3) {
    double sum = 0;
    int64_t d = use->inputs[0].dims[0];
    for (int64_t i = 0; i < d; i++) sum += pow(x_at(use, i, i1, i2, i3) - about, power);
    return sum / (double)d;
}

static double rms_norm_formula(const plait_op_use *use, int64_t i0, int64_t i1, int64_t i2, int64_t i3) {
    double w = plait_op_has(use, 1) ? test_at(&use->inputs[1], i0, 0, 0, 0) : 1;
    return w * x_at(use, i0, i1, i2, i3) * pow(moment(use, 2, 0, i1, i2, i3) + use->attrs[0].f, -0.5);
}

static double layer_norm_formula(const plait_op_use *use, int64_t i0, int64_t i1, int64_t i2, int64_t i3) {
    double w = plait_op_has(use, 1) ? test_at(&use->inputs[1], i0, 0, 0, 0) : 1;
    double b = plait_op_has(use, 2) ? test_at(&use->inputs[2], i0, 0, 0, 0) : 0;
    double mean = moment(use, 1, 0, i1, i2, i3), variance = moment(use, 2, 0, i1, i2, i3) - mean * mean;
    return w * (x_at(use, i0, i1, i2, i3) - mean) * pow(variance + use->attrs[0].f, -0.5) + b;
}

static double b_at(const plait_op_use *use, int64_t i0, int64_t i1, int64_t i2, int64_t i3) {
    const plait_operand *b = &use->inputs[1];
    return test_at(b, i0 % b->dims[0], i1 % b->dims[1], i2 % b->dims[2], i3 % b->dims[3]);
}

#define ELEMENTWISE(name, expression)                                                                        \
    static double name##_formula(const plait_op_use *use, int64_t i0, int64_t i1, int64_t i2, int64_t i3) {  \
        double x = x_at(use, i0, i1, i2, i3);                                                                \
        return expression;                                                                                   \
    }
#define B b_at(use, i0, i1, i2, i3)
ELEMENTWISE(add, x + B)
ELEMENTWISE(sub, x - B)
ELEMENTWISE(mul, x *B)
ELEMENTWISE(div, x / B)
ELEMENTWISE(scale, -0.37 * x)
/* sigmoid(x) = (1 + tanh(x / 2)) / 2, and gelu's tanh form is x * sigmoid(2u) */
ELEMENTWISE(sigmoid, 0.5 * (1 + tanh(0.5 * x)))
ELEMENTWISE(silu, 0.5 * x * (1 + tanh(0.5 * x)))
ELEMENTWISE(gelu, x / (1 + exp(-2 * sqrt(2 / acos(-1)) * (x + 0.044715 * pow(x, 3)))))
ELEMENTWISE(relu, 0.5 * (x + fabs(x)))
ELEMENTWISE(tanh, (exp(2 * x) - 1) / (exp(2 * x) + 1))
ELEMENTWISE(softcap, 1.5 * (1 - 2 / (exp(2 * x / 1.5) + 1)))
ELEMENTWISE(swiglu, 0.5 * x * (1 + tanh(0.5 * x)) * B)
ELEMENTWISE(geglu, x / (1 + exp(-2 * sqrt(2 / acos(-1)) * (x + 0.044715 * pow(x, 3)))) * B)
ELEMENTWISE(copy, x)
#undef B

static double softmax_formula(const plait_op_use *use, int64_t i0, int64_t i1, int64_t i2, int64_t i3) {
    double sum = 0;
    for (int64_t i = 0; i < use->inputs[0].dims[0]; i++)
        sum += exp(use->attrs[0].f * (x_at(use, i, i1, i2, i3) - x_at(use, i0, i1, i2, i3)));
    return 1 / sum;
}

/* The part of YaRN's ramp that keeps the trained frequency (0: none). */
static double kept_part(const plait_attr *a, double pair, double n_rot) {
    double pi = acos(-1), context = (double)a[PLAIT_ROPE_ORIGINAL_CONTEXT].i,
           base = a[PLAIT_ROPE_FREQ_BASE].f;
    double low = floor(n_rot / 2 * log(context / (2 * pi * a[PLAIT_ROPE_BETA_FAST].f)) / log(base));
    double high = ceil(n_rot / 2 * log(context / (2 * pi * a[PLAIT_ROPE_BETA_SLOW].f)) / log(base));
    low = low < 0 ? 0 : low;
    high = high > n_rot - 1 ? n_rot - 1 : high;
    if (a[PLAIT_ROPE_EXT_FACTOR].f == 0) return 0;
    return a[PLAIT_ROPE_EXT_FACTOR].f * (pair <= low ? 1 : pair >= high ? 0 : (high - pair) / (high - low));
}

/* A pair is a complex number, rope a product with magnitude * e^(i angle). */
static double rope_formula(const plait_op_use *use, int64_t i0, int64_t h, int64_t n, int64_t i3) {
    const plait_attr *a = use->attrs;
    int64_t n_rot = a[PLAIT_ROPE_N_ROT].i ? a[PLAIT_ROPE_N_ROT].i : use->inputs[0].dims[0];
    bool split = a[PLAIT_ROPE_SPLIT_HALVES].i;
    if (i0 >= n_rot) return x_at(use, i0, h, n, i3);
    int64_t pair = split ? i0 % (n_rot / 2) : i0 / 2;
    bool second = split ? i0 >= n_rot / 2 : i0 % 2;
    double kept = kept_part(a, (double)pair, (double)n_rot), s = a[PLAIT_ROPE_FREQ_SCALE].f;
    double angle = plait_ref_get_id(&use->inputs[1], n, 0) *
                   exp(-2.0 * (double)pair / (double)n_rot * log(a[PLAIT_ROPE_FREQ_BASE].f));
    if (plait_op_has(use, 2)) angle /= test_at(&use->inputs[2], pair, 0, 0, 0);
    angle *= s * (1 - kept) + kept;
    double magnitude = a[PLAIT_ROPE_ATTN_FACTOR].f * (a[PLAIT_ROPE_EXT_FACTOR].f != 0 ? 1 - 0.1 * log(s) : 1);
    double complex z = x_at(use, split ? pair : 2 * pair, h, n, i3) +
                       x_at(use, split ? pair + n_rot / 2 : 2 * pair + 1, h, n, i3) * I;
    z *= magnitude * cexp(angle * I);
    return second ? cimag(z) : creal(z);
}

static double position_scale_formula(const plait_op_use *use, int64_t i0, int64_t h, int64_t n, int64_t i3) {
    double steps =
        floor(plait_ref_get_id(&use->inputs[1], n, 0) / (double)use->attrs[PLAIT_POSITION_SCALE_LENGTH].i);
    return x_at(use, i0, h, n, i3) * (1 + use->attrs[PLAIT_POSITION_SCALE_SCALE].f * log1p(steps));
}

/* How many elements of column n come before element i: its rank. */
static int64_t rank_of(const plait_op_use *use, int64_t i, int64_t n) {
    int64_t rank = 0;
    for (int64_t j = 0; j < use->inputs[0].dims[0]; j++) {
        double a = x_at(use, j, n, 0, 0), b = x_at(use, i, n, 0, 0);
        rank += a > b || (a == b && j < i);
    }
    return rank;
}

/* The id that came out must have the rank of its place. */
static double argmax_formula(const plait_op_use *use, int64_t n, int64_t i1, int64_t i2, int64_t i3) {
    (void)i1;
    (void)i2;
    (void)i3;
    int32_t id = plait_ref_get_id(&use->outputs[0], n, 0);
    assert_int_equal(rank_of(use, id - use->attrs[PLAIT_ARGMAX_START_V].i, n), 0);
    return id;
}

static double top_k_formula(const plait_op_use *use, int64_t k, int64_t n, int64_t i2, int64_t i3) {
    int64_t i = plait_ref_get_id(&use->outputs[1], k, n) - use->attrs[PLAIT_TOP_K_START_V].i;
    assert_int_equal(rank_of(use, i, n), k);
    return x_at(use, i, n, i2, i3);
}

/* The formats' own rounding is tested with them; here only that casts hit the right elements. */
static double cast_tolerance(plait_dtype dtype) {
    return dtype == PLAIT_F32 ? 0 : dtype == PLAIT_F16 ? 5e-4 : dtype == PLAIT_Q4_0 ? 0.1 : 5e-3;
}

static void check_formula(plait_op_id id, formula f, double tolerance, int *n) {
    test_use t;
    for (int which = 0; test_begin(&t, plait_op_get(id), which); which++, test_end(&t)) {
        const plait_operand *y = &t.use.outputs[0];
        test_run(&t);
        double allowed = id == PLAIT_OP_cast ? cast_tolerance(y->dtype) : tolerance;
        PLAIT_REF_ROWS(y, i1, i2, i3)
        for (int64_t i0 = 0; i0 < y->dims[0]; i0++, ++*n) {
            double expected = f(&t.use, i0, i1, i2, i3), actual = test_at(y, i0, i1, i2, i3);
            if (!(fabs(actual - expected) <= allowed * fmax(1, fabs(expected))) &&
                !(isnan(actual) && isnan(expected)))
                fail_msg("%s, example %d, element %lld,%lld,%lld,%lld: expected %.9g, found %.9g",
                         t.use.op->name, which, (long long)i0, (long long)i1, (long long)i2, (long long)i3,
                         expected, actual);
        }
    }
    test_end(&t);
}

static void second_formulas(void **state) {
    (void)state;
    int n = 0;
#define CHECK(name) check_formula(PLAIT_OP_##name, name##_formula, 2e-7, &n)
    CHECK(matmul);
    CHECK(get_rows);
    CHECK(rms_norm);
    CHECK(layer_norm);
    CHECK(add);
    CHECK(sub);
    CHECK(mul);
    CHECK(div);
    CHECK(scale);
    CHECK(silu);
    CHECK(gelu);
    CHECK(relu);
    CHECK(sigmoid);
    CHECK(tanh);
    CHECK(softcap);
    CHECK(swiglu);
    CHECK(geglu);
    CHECK(softmax);
    CHECK(rope);
    CHECK(position_scale);
    CHECK(copy);
    CHECK(argmax);
    CHECK(top_k);
    CHECK(expert_matmul);
    CHECK(weighted_sum);
    check_formula(PLAIT_OP_cast, copy_formula, 0, &n);
#undef CHECK
    printf("%d elements\n", n);
}

/* ---- corners ---- */

/* Runs an op without attributes, or with one, on a few numbers. */
static void run_row(const char *op, double attr, const float *x, int64_t n, double *out) {
    const frozen_case c = {.op = op, .inputs = {{{n, 1, 1, 1}, 0, 0}}};
    test_use t;
    begin_frozen(&t, &c);
    t.use.attrs[0].f = attr;
    for (int64_t i = 0; i < n; i++) plait_ref_set(&t.use.inputs[0], i, 0, 0, 0, (double)x[i]);
    test_run(&t);
    for (int64_t i = 0; i < n; i++) out[i] = plait_ref_get(&t.use.outputs[0], i, 0, 0, 0);
    test_end(&t);
}

static void limits_of_activations(void **state) {
    (void)state;
    const float x[] = {-INFINITY, -1e30f, -200, 0, 200, 1e30f, INFINITY, NAN};
    double y[8];
    run_row("silu", 0, x, 8, y);
    assert_true(y[0] == 0 && y[1] == 0 && y[3] == 0 && y[4] == 200 && y[6] == INFINITY && isnan(y[7]));
    run_row("gelu", 0, x, 8, y);
    assert_true(y[0] == 0 && y[1] == 0 && y[3] == 0 && y[4] == 200 && y[6] == INFINITY && isnan(y[7]));
    run_row("sigmoid", 0, x, 8, y);
    assert_true(y[0] == 0 && y[2] < 1e-80 && y[3] == 0.5 && y[6] == 1 && isnan(y[7]));
    run_row("relu", 0, x, 8, y);
    assert_true(y[0] == 0 && y[2] == 0 && y[4] == 200 && y[6] == INFINITY && isnan(y[7]));
    run_row("tanh", 0, x, 8, y);
    assert_true(y[0] == -1 && y[6] == 1 && isnan(y[7]));
}

static void softmax_does_not_overflow(void **state) {
    (void)state;
    const float x[] = {1e30f, -1e30f, 1e30f, -INFINITY};
    double y[4];
    run_row("softmax", 1, x, 4, y);
    assert_true(y[0] == 0.5 && y[1] == 0 && y[2] == 0.5 && y[3] == 0);
}

/* argmax and top_k of [NaN, 1, NaN, 3, 3, -inf]. */
static void nan_is_worse_than_every_number(void **state) {
    (void)state;
    const float x[] = {NAN, 1, NAN, 3, 3, -INFINITY};
    const int32_t order[] = {3, 4, 1, 5, 0, 2};
    const frozen_case best = {.op = "argmax", .inputs = {{{6, 1, 1, 1}, 0, 0}}};
    const frozen_case top = {.op = "top_k", .inputs = {{{6, 1, 1, 1}, 0, 0}}, .attrs = {"k"}, .values = {6}};
    test_use t;
    begin_frozen(&t, &best);
    memcpy(t.use.inputs[0].data, x, sizeof x);
    test_run(&t);
    assert_int_equal(plait_ref_get_id(&t.use.outputs[0], 0, 0), 3);
    for (int i = 0; i < 6; i++) plait_ref_set(&t.use.inputs[0], i, 0, 0, 0, NAN);
    test_run(&t);
    assert_int_equal(plait_ref_get_id(&t.use.outputs[0], 0, 0), 0);
    test_end(&t);
    begin_frozen(&t, &top);
    memcpy(t.use.inputs[0].data, x, sizeof x);
    test_run(&t);
    for (int i = 0; i < 6; i++) assert_int_equal(plait_ref_get_id(&t.use.outputs[1], i, 0), order[i]);
    assert_true(isnan(plait_ref_get(&t.use.outputs[0], 4, 0, 0, 0)));
    test_end(&t);
}

/* Law 7: ids outside the whole give zeros and set the error word; ids of another slice give zeros only. */
static void bad_rows_are_zeros(void **state) {
    (void)state;
    test_use t;
    assert_true(test_begin(&t, plait_op_find("get_rows"), 10)); /* table of ids 20..29 of 50, 12 ids */
    const int32_t ids[12] = {20, 29, 19, 30, 0, 49, 20, 20, 20, 20, 20, 20};
    for (int i = 0; i < 12; i++) plait_ref_set_id(&t.use.inputs[1], i, 0, ids[i]);
    test_run(&t);
    assert_int_equal(t.error_word, 0);
    for (int i = 0; i < 6; i++) assert_int_equal(plait_ref_get(&t.use.outputs[0], 1, i, 0, 0) != 0, i < 2);
    const int32_t bad[] = {-1, 50, INT32_MAX, INT32_MIN};
    for (int i = 0; i < 4; i++) {
        t.error_word = 0;
        plait_ref_set_id(&t.use.inputs[1], 3, 0, bad[i]);
        test_run(&t);
        assert_int_equal(t.error_word, 1);
        assert_true(plait_ref_get(&t.use.outputs[0], 1, 3, 0, 0) == 0);
        t.use.error_word = NULL;
        test_run(&t);
        t.use.error_word = &t.error_word;
    }
    test_end(&t);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_by_numpy),          cmocka_unit_test(attention_by_numpy),
        cmocka_unit_test(second_formulas),           cmocka_unit_test(limits_of_activations),
        cmocka_unit_test(softmax_does_not_overflow), cmocka_unit_test(nan_is_worse_than_every_number),
        cmocka_unit_test(bad_rows_are_zeros),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
