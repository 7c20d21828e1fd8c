/* The byte letters. Invariant: letter_byte is the inverse of the scheme in letters.h. */
#include "text/tokenizer/letters.h"

#include "base/utf8.h"

/* The byte of a letter, or -1. */
static int letter_byte(uint32_t code) {
    if ((code >= 0x21 && code <= 0x7E) || (code >= 0xA1 && code <= 0xFF && code != 0xAD)) return (int)code;
    if (code < 0x100 || code >= 0x100 + 68) return -1;
    uint32_t i = code - 0x100;
    if (i < 33) return (int)i;               /* 00 .. 20 */
    if (i < 67) return (int)(0x7F + i - 33); /* 7F .. A0 */
    return 0xAD;
}

bool plait_tok_letters_decode(const char *text, size_t n, char *out, size_t *out_n) {
    size_t used = 0;
    for (size_t i = 0; i < n;) {
        uint32_t code;
        size_t length = plait_utf8_decode(text + i, n - i, &code);
        int byte = length ? letter_byte(code) : -1;
        if (byte < 0) return false;
        out[used++] = (char)byte;
        i += length;
    }
    *out_n = used;
    return true;
}
