/* Q5_0: 32 elements, fp16 d, 5 bits each: (q - 16) d. Low 4 bits as in Q4_0; bit j of the 32-bit qh is bit 4 of
 * element j.
 * Layout: ggml's block_q5_0 (GGUF type 6). */
#include "tensor/quant/blocks.h"
#include "tensor/quant/quant.h"
#include "tensor/quant/search.h"

#include <math.h>
#include <string.h>

static void decode(const void *blocks, float *out, int64_t n_elems) {
    const plait_block_Q5_0 *b = blocks;
    for (int64_t at = 0; at < n_elems; at += 32, b++, out += 32) {
        float d = plait_load_f16(b->d);
        uint32_t high = plait_load_u32(b->qh);
        for (int j = 0; j < 16; j++) {
            out[j] = (float)((int)((b->qs[j] & 15) | (high >> j & 1) << 4) - 16) * d;
            out[j + 16] = (float)((int)(b->qs[j] >> 4 | (high >> (j + 16) & 1) << 4) - 16) * d;
        }
    }
}

/* -16 to 15: not symmetric, so d may come out negative. */
static const plait_codebook book = {.first = -16, .n = 32};
static const plait_scale_range all_scales = {.low = 0, .high = INFINITY, .unit = 0};

/* The fifth bits go into a local word, stored once: qh has no alignment. */
static void encode(const float *x, const float *importance, void *blocks, int64_t n_elems) {
    plait_block_Q5_0 *b = blocks;
    plait_search_input in;
    for (int64_t at = 0; at < n_elems; at += 32, b++) {
        memset(b, 0, sizeof *b);
        if (!plait_search_load(&in, x + at, importance ? importance + at : NULL, 32)) continue;
        uint8_t codes[32];
        uint32_t high = 0;
        plait_store_u16(b->d, plait_search_scale(&book, &in, all_scales, codes));
        for (int j = 0; j < 32; j++) high |= (uint32_t)(codes[j] >> 4) << j;
        for (int j = 0; j < 16; j++) b->qs[j] = (uint8_t)((codes[j] & 15) | (codes[j + 16] & 15) << 4);
        plait_store_u32(b->qh, high);
    }
}

const plait_quant plait_quant_Q5_0 = {PLAIT_Q5_0, decode, encode};
