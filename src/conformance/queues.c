/* Queues: commands run in order, lists may be many, fields behind pointers are read when the command runs, a queue that
 * waits holds up nobody else, and destroying a queue waits for it. Not here: events by themselves (events.c), failures
 * (failures.c).
 *
 * Invariant: whatever commands in flight point to lives in the kit, for a check may return at any time. */
#include "base/os.h"
#include "base/size.h"
#include "base/thread.h"
#include "conformance/kit.h"

#include <string.h>

enum { BYTES = 256, MANY = 600, LARGE = 1 << 20, N_QUEUES = 8, N_THREADS = 4 };
#define MILLISECOND ((uint64_t)1000000)

static const uint64_t one = 1, two = 2;

/* Each list overwrites byte i % BYTES with its number, and the bytes behind with the same: the last one wins. More
 * lists than any ring begins with, each of one command, submitted without a wait in between: a device that loses one,
 * or lets two change places, leaves a byte of another number. 600 fills over 256 bytes, each from its place to the end:
 * what a byte holds at last is given by the last list that begins at or before it. */
static plait_status many_lists(plait_conf *c, plait_conf_kit *kit, const void *user) {
    plait_command *commands;
    plait_buffer *buffer;
    plait_queue *queue;
    unsigned char back[BYTES];
    PLAIT_TRY(plait_conf_bytes(kit, MANY * sizeof *commands, (unsigned char **)&commands));
    PLAIT_TRY(plait_conf_queue(kit, c->device, *(const uint32_t *)user, &queue));
    PLAIT_TRY(plait_conf_buffer(kit, c->device, BYTES, PLAIT_BUFFER_STATE, &buffer));
    for (int i = 0; i < MANY; i++) {
        uint64_t at = (uint64_t)(i % BYTES);
        commands[i] = plait_conf_fill(buffer, at, BYTES - at, (uint8_t)(i / BYTES + i));
        PLAIT_TRY(plait_conf_submit(kit, queue, &commands[i], 1));
    }
    plait_command read = plait_conf_read(buffer, 0, back, BYTES);
    PLAIT_TRY(plait_conf_do(queue, &read, 1));
    for (int i = 0; i < BYTES; i++) {
        /* The last list that begins at i or before it. */
        int last = MANY - 1, start = last - last % BYTES, final = i < last % BYTES ? start + i : last;
        PLAIT_CONF_EXPECT(back[i] == (uint8_t)(final / BYTES + final), "byte %d is %d, expected %d", i,
                          back[i], (uint8_t)(final / BYTES + final));
    }
    return PLAIT_OK;
}

/* Large copies that read what the one before wrote, and overwrite what the one before read. A device that overlaps
 * commands without looking at their bytes gets them wrong: large, so that there is time for it. Half of the list is
 * submitted for itself, for the order must hold across lists too. Read after write, write after read and write after
 * write, on both buffers, ten times over. */
static plait_status hazards(plait_conf *c, plait_conf_kit *kit, const void *user) {
    plait_buffer *a, *b;
    plait_queue *queue;
    unsigned char *in, *out;
    plait_command list[64];
    int n = 0;
    /* Two buffers of LARGE and what else there is; a device that small has no copies that take long. */
    if (c->info.memory_free_bytes < 4 * LARGE || c->info.max_buffer_bytes < LARGE)
        return plait_conf_lack(c, "the device has too little memory for large copies");
    PLAIT_TRY(plait_conf_queue(kit, c->device, *(const uint32_t *)user, &queue));
    PLAIT_TRY(plait_conf_buffer(kit, c->device, LARGE, PLAIT_BUFFER_STATE, &a));
    PLAIT_TRY(plait_conf_buffer(kit, c->device, LARGE, PLAIT_BUFFER_STATE, &b));
    PLAIT_TRY(plait_conf_bytes(kit, LARGE, &in));
    PLAIT_TRY(plait_conf_bytes(kit, LARGE, &out));
    plait_conf_pattern(in, LARGE, 9);
    for (int round = 0; round < 10; round++) {
        list[n++] = plait_conf_write(a, 0, in, LARGE); /* a: pattern */
        list[n++] = plait_conf_copy(a, 0, b, 0, LARGE);
        list[n++] = plait_conf_fill(a, 0, LARGE, (uint8_t)round); /* after b has it */
        list[n++] = plait_conf_copy(b, 0, a, 0, LARGE - 1);       /* a: pattern, last byte round */
        list[n++] = plait_conf_fill(b, 0, LARGE, 0xEE);
    }
    list[n++] = plait_conf_copy(a, 0, b, 0, LARGE);
    list[n++] = plait_conf_read(b, 0, out, LARGE);
    /* Of the last round: the copy back leaves out the last byte, which is what the fill before it left. */
    in[LARGE - 1] = 9;
    /* The arrays that commands point to are the kit's; the list's second half is waited for here. */
    PLAIT_TRY(plait_conf_submit(kit, queue, list, n / 2));
    PLAIT_TRY(plait_conf_do(queue, list + n / 2, n - n / 2));
    return plait_conf_same(out, in, LARGE, "bytes after copies that depend on each other");
}

/* One list, several times: what its pointers show has changed in between. That is how a run uses its lists, so a device
 * may not keep what it read the first time. Rounds go in steps of 11, so neither size nor value is a power of two. */
static plait_status reused_list(plait_conf *c, plait_conf_kit *kit, const void *user) {
    unsigned char source[BYTES], back[BYTES];
    uint64_t size = 0;
    plait_buffer *buffer;
    plait_queue *queue;
    (void)user;
    PLAIT_TRY(plait_conf_queue(kit, c->device, 0, &queue));
    PLAIT_TRY(plait_conf_buffer(kit, c->device, BYTES, PLAIT_BUFFER_STATE, &buffer));
    plait_command list[] = {plait_conf_fill(buffer, 0, BYTES, 0), plait_conf_write(buffer, 0, source, BYTES),
                            plait_conf_read(buffer, 0, back, BYTES)};
    /* The list stays as it is; `size` and the bytes at `source` are what changes. */
    list[1].transfer.size_bytes = &size;
    for (int round = 1; round < BYTES; round += 11) {
        size = (uint64_t)round;
        memset(source, round, sizeof source);
        PLAIT_TRY(plait_conf_do(queue, list, PLAIT_COUNT_OF(list)));
        for (int i = 0; i < BYTES; i++)
            PLAIT_CONF_EXPECT(back[i] == (i < round ? round : 0), "round %d: byte %d is %d, expected %d",
                              round, i, back[i], i < round ? round : 0);
    }
    return PLAIT_OK;
}

/* Sizes, values of events and the bytes of a write that an earlier command of the same list brings to the host. A
 * device that looks at them when the list is submitted finds the old ones, which are larger than what is there. 37 is
 * more than 11 as well as less than the regions, so either mistake gives bytes that differ. */
static plait_status read_late(plait_conf *c, plait_conf_kit *kit, const void *user) {
    /* The device holds 37 and 5; the host shows 11 and 100 until the read has brought them. */
    uint64_t stored[2] = {37, 5}, shown[2] = {11, 100};
    unsigned char *image, mail[64];
    plait_buffer *numbers, *buffer;
    plait_queue *queue;
    plait_event *event;
    uint64_t reached = 0;
    PLAIT_TRY(plait_conf_bytes(kit, BYTES, &image));
    PLAIT_TRY(plait_conf_queue(kit, c->device, *(const uint32_t *)user, &queue));
    PLAIT_TRY(plait_conf_event(kit, c->device, &event));
    PLAIT_TRY(plait_conf_buffer(kit, c->device, sizeof stored, PLAIT_BUFFER_STATE, &numbers));
    PLAIT_TRY(plait_conf_buffer(kit, c->device, BYTES, PLAIT_BUFFER_STATE, &buffer));
    plait_command before[] = {plait_conf_write(numbers, 0, stored, sizeof stored),
                              plait_conf_fill(buffer, 0, BYTES, 1), plait_conf_fill(buffer, 0, 64, 9)};
    PLAIT_TRY(plait_conf_do(queue, before, 3));
    memset(mail, 4, sizeof mail);
    /* The first command changes what the second, fourth and fifth read: the sizes of a copy and of a write, and the
     * value of a signal. The third fills the host memory that the fourth writes from. */
    plait_command list[] = {plait_conf_read(numbers, 0, shown, sizeof shown),
                            plait_conf_copy(buffer, 0, buffer, 100, 50), plait_conf_read(buffer, 0, mail, 64),
                            plait_conf_write(buffer, 180, mail, 64), plait_conf_signal(event, &shown[1])};
    list[1].copy.size_bytes = list[3].transfer.size_bytes = &shown[0];
    PLAIT_TRY(plait_error_context(plait_conf_do(queue, list, PLAIT_COUNT_OF(list)),
                                  "a list whose sizes an earlier command of it brings"));
    memset(image, 1, BYTES);
    /* 64 bytes of 9 in front; a copy of 37 of them to 100; a write of 37 to 180. */
    memset(image, 9, 64);
    memset(image + 100, 9, 37);
    memset(image + 180, 9, 37);
    PLAIT_TRY(plait_conf_expect(kit, queue, buffer, image,
                                "a buffer after commands whose sizes an earlier command has brought"));
    PLAIT_TRY(c->v->event_query(event, &reached));
    PLAIT_CONF_EXPECT(reached == 5,
                      "the event is at %llu, expected the 5 that an earlier command has brought",
                      (unsigned long long)reached);
    return PLAIT_OK;
}

/* ---- waiting queues ---- */

/* A deep queue behind a wait: submit does not block, nothing runs before, everything after. The gate is opened whatever
 * happens, or the queue could not be destroyed. 2000 lists, to outgrow a ring of fixed size: submit must take them all
 * while nothing can run. */
static plait_status deep(plait_conf *c, plait_conf_kit *kit, const void *user) {
    const int n = c->options.deep ? 20000 : 2000;
    plait_command *commands;
    plait_queue *stalled, *other;
    plait_event *gate;
    plait_buffer *buffer, *apart;
    unsigned char *image;
    (void)user;
    PLAIT_TRY(plait_conf_bytes(kit, (uint64_t)n * sizeof *commands, (unsigned char **)&commands));
    PLAIT_TRY(plait_conf_bytes(kit, BYTES, &image));
    PLAIT_TRY(plait_conf_event(kit, c->device, &gate));
    PLAIT_TRY(plait_conf_queue(kit, c->device, 0, &stalled));
    PLAIT_TRY(plait_conf_queue(kit, c->device, 0, &other));
    PLAIT_TRY(plait_conf_buffer(kit, c->device, BYTES, PLAIT_BUFFER_STATE, &buffer));
    PLAIT_TRY(plait_conf_buffer(kit, c->device, BYTES, PLAIT_BUFFER_STATE, &apart));
    /* By the other queue: the one that will wait has not run anything yet. */
    plait_command clear[] = {plait_conf_fill(buffer, 0, BYTES, 0), plait_conf_fill(apart, 0, BYTES, 0)};
    PLAIT_TRY(plait_conf_do(other, clear, 2));
    plait_command wait = plait_conf_wait(gate, &one);
    plait_status status = plait_conf_submit(kit, stalled, &wait, 1);
    for (int i = 0; i < n && status == PLAIT_OK; i++) {
        commands[i] = plait_conf_fill(buffer, (uint64_t)(i % BYTES), 1, (uint8_t)(i / BYTES + 1));
        status = plait_conf_submit(kit, stalled, &commands[i], 1);
    }
    /* Meanwhile another queue is free, and sees nothing of it. */
    plait_command work = plait_conf_fill(apart, 0, BYTES, 5);
    if (status == PLAIT_OK) status = plait_conf_do(other, &work, 1);
    if (status == PLAIT_OK)
        status = plait_conf_expect(kit, other, buffer, image, "a buffer of a queue that waits");
    /* Whatever was found: a queue that waits for ever could not be destroyed. */
    plait_status opened = c->v->event_signal(gate, 1);
    PLAIT_TRY(status);
    PLAIT_TRY(opened);
    PLAIT_TRY(c->v->synchronise(stalled));
    for (int i = 0; i < n; i++) image[i % BYTES] = (uint8_t)(i / BYTES + 1);
    return plait_conf_expect(kit, other, buffer, image, "a buffer after a deep queue");
}

/* ---- many queues ---- */

typedef struct crowd {
    plait_conf *c;
    plait_queue *queues[N_QUEUES];
    plait_buffer *buffer; /* BYTES for each queue */
} crowd;

/* Each queue has bytes of its own in one buffer: neighbours must not be disturbed. The same 256 bytes a hundred times,
 * so that a neighbour which writes at a wrong offset is likely to meet them in flight. */
static plait_status work_apart(void *user, int index) {
    crowd *w = user;
    unsigned char in[BYTES] = {0}, out[BYTES] = {0};
    uint64_t at = (uint64_t)index * BYTES;
    plait_command list[] = {plait_conf_write(w->buffer, at, in, BYTES),
                            plait_conf_read(w->buffer, at, out, BYTES)};
    for (uint32_t round = 0; round < 100; round++) {
        plait_conf_pattern(in, BYTES, round + 1000 * (uint32_t)index);
        PLAIT_TRY(plait_conf_do(w->queues[index], list, 2));
        PLAIT_TRY(plait_conf_same(out, in, BYTES, "bytes of one of several queues"));
    }
    return PLAIT_OK;
}

/* Eight queues at a time, each driven by a thread; and what is beyond is refused in words, if it is. LIMIT is the only
 * refusal that is right, and the output must stay as it was. The queues beyond belong to the kit and are destroyed with
 * it. */
static plait_status many_queues(plait_conf *c, plait_conf_kit *kit, const void *user) {
    crowd w = {.c = c};
    (void)user;
    PLAIT_TRY(plait_conf_buffer(kit, c->device, (uint64_t)BYTES * N_QUEUES, PLAIT_BUFFER_STATE, &w.buffer));
    for (int i = 0; i < N_QUEUES - 1; i++) /* the suite has one of the eight */
        PLAIT_TRY(
            plait_error_context(plait_conf_queue(kit, c->device, i % 3 ? 0 : PLAIT_QUEUE_COPY, &w.queues[i]),
                                "queue %d of 8", i + 1));
    PLAIT_TRY(plait_conf_parallel(N_QUEUES - 1, work_apart, &w));
    /* Up to 16 more, some devices have no limit. */
    for (int i = 0; i < 16; i++) {
        plait_queue *more = NULL;
        plait_conf_forget_message();
        plait_status status = plait_conf_queue(kit, c->device, 0, &more);
        if (status == PLAIT_OK) continue;
        PLAIT_CONF_EXPECT(more == NULL, "a failed queue_create has set its output");
        PLAIT_TRY(plait_conf_failed(status, PLAIT_LIMIT, "one queue too many"));
        break;
    }
    return work_apart(&w, 0);
}

/* ---- the end ---- */

/* Everything that was submitted is done when queue_destroy returns. The last list is not waited for in any other
 * way. */
static plait_status destroyed(plait_conf *c, plait_conf_kit *kit, const void *user) {
    unsigned char *source, *back;
    plait_buffer *buffer;
    plait_queue *queue;
    (void)user;
    PLAIT_TRY(plait_conf_bytes(kit, LARGE, &source));
    PLAIT_TRY(plait_conf_bytes(kit, LARGE, &back));
    /* Large, so that the queue still works when it is destroyed. */
    uint64_t n = c->info.max_buffer_bytes < LARGE ? BYTES : LARGE;
    PLAIT_TRY(plait_conf_queue(kit, c->device, 0, &queue));
    PLAIT_TRY(plait_conf_buffer(kit, c->device, n, PLAIT_BUFFER_STATE, &buffer));
    plait_conf_pattern(source, n, 6);
    plait_command list[] = {plait_conf_write(buffer, 0, source, n), plait_conf_read(buffer, 0, back, n)};
    PLAIT_TRY(plait_conf_submit(kit, queue, list, 2));
    plait_conf_drop_queue(kit, queue);
    return plait_conf_same(back, source, n, "what was read by a queue that is destroyed");
}

typedef struct opener {
    plait_event *gate;
    plait_status status;
} opener;

/* On a thread of its own, while the check waits. */
static void *open_later(void *user) {
    opener *o = user;
    plait_conf_sleep_ns(30 * MILLISECOND);
    o->status = o->gate->device->vtable->event_signal(o->gate, 1);
    return NULL;
}

/* The same while the queue waits for an event that comes later. The event comes from another thread, 30 ms later:
 * destroying must wait that long, and then finish what is queued. Were the gate never opened, the check would hang in
 * queue_destroy; hence the thread, which opens it whatever this one does. */
static plait_status destroyed_waiting(plait_conf *c, plait_conf_kit *kit, const void *user) {
    unsigned char back[BYTES] = {0};
    plait_buffer *buffer;
    plait_queue *queue;
    plait_thread thread = {0};
    opener o = {0};
    (void)user;
    PLAIT_TRY(plait_conf_queue(kit, c->device, 0, &queue));
    PLAIT_TRY(plait_conf_event(kit, c->device, &o.gate));
    PLAIT_TRY(plait_conf_buffer(kit, c->device, BYTES, PLAIT_BUFFER_STATE, &buffer));
    plait_command list[] = {plait_conf_wait(o.gate, &one), plait_conf_fill(buffer, 0, BYTES, 0x5A),
                            plait_conf_read(buffer, 0, back, BYTES)};
    PLAIT_TRY(plait_thread_start(&thread, "plait-open", open_later, &o));
    plait_status status = plait_conf_submit(kit, queue, list, 3);
    if (status == PLAIT_OK) plait_conf_drop_queue(kit, queue);
    plait_thread_join(&thread);
    PLAIT_TRY(status);
    PLAIT_TRY(o.status);
    return plait_conf_all(back, 0x5A, BYTES, "what was read by a waiting queue that is destroyed");
}

/* A list of no commands, and a queue that never had one. */
static plait_status empty(plait_conf *c, plait_conf_kit *kit, const void *user) {
    plait_queue *queue;
    plait_command none = {.kind = PLAIT_COMMAND_FILL};
    (void)user;
    PLAIT_TRY(plait_conf_queue(kit, c->device, 0, &queue));
    PLAIT_TRY(c->v->synchronise(queue));
    PLAIT_TRY(plait_conf_submit(kit, queue, &none, 0));
    return c->v->synchronise(queue);
}

/* A list that waits in the middle: what is in front of the wait is done before, what is behind after. A list is one
 * submission but not one step: another queue looks at the buffer in between. The last command copies 64 bytes that the
 * fill in front of it has set, across the half that still holds ones. */
static plait_status in_the_middle(plait_conf *c, plait_conf_kit *kit, const void *user) {
    unsigned char *image;
    plait_queue *queue, *other;
    plait_event *done, *gate;
    plait_buffer *buffer;
    (void)user;
    PLAIT_TRY(plait_conf_bytes(kit, BYTES, &image));
    PLAIT_TRY(plait_conf_queue(kit, c->device, 0, &queue));
    PLAIT_TRY(plait_conf_queue(kit, c->device, 0, &other));
    PLAIT_TRY(plait_conf_event(kit, c->device, &done));
    PLAIT_TRY(plait_conf_event(kit, c->device, &gate));
    PLAIT_TRY(plait_conf_buffer(kit, c->device, BYTES, PLAIT_BUFFER_STATE, &buffer));
    plait_command list[] = {plait_conf_fill(buffer, 0, BYTES, 1),
                            plait_conf_signal(done, &one),
                            plait_conf_wait(gate, &one),
                            plait_conf_fill(buffer, 0, BYTES / 2, 2),
                            plait_conf_copy(buffer, 0, buffer, BYTES / 2, 64),
                            plait_conf_signal(done, &two)};
    PLAIT_TRY(plait_conf_submit(kit, queue, list, PLAIT_COUNT_OF(list)));
    /* The event says that the first fill is done; nothing says when the second begins, but that it must not yet. */
    plait_status status = plait_conf_await(c, done, 1, "a signal in front of a wait");
    memset(image, 1, BYTES);
    if (status == PLAIT_OK)
        status = plait_conf_expect(kit, other, buffer, image,
                                   "a buffer while its queue waits in the middle of a list");
    plait_status opened = c->v->event_signal(gate, 1);
    PLAIT_TRY(status);
    PLAIT_TRY(opened);
    PLAIT_TRY(plait_conf_await(c, done, 2, "a signal behind a wait"));
    memset(image, 2, BYTES / 2 + 64);
    return plait_conf_expect(kit, other, buffer, image, "a buffer after its queue went on");
}

/* ---- spans ---- */

typedef struct spans {
    struct plait_launch_span spans[4];
    plait_launch_trace trace;
    unsigned char host[BYTES];
} spans;

/* One span of the command, in time, and none where there is no room. Bytes behind the last span must be untouched:
 * spans are arrays of the caller's. Times of a clock of the device's own are only compared with each other.
 * `s->trace.n` is what the device has set, from 0. */
static plait_status check_spans(const spans *s, size_t room, uint64_t begin_ns, uint64_t end_ns,
                                const char *what) {
    PLAIT_CONF_EXPECT(s->trace.n <= room && s->trace.n <= 1,
                      "%s: %zu spans, expected one at most in room for %zu", what, s->trace.n, room);
    PLAIT_TRY(plait_conf_all((const unsigned char *)&s->spans[s->trace.n], 0xEE, sizeof s->spans[0], what));
    if (!s->trace.n) return PLAIT_OK;
    const struct plait_launch_span *span = &s->spans[0];
    PLAIT_CONF_EXPECT(span->group == PLAIT_SPAN_WHOLE, "%s: a span of group %d, expected all of the command",
                      what, span->group);
    PLAIT_CONF_EXPECT(span->begin_ns <= span->end_ns, "%s: a span from %llu to %llu", what,
                      (unsigned long long)span->begin_ns, (unsigned long long)span->end_ns);
    if (s->trace.own_clock) return PLAIT_OK;
    PLAIT_CONF_EXPECT(span->begin_ns >= begin_ns && span->end_ns <= end_ns,
                      "%s: a span from %llu to %llu, of a command that ran between %llu and %llu", what,
                      (unsigned long long)span->begin_ns, (unsigned long long)span->end_ns,
                      (unsigned long long)begin_ns, (unsigned long long)end_ns);
    return PLAIT_OK;
}

/* Transfers, copies and waits tell when they ran, or do not, and keep to the room that they have. */
static plait_status command_spans(plait_conf *c, plait_conf_kit *kit, const void *user) {
    static const char *const names[] = {"the spans of a write", "the spans of a copy", "the spans of a read",
                                        "the spans of a wait"};
    plait_queue *queue;
    plait_event *event;
    plait_buffer *buffer;
    spans *s;
    (void)user;
    PLAIT_TRY(plait_conf_bytes(kit, 4 * sizeof *s, (unsigned char **)&s));
    PLAIT_TRY(plait_conf_queue(kit, c->device, 0, &queue));
    PLAIT_TRY(plait_conf_event(kit, c->device, &event));
    PLAIT_TRY(plait_conf_buffer(kit, c->device, (uint64_t)2 * BYTES, PLAIT_BUFFER_STATE, &buffer));
    /* The wait has nothing to wait for: its span is short, and there all the same. */
    PLAIT_TRY(c->v->event_signal(event, 1));
    plait_command list[] = {plait_conf_write(buffer, 0, s->host, BYTES),
                            plait_conf_copy(buffer, 0, buffer, BYTES, BYTES),
                            plait_conf_read(buffer, BYTES, s->host, BYTES), plait_conf_wait(event, &one)};
    list[0].transfer.trace = &s[0].trace;
    list[1].copy.trace = &s[1].trace;
    list[2].transfer.trace = &s[2].trace;
    list[3].wait.trace = &s[3].trace;
    /* No room, exactly enough, and more than enough. */
    for (size_t room = 0; room <= 3; room++) {
        for (int i = 0; i < 4; i++) {
            memset(s[i].spans, 0xEE, sizeof s[i].spans);
            s[i].trace = (plait_launch_trace){.capacity = room, .spans = s[i].spans};
        }
        uint64_t begin_ns = plait_time_ns();
        PLAIT_TRY(plait_conf_do(queue, list, 4));
        for (int i = 0; i < 4; i++) PLAIT_TRY(check_spans(&s[i], room, begin_ns, plait_time_ns(), names[i]));
    }
    return PLAIT_OK;
}

/* The kinds of queue that a caller may ask for. A device without copy engines takes PLAIT_QUEUE_COPY for a wish. */
void plait_conf_queues(plait_conf *c) {
    static const uint32_t own_thread = 0, caller = PLAIT_QUEUE_INLINE, engine = PLAIT_QUEUE_COPY;
    plait_conf_check_kit(c, "queue/many", many_lists, &own_thread);
    plait_conf_check_kit(c, "queue/many-inline", many_lists, &caller);
    plait_conf_check_kit(c, "queue/many-copy-queue", many_lists, &engine);
    plait_conf_check_kit(c, "queue/hazards", hazards, &own_thread);
    plait_conf_check_kit(c, "queue/hazards-copy-queue", hazards, &engine);
    plait_conf_check_kit(c, "queue/reuse", reused_list, NULL);
    plait_conf_check_kit(c, "queue/read-late", read_late, &own_thread);
    plait_conf_check_kit(c, "queue/read-late-inline", read_late, &caller);
    plait_conf_check_kit(c, "queue/wait-between", in_the_middle, NULL);
    plait_conf_check_kit(c, "queue/deep", deep, NULL);
    plait_conf_check_kit(c, "queue/eight", many_queues, NULL);
    plait_conf_check_kit(c, "queue/destroy", destroyed, NULL);
    plait_conf_check_kit(c, "queue/destroy-waiting", destroyed_waiting, NULL);
    plait_conf_check_kit(c, "queue/empty", empty, NULL);
    plait_conf_check_kit(c, "queue/spans", command_spans, NULL);
}
