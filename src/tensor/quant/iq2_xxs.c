/* IQ2_XXS: 256 elements, fp16 d. For 32 elements two 32-bit words: 4 bytes that choose points of 8 magnitudes;
 * then 4 sign codes of 7 bits (the eighth sign makes the count of negatives even) and a scale s of 4 bits:
 * point (s + 1/2) / 4 d.
 * Layout: ggml's block_iq2_xxs (GGUF type 16). */
#include "tensor/quant/blocks.h"
#include "tensor/quant/quant.h"
#include "tensor/quant/search_grid.h"
#include "tensor/quant/tables.h"

static void decode(const void *blocks, float *out, int64_t n_elems) {
    const plait_block_IQ2_XXS *b = blocks;
    for (int64_t at = 0; at < n_elems; at += 256, b++, out += 256) {
        float d = plait_load_f16(b->d);
        for (int g = 0; g < 32; g++) { /* groups of 8 */
            uint32_t word = plait_load_u32(b->qs + g / 4 * 8 + 4);
            const uint8_t *point = plait_grid_iq2xxs[b->qs[g / 4 * 8 + g % 4]];
            uint8_t signs = plait_sign_bits(word >> (7 * (g % 4)) & 127);
            float scale = d * ((float)(word >> 28) + 0.5f) * 0.25f;
            for (int j = 0; j < 8; j++) out[8 * g + j] = scale * plait_signed_value(point[j], signs, j);
        }
    }
}

/* A level for 32 elements; 256 points fit a byte each. */
static const plait_grid_format format = {.points = plait_grid_iq2xxs,
                                         .n_points = 256,
                                         .point_elems = 8,
                                         .signs = PLAIT_GRID_EVEN,
                                         .sub_elems = 32,
                                         .n_levels = 16,
                                         .unit = 0.125};

static void pack(const plait_grid_result *r, void *block) {
    plait_block_IQ2_XXS *b = block;
    plait_store_u16(b->d, r->d);
    for (int k = 0; k < 8; k++) {
        uint32_t word = (uint32_t)r->levels[k] << 28;
        for (int l = 0; l < 4; l++) {
            b->qs[8 * k + l] = (uint8_t)r->points[4 * k + l];
            word |= (r->signs[4 * k + l] & 127u) << (7 * l);
        }
        plait_store_u32(b->qs + 8 * k + 4, word);
    }
}

static void encode(const float *x, const float *importance, void *blocks, int64_t n_elems) {
    plait_grid_encode(&format, pack, x, importance, blocks, sizeof(plait_block_IQ2_XXS), n_elems);
}

const plait_quant plait_quant_IQ2_XXS = {PLAIT_IQ2_XXS, decode, encode};
