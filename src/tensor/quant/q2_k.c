/* Q2_K: 256 elements in 16 sub-blocks of 16, fp16 d and dmin; each sub-block has a scale (low nibble) and a
 * minimum (high nibble): (q scale) d - minimum dmin, q of 2 bits placed as in TQ2_0.
 * Layout: ggml's block_q2_K (GGUF type 10). */
#include "tensor/quant/blocks.h"
#include "tensor/quant/quant.h"
#include "tensor/quant/search.h"

#include <string.h>

/* Codes times scale is at most 45: both products are exact, and the subtraction rounds. */
static void decode(const void *blocks, float *out, int64_t n_elems) {
    const plait_block_Q2_K *b = blocks;
    for (int64_t at = 0; at < n_elems; at += 256, b++, out += 256) {
        float d = plait_load_f16(b->d), dmin = plait_load_f16(b->dmin);
        for (int i = 0; i < 256; i++) {
            int q = b->qs[i / 128 * 32 + i % 32] >> (2 * (i / 32 % 4)) & 3, scale = b->scales[i / 16];
            out[i] = (float)(q * (scale & 15)) * d - (float)(scale >> 4) * dmin;
        }
    }
}

/* Four codes cannot carry an offset as well, hence the minimum of each sub-block. */
static const plait_pairs_format format = {.sub_elems = 16, .q_max = 3, .level_max = 15};

static void encode(const float *x, const float *importance, void *blocks, int64_t n_elems) {
    plait_block_Q2_K *b = blocks;
    plait_search_input in;
    uint8_t codes[256], scales[16], mins[16];
    for (int64_t at = 0; at < n_elems; at += 256, b++) {
        memset(b, 0, sizeof *b);
        if (!plait_search_load(&in, x + at, importance ? importance + at : NULL, 256)) continue;
        plait_pairs fields = plait_search_pairs(&format, &in, scales, mins, codes);
        plait_store_u16(b->d, fields.d);
        plait_store_u16(b->dmin, fields.dmin);
        for (int k = 0; k < 16; k++) b->scales[k] = (uint8_t)(scales[k] | mins[k] << 4);
        for (int i = 0; i < 256; i++)
            b->qs[i / 128 * 32 + i % 32] |= (uint8_t)(codes[i] << (2 * (i / 32 % 4)));
    }
}

const plait_quant plait_quant_Q2_K = {PLAIT_Q2_K, decode, encode};
