/* Strings. Not here: what filters and methods make of them, and repr (print.c). Invariant: bytes are valid UTF-8 and
 * n_chars is their number of characters; a string that is a window onto a chunk never sees bytes that are added behind
 * it.
 *
 * Marks cost a byte for each byte, so they exist only where origins are mixed: a chunk begins with one origin for all
 * and gets marks with the first byte of the other.
 *
 * Four ways lead to a string: a builder (text made piece by piece), borrow (bytes of the template or the variables, not
 * copied), sub (a window onto another string) and concat (which may lengthen the left one's chunk in place). All give
 * the same kind of value, and nothing outside can tell them apart. */
#include "text/template/string.h"

#include "base/size.h"
#include "base/utf8.h"
#include "text/template/unicode_tables.h"

#include <string.h>
#include <utf8proc.h>

enum { SLACK_FROM = 256 }; /* strings this long get room to grow when they are joined */

/* --- building --- */

/* Takes no memory before the first byte. */
void plait_tpl_builder_init(plait_tpl_builder *b, plait_tpl_render *r) {
    *b = (plait_tpl_builder){.r = r};
}

/* Room for n bytes more. A chunk that moves leaves its old bytes behind in the arena, where strings that look onto them
 * stay right. Failure leaves the chunk as it was. A quarter of SIZE_MAX as the bound keeps doubling from wrapping. */
static bool reserve_chunk(plait_tpl_render *r, plait_tpl_chunk *c, size_t n) {
    size_t needed;
    if (!plait_add_size(c->used, n, &needed) || needed > SIZE_MAX / 4)
        return plait_tpl_fail(r, PLAIT_LIMIT, "a string beyond the limit of %zu bytes", (size_t)SIZE_MAX / 4);
    if (needed <= c->capacity) return true;
    /* Doubling: a byte is moved once on average. */
    size_t capacity = c->capacity < 24 ? 48 : c->capacity * 2;
    if (capacity < needed) capacity = needed;
    char *bytes = plait_tpl_alloc(r, capacity, 1);
    uint8_t *marks = c->marks ? plait_tpl_alloc(r, capacity, 1) : NULL;
    if (!bytes || (c->marks && !marks)) return false;
    if (c->used) memcpy(bytes, c->bytes, c->used);
    if (marks && c->used) memcpy(marks, c->marks, c->used);
    c->bytes = bytes;
    c->marks = marks;
    c->capacity = capacity;
    return true;
}

/* Gives a chunk marks of its own, all as its common origin so far. */
static bool mark_chunk(plait_tpl_render *r, plait_tpl_chunk *c) {
    if (c->marks) return true;
    if (!(c->marks = plait_tpl_alloc(r, c->capacity, 1))) return false;
    if (c->used) memset(c->marks, c->foreign, c->used);
    return true;
}

/* marks NULL: all n bytes are as `foreign` says. Every 64 bytes moved count a step. A step is charged before memory is
 * taken, so a template that doubles a string in a loop ends at whichever limit comes first. */
static bool append(plait_tpl_render *r, plait_tpl_chunk *c, const char *bytes, const uint8_t *marks, size_t n,
                   uint8_t foreign) {
    if (n == 0) return true;
    if (!plait_tpl_step(r, n >> 6) || !reserve_chunk(r, c, n)) return false;
    /* The first bytes decide what an unmarked chunk is. */
    if (c->used == 0 && !c->marks) c->foreign = foreign;
    if ((marks || c->foreign != foreign) && !mark_chunk(r, c)) return false;
    memcpy(c->bytes + c->used, bytes, n);
    if (marks)
        memcpy(c->marks + c->used, marks, n);
    else if (c->marks)
        memset(c->marks + c->used, foreign, n);
    c->used += n;
    return true;
}

/* Failure is sticky in the builder. max_bytes is the limit on output, which only the outermost builder has. The limit
 * on output is looked at after the bytes were added: text may exceed it by one piece for a moment, and is then thrown
 * away whole. */
static void put_marked(plait_tpl_builder *b, const char *bytes, const uint8_t *marks, size_t n,
                       uint8_t foreign) {
    if (b->failed) return;
    b->failed = !append(b->r, &b->chunk, bytes, marks, n, foreign);
    if (b->max_bytes && !b->failed && b->chunk.used > b->max_bytes)
        b->failed =
            !plait_tpl_fail(b->r, PLAIT_LIMIT, "output longer than the limit of %zu bytes", b->max_bytes);
}

void plait_tpl_put(plait_tpl_builder *b, const char *bytes, size_t n, uint8_t foreign) {
    put_marked(b, bytes, NULL, n, foreign);
}

void plait_tpl_put_text(plait_tpl_builder *b, const char *text, uint8_t foreign) {
    put_marked(b, text, NULL, strlen(text), foreign);
}

/* Bytes [from, to), with the marks they have. */
void plait_tpl_put_slice(plait_tpl_builder *b, const plait_tpl_str *s, size_t from, size_t to) {
    put_marked(b, s->bytes + from, s->marks ? s->marks + from : NULL, to - from, s->foreign);
}

void plait_tpl_put_str(plait_tpl_builder *b, const plait_tpl_str *s) {
    plait_tpl_put_slice(b, s, 0, s->n_bytes);
}

/* `code` must be a character: no surrogate, at most U+10FFFF. */
void plait_tpl_put_code(plait_tpl_builder *b, uint32_t code, uint8_t foreign) {
    char bytes[4];
    plait_tpl_put(b, bytes, plait_utf8_encode(code, bytes), foreign);
}

/* In blocks of up to 64 bytes, each charged, since n comes from the template: a width of 10^9 must not be free. n below
 * 1 puts nothing, which is what padding of a text that is long enough asks for. */
void plait_tpl_put_repeat(plait_tpl_builder *b, uint32_t code, int64_t n, uint8_t foreign) {
    char block[64];
    size_t each = plait_utf8_encode(code, block), filled = each;
    while (filled + each <= sizeof block) memcpy(block + filled, block, each), filled += each;
    int64_t a_block = (int64_t)(filled / each);
    while (n > 0 && !b->failed) {
        int64_t now = n < a_block ? n : a_block;
        if (!plait_tpl_step(b->r, 1)) b->failed = true;
        plait_tpl_put(b, block, (size_t)now * each, foreign);
        n -= now;
    }
}

/* Bytes that begin a character: the text is valid. */
static size_t count_chars(const char *bytes, size_t n) {
    size_t chars = 0;
    for (size_t i = 0; i < n; i++) chars += ((unsigned char)bytes[i] & 0xC0) != 0x80;
    return chars;
}

/* The string looks onto the builder's chunk, without a copy; the builder must not be used afterwards. A string without
 * bytes has a pointer all the same. The result has no home and so cannot be lengthened in place: the chunk lies in the
 * builder, which may stand on the stack. */
bool plait_tpl_finish_str(plait_tpl_builder *b, const plait_tpl_str **out) {
    if (b->failed || b->r->status != PLAIT_OK) return false;
    plait_tpl_str *s = plait_tpl_alloc(b->r, 1, sizeof *s);
    if (!s) return false;
    const plait_tpl_chunk *c = &b->chunk;
    s->bytes = c->bytes ? c->bytes : "";
    s->marks = c->marks;
    s->n_bytes = c->used;
    s->n_chars = count_chars(s->bytes, s->n_bytes);
    s->foreign = c->foreign;
    *out = s;
    return true;
}

bool plait_tpl_finish(plait_tpl_builder *b, plait_tpl_value *out) {
    const plait_tpl_str *s;
    if (!plait_tpl_finish_str(b, &s)) return false;
    *out = plait_tpl_string(s);
    return true;
}

/* The bytes must be valid UTF-8. */
bool plait_tpl_str_borrow(plait_tpl_render *r, const char *bytes, size_t n, uint8_t foreign,
                          plait_tpl_value *out) {
    plait_tpl_str *s = plait_tpl_alloc(r, 1, sizeof *s);
    if (!s) return false;
    *s = (plait_tpl_str){.bytes = bytes, .n_bytes = n, .n_chars = count_chars(bytes, n), .foreign = foreign};
    *out = plait_tpl_string(s);
    return true;
}

/* A copy, of the template's origin. */
bool plait_tpl_str_text(plait_tpl_render *r, const char *text, plait_tpl_value *out) {
    plait_tpl_builder b;
    plait_tpl_builder_init(&b, r);
    plait_tpl_put_text(&b, text, 0);
    return plait_tpl_finish(&b, out);
}

/* Shares the bytes and the marks; has no home, for it may not grow over what follows it. The borders are those of
 * characters. */
bool plait_tpl_str_sub(plait_tpl_render *r, const plait_tpl_str *s, size_t from_byte, size_t to_byte,
                       plait_tpl_value *out) {
    if (from_byte == 0 && to_byte == s->n_bytes) return *out = plait_tpl_string(s), true;
    plait_tpl_str *part = plait_tpl_alloc(r, 1, sizeof *part);
    if (!part || !plait_tpl_step(r, (to_byte - from_byte) >> 6)) return false;
    /* Markup and the common origin go along. */
    *part = *s;
    part->bytes = s->bytes + from_byte;
    part->marks = s->marks ? s->marks + from_byte : NULL;
    part->n_bytes = to_byte - from_byte;
    part->n_chars = count_chars(part->bytes, part->n_bytes);
    part->home = NULL;
    *out = plait_tpl_string(part);
    return true;
}

/* The chunk to which b can be appended so that it continues a: a's own when a ends where the chunk ends. Where two
 * strings continue the same one, only the first finds the chunk ending there; the second copies. Short strings get no
 * room to grow, because most of them are joined once. Twice the length for longer ones makes n joins in a loop cost
 * O(n) copied bytes instead of O(n^2), as templates build a prompt from messages. */
static plait_tpl_chunk *chunk_for(plait_tpl_render *r, const plait_tpl_str *a, const plait_tpl_str *b,
                                  size_t *start) {
    if (a->home && a->bytes + a->n_bytes == a->home->bytes + a->home->used &&
        a->home->capacity - a->home->used >= b->n_bytes) {
        *start = (size_t)(a->bytes - a->home->bytes);
        return a->home;
    }
    plait_tpl_chunk *c = plait_tpl_alloc(r, 1, sizeof *c);
    size_t total;
    if (!c) return NULL;
    if (!plait_add_size(a->n_bytes, b->n_bytes, &total) ||
        !reserve_chunk(r, c, total >= SLACK_FROM ? total * 2 : total))
        return NULL;
    *start = 0;
    return append(r, c, a->bytes, a->marks, a->n_bytes, a->foreign) ? c : NULL;
}

/* Joining in a loop is linear in all, as long as each result is only joined to its successor. Marks of `a` stay its own
 * even when the chunk gets some: what a says of its bytes is still true. An empty side gives the other one back as it
 * is, its markup included; callers that must not keep it take the flag off. */
bool plait_tpl_str_concat(plait_tpl_render *r, const plait_tpl_str *a, const plait_tpl_str *b,
                          plait_tpl_value *out) {
    if (b->n_bytes == 0) return *out = plait_tpl_string(a), true;
    if (a->n_bytes == 0) return *out = plait_tpl_string(b), true;
    size_t start;
    plait_tpl_chunk *c = chunk_for(r, a, b, &start);
    plait_tpl_str *s = plait_tpl_alloc(r, 1, sizeof *s);
    if (!c || !s || !append(r, c, b->bytes, b->marks, b->n_bytes, b->foreign)) return false;
    *s = (plait_tpl_str){.bytes = c->bytes + start,
                         .marks = c->marks ? c->marks + start : NULL,
                         .n_bytes = a->n_bytes + b->n_bytes,
                         .n_chars = a->n_chars + b->n_chars,
                         .home = c,
                         .foreign = c->foreign};
    *out = plait_tpl_string(s);
    return true;
}

/* A copy of the header, 48 bytes; the text is shared. */
bool plait_tpl_str_with_markup(plait_tpl_render *r, const plait_tpl_str *s, bool markup,
                               plait_tpl_value *out) {
    *out = plait_tpl_string(s);
    if (s->markup == markup) return true;
    plait_tpl_str *copy = plait_tpl_alloc(r, 1, sizeof *copy);
    if (!copy) return false;
    *copy = *s;
    copy->markup = markup;
    *out = plait_tpl_string(copy);
    return true;
}

/* --- looking --- */

/* By bytes: neither marks nor markup make a difference, so a key from the variables finds one of the template. */
bool plait_tpl_str_equal(const plait_tpl_str *a, const plait_tpl_str *b) {
    return a == b ||
           (a->n_bytes == b->n_bytes && (a->n_bytes == 0 || memcmp(a->bytes, b->bytes, a->n_bytes) == 0));
}

/* For names that the program knows. */
bool plait_tpl_str_is(const plait_tpl_str *s, const char *text) {
    return strlen(text) == s->n_bytes && memcmp(text, s->bytes, s->n_bytes) == 0;
}

/* Order of bytes is order of code points in UTF-8. */
int plait_tpl_str_compare(const plait_tpl_str *a, const plait_tpl_str *b) {
    size_t n = a->n_bytes < b->n_bytes ? a->n_bytes : b->n_bytes;
    int c = n ? memcmp(a->bytes, b->bytes, n) : 0;
    if (c) return c < 0 ? -1 : 1;
    return a->n_bytes < b->n_bytes ? -1 : a->n_bytes > b->n_bytes;
}

/* Searching for long parts rolls a hash over the text (Rabin and Karp), so that no text makes it quadratic. */
static const uint64_t HASH_PRIME = 0x1FFFFFFFFFFFFFFFu; /* 2^61 - 1 */

/* Multiplication modulo 2^61 - 1 in 64-bit pieces: 31-bit halves, whose products fit, and 2^61 = 1. */
static uint64_t times(uint64_t a, uint64_t b) {
    uint64_t ah = a >> 31, al = a & 0x7FFFFFFF, bh = b >> 31, bl = b & 0x7FFFFFFF;
    uint64_t mid = ah * bl + al * bh; /* below 2^62 */
    /* 2^62 is 2 modulo 2^61 - 1, so the high product counts twice; the middle one is cut at bit 30 to be shifted by
     * 31. */
    uint64_t sum = ah * bh * 2 + (mid >> 30) + ((mid & 0x3FFFFFFF) << 31) + al * bl;
    sum = (sum & HASH_PRIME) + (sum >> 61);
    return sum >= HASH_PRIME ? sum - HASH_PRIME : sum;
}

/* + 1, so that a byte 0 changes the hash as well. */
static uint64_t roll(uint64_t hash, unsigned char in) {
    uint64_t h = times(hash, 1000003) + in + 1;
    return h >= HASH_PRIME ? h - HASH_PRIME : h;
}

/* Search among windows of m bytes, from the front or from the back. The hash of a window is taken in the direction of
 * travel reversed, so that the byte that leaves is always the oldest. The base is fixed, so collisions could be made;
 * each costs one comparison of m bytes, which the step count of the caller does not see, and no wrong result. O(n + m)
 * for every text. Windows are compared by bytes when hashes agree, so the hash only saves work and is never trusted. */
static size_t find_long(const char *text, size_t n, const char *part, size_t m, bool backwards) {
    uint64_t wanted = 0, hash = 0, oldest = 1;
    for (size_t i = 0; i < m; i++) {
        wanted = roll(wanted, (unsigned char)part[backwards ? m - 1 - i : i]);
        hash = roll(hash, (unsigned char)text[backwards ? n - 1 - i : i]);
        oldest = times(oldest, 1000003);
    }
    /* `done`: windows passed. n >= m holds, so the first window is whole. */
    for (size_t done = 0;; done++) {
        size_t at = backwards ? n - m - done : done;
        if (hash == wanted && memcmp(text + at, part, m) == 0) return at;
        if (done + m == n) return SIZE_MAX;
        unsigned char out = (unsigned char)text[backwards ? n - 1 - done : done];
        hash = roll(hash, (unsigned char)text[backwards ? n - 1 - done - m : done + m]);
        /* The prime first, so that the difference stays positive. */
        hash = hash + HASH_PRIME - times(oldest, (uint64_t)out + 1);
        if (hash >= HASH_PRIME) hash -= HASH_PRIME;
    }
}

enum { LONG_PART = 32 };

/* Short parts by memchr and comparison: at most 32 comparisons for each byte. SIZE_MAX when it is not there or when
 * from > to. Bytes are enough: in UTF-8 no character is part of another one, so a match of valid text always begins at
 * the border of a character. */
size_t plait_tpl_str_find(const plait_tpl_str *s, const plait_tpl_str *part, size_t from, size_t to) {
    if (from > to || part->n_bytes > to - from) return SIZE_MAX;
    if (part->n_bytes == 0) return from;
    if (part->n_bytes > LONG_PART) {
        size_t at = find_long(s->bytes + from, to - from, part->bytes, part->n_bytes, false);
        return at == SIZE_MAX ? at : from + at;
    }
    /* The last place where the part fits. */
    const char *end = s->bytes + to - part->n_bytes;
    for (const char *p = s->bytes + from; p <= end; p++) {
        p = memchr(p, part->bytes[0], (size_t)(end - p) + 1);
        if (!p) break;
        if (memcmp(p, part->bytes, part->n_bytes) == 0) return (size_t)(p - s->bytes);
    }
    return SIZE_MAX;
}

/* An empty part is found at `to`. Short parts are compared at each place without memrchr, which is no part of POSIX. */
size_t plait_tpl_str_rfind(const plait_tpl_str *s, const plait_tpl_str *part, size_t from, size_t to) {
    if (from > to || part->n_bytes > to - from) return SIZE_MAX;
    if (part->n_bytes > LONG_PART) {
        size_t at = find_long(s->bytes + from, to - from, part->bytes, part->n_bytes, true);
        return at == SIZE_MAX ? at : from + at;
    }
    /* at >= from at first, so the loop ends before it would wrap. */
    for (size_t at = to - part->n_bytes;; at--) {
        if (part->n_bytes == 0 || memcmp(s->bytes + at, part->bytes, part->n_bytes) == 0) return at;
        if (at == from) return SIZE_MAX;
    }
}

/* Strings of ASCII, which most are, need no counting; others are walked from the front, and callers charge for it. A
 * position beyond the end gives the end, so a caller may pass the end of a slice unchecked. */
size_t plait_tpl_str_byte_of(const plait_tpl_str *s, size_t n) {
    if (s->n_chars == s->n_bytes || n == 0) return n;
    if (n >= s->n_chars) return s->n_bytes;
    size_t at = 0;
    while (n > 0)
        if (((unsigned char)s->bytes[++at] & 0xC0) != 0x80) n--;
    return at;
}

/* The number of characters in front of a byte. */
size_t plait_tpl_str_char_of(const plait_tpl_str *s, size_t byte) {
    return s->n_chars == s->n_bytes ? byte : count_chars(s->bytes, byte);
}

/* 1 for text that came with the variables, 0 for the template's. */
uint8_t plait_tpl_str_mark(const plait_tpl_str *s, size_t byte) {
    return s->marks ? s->marks[byte] : s->foreign;
}

/* An empty string came from nowhere. */
uint8_t plait_tpl_str_any_foreign(const plait_tpl_str *s) {
    if (s->n_bytes == 0) return 0;
    return s->marks ? memchr(s->marks, 1, s->n_bytes) != NULL : s->foreign;
}

/* Moves *at on by the character; U+FFFD and one byte for what is none, which valid text does not have. */
uint32_t plait_tpl_str_next(const plait_tpl_str *s, size_t *at) {
    uint32_t code = 0xFFFD;
    size_t used = plait_utf8_decode(s->bytes + *at, s->n_bytes - *at, &code);
    *at += used ? used : 1;
    return code;
}

/* *at is above 0 and at the border of a character. */
uint32_t plait_tpl_str_prev(const plait_tpl_str *s, size_t *at) {
    size_t from = *at;
    do from--;
    while (from > 0 && ((unsigned char)s->bytes[from] & 0xC0) == 0x80);
    *at = from;
    return plait_tpl_str_next(s, &from);
}

/* Linear: sets for strip are a few characters. */
static bool has_code(const plait_tpl_str *chars, uint32_t code) {
    for (size_t at = 0; at < chars->n_bytes;)
        if (plait_tpl_str_next(chars, &at) == code) return true;
    return false;
}

/* Each character looked at costs as much as the set of characters is long. `chars` NULL strips white space. An
 * all-white string ends as an empty window, for the second loop never goes back over `from`. */
bool plait_tpl_str_strip(plait_tpl_render *r, const plait_tpl_str *s, const plait_tpl_str *chars, bool left,
                         bool right, plait_tpl_value *out) {
    size_t from = 0, to = s->n_bytes;
    uint64_t cost = chars ? chars->n_bytes : 1;
    while (left && from < to) {
        size_t next = from;
        uint32_t code = plait_tpl_str_next(s, &next);
        if (chars ? !has_code(chars, code) : !plait_tpl_is_space(code)) break;
        from = next;
        if (!plait_tpl_step(r, cost >> 6)) return false;
    }
    while (right && to > from) {
        size_t previous = to;
        uint32_t code = plait_tpl_str_prev(s, &previous);
        if (chars ? !has_code(chars, code) : !plait_tpl_is_space(code)) break;
        to = previous;
        if (!plait_tpl_step(r, cost >> 6)) return false;
    }
    return plait_tpl_step(r, (s->n_bytes - (to - from)) >> 6) && plait_tpl_str_sub(r, s, from, to, out);
}

/* The line ends of Python's str.splitlines, not only \n; "\r\n" is one. Returns the end of the line's text; *next is
 * where the following line begins. Both are n_bytes in the last line, even without a line end there, so callers loop
 * while at < n_bytes. */
size_t plait_tpl_str_line_end(const plait_tpl_str *s, size_t at, size_t *next) {
    while (at < s->n_bytes) {
        size_t after = at;
        uint32_t c = plait_tpl_str_next(s, &after);
        bool ends =
            (c >= 0x0A && c <= 0x0D) || (c >= 0x1C && c <= 0x1E) || c == 0x85 || c == 0x2028 || c == 0x2029;
        if (ends) {
            *next = after + (c == '\r' && after < s->n_bytes && s->bytes[after] == '\n');
            return at;
        }
        at = after;
    }
    *next = s->n_bytes;
    return s->n_bytes;
}

/* Matches do not overlap and are found from the left. An empty `old` matches before every character and at the end, as
 * in Python. count below 0 means all. The result has no markup of its own: callers decide what it is. */
bool plait_tpl_str_replace(plait_tpl_render *r, const plait_tpl_str *s, const plait_tpl_str *old,
                           const plait_tpl_str *with, int64_t count, plait_tpl_value *out) {
    plait_tpl_builder b;
    plait_tpl_builder_init(&b, r);
    size_t done = 0, at = 0;
    if (count < 0) count = INT64_MAX;
    while (count-- > 0 && !b.failed) {
        at = plait_tpl_str_find(s, old, at, s->n_bytes);
        if (at == SIZE_MAX) break;
        plait_tpl_put_slice(&b, s, done, at);
        plait_tpl_put_str(&b, with);
        if (!plait_tpl_step(r, 1)) return false;
        done = at + old->n_bytes;
        at = done;
        if (old->n_bytes == 0) { /* between all characters, and at both ends */
            if (at >= s->n_bytes) break;
            plait_tpl_str_next(s, &at);
        }
    }
    if (!plait_tpl_step(r, s->n_bytes >> 6)) return false;
    plait_tpl_put_slice(&b, s, done, s->n_bytes);
    return plait_tpl_finish(&b, out);
}

/* Entities take the origin of the character that they stand for. A string that is markup already is not escaped
 * twice. */
bool plait_tpl_str_escape(plait_tpl_render *r, const plait_tpl_str *s, plait_tpl_value *out) {
    if (s->markup) return *out = plait_tpl_string(s), true;
    plait_tpl_builder b;
    const plait_tpl_str *escaped;
    plait_tpl_builder_init(&b, r);
    size_t done = 0;
    for (size_t i = 0; i < s->n_bytes; i++) {
        char c = s->bytes[i];
        const char *entity = c == '&'    ? "&amp;"
                             : c == '<'  ? "&lt;"
                             : c == '>'  ? "&gt;"
                             : c == '\'' ? "&#39;"
                             : c == '"'  ? "&#34;"
                                         : NULL;
        if (!entity) continue;
        plait_tpl_put_slice(&b, s, done, i);
        plait_tpl_put_text(&b, entity, plait_tpl_str_mark(s, i));
        done = i + 1;
    }
    plait_tpl_put_slice(&b, s, done, s->n_bytes);
    return plait_tpl_finish_str(&b, &escaped) && plait_tpl_str_with_markup(r, escaped, true, out);
}

/* --- Unicode --- */

/* Binary search; ranges are sorted and do not touch. */
static bool in_ranges(const plait_tpl_code_range *ranges, size_t n, uint32_t code) {
    size_t low = 0, high = n;
    while (low < high) {
        size_t mid = (low + high) / 2;
        if (code < ranges[mid].first)
            high = mid;
        else if (code > ranges[mid].last)
            low = mid + 1;
        else
            return true;
    }
    return false;
}

/* Version of the data: that of utf8proc, where the tables of our own have 14. */
static utf8proc_category_t category(uint32_t code) {
    return utf8proc_category((utf8proc_int32_t)code);
}

/* Python's str.isspace: bidirectional type WS, B or S, or category Zs; \x1C to \x1F included, which C's isspace leaves
 * out. */
bool plait_tpl_is_space(uint32_t c) {
    if (c < 0x80) return c == ' ' || (c >= 9 && c <= 13) || (c >= 0x1C && c <= 0x1F);
    return c == 0x85 || c == 0xA0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 ||
           c == 0x2029 || c == 0x202F || c == 0x205F || c == 0x3000;
}

/* What repr leaves unescaped: no controls, formats, unassigned, private or surrogate code points, and of separators
 * only the space. */
bool plait_tpl_is_printable(uint32_t c) {
    switch (category(c)) {
    case UTF8PROC_CATEGORY_CN:
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_CO:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP: return false;
    case UTF8PROC_CATEGORY_ZS: return c == ' ';
    default: return true;
    }
}

/* Python's str.isalpha: all letters, modifier and other ones included. */
bool plait_tpl_is_alpha(uint32_t c) {
    utf8proc_category_t k = category(c);
    return k >= UTF8PROC_CATEGORY_LU && k <= UTF8PROC_CATEGORY_LO;
}

bool plait_tpl_is_decimal(uint32_t c) {
    return category(c) == UTF8PROC_CATEGORY_ND;
}

/* Decimal digits come in runs of ten that start with the zero. Runs may follow each other without a gap (the
 * mathematical digits are five in a row), hence the 50 and the remainder. */
uint32_t plait_tpl_decimal_value(uint32_t c) {
    uint32_t first = c;
    while (first > 0 && c - first < 50 && plait_tpl_is_decimal(first - 1)) first--;
    return (c - first) % 10;
}

bool plait_tpl_is_digit(uint32_t c) {
    return plait_tpl_is_decimal(c) || in_ranges(other_digit, PLAIT_COUNT_OF(other_digit), c);
}

/* Numbers of every category N, and ideographs with a numeric value, which utf8proc does not know. */
bool plait_tpl_is_numeric(uint32_t c) {
    utf8proc_category_t k = category(c);
    return (k >= UTF8PROC_CATEGORY_ND && k <= UTF8PROC_CATEGORY_NO) ||
           in_ranges(other_numeric, PLAIT_COUNT_OF(other_numeric), c);
}

/* \w of Python's re. */
bool plait_tpl_is_word(uint32_t c) {
    return c == '_' || plait_tpl_is_alpha(c) || plait_tpl_is_numeric(c);
}

bool plait_tpl_is_upper(uint32_t c) {
    return category(c) == UTF8PROC_CATEGORY_LU || in_ranges(other_upper, PLAIT_COUNT_OF(other_upper), c);
}

bool plait_tpl_is_lower(uint32_t c) {
    return category(c) == UTF8PROC_CATEGORY_LL || in_ranges(other_lower, PLAIT_COUNT_OF(other_lower), c);
}

bool plait_tpl_is_title(uint32_t c) {
    return category(c) == UTF8PROC_CATEGORY_LT;
}

/* Letters with case, titlecase ones included. */
bool plait_tpl_is_cased(uint32_t c) {
    return plait_tpl_is_upper(c) || plait_tpl_is_lower(c) || plait_tpl_is_title(c);
}

/* 2 or 3 characters, 0 where the mapping is simple. Walked in order, for characters beyond ASCII only. */
static size_t full_case(const plait_tpl_full_case *table, size_t n, uint32_t code, uint32_t out[3]) {
    for (size_t i = 0; i < n; i++) {
        if (table[i].code != code) continue;
        memcpy(out, table[i].to, sizeof table[i].to);
        return table[i].to[2] ? 3 : 2;
    }
    return 0;
}

/* U+0130 is the one character whose lower case is two. Folding takes utf8proc's CaseFolding data. */
size_t plait_tpl_map_case(uint32_t code, plait_tpl_case to, uint32_t out[3]) {
    utf8proc_int32_t c = (utf8proc_int32_t)code;
    size_t n = 0;
    if (to == PLAIT_TPL_FOLD) {
        utf8proc_int32_t folded[4];
        int boundary = 0;
        utf8proc_ssize_t k = utf8proc_decompose_char(c, folded, 3, UTF8PROC_CASEFOLD, &boundary);
        for (; k > 0 && k <= 3 && n < (size_t)k; n++) out[n] = (uint32_t)folded[n];
    } else if (to == PLAIT_TPL_LOWER && code == 0x130) {
        out[0] = 'i', out[1] = 0x307, n = 2;
    } else if (code >= 0x80 && to == PLAIT_TPL_UPPER) {
        n = full_case(full_upper, PLAIT_COUNT_OF(full_upper), code, out);
    } else if (code >= 0x80 && to == PLAIT_TPL_TITLE) {
        n = full_case(full_title, PLAIT_COUNT_OF(full_title), code, out);
    }
    if (n) return n;
    out[0] = (uint32_t)(to == PLAIT_TPL_UPPER   ? utf8proc_toupper(c)
                        : to == PLAIT_TPL_TITLE ? utf8proc_totitle(c)
                                                : utf8proc_tolower(c));
    return 1;
}

/* Unicode's Case_Ignorable: marks, formats, modifiers, and the punctuation that stands inside of words. */
static bool case_ignorable(uint32_t c) {
    switch (category(c)) {
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_SK: return true;
    default:
        return c == '\'' || c == '.' || c == ':' || c == 0xB7 || c == 0x387 || c == 0x55F || c == 0x5F4 ||
               c == 0x2018 || c == 0x2019 || c == 0x2024 || c == 0x2027 || c == 0xFE13 || c == 0xFE52 ||
               c == 0xFE55 || c == 0xFF07 || c == 0xFF0E || c == 0xFF1A;
    }
}

/* Whether the capital sigma at byte `at` ends a word (Final_Sigma of the Unicode standard). A run of ignorable
 * characters is looked at by the sigmas at its two ends only, so a text of sigmas stays linear. */
static bool final_sigma(const plait_tpl_str *s, size_t at) {
    size_t before = at, after = at;
    uint32_t c = 0;
    while (before > 0 && case_ignorable(c = plait_tpl_str_prev(s, &before))) c = 0;
    if (!c || !plait_tpl_is_cased(c)) return false;
    plait_tpl_str_next(s, &after);
    c = 0;
    while (after < s->n_bytes && case_ignorable(c = plait_tpl_str_next(s, &after))) c = 0;
    return !c || !plait_tpl_is_cased(c);
}

/* The character at byte `at` in another case, which may be several; returns where the next one begins. */
size_t plait_tpl_put_case(plait_tpl_builder *b, const plait_tpl_str *s, size_t at, plait_tpl_case to) {
    size_t next = at;
    uint32_t mapped[3], code = plait_tpl_str_next(s, &next);
    size_t n = plait_tpl_map_case(code, to, mapped);
    if (code == 0x3A3 && to == PLAIT_TPL_LOWER) mapped[0] = final_sigma(s, at) ? 0x3C2 : 0x3C3;
    for (size_t i = 0; i < n; i++) plait_tpl_put_code(b, mapped[i], plait_tpl_str_mark(s, at));
    return next;
}

/* Markup stays markup: case changes no entity's meaning here, as in markupsafe. */
bool plait_tpl_str_case(plait_tpl_render *r, const plait_tpl_str *s, plait_tpl_case to,
                        plait_tpl_value *out) {
    plait_tpl_builder b;
    const plait_tpl_str *mapped;
    plait_tpl_builder_init(&b, r);
    for (size_t at = 0; at < s->n_bytes && !b.failed;) at = plait_tpl_put_case(&b, s, at, to);
    return plait_tpl_step(r, s->n_bytes >> 6) && plait_tpl_finish_str(&b, &mapped) &&
           plait_tpl_str_with_markup(r, mapped, s->markup, out);
}
