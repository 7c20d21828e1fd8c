/* The command lists of a run: for every queue and each parity of the step one list, made once from the plan's steps.
 * What differs between steps is read through pointers: sizes, dims, signal values.
 *
 * Order between queues, as the proof (plan/verify_queues.c) assumes it: a queue begins a step by waiting for the end of
 * the step before on all other queues; a receive waits for its send; the last command of a step signals its end.
 *
 * Invariant: the lists are constant after creation, except the buffer of the arena's slot, which a step reads from
 * the context. */
#include "run/run.h"

#include "base/alloc.h"
#include "base/status.h"

/* Signals of one step on a device: one for each send and one for the end, numbered from 1. */
static uint64_t count_signals(const plait_plan *plan, int device) {
    uint64_t n = 1;
    for (size_t s = 0; s < plan->n_steps; s++)
        n += plan->steps[s].device == device && plan->steps[s].kind == PLAIT_STEP_SEND;
    return n;
}

/* Index of a device's first signal in the tables of signal values. */
static size_t signal_base(const plait_run *run, int device) {
    size_t base = 0;
    for (int d = 0; d < device; d++) base += run->devices[d].n_signals;
    return base;
}

/* Number, from 1, of the signal behind a send step. */
static uint64_t signal_of_step(const plait_plan *plan, size_t step) {
    uint64_t n = 0;
    for (size_t s = 0; s <= step; s++)
        n += plan->steps[s].device == plan->steps[step].device && plan->steps[s].kind == PLAIT_STEP_SEND;
    return n;
}

static plait_region value_region(const plait_run *run, uint32_t value, uint64_t offset, uint64_t size) {
    const plait_plan_value *row = &run->plan->values[value];
    return (plait_region){run->devices[row->device].slots[row->slot], row->offset + offset, size};
}

static void add_wait(plait_run *run, plait_run_list *list, int parity, int device, uint64_t signal) {
    plait_command *c = &list->commands[list->n_commands++];
    c->kind = PLAIT_COMMAND_WAIT;
    c->wait.event = run->devices[device].event;
    c->wait.value = signal ? &run->signal_values[parity][signal_base(run, device) + signal - 1]
                           : &run->end_values[parity][device];
}

static void add_signal(plait_run *run, plait_run_list *list, int parity, int device, uint64_t signal) {
    plait_command *c = &list->commands[list->n_commands++];
    c->kind = PLAIT_COMMAND_SIGNAL;
    c->signal.event = run->devices[device].event;
    c->signal.value = &run->signal_values[parity][signal_base(run, device) + signal - 1];
}

/* Nothing for what has no bytes even at the bounds: its slot may have no buffer. */
static void add_transfer(plait_run_list *list, plait_command_kind kind, plait_region region, void *host,
                         const uint64_t *size_bytes) {
    if (region.size_bytes == 0) return;
    plait_command *c = &list->commands[list->n_commands++];
    c->kind = kind;
    c->transfer.region = region;
    c->transfer.host = host;
    c->transfer.size_bytes = size_bytes;
}

static void add_plan_step(plait_run *run, plait_run_list *list, int parity, size_t s) {
    const plait_plan *plan = run->plan;
    const plait_plan_step *step = &plan->steps[s];
    const plait_plan_transfer *transfer = &plan->transfers[step->item];
    switch (step->kind) {
    case PLAIT_STEP_WRITE_INPUT: {
        const plait_plan_input *input = &plan->inputs[step->item];
        uint64_t size = plan->graph->storages[input->storage].size_bytes;
        uint8_t *host =
            run->input_staging + (uint64_t)parity * plan->input_staging_bytes + input->host_offset;
        add_transfer(list, PLAIT_COMMAND_WRITE, value_region(run, input->value, 0, size), host,
                     &run->input_sizes[parity][step->item]);
        break;
    }
    case PLAIT_STEP_LAUNCH: {
        plait_command *c = &list->commands[list->n_commands++];
        c->kind = PLAIT_COMMAND_LAUNCH;
        c->launch.program = plan->segments[step->item].program;
        c->launch.slots = run->devices[step->device].slots;
        c->launch.dims = run->launched[parity];
        c->launch.trace = &run->traces[step->item];
        break;
    }
    case PLAIT_STEP_SEND:
        add_transfer(list, PLAIT_COMMAND_READ, value_region(run, transfer->source, 0, transfer->size_bytes),
                     run->transfer_staging + transfer->staging_offset,
                     &run->transfer_sizes[parity][step->item]);
        add_signal(run, list, parity, step->device, signal_of_step(plan, s));
        break;
    case PLAIT_STEP_RECEIVE:
        add_wait(run, list, parity, plan->steps[step->waits_for].device,
                 signal_of_step(plan, (size_t)step->waits_for));
        add_transfer(list, PLAIT_COMMAND_WRITE, value_region(run, transfer->target, 0, transfer->size_bytes),
                     run->transfer_staging + transfer->staging_offset,
                     &run->transfer_sizes[parity][step->item]);
        break;
    case PLAIT_STEP_READ_OUTPUT: {
        const plait_plan_output *output = &plan->outputs[step->item];
        uint8_t *host =
            run->output_staging + (uint64_t)parity * plan->output_staging_bytes + output->host_offset;
        add_transfer(list, PLAIT_COMMAND_READ,
                     value_region(run, output->value, output->source_offset, output->size_bytes), host,
                     &run->output_sizes[parity][step->item]);
        break;
    }
    }
}

static plait_status build_list(plait_run *run, int device, int parity) {
    const plait_plan *plan = run->plan;
    plait_run_list *list = &run->devices[device].lists[parity];
    size_t most = 2 * plan->n_steps + (size_t)plan->context->n_devices + 1;
    list->commands = plait_alloc_array(most, sizeof *list->commands);
    if (!list->commands) return plait_error_memory("run: command list", most * sizeof *list->commands);
    for (int other = 0; other < plan->context->n_devices; other++)
        if (other != device) add_wait(run, list, parity, other, 0);
    for (size_t s = 0; s < plan->n_steps; s++)
        if (plan->steps[s].device == device) add_plan_step(run, list, parity, s);
    add_signal(run, list, parity, device, run->devices[device].n_signals);
    return PLAIT_OK;
}

plait_status plait_run_build_lists(plait_run *run) {
    int n_devices = run->plan->context->n_devices;
    run->n_signal_values = 0;
    for (int d = 0; d < n_devices; d++) {
        run->devices[d].n_signals = count_signals(run->plan, d);
        run->n_signal_values += run->devices[d].n_signals;
    }
    for (int parity = 0; parity < 2; parity++) {
        run->signal_values[parity] = plait_alloc_array(run->n_signal_values, sizeof(uint64_t));
        run->end_values[parity] = plait_alloc_array((size_t)n_devices, sizeof(uint64_t));
        if (!run->signal_values[parity] || !run->end_values[parity])
            return plait_error_memory("run: signals", 0);
    }
    for (int d = 0; d < n_devices; d++)
        for (int parity = 0; parity < 2; parity++) PLAIT_TRY(build_list(run, d, parity));
    return PLAIT_OK;
}
