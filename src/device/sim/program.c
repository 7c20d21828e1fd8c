/* Programs: what is lacking is refused by `supports`; everything else is the inner device's program, with a list of the
 * bytes that a launch of it touches and of what it costs. Not here: when a launch ends (trouble.c), its slots
 * (queue.c).
 *
 * Invariant: `supports` looks at nothing that prepare or compile see otherwise, so what it accepts they accept. */
#include "device/sim/sim.h"

#include "base/alloc.h"
#include "base/size.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- supports ---- */

/* Dims of 1 behind the last that is not do not count. */
static int rank_of(const plait_operand *operand) {
    int rank = 1;
    for (int d = 1; d < PLAIT_MAX_RANK; d++)
        if (operand->dims[d] != 1) rank = d + 1;
    return rank;
}

/* What stands against an operand; *n is what follows in the message, 0 for nothing. NULL: it is welcome. With
 * copies_strides the op `copy` is the one that takes any strides: so a planner finds a way by copying operands dense
 * first. */
static const char *objection(const plait_sim_options *options, const plait_op_use *use,
                             const plait_operand *operand, uint64_t *n) {
    *n = 0;
    if (options->lacks_type[operand->dtype]) return plait_dtype_name(operand->dtype);
    bool copies = options->copies_strides && use->op->id == PLAIT_OP_copy;
    if (options->contiguous && !copies && !plait_operand_is_dense(operand))
        return "strides that are not dense";
    *n = options->max_rank;
    if (options->max_rank && (uint64_t)rank_of(operand) > options->max_rank) return "rank, beyond";
    *n = options->max_dim;
    for (int d = 0; options->max_dim && d < PLAIT_MAX_RANK; d++)
        if (operand->dims[d] > 0 && (uint64_t)operand->dims[d] > options->max_dim) return "a dim, beyond";
    return NULL;
}

/* The sentence that supports gives: what the operand is, and beyond which limit. */
static bool welcome(const plait_sim_device *device, const plait_op_use *use, const plait_operand *operand,
                    const char *side, int i, char *reason, size_t reason_bytes) {
    uint64_t n;
    const char *why = objection(&device->options, use, operand, &n);
    if (!why) return true;
    char limit[32] = "";
    if (n) snprintf(limit, sizeof limit, " %llu", (unsigned long long)n);
    snprintf(reason, reason_bytes, "%s does not take %s%s (%s %d of %s)", device->base.name, why, limit, side,
             i, use->op->name);
    return false;
}

/* Own objections come first: what this device lacks, the device inside need not be asked about. */
bool plait_sim_supports(plait_device *base, const plait_op_use *use, const plait_encoding *encodings,
                        char *reason, size_t reason_bytes) {
    const plait_sim_device *device = (const plait_sim_device *)base;
    if (device->options.lacks_op[use->op->id]) {
        snprintf(reason, reason_bytes, "%s lacks %s", base->name, use->op->name);
        return false;
    }
    for (int i = 0; i < use->n_inputs; i++)
        if (plait_op_has(use, i) && !welcome(device, use, &use->inputs[i], "input", i, reason, reason_bytes))
            return false;
    for (int o = 0; o < use->n_outputs; o++)
        if (!welcome(device, use, &use->outputs[o], "output", o, reason, reason_bytes)) return false;
    return device->inner->vtable->supports(device->inner, use, encodings, reason, reason_bytes);
}

/* ---- prepare ---- */

/* Groups, and what is elided and shared, are the inner device's choice: this device runs its programs as they are. */
plait_status plait_sim_prepare(plait_device *base, const plait_segment *segment, plait_prepared *out) {
    plait_sim_device *device = (plait_sim_device *)base;
    PLAIT_TRY(plait_sim_alive(device));
    PLAIT_TRY(plait_sim_count(device, PLAIT_SIM_FAIL_PREPARE));
    return plait_error_context(device->inner->vtable->prepare(device->inner, segment, out), "%s", base->name);
}

void plait_sim_prepared_destroy(plait_device *base, plait_prepared *prepared) {
    plait_device *inner = ((plait_sim_device *)base)->inner;
    inner->vtable->prepared_destroy(inner, prepared);
}

/* ---- what a launch touches and costs ---- */

/* Bytes [offset, +size) of a slot. Room for all of them was made before. */
static void add_range(plait_program *program, uint32_t slot, uint64_t offset, uint64_t size_bytes,
                      bool written) {
    uint64_t end;
    if (slot >= (uint32_t)program->n_slots || !size_bytes) return; /* elided values have no slot */
    if (!plait_add_u64(offset, size_bytes, &end)) end = UINT64_MAX;
    program->ranges[program->n_ranges++] = (plait_sim_range){slot, written, offset, end};
}

static void add_operand(plait_program *program, const plait_segment_operand *operand, bool written) {
    int64_t span = plait_operand_span_bytes(&operand->shape);
    /* How long a packed weight is, only its device knows. */
    bool known = operand->encoding == PLAIT_ENCODING_FILE && span >= 0;
    add_range(program, operand->slot, operand->offset, known ? (uint64_t)span : UINT64_MAX, written);
}

/* At the bounds, without data. */
static plait_op_use use_of(const plait_segment_node *node) {
    plait_op_use use = {
        .op = node->op, .n_inputs = node->n_inputs, .n_outputs = node->n_outputs, .present = node->present};
    for (int i = 0; i < node->n_inputs; i++) use.inputs[i] = node->inputs[i].shape;
    for (int o = 0; o < node->n_outputs; o++) use.outputs[o] = node->outputs[o].shape;
    memcpy(use.attrs, node->attrs, sizeof use.attrs);
    return use;
}

/* A node's cost is taken at the bounds, and later scaled by how much of its outermost dim there is: an approximation
 * where cost is not linear in that dim. */
static void add_node(plait_program *program, const plait_segment_node *node) {
    plait_op_use use = use_of(node);
    const plait_segment_operand *y = &node->outputs[0];
    for (int i = 0; i < node->n_inputs; i++)
        if (node->present >> i & 1u) add_operand(program, &node->inputs[i], false);
    for (int o = 0; o < node->n_outputs; o++) add_operand(program, &node->outputs[o], true);
    program->costs[program->n_costs++] =
        (plait_sim_cost){plait_op_flop(&use), plait_op_bytes(&use), y->outer,
                         y->outer.dim < 0 ? 1 : y->shape.dims[y->outer.axis]};
}

/* Scratch of every group counts as written. Of the first group it is dead before the launch, of the last one behind it;
 * in between nothing is known of when groups run. */
static void add_scratch(plait_program *program, const plait_prepared *prepared) {
    for (int g = 0; g < prepared->n_groups; g++) {
        const plait_group *group = &prepared->groups[g];
        size_t before = program->n_ranges;
        add_range(program, group->scratch_slot, group->scratch_offset, group->scratch_bytes, true);
        if (program->n_ranges == before) continue;
        program->n_scratch++;
        if (g == 0) program->scratch[0] = program->ranges[before];
        if (g + 1 == prepared->n_groups) program->scratch[1] = program->ranges[before];
    }
}

/* An update changes operands; groups and their scratch stay where they are. */
static void keep_scratch(plait_program *program, const plait_program *before) {
    const plait_sim_range *from = before->ranges + before->n_ranges - before->n_scratch;
    for (size_t i = 0; i < before->n_scratch; i++) program->ranges[program->n_ranges++] = from[i];
    program->n_scratch = before->n_scratch;
    memcpy(program->scratch, before->scratch, sizeof program->scratch);
}

/* Scratch is that of the prepared groups, or, without them, of the program `before` that is updated. The arrays have room
 * for every operand and every group's scratch; a program of no nodes has none. */
static plait_status describe(plait_program *program, const plait_segment *segment,
                             const plait_prepared *prepared, const plait_program *before) {
    size_t n_nodes = (size_t)segment->n_nodes;
    size_t n_groups = prepared ? (size_t)prepared->n_groups : before->n_scratch;
    size_t n_ranges = n_nodes * (PLAIT_MAX_INPUTS + PLAIT_MAX_OUTPUTS) + n_groups;
    program->n_slots = segment->n_slots;
    program->n_dims = segment->n_dims;
    program->ranges = plait_alloc_array(n_ranges, sizeof *program->ranges);
    program->costs = plait_alloc_array(n_nodes, sizeof *program->costs);
    if (!program->ranges || !program->costs)
        return plait_error_memory("program", n_ranges * sizeof *program->ranges);
    for (int i = 0; i < segment->n_nodes; i++) add_node(program, &segment->nodes[i]);
    if (prepared)
        add_scratch(program, prepared);
    else
        keep_scratch(program, before);
    return PLAIT_OK;
}

/* ---- compile ---- */

/* The failure that was asked for comes before anything is made. What describe made when the inner device refuses is
 * freed by the caller. */
static plait_status compile(plait_sim_device *device, plait_program *program, const plait_segment *segment,
                            const plait_prepared *prepared) {
    PLAIT_TRY(plait_sim_alive(device));
    PLAIT_TRY(plait_sim_count(device, PLAIT_SIM_FAIL_COMPILE));
    PLAIT_TRY(describe(program, segment, prepared, NULL));
    return plait_error_context(
        device->inner->vtable->compile(device->inner, segment, prepared, &program->inner), "%s",
        device->base.name);
}

plait_status plait_sim_compile(plait_device *base, const plait_segment *segment,
                               const plait_prepared *prepared, plait_program **out) {
    plait_program *program = plait_alloc_array(1, sizeof *program);
    if (!program) return plait_error_memory("program", sizeof *program);
    plait_status status = compile((plait_sim_device *)base, program, segment, prepared);
    if (status != PLAIT_OK) {
        plait_sim_program_destroy(base, program);
        return status;
    }
    *out = program;
    return PLAIT_OK;
}

void plait_sim_program_destroy(plait_device *base, plait_program *program) {
    plait_device *inner = ((plait_sim_device *)base)->inner;
    if (!program) return;
    if (program->inner) inner->vtable->program_destroy(inner, program->inner);
    free(program->ranges);
    free(program->costs);
    free(program->name);
    free(program);
}

/* Ranges and costs are made anew from the changed segment, and replace the old ones when the inner device has taken the
 * change. */
plait_status plait_sim_program_update(plait_device *base, plait_program *program,
                                      const plait_segment *segment, const int *nodes, int n_nodes) {
    plait_sim_device *device = (plait_sim_device *)base;
    plait_program changed = {0};
    PLAIT_TRY(plait_sim_alive(device));
    PLAIT_TRY(plait_sim_offers(device, PLAIT_SIM_NO_UPDATE));
    plait_status status = describe(&changed, segment, NULL, program);
    if (status == PLAIT_OK)
        status =
            device->inner->vtable->program_update(device->inner, program->inner, segment, nodes, n_nodes);
    if (status != PLAIT_OK) {
        free(changed.ranges);
        free(changed.costs);
        return plait_error_context(status, "%s", base->name);
    }
    free(program->ranges);
    free(program->costs);
    changed.inner = program->inner;
    changed.name = program->name;
    *program = changed;
    return PLAIT_OK;
}

/* ---- packed weights ---- */

plait_status plait_sim_encodings(plait_device *base, const plait_weight_use *use,
                                 plait_encoding_offer *offers, int *n_offers) {
    plait_sim_device *device = (plait_sim_device *)base;
    PLAIT_TRY(plait_sim_offers(device, PLAIT_SIM_NO_PACKING));
    return device->inner->vtable->encodings(device->inner, use, offers, n_offers);
}

/* The same region of the inner device's buffer. For pack and unpack, which are the host's calls but touch device
 * memory, with the device's own help. */
static plait_status inner_region(plait_sim_device *device, plait_region *region) {
    PLAIT_TRY(plait_sim_alive(device));
    PLAIT_TRY(plait_sim_offers(device, PLAIT_SIM_NO_PACKING));
    if (!region->buffer || region->buffer->device != &device->base)
        return plait_error(PLAIT_INVALID_ARGUMENT, "%s: packing in a buffer that is not its own",
                           device->base.name);
    region->buffer = ((plait_sim_buffer *)region->buffer)->inner;
    return PLAIT_OK;
}

/* The link is claimed before the work begins: moving and packing overlap, and the call lasts as long as the longer of
 * both. */
plait_status plait_sim_pack(plait_device *base, const plait_operand *source, plait_encoding encoding,
                            int64_t row_begin, int64_t row_end, plait_region target) {
    plait_sim_device *device = (plait_sim_device *)base;
    PLAIT_TRY(inner_region(device, &target));
    uint64_t arrival = plait_sim_link_claim(device, 0, target.size_bytes);
    plait_status status =
        device->inner->vtable->pack(device->inner, source, encoding, row_begin, row_end, target);
    plait_sim_sleep_until(arrival);
    return plait_error_context(status, "%s", base->name);
}

/* As plait_sim_pack, the other way. */
plait_status plait_sim_unpack(plait_device *base, const plait_operand *shape, plait_encoding encoding,
                              int64_t row_begin, int64_t row_end, plait_region source, void *target) {
    plait_sim_device *device = (plait_sim_device *)base;
    PLAIT_TRY(inner_region(device, &source));
    uint64_t arrival = plait_sim_link_claim(device, 1, source.size_bytes);
    plait_status status =
        device->inner->vtable->unpack(device->inner, shape, encoding, row_begin, row_end, source, target);
    plait_sim_sleep_until(arrival);
    return plait_error_context(status, "%s", base->name);
}
