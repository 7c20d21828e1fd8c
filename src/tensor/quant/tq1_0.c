/* TQ1_0: 256 ternary elements, fp16 d: (t - 1) d. Five digits a byte in 48 bytes (32, then 16: digit outermost
 * within each part), four a byte in the last 4. A byte is a fixed-point fraction: digit n is
 * ((byte 3^n mod 256) 3) >> 8.
 * Layout: ggml's block_tq1_0 (GGUF type 34). */
#include "tensor/quant/blocks.h"
#include "tensor/quant/quant.h"
#include "tensor/quant/search.h"

#include <math.h>
#include <string.h>

static const uint8_t powers[5] = {1, 3, 9, 27, 81};

/* Elements of one digit are neighbours, those of one byte n_bytes apart: a vector of bytes yields a vector of elements.
 * Multiplying by 3^digit in 8 bits drops the digits in front; the next one is what the multiplication by 3 carries into
 * bits 8 and 9. */
static float *decode_part(const uint8_t *bytes, int n_bytes, int n_digits, float d, float *out) {
    for (int digit = 0; digit < n_digits; digit++)
        for (int k = 0; k < n_bytes; k++) {
            uint8_t shifted = (uint8_t)(bytes[k] * powers[digit]);
            *out++ = (float)((shifted * 3 >> 8) - 1) * d;
        }
    return out;
}

static void decode(const void *blocks, float *out, int64_t n_elems) {
    const plait_block_TQ1_0 *b = blocks;
    for (int64_t at = 0; at < n_elems; at += 256, b++, out += 256) {
        float d = plait_load_f16(b->d), *to = out;
        to = decode_part(b->qs, 32, 5, d, to);
        to = decode_part(b->qs + 32, 16, 5, d, to);
        decode_part(b->qh, 4, 4, d, to);
    }
}

static const plait_codebook book = {.first = -1, .n = 3};
static const plait_scale_range all_scales = {.low = 0, .high = INFINITY, .unit = 0};

/* The number with these digits, first digit highest, as a fraction of 3^5 = 243 rounded up to 256ths: up, so that
 * multiplying and cutting gives the digits back. */
static void encode_part(const uint8_t *codes, int n_bytes, int n_digits, uint8_t *bytes) {
    for (int k = 0; k < n_bytes; k++) {
        int number = 0;
        for (int digit = 0; digit < 5; digit++)
            number = 3 * number + (digit < n_digits ? codes[digit * n_bytes + k] : 0);
        bytes[k] = (uint8_t)((number * 256 + 242) / 243);
    }
}

/* Codes are -1, 0, 1 plus 1, which the digits are. The exact search finds the scale; with three codes it comes out as a
 * mean of the larger magnitudes. */
static void encode(const float *x, const float *importance, void *blocks, int64_t n_elems) {
    plait_block_TQ1_0 *b = blocks;
    plait_search_input in;
    for (int64_t at = 0; at < n_elems; at += 256, b++) {
        memset(b, 0, sizeof *b);
        if (!plait_search_load(&in, x + at, importance ? importance + at : NULL, 256)) continue;
        uint8_t codes[256];
        plait_store_u16(b->d, plait_search_scale(&book, &in, all_scales, codes));
        encode_part(codes, 32, 5, b->qs);
        encode_part(codes + 160, 16, 5, b->qs + 32);
        encode_part(codes + 240, 4, 4, b->qh);
    }
}

const plait_quant plait_quant_TQ1_0 = {PLAIT_TQ1_0, decode, encode};
