/* Appending a node: operands and attributes are gathered, the op's shape rule runs, outputs get storage, and
 * bounded dims travel from inputs to outputs along the op's factors.
 *
 * Invariant: a node's inputs have lower ids than its outputs, so ids are a program order. */
#include "graph/build.h"

#include "base/alloc.h"
#include "op/shape.h"

#include <string.h>

/* Cheap, and called everywhere: a use is filled in place, nothing is allocated. Absent inputs are zeroed. */
void plait_graph_use(const plait_graph *graph, uint32_t node, const int64_t *values, plait_op_use *out) {
    const plait_graph_node *row = &graph->nodes[node];
    memset(out, 0, sizeof *out);
    out->op = row->op;
    out->n_inputs = row->n_inputs;
    out->n_outputs = row->n_outputs;
    out->present = row->present;
    memcpy(out->attrs, row->attrs, sizeof row->attrs);
    for (int i = 0; i < row->n_inputs + row->n_outputs; i++) {
        bool input = i < row->n_inputs;
        uint32_t id = input ? row->inputs[i] : row->outputs[i - row->n_inputs];
        const plait_graph_tensor *tensor = &graph->tensors[id];
        plait_operand *operand = input ? &out->inputs[i] : &out->outputs[i - row->n_inputs];
        if (id == 0) continue;
        *operand = tensor->shape;
        if (values && tensor->outer.dim >= 0)
            operand->dims[tensor->outer.axis] = plait_extent_value(&tensor->outer, 0, values);
    }
}

/* ---- bounded dims through factors ---- */

/* Notes that `factor` has this extent; two operands must not disagree. */
static plait_status note_extent(const plait_factors *factors, int factor, const plait_extent *extent,
                                plait_extent *known) {
    if (known[factor].dim >= 0 && !plait_extent_equal(&known[factor], extent))
        return plait_error(PLAIT_INVALID_ARGUMENT, "index %s is bounded in two different ways",
                           factors->factors[factor].name);
    known[factor] = *extent;
    return PLAIT_OK;
}

/* A factor is one index of the op, so a bounded dim of an input bounds its factor, and every output dim that is this
 * factor alone. Refused are products with a bounded index, two bounded dims in one output, and one that is not
 * outermost: strides and offsets must not depend on a value. Inputs that bound one factor by other extents would
 * disagree at run time how long it is, even where their bounds are equal. */
plait_status plait_graph_derive_extents(const plait_graph *graph, const plait_op_use *use,
                                        const plait_tensor *inputs, plait_extent *out_extents) {
    plait_factors room;
    const plait_factors *factors;
    plait_extent known[PLAIT_MAX_FACTORS];
    bool bounded = false;
    for (int i = 0; i < use->n_inputs; i++) /* most graphs of fixed shapes stop here */
        bounded |= plait_op_has(use, i) && plait_graph_row(graph, inputs[i])->outer.dim >= 0;
    for (int o = 0; o < use->n_outputs; o++) out_extents[o] = (plait_extent){.dim = -1};
    if (!bounded) return PLAIT_OK;
    PLAIT_TRY(plait_op_factors_at(use->op, &room, &factors));
    for (int f = 0; f < PLAIT_MAX_FACTORS; f++) known[f].dim = -1;
    for (int i = 0; i < use->n_inputs; i++) {
        const plait_graph_tensor *row = plait_op_has(use, i) ? plait_graph_row(graph, inputs[i]) : NULL;
        if (!row || row->outer.dim < 0) continue;
        /* The op's text may show fewer dims than the tensor has; a bounded one that it does not show, or shows as a
         * product, has no factor of its own. */
        int axis = row->outer.axis;
        const plait_factor_operand *operand = &factors->inputs[i];
        if (axis >= operand->rank || operand->dims[axis].n != 1)
            return plait_error(PLAIT_INVALID_ARGUMENT, "input %s: dim %d cannot be bounded here",
                               operand->name, axis);
        PLAIT_TRY(note_extent(factors, operand->dims[axis].factors[0], &row->outer, known));
    }
    for (int o = 0; o < use->n_outputs; o++) {
        /* Outwards from the inputs' factors to the output's dims. */
        for (int axis = 0; axis < factors->outputs[o].rank; axis++) {
            const plait_factor_dim *dim = &factors->outputs[o].dims[axis];
            for (int k = 0; k < dim->n; k++) {
                const plait_extent *extent = &known[dim->factors[k]];
                if (extent->dim < 0) continue;
                if (dim->n != 1)
                    return plait_error(PLAIT_INVALID_ARGUMENT,
                                       "output %s: dim %d would be a product with a bounded index",
                                       factors->outputs[o].name, axis);
                if (out_extents[o].dim >= 0)
                    return plait_error(PLAIT_INVALID_ARGUMENT, "output %s: dims %d and %d are both bounded",
                                       factors->outputs[o].name, out_extents[o].axis, axis);
                out_extents[o] = *extent;
                out_extents[o].axis = axis;
            }
        }
        /* Dims of 1 may lie outside of a bounded one: they need no stride. */
        for (int axis = out_extents[o].axis + 1; out_extents[o].dim >= 0 && axis < PLAIT_MAX_RANK; axis++)
            if (use->outputs[o].dims[axis] != 1)
                return plait_error(PLAIT_INVALID_ARGUMENT, "output %s: bounded dim %d is not the outermost",
                                   factors->outputs[o].name, out_extents[o].axis);
    }
    return PLAIT_OK;
}

/* ---- gathering ---- */

/* By name, in any order; what is not given has its initial value. */
static plait_status set_attrs(plait_op_use *use, const plait_attr_value *values, int n) {
    bool given[PLAIT_MAX_ATTRS] = {0};
    const plait_op *op = use->op;
    for (int i = 0; i < op->n_attrs; i++) use->attrs[i] = op->attrs[i].initial;
    for (int i = 0; i < n; i++) {
        int index = plait_op_attr_index(op, values[i].name);
        if (index < 0)
            return plait_error(PLAIT_INVALID_ARGUMENT, "there is no attribute \"%.60s\"", values[i].name);
        if (given[index])
            return plait_error(PLAIT_INVALID_ARGUMENT, "attribute \"%s\" is given twice", values[i].name);
        given[index] = true;
        use->attrs[index] = values[i].value;
    }
    for (int i = 0; i < op->n_attrs; i++)
        if (op->attrs[i].required && !given[i])
            return plait_error(PLAIT_INVALID_ARGUMENT, "attribute \"%s\" is missing", op->attrs[i].name);
    return PLAIT_OK;
}

/* An operand must be the newest value of its storage: at run time the bytes of an older one are gone. id 0 is an absent
 * input, which the shape rule accepts or not. */
static plait_status set_inputs(const plait_graph *graph, plait_op_use *use, const plait_tensor *inputs,
                               int n) {
    if (n < 0 || n > PLAIT_MAX_INPUTS)
        return plait_error(PLAIT_INVALID_ARGUMENT, "%d inputs, at most %d", n, PLAIT_MAX_INPUTS);
    use->n_inputs = n;
    for (int i = 0; i < n; i++) {
        if (inputs[i].id == 0) continue;
        const plait_graph_tensor *row = plait_graph_row(graph, inputs[i]);
        if (!row)
            return plait_error(PLAIT_INVALID_ARGUMENT, "input %d: %u is not a tensor of this graph", i,
                               inputs[i].id);
        const plait_graph_storage *storage = &graph->storages[row->storage];
        /* A view has the node of the value that it shows, so views of older values are found as well. */
        if (row->node != storage->writer)
            return plait_error(PLAIT_INVALID_ARGUMENT,
                               "input %d is an old value of \"%s\": node \"%s\" wrote it since", i,
                               storage->name, graph->nodes[storage->writer].name);
        use->inputs[i] = row->shape;
        use->present |= 1u << i;
    }
    return PLAIT_OK;
}

/* ---- appending ---- */

/* Output 0 of an op that writes in place: a new value in the storage that it writes. It has type, shape and place of
 * what it writes, whatever the shape rule derived. */
static plait_status in_place_row(const plait_graph *graph, const plait_op *op, const plait_tensor *inputs,
                                 plait_graph_tensor *row) {
    const plait_graph_tensor *target = plait_graph_row(graph, inputs[op->writes_input]);
    const plait_graph_storage *storage = &graph->storages[target->storage];
    if (storage->kind == PLAIT_STORAGE_WEIGHT || storage->kind == PLAIT_STORAGE_INPUT)
        return plait_error(PLAIT_INVALID_ARGUMENT, "would write \"%s\", which is %s", storage->name,
                           storage->kind == PLAIT_STORAGE_WEIGHT ? "a weight" : "an input");
    row->shape = target->shape;
    row->outer = target->outer;
    row->rank = target->rank;
    row->storage = target->storage;
    row->offset = target->offset;
    return PLAIT_OK;
}

/* Before anything is written: with this the rest of append_node() cannot fail half way. */
static plait_status reserve_rows(plait_graph *graph, int n_outputs) {
    size_t n = (size_t)n_outputs;
    PLAIT_TRY(plait_grow(&graph->tensors, &graph->tensor_capacity, graph->n_tensors + n,
                         sizeof *graph->tensors, PLAIT_GRAPH_MAX_ENTRIES, "graph tensors"));
    PLAIT_TRY(plait_grow(&graph->storages, &graph->storage_capacity, graph->n_storages + n,
                         sizeof *graph->storages, PLAIT_GRAPH_MAX_ENTRIES, "graph storages"));
    return plait_grow(&graph->nodes, &graph->node_capacity, graph->n_nodes + 1, sizeof *graph->nodes,
                      PLAIT_GRAPH_MAX_ENTRIES, "graph nodes");
}

/* A node's outputs get consecutive ids, on which text and rebuilding rely. Storages of new values are named after the
 * node, and belong to its block. */
static plait_status append_node(plait_graph *graph, const plait_op_use *use, const plait_tensor *inputs,
                                const plait_extent *extents) {
    plait_graph_node node = {.op = use->op,
                             .n_inputs = use->n_inputs,
                             .n_outputs = use->n_outputs,
                             .present = use->present,
                             .block = graph->builder->block};
    plait_graph_tensor rows[PLAIT_MAX_OUTPUTS] = {0};
    PLAIT_TRY(reserve_rows(graph, use->n_outputs));
    PLAIT_TRY(plait_graph_name(graph, use->op->name, true, &node.name));
    memcpy(node.attrs, use->attrs, sizeof node.attrs);
    for (int i = 0; i < use->n_inputs; i++) node.inputs[i] = inputs[i].id;
    for (int o = 0; o < use->n_outputs; o++) {
        rows[o] = (plait_graph_tensor){.shape = use->outputs[o],
                                       .outer = extents[o],
                                       .output_index = (uint32_t)o,
                                       .node = (uint32_t)graph->n_nodes};
        rows[o].rank = plait_graph_rank(rows[o].shape.dims, &rows[o].outer);
        if (o == 0 && use->op->writes_input >= 0) PLAIT_TRY(in_place_row(graph, use->op, inputs, &rows[o]));
        rows[o].span_bytes = (uint64_t)plait_operand_span_bytes(&rows[o].shape);
    }
    for (int o = 0; o < use->n_outputs; o++) { /* cannot fail any more: room was reserved */
        /* Only output 0 of an op that writes in place has no storage of its own. */
        if (o > 0 || use->op->writes_input < 0) {
            plait_graph_storage storage = {.kind = PLAIT_STORAGE_TEMPORARY,
                                           .name = node.name,
                                           .block = node.block,
                                           .root = (uint32_t)graph->n_tensors,
                                           .size_bytes = rows[o].span_bytes};
            rows[o].storage = (uint32_t)graph->n_storages;
            graph->storages[graph->n_storages++] = storage;
        }
        graph->storages[rows[o].storage].writer = (uint32_t)graph->n_nodes;
        node.outputs[o] = (uint32_t)graph->n_tensors;
        graph->tensors[graph->n_tensors++] = rows[o];
    }
    graph->nodes[graph->n_nodes++] = node;
    return PLAIT_OK;
}

/* Operands, attributes, the op's rule, bounded dims, then the row: each step needs the ones before. */
static plait_status add_node(plait_graph *graph, plait_op_use *use, const plait_tensor *inputs, int n_inputs,
                             const plait_attr_value *attrs, int n_attrs) {
    plait_extent extents[PLAIT_MAX_OUTPUTS];
    PLAIT_TRY(set_inputs(graph, use, inputs, n_inputs));
    PLAIT_TRY(set_attrs(use, attrs, n_attrs));
    PLAIT_TRY(plait_op_infer(use));
    PLAIT_TRY(plait_graph_derive_extents(graph, use, inputs, extents));
    return append_node(graph, use, inputs, extents);
}

/* Errors say number, scope and op of the node that would have been. `outputs` may be NULL for who wants the first only.
 */
plait_tensor plait_apply(plait_graph *graph, plait_op_id op, const plait_tensor *inputs, int n_inputs,
                         const plait_attr_value *attrs, int n_attrs, plait_tensor *outputs, int n_outputs) {
    for (int o = 0; outputs && o < n_outputs; o++) outputs[o] = PLAIT_NO_TENSOR;
    if (plait_graph_closed(graph)) return PLAIT_NO_TENSOR;
    if ((int)op < 0 || op >= PLAIT_OP_COUNT)
        return plait_graph_fail(graph,
                                plait_error(PLAIT_INVALID_ARGUMENT, "op number %d is unknown", (int)op));
    plait_op_use use = {.op = plait_op_get(op)};
    plait_status status = add_node(graph, &use, inputs, n_inputs, attrs, n_attrs);
    if (status == PLAIT_OK && outputs && n_outputs != use.n_outputs)
        status = plait_error(PLAIT_INVALID_ARGUMENT, "%d outputs asked for, the op has %d", n_outputs,
                             use.n_outputs);
    if (status != PLAIT_OK)
        return plait_graph_fail(graph, plait_error_context(status, "node %zu \"%s%s\"", graph->n_nodes,
                                                           graph->builder->scope, use.op->name));
    const plait_graph_node *node = &graph->nodes[graph->n_nodes - 1];
    for (int o = 0; outputs && o < n_outputs; o++) outputs[o].id = node->outputs[o];
    return (plait_tensor){node->outputs[0]};
}
