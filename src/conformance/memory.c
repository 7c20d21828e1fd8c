/* Buffers and transfers: sizes and offsets that are no round numbers, limits, import of host memory. */
#include "base/alloc.h"
#include "base/size.h"
#include "conformance/suite.h"

#include <stdlib.h>
#include <string.h>

enum { BUFFER_BYTES = 5000 };

/* Two buffers and their host images. */
typedef struct pair {
    plait_buffer *a, *b;
    unsigned char *host_a, *host_b, *back;
} pair;

static void pair_end(plait_conf *c, pair *p) {
    if (p->a) c->v->buffer_destroy(p->a);
    if (p->b) c->v->buffer_destroy(p->b);
    free(p->host_a);
    free(p->host_b);
    free(p->back);
}

static plait_status pair_begin(plait_conf *c, pair *p) {
    p->host_a = plait_alloc_array(BUFFER_BYTES, 1);
    p->host_b = plait_alloc_array(BUFFER_BYTES, 1);
    p->back = plait_alloc_array(BUFFER_BYTES, 1);
    if (!p->host_a || !p->host_b || !p->back) return plait_error_memory("conformance", 3 * BUFFER_BYTES);
    PLAIT_TRY(c->v->buffer_create(c->device, BUFFER_BYTES, PLAIT_BUFFER_STATE, &p->a));
    PLAIT_TRY(c->v->buffer_create(c->device, BUFFER_BYTES, PLAIT_BUFFER_TEMPORARY, &p->b));
    PLAIT_CONF_EXPECT(p->a->size_bytes == BUFFER_BYTES && p->a->device == c->device,
                      "buffer_create: size %llu, expected %d", (unsigned long long)p->a->size_bytes,
                      BUFFER_BYTES);
    for (int i = 0; i < BUFFER_BYTES; i++) {
        p->host_a[i] = (unsigned char)(i * 7 + 3);
        p->host_b[i] = (unsigned char)(i * 13 + 5);
    }
    return PLAIT_OK;
}

static plait_status run(plait_conf *c, const plait_command *commands, int n) {
    PLAIT_TRY(c->v->submit(c->queue, commands, n));
    return c->v->synchronise(c->queue);
}

static plait_command write_of(plait_buffer *buffer, uint64_t offset, const void *host, uint64_t n) {
    return (plait_command){.kind = PLAIT_COMMAND_WRITE,
                           .transfer = {.region = {buffer, offset, n}, .host = (void *)(uintptr_t)host}};
}

static plait_command read_of(plait_buffer *buffer, uint64_t offset, void *host, uint64_t n) {
    return (plait_command){.kind = PLAIT_COMMAND_READ,
                           .transfer = {.region = {buffer, offset, n}, .host = host}};
}

/* Reads a whole buffer and compares it with its image. */
static plait_status expect_bytes(plait_conf *c, pair *p, plait_buffer *buffer, const unsigned char *host) {
    plait_command read = read_of(buffer, 0, p->back, BUFFER_BYTES);
    PLAIT_TRY(run(c, &read, 1));
    for (int i = 0; i < BUFFER_BYTES; i++)
        PLAIT_CONF_EXPECT(p->back[i] == host[i], "byte %d of the buffer is %d, expected %d", i, p->back[i],
                          host[i]);
    return PLAIT_OK;
}

static const struct {
    uint64_t source, target, n;
} moves[] = {{0, 0, 1},    {1, 3, 5},   {63, 64, 65},    {7, 1000, 4000 - 7},
             {4999, 0, 1}, {12, 12, 0}, {128, 4096, 256}};

static plait_status move_bytes(plait_conf *c, pair *p) {
    plait_command first[] = {write_of(p->a, 0, p->host_a, BUFFER_BYTES),
                             write_of(p->b, 0, p->host_b, BUFFER_BYTES)};
    PLAIT_TRY(run(c, first, 2));
    for (size_t i = 0; i < PLAIT_COUNT_OF(moves); i++) {
        uint64_t n = moves[i].n, source = moves[i].source, target = moves[i].target;
        plait_command copy = {.kind = PLAIT_COMMAND_COPY,
                              .copy = {.source = {p->a, source, n}, .target = {p->b, target, n}}};
        PLAIT_TRY(run(c, &copy, 1));
        memcpy(p->host_b + target, p->host_a + source, n);
        PLAIT_TRY(expect_bytes(c, p, p->b, p->host_b));
        /* Part of a write: less than its region holds. */
        uint64_t part = n / 2;
        plait_command write = write_of(p->a, source, p->host_b, n);
        write.transfer.size_bytes = &part;
        PLAIT_TRY(run(c, &write, 1));
        memcpy(p->host_a + source, p->host_b, part);
        plait_command fill = {.kind = PLAIT_COMMAND_FILL,
                              .fill = {.region = {p->b, source, n}, .byte = (uint8_t)(i + 1)}};
        PLAIT_TRY(run(c, &fill, 1));
        memset(p->host_b + source, (int)i + 1, n);
        PLAIT_TRY(expect_bytes(c, p, p->a, p->host_a));
        PLAIT_TRY(expect_bytes(c, p, p->b, p->host_b));
    }
    return PLAIT_OK;
}

static plait_status check_moves(plait_conf *c, void *user) {
    pair p = {0};
    (void)user;
    plait_status status = pair_begin(c, &p);
    if (status == PLAIT_OK) status = move_bytes(c, &p);
    pair_end(c, &p);
    return status;
}

static plait_status check_staging(plait_conf *c, void *user) {
    (void)user;
    plait_buffer *buffer = NULL;
    PLAIT_TRY(c->v->buffer_create(c->device, 1000, PLAIT_BUFFER_STAGING, &buffer));
    bool mapped = buffer->host != NULL;
    c->v->buffer_destroy(buffer);
    PLAIT_CONF_EXPECT(mapped, "a staging buffer is not mapped for the host");
    return PLAIT_OK;
}

static plait_status check_sizes(plait_conf *c, void *user) {
    (void)user;
    for (uint64_t n = 0; n <= 1; n++) {
        plait_buffer *buffer = NULL;
        PLAIT_TRY(c->v->buffer_create(c->device, n, PLAIT_BUFFER_STATE, &buffer));
        uint64_t size = buffer->size_bytes;
        c->v->buffer_destroy(buffer);
        PLAIT_CONF_EXPECT(size == n, "a buffer of %llu bytes says %llu", (unsigned long long)n,
                          (unsigned long long)size);
    }
    return PLAIT_OK;
}

/* What cannot be had is refused, and the device goes on. */
static plait_status check_oversized(plait_conf *c, void *user) {
    (void)user;
    static const uint64_t sizes[] = {(uint64_t)1 << 60, UINT64_MAX - 63, UINT64_MAX};
    for (size_t i = 0; i < PLAIT_COUNT_OF(sizes); i++) {
        plait_buffer *buffer = NULL;
        plait_status status = c->v->buffer_create(c->device, sizes[i], PLAIT_BUFFER_TEMPORARY, &buffer);
        if (status == PLAIT_OK) c->v->buffer_destroy(buffer);
        PLAIT_CONF_EXPECT(status == PLAIT_OUT_OF_MEMORY, "a buffer of %llu bytes: %s, expected OUT_OF_MEMORY",
                          (unsigned long long)sizes[i], plait_status_name(status));
        PLAIT_CONF_EXPECT(buffer == NULL, "a failed buffer_create set its output");
        PLAIT_CONF_EXPECT(plait_error_message()[0], "a failed buffer_create left no message");
    }
    return c->v->health(c->device);
}

static plait_status use_import(plait_conf *c, pair *p, plait_buffer *imported) {
    plait_command commands[] = {
        write_of(p->b, 0, p->host_b, BUFFER_BYTES),
        {.kind = PLAIT_COMMAND_COPY, .copy = {{p->b, 3, 100}, {imported, 17, 100}, NULL, NULL}},
    };
    PLAIT_TRY(run(c, commands, 2));
    PLAIT_CONF_EXPECT(imported->size_bytes == BUFFER_BYTES, "an import of %d bytes says %llu", BUFFER_BYTES,
                      (unsigned long long)imported->size_bytes);
    PLAIT_CONF_EXPECT(memcmp(p->host_a + 17, p->host_b + 3, 100) == 0,
                      "a copy into imported memory is not seen by the host");
    return expect_bytes(c, p, imported, p->host_a);
}

static plait_status check_import(plait_conf *c, void *user) {
    pair p = {0};
    plait_buffer *imported = NULL;
    (void)user;
    plait_status status = pair_begin(c, &p);
    if (status == PLAIT_OK)
        status = plait_conf_may_lack(
            c, c->v->buffer_import(c->device, p.host_a, BUFFER_BYTES, PLAIT_BUFFER_WEIGHTS, &imported));
    if (status == PLAIT_OK) {
        status = use_import(c, &p, imported);
        c->v->buffer_destroy(imported);
    }
    pair_end(c, &p);
    return status;
}

void plait_conf_memory(plait_conf *c) {
    plait_conf_check(c, "memory/sizes", check_sizes, NULL);
    plait_conf_check(c, "memory/staging", check_staging, NULL);
    plait_conf_check(c, "memory/moves", check_moves, NULL);
    plait_conf_check(c, "memory/oversized", check_oversized, NULL);
    plait_conf_check(c, "memory/import", check_import, NULL);
}
