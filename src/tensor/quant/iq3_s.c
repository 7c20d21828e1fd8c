/* IQ3_S: 256 elements, fp16 d. For 4 elements a point of 9 bits (8 in qs, one in qh), a byte of signs for 8, a scale
 * s of 4 bits for 32: point (2 s + 1) d.
 * Layout: ggml's block_iq3_s (GGUF type 21). */
#include "tensor/quant/blocks.h"
#include "tensor/quant/quant.h"
#include "tensor/quant/search_grid.h"
#include "tensor/quant/tables.h"

static void decode(const void *blocks, float *out, int64_t n_elems) {
    const plait_block_IQ3_S *b = blocks;
    for (int64_t at = 0; at < n_elems; at += 256, b++, out += 256) {
        float d = plait_load_f16(b->d);
        for (int k = 0; k < 64; k++) { /* groups of 4 */
            int g = k / 8;
            const uint8_t *point = plait_grid_iq3s[b->qs[k] | (b->qh[g] >> (k % 8) & 1) << 8];
            float scale = d * (float)(2 * (b->scales[g / 2] >> (g % 2 * 4) & 15) + 1);
            for (int j = 0; j < 4; j++)
                out[4 * k + j] = scale * plait_signed_value(point[j], b->signs[k / 2], k % 2 * 4 + j);
        }
    }
}

/* Points of four elements, free signs: a unit of the search is one group. */
static const plait_grid_format format = {.points = plait_grid_iq3s,
                                         .n_points = 512,
                                         .point_elems = 4,
                                         .signs = PLAIT_GRID_FREE,
                                         .sub_elems = 32,
                                         .n_levels = 16,
                                         .unit = 1};

/* The byte of signs spans two points: element j of point k is bit 4 (k % 2) + j. */
static void pack(const plait_grid_result *r, void *block) {
    plait_block_IQ3_S *b = block;
    plait_store_u16(b->d, r->d);
    for (int k = 0; k < 64; k++) {
        b->qs[k] = (uint8_t)r->points[k];
        b->qh[k / 8] |= (uint8_t)((r->points[k] >> 8) << (k % 8));
    }
    for (int g = 0; g < 32; g++) b->signs[g] = r->signs[g];
    for (int k = 0; k < 8; k++) b->scales[k / 2] |= (uint8_t)(r->levels[k] << (k % 2 * 4));
}

static void encode(const float *x, const float *importance, void *blocks, int64_t n_elems) {
    plait_grid_encode(&format, pack, x, importance, blocks, sizeof(plait_block_IQ3_S), n_elems);
}

const plait_quant plait_quant_IQ3_S = {PLAIT_IQ3_S, decode, encode};
