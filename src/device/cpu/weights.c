/* Weights in packed form: when they are offered, packing and unpacking by all threads, and row lookups. Not here: the
 * packings (matmul/packing.h), and whether an offer is taken (the planner).
 *
 * A packing serves products and row lookups that read the whole tensor; any other reader keeps a weight in file form.
 * Invariant: packing keeps every bit; unpack gives the file's bytes back. */
#include "device/cpu/weights.h"

#include "base/size.h"
#include "device/cpu/cpu.h"
#include "device/cpu/matmul/matmul.h"
#include "op/attrs.h"
#include "op/reference.h"
#include "op/shape.h"
#include "plait/host_queue.h"

#include <stdio.h>
#include <string.h>

enum { GROUP = PLAIT_CPU_GROUP_ROWS };

/* ---- offers ---- */

/* Rows of all matrices, one after the other; -1 where these are no whole groups each, or the type is not packed. Several
 * matrices are then the packing of one that is as high as all of them. */
static int64_t packed_rows(plait_dtype dtype, const int64_t *dims) {
    int64_t rows = dims[1];
    bool several = dims[2] != 1 || dims[3] != 1;
    if (several && dims[1] % GROUP != 0) return -1;
    if (__builtin_mul_overflow(rows, dims[2], &rows) || __builtin_mul_overflow(rows, dims[3], &rows))
        return -1;
    return plait_cpu_packed_bytes(dtype, dims[0], rows) < 0 ? -1 : rows;
}

/* Every reader can live with the packed form, and one of them is a product: a table that is only looked up wins nothing
 * by it. A view would address bytes of the file form, so readers are of the whole tensor. */
static bool serves(const plait_weight_use *use) {
    bool product = false;
    if (packed_rows(use->dtype, use->dims) < 0) return false;
    for (int i = 0; i < use->n_readers; i++) {
        const struct plait_weight_reader *reader = &use->readers[i];
        bool matrices = reader->op->id == PLAIT_OP_expert_matmul;
        bool matrix = reader->op->id == PLAIT_OP_matmul, rows = reader->op->id == PLAIT_OP_get_rows;
        if (!reader->whole || reader->input != 0 || !(matrices || matrix || rows)) return false;
        product |= matrix || matrices;
    }
    return product;
}

/* "cpu/q4_0x16": the dtype in lower case, and the rows of a group. */
static void packing_name(plait_dtype dtype, char out[32]) {
    char name[16];
    snprintf(name, sizeof name, "%s", plait_dtype_name(dtype));
    for (char *c = name; *c; c++)
        if (*c >= 'A' && *c <= 'Z') *c = (char)(*c - 'A' + 'a');
    snprintf(out, 32, "cpu/%sx%d", name, GROUP);
}

/* One offer at most. A packed size of -1 is a row length that the packing cannot have. */
plait_status plait_cpu_encodings(plait_device *device, const plait_weight_use *use,
                                 plait_encoding_offer *offers, int *n_offers) {
    (void)device;
    int room = *n_offers;
    *n_offers = 0;
    int64_t bytes = serves(use)
                        ? plait_cpu_packed_bytes(use->dtype, use->dims[0], packed_rows(use->dtype, use->dims))
                        : -1;
    if (bytes < 0 || room < 1) return PLAIT_OK;
    offers[0] = (plait_encoding_offer){.encoding = PLAIT_CPU_ENCODING_PACKED,
                                       .size_bytes = (uint64_t)bytes,
                                       .alignment = PLAIT_CPU_ALIGNMENT};
    packing_name(use->dtype, offers[0].name);
    *n_offers = 1;
    return PLAIT_OK;
}

/* ---- packing ---- */

/* A job of the pool; the work is its first member. k: elements of a row; rows [first, end); row_bytes: from row to row
 * of the file form. */
typedef struct pack_work {
    plait_cpu_work work;
    plait_dtype dtype;
    const unsigned char *from; /* file form at row `first` (pack), or the packed matrix (unpack) */
    unsigned char *to;
    int64_t k, first, end, row_bytes;
} pack_work;

/* A unit is a group of rows; the last one may have fewer. */
static void run_pack(const plait_cpu_work *work, int phase, int64_t begin, int64_t end, int thread) {
    const pack_work *w = (const pack_work *)work;
    int64_t row = w->first + begin * GROUP, last = plait_min_i64(w->first + end * GROUP, w->end);
    (void)phase, (void)thread;
    plait_cpu_pack(w->dtype, w->from + (row - w->first) * w->row_bytes, w->row_bytes, w->to, w->k, row, last);
}

/* A unit is sixteen rows from the first one asked for, which may be within a group. */
static void run_unpack(const plait_cpu_work *work, int phase, int64_t begin, int64_t end, int thread) {
    const pack_work *w = (const pack_work *)work;
    int64_t row = w->first + begin * GROUP, last = plait_min_i64(w->first + end * GROUP, w->end);
    (void)phase, (void)thread;
    plait_cpu_unpack(w->dtype, w->from, w->k, row, last, w->to + (row - w->first) * w->row_bytes,
                     w->row_bytes);
}

/* On the calling thread and all workers; launches of this device wait meanwhile, since the pool has one holder. */
static void run_work(plait_cpu_device *device, pack_work *w) {
    int64_t units = (w->end - w->first + GROUP - 1) / GROUP;
    w->work.n_phases = 1;
    w->work.units = &units;
    plait_cpu_pool_acquire(device->pool);
    plait_cpu_pool_run(device->pool, &w->work);
    plait_cpu_pool_release(device->pool);
}

/* whole_groups: packing writes whole groups, padding included, so its rows must begin and end at groups or at the
 * tensor's end; unpacking may begin anywhere. */
static plait_status check(const plait_operand *shape, plait_encoding encoding, int64_t row_begin,
                          int64_t row_end, bool whole_groups) {
    if (encoding != PLAIT_CPU_ENCODING_PACKED || !plait_cpu_packs(shape->dtype))
        return plait_error(PLAIT_INVALID_ARGUMENT, "packing: encoding %u of %s is unknown", encoding,
                           plait_dtype_name(shape->dtype));
    int64_t n_rows = packed_rows(shape->dtype, shape->dims);
    if (n_rows < 0)
        return plait_error(
            PLAIT_INVALID_ARGUMENT,
            "packing: [%lld, %lld, %lld, %lld] is neither a matrix nor matrices of whole groups of %d rows",
            (long long)shape->dims[0], (long long)shape->dims[1], (long long)shape->dims[2],
            (long long)shape->dims[3], GROUP);
    if (row_begin < 0 || row_begin > row_end || row_end > n_rows)
        return plait_error(PLAIT_OUT_OF_RANGE, "packing: rows [%lld, %lld) of %lld", (long long)row_begin,
                           (long long)row_end, (long long)n_rows);
    if (whole_groups && (row_begin % GROUP != 0 || (row_end % GROUP != 0 && row_end != n_rows)))
        return plait_error(PLAIT_INVALID_ARGUMENT, "packing: rows [%lld, %lld) are no groups of %d",
                           (long long)row_begin, (long long)row_end, GROUP);
    return PLAIT_OK;
}

/* After check, which has refused the shapes that have none. */
static uint64_t packed_bytes(const plait_operand *shape) {
    return (uint64_t)plait_cpu_packed_bytes(shape->dtype, shape->dims[0],
                                            packed_rows(shape->dtype, shape->dims));
}

/* The region is that of the whole weight, whichever rows come: each group's place in it follows from its number. */
plait_status plait_cpu_pack_rows(plait_device *device, const plait_operand *source, plait_encoding encoding,
                                 int64_t row_begin, int64_t row_end, plait_region target) {
    PLAIT_TRY(check(source, encoding, row_begin, row_end, true));
    if (source->strides[0] != plait_dtype_block_bytes(source->dtype) ||
        (source->dims[2] > 1 && source->strides[2] != source->dims[1] * source->strides[1]) ||
        (source->dims[3] > 1 && source->strides[3] != source->dims[2] * source->strides[2]))
        return plait_error(PLAIT_INVALID_ARGUMENT, "packing: rows are not contiguous");
    pack_work w = {.work.run = run_pack,
                   .dtype = source->dtype,
                   .from = (const unsigned char *)source->data + row_begin * source->strides[1],
                   .k = source->dims[0],
                   .first = row_begin,
                   .end = row_end,
                   .row_bytes = source->strides[1]};
    PLAIT_TRY(plait_host_region_bytes(device, NULL, &target, packed_bytes(source), "packing", &w.to));
    if (row_begin < row_end) run_work((plait_cpu_device *)device, &w);
    return PLAIT_OK;
}

/* Reading is by rows, not by groups, so any range will do; `target` gets them dense. */
plait_status plait_cpu_unpack_rows(plait_device *device, const plait_operand *shape, plait_encoding encoding,
                                   int64_t row_begin, int64_t row_end, plait_region source, void *target) {
    unsigned char *from;
    PLAIT_TRY(check(shape, encoding, row_begin, row_end, false));
    PLAIT_TRY(plait_host_region_bytes(device, NULL, &source, packed_bytes(shape), "unpacking", &from));
    pack_work w = {.work.run = run_unpack,
                   .dtype = shape->dtype,
                   .from = from,
                   .to = target,
                   .k = shape->dims[0],
                   .first = row_begin,
                   .end = row_end,
                   .row_bytes = plait_dtype_row_bytes(shape->dtype, shape->dims[0])};
    if (row_begin < row_end) run_work((plait_cpu_device *)device, &w);
    return PLAIT_OK;
}

/* ---- get_rows of a packed table ---- */

/* Only tables that are packed; those in file form are the family's of rows. */
static bool rows_accepts(const plait_op_use *use, const plait_encoding *encodings, char *reason,
                         size_t reason_bytes) {
    if (encodings[0] != PLAIT_CPU_ENCODING_PACKED || encodings[1] != PLAIT_ENCODING_FILE ||
        !plait_cpu_packs(use->inputs[0].dtype) || use->outputs[0].strides[0] != (int64_t)sizeof(float)) {
        snprintf(reason, reason_bytes, "the table is not packed, or rows of the result are not contiguous");
        return false;
    }
    return true;
}

/* A unit is an id: one row of the result. */
static int64_t rows_units(const plait_cpu_call *call, int phase) {
    (void)phase;
    return call->use.inputs[1].dims[0];
}

/* A table may be part of a larger one that is split by rows: ids count in all `total` rows, `start` is the first one
 * here. Ids of other parts give zeros, which the parts' sum needs; only ids beyond the whole are errors. */
static void rows_run(const plait_cpu_call *call, int phase, int64_t begin, int64_t end, int thread) {
    const plait_op_use *use = &call->use;
    const plait_operand *table = &use->inputs[0], *y = &use->outputs[0];
    int64_t start = use->attrs[PLAIT_GET_ROWS_START_V].i;
    int64_t total = plait_attr_total(use, PLAIT_GET_ROWS_START_V, PLAIT_GET_ROWS_TOTAL_V, table->dims[1]);
    (void)phase, (void)thread;
    for (int64_t n = begin; n < end; n++) {
        int64_t id = plait_ref_get_id(&use->inputs[1], n, 0);
        float *out = (float *)((char *)y->data + n * y->strides[1]);
        if (id < 0 || id >= total) plait_ref_bad_id(use);
        if (id >= start && id < start + table->dims[1])
            plait_cpu_unpack_row(table->dtype, table->data, table->dims[0], id - start, out);
        else
            memset(out, 0, (size_t)y->dims[0] * sizeof *out);
    }
}

const plait_cpu_kernel plait_cpu_packed_rows_kernels[] = {
    {.op = PLAIT_OP_get_rows,
     .name = "get_rows/packed",
     .n_phases = 1,
     .takes_packed = true,
     .accepts = rows_accepts,
     .units = rows_units,
     .run = rows_run},
    {.name = NULL},
};
