/* Measuring. Not here: any judgement; a slow device passes. Invariant: what is measured goes through submit and
 * synchronise, as a run does. */
#include "conformance/bench.h"

#include "base/os.h"
#include "base/size.h"
#include "conformance/case.h"
#include "conformance/kit.h"

#include <stdlib.h>
#include <string.h>

/* IMAGES_BYTES: more than any cache holds. RUNS_NS: how long a command is repeated, at least MIN_RUNS and at most
 * MAX_RUNS times. */
enum { MAX_IMAGES = 48, MIN_RUNS = 5, MAX_RUNS = 400 };
#define IMAGES_BYTES ((uint64_t)256 << 20)
#define RUNS_NS      ((uint64_t)50000000)
#define LARGE_BYTES  ((uint64_t)64 << 20)

static int compare_numbers(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Times of a command, whose form for run i is commands[i % n]: the median and the least. */
typedef struct timing {
    double median_ns, least_ns;
} timing;

/* From submit to the end of synchronise, one command at a time: what a host pays for it. commands has n forms of the
 * same work over different memory, so that no cache serves the next run. */
static plait_status time_commands(plait_queue *queue, const plait_command *commands, int n, timing *out) {
    double times[MAX_RUNS];
    uint64_t start = plait_time_ns(), now = start;
    int runs = 0;
    PLAIT_TRY(plait_conf_do(queue, commands, 1)); /* the first touch of memory costs extra */
    for (; runs < MAX_RUNS && (runs < MIN_RUNS || now - start < RUNS_NS); runs++) {
        uint64_t before = plait_time_ns();
        PLAIT_TRY(plait_conf_do(queue, &commands[runs % n], 1));
        now = plait_time_ns();
        times[runs] = (double)(now - before);
    }
    qsort(times, (size_t)runs, sizeof *times, compare_numbers);
    *out = (timing){times[runs / 2], times[0]};
    return PLAIT_OK;
}

/* Times of all groups of a case add up, for each segment of it is timed by itself. More images are a wish: with one,
 * weights may come from a cache. */
plait_status plait_conf_time_launch(const plait_conf_built *b, plait_buffer *scratch) {
    plait_conf_work *w = b->w;
    const plait_device_vtable *v = w->c->v;
    plait_buffer *images[MAX_IMAGES], *slots[MAX_IMAGES][PLAIT_CONF_SLOTS];
    plait_command commands[MAX_IMAGES];
    timing once = {0, 0};
    int wanted = (int)plait_min_i64(MAX_IMAGES, (int64_t)(IMAGES_BYTES / w->device_bytes) + 1), n = 1;
    plait_status status = PLAIT_OK;
    images[0] = w->image;
    /* Image 0 is the bench's own, whose memory is certain. */
    while (n < wanted &&
           v->buffer_create(w->c->device, w->device_bytes, PLAIT_BUFFER_TEMPORARY, &images[n]) == PLAIT_OK)
        n++;
    for (int i = 1; i < n && status == PLAIT_OK; i++) status = plait_conf_upload(w, w->c->queue, images[i]);
    for (int i = 0; i < n; i++) {
        slots[i][PLAIT_CONF_SLOT_IMAGE] = images[i];
        slots[i][PLAIT_CONF_SLOT_SCRATCH] = scratch;
        commands[i] = plait_conf_launch(b->program, slots[i], w->dims);
    }
    if (status == PLAIT_OK) status = time_commands(w->c->queue, commands, n, &once);
    for (int i = 1; i < n; i++) v->buffer_destroy(images[i]);
    if (status == PLAIT_OK) {
        w->launch_ns += once.median_ns;
        w->least_ns += once.least_ns;
    }
    return status;
}

/* ---- limits ---- */

/* Of the least time: a limit is what nothing goes beyond, so the fastest run is the best estimate. */
static void keep_larger(double *best, double amount, double ns) {
    double per_s = ns > 0 ? amount / ns * 1e9 : 0;
    if (per_s > *best) *best = per_s;
}

/* Bytes are counted twice: read and written. A device without room for two such buffers has no figure from this, and is
 * none the worse for it. */
static plait_status time_copy(plait_conf *c) {
    plait_buffer *a = NULL, *b = NULL;
    timing t = {0, 0};
    uint64_t n = LARGE_BYTES < c->info.max_buffer_bytes ? LARGE_BYTES : c->info.max_buffer_bytes;
    plait_status status = c->v->buffer_create(c->device, n, PLAIT_BUFFER_STATE, &a);
    if (status == PLAIT_OK) status = c->v->buffer_create(c->device, n, PLAIT_BUFFER_STATE, &b);
    if (status == PLAIT_OK) {
        plait_command copy = plait_conf_copy(a, 0, b, 0, n);
        status = time_commands(c->queue, &copy, 1, &t);
    }
    if (status == PLAIT_OK) keep_larger(&c->bytes_per_s, 2 * (double)n, t.least_ns);
    if (a) c->v->buffer_destroy(a);
    if (b) c->v->buffer_destroy(b);
    return status == PLAIT_OUT_OF_MEMORY ? PLAIT_OK : status;
}

/* A product as large as says something about the device; not compared with the reference, which would take long. */
static plait_status time_product(plait_conf *c, plait_dtype dtype, int64_t k, int64_t m, int64_t n) {
    plait_conf_case test;
    if (!plait_conf_case_init(&test, plait_op_get(PLAIT_OP_matmul), 0)) return PLAIT_OK;
    test.use.inputs[0] = (plait_operand){.dtype = dtype, .dims = {k, m, 1, 1}};
    test.use.inputs[1] = (plait_operand){.dtype = PLAIT_F32, .dims = {k, n, 1, 1}};
    if (!plait_operand_make_dense(&test.use.inputs[0]) || !plait_operand_make_dense(&test.use.inputs[1]))
        return PLAIT_OK;
    if (!plait_conf_case_infer(&test)) return PLAIT_OK;
    test.packed = test.timed = test.unchecked = true;
    plait_status status = plait_conf_case_check(c, &test);
    if (status == PLAIT_OK) {
        keep_larger(&c->bytes_per_s, c->result.bytes, c->least_ns);
        keep_larger(&c->flop_per_s, c->result.flop, c->least_ns);
    }
    c->result.launch_ns = c->result.bytes = c->result.flop = 0;
    return status == PLAIT_UNSUPPORTED || status == PLAIT_OUT_OF_MEMORY ? PLAIT_OK : status;
}

/* One column for the rate of memory, many for that of arithmetic, in several types, of which the device may lack some.
 * 4096 x 4096 weights are 9 to 64 MiB, read once for one column; 256 columns read theirs once for 256 times the
 * work. */
plait_status plait_conf_measure(plait_conf *c) {
    static const plait_dtype types[] = {PLAIT_F32, PLAIT_F16, PLAIT_BF16, PLAIT_Q8_0, PLAIT_Q4_0, PLAIT_Q4_K};
    PLAIT_TRY(time_copy(c));
    for (size_t i = 0; i < PLAIT_COUNT_OF(types); i++) {
        PLAIT_TRY(time_product(c, types[i], 4096, 4096, 1));
        PLAIT_TRY(time_product(c, types[i], 2048, 2048, 256));
    }
    c->lacks = false;
    return PLAIT_OK;
}
