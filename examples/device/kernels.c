/* The kernels of the example device, and the table from which `supports` answers: what is in it runs here, everything
 * else runs on another device. A real device has its compiled kernels or its library's entry points in this table. */
#include "example.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* Row (i1, i2, i3) of an operand; dims of size 1 are broadcast. */
static void *row(const plait_operand *o, int64_t i1, int64_t i2, int64_t i3) {
    return (char *)o->data + (o->dims[1] > 1 ? i1 * o->strides[1] : 0) +
           (o->dims[2] > 1 ? i2 * o->strides[2] : 0) + (o->dims[3] > 1 ? i3 * o->strides[3] : 0);
}

#define EACH_ROW(o, i1, i2, i3)                                                                              \
    for (int64_t i3 = 0; i3 < (o)->dims[3]; i3++)                                                            \
        for (int64_t i2 = 0; i2 < (o)->dims[2]; i2++)                                                        \
            for (int64_t i1 = 0; i1 < (o)->dims[1]; i1++)

/* ---- products ---- */

enum { LANES = 8 };

/* Sums are kept in LANES parts and added up in a fixed order: the same bytes for every batch and every cut. */
static float add_lanes(const float *lanes) {
    return ((lanes[0] + lanes[4]) + (lanes[1] + lanes[5])) + ((lanes[2] + lanes[6]) + (lanes[3] + lanes[7]));
}

static float dot_f32(const void *weights, const float *x, int64_t k) {
    const float *w = weights;
    float lanes[LANES] = {0};
    int64_t i = 0;
    for (; i + LANES <= k; i += LANES)
        for (int l = 0; l < LANES; l++) lanes[l] += w[i + l] * x[i + l];
    for (; i < k; i++) lanes[i % LANES] += w[i] * x[i];
    return add_lanes(lanes);
}

/* The bits of a half, moved to where a float has them, are 2^112 times too small; infinities and NaN stay such. */
static float half_to_float(const unsigned char *bytes) {
    uint16_t half;
    memcpy(&half, bytes, sizeof half);
    bool finite = (half & 0x7c00) != 0x7c00;
    uint32_t bits = (uint32_t)(half & 0x8000) << 16 | (uint32_t)(half & 0x7fff) << 13;
    if (!finite) bits |= 0x7f800000;
    float value;
    memcpy(&value, &bits, sizeof value);
    return finite ? value * 0x1p112f : value;
}

static float dot_f16(const void *weights, const float *x, int64_t k) {
    enum { CHUNK = 32 };
    const unsigned char *halves = weights;
    float total = 0, numbers[CHUNK];
    for (int64_t i = 0; i < k; i += CHUNK) {
        int64_t n = k - i < CHUNK ? k - i : CHUNK;
        for (int64_t j = 0; j < n; j++) numbers[j] = half_to_float(halves + 2 * (i + j));
        total += dot_f32(numbers, x + i, n);
    }
    return total;
}

/* Blocks of 32: a scale, an offset, and 16 bytes of two numbers each, the first 16 in the low halves. */
static float dot_q4_1(const void *blocks, const float *x, int64_t k) {
    enum { ELEMS = 32, HALF = 16, BYTES = 20 };
    const unsigned char *weights = blocks;
    float total = 0, numbers[ELEMS];
    for (int64_t b = 0; b < k / ELEMS; b++, weights += BYTES, x += ELEMS) {
        float scale = half_to_float(weights), offset = half_to_float(weights + 2);
        for (int i = 0; i < HALF; i++) {
            numbers[i] = scale * (float)(weights[4 + i] & 15) + offset;
            numbers[i + HALF] = scale * (float)(weights[4 + i] >> 4) + offset;
        }
        total += dot_f32(numbers, x, ELEMS);
    }
    return total;
}

/* y[m,n] = sum over k of w[k,m] * x[k,n]. In a fused group input 2 is what an `add` behind the product adds to it. */
static void matmul(const plait_op_use *use, float (*dot)(const void *, const float *, int64_t)) {
    const plait_operand *w = &use->inputs[0], *x = &use->inputs[1], *y = &use->outputs[0];
    const plait_operand *addend = plait_op_has(use, 2) ? &use->inputs[2] : NULL;
    for (int64_t n = 0; n < y->dims[1]; n++) {
        const float *from = row(x, n, 0, 0);
        float *to = row(y, n, 0, 0);
        const float *more = addend ? row(addend, n, 0, 0) : NULL;
        for (int64_t m = 0; m < y->dims[0]; m++) {
            to[m] = dot(row(w, m, 0, 0), from, w->dims[0]);
            if (more) to[m] += more[addend->dims[0] > 1 ? m : 0];
        }
    }
}

static void matmul_f32(const plait_op_use *use, void *scratch) {
    (void)scratch;
    matmul(use, dot_f32);
}

static void matmul_f16(const plait_op_use *use, void *scratch) {
    (void)scratch;
    matmul(use, dot_f16);
}

static void matmul_q4_1(const plait_op_use *use, void *scratch) {
    (void)scratch;
    matmul(use, dot_q4_1);
}

/* ---- rows ---- */

static void rms_norm(const plait_op_use *use, void *scratch) {
    const plait_operand *x = &use->inputs[0];
    double eps = use->attrs[plait_op_attr_index(use->op, "eps")].f;
    const float *weight = plait_op_has(use, 1) ? use->inputs[1].data : NULL;
    (void)scratch;
    EACH_ROW(x, i1, i2, i3) {
        const float *from = row(x, i1, i2, i3);
        float *to = row(&use->outputs[0], i1, i2, i3);
        double squares = 0;
        for (int64_t i = 0; i < x->dims[0]; i++) squares += (double)from[i] * from[i];
        double factor = 1 / sqrt(squares / (double)x->dims[0] + eps);
        for (int64_t i = 0; i < x->dims[0]; i++) to[i] = (float)(from[i] * factor * (weight ? weight[i] : 1));
    }
}

/* An elementwise kernel from its formula in a and b (b is a where there is one input). */
#define ELEMENTWISE(name, formula)                                                                           \
    static void name(const plait_op_use *use, void *scratch) {                                               \
        const plait_operand *right = &use->inputs[use->n_inputs - 1], *y = &use->outputs[0];                 \
        int64_t step = right->dims[0] == 1 ? 0 : 1;                                                          \
        (void)scratch;                                                                                       \
        EACH_ROW(y, i1, i2, i3) {                                                                            \
            const float *as = row(&use->inputs[0], i1, i2, i3);                                              \
            const float *bs = row(right, i1, i2, i3);                                                        \
            float *to = row(y, i1, i2, i3);                                                                  \
            for (int64_t i = 0; i < y->dims[0]; i++) {                                                       \
                float a = as[i], b = bs[i * step];                                                           \
                (void)b;                                                                                     \
                to[i] = formula;                                                                             \
            }                                                                                                \
        }                                                                                                    \
    }

ELEMENTWISE(add, a + b)
ELEMENTWISE(mul, a *b)
ELEMENTWISE(silu, a / (1 + expf(-a)))
ELEMENTWISE(swiglu, a / (1 + expf(-a)) * b)

/* ---- the table ---- */

static const struct {
    plait_op_id op;
    plait_dtype dtype; /* of input 0 */
    example_kernel *run;
} kernels[] = {
    {PLAIT_OP_matmul, PLAIT_F32, matmul_f32},
    {PLAIT_OP_matmul, PLAIT_F16, matmul_f16},
    {PLAIT_OP_matmul, PLAIT_Q4_1, matmul_q4_1},
    {PLAIT_OP_rms_norm, PLAIT_F32, rms_norm},
    {PLAIT_OP_add, PLAIT_F32, add},
    {PLAIT_OP_mul, PLAIT_F32, mul},
    {PLAIT_OP_silu, PLAIT_F32, silu},
    {PLAIT_OP_swiglu, PLAIT_F32, swiglu},
};

/* Our kernels walk along dim 0: its elements must be neighbours. */
static bool has_dense_rows(const plait_operand *o) {
    return o->dims[0] <= 1 || o->strides[0] == plait_dtype_block_bytes(o->dtype);
}

example_kernel *example_find_kernel(const plait_op_use *use, char *reason, size_t reason_bytes) {
    example_kernel *found = NULL;
    for (size_t i = 0; i < sizeof kernels / sizeof kernels[0]; i++)
        if (kernels[i].op == use->op->id && kernels[i].dtype == use->inputs[0].dtype) found = kernels[i].run;
    if (!found)
        snprintf(reason, reason_bytes, "no kernel for %s of %s", use->op->name,
                 plait_dtype_name(use->inputs[0].dtype));
    for (int i = 0; found && i < use->n_inputs; i++) {
        if (!plait_op_has(use, i) || has_dense_rows(&use->inputs[i])) continue;
        snprintf(reason, reason_bytes, "%s: input %d has a stride of %lld bytes along dim 0", use->op->name,
                 i, (long long)use->inputs[i].strides[0]);
        found = NULL;
    }
    return found;
}
