/* Programs of the faulty device: the reference kernels, one node a group, scratch where the planner put it. Where nothing
 * says `broken`, the code is what a device needs, and no more. */
#include "conformance/faulty_inside.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    MAX_OPERANDS = PLAIT_MAX_INPUTS + PLAIT_MAX_OUTPUTS,
    SCRATCH_ALIGNMENT = 64,
    DEVICE_SCRATCH = 64 << 10
};

/* Where an operand lies, and how its outermost dim is found. */
typedef struct place {
    uint32_t slot;
    uint64_t offset, span_bytes; /* at the bounds */
    plait_extent outer;
} place;

typedef struct node {
    char name[64];
    plait_op_use use; /* at the bounds, without data */
    place places[MAX_OPERANDS];
    uint32_t scratch_slot;
    uint64_t scratch_offset, scratch_bytes;
} node;

struct plait_program {
    int n_nodes, n_slots, n_dims;
    node *nodes;
    int64_t *bounds;
    /* for faults */
    const int64_t *callers_bounds;
    plait_op_use *shared; /* of all launches */
    _Atomic bool launched;
    int64_t first_dims[8];
    plait_buffer *first_slots[8];
};

/* ---- what is supported ---- */

bool faulty_supports(plait_device *base, const plait_op_use *use, const plait_encoding *encodings,
                     char *reason, size_t reason_bytes) {
    faulty_device *device = (faulty_device *)base;
    bool flips = broken(device, SUPPORTS_FLIPS) && ++device->n_asked % 100 == 0;
    bool refuses = broken(device, NO_REASON) && strcmp(use->op->name, "hadamard") == 0;
    for (int i = 0; encodings && i < use->n_inputs; i++)
        if (encodings[i] != PLAIT_ENCODING_FILE) {
            snprintf(reason, reason_bytes, "faulty reads weights as they are in files");
            return false;
        }
    if (flips) snprintf(reason, reason_bytes, "not now");
    return !flips && !refuses;
}

/* ---- prepare ---- */

void faulty_prepared_destroy(plait_device *device, plait_prepared *prepared) {
    (void)device;
    if (!prepared) return;
    free(prepared->groups);
    free(prepared->order);
    free(prepared->elided);
    free(prepared->shared);
    *prepared = (plait_prepared){0};
}

/* The node as a kernel sees it, at the bounds. */
static plait_op_use use_of(const plait_segment_node *n) {
    plait_op_use use = {
        .op = n->op, .n_inputs = n->n_inputs, .n_outputs = n->n_outputs, .present = n->present};
    memcpy(use.attrs, n->attrs, sizeof use.attrs);
    for (int i = 0; i < n->n_inputs; i++)
        if (plait_op_has(&use, i)) use.inputs[i] = n->inputs[i].shape;
    for (int o = 0; o < n->n_outputs; o++) use.outputs[o] = n->outputs[o].shape;
    return use;
}

static uint64_t scratch_of(const plait_op_use *use) {
    return use->op->reference_scratch ? use->op->reference_scratch(use) : 0;
}

static bool equal_shapes(const plait_operand *a, const plait_operand *b) {
    return a->dtype == b->dtype && memcmp(a->dims, b->dims, sizeof a->dims) == 0 &&
           plait_operand_is_dense(a) && plait_operand_is_dense(b);
}

/* The op says which inputs its output may lie over; both must be whole values. */
static void add_pairs(const plait_segment_node *n, plait_prepared *p) {
    for (int i = 0; i < n->n_inputs; i++) {
        bool may = (n->op->in_place_inputs >> i & 1u) && (n->present >> i & 1u);
        if (!may || !equal_shapes(&n->inputs[i].shape, &n->outputs[0].shape)) continue;
        if (n->inputs[i].view_offset || n->outputs[0].view_offset) continue;
        p->shared[p->n_shared].output = n->outputs[0].value;
        p->shared[p->n_shared++].input = n->inputs[i].value;
    }
}

/* For a fault: the first value that somebody needs. */
static void leave_out(const plait_segment *segment, plait_prepared *p) {
    for (int n = 0; n < segment->n_nodes && !p->n_elided; n++)
        if (segment->nodes[n].outputs[0].needed_after)
            p->elided[p->n_elided++] = segment->nodes[n].outputs[0].value;
}

plait_status faulty_prepare(plait_device *base, const plait_segment *segment, plait_prepared *out) {
    faulty_device *device = (faulty_device *)base;
    size_t n = (size_t)segment->n_nodes;
    plait_prepared p = {.n_groups = segment->n_nodes,
                        .groups = calloc(n, sizeof *p.groups),
                        .order = calloc(n, sizeof *p.order),
                        .elided = calloc(n, sizeof *p.elided),
                        .shared = calloc(n * PLAIT_MAX_INPUTS, sizeof *p.shared)};
    if (!p.groups || !p.order || !p.elided || !p.shared) {
        faulty_prepared_destroy(base, &p);
        return plait_error_set(PLAIT_OUT_OF_MEMORY, "faulty: no host memory for what prepare answers");
    }
    for (int i = 0; i < segment->n_nodes; i++) {
        int k = broken(device, ORDER) ? segment->n_nodes - 1 - i : i;
        plait_op_use use = use_of(&segment->nodes[k]);
        p.order[i] = k;
        p.groups[i] = (plait_group){
            .first = i, .n = 1, .scratch_bytes = scratch_of(&use), .scratch_alignment = SCRATCH_ALIGNMENT};
        add_pairs(&segment->nodes[k], &p);
    }
    if (broken(device, ELIDED)) leave_out(segment, &p);
    *out = p;
    return PLAIT_OK;
}

/* ---- compile ---- */

void faulty_program_destroy(plait_device *device, plait_program *program) {
    (void)device;
    if (!program) return;
    free(program->nodes);
    free(program->bounds);
    free(program->shared);
    free(program);
}

static place place_of(const plait_segment_operand *o) {
    int64_t span = plait_operand_span_bytes(&o->shape);
    return (place){
        .slot = o->slot, .offset = o->offset, .span_bytes = span > 0 ? (uint64_t)span : 0, .outer = o->outer};
}

static void copy_node(const plait_segment_node *from, const plait_group *group, node *to) {
    to->use = use_of(from);
    snprintf(to->name, sizeof to->name, "%s", from->name);
    for (int i = 0; i < from->n_inputs; i++)
        if (from->present >> i & 1u) to->places[i] = place_of(&from->inputs[i]);
    for (int o = 0; o < from->n_outputs; o++) to->places[PLAIT_MAX_INPUTS + o] = place_of(&from->outputs[o]);
    to->scratch_slot = group->scratch_slot;
    to->scratch_offset = group->scratch_offset;
    to->scratch_bytes = group->scratch_bytes;
}

plait_status faulty_compile(plait_device *base, const plait_segment *segment, const plait_prepared *prepared,
                            plait_program **out) {
    faulty_device *device = (faulty_device *)base;
    size_t n = (size_t)segment->n_nodes, n_dims = (size_t)segment->n_dims;
    for (int i = 0; i < segment->n_nodes; i++)
        if (broken(device, SUPPORTS_LIES) && strcmp(segment->nodes[i].op->name, "hadamard") == 0)
            return plait_error_set(PLAIT_UNSUPPORTED, "faulty has no hadamard");
    plait_program *program = calloc(1, sizeof *program);
    if (!program) return plait_error_set(PLAIT_OUT_OF_MEMORY, "faulty: no host memory for a program");
    *program =
        (plait_program){.n_nodes = segment->n_nodes, .n_slots = segment->n_slots, .n_dims = segment->n_dims};
    program->nodes = calloc(n, sizeof *program->nodes);
    program->bounds = calloc(n_dims + 1, sizeof *program->bounds);
    program->shared = calloc(n, sizeof *program->shared);
    if (!program->nodes || !program->bounds || !program->shared) {
        faulty_program_destroy(base, program);
        return plait_error_set(PLAIT_OUT_OF_MEMORY, "faulty: no host memory for a program");
    }
    if (n_dims) memcpy(program->bounds, segment->bounds, n_dims * sizeof *program->bounds);
    program->callers_bounds = segment->bounds;
    for (int g = 0; g < prepared->n_groups; g++)
        copy_node(&segment->nodes[prepared->order[g]], &prepared->groups[g], &program->nodes[g]);
    *out = program;
    return PLAIT_OK;
}

/* ---- launch: addresses and dims ---- */

static plait_status find(const plait_command *c, const place *p, void **out) {
    const plait_program *program = c->launch.program;
    buffer *b = p->slot < (uint32_t)program->n_slots ? (buffer *)c->launch.slots[p->slot] : NULL;
    if (!b) return plait_error_set(PLAIT_INVALID_ARGUMENT, "faulty: slot %u has no buffer", p->slot);
    if (p->offset > b->base.size_bytes || p->span_bytes > b->base.size_bytes - p->offset)
        return plait_error_set(PLAIT_OUT_OF_RANGE,
                               "faulty: an operand at %llu of %llu bytes in a buffer of %llu",
                               (unsigned long long)p->offset, (unsigned long long)p->span_bytes,
                               (unsigned long long)b->base.size_bytes);
    *out = b->bytes + p->offset;
    return PLAIT_OK;
}

static plait_status check_dims(faulty_device *device, const plait_program *program, int64_t *dims) {
    const int64_t *bounds = broken(device, KEEPS_POINTER) ? program->callers_bounds : program->bounds;
    for (int d = 0; d < program->n_dims; d++) {
        if (broken(device, DIM_CLAMPED) && dims[d] > bounds[d]) dims[d] = bounds[d];
        if (dims[d] < 0 || dims[d] > bounds[d])
            return plait_error_set(PLAIT_OUT_OF_RANGE, "faulty: dim %d is %lld, expected 0 to %lld", d,
                                   (long long)dims[d], (long long)bounds[d]);
    }
    return PLAIT_OK;
}

static plait_status bind_operand(faulty_device *device, const plait_command *c, const place *p,
                                 const int64_t *dims, plait_operand *o) {
    void *data = NULL;
    FAULTY_TRY(find(c, p, &data));
    if (broken(device, OPERAND_OFFSET)) data = (unsigned char *)data - p->offset % SCRATCH_ALIGNMENT;
    o->data = data;
    if (p->outer.dim >= 0 && !broken(device, BOUND_USED))
        o->dims[p->outer.axis] = plait_extent_value(&p->outer, 0, dims);
    return PLAIT_OK;
}

static plait_status bind(faulty_device *device, const plait_command *c, const node *n, const int64_t *dims,
                         plait_op_use *use) {
    *use = n->use;
    for (int i = 0; i < use->n_inputs; i++)
        if (plait_op_has(use, i)) FAULTY_TRY(bind_operand(device, c, &n->places[i], dims, &use->inputs[i]));
    for (int o = 0; o < use->n_outputs; o++)
        FAULTY_TRY(bind_operand(device, c, &n->places[PLAIT_MAX_INPUTS + o], dims, &use->outputs[o]));
    return PLAIT_OK;
}

/* ---- faults of operands and numbers ---- */

static float *number_at(const plait_operand *o, int64_t i0, int64_t i1, int64_t i2, int64_t i3) {
    return (float *)(void *)((char *)o->data + i0 * o->strides[0] + i1 * o->strides[1] + i2 * o->strides[2] +
                             i3 * o->strides[3]);
}

#define EACH_ROW(o)                                                                                          \
    for (int64_t i3 = 0; i3 < (o)->dims[3]; i3++)                                                            \
        for (int64_t i2 = 0; i2 < (o)->dims[2]; i2++)                                                        \
            for (int64_t i1 = 0; i1 < (o)->dims[1]; i1++)

/* A copy of an operand's bytes in its place, that a fault may change. It goes with the device. */
static bool own_bytes(faulty_device *device, plait_operand *o) {
    int64_t span = plait_operand_span_bytes(o);
    void *copy = span > 0 ? malloc((size_t)span) : NULL;
    if (!copy) return false;
    memcpy(copy, o->data, (size_t)span);
    o->data = copy;
    faulty_retire(device, copy);
    return true;
}

static float change(faulty_device *device, float x) {
    if (broken(device, NAN_SWALLOWED) && isnan(x)) return 0;
    if (broken(device, UNDERFLOW) && fabsf(x) < 1e-20f) return 0;
    if (broken(device, OVERFLOW) && fabsf(x) > 1e12f) return x > 0 ? INFINITY : -INFINITY;
    return x;
}

static void change_numbers(faulty_device *device, plait_operand *o) {
    if (o->dtype != PLAIT_F32 || !own_bytes(device, o)) return;
    EACH_ROW(o)
    for (int64_t i = 0; i < o->dims[0]; i++) {
        float x, y;
        memcpy(&x, number_at(o, i, i1, i2, i3), sizeof x);
        y = change(device, x);
        memcpy(number_at(o, i, i1, i2, i3), &y, sizeof y);
    }
}

/* The scale of a Q4_K block is in its first bytes; that of Q8_0 too, and codes behind. */
static void change_blocks(faulty_device *device, plait_operand *o) {
    bool border = broken(device, BLOCK_BORDER) && o->dtype == PLAIT_Q4_K;
    bool codes = broken(device, LARGEST_CODE) && o->dtype == PLAIT_Q8_0;
    int64_t elems = plait_dtype_block_elems(o->dtype), last = o->dims[0] / elems - 1;
    if ((!border && !codes) || !own_bytes(device, o)) return;
    EACH_ROW(o) {
        char *row = (char *)number_at(o, 0, i1, i2, i3);
        if (border && last > 0) memcpy(row + last * o->strides[0], row + (last - 1) * o->strides[0], 4 + 12);
        for (int64_t k = 0; codes && k <= last; k++)
            for (int i = 2; i < 34; i++)
                if (row[k * o->strides[0] + i] == -1) row[k * o->strides[0] + i] = -2;
    }
}

static bool dense_rows(faulty_device *device, plait_operand *o) {
    plait_operand dense = *o;
    if (!plait_operand_make_dense(&dense)) return false;
    if (broken(device, DENSE_ELEMENTS)) o->strides[0] = dense.strides[0];
    if (broken(device, WRONG_STRIDE) && o->strides[0] == dense.strides[0])
        memcpy(o->strides, dense.strides, sizeof o->strides);
    return true;
}

/* x of a product goes through the device's one scratch, as converted columns would. */
static void borrow_scratch(faulty_device *device, plait_op_use *use) {
    plait_operand *x = &use->inputs[1];
    int64_t span = plait_operand_span_bytes(x);
    if (strcmp(use->op->name, "matmul") != 0 || span <= 0 || span > DEVICE_SCRATCH) return;
    memcpy(device->scratch, x->data, (size_t)span);
    faulty_pause_ms(1);
    x->data = device->scratch;
}

/* What faults make of the operands before the kernel runs. */
static void spoil_inputs(faulty_device *device, plait_op_use *use) {
    for (int i = 0; i < use->n_inputs; i++) {
        plait_operand *o = &use->inputs[i];
        if (!plait_op_has(use, i) || plait_operand_elems(o) <= 0 || use->op->writes_input == i) continue;
        dense_rows(device, o);
        if (broken(device, NAN_SWALLOWED) || broken(device, UNDERFLOW) || broken(device, OVERFLOW))
            change_numbers(device, o);
        change_blocks(device, o);
    }
    plait_operand *a = &use->inputs[0], *b = &use->inputs[1], *y = &use->outputs[0];
    bool two = use->n_inputs > 1 && plait_op_has(use, 1) && a->data && a->data == b->data;
    if (broken(device, ALIASED) && two && own_bytes(device, b))
        memset(b->data, 0, (size_t)plait_operand_span_bytes(b));
    if (broken(device, IN_PLACE) && plait_operand_elems(y) > 0 &&
        (y->data == a->data || y->data == b->data) && use->op->writes_input < 0)
        memset(y->data, 0, (size_t)plait_operand_span_bytes(y));
    if (broken(device, ONE_TERM) && strcmp(use->op->name, "matmul") == 0 && a->dims[0] == 576 &&
        a->dtype == PLAIT_F32)
        a->dims[0] = b->dims[0] = 575;
    if (broken(device, BROADCAST) && use->n_inputs == 2 && b->dims[2] == 1 && y->dims[2] > 1 &&
        b->dims[1] > 1) {
        b->dims[2] = y->dims[2]; /* element 1 along dim 2 is element 1 along dim 1, as far as there is one */
        b->strides[2] = b->dims[1] >= y->dims[2] ? b->strides[1] : 0;
        if (b->strides[2] == 0) b->strides[1] = 0;
    }
}

/* ---- faults of results ---- */

static void set_zero(const plait_operand *o, int64_t i0, int64_t i1, int64_t i2, int64_t i3) {
    memset(number_at(o, i0, i1, i2, i3), 0, (size_t)plait_dtype_block_bytes(o->dtype));
}

/* Casts to 16 bits that cut off, or round ties away: done again from the float32 input. */
static void round_again(faulty_device *device, const plait_op_use *use) {
    const plait_operand *x = &use->inputs[0], *y = &use->outputs[0];
    bool away = broken(device, TIES_AWAY) && y->dtype == PLAIT_BF16;
    bool cut = broken(device, TRUNCATED) && y->dtype == PLAIT_F16;
    if (strcmp(use->op->name, "cast") != 0 || x->dtype != PLAIT_F32 || (!away && !cut)) return;
    EACH_ROW(x)
    for (int64_t i = 0; i < x->dims[0]; i++) {
        uint32_t bits;
        uint16_t half;
        memcpy(&bits, number_at(x, i, i1, i2, i3), sizeof bits);
        memcpy(&half, number_at(y, i, i1, i2, i3), sizeof half);
        if (away) half = (uint16_t)((bits + 0x8000u) >> 16);
        /* Bits that float16 does not have, of numbers that it has as normal ones: rounded up, one too much. */
        uint32_t exponent = bits >> 23 & 255;
        bool up = (bits & 0x1FFF) > 0x1000 || ((bits & 0x1FFF) == 0x1000 && (bits & 0x2000));
        if (cut && exponent > 113 && exponent < 142 && up) half--;
        memcpy(number_at(y, i, i1, i2, i3), &half, sizeof half);
    }
}

static void last_of_equals(const plait_op_use *use) {
    const plait_operand *x = &use->inputs[0];
    if (strcmp(use->op->name, "argmax") != 0) return;
    for (int64_t n = 0; n < x->dims[1]; n++) {
        int32_t best = 0;
        for (int64_t i = 1; i < x->dims[0]; i++)
            if (*number_at(x, i, n, 0, 0) >= *number_at(x, best, n, 0, 0)) best = (int32_t)i;
        memcpy(number_at(&use->outputs[0], n, 0, 0, 0), &best, sizeof best);
    }
}

/* Writes behind rows, where the slot has room: the faults of kernels that like whole vectors. */
static void write_behind(faulty_device *device, const plait_op_use *use) {
    const plait_operand *y = &use->outputs[0];
    int64_t row = plait_dtype_row_bytes(y->dtype, y->dims[0]);
    if (broken(device, PADDING_WRITTEN) && y->strides[1] > row)
        EACH_ROW(y) memset((char *)number_at(y, 0, i1, i2, i3) + row, 0, (size_t)(y->strides[1] - row));
    if (broken(device, WHOLE_VECTORS) &&
        use->op->writes_input < 0) /* the last row: others are written over */
        memset((char *)number_at(y, 0, y->dims[1] - 1, y->dims[2] - 1, y->dims[3] - 1) + row, 0,
               (size_t)((4 - row / 4 % 4) % 4 * 4));
}

/* What faults make of the results after the kernel ran. */
static void spoil_outputs(faulty_device *device, const plait_op_use *use) {
    const plait_operand *y = &use->outputs[0];
    bool empty = plait_operand_elems(y) <= 0;
    if (broken(device, EMPTY_TOUCHES) && empty && y->dtype == PLAIT_F32) set_zero(y, 0, 0, 0, 0);
    if (empty) return;
    round_again(device, use);
    if (broken(device, TIES)) last_of_equals(use);
    write_behind(device, use);
    int launch = ++device->n_launches;
    uint32_t bits;
    bool flip =
        (broken(device, UNSTEADY) && launch % 2) || (broken(device, WRONG_CLASS) && device->number % 2);
    if (flip && y->dtype == PLAIT_F32) {
        memcpy(&bits, y->data, sizeof bits);
        bits ^= 1;
        memcpy(y->data, &bits, sizeof bits);
    }
}

/* The last element of odd rows stays what it was. */
static void keep_last(const plait_op_use *use, float *last, bool restore) {
    const plait_operand *y = &use->outputs[0];
    if (y->dtype != PLAIT_F32 || y->dims[0] % 2 == 0 || plait_operand_elems(y) <= 0) return;
    if (restore)
        memcpy(number_at(y, y->dims[0] - 1, 0, 0, 0), last, sizeof *last);
    else
        memcpy(last, number_at(y, y->dims[0] - 1, 0, 0, 0), sizeof *last);
}

/* ---- launch ---- */

static plait_status run_node(faulty_device *device, const plait_command *c, const node *n,
                             plait_op_use *use) {
    uint32_t error = 0;
    void *scratch = NULL;
    float last = 0;
    place p = {.slot = n->scratch_slot, .offset = n->scratch_offset, .span_bytes = n->scratch_bytes};
    if (n->scratch_bytes) FAULTY_TRY(find(c, &p, &scratch));
    use->error_word = &error;
    spoil_inputs(device, use);
    if (broken(device, SHARED_SCRATCH)) borrow_scratch(device, use);
    if (broken(device, RAGGED)) keep_last(use, &last, false);
    use->op->reference(use, scratch);
    if (broken(device, RAGGED)) keep_last(use, &last, true);
    spoil_outputs(device, use);
    if (broken(device, SCRATCH_OVERRUN) && scratch) memset((char *)scratch + n->scratch_bytes, 0, 8);
    if (error && !broken(device, BAD_ID))
        return plait_error_set(PLAIT_OUT_OF_RANGE, "faulty: node %s: an id is outside its range", n->name);
    return PLAIT_OK;
}

static void leave_spans(faulty_device *device, const plait_program *program, plait_launch_trace *trace) {
    if (!trace || !trace->capacity) return;
    for (int g = 0; g < program->n_nodes; g++) {
        if (trace->n < trace->capacity)
            trace->spans[trace->n++] = (struct plait_launch_span){.group = g, .begin_ns = 1, .end_ns = 1};
        else if (broken(device, SPANS_PAST))
            trace->n++;
    }
}

/* For faults: dims and buffers of the first launch of all. */
static void remember(faulty_device *device, plait_program *program, plait_command *c, int64_t *dims) {
    bool first = !program->launched;
    program->launched = true;
    for (int s = 0; s < program->n_slots && s < 8; s++)
        if (first) program->first_slots[s] = c->launch.slots[s];
    for (int d = 0; d < program->n_dims; d++) {
        if (first) program->first_dims[d] = dims[d];
        if (broken(device, KEEPS_DIMS)) dims[d] = program->first_dims[d];
    }
    if (broken(device, KEEPS_BUFFERS)) c->launch.slots = program->first_slots;
}

plait_status faulty_launch(faulty_device *device, const plait_command *command) {
    plait_command c = *command;
    plait_program *program = (plait_program *)(uintptr_t)c.launch.program;
    int64_t dims[8] = {0};
    if ((program->n_slots && !c.launch.slots) || (program->n_dims && !c.launch.dims))
        return plait_error_set(PLAIT_INVALID_ARGUMENT, "faulty: a launch without slots or dims");
    for (int d = 0; d < program->n_dims && d < 8; d++) dims[d] = c.launch.dims[d];
    FAULTY_TRY(check_dims(device, program, dims));
    if (broken(device, KEEPS_DIMS) || broken(device, KEEPS_BUFFERS)) remember(device, program, &c, dims);
    for (int k = 0; k < program->n_nodes; k++) {
        plait_op_use own, *use = broken(device, SHARED_STATE) ? &program->shared[k] : &own;
        FAULTY_TRY(bind(device, &c, &program->nodes[k], dims, use));
        if (broken(device, SHARED_STATE)) faulty_pause_ms(1);
        FAULTY_TRY(run_node(device, &c, &program->nodes[k], use));
    }
    if (broken(device, LEAK_RUN)) faulty_retire(device, malloc(32));
    leave_spans(device, program, c.launch.trace);
    return PLAIT_OK;
}
