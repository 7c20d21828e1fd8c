/* Kernels of softmax (a unit is a row), argmax and top_k; top_k of few from short columns, as a router has them, works
 * row by row, so that softmax, top_k and what normalises its values run as one.
 *
 * The best of a column are found in parts of PART elements, then among the parts' best. An entry is one number that
 * orders as plait_better does: the value's bits made monotonic (0 for NaN, both zeros alike), then the id, lower ids
 * larger. The entries held so far are a heap with the worst on top; most elements are passed over because they are not
 * above its value. Order is total, so cuts do not show.
 *
 * Not here: partials of a split column, which the op's merge rule joins. */
#include "device/cpu/kernels/family.h"
#include "tensor/float16.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { PART = 16384, FEW = 64 };

/* ---- entries ---- */

/* Adding +0 turns -0 into +0. Bits of positive numbers get the sign bit set, those of negative ones are inverted:
 * unsigned order is then the order of numbers. Ids are below 2^32 - 1, so no entry is 0. */
static uint64_t entry_of(float value, int64_t index) {
    uint32_t bits = plait_f32_bits(value + 0.0f), key = 0;
    if (value == value) key = bits >> 31 ? ~bits : bits | 0x80000000u;
    return (uint64_t)key << 32 | (uint32_t)(UINT32_MAX - (uint32_t)index);
}
static int64_t entry_index(uint64_t entry) {
    return (int64_t)(UINT32_MAX - (uint32_t)entry);
}
/* The value of an entry that is a number; -infinity for NaN. */
static float entry_value(uint64_t entry) {
    uint32_t key = (uint32_t)(entry >> 32);
    if (key == 0) return -INFINITY;
    return plait_f32_from_bits(key >> 31 ? key & 0x7FFFFFFFu : ~key);
}

/* ---- the heap: the least entry is at 0 ---- */

/* heap[0] has changed: it goes down until both children are larger. */
static void sink_first(uint64_t *heap, int64_t n) {
    uint64_t entry = heap[0];
    int64_t at = 0;
    for (int64_t child = 1; child < n; child = 2 * at + 1) {
        if (child + 1 < n && heap[child + 1] < heap[child]) child++;
        if (heap[child] >= entry) break;
        heap[at] = heap[child];
        at = child;
    }
    heap[at] = entry;
}

/* Adds an entry, or replaces the worst when `room` are held. room is at least 1. */
static void offer(uint64_t *heap, int64_t *held, int64_t room, uint64_t entry) {
    if (*held == room) {
        if (entry <= heap[0]) return;
        heap[0] = entry;
        sink_first(heap, room);
        return;
    }
    int64_t at = (*held)++;
    for (; at > 0 && heap[(at - 1) / 2] > entry; at = (at - 1) / 2) heap[at] = heap[(at - 1) / 2];
    heap[at] = entry;
}

/* The best `room` of x[begin, end), as a heap; returns how many there are. While the worst of a full heap is NaN, every
 * number is above it; later NaNs are not. Of elements equal to the worst, those that come later have the larger id and
 * are worse, so strictly larger ones are all that is looked for. */
static int64_t best_of_part(const plait_cpu_simd *simd, const float *x, int64_t begin, int64_t end,
                            int64_t room, uint64_t *heap) {
    int64_t held = 0, i = begin;
    for (; i < end && held < room; i++) offer(heap, &held, room, entry_of(x[i], i));
    for (; i < end; i++) {
        bool number = heap[0] >> 32 != 0;
        if (number) i = simd->find_above(x, entry_value(heap[0]), i, end);
        if (i < end) offer(heap, &held, room, entry_of(x[i], i));
    }
    return held;
}

/* Best first: the least goes to the end, again and again. */
static void sort_heap(uint64_t *heap, int64_t n) {
    while (n > 1) {
        uint64_t least = heap[0];
        heap[0] = heap[--n];
        sink_first(heap, n);
        heap[n] = least;
    }
}

/* ---- argmax and top_k: phase 0 parts, phase 1 columns ---- */

static bool best_accepts(const plait_op_use *use, const plait_encoding *encodings, char *reason,
                         size_t reason_bytes) {
    (void)encodings;
    return plait_cpu_rows_accepted(use, reason, reason_bytes);
}

static int64_t wanted(const plait_op_use *use) {
    return use->op->id == PLAIT_OP_top_k ? use->attrs[PLAIT_TOP_K_K].i : 1;
}
static int64_t parts_of(const plait_op_use *use) {
    return (use->inputs[0].dims[0] + PART - 1) / PART;
}
/* Entries of a column's parts, and then of the column. */
static int64_t column_entries(const plait_op_use *use) {
    return wanted(use) * (parts_of(use) + 1);
}

static size_t best_scratch(const plait_op_use *use, int n_threads) {
    (void)n_threads;
    return (size_t)(column_entries(use) * use->inputs[0].dims[1]) * sizeof(uint64_t);
}

static int64_t best_units(const plait_cpu_call *call, int phase) {
    int64_t columns = call->use.inputs[0].dims[1];
    return phase == 0 ? columns * parts_of(&call->use) : columns;
}

static const float *column_of(const plait_op_use *use, int64_t n) {
    return (const float *)(void *)plait_ref_at(&use->inputs[0], 0, n, 0, 0);
}

/* Entries that a part does not have are 0, which is worse than any. Places of a part's entries follow from its number,
 * so parts are made in any order. */
static void best_part(const plait_cpu_call *call, int64_t n, int64_t part) {
    const plait_op_use *use = &call->use;
    int64_t k = wanted(use), begin = part * PART;
    uint64_t *heap = (uint64_t *)call->scratch + n * column_entries(use) + part * k;
    int64_t held = best_of_part(plait_cpu_simd_for(call->features), column_of(use, n), begin,
                                plait_min_i64(begin + PART, use->inputs[0].dims[0]), k, heap);
    memset(heap + held, 0, (size_t)(k - held) * sizeof *heap);
}

/* Column n of the results from a heap of its best. Values are read from the column again, for entries have lost the
 * sign of zero and what kind of NaN it was. Ids count from `start`: the column may be part of a larger one. */
static void store_best(const plait_op_use *use, int64_t n, uint64_t *best, int64_t held) {
    sort_heap(best, held);
    if (use->op->id != PLAIT_OP_top_k) {
        plait_ref_set_id(&use->outputs[0], n, 0,
                         (int32_t)(entry_index(best[0]) + use->attrs[PLAIT_ARGMAX_START_V].i));
        return;
    }
    for (int64_t i = 0; i < held; i++) {
        int64_t index = entry_index(best[i]);
        plait_ref_set(&use->outputs[0], i, n, 0, 0, (double)column_of(use, n)[index]);
        plait_ref_set_id(&use->outputs[1], i, n, (int32_t)(index + use->attrs[PLAIT_TOP_K_START_V].i));
    }
}

/* Phase 1: the entries of all parts through one heap more, whose room follows the parts' in scratch. */
static void best_column(const plait_cpu_call *call, int64_t n) {
    const plait_op_use *use = &call->use;
    int64_t k = wanted(use), held = 0;
    uint64_t *parts = (uint64_t *)call->scratch + n * column_entries(use), *best = parts + k * parts_of(use);
    for (int64_t i = 0; i < k * parts_of(use); i++)
        if (parts[i]) offer(best, &held, k, parts[i]);
    store_best(use, n, best, held);
}

/* Parts of columns, then what is best of a column's parts. */
static void best_run(const plait_cpu_call *call, int phase, int64_t begin, int64_t end, int thread) {
    int64_t parts = parts_of(&call->use);
    (void)thread;
    for (int64_t unit = begin; unit < end; unit++) {
        if (phase == 0)
            best_part(call, unit / parts, unit % parts);
        else
            best_column(call, unit);
    }
}

/* ---- top_k, few of a short column: a unit is a column ---- */

/* Few enough for a heap on the stack, short enough for one thread a column. */
static bool few_accepts(const plait_op_use *use, const plait_encoding *encodings, char *reason,
                        size_t reason_bytes) {
    (void)encodings;
    if (wanted(use) <= FEW && use->inputs[0].dims[0] <= PART)
        return plait_cpu_rows_accepted(use, reason, reason_bytes);
    snprintf(reason, reason_bytes, "%lld of %lld are not few of a short column", (long long)wanted(use),
             (long long)use->inputs[0].dims[0]);
    return false;
}

static int64_t few_units(const plait_cpu_call *call, int phase) {
    (void)phase;
    return call->use.inputs[0].dims[1];
}

/* A column is one part here. */
static void few_rows(const plait_cpu_call *call, int64_t begin, int64_t end) {
    const plait_op_use *use = &call->use;
    const plait_cpu_simd *simd = plait_cpu_simd_for(call->features);
    uint64_t heap[FEW];
    for (int64_t n = begin; n < end; n++)
        store_best(use, n, heap,
                   best_of_part(simd, column_of(use, n), 0, use->inputs[0].dims[0], wanted(use), heap));
}

static void few_run(const plait_cpu_call *call, int phase, int64_t begin, int64_t end, int thread) {
    (void)phase, (void)thread;
    few_rows(call, begin, end);
}

/* ---- softmax ---- */

static int64_t softmax_units(const plait_cpu_call *call, int phase) {
    (void)phase;
    return call->use.outputs[0].dims[0] > 0 ? plait_cpu_row_count(&call->use.outputs[0]) : 0;
}

/* exp(scale x - max) and its sum, then times 1 / sum: two rounded operations where a division would be one, as simd.h
 * has it. A row of -infinity alone has no sum and gives NaN. */
static void softmax_rows(const plait_cpu_call *call, int64_t begin, int64_t end) {
    const plait_operand *x = &call->use.inputs[0], *y = &call->use.outputs[0];
    const plait_cpu_simd *simd = plait_cpu_simd_for(call->features);
    float scale = (float)call->use.attrs[PLAIT_SOFTMAX_SCALE].f;
    int64_t d = x->dims[0];
    if (begin >= end) return;
    plait_cpu_place at = plait_cpu_place_of(y, begin);
    for (int64_t row = begin; row < end; row++, plait_cpu_place_next(y, &at)) {
        const float *from = plait_cpu_row_at(x, at);
        float *to = plait_cpu_row_at(y, at);
        float sum = simd->exps(from, scale, simd->largest(from, scale, d), d, to);
        simd->unary(PLAIT_CPU_SCALE, 1.0f / sum, to, d, to);
    }
}

static void softmax_run(const plait_cpu_call *call, int phase, int64_t begin, int64_t end, int thread) {
    (void)phase, (void)thread;
    softmax_rows(call, begin, end);
}

#define BEST(op_name)                                                                                        \
    {                                                                                                        \
        .op = PLAIT_OP_##op_name, .name = #op_name, .n_phases = 2, .accepts = best_accepts,                  \
        .scratch_bytes = best_scratch, .units = best_units, .run = best_run                                  \
    }

const plait_cpu_kernel plait_cpu_top_kernels[] = {
    BEST(argmax),
    {.op = PLAIT_OP_top_k,
     .name = "top_k_few",
     .n_phases = 1,
     .accepts = few_accepts,
     .units = few_units,
     .run = few_run,
     .run_rows = few_rows},
    BEST(top_k),
    {.op = PLAIT_OP_softmax,
     .name = "softmax",
     .n_phases = 1,
     .accepts = best_accepts,
     .units = softmax_units,
     .run = softmax_run,
     .run_rows = softmax_rows},
    {.name = NULL},
};
