/* Segments: runs of neighbouring nodes of one device, and the transfers between them. The result is the list of steps:
 * one command each, in an order that respects every dependency. Launches stand in program order; a transfer stands as
 * early as its bytes are there and, where its target is a temporary, not before the launch before the last one ahead of
 * its reader: it travels during one launch, and takes memory no longer.
 *
 * A transfer moves what its device reads: a view where only that is read before the next write; what was written since
 * where the device has an older version of the rest.
 *
 * Invariant: when a step is reached, every value it reads has been written by an earlier step of the list. Not here:
 * what devices make of segments (prepare.c), who waits for whom (order.c). */
#include "plan/plan.h"

#include "base/alloc.h"
#include "base/size.h"
#include "base/status.h"

#include <stdlib.h>
#include <string.h>

/* Rows of any table: numbers of values, steps and transfers are 32 bits with room for marks. */
#define MAX_ROWS ((size_t)1 << 28)
enum { FIRST_PLACE = -1 };

/* What is known of a value while segments are built. Places are in the list of steps: 2 * i + 1 for launch i, 2 * i for
 * what stands before it, FIRST_PLACE before everything. */
typedef struct holding {
    uint32_t version;      /* writes of its storage that it holds */
    bool complete;         /* all bytes of that version, not just those that are read here */
    int64_t made, touched; /* place where it got this version, last place that used it */
} holding;

/* What a device reads of a version of a storage, over all its nodes. */
typedef struct reading {
    uint32_t version;
    uint32_t tensor; /* the only one, or 0 */
    uint64_t begin, end;
    bool whole; /* a node writes it in place */
    uint32_t next;
} reading;

/* A write in place, by which an older instance differs from a newer one. */
typedef struct write {
    uint32_t version, next;
    uint64_t begin, end;
    uint32_t value, node; /* where, and by which node */
} write;

typedef struct draft {
    plait_plan_step step;
    int64_t place;
} draft;

typedef struct builder {
    plait_plan *plan;
    plait_arena arena;     /* all that is needed only while segments are built */
    uint32_t *versions;    /* [storage]: writes so far */
    uint32_t *last_read;   /* [device * n_storages + storage]: its last reading + 1; they form a ring */
    bool *reads;           /* [device * n_storages + storage]: it does more there than to write rows */
    uint32_t *last_write;  /* [storage]: its last write + 1, linked backwards */
    uint32_t *last_holder; /* [storage]: its newest value + 1, linked backwards */
    uint32_t *next_holder; /* [value] */
    holding *holdings;     /* [value] */
    reading *readings;
    write *writes;
    draft *drafts;
    int64_t (*launches)[2]; /* [device]: place of its last launch and of the one before; -1: none */
    size_t n_readings, n_writes, n_drafts;
    size_t reading_capacity, write_capacity, draft_capacity, holding_capacity, next_capacity;
} builder;

/* Room in a table of the plan's arena or of the builder's. */
#define GROW(arena, table, capacity, n, what)                                                                \
    plait_arena_grow((arena), &(table), &(capacity), (n), sizeof *(table), MAX_ROWS, (what))

/* Values and what is known of them grow together: their tables have one index. */
static plait_status grow_values(builder *b, size_t n) {
    PLAIT_TRY(GROW(&b->plan->arena, b->plan->values, b->plan->value_capacity, n, "plan values"));
    PLAIT_TRY(GROW(&b->arena, b->holdings, b->holding_capacity, n, "plan values"));
    return GROW(&b->arena, b->next_holder, b->next_capacity, n, "plan values");
}

plait_plan_value *plait_plan_value_on(const plait_plan *plan, uint32_t storage, int device) {
    uint32_t v = plan->value_of[(size_t)device * plan->graph->n_storages + storage];
    return v ? &plan->values[v - 1] : NULL;
}

/* The value's index + 1, 0: not there. */
static uint32_t find_value(const builder *b, uint32_t storage, int device) {
    return b->plan->value_of[(size_t)device * b->plan->graph->n_storages + storage];
}

static const plait_graph_storage *storage_of(const builder *b, uint32_t storage) {
    return &b->plan->graph->storages[storage];
}

/* ---- tables ---- */

/* Room for what there usually is; tables grow beyond it. With one device there is nobody to read elsewhere, so the
 * tables by device and storage that only transfers need stay empty. */
static plait_status init_builder(builder *b) {
    plait_plan *plan = b->plan;
    size_t n_storages = plan->graph->n_storages, n_devices = (size_t)plan->context->n_devices;
    size_t n_pairs = n_storages * n_devices;
    plan->value_of = plait_arena_alloc(&plan->arena, n_pairs, sizeof *plan->value_of);
    plan->outputs = plait_arena_alloc(&plan->arena, plan->graph->n_outputs, sizeof *plan->outputs);
    b->versions = plait_arena_alloc(&b->arena, n_storages, sizeof *b->versions);
    b->last_write = plait_arena_alloc(&b->arena, n_storages, sizeof *b->last_write);
    b->last_holder = plait_arena_alloc(&b->arena, n_storages, sizeof *b->last_holder);
    b->last_read = plait_arena_alloc(&b->arena, n_devices > 1 ? n_pairs : 0, sizeof *b->last_read);
    b->reads = plait_arena_alloc(&b->arena, n_devices > 1 ? n_pairs : 0, sizeof *b->reads);
    b->launches = plait_arena_alloc(&b->arena, n_devices, sizeof *b->launches);
    bool all = plan->value_of && plan->outputs && b->versions && b->last_write && b->last_holder &&
               b->last_read && b->reads && b->launches;
    if (!all) return plait_error_memory("plan tables", n_pairs * sizeof *plan->value_of);
    for (size_t d = 0; d < n_devices; d++) b->launches[d][0] = b->launches[d][1] = -1;
    PLAIT_TRY(GROW(&b->arena, b->drafts, b->draft_capacity, 64, "plan steps"));
    return grow_values(b, n_storages);
}

/* A step before its place in the list is final. The device is that of the queue, which for a move may be either end's.
 */
static plait_status add_draft(builder *b, plait_step_kind kind, uint32_t queue, size_t item, int64_t place) {
    PLAIT_TRY(GROW(&b->arena, b->drafts, b->draft_capacity, b->n_drafts + 1, "plan steps"));
    b->drafts[b->n_drafts++] = (draft){.step = {.kind = kind,
                                                .device = (int)(queue / PLAIT_DEVICE_QUEUES),
                                                .queue = queue,
                                                .item = (uint32_t)item},
                                       .place = place};
    return PLAIT_OK;
}

static uint32_t launch_queue(int device) {
    return (uint32_t)device * PLAIT_DEVICE_QUEUES + PLAIT_QUEUE_LAUNCHES;
}

/* The queue of launches where the device has no engine for transfers. */
static uint32_t copy_queue(const builder *b, int device, bool incoming) {
    return (uint32_t)device * PLAIT_DEVICE_QUEUES +
           (uint32_t)plait_context_copy_queue(&b->plan->context->devices[device], incoming);
}

/* ---- values ---- */

/* A new instance holds nothing. Sizes are those at the bounds, rounded to the device's alignment, so offsets behind it
 * are aligned. */
static plait_status add_value(builder *b, uint32_t storage, int device, uint32_t *out) {
    plait_plan *plan = b->plan;
    size_t v = plan->n_values;
    PLAIT_TRY(grow_values(b, v + 1));
    plan->values[v] = (plait_plan_value){.storage = storage,
                                         .device = device,
                                         .slot = PLAIT_SLOT_ARENA,
                                         .held_until = -1,
                                         .offset = PLAIT_NO_OFFSET,
                                         .first = -1,
                                         .last = -1,
                                         .alias = (uint32_t)v};
    if (!plait_align_u64(storage_of(b, storage)->size_bytes, plan->context->devices[device].info.alignment,
                         &plan->values[v].size_bytes))
        return plait_error(PLAIT_OUT_OF_RANGE, "value \"%s\": %llu bytes", storage_of(b, storage)->name,
                           (unsigned long long)storage_of(b, storage)->size_bytes);
    b->holdings[v] = (holding){.complete = false};
    b->next_holder[v] = b->last_holder[storage];
    b->last_holder[storage] = (uint32_t)v + 1;
    plan->n_values++;
    plan->value_of[(size_t)device * plan->graph->n_storages + storage] = (uint32_t)v + 1;
    *out = (uint32_t)v;
    return PLAIT_OK;
}

/* The value's index; it is added if it is not there. */
static plait_status ensure_value(builder *b, uint32_t storage, int device, uint32_t *out) {
    uint32_t v = find_value(b, storage, device);
    if (!v) return add_value(b, storage, device, out);
    *out = v - 1;
    return PLAIT_OK;
}

/* A weight or state where the residence has it. The residence may have been made from other graphs than this one, so
 * type and shape are compared; the value takes slot, offset and encoding from it, and no later pass gives it another
 * place. */
static plait_status add_resident(builder *b, uint32_t storage, int device, uint32_t *out) {
    plait_plan *plan = b->plan;
    const plait_graph_storage *row = storage_of(b, storage);
    const plait_operand *shape = &plan->graph->tensors[row->root].shape;
    const plait_resident *entry = plait_plan_resident(plan, storage, device);
    if (!entry)
        return plait_error(PLAIT_INTERNAL, "\"%s\" is not on %s", row->name,
                           plan->context->devices[device].device->name);
    if (memcmp(entry->shape.dims, shape->dims, sizeof shape->dims) != 0 || entry->shape.dtype != shape->dtype)
        return plait_error(PLAIT_INVALID_ARGUMENT, "\"%s\" has another type or shape in the residence",
                           row->name);
    PLAIT_TRY(add_value(b, storage, device, out));
    plait_plan_value *value = &plan->values[*out];
    value->slot = entry->slot;
    value->offset = entry->offset;
    value->size_bytes = entry->size_bytes;
    value->encoding = entry->encoding;
    b->holdings[*out].complete = true;
    return PLAIT_OK;
}

/* Inputs of a device lie one behind the other in a buffer of their own, once for each step in flight. */
static plait_status add_input(builder *b, uint32_t storage, int device) {
    plait_plan *plan = b->plan;
    plait_plan_device *row = &plan->devices[device];
    uint32_t v = 0;
    PLAIT_TRY(GROW(&plan->arena, plan->inputs, plan->input_capacity, plan->n_inputs + 1, "plan inputs"));
    PLAIT_TRY(add_value(b, storage, device, &v));
    plan->values[v].slot = PLAIT_SLOT_INPUTS;
    plan->values[v].offset = row->input_bytes;
    if (!plait_add_u64(row->input_bytes, plan->values[v].size_bytes, &row->input_bytes))
        return plait_error(PLAIT_OUT_OF_RANGE, "inputs: sizes overflow");
    b->holdings[v].complete = true;
    plan->inputs[plan->n_inputs++] =
        (plait_plan_input){.storage = storage, .device = device, .value = v, .home = PLAIT_NO_SLOT};
    return PLAIT_OK;
}

/* The instance with all bytes of the newest version, + 1; where several have them, one that did not come by a
 * transfer, of the first device. 0: there is none. */
static uint32_t newest(const builder *b, uint32_t storage) {
    uint32_t found = 0;
    for (uint32_t v = b->last_holder[storage]; v; v = b->next_holder[v - 1]) {
        const holding *h = &b->holdings[v - 1];
        const plait_plan_value *value = &b->plan->values[v - 1],
                               *best = found ? &b->plan->values[found - 1] : NULL;
        if (!h->complete || h->version != b->versions[storage]) continue;
        if (!best || best->arrives > value->arrives ||
            (best->arrives == value->arrives && value->device < best->device))
            found = v;
    }
    return found;
}

/* ---- what is read, before anything is built ---- */

/* A node on the device reads the tensor (or writes it in place). All readings of one version are put together, as one
 * transfer will serve them: the only tensor, while there is one, keeps its gaps; else the bytes from the first to the
 * last. Inputs and weights are not counted: they never move between devices in parts. */
static plait_status add_reading(builder *b, uint32_t tensor_id, int device, bool written) {
    const plait_graph_tensor *tensor = &b->plan->graph->tensors[tensor_id];
    const plait_graph_storage *storage = storage_of(b, tensor->storage);
    if (storage->kind != PLAIT_STORAGE_TEMPORARY && storage->kind != PLAIT_STORAGE_STATE) return PLAIT_OK;
    uint32_t *last = &b->last_read[(size_t)device * b->plan->graph->n_storages + tensor->storage];
    uint32_t version = b->versions[tensor->storage];
    uint64_t begin = tensor->offset, end = begin + (uint64_t)plait_operand_span_bytes(&tensor->shape);
    reading *r = *last ? &b->readings[*last - 1] : NULL;
    if (!r || r->version != version) {
        PLAIT_TRY(GROW(&b->arena, b->readings, b->reading_capacity, b->n_readings + 1, "plan"));
        uint32_t at = (uint32_t)b->n_readings++;
        uint32_t first = *last ? b->readings[*last - 1].next : at;
        b->readings[at] = (reading){version, tensor_id, begin, end, written, first};
        if (*last) b->readings[*last - 1].next = at;
        *last = at + 1;
        return PLAIT_OK;
    }
    if (r->tensor != tensor_id) r->tensor = 0;
    if (begin < r->begin) r->begin = begin;
    if (end > r->end) r->end = end;
    r->whole |= written;
    return PLAIT_OK;
}

/* A node that writes rows of a state, as the host's ids say, and does nothing else with it, needs no bytes of it. */
static bool only_writes_rows(const builder *b, uint32_t n, int input) {
    const plait_graph *graph = b->plan->graph;
    const plait_graph_node *node = &graph->nodes[n];
    plait_plan_part part;
    return input == node->op->writes_input &&
           storage_of(b, graph->tensors[node->inputs[input]].storage)->kind == PLAIT_STORAGE_STATE &&
           plait_part_of_rows(graph, n, &part);
}

/* Nodes are walked once before anything is built, since what a transfer has to bring depends on readers that come later
 * in the program. Versions are counted as building will count them, and set back. `reads`: whether a device does more
 * with a state than write rows of it; if not, it needs none of its bytes. */
static plait_status collect_readings(builder *b) {
    const plait_graph *graph = b->plan->graph;
    if (b->plan->context->n_devices == 1) return PLAIT_OK; /* nothing will ever move */
    for (uint32_t n = 0; n < graph->n_nodes; n++) {
        const plait_graph_node *node = &graph->nodes[n];
        int device = b->plan->placements[n].device;
        for (int i = 0; i < node->n_inputs; i++) {
            if (!node->inputs[i]) continue;
            PLAIT_TRY(add_reading(b, node->inputs[i], device, i == node->op->writes_input));
            bool *reads =
                &b->reads[(size_t)device * graph->n_storages + graph->tensors[node->inputs[i]].storage];
            *reads = *reads || !only_writes_rows(b, n, i);
        }
        for (int o = 0; o < node->n_outputs; o++) b->versions[graph->tensors[node->outputs[o]].storage]++;
    }
    memset(b->versions, 0, graph->n_storages * sizeof *b->versions);
    return PLAIT_OK;
}

/* What the device reads of the newest version; NULL: nothing. Older versions are dropped from the ring. The ring of a
 * device and storage begins, behind its last entry, with the oldest version; building asks with versions that only
 * grow, so what is older is never asked for again. Amortised: each reading is dropped once. */
static const reading *reading_of(builder *b, uint32_t storage, int device) {
    uint32_t *last = &b->last_read[(size_t)device * b->plan->graph->n_storages + storage];
    while (*last) {
        reading *tail = &b->readings[*last - 1], *head = &b->readings[tail->next];
        if (head->version == b->versions[storage]) return head;
        if (head->version > b->versions[storage]) return NULL;
        if (head == tail)
            *last = 0;
        else
            tail->next = head->next;
    }
    return NULL;
}

/* ---- transfers ---- */

/* All bytes at the current dims: a part without levels follows the storage's size. */
static plait_plan_part whole_part(const builder *b, uint32_t storage) {
    return plait_part_range(0, storage_of(b, storage)->size_bytes);
}

/* The bytes that were written since the version that the device has. One range over all of those writes: bytes between
 * them are the same on both sides, and moving them costs less than a command each, or nothing where there is one write.
 */
static plait_plan_part written_since(const builder *b, uint32_t storage, uint32_t version) {
    uint64_t begin = UINT64_MAX, end = 0;
    for (uint32_t w = b->last_write[storage]; w && b->writes[w - 1].version > version;
         w = b->writes[w - 1].next) {
        if (b->writes[w - 1].begin < begin) begin = b->writes[w - 1].begin;
        if (b->writes[w - 1].end > end) end = b->writes[w - 1].end;
    }
    return begin < end ? plait_part_range(begin, end) : plait_part_range(0, 0);
}

/* What has to go to a value, and whether it then has all bytes. A value that once had everything needs what was written
 * since. One that had not needs what its device reads of this version; all, if a node there writes in place, because
 * what comes home from it must be whole. A part of rows is only worth something where both sides take boxes, or in few
 * commands (transfer.c). */
static plait_plan_part choose_part(builder *b, uint32_t storage, const plait_plan_value *source,
                                   uint32_t target, bool *out_complete) {
    const plait_plan_value *value = &b->plan->values[target];
    const reading *r = reading_of(b, storage, value->device);
    const plait_graph *graph = b->plan->graph;
    const plait_context_entry *devices = b->plan->context->devices;
    uint64_t size_bytes = storage_of(b, storage)->size_bytes;
    *out_complete = true;
    /* It was whole at an older version: what has changed since makes it whole again. */
    if (b->holdings[target].complete) return written_since(b, storage, b->holdings[target].version);
    /* Nothing is known to read it (it goes home), or it is written in place, or all of it is read. */
    if (!r || r->whole || (r->begin == 0 && r->end >= size_bytes && !r->tensor))
        return whole_part(b, storage);
    bool boxes =
        (devices[source->device].info.caps & devices[value->device].info.caps & PLAIT_CAP_BOXES) != 0;
    plait_plan_part part = r->tensor ? plait_part_of_tensor(&graph->tensors[r->tensor], boxes)
                                     : plait_part_range(r->begin, r->end);
    *out_complete = part.n_levels == 0 && part.begin == 0 && part.end >= size_bytes;
    return part;
}

/* Commands stand behind what makes their bytes, at the even places between launches. FIRST_PLACE gives 0. */
static int64_t place_behind(int64_t place) {
    return (place + 1) & ~(int64_t)1;
}

/* A temporary does not arrive earlier than one launch ahead: it would hold memory without need. State and inputs have
 * their place anyway. */
static int64_t earliest_arrival(const builder *b, const plait_plan_value *target) {
    if (target->slot != PLAIT_SLOT_ARENA) return 0;
    return place_behind(plait_max_i64(b->launches[target->device][1], 0));
}

/* The commands of a transfer, and what they mean for both values. Sent through the host, bytes leave as soon as they
 * are made, so that the way back to the host overlaps with what the source does next; they arrive behind whatever still
 * uses the target's older bytes. */
static plait_status add_transfer_steps(builder *b, const plait_plan_transfer *transfer, uint32_t queue) {
    size_t t = b->plan->n_transfers;
    holding *from = &b->holdings[transfer->source], *to = &b->holdings[transfer->target];
    const plait_plan_value *target = &b->plan->values[transfer->target];
    int64_t leave = place_behind(from->made);
    int64_t arrive =
        plait_max_i64(plait_max_i64(leave, place_behind(to->touched)), earliest_arrival(b, target));
    bool staged = transfer->route == PLAIT_ROUTE_STAGED;
    if (staged) PLAIT_TRY(add_draft(b, PLAIT_STEP_SEND, queue, t, leave));
    PLAIT_TRY(add_draft(b, staged ? PLAIT_STEP_RECEIVE : PLAIT_STEP_MOVE,
                        staged ? copy_queue(b, target->device, true) : queue, t, arrive));
    from->touched = plait_max_i64(from->touched, staged ? leave : arrive);
    to->made = to->touched = arrive;
    return PLAIT_OK;
}

/* `size_bytes` is at the bounds; runs move what the dims leave of it. */
static plait_status append_transfer(builder *b, uint32_t source, uint32_t target,
                                    const plait_plan_part *part) {
    plait_plan *plan = b->plan;
    uint32_t queue;
    PLAIT_TRY(GROW(&plan->arena, plan->transfers, plan->transfer_capacity, plan->n_transfers + 1,
                   "plan transfers"));
    plait_plan_transfer *transfer = &plan->transfers[plan->n_transfers];
    *transfer = (plait_plan_transfer){.source = source, .target = target, .part = *part};
    transfer->size_bytes = plait_part_bytes(part);
    transfer->route =
        plait_transfer_route(plan->context, plan->values[source].device, plan->values[target].device, &queue);
    PLAIT_TRY(add_transfer_steps(b, transfer, queue));
    plan->values[target].arrives = true;
    plan->n_transfers++;
    return PLAIT_OK;
}

/* The rows of each write since the version that the target has whole, in the order of the writes: from `source` + 1,
 * or, 0, from where each was made. *out: false, and nothing done, when they can not be told. Writes are linked from the
 * newest, so they are listed and sent in reverse: a row that was written twice ends with its last bytes. */
static plait_status send_rows(builder *b, uint32_t storage, uint32_t source, uint32_t target, bool *out) {
    uint32_t n = 0, first = b->last_write[storage], version = b->holdings[target].version;
    plait_plan_part part;
    *out = false;
    for (uint32_t w = first; w && b->writes[w - 1].version > version; w = b->writes[w - 1].next, n++)
        if (!plait_part_of_rows(b->plan->graph, b->writes[w - 1].node, &part)) return PLAIT_OK;
    uint32_t *order = plait_arena_alloc(&b->arena, n, sizeof *order);
    if (!order) return plait_error_memory("plan transfers", n * sizeof *order);
    for (uint32_t w = first, i = n; i > 0; w = b->writes[w - 1].next) order[--i] = w - 1;
    for (uint32_t i = 0; i < n; i++) {
        const write *w = &b->writes[order[i]];
        (void)plait_part_of_rows(b->plan->graph, w->node, &part);
        PLAIT_TRY(append_transfer(b, source ? source - 1 : w->value, target, &part));
    }
    *out = n > 0;
    return PLAIT_OK;
}

static plait_status need(builder *b, uint32_t storage, int device);

/* Brings a temporary, or a state, from a device that has its newest bytes to the value, which is on another device. A
 * target that was whole gets rows if it can; else a part or everything. Where no device is whole, because several have
 * written rows, they are brought together at home first; need() and this call each other once then, as home gets rows.
 */
static plait_status add_transfer(builder *b, uint32_t storage, uint32_t target) {
    uint32_t source = newest(b, storage);
    bool complete = true, sent = false;
    if (b->holdings[target].complete) PLAIT_TRY(send_rows(b, storage, source, target, &sent));
    if (!sent && !source) { /* rows were written in several places: together they are whole at home */
        const plait_resident *entry = plait_plan_resident(b->plan, storage, -1);
        if (entry && entry->device != b->plan->values[target].device)
            PLAIT_TRY(need(b, storage, entry->device));
        source = newest(b, storage);
        if (!source)
            return plait_error(PLAIT_INTERNAL, "\"%s\" is read before it is made",
                               storage_of(b, storage)->name);
    }
    if (!sent) {
        plait_plan_part part = choose_part(b, storage, &b->plan->values[source - 1], target, &complete);
        PLAIT_TRY(append_transfer(b, source - 1, target, &part));
    }
    b->holdings[target].version = b->versions[storage];
    b->holdings[target].complete = complete;
    return PLAIT_OK;
}

/* Rows are to be written elsewhere: what was written before, as rows that can not be told, is at home first. Once rows
 * lie elsewhere no device is whole any more, and a write in between that cannot be told as rows could not be brought
 * home from anywhere. */
static plait_status settle_home(builder *b, uint32_t storage, uint32_t home) {
    plait_plan_part part;
    for (uint32_t w = b->last_write[storage]; w && b->writes[w - 1].version > b->holdings[home].version;
         w = b->writes[w - 1].next)
        if (!plait_part_of_rows(b->plan->graph, b->writes[w - 1].node, &part))
            return add_transfer(b, storage, home);
    return PLAIT_OK;
}

/* A state at home is where the residence has it; elsewhere it is a copy. The instance at home is made even if only
 * another device uses it: that is where it comes from and goes back to. A device that merely writes rows takes over the
 * version number without any bytes, which its holding says by not being complete. */
static plait_status need_state(builder *b, uint32_t storage, int device) {
    const plait_resident *entry = plait_plan_resident(b->plan, storage, -1);
    int home = entry ? entry->device : device;
    uint32_t v = 0;
    if (!find_value(b, storage, home)) PLAIT_TRY(add_resident(b, storage, home, &v));
    PLAIT_TRY(ensure_value(b, storage, device, &v));
    /* At home and newest: the usual case, nothing moves. */
    if (device == home && b->holdings[v].version == b->versions[storage]) return PLAIT_OK;
    if (device != home && !b->reads[(size_t)device * b->plan->graph->n_storages + storage]) {
        PLAIT_TRY(settle_home(b, storage, find_value(b, storage, home) - 1));
        b->holdings[v].version = b->versions[storage]; /* rows are written here, and sent from here */
        return PLAIT_OK;
    }
    return add_transfer(b, storage, v);
}

/* Makes sure that the newest bytes of a storage are there when the device reads it. Inputs come from the host to every
 * device by themselves, weights are there. */
static plait_status need(builder *b, uint32_t storage, int device) {
    uint32_t v = find_value(b, storage, device);
    plait_storage_kind kind = storage_of(b, storage)->kind;
    if (kind == PLAIT_STORAGE_INPUT) return v ? PLAIT_OK : add_input(b, storage, device);
    if (kind == PLAIT_STORAGE_WEIGHT) return v ? PLAIT_OK : add_resident(b, storage, device, &v);
    if (v && b->holdings[v - 1].version == b->versions[storage]) return PLAIT_OK;
    if (kind == PLAIT_STORAGE_STATE) return need_state(b, storage, device);
    PLAIT_TRY(ensure_value(b, storage, device, &v));
    return add_transfer(b, storage, v);
}

/* What was written elsewhere goes home before the step ends. Weights have no versions, temporaries no home. With one
 * device need() finds nothing to do. */
static plait_status send_home(builder *b) {
    for (uint32_t s = 0; s < b->plan->graph->n_storages; s++) {
        if (storage_of(b, s)->kind != PLAIT_STORAGE_STATE || b->versions[s] == 0) continue;
        const plait_resident *entry = plait_plan_resident(b->plan, s, -1);
        if (entry) PLAIT_TRY(need(b, s, entry->device));
    }
    return PLAIT_OK;
}

/* ---- building segments ---- */

/* Fills every member where it stays: a struct that is built first and copied then takes a tenth of this pass. */
static void fill_operand(const builder *b, uint32_t tensor_id, uint32_t value, plait_segment_operand *out) {
    const plait_graph_tensor *tensor = &b->plan->graph->tensors[tensor_id];
    plait_storage_kind kind = storage_of(b, tensor->storage)->kind;
    out->shape = tensor->shape;
    out->outer = tensor->outer;
    out->value = value;
    out->storage = tensor->storage;
    out->slot = PLAIT_NO_SLOT;
    out->offset = 0;
    out->view_offset = tensor->offset;
    out->encoding = b->plan->values[value].encoding;
    out->is_weight = kind == PLAIT_STORAGE_WEIGHT;
    out->needed_after = kind == PLAIT_STORAGE_STATE;
}

/* For transfers of what changed; with one device nobody asks. */
static plait_status note_write(builder *b, const plait_graph_tensor *tensor, uint32_t value, uint32_t node) {
    if (b->plan->context->n_devices == 1) return PLAIT_OK;
    PLAIT_TRY(GROW(&b->arena, b->writes, b->write_capacity, b->n_writes + 1, "plan"));
    b->writes[b->n_writes++] =
        (write){.version = b->versions[tensor->storage],
                .next = b->last_write[tensor->storage],
                .begin = tensor->offset,
                .end = tensor->offset + (uint64_t)plait_operand_span_bytes(&tensor->shape),
                .value = value,
                .node = node};
    b->last_write[tensor->storage] = (uint32_t)b->n_writes;
    return PLAIT_OK;
}

/* Output o of a node. A value that is made is complete; one that is written in place stays what it was. Version and
 * places move on with it: whoever reads from now on finds this device the newest. */
static plait_status fill_output(builder *b, uint32_t n, int o, int device, int64_t place,
                                plait_segment_operand *out) {
    const plait_graph_node *node = &b->plan->graph->nodes[n];
    const plait_graph_tensor *tensor = &b->plan->graph->tensors[node->outputs[o]];
    uint32_t v = 0;
    PLAIT_TRY(ensure_value(b, tensor->storage, device, &v));
    /* Outputs but the first of an op that writes in place are values of their own. */
    bool in_place = o == 0 && node->op->writes_input >= 0;
    bool complete = !in_place || b->holdings[v].complete;
    b->holdings[v] = (holding){++b->versions[tensor->storage], complete, place, place};
    fill_operand(b, node->outputs[o], v, out);
    return note_write(b, tensor, v, n);
}

/* Operands of all nodes of a segment lie in one array of the plan's, in the order of nodes, inputs first. Absent inputs
 * are zeroed, as the interface promises devices. */
static plait_status fill_node(builder *b, plait_plan_segment *segment, uint32_t n, int64_t place) {
    const plait_graph *graph = b->plan->graph;
    const plait_graph_node *node = &graph->nodes[n];
    plait_segment_node *out = &segment->nodes[segment->n_nodes++];
    out->op = node->op;
    out->name = node->name;
    out->node = n;
    out->n_inputs = node->n_inputs;
    out->n_outputs = node->n_outputs;
    out->present = node->present;
    out->inputs = segment->operands + segment->n_operands;
    out->outputs = out->inputs + node->n_inputs;
    segment->n_operands += (size_t)node->n_inputs + (size_t)node->n_outputs;
    memcpy(out->attrs, node->attrs, sizeof node->attrs);
    for (int i = 0; i < node->n_inputs; i++) {
        if (!node->inputs[i]) {
            out->inputs[i] = (plait_segment_operand){0};
            continue;
        }
        uint32_t v = find_value(b, graph->tensors[node->inputs[i]].storage, segment->device) - 1;
        b->holdings[v].touched = place;
        fill_operand(b, node->inputs[i], v, &out->inputs[i]);
    }
    for (int o = 0; o < node->n_outputs; o++)
        PLAIT_TRY(fill_output(b, n, o, segment->device, place, &out->outputs[o]));
    return PLAIT_OK;
}

/* What the nodes [first, end) read from outside. A temporary that is made inside is passed over; state is asked for in
 * any case, since a node may read it before one of the segment writes it, and by the version it is known whether
 * anything has to come. */
static plait_status need_inputs(builder *b, uint32_t first, uint32_t end, int device) {
    const plait_graph *graph = b->plan->graph;
    for (uint32_t n = first; n < end; n++)
        for (int i = 0; i < graph->nodes[n].n_inputs; i++) {
            const plait_graph_tensor *tensor = &graph->tensors[graph->nodes[n].inputs[i]];
            bool inside = tensor->node != PLAIT_NO_NODE && tensor->node >= first &&
                          graph->storages[tensor->storage].kind == PLAIT_STORAGE_TEMPORARY;
            if (graph->nodes[n].inputs[i] && !inside) PLAIT_TRY(need(b, tensor->storage, device));
        }
    return PLAIT_OK;
}

/* The nodes [first, end) on one device. Everything they need is asked for before the first node is filled, so that
 * transfers stand before the launch; values are made as nodes are filled. */
static plait_status build_segment(builder *b, uint32_t first, uint32_t end) {
    plait_plan *plan = b->plan;
    int device = plan->placements[first].device;
    int64_t place = 2 * (int64_t)plan->n_segments + 1;
    PLAIT_TRY(need_inputs(b, first, end, device));
    PLAIT_TRY(
        GROW(&plan->arena, plan->segments, plan->segment_capacity, plan->n_segments + 1, "plan segments"));
    plait_plan_segment *segment = &plan->segments[plan->n_segments];
    *segment = (plait_plan_segment){.device = device, .first_node = first};
    segment->nodes = plait_arena_take(&plan->arena, end - first, sizeof *segment->nodes);
    size_t n_operands = 0;
    for (uint32_t n = first; n < end; n++)
        n_operands += (size_t)plan->graph->nodes[n].n_inputs + (size_t)plan->graph->nodes[n].n_outputs;
    segment->operands = plait_arena_take(&plan->arena, n_operands, sizeof *segment->operands);
    if (!segment->nodes || !segment->operands)
        return plait_error_memory("plan segments", n_operands * sizeof *segment->operands);
    for (uint32_t n = first; n < end; n++) PLAIT_TRY(fill_node(b, segment, n, place));
    segment->segment = (plait_segment){.struct_bytes = sizeof segment->segment,
                                       .n_nodes = (int)segment->n_nodes,
                                       .nodes = segment->nodes,
                                       .n_dims = (int)plan->graph->n_dims,
                                       .bounds = plan->bounds};
    b->launches[device][1] = b->launches[device][0];
    b->launches[device][0] = place;
    return add_draft(b, PLAIT_STEP_LAUNCH, launch_queue(device), plan->n_segments++, place);
}

/* ---- outputs and inputs ---- */

/* A value that shows the tensor: the newest, or for what no node touches, one on the first device that can have it. Any
 * device will do for an input or a resident; none has a temporary that nobody made. */
static plait_status output_value(builder *b, uint32_t storage, uint32_t *out) {
    const plait_plan *plan = b->plan;
    *out = newest(b, storage);
    for (int d = 0; d < plan->context->n_devices && !*out; d++) {
        bool here =
            storage_of(b, storage)->kind == PLAIT_STORAGE_INPUT || plait_plan_resident(plan, storage, d);
        if (here) PLAIT_TRY(need(b, storage, d));
        *out = find_value(b, storage, d);
    }
    return PLAIT_OK;
}

/* Outputs are read on the queue that carries what leaves the device, behind what made them, not at the end of the step:
 * a pipeline reads early outputs while later launches run. Packed weights cannot be shown; encode.c keeps those in file
 * form. */
static plait_status build_outputs(builder *b) {
    plait_plan *plan = b->plan;
    const plait_graph *graph = plan->graph;
    for (size_t o = 0; o < graph->n_outputs; o++) {
        const plait_graph_tensor *tensor = &graph->tensors[graph->outputs[o].tensor];
        uint32_t v = 0;
        PLAIT_TRY(output_value(b, tensor->storage, &v));
        if (!v) return plait_error(PLAIT_INTERNAL, "output \"%s\" has no value", graph->outputs[o].name);
        plait_plan_value *value = &plan->values[--v];
        if (value->encoding != PLAIT_ENCODING_FILE)
            return plait_error(PLAIT_INTERNAL, "output \"%s\" is a packed weight", graph->outputs[o].name);
        value->is_output = true;
        plan->outputs[o] =
            (plait_plan_output){.output = (uint32_t)o,
                                .value = v,
                                .source_offset = tensor->offset,
                                .size_bytes = (uint64_t)plait_operand_span_bytes(&tensor->shape)};
        PLAIT_TRY(add_draft(b, PLAIT_STEP_READ_OUTPUT, copy_queue(b, value->device, false), o,
                            place_behind(b->holdings[v].made)));
    }
    plan->n_outputs = graph->n_outputs;
    return PLAIT_OK;
}

/* Takes room in a staging area; offsets are multiples of 64, so that no two transfers share a cache line and host
 * copies are aligned. */
static plait_status take_staging(uint64_t size_bytes, uint64_t *at, uint64_t *out_offset) {
    uint64_t aligned;
    *out_offset = *at;
    if (!plait_align_u64(size_bytes, 64, &aligned) || !plait_add_u64(*at, aligned, at))
        return plait_error(PLAIT_OUT_OF_RANGE, "staging: sizes overflow");
    return PLAIT_OK;
}

/* Where the host writes the input: in a mapped device's memory if one reads it, else in staging. `entries`: [storage]
 * the entry that settles it, + 1. Two passes, since a mapped reader may come after one that is not: all entries of an
 * input must name one place. A command brings it to every other device, before everything else in the step. */
static plait_status place_inputs(builder *b, uint32_t *entries) {
    plait_plan *plan = b->plan;
    for (size_t i = 0; i < plan->n_inputs; i++) {
        const plait_context_entry *device = &plan->context->devices[plan->inputs[i].device];
        if (!(device->info.caps & PLAIT_CAP_MAPPED) || entries[plan->inputs[i].storage]) continue;
        entries[plan->inputs[i].storage] = (uint32_t)i + 1;
        plan->inputs[i].home = (uint32_t)i;
    }
    for (size_t i = 0; i < plan->n_inputs; i++) {
        plait_plan_input *input = &plan->inputs[i];
        uint32_t *entry = &entries[input->storage];
        if (!*entry) { /* no reader is mapped */
            *entry = (uint32_t)i + 1;
            PLAIT_TRY(take_staging(storage_of(b, input->storage)->size_bytes, &plan->input_staging_bytes,
                                   &input->host_offset));
        }
        input->home = plan->inputs[*entry - 1].home;
        input->host_offset = plan->inputs[*entry - 1].host_offset;
        if (input->home != i)
            PLAIT_TRY(
                add_draft(b, PLAIT_STEP_WRITE_INPUT, copy_queue(b, input->device, true), i, FIRST_PLACE));
    }
    return PLAIT_OK;
}

/* Inputs that nothing reads have a place in staging all the same, from which they go nowhere. The host may write any
 * input of the graph by its name. */
static plait_status add_unread_input(builder *b, uint32_t storage) {
    plait_plan *plan = b->plan;
    PLAIT_TRY(GROW(&plan->arena, plan->inputs, plan->input_capacity, plan->n_inputs + 1, "plan inputs"));
    plait_plan_input *input = &plan->inputs[plan->n_inputs++];
    *input =
        (plait_plan_input){.storage = storage, .device = -1, .value = PLAIT_NO_SLOT, .home = PLAIT_NO_SLOT};
    return take_staging(storage_of(b, storage)->size_bytes, &plan->input_staging_bytes, &input->host_offset);
}

/* Places of inputs, outputs and transfers in the run's staging: three areas that do not depend on one another. Only
 * transfers that go through the host take any. */
static plait_status stage(builder *b) {
    plait_plan *plan = b->plan;
    uint32_t *entries = plait_arena_alloc(&b->arena, plan->graph->n_storages, sizeof *entries);
    if (!entries) return plait_error_memory("plan inputs", plan->graph->n_storages * sizeof *entries);
    PLAIT_TRY(place_inputs(b, entries));
    for (uint32_t s = 0; s < plan->graph->n_storages; s++)
        if (storage_of(b, s)->kind == PLAIT_STORAGE_INPUT && !b->last_holder[s])
            PLAIT_TRY(add_unread_input(b, s));
    for (size_t o = 0; o < plan->n_outputs; o++)
        PLAIT_TRY(take_staging(plan->outputs[o].size_bytes, &plan->output_staging_bytes,
                               &plan->outputs[o].host_offset));
    for (size_t t = 0; t < plan->n_transfers; t++) {
        plait_plan_transfer *transfer = &plan->transfers[t];
        if (transfer->route != PLAIT_ROUTE_STAGED) continue;
        transfer->staging_bytes = transfer->size_bytes;
        PLAIT_TRY(
            take_staging(transfer->staging_bytes, &plan->transfer_staging_bytes, &transfer->staging_offset));
    }
    return PLAIT_OK;
}

/* ---- the list ---- */

/* Sorts the steps by place; those of one place stay in the order in which they were made, which respects what they need
 * of each other. A counting sort, places are dense. */
static plait_status list_steps(builder *b) {
    plait_plan *plan = b->plan;
    size_t n_places = 2 * plan->n_segments + 3;
    size_t *starts = plait_arena_alloc(&b->arena, n_places + 1, sizeof *starts);
    plan->steps = plait_arena_alloc(&plan->arena, b->n_drafts, sizeof *plan->steps);
    if (!starts || !plan->steps) return plait_error_memory("plan steps", b->n_drafts * sizeof *plan->steps);
    for (size_t i = 0; i < b->n_drafts; i++) starts[b->drafts[i].place - FIRST_PLACE + 1]++;
    for (size_t p = 0; p < n_places; p++) starts[p + 1] += starts[p];
    for (size_t i = 0; i < b->n_drafts; i++)
        plan->steps[starts[b->drafts[i].place - FIRST_PLACE]++] = b->drafts[i].step;
    plan->n_steps = b->n_drafts;
    return PLAIT_OK;
}

/* Segments are as long as the device stays the same: a longer run gives the device more to fuse, and a launch less to
 * pay. State goes home before outputs are built: then one device has all of it, also where rows were written in several
 * places. */
static plait_status build(builder *b) {
    plait_plan *plan = b->plan;
    uint32_t n_nodes = (uint32_t)plan->graph->n_nodes;
    PLAIT_TRY(collect_readings(b));
    for (uint32_t first = 0, end; first < n_nodes; first = end) {
        for (end = first + 1;
             end < n_nodes && plan->placements[end].device == plan->placements[first].device;)
            end++;
        PLAIT_TRY(build_segment(b, first, end));
    }
    PLAIT_TRY(send_home(b));
    PLAIT_TRY(build_outputs(b));
    PLAIT_TRY(stage(b));
    return list_steps(b);
}

plait_status plait_plan_segment_nodes(plait_plan *plan) {
    builder b = {.plan = plan};
    plait_arena_init_pooled(&b.arena, &plan->context->pool);
    plait_status status = init_builder(&b);
    if (status == PLAIT_OK) status = build(&b);
    plait_arena_deinit(&b.arena);
    return status;
}
