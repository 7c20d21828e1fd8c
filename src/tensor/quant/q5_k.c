/* Q5_K: as Q4_K with a fifth bit: bit g of qh[l] is bit 4 of element l of the g-th 32.
 * Layout: ggml's block_q5_K (GGUF type 13). */
#include "tensor/quant/blocks.h"
#include "tensor/quant/quant.h"
#include "tensor/quant/scales.h"
#include "tensor/quant/search.h"

#include <string.h>

/* As in Q4_K only the subtraction rounds: 5 + 6 + 11 bits are exact. */
static void decode(const void *blocks, float *out, int64_t n_elems) {
    const plait_block_Q5_K *b = blocks;
    for (int64_t at = 0; at < n_elems; at += 256, b++, out += 256) {
        float d = plait_load_f16(b->d), dmin = plait_load_f16(b->dmin);
        uint8_t scales[8], mins[8];
        plait_scales_6bit_pairs_unpack(b->scales, scales, mins);
        for (int i = 0; i < 256; i++) {
            int low = b->qs[i / 64 * 32 + i % 32] >> (i / 32 % 2 * 4) & 15,
                high = b->qh[i % 32] >> (i / 32) & 1;
            out[i] = (float)(low + 16 * high) * ((float)scales[i / 32] * d) - (float)mins[i / 32] * dmin;
        }
    }
}

/* Sub-blocks and levels of Q4_K, twice the codes. */
static const plait_pairs_format format = {.sub_elems = 32, .q_max = 31, .level_max = 63};

/* qh is ordered by element within 32, so that a bit plane of a whole sub-block is one mask of 32 bytes. */
static void encode(const float *x, const float *importance, void *blocks, int64_t n_elems) {
    plait_block_Q5_K *b = blocks;
    plait_search_input in;
    uint8_t codes[256], scales[8], mins[8];
    for (int64_t at = 0; at < n_elems; at += 256, b++) {
        memset(b, 0, sizeof *b);
        if (!plait_search_load(&in, x + at, importance ? importance + at : NULL, 256)) continue;
        plait_pairs fields = plait_search_pairs(&format, &in, scales, mins, codes);
        plait_store_u16(b->d, fields.d);
        plait_store_u16(b->dmin, fields.dmin);
        plait_scales_6bit_pairs_pack(scales, mins, b->scales);
        for (int i = 0; i < 256; i++) {
            b->qs[i / 64 * 32 + i % 32] |= (uint8_t)((codes[i] & 15) << (i / 32 % 2 * 4));
            b->qh[i % 32] |= (uint8_t)((codes[i] >> 4) << (i / 32));
        }
    }
}

const plait_quant plait_quant_Q5_K = {PLAIT_Q5_K, decode, encode};
