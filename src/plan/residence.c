/* Residence: on which device every weight and state of a model lives. Decided from all graphs at once, before any plan;
 * encodings are chosen in encode.c, memory is allocated by load.c.
 *
 * Invariant: a weight has an entry on every device that runs a reader of it, so that no step ever moves weights;
 * a state has exactly one entry, its home: a device that runs all its writers, and its readers too, where there is one. */
#include "plan/plan.h"

#include "base/alloc.h"
#include "base/glob.h"
#include "base/size.h"
#include "base/status.h"

#include <stdlib.h>
#include <string.h>

plait_resident *plait_residence_find(const plait_residence *residence, const char *name, int device) {
    uint32_t first;
    if (!plait_map_get(&residence->names, name, strlen(name), &first)) return NULL;
    for (int32_t i = (int32_t)first; i >= 0; i = residence->entries[i].next)
        if (device < 0 || residence->entries[i].device == device) return &residence->entries[i];
    return NULL;
}

int plait_residence_pin(const plait_residence *residence, const char *name) {
    for (int i = 0; i < residence->n_pins; i++)
        if (plait_glob_matches(residence->pins[i].pattern, name)) return residence->pins[i].device;
    return -1;
}

/* ---- entries ---- */

static plait_status append_entry(plait_residence *residence, const plait_graph_storage *row,
                                 const plait_operand *shape, int device) {
    PLAIT_TRY(plait_grow(&residence->entries, &residence->entry_capacity, residence->n_entries + 1,
                         sizeof *residence->entries, PLAIT_MAX_NAME << 16, "residence"));
    plait_resident *entry = &residence->entries[residence->n_entries];
    *entry = (plait_resident){.kind = row->kind, .shape = *shape, .device = device, .next = -1};
    entry->name = plait_arena_string(&residence->strings, row->name);
    if (!entry->name) return plait_error_memory("residence", strlen(row->name));
    entry->cause = residence->context->n_devices == 1 ? PLAIT_CAUSE_ONLY_DEVICE : PLAIT_CAUSE_READERS;
    if (plait_residence_pin(residence, entry->name) == device) entry->cause = PLAIT_CAUSE_PINNED;
    entry->size_bytes = row->size_bytes;
    entry->alignment = residence->context->devices[device].info.alignment;
    entry->slot = row->kind == PLAIT_STORAGE_STATE ? PLAIT_SLOT_STATE : PLAIT_NO_SLOT;
    plait_resident *same = plait_residence_find(residence, row->name, -1);
    while (same && same->next >= 0) same = &residence->entries[same->next];
    if (same)
        same->next = (int32_t)residence->n_entries;
    else
        PLAIT_TRY(plait_map_put(&residence->names, entry->name, strlen(entry->name),
                                (uint32_t)residence->n_entries, NULL));
    residence->n_entries++;
    return PLAIT_OK;
}

/* An entry for the storage on the device, unless it is there; a state has one entry only. */
static plait_status add_entry(plait_residence *residence, const plait_graph *graph, uint32_t storage,
                              int device) {
    const plait_graph_storage *row = &graph->storages[storage];
    const plait_operand *shape = &graph->tensors[row->root].shape;
    const plait_resident *any = plait_residence_find(residence, row->name, -1);
    if (any && (any->kind != row->kind || any->shape.dtype != shape->dtype ||
                memcmp(any->shape.dims, shape->dims, sizeof shape->dims) != 0))
        return plait_error(PLAIT_INVALID_ARGUMENT,
                           "\"%s\" has another type or shape in graph %s than in an earlier graph", row->name,
                           graph->name);
    if (any && (any->kind == PLAIT_STORAGE_STATE || plait_residence_find(residence, row->name, device)))
        return PLAIT_OK;
    return append_entry(residence, row, shape, device);
}

/* ---- homes of state ---- */

/* Devices (one bit each) that run all nodes that touch a state, and all that write it; the pin of the state or of a
 * writer, or -1. */
typedef struct home {
    uint64_t touch, write;
    int pin;
} home;

static uint64_t devices_that_run(const plait_context *context, const plait_graph *graph, uint32_t n) {
    plait_op_use use;
    uint64_t mask = 0;
    char reason[120];
    plait_graph_use(graph, n, NULL, &use);
    for (int d = 0; d < context->n_devices; d++) {
        plait_device *device = context->devices[d].device;
        if (device->vtable->supports(device, &use, NULL, reason, sizeof reason)) mask |= (uint64_t)1 << d;
    }
    return mask;
}

/* A node's word on the homes of the states that it touches; entries of states are first in the table. */
static plait_status note_states(plait_residence *residence, const plait_graph *graph, uint32_t n,
                                home **homes, size_t *capacity) {
    const plait_graph_node *node = &graph->nodes[n];
    for (int i = 0; i < node->n_inputs; i++) {
        uint32_t storage = graph->tensors[node->inputs[i]].storage;
        if (!node->inputs[i] || graph->storages[storage].kind != PLAIT_STORAGE_STATE) continue;
        PLAIT_TRY(add_entry(residence, graph, storage, 0));
        size_t index =
            (size_t)(plait_residence_find(residence, graph->storages[storage].name, -1) - residence->entries);
        size_t had = *capacity;
        PLAIT_TRY(plait_grow(homes, capacity, index + 1, sizeof **homes, PLAIT_MAX_NAME << 16, "states"));
        for (size_t k = had; k < *capacity; k++) (*homes)[k] = (home){UINT64_MAX, UINT64_MAX, -1};
        home *row = &(*homes)[index];
        uint64_t mask = devices_that_run(residence->context, graph, n);
        bool writes = i == node->op->writes_input;
        row->touch &= mask;
        if (writes) row->write &= mask;
        if (row->pin < 0) row->pin = plait_residence_pin(residence, graph->storages[storage].name);
        if (row->pin < 0 && writes) row->pin = plait_residence_pin(residence, node->name);
    }
    return PLAIT_OK;
}

/* A pinned home that runs the writers; else the first device that runs everything; else the first that runs the
 * writers; else the first at all: then what they write travels. */
static int choose_home(const home *row, int n_devices) {
    uint64_t all = n_devices >= 64 ? UINT64_MAX : ((uint64_t)1 << n_devices) - 1;
    uint64_t touch = row->touch & all, write = row->write & all;
    if (row->pin >= 0 && (write == 0 || (write >> row->pin & 1u))) return row->pin;
    if (touch) return __builtin_ctzll(touch);
    return write ? __builtin_ctzll(write) : 0;
}

static plait_status place_states(plait_residence *residence, const plait_graph *const *graphs, int n_graphs) {
    home *homes = NULL;
    size_t capacity = 0;
    plait_status status = PLAIT_OK;
    for (int g = 0; g < n_graphs; g++)
        for (uint32_t n = 0; status == PLAIT_OK && n < graphs[g]->n_nodes; n++)
            status = note_states(residence, graphs[g], n, &homes, &capacity);
    for (size_t i = 0; status == PLAIT_OK && i < residence->n_entries; i++) {
        plait_resident *entry = &residence->entries[i];
        entry->device = choose_home(&homes[i], residence->context->n_devices);
        if (homes[i].pin == entry->device) entry->cause = PLAIT_CAUSE_PINNED;
        entry->alignment = residence->context->devices[entry->device].info.alignment;
    }
    free(homes);
    return status;
}

/* ---- weights ---- */

/* Entries for the weights that a graph's nodes read, on the devices that would run them. */
static plait_status place_weights(plait_residence *residence, const plait_graph *graph) {
    for (uint32_t n = 0; n < graph->n_nodes; n++) {
        const plait_graph_node *node = &graph->nodes[n];
        plait_placement placement;
        PLAIT_TRY(plait_place_node(residence, graph, n, false, &placement));
        for (int i = 0; i < node->n_inputs; i++) {
            uint32_t storage = graph->tensors[node->inputs[i]].storage;
            if (node->inputs[i] && graph->storages[storage].kind == PLAIT_STORAGE_WEIGHT)
                PLAIT_TRY(add_entry(residence, graph, storage, placement.device));
        }
    }
    return PLAIT_OK;
}

/* Storages that only outputs read (a weight or state given out as it is) live where they are pinned, or first. */
static plait_status place_outputs(plait_residence *residence, const plait_graph *graph) {
    for (size_t o = 0; o < graph->n_outputs; o++) {
        uint32_t storage = graph->tensors[graph->outputs[o].tensor].storage;
        plait_storage_kind kind = graph->storages[storage].kind;
        const char *name = graph->storages[storage].name;
        int pin = plait_residence_pin(residence, name);
        bool stored = kind == PLAIT_STORAGE_WEIGHT || kind == PLAIT_STORAGE_STATE;
        if (stored && !plait_residence_find(residence, name, -1))
            PLAIT_TRY(add_entry(residence, graph, storage, pin >= 0 ? pin : 0));
    }
    return PLAIT_OK;
}

/* ---- life ---- */

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

/* A packed weight goes behind the others of its device while the buffer may grow; a weight in file form gets a slot
 * of its own, so that it can be used where the source has it. */
static plait_status assign_weight(plait_residence *residence, plait_resident *entry, uint32_t *packed_slot) {
    plait_residence_device *device = &residence->devices[entry->device];
    bool packed = entry->encoding != PLAIT_ENCODING_FILE;
    uint64_t most = residence->context->devices[entry->device].info.max_buffer_bytes;
    bool fits = packed && *packed_slot != PLAIT_NO_SLOT && device->weight_bytes[*packed_slot] < most &&
                entry->size_bytes <= most - device->weight_bytes[*packed_slot];
    uint32_t slot = fits ? *packed_slot : (uint32_t)device->n_weights++;
    if (packed) *packed_slot = slot;
    entry->slot = PLAIT_SLOT_WEIGHTS + slot;
    *(packed ? &device->private_bytes : &device->mapped_bytes) += entry->size_bytes;
    return append(entry, &device->weight_bytes[slot]);
}

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
    }
    return PLAIT_OK;
}

static plait_status decide(plait_residence *residence, const plait_graph *const *graphs, int n_graphs) {
    PLAIT_TRY(place_states(residence, graphs, n_graphs));
    for (int g = 0; g < n_graphs; g++) PLAIT_TRY(place_weights(residence, graphs[g]));
    for (int g = 0; g < n_graphs; g++) PLAIT_TRY(place_outputs(residence, graphs[g]));
    PLAIT_TRY(plait_residence_choose_encodings(residence, graphs, n_graphs));
    return assign_slots(residence);
}

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
    plait_arena_init(&residence->strings, 0);
    plait_map_init(&residence->names);
    residence->devices = plait_alloc_array((size_t)context->n_devices, sizeof *residence->devices);
    plait_status status = residence->devices ? PLAIT_OK : plait_error_memory("residence", 0);
    if (status == PLAIT_OK && options) {
        residence->no_packing = options->no_packing;
        status = copy_pins(residence, options);
    }
    if (status == PLAIT_OK) status = decide(residence, graphs, n_graphs);
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

plait_residence *plait_residence_retain(plait_residence *residence) {
    atomic_fetch_add(&residence->references, 1);
    return residence;
}

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
