/* Predictions: sums of what cost/ says of nodes and links, laid along the queues of the plan.
 *
 * Invariant: nothing of the plan is changed, nothing is measured. */
#include "plan/predict.h"

#include "base/alloc.h"
#include "base/status.h"

#include <stdlib.h>

static bool figures_known(const plait_context *context) {
    for (int d = 0; d < context->n_devices; d++)
        if (!context->devices[d].figures.struct_bytes) return false;
    return true;
}

plait_status plait_prediction_init(plait_prediction *p, const plait_plan *plan) {
    size_t n_dims = plan->graph->n_dims;
    *p = (plait_prediction){.plan = plan};
    if (plan->weighed) p->cost = &plan->cost;
    if (!p->cost && !figures_known(plan->context)) return PLAIT_OK;
    p->ones = plait_alloc_array(n_dims, sizeof *p->ones);
    if (!p->ones) return plait_error_memory("prediction", n_dims);
    for (size_t d = 0; d < n_dims; d++) p->ones[d] = plan->graph->dims[d].bound > 0;
    plait_status status = p->cost ? PLAIT_OK : plait_cost_init(&p->own_cost, plan->context);
    if (!p->cost) p->cost = &p->own_cost;
    if (status != PLAIT_OK) plait_prediction_deinit(p);
    return status;
}

void plait_prediction_deinit(plait_prediction *p) {
    plait_cost_deinit(&p->own_cost);
    free(p->ones);
    *p = (plait_prediction){0};
}

/* ---- nodes ---- */

double plait_predict_node(const plait_prediction *p, uint32_t n, bool full) {
    const plait_weighed *w = p->plan->weighed;
    int device = p->plan->placements[n].device;
    plait_op_use use;
    plait_work work;
    if (!p->cost) return 0;
    if (w)
        return (double)(full ? w->full_ns : w->single_ns)[(size_t)n * (size_t)w->n_devices + (size_t)device];
    plait_cost_work(p->cost, p->plan->graph, n, full ? NULL : p->ones, &use, &work);
    return plait_cost_time(p->cost, device, &work);
}

bool plait_predict_elsewhere(const plait_plan *plan, uint32_t n, int device, double *out_ns,
                             const char **out_why) {
    const plait_weighed *w = plan->weighed;
    *out_ns = 0;
    *out_why = "";
    if (!w) return false;
    size_t at = (size_t)n * (size_t)w->n_devices + (size_t)device;
    *out_ns = (double)w->ns[at];
    *out_why = w->why[at];
    return w->runs[n] >> device & 1u;
}

/* ---- commands ---- */

/* Bytes of what is moved when the storage's bounded dim is 1 instead of its bound. */
static double scale(const plait_prediction *p, uint32_t storage, double bytes, bool full) {
    double whole = (double)p->plan->graph->storages[storage].size_bytes;
    if (full || whole <= 0) return bytes;
    return bytes / whole * plait_weigh_storage(p->plan->graph, storage, (plait_expected_steps){.single = 1});
}

static double to_device(const plait_prediction *p, int d, double bytes) {
    const plait_device_figures *f = &p->cost->devices[d];
    return (double)f->write_ns + 1e9 * bytes / (double)f->write_bytes_per_s;
}

static double from_device(const plait_prediction *p, int d, double bytes) {
    const plait_device_figures *f = &p->cost->devices[d];
    return (double)f->read_ns + 1e9 * bytes / (double)f->read_bytes_per_s;
}

static double transfer_time(const plait_prediction *p, const plait_plan_step *step, bool full) {
    const plait_plan_transfer *t = &p->plan->transfers[step->item];
    const plait_plan_value *source = &p->plan->values[t->source], *target = &p->plan->values[t->target];
    double bytes = scale(p, source->storage, (double)t->size_bytes, full);
    if (step->kind == PLAIT_STEP_SEND) return from_device(p, source->device, bytes);
    if (step->kind == PLAIT_STEP_RECEIVE) return to_device(p, target->device, bytes);
    switch (t->route) {
    case PLAIT_ROUTE_WRITE: return to_device(p, target->device, bytes);
    case PLAIT_ROUTE_READ: return from_device(p, source->device, bytes);
    default: return plait_cost_transfer(p->cost, source->device, target->device, 1, bytes);
    }
}

static double launch_time(const plait_prediction *p, const plait_plan_step *step, bool full) {
    const plait_plan_segment *segment = &p->plan->segments[step->item];
    double ns = (double)p->cost->devices[step->device].launch_ns;
    for (uint32_t n = 0; n < segment->n_nodes; n++) ns += plait_predict_node(p, segment->nodes[n].node, full);
    return ns;
}

double plait_predict_command(const plait_prediction *p, size_t at, bool full) {
    const plait_plan *plan = p->plan;
    const plait_plan_step *step = &plan->steps[at];
    if (!p->cost) return 0;
    switch (step->kind) {
    case PLAIT_STEP_LAUNCH: return launch_time(p, step, full);
    case PLAIT_STEP_WRITE_INPUT: {
        uint32_t storage = plan->inputs[step->item].storage;
        return to_device(p, step->device,
                         scale(p, storage, (double)plan->graph->storages[storage].size_bytes, full));
    }
    case PLAIT_STEP_READ_OUTPUT: {
        const plait_plan_output *output = &plan->outputs[step->item];
        uint32_t storage = plan->values[output->value].storage;
        return from_device(p, step->device, scale(p, storage, (double)output->size_bytes, full));
    }
    default: return transfer_time(p, step, full);
    }
}

/* ---- the step ---- */

static double later(double a, double b) {
    return a > b ? a : b;
}

plait_status plait_predict_step(const plait_prediction *p, bool full, double *begins, double *out_ns) {
    const plait_plan *plan = p->plan;
    size_t n_queues = (size_t)plan->context->n_devices * PLAIT_DEVICE_QUEUES;
    double *ends = plait_alloc_array(plan->n_steps + n_queues, sizeof *ends), all = 0;
    if (!ends) return plait_error_memory("prediction", plan->n_steps * sizeof *ends);
    double *queue_ends = ends + plan->n_steps;
    for (size_t s = 0; s < plan->n_steps; s++) {
        const plait_plan_step *step = &plan->steps[s];
        double begin = queue_ends[step->queue];
        for (uint32_t w = step->first_wait; w < step->first_wait + step->n_waits; w++)
            if (!plan->waits[w].before) begin = later(begin, ends[plan->waits[w].step]);
        ends[s] = queue_ends[step->queue] = begin + plait_predict_command(p, s, full);
        if (begins) begins[s] = begin;
        all = later(all, ends[s]);
    }
    free(ends);
    *out_ns = all;
    return PLAIT_OK;
}
