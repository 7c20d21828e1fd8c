/* Attention and the writers of caches: against a naive attention that gathers every sequence's keys into one
 * dense list and masks it, and against what each writer's list says; bad ids of every kind. */
#include "uses.h"

#include "op/attrs.h"
#include "op/cache_row.h"

static int32_t id_at(const plait_op_use *use, int input, int64_t i, int64_t j) {
    return plait_ref_get_id(&use->inputs[input], i, j);
}

/* ---- attention ---- */

/* The mask, as a dense matrix would have it: does token n see the key at position t of its sequence? */
static bool sees(const plait_op_use *use, int64_t n, int64_t t) {
    int64_t position = id_at(use, PLAIT_ATTENTION_POSITIONS, n, 0),
            sequence = id_at(use, PLAIT_ATTENTION_SEQUENCES, n, 0);
    int64_t window = use->attrs[PLAIT_ATTENTION_WINDOW].i, page_len = use->inputs[PLAIT_ATTENTION_K].dims[1];
    if (sequence < 0 || id_at(use, PLAIT_ATTENTION_PAGES, t / page_len, sequence) < 0) return false;
    if (use->attrs[PLAIT_ATTENTION_CAUSAL].i && t > position) return false;
    if (plait_op_has(use, PLAIT_ATTENTION_LENGTHS) && t >= id_at(use, PLAIT_ATTENTION_LENGTHS, sequence, 0))
        return false;
    return !window || llabs(position - t) < window;
}

/* Element t of the dense list of a sequence's keys or values. */
static double cached(const plait_op_use *use, int input, int64_t i, int64_t t, int64_t kv_head,
                     int64_t sequence) {
    const plait_operand *cache = &use->inputs[input];
    int64_t page_len = cache->dims[1];
    return test_at(cache, i, t % page_len, kv_head,
                   id_at(use, PLAIT_ATTENTION_PAGES, t / page_len, sequence));
}

static double naive_logit(const plait_op_use *use, int64_t h, int64_t n, int64_t t, int64_t kv_head,
                          int64_t sequence) {
    const plait_operand *q = &use->inputs[PLAIT_ATTENTION_Q];
    double cap = use->attrs[PLAIT_ATTENTION_SOFTCAP].f, scale = use->attrs[PLAIT_ATTENTION_SCALE].f, dot = 0;
    for (int64_t i = 0; i < q->dims[0]; i++)
        dot += test_at(q, i, h, n, 0) * cached(use, PLAIT_ATTENTION_K, i, t, kv_head, sequence);
    dot *= scale != 0 ? scale : pow((double)q->dims[0], -0.5);
    return cap != 0 ? cap * tanh(dot / cap) : dot;
}

/* Full softmax without subtracting the maximum: the logits of the examples are small. */
static void check_head(const plait_op_use *use, int64_t h, int64_t n) {
    const plait_operand *y = &use->outputs[0], *k = &use->inputs[PLAIT_ATTENTION_K];
    int64_t n_keys = use->inputs[PLAIT_ATTENTION_PAGES].dims[0] * k->dims[1];
    int64_t kv_head = h * k->dims[2] / y->dims[1], sequence = id_at(use, PLAIT_ATTENTION_SEQUENCES, n, 0),
            n_seen = 0;
    double weights[256], sum = 0;
    assert_true(n_keys <= 256);
    for (int64_t t = 0; t < n_keys; t++) {
        bool seen = sees(use, n, t);
        weights[t] = seen ? exp(naive_logit(use, h, n, t, kv_head, sequence)) : 0;
        sum += weights[t];
        n_seen += seen;
    }
    if (plait_op_has(use, PLAIT_ATTENTION_SINKS))
        sum += exp(test_at(&use->inputs[PLAIT_ATTENTION_SINKS], h, 0, 0, 0));
    for (int64_t i = 0; i < y->dims[0]; i++) {
        double value = 0;
        for (int64_t t = 0; t < n_keys; t++)
            if (weights[t] != 0)
                value += weights[t] / sum * cached(use, PLAIT_ATTENTION_V, i, t, kv_head, sequence);
        assert_near(test_at(y, i, h, n, 0), n_seen ? value : 0.0, 3e-7);
    }
}

static void attention_equals_the_naive_one(void **state) {
    (void)state;
    test_use t;
    int which = 0, n_heads = 0;
    for (; test_begin(&t, plait_op_find("attention"), which); which++, test_end(&t)) {
        test_run(&t);
        assert_int_equal(t.error_word, 0);
        for (int64_t n = 0; n < t.use.outputs[0].dims[2]; n++)
            for (int64_t h = 0; h < t.use.outputs[0].dims[1]; h++, n_heads++) check_head(&t.use, h, n);
    }
    test_end(&t);
    printf("%d heads of %d examples\n", n_heads, which);
}

static bool token_is_zero(const plait_op_use *use, int64_t n) {
    const plait_operand *y = &use->outputs[0];
    for (int64_t h = 0; h < y->dims[1]; h++)
        for (int64_t i = 0; i < y->dims[0]; i++)
            if (test_at(y, i, h, n, 0) != 0) return false;
    return true;
}

/* Sets one control number of token or entry 0, runs, and tells error word and zeros of token 0. */
static void probe(int which, int input, int32_t value, uint32_t error, bool zero) {
    test_use t;
    assert_true(test_begin(&t, plait_op_find("attention"), which));
    plait_ref_set_id(&t.use.inputs[input], 0, 0, value);
    test_run(&t);
    assert_int_equal(t.error_word, error);
    assert_int_equal(token_is_zero(&t.use, 0), zero);
    test_end(&t);
}

static void bad_control_numbers(void **state) {
    (void)state;
    /* Example 0: 3 pages of 4 keys, 2 sequences, 7 pages in the cache. */
    probe(0, PLAIT_ATTENTION_SEQUENCES, -1, 0, true);
    probe(0, PLAIT_ATTENTION_SEQUENCES, 2, 1, true);
    probe(0, PLAIT_ATTENTION_SEQUENCES, INT32_MAX, 1, true);
    probe(0, PLAIT_ATTENTION_POSITIONS, -1, 1, true);
    probe(0, PLAIT_ATTENTION_POSITIONS, 11, 0, false);
    probe(0, PLAIT_ATTENTION_POSITIONS, 12, 1, true);
    probe(0, PLAIT_ATTENTION_PAGES, 7, 1, false);
    probe(0, PLAIT_ATTENTION_PAGES, INT32_MIN, 0, false);
    /* Example 8: lengths, not causal, 4 pages of 4 keys; positions may lie beyond the list. */
    probe(8, PLAIT_ATTENTION_LENGTHS, -1, 1, true);
    probe(8, PLAIT_ATTENTION_LENGTHS, 17, 1, true);
    probe(8, PLAIT_ATTENTION_LENGTHS, 0, 0, true);
    probe(8, PLAIT_ATTENTION_POSITIONS, 1000, 0, false);
}

/* A window far larger than every position changes nothing, even at the end of the attribute's range. */
static void a_huge_window_is_none(void **state) {
    (void)state;
    test_use t;
    plait_operand kept;
    test_memory memory;
    assert_true(test_begin(&t, plait_op_find("attention"), 1));
    test_run(&t);
    test_copy(&memory, &kept, &t.use.outputs[0]);
    t.use.attrs[PLAIT_ATTENTION_WINDOW].i = INT64_MAX;
    test_run(&t);
    assert_true(test_difference(&t.use.outputs[0], &kept) == 0);
    test_release(&memory);
    test_end(&t);
}

/* ---- writers ---- */

/* The last entry of slots that writes row (page, offset); -1: none does. */
static int64_t writer_of(const plait_op_use *use, int64_t page, int64_t offset) {
    int64_t page_len = use->attrs[PLAIT_KV_WRITE_TOTAL_P].i, found = -1;
    if (page_len == 0) page_len = use->inputs[0].dims[1];
    page += use->attrs[PLAIT_KV_WRITE_START_C].i;
    offset += use->attrs[PLAIT_KV_WRITE_START_P].i;
    for (int64_t n = 0; n < use->inputs[2].dims[0]; n++)
        if (id_at(use, 2, n, 0) == page * page_len + offset) found = n;
    return found;
}

/* Every row of the cache is what it was, or the row that was written, encoded. */
static void check_written(const plait_op_use *use, const plait_operand *before, int *n_written) {
    const plait_operand *cache = &use->outputs[0];
    size_t bytes = (size_t)plait_dtype_block_bytes(cache->dtype);
    int64_t block = plait_dtype_block_elems(cache->dtype);
    PLAIT_REF_ROWS(cache, p, h, c)
    for (int64_t i = 0; i < cache->dims[0] / block; i++) {
        int64_t n = writer_of(use, c, p);
        float row[256];
        unsigned char expected[256];
        memcpy(expected, plait_ref_at(before, i, p, h, c), bytes);
        for (int64_t j = 0; n >= 0 && j < block; j++)
            row[j] = (float)test_at(&use->inputs[1], i * block + j, h, n, 0);
        if (n >= 0) plait_cache_encode(cache->dtype, row, expected, block);
        assert_memory_equal(plait_ref_at(cache, i, p, h, c), expected, bytes);
        *n_written += n >= 0 && i == 0;
    }
}

/* The plain recipe: no value is farther from what it becomes than half a step (and what f16 takes from the scale);
 * zeros, and values beyond what f16 scales reach, do no harm. */
static void cache_rows_are_near(void **state) {
    (void)state;
    static const float sizes[] = {1, 1e-3f, 1e4f, 0, 1e-12f, 1e7f};
    static const plait_dtype dtypes[] = {PLAIT_Q8_0, PLAIT_Q4_0};
    uint64_t seed = 5;
    for (size_t which = 0; which < 2; which++)
        for (size_t s = 0; s < PLAIT_COUNT_OF(sizes); s++) {
            float x[64], back[64], largest[2] = {0, 0};
            unsigned char blocks[80];
            for (int i = 0; i < 64; i++) x[i] = test_random(&seed) * sizes[s];
            for (int i = 0; i < 64; i++) largest[i / 32] = fmaxf(largest[i / 32], fabsf(x[i]));
            plait_cache_encode(dtypes[which], x, blocks, 64);
            plait_quant_of(dtypes[which])->decode(blocks, back, 64);
            double step = which == 0 ? 1.0 / 127 : 1.0 / 8;
            for (int i = 0; i < 64; i++) {
                /* Q4_0 reaches one step less far on one side; scales below 2^-25 are lost. */
                double bound = (double)largest[i / 32] * (step * (which == 0 ? 0.51 : 1.01) + 1e-3) + 4e-6;
                assert_true(sizes[s] > 1e6f ? isfinite(back[i]) : fabs((double)(back[i] - x[i])) <= bound);
            }
        }
}

static void kv_write_writes_its_rows(void **state) {
    (void)state;
    test_use t;
    int n_written = 0;
    for (int which = 0; test_begin(&t, plait_op_find("kv_write"), which); which++, test_end(&t)) {
        plait_operand before;
        test_memory memory;
        test_copy(&memory, &before, &t.use.inputs[0]);
        if (which == 0)
            plait_ref_set_id(&t.use.inputs[2], 5, 0, id_at(&t.use, 2, 0, 0)); /* twice: the last wins */
        test_run(&t);
        assert_int_equal(t.error_word, 0);
        check_written(&t.use, &before, &n_written);
        test_release(&memory);
    }
    test_end(&t);
    assert_true(n_written > 50);
    printf("%d rows written\n", n_written);
}

/* What is read back: exact for f32, half a unit in the last place for f16 and bf16, half a step of q8_0 (and what
 * its f16 scale loses), a step of q4_0 (whose far end is clipped). Inputs lie in [-1, 1). */
static void written_rows_read_back(void **state) {
    (void)state;
    const double tolerance[] = {0, 0x1p-12, 0x1p-9, 1.0 / 220, 1.0 / 7.9};
    for (int which = 0; which < 5; which++) {
        test_use t;
        assert_true(test_begin(&t, plait_op_find("kv_write"), which));
        test_run(&t);
        int64_t page_len = t.use.outputs[0].dims[1], slot = id_at(&t.use, 2, 0, 0);
        for (int64_t i = 0; i < t.use.outputs[0].dims[0]; i++)
            assert_true(fabs(test_at(&t.use.outputs[0], i, slot % page_len, 1, slot / page_len) -
                             test_at(&t.use.inputs[1], i, 1, 0, 0)) <= tolerance[which]);
        test_end(&t);
    }
}

static void slots_outside_write_nothing(void **state) {
    (void)state;
    const int32_t slots[] = {-1, INT32_MIN, 20, INT32_MAX}; /* example 0 has 5 pages of 4 */
    for (int i = 0; i < 4; i++) {
        test_use t;
        plait_operand before;
        test_memory memory;
        assert_true(test_begin(&t, plait_op_find("kv_write"), 0));
        test_copy(&memory, &before, &t.use.inputs[0]);
        for (int64_t n = 0; n < t.use.inputs[2].dims[0]; n++)
            plait_ref_set_id(&t.use.inputs[2], n, 0, slots[i]);
        test_run(&t);
        assert_int_equal(t.error_word, i >= 2);
        assert_true(test_difference(&t.use.outputs[0], &before) == 0);
        test_release(&memory);
        test_end(&t);
    }
}

static void page_copy_copies_in_order(void **state) {
    (void)state;
    test_use t;
    for (int which = 0; test_begin(&t, plait_op_find("page_copy"), which); which++, test_end(&t)) {
        int64_t from[16], c = t.use.inputs[0].dims[3];
        plait_operand before;
        test_memory memory;
        test_copy(&memory, &before, &t.use.inputs[0]);
        for (int64_t i = 0; i < c; i++) from[i] = i;
        for (int64_t m = 0; m < t.use.inputs[1].dims[1]; m++)
            if (id_at(&t.use, 1, 1, m) >= 0) from[id_at(&t.use, 1, 1, m)] = from[id_at(&t.use, 1, 0, m)];
        test_run(&t);
        PLAIT_REF_ROWS(&before, i1, i2, i3)
        for (int64_t i = 0; i < before.dims[0]; i++)
            assert_true(test_at(&t.use.outputs[0], i, i1, i2, i3) == test_at(&before, i, i1, i2, from[i3]));
        test_release(&memory);
    }
    test_end(&t);
}

static void bad_pages_are_skipped(void **state) {
    (void)state;
    static const struct {
        const char *op;
        int32_t list[2];
        uint32_t error;
    } rows[] = {
        {"page_copy", {-1, 0}, 0}, {"page_copy", {0, -5}, 0}, {"page_copy", {5, 0}, 1},
        {"page_copy", {0, 5}, 1},  {"kv_shift", {-1, 3}, 0},  {"kv_shift", {5, 3}, 1},
        {"kv_shift", {2, 0}, 0},
    };
    for (size_t i = 0; i < PLAIT_COUNT_OF(rows); i++) {
        test_use t;
        plait_operand before;
        test_memory memory;
        assert_true(test_begin(&t, plait_op_find(rows[i].op), 0)); /* 5 pages, list of 3 */
        test_copy(&memory, &before, &t.use.inputs[0]);
        for (int64_t m = 0; m < 3; m++)
            for (int64_t j = 0; j < 2; j++) plait_ref_set_id(&t.use.inputs[1], j, m, rows[i].list[j]);
        test_run(&t);
        assert_int_equal(t.error_word, rows[i].error);
        assert_true(test_difference(&t.use.outputs[0], &before) == 0);
        test_release(&memory);
        test_end(&t);
    }
}

/* ---- kv_shift is rope of the sum of positions ---- */

/* The raw key [d] at (p, h, c) turned to a position by the rope op with the rotary attributes of `shift` and
 * magnitude 1. */
static void turned_key(const plait_op_use *shift, const plait_operand *raw, int64_t p, int64_t h, int64_t c,
                       int32_t position, float *out) {
    plait_op_use use;
    float row[64];
    int64_t d = raw->dims[0];
    assert_true(d <= 64);
    for (int64_t i = 0; i < d; i++) row[i] = (float)test_at(raw, i, p, h, c);
    plait_op_use_init(&use, plait_op_find("rope"));
    for (int i = 0; i < PLAIT_ROPE_SHARED_ATTRS; i++) use.attrs[i] = shift->attrs[i];
    if (use.attrs[PLAIT_ROPE_EXT_FACTOR].f != 0)
        use.attrs[PLAIT_ROPE_ATTN_FACTOR].f = 1 / (1 + 0.1 * log(1 / use.attrs[PLAIT_ROPE_FREQ_SCALE].f));
    use.n_inputs = 3;
    use.present = 3u | (plait_op_has(shift, 2) ? 4u : 0u);
    use.inputs[0] = (plait_operand){.dtype = PLAIT_F32, .dims = {d, 1, 1, 1}, .data = row};
    use.inputs[1] = (plait_operand){.dtype = PLAIT_I32, .dims = {1, 1, 1, 1}, .data = &position};
    if (plait_op_has(shift, 2)) use.inputs[2] = shift->inputs[2];
    assert_true(plait_operand_make_dense(&use.inputs[0]) && plait_operand_make_dense(&use.inputs[1]));
    assert_int_equal(plait_op_infer(&use), PLAIT_OK);
    use.outputs[0].data = out;
    use.op->reference(&use, NULL);
}

/* The sum of the deltas that the list has for a page. */
static int32_t delta_of(const plait_op_use *use, int64_t page) {
    int32_t delta = 0;
    for (int64_t m = 0; m < use->inputs[1].dims[1]; m++)
        if (id_at(use, 1, 0, m) == page + use->attrs[PLAIT_KV_SHIFT_START_C].i) delta += id_at(use, 1, 1, m);
    return delta;
}

/* Keys turned to position 900 + p and stored, then shifted: as if turned to the shifted position at once. */
static void kv_shift_moves_positions(void **state) {
    (void)state;
    test_use t;
    int n_moved = 0;
    for (int which = 0; test_begin(&t, plait_op_find("kv_shift"), which); which++, test_end(&t)) {
        plait_operand *cache = &t.use.inputs[0], raw;
        double tolerance = cache->dtype == PLAIT_F32 ? 1e-6 : cache->dtype == PLAIT_F16 ? 2e-3 : 3e-2;
        test_memory memory;
        float row[64];
        test_copy(&memory, &raw, cache);
        PLAIT_REF_ROWS(&raw, p, h, c) {
            turned_key(&t.use, &raw, p, h, c, (int32_t)(900 + p), row);
            plait_ref_write_row(cache, p, h, c, cache->dims[0], row);
        }
        test_run(&t);
        assert_int_equal(t.error_word, 0);
        PLAIT_REF_ROWS(&raw, p, h, c) {
            turned_key(&t.use, &raw, p, h, c, (int32_t)(900 + p) + delta_of(&t.use, c), row);
            for (int64_t i = 0; i < raw.dims[0]; i++)
                assert_near(test_at(&t.use.outputs[0], i, p, h, c), (double)row[i], tolerance);
            n_moved += delta_of(&t.use, c) != 0;
        }
        test_release(&memory);
    }
    test_end(&t);
    assert_true(n_moved > 20);
    printf("%d keys moved\n", n_moved);
}

/* Blocks of a quantised row without a rotated element keep their bytes: encoding them again could change them. */
static void kv_shift_leaves_other_blocks(void **state) {
    (void)state;
    test_use t;
    plait_operand before;
    test_memory memory;
    int n_changed = 0;
    assert_true(test_begin(&t, plait_op_find("kv_shift"), 2)); /* q8_0 rows of two blocks, n_rot 20 */
    /* Codes that no encoder would choose: the largest is below 127. */
    PLAIT_REF_ROWS(&t.use.inputs[0], p, h, c)
    for (int64_t i = 0; i < 2; i++) memset(plait_ref_at(&t.use.inputs[0], i, p, h, c) + 2, 5, 32);
    test_copy(&memory, &before, &t.use.inputs[0]);
    test_run(&t);
    PLAIT_REF_ROWS(&before, p, h, c) {
        n_changed +=
            memcmp(plait_ref_at(&t.use.outputs[0], 0, p, h, c), plait_ref_at(&before, 0, p, h, c), 34) != 0;
        assert_memory_equal(plait_ref_at(&t.use.outputs[0], 1, p, h, c), plait_ref_at(&before, 1, p, h, c),
                            34);
    }
    assert_true(n_changed > 0);
    test_release(&memory);
    test_end(&t);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(attention_equals_the_naive_one), cmocka_unit_test(bad_control_numbers),
        cmocka_unit_test(a_huge_window_is_none),          cmocka_unit_test(cache_rows_are_near),
        cmocka_unit_test(kv_write_writes_its_rows),       cmocka_unit_test(written_rows_read_back),
        cmocka_unit_test(slots_outside_write_nothing),    cmocka_unit_test(page_copy_copies_in_order),
        cmocka_unit_test(bad_pages_are_skipped),          cmocka_unit_test(kv_shift_moves_positions),
        cmocka_unit_test(kv_shift_leaves_other_blocks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
