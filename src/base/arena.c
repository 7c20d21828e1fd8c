/* The bump allocator. Not here: single objects with lives of their own (alloc.h). Invariant: every pointer handed out
 * stays valid until deinit, for chunks never move. Under AddressSanitizer the unused tail of a chunk is poisoned, and a
 * gap follows each object. */
#include "base/arena.h"

#include "base/size.h"

#include <stdbool.h>
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
/* Poisoned bytes behind each object: one granule of the sanitizer is 8 bytes, so a write just behind the end is always
 * seen, at any size. */
#define ARENA_GAP          16
#define ARENA_POISON(p, n) ASAN_POISON_MEMORY_REGION(p, n)
#define ARENA_OPEN(p, n)   ASAN_UNPOISON_MEMORY_REGION(p, n)
#else
#define ARENA_GAP          0
#define ARENA_POISON(p, n) ((void)(p), (void)(n))
#define ARENA_OPEN(p, n)   ((void)(p), (void)(n))
#endif

/* Chunks double from a page to a megabyte: a small graph costs one page, a large plan few calls of malloc. Larger ones
 * than the last would only leave more of the final chunk unused; a single object that is larger gets a chunk to
 * measure. */
enum { FIRST_CHUNK_BYTES = 4096, LARGEST_CHUNK_BYTES = 1 << 20 };

/* The header is followed by the bytes at the alignment of any object; `used_bytes` is the bump pointer. */
struct plait_arena_chunk {
    plait_arena_chunk *next;
    size_t size_bytes, used_bytes;
    _Alignas(max_align_t) unsigned char bytes[];
};

/* ---- pool ---- */

/* most_bytes bounds what the pool holds while nobody uses it; chunks in use do not count. */
void plait_arena_pool_init(plait_arena_pool *pool, size_t most_bytes) {
    *pool = (plait_arena_pool){.busy = ATOMIC_FLAG_INIT, .most_bytes = most_bytes};
}

/* The allocator behind malloc may write into the memory it gets back, so nothing of it may stay poisoned. */
static void free_chunk(plait_arena_chunk *chunk) {
    ARENA_OPEN(chunk->bytes, chunk->size_bytes);
    free(chunk);
}

/* No arena that was made with the pool may live any more, for its end would put chunks into it. */
void plait_arena_pool_deinit(plait_arena_pool *pool) {
    for (plait_arena_chunk *chunk = pool->chunks, *next; chunk; chunk = next) {
        next = chunk->next;
        free_chunk(chunk);
    }
    pool->chunks = NULL;
    pool->held_bytes = 0;
}

/* A try-lock, never a wait: the pool is only a saving, and whoever finds it taken goes to malloc. NULL pool: no
 * pool. */
static bool pool_enter(plait_arena_pool *pool) {
    return pool && !atomic_flag_test_and_set_explicit(&pool->busy, memory_order_acquire);
}

static void pool_leave(plait_arena_pool *pool) {
    atomic_flag_clear_explicit(&pool->busy, memory_order_release);
}

/* The smallest chunk that is large enough, unless much of it would lie idle. Twice the size asked for is the limit: a
 * chunk that a small arena sat on would be missing where a large one begins. A chunk that was taken is the caller's.
 * Linear in the chunks that the pool holds, which most_bytes bounds. */
static plait_arena_chunk *pool_take(plait_arena_pool *pool, size_t size) {
    plait_arena_chunk **best = NULL, *found = NULL;
    if (!pool_enter(pool)) return NULL;
    for (plait_arena_chunk **at = &pool->chunks; *at; at = &(*at)->next)
        if ((*at)->size_bytes >= size && (*at)->size_bytes / 2 <= size &&
            (!best || (*at)->size_bytes < (*best)->size_bytes))
            best = at;
    if (best) {
        found = *best;
        *best = found->next;
        pool->held_bytes -= found->size_bytes;
    }
    pool_leave(pool);
    return found;
}

/* False when the pool is busy, full or NULL: the caller then frees the chunk. */
static bool pool_keep(plait_arena_pool *pool, plait_arena_chunk *chunk) {
    if (!pool_enter(pool)) return false;
    bool room = chunk->size_bytes <= pool->most_bytes - pool->held_bytes;
    if (room) {
        ARENA_POISON(chunk->bytes, chunk->size_bytes);
        chunk->next = pool->chunks;
        pool->chunks = chunk;
        pool->held_bytes += chunk->size_bytes;
    }
    pool_leave(pool);
    return room;
}

/* ---- arena ---- */

void plait_arena_init(plait_arena *arena, size_t max_bytes) {
    *arena = (plait_arena){.max_bytes = max_bytes};
}

void plait_arena_init_pooled(plait_arena *arena, plait_arena_pool *pool) {
    *arena = (plait_arena){.pool = pool};
}

/* The arena may be used again at once, with the same limit and pool. */
void plait_arena_deinit(plait_arena *arena) {
    for (plait_arena_chunk *chunk = arena->chunks, *next; chunk; chunk = next) {
        next = chunk->next;
        if (!pool_keep(arena->pool, chunk)) free_chunk(chunk);
    }
    *arena = (plait_arena){.max_bytes = arena->max_bytes, .pool = arena->pool};
}

/* A chunk of at least `needed` bytes, which becomes the current one; what was left of the one before is given up. The
 * struct assignment also sets used_bytes to 0, which a chunk of the pool needs; its old contents are cleared by
 * plait_arena_alloc, or not wanted (plait_arena_take). A taken chunk keeps its own size, which may be up to twice what
 * was wanted. */
static plait_arena_chunk *add_chunk(plait_arena *arena, size_t needed) {
    size_t size = arena->chunks ? arena->chunks->size_bytes * 2 : FIRST_CHUNK_BYTES;
    if (size > LARGEST_CHUNK_BYTES) size = LARGEST_CHUNK_BYTES;
    if (size < needed) size = needed;
    size_t total;
    if (!plait_add_size(sizeof(plait_arena_chunk), size, &total)) return NULL;
    plait_arena_chunk *chunk = pool_take(arena->pool, size);
    if (chunk) size = chunk->size_bytes;
    if (!chunk) chunk = malloc(total);
    if (!chunk) return NULL;
    *chunk = (plait_arena_chunk){.next = arena->chunks, .size_bytes = size};
    ARENA_POISON(chunk->bytes, size);
    arena->chunks = chunk;
    return chunk;
}

/* Sizes are rounded to the largest alignment, which so holds for the next object without asking. An object of size 0
 * takes a unit all the same: two objects never have one address. The limit counts padding, and is compared by
 * subtraction, which cannot overflow. Its bytes are whatever malloc or the pool left there: for callers that write all
 * of them. NULL for a limit and for want of memory alike. */
void *plait_arena_take(plait_arena *arena, size_t n, size_t size_bytes) {
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
    return p;
}

void *plait_arena_alloc(plait_arena *arena, size_t n, size_t size_bytes) {
    void *p = plait_arena_take(arena, n, size_bytes);
    if (p) memset(p, 0, n * size_bytes);
    return p;
}

char *plait_arena_string_n(plait_arena *arena, const char *text, size_t n) {
    size_t bytes;
    if (!plait_add_size(n, 1, &bytes)) return NULL;
    char *copy = plait_arena_alloc(arena, 1, bytes);
    if (copy && n) memcpy(copy, text, n);
    return copy;
}

/* As plait_grow, but the old array stays behind: others may still point into it, and an arena frees nothing. Doubling
 * bounds what is left behind by the size of the last array. On failure the old array stands. The new room is zeroed. */
plait_status plait_arena_grow(plait_arena *arena, void *items_pointer, size_t *capacity, size_t needed,
                              size_t size_bytes, size_t max, const char *what) {
    void *items, *larger;
    if (needed <= *capacity) return PLAIT_OK;
    if (needed > max) return plait_error(PLAIT_LIMIT, "%s: more than %zu", what, max);
    size_t n = *capacity > max / 2 ? max : 2 * *capacity;
    if (n < 8) n = 8;
    if (n < needed) n = needed;
    larger = plait_arena_alloc(arena, n, size_bytes);
    if (!larger) return plait_error_memory(what, n * size_bytes);
    memcpy(&items, items_pointer, sizeof items);
    if (*capacity) memcpy(larger, items, *capacity * size_bytes);
    memcpy(items_pointer, &larger, sizeof larger);
    *capacity = n;
    return PLAIT_OK;
}

char *plait_arena_string(plait_arena *arena, const char *text) {
    return plait_arena_string_n(arena, text, strlen(text));
}
