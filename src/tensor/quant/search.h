/* The searches behind the encoders. All minimise the weighted squared error sum of w (x - decoded)^2; they know
 * nothing of how a block packs its bits. Not here: those packings (one file per format).
 *
 *   plait_search_scale    one fp16 scale and a codebook: exact, every useful assignment is visited
 *   plait_search_affine   scale and offset, both fp16 (Q4_1, Q5_1)
 *   plait_search_levels   256 elements, sub-blocks with an integer multiple of one fp16 scale
 *   plait_search_pairs    256 elements, sub-blocks with multiples of a scale and of a minimum
 *   plait_search_grid     256 elements, points of a grid, in search_grid.h
 *
 * Values are loaded once into a plait_search_input: divided by a power of two, so that the largest magnitude
 * lies in [1, 2) and squares neither overflow nor vanish; every fp16 field is rounded, and clamped to the finite
 * range, in the original unit, and the search works on with the rounded number. Nothing here allocates. */
#ifndef PLAIT_TENSOR_QUANT_SEARCH_H
#define PLAIT_TENSOR_QUANT_SEARCH_H

#include <stdbool.h>
#include <stdint.h>

enum { PLAIT_SEARCH_MAX = 256 };

typedef struct plait_search_input {
    float x[PLAIT_SEARCH_MAX]; /* original = x * unit */
    float w[PLAIT_SEARCH_MAX]; /* weights, the largest about 1 to 2; none is 0; all 1 without importance */
    double unit;               /* a power of two */
    int n;
    bool weighted; /* importance was given and is not all equal zero */
} plait_search_input;

/* Loads n values (at most PLAIT_SEARCH_MAX). NaN counts as 0 and infinities as the largest float. Returns false
 * when every value is zero: then the block of zero bytes is the answer, in every format. */
bool plait_search_load(plait_search_input *in, const float *x, const float *importance, int n);

/* The fp16 nearest to value * unit, never an infinity; *out_value becomes what it stands for, divided by unit. */
uint16_t plait_search_f16(double value, double unit, double *out_value);

/* The fp16 number `steps` away from the nearest one towards larger magnitude (the sign stays), divided by unit. */
double plait_search_f16_beside(double value, double unit, int steps);

/* Codes of a format in ascending order. `values` NULL: the n integers from `first` on. */
typedef struct plait_codebook {
    const int8_t *values;
    int first, n;
} plait_codebook;

/* The value of a code, and the code whose value is nearest to v. */
int plait_codebook_value(const plait_codebook *book, int code);
int plait_codebook_nearest(const plait_codebook *book, float v);

/* The weighted error of n elements (a multiple of 4) under scale s with nearest codes. */
float plait_search_scale_error(const plait_codebook *book, const float *x, const float *w, int n, float s);

/* Range of scales to look at, and what they are rounded to. */
typedef struct plait_scale_range {
    double low, high; /* 0 and infinity: all */
    double unit;      /* scales are fp16 in this unit; 0: any real number */
} plait_scale_range;

/* Best scale of the sign given (+1 or -1), or 0 when no scale beats storing zeros. *out_gain is by how much the
 * error falls below that of zeros. n * codes <= 8192. */
double plait_search_scale_signed(const plait_codebook *book, const float *x, const float *w, int n, int sign,
                                 plait_scale_range range, double *out_gain);

/* A block of in->n elements with one fp16 scale: returns its bits and sets the code of each element. */
uint16_t plait_search_scale(const plait_codebook *book, const plait_search_input *in, plait_scale_range range,
                            uint8_t *codes);

/* x ~ d q + m, q in 0..q_max, both numbers fp16. */
typedef struct plait_affine {
    uint16_t d, m;
} plait_affine;
plait_affine plait_search_affine(const plait_search_input *in, int q_max, uint8_t *codes);

/* Super-blocks whose sub-blocks have the scale d * level, level in [level_min, level_max]. */
typedef struct plait_levels_format {
    plait_codebook book;
    int sub_elems, level_min, level_max;
} plait_levels_format;
/* Returns the bits of d; sets the level of each sub-block and the code of each element. */
uint16_t plait_search_levels(const plait_levels_format *format, const plait_search_input *in, int8_t *levels,
                             uint8_t *codes);

/* Super-blocks with x ~ d scale q - dmin min, q in 0..q_max, scale and min in 0..level_max per sub-block. */
typedef struct plait_pairs_format {
    int sub_elems, q_max, level_max;
} plait_pairs_format;
typedef struct plait_pairs {
    uint16_t d, dmin;
} plait_pairs;
plait_pairs plait_search_pairs(const plait_pairs_format *format, const plait_search_input *in,
                               uint8_t *scales, uint8_t *mins, uint8_t *codes);

#endif
