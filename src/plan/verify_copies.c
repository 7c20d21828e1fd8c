/* The proof that what runs is what the caller asked for, where planning inserted copies of operands: every node of the
 * caller's graph is there once, in order, with its op, attributes, shapes, and operands that are the caller's or copies of
 * them; a copy shows the same value, written by the same node and by nobody since; outputs are the caller's.
 *
 * Not here: whether what runs is right in itself (the other proofs). Nothing here trusts how the copies were made: values
 * are compared by storage, writer and address. */
#include "plan/plan.h"

#include "base/status.h"

#include <string.h>

typedef struct comparison {
    const plait_plan *plan;
    const plait_graph *now, *source;
    plait_arena scratch;
    uint32_t *node_of; /* [node of source] its number in `now` + 1, 0: not met so far */
    uint32_t *writer;  /* [storage of now] node that wrote it last + 1 */
} comparison;

/* Types, dims at the bounds, and how the outermost follows a named dim; names of dims have equal numbers in both
 * graphs, as dims are taken over first. */
static bool same_shape(const plait_graph_tensor *a, const plait_graph_tensor *b) {
    return a->shape.dtype == b->shape.dtype &&
           memcmp(a->shape.dims, b->shape.dims, sizeof a->shape.dims) == 0 && a->outer.dim == b->outer.dim &&
           (a->outer.dim < 0 || (a->outer.axis == b->outer.axis && a->outer.a == b->outer.a &&
                                 a->outer.b == b->outer.b && a->outer.c == b->outer.c));
}

/* Apart, since a copy differs from its original in just that. */
static bool same_strides(const plait_graph_tensor *a, const plait_graph_tensor *b) {
    return memcmp(a->shape.strides, b->shape.strides, sizeof a->shape.strides) == 0;
}

/* Storages are the same when they have one name and kind, or the same output of the same node made them. */
static bool same_storage(const comparison *c, uint32_t now, uint32_t source) {
    const plait_graph_storage *a = &c->now->storages[now], *b = &c->source->storages[source];
    if (a->kind != b->kind || a->size_bytes != b->size_bytes) return false;
    if (a->kind != PLAIT_STORAGE_TEMPORARY) return strcmp(a->name, b->name) == 0;
    const plait_graph_tensor *x = &c->now->tensors[a->root], *y = &c->source->tensors[b->root];
    return x->output_index == y->output_index && c->node_of[y->node] == x->node + 1;
}

/* The same value at the same place: storage, last writer, address. A value is one version of a storage: two views of it
 * are the same only at the same address. */
static bool same_value(const comparison *c, uint32_t now, uint32_t source) {
    const plait_graph_tensor *a = &c->now->tensors[now], *b = &c->source->tensors[source];
    bool same_writer =
        b->node == PLAIT_NO_NODE ? a->node == PLAIT_NO_NODE : c->node_of[b->node] == a->node + 1;
    return same_writer && a->offset == b->offset && same_strides(a, b) && same_shape(a, b) &&
           same_storage(c, a->storage, b->storage);
}

/* The operand, or a copy of it that is made by now. Dense, from the start of a storage of its own: a copy that was
 * itself a view could show other bytes. */
static bool shows(const comparison *c, uint32_t now, uint32_t source) {
    const plait_graph_tensor *tensor = &c->now->tensors[now];
    bool copied = tensor->node != PLAIT_NO_NODE && c->plan->origins[tensor->node] >= c->source->n_nodes;
    if (!copied) return same_value(c, now, source);
    return tensor->offset == 0 && tensor->base == 0 && plait_operand_is_dense(&tensor->shape) &&
           same_shape(tensor, &c->source->tensors[source]) &&
           same_value(c, c->now->nodes[tensor->node].inputs[0], source);
}

/* Outputs are compared after the node is entered in node_of, which same_storage() asks for what it makes. The written
 * operand must be the caller's own value, or the write would go to the copy. */
static plait_status compare_node(comparison *c, uint32_t n, uint32_t source) {
    const plait_graph_node *a = &c->now->nodes[n], *b = &c->source->nodes[source];
    bool same = a->op == b->op && a->n_inputs == b->n_inputs && a->n_outputs == b->n_outputs &&
                a->present == b->present && memcmp(a->attrs, b->attrs, sizeof a->attrs) == 0;
    for (int i = 0; same && i < a->n_inputs; i++) {
        bool written = i == a->op->writes_input; /* never a copy */
        same = a->inputs[i] == 0 || b->inputs[i] == 0 ? a->inputs[i] == b->inputs[i]
               : written                              ? same_value(c, a->inputs[i], b->inputs[i])
                                                      : shows(c, a->inputs[i], b->inputs[i]);
    }
    c->node_of[source] = n + 1;
    for (int o = 0; same && o < a->n_outputs; o++) same = same_value(c, a->outputs[o], b->outputs[o]);
    if (same) return PLAIT_OK;
    return plait_error(PLAIT_INTERNAL, "proof: node %s with copied operands is not the graph's", b->name);
}

/* Where an inserted node is placed or what its operand looks like is not looked at here; whether it holds what it
 * stands for shows where it is read. */
static plait_status check_copy(const comparison *c, uint32_t n) {
    const plait_graph_node *node = &c->now->nodes[n];
    if (node->op->id == PLAIT_OP_copy && node->n_inputs == 1 && node->inputs[0] && node->n_outputs == 1)
        return PLAIT_OK;
    return plait_error(PLAIT_INTERNAL, "proof: node %s was inserted, and is no copy", node->name);
}

/* A node reads what was written last; then writes. */
static plait_status check_writers(comparison *c, uint32_t n) {
    const plait_graph_node *node = &c->now->nodes[n];
    for (int i = 0; i < node->n_inputs; i++) {
        const plait_graph_tensor *tensor = &c->now->tensors[node->inputs[i]];
        uint32_t maker = tensor->node == PLAIT_NO_NODE ? 0 : tensor->node + 1;
        if (node->inputs[i] && c->writer[tensor->storage] != maker)
            return plait_error(PLAIT_INTERNAL, "proof: node %s reads an old value of \"%s\"", node->name,
                               c->now->storages[tensor->storage].name);
    }
    for (int o = 0; o < node->n_outputs; o++) c->writer[c->now->tensors[node->outputs[o]].storage] = n + 1;
    return PLAIT_OK;
}

/* Nodes of both graphs side by side: `next` is the caller's node that must come. */
static plait_status compare(comparison *c) {
    uint32_t next = 0;
    for (uint32_t n = 0; n < c->now->n_nodes; n++) {
        bool inserted = c->plan->origins[n] >= c->source->n_nodes;
        if (!inserted && c->plan->origins[n] != next)
            return plait_error(PLAIT_INTERNAL, "proof: node %u of the graph comes where %u is expected",
                               c->plan->origins[n], next);
        PLAIT_TRY(check_writers(c, n));
        PLAIT_TRY(inserted ? check_copy(c, n) : compare_node(c, n, next++));
    }
    if (next != c->source->n_nodes || c->now->n_outputs != c->source->n_outputs)
        return plait_error(PLAIT_INTERNAL, "proof: %u nodes of the graph run, expected %zu", next,
                           c->source->n_nodes);
    for (size_t o = 0; o < c->now->n_outputs; o++)
        if (strcmp(c->now->outputs[o].name, c->source->outputs[o].name) != 0 ||
            !same_value(c, c->now->outputs[o].tensor, c->source->outputs[o].tensor))
            return plait_error(PLAIT_INTERNAL, "proof: output \"%s\" is not the graph's",
                               c->source->outputs[o].name);
    return PLAIT_OK;
}

/* Without copies the plan runs the caller's own graph. */
plait_status plait_plan_verify_copies(const plait_plan *plan) {
    if (plan->graph == plan->source) return PLAIT_OK;
    comparison c = {.plan = plan, .now = plan->graph, .source = plan->source};
    plait_arena_init_pooled(&c.scratch, &plan->context->pool);
    c.node_of = plait_arena_alloc(&c.scratch, c.source->n_nodes, sizeof *c.node_of);
    c.writer = plait_arena_alloc(&c.scratch, c.now->n_storages, sizeof *c.writer);
    plait_status status = c.node_of && c.writer ? compare(&c) : plait_error_memory("proof", c.now->n_nodes);
    plait_arena_deinit(&c.scratch);
    return status;
}
