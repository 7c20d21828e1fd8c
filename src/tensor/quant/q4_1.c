/* Q4_1: 32 elements, fp16 d and m, 4 bits each: q d + m. Nibbles as in Q4_0.
 * Layout: ggml's block_q4_1 (GGUF type 3). */
#include "tensor/quant/blocks.h"
#include "tensor/quant/quant.h"
#include "tensor/quant/search.h"

#include <string.h>

/* Code times d is exact (4 and 11 bits); adding m rounds once. */
static void decode(const void *blocks, float *out, int64_t n_elems) {
    const plait_block_Q4_1 *b = blocks;
    for (int64_t at = 0; at < n_elems; at += 32, b++, out += 32) {
        float d = plait_load_f16(b->d), m = plait_load_f16(b->m);
        for (int j = 0; j < 16; j++) {
            out[j] = (float)(b->qs[j] & 15) * d + m;
            out[j + 16] = (float)(b->qs[j] >> 4) * d + m;
        }
    }
}

/* Scale and offset together have no exact search: see search_affine.c. */
static void encode(const float *x, const float *importance, void *blocks, int64_t n_elems) {
    plait_block_Q4_1 *b = blocks;
    plait_search_input in;
    for (int64_t at = 0; at < n_elems; at += 32, b++) {
        memset(b, 0, sizeof *b);
        if (!plait_search_load(&in, x + at, importance ? importance + at : NULL, 32)) continue;
        uint8_t codes[32];
        plait_affine fields = plait_search_affine(&in, 15, codes);
        plait_store_u16(b->d, fields.d);
        plait_store_u16(b->m, fields.m);
        for (int j = 0; j < 16; j++) b->qs[j] = (uint8_t)(codes[j] | codes[j + 16] << 4);
    }
}

const plait_quant plait_quant_Q4_1 = {PLAIT_Q4_1, decode, encode};
