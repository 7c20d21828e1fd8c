/* The workbench. Invariant: host and device start from the same bytes, and nothing but the nodes changes them. */
#include "conformance/work.h"

#include "base/alloc.h"
#include "base/os.h"
#include "base/size.h"
#include "op/reference.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { OPERANDS = PLAIT_MAX_INPUTS + PLAIT_MAX_OUTPUTS }; /* room for those of any node */
enum { PATTERN = 0xA7, GAP_BYTES = 64, SLOT_IMAGE = 0, SLOT_SCRATCH = 1, N_SLOTS = 2, BENCH_NS = 20000000 };

/* ---- building ---- */

void plait_conf_work_init(plait_conf_work *w, plait_conf *c) {
    memset(w, 0, sizeof *w);
    w->c = c;
    plait_arena_init(&w->arena, 0);
    w->tensors = plait_arena_alloc(&w->arena, PLAIT_CONF_MAX_TENSORS, sizeof *w->tensors);
    w->values = plait_arena_alloc(&w->arena, PLAIT_CONF_MAX_TENSORS, sizeof *w->values);
    w->nodes = plait_arena_alloc(&w->arena, PLAIT_CONF_MAX_NODES, sizeof *w->nodes);
    w->operands = plait_arena_alloc(&w->arena, PLAIT_CONF_MAX_NODES * OPERANDS, sizeof *w->operands);
}

void plait_conf_work_deinit(plait_conf_work *w) {
    if (w->image) w->c->v->buffer_destroy(w->image);
    plait_arena_deinit(&w->arena);
}

int plait_conf_dim(plait_conf_work *w, int64_t bound, int64_t value) {
    w->bounds[w->n_dims] = bound;
    w->dims[w->n_dims] = value;
    return w->n_dims++;
}

static uint64_t place(uint64_t *total, uint64_t alignment, uint64_t size_bytes) {
    uint64_t at = (*total + GAP_BYTES + alignment - 1) & ~(alignment - 1);
    *total = at + size_bytes;
    return at;
}

/* Values are placed when they are added; only freeze makes the images. False when the bench is full. */
static bool has_room(const plait_conf_work *w) {
    return w->tensors && w->values && w->nodes && w->operands && w->n_tensors < PLAIT_CONF_MAX_TENSORS;
}

int plait_conf_tensor_add(plait_conf_work *w, const plait_operand *shape, plait_extent outer, uint64_t shift,
                          bool weight) {
    int64_t span = plait_operand_span_bytes(shape);
    if (!has_room(w) || span < 0) return -1;
    plait_conf_value *value = &w->values[w->n_values];
    value->size_bytes = (uint64_t)span + shift;
    value->weight = weight;
    value->host_offset = place(&w->host_bytes, 64, value->size_bytes);
    plait_conf_tensor *tensor = &w->tensors[w->n_tensors];
    *tensor = (plait_conf_tensor){*shape, outer, (uint32_t)w->n_values++, shift};
    tensor->shape.data = NULL;
    return w->n_tensors++;
}

int plait_conf_view(plait_conf_work *w, int tensor, const plait_operand *shape, plait_extent outer,
                    uint64_t more_offset) {
    if (!has_room(w) || tensor < 0) return -1;
    const plait_conf_tensor *from = &w->tensors[tensor];
    w->tensors[w->n_tensors] =
        (plait_conf_tensor){*shape, outer, from->value, from->view_offset + more_offset};
    return w->n_tensors++;
}

void plait_conf_encode(plait_conf_work *w, int tensor, const plait_encoding_offer *offer) {
    plait_conf_value *value = &w->values[w->tensors[tensor].value];
    value->encoding = offer->encoding;
}

static plait_segment_operand operand_of(const plait_conf_work *w, int tensor) {
    const plait_conf_tensor *t = &w->tensors[tensor];
    return (plait_segment_operand){.shape = t->shape,
                                   .outer = t->outer,
                                   .value = t->value,
                                   .storage = t->value,
                                   .slot = UINT32_MAX,
                                   .view_offset = t->view_offset,
                                   .encoding = w->values[t->value].encoding,
                                   .is_weight = w->values[t->value].weight};
}

int plait_conf_apply(plait_conf_work *w, const plait_op_use *attrs_of, int n_inputs, const int *inputs,
                     plait_extent extent) {
    plait_op_use use = *attrs_of;
    if (!has_room(w) || w->n_nodes == PLAIT_CONF_MAX_NODES) return -1;
    plait_segment_node *node = &w->nodes[w->n_nodes];
    plait_segment_operand *operands = w->operands + (size_t)w->n_nodes * OPERANDS;
    *node = (plait_segment_node){.op = use.op,
                                 .name = use.op->name,
                                 .node = (uint32_t)w->n_nodes,
                                 .inputs = operands,
                                 .outputs = operands + PLAIT_MAX_INPUTS};
    use.n_inputs = n_inputs;
    use.present = 0;
    for (int i = 0; i < n_inputs; i++) {
        if (inputs[i] < 0) continue;
        use.present |= 1u << i;
        use.inputs[i] = w->tensors[inputs[i]].shape;
        node->inputs[i] = operand_of(w, inputs[i]);
    }
    if (plait_op_infer(&use) != PLAIT_OK) return -1;
    int first = -1;
    for (int o = 0; o < use.n_outputs; o++) {
        bool in_place = o == 0 && use.op->writes_input >= 0;
        int tensor = in_place ? inputs[use.op->writes_input]
                              : plait_conf_tensor_add(w, &use.outputs[o], extent, 0, false);
        if (tensor < 0) return -1;
        if (first < 0) first = tensor;
        w->values[w->tensors[tensor].value].written = true;
        node->outputs[o] = operand_of(w, tensor);
        if (in_place) w->values[w->tensors[tensor].value].needed = true;
    }
    node->n_inputs = n_inputs;
    node->n_outputs = use.n_outputs;
    node->present = use.present;
    memcpy(node->attrs, use.attrs, sizeof node->attrs);
    w->n_nodes++;
    return first;
}

void plait_conf_need(plait_conf_work *w, int tensor) {
    w->values[w->tensors[tensor].value].needed = true;
}

/* ---- images ---- */

/* Bytes of a value on the device: the packing's, when there is one. */
static plait_status device_size(const plait_conf_work *w, int v, uint64_t *out) {
    const plait_conf_value *value = &w->values[v];
    *out = value->size_bytes;
    if (value->encoding == PLAIT_ENCODING_FILE) return PLAIT_OK;
    for (int t = 0; t < w->n_tensors; t++) {
        if (w->tensors[t].value != (uint32_t)v) continue;
        struct plait_weight_reader reader = {plait_op_get(PLAIT_OP_matmul), 0, true};
        plait_weight_use use = {.dtype = w->tensors[t].shape.dtype, .n_readers = 1, .readers = &reader};
        plait_encoding_offer offers[4];
        int n = 4;
        memcpy(use.dims, w->tensors[t].shape.dims, sizeof use.dims);
        PLAIT_TRY(w->c->v->encodings(w->c->device, &use, offers, &n));
        for (int i = 0; i < n; i++)
            if (offers[i].encoding == value->encoding) {
                *out = offers[i].size_bytes;
                return PLAIT_OK;
            }
    }
    return plait_error(PLAIT_INTERNAL, "encoding %u is offered no more", value->encoding);
}

plait_status plait_conf_freeze(plait_conf_work *w) {
    uint64_t alignment = plait_max_i64((int64_t)w->c->info.alignment, 64), size = 0;
    w->shown = plait_arena_alloc(&w->arena, PLAIT_CONF_MAX_TENSORS, sizeof *w->shown);
    if (!w->tensors || !w->values || !w->nodes || !w->operands || !w->shown)
        return plait_error_memory("conformance", 0);
    for (int v = 0; v < w->n_values; v++) {
        PLAIT_TRY(device_size(w, v, &size));
        w->values[v].offset = place(&w->device_bytes, alignment, size);
    }
    w->device_bytes += GAP_BYTES;
    w->host_bytes += GAP_BYTES;
    /* An arena gives 16-byte alignment, which every type is content with. */
    w->host = plait_arena_alloc(&w->arena, w->host_bytes, 1);
    if (!w->host) return plait_error_memory("conformance", w->host_bytes);
    memset(w->host, PATTERN, w->host_bytes);
    return w->c->v->buffer_create(w->c->device, w->device_bytes, PLAIT_BUFFER_TEMPORARY, &w->image);
}

unsigned char *plait_conf_image(plait_conf_work *w) {
    return plait_arena_alloc(&w->arena, w->device_bytes, 1);
}

static void set_dims(const plait_conf_work *w, plait_operand *operand, const plait_extent *outer) {
    if (outer->dim >= 0) operand->dims[outer->axis] = plait_extent_value(outer, 0, w->dims);
}

static plait_operand in_image(const plait_conf_work *w, int tensor, const unsigned char *image,
                              uint64_t value_offset) {
    const plait_conf_tensor *t = &w->tensors[tensor];
    plait_operand operand = t->shape;
    set_dims(w, &operand, &t->outer);
    operand.data = (unsigned char *)(uintptr_t)image + value_offset + t->view_offset;
    return operand;
}

plait_operand plait_conf_host(const plait_conf_work *w, int tensor) {
    return in_image(w, tensor, w->host, w->values[w->tensors[tensor].value].host_offset);
}

/* Numbers in [-1, 1) with 24 bits. */
static float random_number(uint64_t *state) {
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (float)(*state >> 40) * (2.0f / 16777216.0f) - 1.0f;
}

/* A random block of the type; encoding searches, so quantised operands repeat some blocks. */
static void make_block(plait_dtype dtype, uint64_t *seed, float amplitude, unsigned char *out) {
    int64_t elems = plait_dtype_block_elems(dtype);
    float numbers[256];
    for (int64_t k = 0; k < elems; k++) numbers[k] = amplitude * random_number(seed);
    if (dtype == PLAIT_I32) numbers[0] = (float)(int)(numbers[0] * 1000);
    plait_quant_of(dtype)->encode(numbers, NULL, out, elems);
}

void plait_conf_fill(const plait_operand *operand, uint64_t seed, float amplitude) {
    enum { N_BLOCKS = 11, MAX_BLOCK_BYTES = 256 };
    unsigned char blocks[N_BLOCKS][MAX_BLOCK_BYTES];
    bool quantised = plait_dtype_quantised(operand->dtype);
    int64_t n_blocks = operand->dims[0] / plait_dtype_block_elems(operand->dtype);
    size_t bytes = (size_t)plait_dtype_block_bytes(operand->dtype);
    if (plait_operand_elems(operand) <= 0) return;
    for (int i = 0; quantised && i < N_BLOCKS; i++) make_block(operand->dtype, &seed, amplitude, blocks[i]);
    PLAIT_REF_ROWS(operand, i1, i2, i3)
    for (int64_t i = 0; i < n_blocks; i++) {
        int which = quantised ? (int)((random_number(&seed) + 1) * (N_BLOCKS / 2)) : 0;
        if (!quantised) make_block(operand->dtype, &seed, amplitude, blocks[0]);
        memcpy(plait_ref_at(operand, i, i1, i2, i3), blocks[which], bytes);
    }
}

/* ---- on the host ---- */

static plait_operand host_operand(const plait_conf_work *w, const plait_segment_operand *operand) {
    plait_operand out = operand->shape;
    set_dims(w, &out, &operand->outer);
    out.data = w->host + w->values[operand->value].host_offset + operand->view_offset;
    return out;
}

static plait_status run_node(plait_conf_work *w, const plait_segment_node *node) {
    plait_op_use use = {
        .op = node->op, .n_inputs = node->n_inputs, .n_outputs = node->n_outputs, .present = node->present};
    memcpy(use.attrs, node->attrs, sizeof use.attrs);
    for (int i = 0; i < node->n_inputs; i++)
        if (node->present >> i & 1u) use.inputs[i] = host_operand(w, &node->inputs[i]);
    for (int o = 0; o < node->n_outputs; o++) use.outputs[o] = host_operand(w, &node->outputs[o]);
    size_t bytes = node->op->reference_scratch ? node->op->reference_scratch(&use) : 0;
    void *scratch = plait_alloc_aligned(64, bytes + 64);
    if (!scratch) return plait_error_memory("reference kernel", bytes);
    node->op->reference(&use, scratch);
    free(scratch);
    return PLAIT_OK;
}

plait_status plait_conf_run_reference(plait_conf_work *w) {
    for (int n = 0; n < w->n_nodes; n++) PLAIT_TRY(run_node(w, &w->nodes[n]));
    return PLAIT_OK;
}

/* ---- on the device ---- */

/* One segment on its way through the device. */
typedef struct passage {
    plait_conf_work *w;
    plait_segment_node *nodes;       /* Owned. */
    plait_segment_operand *operands; /* Owned. OPERANDS a node. */
    plait_segment segment;
    plait_prepared prepared;
    bool is_prepared;
    plait_program *program;
    plait_buffer *scratch;
    uint64_t *offsets; /* Owned. Of each value in the image. */
} passage;

static void passage_end(passage *p) {
    const plait_device_vtable *v = p->w->c->v;
    plait_device *device = p->w->c->device;
    if (p->program) v->program_destroy(device, p->program);
    if (p->is_prepared) v->prepared_destroy(device, &p->prepared);
    if (p->scratch) v->buffer_destroy(p->scratch);
    free(p->nodes);
    free(p->operands);
    free(p->offsets);
}

static void each_operand(passage *p, void (*f)(passage *p, plait_segment_operand *operand, bool output)) {
    for (int n = 0; n < p->segment.n_nodes; n++) {
        plait_segment_node *node = &p->nodes[n];
        for (int i = 0; i < node->n_inputs; i++)
            if (node->present >> i & 1u) f(p, &node->inputs[i], false);
        for (int o = 0; o < node->n_outputs; o++) f(p, &node->outputs[o], true);
    }
}

static bool is_elided(const passage *p, uint32_t value) {
    for (int e = 0; e < p->prepared.n_elided; e++)
        if (p->prepared.elided[e] == value) return true;
    return false;
}

static void set_address(passage *p, plait_segment_operand *operand, bool output) {
    (void)output;
    bool elided = is_elided(p, operand->value);
    operand->slot = elided ? UINT32_MAX : SLOT_IMAGE;
    operand->offset = elided ? 0 : p->offsets[operand->value] + operand->view_offset;
}

/* First and last group that touches a value. */
static void life_of(const passage *p, uint32_t value, int *first, int *last) {
    *first = *last = -1;
    for (int g = 0; g < p->prepared.n_groups; g++)
        for (int k = 0; k < p->prepared.groups[g].n; k++) {
            const plait_segment_node *node = &p->nodes[p->prepared.order[p->prepared.groups[g].first + k]];
            bool touches = false;
            for (int i = 0; i < node->n_inputs; i++)
                touches |= (node->present >> i & 1u) && node->inputs[i].value == value;
            for (int o = 0; o < node->n_outputs; o++) touches |= node->outputs[o].value == value;
            if (touches && *first < 0) *first = g;
            if (touches) *last = g;
        }
}

/* Takes up the pairs that a planner would: the input dies where the output is born. */
static void share(passage *p) {
    const plait_conf_value *values = p->w->values;
    for (int k = 0; k < p->prepared.n_shared; k++) {
        uint32_t out = p->prepared.shared[k].output, in = p->prepared.shared[k].input;
        int out_first, out_last, in_first, in_last;
        life_of(p, out, &out_first, &out_last);
        life_of(p, in, &in_first, &in_last);
        bool fine = values[in].written && !values[in].needed && in_last == out_first &&
                    values[in].size_bytes == values[out].size_bytes && p->offsets[out] == values[out].offset;
        for (int other = 0; other < p->w->n_values; other++) /* taken over already by another */
            fine = fine && ((uint32_t)other == in || p->offsets[other] != p->offsets[in] ||
                            p->offsets[in] != values[in].offset);
        if (fine) p->offsets[out] = p->offsets[in];
    }
}

static plait_status check_prepared(const passage *p) {
    int covered = 0;
    for (int g = 0; g < p->prepared.n_groups; g++) {
        PLAIT_CONF_EXPECT(p->prepared.groups[g].first == covered && p->prepared.groups[g].n > 0,
                          "prepare: group %d begins at %d, expected %d", g, p->prepared.groups[g].first,
                          covered);
        PLAIT_CONF_EXPECT(plait_is_power_of_two(p->prepared.groups[g].scratch_alignment),
                          "prepare: group %d: alignment of scratch is no power of two", g);
        covered += p->prepared.groups[g].n;
    }
    PLAIT_CONF_EXPECT(covered == p->segment.n_nodes, "prepare: groups hold %d of %d nodes", covered,
                      p->segment.n_nodes);
    uint64_t seen = 0;
    for (int k = 0; k < covered; k++) seen |= (uint64_t)1 << p->prepared.order[k];
    PLAIT_CONF_EXPECT(seen == ((uint64_t)1 << covered) - 1, "prepare: a node is missing or named twice");
    for (int e = 0; e < p->prepared.n_elided; e++)
        PLAIT_CONF_EXPECT(p->prepared.elided[e] < (uint32_t)p->w->n_values &&
                              !p->w->values[p->prepared.elided[e]].needed &&
                              p->w->values[p->prepared.elided[e]].written,
                          "prepare: value %u is needed and left out", p->prepared.elided[e]);
    return PLAIT_OK;
}

/* Scratch of the groups, one behind the other, in a buffer of its own. */
static plait_status give_scratch(passage *p) {
    uint64_t total = 0;
    for (int g = 0; g < p->prepared.n_groups; g++) {
        plait_group *group = &p->prepared.groups[g];
        group->scratch_slot = SLOT_SCRATCH;
        group->scratch_offset =
            group->scratch_bytes ? place(&total, group->scratch_alignment, group->scratch_bytes) : 0;
    }
    return p->w->c->v->buffer_create(p->w->c->device, total + GAP_BYTES, PLAIT_BUFFER_TEMPORARY, &p->scratch);
}

static plait_status make_program(passage *p, int first, int n, plait_conf_way way) {
    plait_conf_work *w = p->w;
    p->nodes = plait_alloc_array((size_t)n, sizeof *p->nodes);
    p->operands = plait_alloc_array((size_t)n * OPERANDS, sizeof *p->operands);
    p->offsets = plait_alloc_array((size_t)w->n_values, sizeof *p->offsets);
    if (!p->nodes || !p->operands || !p->offsets)
        return plait_error_memory("conformance", (size_t)n * sizeof *p->nodes);
    memcpy(p->nodes, w->nodes + first, (size_t)n * sizeof *p->nodes);
    memcpy(p->operands, w->operands + (size_t)first * OPERANDS, (size_t)n * OPERANDS * sizeof *p->operands);
    for (int k = 0; k < n; k++) {
        p->nodes[k].inputs = p->operands + (size_t)k * OPERANDS;
        p->nodes[k].outputs = p->nodes[k].inputs + PLAIT_MAX_INPUTS;
    }
    for (int k = 0; k < n; k++)
        for (int o = 0; o < p->nodes[k].n_outputs; o++)
            p->nodes[k].outputs[o].needed_after =
                way == PLAIT_CONF_SINGLE || w->values[p->nodes[k].outputs[o].value].needed;
    p->segment = (plait_segment){.struct_bytes = sizeof p->segment,
                                 .n_nodes = n,
                                 .nodes = p->nodes,
                                 .n_dims = w->n_dims,
                                 .bounds = w->bounds};
    PLAIT_TRY(w->c->v->prepare(w->c->device, &p->segment, &p->prepared));
    p->is_prepared = true;
    PLAIT_TRY(check_prepared(p));
    PLAIT_TRY(give_scratch(p));
    for (int v = 0; v < w->n_values; v++) p->offsets[v] = w->values[v].offset;
    if (way == PLAIT_CONF_SHARING) share(p);
    each_operand(p, set_address);
    p->segment.n_slots = N_SLOTS;
    return w->c->v->compile(w->c->device, &p->segment, &p->prepared, &p->program);
}

static plait_status submit(plait_conf *c, const plait_command *command) {
    PLAIT_TRY(c->v->submit(c->queue, command, 1));
    return c->v->synchronise(c->queue);
}

static plait_status launch(passage *p) {
    plait_buffer *slots[N_SLOTS] = {p->w->image, p->scratch};
    plait_command command = {
        .kind = PLAIT_COMMAND_LAUNCH,
        .launch = {.program = p->program, .slots = slots, .dims = p->w->dims},
    };
    PLAIT_TRY(submit(p->w->c, &command));
    if (!p->w->c->options.bench) return PLAIT_OK;
    uint64_t start = plait_time_ns(), now = start;
    int n = 0;
    for (; now - start < BENCH_NS; n++, now = plait_time_ns()) PLAIT_TRY(submit(p->w->c, &command));
    p->w->launch_ns += (double)(now - start) / n;
    return PLAIT_OK;
}

/* Bytes to the device: values in file form as they are, packed ones through pack. */
static plait_status upload(plait_conf_work *w, unsigned char *image) {
    memset(image, PATTERN, w->device_bytes);
    for (int v = 0; v < w->n_values; v++)
        if (w->values[v].encoding == PLAIT_ENCODING_FILE)
            memcpy(image + w->values[v].offset, w->host + w->values[v].host_offset, w->values[v].size_bytes);
    plait_command command = {.kind = PLAIT_COMMAND_WRITE,
                             .transfer = {.region = {w->image, 0, w->device_bytes}, .host = image}};
    PLAIT_TRY(submit(w->c, &command));
    for (int t = 0; t < w->n_tensors; t++) {
        const plait_conf_value *value = &w->values[w->tensors[t].value];
        plait_operand source = plait_conf_host(w, t);
        uint64_t size;
        if (value->encoding == PLAIT_ENCODING_FILE) continue;
        PLAIT_TRY(device_size(w, (int)w->tensors[t].value, &size));
        plait_region region = {w->image, value->offset, size};
        PLAIT_TRY(w->c->v->pack(w->c->device, &source, value->encoding, 0, source.dims[1], region));
    }
    return PLAIT_OK;
}

static plait_status run_nodes(plait_conf_work *w, int first, int n, plait_conf_way way) {
    passage p = {.w = w};
    plait_status status = make_program(&p, first, n, way);
    if (status == PLAIT_OK) status = launch(&p);
    w->n_groups = p.prepared.n_groups;
    if (p.offsets) memcpy(w->shown, p.offsets, (size_t)w->n_values * sizeof *w->shown);
    passage_end(&p);
    return status;
}

plait_status plait_conf_run_device(plait_conf_work *w, plait_conf_way way, unsigned char *out) {
    if (!out) return plait_error_memory("conformance", w->device_bytes);
    w->launch_ns = 0;
    PLAIT_TRY(upload(w, out));
    if (way != PLAIT_CONF_SINGLE)
        PLAIT_TRY(run_nodes(w, 0, w->n_nodes, way));
    else
        for (int n = 0; n < w->n_nodes; n++) PLAIT_TRY(run_nodes(w, n, 1, way));
    plait_command command = {.kind = PLAIT_COMMAND_READ,
                             .transfer = {.region = {w->image, 0, w->device_bytes}, .host = out}};
    return submit(w->c, &command);
}

/* ---- comparing ---- */

static double element(const plait_operand *o, int64_t i0, int64_t i1, int64_t i2, int64_t i3) {
    float block[256];
    int64_t n = plait_dtype_block_elems(o->dtype);
    plait_quant_of(o->dtype)->decode(plait_ref_at(o, i0 / n, i1, i2, i3), block, n);
    return (double)block[i0 % n];
}

double plait_conf_difference(const plait_conf_work *w, int tensor, const unsigned char *image, double scale) {
    plait_operand expected = plait_conf_host(w, tensor);
    plait_operand actual = in_image(w, tensor, image, w->shown[w->tensors[tensor].value]);
    double worst = 0;
    if (plait_operand_elems(&expected) <= 0) return 0;
    PLAIT_REF_ROWS(&expected, i1, i2, i3)
    for (int64_t i = 0; i < expected.dims[0]; i++) {
        double a = element(&actual, i, i1, i2, i3), e = element(&expected, i, i1, i2, i3);
        if (a == e || (isnan(a) && isnan(e))) continue;
        double difference = fabs(a - e) / fmax(scale, fabs(e));
        worst = isnan(difference) ? INFINITY : fmax(worst, difference);
    }
    return worst;
}

double plait_conf_magnitude(const plait_operand *o) {
    double sum = 0;
    int64_t block = plait_dtype_block_elems(o->dtype), n = o->dims[0] * o->dims[1];
    float row[256];
    for (int64_t i1 = 0; i1 < o->dims[1]; i1++)
        for (int64_t i = 0; i < o->dims[0] / block; i++) {
            plait_quant_of(o->dtype)->decode(plait_ref_at(o, i, i1, 0, 0), row, block);
            for (int64_t k = 0; k < block; k++) sum += (double)row[k] * (double)row[k];
        }
    return n > 0 ? sqrt(sum / (double)n) : 0;
}

/* Copies the elements of a written tensor from the host's image over the device's. */
static void take_over(const plait_conf_work *w, const plait_segment_operand *operand, unsigned char *image) {
    plait_operand from = host_operand(w, operand), to = from;
    to.data = image + w->values[operand->value].offset + operand->view_offset;
    int64_t blocks = from.dims[0] / plait_dtype_block_elems(from.dtype);
    if (plait_operand_elems(&from) <= 0) return;
    PLAIT_REF_ROWS(&from, i1, i2, i3)
    for (int64_t i = 0; i < blocks; i++)
        memcpy(plait_ref_at(&to, i, i1, i2, i3), plait_ref_at(&from, i, i1, i2, i3),
               (size_t)plait_dtype_block_bytes(from.dtype));
}

bool plait_conf_untouched(const plait_conf_work *w, const unsigned char *image) {
    unsigned char *work = plait_alloc_array(w->device_bytes, 1);
    bool same = work != NULL;
    uint64_t at = 0;
    if (!work) return false;
    memcpy(work, image, w->device_bytes);
    for (int n = 0; n < w->n_nodes; n++)
        for (int o = 0; o < w->nodes[n].n_outputs; o++) take_over(w, &w->nodes[n].outputs[o], work);
    for (int v = 0; same && v < w->n_values; v++) {
        const plait_conf_value *value = &w->values[v];
        for (; at < value->offset; at++) same &= work[at] == PATTERN;
        at = value->offset + value->size_bytes;
        same = same && memcmp(work + value->offset, w->host + value->host_offset, value->size_bytes) == 0;
    }
    for (; same && at < w->device_bytes; at++) same &= work[at] == PATTERN;
    free(work);
    return same;
}
