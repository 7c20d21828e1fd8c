/* A graph as text, and whether two graphs are equal. The text is read back by parse.c; drawings are in dot.c.
 *
 *     plait-graph 1 "decoder"
 *     dim tokens 512
 *     %1 = input "ids" I32 [tokens]
 *     %2 = weight "wqkv" Q4_K [576, 960] parts 1 "q" 576/64 "k" 192/64 "v" 192/64
 *     %3 = state "cache" F16 [64, 16, 3, 40]
 *     %4 = get_rows "embed" %2 %1 -> F32 [576, tokens]
 *     %5 = view %4 [64, 9, tokens] strides [4, 256, 2304, 2304] offset 0
 *     block 0
 *     %6 = rms_norm "blk.0.norm" %5 _ eps=1e-05 -> F32 [64, 9, tokens]
 *     output "y" %6
 *
 * One line a row of the tensor table, in its order, so that numbers are ids. `_` is an absent input; attributes that
 * have their op's initial value are left out; a line "block" says to which block the nodes, weights and states below it
 * belong (-1, as a text begins: to none); a derived dim is written (2*tokens+1)/3; parts are size/granule. Names
 * stand in quotes with \" \\ and \xHH. Strides (of all four dims) and offsets are bytes.
 *
 * Invariant: a graph that was built prints to a text from which an equal graph is built. */
#include "graph/build.h"

#include "base/strbuf.h"

#include <string.h>

/* ---- pieces ---- */

/* Bytes above 0x7f are left: names may be UTF-8. */
void plait_graph_print_quoted(plait_strbuf *s, const char *name) {
    plait_strbuf_append_char(s, '"');
    for (; *name; name++) {
        unsigned char c = (unsigned char)*name;
        if (c == '"' || c == '\\')
            plait_strbuf_printf(s, "\\%c", c);
        else if (c < ' ' || c == 0x7f)
            plait_strbuf_printf(s, "\\x%02x", c);
        else
            plait_strbuf_append_char(s, (char)c);
    }
    plait_strbuf_append_char(s, '"');
}

/* Names of dims are bare where they look like identifiers. */
static void print_dim_name(plait_strbuf *s, const char *name) {
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_";
    static const char more[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_0123456789";
    bool plain = strspn(name, letters) > 0 && name[strspn(name, more)] == '\0';
    if (plain)
        plait_strbuf_append(s, name);
    else
        plait_graph_print_quoted(s, name);
}

/* Written out where it is not the dim itself; parse.c derives it again. */
static void print_extent(const plait_graph *graph, const plait_extent *extent, plait_strbuf *s) {
    const char *name = graph->dims[extent->dim].name;
    bool itself = extent->a == 1 && extent->b == 0 && extent->c == 1;
    if (!itself) plait_strbuf_printf(s, "(%lld*", (long long)extent->a);
    print_dim_name(s, name);
    if (!itself) plait_strbuf_printf(s, "+%lld)/%lld", (long long)extent->b, (long long)extent->c);
}

void plait_graph_print_shape(const plait_graph *graph, const plait_graph_tensor *tensor, plait_strbuf *s) {
    for (int i = 0; i < tensor->rank; i++) {
        plait_strbuf_append(s, i ? ", " : "[");
        if (tensor->outer.dim >= 0 && tensor->outer.axis == i)
            print_extent(graph, &tensor->outer, s);
        else
            plait_strbuf_printf(s, "%lld", (long long)tensor->shape.dims[i]);
    }
    plait_strbuf_append_char(s, ']');
}

/* Floats in the shortest form that reads back to the same bits. */
static void print_attr(const plait_attr_row *row, plait_attr value, plait_strbuf *s) {
    char number[32];
    plait_strbuf_printf(s, " %s=", row->name);
    switch (row->kind) {
    case PLAIT_ATTR_INT: plait_strbuf_printf(s, "%lld", (long long)value.i); break;
    case PLAIT_ATTR_BOOL: plait_strbuf_append(s, value.i ? "true" : "false"); break;
    case PLAIT_ATTR_DTYPE: plait_strbuf_append(s, plait_dtype_name((plait_dtype)value.i)); break;
    case PLAIT_ATTR_FLOAT:
        plait_format_double(value.f, number);
        plait_strbuf_append(s, number);
        break;
    }
}

/* Required ones always, so that a reader sees what there is. */
void plait_graph_print_attrs(const plait_graph_node *node, plait_strbuf *s) {
    for (int i = 0; i < node->op->n_attrs; i++) {
        const plait_attr_row *row = &node->op->attrs[i];
        if (row->required || memcmp(&row->initial, &node->attrs[i], sizeof row->initial) != 0)
            print_attr(row, node->attrs[i], s);
    }
}

const char *plait_storage_kind_name(plait_storage_kind kind) {
    switch (kind) {
    case PLAIT_STORAGE_TEMPORARY: return "temporary";
    case PLAIT_STORAGE_INPUT: return "input";
    case PLAIT_STORAGE_WEIGHT: return "weight";
    case PLAIT_STORAGE_STATE: return "state";
    }
    return "?";
}

/* ---- lines ---- */

/* Parts behind the shape, where there are any. */
static void print_root(const plait_graph *graph, const plait_graph_tensor *tensor, plait_strbuf *s) {
    const plait_graph_storage *storage = &graph->storages[tensor->storage];
    plait_strbuf_printf(s, "%s ", plait_storage_kind_name(storage->kind));
    plait_graph_print_quoted(s, storage->name);
    plait_strbuf_printf(s, " %s ", plait_dtype_name(tensor->shape.dtype));
    plait_graph_print_shape(graph, tensor, s);
    if (storage->n_parts) plait_strbuf_printf(s, " parts %d", storage->part_axis);
    for (int i = 0; i < storage->n_parts; i++) {
        plait_strbuf_append_char(s, ' ');
        plait_graph_print_quoted(s, storage->parts[i].name);
        plait_strbuf_printf(s, " %lld/%lld", (long long)storage->parts[i].size,
                            (long long)storage->parts[i].granule);
    }
}

/* All strides, also of dims of 1: the text is exact, not pretty. */
static void print_view(const plait_graph *graph, const plait_graph_tensor *tensor, plait_strbuf *s) {
    const int64_t *strides = tensor->shape.strides;
    plait_strbuf_printf(s, "view %%%u ", tensor->base);
    plait_graph_print_shape(graph, tensor, s);
    plait_strbuf_printf(s, " strides [%lld, %lld, %lld, %lld] offset %llu", (long long)strides[0],
                        (long long)strides[1], (long long)strides[2], (long long)strides[3],
                        (unsigned long long)tensor->offset);
}

/* Types and shapes of outputs are told though they follow from the op: a reader need not know its rules, and parse.c
 * compares them. */
static void print_node(const plait_graph *graph, const plait_graph_node *node, plait_strbuf *s) {
    plait_strbuf_printf(s, "%s ", node->op->name);
    plait_graph_print_quoted(s, node->name);
    for (int i = 0; i < node->n_inputs; i++) {
        if (node->inputs[i])
            plait_strbuf_printf(s, " %%%u", node->inputs[i]);
        else
            plait_strbuf_append(s, " _");
    }
    plait_graph_print_attrs(node, s);
    for (int o = 0; o < node->n_outputs; o++) {
        const plait_graph_tensor *output = &graph->tensors[node->outputs[o]];
        plait_strbuf_printf(s, "%s %s ", o ? "," : " ->", plait_dtype_name(output->shape.dtype));
        plait_graph_print_shape(graph, output, s);
    }
}

/* The block that the row of a tensor belongs to; a view has none of its own, so whatever block is current. */
static int32_t block_of_row(const plait_graph *graph, const plait_graph_tensor *tensor, int32_t current) {
    if (tensor->base) return current;
    if (tensor->node != PLAIT_NO_NODE) return graph->nodes[tensor->node].block;
    return graph->storages[tensor->storage].block;
}

/* Prints the row of tensor t, and those of the other outputs of its node; returns the next one. `*block` is the block of
 * the rows so far. */
static size_t print_row(const plait_graph *graph, size_t t, int32_t *block, plait_strbuf *s) {
    const plait_graph_tensor *tensor = &graph->tensors[t];
    size_t next = t + 1;
    int32_t now = block_of_row(graph, tensor, *block);
    if (now != *block) plait_strbuf_printf(s, "block %d\n", (int)now);
    *block = now;
    if (!tensor->base && tensor->node != PLAIT_NO_NODE)
        next = t + (size_t)graph->nodes[tensor->node].n_outputs;
    for (size_t k = t; k < next; k++) plait_strbuf_printf(s, "%s%%%zu", k > t ? ", " : "", k);
    plait_strbuf_append(s, " = ");
    if (tensor->base)
        print_view(graph, tensor, s);
    else if (tensor->node == PLAIT_NO_NODE)
        print_root(graph, tensor, s);
    else
        print_node(graph, &graph->nodes[tensor->node], s);
    plait_strbuf_append_char(s, '\n');
    return next;
}

/* An open graph prints what it holds so far. */
plait_status plait_graph_print(const plait_graph *graph, char **out_text) {
    plait_strbuf s;
    plait_strbuf_init(&s, 0);
    plait_strbuf_append(&s, "plait-graph 1 ");
    plait_graph_print_quoted(&s, graph->name);
    plait_strbuf_append_char(&s, '\n');
    for (size_t d = 0; d < graph->n_dims; d++) {
        plait_strbuf_append(&s, "dim ");
        print_dim_name(&s, graph->dims[d].name);
        plait_strbuf_printf(&s, " %lld\n", (long long)graph->dims[d].bound);
    }
    int32_t block = -1;
    for (size_t t = 1; t < graph->n_tensors;) t = print_row(graph, t, &block, &s);
    for (size_t o = 0; o < graph->n_outputs; o++) {
        plait_strbuf_append(&s, "output ");
        plait_graph_print_quoted(&s, graph->outputs[o].name);
        plait_strbuf_printf(&s, " %%%u\n", graph->outputs[o].tensor);
    }
    plait_status status = plait_strbuf_status(&s);
    if (status == PLAIT_OK) *out_text = plait_strbuf_take(&s);
    plait_strbuf_deinit(&s);
    return plait_error_context(status, "printing graph %s", graph->name);
}

/* ---- equality ---- */

/* Everything that a row of the table says, ids included: equal graphs were built in the same order. */
static bool equal_storages(const plait_graph_storage *a, const plait_graph_storage *b) {
    if (a->kind != b->kind || strcmp(a->name, b->name) != 0 || a->size_bytes != b->size_bytes ||
        a->root != b->root || a->writer != b->writer || a->block != b->block || a->n_parts != b->n_parts ||
        a->part_axis != b->part_axis)
        return false;
    for (int i = 0; i < a->n_parts; i++)
        if (strcmp(a->parts[i].name, b->parts[i].name) != 0 || a->parts[i].size != b->parts[i].size ||
            a->parts[i].granule != b->parts[i].granule)
            return false;
    return true;
}

/* `span_bytes` follows from the rest. */
static bool equal_tensors(const plait_graph_tensor *a, const plait_graph_tensor *b) {
    return a->shape.dtype == b->shape.dtype &&
           memcmp(a->shape.dims, b->shape.dims, sizeof a->shape.dims) == 0 &&
           memcmp(a->shape.strides, b->shape.strides, sizeof a->shape.strides) == 0 &&
           plait_extent_equal(&a->outer, &b->outer) && (a->outer.dim < 0 || a->outer.axis == b->outer.axis) &&
           a->rank == b->rank && a->storage == b->storage && a->offset == b->offset && a->node == b->node &&
           a->output_index == b->output_index && a->base == b->base;
}

/* Attributes by their bits. */
static bool equal_nodes(const plait_graph_node *a, const plait_graph_node *b) {
    return a->op == b->op && strcmp(a->name, b->name) == 0 && a->n_inputs == b->n_inputs &&
           a->n_outputs == b->n_outputs && a->present == b->present && a->block == b->block &&
           memcmp(a->inputs, b->inputs, sizeof a->inputs) == 0 &&
           memcmp(a->outputs, b->outputs, sizeof a->outputs) == 0 &&
           memcmp(a->attrs, b->attrs, (size_t)a->op->n_attrs * sizeof a->attrs[0]) == 0;
}

/* Table by table, for tests of print and parse; who looks for equal graphs in earnest compares words
 * (plait_graph_same). */
bool plait_graph_equal(const plait_graph *a, const plait_graph *b) {
    if (strcmp(a->name, b->name) != 0 || a->n_dims != b->n_dims || a->n_storages != b->n_storages ||
        a->n_tensors != b->n_tensors || a->n_nodes != b->n_nodes || a->n_outputs != b->n_outputs)
        return false;
    for (size_t d = 0; d < a->n_dims; d++)
        if (a->dims[d].bound != b->dims[d].bound || strcmp(a->dims[d].name, b->dims[d].name) != 0)
            return false;
    for (size_t s = 0; s < a->n_storages; s++)
        if (!equal_storages(&a->storages[s], &b->storages[s])) return false;
    for (size_t t = 1; t < a->n_tensors; t++)
        if (!equal_tensors(&a->tensors[t], &b->tensors[t])) return false;
    for (size_t n = 0; n < a->n_nodes; n++)
        if (!equal_nodes(&a->nodes[n], &b->nodes[n])) return false;
    for (size_t o = 0; o < a->n_outputs; o++)
        if (a->outputs[o].tensor != b->outputs[o].tensor ||
            strcmp(a->outputs[o].name, b->outputs[o].name) != 0)
            return false;
    return true;
}
