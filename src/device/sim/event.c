/* Events: a timeline of the host, known to its device so that losing the device fails it; or a window onto another
 * device's event. Not here: timelines (device/host_event.c), and whose wait is allowed (queue.c).
 *
 * Invariant: an event is in its device's list from its creation to its destruction; a window has no timeline of its
 * own. */
#include "device/sim/sim.h"

#include "base/alloc.h"
#include "plait/host_queue.h"

#include <stdlib.h>

/* A wait for somebody else's event looks up this often to see whether the device is lost. */
enum { LOOK_NS = 5000000 };

static plait_sim_event *as_sim(plait_event *event) {
    return (plait_sim_event *)event;
}

/* At the front of a list with links both ways, since events die in any order. */
static void enlist(plait_sim_device *device, plait_sim_event *event) {
    pthread_mutex_lock(&device->lock);
    event->next = device->events;
    if (event->next) event->next->previous = event;
    device->events = event;
    pthread_mutex_unlock(&device->lock);
}

static void delist(plait_sim_device *device, plait_sim_event *event) {
    pthread_mutex_lock(&device->lock);
    if (event->next) event->next->previous = event->previous;
    if (event->previous)
        event->previous->next = event->next;
    else
        device->events = event->next;
    pthread_mutex_unlock(&device->lock);
}

/* `shown`: the event that it is a window onto, NULL for a timeline of its own. */
static plait_status create(plait_device *base, plait_event *shown, plait_event **out) {
    plait_sim_device *device = (plait_sim_device *)base;
    PLAIT_TRY(plait_sim_alive(device));
    plait_sim_event *event = plait_alloc_array(1, sizeof *event);
    if (!event) return plait_error_memory("event", sizeof *event);
    event->base.device = base;
    event->shown = shown;
    plait_status status = shown ? PLAIT_OK : plait_host_event_create(base, &event->timeline);
    if (status != PLAIT_OK) {
        free(event);
        return status;
    }
    enlist(device, event);
    /* Lost in the meantime: whoever lost it may have passed this event by. */
    if (plait_sim_alive(device) != PLAIT_OK && event->timeline)
        plait_host_event_fail(event->timeline, &device->loss);
    *out = &event->base;
    return PLAIT_OK;
}

plait_status plait_sim_event_create(plait_device *device, plait_event **out) {
    return create(device, NULL, out);
}

plait_status plait_sim_event_import(plait_device *device, plait_event *foreign, plait_event **out) {
    PLAIT_TRY(plait_sim_offers((plait_sim_device *)device, PLAIT_SIM_NO_TIMELINES));
    return create(device, foreign, out);
}

/* Out of the list first: losing the device at the same time must not find an event that is being freed. */
void plait_sim_event_destroy(plait_event *base) {
    plait_sim_event *event = as_sim(base);
    if (!event) return;
    delist((plait_sim_device *)base->device, event);
    plait_host_event_destroy(event->timeline);
    free(event->name);
    free(event);
}

plait_status plait_sim_event_query(plait_event *base, uint64_t *out_value) {
    plait_event *shown = as_sim(base)->shown;
    if (shown) return shown->device->vtable->event_query(shown, out_value);
    return plait_host_event_query(as_sim(base)->timeline, out_value);
}

/* The host's wait. Counted among the waits that can be made to fail, as those of queues are. */
plait_status plait_sim_event_wait(plait_event *base, uint64_t value, uint64_t timeout_ns) {
    plait_event *shown = as_sim(base)->shown;
    if (shown) return shown->device->vtable->event_wait(shown, value, timeout_ns);
    PLAIT_TRY(plait_sim_count((plait_sim_device *)base->device, PLAIT_SIM_FAIL_WAIT));
    plait_status status = plait_host_event_wait(as_sim(base)->timeline, value, timeout_ns);
    const char *name = as_sim(base)->name;
    return name ? plait_error_context(status, "event %s", name) : status;
}

plait_status plait_sim_event_signal(plait_event *base, uint64_t value) {
    if (as_sim(base)->shown)
        return plait_error(PLAIT_UNSUPPORTED, "%s: signals an event that it imported", base->device->name);
    return plait_host_event_signal(as_sim(base)->timeline, value);
}

/* A window cannot be failed: the event behind it is another device's. */
void plait_sim_event_fail(plait_event *base, const plait_error_record *failure) {
    if (as_sim(base)->timeline) plait_host_event_fail(as_sim(base)->timeline, failure);
}

/* Own timelines are failed when the device is lost, so a wait for one ends by itself. Another device's event knows
 * nothing of this loss: that wait is cut into pieces of LOOK_NS. Without imports, waiting for foreign events is what
 * no=waits takes away. */
plait_status plait_sim_event_hold(plait_sim_device *device, plait_event *event, uint64_t value) {
    if (event->device == &device->base) {
        if (as_sim(event)->timeline) return plait_host_event_wait(as_sim(event)->timeline, value, UINT64_MAX);
        event = as_sim(event)->shown;
    } else {
        PLAIT_TRY(plait_sim_offers(device, PLAIT_SIM_NO_WAITS));
    }
    for (;;) {
        plait_status status = event->device->vtable->event_wait(event, value, LOOK_NS);
        if (status != PLAIT_TIMEOUT) return status;
        PLAIT_TRY(plait_sim_alive(device));
    }
}
