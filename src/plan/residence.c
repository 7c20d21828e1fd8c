/* Residence: on which device every weight and state of a model lives. Decided from all graphs at once, before any plan:
 * for several devices in spread.c, for one here; encodings are chosen in encode.c, memory is allocated by load.c.
 *
 * Invariant: a weight has an entry on every device that runs a reader of it, so that no step ever moves weights;
 * a state has exactly one entry, its home: a device that runs all its writers, and its readers too, where there is one. */
#include "plan/plan.h"

#include "base/alloc.h"
#include "base/glob.h"
#include "base/size.h"
#include "base/status.h"
#include "base/strbuf.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Copies of a name form a list through `next`, as many as there are devices at most; -1 asks for whichever was added
 * first. */
plait_resident *plait_residence_find(const plait_residence *residence, const char *name, int device) {
    uint32_t first;
    if (!plait_map_get(&residence->names, name, strlen(name), &first)) return NULL;
    for (int32_t i = (int32_t)first; i >= 0; i = residence->entries[i].next)
        if (device < 0 || residence->entries[i].device == device) return &residence->entries[i];
    return NULL;
}

/* Names of blocks, for pins: blk.0, blk.1, ... */
static bool matches_block(const char *pattern, int32_t block) {
    char name[32];
    snprintf(name, sizeof name, "blk.%d", (int)block);
    return block >= 0 && plait_glob_matches(pattern, name);
}

/* The first pin of the user's list that matches either the name or the block; *out_rank is untouched when there is
 * none. */
int plait_residence_pin(const plait_residence *residence, const char *name, int32_t block, int *out_rank) {
    for (int i = 0; i < residence->n_pins; i++)
        if (plait_glob_matches(residence->pins[i].pattern, name) ||
            matches_block(residence->pins[i].pattern, block)) {
            *out_rank = i;
            return residence->pins[i].device;
        }
    return -1;
}

/* Blocks lie in order of their numbers between two entries of number -1, so the search is for the last one that is
 * not behind `block`: where many blocks were put together under the number of the first, those between two numbers
 * belong to the lower one. */
int plait_residence_block_device(const plait_residence *residence, int32_t block) {
    size_t low = 0, high = residence->n_blocks;
    while (low < high) { /* numbers ascend; what has none stands at both ends */
        size_t middle = low + (high - low) / 2;
        int32_t number = residence->blocks[middle].number;
        bool behind = number < 0 ? middle > 0 : number > block;
        *(behind ? &high : &low) = behind ? middle : middle + 1;
    }
    return low > 0 && residence->blocks[low - 1].number >= 0 ? residence->blocks[low - 1].device : -1;
}

/* ---- entries ---- */

/* Graphs of a model are built apart, and name the same weights: what differs would be loaded by one graph's idea of
 * it and read by the other's. Strides need no look, roots are dense. */
plait_status plait_residence_check_same(plait_storage_kind kind, const plait_operand *shape,
                                        const plait_graph *graph, uint32_t storage) {
    const plait_graph_storage *row = &graph->storages[storage];
    const plait_operand *other = &graph->tensors[row->root].shape;
    if (kind == row->kind && shape->dtype == other->dtype &&
        memcmp(shape->dims, other->dims, sizeof shape->dims) == 0)
        return PLAIT_OK;
    return plait_error(PLAIT_INVALID_ARGUMENT,
                       "\"%s\" has another type or shape in graph %s than in an earlier graph", row->name,
                       graph->name);
}

void plait_residence_set_form(plait_resident *entry, const plait_encoding_offer *form) {
    entry->encoding = form->encoding;
    memcpy(entry->encoding_name, form->name, sizeof entry->encoding_name);
    entry->size_bytes = form->size_bytes;
    entry->alignment = form->alignment;
}

/* The limit (2^16 times the length of a name) is a fuse far beyond any model: entries are numbered in 32 bits. */
static plait_status grow_entries(plait_residence *residence, size_t n) {
    return plait_grow(&residence->entries, &residence->entry_capacity, n, sizeof *residence->entries,
                      PLAIT_MAX_NAME << 16, "residence");
}

/* `same`: the first entry of the name, or NULL. A new copy goes to the end of its name's list, since the map shows
 * the first one and indices of graphs remember it. */
static plait_status add_entry(plait_residence *residence, const plait_graph_storage *row,
                              const plait_operand *shape, int device, const plait_encoding_offer *form,
                              plait_cause cause, const plait_resident *same) {
    size_t first =
        same ? (size_t)(same - residence->entries) : residence->n_entries; /* growing moves entries */
    PLAIT_TRY(grow_entries(residence, residence->n_entries + 1));
    plait_resident *entry = &residence->entries[residence->n_entries], *last = &residence->entries[first];
    *entry = (plait_resident){.kind = row->kind,
                              .shape = *shape,
                              .device = device,
                              .cause = cause,
                              .block = row->block,
                              .next = -1};
    entry->name = plait_arena_string(&residence->strings, row->name);
    if (!entry->name) return plait_error_memory("residence", strlen(row->name));
    plait_residence_set_form(entry, form);
    entry->slot = row->kind == PLAIT_STORAGE_STATE ? PLAIT_SLOT_STATE : PLAIT_NO_SLOT;
    if (!same)
        PLAIT_TRY(plait_map_put(&residence->names, entry->name, strlen(entry->name),
                                (uint32_t)residence->n_entries, NULL));
    while (same && last->next >= 0) last = &residence->entries[last->next];
    if (same) last->next = (int32_t)residence->n_entries;
    residence->n_entries++;
    return PLAIT_OK;
}

plait_status plait_residence_add(plait_residence *residence, const plait_graph_storage *row,
                                 const plait_operand *shape, int device, const plait_encoding_offer *form,
                                 plait_cause cause) {
    return add_entry(residence, row, shape, device, form, cause,
                     plait_residence_find(residence, row->name, -1));
}

/* ---- indices ---- */

/* Weights and state are residence's business; inputs and temporaries belong to a plan. */
static bool is_stored(const plait_graph_storage *row) {
    return row->kind == PLAIT_STORAGE_WEIGHT || row->kind == PLAIT_STORAGE_STATE;
}

const uint32_t *plait_residence_index_of(const plait_residence *residence, const plait_graph *graph) {
    for (int g = 0; g < residence->n_indices; g++)
        if (residence->indices[g].graph == graph) return residence->indices[g].first;
    return NULL;
}

/* Empty indices, and room for all names. With one graph all its names are different, so both tables get their final
 * size at once; with several nobody knows how many they share. */
static plait_status init_indices(plait_residence *residence, const plait_graph *const *graphs, int n_graphs) {
    size_t n = 0;
    residence->indices = plait_arena_alloc(&residence->strings, (size_t)n_graphs, sizeof *residence->indices);
    if (!residence->indices) return plait_error_memory("residence", (uint64_t)n_graphs);
    for (int g = 0; g < n_graphs; g++) {
        plait_residence_index *index = &residence->indices[g];
        index->graph = graphs[g];
        index->first = plait_arena_alloc(&residence->strings, graphs[g]->n_storages, sizeof *index->first);
        if (!index->first) return plait_error_memory("residence", graphs[g]->n_storages * 4);
        for (size_t s = 0; s < graphs[g]->n_storages; s++) n += is_stored(&graphs[g]->storages[s]);
    }
    residence->n_indices = n_graphs;
    if (n_graphs > 1) return PLAIT_OK; /* they share names */
    PLAIT_TRY(grow_entries(residence, n));
    return plait_map_reserve(&residence->names, n);
}

/* Storages that got their place while entries were added (one device) are passed over. A graph may declare what no
 * node touches: that has no entry, and stays 0. */
static void fill_indices(plait_residence *residence) {
    for (int g = 0; g < residence->n_indices; g++) {
        plait_residence_index *index = &residence->indices[g];
        for (size_t s = 0; s < index->graph->n_storages; s++) {
            const plait_graph_storage *row = &index->graph->storages[s];
            const plait_resident *entry =
                index->first[s] || !is_stored(row) ? NULL : plait_residence_find(residence, row->name, -1);
            if (entry) index->first[s] = (uint32_t)(entry - residence->entries) + 1;
        }
    }
}

/* ---- one device: everything is there ---- */

/* An entry in file form: the form is chosen when all readers in all graphs are known (encode.c). A pin says only what
 * is true anyway here, but the cause that is shown names it. */
static plait_status add_once(plait_residence *residence, const plait_residence_index *index,
                             uint32_t storage) {
    const plait_graph_storage *row = &index->graph->storages[storage];
    const plait_operand *shape = &index->graph->tensors[row->root].shape;
    if (index->first[storage]) return PLAIT_OK;
    const plait_resident *any = NULL; /* a graph's names are its own; other graphs may have them too */
    if (residence->n_indices > 1) any = plait_residence_find(residence, row->name, -1);
    plait_encoding_offer form = {.name = "file",
                                 .size_bytes = row->size_bytes,
                                 .alignment = residence->context->devices[0].info.alignment};
    index->first[storage] = (uint32_t)(any ? (size_t)(any - residence->entries) : residence->n_entries) + 1;
    if (any) return plait_residence_check_same(any->kind, &any->shape, index->graph, storage);
    int rank;
    bool pinned = plait_residence_pin(residence, row->name, row->block, &rank) == 0;
    return add_entry(residence, row, shape, 0, &form, pinned ? PLAIT_CAUSE_PINNED : PLAIT_CAUSE_ONLY_DEVICE,
                     NULL);
}

/* The storages of a kind that nodes or outputs touch. */
static plait_status add_touched(plait_residence *residence, const plait_residence_index *index,
                                plait_storage_kind kind) {
    const plait_graph *graph = index->graph;
    for (size_t n = 0; n < graph->n_nodes; n++)
        for (int i = 0; i < graph->nodes[n].n_inputs; i++) {
            uint32_t storage = graph->tensors[graph->nodes[n].inputs[i]].storage;
            if (graph->nodes[n].inputs[i] && graph->storages[storage].kind == kind)
                PLAIT_TRY(add_once(residence, index, storage));
        }
    for (size_t o = 0; o < graph->n_outputs; o++) {
        uint32_t storage = graph->tensors[graph->outputs[o].tensor].storage;
        if (graph->storages[storage].kind == kind) PLAIT_TRY(add_once(residence, index, storage));
    }
    return PLAIT_OK;
}

/* States first, as spread.c lists them for several devices: whoever prints entries gets the same order either way. */
static plait_status put_on_one(plait_residence *residence, int n_graphs) {
    for (int g = 0; g < n_graphs; g++)
        PLAIT_TRY(add_touched(residence, &residence->indices[g], PLAIT_STORAGE_STATE));
    for (int g = 0; g < n_graphs; g++)
        PLAIT_TRY(add_touched(residence, &residence->indices[g], PLAIT_STORAGE_WEIGHT));
    return plait_residence_choose_encodings(residence);
}

/* ---- budgets ---- */

/* What the context's arena takes is not free any more, yet it will serve the plans to come: it counts as available,
 * or a second model in a context would find the room of the first one's temporaries gone twice.
 *
 * The default margin is a part of what is free, not of what there is: others' memory is theirs, and a device that is
 * nearly full keeps nearly nothing back. Budgets that the caller gives have no margin, they are taken by the word. */
plait_status plait_residence_find_budgets(plait_residence *residence,
                                          const plait_residence_options *options) {
    plait_context *context = residence->context;
    residence->own_budgets = options && options->budget_bytes;
    residence->budget_bytes =
        plait_arena_alloc(&residence->strings, (size_t)context->n_devices, sizeof *residence->budget_bytes);
    residence->margin_bytes =
        plait_arena_alloc(&residence->strings, (size_t)context->n_devices, sizeof *residence->margin_bytes);
    if (!residence->budget_bytes || !residence->margin_bytes) return plait_error_memory("residence", 0);
    for (int d = 0; d < context->n_devices; d++) {
        plait_device *device = context->devices[d].device;
        uint64_t total, available, *budget = &residence->budget_bytes[d];
        if (residence->own_budgets) {
            *budget = options->budget_bytes[d];
            continue;
        }
        PLAIT_TRY(device->vtable->memory_query(device, &total, &available));
        uint64_t margin = options && options->margin_bytes ? options->margin_bytes[d] : available / 32;
        residence->margin_bytes[d] = margin;
        available = available > margin ? available - margin : 0;
        if (!plait_add_u64(available, context->devices[d].arena_bytes, budget)) *budget = available;
    }
    return PLAIT_OK;
}

/* ---- life ---- */

/* Patterns are copied: the caller's list may be on its stack. A pin to a device that does not exist is an error here;
 * one that matches nothing is none, since patterns are often written for a family of models. */
static plait_status copy_pins(plait_residence *residence, const plait_residence_options *options) {
    residence->pins = plait_alloc_array((size_t)options->n_pins, sizeof *residence->pins);
    if (!residence->pins)
        return plait_error_memory("pins", (uint64_t)options->n_pins * sizeof *residence->pins);
    for (int i = 0; i < options->n_pins; i++) {
        if (options->pins[i].device < 0 || options->pins[i].device >= residence->context->n_devices)
            return plait_error(PLAIT_INVALID_ARGUMENT, "pin %s: device %d, there are %d",
                               options->pins[i].pattern, options->pins[i].device,
                               residence->context->n_devices);
        residence->pins[i] = options->pins[i];
        residence->pins[i].pattern = plait_arena_string(&residence->strings, options->pins[i].pattern);
        if (!residence->pins[i].pattern) return plait_error_memory("pins", 0);
    }
    residence->n_pins = options->n_pins;
    return PLAIT_OK;
}

/* ---- slots and offsets ---- */

/* Puts an entry at the end of `*sum` bytes. */
static plait_status append(plait_resident *entry, uint64_t *sum) {
    uint64_t offset;
    if (!plait_align_u64(*sum, entry->alignment, &offset) || !plait_add_u64(offset, entry->size_bytes, sum))
        return plait_error(PLAIT_OUT_OF_RANGE, "residence: \"%s\": sizes overflow", entry->name);
    entry->offset = offset;
    return PLAIT_OK;
}

/* A weight that takes memory goes behind the others of its device while the buffer may grow; one in file form gets a
 * slot of its own where the device's memory is the host's, so that it can be used where the source has it.
 * `packed_slot`: the slot that is being filled, PLAIT_NO_SLOT before the first. */
static plait_status assign_weight(plait_residence *residence, plait_resident *entry, uint32_t *packed_slot) {
    plait_residence_device *device = &residence->devices[entry->device];
    bool packed = entry->encoding != PLAIT_ENCODING_FILE ||
                  !residence->context->devices[entry->device].info.unified_memory;
    uint64_t most = residence->context->devices[entry->device].info.max_buffer_bytes;
    uint64_t begin = 0; /* where it would stand in the buffer that is being filled */
    bool fits = packed && *packed_slot != PLAIT_NO_SLOT &&
                plait_align_u64(device->weight_bytes[*packed_slot], entry->alignment, &begin) &&
                begin < most && entry->size_bytes <= most - begin;
    uint32_t slot = fits ? *packed_slot : (uint32_t)device->n_weights++;
    if (packed) *packed_slot = slot;
    entry->slot = PLAIT_SLOT_WEIGHTS + slot;
    *(packed ? &device->private_bytes : &device->mapped_bytes) += entry->size_bytes;
    return append(entry, &device->weight_bytes[slot]);
}

/* Devices round buffers up, some to pages of megabytes: budgets compare what is taken, not what was asked for. */
static plait_status add_buffer(plait_device *device, uint64_t size_bytes, uint32_t usage, uint64_t *sum) {
    uint64_t taken;
    PLAIT_TRY(device->vtable->allocation_bytes(device, size_bytes, usage, &taken));
    if (!plait_add_u64(*sum, taken, sum))
        return plait_error(PLAIT_OUT_OF_RANGE, "residence on %s: sizes overflow", device->name);
    return PLAIT_OK;
}

/* The buffers that loading and a session will ask for. What lies in the mapped file takes none. Slots are met through
 * the entry at their beginning; several may stand there when some have no bytes, and only one may count. A slot
 * without bytes gets a buffer of one all the same, as load.c makes it. */
static plait_status count_taken(plait_residence *residence, int d) {
    plait_residence_device *row = &residence->devices[d];
    plait_device *device = residence->context->devices[d].device;
    bool mapped[2] = {false, residence->context->devices[d].info.unified_memory};
    row->taken_bytes = 0;
    for (size_t i = 0; i < residence->n_entries; i++) {
        const plait_resident *entry = &residence->entries[i];
        if (entry->device != d || entry->kind != PLAIT_STORAGE_WEIGHT || entry->offset != 0) continue;
        uint64_t bytes = row->weight_bytes[entry->slot - PLAIT_SLOT_WEIGHTS];
        if (entry->size_bytes == 0 && bytes > 0) continue; /* another one begins there too */
        bool in_file = mapped[entry->encoding == PLAIT_ENCODING_FILE] && bytes > 0;
        if (!in_file)
            PLAIT_TRY(add_buffer(device, bytes ? bytes : 1, PLAIT_BUFFER_WEIGHTS, &row->taken_bytes));
    }
    if (row->state_bytes > 0)
        PLAIT_TRY(add_buffer(device, row->state_bytes, PLAIT_BUFFER_STATE, &row->taken_bytes));
    return PLAIT_OK;
}

/* Offsets follow the order of entries, which follows the graphs: weights that are read one after the other lie one
 * behind the other. */
static plait_status assign_slots(plait_residence *residence) {
    for (int d = 0; d < residence->context->n_devices; d++) {
        plait_residence_device *device = &residence->devices[d];
        uint32_t packed_slot = PLAIT_NO_SLOT;
        device->weight_bytes = plait_alloc_array(residence->n_entries, sizeof *device->weight_bytes);
        device->weights = plait_alloc_array(residence->n_entries, sizeof *device->weights);
        if (!device->weight_bytes || !device->weights)
            return plait_error_memory("residence", residence->n_entries);
        for (size_t i = 0; i < residence->n_entries; i++) {
            plait_resident *entry = &residence->entries[i];
            if (entry->device != d) continue;
            PLAIT_TRY(entry->kind == PLAIT_STORAGE_STATE ? append(entry, &device->state_bytes)
                                                         : assign_weight(residence, entry, &packed_slot));
        }
        PLAIT_TRY(count_taken(residence, d));
    }
    return PLAIT_OK;
}

/* Forms are chosen before slots: an encoding changes a weight's size and whether it needs memory. */
static plait_status decide(plait_residence *residence, const plait_graph *const *graphs, int n_graphs,
                           const plait_residence_options *options) {
    if (options && options->split == PLAIT_SPLIT_TENSOR)
        return plait_error(PLAIT_UNSUPPORTED, "splitting single tensors over devices is not supported yet");
    PLAIT_TRY(init_indices(residence, graphs, n_graphs));
    PLAIT_TRY(plait_residence_find_budgets(residence, options));
    PLAIT_TRY(residence->context->n_devices == 1
                  ? put_on_one(residence, n_graphs)
                  : plait_residence_spread(residence, graphs, n_graphs, options));
    fill_indices(residence);
    return assign_slots(residence);
}

/* Nothing of a device is taken: only answers are asked for. What was made before a failure goes with the release. */
plait_status plait_residence_create(plait_residence **out, plait_context *context,
                                    const plait_graph *const *graphs, int n_graphs,
                                    const plait_residence_options *options) {
    for (int g = 0; g < n_graphs; g++)
        if (!graphs[g]->sealed)
            return plait_error(PLAIT_WRONG_STATE, "residence: graph %s is not sealed", graphs[g]->name);
    plait_residence *residence = plait_alloc_array(1, sizeof *residence);
    if (!residence) return plait_error_memory("residence", sizeof *residence);
    atomic_init(&residence->references, 1);
    residence->context = context;
    plait_arena_init_pooled(&residence->strings, &context->pool);
    plait_map_init(&residence->names);
    residence->devices = plait_alloc_array((size_t)context->n_devices, sizeof *residence->devices);
    plait_status status = residence->devices ? PLAIT_OK : plait_error_memory("residence", 0);
    if (status == PLAIT_OK && options) {
        residence->no_packing = options->no_packing;
        status = copy_pins(residence, options);
    }
    if (status == PLAIT_OK) status = decide(residence, graphs, n_graphs, options);
    if (status != PLAIT_OK) {
        plait_residence_release(residence);
        return status;
    }
    *out = residence;
    return PLAIT_OK;
}

void plait_residence_bytes(const plait_residence *residence, int device, uint64_t *out_private,
                           uint64_t *out_mapped, uint64_t *out_state) {
    const plait_residence_device *row = &residence->devices[device];
    *out_private = row->private_bytes;
    *out_mapped = row->mapped_bytes;
    *out_state = row->state_bytes;
}

/* Compared by what a program can tell, names, devices and addresses, not by causes or predicted times. Entries of two
 * residences that were decided from the same graphs stand in the same order. */
bool plait_residence_same(const plait_residence *a, const plait_residence *b) {
    if (a->n_entries != b->n_entries) return false;
    for (size_t i = 0; i < a->n_entries; i++) {
        const plait_resident *x = &a->entries[i], *y = &b->entries[i];
        if (x->device != y->device || x->slot != y->slot || x->offset != y->offset ||
            x->encoding != y->encoding || strcmp(x->name, y->name) != 0)
            return false;
    }
    return true;
}

/* What a device is to hold, against its budget. UINT64_MAX when the sum overflows, which no budget holds. */
static uint64_t needed(const plait_residence *residence, const uint64_t *temporary_bytes, int d) {
    uint64_t sum;
    bool fits = plait_add_u64(residence->devices[d].taken_bytes, temporary_bytes[d], &sum);
    return fits ? sum : UINT64_MAX;
}

void plait_residence_say_budget(const plait_residence *residence, int d, plait_strbuf *text) {
    plait_strbuf_bytes(text, residence->budget_bytes[d]);
    if (!residence->margin_bytes[d]) return;
    plait_strbuf_append(text, " beside a margin of ");
    plait_strbuf_bytes(text, residence->margin_bytes[d]);
}

/* Every device is listed, also those that have room: what to move where can only be seen from all of them. *out_full
 * is set only if the text could be written, since a failure for want of host memory must not look like a full device.
 */
static plait_status over_budget(const plait_residence *residence, const uint64_t *temporary_bytes,
                                bool *out_full) {
    plait_strbuf text;
    plait_strbuf_init(&text, 0);
    for (int d = 0; d < residence->context->n_devices; d++) {
        const plait_residence_device *row = &residence->devices[d];
        plait_strbuf_printf(&text, "%s%s: weights ", d ? "; " : "",
                            residence->context->devices[d].device->name);
        plait_strbuf_bytes(&text, row->private_bytes);
        plait_strbuf_append(&text, ", state ");
        plait_strbuf_bytes(&text, row->state_bytes);
        plait_strbuf_append(&text, ", temporaries ");
        plait_strbuf_bytes(&text, temporary_bytes[d]);
        plait_strbuf_append(&text, ": ");
        plait_strbuf_bytes(&text, needed(residence, temporary_bytes, d));
        plait_strbuf_append(&text, " of ");
        plait_residence_say_budget(residence, d, &text);
    }
    *out_full = plait_strbuf_status(&text) == PLAIT_OK;
    plait_status status = plait_error(PLAIT_OUT_OF_MEMORY, "it does not fit: %s", plait_strbuf_text(&text));
    plait_strbuf_deinit(&text);
    return status;
}

/* The state of a session lies in one buffer. Weights go on in another buffer where one is full, and the arena is cut
 * into chunks; state has one slot. */
static plait_status check_buffer(const plait_residence *residence, int d, bool *out_full) {
    const plait_context_entry *entry = &residence->context->devices[d];
    uint64_t bytes = residence->devices[d].state_bytes, most = entry->info.max_buffer_bytes;
    if (most == 0 || bytes <= most) return PLAIT_OK;
    *out_full = true;
    return plait_error(PLAIT_OUT_OF_MEMORY,
                       "it does not fit: state on %s takes %llu bytes, but a buffer there at most %llu",
                       entry->device->name, (unsigned long long)bytes, (unsigned long long)most);
}

/* Each device against its own budget first, then those whose memory is the host's together: three devices that each
 * fit into the same RAM need not fit at once. Their budgets are readings of one figure at different moments; the
 * largest counts. */
plait_status plait_residence_check(const plait_residence *residence, const uint64_t *temporary_bytes,
                                   bool *out_full) {
    uint64_t shared = 0, shared_budget = 0;
    *out_full = false;
    for (int d = 0; d < residence->context->n_devices; d++) {
        uint64_t need = needed(residence, temporary_bytes, d);
        if (need > residence->budget_bytes[d]) return over_budget(residence, temporary_bytes, out_full);
        if (!residence->context->devices[d].info.unified_memory || residence->own_budgets) continue;
        if (!plait_add_u64(shared, need, &shared)) shared = UINT64_MAX;
        if (residence->budget_bytes[d] > shared_budget) shared_budget = residence->budget_bytes[d];
    }
    if (shared > shared_budget) return over_budget(residence, temporary_bytes, out_full);
    for (int d = 0; d < residence->context->n_devices; d++) PLAIT_TRY(check_buffer(residence, d, out_full));
    return PLAIT_OK;
}

/* By bytes as they lie, encodings included, so the shares held may differ from those asked even where every block
 * went as wished. */
void plait_residence_shares(const plait_residence *residence, int device, double *out_asked, double *out_held,
                            int *out_n_blocks) {
    double sum = 0, here = 0;
    int n = 0;
    for (int d = 0; d < residence->context->n_devices; d++) {
        const plait_residence_device *row = &residence->devices[d];
        double bytes = (double)row->private_bytes + (double)row->mapped_bytes + (double)row->state_bytes;
        sum += bytes;
        if (d == device) here = bytes;
    }
    for (size_t b = 0; b < residence->n_blocks; b++)
        if (residence->blocks[b].device == device) n += residence->blocks[b].n_blocks;
    *out_asked = residence->asked ? residence->asked[device] : -1;
    *out_held = sum > 0 ? here / sum : 0;
    *out_n_blocks = n;
}

plait_residence *plait_residence_retain(plait_residence *residence) {
    atomic_fetch_add(&residence->references, 1);
    return residence;
}

/* Buffers are destroyed through their own device; the context outlives the residence. */
void plait_residence_release(plait_residence *residence) {
    if (!residence || atomic_fetch_sub(&residence->references, 1) > 1) return;
    for (int d = 0; residence->devices && d < residence->context->n_devices; d++) {
        plait_residence_device *row = &residence->devices[d];
        for (size_t i = 0; i < row->n_weights; i++)
            if (row->weights && row->weights[i])
                row->weights[i]->device->vtable->buffer_destroy(row->weights[i]);
        free(row->weights);
        free(row->weight_bytes);
    }
    plait_map_deinit(&residence->names);
    free(residence->devices);
    free(residence->entries);
    free(residence->pins);
    plait_arena_deinit(&residence->strings);
    free(residence);
}
