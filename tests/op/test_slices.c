/* The factor texts are true: from them alone the inputs of every op are cut along every factor, the reference
 * kernel runs on the pieces, and the pieces give the whole result back; factors declared whole cannot be cut so. */
#include "uses.h"

#include "op/merge.h"

/* A cut of one factor of one use. */
typedef struct cut {
    const plait_factors *factors;
    const int64_t *sizes;
    int factor;
    int64_t begin, end;
} cut;

/* Places along a dim; for quantised types dim 0 counts blocks. */
static int64_t block_of(const plait_operand *o, int d) {
    return d == 0 ? plait_dtype_block_elems(o->dtype) : 1;
}

static bool dim_has(const plait_factor_dim *dim, int factor) {
    for (int i = 0; i < dim->n; i++)
        if (dim->factors[i] == factor) return true;
    return false;
}

static bool operand_has(const plait_factor_operand *operand, int factor) {
    for (int d = 0; d < operand->rank; d++)
        if (dim_has(&operand->dims[d], factor)) return true;
    return false;
}

/* True when the cut changes dim d of this operand: it has the factor and is not broadcast along it. */
static bool cuts_dim(const cut *c, const plait_factor_operand *f, const plait_operand *o, int d) {
    if (d >= f->rank || !dim_has(&f->dims[d], c->factor)) return false;
    return !(f->dims[d].n == 1 && o->dims[d] == 1 && c->sizes[c->factor] != 1);
}

/* Index along dim d of the whole for index i of the piece. */
static int64_t whole_index(const cut *c, const plait_factor_operand *f, const plait_operand *whole, int d,
                           int64_t i) {
    if (!cuts_dim(c, f, whole, d)) return i;
    if (f->dims[d].n == 1) return i + c->begin / block_of(whole, d);
    int64_t index = 0, step = 1;
    for (int j = 0; j < f->dims[d].n; j++) {
        int factor = f->dims[d].factors[j];
        int64_t here = factor == c->factor ? c->end - c->begin : c->sizes[factor];
        int64_t place = i % here + (factor == c->factor ? c->begin : 0);
        i /= here;
        index += place * step;
        step *= c->sizes[factor];
    }
    return index;
}

static void piece_dims(const cut *c, const plait_factor_operand *f, const plait_operand *whole,
                       plait_operand *piece) {
    *piece = *whole;
    for (int d = 0; d < PLAIT_MAX_RANK; d++) {
        if (!cuts_dim(c, f, whole, d)) continue;
        piece->dims[d] = 1;
        for (int j = 0; j < f->dims[d].n; j++) {
            int factor = f->dims[d].factors[j];
            piece->dims[d] *= factor == c->factor ? c->end - c->begin : c->sizes[factor];
        }
    }
    assert_true(plait_operand_make_dense(piece));
}

/* Copies between a piece and its place in the whole. */
static void move_piece(const cut *c, const plait_factor_operand *f, const plait_operand *whole,
                       const plait_operand *piece, bool to_whole) {
    size_t bytes = (size_t)plait_dtype_block_bytes(whole->dtype);
    PLAIT_REF_ROWS(piece, i1, i2, i3)
    for (int64_t i0 = 0; i0 < piece->dims[0] / block_of(piece, 0); i0++) {
        char *there = plait_ref_at(whole, whole_index(c, f, whole, 0, i0), whole_index(c, f, whole, 1, i1),
                                   whole_index(c, f, whole, 2, i2), whole_index(c, f, whole, 3, i3));
        char *here = plait_ref_at(piece, i0, i1, i2, i3);
        memcpy(to_whole ? there : here, to_whole ? here : there, bytes);
    }
}

static void set_start(plait_op_use *piece, const plait_op_use *whole, const cut *c) {
    char name[32];
    const plait_factor *factor = &c->factors->factors[c->factor];
    if (!factor->global_start) return;
    snprintf(name, sizeof name, "start_%s", factor->name);
    int start = plait_op_attr_index(whole->op, name);
    snprintf(name, sizeof name, "total_%s", factor->name);
    int total = plait_op_attr_index(whole->op, name);
    piece->attrs[start].i = whole->attrs[start].i + c->begin;
    if (total >= 0 && whole->attrs[total].i == 0)
        piece->attrs[total].i = whole->attrs[start].i + c->sizes[c->factor];
}

/* The inputs of a piece, with data. */
static void cut_inputs(test_use *piece, const plait_op_use *whole, const cut *c) {
    memset(piece, 0, sizeof *piece);
    piece->use = *whole;
    for (int i = 0; i < whole->n_inputs; i++) {
        if (!plait_op_has(whole, i)) continue;
        piece_dims(c, &c->factors->inputs[i], &whole->inputs[i], &piece->use.inputs[i]);
        test_reserve(&piece->inputs[i], &piece->use.inputs[i]);
        move_piece(c, &c->factors->inputs[i], &whole->inputs[i], &piece->use.inputs[i], false);
    }
    set_start(&piece->use, whole, c);
}

/* Adds a piece's output, as float32, to the whole. */
static void add_output(const plait_operand *whole, const plait_operand *piece) {
    PLAIT_REF_ROWS(piece, i1, i2, i3)
    for (int64_t i = 0; i < piece->dims[0]; i++)
        plait_ref_set(whole, i, i1, i2, i3,
                      plait_ref_get(whole, i, i1, i2, i3) + test_at(piece, i, i1, i2, i3));
}

/* Results gathered from pieces: dense float32 for sums, else the output's own type. */
typedef struct gathered {
    plait_operand outputs[PLAIT_MAX_OUTPUTS];
    test_memory memory[PLAIT_MAX_OUTPUTS];
    bool adds;
} gathered;

static void gathered_begin(gathered *g, const plait_op_use *whole, const cut *c) {
    memset(g, 0, sizeof *g);
    g->adds = !operand_has(&c->factors->outputs[0], c->factor);
    for (int i = 0; i < whole->n_outputs; i++) {
        g->outputs[i] = whole->outputs[i];
        if (g->adds) g->outputs[i].dtype = PLAIT_F32;
        assert_true(plait_operand_make_dense(&g->outputs[i]));
        test_reserve(&g->memory[i], &g->outputs[i]);
        if (g->adds) memset(g->outputs[i].data, 0, (size_t)g->memory[i].bytes);
    }
}

/* Runs one piece and puts its results where they belong; false when the piece's shapes are refused or unfit. */
static bool run_piece(gathered *g, const plait_op_use *whole, const cut *c) {
    test_use piece;
    bool fits = true;
    cut_inputs(&piece, whole, c);
    if (plait_op_infer(&piece.use) != PLAIT_OK) {
        test_end(&piece);
        return false;
    }
    test_outputs(&piece);
    test_run(&piece);
    if (c->factors->factors[c->factor].kind != PLAIT_FACTOR_WHOLE) assert_int_equal(piece.error_word, 0);
    for (int i = 0; i < whole->n_outputs; i++) {
        plait_operand expected;
        piece_dims(c, &c->factors->outputs[i], &whole->outputs[i], &expected);
        fits = fits && memcmp(expected.dims, piece.use.outputs[i].dims, sizeof expected.dims) == 0;
        if (!fits) break;
        if (g->adds)
            add_output(&g->outputs[i], &piece.use.outputs[i]);
        else
            move_piece(c, &c->factors->outputs[i], &g->outputs[i], &piece.use.outputs[i], true);
    }
    test_end(&piece);
    return fits;
}

#define MAX_PIECES 3

/* Where a factor is cut: n pieces, piece i is [at[i], at[i + 1]). */
typedef struct cut_list {
    int n;
    int64_t at[MAX_PIECES + 1];
} cut_list;

/* Uneven cuts at whole blocks, in two pieces, and in three with an empty one in every place. */
static int make_cuts(const plait_op_use *use, const cut *c, cut_list out[4]) {
    int64_t size = c->sizes[c->factor], granule = 1;
    for (int i = 0; i < use->n_inputs + use->n_outputs; i++) {
        bool in = i < use->n_inputs;
        const plait_operand *o = in ? &use->inputs[i] : &use->outputs[i - use->n_inputs];
        const plait_factor_operand *f = in ? &c->factors->inputs[i] : &c->factors->outputs[i - use->n_inputs];
        if (in && !plait_op_has(use, i)) continue;
        if (cuts_dim(c, f, o, 0)) granule = plait_max_i64(granule, block_of(o, 0));
    }
    int64_t first = plait_min_i64((size / 3 / granule + 1) * granule, size);
    out[0] = (cut_list){2, {0, first, size}};
    out[1] = (cut_list){3, {0, 0, first, size}};
    out[2] = (cut_list){3, {0, first, first, size}};
    out[3] = (cut_list){3, {0, first, size, size}};
    return 4;
}

/* Largest difference of what the pieces give from the whole; infinity when a piece is refused. */
static double difference_of(const plait_op_use *whole, const plait_operand *results, cut *c,
                            const cut_list *list) {
    gathered g;
    double worst = 0;
    gathered_begin(&g, whole, c);
    for (int i = 0; i < list->n; i++) {
        c->begin = list->at[i];
        c->end = list->at[i + 1];
        if (!run_piece(&g, whole, c)) worst = INFINITY;
    }
    for (int i = 0; i < whole->n_outputs; i++) {
        if (worst == 0 || isfinite(worst)) worst = fmax(worst, test_difference(&g.outputs[i], &results[i]));
        test_release(&g.memory[i]);
    }
    return worst;
}

/* ---- merges ---- */

/* Dense float32 or i32 memory of the given dims. */
static void make_operand(test_memory *m, plait_operand *o, plait_dtype dtype, int64_t a, int64_t b,
                         int64_t n) {
    *o = (plait_operand){.dtype = dtype, .dims = {a, b, n, 1}};
    assert_true(plait_operand_make_dense(o));
    test_reserve(m, o);
}

static double merge_attention(const plait_op_use *whole, const plait_operand *results, cut *c,
                              const cut_list *list) {
    plait_softmax_partial parts[MAX_PIECES];
    test_memory memory[MAX_PIECES][3], merged_memory;
    plait_operand merged;
    const int64_t *y = results[0].dims;
    for (int i = 0; i < list->n; i++) {
        test_use piece;
        c->begin = list->at[i];
        c->end = list->at[i + 1];
        cut_inputs(&piece, whole, c);
        assert_int_equal(plait_op_infer(&piece.use), PLAIT_OK);
        test_outputs(&piece);
        make_operand(&memory[i][0], &parts[i].values, PLAIT_F32, y[0], y[1], y[2]);
        make_operand(&memory[i][1], &parts[i].maximum, PLAIT_F32, y[1], y[2], 1);
        make_operand(&memory[i][2], &parts[i].sum, PLAIT_F32, y[1], y[2], 1);
        plait_attention_partial(&piece.use, &parts[i], piece.scratch);
        assert_int_equal(piece.error_word, 0);
        test_end(&piece);
    }
    make_operand(&merged_memory, &merged, PLAIT_F32, y[0], y[1], y[2]);
    plait_merge_softmax(parts, list->n, plait_op_has(whole, 6) ? &whole->inputs[6] : NULL, &merged);
    double worst = test_difference(&merged, &results[0]);
    for (int i = 0; i < list->n; i++)
        for (int j = 0; j < 3; j++) test_release(&memory[i][j]);
    test_release(&merged_memory);
    return worst;
}

static double merge_best(const plait_op_use *whole, const plait_operand *results, cut *c,
                         const cut_list *list) {
    bool top = whole->op->id == PLAIT_OP_top_k;
    const plait_operand *x = &whole->inputs[0];
    int64_t k = top ? results[0].dims[0] : 1, n = x->dims[1];
    plait_best_partial parts[MAX_PIECES];
    test_memory memory[MAX_PIECES][2], merged_memory[2];
    plait_operand values, ids;
    for (int i = 0; i < list->n; i++) {
        test_use piece;
        c->begin = list->at[i];
        c->end = list->at[i + 1];
        cut_inputs(&piece, whole, c);
        int64_t held = plait_min_i64(k, c->end - c->begin);
        make_operand(&memory[i][0], &parts[i].values, PLAIT_F32, held, n, 1);
        make_operand(&memory[i][1], &parts[i].ids, PLAIT_I32, held, n, 1);
        plait_best_of_slice(&piece.use, &parts[i]);
        test_end(&piece);
    }
    make_operand(&merged_memory[0], &values, PLAIT_F32, k, n, 1);
    make_operand(&merged_memory[1], &ids, PLAIT_I32, k, n, 1);
    plait_merge_best(parts, list->n, top ? &values : NULL, &ids);
    double worst = top ? test_difference(&values, &results[0]) : 0;
    /* argmax gives [n], the merge [1,n]: the same elements. */
    for (int64_t j = 0; j < n; j++)
        for (int64_t i = 0; i < k; i++) {
            int32_t expected =
                top ? plait_ref_get_id(&results[1], i, j) : plait_ref_get_id(&results[0], j, 0);
            if (plait_ref_get_id(&ids, i, j) != expected) worst = INFINITY;
        }
    for (int i = 0; i < list->n; i++)
        for (int j = 0; j < 2; j++) test_release(&memory[i][j]);
    test_release(&merged_memory[0]);
    test_release(&merged_memory[1]);
    return worst;
}

/* ---- the tests ---- */

/* Difference allowed for a factor: pieces that are only put together give the same bytes. */
static double allowed(plait_factor_kind kind) {
    return kind == PLAIT_FACTOR_SUM || kind == PLAIT_FACTOR_MERGE ? 2e-6 : 0;
}

static double cut_and_compare(const plait_op_use *whole, const plait_operand *results, cut *c,
                              const cut_list *list) {
    const plait_factor *factor = &c->factors->factors[c->factor];
    if (factor->kind != PLAIT_FACTOR_MERGE) return difference_of(whole, results, c, list);
    if (strcmp(factor->rule, "softmax") == 0) return merge_attention(whole, results, c, list);
    assert_true(strcmp(factor->rule, "argmax") == 0 || strcmp(factor->rule, "top_k") == 0);
    return merge_best(whole, results, c, list);
}

/* Cuts one example along one factor in all ways; counts what differs and, for factors that may be cut, fails. */
static void check_factor(const plait_op_use *whole, const plait_operand *results, cut *c, int which,
                         int *n_checked, int *n_different) {
    cut_list lists[4];
    const plait_factor *factor = &c->factors->factors[c->factor];
    int n = make_cuts(whole, c, lists);
    for (int i = 0; i < n; i++) {
        if (factor->kind == PLAIT_FACTOR_WHOLE && lists[i].at[1] == lists[i].at[lists[i].n]) continue;
        double difference = cut_and_compare(whole, results, c, &lists[i]);
        ++*n_checked;
        if (factor->kind == PLAIT_FACTOR_WHOLE)
            *n_different += difference > 1e-4;
        else if (!(difference <= allowed(factor->kind)))
            fail_msg("%s, example %d, factor %s, cuts at %lld of %lld: difference %g", whole->op->name, which,
                     factor->name, (long long)lists[i].at[1], (long long)c->sizes[c->factor], difference);
    }
}

static void check_example(test_use *t, int which, int *n_checked, int different[PLAIT_MAX_FACTORS]) {
    plait_factors f;
    int64_t sizes[PLAIT_MAX_FACTORS];
    plait_op_use before = t->use;
    plait_operand results[PLAIT_MAX_OUTPUTS];
    test_memory kept[PLAIT_MAX_OUTPUTS], cache = {NULL, 0};
    assert_int_equal(plait_op_factors(t->use.op, &f), PLAIT_OK);
    assert_int_equal(plait_op_factor_sizes(&t->use, &f, sizes), PLAIT_OK);
    int written = t->use.op->writes_input;
    /* Pieces need the cache as it was. */
    if (written >= 0) test_copy(&cache, &before.inputs[written], &t->use.inputs[written]);
    test_run(t);
    for (int i = 0; i < t->use.n_outputs; i++) test_copy(&kept[i], &results[i], &t->use.outputs[i]);
    for (int i = 0; i < f.n_factors; i++) {
        cut c = {&f, sizes, i, 0, 0};
        bool absent = sizes[i] == 0 && f.factors[i].kind == PLAIT_FACTOR_WHOLE;
        if (!absent) check_factor(&before, results, &c, which, n_checked, &different[i]);
    }
    for (int i = 0; i < t->use.n_outputs; i++) test_release(&kept[i]);
    test_release(&cache);
}

static void pieces_give_the_whole(void **state) {
    (void)state;
    int n_checked = 0, n_whole = 0;
    for (int id = 0; id < PLAIT_OP_COUNT; id++) {
        const plait_op *op = plait_op_get((plait_op_id)id);
        int different[PLAIT_MAX_FACTORS] = {0};
        test_use t;
        plait_factors f;
        for (int which = 0; test_begin(&t, op, which); which++, test_end(&t))
            check_example(&t, which, &n_checked, different);
        assert_int_equal(plait_op_factors(op, &f), PLAIT_OK);
        for (int i = 0; i < f.n_factors; i++) {
            if (f.factors[i].kind != PLAIT_FACTOR_WHOLE) continue;
            n_whole++;
            if (!different[i])
                fail_msg("%s: factor %s is declared whole without need", op->name, f.factors[i].name);
        }
    }
    printf("%d cuts of %d ops; %d whole factors with a reason\n", n_checked, PLAIT_OP_COUNT, n_whole);
}

static void better_is_an_order(void **state) {
    (void)state;
    const float values[] = {NAN, -INFINITY, -1, -0.0f, 0.0f, 2, INFINITY, NAN};
    for (int i = 0; i < 8; i++)
        for (int j = 0; j < 8; j++) {
            assert_int_equal(
                plait_better(values[i], i, values[j], j) + plait_better(values[j], j, values[i], i), i != j);
            for (int k = 0; k < 8; k++)
                if (plait_better(values[i], i, values[j], j) && plait_better(values[j], j, values[k], k))
                    assert_true(plait_better(values[i], i, values[k], k));
        }
    assert_true(plait_better(-INFINITY, 9, NAN, 1));
    assert_true(plait_better(0.0f, 1, -0.0f, 2));
}

static void merging_nothing_gives_nothing(void **state) {
    (void)state;
    plait_operand ids, values;
    test_memory memory[2];
    make_operand(&memory[0], &values, PLAIT_F32, 2, 1, 1);
    make_operand(&memory[1], &ids, PLAIT_I32, 2, 1, 1);
    plait_merge_best(NULL, 0, &values, &ids);
    assert_int_equal(plait_ref_get_id(&ids, 1, 0), -1);
    assert_true(plait_ref_get(&values, 1, 0, 0, 0) == -INFINITY);
    plait_merge_softmax(NULL, 0, NULL, &values);
    assert_true(plait_ref_get(&values, 1, 0, 0, 0) == 0);
    test_release(&memory[0]);
    test_release(&memory[1]);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pieces_give_the_whole),
        cmocka_unit_test(better_is_an_order),
        cmocka_unit_test(merging_nothing_gives_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
