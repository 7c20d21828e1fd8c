/* What an instruction set supplies to the kernels of this folder: functions on rows of float32, one table a set
 * (simd_ISA.c, from the .inc files). The families (norm.c, rope.c, ...) find rows, cut units and call these.
 *
 * Invariant: the tables' functions give the same bytes. No function needs aligned rows, and none reads or writes
 * beyond the elements it is given. Outputs may be the very inputs where an op may run in place.
 */
#ifndef PLAIT_DEVICE_CPU_KERNELS_SIMD_H
#define PLAIT_DEVICE_CPU_KERNELS_SIMD_H

#include "plait/types.h"

#include <stdint.h>

typedef enum plait_cpu_unary_function {
    PLAIT_CPU_SILU,
    PLAIT_CPU_GELU,
    PLAIT_CPU_RELU,
    PLAIT_CPU_SIGMOID,
    PLAIT_CPU_TANH,
    PLAIT_CPU_SCALE,  /* a * x */
    PLAIT_CPU_SOFTCAP /* a * tanh(x / a) */
} plait_cpu_unary_function;

typedef enum plait_cpu_binary_function {
    PLAIT_CPU_PLUS,
    PLAIT_CPU_MINUS,
    PLAIT_CPU_TIMES,
    PLAIT_CPU_OVER,
    PLAIT_CPU_SWIGLU, /* silu(a) * b */
    PLAIT_CPU_GEGLU
} plait_cpu_binary_function;

enum { PLAIT_CPU_KEYS = 64 }; /* keys of a block of attention: the stride of rows of scores */

/* The forms of keys and values that dots and sums read as they lie: rows of whole sixteens of elements. */
typedef enum plait_cpu_key_form {
    PLAIT_CPU_KEYS_F32,
    PLAIT_CPU_KEYS_F16,
    PLAIT_CPU_KEYS_BF16
} plait_cpu_key_form;

/* Memory to ask for while keys are worked on: for key j, `step` bytes at first + j * step. NULL: none. Any address. */
typedef struct plait_cpu_ahead {
    const char *first;
    int64_t step;
} plait_cpu_ahead;

/* Softmax state of one row while keys are added. */
typedef struct plait_cpu_softmax {
    float max, sum;
} plait_cpu_softmax;

typedef struct plait_cpu_simd {
    const char *isa;

    /* Sums over dim 0: 64 lanes by index mod 64 (four vectors, added as (0 + 2) + (1 + 3)), then the tree of lanes.h.
     * w and b may be NULL: ones and zeros. */
    void (*rms_norm)(const float *x, const float *w, float eps, int64_t d, float *y);
    void (*layer_norm)(const float *x, const float *w, const float *b, float eps, int64_t d, float *y);

    void (*unary)(plait_cpu_unary_function f, float a, const float *x, int64_t n, float *y);
    /* b_step 0: b[0] for all. */
    void (*binary)(plait_cpu_binary_function f, const float *a, const float *b, int64_t b_step, int64_t n,
                   float *y);

    /* cos and sin of position * w[i], times magnitude. Angles are exact to float64; float32 from there on. */
    void (*angles)(const double *w, int64_t n, double position, float magnitude, float *cosines,
                   float *sines);
    /* (a, b) := (a c - b s, a s + b c) for n pairs: a of x, b of x + apart; or neighbours. The second product is
     * rounded before it joins the first. */
    void (*turn_halves)(const float *x, int64_t apart, const float *cosines, const float *sines, int64_t n,
                        float *y);
    void (*turn_pairs)(const float *x, const float *cosines, const float *sines, int64_t n, float *y);

    /* n elements; whole blocks. decode returns false when it has no code for the dtype. */
    bool (*decode)(plait_dtype dtype, const void *blocks, float *out, int64_t n);
    /* As plait_cache_encode (op/cache_row.h); false for dtypes other than F32, F16, BF16, Q8_0, Q4_0. */
    bool (*encode)(plait_dtype dtype, const float *x, void *blocks, int64_t n);

    /* Largest of scale * x (-infinity for none), and y := exp(scale * x - max) with its sum; y *= a. */
    float (*largest)(const float *x, float scale, int64_t n);
    float (*exps)(const float *x, float scale, float max, int64_t n, float *y);
    /* The first i of [begin, end) with x[i] > bound; end when there is none. */
    int64_t (*find_above)(const float *x, float bound, int64_t begin, int64_t end);

    /* ---- attention: rows of scores are PLAIT_CPU_KEYS apart ---- */

    /* s[row][j] = q_row . k_j for rows and j of [begin, end): sixteen lanes over d, tree of lanes.h. d is a multiple
     * of 16; q rows are d apart. The whole fours that begin and end lie in are written. */
    void (*dots)(const float *q, int rows, plait_cpu_key_form form, const void *const *keys, int64_t d,
                 int begin, int end, float *s, plait_cpu_ahead ahead);
    /* Scores [begin, end) become weights exp(logit - new max), logit = scale * s, capped when cap > 0; zeros fill
     * the sixteens that begin and end lie in. Returns what older sums must be multiplied by. */
    float (*weights)(float *s, int begin, int end, float scale, float cap, plait_cpu_softmax *state);
    /* o_row[e] += weight[row][j] * v_j[e] for j of [begin, end) in order. n_e is a multiple of 16. */
    void (*sums)(const float *weights, int rows, plait_cpu_key_form form, const void *const *values,
                 int64_t n_e, int begin, int end, float *o, int64_t o_stride, plait_cpu_ahead ahead);
    /* (state, o) := both parts, where `part` follows; a part that saw no key changes nothing. */
    void (*merge)(plait_cpu_softmax *state, float *o, const plait_cpu_softmax *part, const float *part_o,
                  int64_t n_e);
    /* y = o / sum, with exp(*sink - max) in the sum when sink is given; 0 when no key was seen. n_e as it is. */
    void (*finish)(const plait_cpu_softmax *state, const float *sink, const float *o, int64_t n_e, float *y);
} plait_cpu_simd;

/* The table for these PLAIT_CPU_... features. */
const plait_cpu_simd *plait_cpu_simd_for(uint32_t features);

extern const plait_cpu_simd plait_cpu_simd_portable, plait_cpu_simd_avx2, plait_cpu_simd_avx512;

#endif
