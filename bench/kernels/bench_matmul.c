/* Speed of the cpu device's product kernels: GB/s of packed weights at n = 1, GOP/s (one product and its addition
 * are two operations) at larger n, beside what the machine can read and multiply at that moment.
 *
 * usage: bench_matmul [-t threads] [-r rounds] [-m MiB] [-i isa] [-d DTYPE] [-k K] [-R rows] [-c 1] n...
 * default: 1 thread, 7 rounds, weights of 256 MiB in all (copies are read in turn, so that no cache holds them when
 * n = 1), every kernel of the machine. Medians and best of the rounds. -c 1 counts processor time instead of the clock, for
 * a machine that others use too.
 * build: ninja bench_matmul, or
 *   cc -O2 -Isrc -Iinclude bench/kernels/bench_matmul.c BUILD/libplait.a -lm -pthread
 *
 * Not a test: results are not looked at. */
#include "base/os.h"
#include "base/size.h"
#include "device/cpu/features.h"
#include "device/cpu/matmul/matmul.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MAX_THREADS = 64, MAX_ROUNDS = 99, UNIT_ROWS = 64 };

typedef struct job {
    const plait_cpu_matmul *kernel;
    plait_cpu_matmul_args args;
    const uint8_t *weights;
    int64_t matrix_bytes, copies;
    int thread, threads;
    pthread_barrier_t *barrier;
    double cpu_s; /* processor time of the thread's last pass */
} job;

static double thread_time_s(void) {
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void *work(void *argument) {
    job *j = argument;
    int64_t units = (j->args.m + UNIT_ROWS - 1) / UNIT_ROWS;
    pthread_barrier_wait(j->barrier);
    double start = thread_time_s();
    for (int64_t c = 0; c < j->copies; c++) {
        j->args.w = j->weights + c * j->matrix_bytes;
        int64_t first = plait_part_start(units, j->thread, j->threads),
                last = plait_part_start(units, j->thread + 1, j->threads);
        for (int64_t u = first; u < last; u++) {
            j->args.row_begin = u * UNIT_ROWS;
            j->args.row_end = plait_min_i64(j->args.m, (u + 1) * UNIT_ROWS);
            j->kernel->run(&j->args);
        }
    }
    j->cpu_s = thread_time_s() - start;
    pthread_barrier_wait(j->barrier);
    return NULL;
}

/* Seconds of one pass over all copies: of the clock, or of the busiest thread. */
static double pass(job *jobs, int threads, bool processor_time) {
    pthread_barrier_t barrier;
    pthread_t handles[MAX_THREADS];
    pthread_barrier_init(&barrier, NULL, (unsigned)threads + 1);
    for (int t = 0; t < threads; t++) {
        jobs[t].barrier = &barrier;
        pthread_create(&handles[t], NULL, work, &jobs[t]);
    }
    pthread_barrier_wait(&barrier);
    uint64_t start = plait_time_ns();
    pthread_barrier_wait(&barrier);
    uint64_t end = plait_time_ns();
    for (int t = 0; t < threads; t++) pthread_join(handles[t], NULL);
    pthread_barrier_destroy(&barrier);
    double busiest = 0;
    for (int t = 0; t < threads; t++)
        if (jobs[t].cpu_s > busiest) busiest = jobs[t].cpu_s;
    return processor_time ? busiest : (double)(end - start) * 1e-9;
}

static int ascending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void *memory(int64_t bytes) {
    void *p = aligned_alloc(64, ((size_t)bytes + 127) / 64 * 64);
    if (!p) {
        fprintf(stderr, "no memory\n");
        exit(1);
    }
    memset(p, 0x37, ((size_t)bytes + 127) / 64 * 64);
    return p;
}

typedef struct options {
    int threads, rounds, processor_time;
    int64_t bytes, k, m;
    const char *isa, *dtype;
} options;

static void measure(const options *o, const plait_cpu_matmul *kernel, const uint8_t *weights, int64_t n) {
    int64_t k = o->k, m = o->m;
    int64_t bytes = plait_cpu_packed_bytes(kernel->dtype, k, m);
    if (bytes < 0) return;
    int64_t copies = plait_max_i64(
        1, n == 1 ? o->bytes / bytes : plait_min_i64(o->bytes / bytes, 1 + (1 << 30) / (k * m / 16 * n)));
    float *x = memory(k * n * 4), *y = memory(m * n * 4);
    void *columns = memory(plait_cpu_columns_bytes(k, n));
    for (int64_t i = 0; i < k * n; i++) x[i] = (float)(i % 17 - 8);
    plait_cpu_quantise(15, x, k, k, n, 0, n, columns);
    job jobs[MAX_THREADS];
    for (int t = 0; t < o->threads; t++)
        jobs[t] = (job){.kernel = kernel,
                        .weights = weights,
                        .matrix_bytes = bytes,
                        .copies = copies,
                        .thread = t,
                        .threads = o->threads,
                        .args = {.dtype = kernel->dtype,
                                 .k = k,
                                 .m = m,
                                 .n = n,
                                 .x = x,
                                 .x_stride = k,
                                 .columns = columns,
                                 .y = y,
                                 .y_stride = m,
                                 .scratch = memory(PLAIT_CPU_MATMUL_SCRATCH_BYTES)}};
    double seconds[MAX_ROUNDS];
    for (int r = -1; r < o->rounds; r++) {
        double s = pass(jobs, o->threads, o->processor_time);
        if (r >= 0) seconds[r] = s;
    }
    qsort(seconds, (size_t)o->rounds, sizeof *seconds, ascending);
    double median = seconds[o->rounds / 2], best = seconds[0], read = (double)(bytes * copies) * 1e-9;
    double operations = 2e-9 * (double)k * (double)m * (double)n * (double)copies;
    printf("%-5s %-11s k %5d m %5d n %4d t %d  GB/s %6.2f (best %6.2f)  GOP/s %7.1f (best %7.1f)\n",
           plait_dtype_name(kernel->dtype), kernel->isa, (int)k, (int)m, (int)n, o->threads, read / median,
           read / best, operations / median, operations / best);
    fflush(stdout);
    for (int t = 0; t < o->threads; t++) free(jobs[t].args.scratch);
    free(x), free(y), free(columns);
}

int main(int argc, char **argv) {
    options o = {.threads = 1, .rounds = 7, .bytes = 256 << 20, .k = 4096, .m = 4096};
    int i = 1;
    for (; i + 1 < argc && argv[i][0] == '-'; i += 2) {
        switch (argv[i][1]) {
        case 't': o.threads = atoi(argv[i + 1]); break;
        case 'r': o.rounds = atoi(argv[i + 1]); break;
        case 'm': o.bytes = (int64_t)atoi(argv[i + 1]) << 20; break;
        case 'c': o.processor_time = atoi(argv[i + 1]); break;
        case 'i': o.isa = argv[i + 1]; break;
        case 'd': o.dtype = argv[i + 1]; break;
        case 'k': o.k = atoi(argv[i + 1]); break;
        case 'R': o.m = atoi(argv[i + 1]); break;
        default: fprintf(stderr, "unknown option %s\n", argv[i]); return 2;
        }
    }
    if (o.threads < 1 || o.threads > MAX_THREADS || o.rounds < 1 || o.rounds > MAX_ROUNDS || o.k < 1 ||
        o.m < 1)
        return 2;
    uint8_t *weights = memory(plait_max_i64(o.bytes, o.k * o.m * 4 + 4096 * o.k));
    uint32_t features = plait_cpu_features_detect();
    for (; i < argc; i++) {
        const plait_cpu_matmul *kernel;
        for (size_t row = 0; (kernel = plait_cpu_matmul_at(row)); row++)
            if (!kernel->any_dtype && !(kernel->features & ~features) &&
                (!o.isa || !strcmp(o.isa, kernel->isa)) &&
                (!o.dtype || !strcmp(o.dtype, plait_dtype_name(kernel->dtype))))
                measure(&o, kernel, weights, atoi(argv[i]));
    }
    free(weights);
    return 0;
}
