/* Parts of product groups. A weight that has a packed form but lies in file form is packed group by group into the
 * thread's area right before it is used, so that both forms give the same bytes.
 *
 * Not here: the kernels (matmul/), which products meet in a group (prepare.c). Invariant: a row of a result depends on
 * that row of w and on x alone, never on where units, tiles or threads begin. */
#include "device/cpu/product.h"

#include "base/size.h"

#include <stdio.h>
#include <string.h>

/* TILE_FLOATS: 64 KiB a tile, two of which stay in a core's own cache while a gate reads them. */
enum { GROUP = PLAIT_CPU_GROUP_ROWS, TILE_FLOATS = 16384 };

static size_t round64(size_t bytes) {
    return (bytes + 63) & ~(size_t)63;
}

/* ---- input ---- */

/* Columns that are not contiguous, or not whole floats apart: kernels read x by float pointers and a stride in
 * floats. */
bool plait_cpu_input_gathers(const plait_operand *x) {
    return (x->strides[0] != (int64_t)sizeof(float) && x->dims[0] > 1) ||
           x->strides[1] % (int64_t)sizeof(float) != 0;
}

static size_t gathered_bytes(const plait_operand *x) {
    return round64((size_t)(x->dims[0] * x->dims[1]) * sizeof(float));
}

/* The dense copy of x first, then its quantised columns, which are made from the copy if there is one. */
size_t plait_cpu_input_bytes(const plait_operand *x, bool gathers, bool quantises) {
    size_t bytes = gathers ? gathered_bytes(x) : 0;
    if (quantises) bytes += round64((size_t)plait_cpu_columns_bytes(x->dims[0], x->dims[1]));
    return bytes;
}

/* The floats that products read: x itself, or the dense copy, whose columns follow each other. */
static const float *input_floats(const plait_cpu_product_input *input, int64_t *out_stride) {
    *out_stride = input->gathers ? input->x->dims[0] : input->x->strides[1] / (int64_t)sizeof(float);
    return input->gathers ? input->area : input->x->data;
}

static void *input_columns(const plait_cpu_product_input *input) {
    return (char *)input->area + (input->gathers ? gathered_bytes(input->x) : 0);
}

/* Element by element, by bytes: strides may be anything, so x need not even be aligned to floats. */
void plait_cpu_input_run(const plait_cpu_product_input *input, int64_t begin, int64_t end) {
    const plait_operand *x = input->x;
    int64_t stride;
    const float *floats = input_floats(input, &stride);
    for (int64_t c = begin; input->gathers && c < end; c++)
        for (int64_t k = 0; k < x->dims[0]; k++)
            memcpy((float *)input->area + c * stride + k,
                   (const char *)x->data + k * x->strides[0] + c * x->strides[1], sizeof(float));
    if (input->quantises)
        plait_cpu_quantise(input->features, floats, stride, x->dims[0], x->dims[1], begin, end,
                           input_columns(input));
}

/* ---- products ---- */

const plait_cpu_matmul *plait_cpu_product_kernel(plait_dtype dtype, uint32_t features) {
    return plait_cpu_matmul_find(dtype, features);
}

/* Bytes of 16 dense rows in file form, for weights whose dim 0 is not contiguous; 0 where it is. Block formats have a
 * stride from block to block. */
static size_t dense_bytes(const plait_operand *w) {
    bool dense = w->strides[0] == plait_dtype_block_bytes(w->dtype) || w->dims[0] <= 1;
    return dense ? 0 : round64((size_t)(GROUP * plait_dtype_row_bytes(w->dtype, w->dims[0])));
}

static size_t packed_group_bytes(const plait_operand *w) {
    return round64((size_t)plait_max_i64(plait_cpu_packed_bytes(w->dtype, w->dims[0], GROUP), 0));
}

/* Kernel scratch first; for a weight in file form that kernels want packed, the packed group behind it, and behind that
 * its dense rows. */
size_t plait_cpu_product_thread_bytes(const plait_operand *w, plait_encoding encoding) {
    size_t bytes = PLAIT_CPU_MATMUL_SCRATCH_BYTES;
    if (encoding == PLAIT_ENCODING_FILE && plait_cpu_packs(w->dtype))
        bytes += packed_group_bytes(w) + dense_bytes(w);
    return bytes;
}

/* Groups of rows: packing is by groups, and so are whole cache lines of y, where its columns begin on one. */
int64_t plait_cpu_product_units(const plait_cpu_product *product) {
    const plait_operand *y = product->y;
    return y->dims[1] > 0 ? (y->dims[0] + GROUP - 1) / GROUP : 0;
}

/* Packs rows [row, row + rows) from file form, up to GROUP of them; returns the packed group, at `area`. `row` is a
 * multiple of GROUP. Only the first group of a matrix is written there, so rows are numbered from 0. */
static const void *pack_group(const plait_cpu_product *product, int64_t row, int64_t rows,
                              unsigned char *area) {
    const plait_operand *w = product->w;
    const char *source = (const char *)w->data + row * w->strides[1];
    int64_t stride = w->strides[1];
    size_t dense = dense_bytes(w);
    if (dense) {
        unsigned char *copy = area + packed_group_bytes(w);
        int64_t elem = plait_dtype_block_bytes(w->dtype);
        stride = elem * w->dims[0];
        for (int64_t r = 0; r < rows; r++)
            for (int64_t k = 0; k < w->dims[0]; k++)
                memcpy(copy + r * stride + k * elem, source + r * w->strides[1] + k * w->strides[0],
                       (size_t)elem);
        source = (const char *)copy;
    }
    plait_cpu_pack(w->dtype, source, stride, area, w->dims[0], 0, rows);
    return area;
}

/* All of the product, before rows are skipped. An addend of one column has a stride of 0: every column adds the
 * same. */
static plait_cpu_matmul_args product_args(const plait_cpu_product *product, float *y, int64_t y_stride,
                                          void *scratch) {
    const plait_operand *w = product->w, *add = product->add;
    plait_cpu_matmul_args args = {.dtype = w->dtype,
                                  .k = w->dims[0],
                                  .n = product->y->dims[1],
                                  .w = w->data,
                                  .w_stride_bytes = w->strides[1],
                                  .y = y,
                                  .y_stride = y_stride,
                                  .epilogue = add ? PLAIT_CPU_ADD : PLAIT_CPU_STORE,
                                  .scratch = scratch};
    if (product->kernel->quantised_x)
        args.columns = input_columns(product->input);
    else
        args.x = input_floats(product->input, &args.x_stride);
    if (add) {
        args.r = add->data;
        args.r_stride = add->dims[1] == 1 ? 0 : add->strides[1] / (int64_t)sizeof(float);
    }
    return args;
}

/* The same product for rows from `row` on only, a multiple of GROUP: they become rows 0 and up. y is the caller's
 * affair. */
static void skip_rows(const plait_cpu_product *product, plait_cpu_matmul_args *args, int64_t row) {
    const char *w = args->w;
    w += product->packed ? plait_cpu_packed_bytes(args->dtype, args->k, row) : row * args->w_stride_bytes;
    args->w = w;
    if (args->r) args->r += row;
}

/* Rows [begin, end) into y, where row begin + r of column i is y[i * y_stride + r]. A packed weight goes to the kernel
 * in one call; one that is packed here goes group by group, since the thread's area holds one. */
void plait_cpu_product_run_rows(const plait_cpu_product *product, int64_t begin, int64_t end, float *y,
                                int64_t y_stride, int thread) {
    unsigned char *area = (unsigned char *)product->thread_area + (size_t)thread * product->thread_bytes;
    bool packs_here = product->kernel->packed && !product->packed;
    int64_t step = packs_here ? GROUP : plait_max_i64(end - begin, 1);
    for (int64_t row = begin; row < end; row += step) {
        plait_cpu_matmul_args args = product_args(product, y + (row - begin), y_stride, area);
        skip_rows(product, &args, row);
        args.m = args.row_end = plait_min_i64(step, end - row);
        if (packs_here) args.w = pack_group(product, row, args.m, area + PLAIT_CPU_MATMUL_SCRATCH_BYTES);
        product->kernel->run(&args);
    }
}

void plait_cpu_product_run(const plait_cpu_product *product, int64_t begin, int64_t end, int thread) {
    const plait_operand *y = product->y;
    int64_t row = begin * GROUP;
    plait_cpu_product_run_rows(product, row, plait_min_i64(end * GROUP, y->dims[0]), (float *)y->data + row,
                               y->strides[1] / (int64_t)sizeof(float), thread);
}

/* ---- gates ---- */

/* At least one group of rows of all columns. */
int64_t plait_cpu_gated_tile_floats(int64_t n) {
    return plait_max_i64(TILE_FLOATS, GROUP * n);
}

/* Inputs are tiles; the output keeps its strides, for the gate writes straight into y. Rows of a tile are padded to
 * whole groups, so every column of it begins on a line. */
void plait_cpu_gated_tile_use(const plait_op_use *gate, int64_t rows, int64_t n, plait_op_use *out) {
    *out = *gate;
    for (int i = 0; i < 3; i++) {
        plait_operand *o = i < 2 ? &out->inputs[i] : &out->outputs[0];
        o->dims[0] = rows;
        o->dims[1] = n;
        if (i == 2) continue;
        o->strides[0] = sizeof(float);
        o->strides[1] = o->strides[2] = o->strides[3] =
            (rows + GROUP - 1) / GROUP * GROUP * (int64_t)sizeof(float);
    }
}

/* Rows [row, end) of both products into tiles, then the gate over them. The kernel runs as a call of its own, of one
 * thread and all its units, inside of this unit. */
static void run_tile(const plait_cpu_gated *gated, int64_t row, int64_t end, float *a, float *b, int thread) {
    const plait_operand *y = &gated->call->use.outputs[0];
    plait_cpu_call tile = {.n_threads = 1, .features = gated->call->features};
    plait_cpu_gated_tile_use(&gated->call->use, end - row, y->dims[1], &tile.use);
    int64_t stride = tile.use.inputs[0].strides[1] / (int64_t)sizeof(float);
    plait_cpu_product_run_rows(&gated->a, row, end, a, stride, thread);
    plait_cpu_product_run_rows(&gated->b, row, end, b, stride, thread);
    tile.use.inputs[0].data = a;
    tile.use.inputs[1].data = b;
    tile.use.outputs[0].data = (char *)y->data + row * (int64_t)sizeof(float);
    gated->kernel->run(&tile, 0, 0, gated->kernel->units(&tile, 0), 0);
}

/* As many groups of rows at a time as a tile holds; y has columns, or there would be no units. */
void plait_cpu_gated_run(const plait_cpu_gated *gated, int64_t begin, int64_t end, int thread) {
    const plait_operand *y = &gated->call->use.outputs[0];
    int64_t last = plait_min_i64(end * GROUP, y->dims[0]);
    int64_t step = plait_max_i64(gated->tile_floats / y->dims[1] / GROUP, 1) * GROUP;
    float *a = (float *)gated->tiles + 2 * gated->tile_floats * thread, *b = a + gated->tile_floats;
    for (int64_t row = begin * GROUP; row < last; row += step)
        run_tile(gated, row, plait_min_i64(row + step, last), a, b, thread);
}

/* ---- the row of the table ---- */

/* A weight whose rows are not contiguous is taken only if it is packed on the way, where elements are picked one by
 * one. */
bool plait_cpu_product_reads(const plait_operand *w, plait_encoding encoding, char *reason,
                             size_t reason_bytes) {
    bool contiguous = w->strides[0] == plait_dtype_block_bytes(w->dtype) || w->dims[0] <= 1;
    if (encoding > PLAIT_CPU_ENCODING_PACKED || (encoding && !plait_cpu_packs(w->dtype))) {
        snprintf(reason, reason_bytes, "encoding %u of %s is unknown", encoding, plait_dtype_name(w->dtype));
        return false;
    }
    if (!contiguous && !plait_cpu_packs(w->dtype)) {
        snprintf(reason, reason_bytes, "rows of w are not contiguous");
        return false;
    }
    return true;
}

/* What products cannot read or store falls to gathered kernels and the reference. x is taken however it lies. */
static bool matmul_accepts(const plait_op_use *use, const plait_encoding *encodings, char *reason,
                           size_t reason_bytes) {
    const plait_operand *y = &use->outputs[0];
    if (!plait_cpu_product_reads(&use->inputs[0], encodings[0], reason, reason_bytes)) return false;
    if (encodings[1] != PLAIT_ENCODING_FILE) {
        snprintf(reason, reason_bytes, "encoding %u of x is unknown", encodings[1]);
        return false;
    }
    if (y->strides[0] != (int64_t)sizeof(float) || y->strides[1] % (int64_t)sizeof(float) != 0) {
        snprintf(reason, reason_bytes, "columns of the result are not contiguous");
        return false;
    }
    return true;
}

/* Scratch does not depend on the features: every kernel of a dtype reads the same form of x. */
static bool quantises(const plait_operand *w) {
    return plait_cpu_product_kernel(w->dtype, 0)->quantised_x;
}

/* As for a file-form weight, the larger case: whether it is packed is not asked here, and the few bytes do not
 * matter. */
static size_t matmul_scratch(const plait_op_use *use, int n_threads) {
    const plait_operand *w = &use->inputs[0], *x = &use->inputs[1];
    return plait_cpu_input_bytes(x, plait_cpu_input_gathers(x), quantises(w)) +
           (size_t)n_threads * plait_cpu_product_thread_bytes(w, PLAIT_ENCODING_FILE);
}

/* The input and the product of a node that runs by itself are made anew in each call from the call's operands: kernels
 * keep nothing. */
static plait_cpu_product_input alone_input(const plait_cpu_call *call) {
    const plait_operand *x = &call->use.inputs[1];
    return (plait_cpu_product_input){.x = x,
                                     .gathers = plait_cpu_input_gathers(x),
                                     .quantises = quantises(&call->use.inputs[0]),
                                     .area = call->scratch,
                                     .features = call->features};
}

static plait_cpu_product alone_product(const plait_cpu_call *call, const plait_cpu_product_input *input) {
    const plait_operand *w = &call->use.inputs[0];
    return (plait_cpu_product){.kernel = plait_cpu_product_kernel(w->dtype, call->features),
                               .w = w,
                               .y = &call->use.outputs[0],
                               .packed = call->encodings[0] != PLAIT_ENCODING_FILE,
                               .input = input,
                               .thread_area =
                                   (char *)call->scratch +
                                   plait_cpu_input_bytes(input->x, input->gathers, input->quantises),
                               .thread_bytes = plait_cpu_product_thread_bytes(w, PLAIT_ENCODING_FILE)};
}

/* Phase 0 has no units when x can be read as it lies. */
static int64_t matmul_units(const plait_cpu_call *call, int phase) {
    plait_cpu_product_input input = alone_input(call);
    plait_cpu_product product = alone_product(call, &input);
    if (phase == 1) return plait_cpu_product_units(&product);
    return input.gathers || input.quantises ? input.x->dims[1] : 0;
}

/* Both are made anew in each call: kernels keep nothing. */
static void matmul_run(const plait_cpu_call *call, int phase, int64_t begin, int64_t end, int thread) {
    plait_cpu_product_input input = alone_input(call);
    plait_cpu_product product = alone_product(call, &input);
    if (phase == 0)
        plait_cpu_input_run(&input, begin, end);
    else
        plait_cpu_product_run(&product, begin, end, thread);
}

const plait_cpu_kernel plait_cpu_matmul_kernels[] = {
    {.op = PLAIT_OP_matmul,
     .name = "matmul",
     .n_phases = 2,
     .takes_packed = true,
     .accepts = matmul_accepts,
     .scratch_bytes = matmul_scratch,
     .units = matmul_units,
     .run = matmul_run},
    {.name = NULL},
};
