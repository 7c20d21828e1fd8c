/* Machines that are described instead of had: for planning what a model would need and take there.
 *
 *     # two cards and the host
 *     big    memory=24GiB  flops=80T  memory-bandwidth=900GB bandwidth=25GB latency=10us
 *     small  memory=12GiB  flops=25T  memory-bandwidth=350GB bandwidth=12GB latency=10us lack=top_k
 *     host   memory=128GiB flops=1.5T memory-bandwidth=60GB  bandwidth=50GB
 *
 * A line is a device: its name, then keys and values. memory, flops (operations a second of matrix products) and
 * memory-bandwidth must be there; the others are bandwidth and latency (of transfers), overhead (of a launch), lack and
 * lack-type (words joined by '+'), copy-queues, max-buffer, granularity and pad (of allocations). Units are those of
 * device lists: docs/command-line.md. '#' begins a comment.
 */
#ifndef PLAIT_MACHINE_H
#define PLAIT_MACHINE_H

#include "plait/context.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Opens a context of the devices that the text describes, in its order, under its names. They plan as if they were there,
 * with memory, figures and lacks as stated; they compute nothing, so what is loaded there is worthless. INVALID_ARGUMENT
 * with the number of the line for anything that is not as above. `options` as for plait_context_open. */
plait_status plait_machine_open(plait_context **out, const char *text, size_t n_bytes,
                                const plait_context_options *options);

#ifdef __cplusplus
}
#endif
#endif
