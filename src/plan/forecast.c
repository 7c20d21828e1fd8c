/* Predicted times of one step: what each group and each transfer takes by the figures of the devices, laid on the queues.
 *
 * Not here: how long work takes (cost/work.c), and what planning makes of it. A group takes the sum of its nodes, as
 * placement counts it; what fusion saves is not known beforehand. Invariant: pure; the order of the list is kept, which
 * respects every wait, so one walk is enough. */
#include "plan/explain.h"
#include "plan/weigh.h"

#include "base/size.h"
#include "base/status.h"

/* ---- bytes ---- */

/* A tensor at given values of the dims: strides stay, the outermost dim follows. */
static uint64_t span_at(const plait_plan *plan, uint32_t tensor, const int64_t *dims) {
    const plait_graph_tensor *row = &plan->graph->tensors[tensor];
    plait_operand operand = row->shape;
    if (row->outer.dim >= 0) operand.dims[row->outer.axis] = plait_extent_value(&row->outer, 0, dims);
    return (uint64_t)plait_operand_span_bytes(&operand);
}

/* By boxes, whoever carries it out: the bytes are the same by rows. At the bounds of a part by ids all its rows count.
 */
static uint64_t transfer_bytes(const plait_plan *plan, const plait_plan_transfer *transfer,
                               const int64_t *dims) {
    const plait_graph_storage *storage = &plan->graph->storages[plan->values[transfer->source].storage];
    uint64_t bytes = 0, held = span_at(plan, storage->root, dims);
    for (size_t i = 0, n = plait_part_pieces(&transfer->part, true); i < n; i++) {
        uint64_t offset, staged;
        plait_box box;
        plait_part_piece(&transfer->part, true, i, dims, held, &box, &offset, &staged);
        bytes += box.row_bytes * box.n_rows * box.n_planes;
    }
    return bytes;
}

/* Bytes that a command moves; an input counts as what the dims need of it. */
static uint64_t step_bytes(const plait_plan *plan, const plait_plan_step *step, const int64_t *dims) {
    switch (step->kind) {
    case PLAIT_STEP_LAUNCH: return 0;
    case PLAIT_STEP_WRITE_INPUT:
        return span_at(plan, plan->graph->storages[plan->inputs[step->item].storage].root, dims);
    case PLAIT_STEP_READ_OUTPUT:
        return span_at(plan, plan->graph->outputs[plan->outputs[step->item].output].tensor, dims);
    case PLAIT_STEP_MOVE:
    case PLAIT_STEP_SEND:
    case PLAIT_STEP_RECEIVE: return transfer_bytes(plan, &plan->transfers[step->item], dims);
    }
    return 0;
}

/* ---- times ---- */

/* A command costs its least time and its bytes. */
static double from_host_ns(const plait_device_figures *f, uint64_t bytes) {
    return (double)f->write_ns + 1e9 * (double)bytes / (double)f->write_bytes_per_s;
}

static double to_host_ns(const plait_device_figures *f, uint64_t bytes) {
    return (double)f->read_ns + 1e9 * (double)bytes / (double)f->read_bytes_per_s;
}

/* Half of a way through the host costs what that half takes; a direct copy what the link does. A WRITE from mapped
 * memory counts as from the host, which it is to the writing device. */
static double move_ns(const plait_explained *e, const plait_plan_step *step, uint64_t bytes) {
    const plait_plan_transfer *transfer = &e->plan->transfers[step->item];
    int from = e->plan->values[transfer->source].device, to = e->plan->values[transfer->target].device;
    if (step->kind == PLAIT_STEP_SEND || transfer->route == PLAIT_ROUTE_READ)
        return to_host_ns(&e->cost.devices[from], bytes);
    if (step->kind == PLAIT_STEP_RECEIVE || transfer->route == PLAIT_ROUTE_WRITE)
        return from_host_ns(&e->cost.devices[to], bytes);
    return plait_cost_transfer(&e->cost, from, to, 1, (double)bytes);
}

/* A step to be forecast: values of the dims, and times of nodes where placement has them already. */
typedef struct moment {
    const int64_t *dims;
    const float *node_ns; /* [node * n_devices + device], or NULL */
    double keys;          /* that caches hold at most; 0: all that they can */
} moment;

/* The times of placement are used where they are for the same dims, copies of operands included. Attention is counted
 * anew when the step sees fewer keys than its cache could hold. */
static double node_ns(const plait_explained *e, uint32_t node, int device, const moment *m) {
    plait_op_use use;
    plait_work work;
    size_t n_devices = (size_t)e->plan->context->n_devices;
    plait_op_id op = e->plan->graph->nodes[node].op->id;
    bool fewer = m->keys > 0 && e->cost.classes[op] == PLAIT_COST_ATTENTION;
    if (m->node_ns && !fewer) return (double)m->node_ns[(size_t)node * n_devices + (size_t)device];
    if (fewer)
        plait_cost_work_keys(&e->cost, e->plan->graph, node, m->dims, m->keys, &use, &work);
    else
        plait_cost_work(&e->cost, e->plan->graph, node, m->dims, &use, &work);
    return plait_cost_time(&e->cost, device, &work);
}

/* The sum of its nodes: what fusion saves is the device's secret. */
static double group_ns(const plait_explained *e, const plait_explained_group *row, const moment *m) {
    const plait_plan_segment *segment = &e->plan->segments[row->segment];
    const plait_group *group = &segment->prepared.groups[row->group];
    double ns = 0;
    for (int k = group->first; k < group->first + group->n; k++)
        ns += node_ns(e, segment->nodes[segment->prepared.order[k]].node, segment->device, m);
    return ns;
}

/* ---- the walk ---- */

/* Fills the spans of a launch's groups as well: they follow the launch's own cost. */
static double duration_ns(const plait_explained *e, uint32_t s, const moment *m, double begin_ns,
                          plait_forecast *out) {
    const plait_plan_step *step = &e->plan->steps[s];
    const plait_device_figures *figures = &e->cost.devices[step->device];
    if (step->kind == PLAIT_STEP_WRITE_INPUT) return from_host_ns(figures, out->bytes[s]);
    if (step->kind == PLAIT_STEP_READ_OUTPUT) return to_host_ns(figures, out->bytes[s]);
    if (step->kind != PLAIT_STEP_LAUNCH) return move_ns(e, step, out->bytes[s]);
    double at = begin_ns + (double)figures->launch_ns;
    for (uint32_t g = e->first_group[s]; g < e->first_group[s + 1]; g++) {
        double end = at + group_ns(e, &e->groups[g], m);
        out->groups[g] = (plait_forecast_span){at, end};
        at = end;
    }
    return at - begin_ns;
}

/* Every step of the list begins when its queue is free and what it waits for has ended; waits for the step before do
 * not hold up the first step of all. Bytes are counted without figures, too. */
static void walk(const plait_explained *e, const moment *m, double *free_ns, plait_forecast *out) {
    const plait_plan *plan = e->plan;
    for (uint32_t s = 0; s < plan->n_steps; s++) {
        const plait_plan_step *step = &plan->steps[s];
        double begin = free_ns[step->queue];
        for (uint32_t w = step->first_wait; w < step->first_wait + step->n_waits; w++) {
            const plait_plan_wait *wait = &plan->waits[w];
            if (!wait->before && out->steps[wait->step].end_ns > begin) begin = out->steps[wait->step].end_ns;
        }
        out->bytes[s] = step_bytes(plan, step, m->dims);
        if (!e->timed) continue;
        double ns = duration_ns(e, s, m, begin, out);
        out->steps[s] = (plait_forecast_span){begin, begin + ns};
        out->busy_ns[step->queue] += ns;
        free_ns[step->queue] = begin + ns;
        if (begin + ns > out->end_ns) out->end_ns = begin + ns;
    }
}

/* Spans of what has no times stay zero. */
static plait_status make(const plait_explained *e, const moment *m, plait_arena *arena, plait_forecast *out) {
    const plait_plan *plan = e->plan;
    double *free_ns = plait_arena_alloc(arena, plan->n_queues, sizeof *free_ns);
    *out = (plait_forecast){
        .steps = plait_arena_alloc(arena, plan->n_steps, sizeof *out->steps),
        .groups = plait_arena_alloc(arena, e->n_groups, sizeof *out->groups),
        .bytes = plait_arena_alloc(arena, plan->n_steps, sizeof *out->bytes),
        .busy_ns = plait_arena_alloc(arena, plan->n_queues, sizeof *out->busy_ns),
    };
    if (!free_ns || !out->steps || !out->groups || !out->bytes || !out->busy_ns)
        return plait_error_memory("forecast", plan->n_steps * sizeof *out->steps);
    walk(e, m, free_ns, out);
    return PLAIT_OK;
}

plait_status plait_forecast_make(const plait_explained *e, const int64_t *dims, double keys,
                                 plait_arena *arena, plait_forecast *out) {
    return make(e, &(moment){.dims = dims, .keys = keys}, arena, out);
}

/* The times that placement has are for exactly these dims: 1, or 0 where that is the bound. */
static plait_status smallest(const plait_explained *e, double keys, plait_arena *arena, plait_forecast *out) {
    const plait_graph *graph = e->plan->graph;
    int64_t *dims = plait_arena_alloc(arena, graph->n_dims, sizeof *dims);
    if (!dims) return plait_error_memory("forecast", graph->n_dims);
    for (size_t d = 0; d < graph->n_dims; d++) dims[d] = graph->dims[d].bound > 0;
    const float *known = e->plan->weighed ? e->plan->weighed->single_ns : NULL;
    return make(e, &(moment){dims, known, keys}, arena, out);
}

plait_status plait_forecast_smallest(const plait_explained *e, plait_arena *arena, plait_forecast *out) {
    return smallest(e, 0, arena, out);
}

static plait_status largest(const plait_explained *e, double keys, plait_arena *arena, plait_forecast *out) {
    const float *known = e->plan->weighed ? e->plan->weighed->full_ns : NULL;
    return make(e, &(moment){e->plan->bounds, known, keys}, arena, out);
}

plait_status plait_forecast_largest(const plait_explained *e, plait_arena *arena, plait_forecast *out) {
    return largest(e, 0, arena, out);
}

/* Not the mean but the sum: twice the expected steps take twice as long. */
plait_status plait_forecast_use(const plait_plan *plan, double *out_ns) {
    plait_expected_steps steps = plan->steps_expected;
    plait_explained e;
    plait_forecast one = {0}, full = {0};
    *out_ns = 0;
    plait_status status = plait_explain(&e, plan);
    if (status == PLAIT_OK && e.timed && steps.single > 0) status = smallest(&e, steps.keys, &e.arena, &one);
    if (status == PLAIT_OK && e.timed && steps.full > 0) status = largest(&e, steps.keys, &e.arena, &full);
    if (status == PLAIT_OK) *out_ns = steps.single * one.end_ns + steps.full * full.end_ns;
    plait_explained_deinit(&e);
    return status;
}
