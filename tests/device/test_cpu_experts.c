/* Products with experts on the cpu device: each column has the bytes that matmul gives it alone, for every type that
 * weights have, in file form and packed, on every instruction set of this machine, whatever shares its step and however
 * units are cut; experts that nobody chose are not touched, and neither is a byte beside those that were. */
#define _GNU_SOURCE

#include "device/kernel_calls.h"

#include "device/cpu/matmul/matmul.h"
#include "op/attrs.h"

#include <sys/mman.h>
#include <unistd.h>

enum { EXPERTS = 5 };

typedef struct case_of {
    plait_dtype dtype;
    int64_t k, m, used, tokens;
    bool shared, packed;
    int64_t choices; /* ids are below it */
} case_of;

/* A use of the op with data; ids are random, so that tokens choose an expert twice now and then. */
static void begin(test_use *t, const case_of *c, uint64_t seed) {
    memset(t, 0, sizeof *t);
    plait_op_use *use = &t->use;
    plait_op_use_init(use, plait_op_get(PLAIT_OP_expert_matmul));
    use->inputs[0] = (plait_operand){.dtype = c->dtype, .dims = {c->k, c->m, EXPERTS, 1}};
    use->inputs[1] =
        (plait_operand){.dtype = PLAIT_F32, .dims = {c->k, c->shared ? 1 : c->used, c->tokens, 1}};
    use->inputs[2] = (plait_operand){.dtype = PLAIT_I32, .dims = {c->used, c->tokens, 1, 1}};
    use->n_inputs = 3;
    use->present = 7;
    for (int i = 0; i < 3; i++) {
        assert_true(plait_operand_make_dense(&use->inputs[i]));
        test_reserve(&t->inputs[i], &use->inputs[i]);
        test_fill(&use->inputs[i], seed + (uint64_t)i);
    }
    plait_example_fill_ids(&use->inputs[2], seed, c->choices, false);
    assert_int_equal(plait_op_infer(use), PLAIT_OK);
    test_outputs(t);
}

/* The weight packed as the device does, in memory that ends where it does; the caller frees. */
static void *packed_weight(const plait_operand *w) {
    int64_t rows = w->dims[1] * w->dims[2], bytes = plait_cpu_packed_bytes(w->dtype, w->dims[0], rows);
    void *packed = aligned_alloc(64, ((size_t)bytes + 63) / 64 * 64);
    assert_non_null(packed);
    plait_cpu_pack(w->dtype, w->data, w->strides[1], packed, w->dims[0], 0, rows);
    return packed;
}

static void run_experts(const test_use *t, void *packed, uint32_t features, unit_order order) {
    plait_cpu_call call = {.use = t->use, .n_threads = TEST_THREADS, .features = features};
    char reason[200];
    if (packed) call.encodings[0] = PLAIT_CPU_ENCODING_PACKED, call.use.inputs[0].data = packed;
    const plait_cpu_kernel *kernel =
        plait_cpu_kernel_find(&call.use, call.encodings, features, reason, sizeof reason);
    assert_non_null(kernel);
    assert_string_equal(kernel->name, "expert_matmul");
    size_t bytes = kernel->scratch_bytes(&call.use, TEST_THREADS);
    call.scratch = aligned_alloc(64, (bytes + 127) / 64 * 64);
    assert_non_null(call.scratch);
    memset(call.scratch, 0xFF, (bytes + 127) / 64 * 64);
    for (int phase = 0; phase < kernel->n_phases; phase++) run_phase(kernel, &call, phase, order);
    for (int i = 0; i < 64; i++) assert_int_equal(((unsigned char *)call.scratch)[bytes + (size_t)i], 0xFF);
    free(call.scratch);
}

/* One column alone, as a matmul with its expert's matrix. */
static void run_alone(const test_use *t, int64_t u, int64_t n, float *out) {
    const plait_operand *w = &t->use.inputs[0], *x = &t->use.inputs[1];
    plait_op_use one;
    plait_op_use_init(&one, plait_op_get(PLAIT_OP_matmul));
    one.n_inputs = 2;
    one.present = 3;
    one.inputs[0] = *w;
    one.inputs[0].dims[2] = 1;
    one.inputs[0].data = plait_ref_at(w, 0, 0, plait_ref_get_id(&t->use.inputs[2], u, n), 0);
    one.inputs[1] = (plait_operand){.dtype = PLAIT_F32, .dims = {x->dims[0], 1, 1, 1}};
    assert_true(plait_operand_make_dense(&one.inputs[1]));
    one.inputs[1].data = plait_ref_at(x, 0, u % x->dims[1], n, 0);
    assert_int_equal(plait_op_infer(&one), PLAIT_OK);
    one.outputs[0].data = out;
    run_kernel(fast_kernel(&one, 0), &one, 0, UNITS_AT_ONCE);
}

static void check_columns(const test_use *t, const case_of *c, const char *how) {
    float *alone = malloc((size_t)c->m * sizeof *alone);
    assert_non_null(alone);
    for (int64_t n = 0; n < c->tokens; n++)
        for (int64_t u = 0; u < c->used; u++) {
            run_alone(t, u, n, alone);
            if (memcmp(alone, plait_ref_at(&t->use.outputs[0], 0, u, n, 0), (size_t)c->m * sizeof *alone))
                fail_msg("%s [%lld, %lld], column %lld of token %lld of %lld, %s: not what it gives alone",
                         plait_dtype_name(c->dtype), (long long)c->k, (long long)c->m, (long long)u,
                         (long long)n, (long long)c->tokens, how);
        }
    free(alone);
}

static void check_case(const case_of *c, int *n_ways) {
    test_use t;
    uint32_t sets[3];
    int n_sets = feature_sets(sets);
    begin(&t, c, 7 + (uint64_t)c->dtype);
    void *packed = c->packed ? packed_weight(&t.use.inputs[0]) : NULL;
    for (int s = 0; s < n_sets; s++)
        for (unit_order order = UNITS_AT_ONCE; order <= UNITS_BY_THREADS; order++, ++*n_ways) {
            memset(t.use.outputs[0].data, 0xFF, (size_t)t.outputs[0].bytes);
            run_experts(&t, packed, sets[s], order);
            check_columns(&t, c, c->packed ? "packed" : "in file form");
        }
    assert_int_equal(t.error_word, 0);
    free(packed);
    test_end(&t);
}

static bool is_float(plait_dtype dtype) {
    return plait_dtype_quantised(dtype) || dtype == PLAIT_F32 || dtype == PLAIT_F16 || dtype == PLAIT_BF16;
}

/* A column alone, a few, so many that a tile of them is full; the experts of a token with one column and their own. */
static void columns_are_those_of_matmul(void **state) {
    (void)state;
    static const struct {
        int64_t m, used, tokens, choices;
        bool shared;
    } sizes[] = {{48, 2, 1, EXPERTS, true},
                 {37, 3, 1, EXPERTS, false},
                 {32, 4, 9, EXPERTS, true},
                 {19, 2, 11, EXPERTS - 1, false},
                 {16, 2, 40, 1, true}};
    int n_ways = 0;
    /* A column longer than a tile, dense and quantised, within a thread's scratch. */
    const case_of wide = {PLAIT_Q4_0, 16384, 16, 2, 1, true, false, EXPERTS};
    check_case(&wide, &n_ways);
    for (int d = 0; d < PLAIT_DTYPE_LIMIT; d++) {
        if (!plait_dtype_known(d) || !is_float((plait_dtype)d)) continue;
        int64_t k = plait_dtype_block_elems((plait_dtype)d) > 64 ? 256 : 192;
        for (size_t i = 0; i < PLAIT_COUNT_OF(sizes); i++)
            for (int packed = 0; packed < 2; packed++) {
                const case_of c = {
                    (plait_dtype)d,  k,           sizes[i].m,      sizes[i].used, sizes[i].tokens,
                    sizes[i].shared, packed != 0, sizes[i].choices};
                if (packed && (!plait_cpu_packs(c.dtype) || c.m % PLAIT_CPU_GROUP_ROWS)) continue;
                if (!plait_cpu_packs(c.dtype) && i % 3) continue; /* some of them encode slowly */
                check_case(&c, &n_ways);
            }
    }
    const case_of many = {PLAIT_Q8_0, 64, 48, 2, 700, true, false, 2};
    check_case(&many, &n_ways);
    printf("%d ways\n", n_ways);
}

/* The matrices of experts that are not chosen cannot be read, nor what lies around: each chosen one ends where a page
 * does, and the next page is closed. */
static void only_what_is_chosen_is_read(void **state) {
    (void)state;
    const int64_t page = sysconf(_SC_PAGESIZE), k = 32, span = 4 * page; /* from an expert to the next */
    test_use t;
    unsigned char *area = mmap(NULL, (size_t)(EXPERTS * span), PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(area != MAP_FAILED);
    /* Experts 1 and 3 are there, two pages each, their rows at the end of them. */
    const int64_t rows = 2 * page / 34 / 16 * 16, used_bytes = rows * 34;
    plait_operand w = {.dtype = PLAIT_Q8_0, .dims = {k, rows, EXPERTS, 1}};
    assert_true(plait_operand_make_dense(&w));
    w.strides[2] = span;
    w.data = area + 2 * page - used_bytes;
    for (int e = 1; e < 4; e += 2)
        assert_int_equal(mprotect(area + e * span, (size_t)(2 * page), PROT_READ | PROT_WRITE), 0);
    for (int e = 1; e < 4; e += 2) {
        plait_operand one = w;
        one.dims[2] = 1;
        one.data = (char *)w.data + e * span;
        test_fill(&one, (uint64_t)e);
    }
    static const int32_t chosen[3][2] = {{1, 3}, {3, 3}, {1, 1}};
    for (int64_t tokens = 1; tokens <= 3; tokens += 2) {
        const case_of some = {PLAIT_Q8_0, k, rows, 2, tokens, true, false, 1};
        begin(&t, &some, 5);
        t.use.inputs[0] = w;
        for (int64_t n = 0; n < tokens; n++)
            for (int64_t u = 0; u < 2; u++) plait_ref_set_id(&t.use.inputs[2], u, n, chosen[n][u]);
        run_experts(&t, NULL, plait_cpu_features_detect(), UNITS_BY_THREADS);
        check_columns(&t, &some, "beside closed pages");
        test_end(&t);
    }
    munmap(area, (size_t)(EXPERTS * span));
}

/* Ids outside of all experts: zeros, the error word, and the other columns as ever. */
static void bad_ids_give_zeros(void **state) {
    (void)state;
    const case_of c = {PLAIT_Q8_0, 64, 32, 2, 4, true, false, EXPERTS};
    static const int32_t bad[] = {-1, EXPERTS, INT32_MAX, INT32_MIN};
    test_use t;
    float alone[32];
    begin(&t, &c, 11);
    for (int i = 0; i < 4; i++) plait_ref_set_id(&t.use.inputs[2], i % 2, i, bad[i]);
    run_experts(&t, NULL, plait_cpu_features_detect(), UNITS_ONE_BY_ONE);
    assert_int_equal(t.error_word, 1);
    for (int i = 0; i < 4; i++) {
        const float *y = (const float *)(void *)plait_ref_at(&t.use.outputs[0], 0, i % 2, i, 0);
        for (int m = 0; m < 32; m++) assert_true(y[m] == 0);
        run_alone(&t, 1 - i % 2, i, alone);
        assert_memory_equal(alone, plait_ref_at(&t.use.outputs[0], 0, 1 - i % 2, i, 0), sizeof alone);
    }
    test_end(&t);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(columns_are_those_of_matmul),
        cmocka_unit_test(only_what_is_chosen_is_read),
        cmocka_unit_test(bad_ids_give_zeros),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
