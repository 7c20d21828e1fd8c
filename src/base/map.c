/* The hash map: open addressing, linear probing. Not here: removal, which nobody needs, and which probing without
 * tombstones would not survive. Invariant: at least a quarter of the slots is free, so probing ends. */
#include "base/map.h"

#include "base/alloc.h"
#include "base/size.h"

#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

/* 64x64 -> 128 bit multiply, halves folded: the mixer of the wyhash family. Both halves of the product depend on all
 * bits of both factors, which a multiplication alone does not give. */
static uint64_t fold(uint64_t a, uint64_t b) {
    __extension__ typedef unsigned __int128 wide;
    wide r = (wide)a * b;
    return (uint64_t)r ^ (uint64_t)(r >> 64);
}

/* Compilers make one load of these. */
static uint64_t load4(const unsigned char *p) {
    return (uint64_t)p[0] | (uint64_t)p[1] << 8 | (uint64_t)p[2] << 16 | (uint64_t)p[3] << 24;
}

static uint64_t load8(const unsigned char *p) {
    return load4(p) | (uint64_t)p[4] << 32 | (uint64_t)p[5] << 40 | (uint64_t)p[6] << 48 |
           (uint64_t)p[7] << 56;
}

/* n < 8 bytes, the first one lowest. */
static uint64_t load_rest(const unsigned char *p, size_t n) {
    size_t at = n & 4;
    uint64_t v = at ? load4(p) : 0;
    for (; at < n; at++) v |= (uint64_t)p[at] << (8 * at);
    return v;
}

/* The length goes into the start value, so that "a" and "a\0" differ; the two loads at the end cover the last 0 to 15
 * bytes, zeros behind them. Constants are odd and of mixed bits; those of the loop are from wyhash. The same on every
 * machine for one seed, as bytes are loaded in a fixed order; nothing that is stored depends on it all the same, since
 * seeds are random. No defence against someone who knows the seed. */
uint64_t plait_hash_bytes(const void *bytes, size_t n, uint64_t seed) {
    const unsigned char *p = bytes;
    uint64_t h = seed ^ fold(n + 0x9E3779B97F4A7C15u, 0xD6E8FEB86659FD93u);
    size_t left = n;
    for (; left >= 16; p += 16, left -= 16) h = fold(load8(p) ^ 0xA0761D6478BD642Fu, load8(p + 8) ^ h);
    uint64_t a = left < 8 ? load_rest(p, left) : load8(p);
    uint64_t b = left > 8 ? load_rest(p + 8, left - 8) : 0;
    return fold(a ^ 0xE7037ED1A0B428DBu ^ h, b ^ 0x8EBC6AF09C88C6E3u);
}

void plait_map_init(plait_map *map) {
    *map = (plait_map){0};
}

void plait_map_deinit(plait_map *map) {
    free(map->slots);
    plait_map_init(map);
}

/* The slot that holds the key, or the free one where it belongs. n_slots is a power of two; the hash is compared first,
 * so bytes of other keys are seldom touched. `slots` has a free one, or this would not end. */
static plait_map_slot *find_slot(plait_map_slot *slots, size_t n_slots, const void *key, size_t key_bytes,
                                 uint32_t hash) {
    for (size_t i = hash & (n_slots - 1);; i = (i + 1) & (n_slots - 1)) {
        plait_map_slot *slot = &slots[i];
        if (!slot->key) return slot;
        if (slot->hash == hash && slot->key_bytes == key_bytes && memcmp(slot->key, key, key_bytes) == 0)
            return slot;
    }
}

static uint32_t hash_key(const plait_map *map, const void *key, size_t key_bytes) {
    return (uint32_t)plait_hash_bytes(key, key_bytes, map->seed);
}

/* Moves all keys to a table of n_slots. On failure the old table stands. Hashes are kept in the slots, so no key is
 * read. */
static plait_status rebuild(plait_map *map, size_t n_slots) {
    plait_map_slot *slots = plait_alloc_array(n_slots, sizeof *slots);
    if (!slots) return plait_error_memory("hash map", n_slots * sizeof *slots);
    for (size_t i = 0; i < map->n_slots; i++) {
        plait_map_slot *old = &map->slots[i];
        if (old->key) *find_slot(slots, n_slots, old->key, old->key_bytes, old->hash) = *old;
    }
    free(map->slots);
    map->slots = slots;
    map->n_slots = n_slots;
    return PLAIT_OK;
}

/* The seed is drawn with the first table, not at init, which cannot fail and may serve a map that stays empty. Without
 * a seed an attacker who chooses the tokens of a vocabulary could make every look-up walk the whole table. Room for n
 * keys in all. Never shrinks. The table doubles when three quarters are used. */
plait_status plait_map_reserve(plait_map *map, size_t n) {
    if (n > UINT32_MAX / 2)
        return plait_error(PLAIT_LIMIT, "hash map: %zu keys, at most %u", n, UINT32_MAX / 2);
    if (!map->slots && getrandom(&map->seed, sizeof map->seed, GRND_NONBLOCK) != sizeof map->seed)
        map->seed = (uint64_t)(uintptr_t)map; /* early boot: some variation is better than none */
    size_t n_slots = map->n_slots ? map->n_slots : 16;
    while (n_slots / 4 * 3 < n) n_slots *= 2;
    return n_slots == map->n_slots ? PLAIT_OK : rebuild(map, n_slots);
}

/* The key's bytes are borrowed and must stay where they are as long as the map. Of equal keys the last value counts,
 * under the first key's bytes. Failure leaves the map as it was. */
plait_status plait_map_put(plait_map *map, const void *key, size_t key_bytes, uint32_t value,
                           bool *out_existed) {
    if (key_bytes > UINT32_MAX) return plait_error(PLAIT_LIMIT, "hash map: a key of %zu bytes", key_bytes);
    if (!key) key = ""; /* an empty key may be NULL, but NULL marks a free slot */
    uint32_t hash = hash_key(map, key, key_bytes);
    plait_map_slot *slot = map->slots ? find_slot(map->slots, map->n_slots, key, key_bytes, hash) : NULL;
    bool existed = slot && slot->key; /* replacing needs no room and cannot fail */
    if (!existed) {
        const plait_map_slot *before = map->slots;
        PLAIT_TRY(plait_map_reserve(map, map->n_used + 1));
        if (!before) hash = hash_key(map, key, key_bytes); /* the first room brings the seed */
        if (map->slots != before) slot = find_slot(map->slots, map->n_slots, key, key_bytes, hash);
        *slot = (plait_map_slot){.key = key, .key_bytes = (uint32_t)key_bytes, .hash = hash};
        map->n_used++;
    }
    slot->value = value;
    if (out_existed) *out_existed = existed;
    return PLAIT_OK;
}

bool plait_map_get(const plait_map *map, const void *key, size_t key_bytes, uint32_t *out_value) {
    if (!map->slots || key_bytes > UINT32_MAX) return false;
    if (!key) key = "";
    const plait_map_slot *slot =
        find_slot(map->slots, map->n_slots, key, key_bytes, hash_key(map, key, key_bytes));
    if (!slot->key) return false;
    *out_value = slot->value;
    return true;
}
