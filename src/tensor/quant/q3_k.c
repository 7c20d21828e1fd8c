/* Q3_K: 256 elements in 16 sub-blocks of 16, fp16 d, signed 6-bit scales: (q - 4) scale d. Two low bits as in
 * TQ2_0; bit g of hmask[l] is bit 2 of element l of the g-th 32.
 * Layout: ggml's block_q3_K (GGUF type 11). */
#include "tensor/quant/blocks.h"
#include "tensor/quant/quant.h"
#include "tensor/quant/scales.h"
#include "tensor/quant/search.h"

#include <string.h>

/* Code times scale is at most 4 * 32 = 128, so the product with d is exact. */
static void decode(const void *blocks, float *out, int64_t n_elems) {
    const plait_block_Q3_K *b = blocks;
    for (int64_t at = 0; at < n_elems; at += 256, b++, out += 256) {
        float d = plait_load_f16(b->d);
        int8_t scales[16];
        plait_scales_6bit_signed_unpack(b->scales, scales);
        for (int i = 0; i < 256; i++) {
            int low = b->qs[i / 128 * 32 + i % 32] >> (2 * (i / 32 % 4)) & 3;
            int high = b->hmask[i % 32] >> (i / 32) & 1;
            out[i] = (float)((low + 4 * high - 4) * scales[i / 16]) * d;
        }
    }
}

/* Levels reach one further down than up, as do codes: the search tries d of either sign. */
static const plait_levels_format format = {
    .book = {.first = -4, .n = 8}, .sub_elems = 16, .level_min = -32, .level_max = 31};

/* Block bytes are zeroed first, because fields are filled by or-ing bits in. */
static void encode(const float *x, const float *importance, void *blocks, int64_t n_elems) {
    plait_block_Q3_K *b = blocks;
    plait_search_input in;
    uint8_t codes[256];
    int8_t levels[16];
    for (int64_t at = 0; at < n_elems; at += 256, b++) {
        memset(b, 0, sizeof *b);
        if (!plait_search_load(&in, x + at, importance ? importance + at : NULL, 256)) continue;
        plait_store_u16(b->d, plait_search_levels(&format, &in, levels, codes));
        plait_scales_6bit_signed_pack(levels, b->scales);
        for (int i = 0; i < 256; i++) {
            b->qs[i / 128 * 32 + i % 32] |= (uint8_t)((codes[i] & 3) << (2 * (i / 32 % 4)));
            b->hmask[i % 32] |= (uint8_t)((codes[i] >> 2) << (i / 32));
        }
    }
}

const plait_quant plait_quant_Q3_K = {PLAIT_Q3_K, decode, encode};
