/* Command lists that a queue was given and has not executed: list number i is at place i % capacity of a ring that grows only
 * while it has never been so long, so a warm queue allocates nothing. Who counts the lists, and under which lock, is the
 * queue's affair. */
#ifndef PLAIT_DEVICE_RING_H
#define PLAIT_DEVICE_RING_H

#include "base/status.h"
#include "plait/device.h"

typedef struct plait_command_list {
    const plait_command *commands; /* Borrowed, until they are executed. */
    int n;
} plait_command_list;

/* Zero is an empty ring. */
typedef struct plait_command_ring {
    plait_command_list *lists; /* Owned. */
    size_t capacity;
} plait_command_ring;

/* Room for list number `end` behind those from `begin` on. LIMIT, in the name of the device, when absurdly many wait;
 * OUT_OF_MEMORY. The ring is then as before. */
plait_status plait_command_ring_reserve(plait_command_ring *ring, const char *device, uint64_t begin,
                                        uint64_t end);

static inline plait_command_list *plait_command_ring_at(const plait_command_ring *ring, uint64_t i) {
    return &ring->lists[i % ring->capacity];
}

/* Gives back the memory. Accepts an empty ring. */
void plait_command_ring_deinit(plait_command_ring *ring);

#endif
