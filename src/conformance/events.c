/* Events: timelines that only grow, waits of the host with and without a limit, signals and failures that the host
 * gives, waits of one queue for another; and that a signal comes neither before nor long after what it stands for. Not
 * here: events of another device (peers.c), what a failing queue does to its events (failures.c).
 *
 * Invariant: values that signals point to outlive the check, in the kit or as constants. */
#include "base/os.h"
#include "base/size.h"
#include "conformance/kit.h"

#include <string.h>

enum { ROUNDS = 100, LARGE = 4 << 20, N_WAITERS = 4, N_EVENTS = 60 };
#define MILLISECOND ((uint64_t)1000000)

/* numbers[i] is i, at an address that stays. */
static const uint64_t numbers[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9};

/* The output begins with a number that no check uses. */
static plait_status expect_value(plait_conf *c, plait_event *event, uint64_t expected) {
    uint64_t now = 77;
    PLAIT_TRY(c->v->event_query(event, &now));
    PLAIT_CONF_EXPECT(now == expected, "the event is at %llu, expected %llu", (unsigned long long)now,
                      (unsigned long long)expected);
    return PLAIT_OK;
}

/* ---- the timeline ---- */

/* Values grow by leaps, up to the largest but one: a device that keeps 32 bits fails. A value between the last and this
 * one is reached by this one; old values stay reached. UINT64_MAX itself is left out. */
static plait_status timeline(plait_conf *c, plait_conf_kit *kit, const void *user) {
    static const uint64_t values[] = {1, 5, 9, (uint64_t)1 << 40, UINT64_MAX - 1};
    plait_event *event;
    plait_queue *queue;
    (void)user;
    PLAIT_TRY(plait_conf_queue(kit, c->device, 0, &queue));
    PLAIT_TRY(plait_conf_event(kit, c->device, &event));
    /* Every timeline begins at 0, which is reached. */
    PLAIT_TRY(expect_value(c, event, 0));
    PLAIT_TRY(c->v->event_wait(event, 0, UINT64_MAX));
    for (size_t i = 0; i < PLAIT_COUNT_OF(values); i++) {
        plait_command signal = plait_conf_signal(event, &values[i]);
        PLAIT_TRY(plait_conf_submit(kit, queue, &signal, 1));
        /* Below the value that is signalled, above all that came before. */
        PLAIT_TRY(plait_conf_await(c, event, values[i] - (i > 0), "a signal of a queue"));
        PLAIT_TRY(c->v->synchronise(queue));
        PLAIT_TRY(expect_value(c, event, values[i]));
        PLAIT_TRY(c->v->event_wait(event, values[i], 0));
        PLAIT_TRY(c->v->event_wait(event, 1, 0));
    }
    return PLAIT_OK;
}

/* Smaller and equal values change nothing, whoever signals them. Smaller ones from the same queue and from the host, in
 * every order; 0 too. On a timeline that went back a wait could pass and the next one for the same value stand for
 * ever. */
static plait_status never_back(plait_conf *c, plait_conf_kit *kit, const void *user) {
    plait_event *event;
    plait_queue *queue;
    (void)user;
    PLAIT_TRY(plait_conf_queue(kit, c->device, 0, &queue));
    PLAIT_TRY(plait_conf_event(kit, c->device, &event));
    plait_command list[] = {plait_conf_signal(event, &numbers[5]), plait_conf_signal(event, &numbers[3]),
                            plait_conf_signal(event, &numbers[5]), plait_conf_signal(event, &numbers[0])};
    PLAIT_TRY(plait_conf_do(queue, list, PLAIT_COUNT_OF(list)));
    PLAIT_TRY(expect_value(c, event, 5));
    /* The host's signals follow the same rule. */
    PLAIT_TRY(c->v->event_signal(event, 2));
    PLAIT_TRY(expect_value(c, event, 5));
    PLAIT_TRY(plait_conf_await(c, event, 4, "a value that was passed"));
    PLAIT_TRY(c->v->event_signal(event, 8));
    PLAIT_TRY(plait_conf_do(queue, list, 2));
    return expect_value(c, event, 8);
}

/* A limit of 0 asks and does not wait. Neither too early nor much too late, which on a busy machine can only be a
 * matter of seconds. The patience on top is for machines under load, where a thread may not run for seconds. */
static plait_status timeout(plait_conf *c, plait_conf_kit *kit, const void *user) {
    static const uint64_t limits[] = {0, 1, 3 * MILLISECOND};
    plait_event *event;
    (void)user;
    PLAIT_TRY(plait_conf_event(kit, c->device, &event));
    for (size_t i = 0; i < PLAIT_COUNT_OF(limits); i++) {
        uint64_t start = plait_time_ns();
        plait_conf_forget_message();
        plait_status status = c->v->event_wait(event, 1, limits[i]);
        uint64_t passed = plait_time_ns() - start;
        /* TIMEOUT is an answer, and leaves the event as it was. */
        PLAIT_TRY(plait_conf_failed(status, PLAIT_TIMEOUT, "a wait for what never comes"));
        PLAIT_CONF_EXPECT(passed >= limits[i], "a wait of %llu ns ended after %llu",
                          (unsigned long long)limits[i], (unsigned long long)passed);
        PLAIT_CONF_EXPECT(passed <= limits[i] + c->patience_ns, "a wait of %llu ns ended after %llu",
                          (unsigned long long)limits[i], (unsigned long long)passed);
    }
    PLAIT_TRY(c->v->event_signal(event, 1));
    return c->v->event_wait(event, 1, 0);
}

/* ---- neither early nor late ---- */

/* When an event says so, the bytes are there: of a read to the host, and of a copy for another queue. Large enough that
 * an event which comes with the submission, and not with the end, is seen by far. The waiting list goes first. The
 * event of the copy is awaited by another queue, that of the read by the host: the two ways in which an early signal
 * does harm. */
static plait_status not_early(plait_conf *c, plait_conf_kit *kit, const void *user) {
    plait_queue *first, *second;
    plait_event *copied, *read;
    plait_buffer *a, *b;
    unsigned char *in, *out;
    uint64_t *values;
    (void)user;
    uint64_t n = LARGE;
    PLAIT_TRY(plait_conf_bytes(kit, ROUNDS * sizeof *values, (unsigned char **)&values));
    /* On a small device less has to do; early signals are harder to see there. */
    if (c->info.max_buffer_bytes < LARGE || c->info.memory_free_bytes < 3 * (uint64_t)LARGE) n = 1 << 12;
    PLAIT_TRY(plait_conf_queue(kit, c->device, 0, &first));
    PLAIT_TRY(plait_conf_queue(kit, c->device, PLAIT_QUEUE_COPY, &second));
    PLAIT_TRY(plait_conf_event(kit, c->device, &copied));
    PLAIT_TRY(plait_conf_event(kit, c->device, &read));
    PLAIT_TRY(plait_conf_buffer(kit, c->device, n, PLAIT_BUFFER_STATE, &a));
    PLAIT_TRY(plait_conf_buffer(kit, c->device, n, PLAIT_BUFFER_STATE, &b));
    PLAIT_TRY(plait_conf_bytes(kit, n, &in));
    PLAIT_TRY(plait_conf_bytes(kit, n, &out));
    for (uint32_t r = 0; r < (c->options.deep ? 40 : 4); r++) {
        values[r] = r + 1;
        plait_conf_pattern(in, n, r + 1);
        plait_command write[] = {plait_conf_write(a, 0, in, n), plait_conf_copy(a, 0, b, 0, n),
                                 plait_conf_signal(copied, &values[r])};
        plait_command take[] = {plait_conf_wait(copied, &values[r]), plait_conf_read(b, 0, out, n),
                                plait_conf_signal(read, &values[r])};
        PLAIT_TRY(plait_conf_submit(kit, second, take, 3));
        PLAIT_TRY(plait_conf_submit(kit, first, write, 3));
        PLAIT_TRY(plait_conf_await(c, read, r + 1, "a read"));
        PLAIT_TRY(plait_conf_same(out, in, n, "what the host sees when a read is signalled"));
        /* Lists of this round are on the stack and their patterns in `in`: both must be over before the next one. */
        PLAIT_TRY(c->v->synchronise(first));
        PLAIT_TRY(c->v->synchronise(second));
    }
    return PLAIT_OK;
}

/* A signal is seen while its queue has other things to do: here it waits for the host, who waits for the signal. A
 * device that makes signals known only when a list is done would stand for ever. */
static plait_status not_late(plait_conf *c, plait_conf_kit *kit, const void *user) {
    plait_queue *queue;
    plait_event *done, *gate;
    plait_buffer *buffer;
    (void)user;
    PLAIT_TRY(plait_conf_queue(kit, c->device, 0, &queue));
    PLAIT_TRY(plait_conf_event(kit, c->device, &done));
    PLAIT_TRY(plait_conf_event(kit, c->device, &gate));
    PLAIT_TRY(plait_conf_buffer(kit, c->device, 64, PLAIT_BUFFER_STATE, &buffer));
    plait_command list[20];
    int n = 0;
    for (int i = 1; i < 6; i++) {
        list[n++] = plait_conf_fill(buffer, 0, 64, (uint8_t)i);
        list[n++] = plait_conf_signal(done, &numbers[i]);
        list[n++] = plait_conf_wait(gate, &numbers[i]);
    }
    PLAIT_TRY(plait_conf_submit(kit, queue, list, n));
    for (uint64_t i = 1; i < 6; i++) {
        PLAIT_TRY(plait_conf_await(c, done, i, "a signal in front of a wait"));
        PLAIT_TRY(expect_value(c, done, i));
        PLAIT_TRY(c->v->event_signal(gate, i));
    }
    return c->v->synchronise(queue);
}

/* The waiting queue gets its commands first: nothing has been submitted yet that would signal. It must neither fail nor
 * go on. Submitting a wait before its signal is what every plan with two queues does, in one order or the other. */
static plait_status later_signal(plait_conf *c, plait_conf_kit *kit, const void *user) {
    plait_queue *queues[2];
    plait_event *events[2];
    (void)user;
    for (int i = 0; i < 2; i++) {
        PLAIT_TRY(plait_conf_queue(kit, c->device, 0, &queues[i]));
        PLAIT_TRY(plait_conf_event(kit, c->device, &events[i]));
    }
    plait_command waits[] = {plait_conf_wait(events[0], &numbers[1]),
                             plait_conf_signal(events[1], &numbers[2])};
    plait_command signal = plait_conf_signal(events[0], &numbers[1]);
    PLAIT_TRY(plait_conf_submit(kit, queues[0], waits, 2));
    /* Time in which a queue that does not wait would go on. */
    plait_conf_sleep_ns(2 * MILLISECOND);
    PLAIT_TRY(plait_error_context(expect_value(c, events[1], 0), "a queue that waits for another's event"));
    PLAIT_TRY(plait_conf_submit(kit, queues[1], &signal, 1));
    return plait_conf_await(c, events[1], 2, "a queue that waited for a later signal");
}

/* Two queues take turns in adding to one another's byte: each round copies what the other one wrote. Queue 0 waits for
 * the round before, queue 1 for this one, so each signal is awaited exactly once, a hundred times; a single one lost or
 * early ends it. Events only grow, so one pair serves all rounds; values[] gives each round an address that stays. */
static plait_status turns(plait_conf *c, plait_conf_kit *kit, const void *user) {
    plait_queue *queues[2];
    plait_event *events[2];
    plait_buffer *buffer;
    plait_command *lists;
    uint64_t *values;
    unsigned char back[2] = {0, 0};
    (void)user;
    PLAIT_TRY(plait_conf_bytes(kit, (ROUNDS + 2) * sizeof *values, (unsigned char **)&values));
    PLAIT_TRY(plait_conf_bytes(kit, 6 * ROUNDS * sizeof *lists, (unsigned char **)&lists));
    PLAIT_TRY(plait_conf_buffer(kit, c->device, 64, PLAIT_BUFFER_STATE, &buffer));
    for (int i = 0; i < 2; i++) {
        PLAIT_TRY(plait_conf_queue(kit, c->device, 0, &queues[i]));
        PLAIT_TRY(plait_conf_event(kit, c->device, &events[i]));
    }
    for (uint64_t i = 0; i < ROUNDS + 2; i++) values[i] = i;
    for (int r = 0; r < ROUNDS; r++)
        for (int q = 0; q < 2; q++) {
            plait_command *list = lists + 3 * (2 * r + q);
            list[0] = plait_conf_wait(events[1 - q], &values[r + (q == 1)]);
            list[1] = q == 0 ? plait_conf_fill(buffer, 0, 1, (uint8_t)(r + 1))
                             : plait_conf_copy(buffer, 0, buffer, 1, 1);
            list[2] = plait_conf_signal(events[q], &values[r + 1]);
        }
    for (int r = 0; r < ROUNDS; r++) /* The one that waits for this round's other half goes first. */
        for (int q = 1; q >= 0; q--) PLAIT_TRY(plait_conf_submit(kit, queues[q], lists + 3 * (2 * r + q), 3));
    PLAIT_TRY(plait_conf_await(c, events[1], ROUNDS, "the last turn of two queues"));
    plait_command read = plait_conf_read(buffer, 0, back, 2);
    PLAIT_TRY(plait_conf_do(queues[0], &read, 1));
    PLAIT_CONF_EXPECT(back[0] == (uint8_t)ROUNDS && back[1] == (uint8_t)ROUNDS,
                      "after %d turns the bytes are %d and %d", ROUNDS, back[0], back[1]);
    return PLAIT_OK;
}

/* ---- the host ---- */

typedef struct waiting {
    plait_conf *c;
    plait_event *event;
} waiting;

/* N_WAITERS threads wait for values of their own, one more signals them all. */
static plait_status wait_for_one(void *user, int index) {
    waiting *w = user;
    /* A while later, so that the others wait already; some may come later still, which must do no harm. */
    if (index == N_WAITERS) { /* the one who signals */
        plait_conf_sleep_ns(5 * MILLISECOND);
        for (uint64_t i = 1; i <= N_WAITERS; i++) PLAIT_TRY(w->c->v->event_signal(w->event, i));
        return PLAIT_OK;
    }
    return plait_conf_await(w->c, w->event, (uint64_t)index + 1, "a signal of the host, for a thread");
}

/* The host reaches a value: threads and queues go on, those that wait already and those that come later. The thread
 * that signals is one of the parallel ones, so the waiters are many and on both sides: threads, and a queue. */
static plait_status host_signal(plait_conf *c, plait_conf_kit *kit, const void *user) {
    plait_queue *queue;
    plait_event *event, *done;
    (void)user;
    PLAIT_TRY(plait_conf_queue(kit, c->device, 0, &queue));
    PLAIT_TRY(plait_conf_event(kit, c->device, &event));
    PLAIT_TRY(plait_conf_event(kit, c->device, &done));
    plait_command list[] = {plait_conf_wait(event, &numbers[3]), plait_conf_signal(done, &numbers[1]),
                            plait_conf_wait(event, &numbers[4]), plait_conf_signal(done, &numbers[2])};
    PLAIT_TRY(plait_conf_submit(kit, queue, list, PLAIT_COUNT_OF(list)));
    waiting w = {c, event};
    /* Values 1 to 4: the queue waits for 3 and 4 among them. */
    PLAIT_TRY(plait_conf_parallel(N_WAITERS + 1, wait_for_one, &w));
    PLAIT_TRY(plait_conf_await(c, done, 2, "a queue that waited for the host"));
    return expect_value(c, event, N_WAITERS);
}

#define FAILS(call, what) (plait_conf_forget_message(), expect_failure((call), (what)))

/* With the host's own reason, in its words. */
static plait_status expect_failure(plait_status status, const char *what) {
    PLAIT_TRY(plait_conf_failed(status, PLAIT_CANCELLED, what));
    PLAIT_CONF_EXPECT(strstr(plait_error_message(), "told so by the suite"), "%s: the message is \"%.200s\"",
                      what, plait_error_message());
    return PLAIT_OK;
}

/* The host ends a timeline: what was reached stays, everything else fails with the first reason, now and later. A queue
 * that waited fails with it, and so do its events; its other commands have no effect. */
static plait_status host_fail(plait_conf *c, plait_conf_kit *kit, const void *user) {
    /* The first failure stays: the second one must be seen nowhere. */
    plait_error_record first = {PLAIT_CANCELLED, "told so by the suite"},
                       other = {PLAIT_IO, "another reason, later"};
    plait_queue *queue, *free_queue;
    plait_event *event, *done;
    plait_buffer *buffer;
    unsigned char image[64];
    uint64_t value = 99;
    (void)user;
    PLAIT_TRY(plait_conf_queue(kit, c->device, 0, &queue));
    PLAIT_TRY(plait_conf_queue(kit, c->device, 0, &free_queue));
    PLAIT_TRY(plait_conf_event(kit, c->device, &event));
    PLAIT_TRY(plait_conf_event(kit, c->device, &done));
    PLAIT_TRY(plait_conf_buffer(kit, c->device, 64, PLAIT_BUFFER_STATE, &buffer));
    memset(image, 1, sizeof image);
    plait_command fill = plait_conf_fill(buffer, 0, 64, 1);
    PLAIT_TRY(plait_conf_do(free_queue, &fill, 1));
    plait_command list[] = {plait_conf_wait(event, &numbers[3]), plait_conf_fill(buffer, 0, 64, 2),
                            plait_conf_signal(done, &numbers[1])};
    PLAIT_TRY(plait_conf_submit(kit, queue, list, 3));
    /* 2 is reached before the failure, and stays so. */
    PLAIT_TRY(c->v->event_signal(event, 2));
    c->v->event_fail(event, &first);
    c->v->event_fail(event, &other);
    /* Asking must not change the answer. */
    for (int twice = 0; twice < 2; twice++) {
        plait_conf_forget_message();
        PLAIT_TRY(
            expect_failure(c->v->event_wait(event, 3, c->patience_ns), "a wait for an event that failed"));
        PLAIT_TRY(FAILS(c->v->event_query(event, &value), "a query of an event that failed"));
        PLAIT_CONF_EXPECT(value == 99, "a failed event_query has set its output");
        PLAIT_TRY(plait_error_context(c->v->event_wait(event, 2, c->patience_ns),
                                      "a value reached before the failure"));
        PLAIT_TRY(FAILS(c->v->event_wait(done, 1, c->patience_ns), "a wait for a queue that waited for it"));
        PLAIT_TRY(FAILS(c->v->synchronise(queue), "synchronise of a queue that waited for it"));
    }
    PLAIT_TRY(plait_conf_expect(kit, free_queue, buffer, image, "a buffer of a queue whose wait failed"));
    return c->v->health(c->device);
}

/* Events come and go while others use theirs, right after the wait that saw them. A device that touches the event after
 * the waiter has seen it is found by sanitizers, or by a crash. */
static plait_status one_event(plait_conf *c, plait_queue *queue) {
    plait_event *event = NULL;
    PLAIT_TRY(c->v->event_create(c->device, &event));
    plait_command signal = plait_conf_signal(event, &numbers[1]);
    plait_status status = c->v->submit(queue, &signal, 1);
    if (status == PLAIT_OK) status = plait_conf_await(c, event, 1, "an event of one of several threads");
    plait_error_record failure = {0};
    if (status != PLAIT_OK) {
        plait_error_save(status, &failure);
        c->v->synchronise(queue); /* the signal may still come */
    }
    c->v->event_destroy(event);
    return status == PLAIT_OK ? PLAIT_OK : plait_error_raise(&failure);
}

/* A queue for each thread, since calls on one come from one thread at a time. */
static plait_status come_and_go(void *user, int index) {
    plait_conf *c = user;
    plait_queue *queue = NULL;
    (void)index;
    plait_status status = c->v->queue_create(c->device, 0, &queue);
    for (int i = 0; i < N_EVENTS && status == PLAIT_OK; i++) status = one_event(c, queue);
    if (queue) c->v->queue_destroy(queue);
    return status;
}

/* An event may be destroyed right after the wait for its only signal: whoever signalled must be done with it. */
static plait_status check_short_lives(plait_conf *c, void *user) {
    (void)user;
    return plait_conf_parallel(3, come_and_go, c);
}

void plait_conf_events(plait_conf *c) {
    plait_conf_check_kit(c, "event/timeline", timeline, NULL);
    plait_conf_check_kit(c, "event/never-back", never_back, NULL);
    plait_conf_check_kit(c, "event/timeout", timeout, NULL);
    plait_conf_check_kit(c, "event/not-early", not_early, NULL);
    plait_conf_check_kit(c, "event/not-late", not_late, NULL);
    plait_conf_check_kit(c, "event/later-signal", later_signal, NULL);
    plait_conf_check_kit(c, "event/turns", turns, NULL);
    plait_conf_check_kit(c, "event/host-signal", host_signal, NULL);
    plait_conf_check_kit(c, "event/host-fail", host_fail, NULL);
    plait_conf_check(c, "event/short-lives", check_short_lives, NULL);
}
