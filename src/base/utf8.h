/* UTF-8 (RFC 3629), strict: overlong forms, surrogates and code points above U+10FFFF are invalid. Not here: what
 * stands for bytes that are no character, which differs (one U+FFFD a byte in JSON, one for each maximal part in a
 * detokenizer). Invariant: what decodes encodes to the same bytes, so text that was checked may be cut and joined at
 * character borders. */
#ifndef PLAIT_BASE_UTF8_H
#define PLAIT_BASE_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Decodes the character at p (n bytes are readable): returns its length 1..4 and sets *out_code, or returns 0
 * when the bytes are not valid UTF-8 or end too early. n == 0 returns 0. */
static inline size_t plait_utf8_decode(const void *bytes, size_t n, uint32_t *out_code) {
    const unsigned char *p = bytes;
    if (n == 0) return 0;
    uint32_t c = p[0];
    if (c < 0x80) return *out_code = c, 1;
    size_t length = c >= 0xF0 ? 4 : c >= 0xE0 ? 3 : 2;
    if (c < 0xC2 || c > 0xF4 || n < length) return 0;
    c &= 0x7Fu >> length;
    for (size_t i = 1; i < length; i++) {
        if ((p[i] & 0xC0) != 0x80) return 0;
        c = c << 6 | (p[i] & 0x3Fu);
    }
    if ((length == 3 && (c < 0x800 || (c >= 0xD800 && c <= 0xDFFF))) ||
        (length == 4 && (c < 0x10000 || c > 0x10FFFF)))
        return 0;
    *out_code = c;
    return length;
}

/* Writes the UTF-8 form of a valid code point (up to 4 bytes, no NUL) and returns its length. */
static inline size_t plait_utf8_encode(uint32_t code, char *out) {
    if (code < 0x80) return out[0] = (char)code, 1;
    if (code < 0x800) return out[0] = (char)(0xC0 | code >> 6), out[1] = (char)(0x80 | (code & 0x3F)), 2;
    if (code < 0x10000) {
        out[0] = (char)(0xE0 | code >> 12);
        out[1] = (char)(0x80 | (code >> 6 & 0x3F));
        out[2] = (char)(0x80 | (code & 0x3F));
        return 3;
    }
    out[0] = (char)(0xF0 | code >> 18);
    out[1] = (char)(0x80 | (code >> 12 & 0x3F));
    out[2] = (char)(0x80 | (code >> 6 & 0x3F));
    out[3] = (char)(0x80 | (code & 0x3F));
    return 4;
}

/* True when all n bytes are valid UTF-8. */
static inline bool plait_utf8_valid(const void *bytes, size_t n) {
    const unsigned char *p = bytes;
    for (size_t i = 0; i < n;) {
        uint32_t code;
        size_t used = plait_utf8_decode(p + i, n - i, &code);
        if (!used) return false;
        i += used;
    }
    return true;
}

#endif
