/* A bump allocator: objects that live and die together (a graph's nodes, a plan's tables, a parsed template).
 * Memory comes in chunks from malloc, is zeroed, and is freed all at once. Not thread-safe. */
#ifndef PLAIT_BASE_ARENA_H
#define PLAIT_BASE_ARENA_H

#include "base/status.h"

#include <stdatomic.h>
#include <stddef.h>

typedef struct plait_arena_chunk plait_arena_chunk;

/* Chunks of arenas that have ended, kept for those that begin: memory that the system has just given costs more to touch
 * than all that planning does with it. Any thread, any number of arenas; who finds the pool busy goes without it. */
typedef struct plait_arena_pool {
    atomic_flag busy;
    plait_arena_chunk *chunks; /* Owned. */
    size_t held_bytes, most_bytes;
} plait_arena_pool;

/* No allocation. At most most_bytes are held. */
void plait_arena_pool_init(plait_arena_pool *pool, size_t most_bytes);
/* Frees what is held. No arena may use the pool any more. */
void plait_arena_pool_deinit(plait_arena_pool *pool);

typedef struct plait_arena {
    plait_arena_chunk *chunks; /* Owned. The newest chunk first. */
    size_t used_bytes;         /* handed out in all, for statistics */
    size_t max_bytes;          /* 0: no limit; otherwise more than this fails */
    plait_arena_pool *pool;    /* Borrowed. NULL: chunks come from malloc */
} plait_arena;

/* Zeroes *arena; no allocation. max_bytes 0 means no limit. */
void plait_arena_init(plait_arena *arena, size_t max_bytes);
/* The same, with chunks from a pool, which must outlive the arena. */
void plait_arena_init_pooled(plait_arena *arena, plait_arena_pool *pool);
/* Frees all chunks, or gives them to the pool; the arena can be used again as if fresh. Accepts a zeroed arena. */
void plait_arena_deinit(plait_arena *arena);

/* n zeroed objects of size_bytes at max_align_t alignment, or NULL (memory or the limit is exhausted). */
void *plait_arena_alloc(plait_arena *arena, size_t n, size_t size_bytes);
/* plait_grow for an array in an arena: *items moves to a place twice as large, or as large as is asked for at first, and
 * what it leaves behind stays there until the arena ends. */
plait_status plait_arena_grow(plait_arena *arena, void *items_pointer, size_t *capacity, size_t needed,
                              size_t size_bytes, size_t max, const char *what);
/* The same with whatever bytes were there: for large tables whose every entry is written before it is read. */
void *plait_arena_take(plait_arena *arena, size_t n, size_t size_bytes);
/* Copies of a string, NUL-terminated, or NULL. */
char *plait_arena_string(plait_arena *arena, const char *text);
char *plait_arena_string_n(plait_arena *arena, const char *text, size_t n);

#endif
