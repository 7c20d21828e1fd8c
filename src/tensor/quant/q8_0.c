/* Q8_0: 32 elements, fp16 d, 8 bits each: q d. The encoder never writes q = -128, which the format allows: kernels
 * that negate codes need not care.
 * Layout: ggml's block_q8_0 (GGUF type 8). */
#include "tensor/quant/blocks.h"
#include "tensor/quant/quant.h"
#include "tensor/quant/search.h"

#include <math.h>
#include <string.h>

static void decode(const void *blocks, float *out, int64_t n_elems) {
    const plait_block_Q8_0 *b = blocks;
    for (int64_t at = 0; at < n_elems; at += 32, b++, out += 32) {
        float d = plait_load_f16(b->d);
        for (int j = 0; j < 32; j++) out[j] = (float)b->qs[j] * d;
    }
}

/* -127 to 127, symmetric: one sign of d is enough. */
static const plait_codebook book = {.first = -127, .n = 255};

static void encode(const float *x, const float *importance, void *blocks, int64_t n_elems) {
    plait_block_Q8_0 *b = blocks;
    plait_search_input in;
    for (int64_t at = 0; at < n_elems; at += 32, b++) {
        memset(b, 0, sizeof *b);
        if (!plait_search_load(&in, x + at, importance ? importance + at : NULL, 32)) continue;
        uint8_t codes[32];
        float largest = 0;
        for (int j = 0; j < 32; j++) largest = fmaxf(largest, fabsf(in.x[j]));
        /* With this many codes the best scale lies close to the one that just reaches the largest value; with
         * weights, cutting an unimportant peak can pay. */
        plait_scale_range range = {.low = largest / 127 * (in.weighted ? 0.6 : 0.9),
                                   .high = largest / 127 * 1.06};
        plait_store_u16(b->d, plait_search_scale(&book, &in, range, codes));
        for (int j = 0; j < 32; j++) b->qs[j] = (int8_t)(codes[j] - 127);
    }
}

const plait_quant plait_quant_Q8_0 = {PLAIT_Q8_0, decode, encode};
