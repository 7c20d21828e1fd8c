/* Sets of processors, by the numbers that the system gives them: plain values of fixed size, so that a set can be a local
 * variable or part of a struct. Not here: what the processors are (device/topology.h).
 *
 * As text a set is a list of numbers and ranges, "0-3,6"; the system separates with ',', items of a device list, where
 * ',' means something else, with '+'. Both are read. */
#ifndef PLAIT_BASE_CPUSET_H
#define PLAIT_BASE_CPUSET_H

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Processors are numbered below this; Linux is built for at most as many. */
enum { PLAIT_CPUSET_LIMIT = 8192 };

typedef struct plait_cpuset {
    uint64_t words[PLAIT_CPUSET_LIMIT / 64];
} plait_cpuset;

/* Numbers outside of the range are never members; adding one does nothing. */
static inline bool plait_cpuset_has(const plait_cpuset *set, int number) {
    return number >= 0 && number < PLAIT_CPUSET_LIMIT && (set->words[number / 64] >> number % 64 & 1);
}
static inline void plait_cpuset_add(plait_cpuset *set, int number) {
    if (number >= 0 && number < PLAIT_CPUSET_LIMIT) set->words[number / 64] |= UINT64_C(1) << number % 64;
}

int plait_cpuset_count(const plait_cpuset *set);
/* The smallest member that is at least `from`, or -1. */
int plait_cpuset_next(const plait_cpuset *set, int from);
bool plait_cpuset_equal(const plait_cpuset *a, const plait_cpuset *b);
bool plait_cpuset_intersects(const plait_cpuset *a, const plait_cpuset *b);
/* set := set and other; set := set without other; set := set or other. */
void plait_cpuset_keep(plait_cpuset *set, const plait_cpuset *other);
void plait_cpuset_remove(plait_cpuset *set, const plait_cpuset *other);
void plait_cpuset_join(plait_cpuset *set, const plait_cpuset *other);

/* Reads a list; white space at its end is allowed, and an empty text is the empty set. INVALID_ARGUMENT says what is no
 * number, or which range runs backwards; numbers that no set holds are OUT_OF_RANGE. */
plait_status plait_cpuset_parse(const char *text, plait_cpuset *out);
/* Writes the list with this separator, NUL-terminated; what does not fit ends in "...". Returns the bytes that the whole
 * needs, NUL not counted, as snprintf does. */
size_t plait_cpuset_print(const plait_cpuset *set, char separator, char *out, size_t capacity);

#endif
