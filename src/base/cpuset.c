/* Sets of processors. Not here: what the system allows (thread.h) or what processors are (device/topology.h).
 * Invariant: nothing here depends on the machine it runs on, and a set never has bits beyond the limit, so sets are
 * equal when their bytes are. */
#include "base/cpuset.h"

#include "base/size.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* 1 KiB a set: small enough to be passed around as a value. */
enum { WORDS = PLAIT_CPUSET_LIMIT / 64 };

int plait_cpuset_count(const plait_cpuset *set) {
    int n = 0;
    for (int i = 0; i < WORDS; i++) n += __builtin_popcountll(set->words[i]);
    return n;
}

/* The first word is masked below `from`, so a caller walks the members with next(set, member + 1). -1 when there is
 * none at or above `from`; any `from` is legal. */
int plait_cpuset_next(const plait_cpuset *set, int from) {
    if (from < 0) from = 0;
    for (int i = from / 64; i < WORDS; i++) {
        uint64_t word = set->words[i];
        if (i == from / 64) word &= UINT64_MAX << from % 64;
        if (word) return 64 * i + __builtin_ctzll(word);
    }
    return -1;
}

bool plait_cpuset_equal(const plait_cpuset *a, const plait_cpuset *b) {
    return memcmp(a, b, sizeof *a) == 0;
}

bool plait_cpuset_intersects(const plait_cpuset *a, const plait_cpuset *b) {
    for (int i = 0; i < WORDS; i++)
        if (a->words[i] & b->words[i]) return true;
    return false;
}

void plait_cpuset_keep(plait_cpuset *set, const plait_cpuset *other) {
    for (int i = 0; i < WORDS; i++) set->words[i] &= other->words[i];
}

void plait_cpuset_remove(plait_cpuset *set, const plait_cpuset *other) {
    for (int i = 0; i < WORDS; i++) set->words[i] &= ~other->words[i];
}

void plait_cpuset_join(plait_cpuset *set, const plait_cpuset *other) {
    for (int i = 0; i < WORDS; i++) set->words[i] |= other->words[i];
}

/* ---- text ---- */

/* `text` is the whole list, for the message. A digit must come first: strtoul alone would take white space and signs.
 * *p moves behind the number. */
static plait_status parse_number(const char **p, const char *text, int *out) {
    char *end;
    if (!isdigit((unsigned char)**p))
        return plait_error(PLAIT_INVALID_ARGUMENT, "processors \"%.100s\": expected a list like 0-3+6", text);
    unsigned long n = strtoul(*p, &end, 10); /* ULONG_MAX when it overflows */
    if (n >= PLAIT_CPUSET_LIMIT)
        return plait_error(PLAIT_OUT_OF_RANGE, "processors \"%.100s\": numbers go up to %d", text,
                           PLAIT_CPUSET_LIMIT - 1);
    *p = end;
    *out = (int)n;
    return PLAIT_OK;
}

/* *out is set only when the whole text was right. "0-3,,6", "0-3," and ",6" are refused: a list that was cut off must
 * not pass as a shorter one. The empty text is the empty set, as the kernel writes it for a node without processors.
 * ',' and '+' mean the same. */
plait_status plait_cpuset_parse(const char *text, plait_cpuset *out) {
    plait_cpuset set = {0};
    const char *p = text, *end = text + strlen(text);
    while (end > text && isspace((unsigned char)end[-1])) end--;
    while (p < end) {
        int first, last;
        PLAIT_TRY(parse_number(&p, text, &first));
        last = first;
        if (*p == '-') {
            p++;
            PLAIT_TRY(parse_number(&p, text, &last));
        }
        if (last < first)
            return plait_error(PLAIT_INVALID_ARGUMENT, "processors \"%.100s\": %d-%d runs backwards", text,
                               first, last);
        for (int i = first; i <= last; i++) plait_cpuset_add(&set, i);
        if (p < end && *p != ',' && *p != '+')
            return plait_error(PLAIT_INVALID_ARGUMENT, "processors \"%.100s\": expected a list like 0-3+6",
                               text);
        if (p < end && ++p == end)
            return plait_error(PLAIT_INVALID_ARGUMENT, "processors \"%.100s\": nothing behind the last %c",
                               text, end[-1]);
    }
    *out = set;
    return PLAIT_OK;
}

/* What is cut is cut between ranges, never inside a number, which would read as another processor: `kept` is the end of
 * the last range behind which "..." still fits. Returns the bytes that the whole needs, like snprintf. */
size_t plait_cpuset_print(const plait_cpuset *set, char separator, char *out, size_t capacity) {
    size_t n = 0, kept = 0; /* bytes needed so far; bytes of whole ranges that leave room for "..." */
    if (capacity) out[0] = '\0';
    for (int first = plait_cpuset_next(set, 0); first >= 0;) {
        int last = first;
        while (plait_cpuset_has(set, last + 1)) last++;
        char piece[40];
        int at = n ? 1 : 0; /* where the number begins */
        piece[0] = separator;
        snprintf(piece + at, sizeof piece - 1, last > first ? "%d-%d" : "%d", first, last);
        size_t length = strlen(piece);
        if (n + length < capacity) memcpy(out + n, piece, length + 1);
        n += length;
        if (n + 3 < capacity) kept = n;
        first = plait_cpuset_next(set, last + 1);
    }
    if (n >= capacity && capacity) snprintf(out + (kept < capacity ? kept : 0), capacity - kept, "...");
    return n;
}
