/* Matching with one place to go back to: the last star. A later star makes earlier ones final, because whatever they
 * took, the rest can be found from the first fit on. Not here: '?', classes, escapes: names of tensors have dots and
 * digits, and a pattern is typed by people. Invariant: no recursion and no allocation, so a hostile pattern costs time
 * only, and that is bounded by the product of the lengths. */
#include "base/glob.h"

#include <stddef.h>

bool plait_glob_matches(const char *pattern, const char *name) {
    const char *after_star = NULL, *taken = NULL; /* where to go on, and how much the star has */
    for (;;) {
        if (*pattern == '*') {
            after_star = ++pattern;
            taken = name;
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
