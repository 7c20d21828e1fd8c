/* Ops at the sizes that models have: one token (decode) and many (prompts). These are what --bench times. The models
 * are named where the numbers come from; ops whose rows are short in every model have one line. Not here: how times are
 * taken (bench.c).
 *
 * Invariant: the same shapes in every run, checked like any other case; only the largest products, with
 * experts or without, are timed without being compared. */
#include "base/size.h"
#include "conformance/bench.h"
#include "conformance/case.h"

#include <stdio.h>

/* A line: the op, the dims of its inputs, the type of input 0 and the columns or tokens of a decode and a prompt. */
typedef struct shape_line {
    const char *name;
    plait_op_id op;
    int64_t dims[3][PLAIT_MAX_RANK]; /* of the first inputs; TOKENS: the number of them */
    const char *attrs[2];            /* names, NULL: none */
    plait_attr values[2];
    bool deep; /* takes long */
} shape_line;

/* In place of a dim. */
#define TOKENS (-1)

static const shape_line lines[] = {
    /* SmolLM2-135M: width 576, hidden 1536, 9 heads of 64, 3 for keys; gemma-3-270m: width 640, hidden 2048. */
    {"smollm2-norm", PLAIT_OP_rms_norm, {{576, TOKENS, 1, 1}, {576, 1, 1, 1}}, {"eps"}, {{.f = 1e-5}}, false},
    {"gemma3-norm", PLAIT_OP_rms_norm, {{256, 4, TOKENS, 1}, {256, 1, 1, 1}}, {"eps"}, {{.f = 1e-6}}, false},
    {"bert-norm",
     PLAIT_OP_layer_norm,
     {{768, TOKENS, 1, 1}, {768, 1, 1, 1}, {768, 1, 1, 1}},
     {"eps"},
     {{.f = 1e-12}},
     false},
    {"smollm2-add", PLAIT_OP_add, {{576, TOKENS, 1, 1}, {576, TOKENS, 1, 1}}, {NULL}, {{0}}, false},
    {"qwen2-bias", PLAIT_OP_add, {{896, TOKENS, 1, 1}, {896, 1, 1, 1}}, {NULL}, {{0}}, false},
    {"smollm2-sub", PLAIT_OP_sub, {{576, TOKENS, 1, 1}, {576, TOKENS, 1, 1}}, {NULL}, {{0}}, false},
    {"smollm2-mul", PLAIT_OP_mul, {{1536, TOKENS, 1, 1}, {1536, TOKENS, 1, 1}}, {NULL}, {{0}}, false},
    {"router-div", PLAIT_OP_div, {{8, TOKENS, 1, 1}, {1, TOKENS, 1, 1}}, {NULL}, {{0}}, false},
    {"gemma3-scale", PLAIT_OP_scale, {{640, TOKENS, 1, 1}}, {"factor"}, {{.f = 25.298221}}, false},
    {"mlp-silu", PLAIT_OP_silu, {{1536, TOKENS, 1, 1}}, {NULL}, {{0}}, false},
    {"mlp-gelu", PLAIT_OP_gelu, {{3072, TOKENS, 1, 1}}, {NULL}, {{0}}, false},
    {"mlp-relu", PLAIT_OP_relu, {{2048, TOKENS, 1, 1}}, {NULL}, {{0}}, false},
    {"gate-sigmoid", PLAIT_OP_sigmoid, {{2048, TOKENS, 1, 1}}, {NULL}, {{0}}, false},
    {"mlp-tanh", PLAIT_OP_tanh, {{768, TOKENS, 1, 1}}, {NULL}, {{0}}, false},
    {"gemma2-softcap", PLAIT_OP_softcap, {{8192, TOKENS, 1, 1}}, {"cap"}, {{.f = 30}}, false},
    {"smollm2-swiglu", PLAIT_OP_swiglu, {{1536, TOKENS, 1, 1}, {1536, TOKENS, 1, 1}}, {NULL}, {{0}}, false},
    {"gemma3-geglu", PLAIT_OP_geglu, {{2048, TOKENS, 1, 1}, {2048, TOKENS, 1, 1}}, {NULL}, {{0}}, false},
    {"router-softmax", PLAIT_OP_softmax, {{64, TOKENS, 1, 1}}, {NULL}, {{0}}, false},
    {"smollm2-rope",
     PLAIT_OP_rope,
     {{64, 9, TOKENS, 1}, {TOKENS, 1, 1, 1}},
     {"freq_base"},
     {{.f = 100000}},
     false},
    {"gemma3-rope",
     PLAIT_OP_rope,
     {{256, 4, TOKENS, 1}, {TOKENS, 1, 1, 1}},
     {"split_halves", "freq_base"},
     {{.i = 1}, {.f = 1e6}},
     false},
    {"llama4-positions",
     PLAIT_OP_position_scale,
     {{128, 40, TOKENS, 1}, {TOKENS, 1, 1, 1}},
     {"scale", "length"},
     {{.f = 0.1}, {.i = 8192}},
     false},
    {"cache-hadamard", PLAIT_OP_hadamard, {{128, 8, TOKENS, 1}}, {"block"}, {{.i = 128}}, false},
    {"smollm2-copy", PLAIT_OP_copy, {{576, TOKENS, 1, 1}}, {NULL}, {{0}}, false},
    {"smollm2-cast", PLAIT_OP_cast, {{576, TOKENS, 1, 1}}, {"dtype"}, {{.i = PLAIT_F16}}, false},
    {"smollm2-argmax", PLAIT_OP_argmax, {{49152, TOKENS, 1, 1}}, {NULL}, {{0}}, true},
    {"smollm2-top", PLAIT_OP_top_k, {{49152, TOKENS, 1, 1}}, {"k"}, {{.i = 40}}, true},
    {"router-top", PLAIT_OP_top_k, {{64, TOKENS, 1, 1}}, {"k"}, {{.i = 8}}, false},
    {"qwen3moe-sum", PLAIT_OP_weighted_sum, {{2048, 8, TOKENS, 1}, {8, TOKENS, 1, 1}}, {NULL}, {{0}}, false},
    {"page-copy", PLAIT_OP_page_copy, {{64, 16, 3, 32}, {2, TOKENS, 1, 1}}, {NULL}, {{0}}, false},
    {"kv-shift", PLAIT_OP_kv_shift, {{64, 16, 3, 32}, {2, TOKENS, 1, 1}}, {NULL}, {{0}}, false},
};

/* A weight [k, m]; deep: too large for a run that should be quick. */
typedef struct product_line {
    const char *name;
    int64_t k, m;
    bool deep;
} product_line;

static const product_line products[] = {
    {"smollm2-q", 576, 576, false},     {"smollm2-gate", 576, 1536, false},
    {"smollm2-down", 1536, 576, false}, {"gemma3-down", 2048, 640, true},
    {"llama3-kv", 4096, 1024, true},    {"smollm2-output", 576, 49152, true},
};

/* Granite 3 (1b-a400m): width 1024, 32 experts of 512, 8 used. */
typedef struct expert_line {
    const char *name;
    int64_t k, m, experts, used;
    bool shared; /* the experts of a token read one column */
    bool deep;
} expert_line;

static const expert_line experts[] = {
    {"small-up", 256, 128, 8, 2, true, false},
    {"small-down", 256, 256, 8, 2, false, false},
    {"granite-up", 1024, 512, 32, 8, true, true},
    {"granite-down", 512, 1024, 32, 8, false, true},
};

/* Cache of `pages` pages of page_len keys; window 0: all keys are seen. Names repeat, with other types. */
typedef struct attention_line {
    const char *name;
    int64_t head_dim, heads, kv_heads, page_len, pages;
    plait_dtype dtype;
    int64_t window;
    bool deep;
} attention_line;

static const attention_line attentions[] = {
    {"smollm2", 64, 9, 3, 32, 16, PLAIT_F16, 0, false},   {"smollm2", 64, 9, 3, 32, 16, PLAIT_Q8_0, 0, false},
    {"gemma3", 256, 4, 1, 32, 16, PLAIT_F16, 128, false}, {"phi3", 96, 8, 8, 32, 8, PLAIT_BF16, 0, true},
    {"phi2", 80, 8, 8, 32, 8, PLAIT_F32, 0, true},        {"llama3", 128, 32, 8, 32, 64, PLAIT_F16, 0, true},
    {"llama3", 128, 32, 8, 32, 64, PLAIT_Q4_0, 0, true},
};

/* Sizes are constants, so this cannot overflow. */
static plait_operand dense(plait_dtype dtype, int64_t d0, int64_t d1, int64_t d2, int64_t d3) {
    plait_operand o = {.dtype = dtype, .dims = {d0, d1, d2, d3}};
    plait_operand_make_dense(&o);
    return o;
}

static void check(plait_conf *c, plait_conf_case *test, const char *format, ...) PLAIT_PRINTF(3, 4);

/* Packed where the device offers it, which is how weights lie in a run. A use that the op refuses has no check. */
static void check(plait_conf *c, plait_conf_case *test, const char *format, ...) {
    char name[96];
    va_list args;
    int n = snprintf(name, sizeof name, "shape/%s/", test->use.op->name);
    va_start(args, format);
    vsnprintf(name + n, sizeof name - (size_t)n, format, args);
    va_end(args);
    test->packed = true;
    test->timed = c->options.bench;
    if (plait_conf_case_infer(test)) plait_conf_check(c, name, plait_conf_case_check, test);
}

/* An empty use of an op. The example's run-time data is that of example 0; shapes come from the line. The seed is the
 * number of tokens, so the same line with other columns has other numbers. */
static void start(plait_conf_case *test, plait_op_id op, int64_t tokens) {
    plait_conf_case_init(test, plait_op_get(op), 0);
    plait_op_use_init(&test->use, plait_op_get(op));
    test->seed = (uint64_t)tokens;
}

/* Inputs in the op's order, each of them there. */
static void add_input(plait_conf_case *test, plait_operand operand) {
    test->use.present |= 1u << test->use.n_inputs;
    test->use.inputs[test->use.n_inputs++] = operand;
}

/* Types as models have them: ids where the op reads control, half precision for caches, floats otherwise. The rows that
 * an op writes in place are a cache's, hence F16. */
static void check_line(plait_conf *c, const shape_line *line, int64_t tokens) {
    plait_conf_case test;
    const plait_op *op = plait_op_get(line->op);
    start(&test, line->op, tokens);
    for (int i = 0; i < 3 && line->dims[i][0]; i++) {
        plait_dtype dtype = op->runtime_inputs >> i & 1u ? PLAIT_I32
                            : op->writes_input == i      ? PLAIT_F16
                                                         : PLAIT_F32;
        int64_t dims[PLAIT_MAX_RANK];
        for (int d = 0; d < PLAIT_MAX_RANK; d++)
            dims[d] = line->dims[i][d] == TOKENS ? tokens : line->dims[i][d];
        add_input(&test, dense(dtype, dims[0], dims[1], dims[2], dims[3]));
    }
    for (int a = 0; a < 2 && line->attrs[a]; a++) {
        int attr = plait_op_attr_index(op, line->attrs[a]);
        if (attr >= 0) test.use.attrs[attr] = line->values[a];
    }
    check(c, &test, "%s/%lld", line->name, (long long)tokens);
}

/* Beyond 100 columns the reference would take minutes, so such products are only timed. */
static void check_product(plait_conf *c, const product_line *line, plait_dtype dtype, int64_t tokens) {
    plait_conf_case test;
    if (line->k % plait_dtype_block_elems(dtype)) return;
    start(&test, PLAIT_OP_matmul, tokens);
    add_input(&test, dense(dtype, line->k, line->m, 1, 1));
    add_input(&test, dense(PLAIT_F32, line->k, tokens, 1, 1));
    test.unchecked = tokens > 100;
    check(c, &test, "%s-%s/%lld", line->name, plait_dtype_name(dtype), (long long)tokens);
}

/* Without --deep or --bench only what ends quickly: small matrices, few columns. Large ones are measured with few
 * columns, which is how their memory shows. */
static void check_products(plait_conf *c) {
    static const plait_dtype quick[] = {PLAIT_F32, PLAIT_F16, PLAIT_Q8_0, PLAIT_Q4_0, PLAIT_Q4_1};
    static const plait_dtype deep[] = {
        PLAIT_F32,  PLAIT_F16,  PLAIT_BF16, PLAIT_Q8_0, PLAIT_Q4_0, PLAIT_Q4_1,   PLAIT_Q5_0,   PLAIT_Q5_1,
        PLAIT_Q2_K, PLAIT_Q3_K, PLAIT_Q4_K, PLAIT_Q5_K, PLAIT_Q6_K, PLAIT_IQ4_NL, PLAIT_IQ4_XS, PLAIT_MXFP4};
    const int64_t tokens[] = {1, 33, c->options.deep ? 97 : 512}; /* 512 is for times only */
    bool all = c->options.deep, timed = c->options.bench;
    for (size_t i = 0; i < PLAIT_COUNT_OF(products); i++)
        for (size_t d = 0; d < (all ? PLAIT_COUNT_OF(deep) : PLAIT_COUNT_OF(quick)); d++)
            for (size_t n = 0; n < PLAIT_COUNT_OF(tokens); n++) {
                /* One token of every product always; more tokens of square ones; everything else in longer runs. */
                bool slow =
                    products[i].deep || tokens[n] > 100 || (tokens[n] > 1 && products[i].m != products[i].k);
                if (slow && !all && (!timed || products[i].deep)) continue;
                if (products[i].k * products[i].m > 1000000 && tokens[n] > (all ? 33 : 1)) continue;
                if (products[i].m > 10000 && tokens[n] > 1) continue;
                check_product(c, &products[i], (all ? deep : quick)[d], tokens[n]);
            }
}

/* Any ids below the number of experts, as example 0 makes them. `shared`: gate and up read the token's column; down
 * reads each expert's own. */
static void check_expert_line(plait_conf *c, const expert_line *line, plait_dtype dtype, int64_t tokens) {
    plait_conf_case test;
    start(&test, PLAIT_OP_expert_matmul, tokens);
    add_input(&test, dense(dtype, line->k, line->m, line->experts, 1));
    add_input(&test, dense(PLAIT_F32, line->k, line->shared ? 1 : line->used, tokens, 1));
    add_input(&test, dense(PLAIT_I32, line->used, tokens, 1, 1));
    test.unchecked = tokens > 1 && line->deep; /* the reference would take long */
    check(c, &test, "%s-%s/%lld", line->name, plait_dtype_name(dtype), (long long)tokens);
}

/* Short runs have the small ones with few tokens; others the large ones, and the small ones with few tokens still. */
static void check_experts(plait_conf *c) {
    static const plait_dtype types[] = {PLAIT_Q8_0, PLAIT_Q4_K, PLAIT_F16};
    static const int64_t tokens[] = {1, 33, 512};
    bool all = c->options.deep || c->options.bench;
    for (size_t i = 0; i < PLAIT_COUNT_OF(experts); i++)
        for (size_t d = 0; d < (all ? PLAIT_COUNT_OF(types) : 2); d++)
            for (size_t n = 0; n < PLAIT_COUNT_OF(tokens); n++)
                if (all ? experts[i].deep || tokens[n] < 100 : !experts[i].deep && tokens[n] < 100)
                    check_expert_line(c, &experts[i], types[d], tokens[n]);
}

/* One page more than the table names, so that pages are not all of the cache. Positions and sequences are I32 by token,
 * the table by page. */
static void check_attention(plait_conf *c, const attention_line *line, int64_t tokens) {
    plait_conf_case test;
    start(&test, PLAIT_OP_attention, tokens);
    add_input(&test, dense(PLAIT_F32, line->head_dim, line->heads, tokens, 1));
    for (int i = 0; i < 2; i++)
        add_input(&test, dense(line->dtype, line->head_dim, line->page_len, line->kv_heads, line->pages + 1));
    for (int i = 0; i < 2; i++) add_input(&test, dense(PLAIT_I32, tokens, 1, 1, 1));
    add_input(&test, dense(PLAIT_I32, line->pages, 1, 1, 1));
    test.use.attrs[plait_op_attr_index(test.use.op, "window")].i = line->window;
    check(c, &test, "%s-%s/%lld", line->name, plait_dtype_name(line->dtype), (long long)tokens);
}

/* The cache is input 0 and output, rows are one token's heads, slots one number a token. */
static void check_cache_write(plait_conf *c, const attention_line *line, int64_t tokens) {
    plait_conf_case test;
    start(&test, PLAIT_OP_kv_write, tokens);
    add_input(&test, dense(line->dtype, line->head_dim, line->page_len, line->kv_heads, line->pages));
    add_input(&test, dense(PLAIT_F32, line->head_dim, line->kv_heads, tokens, 1));
    add_input(&test, dense(PLAIT_I32, tokens, 1, 1, 1));
    check(c, &test, "%s-%s/%lld", line->name, plait_dtype_name(line->dtype), (long long)tokens);
}

/* Rows are cut to whole blocks of the type. 4096 rows are enough for ids to be far apart, and few enough to be encoded
 * quickly. */
static void check_lookup(plait_conf *c, plait_dtype dtype, int64_t tokens) {
    plait_conf_case test;
    int64_t k = 576 / plait_dtype_block_elems(dtype) * plait_dtype_block_elems(dtype);
    start(&test, PLAIT_OP_get_rows, tokens);
    add_input(&test, dense(dtype, k, 4096, 1, 1));
    add_input(&test, dense(PLAIT_I32, tokens, 1, 1, 1));
    check(c, &test, "smollm2-%s/%lld", plait_dtype_name(dtype), (long long)tokens);
}

/* As a check, so that a device that cannot be measured is told by name. */
static plait_status measure_limits(plait_conf *c, void *user) {
    (void)user;
    return plait_conf_measure(c);
}

/* Limits first: later checks state their share of them. */
void plait_conf_shapes(plait_conf *c) {
    static const int64_t tokens[] = {1, 128};
    if (c->options.bench) plait_conf_check(c, "shape/limits", measure_limits, NULL);
    for (size_t i = 0; i < PLAIT_COUNT_OF(tokens); i++) {
        for (size_t l = 0; l < PLAIT_COUNT_OF(lines); l++)
            if (!lines[l].deep || c->options.deep || c->options.bench)
                check_line(c, &lines[l],
                           /* Copies of pages come few at a time. */
                           plait_min_i64(tokens[i], lines[l].op == PLAIT_OP_page_copy ? 8 : tokens[i]));
        for (size_t a = 0; a < PLAIT_COUNT_OF(attentions); a++) {
            if (attentions[a].deep && !c->options.deep) continue;
            check_attention(c, &attentions[a], tokens[i] > 1 ? 24 : 1);
            check_cache_write(c, &attentions[a], tokens[i]);
        }
        check_lookup(c, PLAIT_Q8_0, tokens[i]);
        check_lookup(c, PLAIT_Q4_K, tokens[i]);
    }
    check_products(c);
    check_experts(c);
}
