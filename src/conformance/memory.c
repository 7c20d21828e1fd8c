/* Buffers: sizes, usages, what the host sees of them, that they are apart from each other, import of host memory, and
 * what happens when there is no more. Not here: moving bytes (copies.c), buffers across devices (peers.c).
 *
 * Invariant: a check gives back all the memory that it took, for the next one counts. */
#include "base/size.h"
#include "conformance/kit.h"

#include <string.h>

/* GUARD: what host memory around an import holds, and must go on holding. */
enum { IMPORT_BYTES = 5000, N_APART = 40, MAX_CHUNKS = 64, GUARD = 0xC3 };
/* Memory of a device that is worth being used up in a test: more would take long. */
#define MAX_EXHAUSTED_BYTES ((uint64_t)256 << 30)

static const uint32_t usages[] = {PLAIT_BUFFER_WEIGHTS, PLAIT_BUFFER_STATE, PLAIT_BUFFER_TEMPORARY,
                                  PLAIT_BUFFER_STAGING};

/* 0 is legal. Around powers of two, since that is where allocators round. All 36 buffers live at the same time, so the
 * kit's room is used as well. */
static plait_status sizes(plait_conf *c, plait_conf_kit *kit, const void *user) {
    static const uint64_t some[] = {0, 1, 63, 64, 65, 4095, 4096, 4097, 100003};
    (void)user;
    for (size_t u = 0; u < PLAIT_COUNT_OF(usages); u++)
        for (size_t i = 0; i < PLAIT_COUNT_OF(some); i++) {
            plait_buffer *buffer = NULL;
            PLAIT_TRY(plait_conf_buffer(kit, c->device, some[i], usages[u], &buffer));
            PLAIT_CONF_EXPECT(buffer->size_bytes == some[i] && buffer->device == c->device,
                              "a buffer of %llu bytes says %llu", (unsigned long long)some[i],
                              (unsigned long long)buffer->size_bytes);
            PLAIT_CONF_EXPECT(buffer->usage == usages[u], "a buffer for usage %u says %u", usages[u],
                              buffer->usage);
        }
    return PLAIT_OK;
}

/* ---- what the host sees ---- */

/* A pointer that a buffer shows is its memory: bytes go both ways through it. */
static plait_status host_sees(plait_conf *c, plait_conf_kit *kit, plait_buffer *buffer) {
    enum { BYTES = 1000 };
    unsigned char in[BYTES], out[BYTES];
    plait_queue *queue;
    plait_conf_pattern(in, BYTES, 3);
    memset(out, 0, sizeof out);
    PLAIT_TRY(plait_conf_queue(kit, c->device, 0, &queue));
    plait_command write = plait_conf_write(buffer, 0, in, BYTES),
                  read = plait_conf_read(buffer, 0, out, BYTES);
    PLAIT_TRY(plait_conf_do(queue, &write, 1));
    PLAIT_TRY(plait_conf_same(buffer->host, in, BYTES, "what the host sees of a mapped buffer"));
    /* And the other way: the host writes without a command, the device reads. */
    plait_conf_pattern(in, BYTES, 4);
    memcpy(buffer->host, in, BYTES);
    PLAIT_TRY(plait_conf_do(queue, &read, 1));
    return plait_conf_same(out, in, BYTES, "what a mapped buffer sees of the host");
}

/* Mapped is what the caps promise, and a STAGING buffer always; others may be mapped all the same, and then must be
 * right. A mapped buffer needs no unmapping or flushing in this contract, so what the host writes must be seen by the
 * next command. */
static plait_status mapped(plait_conf *c, plait_conf_kit *kit, const void *user) {
    (void)user;
    for (size_t u = 0; u < PLAIT_COUNT_OF(usages); u++) {
        plait_buffer *buffer;
        bool must = usages[u] == PLAIT_BUFFER_STAGING || (c->info.caps & PLAIT_CAP_MAPPED);
        PLAIT_TRY(plait_conf_buffer(kit, c->device, 1000, usages[u], &buffer));
        PLAIT_CONF_EXPECT(buffer->host || !must, "a buffer for usage %u is not mapped for the host",
                          usages[u]);
        if (buffer->host) PLAIT_TRY(host_sees(c, kit, buffer));
    }
    return PLAIT_OK;
}

/* ---- apart ---- */

/* Buffers come and go; those that stay keep their bytes, and no two share any. Sizes follow from index and round, and
 * so does the byte that a buffer is filled with: in rounds 1 and 2 a third of them is made anew, of another size, so
 * that new ones fall into the holes of old ones. Each buffer is filled whole, so one that overlaps another has
 * overwritten it by the end. */
static plait_status apart(plait_conf *c, plait_conf_kit *kit, const void *user) {
    plait_buffer *buffers[N_APART];
    unsigned char image[3000], back[3000];
    (void)user;
    for (uint32_t round = 0; round < 3; round++)
        for (uint32_t i = 0; i < N_APART; i++) {
            /* Sizes that are neither equal nor in order. */
            uint64_t n = 100 + (i * 731 + round * 97) % 2900;
            if (round && i % 3 != round) continue;
            if (round) plait_conf_drop_buffer(kit, buffers[i]);
            PLAIT_TRY(plait_conf_buffer(kit, c->device, n, usages[i % 3], &buffers[i]));
            plait_command fill = plait_conf_fill(buffers[i], 0, n, (uint8_t)(i + 100 * round));
            PLAIT_TRY(plait_conf_do(c->queue, &fill, 1));
        }
    for (uint32_t i = 0; i < N_APART; i++) {
        uint64_t n = buffers[i]->size_bytes;
        plait_command read = plait_conf_read(buffers[i], 0, back, n);
        memset(image, (uint8_t)(i + (i % 3 ? 100 * (i % 3) : 0)), n);
        PLAIT_TRY(plait_conf_do(c->queue, &read, 1));
        PLAIT_TRY(plait_conf_same(back, image, n, "a buffer beside others that came and went"));
    }
    return PLAIT_OK;
}

/* ---- too much ---- */

/* Sizes near the end of 64 bits overflow when they are rounded up or padded. The refusal must be OUT_OF_MEMORY, which
 * planners act upon, and the device must go on. */
static plait_status oversized(plait_conf *c, plait_conf_kit *kit, const void *user) {
    static const uint64_t some[] = {(uint64_t)1 << 60, UINT64_MAX - 63, UINT64_MAX};
    (void)kit, (void)user;
    for (size_t i = 0; i <= PLAIT_COUNT_OF(some); i++) {
        plait_buffer *buffer = NULL;
        /* The last one is just one byte too large. */
        uint64_t size = i < PLAIT_COUNT_OF(some) ? some[i] : c->info.max_buffer_bytes + 1;
        plait_conf_forget_message();
        plait_status status = c->v->buffer_create(c->device, size, PLAIT_BUFFER_TEMPORARY, &buffer);
        if (status == PLAIT_OK) c->v->buffer_destroy(buffer);
        PLAIT_CONF_EXPECT(buffer == NULL || status == PLAIT_OK, "a failed buffer_create has set its output");
        PLAIT_TRY(plait_conf_failed(status, PLAIT_OUT_OF_MEMORY, "a buffer larger than the largest"));
    }
    return c->v->health(c->device);
}

/* Where memory is the host's, other programs move the figures: nothing can be counted then. */
static plait_status own_memory(plait_conf *c) {
    return plait_conf_own_memory(c) ? PLAIT_OK : plait_conf_lack(c, "the device's memory is the host's");
}

/* A buffer takes at least its bytes and at most what allocation_bytes has said, and gives all of it back. Between the
 * calls nobody else may use the device: the suite runs one check at a time. */
static plait_status query(plait_conf *c, plait_conf_kit *kit, const void *user) {
    uint64_t total = 0, before = 0, during = 0, after = 0, bytes = 0;
    /* Odd, so that rounding shows. */
    const uint64_t size = 100001;
    plait_buffer *buffer;
    (void)user;
    PLAIT_TRY(c->v->memory_query(c->device, &total, &before));
    PLAIT_CONF_EXPECT(total == c->info.memory_total_bytes,
                      "memory_query: %llu bytes in all, describe says %llu", (unsigned long long)total,
                      (unsigned long long)c->info.memory_total_bytes);
    PLAIT_CONF_EXPECT(before <= total, "memory_query: %llu bytes are free of %llu",
                      (unsigned long long)before, (unsigned long long)total);
    PLAIT_TRY(own_memory(c));
    PLAIT_TRY(c->v->allocation_bytes(c->device, size, PLAIT_BUFFER_STATE, &bytes));
    PLAIT_TRY(plait_conf_buffer(kit, c->device, size, PLAIT_BUFFER_STATE, &buffer));
    PLAIT_TRY(c->v->memory_query(c->device, &total, &during));
    plait_conf_drop_buffer(kit, buffer);
    PLAIT_TRY(c->v->memory_query(c->device, &total, &after));
    PLAIT_CONF_EXPECT(
        before - during >= size && before - during <= bytes,
        "a buffer of %llu bytes took %llu, expected between that and the %llu of allocation_bytes",
        (unsigned long long)size, (unsigned long long)(before - during), (unsigned long long)bytes);
    PLAIT_CONF_EXPECT(after == before, "of %llu free bytes %llu are left after a buffer has come and gone",
                      (unsigned long long)before, (unsigned long long)after);
    return PLAIT_OK;
}

/* Never less than asked for, and never less than for a smaller buffer: planners add these figures up. */
static plait_status allocation(plait_conf *c, void *user) {
    static const uint64_t some[] = {0, 1, 63, 64, 65, 1000, 4096, 4097, 1000000, 1000001};
    uint64_t last = 0;
    (void)user;
    for (size_t i = 0; i < PLAIT_COUNT_OF(some); i++) {
        uint64_t bytes = UINT64_MAX;
        PLAIT_TRY(c->v->allocation_bytes(c->device, some[i], PLAIT_BUFFER_STATE, &bytes));
        PLAIT_CONF_EXPECT(bytes >= some[i] && bytes >= last && bytes != UINT64_MAX,
                          "allocation_bytes: %llu for a buffer of %llu, and %llu for a smaller one",
                          (unsigned long long)bytes, (unsigned long long)some[i], (unsigned long long)last);
        last = bytes;
    }
    return PLAIT_OK;
}

/* Marks both ends of a chunk, and says whether marks are there. Both ends, since a buffer that is too short, or lies
 * over another, is wrong at an end. */
static plait_status mark(plait_conf *c, plait_buffer *buffer, uint8_t byte) {
    plait_command fill[] = {plait_conf_fill(buffer, 0, 64, byte),
                            plait_conf_fill(buffer, buffer->size_bytes - 64, 64, byte)};
    return plait_conf_do(c->queue, fill, 2);
}

/* All bytes of both marks. */
static plait_status marked(plait_conf *c, plait_buffer *buffer, uint8_t byte) {
    unsigned char back[128];
    plait_command read[] = {plait_conf_read(buffer, 0, back, 64),
                            plait_conf_read(buffer, buffer->size_bytes - 64, back + 64, 64)};
    PLAIT_TRY(plait_conf_do(c->queue, read, 2));
    return plait_conf_all(back, byte, sizeof back, "a buffer while memory runs out");
}

/* Takes chunks until there are no more, which must be before there is more than there was: a device that hands out what
 * it does not have fails later, at a write. Each is marked at once, so that memory that is only promised is touched.
 * The kit owns the chunks; its 80 places are more than the 64 that are tried. */
static plait_status take_chunks(plait_conf *c, plait_conf_kit *kit, uint64_t chunk, plait_buffer **chunks,
                                int *n) {
    uint64_t total, before;
    plait_status status = PLAIT_OK;
    PLAIT_TRY(c->v->memory_query(c->device, &total, &before));
    for (*n = 0; *n < MAX_CHUNKS; ++*n) {
        plait_conf_forget_message();
        chunks[*n] = NULL;
        status = plait_conf_buffer(kit, c->device, chunk, PLAIT_BUFFER_STATE, &chunks[*n]);
        if (status != PLAIT_OK) break;
        PLAIT_CONF_EXPECT((uint64_t)(*n + 1) * chunk <= before,
                          "%d buffers of %llu bytes were given out of %llu free bytes", *n + 1,
                          (unsigned long long)chunk, (unsigned long long)before);
        PLAIT_TRY(mark(c, chunks[*n], (uint8_t)(*n + 1)));
    }
    PLAIT_CONF_EXPECT(*n == MAX_CHUNKS || chunks[*n] == NULL, "a failed buffer_create has set its output");
    return plait_conf_failed(status, PLAIT_OUT_OF_MEMORY, "a buffer when memory is used up");
}

/* What is left is less than one more takes, and those that are there hold their bytes. */
static plait_status use_up(plait_conf *c, plait_conf_kit *kit, uint64_t chunk, plait_buffer **chunks,
                           int *n) {
    uint64_t total, left, bytes;
    PLAIT_TRY(c->v->allocation_bytes(c->device, chunk, PLAIT_BUFFER_STATE, &bytes));
    PLAIT_TRY(take_chunks(c, kit, chunk, chunks, n));
    PLAIT_TRY(c->v->memory_query(c->device, &total, &left));
    PLAIT_CONF_EXPECT(
        left < bytes,
        "memory_query: %llu bytes are free when a buffer of %llu, which takes %llu, can not be had",
        (unsigned long long)left, (unsigned long long)chunk, (unsigned long long)bytes);
    for (int i = 0; i < *n; i++) PLAIT_TRY(marked(c, chunks[i], (uint8_t)(i + 1)));
    return c->v->health(c->device);
}

/* Twice, with all of it given back in between: what the first round leaves behind makes the second one shorter. Chunks
 * are no whole number of what is free, so the last refusal has something left to refuse. */
static plait_status exhaustion(plait_conf *c, plait_conf_kit *kit, const void *user) {
    plait_buffer *chunks[MAX_CHUNKS + 1];
    uint64_t total, before, after;
    int first = 0, second = 0;
    (void)user;
    PLAIT_TRY(own_memory(c));
    PLAIT_TRY(c->v->memory_query(c->device, &total, &before));
    if (before > MAX_EXHAUSTED_BYTES)
        return plait_conf_lack(c, "the device has too much memory to use it all up");
    /* Twenty-four chunks or less: enough to see them apart, few enough to be quick. */
    uint64_t chunk = before / 24 + 129;
    if (chunk > c->info.max_buffer_bytes) chunk = c->info.max_buffer_bytes;
    if (chunk < 256 || before / chunk >= MAX_CHUNKS)
        return plait_conf_lack(c, "buffers are too small to use the memory up with some");
    PLAIT_TRY(use_up(c, kit, chunk, chunks, &first));
    for (int i = 0; i < first; i++) plait_conf_drop_buffer(kit, chunks[i]);
    PLAIT_TRY(c->v->memory_query(c->device, &total, &after));
    PLAIT_CONF_EXPECT(after == before, "of %llu free bytes %llu came back", (unsigned long long)before,
                      (unsigned long long)after);
    PLAIT_TRY(use_up(c, kit, chunk, chunks, &second));
    PLAIT_CONF_EXPECT(first == second, "memory held %d buffers, and %d after they were gone", first, second);
    /* A hole in the middle serves a smaller one. */
    plait_conf_drop_buffer(kit, chunks[first / 2]);
    PLAIT_TRY(plait_conf_buffer(kit, c->device, chunk / 2, PLAIT_BUFFER_STATE, &chunks[first / 2]));
    PLAIT_TRY(mark(c, chunks[first / 2], 0xEE));
    for (int i = 0; i < first; i++) PLAIT_TRY(marked(c, chunks[i], i == first / 2 ? 0xEE : (uint8_t)(i + 1)));
    return PLAIT_OK;
}

/* ---- host memory ---- */

/* The host's bytes are the buffer's: both see at once what the other does, and nothing beside them changes. The address
 * is a multiple of 64, the size is not. */
static plait_status import(plait_conf *c, plait_conf_kit *kit, const void *user) {
    plait_buffer *imported = NULL, *other;
    unsigned char *host, *image, *block;
    (void)user;
    PLAIT_TRY(plait_conf_bytes(kit, IMPORT_BYTES + 128, &block));
    PLAIT_TRY(plait_conf_bytes(kit, IMPORT_BYTES, &image));
    memset(block, GUARD, IMPORT_BYTES + 128);
    host = block + 64;
    plait_conf_pattern(host, IMPORT_BYTES, 1);
    plait_conf_forget_message();
    plait_status status = c->v->buffer_import(c->device, host, IMPORT_BYTES, PLAIT_BUFFER_WEIGHTS, &imported);
    PLAIT_TRY(plait_conf_optional(c, status, "buffer_import"));
    PLAIT_TRY(plait_conf_keep_buffer(kit, imported));
    PLAIT_CONF_EXPECT(imported->size_bytes == IMPORT_BYTES, "an import of %d bytes says %llu", IMPORT_BYTES,
                      (unsigned long long)imported->size_bytes);
    PLAIT_TRY(plait_conf_buffer(kit, c->device, IMPORT_BYTES, PLAIT_BUFFER_STATE, &other));
    /* Written by the host after the import: a device that has made a copy of its own shows the first pattern. */
    plait_conf_pattern(host, IMPORT_BYTES, 2);
    memcpy(image, host, IMPORT_BYTES);
    plait_command out = plait_conf_copy(imported, 0, other, 0, IMPORT_BYTES);
    PLAIT_TRY(plait_conf_do(c->queue, &out, 1));
    PLAIT_TRY(plait_conf_expect(kit, c->queue, other, image,
                                "a copy of imported memory that the host has changed"));
    /* The device writes into the imported memory, at an odd place: the host must see it there and nowhere else. */
    plait_command back[] = {plait_conf_fill(other, 0, IMPORT_BYTES, 77),
                            plait_conf_copy(other, 3, imported, 17, 100)};
    PLAIT_TRY(plait_conf_do(c->queue, back, 2));
    memset(image + 17, 77, 100);
    PLAIT_TRY(plait_conf_same(host, image, IMPORT_BYTES,
                              "imported memory after a copy into it, as the host sees it"));
    PLAIT_TRY(plait_conf_expect(kit, c->queue, imported, image, "imported memory, as the device sees it"));
    /* The import goes, the memory stays as it is. */
    plait_conf_drop_buffer(kit, imported);
    PLAIT_TRY(plait_conf_same(host, image, IMPORT_BYTES, "host memory after its import is gone"));
    PLAIT_TRY(plait_conf_all(block, GUARD, 64, "host memory in front of an import"));
    return plait_conf_all(host + IMPORT_BYTES, GUARD, 64, "host memory behind an import");
}

/* A write and a read through one block of pinned memory, in one list: the read overwrites what the write has taken. It
 * is given back before anything is judged. */
static plait_status pinned(plait_conf *c, plait_conf_kit *kit, const void *user) {
    enum { BYTES = 40001 };
    plait_buffer *buffer;
    unsigned char *host = NULL, *image;
    (void)user;
    PLAIT_TRY(plait_conf_buffer(kit, c->device, BYTES, PLAIT_BUFFER_STATE, &buffer));
    PLAIT_TRY(plait_conf_bytes(kit, BYTES, &image));
    plait_conf_pattern(image, BYTES, 12);
    plait_conf_forget_message();
    plait_status status = c->v->host_alloc(c->device, BYTES, (void **)&host);
    PLAIT_TRY(plait_conf_optional(c, status, "host_alloc"));
    /* What is not aligned is not used, but given back. */
    bool aligned = host && (uintptr_t)host % 64 == 0;
    if (aligned) {
        memcpy(host, image, BYTES);
        plait_command list[] = {plait_conf_write(buffer, 0, host, BYTES), plait_conf_fill(buffer, 5, 100, 3),
                                plait_conf_read(buffer, 0, host, BYTES)};
        status = plait_conf_do(c->queue, list, 3);
        memset(image + 5, 3, 100);
        if (status == PLAIT_OK) status = plait_conf_same(host, image, BYTES, "pinned memory after a read");
    }
    c->v->host_free(c->device, host);
    PLAIT_CONF_EXPECT(aligned, "host_alloc gave %p, expected an address that is a multiple of 64",
                      (void *)host);
    return status;
}

void plait_conf_memory(plait_conf *c) {
    plait_conf_check_kit(c, "memory/sizes", sizes, NULL);
    plait_conf_check_kit(c, "memory/mapped", mapped, NULL);
    plait_conf_check_kit(c, "memory/apart", apart, NULL);
    plait_conf_check_kit(c, "memory/oversized", oversized, NULL);
    plait_conf_check_kit(c, "memory/query", query, NULL);
    plait_conf_check(c, "memory/allocation", allocation, NULL);
    plait_conf_check_kit(c, "memory/exhaustion", exhaustion, NULL);
    plait_conf_check_kit(c, "memory/import", import, NULL);
    plait_conf_check_kit(c, "memory/pinned", pinned, NULL);
}
