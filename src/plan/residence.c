/* Residence: on which device, in which encoding, every weight and state of a model lives. Decided from all graphs
 * at once, before any plan; memory is allocated by load.
 *
 * Invariant: a weight has an entry on every device that runs a reader of it, so that no step ever moves weights;
 * a state has exactly one entry, on the device that runs its writers. */
#include "plan/plan.h"

#include "base/alloc.h"
#include "base/size.h"
#include "base/status.h"
#include "base/strbuf.h"

#include <stdlib.h>
#include <string.h>

bool plait_pin_matches(const char *pattern, const char *name) {
    const char *star = NULL, *retry = NULL;
    while (*name) {
        if (*pattern == '*') {
            star = pattern++;
            retry = name;
        } else if (*pattern == *name) {
            pattern++, name++;
        } else if (star) {
            pattern = star + 1;
            name = ++retry;
        } else {
            return false;
        }
    }
    while (*pattern == '*') pattern++;
    return *pattern == '\0';
}

plait_resident *plait_residence_find(const plait_residence *residence, const char *name, int device) {
    for (size_t i = 0; i < residence->n_entries; i++) {
        plait_resident *entry = &residence->entries[i];
        if ((device < 0 || entry->device == device) && strcmp(entry->name, name) == 0) return entry;
    }
    return NULL;
}

/* ---- which device ---- */

static bool device_runs(plait_context *context, int d, const plait_op_use *use, char *reason,
                        size_t reason_bytes) {
    plait_device *device = context->devices[d].device;
    return device->vtable->supports(device, use, NULL, reason, reason_bytes);
}

static plait_status nobody_runs(plait_context *context, const char *name, const plait_op_use *use) {
    plait_strbuf text;
    plait_strbuf_init(&text, PLAIT_ERROR_BYTES);
    plait_strbuf_printf(&text, "node %s: no device runs %s(", name, use->op->name);
    for (int i = 0; i < use->n_inputs; i++) {
        const plait_operand *o = &use->inputs[i];
        if (!plait_op_has(use, i)) continue;
        plait_strbuf_printf(&text, "%s%s [%lld, %lld, %lld, %lld]", i ? ", " : "", plait_dtype_name(o->dtype),
                            (long long)o->dims[0], (long long)o->dims[1], (long long)o->dims[2],
                            (long long)o->dims[3]);
    }
    plait_strbuf_append(&text, ")");
    for (int d = 0; d < context->n_devices; d++) {
        char reason[120] = "";
        device_runs(context, d, use, reason, sizeof reason);
        plait_strbuf_printf(&text, "; %s: %s", context->devices[d].device->name, reason);
    }
    plait_status status = plait_error(PLAIT_UNSUPPORTED, "%s", plait_strbuf_text(&text));
    plait_strbuf_deinit(&text);
    return status;
}

plait_status plait_place_first(plait_context *context, const plait_pin *pins, int n_pins, const char *name,
                               const plait_op_use *use, int *out_device, plait_cause *out_cause) {
    char reason[120];
    int preferred = 0;
    bool pinned = false;
    for (int i = 0; i < n_pins && !pinned; i++)
        if (plait_pin_matches(pins[i].pattern, name)) preferred = pins[i].device, pinned = true;
    for (int k = -1; k < context->n_devices; k++) {
        int d = k < 0 ? preferred : k;
        if (k == preferred || !device_runs(context, d, use, reason, sizeof reason)) continue;
        *out_device = d;
        *out_cause = k >= 0                    ? PLAIT_CAUSE_LACKING
                     : pinned                  ? PLAIT_CAUSE_PINNED
                     : context->n_devices == 1 ? PLAIT_CAUSE_ONLY_DEVICE
                                               : PLAIT_CAUSE_FIRST;
        return PLAIT_OK;
    }
    return nobody_runs(context, name, use);
}

/* ---- collecting ---- */

static plait_status add_entry(plait_residence *residence, const plait_graph *graph, uint32_t storage,
                              int device) {
    const plait_graph_storage *row = &graph->storages[storage];
    const plait_operand *shape = &graph->tensors[row->root].shape;
    plait_resident *any = plait_residence_find(residence, row->name, -1);
    if (any && (any->kind != row->kind || any->shape.dtype != shape->dtype ||
                memcmp(any->shape.dims, shape->dims, sizeof shape->dims) != 0))
        return plait_error(PLAIT_INVALID_ARGUMENT,
                           "\"%s\" has another type or shape in graph %s than in an earlier graph", row->name,
                           graph->name);
    if (any && (any->kind == PLAIT_STORAGE_STATE || plait_residence_find(residence, row->name, device)))
        return PLAIT_OK;
    PLAIT_TRY(plait_grow(&residence->entries, &residence->entry_capacity, residence->n_entries + 1,
                         sizeof *any, PLAIT_MAX_NAME << 16, "residence"));
    plait_resident *entry = &residence->entries[residence->n_entries];
    entry->name = plait_arena_string(&residence->strings, row->name);
    if (!entry->name) return plait_error_memory("residence", strlen(row->name));
    entry->kind = row->kind;
    entry->shape = *shape;
    entry->device = device;
    entry->cause = residence->context->n_devices == 1 ? PLAIT_CAUSE_ONLY_DEVICE : PLAIT_CAUSE_READERS;
    entry->size_bytes = row->size_bytes;
    entry->alignment = residence->context->devices[device].info.alignment;
    entry->slot = row->kind == PLAIT_STORAGE_STATE ? PLAIT_SLOT_STATE : PLAIT_NO_SLOT;
    residence->n_entries++;
    return PLAIT_OK;
}

/* Entries for what the nodes of a graph read, on the devices that would run them. Writers of state go first, so
 * that state lives where it is written. */
static plait_status collect(plait_residence *residence, const plait_graph *graph, bool writers) {
    for (uint32_t n = 0; n < graph->n_nodes; n++) {
        const plait_graph_node *node = &graph->nodes[n];
        plait_op_use use;
        int device;
        plait_cause cause;
        if ((node->op->writes_input >= 0) != writers) continue;
        plait_graph_use(graph, n, NULL, &use);
        PLAIT_TRY(plait_place_first(residence->context, residence->pins, residence->n_pins, node->name, &use,
                                    &device, &cause));
        for (int i = 0; i < node->n_inputs; i++) {
            if (!node->inputs[i]) continue;
            uint32_t storage = graph->tensors[node->inputs[i]].storage;
            plait_storage_kind kind = graph->storages[storage].kind;
            if (kind == PLAIT_STORAGE_WEIGHT || kind == PLAIT_STORAGE_STATE)
                PLAIT_TRY(add_entry(residence, graph, storage, device));
        }
    }
    return PLAIT_OK;
}

/* Storages that only outputs read (a weight or state given out as it is) live on the first device. */
static plait_status collect_outputs(plait_residence *residence, const plait_graph *graph) {
    for (size_t o = 0; o < graph->n_outputs; o++) {
        uint32_t storage = graph->tensors[graph->outputs[o].tensor].storage;
        plait_storage_kind kind = graph->storages[storage].kind;
        bool lives = plait_residence_find(residence, graph->storages[storage].name, -1) != NULL;
        if (!lives && (kind == PLAIT_STORAGE_WEIGHT || kind == PLAIT_STORAGE_STATE))
            PLAIT_TRY(add_entry(residence, graph, storage, 0));
    }
    return PLAIT_OK;
}

/* ---- encodings ---- */

enum { MAX_READERS = 64 };

/* Everybody who reads the weight on its device, over all graphs; false when there are too many to list. */
static bool list_readers(const plait_residence *residence, const plait_graph *const *graphs, int n_graphs,
                         const plait_resident *entry, struct plait_weight_reader *readers, int *out_n) {
    *out_n = 0;
    (void)residence;
    for (int g = 0; g < n_graphs; g++) {
        const plait_graph *graph = graphs[g];
        for (size_t n = 0; n < graph->n_nodes; n++)
            for (int i = 0; i < graph->nodes[n].n_inputs; i++) {
                uint32_t id = graph->nodes[n].inputs[i];
                const plait_graph_tensor *tensor = &graph->tensors[id];
                if (!id || strcmp(graph->storages[tensor->storage].name, entry->name) != 0) continue;
                if (graph->storages[tensor->storage].kind != PLAIT_STORAGE_WEIGHT) continue;
                if (*out_n == MAX_READERS) return false;
                readers[(*out_n)++] = (struct plait_weight_reader){graph->nodes[n].op, i, tensor->base == 0};
            }
        for (size_t o = 0; o < graph->n_outputs; o++)
            if (strcmp(graph->storages[graph->tensors[graph->outputs[o].tensor].storage].name, entry->name) ==
                0)
                return false;
    }
    return true;
}

static plait_status choose_encoding(plait_residence *residence, const plait_graph *const *graphs,
                                    int n_graphs, plait_resident *entry) {
    plait_device *device = residence->context->devices[entry->device].device;
    struct plait_weight_reader readers[MAX_READERS];
    plait_weight_use use = {.dtype = entry->shape.dtype, .readers = readers};
    plait_encoding_offer offer;
    int n_offers = 1;
    memcpy(use.dims, entry->shape.dims, sizeof use.dims);
    memcpy(entry->encoding_name, "file", sizeof "file");
    if (residence->no_packing || !list_readers(residence, graphs, n_graphs, entry, readers, &use.n_readers))
        return PLAIT_OK;
    plait_status status = device->vtable->encodings(device, &use, &offer, &n_offers);
    if (status == PLAIT_UNSUPPORTED || (status == PLAIT_OK && n_offers == 0)) return PLAIT_OK;
    PLAIT_TRY(status);
    entry->encoding = offer.encoding;
    memcpy(entry->encoding_name, offer.name, sizeof entry->encoding_name);
    entry->size_bytes = offer.size_bytes;
    if (offer.alignment > entry->alignment) entry->alignment = offer.alignment;
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
    for (int pass = 0; pass < 2; pass++)
        for (int g = 0; g < n_graphs; g++) PLAIT_TRY(collect(residence, graphs[g], pass == 0));
    for (int g = 0; g < n_graphs; g++) PLAIT_TRY(collect_outputs(residence, graphs[g]));
    for (size_t i = 0; i < residence->n_entries; i++)
        if (residence->entries[i].kind == PLAIT_STORAGE_WEIGHT)
            PLAIT_TRY(choose_encoding(residence, graphs, n_graphs, &residence->entries[i]));
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
    free(residence->devices);
    free(residence->entries);
    free(residence->pins);
    plait_arena_deinit(&residence->strings);
    free(residence);
}
