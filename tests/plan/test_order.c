/* The least set of waits: by hand for small plans; for random ones against the closure of all conflicts, pair by pair; and
 * no wait can be left out without the proof's objection. Lives: what another queue uses has its bytes for as long. */
#include "plan/plan.h"

#include "support/fake_device.h"
#include "support/layers.h"
#include "support/planned.h"
#include "support/random_graph.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

static void make(planned *f, plait_graph *graph, const char *devices, const plait_pin *pins, int n_pins,
                 int depth) {
    plait_residence_options options = {.pins = pins, .n_pins = n_pins, .split = PLAIT_SPLIT_NONE};
    planned_make(f, graph, devices, &options, depth);
}

/* ---- by hand ---- */

/* n stages in a row, stage s on device s: x = silu(x + x). */
static plait_graph *stages(int n) {
    plait_graph *g = plait_graph_create(&(plait_graph_options){.name = "stages"});
    plait_tensor x = plait_input(g, "x", PLAIT_F32, PLAIT_SHAPE(64, 4));
    for (int s = 0; s < n; s++) {
        char scope[16];
        snprintf(scope, sizeof scope, "stage%d.", s);
        plait_graph_scope(g, scope);
        x = plait_silu(g, plait_add(g, x, x));
    }
    plait_output(g, "y", x);
    assert_ok(plait_graph_seal(g));
    return g;
}

static const plait_pin stage_pins[] = {{"stage0.*", 0}, {"stage1.*", 1}, {"stage2.*", 2}, {"stage3.*", 3}};

static int count_waits(const plait_plan *plan, bool before) {
    int n = 0;
    for (size_t w = 0; w < plan->n_waits; w++) n += plan->waits[w].before == before;
    return n;
}

/* A pipeline: each stage waits for the one ahead of it, and no stage of a step for the end of the step before. */
static void test_pipeline(void **state) {
    (void)state;
    static const struct {
        const char *devices;
        int n, here, before;
    } cases[] = {
        /* The target pulls: its launch queue waits for the stage ahead; what it pulled from may be made again only when
         * it has pulled, which the stage ahead waits for in the next step. */
        {"fake,fake", 2, 1, 1},
        {"fake,fake,fake", 3, 2, 2},
        {"fake,fake,fake,fake", 4, 3, 3},
        {"fake", 1, 0, 0},
        /* One copy queue each: input -> launch -> send -> receive -> launch -> output. The next step's input stands
         * behind the send, its receive behind the output: their queue orders all that comes again. */
        {"fake:hide=yes:copy=1,fake:hide=yes:copy=1", 2, 5, 0},
        /* One for each direction: the launch waits for the send that still reads, the receive for the launch that does,
         * and the second launch for the output. */
        {"fake:hide=yes:copy=2,fake:hide=yes:copy=2", 2, 5, 3},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        planned f = {0};
        make(&f, stages(cases[i].n), cases[i].devices, stage_pins, cases[i].n, 0);
        if (count_waits(f.plan, false) != cases[i].here || count_waits(f.plan, true) != cases[i].before)
            fail_msg("%s: %d waits in a step and %d for the step before, expected %d and %d",
                     cases[i].devices, count_waits(f.plan, false), count_waits(f.plan, true), cases[i].here,
                     cases[i].before);
        for (size_t w = 0; w < f.plan->n_waits;
             w++) { /* across steps stages wait for their successors only */
            const plait_plan_wait *wait = &f.plan->waits[w];
            if (!wait->before) continue;
            for (size_t s = 0; s < f.plan->n_steps; s++)
                if (w >= f.plan->steps[s].first_wait &&
                    w < f.plan->steps[s].first_wait + f.plan->steps[s].n_waits)
                    assert_true(f.plan->steps[wait->step].device <= f.plan->steps[s].device + 1);
        }
        planned_destroy(&f);
    }
}

/* ---- against all pairs ---- */

enum { MOST = 4000 };

/* An access of a step of the list to bytes of a memory. */
typedef struct touch {
    uint32_t memory; /* device * 4 + slot; staging of transfers: UINT32_MAX */
    uint64_t begin, end;
    size_t step; /* counted over two steps of the run */
    bool write;
} touch;

typedef struct pairs {
    const plait_plan *plan;
    touch touches[MOST];
    size_t n;
    bool *after; /* [step][step] the first comes after the second, by what is required */
} pairs;

static void add_touch(pairs *p, uint32_t memory, uint64_t begin, uint64_t end, size_t step, bool write) {
    if (begin >= end) return;
    assert_true(p->n < MOST);
    p->touches[p->n++] = (touch){memory, begin, end, step, write};
}

/* Inputs and staging are other memory in the next step. */
static void add_value(pairs *p, uint32_t v, uint64_t begin, uint64_t end, size_t step, bool write) {
    const plait_plan_value *value = &p->plan->values[v];
    size_t round = step / p->plan->n_steps;
    if (value->slot >= PLAIT_SLOT_WEIGHTS || value->elided) return;
    uint64_t place = value->slot == PLAIT_SLOT_INPUTS ? round << 40 : 0;
    add_touch(p, (uint32_t)value->device * 4 + value->slot, place + value->offset + begin,
              place + value->offset + end, step, write);
}

static void add_whole(pairs *p, uint32_t v, size_t step, bool write) {
    add_value(p, v, 0, p->plan->values[v].size_bytes, step, write);
}

static void add_step(pairs *p, size_t at) {
    const plait_plan *plan = p->plan;
    const plait_plan_step *step = &plan->steps[at % plan->n_steps];
    const plait_plan_transfer *transfer = &plan->transfers[step->item];
    const plait_plan_output *output = &plan->outputs[step->item];
    if (step->kind == PLAIT_STEP_WRITE_INPUT) add_whole(p, plan->inputs[step->item].value, at, true);
    if (step->kind == PLAIT_STEP_READ_OUTPUT)
        add_value(p, output->value, output->source_offset, output->source_offset + output->size_bytes, at,
                  false);
    if (step->kind == PLAIT_STEP_MOVE || step->kind == PLAIT_STEP_SEND)
        add_value(p, transfer->source, transfer->part.begin, transfer->part.end, at, false);
    if (step->kind == PLAIT_STEP_MOVE || step->kind == PLAIT_STEP_RECEIVE)
        add_value(p, transfer->target, transfer->part.begin, transfer->part.end, at, true);
    if (step->kind == PLAIT_STEP_SEND || step->kind == PLAIT_STEP_RECEIVE) {
        uint64_t begin = transfer->staging_offset + ((uint64_t)(at / plan->n_steps) << 40);
        add_touch(p, UINT32_MAX, begin, begin + transfer->staging_bytes, at, step->kind == PLAIT_STEP_SEND);
    }
    if (step->kind != PLAIT_STEP_LAUNCH) return;
    const plait_plan_segment *segment = &plan->segments[step->item];
    for (uint32_t n = 0; n < segment->n_nodes; n++) {
        const plait_segment_node *node = &segment->nodes[n];
        for (int i = 0; i < node->n_inputs; i++)
            if (node->present >> i & 1u) add_whole(p, node->inputs[i].value, at, false);
        for (int o = 0; o < node->n_outputs; o++) add_whole(p, node->outputs[o].value, at, true);
    }
    for (int g = 0; g < segment->prepared.n_groups; g++) {
        const plait_group *group = &segment->prepared.groups[g];
        add_touch(p, (uint32_t)segment->device * 4 + PLAIT_SLOT_ARENA, group->scratch_offset,
                  group->scratch_offset + group->scratch_bytes, at, true);
    }
}

static bool clash(const touch *a, const touch *b) {
    uint64_t begin = a->begin > b->begin ? a->begin : b->begin, end = a->end < b->end ? a->end : b->end;
    return a->memory == b->memory && begin < end && (a->write || b->write);
}

/* Fills `edges` with what the queues' order gives, closes it, and returns it: [later][earlier]. */
static bool *queue_order(const plait_plan *plan, size_t n) {
    bool *edges = calloc(n * n, 1);
    assert_non_null(edges);
    for (size_t a = 0; a < n; a++)
        for (size_t b = 0; b < a; b++)
            edges[a * n + b] = plan->steps[a % plan->n_steps].queue == plan->steps[b % plan->n_steps].queue;
    return edges;
}

static void close_edges(bool *edges, size_t n) {
    for (size_t a = 0; a < n; a++) /* earlier rows are closed */
        for (size_t b = a; b-- > 0;)
            for (size_t c = 0; edges[a * n + b] && c < b; c++) edges[a * n + c] |= edges[b * n + c];
}

static void add_waits(const plait_plan *plan, bool *edges, size_t n, size_t without) {
    for (size_t a = 0; a < n; a++) {
        const plait_plan_step *step = &plan->steps[a % plan->n_steps];
        size_t round = a / plan->n_steps;
        for (uint32_t w = step->first_wait; w < step->first_wait + step->n_waits; w++) {
            if (w == without || (plan->waits[w].before && round == 0)) continue;
            size_t other = (round - plan->waits[w].before) * plan->n_steps + plan->waits[w].step;
            edges[a * n + other] = true;
        }
    }
}

/* What has to be in order is what is in order; and every single wait is needed for that. */
static void check_plan(const plait_plan *plan, uint64_t seed, const char *devices) {
    static pairs p;
    size_t n = 2 * plan->n_steps;
    p.plan = plan;
    p.n = 0;
    for (size_t s = 0; s < n; s++) add_step(&p, s);
    bool *needed = queue_order(plan, n), *given = queue_order(plan, n);
    for (size_t a = 0; a < p.n; a++)
        for (size_t b = 0; b < p.n; b++)
            if (p.touches[b].step < p.touches[a].step && clash(&p.touches[a], &p.touches[b]))
                needed[p.touches[a].step * n + p.touches[b].step] = true;
    close_edges(needed, n);
    add_waits(plan, given, n, SIZE_MAX);
    close_edges(given, n);
    for (size_t i = 0; i < n * n; i++)
        if (needed[i] != given[i])
            fail_msg("seed %llu on %s: step %zu %s after step %zu", (unsigned long long)seed, devices, i / n,
                     needed[i] ? "must come" : "need not come", i % n);
    for (size_t w = 0; w < plan->n_waits; w++) {
        bool *less = queue_order(plan, n);
        add_waits(plan, less, n, w);
        close_edges(less, n);
        if (memcmp(less, given, n * n) == 0)
            fail_msg("seed %llu on %s: wait %zu is superfluous", (unsigned long long)seed, devices, w);
        free(less);
    }
    free(needed);
    free(given);
}

static void drop_each_wait(plait_plan *plan, uint64_t seed) {
    for (size_t s = 0; s < plan->n_steps; s++) {
        plait_plan_step *step = &plan->steps[s], keep = *step;
        for (uint32_t w = 0; w < keep.n_waits; w++) {
            plait_plan_wait *waits = plan->waits + keep.first_wait, first = waits[0];
            waits[0] = waits[w], waits[w] = first; /* the dropped one stands first */
            step->first_wait++, step->n_waits--;
            if (plait_plan_verify_queues(plan) == PLAIT_OK)
                fail_msg("seed %llu: step %zu need not wait for step %u", (unsigned long long)seed, s,
                         waits[0].step);
            *step = keep;
            waits[w] = waits[0], waits[0] = first;
        }
    }
    assert_ok(plait_plan_verify_queues(plan));
}

static void test_least_waits(void **state) {
    (void)state;
    static const char *const lists[] = {
        "fake:lack=matmul+rope,fake:lack=silu+kv_write",
        "fake:lack=matmul+rope:copy=1:hide=yes,fake:lack=silu+kv_write:copy=1:hide=yes",
        ("fake:lack=matmul+add:copy=2,fake:lack=silu+attention:copy=1:hide=yes,"
         "fake:lack=scale+kv_write:group=2"),
        "fake:lack=attention+add:hide=yes,fake:lack=kv_write+mul:hide=yes:copy=2,fake:lack=relu+scale+sub",
    };
    int n_waits = 0, n_before = 0, n_steps = 0;
    for (uint64_t seed = 0; seed < 60; seed++) {
        planned f = {0};
        const char *devices = lists[seed % 4];
        make(&f, random_graph_of(seed, 6 + (int)(seed % 18), false), devices, NULL, 0, seed % 5 ? 0 : 3);
        check_plan(f.plan, seed, devices);
        drop_each_wait(f.plan, seed);
        n_waits += (int)f.plan->n_waits, n_before += count_waits(f.plan, true),
            n_steps += (int)f.plan->n_steps;
        planned_destroy(&f);
    }
    print_message("%d waits for %d commands, %d of them for the step before\n", n_waits, n_steps, n_before);
}

/* ---- lives ---- */

/* The bytes of a value that another queue reads belong to nobody else until a launch is known to come after. */
static void test_lives(void **state) {
    (void)state;
    int held = 0, early = 0;
    for (uint64_t seed = 0; seed < 80; seed++) {
        planned f = {0};
        make(&f, random_graph_of(seed, 20, false),
             "fake:lack=matmul+rope:copy=1:hide=yes,fake:lack=silu+kv_write+add:copy=2", NULL, 0, 0);
        for (size_t t = 0; t < f.plan->n_transfers; t++) {
            const plait_plan_value *from = &f.plan->values[f.plan->transfers[t].source];
            const plait_plan_value *to = &f.plan->values[f.plan->transfers[t].target];
            held += from->held;
            for (size_t s = 0; s < f.plan->n_steps; s++) {
                const plait_plan_step *step = &f.plan->steps[s];
                if (step->kind != PLAIT_STEP_LAUNCH || step->device != to->device ||
                    step->position <= to->first)
                    continue;
                early += step->position -
                         to->first; /* it has its bytes before the launch behind its first position */
                break;
            }
            assert_true(from->slot != PLAIT_SLOT_ARENA || (from->first >= 0 && from->first <= from->last));
            assert_true(to->slot != PLAIT_SLOT_ARENA || (to->first >= 0 && to->first <= to->last));
            assert_true(from->last < f.plan->devices[from->device].n_positions);
            assert_true(to->last < f.plan->devices[to->device].n_positions);
        }
        planned_destroy(&f);
    }
    assert_true(held > 50 && early > 50);
}

static void test_depth(void **state) {
    (void)state;
    static const int depths[] = {2, 3, 7, 16};
    for (size_t i = 0; i < sizeof depths / sizeof *depths; i++) {
        planned f = {0};
        make(&f, stages(3), "fake,fake,fake", stage_pins, 3, depths[i]);
        assert_int_equal(f.plan->depth, depths[i]);
        planned_destroy(&f);
    }
    static const int wrong[] = {1, 17, -1};
    for (size_t i = 0; i < 3; i++) {
        plait_context *context = NULL;
        plait_plan *plan = NULL;
        plait_graph *g = stages(1);
        assert_ok(plait_context_open(&context, "fake", NULL));
        assert_int_equal(plait_plan_make(&plan, context, g, &(plait_plan_options){.depth = wrong[i]}),
                         PLAIT_INVALID_ARGUMENT);
        assert_non_null(strstr(plait_error_message(), "expected 2 to 16"));
        plait_graph_destroy(g);
        plait_context_close(context);
    }
}

static int make_known(void **state) {
    (void)state;
    return fake_register() == PLAIT_OK ? 0 : -1;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pipeline),
        cmocka_unit_test(test_least_waits),
        cmocka_unit_test(test_lives),
        cmocka_unit_test(test_depth),
    };
    return cmocka_run_group_tests(tests, make_known, NULL);
}
