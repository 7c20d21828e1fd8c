/* room: graph */
/* Any bytes as a graph in text form. What reads must print, read back equal, print the same again, and be drawable; and
 * every view must stay inside its storage at every value of its dim, which is looked at here in another way than the
 * builder does. What does not read must leave a message. */
#include "graph/graph.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void broken(const char *what) {
    fprintf(stderr, "%s: %s\n", what, plait_error_message());
    abort();
}

static int64_t span_at(const plait_graph_tensor *tensor, int64_t value) {
    int64_t values[64] = {0};
    plait_operand operand = tensor->shape;
    if (tensor->outer.dim >= 0) {
        values[tensor->outer.dim] = value;
        operand.dims[tensor->outer.axis] = plait_extent_value(&tensor->outer, 0, values);
    }
    return plait_operand_span_bytes(&operand);
}

static void check_tensor(const plait_graph *graph, const plait_graph_tensor *tensor) {
    const plait_graph_storage *storage = &graph->storages[tensor->storage];
    const plait_graph_tensor *root = &graph->tensors[storage->root];
    int64_t bound = tensor->outer.dim >= 0 ? graph->dims[tensor->outer.dim].bound : 0;
    if (tensor->offset % (uint64_t)plait_dtype_block_bytes(tensor->shape.dtype)) broken("offset");
    for (int k = 0; k < 6; k++) {
        int64_t value = k < 3 ? bound - k : bound / (k - 1);
        if (value < 0) continue;
        int64_t span = span_at(tensor, value), whole = span_at(root, value);
        if (span < 0 || whole < 0) broken("span");
        if (span > 0 && (uint64_t)span + tensor->offset > (uint64_t)whole)
            broken("a view leaves its storage");
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    plait_graph *graph = NULL, *copy = NULL;
    char *text = NULL, *again = NULL, *drawing = NULL;
    if (plait_graph_parse((const char *)data, size, &graph) != PLAIT_OK) {
        if (graph || plait_error_message()[0] == '\0') broken("a failure without a message");
        return 0;
    }
    for (size_t t = 1; t < graph->n_tensors; t++) check_tensor(graph, &graph->tensors[t]);
    if (plait_graph_print(graph, &text) != PLAIT_OK) broken("print");
    if (plait_graph_parse(text, strlen(text), &copy) != PLAIT_OK) broken("what was printed does not read");
    if (plait_graph_print(copy, &again) != PLAIT_OK || strcmp(text, again) != 0) broken("prints differ");
    if (!plait_graph_equal(graph, copy)) broken("not equal");
    if (plait_graph_print_dot(graph, &drawing) != PLAIT_OK) broken("drawing");
    free(text);
    free(again);
    free(drawing);
    plait_graph_destroy(graph);
    plait_graph_destroy(copy);
    return 0;
}
