/* The only writers of caches: kv_write (new rows), page_copy (copies on write, page moves) and kv_shift (rotates stored
 * keys when positions shift). All write their first input in place; the result is the same storage. Lists are worked
 * off in order, so later entries see what earlier ones wrote. Negative slots and pages mean nowhere; other ones outside
 * the cache are bad (nothing written, error word).
 *
 * Not here: which page a sequence gets (model/pages.c), how a row of a cache is encoded (cache_row.h). Invariant: no
 * byte outside the rows or pages that an entry names is written. */
#include "base/size.h"
#include "base/status.h"
#include "op/attrs.h"
#include "op/cache_row.h"
#include "op/example.h"
#include "op/reference.h"
#include "op/rotary.h"
#include "op/runtime.h"
#include "op/shape.h"
#include "op/tolerance.h"

#include <math.h>

/* A cache is of a float or quantised type, and the output is the cache. */
static plait_status cache_shape(plait_op_use *use) {
    PLAIT_TRY(plait_shape_float(use, 0));
    PLAIT_TRY(plait_shape_by_factors(use));
    use->outputs[0].dtype = use->inputs[0].dtype;
    return PLAIT_OK;
}

/* Bytes of `rows` of the cache's pages: everything else, plus that share of the cache once or twice. The first input is
 * left out of the loop, so what is not touched of the cache does not count. */
static double cache_bytes(const plait_op_use *use, double rows, double all_rows, double times) {
    double bytes = times * plait_operand_part_bytes(&use->inputs[0], all_rows > 0 ? rows / all_rows : 0);
    for (int i = 1; i < use->n_inputs; i++)
        if (plait_op_has(use, i)) bytes += plait_operand_moved_bytes(&use->inputs[i]);
    return bytes;
}

/* The first n elements of a row of a cache, whole blocks, as caches are encoded. The recipe of cache_row.h and not the
 * format's search: a device must give the same bytes, at the speed of a step. */
static void write_row(const plait_operand *cache, int64_t p, int64_t h, int64_t c, int64_t n,
                      const float *x) {
    int64_t block = plait_dtype_block_elems(cache->dtype);
    for (int64_t i = 0; i < n / block; i++)
        plait_cache_encode(cache->dtype, x + i * block, plait_ref_at(cache, i, p, h, c), block);
}

/* They move bytes: without this the default would count an operation for each element of the cache. */
static double no_flop(const plait_op_use *use) {
    (void)use;
    return 0;
}

/* ---- kv_write ---- */

static const plait_attr_row kv_write_attrs[PLAIT_KV_WRITE_ATTRS] = {
    [PLAIT_KV_WRITE_START_P] =
        {"start_p", PLAIT_ATTR_INT, {.i = 0}, false, "first offset in a page held here"},
    [PLAIT_KV_WRITE_TOTAL_P] = {"total_p", PLAIT_ATTR_INT, {.i = 0}, false, "keys in a page; 0: start_p + p"},
    [PLAIT_KV_WRITE_START_C] =
        {"start_c", PLAIT_ATTR_INT, {.i = 0}, false, "number of the first page held here"},
    [PLAIT_KV_WRITE_TOTAL_C] =
        {"total_c", PLAIT_ATTR_INT, {.i = 0}, false, "pages of the whole; 0: start_c + c"},
};

/* Page length and pages of the whole cache, of which a slice may be here: slots count in the whole. */
static int64_t whole_page_len(const plait_op_use *use) {
    return plait_attr_total(use, PLAIT_KV_WRITE_START_P, PLAIT_KV_WRITE_TOTAL_P, use->inputs[0].dims[1]);
}

static int64_t whole_pages(const plait_op_use *use) {
    return plait_attr_total(use, PLAIT_KV_WRITE_START_C, PLAIT_KV_WRITE_TOTAL_C, use->inputs[0].dims[3]);
}

/* Slots are i32. Both totals are below 2^31 after their checks, so the product of two cannot overflow 64 bits. */
static plait_status kv_write_shape(plait_op_use *use) {
    PLAIT_TRY(plait_shape_dtype(use, 1, PLAIT_F32));
    PLAIT_TRY(plait_shape_dtype(use, 2, PLAIT_I32));
    PLAIT_TRY(cache_shape(use));
    PLAIT_TRY(plait_attr_window(use, PLAIT_KV_WRITE_START_P, PLAIT_KV_WRITE_TOTAL_P, use->inputs[0].dims[1]));
    PLAIT_TRY(plait_attr_window(use, PLAIT_KV_WRITE_START_C, PLAIT_KV_WRITE_TOTAL_C, use->inputs[0].dims[3]));
    if (whole_page_len(use) * whole_pages(use) > INT32_MAX)
        return plait_error(PLAIT_INVALID_ARGUMENT,
                           "cache: %lld pages of %lld keys, expected slots below 2^31",
                           (long long)whole_pages(use), (long long)whole_page_len(use));
    return PLAIT_OK;
}

/* One row in float32. */
static size_t kv_write_scratch(const plait_op_use *use) {
    return (size_t)use->inputs[0].dims[0] * sizeof(float);
}

/* Slots of another slice are no mistake; slots of no slice are. rows are [dim, heads, tokens] and the cache [dim,
 * offset, head, page]: heads go to different places of a page. */
static void kv_write_reference(const plait_op_use *use, void *scratch) {
    const plait_operand *cache = &use->outputs[0], *rows = &use->inputs[1], *slots = &use->inputs[2];
    int64_t page_len = whole_page_len(use), n_slots = page_len * whole_pages(use);
    for (int64_t n = 0; n < slots->dims[0]; n++) {
        int64_t slot = plait_ref_get_id(slots, n, 0);
        if (slot >= n_slots) plait_ref_bad_id(use);
        if (slot < 0 || slot >= n_slots) continue;
        int64_t page = slot / page_len - use->attrs[PLAIT_KV_WRITE_START_C].i;
        int64_t offset = slot % page_len - use->attrs[PLAIT_KV_WRITE_START_P].i;
        if (page < 0 || page >= cache->dims[3] || offset < 0 || offset >= cache->dims[1]) continue;
        for (int64_t h = 0; h < cache->dims[2]; h++) {
            plait_ref_read_row(rows, h, n, 0, rows->dims[0], scratch);
            write_row(cache, offset, h, page, cache->dims[0], scratch);
        }
    }
}

/* The row of every head at the slot. Heads of a slot lie a page's stride apart, so the part is [dim, 1, heads, 1] with
 * the cache's strides. A slot of another slice, and a bad one, is no part: the launch writes nothing for it. */
static bool kv_write_rows_part(const plait_op_use *use, int64_t id, plait_operand *out,
                               uint64_t *out_offset) {
    const plait_operand *cache = &use->outputs[0];
    int64_t page_len = whole_page_len(use);
    *out = *cache;
    out->dims[1] = out->dims[3] = 1;
    out->data = NULL;
    *out_offset = 0;
    if (id < 0 || id >= page_len * whole_pages(use)) return false;
    int64_t page = id / page_len - use->attrs[PLAIT_KV_WRITE_START_C].i;
    int64_t offset = id % page_len - use->attrs[PLAIT_KV_WRITE_START_P].i;
    if (page < 0 || page >= cache->dims[3] || offset < 0 || offset >= cache->dims[1]) return false;
    *out_offset = (uint64_t)(page * cache->strides[3] + offset * cache->strides[1]);
    return true;
}

/* Rows that nobody writes keep their bytes; written ones of plain types are rounded to nearest, ties to even. A slot
 * that occurs twice gets twice the bound, which only makes it wider. */
static void kv_write_tolerance(const plait_op_use *use, int output, double *limits, void *scratch) {
    const plait_operand *cache = &use->outputs[output], *rows = &use->inputs[1], *slots = &use->inputs[2];
    int64_t page_len = whole_page_len(use), n_slots = page_len * whole_pages(use);
    for (int64_t i = plait_operand_elems(cache) - 1; i >= 0; i--) limits[i] = 0;
    for (int64_t n = 0; n < slots->dims[0]; n++) {
        int64_t slot = plait_ref_get_id(slots, n, 0);
        if (slot < 0 || slot >= n_slots) continue;
        int64_t page = slot / page_len - use->attrs[PLAIT_KV_WRITE_START_C].i;
        int64_t offset = slot % page_len - use->attrs[PLAIT_KV_WRITE_START_P].i;
        if (page < 0 || page >= cache->dims[3] || offset < 0 || offset >= cache->dims[1]) continue;
        for (int64_t h = 0; h < cache->dims[2]; h++) {
            int64_t row = (page * cache->dims[2] + h) * cache->dims[1] + offset;
            plait_ref_read_row(rows, h, n, 0, rows->dims[0], scratch);
            plait_tol_encoded(cache->dtype, scratch, cache->dims[0], limits + row * cache->dims[0]);
        }
    }
}

/* Of the cache only the rows that are written move. Once, not twice: rows are overwritten, not changed. */
static double kv_write_bytes(const plait_op_use *use) {
    const plait_operand *cache = &use->inputs[0];
    return cache_bytes(use, (double)use->inputs[2].dims[0], (double)cache->dims[1] * (double)cache->dims[3],
                       1);
}

#define CASE(type, d, p, h, c, n)                                                                            \
    {                                                                                                        \
        .inputs = { PLAIT_IN(type, d, p, h, c), PLAIT_IN(F32, d, h, n, 1), PLAIT_IN(I32, n, 1, 1, 1) }       \
    }
/* Types with a recipe of their own and types without, a cache that is a view, rows permuted, no token at all; last a
 * slice that most slots miss. */
static const plait_example kv_write_cases[] = {
    CASE(F32, 7, 4, 3, 5, 6),
    CASE(F16, 64, 16, 3, 4, 5),
    CASE(BF16, 9, 4, 2, 3, 4),
    CASE(Q8_0, 64, 8, 3, 4, 5),
    CASE(Q4_0, 32, 8, 2, 4, 5),
    CASE(Q5_1, 64, 4, 1, 3, 2),
    CASE(F16, 8, 4, 2, 3, 0),
    {.inputs = {PLAIT_VIEW(PADDED, F16, 8, 4, 2, 5), PLAIT_VIEW(PERMUTED, F32, 8, 2, 6, 1),
                PLAIT_IN(I32, 6, 1, 1, 1)}},
    {.inputs = {PLAIT_IN(F32, 8, 4, 2, 3), PLAIT_IN(F32, 8, 2, 20, 1), PLAIT_IN(I32, 20, 1, 1, 1)},
     .attrs = {{"start_p", {.i = 2}}, {"total_p", {.i = 8}}, {"start_c", {.i = 1}}, {"total_c", {.i = 5}}}},
};
#undef CASE
PLAIT_EXAMPLES(kv_write)

/* Different slots in shuffled order over the whole cache, one of them nowhere. */
static void kv_write_example_data(int which, plait_op_use *use) {
    plait_example_fill_distinct(&use->inputs[2], (uint64_t)which + 5, whole_page_len(use) * whole_pages(use));
    if (use->inputs[2].dims[0] > 3) plait_ref_set_id(&use->inputs[2], 2, 0, -1);
}

/* Negative slots are legal: tokens that belong to no page. */
static plait_status kv_write_check_runtime(const plait_op_use *use) {
    return plait_check_ids(use, 2, INT32_MIN, whole_page_len(use) * whole_pages(use));
}

/* Factors: a slice of offsets or pages takes the slots that fall into it and passes over the others (indexed); tokens
 * are a list that is worked off in order, so n is whole; d and h are free: K and V split by head without a word about
 * it. */
const plait_op plait_op_kv_write = {
    .struct_bytes = sizeof(plait_op),
    .id = PLAIT_OP_kv_write,
    .name = "kv_write",
    .doc = "out = cache, with rows[:,h,n] at page slots[n] / page_len, offset slots[n] % page_len",
    .factors = "cache[d,p,h,c] rows[d,h,n] slots[n] -> out[d,p,h,c]; p: indexed(slots)@, c: indexed(slots)@, "
               "n: whole",
    .attrs = kv_write_attrs,
    .n_attrs = PLAIT_KV_WRITE_ATTRS,
    .shape = kv_write_shape,
    .writes_input = 0,
    .write_part = PLAIT_WRITES_ROWS,
    .rows_input = 2,
    .runtime_inputs = 1u << 2,
    .reference_scratch = kv_write_scratch,
    .reference = kv_write_reference,
    .tolerance = kv_write_tolerance,
    .rows_part = kv_write_rows_part,
    .flop = no_flop,
    .example = kv_write_example,
    .example_data = kv_write_example_data,
    .bytes = kv_write_bytes,
    .check_runtime = kv_write_check_runtime,
};

/* ---- page_copy ---- */

/* Source and target of an entry may lie on different members of a mesh, so pages are needed whole; heads, keys and
 * elements are independent. */

/* Both list ops: two i32 an entry, the first a page. */
static plait_status list_shape(plait_op_use *use) {
    PLAIT_TRY(plait_shape_dtype(use, 1, PLAIT_I32));
    PLAIT_TRY(plait_shape_dim(use, 1, 0, 2, "two numbers an entry"));
    PLAIT_TRY(cache_shape(use));
    if (use->inputs[0].dims[3] > INT32_MAX)
        return plait_error(PLAIT_INVALID_ARGUMENT, "cache: dim 3 is %lld, expected page numbers below 2^31",
                           (long long)use->inputs[0].dims[3]);
    return PLAIT_OK;
}

/* All bytes of a page, row by row. Bytes of blocks, not elements: a copy must not encode again. Rows of source and
 * target never overlap, since they are of different pages. */
static void copy_page(const plait_operand *cache, int64_t from, int64_t to) {
    int64_t n_blocks = cache->dims[0] / plait_dtype_block_elems(cache->dtype);
    size_t bytes = (size_t)plait_dtype_block_bytes(cache->dtype);
    for (int64_t h = 0; h < cache->dims[2] && from != to; h++)
        for (int64_t p = 0; p < cache->dims[1]; p++)
            for (int64_t i = 0; i < n_blocks; i++)
                memcpy(plait_ref_at(cache, i, p, h, to), plait_ref_at(cache, i, p, h, from), bytes);
}

/* An entry is bad as a whole: where one page is out of range nothing is copied. */
static void page_copy_reference(const plait_op_use *use, void *scratch) {
    (void)scratch;
    const plait_operand *cache = &use->outputs[0], *list = &use->inputs[1];
    for (int64_t m = 0; m < list->dims[1]; m++) {
        int64_t from = plait_ref_get_id(list, 0, m), to = plait_ref_get_id(list, 1, m);
        if (from < 0 || to < 0) continue;
        if (from < cache->dims[3] && to < cache->dims[3])
            copy_page(cache, from, to);
        else
            plait_ref_bad_id(use);
    }
}

/* Each entry reads and writes a page. */
static double page_list_bytes(const plait_op_use *use) {
    return cache_bytes(use, (double)use->inputs[1].dims[1], (double)use->inputs[0].dims[3], 2);
}

#define CASE(type, d, p, h, c, m)                                                                            \
    {                                                                                                        \
        .inputs = { PLAIT_IN(type, d, p, h, c), PLAIT_IN(I32, 2, m, 1, 1) }                                  \
    }
/* Plain and quantised caches, lists with an entry to skip, no entry, a cache that is a view. */
static const plait_example page_copy_cases[] = {
    CASE(F32, 7, 4, 3, 5, 3),
    CASE(F16, 64, 16, 3, 6, 2),
    CASE(Q8_0, 64, 8, 3, 7, 4),
    CASE(F16, 8, 4, 2, 3, 0),
    {.inputs = {PLAIT_VIEW(PADDED, F16, 8, 4, 2, 5), PLAIT_IN(I32, 2, 2, 1, 1)}},
};
#undef CASE
PLAIT_EXAMPLES(page_copy)

/* Different targets, one entry to skip, and sources that earlier entries wrote. */
static void page_copy_example_data(int which, plait_op_use *use) {
    const plait_operand *list = &use->inputs[1];
    int64_t c = use->inputs[0].dims[3];
    for (int64_t m = 0; m < list->dims[1]; m++) {
        plait_ref_set_id(list, 0, m, (int32_t)((m + which) % c));
        plait_ref_set_id(list, 1, m, m == 3 ? -1 : (int32_t)((2 * m + which + 2) % c));
    }
}

/* An entry with a negative page is skipped, whatever the other one is. */
static plait_status page_copy_check_runtime(const plait_op_use *use) {
    const plait_operand *list = &use->inputs[1];
    int64_t n_pages = use->inputs[0].dims[3];
    if (plait_ids_within(list, INT32_MIN, n_pages)) return PLAIT_OK;
    for (int64_t m = 0; m < list->dims[1]; m++) {
        int64_t from = plait_ref_get_id(list, 0, m), to = plait_ref_get_id(list, 1, m);
        if (from < 0 || to < 0 || (from < n_pages && to < n_pages)) continue;
        return plait_bad_id(use, 1, from >= n_pages ? 0 : 1, m, INT32_MIN, n_pages);
    }
    return PLAIT_OK;
}

/* Factors: pages of source and target may lie in different slices, so c is whole; entries follow each other, so m
 * is. */
const plait_op plait_op_page_copy = {
    .struct_bytes = sizeof(plait_op),
    .id = PLAIT_OP_page_copy,
    .name = "page_copy",
    .doc =
        "out = cache, with page list[0,m] copied to page list[1,m], for each m in order; negative: skipped",
    .factors = "cache[d,p,h,c] list[pair,m] -> out[d,p,h,c]; c: whole, pair: whole, m: whole",
    .shape = list_shape,
    .writes_input = 0,
    .write_part = PLAIT_WRITES_ALL,
    .rows_input = -1,
    .runtime_inputs = 1u << 1,
    .reference = page_copy_reference,
    .flop = no_flop,
    .example = page_copy_example,
    .example_data = page_copy_example_data,
    .bytes = page_list_bytes,
    .check_runtime = page_copy_check_runtime,
};

/* ---- kv_shift ---- */

/* Rotations add up: a key turned to position p and then by delta is a key turned to p + delta, for every mix of
 * frequencies, because angles are linear in the position. The magnitude that YaRN gave the key stays. */

static const plait_attr_row kv_shift_attrs[PLAIT_KV_SHIFT_ATTRS] = {
    PLAIT_ROTARY_ATTR_ROWS,
    [PLAIT_KV_SHIFT_START_C] =
        {"start_c", PLAIT_ATTR_INT, {.i = 0}, false, "number of the first page held here"},
    [PLAIT_KV_SHIFT_TOTAL_C] =
        {"total_c", PLAIT_ATTR_INT, {.i = 0}, false, "pages of the whole; 0: start_c + c"},
};

/* d has to be whole here, as in rope: halves pair elements far apart. */
static plait_status kv_shift_shape(plait_op_use *use) {
    PLAIT_TRY(list_shape(use));
    PLAIT_TRY(plait_attr_window(use, PLAIT_KV_SHIFT_START_C, PLAIT_KV_SHIFT_TOTAL_C, use->inputs[0].dims[3]));
    return plait_rotary_check(use, use->inputs[0].dims[0], 2);
}

/* Elements of a row that are read and written again: the rotated ones, rounded up to blocks, so that blocks without
 * rotated elements keep their bytes. d is whole blocks, so the rounding never leaves the row. */
static int64_t touched_elems(const plait_op_use *use) {
    int64_t n_rot = use->attrs[PLAIT_ROPE_N_ROT].i, block = plait_dtype_block_elems(use->inputs[0].dtype);
    if (n_rot == 0) n_rot = use->inputs[0].dims[0];
    return (n_rot + block - 1) / block * block;
}

/* One row of the elements that turn. */
static size_t kv_shift_scratch(const plait_op_use *use) {
    return (size_t)touched_elems(use) * sizeof(float);
}

/* Turns the first n_rot elements of a row by delta positions. */
static void shift_row(const plait_op_use *use, const plait_rotary *rotary, double delta, float *row) {
    for (int64_t pair = 0; pair < rotary->n_rot / 2; pair++) {
        int64_t first = plait_rotary_first(rotary, pair), second = plait_rotary_second(rotary, pair);
        double factor = plait_op_has(use, 2) ? plait_ref_get(&use->inputs[2], pair, 0, 0, 0) : 1.0;
        double angle = plait_rotary_angle(rotary, pair, delta, factor);
        double a = (double)row[first], b = (double)row[second], c = cos(angle), s = sin(angle);
        row[first] = (float)(a * c - b * s);
        row[second] = (float)(a * s + b * c);
    }
}

/* A delta of 0 leaves the page's bytes alone, as does a page that is elsewhere. Keys of a page that hold no token yet
 * are turned as well: what they are means nothing, and no length is known here. */
static void kv_shift_reference(const plait_op_use *use, void *scratch) {
    const plait_operand *cache = &use->outputs[0], *list = &use->inputs[1];
    int64_t total = plait_attr_total(use, PLAIT_KV_SHIFT_START_C, PLAIT_KV_SHIFT_TOTAL_C, cache->dims[3]);
    int64_t touched = touched_elems(use);
    plait_rotary rotary;
    plait_rotary_init(&rotary, use->attrs, cache->dims[0]);
    for (int64_t m = 0; m < list->dims[1]; m++) {
        int64_t page = plait_ref_get_id(list, 0, m), delta = plait_ref_get_id(list, 1, m);
        if (page >= total) plait_ref_bad_id(use);
        page -= use->attrs[PLAIT_KV_SHIFT_START_C].i;
        if (page < 0 || page >= cache->dims[3] || delta == 0) continue;
        for (int64_t h = 0; h < cache->dims[2]; h++)
            for (int64_t p = 0; p < cache->dims[1]; p++) {
                plait_ref_read_row(cache, p, h, page, touched, scratch);
                shift_row(use, &rotary, (double)delta, scratch);
                write_row(cache, p, h, page, touched, scratch);
            }
    }
}

/* Adds the bounds of one row: the turn, and a rounding to the cache's type, whose blocks may be larger than before. */
static void shift_row_tolerance(const plait_op_use *use, const plait_rotary *rotary, double delta,
                                const float *row, double *limits) {
    plait_dtype dtype = use->inputs[0].dtype;
    for (int times = 0; times < 2; times++) plait_tol_encoded(dtype, row, touched_elems(use), limits);
    for (int64_t pair = 0; pair < rotary->n_rot / 2; pair++) {
        int64_t first = plait_rotary_first(rotary, pair), second = plait_rotary_second(rotary, pair);
        double factor = plait_op_has(use, 2) ? plait_ref_get(&use->inputs[2], pair, 0, 0, 0) : 1.0;
        double size = fabs((double)row[first]) + fabs((double)row[second]);
        double turn =
            size * (plait_rotary_tolerance(rotary, pair, delta, factor) + 2 * plait_tol_type(dtype));
        limits[first] += turn + PLAIT_FLUSH;
        limits[second] += turn + PLAIT_FLUSH;
    }
}

/* `page` is made negative for a page that is bad, so that one test covers all that is passed over. */
static void kv_shift_tolerance(const plait_op_use *use, int output, double *limits, void *scratch) {
    const plait_operand *cache = &use->inputs[0], *list = &use->inputs[1];
    int64_t total = plait_attr_total(use, PLAIT_KV_SHIFT_START_C, PLAIT_KV_SHIFT_TOTAL_C, cache->dims[3]);
    plait_rotary rotary;
    (void)output;
    plait_rotary_init(&rotary, use->attrs, cache->dims[0]);
    for (int64_t i = plait_operand_elems(cache) - 1; i >= 0; i--) limits[i] = 0;
    for (int64_t m = 0; m < list->dims[1]; m++) {
        int64_t page = plait_ref_get_id(list, 0, m), delta = plait_ref_get_id(list, 1, m);
        page -= page < total ? use->attrs[PLAIT_KV_SHIFT_START_C].i : page + 1;
        if (page < 0 || page >= cache->dims[3] || delta == 0) continue;
        for (int64_t h = 0; h < cache->dims[2]; h++)
            for (int64_t p = 0; p < cache->dims[1]; p++) {
                int64_t row = (page * cache->dims[2] + h) * cache->dims[1] + p;
                plait_ref_read_row(cache, p, h, page, touched_elems(use), scratch);
                shift_row_tolerance(use, &rotary, (double)delta, scratch, limits + row * cache->dims[0]);
            }
    }
}

/* As rope_flop for an element, for every key of every page of the list. */
static double kv_shift_flop(const plait_op_use *use) {
    const plait_operand *cache = &use->inputs[0];
    return 3.0 * (double)use->inputs[1].dims[1] * (double)touched_elems(use) * (double)cache->dims[1] *
           (double)cache->dims[2];
}

/* Both ways of pairing, part of a row, blocks that are only partly turned, frequency factors, YaRN, no entry, and a
 * slice of the pages. */
static const plait_example kv_shift_cases[] = {
    {.inputs = {PLAIT_IN(F32, 8, 4, 3, 5), PLAIT_IN(I32, 2, 3, 1, 1)}},
    {.inputs = {PLAIT_IN(F16, 64, 16, 3, 6), PLAIT_IN(I32, 2, 2, 1, 1)},
     .attrs = {{"split_halves", {.i = 1}}, {"freq_base", {.f = 1e6}}}},
    {.inputs = {PLAIT_IN(Q8_0, 64, 8, 3, 7), PLAIT_IN(I32, 2, 4, 1, 1)}, .attrs = {{"n_rot", {.i = 20}}}},
    {.inputs = {PLAIT_IN(F32, 16, 4, 2, 4), PLAIT_IN(I32, 2, 2, 1, 1), PLAIT_IN(F32, 6, 1, 1, 1)},
     .attrs = {{"n_rot", {.i = 12}}, {"freq_scale", {.f = 0.25}}}},
    {.inputs = {PLAIT_IN(F32, 64, 4, 1, 4), PLAIT_IN(I32, 2, 2, 1, 1)},
     .attrs = {{"freq_scale", {.f = 0.25}}, {"ext_factor", {.f = 1}}, {"original_context", {.i = 4096}}}},
    {.inputs = {PLAIT_IN(F16, 8, 4, 2, 3), PLAIT_IN(I32, 2, 0, 1, 1)}},
    {.inputs = {PLAIT_VIEW(PADDED, F16, 8, 4, 2, 5), PLAIT_IN(I32, 2, 6, 1, 1)},
     .attrs = {{"start_c", {.i = 2}}, {"total_c", {.i = 9}}}},
};
PLAIT_EXAMPLES(kv_shift)

/* Negative and positive deltas, one of 0, one entry to skip. */
static void kv_shift_example_data(int which, plait_op_use *use) {
    const plait_operand *list = &use->inputs[1];
    int64_t total =
        plait_attr_total(use, PLAIT_KV_SHIFT_START_C, PLAIT_KV_SHIFT_TOTAL_C, use->inputs[0].dims[3]);
    uint64_t seed = (uint64_t)which;
    for (int64_t m = 0; m < list->dims[1]; m++) {
        plait_ref_set_id(list, 0, m, m == 2 ? -1 : (int32_t)((3 * m + which) % total));
        plait_ref_set_id(list, 1, m, m == 1 ? 0 : (int32_t)(plait_example_random(&seed, 400) - 300));
    }
    for (int64_t i = 0; plait_op_has(use, 2) && i < use->inputs[2].dims[0]; i++)
        plait_ref_set(&use->inputs[2], i, 0, 0, 0, 1.0 + (double)plait_example_random(&seed, 64) / 8.0);
}

/* Pages only: every shift is legal. A view of the list with dim 0 cut to its first entry, the page. */
static plait_status kv_shift_check_runtime(const plait_op_use *use) {
    const plait_operand *list = &use->inputs[1];
    plait_operand pages = *list;
    int64_t total =
        plait_attr_total(use, PLAIT_KV_SHIFT_START_C, PLAIT_KV_SHIFT_TOTAL_C, use->inputs[0].dims[3]);
    pages.dims[0] = 1;
    if (plait_ids_within(&pages, INT32_MIN, total)) return PLAIT_OK;
    for (int64_t m = 0; m < list->dims[1]; m++)
        if (plait_ref_get_id(list, 0, m) >= total) return plait_bad_id(use, 1, 0, m, INT32_MIN, total);
    return PLAIT_OK;
}

/* Factors: pairs may span all of d, which is whole; pages of another slice are passed over, so c is indexed. */
const plait_op plait_op_kv_shift = {
    .struct_bytes = sizeof(plait_op),
    .id = PLAIT_OP_kv_shift,
    .name = "kv_shift",
    .doc = "out = cache, with the keys of page list[0,m] turned as rope turns by list[1,m] positions, "
           "magnitude kept",
    .factors = "cache[d,p,h,c] list[pair,m] freq_factors?[r] -> out[d,p,h,c]; "
               "d: whole, c: indexed(list)@, pair: whole, m: whole, r: whole",
    .attrs = kv_shift_attrs,
    .n_attrs = PLAIT_KV_SHIFT_ATTRS,
    .shape = kv_shift_shape,
    .writes_input = 0,
    .write_part = PLAIT_WRITES_ALL,
    .rows_input = -1,
    .runtime_inputs = 1u << 1,
    .reference_scratch = kv_shift_scratch,
    .reference = kv_shift_reference,
    .tolerance = kv_shift_tolerance,
    .flop = kv_shift_flop,
    .example = kv_shift_example,
    .example_data = kv_shift_example_data,
    .bytes = page_list_bytes,
    .check_runtime = kv_shift_check_runtime,
};
