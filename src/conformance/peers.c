/* Two devices: a second one of the same item (twin), and a cpu. Copies where one reaches the other and refusals where
 * it does not; events across, as each device can; the same host memory in both; equal bytes of equal numeric classes.
 * Not here: the self-test of copies before plans (device/peers.c).
 *
 * Invariant: the other device is the kit's, and is destroyed behind everything that the two have exchanged. */
#include "base/size.h"
#include "conformance/built.h"
#include "conformance/fill.h"
#include "conformance/kit.h"

#include <stdio.h>
#include <string.h>

enum { BYTES = 3000, ROUNDS = 30 };

/* The other device, or lacking. "cpu:threads=1" is slow and predictable; nothing here needs it to be fast. */
static plait_status open_other(plait_conf *c, plait_conf_kit *kit, const char *which, plait_device **out) {
    if (strcmp(which, "twin") == 0) return plait_conf_device(kit, c->item, out);
    /* A program may be built without it. */
    if (!plait_device_kind(which)) return plait_conf_lack(c, "there is no kind %s in this program", which);
    return plait_conf_device(kit, "cpu:threads=1", out);
}

/* A device with a buffer whose bytes are known. */
typedef struct side {
    plait_device *device;
    plait_queue *queue;
    plait_buffer *buffer;
    unsigned char *image;
} side;

/* Each side has a queue and a buffer of its own, whose image says what it should hold. */
static plait_status make_side(plait_conf_kit *kit, plait_device *device, uint32_t seed, side *out) {
    out->device = device;
    PLAIT_TRY(plait_conf_queue(kit, device, 0, &out->queue));
    PLAIT_TRY(plait_conf_buffer(kit, device, BYTES, PLAIT_BUFFER_STATE, &out->buffer));
    PLAIT_TRY(plait_conf_bytes(kit, BYTES, &out->image));
    plait_conf_pattern(out->image, BYTES, seed);
    plait_command write = plait_conf_write(out->buffer, 0, out->image, BYTES);
    return plait_conf_do(out->queue, &write, 1);
}

/* ---- copies ---- */

/* `actor` copies from one side to the other and is told, or says that it can not. `reaches` and what happens must
 * agree: a copy that is refused has moved nothing, one that is made has moved exactly its bytes. The queue is its own,
 * for it may fail. reaches is asked twice, since planners ask it once and rely on the answer. */
static plait_status copy_by(plait_conf_kit *kit, side *actor, side *from, side *to) {
    plait_device *away = actor->device == from->device ? to->device : from->device;
    bool reaches = actor->device->vtable->reaches(actor->device, away);
    plait_queue *queue;
    PLAIT_CONF_EXPECT(actor->device->vtable->reaches(actor->device, away) == reaches,
                      "reaches has changed its mind");
    PLAIT_CONF_EXPECT(actor->device->vtable->reaches(actor->device, actor->device),
                      "reaches: the device does not reach itself");
    PLAIT_TRY(plait_conf_queue(kit, actor->device, 0, &queue));
    plait_command copy = plait_conf_copy(from->buffer, 17, to->buffer, 5, BYTES / 2);
    plait_conf_forget_message();
    plait_status status = plait_conf_do(queue, &copy, 1);
    plait_conf_drop_queue(kit, queue);
    if (reaches) {
        PLAIT_TRY(plait_error_context(status, "a copy between devices that reach each other"));
        memcpy(to->image + 5, from->image + 17, BYTES / 2);
    } else {
        PLAIT_TRY(
            plait_conf_failed(status, PLAIT_UNSUPPORTED, "a copy to or from a device that is out of reach"));
    }
    PLAIT_TRY(
        plait_conf_expect(kit, to->queue, to->buffer, to->image, "the target of a copy between devices"));
    return plait_conf_expect(kit, from->queue, from->buffer, from->image,
                             "the source of a copy between devices");
}

/* Only the device under test acts, in both directions; the other one may be anything. */
static plait_status copies(plait_conf *c, plait_conf_kit *kit, const void *user) {
    side here = {0}, there = {0};
    plait_device *other;
    PLAIT_TRY(open_other(c, kit, user, &other));
    PLAIT_TRY(make_side(kit, c->device, 1, &here));
    PLAIT_TRY(make_side(kit, other, 2, &there));
    PLAIT_TRY(copy_by(kit, &here, &here, &there));
    return copy_by(kit, &here, &there, &here);
}

/* ---- events ---- */

/* How a queue of one device waits for an event of the other: directly, by an event that shows it, or by one that the host
 * passes values on to. */
typedef struct relay {
    plait_event *source, *seen;
    bool by_host;
} relay;

/* The three ways that a context has (device/context.c), tried in its order. A refused import leaves no event. The
 * waiter's device decides which way it takes. */
static plait_status make_relay(plait_conf_kit *kit, plait_device *waiter, plait_event *source, relay *out) {
    plait_device_info info;
    *out = (relay){.source = source, .seen = source};
    PLAIT_TRY(waiter->vtable->describe(waiter, &info));
    if (info.caps & PLAIT_CAP_FOREIGN_WAITS) return PLAIT_OK;
    plait_conf_forget_message();
    plait_status status = waiter->vtable->event_import(waiter, source, &out->seen);
    if (status == PLAIT_OK) return plait_conf_keep_event(kit, out->seen);
    PLAIT_TRY(plait_conf_failed(status, PLAIT_UNSUPPORTED, "event_import"));
    out->by_host = true;
    return plait_conf_event(kit, waiter, &out->seen);
}

/* What the relay's thread does for a context (device/relay.c): never before the source is there. Signalling early would
 * be worse than late, so the source is awaited first. */
static plait_status pass_on(plait_conf *c, const relay *r, uint64_t value) {
    if (!r->by_host) return PLAIT_OK;
    PLAIT_TRY(plait_conf_await(c, r->source, value, "an event whose value the host passes on"));
    return r->seen->device->vtable->event_signal(r->seen, value);
}

/* What a ping-pong needs until it is over. In the kit's memory, as the letters are: a check that fails leaves all of it
 * in flight. */
typedef struct game {
    side sides[2];
    plait_event *events[2];
    relay relays[2]; /* i: what side i waits for */
    uint64_t values[ROUNDS + 1];
    unsigned char *mail[2][ROUNDS]; /* what side i has sent in each round */
    plait_command lists[2][ROUNDS][4];
} game;

/* Bytes go through both devices and the host, round after round; all commands are submitted before the first is run,
 * those of the side that waits first. Side 0 of round r waits for side 1 of round r - 1, whose mail it writes; so every
 * letter must hold the bytes that side 0 began with, and one signal that comes early shows in the first letter. */
static plait_status play(plait_conf *c, plait_conf_kit *kit, game *g) {
    for (int r = 0; r < ROUNDS; r++)
        for (int i = 0; i < 2; i++) {
            plait_command *list = g->lists[i][r];
            /* Side 0 begins with its own bytes; later what came is written over them. */
            unsigned char *incoming = i == 0 ? (r ? g->mail[1][r - 1] : g->sides[0].image) : g->mail[0][r];
            list[0] = plait_conf_wait(g->relays[i].seen, &g->values[i == 0 ? r : r + 1]);
            list[1] = plait_conf_write(g->sides[i].buffer, 0, incoming, BYTES);
            list[2] = plait_conf_read(g->sides[i].buffer, 0, g->mail[i][r], BYTES);
            list[3] = plait_conf_signal(g->events[i], &g->values[r + 1]);
        }
    for (int i = 1; i >= 0; i--)
        for (int r = 0; r < ROUNDS; r++)
            PLAIT_TRY(plait_conf_submit(kit, g->sides[i].queue, g->lists[i][r], 4));
    for (uint64_t r = 1; r <= ROUNDS; r++) {
        PLAIT_TRY(pass_on(c, &g->relays[1], r));
        PLAIT_TRY(pass_on(c, &g->relays[0], r));
    }
    PLAIT_TRY(plait_conf_await(c, g->events[1], ROUNDS, "the last event of two devices that take turns"));
    PLAIT_TRY(plait_conf_await(c, g->events[0], ROUNDS, "the last event of two devices that take turns"));
    for (int r = 0; r < ROUNDS; r++)
        for (int i = 0; i < 2; i++)
            PLAIT_TRY(
                plait_conf_same(g->mail[i][r], g->sides[0].image, BYTES, "bytes that two devices hand over"));
    return PLAIT_OK;
}

/* Values, mail and lists are in the game, which the kit keeps as long as anything is in flight. */
static plait_status turns(plait_conf *c, plait_conf_kit *kit, const void *user) {
    plait_device *other;
    game *g;
    unsigned char *mail;
    PLAIT_TRY(open_other(c, kit, user, &other));
    PLAIT_TRY(plait_conf_bytes(kit, sizeof *g, (unsigned char **)&g));
    PLAIT_TRY(plait_conf_bytes(kit, (uint64_t)2 * ROUNDS * BYTES, &mail));
    for (int i = 0; i < 2; i++) {
        PLAIT_TRY(make_side(kit, i ? other : c->device, (uint32_t)i + 3, &g->sides[i]));
        PLAIT_TRY(plait_conf_event(kit, g->sides[i].device, &g->events[i]));
        for (int r = 0; r < ROUNDS; r++) g->mail[i][r] = mail + (i * ROUNDS + r) * BYTES;
    }
    for (uint64_t r = 0; r <= ROUNDS; r++) g->values[r] = r;
    for (int i = 0; i < 2; i++)
        PLAIT_TRY(make_relay(kit, g->sides[i].device, g->events[1 - i], &g->relays[i]));
    return play(c, kit, g);
}

/* A device that can not wait for others says so, and does not act as if: the queue fails at the wait, and what is
 * behind it does not happen. The event is signalled afterwards, so that a device which waits after all is let go. */
static plait_status foreign_wait(plait_conf *c, plait_conf_kit *kit, const void *user) {
    static const uint64_t one = 1;
    plait_device *other;
    plait_event *event, *done;
    plait_queue *queue;
    PLAIT_TRY(open_other(c, kit, user, &other));
    if (c->info.caps & PLAIT_CAP_FOREIGN_WAITS)
        return plait_conf_lack(c, "the device can wait for all events");
    PLAIT_TRY(plait_conf_event(kit, other, &event));
    PLAIT_TRY(plait_conf_event(kit, c->device, &done));
    PLAIT_TRY(plait_conf_queue(kit, c->device, 0, &queue));
    plait_command list[] = {plait_conf_wait(event, &one), plait_conf_signal(done, &one)};
    PLAIT_TRY(plait_conf_submit(kit, queue, list, 2));
    plait_conf_forget_message();
    plait_status status = c->v->event_wait(done, 1, c->patience_ns);
    other->vtable->event_signal(event, 1);
    return plait_conf_failed(status, PLAIT_UNSUPPORTED, "a wait for an event of another device");
}

/* ---- host memory of both ---- */

/* Two ranges that overlap, one from each device: the later one lies over the earlier one, in both views. Two queues of
 * two devices, one after the other: no event is needed, since each list is waited for. */
static plait_status shared_import(plait_conf *c, plait_conf_kit *kit, const void *user) {
    plait_device *other;
    plait_buffer *here = NULL, *there = NULL;
    plait_queue *queue;
    unsigned char *host, *image;
    PLAIT_TRY(open_other(c, kit, user, &other));
    PLAIT_TRY(plait_conf_bytes(kit, BYTES, &host));
    PLAIT_TRY(plait_conf_bytes(kit, BYTES, &image));
    PLAIT_TRY(plait_conf_queue(kit, other, 0, &queue));
    PLAIT_TRY(plait_conf_may_lack(c, c->v->buffer_import(c->device, host, BYTES, PLAIT_BUFFER_STATE, &here)));
    PLAIT_TRY(plait_conf_keep_buffer(kit, here));
    PLAIT_TRY(
        plait_conf_may_lack(c, other->vtable->buffer_import(other, host, BYTES, PLAIT_BUFFER_STATE, &there)));
    PLAIT_TRY(plait_conf_keep_buffer(kit, there));
    plait_command fill = plait_conf_fill(here, 10, 100, 7), more = plait_conf_fill(there, 60, 100, 8);
    PLAIT_TRY(plait_conf_do(c->queue, &fill, 1));
    PLAIT_TRY(plait_conf_do(queue, &more, 1));
    memset(image + 10, 7, 100);
    memset(image + 60, 8, 100);
    PLAIT_TRY(plait_conf_expect(kit, c->queue, here, image, "host memory that two devices have imported"));
    return plait_conf_expect(kit, queue, there, image, "host memory that two devices have imported");
}

/* ---- equal classes, equal bytes ---- */

typedef struct twins {
    plait_conf confs[2];
    unsigned char *images[2];
    plait_conf_work works[2];
} twins;

/* A product and a function of it: the two kinds of arithmetic in which devices of one class would differ first. */
static plait_status draw(plait_conf_work *w) {
    plait_op_use use;
    plait_operand weight = {.dtype = PLAIT_F16, .dims = {96, 41, 1, 1}},
                  x = {.dtype = PLAIT_F32, .dims = {96, 5, 1, 1}};
    plait_operand_make_dense(&weight);
    plait_operand_make_dense(&x);
    int inputs[2] = {plait_conf_tensor_add(w, &weight, PLAIT_CONF_FIXED, 0, true),
                     plait_conf_tensor_add(w, &x, PLAIT_CONF_FIXED, 0, false)};
    plait_op_use_init(&use, plait_op_get(PLAIT_OP_matmul));
    int y = plait_conf_apply(w, &use, 2, inputs, PLAIT_CONF_FIXED);
    plait_op_use_init(&use, plait_op_get(PLAIT_OP_silu));
    if (y < 0 || plait_conf_apply(w, &use, 1, &y, PLAIT_CONF_FIXED) < 0)
        return plait_error(PLAIT_INTERNAL, "the nodes are refused");
    PLAIT_TRY(plait_conf_all_supported(w->c, w));
    PLAIT_TRY(plait_conf_freeze(w));
    for (int i = 0; i < 2; i++) {
        plait_operand host = plait_conf_host(w, inputs[i]);
        PLAIT_TRY(plait_conf_values_fill(w->c, &host, PLAIT_CONF_RANDOM, (uint64_t)i + 1, 1));
    }
    return PLAIT_OK;
}

/* Several times, so that the two really compute at the same time. */
static plait_status run_twin(void *user, int index) {
    twins *t = user;
    for (int i = 0; i < 5; i++)
        PLAIT_TRY(plait_conf_run_device(&t->works[index], PLAIT_CONF_SINGLE, t->images[index]));
    return PLAIT_OK;
}

/* The marks of lacking are each bench's own, and are brought together here. Each image was written by five runs, of
 * which the last is compared. */
static plait_status draw_twins(plait_conf *c, twins *t) {
    for (int i = 0; i < 2; i++) {
        plait_status status = draw(&t->works[i]);
        c->lacks |= t->confs[i].lacks;
        PLAIT_TRY(status);
        t->images[i] = plait_conf_image(&t->works[i]);
    }
    PLAIT_TRY(plait_conf_parallel(2, run_twin, t));
    /* Each value, since devices of other alignments lay them out in another way. */
    for (int v = 0; v < t->works[0].n_values; v++)
        PLAIT_TRY(plait_conf_same(
            t->images[1] + t->works[1].values[v].offset, t->images[0] + t->works[0].values[v].offset,
            t->works[0].values[v].size_bytes, "a value on a second device of the same numeric class"));
    return PLAIT_OK;
}

/* Two devices of one class compute at once, and give the same bytes. Each has a suite state of its own, for the bench
 * asks that for device, queue and figures. */
static plait_status equal_bytes(plait_conf *c, plait_conf_kit *kit, const void *user) {
    plait_device *devices[2] = {c->device};
    twins *t;
    PLAIT_TRY(open_other(c, kit, user, &devices[1]));
    PLAIT_TRY(plait_conf_bytes(kit, sizeof *t, (unsigned char **)&t));
    for (int i = 0; i < 2; i++) {
        plait_conf *own = &t->confs[i];
        *own = (plait_conf){
            .item = c->item, .device = devices[i], .v = devices[i]->vtable, .patience_ns = c->patience_ns};
        PLAIT_TRY(own->v->describe(own->device, &own->info));
        PLAIT_TRY(plait_conf_queue(kit, own->device, PLAIT_QUEUE_INLINE, &own->queue));
        plait_conf_work_init(&t->works[i], own);
    }
    plait_status status =
        strcmp(t->confs[0].info.numeric_class, t->confs[1].info.numeric_class) != 0
            ? plait_conf_lack(c, "the numeric classes are %s and %s", t->confs[0].info.numeric_class,
                              t->confs[1].info.numeric_class)
            : draw_twins(c, t);
    for (int i = 0; i < 2; i++) {
        plait_conf_work_deinit(&t->works[i]);
        plait_conf_blocks_destroy(t->confs[i].blocks);
    }
    return status;
}

/* "peer/OTHER/CHECK". */
void plait_conf_peers(plait_conf *c) {
    static const struct {
        const char *name;
        plait_conf_kit_fn fn;
    } checks[] = {{"copies", copies},
                  {"events", turns},
                  {"foreign-wait", foreign_wait},
                  {"import", shared_import},
                  {"equal-bytes", equal_bytes}};
    /* A second device of its own kind, and one that every program has. */
    static const char *const others[] = {"twin", "cpu"};
    for (size_t o = 0; o < PLAIT_COUNT_OF(others); o++)
        for (size_t i = 0; i < PLAIT_COUNT_OF(checks); i++) {
            char name[64];
            snprintf(name, sizeof name, "peer/%s/%s", others[o], checks[i].name);
            plait_conf_check_kit(c, name, checks[i].fn, others[o]);
        }
}
