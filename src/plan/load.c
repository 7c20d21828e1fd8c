/* Loading: from a source of weights to the regions that the residence decided. Weights in file form are used where
 * they lie when the device can import host memory and the source lasts; packed ones go into one buffer a device,
 * packed row group by row group with progress shown.
 *
 * Invariant: after a success every weight entry has a slot; after a failure nothing of it is used. */
#include "plan/plan.h"

#include "base/alloc.h"
#include "base/log.h"
#include "base/size.h"
#include "base/status.h"

#include <stdlib.h>
#include <string.h>

/* ---- memory of their own ---- */

/* A buffer for every weight slot that has none yet. */
static plait_status allocate_slots(plait_residence *residence) {
    for (int d = 0; d < residence->context->n_devices; d++) {
        plait_device *device = residence->context->devices[d].device;
        plait_residence_device *row = &residence->devices[d];
        for (size_t i = 0; i < row->n_weights; i++) {
            if (row->weights[i]) continue;
            uint64_t size = row->weight_bytes[i] ? row->weight_bytes[i] : 1; /* a slot has a buffer always */
            plait_status status =
                device->vtable->buffer_create(device, size, PLAIT_BUFFER_WEIGHTS, &row->weights[i]);
            PLAIT_TRY(plait_error_context(status, "weights on %s", device->name));
        }
    }
    return PLAIT_OK;
}

/* ---- moving bytes ---- */

/* The source is only read; commands carry one kind of host pointer for both ways. */
static plait_status write_region(plait_context *context, int device, plait_region region, const void *bytes) {
    plait_command command = {.kind = PLAIT_COMMAND_WRITE,
                             .transfer = {.region = region, .host = (void *)(uintptr_t)bytes}};
    return plait_context_execute(context, device, &command, 1);
}

/* Bytes of a new buffer are undefined. */
static plait_status clear_buffer(plait_context *context, int device, plait_buffer *buffer) {
    plait_command clear = {.kind = PLAIT_COMMAND_FILL, .fill.region = {buffer, 0, buffer->size_bytes}};
    return plait_context_execute(context, device, &clear, 1);
}

/* The file is data from outside: sizes that were planned must be those that are found, or a device would read past the
 * weight. */
static plait_status check_weight(const plait_resident *entry, const plait_operand *found) {
    if (found->dtype == entry->shape.dtype && memcmp(found->dims, entry->shape.dims, sizeof found->dims) == 0)
        return PLAIT_OK;
    return plait_error(
        PLAIT_CORRUPT, "%s: expected %s [%lld, %lld, %lld, %lld], found %s [%lld, %lld, %lld, %lld]",
        entry->name, plait_dtype_name(entry->shape.dtype), (long long)entry->shape.dims[0],
        (long long)entry->shape.dims[1], (long long)entry->shape.dims[2], (long long)entry->shape.dims[3],
        plait_dtype_name(found->dtype), (long long)found->dims[0], (long long)found->dims[1],
        (long long)found->dims[2], (long long)found->dims[3]);
}

/* Uses the weight where it is: an import of just its bytes. Leaves the slot empty when the device cannot, or when its
 * own memory is another one, from which it reads faster: there weights share buffers. `mapped` is what tells later
 * passes that the entry's bytes are the source's. */
static plait_status import_weight(plait_residence *residence, plait_resident *entry,
                                  const plait_operand *found) {
    plait_device *device = residence->context->devices[entry->device].device;
    if (!residence->context->devices[entry->device].info.unified_memory) return PLAIT_OK;
    if (entry->size_bytes == 0) return PLAIT_OK; /* a launch wants a buffer with room all the same */
    plait_buffer **slot = &residence->devices[entry->device].weights[entry->slot - PLAIT_SLOT_WEIGHTS];
    plait_status status =
        device->vtable->buffer_import(device, found->data, entry->size_bytes, PLAIT_BUFFER_WEIGHTS, slot);
    if (status == PLAIT_UNSUPPORTED) return PLAIT_OK;
    PLAIT_TRY(status);
    entry->mapped = true;
    return PLAIT_OK;
}

/* Rows over dims 1 to 3; the device packs them with its own threads. */
static plait_status fill_weight(plait_residence *residence, plait_resident *entry,
                                const plait_operand *found) {
    plait_context_entry *device = &residence->context->devices[entry->device];
    plait_buffer *buffer = residence->devices[entry->device].weights[entry->slot - PLAIT_SLOT_WEIGHTS];
    plait_region region = {buffer, entry->offset, entry->size_bytes};
    if (entry->encoding == PLAIT_ENCODING_FILE)
        return write_region(residence->context, entry->device, region, found->data);
    int64_t n_rows = found->dims[1] * found->dims[2] * found->dims[3];
    return device->device->vtable->pack(device->device, found, entry->encoding, 0, n_rows, region);
}

/* First pass: every weight is looked up and checked, and used in place where that is possible. Before any memory is
 * taken: a file that lacks a weight fails at once, not after gigabytes. */
static plait_status import_all(plait_residence *residence, const plait_weight_source *source) {
    for (size_t i = 0; i < residence->n_entries; i++) {
        plait_resident *entry = &residence->entries[i];
        plait_operand found;
        bool lasting = false;
        if (entry->kind != PLAIT_STORAGE_WEIGHT) continue;
        PLAIT_TRY(source->find(source->user, entry->name, &found, &lasting));
        PLAIT_TRY(check_weight(entry, &found));
        if (lasting && entry->encoding == PLAIT_ENCODING_FILE)
            PLAIT_TRY(plait_error_context(import_weight(residence, entry, &found), "%s", entry->name));
    }
    return PLAIT_OK;
}

/* What was imported is there already. */
static bool needs_fill(const plait_resident *entry) {
    return entry->kind == PLAIT_STORAGE_WEIGHT && !entry->mapped;
}

/* Whether nobody needs the source's bytes any more: this was the last copy, and none uses them where they are. `entry`
 * is being filled, entries of a name are filled in the order of their list, so the last of the list is the last copy.
 */
static bool was_last(const plait_residence *residence, const plait_resident *entry) {
    const plait_resident *copy = plait_residence_find(residence, entry->name, -1);
    /* A copy that is used in the mapping keeps its pages for as long as the residence lives. */
    for (; copy; copy = copy->next >= 0 ? &residence->entries[copy->next] : NULL)
        if (copy->mapped) return false;
    return entry->next < 0;
}

/* In the order of entries, which is that of the graphs: the mapping is read once, forwards as far as the file was
 * written in that order. A source may then drop pages that nobody needs, so that weights are not in memory twice. A
 * cancelled load is a failure like any other. */
static plait_status fill_all(plait_residence *residence, const plait_weight_source *source) {
    uint64_t done = 0, total = 0;
    for (size_t i = 0; i < residence->n_entries; i++)
        total += needs_fill(&residence->entries[i]) ? residence->entries[i].size_bytes : 0;
    for (size_t i = 0; i < residence->n_entries; i++) {
        plait_resident *entry = &residence->entries[i];
        plait_operand found;
        bool lasting;
        if (!needs_fill(entry)) continue;
        if (!plait_log_progress(&residence->context->logger, "loading", done, total))
            return plait_error(PLAIT_CANCELLED, "loading was cancelled at \"%s\"", entry->name);
        PLAIT_TRY(source->find(source->user, entry->name, &found, &lasting));
        PLAIT_TRY(plait_error_context(fill_weight(residence, entry, &found), "%s", entry->name));
        if (source->release && was_last(residence, entry)) source->release(source->user, entry->name);
        done += entry->size_bytes;
    }
    plait_log_progress(&residence->context->logger, "loading", total, total);
    return PLAIT_OK;
}

/* What was really imported may differ from what slots were made for: a source that does not last is copied. */
static void count_bytes(plait_residence *residence) {
    for (int d = 0; d < residence->context->n_devices; d++)
        residence->devices[d].private_bytes = residence->devices[d].mapped_bytes = 0;
    for (size_t i = 0; i < residence->n_entries; i++) {
        plait_resident *entry = &residence->entries[i];
        plait_residence_device *device = &residence->devices[entry->device];
        if (entry->kind != PLAIT_STORAGE_WEIGHT) continue;
        *(entry->mapped ? &device->mapped_bytes : &device->private_bytes) += entry->size_bytes;
    }
}

/* Slots that an import filled are passed over by the allocation. Failures leave buffers that the residence's release
 * frees. */
plait_status plait_residence_load(plait_residence *residence, const plait_weight_source *source) {
    if (residence->loaded) return plait_error(PLAIT_WRONG_STATE, "residence: it is loaded already");
    PLAIT_TRY(import_all(residence, source));
    PLAIT_TRY(allocate_slots(residence));
    PLAIT_TRY(fill_all(residence, source));
    residence->loaded = true;
    count_bytes(residence);
    return PLAIT_OK;
}

/* Without a source nothing can be used where it is: every slot is allocated. */
plait_status plait_residence_load_zeros(plait_residence *residence) {
    if (residence->loaded) return plait_error(PLAIT_WRONG_STATE, "residence: it is loaded already");
    PLAIT_TRY(allocate_slots(residence));
    for (int d = 0; d < residence->context->n_devices; d++)
        for (size_t i = 0; i < residence->devices[d].n_weights; i++)
            PLAIT_TRY(clear_buffer(residence->context, d, residence->devices[d].weights[i]));
    residence->loaded = true;
    count_bytes(residence);
    return PLAIT_OK;
}

/* All copies of the name, on whatever devices, in their own encodings; found by walking, as it is called a few times in
 * a plan's life. */
plait_status plait_residence_write_weight(plait_residence *residence, const char *name, const void *bytes,
                                          uint64_t size_bytes) {
    bool found = false;
    for (size_t i = 0; i < residence->n_entries; i++) {
        plait_resident *entry = &residence->entries[i];
        if (entry->kind != PLAIT_STORAGE_WEIGHT || strcmp(entry->name, name) != 0) continue;
        plait_operand source = entry->shape;
        uint64_t expected = (uint64_t)plait_operand_span_bytes(&source);
        if (size_bytes != expected)
            return plait_error(PLAIT_INVALID_ARGUMENT, "weight \"%s\": %llu bytes given, expected %llu", name,
                               (unsigned long long)size_bytes, (unsigned long long)expected);
        source.data = (void *)(uintptr_t)bytes;
        PLAIT_TRY(plait_error_context(fill_weight(residence, entry, &source), "weight \"%s\"", name));
        found = true;
    }
    if (!found) return plait_error(PLAIT_NOT_FOUND, "no weight is called \"%s\"", name);
    return PLAIT_OK;
}

/* ---- state ---- */

/* Zeroed, since attention reads nothing that was not written, but recurrent state begins at 0. One buffer a device:
 * every state's offset is the residence's. */
plait_status plait_session_state_create(plait_session_state **out, plait_residence *residence) {
    int n = residence->context->n_devices;
    plait_session_state *state = plait_alloc_array(1, sizeof *state);
    if (!state) return plait_error_memory("session state", sizeof *state);
    state->residence = plait_residence_retain(residence);
    state->buffers = plait_alloc_array((size_t)n, sizeof *state->buffers);
    plait_status status = state->buffers ? PLAIT_OK : plait_error_memory("session state", 0);
    for (int d = 0; status == PLAIT_OK && d < n; d++) {
        if (residence->devices[d].state_bytes == 0) continue;
        plait_device *device = residence->context->devices[d].device;
        status = device->vtable->buffer_create(device, residence->devices[d].state_bytes, PLAIT_BUFFER_STATE,
                                               &state->buffers[d]);
        if (status == PLAIT_OK) status = clear_buffer(residence->context, d, state->buffers[d]);
        plait_error_context(status, "session state on %s", residence->context->devices[d].device->name);
    }
    if (status != PLAIT_OK) {
        plait_session_state_destroy(state);
        return status;
    }
    *out = state;
    return PLAIT_OK;
}

void plait_session_state_destroy(plait_session_state *state) {
    if (!state) return;
    for (int d = 0; state->buffers && d < state->residence->context->n_devices; d++)
        if (state->buffers[d]) state->buffers[d]->device->vtable->buffer_destroy(state->buffers[d]);
    free(state->buffers);
    plait_residence_release(state->residence);
    free(state);
}
