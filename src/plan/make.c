/* Making a plan: the passes in turn, and the plan's life. Not here: what a pass decides (each has its file, listed in
 * plan.h), and plans that are found again (cache.c). Invariant: a plan that was returned is proved (unless the caller
 * switched that off) and never changes, so any number of runs may read it without a lock.
 *
 * The order of the passes is forced: placement is needed to cut segments; devices have to have said what they fuse
 * before anybody can tell how long a value lives; lives decide offsets, and only offsets tell which commands touch
 * the same bytes, hence who waits for whom. The proof stands before compiling, so that no device ever sees a plan
 * that was not proved. */
#include "plan/explain.h"
#include "plan/weigh.h"

#include "base/alloc.h"
#include "base/os.h"
#include "base/status.h"
#include "op/shape.h"

#include <stdlib.h>
#include <string.h>

/* For plans without a residence of the caller's: one for this graph alone, its weights zeroed, to be written by
 * plait_plan_write_weight. Steps of which both numbers are 0 mean that the caller said nothing; the residence then
 * takes its own default instead of weighing every graph with nothing. */
static plait_status own_residence(plait_plan *plan, plait_split split) {
    const plait_graph *graphs[] = {plan->graph};
    bool known = plan->steps_expected.single > 0 || plan->steps_expected.full > 0;
    plait_residence_options options = {.split = split, .steps = known ? &plan->steps_expected : NULL};
    PLAIT_TRY(plait_residence_create(&plan->residence, plan->context, graphs, 1, &options));
    plan->own_residence = true;
    return plait_residence_load_zeros(plan->residence);
}

/* What every pass may index without asking: tables by node, storage, device and queue, zeroed. Tables whose length a
 * pass decides (values, segments, transfers) grow in the plan's arena when that pass runs. */
static plait_status init_tables(plait_plan *plan) {
    const plait_graph *graph = plan->graph;
    plan->bounds = plait_arena_alloc(&plan->arena, graph->n_dims, sizeof *plan->bounds);
    plan->placements = plait_arena_alloc(&plan->arena, graph->n_nodes, sizeof *plan->placements);
    plan->devices = plait_arena_alloc(&plan->arena, (size_t)plan->context->n_devices, sizeof *plan->devices);
    plan->n_queues = (size_t)plan->context->n_devices * PLAIT_DEVICE_QUEUES;
    plan->queues = plait_arena_alloc(&plan->arena, plan->n_queues, sizeof *plan->queues);
    plan->residents = plait_arena_alloc(&plan->arena, graph->n_storages, sizeof *plan->residents);
    if (!plan->bounds || !plan->placements || !plan->devices || !plan->queues || !plan->residents)
        return plait_error_memory("plan", 0);
    for (size_t d = 0; d < graph->n_dims; d++) plan->bounds[d] = graph->dims[d].bound;
    return PLAIT_OK;
}

/* A residence keeps an index for the graphs that it was made for. A graph that planning has built itself (copies.c)
 * is none of those, nor is one that the caller plans later with an older residence: there names are looked up. */
void plait_plan_find_residents(plait_plan *plan) {
    const uint32_t *first = plait_residence_index_of(plan->residence, plan->graph);
    for (size_t s = 0; s < plan->graph->n_storages; s++) {
        const plait_graph_storage *row = &plan->graph->storages[s];
        if (first) {
            plan->residents[s] = first[s] ? &plan->residence->entries[first[s] - 1] : NULL;
            continue;
        }
        if (row->kind == PLAIT_STORAGE_WEIGHT || row->kind == PLAIT_STORAGE_STATE)
            plan->residents[s] = plait_residence_find(plan->residence, row->name, -1);
    }
}

/* What one use of an op takes of the facts. */
typedef struct work {
    double flop;
    uint64_t weight_bytes;
} work;

/* Arithmetic and weights at the bounds. A table that is looked up in counts for nothing here: of an embedding of a
 * hundred thousand rows a step reads as many rows as it has tokens, and counting it whole would make the figure
 * useless for telling what a token costs. */
static work work_of(const plait_graph *graph, uint32_t node) {
    work w = {0};
    plait_op_use use;
    plait_graph_use(graph, node, NULL, &use);
    w.flop = plait_op_flop(&use);
    for (int i = 0; i < use.n_inputs; i++) {
        const plait_graph_tensor *tensor = &graph->tensors[graph->nodes[node].inputs[i]];
        bool weight = plait_op_has(&use, i) && graph->storages[tensor->storage].kind == PLAIT_STORAGE_WEIGHT;
        if (weight) w.weight_bytes += (uint64_t)plait_op_input_bytes(&use, i);
    }
    return w;
}

/* Work is counted for each use and summed over nodes: shape rules and factors of a big model's thousands of nodes are
 * run a few dozen times. */
static plait_status add_facts(plait_plan *plan) {
    const plait_graph *graph = plan->graph;
    plait_plan_facts *facts = &plan->facts;
    work *works = plait_arena_take(&plan->arena, graph->n_uses, sizeof *works);
    if (!works) return plait_error_memory("plan", graph->n_uses * sizeof *works);
    for (size_t u = 0; u < graph->n_uses; u++) works[u] = work_of(graph, graph->use_nodes[u]);
    for (uint32_t n = 0; n < graph->n_nodes; n++) {
        facts->flop += works[graph->use_of[n]].flop;
        facts->weight_bytes_read += works[graph->use_of[n]].weight_bytes;
    }
    facts->n_nodes = (int)graph->n_nodes;
    facts->n_copies = (int)(graph->n_nodes - plan->source->n_nodes);
    facts->n_segments = (int)plan->n_segments;
    facts->n_transfers = (int)plan->n_transfers;
    for (size_t t = 0; t < plan->n_transfers; t++) facts->transfer_bytes += plan->transfers[t].size_bytes;
    return PLAIT_OK;
}

/* The two steps of the facts. Both times stay 0 when the tables for a forecast cannot be had; the status says so, and
 * the plan is as good as before. */
static plait_status forecast(const plait_plan *plan, plait_plan_facts *facts) {
    plait_explained e;
    plait_forecast largest = {0}, smallest = {0};
    plait_status status = plait_explain(&e, plan);
    if (status == PLAIT_OK) status = plait_forecast_largest(&e, &e.arena, &largest);
    if (status == PLAIT_OK) status = plait_forecast_smallest(&e, &e.arena, &smallest);
    plait_explained_deinit(&e);
    facts->predicted_ns = (uint64_t)largest.end_ns;
    facts->predicted_single_ns = (uint64_t)smallest.end_ns;
    return status;
}

/* Offsets, and at once the operands' addresses: the passes behind (order, proof) look at operands as the devices will
 * get them, not at values, or a mistake in writing addresses would go unproved. */
static plait_status assign_memory(plait_plan *plan) {
    PLAIT_TRY(plait_plan_assign_memory(plan));
    plait_plan_set_addresses(plan);
    return PLAIT_OK;
}

/* The table of passes holds functions that may write; the proof may not. */
static plait_status verify(plait_plan *plan) {
    return plait_plan_verify(plan);
}

/* Last of all passes, since it is the only one that changes something outside of the plan: it waits for the devices
 * and may replace their arenas. A plan that fails before leaves the context as it was, but for what was denied. */
static plait_status reserve_arenas(plait_plan *plan) {
    for (int d = 0; d < plan->context->n_devices; d++) {
        const plait_plan_device *row = &plan->devices[d];
        uint64_t least = row->n_positions > 0 && row->arena_bytes == 0; /* a used slot has a buffer */
        PLAIT_TRY(plait_context_reserve_arena(plan->context, d, row->arena_bytes + least));
    }
    return PLAIT_OK;
}

static plait_status (*const passes[PLAIT_PASS_COUNT])(plait_plan *) = {
    [PLAIT_PASS_PLACE] = plait_plan_place,     [PLAIT_PASS_SEGMENT] = plait_plan_segment_nodes,
    [PLAIT_PASS_PREPARE] = plait_plan_prepare, [PLAIT_PASS_LIVES] = plait_plan_find_lives,
    [PLAIT_PASS_REORDER] = plait_plan_reorder, [PLAIT_PASS_MEMORY] = assign_memory,
    [PLAIT_PASS_ORDER] = plait_plan_order,     [PLAIT_PASS_VERIFY] = verify,
    [PLAIT_PASS_COMPILE] = plait_plan_compile, [PLAIT_PASS_ARENA] = reserve_arenas,
};

/* Everything but the object itself. Both arguments that could make a plan wrong later (a depth that no staging is
 * made for, a residence with buffers of other devices) are refused here, before any table is made. */
static plait_status make(plait_plan *plan, const plait_plan_options *options) {
    uint64_t begin = plait_time_ns();
    if (plan->depth < PLAIT_PLAN_DEPTH || plan->depth > PLAIT_PLAN_MAX_DEPTH)
        return plait_error(PLAIT_INVALID_ARGUMENT, "depth %d, expected %d to %d", plan->depth,
                           PLAIT_PLAN_DEPTH, PLAIT_PLAN_MAX_DEPTH);
    if (options && options->residence && options->residence->context != plan->context)
        return plait_error(PLAIT_INVALID_ARGUMENT, "its residence is of another context");
    PLAIT_TRY(init_tables(plan));
    if (options && options->residence)
        plan->residence = plait_residence_retain(options->residence);
    else
        PLAIT_TRY(own_residence(plan, options ? options->split : PLAIT_SPLIT_AUTO));
    plait_plan_find_residents(plan);
    for (int p = 0; p < PLAIT_PASS_COUNT; p++) {
        if (p == PLAIT_PASS_VERIFY && options && options->skip_verify) continue;
        if (p >= PLAIT_PASS_COMPILE && options && options->dry) break;
        uint64_t before = plait_time_ns();
        PLAIT_TRY(passes[p](plan));
        plan->pass_ns[p] = plait_time_ns() - before;
    }
    PLAIT_TRY(add_facts(plan));
    if (plan->context->n_devices > 1) PLAIT_TRY(forecast(plan, &plan->facts));
    plan->facts.verify_ns = plan->pass_ns[PLAIT_PASS_VERIFY];
    plan->facts.plan_ns = plait_time_ns() - begin - plan->facts.verify_ns;
    return PLAIT_OK;
}

plait_status plait_plan_prove(plait_plan *plan) {
    uint64_t begin = plait_time_ns();
    PLAIT_TRY(plait_error_context(plait_plan_verify(plan), "plan of %s", plan->name));
    plan->facts.verify_ns = plan->pass_ns[PLAIT_PASS_VERIFY] = plait_time_ns() - begin;
    return PLAIT_OK;
}

plait_status plait_plan_complete(plait_plan *plan) {
    for (int p = PLAIT_PASS_COMPILE; p < PLAIT_PASS_COUNT; p++)
        PLAIT_TRY(plait_error_context(passes[p](plan), "plan of %s", plan->name));
    return PLAIT_OK;
}

/* One attempt. *out_again: a device refused what it had accepted, and is not asked again. The message takes the name
 * from the options, since the plan's own copy of it may be what memory was short for. */
static plait_status try_to_make(plait_plan **out, plait_context *context, const plait_graph *graph,
                                const plait_plan_options *options, bool *out_again) {
    plait_plan *plan = plait_alloc_array(1, sizeof *plan);
    *out_again = false;
    if (!plan) return plait_error_memory("plan", sizeof *plan);
    atomic_init(&plan->references, 1);
    plan->context = context;
    plan->graph = plait_graph_retain(graph);
    plan->source = plait_graph_retain(graph);
    plan->exact = options && options->exact;
    plan->depth = plait_plan_depth(options);
    if (options) plan->steps_expected = options->steps;
    plait_arena_init_pooled(&plan->arena, &context->pool);
    plan->name = plait_arena_string(&plan->arena, options && options->name ? options->name : graph->name);
    plait_status status = plan->name ? make(plan, options) : plait_error_memory("plan", 0);
    if (status != PLAIT_OK) {
        *out_again = plan->denied;
        plait_error_context(status, "plan of %s", options && options->name ? options->name : graph->name);
        plait_plan_release(plan);
        return status;
    }
    *out = plan;
    return PLAIT_OK;
}

/* Denied ops are kept in the context, so what one attempt has learnt the next one knows, and so do all later plans. */
plait_status plait_plan_make_new(plait_plan **out, plait_context *context, const plait_graph *graph,
                                 const plait_plan_options *options) {
    bool again = false;
    plait_status status;
    do status = try_to_make(out, context, graph, options, &again);
    while (again); /* at most once for each op and device */
    return status;
}

/* A dry plan has no programs: handed out by a cache it would be run. */
plait_status plait_plan_make(plait_plan **out, plait_context *context, const plait_graph *graph,
                             const plait_plan_options *options) {
    if (!graph->sealed) return plait_error(PLAIT_WRONG_STATE, "plan: graph %s is not sealed", graph->name);
    if (options && options->cache && !options->dry)
        return plait_plan_cache_make(options->cache, out, context, graph, options);
    return plait_plan_make_new(out, context, graph, options);
}

plait_plan *plait_plan_retain(plait_plan *plan) {
    atomic_fetch_add(&plan->references, 1);
    return plan;
}

/* Programs go before what they were prepared from, and both before the arena that holds their segments. */
void plait_plan_release(plait_plan *plan) {
    if (!plan || atomic_fetch_sub(&plan->references, 1) > 1) return;
    for (size_t s = 0; s < plan->n_segments; s++) {
        plait_plan_segment *segment = &plan->segments[s];
        plait_device *device = plan->context->devices[segment->device].device;
        if (segment->program) device->vtable->program_destroy(device, segment->program);
        if (segment->is_prepared) device->vtable->prepared_destroy(device, &segment->prepared);
    }
    plait_residence_release(plan->residence);
    if (plan->weighed) plait_weighed_deinit(plan->weighed);
    plait_cost_deinit(&plan->cost);
    plait_graph_release(plan->graph);
    plait_graph_release(plan->source);
    plait_arena_deinit(&plan->arena);
    free(plan);
}

/* A residence of the caller's may be shared by other plans, which are possibly running: only a plan's own may be
 * written. */
plait_status plait_plan_write_weight(plait_plan *plan, const char *name, const void *bytes,
                                     uint64_t size_bytes) {
    if (!plan->own_residence)
        return plait_error(PLAIT_WRONG_STATE, "plan of %s: its weights belong to a residence of the caller",
                           plan->name);
    return plait_error_context(plait_residence_write_weight(plan->residence, name, bytes, size_bytes),
                               "plan of %s", plan->name);
}

void plait_plan_device_bytes(const plait_plan *plan, int device, uint64_t *out_temporary,
                             uint64_t *out_inputs) {
    *out_temporary = plan->devices[device].arena_bytes;
    *out_inputs = plan->devices[device].input_bytes;
}

void plait_plan_describe(const plait_plan *plan, plait_plan_facts *out) {
    *out = plan->facts;
    /* With one device planning spends no time on forecasts; who asks gets one, if there are figures and memory. */
    bool known = plan->context->n_devices == 1 && plan->context->devices[0].figures.struct_bytes;
    if (known && forecast(plan, out) != PLAIT_OK) out->predicted_ns = out->predicted_single_ns = 0;
}
