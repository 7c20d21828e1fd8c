/* What a node does, and how long that takes on a device of given figures: the slower of its arithmetic and its bytes,
 * plus what every node costs. Invariant: pure functions; the same shapes and figures give the same number. */
#include "cost/cost.h"

#include "base/size.h"
#include "op/attrs.h"
#include "op/shape.h"

static bool is_weight(const plait_graph *graph, uint32_t tensor) {
    return graph->storages[graph->tensors[tensor].storage].kind == PLAIT_STORAGE_WEIGHT;
}

/* Bytes of the constant operands that a product reads: of experts, those that are used. */
static double weight_bytes(const plait_graph *graph, const plait_graph_node *node, const plait_op_use *use) {
    double bytes = 0;
    for (int i = 0; i < use->n_inputs; i++)
        if (plait_op_has(use, i) && is_weight(graph, node->inputs[i])) bytes += plait_op_input_bytes(use, i);
    return bytes;
}

/* Work of a use of the node. Bytes of weights are told from others for products alone: a product with one column is
 * bound by reading its weight, at a rate of its own. Everywhere else a constant operand is an operand. */
static void count_work(const plait_cost *cost, const plait_graph *graph, const plait_graph_node *node,
                       const plait_op_use *use, plait_work *out) {
    *out = (plait_work){.kind = (plait_cost_class)cost->classes[use->op->id],
                        .flop = plait_op_flop(use),
                        .bytes = plait_op_bytes(use)};
    if (out->kind != PLAIT_COST_PRODUCT) return;
    out->quantised = plait_dtype_quantised(use->inputs[0].dtype);
    out->weight_bytes = weight_bytes(graph, node, use);
    if (out->weight_bytes > out->bytes) out->weight_bytes = out->bytes; /* at 0 columns nothing is read */
    out->bytes -= out->weight_bytes;
}

void plait_cost_work(const plait_cost *cost, const plait_graph *graph, uint32_t n, const int64_t *values,
                     plait_op_use *use, plait_work *out) {
    plait_graph_use(graph, n, values, use);
    count_work(cost, graph, &graph->nodes[n], use, out);
}

/* Shapes say how many keys a cache could hold; expectation says how many there are. The page list is cut to those, at
 * least to one page. */
void plait_cost_work_keys(const plait_cost *cost, const plait_graph *graph, uint32_t n, const int64_t *values,
                          double keys, plait_op_use *use, plait_work *out) {
    plait_graph_use(graph, n, values, use);
    if (use->op->id == PLAIT_OP_attention) {
        int64_t *pages = &use->inputs[PLAIT_ATTENTION_PAGES].dims[0];
        int64_t page_len = plait_max_i64(1, use->inputs[PLAIT_ATTENTION_K].dims[1]);
        double needed = (keys + (double)page_len - 1) / (double)page_len;
        if (needed < (double)*pages) *pages = plait_max_i64(1, (int64_t)needed);
    }
    count_work(cost, graph, &graph->nodes[n], use, out);
}

static double slower(double a, double b) {
    return a > b ? a : b;
}

/* The roofline (Williams, Waterman and Patterson, CACM 52(4), 2009): arithmetic and bytes overlap on any device worth
 * planning for, so the slower one counts, not their sum. node_ns is what a node costs beside that. */
double plait_cost_time(const plait_cost *cost, int device, const plait_work *work) {
    const plait_device_figures *f = &cost->devices[device];
    double seconds = work->bytes / (double)f->bytes_per_s;
    if (work->kind == PLAIT_COST_PRODUCT) {
        uint64_t rate = work->quantised ? f->integer_flop_per_s : f->float_flop_per_s;
        seconds += work->weight_bytes / (double)f->weight_bytes_per_s;
        seconds = slower(seconds, work->flop / (double)rate);
    } else if (work->kind == PLAIT_COST_ATTENTION) {
        seconds = slower(seconds, work->flop / (double)f->attention_flop_per_s);
    }
    return (double)f->node_ns + 1e9 * seconds;
}

/* Latency for each transfer, rate for the bytes of all together. 0 from a device to itself. */
double plait_cost_transfer(const plait_cost *cost, int from, int to, double n_transfers, double bytes) {
    const plait_link_figures *link = &cost->links[(size_t)from * (size_t)cost->n_devices + (size_t)to];
    if (from == to) return 0;
    return n_transfers * (double)link->latency_ns + 1e9 * bytes / (double)link->bytes_per_s;
}
