/* Matrix products of the cpu device: y[m,n] = sum over k of w[k,m] * x[k,n].
 *
 * w is a weight of any dtype (m rows of k elements, k contiguous), x and y are float32. What is here are pure
 * functions: no threads, no allocation, no state, no errors; the caller checks shapes, cuts the rows into work
 * units and owns every byte. Not here: views, strides of w, batches and experts (callers pass one matrix at a
 * time).
 *
 * The way of a product:
 *   1. once, at load: plait_cpu_pack() puts the rows of a tuned dtype in the order the kernels stream (packing.c;
 *      groups of 16 rows, as large as the file form within 3%). Other dtypes stay in file form.
 *   2. once for each input, for all weights that read it: plait_cpu_quantise() makes 8-bit columns, where the
 *      kernel says `quantised_x`; kernels of float weights and of untuned dtypes read x itself.
 *   3. kernel->run() for every work unit of rows, in any order, on any thread.
 *
 * Numbers. Every kernel of a dtype gives the same bytes, on every instruction set, for every n, every cut of the
 * rows and every position of a column among the others. All arithmetic is float32 and integer, rounded to
 * nearest-even, and written out here, so that another device could do the same:
 *
 *   quantised columns, per block of 32 elements:
 *     a = largest |x|; when a < 2^-100 the block is zero (d = 0, all q = 0); when any x is infinite or NaN the
 *     block is d = NaN, all q = 0; otherwise d = a / top, r = top / a, q = x * r rounded to nearest-even integer,
 *     where top is that of 127, 126, ..., 120 whose codes lie nearest to the block: the smallest
 *     (127 / top)^2 * sum of (x * r - q)^2, the first of equal ones (best_top in quantise.c has the order of the
 *     sum). A slightly smaller top costs little and gives another draw of rounding errors: a fifth less of them.
 *     s = d * sum of q.
 *   one output, over blocks of 32 elements of k in rising order, starting from acc = +0:
 *     acc = fma(ws * d, (float)i, acc)      i: the exact integer dot product of block codes (minus their offset) and q
 *     acc = fma(wm, s, acc)                 only for formats with a minimum; wm is exact in float32
 *   where ws is the weight's scale of the block (exact in float32: half precision times a small integer) times
 *   2^-e, and i counts codes times 2^e: e is 4 for Q4_0, 3 for Q5_0, 2 for Q6_K, 5 for Q3_K, else 0 (so that every
 *   code with an offset has the offset 128; values of a table are such codes). This matters only below 2^-126. MXFP4
 *   has ws = 2^(exponent - 128). Formats with a scale for each 16 elements have ws = d 2^-e and
 *   i = sc0 * i0 + sc1 * i1, exact; Q2_K, with a minimum for each 16, has two terms in place of the second line,
 *     acc = fma(dmin m / 128, d * (float)(-128 * sum of the half's q), acc)        first half first.
 *   Float weights and untuned dtypes (decoded to float32): for each run of 256 elements of k in rising order
 *     part = +0; part = fma(w, x, part) for k rising; acc = acc + part.
 *   NaN results are NaN; their sign and payload are not promised.
 */
#ifndef PLAIT_DEVICE_CPU_MATMUL_H
#define PLAIT_DEVICE_CPU_MATMUL_H

#include "plait/types.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Rows of a group: packed forms interleave this many, and work units begin at a multiple of it. */
#define PLAIT_CPU_GROUP_ROWS 16

/* --- packed weights ------------------------------------------------------------------------------------------ */

/* True for dtypes that have a packed form. */
bool plait_cpu_packs(plait_dtype dtype);
/* Bytes of a packed matrix of m rows of k elements (whole blocks); the same for every instruction set, a multiple
 * of 16. -1 when the dtype has no packed form, k is no whole number of blocks, or the size overflows. Readers want
 * the region at a multiple of 64, and work at any address. */
int64_t plait_cpu_packed_bytes(plait_dtype dtype, int64_t k, int64_t m);
/* Packs rows [row_begin, row_end) of a matrix of m rows: `rows` points to row row_begin in file form, rows lie
 * row_stride_bytes apart, no alignment needed; `packed` is the start of the whole packed matrix. row_begin is a
 * multiple of 16, row_end too or m. Rows between m and the end of the last group become zero. Calls for
 * different groups may run at the same time. */
void plait_cpu_pack(plait_dtype dtype, const void *rows, int64_t row_stride_bytes, void *packed, int64_t k,
                    int64_t row_begin, int64_t row_end);
/* The inverse, without loss: writes rows [row_begin, row_end), any bounds, in file form, byte for byte what was
 * packed. */
void plait_cpu_unpack(plait_dtype dtype, const void *packed, int64_t k, int64_t row_begin, int64_t row_end,
                      void *rows, int64_t row_stride_bytes);
/* float32 values of one row, the bits that the dtype's decoder gives: for get_rows and host reads. */
void plait_cpu_unpack_row(plait_dtype dtype, const void *packed, int64_t k, int64_t row, float *out);

/* --- quantised columns --------------------------------------------------------------------------------------- */

/* 32 elements of a column. */
typedef struct plait_cpu_block {
    int8_t q[32];
    float d, s;             /* scale; d times the sum of q */
    int32_t offset;         /* -128 times the sum of q: what codes with the offset 128 count too much */
    int32_t offset_half[2]; /* the same for the halves of 16 elements */
} plait_cpu_block;

/* Columns lie in tiles of 8 (the last one narrower): tile, then block of k, then column. */
#define PLAIT_CPU_TILE_COLUMNS 8

/* Bytes of n quantised columns of k elements (k a multiple of 32); -1 when k is not or the size overflows.
 * Alignment 4; 64 is better. */
int64_t plait_cpu_columns_bytes(int64_t k, int64_t n);
/* Quantises columns [begin, end) of n: column i is at x + i * x_stride (in floats). Calls for different columns
 * may run at the same time. `features` only chooses how fast; the bytes are the same. */
void plait_cpu_quantise(uint32_t features, const float *x, int64_t x_stride, int64_t k, int64_t n,
                        int64_t begin, int64_t end, void *columns);
/* Copies a quantised column: column i of the n of `out` becomes column `from` of the n_from of `columns`. For experts,
 * which see some columns only. */
void plait_cpu_copy_column(const void *columns, int64_t k, int64_t n_from, int64_t from, int64_t n, int64_t i,
                           void *out);

/* --- products ------------------------------------------------------------------------------------------------ */

/* What happens to a sum when it is stored. */
typedef enum plait_cpu_epilogue {
    PLAIT_CPU_STORE, /* y = acc */
    PLAIT_CPU_ADD,   /* y = acc + r, r of the shape of y; r may be y */
} plait_cpu_epilogue;

/* Scratch that each call of run needs, uninitialised, aligned to 64. */
#define PLAIT_CPU_MATMUL_SCRATCH_BYTES 98304

typedef struct plait_cpu_matmul_args {
    plait_dtype dtype;          /* of w */
    int64_t k, m, n;            /* whole blocks of k; all may be 0 (k == 0: zeros) */
    int64_t row_begin, row_end; /* rows to compute; row_begin a multiple of 16, row_end too or m */

    const void *w;          /* start of the packed matrix, or of row 0 in file form */
    int64_t w_stride_bytes; /* between rows in file form; not read for packed kernels */

    const float *x;      /* column i at x + i * x_stride; NULL where the kernel says quantised_x */
    int64_t x_stride;    /* in floats */
    const void *columns; /* n quantised columns of k elements; NULL where x is read */

    float *y;         /* row r of column i at y[i * y_stride + r]; only rows of the range are written */
    int64_t y_stride; /* in floats */

    plait_cpu_epilogue epilogue;
    const float *r; /* as y */
    int64_t r_stride;

    void *scratch;
} plait_cpu_matmul_args;

typedef struct plait_cpu_matmul {
    plait_dtype dtype; /* not read when any_dtype */
    bool any_dtype;    /* decodes rows through plait_quant_of: all dtypes that have no row of their own */
    bool packed;       /* w is packed; otherwise in file form */
    bool quantised_x;  /* reads columns; otherwise x */
    uint32_t features; /* bits that the processor must have */
    const char *isa;   /* for people: "portable", "avx2", ... */
    void (*run)(const plait_cpu_matmul_args *args);
} plait_cpu_matmul;

/* The fastest kernel for a dtype that needs no more than these features; never NULL for a dtype of the list. */
const plait_cpu_matmul *plait_cpu_matmul_find(plait_dtype dtype, uint32_t features);
/* All kernels in turn, for tests and benchmarks; NULL from the end on. */
const plait_cpu_matmul *plait_cpu_matmul_at(size_t index);

#endif
