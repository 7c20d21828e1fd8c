/* IQ4_NL: 32 elements, fp16 d, 4 bits each: a codebook of 16 unequal steps times d. Nibbles as in Q4_0.
 * Layout: ggml's block_iq4_nl (GGUF type 20). */
#include "tensor/quant/blocks.h"
#include "tensor/quant/quant.h"
#include "tensor/quant/search.h"
#include "tensor/quant/tables.h"

#include <math.h>
#include <string.h>

static void decode(const void *blocks, float *out, int64_t n_elems) {
    const plait_block_IQ4_NL *b = blocks;
    for (int64_t at = 0; at < n_elems; at += 32, b++, out += 32) {
        float d = plait_load_f16(b->d);
        for (int j = 0; j < 16; j++) {
            out[j] = (float)plait_codes_iq4nl[b->qs[j] & 15] * d;
            out[j + 16] = (float)plait_codes_iq4nl[b->qs[j] >> 4] * d;
        }
    }
}

/* The steps grow with distance from 0. There is no 0 among the values: the nearest is 1. */
static const plait_codebook book = {.values = plait_codes_iq4nl, .n = 16};
static const plait_scale_range all_scales = {.low = 0, .high = INFINITY, .unit = 0};

/* The codebook is not symmetric (-127, 113), so d of either sign is tried. */
static void encode(const float *x, const float *importance, void *blocks, int64_t n_elems) {
    plait_block_IQ4_NL *b = blocks;
    plait_search_input in;
    for (int64_t at = 0; at < n_elems; at += 32, b++) {
        memset(b, 0, sizeof *b);
        if (!plait_search_load(&in, x + at, importance ? importance + at : NULL, 32)) continue;
        uint8_t codes[32];
        plait_store_u16(b->d, plait_search_scale(&book, &in, all_scales, codes));
        for (int j = 0; j < 16; j++) b->qs[j] = (uint8_t)(codes[j] | codes[j + 16] << 4);
    }
}

const plait_quant plait_quant_IQ4_NL = {PLAIT_IQ4_NL, decode, encode};
