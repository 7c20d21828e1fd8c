/* Q1_0: 128 elements, fp16 d, one bit each: set +d, clear -d.
 * Layout: GGUF type 41, as llama.cpp writes it. */
#include "tensor/quant/blocks.h"
#include "tensor/quant/quant.h"
#include "tensor/quant/search.h"

#include <math.h>
#include <string.h>

/* There is no zero: a block of zeros has d = 0. */
static void decode(const void *blocks, float *out, int64_t n_elems) {
    const plait_block_Q1_0 *b = blocks;
    for (int64_t at = 0; at < n_elems; at += 128, b++, out += 128) {
        float d = plait_load_f16(b->d);
        for (int j = 0; j < 128; j++) out[j] = b->qs[j / 8] >> (j % 8) & 1 ? d : -d;
    }
}

static void encode(const float *x, const float *importance, void *blocks, int64_t n_elems) {
    plait_block_Q1_0 *b = blocks;
    plait_search_input in;
    for (int64_t at = 0; at < n_elems; at += 128, b++) {
        memset(b, 0, sizeof *b);
        if (!plait_search_load(&in, x + at, importance ? importance + at : NULL, 128)) continue;
        /* The signs are those of x, and the best magnitude for them is the weighted mean of |x|. */
        double wx = 0, sum_w = 0, ignored;
        for (int j = 0; j < 128; j++) {
            wx += in.w[j] * fabs((double)in.x[j]);
            sum_w += in.w[j];
            b->qs[j / 8] |= (uint8_t)((in.x[j] >= 0) << (j % 8));
        }
        plait_store_u16(b->d, plait_search_f16(wx / sum_w, in.unit, &ignored));
    }
}

const plait_quant plait_quant_Q1_0 = {PLAIT_Q1_0, decode, encode};
