/* Products whose matrix is chosen by an id for each column (expert_matmul). The columns of a step are put in the order of
 * their experts, so that each expert's weights are read once however many tokens chose it; then every expert is a product
 * like any other, made of the same parts (product.h), and gives the bytes that matmul gives. A token's numbers do not
 * depend on what shares its step.
 *
 *   phase 0: the order: which column goes where, and which experts have any
 *   phase 1: each token's columns of x, quantised or copied, to their places; zeros for experts that are not here
 *   phase 2: the rows of all experts that have columns, in one space of units
 *
 * Scratch: the order, the columns, an area for each thread. Not here: how experts are chosen, and what becomes of their
 * results. Invariant: nothing outside of w is read, whatever the ids are. */
#include "device/cpu/experts.h"

#include "base/size.h"
#include "device/cpu/product.h"
#include "op/attrs.h"
#include "op/reference.h"
#include "op/shape.h"

#include <stdio.h>
#include <string.h>

/* A tile of sums is 64 KiB: with 512 columns, the most, it has 32 rows; with fewer columns more of them. */
enum { GROUP = PLAIT_CPU_GROUP_ROWS, TILE_COLUMNS = 512, TILE_FLOATS = 16384, SCRATCH_ALIGNMENT = 64 };

_Static_assert(TILE_COLUMNS % PLAIT_CPU_TILE_COLUMNS == 0, "columns are cut where their blocks are");
_Static_assert(TILE_COLUMNS *GROUP <= TILE_FLOATS, "a tile holds a group of rows");

/* ---- scratch ---- */

/* Offsets in the scratch, and the pieces there. Slots are (u, n), u fastest. */
typedef struct layout {
    const plait_operand *w, *x, *ids, *y;
    bool quantises;
    int64_t n_experts, n_used, n_tokens, n_slots;
    int64_t n_ranks; /* experts that may have columns */
    int32_t *first;  /* n_experts + 1: where the columns of an expert begin */
    int32_t *ranks;  /* n_ranks: experts that have columns, then -1 */
    int32_t *place;  /* n_slots: where a slot's column lies, or -1 */
    int32_t *slots;  /* n_slots: whose column lies there */
    char *columns, *threads;
    size_t thread_bytes, product_bytes, total;
} layout;

/* As far as the scratch is aligned, each piece begins on a cache line, so that threads share none. */
static size_t round_up(size_t bytes) {
    return (bytes + SCRATCH_ALIGNMENT - 1) & ~(size_t)(SCRATCH_ALIGNMENT - 1);
}

/* Kernels of a type read x in the same form, whatever they need of the processor. */
static bool quantises(const plait_operand *w) {
    return plait_cpu_product_kernel(w->dtype, 0)->quantised_x;
}

/* Of one column in the form that products read. The first j columns of an array take j times as much wherever its tiles
 * are whole, so columns are found by multiplying. */
static size_t column_bytes(const layout *l) {
    int64_t k = l->w->dims[0];
    return l->quantises ? (size_t)plait_cpu_columns_bytes(k, 1) : (size_t)k * sizeof(float);
}

/* From dims alone, so every thread and every phase finds the same pieces, and bounds on dims are bounds on them. */
static layout layout_of(const plait_op_use *use, char *scratch, int n_threads) {
    layout l = {.w = &use->inputs[PLAIT_EXPERT_MATMUL_W],
                .x = &use->inputs[PLAIT_EXPERT_MATMUL_X],
                .ids = &use->inputs[PLAIT_EXPERT_MATMUL_IDS],
                .y = &use->outputs[0]};
    l.quantises = quantises(l.w);
    l.n_experts = l.w->dims[2];
    l.n_used = l.ids->dims[0];
    l.n_tokens = l.ids->dims[1];
    l.n_slots = l.n_used * l.n_tokens;
    l.n_ranks = plait_min_i64(l.n_experts, l.n_slots);
    size_t order = (size_t)(l.n_experts + 1 + l.n_ranks + 2 * l.n_slots) * sizeof *l.first;
    size_t columns = round_up(order), threads = columns + round_up((size_t)l.n_slots * column_bytes(&l));
    l.product_bytes = plait_cpu_product_thread_bytes(l.w, PLAIT_ENCODING_FILE);
    size_t dense = (size_t)l.w->dims[0] * sizeof(float), quantised = l.quantises ? column_bytes(&l) : 0;
    size_t column = round_up(dense) + quantised, tile = TILE_FLOATS * sizeof(float);
    l.thread_bytes = l.product_bytes + round_up(column > tile ? column : tile);
    l.total = threads + (size_t)n_threads * l.thread_bytes;
    if (!scratch) return l; /* only sizes are asked for */
    l.first = (int32_t *)(void *)scratch;
    l.ranks = l.first + l.n_experts + 1;
    l.place = l.ranks + l.n_ranks;
    l.slots = l.place + l.n_slots;
    l.columns = scratch + columns;
    l.threads = scratch + threads;
    return l;
}

/* A thread's floats behind what products use: in phase 1 a dense column, then a quantised one; a tile of sums in phase 2. */
static float *thread_floats(const layout *l, int thread) {
    return (float *)(void *)(l->threads + (size_t)thread * l->thread_bytes + l->product_bytes);
}

/* At the bounds the scratch is largest: every piece grows with every dim. */
static size_t experts_scratch(const plait_op_use *use, int n_threads) {
    return layout_of(use, NULL, n_threads).total;
}

/* ---- phase 0: the order ---- */

/* The expert of a slot; -1 where it is not here, or nowhere: both give zeros, the latter sets the error word too. */
static int64_t expert_of(const plait_op_use *use, const layout *l, int64_t u, int64_t n) {
    int64_t id = plait_ref_get_id(l->ids, u, n), start = use->attrs[PLAIT_EXPERT_MATMUL_START_E].i;
    int64_t total =
        plait_attr_total(use, PLAIT_EXPERT_MATMUL_START_E, PLAIT_EXPERT_MATMUL_TOTAL_E, l->n_experts);
    if (id < 0 || id >= total) plait_ref_bad_id(use);
    return id >= start && id < start + l->n_experts ? id - start : -1;
}

/* Counts the slots of each expert, then gives each its place; slots of one expert keep their order. `place` holds the
 * expert in between. */
static void order_slots(const plait_op_use *use, const layout *l) {
    int64_t n_ranks = 0;
    int32_t at = 0;
    memset(l->first, 0, (size_t)(l->n_experts + 1) * sizeof *l->first);
    for (int64_t s = 0; s < l->n_slots; s++) {
        int64_t e = expert_of(use, l, s % l->n_used, s / l->n_used);
        l->place[s] = (int32_t)e;
        if (e >= 0) l->first[e]++;
    }
    for (int64_t e = 0; e <= l->n_experts; e++) {
        int32_t count = l->first[e];
        l->first[e] = at;
        at += count;
        if (count) l->ranks[n_ranks++] = (int32_t)e;
    }
    while (n_ranks < l->n_ranks) l->ranks[n_ranks++] = -1;
    for (int64_t s = 0; s < l->n_slots; s++) {
        if (l->place[s] < 0) continue;
        int32_t place = l->first[l->place[s]]++;
        l->slots[place] = (int32_t)s;
        l->place[s] = place;
    }
    for (int64_t e = l->n_experts; e > 0; e--) l->first[e] = l->first[e - 1]; /* each moved to its end */
    l->first[0] = 0;
}

/* ---- phase 1: columns ---- */

/* Column (u, n) of x with its elements side by side: where it lies, or copied. */
static const float *dense_column(const layout *l, int64_t u, int64_t n, float *room) {
    const plait_operand *x = l->x;
    const char *from = plait_ref_at(x, 0, x->dims[1] == 1 ? 0 : u, n, 0);
    bool aligned = (x->strides[1] | x->strides[2]) % (int64_t)sizeof(float) == 0;
    if (aligned && (x->strides[0] == (int64_t)sizeof(float) || x->dims[0] == 1))
        return (const float *)(const void *)from;
    for (int64_t k = 0; k < x->dims[0]; k++) memcpy(room + k, from + k * x->strides[0], sizeof *room);
    return room;
}

/* Elements of a column of y are side by side (experts_accept); columns may lie anywhere. */
static float *result_column(const layout *l, int64_t slot) {
    const plait_operand *y = l->y;
    return (float *)(void *)plait_ref_at(y, 0, slot % l->n_used, slot / l->n_used, 0);
}

/* Columns of an expert are an array of their own, in which this one has its number. `quantised`, if not NULL, is the column
 * in that form already. */
static void put_column(const plait_cpu_call *call, const layout *l, const float *column,
                       const void *quantised, int32_t place, int64_t expert) {
    int64_t k = l->w->dims[0], first = l->first[expert], n = l->first[expert + 1] - first, i = place - first;
    char *columns = l->columns + (size_t)first * column_bytes(l);
    if (quantised)
        plait_cpu_copy_column(quantised, k, 1, 0, n, i, columns);
    else if (l->quantises)
        plait_cpu_quantise(call->features, column, 0, k, n, i, i + 1, columns);
    else
        memcpy(columns + (size_t)i * column_bytes(l), column, column_bytes(l));
}

/* A column that several experts read is quantised once. */
static void fill_token(const plait_cpu_call *call, const layout *l, int64_t n, int thread) {
    float *room = thread_floats(l, thread);
    const float *column = NULL;
    void *quantised = NULL;
    bool shared = l->x->dims[1] == 1;
    for (int64_t u = 0; u < l->n_used; u++) {
        int64_t slot = n * l->n_used + u;
        if (l->place[slot] < 0) {
            memset(result_column(l, slot), 0, (size_t)l->y->dims[0] * sizeof(float));
            continue;
        }
        if (!column || !shared) {
            column = dense_column(l, u, n, room);
            if (shared && l->quantises && l->n_used > 1) {
                quantised = (char *)room + round_up((size_t)l->w->dims[0] * sizeof(float));
                plait_cpu_quantise(call->features, column, 0, l->w->dims[0], 1, 0, 1, quantised);
            }
        }
        put_column(call, l, column, quantised, l->place[slot], expert_of(&call->use, l, u, n));
    }
}

/* ---- phase 2: products ---- */

/* An expert's matrix with the columns [begin, end) of its own. */
typedef struct expert_product {
    plait_operand w, x, y;
    plait_cpu_product_input input;
    plait_cpu_product product;
} expert_product;

/* `begin` is where a tile of quantised columns begins, so the rest of an expert's columns is an array like the whole.
 * No result operand has memory: sums go where plait_cpu_product_run_rows is told. */
static void make_product(const plait_cpu_call *call, const layout *l, int64_t expert, int64_t begin,
                         int64_t end, expert_product *out) {
    int64_t k = l->w->dims[0], m = l->w->dims[1], first = l->first[expert];
    bool packed = call->encodings[PLAIT_EXPERT_MATMUL_W] != PLAIT_ENCODING_FILE;
    /* One packing has the rows of all experts; each has whole groups of them, so it begins at a multiple. */
    int64_t step = packed ? plait_cpu_packed_bytes(l->w->dtype, k, m) : l->w->strides[2];
    out->w = *l->w;
    out->w.dims[2] = 1;
    out->w.data = (char *)l->w->data + expert * step;
    void *columns = l->columns + (size_t)(first + begin) * column_bytes(l);
    out->x = (plait_operand){.dtype = PLAIT_F32, .dims = {k, end - begin, 1, 1}, .data = columns};
    (void)plait_operand_make_dense(&out->x);
    out->y = (plait_operand){.dtype = PLAIT_F32, .dims = {m, end - begin, 1, 1}};
    out->input = (plait_cpu_product_input){
        .x = &out->x, .quantises = l->quantises, .area = columns, .features = call->features};
    out->product = (plait_cpu_product){.kernel = plait_cpu_product_kernel(l->w->dtype, call->features),
                                       .w = &out->w,
                                       .y = &out->y,
                                       .packed = packed,
                                       .input = &out->input,
                                       .thread_area = l->threads,
                                       .thread_bytes = l->thread_bytes};
}

/* Rows [row, row_end) of a tile go to the columns of their slots. */
static void scatter(const layout *l, const float *tile, int64_t stride, int64_t first, int64_t columns,
                    int64_t row, int64_t row_end) {
    for (int64_t i = 0; i < columns; i++)
        memcpy(result_column(l, l->slots[first + i]) + row, tile + i * stride,
               (size_t)(row_end - row) * sizeof *tile);
}

/* Row groups [begin, end) of an expert with all its columns. A single column, as in answers, is stored where it belongs. */
static void run_expert(const plait_cpu_call *call, const layout *l, int64_t expert, int64_t begin,
                       int64_t end, int thread) {
    int64_t first = l->first[expert], n = l->first[expert + 1] - first;
    int64_t row_begin = begin * GROUP, row_end = plait_min_i64(end * GROUP, l->y->dims[0]);
    float *tile = thread_floats(l, thread);
    expert_product p;
    if (n == 1) {
        make_product(call, l, expert, 0, 1, &p);
        plait_cpu_product_run_rows(&p.product, row_begin, row_end,
                                   result_column(l, l->slots[first]) + row_begin, 0, thread);
        return;
    }
    for (int64_t c = 0; c < n; c += TILE_COLUMNS) {
        int64_t columns = plait_min_i64(TILE_COLUMNS, n - c), step = TILE_FLOATS / columns / GROUP * GROUP;
        make_product(call, l, expert, c, c + columns, &p);
        for (int64_t row = row_begin; row < row_end; row += step) {
            int64_t last = plait_min_i64(row + step, row_end);
            plait_cpu_product_run_rows(&p.product, row, last, tile, step, thread);
            scatter(l, tile, step, first + c, columns, row, last);
        }
    }
}

/* Units of one expert are done in one go, since the columns of a call are read for all its rows. Ranks without columns
 * are units too: how many there are is known only from the ids. */
static void run_products(const plait_cpu_call *call, const layout *l, int64_t begin, int64_t end,
                         int thread) {
    int64_t groups = (l->w->dims[1] + GROUP - 1) / GROUP;
    for (int64_t unit = begin; unit < end;) {
        int64_t group = unit % groups, n = plait_min_i64(groups - group, end - unit);
        int32_t expert = l->ranks[unit / groups];
        if (expert < 0) return; /* those that have none are last */
        run_expert(call, l, expert, group, group + n, thread);
        unit += n;
    }
}

/* ---- the row of the table ---- */

/* x and ids are read wherever they lie. Places and slots are 32-bit numbers. */
static bool experts_accept(const plait_op_use *use, const plait_encoding *encodings, char *reason,
                           size_t reason_bytes) {
    const plait_operand *w = &use->inputs[PLAIT_EXPERT_MATMUL_W], *y = &use->outputs[0];
    const plait_operand *ids = &use->inputs[PLAIT_EXPERT_MATMUL_IDS];
    int64_t n_slots = ids->dims[0] * ids->dims[1], k = plait_max_i64(w->dims[0], 1);
    const char *why = NULL;
    if (!plait_cpu_product_reads(w, encodings[PLAIT_EXPERT_MATMUL_W], reason, reason_bytes)) return false;
    if (encodings[PLAIT_EXPERT_MATMUL_X] || encodings[PLAIT_EXPERT_MATMUL_IDS])
        why = "only w may be packed";
    else if (encodings[PLAIT_EXPERT_MATMUL_W] && w->dims[2] > 1 && w->dims[1] % GROUP != 0)
        why = "packed matrices have whole groups of rows";
    else if (n_slots > INT32_MAX || n_slots > PLAIT_MAX_ELEMS / k) /* each gets a column of its own */
        why = "there are too many columns";
    else if (y->strides[0] != (int64_t)sizeof(float) ||
             (y->strides[1] | y->strides[2]) % (int64_t)sizeof(float) != 0)
        why = "columns of the result are not contiguous";
    if (why) snprintf(reason, reason_bytes, "%s", why);
    return !why;
}

/* Called in phase 2 also without a token: then no rank is there. */
static int64_t experts_units(const plait_cpu_call *call, int phase) {
    layout l = layout_of(&call->use, call->scratch, call->n_threads);
    if (phase == 0) return l.n_slots > 0;
    if (phase == 1) return l.n_used > 0 ? l.n_tokens : 0;
    return l.n_ranks * ((l.w->dims[1] + GROUP - 1) / GROUP);
}

static void experts_run(const plait_cpu_call *call, int phase, int64_t begin, int64_t end, int thread) {
    layout l = layout_of(&call->use, call->scratch, call->n_threads);
    if (phase == 0)
        order_slots(&call->use, &l);
    else if (phase == 1)
        for (int64_t n = begin; n < end; n++) fill_token(call, &l, n, thread);
    else
        run_products(call, &l, begin, end, thread);
}

const plait_cpu_kernel plait_cpu_expert_kernels[] = {
    {.op = PLAIT_OP_expert_matmul,
     .name = "expert_matmul",
     .n_phases = 3,
     .takes_packed = true,
     .accepts = experts_accept,
     .scratch_bytes = experts_scratch,
     .units = experts_units,
     .run = experts_run},
    {.name = NULL},
};
