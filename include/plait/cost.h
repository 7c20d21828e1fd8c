/* Figures: how fast devices and the links between them are, as planning sees them.
 *
 * A plan for several devices compares predicted times; what predicts them are a few integers a device (struct
 * plait_device_figures in plait/device.h). A device that knows its figures states them; others are measured once
 * through their interface, and remembered in ${XDG_CACHE_HOME:-~/.cache}/plait under what the device says of itself.
 * Figures are rounded to a scale whose steps are 10%, so that noise seldom shows: equal figures, equal plan.
 *
 * A context with one device never needs figures, so nothing is measured there unless somebody asks.
 */
#ifndef PLAIT_COST_H
#define PLAIT_COST_H

#include "plait/context.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Where figures came from. */
typedef enum plait_figures_source {
    PLAIT_FIGURES_STATED,  /* by the device, or by the caller (plait_context_set_figures) */
    PLAIT_FIGURES_CACHED,  /* measured before, read from the cache folder */
    PLAIT_FIGURES_MEASURED /* now */
} plait_figures_source;

/* The figures of a device: stated, else cached, else measured, which takes up to half a second and some device memory,
 * and is written to the cache folder (a folder that cannot be written is no failure; a damaged file is replaced). Figures
 * that were measured while others used the processors are measured again by a later call, a minute after at the soonest
 * and eight times at most; the best count. With `again` the cache is not read. `out_source` may be NULL. Failures
 * are those of the device while it is measured. */
plait_status plait_device_measure(plait_device *device, bool again, plait_device_figures *out,
                                  plait_figures_source *out_source);

/* The same for a device of a context, remembered there. INVALID_ARGUMENT when there is no such device. */
plait_status plait_context_figures(plait_context *context, int device, plait_device_figures *out);
/* Gives a device its figures instead of measuring: for machines that are described in a file, for tests, for people who
 * know better. Rounded like measured ones; plans made before keep theirs. INVALID_ARGUMENT when there is no such device,
 * or a rate is 0 that must not be. */
plait_status plait_context_set_figures(plait_context *context, int device,
                                       const plait_device_figures *figures);

/* What moving bytes between two places costs: latency_ns + bytes / bytes_per_s. Rates are bytes a second, latencies
 * ns. */
typedef struct plait_link_figures {
    uint64_t bytes_per_s, latency_ns;
    bool direct; /* one copy, without a stop in host memory */
} plait_link_figures;

/* The link from one device of a context to another, or the host (-1). A link to itself costs nothing: bytes_per_s is
 * UINT64_MAX. Asks for the figures of both devices. */
plait_status plait_context_link(plait_context *context, int from, int to, plait_link_figures *out);

#ifdef __cplusplus
}
#endif
#endif
