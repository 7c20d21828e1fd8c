/* Q6_K: 256 elements in 16 sub-blocks of 16, fp16 d, int8 scales: (q - 32) scale d. Two runs of 128 elements: 64
 * bytes of low nibbles (elements 0..63 of the run low, 64..127 high), 32 bytes of upper bits (bits 2g for the
 * g-th 32 of the run).
 * Layout: ggml's block_q6_K (GGUF type 14). */
#include "tensor/quant/blocks.h"
#include "tensor/quant/quant.h"
#include "tensor/quant/search.h"

#include <string.h>

/* Code times scale is at most 32 * 128 = 2^12 in magnitude, so the product with d is exact in float32. */
static void decode(const void *blocks, float *out, int64_t n_elems) {
    const plait_block_Q6_K *b = blocks;
    for (int64_t at = 0; at < n_elems; at += 256, b++, out += 256) {
        float d = plait_load_f16(b->d);
        for (int i = 0; i < 256; i++) {
            int run = i / 128, low = b->ql[64 * run + i % 64] >> (i / 64 % 2 * 4) & 15;
            int high = b->qh[32 * run + i % 32] >> (2 * (i / 32 % 4)) & 3;
            out[i] = (float)((low + 16 * high - 32) * b->scales[i / 16]) * d;
        }
    }
}

/* A scale of 8 bits has all its values: -128 is used, unlike codes of Q8_0. */
static const plait_levels_format format = {
    .book = {.first = -32, .n = 64}, .sub_elems = 16, .level_min = -128, .level_max = 127};

/* Levels are stored as they come: b->scales is written by the search itself. */
static void encode(const float *x, const float *importance, void *blocks, int64_t n_elems) {
    plait_block_Q6_K *b = blocks;
    plait_search_input in;
    uint8_t codes[256];
    for (int64_t at = 0; at < n_elems; at += 256, b++) {
        memset(b, 0, sizeof *b);
        if (!plait_search_load(&in, x + at, importance ? importance + at : NULL, 256)) continue;
        plait_store_u16(b->d, plait_search_levels(&format, &in, b->scales, codes));
        for (int i = 0; i < 256; i++) {
            int run = i / 128;
            b->ql[64 * run + i % 64] |= (uint8_t)((codes[i] & 15) << (i / 64 % 2 * 4));
            b->qh[32 * run + i % 32] |= (uint8_t)((codes[i] >> 4) << (2 * (i / 32 % 4)));
        }
    }
}

const plait_quant plait_quant_Q6_K = {PLAIT_Q6_K, decode, encode};
