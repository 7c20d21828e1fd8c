/* Filling operands. Quantised types have dozens of layouts, and encoding one block can take milliseconds; so one block
 * is encoded for a type and a range, twice as large once more, and the bytes that differ are where its scales are
 * (doubling all numbers doubles the float scales and nothing else). Every other byte may then be anything.
 *
 * Not here: run-time ids, which the op's examples give (case.c). Invariant: a filled operand decodes to finite numbers,
 * but for PLAIT_CONF_NAN; the same seed gives the same bytes. */
#include "conformance/fill.h"

#include "base/alloc.h"
#include "base/size.h"
#include "op/reference.h"

#include <math.h>
#include <stdlib.h>

/* N_CACHED blocks: types times ranges, and some to spare. Blocks of 256 elements and bytes are the largest of any
 * type. */
enum { N_CACHED = 96, MAX_BLOCK_BYTES = 256, MAX_BLOCK_ELEMS = 256 };

struct plait_conf_block {
    bool known;
    plait_dtype dtype;
    float amplitude;
    unsigned char bytes[MAX_BLOCK_BYTES]; /* encoded numbers of that range */
    bool is_scale[MAX_BLOCK_BYTES];
};

const char *const plait_conf_value_names[PLAIT_CONF_N_VALUES] = {"random", "large", "tiny", "special",
                                                                 "zero",   "codes", "nan"};

void plait_conf_blocks_destroy(plait_conf_block *blocks) {
    free(blocks);
}

/* A linear congruential generator with 64 bits of state, of which the upper 31 are given out. */
static uint64_t next(uint64_t *state) {
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return *state >> 33;
}

/* In [-1, 1), with 24 bits. */
static float random_number(uint64_t *state) {
    return (float)(next(state) >> 7) * (2.0f / 16777216.0f) - 1.0f;
}

/* ---- blocks ---- */

/* The numbers of a type's block are the same in every run. */
static void make_block(plait_conf_block *block, plait_dtype dtype, float amplitude) {
    float numbers[MAX_BLOCK_ELEMS];
    unsigned char twice[MAX_BLOCK_BYTES];
    uint64_t seed = (uint64_t)dtype + 1;
    int64_t elems = plait_dtype_block_elems(dtype), bytes = plait_dtype_block_bytes(dtype);
    for (int64_t k = 0; k < elems; k++) numbers[k] = amplitude * random_number(&seed);
    plait_quant_of(dtype)->encode(numbers, NULL, block->bytes, elems);
    for (int64_t k = 0; k < elems; k++) numbers[k] *= 2;
    plait_quant_of(dtype)->encode(numbers, NULL, twice, elems);
    for (int64_t i = 0; i < bytes; i++) block->is_scale[i] = block->bytes[i] != twice[i];
    block->dtype = dtype;
    block->amplitude = amplitude;
    block->known = true;
}

/* Linear, over what is known so far. The table's last place serves whatever does not fit. Encoding takes milliseconds
 * for the grids, hence the cache; it belongs to one suite state and so to one thread. */
static const plait_conf_block *find_block(plait_conf *c, plait_dtype dtype, float amplitude) {
    plait_conf_block *block = c->blocks;
    int i = 0;
    for (; i < N_CACHED - 1 && block[i].known; i++)
        if (block[i].dtype == dtype && block[i].amplitude == amplitude) return &block[i];
    make_block(&block[i], dtype, amplitude); /* the last one is taken again and again */
    return &block[i];
}

/* Anything in place of the codes; now and then all bits, or none. Where scales share bytes with codes the result may
 * not be finite: then the encoded block. A third of the blocks have all bits set and a third none, where extremes are
 * wanted. */
static void random_block(const plait_conf_block *block, uint64_t *seed, bool extremes, unsigned char *out) {
    float numbers[MAX_BLOCK_ELEMS];
    int64_t elems = plait_dtype_block_elems(block->dtype), bytes = plait_dtype_block_bytes(block->dtype);
    int all = extremes ? (int)(next(seed) % 3) : 2;
    for (int64_t i = 0; i < bytes; i++) {
        unsigned char code = all == 0 ? 0x00 : all == 1 ? 0xFF : (unsigned char)next(seed);
        out[i] = block->is_scale[i] ? block->bytes[i] : code;
    }
    plait_quant_of(block->dtype)->decode(out, numbers, elems);
    for (int64_t k = 0; k < elems; k++)
        if (!isfinite(numbers[k])) {
            memcpy(out, block->bytes, (size_t)bytes);
            return;
        }
}

/* Ranges of quantised types are those of their scales, so large and tiny are less extreme than in float types: scales
 * are half precision in most of them. Rows of a quantised operand are whole blocks. */
static void fill_blocks(plait_conf *c, const plait_operand *o, plait_conf_values kind, uint64_t seed,
                        float amplitude) {
    int64_t elems = plait_dtype_block_elems(o->dtype);
    float zeros[MAX_BLOCK_ELEMS] = {0};
    if (kind == PLAIT_CONF_LARGE) amplitude *= 1000;
    if (kind == PLAIT_CONF_TINY) amplitude *= 1e-5f;
    const plait_conf_block *block = find_block(c, o->dtype, amplitude);
    PLAIT_REF_ROWS(o, i1, i2, i3)
    for (int64_t i = 0; i < o->dims[0] / elems; i++) {
        unsigned char *out = (unsigned char *)plait_ref_at(o, i, i1, i2, i3);
        bool zero = kind == PLAIT_CONF_ZERO || (kind == PLAIT_CONF_SPECIAL && next(&seed) % 3 == 0);
        if (zero)
            plait_quant_of(o->dtype)->encode(zeros, NULL, out, elems);
        else
            random_block(block, &seed, kind == PLAIT_CONF_CODES, out);
    }
}

/* ---- plain types ---- */

/* Ties between neighbours of float16 and bfloat16 and numbers beside them, bounds of float16, and small whole numbers,
 * which elements share. */
static const float specials[] = {
    0.0f,           -0.0f,          1.0f,           0.5f,       2.0f,       3.0f,
    0x1.555556p-2f, 0x1p-14f,       0x1.ffp-15f,    0x1p-24f,   0x1.8p-25f, 0x1.002p+0f,
    0x1.006p+0f,    0x1.002002p+0f, 0x1.001ffep+0f, 0x1.01p+0f, 0x1.03p+0f, 0x1.010002p+0f,
    0x1.00fffep+0f, 0x1.ffcp+15f,   0x1.fffffep-1f, 127.0f,     88.5f,      0x1p-60f};

/* Whole steps of an 8-bit block, whose largest number stands in every 32 elements. */
static float whole_step(int64_t i, uint64_t *seed) {
    int code = i % 32 == 5 ? 127 : (int)(next(seed) % 255) - 127;
    return (float)code * 0x1p-6f;
}

/* Of float16 the extremes are its own; of all others those of float32, with some below its normal numbers among the
 * tiny ones. */
static float plain_number(plait_dtype dtype, plait_conf_values kind, int64_t i, uint64_t *seed) {
    bool half = dtype == PLAIT_F16;
    float x = random_number(seed);
    switch (kind) {
    case PLAIT_CONF_LARGE: return (half ? 3e4f : 1e15f) * x;
    case PLAIT_CONF_TINY: return (half ? 1e-6f : next(seed) % 3 ? 1e-30f : 1e-38f) * x;
    case PLAIT_CONF_SPECIAL: {
        float special = specials[next(seed) % PLAIT_COUNT_OF(specials)];
        return x < 0 ? -special : special;
    }
    case PLAIT_CONF_ZERO: return 0;
    case PLAIT_CONF_CODES: return whole_step(i, seed);
    case PLAIT_CONF_NAN: return next(seed) % 24 == 7 ? NAN : x;
    default: return x;
    }
}

/* Through the type's encoder, which rounds as it should: what is filled in is a number of the type. Integers are within
 * a hundred times the amplitude. */
static void fill_plain(const plait_operand *o, plait_conf_values kind, uint64_t seed, float amplitude) {
    bool whole =
        o->dtype == PLAIT_I8 || o->dtype == PLAIT_I16 || o->dtype == PLAIT_I32 || o->dtype == PLAIT_I64;
    PLAIT_REF_ROWS(o, i1, i2, i3)
    for (int64_t i = 0; i < o->dims[0]; i++) {
        float x = amplitude * plain_number(o->dtype, whole ? PLAIT_CONF_RANDOM : kind, i, &seed);
        if (whole) x = (float)(int)(x * 100);
        if (kind == PLAIT_CONF_NAN && !whole && i == o->dims[0] / 2 && i1 + i2 + i3 == 0)
            x = NAN; /* at least one */
        plait_quant_of(o->dtype)->encode(&x, NULL, plait_ref_at(o, i, i1, i2, i3), 1);
    }
}

plait_status plait_conf_values_fill(plait_conf *c, const plait_operand *operand, plait_conf_values kind,
                                    uint64_t seed, float amplitude) {
    if (plait_operand_elems(operand) <= 0) return PLAIT_OK;
    if (!plait_dtype_quantised(operand->dtype)) {
        fill_plain(operand, kind, seed, amplitude);
        return PLAIT_OK;
    }
    if (!c->blocks) c->blocks = plait_alloc_array(N_CACHED, sizeof *c->blocks);
    if (!c->blocks) return plait_error_memory("conformance", N_CACHED * sizeof *c->blocks);
    fill_blocks(c, operand, kind, seed, amplitude);
    return PLAIT_OK;
}
