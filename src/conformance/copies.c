/* Moving bytes: writes, reads, copies and fills of every size, at odd places, in one, two and three dims, each against
 * a host image of every buffer that takes part; and what leaves its region or buffer, which must be refused whole. Not
 * here: order and time (queues.c, events.c), copies between devices (peers.c).
 *
 * Invariant: after each step all buffers are what their images say, so a byte that was written beside its target shows,
 * wherever it fell. */
#include "base/alloc.h"
#include "base/size.h"
#include "conformance/kit.h"

#include <stdlib.h>
#include <string.h>

/* GUARD lies around host memory; a byte of it that changes was written beside a target. LARGE_BYTES is three MiB and an
 * odd rest, so that engines which move pieces have a last, short one. */
enum {
    N_BUFFERS = 3,
    GUARD = 0xC3,
    GUARD_BYTES = 32,
    MAX_BYTES = 6000,
    MAX_LIST = 6,
    LARGE_BYTES = (3 << 20) + 5
};

/* Buffers and what they should hold. The images are the truth: each step changes image and device by the same rule, and
 * the two are compared as wholes. */
typedef struct table {
    plait_conf *c;
    plait_conf_kit *kit;
    plait_queue *queue;
    plait_buffer *buffers[N_BUFFERS];
    unsigned char *images[N_BUFFERS];
} table;

/* One of a size that is no power of two, one just above one, one smaller than a cache line. */
static const uint64_t buffer_sizes[N_BUFFERS] = {5000, 4099, 61};

/* Three buffers with different patterns, of different usages, which a device may place differently. `flags`: of the
 * queue that moves everything. */
static plait_status lay_table(plait_conf *c, plait_conf_kit *kit, uint32_t flags, table *t) {
    *t = (table){.c = c, .kit = kit};
    PLAIT_TRY(plait_conf_queue(kit, c->device, flags, &t->queue));
    for (int i = 0; i < N_BUFFERS; i++) {
        static const uint32_t usages[] = {PLAIT_BUFFER_STATE, PLAIT_BUFFER_TEMPORARY, PLAIT_BUFFER_WEIGHTS};
        PLAIT_TRY(plait_conf_buffer(kit, c->device, buffer_sizes[i], usages[i], &t->buffers[i]));
        PLAIT_TRY(plait_conf_bytes(kit, buffer_sizes[i], &t->images[i]));
        plait_conf_pattern(t->images[i], buffer_sizes[i], (uint32_t)i + 1);
        plait_command write = plait_conf_write(t->buffers[i], 0, t->images[i], buffer_sizes[i]);
        PLAIT_TRY(plait_conf_do(t->queue, &write, 1));
    }
    return PLAIT_OK;
}

/* All buffers, those that took no part as well. */
static plait_status expect_table(table *t, const char *what) {
    for (int i = 0; i < N_BUFFERS; i++)
        PLAIT_TRY(plait_conf_expect(t->kit, t->queue, t->buffers[i], t->images[i], what));
    return PLAIT_OK;
}

/* ---- one dim ---- */

/* A number below the limit; 24 of the generator's 32 bits, for the lowest ones repeat soon. The upper bits are scaled,
 * so there is no division and every limit up to 2^24 is served. A limit of 0 gives 0. */
static uint32_t draw(uint32_t *state, uint32_t limit) {
    *state = *state * 1664525u + 1013904223u;
    return (uint32_t)((uint64_t)(*state >> 8) * limit >> 24);
}

/* What a list of commands needs until it is done. */
typedef struct batch {
    plait_command commands[MAX_LIST];
    unsigned char hosts[MAX_LIST][MAX_BYTES + 2 * GUARD_BYTES];
    uint64_t sizes[MAX_LIST], moved[MAX_LIST];
} batch;

/* A copy within one buffer, of bytes that do not overlap: source and target in different halves, either way round.
 * Copies that overlap within a buffer are not drawn: the contract does not allow them. */
static void draw_apart(uint32_t *state, uint64_t size, uint64_t *from, uint64_t *to, uint64_t *n) {
    uint64_t half = size / 2;
    *n = draw(state, (uint32_t)half);
    uint64_t low = draw(state, (uint32_t)(half - *n + 1)),
             high = half + draw(state, (uint32_t)(half - *n + 1));
    bool up = draw(state, 2) == 0;
    *from = up ? low : high;
    *to = up ? high : low;
}

/* Adds a random command to the list and does the same to the images, in the order of the list, so the images are what
 * the device must have at its end. What a read brings is checked afterwards. Sizes behind pointers are smaller than the
 * regions, and lie in the batch, which outlives the list. */
static void draw_command(table *t, batch *l, int k, uint32_t *state) {
    uint32_t kind = draw(state, 5), b = draw(state, N_BUFFERS), other = draw(state, N_BUFFERS);
    uint64_t size = buffer_sizes[b], n = draw(state, (uint32_t)size + 1),
             at = draw(state, (uint32_t)(size - n) + 1);
    unsigned char *host = l->hosts[k] + GUARD_BYTES;
    const uint64_t *pointer = NULL;
    /* What the command will move, which the check afterwards goes by. */
    l->moved[k] = n;
    if (draw(state, 3) == 0 && kind < 3) { /* less than the region holds */
        l->moved[k] = l->sizes[k] = draw(state, (uint32_t)n + 1);
        pointer = &l->sizes[k];
    }
    /* In front of host memory and behind it, too. */
    memset(l->hosts[k], GUARD, sizeof l->hosts[k]);
    if (kind == 0) {
        plait_conf_pattern(host, n, *state);
        l->commands[k] = plait_conf_write(t->buffers[b], at, host, n);
        l->commands[k].transfer.size_bytes = pointer;
        memcpy(t->images[b] + at, host, l->moved[k]);
    } else if (kind == 1) {
        l->commands[k] = plait_conf_read(t->buffers[b], at, host, n);
        l->commands[k].transfer.size_bytes = pointer;
    } else if (kind == 2 && other != b && n <= buffer_sizes[other]) {
        uint64_t to = draw(state, (uint32_t)(buffer_sizes[other] - n) + 1);
        l->commands[k] = plait_conf_copy(t->buffers[b], at, t->buffers[other], to, n);
        l->commands[k].copy.size_bytes = pointer;
        memcpy(t->images[other] + to, t->images[b] + at, l->moved[k]);
    } else if (kind == 3) {
        uint64_t from, to, count;
        draw_apart(state, size, &from, &to, &count);
        l->commands[k] = plait_conf_copy(t->buffers[b], from, t->buffers[b], to, count);
        memcpy(t->images[b] + to, t->images[b] + from, count);
    } else {
        l->commands[k] = plait_conf_fill(t->buffers[b], at, n, (uint8_t)*state);
        memset(t->images[b] + at, (uint8_t)*state, n);
    }
}

/* A read brought the bytes that were there at its place in the list, and nothing beside them. */
static plait_status check_read(const batch *l, int k, const unsigned char *expected) {
    const unsigned char *host = l->hosts[k] + GUARD_BYTES;
    PLAIT_TRY(plait_conf_all(l->hosts[k], GUARD, GUARD_BYTES, "host memory in front of a read's target"));
    PLAIT_TRY(plait_conf_same(host, expected, l->moved[k], "bytes that a read brought"));
    return plait_conf_all(host + l->moved[k], GUARD, GUARD_BYTES, "host memory behind a read's target");
}

/* Lists of up to six commands that depend on each other as it comes. Where a read stands in the list, its region is
 * copied from the image at that moment. Images are compared every fourth list, so that most lists follow each other
 * without a read of everything in between. `user` points to the queue's flags. A snapshot is needed because later
 * commands of the same list change what the read has seen. */
static plait_status random_lists(plait_conf *c, plait_conf_kit *kit, const void *user) {
    table t;
    unsigned char *snapshots;
    /* Queues of different kinds get different commands. */
    uint32_t state = 11 + *(const uint32_t *)user;
    batch *l = NULL;
    PLAIT_TRY(lay_table(c, kit, *(const uint32_t *)user, &t));
    PLAIT_TRY(plait_conf_bytes(kit, sizeof *l, (unsigned char **)&l));
    PLAIT_TRY(plait_conf_bytes(kit, (uint64_t)MAX_LIST * MAX_BYTES, &snapshots));
    for (int round = 0; round < (c->options.deep ? 1500 : 60); round++) {
        int n = 1 + (int)draw(&state, MAX_LIST);
        for (int k = 0; k < n; k++) {
            draw_command(&t, l, k, &state);
            const plait_command *command = &l->commands[k];
            for (int b = 0; b < N_BUFFERS && command->kind == PLAIT_COMMAND_READ; b++)
                if (command->transfer.region.buffer == t.buffers[b])
                    memcpy(snapshots + k * MAX_BYTES, t.images[b] + command->transfer.region.offset,
                           l->moved[k]);
        }
        PLAIT_TRY(plait_conf_do(t.queue, l->commands, n));
        for (int k = 0; k < n; k++)
            if (l->commands[k].kind == PLAIT_COMMAND_READ)
                PLAIT_TRY(check_read(l, k, snapshots + k * MAX_BYTES));
        if (round % 4 == 3) PLAIT_TRY(expect_table(&t, "a buffer after random commands"));
    }
    return expect_table(&t, "a buffer after random commands");
}

/* From offsets that change with the size, so that alignments of source and target combine in many ways. The target's
 * other bytes are compared too, at each size. */
static plait_status one_size(table *t, uint64_t n) {
    unsigned char back[MAX_BYTES];
    /* Places that differ from each other in every way, within the buffers. */
    uint64_t from = (n * 7) % (buffer_sizes[0] - n + 1), to = (n * 5) % (buffer_sizes[1] - n + 1);
    plait_command list[] = {plait_conf_copy(t->buffers[0], from, t->buffers[1], to, n),
                            plait_conf_read(t->buffers[1], to, back, n)};
    memset(back, GUARD, sizeof back);
    memcpy(t->images[1] + to, t->images[0] + from, n);
    PLAIT_TRY(plait_conf_do(t->queue, list, 2));
    PLAIT_TRY(plait_conf_same(back, t->images[1] + to, n, "copied bytes"));
    PLAIT_TRY(plait_conf_all(back + n, GUARD, GUARD_BYTES, "host memory behind a read's target"));
    return plait_conf_expect(t->kit, t->queue, t->buffers[1], t->images[1], "the target of a copy");
}

/* Small ones all, and around powers of two, at odd places, one at a time. */
static plait_status all_sizes(plait_conf *c, plait_conf_kit *kit, const void *user) {
    table t;
    (void)user;
    PLAIT_TRY(lay_table(c, kit, PLAIT_QUEUE_INLINE, &t));
    /* Every size up to more than two cache lines: the loops of a copy engine change over somewhere there. */
    for (uint64_t n = 0; n <= 130; n++) PLAIT_TRY(one_size(&t, n));
    for (uint64_t power = 256; power <= 4096; power *= 2)
        for (uint64_t n = power - 1; n <= power + 1; n++) PLAIT_TRY(one_size(&t, n));
    return expect_table(&t, "a buffer after copies");
}

/* Nothing moves nothing, wherever it does so. At the very end of a buffer, in a buffer of no bytes, without host
 * memory, with a size of 0 behind a pointer: none of it is a failure, and none of it moves anything. */
static plait_status nothing(plait_conf *c, plait_conf_kit *kit, const void *user) {
    static const uint64_t zero = 0;
    table t;
    plait_buffer *empty;
    unsigned char host[4] = {GUARD, GUARD, GUARD, GUARD};
    (void)user;
    PLAIT_TRY(lay_table(c, kit, 0, &t));
    PLAIT_TRY(plait_conf_buffer(kit, c->device, 0, PLAIT_BUFFER_STATE, &empty));
    plait_buffer *b = t.buffers[0];
    plait_command list[] = {
        plait_conf_write(b, 3, host, 0),
        /* At the end of a buffer there is nothing, and nothing is what is moved. */
        plait_conf_write(b, buffer_sizes[0], NULL, 0),
        plait_conf_read(b, buffer_sizes[0], host, 0),
        plait_conf_copy(b, buffer_sizes[0], t.buffers[1], buffer_sizes[1], 0),
        plait_conf_fill(b, buffer_sizes[0], 0, 9),
        plait_conf_write(empty, 0, NULL, 0),
        plait_conf_copy(empty, 0, b, 5, 0),
        plait_conf_fill(empty, 0, 0, 9),
        plait_conf_write(b, 0, host, 4),
        plait_conf_read(b, 0, host, 4),
        plait_conf_copy(b, 0, t.buffers[1], 0, 4),
    };
    list[8].transfer.size_bytes = list[9].transfer.size_bytes = list[10].copy.size_bytes = &zero;
    PLAIT_TRY(plait_conf_do(t.queue, list, PLAIT_COUNT_OF(list)));
    PLAIT_TRY(plait_conf_all(host, GUARD, 4, "the target of a read of nothing"));
    return expect_table(&t, "a buffer after commands that move nothing");
}

/* Large ones, whose last bytes come when they come; each way in turn, so that the next one finds them. The fill of the
 * source stands behind the copy in the list: a device that lets it overtake shows ones in what was read. */
static plait_status large(plait_conf *c, plait_conf_kit *kit, const void *user) {
    plait_buffer *a, *b;
    plait_queue *queue;
    unsigned char *in, *out;
    (void)user;
    /* Two buffers of it, and four times that for a device which copies by way of others. */
    if (c->info.max_buffer_bytes < 4 * (uint64_t)LARGE_BYTES ||
        c->info.memory_free_bytes < 8 * (uint64_t)LARGE_BYTES)
        return plait_conf_lack(c, "the device has too little memory for large copies");
    PLAIT_TRY(plait_conf_queue(kit, c->device, 0, &queue));
    PLAIT_TRY(plait_conf_buffer(kit, c->device, LARGE_BYTES, PLAIT_BUFFER_STATE, &a));
    PLAIT_TRY(plait_conf_buffer(kit, c->device, LARGE_BYTES, PLAIT_BUFFER_STATE, &b));
    PLAIT_TRY(plait_conf_bytes(kit, LARGE_BYTES, &in));
    PLAIT_TRY(plait_conf_bytes(kit, LARGE_BYTES, &out));
    for (uint32_t round = 0; round < 3; round++) {
        plait_command list[] = {
            plait_conf_write(a, 0, in, LARGE_BYTES), plait_conf_fill(b, 0, LARGE_BYTES, 0),
            plait_conf_copy(a, 0, b, 0, LARGE_BYTES), plait_conf_fill(a, 0, LARGE_BYTES, 1),
            plait_conf_read(b, 0, out, LARGE_BYTES)};
        /* Another pattern each time, or a round that moves nothing would not show. */
        plait_conf_pattern(in, LARGE_BYTES, 50 + round);
        PLAIT_TRY(plait_conf_do(queue, list, PLAIT_COUNT_OF(list)));
        PLAIT_TRY(plait_conf_same(out, in, LARGE_BYTES, "bytes that were written, copied and read"));
    }
    return PLAIT_OK;
}

/* ---- two and three dims ---- */

typedef struct geometry {
    plait_box box;
    uint64_t source, target; /* where the boxes begin in their buffers */
} geometry;

/* Dense, with odd pitches, planes that begin anywhere, one row, one plane, one byte; counts of 0; interleaved. {row
 * bytes, rows, planes, source row and plane pitch, target row and plane pitch}, source offset, target offset. */
static const geometry geometries[] = {
    {{8, 4, 1, 8, 32, 8, 32}, 0, 0},      {{7, 5, 1, 11, 60, 13, 70}, 3, 5},
    {{1, 9, 1, 2, 18, 3, 27}, 1, 0},      {{64, 3, 4, 64, 192, 64, 192}, 64, 128},
    {{13, 4, 3, 17, 71, 19, 101}, 9, 77}, {{5, 3, 7, 100, 301, 9, 29}, 0, 31},
    {{33, 1, 6, 33, 47, 33, 401}, 2, 1},  {{129, 2, 2, 515, 1033, 131, 307}, 1, 3},
    {{17, 1, 1, 17, 17, 17, 17}, 5, 7},   {{0, 4, 3, 5, 20, 6, 24}, 1, 2},
    {{5, 0, 3, 5, 20, 6, 24}, 1, 2},      {{5, 4, 0, 5, 20, 6, 24}, 1, 2},
    {{4, 16, 8, 8, 256, 8, 256}, 0, 4}, /* within one buffer: between its own rows */
};

typedef void row_fn(const plait_box *box, uint64_t source, uint64_t target, void *user);

/* By the definition of a box, row by row: what everything else is compared with. Boxes of no bytes a row have none.
 * Offsets are from the beginning of the box on each side. */
static void each_row(const plait_box *box, row_fn *f, void *user) {
    for (uint64_t p = 0; p < box->n_planes && box->row_bytes; p++)
        for (uint64_t r = 0; r < box->n_rows; r++)
            f(box, p * box->source_plane_pitch + r * box->source_row_pitch,
              p * box->target_plane_pitch + r * box->target_row_pitch, user);
}

/* Both sides of a movement on the host. */
typedef struct sides {
    unsigned char *target;
    const unsigned char *source;
} sides;

/* On the host, by the box's definition. */
static void move_row(const plait_box *box, uint64_t source, uint64_t target, void *user) {
    const sides *s = user;
    memcpy(s->target + target, s->source + source, box->row_bytes);
}

/* One command, or as many as the device wants for the same bytes. 128 rows are the most of any geometry here, the last
 * one's. */
typedef struct cut {
    plait_command whole;
    plait_command rows[128];
    int n;
} cut;

/* The row as a command of its own. */
static void cut_row(const plait_box *box, uint64_t source, uint64_t target, void *user) {
    cut *k = user;
    plait_command row = k->whole;
    if (row.kind == PLAIT_COMMAND_COPY) {
        row.copy.box = NULL;
        row.copy.source.offset += source;
        row.copy.target.offset += target;
        row.copy.source.size_bytes = row.copy.target.size_bytes = box->row_bytes;
    } else {
        bool write = row.kind == PLAIT_COMMAND_WRITE;
        row.transfer.box = NULL;
        row.transfer.host = (unsigned char *)row.transfer.host + (write ? source : target);
        row.transfer.region.offset += write ? target : source;
        row.transfer.region.size_bytes = box->row_bytes;
    }
    k->rows[k->n++] = row;
}

/* For a device without boxes the rows go one by one: it must move the same bytes, and planners do so too. */
static plait_status move_box(table *t, const plait_box *box, const plait_command *command) {
    cut k = {.whole = *command};
    if (t->c->info.caps & PLAIT_CAP_BOXES) return plait_conf_do(t->queue, command, 1);
    each_row(box, cut_row, &k);
    return k.n ? plait_conf_do(t->queue, k.rows, k.n) : PLAIT_OK;
}

/* Bytes that each side touches, from first to last. */
static uint64_t source_span(const plait_box *box) {
    return plait_box_span(box, box->source_row_pitch, box->source_plane_pitch);
}
static uint64_t target_span(const plait_box *box) {
    return plait_box_span(box, box->target_row_pitch, box->target_plane_pitch);
}

/* The whole span of the source is filled, gaps included: a device that moves gaps writes them beside the target's rows.
 * The region of the command is the target's span; the source on the host has no region, only pitches. */
static plait_status box_write(table *t, const geometry *g, unsigned char *host) {
    plait_command write = plait_conf_write(t->buffers[1], g->target, host, target_span(&g->box));
    sides s = {t->images[1] + g->target, host};
    write.transfer.box = &g->box;
    plait_conf_pattern(host, source_span(&g->box), (uint32_t)g->source + 70);
    each_row(&g->box, move_row, &s);
    PLAIT_TRY(move_box(t, &g->box, &write));
    return expect_table(t, "a buffer after a write of a box");
}

/* Host memory beyond the rows must stay: it is compared up to its end. */
static plait_status box_read(table *t, const geometry *g, unsigned char *host) {
    unsigned char expected[MAX_BYTES];
    plait_command read = plait_conf_read(t->buffers[0], g->source, host, source_span(&g->box));
    sides s = {expected, t->images[0] + g->source};
    read.transfer.box = &g->box;
    memset(host, GUARD, MAX_BYTES);
    memset(expected, GUARD, MAX_BYTES);
    each_row(&g->box, move_row, &s);
    PLAIT_TRY(move_box(t, &g->box, &read));
    PLAIT_TRY(plait_conf_same(host, expected, MAX_BYTES, "host memory after a read of a box"));
    return expect_table(t, "a buffer after a read of a box");
}

/* The regions are as long as the spans, and no longer. */
static plait_status box_copy(table *t, const geometry *g, int target) {
    plait_command copy = plait_conf_copy(t->buffers[0], g->source, t->buffers[target], g->target, 0);
    sides s = {t->images[target] + g->target, t->images[0] + g->source};
    copy.copy.source.size_bytes = source_span(&g->box);
    copy.copy.target.size_bytes = target_span(&g->box);
    copy.copy.box = &g->box;
    each_row(&g->box, move_row, &s);
    PLAIT_TRY(move_box(t, &g->box, &copy));
    return expect_table(t, "a buffer after a copy of a box");
}

typedef enum box_way { BOX_WRITE, BOX_READ, BOX_COPY } box_way;

/* The last geometry is made to fit between its own rows, so it is copied within one buffer as well. */
static plait_status boxes(plait_conf *c, plait_conf_kit *kit, const void *user) {
    table t;
    unsigned char *host;
    PLAIT_TRY(lay_table(c, kit, 0, &t));
    PLAIT_TRY(plait_conf_bytes(kit, MAX_BYTES, &host));
    for (size_t i = 0; i < PLAIT_COUNT_OF(geometries); i++) {
        const geometry *g = &geometries[i];
        plait_status status;
        switch (*(const box_way *)user) {
        case BOX_WRITE: status = box_write(&t, g, host); break;
        case BOX_READ: status = box_read(&t, g, host); break;
        default:
            status = box_copy(&t, g, 1);
            if (status == PLAIT_OK && i == PLAIT_COUNT_OF(geometries) - 1) status = box_copy(&t, g, 0);
        }
        /* The geometry is named, for the byte that differs says little. */
        PLAIT_TRY(plait_error_context(status, "box %zu: %llu bytes, %llu rows, %llu planes", i,
                                      (unsigned long long)g->box.row_bytes, (unsigned long long)g->box.n_rows,
                                      (unsigned long long)g->box.n_planes));
    }
    return PLAIT_OK;
}

/* Random boxes that fit, several in a list. Pitches larger than what they step over, at random; boxes that do not fit
 * are left out. At most 40 rows, which cut has room for. */
static plait_status random_boxes(plait_conf *c, plait_conf_kit *kit, const void *user) {
    table t;
    uint32_t state = 5;
    unsigned char *host;
    (void)user;
    PLAIT_TRY(lay_table(c, kit, 0, &t));
    PLAIT_TRY(plait_conf_bytes(kit, MAX_BYTES, &host));
    for (int round = 0; round < (c->options.deep ? 2000 : 60); round++) {
        geometry g;
        plait_box *b = &g.box;
        b->row_bytes = 1 + draw(&state, 40);
        b->n_rows = 1 + draw(&state, 8);
        b->n_planes = 1 + draw(&state, 5);
        b->source_row_pitch = b->row_bytes + draw(&state, 30);
        b->target_row_pitch = b->row_bytes + draw(&state, 30);
        /* At least what the rows step over, so that planes do not overlap. */
        b->source_plane_pitch = b->n_rows * b->source_row_pitch + draw(&state, 90);
        b->target_plane_pitch = b->n_rows * b->target_row_pitch + draw(&state, 90);
        if (source_span(b) > buffer_sizes[0] || target_span(b) > buffer_sizes[1]) continue;
        g.source = draw(&state, (uint32_t)(buffer_sizes[0] - source_span(b)) + 1);
        g.target = draw(&state, (uint32_t)(buffer_sizes[1] - target_span(b)) + 1);
        uint32_t way = draw(&state, 3);
        PLAIT_TRY(way == 0   ? box_write(&t, &g, host)
                  : way == 1 ? box_read(&t, &g, host)
                             : box_copy(&t, &g, 1));
    }
    return PLAIT_OK;
}

/* ---- outside ---- */

/* On a queue of its own, which has failed afterwards. Nothing may have been moved, not even the part that would have
 * fitted. The queue is dropped, as a failed one can do nothing more. */
static plait_status refused(table *t, const plait_command *command, const char *what) {
    plait_queue *queue;
    PLAIT_TRY(plait_conf_queue(t->kit, t->c->device, 0, &queue));
    plait_conf_forget_message();
    plait_status status = plait_conf_do(queue, command, 1);
    PLAIT_TRY(plait_conf_failed(status, PLAIT_OUT_OF_RANGE, what));
    plait_conf_drop_queue(t->kit, queue);
    return expect_table(t, what);
}

/* Beyond the buffer, behind it, sizes that overflow when they are added, and sizes behind pointers that are more than
 * the region has. Each is OUT_OF_RANGE. `cases` are static in all but the buffers, so the table is built here. */
static plait_status outside(plait_conf *c, plait_conf_kit *kit, const void *user) {
    static const uint64_t eleven = 11, most = UINT64_MAX;
    table t;
    unsigned char host[64] = {0};
    (void)user;
    PLAIT_TRY(lay_table(c, kit, PLAIT_QUEUE_INLINE, &t));
    plait_buffer *a = t.buffers[0], *small = t.buffers[2];
    plait_command by_pointer = plait_conf_write(a, 0, host, 10), by_most = plait_conf_read(a, 4, host, 10);
    plait_command copy_more = plait_conf_copy(a, 0, t.buffers[1], 0, 10), copy_less = copy_more;
    by_pointer.transfer.size_bytes = copy_more.copy.size_bytes = &eleven;
    by_most.transfer.size_bytes = &most;
    /* The target has less than what comes: nothing may be written, not even what would fit. */
    copy_less.copy.target.size_bytes = 9;
    const struct {
        plait_command command;
        const char *what;
    } cases[] = {
        {plait_conf_write(small, 60, host, 2), "a write beyond its buffer"},
        {plait_conf_read(small, 60, host, 2), "a read beyond its buffer"},
        {plait_conf_fill(small, 60, 2, 1), "a fill beyond its buffer"},
        {plait_conf_copy(small, 60, a, 0, 2), "a copy from beyond its buffer"},
        {plait_conf_copy(a, 0, small, 60, 2), "a copy to beyond its buffer"},
        {plait_conf_fill(small, 62, 1, 1), "a fill behind its buffer"},
        {plait_conf_fill(small, UINT64_MAX - 3, 8, 1), "a fill whose end overflows"},
        {plait_conf_fill(small, 8, UINT64_MAX - 3, 1), "a fill whose size overflows"},
        {by_pointer, "a write of more than its region"},
        {by_most, "a read of more than its region"},
        {copy_more, "a copy of more than its source"},
        {copy_less, "a copy of more than its target"},
    };
    for (size_t i = 0; i < PLAIT_COUNT_OF(cases); i++)
        PLAIT_TRY(refused(&t, &cases[i].command, cases[i].what));
    return PLAIT_OK;
}

/* What counts is what a side spans, not what it moves. Pitches whose products overflow 64 bits must not come out
 * small. */
static plait_status boxes_outside(plait_conf *c, plait_conf_kit *kit, const void *user) {
    /* `beyond` spans 62 bytes of a buffer of 61; `fine` spans 34. */
    static const plait_box beyond = {8, 7, 1, 9, 63, 9, 63}, fine = {4, 3, 2, 5, 20, 5, 20};
    static const plait_box row_overflow = {1, UINT64_MAX / 2, 1, 8, 8, 8, 8};
    static const plait_box plane_overflow = {1, 2, 3, 1, UINT64_MAX / 2, 1, UINT64_MAX / 2};
    table t;
    unsigned char host[256] = {0};
    (void)user;
    if (!(c->info.caps & PLAIT_CAP_BOXES)) return plait_conf_lack(c, "the device takes no boxes");
    PLAIT_TRY(lay_table(c, kit, PLAIT_QUEUE_INLINE, &t));
    plait_buffer *a = t.buffers[0], *small = t.buffers[2];
    struct {
        plait_command command;
        const plait_box *box;
        const char *what;
    } cases[] = {
        {plait_conf_write(small, 0, host, 61), &beyond, "a write of a box beyond its buffer"},
        {plait_conf_read(small, 0, host, 61), &beyond, "a read of a box beyond its buffer"},
        {plait_conf_write(small, 40, host, 34), &fine, "a write of a box that begins too late"},
        {plait_conf_write(a, 0, host, 33), &fine, "a write of a box of more than its region"},
        {plait_conf_read(a, 0, host, 33), &fine, "a read of a box of more than its region"},
        {plait_conf_write(a, 0, host, 100), &row_overflow, "a write of a box whose rows overflow"},
        {plait_conf_read(a, 0, host, 100), &plane_overflow, "a read of a box whose planes overflow"},
        {plait_conf_copy(small, 0, a, 0, 61), &beyond, "a copy of a box from beyond its buffer"},
        {plait_conf_copy(a, 0, small, 0, 61), &beyond, "a copy of a box to beyond its buffer"},
        {plait_conf_copy(a, 0, t.buffers[1], 0, 33), &fine, "a copy of a box of more than its regions"},
        {plait_conf_copy(a, 0, t.buffers[1], 0, 33), &row_overflow, "a copy of a box whose rows overflow"},
    };
    for (size_t i = 0; i < PLAIT_COUNT_OF(cases); i++) {
        plait_command *command = &cases[i].command;
        if (command->kind == PLAIT_COMMAND_COPY)
            command->copy.box = cases[i].box;
        else
            command->transfer.box = cases[i].box;
        PLAIT_TRY(refused(&t, command, cases[i].what));
    }
    return PLAIT_OK;
}

/* Random lists go through each kind of queue that there is. */
void plait_conf_copies(plait_conf *c) {
    static const uint32_t own_thread = 0, caller = PLAIT_QUEUE_INLINE, engine = PLAIT_QUEUE_COPY;
    static const box_way write = BOX_WRITE, read = BOX_READ, copy = BOX_COPY;
    plait_conf_check_kit(c, "copy/sizes", all_sizes, NULL);
    plait_conf_check_kit(c, "copy/nothing", nothing, NULL);
    plait_conf_check_kit(c, "copy/random", random_lists, &own_thread);
    plait_conf_check_kit(c, "copy/random-inline", random_lists, &caller);
    plait_conf_check_kit(c, "copy/random-copy-queue", random_lists, &engine);
    plait_conf_check_kit(c, "copy/large", large, NULL);
    plait_conf_check_kit(c, "copy/box-write", boxes, &write);
    plait_conf_check_kit(c, "copy/box-read", boxes, &read);
    plait_conf_check_kit(c, "copy/box-copy", boxes, &copy);
    plait_conf_check_kit(c, "copy/box-random", random_boxes, NULL);
    plait_conf_check_kit(c, "copy/outside", outside, NULL);
    plait_conf_check_kit(c, "copy/box-outside", boxes_outside, NULL);
}
