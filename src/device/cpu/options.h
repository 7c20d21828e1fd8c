/* What the options of a cpu item ask for, and what a list of items makes of what they leave open. Not here: shares and
 * threads themselves (share.h, pool.h). Invariant: parsing asks nothing of the machine but its instruction sets and the
 * number of processors, so that a list for another machine can be read. */
#ifndef PLAIT_DEVICE_CPU_OPTIONS_H
#define PLAIT_DEVICE_CPU_OPTIONS_H

#include "device/cpu/cpu.h"

typedef struct plait_cpu_options {
    plait_cpu_wish wish;
    plait_cpuset processors; /* what wish.processors shows */
    uint32_t features;       /* instruction sets, as PLAIT_CPU_... bits */
    bool each_node;          /* numa=each: wish.node is -1 */
} plait_cpu_options;

/* "key=value" each. INVALID_ARGUMENT says what is wrong and what is known. *out must not move afterwards. */
plait_status plait_cpu_options_parse(const char *const *options, int n_options, plait_cpu_options *out);
/* Reads the topology and gives the device its share, threads and features. */
plait_status plait_cpu_options_apply(plait_cpu_options *options, plait_cpu_device *device);

/* list.c: `expand` of the vtable. Items with numa=each become one for each node that has processors of its own. Items that
 * name neither processors nor a node share out what the others leave, in proportion to their threads, when it is enough
 * for all threads; items without threads share it evenly. The second one does it for a topology that is given. */
plait_status plait_cpu_expand(const char *const *items, int n_items, int threads, plait_item_sink *emit,
                              void *user);
plait_status plait_cpu_expand_on(const plait_topology *topology, const char *const *items, int n_items,
                                 int threads, plait_item_sink *emit, void *user);

#endif
