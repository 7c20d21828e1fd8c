/* Loops of the float32 products. Invariant: a run of RUN_ELEMS elements is summed from +0 in rising order and then
 * added to the output's total, whatever the loops around it.
 *
 * Scratch: 2 runs of decoded groups (32 KiB), then totals of 2 groups x DECODED_PANEL columns (32 KiB), then 16 rows
 * before they are interleaved (16 KiB). */
#include "device/cpu/matmul/floats.h"

#include "base/size.h"
#include "device/cpu/matmul/blocks.h"
#include "tensor/quant/quant.h"

#include <string.h>

enum { FEW_COLUMNS = 4 }; /* up to this many, packed runs are read once, in place */

typedef struct float_scratch {
    float run[2][RUN_ELEMS][GROUP];
    float total[2][DECODED_PANEL][GROUP];
    float rows[GROUP][RUN_ELEMS];
} float_scratch;

_Static_assert(sizeof(float_scratch) <= PLAIT_CPU_MATMUL_SCRATCH_BYTES, "fits");

/* Groups of rows from `row` on, the last one perhaps not whole, `most` at most. */
static int64_t groups_left(const plait_cpu_matmul_args *args, int64_t row, int64_t most) {
    return plait_min_i64(most, (args->row_end - row + GROUP - 1) / GROUP);
}

/* --- few columns of packed weights ----------------------------------------------------------------------------- */

/* Four groups at a time, since with few columns each group's sums are one or two chains of fma, which wait for
 * themselves. Totals are kept over all runs; `step` groups are stored through the epilogue. */
static void run_few(const plait_cpu_matmul_args *args, float_part_fn *part, int64_t elem_bytes) {
    int64_t group_bytes = args->k * GROUP * elem_bytes;
    int columns = (int)args->n, step;
    for (int64_t row = args->row_begin; row < args->row_end; row += step * GROUP) {
        _Alignas(64) float total[4][FEW_COLUMNS][GROUP] = {{{0}}};
        const uint8_t *w = (const uint8_t *)args->w + row / GROUP * group_bytes;
        step = (int)groups_left(args, row, 4);
        for (int64_t k = 0; k < args->k; k += RUN_ELEMS)
            part(w + k * GROUP * elem_bytes, group_bytes, step, plait_min_i64(RUN_ELEMS, args->k - k),
                 args->x + k, args->x_stride, columns, &total[0][0][0], FEW_COLUMNS * GROUP);
        for (int g = 0; g < step; g++)
            plait_cpu_store_tile(args, row + g * GROUP, 0, columns, &total[g][0][0]);
    }
}

/* --- many columns ---------------------------------------------------------------------------------------------- */

/* Where the next run of a pair of groups lies as float32. */
typedef struct float_run {
    const void *w;
    int64_t group_stride_bytes;
} float_run;

/* Brings elements [k, k + n) of `groups` groups of rows from `row` on; n is RUN_ELEMS but for the last run. */
typedef float_run fetch_fn(const plait_cpu_matmul_args *args, const float_ops *ops, int64_t row, int groups,
                           int64_t k, int64_t n);

/* F32 is read where it lies; 16-bit runs are made wide in scratch, once for all columns of a panel. */
static float_run fetch_packed(const plait_cpu_matmul_args *args, const float_ops *ops, int64_t row,
                              int groups, int64_t k, int64_t n) {
    float_scratch *scratch = args->scratch;
    if (args->dtype == PLAIT_F32) {
        int64_t group_bytes = args->k * GROUP * 4;
        return (float_run){(const uint8_t *)args->w + row / GROUP * group_bytes + k * GROUP * 4, group_bytes};
    }
    const uint16_t *w = (const uint16_t *)args->w + (row / GROUP * args->k + k) * GROUP;
    for (int g = 0; g < groups; g++)
        (args->dtype == PLAIT_F16 ? ops->widen_f16 : ops->widen_bf16)(w + g * args->k * GROUP, n * GROUP,
                                                                      &scratch->run[g][0][0]);
    return (float_run){scratch->run, sizeof scratch->run[0]};
}

/* Rows from file form, whole blocks at a time (RUN_ELEMS is a multiple of every block), then interleaved as packed
 * groups are. Rows beyond the range count as zeros; they are not read, for there may be nothing behind. */
static float_run fetch_decoded(const plait_cpu_matmul_args *args, const float_ops *ops, int64_t row,
                               int groups, int64_t k, int64_t n) {
    float_scratch *scratch = args->scratch;
    const plait_quant *quant = plait_quant_of(args->dtype);
    int64_t offset = plait_dtype_row_bytes(args->dtype, k);
    for (int g = 0; g < groups; g++) {
        int64_t rows = plait_min_i64(GROUP, args->row_end - row - g * GROUP);
        if (rows < GROUP) memset(scratch->rows, 0, sizeof scratch->rows);
        for (int64_t i = 0; i < rows; i++)
            quant->decode((const uint8_t *)args->w + (row + g * GROUP + i) * args->w_stride_bytes + offset,
                          scratch->rows[i], n);
        ops->interleave(&scratch->rows[0][0], n, &scratch->run[g][0][0]);
    }
    return (float_run){scratch->run, sizeof scratch->run[0]};
}

/* Sums of up to two groups with the columns [begin, end) of a panel. A run joins the totals before the next one is
 * fetched, which is the order of matmul.h: runs are summed apart, so how many columns or groups go together is free. */
static void run_panel(const plait_cpu_matmul_args *args, const float_ops *ops, fetch_fn *fetch, int64_t row,
                      int64_t begin, int64_t end) {
    float_scratch *scratch = args->scratch;
    int groups = (int)groups_left(args, row, 2);
    for (int g = 0; g < groups; g++)
        memset(scratch->total[g], 0, (size_t)(end - begin) * sizeof scratch->total[0][0]);
    for (int64_t k = 0; k < args->k; k += RUN_ELEMS) {
        int64_t n = plait_min_i64(RUN_ELEMS, args->k - k);
        float_run run = fetch(args, ops, row, groups, k, n);
        for (int64_t i = begin; i < end; i += FLOAT_TILE)
            ops->f32(run.w, run.group_stride_bytes, groups, n, args->x + i * args->x_stride + k,
                     args->x_stride, (int)plait_min_i64(FLOAT_TILE, end - i), scratch->total[0][i - begin],
                     DECODED_PANEL * GROUP);
    }
    for (int g = 0; g < groups; g++)
        plait_cpu_store_tile(args, row + g * GROUP, begin, (int)(end - begin), &scratch->total[g][0][0]);
}

/* Panels outside: the x of a panel stays in the cache while all rows pass. */
static void run_panels(const plait_cpu_matmul_args *args, const float_ops *ops, fetch_fn *fetch,
                       int64_t panel) {
    for (int64_t begin = 0; begin < args->n; begin += panel)
        for (int64_t row = args->row_begin; row < args->row_end; row += 2 * GROUP)
            run_panel(args, ops, fetch, row, begin, plait_min_i64(begin + panel, args->n));
}

/* Many columns share a panel of weights made float32; with few, packed runs are read where they lie. */
void plait_cpu_run_floats(const plait_cpu_matmul_args *args, const float_ops *ops) {
    if (args->n > FEW_COLUMNS)
        run_panels(args, ops, fetch_packed, FLOAT_PANEL);
    else if (args->dtype == PLAIT_F32)
        run_few(args, ops->f32, 4);
    else
        run_few(args, args->dtype == PLAIT_F16 ? ops->f16 : ops->bf16, 2);
}

/* One way for every number of columns: decoding is what costs, so panels are as wide as totals have room for. */
void plait_cpu_run_decoded(const plait_cpu_matmul_args *args, const float_ops *ops) {
    run_panels(args, ops, fetch_decoded, DECODED_PANEL);
}
