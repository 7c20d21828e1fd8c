/* IQ1_M: 256 elements. For 8 elements a ternary point of 11 bits (8 in qs, 3 in a nibble of qh) and the sign of a
 * shift of 1/8 (bit 3 of the nibble); for 16 elements a scale s of 3 bits: (point + shift) (2 s + 1) d. The fp16 d
 * is spread over the top nibbles of the four words that hold the scales, lowest nibble first.
 * Layout: ggml's block_iq1_m (GGUF type 29). */
#include "tensor/quant/blocks.h"
#include "tensor/quant/quant.h"
#include "tensor/quant/search_grid.h"
#include "tensor/quant/tables.h"

static void decode(const void *blocks, float *out, int64_t n_elems) {
    const plait_block_IQ1_M *b = blocks;
    for (int64_t at = 0; at < n_elems; at += 256, b++, out += 256) {
        uint16_t bits = 0;
        for (int k = 0; k < 4; k++) bits |= (uint16_t)((plait_load_u16(b->scales + 2 * k) >> 12) << (4 * k));
        float d = plait_f16_to_f32(bits);
        for (int g = 0; g < 32; g++) { /* groups of 8 */
            int nibble = b->qh[g / 2] >> (g % 2 * 4) & 15;
            const int8_t *point = plait_grid_iq1[b->qs[g] | (nibble & 7) << 8];
            int level = plait_load_u16(b->scales + g / 8 * 2) >> (3 * (g / 2 % 4)) & 7;
            float scale = d * (float)(2 * level + 1), shift = nibble & 8 ? -0.125f : 0.125f;
            for (int j = 0; j < 8; j++) out[8 * g + j] = scale * ((float)point[j] + shift);
        }
    }
}

/* The same points as IQ1_S; half the run of a level, a shift for each 8. unit 1: levels are 2 s + 1 themselves. */
static const plait_grid_format format = {.points = plait_grid_iq1,
                                         .n_points = 2048,
                                         .point_elems = 8,
                                         .signs = PLAIT_GRID_SHIFT8,
                                         .sub_elems = 16,
                                         .n_levels = 8,
                                         .unit = 1};

static void pack(const plait_grid_result *r, void *block) {
    plait_block_IQ1_M *b = block;
    for (int g = 0; g < 32; g++) {
        b->qs[g] = (uint8_t)r->points[g];
        b->qh[g / 2] |= (uint8_t)((r->points[g] >> 8 | r->signs[g] << 3) << (g % 2 * 4));
    }
    for (int k = 0; k < 4; k++) {
        int word = (r->d >> (4 * k) & 15) << 12;
        for (int l = 0; l < 4; l++) word |= r->levels[4 * k + l] << (3 * l);
        plait_store_u16(b->scales + 2 * k, (uint16_t)word);
    }
}

static void encode(const float *x, const float *importance, void *blocks, int64_t n_elems) {
    plait_grid_encode(&format, pack, x, importance, blocks, sizeof(plait_block_IQ1_M), n_elems);
}

const plait_quant plait_quant_IQ1_M = {PLAIT_IQ1_M, decode, encode};
