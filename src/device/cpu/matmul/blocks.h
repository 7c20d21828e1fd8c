/* Products of quantised weights with quantised columns: what an instruction set supplies for a format, and the
 * loops around it, which are the same for all (blocks.c). For the files of this folder only.
 *
 * Two ways lead to the same sums. Few columns: the packed group is streamed once and decoded in registers. Many:
 * runs of blocks are decoded to bytes in scratch, and one micro-kernel per kind of format goes over the tiles of
 * columns.
 */
#ifndef PLAIT_DEVICE_CPU_MATMUL_BLOCKS_H
#define PLAIT_DEVICE_CPU_MATMUL_BLOCKS_H

#include "device/cpu/matmul/packing.h"

enum {
    DIRECT_COLUMNS = 4, /* up to this many columns go the first way */
    RUN_BLOCKS = 16,    /* blocks decoded at a time */
    PANEL_COLUMNS = 128 /* most columns whose sums are in scratch */
};

/* A block of 16 rows x 32 elements, decoded. */
typedef struct unpacked_block {
    uint8_t code[8][4 * GROUP]; /* [step][4 row + i]: as the instruction set wants them */
    float scale[5][GROUP]; /* OFFSET: ws. MIN: ws, wm. HALVES: ws, sc0, sc1. HALVES_MIN: and wm m0, wm m1 */
} unpacked_block;

typedef struct block_ops {
    plait_dtype dtype;
    /* tile[column][row] of a whole group: `blocks` of k, `columns` (1..DIRECT_COLUMNS) that lie as one tile. */
    void (*direct)(const void *group, int64_t blocks, const plait_cpu_block *x, int columns, float *tile);
    /* Decodes blocks [first, first + n) of a group. */
    void (*unpack)(const void *group, int64_t first, int n, unpacked_block *out);
    /* acc[column][row] += over n blocks, `columns` (1..8) that lie as one tile. */
    void (*micro)(const unpacked_block *w, int n, const plait_cpu_block *x, int columns, float *acc);
} block_ops;

void plait_cpu_run_blocks(const plait_cpu_matmul_args *args, const block_ops *ops);

/* Stores sums tile[column][row] of the group at row0, `columns` from column0 on, through the epilogue. */
void plait_cpu_store_tile(const plait_cpu_matmul_args *args, int64_t row0, int64_t column0, int columns,
                          const float *tile);

#endif
