/* Q5_1: 32 elements, fp16 d and m, 5 bits each: q d + m. Bits as in Q5_0.
 * Layout: ggml's block_q5_1 (GGUF type 7). */
#include "tensor/quant/blocks.h"
#include "tensor/quant/quant.h"
#include "tensor/quant/search.h"

#include <string.h>

/* Bits j and j + 16 of `high` belong to the low and the high nibble of byte j. */
static void decode(const void *blocks, float *out, int64_t n_elems) {
    const plait_block_Q5_1 *b = blocks;
    for (int64_t at = 0; at < n_elems; at += 32, b++, out += 32) {
        float d = plait_load_f16(b->d), m = plait_load_f16(b->m);
        uint32_t high = plait_load_u32(b->qh);
        for (int j = 0; j < 16; j++) {
            out[j] = (float)((b->qs[j] & 15) | (high >> j & 1) << 4) * d + m;
            out[j + 16] = (float)(b->qs[j] >> 4 | (high >> (j + 16) & 1) << 4) * d + m;
        }
    }
}

/* 31 is the largest code of 5 bits; the rest is as in Q4_1. */
static void encode(const float *x, const float *importance, void *blocks, int64_t n_elems) {
    plait_block_Q5_1 *b = blocks;
    plait_search_input in;
    for (int64_t at = 0; at < n_elems; at += 32, b++) {
        memset(b, 0, sizeof *b);
        if (!plait_search_load(&in, x + at, importance ? importance + at : NULL, 32)) continue;
        uint8_t codes[32];
        uint32_t high = 0;
        plait_affine fields = plait_search_affine(&in, 31, codes);
        plait_store_u16(b->d, fields.d);
        plait_store_u16(b->m, fields.m);
        for (int j = 0; j < 32; j++) high |= (uint32_t)(codes[j] >> 4) << j;
        for (int j = 0; j < 16; j++) b->qs[j] = (uint8_t)((codes[j] & 15) | (codes[j + 16] & 15) << 4);
        plait_store_u32(b->qh, high);
    }
}

const plait_quant plait_quant_Q5_1 = {PLAIT_Q5_1, decode, encode};
