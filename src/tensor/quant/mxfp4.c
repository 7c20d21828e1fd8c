/* MXFP4: 32 elements, one power of two, 4-bit floats (E2M1) each. Byte e stands for 2^(e - 128), applied to the
 * doubled E2M1 values; 255 gives 2^127 here. Nibbles as in Q4_0.
 * Layout: ggml's block_mxfp4 (GGUF type 39); values: OCP Microscaling Formats 1.0. */
#include "tensor/quant/blocks.h"
#include "tensor/quant/quant.h"
#include "tensor/quant/search.h"
#include "tensor/quant/tables.h"

#include <math.h>
#include <string.h>

static const plait_codebook book = {.values = plait_fp4_values, .n = 15};

/* 2^(e - 128) from bits: e below 2 gives the subnormals 2^-128 and 2^-127. */
static float scale_of(uint8_t e) {
    return plait_f32_from_bits(e < 2 ? 0x00200000u << e : (uint32_t)(e - 1) << 23);
}

static void decode(const void *blocks, float *out, int64_t n_elems) {
    const plait_block_MXFP4 *b = blocks;
    for (int64_t at = 0; at < n_elems; at += 32, b++, out += 32) {
        float d = scale_of(b->e);
        for (int j = 0; j < 16; j++) {
            out[j] = (float)plait_codes_fp4_doubled[b->qs[j] & 15] * d;
            out[j + 16] = (float)plait_codes_fp4_doubled[b->qs[j] >> 4] * d;
        }
    }
}

/* How far below the largest value to look; the largest exponent whose codes all decode to finite numbers. */
enum { REACH = 14, LARGEST = 252 };

/* `in` holds values divided by in->unit, hence the 1 / unit in the scale. */
static void store(plait_block_MXFP4 *b, const plait_search_input *in, int e) {
    double scale = ldexp(1 / in->unit, e - 128);
    b->e = (uint8_t)e;
    for (int j = 0; j < 32; j++)
        b->qs[j % 16] |= (uint8_t)(plait_fp4_codes[plait_codebook_nearest(&book, (float)(in->x[j] / scale))]
                                   << (j < 16 ? 0 : 4));
}

/* Fifteen exponents are measured, from one above the place where the codes just reach the largest value; beyond these
 * either all codes are 0 or the peak is cut to almost nothing. */
static void encode(const float *x, const float *importance, void *blocks, int64_t n_elems) {
    plait_block_MXFP4 *b = blocks;
    plait_search_input in;
    for (int64_t at = 0; at < n_elems; at += 32, b++) {
        memset(b, 0, sizeof *b);
        if (!plait_search_load(&in, x + at, importance ? importance + at : NULL, 32)) continue;
        /* At exponent 0 of the largest value's own power of two the codes reach it; look around there. */
        int top = 128 + ilogb(in.unit) - 1, best = -1;
        float least = 0;
        for (int e = top + 1; e > top - REACH; e--) {
            if (e < 0 || e > LARGEST) continue;
            float error = plait_search_scale_error(&book, in.x, in.w, 32, (float)ldexp(1 / in.unit, e - 128));
            if (best >= 0 && error >= least) continue;
            least = error;
            best = e;
        }
        if (best < 0) continue; /* the values are far below the smallest scale */
        store(b, &in, best);
    }
}

const plait_quant plait_quant_MXFP4 = {PLAIT_MXFP4, decode, encode};
