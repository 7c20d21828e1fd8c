/* A growable byte string with a stated maximum. Used for everything that builds text: graph and plan printing,
 * JSON, templates, detokenizing. Failure is sticky: after one failed append the buffer ignores further appends
 * and plait_strbuf_status reports it, so that printing code checks once at the end. */
#ifndef PLAIT_BASE_STRBUF_H
#define PLAIT_BASE_STRBUF_H

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct plait_strbuf {
    char *bytes; /* Owned. NUL-terminated whenever not NULL. */
    size_t length, capacity;
    size_t max_bytes;    /* appends beyond this fail with LIMIT */
    plait_status status; /* the first failure, sticky */
} plait_strbuf;

/* max_bytes 0 means 1 GiB. No allocation. */
void plait_strbuf_init(plait_strbuf *s, size_t max_bytes);
void plait_strbuf_deinit(plait_strbuf *s);
/* Empties it, keeps the memory, and clears a sticky failure. */
void plait_strbuf_clear(plait_strbuf *s);

void plait_strbuf_append_n(plait_strbuf *s, const void *bytes, size_t n);
void plait_strbuf_append(plait_strbuf *s, const char *text);
void plait_strbuf_append_char(plait_strbuf *s, char c);
void plait_strbuf_printf(plait_strbuf *s, const char *format, ...) PLAIT_PRINTF(2, 3);

/* JSON pieces (RFC 8259). The string form escapes quotes, backslashes and control characters; bytes that are
 * not valid UTF-8 become U+FFFD, one for each byte. Numbers print in the shortest form that reads back to the
 * same double; integers up to 2^53 without exponent; NaN and infinities as null. */
void plait_strbuf_json_string(plait_strbuf *s, const char *text);
void plait_strbuf_json_string_n(plait_strbuf *s, const void *bytes, size_t n);
void plait_strbuf_json_number(plait_strbuf *s, double value);

/* Makes a failure of `other`, whose text was put into s, a failure of s. */
void plait_strbuf_inherit(plait_strbuf *s, const plait_strbuf *other);

/* PLAIT_OK, or the first failure (its message set again on this thread). */
plait_status plait_strbuf_status(const plait_strbuf *s);
/* Gives the string away: the caller frees it. The buffer is empty afterwards. NULL after a failure. */
char *plait_strbuf_take(plait_strbuf *s);
/* The text so far, never NULL. Borrowed until the next append. */
const char *plait_strbuf_text(const plait_strbuf *s);

/* Bytes for people in binary units: "512 B", "10.4 MiB", "3.25 GiB". */
void plait_strbuf_bytes(plait_strbuf *s, uint64_t size_bytes);

/* snprintf, strtod and strtof with the rules of the locale "C", whatever locale the program has set: numbers have a point.
 * plait_strbuf_printf prints by the same rules. Whatever a program reads goes through these. */
int plait_format(char *out, size_t n_bytes, const char *format, ...) PLAIT_PRINTF(3, 4);
double plait_strtod(const char *text, char **out_end);
float plait_strtof(const char *text, char **out_end);

/* Shortest decimal that reads back to the same double, as plait_strtod reads; returns its length. out needs 32
 * bytes. "1e+20" style exponents with at least two digits; no ".0" is added. */
size_t plait_format_double(double value, char *out);

/* The way back: all n bytes (fewer than 64) must be one finite decimal number with '.' as its point, whatever the
 * program's locale says. */
bool plait_parse_double(const char *text, size_t n, double *out);

/* What may stand behind a number, and what it means; a list ends with suffix NULL, "" is no suffix. */
typedef struct plait_unit {
    const char *suffix;
    double factor;
} plait_unit;
/* A decimal number without sign or exponent and one of the suffixes: the whole text, or false. */
bool plait_parse_scaled(const char *text, const plait_unit *units, double *out);
/* The same with units of bytes: none, B, KiB to TiB, KB to TB. */
bool plait_parse_bytes(const char *text, double *out);

#endif
