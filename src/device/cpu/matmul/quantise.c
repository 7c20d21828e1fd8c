/* Quantised columns: layout, the definition of a block in plain C, and copying columns. Not here: the same block with
 * AVX2 (quantise_avx2.c). Invariant: the place of a column's blocks depends on n and the column's index only; the bytes
 * of a column depend on the column only. */
#include "device/cpu/matmul/kernels.h"

#include "base/size.h"
#include "device/cpu/features.h"

#include <math.h>
#include <string.h>

_Static_assert(sizeof(plait_cpu_block) == 52, "no padding");

/* Tiles are as wide as they have columns, so nothing is padded. */
int64_t plait_cpu_columns_bytes(int64_t k, int64_t n) {
    int64_t bytes;
    if (k < 0 || n < 0 || k % 32 != 0) return -1;
    if (__builtin_mul_overflow(k / 32, n, &bytes)) return -1;
    if (__builtin_mul_overflow(bytes, (int64_t)sizeof(plait_cpu_block), &bytes)) return -1;
    return bytes;
}

/* The first block of column i, and in *out_step how far apart its blocks lie, which is the width of its tile: blocks of
 * one place in k lie together for all columns of the tile, as the micro-kernels walk. */
static int64_t column_start(int64_t i, int64_t blocks, int64_t n, int64_t *out_step) {
    int64_t tile = i - i % PLAIT_CPU_TILE_COLUMNS;
    *out_step = plait_min_i64(PLAIT_CPU_TILE_COLUMNS, n - tile);
    return tile * blocks + (i - tile);
}

/* Bits without the sign order like magnitudes, and comparing them as integers leaves no case open for NaN. */
static uint32_t magnitude_bits(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits & 0x7FFFFFFFu;
}

const float plait_cpu_quantise_tops[PLAIT_CPU_QUANTISE_TOPS] = {127.0f, 126.0f, 125.0f, 124.0f,
                                                                123.0f, 122.0f, 121.0f, 120.0f};

/* The top whose codes lie nearest to the block: squared errors in units of the code, summed in 8 lanes and then in a
 * fixed tree, times the square of the scale's ratio to the first. The first of equal ones. */
static float best_top(const float *x, float a) {
    float best = 0, best_error = INFINITY;
    for (int c = 0; c < PLAIT_CPU_QUANTISE_TOPS; c++) {
        float top = plait_cpu_quantise_tops[c], r = top / a, ratio = 127.0f / top, lanes[8] = {0};
        for (int i = 0; i < 32; i++) {
            float v = x[i] * r, e = v - __builtin_rintf(v);
            lanes[i % 8] = lanes[i % 8] + e * e;
        }
        for (int i = 0; i < 4; i++) lanes[i] = lanes[i] + lanes[i + 4];
        float error = ((lanes[0] + lanes[2]) + (lanes[1] + lanes[3])) * (ratio * ratio);
        if (error < best_error) best = top, best_error = error;
    }
    return best;
}

/* The definition, which is also the way of the rare cases on every instruction set. All is cleared first: a block that
 * is zero or NaN has no codes. |q| is at most 127, so sums of 16 are within 2032, offsets within 2^19. */
void plait_cpu_quantise_block_portable(const float *x, plait_cpu_block *out) {
    uint32_t largest = 0; /* as bits: their order is that of magnitudes, then infinity, then NaN */
    for (int i = 0; i < 32; i++) {
        uint32_t bits = magnitude_bits(x[i]);
        if (bits > largest) largest = bits;
    }
    memset(out, 0, sizeof *out);
    if (largest >= 0x7F800000u) out->d = out->s = NAN;
    float a;
    memcpy(&a, &largest, sizeof a);
    if (largest >= 0x7F800000u || a < 0x1p-100f) return;
    float top = best_top(x, a);
    float r = top / a;
    int sum[2] = {0, 0};
    for (int i = 0; i < 32; i++) {
        out->q[i] = (int8_t)__builtin_rintf(x[i] * r);
        sum[i / 16] += out->q[i];
    }
    out->d = a / top;
    out->s = out->d * (float)(sum[0] + sum[1]);
    out->offset_half[0] = -128 * sum[0];
    out->offset_half[1] = -128 * sum[1];
    out->offset = out->offset_half[0] + out->offset_half[1];
}

void plait_cpu_quantise(uint32_t features, const float *x, int64_t x_stride, int64_t k, int64_t n,
                        int64_t begin, int64_t end, void *columns) {
    void (*quantise)(const float *, plait_cpu_block *) = plait_cpu_quantise_block_portable;
#if defined(__x86_64__)
    if (features & PLAIT_CPU_AVX2) quantise = plait_cpu_quantise_block_avx2;
#else
    (void)features;
#endif
    for (int64_t i = begin; i < end; i++) {
        int64_t step;
        plait_cpu_block *block = (plait_cpu_block *)columns + column_start(i, k / 32, n, &step);
        for (int64_t b = 0; b < k / 32; b++) quantise(x + i * x_stride + 32 * b, block + b * step);
    }
}

/* Whole blocks are copied, from tiles of one width to tiles of another. */
void plait_cpu_copy_column(const void *columns, int64_t k, int64_t n_from, int64_t from, int64_t n, int64_t i,
                           void *out) {
    int64_t source_step, step;
    const plait_cpu_block *source =
        (const plait_cpu_block *)columns + column_start(from, k / 32, n_from, &source_step);
    plait_cpu_block *to = (plait_cpu_block *)out + column_start(i, k / 32, n, &step);
    for (int64_t b = 0; b < k / 32; b++) to[b * step] = source[b * source_step];
}
