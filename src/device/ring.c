/* Command lists that wait in a queue: making room. Lists are never moved while the ring is large enough, and the
 * numbers of lists stay what they are when it grows. Invariant: a ring that could not grow is as it was. */
#include "device/ring.h"

#include "base/alloc.h"

#include <stdlib.h>

/* FIRST_LISTS: room that a queue has from the start. MAX_LISTS: whoever has so many waiting submits without ever
 * waiting for anything. */
enum { FIRST_LISTS = 16, MAX_LISTS = 1 << 20 };

plait_status plait_command_ring_reserve(plait_command_ring *ring, const char *device, uint64_t begin,
                                        uint64_t end) {
    if (end - begin < ring->capacity) return PLAIT_OK;
    if (ring->capacity >= MAX_LISTS)
        return plait_error(PLAIT_LIMIT, "%s: %llu command lists wait in a queue", device,
                           (unsigned long long)(end - begin));
    plait_command_ring larger = {.capacity = ring->capacity ? 2 * ring->capacity : FIRST_LISTS};
    larger.lists = plait_alloc_array(larger.capacity, sizeof *larger.lists);
    if (!larger.lists) return plait_error_memory("queue", larger.capacity * sizeof *larger.lists);
    /* By number, not as a block of memory: the place of a list depends on the capacity. */
    for (uint64_t i = begin; i != end; i++)
        *plait_command_ring_at(&larger, i) = *plait_command_ring_at(ring, i);
    free(ring->lists);
    *ring = larger;
    return PLAIT_OK;
}

void plait_command_ring_deinit(plait_command_ring *ring) {
    free(ring->lists);
    *ring = (plait_command_ring){0};
}
