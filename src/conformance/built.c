/* From nodes of the bench to programs, as a planner takes them. Not here: the nodes' data (work.c), what results must
 * be (case.c, segments.c). Invariant: what `prepare` decides is checked before anything is compiled. */
#include "conformance/built.h"

#include "base/alloc.h"
#include "base/size.h"
#include "conformance/bench.h"
#include "conformance/kit.h"

#include <stdlib.h>
#include <string.h>

/* In the reverse order of making; a build that never began has no bench. */
void plait_conf_built_deinit(plait_conf_built *b) {
    if (!b->w) return;
    const plait_device_vtable *v = b->w->c->v;
    if (b->program) v->program_destroy(b->w->c->device, b->program);
    if (b->is_prepared) v->prepared_destroy(b->w->c->device, &b->prepared);
    free(b->nodes);
    free(b->operands);
    free(b->offsets);
    *b = (plait_conf_built){0};
}

/* ---- what prepare answered ---- */

/* Linear, as everything here: a segment has few values. */
static bool is_elided(const plait_conf_built *b, uint32_t value) {
    for (int e = 0; e < b->prepared.n_elided; e++)
        if (b->prepared.elided[e] == value) return true;
    return false;
}

/* By value, since views of one value are one to a planner. */
static bool touches(const plait_segment_node *node, uint32_t value) {
    for (int i = 0; i < node->n_inputs; i++)
        if ((node->present >> i & 1u) && node->inputs[i].value == value) return true;
    for (int o = 0; o < node->n_outputs; o++)
        if (node->outputs[o].value == value) return true;
    return false;
}

/* By storage and view, which is what tells before addresses are known. Packed operands are taken as long as in file
 * form; only weights are packed, and nothing writes those. Half-open intervals of the storage; an operand without
 * elements spans nothing and overlaps nothing. */
static bool overlap(const plait_segment_operand *a, const plait_segment_operand *b) {
    uint64_t a_end = a->view_offset + (uint64_t)plait_max_i64(plait_operand_span_bytes(&a->shape), 0);
    uint64_t b_end = b->view_offset + (uint64_t)plait_max_i64(plait_operand_span_bytes(&b->shape), 0);
    return a->storage == b->storage && a->view_offset < b_end && b->view_offset < a_end;
}

/* True when `writer` writes bytes that `other` reads or writes. */
static bool disturbs(const plait_segment_node *writer, const plait_segment_node *other) {
    for (int o = 0; o < writer->n_outputs; o++) {
        for (int i = 0; i < other->n_inputs; i++)
            if ((other->present >> i & 1u) && overlap(&writer->outputs[o], &other->inputs[i])) return true;
        for (int k = 0; k < other->n_outputs; k++)
            if (overlap(&writer->outputs[o], &other->outputs[k])) return true;
    }
    return false;
}

/* Groups are intervals of the order, not of the segment: `first` counts places. */
static plait_status check_groups(const plait_conf_built *b) {
    int covered = 0;
    for (int g = 0; g < b->prepared.n_groups; g++) {
        const plait_group *group = &b->prepared.groups[g];
        PLAIT_CONF_EXPECT(group->first == covered && group->n > 0,
                          "prepare: group %d begins at %d with %d nodes, expected at %d", g, group->first,
                          group->n, covered);
        PLAIT_CONF_EXPECT(plait_is_power_of_two(group->scratch_alignment),
                          "prepare: group %d: alignment of scratch is %llu, expected a power of two", g,
                          (unsigned long long)group->scratch_alignment);
        covered += group->n;
    }
    PLAIT_CONF_EXPECT(covered == b->segment.n_nodes, "prepare: groups hold %d of %d nodes", covered,
                      b->segment.n_nodes);
    return PLAIT_OK;
}

/* `place` gets the place of each node in the order. Of two nodes that depend on each other the earlier one of the
 * segment stays the earlier one; all pairs are looked at, 48 nodes at most. */
static plait_status check_order(const plait_conf_built *b, int place[PLAIT_CONF_MAX_NODES]) {
    for (int n = 0; n < b->segment.n_nodes; n++) place[n] = -1;
    for (int k = 0; k < b->segment.n_nodes; k++) {
        int node = b->prepared.order[k];
        PLAIT_CONF_EXPECT(node >= 0 && node < b->segment.n_nodes && place[node] < 0,
                          "prepare: node %d stands at place %d of the order, expected each of %d nodes once",
                          node, k, b->segment.n_nodes);
        place[node] = k;
    }
    for (int i = 0; i < b->segment.n_nodes; i++)
        for (int j = i + 1; j < b->segment.n_nodes; j++) {
            bool depends = disturbs(&b->nodes[i], &b->nodes[j]) || disturbs(&b->nodes[j], &b->nodes[i]);
            PLAIT_CONF_EXPECT(!depends || place[i] < place[j],
                              "prepare: node %d (%s) stands behind node %d (%s), which depends on it", i,
                              b->nodes[i].op->name, j, b->nodes[j].op->name);
        }
    return PLAIT_OK;
}

/* Groups are one behind the other, as check_groups has found. Every place lies in a group, so the walk ends. */
static int group_of(const plait_conf_built *b, int place) {
    int g = 0;
    while (b->prepared.groups[g].first + b->prepared.groups[g].n <= place) g++;
    return g;
}

/* Within this segment's own copies of the nodes, in which mark_needed has said so. */
static bool is_needed(const plait_conf_built *b, uint32_t value) {
    for (int n = 0; n < b->segment.n_nodes; n++)
        for (int o = 0; o < b->nodes[n].n_outputs; o++)
            if (b->nodes[n].outputs[o].value == value && b->nodes[n].outputs[o].needed_after) return true;
    return false;
}

/* Values that never exist are made and used up in one group. Values are made only where the bench says `written`;
 * inputs and weights cannot vanish. */
static plait_status check_elided(const plait_conf_built *b, const int *place) {
    for (int e = 0; e < b->prepared.n_elided; e++) {
        uint32_t value = b->prepared.elided[e];
        int group = -1;
        PLAIT_CONF_EXPECT(value < (uint32_t)b->w->n_values && b->w->values[value].written,
                          "prepare: value %u is left out and is none that the segment makes", value);
        PLAIT_CONF_EXPECT(!is_needed(b, value), "prepare: value %u is needed and left out", value);
        for (int n = 0; n < b->segment.n_nodes; n++) {
            if (!touches(&b->nodes[n], value)) continue;
            int g = group_of(b, place[n]);
            PLAIT_CONF_EXPECT(group < 0 || g == group,
                              "prepare: value %u is left out and used in groups %d and %d", value, group, g);
            group = g;
        }
    }
    return PLAIT_OK;
}

/* Positions of nodes are found on the way, for what follows. Pairs are only checked for being two values: whether
 * sharing is right shows in the bytes. */
plait_status plait_conf_check_prepared(const plait_conf_built *b) {
    int place[PLAIT_CONF_MAX_NODES];
    PLAIT_TRY(check_groups(b));
    PLAIT_TRY(check_order(b, place));
    PLAIT_TRY(check_elided(b, place));
    for (int k = 0; k < b->prepared.n_shared; k++) {
        uint32_t out = b->prepared.shared[k].output, in = b->prepared.shared[k].input;
        PLAIT_CONF_EXPECT(out < (uint32_t)b->w->n_values && in < (uint32_t)b->w->n_values && in != out,
                          "prepare: values %u and %u may share bytes, expected two of %d values", out, in,
                          b->w->n_values);
    }
    return PLAIT_OK;
}

/* ---- what a planner does between prepare and compile ---- */

/* Those that are there, inputs before outputs. */
static void each_operand(plait_conf_built *b,
                         void (*f)(plait_conf_built *b, plait_segment_operand *operand)) {
    for (int n = 0; n < b->segment.n_nodes; n++) {
        plait_segment_node *node = &b->nodes[n];
        for (int i = 0; i < node->n_inputs; i++)
            if (node->present >> i & 1u) f(b, &node->inputs[i]);
        for (int o = 0; o < node->n_outputs; o++) f(b, &node->outputs[o]);
    }
}

/* Elided values have no slot: a device that addresses one reads a slot that does not exist. */
static void set_address(plait_conf_built *b, plait_segment_operand *operand) {
    bool elided = is_elided(b, operand->value);
    operand->slot = elided ? UINT32_MAX : PLAIT_CONF_SLOT_IMAGE;
    operand->offset = elided ? 0 : b->offsets[operand->value] + operand->view_offset;
}

/* First and last group that touches a value. */
static void life_of(const plait_conf_built *b, uint32_t value, int *first, int *last) {
    *first = *last = -1;
    for (int g = 0; g < b->prepared.n_groups; g++)
        for (int k = 0; k < b->prepared.groups[g].n; k++) {
            if (!touches(&b->nodes[b->prepared.order[b->prepared.groups[g].first + k]], value)) continue;
            if (*first < 0) *first = g;
            *last = g;
        }
}

/* Takes up the pairs that a planner would: the input dies where the output is born. A pair is left alone where the
 * input is a weight or needed, lives on behind the output's first group, has another size, or takes part in another
 * pair already. The output gets the input's place for its whole life; the other values keep theirs, so what it writes
 * beyond its own bytes meets a gap. */
static void share(plait_conf_built *b) {
    const plait_conf_value *values = b->w->values;
    for (int k = 0; k < b->prepared.n_shared; k++) {
        uint32_t out = b->prepared.shared[k].output, in = b->prepared.shared[k].input;
        int out_first, out_last, in_first, in_last;
        life_of(b, out, &out_first, &out_last);
        life_of(b, in, &in_first, &in_last);
        bool fine = !values[in].weight && !values[in].needed && in_last == out_first &&
                    values[in].size_bytes == values[out].size_bytes &&
                    b->offsets[out] == values[out].offset && b->offsets[in] == values[in].offset &&
                    !is_elided(b, in) && !is_elided(b, out);
        for (int other = 0; other < b->w->n_values; other++) /* taken over already by another */
            fine = fine && ((uint32_t)other == in || b->offsets[other] != b->offsets[in]);
        if (!fine) continue;
        b->offsets[out] = b->offsets[in];
        b->n_shared++;
    }
}

/* As a planner would, with a gap in front that nobody may write. */
static uint64_t place_behind(uint64_t *total, uint64_t alignment, uint64_t size) {
    uint64_t at = (*total + PLAIT_CONF_GAP_BYTES + alignment - 1) & ~(alignment - 1);
    *total = at + size;
    return at;
}

/* Scratch of the groups, one behind the other; sharing: all at one place, so that what a group leaves behind in its
 * scratch is another one's rubbish. Without sharing each group has its own, and gaps between them that scratch_check
 * looks at. */
static void give_scratch(plait_conf_built *b, plait_conf_way way) {
    uint64_t end = 0;
    for (int g = 0; g < b->prepared.n_groups; g++) {
        plait_group *group = &b->prepared.groups[g];
        uint64_t total = way == PLAIT_CONF_SHARING ? 0 : end;
        group->scratch_slot = PLAIT_CONF_SLOT_SCRATCH;
        group->scratch_offset = 0;
        if (group->scratch_bytes)
            group->scratch_offset = place_behind(&total, group->scratch_alignment, group->scratch_bytes);
        if (total > end) end = total;
    }
    b->scratch_bytes = end + PLAIT_CONF_GAP_BYTES;
}

/* Marks who reads values after the segment: everybody, when nodes run one by one. */
static void mark_needed(plait_conf_built *b, plait_conf_way way) {
    for (int k = 0; k < b->segment.n_nodes; k++)
        for (int o = 0; o < b->nodes[k].n_outputs; o++)
            b->nodes[k].outputs[o].needed_after =
                way == PLAIT_CONF_SINGLE || b->w->values[b->nodes[k].outputs[o].value].needed;
}

/* Nodes with operands of their own. */
static void copy_nodes(plait_conf_built *b, int first, int n) {
    const plait_conf_work *w = b->w;
    memcpy(b->nodes, w->nodes + first, (size_t)n * sizeof *b->nodes);
    memcpy(b->operands, w->operands + (size_t)first * PLAIT_CONF_OPERANDS,
           (size_t)n * PLAIT_CONF_OPERANDS * sizeof *b->operands);
    for (int k = 0; k < n; k++) {
        b->nodes[k].inputs = b->operands + (size_t)k * PLAIT_CONF_OPERANDS;
        b->nodes[k].outputs = b->nodes[k].inputs + PLAIT_MAX_INPUTS;
    }
}

/* The planner's part between prepare and compile: scratch gets its place, values get addresses, slots get their number.
 * A failure leaves what there is in *b, which plait_conf_built_deinit gives back. */
static plait_status build(plait_conf_built *b, int first, int n, plait_conf_way way) {
    plait_conf_work *w = b->w;
    b->nodes = plait_alloc_array((size_t)n, sizeof *b->nodes);
    b->operands = plait_alloc_array((size_t)n * PLAIT_CONF_OPERANDS, sizeof *b->operands);
    b->offsets = plait_alloc_array((size_t)w->n_values, sizeof *b->offsets);
    if (!b->nodes || !b->operands || !b->offsets)
        return plait_error_memory("conformance", (size_t)n * sizeof *b->nodes);
    copy_nodes(b, first, n);
    b->segment = (plait_segment){.struct_bytes = sizeof b->segment,
                                 .n_nodes = n,
                                 .nodes = b->nodes,
                                 .n_dims = w->n_dims,
                                 .bounds = w->bounds};
    /* Before prepare, which decides by it what may be left out. */
    mark_needed(b, way);
    PLAIT_TRY(w->c->v->prepare(w->c->device, &b->segment, &b->prepared));
    b->is_prepared = true;
    PLAIT_TRY(plait_conf_check_prepared(b));
    give_scratch(b, way);
    for (int v = 0; v < w->n_values; v++) b->offsets[v] = w->values[v].offset;
    if (way == PLAIT_CONF_SHARING) share(b);
    each_operand(b, set_address);
    /* 0 until here: while preparing there are no addresses. */
    b->segment.n_slots = PLAIT_CONF_SLOTS;
    return w->c->v->compile(w->c->device, &b->segment, &b->prepared, &b->program);
}

plait_status plait_conf_build(plait_conf_work *w, int first, int n, plait_conf_way way,
                              plait_conf_built *out) {
    *out = (plait_conf_built){.w = w};
    return build(out, first, n, way);
}

/* ---- scratch ---- */

/* The end of scratch is a gap too, so the buffer is never empty. Owned by the caller. */
plait_status plait_conf_scratch_create(const plait_conf_built *b, plait_queue *queue, plait_buffer **out) {
    plait_buffer *buffer = NULL;
    const plait_device_vtable *v = b->w->c->v;
    PLAIT_TRY(v->buffer_create(b->w->c->device, b->scratch_bytes, PLAIT_BUFFER_TEMPORARY, &buffer));
    plait_command fill = plait_conf_fill(buffer, 0, b->scratch_bytes, PLAIT_CONF_NOBODY);
    plait_status status = plait_conf_do(queue, &fill, 1);
    if (status == PLAIT_OK)
        *out = buffer;
    else
        v->buffer_destroy(buffer);
    return status;
}

/* Groups may leave anything in what is theirs; gaps between groups, and in front and behind, must hold what they were
 * filled with. */
plait_status plait_conf_scratch_check(const plait_conf_built *b, plait_queue *queue, plait_buffer *scratch) {
    unsigned char *bytes = plait_alloc_array(b->scratch_bytes, 1);
    if (!bytes) return plait_error_memory("conformance", b->scratch_bytes);
    plait_command read = plait_conf_read(scratch, 0, bytes, b->scratch_bytes);
    plait_status status = plait_conf_do(queue, &read, 1);
    /* What belongs to groups is made equal to what gaps must hold; then all of it must be. */
    for (int g = 0; g < b->prepared.n_groups; g++)
        memset(bytes + b->prepared.groups[g].scratch_offset, PLAIT_CONF_NOBODY,
               b->prepared.groups[g].scratch_bytes);
    if (status == PLAIT_OK)
        status =
            plait_conf_all(bytes, PLAIT_CONF_NOBODY, b->scratch_bytes, "scratch that belongs to no group");
    free(bytes);
    return status;
}

/* ---- running ---- */

/* Borrows everything: program, slots and dims must live until the command is done. */
plait_command plait_conf_launch(const plait_program *program, plait_buffer *const *slots,
                                const int64_t *dims) {
    return (plait_command){.kind = PLAIT_COMMAND_LAUNCH,
                           .launch = {.program = program, .slots = slots, .dims = dims}};
}

/* The scratch's gaps are looked at behind all launches. */
static plait_status launch_with(plait_conf_built *b, plait_buffer *scratch) {
    plait_conf_work *w = b->w;
    plait_buffer *slots[PLAIT_CONF_SLOTS] = {w->image, scratch};
    plait_command launch = plait_conf_launch(b->program, slots, w->dims);
    PLAIT_TRY(plait_conf_do(w->c->queue, &launch, 1));
    if (w->timed) PLAIT_TRY(plait_conf_time_launch(b, scratch));
    return plait_conf_scratch_check(b, w->c->queue, scratch);
}

/* `shown` is where values were in this run, for a shared value is not at its own place. Figures are kept after failures
 * too. */
static plait_status run_nodes(plait_conf_work *w, int first, int n, plait_conf_way way) {
    plait_conf_built b;
    plait_buffer *scratch = NULL;
    plait_status status = plait_conf_build(w, first, n, way, &b);
    if (status == PLAIT_OK) status = plait_conf_scratch_create(&b, w->c->queue, &scratch);
    if (status == PLAIT_OK) status = launch_with(&b, scratch);
    w->n_groups = b.prepared.n_groups;
    w->n_elided = b.prepared.n_elided;
    w->n_shared = b.n_shared;
    if (b.offsets) memcpy(w->shown, b.offsets, (size_t)w->n_values * sizeof *w->shown);
    if (scratch) w->c->v->buffer_destroy(scratch);
    plait_conf_built_deinit(&b);
    return status;
}

/* One by one, each node is a segment of its own, and everything that it makes is needed: nothing can be fused, elided
 * or shared. Every call begins with an upload, so runs do not depend on each other, in-place ops included. */
plait_status plait_conf_run_device(plait_conf_work *w, plait_conf_way way, unsigned char *out) {
    if (!out) return plait_error_memory("conformance", w->device_bytes);
    /* Times of several segments add up. */
    w->launch_ns = w->least_ns = 0;
    PLAIT_TRY(plait_conf_upload(w, w->c->queue, w->image));
    if (way != PLAIT_CONF_SINGLE)
        PLAIT_TRY(run_nodes(w, 0, w->n_nodes, way));
    else
        for (int n = 0; n < w->n_nodes; n++) PLAIT_TRY(run_nodes(w, n, 1, way));
    plait_command read = plait_conf_read(w->image, 0, out, w->device_bytes);
    return plait_conf_do(w->c->queue, &read, 1);
}

/* Asked node by node, as a planner asks: what is accepted then must work in the segment. LACKING for the first node
 * that is refused, with the device's reason. */
plait_status plait_conf_all_supported(plait_conf *c, const plait_conf_work *w) {
    char reason[160] = "";
    for (int n = 0; n < w->n_nodes; n++) {
        const plait_segment_node *node = &w->nodes[n];
        plait_op_use use = {.op = node->op, .n_inputs = node->n_inputs, .n_outputs = node->n_outputs};
        plait_encoding encodings[PLAIT_MAX_INPUTS] = {PLAIT_ENCODING_FILE};
        use.present = node->present;
        memcpy(use.attrs, node->attrs, sizeof use.attrs);
        for (int i = 0; i < node->n_inputs; i++) {
            use.inputs[i] = node->inputs[i].shape;
            encodings[i] = node->inputs[i].encoding;
        }
        for (int o = 0; o < node->n_outputs; o++) use.outputs[o] = node->outputs[o].shape;
        if (!c->v->supports(c->device, &use, encodings, reason, sizeof reason))
            return plait_conf_lack(c, "%s: %s", node->op->name, reason);
    }
    return PLAIT_OK;
}
