/* Handing a step to the queues: the values of its signals are promised, what earlier runs did to the same devices is
 * waited for, the lists are submitted, and the relay is asked for what queues cannot wait for themselves.
 *
 * Hand-over: plans of one context share arenas, and may share state. When another run was the last that touched a
 * device's memory, every queue that touches it in this step first waits for the values that the other run's queues had
 * promised there. What came before that run, it has waited for itself.
 *
 * Invariant: values are promised and lists submitted under the context's lock, so on every queue lists lie in the order
 * of the values that they signal. */
#include "run/run.h"

#include "base/status.h"

#include <string.h>

/* Values of this step's signals: the next ones of each queue, in the order in which the step makes them. `before` takes
 * those of the step before, for waits that reach back. */
static void promise(plait_run *run, plait_run_place *place) {
    const plait_plan *plan = run->plan;
    const plait_run_place *last = &run->places[(run->step + (uint64_t)run->depth - 1) % (uint64_t)run->depth];
    if (run->step > 0) memcpy(place->before, last->signals, run->n_signals * sizeof *place->before);
    for (uint32_t q = 0; q < plan->n_queues; q++) {
        if (plan->queues[q].n_steps == 0) continue;
        plait_context_queue *queue = plait_context_queue_at(plan->context, q);
        uint64_t *values = place->signals + run->first_signal[q];
        for (uint32_t i = 0; i < plan->queues[q].n_signals; i++) values[i] = ++queue->promised;
    }
}

/* Nothing of the step was submitted, so nobody waits for its values: the next step, of whichever run, may have them.
 * The lock has not been let go in between. */
static void take_back_promises(plait_run *run) {
    for (uint32_t q = 0; q < run->plan->n_queues; q++)
        if (run->plan->queues[q].n_steps)
            plait_context_queue_at(run->plan->context, q)->promised -= run->plan->queues[q].n_signals;
}

/* ---- hand-over ---- */

/* The value of queue `other` that queue `q` has to wait for before the step; 0: none. The largest over the devices that
 * q touches; timelines only grow, so it covers the rest. */
static uint64_t handed_value(const plait_run *run, uint32_t q, uint32_t other) {
    const plait_context *context = run->plan->context;
    uint64_t value = 0;
    for (int d = 0; d < context->n_devices; d++) {
        const plait_context_entry *entry = &context->devices[d];
        bool theirs = entry->user && entry->user != run && run->plan->queues[q].touches >> d & 1u;
        if (theirs && entry->touched[other] > value) value = entry->touched[other];
    }
    return value;
}

/* Puts waits in front of a queue's list; returns how many. Filled backwards from the step's own commands. `kept` is
 * what the wait reads; it is set to 0 where there is none, for the relay. */
static int add_hand_over(plait_run *run, plait_run_place *place, uint32_t q) {
    const plait_plan *plan = run->plan;
    plait_run_list *list = &place->lists[q];
    plait_launch_trace *trace = plait_run_trace_of_hand_over(run, (int)(place - run->places), q);
    int n = 0;
    for (uint32_t other = 0; other < plan->n_queues; other++) {
        uint64_t value = other == q ? 0 : handed_value(run, q, other);
        uint64_t *kept = &place->handed[q * plan->n_queues + other];
        *kept = value;
        if (value == 0) continue;
        plait_event *event = run->sources[q * plan->n_queues + other].event;
        list->commands[list->room - ++n] = (plait_command){
            .kind = PLAIT_COMMAND_WAIT, .wait = {.event = event, .value = kept, .trace = trace}};
    }
    return n;
}

/* True when another run was the last on a device that this one touches. */
static bool takes_over(const plait_run *run) {
    const plait_context *context = run->plan->context;
    uint64_t touches = 0;
    for (uint32_t q = 0; q < run->plan->n_queues; q++) touches |= run->plan->queues[q].touches;
    for (int d = 0; d < context->n_devices; d++)
        if (touches >> d & 1u && context->devices[d].user && context->devices[d].user != run) return true;
    return false;
}

/* From now on others wait for this run where it touches devices. Queues that do not touch the device keep 0, or what
 * this run promised there before. Only after everything was submitted. */
static void take_devices(plait_run *run) {
    const plait_plan *plan = run->plan;
    for (int d = 0; d < plan->context->n_devices; d++) {
        plait_context_entry *entry = &plan->context->devices[d];
        bool touched = false;
        for (uint32_t q = 0; q < plan->n_queues; q++) touched |= plan->queues[q].touches >> d & 1u;
        if (!touched) continue;
        if (entry->user != run) memset(entry->touched, 0, plan->n_queues * sizeof *entry->touched);
        entry->user = run;
        for (uint32_t q = 0; q < plan->n_queues; q++)
            if (plan->queues[q].touches >> d & 1u)
                entry->touched[q] = plait_context_queue_at(plan->context, q)->promised;
    }
}

void plait_run_forget(plait_run *run) {
    plait_context *context = run->plan->context;
    pthread_mutex_lock(&context->submit_lock);
    for (int d = 0; d < context->n_devices; d++)
        if (context->devices[d].user == run) context->devices[d].user = NULL;
    pthread_mutex_unlock(&context->submit_lock);
}

/* ---- submitting ---- */

/* The hand-over's waits and the step's commands are one list. */
static plait_status submit_list(plait_run *run, plait_run_place *place, uint32_t q, int n_waits) {
    const plait_run_list *list = &place->lists[q];
    plait_context_queue *queue = plait_context_queue_at(run->plan->context, q);
    return queue->queue->device->vtable->submit(queue->queue, list->commands + list->room - n_waits,
                                                list->n_commands + n_waits);
}

/* Asks the relay for what the submitted lists wait for and their devices cannot see. After submitting: the relay passes
 * on what is promised, in the order of each source's values. Asked after a failure too, since queues that got their
 * lists wait for it. */
static void ask_relay(const plait_run *run, const plait_run_place *place, bool hand_over) {
    const plait_plan *plan = run->plan;
    plait_relay *relay = plan->context->relay;
    for (uint32_t q = 0; hand_over && q < plan->n_queues; q++)
        for (uint32_t other = 0; plan->queues[q].n_steps && other < plan->n_queues; other++) {
            const plait_run_source *source = &run->sources[q * plan->n_queues + other];
            uint64_t value = place->handed[q * plan->n_queues + other];
            if (source->relayed && value)
                plait_relay_pass(relay, other, plait_context_queue_at(plan->context, other)->timeline, value,
                                 source->event);
        }
    for (size_t i = 0; i < place->n_requests; i++) {
        const plait_run_request *r = &place->requests[i];
        plait_relay_pass(relay, r->source, r->from, *r->value, r->target);
    }
}

/* Part of a step is on its way and the rest never will be: queues that wait for the rest must not wait for ever. Queues
 * from `first` on got no list: their timelines fail, and with them all who wait. The run and the context are of no use
 * any more. */
static plait_status abandon(plait_run *run, uint32_t first, plait_status status) {
    const plait_plan *plan = run->plan;
    plait_error_record failure;
    plait_error_save(status, &failure);
    for (uint32_t q = first; q < plan->n_queues; q++) {
        if (plan->queues[q].n_steps == 0) continue;
        plait_event *timeline = plait_context_queue_at(plan->context, q)->timeline;
        timeline->device->vtable->event_fail(timeline, &failure);
    }
    plait_context_fail(plan->context, status);
    run->failed = true;
    run->failure = failure;
    return plait_error_raise(&failure);
}

/* The first list that is refused, before any was accepted, has done no harm: the step can be made again. Later ones
 * leave part of the step under way. */
static plait_status submit_all(plait_run *run, plait_run_place *place) {
    const plait_plan *plan = run->plan;
    bool hand_over = takes_over(run);
    plait_status status = PLAIT_OK;
    run->submitted_now = false;
    if (hand_over) memset(place->handed, 0, plan->n_queues * plan->n_queues * sizeof *place->handed);
    for (uint32_t q = 0; q < plan->n_queues; q++) {
        if (plan->queues[q].n_steps == 0) continue;
        status = submit_list(run, place, q, hand_over ? add_hand_over(run, place, q) : 0);
        if (status != PLAIT_OK && !run->submitted_now) {
            take_back_promises(run);
            return status;
        }
        if (status != PLAIT_OK) status = abandon(run, q, status);
        if (status != PLAIT_OK) break;
        run->submitted = run->submitted_now = true;
    }
    ask_relay(run, place, hand_over);
    if (status == PLAIT_OK && plan->context->n_devices > 1) take_devices(run);
    return status;
}

/* One lock for all runs of the context, held as long as handing over takes and never while anything is waited for (on
 * inline queues the commands run meanwhile). A context that has failed takes no more steps. */
plait_status plait_run_submit(plait_run *run, int p) {
    plait_context *context = run->plan->context;
    plait_run_place *place = &run->places[p];
    plait_status status = PLAIT_OK;
    pthread_mutex_lock(&context->submit_lock);
    if (context->failure.status != PLAIT_OK) status = plait_error_raise(&context->failure);
    if (status == PLAIT_OK) {
        if (place->arenas != context->arenas) {
            plait_run_fill_lists(run, p);
            plait_run_set_pieces(run, p);
            place->arenas = context->arenas;
        }
        promise(run, place);
        status = submit_all(run, place);
    }
    pthread_mutex_unlock(&context->submit_lock);
    return status;
}
