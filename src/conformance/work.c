/* The workbench. Not here: the way of nodes through the device (built.c), numbers (fill.c). Invariant: host and device
 * start from the same bytes, and nothing but the nodes changes them.
 *
 * The device's image is one buffer with every value at an offset, the host's image one block with the same values in
 * file form. Offsets differ, since packings have sizes of their own. */
#include "conformance/work.h"

#include "base/alloc.h"
#include "base/map.h"
#include "base/size.h"
#include "conformance/kit.h"
#include "op/reference.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- building ---- */

/* Does not fail: without memory the tables are NULL, and whatever is added is refused (-1), which freeze turns into a
 * status. */
void plait_conf_work_init(plait_conf_work *w, plait_conf *c) {
    memset(w, 0, sizeof *w);
    w->c = c;
    plait_arena_init(&w->arena, 0);
    w->tensors = plait_arena_alloc(&w->arena, PLAIT_CONF_MAX_TENSORS, sizeof *w->tensors);
    w->values = plait_arena_alloc(&w->arena, PLAIT_CONF_MAX_TENSORS, sizeof *w->values);
    w->nodes = plait_arena_alloc(&w->arena, PLAIT_CONF_MAX_NODES, sizeof *w->nodes);
    w->operands =
        plait_arena_alloc(&w->arena, PLAIT_CONF_MAX_NODES * PLAIT_CONF_OPERANDS, sizeof *w->operands);
}

/* The buffer is the device's; everything else is the arena's. */
void plait_conf_work_deinit(plait_conf_work *w) {
    if (w->image) w->c->v->buffer_destroy(w->image);
    plait_arena_deinit(&w->arena);
}

int plait_conf_dim(plait_conf_work *w, int64_t bound, int64_t value) {
    w->bounds[w->n_dims] = bound;
    w->dims[w->n_dims] = value;
    return w->n_dims++;
}

/* An offset for size_bytes behind what is placed, with at least a gap between them that belongs to nobody. */
static uint64_t place(uint64_t *total, uint64_t alignment, uint64_t size_bytes) {
    uint64_t at = (*total + PLAIT_CONF_GAP_BYTES + alignment - 1) & ~(alignment - 1);
    *total = at + size_bytes;
    return at;
}

/* Values are placed when they are added; only freeze makes the images. False when the bench is full, or the tables could
 * not be made. */
static bool has_room(const plait_conf_work *w) {
    return w->tensors && w->values && w->nodes && w->operands && w->n_tensors < PLAIT_CONF_MAX_TENSORS;
}

/* The host's place is known at once, the device's only when all values are added and packings are chosen. `shift` is
 * part of the value, in front of the tensor. -1 without room, or when the shape spans more than 63 bits; nothing is
 * added then. */
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

/* A tensor over the same value, `more_offset` behind the first one's beginning. It must lie within the value, which is
 * the caller's affair. */
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

/* As a planner gives it to `prepare`: storage is the value, no slot yet. */
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

/* Inferred like any node, so the bench cannot have nodes that a graph could not. The output of an op that writes an
 * input is that input's tensor, and is needed: it is state. A failure in the middle may leave tensors, but no node. -1
 * when the op refuses the inputs. */
int plait_conf_apply(plait_conf_work *w, const plait_op_use *attrs_of, int n_inputs, const int *inputs,
                     plait_extent extent) {
    plait_op_use use = *attrs_of;
    if (!has_room(w) || w->n_nodes == PLAIT_CONF_MAX_NODES) return -1;
    plait_segment_node *node = &w->nodes[w->n_nodes];
    plait_segment_operand *operands = w->operands + (size_t)w->n_nodes * PLAIT_CONF_OPERANDS;
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
    /* Before anything is added: a refused node leaves the bench as it was. */
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

/* Whether a reader of this kind is offered the encoding that the value has. A status other than OK comes with false.
 * Four offers are asked for: a device that has more puts its best ones first. */
static bool offered_bytes(const plait_conf_work *w, const plait_conf_tensor *t, const plait_op *op, int input,
                          plait_status *status, uint64_t *out) {
    struct plait_weight_reader reader = {op, input, true};
    plait_weight_use use = {.dtype = t->shape.dtype, .n_readers = 1, .readers = &reader};
    plait_encoding_offer offers[4];
    int n = 4;
    memcpy(use.dims, t->shape.dims, sizeof use.dims);
    *status = w->c->v->encodings(w->c->device, &use, offers, &n);
    for (int i = 0; *status == PLAIT_OK && i < n; i++)
        if (offers[i].encoding == w->values[t->value].encoding) {
            *out = offers[i].size_bytes;
            return true;
        }
    return false;
}

/* Asked of the device again, by the offer that has this encoding: only it knows how long a packing is. It is asked as
 * for each reader, then as for a product in that place, for a lookup alone may be offered nothing. */
plait_status plait_conf_device_bytes(const plait_conf_work *w, int v, uint64_t *out) {
    const plait_conf_value *value = &w->values[v];
    plait_status status = PLAIT_OK;
    *out = value->size_bytes;
    if (value->encoding == PLAIT_ENCODING_FILE) return PLAIT_OK;
    for (int n = 0; n < w->n_nodes; n++)
        for (int i = 0; i < w->nodes[n].n_inputs; i++) {
            const plait_segment_node *node = &w->nodes[n];
            const plait_conf_tensor shape = {.shape = node->inputs[i].shape, .value = (uint32_t)v};
            if (!(node->present >> i & 1u) || node->inputs[i].value != (uint32_t)v) continue;
            if (offered_bytes(w, &shape, node->op, i, &status, out)) return PLAIT_OK;
            PLAIT_TRY(status);
            if (offered_bytes(w, &shape, plait_op_get(PLAIT_OP_matmul), 0, &status, out)) return PLAIT_OK;
            PLAIT_TRY(status);
        }
    return plait_error(PLAIT_INTERNAL, "encoding %u is offered no more", value->encoding);
}

/* A device may be too small for what is on the bench; twice as much is there for scratch. */
static plait_status has_memory(plait_conf_work *w) {
    uint64_t total, left;
    if (w->device_bytes > w->c->info.max_buffer_bytes)
        return plait_conf_lack(w->c, "the device has no buffer of %llu bytes",
                               (unsigned long long)w->device_bytes);
    PLAIT_TRY(w->c->v->memory_query(w->c->device, &total, &left));
    if (w->device_bytes < left / 2) return PLAIT_OK;
    return plait_conf_lack(w->c, "the device has %llu bytes left, too few for %llu and scratch",
                           (unsigned long long)left, (unsigned long long)w->device_bytes);
}

/* The host image is filled with bytes of nobody; the caller then fills values. The alignment is the device's, but at
 * least 64, so that offsets behind `shift` are the ones under test and not chance. */
plait_status plait_conf_freeze(plait_conf_work *w) {
    uint64_t alignment = plait_max_i64((int64_t)w->c->info.alignment, 64), size = 0;
    w->shown = plait_arena_alloc(&w->arena, PLAIT_CONF_MAX_TENSORS, sizeof *w->shown);
    if (!w->tensors || !w->values || !w->nodes || !w->operands || !w->shown)
        return plait_error_memory("conformance", 0);
    for (int v = 0; v < w->n_values; v++) {
        PLAIT_TRY(plait_conf_device_bytes(w, v, &size));
        w->values[v].offset = w->shown[v] = place(&w->device_bytes, alignment, size);
    }
    w->device_bytes += PLAIT_CONF_GAP_BYTES;
    w->host_bytes += PLAIT_CONF_GAP_BYTES;
    /* An arena gives 16-byte alignment, which every type is content with. */
    w->host = plait_arena_alloc(&w->arena, w->host_bytes, 1);
    w->uploaded = plait_arena_alloc(&w->arena, w->device_bytes, 1);
    if (!w->host || !w->uploaded) return plait_error_memory("conformance", w->host_bytes);
    memset(w->host, PLAIT_CONF_NOBODY, w->host_bytes);
    /* Last, so that the message has the real size. The image is temporary memory, as in a run. */
    PLAIT_TRY(has_memory(w));
    return w->c->v->buffer_create(w->c->device, w->device_bytes, PLAIT_BUFFER_TEMPORARY, &w->image);
}

unsigned char *plait_conf_image(plait_conf_work *w) {
    return plait_arena_alloc(&w->arena, w->device_bytes, 1);
}

/* In file form, values that nodes wrote, in their order: two devices with equal numbers have equal hashes, wherever
 * they keep weights. */
uint64_t plait_conf_hash(const plait_conf_work *w, const unsigned char *image) {
    uint64_t hash = 1;
    for (int v = 0; v < w->n_values; v++)
        if (w->values[v].written) hash = plait_hash_bytes(image + w->shown[v], w->values[v].size_bytes, hash);
    return hash;
}

/* From the bound to the value. */
static void set_dims(const plait_conf_work *w, plait_operand *operand, const plait_extent *outer) {
    if (outer->dim >= 0) operand->dims[outer->axis] = plait_extent_value(outer, 0, w->dims);
}

/* Dims are at their values; data points into the image, also of a value of no bytes. */
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

plait_operand plait_conf_host_operand(const plait_conf_work *w, const plait_segment_operand *operand) {
    plait_operand out = operand->shape;
    set_dims(w, &out, &operand->outer);
    out.data = w->host + w->values[operand->value].host_offset + operand->view_offset;
    return out;
}

/* Values in file form as they are, packed ones through pack. The whole image is written, gaps included, so that a byte
 * which nobody may touch is known to be what it was. `image` may be another buffer than the bench's own, of the same
 * size. `uploaded` keeps what was written, with which plait_conf_untouched compares. */
plait_status plait_conf_upload(plait_conf_work *w, plait_queue *queue, plait_buffer *image) {
    memset(w->uploaded, PLAIT_CONF_NOBODY, w->device_bytes);
    for (int v = 0; v < w->n_values; v++)
        if (w->values[v].encoding == PLAIT_ENCODING_FILE)
            memcpy(w->uploaded + w->values[v].offset, w->host + w->values[v].host_offset,
                   w->values[v].size_bytes);
    /* Gaps in front, packings behind: pack writes into an image that is known. */
    plait_command write = plait_conf_write(image, 0, w->uploaded, w->device_bytes);
    PLAIT_TRY(plait_conf_do(queue, &write, 1));
    for (int t = 0; t < w->n_tensors; t++) {
        const plait_conf_value *value = &w->values[w->tensors[t].value];
        plait_operand source = plait_conf_host(w, t);
        uint64_t size;
        if (value->encoding == PLAIT_ENCODING_FILE) continue;
        PLAIT_TRY(plait_conf_device_bytes(w, (int)w->tensors[t].value, &size));
        plait_region region = {image, value->offset, size};
        PLAIT_TRY(w->c->v->pack(w->c->device, &source, value->encoding, 0,
                                source.dims[1] * source.dims[2] * source.dims[3], region));
    }
    return PLAIT_OK;
}

/* ---- on the host ---- */

/* Dims at their values, data in the host image: what the reference kernel and the bounds see. */
plait_op_use plait_conf_host_use(const plait_conf_work *w, const plait_segment_node *node) {
    plait_op_use use = {
        .op = node->op, .n_inputs = node->n_inputs, .n_outputs = node->n_outputs, .present = node->present};
    memcpy(use.attrs, node->attrs, sizeof use.attrs);
    for (int i = 0; i < node->n_inputs; i++)
        if (node->present >> i & 1u) use.inputs[i] = plait_conf_host_operand(w, &node->inputs[i]);
    for (int o = 0; o < node->n_outputs; o++) use.outputs[o] = plait_conf_host_operand(w, &node->outputs[o]);
    return use;
}

/* In place in the host image. Scratch has 64 bytes to spare, so that none is still an address. The error word is not
 * asked for: nodes of the bench have ids in range, but for failures.c, which runs them itself. */
static plait_status run_node(plait_conf_work *w, const plait_segment_node *node) {
    plait_op_use use = plait_conf_host_use(w, node);
    size_t bytes = node->op->reference_scratch ? node->op->reference_scratch(&use) : 0;
    void *scratch = plait_alloc_aligned(64, bytes + 64);
    if (!scratch) return plait_error_memory("reference kernel", bytes);
    node->op->reference(&use, scratch);
    free(scratch);
    return PLAIT_OK;
}

/* In program order: a node reads what the ones before it wrote. */
plait_status plait_conf_run_reference(plait_conf_work *w) {
    for (int n = 0; n < w->n_nodes; n++) PLAIT_TRY(run_node(w, &w->nodes[n]));
    return PLAIT_OK;
}

/* ---- comparing ---- */

/* By the format's decoder, a block at a time: slow, and right for every type. */
static double element(const plait_operand *o, int64_t i0, int64_t i1, int64_t i2, int64_t i3) {
    float block[256];
    int64_t n = plait_dtype_block_elems(o->dtype);
    plait_quant_of(o->dtype)->decode(plait_ref_at(o, i0 / n, i1, i2, i3), block, n);
    return (double)block[i0 % n];
}

/* Where the value was in the last run, which may have put it over another one. */
static plait_operand shown_in(const plait_conf_work *w, int tensor, const unsigned char *image) {
    return in_image(w, tensor, image, w->shown[w->tensors[tensor].value]);
}

/* Relative to the larger of `scale` and the expected value; a NaN on one side only is infinitely wrong. Both operands
 * have the same dims; only bytes of the value's elements are read. */
double plait_conf_difference(const plait_conf_work *w, int tensor, const unsigned char *image, double scale) {
    plait_operand expected = plait_conf_host(w, tensor), actual = shown_in(w, tensor, image);
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

/* Nine digits tell any two float32 numbers apart. */
static plait_status far_off(const plait_operand *o, const int64_t at[PLAIT_MAX_RANK], double actual,
                            double expected, double limit) {
    return plait_error(PLAIT_INTERNAL,
                       "%s element [%lld, %lld, %lld, %lld] is %.9g, expected %.9g within %.3g",
                       plait_dtype_name(o->dtype), (long long)at[0], (long long)at[1], (long long)at[2],
                       (long long)at[3], actual, expected, limit);
}

/* Blocks whose bytes are not those of the host. */
static plait_status same_blocks(const plait_operand *actual, const plait_operand *expected) {
    size_t bytes = (size_t)plait_dtype_block_bytes(expected->dtype);
    int64_t elems = plait_dtype_block_elems(expected->dtype);
    PLAIT_REF_ROWS(expected, i1, i2, i3)
    for (int64_t i = 0; i < expected->dims[0] / elems; i++)
        PLAIT_CONF_EXPECT(
            memcmp(plait_ref_at(actual, i, i1, i2, i3), plait_ref_at(expected, i, i1, i2, i3), bytes) == 0,
            "the %s block at [%lld, %lld, %lld, %lld] has other bytes than expected",
            plait_dtype_name(expected->dtype), (long long)(i * elems), (long long)i1, (long long)i2,
            (long long)i3);
    return PLAIT_OK;
}

/* Rows are decoded whole. An infinite or NaN limit allows any finite number, and what the reference gives. limits NULL:
 * the numbers must be equal. *worst only grows. */
plait_status plait_conf_within(const plait_conf_work *w, int tensor, const unsigned char *image,
                               const double *limits, double *worst) {
    plait_operand expected = plait_conf_host(w, tensor), actual = shown_in(w, tensor, image);
    if (plait_operand_elems(&expected) <= 0) return PLAIT_OK;
    if (!limits && plait_dtype_quantised(expected.dtype)) return same_blocks(&actual, &expected);
    float *row = plait_alloc_array((size_t)expected.dims[0], 2 * sizeof *row);
    float *other = row ? row + expected.dims[0] : NULL;
    plait_status status = row ? PLAIT_OK : plait_error_memory("conformance", (uint64_t)expected.dims[0] * 8);
    PLAIT_REF_ROWS(&expected, i1, i2, i3) {
        if (status != PLAIT_OK) break;
        plait_ref_read_row(&actual, i1, i2, i3, actual.dims[0], row);
        plait_ref_read_row(&expected, i1, i2, i3, expected.dims[0], other);
        for (int64_t i = 0; i < expected.dims[0] && status == PLAIT_OK; i++) {
            double a = (double)row[i], e = (double)other[i], limit = limits ? limits[i] : 0;
            /* Equal infinities are equal, and NaN is NaN whatever its bits: no format promises more. */
            if (a == e || (isnan(a) && isnan(e))) continue;
            double difference = fabs(a - e);
            /* The worst share of a limit is kept while all is well, too: it is the check's figure of error. */
            if (isfinite(limit) && difference <= limit && difference > *worst * limit)
                *worst = difference / limit;
            /* Where the bound says nothing, any finite number will do. */
            if (difference <= limit || (!isfinite(limit) && isfinite(a))) continue;
            status = far_off(&expected, (int64_t[]){i, i1, i2, i3}, a, e, limit);
            *worst = limit > 0 ? fmax(*worst, difference / limit) : INFINITY;
        }
        /* Limits lie row after row, dense, whatever the strides of the operand. */
        if (limits) limits += expected.dims[0];
    }
    free(row);
    return status;
}

/* Block by block, since a row of a quantised type cannot be read in parts. */
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

/* Copies the elements of an operand from one image over another. What a node was to write is taken from the image that
 * came back; whether it is right is another question. */
static void take_over(const plait_conf_work *w, const plait_segment_operand *operand,
                      const unsigned char *from_image, unsigned char *to_image) {
    uint64_t at = w->shown[operand->value] + operand->view_offset;
    plait_operand from = operand->shape;
    set_dims(w, &from, &operand->outer);
    plait_operand to = from;
    from.data = (unsigned char *)(uintptr_t)from_image + at;
    to.data = to_image + at;
    int64_t blocks = from.dims[0] / plait_dtype_block_elems(from.dtype);
    if (plait_operand_elems(&from) <= 0) return;
    PLAIT_REF_ROWS(&from, i1, i2, i3)
    for (int64_t i = 0; i < blocks; i++)
        memcpy(plait_ref_at(&to, i, i1, i2, i3), plait_ref_at(&from, i, i1, i2, i3),
               (size_t)plait_dtype_block_bytes(from.dtype));
}

/* Whose byte it is, for the message. The value that begins last in front of it; behind its end, it is the gap's. */
static plait_status changed_byte(const plait_conf_work *w, uint64_t at, int actual, int expected) {
    uint64_t before = 0;
    int value = -1;
    for (int v = 0; v < w->n_values; v++)
        if (w->values[v].offset <= at && (value < 0 || w->values[v].offset > before)) {
            value = v;
            before = w->values[v].offset;
        }
    if (value < 0)
        return plait_error(PLAIT_INTERNAL, "byte %llu in front of all values has changed from %d to %d",
                           (unsigned long long)at, expected, actual);
    return plait_error(
        PLAIT_INTERNAL,
        "a byte that no node writes has changed from %d to %d: %llu behind the start of value %d, which "
        "has %llu bytes",
        expected, actual, (unsigned long long)(at - before), value,
        (unsigned long long)w->values[value].size_bytes);
}

/* The image as it was uploaded, with everything that nodes write replaced by what came back: whatever still differs was
 * written by nobody's right. Packed weights are left out, since only the device knows their bytes. Finds one wrong byte
 * anywhere; a write of the value that was there already is not seen, and does no harm. */
plait_status plait_conf_untouched(const plait_conf_work *w, const unsigned char *image) {
    unsigned char *expected = plait_alloc_array(w->device_bytes, 1);
    plait_status status = PLAIT_OK;
    if (!expected) return plait_error_memory("conformance", w->device_bytes);
    memcpy(expected, w->uploaded, w->device_bytes);
    /* Outputs of every node, views among them by their own elements. */
    for (int n = 0; n < w->n_nodes; n++)
        for (int o = 0; o < w->nodes[n].n_outputs; o++)
            take_over(w, &w->nodes[n].outputs[o], image, expected);
    for (int v = 0; v < w->n_values; v++) {
        uint64_t size = 0;
        if (w->values[v].encoding == PLAIT_ENCODING_FILE) continue;
        if (plait_conf_device_bytes(w, v, &size) == PLAIT_OK)
            memcpy(expected + w->values[v].offset, image + w->values[v].offset, size);
    }
    for (uint64_t i = 0; i < w->device_bytes && status == PLAIT_OK; i++)
        if (image[i] != expected[i]) status = changed_byte(w, i, image[i], expected[i]);
    free(expected);
    return status;
}
