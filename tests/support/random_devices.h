/* Random sets of unequal devices, as text for a context: simulated devices that lack ops, types, shapes and abilities, have
 * little memory, odd sizes, delays and orders of their own, beside cpu devices. All compute on one numeric class, so that
 * whatever runs on them gives the bytes of one cpu. The last device lacks nothing: together they can run everything. */
#ifndef PLAIT_TESTS_SUPPORT_RANDOM_DEVICES_H
#define PLAIT_TESTS_SUPPORT_RANDOM_DEVICES_H

#include "support/random_graph.h"

#include <stdio.h>
#include <string.h>

enum { RANDOM_DEVICES = 4, RANDOM_OPTIONS = 12, RANDOM_ITEM_BYTES = 64 };

/* One device: options that can be left out one by one, when a failing case is made smaller. */
typedef struct random_device {
    char kind[96];
    char options[RANDOM_OPTIONS][RANDOM_ITEM_BYTES];
    int n_options;
} random_device;

typedef struct random_devices {
    random_device devices[RANDOM_DEVICES];
    int n;
} random_devices;

static inline void rd_add(random_device *d, const char *format, const char *word, uint64_t number) {
    if (d->n_options == RANDOM_OPTIONS) return;
    snprintf(d->options[d->n_options++], RANDOM_ITEM_BYTES, format, word, (unsigned long long)number);
}

/* Some ops, each with the same chance. */
static inline void rd_lack(random_device *d, uint64_t *state) {
    static const char *const ops[] = {"matmul",  "attention", "rope", "kv_write", "get_rows", "rms_norm",
                                      "add",     "mul",       "sub",  "silu",     "scale",    "swiglu",
                                      "softmax", "copy",      "relu", "top_k",    "cast",     "page_copy"};
    const size_t n = sizeof ops / sizeof *ops;
    char list[RANDOM_ITEM_BYTES - 8] = "";
    for (uint64_t i = random_next(state, 4) + 1; i > 0; i--) {
        const char *op = ops[random_next(state, n)];
        if (strstr(list, op) || strlen(list) + strlen(op) + 2 > sizeof list) continue;
        if (list[0]) strcat(list, "+");
        strcat(list, op);
    }
    rd_add(d, "lack=%s", list, 0);
}

static inline void rd_sim(random_device *d, uint64_t *state, bool whole) {
    static const char *const abilities[] = {"peer",   "boxes",   "waits",      "waits+timelines",
                                            "pinned", "packing", "peer+boxes", "waits+timelines+peer+boxes"};
    static const char *const types[] = {"q8_0", "f16", "q4_0+bf16"};
    /* Stated figures: nothing is measured, and placement does not depend on the machine. */
    snprintf(d->kind, sizeof d->kind, "sim:flops=500G:memory-bandwidth=50GB:bandwidth=10GB:latency=1us");
    if (!whole && random_next(state, 3)) rd_lack(d, state);
    if (!whole && random_next(state, 6) == 0) rd_add(d, "lack-type=%s", types[random_next(state, 3)], 0);
    /* Dense operands only; copies make up for it, its own or, where nobody needs it to run everything, others'. */
    if (random_next(state, 3) == 0)
        rd_add(d, "contiguous=%s", whole || random_next(state, 2) ? "yes:copy-strides=yes" : "yes", 0);
    if (random_next(state, 2)) rd_add(d, "no=%s", abilities[random_next(state, 8)], 0);
    if (random_next(state, 2)) {
        rd_add(d, "%s%llu", "delay=", random_next(state, 1000) + 1);
        rd_add(d, "delay-max=%s", "30us", 0);
    }
    if (random_next(state, 2)) rd_add(d, "%s%llu", "reorder=", random_next(state, 1000) + 1);
    if (random_next(state, 3) == 0) rd_add(d, "%s%llu", "copy-queues=", random_next(state, 3));
    if (random_next(state, 4) == 0) rd_add(d, "%s%llu", "align=", (uint64_t)64 << random_next(state, 4));
    if (random_next(state, 4) == 0) rd_add(d, "%s%llu", "pad=", random_next(state, 300));
}

static inline random_devices random_devices_of(uint64_t seed) {
    random_devices r = {0};
    uint64_t state = seed * 2 + 1;
    for (int i = 0; i < 8; i++) random_next(&state, 2);
    r.n = 1 + (int)random_next(&state, RANDOM_DEVICES);
    for (int i = 0; i < r.n; i++) {
        bool last = i == r.n - 1;
        if (random_next(&state, 4) == 0) {
            strcpy(r.devices[i].kind, "cpu");
            rd_add(&r.devices[i], "%s%llu", "threads=", 1 + random_next(&state, 2));
        } else {
            rd_sim(&r.devices[i], &state, last);
        }
    }
    return r;
}

static inline const char *random_devices_text(const random_devices *r, char *out, size_t size) {
    size_t used = 0;
    out[0] = '\0';
    for (int i = 0; i < r->n; i++) {
        used += (size_t)snprintf(out + used, size - used, "%s%s", i ? "," : "", r->devices[i].kind);
        for (int k = 0; k < r->devices[i].n_options; k++)
            used += (size_t)snprintf(out + used, size - used, ":%s", r->devices[i].options[k]);
    }
    return out;
}

#endif
