/* A run: creating it, setting dims and inputs, stepping, waiting, reading outputs. Tracing is in trace.c.
 *
 * Invariant: a step allocates nothing. Inputs of step s lie in half s % 2 of the staging, which the host may fill
 * once step s - 2 has ended; outputs likewise. */
#include "run/run.h"

#include "base/alloc.h"
#include "base/size.h"
#include "base/status.h"

#include <stdlib.h>
#include <string.h>

/* ---- creating ---- */

static plait_status allocate(plait_run *run) {
    const plait_plan *plan = run->plan;
    size_t n_dims = plan->graph->n_dims;
    uint64_t transfer_bytes, in_bytes, out_bytes;
    if (!plait_mul_u64(plan->input_staging_bytes, 2, &in_bytes) ||
        !plait_mul_u64(plan->output_staging_bytes, 2, &out_bytes))
        return plait_error(PLAIT_OUT_OF_RANGE, "staging: sizes overflow");
    transfer_bytes = plan->transfer_staging_bytes;
    run->dims = plait_alloc_array(n_dims, sizeof(int64_t));
    run->input_staging = plait_alloc_aligned(64, in_bytes);
    run->output_staging = plait_alloc_aligned(64, out_bytes);
    run->transfer_staging = plait_alloc_aligned(64, transfer_bytes);
    run->traces = plait_alloc_array(plan->n_segments, sizeof *run->traces);
    bool all = run->dims && run->input_staging && run->output_staging && run->transfer_staging && run->traces;
    for (int p = 0; p < 2; p++) {
        run->launched[p] = plait_alloc_array(n_dims, sizeof(int64_t));
        run->input_sizes[p] = plait_alloc_array(plan->n_inputs, sizeof(uint64_t));
        run->output_sizes[p] = plait_alloc_array(plan->n_outputs, sizeof(uint64_t));
        run->transfer_sizes[p] = plait_alloc_array(plan->n_transfers, sizeof(uint64_t));
        all =
            all && run->launched[p] && run->input_sizes[p] && run->output_sizes[p] && run->transfer_sizes[p];
    }
    if (!all) return plait_error_memory("run staging", in_bytes + out_bytes + transfer_bytes);
    memcpy(run->dims, plan->bounds, n_dims * sizeof(int64_t));
    return PLAIT_OK;
}

static plait_status open_device(plait_run *run, int d) {
    const plait_plan *plan = run->plan;
    plait_context_entry *entry = &plan->context->devices[d];
    const plait_device_vtable *vtable = entry->device->vtable;
    const plait_residence_device *resident = &plan->residence->devices[d];
    plait_run_device *row = &run->devices[d];
    row->n_slots = PLAIT_SLOT_WEIGHTS + (int)resident->n_weights;
    row->slots = plait_alloc_array((size_t)row->n_slots, sizeof *row->slots);
    if (!row->slots) return plait_error_memory("run slots", 0);
    uint64_t input_bytes = plan->devices[d].input_bytes;
    if (plan->devices[d].n_positions) /* a used slot has a buffer, though its values may have no bytes */
        PLAIT_TRY(vtable->buffer_create(entry->device, input_bytes ? input_bytes : 1, PLAIT_BUFFER_TEMPORARY,
                                        &row->inputs));
    PLAIT_TRY(vtable->event_create(entry->device, &row->event));
    row->slots[PLAIT_SLOT_ARENA] = entry->arena;
    row->slots[PLAIT_SLOT_INPUTS] = row->inputs;
    row->slots[PLAIT_SLOT_STATE] = run->state ? run->state->buffers[d] : NULL;
    for (size_t i = 0; i < resident->n_weights; i++)
        row->slots[PLAIT_SLOT_WEIGHTS + i] = resident->weights[i];
    return PLAIT_OK;
}

static bool needs_state(const plait_plan *plan) {
    for (int d = 0; d < plan->context->n_devices; d++)
        if (plan->residence->devices[d].state_bytes) return true;
    return false;
}

static plait_status open_run(plait_run *run, const plait_run_options *options) {
    plait_plan *plan = run->plan;
    if (!plan->residence->loaded) return plait_error(PLAIT_WRONG_STATE, "its residence is not loaded");
    if (options && options->state) {
        if (options->state->residence != plan->residence)
            return plait_error(PLAIT_INVALID_ARGUMENT, "the state belongs to another residence");
        run->state = options->state;
    } else if (needs_state(plan)) {
        PLAIT_TRY(plait_session_state_create(&run->state, plan->residence));
        run->own_state = true;
    }
    run->devices = plait_alloc_array((size_t)plan->context->n_devices, sizeof *run->devices);
    if (!run->devices) return plait_error_memory("run", 0);
    PLAIT_TRY(allocate(run));
    for (int d = 0; d < plan->context->n_devices; d++) PLAIT_TRY(open_device(run, d));
    PLAIT_TRY(plait_run_list_checks(run));
    return plait_run_build_lists(run);
}

plait_status plait_run_create(plait_run **out, plait_plan *plan, const plait_run_options *options) {
    plait_run *run = plait_alloc_array(1, sizeof *run);
    if (!run) return plait_error_memory("run", sizeof *run);
    run->plan = plait_plan_retain(plan);
    plait_status status = open_run(run, options);
    if (status != PLAIT_OK) {
        plait_error_context(status, "run of %s", plan->name);
        plait_run_destroy(run);
        return status;
    }
    *out = run;
    return PLAIT_OK;
}

/* Waits until no queue touches anything of the run any more, after a failure too: a queue that has failed walks its
 * lists to their ends, and one that waits for it wakes up and fails. */
static void finish_queues(plait_run *run) {
    for (int d = 0; (run->step > 0 || run->failed) && d < run->plan->context->n_devices; d++) {
        const plait_context_entry *entry = &run->plan->context->devices[d];
        (void)entry->device->vtable->synchronise(entry->queue);
    }
}

void plait_run_destroy(plait_run *run) {
    if (!run) return;
    finish_queues(run);
    for (int d = 0; run->devices && d < run->plan->context->n_devices; d++) {
        plait_run_device *row = &run->devices[d];
        const plait_device_vtable *vtable = run->plan->context->devices[d].device->vtable;
        if (row->inputs) vtable->buffer_destroy(row->inputs);
        if (row->event) vtable->event_destroy(row->event);
        free(row->lists[0].commands);
        free(row->lists[1].commands);
        free(row->slots);
    }
    for (size_t s = 0; run->traces && s < run->plan->n_segments; s++) free(run->traces[s].spans);
    for (int p = 0; p < 2; p++) {
        free(run->launched[p]);
        free(run->input_sizes[p]);
        free(run->output_sizes[p]);
        free(run->transfer_sizes[p]);
        free(run->signal_values[p]);
        free(run->end_values[p]);
    }
    if (run->own_state) plait_session_state_destroy(run->state);
    free(run->devices);
    free(run->traces);
    free(run->checks);
    free(run->dims);
    free(run->input_staging);
    free(run->output_staging);
    free(run->transfer_staging);
    plait_plan_release(run->plan);
    free(run);
}

/* ---- names ---- */

plait_status plait_run_dim_index(const plait_run *run, const char *name, int *out_index) {
    const plait_graph *graph = run->plan->graph;
    for (size_t d = 0; d < graph->n_dims; d++)
        if (strcmp(graph->dims[d].name, name) == 0) return *out_index = (int)d, PLAIT_OK;
    return plait_error(PLAIT_NOT_FOUND, "run of %s: there is no dim \"%s\"", run->plan->name, name);
}

plait_status plait_run_input_index(const plait_run *run, const char *name, int *out_index) {
    const plait_plan *plan = run->plan;
    for (size_t i = 0; i < plan->n_inputs; i++)
        if (strcmp(plan->graph->storages[plan->inputs[i].storage].name, name) == 0)
            return *out_index = (int)i, PLAIT_OK;
    return plait_error(PLAIT_NOT_FOUND, "run of %s: there is no input \"%s\"", plan->name, name);
}

plait_status plait_run_output_index(const plait_run *run, const char *name, int *out_index) {
    const plait_plan *plan = run->plan;
    for (size_t o = 0; o < plan->n_outputs; o++)
        if (strcmp(plan->graph->outputs[plan->outputs[o].output].name, name) == 0)
            return *out_index = (int)o, PLAIT_OK;
    return plait_error(PLAIT_NOT_FOUND, "run of %s: there is no output \"%s\"", plan->name, name);
}

/* ---- before a step ---- */

plait_status plait_run_set_dim_at(plait_run *run, int index, int64_t value) {
    const plait_graph *graph = run->plan->graph;
    if (index < 0 || (size_t)index >= graph->n_dims)
        return plait_error(PLAIT_OUT_OF_RANGE, "run of %s: dim number %d, there are %zu", run->plan->name,
                           index, graph->n_dims);
    if (value < 0 || value > graph->dims[index].bound)
        return plait_error(PLAIT_OUT_OF_RANGE, "run of %s: dim %s: %lld, expected 0 to %lld", run->plan->name,
                           graph->dims[index].name, (long long)value, (long long)graph->dims[index].bound);
    run->dims[index] = value;
    return PLAIT_OK;
}

plait_status plait_run_set_dim(plait_run *run, const char *name, int64_t value) {
    int index = 0;
    PLAIT_TRY(plait_run_dim_index(run, name, &index));
    return plait_run_set_dim_at(run, index, value);
}

/* Waits until step number `step` (from 0) has ended on every device. */
static plait_status wait_step(plait_run *run, uint64_t step) {
    for (int d = 0; d < run->plan->context->n_devices; d++) {
        const plait_run_device *row = &run->devices[d];
        const plait_device_vtable *vtable = run->plan->context->devices[d].device->vtable;
        PLAIT_TRY(vtable->event_wait(row->event, (step + 1) * row->n_signals, UINT64_MAX));
    }
    return PLAIT_OK;
}

plait_status plait_run_input_at(plait_run *run, int index, void **out_bytes, uint64_t *out_size_bytes) {
    const plait_plan *plan = run->plan;
    if (index < 0 || (size_t)index >= plan->n_inputs)
        return plait_error(PLAIT_OUT_OF_RANGE, "run of %s: input number %d, there are %zu", plan->name, index,
                           plan->n_inputs);
    if (run->step >= 2) PLAIT_TRY(wait_step(run, run->step - 2));
    const plait_plan_input *input = &plan->inputs[index];
    *out_bytes = run->input_staging + (run->step % 2) * plan->input_staging_bytes + input->host_offset;
    *out_size_bytes = plan->graph->storages[input->storage].size_bytes;
    return PLAIT_OK;
}

plait_status plait_run_input(plait_run *run, const char *input, void **out_bytes, uint64_t *out_size_bytes) {
    int index = 0;
    PLAIT_TRY(plait_run_input_index(run, input, &index));
    return plait_run_input_at(run, index, out_bytes, out_size_bytes);
}

/* Bytes of a tensor from its first to its last element at the current dims. */
static uint64_t span_now(const plait_run *run, uint32_t tensor_id) {
    const plait_graph_tensor *tensor = &run->plan->graph->tensors[tensor_id];
    plait_operand operand = tensor->shape;
    if (tensor->outer.dim >= 0)
        operand.dims[tensor->outer.axis] = plait_extent_value(&tensor->outer, 0, run->dims);
    return (uint64_t)plait_operand_span_bytes(&operand);
}

plait_status plait_run_write(plait_run *run, const char *input, const void *bytes, uint64_t size_bytes) {
    int index = 0;
    void *staging;
    uint64_t capacity;
    PLAIT_TRY(plait_run_input_index(run, input, &index));
    PLAIT_TRY(plait_run_input_at(run, index, &staging, &capacity));
    uint64_t needed = span_now(run, run->plan->graph->storages[run->plan->inputs[index].storage].root);
    if (size_bytes > needed)
        return plait_error(PLAIT_INVALID_ARGUMENT,
                           "run of %s: input \"%s\": %llu bytes, expected at most %llu", run->plan->name,
                           input, (unsigned long long)size_bytes, (unsigned long long)needed);
    if (size_bytes) memcpy(staging, bytes, size_bytes);
    return PLAIT_OK;
}

/* ---- the step ---- */

static void set_sizes(plait_run *run, int parity) {
    const plait_plan *plan = run->plan;
    memcpy(run->launched[parity], run->dims, plan->graph->n_dims * sizeof *run->dims);
    for (size_t i = 0; i < plan->n_inputs; i++)
        run->input_sizes[parity][i] = span_now(run, plan->graph->storages[plan->inputs[i].storage].root);
    for (size_t o = 0; o < plan->n_outputs; o++)
        run->output_sizes[parity][o] = span_now(run, plan->graph->outputs[plan->outputs[o].output].tensor);
    for (size_t t = 0; t < plan->n_transfers; t++)
        run->transfer_sizes[parity][t] =
            span_now(run, plan->graph->storages[plan->values[plan->transfers[t].source].storage].root);
}

static void set_signals(plait_run *run, int parity) {
    size_t k = 0;
    for (int d = 0; d < run->plan->context->n_devices; d++) {
        uint64_t n = run->devices[d].n_signals;
        run->end_values[parity][d] = run->step * n;
        for (uint64_t i = 1; i <= n; i++) run->signal_values[parity][k++] = run->step * n + i;
    }
}

/* The arena may have been replaced by a larger one for another plan. Regions of the lists point to slots' buffers. */
static void use_arena(plait_run *run, int d) {
    plait_run_device *row = &run->devices[d];
    plait_buffer *arena = run->plan->context->devices[d].arena;
    if (row->slots[PLAIT_SLOT_ARENA] == arena) return;
    for (int p = 0; p < 2; p++)
        for (int i = 0; i < row->lists[p].n_commands; i++) {
            plait_command *c = &row->lists[p].commands[i];
            bool moves = c->kind == PLAIT_COMMAND_WRITE || c->kind == PLAIT_COMMAND_READ;
            if (moves && c->transfer.region.buffer == row->slots[PLAIT_SLOT_ARENA])
                c->transfer.region.buffer = arena;
        }
    row->slots[PLAIT_SLOT_ARENA] = arena;
}

static plait_status submit(plait_run *run, int parity) {
    plait_context *context = run->plan->context;
    plait_status status = PLAIT_OK;
    pthread_mutex_lock(&context->submit_lock);
    for (int d = 0; status == PLAIT_OK && d < context->n_devices; d++) {
        const plait_run_list *list = &run->devices[d].lists[parity];
        use_arena(run, d);
        status = context->devices[d].device->vtable->submit(context->devices[d].queue, list->commands,
                                                            list->n_commands);
    }
    pthread_mutex_unlock(&context->submit_lock);
    return status;
}

plait_status plait_run_step(plait_run *run) {
    int parity = (int)(run->step % 2);
    if (run->failed) return plait_error_raise(&run->failure);
    if (run->step >= 2) PLAIT_TRY(wait_step(run, run->step - 2));
    PLAIT_TRY(plait_run_check_ids(run));
    set_sizes(run, parity);
    set_signals(run, parity);
    plait_status status = submit(run, parity);
    if (status != PLAIT_OK) {
        plait_error_context(status, "run of %s: step %llu", run->plan->name, (unsigned long long)run->step);
        run->failed = true;
        plait_error_save(status, &run->failure);
        return status;
    }
    run->step++;
    return PLAIT_OK;
}

plait_status plait_run_wait(plait_run *run) {
    if (run->failed) return plait_error_raise(&run->failure);
    if (run->step == 0) return PLAIT_OK;
    plait_status status = wait_step(run, run->step - 1);
    if (status == PLAIT_OK) return PLAIT_OK;
    plait_error_context(status, "run of %s", run->plan->name);
    run->failed = true;
    plait_error_save(status, &run->failure);
    return status;
}

plait_status plait_run_output_at(plait_run *run, int index, const void **out_bytes,
                                 uint64_t *out_size_bytes) {
    const plait_plan *plan = run->plan;
    if (index < 0 || (size_t)index >= plan->n_outputs)
        return plait_error(PLAIT_OUT_OF_RANGE, "run of %s: output number %d, there are %zu", plan->name,
                           index, plan->n_outputs);
    if (run->step == 0) return plait_error(PLAIT_WRONG_STATE, "run of %s: no step was made yet", plan->name);
    PLAIT_TRY(plait_run_wait(run));
    int parity = (int)((run->step - 1) % 2);
    *out_bytes = run->output_staging + (uint64_t)parity * plan->output_staging_bytes +
                 plan->outputs[index].host_offset;
    *out_size_bytes = run->output_sizes[parity][index];
    return PLAIT_OK;
}

plait_status plait_run_output(plait_run *run, const char *output, const void **out_bytes,
                              uint64_t *out_size_bytes) {
    int index = 0;
    PLAIT_TRY(plait_run_output_index(run, output, &index));
    return plait_run_output_at(run, index, out_bytes, out_size_bytes);
}
