/* Zeroing, overflow-checked allocation. Invariant: a failed call changes nothing. */
#include "base/alloc.h"

#include "base/size.h"

#include <stdlib.h>
#include <string.h>

void *plait_alloc_array(size_t n, size_t size_bytes) {
    size_t bytes;
    if (!plait_mul_size(n, size_bytes, &bytes)) return NULL;
    return calloc(bytes ? bytes : 1, 1);
}

void *plait_alloc_aligned(size_t alignment, size_t size_bytes) {
    uint64_t rounded;
    if (!plait_align_u64(size_bytes ? size_bytes : 1, alignment, &rounded) || rounded > SIZE_MAX) return NULL;
    void *p = aligned_alloc(alignment, (size_t)rounded);
    if (p) memset(p, 0, (size_t)rounded);
    return p;
}

plait_status plait_grow(void *items_pointer, size_t *capacity, size_t needed, size_t size_bytes, size_t max,
                        const char *what) {
    if (needed <= *capacity) return PLAIT_OK;
    if (needed > max)
        return plait_error(PLAIT_LIMIT, "%s: %zu entries wanted, at most %zu allowed", what, needed, max);
    size_t grown = *capacity < 8 ? 8 : *capacity > max / 2 ? max : *capacity * 2;
    if (grown < needed) grown = needed;
    if (grown > max) grown = max;
    size_t bytes;
    if (!plait_mul_size(grown, size_bytes, &bytes)) return plait_error_memory(what, UINT64_MAX);
    char *old;
    memcpy(&old, items_pointer, sizeof old); /* *items_pointer is some object pointer type */
    char *items = realloc(old, bytes);
    if (!items) return plait_error_memory(what, bytes);
    memset(items + *capacity * size_bytes, 0, (grown - *capacity) * size_bytes);
    memcpy(items_pointer, &items, sizeof items);
    *capacity = grown;
    return PLAIT_OK;
}

char *plait_string_copy_n(const char *text, size_t n) {
    size_t bytes;
    if (!plait_add_size(n, 1, &bytes)) return NULL;
    char *copy = malloc(bytes);
    if (!copy) return NULL;
    if (n) memcpy(copy, text, n);
    copy[n] = '\0';
    return copy;
}

char *plait_string_copy(const char *text) {
    return plait_string_copy_n(text, strlen(text));
}
