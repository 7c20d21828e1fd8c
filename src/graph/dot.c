/* A graph as a drawing for Graphviz (https://graphviz.org/doc/info/lang.html). Boxes are nodes, in clusters by scope
 * (the part of a name before its last '.'); rounded boxes are inputs, weights and states; an edge through views is
 * dashed and shows the viewed shape. Weights are drawn where they are used, small, so that edges stay short.
 *
 * Invariant: every name is quoted and escaped, whatever bytes it has. */
#include "graph/build.h"

#include "base/strbuf.h"

#include <stdio.h>
#include <string.h>

/* Quotes and backslashes escaped; control bytes are not drawn. */
static void print_label(plait_strbuf *s, const char *text, size_t n) {
    for (size_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char)text[i];
        if (c == '"' || c == '\\') plait_strbuf_append_char(s, '\\');
        plait_strbuf_append_char(s, c < ' ' || c == 0x7f ? '?' : (char)c);
    }
}

static void print_text(plait_strbuf *s, const char *text) {
    print_label(s, text, strlen(text));
}

/* Bytes of the scope in a node's name, the last '.' not counted. */
static size_t scope_bytes(const char *name) {
    const char *dot = strrchr(name, '.');
    return dot ? (size_t)(dot - name) : 0;
}

/* Through the escape as well, since names of dims may be quoted in it. */
static void print_shape_label(const plait_graph *graph, uint32_t t, plait_strbuf *s) {
    plait_strbuf shape;
    plait_strbuf_init(&shape, 0);
    plait_graph_print_shape(graph, &graph->tensors[t], &shape);
    print_text(s, plait_strbuf_text(&shape));
    plait_strbuf_inherit(s, &shape);
    plait_strbuf_deinit(&shape);
}

/* ---- boxes ---- */

/* A line for what it is called, one for its op if that says more, one for its attributes. Nodes that write in place are
 * warmer. */
static void print_node(const plait_graph *graph, uint32_t n, plait_strbuf *s) {
    const plait_graph_node *node = &graph->nodes[n];
    size_t scope = scope_bytes(node->name);
    const char *last = node->name + (scope ? scope + 1 : 0);
    plait_strbuf attrs;
    plait_strbuf_init(&attrs, 0);
    plait_graph_print_attrs(node, &attrs);
    plait_strbuf_printf(s, "    n%u [label=\"", n);
    print_text(s, last);
    if (strcmp(last, node->op->name) != 0) plait_strbuf_printf(s, "\\n%s", node->op->name);
    if (attrs.length) plait_strbuf_append(s, "\\n"), print_text(s, plait_strbuf_text(&attrs) + 1);
    plait_strbuf_printf(s, "\", fillcolor=\"%s\"];\n", node->op->writes_input >= 0 ? "#f8dcc4" : "#e3ecf7");
    plait_strbuf_inherit(s, &attrs);
    plait_strbuf_deinit(&attrs);
}

/* Neighbouring nodes of one scope share a cluster; a scope that is met again gets another one. */
static void print_nodes(const plait_graph *graph, plait_strbuf *s) {
    size_t open = 0;
    const char *scope = "";
    for (uint32_t n = 0; n < graph->n_nodes; n++) {
        const char *name = graph->nodes[n].name;
        size_t bytes = scope_bytes(name);
        bool same = n > 0 && bytes == open && memcmp(scope, name, bytes) == 0;
        if (!same && open) plait_strbuf_append(s, "  }\n");
        if (!same && bytes) {
            plait_strbuf_printf(s, "  subgraph cluster_%u {\n    label=\"", n);
            print_label(s, name, bytes);
            plait_strbuf_append(s, "\";\n");
        }
        scope = name;
        open = bytes;
        print_node(graph, n, s);
    }
    if (open) plait_strbuf_append(s, "  }\n");
}

/* Boxes of inputs, weights and states by colour; a weight's box has a suffix for each use. */
static void print_root(const plait_graph *graph, uint32_t storage, const char *suffix, plait_strbuf *s) {
    static const char *const fills[] = {"#ffffff", "#dff2df", "#f1f1f1", "#fbe3c8"};
    const plait_graph_storage *row = &graph->storages[storage];
    plait_strbuf_printf(s, "  s%u%s [shape=box, style=\"rounded,filled\", fillcolor=\"%s\", label=\"",
                        storage, suffix, fills[row->kind]);
    print_text(s, row->name);
    plait_strbuf_printf(s, "\\n%s ", plait_dtype_name(graph->tensors[row->root].shape.dtype));
    print_shape_label(graph, row->root, s);
    plait_strbuf_append(s, "\"];\n");
}

/* ---- edges ---- */

/* Name of the box that holds a value: its node, or the box of its input, weight or state. */
static void print_source(const plait_graph *graph, uint32_t t, const char *suffix, plait_strbuf *s) {
    const plait_graph_tensor *tensor = &graph->tensors[t];
    if (tensor->node != PLAIT_NO_NODE)
        plait_strbuf_printf(s, "  n%u", tensor->node);
    else
        plait_strbuf_printf(s, "  s%u%s", tensor->storage, suffix);
}

/* Edges are labelled with the shape that is read, where that is not the box's own. */
static void print_edge(const plait_graph *graph, uint32_t t, const char *suffix, const char *target,
                       plait_strbuf *s) {
    bool labelled = graph->tensors[t].base || graph->tensors[t].node != PLAIT_NO_NODE;
    print_source(graph, t, suffix, s);
    plait_strbuf_printf(s, " -> %s [label=\"", target);
    if (labelled) print_shape_label(graph, t, s);
    plait_strbuf_printf(s, "\"%s];\n", graph->tensors[t].base ? ", style=dashed" : "");
}

/* A weight gets a box for each use, named by `suffix`; other storages have one box. */
static void print_use(const plait_graph *graph, uint32_t t, const char *target, const char *suffix,
                      plait_strbuf *s) {
    uint32_t storage = graph->tensors[t].storage;
    bool weight = graph->storages[storage].kind == PLAIT_STORAGE_WEIGHT;
    if (weight) print_root(graph, storage, suffix, s);
    print_edge(graph, t, weight ? suffix : "", target, s);
}

/* Weights' boxes are printed here, beside their use. */
static void print_edges(const plait_graph *graph, plait_strbuf *s) {
    char target[32], suffix[32];
    for (uint32_t n = 0; n < graph->n_nodes; n++)
        for (int i = 0; i < graph->nodes[n].n_inputs; i++) {
            if (!graph->nodes[n].inputs[i]) continue;
            snprintf(target, sizeof target, "n%u", n);
            snprintf(suffix, sizeof suffix, "_%u_%d", n, i);
            print_use(graph, graph->nodes[n].inputs[i], target, suffix, s);
        }
    for (size_t o = 0; o < graph->n_outputs; o++) {
        snprintf(target, sizeof target, "out%zu", o);
        plait_strbuf_printf(s, "  %s [shape=box, style=\"rounded,filled\", fillcolor=\"#fff6bf\", label=\"",
                            target);
        print_text(s, graph->outputs[o].name);
        plait_strbuf_append(s, "\"];\n");
        print_use(graph, graph->outputs[o].tensor, target, target, s);
    }
}

/* Boxes that several edges share come first; weights' come with their edges. */
plait_status plait_graph_print_dot(const plait_graph *graph, char **out_text) {
    plait_strbuf s;
    plait_strbuf_init(&s, 0);
    plait_strbuf_append(&s, "digraph \"");
    print_text(&s, graph->name);
    plait_strbuf_append(&s,
                        "\" {\n  rankdir=TB; fontname=\"Helvetica\"; ranksep=0.25; nodesep=0.2;\n"
                        "  node [shape=box, style=filled, fontname=\"Helvetica\", fontsize=10, height=0.3, "
                        "margin=\"0.08,0.04\", color=\"#667788\"];\n"
                        "  edge [fontname=\"Helvetica\", fontsize=8, color=\"#667788\", arrowsize=0.6];\n"
                        "  graph [fontsize=11, color=\"#aab4be\", style=rounded];\n");
    for (uint32_t i = 0; i < graph->n_storages; i++) {
        plait_storage_kind kind = graph->storages[i].kind;
        if (kind == PLAIT_STORAGE_INPUT || kind == PLAIT_STORAGE_STATE) print_root(graph, i, "", &s);
    }
    print_nodes(graph, &s);
    print_edges(graph, &s);
    plait_strbuf_append(&s, "}\n");
    plait_status status = plait_strbuf_status(&s);
    if (status == PLAIT_OK) *out_text = plait_strbuf_take(&s);
    plait_strbuf_deinit(&s);
    return plait_error_context(status, "drawing graph %s", graph->name);
}
