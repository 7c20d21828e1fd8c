/* Programs: compiled once and launched often, with other buffers, dims and inputs, by several queues and threads at
 * once; a program keeps nothing of what it was made from, and two programs have nothing in common. And `supports`,
 * which always gives the same answer. Not here: whether results are right to the last bit (ops.c, segments.c).
 *
 * Invariant: what a launch must give is what the same program gave alone, with the same inputs; that one is compared
 * with the reference. */
#include "base/alloc.h"
#include "base/size.h"
#include "conformance/built.h"
#include "conformance/case.h"
#include "conformance/kit.h"

#include <stdlib.h>
#include <string.h>

enum { BOUND = 6, N_LANES = 3, N_THREADS = 4 };

/* ---- a small program, and places to run it in ---- */

/* y = silu(w2 (w1 norm(x)) + x), some of it over a named dim. Different sizes are different programs. Chains, products
 * of unequal widths and a residual: enough to make a device fuse, and use scratch. */
static plait_status draw_model(plait_conf_work *w, int64_t width, int64_t inner) {
    /* Named dim 0 along axis 1, as it is. */
    const plait_extent columns = {0, 1, 1, 0, 1};
    plait_op_use use;
    plait_operand shapes[] = {{.dtype = PLAIT_F32, .dims = {width, BOUND, 1, 1}},
                              {.dtype = PLAIT_F32, .dims = {width, 1, 1, 1}},
                              {.dtype = PLAIT_F16, .dims = {width, inner, 1, 1}},
                              {.dtype = PLAIT_F32, .dims = {inner, width, 1, 1}}};
    int t[4];
    for (int i = 0; i < 4; i++) {
        plait_operand_make_dense(&shapes[i]);
        /* x is the only one over the named dim; the rest are weights. */
        t[i] = plait_conf_tensor_add(w, &shapes[i], i ? PLAIT_CONF_FIXED : columns, 0, i > 0);
        if (t[i] < 0) return plait_error_memory("conformance", 0);
    }
    plait_op_use_init(&use, plait_op_get(PLAIT_OP_rms_norm));
    use.attrs[0].f = 1e-5;
    int y = plait_conf_apply(w, &use, 2, (int[]){t[0], t[1]}, columns);
    for (int i = 2; i < 4 && y >= 0; i++) {
        plait_op_use_init(&use, plait_op_get(PLAIT_OP_matmul));
        y = plait_conf_apply(w, &use, 2, (int[]){t[i], y}, columns);
    }
    plait_op_use_init(&use, plait_op_get(PLAIT_OP_add));
    if (y >= 0) y = plait_conf_apply(w, &use, 2, (int[]){y, t[0]}, columns);
    plait_op_use_init(&use, plait_op_get(PLAIT_OP_silu));
    if (y >= 0) y = plait_conf_apply(w, &use, 1, &y, columns);
    if (y < 0) return plait_error_context(PLAIT_INTERNAL, "the nodes are refused");
    plait_conf_need(w, y);
    return PLAIT_OK;
}

/* A program and its bench. */
typedef struct model {
    plait_conf_work w;
    plait_conf_built built;
} model;

/* Of a model at any stage, zeroed included. */
static void model_deinit(model *m) {
    plait_conf_built_deinit(&m->built);
    if (m->w.c) plait_conf_work_deinit(&m->w);
}

/* Inputs and weights; small numbers, so that two products keep results near 1. Filled at the bound of the named dim:
 * columns behind its value hold numbers, which must not reach the result. */
static plait_status fill_model(plait_conf_work *w, uint64_t seed) {
    for (int t = 0; t < w->n_tensors; t++) {
        plait_operand host = plait_conf_host(w, t);
        if (w->values[w->tensors[t].value].written) continue;
        host.dims[1] = w->tensors[t].shape.dims[1]; /* all of the bound */
        PLAIT_TRY(plait_conf_values_fill(w->c, &host, PLAIT_CONF_RANDOM, seed + (uint64_t)t, 0.3f));
    }
    return PLAIT_OK;
}

/* A bench with its nodes and numbers; nothing is compiled yet. n is the dim's value now, at most BOUND. A model that
 * some op of the device lacks is lacking as a whole. */
static plait_status model_draw(model *m, plait_conf *c, int64_t width, int64_t inner, int64_t n) {
    plait_conf_work_init(&m->w, c);
    plait_conf_dim(&m->w, BOUND, n);
    PLAIT_TRY(draw_model(&m->w, width, inner));
    PLAIT_TRY(plait_conf_all_supported(c, &m->w));
    PLAIT_TRY(plait_conf_freeze(&m->w));
    return fill_model(&m->w, 1);
}

static plait_status model_make(model *m, plait_conf *c, int64_t width, int64_t inner, int64_t n) {
    PLAIT_TRY(model_draw(m, c, width, inner, n));
    return plait_conf_build(&m->w, 0, m->w.n_nodes, PLAIT_CONF_WHOLE, &m->built);
}

/* Where a program runs: buffers of its own, the bytes that go in and those that must come out. Owned by the kit, all
 * but the model. One thread drives a lane at a time. */
typedef struct lane {
    model *m;
    plait_queue *queue;
    plait_buffer *slots[PLAIT_CONF_SLOTS];
    unsigned char *in, *out, *expected;
} lane;

/* In, launch, out as one list: the whole image goes in, so bytes that an earlier launch left show. */
static plait_status run_lane(lane *l, int64_t n, unsigned char *out) {
    const int64_t dims[1] = {n};
    uint64_t bytes = l->m->w.device_bytes;
    plait_command list[] = {plait_conf_write(l->slots[0], 0, l->in, bytes),
                            plait_conf_launch(l->m->built.program, l->slots, dims),
                            plait_conf_read(l->slots[0], 0, out, bytes)};
    return plait_conf_do(l->queue, list, 3);
}

/* Within a hundredth: this is about running programs, not about rounding. Only the last node's first output is looked
 * at; a wrong value in between would show in it. */
static plait_status check_against_reference(model *m, const unsigned char *image) {
    const plait_segment_node *last = &m->w.nodes[m->w.n_nodes - 1];
    PLAIT_TRY(plait_conf_run_reference(&m->w));
    for (int t = 0; t < m->w.n_tensors; t++)
        if (m->w.tensors[t].value == last->outputs[0].value) {
            double difference = plait_conf_difference(&m->w, t, image, 1);
            PLAIT_CONF_EXPECT(difference < 1e-2,
                              "the result differs from the reference by %.3g, at most 0.01", difference);
        }
    return PLAIT_OK;
}

/* Inputs of their own, and what they give, run alone, which is what the reference gives. The expected bytes are the
 * device's own, which the reference has confirmed: later runs are compared byte for byte, as law 9 asks, and not within
 * a tolerance. */
static plait_status make_lane(plait_conf_kit *kit, model *m, uint64_t seed, int64_t n, lane *out) {
    plait_conf *c = m->w.c;
    uint64_t bytes = m->w.device_bytes;
    *out = (lane){.m = m};
    m->w.dims[0] = n;
    PLAIT_TRY(plait_conf_queue(kit, c->device, 0, &out->queue));
    PLAIT_TRY(plait_conf_buffer(kit, c->device, bytes, PLAIT_BUFFER_STATE, &out->slots[0]));
    PLAIT_TRY(plait_conf_scratch_create(&m->built, out->queue, &out->slots[1]));
    PLAIT_TRY(plait_conf_keep_buffer(kit, out->slots[1]));
    PLAIT_TRY(plait_conf_bytes(kit, bytes, &out->in));
    PLAIT_TRY(plait_conf_bytes(kit, bytes, &out->out));
    PLAIT_TRY(plait_conf_bytes(kit, bytes, &out->expected));
    PLAIT_TRY(fill_model(&m->w, seed));
    PLAIT_TRY(plait_conf_upload(&m->w, out->queue, out->slots[0]));
    /* The device's image as it goes in. The bench's own is filled anew for the next lane. */
    memcpy(out->in, m->w.uploaded, bytes);
    PLAIT_TRY(run_lane(out, n, out->expected));
    return check_against_reference(m, out->expected);
}

/* Byte for byte, gaps included, and the scratch's gaps at the end. */
static plait_status repeat_lane(lane *l, int times, int64_t n) {
    for (int i = 0; i < times; i++) {
        PLAIT_TRY(run_lane(l, n, l->out));
        PLAIT_TRY(plait_error_context(
            plait_conf_same(l->out, l->expected, l->m->w.device_bytes, "the image of a program"), "run %d",
            i));
    }
    return plait_conf_scratch_check(&l->m->built, l->queue, l->slots[1]);
}

/* A check over one or two models, which it gets undrawn. */
typedef plait_status (*models_fn)(plait_conf *c, plait_conf_kit *kit, model *models);

/* Models are large, so they are allocated; the check's own cleaning up is theirs. */
static plait_status with_models(plait_conf *c, plait_conf_kit *kit, const void *user) {
    models_fn fn = *(const models_fn *)user;
    model *models = plait_alloc_array(2, sizeof *models);
    if (!models) return plait_error_memory("conformance", 2 * sizeof *models);
    plait_status status =
        c->computes ? fn(c, kit, models) : plait_conf_lack(c, "the device computes nothing");
    for (int i = 0; i < 2; i++) model_deinit(&models[i]);
    free(models);
    return status;
}

/* ---- what is kept ---- */

/* The segment, what prepare answered, names and bounds are overwritten and gone before the first launch. A device that
 * kept a pointer reads rubbish, or, under a sanitizer, freed memory. */
static plait_status keeps_nothing(plait_conf *c, plait_conf_kit *kit, model *m) {
    lane l;
    char *name = plait_string_copy("a name that is gone");
    if (!name) return plait_error_memory("conformance", 20);
    plait_status status = model_draw(m, c, 64, 96, BOUND);
    /* A name on the heap, which is overwritten and freed before the launch. */
    for (int n = 0; n < m->w.n_nodes; n++) m->w.nodes[n].name = name;
    if (status == PLAIT_OK) status = plait_conf_build(&m->w, 0, m->w.n_nodes, PLAIT_CONF_WHOLE, &m->built);
    if (status == PLAIT_OK) {
        /* 0xEE everywhere: counts that are too large and pointers that lead nowhere. */
        memset(m->built.nodes, 0xEE, (size_t)m->w.n_nodes * sizeof *m->built.nodes);
        memset(m->built.operands, 0xEE,
               (size_t)m->w.n_nodes * PLAIT_CONF_OPERANDS * sizeof *m->built.operands);
        free(m->built.nodes);
        free(m->built.operands);
        m->built.nodes = NULL;
        m->built.operands = NULL;
        m->w.bounds[0] = 1;
        memset(&m->built.segment, 0xEE, sizeof m->built.segment);
        c->v->prepared_destroy(c->device, &m->built.prepared);
        m->built.prepared = (plait_prepared){0};
        m->built.is_prepared = false;
    }
    memset(name, '?', strlen(name));
    free(name);
    for (int n = 0; n < m->w.n_nodes; n++) m->w.nodes[n].name = m->w.nodes[n].op->name;
    PLAIT_TRY(status);
    return plait_error_context(make_lane(kit, m, 5, BOUND, &l), "a program whose segment is gone");
}

/* ---- one after the other ---- */

/* The same program with three sets of buffers in turn; every set always gives the same bytes. Inputs of different lanes
 * must give different results, or the check would not notice buffers being mixed up. */
static plait_status often(plait_conf *c, plait_conf_kit *kit, model *m) {
    lane lanes[N_LANES];
    PLAIT_TRY(model_make(m, c, 64, 96, BOUND - 1));
    for (int i = 0; i < N_LANES; i++) PLAIT_TRY(make_lane(kit, m, (uint64_t)i * 100, BOUND - 1, &lanes[i]));
    PLAIT_CONF_EXPECT(memcmp(lanes[0].expected, lanes[1].expected, m->w.device_bytes) != 0,
                      "two inputs have given the same bytes");
    for (int i = 0; i < (c->options.deep ? 300 : 30); i++)
        PLAIT_TRY(repeat_lane(&lanes[i % N_LANES], 1, BOUND - 1));
    return PLAIT_OK;
}

/* Every value of the named dim, in no order, 0 among them: the columns are those of a run with all of them, and nothing
 * behind the value is touched. So a column's bytes may not depend on how many there are. 0 comes twice, the second time
 * behind other values, for a launch of nothing must not leave anything to the next one either. */
static plait_status dims(plait_conf *c, plait_conf_kit *kit, model *m) {
    static const int64_t values[] = {1, BOUND, 0, 3, 5, 0, 2, BOUND, 4};
    lane l;
    PLAIT_TRY(model_make(m, c, 64, 96, BOUND));
    PLAIT_TRY(make_lane(kit, m, 7, BOUND, &l));
    for (size_t i = 0; i < PLAIT_COUNT_OF(values); i++) {
        int64_t n = m->w.dims[0] = values[i];
        memset(l.out, 0, m->w.device_bytes);
        PLAIT_TRY(run_lane(&l, n, l.out));
        PLAIT_TRY(plait_error_context(plait_conf_untouched(&m->w, l.out), "dim %lld", (long long)n));
        m->w.dims[0] = BOUND;
        /* Columns are contiguous in the result: the first n of them are its beginning. */
        const plait_segment_operand *y = &m->w.nodes[m->w.n_nodes - 1].outputs[0];
        uint64_t at = m->w.shown[y->value], bytes = (uint64_t)(n * y->shape.strides[1]);
        PLAIT_TRY(plait_error_context(
            plait_conf_same(l.out + at, l.expected + at, bytes, "columns of fewer columns"), "dim %lld",
            (long long)n));
    }
    return PLAIT_OK;
}

/* A dim that an earlier command of the same list brings to the host. Before that it shows the bound, with which the
 * launch would write more columns. */
static plait_status dims_late(plait_conf *c, plait_conf_kit *kit, model *m) {
    int64_t stored[1] = {2}, shown[1] = {BOUND};
    plait_buffer *numbers;
    lane l;
    PLAIT_TRY(model_make(m, c, 64, 96, 2));
    PLAIT_TRY(make_lane(kit, m, 8, 2, &l));
    PLAIT_TRY(plait_conf_buffer(kit, c->device, sizeof stored, PLAIT_BUFFER_STATE, &numbers));
    plait_command write = plait_conf_write(numbers, 0, stored, sizeof stored);
    PLAIT_TRY(plait_conf_do(l.queue, &write, 1));
    plait_command list[] = {plait_conf_write(l.slots[0], 0, l.in, m->w.device_bytes),
                            plait_conf_read(numbers, 0, shown, sizeof shown),
                            plait_conf_launch(m->built.program, l.slots, shown),
                            plait_conf_read(l.slots[0], 0, l.out, m->w.device_bytes)};
    PLAIT_TRY(plait_conf_do(l.queue, list, 4));
    return plait_conf_same(l.out, l.expected, m->w.device_bytes,
                           "the image of a launch whose dim an earlier command has brought");
}

/* ---- at once ---- */

typedef struct race {
    lane lanes[N_LANES];
    int64_t n[N_LANES];
    int times;
} race;

/* One thread a lane. */
static plait_status run_race(void *user, int index) {
    race *r = user;
    return plait_error_context(repeat_lane(&r->lanes[index], r->times, r->n[index]), "thread %d", index);
}

/* One program on several queues, each driven by a thread, with inputs and dims of their own. A compiled program is
 * immutable: whatever a launch writes must be the launch's own. Lanes are made one after the other, so each has been
 * right alone before they race. */
static plait_status several_queues(plait_conf *c, plait_conf_kit *kit, model *m) {
    race r = {.times = c->options.deep ? 300 : 40};
    PLAIT_TRY(model_make(m, c, 64, 96, BOUND));
    for (int i = 0; i < N_LANES; i++) {
        /* A dim of its own for each: a program that keeps the last one it saw mixes them up. */
        r.n[i] = BOUND - i;
        PLAIT_TRY(make_lane(kit, m, (uint64_t)i * 10 + 1, r.n[i], &r.lanes[i]));
    }
    return plait_conf_parallel(N_LANES, run_race, &r);
}

/* Two programs of different sizes, at once. */
static plait_status two_programs(plait_conf *c, plait_conf_kit *kit, model *models) {
    race r = {.times = c->options.deep ? 300 : 40};
    PLAIT_TRY(model_make(&models[0], c, 64, 96, BOUND));
    /* Wider and with an odd inner width, so that its scratch and units are others. */
    PLAIT_TRY(model_make(&models[1], c, 128, 33, BOUND));
    for (int i = 0; i < 2; i++) {
        r.n[i] = BOUND;
        PLAIT_TRY(make_lane(kit, &models[i], (uint64_t)i + 1, BOUND, &r.lanes[i]));
    }
    PLAIT_TRY(plait_conf_parallel(2, run_race, &r));
    /* And in turns: what one leaves behind is nothing to the other. */
    for (int i = 0; i < 10; i++) PLAIT_TRY(repeat_lane(&r.lanes[i % 2], 1, BOUND));
    return PLAIT_OK;
}

/* Launches beside transfers of other queues, some of them copy queues. The launch is in flight while bytes go in and
 * out of another buffer; it is waited for in each round, since its list is on this function's stack. The failure is
 * saved over the synchronise, which may leave a message of its own. */
static plait_status move_beside(plait_conf_kit *kit, plait_conf *c, uint32_t flags, const lane *l,
                                int times) {
    enum { BYTES = 100000 };
    plait_queue *queue;
    plait_buffer *buffer;
    unsigned char *in, *out;
    PLAIT_TRY(plait_conf_queue(kit, c->device, flags, &queue));
    PLAIT_TRY(plait_conf_buffer(kit, c->device, BYTES, PLAIT_BUFFER_STATE, &buffer));
    PLAIT_TRY(plait_conf_bytes(kit, BYTES, &in));
    PLAIT_TRY(plait_conf_bytes(kit, BYTES, &out));
    const int64_t n[1] = {BOUND};
    plait_error_record failure;
    plait_command launch = plait_conf_launch(l->m->built.program, l->slots, n);
    plait_command around[] = {plait_conf_write(buffer, 0, in, BYTES), plait_conf_read(buffer, 0, out, BYTES)};
    for (int i = 0; i < times; i++) {
        plait_conf_pattern(in, BYTES, (uint32_t)i);
        PLAIT_TRY(c->v->submit(l->queue, &launch, 1));
        plait_status moved = plait_conf_do(queue, around, 2);
        if (moved == PLAIT_OK) moved = plait_conf_same(out, in, BYTES, "bytes that moved beside launches");
        if (moved != PLAIT_OK) plait_error_save(moved, &failure);
        PLAIT_TRY(c->v->synchronise(l->queue)); /* before this function's launch is gone */
        if (moved != PLAIT_OK) return plait_error_raise(&failure);
    }
    return PLAIT_OK;
}

/* The launches' own result is looked at last. */
static plait_status beside_copies(plait_conf *c, plait_conf_kit *kit, model *m) {
    lane l;
    PLAIT_TRY(model_make(m, c, 64, 96, BOUND));
    PLAIT_TRY(make_lane(kit, m, 1, BOUND, &l));
    PLAIT_TRY(move_beside(kit, c, PLAIT_QUEUE_COPY, &l, 20));
    PLAIT_TRY(move_beside(kit, c, 0, &l, 20));
    return repeat_lane(&l, 1, BOUND);
}

/* ---- making programs at once ---- */

typedef struct factory {
    plait_conf *c;
    unsigned char *image;
    uint64_t bytes;
} factory;

/* Everything from the segment to the result. */
static plait_status make_and_run(plait_conf *c, unsigned char *expected, uint64_t bytes) {
    model m = {0};
    plait_status status = model_draw(&m, c, 64, 96, BOUND);
    unsigned char *out = status == PLAIT_OK ? plait_conf_image(&m.w) : NULL;
    if (status == PLAIT_OK) status = plait_conf_run_device(&m.w, PLAIT_CONF_WHOLE, out);
    if (status == PLAIT_OK)
        status = plait_conf_same(out, expected, bytes, "the image of one of several programs");
    model_deinit(&m);
    return status;
}

/* The suite's state is copied, with a queue and a cache of blocks of its own: both belong to one thread. Four programs
 * for each thread: the first ones are made while the other threads start. */
static plait_status work_in_factory(void *user, int index) {
    const factory *f = user;
    plait_conf own = *f->c;
    (void)index;
    own.blocks = NULL;
    own.queue = NULL;
    plait_status status = own.v->queue_create(own.device, 0, &own.queue);
    for (int i = 0; i < 4 && status == PLAIT_OK; i++) status = make_and_run(&own, f->image, f->bytes);
    if (own.queue) own.v->queue_destroy(own.queue);
    plait_conf_blocks_destroy(own.blocks);
    return status;
}

/* Preparing and compiling are calls of any thread; what they share inside a device must not mix. */
static plait_status made_at_once(plait_conf *c, plait_conf_kit *kit, model *m) {
    factory f = {.c = c};
    PLAIT_TRY(model_draw(m, c, 64, 96, BOUND));
    f.bytes = m->w.device_bytes;
    PLAIT_TRY(plait_conf_bytes(kit, f.bytes, &f.image));
    PLAIT_TRY(plait_conf_run_device(&m->w, PLAIT_CONF_WHOLE, f.image));
    return plait_conf_parallel(N_THREADS, work_in_factory, &f);
}

/* ---- spans ---- */

/* Groups are those of the prepared segment, or the launch as a whole. */
static plait_status check_spans(const model *m, const plait_launch_trace *trace) {
    PLAIT_CONF_EXPECT(trace->n <= trace->capacity, "a launch left %zu spans in room for %zu", trace->n,
                      trace->capacity);
    for (size_t i = 0; i < trace->n; i++)
        PLAIT_CONF_EXPECT(trace->spans[i].group >= PLAIT_SPAN_WHOLE &&
                              trace->spans[i].group < m->built.prepared.n_groups &&
                              trace->spans[i].begin_ns <= trace->spans[i].end_ns,
                          "span %zu is of group %d of %d, from %llu to %llu", i, trace->spans[i].group,
                          m->built.prepared.n_groups, (unsigned long long)trace->spans[i].begin_ns,
                          (unsigned long long)trace->spans[i].end_ns);
    return PLAIT_OK;
}

/* With no room, with room for one span, and with more than enough. What lies behind the room stays. Rooms 0, 1 and 40.
 * The span array has one more than the largest, as a guard. */
static plait_status traces(plait_conf *c, plait_conf_kit *kit, model *m) {
    enum { ROOM = 40 };
    struct plait_launch_span spans[ROOM + 1];
    const int64_t n[1] = {BOUND};
    lane l;
    PLAIT_TRY(model_make(m, c, 64, 96, BOUND));
    PLAIT_TRY(make_lane(kit, m, 1, BOUND, &l));
    for (size_t room = 0; room <= ROOM; room = room ? room * 40 : 1) {
        plait_launch_trace trace = {.capacity = room, .spans = room ? spans : NULL};
        memset(spans, 0xEE, sizeof spans);
        plait_command launch = plait_conf_launch(m->built.program, l.slots, n);
        launch.launch.trace = &trace;
        PLAIT_TRY(plait_conf_do(l.queue, &launch, 1));
        PLAIT_TRY(check_spans(m, &trace));
        PLAIT_TRY(plait_conf_all((const unsigned char *)&spans[room], 0xEE, sizeof *spans,
                                 "spans behind the room"));
    }
    return PLAIT_OK;
}

/* ---- update ---- */

/* A node whose attribute shows in every element. */
static plait_status draw_scale(plait_conf *c, plait_conf_work *w, int *out_tensor) {
    plait_operand x = {.dtype = PLAIT_F32, .dims = {40, 1, 1, 1}};
    plait_op_use use;
    plait_operand_make_dense(&x);
    int in = plait_conf_tensor_add(w, &x, PLAIT_CONF_FIXED, 0, false);
    plait_op_use_init(&use, plait_op_get(PLAIT_OP_scale));
    use.attrs[0].f = 0.5;
    *out_tensor = plait_conf_apply(w, &use, 1, &in, PLAIT_CONF_FIXED);
    if (*out_tensor < 0) return plait_error_context(PLAIT_INTERNAL, "scale is refused");
    PLAIT_TRY(plait_conf_all_supported(c, w));
    PLAIT_TRY(plait_conf_freeze(w));
    plait_operand host = plait_conf_host(w, in);
    PLAIT_TRY(plait_conf_values_fill(c, &host, PLAIT_CONF_RANDOM, 1, 1));
    return plait_conf_upload(w, c->queue, w->image);
}

/* Another factor, in the same program. The reference gets it too. A device that lacks the slot leaves the program as it
 * was. */
static plait_status update_scale(plait_conf *c, plait_conf_kit *kit, model *m, int tensor) {
    const int nodes[] = {0};
    plait_buffer *slots[PLAIT_CONF_SLOTS] = {m->w.image};
    unsigned char *out = plait_conf_image(&m->w);
    if (!out) return plait_error_memory("conformance", m->w.device_bytes);
    PLAIT_TRY(plait_conf_scratch_create(&m->built, c->queue, &slots[PLAIT_CONF_SLOT_SCRATCH]));
    PLAIT_TRY(plait_conf_keep_buffer(kit, slots[PLAIT_CONF_SLOT_SCRATCH]));
    /* In the segment, which the device reads now, and on the bench, for the reference. */
    m->w.nodes[0].attrs[0].f = m->built.nodes[0].attrs[0].f = -3;
    plait_conf_forget_message();
    plait_status status = c->v->program_update(c->device, m->built.program, &m->built.segment, nodes, 1);
    PLAIT_TRY(plait_conf_optional(c, status, "program_update"));
    plait_command list[] = {plait_conf_launch(m->built.program, slots, m->w.dims),
                            plait_conf_read(m->w.image, 0, out, m->w.device_bytes)};
    PLAIT_TRY(plait_conf_do(c->queue, list, 2));
    PLAIT_TRY(plait_conf_run_reference(&m->w));
    double difference = plait_conf_difference(&m->w, tensor, out, 1);
    PLAIT_CONF_EXPECT(difference < 1e-6, "an updated program differs from the reference by %.3g", difference);
    return PLAIT_OK;
}

static plait_status updated(plait_conf *c, plait_conf_kit *kit, model *m) {
    int tensor;
    plait_conf_work_init(&m->w, c);
    PLAIT_TRY(draw_scale(c, &m->w, &tensor));
    PLAIT_TRY(plait_conf_build(&m->w, 0, 1, PLAIT_CONF_WHOLE, &m->built));
    return update_scale(c, kit, m, tensor);
}

/* ---- supports ---- */

enum { REASON_BYTES = 120, SHORT_BYTES = 12 };

/* Three times in fact, with room for a reason that is long, long again, and short. The reason must end within its room,
 * and be the same. Without encodings (NULL) all operands are in file form, which is the same question. */
static plait_status ask_twice(plait_conf *c, const plait_op_use *use) {
    const plait_encoding file[PLAIT_MAX_INPUTS] = {PLAIT_ENCODING_FILE};
    char first[REASON_BYTES] = "", again[REASON_BYTES] = "", shorter[SHORT_BYTES + 1];
    bool answer = c->v->supports(c->device, use, file, first, sizeof first);
    PLAIT_CONF_EXPECT(c->v->supports(c->device, use, NULL, again, sizeof again) == answer,
                      "%s: supports says %s, and the contrary when asked again", use->op->name,
                      answer ? "yes" : "no");
    /* One byte more than it is told of, as a guard. */
    memset(shorter, '#', sizeof shorter);
    PLAIT_CONF_EXPECT(c->v->supports(c->device, use, file, shorter, SHORT_BYTES) == answer,
                      "%s: supports says %s, and the contrary when asked again", use->op->name,
                      answer ? "yes" : "no");
    if (answer) return PLAIT_OK;
    PLAIT_CONF_EXPECT(first[0] && strcmp(first, again) == 0,
                      "%s: supports gives the reasons \"%s\" and \"%s\"", use->op->name, first, again);
    PLAIT_CONF_EXPECT(shorter[SHORT_BYTES] == '#' && memchr(shorter, '\0', SHORT_BYTES),
                      "%s: the reason of supports does not end within the %d bytes it was given",
                      use->op->name, SHORT_BYTES);
    return PLAIT_OK;
}

/* From another op on in each thread, so that different questions are asked at the same time. */
static plait_status ask_about_all(void *user, int index) {
    plait_conf *c = user;
    plait_conf_case test;
    for (int k = 0; k < PLAIT_OP_COUNT; k++) {
        const plait_op *op = plait_op_get((index * 7 + k) % PLAIT_OP_COUNT);
        for (int which = 0; plait_conf_case_init(&test, op, which); which++)
            PLAIT_TRY(ask_twice(c, &test.use));
    }
    return PLAIT_OK;
}

/* Alone first, then from four threads: supports may be asked by anybody at any time. */
static plait_status check_supports(plait_conf *c, void *user) {
    (void)user;
    PLAIT_TRY(ask_about_all(c, 0));
    return plait_conf_parallel(N_THREADS, ask_about_all, c);
}

void plait_conf_programs(plait_conf *c) {
    static const struct {
        const char *name;
        models_fn fn;
    } checks[] = {{"program/keeps-nothing", keeps_nothing},
                  {"program/often", often},
                  {"program/dims", dims},
                  {"program/dims-late", dims_late},
                  {"program/several-queues", several_queues},
                  {"program/two-at-once", two_programs},
                  {"program/beside-copies", beside_copies},
                  {"program/made-at-once", made_at_once},
                  {"program/spans", traces},
                  {"program/update", updated}};
    for (size_t i = 0; i < PLAIT_COUNT_OF(checks); i++)
        plait_conf_check_kit(c, checks[i].name, with_models, &checks[i].fn);
    plait_conf_check(c, "program/supports", check_supports, NULL);
}
