/* Device lists: "cpu:threads=2,cpu,sim:mem=64MiB" cut into items, and each kind asked what it makes of its items together
 * (plait_device_vtable.expand). Not here: creating the devices (registry.c, context.c). */
#ifndef PLAIT_DEVICE_LIST_H
#define PLAIT_DEVICE_LIST_H

#include "base/status.h"

#include <stddef.h>

typedef struct plait_device_item {
    int source; /* which item of the list it comes from */
    char *text; /* Owned. "kind[:key=value]...", for plait_device_create */
} plait_device_item;

typedef struct plait_device_list {
    plait_device_item *items; /* Owned. In the order of the list */
    int n_items;
    size_t capacity;
} plait_device_list;

enum { PLAIT_MAX_DEVICES = 64 };

/* `threads`: of plait_context_options. INVALID_ARGUMENT for an empty item, more than PLAIT_MAX_DEVICES devices, or what a
 * kind refuses; unknown kinds stay as they are. */
plait_status plait_device_list_parse(const char *text, int threads, plait_device_list *out);
/* Accepts a zeroed list. */
void plait_device_list_deinit(plait_device_list *list);

#endif
