/* A graph built again with copies of operands in it. All else is appended by the same calls in the same order: names, dims,
 * and the order of nodes stay what they were. Not here: which copies (plan/copies.c). Invariant: the given graph is only
 * read. */
#include "graph/build.h"

#include "base/alloc.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct rebuild {
    const plait_graph *from;
    plait_graph *to;
    const plait_graph_copy *copies;
    size_t n_copies;
    const uint32_t *instead;
    uint32_t *origins;
    plait_tensor *now;    /* [tensor of `from`] what it is in `to` */
    plait_tensor *copied; /* [copy] */
    uint32_t *early;      /* [tensor of `from`] the first copy that stands right behind it, + 1 */
    uint32_t *next_early; /* [copy] */
    size_t next_late;     /* the next copy that stands before its reader, or that is early */
} rebuild;

/* ---- what is taken over ---- */

/* By name: dims were declared again before, in their order. */
static plait_dim dim_of(const rebuild *r, const plait_extent *extent) {
    const plait_graph_dim_row *row = &r->from->dims[extent->dim];
    plait_dim n = plait_graph_dim(r->to, row->name, row->bound);
    bool plain = extent->a == 1 && extent->b == 0 && extent->c == 1;
    return plain ? n : plait_graph_derived_dim(r->to, n, extent->a, extent->b, extent->c);
}

/* As the builder takes shapes: bounded dims as references. */
static plait_shape shape_of(const rebuild *r, const plait_graph_tensor *tensor) {
    plait_shape shape = {.rank = tensor->rank};
    for (int i = 0; i < tensor->rank; i++) {
        bool bounded = tensor->outer.dim >= 0 && tensor->outer.axis == i;
        shape.dims[i] = bounded ? dim_of(r, &tensor->outer) : tensor->shape.dims[i];
    }
    return shape;
}

/* Declared where `from` declared it, in its block and with its parts: names of weights and state are what the residence
 * knows. */
static plait_tensor add_root(rebuild *r, const plait_graph_tensor *tensor) {
    const plait_graph_storage *row = &r->from->storages[tensor->storage];
    plait_shape shape = shape_of(r, tensor);
    plait_tensor root = PLAIT_NO_TENSOR;
    plait_graph_block(r->to, row->block);
    if (row->kind == PLAIT_STORAGE_INPUT)
        root = plait_input(r->to, row->name, tensor->shape.dtype, shape);
    else if (row->kind == PLAIT_STORAGE_STATE)
        root = plait_state(r->to, row->name, tensor->shape.dtype, shape);
    else
        root = plait_weight(r->to, row->name, tensor->shape.dtype, shape);
    if (row->n_parts) plait_graph_parts(r->to, root, row->part_axis, row->parts, row->n_parts);
    return root;
}

/* ---- copies ---- */

/* Named after its reader, in its reader's block; a name that would be too long becomes "copy". origins[] of a copy lies
 * behind all nodes of `from`. */
static void add_copy(rebuild *r, size_t k) {
    const plait_graph_node *reader = &r->from->nodes[r->copies[k].reader];
    char name[PLAIT_MAX_NAME + 8];
    snprintf(name, sizeof name, "%s.copy", reader->name);
    plait_graph_block(r->to, reader->block);
    r->origins[r->to->n_nodes] = (uint32_t)(r->from->n_nodes + k);
    r->copied[k] = plait_copy(r->to, r->now[r->copies[k].tensor]);
    plait_named(r->to, strlen(name) < PLAIT_MAX_NAME ? name : "copy", r->copied[k]);
}

/* Copies that stand before their reader are added just before it, in the order of the list, which is that of readers.
 */
static void add_node(rebuild *r, uint32_t n) {
    const plait_graph_node *node = &r->from->nodes[n];
    plait_tensor inputs[PLAIT_MAX_INPUTS] = {{0}}, outputs[PLAIT_MAX_OUTPUTS];
    plait_attr_value attrs[PLAIT_MAX_ATTRS];
    for (; r->next_late < r->n_copies && r->copies[r->next_late].reader <= n; r->next_late++)
        if (!r->copies[r->next_late].early) add_copy(r, r->next_late);
    for (int i = 0; i < node->n_inputs; i++) {
        uint32_t k = r->instead[(size_t)n * PLAIT_MAX_INPUTS + (size_t)i];
        inputs[i] = k ? r->copied[k - 1] : r->now[node->inputs[i]];
    }
    for (int a = 0; a < node->op->n_attrs; a++)
        attrs[a] = (plait_attr_value){node->op->attrs[a].name, node->attrs[a]};
    plait_graph_block(r->to, node->block);
    r->origins[r->to->n_nodes] = n;
    plait_tensor first = plait_apply(r->to, node->op->id, inputs, node->n_inputs, attrs, node->op->n_attrs,
                                     outputs, node->n_outputs);
    plait_named(r->to, node->name, first);
    for (int o = 0; o < node->n_outputs; o++) r->now[node->outputs[o]] = outputs[o];
}

static void add_early(rebuild *r, uint32_t tensor) {
    for (uint32_t k = r->early[tensor]; k; k = r->next_early[k - 1]) add_copy(r, k - 1);
}

/* Tensors are walked in their order, which is the order of calls: roots, views, and nodes at their first output. */
static plait_status add_all(rebuild *r) {
    const plait_graph *from = r->from;
    for (size_t d = 0; d < from->n_dims; d++) /* dims keep their numbers */
        plait_graph_dim(r->to, from->dims[d].name, from->dims[d].bound);
    for (uint32_t t = 1; t < from->n_tensors; t++) {
        const plait_graph_tensor *tensor = &from->tensors[t];
        if (tensor->base)
            r->now[t] = plait_graph_view(r->to, r->now[tensor->base], shape_of(r, tensor),
                                         tensor->shape.strides, (int64_t)tensor->offset);
        else if (tensor->node == PLAIT_NO_NODE)
            r->now[t] = add_root(r, tensor);
        else if (tensor->output_index == 0)
            add_node(r, tensor->node);
        PLAIT_TRY(plait_graph_first_error(r->to));
        add_early(r, t);
    }
    for (size_t o = 0; o < from->n_outputs; o++)
        plait_output(r->to, from->outputs[o].name, r->now[from->outputs[o].tensor]);
    return plait_graph_seal(r->to);
}

/* Early copies of a tensor are linked in the order of the list. `instead` must name copies of just the tensors that the
 * inputs are; the proof looks at that (plan/verify_copies.c). */
plait_status plait_graph_with_copies(const plait_graph **out, const plait_graph *graph,
                                     const plait_graph_copy *copies, size_t n_copies, const uint32_t *instead,
                                     uint32_t *out_origins) {
    rebuild r = {.from = graph,
                 .copies = copies,
                 .n_copies = n_copies,
                 .instead = instead,
                 .origins = out_origins,
                 .to = plait_graph_create(&(plait_graph_options){.name = graph->name}),
                 .now = plait_alloc_array(graph->n_tensors, sizeof *r.now),
                 .copied = plait_alloc_array(n_copies, sizeof *r.copied),
                 .early = plait_alloc_array(graph->n_tensors, sizeof *r.early),
                 .next_early = plait_alloc_array(n_copies, sizeof *r.next_early)};
    plait_status status = PLAIT_OK;
    if (!r.to || !r.now || !r.copied || !r.early || !r.next_early)
        status = plait_error_memory("a graph with copies", graph->n_tensors * sizeof *r.now);
    /* From the last, so that each tensor's list comes out in the order of the copies. */
    for (size_t k = n_copies; status == PLAIT_OK && k-- > 0;) {
        if (!copies[k].early) continue;
        r.next_early[k] = r.early[copies[k].tensor];
        r.early[copies[k].tensor] = (uint32_t)k + 1;
    }
    if (status == PLAIT_OK) status = add_all(&r);
    free(r.now);
    free(r.copied);
    free(r.early);
    free(r.next_early);
    if (status != PLAIT_OK)
        plait_graph_destroy(r.to);
    else
        *out = r.to;
    return status;
}
