/* Where a test finds data: golden folders and the two real models. A missing model is a failure of the test, never a
 * reason to skip it. Not here: reading any of it. */
#ifndef PLAIT_TESTS_SUPPORT_PATHS_H
#define PLAIT_TESTS_SUPPORT_PATHS_H

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

/* Room for any path made here. */
#define PLAIT_TEST_PATH_BYTES 1024

/* The path of tests/golden/RELATIVE, or of the larger set beside the tree where that is at hand. Returns out. */
static inline char *plait_test_golden(const char *relative, char out[PLAIT_TEST_PATH_BYTES]) {
    struct stat st;
    snprintf(out, PLAIT_TEST_PATH_BYTES, "%s/golden/%s", PLAIT_SHARED_DIR, relative);
    if (stat(out, &st) != 0) snprintf(out, PLAIT_TEST_PATH_BYTES, "%s/%s", PLAIT_GOLDEN_DIR, relative);
    return out;
}

/* The path of a real model by file name, for example "gemma-3-270m-q4_k_m.gguf": in $PLAIT_MODELS, else where
 * scripts/get-models put it when this was configured (tests have a cache folder of their own). Returns NULL, and says how
 * to get it, when it is not there. */
static inline char *plait_test_model(const char *name, char out[PLAIT_TEST_PATH_BYTES]) {
    const char *models = getenv("PLAIT_MODELS");
    struct stat st;
    snprintf(out, PLAIT_TEST_PATH_BYTES, "%s/%s", models && models[0] ? models : PLAIT_MODELS_DIR, name);
    if (stat(out, &st) == 0) return out;
    fprintf(stderr, "%s is not there: run scripts/get-models\n", out);
    return NULL;
}

#endif
