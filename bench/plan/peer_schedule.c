/* What the scheduler of ggml takes for graphs like those of bench_plan: chains and meshes node for node, the decoder in
 * ggml's own ops. For each graph it is built, then split and allocated, as a program does whose graph is new each step.
 *
 * usage: peer_schedule [-r ROUNDS] [-n MOST_NODES]
 *
 * Not part of the build: it is compiled against ggml's public headers and its libraries where somebody has them:
 *
 *   cc -O3 -std=gnu17 -I GGML/include bench/plan/peer_schedule.c GGML_LIBRARIES -lstdc++ -lm -fopenmp -o peer_schedule
 *
 * Times are of the processor, medians, per node of ggml's graph (which has views as nodes) and for the whole graph. One
 * device: where several share one memory, as its cpu backends do, the peer moves all nodes to the first of them, and there
 * is nothing to compare. Weights lie in memory that is reserved and never touched. Nothing is computed or checked. */
#include "ggml-alloc.h"
#include "ggml-backend.h"
#include "ggml-cpu.h"
#include "ggml.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum { MOST_ROUNDS = 256, CLASSES = 4, RING = 32 };

typedef struct ggml_tensor tensor;

static struct {
    struct ggml_context *stored, *graph_memory; /* weights and state; one graph */
    struct ggml_cgraph *graph;
    ggml_backend_buffer_t buffer;
    char *base;
    size_t used;
} at;

static uint64_t thread_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static tensor *stored(enum ggml_type type, int64_t a, int64_t b, int64_t c, int64_t d) {
    tensor *t = ggml_new_tensor_4d(at.stored, type, a, b, c, d);
    if (ggml_backend_tensor_alloc(at.buffer, t, at.base + at.used) != GGML_STATUS_SUCCESS) exit(1);
    at.used += (ggml_nbytes(t) + 63) / 64 * 64;
    return t;
}

static tensor *input(enum ggml_type type, int64_t a, int64_t b) {
    tensor *t = ggml_new_tensor_2d(at.graph_memory, type, a, b);
    ggml_set_input(t);
    return t;
}

static void output(tensor *t) {
    ggml_set_output(t);
    ggml_build_forward_expand(at.graph, t);
}

/* ---- the graphs of graphs.h ---- */

static void chain(int64_t n) {
    tensor *x = input(GGML_TYPE_F32, 256, 8);
    for (int64_t i = 0; i < n; i++) x = i % 2 ? ggml_silu(at.graph_memory, x) : ggml_relu(at.graph_memory, x);
    output(x);
}

static uint64_t state;
static uint64_t pick(uint64_t limit) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (state >> 33) % limit;
}

static tensor *ring[CLASSES][RING], *change[CLASSES];
static int64_t made[CLASSES];

static tensor *one_of(int class) {
    int64_t have = made[class] < RING ? made[class] : RING;
    int64_t back = (int64_t)pick(pick(8) ? 4 : RING) % have;
    return ring[class][(made[class] - 1 - back) % RING];
}

static void mesh(int64_t n) {
    static const int64_t widths[CLASSES] = {64, 160, 384, 1024};
    tensor *total[CLASSES];
    state = 7;
    for (int c = 0; c < CLASSES; c++) {
        if (!change[c]) change[c] = stored(GGML_TYPE_F32, widths[c], widths[(c + 1) % CLASSES], 1, 1);
        made[c] = 1;
        ring[c][0] = total[c] = input(GGML_TYPE_F32, widths[c], 16);
    }
    for (int64_t i = 0; i + 2 <= n; i += 2) {
        int class = (int)pick(CLASSES), to = class;
        tensor *a = one_of(class), *y;
        if (pick(6) == 0) {
            y = ggml_mul_mat(at.graph_memory, change[class], a);
            to = (class + 1) % CLASSES;
        } else {
            y = ggml_mul(at.graph_memory, a, one_of(class));
        }
        ring[to][made[to]++ % RING] = y;
        total[to] = ggml_add(at.graph_memory, total[to], y);
        ggml_build_forward_expand(at.graph, total[to]); /* in the order of the program */
    }
    for (int c = 0; c < CLASSES; c++) output(total[c]);
}

enum {
    LAYERS = 16,
    WIDTH = 2048,
    HEADS = 32,
    KV_HEADS = 8,
    HIDDEN = 8192,
    WORDS = 128256,
    BATCH = 512,
    ROWS = 8192
};

static struct layer {
    tensor *norm, *q, *k, *v, *o, *norm2, *gate, *up, *down, *cache_k, *cache_v;
} layers[LAYERS];
static tensor *table, *last_norm;

static void decoder_weights(void) {
    enum { HEAD = WIDTH / HEADS };
    table = stored(GGML_TYPE_Q6_K, WIDTH, WORDS, 1, 1);
    last_norm = stored(GGML_TYPE_F32, WIDTH, 1, 1, 1);
    for (int l = 0; l < LAYERS; l++)
        layers[l] = (struct layer){.norm = stored(GGML_TYPE_F32, WIDTH, 1, 1, 1),
                                   .q = stored(GGML_TYPE_Q4_K, WIDTH, WIDTH, 1, 1),
                                   .k = stored(GGML_TYPE_Q4_K, WIDTH, HEAD * KV_HEADS, 1, 1),
                                   .v = stored(GGML_TYPE_Q4_K, WIDTH, HEAD * KV_HEADS, 1, 1),
                                   .o = stored(GGML_TYPE_Q4_K, WIDTH, WIDTH, 1, 1),
                                   .norm2 = stored(GGML_TYPE_F32, WIDTH, 1, 1, 1),
                                   .gate = stored(GGML_TYPE_Q4_K, WIDTH, HIDDEN, 1, 1),
                                   .up = stored(GGML_TYPE_Q4_K, WIDTH, HIDDEN, 1, 1),
                                   .down = stored(GGML_TYPE_Q4_K, HIDDEN, WIDTH, 1, 1),
                                   .cache_k = stored(GGML_TYPE_F16, HEAD * KV_HEADS, ROWS, 1, 1),
                                   .cache_v = stored(GGML_TYPE_F16, HEAD * KV_HEADS, ROWS, 1, 1)};
}

static tensor *norm(tensor *x, tensor *w) {
    return ggml_mul(at.graph_memory, ggml_rms_norm(at.graph_memory, x, 1e-5f), w);
}

static tensor *heads(tensor *w, tensor *x, tensor *positions, int n) {
    struct ggml_context *c = at.graph_memory;
    tensor *y = ggml_reshape_3d(c, ggml_mul_mat(c, w, x), WIDTH / HEADS, n, BATCH);
    return positions ? ggml_rope_ext(c, y, positions, NULL, WIDTH / HEADS, 0, 0, 10000, 1, 0, 1, 32, 1) : y;
}

/* The cache as attention reads it, after these rows were written. */
static tensor *cached(tensor *cache, tensor *rows, tensor *slots) {
    struct ggml_context *c = at.graph_memory;
    enum { HEAD = WIDTH / HEADS };
    rows = ggml_reshape_2d(c, rows, HEAD * KV_HEADS, BATCH);
    ggml_build_forward_expand(at.graph, ggml_set_rows(c, cache, rows, slots));
    tensor *view = ggml_view_3d(c, cache, HEAD, KV_HEADS, ROWS, HEAD * 2, HEAD * KV_HEADS * 2, 0);
    return ggml_permute(c, view, 0, 2, 1, 3);
}

static void decoder(int64_t n) {
    struct ggml_context *c = at.graph_memory;
    (void)n;
    if (!table) decoder_weights();
    tensor *positions = input(GGML_TYPE_I32, BATCH, 1), *slots = input(GGML_TYPE_I64, BATCH, 1);
    tensor *mask = input(GGML_TYPE_F16, ROWS, BATCH);
    tensor *x = ggml_get_rows(c, table, input(GGML_TYPE_I32, BATCH, 1));
    for (const struct layer *l = layers; l < layers + LAYERS; l++) {
        tensor *h = norm(x, l->norm);
        tensor *q = ggml_permute(c, heads(l->q, h, positions, HEADS), 0, 2, 1, 3);
        tensor *k = cached(l->cache_k, heads(l->k, h, positions, KV_HEADS), slots);
        tensor *v = cached(l->cache_v, heads(l->v, h, NULL, KV_HEADS), slots);
        tensor *y = ggml_flash_attn_ext(c, q, k, v, mask, 0.125f, 0, 0);
        x = ggml_add(c, ggml_mul_mat(c, l->o, ggml_reshape_2d(c, y, WIDTH, BATCH)), x);
        h = norm(x, l->norm2);
        y = ggml_swiglu_split(c, ggml_mul_mat(c, l->gate, h), ggml_mul_mat(c, l->up, h));
        x = ggml_add(c, ggml_mul_mat(c, l->down, y), x);
    }
    output(ggml_mul_mat(c, table, norm(x, last_norm)));
}

/* ---- measuring ---- */

static int by_value(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

static void build(void (*make)(int64_t), int64_t n, size_t most) {
    ggml_reset(at.graph_memory);
    at.graph = ggml_new_graph_custom(at.graph_memory, most, false);
    make(n);
}

static void bench(const char *name, void (*make)(int64_t), int64_t n, int rounds) {
    uint64_t built[MOST_ROUNDS], planned[MOST_ROUNDS];
    size_t most = (size_t)(n ? 2 * n : 2048) + 64;
    struct ggml_init_params memory = {.mem_size = 2 * most * ggml_tensor_overhead() +
                                                  ggml_graph_overhead_custom(most, false),
                                      .no_alloc = true};
    at.graph_memory = ggml_init(memory);
    ggml_backend_t backend = ggml_backend_cpu_init();
    ggml_backend_sched_t sched = ggml_backend_sched_new(&backend, NULL, 1, most, false, false);
    for (int r = -1; r < rounds; r++) { /* the first round reserves memory, and does not count */
        uint64_t begin = thread_ns();
        build(make, n, most);
        uint64_t middle = thread_ns();
        ggml_backend_sched_reset(sched);
        if (!ggml_backend_sched_alloc_graph(sched, at.graph)) exit(1);
        if (r < 0) continue;
        planned[r] = thread_ns() - middle;
        built[r] = middle - begin;
    }
    int nodes = ggml_graph_n_nodes(at.graph);
    qsort(built, (size_t)rounds, sizeof *built, by_value);
    qsort(planned, (size_t)rounds, sizeof *planned, by_value);
    printf("%-10s %8d %9.0f %9.0f %12.1f %12zu\n", name, nodes, (double)built[rounds / 2] / nodes,
           (double)planned[rounds / 2] / nodes, (double)planned[rounds / 2] / 1000,
           ggml_backend_sched_get_buffer_size(sched, backend));
    fflush(stdout);
    ggml_backend_sched_free(sched);
    ggml_backend_free(backend);
    ggml_free(at.graph_memory);
}

int main(int argc, char **argv) {
    int rounds = 9, option;
    int64_t most = 100000;
    while ((option = getopt(argc, argv, "r:n:")) >= 0) {
        if (option == 'r') rounds = atoi(optarg);
        if (option == 'n') most = atoll(optarg);
        if (option == '?') return 2;
    }
    if (rounds < 1 || rounds > MOST_ROUNDS) rounds = 9;
    size_t reserved = (size_t)2 << 30;
    at.base =
        mmap(NULL, reserved, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at.base == MAP_FAILED) return 1;
    at.buffer = ggml_backend_cpu_buffer_from_ptr(at.base, reserved);
    ggml_backend_buffer_set_usage(at.buffer, GGML_BACKEND_BUFFER_USAGE_WEIGHTS);
    at.stored = ggml_init((struct ggml_init_params){.mem_size = 1 << 20, .no_alloc = true});
    printf("%-10s %8s %9s %9s %12s %12s\n", "graph", "nodes", "build", "schedule", "us in all", "bytes");
    bench("decoder", decoder, 0, rounds);
    for (int64_t n = 1000; n <= most; n *= 10) {
        bench("chain", chain, n, rounds);
        bench("mesh", mesh, n, rounds);
    }
    return 0;
}
