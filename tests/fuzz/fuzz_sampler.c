/* room: text */
/* Sampler chains of any steps with any parameters, on any logits. Beyond "does no harm": what was picked is in the vocabulary
 * and has a finite logit before the chain or an edit; picking from the few best gives the same token as picking from all; a
 * clone, and a chain that loads the saved state, go on alike; every kernel variant gives the same token. */
#include "plait/sampler.h"
#include "text/sampler/chain.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define MAX_VOCAB 1500

typedef struct source {
    const uint8_t *data;
    size_t size;
} source;

static uint32_t take(source *s, size_t n_bytes) {
    uint32_t value = 0;
    for (size_t i = 0; i < n_bytes && s->size > 0; i++, s->data++, s->size--) value = value << 8 | *s->data;
    return value;
}

/* A parameter: mostly sensible, sometimes any bits at all. */
static float take_float(source *s, float scale) {
    uint32_t kind = take(s, 1);
    if (kind < 200) return ((float)kind - 60.0f) / 100.0f * scale;
    uint32_t bits = take(s, 4);
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static void expect(bool condition, const char *what) {
    if (condition) return;
    fprintf(stderr, "fuzz_sampler: %s (%s)\n", what, plait_error_message());
    __builtin_trap();
}

static void add_lists(plait_sampler *s, source *in, bool dry) {
    plait_logit_bias bias[8];
    plait_token breakers[8];
    size_t n = take(in, 1) % 9;
    for (size_t i = 0; i < n; i++) {
        bias[i].token = breakers[i] = (plait_token)take(in, 2) - 3;
        bias[i].bias = take(in, 1) & 1 ? -INFINITY : take_float(in, 10.0f);
    }
    if (dry)
        (void)plait_sampler_add_dry(s, take_float(in, 2.0f), take_float(in, 3.0f), (int32_t)take(in, 1) - 1,
                                    (int32_t)take(in, 2) - 5, breakers, n);
    else
        (void)plait_sampler_add_bias(s, bias, n);
}

static void add_step(plait_sampler *s, source *in) {
    switch (take(in, 1) % 14) {
    case 0: add_lists(s, in, false); break;
    case 1: add_lists(s, in, true); break;
    case 2: {
        int32_t last_n = (int32_t)take(in, 2) - 5;
        float repeat = take_float(in, 2.0f), frequency = take_float(in, 2.0f),
              presence = take_float(in, 2.0f);
        (void)plait_sampler_add_penalties(s, last_n, repeat, frequency, presence);
        break;
    }
    case 3: (void)plait_sampler_add_greedy(s); break;
    case 4: (void)plait_sampler_add_temp(s, take_float(in, 2.0f)); break;
    case 5: {
        float t = take_float(in, 2.0f), delta = take_float(in, 1.0f);
        (void)plait_sampler_add_temp_dynamic(s, t, delta, take_float(in, 2.0f));
        break;
    }
    case 6: (void)plait_sampler_add_top_k(s, (int32_t)take(in, 2) - 5); break;
    case 7: {
        float p = take_float(in, 1.0f);
        (void)plait_sampler_add_top_p(s, p, (int32_t)take(in, 1) - 1);
        break;
    }
    case 8: {
        float p = take_float(in, 0.5f);
        (void)plait_sampler_add_min_p(s, p, (int32_t)take(in, 1) - 1);
        break;
    }
    case 9: {
        float p = take_float(in, 1.0f);
        (void)plait_sampler_add_typical(s, p, (int32_t)take(in, 1) - 1);
        break;
    }
    case 10: (void)plait_sampler_add_top_n_sigma(s, take_float(in, 2.0f)); break;
    case 11: {
        float probability = take_float(in, 1.0f), threshold = take_float(in, 0.4f);
        (void)plait_sampler_add_xtc(s, probability, threshold, (int32_t)take(in, 1) - 1);
        break;
    }
    case 12: {
        float tau = take_float(in, 5.0f), eta = take_float(in, 1.0f);
        (void)plait_sampler_add_mirostat_v1(s, tau, eta, (int32_t)take(in, 2));
        break;
    }
    default: {
        float tau = take_float(in, 5.0f);
        (void)plait_sampler_add_mirostat_v2(s, tau, take_float(in, 1.0f));
        break;
    }
    }
}

static size_t take_logits(source *in, float *logits) {
    uint32_t shape = take(in, 1), random = take(in, 2) | 1u;
    size_t n = 1 + take(in, 2) % MAX_VOCAB;
    float scale = take_float(in, 10.0f);
    for (size_t i = 0; i < n; i++) {
        random = random * 1664525u + 1013904223u;
        float unit = (float)(random >> 8) * 0x1p-24f;
        logits[i] = shape & 1 ? unit * scale : floorf(unit * 8.0f) * scale;
        if ((shape & 2) && (random >> 12) % 3 == 0) logits[i] = -INFINITY;
        if (shape & 4) logits[i] = -fabsf(logits[i]);
    }
    for (uint32_t i = take(in, 1) % 16; i > 0; i--) logits[take(in, 2) % n] = take_float(in, 30.0f);
    return n;
}

static const float *sort_logits;

static int by_falling_logit(const void *a, const void *b) {
    plait_token x = *(const plait_token *)a, y = *(const plait_token *)b;
    float p = sort_logits[x], q = sort_logits[y];
    return p > q ? -1 : p < q ? 1 : x < y ? -1 : x > y;
}

/* What a device would hand over for this need. */
static size_t gather(const plait_logits_need *need, const float *logits, size_t n_vocab, plait_token *ids,
                     float *out) {
    for (size_t i = 0; i < n_vocab; i++) ids[i] = (plait_token)i;
    sort_logits = logits;
    qsort(ids, n_vocab, sizeof *ids, by_falling_logit);
    size_t n = (size_t)need->n;
    for (size_t i = 0; i < need->n_ids; i++) ids[n++] = need->ids[i];
    for (size_t i = 0; i < n; i++) out[i] = logits[ids[i]];
    return n;
}

static void check_best(const plait_sampler *s, const float *logits, size_t n_vocab, plait_status status,
                       plait_token token) {
    static plait_token ids[2 * MAX_VOCAB];
    static float values[2 * MAX_VOCAB];
    for (size_t i = 0; i < n_vocab; i++)
        if (!(logits[i] < INFINITY)) return; /* the few best do not show what else is wrong */
    plait_sampler *copy = NULL;
    plait_logits_need need;
    expect(plait_sampler_clone(s, &copy) == PLAIT_OK, "clone");
    expect(plait_sampler_need(copy, (int64_t)n_vocab, &need) == PLAIT_OK, "need");
    size_t n = gather(&need, logits, n_vocab, ids, values);
    plait_token other = -1;
    plait_status found = plait_sampler_pick_from_best(copy, ids, values, n, (int64_t)n_vocab, &other);
    expect(found == status && other == token, "the best give another token than all");
    plait_sampler_destroy(copy);
}

/* Another chain with the same state must pick the same. */
static void check_twins(const plait_sampler *s, const float *logits, size_t n, plait_status status,
                        plait_token token) {
    for (size_t v = 0; plait_sampler_kernels_at(v); v++) {
        plait_sampler *copy = NULL;
        plait_token other = -1;
        expect(plait_sampler_clone(s, &copy) == PLAIT_OK, "clone");
        plait_sampler_use_kernels(copy, plait_sampler_kernels_at(v));
        size_t size = plait_sampler_state_bytes(s);
        void *saved = malloc(size);
        expect(saved && plait_sampler_save(s, saved, size) == PLAIT_OK, "save");
        plait_sampler_reset(copy);
        expect(plait_sampler_load(copy, saved, size) == PLAIT_OK, "load");
        free(saved);
        plait_status found = plait_sampler_pick_from_all(copy, logits, (int64_t)n, &other);
        expect(found == status && other == token, "a twin gives another token");
        plait_sampler_destroy(copy);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static float logits[MAX_VOCAB];
    source in = {data, size};
    plait_sampler *s = NULL;
    expect(plait_sampler_create(&s, take(&in, 4)) == PLAIT_OK, "create");
    for (uint32_t n = take(&in, 1) % 9; n > 0; n--) add_step(s, &in);
    for (uint32_t n = take(&in, 1); n > 0; n--) (void)plait_sampler_accept(s, (plait_token)take(&in, 1) % 9);
    for (int round = 0; round < 4 && (round == 0 || in.size > 0); round++) {
        size_t n = take_logits(&in, logits);
        plait_sampler *before = NULL;
        expect(plait_sampler_clone(s, &before) == PLAIT_OK, "clone");
        plait_token token = -1;
        plait_status status = plait_sampler_pick_plainly(s, logits, (int64_t)n, &token);
        expect(status == PLAIT_OK || status == PLAIT_INVALID_ARGUMENT, "an unexpected status");
        expect(status != PLAIT_OK || (token >= 0 && (size_t)token < n && logits[token] > -INFINITY),
               "a token that can't be");
        check_best(before, logits, n, status, token);
        check_twins(before, logits, n, status, token);
        plait_sampler_destroy(before);
        if (status == PLAIT_OK) (void)plait_sampler_accept(s, token);
    }
    (void)plait_sampler_load(s, in.data, in.size);
    plait_sampler_destroy(s);
    return 0;
}
