/* Uses of ops with memory: examples become operands with data, between guard bytes, and run on the reference
 * kernels. Shared by the tests of this folder. */
#ifndef TESTS_OP_USES_H
#define TESTS_OP_USES_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/size.h"
#include "op/example.h"
#include "op/reference.h"
#include "op/shape.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define GUARD_BYTES 64
#define GUARD       0xA5

typedef struct test_memory {
    unsigned char *block;
    int64_t bytes;
} test_memory;

typedef struct test_use {
    plait_op_use use;
    test_memory inputs[PLAIT_MAX_INPUTS], outputs[PLAIT_MAX_OUTPUTS];
    void *scratch;
    uint32_t error_word;
} test_use;

/* Numbers in [-1, 1) with 24 bits, the same everywhere. */
static inline float test_random(uint64_t *state) {
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (float)(*state >> 40) * (2.0f / 16777216.0f) - 1.0f;
}

static inline void test_reserve(test_memory *memory, plait_operand *operand) {
    memory->bytes = plait_operand_span_bytes(operand);
    assert_true(memory->bytes >= 0);
    memory->block = malloc((size_t)memory->bytes + 2 * GUARD_BYTES);
    assert_non_null(memory->block);
    memset(memory->block, GUARD, (size_t)memory->bytes + 2 * GUARD_BYTES);
    operand->data = memory->block + GUARD_BYTES;
}

static inline void test_release(test_memory *memory) {
    for (int64_t i = 0; memory->block && i < GUARD_BYTES; i++) {
        assert_int_equal(memory->block[i], GUARD);
        assert_int_equal(memory->block[GUARD_BYTES + memory->bytes + i], GUARD);
    }
    free(memory->block);
    memory->block = NULL;
}

/* Random numbers, encoded for quantised types; small whole numbers for integers. */
static inline void test_fill(const plait_operand *o, uint64_t seed) {
    if (plait_operand_elems(o) == 0) return;
    float *row = malloc((size_t)o->dims[0] * sizeof(float));
    assert_non_null(row);
    PLAIT_REF_ROWS(o, i1, i2, i3) {
        for (int64_t i = 0; i < o->dims[0]; i++) row[i] = test_random(&seed);
        if (o->dtype == PLAIT_I32) {
            for (int64_t i = 0; i < o->dims[0]; i++) {
                int32_t value = (int32_t)(row[i] * 1000);
                memcpy(plait_ref_at(o, i, i1, i2, i3), &value, sizeof value);
            }
        } else {
            plait_ref_write_row(o, i1, i2, i3, o->dims[0], row);
        }
    }
    free(row);
}

/* Memory for outputs and scratch of a use whose inputs have data. */
static inline void test_outputs(test_use *t) {
    plait_op_use *use = &t->use;
    for (int i = 0; i < use->n_outputs; i++) {
        if (i == 0 && use->op->writes_input >= 0)
            use->outputs[0].data = use->inputs[use->op->writes_input].data;
        else
            test_reserve(&t->outputs[i], &use->outputs[i]);
    }
    size_t scratch = use->op->reference_scratch ? use->op->reference_scratch(use) : 0;
    t->scratch = malloc(scratch + 1);
    assert_non_null(t->scratch);
    use->error_word = &t->error_word;
}

/* Case `which` of the op with data; false when there is none. */
static inline bool test_begin(test_use *t, const plait_op *op, int which) {
    memset(t, 0, sizeof *t);
    if (!op->example(which, &t->use)) return false;
    assert_int_equal(plait_op_infer(&t->use), PLAIT_OK);
    for (int i = 0; i < t->use.n_inputs; i++) {
        if (!plait_op_has(&t->use, i)) continue;
        test_reserve(&t->inputs[i], &t->use.inputs[i]);
        test_fill(&t->use.inputs[i], (uint64_t)(100 * which + i + 1));
    }
    if (op->example_data) op->example_data(which, &t->use);
    test_outputs(t);
    return true;
}

static inline void test_run(test_use *t) {
    t->use.op->reference(&t->use, t->scratch);
}

static inline void test_end(test_use *t) {
    for (int i = 0; i < PLAIT_MAX_INPUTS; i++) test_release(&t->inputs[i]);
    for (int i = 0; i < PLAIT_MAX_OUTPUTS; i++) test_release(&t->outputs[i]);
    free(t->scratch);
    t->scratch = NULL;
}

/* Any element of any type as a double. */
static inline double test_at(const plait_operand *o, int64_t i0, int64_t i1, int64_t i2, int64_t i3) {
    float block[256];
    int64_t n = plait_dtype_block_elems(o->dtype);
    plait_quant_of(o->dtype)->decode(plait_ref_at(o, i0 / n, i1, i2, i3), block, n);
    return (double)block[i0 % n];
}

/* A dense copy of an operand's elements. */
static inline void test_copy(test_memory *memory, plait_operand *out, const plait_operand *from) {
    *out = *from;
    assert_true(plait_operand_make_dense(out));
    test_reserve(memory, out);
    int64_t blocks = from->dims[0] / plait_dtype_block_elems(from->dtype);
    PLAIT_REF_ROWS(from, i1, i2, i3)
    for (int64_t i = 0; i < blocks; i++)
        memcpy(plait_ref_at(out, i, i1, i2, i3), plait_ref_at(from, i, i1, i2, i3),
               (size_t)plait_dtype_block_bytes(from->dtype));
}

static inline void assert_near(double actual, double expected, double tolerance) {
    if (actual == expected || (isnan(actual) && isnan(expected))) return;
    if (fabs(actual - expected) <= tolerance * fmax(1.0, fabs(expected))) return;
    fail_msg("expected %.9g, found %.9g", expected, actual);
}

/* Largest difference relative to max(1, |expected|); infinity when shapes differ. Equal bits count as equal. */
static inline double test_difference(const plait_operand *actual, const plait_operand *expected) {
    double worst = 0;
    if (memcmp(actual->dims, expected->dims, sizeof actual->dims) != 0) return INFINITY;
    PLAIT_REF_ROWS(expected, i1, i2, i3)
    for (int64_t i = 0; i < expected->dims[0]; i++) {
        double a = test_at(actual, i, i1, i2, i3), e = test_at(expected, i, i1, i2, i3);
        if (a == e || (isnan(a) && isnan(e))) continue;
        worst = fmax(worst, isnan(a) || isnan(e) ? INFINITY : fabs(a - e) / fmax(1.0, fabs(e)));
    }
    return worst;
}

#endif
