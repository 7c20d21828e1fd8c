/* The part of the proof that follows bytes across devices: a storage may have an instance on each of several devices,
 * and a write in place makes all but one of them old. The steps are walked in their order, counting writes.
 *
 *   - every node of the graph runs exactly once, in program order, with the operands that the graph gives it;
 *   - what a node reads, and what the host reads, is the newest: it holds all writes that came before in the graph;
 *   - an instance that got only a part of its storage is read only there, and never sent on; it is whole again when it
 *     gets all of it, or, having been whole before, all that was written since;
 *   - rows that a node wrote elsewhere go home from there, write after write: each makes the whole one version newer.
 *     In between the bytes of a row may be those of a later write, whose own transfer is still to come;
 *   - a receive comes after its own send;
 *   - every output is read; state that was written elsewhere is at home when the step ends.
 *
 * Invariant: order inside a device is proved by verify.c; here a segment's nodes count in program order. */
#include "plan/plan.h"

#include "base/status.h"

#include <string.h>

#define NOTHING UINT32_MAX /* the instance was never written */

/* What an instance holds: how many of the writes, or NOTHING; and of these bytes only the part of a transfer (+ 1), 0:
 * all of them, OWN_ROWS: no bytes but the rows that were written there. */
typedef struct holding {
    uint32_t version, part_of;
} holding;
#define OWN_ROWS UINT32_MAX

/* A write of a storage: which bytes, to which instance. Linked backwards. */
typedef struct written {
    uint32_t version, before;
    uint64_t begin, end;
    uint32_t value;
} written;

typedef struct history {
    const plait_plan *plan;
    uint32_t *writes;     /* [storage] */
    uint32_t *last_write; /* [storage] in `log`, + 1 */
    plait_arena scratch;
    written *log;
    size_t n_log, log_capacity;
    holding *held;      /* [value] */
    holding *sent;      /* [transfer]: what the staging holds */
    bool *shown;        /* [output] */
    uint32_t *write_of; /* [node] in `log`, + 1 */
    uint32_t next_node;
} history;

static const char *name_of(const plait_plan *plan, uint32_t value) {
    return plan->graph->storages[plan->values[value].storage].name;
}

/* True when every element of the tensor lies in the part: each of its axes is one of the part's levels, or lies in the
 * row, and so for every value of the dims. */
static bool lies_in(const plait_graph_tensor *tensor, const plait_plan_part *part) {
    const plait_operand *shape = &tensor->shape;
    int64_t span = plait_operand_span_bytes(shape);
    if (span == 0) return true;
    if (part->n_levels == 0)
        return tensor->offset >= part->begin && tensor->offset + (uint64_t)span <= part->end;
    uint64_t row = (uint64_t)plait_dtype_block_bytes(shape->dtype);
    uint32_t used = 0;
    bool follows = part->bounded < 0 || memcmp(&part->outer, &tensor->outer, sizeof part->outer) == 0;
    for (int d = 0; d < PLAIT_MAX_RANK; d++) {
        int64_t count = d ? shape->dims[d] : shape->dims[0] / plait_dtype_block_elems(shape->dtype);
        bool bounded = tensor->outer.dim >= 0 && tensor->outer.axis == d, found = false;
        uint64_t pitch = (uint64_t)shape->strides[d];
        if ((count == 1 && !bounded) || pitch == 0) continue;
        if (bounded && part->bounded == PLAIT_PART_ROW && pitch == part->row_bytes) continue;
        for (int l = 0; l < part->n_levels && !found; l++) {
            found = !(used >> l & 1u) && part->levels[l].pitch == pitch && part->levels[l].count >= count &&
                    (part->bounded != l || bounded);
            used |= (uint32_t)found << l;
        }
        if (!found) row += (uint64_t)(count - 1) * pitch;
    }
    return follows && tensor->offset == part->begin && row <= part->row_bytes;
}

/* Old and unwritten are told apart for the message; a part that does not cover what is read counts as unwritten. */
static plait_status not_newest(const history *h, uint32_t value, const char *reader) {
    uint32_t version = h->held[value].version;
    bool unwritten = version == NOTHING || version == h->writes[h->plan->values[value].storage];
    return plait_error(PLAIT_INTERNAL, "proof: %s reads %s bytes of \"%s\" on %s", reader,
                       unwritten ? "unwritten" : "old", name_of(h->plan, value),
                       h->plan->context->devices[h->plan->values[value].device].device->name);
}

/* tensor_id 0: all bytes are read. */
static inline plait_status check_newest(const history *h, uint32_t value, uint32_t tensor_id,
                                        const char *reader) {
    const plait_plan *plan = h->plan;
    const holding *held = &h->held[value];
    bool newest = held->version == h->writes[plan->values[value].storage];
    if (newest && held->part_of)
        newest = held->part_of != OWN_ROWS && tensor_id &&
                 lies_in(&plan->graph->tensors[tensor_id], &plan->transfers[held->part_of - 1].part);
    return newest ? PLAIT_OK : not_newest(h, value, reader);
}

/* Dims or strides, compared without a branch for each: this runs for every operand of a plan. */
static bool same_numbers(const int64_t *a, const int64_t *b) {
    uint64_t differ = 0;
    for (int i = 0; i < PLAIT_MAX_RANK; i++) differ |= (uint64_t)(a[i] ^ b[i]);
    return differ == 0;
}

/* Member by member, since padding may differ. */
static bool same_outer(const plait_extent *a, const plait_extent *b) {
    return a->dim == b->dim && a->axis == b->axis && a->a == b->a && a->b == b->b && a->c == b->c;
}

/* The operand is the graph's tensor, on an instance of its storage. */
static plait_status check_operand(const history *h, const plait_segment_operand *operand, uint32_t tensor_id,
                                  const char *node) {
    const plait_graph_tensor *tensor = &h->plan->graph->tensors[tensor_id];
    bool same = operand->value < h->plan->n_values &&
                h->plan->values[operand->value].storage == tensor->storage &&
                operand->storage == tensor->storage && operand->view_offset == tensor->offset &&
                operand->shape.dtype == tensor->shape.dtype &&
                same_numbers(operand->shape.dims, tensor->shape.dims) &&
                same_numbers(operand->shape.strides, tensor->shape.strides) &&
                same_outer(&operand->outer, &tensor->outer);
    if (same) return PLAIT_OK;
    return plait_error(PLAIT_INTERNAL, "proof: an operand of node %s is not the graph's", node);
}

/* A value that is made is whole; one that is written in place holds what it held. */
static plait_status write_value(history *h, uint32_t value, const plait_graph_node *node, int output) {
    const plait_graph_tensor *tensor = &h->plan->graph->tensors[node->outputs[output]];
    uint32_t version = ++h->writes[tensor->storage];
    bool in_place = output == 0 && node->op->writes_input >= 0;
    bool newest = h->held[value].version == version - 1; /* else there are only the rows that it writes */
    h->held[value] = (holding){version, !in_place ? 0 : newest ? h->held[value].part_of : OWN_ROWS};
    if (h->plan->n_transfers == 0) return PLAIT_OK;
    PLAIT_TRY(plait_arena_grow(&h->scratch, &h->log, &h->log_capacity, h->n_log + 1, sizeof *h->log,
                               (size_t)1 << 28, "proof"));
    h->log[h->n_log++] =
        (written){version, h->last_write[tensor->storage], tensor->offset,
                  tensor->offset + (uint64_t)plait_operand_span_bytes(&tensor->shape), value};
    h->last_write[tensor->storage] = (uint32_t)h->n_log;
    if (output == 0) h->write_of[node - h->plan->graph->nodes] = (uint32_t)h->n_log;
    return PLAIT_OK;
}

/* Nodes count up through all segments: in program order, each once. The operands that are written as rows are not read;
 * what else of them must be there shows when they are sent or read. */
static plait_status run_node(history *h, const plait_segment_node *node) {
    const plait_plan *plan = h->plan;
    if (node->node != h->next_node)
        return plait_error(PLAIT_INTERNAL, "proof: node %u runs where node %u is expected", node->node,
                           h->next_node);
    const plait_graph_node *row = &plan->graph->nodes[h->next_node++];
    if (node->op != row->op || node->n_inputs != row->n_inputs || node->n_outputs != row->n_outputs ||
        node->present != row->present || memcmp(node->attrs, row->attrs, sizeof row->attrs) != 0)
        return plait_error(PLAIT_INTERNAL, "proof: node %s is not the graph's", row->name);
    for (int i = 0; i < node->n_inputs; i++) {
        if (!row->inputs[i]) continue;
        PLAIT_TRY(check_operand(h, &node->inputs[i], row->inputs[i], row->name));
        bool rows = i == row->op->writes_input && row->op->write_part == PLAIT_WRITES_ROWS; /* are not read */
        if (!rows) PLAIT_TRY(check_newest(h, node->inputs[i].value, row->inputs[i], row->name));
    }
    for (int o = 0; o < node->n_outputs; o++) {
        PLAIT_TRY(check_operand(h, &node->outputs[o], row->outputs[o], row->name));
        PLAIT_TRY(write_value(h, node->outputs[o].value, row, o));
    }
    return PLAIT_OK;
}

/* Whether the part has all that was written to the storage after `version`, up to `newest`. A part of rows (levels) is
 * never taken for a range that was written. */
static bool has_writes(const history *h, uint32_t storage, uint32_t version, uint32_t newest,
                       const plait_plan_part *part) {
    for (uint32_t w = h->last_write[storage]; w && h->log[w - 1].version > version; w = h->log[w - 1].before)
        if (h->log[w - 1].version <= newest &&
            (part->n_levels || h->log[w - 1].begin < part->begin || h->log[w - 1].end > part->end))
            return false;
    return true;
}

/* The source's holding is kept at this moment: for a staged transfer the source may go on before the bytes are
 * received. */
static plait_status send(history *h, uint32_t t) {
    const plait_plan_transfer *transfer = &h->plan->transfers[t];
    h->sent[t] = h->held[transfer->source];
    bool rows =
        transfer->part.rows_node > 0 && h->sent[t].part_of == OWN_ROWS; /* receive() asks whose they are */
    if (h->sent[t].version != NOTHING && (!h->sent[t].part_of || rows)) return PLAIT_OK;
    return plait_error(PLAIT_INTERNAL, "proof: unwritten bytes of \"%s\" are sent to \"%s\"",
                       name_of(h->plan, transfer->source),
                       h->plan->context->devices[h->plan->values[transfer->target].device].device->name);
}

/* Everything of a part but the node and what follows from it. */
static bool same_rows(const plait_plan_part *a, const plait_plan_part *b) {
    bool same = a->begin == b->begin && a->end == b->end && a->n_rows == b->n_rows &&
                a->row_bytes == b->row_bytes && a->n_levels == b->n_levels && a->bounded == b->bounded;
    for (int l = 0; same && l < a->n_levels; l++)
        same = a->levels[l].count == b->levels[l].count && a->levels[l].pitch == b->levels[l].pitch;
    return same;
}

/* Rows of one write: it is the next one that the target lacks, and the source is whole and has it, or has made it. */
static plait_status receive_rows(history *h, uint32_t t) {
    const plait_plan *plan = h->plan;
    const plait_plan_transfer *transfer = &plan->transfers[t];
    uint32_t node = transfer->part.rows_node - 1, storage = plan->values[transfer->target].storage;
    const written *w =
        node < plan->graph->n_nodes && h->write_of[node] ? &h->log[h->write_of[node] - 1] : NULL;
    holding *held = &h->held[transfer->target];
    plait_plan_part part;
    bool fine = w && plait_part_of_rows(plan->graph, node, &part) && same_rows(&part, &transfer->part) &&
                plan->graph->tensors[plan->graph->nodes[node].outputs[0]].storage == storage &&
                held->version != NOTHING && !held->part_of && held->version + 1 == w->version;
    fine = fine && (h->sent[t].part_of == OWN_ROWS ? w->value == transfer->source
                                                   : !h->sent[t].part_of && h->sent[t].version >= w->version);
    if (!fine)
        return plait_error(PLAIT_INTERNAL,
                           "proof: rows of \"%s\" go to %s, which does not become newer by them",
                           name_of(plan, transfer->target),
                           plan->context->devices[plan->values[transfer->target].device].device->name);
    held->version = w->version;
    return PLAIT_OK;
}

/* Cases in order: rows of one write; all bytes; a range that brings a whole instance up to date; a part, good for
 * reading only there. */
static plait_status receive(history *h, uint32_t t) {
    const plait_plan *plan = h->plan;
    const plait_plan_transfer *transfer = &plan->transfers[t];
    const plait_plan_part *part = &transfer->part;
    uint32_t storage = plan->values[transfer->source].storage;
    uint64_t size = plan->graph->storages[storage].size_bytes;
    holding *held = &h->held[transfer->target];
    if (h->sent[t].version == NOTHING)
        return plait_error(PLAIT_INTERNAL, "proof: \"%s\" is received before it is sent",
                           name_of(plan, transfer->target));
    if (storage != plan->values[transfer->target].storage || transfer->size_bytes != plait_part_bytes(part) ||
        part->begin > part->end || part->end > size)
        return plait_error(PLAIT_INTERNAL, "proof: a transfer moves %llu bytes of \"%s\" to \"%s\"",
                           (unsigned long long)transfer->size_bytes, name_of(plan, transfer->source),
                           name_of(plan, transfer->target));
    if (part->rows_node) return receive_rows(h, t);
    bool all = part->n_levels == 0 && part->begin == 0 && part->end == size;
    bool whole = held->version != NOTHING && !held->part_of;
    if (whole && held->version > h->sent[t].version)
        return plait_error(PLAIT_INTERNAL, "proof: \"%s\" is overwritten with older bytes",
                           name_of(plan, transfer->target));
    whole = all || (whole && has_writes(h, storage, held->version, h->sent[t].version, part));
    *held = (holding){h->sent[t].version, whole ? 0 : t + 1};
    return PLAIT_OK;
}

/* A send and a receive are checked apart, a move is both at once. */
static plait_status walk_step(history *h, size_t s) {
    const plait_plan *plan = h->plan;
    const plait_plan_step *step = &plan->steps[s];
    switch (step->kind) {
    case PLAIT_STEP_WRITE_INPUT:
        if (plan->values[plan->inputs[step->item].value].storage != plan->inputs[step->item].storage)
            return plait_error(PLAIT_INTERNAL, "proof: an input is written to \"%s\"",
                               name_of(plan, plan->inputs[step->item].value));
        /* Inputs have no versions: 0 is the newest there can be. */
        h->held[plan->inputs[step->item].value] = (holding){0, 0};
        return PLAIT_OK;
    case PLAIT_STEP_LAUNCH:
        for (uint32_t n = 0; n < plan->segments[step->item].n_nodes; n++)
            PLAIT_TRY(run_node(h, &plan->segments[step->item].nodes[n]));
        return PLAIT_OK;
    case PLAIT_STEP_SEND: return send(h, step->item);
    case PLAIT_STEP_MOVE: PLAIT_TRY(send(h, step->item)); return receive(h, step->item);
    case PLAIT_STEP_RECEIVE: return receive(h, step->item);
    case PLAIT_STEP_READ_OUTPUT: break;
    }
    const plait_plan_output *output = &plan->outputs[step->item];
    uint32_t tensor = plan->graph->outputs[output->output].tensor;
    const plait_graph_tensor *shown = &plan->graph->tensors[tensor];
    if (output->value >= plan->n_values || plan->values[output->value].storage != shown->storage ||
        output->source_offset != shown->offset ||
        output->size_bytes != (uint64_t)plait_operand_span_bytes(&shown->shape))
        return plait_error(PLAIT_INTERNAL, "proof: output \"%s\" is read from \"%s\"",
                           plan->graph->outputs[output->output].name, name_of(plan, output->value));
    h->shown[output->output] = true;
    return check_newest(h, output->value, tensor, "the host");
}

/* After the last step: every node ran, every output was read, every state is newest at its home, since that is what the
 * next step will read. */
static plait_status check_end(const history *h) {
    const plait_plan *plan = h->plan;
    if (h->next_node != plan->graph->n_nodes)
        return plait_error(PLAIT_INTERNAL, "proof: node %u never runs", h->next_node);
    for (size_t o = 0; o < plan->graph->n_outputs; o++)
        if (!h->shown[o])
            return plait_error(PLAIT_INTERNAL, "proof: output \"%s\" is never read",
                               plan->graph->outputs[o].name);
    for (uint32_t v = 0; v < plan->n_values; v++)
        if (plan->values[v].slot == PLAIT_SLOT_STATE) PLAIT_TRY(check_newest(h, v, 0, "the next step"));
    for (uint32_t s = 0; s < plan->graph->n_storages; s++) { /* written, but not even present at home */
        if (plan->graph->storages[s].kind != PLAIT_STORAGE_STATE || h->writes[s] == 0) continue;
        const plait_resident *entry = plait_plan_resident(plan, s, -1);
        if (!entry || !plait_plan_value_on(plan, s, entry->device))
            return plait_error(PLAIT_INTERNAL, "proof: state \"%s\" is written away from home",
                               plan->graph->storages[s].name);
    }
    return PLAIT_OK;
}

/* Weights and state begin as whole and at version 0, inputs when they are written; what the plan makes holds nothing
 * before it is made. */
static plait_status walk(history *h) {
    for (uint32_t v = 0; v < h->plan->n_values; v++) {
        uint32_t slot = h->plan->values[v].slot;
        bool made = slot == PLAIT_SLOT_ARENA || slot == PLAIT_SLOT_INPUTS;
        h->held[v] = (holding){made ? NOTHING : 0, 0};
    }
    for (size_t i = 0; i < h->plan->n_inputs; i++) { /* written by the host where the device has it */
        const plait_plan_input *input = &h->plan->inputs[i];
        if (input->home == i && input->device >= 0) h->held[input->value].version = 0;
    }
    for (size_t t = 0; t < h->plan->n_transfers; t++) h->sent[t].version = NOTHING;
    for (size_t s = 0; s < h->plan->n_steps; s++) PLAIT_TRY(walk_step(h, s));
    return check_end(h);
}

/* Without transfers no write needs to be remembered. */
static plait_status walk_all(history *h) {
    const plait_plan *plan = h->plan;
    h->writes = plait_arena_alloc(&h->scratch, plan->graph->n_storages, sizeof *h->writes);
    h->held = plait_arena_take(&h->scratch, plan->n_values, sizeof *h->held);
    h->sent = plait_arena_alloc(&h->scratch, plan->n_transfers, sizeof *h->sent);
    h->last_write = plait_arena_alloc(&h->scratch, plan->graph->n_storages, sizeof *h->last_write);
    h->shown = plait_arena_alloc(&h->scratch, plan->graph->n_outputs, sizeof *h->shown);
    h->write_of =
        plait_arena_alloc(&h->scratch, plan->n_transfers ? plan->graph->n_nodes : 0, sizeof *h->write_of);
    bool all = h->writes && h->last_write && h->held && h->sent && h->shown && h->write_of;
    return all ? walk(h) : plait_error_memory("proof", plan->n_values * sizeof *h->held);
}

plait_status plait_plan_verify_versions(const plait_plan *plan) {
    history h = {.plan = plan};
    plait_arena_init_pooled(&h.scratch, &plan->context->pool);
    plait_status status = walk_all(&h);
    plait_arena_deinit(&h.scratch);
    return status;
}
