/* The relay's thread looks at the oldest request of every source in turn. While nothing moves it sleeps in the wait of
 * one of them, never for long, so that a slow source does not hold back the others. Not here: which values are asked
 * for (the run that submits the waits asks).
 *
 * Invariant: a request is in the list of its source or in the list of free ones; both are changed under the lock only.
 * Only the relay's thread takes requests out of a source's list, so the oldest one stays the oldest while the lock is
 * not held. */
#include "device/relay.h"

#include "base/alloc.h"
#include "base/os.h"
#include "base/status.h"
#include "base/thread.h"

#include <stdlib.h>

/* How long the thread looks without sleeping, and how long it sleeps in the wait for one source when there are more. */
enum { SPIN_NS = 20000, NAP_NS = 50000 };
#define NONE SIZE_MAX

/* Links are places in `requests`, not pointers: the array moves when it grows. */
typedef struct request {
    plait_event *from, *target;
    uint64_t value;
    size_t next;
} request;

typedef struct source {
    size_t first, last; /* requests, oldest first */
} source;

/* reserved: what callers have asked room for, at most capacity. n_waiting: requests in lists of sources; the thread
 * sleeps while it is 0. */
struct plait_relay {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool lock_ready, stop;
    plait_thread thread;
    request *requests; /* Owned. */
    size_t capacity, reserved, free_list, n_waiting;
    size_t n_sources;
    source *sources; /* Owned. */
};

/* ---- passing on ---- */

/* With the lock held. */
static void take_first(plait_relay *relay, source *s) {
    size_t taken = s->first;
    s->first = relay->requests[taken].next;
    if (s->first == NONE) s->last = NONE;
    relay->requests[taken].next = relay->free_list;
    relay->free_list = taken;
    relay->n_waiting--;
}

/* The mirror gets the message of the calling thread's last failure. */
static void fail_target(plait_event *target, plait_status status) {
    plait_error_record failure;
    plait_error_save(status, &failure);
    target->device->vtable->event_fail(target, &failure);
}

/* Passes on what the oldest request of a source asks for, if it can be; true when it did, in which case the next one
 * may be due too. The lock is not held while devices are called: what they do takes time, and they may call back into
 * queues whose threads are just asking the relay. */
static bool try_source(plait_relay *relay, size_t index) {
    pthread_mutex_lock(&relay->lock);
    source *s = &relay->sources[index];
    bool waiting = s->first != NONE;
    request oldest = waiting ? relay->requests[s->first] : (request){0};
    pthread_mutex_unlock(&relay->lock);
    if (!waiting) return false;
    uint64_t reached = 0;
    plait_status status = oldest.from->device->vtable->event_query(oldest.from, &reached);
    if (status != PLAIT_OK) /* a value that was reached before the failure counts */
        status = oldest.from->device->vtable->event_wait(oldest.from, oldest.value, 0);
    else if (reached < oldest.value)
        return false;
    pthread_mutex_lock(&relay->lock); /* its place is free before anybody can know that it was passed on */
    take_first(relay, s);
    pthread_mutex_unlock(&relay->lock);
    if (status == PLAIT_OK) status = oldest.target->device->vtable->event_signal(oldest.target, oldest.value);
    if (status != PLAIT_OK) fail_target(oldest.target, status);
    return true;
}

/* Every source until nothing of it can be passed on; true when anything was. A source of many requests does not starve
 * others for long: requests are as many as steps are in flight. */
static bool try_all(plait_relay *relay) {
    bool moved = false;
    for (size_t s = 0; s < relay->n_sources; s++)
        while (try_source(relay, s)) moved = true;
    return moved;
}

/* Sleeps in the wait for one of the sources; *turn says which was the last. */
static void nap(plait_relay *relay, size_t *turn) {
    request oldest = {0};
    pthread_mutex_lock(&relay->lock);
    for (size_t i = 0; i < relay->n_sources && !oldest.from; i++) {
        *turn = (*turn + 1) % relay->n_sources;
        if (relay->sources[*turn].first != NONE) oldest = relay->requests[relay->sources[*turn].first];
    }
    pthread_mutex_unlock(&relay->lock);
    if (oldest.from) (void)oldest.from->device->vtable->event_wait(oldest.from, oldest.value, NAP_NS);
}

/* False when the relay ends. */
static bool wait_for_requests(plait_relay *relay) {
    pthread_mutex_lock(&relay->lock);
    while (relay->n_waiting == 0 && !relay->stop) pthread_cond_wait(&relay->changed, &relay->lock);
    bool more = !relay->stop;
    pthread_mutex_unlock(&relay->lock);
    return more;
}

/* Spins over the sources for SPIN_NS after the last thing that moved, since values of one step come close together, and
 * naps after that. */
static void *relay_main(void *argument) {
    plait_relay *relay = argument;
    size_t turn = 0;
    uint64_t idle_since = plait_time_ns();
    while (wait_for_requests(relay)) {
        if (try_all(relay))
            idle_since = plait_time_ns();
        else if (plait_time_ns() - idle_since > SPIN_NS)
            nap(relay, &turn);
        else
            plait_cpu_relax();
    }
    return NULL;
}

/* ---- life ---- */

/* Failing, destroy undoes what is there: lock_ready says whether the lock and the condition are. */
static plait_status start(plait_relay *relay) {
    if (pthread_mutex_init(&relay->lock, NULL) != 0) return plait_error_memory("relay", 0);
    if (pthread_cond_init(&relay->changed, NULL) != 0) {
        pthread_mutex_destroy(&relay->lock);
        return plait_error_memory("relay", 0);
    }
    relay->lock_ready = true;
    relay->sources = plait_alloc_array(relay->n_sources, sizeof *relay->sources);
    if (!relay->sources) return plait_error_memory("relay", relay->n_sources * sizeof *relay->sources);
    for (size_t s = 0; s < relay->n_sources; s++) relay->sources[s] = (source){NONE, NONE};
    return plait_thread_start(&relay->thread, "plait-relay", relay_main, relay);
}

plait_status plait_relay_create(plait_relay **out, size_t n_sources) {
    plait_relay *relay = plait_alloc_array(1, sizeof *relay);
    if (!relay) return plait_error_memory("relay", sizeof *relay);
    relay->free_list = NONE;
    relay->n_sources = n_sources;
    plait_status status = start(relay);
    if (status != PLAIT_OK) {
        plait_relay_destroy(relay);
        return status;
    }
    *out = relay;
    return PLAIT_OK;
}

void plait_relay_destroy(plait_relay *relay) {
    if (!relay) return;
    if (relay->lock_ready) {
        pthread_mutex_lock(&relay->lock);
        relay->stop = true;
        pthread_cond_broadcast(&relay->changed);
        pthread_mutex_unlock(&relay->lock);
        plait_thread_join(&relay->thread);
        for (size_t s = 0; relay->sources && s < relay->n_sources; s++)
            for (size_t r = relay->sources[s].first; r != NONE; r = relay->requests[r].next)
                fail_target(relay->requests[r].target, plait_error(PLAIT_CANCELLED, "the context is closed"));
        pthread_cond_destroy(&relay->changed);
        pthread_mutex_destroy(&relay->lock);
    }
    free(relay->sources);
    free(relay->requests);
    free(relay);
}

/* ---- asking ---- */

plait_status plait_relay_reserve(plait_relay *relay, size_t n) {
    pthread_mutex_lock(&relay->lock);
    /* Places that growing has added go to the free list. The array may move: that is why requests are copied out of it
     * before the lock is left. */
    size_t before = relay->capacity;
    plait_status status = plait_grow(&relay->requests, &relay->capacity, relay->reserved + n,
                                     sizeof *relay->requests, (size_t)1 << 24, "relay");
    for (size_t r = before; r < relay->capacity; r++) {
        relay->requests[r].next = relay->free_list;
        relay->free_list = r;
    }
    if (status == PLAIT_OK) relay->reserved += n;
    pthread_mutex_unlock(&relay->lock);
    return status;
}

/* The places stay: only what later reservations must find is less. */
void plait_relay_release(plait_relay *relay, size_t n) {
    pthread_mutex_lock(&relay->lock);
    relay->reserved -= n;
    pthread_mutex_unlock(&relay->lock);
}

void plait_relay_pass(plait_relay *relay, size_t index, plait_event *from, uint64_t value,
                      plait_event *target) {
    pthread_mutex_lock(&relay->lock);
    size_t r = relay->free_list;
    source *s = &relay->sources[index];
    relay->free_list = relay->requests[r].next;
    relay->requests[r] = (request){from, target, value, NONE};
    /* At the end of the source's list, whose values grow: the first one is the next to be reached. */
    if (s->last == NONE)
        s->first = r;
    else
        relay->requests[s->last].next = r;
    s->last = r;
    relay->n_waiting++;
    pthread_cond_signal(&relay->changed);
    pthread_mutex_unlock(&relay->lock);
}
