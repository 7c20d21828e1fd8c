/* A run: creating it, setting dims and inputs, stepping, waiting, reading outputs. Not here: the command lists, which
 * are made in lists.c and handed over in submit.c; tracing (trace.c); what ids are legal (ids.c).
 *
 * A run is driven by one thread. What other runs share with it, queues and arenas of the context, is touched under the
 * submit lock in submit.c only.
 *
 * Invariant: a step allocates nothing. Inputs of step s lie at place s % depth, which the host may fill once step s -
 * depth has ended; outputs likewise. */
#include "run/run.h"

#include "base/alloc.h"
#include "base/os.h"
#include "base/size.h"
#include "base/status.h"

#include <stdlib.h>
#include <string.h>

/* ---- creating ---- */

/* Host memory for all places, pinned where a device that is not mapped offers it. Zeroed. The first device that pins
 * host memory gives it; one that has none to give is passed over, any other failure is one. Zeroed, so that what the
 * host does not write is the same in every run. */
static plait_status open_staging(plait_run *run, uint64_t place_bytes, plait_run_staging *out) {
    const plait_context *context = run->plan->context;
    uint64_t size_bytes;
    void *bytes = NULL;
    if (!plait_mul_u64(place_bytes, (uint64_t)run->depth, &size_bytes) || size_bytes > SIZE_MAX)
        return plait_error(PLAIT_OUT_OF_RANGE, "staging: sizes overflow");
    for (int d = 0; d < context->n_devices && size_bytes && !out->device; d++) {
        plait_device *device = context->devices[d].device;
        if (context->devices[d].info.caps & PLAIT_CAP_MAPPED) continue;
        plait_status status = device->vtable->host_alloc(device, size_bytes, &bytes);
        if (status == PLAIT_UNSUPPORTED) continue;
        PLAIT_TRY(status);
        out->device = device;
        memset(bytes, 0, size_bytes);
    }
    if (!bytes) bytes = plait_alloc_aligned(64, size_bytes);
    if (!bytes) return plait_error_memory("run staging", size_bytes);
    out->bytes = bytes;
    return PLAIT_OK;
}

static void close_staging(plait_run_staging *staging) {
    if (staging->device)
        staging->device->vtable->host_free(staging->device, staging->bytes);
    else
        free(staging->bytes);
}

/* `dims` begin at their bounds, as the interface says; those of a place are copied from them at each step, because the
 * host may set the next step's while this one is in flight. */
static plait_status open_places(plait_run *run) {
    const plait_plan *plan = run->plan;
    size_t n_dims = plan->graph->n_dims, n_devices = (size_t)plan->context->n_devices;
    run->depth = plan->depth;
    run->places = plait_alloc_array((size_t)run->depth, sizeof *run->places);
    run->inputs = plait_alloc_array((size_t)run->depth * n_devices, sizeof *run->inputs);
    run->dims = plait_alloc_array(n_dims, sizeof(int64_t));
    if (!run->places || !run->inputs || !run->dims) return plait_error_memory("run", 0);
    PLAIT_TRY(plait_run_trace_init(run));
    for (int p = 0; p < run->depth; p++) {
        plait_run_place *place = &run->places[p];
        place->dims = plait_alloc_array(n_dims, sizeof(int64_t));
        place->input_sizes = plait_alloc_array(plan->n_inputs, sizeof(uint64_t));
        place->output_sizes = plait_alloc_array(plan->n_outputs, sizeof(uint64_t));
        place->slots = plait_alloc_array(n_devices, sizeof *place->slots);
        if (!place->dims || !place->input_sizes || !place->output_sizes || !place->slots)
            return plait_error_memory("run", n_devices * sizeof *place->slots);
    }
    memcpy(run->dims, plan->bounds, n_dims * sizeof(int64_t));
    PLAIT_TRY(open_staging(run, plan->input_staging_bytes, &run->input_staging));
    PLAIT_TRY(open_staging(run, plan->output_staging_bytes, &run->output_staging));
    return open_staging(run, plan->transfer_staging_bytes, &run->transfer_staging);
}

/* Inputs on a device, one buffer a place; those that the host writes there are zero until it does. */
static plait_status open_inputs(plait_run *run, int d, int p, plait_buffer **out) {
    plait_device *device = run->plan->context->devices[d].device;
    uint64_t input_bytes = run->plan->devices[d].input_bytes;
    if (run->plan->devices[d].n_positions == 0) return PLAIT_OK;
    PLAIT_TRY(
        device->vtable->buffer_create(device, input_bytes ? input_bytes : 1, PLAIT_BUFFER_TEMPORARY,
                                      out)); /* a used slot has a buffer, though its values have no bytes */
    run->inputs[p * run->plan->context->n_devices + d] = *out;
    bool mapped = (run->plan->context->devices[d].info.caps & PLAIT_CAP_MAPPED) != 0;
    if (mapped && input_bytes) memset((*out)->host, 0, input_bytes);
    return PLAIT_OK;
}

/* Slots of a device for one place. Those of the arena stay NULL here: its buffers may be replaced while the run lives,
 * so they are filled in with the lists. */
static plait_status open_device(plait_run *run, int d, int p) {
    const plait_residence_device *resident = &run->plan->residence->devices[d];
    size_t n_slots = plait_plan_slot_count(run->plan, d);
    plait_buffer **slots = plait_alloc_array(n_slots, sizeof *slots);
    if (!slots) return plait_error_memory("run slots", n_slots * sizeof *slots);
    run->places[p].slots[d] = slots;
    PLAIT_TRY(open_inputs(run, d, p, &slots[PLAIT_SLOT_INPUTS]));
    slots[PLAIT_SLOT_STATE] = run->state ? run->state->buffers[d] : NULL;
    for (size_t i = 0; i < resident->n_weights; i++) slots[PLAIT_SLOT_WEIGHTS + i] = resident->weights[i];
    return PLAIT_OK;
}

/* By the residence, not by this plan: the buffers of a session's state hold what all plans of the model touch. */
static bool needs_state(const plait_plan *plan) {
    for (int d = 0; d < plan->context->n_devices; d++)
        if (plan->residence->devices[d].state_bytes) return true;
    return false;
}

/* The state must be of this very residence: offsets in it are the residence's. Lists come last, they point into
 * everything else. */
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
    PLAIT_TRY(open_places(run));
    for (int p = 0; p < run->depth; p++)
        for (int d = 0; d < plan->context->n_devices; d++) PLAIT_TRY(open_device(run, d, p));
    PLAIT_TRY(plait_run_list_checks(run));
    PLAIT_TRY(plait_run_reserve_lists(run));
    for (int p = 0; p < run->depth; p++) {
        run->places[p].arenas = plan->context->arenas;
        plait_run_fill_lists(run, p);
    }
    return PLAIT_OK;
}

/* What was made before a failure is freed by the ordinary destroy, which takes a half-made run. */
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
    for (uint32_t q = 0; run->submitted && q < run->plan->n_queues; q++)
        if (run->plan->queues[q].n_steps) (void)plait_context_synchronise(run->plan->context, q);
    if (run->submitted) plait_run_forget(run);
}

/* Lists and arrays of slots are the place's; buffers in the slots are not. */
static void close_place(plait_run *run, plait_run_place *place) {
    for (int d = 0; place->slots && d < run->plan->context->n_devices; d++) free(place->slots[d]);
    for (size_t q = 0; place->lists && q < run->plan->n_queues; q++) free(place->lists[q].commands);
    free(place->dims);
    free(place->input_sizes);
    free(place->output_sizes);
    free(place->pieces);
    free(place->moves);
    free(place->offsets);
    free(place->signals);
    free(place->before);
    free(place->handed);
    free(place->slots);
    free(place->lists);
    free(place->requests);
}

/* First nothing is in flight any more, then everything goes: devices may read lists, staging and dims until their
 * commands are done. */
void plait_run_destroy(plait_run *run) {
    if (!run) return;
    size_t n_devices = (size_t)run->plan->context->n_devices;
    finish_queues(run);
    if (run->n_reserved) plait_relay_release(run->plan->context->relay, run->n_reserved);
    for (int p = 0; run->places && p < run->depth; p++) close_place(run, &run->places[p]);
    for (size_t i = 0; run->inputs && i < (size_t)run->depth * n_devices; i++)
        if (run->inputs[i]) run->inputs[i]->device->vtable->buffer_destroy(run->inputs[i]);
    plait_run_trace_deinit(run);
    if (run->own_state) plait_session_state_destroy(run->state);
    close_staging(&run->input_staging);
    close_staging(&run->output_staging);
    close_staging(&run->transfer_staging);
    free(run->places);
    free(run->inputs);
    free(run->first_signal);
    free(run->first_piece);
    free(run->sources);
    free(run->checks);
    free(run->dims);
    plait_plan_release(run->plan);
    free(run);
}

/* ---- names ---- */

/* Searched by name once; loops use the index. */
plait_status plait_run_dim_index(const plait_run *run, const char *name, int *out_index) {
    const plait_graph *graph = run->plan->graph;
    for (size_t d = 0; d < graph->n_dims; d++)
        if (strcmp(graph->dims[d].name, name) == 0) return *out_index = (int)d, PLAIT_OK;
    return plait_error(PLAIT_NOT_FOUND, "run of %s: there is no dim \"%s\"", run->plan->name, name);
}

/* An input that several devices read has several rows; the first stands for all, since they share one place of the
 * host's. */
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

/* 0 is legal. What cannot be computed with more than the bound was proved for no more. */
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

/* Waits until step number `step` (from 0) has ended. Only queues that are awaited are asked: whose end brings along all
 * others' (order.c). The values are still in the step's place, which nobody uses again before the step has ended. */
static plait_status wait_step(plait_run *run, uint64_t step) {
    const plait_plan *plan = run->plan;
    const plait_run_place *place = &run->places[step % (uint64_t)run->depth];
    uint64_t begin_ns = run->trace.steps ? plait_time_ns() : 0;
    for (uint32_t q = 0; q < plan->n_queues; q++) {
        if (!plan->queues[q].awaited) continue;
        plait_event *timeline = plait_context_queue_at(plan->context, q)->timeline;
        uint64_t end = place->signals[run->first_signal[q] + plan->queues[q].n_signals - 1];
        PLAIT_TRY(timeline->device->vtable->event_wait(timeline, end, UINT64_MAX));
    }
    plait_run_trace_waited(run, begin_ns);
    return PLAIT_OK;
}

/* The run can not go on; neither can the context, whose queue has failed. Both remember the first failure, and each
 * gives it to whoever comes next. */
static plait_status fail_run(plait_run *run, plait_status status) {
    plait_context *context = run->plan->context;
    run->failed = true;
    plait_error_save(status, &run->failure);
    pthread_mutex_lock(&context->submit_lock);
    plait_context_fail(context, status);
    pthread_mutex_unlock(&context->submit_lock);
    return status;
}

/* Waits until the places of the coming step are free. Called by everything that touches the coming step's place; waited
 * for once a step, not with every input. The first `depth` steps find theirs unused. */
static plait_status wait_place(plait_run *run) {
    if (run->failed) return plait_error_raise(&run->failure);
    if (run->step < (uint64_t)run->depth || run->place_free_for == run->step) return PLAIT_OK;
    plait_status status = wait_step(run, run->step - (uint64_t)run->depth);
    if (status == PLAIT_OK) {
        run->place_free_for = run->step;
        return PLAIT_OK;
    }
    return fail_run(run, plait_error_context(status, "run of %s", run->plan->name));
}

/* In the host's staging, or directly in the buffer of a mapped device, of the coming step's place. */
void *plait_run_input_bytes(const plait_run *run, size_t index) {
    const plait_plan *plan = run->plan;
    const plait_plan_input *input = &plan->inputs[index];
    size_t place = (size_t)(run->step % (uint64_t)run->depth);
    if (input->home == PLAIT_NO_SLOT)
        return run->input_staging.bytes + place * plan->input_staging_bytes + input->host_offset;
    const plait_plan_value *value = &plan->values[plan->inputs[input->home].value];
    const plait_buffer *buffer =
        run->inputs[place * (size_t)plan->context->n_devices + (size_t)value->device];
    return (uint8_t *)buffer->host + value->offset;
}

/* The pointer is good until the step is submitted; then the bytes are the devices'. Capacity is that at the bounds,
 * whatever the dims are. */
plait_status plait_run_input_at(plait_run *run, int index, void **out_bytes, uint64_t *out_size_bytes) {
    const plait_plan *plan = run->plan;
    if (index < 0 || (size_t)index >= plan->n_inputs)
        return plait_error(PLAIT_OUT_OF_RANGE, "run of %s: input number %d, there are %zu", plan->name, index,
                           plan->n_inputs);
    PLAIT_TRY(wait_place(run));
    *out_bytes = plait_run_input_bytes(run, (size_t)index);
    *out_size_bytes = plan->graph->storages[plan->inputs[index].storage].size_bytes;
    return PLAIT_OK;
}

plait_status plait_run_input(plait_run *run, const char *input, void **out_bytes, uint64_t *out_size_bytes) {
    int index = 0;
    PLAIT_TRY(plait_run_input_index(run, input, &index));
    return plait_run_input_at(run, index, out_bytes, out_size_bytes);
}

/* At the dims of the coming step: those of steps in flight are in their places. */
uint64_t plait_run_span_now(const plait_run *run, uint32_t tensor_id) {
    const plait_graph_tensor *tensor = &run->plan->graph->tensors[tensor_id];
    plait_operand operand = tensor->shape;
    if (tensor->outer.dim >= 0)
        operand.dims[tensor->outer.axis] = plait_extent_value(&tensor->outer, 0, run->dims);
    return (uint64_t)plait_operand_span_bytes(&operand);
}

/* By the current dims, so they must be set before. Fewer bytes leave the rest as it was. */
plait_status plait_run_write(plait_run *run, const char *input, const void *bytes, uint64_t size_bytes) {
    int index = 0;
    void *staging;
    uint64_t capacity;
    PLAIT_TRY(plait_run_input_index(run, input, &index));
    PLAIT_TRY(plait_run_input_at(run, index, &staging, &capacity));
    uint64_t needed =
        plait_run_span_now(run, run->plan->graph->storages[run->plan->inputs[index].storage].root);
    if (size_bytes > needed)
        return plait_error(PLAIT_INVALID_ARGUMENT,
                           "run of %s: input \"%s\": %llu bytes, expected at most %llu", run->plan->name,
                           input, (unsigned long long)size_bytes, (unsigned long long)needed);
    if (size_bytes) memcpy(staging, bytes, size_bytes);
    return PLAIT_OK;
}

/* ---- the step ---- */

/* The few integers that commands read through pointers: dims, bytes of inputs and outputs, pieces of transfers. */
static void set_sizes(plait_run *run, int p) {
    const plait_plan *plan = run->plan;
    plait_run_place *place = &run->places[p];
    memcpy(place->dims, run->dims, plan->graph->n_dims * sizeof *run->dims);
    for (size_t i = 0; i < plan->n_inputs; i++)
        place->input_sizes[i] = plait_run_span_now(run, plan->graph->storages[plan->inputs[i].storage].root);
    for (size_t o = 0; o < plan->n_outputs; o++)
        place->output_sizes[o] =
            plait_run_span_now(run, plan->graph->outputs[plan->outputs[o].output].tensor);
    plait_run_set_pieces(run, p);
}

/* Everything that can be wrong with the step is found before any queue knows of it; a refused step leaves the run as it
 * was. `step` counts only what was submitted. */
plait_status plait_run_step(plait_run *run) {
    int place = (int)(run->step % (uint64_t)run->depth);
    PLAIT_TRY(wait_place(run));
    PLAIT_TRY(plait_run_check_ids(run));
    plait_run_trace_step(run);
    set_sizes(run, place);
    plait_status status = plait_run_submit(run, place);
    if (status != PLAIT_OK)
        return plait_error_context(status, "run of %s: step %llu", run->plan->name,
                                   (unsigned long long)run->step);
    plait_run_trace_submitted(run);
    run->step++;
    return PLAIT_OK;
}

/* Of the last step alone: queues run in order, so the ones before have ended too. */
plait_status plait_run_wait(plait_run *run) {
    if (run->failed) return plait_error_raise(&run->failure);
    if (run->step == 0) return PLAIT_OK;
    plait_status status = wait_step(run, run->step - 1);
    if (status == PLAIT_OK) return PLAIT_OK;
    return fail_run(run, plait_error_context(status, "run of %s", run->plan->name));
}

/* Outputs lie in the place of the last step, which is used again `depth` steps later. */
plait_status plait_run_output_at(plait_run *run, int index, const void **out_bytes,
                                 uint64_t *out_size_bytes) {
    const plait_plan *plan = run->plan;
    if (index < 0 || (size_t)index >= plan->n_outputs)
        return plait_error(PLAIT_OUT_OF_RANGE, "run of %s: output number %d, there are %zu", plan->name,
                           index, plan->n_outputs);
    if (run->step == 0) return plait_error(PLAIT_WRONG_STATE, "run of %s: no step was made yet", plan->name);
    PLAIT_TRY(plait_run_wait(run));
    uint64_t place = (run->step - 1) % (uint64_t)run->depth;
    *out_bytes =
        run->output_staging.bytes + place * plan->output_staging_bytes + plan->outputs[index].host_offset;
    *out_size_bytes = run->places[place].output_sizes[index];
    return PLAIT_OK;
}

plait_status plait_run_output(plait_run *run, const char *output, const void **out_bytes,
                              uint64_t *out_size_bytes) {
    int index = 0;
    PLAIT_TRY(plait_run_output_index(run, output, &index));
    return plait_run_output_at(run, index, out_bytes, out_size_bytes);
}
