/* The same measurement as bench_tokenizer with llama.cpp's library, for compare_tokenizers. Not part of the build:
 *
 *   cc -O2 -I LLAMA/include -I LLAMA/ggml/include -c peer_tokenizer.c
 *   c++ peer_tokenizer.o -o peer_tokenizer -Wl,--start-group libllama.a libggml*.a -Wl,--end-group -fopenmp -ldl */
#include "llama.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static double now_ms(void) {
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static void quiet(enum ggml_log_level level, const char *text, void *user) {
    (void)level, (void)text, (void)user;
}

int main(int argc, char **argv) {
    if (argc < 3) return 2;
    llama_log_set(quiet, NULL);
    struct llama_model_params params = llama_model_default_params();
    params.vocab_only = true;
    double start = now_ms(), best = 1e30;
    struct llama_model *model = llama_model_load_from_file(argv[1], params);
    FILE *file = fopen(argv[2], "rb");
    if (!model || !file) return 1;
    double load = now_ms() - start;
    static char text[1 << 26];
    size_t n = fread(text, 1, sizeof text, file);
    fclose(file);
    llama_token *ids = malloc((n + 16) * sizeof *ids);
    int n_ids = 0, repeats = argc > 3 ? atoi(argv[3]) : 3;
    if (!ids) return 1;
    for (int i = 0; i < repeats; i++) {
        start = now_ms();
        n_ids = llama_tokenize(llama_model_get_vocab(model), text, (int)n, ids, (int)n + 16, false, false);
        double spent = now_ms() - start;
        if (spent < best) best = spent;
    }
    printf("load %.1f ms, %d ids, fastest %.2f ms, %.2f MB/s\n", load, n_ids, best, (double)n / best / 1e3);
    free(ids);
    llama_model_free(model);
    return 0;
}
