/* Runs a fuzz target over its corpus without a fuzzer: every file as it is, then cut short, then with single bits
 * flipped. Not a search for new inputs (libFuzzer does that), but the proof that old ones still do no harm, with any
 * compiler and in every test run. Invariant: the same corpus gives the same inputs, in the same order.
 *
 * `replay_NAME CORPUS-FOLDER [MUTATIONS]`: so many of each kind for one file, 256 unless told. Targets whose inputs cost
 * milliseconds each say fewer in a comment (cmake/PlaitFuzz.cmake); every file itself is always run. */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Large files get fewer mutations, so that a file costs at most 8 MiB of input. */
#define MAX_MUTATIONS     256
#define MAX_MUTATED_BYTES (8u << 20)
#define MAX_FILES         4096

static size_t max_mutations = MAX_MUTATIONS;

/* Hands over a copy of exactly `size` bytes, so that a sanitizer sees a read beyond its end. */
static int run_one(const uint8_t *data, size_t size) {
    uint8_t *copy = malloc(size ? size : 1);
    if (!copy) return 1;
    if (size) memcpy(copy, data, size);
    LLVMFuzzerTestOneInput(copy, size);
    free(copy);
    return 0;
}

static size_t n_mutations(size_t size, size_t possible) {
    size_t affordable = MAX_MUTATED_BYTES / (size + 1) + 1;
    size_t n = possible < max_mutations ? possible : max_mutations;
    return n < affordable ? n : affordable;
}

/* Lengths spread evenly over the file; all of them when it is short. */
static int run_truncations(const uint8_t *data, size_t size, size_t *n_runs) {
    size_t n = n_mutations(size, size);
    for (size_t i = 0; i < n; i++, ++*n_runs)
        if (run_one(data, (size_t)((double)size * (double)i / (double)n))) return 1;
    return 0;
}

/* Positions spread evenly over the file's bits, a different bit of the byte each time. */
static int run_bit_flips(uint8_t *data, size_t size, size_t *n_runs) {
    size_t n = n_mutations(size, size * 8);
    for (size_t i = 0; i < n; i++, ++*n_runs) {
        size_t at = (size_t)((double)size * (double)i / (double)n);
        uint8_t bit = (uint8_t)(1u << (i * 5 % 8));
        data[at] ^= bit;
        int failed = run_one(data, size);
        data[at] ^= bit;
        if (failed) return 1;
    }
    return 0;
}

static int run_file(const char *path, size_t *n_runs) {
    FILE *file = fopen(path, "rb");
    if (!file) return 1;
    uint8_t *data = NULL;
    long length = fseek(file, 0, SEEK_END) == 0 ? ftell(file) : -1;
    size_t size = length > 0 ? (size_t)length : 0;
    int failed = length < 0 || fseek(file, 0, SEEK_SET) != 0 || !(data = malloc(size + 1)) ||
                 fread(data, 1, size, file) != size;
    fclose(file);
    if (!failed) {
        failed = run_one(data, size);
        ++*n_runs;
    }
    failed = failed || run_truncations(data, size, n_runs) || run_bit_flips(data, size, n_runs);
    free(data);
    return failed;
}

static int is_file(const struct dirent *entry) {
    return entry->d_name[0] != '.';
}

int main(int argc, char **argv) {
    if (argc > 2) max_mutations = strtoul(argv[2], NULL, 10);
    if (argc < 2 || argc > 3 || max_mutations < 1) {
        fprintf(stderr, "usage: %s CORPUS-FOLDER [MUTATIONS]\n", argv[0]);
        return 2;
    }
    struct dirent **names = NULL;
    int n_files = scandir(argv[1], &names, is_file, alphasort);
    size_t n_runs = 0;
    int failed = n_files <= 0 || n_files > MAX_FILES;
    if (failed) fprintf(stderr, "%s: expected 1 to %d corpus files, found %d\n", argv[1], MAX_FILES, n_files);
    for (int i = 0; i < n_files; i++) {
        char path[4096];
        snprintf(path, sizeof path, "%s/%s", argv[1], names[i]->d_name);
        if (!failed && run_file(path, &n_runs)) {
            fprintf(stderr, "%s: cannot be read\n", path);
            failed = 1;
        }
        free(names[i]);
    }
    free(names);
    printf("%d corpus files, %zu inputs\n", n_files, n_runs);
    return failed;
}
