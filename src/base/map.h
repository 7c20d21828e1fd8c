/* A hash map from byte strings to 32-bit values: names of tensors, tokens of a vocabulary, merges. Keys are
 * borrowed: they must outlive the map. Open addressing, seeded per map so that hostile keys cannot be chosen
 * to collide. Reading from several threads is safe while nobody writes. */
#ifndef PLAIT_BASE_MAP_H
#define PLAIT_BASE_MAP_H

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct plait_map_slot {
    const char *key; /* Borrowed. NULL: free. */
    uint32_t key_bytes;
    uint32_t hash;
    uint32_t value;
} plait_map_slot;

/* Zeroed is empty; the first put takes memory. Order of slots depends on the seed: nothing may be listed from it. */
typedef struct plait_map {
    plait_map_slot *slots; /* Owned. A power of two of them, at most 3/4 used. */
    size_t n_slots, n_used;
    uint64_t seed;
} plait_map;

void plait_map_init(plait_map *map);
void plait_map_deinit(plait_map *map);
/* Makes room for n keys in all, so that later puts up to that number cannot fail. */
plait_status plait_map_reserve(plait_map *map, size_t n);
/* Adds the key, or replaces its value, which cannot fail; *out_existed (may be NULL) says which. */
plait_status plait_map_put(plait_map *map, const void *key, size_t key_bytes, uint32_t value,
                           bool *out_existed);
/* True and *out_value when the key is there. */
bool plait_map_get(const plait_map *map, const void *key, size_t key_bytes, uint32_t *out_value);

/* 64-bit hash of bytes under a seed (wyhash-like mixing; ours). Same result on every machine. */
uint64_t plait_hash_bytes(const void *bytes, size_t n, uint64_t seed);

#endif
