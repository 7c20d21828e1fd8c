/* Saved state of a chain: seed, picks, history, mu. Not here: the steps themselves; a fingerprint of them
 * makes sure that a state goes back into a chain of the same kind.
 *
 * Layout, all little-endian: "PLSM", u32 version, u64 fingerprint, u64 seed, u64 picks, u32 number of
 * tokens, u32 number of mu, tokens oldest first (i32 each), mu in the order of their steps (bits of a
 * double, u64 each). */
#include "text/sampler/chain.h"

#include <math.h>
#include <string.h>

#define STATE_VERSION 1u
#define HEADER_BYTES  40u

uint64_t plait_sampler_hash_bytes(uint64_t hash, const void *bytes, size_t n) {
    const unsigned char *p = bytes;
    for (size_t i = 0; i < n; i++) hash = (hash ^ p[i]) * 0x100000001B3ull; /* FNV-1a */
    return hash;
}

/* Byte by byte: the same bytes on every machine. */
static void put(unsigned char *out, uint64_t value, size_t n_bytes) {
    for (size_t i = 0; i < n_bytes; i++) out[i] = (unsigned char)(value >> (8 * i));
}

static uint64_t get(const unsigned char *in, size_t n_bytes) {
    uint64_t value = 0;
    for (size_t i = 0; i < n_bytes; i++) value |= (uint64_t)in[i] << (8 * i);
    return value;
}

uint64_t plait_sampler_hash_u64(uint64_t hash, uint64_t value) {
    unsigned char bytes[8];
    put(bytes, value, sizeof bytes);
    return plait_sampler_hash_bytes(hash, bytes, sizeof bytes);
}

uint64_t plait_sampler_hash_float(uint64_t hash, float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return plait_sampler_hash_u64(hash, bits);
}

/* Names and parameters of all steps, in order; not the seed, which is state. 0xCBF2... is FNV's offset basis. */
static uint64_t fingerprint(const plait_sampler *s) {
    uint64_t hash = 0xCBF29CE484222325ull;
    for (size_t i = 0; i < s->n_steps; i++) {
        const plait_step *step = &s->steps[i];
        hash = plait_sampler_hash_bytes(hash, step->kind->name, strlen(step->kind->name) + 1);
        if (step->kind->fingerprint) hash = step->kind->fingerprint(step, hash);
    }
    return hash;
}

/* Only steps with state have `picked`. */
static size_t count_mu(const plait_sampler *s) {
    size_t n = 0;
    for (size_t i = 0; i < s->n_steps; i++) n += s->steps[i].kind->picked != NULL;
    return n;
}

/* Grows with the history, up to the longest window of the chain. */
size_t plait_sampler_state_bytes(const plait_sampler *sampler) {
    return HEADER_BYTES + 4 * sampler->history_length + 8 * count_mu(sampler);
}

/* Oldest first, so that a load into a ring of any capacity just appends. */
plait_status plait_sampler_save(const plait_sampler *sampler, void *out, size_t capacity_bytes) {
    size_t size = plait_sampler_state_bytes(sampler);
    if (capacity_bytes < size)
        return plait_error(PLAIT_OUT_OF_RANGE, "sampler state: %zu bytes of room, expected %zu",
                           capacity_bytes, size);
    unsigned char *p = out;
    memcpy(p, "PLSM", 4);
    put(p + 4, STATE_VERSION, 4);
    put(p + 8, fingerprint(sampler), 8);
    put(p + 16, sampler->seed, 8);
    put(p + 24, sampler->picks, 8);
    put(p + 32, sampler->history_length, 4);
    put(p + 36, count_mu(sampler), 4);
    p += HEADER_BYTES;
    for (size_t i = sampler->history_length; i-- > 0; p += 4)
        put(p, (uint32_t)plait_sampler_history(sampler, i), 4);
    for (size_t i = 0; i < sampler->n_steps; i++) {
        if (!sampler->steps[i].kind->picked) continue;
        uint64_t bits;
        memcpy(&bits, &sampler->steps[i].u.mirostat.mu, sizeof bits);
        put(p, bits, 8);
        p += 8;
    }
    return PLAIT_OK;
}

/* Everything that a load would set is looked at before anything is set. The sum of sizes cannot overflow: both counts
 * have 32 bits. Exponent 2047 is infinity or NaN. */
static plait_status check_state(const plait_sampler *s, const unsigned char *p, size_t size_bytes) {
    if (size_bytes < HEADER_BYTES || memcmp(p, "PLSM", 4) != 0)
        return plait_error(PLAIT_CORRUPT,
                           "sampler state: %zu bytes that do not begin with PLSM and %u bytes of header",
                           size_bytes, HEADER_BYTES);
    if (get(p + 4, 4) != STATE_VERSION)
        return plait_error(PLAIT_UNSUPPORTED, "sampler state: version %llu, expected %u",
                           (unsigned long long)get(p + 4, 4), STATE_VERSION);
    if (get(p + 8, 8) != fingerprint(s))
        return plait_error(PLAIT_INVALID_ARGUMENT,
                           "sampler state: saved by a chain of other steps or parameters");
    uint64_t n_tokens = get(p + 32, 4), n_mu = get(p + 36, 4);
    uint64_t expected = HEADER_BYTES + 4 * n_tokens + 8 * n_mu;
    if (n_tokens > s->history_capacity || n_mu != count_mu(s) || expected != size_bytes)
        return plait_error(
            PLAIT_CORRUPT,
            "sampler state: %llu tokens and %llu mu in %zu bytes, expected at most %zu tokens, %zu mu",
            (unsigned long long)n_tokens, (unsigned long long)n_mu, size_bytes, s->history_capacity,
            count_mu(s));
    const unsigned char *q = p + HEADER_BYTES;
    for (uint64_t i = 0; i < n_tokens; i++, q += 4)
        if (get(q, 4) > INT32_MAX)
            return plait_error(PLAIT_CORRUPT, "sampler state: token %llu of the history is negative",
                               (unsigned long long)i);
    for (uint64_t i = 0; i < n_mu; i++, q += 8)
        if ((get(q, 8) >> 52 & 2047) == 2047)
            return plait_error(PLAIT_CORRUPT, "sampler state: mu %llu is not finite", (unsigned long long)i);
    return PLAIT_OK;
}

/* The ring is laid out anew from place 0. A loaded chain counts as started: steps added now would not fit the
 * fingerprint. */
plait_status plait_sampler_load(plait_sampler *sampler, const void *bytes, size_t size_bytes) {
    const unsigned char *p = bytes;
    PLAIT_TRY(check_state(sampler, p, size_bytes));
    sampler->seed = get(p + 16, 8);
    sampler->picks = get(p + 24, 8);
    size_t n_tokens = (size_t)get(p + 32, 4);
    p += HEADER_BYTES;
    for (size_t i = 0; i < n_tokens; i++, p += 4) sampler->history[i] = (plait_token)get(p, 4);
    sampler->history_length = n_tokens;
    sampler->history_next = n_tokens == sampler->history_capacity ? 0 : n_tokens;
    for (size_t i = 0; i < sampler->n_steps; i++) {
        if (!sampler->steps[i].kind->picked) continue;
        uint64_t bits = get(p, 8);
        memcpy(&sampler->steps[i].u.mirostat.mu, &bits, sizeof bits);
        p += 8;
    }
    sampler->started = true;
    return PLAIT_OK;
}
