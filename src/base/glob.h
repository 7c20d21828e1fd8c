/* Patterns of names, as pins and lists of checks use them. */
#ifndef PLAIT_BASE_GLOB_H
#define PLAIT_BASE_GLOB_H

#include <stdbool.h>

/* True when the pattern matches the whole name; '*' stands for any bytes, none included, {3-17} for one of these numbers in
 * decimal. Time is at most the product of the lengths. */
bool plait_glob_matches(const char *pattern, const char *name);

#endif
