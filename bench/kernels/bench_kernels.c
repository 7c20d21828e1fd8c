/* Speed of the cpu device's kernels other than products: attention over a cache of keys (GB/s of cache read when few
 * tokens ask, GFLOP/s when a prompt does), and norms, rope, gates and cache writes (GB/s of operands moved).
 *
 * usage: bench_kernels [-t threads] [-r rounds] [-m MiB] [-f features] [-c context] [-p 1] [name...]
 * default: 1 thread, 7 rounds, copies of the operands that fill 256 MiB and are used in turn, all features, context
 * 2048, every case whose name starts with one of the names. Medians of the rounds, and of the fractions that they are of
 * what one thread could do in the same round: read memory as large as the copies (GB/s), or multiply and add in registers
 * (GFLOP/s). -p 1 counts processor time, of one thread, instead of the clock: for a machine that others use too.
 * build: ninja bench_kernels, or
 *   cc -O2 -Isrc -Iinclude bench/kernels/bench_kernels.c BUILD/libplait.a -lm -pthread
 *
 * Not a test: results are not looked at. */
/* room: device */
#include "base/size.h"
#include "device/cpu/kernels.h"
#include "device/cpu/pool.h"
#include "op/attrs.h"
#include "op/example.h"
#include "op/reference.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

enum { MAX_ROUNDS = 99, MAX_COPIES = 4096, PAGE_LEN = 64 };

typedef struct options {
    int threads, rounds;
    int64_t bytes, context;
    uint32_t features;
} options;

static void *memory(int64_t bytes) {
    void *p = aligned_alloc(64, ((size_t)bytes + 127) / 64 * 64);
    if (!p) {
        fprintf(stderr, "no memory\n");
        exit(1);
    }
    memset(p, 0, ((size_t)bytes + 127) / 64 * 64);
    return p;
}

static bool processor_time;

static double now_s(void) {
    struct timespec t;
    clock_gettime(processor_time ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* ---- limits of one thread ---- */

static volatile double sink; /* keeps results alive */

/* Bytes a second of reading a buffer once. */
#if defined(__x86_64__)
__attribute__((target("avx2")))
#endif
static double
read_rate(const uint64_t *buffer, int64_t bytes) {
    uint64_t sum[32] = {0};
    double start = now_s();
    for (int64_t i = 0; i < bytes / 8; i += 32)
        for (int k = 0; k < 32; k++) sum[k] ^= buffer[i + k];
    double seconds = now_s() - start;
    for (int k = 0; k < 32; k++) sink += (double)sum[k];
    return (double)bytes / seconds;
}

/* Operations a second of fused multiply-adds in twelve chains, with the widest vectors of the features. */
#if defined(__x86_64__)
__attribute__((target("avx2,fma"))) static double chains_avx2(int64_t n) {
    __m256 a[12], x = _mm256_set1_ps(0.5f);
    for (int k = 0; k < 12; k++) a[k] = _mm256_set1_ps((float)k);
    for (int64_t i = 0; i < n; i++) {
#pragma GCC unroll 12
        for (int k = 0; k < 12; k++) a[k] = _mm256_fmadd_ps(a[k], x, x);
    }
    for (int k = 1; k < 12; k++) a[0] = _mm256_add_ps(a[0], a[k]);
    sink += (double)_mm256_cvtss_f32(a[0]);
    return 2.0 * 12 * 8 * (double)n;
}
__attribute__((target("avx512f"))) static double chains_avx512(int64_t n) {
    __m512 a[12], x = _mm512_set1_ps(0.5f);
    for (int k = 0; k < 12; k++) a[k] = _mm512_set1_ps((float)k);
    for (int64_t i = 0; i < n; i++) {
#pragma GCC unroll 12
        for (int k = 0; k < 12; k++) a[k] = _mm512_fmadd_ps(a[k], x, x);
    }
    for (int k = 1; k < 12; k++) a[0] = _mm512_add_ps(a[0], a[k]);
    sink += (double)_mm512_cvtss_f32(a[0]);
    return 2.0 * 12 * 16 * (double)n;
}
#endif

static double fma_rate(uint32_t features) {
    double start = now_s(), operations = 0;
#if defined(__x86_64__)
    if (features & PLAIT_CPU_AVX512)
        operations = chains_avx512(100000);
    else if (features & PLAIT_CPU_AVX2)
        operations = chains_avx2(100000);
#endif
    (void)features;
    return operations / (now_s() - start);
}

/* ---- uses ---- */

static void add_input(plait_op_use *use, plait_dtype dtype, int64_t a, int64_t b, int64_t c, int64_t d) {
    plait_operand *o = &use->inputs[use->n_inputs];
    use->present |= 1u << use->n_inputs++;
    *o = (plait_operand){.dtype = dtype, .dims = {a, b, c, d}};
    plait_operand_make_dense(o);
}

static void set_attr(plait_op_use *use, const char *name, plait_attr value) {
    use->attrs[plait_op_attr_index(use->op, name)] = value;
}

/* Memory for all operands; floats small and varied. */
static void fill(plait_op_use *use) {
    uint64_t seed = 9;
    for (int i = 0; i < use->n_inputs; i++) {
        plait_operand *o = &use->inputs[i];
        o->data = memory(plait_operand_span_bytes(o));
        float row[4096];
        if (o->dtype == PLAIT_I32) continue;
        PLAIT_REF_ROWS(o, i1, i2, i3)
        for (int64_t at = 0; at < o->dims[0]; at += 4096) {
            int64_t n = plait_min_i64(4096, o->dims[0] - at), block = plait_dtype_block_elems(o->dtype);
            for (int64_t k = 0; k < n; k++) row[k] = (float)plait_example_random(&seed, 2001) * 0.001f - 1.0f;
            if (plait_dtype_quantised(o->dtype)) { /* scales of 2^-8, any codes */
                for (int64_t k = 0; k < n / block; k++) {
                    char *to = plait_ref_at(o, at / block + k, i1, i2, i3);
                    memcpy(to, row, (size_t)plait_dtype_block_bytes(o->dtype));
                    memcpy(to, "\x00\x1c", 2);
                }
                continue;
            }
            plait_quant_of(o->dtype)->encode(row, NULL, plait_ref_at(o, at, i1, i2, i3), n);
        }
    }
    for (int i = 0; i < use->n_outputs; i++)
        use->outputs[i].data = i == 0 && use->op->writes_input >= 0
                                   ? use->inputs[use->op->writes_input].data
                                   : memory(plait_operand_span_bytes(&use->outputs[i]));
}

static void discard(plait_op_use *use) {
    for (int i = 0; i < use->n_inputs; i++) free(use->inputs[i].data);
    for (int i = 0; i < use->n_outputs; i++)
        if (i > 0 || use->op->writes_input < 0) free(use->outputs[i].data);
}

typedef struct bench_case {
    const char *name;
    const char *op;
    int64_t d, heads, kv_heads, n; /* attention; else rows of d, heads, n */
    plait_dtype dtype;
    const char *attr; /* one that is set to 1 */
} bench_case;

static const bench_case cases[] = {
    {"attention-decode/64/3x3/f16", "attention", 64, 9, 3, 1, PLAIT_F16, NULL},
    {"attention-decode/64/3x3/q8_0", "attention", 64, 9, 3, 1, PLAIT_Q8_0, NULL},
    {"attention-decode/64/3x3/q4_0", "attention", 64, 9, 3, 1, PLAIT_Q4_0, NULL},
    {"attention-decode/64/3x3/f32", "attention", 64, 9, 3, 1, PLAIT_F32, NULL},
    {"attention-decode/256/1x4/f16", "attention", 256, 4, 1, 1, PLAIT_F16, NULL},
    {"attention-decode/256/1x4/q8_0", "attention", 256, 4, 1, 1, PLAIT_Q8_0, NULL},
    {"attention-decode/128/8x4/f16", "attention", 128, 32, 8, 1, PLAIT_F16, NULL},
    {"attention-decode/128/8x1/f16", "attention", 128, 8, 8, 1, PLAIT_F16, NULL},
    {"attention-prompt/64/3x3/f16", "attention", 64, 9, 3, 512, PLAIT_F16, NULL},
    {"attention-prompt/128/8x4/f16", "attention", 128, 32, 8, 512, PLAIT_F16, NULL},
    {"attention-prompt/128/8x1/f16", "attention", 128, 8, 8, 512, PLAIT_F16, NULL},
    {"attention-prompt/128/8x4/q8_0", "attention", 128, 32, 8, 512, PLAIT_Q8_0, NULL},
    {"attention-prompt/256/1x4/f16", "attention", 256, 4, 1, 512, PLAIT_F16, NULL},
    {"kv_write/64x3/f16", "kv_write", 64, 3, 0, 512, PLAIT_F16, NULL},
    {"kv_write/64x3/q8_0", "kv_write", 64, 3, 0, 512, PLAIT_Q8_0, NULL},
    {"kv_write/64x3/q4_0", "kv_write", 64, 3, 0, 512, PLAIT_Q4_0, NULL},
    {"rms_norm/576", "rms_norm", 576, 1, 0, 512, PLAIT_F32, NULL},
    {"rms_norm/4096", "rms_norm", 4096, 1, 0, 64, PLAIT_F32, NULL},
    {"rms_norm/64x32", "rms_norm", 64, 32, 0, 64, PLAIT_F32, NULL},
    {"layer_norm/1024", "layer_norm", 1024, 1, 0, 256, PLAIT_F32, NULL},
    {"rope/64x9/halves", "rope", 64, 9, 0, 512, PLAIT_F32, "split_halves"},
    {"rope/64x9/pairs", "rope", 64, 9, 0, 512, PLAIT_F32, NULL},
    {"rope/64x9/one", "rope", 64, 9, 0, 1, PLAIT_F32, NULL},
    {"swiglu/1536", "swiglu", 1536, 1, 0, 512, PLAIT_F32, NULL},
    {"geglu/2048", "geglu", 2048, 1, 0, 512, PLAIT_F32, NULL},
    {"add/4096", "add", 4096, 1, 0, 64, PLAIT_F32, NULL},
    {"softmax/49152", "softmax", 49152, 1, 0, 4, PLAIT_F32, NULL},
    {"argmax/262144", "argmax", 262144, 1, 0, 1, PLAIT_F32, NULL},
    {"top_k/262144", "top_k", 262144, 1, 0, 1, PLAIT_F32, NULL},
};

static void make_attention(plait_op_use *use, const bench_case *c, int64_t context) {
    int64_t keys = c->n > 1 ? c->n : context, pages = (keys + PAGE_LEN - 1) / PAGE_LEN;
    add_input(use, PLAIT_F32, c->d, c->heads, c->n, 1);
    add_input(use, c->dtype, c->d, PAGE_LEN, c->kv_heads, pages);
    add_input(use, c->dtype, c->d, PAGE_LEN, c->kv_heads, pages);
    add_input(use, PLAIT_I32, c->n, 1, 1, 1);
    add_input(use, PLAIT_I32, c->n, 1, 1, 1);
    add_input(use, PLAIT_I32, pages, 1, 1, 1);
}

static void make_other(plait_op_use *use, const bench_case *c) {
    if (!strcmp(c->op, "kv_write"))
        add_input(use, c->dtype, c->d, PAGE_LEN, c->heads, (c->n + PAGE_LEN - 1) / PAGE_LEN);
    if (!strcmp(c->op, "kv_write") || !strcmp(c->op, "rope") || c->heads > 1)
        add_input(use, PLAIT_F32, c->d, c->heads, c->n, 1);
    else
        add_input(use, PLAIT_F32, c->d, c->n, 1, 1);
    if (!strcmp(c->op, "kv_write") || !strcmp(c->op, "rope")) add_input(use, PLAIT_I32, c->n, 1, 1, 1);
    if (strstr(c->op, "glu") || !strcmp(c->op, "add")) add_input(use, PLAIT_F32, c->d, c->n, 1, 1);
    if (strstr(c->op, "norm")) {
        add_input(use, PLAIT_F32, c->d, 1, 1, 1);
        set_attr(use, "eps", (plait_attr){.f = 1e-5});
    }
    if (!strcmp(c->op, "top_k")) set_attr(use, "k", (plait_attr){.i = 40});
    if (c->attr) set_attr(use, c->attr, (plait_attr){.i = 1});
}

static void make(plait_op_use *use, const bench_case *c, int64_t context) {
    plait_op_use_init(use, plait_op_find(c->op));
    use->n_inputs = 0;
    if (!strcmp(c->op, "attention"))
        make_attention(use, c, context);
    else
        make_other(use, c);
    if (plait_op_infer(use) != PLAIT_OK) {
        fprintf(stderr, "%s: %s\n", c->name, plait_error_message());
        exit(1);
    }
}

/* Ids: positions of one sequence that ends with the cache, pages and slots in order. */
static void fill_ids(plait_op_use *use, const bench_case *c, int64_t context) {
    int64_t n = c->n, first = !strcmp(c->op, "attention") && n == 1 ? context - 1 : 0;
    for (int i = 0; i < use->n_inputs; i++) {
        int32_t *ids = use->inputs[i].data;
        bool sequences = !strcmp(c->op, "attention") && i == PLAIT_ATTENTION_SEQUENCES;
        bool pages = !strcmp(c->op, "attention") && i == PLAIT_ATTENTION_PAGES;
        for (int64_t k = 0; use->inputs[i].dtype == PLAIT_I32 && k < use->inputs[i].dims[0]; k++)
            ids[k] = (int32_t)(sequences ? 0 : pages ? k : first + k);
    }
}

/* ---- running ---- */

typedef struct job {
    plait_cpu_work work;
    const plait_cpu_kernel *kernel;
    plait_cpu_call call;
} job;

static void run_job(const plait_cpu_work *work, int phase, int64_t begin, int64_t end, int thread) {
    const job *j = (const job *)work;
    j->kernel->run(&j->call, phase, begin, end, thread);
}

static int ascending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Operations of causal attention, two for a product and its addition, and bytes of cache one pass reads. */
static double attention_work(const bench_case *c) {
    double keys = (double)c->n * ((double)c->n + 1) / 2;
    return 4.0 * (double)c->d * (double)c->heads * keys;
}

/* One round: seconds, and what the thread could do then. */
typedef struct sample {
    double seconds, limit;
} sample;

static void report(const bench_case *c, const options *o, const plait_op_use *use, const sample *samples) {
    double rates[MAX_ROUNDS], fractions[MAX_ROUNDS], bytes = 0;
    bool attention = !strcmp(c->op, "attention"), prompt = attention && c->n > 1;
    for (int i = 0; i < use->n_inputs; i++)
        if (!attention || i == PLAIT_ATTENTION_K || i == PLAIT_ATTENTION_V)
            bytes += (double)plait_operand_span_bytes(&use->inputs[i]);
    for (int i = 0; i < use->n_outputs && !attention && use->op->writes_input < 0; i++)
        bytes += (double)plait_operand_span_bytes(&use->outputs[i]);
    double work = prompt ? attention_work(c) : bytes;
    for (int r = 0; r < o->rounds; r++) {
        rates[r] = work / samples[r].seconds;
        fractions[r] = rates[r] / samples[r].limit;
    }
    qsort(rates, (size_t)o->rounds, sizeof *rates, ascending);
    qsort(fractions, (size_t)o->rounds, sizeof *fractions, ascending);
    double rate = rates[o->rounds / 2];
    printf("%-30s t %d f %2u %9.1f us  %s %7.2f (best %7.2f)  of the limit %.2f\n", c->name, o->threads,
           o->features, work / rate * 1e6, prompt ? "GFLOP/s" : "GB/s   ", rate * 1e-9,
           rates[o->rounds - 1] * 1e-9, fractions[o->rounds / 2]);
    fflush(stdout);
}

static void measure(const bench_case *c, const options *o, plait_cpu_pool *pool) {
    static job jobs[MAX_COPIES];
    int64_t units[PLAIT_CPU_MAX_PHASES];
    plait_op_use shape;
    make(&shape, c, o->context);
    int64_t each = 0, copies;
    for (int i = 0; i < shape.n_inputs; i++) each += plait_operand_span_bytes(&shape.inputs[i]);
    copies = plait_max_i64(1, plait_min_i64(o->bytes / each, MAX_COPIES));
    if (!strncmp(c->name, "attention-prompt", 16)) copies = plait_min_i64(copies, 2);
    for (int64_t i = 0; i < copies; i++) {
        job *j = &jobs[i];
        memset(j, 0, sizeof *j);
        j->call = (plait_cpu_call){.use = shape, .n_threads = o->threads, .features = o->features};
        fill(&j->call.use);
        fill_ids(&j->call.use, c, o->context);
        j->kernel = plait_cpu_kernel_find(&shape, NULL, o->features, NULL, 0);
        j->call.scratch = i > 0 ? jobs[0].call.scratch
                                : memory(64 + (j->kernel->scratch_bytes
                                                   ? (int64_t)j->kernel->scratch_bytes(&shape, o->threads)
                                                   : 0));
        j->work = (plait_cpu_work){.n_phases = j->kernel->n_phases, .units = units, .run = run_job};
    }
    for (int p = 0; p < jobs[0].kernel->n_phases; p++) units[p] = jobs[0].kernel->units(&jobs[0].call, p);
    sample samples[MAX_ROUNDS];
    int64_t read_bytes = plait_min_i64(plait_max_i64(each * copies, 1 << 20), o->bytes) / 256 * 256;
    uint64_t *buffer = memory(read_bytes);
    bool prompt = !strncmp(c->name, "attention-prompt", 16);
    for (int r = -1; r < o->rounds; r++) {
        double limit = prompt ? fma_rate(o->features) : read_rate(buffer, read_bytes), start = now_s();
        for (int64_t i = 0; i < copies; i++) plait_cpu_pool_run(pool, &jobs[i].work);
        if (r >= 0) samples[r] = (sample){(now_s() - start) / (double)copies, limit};
    }
    report(c, o, &shape, samples);
    free(buffer);
    free(jobs[0].call.scratch);
    for (int64_t i = 0; i < copies; i++) discard(&jobs[i].call.use);
}

int main(int argc, char **argv) {
    options o = {1, 7, 256 << 20, 2048, plait_cpu_features_detect()};
    int i = 1;
    for (; i + 1 < argc && argv[i][0] == '-'; i += 2) {
        switch (argv[i][1]) {
        case 't': o.threads = atoi(argv[i + 1]); break;
        case 'r': o.rounds = atoi(argv[i + 1]); break;
        case 'm': o.bytes = (int64_t)atoi(argv[i + 1]) << 20; break;
        case 'f': o.features = (uint32_t)atoi(argv[i + 1]); break;
        case 'c': o.context = atoi(argv[i + 1]); break;
        case 'p': processor_time = atoi(argv[i + 1]) != 0; break;
        default: fprintf(stderr, "unknown option %s\n", argv[i]); return 2;
        }
    }
    if (o.rounds < 1 || o.rounds > MAX_ROUNDS || o.context < 1) return 2;
    plait_cpu_pool *pool = NULL;
    if (plait_cpu_pool_create(o.threads, &pool) != PLAIT_OK) return 1;
    plait_cpu_pool_acquire(pool);
    for (size_t c = 0; c < PLAIT_COUNT_OF(cases); c++) {
        bool wanted = i == argc;
        for (int a = i; a < argc; a++) wanted |= !strncmp(cases[c].name, argv[a], strlen(argv[a]));
        if (wanted) measure(&cases[c], &o, pool);
    }
    plait_cpu_pool_release(pool);
    plait_cpu_pool_destroy(pool);
    return 0;
}
