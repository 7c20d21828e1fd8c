/* Ranges of tensor data: inside their file, not overlapping, of a type we know. Not here: anything that needs the
 * header's bytes (parse.c). Invariant: a plait_gguf whose tensors have `bytes` passed these checks. */
#include "gguf/internal.h"

#include "base/alloc.h"
#include "base/size.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* One tensor against its own file. The end is computed with a checked addition: an offset near 2^64 would wrap to a
 * place inside the file and give wrong weights without any error. */
static plait_status check_range(const plait_gguf_source *source, const plait_gguf_tensor *t) {
    uint64_t end, file = source->info.size_bytes;
    if (!t->type_known)
        return plait_error(PLAIT_UNSUPPORTED, "tensor \"%s\": element type number %u is unknown", t->name,
                           t->type_number);
    if (!plait_add_u64(t->offset_bytes, t->size_bytes, &end))
        return plait_error(PLAIT_CORRUPT,
                           "tensor \"%s\": offset %" PRIu64 " plus %" PRIu64 " bytes is beyond 2^64", t->name,
                           t->offset_bytes, t->size_bytes);
    if (end > file)
        return plait_error(PLAIT_CORRUPT,
                           "tensor \"%s\" needs bytes %" PRIu64 " to %" PRIu64
                           ", but the file ends at %" PRIu64 ": it is cut, %" PRIu64 " bytes are missing",
                           t->name, t->offset_bytes, end, file, end - file);
    return PLAIT_OK;
}

/* A total order but for equal offsets, and those overlap whichever comes first: every tensor has a byte at least. */
static int by_offset(const void *a, const void *b) {
    const plait_gguf_tensor *x = *(const plait_gguf_tensor *const *)a,
                            *y = *(const plait_gguf_tensor *const *)b;
    return x->offset_bytes < y->offset_bytes ? -1 : x->offset_bytes > y->offset_bytes;
}

/* Two tensors next to each other in the file. Of tensors sorted by offset only neighbours can be the first pair to
 * overlap, so n - 1 comparisons prove the whole. */
static plait_status check_neighbours(const plait_gguf_tensor *a, const plait_gguf_tensor *b) {
    uint64_t end = a->offset_bytes + a->size_bytes; /* no overflow: check_range */
    if (end <= b->offset_bytes) return PLAIT_OK;
    return plait_error(PLAIT_CORRUPT,
                       "tensors \"%s\" (bytes %" PRIu64 " to %" PRIu64 ") and \"%s\" (from byte %" PRIu64
                       ") overlap",
                       a->name, a->offset_bytes, end, b->name, b->offset_bytes);
}

/* Tensors usually lie in the order of the list, which needs no sorting and no memory. n log n at worst. Tensors that
 * share their data are refused as overlapping. */
static plait_status check_overlaps(const plait_gguf_tensor *tensors, size_t n) {
    bool sorted = true;
    for (size_t i = 1; i < n && sorted; i++) sorted = tensors[i - 1].offset_bytes < tensors[i].offset_bytes;
    if (sorted) {
        for (size_t i = 1; i < n; i++) PLAIT_TRY(check_neighbours(&tensors[i - 1], &tensors[i]));
        return PLAIT_OK;
    }
    const plait_gguf_tensor **order = plait_alloc_array(n, sizeof *order);
    if (!order) return plait_error_memory("order of tensors", n * sizeof *order);
    for (size_t i = 0; i < n; i++) order[i] = &tensors[i];
    qsort(order, n, sizeof *order, by_offset);
    plait_status status = PLAIT_OK;
    for (size_t i = 1; i < n && status == PLAIT_OK; i++) status = check_neighbours(order[i - 1], order[i]);
    free(order);
    return status;
}

/* Parts glued together with cat open as the first one and lose the rest: the next header gives them away. Looked for at
 * the end of the data and at the end with padding, since writers differ in whether they pad the last tensor. Anything
 * else behind the data is ignored. */
static plait_status check_tail(const plait_gguf_source *source, const plait_gguf_tensor *tensors, size_t n) {
    uint64_t end = source->info.data_offset_bytes, size = source->info.size_bytes, padded;
    for (size_t i = 0; i < n; i++)
        if (tensors[i].offset_bytes + tensors[i].size_bytes > end)
            end = tensors[i].offset_bytes + tensors[i].size_bytes;
    if (!plait_align_u64(end, source->alignment, &padded)) return PLAIT_OK;
    for (int i = 0; i < 2; i++, end = padded)
        if (end < size && size - end >= 8 && memcmp(source->bytes + end, "GGUF", 4) == 0)
            return plait_error(PLAIT_CORRUPT,
                               "another GGUF file begins at byte %" PRIu64
                               ", behind the last tensor: parts were joined "
                               "end to end; keep them as separate files",
                               end);
    return PLAIT_OK;
}

/* Offsets count from the start of the part's own data, so ranges of different parts never meet. */
static plait_status check_part(const plait_gguf *gguf, const plait_gguf_source *source) {
    size_t n = source->info.n_tensors;
    const plait_gguf_tensor *tensors = n ? gguf->tensors + source->info.first_tensor : NULL;
    for (size_t i = 0; i < n; i++) PLAIT_TRY(check_range(source, &tensors[i]));
    PLAIT_TRY(check_overlaps(tensors, n));
    return check_tail(source, tensors, n);
}

/* Parts in order, the first failure counts. Also called for files that were opened only to look at: nothing here reads
 * data. */
plait_status plait_gguf_check_tensors(const plait_gguf *gguf) {
    for (size_t i = 0; i < gguf->n_sources; i++)
        PLAIT_TRY(plait_error_context(check_part(gguf, &gguf->sources[i]), "%s", gguf->sources[i].path));
    return PLAIT_OK;
}
