/* Running a program: addresses and dims go into the calls, every task counts its units, the pool does the rest. Not
 * here: how units are spread over threads (pool.c), what they compute (kernels).
 *
 * Invariant: nothing is allocated, and nothing outside of the bound buffers is touched: sizes of slots and values of
 * dims are checked first. */
#include "device/cpu/program.h"

#include "base/os.h"
#include "base/size.h"

#include <string.h>

/* ---- tasks ---- */

int64_t plait_cpu_kernel_units(const plait_cpu_task *task) {
    return task->kernel.kernel->units(task->kernel.call, task->kernel.phase);
}

void plait_cpu_kernel_run(const plait_cpu_task *task, int64_t begin, int64_t end, int thread) {
    task->kernel.kernel->run(task->kernel.call, task->kernel.phase, begin, end, thread);
}

/* Rows of the chain, flattened over dims 1 to 3; of an input alone, its columns. Where a chain makes the input, its
 * rows are those columns (prepare has made sure of it). */
int64_t plait_cpu_rows_units(const plait_cpu_task *task) {
    if (task->rows.n == 0) return task->rows.input->x->dims[1];
    const plait_operand *y = &task->rows.calls[0]->use.outputs[0];
    return y->dims[1] * y->dims[2] * y->dims[3];
}

/* In blocks that stay in the nearest cache from one node of the chain to the next: 4096 floats are 16 KiB of the widest
 * node's output. All nodes of the chain do a block before the next one begins, and then its columns are quantised. */
void plait_cpu_rows_run(const plait_cpu_task *task, int64_t begin, int64_t end, int thread) {
    enum { BLOCK_FLOATS = 4096 };
    const plait_operand *wide = task->rows.n ? &task->rows.calls[0]->use.outputs[0] : task->rows.input->x;
    int64_t step = plait_max_i64(BLOCK_FLOATS / plait_max_i64(wide->dims[0], 1), 1);
    (void)thread;
    for (int64_t row = begin; row < end; row += step) {
        int64_t last = plait_min_i64(row + step, end);
        for (int i = 0; i < task->rows.n; i++)
            task->rows.kernels[i]->run_rows(task->rows.calls[i], row, last);
        if (task->rows.input) plait_cpu_input_run(task->rows.input, row, last);
    }
}

/* Tasks of products and of gates have the same units, groups of rows of the weight. */
int64_t plait_cpu_product_task_units(const plait_cpu_task *task) {
    return plait_cpu_product_units(task->product);
}

void plait_cpu_product_task_run(const plait_cpu_task *task, int64_t begin, int64_t end, int thread) {
    plait_cpu_product_run(task->product, begin, end, thread);
}

int64_t plait_cpu_gated_task_units(const plait_cpu_task *task) {
    return plait_cpu_product_units(&task->gated->a);
}

void plait_cpu_gated_task_run(const plait_cpu_task *task, int64_t begin, int64_t end, int thread) {
    plait_cpu_gated_run(task->gated, begin, end, thread);
}

/* The first thread that comes to a phase says when it began. The load keeps the others from reading the clock; of two
 * that come together one wins. __atomic functions, since the array is plain memory that is cleared between launches. */
static void note_begin(uint64_t *begin_ns) {
    uint64_t none = 0;
    if (__atomic_load_n(begin_ns, __ATOMIC_RELAXED)) return;
    __atomic_compare_exchange_n(begin_ns, &none, plait_time_ns(), false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
}

/* Units of a phase are those of its tasks, one task's behind the other's; a piece that the pool hands out may reach
 * over several of them. The work is the first member of its program. */
void plait_cpu_run_tasks(const plait_cpu_work *work, int phase, int64_t begin, int64_t end, int thread) {
    const plait_program *program = (const plait_program *)work;
    const plait_cpu_phase *p = &program->phases[phase];
    int64_t first = 0; /* unit of the phase at which the task begins */
    if (program->tracing) note_begin(&program->begin_ns[phase]);
    for (int t = p->first_task; t < p->first_task + p->n_tasks && first < end; t++) {
        const plait_cpu_task *task = &program->tasks[t];
        int64_t from = plait_max_i64(begin - first, 0), to = plait_min_i64(end - first, task->n_units);
        if (from < to) task->run(task, from, to, thread);
        first += task->n_units;
    }
}

/* ---- launch ---- */

/* Before anything is written or run, so that a launch which is refused has no effect. A slot that no operand of any
 * bytes lies in may be absent. Values of dims up to their bounds are what the program was compiled for: scratch and
 * slots are sized by the bounds. */
static plait_status check(const plait_program *program, plait_buffer *const *slots, const int64_t *dims) {
    for (int s = 0; s < program->n_slots; s++) {
        if (program->slot_bytes[s] == 0) continue;
        if (!slots || !slots[s] || !slots[s]->host)
            return plait_error(PLAIT_INVALID_ARGUMENT, "%s: launch without a buffer in slot %d",
                               program->device, s);
        if (slots[s]->size_bytes < program->slot_bytes[s])
            return plait_error(PLAIT_OUT_OF_RANGE, "%s: launch: slot %d has %llu bytes, expected %llu",
                               program->device, s, (unsigned long long)slots[s]->size_bytes,
                               (unsigned long long)program->slot_bytes[s]);
    }
    if (program->n_dims && !dims)
        return plait_error(PLAIT_INVALID_ARGUMENT, "%s: launch without values of %d dims", program->device,
                           program->n_dims);
    for (int d = 0; d < program->n_dims; d++)
        if (dims[d] < 0 || dims[d] > program->bounds[d])
            return plait_error(PLAIT_OUT_OF_RANGE, "%s: launch: dim %d is %lld, its bound is %lld",
                               program->device, d, (long long)dims[d], (long long)program->bounds[d]);
    return PLAIT_OK;
}

/* Writes into the working memory; the caller holds the pool. Dims first: units are counted from them. Strides stay,
 * since only outermost dims vary. */
static void bind(plait_program *program, plait_buffer *const *slots, const int64_t *dims) {
    for (int i = 0; i < program->n_bind_dims; i++)
        *program->bind_dims[i].dim = plait_extent_value(&program->bind_dims[i].extent, 0, dims);
    for (int i = 0; i < program->n_binds; i++) {
        const plait_cpu_bind *b = &program->binds[i];
        *b->address = (char *)slots[b->slot]->host + b->offset;
    }
    for (int p = 0; p < program->work.n_phases; p++) {
        const plait_cpu_phase *phase = &program->phases[p];
        program->units[p] = 0;
        for (int t = phase->first_task; t < phase->first_task + phase->n_tasks; t++) {
            program->tasks[t].n_units = program->tasks[t].units(&program->tasks[t]);
            program->units[p] += program->tasks[t].n_units;
        }
    }
}

/* Turns the first error word into a failure that names its node, and clears all, for the next launch uses the same
 * words. Kernels only note a bad id: they cannot fail, and go on with a row of zeros or none. The workers' stores
 * happened before the last barrier. */
static plait_status check_words(const plait_program *program) {
    plait_status status = PLAIT_OK;
    for (int i = 0; i < program->n_calls; i++) {
        if (!__atomic_load_n(&program->error_words[i], __ATOMIC_RELAXED)) continue;
        __atomic_store_n(&program->error_words[i], 0, __ATOMIC_RELAXED);
        if (status == PLAIT_OK)
            status = plait_error(PLAIT_OUT_OF_RANGE, "node %s (%s): an id it was given is outside its range",
                                 program->names[i], program->calls[i].use.op->name);
    }
    return status;
}

/* A group's span is from the first of its phases to the first of the next group. */
static void collect_spans(const plait_program *program, plait_launch_trace *trace) {
    uint64_t end_ns = plait_time_ns();
    int last = -1; /* group of the span that is open */
    for (int p = 0; p < program->work.n_phases; p++) {
        int group = program->phases[p].group;
        uint64_t begin_ns = program->begin_ns[p];
        if (begin_ns == 0 || group == last) continue;
        /* Phases without a barrier between them may begin in any order. */
        if (last >= 0 && begin_ns < trace->spans[trace->n - 1].begin_ns)
            begin_ns = trace->spans[trace->n - 1].begin_ns;
        if (last >= 0) trace->spans[trace->n - 1].end_ns = begin_ns;
        if (trace->n == trace->capacity) return;
        trace->spans[trace->n++] = (struct plait_launch_span){group, begin_ns, end_ns};
        last = group;
    }
}

/* Everything that a launch changes, including the program's error words and times, is under the pool's lock: one launch
 * of a device at a time, whichever queue it comes from. The cast gives up const for the working memory alone
 * (program.h). */
plait_status plait_cpu_launch(plait_cpu_device *device, const plait_program *program,
                              plait_buffer *const *slots, const int64_t *dims, plait_launch_trace *trace) {
    PLAIT_TRY(check(program, slots, dims));
    plait_cpu_pool_acquire(device->pool);
    plait_program *memory = (plait_program *)(uintptr_t)program;
    bind(memory, slots, dims);
    memory->tracing = trace && trace->n < trace->capacity;
    if (memory->tracing)
        memset(memory->begin_ns, 0, (size_t)program->work.n_phases * sizeof *memory->begin_ns);
    plait_cpu_pool_run(device->pool, &program->work);
    if (memory->tracing) collect_spans(program, trace);
    plait_status status = check_words(program);
    plait_cpu_pool_release(device->pool);
    return status;
}
