/* IQ2_S: 256 elements, fp16 d. For 8 elements a point of 10 bits (8 in qs, 2 in qh) and a byte of signs; a scale s
 * of 4 bits for 16 elements: point (s + 1/2) / 4 d.
 * Layout: ggml's block_iq2_s (GGUF type 22). */
#include "tensor/quant/blocks.h"
#include "tensor/quant/quant.h"
#include "tensor/quant/search_grid.h"
#include "tensor/quant/tables.h"

static void decode(const void *blocks, float *out, int64_t n_elems) {
    const plait_block_IQ2_S *b = blocks;
    for (int64_t at = 0; at < n_elems; at += 256, b++, out += 256) {
        float d = plait_load_f16(b->d);
        for (int g = 0; g < 32; g++) { /* groups of 8 */
            const uint8_t *point = plait_grid_iq2s[b->qs[g] | (b->qh[g / 4] >> (2 * (g % 4)) & 3) << 8];
            float scale = d * ((float)(b->scales[g / 4] >> (g / 2 % 2 * 4) & 15) + 0.5f) * 0.25f;
            for (int j = 0; j < 8; j++) out[8 * g + j] = scale * plait_signed_value(point[j], b->signs[g], j);
        }
    }
}

/* (s + 1/2) / 4 = (2s + 1) / 8: the form that the search knows, with unit 1/8. */
static const plait_grid_format format = {.points = plait_grid_iq2s,
                                         .n_points = 1024,
                                         .point_elems = 8,
                                         .signs = PLAIT_GRID_FREE,
                                         .sub_elems = 16,
                                         .n_levels = 16,
                                         .unit = 0.125};

/* Two bits of a point go to qh, four points a byte. */
static void pack(const plait_grid_result *r, void *block) {
    plait_block_IQ2_S *b = block;
    plait_store_u16(b->d, r->d);
    for (int g = 0; g < 32; g++) {
        b->qs[g] = (uint8_t)r->points[g];
        b->qh[g / 4] |= (uint8_t)((r->points[g] >> 8) << (2 * (g % 4)));
        b->signs[g] = r->signs[g];
    }
    for (int k = 0; k < 16; k++) b->scales[k / 2] |= (uint8_t)(r->levels[k] << (k % 2 * 4));
}

static void encode(const float *x, const float *importance, void *blocks, int64_t n_elems) {
    plait_grid_encode(&format, pack, x, importance, blocks, sizeof(plait_block_IQ2_S), n_elems);
}

const plait_quant plait_quant_IQ2_S = {PLAIT_IQ2_S, decode, encode};
