/* IQ2_XS: 256 elements, fp16 d. A 16-bit word for 8 elements: point (9 bits) and sign code (7 bits, the eighth
 * sign makes the count of negatives even); a scale s of 4 bits for 16 elements: point (s + 1/2) / 4 d.
 * Layout: ggml's block_iq2_xs (GGUF type 17). */
#include "tensor/quant/blocks.h"
#include "tensor/quant/quant.h"
#include "tensor/quant/search_grid.h"
#include "tensor/quant/tables.h"

/* plait_sign_bits adds the eighth sign to the seven that are stored. */
static void decode(const void *blocks, float *out, int64_t n_elems) {
    const plait_block_IQ2_XS *b = blocks;
    for (int64_t at = 0; at < n_elems; at += 256, b++, out += 256) {
        float d = plait_load_f16(b->d);
        for (int g = 0; g < 32; g++) { /* groups of 8 */
            uint32_t word = plait_load_u16(b->qs + 2 * g);
            const uint8_t *point = plait_grid_iq2xs[word & 511];
            uint8_t signs = plait_sign_bits(word >> 9);
            float scale = d * ((float)(b->scales[g / 4] >> (g / 2 % 2 * 4) & 15) + 0.5f) * 0.25f;
            for (int j = 0; j < 8; j++) out[8 * g + j] = scale * plait_signed_value(point[j], signs, j);
        }
    }
}

/* Signs are even, since only seven bits are stored; the search flips the one that costs least. */
static const plait_grid_format format = {.points = plait_grid_iq2xs,
                                         .n_points = 512,
                                         .point_elems = 8,
                                         .signs = PLAIT_GRID_EVEN,
                                         .sub_elems = 16,
                                         .n_levels = 16,
                                         .unit = 0.125};

static void pack(const plait_grid_result *r, void *block) {
    plait_block_IQ2_XS *b = block;
    plait_store_u16(b->d, r->d);
    for (int g = 0; g < 32; g++)
        plait_store_u16(b->qs + 2 * g, (uint16_t)(r->points[g] | (r->signs[g] & 127) << 9));
    for (int k = 0; k < 16; k++) b->scales[k / 2] |= (uint8_t)(r->levels[k] << (k % 2 * 4));
}

static void encode(const float *x, const float *importance, void *blocks, int64_t n_elems) {
    plait_grid_encode(&format, pack, x, importance, blocks, sizeof(plait_block_IQ2_XS), n_elems);
}

const plait_quant plait_quant_IQ2_XS = {PLAIT_IQ2_XS, decode, encode};
