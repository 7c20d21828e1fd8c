/* Events: timelines, waits of the host with and without a limit, waits of one queue for another. */
#include "base/os.h"
#include "base/size.h"
#include "conformance/suite.h"

enum { ROUNDS = 200, MILLISECOND = 1000000 };

typedef struct bench {
    plait_queue *queues[2];
    plait_event *events[2];
    plait_buffer *buffer;
    /* What queues were given outlives them. */
    plait_command lists[2][ROUNDS][3];
    uint64_t numbers[2 * ROUNDS + 2];
} bench;

static plait_status bench_begin(plait_conf *c, bench *b) {
    for (int i = 0; i < 2; i++) {
        PLAIT_TRY(c->v->queue_create(c->device, 0, &b->queues[i]));
        PLAIT_TRY(c->v->event_create(c->device, &b->events[i]));
    }
    return c->v->buffer_create(c->device, 64, PLAIT_BUFFER_STATE, &b->buffer);
}

static void bench_end(plait_conf *c, bench *b) {
    for (int i = 0; i < 2; i++)
        if (b->queues[i]) c->v->queue_destroy(b->queues[i]);
    for (int i = 0; i < 2; i++)
        if (b->events[i]) c->v->event_destroy(b->events[i]);
    if (b->buffer) c->v->buffer_destroy(b->buffer);
}

typedef plait_status body_fn(plait_conf *c, bench *b);

static plait_status with_bench(plait_conf *c, body_fn *body) {
    bench b = {0};
    plait_status status = bench_begin(c, &b);
    if (status == PLAIT_OK) status = body(c, &b);
    bench_end(c, &b);
    return status;
}

static plait_status timeline(plait_conf *c, bench *b) {
    static const uint64_t values[] = {1, 5, 9};
    uint64_t now = 77;
    PLAIT_TRY(c->v->event_query(b->events[0], &now));
    PLAIT_CONF_EXPECT(now == 0, "a new event is at %llu, expected 0", (unsigned long long)now);
    PLAIT_TRY(c->v->event_wait(b->events[0], 0, UINT64_MAX));
    for (size_t i = 0; i < PLAIT_COUNT_OF(values); i++) {
        plait_command signal = {.kind = PLAIT_COMMAND_SIGNAL, .signal = {b->events[0], &values[i]}};
        PLAIT_TRY(c->v->submit(b->queues[0], &signal, 1));
        PLAIT_TRY(c->v->event_wait(b->events[0], values[i] - (i > 0), UINT64_MAX));
        PLAIT_TRY(c->v->synchronise(b->queues[0]));
        PLAIT_TRY(c->v->event_query(b->events[0], &now));
        PLAIT_CONF_EXPECT(now == values[i], "the event is at %llu, expected %llu", (unsigned long long)now,
                          (unsigned long long)values[i]);
    }
    return PLAIT_OK;
}

static plait_status timeout(plait_conf *c, bench *b) {
    static const uint64_t limits[] = {0, 1, 3 * MILLISECOND};
    for (size_t i = 0; i < PLAIT_COUNT_OF(limits); i++) {
        uint64_t start = plait_time_ns();
        plait_status status = c->v->event_wait(b->events[0], 1, limits[i]);
        uint64_t passed = plait_time_ns() - start;
        PLAIT_CONF_EXPECT(status == PLAIT_TIMEOUT, "waiting for %llu ns: %s, expected TIMEOUT",
                          (unsigned long long)limits[i], plait_status_name(status));
        PLAIT_CONF_EXPECT(passed >= limits[i], "a wait of %llu ns ended after %llu",
                          (unsigned long long)limits[i], (unsigned long long)passed);
    }
    return PLAIT_OK;
}

/* The waiting queue gets its commands first. */
static plait_status later_signal(plait_conf *c, bench *b) {
    static const uint64_t one = 1, two = 2;
    uint64_t now;
    plait_command waits[] = {{.kind = PLAIT_COMMAND_WAIT, .wait = {b->events[0], &one}},
                             {.kind = PLAIT_COMMAND_SIGNAL, .signal = {b->events[1], &two}}};
    plait_command signal = {.kind = PLAIT_COMMAND_SIGNAL, .signal = {b->events[0], &one}};
    PLAIT_TRY(c->v->submit(b->queues[0], waits, 2));
    PLAIT_TRY(c->v->event_query(b->events[1], &now));
    PLAIT_CONF_EXPECT(now == 0, "a queue did not wait for another's event");
    PLAIT_TRY(c->v->submit(b->queues[1], &signal, 1));
    return c->v->event_wait(b->events[1], 2, UINT64_MAX);
}

/* Two queues take turns in adding to one another's byte: each round copies what the other one wrote. */
static plait_status turns(plait_conf *c, bench *b) {
    uint64_t *numbers = b->numbers;
    unsigned char back[2] = {0, 0};
    for (uint64_t i = 0; i < PLAIT_COUNT_OF(b->numbers); i++) numbers[i] = i;
    for (int r = 0; r < ROUNDS; r++)
        for (int q = 0; q < 2; q++) {
            plait_command *list = b->lists[q][r];
            const uint64_t *before = &numbers[r + (q == 1)], *after = &numbers[r + 1];
            list[0] = (plait_command){.kind = PLAIT_COMMAND_WAIT, .wait = {b->events[1 - q], before}};
            list[1] = q == 0 ? (plait_command){.kind = PLAIT_COMMAND_FILL,
                                               .fill = {{b->buffer, 0, 1}, (uint8_t)(r + 1)}}
                             : (plait_command){.kind = PLAIT_COMMAND_COPY,
                                               .copy = {{b->buffer, 0, 1}, {b->buffer, 1, 1}, NULL, NULL}};
            list[2] = (plait_command){.kind = PLAIT_COMMAND_SIGNAL, .signal = {b->events[q], after}};
        }
    for (int r = 0; r < ROUNDS; r++)
        for (int q = 1; q >= 0; q--) PLAIT_TRY(c->v->submit(b->queues[q], b->lists[q][r], 3));
    plait_command read = {.kind = PLAIT_COMMAND_READ,
                          .transfer = {.region = {b->buffer, 0, 2}, .host = back}};
    PLAIT_TRY(c->v->synchronise(b->queues[1]));
    PLAIT_TRY(c->v->submit(b->queues[0], &read, 1));
    PLAIT_TRY(c->v->synchronise(b->queues[0]));
    PLAIT_CONF_EXPECT(back[0] == (uint8_t)ROUNDS && back[1] == (uint8_t)ROUNDS,
                      "after %d turns the bytes are %d and %d", ROUNDS, back[0], back[1]);
    return PLAIT_OK;
}

static plait_status check_timeline(plait_conf *c, void *user) {
    (void)user;
    return with_bench(c, timeline);
}
static plait_status check_timeout(plait_conf *c, void *user) {
    (void)user;
    return with_bench(c, timeout);
}
static plait_status check_later(plait_conf *c, void *user) {
    (void)user;
    return with_bench(c, later_signal);
}
static plait_status check_turns(plait_conf *c, void *user) {
    (void)user;
    return with_bench(c, turns);
}

void plait_conf_events(plait_conf *c) {
    plait_conf_check(c, "event/timeline", check_timeline, NULL);
    plait_conf_check(c, "event/timeout", check_timeout, NULL);
    plait_conf_check(c, "event/later-signal", check_later, NULL);
    plait_conf_check(c, "event/turns", check_turns, NULL);
}
