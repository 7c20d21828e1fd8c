/* Which nodes of a segment run as one. Nodes are taken in program order; each group starts at the first node that is
 * not in a group yet and looks a bounded way ahead for nodes that may join it. A node may join when nothing before it
 * that stays behind touches what it touches.
 *
 * Not here: what kinds of groups there are (group.h), which kernel a node gets (kernels.c), tasks and addresses
 * (compile.c).
 *
 * Invariant: between two nodes that touch a value which one of them writes, program order is kept: by the order of
 * groups, by the phases of a group, or because both work row by row on the same rows. */
#include "base/alloc.h"
#include "base/size.h"
#include "device/cpu/group.h"

#include <stdlib.h>
#include <string.h>

/* WINDOW: how far a group looks ahead, which bounds the time of preparing: linear in nodes, times WINDOW.
 * MAX_CHAIN_ROW: floats of a row that may be part of a chain; longer rows leave the near caches between one node and
 * the next. */
enum { WINDOW = 64, MAX_CHAIN_ROW = 16384 };

typedef struct chooser {
    plait_cpu_reading *r;
    bool *done;     /* in this or an earlier group */
    int first;      /* first node that is in none */
    uint32_t stamp; /* of the current scan */
    plait_cpu_group group;
} chooser;

static const plait_segment_node *node_of(const chooser *c, int n) {
    return &c->r->segment->nodes[n];
}

/* ---- scans ---- */

/* Node n runs after the group that is being chosen: what it touches may not be touched across it. Stamps instead of
 * flags, so that a scan begins without clearing all values. */
static void leave_behind(chooser *c, int n) {
    for (int k = 0; k < PLAIT_CPU_MAX_OPERANDS; k++) {
        plait_cpu_value *value = plait_cpu_operand_value(c->r, n, k);
        if (!value) continue;
        if (plait_cpu_is_output(k))
            value->skipped_written = c->stamp;
        else
            value->skipped_read = c->stamp;
    }
}

/* Nothing that is left behind before the node touches what it touches: it reads nothing that was skipped by its writer,
 * and writes nothing that was skipped by a reader or writer. */
static bool ready(const chooser *c, int n) {
    for (int k = 0; k < PLAIT_CPU_MAX_OPERANDS; k++) {
        const plait_cpu_value *value = plait_cpu_operand_value(c->r, n, k);
        if (!value) continue;
        if (value->skipped_written == c->stamp) return false;
        if (plait_cpu_is_output(k) && value->skipped_read == c->stamp) return false;
    }
    return true;
}

/* In the order of joining, which is program order within a scan. */
static void add_member(chooser *c, int n) {
    c->group.members[c->group.n++] = n;
    c->done[n] = true;
}

/* Adds every node of the window that is ready and wanted; the others are left behind, in this scan. Scans follow each
 * other for rows, products and finishes, so a node that the first one leaves behind may join in a later one, at a later
 * place of the group. Members that have joined before are passed over: whoever joins later runs behind them, or beside
 * them without conflict, which `wants` has to see to. */
static void scan(chooser *c, bool (*wants)(chooser *c, int n)) {
    int end = (int)plait_min_i64((int64_t)c->first + WINDOW, c->r->segment->n_nodes);
    c->stamp++;
    for (int n = c->first; n < end; n++) {
        if (c->done[n]) continue;
        if (c->group.n < PLAIT_CPU_MAX_MEMBERS && ready(c, n) && wants(c, n))
            add_member(c, n);
        else
            leave_behind(c, n);
    }
}

/* ---- rows ---- */

/* Dims 1 to 3 and their extent are alike, so row i of one is row i of the other in every launch. */
static bool same_rows(const plait_segment_operand *a, const plait_segment_operand *b) {
    for (int d = 1; d < PLAIT_MAX_RANK; d++)
        if (a->shape.dims[d] != b->shape.dims[d]) return false;
    if (a->outer.dim != b->outer.dim) return false;
    return a->outer.dim < 0 || (a->outer.axis == b->outer.axis && a->outer.a == b->outer.a &&
                                a->outer.b == b->outer.b && a->outer.c == b->outer.c);
}

/* Every output is made row by row, of the same rows. */
static bool has_rows(const chooser *c, int n) {
    const plait_segment_node *node = node_of(c, n);
    if (!c->r->kernels[n]->run_rows) return false;
    for (int i = 0; i < node->n_outputs; i++)
        if (node->outputs[i].shape.dims[0] > MAX_CHAIN_ROW ||
            !same_rows(&node->outputs[i], &node->outputs[0]))
            return false;
    return true;
}

/* Where two nodes of a chain touch one value, and one writes it, they must mean the same rows of it: then running all
 * nodes on a block of rows, block after block on any thread, keeps the order between them. */
static bool rows_agree(const chooser *c, int a, int b) {
    const plait_segment_operand *rows = &node_of(c, a)->outputs[0];
    for (int i = 0; i < PLAIT_CPU_MAX_OPERANDS; i++)
        for (int k = 0; k < PLAIT_CPU_MAX_OPERANDS; k++) {
            const plait_cpu_value *value = plait_cpu_operand_value(c->r, a, i);
            bool writes = plait_cpu_is_output(i) || plait_cpu_is_output(k);
            if (!value || value != plait_cpu_operand_value(c->r, b, k) || !writes) continue;
            const plait_segment_operand *x = plait_cpu_operand(node_of(c, a), i),
                                        *y = plait_cpu_operand(node_of(c, b), k);
            if (!plait_cpu_same_operand(x, y) || !same_rows(x, rows)) return false;
        }
    return true;
}

/* Continues the chain: same rows, and made from what the chain makes. Without that link nodes would be better beside
 * each other than one after the other. */
static bool wants_rows(chooser *c, int n) {
    bool linked = false;
    if (!has_rows(c, n) ||
        !same_rows(&node_of(c, n)->outputs[0], &node_of(c, c->group.members[0])->outputs[0]))
        return false;
    for (int i = 0; i < c->group.n; i++) {
        if (!rows_agree(c, c->group.members[i], n)) return false;
        linked |= plait_cpu_conflict(c->r, c->group.members[i], n);
    }
    return linked;
}

/* ---- products ---- */

/* The x of a product is made by the chain, row for row: the rows phase then quantises each of its columns right after
 * they are made. Batched x (dims 2 and 3) has rows that are not its columns. */
static bool made_by_chain(const chooser *c, const plait_segment_operand *x) {
    bool made = false;
    for (int i = 0; i < c->group.n_rows; i++) {
        const plait_segment_node *node = node_of(c, c->group.members[i]);
        if (node->outputs[0].value != x->value) continue;
        if (!plait_cpu_same_operand(&node->outputs[0], x)) return false;
        made = true;
    }
    return made && x->shape.dims[2] == 1 && x->shape.dims[3] == 1;
}

/* From this member of the group on: behind the rows, there is the barrier between the two phases that settles
 * conflicts. */
static bool conflicts_from(const chooser *c, int first_member, int n) {
    for (int i = first_member; i < c->group.n; i++)
        if (plait_cpu_conflict(c->r, c->group.members[i], n)) return true;
    return false;
}

/* All products of a group read the same x, operand by operand. One that nothing was chained in front of brings its own
 * x; one behind a chain must read what the chain makes, for phase 0 walks over the columns of x. */
static bool wants_product(chooser *c, int n) {
    plait_cpu_group *g = &c->group;
    if (!plait_cpu_is_product(c->r, n) || g->n_products == PLAIT_CPU_MAX_PRODUCTS) return false;
    const plait_segment_operand *x = &node_of(c, n)->inputs[1];
    bool fits = g->n_products ? plait_cpu_same_operand(x, &node_of(c, g->products[0].node)->inputs[1])
                              : g->n_rows == 0 || made_by_chain(c, x);
    if (!fits || conflicts_from(c, g->n_rows, n)) return false;
    g->products[g->n_products++] = (plait_cpu_group_product){n, -1, -1, -1};
    return true;
}

/* A finish may touch what the other products and finishes touch only where it takes their sums: products of a group run
 * at the same time, in one phase. What the rows touch is settled by the barrier. */
static bool wants_finish(chooser *c, int n) {
    plait_cpu_group *g = &c->group;
    plait_cpu_group_product finished;
    int index;
    if (!plait_cpu_can_finish(c->r, g, n, &index, &finished)) return false;
    for (int i = g->n_rows; i < g->n; i++) {
        int member = g->members[i];
        bool own = member == finished.node ||
                   (finished.partner >= 0 && member == g->products[finished.partner].node);
        if (!own && plait_cpu_conflict(c->r, member, n)) return false;
    }
    g->products[index] = finished;
    if (finished.partner >= 0) {
        g->products[finished.partner].finish = n;
        g->products[finished.partner].partner = -2;
    }
    return true;
}

/* ---- side by side ---- */

/* Its result is the x of a product, which would rather have it in its own group: there its rows are quantised while
 * they are in the cache. */
static bool feeds_product(const chooser *c, int n) {
    int end = (int)plait_min_i64((int64_t)n + WINDOW, c->r->segment->n_nodes);
    for (int m = n + 1; m < end; m++)
        if (plait_cpu_is_product(c->r, m) &&
            node_of(c, m)->inputs[1].value == node_of(c, n)->outputs[0].value)
            return true;
    return false;
}

/* Independent of all members, and not better kept for a product's chain. */
static bool wants_beside(chooser *c, int n) {
    if (plait_cpu_is_product(c->r, n) || conflicts_from(c, 0, n)) return false;
    return !(has_rows(c, n) && feeds_product(c, n));
}

/* ---- groups ---- */

/* The next group, members in the order in which a group has them: rows, products, finishes. A chain of one node that no
 * product wants is a single node like any other, so it is given company for its phase. */
static void choose(chooser *c) {
    int first = c->first;
    memset(&c->group, 0, sizeof c->group);
    add_member(c, first);
    if (plait_cpu_is_product(c->r, first)) {
        c->group.products[c->group.n_products++] = (plait_cpu_group_product){first, -1, -1, -1};
    } else if (has_rows(c, first)) {
        scan(c, wants_rows);
        c->group.n_rows = c->group.n;
    } else {
        scan(c, wants_beside);
        return;
    }
    scan(c, wants_product);
    if (c->group.n_products)
        scan(c, wants_finish);
    else if (c->group.n == 1)
        scan(c, wants_beside);
}

/* Accesses by members of this group alone; called with +1, and with -1 when the group is done, which clears it in time
 * proportional to the group. */
static void count_accesses(chooser *c, int change) {
    for (int i = 0; i < c->group.n; i++)
        for (int k = 0; k < PLAIT_CPU_MAX_OPERANDS; k++) {
            plait_cpu_value *value = plait_cpu_operand_value(c->r, c->group.members[i], k);
            if (value) value->group_accesses += change;
        }
}

/* Values that only this group touches never exist outside of its scratch. All accesses of the segment are the group's,
 * at least two of them: a result that nobody reads has to go somewhere, and goes where the planner says. */
static void elide(chooser *c, plait_prepared *out) {
    for (int i = 0; i < c->group.n; i++)
        for (int k = PLAIT_MAX_INPUTS; k < PLAIT_CPU_MAX_OPERANDS; k++) {
            plait_cpu_value *value = plait_cpu_operand_value(c->r, c->group.members[i], k);
            if (!value || value->elided || value->needed || value->group_accesses != value->n_accesses ||
                value->n_accesses < 2)
                continue;
            value->elided = true;
            out->elided[out->n_elided++] = value->id;
        }
}

/* An output may lie over an input that nobody else in the group touches. The op must say that it can run in place on
 * that input (in_place_inputs); both must lie alike, element on element, and at the beginning of their storage, since
 * sharing is by storage. An op that writes an input has its output there already. Whether the input is dead behind the
 * group is for the planner to know. */
static void share(chooser *c, plait_prepared *out) {
    for (int i = 0; i < c->group.n; i++) {
        const plait_segment_node *node = node_of(c, c->group.members[i]);
        const plait_segment_operand *output = &node->outputs[0];
        const plait_cpu_value *to = plait_cpu_operand_value(c->r, c->group.members[i], PLAIT_MAX_INPUTS);
        if (node->op->writes_input >= 0 || node->n_outputs != 1 || to->elided || output->view_offset)
            continue;
        for (int k = 0; k < node->n_inputs; k++) {
            const plait_segment_operand *input = &node->inputs[k];
            const plait_cpu_value *from = plait_cpu_operand_value(c->r, c->group.members[i], k);
            if (!from || !(node->op->in_place_inputs >> k & 1u)) continue;
            if (from == to || from->elided || from->group_accesses != 1 || input->view_offset ||
                input->is_weight || input->shape.dtype != output->shape.dtype ||
                memcmp(input->shape.dims, output->shape.dims, sizeof input->shape.dims) != 0 ||
                memcmp(input->shape.strides, output->shape.strides, sizeof input->shape.strides) != 0)
                continue;
            out->shared[out->n_shared++] = (struct plait_shared_pair){to->id, from->id};
        }
    }
}

/* Classifying what was just chosen cannot fail, unless choosing and classifying disagree, which compile would find out
 * too late. */
static plait_status finish_group(chooser *c, plait_prepared *out, int *n_ordered) {
    const plait_segment_node *node = node_of(c, c->group.members[0]);
    if (!plait_cpu_group_classify(c->r, &c->group))
        return plait_error(PLAIT_INTERNAL, "node %s (%s): its group of %d is none", node->name,
                           node->op->name, c->group.n);
    count_accesses(c, 1);
    elide(c, out);
    share(c, out);
    count_accesses(c, -1);
    PLAIT_TRY(plait_cpu_group_place(c->r, &c->group));
    out->groups[out->n_groups++] =
        (plait_group){.first = *n_ordered,
                      .n = c->group.n,
                      .scratch_bytes = c->group.scratch_bytes,
                      .scratch_alignment = c->group.scratch_bytes ? PLAIT_CPU_ALIGNMENT : 1};
    for (int i = 0; i < c->group.n; i++) out->order[(*n_ordered)++] = c->group.members[i];
    return PLAIT_OK;
}

/* Tables as long as they can become. n_groups and the others count as entries are made. */
static plait_status reserve(const plait_cpu_reading *r, plait_prepared *out, bool **out_done) {
    size_t n = (size_t)r->segment->n_nodes;
    out->groups = plait_alloc_array(n, sizeof *out->groups);
    out->order = plait_alloc_array(n, sizeof *out->order);
    out->elided = plait_alloc_array((size_t)r->n_values, sizeof *out->elided);
    out->shared = plait_alloc_array(n * PLAIT_MAX_INPUTS, sizeof *out->shared);
    *out_done = plait_alloc_array(n, sizeof **out_done);
    if (out->groups && out->order && out->elided && out->shared && *out_done) return PLAIT_OK;
    return plait_error_memory("preparing a segment", n * sizeof *out->groups);
}

/* The chooser holds a whole group, too much for a stack that may be a small thread's, so it lies in the reading's
 * arena. */
static plait_status prepare(plait_cpu_reading *r, plait_prepared *out, bool *done) {
    chooser *c = plait_arena_alloc(&r->arena, 1, sizeof *c);
    int n_ordered = 0;
    if (!c) return plait_error_memory("preparing a segment", sizeof *c);
    c->r = r;
    c->done = done;
    for (int v = 0; v < r->n_values; v++) r->values[v].group_accesses = 0;
    for (; c->first < r->segment->n_nodes; c->first++) {
        if (done[c->first]) continue;
        choose(c);
        PLAIT_TRY(finish_group(c, out, &n_ordered));
    }
    return PLAIT_OK;
}

plait_status plait_cpu_prepare(plait_device *device, const plait_segment *segment, plait_prepared *out) {
    plait_cpu_reading reading;
    plait_prepared prepared = {0};
    bool *done = NULL;
    PLAIT_TRY(plait_cpu_reading_init(&reading, (const plait_cpu_device *)device, segment));
    plait_status status = reserve(&reading, &prepared, &done);
    if (status == PLAIT_OK) status = prepare(&reading, &prepared, done);
    free(done);
    plait_cpu_reading_deinit(&reading);
    if (status != PLAIT_OK) {
        plait_cpu_prepared_destroy(device, &prepared);
        return status;
    }
    *out = prepared;
    return PLAIT_OK;
}

void plait_cpu_prepared_destroy(plait_device *device, plait_prepared *prepared) {
    (void)device;
    if (!prepared) return;
    free(prepared->groups);
    free(prepared->order);
    free(prepared->elided);
    free(prepared->shared);
    *prepared = (plait_prepared){0};
}
