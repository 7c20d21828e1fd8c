/* The part of the proof that spans queues: vector clocks over the host and every device's queue, for three steps in
 * a row. What only one queue touches is ordered by that queue; shared between processes are the staging areas: input
 * staging (host writes, devices read; two halves by parity of the step), output staging (devices write, host reads;
 * two halves) and the staging of each transfer (source writes, target reads; one area, reused every step).
 *
 * How a run orders them (run.c does exactly this): before the host writes inputs of step s it waits for the end of
 * step s-2; each queue begins step s by waiting for the end of step s-1 on all other queues; a receive waits for its
 * send; the host reads outputs of step s after its end and before it begins step s+2.
 *
 * Invariant: process 0 is the host, process 1 + d the queue of device d. */
#include "plan/plan.h"

#include "base/alloc.h"
#include "base/status.h"

#include <stdlib.h>
#include <string.h>

enum { STEPS = 3 };

typedef struct staged {
    int kind; /* 0 input staging, 1 output staging, 2 transfer staging */
    uint64_t begin, end;
    int process;
    bool write;
    uint32_t *clock; /* in `clocks` of the proof */
} staged;

typedef struct queues {
    const plait_plan *plan;
    int n_processes;
    uint32_t *now;      /* clock of each process, n_processes rows of n_processes */
    uint32_t *step_end; /* [step][process] clock rows at the end of a step */
    uint32_t *done;     /* clock row of every plan step of the current iteration */
    staged *events;
    uint32_t *clocks;
    size_t n_events;
} queues;

static uint32_t *row(const queues *q, uint32_t *base, size_t index) {
    return base + index * (size_t)q->n_processes;
}

static void join(const queues *q, uint32_t *into, const uint32_t *from) {
    for (int i = 0; i < q->n_processes; i++)
        if (from[i] > into[i]) into[i] = from[i];
}

static void tick(queues *q, int process) {
    row(q, q->now, (size_t)process)[process]++;
}

static void note(queues *q, int kind, uint64_t begin, uint64_t size, int process, bool write) {
    staged *e = &q->events[q->n_events];
    tick(q, process);
    *e = (staged){kind, begin, begin + size, process, write, row(q, q->clocks, q->n_events)};
    memcpy(e->clock, row(q, q->now, (size_t)process), (size_t)q->n_processes * sizeof *e->clock);
    q->n_events++;
}

/* ---- staging ---- */

typedef struct range {
    uint64_t begin, size;
    uint32_t owner;
} range;

static int by_begin(const void *a, const void *b) {
    const range *x = a, *y = b;
    return x->begin < y->begin ? -1 : x->begin > y->begin;
}

/* Ranges of different owners lie inside the area and share no byte. */
static plait_status check_ranges(range *ranges, size_t n, uint64_t area, const char *what) {
    uint64_t end = 0;
    if (n) qsort(ranges, n, sizeof *ranges, by_begin);
    for (size_t i = 0; i < n; i++) {
        bool same = i > 0 && ranges[i].owner == ranges[i - 1].owner;
        if (ranges[i].size == 0 || same) continue;
        if (ranges[i].begin < end || ranges[i].begin > area || ranges[i].size > area - ranges[i].begin)
            return plait_error(PLAIT_INTERNAL,
                               "proof: %s: bytes [%llu, +%llu) are another's or leave the area of %llu", what,
                               (unsigned long long)ranges[i].begin, (unsigned long long)ranges[i].size,
                               (unsigned long long)area);
        end = ranges[i].begin + ranges[i].size;
    }
    return PLAIT_OK;
}

static plait_status check_areas(const plait_plan *plan, range *ranges) {
    for (size_t i = 0; i < plan->n_inputs; i++) {
        uint32_t storage = plan->inputs[i].storage;
        ranges[i] = (range){plan->inputs[i].host_offset, plan->graph->storages[storage].size_bytes, storage};
    }
    PLAIT_TRY(check_ranges(ranges, plan->n_inputs, plan->input_staging_bytes, "input staging"));
    for (size_t o = 0; o < plan->n_outputs; o++)
        ranges[o] = (range){plan->outputs[o].host_offset, plan->outputs[o].size_bytes, (uint32_t)o};
    PLAIT_TRY(check_ranges(ranges, plan->n_outputs, plan->output_staging_bytes, "output staging"));
    for (size_t t = 0; t < plan->n_transfers; t++)
        ranges[t] = (range){plan->transfers[t].staging_offset, plan->transfers[t].size_bytes, (uint32_t)t};
    return check_ranges(ranges, plan->n_transfers, plan->transfer_staging_bytes, "transfer staging");
}

plait_status plait_plan_verify_staging(const plait_plan *plan) {
    size_t n = plan->n_inputs > plan->n_outputs ? plan->n_inputs : plan->n_outputs;
    if (plan->n_transfers > n) n = plan->n_transfers;
    range *ranges = plait_alloc_array(n, sizeof *ranges);
    if (!ranges) return plait_error_memory("proof", n * sizeof *ranges);
    plait_status status = check_areas(plan, ranges);
    free(ranges);
    return status;
}

/* ---- one step as the run carries it out ---- */

static void host_begins(queues *q, int step) {
    const plait_plan *plan = q->plan;
    if (step >= 2)
        for (int p = 1; p < q->n_processes; p++)
            join(q, row(q, q->now, 0),
                 row(q, q->step_end, (size_t)(step - 2) * (size_t)q->n_processes + (size_t)p));
    uint64_t base = (uint64_t)(step % 2) * plan->input_staging_bytes;
    for (size_t i = 0; i < plan->n_inputs; i++)
        note(q, 0, base + plan->inputs[i].host_offset,
             plan->graph->storages[plan->inputs[i].storage].size_bytes, 0, true);
    for (int p = 1; p < q->n_processes; p++) { /* submission hands the host's clock to every queue */
        join(q, row(q, q->now, (size_t)p), row(q, q->now, 0));
        for (int other = 1; step >= 1 && other < q->n_processes; other++)
            join(q, row(q, q->now, (size_t)p),
                 row(q, q->step_end, (size_t)(step - 1) * (size_t)q->n_processes + (size_t)other));
    }
}

static void device_steps(queues *q, int step) {
    const plait_plan *plan = q->plan;
    uint64_t in_base = (uint64_t)(step % 2) * plan->input_staging_bytes;
    uint64_t out_base = (uint64_t)(step % 2) * plan->output_staging_bytes;
    for (size_t s = 0; s < plan->n_steps; s++) {
        const plait_plan_step *item = &plan->steps[s];
        int process = 1 + item->device;
        if (item->waits_for >= 0)
            join(q, row(q, q->now, (size_t)process), row(q, q->done, (size_t)item->waits_for));
        tick(q, process);
        if (item->kind == PLAIT_STEP_WRITE_INPUT) {
            const plait_plan_input *input = &plan->inputs[item->item];
            note(q, 0, in_base + input->host_offset, plan->graph->storages[input->storage].size_bytes,
                 process, false);
        } else if (item->kind == PLAIT_STEP_READ_OUTPUT) {
            const plait_plan_output *output = &plan->outputs[item->item];
            note(q, 1, out_base + output->host_offset, output->size_bytes, process, true);
        } else if (item->kind == PLAIT_STEP_SEND || item->kind == PLAIT_STEP_RECEIVE) {
            const plait_plan_transfer *transfer = &plan->transfers[item->item];
            note(q, 2, transfer->staging_offset, transfer->size_bytes, process,
                 item->kind == PLAIT_STEP_SEND);
        }
        memcpy(row(q, q->done, s), row(q, q->now, (size_t)process), (size_t)q->n_processes * sizeof *q->done);
    }
    for (int p = 1; p < q->n_processes; p++) {
        tick(q, p);
        memcpy(row(q, q->step_end, (size_t)step * (size_t)q->n_processes + (size_t)p),
               row(q, q->now, (size_t)p), (size_t)q->n_processes * sizeof *q->now);
    }
}

/* The host may read a step's outputs until it begins the step after the next. */
static void host_reads(queues *q, int step) {
    const plait_plan *plan = q->plan;
    for (int p = 1; p < q->n_processes; p++)
        join(q, row(q, q->now, 0), row(q, q->step_end, (size_t)step * (size_t)q->n_processes + (size_t)p));
    uint64_t base = (uint64_t)(step % 2) * plan->output_staging_bytes;
    for (size_t o = 0; o < plan->n_outputs; o++)
        note(q, 1, base + plan->outputs[o].host_offset, plan->outputs[o].size_bytes, 0, false);
}

/* ---- checking ---- */

static bool ordered(const staged *a, const staged *b) {
    return a->clock[a->process] <= b->clock[a->process] || b->clock[b->process] <= a->clock[b->process];
}

static int by_range(const void *a, const void *b) {
    const staged *x = a, *y = b;
    if (x->kind != y->kind) return x->kind - y->kind;
    return x->begin < y->begin ? -1 : x->begin > y->begin;
}

/* Sorted by where they are, so that only those that overlap meet. */
static plait_status check_events(queues *q) {
    static const char *const names[] = {"input staging", "output staging", "transfer staging"};
    if (q->n_events) qsort(q->events, q->n_events, sizeof *q->events, by_range);
    for (size_t i = 0; i < q->n_events; i++)
        for (size_t k = i + 1; k < q->n_events; k++) {
            const staged *a = &q->events[i], *b = &q->events[k];
            if (a->kind != b->kind || b->begin >= a->end) break;
            bool clash = (a->write || b->write) && a->process != b->process && b->begin < b->end;
            if (clash && !ordered(a, b))
                return plait_error(
                    PLAIT_INTERNAL,
                    "proof: %s bytes [%llu, %llu): accesses of queues %d and %d are not ordered",
                    names[a->kind], (unsigned long long)a->begin, (unsigned long long)a->end, a->process - 1,
                    b->process - 1);
        }
    return PLAIT_OK;
}

plait_status plait_plan_verify_queues(const plait_plan *plan) {
    queues q = {.plan = plan, .n_processes = 1 + plan->context->n_devices};
    size_t n = (size_t)q.n_processes;
    size_t n_events = STEPS * (2 * plan->n_inputs + 2 * plan->n_outputs + 2 * plan->n_transfers);
    q.now = plait_alloc_array(n * n, sizeof *q.now);
    q.step_end = plait_alloc_array(STEPS * n * n, sizeof *q.step_end);
    q.done = plait_alloc_array(plan->n_steps * n, sizeof *q.done);
    q.events = plait_alloc_array(n_events, sizeof *q.events);
    q.clocks = plait_alloc_array(n_events * n, sizeof *q.clocks);
    plait_status status = PLAIT_OK;
    if (!q.now || !q.step_end || !q.done || !q.events || !q.clocks)
        status = plait_error_memory("proof", n_events * n * 4);
    for (int step = 0; status == PLAIT_OK && step < STEPS; step++) {
        /* Outputs of the step before are read at the last moment that is allowed: after this one was submitted. */
        host_begins(&q, step);
        device_steps(&q, step);
        if (step >= 1) host_reads(&q, step - 1);
    }
    if (status == PLAIT_OK) status = check_events(&q);
    free(q.now);
    free(q.step_end);
    free(q.done);
    free(q.events);
    free(q.clocks);
    return status;
}
