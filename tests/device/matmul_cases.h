/* What the tests of the cpu device's products share: random weights in file form, columns, one whole product through
 * packing and quantising, and the exact answer in float64. Included by test programs only. */
#ifndef PLAIT_TESTS_DEVICE_MATMUL_CASES_H
#define PLAIT_TESTS_DEVICE_MATMUL_CASES_H

#include "device/cpu/matmul/matmul.h"
#include "tensor/float16.h"
#include "tensor/quant/quant.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint64_t random_state = 88172645463325252u;

static inline uint32_t random_bits(void) {
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return (uint32_t)(random_state >> 16);
}

/* Uniform in [-1, 1). */
static inline float random_float(void) {
    return (float)(int32_t)random_bits() * 0x1p-31f;
}

/* Where the half-precision fields of a block lie, -1 for none. */
static inline void half_fields(plait_dtype dtype, int out[2]) {
    out[0] = dtype == PLAIT_Q6_K    ? 208
             : dtype == PLAIT_Q3_K  ? 108
             : dtype == PLAIT_Q2_K  ? 80
             : dtype == PLAIT_TQ2_0 ? 64
             : dtype == PLAIT_MXFP4 ? -1
                                    : 0;
    bool two = dtype == PLAIT_Q4_1 || dtype == PLAIT_Q5_1 || dtype == PLAIT_Q4_K || dtype == PLAIT_Q5_K;
    out[1] = two ? 2 : dtype == PLAIT_Q2_K ? 82 : -1;
}

/* A block of random bytes with scales of either sign and ordinary size. */
static inline void random_block(plait_dtype dtype, uint8_t *block) {
    int64_t bytes = plait_dtype_block_bytes(dtype);
    for (int64_t i = 0; i < bytes; i++) block[i] = (uint8_t)random_bits();
    float value = random_float();
    if (dtype == PLAIT_F32) {
        memcpy(block, &value, 4);
        return;
    }
    uint16_t half = dtype == PLAIT_BF16 ? plait_bf16_from_f32(value) : plait_f16_from_f32(value);
    int fields[2];
    half_fields(dtype, fields);
    if (!plait_dtype_quantised(dtype)) fields[1] = -1;
    if (fields[0] >= 0) memcpy(block + fields[0], &half, 2);
    if (dtype == PLAIT_MXFP4) block[0] = (uint8_t)(120 + random_bits() % 16);
    half = plait_f16_from_f32(random_float());
    if (fields[1] >= 0) memcpy(block + fields[1], &half, 2);
}

/* m rows at a stride that is odd, so that nothing is aligned. The caller frees. */
static inline uint8_t *random_rows(plait_dtype dtype, int64_t k, int64_t m, int64_t *out_stride) {
    int64_t block_bytes = plait_dtype_block_bytes(dtype), blocks = k / plait_dtype_block_elems(dtype);
    *out_stride = (blocks * block_bytes) | 1;
    uint8_t *rows = calloc((size_t)(m * *out_stride) + 1, 1);
    for (int64_t r = 0; r < m; r++)
        for (int64_t b = 0; b < blocks; b++) random_block(dtype, rows + r * *out_stride + b * block_bytes);
    return rows;
}

static inline float *random_columns(int64_t count) {
    float *x = calloc((size_t)count + 1, sizeof *x);
    for (int64_t i = 0; i < count; i++) x[i] = random_float() * (random_bits() % 64 ? 1.0f : 20.0f);
    return x;
}

static inline void *aligned(int64_t bytes) {
    size_t rounded = ((size_t)bytes + 127) / 64 * 64;
    void *p = aligned_alloc(64, rounded);
    memset(p, 0xA5, rounded);
    return p;
}

/* A product: the file rows, the columns, and both in the kernel's own form. */
typedef struct problem {
    plait_dtype dtype;
    int64_t k, m, n, w_stride, x_stride, y_stride;
    uint8_t *rows;
    float *x, *y;
    void *packed, *columns, *scratch;
} problem;

static inline void problem_prepare(problem *p) {
    p->y_stride = p->m + 3;
    p->y = aligned((p->n * p->y_stride + 1) * 4);
    p->scratch = aligned(PLAIT_CPU_MATMUL_SCRATCH_BYTES);
    p->columns = NULL;
    if (p->k % 32 == 0) {
        p->columns = aligned(plait_cpu_columns_bytes(p->k, p->n));
        plait_cpu_quantise(0, p->x, p->x_stride, p->k, p->n, 0, p->n, p->columns);
    }
    p->packed = NULL;
    if (plait_cpu_packs(p->dtype)) {
        p->packed = aligned(plait_cpu_packed_bytes(p->dtype, p->k, p->m));
        plait_cpu_pack(p->dtype, p->rows, p->w_stride, p->packed, p->k, 0, p->m);
    }
}

static inline problem problem_random(plait_dtype dtype, int64_t k, int64_t m, int64_t n) {
    problem p = {.dtype = dtype, .k = k, .m = m, .n = n, .x_stride = k + 5};
    p.rows = random_rows(dtype, k, m, &p.w_stride);
    p.x = random_columns(n * p.x_stride);
    problem_prepare(&p);
    return p;
}

static inline void problem_free(problem *p) {
    free(p->rows), free(p->x), free(p->y), free(p->packed), free(p->columns), free(p->scratch);
}

/* Fills y with a pattern, runs rows [begin, end), gives y. */
static inline const float *problem_run(problem *p, const plait_cpu_matmul *kernel, int64_t begin,
                                       int64_t end) {
    plait_cpu_matmul_args args = {.dtype = p->dtype,
                                  .k = p->k,
                                  .m = p->m,
                                  .n = p->n,
                                  .row_begin = begin,
                                  .row_end = end,
                                  .w = kernel->packed ? p->packed : (void *)p->rows,
                                  .w_stride_bytes = kernel->packed ? -1 : p->w_stride,
                                  .x = kernel->quantised_x ? NULL : p->x,
                                  .x_stride = p->x_stride,
                                  .columns = kernel->quantised_x ? p->columns : NULL,
                                  .y = p->y,
                                  .y_stride = p->y_stride,
                                  .scratch = p->scratch};
    memset(p->y, 0xA5, (size_t)(p->n * p->y_stride + 1) * 4);
    memset(p->scratch, 0xFF, PLAIT_CPU_MATMUL_SCRATCH_BYTES);
    kernel->run(&args);
    return p->y;
}

/* Element [e] of quantised column i, as the kernels see it. */
static inline double column_value(const problem *p, int64_t i, int64_t e) {
    int64_t tile = i / 8 * 8, width = p->n - tile < 8 ? p->n - tile : 8;
    const plait_cpu_block *b =
        (const plait_cpu_block *)p->columns + tile * (p->k / 32) + e / 32 * width + (i - tile);
    return (double)b->d * b->q[e % 32];
}

/* One output in float64 and the sum of magnitudes; `w` is the decoded row. */
static inline double exact_dot(const problem *p, const float *w, int64_t column, bool quantised,
                               double *out_abs) {
    double sum = 0, magnitude = 0;
    for (int64_t e = 0; e < p->k; e++) {
        double x = quantised ? column_value(p, column, e) : (double)p->x[column * p->x_stride + e];
        sum += (double)w[e] * x;
        magnitude += fabs((double)w[e] * x);
    }
    *out_abs = magnitude;
    return sum;
}

#endif
