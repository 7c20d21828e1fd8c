/* Ids from the host are checked before a step is submitted: every run-time input that an op reads as ids, positions or
 * tables, when the host wrote it. What values are legal is the op's own knowledge (its check_runtime). Not here: ids
 * that a device makes, which kernels guard by themselves, as no host sees them in time.
 *
 * Invariant: a step whose host-written ids break a rule is not submitted. */
#include "run/run.h"

#include "base/alloc.h"
#include "base/status.h"

#include <string.h>

/* A view of an input counts as well, at its offset. NULL for what is computed, stored or absent. */
void *plait_run_host_copy(const plait_run *run, uint32_t tensor_id) {
    const plait_plan *plan = run->plan;
    const plait_graph_tensor *tensor = &plan->graph->tensors[tensor_id];
    if (plan->graph->storages[tensor->storage].kind != PLAIT_STORAGE_INPUT) return NULL;
    for (size_t i = 0; i < plan->n_inputs; i++)
        if (plan->inputs[i].storage == tensor->storage)
            return (uint8_t *)plait_run_input_bytes(run, i) + tensor->offset;
    return NULL;
}

/* True when both nodes would be checked in the same way: same op, attributes, run-time inputs, and input shapes. */
static bool same_check(const plait_graph *graph, const plait_graph_node *a, const plait_graph_node *b) {
    if (a->op != b->op || a->present != b->present || a->n_inputs != b->n_inputs) return false;
    if (memcmp(a->attrs, b->attrs, sizeof a->attrs) != 0) return false;
    for (int i = 0; i < a->n_inputs; i++) {
        const plait_graph_tensor *x = &graph->tensors[a->inputs[i]], *y = &graph->tensors[b->inputs[i]];
        if (a->op->runtime_inputs >> i & 1u ? a->inputs[i] != b->inputs[i]
                                            : memcmp(x->shape.dims, y->shape.dims, sizeof x->shape.dims) != 0)
            return false;
    }
    return true;
}

/* A model's layers all read the same positions and tables: a few dozen checks are left of thousands of nodes. Made
 * once, since what is alike depends on the graph only. */
plait_status plait_run_list_checks(plait_run *run) {
    const plait_graph *graph = run->plan->graph;
    run->checks = plait_alloc_array(graph->n_nodes, sizeof *run->checks);
    if (!run->checks) return plait_error_memory("run", graph->n_nodes * sizeof *run->checks);
    for (uint32_t n = 0; n < graph->n_nodes; n++) {
        const plait_graph_node *node = &graph->nodes[n];
        bool wanted = false, known = false;
        for (int i = 0; node->op->check_runtime && i < node->n_inputs; i++)
            wanted |= (node->op->runtime_inputs >> i & node->present >> i & 1u) &&
                      plait_run_host_copy(run, node->inputs[i]);
        for (size_t k = 0; wanted && k < run->n_checks; k++)
            known |= same_check(graph, &graph->nodes[run->checks[k]], node);
        if (wanted && !known) run->checks[run->n_checks++] = n;
    }
    return PLAIT_OK;
}

/* With shapes at the current dims, so ids beyond what the step uses are not looked at. Allocates nothing. */
plait_status plait_run_check_ids(const plait_run *run) {
    const plait_graph *graph = run->plan->graph;
    for (size_t k = 0; k < run->n_checks; k++) {
        const plait_graph_node *node = &graph->nodes[run->checks[k]];
        plait_op_use use;
        plait_graph_use(graph, run->checks[k], run->dims, &use);
        for (int i = 0; i < node->n_inputs; i++)
            if (node->op->runtime_inputs >> i & node->present >> i & 1u)
                use.inputs[i].data = plait_run_host_copy(run, node->inputs[i]);
        plait_status status = node->op->check_runtime(&use);
        if (status != PLAIT_OK)
            return plait_error_context(status, "run of %s: node %s (%s)", run->plan->name, node->name,
                                       node->op->name);
    }
    return PLAIT_OK;
}
