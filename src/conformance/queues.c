/* Queues: commands run in order, lists may be many, fields behind pointers are read when the command runs, and
 * destroying a queue waits for it. */
#include "base/size.h"
#include "conformance/suite.h"

#include <string.h>

enum { BYTES = 256, MANY = 600 };

/* A queue of its own, a buffer, and commands that outlive the queue. */
typedef struct bench {
    plait_queue *queue;
    plait_buffer *buffer;
    plait_command commands[MANY];
} bench;

static plait_status bench_begin(plait_conf *c, uint32_t flags, bench *b) {
    PLAIT_TRY(c->v->queue_create(c->device, flags, &b->queue));
    return c->v->buffer_create(c->device, BYTES, PLAIT_BUFFER_STATE, &b->buffer);
}

static void bench_end(plait_conf *c, bench *b) {
    if (b->queue) c->v->queue_destroy(b->queue);
    if (b->buffer) c->v->buffer_destroy(b->buffer);
}

/* Each list overwrites byte i % BYTES with its number, and the bytes behind with the same: the last one wins. */
static plait_status many_lists(plait_conf *c, bench *b) {
    plait_command *commands = b->commands;
    unsigned char back[BYTES];
    for (int i = 0; i < MANY; i++) {
        uint64_t at = (uint64_t)(i % BYTES);
        commands[i] = (plait_command){.kind = PLAIT_COMMAND_FILL,
                                      .fill = {{b->buffer, at, BYTES - at}, (uint8_t)(i / BYTES + i)}};
        PLAIT_TRY(c->v->submit(b->queue, &commands[i], 1));
    }
    plait_command read = {.kind = PLAIT_COMMAND_READ,
                          .transfer = {.region = {b->buffer, 0, BYTES}, .host = back}};
    PLAIT_TRY(c->v->submit(b->queue, &read, 1));
    PLAIT_TRY(c->v->synchronise(b->queue));
    for (int i = 0; i < BYTES; i++) {
        /* The last list that begins at i or before it. */
        int last = MANY - 1, start = last - last % BYTES, final = i < last % BYTES ? start + i : last;
        PLAIT_CONF_EXPECT(back[i] == (uint8_t)(final / BYTES + final), "byte %d is %d, expected %d", i,
                          back[i], (uint8_t)(final / BYTES + final));
    }
    return PLAIT_OK;
}

static plait_status check_many(plait_conf *c, void *user) {
    bench b = {0};
    plait_status status = bench_begin(c, *(const uint32_t *)user, &b);
    if (status == PLAIT_OK) status = many_lists(c, &b);
    bench_end(c, &b);
    return status;
}

/* One list, several times: what its pointers show has changed in between. */
static plait_status reused_list(plait_conf *c, bench *b) {
    unsigned char source[BYTES], back[BYTES];
    uint64_t size = 0;
    const plait_command list[] = {
        {.kind = PLAIT_COMMAND_FILL, .fill = {{b->buffer, 0, BYTES}, 0}},
        {.kind = PLAIT_COMMAND_WRITE,
         .transfer = {.region = {b->buffer, 0, BYTES}, .host = source, .size_bytes = &size}},
        {.kind = PLAIT_COMMAND_READ, .transfer = {.region = {b->buffer, 0, BYTES}, .host = back}},
    };
    for (int round = 1; round < BYTES; round += 11) {
        size = (uint64_t)round;
        memset(source, round, sizeof source);
        PLAIT_TRY(c->v->submit(b->queue, list, PLAIT_COUNT_OF(list)));
        PLAIT_TRY(c->v->synchronise(b->queue));
        for (int i = 0; i < BYTES; i++)
            PLAIT_CONF_EXPECT(back[i] == (i < round ? round : 0), "round %d: byte %d is %d", round, i,
                              back[i]);
    }
    return PLAIT_OK;
}

static plait_status check_reuse(plait_conf *c, void *user) {
    bench b = {0};
    (void)user;
    plait_status status = bench_begin(c, 0, &b);
    if (status == PLAIT_OK) status = reused_list(c, &b);
    bench_end(c, &b);
    return status;
}

/* Everything that was submitted is done when queue_destroy returns. */
static plait_status check_destroy(plait_conf *c, void *user) {
    bench b = {0};
    unsigned char source[BYTES], back[BYTES] = {0};
    (void)user;
    memset(source, 0x5A, sizeof source);
    plait_command list[] = {
        {.kind = PLAIT_COMMAND_WRITE, .transfer = {.region = {NULL, 0, BYTES}, .host = source}},
        {.kind = PLAIT_COMMAND_READ, .transfer = {.region = {NULL, 0, BYTES}, .host = back}},
    };
    plait_status status = bench_begin(c, 0, &b);
    list[0].transfer.region.buffer = list[1].transfer.region.buffer = b.buffer;
    if (status == PLAIT_OK) status = c->v->submit(b.queue, list, 2);
    if (b.queue) c->v->queue_destroy(b.queue);
    b.queue = NULL;
    if (status == PLAIT_OK && memcmp(back, source, BYTES) != 0)
        status = plait_error(PLAIT_INTERNAL, "queue_destroy did not wait for its commands");
    bench_end(c, &b);
    return status;
}

static plait_status check_empty(plait_conf *c, void *user) {
    bench b = {0};
    (void)user;
    plait_status status = bench_begin(c, 0, &b);
    plait_command none = {.kind = PLAIT_COMMAND_FILL};
    if (status == PLAIT_OK) status = c->v->submit(b.queue, &none, 0);
    if (status == PLAIT_OK) status = c->v->synchronise(b.queue);
    bench_end(c, &b);
    return status;
}

void plait_conf_queues(plait_conf *c) {
    uint32_t own_thread = 0, caller = PLAIT_QUEUE_INLINE;
    plait_conf_check(c, "queue/many", check_many, &own_thread);
    plait_conf_check(c, "queue/many-inline", check_many, &caller);
    plait_conf_check(c, "queue/reuse", check_reuse, NULL);
    plait_conf_check(c, "queue/destroy", check_destroy, NULL);
    plait_conf_check(c, "queue/empty", check_empty, NULL);
}
