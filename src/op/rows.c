/* get_rows: rows of a table by id. A slice of the table knows which ids it holds (start_v) and how many there
 * are in all (total_v): ids elsewhere in the whole give zeros, so that slices add up; ids outside the whole are
 * bad, give zeros too and set the error word.
 *
 * Not here: writing rows (kv_write). Invariant: no row outside the table is ever read. */
#include "base/size.h"
#include "op/attrs.h"
#include "op/example.h"
#include "op/reference.h"
#include "op/runtime.h"
#include "op/shape.h"

static const plait_attr_row get_rows_attrs[PLAIT_GET_ROWS_ATTRS] = {
    [PLAIT_GET_ROWS_START_V] =
        {"start_v", PLAIT_ATTR_INT, {.i = 0}, false, "id of the first row of this table"},
    [PLAIT_GET_ROWS_TOTAL_V] =
        {"total_v", PLAIT_ATTR_INT, {.i = 0}, false, "rows of the whole; 0: start_v + v"},
};

/* Types of table rows are free; results are float32. */
static plait_status get_rows_shape(plait_op_use *use) {
    PLAIT_TRY(plait_shape_dtype(use, 1, PLAIT_I32));
    PLAIT_TRY(plait_attr_window(use, PLAIT_GET_ROWS_START_V, PLAIT_GET_ROWS_TOTAL_V, use->inputs[0].dims[1]));
    return plait_shape_by_factors(use);
}

/* One decoded row. */
static size_t get_rows_scratch(const plait_op_use *use) {
    return (size_t)use->inputs[0].dims[0] * sizeof(float);
}

/* A device's own id check is this one: an id outside of the whole sets the error word, an id of another slice does
 * not. */
static void get_rows_reference(const plait_op_use *use, void *scratch) {
    const plait_operand *table = &use->inputs[0], *ids = &use->inputs[1], *y = &use->outputs[0];
    int64_t v = table->dims[1], start = use->attrs[PLAIT_GET_ROWS_START_V].i;
    int64_t total = plait_attr_total(use, PLAIT_GET_ROWS_START_V, PLAIT_GET_ROWS_TOTAL_V, v);
    float *row = scratch;
    for (int64_t n = 0; n < ids->dims[0]; n++) {
        int64_t id = plait_ref_get_id(ids, n, 0);
        bool here = id >= start && id < start + v;
        if (id < 0 || id >= total) plait_ref_bad_id(use);
        if (here) plait_ref_read_row(table, id - start, 0, 0, table->dims[0], row);
        for (int64_t k = 0; k < y->dims[0]; k++) plait_ref_set(y, k, n, 0, 0, here ? (double)row[k] : 0.0);
    }
}

#define CASE(type, k, v, n)                                                                                  \
    {                                                                                                        \
        .inputs = { PLAIT_IN(type, k, v, 1, 1), PLAIT_IN(I32, n, 1, 1, 1) }                                  \
    }
static const plait_example get_rows_cases[] = {
    CASE(F32, 7, 11, 5),
    CASE(F16, 33, 10, 3),
    CASE(BF16, 33, 10, 3),
    CASE(I32, 5, 9, 4),
    CASE(Q4_0, 64, 13, 1),
    CASE(Q8_0, 96, 13, 4),
    CASE(Q4_K, 256, 9, 2),
    CASE(Q6_K, 512, 9, 6),
    CASE(F32, 4, 3, 0),
    {.inputs = {PLAIT_VIEW(PADDED, Q8_0, 64, 10, 1, 1), PLAIT_VIEW(STRIDED, I32, 6, 1, 1, 1)}},
    /* A slice: rows 20 to 29 of 50. */
    {.inputs = {PLAIT_IN(F32, 8, 10, 1, 1), PLAIT_IN(I32, 12, 1, 1, 1)},
     .attrs = {{"start_v", {.i = 20}}, {"total_v", {.i = 50}}}},
};
#undef CASE
PLAIT_EXAMPLES(get_rows)

/* Ids over the whole, so that a slice meets ids that it does not hold. */
static void get_rows_example_data(int which, plait_op_use *use) {
    int64_t v = use->inputs[0].dims[1];
    int64_t total = plait_attr_total(use, PLAIT_GET_ROWS_START_V, PLAIT_GET_ROWS_TOTAL_V, v);
    plait_example_fill_ids(&use->inputs[1], (uint64_t)which + 1, total, false);
}

/* Against the whole, not the slice here: ids of rows that other members hold are right. */
static plait_status get_rows_check_runtime(const plait_op_use *use) {
    int64_t total =
        plait_attr_total(use, PLAIT_GET_ROWS_START_V, PLAIT_GET_ROWS_TOTAL_V, use->inputs[0].dims[1]);
    return plait_check_ids(use, 1, 0, total);
}

const plait_op plait_op_get_rows = {
    .struct_bytes = sizeof(plait_op),
    .id = PLAIT_OP_get_rows,
    .name = "get_rows",
    .doc = "y[k,n] = table[k, ids[n]]",
    .factors = "table[k,v] ids[n] -> y[k,n]; v: indexed(ids)@",
    .attrs = get_rows_attrs,
    .n_attrs = PLAIT_GET_ROWS_ATTRS,
    .shape = get_rows_shape,
    .writes_input = -1,
    .rows_input = -1,
    .runtime_inputs = 1u << 1,
    .reference_scratch = get_rows_scratch,
    .reference = get_rows_reference,
    .example = get_rows_example,
    .example_data = get_rows_example_data,
    .check_runtime = get_rows_check_runtime,
};
