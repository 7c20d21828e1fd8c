/* Matching with one place to go back to: the last star. A later star makes earlier ones final, because whatever they
 * took, the rest can be found from the first fit on. Not here: '?', classes, escapes: names of tensors have dots and
 * digits, and a pattern is typed by people. Ranges of numbers are here because layers are numbered. Invariant: no
 * recursion and no allocation, so a hostile pattern costs time
 * only, and that is bounded by the product of the lengths. */
#include "base/glob.h"

#include <stddef.h>

/* A number without zeros in front; *text moves behind it. False where there is none of at most nine digits. */
static bool take_number(const char **text, long *out) {
    const char *at = *text;
    long value = 0;
    while (*at >= '0' && *at <= '9' && at - *text < 9) value = 10 * value + (*at++ - '0');
    if (at == *text || (*at >= '0' && *at <= '9') || (**text == '0' && at - *text > 1)) return false;
    *text = at;
    *out = value;
    return true;
}

/* Whether the pattern goes on with a range that holds the number with which the name goes on: then both move behind.
 * Neither pointer moves when it does not fit: a '{' that begins no range is an ordinary character. */
static bool take_range(const char **pattern, const char **name) {
    const char *p = *pattern + 1, *n = *name;
    long low, high, value;
    if (**pattern != '{' || !take_number(&p, &low) || *p++ != '-') return false;
    if (!take_number(&p, &high) || *p++ != '}') return false;
    if (!take_number(&n, &value) || value < low || value > high) return false;
    *pattern = p;
    *name = n;
    return true;
}

/* A failed fit costs the star one more character of the name, so each of them is given at most once for each place in
 * the pattern. */
bool plait_glob_matches(const char *pattern, const char *name) {
    const char *after_star = NULL, *taken = NULL; /* where to go on, and how much the star has */
    for (;;) {
        if (*pattern == '*') {
            after_star = ++pattern;
            taken = name;
        } else if (take_range(&pattern, &name)) {
            continue;
        } else if (*pattern == *name) {
            if (!*name) return true;
            pattern++;
            name++;
        } else if (after_star && *taken) {
            pattern = after_star;
            name = ++taken;
        } else {
            return false;
        }
    }
}
