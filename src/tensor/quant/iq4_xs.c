/* IQ4_XS: 256 elements in 8 sub-blocks of 32 laid out as IQ4_NL, fp16 d, signed 6-bit scales: codebook value times
 * scale d. Low 4 bits of a scale in scales_l, upper 2 in scales_h.
 * Layout: ggml's block_iq4_xs (GGUF type 23). */
#include "tensor/quant/blocks.h"
#include "tensor/quant/quant.h"
#include "tensor/quant/search.h"
#include "tensor/quant/tables.h"

#include <string.h>

/* Value times scale is at most 127 * 32, 12 bits, so the product with d is exact. */
static void decode(const void *blocks, float *out, int64_t n_elems) {
    const plait_block_IQ4_XS *b = blocks;
    for (int64_t at = 0; at < n_elems; at += 256, b++, out += 256) {
        float d = plait_load_f16(b->d);
        int high = plait_load_u16(b->scales_h);
        for (int i = 0; i < 256; i++) {
            int g = i / 32, scale = (b->scales_l[g / 2] >> (4 * (g % 2)) & 15) | (high >> (2 * g) & 3) << 4;
            int q = b->qs[16 * g + i % 16] >> (i / 16 % 2 * 4) & 15;
            out[i] = (float)(plait_codes_iq4nl[q] * (scale - 32)) * d;
        }
    }
}

/* Stored plus 32, which puts a scale of 0 at code 32: a block of zero bytes has d = 0 and so is zeros all the same. */
static const plait_levels_format format = {
    .book = {.values = plait_codes_iq4nl, .n = 16}, .sub_elems = 32, .level_min = -32, .level_max = 31};

static void encode(const float *x, const float *importance, void *blocks, int64_t n_elems) {
    plait_block_IQ4_XS *b = blocks;
    plait_search_input in;
    uint8_t codes[256];
    int8_t levels[16];
    for (int64_t at = 0; at < n_elems; at += 256, b++) {
        memset(b, 0, sizeof *b);
        if (!plait_search_load(&in, x + at, importance ? importance + at : NULL, 256)) continue;
        uint32_t high = 0;
        plait_store_u16(b->d, plait_search_levels(&format, &in, levels, codes));
        for (int g = 0; g < 8; g++) {
            uint32_t scale = (uint32_t)(levels[g] + 32);
            b->scales_l[g / 2] |= (uint8_t)((scale & 15) << (4 * (g % 2)));
            high |= (scale >> 4) << (2 * g);
        }
        plait_store_u16(b->scales_h, (uint16_t)high);
        for (int i = 0; i < 256; i++)
            b->qs[16 * (i / 32) + i % 16] |= (uint8_t)(codes[i] << (i / 16 % 2 * 4));
    }
}

const plait_quant plait_quant_IQ4_XS = {PLAIT_IQ4_XS, decode, encode};
