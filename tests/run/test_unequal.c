/* Random graphs on random sets of unequal devices give the bytes of one cpu, step after step: every op with views, states
 * and several outputs, for every value of the dims, whatever the devices lack, refuse, delay or reorder. Every plan is
 * proved on the way.
 *
 * Some hundreds of cases are tried; `test_run_unequal FIRST N` tries N seeds from FIRST on (the target `long-tests` ten
 * thousand). A case that fails is made smaller first: fewer steps in the graph, fewer devices, fewer options. Seeds that
 * once failed stay in `kept`. */
/* labels: run */
#include "base/status.h"
#include "plait/run.h"

#include "support/evaluate.h"
#include "support/random_devices.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

enum {
    LIST_BYTES = 4096,
    MESSAGE_BYTES = 1600,
    MOST_EXAMPLES = 6,
    MOST_PINS = 12,
#if defined(__SANITIZE_ADDRESS__)
    N_NORMAL = 120, /* a case takes ten times as long */
#else
    N_NORMAL = 240,
#endif
    N_STEPS = 5
};

/* Of cases that failed before something was mended. */
static const uint64_t kept[] = {0, 650};

static uint64_t first_seed, n_seeds = N_NORMAL;

/* ---- a case ---- */

typedef struct unequal {
    uint64_t seed;
    int n_steps, n_examples, n_pins;
    random_devices devices;
} unequal;

/* A node made of an example of an op: its inputs are weights, states and inputs of the graph. */
typedef struct example_node {
    const plait_op *op;
    int which;
    uint32_t inputs[PLAIT_MAX_INPUTS]; /* tensors; 0: absent */
    plait_op_use use;
} example_node;

typedef struct examples {
    example_node nodes[MOST_EXAMPLES];
    int n;
} examples;

static bool is_float(plait_dtype dtype) {
    return dtype != PLAIT_I8 && dtype != PLAIT_I16 && dtype != PLAIT_I32 && dtype != PLAIT_I64;
}

static plait_tensor example_input(plait_graph *graph, const example_node *e, int number, int i) {
    const plait_operand *o = &e->use.inputs[i];
    char name[32];
    plait_shape shape = PLAIT_SHAPE(o->dims[0], o->dims[1], o->dims[2], o->dims[3]);
    snprintf(name, sizeof name, "example.%d.%d", number, i);
    if (e->op->writes_input == i) return plait_state(graph, name, o->dtype, shape);
    return is_float(o->dtype) && number % 2 ? plait_weight(graph, name, o->dtype, shape)
                                            : plait_input(graph, name, o->dtype, shape);
}

static void add_example(plait_graph *graph, examples *list, uint64_t *state) {
    example_node *e = &list->nodes[list->n];
    plait_tensor inputs[PLAIT_MAX_INPUTS] = {{0}}, outputs[PLAIT_MAX_OUTPUTS] = {{0}};
    plait_attr_value attrs[PLAIT_MAX_ATTRS];
    char name[32];
    int n_cases = 0;
    e->op = plait_op_get((plait_op_id)random_next(state, PLAIT_OP_COUNT));
    while (e->op->example(n_cases, &e->use)) n_cases++;
    e->which = (int)random_next(state, (uint64_t)n_cases);
    e->op->example(e->which, &e->use);
    for (int i = 0; i < e->use.n_inputs; i++) {
        if (!(e->use.present >> i & 1u)) continue;
        inputs[i] = example_input(graph, e, list->n, i);
        e->inputs[i] = inputs[i].id;
    }
    for (int a = 0; a < e->op->n_attrs; a++)
        attrs[a] = (plait_attr_value){e->op->attrs[a].name, e->use.attrs[a]};
    plait_op_use inferred = e->use;
    for (int i = 0; i < e->use.n_inputs; i++) plait_operand_make_dense(&inferred.inputs[i]);
    if (plait_op_infer(&inferred) != PLAIT_OK) return;
    plait_apply(graph, e->op->id, inputs, e->use.n_inputs, attrs, e->op->n_attrs, outputs,
                inferred.n_outputs);
    for (int o = 0; o < inferred.n_outputs; o++) {
        snprintf(name, sizeof name, "example.%d.out.%d", list->n, o);
        plait_output(graph, name, outputs[o]);
    }
    list->n++;
}

typedef struct extras {
    const unequal *u;
    examples list;
} extras;

static void add_examples(plait_graph *graph, void *user) {
    extras *x = user;
    uint64_t state = x->u->seed * 2 + 77;
    for (int i = 0; i < 8; i++) random_next(&state, 2);
    plait_graph_scope(graph, "");
    for (int i = 0; i < x->u->n_examples; i++) add_example(graph, &x->list, &state);
}

/* Ids, positions and tables of the examples, where the evaluation has them. */
static void fill_examples(evaluation *e, examples *list) {
    for (int k = 0; k < list->n; k++) {
        example_node *node = &list->nodes[k];
        if (!node->op->example_data) continue;
        plait_op_use use = node->use;
        for (int i = 0; i < use.n_inputs; i++)
            if (node->inputs[i]) use.inputs[i] = evaluation_operand(e, node->inputs[i]);
        node->op->example_data(node->which, &use);
    }
}

/* ---- both ways of running it ---- */

typedef struct side {
    char list[LIST_BYTES];
    plait_context *context;
    plait_residence *residence;
    plait_plan *plan;
    plait_run *run;
} side;

typedef struct trial {
    const unequal *u;
    plait_graph *graph;
    evaluation e;
    extras extras;
    side one, many;
} trial;

static plait_status find_weight(void *user, const char *name, plait_operand *out, bool *lasting) {
    trial *t = user;
    plait_tensor tensor;
    PLAIT_TRY(plait_graph_find(t->graph, name, &tensor));
    *out = evaluation_operand(&t->e, tensor.id);
    *lasting = t->u->seed % 2;
    return PLAIT_OK;
}

/* Pins that scatter what cost would keep together. */
static int random_pins(const unequal *u, plait_pin *pins) {
    static const char *const patterns[] = {
        "blk.0.*", "blk.1.*", "blk.2.*",    "blk.3.*",   "cache.k",    "cache.v",  "w.3",  "w.*",
        "*matmul", "*rope",   "*attention", "*kv_write", "*rms_norm",  "*add",     "*mul", "*silu",
        "*copy",   "*scale",  "*get_rows",  "*swiglu",   "example.0*", "example.*"};
    uint64_t state = u->seed * 2 + 5;
    for (int i = 0; i < 8; i++) random_next(&state, 2);
    for (int i = 0; i < u->n_pins; i++)
        pins[i] = (plait_pin){patterns[random_next(&state, sizeof patterns / sizeof *patterns)],
                              (int)random_next(&state, (uint64_t)u->devices.n)};
    return u->n_pins;
}

static plait_status open_side(trial *t, side *s, const plait_pin *pins, int n_pins) {
    const plait_graph *graphs[] = {t->graph};
    plait_residence_options options = {.pins = pins, .n_pins = n_pins};
    plait_weight_source source = {.find = find_weight, .user = t};
    PLAIT_TRY(plait_context_open(&s->context, s->list, NULL));
    PLAIT_TRY(plait_residence_create(&s->residence, s->context, graphs, 1, &options));
    PLAIT_TRY(plait_residence_load(s->residence, &source));
    PLAIT_TRY(
        plait_plan_make(&s->plan, s->context, t->graph, &(plait_plan_options){.residence = s->residence}));
    return plait_run_create(&s->run, s->plan, NULL);
}

static void close_side(side *s) {
    plait_run_destroy(s->run);
    plait_plan_release(s->plan);
    plait_residence_release(s->residence);
    plait_context_close(s->context);
}

static plait_status write_inputs(trial *t, side *s) {
    for (size_t i = 0; i < t->graph->n_storages; i++) {
        const plait_graph_storage *storage = &t->graph->storages[i];
        if (storage->kind != PLAIT_STORAGE_INPUT) continue;
        plait_operand o = evaluation_operand(&t->e, storage->root);
        PLAIT_TRY(plait_run_write(s->run, storage->name, o.data, (uint64_t)plait_operand_span_bytes(&o)));
    }
    return PLAIT_OK;
}

static plait_status submit(trial *t, side *s, int64_t n) {
    PLAIT_TRY(plait_run_set_dim(s->run, "n", n));
    PLAIT_TRY(write_inputs(t, s));
    return plait_run_step(s->run);
}

static plait_status compare(trial *t, int64_t n) {
    for (size_t o = 0; o < t->graph->n_outputs; o++) {
        const char *name = t->graph->outputs[o].name;
        const void *a, *b;
        uint64_t a_size, b_size, k = 0;
        PLAIT_TRY(plait_run_output(t->one.run, name, &a, &a_size));
        PLAIT_TRY(plait_run_output(t->many.run, name, &b, &b_size));
        if (a_size != b_size)
            return plait_error(PLAIT_INTERNAL, "output %s has %llu bytes, expected %llu", name,
                               (unsigned long long)b_size, (unsigned long long)a_size);
        while (k < a_size && ((const uint8_t *)a)[k] == ((const uint8_t *)b)[k]) k++;
        if (k == a_size) continue;
        /* What lies between the rows of a view belongs to nobody. */
        plait_operand x = evaluation_operand(&t->e, t->graph->outputs[o].tensor);
        bool dense = x.dtype != PLAIT_F32 || plait_operand_is_dense(&x);
        if (dense)
            return plait_error(PLAIT_INTERNAL, "n = %lld: byte %llu of output %s differs", (long long)n,
                               (unsigned long long)k, name);
        memcpy(x.data, a, (size_t)a_size);
        if (evaluation_difference(&t->e, t->graph->outputs[o].tensor, b) > 0)
            return plait_error(PLAIT_INTERNAL, "n = %lld: output %s differs", (long long)n, name);
    }
    return PLAIT_OK;
}

/* Every other pair of steps is submitted at once, so that two steps are in flight. */
static plait_status run_steps(trial *t) {
    int64_t bound = t->graph->dims[0].bound;
    const int64_t values[N_STEPS] = {bound, bound > 1 ? bound / 2 : 1, 0, 1, bound};
    for (int k = 0; k < N_STEPS; k++) {
        t->e.dims[0] = values[k];
        evaluation_fill(&t->e, PLAIT_STORAGE_INPUT, 1000 * (uint64_t)k + t->u->seed);
        fill_examples(&t->e, &t->extras.list);
        PLAIT_TRY(submit(t, &t->one, values[k]));
        PLAIT_TRY(submit(t, &t->many, values[k]));
        if (k % 2 == 1 && t->u->seed % 3 == 0) continue;
        PLAIT_TRY(compare(t, values[k]));
    }
    return PLAIT_OK;
}

static plait_status run_trial(trial *t) {
    plait_pin pins[MOST_PINS];
    t->graph = random_graph_with(t->u->seed, t->u->n_steps, false, add_examples, &t->extras);
    if (!t->graph) return PLAIT_INTERNAL;
    if (!evaluation_init(&t->e, t->graph)) return plait_error(PLAIT_OUT_OF_MEMORY, "test: evaluation");
    evaluation_fill(&t->e, PLAIT_STORAGE_WEIGHT, t->u->seed);
    fill_examples(&t->e, &t->extras.list);
    PLAIT_TRY(open_side(t, &t->one, NULL, 0));
    PLAIT_TRY(open_side(t, &t->many, pins, random_pins(t->u, pins)));
    return run_steps(t);
}

/* Of the plans of all cases. */
typedef struct counts {
    int transfers, copies;
} counts;

/* True when the case gives the right bytes; else the message says what was wrong. */
static bool holds(const unequal *u, char *message, counts *n) {
    trial t = {.u = u, .extras = {.u = u}, .one = {.list = "cpu:threads=1"}};
    random_devices_text(&u->devices, t.many.list, sizeof t.many.list);
    plait_status status = run_trial(&t);
    if (status != PLAIT_OK) plait_error_copy(message, MESSAGE_BYTES);
    if (status == PLAIT_OK && n) {
        plait_plan_facts facts;
        plait_plan_describe(t.many.plan, &facts);
        n->transfers += facts.n_transfers;
        n->copies += facts.n_copies;
    }
    close_side(&t.many);
    close_side(&t.one);
    evaluation_deinit(&t.e);
    plait_graph_destroy(t.graph);
    return status == PLAIT_OK;
}

/* ---- making a failing case smaller ---- */

static unequal case_of(uint64_t seed) {
    uint64_t state = seed * 2 + 9;
    for (int i = 0; i < 8; i++) random_next(&state, 2);
    return (unequal){.seed = seed,
                     .n_steps = 2 + (int)random_next(&state, 32),
                     .n_examples = (int)random_next(&state, MOST_EXAMPLES + 1),
                     .n_pins = (int)random_next(&state, MOST_PINS + 1),
                     .devices = random_devices_of(seed)};
}

static bool still_fails(const unequal *u, char *message) {
    char other[MESSAGE_BYTES];
    if (holds(u, other, NULL)) return false;
    strcpy(message, other);
    return true;
}

/* Takes away what can be taken away, one thing after the other, as long as it fails. */
static void shrink(unequal *u, char *message) {
    for (bool smaller = true; smaller;) {
        smaller = false;
        for (int what = 0; what < 3 + 2 * RANDOM_DEVICES * RANDOM_OPTIONS; what++) {
            unequal less = *u;
            int device = (what - 3) / RANDOM_OPTIONS, option = (what - 3) % RANDOM_OPTIONS;
            if (what == 0 && less.n_steps-- < 1) continue;
            if (what == 1 && less.n_examples-- < 1) continue;
            if (what == 2 && less.n_pins-- < 1) continue;
            if (what >= 3 && (device >= less.devices.n || option >= less.devices.devices[device].n_options))
                continue;
            if (what >= 3) {
                random_device *d = &less.devices.devices[device];
                memmove(d->options[option], d->options[option + 1],
                        (size_t)(d->n_options - option - 1) * sizeof *d->options);
                d->n_options--;
            }
            if (still_fails(&less, message)) *u = less, smaller = true;
        }
    }
}

static void try_seed(uint64_t seed, counts *n) {
    char message[MESSAGE_BYTES], list[LIST_BYTES];
    unequal u = case_of(seed);
    if (holds(&u, message, n)) return;
    shrink(&u, message);
    random_devices_text(&u.devices, list, sizeof list);
    fail_msg("seed %llu, %d steps, %d examples, %d pins on %s: %s", (unsigned long long)seed, u.n_steps,
             u.n_examples, u.n_pins, list, message);
}

/* ---- tests ---- */

static void kept_seeds(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof kept / sizeof *kept; i++) try_seed(kept[i], NULL);
}

static void random_seeds(void **state) {
    counts n = {0};
    (void)state;
    for (uint64_t i = 0; i < n_seeds; i++) {
        try_seed(first_seed + i, &n);
        if (n_seeds > N_NORMAL && i % 500 == 499) print_message("%llu cases\n", (unsigned long long)i + 1);
    }
    print_message("%llu cases, %d transfers and %d inserted copies in their plans\n",
                  (unsigned long long)n_seeds, n.transfers, n.copies);
    assert_true((n.transfers > 0 && n.copies > 0) || n_seeds < 100);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(kept_seeds), cmocka_unit_test(random_seeds)};
    if (argc > 2) first_seed = strtoull(argv[1], NULL, 10), n_seeds = strtoull(argv[2], NULL, 10);
    /* Figures that are measured here are nobody else's. */
    setenv("XDG_CACHE_HOME", PLAIT_BINARY_DIR "/test-cache", 1);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
