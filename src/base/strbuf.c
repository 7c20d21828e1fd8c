/* The growable string, JSON pieces and numbers as text. Not here: reading JSON (text/json.h). Invariant: length <
 * capacity whenever bytes is not NULL, and bytes[length] is NUL. No number depends on the program's locale, whose
 * decimal mark the C library uses in both directions: "C" takes its place in this thread for the length of a call. */
#include "base/strbuf.h"

#include "base/size.h"
#include "base/utf8.h"

#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A gigabyte of text is a mistake; a template, for one, has a smaller limit of its own. */
enum { DEFAULT_MAX_BYTES = 1 << 30 };

/* ---- the locale ---- */

/* This thread's locale, while "C" takes its place. uselocale concerns the calling thread alone; setlocale would change
 * the whole program under its other threads. */
typedef struct c_rules {
    locale_t c, before;
} c_rules;

/* "C" as a whole is a constant of the C library: this takes no memory and does not fail there. Where it did, the
 * program's locale would stay. */
static c_rules enter_c(void) {
    c_rules rules = {.c = newlocale(LC_ALL_MASK, "C", (locale_t)0)};
    if (rules.c) rules.before = uselocale(rules.c);
    return rules;
}

static void leave_c(c_rules rules) {
    if (!rules.c) return;
    uselocale(rules.before);
    freelocale(rules.c);
}

int plait_format(char *out, size_t n_bytes, const char *format, ...) {
    va_list args;
    va_start(args, format);
    c_rules rules = enter_c();
    int n = vsnprintf(out, n_bytes, format, args);
    leave_c(rules);
    va_end(args);
    return n;
}

double plait_strtod(const char *text, char **out_end) {
    c_rules rules = enter_c();
    double value = strtod(text, out_end);
    leave_c(rules);
    return value;
}

/* Not the double rounded once more, which may be the next float. */
float plait_strtof(const char *text, char **out_end) {
    c_rules rules = enter_c();
    float value = strtof(text, out_end);
    leave_c(rules);
    return value;
}

/* ---- the string ---- */

void plait_strbuf_init(plait_strbuf *s, size_t max_bytes) {
    *s = (plait_strbuf){.max_bytes = max_bytes ? max_bytes : DEFAULT_MAX_BYTES};
}

void plait_strbuf_deinit(plait_strbuf *s) {
    free(s->bytes);
    plait_strbuf_init(s, s->max_bytes);
}

void plait_strbuf_clear(plait_strbuf *s) {
    s->length = 0;
    s->status = PLAIT_OK;
    if (s->bytes) s->bytes[0] = '\0';
}

/* Makes room for n more bytes and the NUL; false (and sticky) when that fails. Doubles, so that appending byte by byte
 * is linear; max_bytes bounds the text, and the room may be twice that. */
static bool reserve(plait_strbuf *s, size_t n) {
    if (s->status != PLAIT_OK) return false;
    size_t needed;
    if (!plait_add_size(s->length, n, &needed) || needed > s->max_bytes) {
        s->status = PLAIT_LIMIT;
        return false;
    }
    if (needed < s->capacity) return true;
    size_t grown = s->capacity < 64 ? 64 : s->capacity * 2;
    if (grown <= needed) grown = needed + 1;
    char *bytes = realloc(s->bytes, grown);
    if (!bytes) {
        s->status = PLAIT_OUT_OF_MEMORY;
        return false;
    }
    s->bytes = bytes;
    s->capacity = grown;
    return true;
}

/* After a failure nothing is appended any more, so what stands there is a prefix of the whole, not a text with a
 * hole. */
void plait_strbuf_append_n(plait_strbuf *s, const void *bytes, size_t n) {
    if (!reserve(s, n)) return;
    if (n) memcpy(s->bytes + s->length, bytes, n);
    s->length += n;
    s->bytes[s->length] = '\0';
}

void plait_strbuf_append(plait_strbuf *s, const char *text) {
    plait_strbuf_append_n(s, text, strlen(text));
}

void plait_strbuf_append_char(plait_strbuf *s, char c) {
    plait_strbuf_append_n(s, &c, 1);
}

/* Formatted twice: once to learn the length, which the arguments alone tell, and once into place. Arguments must not
 * point into `s` itself, which may move between the two passes. */
void plait_strbuf_printf(plait_strbuf *s, const char *format, ...) {
    va_list args, again;
    va_start(args, format);
    va_copy(again, args);
    c_rules rules = enter_c();
    int n = vsnprintf(NULL, 0, format, args);
    if (n >= 0 && reserve(s, (size_t)n)) {
        vsnprintf(s->bytes + s->length, (size_t)n + 1, format, again);
        s->length += (size_t)n;
    }
    leave_c(rules);
    va_end(again);
    va_end(args);
}

/* DEL is escaped too, though RFC 8259 does not ask: the output may be shown on a terminal. Invalid bytes become one
 * U+FFFD each, so the output is valid JSON for any input; quotes and backslashes are the only ASCII that is escaped
 * beside controls. */
void plait_strbuf_json_string_n(plait_strbuf *s, const void *bytes, size_t n) {
    const unsigned char *p = bytes;
    plait_strbuf_append_char(s, '"');
    for (size_t i = 0; i < n;) {
        unsigned char c = p[i];
        if (c >= 0x80) {
            uint32_t code;
            size_t used = plait_utf8_decode(p + i, n - i, &code);
            if (used)
                plait_strbuf_append_n(s, p + i, used);
            else
                plait_strbuf_append(s, "\xEF\xBF\xBD");
            i += used ? used : 1;
            continue;
        }
        if (c == '"' || c == '\\')
            plait_strbuf_printf(s, "\\%c", c);
        else if (c == '\n')
            plait_strbuf_append(s, "\\n");
        else if (c == '\r')
            plait_strbuf_append(s, "\\r");
        else if (c == '\t')
            plait_strbuf_append(s, "\\t");
        else if (c < 0x20 || c == 0x7f)
            plait_strbuf_printf(s, "\\u%04x", c);
        else
            plait_strbuf_append_char(s, (char)c);
        i++;
    }
    plait_strbuf_append_char(s, '"');
}

void plait_strbuf_json_string(plait_strbuf *s, const char *text) {
    plait_strbuf_json_string_n(s, text, strlen(text));
}

/* 17 significant digits always read back to the same double (IEEE 754), so the loop ends with a right answer; fewer are
 * tried first because 0.1 should print as 0.1. `out` has room for 32 bytes: sign, 17 digits, point and an exponent of 5
 * take 24. Finite values only read back. */
size_t plait_format_double(double value, char *out) {
    int n = 0;
    for (int digits = 1; digits <= 17; digits++) {
        n = plait_format(out, 32, "%.*g", digits, value);
        if (digits == 17 || plait_strtod(out, NULL) == value) break;
    }
    return (size_t)n;
}

/* strtod knows more than numbers (hexadecimal, "inf", "nan", leading white space): only characters of a decimal number
 * are let through. No NUL is needed behind the text. 63 characters at most; *out is untouched when the answer is
 * false. */
bool plait_parse_double(const char *text, size_t n, double *out) {
    char number[64], *end;
    if (n == 0 || n >= sizeof number) return false;
    for (size_t i = 0; i < n; i++)
        if (!text[i] || !strchr("0123456789+-eE.", text[i])) return false;
    memcpy(number, text, n);
    number[n] = '\0';
    double value = plait_strtod(number, &end);
    if (*end || !isfinite(value)) return false;
    *out = value;
    return true;
}

/* The first unit of the list with this suffix counts; a list without "" demands one. 30 digits are more than any double
 * tells apart. Suffixes are compared with their case. */
bool plait_parse_scaled(const char *text, const plait_unit *units, double *out) {
    size_t digits = strspn(text, "0123456789.");
    double number;
    if (digits == 0 || digits > 30 || !plait_parse_double(text, digits, &number)) return false;
    for (const plait_unit *u = units; u->suffix; u++) {
        if (strcmp(text + digits, u->suffix) != 0) continue;
        *out = number * u->factor;
        return true;
    }
    return false;
}

/* KiB and KB differ, as the standards have it: 1024 and 1000. */
bool plait_parse_bytes(const char *text, double *out) {
    static const plait_unit units[] = {{"", 1},
                                       {"B", 1},
                                       {"KiB", 1024.0},
                                       {"MiB", 1048576.0},
                                       {"GiB", 1073741824.0},
                                       {"TiB", 1099511627776.0},
                                       {"KB", 1e3},
                                       {"MB", 1e6},
                                       {"GB", 1e9},
                                       {"TB", 1e12},
                                       {NULL, 0}};
    return plait_parse_scaled(text, units, out);
}

/* 2^53: the largest bound below which every integer is a double of its own, so nothing is lost by printing it in
 * full. */
void plait_strbuf_json_number(plait_strbuf *s, double value) {
    char text[32];
    if (!isfinite(value)) {
        plait_strbuf_append(s, "null");
    } else if (value == floor(value) && fabs(value) <= 9007199254740992.0) {
        plait_strbuf_printf(s, "%.0f", value);
    } else {
        plait_format_double(value, text);
        plait_strbuf_append(s, text);
    }
}

/* Only the kind of failure is taken over, as the message is made by plait_strbuf_status from the numbers of `s`. */
void plait_strbuf_inherit(plait_strbuf *s, const plait_strbuf *other) {
    if (s->status == PLAIT_OK) s->status = other->status;
}

/* The failure happened earlier and maybe in another function: its message is made here, where somebody will look at it.
 * OK sets no message. */
plait_status plait_strbuf_status(const plait_strbuf *s) {
    if (s->status == PLAIT_LIMIT)
        return plait_error(PLAIT_LIMIT, "text: longer than the limit of %zu bytes", s->max_bytes);
    if (s->status == PLAIT_OUT_OF_MEMORY) return plait_error_memory("text", s->length);
    return s->status;
}

/* A buffer to which nothing was appended still gives a string, the empty one, which takes an allocation and may fail.
 * The caller frees it; the buffer is empty afterwards and can be used again. NULL leaves the text to deinit. */
char *plait_strbuf_take(plait_strbuf *s) {
    if (s->status == PLAIT_OK && !s->bytes) reserve(s, 0);
    if (s->status != PLAIT_OK) return NULL;
    s->bytes[s->length] = '\0';
    char *bytes = s->bytes;
    plait_strbuf_init(s, s->max_bytes);
    return bytes;
}

const char *plait_strbuf_text(const plait_strbuf *s) {
    return s->bytes ? s->bytes : "";
}

/* Three digits at most behind the mark's place: two decimals below 10, one above, none for bytes. */
void plait_strbuf_bytes(plait_strbuf *s, uint64_t size_bytes) {
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
    double value = (double)size_bytes;
    size_t unit = 0;
    /* 1023.95 would print as 1024.0 */
    while (value >= (unit == 0 ? 1024 : 1023.95) && unit + 1 < PLAIT_COUNT_OF(units)) value /= 1024, unit++;
    plait_strbuf_printf(s, "%.*f %s", unit == 0 ? 0 : value < 9.995 ? 2 : 1, value, units[unit]);
}
