/* NVFP4: 64 elements in four groups of 16, each with an unsigned 8-bit float (E4M3) as scale and 4-bit floats
 * (E2M1); halves of a group of 16 take low and high nibbles of 8 bytes. A scale for the whole tensor, if there is
 * one, is a tensor of its own and not applied here.
 * Layout: ggml's block_nvfp4 (GGUF type 40): scale bytes 0 and 0x7f mean 0, bit 7 is ignored except in 0xff,
 * which means 480; half of the scale is applied to the doubled E2M1 values.
 *
 * Invariant: a scale code is chosen for each group alone; a factor for the whole tensor is not looked for. */
#include "tensor/quant/blocks.h"
#include "tensor/quant/quant.h"
#include "tensor/quant/search.h"
#include "tensor/quant/tables.h"

#include <math.h>
#include <string.h>

static const plait_codebook book = {.values = plait_fp4_values, .n = 15};

/* Half of the scale behind a byte. The biases of E4M3 (7) and of the halving and the 3 bits of fraction (1 + 3) make
 * the 11. Bit 7 is dropped by the masks; 0xff is thereby exponent 15 with fraction 7, half of 480. */
static float half_scale_of(uint8_t code) {
    if (code == 0x7F) return 0;
    int exponent = code >> 3 & 15, fraction = code & 7;
    if (exponent == 0) return (float)fraction * 0x1p-10f;
    return (float)(8 + fraction) * plait_f32_from_bits((uint32_t)(exponent - 11 + 127) << 23);
}

static void decode(const void *blocks, float *out, int64_t n_elems) {
    const plait_block_NVFP4 *b = blocks;
    for (int64_t at = 0; at < n_elems; at += 64, b++, out += 64) {
        for (int g = 0; g < 4; g++)
            for (int j = 0; j < 8; j++) {
                float d = half_scale_of(b->scales[g]);
                uint8_t q = b->qs[8 * g + j];
                out[16 * g + j] = (float)plait_codes_fp4_doubled[q & 15] * d;
                out[16 * g + j + 8] = (float)plait_codes_fp4_doubled[q >> 4] * d;
            }
    }
}

/* The scale code with the least error, of all that could reach the values. All 126 codes are few enough to try those
 * between two bounds: above 2.5 of the largest value everything is rounded to 0 or to far too much, and where the
 * largest code reaches less than a tenth of it nearly everything is cut. 0 where storing zeros is best. */
static int best_scale(const float *x, const float *w, double unit) {
    float largest = 0, least = 0;
    int best = 0;
    for (int j = 0; j < 16; j++) {
        largest = fmaxf(largest, fabsf(x[j]));
        least += w[j] * x[j] * x[j];
    }
    for (int code = 1; code < 0x7F; code++) {
        double d = half_scale_of((uint8_t)code) / unit;
        if (d > 2.5 * largest) break; /* even the smallest magnitude is far above */
        if (12 * d < 0.1 * largest && code < 0x78) continue;
        float error = plait_search_scale_error(&book, x, w, 16, (float)d);
        if (error >= least) continue;
        least = error;
        best = code;
    }
    return best;
}

/* A group of zeros keeps scale 0 and codes 0. */
static void encode(const float *x, const float *importance, void *blocks, int64_t n_elems) {
    plait_block_NVFP4 *b = blocks;
    plait_search_input in;
    for (int64_t at = 0; at < n_elems; at += 64, b++) {
        memset(b, 0, sizeof *b);
        if (!plait_search_load(&in, x + at, importance ? importance + at : NULL, 64)) continue;
        for (int g = 0; g < 4; g++) {
            int code = best_scale(in.x + 16 * g, in.w + 16 * g, in.unit);
            double d = half_scale_of((uint8_t)code) / in.unit;
            b->scales[g] = (uint8_t)code;
            for (int j = 0; j < 16 && d > 0; j++)
                b->qs[8 * g + j % 8] |=
                    (uint8_t)(plait_fp4_codes[plait_codebook_nearest(&book, (float)(in.x[16 * g + j] / d))]
                              << (j < 8 ? 0 : 4));
        }
    }
}

const plait_quant plait_quant_NVFP4 = {PLAIT_NVFP4, decode, encode};
