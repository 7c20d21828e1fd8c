/* The self-test of direct copies between devices: drivers and platforms are known that say that one device reaches another's
 * memory, and then lose or damage what is copied, or show what was there before. So before the first plan of several devices
 * bytes go every direct way, in sizes and forms that plans have, and come back to be compared. A pair that fails does not
 * count as reaching each other any more: its bytes go through host memory, and a warning names it.
 *
 * Not here: the order of copies, which is the conformance suite's. Invariant: a failure that is not about bytes is the
 * caller's: the device is then no better without direct copies. */
#include "device/context.h"

#include "base/alloc.h"
#include "base/log.h"
#include "base/status.h"

#include <stdlib.h>
#include <string.h>

/* LEAST_BYTES, MOST_BYTES: of a trial's buffers. SMALL_BYTES: their end, where the small forms are; the rest is one
 * large range. MOST_FORMS: five ranges and two boxes. N_PATTERNS: the second is the complement of the first, so bytes
 * left over from the first round are wrong in the second, each of them. */
enum { LEAST_BYTES = 8192, MOST_BYTES = 128 << 10, SMALL_BYTES = 6144, MOST_FORMS = 7, N_PATTERNS = 2 };

typedef struct trial {
    plait_context *context;
    int from, to;
    uint32_t queue;                 /* that copies */
    plait_buffer *source, *target;  /* Owned. */
    uint64_t size_bytes;            /* of each */
    unsigned char *sent, *expected; /* Owned, as below. [size_bytes] */
    unsigned char *came;
    /* The copies of a trial, which touch no byte twice. */
    struct form {
        uint64_t offset, size_bytes; /* of a box: what its target spans */
        const plait_box *box;        /* NULL for a range */
    } forms[MOST_FORMS];
    int n_forms;
} trial;

typedef struct form form;

/* ---- bytes ---- */

/* No byte is what the other pattern has there, and bytes near each other differ. Sizes are multiples of 8. */
static void fill_pattern(unsigned char *bytes, uint64_t n, int pattern) {
    /* A linear congruential generator of 64 bits; its low bits have short periods, so the high ones are folded onto
     * them. */
    uint64_t state = 0x9E3779B97F4A7C15u, flip = pattern ? UINT64_MAX : 0;
    for (uint64_t i = 0; i < n; i += 8) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        uint64_t word = (state ^ state >> 32) ^ flip;
        memcpy(bytes + i, &word, 8);
    }
}

/* What a form must change, in host memory, by the definition of plait_box. */
static void move_expected(const trial *t, const form *f) {
    if (!f->box) {
        memcpy(t->expected + f->offset, t->sent + f->offset, f->size_bytes);
        return;
    }
    for (uint64_t p = 0; p < f->box->n_planes; p++)
        for (uint64_t r = 0; r < f->box->n_rows; r++)
            memcpy(t->expected + f->offset + p * f->box->target_plane_pitch + r * f->box->target_row_pitch,
                   t->sent + f->offset + p * f->box->source_plane_pitch + r * f->box->source_row_pitch,
                   f->box->row_bytes);
}

/* A large range, and behind it small ones of odd sizes at odd places, and boxes: engines move by words, by lines and by
 * pages, and those that go wrong do so at the ends. Offsets are chosen so that no two forms meet in the source or in
 * the target: the box `flat` spans 801 bytes of source and 1073 of target, `deep` 1808 and 744. */
static void choose_forms(trial *t, bool boxes) {
    static const plait_box flat = {33, 17, 1, 48, 0, 65, 0}, deep = {16, 5, 4, 64, 512, 32, 200};
    uint64_t large = t->size_bytes - SMALL_BYTES;
    const form forms[MOST_FORMS] = {{0, large, NULL},
                                    {large + 64, 1, NULL},
                                    {large + 131, 255, NULL},
                                    {large + 512, 1024, NULL},
                                    {large + 5101, 777, NULL},
                                    {large + 1605, plait_box_span(&flat, 65, 0), &flat},
                                    {large + 3200, plait_box_span(&deep, 32, 200), &deep}};
    memcpy(t->forms, forms, sizeof forms);
    t->n_forms = boxes ? MOST_FORMS : MOST_FORMS - 2;
}

/* ---- commands ---- */

/* All of a buffer, to or from host memory, on the device's first queue, and done on return. */
static plait_status transfer(const trial *t, int device, plait_command_kind kind, plait_buffer *buffer,
                             void *host) {
    plait_command command = {.kind = kind, .transfer = {.region = {buffer, 0, t->size_bytes}, .host = host}};
    return plait_context_execute(t->context, device, &command, 1);
}

/* One round. The target holds the other pattern before, so that what does not arrive shows, and what arrives beside it
 * too. All copies go as one list, as a plan would submit them. Three executions one after the other settle the order,
 * since each is waited for: order between queues is not what is tested. */
static plait_status copy_all(const trial *t, int pattern) {
    plait_command copies[MOST_FORMS];
    fill_pattern(t->sent, t->size_bytes, pattern);
    fill_pattern(t->expected, t->size_bytes, !pattern);
    PLAIT_TRY(transfer(t, t->from, PLAIT_COMMAND_WRITE, t->source, t->sent));
    PLAIT_TRY(transfer(t, t->to, PLAIT_COMMAND_WRITE, t->target, t->expected));
    for (int k = 0; k < t->n_forms; k++) {
        const form *f = &t->forms[k];
        plait_region from = {t->source, f->offset, t->size_bytes - f->offset};
        plait_region to = {t->target, f->offset, t->size_bytes - f->offset};
        copies[k] = (plait_command){
            .kind = PLAIT_COMMAND_COPY,
            .copy = {
                .source = from, .target = to, .size_bytes = f->box ? NULL : &f->size_bytes, .box = f->box}};
        move_expected(t, f);
    }
    PLAIT_TRY(plait_context_execute_on(t->context, t->queue, copies, t->n_forms));
    return transfer(t, t->to, PLAIT_COMMAND_READ, t->target, t->came);
}

/* ---- a pair ---- */

/* False, with a warning that names the first wrong byte by the form in which it lies, counted from the form's start. A
 * byte in front of a form makes the difference wrap, so the search passes on; a byte that no form covers is told as one
 * of the last form, then below 0 or beyond its size. */
static bool arrived(const trial *t) {
    uint64_t at = 0;
    int k = 0;
    while (at < t->size_bytes && t->came[at] == t->expected[at]) at++;
    if (at == t->size_bytes) return true;
    while (k + 1 < t->n_forms && at - t->forms[k].offset >= t->forms[k].size_bytes) k++;
    const char *from = t->context->devices[t->from].device->name;
    const char *to = t->context->devices[t->to].device->name;
    plait_log(&t->context->logger, PLAIT_LOG_WARNING,
              "a direct copy of %s%llu bytes from %s to %s arrives wrong: byte %lld is 0x%02x, expected "
              "0x%02x; what %s and %s exchange goes through host memory",
              t->forms[k].box ? "a box in " : "", (unsigned long long)t->forms[k].size_bytes, from, to,
              (long long)(at - t->forms[k].offset), t->came[at], t->expected[at], from, to);
    return false;
}

/* The three images are one allocation, owned by `sent`. Failing, what was made is the caller's to destroy. */
static plait_status make_buffers(trial *t) {
    plait_context_entry *from = &t->context->devices[t->from], *to = &t->context->devices[t->to];
    t->sent = plait_alloc_array(3, t->size_bytes);
    if (!t->sent) return plait_error_memory("a test of copies", 3 * t->size_bytes);
    t->expected = t->sent + t->size_bytes;
    t->came = t->expected + t->size_bytes;
    PLAIT_TRY(
        from->device->vtable->buffer_create(from->device, t->size_bytes, PLAIT_BUFFER_TEMPORARY, &t->source));
    return to->device->vtable->buffer_create(to->device, t->size_bytes, PLAIT_BUFFER_TEMPORARY, &t->target);
}

/* Little enough for a device with little memory, and for one whose link is slow: 1/512 of the smaller memory, within
 * the bounds above, in whole pages of 4096 bytes (so a multiple of 8, as fill_pattern needs). */
static uint64_t trial_bytes(const plait_context_entry *a, const plait_context_entry *b) {
    uint64_t least = a->info.memory_total_bytes < b->info.memory_total_bytes ? a->info.memory_total_bytes
                                                                             : b->info.memory_total_bytes;
    uint64_t n = least / 512 & ~(uint64_t)4095;
    if (n < LEAST_BYTES) n = LEAST_BYTES;
    if (n > MOST_BYTES) n = MOST_BYTES;
    return n;
}

/* Copies from one device to another on one of the queues that would take them. *out_right: whether all bytes arrived; a
 * failure of the commands themselves is returned, and says nothing of bytes. Boxes are tried when both devices have
 * them. */
static plait_status try_way(plait_context *context, int from, int to, uint32_t queue, bool *out_right) {
    plait_context_entry *a = &context->devices[from], *b = &context->devices[to];
    trial t = {.context = context, .from = from, .to = to, .queue = queue, .size_bytes = trial_bytes(a, b)};
    choose_forms(&t, (a->info.caps & b->info.caps & PLAIT_CAP_BOXES) != 0);
    plait_status status = make_buffers(&t);
    *out_right = true;
    for (int pattern = 0; status == PLAIT_OK && *out_right && pattern < N_PATTERNS; pattern++) {
        status = copy_all(&t, pattern);
        if (status == PLAIT_OK) *out_right = arrived(&t);
    }
    if (t.source) t.source->device->vtable->buffer_destroy(t.source);
    if (t.target) t.target->device->vtable->buffer_destroy(t.target);
    free(t.sent);
    return status;
}

/* What device d reaches of another: both ways, each on the queue that plans take for it. One way that goes wrong ends
 * both, since `reaches` has one bit for a pair; the other device's own bit for d is another test, with that device's
 * queues. */
static plait_status try_pair(plait_context *context, int d, int other) {
    plait_context_entry *entry = &context->devices[d];
    uint32_t first = (uint32_t)d * PLAIT_DEVICE_QUEUES;
    uint32_t in = first + (uint32_t)plait_context_copy_queue(entry, true);
    uint32_t out = first + (uint32_t)plait_context_copy_queue(entry, false);
    bool right = false;
    PLAIT_TRY(try_way(context, other, d, in, &right));
    if (right) PLAIT_TRY(try_way(context, d, other, out, &right));
    if (!right) entry->reaches &= ~((uint64_t)1 << other);
    return PLAIT_OK;
}

static plait_status try_all(plait_context *context) {
    for (int d = 0; d < context->n_devices; d++)
        for (int other = 0; other < context->n_devices; other++)
            if (other != d && (context->devices[d].reaches >> other & 1u))
                PLAIT_TRY(plait_error_context(try_pair(context, d, other), "direct copies of %s",
                                              context->devices[d].device->name));
    return PLAIT_OK;
}

/* The first caller tests, others that come meanwhile wait for its result. A failure leaves the test undone: bits that
 * were cleared stay cleared, and the next call begins anew. */
plait_status plait_context_test_peers(plait_context *context) {
    plait_status status = PLAIT_OK;
    pthread_mutex_lock(&context->peer_lock);
    if (!context->peers_tested) status = try_all(context);
    context->peers_tested = context->peers_tested || status == PLAIT_OK;
    pthread_mutex_unlock(&context->peer_lock);
    return status;
}
