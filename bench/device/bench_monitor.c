/* What the monitor costs: sessions of one model, plain and watched, in one process, that take turns token by token (decode)
 * and prompt by prompt, so that what else the machine does hits both alike. Medians of the times, of the ratios of
 * neighbours, and of their differences.
 *
 * usage: bench_monitor MODEL.gguf [tokens [ITEM [LEVEL]]]
 *        default: 200 tokens, cpu:threads=1, level 1 (PLAIT_MONITOR_ON)
 *
 * Not a test: nothing is checked but that both make the same ids and that the monitor finds nothing. */
#include "base/os.h"
#include "plait/session.h"

#include <stdio.h>
#include <stdlib.h>

enum { MOST = 2000, N_PROMPT = 64, CONTEXT = 512 };

static void check(plait_status status) {
    if (status == PLAIT_OK) return;
    fprintf(stderr, "%s\n", plait_error_message());
    exit(1);
}

typedef struct side {
    plait_context *context;
    plait_model *model;
    plait_session *session;
    plait_seq seq;
    plait_token last;
    double ms[MOST];
} side;

static void open_side(side *s, const char *path, const char *item, plait_monitor_level level) {
    plait_model_options options = {.context = CONTEXT};
    plait_context_options watched = {.monitor = level};
    check(plait_context_open(&s->context, item, &watched));
    check(plait_model_open(&s->model, s->context, path, &options));
    check(plait_session_create(&s->session, s->model));
}

static void close_side(side *s) {
    plait_monitor *monitor = plait_context_monitor(s->context);
    if (monitor && plait_monitor_count(monitor)) {
        fprintf(stderr, "the monitor found something\n");
        exit(1);
    }
    plait_session_destroy(s->session);
    plait_model_release(s->model);
    plait_context_close(s->context);
}

static void feed(side *s) {
    plait_token prompt[N_PROMPT];
    for (int i = 0; i < N_PROMPT; i++) prompt[i] = 1 + i * 7 % 1000;
    check(plait_session_begin(s->session, &s->seq));
    check(plait_session_feed(s->session, s->seq, prompt, N_PROMPT));
}

static void next(side *s) {
    check(plait_session_next(s->session, s->seq, NULL, &s->last));
}

static double timed(void (*work)(side *), side *s) {
    uint64_t start = plait_time_ns();
    work(s);
    return (double)(plait_time_ns() - start) / 1e6;
}

static int by_value(const void *a, const void *b) {
    const double *x = a, *y = b;
    return *x < *y ? -1 : *x > *y;
}

static double middle(double *values, int n) {
    qsort(values, (size_t)n, sizeof *values, by_value);
    return values[n / 2];
}

static void report(const char *what, side *sides, int n) {
    static double ratios[MOST], differences[MOST];
    for (int i = 0; i < n; i++) {
        ratios[i] = sides[1].ms[i] / sides[0].ms[i];
        differences[i] = sides[1].ms[i] - sides[0].ms[i];
    }
    double ratio = middle(ratios, n), low = ratios[n / 4], high = ratios[3 * n / 4];
    printf("%s: plain %.3f ms, watched %.3f ms; ratios %.4f (%.4f to %.4f), differences %.1f us; %d pairs\n",
           what, middle(sides[0].ms, n), middle(sides[1].ms, n), ratio, low, high,
           middle(differences, n) * 1e3, n);
}

/* A sequence is as long as the context allows; then a new one begins. */
static void compare(side *sides, int tokens) {
    int prompts = 0;
    static double prompt_ms[2][MOST];
    for (int i = 0; i < tokens; i++) {
        if (i % (CONTEXT - N_PROMPT - 1) == 0) {
            for (int k = 0; k < 2; k++) {
                if (i) plait_session_drop(sides[k].session, sides[k].seq);
                feed(&sides[k]);
            }
        }
        for (int k = 0; k < 2; k++) sides[(i + k) % 2].ms[i] = timed(next, &sides[(i + k) % 2]);
        if (sides[0].last == sides[1].last) continue;
        fprintf(stderr, "the two made different ids\n");
        exit(1);
    }
    report("a token", sides, tokens);
    for (; prompts < tokens / 8 + 1; prompts++)
        for (int k = 0; k < 2; k++) {
            side *s = &sides[(prompts + k) % 2];
            plait_session_drop(s->session, s->seq);
            prompt_ms[(prompts + k) % 2][prompts] = timed(feed, s);
        }
    for (int k = 0; k < 2; k++)
        for (int i = 0; i < prompts; i++) sides[k].ms[i] = prompt_ms[k][i];
    report("a prompt of 64", sides, prompts);
}

int main(int argc, char **argv) {
    static side sides[2];
    int tokens = argc > 2 ? atoi(argv[2]) : 200, level = argc > 4 ? atoi(argv[4]) : PLAIT_MONITOR_ON;
    const char *item = argc > 3 ? argv[3] : "cpu:threads=1";
    if (argc < 2 || tokens < 8 || tokens > MOST || level < 1 || level > 2) return 2;
    open_side(&sides[0], argv[1], item, PLAIT_MONITOR_OFF);
    open_side(&sides[1], argv[1], item, (plait_monitor_level)level);
    compare(sides, tokens);
    close_side(&sides[0]);
    close_side(&sides[1]);
    return 0;
}
