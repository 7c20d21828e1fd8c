/* Unicode normalisation: canonical decomposition and NFC (UAX #15), with the tables of utf8proc. Not here: the
 * compatibility forms; models that want those bring a map of their own (unigram.c).
 *
 * utf8proc's own loop sorts combining marks by exchanging neighbours, which is quadratic in a long run of them; here
 * long runs are sorted by counting, so that everything is linear. Composing is utf8proc's.
 *
 * Invariant: text that is in NFC comes back as the same pointer, and in one pass over its bytes. */
#include "base/alloc.h"
#include "base/utf8.h"
#include "text/tokenizer/internal.h"

#include <string.h>
#include <utf8proc.h>

/* No character decomposes canonically into more than four; utf8proc is told the room and refuses more. */
enum { LONGEST_DECOMPOSITION = 8, SHORT_RUN = 16 };

static int class_of(int32_t code) {
    return utf8proc_get_property(code)->combining_class;
}

/* Stable, in place: most runs have one or two marks. */
static void sort_short(int32_t *run, size_t n) {
    for (size_t i = 1; i < n; i++) {
        int32_t code = run[i];
        int class = class_of(code);
        size_t j = i;
        for (; j > 0 && class_of(run[j - 1]) > class; j--) run[j] = run[j - 1];
        run[j] = code;
    }
}

/* Stable, by counting: linear however long the run. */
static plait_status sort_long(plait_tokenizer_scratch *s, int32_t *run, size_t n) {
    PLAIT_TRY(
        plait_grow(&s->sorted, &s->sorted_capacity, n, sizeof *s->sorted, SIZE_MAX / 16, "combining marks"));
    size_t start[257] = {0};
    for (size_t i = 0; i < n; i++) start[class_of(run[i]) + 1]++;
    for (size_t c = 1; c <= 256; c++) start[c] += start[c - 1];
    for (size_t i = 0; i < n; i++) s->sorted[start[class_of(run[i])]++] = run[i];
    memcpy(run, s->sorted, n * sizeof *run);
    return PLAIT_OK;
}

/* Canonical order: each run of marks stably by combining class. Below U+0300 nothing combines, which saves the look
 * into the tables for most text. */
static plait_status order_marks(plait_tokenizer_scratch *s, size_t n) {
    for (size_t i = 0; i < n;) {
        if (s->codes[i] < 0x300 || class_of(s->codes[i]) == 0) {
            i++;
            continue;
        }
        size_t end = i + 1;
        while (end < n && class_of(s->codes[end]) != 0) end++;
        if (end - i <= SHORT_RUN)
            sort_short(s->codes + i, end - i);
        else
            PLAIT_TRY(sort_long(s, s->codes + i, end - i));
        i = end;
    }
    return PLAIT_OK;
}

/* Below U+00C0 nothing decomposes. Room is made for the longest decomposition each time, so the call into utf8proc
 * cannot write past the end. */
plait_status plait_tok_decompose(plait_tokenizer_scratch *s, const char *text, uint32_t n_bytes,
                                 size_t *out_n) {
    size_t n = 0;
    for (uint32_t at = 0; at < n_bytes;) {
        uint32_t code;
        size_t length = plait_utf8_decode(text + at, n_bytes - at, &code);
        if (!length) return plait_error(PLAIT_INTERNAL, "tokenizer: normalising bytes that are not UTF-8");
        PLAIT_TRY(plait_grow(&s->codes, &s->codes_capacity, n + LONGEST_DECOMPOSITION, sizeof *s->codes,
                             SIZE_MAX / 16, "code points"));
        at += (uint32_t)length;
        if (code < 0xC0) {
            s->codes[n++] = (int32_t)code;
            continue;
        }
        int boundary = 0;
        utf8proc_ssize_t used = utf8proc_decompose_char((int32_t)code, s->codes + n, LONGEST_DECOMPOSITION,
                                                        UTF8PROC_STABLE | UTF8PROC_DECOMPOSE, &boundary);
        if (used < 0 || used > LONGEST_DECOMPOSITION) {
            s->codes[n] = (int32_t)code;
            used = 1;
        }
        n += (size_t)used;
    }
    *out_n = n;
    return order_marks(s, n);
}

/* False only for characters that stay as they are in NFC, whatever stands beside them. */
static bool may_change(uint32_t code) {
    if (code < 0x300) return false;
    /* Scripts in everyday use, all of whose letters in these ranges are composed already. */
    if ((code >= 0x400 && code < 0x483) || (code >= 0x3400 && code < 0xA000) ||
        (code >= 0x3041 && code < 0x3097) || (code >= 0x309B && code < 0x3100) ||
        (code >= 0xAC00 && code < 0xD7A4))
        return false;
    const utf8proc_property_t *p = utf8proc_get_property((int32_t)code);
    if (p->category == UTF8PROC_CATEGORY_MN || p->category == UTF8PROC_CATEGORY_MC ||
        p->category == UTF8PROC_CATEGORY_ME)
        return true;
    if (code >= 0x1100 && code < 0x1200) return true; /* Hangul in parts */
    int32_t parts[LONGEST_DECOMPOSITION];
    int boundary = 0;
    return utf8proc_decompose_char((int32_t)code, parts, LONGEST_DECOMPOSITION,
                                   UTF8PROC_STABLE | UTF8PROC_DECOMPOSE, &boundary) != 1 ||
           parts[0] != (int32_t)code;
}

/* A character that may change is enough for the whole way, since marks compose with what stands before them. Composing
 * works in place and only shortens. */
plait_status plait_tok_nfc(plait_tokenizer_scratch *s, const char **text, uint32_t *n_bytes) {
    bool change = false;
    for (uint32_t at = 0; at < *n_bytes && !change;) {
        uint32_t code = (unsigned char)(*text)[at];
        if (code < 0x80) {
            at++;
            continue;
        }
        at += (uint32_t)plait_utf8_decode(*text + at, *n_bytes - at, &code);
        change = may_change(code);
    }
    if (!change) return PLAIT_OK;
    size_t n;
    PLAIT_TRY(plait_tok_decompose(s, *text, *n_bytes, &n));
    utf8proc_ssize_t composed =
        utf8proc_normalize_utf32(s->codes, (utf8proc_ssize_t)n, UTF8PROC_STABLE | UTF8PROC_COMPOSE);
    if (composed < 0) return plait_error(PLAIT_INTERNAL, "tokenizer: composing %zu code points failed", n);
    PLAIT_TRY(plait_tok_bytes_reserve(&s->normal, 4 * (size_t)composed));
    size_t used = 0;
    for (utf8proc_ssize_t i = 0; i < composed; i++)
        used += plait_utf8_encode((uint32_t)s->codes[i], s->normal.bytes + used);
    *text = s->normal.bytes;
    *n_bytes = (uint32_t)used;
    return PLAIT_OK;
}
