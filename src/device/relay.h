/* The relay: one thread of a context that passes timelines on to devices which cannot wait for events of others. It is
 * started when the first such device is waited with, and sleeps while nothing is asked for.
 *
 * Not here: who must wait for whom. Invariant: values of one source are passed on in the order in which they were asked
 * for, and never before the source has reached them; a source that failed makes its mirrors fail with the same message.
 */
#ifndef PLAIT_DEVICE_RELAY_H
#define PLAIT_DEVICE_RELAY_H

#include "plait/device.h"

typedef struct plait_relay plait_relay;

/* `n_sources`: sources are numbered below it. */
plait_status plait_relay_create(plait_relay **out, size_t n_sources);
/* What is still asked for fails. Accepts NULL. */
void plait_relay_destroy(plait_relay *relay);

/* Room for n more requests at a time, or for n fewer. Failing, it is as before. */
plait_status plait_relay_reserve(plait_relay *relay, size_t n);
void plait_relay_release(plait_relay *relay, size_t n);

/* Asks that `target` reach `value` once `from` has. Never allocates: the caller has reserved the room, and has no more
 * requests than that under way. Requests of one source come with growing values. Any thread. */
void plait_relay_pass(plait_relay *relay, size_t source, plait_event *from, uint64_t value,
                      plait_event *target);

#endif
