/* Measuring a device through its interface alone: segments of one or a few nodes are prepared, compiled and launched as
 * a plan would do it, bytes are written and read, and the clock of the host is looked at. The device need not be idle
 * for right figures, but it should be.
 *
 * Each figure starts with little work and takes more until it lasts long enough to be told from noise, so that a device
 * a thousand times slower than another takes hardly longer to measure. What a device lacks is measured as 0.
 *
 * Invariant: everything taken from the device is given back, whatever fails. */
#include "cost/cost.h"

#include "base/alloc.h"
#include "base/os.h"
#include "base/size.h"
#include "base/status.h"
#include "op/attrs.h"

#include <stdlib.h>
#include <string.h>

enum {
    SLOT_VALUES = 0,
    SLOT_WEIGHT = 1,
    N_SLOTS = 2,
    MAX_NODES = 9,
    ENOUGH_NS = 3000000,     /* work that lasts this long is told from noise */
    MOST_NS = 9000000,       /* of one figure, repetitions included */
    REPETITIONS = 4,         /* the best counts: whatever disturbs, slows down */
    ROUNDS = 3,              /* through all figures: what disturbs one round may be gone in the next */
    COLUMNS = 256,           /* of products, at most */
    STREAM_BYTES = 32 << 20, /* more than caches hold, where the device has that much */
    LINK_BYTES = 8 << 20
};

/* A device under measurement, with a queue of its own, and a segment of it. */
typedef struct bench {
    plait_device *device;
    const plait_device_vtable *v;
    plait_device_info info;
    plait_queue *queue;
    plait_segment_node nodes[MAX_NODES];
    plait_segment_operand operands[MAX_NODES][PLAIT_MAX_INPUTS + PLAIT_MAX_OUTPUTS]; /* of the nodes */
    plait_segment segment;
    int64_t bounds[1], dims[1]; /* one named dim: how much work a launch is */
    uint64_t value_bytes;       /* used in SLOT_VALUES */
    uint32_t n_values;
    plait_buffer *slots[N_SLOTS];
    plait_prepared prepared;
    bool is_prepared;
    plait_program *program;
} bench;

/* ---- running ---- */

/* To the end, so that a look at the clock before and behind it is their time. */
static plait_status run_commands(bench *b, const plait_command *commands, int n) {
    PLAIT_TRY(b->v->submit(b->queue, commands, n));
    return b->v->synchronise(b->queue);
}

/* Best time of the commands, 1 ns at least. The best rather than the mean, for nothing makes a device faster than it
 * is. Slow work is repeated less, so that a figure takes MOST_NS and one repetition at most. */
static plait_status time_commands(bench *b, const plait_command *commands, int n, uint64_t *out_ns) {
    uint64_t begin = plait_time_ns(), best = UINT64_MAX;
    PLAIT_TRY(run_commands(b, commands, n)); /* the first time touches pages */
    for (int i = 0; i < REPETITIONS; i++) {
        uint64_t before = plait_time_ns();
        if (i > 0 && before - begin > MOST_NS) break;
        PLAIT_TRY(run_commands(b, commands, n));
        uint64_t ns = plait_time_ns() - before;
        if (ns < best) best = ns;
    }
    *out_ns = best ? best : 1;
    return PLAIT_OK;
}

static plait_command launch_of(const bench *b) {
    return (plait_command){
        .kind = PLAIT_COMMAND_LAUNCH,
        .launch = {.program = b->program, .slots = (plait_buffer *const *)b->slots, .dims = b->dims}};
}

/* Launches with more and more of the named dim, until one lasts long enough or the bound is reached. By fours, so that
 * all launches before cost a third of the last one together. *out_dim is what the time is of. */
static plait_status time_growing(bench *b, int64_t *out_dim, uint64_t *out_ns) {
    plait_command launch = launch_of(b);
    for (int64_t dim = 1;; dim *= 4) {
        *out_dim = b->dims[0] = plait_min_i64(dim, b->bounds[0]);
        uint64_t before = plait_time_ns();
        PLAIT_TRY(run_commands(b, &launch, 1));
        if (plait_time_ns() - before >= ENOUGH_NS || *out_dim == b->bounds[0]) break;
    }
    return time_commands(b, &launch, 1, out_ns);
}

/* ---- building a segment ---- */

/* Gives back program and buffers, and forgets the nodes. */
static void clear(bench *b) {
    if (b->program) b->v->program_destroy(b->device, b->program);
    if (b->is_prepared) b->v->prepared_destroy(b->device, &b->prepared);
    for (int s = 0; s < N_SLOTS; s++)
        if (b->slots[s]) b->v->buffer_destroy(b->slots[s]);
    memset(b->slots, 0, sizeof b->slots);
    b->program = NULL;
    b->is_prepared = false;
    b->value_bytes = 0;
    b->n_values = 0;
    b->segment.n_nodes = 0;
}

/* An operand of its own value, behind those that there are. `axis` >= 0: that dim is the named one. Aligned to 64 bytes
 * at least, as temporaries in an arena would be. */
static plait_segment_operand new_value(bench *b, const plait_operand *shape, int axis) {
    plait_segment_operand o = {.shape = *shape, .outer = {.dim = -1}, .slot = SLOT_VALUES};
    if (axis >= 0) o.outer = (plait_extent){.dim = 0, .axis = axis, .a = 1, .c = 1};
    o.value = o.storage = b->n_values++;
    o.offset = b->value_bytes;
    uint64_t unit = b->info.alignment > 64 ? b->info.alignment : 64;
    b->value_bytes += ((uint64_t)plait_operand_span_bytes(shape) + unit - 1) & ~(unit - 1);
    return o;
}

/* Shapes here are small constants that cannot overflow. */
static plait_operand dense(plait_dtype dtype, int64_t d0, int64_t d1, int64_t d2, int64_t d3) {
    plait_operand operand = {.dtype = dtype, .dims = {d0, d1, d2, d3}};
    plait_operand_make_dense(&operand);
    return operand;
}

/* Appends a node over the operands; output 0 is a new value whose last dim but ones is the named dim. `use` gets its
 * attributes' initial values from plait_op_use_init. */
static plait_status add_node(bench *b, plait_op_id op, const plait_segment_operand *inputs, int n_inputs,
                             int output_axis, plait_segment_operand *out_result) {
    plait_op_use use;
    plait_op_use_init(&use, plait_op_get(op));
    use.n_inputs = n_inputs;
    for (int i = 0; i < n_inputs; i++) {
        use.inputs[i] = inputs[i].shape;
        use.present |= 1u << i;
    }
    PLAIT_TRY(plait_op_infer(&use));
    plait_segment_node *node = &b->nodes[b->segment.n_nodes];
    plait_segment_operand *operands = b->operands[b->segment.n_nodes];
    *node = (plait_segment_node){.op = use.op,
                                 .name = "measure",
                                 .node = (uint32_t)b->segment.n_nodes,
                                 .n_inputs = n_inputs,
                                 .n_outputs = use.n_outputs,
                                 .present = use.present,
                                 .inputs = operands,
                                 .outputs = operands + n_inputs};
    memcpy(node->attrs, use.attrs, sizeof node->attrs);
    memcpy(node->inputs, inputs, (size_t)n_inputs * sizeof *inputs);
    node->outputs[0] = new_value(b, &use.outputs[0], output_axis);
    node->outputs[0].needed_after = true;
    *out_result = node->outputs[0];
    b->segment.n_nodes++;
    return PLAIT_OK;
}

/* Whether the device takes the nodes: each alone, at their bounds. */
static bool supported(const bench *b) {
    for (int n = 0; n < b->segment.n_nodes; n++) {
        const plait_segment_node *node = &b->nodes[n];
        plait_op_use use = {.op = node->op,
                            .n_inputs = node->n_inputs,
                            .n_outputs = node->n_outputs,
                            .present = node->present};
        plait_encoding encodings[PLAIT_MAX_INPUTS] = {0};
        char reason[120];
        memcpy(use.attrs, node->attrs, sizeof use.attrs);
        for (int i = 0; i < node->n_inputs; i++) {
            use.inputs[i] = node->inputs[i].shape;
            encodings[i] = node->inputs[i].encoding;
        }
        for (int o = 0; o < node->n_outputs; o++) use.outputs[o] = node->outputs[o].shape;
        if (!b->v->supports(b->device, &use, encodings, reason, sizeof reason)) return false;
    }
    return true;
}

/* A buffer of zeros: numbers that no kernel stumbles over. */
static plait_status make_slot(bench *b, int slot, uint64_t size_bytes, uint32_t usage) {
    PLAIT_TRY(b->v->buffer_create(b->device, size_bytes, usage, &b->slots[slot]));
    plait_command fill = {.kind = PLAIT_COMMAND_FILL, .fill.region = {b->slots[slot], 0, size_bytes}};
    return run_commands(b, &fill, 1);
}

/* The nodes become a program with memory. As a plan does it: prepare without addresses, a place for each group's
 * scratch behind the values, compile. The slots get a byte more than is needed, so that none is empty. */
static plait_status compile(bench *b, uint64_t weight_bytes) {
    b->segment.struct_bytes = sizeof b->segment;
    b->segment.nodes = b->nodes;
    b->segment.n_dims = 1;
    b->segment.bounds = b->bounds;
    b->segment.n_slots = 0;
    PLAIT_TRY(b->v->prepare(b->device, &b->segment, &b->prepared));
    b->is_prepared = true;
    for (int g = 0; g < b->prepared.n_groups; g++) {
        plait_group *group = &b->prepared.groups[g];
        uint64_t unit = group->scratch_alignment > 64 ? group->scratch_alignment : 64;
        group->scratch_slot = SLOT_VALUES;
        group->scratch_offset = (b->value_bytes + unit - 1) & ~(unit - 1);
        b->value_bytes = group->scratch_offset + group->scratch_bytes;
    }
    b->segment.n_slots = N_SLOTS;
    PLAIT_TRY(make_slot(b, SLOT_VALUES, b->value_bytes + 1, PLAIT_BUFFER_TEMPORARY));
    PLAIT_TRY(make_slot(b, SLOT_WEIGHT, weight_bytes + 1, PLAIT_BUFFER_WEIGHTS));
    return b->v->compile(b->device, &b->segment, &b->prepared, &b->program);
}

/* ---- products ---- */

/* The packing that the device likes best for a weight that only products read; file form otherwise. The same question
 * as plans ask (plan/encode.c), so the product measured is the one that models run. */
static plait_status weight_form(const bench *b, const plait_operand *shape, plait_encoding *out_encoding,
                                uint64_t *out_bytes) {
    const struct plait_weight_reader reader = {plait_op_get(PLAIT_OP_matmul), 0, true};
    plait_weight_use use = {.dtype = shape->dtype, .n_readers = 1, .readers = &reader};
    plait_encoding_offer offer;
    int n_offers = 1;
    memcpy(use.dims, shape->dims, sizeof use.dims);
    *out_encoding = PLAIT_ENCODING_FILE;
    *out_bytes = (uint64_t)plait_operand_span_bytes(shape);
    plait_status status = b->v->encodings(b->device, &use, &offer, &n_offers);
    if (status == PLAIT_UNSUPPORTED || (status == PLAIT_OK && n_offers == 0)) return PLAIT_OK;
    PLAIT_TRY(status);
    *out_encoding = offer.encoding;
    *out_bytes = offer.size_bytes;
    return PLAIT_OK;
}

/* w [k, m] times x [k, columns]. *out_supported false: nothing was built. */
static plait_status build_product(bench *b, plait_dtype dtype, int64_t k, int64_t m, int64_t columns,
                                  bool *out_supported) {
    plait_operand w = dense(dtype, k, m, 1, 1), x = dense(PLAIT_F32, k, columns, 1, 1);
    uint64_t weight_bytes;
    plait_segment_operand inputs[2], y;
    clear(b);
    b->bounds[0] = columns;
    PLAIT_TRY(weight_form(b, &w, &inputs[0].encoding, &weight_bytes));
    plait_encoding encoding = inputs[0].encoding;
    inputs[0] = (plait_segment_operand){.shape = w,
                                        .outer = {.dim = -1},
                                        .value = b->n_values,
                                        .storage = b->n_values,
                                        .slot = SLOT_WEIGHT,
                                        .encoding = encoding,
                                        .is_weight = true};
    b->n_values++;
    inputs[1] = new_value(b, &x, 1);
    PLAIT_TRY(add_node(b, PLAIT_OP_matmul, inputs, 2, 1, &y));
    *out_supported = supported(b);
    return *out_supported ? compile(b, weight_bytes) : PLAIT_OK;
}

static uint64_t per_second(double amount, uint64_t ns) {
    return (uint64_t)(amount * 1e9 / (double)ns);
}

/* What a buffer of the bench may take: a share of the device's memory, so that measuring never fills it. An eighth of
 * what is free now. */
static uint64_t at_most(const bench *b, uint64_t wanted) {
    uint64_t most = b->info.memory_free_bytes / 8;
    if (b->info.max_buffer_bytes < most) most = b->info.max_buffer_bytes;
    return wanted < most ? wanted : most;
}

/* Many columns: arithmetic decides. A device of little memory gets a smaller product, or none. Products must not be too
 * small: below 64 rows a device would be measured by its overhead. */
static plait_status measure_product(bench *b, plait_dtype dtype, uint64_t *out) {
    int64_t k = 1024, m = 1024, columns = COLUMNS;
    bool can;
    uint64_t ns;
    while (m > 32 && (uint64_t)(4 * k * m + 4 * (k + m) * columns) > at_most(b, UINT64_MAX))
        m /= 2, columns /= 2;
    if (m <= 32) return PLAIT_OK;
    PLAIT_TRY(build_product(b, dtype, k, m, columns, &can));
    if (!can) return PLAIT_OK;
    PLAIT_TRY(time_growing(b, &columns, &ns));
    *out = per_second(2.0 * (double)k * (double)m * (double)columns, ns);
    return PLAIT_OK;
}

/* One column: the bytes of the weight decide. A small weight first tells how long a large one would take. A first round
 * with a sixteenth of the bytes; where that took long already, it counts. */
static plait_status measure_weights(bench *b, plait_dtype dtype, uint64_t *out) {
    enum { K = 4096 };
    int64_t row = plait_dtype_row_bytes(dtype, K);
    uint64_t bytes = at_most(b, STREAM_BYTES / 16), ns;
    for (int round = 0; round < 2; round++) {
        int64_t m = (int64_t)bytes / row / 64 * 64;
        bool can;
        if (m == 0) return PLAIT_OK;
        PLAIT_TRY(build_product(b, dtype, K, m, 1, &can));
        if (!can) return PLAIT_OK;
        b->dims[0] = 1;
        plait_command launch = launch_of(b);
        PLAIT_TRY(time_commands(b, &launch, 1, &ns));
        *out = per_second((double)(m * row), ns);
        if (ns > 2 * ENOUGH_NS) return PLAIT_OK;
        bytes = at_most(b, STREAM_BYTES);
    }
    return PLAIT_OK;
}

/* ---- everything else ---- */

/* a + b over rows of float32. Two reads and a write of four bytes an element, more than caches hold. */
static plait_status measure_stream(bench *b, uint64_t *out) {
    enum { WIDTH = 4096 };
    plait_segment_operand inputs[2], y;
    int64_t rows = (int64_t)at_most(b, STREAM_BYTES) / (3 * 4 * WIDTH);
    uint64_t ns;
    clear(b);
    b->bounds[0] = plait_max_i64(rows, 1);
    plait_operand shape = dense(PLAIT_F32, WIDTH, b->bounds[0], 1, 1);
    inputs[0] = new_value(b, &shape, 1);
    inputs[1] = new_value(b, &shape, 1);
    PLAIT_TRY(add_node(b, PLAIT_OP_add, inputs, 2, 1, &y));
    if (!supported(b)) return PLAIT_OK;
    PLAIT_TRY(compile(b, 0));
    PLAIT_TRY(time_growing(b, &rows, &ns));
    *out = per_second(3.0 * 4 * WIDTH * (double)rows, ns);
    return PLAIT_OK;
}

/* The run-time operands of attention: every token at the last position, the pages in order. */
static plait_status write_positions(bench *b, const plait_segment_operand *inputs, int32_t last) {
    enum { MAX_IDS = 256 };
    int32_t positions[MAX_IDS], pages[MAX_IDS];
    int64_t n_tokens = inputs[PLAIT_ATTENTION_POSITIONS].shape.dims[0];
    int64_t n_pages = inputs[PLAIT_ATTENTION_PAGES].shape.dims[0];
    for (int i = 0; i < MAX_IDS; i++) positions[i] = last, pages[i] = i;
    plait_buffer *buffer = b->slots[SLOT_VALUES];
    plait_region where[2] = {
        {buffer, inputs[PLAIT_ATTENTION_POSITIONS].offset, (uint64_t)n_tokens * 4},
        {buffer, inputs[PLAIT_ATTENTION_PAGES].offset, (uint64_t)n_pages * 4},
    };
    plait_command writes[2] = {
        {.kind = PLAIT_COMMAND_WRITE, .transfer = {.region = where[0], .host = positions}},
        {.kind = PLAIT_COMMAND_WRITE, .transfer = {.region = where[1], .host = pages}},
    };
    return run_commands(b, writes, 2);
}

/* One sequence of 1024 keys, heads as models have them. Work is counted by the op itself for all tokens at the bound;
 * each token costs alike, as all stand at the last position. */
static plait_status measure_attention(bench *b, uint64_t *out) {
    enum { DIM = 64, HEADS = 8, KV_HEADS = 2, PAGE_LEN = 64, PAGES = 16, TOKENS = 64 };
    plait_segment_operand inputs[6], y;
    plait_operand cache = dense(PLAIT_F16, DIM, PAGE_LEN, KV_HEADS, PAGES);
    plait_operand q = dense(PLAIT_F32, DIM, HEADS, TOKENS, 1), per_token = dense(PLAIT_I32, TOKENS, 1, 1, 1),
                  pages = dense(PLAIT_I32, PAGES, 1, 1, 1);
    int64_t tokens;
    uint64_t ns;
    clear(b);
    b->bounds[0] = TOKENS;
    inputs[PLAIT_ATTENTION_Q] = new_value(b, &q, 2);
    inputs[PLAIT_ATTENTION_K] = new_value(b, &cache, -1);
    inputs[PLAIT_ATTENTION_V] = new_value(b, &cache, -1);
    inputs[PLAIT_ATTENTION_POSITIONS] = new_value(b, &per_token, 0);
    inputs[PLAIT_ATTENTION_SEQUENCES] = new_value(b, &per_token, 0);
    inputs[PLAIT_ATTENTION_PAGES] = new_value(b, &pages, -1);
    PLAIT_TRY(add_node(b, PLAIT_OP_attention, inputs, 6, 2, &y));
    if (!supported(b) || b->value_bytes > at_most(b, UINT64_MAX)) return PLAIT_OK;
    /* All tokens at the bound; time_growing() may use fewer, each of which does the same work. */
    double flop = 0;
    plait_op_use use = {.op = b->nodes[0].op, .n_inputs = 6, .n_outputs = 1, .present = b->nodes[0].present};
    memcpy(use.attrs, b->nodes[0].attrs, sizeof use.attrs);
    for (int i = 0; i < 6; i++) use.inputs[i] = inputs[i].shape;
    use.outputs[0] = y.shape;
    flop = plait_op_flop(&use) / TOKENS;
    PLAIT_TRY(compile(b, 0));
    PLAIT_TRY(write_positions(b, inputs, PAGE_LEN * PAGES - 1));
    PLAIT_TRY(time_growing(b, &tokens, &ns));
    *out = per_second(flop * (double)tokens, ns);
    return PLAIT_OK;
}

/* A chain of n small nodes. Each node adds the first operand to the result of the one before, so no two can run at
 * once. 32 launches in one submission: what is measured is a launch among others, not the waking of a queue. */
static plait_status time_chain(bench *b, int n_nodes, bool *out_supported, uint64_t *out_ns) {
    enum { WIDTH = 64, LAUNCHES = 32 };
    plait_command launches[LAUNCHES];
    plait_operand shape = dense(PLAIT_F32, WIDTH, 1, 1, 1);
    plait_segment_operand inputs[2];
    clear(b);
    b->bounds[0] = b->dims[0] = 1;
    inputs[0] = inputs[1] = new_value(b, &shape, 1);
    /* inputs[0] becomes the result, so the next node waits for this one. */
    for (int i = 0; i < n_nodes; i++) PLAIT_TRY(add_node(b, PLAIT_OP_add, inputs, 2, 1, &inputs[0]));
    *out_supported = supported(b);
    if (!*out_supported) return PLAIT_OK;
    PLAIT_TRY(compile(b, 0));
    for (int i = 0; i < LAUNCHES; i++) launches[i] = launch_of(b);
    PLAIT_TRY(time_commands(b, launches, LAUNCHES, out_ns));
    *out_ns /= LAUNCHES;
    return PLAIT_OK;
}

/* A launch is what a chain of one node costs beyond what its node does. Negative differences, from noise, count as 0.
 */
static plait_status measure_overhead(bench *b, uint64_t *out_launch_ns, uint64_t *out_node_ns) {
    uint64_t one = 0, many = 0;
    bool can;
    PLAIT_TRY(time_chain(b, 1, &can, &one));
    if (can) PLAIT_TRY(time_chain(b, MAX_NODES, &can, &many));
    if (!can) return PLAIT_OK;
    *out_node_ns = many > one ? (many - one) / (MAX_NODES - 1) : 0;
    *out_launch_ns = one > *out_node_ns ? one - *out_node_ns : 0;
    return PLAIT_OK;
}

/* ---- links ---- */

/* Rate and latency of one command that moves bytes; `size` is what its `size_bytes` points to. The latency is that of a
 * few bytes; from a longer move it is taken off before the rate is computed. Fast links get the large move, slow ones
 * are told by the middle one already. */
static plait_status time_moves(bench *b, const plait_command *move, uint64_t *size, uint64_t most,
                               uint64_t *out_bytes_per_s, uint64_t *out_latency_ns) {
    enum { SMALL = 256, MIDDLE = 256 << 10 };
    uint64_t ns;
    *size = SMALL;
    PLAIT_TRY(time_commands(b, move, 1, out_latency_ns));
    *size = most < MIDDLE ? most : MIDDLE;
    PLAIT_TRY(time_commands(b, move, 1, &ns));
    if (ns < ENOUGH_NS) {
        *size = most;
        PLAIT_TRY(time_commands(b, move, 1, &ns));
    }
    /* A latency that was measured in a bad moment must not make the rate without bounds. */
    uint64_t moving_ns = *out_latency_ns < ns / 2 ? ns - *out_latency_ns : ns - ns / 2;
    *out_bytes_per_s = per_second((double)*size, moving_ns);
    return PLAIT_OK;
}

/* Writes, reads, and copies inside the device, which stand for copies to peers. A copy inside the device is the nearest
 * thing to a peer that can be measured alone. */
static plait_status time_links(bench *b, void *host, uint64_t most, plait_device_figures *f) {
    uint64_t size = 0;
    plait_region low = {b->slots[SLOT_VALUES], 0, most}, high = {b->slots[SLOT_VALUES], most, most};
    plait_command write = {.kind = PLAIT_COMMAND_WRITE,
                           .transfer = {.region = low, .host = host, .size_bytes = &size}};
    plait_command read = {.kind = PLAIT_COMMAND_READ,
                          .transfer = {.region = low, .host = host, .size_bytes = &size}};
    plait_command copy = {.kind = PLAIT_COMMAND_COPY,
                          .copy = {.source = low, .target = high, .size_bytes = &size}};
    PLAIT_TRY(time_moves(b, &write, &size, most, &f->write_bytes_per_s, &f->write_ns));
    PLAIT_TRY(time_moves(b, &read, &size, most, &f->read_bytes_per_s, &f->read_ns));
    return time_moves(b, &copy, &size, most, &f->peer_bytes_per_s, &f->peer_ns);
}

/* Host memory as a run's staging has it where nothing is pinned. What moves is at most half of the buffer, as copies
 * need both halves. */
static plait_status measure_links(bench *b, plait_device_figures *f) {
    uint64_t most = at_most(b, 2 * LINK_BYTES) / 2 & ~(uint64_t)4095;
    clear(b);
    if (most < 4096) return PLAIT_OK; /* a device without memory to speak of */
    void *host = plait_alloc_aligned(64, (size_t)most);
    if (!host) return plait_error_memory("measuring links", most);
    plait_status status = make_slot(b, SLOT_VALUES, 2 * most, PLAIT_BUFFER_TEMPORARY);
    if (status == PLAIT_OK) status = time_links(b, host, most, f);
    free(host);
    return status;
}

/* ---- all of it ---- */

/* Integer products with a quantised weight, float ones with f16: what models have. A device that takes no quantised
 * weights reads f16. */
static plait_status measure_all(bench *b, plait_device_figures *f) {
    PLAIT_TRY(measure_product(b, PLAIT_Q4_0, &f->integer_flop_per_s));
    PLAIT_TRY(measure_product(b, PLAIT_F16, &f->float_flop_per_s));
    PLAIT_TRY(measure_weights(b, PLAIT_Q4_0, &f->weight_bytes_per_s));
    if (!f->weight_bytes_per_s) PLAIT_TRY(measure_weights(b, PLAIT_F16, &f->weight_bytes_per_s));
    PLAIT_TRY(measure_attention(b, &f->attention_flop_per_s));
    PLAIT_TRY(measure_stream(b, &f->bytes_per_s));
    PLAIT_TRY(measure_overhead(b, &f->launch_ns, &f->node_ns));
    return measure_links(b, f);
}

/* Figure by figure: rounds are disturbed at different moments, and each figure's best is its own. */
void plait_cost_keep_best(plait_device_figures *best, const plait_device_figures *f) {
    uint64_t *rates[] = {&best->integer_flop_per_s, &best->float_flop_per_s, &best->attention_flop_per_s,
                         &best->weight_bytes_per_s, &best->bytes_per_s,      &best->write_bytes_per_s,
                         &best->read_bytes_per_s,   &best->peer_bytes_per_s};
    const uint64_t other_rates[] = {f->integer_flop_per_s, f->float_flop_per_s, f->attention_flop_per_s,
                                    f->weight_bytes_per_s, f->bytes_per_s,      f->write_bytes_per_s,
                                    f->read_bytes_per_s,   f->peer_bytes_per_s};
    uint64_t *times[] = {&best->launch_ns, &best->node_ns, &best->write_ns, &best->read_ns, &best->peer_ns};
    const uint64_t other_times[] = {f->launch_ns, f->node_ns, f->write_ns, f->read_ns, f->peer_ns};
    for (size_t i = 0; i < PLAIT_COUNT_OF(rates); i++)
        if (other_rates[i] > *rates[i]) *rates[i] = other_rates[i];
    for (size_t i = 0; i < PLAIT_COUNT_OF(times); i++)
        if (other_times[i] < *times[i]) *times[i] = other_times[i];
}

/* Through all figures, three times, rather than each figure three times: a disturbance that lasts a tenth of a second
 * then spoils one round only. */
static plait_status measure_rounds(bench *b, plait_device_figures *out) {
    for (int round = 0; round < ROUNDS; round++) {
        plait_device_figures f = {.struct_bytes = sizeof f};
        PLAIT_TRY(measure_all(b, &f));
        if (round == 0)
            *out = f;
        else
            plait_cost_keep_best(out, &f);
    }
    return PLAIT_OK;
}

/* Whether the device's threads and what others worked were more than the processors. Devices without threads count as
 * one. */
bool plait_cost_was_disturbed(int n_processors, int n_threads, uint64_t others_ns, uint64_t wall_ns) {
    /* A quarter of a processor is what a desktop takes that nobody uses. */
    double others = (double)others_ns / (double)(wall_ns ? wall_ns : 1) - 0.25;
    return others > 0 && others + (n_threads > 0 ? n_threads : 1) > n_processors;
}

/* Measures in between two looks at what the machine works. Where the system does not say what it works, nothing was
 * disturbed as far as anybody knows. */
static plait_status measure_watched(bench *b, plait_device_figures *out, bool *out_disturbed) {
    uint64_t all[2], own[2], begin = plait_time_ns();
    int n = 0;
    bool told = plait_os_work(&all[0], &own[0], &n);
    PLAIT_TRY(measure_rounds(b, out));
    uint64_t wall = plait_time_ns() - begin;
    told = told && plait_os_work(&all[1], &own[1], &n);
    uint64_t worked = told ? all[1] - all[0] : 0, ours = told ? own[1] - own[0] : 0;
    *out_disturbed = worked > ours && plait_cost_was_disturbed(n, b->info.n_threads, worked - ours, wall);
    return PLAIT_OK;
}

/* On the heap for its size. *out is set only when everything was measured. */
plait_status plait_cost_measure(plait_device *device, plait_device_figures *out, bool *out_disturbed) {
    plait_device_figures figures = {.struct_bytes = sizeof figures};
    bench *b = plait_alloc_array(1, sizeof *b);
    if (!b) return plait_error_memory("measuring", sizeof *b);
    b->device = device;
    b->v = device->vtable;
    plait_status status = b->v->describe(device, &b->info);
    if (status == PLAIT_OK) status = b->v->queue_create(device, 0, &b->queue);
    if (status == PLAIT_OK) status = measure_watched(b, &figures, out_disturbed);
    clear(b);
    if (b->queue) b->v->queue_destroy(b->queue);
    free(b);
    if (status == PLAIT_OK) *out = figures;
    return status;
}
