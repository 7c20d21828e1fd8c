/* From groups with addresses to a program: calls, tasks, phases, and the places that launch fills in. Not here:
 * choosing groups (prepare.c), what happens at launch (launch.c).
 *
 * Invariant: every pointer of the program leads into its own arena or to read-only tables, except those that launch
 * fills in. What prepare promised is checked, not believed: a program whose groups, scratch or elided values are not as
 * they were prepared is refused. */
#include "base/size.h"
#include "device/cpu/program.h"

#include <string.h>

typedef struct builder {
    plait_program *program;
    plait_cpu_reading *r;
    const plait_prepared *prepared;
    const plait_group *place; /* of the group at hand */
    int group_index;
    plait_cpu_group group;
    /* Calls are numbered in the order of the groups, nodes in the order of the segment. */
    int *call_of; /* node -> call */
} builder;

static plait_status no_memory(size_t n) {
    return plait_error_memory("program", n);
}

/* ---- tables ---- */

/* At least one element: the arena has no memory of no bytes, and NULL means that there is none. */
static void *get(builder *b, size_t n, size_t size_bytes) {
    return plait_arena_alloc(&b->program->arena, n ? n : 1, size_bytes);
}

/* Tables as long as they can become: a task for each phase of each kernel, and one more for each group's rows; an
 * address for each operand and each kernel's scratch, two for each product or gate (a thread's area, tiles), and a
 * group's own (its scratch, the input's area). */
static plait_status make_tables(builder *b) {
    plait_program *p = b->program;
    const plait_segment *segment = b->r->segment;
    size_t n = (size_t)segment->n_nodes, groups = (size_t)b->prepared->n_groups;
    p->n_slots = segment->n_slots;
    p->n_dims = segment->n_dims;
    p->n_calls = segment->n_nodes;
    p->bounds = get(b, (size_t)p->n_dims, sizeof *p->bounds);
    p->slot_bytes = get(b, (size_t)p->n_slots, sizeof *p->slot_bytes);
    p->calls = get(b, n, sizeof *p->calls);
    p->names = get(b, n, sizeof *p->names);
    p->error_words = get(b, n, sizeof *p->error_words);
    p->tasks = get(b, n * PLAIT_CPU_MAX_PHASES + groups, sizeof *p->tasks);
    p->phases = get(b, groups * PLAIT_CPU_MAX_PHASES, sizeof *p->phases);
    p->units = get(b, groups * PLAIT_CPU_MAX_PHASES, sizeof *p->units);
    p->begin_ns = get(b, groups * PLAIT_CPU_MAX_PHASES, sizeof *p->begin_ns);
    p->binds = get(b, n * (PLAIT_CPU_MAX_OPERANDS + 1) + groups * 4 + n * 2, sizeof *p->binds);
    p->bind_dims = get(b, n * PLAIT_CPU_MAX_OPERANDS, sizeof *p->bind_dims);
    b->call_of = get(b, n, sizeof *b->call_of);
    if (!p->bounds || !p->slot_bytes || !p->calls || !p->names || !p->error_words || !p->tasks ||
        !p->phases || !p->units || !p->begin_ns || !p->binds || !p->bind_dims || !b->call_of)
        return no_memory(n * sizeof *p->calls);
    if (p->n_dims) memcpy(p->bounds, segment->bounds, (size_t)p->n_dims * sizeof *p->bounds);
    return PLAIT_OK;
}

/* ---- binding ---- */

/* Notes that *address is slot + offset at launch, and that the slot's buffer must reach `bytes` beyond it. */
static plait_status bind_address(builder *b, void **address, uint32_t slot, uint64_t offset, uint64_t bytes) {
    plait_program *p = b->program;
    uint64_t end;
    if (slot >= (uint32_t)p->n_slots)
        return plait_error(PLAIT_INVALID_ARGUMENT, "program: slot %u of %d", slot, p->n_slots);
    if (!plait_add_u64(offset, bytes, &end))
        return plait_error(PLAIT_OUT_OF_RANGE, "program: an address in slot %u overflows", slot);
    /* An operand without bytes still needs an address. */
    if (end == 0) end = 1;
    if (end > p->slot_bytes[slot]) p->slot_bytes[slot] = end;
    p->binds[p->n_binds++] = (plait_cpu_bind){address, slot, offset};
    return PLAIT_OK;
}

/* `offset` in the scratch of the group at hand, which the planner has placed. */
static plait_status bind_scratch(builder *b, void **address, uint64_t offset, uint64_t bytes) {
    return bind_address(b, address, b->place->scratch_slot, b->place->scratch_offset + offset, bytes);
}

/* Bytes that the operand spans, in its encoding. Sizes were checked when the segment was read; what would be negative
 * is taken as nothing. */
static uint64_t operand_bytes(const plait_segment_operand *operand) {
    int64_t bytes =
        operand->encoding == PLAIT_ENCODING_FILE
            ? plait_operand_span_bytes(&operand->shape)
            : plait_cpu_packed_bytes(operand->shape.dtype, operand->shape.dims[0], operand->shape.dims[1]);
    return bytes > 0 ? (uint64_t)bytes : 0;
}

/* True for the result of a product that something finishes: it has no memory. */
static bool has_no_memory(const builder *b, const plait_cpu_value *value) {
    for (int i = 0; i < b->group.n_products; i++) {
        const plait_cpu_group_product *product = &b->group.products[i];
        if (product->finish >= 0 && plait_cpu_operand_value(b->r, product->node, PLAIT_MAX_INPUTS) == value)
            return true;
    }
    return false;
}

/* Where operand k of a node gets its address and its outermost dim at launch. A result that something finishes has no
 * address, but its dim is bound all the same: products count their units from it. */
static plait_status bind_operand(builder *b, int node, int k, plait_operand *target) {
    const plait_segment_operand *operand = plait_cpu_operand(&b->r->segment->nodes[node], k);
    const plait_cpu_value *value = plait_cpu_operand_value(b->r, node, k);
    const plait_extent *outer = &operand->outer;
    if (outer->dim >= 0) {
        if (outer->dim >= b->program->n_dims || outer->axis < 0 || outer->axis >= PLAIT_MAX_RANK ||
            outer->c < 1)
            return plait_error(PLAIT_INVALID_ARGUMENT, "program: dim %d of %d along axis %d", outer->dim,
                               b->program->n_dims, outer->axis);
        b->program->bind_dims[b->program->n_bind_dims++] =
            (plait_cpu_bind_dim){&target->dims[outer->axis], *outer};
    }
    if (has_no_memory(b, value)) return PLAIT_OK;
    if (value->elided)
        return bind_scratch(b, &target->data, value->scratch + operand->view_offset, operand_bytes(operand));
    return bind_address(b, &target->data, operand->slot, operand->offset, operand_bytes(operand));
}

/* The block that kernels of this node will read. Names are copied: the segment is borrowed for the call to compile
 * only. */
static plait_status make_call(builder *b, int index, int node) {
    plait_program *p = b->program;
    const plait_segment_node *from = &b->r->segment->nodes[node];
    plait_cpu_call *call = &p->calls[index];
    b->call_of[node] = index;
    plait_cpu_node_use(from, &call->use, call->encodings);
    call->use.error_word = &p->error_words[index];
    call->n_threads = b->r->n_threads;
    call->features = b->r->features;
    p->names[index] = plait_arena_string(&p->arena, from->name ? from->name : "?");
    if (!p->names[index]) return no_memory(PLAIT_MAX_NAME);
    for (int k = 0; k < PLAIT_CPU_MAX_OPERANDS; k++) {
        plait_operand *target =
            plait_cpu_is_output(k) ? &call->use.outputs[k - PLAIT_MAX_INPUTS] : &call->use.inputs[k];
        if (plait_cpu_operand_value(b->r, node, k)) PLAIT_TRY(bind_operand(b, node, k, target));
    }
    return PLAIT_OK;
}

static plait_cpu_call *call_of(const builder *b, int node) {
    return &b->program->calls[b->call_of[node]];
}

/* ---- tasks ---- */

/* Tasks that are added from here on belong to it. */
static void begin_phase(builder *b) {
    plait_program *p = b->program;
    p->phases[p->work.n_phases++] = (plait_cpu_phase){p->n_tasks, 0, b->group_index};
}

/* Behind the tasks of the phase that was begun last; the union is the caller's to fill. */
static plait_cpu_task *add_task(builder *b, int64_t (*units)(const plait_cpu_task *),
                                void (*run)(const plait_cpu_task *, int64_t, int64_t, int)) {
    plait_program *p = b->program;
    plait_cpu_task *task = &p->tasks[p->n_tasks++];
    p->phases[p->work.n_phases - 1].n_tasks++;
    task->units = units;
    task->run = run;
    return task;
}

/* Phase p of the group is phase p of every member that has so many: kernels with several phases share the barriers.
 * Scratch is bound behind that, with no bytes of its own: the group's whole scratch was counted already. */
static plait_status emit_parallel(builder *b) {
    const plait_cpu_group *g = &b->group;
    for (int phase = 0, more = 1; more; phase++) {
        more = 0;
        begin_phase(b);
        for (int i = 0; i < g->n; i++) {
            const plait_cpu_kernel *kernel = b->r->kernels[g->members[i]];
            more |= kernel->n_phases > phase + 1;
            if (kernel->n_phases <= phase) continue;
            plait_cpu_task *task = add_task(b, plait_cpu_kernel_units, plait_cpu_kernel_run);
            task->kernel.kernel = kernel;
            task->kernel.call = call_of(b, g->members[i]);
            task->kernel.phase = phase;
        }
    }
    for (int i = 0; i < g->n; i++) {
        const plait_cpu_kernel *kernel = b->r->kernels[g->members[i]];
        plait_cpu_call *call = call_of(b, g->members[i]);
        if (kernel->scratch_bytes && g->scratch_bytes)
            PLAIT_TRY(bind_scratch(b, &call->scratch, g->member_scratch[i], 0));
    }
    return PLAIT_OK;
}

/* One phase of one task: the chain, and with `input` the preparation of a product's x, column by column. */
static plait_status emit_rows(builder *b, const plait_cpu_product_input *input) {
    const plait_cpu_group *g = &b->group;
    size_t n = (size_t)g->n_rows;
    begin_phase(b);
    plait_cpu_task *task = add_task(b, plait_cpu_rows_units, plait_cpu_rows_run);
    task->rows.n = g->n_rows;
    task->rows.input = input;
    task->rows.kernels = get(b, n, sizeof *task->rows.kernels);
    task->rows.calls = get(b, n, sizeof *task->rows.calls);
    if (!task->rows.kernels || !task->rows.calls) return no_memory(n);
    for (int i = 0; i < g->n_rows; i++) {
        task->rows.kernels[i] = b->r->kernels[g->members[i]];
        task->rows.calls[i] = call_of(b, g->members[i]);
    }
    return PLAIT_OK;
}

/* ---- products ---- */

/* Where an add finishes the product, y is the add's output, and the product's own output has dims but no memory. */
static plait_status fill_product(builder *b, const plait_cpu_group_product *from,
                                 const plait_cpu_product_input *input, plait_cpu_product *out) {
    const plait_cpu_call *call = call_of(b, from->node);
    out->kernel = plait_cpu_product_kernel(call->use.inputs[0].dtype, b->r->features);
    out->w = &call->use.inputs[0];
    out->y = &call->use.outputs[0];
    out->packed = call->encodings[0] != PLAIT_ENCODING_FILE;
    out->input = input;
    out->thread_bytes = b->group.thread_bytes;
    if (from->add_input >= 0) {
        const plait_cpu_call *add = call_of(b, from->finish);
        out->add = &add->use.inputs[from->add_input];
        out->y = &add->use.outputs[0];
    }
    return bind_scratch(b, &out->thread_area, b->group.thread_area, 0);
}

/* One task for both products of a gate. Both know the same input and share the thread's area, for they run one after
 * the other in a unit. */
static plait_status emit_gated(builder *b, const plait_cpu_group_product *from,
                               const plait_cpu_product_input *input) {
    plait_cpu_gated *gated = get(b, 1, sizeof *gated);
    if (!gated) return no_memory(sizeof *gated);
    PLAIT_TRY(fill_product(b, from, input, &gated->a));
    PLAIT_TRY(fill_product(b, &b->group.products[from->partner], input, &gated->b));
    gated->kernel = b->r->kernels[from->finish];
    gated->call = call_of(b, from->finish);
    gated->tile_floats = b->group.tile_floats;
    add_task(b, plait_cpu_gated_task_units, plait_cpu_gated_task_run)->gated = gated;
    return bind_scratch(b, &gated->tiles, b->group.tiles, 0);
}

/* One task a product; two that meet in a gate are one task. */
static plait_status emit_product(builder *b, const plait_cpu_group_product *from,
                                 const plait_cpu_product_input *input) {
    if (from->partner == -2) return PLAIT_OK; /* done with the one it meets */
    if (from->partner >= 0) return emit_gated(b, from, input);
    plait_cpu_product *product = get(b, 1, sizeof *product);
    if (!product) return no_memory(sizeof *product);
    PLAIT_TRY(fill_product(b, from, input, product));
    add_task(b, plait_cpu_product_task_units, plait_cpu_product_task_run)->product = product;
    return PLAIT_OK;
}

/* Phase 0 is there when x must be quantised or copied, or rows stand before the products; then all products side by
 * side. x may be the output of a chain that lies in the group's scratch, like any operand. */
static plait_status emit_products(builder *b) {
    plait_cpu_group *g = &b->group;
    plait_cpu_product_input *input = get(b, 1, sizeof *input);
    if (!input) return no_memory(sizeof *input);
    bool prepared = g->gathers || g->quantises;
    input->x = &call_of(b, g->products[0].node)->use.inputs[1];
    input->gathers = g->gathers;
    input->quantises = g->quantises;
    input->features = b->r->features;
    if (prepared) PLAIT_TRY(bind_scratch(b, &input->area, g->input_area, 0));
    if (prepared || g->n_rows) PLAIT_TRY(emit_rows(b, prepared ? input : NULL));
    begin_phase(b);
    for (int i = 0; i < g->n_products; i++) PLAIT_TRY(emit_product(b, &g->products[i], input));
    return PLAIT_OK;
}

/* ---- groups ---- */

/* A product that is finished here must have been promised to exist nowhere. */
static plait_status check_promises(const builder *b) {
    for (int i = 0; i < b->group.n_products; i++) {
        const plait_cpu_group_product *product = &b->group.products[i];
        if (product->finish >= 0 && !plait_cpu_operand_value(b->r, product->node, PLAIT_MAX_INPUTS)->elided)
            return plait_error(PLAIT_INVALID_ARGUMENT, "program: the result of %s is fused and not left out",
                               b->r->segment->nodes[product->node].name);
    }
    return PLAIT_OK;
}

/* What the group is, is told anew from its members; scratch is laid out anew and must fit into what was promised. */
static plait_status emit_group(builder *b, const plait_group *place) {
    plait_cpu_group *g = &b->group;
    memset(g, 0, sizeof *g);
    b->place = place;
    if (place->n < 1 || place->n > PLAIT_CPU_MAX_MEMBERS)
        return plait_error(PLAIT_INVALID_ARGUMENT, "program: a group of %d nodes", place->n);
    g->n = place->n;
    memcpy(g->members, b->prepared->order + place->first, (size_t)g->n * sizeof *g->members);
    if (!plait_cpu_group_classify(b->r, g))
        return plait_error(PLAIT_INVALID_ARGUMENT, "program: the group of %s was not prepared here",
                           b->r->segment->nodes[g->members[0]].name);
    PLAIT_TRY(check_promises(b));
    PLAIT_TRY(plait_cpu_group_place(b->r, g));
    if (g->scratch_bytes > place->scratch_bytes)
        return plait_error(PLAIT_INVALID_ARGUMENT, "program: scratch of %llu bytes, expected %llu",
                           (unsigned long long)place->scratch_bytes, (unsigned long long)g->scratch_bytes);
    if (g->scratch_bytes) {
        void **none = get(b, 1, sizeof *none); /* makes the slot as large as the scratch needs */
        if (!none) return no_memory(sizeof *none);
        PLAIT_TRY(bind_scratch(b, none, 0, g->scratch_bytes));
    }
    for (int i = 0; i < g->n; i++) PLAIT_TRY(make_call(b, place->first + i, g->members[i]));
    switch (g->kind) {
    case PLAIT_CPU_PARALLEL: return emit_parallel(b);
    case PLAIT_CPU_ROWS: return emit_rows(b, NULL);
    case PLAIT_CPU_PRODUCTS: return emit_products(b);
    }
    return PLAIT_OK;
}

/* `elided` is noted before anything else: the layout of scratch depends on it. Ids that the segment does not have are
 * passed over. */
plait_status plait_cpu_build_program(plait_program *program, plait_cpu_reading *reading,
                                     const plait_prepared *prepared) {
    builder *b = plait_arena_alloc(&reading->arena, 1, sizeof *b);
    if (!b) return no_memory(sizeof *b);
    b->program = program;
    b->r = reading;
    b->prepared = prepared;
    for (int i = 0; i < prepared->n_elided; i++) {
        plait_cpu_value *value = plait_cpu_find_value(reading, prepared->elided[i]);
        if (value) value->elided = true;
    }
    PLAIT_TRY(make_tables(b));
    for (int g = 0; g < prepared->n_groups; g++) {
        b->group_index = g;
        PLAIT_TRY(emit_group(b, &prepared->groups[g]));
    }
    program->work.units = program->units;
    program->work.run = plait_cpu_run_tasks;
    return PLAIT_OK;
}
