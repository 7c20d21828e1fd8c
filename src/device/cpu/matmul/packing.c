/* From file form to packed form and back. Not here: the layouts (packing.h), how kernels read them (blocks.inc), offers
 * and threads (weights.c). Invariant: unpack is the exact inverse of pack for every bit of a block, so a packed weight
 * can serve any reader; rows beyond the matrix are packed from blocks of zero bytes.
 *
 * A format is two functions on one block of one row (a lane of the group); everything else is common. Sources of the
 * block layouts: the GGUF format as described in docs/formats.md and in src/tensor/quant. */
#include "device/cpu/matmul/packing.h"

#include "tensor/quant/quant.h"

#include <string.h>

/* At least the largest block of the list (Q6_K: 210 bytes), and room for several small ones when a row is decoded. */
enum { MAX_BLOCK_BYTES = 256 };

/* --- pieces --------------------------------------------------------------------------------------------------- */

/* By bytes: blocks lie at any address, and files are little-endian. */
static uint16_t load16(const uint8_t *p) {
    return (uint16_t)(p[0] | p[1] << 8);
}

static void store16(uint8_t *p, uint16_t value) {
    p[0] = (uint8_t)value;
    p[1] = (uint8_t)(value >> 8);
}

/* Nibble pairs of the file's "halves" order (element j with element j + 16) are the packed order already: byte 4 c + i
 * has element 4 c + i low and element 4 (c + 4) + i high, which are steps c and c + 4. */
static void nibbles_in(packed_nibbles *out, const uint8_t *bytes, int lane) {
    for (int c = 0; c < 4; c++) memcpy(out->q[c][lane], bytes + 4 * c, 4);
}

static void nibbles_out(const packed_nibbles *in, uint8_t *bytes, int lane) {
    for (int c = 0; c < 4; c++) memcpy(bytes + 4 * c, in->q[c][lane], 4);
}

/* Codes of 32 elements, of which the low four bits go to nibbles, for formats whose own order of nibbles is another
 * one. */
static void codes_in(packed_nibbles *out, const uint8_t *codes, int lane) {
    uint8_t bytes[16];
    for (int j = 0; j < 16; j++) bytes[j] = (uint8_t)((codes[j] & 15) | (codes[j + 16] & 15) << 4);
    nibbles_in(out, bytes, lane);
}

/* The inverse: codes[j] is element j. */
static void codes_out(const packed_nibbles *in, uint8_t *codes, int lane) {
    uint8_t bytes[16];
    nibbles_out(in, bytes, lane);
    for (int j = 0; j < 16; j++) {
        codes[j] = bytes[j] & 15;
        codes[j + 16] = bytes[j] >> 4;
    }
}

/* One further bit of each of 32 elements: bit j of `bits` is element j = 4 c + i. In the plane it is bit c of byte i,
 * so that a kernel gets a step's bits by shifting whole vectors. */
static void plane_in(uint8_t *plane, uint32_t bits) {
    for (int i = 0; i < 4; i++) {
        uint32_t byte = 0;
        for (int c = 0; c < 8; c++) byte |= (bits >> (4 * c + i) & 1) << c;
        plane[i] = (uint8_t)byte;
    }
}

/* The inverse, bit for bit. */
static uint32_t plane_out(const uint8_t *plane) {
    uint32_t bits = 0;
    for (int i = 0; i < 4; i++)
        for (int c = 0; c < 8; c++) bits |= (uint32_t)(plane[i] >> c & 1) << (4 * c + i);
    return bits;
}

static uint32_t load32(const uint8_t *p) {
    return load16(p) | (uint32_t)load16(p + 2) << 16;
}

static void store32(uint8_t *p, uint32_t value) {
    store16(p, (uint16_t)value);
    store16(p + 2, (uint16_t)(value >> 16));
}

/* --- plain floats --------------------------------------------------------------------------------------------- */

/* Floats are lanes of a unit of one element: packing is a transposition. */
static void pack_f32(packed_f32 *u, const uint8_t *b, int lane) {
    memcpy(&u->v[lane], b, 4);
}
static void unpack_f32(const packed_f32 *u, uint8_t *b, int lane) {
    memcpy(b, &u->v[lane], 4);
}
static void pack_f16(packed_f16 *u, const uint8_t *b, int lane) {
    memcpy(&u->v[lane], b, 2);
}
static void unpack_f16(const packed_f16 *u, uint8_t *b, int lane) {
    memcpy(b, &u->v[lane], 2);
}
#define pack_bf16   pack_f16
#define unpack_bf16 unpack_f16

/* --- blocks of 32 --------------------------------------------------------------------------------------------- */

/* d, then 16 bytes of nibbles. */
static void pack_q4_0(packed_q4_0 *u, const uint8_t *b, int lane) {
    u->d[lane] = load16(b);
    nibbles_in(&u->low, b + 2, lane);
}
static void unpack_q4_0(const packed_q4_0 *u, uint8_t *b, int lane) {
    store16(b, u->d[lane]);
    nibbles_out(&u->low, b + 2, lane);
}

/* d and m, then 16 bytes of nibbles. */
static void pack_q4_1(packed_q4_1 *u, const uint8_t *b, int lane) {
    u->d[lane] = load16(b);
    u->m[lane] = load16(b + 2);
    nibbles_in(&u->low, b + 4, lane);
}
static void unpack_q4_1(const packed_q4_1 *u, uint8_t *b, int lane) {
    store16(b, u->d[lane]);
    store16(b + 2, u->m[lane]);
    nibbles_out(&u->low, b + 4, lane);
}

/* d, bit 4 of element j as bit j of four bytes, then nibbles. */
static void pack_q5_0(packed_q5_0 *u, const uint8_t *b, int lane) {
    u->d[lane] = load16(b);
    plane_in(u->plane[lane], load32(b + 2));
    nibbles_in(&u->low, b + 6, lane);
}
static void unpack_q5_0(const packed_q5_0 *u, uint8_t *b, int lane) {
    store16(b, u->d[lane]);
    store32(b + 2, plane_out(u->plane[lane]));
    nibbles_out(&u->low, b + 6, lane);
}

/* d and m, then as Q5_0. */
static void pack_q5_1(packed_q5_1 *u, const uint8_t *b, int lane) {
    u->d[lane] = load16(b);
    u->m[lane] = load16(b + 2);
    plane_in(u->plane[lane], load32(b + 4));
    nibbles_in(&u->low, b + 8, lane);
}
static void unpack_q5_1(const packed_q5_1 *u, uint8_t *b, int lane) {
    store16(b, u->d[lane]);
    store16(b + 2, u->m[lane]);
    store32(b + 4, plane_out(u->plane[lane]));
    nibbles_out(&u->low, b + 8, lane);
}

/* d, then 32 signed bytes. Codes are kept as code + 128 (the sign bit flipped): the dot instructions want one operand
 * unsigned, and `offset` of the columns takes the 128 back. */
static void pack_q8_0(packed_q8_0 *u, const uint8_t *b, int lane) {
    u->d[lane] = load16(b);
    for (int c = 0; c < 8; c++) {
        uint32_t codes;
        memcpy(&codes, b + 2 + 4 * c, 4);
        codes ^= 0x80808080u;
        memcpy(u->q[c][lane], &codes, 4);
    }
}
static void unpack_q8_0(const packed_q8_0 *u, uint8_t *b, int lane) {
    store16(b, u->d[lane]);
    for (int c = 0; c < 8; c++) {
        uint32_t codes;
        memcpy(&codes, u->q[c][lane], 4);
        codes ^= 0x80808080u;
        memcpy(b + 2 + 4 * c, &codes, 4);
    }
}

/* d, then nibbles that are indices into values_iq4 of blocks.inc. */
static void pack_iq4_nl(packed_iq4_nl *u, const uint8_t *b, int lane) {
    u->d[lane] = load16(b);
    nibbles_in(&u->low, b + 2, lane);
}
static void unpack_iq4_nl(const packed_iq4_nl *u, uint8_t *b, int lane) {
    store16(b, u->d[lane]);
    nibbles_out(&u->low, b + 2, lane);
}

/* An exponent of one byte (E8M0 of the OCP Microscaling Formats), then nibbles, indices of E2M1 values. */
static void pack_mxfp4(packed_mxfp4 *u, const uint8_t *b, int lane) {
    u->exponent[lane] = b[0];
    nibbles_in(&u->low, b + 1, lane);
}
static void unpack_mxfp4(const packed_mxfp4 *u, uint8_t *b, int lane) {
    b[0] = u->exponent[lane];
    nibbles_out(&u->low, b + 1, lane);
}

/* --- blocks of 256 -------------------------------------------------------------------------------------------- */

/* The 12 bytes of eight 6-bit scales and minima in Q4_K and Q5_K: bytes 0 to 3 and 4 to 7 hold scales and minima 0 to 3
 * in their low six bits, and the upper two bits of scales and minima 4 to 7 above; bytes 8 to 11 the low nibbles of
 * those. */
static void scales_in(const uint8_t *b, uint8_t scale[8], uint8_t min[8]) {
    for (int j = 0; j < 4; j++) {
        scale[j] = b[j] & 63;
        min[j] = b[j + 4] & 63;
        scale[j + 4] = (uint8_t)((b[j + 8] & 15) | b[j] >> 6 << 4);
        min[j + 4] = (uint8_t)(b[j + 8] >> 4 | b[j + 4] >> 6 << 4);
    }
}

/* The inverse of scales_in; all twelve bytes are written. */
static void scales_out(uint8_t *b, const uint8_t scale[8], const uint8_t min[8]) {
    for (int j = 0; j < 4; j++) {
        b[j] = (uint8_t)(scale[j] | scale[j + 4] >> 4 << 6);
        b[j + 4] = (uint8_t)(min[j] | min[j + 4] >> 4 << 6);
        b[j + 8] = (uint8_t)((scale[j + 4] & 15) | (min[j + 4] & 15) << 4);
    }
}

/* Group g of 32 codes in runs of 64: low nibbles of 32 bytes, then their high nibbles. */
static void run_codes_in(const uint8_t *qs, int g, uint8_t codes[32]) {
    for (int l = 0; l < 32; l++) codes[l] = qs[32 * (g / 2) + l] >> (g % 2 * 4) & 15;
}

/* Adds the nibbles of group g; bytes are cleared by the even group, which comes first. `g` must come in rising
 * order. */
static void run_codes_out(uint8_t *qs, int g, const uint8_t codes[32]) {
    for (int l = 0; l < 32; l++) {
        uint8_t *byte = &qs[32 * (g / 2) + l];
        *byte = (uint8_t)(g % 2 ? *byte | codes[l] << 4 : codes[l]);
    }
}

/* d, dmin, 12 bytes of scales, then 128 of nibbles. Each of the eight groups of 32 becomes a block of its own in the
 * unit. */
static void pack_q4_k(packed_q4_k *u, const uint8_t *b, int lane) {
    uint8_t scale[8], min[8], codes[32];
    u->d[lane] = load16(b);
    u->dmin[lane] = load16(b + 2);
    scales_in(b + 4, scale, min);
    for (int g = 0; g < 8; g++) {
        u->block[g].scale[lane] = scale[g];
        u->block[g].min[lane] = min[g];
        run_codes_in(b + 16, g, codes);
        codes_in(&u->block[g].low, codes, lane);
    }
}
static void unpack_q4_k(const packed_q4_k *u, uint8_t *b, int lane) {
    uint8_t scale[8], min[8], codes[32];
    store16(b, u->d[lane]);
    store16(b + 2, u->dmin[lane]);
    for (int g = 0; g < 8; g++) {
        scale[g] = u->block[g].scale[lane];
        min[g] = u->block[g].min[lane];
        codes_out(&u->block[g].low, codes, lane);
        run_codes_out(b + 16, g, codes);
    }
    scales_out(b + 4, scale, min);
}

/* As Q4_K, with 32 bytes between scales and nibbles: bit g of byte l is bit 4 of element l of group g. */
static void pack_q5_k(packed_q5_k *u, const uint8_t *b, int lane) {
    uint8_t scale[8], min[8], codes[32];
    u->d[lane] = load16(b);
    u->dmin[lane] = load16(b + 2);
    scales_in(b + 4, scale, min);
    for (int g = 0; g < 8; g++) {
        uint32_t high = 0;
        for (int l = 0; l < 32; l++) high |= (uint32_t)(b[16 + l] >> g & 1) << l;
        u->block[g].scale[lane] = scale[g];
        u->block[g].min[lane] = min[g];
        plane_in(u->block[g].plane[lane], high);
        run_codes_in(b + 48, g, codes);
        codes_in(&u->block[g].low, codes, lane);
    }
}
static void unpack_q5_k(const packed_q5_k *u, uint8_t *b, int lane) {
    uint8_t scale[8], min[8], codes[32];
    store16(b, u->d[lane]);
    store16(b + 2, u->dmin[lane]);
    memset(b + 16, 0, 32);
    for (int g = 0; g < 8; g++) {
        uint32_t high = plane_out(u->block[g].plane[lane]);
        for (int l = 0; l < 32; l++) b[16 + l] |= (uint8_t)((high >> l & 1) << g);
        scale[g] = u->block[g].scale[lane];
        min[g] = u->block[g].min[lane];
        codes_out(&u->block[g].low, codes, lane);
        run_codes_out(b + 48, g, codes);
    }
    scales_out(b + 4, scale, min);
}

/* Group g of 32 codes in Q6_K: run g / 4 of 128; in a run, groups 0 and 1 are low nibbles of bytes 0 to 31 and 32
 * to 63, groups 2 and 3 the high nibbles; bits 2 (g % 4) of the 32 bytes of qh are bits 4 and 5. */
static void pack_q6_k(packed_q6_k *u, const uint8_t *b, int lane) {
    for (int g = 0; g < 8; g++) {
        const uint8_t *ql = b + 64 * (g / 4) + 32 * (g % 2), *qh = b + 128 + 32 * (g / 4);
        int nibble = g % 4 / 2 * 4, pair = g % 4 * 2;
        uint8_t codes[32];
        uint8_t plane[2][4] = {{0}};
        for (int l = 0; l < 32; l++) {
            codes[l] = ql[l] >> nibble & 15;
            plane[l / 16][l % 4] |= (uint8_t)((qh[l] >> pair & 3) << (l % 16 / 4 * 2));
        }
        codes_in(&u->block[g].low, codes, lane);
        for (int h = 0; h < 2; h++) {
            memcpy(u->block[g].plane[h][lane], plane[h], 4);
            u->block[g].scale[h][lane] = (int8_t)b[192 + 2 * g + h];
        }
    }
    u->d[lane] = load16(b + 208);
}
/* Everything but scales and d is put together from several groups, so it is cleared first. */
static void unpack_q6_k(const packed_q6_k *u, uint8_t *b, int lane) {
    memset(b, 0, 192);
    for (int g = 0; g < 8; g++) {
        uint8_t *ql = b + 64 * (g / 4) + 32 * (g % 2), *qh = b + 128 + 32 * (g / 4);
        int nibble = g % 4 / 2 * 4, pair = g % 4 * 2;
        uint8_t codes[32];
        codes_out(&u->block[g].low, codes, lane);
        for (int l = 0; l < 32; l++) {
            int high = u->block[g].plane[l / 16][lane][l % 4] >> (l % 16 / 4 * 2) & 3;
            ql[l] |= (uint8_t)(codes[l] << nibble);
            qh[l] |= (uint8_t)(high << pair);
        }
        for (int h = 0; h < 2; h++) b[192 + 2 * g + h] = (uint8_t)u->block[g].scale[h][lane];
    }
    store16(b + 208, u->d[lane]);
}

/* IQ4_XS: d, 8 x 2 high bits of scales in a u16, 8 low nibbles, then 16 bytes of halves for each group of 32. The
 * file's scales are six bits with an offset of 32, here they are signed bytes. */
static void pack_iq4_xs(packed_iq4_xs *u, const uint8_t *b, int lane) {
    uint16_t high = load16(b + 2);
    u->d[lane] = load16(b);
    for (int g = 0; g < 8; g++) {
        int scale = (b[4 + g / 2] >> g % 2 * 4 & 15) | (high >> 2 * g & 3) << 4;
        u->block[g].scale[lane] = (int8_t)(scale - 32);
        nibbles_in(&u->block[g].low, b + 8 + 16 * g, lane);
    }
}
static void unpack_iq4_xs(const packed_iq4_xs *u, uint8_t *b, int lane) {
    int high = 0;
    store16(b, u->d[lane]);
    memset(b + 4, 0, 4);
    for (int g = 0; g < 8; g++) {
        int scale = u->block[g].scale[lane] + 32;
        b[4 + g / 2] |= (uint8_t)((scale & 15) << g % 2 * 4);
        high |= scale >> 4 << 2 * g;
        nibbles_out(&u->block[g].low, b + 8 + 16 * g, lane);
    }
    store16(b + 2, (uint16_t)high);
}

/* Bits 2 (g % 4) of 32 bytes, as Q2_K and Q3_K keep the codes of group g in runs of 128 (32 bytes each). */
static void pairs_in(uint8_t (*pairs)[GROUP][4], const uint8_t *qs, int g, int lane) {
    memset(pairs[0][lane], 0, 4);
    memset(pairs[1][lane], 0, 4);
    for (int l = 0; l < 32; l++)
        pairs[l / 16][lane][l % 4] |=
            (uint8_t)((qs[32 * (g / 4) + l] >> 2 * (g % 4) & 3) << (l % 16 / 4 * 2));
}
static void pairs_out(const uint8_t (*pairs)[GROUP][4], uint8_t *qs, int g, int lane) {
    for (int l = 0; l < 32; l++)
        qs[32 * (g / 4) + l] |=
            (uint8_t)((pairs[l / 16][lane][l % 4] >> (l % 16 / 4 * 2) & 3) << 2 * (g % 4));
}

/* 16 bytes of scales and minima, 64 of codes, then d and dmin. A scale's byte stays as it is: kernels take its
 * nibbles. */
static void pack_q2_k(packed_q2_k *u, const uint8_t *b, int lane) {
    u->d[lane] = load16(b + 80);
    u->dmin[lane] = load16(b + 82);
    for (int g = 0; g < 8; g++) {
        for (int h = 0; h < 2; h++) u->block[g].scale[h][lane] = b[2 * g + h];
        pairs_in(u->block[g].pairs, b + 16, g, lane);
    }
}
static void unpack_q2_k(const packed_q2_k *u, uint8_t *b, int lane) {
    memset(b + 16, 0, 64);
    for (int g = 0; g < 8; g++) {
        for (int h = 0; h < 2; h++) b[2 * g + h] = u->block[g].scale[h][lane];
        pairs_out(u->block[g].pairs, b + 16, g, lane);
    }
    store16(b + 80, u->d[lane]);
    store16(b + 82, u->dmin[lane]);
}

/* Q3_K: 32 bytes of bit 2 (bit g of byte l), 64 of bits 0 and 1, 12 of scales: of scale j of 16 the low nibble is
 * nibble j / 8 of byte j % 8, the upper two bits are bits 2 (j / 4) of byte 8 + j % 4; then d. */
static void pack_q3_k(packed_q3_k *u, const uint8_t *b, int lane) {
    const uint8_t *scales = b + 96;
    for (int j = 0; j < 16; j++) {
        int scale = (scales[j % 8] >> j / 8 * 4 & 15) | (scales[8 + j % 4] >> j / 4 * 2 & 3) << 4;
        u->block[j / 2].scale[j % 2][lane] = (int8_t)(scale - 32);
    }
    for (int g = 0; g < 8; g++) {
        uint32_t bits = 0;
        for (int l = 0; l < 32; l++) bits |= (uint32_t)(b[l] >> g & 1) << l;
        plane_in(u->block[g].plane[lane], bits);
        pairs_in(u->block[g].pairs, b + 32, g, lane);
    }
    u->d[lane] = load16(b + 108);
}
static void unpack_q3_k(const packed_q3_k *u, uint8_t *b, int lane) {
    uint8_t *scales = b + 96;
    memset(b, 0, 108);
    for (int j = 0; j < 16; j++) {
        int scale = u->block[j / 2].scale[j % 2][lane] + 32;
        scales[j % 8] |= (uint8_t)((scale & 15) << j / 8 * 4);
        scales[8 + j % 4] |= (uint8_t)(scale >> 4 << j / 4 * 2);
    }
    for (int g = 0; g < 8; g++) {
        uint32_t bits = plane_out(u->block[g].plane[lane]);
        for (int l = 0; l < 32; l++) b[l] |= (uint8_t)((bits >> l & 1) << g);
        pairs_out(u->block[g].pairs, b + 32, g, lane);
    }
    store16(b + 108, u->d[lane]);
}

/* --- all formats ---------------------------------------------------------------------------------------------- */

/* A row of the table by dtype; unit_elems 0: the dtype has no packed form. Elements of a unit are those of the file's
 * block. */
typedef struct packing {
    int unit_elems;
    int unit_bytes; /* of 16 rows */
    void (*pack)(void *unit, const uint8_t *block, int lane);
    void (*unpack)(const void *unit, uint8_t *block, int lane);
} packing;

/* Functions with the types of the table around those with the types of a format: calling through a pointer of another
 * type would be undefined. */
#define THUNKS(NAME, name, elems)                                                                            \
    _Static_assert(sizeof(packed_##name) % 16 == 0, "no padding, and whole vectors");                        \
    static void pack_any_##name(void *unit, const uint8_t *block, int lane) {                                \
        pack_##name(unit, block, lane);                                                                      \
    }                                                                                                        \
    static void unpack_any_##name(const void *unit, uint8_t *block, int lane) {                              \
        unpack_##name(unit, block, lane);                                                                    \
    }
PLAIT_CPU_PACKED_LIST(THUNKS)
#undef THUNKS

/* Dtypes without a line are zero. */
static const packing packings[PLAIT_DTYPE_LIMIT] = {
#define PACKING(NAME, name, elems)                                                                           \
    [PLAIT_##NAME] = {elems, (int)sizeof(packed_##name), pack_any_##name, unpack_any_##name},
    PLAIT_CPU_PACKED_LIST(PACKING)
#undef PACKING
};

bool plait_cpu_packs(plait_dtype dtype) {
    return (int)dtype >= 0 && (int)dtype < PLAIT_DTYPE_LIMIT && packings[dtype].unit_elems != 0;
}

/* Whole groups, so that a matrix of 17 rows takes as much as one of 32. */
int64_t plait_cpu_packed_bytes(plait_dtype dtype, int64_t k, int64_t m) {
    int64_t bytes;
    if (!plait_cpu_packs(dtype) || k < 0 || m < 0 || k % packings[dtype].unit_elems != 0) return -1;
    if (__builtin_mul_overflow(k / packings[dtype].unit_elems, (int64_t)packings[dtype].unit_bytes, &bytes))
        return -1;
    if (__builtin_mul_overflow(bytes, m / GROUP + (m % GROUP != 0), &bytes)) return -1;
    return bytes;
}

/* Packs one group; rows from `lanes` on are zero. Unit by unit rather than row by row: a unit of 16 rows is written in
 * one place while 16 streams are read. */
static void pack_group(const packing *p, const uint8_t *rows, int64_t row_stride_bytes, int64_t block_bytes,
                       int64_t units, int lanes, uint8_t *group) {
    static const uint8_t zeros[MAX_BLOCK_BYTES];
    for (int64_t u = 0; u < units; u++) {
        uint8_t *unit = group + u * p->unit_bytes;
        for (int lane = 0; lane < GROUP; lane++)
            p->pack(unit, lane < lanes ? rows + lane * row_stride_bytes + u * block_bytes : zeros, lane);
    }
}

/* Rows are numbered in the whole matrix, which decides the group's place; `rows` begins at row_begin. */
void plait_cpu_pack(plait_dtype dtype, const void *rows, int64_t row_stride_bytes, void *packed, int64_t k,
                    int64_t row_begin, int64_t row_end) {
    const packing *p = &packings[dtype];
    int64_t units = k / p->unit_elems, group_bytes = units * p->unit_bytes;
    for (int64_t row = row_begin; row < row_end; row += GROUP) {
        int lanes = row_end - row < GROUP ? (int)(row_end - row) : GROUP;
        pack_group(p, (const uint8_t *)rows + (row - row_begin) * row_stride_bytes, row_stride_bytes,
                   plait_dtype_block_bytes(dtype), units, lanes,
                   (uint8_t *)packed + row / GROUP * group_bytes);
    }
}

/* Row by row, since any bounds will do; a lane is read from every unit of the group. */
void plait_cpu_unpack(plait_dtype dtype, const void *packed, int64_t k, int64_t row_begin, int64_t row_end,
                      void *rows, int64_t row_stride_bytes) {
    const packing *p = &packings[dtype];
    int64_t units = k / p->unit_elems, group_bytes = units * p->unit_bytes;
    int64_t block_bytes = plait_dtype_block_bytes(dtype);
    for (int64_t row = row_begin; row < row_end; row++) {
        const uint8_t *group = (const uint8_t *)packed + row / GROUP * group_bytes;
        uint8_t *out = (uint8_t *)rows + (row - row_begin) * row_stride_bytes;
        for (int64_t u = 0; u < units; u++)
            p->unpack(group + u * p->unit_bytes, out + u * block_bytes, (int)(row % GROUP));
    }
}

/* Through file form, a few blocks at a time on the stack, and the format's own decoder: so a table looked up packed
 * gives the bits that it gives in file form. */
void plait_cpu_unpack_row(plait_dtype dtype, const void *packed, int64_t k, int64_t row, float *out) {
    const packing *p = &packings[dtype];
    const plait_quant *quant = plait_quant_of(dtype);
    int64_t units = k / p->unit_elems;
    int64_t each = MAX_BLOCK_BYTES / plait_dtype_block_bytes(dtype); /* blocks decoded at a time */
    const uint8_t *group = (const uint8_t *)packed + row / GROUP * units * p->unit_bytes;
    for (int64_t u = 0; u < units; u += each) {
        uint8_t blocks[MAX_BLOCK_BYTES];
        int64_t n = units - u < each ? units - u : each;
        for (int64_t i = 0; i < n; i++)
            p->unpack(group + (u + i) * p->unit_bytes, blocks + i * plait_dtype_block_bytes(dtype),
                      (int)(row % GROUP));
        quant->decode(blocks, out + u * p->unit_elems, n * p->unit_elems);
    }
}
