/* Zeroing, overflow-checked allocation. Not here: objects that end together (arena.h), and memory of devices.
 * Invariant: a failed call changes nothing, and no byte is handed out that was not written: what a program reads by
 * mistake is 0, the same in every run. */
#include "base/alloc.h"

#include "base/size.h"

#include <stdlib.h>
#include <string.h>

/* calloc gets the product as one count, so that its own check of n * size never decides: on overflow the answer is NULL
 * as for any other want of memory. One byte for nothing: NULL would look like a failure. */
void *plait_alloc_array(size_t n, size_t size_bytes) {
    size_t bytes;
    if (!plait_mul_size(n, size_bytes, &bytes)) return NULL;
    return calloc(bytes ? bytes : 1, 1);
}

/* aligned_alloc wants a size that is a multiple of the alignment (C17 7.22.3.1); the tail that rounding adds is zeroed
 * as well. alignment is a power of two and at least that of a pointer. Freed with free(). */
void *plait_alloc_aligned(size_t alignment, size_t size_bytes) {
    uint64_t rounded;
    if (!plait_align_u64(size_bytes ? size_bytes : 1, alignment, &rounded) || rounded > SIZE_MAX) return NULL;
    void *p = aligned_alloc(alignment, (size_t)rounded);
    if (p) memset(p, 0, (size_t)rounded);
    return p;
}

/* Doubling keeps appending linear in all. The first room is 8 objects, the last one exactly `max`: an array that is
 * nearly at its limit does not fail for want of a doubled size that nobody needs. Bytes go through memcpy because
 * items_pointer is the address of a T * for any T, and reading that as a void * would break aliasing rules. On failure
 * array and capacity are as before. New room is zeroed, so that structs in it can be released at any time. */
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

/* `text` may be NULL when n is 0. NUL bytes inside are copied like others. */
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
