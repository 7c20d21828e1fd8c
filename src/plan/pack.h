/* Packing: items that need bytes for a span of positions get offsets, so that two which are alive at one position never
 * share bytes, in as little space as can be found in bounded time. Pure arithmetic: no knowledge of plans or devices. */
#ifndef PLAIT_PLAN_PACK_H
#define PLAIT_PLAN_PACK_H

#include "base/status.h"

#include <stddef.h>
#include <stdint.h>

typedef struct plait_pack_item {
    uint64_t size_bytes;
    uint64_t alignment;  /* a power of two; of the offset inside its chunk */
    uint64_t offset;     /* out */
    int32_t first, last; /* positions, both included; 0 <= first <= last */
} plait_pack_item;

typedef struct plait_packing {
    uint64_t total_bytes;
    uint64_t bound_bytes;   /* heaviest set alive at once: no packing is smaller */
    int32_t bound_position; /* the first position where that is */
} plait_packing;

/* Sets every item's offset. chunk_bytes 0: one space; otherwise the space is cut at its multiples, and no item lies across
 * a cut. OUT_OF_RANGE when an item is larger than a chunk or the sizes overflow. The same items give the same offsets;
 * time is about proportional to n, whatever the items (see pack.c). */
plait_status plait_pack(plait_pack_item *items, size_t n, uint64_t chunk_bytes, plait_packing *out);

#endif
