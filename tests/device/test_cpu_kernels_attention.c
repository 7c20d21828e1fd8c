/* Attention of the cpu device in the shapes of models: against the reference, with NaN in every slot of the cache that
 * no token may see, and to the byte: any instruction set, any cut of the units, tokens alone or together. */
#include "device/kernel_calls.h"

#include "op/attrs.h"
#include "op/cache_row.h"
#include "tensor/float16.h"

/* Several sequences whose pages are shuffled, with `n` tokens of them. */
typedef struct shape {
    plait_dtype k, v;
    int64_t d, e, kv_heads, group, page_len, n_sequences, n, context;
    int64_t window;
    double softcap;
    bool sinks, lengths, everything; /* everything: not causal */
} shape;

typedef struct problem {
    shape s;
    test_use t;
    int64_t t_pages; /* pages of a list */
} problem;

static int64_t sequence_length(const shape *s, int64_t sequence) {
    return plait_max_i64(s->context - sequence * (s->context / 3), 1);
}

static void input(problem *p, int i, plait_dtype dtype, int64_t a, int64_t b, int64_t c, int64_t d) {
    plait_operand *o = &p->t.use.inputs[i];
    *o = (plait_operand){.dtype = dtype, .dims = {a, b, c, d}};
    assert_true(plait_operand_make_dense(o));
    p->t.use.present |= 1u << i;
    p->t.use.n_inputs = i + 1;
}

static void random_values(float *row, int64_t n, uint64_t *seed, float size) {
    for (int64_t i = 0; i < n; i++) row[i] = test_random(seed) * size;
}

/* A value that spoils every sum it enters: for quantised types a NaN scale. */
static void poison(const plait_operand *cache) {
    int64_t block = plait_dtype_block_bytes(cache->dtype);
    char *bytes = cache->data;
    memset(bytes, 0xFF, (size_t)plait_operand_span_bytes(cache));
    for (int64_t at = 0; at < plait_operand_span_bytes(cache); at += block) {
        uint32_t nan = 0x7FC00000u;
        if (cache->dtype == PLAIT_F32)
            memcpy(bytes + at, &nan, 4);
        else
            memcpy(bytes + at, cache->dtype == PLAIT_BF16 ? "\xC0\x7F" : "\x00\x7E", 2);
    }
}

/* Sequence s has its first sequence_length keys written, all other slots are poison. The tokens of a sequence are its
 * last ones, in order; sequences take turns in runs of five. */
static void fill(problem *p, uint64_t seed) {
    const shape *s = &p->s;
    plait_op_use *use = &p->t.use;
    const plait_operand *pages = &use->inputs[PLAIT_ATTENTION_PAGES];
    plait_operand list = *pages;
    float row[1024];
    list.dims[0] *= list.dims[1];
    list.dims[1] = 1;
    plait_example_fill_distinct(&list, seed, use->inputs[PLAIT_ATTENTION_K].dims[3]);
    for (int which = PLAIT_ATTENTION_K; which <= PLAIT_ATTENTION_V; which++) {
        const plait_operand *cache = &use->inputs[which];
        poison(cache);
        for (int64_t q = 0; q < s->n_sequences; q++)
            for (int64_t t = 0; t < sequence_length(s, q); t++)
                for (int64_t h = 0; h < s->kv_heads; h++) {
                    random_values(row, cache->dims[0], &seed, 1.0f);
                    plait_cache_encode(cache->dtype, row,
                                       plait_ref_at(cache, 0, t % s->page_len, h,
                                                    plait_ref_get_id(pages, t / s->page_len, q)),
                                       cache->dims[0]);
                }
    }
    int64_t given[8] = {0}, total[8] = {0};
    for (int pass = 0; pass < 2; pass++)
        for (int64_t i = 0; i < s->n; i++) {
            int64_t q = i / 5 % s->n_sequences;
            if (pass == 0) {
                total[q]++;
                continue;
            }
            int64_t position = sequence_length(s, q) - total[q] + given[q]++;
            plait_ref_set_id(&use->inputs[PLAIT_ATTENTION_POSITIONS], i, 0,
                             (int32_t)plait_max_i64(position, 0));
            plait_ref_set_id(&use->inputs[PLAIT_ATTENTION_SEQUENCES], i, 0, (int32_t)q);
        }
    for (int64_t q = 0; s->lengths && q < s->n_sequences; q++)
        plait_ref_set_id(&use->inputs[PLAIT_ATTENTION_LENGTHS], q, 0, (int32_t)sequence_length(s, q));
    test_fill(&use->inputs[PLAIT_ATTENTION_Q], seed);
    if (s->sinks) test_fill(&use->inputs[PLAIT_ATTENTION_SINKS], seed + 1);
}

static void problem_make(problem *p, const shape *s, uint64_t seed) {
    *p = (problem){.s = *s};
    plait_op_use *use = &p->t.use;
    int64_t heads = s->kv_heads * s->group, pages;
    p->t_pages = (s->context + s->page_len - 1) / s->page_len + 1;
    pages = p->t_pages * s->n_sequences + 1;
    plait_op_use_init(use, plait_op_find("attention"));
    input(p, PLAIT_ATTENTION_Q, PLAIT_F32, s->d, heads, s->n, 1);
    input(p, PLAIT_ATTENTION_K, s->k, s->d, s->page_len, s->kv_heads, pages);
    input(p, PLAIT_ATTENTION_V, s->v, s->e, s->page_len, s->kv_heads, pages);
    input(p, PLAIT_ATTENTION_POSITIONS, PLAIT_I32, s->n, 1, 1, 1);
    input(p, PLAIT_ATTENTION_SEQUENCES, PLAIT_I32, s->n, 1, 1, 1);
    input(p, PLAIT_ATTENTION_PAGES, PLAIT_I32, p->t_pages, s->n_sequences, 1, 1);
    if (s->sinks) input(p, PLAIT_ATTENTION_SINKS, PLAIT_F32, heads, 1, 1, 1);
    if (s->lengths) input(p, PLAIT_ATTENTION_LENGTHS, PLAIT_I32, s->n_sequences, 1, 1, 1);
    use->attrs[PLAIT_ATTENTION_WINDOW].i = s->window;
    use->attrs[PLAIT_ATTENTION_SOFTCAP].f = s->softcap;
    use->attrs[PLAIT_ATTENTION_CAUSAL].i = !s->everything;
    assert_int_equal(plait_op_infer(use), PLAIT_OK);
    for (int i = 0; i < use->n_inputs; i++)
        if (plait_op_has(use, i)) test_reserve(&p->t.inputs[i], &use->inputs[i]);
    test_outputs(&p->t);
    fill(p, seed);
}

static float *run(problem *p, uint32_t features, unit_order order) {
    size_t bytes = (size_t)plait_operand_span_bytes(&p->t.use.outputs[0]);
    float *y = malloc(bytes + 1);
    assert_non_null(y);
    memset(p->t.use.outputs[0].data, 0xA5, bytes);
    const plait_cpu_kernel *kernel = fast_kernel(&p->t.use, features);
    assert_non_null(kernel);
    run_kernel(kernel, &p->t.use, features, order);
    memcpy(y, p->t.use.outputs[0].data, bytes);
    return y;
}

/* The same tokens, `step` at a time. */
static void check_in_steps(problem *p, const float *want, int64_t step, uint32_t features) {
    plait_op_use whole = p->t.use;
    const plait_operand *q = &whole.inputs[PLAIT_ATTENTION_Q], *y = &whole.outputs[0];
    memset(y->data, 0xA5, (size_t)plait_operand_span_bytes(y));
    for (int64_t from = 0; from < p->s.n; from += step) {
        plait_op_use use = whole;
        int64_t n = plait_min_i64(step, p->s.n - from);
        use.inputs[PLAIT_ATTENTION_Q].data = plait_ref_at(q, 0, 0, from, 0);
        use.inputs[PLAIT_ATTENTION_POSITIONS].data =
            (int32_t *)whole.inputs[PLAIT_ATTENTION_POSITIONS].data + from;
        use.inputs[PLAIT_ATTENTION_SEQUENCES].data =
            (int32_t *)whole.inputs[PLAIT_ATTENTION_SEQUENCES].data + from;
        use.outputs[0].data = plait_ref_at(y, 0, 0, from, 0);
        use.inputs[PLAIT_ATTENTION_Q].dims[2] = use.outputs[0].dims[2] = n;
        use.inputs[PLAIT_ATTENTION_POSITIONS].dims[0] = use.inputs[PLAIT_ATTENTION_SEQUENCES].dims[0] = n;
        run_kernel(fast_kernel(&use, features), &use, features, UNITS_BY_THREADS);
    }
    assert_memory_equal(y->data, want, (size_t)plait_operand_span_bytes(y));
}

static void check_shape(const shape *s, uint64_t seed, int *n_runs) {
    problem p;
    problem_make(&p, s, seed);
    const plait_operand *y = &p.t.use.outputs[0];
    size_t bytes = (size_t)plait_operand_span_bytes(y);
    uint32_t sets[3];
    int n_sets = feature_sets(sets);
    float *want = run(&p, 0, UNITS_AT_ONCE);
    test_run(&p.t);
    assert_int_equal(p.t.error_word, 0);
    for (size_t i = 0; i < bytes / 4; i++) {
        double exact = (double)((float *)y->data)[i];
        if (fabs((double)want[i] - exact) > 2e-6)
            fail_msg("d %d group %d %s: element %d is %g, expected %g", (int)s->d, (int)s->group,
                     plait_dtype_name(s->k), (int)i, (double)want[i], exact);
    }
    for (int f = 0; f < n_sets; f++)
        for (unit_order order = f == 0 ? UNITS_BY_THREADS : UNITS_AT_ONCE; order <= UNITS_BY_THREADS;
             order++, ++*n_runs) {
            float *other = run(&p, sets[f], order);
            if (memcmp(other, want, bytes) != 0)
                fail_msg("d %d group %d %s features %u order %d: other bytes", (int)s->d, (int)s->group,
                         plait_dtype_name(s->k), sets[f], (int)order);
            free(other);
        }
    /* One by one always; of other numbers at once, shapes take turns. */
    static const int64_t steps[] = {3, 4, 5, 17};
    check_in_steps(&p, want, 1, sets[n_sets - 1]);
    check_in_steps(&p, want, steps[seed % PLAIT_COUNT_OF(steps)], sets[n_sets - 1]);
    *n_runs += 2;
    free(want);
    test_end(&p.t);
}

static void head_dims_and_groups(void **state) {
    (void)state;
    static const int64_t dims[] = {8, 32, 64, 72, 80, 96, 128, 256, 576};
    int n_runs = 0;
    for (size_t i = 0; i < PLAIT_COUNT_OF(dims); i++)
        for (int64_t group = 1 + (int64_t)(i % 2); group <= 8; group += 3) {
            /* Longer rows have fewer tokens; the largest groups still fill more than the 64 rows of a walk. */
            shape s = {PLAIT_F16, PLAIT_F16, dims[i], dims[i], 2,     group, 64, 2, dims[i] > 100 ? 16 : 23,
                       300,       0,         0,       false,   false, false};
            check_shape(&s, i + (uint64_t)group, &n_runs);
        }
    printf("%d runs\n", n_runs);
}

static void types_of_caches(void **state) {
    (void)state;
    static const plait_dtype types[][2] = {{PLAIT_F32, PLAIT_F32},   {PLAIT_BF16, PLAIT_F16},
                                           {PLAIT_Q8_0, PLAIT_Q8_0}, {PLAIT_Q4_0, PLAIT_Q4_0},
                                           {PLAIT_Q8_0, PLAIT_F32},  {PLAIT_Q5_1, PLAIT_IQ4_NL}};
    int n_runs = 0;
    for (size_t i = 0; i < PLAIT_COUNT_OF(types); i++) {
        shape s = {types[i][0], types[i][1], 64, 32, 3, 3, 64, 2, 21, 280, 0, 0, false, false, false};
        check_shape(&s, i + 50, &n_runs);
    }
    printf("%d runs\n", n_runs);
}

/* Windows, sinks, caps, lengths; pages of odd lengths; heads that do not fit a walk. */
static void masks_and_pages(void **state) {
    (void)state;
    static const shape shapes[] = {
        {PLAIT_F16, PLAIT_F16, 32, 32, 2, 2, 64, 3, 40, 600, 100, 0, false, false, false},
        {PLAIT_F16, PLAIT_F16, 32, 32, 1, 4, 16, 2, 33, 400, 7, 0, true, false, false},
        {PLAIT_F32, PLAIT_F32, 48, 16, 1, 4, 7, 2, 33, 290, 0, 30, false, false, false},
        {PLAIT_F32, PLAIT_F32, 20, 12, 2, 1, 100, 2, 37, 650, 300, 0, true, false, false},
        {PLAIT_F16, PLAIT_F16, 16, 16, 1, 71, 64, 2, 9, 280, 0, 0, true, false, false},
        {PLAIT_F32, PLAIT_F32, 32, 32, 2, 2, 32, 2, 20, 150, 0, 0, false, true, true},
        {PLAIT_F16, PLAIT_F16, 32, 32, 2, 2, 64, 2, 20, 150, 40, 0, false, true, true},
        {PLAIT_F16, PLAIT_F16, 64, 64, 1, 3, 64, 1, 130, 130, 0, 0, false, false, false},
        {PLAIT_F16, PLAIT_F16, 64, 64, 1, 1, 64, 1, 257, 300, 33, 0, false, false, false},
        {PLAIT_F16, PLAIT_F16, 64, 64, 2, 2, 300, 2, 6, 700, 0, 0, false, false, false},
        {PLAIT_F16, PLAIT_F16, 64, 64, 1, 1, 1, 2, 6, 40, 0, 0, false, false, false},
    };
    int n_runs = 0;
    for (size_t i = 0; i < PLAIT_COUNT_OF(shapes); i++) check_shape(&shapes[i], i + 90, &n_runs);
    printf("%d runs\n", n_runs);
}

/* Missing pages are skipped; tokens of no sequence and of bad ones give zeros, the latter set the error word. */
static void holes_and_bad_ids(void **state) {
    (void)state;
    shape s = {PLAIT_F16, PLAIT_F16, 32, 32, 2, 2, 16, 2, 12, 300, 0, 0, true, false, false};
    for (int which = 0; which < 6; which++) {
        problem p;
        problem_make(&p, &s, 7);
        plait_operand *pages = &p.t.use.inputs[PLAIT_ATTENTION_PAGES];
        uint32_t sets[3];
        int n_sets = feature_sets(sets);
        for (int64_t i = 3; i < 9; i++)
            plait_ref_set_id(pages, i, 0, i == 5 ? plait_ref_get_id(pages, 5, 0) : -1);
        if (which == 1) plait_ref_set_id(pages, 1, 0, (int32_t)p.t.use.inputs[PLAIT_ATTENTION_K].dims[3]);
        if (which == 2) plait_ref_set_id(&p.t.use.inputs[PLAIT_ATTENTION_SEQUENCES], 6, 0, 2);
        if (which == 3) plait_ref_set_id(&p.t.use.inputs[PLAIT_ATTENTION_SEQUENCES], 6, 0, -1);
        if (which == 4) plait_ref_set_id(&p.t.use.inputs[PLAIT_ATTENTION_POSITIONS], 6, 0, -1);
        if (which == 5) plait_ref_set_id(&p.t.use.inputs[PLAIT_ATTENTION_POSITIONS], 6, 0, 4000);
        float *want = run(&p, 0, UNITS_AT_ONCE);
        bool bad = p.t.error_word != 0;
        p.t.error_word = 0;
        test_run(&p.t);
        assert_int_equal(bad, p.t.error_word != 0);
        assert_int_equal(bad, which != 0 && which != 3);
        const float *y = p.t.use.outputs[0].data;
        for (int64_t i = 0; i < 32 * 4 * 12; i++) assert_true(fabsf(want[i] - y[i]) < 2e-6f);
        check_in_steps(&p, want, 1, sets[n_sets - 1]);
        check_in_steps(&p, want, 5, sets[n_sets - 1]);
        free(want);
        test_end(&p.t);
    }
}

/* A row of NaN among the keys that are seen spoils its rows, and only those. */
static void nan_shows(void **state) {
    (void)state;
    shape s = {PLAIT_F32, PLAIT_F32, 16, 16, 1, 1, 64, 1, 12, 12, 0, 0, false, false, false};
    problem p;
    problem_make(&p, &s, 3);
    int64_t page = plait_ref_get_id(&p.t.use.inputs[PLAIT_ATTENTION_PAGES], 0, 0);
    plait_ref_set(&p.t.use.inputs[PLAIT_ATTENTION_K], 3, 6, 0, page, NAN);
    float *y = run(&p, plait_cpu_features_detect(), UNITS_AT_ONCE);
    for (int64_t n = 0; n < 12; n++)
        for (int64_t i = 0; i < 16; i++) assert_true(isnan(y[n * 16 + i]) == (n >= 6));
    free(y);
    test_end(&p.t);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(head_dims_and_groups),
        cmocka_unit_test(types_of_caches),
        cmocka_unit_test(masks_and_pages),
        cmocka_unit_test(holes_and_bad_ids),
        cmocka_unit_test(nan_shows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
