/* What a block format is: how its bytes become float32 and back. One file per format in this folder defines one `const
 * plait_quant`; the table in quant.c expands from PLAIT_DTYPE_LIST, so a format is one list line and one file. Plain
 * float types (F32, F16, BF16, F64) and integers have entries too, in plain.c, so that every dtype can be decoded.
 *
 * All functions are pure: no allocation, no state, no locale, any thread; encoders use up to 300 KiB of stack. Decoding
 * follows the format's definition exactly (float32 results, subnormals kept); the source of each layout is in its file.
 *
 * In every block format the products of decoding fit the 24 bits of a float32: codes times small scales have at most 12
 * bits, an fp16 scale 11. Only an offset, where there is one, is added with a rounding, once: a fused multiply-add
 * gives the same bytes as two operations. */
#ifndef PLAIT_TENSOR_QUANT_H
#define PLAIT_TENSOR_QUANT_H

#include "plait/types.h"

#include <stddef.h>
#include <stdint.h>

typedef struct plait_quant {
    plait_dtype dtype;

    /* Decodes n_elems elements (whole blocks) into out. `blocks` needs no alignment. */
    void (*decode)(const void *blocks, float *out, int64_t n_elems);

    /* Encodes n_elems float32 values (whole blocks). `importance` weights the squared error of each element
     * (n_elems of them, none negative), or is NULL for all ones. Infinities and NaNs in x give unspecified but
     * initialised bytes. */
    void (*encode)(const float *x, const float *importance, void *blocks, int64_t n_elems);
} plait_quant;

/* The format of a dtype, NULL for unknown numbers. Never NULL for a dtype of the list. */
const plait_quant *plait_quant_of(plait_dtype dtype);

#endif
