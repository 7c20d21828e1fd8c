/* The search for formats whose groups of 8 or 4 elements are points of a fixed grid (IQ1, IQ2, IQ3). All have
 * super-blocks of 256 with one fp16 scale d and small levels s for sub-blocks: element = d (2s + 1) unit g,
 * where g comes from the point, with a sign or a shift of its own. Not here: the packing of the results.
 *
 * For one group, sum of w (x - t g)^2 = const + t (t B - 2 A) with A = sum of w x g and B = sum of w g^2: every
 * point is a line in t, and the best point as a function of t is the lower envelope of these lines. It is
 * computed exactly, once a group; after that the cost of any d and any level is a look-up. */
#ifndef PLAIT_TENSOR_QUANT_SEARCH_GRID_H
#define PLAIT_TENSOR_QUANT_SEARCH_GRID_H

#include "tensor/quant/search.h"

/* How a group gets its signs. */
typedef enum plait_grid_signs {
    PLAIT_GRID_FREE,   /* magnitudes and 8 free signs */
    PLAIT_GRID_EVEN,   /* magnitudes and 8 signs, an even number of them negative */
    PLAIT_GRID_SHIFT8, /* signed points, moved by +1/8 or -1/8, chosen for 8 elements */
    PLAIT_GRID_SHIFT32 /* the same, chosen for 32 elements */
} plait_grid_signs;

typedef struct plait_grid_format {
    const void *points; /* n_points rows of point_elems bytes, unsigned unless shifted */
    int n_points, point_elems;
    plait_grid_signs signs;
    int sub_elems; /* elements that share a level: 16 or 32 */
    int n_levels;  /* 8 or 16 */
    double unit;
} plait_grid_format;

typedef struct plait_grid_result {
    uint16_t d;
    uint8_t levels[16];  /* one a sub-block */
    uint16_t points[64]; /* one for point_elems elements */
    uint8_t signs[32]; /* for 8 elements: bit j set: element j is negative. With shifts: 1 for -1/8, else 0 */
} plait_grid_result;

/* No grid has more pairs of different sums of g and g^2 (8 values, 4 elements: 330). */
#define PLAIT_GRID_CLASSES 336

/* A format's points in the form that the search wants; made once for a row. With what else the search keeps,
 * about 250 KiB, on the stack. */
typedef struct plait_grid_table {
    const plait_grid_format *format;
    float g[8][2048];        /* element by point */
    uint16_t class_of[2048]; /* points of a class have equal sums of g^2, and of g where there are shifts */
    int n_classes;
    float class_square[PLAIT_GRID_CLASSES], class_sum[PLAIT_GRID_CLASSES];
} plait_grid_table;

void plait_grid_table_init(plait_grid_table *table, const plait_grid_format *format);

/* Encodes one super-block of 256. */
void plait_search_grid(const plait_grid_table *table, const plait_search_input *in, plait_grid_result *out);

/* All super-blocks of a row: loads, searches, and hands each result to `pack` together with its block; blocks of
 * zeros are zero bytes. */
typedef void (*plait_grid_pack_fn)(const plait_grid_result *result, void *block);
void plait_grid_encode(const plait_grid_format *format, plait_grid_pack_fn pack, const float *x,
                       const float *importance, void *blocks, int64_t block_bytes, int64_t n_elems);

#endif
