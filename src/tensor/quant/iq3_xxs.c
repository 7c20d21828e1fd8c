/* IQ3_XXS: 256 elements, fp16 d. For 4 elements a byte that chooses a point of 4 magnitudes; for 32 elements a word
 * of 4 sign codes of 7 bits (for 8 elements each, the count of negatives even) and a scale s of 4 bits:
 * point (s + 1/2) / 2 d.
 * Layout: ggml's block_iq3_xxs (GGUF type 18). */
#include "tensor/quant/blocks.h"
#include "tensor/quant/quant.h"
#include "tensor/quant/search_grid.h"
#include "tensor/quant/tables.h"

static void decode(const void *blocks, float *out, int64_t n_elems) {
    const plait_block_IQ3_XXS *b = blocks;
    for (int64_t at = 0; at < n_elems; at += 256, b++, out += 256) {
        float d = plait_load_f16(b->d);
        for (int g = 0; g < 32; g++) { /* groups of 8 */
            uint32_t word = plait_load_u32(b->signs_scales + g / 4 * 4);
            uint8_t signs = plait_sign_bits(word >> (7 * (g % 4)) & 127);
            float scale = d * ((float)(word >> 28) + 0.5f) * 0.5f;
            for (int j = 0; j < 8; j++)
                out[8 * g + j] =
                    scale * plait_signed_value(plait_grid_iq3xxs[b->qs[2 * g + j / 4]][j % 4], signs, j);
        }
    }
}

/* (s + 1/2) / 2 = (2s + 1) / 4. Signs are even over 8 elements, which are two points: the search chooses them
 * together. */
static const plait_grid_format format = {.points = plait_grid_iq3xxs,
                                         .n_points = 256,
                                         .point_elems = 4,
                                         .signs = PLAIT_GRID_EVEN,
                                         .sub_elems = 32,
                                         .n_levels = 16,
                                         .unit = 0.25};

static void pack(const plait_grid_result *r, void *block) {
    plait_block_IQ3_XXS *b = block;
    plait_store_u16(b->d, r->d);
    for (int k = 0; k < 64; k++) b->qs[k] = (uint8_t)r->points[k];
    for (int k = 0; k < 8; k++) {
        uint32_t word = (uint32_t)r->levels[k] << 28;
        for (int l = 0; l < 4; l++) word |= (r->signs[4 * k + l] & 127u) << (7 * l);
        plait_store_u32(b->signs_scales + 4 * k, word);
    }
}

static void encode(const float *x, const float *importance, void *blocks, int64_t n_elems) {
    plait_grid_encode(&format, pack, x, importance, blocks, sizeof(plait_block_IQ3_XXS), n_elems);
}

const plait_quant plait_quant_IQ3_XXS = {PLAIT_IQ3_XXS, decode, encode};
