/* Open addressing with linear probing; clearing touches only the slots in use. Not here: growth while sampling, which
 * must not allocate. Invariant: at least half of the slots is free, so probing ends soon. */
#include "text/sampler/token_map.h"

#include "base/alloc.h"
#include "base/status.h"

#include <stdlib.h>

plait_status plait_token_map_reserve(plait_token_map *map, size_t capacity) {
    if (capacity <= map->capacity) return PLAIT_OK;
    size_t n_slots = 16;
    while (n_slots < 2 * capacity) n_slots *= 2; /* capacity is at most a few times 2^26 */
    plait_token_entry *entries = plait_alloc_array(capacity, sizeof *entries);
    uint32_t *slots = plait_alloc_array(n_slots, sizeof *slots);
    if (!entries || !slots) {
        free(entries);
        free(slots);
        return plait_error_memory("sampler token map", capacity * sizeof *entries + n_slots * sizeof *slots);
    }
    plait_token_map_deinit(map);
    *map = (plait_token_map){
        .entries = entries, .slots = slots, .capacity = capacity, .slot_mask = (uint32_t)(n_slots - 1)};
    return PLAIT_OK;
}

void plait_token_map_deinit(plait_token_map *map) {
    free(map->entries);
    free(map->slots);
    *map = (plait_token_map){0};
}

void plait_token_map_clear(plait_token_map *map) {
    for (size_t i = 0; i < map->n; i++) map->slots[map->entries[i].slot] = 0;
    map->n = 0;
}

/* Multiplicative hashing (Knuth); the upper bits are the well mixed ones. No seed: tokens come from a model's own
 * vocabulary, and a window bounds their number. */
uint32_t *plait_token_map_at(plait_token_map *map, plait_token token) {
    uint32_t slot = ((uint32_t)token * 0x9E3779B1u >> 7) & map->slot_mask;
    for (; map->slots[slot]; slot = (slot + 1) & map->slot_mask) {
        plait_token_entry *entry = &map->entries[map->slots[slot] - 1];
        if (entry->token == token) return &entry->value;
    }
    map->entries[map->n] = (plait_token_entry){.token = token, .slot = slot};
    map->slots[slot] = (uint32_t)++map->n;
    return &map->entries[map->n - 1].value;
}
