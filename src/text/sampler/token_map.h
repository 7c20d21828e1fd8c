/* A small map from token to number, filled and emptied for each pick. Entries are listed in the order of
 * insertion. The capacity is fixed beforehand; callers never insert more, so that nothing allocates while
 * sampling. */
#ifndef PLAIT_TEXT_SAMPLER_TOKEN_MAP_H
#define PLAIT_TEXT_SAMPLER_TOKEN_MAP_H

#include "plait/sampler.h"

typedef struct plait_token_entry {
    plait_token token;
    uint32_t value;
    uint32_t slot;
} plait_token_entry;

typedef struct plait_token_map {
    plait_token_entry *entries; /* Owned. */
    uint32_t *slots;            /* Owned. Entry number + 1, 0: free. */
    size_t n, capacity;         /* entries */
    uint32_t slot_mask;         /* number of slots - 1, a power of two >= 2 * capacity */
} plait_token_map;

/* Room for at least `capacity` entries; loses the contents when it grows. On failure the map is as before. */
plait_status plait_token_map_reserve(plait_token_map *map, size_t capacity);
void plait_token_map_deinit(plait_token_map *map);
void plait_token_map_clear(plait_token_map *map);
/* The value of a token, inserted as 0 when new. Requires n < capacity when it is new. */
uint32_t *plait_token_map_at(plait_token_map *map, plait_token token);

#endif
