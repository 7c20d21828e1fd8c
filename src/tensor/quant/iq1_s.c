/* IQ1_S: 256 elements, fp16 d. For 8 elements a ternary point of 11 bits (8 in qs, 3 in qh); for 32 elements a scale
 * s of 3 bits and the sign of a shift of 1/8: (point + shift) (2 s + 1) d.
 * Layout: ggml's block_iq1_s (GGUF type 19). */
#include "tensor/quant/blocks.h"
#include "tensor/quant/quant.h"
#include "tensor/quant/search_grid.h"
#include "tensor/quant/tables.h"

/* Points have values -1, 0, 1; the shift moves a whole group up or down by an eighth, so that it need not be centred on
 * 0. */
static void decode(const void *blocks, float *out, int64_t n_elems) {
    const plait_block_IQ1_S *b = blocks;
    for (int64_t at = 0; at < n_elems; at += 256, b++, out += 256) {
        float d = plait_load_f16(b->d);
        for (int g = 0; g < 32; g++) { /* groups of 8 */
            int word = plait_load_u16(b->qh + g / 4 * 2);
            const int8_t *point = plait_grid_iq1[b->qs[g] | (word >> (3 * (g % 4)) & 7) << 8];
            float scale = d * (float)(2 * (word >> 12 & 7) + 1), shift = word & 0x8000 ? -0.125f : 0.125f;
            for (int j = 0; j < 8; j++) out[8 * g + j] = scale * ((float)point[j] + shift);
        }
    }
}

/* The sign of the shift serves 32 elements, so four groups of 8 choose it together. */
static const plait_grid_format format = {.points = plait_grid_iq1,
                                         .n_points = 2048,
                                         .point_elems = 8,
                                         .signs = PLAIT_GRID_SHIFT32,
                                         .sub_elems = 32,
                                         .n_levels = 8,
                                         .unit = 1};

/* `block` is zeroed; levels and signs come for 32 elements, points for 8. */
static void pack(const plait_grid_result *r, void *block) {
    plait_block_IQ1_S *b = block;
    plait_store_u16(b->d, r->d);
    for (int k = 0; k < 8; k++) {
        int word = r->levels[k] << 12 | r->signs[4 * k] << 15;
        for (int l = 0; l < 4; l++) {
            b->qs[4 * k + l] = (uint8_t)r->points[4 * k + l];
            word |= (r->points[4 * k + l] >> 8) << (3 * l);
        }
        plait_store_u16(b->qh + 2 * k, (uint16_t)word);
    }
}

static void encode(const float *x, const float *importance, void *blocks, int64_t n_elems) {
    plait_grid_encode(&format, pack, x, importance, blocks, sizeof(plait_block_IQ1_S), n_elems);
}

const plait_quant plait_quant_IQ1_S = {PLAIT_IQ1_S, decode, encode};
