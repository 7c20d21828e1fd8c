/* Reading a segment; telling what a group is from its members; laying out its scratch. Not here: choosing the members
 * (prepare.c), making tasks of them (compile.c).
 *
 * Invariant: prepare and compile see the same group. Both call classify and place, which look at members, shapes and
 * flags that are the same at both times, never at addresses; so scratch that was promised is scratch that fits. */
#include "device/cpu/group.h"

#include "base/size.h"

#include <stdlib.h>
#include <string.h>

/* ---- reading ---- */

void plait_cpu_node_use(const plait_segment_node *node, plait_op_use *out, plait_encoding *encodings) {
    memset(out, 0, sizeof *out);
    out->op = node->op;
    out->n_inputs = node->n_inputs;
    out->n_outputs = node->n_outputs;
    out->present = node->present;
    memcpy(out->attrs, node->attrs, sizeof out->attrs);
    for (int i = 0; i < node->n_inputs; i++) {
        out->inputs[i] = node->inputs[i].shape;
        encodings[i] = node->inputs[i].encoding;
    }
    for (int i = 0; i < node->n_outputs; i++) out->outputs[i] = node->outputs[i].shape;
}

/* Operand k of a node is there: an output that it has, or an input that is not left out. */
static bool present(const plait_segment_node *node, int k) {
    if (plait_cpu_is_output(k)) return k - PLAIT_MAX_INPUTS < node->n_outputs;
    return k < node->n_inputs && (node->present >> k & 1u);
}

/* Of qsort and bsearch. */
static int by_id(const void *a, const void *b) {
    uint32_t x = ((const plait_cpu_value *)a)->id, y = ((const plait_cpu_value *)b)->id;
    return x < y ? -1 : x > y;
}

/* All value ids of the segment, sorted, once each; everything else of the values is zero still. The array has room for
 * all operands, of which the beginning is kept. */
static plait_status collect_values(plait_cpu_reading *r) {
    const plait_segment *segment = r->segment;
    size_t n_most = (size_t)segment->n_nodes * PLAIT_CPU_MAX_OPERANDS, n = 0;
    r->values = plait_arena_alloc(&r->arena, n_most ? n_most : 1, sizeof *r->values);
    if (!r->values) return plait_error_memory("values of a segment", n_most * sizeof *r->values);
    for (int i = 0; i < segment->n_nodes; i++)
        for (int k = 0; k < PLAIT_CPU_MAX_OPERANDS; k++)
            if (present(&segment->nodes[i], k))
                r->values[n++].id = plait_cpu_operand(&segment->nodes[i], k)->value;
    if (n) qsort(r->values, n, sizeof *r->values, by_id);
    for (size_t i = 0; i < n; i++)
        if (i == 0 || r->values[i].id != r->values[i - 1].id) r->values[r->n_values++].id = r->values[i].id;
    return PLAIT_OK;
}

plait_cpu_value *plait_cpu_find_value(const plait_cpu_reading *reading, uint32_t id) {
    plait_cpu_value key = {.id = id};
    return bsearch(&key, reading->values, (size_t)reading->n_values, sizeof key, by_id);
}

/* Enters operand k of node n into its value. A value is needed when its bytes may be read after the segment, were there
 * before it, or lie in a form that only memory has: weights, packed operands, states that an op writes into (its output
 * 0 is then the written input). Such values are never elided. */
static plait_status note_operand(plait_cpu_reading *r, int n, int k) {
    const plait_segment_node *node = &r->segment->nodes[n];
    const plait_segment_operand *operand = plait_cpu_operand(node, k);
    plait_cpu_value *value = plait_cpu_find_value(r, operand->value);
    int64_t span = plait_operand_span_bytes(&operand->shape);
    uint64_t end;
    if (span < 0 || !plait_add_u64(operand->view_offset, (uint64_t)span, &end))
        return plait_error(PLAIT_OUT_OF_RANGE, "node %s (%s): the size of an operand overflows", node->name,
                           node->op->name);
    value->n_accesses++;
    value->needed |= operand->needed_after || operand->is_weight ||
                     operand->encoding != PLAIT_ENCODING_FILE ||
                     (node->op->writes_input >= 0 && k == PLAIT_MAX_INPUTS);
    if (end > value->span_bytes) value->span_bytes = end;
    r->operand_values[(size_t)n * PLAIT_CPU_MAX_OPERANDS + (size_t)k] = value;
    return PLAIT_OK;
}

/* A value that nobody here writes comes from outside. group_accesses counts writers here, and is cleared again before
 * prepare uses it. */
static void note_sources(plait_cpu_reading *r) {
    for (int v = 0; v < r->n_values; v++) r->values[v].group_accesses = 0;
    for (int n = 0; n < r->segment->n_nodes; n++)
        for (int k = PLAIT_MAX_INPUTS; k < PLAIT_CPU_MAX_OPERANDS; k++)
            if (plait_cpu_operand_value(r, n, k)) plait_cpu_operand_value(r, n, k)->group_accesses++;
    for (int v = 0; v < r->n_values; v++) r->values[v].needed |= r->values[v].group_accesses == 0;
}

/* Once for each node of a reading: everything later goes by this choice, of fusion too. */
static plait_status choose_kernel(plait_cpu_reading *r, int n) {
    const plait_segment_node *node = &r->segment->nodes[n];
    plait_op_use use;
    plait_encoding encodings[PLAIT_MAX_INPUTS] = {0};
    char reason[200];
    plait_cpu_node_use(node, &use, encodings);
    r->kernels[n] = plait_cpu_kernel_find(&use, encodings, r->features, reason, sizeof reason);
    if (!r->kernels[n])
        return plait_error(PLAIT_UNSUPPORTED, "node %s (%s): %s", node->name, node->op->name, reason);
    return PLAIT_OK;
}

/* One element more than needed everywhere, since a segment may have no nodes and the arena gives no memory for
 * nothing. */
static plait_status read_segment(plait_cpu_reading *r) {
    size_t n = (size_t)r->segment->n_nodes;
    r->kernels = plait_arena_alloc(&r->arena, n + 1, sizeof *r->kernels);
    r->operand_values =
        plait_arena_alloc(&r->arena, n * PLAIT_CPU_MAX_OPERANDS + 1, sizeof *r->operand_values);
    if (!r->kernels || !r->operand_values) return plait_error_memory("reading of a segment", n);
    PLAIT_TRY(collect_values(r));
    for (int i = 0; i < r->segment->n_nodes; i++) {
        PLAIT_TRY(choose_kernel(r, i));
        for (int k = 0; k < PLAIT_CPU_MAX_OPERANDS; k++)
            if (present(&r->segment->nodes[i], k)) PLAIT_TRY(note_operand(r, i, k));
    }
    note_sources(r);
    return PLAIT_OK;
}

/* Features and threads are copied: a reading asks the device nothing more. */
plait_status plait_cpu_reading_init(plait_cpu_reading *reading, const plait_cpu_device *device,
                                    const plait_segment *segment) {
    *reading =
        (plait_cpu_reading){.segment = segment, .features = device->features, .n_threads = device->n_threads};
    plait_arena_init(&reading->arena, 0);
    plait_status status = read_segment(reading);
    if (status != PLAIT_OK) plait_cpu_reading_deinit(reading);
    return status;
}

void plait_cpu_reading_deinit(plait_cpu_reading *reading) {
    plait_arena_deinit(&reading->arena);
}

/* ---- relations ---- */

/* By values, not by bytes: operands of one value share bytes, values that overlap otherwise were given to the planner
 * by ourselves (`shared`), after the groups were chosen. 13 operands a node, all against all. */
bool plait_cpu_conflict(const plait_cpu_reading *reading, int a, int b) {
    for (int i = 0; i < PLAIT_CPU_MAX_OPERANDS; i++) {
        const plait_cpu_value *value = plait_cpu_operand_value(reading, a, i);
        for (int k = 0; value && k < PLAIT_CPU_MAX_OPERANDS; k++)
            if (plait_cpu_operand_value(reading, b, k) == value &&
                (plait_cpu_is_output(i) || plait_cpu_is_output(k)))
                return true;
    }
    return false;
}

/* Strides of dims of one element say nothing. Extents are compared too: two operands that are alike at the bounds may
 * have unequal dims in a launch. */
bool plait_cpu_same_operand(const plait_segment_operand *a, const plait_segment_operand *b) {
    if (a->value != b->value || a->view_offset != b->view_offset || a->shape.dtype != b->shape.dtype ||
        a->encoding != b->encoding || a->outer.dim != b->outer.dim)
        return false;
    if (a->outer.dim >= 0 && (a->outer.axis != b->outer.axis || a->outer.a != b->outer.a ||
                              a->outer.b != b->outer.b || a->outer.c != b->outer.c))
        return false;
    for (int d = 0; d < PLAIT_MAX_RANK; d++)
        if (a->shape.dims[d] != b->shape.dims[d] ||
            (a->shape.dims[d] > 1 && a->shape.strides[d] != b->shape.strides[d]))
            return false;
    return true;
}

/* By the row that was chosen, not by the op: a matmul which only the reference takes is no product. */
bool plait_cpu_is_product(const plait_cpu_reading *reading, int node) {
    return reading->kernels[node] == &plait_cpu_matmul_kernels[0];
}

/* ---- finishes ---- */

/* The unfinished product of the group whose result is exactly this operand, read by nobody else; or -1. Two accesses
 * are the product's write and this read: a third reader would need the sums as they were. */
static int product_of(const plait_cpu_reading *r, const plait_cpu_group *group, int finish, int input) {
    const plait_cpu_value *value = plait_cpu_operand_value(r, finish, input);
    if (!value || value->needed || value->n_accesses != 2) return -1;
    for (int p = 0; p < group->n_products; p++) {
        const plait_segment_node *node = &r->segment->nodes[group->products[p].node];
        if (group->products[p].finish < 0 &&
            plait_cpu_same_operand(&node->outputs[0], &r->segment->nodes[finish].inputs[input]))
            return p;
    }
    return -1;
}

/* Dims and extent alike; strides may differ. */
static bool same_dims(const plait_segment_operand *a, const plait_segment_operand *b) {
    if (memcmp(a->shape.dims, b->shape.dims, sizeof a->shape.dims) != 0 || a->outer.dim != b->outer.dim)
        return false;
    return a->outer.dim < 0 || (a->outer.axis == b->outer.axis && a->outer.a == b->outer.a &&
                                a->outer.b == b->outer.b && a->outer.c == b->outer.c);
}

/* Columns of floats that a product's epilogue can read and store: contiguous, whole floats apart. */
static bool float_columns(const plait_operand *o) {
    return o->dtype == PLAIT_F32 && o->strides[0] == (int64_t)sizeof(float) &&
           o->strides[1] % (int64_t)sizeof(float) == 0;
}

/* add(product, r) or add(r, product): r has the product's dims, or is one column that is added to all (a bias, as the
 * second input only). The sum of two floats does not depend on their order, so either input may be the product's.
 * Another column's extent would vary with the launch, so a column has none. */
static bool can_add(const plait_cpu_reading *r, const plait_cpu_group *group, int finish, int *out_index,
                    plait_cpu_group_product *out) {
    const plait_segment_node *node = &r->segment->nodes[finish];
    for (int i = 0; i < 2; i++) {
        int p = product_of(r, group, finish, i);
        const plait_segment_operand *sums = &node->inputs[i], *other = &node->inputs[1 - i];
        if (p < 0 || !float_columns(&other->shape) || !float_columns(&node->outputs[0].shape)) continue;
        bool column = i == 0 && other->shape.dims[0] == sums->shape.dims[0] && other->shape.dims[1] == 1 &&
                      other->shape.dims[2] == 1 && other->shape.dims[3] == 1 && other->outer.dim < 0;
        if (!column && !same_dims(sums, other)) continue;
        if (!same_dims(sums, &node->outputs[0])) continue;
        *out_index = p;
        *out = group->products[p];
        out->finish = finish;
        out->add_input = 1 - i;
        return true;
    }
    return false;
}

/* The gate's kernel is the same on tiles as on the whole, so bytes are too. A tile is at least one group of rows wide
 * and at most the whole output; both ends are asked. The kernel must do without barriers and scratch, for it runs
 * inside of a unit. */
static bool same_kernel_on_tiles(const plait_cpu_reading *r, int finish) {
    const plait_cpu_kernel *kernel = r->kernels[finish];
    plait_op_use use, tile;
    plait_encoding encodings[PLAIT_MAX_INPUTS] = {0};
    plait_cpu_node_use(&r->segment->nodes[finish], &use, encodings);
    if (kernel->n_phases != 1 || (kernel->scratch_bytes && kernel->scratch_bytes(&use, r->n_threads)))
        return false;
    for (int i = 0; i < 2; i++) {
        plait_cpu_gated_tile_use(&use, i ? use.outputs[0].dims[0] : PLAIT_CPU_GROUP_ROWS,
                                 use.outputs[0].dims[1], &tile);
        if (plait_cpu_kernel_find(&tile, encodings, r->features, NULL, 0) != kernel) return false;
    }
    return true;
}

/* Both inputs are products of this group, and the gate is all that reads them. The partner's own entry is changed by
 * the caller, which knows whether it takes the offer. */
static bool can_gate(const plait_cpu_reading *r, const plait_cpu_group *group, int finish, int *out_index,
                     plait_cpu_group_product *out) {
    const plait_segment_node *node = &r->segment->nodes[finish];
    int a = product_of(r, group, finish, 0), b = product_of(r, group, finish, 1);
    if (a < 0 || b < 0 || a == b || !float_columns(&node->outputs[0].shape)) return false;
    if (!same_dims(&node->inputs[0], &node->outputs[0]) || !same_kernel_on_tiles(r, finish)) return false;
    *out_index = a;
    *out = group->products[a];
    out->finish = finish;
    out->add_input = -1;
    out->partner = b;
    return true;
}

/* Changes nothing. *out is a copy of the product's entry with the finish in it. */
bool plait_cpu_can_finish(const plait_cpu_reading *reading, const plait_cpu_group *group, int finish,
                          int *out_index, plait_cpu_group_product *out) {
    switch (reading->segment->nodes[finish].op->id) {
    case PLAIT_OP_add: return can_add(reading, group, finish, out_index, out);
    case PLAIT_OP_swiglu:
    case PLAIT_OP_geglu: return can_gate(reading, group, finish, out_index, out);
    default: return false;
    }
}

/* ---- classifying ---- */

/* Quadratic in members, 48 at most. */
static bool any_conflict(const plait_cpu_reading *r, const plait_cpu_group *group) {
    for (int a = 0; a < group->n; a++)
        for (int b = a + 1; b < group->n; b++)
            if (plait_cpu_conflict(r, group->members[a], group->members[b])) return true;
    return false;
}

/* Without products: members that are independent run side by side, others as rows, which each of them must be able to
 * do. */
static bool classify_rows(const plait_cpu_reading *r, plait_cpu_group *group) {
    group->n_rows = group->n;
    group->kind = any_conflict(r, group) ? PLAIT_CPU_ROWS : PLAIT_CPU_PARALLEL;
    for (int i = 0; group->kind == PLAIT_CPU_ROWS && i < group->n; i++)
        if (!r->kernels[group->members[i]]->run_rows) return false;
    return true;
}

/* Members stand in the order rows, products, finishes; the first product ends the rows, the first that is none ends the
 * products. A group of one node is PARALLEL, or PRODUCTS with one product. */
bool plait_cpu_group_classify(const plait_cpu_reading *reading, plait_cpu_group *group) {
    int at = 0;
    group->n_products = group->n_rows = 0;
    while (at < group->n && !plait_cpu_is_product(reading, group->members[at])) at++;
    if (at == group->n) return classify_rows(reading, group);
    group->kind = PLAIT_CPU_PRODUCTS;
    group->n_rows = at;
    for (int i = 0; i < at; i++)
        if (!reading->kernels[group->members[i]]->run_rows) return false;
    for (; at < group->n && plait_cpu_is_product(reading, group->members[at]); at++) {
        if (group->n_products == PLAIT_CPU_MAX_PRODUCTS) return false;
        group->products[group->n_products++] = (plait_cpu_group_product){group->members[at], -1, -1, -1};
    }
    for (; at < group->n; at++) {
        plait_cpu_group_product finished;
        int index;
        if (!plait_cpu_can_finish(reading, group, group->members[at], &index, &finished)) return false;
        group->products[index] = finished;
        if (finished.partner >= 0) {
            group->products[finished.partner].finish = group->members[at];
            group->products[finished.partner].partner = -2;
        }
    }
    return true;
}

/* ---- scratch ---- */

/* Bytes behind what is reserved, rounded up so that the next piece is aligned; *out_offset counts from the start of the
 * scratch. */
static plait_status reserve(plait_cpu_group *group, uint64_t bytes, uint64_t *out_offset) {
    uint64_t end;
    if (!plait_add_u64(group->scratch_bytes, bytes, &end) ||
        !plait_align_u64(end, PLAIT_CPU_ALIGNMENT, &end) || end > INT64_MAX)
        return plait_error(PLAIT_OUT_OF_RANGE, "scratch of a group: sizes overflow");
    *out_offset = group->scratch_bytes;
    group->scratch_bytes = end;
    return PLAIT_OK;
}

/* A product's own result has no memory when something finishes it. */
static bool finished(const plait_cpu_group *group, int node) {
    for (int p = 0; p < group->n_products; p++)
        if (group->products[p].node == node && group->products[p].finish >= 0) return true;
    return false;
}

/* Values that are left out of memory but still made whole: rows of a chain that its later nodes read. Each is written
 * once in a group, so outputs are the places to look. */
static plait_status place_elided(const plait_cpu_reading *r, plait_cpu_group *group) {
    for (int i = 0; i < group->n; i++)
        for (int k = PLAIT_MAX_INPUTS; k < PLAIT_CPU_MAX_OPERANDS; k++) {
            plait_cpu_value *value = plait_cpu_operand_value(r, group->members[i], k);
            if (value && value->elided && !finished(group, group->members[i]))
                PLAIT_TRY(reserve(group, value->span_bytes, &value->scratch));
        }
    return PLAIT_OK;
}

/* Scratch of a product group: the input's area, an area for each thread as large as the hungriest product's, and, with
 * a gate, two tiles for each thread. Whether x is quantised is a matter of the kernels, which agree within a dtype;
 * products of one x may be of several. */
static plait_status place_products(const plait_cpu_reading *r, plait_cpu_group *group) {
    const plait_operand *x = &r->segment->nodes[group->products[0].node].inputs[1].shape;
    size_t thread_bytes = 0;
    bool gated = false;
    group->gathers = plait_cpu_input_gathers(x);
    group->quantises = false;
    for (int p = 0; p < group->n_products; p++) {
        const plait_segment_operand *w = &r->segment->nodes[group->products[p].node].inputs[0];
        size_t bytes = plait_cpu_product_thread_bytes(&w->shape, w->encoding);
        if (bytes > thread_bytes) thread_bytes = bytes;
        group->quantises |= plait_cpu_product_kernel(w->shape.dtype, r->features)->quantised_x;
        gated |= group->products[p].partner >= 0;
    }
    uint64_t threads = (uint64_t)r->n_threads;
    group->thread_bytes = thread_bytes;
    PLAIT_TRY(reserve(group, plait_cpu_input_bytes(x, group->gathers, group->quantises), &group->input_area));
    PLAIT_TRY(reserve(group, threads * thread_bytes, &group->thread_area));
    if (!gated) return PLAIT_OK;
    group->tile_floats = plait_cpu_gated_tile_floats(x->dims[1]);
    return reserve(group, threads * 2 * (uint64_t)group->tile_floats * sizeof(float), &group->tiles);
}

/* Each member's own, side by side, since members of a PARALLEL group run at the same time. */
static plait_status place_kernels(const plait_cpu_reading *r, plait_cpu_group *group) {
    for (int i = 0; i < group->n; i++) {
        const plait_cpu_kernel *kernel = r->kernels[group->members[i]];
        plait_op_use use;
        plait_encoding encodings[PLAIT_MAX_INPUTS];
        if (!kernel->scratch_bytes) continue;
        plait_cpu_node_use(&r->segment->nodes[group->members[i]], &use, encodings);
        PLAIT_TRY(reserve(group, kernel->scratch_bytes(&use, r->n_threads), &group->member_scratch[i]));
    }
    return PLAIT_OK;
}

/* A ROWS group has its elided values only: run_rows uses no scratch. */
plait_status plait_cpu_group_place(const plait_cpu_reading *reading, plait_cpu_group *group) {
    group->scratch_bytes = 0;
    PLAIT_TRY(place_elided(reading, group));
    if (group->kind == PLAIT_CPU_PRODUCTS) return place_products(reading, group);
    return group->kind == PLAIT_CPU_PARALLEL ? place_kernels(reading, group) : PLAIT_OK;
}
