/* How long a pick takes: several chains on a vocabulary of 262,144 tokens, one core, all in turn in one run.
 *
 *   bench_sampler [REPEATS [N_VOCAB]]     microseconds of processor time: median and fastest of REPEATS
 * (200), for each kernel variant
 *
 * Logits: a bell of standard deviation 2.1 with 20 tokens 12 to 22 above its middle (peaked, as models make
 * them), and the bell alone (flat: hardly anything can be dropped early). New ones for each round. */
/* room: text */
#include "base/status.h"
#include "text/sampler/chain.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define N_ROWS     12
#define N_VARIANTS 2

static uint32_t random_state = 1;
static float next_unit(void) {
    random_state = random_state * 1664525u + 1013904223u;
    return (float)(random_state >> 8) * 0x1p-24f;
}

static void fill(float *logits, size_t n, bool peaked) {
    for (size_t i = 0; i < n; i++) {
        float sum = 0.0f;
        for (int j = 0; j < 6; j++) sum += next_unit() - 0.5f;
        logits[i] = sum * 3.0f;
    }
    for (int i = 0; peaked && i < 20; i++)
        logits[(size_t)(next_unit() * (float)n) % n] = 12.0f + next_unit() * 10.0f;
}

typedef struct row {
    const char *name;
    plait_status (*build)(plait_sampler *s);
} row;

static plait_status build_default(plait_sampler *s) {
    PLAIT_TRY(plait_sampler_add_penalties(s, 64, 1.1f, 0.1f, 0.1f));
    PLAIT_TRY(plait_sampler_add_top_k(s, 40));
    PLAIT_TRY(plait_sampler_add_top_p(s, 0.95f, 1));
    PLAIT_TRY(plait_sampler_add_min_p(s, 0.05f, 1));
    return plait_sampler_add_temp(s, 0.8f);
}
static plait_status build_greedy(plait_sampler *s) {
    return plait_sampler_add_greedy(s);
}
static plait_status build_none(plait_sampler *s) {
    (void)s;
    return PLAIT_OK;
}
static plait_status build_top_p(plait_sampler *s) {
    PLAIT_TRY(plait_sampler_add_temp(s, 0.8f));
    return plait_sampler_add_top_p(s, 0.95f, 1);
}
static plait_status build_min_p(plait_sampler *s) {
    PLAIT_TRY(plait_sampler_add_temp(s, 0.8f));
    return plait_sampler_add_min_p(s, 0.05f, 1);
}
static plait_status build_typical(plait_sampler *s) {
    return plait_sampler_add_typical(s, 0.9f, 1);
}
static plait_status build_sigma(plait_sampler *s) {
    return plait_sampler_add_top_n_sigma(s, 1.0f);
}
static plait_status build_xtc(plait_sampler *s) {
    return plait_sampler_add_xtc(s, 1.0f, 0.1f, 1);
}
static plait_status build_dynamic(plait_sampler *s) {
    return plait_sampler_add_temp_dynamic(s, 0.8f, 0.5f, 1.0f);
}
static plait_status build_mirostat_1(plait_sampler *s) {
    return plait_sampler_add_mirostat_v1(s, 5.0f, 0.1f, 100);
}
static plait_status build_mirostat_2(plait_sampler *s) {
    return plait_sampler_add_mirostat_v2(s, 5.0f, 0.1f);
}
static plait_status build_large_k(plait_sampler *s) {
    return plait_sampler_add_top_k(s, 60000);
}

static const row rows[N_ROWS] = {
    {"penalties, top-k 40, top-p, min-p, temp", build_default},
    {"greedy", build_greedy},
    {"no step: draw from all", build_none},
    {"temp, top-p 0.95", build_top_p},
    {"temp, min-p 0.05", build_min_p},
    {"typical 0.9", build_typical},
    {"top-n-sigma 1", build_sigma},
    {"XTC", build_xtc},
    {"dynamic temp", build_dynamic},
    {"mirostat 1", build_mirostat_1},
    {"mirostat 2", build_mirostat_2},
    {"top-k 60000", build_large_k},
};

/* Processor time of this thread: other programs on the machine do not count. */
static uint64_t cpu_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static plait_status measure(plait_sampler *s, const float *logits, size_t n, double *out_us) {
    plait_token token;
    uint64_t start = cpu_ns();
    PLAIT_TRY(plait_sampler_pick_from_all(s, logits, (int64_t)n, &token));
    PLAIT_TRY(plait_sampler_accept(s, token));
    *out_us = (double)(cpu_ns() - start) * 1e-3;
    return PLAIT_OK;
}

static plait_status run_rows(plait_sampler *chains[N_ROWS][N_VARIANTS], size_t repeats, size_t n, bool peaked,
                             float *logits, double *times) {
    for (size_t r = 0; r < repeats + 3; r++) {
        fill(logits, n, peaked);
        for (size_t i = 0; i < N_ROWS; i++)
            for (size_t v = 0; v < N_VARIANTS && plait_sampler_kernels_at(v); v++) {
                double us;
                PLAIT_TRY(measure(chains[i][v], logits, n, &us));
                if (r >= 3) times[(i * N_VARIANTS + v) * repeats + r - 3] = us; /* the first three warm up */
            }
    }
    for (size_t i = 0; i < N_ROWS; i++)
        for (size_t v = 0; v < N_VARIANTS && plait_sampler_kernels_at(v); v++) {
            double *t = times + (i * N_VARIANTS + v) * repeats;
            qsort(t, repeats, sizeof *t, by_value);
            printf("| %s | %s | %s | %.0f | %.0f |\n", rows[i].name, peaked ? "peaked" : "flat",
                   plait_sampler_kernels_at(v)->name, t[repeats / 2], t[0]);
        }
    return PLAIT_OK;
}

static plait_status run(size_t repeats, size_t n, float *logits, double *times) {
    plait_sampler *chains[N_ROWS][N_VARIANTS] = {{NULL}};
    plait_status status = PLAIT_OK;
    for (size_t i = 0; i < N_ROWS && status == PLAIT_OK; i++)
        for (size_t v = 0; v < N_VARIANTS && plait_sampler_kernels_at(v) && status == PLAIT_OK; v++) {
            status = plait_sampler_create(&chains[i][v], 7);
            if (status != PLAIT_OK) break;
            plait_sampler_use_kernels(chains[i][v], plait_sampler_kernels_at(v));
            status = rows[i].build(chains[i][v]);
        }
    printf("| chain | logits | kernels | median us | fastest us |\n|---|---|---|---:|---:|\n");
    for (int peaked = 1; peaked >= 0 && status == PLAIT_OK; peaked--)
        status = run_rows(chains, repeats, n, peaked, logits, times);
    for (size_t i = 0; i < N_ROWS; i++)
        for (size_t v = 0; v < N_VARIANTS; v++) plait_sampler_destroy(chains[i][v]);
    return status;
}

int main(int argc, char **argv) {
    size_t repeats = argc > 1 ? strtoul(argv[1], NULL, 10) : 200,
           n = argc > 2 ? strtoul(argv[2], NULL, 10) : 262144;
    if (repeats < 1 || repeats > 100000 || n < 1 || n > PLAIT_SAMPLER_MAX_VOCAB) {
        fprintf(stderr, "bench_sampler [REPEATS [N_VOCAB]]\n");
        return 2;
    }
    float *logits = calloc(n, sizeof *logits);
    double *times = calloc(repeats * N_ROWS * N_VARIANTS, sizeof *times);
    plait_status status = PLAIT_OUT_OF_MEMORY;
    if (logits && times) status = run(repeats, n, logits, times);
    if (status != PLAIT_OK) fprintf(stderr, "bench_sampler: %s\n", plait_error_message());
    free(logits);
    free(times);
    return status == PLAIT_OK ? 0 : 1;
}
