/* Loops of the products of quantised weights: panels of columns that stay in the second-level cache, groups of rows,
 * runs of blocks, tiles. Not here: what a format or an instruction set does (blocks.inc), how columns are quantised
 * (quantise.c). Invariant: each output is summed over k in rising order whatever the loops around it, so no cut shows
 * in the bytes. */
#include "device/cpu/matmul/blocks.h"

#include "base/size.h"

#include <string.h>

_Static_assert(RUN_BLOCKS * sizeof(unpacked_block) + PANEL_COLUMNS * GROUP * sizeof(float) <=
                   PLAIT_CPU_MATMUL_SCRATCH_BYTES,
               "scratch holds a run of blocks and the sums of a panel");

/* Rows beyond the range are computed, from zeros of the packing, and not stored. r may be y: each element is read right
 * before it is written. The whole group has a branch of its own, for a copy of constant length. */
void plait_cpu_store_tile(const plait_cpu_matmul_args *args, int64_t row0, int64_t column0, int columns,
                          const float *tile) {
    int64_t rows = plait_min_i64(args->row_end - row0, GROUP);
    for (int j = 0; j < columns; j++) {
        const float *sums = tile + j * GROUP;
        float *y = args->y + (column0 + j) * args->y_stride + row0;
        if (args->epilogue == PLAIT_CPU_ADD) {
            const float *r = args->r + (column0 + j) * args->r_stride + row0;
            for (int64_t i = 0; i < rows; i++) y[i] = sums[i] + r[i];
        } else if (rows == GROUP) {
            memcpy(y, sums, GROUP * sizeof *y);
        } else {
            memcpy(y, sums, (size_t)rows * sizeof *y);
        }
    }
}

/* Columns of a panel: as many as 768 KiB hold, at least two tiles. Each panel costs another pass over the weights, so
 * it is as wide as the cache lets it be; PANEL_COLUMNS bounds the sums in scratch. */
static int64_t panel_columns(int64_t blocks) {
    int64_t fit = 786432 / (plait_max_i64(blocks, 1) * (int64_t)sizeof(plait_cpu_block));
    fit = fit / PLAIT_CPU_TILE_COLUMNS * PLAIT_CPU_TILE_COLUMNS;
    return plait_min_i64(plait_max_i64(fit, 2 * PLAIT_CPU_TILE_COLUMNS), PANEL_COLUMNS);
}

/* Few columns: memory is the limit, so a group is read once, in order, and decoded in registers for all columns. */
static void run_direct(const plait_cpu_matmul_args *args, const block_ops *ops, int64_t blocks,
                       int64_t group_bytes) {
    _Alignas(64) float tile[DIRECT_COLUMNS * GROUP];
    for (int64_t row = args->row_begin; row < args->row_end; row += GROUP) {
        const uint8_t *group = (const uint8_t *)args->w + row / GROUP * group_bytes;
        ops->direct(group, blocks, args->columns, (int)args->n, tile);
        plait_cpu_store_tile(args, row, 0, (int)args->n, tile);
    }
}

/* The sums of one group with one panel. A run of 16 blocks is decoded (13 KiB, in the first-level cache) and then used
 * by every tile of the panel; sums wait in scratch from run to run, which continues the order over k. Tiles lie as
 * plait_cpu_quantise left them: `first * columns` blocks into tile i. */
static void run_panel(const plait_cpu_matmul_args *args, const block_ops *ops, int64_t blocks,
                      const uint8_t *group, int64_t row, int64_t begin, int64_t end) {
    unpacked_block *w = args->scratch;
    float *acc = (float *)(void *)(w + RUN_BLOCKS);
    memset(acc, 0, (size_t)(end - begin) * GROUP * sizeof *acc);
    for (int64_t first = 0; first < blocks; first += RUN_BLOCKS) {
        int n = (int)plait_min_i64(RUN_BLOCKS, blocks - first);
        ops->unpack(group, first, n, w);
        for (int64_t i = begin; i < end; i += PLAIT_CPU_TILE_COLUMNS) {
            int columns = (int)plait_min_i64(PLAIT_CPU_TILE_COLUMNS, args->n - i);
            const plait_cpu_block *tile = (const plait_cpu_block *)args->columns + i * blocks;
            ops->micro(w, n, tile + first * columns, columns, acc + (i - begin) * GROUP);
        }
    }
    for (int64_t i = begin; i < end; i += PLAIT_CPU_TILE_COLUMNS)
        plait_cpu_store_tile(args, row, i, (int)plait_min_i64(PLAIT_CPU_TILE_COLUMNS, end - i),
                             acc + (i - begin) * GROUP);
}

/* The width of the product alone decides the way, and both have the numbers of matmul.h. */
void plait_cpu_run_blocks(const plait_cpu_matmul_args *args, const block_ops *ops) {
    int64_t blocks = args->k / 32;
    int64_t group_bytes = plait_cpu_packed_bytes(ops->dtype, args->k, GROUP);
    if (args->n <= DIRECT_COLUMNS) {
        run_direct(args, ops, blocks, group_bytes);
        return;
    }
    int64_t panel = panel_columns(blocks);
    for (int64_t begin = 0; begin < args->n; begin += panel)
        for (int64_t row = args->row_begin; row < args->row_end; row += GROUP)
            run_panel(args, ops, blocks, (const uint8_t *)args->w + row / GROUP * group_bytes, row, begin,
                      plait_min_i64(begin + panel, args->n));
}
