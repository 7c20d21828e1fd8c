/* TQ2_0: 256 ternary elements, fp16 d: (q - 1) d with 2 bits each; two runs of 128 in 32 bytes, bits 2g of which
 * are the g-th 32 elements. Codes above 2 decode as they stand (2 d).
 * Layout: ggml's block_tq2_0 (GGUF type 35). */
#include "tensor/quant/blocks.h"
#include "tensor/quant/quant.h"
#include "tensor/quant/search.h"

#include <math.h>
#include <string.h>

static void decode(const void *blocks, float *out, int64_t n_elems) {
    const plait_block_TQ2_0 *b = blocks;
    for (int64_t at = 0; at < n_elems; at += 256, b++, out += 256) {
        float d = plait_load_f16(b->d);
        for (int i = 0; i < 256; i++)
            out[i] = (float)((b->qs[i / 128 * 32 + i % 32] >> (2 * (i / 32 % 4)) & 3) - 1) * d;
    }
}

/* Three of the four codes: the encoder never writes 3. */
static const plait_codebook book = {.first = -1, .n = 3};
static const plait_scale_range all_scales = {.low = 0, .high = INFINITY, .unit = 0};

static void encode(const float *x, const float *importance, void *blocks, int64_t n_elems) {
    plait_block_TQ2_0 *b = blocks;
    plait_search_input in;
    for (int64_t at = 0; at < n_elems; at += 256, b++) {
        memset(b, 0, sizeof *b);
        if (!plait_search_load(&in, x + at, importance ? importance + at : NULL, 256)) continue;
        uint8_t codes[256];
        plait_store_u16(b->d, plait_search_scale(&book, &in, all_scales, codes));
        for (int i = 0; i < 256; i++)
            b->qs[i / 128 * 32 + i % 32] |= (uint8_t)(codes[i] << (2 * (i / 32 % 4)));
    }
}

const plait_quant plait_quant_TQ2_0 = {PLAIT_TQ2_0, decode, encode};
