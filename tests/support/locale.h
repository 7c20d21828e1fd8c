/* A locale whose numbers have a comma, on any system with glibc: the file is written here, since few systems have such a
 * locale installed. Not here: any assert. */
#ifndef PLAIT_TESTS_SUPPORT_LOCALE_H
#define PLAIT_TESTS_SUPPORT_LOCALE_H

#include "support/paths.h"

#include <locale.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

/* LC_NUMERIC as localedef writes it: a magic number, six fields, where each begins; ',' '.' no grouping, both as wide
 * characters, and the encoding. */
static const unsigned char test_locale_comma[] = {
    0x14, 0x11, 0x03, 0x20, 6,   0, 0,    0, 0x20, 0, 0,    0, 0x22, 0,   0,   0,   0x24, 0,
    0,    0,    0x28, 0,    0,   0, 0x2C, 0, 0,    0, 0x30, 0, 0,    0,   ',', 0,   '.',  0,
    3,    3,    0,    0,    ',', 0, 0,    0, '.',  0, 0,    0, 'U',  'T', 'F', '-', '8',  0};

/* From here on the program's numbers have a comma; false where the C library does not take the file. */
static inline bool test_locale_begin(void) {
    char folder[PLAIT_TEST_PATH_BYTES], inner[PLAIT_TEST_PATH_BYTES + 16], file[PLAIT_TEST_PATH_BYTES + 32],
        shown[8];
    snprintf(folder, sizeof folder, "%s/locale-test-XXXXXX", PLAIT_BINARY_DIR);
    if (!mkdtemp(folder)) return false;
    snprintf(inner, sizeof inner, "%s/xx_XX", folder);
    snprintf(file, sizeof file, "%s/LC_NUMERIC", inner);
    FILE *f = mkdir(inner, 0700) == 0 ? fopen(file, "wb") : NULL;
    bool good = f && fwrite(test_locale_comma, 1, sizeof test_locale_comma, f) == sizeof test_locale_comma;
    good = f && fclose(f) == 0 && good;
    good = good && setenv("LOCPATH", folder, 1) == 0 && setlocale(LC_NUMERIC, "xx_XX");
    unlink(file);
    rmdir(inner);
    rmdir(folder);
    snprintf(shown, sizeof shown, "%.1f", 0.5);
    return good && strcmp(shown, "0,5") == 0;
}

static inline void test_locale_end(void) {
    setlocale(LC_NUMERIC, "C");
}

#endif
