/* What planning costs, pass by pass, in nanoseconds a node: a decoder with the numbers of a 1B model, chains and meshes of
 * up to 100,000 nodes on one to eight devices that compute nothing, and the layers of model files.
 *
 * usage: bench_plan [-r ROUNDS] [-n MOST_NODES] [-o GRAPH] [MODEL.gguf...]
 *
 * Default: 5 rounds, 100000 nodes, no model. -o decoder1, mesh4, ...: only that graph, on that many devices.
 *
 * Each row is the median of its rounds, pass by pass. `plan` is the sum of what the planner does itself (residence, place,
 * segment, lives, reorder, memory, order, verify, arena); preparing and compiling are the devices' work and stand apart. `find` is an equal graph,
 * built again, that finds its plan in a cache. `step` is a step of the finished plan, all threads together: handing its
 * commands to devices that do nothing, no planning. `ratio` is the arena beside its lower bound on the worst device, `bytes` all
 * arenas and inputs together.
 *
 * Not a test: nothing is checked. */
#include "graphs.h"

#include "base/os.h"
#include "model/model.h"
#include "plait/run.h"
#include "plan/plan.h"

#include <string.h>
#include <time.h>
#include <unistd.h>

enum { MOST_ROUNDS = 1024, COLUMNS = PLAIT_PASS_COUNT + 4, GRAPH = PLAIT_PASS_COUNT, RESIDENCE, FIND, STEP };

static const char *const columns[COLUMNS] = {[GRAPH] = "graph",
                                             [RESIDENCE] = "residence",
                                             [PLAIT_PASS_PLACE] = "place",
                                             [PLAIT_PASS_LIVES] = "lives",
                                             [PLAIT_PASS_REORDER] = "reorder",
                                             [PLAIT_PASS_ORDER] = "order",
                                             [PLAIT_PASS_MEMORY] = "memory",
                                             [PLAIT_PASS_SEGMENT] = "segment",
                                             [PLAIT_PASS_PREPARE] = "prepare",
                                             [PLAIT_PASS_VERIFY] = "verify",
                                             [PLAIT_PASS_COMPILE] = "compile",
                                             [PLAIT_PASS_ARENA] = "arena"};

typedef struct measured {
    uint64_t ns[COLUMNS][MOST_ROUNDS];
    int n_rounds;
    size_t n_nodes, n_values, n_transfers;
    uint64_t arena_bytes, bound_bytes; /* where their ratio is worst */
    uint64_t all_bytes;
} measured;

static int by_value(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

static double median_per_node(measured *m, int column) {
    qsort(m->ns[column], (size_t)m->n_rounds, sizeof(uint64_t), by_value);
    return (double)m->ns[column][m->n_rounds / 2] / (double)m->n_nodes;
}

static void print_head(void) {
    printf("%-22s %8s %8s %9s", "graph", "nodes", "values", "transfers");
    printf(" %9s", columns[GRAPH]);
    printf(" %9s", columns[RESIDENCE]);
    for (int p = 0; p < PLAIT_PASS_COUNT; p++) printf(" %9s", columns[p]);
    printf(" %9s %6s %6s %6s %11s\n", "plan", "find", "step", "ratio", "bytes");
}

static void print_row(const char *name, measured *m) {
    double sum = 0;
    printf("%-22s %8zu %8zu %9zu", name, m->n_nodes, m->n_values, m->n_transfers);
    printf(" %9.0f", median_per_node(m, GRAPH));
    printf(" %9.0f", sum += median_per_node(m, RESIDENCE));
    for (int p = 0; p < PLAIT_PASS_COUNT; p++) {
        double ns = median_per_node(m, p);
        if (p != PLAIT_PASS_PREPARE && p != PLAIT_PASS_COMPILE) sum += ns;
        printf(" %9.0f", ns);
    }
    printf(" %9.0f %6.2f %6.2f %6.3f %11llu\n", sum, median_per_node(m, FIND), median_per_node(m, STEP),
           m->bound_bytes ? (double)m->arena_bytes / (double)m->bound_bytes : 1,
           (unsigned long long)m->all_bytes);
    fflush(stdout);
}

static void note_memory(measured *m, const plait_plan *plan) {
    m->all_bytes = 0;
    for (int d = 0; d < plan->context->n_devices; d++) {
        const plait_plan_device *row = &plan->devices[d];
        m->all_bytes += row->arena_bytes + row->input_bytes;
        bool worse = !m->bound_bytes || (double)row->arena_bytes * (double)m->bound_bytes >
                                            (double)m->arena_bytes * (double)row->bound_bytes;
        if (row->bound_bytes && worse) m->arena_bytes = row->arena_bytes, m->bound_bytes = row->bound_bytes;
    }
}

/* Time of the processor that this thread had: on a machine that others use too, wall time says little. Passes are timed by
 * the plan in wall time; each gets the share of it that planning as a whole had. */
static uint64_t thread_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* Time in which a copy of the graph, read back from its text, finds the plan that was made of it. */
static uint64_t find_again(plait_context *context, const plait_graph *graph, plait_residence *residence) {
    plait_plan_cache *cache = NULL;
    plait_plan *plan = NULL, *again = NULL;
    plait_graph *copy = NULL;
    char *text = NULL;
    if (plait_plan_cache_create(&cache, context, 0) != PLAIT_OK) fail_now("cache");
    plait_plan_options options = {.residence = residence, .cache = cache};
    if (plait_plan_make(&plan, context, graph, &options) != PLAIT_OK) fail_now("plan");
    if (plait_graph_print(graph, &text) != PLAIT_OK) fail_now("print");
    if (plait_graph_parse(text, strlen(text), &copy) != PLAIT_OK) fail_now("parse");
    uint64_t best = UINT64_MAX;
    for (int k = 0; k < 3;
         k++) { /* a program that rebuilds its graph has looked at the old one not long ago */
        uint64_t begin = thread_ns();
        if (plait_plan_make(&again, context, copy, &options) != PLAIT_OK) fail_now("plan");
        uint64_t took = thread_ns() - begin;
        if (again != plan) fail_now("an equal graph did not find its plan");
        if (took < best) best = took;
        plait_plan_release(again);
    }
    plait_plan_release(plan);
    plait_plan_cache_destroy(cache);
    plait_graph_destroy(copy);
    free(text);
    return best;
}

/* Processor time of a step of the plan with every dim at 1, so that bytes of outputs do not count. */
static uint64_t step_again(plait_plan *plan) {
    enum { STEPS = 64 };
    plait_run *run = NULL;
    struct timespec begin, end;
    if (plait_residence_load_zeros(plan->residence) != PLAIT_OK) fail_now("weights");
    if (plait_run_create(&run, plan, NULL) != PLAIT_OK) fail_now("run");
    for (size_t d = 0; d < plan->graph->n_dims; d++)
        if (plait_run_set_dim(run, plan->graph->dims[d].name, 1) != PLAIT_OK) fail_now("dim");
    for (int warm = 0; warm < 4; warm++)
        if (plait_run_step(run) != PLAIT_OK) fail_now("step");
    if (plait_run_wait(run) != PLAIT_OK) fail_now("step");
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &begin);
    for (int k = 0; k < STEPS; k++)
        if (plait_run_step(run) != PLAIT_OK) fail_now("step");
    if (plait_run_wait(run) != PLAIT_OK) fail_now("step");
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &end);
    plait_run_destroy(run);
    int64_t ns = (end.tv_sec - begin.tv_sec) * 1000000000 + end.tv_nsec - begin.tv_nsec;
    return (uint64_t)(ns / STEPS);
}

/* One round: residence and plan of a graph that took graph_ns to build. */
static void measure(measured *m, plait_context *context, const plait_graph *graph, uint64_t graph_ns,
                    const plait_residence_options *options) {
    const plait_graph *graphs[] = {graph};
    plait_residence *residence = NULL;
    plait_plan *plan = NULL;
    uint64_t begin = thread_ns(), wall;
    if (plait_residence_create(&residence, context, graphs, 1, options) != PLAIT_OK) fail_now("residence");
    m->ns[GRAPH][m->n_rounds] = graph_ns;
    m->ns[RESIDENCE][m->n_rounds] = thread_ns() - begin;
    wall = plait_time_ns(), begin = thread_ns();
    if (plait_plan_make(&plan, context, graph, &(plait_plan_options){.residence = residence}) != PLAIT_OK)
        fail_now("plan");
    double share = (double)(thread_ns() - begin) / (double)(plait_time_ns() - wall);
    for (int p = 0; p < PLAIT_PASS_COUNT; p++)
        m->ns[p][m->n_rounds] = (uint64_t)((double)plan->pass_ns[p] * share);
    /* Printing and parsing cost more than all the rest: a few rounds tell. */
    m->ns[FIND][m->n_rounds] =
        m->n_rounds < 8 ? find_again(context, graph, residence) : m->ns[FIND][m->n_rounds - 8];
    m->ns[STEP][m->n_rounds] = m->n_rounds < 3 ? step_again(plan) : m->ns[STEP][m->n_rounds - 3];
    m->n_rounds++;
    m->n_nodes = graph->n_nodes;
    m->n_values = plan->n_values;
    m->n_transfers = plan->n_transfers;
    note_memory(m, plan);
    plait_plan_release(plan);
    plait_residence_release(residence);
}

/* ---- synthetic graphs ---- */

static plait_context *open_nulls(int n) {
    char list[256] = "null";
    plait_context *context;
    for (int i = 1; i < n; i++) strcat(list, ",null");
    if (plait_context_open(&context, list, NULL) != PLAIT_OK) fail_now("context");
    return context;
}

typedef enum kind { CHAIN, MESH, DECODER } kind;

static plait_graph *make_graph(kind which, int64_t n, const spread *how) {
    /* The numbers of Llama 3.2 1B. */
    static const decoder_shape one_b = {16, 2048, 32, 8, 8192, 128256, 512, 128};
    switch (which) {
    case CHAIN: return make_chain(n, how);
    case MESH: return make_mesh(n, how);
    default: return make_decoder(&one_b, how);
    }
}

static const char *only = ""; /* -o */

static void bench_graph(kind which, int64_t n, spread how, int rounds) {
    static const char *const names[] = {"chain", "mesh", "decoder"};
    char name[64], patterns[8][8];
    plait_pin pins[8];
    static measured m;
    snprintf(name, sizeof name, "%s%d%s", names[which], how.n_devices, how.run ? " mixed" : "");
    if (only[0] && strcmp(only, name) != 0) return;
    memset(&m, 0, sizeof m);
    plait_context *context = open_nulls(how.n_devices);
    for (int d = 0; d < how.n_devices; d++) {
        snprintf(patterns[d], sizeof patterns[d], "d%d.*", d);
        pins[d] = (plait_pin){patterns[d], d};
    }
    /* Given, so that what is measured is planning and not the system's counting of its free memory, half a millisecond a
     * residence. */
    uint64_t budgets[8];
    for (int d = 0; d < how.n_devices; d++) budgets[d] = (uint64_t)1 << 50;
    plait_residence_options options = {
        .pins = pins, .n_pins = how.n_devices > 1 ? how.n_devices : 0, .budget_bytes = budgets};
    for (int r = 0; r < rounds; r++) {
        uint64_t begin = thread_ns();
        plait_graph *graph = make_graph(which, n, &how);
        measure(&m, context, graph, thread_ns() - begin, &options);
        plait_graph_destroy(graph);
    }
    print_row(name, &m);
    plait_context_close(context);
}

/* ---- model files ---- */

static void bench_model(const char *path, const char *devices, int rounds) {
    plait_context *context;
    plait_model *model;
    static measured m;
    memset(&m, 0, sizeof m);
    char name[64];
    if (plait_context_open(&context, devices, NULL) != PLAIT_OK) fail_now("context");
    plait_model_options options = {.dry = true};
    if (plait_model_open(&model, context, path, &options) != PLAIT_OK) fail_now(path);
    const char *slash = strrchr(path, '/');
    snprintf(name, sizeof name, "%.14s %s", slash ? slash + 1 : path, devices);
    for (int r = 0; r < rounds; r++) measure(&m, context, model->engine.layers, 0, NULL);
    print_row(name, &m);
    plait_model_release(model);
    plait_context_close(context);
}

int main(int argc, char **argv) {
    int rounds = 5, option;
    int64_t most = 100000;
    while ((option = getopt(argc, argv, "r:n:o:")) >= 0) {
        if (option == 'r') rounds = atoi(optarg);
        if (option == 'n') most = atoll(optarg);
        if (option == 'o') only = optarg;
        if (option == '?') return 2;
    }
    if (rounds < 1 || rounds > MOST_ROUNDS) rounds = 5;
    print_head();
    for (int i = optind; i < argc; i++) {
        bench_model(argv[i], "null", rounds);
        bench_model(argv[i], "cpu:threads=1", rounds);
    }
    for (int d = 1; d <= 4; d *= 2) bench_graph(DECODER, 0, (spread){.n_devices = d}, rounds);
    for (int which = CHAIN; which <= MESH; which++)
        for (int64_t n = 1000; n <= most; n *= 10)
            for (int d = 1; d <= 8; d *= 2) {
                bench_graph((kind)which, n, (spread){.n_devices = d}, rounds);
                if (d > 1) bench_graph((kind)which, n, (spread){.n_devices = d, .run = 50}, rounds);
            }
    return 0;
}
