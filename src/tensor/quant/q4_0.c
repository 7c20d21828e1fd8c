/* Q4_0: 32 elements, fp16 d, 4 bits each: (q - 8) d. Elements 0..15 take the low nibbles, 16..31 the high ones.
 * Layout: ggml's block_q4_0 (GGUF type 2). */
#include "tensor/quant/blocks.h"
#include "tensor/quant/quant.h"
#include "tensor/quant/search.h"

#include <math.h>
#include <string.h>

/* Exact: 4 bits and the 11 of an fp16 fit the 24 of a float32, so every decoder gives the same bits. */
static void decode(const void *blocks, float *out, int64_t n_elems) {
    const plait_block_Q4_0 *b = blocks;
    for (int64_t at = 0; at < n_elems; at += 32, b++, out += 32) {
        float d = plait_load_f16(b->d);
        for (int j = 0; j < 16; j++) {
            out[j] = (float)((b->qs[j] & 15) - 8) * d;
            out[j + 16] = (float)((b->qs[j] >> 4) - 8) * d;
        }
    }
}

/* -8 to 7. The search tries d < 0 too: it turns the range around, so that the longer side can serve the positive
 * values. */
static const plait_codebook book = {.first = -8, .n = 16};
static const plait_scale_range all_scales = {.low = 0, .high = INFINITY, .unit = 0};

/* A block of zeros is zero bytes, d = 0: codes then do not matter. */
static void encode(const float *x, const float *importance, void *blocks, int64_t n_elems) {
    plait_block_Q4_0 *b = blocks;
    plait_search_input in;
    for (int64_t at = 0; at < n_elems; at += 32, b++) {
        memset(b, 0, sizeof *b);
        if (!plait_search_load(&in, x + at, importance ? importance + at : NULL, 32)) continue;
        uint8_t codes[32];
        plait_store_u16(b->d, plait_search_scale(&book, &in, all_scales, codes));
        for (int j = 0; j < 16; j++) b->qs[j] = (uint8_t)(codes[j] | codes[j + 16] << 4);
    }
}

const plait_quant plait_quant_Q4_0 = {PLAIT_Q4_0, decode, encode};
