/* The vocabularies of golden/tokenizers, as tokenizers ready for use. Includes cmocka's asserts: what is missing or
 * broken fails the test. */
#ifndef PLAIT_TESTS_SUPPORT_VOCABULARIES_H
#define PLAIT_TESTS_SUPPORT_VOCABULARIES_H

#include "plait/gguf.h"
#include "plait/tokenizer.h"
#include "support/paths.h"

#include <dirent.h>
#include <setjmp.h>
#include <string.h>

#include <zlib.h>
#include <cmocka.h>

enum { PLAIT_TEST_MAX_VOCABULARIES = 64 };

/* The bytes of a .gz file; the caller frees them. */
static inline unsigned char *plait_test_gunzip(const char *path, size_t *out_n) {
    gzFile file = gzopen(path, "rb");
    if (!file) fail_msg("%s is not there", path);
    size_t capacity = 1 << 20, n = 0;
    unsigned char *bytes = malloc(capacity);
    for (int got = 1; got > 0; n += (size_t)got) {
        if (n == capacity) bytes = realloc(bytes, capacity *= 2);
        assert_non_null(bytes);
        got = gzread(file, bytes + n, (unsigned)(capacity - n));
        assert_true(got >= 0);
    }
    gzclose(file);
    *out_n = n;
    return bytes;
}

/* The tokenizer of a vocabulary by name, for example "smollm2". */
static inline plait_tokenizer *plait_test_vocabulary(const char *name,
                                                     const plait_tokenizer_options *options) {
    char path[PLAIT_TEST_PATH_BYTES], relative[300];
    size_t n;
    snprintf(relative, sizeof relative, "tokenizers/vocab/%s.gguf.gz", name);
    unsigned char *bytes = plait_test_gunzip(plait_test_golden(relative, path), &n);
    plait_gguf *gguf = NULL;
    plait_tokenizer *tokenizer = NULL;
    if (plait_gguf_open_memory(&gguf, bytes, n, NULL) != PLAIT_OK)
        fail_msg("%s: %s", path, plait_error_message());
    if (plait_tokenizer_create(&tokenizer, gguf, options) != PLAIT_OK)
        fail_msg("%s: %s", name, plait_error_message());
    plait_gguf_release(gguf);
    free(bytes);
    return tokenizer;
}

static inline int plait_test_compare_names(const void *a, const void *b) {
    return strcmp(a, b);
}

/* The names of all vocabularies at hand, sorted; returns how many. */
static inline size_t plait_test_vocabulary_names(char names[PLAIT_TEST_MAX_VOCABULARIES][256]) {
    char path[PLAIT_TEST_PATH_BYTES];
    DIR *folder = opendir(plait_test_golden("tokenizers", path));
    assert_non_null(folder);
    size_t n = 0;
    for (struct dirent *entry; (entry = readdir(folder)) != NULL;) {
        size_t length = strlen(entry->d_name);
        if (length < 7 || strcmp(entry->d_name + length - 6, ".jsonl") != 0) continue;
        assert_true(n < PLAIT_TEST_MAX_VOCABULARIES);
        snprintf(names[n++], 256, "%.*s", (int)(length - 6), entry->d_name);
    }
    closedir(folder);
    assert_true(n > 0);
    qsort(names, n, 256, plait_test_compare_names);
    return n;
}

#endif
