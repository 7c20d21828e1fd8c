/* How fast text becomes ids, and ids text: one vocabulary, one text, one thread.
 *
 *   bench_tokenizer VOCABULARY.gguf TEXT [REPEATS]
 *
 * Prints milliseconds of processor time for loading, for the first call (nothing remembered yet), for the fastest of
 * REPEATS (9) further calls, and for streaming all ids back; MB/s of the fastest. Special tokens are not recognised.
 * compare_tokenizers runs it in turn with another program. */
/* room: text */
#include "base/os.h"
#include "plait/tokenizer.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static double now_ms(void) {
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static plait_status stream_back(const plait_tokenizer *t, const plait_tokens *ids, size_t *out_n_bytes) {
    char *piece = malloc(plait_detokenizer_max_bytes(t));
    plait_detokenizer stream;
    plait_status status = piece ? PLAIT_OK : PLAIT_OUT_OF_MEMORY;
    size_t n;
    *out_n_bytes = 0;
    plait_detokenizer_init(&stream, t, PLAIT_DETOKENIZE_WHOLE);
    for (size_t i = 0; i < ids->n && status == PLAIT_OK; i++) {
        status = plait_detokenizer_feed(&stream, ids->ids[i], piece, plait_detokenizer_max_bytes(t), &n);
        *out_n_bytes += n;
    }
    free(piece);
    return status;
}

static plait_status measure(const plait_gguf *gguf, const plait_file *text, int repeats) {
    plait_tokenizer *t = NULL;
    plait_tokenizer_scratch *s = NULL;
    plait_tokens ids = {0};
    double start = now_ms(), load, first = 0, best = 1e30, back;
    size_t n_back;
    PLAIT_TRY(plait_tokenizer_create(&t, gguf, NULL));
    load = now_ms() - start;
    plait_status status = plait_tokenizer_scratch_create(&s, t);
    for (int i = 0; i <= repeats && status == PLAIT_OK; i++) {
        ids.n = 0;
        start = now_ms();
        status = plait_tokenize(t, s, (const char *)text->bytes, text->size_bytes, 0, &ids);
        double spent = now_ms() - start;
        if (i == 0) first = spent;
        if (i > 0 && spent < best) best = spent;
    }
    start = now_ms();
    if (status == PLAIT_OK) status = stream_back(t, &ids, &n_back);
    back = now_ms() - start;
    if (status == PLAIT_OK)
        printf("load %.1f ms, %zu ids, first %.1f ms, fastest %.2f ms, back %.2f ms, %.2f MB/s\n", load,
               ids.n, first, best, back, (double)text->size_bytes / best / 1e3);
    plait_tokens_deinit(&ids);
    plait_tokenizer_scratch_destroy(s);
    plait_tokenizer_destroy(t);
    return status;
}

int main(int argc, char **argv) {
    plait_gguf *gguf = NULL;
    plait_file text = {0};
    if (argc < 3) return fprintf(stderr, "usage: bench_tokenizer VOCABULARY.gguf TEXT [REPEATS]\n"), 2;
    plait_status status = plait_gguf_open(&gguf, argv[1], &(plait_gguf_options){.metadata_only = true});
    if (status == PLAIT_OK) status = plait_file_open(&text, argv[2], true);
    if (status == PLAIT_OK) status = measure(gguf, &text, argc > 3 ? atoi(argv[3]) : 9);
    if (status != PLAIT_OK) fprintf(stderr, "%s\n", plait_error_message());
    plait_file_close(&text);
    plait_gguf_release(gguf);
    return status != PLAIT_OK;
}
