/* Q4_K: 256 elements in 8 sub-blocks of 32, fp16 d and dmin, 6-bit scales and minimums: q (scale d) - minimum dmin.
 * Four runs of 64 elements in 32 bytes: 32 low nibbles, then 32 high ones.
 * Layout: ggml's block_q4_K (GGUF type 12). */
#include "tensor/quant/blocks.h"
#include "tensor/quant/quant.h"
#include "tensor/quant/scales.h"
#include "tensor/quant/search.h"

#include <string.h>

/* The order of the products is that of the definition, though any would do: 4 + 6 + 11 bits are exact. */
static void decode(const void *blocks, float *out, int64_t n_elems) {
    const plait_block_Q4_K *b = blocks;
    for (int64_t at = 0; at < n_elems; at += 256, b++, out += 256) {
        float d = plait_load_f16(b->d), dmin = plait_load_f16(b->dmin);
        uint8_t scales[8], mins[8];
        plait_scales_6bit_pairs_unpack(b->scales, scales, mins);
        for (int i = 0; i < 256; i++) {
            int q = b->qs[i / 64 * 32 + i % 32] >> (i / 32 % 2 * 4) & 15;
            out[i] = (float)q * ((float)scales[i / 32] * d) - (float)mins[i / 32] * dmin;
        }
    }
}

/* q_max and level_max are all ones of their 4 and 6 bits. */
static const plait_pairs_format format = {.sub_elems = 32, .q_max = 15, .level_max = 63};

static void encode(const float *x, const float *importance, void *blocks, int64_t n_elems) {
    plait_block_Q4_K *b = blocks;
    plait_search_input in;
    uint8_t codes[256], scales[8], mins[8];
    for (int64_t at = 0; at < n_elems; at += 256, b++) {
        memset(b, 0, sizeof *b);
        if (!plait_search_load(&in, x + at, importance ? importance + at : NULL, 256)) continue;
        plait_pairs fields = plait_search_pairs(&format, &in, scales, mins, codes);
        plait_store_u16(b->d, fields.d);
        plait_store_u16(b->dmin, fields.dmin);
        plait_scales_6bit_pairs_pack(scales, mins, b->scales);
        for (int i = 0; i < 256; i++) b->qs[i / 64 * 32 + i % 32] |= (uint8_t)(codes[i] << (i / 32 % 2 * 4));
    }
}

const plait_quant plait_quant_Q4_K = {PLAIT_Q4_K, decode, encode};
