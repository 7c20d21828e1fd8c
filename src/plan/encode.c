/* Encodings: how the bytes of each weight lie on its device. A device offers packings for a weight and everybody who
 * reads it there; the first offer is taken, file form when there is none. With several devices spread.c asks for each
 * copy; here are the question itself, and the answers for all weights of a single device.
 *
 * Invariant: a weight whose readers are too many to list, or that the host reads as an output, stays in file form. */
#include "plan/plan.h"

#include "base/alloc.h"
#include "base/status.h"

#include <stdlib.h>
#include <string.h>

/* Readers of every entry, in one array: those of entry e are [first[e], first[e + 1]). */
typedef struct reader_lists {
    struct plait_weight_reader *readers;
    size_t *first; /* n_entries + 1 */
    bool *shown;   /* by an output */
} reader_lists;

static void lists_deinit(reader_lists *lists) {
    free(lists->readers);
    free(lists->first);
    free(lists->shown);
}

/* Calls for every weight that a node reads and every entry of it: counts (`fill` false), or fills the lists. An entry
 * is a copy of the weight on some device, `index->first` its first one; on the filling pass `first[e]` runs up to the
 * end of e's readers, and list_readers() sets it back. */
static void visit(const plait_residence *residence, const plait_residence_index *index, reader_lists *lists,
                  bool fill) {
    const plait_graph *graph = index->graph;
    for (size_t n = 0; n < graph->n_nodes; n++)
        for (int i = 0; i < graph->nodes[n].n_inputs; i++) {
            uint32_t id = graph->nodes[n].inputs[i];
            const plait_graph_tensor *tensor = &graph->tensors[id];
            if (!id || graph->storages[tensor->storage].kind != PLAIT_STORAGE_WEIGHT) continue;
            int64_t e = (int64_t)index->first[tensor->storage] - 1;
            for (; e >= 0; e = residence->entries[e].next) {
                size_t *at = &lists->first[e + (fill ? 0 : 1)];
                if (fill)
                    lists->readers[*at] =
                        (struct plait_weight_reader){graph->nodes[n].op, i, tensor->base == 0};
                (*at)++;
            }
        }
}

/* What the host reads as an output must be in file form: nobody unpacks on the way out. */
static void mark_shown(const plait_residence *residence, const plait_residence_index *index,
                       reader_lists *lists) {
    const plait_graph *graph = index->graph;
    for (size_t o = 0; o < graph->n_outputs; o++) {
        uint32_t storage = graph->tensors[graph->outputs[o].tensor].storage;
        if (graph->storages[storage].kind != PLAIT_STORAGE_WEIGHT) continue;
        for (int64_t e = (int64_t)index->first[storage] - 1; e >= 0; e = residence->entries[e].next)
            lists->shown[e] = true;
    }
}

/* Over all graphs of the model: a packing that serves the layers and fails a tail would leave the tail without its
 * weight. */
static plait_status list_readers(const plait_residence *residence, reader_lists *lists) {
    size_t n = residence->n_entries;
    lists->first = plait_alloc_array(n + 2, sizeof *lists->first);
    lists->shown = plait_alloc_array(n, sizeof *lists->shown);
    if (!lists->first || !lists->shown) return plait_error_memory("readers of weights", n);
    for (int g = 0; g < residence->n_indices; g++) {
        visit(residence, &residence->indices[g], lists, false);
        mark_shown(residence, &residence->indices[g], lists);
    }
    for (size_t e = 0; e < n; e++) lists->first[e + 1] += lists->first[e];
    lists->readers = plait_alloc_array(lists->first[n], sizeof *lists->readers);
    if (!lists->readers) return plait_error_memory("readers of weights", lists->first[n]);
    for (int g = 0; g < residence->n_indices; g++) visit(residence, &residence->indices[g], lists, true);
    for (size_t e = n; e > 0; e--) lists->first[e] = lists->first[e - 1]; /* filling moved each to its end */
    lists->first[0] = 0;
    return PLAIT_OK;
}

/* The first offer is the best by the device's own word. A device that packs nothing is asked once in the context's
 * life: the flag is a hint, so it needs no order with anything else. UNSUPPORTED here is an answer, every other failure
 * is one. */
plait_status plait_encode_offer(const plait_residence *residence, int d, const plait_graph_storage *row,
                                const plait_operand *shape, const struct plait_weight_reader *readers,
                                int n_readers, plait_encoding_offer *out) {
    plait_context_entry *there = &residence->context->devices[d];
    plait_device *device = there->device;
    plait_weight_use use = {.dtype = shape->dtype, .readers = readers, .n_readers = n_readers};
    plait_encoding_offer offer;
    int n_offers = 1;
    memcpy(use.dims, shape->dims, sizeof use.dims);
    *out = (plait_encoding_offer){.encoding = PLAIT_ENCODING_FILE,
                                  .name = "file",
                                  .size_bytes = row->size_bytes,
                                  .alignment = there->info.alignment};
    if (residence->no_packing || n_readers == 0 || row->kind != PLAIT_STORAGE_WEIGHT) return PLAIT_OK;
    if (atomic_load_explicit(&there->packs_nothing, memory_order_relaxed)) return PLAIT_OK;
    plait_status status = device->vtable->encodings(device, &use, &offer, &n_offers);
    if (status == PLAIT_UNSUPPORTED) {
        atomic_store_explicit(&there->packs_nothing, true, memory_order_relaxed);
        return PLAIT_OK;
    }
    if (status == PLAIT_OK && n_offers == 0) return PLAIT_OK;
    PLAIT_TRY(status);
    if (offer.alignment < out->alignment) offer.alignment = out->alignment;
    *out = offer;
    return PLAIT_OK;
}

/* None for what an output shows. */
static size_t n_readers_of(const reader_lists *lists, size_t e) {
    return lists->shown[e] ? 0 : lists->first[e + 1] - lists->first[e];
}

/* The offer for all readers of an entry; a weight that too many read, or that an output shows, stays as it is. Readers
 * are listed with those of other devices, as there is only one. */
static plait_status choose(const plait_residence *residence, const reader_lists *lists,
                           plait_resident *entry) {
    size_t e = (size_t)(entry - residence->entries), n_readers = n_readers_of(lists, e);
    plait_graph_storage row = {.kind = entry->kind, .size_bytes = entry->size_bytes};
    plait_encoding_offer offer;
    if (n_readers > PLAIT_MAX_READERS) n_readers = 0;
    PLAIT_TRY(plait_encode_offer(residence, entry->device, &row, &entry->shape,
                                 lists->readers + lists->first[e], (int)n_readers, &offer));
    plait_residence_set_form(entry, &offer);
    return PLAIT_OK;
}

/* ---- weights that are alike ---- */

/* A model has hundreds of weights and a few shapes: the device is asked once for weights of one type and shape with the same
 * readers. Earlier ones are found by a hash of that; who finds another one in its place asks anew. */
enum { MEMORY = 128 };

/* Only to find a candidate: whether readers read the whole is left to alike(). */
static uint64_t hash_entry(const plait_residence *residence, const reader_lists *lists, size_t e) {
    const plait_operand *shape = &residence->entries[e].shape;
    uint64_t h = plait_hash_bytes(shape->dims, sizeof shape->dims, (uint64_t)shape->dtype);
    for (size_t r = lists->first[e]; r < lists->first[e + 1]; r++)
        h = h * 31 + (uint64_t)lists->readers[r].op->id * 16 + (uint64_t)lists->readers[r].input;
    return h ^ h >> 32;
}

/* Dtype, dims, and the same readers in the same order: two layers of a model name their weights' readers alike, since
 * the same code built them. */
static bool alike(const plait_residence *residence, const reader_lists *lists, size_t a, size_t b) {
    const plait_operand *x = &residence->entries[a].shape, *y = &residence->entries[b].shape;
    size_t n = n_readers_of(lists, a);
    bool same =
        x->dtype == y->dtype && memcmp(x->dims, y->dims, sizeof x->dims) == 0 && n == n_readers_of(lists, b);
    for (size_t r = 0; same && r < n; r++) {
        const struct plait_weight_reader *p = &lists->readers[lists->first[a] + r];
        const struct plait_weight_reader *q = &lists->readers[lists->first[b] + r];
        same = p->op == q->op && p->input == q->input && p->whole == q->whole;
    }
    return same;
}

static void copy_form(const plait_resident *from, plait_resident *to) {
    to->encoding = from->encoding;
    memcpy(to->encoding_name, from->encoding_name, sizeof to->encoding_name);
    to->size_bytes = from->size_bytes;
    to->alignment = from->alignment;
}

/* A slot of `known` holds whichever entry came by last, so models whose layers differ in two or three kinds of weight
 * still hit nearly always. */
plait_status plait_residence_choose_encodings(plait_residence *residence) {
    reader_lists lists = {0};
    uint32_t known[MEMORY] = {0}; /* entry + 1 */
    plait_status status = list_readers(residence, &lists);
    for (size_t e = 0; status == PLAIT_OK && e < residence->n_entries; e++) {
        if (residence->entries[e].kind != PLAIT_STORAGE_WEIGHT) continue;
        uint32_t *slot = &known[hash_entry(residence, &lists, e) % MEMORY];
        if (*slot && alike(residence, &lists, *slot - 1, e))
            copy_form(&residence->entries[*slot - 1], &residence->entries[e]);
        else
            status = choose(residence, &lists, &residence->entries[e]);
        *slot = (uint32_t)e + 1;
    }
    lists_deinit(&lists);
    return status;
}
