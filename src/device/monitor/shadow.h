/* Who wrote and who read each byte of a buffer last, as spans of bytes that share the answer. Not here: what an answer
 * means (buffer.c).
 *
 * When memory is short, or a buffer falls into too many spans, a shadow forgets what it knows and counts every byte as
 * written: it then misses breaches and never invents one. Invariant: spans are sorted, not empty, and do not overlap;
 * bytes of no span were never touched. */
#ifndef PLAIT_DEVICE_MONITOR_SHADOW_H
#define PLAIT_DEVICE_MONITOR_SHADOW_H

#include "device/monitor/clock.h"

#include <stddef.h>

enum { PLAIT_MONITOR_READERS = 3 };

typedef struct plait_monitor_span {
    uint64_t begin, end;
    bool written;
    plait_monitor_mark write;
    plait_monitor_mark reads[PLAIT_MONITOR_READERS]; /* since that write, one a lane */
} plait_monitor_span;

typedef struct plait_monitor_shadow {
    plait_monitor_span *spans; /* Owned. */
    size_t n, capacity;
    size_t swept; /* spans that were left by the last sweep */
    bool blind;   /* it has forgotten what it knew: all is written, nothing in flight */
} plait_monitor_shadow;

void plait_monitor_shadow_deinit(plait_monitor_shadow *shadow);
/* Keeps the memory. */
void plait_monitor_shadow_clear(plait_monitor_shadow *shadow);

/* The earlier access to [begin, end) that conflicts with one by `clock`, or NULL; *out_write says whether it wrote. */
const plait_monitor_mark *plait_monitor_shadow_conflict(const plait_monitor_shadow *shadow, uint64_t begin,
                                                        uint64_t end, bool write,
                                                        const plait_monitor_clock *clock, bool *out_write,
                                                        uint64_t *out_at);
/* Notes an access. `host`: what needs not be remembered because everybody will know it. */
void plait_monitor_shadow_note(plait_monitor_shadow *shadow, uint64_t begin, uint64_t end, bool write,
                               const plait_monitor_mark *mark, const plait_monitor_clock *host);
/* Counts [begin, end) as written, by nobody in particular. */
void plait_monitor_shadow_write(plait_monitor_shadow *shadow, uint64_t begin, uint64_t end);
/* The first bytes of [begin, end) that were never written; false when there are none. */
bool plait_monitor_shadow_unwritten(const plait_monitor_shadow *shadow, uint64_t begin, uint64_t end,
                                    uint64_t *out_begin, uint64_t *out_end);

#endif
