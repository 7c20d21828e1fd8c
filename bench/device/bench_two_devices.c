/* Two sessions, each on a device of its own, generating at once from two threads, beside the same two one after the other:
 * what devices of one process cost each other. The rate is that of both together, so 1.00 is no loss; the processors
 * that one session alone leaves free are a gain.
 *
 * usage: bench_two_devices MODEL.gguf [tokens [rounds [ITEM ITEM]...]]
 *        default: 48 tokens, 9 rounds, cpu:threads=1 twice and cpu:threads=2 twice
 *
 * Rounds alternate, medians are printed. Not a test: nothing is checked but that both ids are the same. */
#include "base/os.h"
#include "base/thread.h"
#include "plait/session.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>

enum { MOST_ROUNDS = 101 };

static void check(plait_status status) {
    if (status == PLAIT_OK) return;
    fprintf(stderr, "%s\n", plait_error_message());
    exit(1);
}

typedef struct half {
    plait_context *context;
    plait_model *model;
    plait_session *session;
    plait_thread thread;
    int n;
    plait_token last;
} half;

static void open_half(half *h, const char *path, const char *item) {
    plait_model_options options = {.context = 512};
    check(plait_context_open(&h->context, item, NULL));
    check(plait_model_open(&h->model, h->context, path, &options));
    check(plait_session_create(&h->session, h->model));
}

static void close_half(half *h) {
    plait_session_destroy(h->session);
    plait_model_release(h->model);
    plait_context_close(h->context);
}

static void *generate(void *argument) {
    static const plait_token prompt[] = {1, 2, 3, 4, 5, 6, 7, 8};
    half *h = argument;
    plait_seq seq;
    check(plait_session_begin(h->session, &seq));
    check(plait_session_feed(h->session, seq, prompt, 8));
    for (int i = 0; i < h->n; i++) check(plait_session_next(h->session, seq, NULL, &h->last));
    plait_session_drop(h->session, seq);
    return NULL;
}

/* Seconds of the clock for both. */
static double run(half halves[2], bool at_once) {
    uint64_t start = plait_time_ns();
    if (at_once) {
        check(plait_thread_start(&halves[1].thread, "second", generate, &halves[1]));
        generate(&halves[0]);
        plait_thread_join(&halves[1].thread);
    } else {
        generate(&halves[0]);
        generate(&halves[1]);
    }
    if (halves[0].last != halves[1].last) {
        fprintf(stderr, "the two made different ids\n");
        exit(1);
    }
    return (double)(plait_time_ns() - start) / 1e9;
}

static double processor_seconds(void) {
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
           (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
}

static int by_value(const void *a, const void *b) {
    const double *x = a, *y = b;
    return *x < *y ? -1 : *x > *y;
}

static double median(double *values, int n) {
    qsort(values, (size_t)n, sizeof *values, by_value);
    return values[n / 2];
}

static void compare(const char *path, const char *a, const char *b, int tokens, int rounds) {
    static double rates[2][MOST_ROUNDS], busy[2][MOST_ROUNDS], ratios[MOST_ROUNDS];
    half halves[2] = {{.n = tokens}, {.n = tokens}};
    open_half(&halves[0], path, a);
    open_half(&halves[1], path, b);
    run(halves, true);
    for (int r = 0; r < rounds; r++) {
        for (int k = 0; k < 2; k++) {
            double before = processor_seconds(), seconds = run(halves, k == 1);
            rates[k][r] = 2 * tokens / seconds;
            busy[k][r] = (processor_seconds() - before) / (2 * tokens) * 1e3;
        }
        ratios[r] = rates[1][r] / rates[0][r];
    }
    printf(
        "%s, %s: in turn %.1f tokens/s (%.2f ms of processors a token), at once %.1f (%.2f ms), ratio %.2f\n",
        a, b, median(rates[0], rounds), median(busy[0], rounds), median(rates[1], rounds),
        median(busy[1], rounds), median(ratios, rounds));
    close_half(&halves[0]);
    close_half(&halves[1]);
}

int main(int argc, char **argv) {
    int tokens = argc > 2 ? atoi(argv[2]) : 48, rounds = argc > 3 ? atoi(argv[3]) : 9;
    if (argc < 2 || tokens < 1 || tokens > 400 || rounds < 1 || rounds > MOST_ROUNDS ||
        (argc > 4 && argc % 2))
        return 2;
    for (int i = 4; i + 1 < argc; i += 2) compare(argv[1], argv[i], argv[i + 1], tokens, rounds);
    if (argc > 4) return 0;
    compare(argv[1], "cpu:threads=1", "cpu:threads=1", tokens, rounds);
    compare(argv[1], "cpu:threads=2", "cpu:threads=2", tokens, rounds);
    return 0;
}
