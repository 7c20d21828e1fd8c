/* Graphs evaluated the plain way: every storage has memory of its own, nodes run one after the other by their reference
 * kernels. What plans and runs must agree with. Also: the same random weights and inputs for an evaluation and a run. */
#ifndef PLAIT_TESTS_SUPPORT_EVALUATE_H
#define PLAIT_TESTS_SUPPORT_EVALUATE_H

#include "graph/graph.h"
#include "op/reference.h"
#include "support/random_graph.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct evaluation {
    const plait_graph *graph;
    unsigned char **storages;
    int64_t dims[64];
} evaluation;

static inline void evaluation_deinit(evaluation *e) {
    for (size_t s = 0; e->storages && s < e->graph->n_storages; s++) free(e->storages[s]);
    free(e->storages);
    e->storages = NULL;
}

/* Zeroed memory; dims at their bounds. False when memory is short. */
static inline bool evaluation_init(evaluation *e, const plait_graph *graph) {
    *e = (evaluation){.graph = graph, .storages = calloc(graph->n_storages + 1, sizeof *e->storages)};
    bool all = e->storages != NULL;
    for (size_t s = 0; all && s < graph->n_storages; s++)
        all = (e->storages[s] = calloc(1, (size_t)graph->storages[s].size_bytes + 1)) != NULL;
    for (size_t d = 0; d < graph->n_dims; d++) e->dims[d] = graph->dims[d].bound;
    if (!all) evaluation_deinit(e);
    return all;
}

/* The tensor at the current dims, with its data. */
static inline plait_operand evaluation_operand(const evaluation *e, uint32_t id) {
    const plait_graph_tensor *tensor = &e->graph->tensors[id];
    plait_operand operand = tensor->shape;
    if (tensor->outer.dim >= 0)
        operand.dims[tensor->outer.axis] = plait_extent_value(&tensor->outer, 0, e->dims);
    operand.data = e->storages[tensor->storage] + tensor->offset;
    return operand;
}

/* Runs all nodes. False when a kernel met a bad id. */
static inline bool evaluation_step(evaluation *e) {
    uint32_t error_word = 0;
    for (uint32_t n = 0; n < e->graph->n_nodes; n++) {
        const plait_graph_node *node = &e->graph->nodes[n];
        plait_op_use use;
        plait_graph_use(e->graph, n, e->dims, &use);
        for (int i = 0; i < node->n_inputs; i++)
            if (node->inputs[i]) use.inputs[i] = evaluation_operand(e, node->inputs[i]);
        for (int o = 0; o < node->n_outputs; o++) use.outputs[o] = evaluation_operand(e, node->outputs[o]);
        use.error_word = &error_word;
        size_t scratch_bytes = node->op->reference_scratch ? node->op->reference_scratch(&use) : 0;
        void *scratch = calloc(1, scratch_bytes + 1);
        if (scratch) node->op->reference(&use, scratch);
        free(scratch);
        if (!scratch) return false;
    }
    return error_word == 0;
}

/* ---- filling ---- */

/* Random numbers in [-1, 1), encoded as the type wants. */
static inline void fill_floats(const plait_operand *o, uint64_t seed) {
    float row[4096];
    PLAIT_REF_ROWS(o, i1, i2, i3) {
        int64_t n = o->dims[0] < 4096 ? o->dims[0] : 4096;
        for (int64_t i = 0; i < n; i++) row[i] = (float)random_next(&seed, 1 << 20) * 0x1p-19f - 1.0f;
        plait_ref_write_row(o, i1, i2, i3, n, row);
    }
}

/* Legal numbers for the control inputs of random graphs, and random ones for the others. */
static inline void fill_input(const plait_operand *o, const char *name, uint64_t seed) {
    int64_t n = o->dims[0];
    if (o->dtype != PLAIT_I32) {
        fill_floats(o, seed);
        return;
    }
    for (int64_t j = 0; j < o->dims[1]; j++)
        for (int64_t i = 0; i < n; i++) {
            int32_t id = 0;
            if (strcmp(name, "ids") == 0) id = (int32_t)random_next(&seed, 20);
            if (strcmp(name, "experts") == 0) id = (int32_t)random_next(&seed, 3);
            if (strcmp(name, "positions") == 0)
                id = (int32_t)random_next(&seed, RANDOM_TABLE * RANDOM_PAGE_LEN);
            if (strcmp(name, "sequences") == 0) id = (int32_t)random_next(&seed, 5) - 1;
            if (strcmp(name, "slots") == 0) id = (int32_t)(i * 5 + (int64_t)random_next(&seed, 4)) - 1;
            if (strcmp(name, "pages") == 0) id = (int32_t)((5 * (i + n * j)) % RANDOM_PAGES);
            plait_ref_set_id(o, i, j, id);
        }
}

static inline void evaluation_fill(evaluation *e, plait_storage_kind kind, uint64_t seed) {
    for (size_t s = 0; s < e->graph->n_storages; s++) {
        const plait_graph_storage *storage = &e->graph->storages[s];
        if (storage->kind != kind) continue;
        plait_operand o = evaluation_operand(e, storage->root);
        if (kind == PLAIT_STORAGE_INPUT)
            fill_input(&o, storage->name, seed + s);
        else
            fill_floats(&o, seed + s);
    }
}

/* ---- comparing ---- */

/* Largest difference, relative to max(1, |expected|), of the tensor here and its bytes there; integers and -1 for
 * unequal ids. Exactly equal bits give 0. */
static inline double evaluation_difference(const evaluation *e, uint32_t tensor, const void *bytes) {
    plait_operand expected = evaluation_operand(e, tensor), actual = expected;
    double worst = 0;
    actual.data = (void *)(uintptr_t)bytes;
    int64_t block = plait_dtype_block_elems(expected.dtype);
    size_t block_bytes = (size_t)plait_dtype_block_bytes(expected.dtype);
    PLAIT_REF_ROWS(&expected, i1, i2, i3)
    for (int64_t i = 0; i < expected.dims[0] / block; i++) {
        const void *a = plait_ref_at(&actual, i, i1, i2, i3), *b = plait_ref_at(&expected, i, i1, i2, i3);
        if (memcmp(a, b, block_bytes) == 0) continue;
        if (expected.dtype != PLAIT_F32) return INFINITY;
        double x = plait_ref_get(&actual, i, i1, i2, i3), y = plait_ref_get(&expected, i, i1, i2, i3);
        double difference = fabs(x - y) / fmax(1.0, fabs(y));
        worst = isnan(difference) ? INFINITY : fmax(worst, difference);
    }
    return worst;
}

#endif
