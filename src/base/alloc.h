/* Host memory: the few ways in which plait allocates. All return zeroed memory or NULL, check their sizes for
 * overflow, and are freed with free(). Callers turn NULL into plait_error_memory. Tests make these fail one
 * after another by wrapping malloc, calloc, realloc and aligned_alloc at link time, so nothing else may be
 * used to get memory. */
#ifndef PLAIT_BASE_ALLOC_H
#define PLAIT_BASE_ALLOC_H

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>

/* n objects of size_bytes each, zeroed. n == 0 gives a valid pointer. */
void *plait_alloc_array(size_t n, size_t size_bytes);

/* size_bytes at a multiple of `alignment` (a power of two), zeroed. */
void *plait_alloc_aligned(size_t alignment, size_t size_bytes);

/* Makes room for at least `needed` objects in the growable array *items of *capacity objects: doubles, zeroes
 * the new part, refuses more than `max` objects. On failure the array is as before. `what` names it in the
 * message. */
plait_status plait_grow(void *items_pointer, size_t *capacity, size_t needed, size_t size_bytes, size_t max,
                        const char *what);

/* A copy of the string, or of its first n bytes with a NUL behind; NULL when memory is short. */
char *plait_string_copy(const char *text);
char *plait_string_copy_n(const char *text, size_t n);

#endif
