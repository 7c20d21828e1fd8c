/* Random text for property tests, the same on every machine. */
#ifndef PLAIT_TESTS_SUPPORT_RANDOM_TEXT_H
#define PLAIT_TESTS_SUPPORT_RANDOM_TEXT_H

#include "base/utf8.h"

#include <stdint.h>
#include <string.h>

/* SplitMix64 (Steele, Lea, Flood 2014). */
static inline uint64_t random_next(uint64_t *state) {
    uint64_t z = *state += 0x9E3779B97F4A7C15u;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
    z = (z ^ z >> 27) * 0x94D049BB133111EBu;
    return z ^ z >> 31;
}

static inline uint32_t random_below(uint64_t *state, uint32_t n) {
    return (uint32_t)(random_next(state) % n);
}

/* A code point: mostly what text is made of, sometimes any of all planes. */
static inline uint32_t random_code(uint64_t *state) {
    static const struct {
        uint32_t first, last;
    } ranges[] = {
        {'a', 'z'},         {'a', 'z'},         {'A', 'Z'},         {' ', ' '},         {' ', ' '},
        {' ', ' '},         {'0', '9'},         {0x21, 0x7E},       {'\t', '\r'},       {0, 0x1F},
        {0x80, 0xFF},       {0x100, 0x24F},     {0x300, 0x36F},     {0x370, 0x52F},     {0x590, 0x6FF},
        {0x900, 0xDFF},     {0xE00, 0xE7F},     {0x1100, 0x11FF},   {0x1E00, 0x1FFF},   {0x2000, 0x206F},
        {0x2190, 0x25FF},   {0x3000, 0x30FF},   {0x4E00, 0x9FFF},   {0xAC00, 0xD7A3},   {0xE000, 0xFFFF},
        {0x10000, 0x1FFFF}, {0x1F300, 0x1FAFF}, {0x20000, 0x2FFFF}, {0x30000, 0x10FFFF}};
    uint32_t i = random_below(state, sizeof ranges / sizeof *ranges);
    uint32_t code = ranges[i].first + random_below(state, ranges[i].last - ranges[i].first + 1);
    return code >= 0xD800 && code <= 0xDFFF ? 'x' : code;
}

/* n_chars characters, some of them repeated; out needs 4 * n_chars bytes. Returns the bytes used. */
static inline size_t random_text(uint64_t *state, size_t n_chars, char *out) {
    size_t n = 0;
    uint32_t code = 'a';
    for (size_t i = 0; i < n_chars; i++) {
        if (random_below(state, 4)) code = random_code(state);
        n += plait_utf8_encode(code, out + n);
    }
    return n;
}

#endif
