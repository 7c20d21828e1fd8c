/* Where weights and state go: by ratio, by cost, by pins, by memory; what happens when something does not fit; what is
 * shared by blocks or graphs; and that none of it depends on the order of devices or on shares of nothing. */
#include "plan/plan.h"

#include "support/assert_ok.h"
#include "support/decoder.h"
#include "support/fake_device.h"
#include "support/random_graph.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>

typedef struct fixture {
    plait_context *context;
    plait_graph *graphs[3];
    int n_graphs;
    plait_residence *residence;
} fixture;

static plait_status decide(fixture *f, const char *devices, const plait_residence_options *options) {
    assert_ok(plait_context_open(&f->context, devices, NULL));
    const plait_graph *graphs[3];
    for (int g = 0; g < f->n_graphs; g++) graphs[g] = f->graphs[g];
    return plait_residence_create(&f->residence, f->context, graphs, f->n_graphs, options);
}

/* Another decision about the same graphs. */
static void forget(fixture *f) {
    plait_residence_release(f->residence);
    plait_context_close(f->context);
    f->residence = NULL;
    f->context = NULL;
}

static void destroy(fixture *f) {
    forget(f);
    for (int g = 0; g < f->n_graphs; g++) plait_graph_destroy(f->graphs[g]);
}

/* A decoder and what makes logits of its result, with the embedding's table as output matrix if `tied`. */
static void make_model(fixture *f, int n_layers, int64_t width, bool tied) {
    f->graphs[0] = decoder_make(n_layers, width, 8);
    plait_graph *g = f->graphs[1] = plait_graph_create(&(plait_graph_options){.name = "tail"});
    assert_non_null(f->graphs[0]);
    assert_non_null(g);
    plait_dim n = plait_graph_dim(g, "tokens", 8);
    plait_tensor x = plait_input(g, "x", PLAIT_F32, PLAIT_SHAPE(width, n));
    plait_tensor w =
        plait_weight(g, tied ? "token_embd.weight" : "output.weight", PLAIT_Q8_0, PLAIT_SHAPE(width, 128));
    plait_output(g, "logits", plait_named(g, "output", plait_matmul(g, w, x)));
    assert_ok(plait_graph_seal(g));
    f->n_graphs = 2;
}

static uint64_t bytes_on(const fixture *f, int device) {
    uint64_t own, mapped, kept;
    plait_residence_bytes(f->residence, device, &own, &mapped, &kept);
    return own + mapped + kept;
}

static int blocks_on(const fixture *f, int device) {
    double asked, held;
    int n;
    plait_residence_shares(f->residence, device, &asked, &held, &n);
    return n;
}

static int device_of(const fixture *f, const char *name) {
    const plait_resident *entry = plait_residence_find(f->residence, name, -1);
    if (!entry) fail_msg("%s lives nowhere", name);
    if (entry->next >= 0) return -2; /* on several */
    return entry->device;
}

/* Every weight and state of a block of the decoder is on one device. */
static int device_of_block(const fixture *f, int block) {
    static const char *const parts[] = {"attn_norm", "attn_q",   "attn_k", "attn_v",  "attn_output",
                                        "ffn_norm",  "ffn_gate", "ffn_up", "ffn_down"};
    int device = -1;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        char name[64];
        snprintf(name, sizeof name, "blk.%d.%s.weight", block, parts[i]);
        int here = device_of(f, name);
        if (device >= 0 && here != device) fail_msg("%s is on %d, its block on %d", name, here, device);
        device = here;
    }
    for (int which = 0; which < 2; which++) {
        char name[64];
        snprintf(name, sizeof name, "cache.%c.%d", which ? 'v' : 'k', block);
        assert_int_equal(device_of(f, name), device);
    }
    assert_int_equal(plait_residence_block_device(f->residence, block), device);
    return device;
}

/* ---- ratio ---- */

/* Whole blocks in order, shares kept as well as blocks allow, nothing where the share is 0. */
static void test_ratio(void **state) {
    (void)state;
    static const struct {
        const char *devices;
        double ratio[3];
    } cases[] = {{"fake,fake", {1, 1}},         {"fake,fake", {1, 3}},
                 {"fake,fake", {0.49, 0.51}},   {"fake,fake", {0, 1}},
                 {"fake,fake", {1, 0}},         {"fake,fake,fake", {1, 1, 1}},
                 {"fake,fake,fake", {5, 0, 2}}, {"fake,fake,fake", {41, 29, 30}}};
    fixture f = {0};
    make_model(&f, 20, 64, false);
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        plait_residence_options options = {.split = PLAIT_SPLIT_LAYER, .ratio = cases[c].ratio};
        assert_ok(decide(&f, cases[c].devices, &options));
        int n = f.context->n_devices, blocks = 0, last = 0;
        double sum = 0, largest = (double)bytes_on(&f, 0), shares = 0;
        for (int b = 0; b < 20; b++) {
            int device = device_of_block(&f, b);
            assert_true(device >= last); /* in the order of the devices */
            last = device;
        }
        for (int d = 0; d < n; d++) sum += (double)bytes_on(&f, d), shares += cases[c].ratio[d];
        for (size_t b = 0; b < f.residence->n_blocks; b++)
            if ((double)f.residence->blocks[b].bytes > largest || b == 0)
                largest = (double)f.residence->blocks[b].bytes;
        for (int d = 0; d < n; d++) {
            double asked, held, share = cases[c].ratio[d] / shares;
            int n_blocks;
            plait_residence_shares(f.residence, d, &asked, &held, &n_blocks);
            blocks += n_blocks;
            assert_true(asked == share);
            assert_true(held == (double)bytes_on(&f, d) / sum);
            if (share == 0) assert_int_equal(bytes_on(&f, d), 0);
            if (fabs((double)bytes_on(&f, d) - share * sum) > largest)
                fail_msg("case %zu: device %d holds %.1f%%, asked %.1f%%", c, d, 100 * held, 100 * share);
        }
        assert_int_equal(blocks, 20);
        forget(&f);
    }
    destroy(&f);
}

/* What a device lacks is elsewhere, and counts there: here the cache of every block is on the second device. */
static void test_ratio_with_lacks(void **state) {
    (void)state;
    fixture f = {0};
    const double half[] = {1, 1}, more[] = {9, 1};
    make_model(&f, 20, 64, false);
    assert_ok(decide(&f, "fake:lack=attention,fake", &(plait_residence_options){.ratio = half}));
    double asked, held;
    int n_blocks;
    for (int b = 0; b < 20; b++) {
        char name[32];
        snprintf(name, sizeof name, "cache.k.%d", b);
        assert_int_equal(device_of(&f, name), 1);
    }
    plait_residence_shares(f.residence, 0, &asked, &held, &n_blocks);
    uint64_t weights = bytes_on(&f, 0), all = weights + bytes_on(&f, 1);
    if (n_blocks < 20) assert_true(fabs(held - 0.5) < 0.05);
    forget(&f);
    assert_ok(decide(&f, "fake:lack=attention,fake", &(plait_residence_options){.ratio = more}));
    plait_residence_shares(f.residence, 0, &asked, &held, &n_blocks);
    assert_int_equal(n_blocks, 20); /* as much as there is */
    assert_int_equal(bytes_on(&f, 0) + bytes_on(&f, 1), all);
    destroy(&f);
}

static void test_wrong_ratio(void **state) {
    (void)state;
    fixture f = {0};
    make_model(&f, 1, 64, false);
    static const double wrong[][2] = {{0, 0}, {-1, 2}, {NAN, 1}, {INFINITY, 1}};
    for (size_t i = 0; i < 4; i++) {
        plait_residence_options options = {.ratio = wrong[i]};
        assert_int_equal(decide(&f, "fake,fake", &options), PLAIT_INVALID_ARGUMENT);
        assert_null(f.residence);
        forget(&f);
    }
    plait_residence_options tensor = {.split = PLAIT_SPLIT_TENSOR};
    assert_int_equal(decide(&f, "fake,fake", &tensor), PLAIT_UNSUPPORTED);
    destroy(&f);
}

/* ---- cost ---- */

/* Equal devices: the first alone, for nothing is won by crossing. A faster one: that. A faster one that lacks what is
 * in every block, far away: not that. */
static void test_cost(void **state) {
    (void)state;
    static const struct {
        const char *devices;
        int device;
    } cases[] = {{"fake,fake,fake", 0},
                 {"fake,fake:speed=10", 1},
                 {"fake:speed=10,fake", 0},
                 {"fake,fake:speed=10:lack=swiglu+attention:latency=100000000,fake:speed=2", 2},
                 {"fake:lack=rms_norm,fake", 1}};
    fixture f = {0};
    make_model(&f, 4, 256, false);
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        assert_ok(decide(&f, cases[c].devices, NULL));
        for (int b = 0; b < 4; b++) assert_int_equal(device_of_block(&f, b), cases[c].device);
        for (int d = 0; d < f.context->n_devices; d++)
            assert_int_equal(bytes_on(&f, d) > 0, d == cases[c].device);
        forget(&f);
    }
    destroy(&f);
}

/* The fastest device takes as many blocks as it has memory for, the rest goes to the next best. */
static void test_cost_within_memory(void **state) {
    (void)state;
    fixture f = {0};
    make_model(&f, 12, 64, false);
    assert_ok(decide(&f, "fake", NULL));
    uint64_t all = bytes_on(&f, 0), budget = all / 2;
    forget(&f);
    char devices[128];
    snprintf(devices, sizeof devices, "fake:speed=9:mem=%llu,fake", (unsigned long long)budget);
    for (int k = 0; k < 2; k++) { /* what is free, less a margin; and a budget of the caller's */
        const uint64_t budgets[] = {budget / 2, UINT64_MAX}, reserve[] = {budget / 8, 0};
        plait_residence_options options = {.budget_bytes = k ? budgets : NULL,
                                           .reserve_bytes = k ? reserve : NULL};
        uint64_t most = k ? budget / 2 - budget / 8 : budget - budget / 32;
        assert_ok(decide(&f, devices, &options));
        assert_true(bytes_on(&f, 0) <= most);
        assert_true(bytes_on(&f, 0) + all / 12 > most); /* no further block has room */
        assert_true(blocks_on(&f, 0) >= 1 && blocks_on(&f, 1) >= 1);
        assert_int_equal(blocks_on(&f, 0) + blocks_on(&f, 1), 12);
        forget(&f);
    }
    destroy(&f);
}

/* Two devices whose memory is the host's have it once between them: what fits on one fits on both together, and no more; with
 * memory of their own they have twice as much. */
static void test_unified_memory(void **state) {
    (void)state;
    fixture f = {0};
    make_model(&f, 12, 64, false);
    assert_ok(decide(&f, "fake:unified=yes", NULL));
    uint64_t all = bytes_on(&f, 0);
    forget(&f);
    const double half[] = {1, 1};
    const struct {
        uint64_t mem_bytes;
        const char *memory;
        plait_status status;
    } cases[] = {{all * 3 / 4, "", PLAIT_OK},
                 {all * 3 / 4, ":unified=yes", PLAIT_OUT_OF_MEMORY},
                 {all * 5 / 4, ":unified=yes", PLAIT_OK}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char devices[160];
        snprintf(devices, sizeof devices, "fake:mem=%llu%s,fake:mem=%llu%s",
                 (unsigned long long)cases[i].mem_bytes, cases[i].memory,
                 (unsigned long long)cases[i].mem_bytes, cases[i].memory);
        plait_status status = decide(&f, devices, &(plait_residence_options){.ratio = half});
        if (status != cases[i].status) fail_msg("%s: %s", devices, plait_status_name(status));
        if (status == PLAIT_OK) assert_true(bytes_on(&f, 0) + bytes_on(&f, 1) >= all);
        forget(&f);
    }
    destroy(&f);
}

static void test_nothing_fits(void **state) {
    (void)state;
    fixture f = {0};
    make_model(&f, 12, 64, false);
    assert_int_equal(decide(&f, "fake:mem=100000,fake:mem=200000", NULL), PLAIT_OUT_OF_MEMORY);
    assert_non_null(
        strstr(plait_error_message(), "weights and state do not fit: fake: all of it would take "));
    assert_non_null(strstr(plait_error_message(), "; fake:1: all of it would take "));
    assert_non_null(strstr(plait_error_message(), "there are 94.6 KiB"));
    assert_null(f.residence);
    destroy(&f);
}

/* With --split none, and with a ratio: what does not fit goes to the next device. */
static void test_spill(void **state) {
    (void)state;
    fixture f = {0};
    make_model(&f, 12, 64, false);
    assert_ok(decide(&f, "fake", NULL));
    uint64_t all = bytes_on(&f, 0);
    forget(&f);
    char devices[128];
    snprintf(devices, sizeof devices, "fake:mem=%llu,fake,fake", (unsigned long long)all / 2);
    assert_ok(decide(&f, devices, &(plait_residence_options){.split = PLAIT_SPLIT_NONE}));
    assert_true(bytes_on(&f, 0) <= all / 2 && bytes_on(&f, 0) > all / 3);
    assert_true(bytes_on(&f, 1) >= all / 3);
    assert_int_equal(bytes_on(&f, 2), 0);
    forget(&f);
    const double ratio[] = {1, 0, 0};
    assert_ok(decide(&f, devices, &(plait_residence_options){.ratio = ratio}));
    assert_true(bytes_on(&f, 0) <= all / 2 && bytes_on(&f, 0) > all / 3);
    assert_int_equal(bytes_on(&f, 0) + bytes_on(&f, 1) + bytes_on(&f, 2), all);
    destroy(&f);
}

/* ---- what several readers share ---- */

/* A tied table is there for the lookup and for the product, unless memory is short: then the lookup goes to it. */
static void test_tied(void **state) {
    (void)state;
    fixture f = {0};
    const double half[] = {1, 1};
    make_model(&f, 8, 64, true);
    assert_ok(decide(&f, "fake,fake", &(plait_residence_options){.ratio = half}));
    assert_int_equal(device_of(&f, "token_embd.weight"), -2);
    uint64_t table = 64 * 128 / 32 * 34, first = bytes_on(&f, 0), second = bytes_on(&f, 1);
    forget(&f);
    /* Room for everything but the second copy of the table. */
    const uint64_t budgets[] = {first - table + 4096, second + 4096};
    assert_ok(decide(&f, "fake,fake",
                     &(plait_residence_options){.budget_bytes = budgets, .split = PLAIT_SPLIT_NONE}));
    assert_int_equal(device_of(&f, "token_embd.weight"), 1);
    assert_true(bytes_on(&f, 0) <= budgets[0] && bytes_on(&f, 1) <= budgets[1]);
    plait_plan *plan = NULL;
    assert_ok(
        plait_plan_make(&plan, f.context, f.graphs[0], &(plait_plan_options){.residence = f.residence}));
    assert_string_equal(f.graphs[0]->nodes[0].name, "embed");
    assert_int_equal(plan->placements[0].device, 1);
    plait_plan_release(plan);
    destroy(&f);
}

/* A weight that every block reads is on every device that has a block, once, and does not count twice. */
static void test_shared_weight(void **state) {
    (void)state;
    fixture f = {.n_graphs = 1};
    plait_graph *g = f.graphs[0] = plait_graph_create(NULL);
    plait_tensor x = plait_input(g, "x", PLAIT_F32, PLAIT_SHAPE(64, plait_graph_dim(g, "n", 4)));
    plait_tensor common = plait_weight(g, "common", PLAIT_F32, PLAIT_SHAPE(64, 64));
    for (int b = 0; b < 10; b++) {
        char name[32];
        snprintf(name, sizeof name, "w.%d", b);
        plait_graph_block(g, 3 * b); /* numbers need not be dense */
        x = plait_matmul(g, plait_weight(g, name, PLAIT_F32, PLAIT_SHAPE(64, 64)), x);
        x = plait_matmul(g, common, x);
    }
    plait_graph_block(g, -1);
    plait_output(g, "y", x);
    assert_ok(plait_graph_seal(g));
    const double ratio[] = {2, 1, 0};
    assert_ok(decide(&f, "fake,fake,fake", &(plait_residence_options){.ratio = ratio}));
    uint64_t one = 64 * 64 * 4;
    assert_true(bytes_on(&f, 0) == 8 * one && bytes_on(&f, 1) == 4 * one && bytes_on(&f, 2) == 0);
    assert_non_null(plait_residence_find(f.residence, "common", 0));
    assert_non_null(plait_residence_find(f.residence, "common", 1));
    assert_null(plait_residence_find(f.residence, "common", 2));
    assert_int_equal(plait_residence_block_device(f.residence, 27), 1);
    assert_int_equal(plait_residence_block_device(f.residence, 18), 0);
    forget(&f);
    /* Without room for a second copy it is in one place, and those who read it run there. */
    const uint64_t budgets[] = {6 * one + 1000, 5 * one + 1000};
    assert_ok(decide(&f, "fake,fake", &(plait_residence_options){.budget_bytes = budgets}));
    assert_int_equal(bytes_on(&f, 0) + bytes_on(&f, 1), 11 * one);
    assert_true(bytes_on(&f, 0) <= budgets[0] && bytes_on(&f, 1) <= budgets[1]);
    int home = device_of(&f, "common");
    plait_plan *plan = NULL;
    assert_ok(plait_plan_make(&plan, f.context, g, &(plait_plan_options){.residence = f.residence}));
    for (uint32_t n = 1; n < g->n_nodes; n += 2) assert_int_equal(plan->placements[n].device, home);
    plait_plan_release(plan);
    destroy(&f);
}

/* State that two graphs write is at home where both writers run; a writer through a view of a view writes it too. */
static void test_state_of_two_graphs(void **state) {
    (void)state;
    fixture f = {.n_graphs = 2};
    for (int k = 0; k < 2; k++) {
        plait_graph *g = f.graphs[k] =
            plait_graph_create(&(plait_graph_options){.name = k ? "moves" : "writes"});
        plait_tensor cache = plait_state(g, "cache", PLAIT_F32, PLAIT_SHAPE(8, 4, 2, 6));
        plait_dim n = plait_graph_dim(g, "n", 4);
        if (k == 0) {
            plait_tensor rows = plait_input(g, "rows", PLAIT_F32, PLAIT_SHAPE(8, 2, n));
            plait_tensor slots = plait_input(g, "slots", PLAIT_I32, PLAIT_SHAPE(n));
            plait_tensor part = plait_slice(g, plait_slice(g, cache, 3, 1, 5), 3, 1, 3);
            plait_kv_write(g, part, plait_silu(g, rows), slots);
        } else {
            const plait_tensor inputs[] = {cache, plait_input(g, "list", PLAIT_I32, PLAIT_SHAPE(2, n))};
            plait_apply(g, PLAIT_OP_page_copy, inputs, 2, NULL, 0, NULL, 1);
        }
        assert_ok(plait_graph_seal(g));
    }
    plait_residence_options none = {.split = PLAIT_SPLIT_NONE};
    assert_ok(decide(&f, "fake:lack=page_copy,fake:lack=kv_write,fake", &none));
    assert_int_equal(device_of(&f, "cache"), 2); /* the only one that runs both */
    plait_plan *plan = NULL;
    for (int k = 0; k < 2; k++) {
        assert_ok(
            plait_plan_make(&plan, f.context, f.graphs[k], &(plait_plan_options){.residence = f.residence}));
        assert_int_equal(plan->placements[f.graphs[k]->n_nodes - 1].device, 2);
        assert_int_equal(plan->placements[f.graphs[k]->n_nodes - 1].cause, PLAIT_CAUSE_STATE);
        plait_plan_release(plan);
    }
    forget(&f);
    /* Two writers that only different devices run: the state is with one, what the other writes travels. */
    assert_ok(decide(&f, "fake:lack=page_copy,fake:lack=kv_write", &none));
    int home = device_of(&f, "cache");
    for (int k = 0; k < 2; k++) {
        assert_ok(
            plait_plan_make(&plan, f.context, f.graphs[k], &(plait_plan_options){.residence = f.residence}));
        assert_int_equal(plan->placements[f.graphs[k]->n_nodes - 1].device, k);
        assert_int_equal(plan->n_transfers > 0, home != k || k == 1);
        plait_plan_release(plan);
    }
    destroy(&f);
}

/* ---- pins ---- */

static void test_pins(void **state) {
    (void)state;
    /* In order, the first that matches wins; blocks by name; weights take their readers along; the ratio has the rest. */
    static const plait_pin pins[] = {{"blk.3.ffn_down.weight", 2},
                                     {"blk.3", 1},
                                     {"blk.3.*", 2},
                                     {"cache.k.0", 1},
                                     {"cache.v.0", 1},
                                     {"*.attn_q.weight", 2},
                                     {"token_embd.weight", 1},
                                     {"blk.5.ffn*", 1}};
    const double ratio[] = {1, 0, 0};
    fixture f = {0};
    make_model(&f, 8, 64, false);
    assert_ok(
        decide(&f, "fake,fake,fake", &(plait_residence_options){.ratio = ratio, .pins = pins, .n_pins = 8}));
    assert_int_equal(device_of(&f, "blk.3.ffn_down.weight"), 2);
    assert_int_equal(device_of(&f, "blk.3.ffn_up.weight"), 1);
    assert_int_equal(device_of(&f, "blk.3.attn_q.weight"), 1); /* the pin of its block comes before */
    assert_int_equal(device_of(&f, "cache.k.3"), 1);
    assert_int_equal(device_of(&f, "cache.k.0"), 1);
    assert_int_equal(device_of(&f, "cache.v.0"), 1);
    assert_int_equal(device_of(&f, "cache.v.1"), 0);
    assert_int_equal(device_of(&f, "blk.4.attn_q.weight"), 2);
    assert_int_equal(device_of(&f, "blk.4.attn_k.weight"), 0);
    assert_int_equal(device_of(&f, "token_embd.weight"), 1);
    assert_int_equal(device_of(&f, "blk.5.ffn_up.weight"), 1);
    assert_int_equal(device_of(&f, "blk.5.attn_v.weight"), 0);
    assert_int_equal(plait_residence_find(f.residence, "token_embd.weight", -1)->cause, PLAIT_CAUSE_PINNED);
    plait_plan *plan = NULL;
    assert_ok(
        plait_plan_make(&plan, f.context, f.graphs[0], &(plait_plan_options){.residence = f.residence}));
    for (uint32_t n = 0; n < f.graphs[0]->n_nodes; n++) {
        const char *name = f.graphs[0]->nodes[n].name;
        int expected = -1;
        if (strcmp(name, "blk.3.ffn_down") == 0) expected = 2;
        if (strcmp(name, "blk.3.attention") == 0 || strcmp(name, "blk.3.swiglu") == 0) expected = 1;
        if (strcmp(name, "blk.6.attn_q") == 0) expected = 2;
        if (strcmp(name, "embed") == 0) expected = 1;
        if (expected >= 0 && plan->placements[n].device != expected)
            fail_msg("%s is on %d, expected %d", name, plan->placements[n].device, expected);
    }
    plait_plan_release(plan);
    destroy(&f);
}

/* A pin on a device that lacks the op: it runs elsewhere, and the plan says why. */
static void test_pin_of_what_is_lacking(void **state) {
    (void)state;
    static const plait_pin pins[] = {{"*.ffn_gate.weight", 1}, {"*.swiglu", 1}};
    fixture f = {0};
    make_model(&f, 2, 64, false);
    assert_ok(
        decide(&f, "fake,fake:lack=matmul+swiglu", &(plait_residence_options){.pins = pins, .n_pins = 2}));
    assert_int_equal(device_of(&f, "blk.0.ffn_gate.weight"), 0);
    plait_plan *plan = NULL;
    assert_ok(
        plait_plan_make(&plan, f.context, f.graphs[0], &(plait_plan_options){.residence = f.residence}));
    int seen = 0;
    for (uint32_t n = 0; n < f.graphs[0]->n_nodes; n++) {
        if (strcmp(f.graphs[0]->nodes[n].name, "blk.1.swiglu") != 0) continue;
        assert_int_equal(plan->placements[n].device, 0);
        assert_int_equal(plan->placements[n].cause, PLAIT_CAUSE_LACKING);
        assert_string_equal(plan->placements[n].reason, "it was told to lack swiglu");
        seen++;
    }
    assert_int_equal(seen, 1);
    plait_plan_release(plan);
    destroy(&f);
}

/* Pinned bytes count against the budget of their device; the split has what is left. */
static void test_pins_take_memory(void **state) {
    (void)state;
    static const plait_pin pins[] = {{"blk.7", 0}, {"blk.6", 0}};
    fixture f = {0};
    make_model(&f, 8, 64, false);
    assert_ok(decide(&f, "fake", NULL));
    uint64_t budgets[] = {bytes_on(&f, 0) / 2, UINT64_MAX};
    forget(&f);
    assert_ok(decide(&f, "fake:speed=50,fake",
                     &(plait_residence_options){.pins = pins, .n_pins = 2, .budget_bytes = budgets}));
    assert_int_equal(device_of_block(&f, 7), 0);
    assert_int_equal(device_of_block(&f, 6), 0);
    assert_true(bytes_on(&f, 0) <= budgets[0]);
    assert_true(bytes_on(&f, 0) > budgets[0] / 2); /* and blocks in front as far as there is room */
    assert_int_equal(device_of_block(&f, 0), 0);
    assert_int_equal(device_of_block(&f, 5), 1);
    destroy(&f);
}

/* ---- graphs without blocks ---- */

static void test_without_blocks(void **state) {
    (void)state;
    fixture f = {.n_graphs = 1};
    plait_graph *g = f.graphs[0] = plait_graph_create(NULL);
    plait_tensor x = plait_input(g, "x", PLAIT_F32, PLAIT_SHAPE(64, plait_graph_dim(g, "n", 4)));
    for (int b = 0; b < 12; b++) {
        char name[32];
        snprintf(name, sizeof name, "w.%d", b);
        x = plait_matmul(g, plait_weight(g, name, PLAIT_F32, PLAIT_SHAPE(64, 64)), x);
        x = plait_add(g, x, plait_silu(g, x));
    }
    plait_output(g, "y", x);
    assert_ok(plait_graph_seal(g));
    const double ratio[] = {1, 2, 1};
    assert_ok(decide(&f, "fake,fake,fake", &(plait_residence_options){.ratio = ratio}));
    uint64_t one = 64 * 64 * 4;
    assert_true(bytes_on(&f, 0) == 3 * one && bytes_on(&f, 1) == 6 * one && bytes_on(&f, 2) == 3 * one);
    plait_plan *plan = NULL;
    assert_ok(plait_plan_make(&plan, f.context, g, &(plait_plan_options){.residence = f.residence}));
    assert_int_equal(plan->n_segments, 3); /* glue stays with its neighbours */
    assert_int_equal(plan->n_transfers, 2);
    plait_plan_release(plan);
    destroy(&f);
}

/* More blocks than the split looks at one by one. */
static void test_very_many_blocks(void **state) {
    (void)state;
    fixture f = {0};
    make_model(&f, 700, 32, false);
    const double ratio[] = {1, 1};
    assert_ok(decide(&f, "fake,fake", &(plait_residence_options){.ratio = ratio}));
    assert_int_equal(blocks_on(&f, 0) + blocks_on(&f, 1), 700);
    assert_true(abs(blocks_on(&f, 0) - blocks_on(&f, 1)) <= 4);
    int last = 0;
    for (int b = 0; b < 700; b++) {
        int device = device_of_block(&f, b);
        assert_true(device >= last);
        last = device;
    }
    destroy(&f);
}

/* ---- anything ---- */

/* A random device list; *out_n devices. Some lack ops, some are small, some fast, some far away. */
static void random_devices(uint64_t *seed, char *out, size_t size, int *out_n) {
    static const char *const ops[] = {"attention", "rope",     "kv_write", "matmul",
                                      "swiglu",    "rms_norm", "get_rows", "add"};
    int n = 2 + (int)random_next(seed, 3);
    size_t used = 0;
    for (int d = 0; d < n; d++) {
        used += (size_t)snprintf(out + used, size - used, "%sfake:speed=%d:latency=%d", d ? "," : "",
                                 1 + (int)random_next(seed, 9), 1 + (int)random_next(seed, 50000));
        if (random_next(seed, 3) == 0)
            used += (size_t)snprintf(out + used, size - used, ":lack=%s", ops[random_next(seed, 8)]);
        if (random_next(seed, 4) == 0)
            used +=
                (size_t)snprintf(out + used, size - used, ":mem=%d", 60000 + (int)random_next(seed, 600000));
        if (random_next(seed, 4) == 0) used += (size_t)snprintf(out + used, size - used, ":reach=no");
    }
    *out_n = n;
}

/* Whatever the devices, shares, pins and budgets: a decision within all budgets that every plan can use, or a status that
 * says why not; twice the same. */
static void test_anything(void **state) {
    (void)state;
    static const char *const patterns[] = {
        "blk.1",   "blk.*.attn_*", "cache.*", "*.ffn_down.weight", "token_embd.weight",
        "blk.0.*", "*norm*",       "output"};
    int fitted = 0, too_large = 0, lacking = 0;
    fixture f = {0};
    make_model(&f, 5, 64, true);
    for (uint64_t seed = 1; seed <= 400; seed++) {
        uint64_t s = seed, budgets[4], reserve[4];
        char devices[512];
        double ratio[4] = {0};
        plait_pin pins[3];
        int n;
        random_devices(&s, devices, sizeof devices, &n);
        plait_residence_options options = {.pins = pins, .n_pins = (int)random_next(&s, 4)};
        for (int i = 0; i < options.n_pins; i++)
            pins[i] = (plait_pin){patterns[random_next(&s, 8)], (int)random_next(&s, (uint64_t)n)};
        for (int d = 0; d < n; d++) {
            ratio[d] = (double)random_next(&s, 3);
            budgets[d] = random_next(&s, 3) ? UINT64_MAX : 50000 + random_next(&s, 900000);
            reserve[d] = random_next(&s, 30000);
        }
        ratio[random_next(&s, (uint64_t)n)] += 1;
        if (random_next(&s, 2)) options.ratio = ratio;
        if (random_next(&s, 2)) options.budget_bytes = budgets, options.reserve_bytes = reserve;
        options.split = random_next(&s, 3) || options.ratio ? PLAIT_SPLIT_AUTO : PLAIT_SPLIT_NONE;
        plait_status status = decide(&f, devices, &options);
        if (status != PLAIT_OK) {
            if (status != PLAIT_OUT_OF_MEMORY && status != PLAIT_UNSUPPORTED)
                fail_msg("seed %llu on %s: %s", (unsigned long long)seed, devices, plait_error_message());
            *(status == PLAIT_OUT_OF_MEMORY ? &too_large : &lacking) += 1;
            forget(&f);
            continue;
        }
        fitted++;
        for (int d = 0; d < n; d++) {
            plait_device_info info = f.context->devices[d].info;
            uint64_t most =
                options.budget_bytes ? budgets[d] : info.memory_free_bytes - info.memory_free_bytes / 32;
            uint64_t kept = options.budget_bytes && bytes_on(&f, d) ? reserve[d] : 0;
            if (bytes_on(&f, d) > most || kept > most - bytes_on(&f, d))
                fail_msg("seed %llu on %s: device %d holds %llu bytes, at most %llu",
                         (unsigned long long)seed, devices, d, (unsigned long long)bytes_on(&f, d),
                         (unsigned long long)most);
        }
        for (int g = 0; g < f.n_graphs; g++) {
            plait_plan *plan = NULL, *again = NULL;
            plait_plan_options plan_options = {.residence = f.residence};
            if (plait_plan_make(&plan, f.context, f.graphs[g], &plan_options) != PLAIT_OK)
                fail_msg("seed %llu on %s: %s", (unsigned long long)seed, devices, plait_error_message());
            assert_ok(plait_plan_make(&again, f.context, f.graphs[g], &plan_options));
            for (uint32_t k = 0; k < f.graphs[g]->n_nodes; k++)
                assert_int_equal(plan->placements[k].device, again->placements[k].device);
            plait_plan_release(plan);
            plait_plan_release(again);
        }
        forget(&f);
    }
    print_message("%d decisions, %d times too little memory, %d times an op that nobody runs\n", fitted,
                  too_large, lacking);
    assert_true(fitted > 200);
    destroy(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ratio),
        cmocka_unit_test(test_ratio_with_lacks),
        cmocka_unit_test(test_wrong_ratio),
        cmocka_unit_test(test_cost),
        cmocka_unit_test(test_cost_within_memory),
        cmocka_unit_test(test_unified_memory),
        cmocka_unit_test(test_nothing_fits),
        cmocka_unit_test(test_spill),
        cmocka_unit_test(test_tied),
        cmocka_unit_test(test_shared_weight),
        cmocka_unit_test(test_state_of_two_graphs),
        cmocka_unit_test(test_pins),
        cmocka_unit_test(test_pin_of_what_is_lacking),
        cmocka_unit_test(test_pins_take_memory),
        cmocka_unit_test(test_without_blocks),
        cmocka_unit_test(test_very_many_blocks),
        cmocka_unit_test(test_anything),
    };
    if (fake_register() != PLAIT_OK) return 1;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
