/* Memory of one buffer, mapped twice: at the address that is published, where any touch faults, and at a private address
 * between two guard pages, for the device that computes. Not here: how much of it there may be (buffer.c).
 *
 * Invariant: no file descriptor outlives a call; what was published keeps faulting until it is unmapped. */
#ifndef PLAIT_DEVICE_SIM_MAP_H
#define PLAIT_DEVICE_SIM_MAP_H

#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct plait_sim_map {
    void *published; /* `bytes` that fault; readable and writable when asked to be open */
    void *guarded;   /* `bytes` and a guard page on either side */
    void *alias;     /* between the guard pages; NULL when somebody else has the bytes */
    uint64_t bytes;  /* whole pages, at least one */
    uint64_t guarded_bytes;
} plait_sim_map;

/* Zeroed memory of at least size_bytes. `open`: the host may touch the published address. OUT_OF_MEMORY when the system
 * has none. */
plait_status plait_sim_map_init(plait_sim_map *map, uint64_t size_bytes, bool open);
/* Only a published address, all of which faults. */
plait_status plait_sim_map_init_published(plait_sim_map *map, uint64_t size_bytes);
/* Accepts a zeroed map. */
void plait_sim_map_deinit(plait_sim_map *map);
/* Gives the memory back and keeps the addresses: a touch of any of them faults from now on. */
void plait_sim_map_bury(plait_sim_map *map);

#endif
