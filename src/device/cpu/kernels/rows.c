/* Kernels of get_rows, kv_write, page_copy, copy and cast. Rows in packed tables are looked up elsewhere (weights.c);
 * kv_shift has its reference kernel.
 *
 * kv_write and page_copy work off their lists in order, so a unit is a part of the cache that no other unit touches
 * (pieces of dim 0 of one head; one head) and goes through the whole list. Invariant: of two entries of a list that
 * name one place, the later one stays, for every number of threads. */
#include "device/cpu/kernels/family.h"
#include "op/cache_row.h"

enum { WRITE_PIECE = 64 }; /* elements of a row of kv_write in one unit, unless a block is larger */

/* The instruction set's code where it has some, else the format's decoder; both give the same bits. */
static void decode_row(const plait_cpu_simd *simd, plait_dtype dtype, const void *blocks, float *out,
                       int64_t n) {
    if (!simd->decode(dtype, blocks, out, n)) plait_quant_of(dtype)->decode(blocks, out, n);
}

/* ---- get_rows ---- */

static bool get_rows_accepts(const plait_op_use *use, const plait_encoding *encodings, char *reason,
                             size_t reason_bytes) {
    (void)encodings;
    if (plait_cpu_row_contiguous(&use->inputs[0]) && plait_cpu_row_contiguous(&use->outputs[0])) return true;
    return plait_cpu_refuse(reason, reason_bytes, "rows of the table or the result are not contiguous");
}

static int64_t get_rows_units(const plait_cpu_call *call, int phase) {
    (void)phase;
    return call->use.outputs[0].dims[0] > 0 ? call->use.inputs[1].dims[0] : 0;
}

/* The table may be part of one that is split by rows: [start, start + dims[1]) of `total`. Ids of other parts give
 * zeros, which the sum over parts needs. */
static void get_rows_run(const plait_cpu_call *call, int phase, int64_t begin, int64_t end, int thread) {
    const plait_op_use *use = &call->use;
    const plait_operand *table = &use->inputs[0], *y = &use->outputs[0];
    const plait_cpu_simd *simd = plait_cpu_simd_for(call->features);
    int64_t start = use->attrs[PLAIT_GET_ROWS_START_V].i, total = use->attrs[PLAIT_GET_ROWS_TOTAL_V].i;
    (void)phase, (void)thread;
    if (total == 0) total = start + table->dims[1];
    for (int64_t n = begin; n < end; n++) {
        int64_t id = plait_ref_get_id(&use->inputs[1], n, 0);
        float *out = (float *)(void *)((char *)y->data + n * y->strides[1]);
        if (id < 0 || id >= total) plait_ref_bad_id(use);
        if (id >= start && id < start + table->dims[1])
            decode_row(simd, table->dtype, plait_ref_at(table, 0, id - start, 0, 0), out, y->dims[0]);
        else
            memset(out, 0, (size_t)y->dims[0] * sizeof *out);
    }
}

/* ---- kv_write ---- */

/* Inputs are the cache, and for kv_write the rows that are written; slots and lists are read element by element. */
static bool cache_accepts(const plait_op_use *use, const plait_encoding *encodings, char *reason,
                          size_t reason_bytes) {
    (void)encodings;
    if (plait_cpu_row_contiguous(&use->inputs[0]) && plait_cpu_row_contiguous(&use->outputs[0]) &&
        (use->op->id != PLAIT_OP_kv_write || plait_cpu_row_contiguous(&use->inputs[1])))
        return true;
    return plait_cpu_refuse(reason, reason_bytes,
                            "rows of the cache or of what is written are not contiguous");
}

/* At least a block of the cache's type, for a block is encoded as a whole; its scale is of all its elements. */
static int64_t write_piece(const plait_operand *cache) {
    return plait_max_i64(WRITE_PIECE, plait_dtype_block_elems(cache->dtype));
}
static int64_t write_pieces(const plait_operand *cache) {
    return (cache->dims[0] + write_piece(cache) - 1) / write_piece(cache);
}

static int64_t kv_write_units(const plait_cpu_call *call, int phase) {
    const plait_operand *cache = &call->use.outputs[0];
    (void)phase;
    return call->use.inputs[2].dims[0] > 0 ? write_pieces(cache) * cache->dims[2] : 0;
}

/* Where the slot's row lies here; false when it lies nowhere: a negative slot is an item that is not written, one of
 * another part's pages or offsets is that part's. Slots beyond the whole cache are errors. Each unit reads the whole
 * list, which is cheaper than anything shared. */
static bool find_slot(const plait_op_use *use, int64_t n, int64_t *out_page, int64_t *out_offset) {
    const plait_operand *cache = &use->outputs[0];
    const plait_attr *attrs = use->attrs;
    int64_t page_len = attrs[PLAIT_KV_WRITE_TOTAL_P].i, pages = attrs[PLAIT_KV_WRITE_TOTAL_C].i;
    if (page_len == 0) page_len = attrs[PLAIT_KV_WRITE_START_P].i + cache->dims[1];
    if (pages == 0) pages = attrs[PLAIT_KV_WRITE_START_C].i + cache->dims[3];
    int64_t slot = plait_ref_get_id(&use->inputs[2], n, 0);
    if (slot >= page_len * pages) plait_ref_bad_id(use);
    if (slot < 0 || slot >= page_len * pages) return false;
    *out_page = slot / page_len - attrs[PLAIT_KV_WRITE_START_C].i;
    *out_offset = slot % page_len - attrs[PLAIT_KV_WRITE_START_P].i;
    return *out_page >= 0 && *out_page < cache->dims[3] && *out_offset >= 0 && *out_offset < cache->dims[1];
}

/* Items outside, units inside: each item is looked up once for all pieces of this thread. */
static void kv_write_run(const plait_cpu_call *call, int phase, int64_t begin, int64_t end, int thread) {
    const plait_op_use *use = &call->use;
    const plait_operand *cache = &use->outputs[0], *rows = &use->inputs[1];
    const plait_cpu_simd *simd = plait_cpu_simd_for(call->features);
    int64_t pieces = write_pieces(cache), size = write_piece(cache), page, offset;
    int64_t block = plait_dtype_block_elems(cache->dtype);
    (void)phase, (void)thread;
    for (int64_t n = 0; n < use->inputs[2].dims[0] && begin < end; n++) {
        if (!find_slot(use, n, &page, &offset)) continue;
        for (int64_t unit = begin; unit < end; unit++) {
            int64_t head = unit / pieces, from = unit % pieces * size;
            int64_t count = plait_min_i64(size, cache->dims[0] - from);
            const float *x = (const float *)(void *)plait_ref_at(rows, 0, head, n, 0) + from;
            void *to = plait_ref_at(cache, from / block, offset, head, page);
            if (!simd->encode(cache->dtype, x, to, count)) plait_cache_encode(cache->dtype, x, to, count);
        }
    }
}

/* ---- page_copy ---- */

static int64_t page_copy_units(const plait_cpu_call *call, int phase) {
    (void)phase;
    return call->use.inputs[1].dims[1] > 0 ? call->use.outputs[0].dims[2] : 0;
}

/* Pages of one head: rows that follow each other move as one. Bytes, not numbers, so every type goes this way. */
static void copy_head(const plait_operand *cache, int64_t head, int64_t from, int64_t to) {
    size_t bytes = (size_t)plait_dtype_row_bytes(cache->dtype, cache->dims[0]);
    if (cache->strides[1] == (int64_t)bytes) {
        memcpy(plait_ref_at(cache, 0, 0, head, to), plait_ref_at(cache, 0, 0, head, from),
               bytes * (size_t)cache->dims[1]);
        return;
    }
    for (int64_t p = 0; p < cache->dims[1]; p++)
        memcpy(plait_ref_at(cache, 0, p, head, to), plait_ref_at(cache, 0, p, head, from), bytes);
}

/* Entry (from, to); negative ones are empty places of the list. Later entries may read what earlier ones wrote, within
 * a head, which is one unit's. */
static void page_copy_run(const plait_cpu_call *call, int phase, int64_t begin, int64_t end, int thread) {
    const plait_op_use *use = &call->use;
    const plait_operand *cache = &use->outputs[0], *list = &use->inputs[1];
    (void)phase, (void)thread;
    for (int64_t m = 0; m < list->dims[1]; m++) {
        int64_t from = plait_ref_get_id(list, 0, m), to = plait_ref_get_id(list, 1, m);
        if (from < 0 || to < 0) continue;
        if (from >= cache->dims[3] || to >= cache->dims[3]) {
            plait_ref_bad_id(use);
            continue;
        }
        for (int64_t head = begin; head < end && from != to; head++) copy_head(cache, head, from, to);
    }
}

/* ---- copy and cast ---- */

/* `copy` keeps the type; casts are those to F32 from anything, and those to the 16-bit types from F32, whose rounding
 * the encoders do as the op says. */
static bool copy_accepts(const plait_op_use *use, const plait_encoding *encodings, char *reason,
                         size_t reason_bytes) {
    (void)encodings;
    const plait_operand *x = &use->inputs[0], *y = &use->outputs[0];
    if (!plait_cpu_row_contiguous(x) || !plait_cpu_row_contiguous(y))
        return plait_cpu_refuse(reason, reason_bytes, "rows are not contiguous");
    bool narrows = x->dtype == PLAIT_F32 && (y->dtype == PLAIT_F16 || y->dtype == PLAIT_BF16);
    if (use->op->id == PLAIT_OP_copy || y->dtype == PLAIT_F32 || narrows) return true;
    return plait_cpu_refuse(reason, reason_bytes, "neither from F32 to F16 or BF16, nor to F32");
}

static int64_t copy_units(const plait_cpu_call *call, int phase) {
    (void)phase;
    return call->use.outputs[0].dims[0] > 0 ? plait_cpu_row_count(&call->use.outputs[0]) : 0;
}

/* Both rows are contiguous, so strides of dims 1 to 3 may be anything. */
static void copy_rows(const plait_cpu_call *call, int64_t begin, int64_t end) {
    const plait_operand *x = &call->use.inputs[0], *y = &call->use.outputs[0];
    const plait_cpu_simd *simd = plait_cpu_simd_for(call->features);
    size_t bytes = (size_t)plait_dtype_row_bytes(y->dtype, y->dims[0]);
    if (begin >= end) return;
    plait_cpu_place at = plait_cpu_place_of(y, begin);
    for (int64_t row = begin; row < end; row++, plait_cpu_place_next(y, &at)) {
        const void *from = plait_cpu_row_at(x, at);
        void *to = plait_cpu_row_at(y, at);
        if (x->dtype == y->dtype)
            memcpy(to, from, bytes);
        else if (y->dtype == PLAIT_F32)
            decode_row(simd, x->dtype, from, to, x->dims[0]);
        else
            simd->encode(y->dtype, from, to, x->dims[0]);
    }
}

static void copy_run(const plait_cpu_call *call, int phase, int64_t begin, int64_t end, int thread) {
    (void)phase, (void)thread;
    copy_rows(call, begin, end);
}

#define ROWS(op_name, kind)                                                                                  \
    .op = PLAIT_OP_##op_name, .name = #op_name, .n_phases = 1, .accepts = kind##_accepts,

const plait_cpu_kernel plait_cpu_rows_kernels[] = {
    {ROWS(get_rows, get_rows).units = get_rows_units, .run = get_rows_run},
    {ROWS(kv_write, cache).units = kv_write_units, .run = kv_write_run},
    {ROWS(page_copy, cache).units = page_copy_units, .run = page_copy_run},
    {ROWS(copy, copy).units = copy_units, .run = copy_run, .run_rows = copy_rows},
    {ROWS(cast, copy).units = copy_units, .run = copy_run, .run_rows = copy_rows},
    {.name = NULL},
};
