/* Questions and programs: the same question has the same answer, what was accepted stays accepted, groups keep every
 * dependency, addresses keep their rules. Not here: what a launch touches (launch.c). Invariant: a program knows every
 * operand of its nodes with its place. */
#include "device/monitor/monitor.h"

#include "base/alloc.h"
#include "base/map.h"
#include "base/size.h"

#include <stdlib.h>
#include <string.h>

/* "monitor!" as a number: what a foreign program begins with is anything, and hardly this. */
#define MAGIC UINT64_C(0x6d6f6e69746f7221)

/* Reads the first bytes of a program that may be another device's: every program is longer than that. */
plait_monitor_program *plait_monitor_program_of(const plait_program *program) {
    plait_monitor_program *ours = (plait_monitor_program *)(uintptr_t)program;
    return ours && ours->magic == MAGIC ? ours : NULL;
}

/* ---- supports ---- */

/* Type, dims and strides: data pointers of a question are NULL, and say nothing. */
static uint64_t hash_operand(const plait_operand *operand, uint64_t seed) {
    seed = plait_hash_bytes(&operand->dtype, sizeof operand->dtype, seed);
    seed = plait_hash_bytes(operand->dims, sizeof operand->dims, seed);
    return plait_hash_bytes(operand->strides, sizeof operand->strides, seed);
}

/* Two questions with one hash of 62 bits would be taken for one. Inputs that are absent do not count, whatever stands
 * in their places; the number of an input does, so that one input left out is not another. */
static uint64_t hash_question(const plait_op_use *use, const plait_encoding *encodings) {
    uint64_t hash = plait_hash_bytes(&use->present, sizeof use->present, (uint64_t)use->op->id + 1);
    for (int i = 0; i < use->n_inputs; i++) {
        if (!plait_op_has(use, i)) continue;
        plait_encoding encoding = encodings ? encodings[i] : PLAIT_ENCODING_FILE;
        hash = hash_operand(&use->inputs[i], hash + (uint64_t)i);
        hash = plait_hash_bytes(&encoding, sizeof encoding, hash);
    }
    for (int o = 0; o < use->n_outputs; o++) hash = hash_operand(&use->outputs[o], hash);
    for (int a = 0; a < use->op->n_attrs; a++)
        hash = plait_hash_bytes(&use->attrs[a], sizeof use->attrs[a], hash);
    return hash | 2; /* never 0, and the lowest bit is free for the answer */
}

enum { FIRST_ANSWERS = 256, MOST_ANSWERS = 1 << 20 };

/* Open addressing with steps of one; a table is never more than half full. The lowest bit is the answer and not part of
 * the question. */
static uint64_t *answer_place(uint64_t *answers, size_t capacity, uint64_t question) {
    size_t at = (size_t)(question >> 2) & (capacity - 1);
    while (answers[at] && answers[at] >> 1 != question >> 1) at = (at + 1) & (capacity - 1);
    return &answers[at];
}

/* Doubles the table; without memory it stays as it is and learns no more. */
static bool more_answers(plait_monitor_device *device) {
    size_t capacity = device->answer_capacity ? 2 * device->answer_capacity : FIRST_ANSWERS;
    uint64_t *answers = capacity <= MOST_ANSWERS ? plait_alloc_array(capacity, sizeof *answers) : NULL;
    if (!answers) return false;
    for (size_t i = 0; i < device->answer_capacity; i++)
        if (device->answers[i]) *answer_place(answers, capacity, device->answers[i]) = device->answers[i];
    free(device->answers);
    device->answers = answers;
    device->answer_capacity = capacity;
    return true;
}

/* Each contradiction is said once: the newer answer is what counts then. */
static void remember_answer(const plait_monitor_call *call, const plait_op_use *use,
                            const plait_encoding *encodings, bool answer) {
    plait_monitor_device *device = call->device;
    uint64_t question = hash_question(use, encodings) & ~UINT64_C(1);
    if (2 * device->n_answers >= device->answer_capacity && !more_answers(device)) return;
    uint64_t *place = answer_place(device->answers, device->answer_capacity, question);
    if (*place == 0) {
        *place = question | (uint64_t)answer;
        device->n_answers++;
    } else if ((*place & 1) != (uint64_t)answer) {
        plait_monitor_report(call, PLAIT_MONITOR_ANSWER_CHANGED, NULL, NULL, "%s is %s, it was %s before",
                             use->op->name, answer ? "accepted" : "refused", answer ? "refused" : "accepted");
        *place = question | (uint64_t)answer;
    }
}

/* The reason is cleared first, so that one that was left from before is not taken for this one's. */
bool plait_monitor_supports(plait_device *device, const plait_op_use *use, const plait_encoding *encodings,
                            char *reason, size_t reason_bytes) {
    plait_monitor_call call = plait_monitor_begin(device, PLAIT_MONITOR_F_supports);
    plait_device *real = call.device->inner;
    if (reason && reason_bytes) reason[0] = '\0';
    bool answer = real->vtable->supports(real, use, encodings, reason, reason_bytes);
    /* A reason is text that ends within its room; one that does not is as good as none. */
    if (!answer && reason && reason_bytes && (!reason[0] || !memchr(reason, '\0', reason_bytes)))
        plait_monitor_report(&call, PLAIT_MONITOR_FAILED_CALL, NULL, NULL, "%s is refused without a reason",
                             use->op->name);
    plait_monitor_lock(call.device->monitor);
    remember_answer(&call, use, encodings, answer);
    plait_monitor_unlock(call.device->monitor);
    return answer;
}

/* ---- refusals ---- */

/* Asked of the inner device, past the table of answers: the question is the monitor's. */
static bool accepts(plait_device *real, const plait_segment_node *node) {
    plait_op_use use = {
        .op = node->op, .n_inputs = node->n_inputs, .n_outputs = node->n_outputs, .present = node->present};
    plait_encoding encodings[PLAIT_MAX_INPUTS] = {0};
    char reason[160];
    /* Inputs that are absent stay zeroed: a question is what is present. */
    memcpy(use.attrs, node->attrs, sizeof use.attrs);
    for (int i = 0; i < node->n_inputs; i++) {
        if (!(node->present >> i & 1u)) continue;
        use.inputs[i] = node->inputs[i].shape;
        encodings[i] = node->inputs[i].encoding;
    }
    for (int o = 0; o < node->n_outputs; o++) use.outputs[o] = node->outputs[o].shape;
    return real->vtable->supports(real, &use, encodings, reason, sizeof reason);
}

/* A refusal of what supports accepts is a fault, and stays a refusal: planners live with it. Running out of something,
 * or being lost, is no answer to the question. */
static plait_status judge_refusal(const plait_monitor_call *call, const plait_segment *segment,
                                  plait_status status) {
    plait_error_record own;
    bool scarce = status == PLAIT_OUT_OF_MEMORY || status == PLAIT_LIMIT || status == PLAIT_DEVICE_LOST;
    if (status == PLAIT_OK || scarce) return status;
    plait_error_save(status, &own);
    for (int n = 0; n < segment->n_nodes; n++)
        if (!accepts(call->device->inner, &segment->nodes[n])) return plait_error_raise(&own);
    plait_monitor_report(call, PLAIT_MONITOR_REFUSED_LATE, NULL, NULL,
                         "supports accepts every node of the segment, and this is %s: %.200s",
                         plait_status_name(status), own.message);
    return plait_error_raise(&own);
}

/* ---- prepare ---- */

/* 0 for what overflows, which planners have refused before. */
static uint64_t span_of(const plait_segment_operand *operand) {
    int64_t bytes = plait_operand_span_bytes(&operand->shape);
    return bytes > 0 ? (uint64_t)bytes : 0;
}

/* By storage and view: before addresses are known that is what tells whether operands share bytes. */
static bool storages_meet(const plait_segment_operand *a, const plait_segment_operand *b) {
    return a->storage == b->storage && a->view_offset < b->view_offset + span_of(b) &&
           b->view_offset < a->view_offset + span_of(a);
}

/* Whether some output of `writer` shares bytes with an operand of `other`. */
static bool writes_into(const plait_segment_node *writer, const plait_segment_node *other) {
    for (int o = 0; o < writer->n_outputs; o++) {
        for (int i = 0; i < other->n_inputs; i++)
            if ((other->present >> i & 1u) && storages_meet(&writer->outputs[o], &other->inputs[i]))
                return true;
        for (int k = 0; k < other->n_outputs; k++)
            if (storages_meet(&writer->outputs[o], &other->outputs[k])) return true;
    }
    return false;
}

/* Every node once, in groups one behind the other. position[n]: where node n stands in `order`, for the checks that
 * follow. */
static plait_status check_groups(const plait_monitor_call *call, const plait_segment *segment,
                                 const plait_prepared *p, int *position) {
    int covered = 0;
    for (int g = 0; g < p->n_groups; g++) {
        const plait_group *group = &p->groups[g];
        if (group->first != covered || group->n < 1 || group->n > segment->n_nodes - covered)
            return plait_monitor_report(call, PLAIT_MONITOR_PREPARED, NULL, NULL,
                                        "group %d has nodes [%d, +%d), expected to begin at %d of %d", g,
                                        group->first, group->n, covered, segment->n_nodes);
        if (!plait_is_power_of_two(group->scratch_alignment))
            return plait_monitor_report(call, PLAIT_MONITOR_PREPARED, NULL, NULL,
                                        "group %d: scratch is aligned to %llu, no power of two", g,
                                        (unsigned long long)group->scratch_alignment);
        /* Each node in one group, since groups follow each other and the order names every node once. */
        covered += group->n;
    }
    if (covered != segment->n_nodes)
        return plait_monitor_report(call, PLAIT_MONITOR_PREPARED, NULL, NULL, "groups hold %d of %d nodes",
                                    covered, segment->n_nodes);
    for (int n = 0; n < segment->n_nodes; n++) position[n] = -1;
    for (int k = 0; k < covered; k++) {
        int n = p->order[k];
        if (n < 0 || n >= segment->n_nodes || position[n] >= 0)
            return plait_monitor_report(call, PLAIT_MONITOR_PREPARED, NULL, NULL,
                                        "node %d is named twice or is none", n);
        position[n] = k;
    }
    return PLAIT_OK;
}

/* Nodes that changed places must not depend on each other. `largest[k]`: of order[0 .. k], so that the search stops
 * where nothing larger stands before: in a segment that is nearly in order it is short. */
static plait_status check_order(const plait_monitor_call *call, const plait_segment *segment,
                                const plait_prepared *p, int *largest) {
    for (int k = 0; k < segment->n_nodes; k++) {
        largest[k] = k && largest[k - 1] > p->order[k] ? largest[k - 1] : p->order[k];
        /* Only nodes that stood behind this one in the segment, and run before it, have changed places with it. */
        for (int before = k - 1; before >= 0 && largest[before] > p->order[k]; before--) {
            const plait_segment_node *late = &segment->nodes[p->order[before]];
            const plait_segment_node *early = &segment->nodes[p->order[k]];
            if (p->order[before] < p->order[k] || (!writes_into(early, late) && !writes_into(late, early)))
                continue;
            return plait_monitor_report(call, PLAIT_MONITOR_PREPARED, NULL, NULL,
                                        "node %s runs before %s, on which it depends through shared bytes",
                                        late->name ? late->name : "?", early->name ? early->name : "?");
        }
    }
    return PLAIT_OK;
}

/* The group of a node by its position. */
static int group_at(const plait_prepared *p, int position) {
    int low = 0, high = p->n_groups - 1;
    while (low < high) {
        int middle = (low + high + 1) / 2;
        if (p->groups[middle].first <= position)
            low = middle;
        else
            high = middle - 1;
    }
    return low;
}

/* A value that is left out is made and used up in one group, and nobody else wants it. Linear in the segment for each
 * value that is left out. */
static plait_status check_elided(const plait_monitor_call *call, const plait_segment *segment,
                                 const plait_prepared *p, const int *position, uint32_t value) {
    int home = -1;
    bool made = false;
    for (int n = 0; n < segment->n_nodes; n++) {
        const plait_segment_node *node = &segment->nodes[n];
        bool touches = false, wanted = false;
        for (int i = 0; i < node->n_inputs; i++)
            touches |= (node->present >> i & 1u) && node->inputs[i].value == value;
        for (int o = 0; o < node->n_outputs; o++) {
            bool here = node->outputs[o].value == value;
            touches |= here;
            made |= here;
            wanted |= here && node->outputs[o].needed_after;
        }
        if (!touches) continue;
        /* All of its accesses must be of the first one's group, and none of its outputs may be wanted afterwards. */
        int group = group_at(p, position[n]);
        if (wanted || (home >= 0 && home != group))
            return plait_monitor_report(call, PLAIT_MONITOR_PREPARED, NULL, NULL,
                                        "value %u is left out, and %s", value,
                                        wanted ? "somebody outside needs it" : "two groups use it");
        home = group;
    }
    if (made) return PLAIT_OK;
    return plait_monitor_report(call, PLAIT_MONITOR_PREPARED, NULL, NULL,
                                "value %u is left out, and no node of the segment makes it", value);
}

/* Both are values of the segment, one made here and one read here, and a weight is never written over. Where they lie
 * is checked when addresses are known. */
static plait_status check_shared(const plait_monitor_call *call, const plait_segment *segment,
                                 const struct plait_shared_pair *pair) {
    bool output = false, input = false;
    for (int n = 0; n < segment->n_nodes; n++) {
        const plait_segment_node *node = &segment->nodes[n];
        for (int o = 0; o < node->n_outputs; o++) output |= node->outputs[o].value == pair->output;
        for (int i = 0; i < node->n_inputs; i++)
            input |= (node->present >> i & 1u) && node->inputs[i].value == pair->input &&
                     !node->inputs[i].is_weight;
    }
    if (output && input && pair->output != pair->input) return PLAIT_OK;
    return plait_monitor_report(
        call, PLAIT_MONITOR_PREPARED, NULL, NULL,
        "value %u may lie over value %u, and they are no output and input of the segment", pair->output,
        pair->input);
}

/* `room` has two numbers for each node. Groups first: the other checks rely on every node being somewhere once. */
static plait_status check_answer(const plait_monitor_call *call, const plait_segment *segment,
                                 const plait_prepared *p, int *room) {
    int *position = room, *largest = room + segment->n_nodes;
    PLAIT_TRY(check_groups(call, segment, p, position));
    PLAIT_TRY(check_order(call, segment, p, largest));
    for (int e = 0; e < p->n_elided; e++) PLAIT_TRY(check_elided(call, segment, p, position, p->elided[e]));
    for (int k = 0; k < p->n_shared; k++) PLAIT_TRY(check_shared(call, segment, &p->shared[k]));
    return PLAIT_OK;
}

/* An answer that breaks a rule is given back to the device, and the call fails. */
plait_status plait_monitor_prepare(plait_device *device, const plait_segment *segment, plait_prepared *out) {
    plait_monitor_call call = plait_monitor_begin(device, PLAIT_MONITOR_F_prepare);
    plait_device *real = call.device->inner;
    plait_prepared prepared = {0};
    const plait_prepared none = {0};
    plait_error_record kept;
    plait_monitor_watch(&kept);
    /* Into a struct of our own: the caller's is only set when the answer is right. */
    plait_status status = real->vtable->prepare(real, segment, &prepared);
    /* A failing prepare must leave its output alone; a prepared without groups is right for a segment without nodes, so
     * success is taken as set. */
    status = plait_monitor_watched(&call, &kept, status,
                                   status == PLAIT_OK || memcmp(&prepared, &none, sizeof none) != 0);
    if (status != PLAIT_OK) return judge_refusal(&call, segment, status);
    int *room = plait_alloc_array(2 * (size_t)segment->n_nodes + 1, sizeof *room);
    status = room ? check_answer(&call, segment, &prepared, room) : plait_error_memory("monitor: prepare", 0);
    free(room);
    if (status == PLAIT_OK)
        *out = prepared;
    else
        real->vtable->prepared_destroy(real, &prepared);
    return status;
}

/* Freed by whoever allocated it. */
void plait_monitor_prepared_destroy(plait_device *device, plait_prepared *prepared) {
    plait_monitor_call call = plait_monitor_begin(device, PLAIT_MONITOR_F_prepared_destroy);
    plait_device *real = call.device->inner;
    real->vtable->prepared_destroy(real, prepared);
}

/* ---- programs ---- */

/* Everything that a program keeps of the segment, in its arena, with one element more than needed everywhere, so that
 * nothing is of no size. */
static bool get_tables(plait_monitor_program *p, const plait_segment *segment,
                       const plait_prepared *prepared) {
    plait_arena *arena = &p->arena;
    size_t nodes = (size_t)segment->n_nodes, slots = (size_t)segment->n_slots, dims = (size_t)segment->n_dims;
    size_t operands = 0;
    for (int n = 0; n < segment->n_nodes; n++)
        operands += (size_t)(segment->nodes[n].n_inputs + segment->nodes[n].n_outputs);
    p->n_slots = segment->n_slots;
    p->n_dims = segment->n_dims;
    p->n_nodes = segment->n_nodes;
    p->n_groups = prepared->n_groups;
    p->n_shared = prepared->n_shared;
    p->bounds = plait_arena_alloc(arena, dims + 1, sizeof *p->bounds);
    p->dims = plait_arena_alloc(arena, dims + 1, sizeof *p->dims);
    p->slot_bytes = plait_arena_alloc(arena, slots + 1, sizeof *p->slot_bytes);
    p->written = plait_arena_alloc(arena, slots + 1, sizeof *p->written);
    p->names = plait_arena_alloc(arena, nodes + 1, sizeof *p->names);
    p->operands = plait_arena_alloc(arena, operands + 1, sizeof *p->operands);
    p->groups = plait_arena_alloc(arena, (size_t)p->n_groups + 1, sizeof *p->groups);
    p->shared = plait_arena_alloc(arena, (size_t)p->n_shared + 1, sizeof *p->shared);
    if (!p->bounds || !p->dims || !p->slot_bytes || !p->written || !p->names || !p->operands || !p->groups ||
        !p->shared)
        return false;
    if (dims) memcpy(p->bounds, segment->bounds, dims * sizeof *p->bounds);
    if (p->n_shared) memcpy(p->shared, prepared->shared, (size_t)p->n_shared * sizeof *p->shared);
    for (int n = 0; n < segment->n_nodes; n++) {
        const char *name = segment->nodes[n].name;
        p->names[n] = plait_arena_string(arena, name ? name : segment->nodes[n].op->name);
        if (!p->names[n]) return false;
    }
    return true;
}

/* Bytes of a packed weight: what the device offers for it; 1 when it does not say, which touches at least its
 * beginning. */
static uint64_t packed_bytes(plait_device *real, const plait_segment_node *node, int input) {
    const plait_segment_operand *operand = &node->inputs[input];
    const struct plait_weight_reader reader = {node->op, input, true};
    plait_weight_use use = {.dtype = operand->shape.dtype, .n_readers = 1, .readers = &reader};
    plait_encoding_offer offers[8];
    plait_error_record kept; /* the question is ours: a failure is nobody's message */
    uint64_t bytes = 1;
    int n = 8;
    memcpy(use.dims, operand->shape.dims, sizeof use.dims);
    plait_error_save(PLAIT_INTERNAL, &kept);
    if (real->vtable->encodings(real, &use, offers, &n) != PLAIT_OK) n = 0;
    plait_error_raise(&kept);
    for (int i = 0; i < n; i++)
        /* The packing that the operand is in, among those that would be offered for such a weight. */
        if (offers[i].encoding == operand->encoding) bytes = offers[i].size_bytes;
    return bytes;
}

/* Ops that look up by ids read only what the ids name; attention reads the keys that a token sees. The op's factors say
 * so: a dim of this input is chosen by ids, or merged over. The ids themselves are read in part too, as attention's are
 * for tokens of no sequence. */
static bool reads_in_part(const plait_op *op, int input) {
    plait_factors factors;
    /* An op without control data reads all of what it is given. */
    if (op->runtime_inputs == 0 || (op->runtime_inputs >> input & 1u))
        return op->runtime_inputs >> input & 1u;
    if (plait_op_factors(op, &factors) != PLAIT_OK || input >= factors.n_inputs) return false;
    for (int d = 0; d < factors.inputs[input].rank; d++)
        for (int k = 0; k < factors.inputs[input].dims[d].n; k++) {
            plait_factor_kind kind = factors.factors[factors.inputs[input].dims[d].factors[k]].kind;
            if (kind == PLAIT_FACTOR_INDEXED || kind == PLAIT_FACTOR_MERGE) return true;
        }
    return false;
}

/* Linear: a segment leaves few values out. */
static bool is_elided(const plait_prepared *prepared, uint32_t value) {
    for (int e = 0; e < prepared->n_elided; e++)
        if (prepared->elided[e] == value) return true;
    return false;
}

/* An operand's place is one that a launch can have. Slot, dim, alignment and end; the slot's least size grows with it.
 * A value is aligned where it begins, views of it may begin anywhere. */
static plait_status check_place(const plait_monitor_call *call, plait_monitor_program *p,
                                const plait_monitor_operand *o) {
    const char *name = p->names[o->node], *side = o->output ? "output" : "input";
    uint64_t end;
    if (o->elided || o->bytes == 0) return PLAIT_OK;
    if (o->slot >= (uint32_t)p->n_slots)
        return plait_monitor_report(call, PLAIT_MONITOR_SLOT, NULL, NULL,
                                    "node %s, %s %d: slot %u, there are %d", name, side, o->position, o->slot,
                                    p->n_slots);
    if (o->outer.dim >= p->n_dims ||
        (o->outer.dim >= 0 && (o->outer.c < 1 || (unsigned)o->outer.axis >= PLAIT_MAX_RANK)))
        return plait_monitor_report(call, PLAIT_MONITOR_DIM, NULL, NULL,
                                    "node %s, %s %d: dim %d of %d along axis %d, divided by %lld", name, side,
                                    o->position, o->outer.dim, p->n_dims, o->outer.axis,
                                    (long long)o->outer.c);
    /* The value is the storage's beginning. */
    if ((o->offset - o->view_offset) % call->device->info.alignment)
        return plait_monitor_report(call, PLAIT_MONITOR_MISALIGNED, NULL, NULL,
                                    "node %s, %s %d: its value lies at %llu, the device's alignment is %llu",
                                    name, side, o->position, (unsigned long long)(o->offset - o->view_offset),
                                    (unsigned long long)call->device->info.alignment);
    if (!plait_add_u64(o->offset, o->bytes, &end))
        return plait_monitor_report(call, PLAIT_MONITOR_OUT_OF_RANGE, NULL, NULL,
                                    "node %s, %s %d: offset %llu", name, side, o->position,
                                    (unsigned long long)o->offset);
    /* What a launch must find in the slot at least. */
    if (end > p->slot_bytes[o->slot]) p->slot_bytes[o->slot] = end;
    return PLAIT_OK;
}

/* What an operand says of itself, but its node and position. Whatever an update may change. Outputs of ops that write
 * into an input, and that input, are touched in part: which rows, ids decide. */
static void read_operand(const plait_monitor_call *call, const plait_segment *segment,
                         plait_monitor_operand *to) {
    const plait_segment_node *node = &segment->nodes[to->node];
    const plait_segment_operand *from =
        to->output ? &node->outputs[to->position] : &node->inputs[to->position];
    to->shape = from->shape;
    to->outer = from->outer;
    to->offset = from->offset;
    to->view_offset = from->view_offset;
    to->slot = from->slot;
    to->storage = from->storage;
    to->value = from->value;
    to->packed = from->encoding != PLAIT_ENCODING_FILE;
    /* At the bounds: launches with smaller dims touch less of it. */
    to->bytes = to->packed ? packed_bytes(call->device->inner, node, to->position) : span_of(from);
    if (to->output)
        to->partial = to->position == 0 && node->op->writes_input >= 0;
    else
        to->partial = to->position == node->op->writes_input || reads_in_part(node->op, to->position);
}

/* `elided` is the prepared answer's and stays when addresses change. */
static plait_status add_operand(const plait_monitor_call *call, plait_monitor_program *p,
                                const plait_segment *segment, const plait_prepared *prepared, int node_index,
                                int position, bool output) {
    plait_monitor_operand *to = &p->operands[p->n_operands++];
    *to = (plait_monitor_operand){.node = node_index, .position = position, .output = output};
    read_operand(call, segment, to);
    to->elided = is_elided(prepared, to->value);
    return check_place(call, p, to);
}

/* Operands in the order in which the group has its nodes, inputs before outputs (launch.c relies on it). */
static plait_status add_group(const plait_monitor_call *call, plait_monitor_program *p,
                              const plait_segment *segment, const plait_prepared *prepared, int index) {
    const plait_group *from = &prepared->groups[index];
    plait_monitor_group *to = &p->groups[index];
    uint64_t end;
    to->first = (int)p->n_operands;
    for (int k = from->first; k < from->first + from->n; k++) {
        int n = prepared->order[k];
        const plait_segment_node *node = &segment->nodes[n];
        for (int i = 0; i < node->n_inputs; i++)
            if (node->present >> i & 1u) PLAIT_TRY(add_operand(call, p, segment, prepared, n, i, false));
        for (int o = 0; o < node->n_outputs; o++)
            PLAIT_TRY(add_operand(call, p, segment, prepared, n, o, true));
    }
    /* Scratch must be where the group said: in a slot, at its alignment, within 64 bits. */
    to->n = (int)p->n_operands - to->first;
    if (from->scratch_bytes == 0) return PLAIT_OK;
    if (from->scratch_slot >= (uint32_t)segment->n_slots)
        return plait_monitor_report(call, PLAIT_MONITOR_SLOT, NULL, NULL,
                                    "scratch of group %d: slot %u, there are %d", index, from->scratch_slot,
                                    segment->n_slots);
    if (from->scratch_offset % from->scratch_alignment ||
        !plait_add_u64(from->scratch_offset, from->scratch_bytes, &end))
        return plait_monitor_report(call, PLAIT_MONITOR_MISALIGNED, NULL, NULL,
                                    "scratch of group %d lies at %llu, its alignment is %llu", index,
                                    (unsigned long long)from->scratch_offset,
                                    (unsigned long long)from->scratch_alignment);
    to->scratch_slot = from->scratch_slot;
    to->scratch_offset = from->scratch_offset;
    to->scratch_bytes = from->scratch_bytes;
    if (end > p->slot_bytes[to->scratch_slot]) p->slot_bytes[to->scratch_slot] = end;
    return PLAIT_OK;
}

/* The program without the device's part. */
static plait_status read_segment(const plait_monitor_call *call, plait_monitor_program *program,
                                 const plait_segment *segment, const plait_prepared *prepared) {
    plait_arena_init(&program->arena, 0);
    if (!get_tables(program, segment, prepared))
        return plait_error_memory("monitor: program", (uint64_t)segment->n_nodes);
    for (int g = 0; g < prepared->n_groups; g++) PLAIT_TRY(add_group(call, program, segment, prepared, g));
    return plait_monitor_check_overlap(call, program, NULL);
}

/* Ranges and shadows have memory of their own; everything else is the arena's. */
static void free_tables(plait_monitor_program *program) {
    for (int s = 0; program->written && s < program->n_slots; s++)
        plait_monitor_shadow_deinit(&program->written[s]);
    program->written = NULL;
    free(program->ranges);
    program->ranges = NULL;
    plait_arena_deinit(&program->arena);
}

/* The segment is checked before the device sees it. The program becomes an object, and gets its magic, only when the
 * device has made its own. */
plait_status plait_monitor_compile(plait_device *device, const plait_segment *segment,
                                   const plait_prepared *prepared, plait_program **out) {
    plait_monitor_call call = plait_monitor_begin(device, PLAIT_MONITOR_F_compile);
    plait_device *real = call.device->inner;
    plait_monitor_program *program = plait_alloc_array(1, sizeof *program);
    if (!program) return plait_error_memory("monitor: program", sizeof *program);
    plait_status status = read_segment(&call, program, segment, prepared);
    /* The device's turn, watched: it must make a program or leave a message. */
    if (status == PLAIT_OK) {
        plait_error_record kept;
        plait_monitor_watch(&kept);
        status = real->vtable->compile(real, segment, prepared, &program->inner);
        status = plait_monitor_watched(&call, &kept, status, program->inner != NULL);
        status = judge_refusal(&call, segment, status);
    }
    if (status != PLAIT_OK) {
        free_tables(program);
        free(program);
        return status;
    }
    program->magic = MAGIC;
    plait_monitor_lock(call.device->monitor);
    plait_monitor_object_begin(&call, PLAIT_OBJECT_PROGRAM, &program->object);
    plait_monitor_unlock(call.device->monitor);
    *out = (plait_program *)program;
    return PLAIT_OK;
}

/* Everything but the struct. */
void plait_monitor_program_release(plait_monitor_program *program) {
    plait_device *real = program->object.device->inner;
    if (program->inner) real->vtable->program_destroy(real, program->inner);
    program->inner = NULL;
    free_tables(program);
}

/* In use: held until the device ends, as buffers are. */
void plait_monitor_program_destroy(plait_device *device, plait_program *base) {
    if (!base) return;
    plait_monitor_call call = plait_monitor_begin(device, PLAIT_MONITOR_F_program_destroy);
    plait_monitor_program *program = plait_monitor_program_of(base);
    if (!program) {
        plait_monitor_report(&call, PLAIT_MONITOR_ARGUMENT, NULL, NULL, "the program is none of this device");
        return;
    }
    plait_monitor_lock(call.device->monitor);
    if (plait_monitor_object_check(&call, &program->object) == PLAIT_OK) {
        if (plait_monitor_object_idle(&call, &program->object) == PLAIT_OK) {
            plait_monitor_program_release(program);
            plait_monitor_object_end(&call, &program->object);
        } else {
            plait_monitor_object_hold(&call, &program->object);
        }
    }
    plait_monitor_unlock(call.device->monitor);
}

/* The operands of some nodes have other places: slots' sizes are counted anew, from all operands and scratch. */
static plait_status reread(const plait_monitor_call *call, plait_monitor_program *p,
                           const plait_segment *segment, const int *nodes, int n_nodes) {
    p->ranges_valid = false;
    memset(p->slot_bytes, 0, (size_t)p->n_slots * sizeof *p->slot_bytes);
    for (int g = 0; g < p->n_groups; g++) {
        const plait_monitor_group *group = &p->groups[g];
        uint64_t end = group->scratch_offset + group->scratch_bytes;
        if (group->scratch_bytes && end > p->slot_bytes[group->scratch_slot])
            p->slot_bytes[group->scratch_slot] = end;
    }
    for (uint32_t k = 0; k < p->n_operands; k++) {
        plait_monitor_operand *o = &p->operands[k];
        for (int n = 0; n < n_nodes; n++)
            if (nodes[n] == o->node) read_operand(call, segment, o);
        PLAIT_TRY(check_place(call, p, o));
    }
    return plait_monitor_check_overlap(call, p, NULL);
}

/* Not while a launch is in flight or waits: it would be looked at with addresses that are not yet, or no longer, the
 * device's. */
plait_status plait_monitor_program_update(plait_device *device, plait_program *base,
                                          const plait_segment *segment, const int *nodes, int n_nodes) {
    plait_monitor_call call = plait_monitor_begin(device, PLAIT_MONITOR_F_program_update);
    plait_device *real = call.device->inner;
    plait_monitor_program *program = plait_monitor_program_of(base);
    if (!program)
        return plait_monitor_report(&call, PLAIT_MONITOR_ARGUMENT, NULL, NULL,
                                    "the program is none of this device");
    plait_monitor_lock(call.device->monitor);
    plait_status status = plait_monitor_object_check(&call, &program->object);
    if (status == PLAIT_OK) status = plait_monitor_object_idle(&call, &program->object);
    plait_monitor_unlock(call.device->monitor);
    if (status != PLAIT_OK) return status;
    PLAIT_TRY(plait_monitor_outcome(
        &call, real->vtable->program_update(real, program->inner, segment, nodes, n_nodes)));
    plait_monitor_lock(call.device->monitor);
    /* After the device has taken it; a breach is reported, and the program is the new one all the same. */
    status = reread(&call, program, segment, nodes, n_nodes);
    plait_monitor_unlock(call.device->monitor);
    return status;
}
