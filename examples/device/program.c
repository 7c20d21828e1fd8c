/* Segments: which nodes the example device runs, which of them as one, the program it makes of them, and running it.
 *
 * Invariant: a program is constant once compiled, so that any number of queues may run it; a launch allocates nothing. */
#define _POSIX_C_SOURCE 199309L
#include "example.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* A group: one node, or a product and the `add` behind it. */
typedef struct step {
    char name[PLAIT_MAX_NAME];
    plait_segment_node node; /* a copy, with operands of its own: the segment is gone after compile */
    plait_segment_operand inputs[PLAIT_MAX_INPUTS], outputs[PLAIT_MAX_OUTPUTS];
    plait_group group; /* for its scratch */
    example_kernel *kernel;
} step;

struct plait_program {
    int n_slots, n_dims, n_steps;
    int64_t *bounds;
    step *steps;
};

/* ---- what runs here ---- */

static plait_op_use use_of(const plait_segment_node *node) {
    plait_op_use use = {
        .op = node->op, .n_inputs = node->n_inputs, .n_outputs = node->n_outputs, .present = node->present};
    for (int i = 0; i < node->n_inputs; i++) use.inputs[i] = node->inputs[i].shape;
    for (int o = 0; o < node->n_outputs; o++) use.outputs[o] = node->outputs[o].shape;
    memcpy(use.attrs, node->attrs, sizeof use.attrs);
    return use;
}

/* Our kernel; or, with reference=on, the op table's own: slow, but complete, and right by definition. */
static example_kernel *find(const plait_device *device, const plait_op_use *use, char *reason,
                            size_t reason_bytes) {
    example_kernel *kernel = example_find_kernel(use, reason, reason_bytes);
    return kernel || !((const example_device *)device)->reference ? kernel : use->op->reference;
}

bool example_supports(plait_device *device, const plait_op_use *use, const plait_encoding *encodings,
                      char *reason, size_t reason_bytes) {
    for (int i = 0; encodings && i < use->n_inputs; i++)
        if (plait_op_has(use, i) && encodings[i] != PLAIT_ENCODING_FILE) {
            snprintf(reason, reason_bytes, "input %d is packed for another kind of device", i);
            return false;
        }
    return find(device, use, reason, reason_bytes) != NULL;
}

/* ---- prepare ---- */

static bool same_shape(const plait_operand *a, const plait_operand *b) {
    return memcmp(a->dims, b->dims, sizeof a->dims) == 0 &&
           memcmp(a->strides, b->strides, sizeof a->strides) == 0;
}

/* How often nodes of the segment read something of a storage. */
static int count_readers(const plait_segment *segment, uint32_t storage) {
    int count = 0;
    for (int n = 0; n < segment->n_nodes; n++)
        for (int i = 0; i < segment->nodes[n].n_inputs; i++)
            count += (segment->nodes[n].present >> i & 1u) && segment->nodes[n].inputs[i].storage == storage;
    return count;
}

/* The input that an `add` right behind product n adds to it, when they can run as one, else -1: both have kernels of
 * ours, and nobody but the `add` sees what the product gives, which then is never written to memory. */
static int fused_addend(const plait_segment *segment, int n) {
    char reason[80];
    if (n + 1 >= segment->n_nodes) return -1;
    const plait_segment_node *product = &segment->nodes[n], *sum = product + 1;
    if (product->op->id != PLAIT_OP_matmul || sum->op->id != PLAIT_OP_add) return -1;
    const plait_segment_operand *made = &product->outputs[0];
    int other = sum->inputs[0].value == made->value ? 1 : 0;
    if (sum->inputs[1 - other].value != made->value || made->needed_after ||
        count_readers(segment, made->storage) != 1 ||
        !same_shape(&sum->inputs[1 - other].shape, &made->shape) ||
        !same_shape(&sum->outputs[0].shape, &made->shape))
        return -1;
    plait_op_use uses[2] = {use_of(product), use_of(sum)};
    bool ours = example_find_kernel(&uses[0], reason, sizeof reason) &&
                example_find_kernel(&uses[1], reason, sizeof reason);
    return ours ? other : -1;
}

void example_prepared_destroy(plait_device *device, plait_prepared *prepared) {
    (void)device;
    free(prepared->groups);
    free(prepared->order);
    free(prepared->elided);
    free(prepared->shared);
    *prepared = (plait_prepared){0};
}

/* The output of a node that runs alone may take the bytes of an input, where the op says so: our kernels read an element
 * no later than they write it, like the reference kernels. */
static void share(const plait_segment_node *node, plait_prepared *prepared) {
    for (int i = 0; i < node->n_inputs; i++)
        if ((node->op->in_place_inputs & node->present) >> i & 1u &&
            node->inputs[i].shape.dtype == node->outputs[0].shape.dtype &&
            same_shape(&node->inputs[i].shape, &node->outputs[0].shape))
            prepared->shared[prepared->n_shared++] =
                (struct plait_shared_pair){node->outputs[0].value, node->inputs[i].value};
}

plait_status example_prepare(plait_device *device, const plait_segment *segment, plait_prepared *out) {
    size_t room = (size_t)segment->n_nodes + 1; /* calloc may answer NULL for nothing */
    char reason[80];
    plait_prepared p = {.groups = calloc(room, sizeof *p.groups),
                        .order = calloc(room, sizeof *p.order),
                        .elided = calloc(room, sizeof *p.elided),
                        .shared = calloc(room, PLAIT_MAX_INPUTS * sizeof *p.shared)};
    if (!p.groups || !p.order || !p.elided || !p.shared) {
        example_prepared_destroy(device, &p);
        return plait_error_set(PLAIT_OUT_OF_MEMORY, "%s: preparing %d nodes", device->name, segment->n_nodes);
    }
    for (int i = 0; i < segment->n_nodes; i += p.groups[p.n_groups++].n) {
        plait_group *group = &p.groups[p.n_groups];
        bool fused = fused_addend(segment, i) >= 0;
        plait_op_use use = use_of(&segment->nodes[i]);
        *group = (plait_group){.first = i, .n = fused ? 2 : 1, .scratch_alignment = 64};
        if (fused)
            p.elided[p.n_elided++] = segment->nodes[i].outputs[0].value;
        else
            share(&segment->nodes[i], &p);
        if (find(device, &use, reason, sizeof reason) == use.op->reference && use.op->reference_scratch)
            group->scratch_bytes = use.op->reference_scratch(&use);
    }
    for (int i = 0; i < segment->n_nodes; i++) p.order[i] = i;
    *out = p;
    return PLAIT_OK;
}

/* ---- compile ---- */

static plait_status make_step(plait_device *device, const plait_segment *segment, const plait_group *group,
                              step *s) {
    const plait_segment_node *node = &segment->nodes[group->first], *sum = node + 1;
    plait_op_use use = use_of(node);
    char reason[120];
    s->node = *node;
    s->node.inputs = memcpy(s->inputs, node->inputs, (size_t)node->n_inputs * sizeof *s->inputs);
    s->node.outputs = memcpy(s->outputs, node->outputs, (size_t)node->n_outputs * sizeof *s->outputs);
    s->group = *group;
    s->kernel = find(device, &use, reason, sizeof reason);
    if (!s->kernel) return plait_error_set(PLAIT_UNSUPPORTED, "%s: %s: %s", device->name, node->name, reason);
    snprintf(s->name, sizeof s->name, "%s", node->name);
    if (group->n == 1) return PLAIT_OK;
    /* Our products take a third input; the output is that of the `add`, which has the same shape. */
    s->node.present |= 1u << s->node.n_inputs;
    s->node.inputs[s->node.n_inputs++] = sum->inputs[fused_addend(segment, group->first)];
    s->node.outputs[0] = sum->outputs[0];
    return PLAIT_OK;
}

void example_program_destroy(plait_device *device, plait_program *program) {
    (void)device;
    if (!program) return;
    free(program->bounds);
    free(program->steps);
    free(program);
}

plait_status example_compile(plait_device *device, const plait_segment *segment,
                             const plait_prepared *prepared, plait_program **out) {
    plait_program *program = calloc(1, sizeof *program);
    if (program) program->bounds = calloc((size_t)segment->n_dims + 1, sizeof *program->bounds);
    if (program) program->steps = calloc((size_t)prepared->n_groups + 1, sizeof *program->steps);
    bool complete = program && program->bounds && program->steps;
    plait_status status = complete ? PLAIT_OK
                                   : plait_error_set(PLAIT_OUT_OF_MEMORY, "%s: program of %d nodes",
                                                     device->name, segment->n_nodes);
    for (int g = 0; status == PLAIT_OK && g < prepared->n_groups; g++)
        status = make_step(device, segment, &prepared->groups[g], &program->steps[program->n_steps++]);
    if (status != PLAIT_OK) {
        example_program_destroy(device, program);
        return status;
    }
    program->n_slots = segment->n_slots;
    program->n_dims = segment->n_dims;
    for (int d = 0; d < segment->n_dims; d++) program->bounds[d] = segment->bounds[d];
    *out = program;
    return PLAIT_OK;
}

/* ---- launch ---- */

/* One launch on its way: what slots and dims stand for in it. */
typedef struct launch {
    plait_device *device;
    plait_buffer *const *slots;
    const int64_t *dims;
} launch;

/* Bytes of a slot's buffer, if it is large enough. */
static plait_status find_bytes(const launch *l, const step *s, uint32_t slot, uint64_t offset,
                               uint64_t size_bytes, void **out) {
    plait_region region = {l->slots[slot], offset, size_bytes};
    unsigned char *bytes;
    PLAIT_TRY(plait_host_region_bytes(l->device, &example_hooks, &region, size_bytes, s->name, &bytes));
    *out = bytes;
    return PLAIT_OK;
}

/* Gives an operand the dims and the bytes of this launch. */
static plait_status bind(const launch *l, const step *s, const plait_segment_operand *from,
                         plait_operand *to) {
    if (from->outer.dim >= 0) to->dims[from->outer.axis] = plait_extent_value(&from->outer, 0, l->dims);
    return find_bytes(l, s, from->slot, from->offset, (uint64_t)plait_operand_span_bytes(to), &to->data);
}

static plait_status run_step(const launch *l, const step *s) {
    plait_op_use use = use_of(&s->node);
    void *scratch = NULL;
    uint32_t bad_id = 0;
    for (int i = 0; i < use.n_inputs; i++)
        if (plait_op_has(&use, i)) PLAIT_TRY(bind(l, s, &s->node.inputs[i], &use.inputs[i]));
    for (int o = 0; o < use.n_outputs; o++) PLAIT_TRY(bind(l, s, &s->node.outputs[o], &use.outputs[o]));
    if (s->group.scratch_bytes)
        PLAIT_TRY(find_bytes(l, s, s->group.scratch_slot, s->group.scratch_offset, s->group.scratch_bytes,
                             &scratch));
    use.error_word = &bad_id;
    s->kernel(&use, scratch);
    if (bad_id)
        return plait_error_set(PLAIT_OUT_OF_RANGE, "%s: node %s (%s): an id it was given is out of range",
                               l->device->name, s->name, use.op->name);
    return PLAIT_OK;
}

static uint64_t now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

plait_status example_launch(plait_device *device, const plait_program *program, plait_buffer *const *slots,
                            const int64_t *dims, plait_launch_trace *trace) {
    launch l = {device, slots, dims};
    if ((program->n_slots && !slots) || (program->n_dims && !dims))
        return plait_error_set(PLAIT_INVALID_ARGUMENT, "%s: launch without slots or dims", device->name);
    for (int d = 0; d < program->n_dims; d++)
        if (dims[d] < 0 || dims[d] > program->bounds[d])
            return plait_error_set(PLAIT_OUT_OF_RANGE, "%s: dim %d is %lld, its bound is %lld", device->name,
                                   d, (long long)dims[d], (long long)program->bounds[d]);
    for (int g = 0; g < program->n_steps; g++) {
        uint64_t begin_ns = trace ? now_ns() : 0;
        PLAIT_TRY(run_step(&l, &program->steps[g]));
        if (trace && trace->n < trace->capacity)
            trace->spans[trace->n++] = (struct plait_launch_span){g, begin_ns, now_ns()};
    }
    return PLAIT_OK;
}
