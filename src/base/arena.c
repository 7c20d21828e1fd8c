/* The bump allocator. Invariant: every pointer handed out stays valid until deinit, for chunks never move.
 * Under AddressSanitizer the unused tail of a chunk is poisoned, and a gap follows each object. */
#include "base/arena.h"

#include "base/size.h"

#include <stdlib.h>
#include <string.h>

#if defined(__SANITIZE_ADDRESS__)
#define ARENA_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define ARENA_ASAN 1
#endif
#endif
#ifdef ARENA_ASAN
#include <sanitizer/asan_interface.h>
#define ARENA_GAP          16
#define ARENA_POISON(p, n) ASAN_POISON_MEMORY_REGION(p, n)
#define ARENA_OPEN(p, n)   ASAN_UNPOISON_MEMORY_REGION(p, n)
#else
#define ARENA_GAP          0
#define ARENA_POISON(p, n) ((void)(p), (void)(n))
#define ARENA_OPEN(p, n)   ((void)(p), (void)(n))
#endif

enum { FIRST_CHUNK_BYTES = 4096, LARGEST_CHUNK_BYTES = 1 << 20 };

struct plait_arena_chunk {
    plait_arena_chunk *next;
    size_t size_bytes, used_bytes;
    _Alignas(max_align_t) unsigned char bytes[];
};

void plait_arena_init(plait_arena *arena, size_t max_bytes) {
    *arena = (plait_arena){.max_bytes = max_bytes};
}

void plait_arena_deinit(plait_arena *arena) {
    for (plait_arena_chunk *chunk = arena->chunks, *next; chunk; chunk = next) {
        next = chunk->next;
        ARENA_OPEN(chunk->bytes, chunk->size_bytes);
        free(chunk);
    }
    plait_arena_init(arena, arena->max_bytes);
}

static plait_arena_chunk *add_chunk(plait_arena *arena, size_t needed) {
    size_t size = arena->chunks ? arena->chunks->size_bytes * 2 : FIRST_CHUNK_BYTES;
    if (size > LARGEST_CHUNK_BYTES) size = LARGEST_CHUNK_BYTES;
    if (size < needed) size = needed;
    size_t total;
    if (!plait_add_size(sizeof(plait_arena_chunk), size, &total)) return NULL;
    plait_arena_chunk *chunk = malloc(total);
    if (!chunk) return NULL;
    *chunk = (plait_arena_chunk){.next = arena->chunks, .size_bytes = size};
    ARENA_POISON(chunk->bytes, size);
    arena->chunks = chunk;
    return chunk;
}

void *plait_arena_alloc(plait_arena *arena, size_t n, size_t size_bytes) {
    size_t bytes, padded;
    if (!plait_mul_size(n, size_bytes, &bytes)) return NULL;
    if (!plait_add_size(bytes, _Alignof(max_align_t) - 1 + ARENA_GAP, &padded)) return NULL;
    padded &= ~(_Alignof(max_align_t) - 1);
    if (padded == 0) padded = _Alignof(max_align_t);
    if (arena->max_bytes &&
        padded > arena->max_bytes - plait_min_i64((int64_t)arena->used_bytes, (int64_t)arena->max_bytes))
        return NULL;
    plait_arena_chunk *chunk = arena->chunks;
    if (!chunk || chunk->size_bytes - chunk->used_bytes < padded) chunk = add_chunk(arena, padded);
    if (!chunk) return NULL;
    void *p = chunk->bytes + chunk->used_bytes;
    chunk->used_bytes += padded;
    arena->used_bytes += padded;
    ARENA_OPEN(p, bytes);
    memset(p, 0, bytes);
    return p;
}

char *plait_arena_string_n(plait_arena *arena, const char *text, size_t n) {
    size_t bytes;
    if (!plait_add_size(n, 1, &bytes)) return NULL;
    char *copy = plait_arena_alloc(arena, 1, bytes);
    if (copy && n) memcpy(copy, text, n);
    return copy;
}

char *plait_arena_string(plait_arena *arena, const char *text) {
    return plait_arena_string_n(arena, text, strlen(text));
}
