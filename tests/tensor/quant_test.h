/* What the tests of block formats share: golden files, random rows of many kinds, error measures. */
#ifndef PLAIT_TESTS_QUANT_TEST_H
#define PLAIT_TESTS_QUANT_TEST_H

#include "plait/types.h"
#include "support/paths.h"
#include "tensor/quant/quant.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { GOLDEN_COLS = 512, GOLDEN_ROWS = 6 };

/* A whole golden file, NUL-terminated; fails the test when it is missing. The caller frees. */
static inline void *golden_read(const char *name, size_t *out_bytes) {
    char relative[128], path[PLAIT_TEST_PATH_BYTES];
    snprintf(relative, sizeof relative, "quants/%s", name);
    plait_test_golden(relative, path);
    FILE *f = fopen(path, "rb");
    if (!f) fail_msg("missing golden file %s", path);
    fseek(f, 0, SEEK_END);
    long size = ftell(f);
    rewind(f);
    char *bytes = malloc((size_t)size + 1);
    assert_non_null(bytes);
    assert_int_equal(fread(bytes, 1, (size_t)size, f), size);
    bytes[size] = 0;
    fclose(f);
    *out_bytes = (size_t)size;
    return bytes;
}

static inline void *golden_read_part(const char *type, const char *part, size_t *out_bytes) {
    char name[64];
    snprintf(name, sizeof name, "%s.%s", type, part);
    return golden_read(name, out_bytes);
}

/* A small generator (xorshift64*), so that the numbers are the same everywhere. */
static inline uint64_t random_bits(uint64_t *state) {
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    return *state * 0x2545F4914F6CDD1Du;
}

static inline double random_unit(uint64_t *state) {
    return ((double)(random_bits(state) >> 11) + 0.5) / 9007199254740992.0;
}

static inline double random_gauss(uint64_t *state) {
    double a = random_unit(state), b = random_unit(state);
    return sqrt(-2 * log(a)) * cos(6.283185307179586 * b);
}

#define ROW_KINDS(X)                                                                                         \
    X(gaussian, random_gauss(r))                                                                             \
    X(uniform, 2 * random_unit(r) - 1)                                                                       \
    X(positive, 1 + 0.1 * random_gauss(r))                                                                   \
    X(outliers, random_gauss(r) * (random_bits(r) % 40 ? 0.05 : 3))                                          \
    X(laplace, (random_bits(r) & 1 ? 1 : -1) * log(random_unit(r)))                                          \
    X(constant, -0.3)                                                                                        \
    X(zeros, 0)                                                                                              \
    X(spikes, i % 64 == 5 ? 2.5 : 0)                                                                         \
    X(tiny, random_gauss(r) * 1e-6)                                                                          \
    X(below_fp16, random_gauss(r) * 1e-12)                                                                   \
    X(subnormal, random_gauss(r) * 1e-40)                                                                    \
    X(large, random_gauss(r) * 2e4)                                                                          \
    X(beyond_fp16, random_gauss(r) * 1e9)                                                                    \
    X(huge, (random_unit(r) - 0.5) * 6.8e38)                                                                 \
    X(mixed_magnitudes, random_gauss(r) * pow(10, (double)(i / 32 % 8) - 4))

enum {
#define ROW_KIND_ENUM(name, value) ROW_##name,
    ROW_KINDS(ROW_KIND_ENUM)
#undef ROW_KIND_ENUM
        N_ROW_KINDS
};

static inline const char *row_kind_name(int kind) {
    static const char *const names[] = {
#define ROW_KIND_NAME(name, value) #name,
        ROW_KINDS(ROW_KIND_NAME)
#undef ROW_KIND_NAME
    };
    return names[kind];
}

static inline void fill_row(int kind, uint64_t *r, float *x, int n) {
    for (int i = 0; i < n; i++) switch (kind) {
#define ROW_KIND_CASE(name, value)                                                                           \
    case ROW_##name: x[i] = (float)(value); break;
            ROW_KINDS(ROW_KIND_CASE)
#undef ROW_KIND_CASE
        }
}

/* Root mean square error; weights may be NULL. */
static inline double row_error(const float *x, const float *y, const float *w, int n) {
    double sum = 0, sum_w = 0;
    for (int i = 0; i < n; i++) {
        double off = (double)x[i] - y[i], weight = w ? w[i] : 1;
        sum += weight * off * off;
        sum_w += weight;
    }
    return sum_w > 0 ? sqrt(sum / sum_w) : 0;
}

#endif
