/* Q2_0: 64 elements, fp16 d, 2 bits each, four a byte, lowest bits first: (q - 1) d, so -1, 0, 1, 2.
 * Layout: GGUF type 42, as llama.cpp writes it. */
#include "tensor/quant/blocks.h"
#include "tensor/quant/quant.h"
#include "tensor/quant/search.h"

#include <math.h>
#include <string.h>

static void decode(const void *blocks, float *out, int64_t n_elems) {
    const plait_block_Q2_0 *b = blocks;
    for (int64_t at = 0; at < n_elems; at += 64, b++, out += 64) {
        float d = plait_load_f16(b->d);
        for (int j = 0; j < 64; j++) out[j] = (float)((b->qs[j / 4] >> (2 * (j % 4)) & 3) - 1) * d;
    }
}

/* Not symmetric: 2 has no counterpart, so the search tries scales of either sign. */
static const plait_codebook book = {.first = -1, .n = 4};
static const plait_scale_range all_scales = {.low = 0, .high = INFINITY, .unit = 0};

/* The search is exact; only its codes are packed here, lowest bits first. */
static void encode(const float *x, const float *importance, void *blocks, int64_t n_elems) {
    plait_block_Q2_0 *b = blocks;
    plait_search_input in;
    for (int64_t at = 0; at < n_elems; at += 64, b++) {
        memset(b, 0, sizeof *b);
        if (!plait_search_load(&in, x + at, importance ? importance + at : NULL, 64)) continue;
        uint8_t codes[64];
        plait_store_u16(b->d, plait_search_scale(&book, &in, all_scales, codes));
        for (int j = 0; j < 64; j++) b->qs[j / 4] |= (uint8_t)(codes[j] << (2 * (j % 4)));
    }
}

const plait_quant plait_quant_Q2_0 = {PLAIT_Q2_0, decode, encode};
